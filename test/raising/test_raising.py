"""StableHLO raised to the dialect: values, derivatives and batches, against JAX's."""

import dataclasses
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import jaxmlir
from jaxmlir.dialect import bytecode
from jaxmlir.errors import ArgumentError, DiagnosticError, ImportingError, ParseError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import fuzz

pytestmark = pytest.mark.compat


def lowered(f, *args):
    return jax.jit(f).lower(*args).compiler_ir()


def close(got, want, rtol=2e-5):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-6)


def same(got, want):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def program_of(body, arguments, results):
    return jaxmlir.from_stablehlo(
        f"func.func public @main({arguments}) -> {results} {{\n{body}\n}}"
    )


# --- where it comes from --------------------------------------------------------------------------

X = np.linspace(-0.9, 0.8, 12, dtype=np.float32).reshape(3, 4)


def loss(x):
    return jnp.sum(jnp.tanh(x @ x.T) ** 2) + jnp.max(x) + jax.nn.logsumexp(x)


def test_text_bytecode_and_modules_are_one_program():
    module = lowered(loss, X)
    texts = [jaxmlir.from_stablehlo(module), jaxmlir.from_stablehlo(str(module))]
    exported = export.export(jax.jit(loss))(X)
    texts.append(jaxmlir.from_stablehlo(bytes(exported.mlir_module_serialized)))
    for program in texts:
        same(program(X), jax.jit(loss)(X))
        close(program.grad()(X), jax.grad(loss)(X))


def test_exported_functions_keep_pytrees_names_and_unused_arguments():
    def f(x, unused, p):
        return {"sum": x.sum() + p["b"], "x": [jnp.sin(x)]}

    exported = export.export(jax.jit(f))(X, 2, {"b": 1.0})
    program = jaxmlir.from_exported(exported)
    assert program.name == "f"
    assert program.arg_names == ("x", "", "p['b']") or "p['b']" in str(program.arg_names)
    close(program(X, 2, {"b": 1.0}), f(X, 2, {"b": 1.0}))
    derivative = program.jvp()((X, 2, {"b": 1.0}), (X, np.zeros((), jax.dtypes.float0), {"b": 2.0}))
    close(derivative[1]["sum"], X.sum() + 2.0)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_exported_functions_take_and_return_random_keys(impl):
    """StableHLO has only the words of the keys."""

    def f(keys, scale):
        return jax.random.split(keys[1], 3), scale * jax.random.normal(keys[0], (2,)), keys[1]

    keys = jax.random.split(jax.random.key(1, impl=impl), 2)
    program = jaxmlir.from_exported(export.export(jax.jit(f))(keys, 2.0))
    want, got = f(keys, 2.0), program(keys, 2.0)
    assert [x.dtype for x in jax.tree.leaves(got)] == [x.dtype for x in jax.tree.leaves(want)]
    same(*(jax.tree.map(jax.random.key_data, (x[0], x[2])) for x in (got, want)))
    close(got[1], want[1])
    close(jax.grad(lambda s: program(keys, s)[1].sum())(2.0), want[1].sum() / 2)
    (n,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(lambda k: k[::-1]))(jax.ShapeDtypeStruct((n,), keys.dtype))
    back = jaxmlir.from_exported(exported, keys)(keys)
    same(jax.random.key_data(back), jax.random.key_data(keys[::-1]))


def test_exported_functions_have_all_derivatives_and_batches():
    """The function was exported without derivatives."""
    exported = export.export(jax.jit(loss))(X)
    program = jaxmlir.from_exported(exported)
    with pytest.raises(NotImplementedError):
        jax.vmap(exported.call)(X[None])
    close(program.grad()(X), jax.grad(loss)(X))
    v = np.ones_like(X)
    hessian = program.grad().jvp()((X,), (v,))[1]
    close(hessian, jax.jvp(jax.grad(loss), (X,), (v,))[1], 1e-3)
    batch = np.stack([X, 2 * X])
    close(program.vmap()(batch), jax.vmap(loss)(batch))


def test_a_function_that_was_exported_for_several_platforms_is_that_of_this_one():
    exported = export.export(jax.jit(lambda x: x @ x.T), platforms=["tpu", jax.default_backend()])(
        X
    )
    same(jaxmlir.from_exported(exported)(X), jax.jit(lambda x: x @ x.T)(X))
    elsewhere = export.export(jax.jit(jnp.sin), platforms=["tpu", "rocm"])(X)
    with pytest.raises(ImportingError, match="was exported for tpu, rocm, not for cpu"):
        jaxmlir.from_exported(elsewhere)


