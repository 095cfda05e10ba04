"""Reordered products: the same numbers, exact for integers, with many kinds of factors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import opt_einsum
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import budget

import jaxmlir
from jaxmlir.optimize.algebra.products.network import Index, NotAnEinsum, resolve, unify
from jaxmlir.optimize.algebra.products.order import Network, best_order
from jaxmlir.targets import target

PASSES = ("jaxpr-reassociate", "jaxpr-gather-dot", "jaxpr-factor-linear-sums")
COSTS = target("cpu").costs
INDICES = np.array([2, 0, 2, 5, 1, 1, -1, 9, 3, 0])

# Each step takes values of a dtype and returns one, or None if their shapes do not fit.


def matmul(x, y):
    for axis, size in enumerate(y.shape):
        if size == x.shape[-1]:
            return jnp.tensordot(x, y, (x.ndim - 1, axis))
    return None


def batched(x, y):
    if x.ndim < 2 or y.ndim < 2 or x.shape[:2] != y.shape[:2]:
        return None
    return jnp.einsum("ij...,ij...->i...", x, y) if x.shape == y.shape else None


def product(x, y):
    if x.shape[-1:] != y.shape[:1] or y.ndim > 2:
        return None
    return x[..., None] * y if y.ndim > 1 else x * y


def merged(x, _):
    if x.ndim > 1:
        return x.reshape(-1, *x.shape[2:])
    return x.reshape(2, -1) if x.size % 2 == 0 else None


def diagonal(x, _):
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        return None
    return jnp.where(jnp.eye(len(x), dtype=bool), x, 0)


def taken(mode, x, _):
    return x.at[INDICES].get(mode=mode, **({"fill_value": 0} if mode == "fill" else {}))


def added(x, _):
    return jax.ops.segment_sum(x, np.resize(INDICES, len(x)), num_segments=4)


def updated(x, _):
    return lax.dynamic_update_slice_in_dim(jnp.zeros((6, *x.shape[1:]), x.dtype), x[:2], 5, 0)


def part(x, y):
    """One half of an array that may be a sum; the other half is not used."""
    if x.shape[-1] % 2:
        return None
    return jnp.split(x + y if x.shape == y.shape else x, 2, -1)[1]


STEPS = {
    "part": part,
    "matmul": matmul,
    "batched": batched,
    "product": product,
    "elementwise": lambda x, y: x * y if x.shape == y.shape else None,
    "transposed": lambda x, _: x.T,
    "merged": merged,
    "regrouped": lambda x, _: x.reshape(x.shape[::-1]),
    "spread": lambda x, _: jnp.broadcast_to(x, (2, *x.shape)) if x.ndim < 3 else None,
    "summed": lambda x, _: x.sum(0, dtype=x.dtype) if x.ndim > 1 else None,
    "scaled": lambda x, y: -3 * x * y[(0,) * y.ndim],
    "diagonal": diagonal,
    "picked": lambda x, _: jnp.diag(x) if x.ndim == 2 and x.shape[0] == x.shape[1] else None,
    "filled": functools.partial(taken, "fill"),
    "clipped": functools.partial(taken, "clip"),
    "added": added,
    "sliced": lambda x, _: x[1::2] if len(x) > 1 else None,
    "one": lambda x, _: x[-1] if x.ndim > 1 else None,
    "moving": lambda x, _: lax.dynamic_slice_in_dim(x, 1, 2) if len(x) > 2 else None,
    "padded": lambda x, _: lax.pad(x, x.dtype.type(0), [(1, 2, 1), *[(0, 0, 0)] * (x.ndim - 1)]),
    "updated": updated,
}
SHAPES = [(4, 6), (6, 4), (4, 4), (6,), (2, 4, 6)]

numbers = st.integers(0, 9)
programs = st.lists(
    st.tuples(st.sampled_from([*STEPS, "matmul", "matmul"]), numbers, numbers),
    min_size=3,
    max_size=12,
)


def run(steps, *args):
    """Each step takes two earlier values; the last two values are the result."""
    values = list(args)
    for name, i, j in steps:
        # The latest value is likely, so that products are factors of others.
        x = values[-1] if i < 7 else values[-i % len(values)]
        new = STEPS[name](x, values[-1 - j % len(values)])
        if new is not None and new.ndim and new.size < 2000:
            values.append(new)
    return values[-2:]


def arguments(dtype):
    random = np.random.RandomState(0)
    return [random.randint(-9, 9, shape).astype(dtype) for shape in SHAPES]


@budget
@given(steps=programs)
def test_random_products_of_integers_are_exact(steps):
    args = arguments(np.int32)
    program = jaxmlir.trace(lambda *xs: run(steps, *xs))(*args)
    want = program(*args)
    for passes in PASSES:
        other = program.run_passes(f"jaxpr-inline,jaxpr-canonicalize,{passes}{{min-gain=0}}")
        other.verify()
        for a, b in zip(other(*args), want, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.compat
@budget
@given(steps=programs)
def test_random_products_of_floats_and_their_gradients(steps):
    args = arguments(np.float64) if jax.config.jax_enable_x64 else arguments(np.float32)
    args = [a / 9 for a in args]
    program = jaxmlir.trace(lambda *xs: sum(jnp.sum(jnp.tanh(x)) for x in run(steps, *xs)))(*args)
    gradient = program.grad()
    want = jax.grad(lambda x: program(x, *args[1:]))(args[0])
    for before in (gradient, gradient.run_passes("jaxpr-inline,jaxpr-canonicalize,jaxpr-dce")):
        for passes in PASSES:
            got = before.run_passes(f"{passes}{{min-gain=0}}")(*args)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def normal(*shape, dtype=np.float32):
    return np.random.RandomState(sum(shape)).standard_normal(shape).astype(dtype)


def traced(function, *args):
    return jaxmlir.trace(function)(*args).optimize(1)


def trace_of_product(a, b):
    return jnp.trace(a @ b)


SQUARE, VECTOR, TALL = normal(64, 64), normal(64), normal(400, 64)
EDGES, FEW = np.arange(600) % 64, np.arange(3)


def cell(h, x, w, u):
    """Two gates of a recurrent network."""
    both = jnp.concatenate([x, h], -1)
    return jnp.sum(jnp.tanh(both @ w) * jax.nn.sigmoid(both @ u))


def power(a, b, x, length):
    return lax.scan(lambda x, _: (a @ (b @ x), None), x, length=length)[0]


@pytest.mark.parametrize(
    "function, args, flops",
    [
        (lambda a, b, v: -(0.5 * (a @ b.T)) @ v / 3, (SQUARE, SQUARE, VECTOR), 4 * 64**2),
        (lambda a, b: jnp.sum(a @ b), (SQUARE, SQUARE), 0),
        (trace_of_product, (SQUARE, SQUARE), 0),
        (lambda a, b: jnp.where(jnp.eye(64, dtype=bool), a @ b, 0), (SQUARE, SQUARE), 0),
        (lambda a, b: jnp.diag(a @ b), (SQUARE, SQUARE), 0),
        (lambda x, a: jnp.diagonal(x @ a @ x.T), (TALL, SQUARE), 2 * 400 * 64**2),
        (lambda a, v: jnp.outer(v, v) @ a, (SQUARE, VECTOR), 2 * 64**2),
        (
            lambda q, k, v: jnp.einsum("bqk,bkd->bqd", jnp.einsum("bqd,bkd->bqk", q, k) / 8.0, v),
            (normal(2, 200, 8),) * 3,
            2 * 2 * 2 * 200 * 8 * 8,
        ),
        (lambda x, a, b: x @ (a @ b), (SQUARE, normal(64, 2), normal(2, 64)), 2 * 2 * 2 * 64**2),
        (lambda x, w: x[EDGES] @ w, (SQUARE, SQUARE), 2 * 64**3),
        (lambda x, w: (x @ w)[FEW], (TALL, SQUARE), 2 * 3 * 64**2),
        (lambda x, w: (x @ w)[-1], (TALL, SQUARE), 2 * 64**2),
        (
            lambda u, w: jax.ops.segment_sum(u @ w, EDGES[:400], 64),
            (TALL, SQUARE),
            2 * 64**3,
        ),
        (lambda x, w: jnp.pad(x, ((0, 400), (0, 0))) @ w, (SQUARE, SQUARE), 2 * 64**3),
        # The cotangent of x is not needed.
        (
            jax.grad(cell),
            (normal(40, 32), normal(40, 64), normal(96, 32), normal(96, 32)),
            2 * 2 * 40 * (64 + 32 + 32) * 32,
        ),
        # The product moves in front of the loop, which is long enough.
        (functools.partial(power, length=100), (SQUARE / 100, SQUARE, VECTOR), 2 * 64**3),
        (functools.partial(power, length=2), (SQUARE, SQUARE, VECTOR), 0),
    ],
)
def test_operations_left(function, args, flops):
    before = traced(function, *args)
    after = before.optimize(2, without=["jaxpr-materialize-shared", "jaxpr-expand-products"])
    products = "\n".join(line for line in str(after).splitlines() if "dot_general" in line)
    assert flops_of(after) == flops, products
    np.testing.assert_allclose(after(*args), function(*args), rtol=1e-4, atol=1e-4)


def test_a_loop_that_does_not_run():
    program = jaxmlir.trace(functools.partial(power, length=0))(SQUARE, SQUARE, VECTOR)
    assert np.array_equal(program.run_passes(",".join(PASSES))(SQUARE, SQUARE, VECTOR), VECTOR)


def flops_of(program):
    """The flops of a program's matrix products."""
    total = 0
    for eqn in program.to_jaxpr().eqns:
        if eqn.primitive.name == "dot_general":
            ((contracted, _), _) = eqn.params["dimension_numbers"]
            summed = np.prod([eqn.invars[0].aval.shape[d] for d in contracted], dtype=int)
            total += 2 * int(np.prod(eqn.outvars[0].aval.shape, dtype=int) * summed)
    return total


