"""Programs with symbolic shapes: saved and loaded, transformed, and called at many sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis.cost import costs
from jaxmlir.errors import ArgumentError, TransformError

pytestmark = pytest.mark.compat


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert jax.typeof(x) == jax.typeof(y)
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-6)


def attention(x, y):
    """Sizes appear in shapes, as values, and as the length of a loop."""
    b, c = x.shape
    scores = jax.nn.softmax(x @ y.T / c, axis=0)

    def step(carry, row):
        return carry + row.sum(), carry

    total, partial = lax.scan(step, jnp.float32(0), scores)
    return total + partial.sum() + jnp.arange(b * c).sum(), jnp.concatenate([x, x]).reshape(-1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program read from an artifact."""
    b, c = jax.export.symbolic_shape("b, c", constraints=["c >= 2*b", "mod(c, 4) == 0"])
    args = [jax.ShapeDtypeStruct((n, c), np.float32) for n in (b, 3)]
    path = tmp_path_factory.mktemp("symbolic") / "attention.jaxmlir"
    jaxmlir.trace(attention)(*args).save(path)
    return jaxmlir.load(path)


def values(b, c):
    return jnp.linspace(0, 1, b * c).reshape(b, c), jnp.cos(jnp.arange(3.0 * c)).reshape(3, c)


@pytest.mark.parametrize("sizes", [(1, 4), (6, 12)])
def test_results(program, sizes):
    x, y = values(*sizes)
    same(program(x, y), attention(x, y))


def nested(x, w):
    """Loops over symbolic sizes in other loops, in branches, and one after another."""

    def total(h):
        return lax.scan(lambda a, row: (jnp.tanh(a @ w @ w + row), a.sum()), h, x)

    def turn(i, h):
        h = h + jnp.sum(jnp.sin(x @ w), 0) * x.shape[0] + total(x[0])[0]
        return lax.cond(h[0] > 0, lambda: h - x.mean(), lambda: h + total(h)[1].sum())

    return lax.fori_loop(0, 3, turn, x[0]), total(x[0])[0], total(x[1])[1]


def test_optimized(program):
    x, y = values(2, 8)
    same(program.optimize(2)(x, y), attention(x, y))


@pytest.mark.parametrize("shape", ["b, 7", "5, k", "b, k"])
def test_one_element_of_each_row(shape):
    def loss(x, i):
        rows = jnp.arange(x.shape[0])
        return jnp.sum(jax.nn.log_softmax(x)[rows, i] ** 2)

    sizes = jax.export.symbolic_shape(shape)
    x, i = jax.ShapeDtypeStruct(sizes, np.float32), jax.ShapeDtypeStruct(sizes[:1], np.int32)
    gradient = jaxmlir.trace(loss)(x, i).optimize(2).grad().optimize(2)
    x, i = np.cos(np.arange(35, dtype=np.float32)).reshape(5, 7), np.array([0, 3, 6, 2, 2])
    same(gradient(x, i), jax.grad(loss)(x, i))


def test_loops_of_unknown_length():
    (size,) = jax.export.symbolic_shape("b")
    x, w = jnp.cos(jnp.arange(20.0)).reshape(5, 4), jnp.eye(4) / 3

    def gradient(x, w):
        return jax.grad(lambda x, w: sum(map(jnp.sum, nested(x, w))), (0, 1))(x, w)

    program = jaxmlir.trace(gradient)(jax.ShapeDtypeStruct((size, 4), np.float32), w)
    assert costs(program).unbounded
    after = program.optimize(2).run_passes("jaxpr-raise-loops", target="cuda")
    after.verify()
    same(after(x, w), gradient(x, w))


def loss(f):
    return lambda x, y: f(x, y)[0]


def test_derivatives_and_batches_at_a_size(program):
    x, y = values(2, 8)

    def all_of(f):
        return jax.jit(
            lambda x, y: {
                "grad": jax.grad(loss(f), (0, 1))(x, y),
                "jvp": jax.jvp(f, (x, y), (y[:2], y)),
                "hessian": jax.hessian(loss(f))(x, y),
                "vmap": jax.vmap(f, (0, None))(jnp.stack([x, 2 * x]), y),
            }
        )(x, y)

    same(all_of(program), all_of(attention))


def test_derivatives_and_batches_of_the_symbolic_program(program):
    jvp, batched = program.jvp(), program.vmap(in_axes=(0, None), axis_size=2)
    fwd, bwd = program.vjp()
    for transformed in (jvp, batched, fwd, bwd):
        transformed.verify()

    def ours(x, y):
        result, residuals = fwd(x, y)
        return jvp((x, y), (x, y)), bwd(residuals, result), batched(jnp.stack([x, 2 * x]), y)

    def theirs(x, y):
        result, pullback = jax.vjp(attention, x, y)
        batch = jax.vmap(attention, (0, None))(jnp.stack([x, 2 * x]), y)
        return jax.jvp(attention, (x, y), (x, y)), pullback(result), batch

    for sizes in ((1, 4), (2, 8)):
        same(jax.jit(ours)(*values(*sizes)), jax.jit(theirs)(*values(*sizes)))


