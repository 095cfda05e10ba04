"""Sorts of packed keys and positions, against JAX's, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-sorts{calls=inf}"
RNG = np.random.RandomState(0)
FLOATS = ["float32", "bfloat16", "float16", "float8_e4m3fn"]
INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"]


def expanded(function, *args):
    program = jaxmlir.trace(function)(*args)
    after = program.run_passes(EXPAND)
    after.verify()
    assert str(after) != str(program)
    return after


def same_bits(results, expected):
    for result, other in zip(results, expected, strict=True):
        assert (
            result.dtype == other.dtype
            and np.asarray(result).tobytes() == np.asarray(other).tobytes()
        )


def patterns(dtype, *shape):
    """Numbers of a type: random bits, among which there are equal ones, NaN and zeros."""
    size = np.dtype(jnp.dtype(dtype)).itemsize
    bits = RNG.randint(0, 256, (*shape, size)).astype(np.uint8)
    if dtype == "bool":
        return jnp.asarray(bits[..., 0] % 2 == 1)
    values = bits.view(jnp.dtype(dtype))[..., 0].copy()
    flat = values.reshape(-1)
    flat[:: 1 + flat.size // 8] = flat[0]
    if dtype in FLOATS:
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 0.0]).astype(values.dtype)
        flat[: special.size] = special[: flat.size]
        RNG.shuffle(flat)
    return jnp.asarray(values)


@pytest.mark.compat
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_same_bits_as_jax(dtype):
    x, y = patterns(dtype, 300), patterns("float32", 300)

    def function(x, y):
        return lax.sort((x, y, lax.iota(np.int32, 300)), num_keys=1)

    same_bits(expanded(function, x, y)(x, y), jax.jit(function)(x, y))


@pytest.mark.parametrize(
    ("shape", "axis"), [((37,), 0), ((2, 24, 3), 1), ((2, 24, 3), 0), ((5, 16), 1), ((4, 2), 1)]
)
def test_along_each_dimension(shape, axis):
    x = patterns("float32", *shape)

    def function(x):
        return [jnp.sort(x, axis), jnp.argsort(x, axis), jnp.argsort(x, axis, descending=True)]

    same_bits(expanded(function, x)(x), jax.jit(function)(x))


def test_derivative_after_the_pass():
    x = jnp.asarray(RNG.permutation(40), jnp.float32)
    weights = jnp.asarray(RNG.randn(40), jnp.float32)

    def function(x):
        return (jnp.sort(x) ** 2 * weights).sum()

    after = expanded(function, x)
    np.testing.assert_allclose(after.grad()(x), jax.grad(function)(x), 1e-6)


def test_level_two_sorts_packed_keys():
    x = jnp.asarray(RNG.randn(20_000), jnp.float32)
    gradient = jaxmlir.trace(jax.grad(lambda x: jnp.quantile(x, 0.3)))(x)
    after = gradient.optimize(2)
    assert "tensor<20000xi64>" in str(after)
    np.testing.assert_array_equal(after(x), gradient(x))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (jnp.sort, np.arange(100)),
        (lambda x: lax.sort((x, x), num_keys=2), np.ones(100, np.float32)),
        (jnp.argsort, np.ones((0, 5), np.float32)),
        (jnp.sort, np.ones((100, 1), np.float32)),
    ],
)
def test_left_alone(function, x):
    program = jaxmlir.trace(function)(x)
    assert str(program.run_passes(EXPAND)) == str(program)


def test_numbers_of_64_bits_are_left_alone():
    with jax.enable_x64(True):
        program = jaxmlir.trace(jnp.argsort)(np.ones(100))
        assert str(program.run_passes(EXPAND)) == str(program)