def test_serialized_functions():
    pytest.importorskip("flatbuffers")
    data = export.export(jax.jit(loss))(X).serialize()
    same(jaxmlir.from_exported(data)(X), jax.jit(loss)(X))
    with pytest.raises(ParseError):
        jaxmlir.from_exported(bytes(data)[: len(data) // 2])


def test_a_function_of_symbolic_sizes_is_raised_for_arguments():
    def f(x, y):
        return {"y": jnp.concatenate([x @ x.T, y]).sum(0) * x.shape[0]}

    n, m = export.symbolic_shape("n, m")
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((n, m), (m, n))]
    exported = export.export(jax.jit(f))(*shapes)
    program = jaxmlir.from_exported(exported, X, jax.ShapeDtypeStruct((4, 3), np.float32))
    close(program(X, X.T), f(X, X.T))
    close(program.jvp()((X, X.T), (X, X.T)), jax.jvp(f, (X, X.T), (X, X.T)))
    symbolic = jaxmlir.from_exported(exported)
    assert [str(a.shape) for a in symbolic.in_avals] == ["(n, m)", "(m, n)"]
    close(symbolic(X, X.T), f(X, X.T))


def test_remarks_name_what_may_have_had_a_rule():
    f = jax.jit(lambda x: jnp.maximum(x, 0.0))
    symbolic = jax.ShapeDtypeStruct(export.symbolic_shape("n, 4"), np.float32)
    said = []
    for exported, args in [(export.export(f)(X), ()), (export.export(f)(symbolic), (X,))]:
        jaxmlir.from_exported(exported, *args, remarks=said.append)
        jaxmlir.from_stablehlo(str(exported.mlir_module()), remarks=said.append)
    assert len(said) == 4
    assert all("its derivative is 1/2 where the operand is 0" in remark.message for remark in said)


def test_locations_are_kept():
    program = jaxmlir.from_stablehlo(lowered(lambda x: jnp.sin(x), X))
    assert "test_raising.py" in program.as_text(debug_info=True)


def test_what_was_lowered_from_the_dialect_comes_back():
    program = jaxmlir.trace(loss)(X)
    text = program.lower().as_text()
    back = jaxmlir.from_stablehlo(text).lower().as_text()
    assert back.replace("jit_main", "jit_loss", 1) == text


def test_operands_that_an_op_broadcasts_come_back_as_they_were_traced():
    def f(x):
        rows = jnp.broadcast_to(x[:1], x.shape) * jnp.broadcast_to(x[1:2], x.shape)
        return (2.0 * x - x.max(0)) ** 2 / x.sum(1, keepdims=True) + rows

    def broadcasts(program):
        return str(program).count("jaxpr.broadcast_in_dim")

    text = jax.jit(f).lower(X).as_text()
    raised = jaxmlir.from_stablehlo(text)
    # One of the rows must be broadcast, or the product would be a single row.
    assert broadcasts(raised) == broadcasts(jaxmlir.trace(f)(X)) - 1
    assert raised.lower().as_text().replace("jit_main", "jit_f", 1) == text
    close(raised.jvp()((X,), (X + 1,)), jax.jvp(f, (X,), (X + 1,)))


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (3, ArgumentError, "expected the text, bytes or module of StableHLO, got int"),
        (
            "f.mlir",
            ArgumentError,
            "the path 'f.mlir'; pass pathlib.Path('f.mlir').read_bytes(), or read an artifact",
        ),
        (Path("f.mlir"), ArgumentError, "Path; pass its read_bytes()"),
        (jax.jit(jnp.sin).lower(1.0), ArgumentError, "from_stablehlo takes its as_text()"),
        (export.export(jax.jit(jnp.sin))(1.0), ArgumentError, "jaxmlir.from_exported takes it"),
        (jnp.sin, ArgumentError, "jaxmlir.trace(f)(*args) makes a program"),
        (
            "func.func @f(%x: !torch.t) -> !torch.t { %y = torch.aten.sin %x : !torch.t }",
            ParseError,
            'only in the generic form, such as "torch.aten.sin"(%x)',
        ),
        (
            "func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<4xf32> { "
            "%0 = stablehlo.uniform_dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.5:10>>) "
            "-> tensor<4xf32> return %0 : tensor<4xf32> }",
            # By the parser, or by the importer once something else has loaded the dialect.
            DiagnosticError,
            "expected numbers, as stablehlo-opt --stablehlo-legalize-quant-to-math makes them",
        ),
        ("func.func @f(", ParseError, "expected"),
        (b"\xff\xfe", ParseError, "neither MLIR bytecode"),
        (b"ML\xefR\rStableHLO_v1.0.0\0junk", ParseError, "corrupted MLIR bytecode"),
        ("module {}", ImportingError, "no public function"),
        (
            "func.func @f(%x: tensor<f32>) -> tensor<?xf32> { %y = stablehlo.custom_call @g(%x) "
            ": (tensor<f32>) -> tensor<?xf32> return %y : tensor<?xf32> }",
            ImportingError,
            "the sizes of tensor<?xf32> are not known",
        ),
        (
            "func.func private @g()\nfunc.func @f() { call @g() : () -> () return }",
            ImportingError,
            "-:2:18: error: 'func.call' op: function @g has no body",
        ),
        (
            'func.func @f(%x: tensor<f32>) -> tensor<f32> {\n  %0 = "foo.bar"(%x) : (tensor<f32>) '
            "-> tensor<f32>\n  return %0 : tensor<f32> }",
            ImportingError,
            "-:2:8: error: 'foo.bar' op: the dialect has no op for it",
        ),
        (
            "func.func @f(%x: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.custom_call "
            "@xla_ffi_python_gpu_callback(%x) : (tensor<f32>) -> tensor<f32>\n"
            "  return %0 : tensor<f32> }",
            ImportingError,
            "runs a Python function, which is not in the module",
        ),
        (
            '"builtin.module"() ({ "func.func"() ({ ^bb0(%x: tensor<f32>): %0 = "foo.bar"(%x) : '
            "(tensor<f32>) -> tensor<f32> }) {function_type = (tensor<f32>) -> tensor<f32>, "
            'sym_name = "f"} : () -> () }) : () -> ()',
            ImportingError,
            "-:1:23: error: 'func.func' op: expected a terminator at the end of the block",
        ),
        (
            "module attributes {mhlo.num_partitions = 2 : i32} {\n"
            "func.func @f() -> tensor<ui32> {\n"
            "  %0 = stablehlo.partition_id : tensor<ui32>\n"
            "  return %0 : tensor<ui32> } }",
            ImportingError,
            "-:3:8: error: 'stablehlo.partition_id' op: expected a module for one device, got "
            "mhlo.num_partitions = 2",
        ),
        (
            "func.func @f(%s: tensor<3xui64>) -> tensor<4xui8> {\n"
            "  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX\n"
            "    : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui8>)\n"
            "  return %1 : tensor<4xui8> }",
            ImportingError,
            "expected a state of type tensor<2xui64>, as in JAX, got tensor<3xui64>",
        ),
        (
            "\nfunc.func @f(%k: tensor<2x!jaxpr.key<fry>>) { return }",
            ImportingError,
            "-:2:1: error: 'func.func' op: the parameters of !jaxpr.key<fry> are not strings in "
            "quotes",
        ),
        (
            "\nfunc.func @f(%x: memref<3xf32>) { return }",
            ImportingError,
            "-:2:1: error: 'func.func' op: expected the type of a tensor or token, got memref<3xf3",
        ),
    ],
)
def test_what_cannot_be_raised_is_said(source, kind, message):
    with pytest.raises(kind) as error:
        jaxmlir.from_stablehlo(source, filename="a.mlir")
    message = re.sub("^-:", "a.mlir:", message)
    assert message in str(error.value)


