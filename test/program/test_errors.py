"""Every error is one paragraph: the op, its location, what was expected and what was found.

Errors about text also have lit tests (`lit_tests/invalid`).  Those here need Python: the user's own
line, side tables, calls of a program.
"""

import collections
import dataclasses
import enum
import inspect
import io
import pickle
import re
from pathlib import Path

import jax
import jax.extend
import jax.interpreters.mlir
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis.cost import costs
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import (
    ArgumentError,
    ArtifactError,
    EvaluationError,
    ExportError,
    JaxmlirError,
    LoweringError,
    ParseError,
    PipelineError,
    TransformError,
    UntracedRuleError,
    VerificationError,
)
from jaxmlir.interpret import Hook, Interpreter
from jaxmlir.passes import Instrumentation

TEXT = """\
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func public @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "jaxpr.jit"(%x) {jaxpr = @double} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "jaxpr.cumsum"(%0) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def message(error, call):
    """The text of the error that a call raises."""
    with pytest.raises(error) as e:
        call()
    return str(e.value)


def test_the_text_is_valid_as_it_is():
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(jaxmlir.parse(TEXT)(x), np.cumsum(2 * x))


@pytest.mark.parametrize(
    ("old", "new", "error", "expected"),
    [
        pytest.param(
            '"jaxpr.add"(',
            '"jaxpr.add"((',
            ParseError,
            "f.mlir:2:20: error: expected ')' to end operand list",
            id="malformed text",
        ),
        pytest.param(
            "(%x, %x) : (tensor<4xf32>, tensor<4xf32>)",
            "(%x) : (tensor<4xf32>)",
            VerificationError,
            "f.mlir:2:8: error: 'jaxpr.add' op: expected 2 operands, got 1",
            id="operand count",
        ),
        pytest.param(
            "{axis = 0 : i64}",
            "{axis = 1 : i64}",
            VerificationError,
            "f.mlir:7:8: error: 'jaxpr.cumsum' op attribute 'axis': expected a dimension of "
            "tensor<4xf32>, counted from 0, got 1 : i64",
            id="attribute value",
        ),
        pytest.param(
            " {axis = 0 : i64}",
            "",
            VerificationError,
            "f.mlir:7:8: error: 'jaxpr.cumsum' op requires attribute 'axis': expected dimension, "
            "got attributes none; such as 0 : i64",
            id="missing attribute",
        ),
        pytest.param(
            "{axis = 0 : i64}",
            "{axis = 0 : i64, reversed = true}",
            VerificationError,
            "f.mlir:7:8: error: 'jaxpr.cumsum' op: expected one of 'axis', 'reverse', got "
            "attribute 'reversed'; did you mean 'reverse'?",
            id="unknown attribute",
        ),
        pytest.param(
            "{jaxpr = @double}",
            "{jaxpr = @dubble}",
            VerificationError,
            "f.mlir:6:8: error: 'jaxpr.jit' op attribute 'jaxpr': expected the symbol of a "
            "func.func of this module, got @dubble; did you mean @double?",
            id="unknown symbol",
        ),
        pytest.param(
            '"jaxpr.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>)',
            '"jaxpr.jit"(%x) {jaxpr = @double} : (tensor<4xf32>)',
            VerificationError,
            "f.mlir:2:8: error: 'jaxpr.jit' op: expected a function that does not reach itself, "
            "got @double, which does: @double -> @double; only a custom derivative rule may name "
            "the function it belongs to",
            id="recursive call",
        ),
        pytest.param(
            '"jaxpr.add"(%x, %x)',
            '"jaxpr.ad"(%x, %x)',
            VerificationError,
            "f.mlir:2:8: error: 'jaxpr.ad' op: the installed JAX has no primitive \"ad\", and no "
            "imported module registers one; did you mean 'pad'? (if it is your own, import its "
            "module: --load)",
            id="unknown primitive",
        ),
    ],
)
def test_text(old, new, error, expected):
    assert TEXT.count(old) == 1
    text = TEXT.replace(old, new)
    assert message(error, lambda: jaxmlir.parse(text, filename="f.mlir")) == expected


def test_wrong_type():
    text = """\
