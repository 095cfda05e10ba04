"""Exports with symbolic shapes stay symbolic when raised; results equal JAX's at several sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import jaxmlir
from jaxmlir.errors import ArgumentError, ImportingError, TransformError

pytestmark = pytest.mark.compat

B, N = export.symbolic_shape("b, n")
SIZES = {"b": 2, "n": 3}, {"b": 5, "n": 6}


def array(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def exported(f, *avals):
    return export.export(jax.jit(f), platforms=["cpu"])(*avals)


def values(avals, sizes):
    """Arrays of the shapes at some sizes; integers are small and not negative."""
    for k, aval in enumerate(avals):
        shape = [d if isinstance(d, int) else int(d._evaluate(sizes)) for d in aval.shape]
        flat = np.arange(int(np.prod(shape)))
        is_integer = np.issubdtype(aval.dtype, np.integer)
        yield jnp.asarray(flat % 3 if is_integer else np.cos(flat * 1.3 + k), aval.dtype).reshape(
            shape
        )


def close(got, want):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert jnp.shape(a) == jnp.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)


def total(f):
    def loss(*args):
        results = jax.tree.leaves(f(*args))
        return sum(jnp.sum(jnp.sin(r)) for r in results if r.dtype == jnp.float32)

    return loss


# --- what there is in models ----------------------------------------------------------------------


def mlp(x, w, v):
    return {"y": jax.nn.gelu(jnp.tanh(x @ w)) @ v, "relu": jax.nn.relu(x @ w)}


def attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("btd,bsd->bts", q, k) / 8)
    return jnp.einsum("bts,bsd->btd", weights, v)


def layer_norm(x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5)


def recurrence(x):
    """Scans along both symbolic dimensions, one backwards."""

    def step(carry, row):
        inner = lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), row.sum(), row)[1]
        return jnp.tanh(carry + inner), carry

    return lax.scan(step, jnp.zeros(x.shape[1:]), x, reverse=True)


def loop(x):
    return lax.fori_loop(0, x.shape[0], lambda i, y: jnp.sin(y + x[i]), x[0])


def masked(x):
    mask = jnp.tril(jnp.ones(x.shape[1:], bool))
    return jax.nn.softmax(jnp.where(mask, x, -jnp.inf), axis=-1)


def moments(x):
    return x.mean(), x.std(0), jnp.prod(x, 1), x.max(1), jnp.arange(x.shape[0]) + x.shape[1]


def convolution(stride):
    return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), "SAME")


def branches(x):
    return lax.cond(x.sum() > 0, jnp.sin, lambda y: y * 2 * x.shape[0], x)


def padded(x):
    return jnp.pad(x, ((0, 1), (x.shape[1], 2)))[:, : 2 * x.shape[1]]


def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")


def draws(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), jax.random.normal(key, x.shape), x)


def solution(x):
    return jnp.linalg.solve(x @ x.mT + jnp.eye(3), x), jnp.linalg.eigh(x + x.mT)[0]


FUNCTIONS = {
    "mlp": (mlp, array(B, 4), array(4, 8), array(8, 4)),
    "attention": (attention, *[array(B, N, 8)] * 3),
    "layer norm": (layer_norm, array(B, N)),
    "masked": (masked, array(B, N, N)),
    "convolution": (convolution(1), array(B, 3, N, 8), array(4, 3, 3, 3)),
    "strided convolution": (convolution(2), array(B, 3, N + 2, 8), array(4, 3, 3, 3)),
    "pooled": (pooled, array(B, N + 1, 8)),
    "take": (lambda x, i: jnp.take(x, i, axis=0), array(N, 4), array(B, dtype=np.int32)),
    "take along": (
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        array(B, N),
        array(B, 1, dtype=np.int32),
    ),
    "one of each row": (
        lambda x, i: jax.nn.log_softmax(x)[jnp.arange(x.shape[0]), i],
        array(B, N),
        array(B, dtype=np.int32),
    ),
    "scatter": (
        lambda x, i: x.at[i].add(1.0) * x.at[:, 0].set(2.0),
        array(N, 4),
        array(B, dtype=np.int32),
    ),
    "cumulative": (
        lambda x: (jnp.cumsum(x, 1), lax.cummax(x, 0), lax.cumlogsumexp(x, 1)),
        array(B, N),
    ),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 1), jnp.argmax(x, 0)), array(B, N)),
    "scan": (recurrence, array(N, B)),
    "loop": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, y: jnp.sin(y + x[i]), x[0]),
        array(N, B),
    ),
    "branches": (branches, array(B, N)),
    "slices": (lambda x: (x[1:, ::2], x[-1], x[: (x.shape[0] - 1) // 2 + 1]), array(N, B)),
    "pad": (padded, array(B, N)),
    "reshape": (lambda x: x.reshape(2, -1) * x.size, array(2 * B, N)),
    "reshape to another": (lambda x, y: x.reshape(2, -1) * y, array(2 * N), array(N)),
    "reverse": (lambda x, y: jnp.concatenate([x, y[::-1]]), array(B, 4), array(N, 4)),
    "moments": (moments, array(B, N)),
    "draws": (draws, array(2, dtype=np.uint32), array(B, N)),
    "solution": (solution, array(B, 3, 3)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_values_and_derivatives_at_several_sizes(name):
    f, *avals = FUNCTIONS[name]
    program = jaxmlir.from_exported(exported(f, *avals))
    assert [str(a.shape) for a in program.in_avals] == [str(a.shape) for a in avals]
    for sizes in SIZES:
        args = list(values(avals, sizes))
        close(program(*args), f(*args))
    real = [k for k, a in enumerate(avals) if a.dtype == np.float32]
    ours, theirs = (jax.jit(jax.grad(total(g), real)) for g in (program, f))
    close(ours(*args), theirs(*args))


def test_rows_of_a_symbolic_size_are_slices_of_the_scan():
    text = str(jaxmlir.from_exported(exported(recurrence, array(N, B))))
    assert "jaxpr.scan" in text and "jaxpr.dynamic_" not in text


def test_all_that_can_be_done_with_a_program(tmp_path):
    def f(x, w):
        rows = attention(x, x, x) @ w
        return lax.scan(lambda c, row: (jnp.tanh(c + row), c), jnp.zeros(rows.shape[1:]), rows)

    avals = array(N, B, 3), array(3, 3)
    program = jaxmlir.from_exported(exported(f, *avals).serialize())
    assert "scan" in str(program) and "while" not in str(program)
    program.save(tmp_path / "f.jaxmlir")
    loaded = jaxmlir.load(tmp_path / "f.jaxmlir").optimize(2)
    again = jaxmlir.from_exported(exported(loaded, *avals))
    jvp, (forward, backward) = again.jvp(), again.vjp()
    batched = program.vmap(axis_size=2)

    def ours(*args):
        results, residuals = forward(*args)
        stacked = [jnp.stack([a, 2 * a]) for a in args]
        return (
            loaded(*args),
            jvp(args, args),
            tuple(backward(residuals, results)),
            batched(*stacked),
        )

    def theirs(*args):
        results, pullback = jax.vjp(f, *args)
        stacked = [jnp.stack([a, 2 * a]) for a in args]
        return results, jax.jvp(f, args, args), pullback(results), jax.vmap(f)(*stacked)

    close(loaded(*values(avals, SIZES[1])), f(*values(avals, SIZES[1])))
    args = list(values(avals, SIZES[0]))
    close(jax.jit(ours)(*args), jax.jit(theirs)(*args))


def test_functions_that_jax_writes_as_several_ops_have_its_derivatives():
    def f(x):
        return jax.nn.relu(x), jax.nn.softplus(x), jax.nn.sigmoid(x)

    program = jaxmlir.from_exported(exported(f, array(B, N)))
    x = jnp.array([[0.0, 200.0, -200.0]])
    close(jax.grad(total(program))(x), jax.grad(total(f))(x))


def test_where_a_rule_takes_no_symbolic_sizes_the_program_of_given_ones_has_it():
    """JAX's convolutions have no symbolic padding, which the gradient with strides needs."""

    def f(x, w):
        return lax.conv(x, w, (2,), "SAME").sum()

    program = jaxmlir.from_exported(exported(f, array(1, 2, N), array(3, 2, 3)))
    args = list(values(program.in_avals, SIZES[0]))
    with pytest.raises(
        TransformError, match=r"'jaxpr.conv.*symbolic.*program.specialize\(\*args\)"
    ):
        program.grad()
    close(program.specialize(*args).grad()(*args), jax.grad(f)(*args))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["expn", "igamma"])
