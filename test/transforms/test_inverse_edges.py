"""Edge cases of inverses: number formats, shapes, and the order in which values become known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from round_trip import reread
from test_inverse import Case, check

import jaxmlir
from jaxmlir.dialect import primitives
from jaxmlir.errors import TransformError
from jaxmlir.transforms.inverses import calls

pytestmark = pytest.mark.compat

MATRIX = np.float32([[4, 1, 0], [1, 3, -1], [0.5, 0, 2]])


def inverse_of(function, *args):
    return reread(jaxmlir.trace(function)(*args).inverse())


# --- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32"])
def test_products_modulo_a_power_of_two(dtype):
    info = jnp.iinfo(dtype)
    x = jnp.asarray([0, 1, 3, info.max, info.min, info.max // 3], dtype)
    for factor in (1, 3, info.max, info.max - 2):
        y = jnp.asarray(factor, dtype)
        np.testing.assert_array_equal(inverse_of(lambda x, y=y: x * y, x)(x * y), x)
    # Even factors, with products that do not overflow.
    small = jnp.asarray([0, 1, info.max // 12, info.min // 12], dtype)
    for factor in (2, 12, *([] if info.min == 0 else [-6])):
        y = jnp.asarray(factor, dtype)
        np.testing.assert_array_equal(inverse_of(lambda x, y=y: x * y, small)(small * y), small)


def test_even_factors_whose_product_just_fits():
    """The largest power of two exists only as a negative number."""
    for dtype in ("int8", "int32"):
        low = jnp.iinfo(dtype).min
        x = jnp.asarray([low // -2, 1, low // -4, -1, low // 4], dtype)
        y = jnp.asarray([-2, low, -4, low // 2, 2], dtype)
        np.testing.assert_array_equal(inverse_of(lambda x, y=y: x * y, x)(x * y), x)


def test_types_and_sizes_at_the_edge():
    """No elements, integers in place of floats, and types without a zero."""
    none = np.zeros((2, 0), np.float32)
    for function in (
        lambda x: lax.cumsum(x, 1),
        lambda x: lax.cumprod(x, 1, reverse=True),
        lambda x: lax.cumlogsumexp(x, 0),
    ):
        assert jaxmlir.trace(function)(none).inverse()(function(none)).shape == none.shape
    n = np.int32([1, 2, 3])
    inverse = jaxmlir.trace(lambda n: n.at[1].mul(3))(n).inverse()
    np.testing.assert_array_equal(inverse(n * np.int32([1, 3, 1])), n)
    inverse = jaxmlir.trace(lambda n: n.at[np.array([1, 1])].mul(3))(n).inverse()
    np.testing.assert_array_equal(inverse(n * np.int32([1, 9, 1])), n)
    for dtype in (np.bool_, jnp.int2):
        with pytest.raises(TransformError, match="float8_e8m0fnu does not hold every value of"):
            jaxmlir.trace(lambda x: x.astype(jnp.float8_e8m0fnu))(jnp.zeros(3, dtype)).inverse()


@pytest.mark.parametrize(
    ("of", "to", "lost"),
    [
        ("float8_e4m3", "float8_e4m3fn", [np.inf]),
        ("float8_e4m3fnuz", "float8_e4m3", [2.0**-10]),
        ("float8_e5m2", "float8_e5m2fnuz", [-0.0]),
        ("float8_e5m2", "float16", []),
        ("float8_e8m0fnu", "bfloat16", []),
        ("uint4", "float8_e3m4", []),
    ],
)
def test_types_of_few_bits_that_hold_others(of, to, lost):
    x = jnp.asarray([*lost, 1, 2], of)

    def converted(x):
        return x.astype(to)

    if lost:
        with pytest.raises(TransformError, match=f"{to} does not hold every value of {of}"):
            jaxmlir.trace(converted)(x).inverse()
    else:
        found = inverse_of(converted, x)(converted(x))
        np.testing.assert_array_equal(found.astype("f4"), x.astype("f4"))


def test_a_hash_is_undone():
    x = jnp.asarray([0, 1, 2**31, 123456789], jnp.uint32)

    def mixed(x):
        return (x * jnp.uint32(2654435761)) ^ jnp.uint32(0x9E3779B9)

    np.testing.assert_array_equal(inverse_of(mixed, x)(mixed(x)), x)


def test_running_products_and_scattered_ones_of_integers():
    x = jnp.asarray([1, 16777217, -127, 1], jnp.int32)
    np.testing.assert_array_equal(inverse_of(jnp.cumprod, x)(jnp.cumprod(x)), x)

    def scaled(x):
        return x.at[jnp.array([0, 2, 2])].multiply(jnp.array([3, -5, 7]))

    np.testing.assert_array_equal(inverse_of(scaled, x)(scaled(x)), x)


# --- floats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "x", "rtol"),
    [
        (lax.erfc, [-1.0, -1e-3, 1e-3, 1.0, 4.5, 9.0], 3e-5),
        (jax.nn.softplus, [-80.0, -17.5, -10.0, -1.0, 0.0, 5.0, 90.0], 1e-6),
        (jax.nn.log_sigmoid, [80.0, 17.5, 10.0, 1.0, -5.0, -90.0], 1e-6),
        (lambda x: jnp.logaddexp(x, -30.0), [-60.0, -31.0, 0.0, 1e-10], 1e-3),
    ],
    ids=["erfc", "softplus", "log_sigmoid", "logaddexp"],
)
def test_small_results_keep_their_digits(function, x, rtol):
    x = np.float32(x)
    inverse = inverse_of(function, x)
    want = np.asarray(x)
    if function is lax.erfc:
        # For x < 0 the result has no more digits.
        np.testing.assert_allclose(inverse(function(x)), want, rtol=rtol, atol=1e-7)
        return
    with jax.enable_x64(True):
        exact = function(jnp.asarray(x, np.float64)).astype(np.float32)
    found = inverse(exact)
    np.testing.assert_allclose(found[np.isfinite(found)], want[np.isfinite(found)], rtol=rtol)
    assert np.isfinite(found).sum() >= len(x) - 1


def test_running_log_sums_that_begin_with_nothing():
    x = jnp.array([-jnp.inf, -jnp.inf, 0.0, 1.0, -9.0])
    for reverse in (False, True):
        y = lax.cumlogsumexp(x, reverse=reverse)
        inverse = inverse_of(lambda x, r=reverse: lax.cumlogsumexp(x, reverse=r), x)
        np.testing.assert_allclose(inverse(y)[2:-1], x[2:-1], atol=1e-5)
        assert not np.isnan(inverse(y)).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_systems_of_narrow_floats(dtype):
    """LAPACK has no narrow floats: the systems are solved in 32 bits."""
    x, matrix = jnp.ones((3, 3), dtype), jnp.asarray(MATRIX, dtype)
    kernel = matrix[..., None, None]
    functions = [
        lambda x: matrix @ x,
        lambda x: lax.conv(x[None, ..., None], kernel, (1, 1), "VALID"),
    ]
    for function in functions:
        program = jaxmlir.trace(function)(x).inverse_and_log_det()
        found, log_det = program(function(x))
        assert found.dtype == log_det.dtype == x.dtype
        np.testing.assert_allclose(found.astype("f4"), x.astype("f4"), atol=0.05)
        expected = -3 * np.linalg.slogdet(MATRIX)[1]
        np.testing.assert_allclose(float(log_det), expected, rtol=0.02)


def test_a_function_of_complex_numbers_that_is_not_holomorphic():
    z = np.complex64([1 + 1j, 0.3 - 0.2j, 0])
    found, log_det = jaxmlir.trace(jax.nn.soft_sign)(z).inverse_and_log_det()(jax.nn.soft_sign(z))
    np.testing.assert_allclose(found, z, rtol=1e-5)

    def of_parts(x):
        y = jax.nn.soft_sign(lax.complex(*x))
        return jnp.stack([y.real, y.imag])

    jacobian = jax.jacfwd(of_parts)(np.stack([z.real, z.imag])).reshape(6, 6)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(jacobian)[1], rtol=1e-5)


def test_a_unit_diagonal_is_not_read():
    a = jnp.asarray(MATRIX).at[1, 1].set(jnp.inf).at[0, 0].set(jnp.nan)

    def solved(b):
        return lax.linalg.triangular_solve(a, b, left_side=True, lower=True, unit_diagonal=True)

    b = jnp.asarray(MATRIX)
    np.testing.assert_allclose(inverse_of(solved, b)(solved(b)), b, rtol=1e-5)


# --- what is not there ----------------------------------------------------------------------------


def test_empty_axes():
    for function in (lax.cumsum, lax.cumprod, lax.cumlogsumexp):
        x = jnp.zeros((0, 3))
        assert inverse_of(function, x)(function(x)).shape == x.shape
    for function in (lambda x: jnp.broadcast_to(x, (0, 2)), lambda x: jnp.tile(x, (0,))):
        with pytest.raises(TransformError, match="it does not depend on argument 0"):
            jaxmlir.trace(function)(jnp.ones(2)).inverse()


def test_elements_that_no_index_takes_are_not_a_number():
    program = jaxmlir.trace(lambda x, i: x[i])(jnp.ones(3), jnp.array([0, 0, 1]))
    found = program.inverse(known=1)(jnp.array([1.0, 1.0, 2.0]), jnp.array([0, 0, 1]))
    np.testing.assert_array_equal(found, [1, 2, np.nan])


def test_a_constant_zero_in_one_case_only():
    def f(x, p):
        return jnp.where(p, x * np.float32([0, 1]), x)

    with pytest.raises(TransformError, match="cannot be inverted"):
        jaxmlir.trace(f)(jnp.ones(2), jnp.array([True, True])).inverse(known=1)


def test_convolutions_of_integers_are_not_solved():
    kernel = jnp.asarray([[1, 2], [3, 5]]).reshape(2, 2, 1, 1)
    image = jnp.ones((1, 2, 3, 3), jnp.int32)
    with pytest.raises(TransformError, match="no inverse among integers"):
        jaxmlir.trace(lambda x: lax.conv(x, kernel, (1, 1), "VALID"))(image).inverse()


@pytest.mark.parametrize("n", [4, 5])
def test_half_a_spectrum_has_no_determinant(n):
    """The half spectrum of a real signal has one or two imaginary parts that are always zero."""
    x = jnp.arange(float(n)) ** 2

    def f(x):
        return jnp.fft.irfft(jnp.fft.rfft(x) * np.float32([1, 2, 3]), n)

    program = jaxmlir.trace(f)(x)
    np.testing.assert_allclose(program.inverse()(f(x)), x, atol=1e-4)
    with pytest.raises(TransformError, match="it has no log-determinant"):
        program.inverse_and_log_det()


def test_some_vectors_are_those_of_many_matrices():
    def some(x):
        return lax.linalg.eigh(x, symmetrize_input=False, subset_by_index=(0, 2))

    def all_of_them(x):
        return lax.linalg.eigh(x, symmetrize_input=False, subset_by_index=(0, 3))

    x = np.diag(np.float32([1, 2, 3]))
    with pytest.raises(TransformError, match="subset of the vectors does not determine the"):
        jaxmlir.trace(some)(x).inverse()
    np.testing.assert_allclose(inverse_of(all_of_them, x)(all_of_them(x)), x, atol=1e-6)


# --- elements in other places ---------------------------------------------------------------------


def test_values_that_are_passed_on():
    """Values that are made to depend on others, and arrays whose sizes are known at run time."""
    x = np.float32([1, 2, 3])
    tie = primitives.of_op("jaxpr.tie")
    np.testing.assert_array_equal(inverse_of(lambda x: tie.bind(jnp.ones(2), x), x)(x), x)
    (size,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((size,), np.float32)
    for function in (lambda x: jnp.array(2 * x), lambda x: 2 * lax.optimization_barrier(x)):
        np.testing.assert_array_equal(inverse_of(function, shape)(2 * x), x)


def test_cases_of_sizes_known_at_run_time_only():
    def f(x, p):
        return jnp.where(p, jnp.exp(x), 2 * x)

    (size,) = jax.export.symbolic_shape("b")
    program = jaxmlir.trace(f)(jax.ShapeDtypeStruct((size,), np.float32), False)
    inverse = reread(program.inverse_and_log_det(known=1))
    x = np.float32([1, 2, 3])
    for p, slopes in ((True, x), (False, np.log(2.0) * np.ones(3))):
        found, log_det = inverse(f(x, p), p)
        np.testing.assert_allclose(found, x, rtol=1e-6)
        np.testing.assert_allclose(log_det, -slopes.sum(), rtol=1e-6)


def test_one_of_more_cases_than_numpy_chooses_from():
    def f(x):
        return lax.select_n(np.int32([69, 0, 1]), *(x * (i + 1) for i in range(70)))

    x = np.float32([1, 2, 3])
    np.testing.assert_allclose(inverse_of(f, x)(f(x)), x, rtol=1e-6)


def test_indices_that_take_long_to_compute():
    def f(x):
        i = np.int32([1, 0])
        for _ in range(1001):
            i = lax.rem(lax.add(i, np.int32([1, 1])), np.int32([2, 2]))
        return x[i]

    x = np.float32([1, 2])
    np.testing.assert_array_equal(inverse_of(f, x)(f(x)), x)


def test_bits_of_a_weak_type():
    program = jaxmlir.trace(lambda x: lax.bitcast_convert_type(x, jnp.int32))(1.0)
    inverse = reread(program.inverse())
    inverse.verify()
    assert float(inverse(program(1.5))) == 1.5


def test_drawn_numbers_are_not_drawn_again():
    def scaled(x):
        return x * jax.jit(lambda: lax.rng_uniform(1.0, 2.0, (3,)))()

    x = np.float32([1, 2, 3])
    program = jaxmlir.trace(scaled)(x)
    with pytest.raises(TransformError, match="its operands 0 and 1 are unknown"):
        program.inverse()
    y, log_det = program.forward_and_log_det()(x)
    np.testing.assert_allclose(log_det, np.log(y / x).sum(), rtol=1e-5)


def test_a_sort_is_undone_by_elements_that_differ():
    def lexicographic(x):
        return lax.sort((np.int32([1, 0, 1]), x, jnp.arange(3)), num_keys=2)

    x = np.float32([3, 2, 1])
    np.testing.assert_array_equal(inverse_of(lexicographic, x)(lexicographic(x)), x)


def test_a_sort_is_undone_by_its_keys_or_not_at_all():
    """Equal elements are told apart by a stable sort, or by an operand of different elements."""
    keys, x = np.float32([2, 1, 2, np.nan, 1]), np.arange(5, dtype=np.float32)

    def permuted(x, keys, is_stable=True):
        return lax.sort((keys, x), num_keys=1, is_stable=is_stable)

    inverse = jaxmlir.trace(permuted)(x, keys).inverse(known=1)
    np.testing.assert_array_equal(inverse(permuted(x, keys), keys), x)
    for function in (
        lambda x, keys: permuted(x, keys, is_stable=False),
        lambda x, other: lax.sort((x, other)),
        lambda x, _: lax.sort((x, jnp.zeros(5)), num_keys=1),
        lambda x, other: lax.sort((other, x, x + other), num_keys=2, is_stable=False),
    ):
        with pytest.raises(TransformError, match="the order before the sort is lost"):
            jaxmlir.trace(function)(x, keys).inverse(known=1)


def test_ops_of_which_only_the_types_of_operands_differ():
    """What was written for one type is not taken for another."""

    def converted(x):
        return x.astype(jnp.float32) * 2

    def coupled(x):
        mask = jnp.asarray([1, 0, 1], x.dtype)
        return x * mask + (1 - mask) * (x * jnp.exp(x[:1]))

    for function, dtypes in ((converted, "bfloat16 int16"), (coupled, "float32 float16")):
        for dtype in dtypes.split():
            x = jnp.asarray([0, 1, 2], dtype)
            found = inverse_of(function, x)(function(x))
            assert found.dtype == x.dtype
            np.testing.assert_allclose(np.float32(found), np.float32(x), rtol=1e-2)


def test_pixels_that_are_spread_out():
    kernel = np.float32([[[2], [1]], [[0], [3]]])

    def spread(x):
        return lax.conv_general_dilated(x, kernel, (1,), [(0, 0)], lhs_dilation=(2,))

    with pytest.raises(TransformError, match="a known kernel of one pixel"):
        jaxmlir.trace(spread)(np.ones((1, 2, 4), np.float32)).inverse()


def test_bits_have_no_log_determinant():
    def next_number(x):
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32) + 1, jnp.float32)

    with pytest.raises(TransformError, match="bits have no derivative"):
        jaxmlir.trace(next_number)(1.0).inverse_and_log_det()


# --- what is known later --------------------------------------------------------------------------


@jax.jit
def summed(x, y, z):
    return jnp.exp(x + y), 2 * z


def called(x, y, z):
    a, b = summed(x, y, z)
    return a, b + x


def chosen(x, y, z):
    def other(x, y, z):
        return jnp.exp(2 * x - y), 3 * z

    a, b = lax.cond(jnp.asarray(True), summed, other, x, y, z)
    return a, b + x


def repeated(x, y, z):
    a, b = lax.scan(lambda c, xs: (c, summed(*xs)), 0.0, (x, y, z))[1]
    return a, b + x


def test_why_a_loop_does_not_run_backwards():
    """The note names the op that loses information in the forward loop."""

    def f(x, key):
        def body(carry):
            i, key, x = carry
            key, now = jax.random.split(key)
            return i + 1, key, x * jax.random.uniform(now)

        return lax.while_loop(lambda carry: carry[0] < 3, body, (0, key, x))[2]

    program = jaxmlir.trace(f)(1.0, jax.random.key(0))
    with pytest.raises(TransformError, match="'jaxpr.random_split' op.*the hash is one-way"):
        program.inverse(known=1)


@pytest.mark.parametrize("function", [called, chosen, repeated])
def test_what_is_inverted_again_counts_once(function):
    """The first inverse knows one result; the next knows both, and the first argument."""

    def f(x, y, z):
        last = jax.jit(jnp.sinh)(x)
        return *function(x, y, z), last

    args = np.float32([1, 2]), np.float32([0.3, 0.2]), np.float32([5, 6])
    check({"again": Case(f, *args)})


# --- inverses of the user's own, with the default log-determinant ---------------------------------


@jaxmlir.custom_inverse
def turned(z):
    return 2j * jnp.conj(z)


@jaxmlir.custom_inverse
def shifted_bits(n):
    return 5 * n


@jaxmlir.custom_inverse
def both(pair):
    return 2 * pair[0], pair[1] + 1


@jaxmlir.custom_inverse
def longer(x):
    return jnp.concatenate([2 * x, jnp.abs(x[:1])])


turned.definverse(lambda y: jnp.conj(y / 2j))
shifted_bits.definverse(lambda n: n // 5)
both.definverse(lambda pair: (pair[0] / 2, pair[1] - 1))
longer.definverse(lambda y: y[:-1] / 2)


def test_custom_inverses_of_complex_numbers_and_integers():
    z, n, x = np.complex64([1 + 2j, 3]), np.int32([4, -5]), np.float32([1, 2])
    found, log_det = jaxmlir.trace(lambda z: turned(z))(z).inverse_and_log_det()(turned(z))
    np.testing.assert_allclose(found, z, rtol=1e-6)
    np.testing.assert_allclose(log_det, -4 * np.log(2), rtol=1e-6)
    np.testing.assert_array_equal(inverse_of(lambda n: shifted_bits(n), n)(5 * n), n)
    program = jaxmlir.trace(lambda x, n: both((x, n)))(x, n)
    found, log_det = program.inverse_and_log_det()(both((x, n)))
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], n)
    np.testing.assert_allclose(log_det, -2 * np.log(2), rtol=1e-6)


def test_custom_inverses_between_spaces_of_other_sizes():
    x = np.float32([3, 4])
    for function in (longer, jax.vmap(longer)):
        arg = x if function is longer else x[None]
        program = reread(jaxmlir.trace(lambda x, f=function: f(x))(arg))
        np.testing.assert_array_equal(program.inverse()(function(arg)), arg)

    def with_bits(x, y):
        return longer(x), lax.bitcast_convert_type(y, jnp.int32)

    with pytest.raises(TransformError, match="not square, and no log_det is given"):
        jaxmlir.trace(with_bits)(x, 1.0).inverse_and_log_det()


def scaled_by(w, x):
    """A function that closes over an argument of the enclosing function, as a layer does."""

    @jaxmlir.custom_inverse
    def f(x):
        return x * w + w

    f.definverse(lambda y: y / w - 1 + 100, lambda x, y: 7 * w)
    return f(x)


def test_custom_inverses_that_close_over_arguments():
    w, x = np.float32(2), np.float32(5)
    plain = lambda w, x: x * w + w  # noqa: E731
    jacobian = jax.grad(plain, (0, 1))(w, x)
    for grad in (jax.grad(scaled_by, (0, 1)), jax.jit(jax.grad(scaled_by, (0, 1)))):
        np.testing.assert_array_equal(grad(w, x), jacobian)
    ws = np.float32([1, 2, 3])
    np.testing.assert_array_equal(jax.vmap(scaled_by, (0, None))(ws, x), plain(ws, x))
    found, _ = lax.scan(lambda c, w: (scaled_by(w, c), None), x, ws)
    expected, _ = lax.scan(lambda c, w: (plain(w, c), None), x, ws)
    np.testing.assert_array_equal(found, expected)
    program = reread(jaxmlir.trace(scaled_by)(w, x))
    np.testing.assert_array_equal(program.grad((0, 1))(w, x), jacobian)
    solve = program.inverse_and_log_det(argnums=1)
    found, log_det = solve(program(w, x), w)
    np.testing.assert_array_equal(found, x + 100)
    np.testing.assert_array_equal(log_det, -7 * w)
    found, log_det = solve.vmap()(plain(ws, x), ws)
    np.testing.assert_allclose(found, [105, 105, 105])
    np.testing.assert_array_equal(log_det, -7 * ws)


def test_the_effects_of_functions_with_inverses(capfd):
    for ordered in (False, True):

        @jaxmlir.custom_inverse
        def loud(x, ordered=ordered):
            jax.debug.print("x is {}", x, ordered=ordered)
            return 2 * x

        unused = lambda x: (loud(x), x)[1]  # noqa: E731
        for run in (jax.jit(unused), jaxmlir.jit(unused, optimize=2), jax.jit(jax.grad(unused))):
            run(3.0)
            jax.effects_barrier()
            assert capfd.readouterr().out.split() == ["x", "is", "3.0"]


def test_custom_inverses_across_a_named_axis():
    @jaxmlir.custom_inverse
    def centred(x):
        return x - lax.pmean(x, "batch")

    xs = np.float32([0, 1, 5])
    for of in (lambda f: f, jax.jit, lambda f: jax.grad(lambda x: f(x) ** 2)):
        found = jax.vmap(of(centred), axis_name="batch")(xs)
        plain = jax.vmap(of(lambda x: x - lax.pmean(x, "batch")), axis_name="batch")(xs)
        np.testing.assert_allclose(found, plain)


def test_linear_functions_with_inverses_are_transposed():
    twice = jaxmlir.custom_inverse(lambda x, y: (2 * x, x * y))
    y = np.float32([3, 4])
    transposed = jax.linear_transpose(lambda x: twice(x, y), y)
    np.testing.assert_array_equal(transposed((y, y))[0], 2 * y + y * y)


# --- which arguments ------------------------------------------------------------------------------


def test_an_argument_is_not_both_given_and_found():
    program = jaxmlir.trace(lambda x, y: x + y)(1.0, 2.0)
    with pytest.raises(TransformError, match="argument 1 of @lambda is both in argnums and in"):
        program.run_passes("jaxpr-inverse{argnums=0,1 known=1}")


def test_a_determinant_is_that_of_all_unknown_arguments():
    program = jaxmlir.trace(lambda x, y, z: (x * y, jnp.floor(z)))(2.0, 3.0, 4.0)
    program.run_passes("jaxpr-inverse{argnums=0 known=1}")
    with pytest.raises(TransformError, match="floor is many-to-one"):
        program.run_passes("jaxpr-inverse{argnums=0 known=1 log-det=true}")


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "soft_sign"])
def test_functions_of_the_library_whatever_the_setting(name):
    f = getattr(jax.nn, name)
    x = np.array([-3.0, 0.5, 2.0], np.float32)
    program = jaxmlir.trace(f)(x)
    jax.clear_caches()
    with jax.disable_jit():
        np.testing.assert_allclose(program.inverse()(f(x)), x, rtol=1e-6)
    with jax.enable_x64(True):
        half = x.astype(np.float16)
        inverse = jaxmlir.trace(f)(half).inverse()
        np.testing.assert_allclose(inverse(f(half)), half, rtol=4e-3)
    np.testing.assert_allclose(jaxmlir.trace(f)(x).inverse()(f(x)), x, rtol=1e-6)


def test_a_function_of_the_library_is_known_in_a_batch():
    program = jaxmlir.trace(jax.nn.softplus)(1.0).vmap(axis_size=3)
    x = np.array([-3.0, 0.5, 2.0], np.float32)
    np.testing.assert_allclose(program.inverse()(jax.nn.softplus(x)), x, rtol=1e-5)


@pytest.mark.parametrize("f", [jax.nn.elu, jax.nn.leaky_relu, jax.scipy.special.logit])
@pytest.mark.parametrize("axes", [(2,), (1, 1), (1, 0)])
def test_a_function_of_the_library_is_known_in_a_batch_along_any_axis(f, axes):
    batched = f
    for axis in axes:
        batched = jax.vmap(batched, axis, axis)
    x = np.linspace(0.1, 0.9, 27, dtype=np.float32).reshape(3, 3, 3)
    inverse = jaxmlir.trace(batched)(x).inverse_and_log_det()
    found, log_det = inverse(batched(x))
    np.testing.assert_allclose(found, x, rtol=1e-4)
    slopes = jax.vmap(jax.grad(f))(x.ravel())
    np.testing.assert_allclose(log_det, -np.sum(np.log(slopes)), rtol=1e-4, atol=1e-3)


def test_a_function_of_the_library_in_nested_batches_is_traced_once_for_each_number_of_batches():
    batched = jax.nn.elu
    for axis in (1, 1, 2, 3, 4):
        batched = jax.vmap(batched, axis, axis)
    x = np.linspace(-0.9, 0.9, 96, dtype=np.float32).reshape(2, 1, 3, 4, 2, 2)
    before = calls._traced.cache_info().misses
    inverse = jaxmlir.trace(batched)(x).inverse()
    assert calls._traced.cache_info().misses - before <= x.ndim + 1
    np.testing.assert_allclose(inverse(batched(x)), x, rtol=1e-4)


@pytest.mark.parametrize(
    ("f", "parameter"),
    [
        (lambda x: jax.nn.leaky_relu(x, -0.5), "negative_slope -0.5"),
        (lambda x: jax.nn.leaky_relu(x, np.array([1.0, 0.0, 2.0], np.float32)), "negative_slope 0"),
        (lambda x: jax.nn.elu(x, -1.0), "alpha -1"),
    ],
)
def test_functions_of_the_library_are_many_to_one_of_some_parameters(f, parameter):
    program = jaxmlir.trace(f)(np.zeros(3, np.float32))
    message = f"it is many-to-one for {parameter}, expected > 0"
    with pytest.raises(TransformError, match=message):
        program.inverse()
