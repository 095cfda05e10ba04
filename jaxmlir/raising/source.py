"""What a module of StableHLO says: types, attributes, and the values that regions capture."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.ir import captured_by, ir, is_private
from jaxmlir.dialect.types import aval_of, dtype_of, is_dynamic, type_of
from jaxmlir.errors import ImportingError, at_op


@functools.cache
def raised_type(type_: ir.Type) -> ir.Type:
    """The dialect's type for values of a StableHLO type; a number is an array without dimensions.

    Raises:
      ImportingError: the dialect has no such type.
    """
    if isinstance(type_, ir.RankedTensorType):
        element = type_.element_type
        if isinstance(element, ir.IndexType):
            element = ir.IntegerType.get_signless(64)
        if type_.encoding is not None or element != type_.element_type:
            type_ = ir.RankedTensorType.get(type_.shape, element)
        if "quant.uniform" in str(type_.element_type):
            raise ImportingError(
                f"{type_} is quantised, and JAX has no such type; expected numbers, as "
                "stablehlo-opt --stablehlo-legalize-quant-to-math makes them"
            )
        # Elements of the dialect's own types may have malformed parameters.
        aval_of(ir.RankedTensorType.get([], type_.element_type))
        return type_
    if isinstance(type_, (ir.IntegerType, ir.FloatType, ir.IndexType)):
        return raised_type(ir.RankedTensorType.get([], type_))
    if str(type_) == "!stablehlo.token":
        return ir.Type.parse("!jaxpr.token")
    advice = "; a module of the dialect is read with jaxmlir.parse"
    raise ImportingError(
        f"expected the type of a tensor or token, got {type_}"
        + advice * str(type_).startswith("!jaxpr.")
    )


def tensor(shape: Iterable[Any], element: ir.Type) -> ir.Type:
    """A tensor type of a shape whose sizes are numbers or symbolic dimensions."""
    shape = tuple(shape)
    if core.is_constant_shape(shape):
        return ir.RankedTensorType.get(list(shape), element)
    return type_of(core.ShapedArray(shape, dtype_of(element)))


def is_open(type_: ir.Type) -> bool:
    """Whether a type of the source has sizes that are not numbers, with or without bounds. In the
    dialect these are symbolic dimensions, which follow from the operands."""
    return is_dynamic(type_) and not isinstance(type_.encoding, ir.DictAttr)


def shape_of(value: ir.Value) -> tuple[Any, ...]:
    """The shape of a value: numbers, and symbolic dimensions if it is the dialect's."""
    return sizes_of(value.type)


def sizes_of(type_: ir.Type) -> tuple[Any, ...]:
    """The shape of a tensor's type.

    Raises:
      ImportingError: it is a type of the source with sizes that are not numbers.
    """
    if type_.has_static_shape:
        return tuple(type_.shape)
    if is_open(type_):
        raise ImportingError(f"the sizes of {type_} are not known; {STATIC}")
    return aval_of(type_).shape


STATIC = (
    "expected a module of static shapes, or a function of jax.export and arguments: "
    "jaxmlir.from_exported(exported, *args)"
)
"""What error messages about unknown sizes recommend."""


def attribute(op: Any, name: str, default: Any = None) -> Any:
    """An attribute of a StableHLO op as a Python value: numbers, tuples, strings."""
    attributes = op.attributes
    return python_value(attributes[name]) if name in attributes else default


@functools.cache
def python_value(attr: ir.Attribute) -> Any:
    """Numbers, strings, tuples and arrays of numbers that an attribute holds; the keyword of an
    enumeration, as ``LT`` of ``#stablehlo<... LT>``."""
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr)):
        return attr.value
    if isinstance(attr, ir.StringAttr):
        return attr.value_bytes.decode()
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
        return tuple(attr)
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return attr.value
    if isinstance(attr, ir.ArrayAttr):
        return tuple(python_value(item) for item in attr)
    if isinstance(attr, ir.DictAttr):
        return {item.name: python_value(item.attr) for item in attr}
    if isinstance(attr, ir.DenseElementsAttr):
        return codec.decode(attr)
    return str(attr).rstrip(">").rpartition(" ")[2].rpartition("<")[2]