def where_bytes_agree(a):
    """In eight bits, row 256 equals column 0, too."""
    rows, columns = (lax.broadcasted_iota(np.uint8, (300, 300), d) for d in range(2))
    return jnp.where(rows == columns, a @ a.T, 0)


def the_first_half_twice(a):
    """Gathers the elements (0, 0) to (31, 31), twice."""
    rows = lax.broadcasted_iota(np.int32, (32, 2), 0)
    numbers = lax.GatherDimensionNumbers((), (0, 1), (0, 1))
    return lax.gather(a @ a.T, jnp.concatenate([rows, rows]), numbers, (1, 1))


def half(a, b, v):
    return a @ b @ v


# A factor that another takes the place of would lose its precision.
uneven = functools.partial(jnp.matmul, precision=("highest", "default"))


@pytest.mark.parametrize(
    "function, args",
    [
        (lambda x, w, v: jnp.tanh(x @ w) @ v, (SQUARE, SQUARE, VECTOR)),
        (lambda x, w, a, b: x @ (w + a @ b), (SQUARE, SQUARE, TALL.T, TALL)),
        (half, (SQUARE.astype(np.float16), SQUARE.astype(np.float16), VECTOR.astype(np.float16))),
        (lambda a, b, v: (a @ b).astype(np.float16) @ v, (SQUARE, SQUARE, VECTOR.astype("f2"))),
        (lambda a, b, v: jnp.matmul(a @ b, v, precision="highest"), (SQUARE, SQUARE, VECTOR)),
        (lambda a, b, v: uneven(uneven(a, b), v), (SQUARE, SQUARE, VECTOR)),
        (lambda a, b, v: (c := a @ b, c @ v), (SQUARE, SQUARE, VECTOR)),
        (lambda x, y: jnp.sum(x * y), (SQUARE, SQUARE)),
        # A sum over a single row saves no kernel.
        (
            lambda x, y: jnp.sum(jnp.sum(x * y[:, None], 0, keepdims=True), 0),
            (normal(8, 6, 16), normal(8, 16)),
        ),
        (where_bytes_agree, (TALL[:300],)),
        (the_first_half_twice, (SQUARE,)),
        # A single element.
        (
            lambda x, i: x.at[i[0], i[1]].get(mode="fill", fill_value=0) * (x @ x),
            (SQUARE, np.array([3, 1])),
        ),
        (lambda x, u: x.at[EDGES].get(mode="fill").T @ u, (SQUARE, normal(600, 64))),
        (lambda x, u: x.at[EDGES].get(mode="fill") @ u, (SQUARE.astype(int), SQUARE.astype(int))),
        (lambda x, w, u: lax.dynamic_update_slice(x, u, (5, 0)) @ w, (TALL, SQUARE, SQUARE)),
    ],
)
def test_left_alone(function, args):
    program = traced(function, *args)
    assert str(program.run_passes(",".join(PASSES))) == str(program)


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "int8", "uint16"])
def test_types(dtype):
    a, v = (jnp.asarray(np.round(x * 3)).astype(dtype) for x in (SQUARE, VECTOR))
    program = traced(lambda a, v: a.T @ a @ v * 2, a, v)
    after = program.run_passes("jaxpr-reassociate")
    assert flops_of(after) < flops_of(program)
    assert str(after).count(dtype[0]) and after(a, v).dtype == a.dtype
    wide = np.float64 if dtype == "bfloat16" else a.dtype
    want = np.asarray(a, wide).T @ np.asarray(a, wide) @ np.asarray(v, wide) * np.asarray(2, wide)
    tolerance = {"bfloat16": 0.02, "complex64": 1e-5}.get(dtype, 0)
    np.testing.assert_allclose(
        np.asarray(after(a, v), wide), want, atol=tolerance * np.abs(want).max(), rtol=0
    )


