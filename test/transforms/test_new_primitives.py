"""User-defined primitives work everywhere; a missing rule gives an error that names it.

Numbers are compared with JAX's document on new primitives, and with JAX on the same function.
"""

import functools
import operator
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import jaxmlir
from jaxmlir import debug
from jaxmlir._compat import closed_and_open_differ, core
from jaxmlir.caching import setting
from jaxmlir.errors import EvaluationError, LoweringError, TransformError

pytestmark = pytest.mark.compat

RULES = ("impl", "abstract eval", "lowering", "jvp", "transpose", "batching")


def define(name, rules=RULES):
    """``x * y + z`` as a primitive with some of the rules; returns its function."""
    primitive = Primitive(name)

    def bind(x, y, z):
        return primitive.bind(x, y, z)

    def jvp(primals, tangents):
        x, y, z = primals
        tx, ty, tz = map(ad.instantiate_zeros, tangents)
        return bind(x, y, z), bind(tx, y, bind(x, ty, tz))

    def transpose(ct, x, y, z):
        zero = jnp.zeros_like(ct)
        if ad.is_undefined_primal(x):
            return bind(ct, y, zero), None, ct
        return None, bind(x, ct, zero), ct

    def on_host(x, y, z):
        return np.add(np.multiply(x, y), z)

    def in_jax(x, y, z):
        return x * y + z

    def batch(args, dims):
        assert all(dim == dims[0] for dim in dims)
        return bind(*args), dims[0]

    register = {
        "impl": lambda: primitive.def_impl(on_host),
        "abstract eval": lambda: primitive.def_abstract_eval(lambda x, y, z: x),
        "lowering": lambda: mlir.register_lowering(
            primitive, mlir.lower_fun(in_jax, multiple_results=False)
        ),
        "jvp": lambda: ad.primitive_jvps.update({primitive: jvp}),
        "transpose": lambda: ad.primitive_transposes.update({primitive: transpose}),
        "batching": lambda: batching.primitive_batchers.__setitem__(primitive, batch),
    }
    for rule in rules:
        register[rule]()
    return bind


def program_of(name, rules=RULES):
    """``square_add(a, b) = a * a + b``, read back from its text."""
    bind = define(name, rules)

    def square_add(a, b):
        return bind(a, a, b)

    program = jaxmlir.trace(square_add)(jnp.float32(2.0), jnp.float32(10.0))
    assert f'"jaxpr.{name}"' in str(program)
    return jaxmlir.parse(program.as_text(debug_info=True))


@pytest.fixture(scope="module")
def square_add():
    return program_of("multiply_add_whole")


ONE = jnp.float32(1.0)


def test_runs(square_add):
    assert square_add(2.0, 10.0) == 14.0
    assert square_add.eval(2.0, 10.0) == 14.0
    assert jax.jit(square_add)(2.0, 10.0) == 14.0
    assert jax.jit(jax.extend.core.jaxpr_as_fun(square_add.to_jaxpr()))(2.0, 10.0) == [14.0]


def test_is_differentiated_and_batched_by_the_passes(square_add):
    assert square_add.jvp()((2.0, 10.0), (1.0, 1.0)) == (14.0, 5.0)
    assert square_add.grad()(2.0, 10.0) == 4.0
    assert square_add.grad().eval(2.0, 10.0) == 4.0
    assert square_add.grad().grad()(2.0, 10.0) == 2.0
    mapped = square_add.vmap(axis_size=2)
    assert mapped(jnp.array([2.0, 3.0]), jnp.array([10.0, 20.0])).tolist() == [14.0, 29.0]
    assert "jaxpr.multiply_add_whole" in str(square_add.grad())


def test_is_differentiated_and_batched_by_jax(square_add):
    two, ten = jnp.float32(2.0), jnp.float32(10.0)
    assert jax.jvp(square_add, (two, ten), (ONE, ONE)) == (14.0, 5.0)
    assert jax.grad(square_add)(2.0, 10.0) == 4.0
    mapped = jax.vmap(square_add)(jnp.array([2.0, 3.0]), jnp.array([10.0, 20.0]))
    assert mapped.tolist() == [14.0, 29.0]