def test_a_size_makes_a_program_like_any_other(program):
    x, y = values(2, 8)
    fixed = program.specialize(x, jax.ShapeDtypeStruct((3, 8), np.float32))
    fixed.verify()
    assert 'shape = "' not in str(fixed) and "dim = " not in str(fixed)
    ours = fixed.lower().as_text()
    assert "?" not in ours and "tensor<2x8xf32>" in ours
    same(fixed(x, y), attention(x, y))
    # The symbolic program can be lowered, too.
    assert "tensor<?x?xf32>" in program.lower().as_text()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((3, 4), r"b = 3, c = 4, which violates the constraint 'c >= 2\*b' that"),
        ((1, 6), r"b = 1, c = 6, which violates the constraint .*'mod\(c, 4\) == 0' that"),
    ],
)
def test_a_violated_constraint_is_named(program, sizes, message):
    with pytest.raises(ArgumentError, match=message):
        program(*values(*sizes))
    with pytest.raises(ArgumentError, match=message):
        jax.grad(loss(program))(*values(*sizes))


def test_sizes_that_contradict_each_other_and_wrong_ranks(program):
    x, y = values(2, 8)
    expected = r"argument y is f32\[3,c\], with b = 2, c = 8 .* the shape \[3, 8\], got \[3, 4\]"
    with pytest.raises(ArgumentError, match=expected):
        program(x, y[:, :4])
    with pytest.raises(ArgumentError, match=r"argument x must be f32\[b,c\]"):
        program(x[0], y)


def symbolic(names, constraints=()):
    return jax.export.symbolic_shape(names, constraints=list(constraints))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (2 * x).reshape(-1),
        lambda x: jnp.sin(x.reshape(-1, x.shape[1] // 2, 2)).sum((0, 2)),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.9 + x[i], jnp.zeros(x.shape[1])),
        lambda x: 1.0,
    ],
    ids=["a*b", "b//2", "b alone", "none"],
)
def test_a_backward_program_whose_operands_do_not_tell_the_sizes(f, tmp_path):
    dims = symbolic("a, b", ["a >= b", "mod(b, 2) == 0"])
    fwd, bwd = jaxmlir.trace(f)(jax.ShapeDtypeStruct(dims, np.float32)).vjp()
    for i, program in enumerate((fwd, bwd)):
        program.verify()
        program.save(tmp_path / str(i))
    fwd, bwd = (jaxmlir.load(tmp_path / str(i)).optimize(2) for i in range(2))
    for shape in ((3, 2), (5, 4)):
        x = jnp.cos(jnp.arange(float(np.prod(shape)))).reshape(shape)
        (result, residuals), (expected, pullback) = fwd(x), jax.vjp(f, x)
        same((result, bwd(residuals, result)), (expected, pullback(expected)))
        batch, residuals = fwd.vmap(axis_size=2)(jnp.stack([x, 2 * x]))
        (gradient,) = jax.vmap(lambda x: jax.vjp(f, x)[1](f(x)))(jnp.stack([x, 2 * x]))
        same(bwd.vmap(axis_size=2)(residuals, batch), (gradient,))


def test_integers_have_tangents_of_symbolic_shapes(tmp_path):
    """These are ``float0``; no such array exists before the size is known."""

    def f(x, i):
        return x[i] * 2, i + 1

    a, n = symbolic("a, n")
    args = jax.ShapeDtypeStruct((a,), np.float32), jax.ShapeDtypeStruct((n,), np.int32)
    program = jaxmlir.trace(f)(*args)
    loss = jaxmlir.trace(lambda x, i: jnp.sum(f(x, i)[0]))(*args)
    programs = (*program.vjp(), program.jvp(), loss.grad((0, 1), allow_int=True))
    for i, transformed in enumerate(programs):
        transformed.verify()
        assert "tensor<?x" in transformed.lower().as_text()
        transformed.save(tmp_path / str(i))
    fwd, bwd, jvp, grad = (jaxmlir.load(tmp_path / str(i)) for i in range(4))
    x, i = jnp.arange(4.0), jnp.array([3, 0, 3], np.int32)
    zero = np.zeros(3, jax.dtypes.float0)

    def equal(ours, theirs):
        assert jax.tree.map(jax.typeof, ours) == jax.tree.map(jax.typeof, theirs)
        same(ours[0], theirs[0])

    equal(bwd(fwd(x, i)[1], (x[:3], zero)), jax.vjp(f, x, i)[1]((x[:3], zero)))
    equal(jvp((x, i), (x, zero))[1], jax.jvp(f, (x, i), (x, zero))[1])
    equal(grad(x, i), jax.grad(lambda x, i: jnp.sum(f(x, i)[0]), (0, 1), allow_int=True)(x, i))


