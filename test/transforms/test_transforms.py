"""Derivatives and batches of programs, made by the passes; JAX's own are the oracle."""

import inspect
import itertools
import os
from collections import namedtuple
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import check_derivatives, check_vmap, close
from jax import lax
from programs.derivatives import cosine, sine
from round_trip import reread

import jaxmlir
from jaxmlir.errors import ArgumentError, EvaluationError, LoweringError, TransformError

pytestmark = pytest.mark.compat

Pair = namedtuple("Pair", "first second")

f32, i32 = np.float32, np.int32
X = np.array([0.3, -0.7, 1.1], f32)
MATRIX = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]], f32)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4], [-1.2, 0.6, 0.8]], f32)


# --- functions with custom rules --------------------------------------------------------------


@jax.custom_jvp
def twice(x):
    """2x, with the derivative of 5x: results tell whether the rule ran."""
    return 2 * x


@twice.defjvp
def twice_jvp(primals, tangents):
    return twice(*primals), 5 * tangents[0]


@jax.custom_vjp
def tripled(x):
    """2x, with the cotangent of 3x."""
    return 2 * x


tripled.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def scaled(tree, factor):
    return {"sum": tree[0] + tree[1], "product": tree[0] * tree[1] * factor}


def scaled_fwd(tree, factor):
    return scaled(tree, factor), tree


def scaled_bwd(factor, tree, ct):
    """Twice the true cotangents."""
    x, y = tree
    dsum, dproduct = 2 * ct["sum"], 2 * ct["product"] * factor
    return ((dsum + y * dproduct, dsum + x * dproduct),)


scaled.defvjp(scaled_fwd, scaled_bwd)


# --- programs ---------------------------------------------------------------------------------

CASES = {}


def case(*args):
    def add(f):
        CASES[f.__name__] = (f, args)
        return f

    return add


@case({"w": X, "b": None}, i32(3), Pair(f32(0.5), (X,)))
def pytrees(d, n, pair):
    y = jnp.tanh(d["w"] * pair.first + pair.second[0] * n)
    return {"y": y, "n": n + 1, "none": None, "pair": Pair(y.sum(), d["w"])}


@case(ROWS, np.array([0, 2, 2], i32), X)
def gather_scatter(x, index, y):
    gathered = x[index] * x[:, 1]
    return gathered.at[index].add(y), y.at[index].set(x[0]), lax.dynamic_slice(y, index[:1], (2,))


@case(X, ROWS[0])
def search(x, queries):
    """Computes with the integers of searchsorted, to which newer JAX's rule gives a tangent."""
    return jnp.sin(queries) * jnp.take(x, 2 - jnp.searchsorted(jnp.sort(x), queries), mode="clip")


@case(MATRIX, X)
def linear_algebra(a, b):
    symmetric = a @ a.T + 3 * jnp.eye(3)
    factor = jnp.linalg.cholesky(symmetric)
    return (
        jnp.linalg.solve(a, b),
        factor,
        jnp.linalg.slogdet(a)[1],
        jnp.linalg.eigh(symmetric)[0],
        jnp.linalg.inv(a),
    )


@case(np.array([0.5 + 1j, -0.25j, 1.0], np.complex64), X)
def complex_numbers(z, x):
    return jnp.sin(z) * x, jnp.abs(z * z), lax.complex(x, x) * jnp.conj(z), jnp.fft.fft(z).real


@case(i32(0), X)
def branches(i, x):
    y = lax.cond(i > 0, jnp.sin, lambda x: x**2, x)
    return lax.switch(i, [jnp.cos, lambda x: 3 * x, lambda x: jnp.zeros_like(x)], y)


@case(X, ROWS)
def scans(x, rows):
    def step(carry, row):
        total, count, unused = carry
        return (jnp.sin(total) * row, count + 1, unused), (total @ row, count)

    return lax.scan(step, (x, 0, x), rows, reverse=True, unroll=2)


