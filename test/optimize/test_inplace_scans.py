"""Scans that read and write arrays in place: which ones do, and that numbers equal JAX's."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir

# The option lets the pass apply to small arrays.
IN_PLACE = "jaxpr-inplace-scans{min-piece=0}"
X = np.random.RandomState(0).randn(5, 6, 4).astype(np.float32)


def run(function, *args):
    """The program after the pass, and its remarks."""
    remarks = []
    program = jaxmlir.trace(function)(*args).run_passes("jaxpr-inline,jaxpr-canonicalize")
    after = program.run_passes(IN_PLACE, remarks=remarks.append)
    after.verify()
    for got, want in zip(
        jax.tree.leaves(after(*args)), jax.tree.leaves(jax.jit(function)(*args)), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    return after, [remark.message.partition(": ")[2] for remark in remarks]


def scan(xs, *, reverse=False):
    """Runs a loop; returns its final carry and its stacked results."""

    def step(h, x):
        return jnp.sin(h) + x, h * x

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), xs)
    return lax.scan(step, zeros, xs, reverse=reverse)


READ = (
    lambda x: x[1:],
    lambda x: x[:-1],
    lambda x: x[1::2],
    lambda x: x[::-1],
    lambda x: x[::-2],
    lambda x: jnp.swapaxes(x, 0, 1),
    lambda x: jnp.moveaxis(x, 2, 0),
    lambda x: jnp.transpose(x)[1:-1],
    lambda x: x[1:, 2:5, :3],
    lambda x: x[:, 2],
    lambda x: x[2, :, 1:],
    lambda x: x[1:, None],
    lambda x: jnp.swapaxes(x[:, 1:, None], 0, 1),
    lambda x: x[:, :, 3],
)
WRITTEN = (
    lambda x, y: jnp.swapaxes(y, 0, 1),
    lambda x, y: jnp.moveaxis(y, 0, 2),
    lambda x, y: y[::-1],
    lambda x, y: jnp.concatenate([x[:1], y]),
    lambda x, y: jnp.concatenate([jnp.cos(x[:2]), y, x]),
    lambda x, y: jnp.concatenate([x, y], 1),
    lambda x, y: jnp.concatenate([x[:, 0, None], jnp.swapaxes(y, 0, 1)[:5]], 1)[:, ::-1],
    lambda x, y: jnp.swapaxes(y, 0, 1)[:, :, None],
)


@pytest.mark.compat
def test_two_results_that_are_put_among_the_same():
    """Ops after the loop move in front of it, and stay in front of their readers."""

    def function(xs):
        def step(h, x):
            return jnp.sin(h + x), (h * 2, h + x)

        _, (ys, zs) = lax.scan(step, xs[0], xs)
        first = jnp.sin(xs[:1])
        second = jnp.cos(first)
        return jnp.concatenate([second, ys, first]), jnp.concatenate([first, zs, second])

    _, found = run(function, X)
    assert found == ["0, written in place: 2"]


@pytest.mark.compat
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys(impl):
    """Random key types have no zeros."""

    def function(keys):
        def step(key, other):
            return jax.random.fold_in(key, 1), jax.random.fold_in(other, 2)

        rows = lax.scan(step, keys[0], keys[::-1], reverse=True)[1]
        filled = lax.fori_loop(0, 6, lambda i, c: c.at[i].set(rows[5 - i]), keys)
        return jnp.concatenate([keys[:2], rows[::-1]]), filled

    keys = jax.random.split(jax.random.key(0, impl=impl), 6)
    program = jaxmlir.trace(function)(keys)
    after = program.run_passes(f"jaxpr-inline,jaxpr-canonicalize,jaxpr-raise-loops,{IN_PLACE}")
    after.verify()
    for got, want in zip(after(keys), function(keys), strict=True):
        np.testing.assert_array_equal(jax.random.key_data(got), jax.random.key_data(want))


@pytest.mark.parametrize("reverse", [False, True])
def test_reads(reverse):
    after, said = run(lambda x: [scan(view(x), reverse=reverse) for view in READ], X)
    assert said == ["1, written in place: 0"] * len(READ)
    loops = [line for line in str(after).splitlines() if '"jaxpr.scan"' in line]
    assert all('"jaxpr.scan"(%arg0,' in line for line in loops)


@pytest.mark.parametrize("reverse", [False, True])
def test_writes(reverse):
    _, said = run(lambda x: [move(x, scan(x, reverse=reverse)[1]) for move in WRITTEN], X)
    assert said == ["0, written in place: 1"] * len(WRITTEN)


@pytest.mark.compat
def test_both_at_once():
    def function(x, y):
        def step(h, rows):
            x, y, z = rows
            return h + x * y, (h - y, z + h)

        final, (u, v) = lax.scan(step, jnp.zeros((5, 4)), (jnp.swapaxes(x, 0, 1), y, y[::-1]))
        return final, jnp.swapaxes(u, 0, 1), jnp.concatenate([v, y]), scan(y[1:])

    _, said = run(function, X, np.swapaxes(X, 0, 1).copy())
    assert said == ["2, written in place: 2", "1, written in place: 0"]


def test_loops_in_loops_and_shared_bodies():
    @jax.jit
    def inner(h, x):
        return lax.scan(lambda h, x: (jnp.tanh(h + x), h), h, jnp.swapaxes(x, 0, 1)[1:])

    def function(x):
        def step(h, x):
            return inner(h, x)

        h, first = inner(jnp.zeros(5), x[:, :, 0])
        _, ys = lax.scan(step, h, jnp.moveaxis(x, 2, 0))
        return first, ys

    _, said = run(function, X)
    assert said and set(said) == {"1, written in place: 0"}


@pytest.mark.compat
@pytest.mark.parametrize("reverse", [False, True])
def test_bodies_that_differ_in_constants(reverse):
    """Two loops share each of the bodies; other bodies are alike, but read other rows."""

    def function(x):
        h, found = jnp.zeros((5, 4)), []
        for start in (0, 0, 1):
            for rate in (0.5, 0.25, 2.0):

                @jax.jit
                def loop(h, xs, rate=rate):
                    def step(h, x):
                        return jnp.sin(h * rate) + x, h * x - rate

                    return lax.scan(step, h, xs, reverse=reverse)

                for _ in range(2):
                    h, ys = loop(h, jnp.swapaxes(x, 0, 1)[start:])
                    found.append(jnp.swapaxes(ys, 0, 1))
        return h, found

    _, said = run(function, X)
    assert set(said) == {"1, written in place: 1"} and len(said) == 18


@pytest.mark.compat
def test_types():
    def function(x):
        def step(n, x):
            return n + 1, jnp.where(n % 2 == 0, x, x[::-1])

        return jnp.moveaxis(lax.scan(step, 0, jnp.swapaxes(x[1:], 0, 1))[1], 0, 2)

    arrays = [X.astype(t) for t in (np.int32, np.uint8, np.bool_, jnp.bfloat16, np.complex64)]
    _, said = run(lambda *xs: list(map(function, xs)), *arrays)
    assert said == ["1, written in place: 1"] * len(arrays)


@pytest.mark.compat
def test_derivatives_of_what_was_written():
    def loss(x):
        ys = scan(jnp.swapaxes(x, 0, 1)[1:])[1]
        return jnp.sum(jnp.sin(jnp.concatenate([x[:, :1], jnp.swapaxes(ys, 0, 1)], 1)))

    program = jaxmlir.trace(loss)(X).optimize(1).run_passes(IN_PLACE)
    np.testing.assert_allclose(program.grad()(X), jax.grad(loss)(X), 1e-5, 1e-6)


def test_what_stays():
    """Arrays that are copied anyway or computed as a whole stay, and so do other targets' loops."""

    def copied(x):
        part = x[1:]
        return scan(part), jnp.sum(part @ part.swapaxes(1, 2))

    def computed(x):
        return scan(jnp.broadcast_to(x[:, None], (5, 9, 6, 4)).reshape(45, 6, 4)[:2])

    def read_twice(x):
        y = scan(x)[1]
        return jnp.swapaxes(y, 0, 1), jnp.sum(y)

    def of_its_own(x):
        h, y = scan(x)
        return jnp.concatenate([h[None], y])

    for function in (copied, computed, read_twice, of_its_own):
        assert not run(function, X)[1], function
    program = jaxmlir.trace(lambda x: scan(x[1:]))(X).optimize(1)
    assert str(program.run_passes("jaxpr-inplace-scans", target="tpu")) == str(program)


