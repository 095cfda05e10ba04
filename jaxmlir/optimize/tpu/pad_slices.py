"""``jaxpr-pad-slices``: what is cut off an array and put to another place is padded by less than
nothing.

A step on a periodic grid reads its neighbours, ``roll(x, 1)``, two slices that are put together::

    concatenate(x[n-1:], x[:n-1])    ->    pad(x, 1 - n, n - 1) + pad(x, 1, -1)

and its derivative pads the slices that it splits off::

    pad(x[k:], 0, k)    ->    pad(x, -k, k)

A TPU's compiler fuses ``pad`` with the arithmetic around it, also one that cuts off what its edge
of a negative width says.  But a slice that is padded is a kernel of its own, and a concatenation is
compiled to padded operands.  Each operand of a concatenation is padded with negative zeros here:
no bit of a sum with them changes.

Cycles of a step, forwards and of its gradient, as parts of those of slices (libtpu 0.0.42)::

    2-D periodic, 64 x 64      0.25, 0.38        Lorenz-96, 40         0.25, 0.32
    512 x 512                  0.64, 0.73        20,000                0.35, 0.52

Each operand is computed for all elements of the result: that has to take less time than the kernels
of the slices.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.op_counts import elements, is_plain_array, is_plain_op
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import count
from jaxmlir.optimize.cpu.pad_stencils import MOVES, Moves, padded
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import COMPILERS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

Edges = tuple[tuple[int, int], ...]


class PadSlices(Pass):
    """Write slices that are padded or put together as arrays with edges of negative width."""

    name: ClassVar[str] = "jaxpr-pad-slices"
    compilers: ClassVar[tuple[str, ...]] = COMPILERS[name]
    partitioned: ClassVar[bool] = False

    def run(self, program: Module) -> bool:
        rules = Rules(program)

        def pad(function: func.FuncOp) -> int:
            moves = Moves(program, function)
            return sum(_write(rules, moves, node) for node in moves.order)

        return rewrite_functions(program, MOVES, pad) > 0


def _write(rules: Rules, moves: Moves, node: OpView) -> bool:
    """Writes a padded slice, or a concatenation of slices, without these, if that pays."""
    (y,) = node.op.results
    if not is_plain_op(node) or not is_plain_array(y.type):
        return False
    is_pad = node.name == "jaxpr.pad"
    found = _padded(moves, node) if is_pad else _concatenated(moves, node)
    if found is None or not (is_pad or _pays(found, y.type, rules.program.target.costs)):
        return False
    operands = [found.arrays[0], node.operands[1]] if is_pad else found.arrays
    remark(
        node.op,
        f"without {count(found.slices, 'slice')}: edges of negative width cut off the same, in the "
        "kernel that reads this",
    )
    with ir.InsertionPoint(node.op), node.op.location:
        form = functools.partial(padded, edges=found.edges[0])
        if not is_pad:
            form = functools.partial(_sum, edges=found.edges)
        (value,) = rules.emit(form, operands)
        y.replace_all_uses_with(converted(value, y.type))
    return True


class _Padded(NamedTuple):
    """Arrays with their edges, and how many of them were slices of arrays before."""

    arrays: list[ir.Value]
    edges: tuple[Edges, ...]
    slices: int


def _padded(moves: Moves, node: OpView) -> _Padded | None:
    """``pad`` of a slice, which shows nothing that the slice has cut off."""
    if any(interior for *_, interior in node.get("padding_config")):
        return None
    edges = tuple((low, high) for low, high, _ in node.get("padding_config"))
    whole = _whole(moves, node.operands[0], edges)
    return None if whole is None else _Padded([whole[0]], (whole[1],), 1)


def _concatenated(moves: Moves, node: OpView) -> _Padded | None:
    """``concatenate``, at least one of whose operands is a slice that can be padded."""
    dtype = aval_of(node.op.results[0].type).dtype
    if isinstance(dtype, dtypes.ExtendedDType) or dtype == np.bool_:
        return None
    dim, total = int(node.get("dimension")), node.op.results[0].type.shape
    arrays, all_edges, start, slices = [], [], 0, 0
    for value in node.operands:
        shape = value.type.shape
        edges = [(0, 0)] * len(shape)
        edges[dim] = start, total[dim] - start - shape[dim]
        start += shape[dim]
        whole = _whole(moves, value, edges)
        slices += whole is not None
        array, edges = whole or (value, tuple(edges))
        arrays.append(array)
        all_edges.append(edges)
    return _Padded(arrays, (*all_edges,), slices) if slices else None


def _whole(moves: Moves, value: ir.Value, edges: Sequence[tuple[int, int]]) -> tuple | None:
    """The array that a padded value is a slice of, and the edges of that."""
    part = moves.part(value)
    if part is None or not part.partial_dims:
        return None
    found = []
    for (low, high), first, limit, size in zip(
        edges, part.starts, part.limits, part.array.type.shape, strict=True
    ):
        if (first and low > 0) or (limit != size and high > 0):
            return None
        found.append((low - first, high - (size - limit)))
    return part.array, (*found,)


def _pays(found: _Padded, type_: ir.Type, costs: Costs) -> bool:
    """Whether kernels of slices take longer than padding each operand to the size of the result."""
    return elements(type_) * len(found.arrays) * costs.flop < found.slices * costs.launch


def _sum(*xs: Any, edges: tuple[Edges, ...]) -> list[Any]:
    """The sum of arrays that are zero where another one is not."""
    # Of integers, it is a zero.
    zero = np.negative(np.zeros((), xs[0].dtype))
    parts = (padded(x, zero, edges=of_x)[0] for x, of_x in zip(xs, edges, strict=True))
    return [functools.reduce(lax.add, parts)]