@case(X, ROWS)
def nested_control_flow(x, rows):
    def step(carry, row):
        inner, _ = lax.scan(lambda c, r: (jnp.cos(c * r), None), carry[0], row)
        carry = lax.cond(inner > 0, sine, twice, carry * row)
        return carry, lax.fori_loop(0, 2, lambda _, c: c * inner, inner)

    return lax.scan(jax.checkpoint(jax.jit(step)), x, rows)


@case(X)
def custom_rules_everywhere(x):
    def step(x, _):
        x = lax.cond(x[0] > 0, sine, tripled, x)
        return jax.checkpoint(jax.jit(twice))(x), scaled((x, x), 3.0)

    y, ys = lax.scan(step, x, None, length=2)
    return jax.vmap(tripled)(y), ys


@case(X)
def remat(x):
    policy = jax.checkpoint_policies.dots_saveable
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(ROWS @ x)), policy=policy)
    return jax.checkpoint(lambda x: f(f(x)))(x)


@case(f32(2.0))
def custom_root(a):
    def newton(f, x):
        return lax.fori_loop(0, 8, lambda _, x: x - f(x) / jax.grad(f)(x), x)

    return lax.custom_root(lambda x: x**2 - a, a, newton, lambda g, y: y / g(1.0))


@case(MATRIX, X)
def custom_linear_solve(a, b):
    def solve(matvec, b):
        def step(_, x):
            return x + 0.25 * (b - matvec(x))

        return lax.fori_loop(0, 40, step, b)

    return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


@case(X)
def activations(x):
    return jax.nn.relu(x), jax.nn.gelu(x), jax.nn.softmax(x), jax.nn.logsumexp(x), jax.nn.silu(x)


@case(np.array([1, 2], np.uint32), X)
def random_numbers(data, x):
    key = jax.random.wrap_key_data(data)
    first, second = jax.random.split(key)
    return x * jax.random.normal(first, (3,)), jax.random.uniform(second, (2,)) * x[0], second


