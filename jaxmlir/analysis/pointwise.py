"""Ops that compute each element of their result from one element of each operand.

The output of JAX's rules for such an op does not depend on its shape.  Programs use a few dozen of
these ops at many shapes, so the rules run for one shape.  Their output is rewritten for the other
shapes in a tenth of the time, provided that it has only ops known not to depend on the shape.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait

ELEMENTWISE = with_trait(Trait.ELEMENTWISE)
"""The elementwise ops of the dialect."""

_STABLEHLO = """
    abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide
    exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum
    multiply negate not or popcnt power real reduce_precision remainder round_nearest_afz
    round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign sine
    sqrt subtract tan tanh xor
"""
_CHLO = """
    acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc is_inf is_neg_inf
    is_pos_inf lgamma next_after polygamma sinh square tan zeta
"""

Shape = tuple[int, ...]


class PointwiseKind(NamedTuple):
    """The kind of a signature: everything but the shape."""

    key: Any
    shape: Shape
    """The shape of the operands and results that are not scalars."""

    @property
    def text(self) -> str:
        """The key as text, the same in every process."""
        name, attributes, arity, elements = self.key
        parts = [name, *(f"{key}={attr}" for key, attr in attributes), arity]
        return "\n".join(map(str, (*parts, *itertools.chain(*elements))))


@functools.cache
def kind_of(signature: Signature) -> PointwiseKind | None:
    """The kind of a signature's ops; ``None`` for ops that are not pointwise, act on scalars only,
    or have array types with more than shape, element type and weak type."""
    if signature.name not in ELEMENTWISE:
        return None
    types = (*signature.operands, *signature.results)
    shapes = {_shape(t) for t in types}
    arrays = shapes - {()}
    if None in shapes or len(arrays) != 1:
        return None
    elements = tuple((t.element_type, t.encoding, t.rank > 0) for t in types)
    key = (signature.name, signature.attributes, len(signature.operands), elements)
    return PointwiseKind(key, arrays.pop())


def _shape(type_: ir.Type) -> Shape | None:
    """The shape of a plain array of known shape on no mesh; ``None`` for other types."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    encoding = type_.encoding
    if encoding is not None and [item.name for item in encoding] != ["weak_type"]:
        return None
    return tuple(type_.shape)


def reshaped(function: ir.Operation, old: Shape, new: Shape) -> ir.Operation | None:
    """A detached copy of a function, in this dialect or in StableHLO, in which arrays have shape
    ``new`` instead of ``old``; ``None`` if there are arrays of a third shape, or an op may depend
    on the shape."""
    types: dict[ir.Type, ir.Type | None] = {}

    def of(type_: ir.Type) -> ir.Type | None:
        if type_ not in types:
            shape = _shape(type_)
            types[type_] = _with_shape(type_, new) if shape == old else None
            if shape == ():
                types[type_] = type_
        return types[type_]

    ops = list(function.regions[0].blocks[0])
    arguments = list(function.regions[0].blocks[0].arguments)
    attributes = [_reshaped_attributes(op, new) for op in ops]
    values = itertools.chain(arguments, *(op.results for op in ops))
    if None in attributes or any(of(v.type) is None for v in values):
        return None
    type_ = ir.FunctionType.get(
        [of(v.type) for v in arguments], [of(v.type) for v in ops[-1].operands]
    )
    copy = ir.Operation.create(
        "func.func",
        attributes=dict(function.attributes.items()) | {"function_type": ir.TypeAttr.get(type_)},
        regions=1,
        loc=function.location,
        ip=False,
    )
    block = copy.regions[0].blocks.append(*type_.inputs, arg_locs=[v.location for v in arguments])
    copies = dict(zip(arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op, attrs in zip(ops, attributes, strict=True):
            results = [of(v.type) for v in op.results]
            operands = [copies[v] for v in op.operands]
            again = ir.Operation.create(op.name, results, operands, attrs, loc=op.location)
            copies.update(zip(op.results, again.results, strict=True))
    return copy


def _with_shape(type_: ir.Type, shape: Shape) -> ir.Type:
    return ir.RankedTensorType.get(shape, type_.element_type, type_.encoding)


def _reshaped_attributes(op: Any, shape: Shape) -> dict[str, ir.Attribute] | None:
    """The attributes of an op for another shape; ``None`` if the op may depend on the shape."""
    attributes = dict(op.attributes.items())
    if "sharding" in attributes and attributes["sharding"] != codec.encode(None):
        return None  # It has an entry for each dimension.
    if op.name in _KEEPING:
        return attributes
    if op.name in _SPREADING and not any(map(_rank, op.operands)) and attributes.keys() <= _SPREAD:
        return attributes | {key: codec.encode(shape) for key in attributes if key == "shape"}
    if op.name in _CONSTANTS and not any(map(_rank, op.results)):
        return attributes
    return None


def _rank(value: ir.Value) -> int:
    return value.type.rank


# Ops whose result has the shape of their operands; broadcasts, which qualify with scalar operands;
# constants, which qualify as scalars.
_KEEPING = (
    ELEMENTWISE
    | {"func.return"}
    | {f"stablehlo.{name}" for name in _STABLEHLO.split()}
    | {f"chlo.{name}" for name in _CHLO.split()}
)
_SPREADING = frozenset({"jaxpr.broadcast_in_dim", "stablehlo.broadcast_in_dim"})
_SPREAD = frozenset({"broadcast_dimensions", "shape"})
_CONSTANTS = frozenset({"jaxpr.constant", "stablehlo.constant"})
