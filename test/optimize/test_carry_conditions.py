"""Loops that carry the values that their condition computes from arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

NAME = "jaxpr-carry-conditions"
RNG = np.random.RandomState(0)
X = RNG.rand(20).astype(np.float32)


def fixed_point(a, x, tolerance):
    """Both norms read the previous array, which nothing else reads."""

    def unfinished(state):
        x, before, steps = state
        far = jnp.max(jnp.abs(x - before)) > tolerance * (1 + jnp.sum(before**2))
        return far & (steps < 30)

    def step(state):
        x, _, steps = state
        return jnp.cos(a * x), x, steps + 1

    x, _, steps = lax.while_loop(unfinished, step, (x, x + 1, 0))
    return x, steps


@pytest.mark.compat
def test_loops_run_as_often_as_those_of_jax():
    program = jaxmlir.trace(fixed_point)(X, X, 1e-3).optimize(1)
    carried = program.run_passes(NAME, target="tpu")
    carried.verify()
    (loop,) = (line for line in str(carried).splitlines() if "jaxpr.while" in line)
    assert loop.endswith("-> (tensor<20xf32>, tensor<i32, {weak_type}>, tensor<f32>, tensor<f32>)")
    for tolerance in (1e-3, 1e-1, 10.0, np.nan):
        got, want = carried(X, X, tolerance), fixed_point(X, X, tolerance)
        assert got[1] == want[1]
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
    args, tangents = (X, X, np.float32(1e-3)), (X, X, np.float32(1))
    got = program.optimize(2, target="tpu").jvp()(args, tangents)[1]
    want = jax.jvp(lambda *args: fixed_point(*args)[0], args, tangents)[1]
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-6)
    batch = np.stack([X, 2 * X])
    got = carried.vmap((0, None, None), axis_size=2)(batch, X, 1e-3)
    want = jax.vmap(lambda a: fixed_point(a, X, 1e-3))(batch)
    np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("step", "result"),
    [(lambda x, y: (jnp.cos(x), x), 1), (lambda x, y: (jnp.cos(x + y), x), 0)],
    ids=["given", "read"],
)
def test_arrays_that_others_need_are_carried(step, result):
    def loop(x):
        return lax.while_loop(lambda s: jnp.sum(s[0] - s[1]) > 0, lambda s: step(*s), (x, -x))[
            result
        ]

    program = jaxmlir.trace(loop)(X).optimize(1)
    assert str(program.run_passes(NAME, target="tpu")) == str(program)


def test_a_loop_in_a_condition_is_changed_before_the_condition_is_copied():
    def cosines(x):
        return lax.while_loop(
            lambda s: jnp.max(jnp.abs(s[0] - s[1])) > 1e-2,
            lambda s: (jnp.cos(s[0]), s[0]),
            (x, x + 1),
        )[0]

    def step(state):
        x, _, count = state
        return lax.while_loop(lambda y: jnp.sum(y) > 3, lambda y: y / 2, x + 1), x, count + 1

    def loop(x):
        def unfinished(state):
            return (jnp.max(cosines(state[0]) - state[1]) > 1e-3) & (state[2] < 6)

        return lax.while_loop(unfinished, step, (x, x + 1, 0))[0]

    carried = jaxmlir.trace(loop)(X).optimize(1).run_passes(NAME, target="tpu")
    carried.verify()
    np.testing.assert_allclose(carried(X), loop(X), rtol=1e-6)