@case(X, ROWS)
def reductions(x, rows):
    return (
        jnp.sort(x),
        jnp.max(rows, 0),
        jnp.cumsum(rows, 1),
        jnp.cumprod(rows, 0),
        lax.reduce_window(rows, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        jnp.prod(x),
        lax.top_k(x, 2)[0],
        jnp.einsum("ij,kj,k->i", rows, rows, x),
    )


@case(X, i32(2))
def calls(x, n):
    @jax.jit
    def several(x, n):
        # One result is nonlinear, one is an argument, one has no tangent, one is used twice.
        return jnp.sin(x) * n, x, n + 1, jax.jit(jnp.cos)(x) * 2, jnp.ones(2)

    first, same, count, twice, _ = several(x, n)
    unused, other, _, _, constant = several(twice + same, count)
    return first * twice, other, several(lax.stop_gradient(x), n)[0], constant, jax.jit(sine)(x)


@case(X)
def unused_and_constant(x):
    return jnp.ones(2), lax.stop_gradient(x), x.astype(int), jnp.sin(lax.stop_gradient(x)) * x


# Forward mode of a function with a custom VJP is an error.
REVERSE_ONLY = {"custom_rules_everywhere"}


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min, jnp.sum, jnp.prod])
def test_reductions(reduce):
    """The parameters of reductions differ between versions of JAX."""
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    program = jaxmlir.trace(lambda x: jnp.sum(reduce(x, 1) ** 2))(x)
    expected = jax.grad(lambda x: jnp.sum(reduce(x, 1) ** 2))(x)
    np.testing.assert_allclose(program.grad()(x), expected, rtol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_jaxs(name):
    check_derivatives(*CASES[name], forward=name not in REVERSE_ONLY)


@pytest.mark.parametrize("name", ["pytrees", "nested_control_flow", "custom_rules_everywhere"])
def test_derivatives_of_a_parsed_program(name):
    check_derivatives(*CASES[name], forward=name not in REVERSE_ONLY, text=True)


def test_forward_mode_of_a_while_loop():
    def f(x, n):
        return lax.while_loop(lambda s: s[1] < n, lambda s: (jnp.sin(s[0]) * x, s[1] + 1), (x, 0))

    program = jaxmlir.trace(f)(X, i32(3))
    jvp = program.jvp()
    jvp.verify()
    args, tangents = (X, i32(3)), (ROWS[0], np.zeros((), jax.dtypes.float0))
    close(jvp(args, tangents), jax.jvp(f, args, tangents))


def test_forward_mode_of_a_for_loop():
    def f(x, n):
        return lax.fori_loop(0, n, lambda i, x: jnp.sin(x) * i, x)

    jvp = jaxmlir.trace(f)(X, i32(3)).jvp()
    args, tangents = (X, i32(3)), (ROWS[0], np.zeros((), jax.dtypes.float0))
    close(jvp(args, tangents), jax.jvp(f, args, tangents))


def test_a_function_is_transformed_once_however_often_it_is_called():
    layer = jax.jit(lambda x: jnp.tanh(ROWS @ x))

    def layers(x):
        for _ in range(5):
            x = layer(x)
        return x.sum()

    gradient = jaxmlir.trace(layers)(X).grad()
    assert len(gradient.functions) == 3, "the gradient, and the layer forwards and backwards"
    close(gradient(X), jax.grad(layers)(X))


# --- gradients: the options of jax.grad -------------------------------------------------------


def weighted(d, n, x, z):
    y = jnp.sum(d["w"] * jnp.sin(x) * n)
    return y + jnp.abs(z) ** 2, {"y": y, "n": n}


WEIGHTED = ({"w": X, "b": None}, i32(3), f32(0.5), np.complex64(1 + 2j))


@pytest.mark.parametrize("argnums", [0, 2, (2, 0), (0, 3), -2, [3], np.int64(2)])
@pytest.mark.parametrize("value", [False, True])
def test_grad_takes_argnums_as_jax(argnums, value):
    def scalar(*args):
        return weighted(*args)[0]

    program = jaxmlir.trace(scalar)(*WEIGHTED)
    ours = (program.value_and_grad if value else program.grad)(argnums)
    theirs = (jax.value_and_grad if value else jax.grad)(scalar, argnums)
    ours.verify()
    close(ours(*WEIGHTED), theirs(*WEIGHTED))


@pytest.mark.parametrize("value", [False, True])
def test_grad_with_auxiliary_results_and_integers(value):
    program = jaxmlir.trace(weighted)(*WEIGHTED)
    ours = program.value_and_grad if value else program.grad
    theirs = jax.value_and_grad if value else jax.grad
    options = {"argnums": (1, 0), "has_aux": True, "allow_int": True}
    close(ours(**options)(*WEIGHTED), theirs(weighted, **options)(*WEIGHTED))
    of_number = jaxmlir.trace(lambda n: 2.0 * n)(3).grad(allow_int=True)
    assert not of_number.out_avals[0].weak_type


def test_holomorphic_grad():
    z = np.complex64(0.3 - 1j)
    program = jaxmlir.trace(lambda z: jnp.sin(z) * z)(z)
    close(program.grad(holomorphic=True)(z), jnp.cos(z) * z + jnp.sin(z))


def test_gradient_of_a_trace_of_a_product():
    """tr(A @ B): the gradient is (B.T, A.T)."""
    program = jaxmlir.trace(lambda a, b: jnp.trace(a @ b))(MATRIX, ROWS)
    gradient = program.grad((0, 1))(MATRIX, ROWS)
    close(gradient, (jnp.asarray(ROWS.T), jnp.asarray(MATRIX.T)))


# --- laws of custom derivative rules ----------------------------------------------------------


def test_jvp_of_a_custom_jvp_call_is_its_rule():
    program = jaxmlir.trace(twice)(f32(3.0))
    assert tuple(map(float, program.jvp()((f32(3.0),), (f32(1.0),)))) == (6.0, 5.0)
    # Without differentiation the rule has no effect: the program runs the function.
    assert float(program(f32(3.0))) == 6.0


def test_vmap_keeps_custom_rules():
    """The vmap-removes-custom-rule test: 3s, not 2s."""
    one, four = f32(1.0), np.ones(4, f32)
    assert float(jaxmlir.trace(tripled)(one).grad()(one)) == 3
    np.testing.assert_array_equal(
        jaxmlir.trace(tripled)(one).grad().vmap(axis_size=4)(four), np.full(4, 3, f32)
    )
    batched = jaxmlir.trace(tripled)(one).vmap(axis_size=4)
    assert "custom_vjp_call" in batched.as_text()
    total = jaxmlir.trace(lambda x: batched(x).sum())(four)
    np.testing.assert_array_equal(total.grad()(four), np.full(4, 3, f32))
    fwd, bwd = reread(batched).vjp()
    np.testing.assert_array_equal(bwd(fwd(four)[1], four)[0], np.full(4, 3, f32))


def test_vmap_of_a_custom_jvp_call_batches_its_rule():
    batched = jaxmlir.trace(twice)(f32(1.0)).vmap(axis_size=3)
    assert "custom_jvp_call" in batched.as_text()
    close(batched.jvp()((X,), (X,)), (jnp.asarray(2 * X), jnp.asarray(5 * X)))


@pytest.mark.parametrize("f", [sine, lambda x: lax.cond(x > 0, sine, cosine, x)])
def test_rules_that_call_their_own_function_to_the_fourth_derivative(f):
    program, x = jaxmlir.trace(f)(f32(0.7)), f32(0.7)
    derivatives = [jnp.cos, lambda x: -jnp.sin(x), lambda x: -jnp.cos(x), jnp.sin]
    for derivative in derivatives:
        program = reread(program.grad())
        np.testing.assert_allclose(program(x), derivative(x), rtol=2e-6)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
        lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
        jax.checkpoint,
        jax.jit,
        lambda f: lambda x: lax.fori_loop(0, 1, lambda _, x: f(x), x),
        lambda f: lambda x: jax.vmap(f)(x[None])[0],
    ],
    ids=["scan", "cond", "remat", "jit", "fori", "vmap"],
)
def test_control_flow_and_text_keep_rules(wrap):
    x = f32(1.0)
    for f, slope in ((twice, 5.0), (tripled, 3.0)):
        program = reread(jaxmlir.trace(wrap(f))(x))
        assert float(program.grad()(x)) == slope
        fwd, bwd = program.vmap(axis_size=1).vjp()
        assert float(bwd(fwd(x[None])[1], x[None])[0][0]) == slope