@pytest.mark.parametrize(("of_matrix", "of_vector"), [(1e10, 1e-20), (1e-12, 1e20)])
def test_numbers_that_a_factor_cannot_be_multiplied_by(of_matrix, of_vector):
    a, v = (np.abs(x) * np.float32(by) for x, by in ((SQUARE, of_matrix), (VECTOR, of_vector)))
    number = np.float32(1e-25 if of_vector < 1 else 1e25)
    program = traced(lambda a, v, s: (a @ a @ v) * s, a, v, number)
    after = program.run_passes("jaxpr-reassociate")
    assert flops_of(after) < flops_of(program)
    np.testing.assert_allclose(after(a, v, number), program(a, v, number), 1e-5)


def test_types_of_results_stay():
    # The product of a weakly typed number and a strongly typed one.
    program = traced(lambda a, v, s: (a @ a @ v) * s, SQUARE, VECTOR, 2.0)
    for passes in PASSES:
        after = program.run_passes(f"{passes}{{min-gain=0}}")
        after.verify()
        assert after.out_avals == program.out_avals


def test_a_remark_has_the_users_line():
    remarks = []
    traced(half, SQUARE, SQUARE, VECTOR).run_passes("jaxpr-reassociate", remarks=remarks.append)
    (remark,) = remarks
    assert remark.file == __file__
    assert "ab,bc,c->a as (0 (1 2)): 16.4 kFLOP" in remark.message