func.func @f(%x: tensor<4xf32>) -> tensor<3xf32> {
  %0 = "jaxpr.sin"(%x) : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
    assert message(VerificationError, lambda: jaxmlir.parse(text)) == (
        "-:2:8: error: 'jaxpr.sin' op result #0: expected tensor<4xf32> (by JAX's abstract "
        "evaluation of sin), got tensor<3xf32>"
    )


def test_a_traced_program_is_located_in_the_users_python():
    def f(x):
        return jnp.sin(x)

    line = inspect.getsourcelines(f)[1] + 1
    program = jaxmlir.trace(f)(1.0)
    with context():
        (op,) = [o for o in program.functions["f"].entry_block.operations if type(o) is ir.OpView]
        op.attributes["acuracy"] = ir.UnitAttr.get()
    program.changed()
    assert re.fullmatch(
        rf"{re.escape(__file__)}:{line}:\d+: error: 'jaxpr.sin' op: expected one of 'accuracy', "
        "got attribute 'acuracy'; did you mean 'accuracy'[?]",
        message(VerificationError, program.verify),
    )


# --- side tables ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_table():
    table = jnp.asarray(np.random.RandomState(0).normal(size=5000).astype("float32"))
    return jaxmlir.trace(lambda x: x + table)(jnp.ones(5000))


MISSING = (
    'constant "c0" has no value: as_text() gives only the names of arrays over 4 KiB; pass '
    "constants={...} to parse, or save the program as an artifact (--emit-artifact)"
)


def test_a_rule_that_fails_at_lowering():
    """The derivative of a maximum over windows compares numbers; complex ones have no order."""

    def f(x):
        low = np.array(complex(-np.inf), np.complex64)
        return lax.reduce_window(x, low, lax.max, (2, 2), (1, 1), "VALID")

    line = f.__code__.co_firstlineno + 2
    x = jnp.ones((3, 3), np.complex64)
    with pytest.raises(TypeError, match="ge does not accept dtype complex64") as jax_says:
        jax.jvp(f, (x,), (x,))
    assert re.fullmatch(
        rf"{re.escape(__file__)}:{line}:\d+: error: 'jaxpr.select_and_gather_add' op cannot be "
        f"lowered: TypeError: {re.escape(str(jax_says.value))}",
        message(LoweringError, jaxmlir.trace(f)(x).jvp().lower),
    )


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        pytest.param(
            f'callsite("{jax.numpy.__file__}":7:1 at "a.py":3:2)', "a.py:3:2", id="called"
        ),
        pytest.param(f'"{jax.numpy.__file__}":7:1', f"{jax.numpy.__file__}:7:1", id="no other"),
    ],
)
def test_the_users_line_is_named_where_jax_has_written_the_op(frames, expected):
    text = """func.func public @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "jaxpr.add"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(LOCATION)
      return %0 : tensor<4xf32>
    }""".replace("LOCATION", frames)
    got = message(VerificationError, lambda: jaxmlir.parse(text))
    assert got == f"{expected}: error: 'jaxpr.add' op: expected 2 operands, got 1"


def test_missing_constant(with_table):
    program = jaxmlir.parse(with_table.as_text())
    lowering = message(LoweringError, lambda: program(jnp.ones(5000)))
    export = message(ExportError, program.to_jaxpr)
    place = r"-:\d+:\d+: error: 'jaxpr.constant' op"
    assert re.fullmatch(f"{place} cannot be lowered: {re.escape(MISSING)}", lowering)
    assert re.fullmatch(f"{place}: {re.escape(MISSING)}", export)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.ones(4, np.float32), "result #0: expected tensor<4xf32>, the type of its value, got"),
        (np.ones(5000, "i4"), "result #0: expected tensor<5000xi32>, the type of its value, got"),
    ],
    ids=["shape", "dtype"],
)
def test_a_constant_of_another_type(with_table, value, expected):
    def parse():
        jaxmlir.parse(with_table.as_text(), constants={"c0": value}, filename="t.mlir")

    assert re.fullmatch(
        rf"t.mlir:\d+:\d+: error: 'jaxpr.constant' op {re.escape(expected)} tensor<5000xf32>",
        message(VerificationError, parse),
    )