def test_a_while_loop_keeps_rules():
    def f(x):
        return lax.while_loop(lambda s: s[1] < 2, lambda s: (twice(s[0]), s[1] + 1), (x, 0))[0]

    value, slope = reread(jaxmlir.trace(f)(f32(1.0))).jvp()((f32(1.0),), (f32(1.0),))
    assert (float(value), float(slope)) == (4.0, 25.0)


# --- batches ----------------------------------------------------------------------------------


def test_vmap_of_pytrees_and_axes():
    def f(d, n, pair):
        y = d["w"] * pair.first + n
        return {"y": y, "n": n, "none": None, "t": Pair(y.sum(), pair.first)}

    args = ({"w": ROWS, "b": None}, i32(3), Pair(X, None))
    in_axes = ({"w": 1, "b": None}, None, 0)
    out_axes = {"y": -1, "n": None, "none": None, "t": 0}
    batched = check_vmap(f, args, in_axes, out_axes)
    assert "tensor<3x3xi32>" not in batched.as_text()


@pytest.mark.parametrize(
    "name",
    [name for name in CASES if name not in {"pytrees", "random_numbers", "custom_linear_solve"}],
)
def test_vmap_equals_jaxs(name):
    f, args = CASES[name]
    in_axes = tuple(0 if i == 0 else None for i in range(len(args)))
    first = jnp.stack([args[0]] * 2)
    check_vmap(f, (first, *args[1:]), in_axes, axis_size=2)


