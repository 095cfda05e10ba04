"""Loops with several iterations unrolled into one give the same results."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

NAME = "jaxpr-unroll-scans"
RNG = np.random.RandomState(0)


def recurrent(w, xs, reverse=False):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, (jnp.sin(h), jnp.sum(x))

    h, (rows, sums) = lax.scan(step, xs[0], xs, reverse=reverse)
    return jnp.sum(h) + jnp.sum(rows**2) + jnp.sum(jnp.cos(sums))


def unrolled(program, **options):
    return program.run_passes(NAME, target="cuda", **options)


@pytest.mark.compat
@hypothesis.settings(max_examples=8, deadline=None)
@hypothesis.given(st.sampled_from([1, 2, 5, 8, 17, 40]), st.booleans())
def test_gradients_are_those_of_jax(length, reverse):
    w, xs = RNG.rand(3, 3).astype(np.float32), RNG.rand(length, 3).astype(np.float32)

    def loss(w, xs):
        return recurrent(w, xs, reverse)

    gradient = unrolled(jaxmlir.trace(loss)(w, xs).value_and_grad((0, 1)))
    gradient.verify()
    assert ("unroll" in str(gradient)) == (length > 1)
    want = jax.value_and_grad(loss, (0, 1))(w, xs)
    # Parsed from text, so that calling it compiles the program as it is.
    got = jaxmlir.parse(str(gradient))(w, xs)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, 2e-5, 2e-5)


def test_loops_of_loops_and_long_steps_are_left_alone():
    def nested(xs):
        return lax.scan(lambda c, x: (c + recurrent(jnp.eye(3), x), None), 0.0, xs)[0]

    text = str(unrolled(jaxmlir.trace(nested)(jnp.ones((8, 6, 3)))))
    assert text.count("unroll") == 1

    def product(w):
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), w, None, length=16)[0]

    for size, expected in ((32, True), (4096, False)):
        w = jax.ShapeDtypeStruct((size, size), np.float32)
        assert ("unroll" in str(unrolled(jaxmlir.trace(product)(w)))) == expected


def test_a_level_unrolls_for_gpus_alone():
    program = jaxmlir.trace(recurrent)(jnp.ones((3, 3)), jnp.ones((40, 3)))
    texts = {t: str(program.optimize(2, target=t)) for t in ("cpu", "cuda", "rocm", "tpu")}
    assert {t for t, text in texts.items() if "unroll" in text} == {"cuda", "rocm"}
    kept = jaxmlir.trace(lambda x: lax.scan(lambda c, y: (c * y, c), 1.0, x, unroll=2))(jnp.ones(9))
    assert "unroll = 2" in str(kept.optimize(2, target="cuda"))
