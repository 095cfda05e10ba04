"""The equations of ``jaxpr-canonicalize``: each is applied, and holds bit for bit."""

import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import budget, programs
from test_cleanup import evaluate, program_of, same_bits

import jaxmlir
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import ops, primitives
from jaxmlir.optimize.simplify.canonicalize import canonicalize, movement
from jaxmlir.optimize.simplify.canonicalize.equations import Number, Term, Variable, equations_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import generate_canonicalize

EQUATIONS = [equation for name in ops.OPS for equation in equations_of(name)]

FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 3e38, 1e-30, 0.1, -7.0]
INTEGERS = [0, 1, 2, 3, 5, 7, 11, 100, 120, 127, 64, 33]
SAMPLES = {
    "float32": np.array(FLOATS, np.float32),
    "int32": np.array([*INTEGERS[:8], -1, -7, 2**31 - 1, -(2**31)], np.int32),
    "uint8": np.array([*INTEGERS[:10], 255, 128], np.uint8),
    "bool": np.array([True, False] * 6),
    "complex64": np.array(
        [complex(a, b) for a, b in zip(FLOATS, reversed(FLOATS), strict=True)], np.complex64
    ),
}
KINDS = {"float32": "float", "int32": "integer", "uint8": "integer", "bool": "boolean"}
KINDS["complex64"] = "complex"


def evaluate_term(term, dtype, values):
    """Evaluates a term by JAX's own primitives."""
    if isinstance(term, Variable):
        return values[term.name]
    if isinstance(term, Number):
        number = term.of(np.dtype(dtype))
        if number is None:
            raise TypeError(f"{term.text} is not a {dtype}")
        return np.full((12, 12), number)
    operands = [evaluate_term(t, dtype, values) for t in term.operands]
    if term.op == "select_n" and isinstance(term.operands[0], Number):
        operands[0] = np.full((12, 12), term.operands[0].text == "1")
    primitive = primitives.of_op(f"jaxpr.{term.op}")
    params = dict(term.attributes)
    if term.op == "mul":
        params |= {p: None for p in ("out_dtype",) if accepts(primitive, p)}
    return primitive.bind(*map(jnp.asarray, operands), **params)


@functools.cache
def accepts(primitive, param):
    jaxpr = jax.make_jaxpr(lax.mul)(1.0, 2.0)
    return param in jaxpr.eqns[0].params


def variables(term):
    if isinstance(term, Variable):
        return {term.name: None}
    found = {}
    for t in term.operands if isinstance(term, Term) else ():
        found |= variables(t)
    return found


def left_side(equation, dtype):
    """The left side as a program, with arguments; ``None`` if it does not exist for the dtype."""
    if equation.left.op == "add_any" and dtype == "bool":
        return None  # JAX traces a sum of booleans, but does not compile it.
    names = list(variables(equation.left))
    # The first two variables get every pair of samples.
    sample = SAMPLES[dtype]
    grids = dict(zip("xy", np.meshgrid(sample, sample), strict=True))
    args = [
        SAMPLES["bool"][np.newaxis].repeat(12, 0) if name == "p" else grids[name] for name in names
    ]

    def function(*values):
        return evaluate_term(equation.left, dtype, dict(zip(names, values, strict=True)))

    try:
        return jaxmlir.trace(function)(*args), args
    except TypeError:
        return None


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e.text)
def test_equation_of_the_op_table(equation):
    """Each equation applies to the dtypes that it names; without fast-math no bit changes."""
    used = set()
    for dtype in SAMPLES:
        found = left_side(equation, dtype)
        if found is None:
            continue
        before, args = found
        after = before.run_passes("jaxpr-canonicalize")
        same_bits(before, after, args)
        if after.as_text() != before.as_text():
            used.add("boolean" if next(iter(variables(equation.left))) == "p" else KINDS[dtype])
        fast = before.run_passes("jaxpr-canonicalize{fast-math=true}")
        if dtype == "float32" and fast.as_text() != after.as_text():
            used.add("fast-math")
    assert used >= set(equation.kinds)
    assert used


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int4])
def test_numbers_that_a_type_of_few_bits_has_not(dtype):
    """Infinity converts to NaN in one of these floats, and to zero in an integer."""
    x = jnp.array([-3, -1, 0, 2]).astype(dtype)

    def bounded(x):
        return [
            bound(x, jnp.full_like(x, jnp.float32(number).astype(dtype)))
            for bound in (lax.max, lax.min)
            for number in (np.inf, -np.inf, 0.0)
        ]

    after = jaxmlir.trace(bounded)(x).run_passes("jaxpr-canonicalize")
    for ours, jaxs in zip(after(x), jax.jit(bounded)(x), strict=True):
        np.testing.assert_array_equal(ours.astype(np.float32), jaxs.astype(np.float32))