def test_is_debugged():
    rules = [rule for rule in RULES if rule != "impl"]  # numpy would warn of the overflow.
    program = program_of("multiply_add_large", rules).grad().grad()
    assert debug.find_nan(program, 1.0, 1.0) is None
    found = debug.find_nan(program_of("multiply_add_larger", rules), 3e38, 1.0)
    assert (found.kind, found.place.op) == ("Inf", "jaxpr.multiply_add_larger")
    assert found.place.source.startswith("return primitive.bind(x, y, z)")


@pytest.mark.parametrize(
    ("rule", "use", "error", "says"),
    [
        (
            "impl",
            lambda program: program.eval(2.0, 10.0),
            None,
            "",
        ),
        (
            "lowering",
            lambda program: program(2.0, 10.0),
            LoweringError,
            "cannot be lowered: MLIR translation rule for primitive 'NAME' not found",
        ),
        (
            "jvp",
            lambda program: program.jvp(),
            TransformError,
            "cannot be differentiated: NotImplementedError: Differentiation rule for 'NAME' not",
        ),
        (
            "jvp",
            lambda program: program.grad(),
            TransformError,
            "NotImplementedError: Differentiation rule for 'NAME' not implemented",
        ),
        (
            "transpose",
            lambda program: program.grad(),
            TransformError,
            "cannot be transposed: NotImplementedError: Transpose rule (for reverse-mode "
            "differentiation) for 'NAME' not implemented",
        ),
        (
            "batching",
            lambda program: program.vmap(axis_size=2),
            TransformError,
            "cannot be batched: NotImplementedError: Batching rule for 'NAME' not implemented",
        ),
    ],
)
def test_a_missing_rule(rule, use, error, says, request):
    name = f"multiply_add_{abs(hash(request.node.name))}"
    program = program_of(name, [r for r in RULES if r != rule])
    if error is None:  # The lowering replaces it.
        assert use(program) == 14.0
        return
    with pytest.raises(error) as e:
        use(program)
    assert f"'jaxpr.{name}' op" in str(e.value)
    assert says.replace("NAME", name) in str(e.value)
    assert __file__ in str(e.value)


def test_neither_impl_nor_lowering():
    program = program_of("multiply_add_bare", ["abstract eval", "jvp"])
    with pytest.raises(EvaluationError, match="Evaluation rule for 'multiply_add_bare' not impl"):
        program.eval(2.0, 10.0)


def test_no_abstract_evaluation():
    bind = define("multiply_add_unknown_shape", ["impl", "lowering"])
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'multiply_add_unknown"):
        jaxmlir.trace(bind)(1.0, 2.0, 3.0)


LOADER = """
import sys
import jaxmlir
if sys.argv[1] == "with":
    sys.path.insert(0, {folder!r})
    from test_new_primitives import define
    define("multiply_add_saved")
path = sys.argv[2]
program = jaxmlir.load(path) if path.endswith(".jaxmlir") else jaxmlir.parse(open(path).read())
print(program(2.0, 10.0), program.grad()(2.0, 10.0))
"""


def in_another_process(registers, path):
    code = LOADER.format(folder=str(Path(__file__).parent))
    arguments = [sys.executable, "-c", code, registers, str(path)]
    return subprocess.run(arguments, capture_output=True, text=True)


def test_in_a_process_that_registers_the_primitive_and_in_one_that_does_not(tmp_path):
    program = program_of("multiply_add_saved")
    saved, text = tmp_path / "program.jaxmlir", tmp_path / "program.mlir"
    program.save(saved)
    text.write_text(str(program))
    for path in (saved, text):
        done = in_another_process("with", path)
        assert (done.stdout, done.returncode) == ("14.0 4.0\n", 0), done.stderr
    # A file has the expansion of the primitive, the text does not.
    done = in_another_process("without", saved)
    assert (done.stdout, done.returncode) == ("14.0 4.0\n", 0), done.stderr
    done = in_another_process("without", text)
    assert done.returncode == 1
    assert "no such primitive" in done.stderr or "has no primitive" in done.stderr
    assert "multiply_add_saved" in done.stderr
    assert "if it is your own, import its module" in done.stderr