def test_a_function_that_calls_itself_is_refused():
    text = """func.func @f(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @closed_call(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @closed_call(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @CALLEE(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @g(%x: tensor<f32>) -> tensor<f32> {
      %0 = call @closed_call(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    for callee in ("closed_call", "g"):
        with pytest.raises(DiagnosticError):
            jaxmlir.from_stablehlo(text.replace("CALLEE", callee))


def test_an_unknown_custom_call_is_raised_and_has_no_derivative():
    program = program_of(
        "%t = stablehlo.custom_call @my_kernel(%x) {api_version = 4 : i32, mhlo.backend_config = "
        '{n = 3 : i64, sizes = array<i32: 1, 2>, names = ["a"]}} : '
        "(tensor<4xf32>) -> tuple<tensor<4xf32>>\n%0 = stablehlo.get_tuple_element %t[0] : "
        "(tuple<tensor<4xf32>>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
    )
    assert "custom_call @my_kernel" in program.lower().as_text()
    said = 'n = 3 : i64, names = ["a"], sizes = dense<[1, 2]> : tensor<2xi32>'
    assert said in program.lower().as_text()
    with pytest.raises(DiagnosticError, match="ffi_call"):
        program.jvp()((X[0],), (X[0],))


def test_a_foreign_function_with_attributes_as_jax_writes_it():
    """JAX writes version 1 of the calling convention beside the attributes of version 4."""
    call = jax.ffi.ffi_call("my_kernel", jax.ShapeDtypeStruct((4,), "float32"))
    text = jax.jit(lambda x: call(x, n=np.int32(3))).lower(jnp.ones(4)).as_text()
    assert "api_version = 4" not in text
    lowered = jaxmlir.from_stablehlo(text).lower().as_text()
    assert "custom_call @my_kernel" in lowered and "{n = 3 : i32}" in lowered


@pytest.mark.parametrize("left, transpose", [(True, False), (True, True), (False, True)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_products_with_packed_reflectors(left, transpose, dtype):
    def product(a, taus, c):
        return lax.linalg.ormqr(a, taus, c, left=left, transpose=transpose)

    packed, taus, c = X.T.astype(dtype), X[:, 0].astype(dtype), np.outer(X[0], X[1]).astype(dtype)
    program = jaxmlir.from_stablehlo(jax.jit(product).lower(packed, taus, c).as_text())
    assert "jaxpr.ormqr" in str(program)
    close(program(packed, taus, c), product(packed, taus, c))


# --- ops with regions -----------------------------------------------------------------------------

REDUCE = """
%init = stablehlo.constant dense<{init}> : tensor<f32>
%0 = stablehlo.reduce(%x init: %init) across dimensions = [1]
  : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
 reducer(%a: tensor<f32>, %b: tensor<f32>) {{
  {body}
  stablehlo.return %r : tensor<f32>
}}
return %0 : tensor<3xf32>"""
SUM = "%r = stablehlo.add %b, %a : tensor<f32>"
SUM_OF_SQUARES = (
    "%s = stablehlo.multiply %b, %b : tensor<f32>\n%r = stablehlo.add %a, %s : tensor<f32>"
)


@pytest.mark.parametrize(
    ("init", "body", "op", "expected"),
    [
        ("0.0", SUM, "jaxpr.reduce_sum", lambda x: x.sum(1)),
        ("2.0", SUM, "jaxpr.reduce", lambda x: x.sum(1) + 2.0),
        (
            "0xFF800000",
            "%r = stablehlo.maximum %a, %b : tensor<f32>",
            "jaxpr.reduce_max",
            lambda x: x.max(1),
        ),
        (
            "1.0",
            "%r = stablehlo.multiply %a, %b : tensor<f32>",
            "jaxpr.reduce_prod",
            lambda x: x.prod(1),
        ),
    ],
)
def test_reductions(init, body, op, expected):
    program = program_of(
        REDUCE.format(init=init, body=body), "%x: tensor<3x4xf32>", "tensor<3xf32>"
    )
    assert f'"{op}"' in str(program)
    close(program(X), expected(jnp.asarray(X)))
    close(program.jvp()((X,), (X,))[1], jax.jvp(expected, (X,), (X,))[1])


def test_an_initial_value_that_is_an_argument_has_a_derivative():
    body = REDUCE.replace("%init = stablehlo.constant dense<{init}> : tensor<f32>", "")
    program = program_of(
        body.format(body=SUM), "%x: tensor<3x4xf32>, %init: tensor<f32>", "tensor<3xf32>"
    )
    f = lambda x, init: x.sum(1) + init  # noqa: E731
    args, ones = (X, np.float32(2.0)), (X, np.float32(1.0))
    close(program.jvp()(args, ones), jax.jvp(f, args, ones))


SORT = """
%0 = "stablehlo.sort"(%x) <{{dimension = 1 : i64, is_stable = true}}> ({{
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  {body}
  stablehlo.return %r : tensor<i1>
}}) : (tensor<3x4xf32>) -> tensor<3x4xf32>
return %0 : tensor<3x4xf32>"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "%r = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            lambda x: np.sort(x, 1),
        ),
        (
            "%r = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            lambda x: -np.sort(-x, 1),
        ),
        (
            "%r = stablehlo.compare GT, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            lambda x: np.sort(x, 1),
        ),
        (
            "%c = stablehlo.abs %a : tensor<f32>\n%d = stablehlo.abs %b : tensor<f32>\n"
            "%r = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            lambda x: np.take_along_axis(x, np.argsort(np.abs(x), 1, kind="stable"), 1),
        ),
    ],
)
def test_sorts_by_any_comparator(body, expected):
    program = program_of(SORT.format(body=body), "%x: tensor<3x4xf32>", "tensor<3x4xf32>")
    x = np.array([[3, -1, 2, 1], [0, 5, -5, 2], [1, 1, -1, 0]], np.float32)
    same(program(x), expected(x))
    tangent = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert sorted(program.jvp()((x,), (tangent,))[1].reshape(-1)) == sorted(tangent.reshape(-1))