@pytest.mark.compat
@pytest.mark.parametrize(
    ("of", "by", "to"),
    [
        # float8_e8m0fnu has only powers of two: no zero and no negative numbers.
        (np.bool_, jnp.float8_e8m0fnu, np.float32),
        (jnp.int2, jnp.float8_e8m0fnu, np.float32),
        # A number that is subnormal in only one of the types may be flushed to zero.
        (jnp.bfloat16, np.float32, np.bool_),
        (np.float16, np.float32, np.bool_),
    ],
)
def test_conversions_by_a_type_that_tells_more(of, by, to):
    program = jaxmlir.trace(lambda x: x.astype(by).astype(to))(jnp.zeros(3).astype(of))
    after = program.run_passes("jaxpr-canonicalize")
    x = jnp.array([0.0, 1.0, 1e-40]).astype(of)
    np.testing.assert_array_equal(after(x), program(x))


def test_one_of_many_constants():
    """There are more constants than numpy's ``choose`` accepts."""

    def function(x):
        return x + lax.select_n(np.int32(66), *map(np.float32, range(70)))

    program = jaxmlir.trace(function)(np.float32(0))
    after = program.run_passes("jaxpr-canonicalize")
    assert "select_n" not in after.as_text()
    same_bits(program, after, [np.float32(1)])


# --- data movement --------------------------------------------------------------------------------


DTYPES = [jnp.int32, jnp.int16, jnp.int8, jnp.float32, jnp.uint8, jnp.bfloat16, jnp.bool_]


def move(step, x):
    """One step of a random chain of data movement; choices are modulo the number of options."""
    kind, a, b = step
    rank = x.ndim
    match kind:
        case "transpose":
            return lax.transpose(x, np.roll(range(rank), a)) if a % 2 else x.T
        case "rev":
            return lax.rev(x, tuple(d for d in range(rank) if (a >> d) & 1))
        case "reshape":
            shapes = [(x.size,), (1, x.size), (2, -1), (-1, 1, 2), x.shape[::-1]]
            return x.reshape(shapes[a % 5]) if x.size % 2 == 0 else x.reshape(x.size)
        case "slice":
            starts = [min(a % 3, n - 1) for n in x.shape]
            return lax.slice(x, starts, x.shape, [1 + b % 2] * rank)
        case "expand":
            return jnp.expand_dims(x, a % (rank + 1))
        case "squeeze":
            return jnp.squeeze(x)
        case "broadcast":
            return jnp.broadcast_to(x, (1 + a % 2, *x.shape)) if x.size < 200 else x
        case "concatenate":
            return jnp.concatenate([x, x[::-1], x])[b % 3 :] if rank and x.size < 200 else x
        case "pad":
            return lax.pad(x, np.array(-1, x.dtype), [(0, 0, 0)] * rank)
        case "dynamic":
            return lax.dynamic_slice(x, [a] * rank, [max(1, n - b % 2) for n in x.shape])
        case "take":
            mode = ("clip", "fill")[b % 2]
            return jnp.take(x, np.array([a, -b, 1]), a % rank, mode=mode) if rank else x
        case "rows" if rank > 1:
            rows = jnp.arange(x.shape[0])
            at = x.at[rows, (rows * b - a) % 5]
            return (
                at.get(mode="clip") if a % 2 else at.add(x[..., 0][:, None].sum().astype(x.dtype))
            )
        case "stack" if x.size < 200:
            return jnp.moveaxis(jnp.stack([x, x]), 0, a % (rank + 1))
        case "unstack" if rank:
            return [*jnp.moveaxis(x, a % rank, 0)][-1]
        case "convert":
            return x.astype(DTYPES[a % len(DTYPES)])
        case "select":
            return jnp.where(np.bool_(a % 2), x, lax.rev(x, range(rank)))
    return x


