"""Elementary functions as polynomials, against JAX's, and NumPy's in higher precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir._compat import core, jax_version
from jaxmlir.dialect.builder import only_user
from jaxmlir.optimize.cpu.elementary import expand

pytestmark = pytest.mark.compat

EXPAND = "jaxpr-expand-elementary{calls=inf}"
RNG = np.random.RandomState(0)
TRIGONOMETRIC = {"sin": np.sin, "cos": np.cos, "tan": np.tan}
INVERSE = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
COMPLEX = ("exp", "log", "sqrt", "sin", "cos", "tanh")
# Subnormal numbers are zeros for most functions of XLA, but not for all.
SPECIAL = np.array(
    [
        *(0, 1.2e-38, 1e-30, 1e-10, 2.4e-4, 0.3, 0.5, 1 - 2**-24, 1, 1 + 2**-23, 1.5, 2, 3, 4, 5),
        *(87, 88, 1e10, 2**31, 1e18, 1e20, 1e30, 3.4e38, np.inf, np.nan),
    ],
    np.float32,
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
PAIRS = [np.ravel(x) for x in np.meshgrid(SPECIAL, SPECIAL)]
PAIRS_AS_COMPLEX = np.zeros(SPECIAL.size**2, np.complex64)
PAIRS_AS_COMPLEX.real, PAIRS_AS_COMPLEX.imag = PAIRS


def expanded(function, *args, target="cpu"):
    return jaxmlir.trace(function)(*args).run_passes(EXPAND, target=target)


def without(name, function, *args):
    """The expanded program, whose main function has no op of a name."""
    program = expanded(function, *args)
    program.verify()
    stays = name == "atan" and jax_version() >= (0, 12)
    main, *_ = program.functions.values()
    assert (f'"jaxpr.{name}"' in str(main.entry_block)) == stays
    return program


def of_all_sizes(least, greatest):
    x = np.concatenate([2.0**e * RNG.uniform(1, 1.99, 2000) for e in range(least, greatest)])
    return np.concatenate([x, -x]).astype(np.float32)


def units(got, wanted):
    """Errors in units in the last place."""
    error = np.abs(np.asarray(got, np.longdouble) - wanted)
    return error / np.spacing(np.abs(wanted).astype(np.float32))


def assert_same(got, wanted, tolerance):
    """Checks that numbers are near, and zeros, infinities and NaN the same."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if np.iscomplexobj(got):
        assert_same(got.real, wanted.real, tolerance)
        assert_same(got.imag, wanted.imag, tolerance)
        return
    np.testing.assert_allclose(got, wanted, tolerance, 1.3e-38)
    some = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[some], np.signbit(wanted)[some])


@pytest.mark.parametrize("name", TRIGONOMETRIC)
def test_nearer_than_a_unit_in_the_last_place(name):
    """Checks numbers of all sizes, and the number nearest to a multiple of a quarter turn."""
    x = np.append(of_all_sizes(-30, 128), np.float32(16367173.0 * 2.0**72))
    got = without(name, getattr(lax, name), x)(x)
    assert np.max(units(got, TRIGONOMETRIC[name](x.astype(np.float64)))) < 0.55


@pytest.mark.parametrize("name", INVERSE)
def test_inverse_functions_are_nearer_than_a_unit_in_the_last_place(name):
    x = of_all_sizes(-30, 0 if name != "atan" else 128)
    got = without(name, getattr(lax, name), x)(x)
    # The arctangents of XLA's that are left alone.
    limit = 6 if name == "atan" and jax_version() >= (0, 12) else 0.51
    assert np.max(units(got, INVERSE[name](x.astype(np.float64)))) < limit


@pytest.mark.parametrize(("least", "greatest"), [(-4, 4), (-126, 128)])
def test_angles_of_points(least, greatest):
    x, y = of_all_sizes(least, greatest), RNG.permutation(of_all_sizes(least, greatest))
    wanted = np.arctan2(y.astype(np.longdouble), x)
    normal = np.abs(wanted) >= np.finfo(np.float32).smallest_normal
    got = without("atan2", lax.atan2, y, x)(y, x)
    assert np.max(units(got, wanted)[normal]) < 0.51


