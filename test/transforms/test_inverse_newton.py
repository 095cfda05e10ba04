"""Inverses by Newton's method at run time, and log-determinants computed forwards."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.errors import TransformError

pytestmark = pytest.mark.compat

POINTS = np.array([-3e4, -3.0, -1e-7, 0.0, 2e-5, 0.3, 2.0, 1e6])


def twice(x):
    return x + 0.5 * jnp.tanh(x)


def falling(x):
    return -2 * x - jnp.sin(x)


def positive(x):
    return jnp.log(x) + x


def open_interval(x):
    return jnp.log(x) - jnp.log1p(-x) + 3 * x


def kinked(x):
    return jnp.where(x > 0, x, 0.1 * x) + x


def cubic(x):
    return x**3 + x


def unit_interval(x):
    return np.clip(np.abs(x) / 4, 1e-6, 0.9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("f", "domain"),
    [
        (twice, None),
        (falling, None),
        (positive, lambda x: np.abs(x) + 1e-3),
        (open_interval, unit_interval),
        (kinked, None),
        (cubic, None),
    ],
    ids=["twice", "falling", "positive", "open_interval", "kinked", "cubic"],
)
def test_a_monotone_function_is_inverted_to_the_last_digits(f, domain, dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(POINTS if domain is None else domain(POINTS), dtype)
        inverse = jaxmlir.trace(f)(x).inverse(newton=True)
        found = inverse(f(x))
        # The function's own rounding limits the accuracy of its inverse.
        _, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
        eps = jnp.finfo(dtype).eps
        tolerance = 4 * eps * (jnp.abs(x) + jnp.abs(f(x) / slope) + 1 / jnp.abs(slope))
        assert found.dtype == dtype
        assert (jnp.abs(found - x) <= tolerance).all(), (found, x)


def test_an_unknown_in_half_precision():
    x = jnp.asarray(POINTS[1:-1], jnp.float16)
    found = jaxmlir.trace(twice)(x).inverse(newton=True)(twice(x))
    np.testing.assert_allclose(twice(found), twice(x), rtol=1e-3, atol=1e-4)


def test_derivatives_are_those_of_the_implicit_function():
    with jax.enable_x64(True):
        inverse = jaxmlir.trace(lambda x, a: x + a * jnp.tanh(x))(1.0, 0.5).inverse(0, newton=True)
        x, a = 0.7, 0.5
        y = x + a * np.tanh(x)
        t = np.tanh(x)
        first = 1 / (1 + a * (1 - t**2))
        second = 2 * a * t * (1 - t**2) * first**3
        assert jax.grad(inverse)(y, a) == pytest.approx(first, rel=1e-12)
        assert jax.grad(inverse, 1)(y, a) == pytest.approx(-t * first, rel=1e-12)
        assert jax.grad(jax.grad(inverse))(y, a) == pytest.approx(second, rel=1e-10)
        assert inverse.grad()(y, a) == pytest.approx(first, rel=1e-12)


def test_it_is_batched_and_saved():
    inverse = jaxmlir.trace(twice)(1.0).inverse(newton=True)
    x = jnp.asarray(POINTS, jnp.float32)
    contents = io.BytesIO()
    inverse.save(contents)
    loaded = jaxmlir.load(io.BytesIO(contents.getvalue()))
    np.testing.assert_allclose(loaded.vmap(axis_size=x.size)(twice(x)), x, rtol=1e-6)


def test_the_rest_follows_from_what_was_solved():
    def f(params, x):
        a, b = jnp.split(x, 2)
        b = jax.nn.softplus(b) + b * jnp.exp(params @ a)
        return jnp.concatenate([a + 0.1 * jnp.sin(a), 3 * b])

    params, x = 0.3 * jnp.ones((2, 2)), jnp.array([0.3, -1.0, 2.0, -0.4])
    program = jaxmlir.trace(f)(params, x)
    found, log_det = program.inverse_and_log_det(argnums=1, newton=True)(f(params, x), params)
    expected = jnp.linalg.slogdet(jax.jacfwd(f, 1)(params, x))[1]
    np.testing.assert_allclose(found, x, rtol=1e-5)
    np.testing.assert_allclose(log_det, -expected, rtol=1e-5)


def test_a_loop_is_inverted_step_by_step():
    def f(x):
        return lax.fori_loop(0, 4, lambda i, c: c + 0.5 * jnp.tanh(c) + i, x)

    x = jnp.array([-1.0, 0.5])
    inverse = jaxmlir.trace(f)(x).inverse(newton=True)
    np.testing.assert_allclose(inverse(f(x)), x, rtol=1e-5)


def test_where_there_is_no_root_the_result_is_nan():
    inverse = jaxmlir.trace(lambda x: jnp.tanh(x) + jnp.tanh(x / 2))(jnp.ones(3)).inverse(
        newton=True
    )
    found = inverse(jnp.array([3.0, -5.0, np.nan]))
    assert np.isnan(found).all()
    jump = jaxmlir.trace(lambda x: x + jnp.floor(x))(jnp.ones(2)).inverse(newton=True)
    np.testing.assert_array_equal(jump(jnp.array([2.5, 3.5])), [1.5, np.nan])


def test_what_is_lost_stays_an_error():
    for f in (jnp.floor, jnp.abs, lambda x: jnp.maximum(x, 0)):
        with pytest.raises(TransformError, match="cannot be inverted"):
            jaxmlir.trace(f)(1.0).inverse(newton=True)


def test_the_error_says_what_to_do():
    with pytest.raises(TransformError) as caught:
        jaxmlir.trace(twice)(1.0).inverse()
    said = str(caught.value)
    assert "its operands 0 and 1 are unknown" in said
    assert "jaxmlir.custom_inverse" in said
    assert "newton=True" in said
    assert said.count("note:") == 1


@pytest.mark.parametrize("f", [lambda x: jnp.sum(x**2), lambda x: x @ x, jnp.floor])
def test_newton_is_not_suggested_where_it_does_not_help(f):
    with pytest.raises(TransformError, match="jaxmlir.custom_inverse") as caught:
        jaxmlir.trace(f)(jnp.ones(3)).inverse()
    assert "newton=True" not in str(caught.value)


# --- forwards -------------------------------------------------------------------------------------


def coupling(params, x):
    a, b = jnp.split(x, 2)
    b = jax.nn.softplus(b) * jnp.exp(jnp.tanh(params @ a))
    return jnp.concatenate([b, a])


def two_layers(params, x):
    return jax.jit(coupling)(params.T, jax.jit(coupling)(params, x))


def loop(params, x):
    def step(x, p):
        return jnp.sinh(x * jnp.exp(p.sum())), None

    return lax.scan(step, x, 0.1 * params)[0]


def scanned_layers(params, x):
    def step(x, p):
        return coupling(p, x), x.sum()

    return lax.scan(step, x, jnp.stack([params, 2 * params, params.T]))[0]


def branches(params, x):
    return lax.cond(params[0, 0] > 0, jnp.sinh, lambda x: 3 * x, x) * params[0, 1]


@pytest.mark.parametrize("f", [coupling, two_layers, loop, scanned_layers, branches])
def test_forward_and_log_det(f):
    params, x = jnp.array([[0.3, -0.2], [0.1, 0.4]]), jnp.array([0.3, 1.0, 2.0, 0.4])
    program = jaxmlir.trace(f)(params, x)
    forward = program.forward_and_log_det(argnums=1)

    def dense(params, x):
        return jnp.linalg.slogdet(jax.jacfwd(f, 1)(params, x))[1]

    y, log_det = forward(params, x)
    # XLA fuses a loop with more results differently; op by op the numbers are the same.
    np.testing.assert_array_max_ulp(y, f(params, x), 0 if f is not loop else 1)
    np.testing.assert_array_equal(forward.eval(params, x)[0], program.eval(params, x))
    np.testing.assert_allclose(log_det, dense(params, x), rtol=1e-5)
    # The gradient of the log-determinant, with which flows are trained.
    found = jax.grad(lambda p: forward(p, x)[1])(params)
    np.testing.assert_allclose(found, jax.grad(dense)(params, x), rtol=1e-4)


def test_forwards_nothing_is_inverted():
    params, x = jnp.eye(2), jnp.ones(4)
    forward = jaxmlir.trace(two_layers)(params, x).forward_and_log_det(1)
    assert "log_det" in str(forward)
    assert "expm1" not in str(forward)  # the inverse of softplus uses expm1
    assert "atanh" not in str(forward)


def test_forwards_a_side_effect_happens_once(capfd):
    def f(x):
        jax.debug.print("x is {}", x)
        return jnp.exp(x) * 2

    y, log_det = jaxmlir.trace(f)(1.0).forward_and_log_det()(1.0)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x is 1.0") == 1
    assert log_det == pytest.approx(1 + np.log(2))
    assert y == pytest.approx(2 * np.e)


def test_forwards_a_monotone_function_needs_no_iteration():
    forward = jaxmlir.trace(twice)(jnp.ones(3)).forward_and_log_det(newton=True)
    x = jnp.array([-1.0, 0.2, 3.0])
    assert "while" not in str(forward)
    expected = jnp.linalg.slogdet(jax.jacfwd(twice)(x))[1]
    np.testing.assert_allclose(forward(x)[1], expected, rtol=1e-6)


def test_forwards_a_loop_runs_once_and_nothing_in_it_is_inverted():
    def layers(x):
        return lax.scan(lambda x, _: (twice(x), None), x, None, length=3)[0]

    x = jnp.array([-1.0, 0.2, 3.0])
    forward = jaxmlir.trace(layers)(x).forward_and_log_det(newton=True)
    assert str(forward).count("jaxpr.scan") == 1
    assert "while" not in str(forward)
    expected = jnp.linalg.slogdet(jax.jacfwd(layers)(x))[1]
    np.testing.assert_allclose(forward(x)[1], expected, rtol=1e-6)


def test_batched_samples_have_log_determinants_of_their_own():
    params, x = 0.2 * jnp.ones((2, 2)), jnp.arange(12.0).reshape(3, 4) / 5
    program = jaxmlir.trace(coupling)(params, x[0])
    each = program.inverse_and_log_det(argnums=1).vmap(in_axes=(0, None), axis_size=3)
    y = jax.vmap(coupling, (None, 0))(params, x)
    found, log_dets = each(y, params)
    dense = jax.vmap(lambda x: -jnp.linalg.slogdet(jax.jacfwd(coupling, 1)(params, x))[1])(x)
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(log_dets, dense, rtol=1e-4)