@pytest.mark.parametrize(
    ("shape", "message"),
    [("a*b", r"@sin: Cannot solve .*'a\*b'"), ("a", r"@sin: Encountered dimension variable 'b'")],
)
def test_shapes_that_do_not_tell_the_sizes(shape, message):
    symbolic_sizes = symbolic(shape) if "*" in shape else symbolic("a, b", ["a >= b"])[:1]
    program = jaxmlir.trace(jnp.sin)(jax.ShapeDtypeStruct(symbolic_sizes, np.float32))
    with pytest.raises(ArgumentError, match=message):
        program(jnp.ones(6))


def test_a_jacobian_that_cannot_be_cut_at_symbolic_sizes():
    """JAX's own error is similar; ours also names the program, and says what to do."""

    def f(x):
        return x[1:], x[:-1] * 2

    program = jaxmlir.trace(f)(jax.ShapeDtypeStruct(symbolic("a, b", ["a >= 2"]), np.float32))
    x = jnp.ones((3, 2))
    with pytest.raises(TransformError, match=r"jacrev of @f: use program.specialize\(...\)"):
        program.jacrev()
    same(program.specialize(x).jacrev()(x), jax.jacrev(f)(x))


OWN = "floordiv(2*a, b) >= 1"
OUTER = ["c >= d", "mod(d, 2) == 0", "floordiv(2*c, d) >= 1"]


@jax.custom_vjp
def rolled(x):
    return jnp.sin(x) * x.shape[0]


rolled.defvjp(lambda x: (rolled(x), x), lambda x, g: (3 * jnp.cos(x) * g,))