def test_lost_handle():
    result = jax.ShapeDtypeStruct((), jnp.float32)
    program = jaxmlir.trace(lambda x: jax.pure_callback(np.sin, result, x))(jnp.float32(1))
    text, n = re.subn(r'handle = "h\d+"', 'handle = "h987654321"', program.as_text())
    assert n == 1
    assert re.fullmatch(
        r"-:\d+:\d+: error: 'jaxpr.pure_callback' op: handle \"h987654321\" stands for a Python "
        "object of another process, or of a program that no longer exists: a program with Python "
        "callbacks can only be used where it was traced",
        message(VerificationError, lambda: jaxmlir.parse(text)),
    )


# --- calls ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loss():
    def loss(w, *, scale):
        return (w["a"] * scale).sum()

    return jaxmlir.trace(loss)({"a": jnp.ones((2, 3))}, scale=jnp.float32(2))


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        pytest.param(
            ({"a": np.ones((2, 4), np.float32)},),
            {"scale": 2.0},
            "@loss: argument w['a'] must be f32[2,3], got f32[2,4]",
            id="shape",
        ),
        pytest.param(
            ({"a": np.ones((2, 3), np.int32)},),
            {"scale": 2.0},
            "@loss: argument w['a'] must be f32[2,3], got i32[2,3]",
            id="dtype",
        ),
        pytest.param(
            ({"a": ONES},),
            {"scale": 2j},
            "@loss: argument scale must be f32[], got c64[]",
            id="python scalar",
        ),
        pytest.param(
            ({"b": ONES},),
            {"scale": 2.0},
            "@loss takes arguments of the pytree ({'a': *}, scale=*), got ({'b': *}, scale=*)",
            id="key",
        ),
        pytest.param(
            ([ONES],),
            {"scale": 2.0},
            "@loss takes arguments of the pytree ({'a': *}, scale=*), got ([*], scale=*)",
            id="container",
        ),
        pytest.param(
            ({"a": ONES}, 2.0),
            {},
            "@loss takes arguments of the pytree ({'a': *}, scale=*), got ({'a': *}, *)",
            id="positional",
        ),
        pytest.param(
            ({"a": ONES},),
            {},
            "@loss takes arguments of the pytree ({'a': *}, scale=*), got ({'a': *})",
            id="missing",
        ),
        pytest.param(
            ({"a": ONES},),
            {"scales": 2.0},
            "@loss takes arguments of the pytree ({'a': *}, scale=*), got ({'a': *}, scales=*); "
            "it has no keyword argument scales; did you mean scale?",
            id="keyword",
        ),
    ],
)
@pytest.mark.parametrize("outer", [lambda program: program, jax.jit], ids=["call", "jit"])
def test_arguments(loss, args, kwargs, expected, outer):
    assert message(ArgumentError, lambda: outer(loss)(*args, **kwargs)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda params: params["layer7"].pop("b"),
            "@model: argument params['layer7'] must be a dict with the keys 'b', 'w', got a dict "
            "with the keys 'w'",
        ),
        (
            lambda params: params.update(layer3=[1.0, 2.0]),
            "@model: argument params['layer3'] must be a dict with the keys 'b', 'w', got a list "
            "of 2 elements",
        ),
    ],
    ids=["missing", "another container"],
)
def test_of_a_large_pytree_the_paths_that_differ_are_named(change, expected):
    def model(params, x):
        return sum(x * p["w"] + p["b"] for p in params.values())

    params = {f"layer{i}": {"w": ONES, "b": ONES} for i in range(10)}
    program = jaxmlir.trace(model)(params, ONES)
    change(params)
    assert message(ArgumentError, lambda: program(params, ONES)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: jaxmlir.trace(jnp.sum, ONES), r"jaxmlir.trace\(sum\)\(...\)"),
        (lambda: jaxmlir.parse("model.mlir"), r"got the path 'model.mlir'; .*jaxmlir.load"),
        (lambda: jaxmlir.parse(jax.jit(jnp.sin).lower(1.0)), "from_stablehlo takes its as_text"),
        (lambda: jaxmlir.parse(b"module {}"), "got bytes; pass its decode()"),
        (lambda: jaxmlir.from_exported("module {}"), "or the bytes of one, got str"),
        (lambda: jaxmlir.from_stablehlo("module {}", remarks=3), "expected print .*, got 3"),
        (lambda: Instrumentation(remarks=3), "remarks: expected print .*, got 3"),
        (lambda: jaxmlir.load(3), "expected a path, bytes or a binary stream .*, got int"),
        (lambda: jaxmlir.load(io.StringIO("")), "opened as text; .* mode 'rb'"),
        (lambda: jaxmlir.trace(jnp.sum)(ONES).save(3), "expected a path or a binary stream"),
        (lambda: jaxmlir.trace(jnp.sum)(ONES).remat("1 Gb"), "such as '1.5 GiB', got '1 Gb'"),
        (
            lambda: jaxmlir.trace(jnp.sum)(ONES).remat(0.5, measure="yes"),
            "True or False, got 'yes'",
        ),
    ],
)
def test_misuse_says_what_to_do(call, expected):
    with pytest.raises(ArgumentError, match=expected):
        call()


