"""Idioms of JAX's lowering, and functions of several ops, are raised to the original ops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from test_raising import X, close, lowered, program_of, same

import jaxmlir

pytestmark = pytest.mark.compat

SQUARE = np.array([[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]], np.float32)
IDIOMS = {
    "argmax": (lambda x: jnp.argmax(x, 1), X, "argmax"),
    "argmin": (lambda x: jnp.argmin(x), X, "argmin"),
    "cumsum": (lambda x: jnp.cumsum(x, 1), X, "cumsum"),
    "cumprod": (lambda x: jnp.cumprod(x, 0), X, "cumprod"),
    "cummax": (lambda x: lax.cummax(x, 0, reverse=True), X, "cummax"),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), X, "cumlogsumexp"),
    "fill": (lambda x: x.at[jnp.array([0, 5])].get(mode="fill", fill_value=7.0), X, "gather"),
    "clip": (lambda x: x.at[jnp.array([0, 5])].get(mode="clip"), X, "gather"),
    "sort": (lambda x: jnp.sort(x, 0), X, "sort"),
    "sort_pairs": (lambda x: lax.sort((x, -x), num_keys=2), X, "sort"),
    "top_k": (lambda x: lax.top_k(x, 2), X, "top_k"),
    "max_pool": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME"),
        X,
        "reduce_window_max",
    ),
    "cholesky": (jnp.linalg.cholesky, SQUARE, "cholesky"),
    "lu": (lambda x: jnp.linalg.slogdet(x)[1], SQUARE, "lu"),
    "inverse": (jnp.linalg.inv, SQUARE, "triangular_solve"),
    "eigh": (jnp.linalg.eigh, SQUARE, "eigh"),
    "svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), SQUARE, "svd"),
    "qr_pivoted": (lambda x: jax.scipy.linalg.qr(x, pivoting=True)[:2], SQUARE, "qr"),
    "eigvals": (lambda x: jnp.linalg.eigvals(x).real.sum(), SQUARE, "eig"),
    "fft": (lambda x: jnp.fft.rfft(x).real, X, "fft"),
    "conv": (
        lambda x: lax.conv_general_dilated(x[None, None], x[None, None], (2, 1), "SAME"),
        X,
        "conv_general_dilated",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", IDIOMS)
def test_what_jax_lowers_to_idioms_is_what_it_was(name):
    f, x, op = IDIOMS[name]
    program = jaxmlir.from_stablehlo(lowered(f, x))
    assert f'"jaxpr.{op}"' in str(program)
    same(program(x), jax.jit(f)(x))
    tangent = np.linspace(1, 2, x.size, dtype=np.float32).reshape(x.shape)
    got, want = program.jvp()((x,), (tangent,))[1], jax.jvp(f, (x,), (tangent,))[1]
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        if b.dtype != jax.dtypes.float0:
            close(a, b, 1e-3)


def test_an_arc_sine_has_its_derivative_at_one():
    x = np.array([0.5, 1.0, -1.0], np.float32)
    program = jaxmlir.from_stablehlo(lowered(lax.asin, x))
    assert '"jaxpr.asin"' in str(program)
    tangent = np.ones_like(x)
    same(program.jvp()((x,), (tangent,))[1], jax.jvp(lax.asin, (x,), (tangent,))[1])


def test_conjugates_are_transposed():
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    f = lambda z: jnp.sum(jnp.conj(z) * z[::-1]).real  # noqa: E731
    program = jaxmlir.from_stablehlo(lowered(f, z))
    close(program.grad()(z), jax.grad(f)(z))


def test_booleans_that_are_added_where_a_window_has_its_maximum_are_batched():
    """JAX adds booleans by ``or``, and has a batching rule only for the sum."""
    ge, x, y = lax.ge_p, np.zeros((3, 4, 6), bool), np.ones((3, 3, 5), bool)
    x[0, 1, 2] = x[2, 0, 5] = True
    windows = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
    f = lambda y, x: lax.select_and_scatter_add_p.bind(y, x, select_prim=ge, **windows)  # noqa: E731
    program = jaxmlir.from_stablehlo(lowered(f, y[0], x[0]))
    same(program.vmap()(y, x), jax.jit(jax.vmap(f))(y, x))


@pytest.mark.parametrize("y", [-2, -3, -5])
def test_a_negative_power_has_a_derivative_where_its_square_is_too_large(y):
    f = lambda x: lax.integer_pow(x, y)  # noqa: E731
    x = np.array([0.1, -0.25, 3.0, 80.0], np.float16)
    program = jaxmlir.from_stablehlo(lowered(f, x))
    assert str(program).count('"jaxpr.') == 1 and '"jaxpr.integer_pow"' in str(program)
    got, want = program.jvp()((x,), (x,)), jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x)
    same(got[0], want[0])
    same(got[1], want[1])


def _normal(data, shape=(3, 4)):
    return jax.random.normal(jax.random.wrap_key_data(data), shape)


KEY = np.array([0, 7], np.uint32)


@pytest.mark.parametrize(
    ("f", "key"),
    [
        (_normal, KEY),
        (lambda key: _normal(key, (4,)), KEY),
        (lambda key: _normal(key, ()), KEY),
        (jax.vmap(_normal), np.stack([KEY, KEY + 1])),
    ],
)
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_threefry_is_one_op(f, key, platform):
    """JAX lowers threefry to a loop for a CPU, and elsewhere to unrolled rounds."""
    exported = export.export(jax.jit(f), platforms=[platform])(key)
    program = jaxmlir.from_stablehlo(bytes(exported.mlir_module_serialized))
    assert str(program).count('"jaxpr.threefry2x32"') == 1
    assert "scan" not in str(program) and "shift_left" not in str(program)
    close(program(key), jax.jit(f)(key))


def test_a_function_that_is_only_called_threefry_is_what_it_computes():
    text = str(lowered(_normal, KEY)).replace("dense<[13, 15, 26, 6]>", "dense<[13, 15, 26, 7]>")
    program = jaxmlir.from_stablehlo(text)
    assert "jaxpr.threefry2x32" not in str(program)
    assert not np.array_equal(program(KEY), jax.jit(_normal)(KEY))


def test_a_matrix_that_has_no_factor_gives_nans_as_before():
    program = jaxmlir.from_stablehlo(lowered(jnp.linalg.cholesky, SQUARE))
    assert np.isnan(program(-SQUARE)).any()
    status = program_of(
        "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = "
        "{uplo = 76 : ui8}} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)\n"
        "return %0#1 : tensor<i32>",
        "%x: tensor<3x3xf32>",
        "tensor<i32>",
    )
    assert int(status(SQUARE)) == 0 and int(status(-SQUARE)) == 1


def test_a_gather_clamps_and_so_does_its_derivative():
    program = program_of(
        '%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<'
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = "
        "array<i64: 1>}> : "
        "(tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>",
        "%x: tensor<4xf32>, %i: tensor<3x1xi32>",
        "tensor<3xf32>",
    )
    x, i = np.arange(4, dtype=np.float32), np.array([[-1], [2], [9]], np.int32)
    same(program(x, i), np.array([0, 2, 3], np.float32))
    forward, backward = program.vjp()
    results, residuals = forward(x, i)
    gradient = backward(residuals, np.array([1, 2, 3], np.float32))[0]
    same(gradient, np.array([1, 0, 2, 3], np.float32))


@pytest.mark.parametrize(("dim", "batch"), [(0, 2), (1, 2), (2, 1)])
def test_index_vectors_may_be_before_a_batch_dimension(dim, batch):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    indices = np.random.default_rng(0).integers(0, 3, (5, 2, 2)).astype(np.int32)
    moved = np.moveaxis(indices, -1, dim)
    type_ = f"tensor<{'x'.join(map(str, moved.shape))}xi32>"
    program = program_of(
        f"""%0 = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<
  collapsed_slice_dims = [1, 2], operand_batching_dims = [0],
  start_indices_batching_dims = [{batch}], start_index_map = [1, 2],
  index_vector_dim = {dim}>, slice_sizes = array<i64: 1, 1, 1>
}} : (tensor<2x3x4xf32>, {type_}) -> tensor<5x2xf32>
%1 = "stablehlo.scatter"(%x, %i, %0) ({{
 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>
}}) {{scatter_dimension_numbers = #stablehlo.scatter<
  inserted_window_dims = [1, 2], input_batching_dims = [0],
  scatter_indices_batching_dims = [{batch}], scatter_dims_to_operand_dims = [1, 2],
  index_vector_dim = {dim}>
}} : (tensor<2x3x4xf32>, {type_}, tensor<5x2xf32>) -> tensor<2x3x4xf32>
return %0, %1 : tensor<5x2xf32>, tensor<2x3x4xf32>""",
        f"%x: tensor<2x3x4xf32>, %i: {type_}",
        "(tensor<5x2xf32>, tensor<2x3x4xf32>)",
    )
    places = np.arange(2), indices[..., 0], indices[..., 1]
    sums = x.copy()
    np.add.at(sums, places, x[places])
    same(program(x, moved), (x[places], sums))


REGIONS = {
    "total order": (
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = "stablehlo.select_and_scatter"(%x, %s, %z) ({
 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %c = stablehlo.compare LE, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}, {
 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %c = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %c : tensor<f32>
}) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}
 : (tensor<2xf32>, tensor<1xf32>, tensor<f32>) -> tensor<2xf32>
return %0 : tensor<2xf32>""",
        "%x: tensor<2xf32>, %s: tensor<1xf32>",
        "tensor<2xf32>",
        (np.float32([0.0, -0.0]), np.float32([3.0])),
        np.float32([0.0, 3.0]),
    ),
    "no sign": (
        """%0 = "stablehlo.sort"(%x) ({
 ^bb0(%a: tensor<f8E8M0FNU>, %b: tensor<f8E8M0FNU>):
  %c = stablehlo.compare GT, %a, %b : (tensor<f8E8M0FNU>, tensor<f8E8M0FNU>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}) {dimension = 0 : i64} : (tensor<3xf8E8M0FNU>) -> tensor<3xf8E8M0FNU>
return %0 : tensor<3xf8E8M0FNU>""",
        "%x: tensor<3xf8E8M0FNU>",
        "tensor<3xf8E8M0FNU>",
        (jnp.array([1.0, 4.0, 0.5], jnp.float8_e8m0fnu),),
        jnp.array([4.0, 1.0, 0.5], jnp.float8_e8m0fnu),
    ),
    "running maximum of booleans": (
        """%z = stablehlo.constant dense<false> : tensor<i1>
%0 = "stablehlo.reduce_window"(%x, %z) ({
 ^bb0(%a: tensor<i1>, %b: tensor<i1>):
  %c = stablehlo.maximum %a, %b : tensor<i1>
  stablehlo.return %c : tensor<i1>
}) {window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}
 : (tensor<3xi1>, tensor<i1>) -> tensor<3xi1>
return %0 : tensor<3xi1>""",
        "%x: tensor<3xi1>",
        "tensor<3xi1>",
        (np.array([False, True, False]),),
        np.array([False, True, True]),
    ),
}