KINDS_OF_MOVES = (
    "transpose rev reshape slice expand squeeze broadcast concatenate pad dynamic take rows stack "
    "unstack convert select"
)
moves = st.tuples(st.sampled_from(KINDS_OF_MOVES.split()), st.integers(0, 15), st.integers(0, 15))


@pytest.mark.compat
@budget
@given(steps=st.lists(moves, min_size=2, max_size=12))
def test_chains_of_data_movement(steps):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    program = jaxmlir.trace(lambda x: functools.reduce(lambda y, s: move(s, y), steps, x))(x)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    assert after.run_passes("jaxpr-canonicalize").as_text() == after.as_text()
    same_bits(program, after, [x])


def access(step, x, i):
    """The ``i``-th write of a random chain, of a value read elsewhere; and that value."""
    kind, a, b = step
    rows, columns = x.shape
    value = 100 * (i + 1)
    match kind:
        case "row":
            x = x.at[a % rows].set(x[b % rows] + value)
        case "column":
            x = x.at[:, a % columns].set(x[:, b % columns] + value)
        case "applied":
            x = x.at[a % rows].apply(lambda y: y * 2 + value)
        case "element":
            x = x.at[a % rows, b % columns].set(x[b % rows, a % columns] + value)
        case "rows":
            x = x.at[a % 4 : a % 4 + 2].set(x[b % 4 : b % 4 + 2] + value)
        case "tile":
            x = lax.dynamic_update_slice(x, x[:2, :2] + value, [2 * (a % 3), 2 * (b % 3)])
        case "beyond":
            # Writes out of bounds are dropped, or clamped into bounds.
            x = x.at[rows + a % 2].set(value)
            x = lax.dynamic_update_slice(x, x[:2, 1:3] + value, [a, b])
    return x, (x[b % rows, :: 1 + a % 2], x[a % 4 : a % 4 + 1 + b % 3], x[:, a % columns])


accesses = st.tuples(
    st.sampled_from("row column applied element rows tile beyond".split()),
    st.integers(0, 15),
    st.integers(0, 15),
)


@pytest.mark.compat
@budget
@given(steps=st.lists(accesses, min_size=2, max_size=10))
def test_arrays_that_are_written_part_by_part(steps):
    def f(x):
        found, first = [], x
        for i, step in enumerate(steps):
            before = x
            x, read = access(step, x, i)
            # Another array with the same first write.
            other, also = access(steps[0], before if i % 2 else first, i)
            found += [*read, *also, other[0]]
        return x, found

    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    program = jaxmlir.trace(f)(x)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    same_bits(program, after, [x])


def test_a_function_applied_to_a_part_is_no_write():
    def unrolled(x):
        for i in range(4):
            x = x.at[i].apply(jnp.sin)
        return x[2], x

    def looped(x):
        return lax.fori_loop(0, 4, lambda i, x: x.at[i].apply(jnp.sin), x)

    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    for f in (unrolled, looped):
        program = jaxmlir.trace(f)(x)
        for a, b in zip(*map(jax.tree.leaves, (program.optimize(2)(x), program(x))), strict=True):
            np.testing.assert_allclose(a, b, 1e-6)
    eager = "jaxpr-slp-vectorize{min-gain=0 stacked=1e9}"
    program = jaxmlir.trace(unrolled)(x).optimize(1)
    same_bits(program, program.run_passes(eager), [x])