def test_what_is_far_from_the_loop_that_it_needs():
    """There are 400 steps between them with two paths each: too many paths to follow all."""

    def function(xs):
        h, ys = scan(xs)
        for _ in range(400):
            h = jnp.sin(h) * jnp.cos(h)
        return jnp.concatenate([h[None], ys])

    program = jaxmlir.trace(function)(X).optimize(1)
    assert str(program.run_passes(IN_PLACE)) == str(program)


@pytest.mark.parametrize(("row", "in_place"), [((16,), True), ((2, 8), True), ((15,), False)])
def test_short_pieces_are_copied(row, in_place):
    """A row along the second dimension consists of as many pieces as the first one has elements."""
    x = jnp.ones((20, 5, *row), np.float32)
    program = jaxmlir.trace(lambda x: scan(jnp.swapaxes(x, 0, 1))[0])(x).optimize(1)
    after = program.run_passes("jaxpr-inplace-scans")
    assert (str(after) != str(program)) == in_place


@pytest.mark.parametrize("shape", [(0, 5), (5, 0, 3), (0, 5, 2)])
def test_arrays_without_elements(shape):
    def function(x):
        return jnp.swapaxes(scan(jnp.swapaxes(x, 0, 1))[1], 0, 1)

    run(function, np.zeros(shape, np.float32))


def test_no_memory_is_taken():
    x = np.ones((64, 50, 32), np.float32)

    def function(x):
        return jnp.swapaxes(scan(jnp.swapaxes(x, 0, 1))[1], 0, 1)

    program = jaxmlir.trace(function)(x).optimize(1)
    bytes_ = [
        p.lower().compile().memory_analysis().temp_size_in_bytes
        for p in (program, program.run_passes(IN_PLACE))
    ]
    assert bytes_[0] > x.nbytes
    assert bytes_[1] < x.nbytes / 20


VIEWS = {
    "part": lambda x: x[1:, :-1],
    "steps": lambda x: x[::2],
    "back": lambda x: x[::-1],
    "turned": lambda x: jnp.flip(x, 1),
    "swapped": lambda x: jnp.swapaxes(x, 0, 1),
    "last first": lambda x: jnp.moveaxis(x, -1, 0),
    "unit": lambda x: x[:, None],
    "without": lambda x: x.reshape([n for n in x.shape if n != 1]),
    "more": lambda x: jnp.concatenate([x[:1], x]),
    "other": lambda x: 2 * x,
}
names = st.lists(st.sampled_from(sorted(VIEWS)), max_size=4)


@examples(6)
@hypothesis.given(names, names, st.booleans())
def test_random_views(before, after, reverse):
    def moved(x, names):
        for name in names:
            x = VIEWS[name](x)
        return x

    x = np.arange(7 * 9 * 8, dtype=np.float32).reshape(7, 9, 8) / 500
    run(lambda x: moved(scan(moved(x, before), reverse=reverse)[1], after), x)