def test_sorts_by_several_keys_up_or_down():
    program = program_of(
        """%0:3 = "stablehlo.sort"(%x, %k, %i) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>,
             %e: tensor<i32>, %f: tensor<i32>):
          %0 = stablehlo.compare GT, %d, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %1 = stablehlo.compare NE, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %2 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %3 = stablehlo.select %1, %0, %2 : tensor<i1>, tensor<i1>
          stablehlo.return %3 : tensor<i1>
        }) : (tensor<9xf32>, tensor<9xi32>, tensor<9xi32>)
          -> (tensor<9xf32>, tensor<9xi32>, tensor<9xi32>)
        return %0#2 : tensor<9xi32>""",
        "%x: tensor<9xf32>, %k: tensor<9xi32>, %i: tensor<9xi32>",
        "tensor<9xi32>",
    )
    x, k, i = np.arange(9.0, dtype=np.float32) % 4, np.arange(9) % 2, np.arange(9)
    same(program(x, k.astype(np.int32), i.astype(np.int32)), np.lexsort((-x, k)).astype(np.int32))
    assert "num_keys = 2" in str(program)


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_a_total_order_has_minus_zero_before_zero_and_nans_by_their_sign(direction):
    body = (
        f"%r = stablehlo.compare {direction}, %a, %b, TOTALORDER : "
        "(tensor<f32>, tensor<f32>) -> tensor<i1>"
    )
    program = program_of(SORT.format(body=body), "%x: tensor<3x4xf32>", "tensor<3x4xf32>")
    rows = [0.0, -0.0, 1, -1], [np.nan, -np.inf, -np.nan, np.inf], [-0.0, 0.0, 0.0, -0.0]
    x = np.array(rows, np.float32)
    bits = x.view(np.int32)
    order = np.where(bits < 0, bits ^ np.iinfo(np.int32).max, bits)
    places = np.argsort(order if direction == "LT" else ~order, 1, kind="stable")
    same(np.asarray(program(x)).view(np.int32), np.take_along_axis(bits, places, 1))


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_an_index_out_of_bounds_chooses_the_last_branch(index):
    program = program_of(
        '%0 = "stablehlo.case"(%i) ({\n stablehlo.return %x : tensor<f32>\n}, {\n'
        " %1 = stablehlo.negate %x : tensor<f32>\n stablehlo.return %1 : tensor<f32>\n}, {\n"
        " %1 = stablehlo.sine %x : tensor<f32>\n stablehlo.return %1 : tensor<f32>\n"
        "}) : (tensor<i32>) -> tensor<f32>\nreturn %0 : tensor<f32>",
        "%i: tensor<i32>, %x: tensor<f32>",
        "tensor<f32>",
    )
    x = np.float32(0.5)
    want = {0: x, 1: -x}.get(index, np.sin(x))
    close(program(np.int32(index), x), want)
    batch = np.array([index, 0], np.int32)
    close(program.vmap((0, None))(batch, x), np.stack([want, x]))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_chlo_along_any_dimension(reverse):
    program = program_of(
        "%0:2 = chlo.scan(%x) inits(%c) dimension=1 attributes {is_reverse = REVERSE} {\n"
        "^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):\n  %s = stablehlo.constant dense<0.5> : "
        "tensor<3xf32>\n  %1 = stablehlo.multiply %b, %s : "
        "tensor<3xf32>\n  %2 = stablehlo.add %a, %1 : tensor<3xf32>\n  stablehlo.return %2, %1 : "
        "tensor<3xf32>, tensor<3xf32>\n} : (tensor<3x4xf32>, tensor<3xf32>) -> "
        "(tensor<3x4xf32>, tensor<3xf32>)\n"
        "return %0#0, %0#1 : tensor<3x4xf32>, tensor<3xf32>".replace(
            "REVERSE", str(reverse).lower()
        ),
        "%x: tensor<3x4xf32>, %c: tensor<3xf32>",
        "(tensor<3x4xf32>, tensor<3xf32>)",
    )

    def expected(x, c):
        body = lambda carry, a: (carry * 0.5, a + carry * 0.5)  # noqa: E731
        last, ys = lax.scan(body, c, x.T, reverse=reverse)
        return ys.T, last

    args = X, X[:, 0]
    close(program(*args), expected(*args))
    close(program.jvp()(args, args), jax.jvp(expected, args, args))