def test_a_table_filled_by_python_is_no_array():
    def f(x):
        table = jnp.zeros((3 * 30, 3)).at[0].set(x)
        for i in range(1, 90):
            table = table.at[i].set(jnp.sin(table[i - 1]) + table[0])
        return table[89] + table[5]

    program = jaxmlir.trace(f)(np.ones(3, np.float32))
    text = program.optimize(1).as_text()
    assert "scatter" not in text
    assert text.count("jaxpr.slice") == 0
    assert text.count("jaxpr.sin") == 89


def test_slices_of_nothing():
    """An empty slice of a strided slice may begin beyond the last element of the array."""
    x = np.arange(70, dtype=np.int32).reshape(10, 7)
    program = jaxmlir.trace(lambda x: (x[::3][4:], x[1::4, ::2][3:3]))(x)
    after = program.run_passes("jaxpr-canonicalize")
    after.verify()
    assert after.as_text().count("jaxpr.slice") == 2
    same_bits(program, after, [x])


def test_row_numbers_are_not_negative():
    def f(x):
        i, wrapping, small = jnp.arange(100), lax.iota(np.int8, 200), lax.iota(np.int8, 9)
        # Longer than the recursion limit.
        for _ in range(600):
            small = small.astype(np.uint8).astype(np.int8)
        return i < 0, i >= -3, i < 1, wrapping < 0, x[i % 7], jnp.diag(x), small >= 0

    x = np.arange(49, dtype=np.float32).reshape(7, 7)
    program = jaxmlir.trace(f)(x)
    after = program.optimize(1)
    same_bits(program, after, [x])
    # Those of i < 1, of indices that wrap, and of i % 7.
    assert after.as_text().count("jaxpr.lt") - program.as_text().count("jaxpr.lt") <= -2
    assert "jaxpr.ge" not in after.as_text()