def test_two_primitives_of_one_name_do_not_meet():
    """The second one is named by a handle, which is valid only in this process."""
    first, second = define("multiply_add_twin"), define("multiply_add_twin")
    program = jaxmlir.trace(lambda x: first(x, x, x) + second(x, x, x))(2.0)
    assert program(2.0) == 12.0
    assert program.eval(2.0) == 12.0
    assert "jaxpr.primitive = {handle =" in str(program)


def applies_open_jaxprs(name="apply_open"):
    """A primitive whose rules pass all operands but the last one as the constants of a jaxpr."""
    primitive = Primitive(name)

    def apply(*args, jaxpr):
        return core.eval_jaxpr(jaxpr, args[:-1], args[-1])[0]

    def abstract_eval(*avals, jaxpr):
        result = jax.eval_shape(functools.partial(apply, jaxpr=jaxpr), *avals)
        return core.ShapedArray(result.shape, result.dtype)

    primitive.def_abstract_eval(abstract_eval)
    mlir.register_lowering(primitive, mlir.lower_fun(apply, multiple_results=False))
    ad.primitive_jvps[primitive] = lambda primals, tangents, jaxpr: jax.jvp(
        functools.partial(apply, jaxpr=jaxpr), primals, tuple(map(ad.instantiate_zeros, tangents))
    )
    return primitive


@pytest.mark.skipif(not closed_and_open_differ(), reason="this JAX has no open jaxprs")
def test_an_open_jaxpr_among_the_parameters():
    """The rules pass operands as the jaxpr's constants, like those of solvers."""
    primitive = applies_open_jaxprs()
    opened = jax.make_jaxpr(lambda x: x * np.float32(2.0) * np.ones(2, np.float32))(1.0).jaxpr
    assert len(opened.constvars) == 1
    program = jaxmlir.trace(lambda *args: primitive.bind(*args, jaxpr=opened).sum())
    program = jaxmlir.parse(program(jnp.ones(2), 1.0).as_text())
    program.verify()
    arguments = jnp.array([3.0, 4.0]), jnp.float32(5.0)
    assert program(*arguments) == 70.0
    assert program.grad(1)(*arguments) == 14.0
    assert jax.grad(program, 1)(*arguments) == 14.0


def test_a_jaxpr_among_the_parameters_that_closes_over_traced_values():
    """The jaxpr's constants are tracers; the rules pass operands for them."""
    primitive = applies_open_jaxprs()

    def f(w, x):
        closed = jax.make_jaxpr(lambda x: jnp.sin(w) * x)(x)
        (constant,) = closed.consts
        return primitive.bind(constant, x, jaxpr=closed.jaxpr).sum()

    arguments = jnp.array([3.0, 4.0]), jnp.float32(5.0)
    program = jaxmlir.parse(jaxmlir.trace(f)(*arguments).as_text())
    program.verify()
    w, x = arguments
    np.testing.assert_allclose(program(*arguments), x * jnp.sin(w).sum(), 1e-6)
    for derivative in (program.optimize(2).grad((0, 1)).optimize(2), jax.grad(program, (0, 1))):
        dw, dx = derivative(*arguments)
        np.testing.assert_allclose(dw, x * jnp.cos(w), 1e-6)
        np.testing.assert_allclose(dx, jnp.sin(w).sum(), 1e-6)


def test_a_jaxpr_among_the_parameters_that_closes_over_known_values(tmp_path):
    """Each value stays a constant, also scalars and equal ones: the rules pass operands for all."""
    primitive = applies_open_jaxprs("apply_to_known")
    scale, large = jnp.float32(3.0), jnp.ones((40, 40))
    a, b = jnp.ones((2, 2)), np.ones((2, 2), np.float32)

    def inner(x):
        return scale * (a @ jnp.sin(x)) + b @ x + large.sum() * x

    def f(x):
        closed = jax.make_jaxpr(inner)(x)
        assert len(closed.consts) >= 3
        return primitive.bind(*closed.consts, x, jaxpr=closed.jaxpr).sum()

    x = jnp.array([3.0, 4.0])
    program = jaxmlir.trace(f)(x)
    program.save(tmp_path / "program")
    expected, gradient = jax.value_and_grad(lambda x: inner(x).sum())(x)
    for again in (jaxmlir.load(tmp_path / "program"), program.optimize(2)):
        again.verify()
        np.testing.assert_allclose(again(x), expected, 1e-6)
        np.testing.assert_allclose(again.eval(x), expected, 1e-6)
        for derivative in (again.grad(), again.grad().optimize(2), jax.grad(again)):
            np.testing.assert_allclose(derivative(x), gradient, 1e-6)