@pytest.mark.parametrize(
    ("x", "dtype", "shape"),
    [
        (np.array([[1, 0, 0, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 1, 1, 0]], bool), "ui8", (2,)),
        (np.array([1.5, -2.25], np.float32), "i1", (2, 32)),
        (np.zeros((0, 8), bool), "ui8", (0,)),
        (np.array([[1 - 2j, 3 + 4j], [0.5, 1j]], np.complex64), "complex<f64>", (2,)),
    ],
)
def test_bits_of_booleans_and_complex_numbers(x, dtype, shape):
    types = [
        f"tensor<{'x'.join(map(str, s))}x{t}>"
        for s, t in (
            (x.shape, {"bool": "i1", "float32": "f32", "complex64": "complex<f32>"}[str(x.dtype)]),
            (shape, dtype),
        )
    ]
    body = f"%0 = stablehlo.bitcast_convert %x : ({types[0]}) -> {types[1]}\nreturn %0 : {types[1]}"
    with jax.enable_x64(True):
        got = np.asarray(program_of(body, f"%x: {types[0]}", types[1])(x))
    if dtype == "i1":
        want = np.unpackbits(x.view(np.uint8), bitorder="little").reshape(shape).astype(bool)
    elif x.dtype == bool:
        want = np.packbits(x, -1, bitorder="little").reshape(shape)
    else:
        want = x.view(np.complex128).reshape(shape)
    same(got, want)


