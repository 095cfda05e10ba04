"""Replaces tuples in functions by their elements: the dialect has no tuples.

JAX's lowering makes none. The specification of StableHLO has them as types of arguments and
results, and modules that were HLO once keep them. An argument becomes one for each element, in
order, and so does a result. Ops that make or split tuples are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxmlir.dialect.ir import body_of, inner_ops, ir
from jaxmlir.raising.source import defining_op

_TUPLE, _ELEMENT = "stablehlo.tuple", "stablehlo.get_tuple_element"


def flatten_tuples(functions: Mapping[str, Any]) -> bool:
    """Makes functions, and ops in them such as calls, take and return elements, not tuples; whether
    there were any."""
    inputs = (type_ for function in functions.values() for type_ in function.type.inputs)
    if not any(isinstance(type_, ir.TupleType) for type_ in inputs):
        if not any(_has_tuples(op) for function in functions.values() for op in _ops_in(function)):
            return False
    for function in functions.values():
        for op in _ops_in(function):
            if _has_tuples(op) and op.name not in (_TUPLE, _ELEMENT):
                _flatten_op(op)
        _flatten_function(function)
        _drop_tuples(_ops_in(function))
    return True


def _has_tuples(op: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.TupleType) for v in (*op.operands, *op.results))


def _ops_in(function: Any) -> list[ir.Operation]:
    return [view.operation for view in inner_ops(function)]


def _drop_tuples(ops: Iterable[ir.Operation]) -> None:
    """Erases ops that make tuples, and ops that take an element of these."""
    made = []
    for op in ops:
        if op.name == _TUPLE:
            made.append(op)
        elif op.name == _ELEMENT and (maker := defining_op(op.operands[0], _TUPLE)) is not None:
            op.result.replace_all_uses_with(maker.operands[op.attributes["index"].value])
            op.erase()
    for op in reversed(made):
        op.erase()


def _flatten_op(op: ir.Operation) -> None:
    with ir.InsertionPoint(op), op.location:
        operands = [element for value in op.operands for element in _elements(value)]
        types = [flat for value in op.results for flat in _flat(value.type)]
        attributes = dict(op.attributes.items())
        new = iter(ir.Operation.create(op.name, types, operands, attributes).results)
        for value in op.results:
            value.replace_all_uses_with(_packed(value.type, new))
    op.erase()


def _flatten_function(function: Any) -> None:
    inputs, results = function.type.inputs, function.type.results
    for types, key in ((inputs, "arg_attrs"), (results, "res_attrs")):
        if key in function.attributes:
            # The attributes of a tuple do not apply to its elements.
            attributes = zip(types, function.attributes[key], strict=True)
            flat = [
                ir.DictAttr.get({}) if isinstance(type_, ir.TupleType) else said
                for type_, said in attributes
                for _ in _flat(type_)
            ]
            function.attributes[key] = ir.ArrayAttr.get(flat)
    type_ = ir.FunctionType.get(
        *([flat for type_ in types for flat in _flat(type_)] for types in (inputs, results))
    )
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    if not function.operation.regions[0].blocks:
        return
    block = body_of(function)
    before = list(block.arguments)
    after = iter([block.add_argument(f, v.location) for v in before for f in _flat(v.type)])
    with ir.InsertionPoint.at_block_begin(block), function.location:
        for value in before:
            value.replace_all_uses_with(_packed(value.type, after))
            block.erase_argument(0)


def _flat(type_: ir.Type) -> Iterator[ir.Type]:
    """The types of the elements of a tuple, nested ones too; another type itself."""
    if not isinstance(type_, ir.TupleType):
        yield type_
        return
    for k in range(type_.num_types):
        yield from _flat(type_.get_type(k))


def _elements(value: ir.Value) -> Iterable[ir.Value]:
    """The values of the elements whose types :func:`_flat` gives."""
    type_ = value.type
    if not isinstance(type_, ir.TupleType):
        return [value]
    index = ir.IntegerType.get_signless(32)
    return [
        inner
        for k in range(type_.num_types)
        for inner in _elements(
            ir.Operation.create(
                _ELEMENT, [type_.get_type(k)], [value], {"index": ir.IntegerAttr.get(index, k)}
            ).result
        )
    ]


def _packed(type_: ir.Type, elements: Iterator[ir.Value]) -> ir.Value:
    """A value of a type, packed from the next elements."""
    if not isinstance(type_, ir.TupleType):
        return next(elements)
    inner = [_packed(type_.get_type(k), elements) for k in range(type_.num_types)]
    return ir.Operation.create(_TUPLE, [type_], inner).result
