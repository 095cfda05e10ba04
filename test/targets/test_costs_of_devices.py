"""Rewrites that pay on a CPU are not applied for a device whose compiler has other costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.nn import logsumexp

import jaxmlir
from jaxmlir import targets

RNG = np.random.RandomState(0)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def forward_algorithm(transitions, x):
    """Exponentials of 64 x 64 numbers, in each of 200 iterations."""
    return lax.fori_loop(0, 200, lambda _, x: logsumexp(transitions + x[:, None], 0), x)


def layer_on_edges(x, w, senders):
    """Rows of 16 numbers, which take as much memory as 128 on a TPU."""
    return x[senders] @ w


def by_inverse(a, y):
    """An inverse for one vector; a solve would compute the unknowns one after another."""
    return jnp.linalg.inv(a) @ y


def recurrence(x, w):
    """Nine values of an iteration can be recomputed elementwise from one of them."""

    def step(h, _):
        y = jnp.sin(h * w) * jnp.exp(-h * h) + jnp.cos(h)
        return y / (1 + y * y), None

    return jnp.sum(lax.scan(step, x, length=64)[0])


def reaction(u, v):
    """The kernel of a product that is stored stores its factors: the states, as they come in."""

    def step(state, _):
        u, v = state
        r = u * v * v
        return (u - 0.1 * r, v + 0.1 * r), None

    u, v = lax.scan(step, (u, v), length=64)[0]
    return jnp.sum(u * v)


PROGRAMS = {
    "jaxpr-factor-logsumexp": (forward_algorithm, array(64, 64), array(64)),
    "jaxpr-gather-dot": (
        layer_on_edges,
        array(100, 16),
        array(16, 16),
        RNG.randint(0, 100, 2000).astype(np.int32),
    ),
    "jaxpr-reassociate-solves": (by_inverse, array(64, 64) + 20 * np.eye(64, dtype="f"), array(64)),
    "jaxpr-remat": (jax.grad(reaction), 0.1 * array(32, 128), 0.1 * array(32, 128)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_leaves_on_a_tpu_what_does_not_pay_there(name):
    function, *args = PROGRAMS[name]
    program = jaxmlir.trace(function)(*args).optimize(1)
    for_host, for_tpu = (program.run_passes(name, target=t) for t in ("cpu", "tpu:v5e"))
    assert for_host.as_text() != program.as_text()
    assert for_tpu.as_text() == program.as_text()
    want = function(*args)
    for optimized in (for_host, for_tpu):
        np.testing.assert_allclose(optimized(*args), want, rtol=2e-3, atol=1e-3)


def test_kernels_are_saved_where_fewer_values_are_stored_on_a_tpu():
    args = array(32, 64), array(32, 64)
    program = jaxmlir.trace(jax.grad(recurrence))(*args).optimize(1)
    stored = {}
    for target in ("tpu:v5e", "cuda:h100"):
        remarks = []
        after = program.run_passes("jaxpr-remat", target=target, remarks=remarks.append)
        stored[target] = "".join(remark.message for remark in remarks)
        np.testing.assert_allclose(after(*args), jax.grad(recurrence)(*args), rtol=2e-4, atol=1e-5)
    assert "2 values, not 9" in stored["tpu:v5e"]
    assert stored["cuda:h100"] == ""


def online_softmax(q, k, v):
    """Attention over blocks of keys: the loop carries maxima, sums and weighted sums of values."""

    def step(carry, block):
        (m, total, acc), (k, v) = carry, block
        scores = q @ k.T
        new = jnp.maximum(m, scores.max(-1))
        p, scale = jnp.exp(scores - new[:, None]), jnp.exp(m - new)
        return (new, total * scale + p.sum(-1), acc * scale[:, None] + p @ v), None

    n = len(q)
    start = jnp.full(n, -1e30, q.dtype), jnp.zeros(n, q.dtype), jnp.zeros_like(q)
    _, total, acc = lax.scan(step, start, (k, v))[0]
    return jnp.sum((acc / total[:, None]) ** 2)


def test_inner_loops_are_not_run_again_on_a_tpu():
    """Ten steps between observations: each of them starts kernels, however few its elements are."""

    def observed(rates, start):
        def observe(s, _):
            s = lax.fori_loop(0, 10, lambda _, s: s + rates * jnp.sin(s) * s[::-1], s)
            return s, s

        return jnp.sum(lax.scan(observe, start, None, length=8)[1] ** 2)

    args = array(64), array(64)
    program = jaxmlir.trace(jax.grad(observed))(*args).optimize(1)
    after = program.run_passes("jaxpr-remat", target="tpu:v5e")
    # Two pairs of loops, one in the other.
    assert after.as_text().count('"jaxpr.scan"') == 4
    np.testing.assert_allclose(after(*args), jax.grad(observed)(*args), rtol=2e-4, atol=1e-5)


def test_masks_are_computed_again_rather_than_stored_on_a_tpu():
    """Masks have other tiles than floats, and no kernel stores both."""
    args = array(16, 8), array(12, 4, 8), array(12, 4, 8)
    program = jaxmlir.trace(jax.grad(online_softmax))(*args).optimize(1)
    remarks = []
    after = program.run_passes("jaxpr-remat", target="tpu:v5e", remarks=remarks.append)
    np.testing.assert_allclose(after(*args), jax.grad(online_softmax)(*args), rtol=1e-3, atol=1e-4)
    assert "7 values, not 10" in "".join(remark.message for remark in remarks)
    # The mask of the maxima is stored as floats.
    assert "tensor<12x16x4xi1>" not in after.as_text()


def test_what_is_stored_for_a_product_after_the_loop_is_there_for_the_second_loop_on_a_tpu():
    """Biases are summed up after the loop, too, as what they are sums of is stored for products."""

    def loss(parameters, xs):
        def cell(h, x):
            gates = jnp.concatenate([x, h], -1) @ parameters["w"]
            gates = gates + parameters["of_x"] + parameters["of_h"]
            z, n = jnp.split(gates, 2, -1)
            return h + jax.nn.sigmoid(z) * (jnp.tanh(n) - h), None

        return jnp.sum(lax.scan(cell, jnp.zeros((8, 16), "f"), xs)[0] ** 2)

    biases = {"of_x": array(32), "of_h": array(32)}
    args = {"w": array(32, 32), **biases}, array(20, 8, 16)
    program = jaxmlir.trace(jax.grad(loss))(*args).optimize(1)
    after = program.run_passes("jaxpr-remat", target="tpu:v5e")
    # The contracting dimensions of a product over iterations and the batch.
    numbers = "dimension_numbers = [[array<i64: 0, 1>, array<i64: 0, 1>], [[], []]]"
    assert numbers not in program.as_text()
    assert numbers in after.as_text()
    # The second loop carries the cotangent of the state, and no sum.
    assert "num_carry = 4 : i64, num_consts = 1 : i64, reverse = true" in program.as_text()
    assert "num_carry = 1 : i64, num_consts = 1 : i64, reverse = true" in after.as_text()
    jax.tree.map(
        lambda got, want: np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4),
        after(*args),
        jax.grad(loss)(*args),
    )


def test_wide_rows_are_selected_after_the_product_on_a_tpu_too():
    args = array(100, 128), array(128, 128), PROGRAMS["jaxpr-gather-dot"][3]
    program = jaxmlir.trace(layer_on_edges)(*args).optimize(1)
    after = program.run_passes("jaxpr-gather-dot", target="tpu:v5e")
    assert "tensor<100x128xf32>, tensor<128x128xf32>) -> tensor<100x128xf32>" in after.as_text()


def test_devices_wait_for_kernels_and_hosts_do_not():
    waits = {name: targets.target(name).costs.waits_for_kernels for name in targets.target_names()}
    assert {name for name, wait in waits.items() if not wait} == {"cpu"}


@pytest.mark.compat
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_the_sums_of_a_softmax_are_a_column_of_its_product_on_a_tpu(first):
    def loss(q, k, w):
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
        # The op is written after the sum, although it is needed before.
        v = jnp.tanh(k @ w)
        sides = ("bhqk,bkhd", weights, v) if first else ("bkhd,bhqk", v, weights)
        mixed = jnp.einsum(f"{sides[0]}->bqhd", *sides[1:])
        return jnp.sum(mixed**2) + jnp.sum(weights[..., 0] ** 2)

    args = array(2, 256, 3, 8), array(2, 256, 3, 8), array(8, 8)
    gradient = jaxmlir.trace(loss)(*args).value_and_grad((0, 1, 2)).optimize(1)
    after = gradient.run_passes("jaxpr-sum-in-products", target="tpu:v5e")
    after.verify()
    assert "256x9xf32" in after.as_text() or "9x256xf32" in after.as_text()
    # Compiled here, as it was written for the other target.
    got = jaxmlir.parse(after.as_text())(*args)
    want = jax.value_and_grad(loss, (0, 1, 2))(*args)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_gradients_of_biases_are_products_on_a_tpu():
    def loss(layers, x):
        for w, b in layers:
            x = jax.nn.relu(x @ w + b)
        return jnp.mean(x**2)

    args = [(array(32, 32), array(32)) for _ in range(2)], array(8, 512, 32)
    gradient = jaxmlir.trace(loss)(*args).grad().optimize(1)
    after = gradient.run_passes("jaxpr-sum-in-products", target="tpu:v5e")
    after.verify()
    summed = "(tensor<8x512x32xf32>) -> tensor<32xf32>"
    assert [p.as_text().count(summed) for p in (gradient, after)] == [2, 0]
    got, want = jaxmlir.parse(after.as_text())(*args), jax.grad(loss)(*args)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def test_loops_start_with_arrays_behind_barriers_on_a_tpu():
    def loss(a, xs):
        def step(h, x):
            return jnp.tanh(a @ h + x), h

        return jnp.sum(jax.lax.scan(step, jnp.zeros(8), xs)[1] ** 2)

    args = array(8, 8), array(20, 8)
    after = jaxmlir.trace(loss)(*args).grad().optimize(2, target="tpu:v5e")
    # Of the state, and of the cotangents of the matrix and of the state.
    assert 2 <= after.as_text().count("optimization_barrier") <= 3
    got, want = jaxmlir.parse(after.as_text())(*args), jax.grad(loss)(*args)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


INF, NAN = np.inf, np.nan
ROWS = [[1, -2, 3], [-INF, 0, 1], [-INF] * 3, [INF, 1, -INF], [NAN, 0, 1], [3e38, -3e38, 0]]


def greatest(x, axis=1):
    m = lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    return jnp.where(jnp.isfinite(m), m, 0)


def masked(x, y):
    """A row without a term has exponentials of large numbers, which are multiplied by zeros."""
    e = jnp.exp(y - greatest(x)) * (x > -INF)
    total = jnp.sum(e, 1)
    return jnp.where(total == 0, 0, e[:, 0] / total)


def reused(x, y):
    m = lax.stop_gradient(jnp.max(x, 1))
    is_finite = jnp.isfinite(m)
    m = jnp.where(is_finite, m, 0)
    return jnp.where(is_finite, m + jnp.log(jnp.sum(jnp.exp(x - m[:, None]), 1)), -7)


def finite_terms(x, y):
    """Terms that are not finite are left out of the sum, but not of the maximum."""
    e = jnp.where(jnp.isfinite(x), jnp.exp(x - greatest(x)), 0)
    return jnp.log(jnp.sum(e, 1, keepdims=True)) + greatest(x)


def of_all(x, y):
    """One maximum for all rows, which is infinite if a single row is."""
    m = greatest(x[:4], None)[0, 0]
    return jnp.log(jnp.sum(jnp.exp(x[:4] - m), 1)) + m


MAXIMA = {
    "log-sum-exp": (lambda x, y: logsumexp(x, 1), 1),
    "finite terms": (finite_terms, 1),
    "of all": (of_all, 1),
    "another use of the test": (reused, 0),
    "other terms": (
        lambda x, y: jnp.log(jnp.sum(jnp.exp(y - greatest(x)), 1)) + greatest(x)[:, 0],
        0,
    ),
    "masked": (masked, 0),
}


@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_of_finite_terms_give_the_same_on_a_tpu(name):
    function, bounded = MAXIMA[name]
    args, remarks = (np.array(ROWS, np.float32), array(6, 3)), []
    program = jaxmlir.trace(function)(*args).optimize(1)
    program = program.run_passes("jaxpr-bound-maxima", target="tpu:v5e", remarks=remarks.append)
    assert len(remarks) == bounded
    # Compiled here, as it was written for the other target.
    program = jaxmlir.parse(program.as_text())
    for transform in (lambda f: f, jax.jacrev):
        got, want = transform(program)(*args), transform(function)(*args)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_put_together_is_taken_apart_by_one_kernel_on_a_tpu():
    """Sums of the states of an unrolled loop, which are not concatenated before."""

    def states(x, w, v):
        total = 0.0
        for _ in range(12):
            x = jnp.tanh(x @ w)
            total += jnp.sum((x @ v - 1) ** 2)
        return total

    program = jaxmlir.trace(states)(array(16, 64), array(64, 64), array(64, 64)).optimize(1)
    assert "12x16x64" in str(program.run_passes("jaxpr-slp-vectorize", target="tpu"))