def test_vmap_of_random_keys():
    data = np.array([[1, 2], [3, 4]], np.uint32)
    check_vmap(CASES["random_numbers"][0], (data, X), (0, None), axis_size=2)


def test_vmap_of_a_while_loop_with_a_batched_condition():
    def f(n, x):
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, x))

    check_vmap(f, (np.array([0, 2, 5], i32), f32(1.5)), (0, None))


def test_vmap_of_collectives():
    def f(x, y):
        i = lax.axis_index("rows")
        return (
            lax.psum(x, "rows"),
            x / lax.pmax(x, "rows"),
            lax.all_gather(x, "rows"),
            lax.ppermute(x, "rows", [(0, 1), (1, 2), (2, 0)]),
            lax.pmean(y, "rows") + i,
            i,
        )

    check_vmap(f, (ROWS, X), (0, None), axis_name="rows")


def test_a_rule_that_is_traced_after_batching_names_the_axis():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (lax.psum(ct * x, "rows"),))
    fwd, bwd = jaxmlir.trace(f)(X).vmap(axis_size=len(ROWS), axis_name="rows").vjp()
    _, pullback = jax.vjp(jax.vmap(f, axis_name="rows"), ROWS)
    close(bwd(fwd(ROWS)[1], ROWS), pullback(ROWS))


@pytest.mark.compat
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0)], ids=["batched", "shared"])
def test_a_rule_names_the_axis_as_its_function_does(in_axes):
    """In a scan, which JAX batches as it names the axis; and a call of what is not batched."""

    @jax.custom_jvp
    def f(x):
        return lax.psum(jnp.sin(x), "rows")

    f.defjvp(lambda x, t: (f(*x), 3 * lax.psum(t[0] * jnp.cos(x[0]), "rows")))

    def g(x, y):
        return lax.scan(lambda c, _: (f(c), c * x), y, None, length=2), f(x) * y

    x = ROWS if in_axes[0] == 0 else X
    jaxpr = jax.make_jaxpr(g, axis_env=[("rows", len(ROWS))])(X, X)
    program = jaxmlir.from_jaxpr(jaxpr).vmap(in_axes, axis_size=len(ROWS), axis_name="rows")
    want = jax.jvp(jax.vmap(g, in_axes, axis_name="rows"), (x, ROWS), (x, ROWS))
    close(jax.tree.leaves(program.jvp()((x, ROWS), (x, ROWS))), jax.tree.leaves(want))


def test_tokens_have_no_derivatives_and_are_not_batched():
    text = """
      func.func public @main(%t: !jaxpr.token, %x: tensor<3xf32>) -> (tensor<f32>, !jaxpr.token) {
        %0 = "jaxpr.after_all"(%t) : (!jaxpr.token) -> !jaxpr.token
        %1 = "jaxpr.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
        %2 = "jaxpr.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
        return %2, %0 : tensor<f32>, !jaxpr.token
      }"""
    program, token = jaxmlir.parse(text), jax.jit(lax.create_token)()
    args = token, X
    close(program.jvp()(args, args)[1][0], jnp.sum(X * jnp.cos(X)))
    fwd, bwd = program.vjp()
    close(bwd(fwd(*args)[1], (f32(1), token))[1], jnp.cos(X))
    close(jax.grad(lambda x: program(token, x)[0])(X), jnp.cos(X))
    batched = program.vmap((None, 0), (0, None), axis_size=len(ROWS))
    close(batched(token, ROWS)[0], jnp.sum(jnp.sin(ROWS), 1))
    with pytest.raises(ArgumentError, match="in_axes: expected None for leaf 0, a token, got 0"):
        program.vmap(axis_size=len(ROWS))