@pytest.mark.parametrize(
    ("take", "batched"),
    [
        (lambda x, i: x[jnp.arange(3), i], 1),
        (lambda x, i: x[:, :3][i, jnp.arange(3)], 1),
        (lambda x, i: x[i, jnp.arange(3)], 0),
        (lambda x, i: x[jnp.arange(3), jnp.arange(3)], 0),
        (lambda x, i: x[jnp.arange(2), i[:2]], 0),
        (lambda x, i: x.at[jnp.arange(3), i].set(3.0), 1),
        (lambda x, i: x.at[jnp.arange(3), i].multiply(3.0), 1),
        (lambda x, i: x.at[jnp.arange(3), i].get(mode="fill"), 1),
        (lambda x, i: jax.vmap(lambda row: row[jnp.arange(3), i])(jnp.stack([x, 2 * x])), 1),
        (lambda x, i: jnp.stack([x, -x])[jnp.arange(2)[:, None], jnp.arange(3)[None], i], 1),
    ],
)
def test_row_numbers_are_batches(take, batched):
    """``x[arange(n), i]`` takes one element of each row."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    i = np.array([1, 7, -1], np.int32)
    program = jaxmlir.trace(lambda x, i: jnp.sum(jnp.sin(take(x, i))))(x, i)
    after = program.optimize(1)
    after.verify()
    assert after.as_text().count("operand_batching_dims") == batched
    same_bits(program, after, [x, i])
    same_bits(program.grad(), after.grad(), [x, i])


def test_rows_in_order_are_not_gathered():
    """Also those of a diagonal, of an array that has one row or column."""

    def f(x):
        i = jnp.arange(3)
        first = x[:, :1].at[i, i].get(mode="clip") + x[:1, :3].at[i, i].get(mode="clip")
        return x[i] * first[:, None], x.at[i[:, None], i[None] * 0].get(mode="clip"), x[i, i]

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = jaxmlir.trace(f)(x)
    after = program.optimize(1, target="tpu")
    assert after.as_text().count('"jaxpr.gather"') == 2
    after = jaxmlir.parse(after.as_text())
    same_bits(program, after, [x])


@pytest.mark.parametrize(
    ("take", "gathers"),
    [
        (lambda x, i, j: x[i[:, None], :, j[None]], 2),
        (lambda x, i, j: x[:, 1][j[:, None] % 4, i[None] % 5], 2),
        (lambda x, i, j: x[:, 1].at[2 * i[None], j[:, None]].get(mode="fill"), 2),
        (lambda x, i, j: x[i[:, None, None], i[None, :, None], j[None, None]], 3),
        (lambda x, i, j: x[:, i[:, None] % 3, j[None]], 2),
        (lambda x, i, j: jax.vmap(lambda a: jax.vmap(lambda b: x[a, 1, b])(j))(i), 3),
        (lambda x, i, j: x[i[:, None], 1, i[:, None]], 1),
        (lambda x, i, j: x[i[:2, None], 1, j[None, :3]], 1),
    ],
)
def test_products_of_indices(take, gathers):
    """``x[i[:, None], j[None]]`` takes rows of columns, if these are no more than the elements."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 3, 5), np.float32)
    i, j = rng.integers(-4, 4, 6), rng.integers(-5, 5, 7)
    i, j = i.astype(np.int32), j.astype(np.int32)
    program = jaxmlir.trace(lambda x, i, j: jnp.cos(take(x, i, j)))(x, i, j)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    after.verify()
    assert after.as_text().count('"jaxpr.gather"') == gathers
    same_bits(program, after, [x, i, j])
    ours, theirs = (p.jacrev()(x, i, j) for p in (after, program))
    np.testing.assert_allclose(ours, theirs, 1e-6)


def test_sign_of_negative_zero():
    """Backends differ on the sign of negative zero, so it is not folded."""

    @jax.jit
    def reciprocal(x):
        return 1 / jnp.sign(x)

    program = jaxmlir.trace(lambda x: (reciprocal(-0.0) + x, reciprocal(0.0) + x))(0.0)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    assert after.as_text().count("jaxpr.sign") == 1
    same_bits(program, after, [np.float32(0)])


@pytest.mark.compat
@pytest.mark.parametrize("reduction", [jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.any, jnp.all])
@pytest.mark.parametrize("axes", [(0,), (0, 2), ()])
def test_reductions_of_single_elements(reduction, axes):
    """Also a negative zero is the same in what XLA makes of a sum."""
    x = np.array([-0.0, 0.0, np.nan, -np.inf, 3.0], np.float32).reshape(1, 5, 1)

    def function(x):
        return reduction(x, axes)

    program = jaxmlir.trace(function)(x)
    after = program.run_passes("jaxpr-canonicalize")
    assert "jaxpr.reduce_" in str(program) and "jaxpr.reduce_" not in str(after)
    got, want = np.asarray(after(x)), np.asarray(jax.jit(function)(x))
    assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


def test_the_derivative_at_a_kink_is_jaxs():
    def function(x):
        return jnp.sum(jnp.abs(-x) + lax.max(x, x) + jnp.square(jnp.abs(x)) + jnp.abs(jnp.abs(x)))

    x = SAMPLES["float32"][:5]
    gradient = jaxmlir.trace(function)(x).optimize(1).grad()
    np.testing.assert_array_equal(gradient(x), jax.grad(function)(x))


def test_extremes_of_zeros():
    """The maximum of a positive and a negative zero is positive; for numpy they are equal."""
    zeros = (
        np.array([0.0, -0.0, -0.0, 0.0], np.float32),
        np.array([-0.0, 0.0, -0.0, 0.0], np.float32),
    )
    program = jaxmlir.trace(lambda s: (s * jnp.maximum(*zeros), s * jnp.minimum(*zeros)))(1.0)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    assert after.as_text().count("jaxpr.max") == after.as_text().count("jaxpr.min") == 1
    same_bits(program, after, [np.float32(1)])