@pytest.mark.parametrize("name", REGIONS)
def test_regions_that_are_none_of_an_op_of_jax(name):
    body, arguments, results, args, expected = REGIONS[name]
    same(program_of(body, arguments, results)(*args), expected)


def test_the_maximum_of_no_elements():
    empty = lowered(lambda x: lax.argmax(x, 1, np.int32), X).operation.get_asm()
    program = jaxmlir.from_stablehlo(empty.replace("3x4x", "3x0x"))
    same(program(X[:, :0]), np.zeros(3, np.int32))


def test_a_mask_that_mixes_the_indices_of_a_gather_is_none_of_its_own():
    dims = lax.GatherDimensionNumbers((), (0, 1), (0, 1))

    def f(x, i):
        inside = jnp.all((i >= 0) & (i <= np.array([2, 3])), axis=0)
        return lax.select(inside, lax.gather(x, i, dims, (1, 1), mode="clip"), np.float32([7, 7]))

    i = np.array([[0, 9], [1, 1]], np.int32)
    same(jaxmlir.from_stablehlo(lowered(f, X, i))(X, i), jax.jit(f)(X, i))


POINTS = np.array([0, -1, 2, 1e-30, 120, -120, 0.25], np.float32)
FUNCTIONS = {
    "logistic": lax.logistic,
    "logaddexp": lambda x: jnp.logaddexp(x, 0.25),
    "softplus": jax.nn.softplus,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "silu": jax.nn.silu,
    "log_sigmoid": jax.nn.log_sigmoid,
    "erf_inv": lambda x: lax.erf_inv(jnp.tanh(x)),
    "erfc": lax.erfc,
    "lgamma": lambda x: lax.lgamma(jnp.abs(x) + 0.5),
    "digamma": lambda x: lax.digamma(jnp.abs(x) + 0.5),
    "polygamma": lambda x: lax.polygamma(jnp.ones_like(x), jnp.abs(x) + 0.5),
    "i0": jax.scipy.special.i0,
    "i1": jax.scipy.special.i1,
    "bessel_i1e": lax.bessel_i1e,
    "zeta": lambda x: jax.scipy.special.zeta(jnp.abs(x) + 1.5, 0.25 * x * x + 0.5),
    "igamma": lambda x: lax.igamma(jnp.abs(x) + 0.5, jnp.full_like(x, 1.5)),
    "igammac": lambda x: lax.igammac(jnp.full_like(x, 1.5), jnp.abs(x) + 0.25),
    "betainc": lambda x: lax.betainc(jnp.full_like(x, 1.5), jnp.full_like(x, 2.5), lax.logistic(x)),
    "expi": jax.scipy.special.expi,
    "exp1": lambda x: jax.scipy.special.exp1(jnp.abs(x) + 0.25),
    "expn": lambda x: jax.scipy.special.expn(
        jnp.arange(1.0, 3.0)[:, None], (jnp.abs(x) + 0.25)[None]
    ),
    "hyp1f1": lambda x: jax.scipy.special.hyp1f1(1.5, 2.5, jnp.tanh(x)),
    "gamma": lambda x: jax.random.gamma(jax.random.key(3), jnp.abs(x) + 0.5),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_jax_writes_as_several_ops_have_its_derivatives(name):
    """This holds also where those ops' derivatives fail: overflow, ties, unselected series."""
    f = FUNCTIONS[name]
    gradient = lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(POINTS)  # noqa: E731
    exported = export.export(jax.jit(f))(POINTS)
    for program in (jaxmlir.from_stablehlo(lowered(f, POINTS)), jaxmlir.from_exported(exported)):
        same(program(POINTS), jax.jit(f)(POINTS))
        close(gradient(program), gradient(f), 1e-4)


SOLVERS = {
    "inv": ("custom_linear_solve", lambda a: jnp.linalg.inv(a)[0]),
    "qr": ("qr", lambda a: jnp.linalg.qr(a[:, :2])),
    "qr_r": ("qr", lambda a: jnp.linalg.qr(a[:2], mode="r")),
    "qr_of_lax": ("qr", lambda a: lax.linalg.qr(a[:, :2], full_matrices=False)),
    "qr_full": ("qr", lambda a: lax.linalg.qr(jnp.stack([a, a + 1]))[1]),
    "solve": ("custom_linear_solve", lambda a: jnp.linalg.solve(a, a[0])),
    "slogdet": ("custom_jvp_call_jaxpr", lambda a: jnp.linalg.slogdet(a)[1]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", SOLVERS)
def test_solutions_and_factors_have_the_derivatives_of_their_primitives(name):
    op, f = SOLVERS[name]
    exported = export.export(jax.jit(f))(SQUARE)
    for program in (jaxmlir.from_stablehlo(lowered(f, SQUARE)), jaxmlir.from_exported(exported)):
        assert f'"jaxpr.{op}"' in str(program)
        same(program(SQUARE), jax.jit(f)(SQUARE))
        close(program.jvp()((SQUARE,), (SQUARE,)), jax.jvp(f, (SQUARE,), (SQUARE,)), 1e-4)


def test_a_loop_that_differs_in_a_number_is_what_it_computes():
    def changed(text):
        return text.replace("dense<2.000000e+03>", "dense<3.000000e+00>")

    text = str(lowered(lax.igammac, POINTS, POINTS))
    assert "jaxpr.while" not in str(jaxmlir.from_stablehlo(text)) and changed(text) != text
    assert "jaxpr.while" in str(jaxmlir.from_stablehlo(changed(text)))


def test_a_function_of_that_name_is_what_it_computes():
    def relu(x):
        return jnp.maximum(x, 0.5)

    program = jaxmlir.from_stablehlo(lowered(lambda x: jax.jit(relu)(x).sum(), POINTS))
    assert "custom_jvp" not in str(program)
    close(program.grad()(POINTS), jax.grad(lambda x: relu(x).sum())(POINTS))