def similarities(x, y):
    return jnp.sum(jnp.tanh(jnp.sum(x[:, None] * y[None], -1)))


def test_gradients_of_sums_of_spread_products_are_products_of_matrices():
    """XLA would compute them element by element, from a broadcast cotangent."""
    x, y = normal(40, 16), normal(30, 16)
    program = traced(similarities, x, y)
    assert str(program.run_passes("jaxpr-reassociate")) == str(program)
    gradient = program.grad((0, 1)).optimize(1)
    after = gradient.run_passes("jaxpr-reassociate,jaxpr-canonicalize,jaxpr-dce")
    assert "tensor<40x30x16xf32>" in str(gradient)
    assert "tensor<40x30x16xf32>" not in str(after)
    for a, b in zip(after(x, y), jax.grad(similarities, (0, 1))(x, y), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def scaled_implicitly(x, s):
    return jnp.sum(jnp.tanh(x) * s, (0, 2))


def scaled_by_two(x, s):
    return -jnp.sum(jnp.tanh(x) * s * s[:, :1], 0)


@pytest.mark.parametrize(
    "function, shape", [(scaled_implicitly, (1, 8, 1)), (scaled_by_two, (8, 3))]
)
def test_what_is_the_same_along_a_sum_is_multiplied_by_once(function, shape):
    x, s = normal(2000, 8, 3), normal(*shape)
    program = traced(function, x, s).optimize(1)
    after = program.run_passes("jaxpr-reassociate")
    wide = [e for e in after.to_jaxpr().eqns if e.outvars[0].aval.shape == x.shape]
    assert [e.primitive.name for e in wide] == ["tanh"]
    np.testing.assert_allclose(after(x, s), function(x, s), rtol=1e-5, atol=1e-5)
    for got, want in zip(after.vmap(out_axes=0)(x[None], s[None]), [function(x, s)], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("passes", ["jaxpr-reassociate", "jaxpr-reassociate{min-gain=0}"])
def test_products_of_one_structure_have_factors_of_their_own(passes):
    """The order is found once for all; the products have different factors, one is a square."""
    rng = np.random.RandomState(0)
    a, b, c = (rng.randint(-3, 4, (6, 6)) for _ in range(3))
    v, w = (rng.randint(-3, 4, 6) for _ in range(2))

    def function(a, b, c, v, w):
        squares = a @ a @ v, (b @ b) @ w
        others = (a @ b) @ v, (b @ c) @ w, (c @ a) @ w
        sums = (v[:, None] * w + w[:, None] * v) @ a, (w[:, None] * w + v[:, None] * v) @ b
        return (*squares, *others, *sums)

    after = jaxmlir.trace(function)(a, b, c, v, w).run_passes(passes)
    after.verify()
    for got, want in zip(after(a, b, c, v, w), function(a, b, c, v, w), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.compat
@pytest.mark.parametrize("passes", ["jaxpr-reassociate", "jaxpr-reassociate{min-gain=0}"])
def test_products_that_a_reshape_parts(passes):
    """If a reshape splits rows, two products cannot be merged; the second and third are alike."""
    rng = np.random.RandomState(0)
    a, b, c, d = (rng.randint(-3, 4, shape) for shape in ((6, 4), (4, 4), (6, 4), (6, 5)))
    v, one = rng.randint(-3, 4, 5), rng.randint(-3, 4, (2, 1))

    def function(a, b, c, d, v, one):
        parted = [(x @ y).reshape(4, 6) @ d @ v for x, y in ((a, b), (a, b + 1), (c, b))]
        identity = (jnp.arange(1)[:, None] == jnp.arange(1)).astype(jnp.int32)
        return *parted, (one @ identity) * d[:2]

    after = jaxmlir.trace(function)(a, b, c, d, v, one).run_passes(f"jaxpr-inline, {passes}")
    after.verify()
    for got, want in zip(after(a, b, c, d, v, one), function(a, b, c, d, v, one), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_identity_is_no_factor_where_one_like_it_is():
    """A converted mask has no factors; a converted array of the same type has the array."""

    def converted(x, weak):
        return lax.convert_element_type_p.bind(x, new_dtype=x.dtype, weak_type=weak, sharding=None)

    def dot(x, y, axis):
        return lax.dot_general(x, y, (((axis,), (0,)), ((), ())))

    def function(x, y):
        i, j = (lax.broadcasted_iota(np.int32, x.shape, d) for d in (0, 1))
        identity = lax.convert_element_type(i == j, x.dtype)
        weak_x, weak_y = lax.optimization_barrier((converted(x, True), converted(y, True)))
        left = dot(converted(weak_y, False), dot(x, identity, 0), 1)
        return left, dot(y, dot(identity, converted(weak_x, False), 0), 1)

    x, y = normal(4, 4), normal(4, 4)
    after = jaxmlir.trace(function)(x, y).run_passes("jaxpr-reassociate")
    assert str(after).count("dot_general") == 2
    for got, want in zip(after(x, y), function(x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_long_products_are_read():
    """All factors of the product have the same dimension."""
    w, x = normal(4, 4), np.linspace(0.5, 1, 4, dtype=np.float32)

    def function(w, x):
        y = w @ x
        for k in range(1000):
            y = (x if k % 2 else 1 / x) * y
        return jnp.sum(y)

    after = traced(function, w, x).run_passes("jaxpr-reassociate{min-gain=0}")
    np.testing.assert_allclose(after(w, x), jax.jit(function)(w, x), rtol=1e-3)


def test_a_reshape_that_permutes_first_is_a_transpose():
    rng = np.random.RandomState(0)
    a, b, v = rng.randn(40, 40), rng.randn(4, 10, 40), rng.randn(40)

    def function(a, b, v):
        return a @ lax.reshape(b, (40, 40), dimensions=(2, 0, 1)) @ v

    after = jaxmlir.trace(function)(*map(np.float32, (a, b, v))).run_passes("jaxpr-reassociate")
    results = [eqn.outvars[0].aval.shape for eqn in after.to_jaxpr().eqns]
    assert results.count((40, 40)) <= 1
    want = a @ b.transpose(2, 0, 1).reshape(40, 40) @ v
    np.testing.assert_allclose(after(*map(np.float32, (a, b, v))), want, rtol=1e-3, atol=1e-3)


def test_long_elementwise_products_are_ordered_step_by_step(monkeypatch):
    """Not all pairs are tried: a few squarings already give a number many factors."""
    products = []
    multiplied = Network.multiplied
    monkeypatch.setattr(Network, "multiplied", lambda *a: products.append(1) or multiplied(*a))
    factors = (((0,), (1,)),) * 1000 + (((0,),),) * 20
    found = best_order(Network((31, 37), factors, (), ((1,),), 4, COSTS))
    assert len(found.steps) == 1019
    # The rows are summed last, as a product with a vector.
    assert found.cost.flops == 2 * 31 * 37
    assert 1019 <= len(products) < 20_000


def test_sequences_of_indices_in_another_order():
    """An index that occurs on both sides cannot be split on one of them."""
    i, j = Index(2), Index(6)
    with pytest.raises(NotAnEinsum):
        unify([i, j], [j, i])
    assert resolve([i, j]) == [i, j]
    k = Index(6)
    unify([i, j], [i, k])
    assert resolve([i, j]) == resolve([i, k])


def test_a_sum_of_one_is_no_sum():
    program = traced(lambda x, s: jnp.sum((x * s)[:, None], 1), SQUARE, SQUARE[:1])
    assert str(program.run_passes("jaxpr-reassociate")) == str(program)


def test_the_gradient_of_a_trace_is_the_one_by_hand():
    program = traced(trace_of_product, SQUARE, SQUARE).optimize(2)
    gradient = program.grad((0, 1)).optimize(2)
    assert [eqn.primitive.name for eqn in gradient.to_jaxpr().eqns] == ["transpose"] * 2
    for got, want in zip(gradient(SQUARE, 2 * SQUARE), (2 * SQUARE.T, SQUARE.T), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("count", [3, 8, 12])
def test_chains_are_multiplied_as_opt_einsum_does(count):
    sizes = tuple(np.random.RandomState(count).randint(20, 900, count + 1).tolist())
    factors = tuple(((i,), (i + 1,)) for i in range(count))
    found = best_order(Network(sizes, factors, (), ((0,), (count,)), 4, COSTS))
    letters = "abcdefghijklmnop"
    terms = ",".join(letters[i : i + 2] for i in range(count))
    shapes = [sizes[i : i + 2] for i in range(count)]
    _, best = opt_einsum.contract_path(
        f"{terms}->a{letters[count]}", *shapes, shapes=True, optimize="dp"
    )
    assert float(best.opt_cost) <= found.cost.flops <= 1.1 * float(best.opt_cost)


def test_long_chains_are_multiplied_from_the_vector():
    sizes = (30,) * 200
    factors = (*(((i,), (i + 1,)) for i in range(199)), ((199,),))
    found = best_order(Network(sizes, factors, (), ((0,),), 4, COSTS))
    assert found.cost.flops == 199 * 2 * 30**2


def test_values_of_other_dialects_are_no_tensors():
    program = jaxmlir.parse("""
        func.func @main(%a: tensor<99x99xf32>, %v: tensor<99xf32>) -> tensor<99xf32> {
          %0 = memref.alloc() : memref<9xf32>
          %1 = "jaxpr.dot_general"(%a, %a) {dimension_numbers = [[[1], [0]], [[], []]]}
              : (tensor<99x99xf32>, tensor<99x99xf32>) -> tensor<99x99xf32>
          %2 = "jaxpr.dot_general"(%1, %v) {dimension_numbers = [[[1], [0]], [[], []]]}
              : (tensor<99x99xf32>, tensor<99xf32>) -> tensor<99xf32>
          return %2 : tensor<99xf32>
        }
    """)
    after = program.run_passes("jaxpr-reassociate,jaxpr-factor-linear-sums")
    assert str(after).count("-> tensor<99xf32>") == 3 > str(program).count("-> tensor<99xf32>")