def test_an_argument_that_jax_makes_narrower():
    with jax.enable_x64(True):
        program = jaxmlir.trace(jnp.sum)(np.ones(3))
    error = message(ArgumentError, lambda: program(np.ones(3)))
    assert "a must be f64[3], got f32[3]; jax_enable_x64 is off" in error


def test_argument_errors_are_type_errors(loss):
    with pytest.raises(TypeError):
        loss()


def test_errors_are_copied_with_their_diagnostics():
    with pytest.raises(VerificationError) as e:
        jaxmlir.parse(TEXT.replace("(%x, %x) : (tensor<4xf32>, ", "(%x) : ("), filename="f.mlir")
    for error in (e.value, UntracedRuleError("jvp_jaxpr", "a reason")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "func.func @f(%x: f32) -> f32 {\n  return %x : f32\n}",
            "-:1:1: error: 'func.func' op @f: f32 is not a type of the jaxpr dialect; "
            "the type of an array is one like tensor<f32>",
        ),
        (
            "func.func @f(%x: tensor<f32>) -> tensor<f32> {\n"
            "  %0 = stablehlo.sine %x : tensor<f32>\n  return %0 : tensor<f32>\n}",
            "-:2:8: error: 'stablehlo.sine' op cannot be evaluated: expected an op of the jaxpr "
            "dialect; jaxmlir.from_stablehlo or jaxmlir-translate --stablehlo-to-jaxpr raises it",
        ),
    ],
)
def test_what_is_not_of_the_dialect(text, expected):
    program = jaxmlir.parse(text)
    assert message(JaxmlirError, lambda: program.eval(1.0)) == expected


def test_a_module_without_a_public_function():
    program = jaxmlir.parse("func.func private @f() {return}")
    assert message(JaxmlirError, program) == "the module has no public function to call"


# --- options of another kind ----------------------------------------------------------------------


def _stack(x):
    return jnp.stack([x, x])


_Device = enum.Enum("Device", "NEAR FAR")


class _Forgets(Hook):
    def after(self, step):
        step.results.clear()


@pytest.fixture(scope="module")
def stack():
    return jaxmlir.trace(_stack)(jnp.ones(3))