def test_a_mark_in_a_text_stands_for_no_rule():
    text = """
      func.func public @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = "jaxpr.custom_jvp_call_jaxpr"(%x) {call_jaxpr = @sine, jaxpr.untraced = 7}
          : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
      func.func private @sine(%x: tensor<f32>) -> tensor<f32> {
        %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }"""
    batched = jaxmlir.parse(text).vmap(axis_size=3)
    close(batched(X), jnp.sin(X))
    with pytest.raises(TransformError, match="the custom derivative rule 'jvp_jaxpr' is absent"):
        batched.jvp()


def test_vmap_without_a_size_is_specialised_by_its_arguments():
    batched = jaxmlir.trace(lambda x, y: x * y)(f32(1), X).vmap((0, None))
    for xs in (ROWS[0], ROWS[0, :2]):
        close(batched(xs, X), jnp.asarray(xs[:, None] * X))


# --- words ------------------------------------------------------------------------------------


def apply_word(word, f, args):
    """JAX's function, the program and arguments for a word of transformations.

    The program is printed and parsed between them.  Gradients are of the sum of all results.
    """

    def total(g):
        return lambda *xs: sum(jnp.sum(x) for x in jax.tree.leaves(g(*xs)))

    def jvp_of(g):
        return lambda primals, tangents: jax.jvp(g, primals, tangents)

    program = jaxmlir.trace(f)(*args)
    for step in word:
        if step == "jvp":
            f, program = jvp_of(f), program.jvp()
            args = (args, jax.tree.map(lambda x: 0.5 + x, args))
        elif step == "grad":
            f, program = jax.grad(total(f)), jaxmlir.trace(total(program))(*args).grad()
        else:
            f, program = jax.vmap(f), program.vmap(axis_size=2)
            args = jax.tree.map(lambda x: np.stack([x, 0.5 * x]), args)
        program = reread(program)
    return f, program, args


def words(letters, longest):
    lengths = range(1, longest + 1)
    return [w for length in lengths for w in itertools.product(letters, repeat=length)]


def with_rules(x):
    return sine(x) * twice(x)


def with_control_flow(x):
    def step(c, _):
        return lax.cond(c > 0.5, lambda c: c * x, jnp.sin, c), None

    return lax.scan(jax.checkpoint(step), x, None, length=2)[0]


def with_arrays(x):
    return jnp.tanh(ROWS @ x)[np.array([0, 2, 0])] * jnp.max(x)


def with_a_custom_vjp(x):
    return tripled(x * x) * x


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("f", "x", "letters", "longest"),
    [
        (with_rules, f32(0.7), ("jvp", "grad", "vmap"), 3),
        (with_control_flow, f32(0.7), ("jvp", "grad", "vmap"), 2),
        (with_arrays, X, ("jvp", "grad", "vmap"), 2),
        (with_a_custom_vjp, f32(0.7), ("grad", "vmap"), 3),
    ],
)
def test_words_of_transformations_equal_jaxs(f, x, letters, longest):
    made = [apply_word(word, f, (x,)) for word in words(letters, longest)]

    arguments = [args for _, _, args in made]

    def ours(arguments):
        return [program(*args) for (_, program, _), args in zip(made, arguments, strict=True)]

    def theirs(arguments):
        return [g(*args) for (g, _, _), args in zip(made, arguments, strict=True)]

    close(jax.jit(ours)(arguments), jax.jit(theirs)(arguments), rtol=1e-4)


# --- errors -----------------------------------------------------------------------------------