def test_series_have_their_derivatives(name):
    """Raised series have their derivatives also in a module with an unrelated symbolic size."""
    f = {
        "expn": lambda x, y: (jax.scipy.special.expn(2, jnp.exp(x)), y),
        "igamma": lambda x, y: (lax.igamma(jnp.full_like(x, 1.5), jnp.exp(x)), y),
    }[name]
    program = jaxmlir.from_exported(exported(f, array(3, N), array(B)))
    args = list(values(program.in_avals, SIZES[0]))
    close(jax.grad(total(program))(*args), jax.grad(total(f))(*args))


def test_one_function_at_two_sizes_is_two():
    @jax.jit
    def double(x):
        return jnp.cumsum(x, 0) * x.shape[0]

    program = jaxmlir.from_exported(
        exported(lambda x, y: (double(x), double(y), double(x[:1])), array(B), array(2 * B + N))
    )
    args = list(values(program.in_avals, SIZES[0]))
    close(program(*args), [double(args[0]), double(args[1]), double(args[0][:1])])


def test_integers_that_are_computed_of_sizes_and_constants_have_the_bits_of_their_type():
    def f(x):
        n = jnp.int32(x.shape[0])
        five, negative = lax.full((2,), 5, np.int32), lax.full((2,), -1, np.int8)
        small, large = lax.full((2,), 200, np.uint8), lax.full((2,), 2**31 - 1, np.int32)
        return (
            (~five, ~small, ~(n > 4), n & 3, n | 8, n ^ 8, ~n),
            (jnp.maximum(small, negative.astype(np.uint8)), small + small > small),
            (large + five > five, lax.div(small - small - np.uint8(1), np.uint8(3))),
            n.astype(np.uint32) - (n + 1).astype(np.uint32) > np.uint32(5),
            (n * 2**30 > 0, jnp.maximum(n * 2**30, 1), (n * 100).astype(np.int8) > 0),
            x.sum(),
        )

    program = jaxmlir.from_exported(exported(f, array(B, N)))
    for sizes in SIZES:
        args = list(values([array(B, N)], sizes))
        close(program(*args), f(*args))


