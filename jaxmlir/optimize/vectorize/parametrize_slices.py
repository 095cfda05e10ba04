"""Slices that are of another place in each block, as ``logits[label]`` is where labels are numbers.

Static indices are attributes, by which blocks that are alike would differ.  As constants they are
operands of a ``dynamic_slice``, and those of all blocks are put together, like other constants.
``jaxpr-canonicalize`` makes slices again of what has stayed alone.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import is_plain_signature
from jaxmlir.analysis.repeated_blocks import op_string_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import build, erase
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import type_of

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# How many blocks there are at least.
MIN_BLOCKS = 4

_SLICE = "jaxpr.slice"
_INDEX = core.ShapedArray((), np.dtype(np.int32))


def with_dynamic_slices(
    program: Module, body: FunctionView, search: Callable[[FunctionView], int]
) -> int:
    """What a search finds in a function in which such slices are dynamic ones: how many changes it
    made.  Without any the function stays as it is.

    Args:
      search: reads a function, and changes it.
    """
    own = _own_slices(body)
    if not own:
        return search(body)
    attributes = [dict(op.attributes.items()) for op in own]
    dynamic = [_as_dynamic(op) for op in own]
    count = search(FunctionView(body.function))
    if not count:
        for op, of_slice in zip(dynamic, attributes, strict=True):
            _as_static(op, of_slice)
        # The same text, but other ops than have been read.
        program.changed()
    return count


def _own_slices(body: FunctionView) -> list[Any]:
    """The slices of one size of values of one type, each of a value of its own, that are of
    different places in these; not of arguments, which are no part of a block."""
    if _SLICE not in body.names:
        return []
    alike: dict[tuple[ir.Type, ...], list[int]] = collections.defaultdict(list)
    for i in op_string_of(body).index:
        signature = body.signatures[i]
        if signature.name == _SLICE and _is_dense(signature):
            alike[signature.types].append(i)
    return [
        body.ops[i]
        for indices in alike.values()
        if len(indices) >= MIN_BLOCKS
        and len({body.operands[i][0] for i in indices}) == len(indices)
        and len({body.signatures[i] for i in indices}) > 1
        for i in indices
    ]


def _is_dense(signature: Signature) -> bool:
    """Whether a slice leaves out nothing between where it begins and ends, of a known shape."""
    strides = (codec.decode(attr) for name, attr in signature.attributes if name == "strides")
    return is_plain_signature(signature) and all(set(steps or ()) <= {1} for steps in strides)


def _as_dynamic(op: Any) -> Any:
    """Writes a ``dynamic_slice`` in the place of a slice."""
    (x,), (result,) = op.operands, op.results
    with ir.InsertionPoint(op), op.location:
        starts = [_constant(start) for start in codec.decode(op.attributes["start_indices"])]
        sizes = tuple(result.type.shape)
        new = build("dynamic_slice", [x, *starts], result.type, slice_sizes=sizes)
    result.replace_all_uses_with(new)
    op.operation.erase()
    return new.owner


def _as_static(op: Any, attributes: dict[str, ir.Attribute]) -> None:
    """Undoes :func:`_as_dynamic`, of a slice of those attributes."""
    x, *indices = op.operands
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(_SLICE, [op.result.type], [x], attributes).result
    op.result.replace_all_uses_with(new)
    for dead in (op, *(v.owner for v in indices)):
        erase(dead)


def _constant(number: int) -> ir.Value:
    return build("constant", [], type_of(_INDEX), value=np.array(number, np.int32))