def all_equal(array: np.ndarray, number: bytes) -> bool:
    """Whether every element of an array has the bits of a number."""
    if not any(array.strides):
        # A single broadcast element.
        array = array.reshape(-1)[:1]
    return array.tobytes() == number * array.size


class StandInOp(NamedTuple):
    """An op that its rule writes as another one: of tensors, or of another name."""

    name: str
    results: Sequence[Any]
    attributes: Mapping[str, ir.Attribute]
    regions: Sequence[Any] = ()
    location: Any = None


def named_inside(op: Any, name: str, key: str) -> StandInOp:
    """The op of a name that a composite or a custom call stands for.

    Args:
      key: the attribute of the composite or call that holds the op's own.
    """
    inner = op.attributes[key] if key in op.attributes else ()
    return StandInOp(name, op.results, {item.name: item.attr for item in inner})


def defining_op(value: ir.Value, name: str) -> Any | None:
    """The op of this name that defines a value; ``None`` if no such op does."""
    op = value.owner
    return op.operation if not isinstance(op, ir.Block) and op.name == name else None


def end_of(block: ir.Block) -> ir.Operation:
    """The op that ends a block.

    Raises:
      ImportingError: there is none; MLIR does not reject this in malformed text.
    """
    try:
        return ir.InsertionPoint.at_block_terminator(block).ref_operation
    except ValueError:
        error = ImportingError("expected a terminator at the end of the block")
        raise located(error, block.owner.operation) from None


def located(error: Exception, op: Any) -> ImportingError:
    """The error about an op of the source; an error that has a place already stays."""
    return at_op(ImportingError, error, op.name, locations.position(op.location))


class RegionCaptures(NamedTuple):
    """What regions capture from around them."""

    values: list[ir.Value]
    """The captured values, which the functions of the regions take as arguments."""
    constants: list[Any]
    """The ops of captured constants; each function repeats them, so loop bounds stay known."""
    types: Mapping[ir.Value, ir.Type] = MappingProxyType({})
    """The dialect's types of values whose sizes are not numbers."""
    sizes: Mapping[ir.Value, Any] = MappingProxyType({})
    """Captured values of symbolic dimensions, which each function computes again."""


def outer_of(blocks: Sequence[ir.Block]) -> RegionCaptures:
    """What some blocks capture from around them, in their ops and in nested regions."""
    values: dict[ir.Value, None] = {}
    constants: dict[Any, None] = {}
    for value in captured_by(blocks):
        ops = _constant_ops(value)
        if ops is None:
            values[value] = None
        else:
            constants.update(dict.fromkeys(ops))
    return RegionCaptures(list(values), list(constants))


def constants_around(block: ir.Block) -> RegionCaptures:
    """What a block captures from around it, if these are only constants.

    Raises:
      ImportingError: it captures other values.
    """
    outer = outer_of([block])
    if outer.values:
        raise ImportingError("expected a region that uses no values from outside")
    return outer


def _constant_ops(value: ir.Value) -> list[Any] | None:
    """The ops that define a constant, broadcast or not; ``None`` for another value."""
    if (op := defining_op(value, "stablehlo.constant")) is not None:
        return [op]
    if (op := defining_op(value, "stablehlo.broadcast_in_dim")) is not None:
        inner = _constant_ops(op.operands[0])
        return None if inner is None else [*inner, op]
    return None


def public_functions(source: Mapping[str, Any]) -> list[str]:
    """The functions that may be called from outside of their module: ``main``, or if there is none
    all that are not private."""
    public = [name for name, op in source.items() if not is_private(op)]
    return ["main"] if "main" in public else public