@pytest.mark.compat
@budget
@given(steps=programs)
def test_random_programs(steps):
    """Results stay the same bit for bit, and three walks are enough."""
    args, program, jvp = program_of(steps)
    for before, args_ in ((program, args), (jvp, (*args, *args))):
        after = before.clone()
        assert canonicalize(after) <= 3
        after.verify()
        assert after.run_passes("jaxpr-canonicalize").as_text() == after.as_text()
        same_bits(before, after, args_)


def test_what_is_built_for_another_op_may_take_its_place():
    """A squeeze of a transpose becomes a transpose of a squeeze, which may fold to the squeeze."""

    def column(x):
        return jnp.sin(lax.squeeze(lax.transpose(x, (1, 0)), (0,)))

    def matrix(x):
        y = lax.squeeze(lax.transpose(x, (1, 2, 0)), (1,))
        return jnp.sin(lax.transpose(y, (1, 0)))

    for function, x in ((column, np.ones((3, 1))), (matrix, np.ones((3, 2, 1)))):
        x = np.asarray(x, np.float32)
        after = jaxmlir.trace(function)(x).run_passes("jaxpr-canonicalize")
        after.verify()
        np.testing.assert_array_equal(after(x), jax.jit(function)(x))


@pytest.mark.compat
def test_weak_types_stay():
    """A sum with a strongly typed zero is strong: its weak operand cannot replace it."""

    def function(x):
        return lax.add(x, lax.full_like(x, 0, np.int32))

    program = jaxmlir.trace(function)(jax.ShapeDtypeStruct((), np.int32, weak_type=True))
    after = program.run_passes("jaxpr-canonicalize")
    assert "jaxpr.add" in after.as_text()
    assert evaluate(after, [np.int32(3)])[0] == 3


def test_the_page_lists_the_equations():
    assert not generate_canonicalize.stale(), "run python tools/generate_canonicalize.py"