@pytest.mark.parametrize("dtype", ["i16", "f16", "i64", "f64"])
def test_random_bits_are_those_of_any_type(dtype):
    made = "(tensor<2xui64>) -> (tensor<2xui64>, tensor<3x{}>)"
    body = """%s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
%t, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : {}
return %t, %r : tensor<2xui64>, tensor<3x{}>"""
    with jax.enable_x64(True):
        (state, got), (after, bits) = (
            program_of(body.format(made.format(t), t), "", f"(tensor<2xui64>, tensor<3x{t}>)")()
            for t in (dtype, f"ui{dtype[1:]}")
        )
    assert np.asarray(got).tobytes() == np.asarray(bits).tobytes() != np.zeros_like(got).tobytes()
    same(state, after)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32])
def test_the_high_half_of_a_product(dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, limits.max // 3, 3], dtype)
    y = np.array([limits.max, limits.max, limits.max // 5, limits.min], dtype)
    program = jaxmlir.from_stablehlo(lowered(lax.mulhi, x, y))
    assert "jaxpr.mulhi" in str(program)
    exact = [(int(a) * int(b)) >> limits.bits for a, b in zip(x, y, strict=True)]
    assert program(x, y).tolist() == exact


def test_a_ragged_product():
    sizes = np.array([2, 1, 0], np.int32)
    rhs = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 4, 2)
    program = program_of(
        '%0 = "chlo.ragged_dot"(%x, %y, %n) {ragged_dot_dimension_numbers = #chlo.ragged_dot<'
        "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = "
        "[1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions "
        "= [0]>, precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]} : "
        "(tensor<3x4xf32>, tensor<3x4x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>\n"
        "return %0 : tensor<3x2xf32>",
        "%x: tensor<3x4xf32>, %y: tensor<3x4x2xf32>, %n: tensor<3xi32>",
        "tensor<3x2xf32>",
    )
    close(program(X, rhs, sizes), lax.ragged_dot(X, rhs, sizes))
    loss = lambda x, y: lax.ragged_dot(x, y, sizes).sum()  # noqa: E731
    gradients = program.vjp()[1](program.vjp()[0](X, rhs, sizes)[1], np.ones((3, 2), np.float32))
    close(gradients[:2], jax.grad(loss, (0, 1))(X, rhs))


def scan(w, xs):
    def body(carry, x):
        carry = jnp.tanh(w @ carry + x)
        return carry, carry.sum()

    carry, ys = lax.scan(body, jnp.ones(3), xs)
    return carry.sum() + (ys**2).sum() + lax.fori_loop(0, 4, lambda i, v: v * w[0, 0], ys[0])


def test_loops_are_scans_with_what_they_scan():
    w, xs = np.eye(3, dtype=np.float32) * 0.5, np.linspace(0, 1, 15, dtype=np.float32).reshape(5, 3)
    program = jaxmlir.from_stablehlo(lowered(scan, w, xs))
    text = str(program)
    assert "jaxpr.while" not in text and "num_consts = 1" in text and "dynamic_slice" not in text
    same(program(w, xs), jax.jit(scan)(w, xs))
    close(program.grad((0, 1))(w, xs), jax.grad(scan, (0, 1))(w, xs))


def test_functions_of_tuples_are_functions_of_their_elements():
    """This includes nested tuples, and tuples that calls take and return, and a branch uses."""
    pair, nested = "tuple<tensor<f32>, tensor<3xf32>>", "tuple<tensor<3xf32>, tuple<tensor<f32>>>"
    program = jaxmlir.from_stablehlo(f"""
func.func private @swapped(%t: {pair}) -> {nested} {{
  %a = stablehlo.get_tuple_element %t[0] : ({pair}) -> tensor<f32>
  %b = stablehlo.get_tuple_element %t[1] : ({pair}) -> tensor<3xf32>
  %one = stablehlo.tuple %a : tuple<tensor<f32>>
  %r = stablehlo.tuple %b, %one : {nested}
  return %r : {nested}
}}
func.func public @main(%t: {pair}, %p: tensor<i1> {{mhlo.sharding = "{{replicated}}"}})
    -> (tensor<3xf32>, {nested}) {{
  %s = func.call @swapped(%t) : ({pair}) -> {nested}
  %inner = stablehlo.get_tuple_element %s[1] : ({nested}) -> tuple<tensor<f32>>
  %0 = "stablehlo.if"(%p) ({{
    %x = stablehlo.get_tuple_element %t[1] : ({pair}) -> tensor<3xf32>
    %c = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %c : tensor<3xf32>
  }}, {{
    %x = stablehlo.get_tuple_element %inner[0] : (tuple<tensor<f32>>) -> tensor<f32>
    %c = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<3xf32>
    stablehlo.return %c : tensor<3xf32>
  }}) : (tensor<i1>) -> tensor<3xf32>
  return %0, %s : tensor<3xf32>, {nested}
}}""")
    x, scale = X[0, :3], np.float32(2.0)
    same(program(scale, x, True), (jnp.sin(x), x, scale))
    same(program(scale, x, False), (jnp.full(3, scale), x, scale))
    close(jax.grad(lambda x: program(scale, x, True)[0].sum())(x), jnp.cos(x))


# --- passes and files -----------------------------------------------------------------------------


def test_raised_programs_are_optimized_and_saved(tmp_path):
    program = jaxmlir.from_stablehlo(lowered(loss, X))
    close(program.grad().optimize(2)(X), jax.grad(loss)(X))
    program.save(tmp_path / "raised")
    close(jaxmlir.load(tmp_path / "raised").grad()(X), jax.grad(loss)(X))
    assert "jaxpr.tanh" in str(program) and "tanh" in str(program.to_jaxpr())


def test_the_pass_is_the_way_back_from_the_lowering():
    program = jaxmlir.trace(loss)(X)
    back = program.run_passes("jaxpr-legalize-to-stablehlo,jaxpr-raise-stablehlo,jaxpr-verify")
    assert "stablehlo" not in str(back)
    same(back(X), program(X))


def test_large_constants_are_kept_beside_the_module():
    table = np.arange(5000, dtype=np.float32)
    program = jaxmlir.from_stablehlo(lowered(lambda i: jnp.asarray(table)[i], 3))
    assert len(program.constants) == 1 and len(str(program)) < 4000
    assert float(program(np.int32(7))) == 7.0


@pytest.mark.parametrize("f", [jax.nn.logsumexp, jax.nn.softmax, jax.nn.log_softmax])
def test_no_derivative_is_taken_of_the_maximum_of_a_softmax(f):
    """JAX marks the maximum by ``stop_gradient``, which StableHLO does not have."""
    program = jaxmlir.from_stablehlo(lowered(lambda x: jnp.sum(jnp.sin(f(x, axis=1))), X))
    gradient = program.grad()
    assert "jaxpr.eq" not in str(gradient)
    close(gradient(X), jax.grad(lambda x: jnp.sum(jnp.sin(f(x, axis=1))))(X))


def test_a_model_of_tensorflow_has_its_gradient():
    data = Path(__file__).resolve().parents[1] / "data"
    program = jaxmlir.from_stablehlo((data / "tensorflow_convnet.mlir").read_text())
    numbers = np.load(data / "tensorflow_convnet.npz")
    args = [numbers[f"arg{k}"] for k in range(5)]
    close(program(*args), numbers["loss"])
    gradients = program.grad(tuple(range(5)))(*args)
    close(gradients, tuple(numbers[f"grad{k}"] for k in range(5)))


def test_arguments_that_an_exported_function_does_not_take():
    exported = export.export(jax.jit(jnp.sin))(X)
    for args in [(X[:1],), (X, X), ("text",)]:
        with pytest.raises(jaxmlir.errors.ArgumentError, match="@sin"):
            jaxmlir.from_exported(exported, *args)


def test_a_map_applies_any_region_to_each_element():
    """The region uses a value from around it, and calls a function."""
    text = """
func.func @main(%x: tensor<3x4xf32>, %s: tensor<f32>) -> tensor<3x4xf32> {
  %0 = "stablehlo.map"(%x) ({
  ^bb0(%a: tensor<f32>):
    %two = stablehlo.constant dense<2.0> : tensor<f32>
    %1 = stablehlo.multiply %a, %s : tensor<f32>
    %2 = func.call @sine(%1) : (tensor<f32>) -> tensor<f32>
    %3 = stablehlo.add %2, %two : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) {dimensions = array<i64: 0, 1>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func private @sine(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  return %0 : tensor<f32>
}"""
    program, scale = jaxmlir.from_stablehlo(text), np.float32(3)
    close(program(X, scale), np.sin(X * scale) + 2)
    close(program.vmap((None, 0))(X, np.stack([scale, scale]))[1], program(X, scale))


def test_a_broadcast_that_also_transposes():
    text = """func.func @main(%x: tensor<3x4xf32>) -> tensor<4x2x3xf32> {
      %0 = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (tensor<3x4xf32>) -> tensor<4x2x3xf32>
      %1 = stablehlo.sine %0 : tensor<4x2x3xf32>
      return %1 : tensor<4x2x3xf32>
    }"""
    program = jaxmlir.from_stablehlo(text)
    close(program(X), np.sin(np.broadcast_to(X.T[:, None], (4, 2, 3))))
    _, pullback = jax.vjp(program, X)
    close(pullback(np.ones((4, 2, 3), np.float32))[0], 2 * np.cos(X))


def test_weights_in_resources_of_the_module():
    """torch-mlir writes them so."""
    text = """
func.func @main() -> (tensor<2x2xbf16>, tensor<3xi1>) {
  %0 = stablehlo.constant dense_resource<weights> : tensor<2x2xbf16>
  %1 = stablehlo.constant dense_resource<"a mask"> : tensor<3xi1>
  return %0, %1 : tensor<2x2xbf16>, tensor<3xi1>
}
{-# dialect_resources: {builtin: {
  weights: "0x02000000803F004040408040", "a mask": "0x01000000010001"
}} #-}"""
    weights, mask = jaxmlir.from_stablehlo(text)()
    assert weights.dtype == jnp.bfloat16 and weights.tolist() == [[1, 2], [3, 4]]
    assert mask.tolist() == [True, False, True]
    with pytest.raises(ImportingError, match="expected 8 bytes in dense_resource<weights.*got 7"):
        jaxmlir.from_stablehlo(text.replace("4080", "40"))


def test_an_exported_function_that_does_not_belong_to_its_module():
    other = export.export(jax.jit(lambda x: (x, x)))(X).mlir_module_serialized
    exported = export.export(jax.jit(jnp.sin))(X)
    for name, value in [("mlir_module_serialized", other), ("module_kept_var_idx", (3,))]:
        forged = dataclasses.replace(exported, **{name: value})
        with pytest.raises(ImportingError, match="sin: expected . "):
            jaxmlir.from_exported(bytes(forged.serialize()))


def test_an_artifact_whose_reader_never_ends(monkeypatch):
    """MLIR's reader has loops over counts that a damaged file may set to 2**60."""
    endless = bytecode._READ_AND_PRINT.replace("    module =", "    while True: pass\n    module =")
    monkeypatch.setattr(bytecode, "_READ_AND_PRINT", endless)
    monkeypatch.setattr(bytecode, "_SECONDS", 1)
    data = export.export(jax.jit(jnp.sin))(X).mlir_module_serialized
    with pytest.raises(ParseError, match="bytecode reader was ended by SIGXCPU"):
        jaxmlir.from_stablehlo(data)


def test_strings_that_are_not_unicode():
    text = str(lowered(jnp.sin, X)).replace("%arg0 :", '%arg0 {name = "caf\\E9"} :')
    with pytest.raises(ParseError, match=r"UTF-8, got \"caf\\E9\""):
        jaxmlir.from_stablehlo(text)


def test_damaged_modules():
    """A sample of the 20,000 mutants that tools/fuzz.py --stablehlo tries."""
    assert fuzz.run(fuzz.modules(), range(150), seed=1) == []