def test_the_platform_and_sizes_of_a_module_for_several_platforms():
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos) * x.shape[0]

    several = export.export(jax.jit(f), platforms=["cpu", "cuda"])(array(B, N))
    program = jaxmlir.from_exported(several)
    assert "cond" not in str(program)
    (x,) = values([array(B, N)], SIZES[0])
    close(program(x), several.call(x))


def test_an_export_that_another_one_calls():
    (k,) = export.symbolic_shape("k", constraints=["k >= 4"])
    inner = exported(lambda x: jnp.cumsum(x) * 2, array(k))
    (m,) = export.symbolic_shape("m", constraints=["m >= 8"])
    program = jaxmlir.from_exported(exported(lambda x: inner.call(x) + 1, array(m)))
    close(program(jnp.ones(9)), 2 * jnp.arange(1.0, 10.0) + 1)


# --- constraints, names, texts --------------------------------------------------------------------


def test_constraints_and_names_are_those_of_the_export():
    c, d = export.symbolic_shape("c, d", constraints=["d >= 2*c", "mod(d, 4) == 0"])

    def f(x, y):
        return x[:, : x.shape[1] // 4 * 4].sum(0)[:4] + y[: x.shape[0]].sum()

    program = jaxmlir.from_exported(exported(f, array(c, d), array(d)))
    assert 'shape = "c, d"' in str(program) and "d >= 2*c" in str(program)
    close(program(jnp.ones((2, 4)), jnp.arange(4.0)), 2 * jnp.ones(4) + 1)
    with pytest.raises(ArgumentError, match=r"violates the constraint 'd >= 2\*c'"):
        program(jnp.ones((3, 4)), jnp.arange(4.0))


def test_a_text_says_which_sizes_are_equal_and_what_they_are_called():
    program = jaxmlir.from_stablehlo(exported(attention, *[array(B, N, 8)] * 3).mlir_module())
    assert [str(a) for a in program.in_avals] == ["float32[b,n,8]"] * 3
    args = list(values([array(B, N, 8)] * 3, SIZES[0]))
    close(program(*args), attention(*args))
    with pytest.raises(ArgumentError, match=r"f32\[b,n,8\]"):
        program(args[0], args[1][:1], args[2])


def test_sizes_of_another_program_have_names_of_their_own():
    program = jaxmlir.from_stablehlo("""
        func.func @main(%x: tensor<?x3xf32>) -> tensor<f32> {
          %size = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
          %n = stablehlo.convert %size : (tensor<i32>) -> tensor<f32>
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
            : (tensor<?x3xf32>, tensor<f32>) -> tensor<f32>
          %mean = stablehlo.divide %sum, %n : tensor<f32>
          return %mean : tensor<f32>
        }""")
    x = jnp.arange(6.0).reshape(2, 3)
    close(program.grad()(x), jnp.full((2, 3), 0.5))


def test_a_size_that_is_asserted_to_be_two_others_is_one_of_them_and_an_error():
    text = """
        func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
          %a = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          %b = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          %twice = stablehlo.add %b, %b : tensor<i32>
          %more = stablehlo.add %twice, %b : tensor<i32>
          %0 = stablehlo.compare EQ, %a, %twice : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.custom_call @shape_assertion(%0) {error_message = ""} : (tensor<i1>) -> ()
          %1 = stablehlo.concatenate %y, %y, dim = 0
            : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
          %2 = stablehlo.add %x, %1 : tensor<?xf32>
          return %2 : tensor<?xf32>
        }"""
    program = jaxmlir.from_stablehlo(text)
    close(program(jnp.ones(4), jnp.arange(2.0)), jnp.array([1.0, 2.0, 1.0, 2.0]))
    again = text[text.index("%0 =") : text.index("%1 =")].replace("%0", "%3")
    with pytest.raises(ImportingError, match="its assertion does not follow from the types"):
        jaxmlir.from_stablehlo(text.replace("%1 =", again.replace("twice", "more") + "%1 ="))


def test_floor_division_is_known_by_its_ops():
    """Division that rounds towards zero is no floor division if the sign is unknown; the remainder
    of large numbers is exact."""
    text = """
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          %large = stablehlo.constant dense<4611686018427387907> : tensor<i64>
          %four = stablehlo.constant dense<4> : tensor<i64>
          %rest = stablehlo.remainder %large, %four : tensor<i64>
          %three = stablehlo.convert %rest : (tensor<i64>) -> tensor<i32>
          %two = stablehlo.constant dense<2> : tensor<i32>
          %less = stablehlo.OP %n, %three : tensor<i32>
          %half = stablehlo.divide %less, %two : tensor<i32>
          %shape = stablehlo.reshape %half : (tensor<i32>) -> tensor<1xi32>
          %y = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
          return %y : tensor<?xf32>
        }"""
    program = jaxmlir.from_stablehlo(text.replace("OP", "add"))
    close(program(jnp.ones(4)), jnp.arange(3.0))
    with pytest.raises(ImportingError, match="its sizes are computed when the program runs"):
        jaxmlir.from_stablehlo(text.replace("OP", "subtract"))


@pytest.mark.parametrize(
    ("arguments", "op", "message"),
    [
        (
            "%x: tensor<f32>, %n: tensor<1xi32>",
            "dynamic_broadcast_in_dim %x, %n, dims = [] : (tensor<f32>, tensor<1xi32>)",
            "its sizes are computed when the program runs",
        ),
        (
            "%x: tensor<?xf32>, %y: tensor<?xf32>",
            "add %x, %y : (tensor<?xf32>, tensor<?xf32>)",
            r"the sizes of tensor<\?xf32> are not known: .*incompatible shapes",
        ),
    ],
)
def test_sizes_that_cannot_be_followed_are_an_error_of_that_op(arguments, op, message):
    text = f"func.func @main({arguments}) -> tensor<?xf32> {{\n"
    text += f"%0 = stablehlo.{op} -> tensor<?xf32>\nreturn %0 : tensor<?xf32>\n}}"
    with pytest.raises(ImportingError, match=message) as error:
        jaxmlir.from_stablehlo(text)
    name = "'stablehlo." + op.partition(" ")[0]
    assert name in str(error.value) and "-:2:" in str(error.value)
    assert "jaxmlir.from_exported(exported, *args)" in str(error.value)


def test_sizes_that_are_broadcast_to_several_are_a_constant():
    program = jaxmlir.from_stablehlo("""
func.func public @main(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<2x2xf32>) {
  %v = stablehlo.constant dense<2> : tensor<1xi32>
  %s = stablehlo.broadcast_in_dim %v, dims = [0] : (tensor<1xi32>) -> tensor<2xi32>
  %c = stablehlo.constant dense<3.0> : tensor<f32>
  %r = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = []
    : (tensor<f32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %x, %r : tensor<?xf32>, tensor<2x2xf32>
}""")
    _, threes = program(np.ones(3, np.float32))
    np.testing.assert_array_equal(threes, np.full((2, 2), 3.0, np.float32))


def test_sizes_that_torch_mlir_computes():
    program = jaxmlir.from_stablehlo("""
        func.func @main(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x2x2xf32> {
          %c0 = arith.constant 0 : index
          %c2 = arith.constant 2 : i64
          %dim = tensor.dim %x, %c0 : tensor<?x4xf32>
          %shape = shape.shape_of %x : tensor<?x4xf32> -> tensor<2xindex>
          %first = tensor.extract %shape[%c0] : tensor<2xindex>
          %rows_of_x = arith.maxsi %dim, %first : index
          %n = arith.index_cast %rows_of_x : index to i64
          %sizes = tensor.from_elements %n, %c2, %c2 : tensor<3xi64>
          %rows = stablehlo.dynamic_broadcast_in_dim %y, %shape, dims = [1]
            : (tensor<4xf32>, tensor<2xindex>) -> tensor<?x4xf32>
          %0 = stablehlo.multiply %x, %rows : tensor<?x4xf32>
          %1 = chlo.broadcast_add %0, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
          %2 = stablehlo.dynamic_reshape %1, %sizes
            : (tensor<?x4xf32>, tensor<3xi64>) -> tensor<?x2x2xf32>
          return %2 : tensor<?x2x2xf32>
        }""")
    x, y = jnp.arange(12.0).reshape(3, 4), jnp.arange(4.0)
    close(program(x, y), (x * y + y).reshape(3, 2, 2))