@pytest.mark.parametrize(
    ("use", "error", "expected"),
    [
        (lambda p: p.jacfwd(argnums=4), ArgumentError, "argnums=4: the program takes 1 positional"),
        (lambda p: p.jacrev(argnums=(0, -1)), ArgumentError, "names a positional argument twice"),
        (lambda p: p.grad(()), ArgumentError, r"argnums=\(\): expected at least one argument"),
        (lambda p: p.value_and_grad([0, 0]), ArgumentError, r"argnums=\[0, 0\] names .* twice"),
        (lambda p: p.hessian(argnums="x"), ArgumentError, "argnums='x': expected an int"),
        (lambda p: p.grad(True), ArgumentError, "argnums=True: expected an int"),
        (lambda p: p.grad(np.array([False])), ArgumentError, "expected an int, or a sequence"),
        (lambda p: p.inverse((0, True)), ArgumentError, r"argnums=\(0, True\): expected an int"),
        (lambda p: p.inverse(known=[1]), ArgumentError, r"known=\[1\]: the program takes 1 "),
        (
            lambda p: jaxmlir.trace(lambda n: 2 * n)(1).jacrev(),
            TransformError,
            "jacrev of @lambda: .*int32",
        ),
        (lambda p: p.vmap(in_axes=0.5), ArgumentError, "in_axes: the axis of leaf 0 .* got 0.5"),
        (lambda p: p.vmap(in_axes=True), ArgumentError, "in_axes: the axis of leaf 0 .* got True"),
        (
            lambda p: p.vmap(out_axes=np.array([0, 1])),
            ArgumentError,
            r"out_axes: the axis of leaf 0 must be an int or None, got array\(\[0, 1\]\)",
        ),
        (lambda p: p.optimize(1, without=3), PipelineError, "expected a collection .*, got 3"),
        (lambda p: p.vmap(axis_size=-1), ArgumentError, "axis_size: .* got -1"),
        (lambda p: p.vmap(axis_size=True), ArgumentError, "axis_size: .* got True"),
        (lambda p: p.vmap(axis_size="a"), ArgumentError, "axis_size: .* got 'a'"),
        (
            lambda p: p.vmap()(jnp.float32(1)),
            ArgumentError,
            r"expected an axis 0 of args\[0\] to batch along, got f32\[\]",
        ),
        (lambda p: p.vmap()(1, 2), ArgumentError, r"takes arguments of the pytree \(\*\), got"),
        (lambda p: p.run_passes(["cse"]), PipelineError, r"pipeline as text.* got \['cse'\]"),
        (lambda p: p.run_passes("jaxpr-ces"), PipelineError, "did you mean 'jaxpr-cse'"),
        (lambda p: p.optimize(without="cse"), PipelineError, "collection of names.* got 'cse'"),
        (lambda p: p.function("stakc"), JaxmlirError, "no function @stakc; did you mean @stack"),
        (lambda p: p.lower("cpu"), ArgumentError, "platforms: .* sequence of names, got 'cpu'"),
        (lambda p: p.lower(3), ArgumentError, "platforms: .* sequence of names, got 3"),
        (
            lambda p: p.remat("lots"),
            ArgumentError,
            "memory_budget: .* bytes, .* got 'lots'",
        ),
        # Less than two bytes would be taken for a fraction; more than all memory is a mistake.
        (lambda p: p.remat("1 B"), ArgumentError, "at least 2 bytes, .* got '1 B'"),
        (lambda p: p.remat(1.5), ArgumentError, "above 0 and up to 1, .* got 1.5"),
        (lambda p: p.remat(0), ArgumentError, "above 0 and up to 1, .* got 0"),
        (lambda p: jaxmlir.jit(jnp.sin, memory_budget=0), ArgumentError, "memory_budget: .* got 0"),
        (lambda p: p.inverse(newton="yes"), ArgumentError, "newton: .*True or False, got 'yes'"),
        (lambda p: p.grad(has_aux="no"), ArgumentError, "has_aux: .*True or False, got 'no'"),
        (lambda p: p.optimize(True), PipelineError, "no optimization level True; .* are 0, 1, 2"),
        (lambda p: p.optimize(2.0), PipelineError, "no optimization level 2.0; .* are 0, 1, 2"),
        (lambda p: p.optimize([2]), PipelineError, r"no optimization level \[2\]; .* are 0, 1, 2"),
        (lambda p: p.optimize(without="cse"), PipelineError, r"; write \['cse'\]"),
        (lambda p: p.optimize(without=["licm"]), PipelineError, "did you mean 'jaxpr-licm'"),
        (lambda p: jaxmlir.jit(jnp.sin, without=["jaxpr-licm"]), ArgumentError, "give optimize=2"),
        (lambda p: jaxmlir.jit(jnp.sin, remarks=True), ArgumentError, "remarks: .* got True"),
        (lambda p: p.optimize(2, remarks=True), ArgumentError, "remarks: .* got True"),
        (lambda p: p.tune(jnp.ones(3), remarks=3), ArgumentError, "remarks: .* got 3"),
        (lambda p: p(x=jnp.ones(3)), ArgumentError, "got .*; pass arguments by position .*: x"),
        (
            lambda p: jaxmlir.trace(lambda *, x: x)(x=1.0).inverse(),
            ArgumentError,
            "takes keyword arguments; trace a function of positional ones that calls it",
        ),
        (lambda p: p(jnp.ones(3), scal=1), ArgumentError, "no keyword argument scal; static"),
        (lambda p: p.vmap((0, 0), axis_size=2), ArgumentError, "(?s)not a prefix of .* length"),
        (
            lambda p: jaxmlir.trace(lambda x, d: d["a"])({"b": 1.0}, {"a": 1.0}).vmap(
                (None, {"c": 0}), axis_size=2
            ),
            ArgumentError,
            r"(?s)prefix of the pytree \({'b': \*}, {'a': \*}\): .* key path\n    in_axes\[1\]\n",
        ),
        (lambda p: jaxmlir.load(b"module {\n}\n"), ArtifactError, "<bytes>: expected an artifact"),
        (lambda p: jaxmlir.parse(b"module {}"), ArgumentError, r"bytes; pass its decode\(\)"),
        (lambda p: jaxmlir.parse(Path("f.mlir")), ArgumentError, r"Path; pass its read_text\(\)"),
        (lambda p: p.run_passes("-O2"), PipelineError, r"; program.optimize\(2\) runs"),
        (lambda p: p.run_passes("O2"), PipelineError, r"; program.optimize\(2\) runs"),
        (lambda p: p.run_passes("--jaxpr-dce"), PipelineError, "leading dashes: 'jaxpr-dce'"),
        (lambda p: p.eval(jnp.ones(3), hooks=[3]), ArgumentError, r"list of Hooks, got \[3\]"),
        (
            lambda p: p.specialize(jnp.ones(2)),
            ArgumentError,
            r"argument x must be f32\[3\], got the shape \[2\]",
        ),
        (lambda p: jaxmlir.parse(b"module {}"), ArgumentError, "text of a module, got bytes"),
        (lambda p: jaxmlir.parse("", constants=[1]), ArgumentError, "arrays by name, got list"),
        (lambda p: jaxmlir.from_jaxpr(3), ArgumentError, "expected a ClosedJaxpr.* got 3"),
        (lambda p: jaxmlir.register_node_type(3), ArgumentError, "expected a class, got 3"),
        (lambda p: jaxmlir.register_param_type(int), ArgumentError, "dataclass, got <class 'int'"),
        (lambda p: jaxmlir.from_jaxpr(p.to_jaxpr(), 3), ArgumentError, "name: .* string, got 3"),
        (lambda p: jaxmlir.register_node_type(set, 3), ArgumentError, "name: .* string, got 3"),
        (lambda p: jaxmlir.register_inverse("sin", abs), ArgumentError, "Primitive, got 'sin'"),
        (
            lambda p: jaxmlir.register_inverse(jax.lax.sin_p, 3),
            ArgumentError,
            "solve: expected a function, got 3",
        ),
        (
            lambda p: jaxmlir.register_inverse(jax.lax.sin_p, abs, "slope"),
            ArgumentError,
            "log_det: expected a function, got 'slope'",
        ),
        (
            lambda p: jaxmlir.register_inverse(jax.lax.sin_p, abs, operand=-1),
            ArgumentError,
            "operand: expected the number of an operand, got -1",
        ),
        (lambda p: jaxmlir.custom_inverse(3), ArgumentError, "expected a function, got 3"),
        (
            lambda p: jaxmlir.custom_inverse(abs).definverse(3),
            ArgumentError,
            "inverse: expected a function, got 3",
        ),
        (
            lambda p: jaxmlir.load("no file", allow_custom_calls="f"),
            ArgumentError,
            "allow_custom_calls: expected a collection of names, or None, got 'f'",
        ),
        (lambda p: p.function(3), JaxmlirError, "no function @3"),
        (lambda p: p.optimize("2"), PipelineError, "no optimization level '2'; the levels are 0"),
        (lambda p: p.vmap().grad, ArgumentError, "has no grad before its size is known"),
        (lambda p: jaxmlir.debug.breakpoint_at(3), ArgumentError, "name of an op, got 3"),
        (lambda p: jaxmlir.debug.breakpoint_at(line="x"), ArgumentError, "line: .* got 'x'"),
        (lambda p: jaxmlir.debug.breakpoint_at(line=0), ArgumentError, "line: .* got 0"),
        (lambda p: jaxmlir.debug.breakpoint_at(""), ArgumentError, "name of an op, got ''"),
        (
            lambda p: jaxmlir.debug.find_nan(_stack, 1.0),
            ArgumentError,
            r"expected a Program, as jaxmlir.trace\(f\).*got <function _stack",
        ),
        (lambda p: jaxmlir.debug.diff(p, 3), ArgumentError, "expected a Program, .*got 3"),
        (
            lambda p: jax.jit(lambda x: jaxmlir.debug.find_nan(p, x))(jnp.ones(3)),
            ArgumentError,
            r"expected arrays of known values, got .*Tracer.*outside of jax.jit",
        ),
        (lambda p: costs(_stack), ArgumentError, "expected a Program, .*<function _stack"),
        (lambda p: Interpreter(_stack), ArgumentError, "expected a Program, .*<function _stack"),
        (lambda p: Interpreter(p).run("stack", []), ArgumentError, "takes 1 argument, got 0"),
        (
            lambda p: p.eval(jnp.ones(3), hooks=[_Forgets()]),
            EvaluationError,
            r"test_errors.py:\d+:\d+: error: 'jaxpr.*' op .* evaluated: expected 1 result, got 0",
        ),
        (
            lambda p: jaxmlir.debug.diff(p, p, rtol="a"),
            ArgumentError,
            "rtol: .* of at least 0, got 'a'",
        ),
        (lambda p: jaxmlir.debug.diff(p, p, atol=None), ArgumentError, "atol: .* 0, got None"),
        (
            lambda p: jaxmlir.debug.diff(p, p, devices=("cpu", None)),
            ArgumentError,
            "devices: expected a device or None each, got 'cpu'",
        ),
        (
            lambda p: jaxmlir.parse('module attributes {jaxpr.version = "9.0"} {}'),
            VerificationError,
            "-:1:1: error: 'builtin.module' op attribute 'jaxpr.version': it has version 9.0",
        ),
        (
            lambda p: p.eval("a"),
            ArgumentError,
            r"argument x must be f32\[3\], got 'a', which is no",
        ),
        (lambda p: p.lower(["cpu", "cpu"]), ArgumentError, "platforms: 'cpu' is given twice"),
        (lambda p: p.lower(["gpu"]), ArgumentError, "'gpu' stands for one of several platforms"),
        (
            lambda p: jax.export.export(jaxmlir.jit(_stack))(jnp.ones(3)),
            ArgumentError,
            r"takes platforms .* got lowering_platforms.*jax.export takes jax.jit\(program\)",
        ),
        (lambda p: p.vmap(axis_name=[]), ArgumentError, r"axis_name: .* an axis, got \[\]"),
        (lambda p: p.optimize(remarks=3), ArgumentError, "remarks: .* Diagnostic, got 3"),
        (lambda p: p(jax.new_ref(jnp.ones(3))), ArgumentError, r"x must be f32\[3\], got Ref"),
        (
            lambda p: p.memory_curve(jnp.ones(3), budgets=np.float32(0.5)),
            ArgumentError,
            "budgets: expected a sequence",
        ),
        (lambda p: p.sparse_jacobian(pattern=3), ArgumentError, "pattern: .* got 3"),
        (
            lambda p: jaxmlir.register_param_type(_Device),
            ArgumentError,
            "of its own named 'Device'",
        ),
        (
            lambda p: jaxmlir.register_param_type(_Device, ""),
            ArgumentError,
            "tag: .* a name, got ''",
        ),
        (
            lambda p: p.remat(float("nan")),
            ArgumentError,
            "memory_budget: .* bytes, .* got nan",
        ),
        (
            lambda p: p.remat(True),
            ArgumentError,
            "memory_budget: .* bytes, .* got True",
        ),
        (
            lambda p: p.grad(),
            TransformError,
            r"test_errors.py:\d+:1: error: the gradient of @stack: expected a scalar result, "
            r"got float32\[\d.*\]; jacrev",
        ),
        (
            lambda p: p.vmap(out_axes=None, axis_size=2),
            TransformError,
            r"test_errors.py:\d+:1: error: result 0 of @stack is batched",
        ),
        (
            lambda p: p.inverse_and_log_det(),
            TransformError,
            r"test_errors.py:\d+:1: error: @stack has no log-determinant",
        ),
        (lambda p: jaxmlir.debug.breakpoint_at(when=3), ArgumentError, "when: .* got 3"),
        (lambda p: jaxmlir.debug.diff(p, p), ArgumentError, r"pytree \(\*\), got \(\)"),
        (
            lambda p: jaxmlir.debug.diff(p, p, jnp.ones(3), devices=3),
            ArgumentError,
            "devices: expected a pair, one for each evaluation, got 3",
        ),
        (
            lambda p: jaxmlir.debug.diff(p, p, jnp.ones(3), dtypes=(None, "i32")),
            ArgumentError,
            "dtypes: expected a floating-point type, got 'i32'",
        ),
    ],
)
def test_options(stack, use, error, expected):
    with pytest.raises(error, match=expected):
        use(stack)


