"""The verifier accepts what JAX accepts, and nothing else."""

import gc
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from programs import PROGRAMS
from sampling import examples

import jaxmlir
from benchmarks.programs import PROGRAMS as BENCHMARKS
from jaxmlir.dialect import ops
from jaxmlir.dialect.ir import context, func, ir, scope, symbol_uses
from jaxmlir.errors import VerificationError
from jaxmlir.verify import verifier

VALID = [
    "pytrees",
    "random_keys",
    "closed_over_constants",
    "weak_types",
    "float0_tangents",
    "einsums_and_indexing",
    "nested_control_flow",
    "differentiated_control_flow",
    "checkpoint_gradients",
    "custom_linear_solve_gradient",
    "custom_jvp_rules",
    "custom_vjp_gradients",
    "linear_calls",
    "flax_train_step",
    "diffrax_gradient",
    "odeint_pendulum_fit",
    "io_callbacks",
    "mutable_references",
    "pallas_kernel",
    "shard_map_collectives",
    "sharding_constraints",
    "special_functions",
    "linear_algebra",
    "small_floats",
    "sorting_and_segments",
    "convolutions_and_windows",
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", VALID)
def test_programs_of_the_ecosystem_are_valid(name):
    function, arguments = PROGRAMS[name]()
    jaxmlir.trace(function)(*arguments).verify()


@pytest.mark.parametrize("name", ["transformer_scanned", "neural_ode", "gnn", "gaussian_process"])
def test_gradients_are_valid(name):
    function, arguments = BENCHMARKS[name].make("small")
    jaxmlir.trace(jax.grad(function))(*arguments).verify()


def test_an_algorithm_is_the_precision_of_both_operands():
    algorithm = lax.DotAlgorithm(np.float32, np.float32, np.float32)
    program = jaxmlir.trace(lambda x: jnp.matmul(x, x, precision=algorithm))(jnp.ones((2, 2)))
    again = reread(program)
    again.verify()
    assert "algorithm = <lhs_precision_type = f32" in again.lower(platforms=("cuda",)).as_text()


def test_64_bit_programs_are_valid_where_64_bits_are_off():
    with jax.enable_x64(True):
        program = jaxmlir.trace(lambda x: jnp.argsort(x) + jnp.linalg.norm(x))(jnp.ones(3))
        text = str(program)
    assert "f64" in text
    jaxmlir.parse(text)


# --- the oracle is jax.eval_shape ---------------------------------------------------------------

TYPES = [(shape, dtype) for shape in [(), (1,), (2,), (2, 3)] for dtype in ["f32", "i32"]]
BINARY = {"add": lax.add_p, "mul": lax.mul_p, "and": lax.and_p, "lt": lax.lt_p, "pow": lax.pow_p}


def _type_text(type_):
    shape, dtype = type_
    return f"tensor<{''.join(f'{d}x' for d in shape)}{dtype}>"


def _jax_result(primitive, *types):
    """The type that JAX gives the result, or None."""
    dtypes = {"f32": jnp.float32, "i32": jnp.int32}
    arguments = [jax.ShapeDtypeStruct(shape, dtypes[dtype]) for shape, dtype in types]
    try:
        result = jax.eval_shape(primitive.bind, *arguments)
    except TypeError:
        return None
    names = {"float32": "f32", "int32": "i32", "bool": "i1"}
    return result.shape, names[result.dtype.name]


@examples(60)
@given(st.sampled_from(sorted(BINARY)), *[st.sampled_from(TYPES)] * 2, st.data())
def test_accepts_what_jax_accepts(name, x, y, data):
    right = _jax_result(BINARY[name], x, y)
    z = data.draw(st.sampled_from(TYPES if right is None else [right, *TYPES]))
    x_text, y_text, z_text = map(_type_text, (x, y, z))
    text = f"""
      func.func @f(%x: {x_text}, %y: {y_text}) -> {z_text} {{
        %0 = "jaxpr.{name}"(%x, %y) : ({x_text}, {y_text}) -> {z_text}
        return %0 : {z_text}
      }}"""
    if right == z:
        jaxmlir.parse(text)
    else:
        with pytest.raises(VerificationError, match=f"'jaxpr.{name}' op"):
            jaxmlir.parse(text)


# --- a valid program with one op made invalid ---------------------------------------------------


def _another_result_type(op, draw):
    types = [r.type for r in op.results]
    i = draw(st.integers(0, len(types) - 1))
    shape = [7, *types[i].shape]
    types[i] = ir.RankedTensorType.get(shape, types[i].element_type)
    return {"results": types}


def _one_operand_less(op, draw):
    i = draw(st.integers(0, len(op.operands) - 1))
    return {"operands": [v for j, v in enumerate(op.operands) if i != j]}


def _one_operand_more(op, draw):
    return {"operands": [*op.operands, op.operands[0]]}


def _one_attribute_less(op, draw):
    key = draw(st.sampled_from(_mandatory(op)))
    return {"attributes": {k: v for k, v in op.attributes.items() if k != key}}


def _an_unknown_attribute(op, draw):
    return {"attributes": {**dict(op.attributes.items()), "unheard_of": ir.UnitAttr.get()}}


def _another_symbol(op, draw):
    key = draw(st.sampled_from(_symbols(op)))
    attributes = dict(op.attributes.items())
    return {"attributes": attributes | {key: ir.FlatSymbolRefAttr.get("nowhere")}}


def _mandatory(op):
    record = ops.OPS[op.name.removeprefix("jaxpr.")]
    return [a.name for a in record.attributes if a.mandatory]


def _symbols(op):
    return [k for k, v in op.attributes.items() if isinstance(v, ir.FlatSymbolRefAttr)]


def _applicable(op):
    yield _an_unknown_attribute
    if all(isinstance(r.type, ir.RankedTensorType) for r in op.results):
        yield _another_result_type
    # JAX takes a select_n of any number of cases, one included.
    if len(op.operands) and op.name != "jaxpr.select_n":
        yield _one_operand_less
        yield _one_operand_more
    if _mandatory(op):
        yield _one_attribute_less
    if _symbols(op):
        yield _another_symbol


def _ops(program):
    return [
        op
        for function in program.functions.values()
        for op in function.entry_block.operations
        if type(op) is ir.OpView and op.name not in ("jaxpr.constant", "jaxpr.concatenate")
    ]


@pytest.mark.parametrize(
    "name", ["nested_control_flow", "custom_vjp_gradients", "einsums_and_indexing", "checkpoint"]
)
def test_an_op_made_invalid_is_rejected(name):
    function, arguments = PROGRAMS[name]()
    program = jaxmlir.trace(function)(*arguments)
    program.verify()

    @examples(60)
    @given(st.data())
    def check(data):
        with context():
            op = data.draw(st.sampled_from(_ops(program)), label="op")
            corrupt = data.draw(st.sampled_from(list(_applicable(op))), label="corruption")
            parts = {
                "results": [r.type for r in op.results],
                "operands": list(op.operands),
                "attributes": dict(op.attributes.items()),
            }
            with scope(), ir.InsertionPoint(op):
                parts |= corrupt(op, data.draw)
                bad = ir.Operation.create(op.name, **parts, loc=ir.Location.file("bad.py", 3, 5))
        try:
            with pytest.raises(VerificationError) as e:
                program.verify()
        finally:
            bad.erase()
        for diagnostic in e.value.diagnostics:
            assert diagnostic.message.startswith(f"'{op.name}' op")
            assert (diagnostic.file, diagnostic.line, diagnostic.col) == ("bad.py", 3, 5)

    check()
    program.verify()


def test_as_many_errors_as_help():
    lines = [f'%{i} = "jaxpr.add"(%x) : (tensor<f32>) -> tensor<f32>' for i in range(100)]
    text = "\n".join(["func.func @f(%x: tensor<f32>) {", *lines, "return", "}"])
    with pytest.raises(VerificationError) as e:
        jaxmlir.parse(text)
    assert [d.line for d in e.value.diagnostics] == list(range(2, 2 + verifier.MAX_DIAGNOSTICS))


def test_a_signature_is_evaluated_once(monkeypatch):
    def f(x):
        for _ in range(50):
            x = jnp.tanh(x) * 2.0
        return x

    counter = itertools.count()
    evaluate = verifier.evaluate

    def counted(*args):
        next(counter)
        return evaluate(*args)

    monkeypatch.setattr(verifier, "evaluate", counted)
    program = jaxmlir.trace(f)(jnp.ones((3, 5, 7, 11)))
    program.verify()
    assert next(counter) == 2
    jaxmlir.parse(str(program))
    assert next(counter) == 3


def test_a_lost_handle_is_found_though_the_op_was_valid_once():
    def make():
        result = jax.ShapeDtypeStruct((3,), jnp.float32)
        return jaxmlir.trace(lambda x: jax.pure_callback(lambda y: y + 1, result, x))(jnp.ones(3))

    program = make()
    text = str(program)
    jaxmlir.parse(text)
    del program
    gc.collect()
    with pytest.raises(VerificationError, match=r"'jaxpr.pure_callback' op: handle .h\d+. stands"):
        jaxmlir.parse(text)


def _with_symbol(attr, old, new):
    """The attribute with one symbol replaced by another."""
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return ir.FlatSymbolRefAttr.get(new if attr.value == old else attr.value)
    if isinstance(attr, ir.ArrayAttr):
        return ir.ArrayAttr.get([_with_symbol(item, old, new) for item in attr])
    if isinstance(attr, ir.DictAttr):
        return ir.DictAttr.get({i.name: _with_symbol(i.attr, old, new) for i in attr})
    return attr


def _of_another_type(program, function, how):
    """A copy of the function with other argument or result types; ``None`` if there is none."""
    inputs, results = list(function.type.inputs), list(function.type.results)
    if how == "takes another":
        inputs.insert(0, ir.RankedTensorType.get([7], ir.F32Type.get()))
    elif not results or not isinstance(results[0], ir.RankedTensorType):
        return None
    elif how == "gives one less":
        results.pop()
    else:
        results[0] = ir.RankedTensorType.get([7, *results[0].shape], results[0].element_type)
    with ir.InsertionPoint(program.module.body):
        new = func.FuncOp("of_another_type", (inputs, results), visibility="private")
    for name, attr in function.attributes.items():
        if name not in ("sym_name", "function_type", "sym_visibility"):
            new.attributes[name] = attr
    with ir.InsertionPoint(new.add_entry_block()):
        func.ReturnOp([ir.Operation.create("test.value", [t]).result for t in results])
    return new


@pytest.mark.parametrize(
    "name",
    [
        "associative_operations",
        "checkpoint",
        "custom_linear_solve",
        "custom_vjp_gradients",
        "linear_calls",
        "nested_control_flow",
        "pallas_kernel",
        "shard_map_psum",
        "sorting_and_segments",
    ],
)
def test_a_function_of_another_type_is_rejected(name):
    """Every op with functions rejects each of them if its type changes."""
    function, arguments = PROGRAMS[name]()
    program = jaxmlir.trace(function)(*arguments)
    program.verify()
    tried = set()
    for op in _ops(program):
        for key, attr in list(op.attributes.items()):
            for symbol, how in itertools.product(
                symbol_uses(attr), ("takes another", "gives one less", "gives another type")
            ):
                if (op.name, key, how) in tried:
                    continue
                with scope():
                    new = _of_another_type(program, program.functions[symbol], how)
                    if new is None:
                        continue
                    tried.add((op.name, key, how))
                    op.attributes[key] = _with_symbol(attr, symbol, "of_another_type")
                    program.changed()
                    with pytest.raises(VerificationError) as e:
                        program.verify()
                    assert any(f"'{op.name}' op" in d.message for d in e.value.diagnostics)
                    op.attributes[key] = attr
                    new.operation.erase()
                    program.changed()
    program.verify()
    assert len(tried) >= 3


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (
            '"jaxpr.sort"(%x) {dimension = -1 : i64, is_stable = true, num_keys = 1 : i64} : '
            "(tensor<4x3xf32>) -> tensor<4x3xf32>",
            "attribute 'dimension': expected a dimension of tensor<4x3xf32>, counted from 0",
        ),
        (
            '"jaxpr.sort"(%x) {dimension = 0 : i64, is_stable = true, num_keys = 2 : i64} : '
            "(tensor<4x3xf32>) -> tensor<4x3xf32>",
            "attribute 'num_keys': expected 1 to 1 for 1 operand, got 2",
        ),
        (
            '"jaxpr.rev"(%x) {dimensions = array<i64: 0, 0>} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'dimensions': expected different dimensions of tensor<4x3xf32>",
        ),
        (
            '"jaxpr.stack"(%x, %x) {axis = 3 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> '
            "tensor<4x3x2xf32>",
            "attribute 'axis': expected 0 to 2 for a new dimension, got 3",
        ),
        (
            '"jaxpr.cond"(%x, %x) {branches = [@b, @b]} : (tensor<4x3xf32>, tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "operand #0: expected an i32, the index of a branch, got tensor<4x3xf32>",
        ),
        (
            '"jaxpr.psum"(%x) {axes = ["i", "i"], axis_index_groups = none} : (tensor<4x3xf32>) '
            "-> tensor<4x3xf32>",
            "attribute 'axes': expected different axes, got",
        ),
        (
            '"jaxpr.dot_general"(%x, %x) {dimension_numbers = [[array<i64: 0>, array<i64: 0>], '
            '[[], []]], precision = [{Precision = "HIGHEST"}]} : (tensor<4x3xf32>, '
            "tensor<4x3xf32>) -> tensor<3x3xf32>",
            "attribute 'precision': expected one for both operands, or one for each, got 1",
        ),
        (
            '"jaxpr.iota"() {dimension = 0 : i64, dtype = f32, shape = array<i64: -4>} : () -> '
            "tensor<4xf32>",
            "'jaxpr.iota' op",
        ),
        (
            '"jaxpr.reduce_window_sum"(%x) {base_dilation = array<i64: 1, 1>, padding = '
            "[array<i64: 0, 0>], window_dilation = array<i64: 1, 1>, window_dimensions = "
            "array<i64: 1, 1>, window_strides = array<i64: 1, 1>} : (tensor<4x3xf32>) -> "
            "tensor<4x3xf32>",
            "attribute 'padding': expected 2 items, one for each dimension, got [array<i64: 0, 0>]",
        ),
        (
            '"jaxpr.cumsum"(%x) {axis = 0 : i64, reverse = 3 : i64} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'reverse': expected bool, got 3 : i64",
        ),
        (
            '"jaxpr.broadcast_in_dim"(%x) {broadcast_dimensions = ["a", "b"], shape = '
            "array<i64: 4, 3>} : (tensor<4x3xf32>) -> tensor<4x3xf32>",
            "attribute 'broadcast_dimensions': expected ints, got",
        ),
        (
            '"jaxpr.sin"(%x) {accuracy = 3 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>',
            "attribute 'accuracy': expected enum AccuracyMode or record Tolerance?, got 3 : i64",
        ),
        (
            '"jaxpr.remat2"(%x) {jaxpr = @b, prevent_cse = 3 : i64} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'prevent_cse': expected bool or bools, got 3 : i64",
        ),
        (
            '"jaxpr.remat2"(%x) {jaxpr = @b, prevent_cse = array<i1: true, false>} : '
            "(tensor<4x3xf32>) -> tensor<4x3xf32>",
            "attribute 'prevent_cse': expected 1 item, one for each operand, got 2",
        ),
        (
            '"jaxpr.remat2"(%x) {jaxpr = @b, policy = "dots"} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'policy': expected policy?, got \"dots\"",
        ),
        (
            '"jaxpr.platform_index"() {platforms = ["cpu"]} : () -> tensor<i32>',
            "attribute 'platforms': expected platforms, got",
        ),
        (
            '"jaxpr.composite"(%x) {call_jaxpr = @b, name = "mine"} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'name': expected a name in a namespace, such as 'mine.op', got 'mine'",
        ),
        (
            '"jaxpr.linear_call"(%x) {callee = @b} : (tensor<4x3xf32>) -> tensor<4x3xf32>',
            "requires attribute 'transpose': expected function, got none",
        ),
        (
            '"jaxpr.while"(%x) {body_jaxpr = @b, body_nconsts = -1 : i64, cond_jaxpr = @b, '
            "cond_nconsts = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>",
            "attribute 'body_nconsts': expected 0 to 0 for 1 operand, got -1",
        ),
        (
            '"jaxpr.jit"(%x) {jaxpr = @b, donated_invars = 3 : i64} : (tensor<4x3xf32>) -> '
            "tensor<4x3xf32>",
            "attribute 'donated_invars': expected a tuple, each item bool, got 3 : i64",
        ),
    ],
)
def test_attributes_out_of_range_are_rejected(op, expected):
    """JAX checks these attributes only when it makes an equation."""
    text = f"""func.func @f(%x: tensor<4x3xf32>) {{
      %0 = {op}
      return
    }}
    func.func private @b(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {{
      return %x : tensor<4x3xf32>
    }}"""
    with pytest.raises(VerificationError) as e:
        jaxmlir.parse(text)
    (diagnostic,) = e.value.diagnostics
    assert diagnostic.line == 2
    assert expected in diagnostic.message


def test_effects_on_references_are_to_be_listed():
    """A write that is not listed would be dropped, and a read would give the old value."""

    def f(x):
        ref = jax.new_ref(x)
        ref[0] = 5.0
        return ref[...]

    text = str(jaxmlir.trace(f)(jnp.ones(3)))
    jaxmlir.parse(text)
    written = "[{WriteEffect = 0 : i64}]"
    assert text.count(written) == 1
    for instead in ("[]", "[{WriteEffect = 7 : i64}]", "[{ReadEffect = 0 : i64}]"):
        with pytest.raises(VerificationError, match="'jaxpr.swap' op attribute 'jaxpr.effects'"):
            jaxmlir.parse(text.replace(written, instead))


def test_counts_that_fit_no_operands_are_rejected():
    @jax.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0]))
    program = jaxmlir.trace(f)(1.0, 2.0)
    attribute = "num_consts = 7 : i64, "
    text = re.sub(r'("jaxpr.custom_vjp_call_jaxpr"\(.*?\) \{)', rf"\1{attribute}", str(program))
    with pytest.raises(VerificationError, match="'jaxpr.custom_vjp_call_jaxpr' op"):
        jaxmlir.parse(text)