def line_of(function, text):
    """``file:line`` of the line in a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    (found,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{os.path.basename(__file__)}:{found}"


def test_reverse_mode_of_a_while_loop_names_the_line():
    def f(x):
        return lax.while_loop(lambda x: x < 9, lambda x: x * x, x)

    program = jaxmlir.trace(f)(f32(2.0))
    for transformation in (program.vjp, program.grad):
        with pytest.raises(TransformError, match="jaxpr.while") as error:
            transformation()
        assert line_of(f, "while_loop") in str(error.value)


def test_forward_mode_of_a_custom_vjp_names_the_line():
    def f(x):
        return tripled(x) + 1

    def g(x):
        return lax.cond(x > 0, f, jnp.sin, x)

    for function in (f, g):
        jvp = jaxmlir.trace(function)(f32(1.0)).jvp()
        with pytest.raises(LoweringError, match="custom_lin.*custom_vjp_forward=") as error:
            jvp((f32(1.0),), (f32(1.0),))
        with pytest.raises(EvaluationError, match="custom_lin.*custom_vjp_forward="):
            jvp.eval((f32(1.0),), (f32(1.0),))
        assert line_of(f, "tripled") in str(error.value)


def test_a_backward_rule_of_another_type_names_the_line():
    """JAX accepts such a rule as long as nothing is computed from its result, and so do we."""

    @jax.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, x), lambda x, ct: (x.astype("float32") * ct,))

    def alone(x):
        return twice(x).astype("float32")

    def after_another(x):
        return alone(jax.jit(jnp.sin)(x))

    def beside_another(x):
        return alone(x) + (x * x).astype("float32")

    x = jnp.bfloat16(1.5)
    assert jaxmlir.trace(alone)(x).grad()(x) == jax.grad(alone)(x)
    message = r"test_transforms.py:\d+:\d+: error: .* of type tensor<bf16>, got tensor<f32> from"
    for function, level in itertools.product((after_another, beside_another), (0, 2)):
        with pytest.raises((TypeError, AssertionError)):
            jax.grad(function)(x)
        with pytest.raises(TransformError, match=message):
            jaxmlir.trace(function)(x).optimize(level).grad()


def test_grad_names_the_argument_or_result_that_has_none():
    def f(n, x):
        return x * n

    program = jaxmlir.trace(f)(i32(2), X)
    with pytest.raises(TransformError, match=r"scalar.*float32\[3\]"):
        program.grad(1)
    with pytest.raises(TransformError, match=r"argument n .*int32.*allow_int"):
        program.grad(0)
    with pytest.raises(ArgumentError, match="argnums=2: .* 2 positional"):
        program.grad(2)
    for name in ("grad", "jacfwd", "jacrev", "hessian"):
        with pytest.raises(ArgumentError, match=r"argnums=\(\): expected at least one"):
            getattr(program, name)(())
    with pytest.raises(TransformError, match=r"jacrev of @f: at least one array"):
        jaxmlir.from_jaxpr(jax.make_jaxpr(lambda x: ())(f32(1)), "f").jacrev()
    with pytest.raises(TransformError, match="complexfloating, got float32"):
        jaxmlir.trace(jnp.sin)(f32(1)).grad(holomorphic=True)
    with pytest.raises(TransformError, match="floating, got complex64"):
        jaxmlir.trace(jnp.sin)(np.complex64(1)).grad()
    # As in JAX: a dictionary is sorted by its keys, so it does not say which item is the loss.
    for pair in (jnp.sin, lambda x: {"loss": x, "aux": 2 * x}, lambda x: (x, x, x), lambda x: None):
        with pytest.raises(TransformError, match="pair"):
            jaxmlir.trace(pair)(f32(1)).grad(has_aux=True)
    for in_a_tree, tree in ((lambda x: (x,), r"\(\*,\)"), (lambda x: {"loss": x}, r"{'loss': \*}")):
        with pytest.raises(TransformError, match=f"one scalar as its result, got {tree}"):
            jaxmlir.trace(in_a_tree)(f32(1)).value_and_grad()
        with pytest.raises(TransformError, match=f"one scalar as its result, got {tree}"):
            jaxmlir.trace(lambda x, f=in_a_tree: (f(x), x))(f32(1)).grad(has_aux=True)
    with pytest.raises(TransformError, match=r"\(\*, \*\); with has_aux=True, the second"):
        jaxmlir.trace(lambda x: (x, 2 * x))(f32(1)).grad()


@pytest.mark.compat
def test_what_is_the_same_for_all_may_depend_on_a_named_axis():
    def f(x, y):
        return x + jax.jit(lambda y: lax.ppermute(y, "rows", [(0, 1), (1, 2), (2, 0)]))(y)

    check_vmap(f, (ROWS, X), (0, None), axis_name="rows")


def test_an_axis_name_that_nobody_binds_is_named():
    jaxpr = jax.make_jaxpr(lambda x: lax.psum(x, "rows"), axis_env=[("rows", 2)])(f32(1))
    program = jaxmlir.from_jaxpr(jaxpr)
    with pytest.raises(LoweringError, match=r"test_transforms.py:\d+.*psum.*axis name 'rows'"):
        program(f32(1))
    with pytest.raises(TransformError, match=r"test_transforms.py:\d+.*psum.*axis name: rows"):
        program.vmap(axis_size=2, axis_name="columns")
    close(program.vmap(axis_size=2, axis_name="rows")(X[:2]), jnp.full(2, X[:2].sum()))


def test_vmap_names_the_axis_that_does_not_fit():
    program = jaxmlir.trace(lambda x, y: (x * 2, y))(f32(1), X)
    with pytest.raises(TransformError, match="result 0 .* batched.*out_axes has None"):
        program.vmap(out_axes=(None, 0), axis_size=3)
    with pytest.raises(ArgumentError, match=r"args\[0\] has 3 along axis 0, args\[1\] has 2 along"):
        program.vmap()(X, ROWS[:2])
    with pytest.raises(ArgumentError, match="axis 2 of leaf 1"):
        program.vmap((0, 2), axis_size=3)
    with pytest.raises(ArgumentError, match="not a prefix"):
        program.vmap({"x": 0}, axis_size=3)
    with pytest.raises(ArgumentError, match="axis_size"):
        program.vmap().as_text()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.scan(lambda c, y: (c + 2 * y, c * 3), x[0], x),
        lambda x: lax.cond(True, lambda x: x * 2, lambda x: x[::-1], x),
    ],
    ids=["scan", "cond"],
)
def test_integer_functions_are_linear_too(f):
    x = np.array([1, 2, 4], i32)
    cotangents = jax.tree.map(lambda out: out + 1, f(x))
    program = reread(jaxmlir.trace(f)(x))
    (ours,), (jaxs,) = (jax.linear_transpose(g, x)(cotangents) for g in (program.__call__, f))
    np.testing.assert_array_equal(ours, jaxs)


def test_64_bit_types_need_no_configuration():
    """The program's own types say how wide they are, whatever the configuration of the reader."""

    def f(x, k):
        c, s = lax.scan(lambda c, r: (jnp.tanh(c * r) + x[0], c.sum()), x, x)
        total = s.mean() + jax.nn.logsumexp(c) + jnp.sort(x)[1] + jnp.cumprod(x)[2] * k.sum()
        return total + jnp.max(x) + jnp.linalg.slogdet(jnp.outer(x, x) + jnp.eye(5))[1]

    x, k = np.linspace(0.1, 0.9, 5), np.arange(3)
    with jax.enable_x64(True):
        program = jaxmlir.trace(f)(x, k)
        batch = np.stack([x, x / 2])
        hessian, batched = jax.hessian(f)(x, k), jax.vmap(jax.grad(f), (0, None))(batch, k)
    ours = {
        "hessian": reread(program).hessian().optimize(2),
        "batched": reread(program.optimize(2)).grad().vmap((0, None), axis_size=2),
    }
    for derived in ours.values():
        derived.verify()
        assert "f32" not in derived.as_text() and "f32" not in derived.lower().as_text()
    with pytest.raises(ArgumentError, match=r"f64\[5\], got f32\[5\]; jax_enable_x64 is off"):
        program(x, k)
    with jax.enable_x64(True):
        np.testing.assert_allclose(ours["hessian"](x, k), hessian, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours["batched"](batch, k), batched, rtol=1e-10, atol=1e-10)
