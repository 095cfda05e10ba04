"""Sines, cosines and tangents as polynomials, against JAX's, and NumPy's in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir._compat import core, jax_version
from jaxmlir.dialect.builder import only_user
from jaxmlir.optimize.cpu import expand_trigonometry

pytestmark = pytest.mark.compat

EXPAND = "jaxpr-expand-trigonometry{calls=inf}"
RNG = np.random.RandomState(0)
FUNCTIONS = {"sin": (jnp.sin, np.sin), "cos": (jnp.cos, np.cos), "tan": (jnp.tan, np.tan)}


def expanded(function, *args, target="cpu"):
    return jaxmlir.trace(function)(*args).run_passes(EXPAND, target=target)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nearer_than_a_unit_in_the_last_place(name):
    """Checks numbers of all sizes, and the number nearest to a multiple of a quarter turn."""
    function, exact = FUNCTIONS[name]
    x = np.concatenate([2.0**e * RNG.uniform(1, 2, 2000) for e in range(-30, 128)])
    x = np.append(x, 16367173.0 * 2.0**72).astype(np.float32)
    x = np.concatenate([x, -x])
    program = expanded(function, x)
    program.verify()
    assert f'"jaxpr.{name}"' not in str(program)
    wanted = exact(x.astype(np.float64))
    distance = np.abs(np.asarray(program(x), np.float64) - wanted)
    assert np.max(distance / np.spacing(np.abs(wanted).astype(np.float32))) < 0.55


@pytest.mark.parametrize("name", FUNCTIONS)
def test_zeros_tiny_numbers_infinities_and_nan(name):
    function, _ = FUNCTIONS[name]
    x = np.array([0, 1e-45, 1e-40, 1.2e-38, 1e-10, 2.4e-4, np.inf, np.nan] * 32, np.float32)
    x = np.concatenate([x, -x])
    got, wanted = expanded(function, x)(x), jax.jit(function)(x)
    # JAX's tangents of subnormal numbers are zero.
    np.testing.assert_allclose(got, wanted, 0, np.finfo(np.float32).smallest_normal)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize(
    ("function", "dtype", "size"),
    [
        (jnp.sin, "float32", 255),
        (jnp.sin, "bfloat16", 256),
        (jnp.tan, "float16", 256),
        (jnp.cos, "complex64", 256),
        (jnp.exp, "float32", 256),
    ],
)
def test_left_alone(function, dtype, size):
    x = jnp.ones(size, dtype)
    assert str(expanded(function, x)) == str(jaxmlir.trace(function)(x))


def test_other_platforms_are_left_alone():
    x = jnp.ones(256)
    assert str(expanded(jnp.sin, x, target="tpu")) == str(jaxmlir.trace(jnp.sin)(x))


@pytest.mark.parametrize(
    ("function", "stays"),
    [
        (lambda x, y: jnp.sum((jnp.sin(x) - y) ** 2), True),
        (lambda x, y: jnp.max(jnp.exp(jnp.cos(x)), 0), True),
        # A sine with another use, and functions that the library does not have.
        (lambda x, y: (jnp.sum(jnp.sin(x)), jnp.sin(x)), False),
        (lambda x, y: jnp.sum(jnp.where(y > 0, jnp.sin(x), y)), False),
        (lambda x, y: jnp.sin(x) @ y, False),
    ],
)
def test_what_xla_fuses_into_a_reduction_is_left_alone(function, stays):
    x = y = jnp.ones((16, 16))
    program = jaxmlir.trace(function)(x, y).optimize(1).run_passes(EXPAND)
    stays = stays and jax_version() >= (0, 11)
    assert ("f64" not in str(program)) == stays


def test_gradients_whatever_jax_is_told_of_doubles():
    """The argument reduction is not rounded to 32 bits, even if JAX evaluates the program."""

    def loss(x):
        return jnp.sum(jnp.sin(1e4 * x) * x)

    x = np.linspace(-1, 1, 30_000, dtype=np.float32)
    wanted = jax.jit(jax.grad(loss))(x)
    for x64 in (True, False):
        with jax.enable_x64(x64):
            gradient = jaxmlir.trace(loss)(x).grad().optimize(2)
            assert "f64" in str(gradient)
            np.testing.assert_allclose(gradient(x), wanted, 1e-6, 1e-2)
            (of_jaxpr,) = core.jaxpr_as_fun(gradient.to_jaxpr())(x)
            np.testing.assert_allclose(of_jaxpr, wanted, 1e-6, 1e-2)


@pytest.mark.parametrize("reduced", [False, True])
def test_a_long_sum_is_gone_through_once(reduced, monkeypatch):
    asked = 0

    def counted(value):
        nonlocal asked
        asked += 1
        return only_user(value)

    def function(x):
        total = sum(jnp.sin(jnp.cos(k * x)) for k in range(50))
        return jnp.max(total) if reduced else total[1:]

    x = np.linspace(-3, 3, 300, dtype=np.float32)
    monkeypatch.setattr(expand_trigonometry, "only_user", counted)
    program = expanded(function, x)
    assert asked <= 6 * 50
    stay = reduced and jax_version() >= (0, 11)
    assert [str(program).count(f"jaxpr.{name}") for name in ("sin", "cos")] == [50 * stay] * 2
    np.testing.assert_allclose(program(x), function(x), rtol=1e-5, atol=1e-5)