def test_powers_and_cube_roots():
    x = np.abs(of_all_sizes(-126, 128))
    y = (RNG.uniform(-125, 125, x.size) / np.maximum(np.abs(np.log2(x)), 1)).astype(np.float32)
    got = without("pow", lax.pow, x, y)(x, y)
    assert np.max(units(got, x.astype(np.longdouble) ** y)) < 0.51
    got = without("cbrt", lax.cbrt, -x)(-x)
    assert np.max(units(got, -np.cbrt(x.astype(np.longdouble)))) < 0.51


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("divisor", [None, 6.28, -3e4, 6.2e-5])
def test_remainders_are_exact(dtype, divisor):
    limits = np.finfo(dtype)
    x = of_all_sizes(limits.minexp, limits.maxexp).astype(dtype)
    y = RNG.permutation(x) if divisor is None else dtype(divisor)
    args = (x, y) if divisor is None else (x,)
    function = lax.rem if divisor is None else lambda x: jnp.fmod(x, y)
    got = np.asarray(without("rem", function, *args)(*args))
    wanted = np.fmod(x, y)
    normal = (wanted == 0) | (np.abs(wanted) >= limits.smallest_normal)
    np.testing.assert_array_equal(got[normal], wanted[normal])


def test_remainders_of_constants_take_fewer_steps():
    """Quotients are smaller than those of any two numbers."""
    x = np.ones(256, np.float32)

    def steps(*divisor):
        program = expanded(lambda x, *y: lax.rem(x, *(y or [jnp.full_like(x, 6.28)])), x, *divisor)
        return str(program.functions["rem"].entry_block).count("jaxpr.round")

    assert (steps(x), steps()) == (10, 5)


@pytest.mark.parametrize("name", [*TRIGONOMETRIC, *INVERSE, "cbrt"])
def test_zeros_tiny_numbers_infinities_and_nan(name):
    # JAX's cube roots of subnormal numbers are not.
    subnormal = [] if name == "cbrt" else [1e-45, 1e-40]
    x = [0, *subnormal, 1.2e-38, 1e-10, 2.4e-4, 1, 2, np.inf, np.nan]
    x = np.tile(np.array(x, np.float32), 32)
    x, function = np.concatenate([x, -x]), getattr(lax, name)
    assert_same(expanded(function, x)(x), jax.jit(function)(x), 1e-6)


@pytest.mark.parametrize(("name", "tolerance"), [("atan2", 5e-7), ("pow", 5e-7), ("rem", 0)])
def test_pairs_of_special_numbers(name, tolerance):
    function = getattr(lax, name)
    assert_same(expanded(function, *PAIRS)(*PAIRS), jax.jit(function)(*PAIRS), tolerance)


@pytest.mark.sampled
@pytest.mark.parametrize("exponent", [0.25, -0.5, 4.0, -5.0, np.inf, np.nan, 1e30])
def test_constant_exponents(exponent):
    def function(x):
        return lax.pow(x, jnp.full_like(x, exponent))

    x = np.tile(SPECIAL, 8)
    assert_same(without("pow", function, x)(x), jax.jit(function)(x), 5e-7)