@pytest.mark.parametrize("one", [np.int64(1), np.array(1), jnp.array(1)])
def test_an_option_may_be_any_integer(one):
    program = jaxmlir.trace(lambda x, y: jnp.sum(x * y))(jnp.ones(3), jnp.ones(3))
    x, y = jnp.arange(3.0), jnp.arange(3.0, 6.0)
    assert jnp.array_equal(program.grad(one)(x, y), x)
    batch = jnp.stack([x, y], 1), jnp.stack([y, x], 1)
    want = jax.vmap(lambda x, y: jnp.sum(x * y), 1)(*batch)
    assert jnp.array_equal(program.vmap(one, axis_size=one * 2)(*batch), want)
    assert jnp.array_equal(program.vmap((one, one))(*batch), want)
    loop = jaxmlir.trace(lambda x: jax.lax.while_loop(lambda x: x < 9, lambda x: 2 * x, x))(1.0)
    assert loop.grad(while_loops="checkpointed", checkpoints=one)(1.0) == 16


def test_files(stack, tmp_path):
    """An error names the file that the user gave."""
    with pytest.raises(FileNotFoundError, match=r"directory: '.*nowhere/p.jaxmlir'$"):
        stack.save(tmp_path / "nowhere" / "p.jaxmlir")
    (tmp_path / "p.mlir").write_text(str(stack))
    with pytest.raises(ArtifactError, match=r"p.mlir: expected an artifact.*jaxmlir.parse"):
        jaxmlir.load(tmp_path / "p.mlir")