def sizes_everywhere(x, i):
    a, b = x.shape
    rows = lax.scan(lambda c, row: (c + row, c.sum()), x[0], x)[1]
    halves = rolled(x).reshape(a, b // 2, 2).sum(2)
    return rows.sum() * a, jnp.concatenate([halves.reshape(-1), rows]), x[i], i + 1


@pytest.fixture(scope="module")
def inner(tmp_path_factory):
    a, b, n = symbolic("a, b, n", ["a >= b", "mod(b, 2) == 0", "floordiv(a, b) >= 1"])
    args = jax.ShapeDtypeStruct((a, b), np.float32), jax.ShapeDtypeStruct((n,), np.int32)
    path = tmp_path_factory.mktemp("inner") / "a"
    jaxmlir.trace(sizes_everywhere)(*args).save(path)
    return jaxmlir.load(path)


def around(f):
    """Calls the function and its derivatives at shapes computed from the caller's sizes."""

    def outer(y, i):
        y = jnp.concatenate([y, 2 * y])  # [2*c, d]

        def loss(y):
            total, flat, taken, _ = f(y, i)
            return total + jnp.sum(jnp.sin(flat)) + jnp.sum(taken * y.shape[1])

        _, pullback = jax.vjp(lambda y: f(y, i)[:3], y)
        zeros = jnp.float32(1), jnp.zeros(y.size // 2 + y.shape[0]), y[i]
        batch = jax.vmap(lambda y: f(y, i)[2])(jnp.stack([y, y])) * i.shape[0]
        return f(y, i)[1][: y.shape[1]], jax.grad(loss)(y) + y, pullback(zeros), batch

    return outer


@pytest.mark.parametrize("names", ["c, d, m", "a, b, n"])
def test_a_program_called_at_symbolic_sizes_of_a_caller(inner, names, tmp_path):
    """The caller's sizes may have the same names as the program's."""
    c, d, m = symbolic(names, OUTER if names[0] == "c" else ["a >= b", "mod(b, 2) == 0", OWN])
    args = jax.ShapeDtypeStruct((c, d), np.float32), jax.ShapeDtypeStruct((m,), np.int32)
    jaxmlir.trace(around(inner))(*args).save(tmp_path / "a")
    program = jaxmlir.load(tmp_path / "a")
    exported = jax.export.export(jax.jit(around(inner)))(*args)
    i = jnp.array([0, 5, 5], np.int32)

    def near(ours, theirs):
        np.testing.assert_allclose(ours, theirs, 2e-5, 2e-3)

    for sizes in ((16, 4), (33, 8)):
        y = jnp.cos(jnp.arange(float(np.prod(sizes)))).reshape(sizes)
        expected = jax.jit(around(sizes_everywhere))(y, i)
        for run in (program, program.optimize(2), exported.call):
            jax.tree.map(near, run(y, i), expected)


def test_a_constraint_that_a_caller_does_not_promise(inner):
    def call(shape, constraints):
        sizes = symbolic(shape, constraints)
        return jaxmlir.trace(inner)(
            jax.ShapeDtypeStruct(sizes, np.float32), jax.ShapeDtypeStruct((3,), np.int32)
        )

    with pytest.raises(ArgumentError, match=r"b = d.*nothing implies.*'mod\(b, 2\) == 0'.*scope"):
        call("c, d", ["c >= d"])
    with pytest.raises(ArgumentError, match=r"a = c, b = 2\*c.*violates the constraint.*'a >= b'"):
        call("c, 2*c", [])
    with pytest.raises(ArgumentError, match=r"b = 0.*floordiv\(a, b\) >= 1"):
        inner(jnp.ones((3, 0)), jnp.zeros(3, np.int32))


def test_sizes_that_are_symbolic_in_turn(tmp_path):
    (b,) = jax.export.symbolic_shape("b")
    program = jaxmlir.trace(lambda x: jnp.stack([x, 2 * x]))(jax.ShapeDtypeStruct((b,), "float32"))
    even = program.specialize(jax.ShapeDtypeStruct((2 * b,), "float32"))
    even.save(tmp_path / "even")
    for given in (even, jaxmlir.load(tmp_path / "even")):
        assert str(given.out_avals[0].shape) == "(2, 2*b)"
        same(given(jnp.ones(4)), jnp.stack([jnp.ones(4), 2 * jnp.ones(4)]))
        with pytest.raises(ArgumentError, match="remainder 1"):
            given(jnp.ones(3))


def test_rows_of_an_array_that_may_have_fewer():
    """A loop that reads rows by its counter stays if some of the rows may not exist."""
    numbers = lax.GatherDimensionNumbers((0,), (0,), (0,))

    def rows(x):
        def step(i, _):
            return i + 1, lax.gather(x, i[None], numbers, (1, 3), mode="fill", fill_value=7)

        return lax.scan(step, 0, None, length=8)

    (size,) = jax.export.symbolic_shape("n")
    program = jaxmlir.trace(rows)(jax.ShapeDtypeStruct((size, 3), np.float32))
    program = program.run_passes("jaxpr-raise-loops")
    for n in (5, 8):
        x = jnp.arange(3.0 * n).reshape(n, 3)
        same(program(x), rows(x))


def test_products_of_double_precision_and_symbolic_sizes_stay():
    def f(x, y, w):
        return (x * y).sum(0) @ w @ w

    (size,) = jax.export.symbolic_shape("n")
    with jax.enable_x64(True):
        x, w = jax.ShapeDtypeStruct((size, 3), np.float64), np.eye(3) + 1
        program = jaxmlir.trace(f)(x, x, w).run_passes("jaxpr-reassociate")
        x = np.arange(6.0).reshape(2, 3)
        np.testing.assert_allclose(program(x, x, w), f(x, x, w), rtol=1e-14)


def _newtonish(x):
    return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x).sum()


def _recurrent(w, xs):
    def step(carry, x):
        return jnp.tanh(w @ carry + x), None

    return jax.lax.scan(step, jnp.zeros(w.shape[0]), xs)[0].sum()


@pytest.mark.sampled
@pytest.mark.parametrize("names", ["m, n", "s, t"])
@pytest.mark.parametrize(
    "derivative",
    [
        jax.grad,
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: jax.grad(lambda w, *args: jax.grad(f)(w, *args).sum()),
        lambda f: lambda w, *args: jax.jvp(lambda w: jax.grad(f)(w, *args), (w,), (w,))[1],
        lambda f: (
            lambda w, *args: jax.lax.cond(w.sum() > 0, jax.grad(f), lambda w, *_: w, w, *args)
        ),
    ],
    ids=["grad", "grad-of-checkpoint", "grad-of-grad", "jvp-of-grad", "grad-in-cond"],
)
@pytest.mark.parametrize("function", [_newtonish, _recurrent])
def test_jaxs_derivatives_of_loops_in_another_scope(function, derivative, names):
    """The other scope has other sizes, or sizes with the same names."""
    n, t = jax.export.symbolic_shape("n, t")
    shapes = {_newtonish: lambda a, b: [(a,)], _recurrent: lambda a, b: [(a, a), (b, a)]}[function]

    def structs(a, b):
        return [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes(a, b)]

    program = jaxmlir.trace(function)(*structs(n, t))
    elsewhere = structs(*jax.export.symbolic_shape(names))
    exported = jax.export.export(jax.jit(derivative(program)))(*elsewhere)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes(3, 2)]
    expected = jax.jit(derivative(function))(*args)
    np.testing.assert_allclose(exported.call(*args), expected, rtol=1e-5, atol=1e-6)