@pytest.mark.compat
def test_symbolic_shapes():
    """Sizes known only at run time are compared as symbols."""

    def function(x, y):
        z = lax.rev(lax.rev(jnp.concatenate([jnp.concatenate([x, x]), y]), (0,)), (0,))
        w = jnp.broadcast_to(x[:, None], (x.shape[0], 3))[:, None, :].squeeze(1).T.T
        return jnp.squeeze(z[None, :], 0), w, lax.dynamic_slice(x, (0,), (2,))

    (size,) = jax.export.symbolic_shape("b", constraints=["b >= 4"])
    shapes = jax.ShapeDtypeStruct((size,), np.float32), jax.ShapeDtypeStruct((5,), np.float32)
    after = jaxmlir.trace(function)(*shapes).optimize(1)
    after.verify()
    assert not {"jaxpr.rev", "jaxpr.squeeze", "jaxpr.transpose"} & set(after.as_text().split('"'))
    x = np.arange(6, dtype=np.float32)
    for a, b in zip(after(x, x[:5]), function(x, x[:5]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.compat
def test_kernels_are_left_alone():
    from jax.experimental import pallas as pl

    def kernel(x_ref, out_ref):
        out_ref[...] = -(lax.neg(x_ref[...]))

    def function(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return -lax.neg(pl.pallas_call(kernel, out_shape=shape, interpret=True)(x))

    x = np.arange(4, dtype=np.float32)
    after = jaxmlir.trace(function)(x).optimize(1)
    assert after.as_text().count("jaxpr.neg") == 2
    np.testing.assert_array_equal(after(x), x)


@pytest.mark.compat
def test_clamped_constants():
    def function(x):
        bounds = (-3, 2), (4, 1)
        return [x + lax.clamp(np.int8(a), np.int8([-9, 0, 9]), np.int8(b)) for a, b in bounds]

    program = jaxmlir.trace(function)(np.int8([1, 2, 3]))
    after = program.run_passes("jaxpr-canonicalize")
    assert "clamp" not in after.as_text()
    same_bits(program, after, [np.int8([100, 2, 3])])


def test_a_long_chain_of_which_nothing_is_left():
    def function(x):
        y = x
        for _ in range(1000):
            y = 3 * y + x
        return y ^ y

    program = jaxmlir.trace(function)(np.int32(3))
    after = program.run_passes("jaxpr-canonicalize")
    assert after.as_text().count('"jaxpr.') == 1
    same_bits(program, after, [np.int32(3)])


_BRANCHES = """
func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %i = "jaxpr.constant"() {value = dense<INDEX> : tensor<i32>} : () -> tensor<i32>
  %0 = "jaxpr.cond"(%i, %x) {branches = [@a, @b]} : (tensor<i32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @a(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @b(%x: tensor<f32>) -> tensor<f32> {
  %0 = "jaxpr.cos"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
"""


@pytest.mark.parametrize("index", [-1, 0, 1, 2])
def test_the_last_branch_is_that_of_an_index_out_of_range(index):
    program = jaxmlir.parse(_BRANCHES.replace("INDEX", str(index)))
    after = program.run_passes("jaxpr-canonicalize")
    assert "jaxpr.cond" not in after.as_text()
    same_bits(program, after, [np.float32(0.5)])


def test_slices_of_many_pieces(monkeypatch):
    """The pass visits each piece once, whatever the number of slices."""
    looks = []
    shape_of = movement.shape_of
    monkeypatch.setattr(movement, "shape_of", lambda v: looks.append(v) or shape_of(v))

    def f(x):
        joined = jnp.concatenate([jnp.sin(x[i : i + 2]) for i in range(100)])
        return [joined[i] for i in range(0, 200, 3)]

    x = jnp.linspace(0, 1, 101)
    after = jaxmlir.trace(f)(x).run_passes("jaxpr-inline, jaxpr-canonicalize, jaxpr-dce")
    assert len(looks) < 5000
    assert "concatenate" not in str(after)
    np.testing.assert_array_equal(after(x), jax.jit(f)(x))


def test_only_pieces_that_one_op_reads_are_joined_at_once():
    """An array that is joined to itself again and again is no array of a million pieces."""

    def f(x):
        y = x
        for i in range(10):
            x, y = jnp.concatenate([x, x]), jnp.concatenate([y, i * x[:1]])
        return x, y

    x = np.arange(1, dtype=np.int32)
    program = jaxmlir.trace(f)(x)
    after = program.run_passes("jaxpr-inline,jaxpr-canonicalize")
    nodes = ops_of(after.function(after.name))
    counts = [len(node.operands) for node in nodes if node.name == "jaxpr.concatenate"]
    assert sorted(counts) == [2] * 10 + [11]
    same_bits(program, after, [x])


def test_gathers_that_others_read_are_not_written_twice():
    def f(x, i):
        rows = x[i[:, None]]
        return rows[:, 0], rows * 2

    args = np.arange(12, dtype=np.int32).reshape(4, 3), np.array([3, 0, 3])
    program = jaxmlir.trace(f)(*args)
    after = program.optimize(1)
    assert after.as_text().count("jaxpr.gather") == 1
    same_bits(program, after, args)


def test_pieces_of_unknown_sizes_that_add_up():
    def f(x, y):
        return jnp.concatenate([x, y])[1:3]

    (b,) = jax.export.symbolic_shape("b", constraints=["b >= 1", "b <= 4"])
    shapes = [jax.ShapeDtypeStruct((n,), np.float32) for n in (b, 5 - b)]
    after = jaxmlir.trace(f)(*shapes).run_passes("jaxpr-canonicalize")
    x, y = np.arange(2, dtype=np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(after(x, y), f(x, y))