@pytest.mark.parametrize("name", COMPLEX)
def test_special_complex_numbers(name):
    """Branch cuts, too."""
    function, z = getattr(lax, name), PAIRS_AS_COMPLEX
    assert_same(without(name, function, z)(z), jax.jit(function)(z), 2e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize(("least", "greatest"), [(-4, 3), (-60, 6)])
def test_parts_are_nearer_than_a_unit_in_the_last_place(name, least, greatest):
    x, y = of_all_sizes(least, greatest), RNG.permutation(of_all_sizes(least, greatest))
    z = (x + 1j * y).astype(np.complex64)
    got = np.asarray(without(name, getattr(lax, name), z)(z))
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    wanted = getattr(np, name)(x + 1j * y)
    for got_part, part in ((got.real, wanted.real), (got.imag, wanted.imag)):
        normal = np.abs(part) >= np.finfo(np.float32).smallest_normal
        normal &= np.abs(part) < np.finfo(np.float32).max
        assert np.max(units(got_part, part)[normal]) < 0.6


def test_large_sines_of_complex_numbers_do_not_overflow():
    z = np.tile(np.complex64(0.5 + 89j), 256)
    for name in ("sin", "cos"):
        got = np.asarray(expanded(getattr(lax, name), z)(z))
        np.testing.assert_allclose(got, getattr(np, name)(z.astype(complex)), 1e-6)


def test_logarithms_near_the_unit_circle():
    t = RNG.uniform(0, 7, 10_000)
    z = ((1 + 2.0 ** RNG.uniform(-26, -8, t.size)) * np.exp(1j * t)).astype(np.complex64)
    size = np.maximum(abs(z.real), abs(z.imag)).astype(np.longdouble)
    other = np.minimum(abs(z.real), abs(z.imag)).astype(np.longdouble)
    wanted = np.log1p((size - 1) * (size + 1) + other * other) / 2
    got = expanded(lax.log, z)(z)
    assert np.max(units(np.asarray(got).real, wanted)) < 0.51


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*TRIGONOMETRIC, *INVERSE, "cbrt", "atan2", "pow", "exp", "log"])
def test_narrow_types(name, dtype):
    x = jnp.asarray(np.linspace(0.01, 1, 300), dtype)
    function, args = getattr(lax, name), (x, x[::-1]) if name in ("atan2", "pow") else (x,)
    got, wanted = expanded(function, *args)(*args), jax.jit(function)(*args)
    assert got.dtype == wanted.dtype == dtype
    tolerance = 2 * float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.float32(got), np.float32(wanted), tolerance)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("pow", ([0.0, 0.0, 1.0, 4.0], [1.0, 2.5, 0.0, 0.5])),
        ("atan2", ([0.0, 0.0, 1.0, -1.0], [1.0, -1.0, 1.0, 0.0])),
        ("rem", ([7.5, -7.5, 1.0, 1e6], [2.0, 2.0, 3.0, -7.0])),
        ("asin", ([0.0, 1.0, -1.0, 0.5],)),
        ("cbrt", ([0.0, -1.0, 8.0, 1e-30],)),
        ("tan", ([0.0, 0.5, 1.5, 1e5],)),
    ],
)
def test_derivatives_of_expanded_functions_are_those_of_jax(name, args):
    args = [np.tile(np.float32(x), 64) for x in args]

    def function(*args):
        return jnp.sum(getattr(lax, name)(*args))

    program, argnums = expanded(function, *args), tuple(range(len(args)))
    got, wanted = program.grad(argnums)(*args), jax.jit(jax.grad(function, argnums))(*args)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-6)


def test_derivatives_and_batches_of_complex_functions():
    z = np.linspace(1 - 2j, 3 + 1j, 300).astype(np.complex64)
    program = expanded(lambda z: jnp.sum(jnp.abs(jnp.log(z) * jnp.exp(1j * z.real))), z)
    wanted = jax.grad(lambda z: jnp.sum(jnp.abs(jnp.log(z) * jnp.exp(1j * z.real))))
    np.testing.assert_allclose(program.grad()(z), wanted(z), 1e-5, 1e-6)
    batch = np.stack([z, 2 * z])
    np.testing.assert_allclose(program.vmap()(batch), jax.vmap(program)(batch), 1e-6)


@pytest.mark.parametrize(
    ("function", "dtype", "size"),
    [
        (jnp.sin, "float32", 255),
        (jnp.exp, "float32", 256),
        (jnp.exp, "bfloat16", 256),
        (jnp.tan, "complex64", 256),
        (lambda x: x**0.5, "float32", 256),
        (lambda x: lax.pow(x, np.arange(256)), "float32", 256),
    ],
)
def test_left_alone(function, dtype, size):
    x = jnp.ones(size, dtype)
    assert str(expanded(function, x)) == str(jaxmlir.trace(function)(x))


def test_wide_types_are_left_alone():
    with jax.enable_x64(True):
        for x in (jnp.ones(256), jnp.ones(256, complex)):
            assert str(expanded(jnp.sin, x)) == str(jaxmlir.trace(jnp.sin)(x))


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
    monkeypatch.setattr(expand, "only_user", counted)
    program = expanded(function, x)
    assert asked <= 6 * 50
    stay = reduced and jax_version() >= (0, 11)
    main = str(program.functions["function"].entry_block)
    assert [main.count(f"jaxpr.{name}") for name in ("sin", "cos")] == [50 * stay] * 2
    np.testing.assert_allclose(program(x), function(x), rtol=1e-5, atol=1e-5)
