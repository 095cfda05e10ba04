"""Derivatives of StableHLO ops whose JAX primitives have none, or that of another function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

pytestmark = pytest.mark.compat

COMBINATIONS = {
    "product": "%r = stablehlo.multiply %a, %b : tensor<f32>",
    "sum of squares": """%s = stablehlo.multiply %b, %b : tensor<f32>
        %r = stablehlo.add %a, %s : tensor<f32>""",
    "a + b + ab": """%s = stablehlo.multiply %a, %b : tensor<f32>
        %t = stablehlo.add %a, %b : tensor<f32>
        %r = stablehlo.add %s, %t : tensor<f32>""",
    "axpy": """%two = stablehlo.constant dense<2.0> : tensor<f32>
        %s = stablehlo.multiply %b, %two : tensor<f32>
        %r = stablehlo.add %a, %s : tensor<f32>""",
    "constant": "%r = stablehlo.constant dense<2.0> : tensor<f32>",
    "maximum": "%r = stablehlo.maximum %a, %b : tensor<f32>",
}


def region(name):
    return f"""({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        {COMBINATIONS[name]}
        stablehlo.return %r : tensor<f32>
    }})"""


def program_of(arguments, body, result):
    return jaxmlir.from_stablehlo(f"""func.func public @main({arguments}) -> {result} {{
      {body}
      return %0 : {result}
    }}""")


def check(program, expected, *args, **options):
    """Compares value, forward and reverse derivatives, and a batch with those of a JAX function."""
    args = tuple(map(jnp.asarray, args))
    tangents = tuple(
        jnp.cos(jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape)
        if jnp.issubdtype(a.dtype, jnp.inexact)
        else np.zeros(a.shape, jax.dtypes.float0)
        for a in args
    )
    wanted, pullback = jax.vjp(expected, *args)
    result, residuals = program.vjp()[0](*args)
    got = program.vjp()[1](residuals, jnp.ones_like(result))
    batch = program.vmap()(*(jnp.stack([a, a]) for a in args))
    floats = [k for k, a in enumerate(args) if jnp.issubdtype(a.dtype, jnp.inexact)]
    pairs = [(result, wanted), (batch, jnp.stack([wanted, wanted]))]
    pairs += zip(program.jvp()(args, tangents), jax.jvp(expected, args, tangents), strict=True)
    pairs += [(got[k], pullback(jnp.ones_like(wanted))[k]) for k in floats]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


X = np.linspace(-0.9, 0.8, 15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize(
    ("name", "init", "expected"),
    [
        ("product", 0.5, lambda x: 0.5 * jnp.prod(x, 1)),
        ("sum of squares", 0.0, lambda x: jnp.sum(x**2, 1)),
        ("a + b + ab", 0.5, lambda x: 1.5 * jnp.prod(1 + x, 1) - 1),
    ],
)
def test_reductions_that_begin_with_anything(name, init, expected):
    """JAX expands such reductions into a tree, whose derivative is a different one."""
    reduce = f"""%0 = "stablehlo.reduce"(%x, %init) <{{dimensions = array<i64: 1>}}> {region(name)}
      : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>"""
    constant = f"%init = stablehlo.constant dense<{init}> : tensor<f32>\n"
    check(program_of("%x: tensor<3x5xf32>", constant + reduce, "tensor<3xf32>"), expected, X)


def test_a_reduction_that_begins_with_an_argument():
    body = f"""%0 = "stablehlo.reduce"(%x, %init) <{{dimensions = array<i64: 1>}}>
      {region("a + b + ab")} : (tensor<3x20xf32>, tensor<f32>) -> tensor<3xf32>"""
    program = program_of("%x: tensor<3x20xf32>, %init: tensor<f32>", body, "tensor<3xf32>")
    x = np.linspace(-0.1, 0.2, 60, dtype=np.float32).reshape(3, 20)
    check(program, lambda x, i: (1 + i) * jnp.prod(1 + x, 1) - 1, x, np.float32(0.5))


def test_the_greatest_element_and_where_it_is():
    """The reduction is as torch-mlir writes it; JAX has no derivative if an operand is integer."""
    body = """%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %i = stablehlo.iota dim = 1 : tensor<3x5xi32>
      %0, %1 = "stablehlo.reduce"(%x, %i, %low, %zero) <{dimensions = array<i64: 1>}> ({
      ^bb0(%a: tensor<f32>, %i1: tensor<i32>, %b: tensor<f32>, %i2: tensor<i32>):
        %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
        %t = stablehlo.select %p, %i1, %i2 : tensor<i1>, tensor<i32>
        stablehlo.return %s, %t : tensor<f32>, tensor<i32>
      }) : (tensor<3x5xf32>, tensor<3x5xi32>, tensor<f32>, tensor<i32>)
        -> (tensor<3xf32>, tensor<3xi32>)"""
    program = program_of("%x: tensor<3x5xf32>", body, "tensor<3xf32>")
    check(program, lambda x: jnp.max(x, 1), np.sin(7 * X))


WINDOW = """window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 0]]> :
  tensor<2x2xi64>, window_dilations = array<i64: 1, 2>"""


@pytest.mark.parametrize(
    ("name", "init", "expected"),
    [
        ("product", "0.5", lambda x, y: 0.5 * y * jnp.where(jnp.arange(4) == 0, 1.0, x)),
        ("maximum", "0xFF800000", lambda x, y: jnp.where(jnp.arange(4) == 0, y, jnp.maximum(x, y))),
    ],
)
def test_windows(name, init, expected):
    body = f"""%init = stablehlo.constant dense<{init}> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %init) <{{{WINDOW}}}> {region(name)}
      : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x4xf32>"""
    program = program_of("%x: tensor<3x5xf32>", body, "tensor<3x4xf32>")
    check(program, lambda x: expected(jnp.pad(x, ((0, 0), (1, 0)))[:, :4], x[:, 1:]), np.sin(7 * X))


@pytest.mark.parametrize(
    ("name", "unique", "expected"),
    [
        ("axpy", True, lambda x, u: x.at[jnp.array([4, 0])].add(2 * u[jnp.array([0, 2])])),
        ("constant", True, lambda x, u: x.at[jnp.array([4, 0])].set(2.0) + 0 * u.sum()),
        (
            "a + b + ab",
            True,
            lambda x, u: x.at[jnp.array([4, 0])].set(u[::2] + x[::-4] * (1 + u[::2])),
        ),
        ("product", False, lambda x, u: x.at[4].mul(u[0] * u[2])),
        ("a + b + ab", False, lambda x, u: x.at[4].set((1 + x[4]) * (1 + u[0]) * (1 + u[2]) - 1)),
    ],
)
def test_scatters(name, unique, expected):
    """An update out of bounds is dropped; updates of duplicate indices are combined."""
    body = f"""%0 = "stablehlo.scatter"(%x, %i, %u) <{{
      scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
      unique_indices = {str(unique).lower()}}}> {region(name)}
      : (tensor<5x3xf32>, tensor<3x1xi32>, tensor<3x3xf32>) -> tensor<5x3xf32>"""
    arguments = "%x: tensor<5x3xf32>, %i: tensor<3x1xi32>, %u: tensor<3x3xf32>"
    program = program_of(arguments, body, "tensor<5x3xf32>")
    indices = np.array([[4], [7], [0 if unique else 4]], np.int32)
    check(program, lambda x, i, u: expected(x, u), X.T, indices, X[:, :3] + 2)
    # The derivative's rule keeps 64-bit types, which JAX narrows here.
    wide = [text.replace("f32", "f64") for text in (arguments, body, "tensor<5x3xf32>")]
    assert "xf32" not in str(program_of(*wide).jvp())


def test_bounds_that_are_scalars():
    body = """%0 = stablehlo.clamp %low, %x, %high
      : (tensor<f32>, tensor<5xf32>, tensor<f32>) -> tensor<5xf32>"""
    arguments = "%low: tensor<f32>, %x: tensor<5xf32>, %high: tensor<f32>"
    program = program_of(arguments, body, "tensor<5xf32>")
    check(
        program,
        lambda a, x, b: jnp.minimum(jnp.maximum(x, a), b),
        np.float32(-0.3),
        X[1],
        np.float32(0.4),
    )


@pytest.mark.parametrize("lower", [True, False])
def test_a_factor_has_zeros_beside_its_triangle(lower):
    body = f"%0 = stablehlo.cholesky %x, lower = {str(lower).lower()} : tensor<3x3xf32>"
    program = program_of("%x: tensor<3x3xf32>", body, "tensor<3x3xf32>")

    def expected(x):
        factor = jnp.linalg.cholesky(x)
        return factor if lower else factor.T

    check(program, expected, X @ X.T + np.eye(3, dtype=np.float32))


@pytest.mark.parametrize("n", [5, 0])
def test_the_gradient_of_a_normalization_is_of_the_moments_that_it_is_given(n):
    body = f"""%0, %1, %2 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{{
      epsilon = 0.001 : f32, feature_index = 1 : i64}}> : (tensor<3x{n}xf32>, tensor<{n}xf32>,
      tensor<{n}xf32>, tensor<{n}xf32>, tensor<3x{n}xf32>) -> (tensor<3x{n}xf32>, tensor<{n}xf32>,
      tensor<{n}xf32>)"""
    row, matrix = f"tensor<{n}xf32>", f"tensor<3x{n}xf32>"
    arguments = f"%x: {matrix}, %s: {row}, %m: {row}, %v: {row}, %g: {matrix}"
    program = program_of(arguments, body, matrix)

    def expected(x, scale, mean, variance, cotangent):
        normal = (x - mean) / jnp.sqrt(variance + 0.001)
        along = jnp.mean(cotangent * normal, 0)
        return scale * (cotangent - cotangent.mean(0) - normal * along) / jnp.sqrt(variance + 0.001)

    x = X[:, :n]
    check(program, expected, x, x[0], x[1], x[2] ** 2 + 0.1, np.sin(7 * x))


def test_arithmetic_of_another_dialect():
    """Some compilers add derivatives with ops of MLIR's own dialects."""
    body = """%two = arith.constant dense<2.0> : tensor<5xf32>
      %s = arith.mulf %x, %two : tensor<5xf32>
      %t = arith.maximumf %s, %x : tensor<5xf32>
      %u = arith.subf %t, %two : tensor<5xf32>
      %0 = arith.divf %u, %s : tensor<5xf32>"""
    program = program_of("%x: tensor<5xf32>", body, "tensor<5xf32>")
    check(program, lambda x: (jnp.maximum(2 * x, x) - 2) / (2 * x), X[0])
