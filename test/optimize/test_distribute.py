"""Products with sums rewritten as sums of products: numbers equal JAX's."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata
from sampling import examples

import jaxmlir

ALWAYS = "jaxpr-canonicalize,jaxpr-cse,jaxpr-reassociate{min-gain=0}"
RNG = np.random.RandomState(0)
N = 6


def array(*shape):
    return RNG.randn(*shape).astype(np.float32)


TERMS = {
    "identity": lambda a: jnp.eye(N),
    "diagonal": lambda a: jnp.diag(jnp.exp(a[0])),
    "outer": lambda a: 2 * jnp.outer(a[0], a[1]) / jnp.dot(a[0], a[0]),
    "thin": lambda a: a[:, :2] @ a[:2],
    "constant": lambda a: jnp.full((N, N), 0.5),
    "data": lambda a: a,
    "number": lambda a: a[0, 0],
    "row": lambda a: a[0] * 3,
}


@examples(30)
@hypothesis.given(st.data())
def test_random_sums(data):
    kinds = data.draw(st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=4))
    signs = data.draw(st.lists(st.sampled_from("+-t"), min_size=4, max_size=4))
    left, used = data.draw(st.booleans()), data.draw(st.booleans())
    batch = data.draw(st.sampled_from([(), (3,)]))
    x, factors = array(*batch, N, N), array(len(kinds), N, N)

    def function(x, factors):
        total = jnp.eye(N)
        for kind, sign, a in zip(kinds, signs, factors, strict=False):
            term = TERMS[kind](a)
            if sign == "t":
                total = (total + term).T
            else:
                total = total + term if sign == "+" else total - term
        product = total @ x if left else x @ total
        return product, total if used else 0.0

    program = jaxmlir.trace(function)(x, factors).optimize(1)
    after = program.run_passes(ALWAYS)
    after.verify()
    for got, want in zip(after(x, factors), function(x, factors), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


REFLECTED = 160


def reflected(v, x):
    for k in range(len(v)):
        x = x @ (jnp.eye(REFLECTED) - 2 * jnp.outer(v[k], v[k]) / jnp.dot(v[k], v[k]))
    return jnp.sum(jnp.sin(x))


@pytest.mark.compat
def test_reflections_make_no_matrix():
    v, x = array(4, REFLECTED), array(32, REFLECTED)
    after = jaxmlir.trace(reflected)(v, x).optimize(2).grad().optimize(2)
    assert f"{REFLECTED}x{REFLECTED}" not in str(after)
    np.testing.assert_allclose(after(v, x), jax.jit(jax.grad(reflected))(v, x), 1e-3, 1e-3)


def test_differences_of_data_stay():
    """The difference of two arrays of large, close numbers is exact; that of products is not."""
    x, masses = 1e4 + array(200, 3), np.ones((1, 200), np.float32)

    def forces(x, masses):
        return jax.vmap(lambda a: masses @ (x - a))(x)

    program = jaxmlir.trace(forces)(x, masses).optimize(1)
    after = program.run_passes("jaxpr-reassociate{min-gain=0}")
    assert str(after) == str(program)

    def total(x, y, shift, w):
        return jnp.sum((x[:, None] - y + shift) @ w), ((x[:, None] + shift) - y) @ w

    args = *np.full((2, 64), 1e8, np.float32), np.ones(64, np.float32), array(64, 8)
    for got, want in zip(
        jaxmlir.trace(total)(*args).optimize(2)(*args), jax.jit(total)(*args), strict=True
    ):
        np.testing.assert_allclose(got, want, 1e-5, 1e-3)


def test_what_is_asked_of_a_sum_is_not_lost():
    w, thin, x = array(64, 64), array(64, 2), array(4, 64)

    def function(w, thin, x):
        update = thin @ thin.T
        with set_xla_metadata(where="there"):
            total = w + update
        return x @ total

    program = jaxmlir.trace(function)(w, thin, x).optimize(1)
    after = program.run_passes("jaxpr-reassociate{min-gain=0}")
    assert str(after) == str(program)
    assert "there" in str(after)


def test_long_chains_of_multiples():
    def function(x, y, number):
        for _ in range(700):
            x = x * number
        return (x + y) @ y

    x, y, number = array(4, 4), array(4, 4), np.float32(0.99)
    after = jaxmlir.trace(function)(x, y, number).run_passes("jaxpr-reassociate")
    np.testing.assert_allclose(after(x, y, number), function(x, y, number), rtol=1e-3)


def test_what_does_not_pay_stays():
    """The factor ``x`` has too many rows for two thin products to be cheaper."""
    w, thin, x = array(64, 64), array(64, 8), array(512, 64)

    def function(w, thin, x):
        return x @ (w + thin @ thin.T)

    program = jaxmlir.trace(function)(w, thin, x).optimize(1)
    assert str(program.run_passes("jaxpr-reassociate")) == str(program)


@pytest.mark.parametrize("in_loop", [False, True])
def test_updates_of_low_rank(in_loop):
    """For few rows the update is distributed; in a loop the sum is invariant, and stays."""
    w, thin, x = array(256, 256), array(256, 4), array(4, 256)

    def function(w, thin, x):
        def step(x):
            return jnp.tanh(x @ (w + thin @ thin.T))

        if not in_loop:
            return step(x)
        return jax.lax.scan(lambda x, _: (step(x), None), x, None, 1000)[0]

    program = jaxmlir.trace(function)(w, thin, x).optimize(1)
    after = program.run_passes("jaxpr-reassociate")
    assert (str(after) == str(program)) == in_loop
    np.testing.assert_allclose(after(w, thin, x), jax.jit(function)(w, thin, x), 1e-2, 1e-2)


def test_of_products_that_look_alike_those_that_pay():
    """Of products of equal types, those with loop-invariant sums stay, the others are rewritten."""
    w, fixed, rows, x = array(256, 256), array(2, 256, 4), array(2, 50, 256, 4), array(4, 256)

    def function(w, a, b, rows, x):
        def step(x, row):
            for thin in (a, row[0], b, row[1]):
                x = jnp.tanh(1 + x @ (w + thin @ thin.T) / 512)
            return x, None

        return jax.lax.scan(step, x, rows)[0]

    args = w, *fixed, tuple(rows), x
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes("jaxpr-reassociate")
    squares = [str(p).count("-> tensor<256x256xf32>") for p in (program, after)]
    # Each remaining update has the product of two thin factors, and the sum.
    assert squares == [8, 4]
    np.testing.assert_allclose(after(*args), jax.jit(function)(*args), 1e-2, 1e-2)