# --- attributes of a user's own classes -----------------------------------------------------------


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


@dataclasses.dataclass(frozen=True)
class Config:
    steps: int = 1


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ('{Mode = "SLOW"}', '{Mode = "SLOW"} cannot be read: expected one of "FAST", "EXACT"'),
        ("{Mode = 3}", "{Mode = 3 : i64} cannot be read: ValueError"),
        ("{Config = {stops = 2}}", "cannot be read: TypeError: .*argument 'stops'"),
    ],
)
def test_parameters_that_cannot_be_read(attribute, expected):
    jaxmlir.register_param_type(Mode)
    jaxmlir.register_param_type(Config)
    text = TEXT.replace("cumsum", "configured").replace("axis = 0 : i64", f"reverse = {attribute}")
    primitive = jax.extend.core.Primitive("configured")
    primitive.def_abstract_eval(lambda x, reverse: x)
    jax.interpreters.mlir.register_lowering(primitive, lambda ctx, x, reverse: [x])
    with pytest.raises(
        VerificationError, match=f"-:7:8: error: 'jaxpr.configured' op: .*{expected}"
    ):
        jaxmlir.parse(text)


def test_a_class_that_is_defined_again():
    """Running a notebook's cell twice defines its class again."""
    with context():
        attr = ir.Attribute.parse('{Again = "A"}')
    for _ in range(2):
        again = enum.Enum("Again", "A B")
        jaxmlir.register_param_type(again)
        assert codec.decode(attr) is again.A


def test_pytrees_of_a_class_that_is_defined_again():
    for _ in range(2):
        Point = collections.namedtuple("Point", "x")
        program = jaxmlir.trace(lambda p: Point(2 * p.x))(Point(1.0))  # noqa: B023
        assert type(program(Point(1.0))) is Point


def test_flags_that_are_no_member():
    class Flags(enum.Flag):
        ONE = 1
        TWO = 2

    jaxmlir.register_param_type(Flags)
    for flags in (Flags.ONE, Flags.ONE | Flags.TWO, Flags(0)):
        with context():
            attr = ir.Attribute.parse(str(codec.encode(flags)))
        assert codec.decode(attr) is flags


def test_a_field_is_a_default_only_if_its_type_is():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Fields:
        array: object = None
        flag: object = False

    jaxmlir.register_param_type(Fields)
    again = codec.decode(codec.encode(Fields(np.arange(3), 0)))
    assert again.array.tolist() == [0, 1, 2] and again.flag == 0 and again.flag is not False