def test_a_closed_jaxpr_of_which_the_rules_know_the_constants():
    primitive = Primitive("apply_closed")

    def apply(x, *, jaxpr):
        assert len(jaxpr.consts) == 2
        return core.jaxpr_as_fun(jaxpr)(x)[0]

    primitive.def_abstract_eval(lambda x, jaxpr: x)
    mlir.register_lowering(primitive, mlir.lower_fun(apply, multiple_results=False))
    a, b = (np.full(2, value, np.float32) for value in (2.0, 3.0))
    closed = jax.make_jaxpr(lambda x: a * x + b)(a)
    program = jaxmlir.trace(lambda x: primitive.bind(x, jaxpr=closed))(a)
    program = jaxmlir.parse(program.optimize(2).as_text())
    assert program(a).tolist() == [7.0, 7.0]
    assert jax.jit(core.jaxpr_as_fun(program.to_jaxpr()))(a)[0].tolist() == [7.0, 7.0]


def cut(x):
    """An array of another shape than the rule must return."""
    return x[:2]


def cut_along_the_batch(xs, dims):
    return cut(jnp.moveaxis(xs[0], dims[0], 1)), 1


@pytest.mark.parametrize(
    ("rule", "use", "error", "says"),
    [
        (
            lambda p: mlir.register_lowering(p, mlir.lower_fun(cut, multiple_results=False)),
            lambda program: program.lower(),
            LoweringError,
            "cannot be lowered: TypeError: expected its lowering rule to give tensor<3xf32>, got "
            "tensor<2xf32>",
        ),
        (
            lambda p: mlir.register_lowering(p, lambda ctx, x: {}["x"]),
            lambda program: program.lower(),
            LoweringError,
            "cannot be lowered: KeyError: 'x'",
        ),
        (
            lambda p: ad.primitive_jvps.update({p: lambda xs, ts: (p.bind(*xs), cut(ts[0]))}),
            lambda program: program.jvp(),
            TransformError,
            "cannot be differentiated: TypeError: its rule gives a tangent of type f32[2], "
            "expected f32[3]",
        ),
        (
            lambda p: ad.primitive_jvps.update({p: lambda xs, ts: (p.bind(*xs), cut(ts[0]))}),
            lambda program: program.grad(),
            TransformError,
            "its rule gives a tangent of type f32[2], expected f32[3]",
        ),
        (
            lambda p: ad.primitive_jvps.update({p: lambda xs, ts: (cut(xs[0]), ts[0])}),
            lambda program: program.linearize(),
            TransformError,
            "its rule gives a value of type f32[2], expected f32[3]",
        ),
        (
            lambda p: operator.setitem(batching.primitive_batchers, p, cut_along_the_batch),
            lambda program: program.vmap(axis_size=5),
            TransformError,
            "cannot be batched: TypeError: its rule gives a value of type f32[2], expected f32[3]",
        ),
    ],
)
def test_a_wrong_rule(rule, use, error, says, request):
    primitive = Primitive(f"wrong_{abs(hash(request.node.name))}")
    primitive.def_abstract_eval(lambda x: x)
    rule(primitive)
    program = jaxmlir.trace(lambda x: primitive.bind(x).sum())(jnp.ones(3))
    with pytest.raises(error) as e:
        use(program)
    assert f"'jaxpr.{primitive.name}' op" in str(e.value)
    assert says in str(e.value)
    assert __file__ in str(e.value)


XS = jnp.arange(3.0)

