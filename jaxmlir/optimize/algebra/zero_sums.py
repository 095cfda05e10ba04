"""``jaxpr-zero-sums``: terms of a sum that add up to zero are not computed for it.

Deviations from a mean add up to zero, also if all of them are scaled by the same number::

    sum(g + c * (x - mean(x)))    ->    sum(g)

The derivative of a normalization, of a batch or of a layer, contains such a sum: that of the
derivatives with respect to the mean, which ``x - mean(x)`` and the variance subtract.  The part of
the variance is zero.  It does not only cost its terms: ``c`` is computed from another sum over the
same elements, so that this sum would have to wait for it.  The sum of the other terms can be
computed together with those for ``c``, in one kernel.

Here ``c`` is any product of values that are the same for all elements of which the mean is taken.
The sum may run over more dimensions than the mean.

The identity holds for all ``x``, so derivatives of all orders stay as they are; they only lose the
rounding errors of the zeros.  A NaN of such a term is left out, too, as by ``jaxpr-reassociate``.
Floats of less than four bytes are left alone: their means are rounded so much that the deviations
do not add up to zero.

Cycles of gradients on a TPU (libtpu 0.0.42), as fractions of those with such terms: three layers
with batch normalization 0.85, an LSTM with layer normalization 0.91, networks on points and graphs
0.97 and 0.98.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, node_of, ops_of
from jaxmlir.analysis.index_maps import Dims, IndexingMaps, maps_of
from jaxmlir.analysis.op_counts import is_narrow, is_plain_op
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import zeros
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of, shape_of
from jaxmlir.errors import count
from jaxmlir.optimize.algebra.shift_invariance import real_number
from jaxmlir.optimize.vectorize.stacking import added
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions

_SUM, _PRODUCTS = "jaxpr.reduce_sum", ("jaxpr.mul", "jaxpr.div")
_SUMMED = with_trait(Trait.ADDITIVE) | {"jaxpr.neg"}
# Sums of more terms are left alone, and factors of more ops are not looked through.
MAX_TERMS, MAX_OPS = 8, 16


class ZeroSums(Pass):
    """Leave terms out of sums that add up to zero: scaled deviations from a mean."""

    name: ClassVar[str] = "jaxpr-zero-sums"

    def run(self, program: Module) -> bool:
        def leave_out(function: func.FuncOp) -> int:
            return sum(_write(node) for node in ops_of(function) if node.name == _SUM)

        return rewrite_functions(program, NEEDED_OPS[self.name], leave_out) > 0


def _write(node: OpView) -> bool:
    """Leaves out the terms of a sum that add up to zero; returns whether there are any."""
    (value,), (total,) = node.operands, node.op.results
    dtype = aval_of(total.type).dtype
    if not is_plain_op(node) or not dtypes.issubdtype(dtype, np.floating) or is_narrow(dtype):
        return False
    summed = frozenset(node.get("axes"))
    terms = _terms(value)
    left = [term for term in terms if not _adds_up_to_zero(term[0], summed)]
    if len(left) == len(terms):
        return False
    remark(node.op, f"left out {count(len(terms) - len(left), 'term')}: deviations from a mean")
    with ir.InsertionPoint(node.op), node.op.location:
        if not left:
            total.replace_all_uses_with(zeros(total.type))
            return True
        (first, negative), *others = left
        if negative:
            first = ir.Operation.create("jaxpr.neg", [first.type], [first]).result
        for term, negative in others:
            first = added(first, term, negative)
        attributes = node.attributes
        new = ir.Operation.create(_SUM, [total.type], [first], attributes).result
    total.replace_all_uses_with(new)
    return True


def _terms(value: ir.Value) -> list[tuple[ir.Value, bool]]:
    """The terms of a value, each with whether it is subtracted; the value itself if there are too
    many."""
    terms, pending = [], [(value, False)]
    while pending:
        term, negative = pending.pop()
        node = node_of(term)
        if node is None or node.name not in _SUMMED or not _is_elementwise(node):
            terms.append((term, negative))
        else:
            signs = [negative, negative]
            signs[-1] ^= node.name in ("jaxpr.sub", "jaxpr.neg")
            pending += reversed([*zip(node.operands, signs[-len(node.operands) :], strict=True)])
        if len(terms) + len(pending) > MAX_TERMS:
            return [(value, False)]
    return terms


def _is_elementwise(node: OpView) -> bool:
    """Whether the operands are plain arrays of the type of the result, none of them broadcast."""
    return is_plain_op(node) and {v.type for v in node.operands} == {node.op.results[0].type}


def _adds_up_to_zero(value: ir.Value, summed: frozenset[int]) -> bool:
    """Whether a value is a scaled deviation from a mean, taken over some of the summed dimensions
    of which the scale does not depend."""
    pending: list[tuple[ir.Value, tuple[ir.Value, ...]]] = [(value, ())]
    for _ in range(MAX_OPS):
        if not pending:
            return False
        scaled, factors = pending.pop()
        node = node_of(scaled)
        if node is None or shape_of(scaled) != shape_of(value) or not is_plain_op(node):
            continue
        match node.name, node.operands:
            case "jaxpr.sub", _:
                taken = _dims_of_mean(node)
                if taken and taken <= summed and all(_is_constant(v, taken) for v in factors):
                    return True
            case "jaxpr.neg", [x]:
                pending.append((x, factors))
            case "jaxpr.div", [x, y]:
                pending.append((x, (*factors, y)))
            case "jaxpr.mul", [x, y]:
                pending += [(x, (*factors, y)), (y, (*factors, x))]
    return False


def _maps_of(node: OpView) -> IndexingMaps | None:
    return maps_of(op_signature.of_op(node.op, node.name, node.operands))


def _dims_of_mean(difference: OpView) -> frozenset[int] | None:
    """The dimensions over which a mean is taken, if a difference is of an array and its mean."""
    maps = _maps_of(difference)
    if maps is None:
        return None
    pairs = [*zip(difference.operands, maps.operands, strict=True)]
    for (x, of_x), (mean, of_mean) in (pairs, pairs[::-1]):
        if of_x == maps.results[0] and (taken := _mean_of(mean, of_mean, x, of_x)):
            return taken
    return None


def _mean_of(mean: ir.Value, dims: Dims, x: ir.Value, of_x: Dims) -> frozenset[int] | None:
    """The dimensions of ``x`` over which a value is its mean; ``None`` if it is not.

    Args:
      dims, of_x: for each dimension of the two values, the loop of the op that subtracts one from
        the other; ``None`` for those of size 1 that are broadcast.
    """
    scale = 1.0
    for _ in range(MAX_OPS):
        node = node_of(mean)
        maps = _maps_of(node) if node is not None else None
        if maps is None:
            return None
        numbers = [real_number(v) for v in node.operands]
        kept = 1 if node.name == "jaxpr.mul" and numbers[0] else 0
        dims = _moved(dims, maps.results[0], maps.operands[kept])
        if node.name == _SUM:
            taken = frozenset(node.get("axes"))
            if node.operands[0] != x:
                return None
            scale *= math.prod(shape_of(x)[d] for d in taken)
            precision = 4 * float(dtypes.finfo(aval_of(x.type).dtype).eps)
            pairs = enumerate(zip(dims, of_x, strict=True))
            is_aligned = all(a == b for d, (a, b) in pairs if d not in taken)
            is_mean = math.isclose(scale, 1.0, rel_tol=precision)
            return taken if is_mean and is_aligned else None
        if node.name in _PRODUCTS and (number := numbers[1 - kept]):
            scale *= 1 / number if node.name == "jaxpr.div" else number
        elif node.name not in _MOVES:
            return None
        mean = node.operands[kept]
    return None


_MOVES = with_trait(Trait.VIEW) | {"jaxpr.broadcast_in_dim"}


def _moved(dims: Dims, of_result: Dims, of_operand: Dims) -> Dims:
    """What is known of each dimension of a result, for the dimensions of the operand."""
    known = {loop: d for loop, d in zip(of_result, dims, strict=True) if loop is not None}
    return tuple(known.get(loop) if loop is not None else None for loop in of_operand)


def _is_constant(value: ir.Value, dims: Iterable[int]) -> bool:
    """Whether elements of a value that differ along these dimensions only are the same."""
    pending: list[tuple[ir.Value, Sequence[int]]] = [(value, [*dims])]
    for _ in range(MAX_OPS):
        if not pending:
            return True
        value, along = pending.pop()
        shape = shape_of(value)
        along = [d for d in along if shape and shape[d] != 1]
        if not along:
            continue
        node = node_of(value)
        maps = _maps_of(node) if node is not None and len(node.op.results) == 1 else None
        if maps is None or None in (loops := {maps.results[0][d] for d in along}):
            return False
        for operand, of_operand in zip(node.operands, maps.operands, strict=True):
            pending.append((operand, [d for d, loop in enumerate(of_operand) if loop in loops]))
    return False