TRANSFORMATIONS = {
    "jvp": (
        lambda f: jaxmlir.trace(f)(XS).jvp()((XS,), (XS,))[1],
        lambda f: jax.jvp(f, (XS,), (XS,))[1],
    ),
    "linearize": (
        lambda f: jaxmlir.trace(f)(XS).linearize()[1]((), XS),
        lambda f: jax.linearize(f, XS)[1](XS),
    ),
    "transpose": (
        lambda f: jaxmlir.trace(f)(XS).vjp()[1]((), XS)[0],
        lambda f: jax.vjp(f, XS)[1](XS)[0],
    ),
    "batching": (
        lambda f: jaxmlir.trace(f)(XS).vmap(axis_size=2)(jnp.ones((2, 3))),
        lambda f: jax.vmap(f)(jnp.ones((2, 3))),
    ),
}


def scaled(name):
    """``2 * x`` as a primitive, and a function that registers a derivative rule which multiplies by
    another number."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    primitive.def_impl(lambda x: 2 * x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))
    ad.deflinear2(primitive, lambda ct, x: [2 * ct])

    def register(kind, factor):
        if kind == "transpose":
            ad.primitive_transposes[primitive] = lambda ct, x: [factor * ct]
        elif kind == "batching":
            batching.primitive_batchers[primitive] = lambda xs, dims: (factor * xs[0], dims[0])
        else:
            ad.defjvp(primitive, lambda t, x: factor * t)

    return primitive, register


def of_itself(primitive):
    return lambda x: primitive.bind(x)


def of_another(primitive):
    """A primitive whose rules JAX derives from a function of the given primitive."""
    outer = Primitive(f"{primitive.name}_outer")
    outer.def_abstract_eval(lambda x: x)
    outer.def_impl(primitive.bind)
    mlir.register_lowering(outer, mlir.lower_fun(primitive.bind, multiple_results=False))
    ad.primitive_jvps[outer] = lambda xs, ts: jax.jvp(lambda x: primitive.bind(x), xs, ts)
    batching.primitive_batchers[outer] = lambda xs, dims: (
        jax.vmap(lambda x: primitive.bind(x), dims)(*xs),
        0,
    )
    return lambda x: outer.bind(x)


@pytest.mark.parametrize("within", [of_itself, of_another])
@pytest.mark.parametrize("kind", TRANSFORMATIONS)
def test_a_rule_that_takes_the_place_of_another(kind, within):
    primitive, register = scaled(f"scaled_{kind}_{within.__name__}")
    f = within(primitive)
    ours, jaxs = TRANSFORMATIONS[kind]
    for factor in (3, 5, 3):
        register(kind, factor)
        expected = jaxs(f)
        assert ours(f).tolist() == expected.tolist()
        assert expected.max() in (factor, 2 * factor)


def test_a_rule_that_takes_the_place_of_another_in_what_was_derived():
    """The derivative of a program, and that of a function that several programs call."""
    primitive, register = scaled("scaled_derived")
    plain = lambda x: primitive.bind(x).sum()  # noqa: E731
    called = jax.jit(plain)
    program = jaxmlir.trace(plain)(XS)
    for factor in (3, 5):
        register("jvp", factor)
        assert program.jvp()((XS,), (XS,)) == jax.jvp(plain, (XS,), (XS,))
        for _ in range(3):
            again = jaxmlir.trace(lambda x: called(x) + called(x + 1))(XS)
            expected = jax.jvp(lambda x: plain(x) + plain(x + 1), (XS,), (XS,))
            assert again.jvp()((XS,), (XS,)) == expected


def test_what_jax_derives_in_another_configuration():
    primitive, _ = scaled("scaled_product")
    ad.defjvp(primitive, lambda t, x: jnp.ones((3, 3)) @ t)
    program = jaxmlir.trace(lambda x: primitive.bind(x))(XS)
    for precision in ("float32", "bfloat16", "float32"):
        with jax.default_matmul_precision(precision):
            jitted = jax.jit(lambda x, t: jax.jvp(program, (x,), (t,)))
            text = jitted.lower(XS, XS).as_text()
        assert ("HIGHEST" in text) == (precision == "float32")


def test_what_rules_gave_stays_where_others_are_registered_of_new_primitives():
    before = setting()
    scaled("scaled_elsewhere")
    assert setting() is before
