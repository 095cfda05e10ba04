"""``jaxpr-select-early``: elements selected before they are computed with, not after.

Of ``log(softmax(x))[i, labels[i]]`` a handful of elements is wanted, and so of each value on the
way.  A program that is only run has its compiler compute no more than these.  Its derivative is
another matter: the cotangent of every value on the way has all elements, most of them zero, and is
written, multiplied and added up as a whole.  Selected first,

    log(exp(x) / s)[idx]   ->   log(exp(x[idx]) / s[idx])

the cotangents are as small as what was selected, up to the last one, that of ``x``.

A slice, a gather or a ``dynamic_slice`` moves from the result of elementwise ops to the values that
these are made of, as far as they go.  What the elements are computed by does not change, and so no
bit of the result does.  Only a value of which all that is used is selected has a small cotangent
then; selections of others stay where they are.  A value further up that others need as a whole is
computed as a whole too; so selections move only where they take a small part, by ``FACTOR``, of
what is computed.

A gather that fills what is out of bounds has that filled in the end.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._base import Count, Pass
from jaxmlir.passes._build import converted, drop_dead_ops, ops_of
from jaxmlir.passes._call_graph import outside_kernels
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import ELEMENTWISE, is_plain_array, is_plain_op, with_shape
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

# In how many times the time of adding two elements one is gathered, and its cotangent scattered to
# where it came from: on a CPU core, of 2^20 floats 2^15 to 2^17, 4 to 10 ns against 0.3 to 0.45.
FACTOR = 16


class SelectEarly(Pass):
    """Select elements before elementwise ops, not after, where few are selected.

    Options:
      factor: how many times more elements a value must have than are selected of it.
    """

    name: ClassVar[str] = "jaxpr-select-early"
    factor: Count = FACTOR

    def run(self, program: Program) -> None:
        select_early(program, self.factor)


def select_early(program: Program, factor: int = FACTOR) -> int:
    """Moves selections in front of elementwise ops, in place; how many."""
    with scope():
        rules = Rules(program)
        count = sum(
            _Function(rules, function, factor).move() for function in outside_kernels(program)
        )
    program.changed()
    return count


@dataclass(frozen=True)
class Selection:
    """What a slice, a gather or a dynamic slice selects; hashable.

    Attributes:
      name: of the primitive.
      shape: of what it selects from.
      result: the shape of what it gives.
      params: its parameters, by name.
    """

    name: str
    shape: tuple[int, ...]
    result: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(node: OpNode) -> Selection:
        shape, result = (
            aval_of(v.type).shape for v in (node.operands[0], node.op.operation.results[0])
        )
        params = tuple((name, node.get(name)) for name in sorted(node.attributes))
        return Selection(node.name.removeprefix("jaxpr."), shape, result, params)

    def __call__(self, array: Any, *indices: Any) -> Any:
        """The elements of an array; a dimension of size 1 is one that is repeated."""
        params = dict(self.params)
        whole = [have == want for have, want in zip(array.shape, self.shape, strict=True)]
        select = {"slice": _slice, "dynamic_slice": _dynamic_slice, "gather": _gather}[self.name]
        found = select(array, whole, self.shape, indices, params)
        if found.shape == self.result:
            return found
        return lax.broadcast_in_dim(found, self.result, range(found.ndim))

    @property
    def fills(self) -> bool:
        return dict(self.params).get("mode") == lax.GatherScatterMode.FILL_OR_DROP

    def filled(self, array: Any, indices: Any) -> Any:
        """What was gathered, with what is out of bounds replaced."""
        params = dict(self.params)
        numbers, fill = params["dimension_numbers"], params.get("fill_value")
        last = [self.shape[d] - params["slice_sizes"][d] for d in numbers.start_index_map]
        last = np.minimum(last, np.iinfo(indices.dtype).max).astype(indices.dtype)
        inside = lax.bitwise_and(
            lax.ge(indices, lax.full_like(indices, 0)),
            lax.le(indices, lax.broadcast(last, indices.shape[:-1])),
        )
        inside = lax.reduce(inside, np.True_, lax.bitwise_and, (indices.ndim - 1,))
        dims = [d for d in range(array.ndim) if d not in numbers.offset_dims]
        inside = lax.broadcast_in_dim(inside, array.shape, dims)
        return lax.select(inside, array, lax.full_like(array, np.nan if fill is None else fill))


def _slice(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    starts, limits = params["start_indices"], params["limit_indices"]
    strides = params.get("strides") or (1,) * len(starts)
    bounds = [
        (start, limit, stride) if here else (0, 1, 1)
        for start, limit, stride, here in zip(starts, limits, strides, whole, strict=True)
    ]
    if bounds == [(0, size, 1) for size in array.shape]:
        return array
    starts, limits, strides = zip(*bounds, strict=True)
    return lax.slice(array, starts, limits, None if set(strides) == {1} else strides)


def _dynamic_slice(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    sizes = [n if here else 1 for n, here in zip(params["slice_sizes"], whole, strict=True)]
    # By the primitive: the function adds the array's size to negative starts.
    return lax.dynamic_slice_p.bind(array, *indices, slice_sizes=tuple(sizes))


def _gather(array: Any, whole: Any, shape: Any, indices: Any, params: Any) -> Any:
    numbers, mode = params["dimension_numbers"], params["mode"]
    batch = numbers.operand_batching_dims
    if any(not whole[d] for d in batch):
        full = [shape[d] if d in batch else n for d, n in enumerate(array.shape)]
        array = lax.broadcast_in_dim(array, full, range(array.ndim))
    sizes = [n if here else 1 for n, here in zip(params["slice_sizes"], whole, strict=True)]
    same = all(whole)
    keeps_bounds = same and mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(
        array,
        indices[0],
        numbers,
        sizes,
        # Where a dimension is repeated, every index reads its one element.
        mode=mode if keeps_bounds else lax.GatherScatterMode.CLIP,
        unique_indices=same and bool(params.get("unique_indices")),
        indices_are_sorted=same and bool(params.get("indices_are_sorted")),
    )


class _Function:
    """Moves the selections of one function."""

    def __init__(self, rules: Rules, function: func.FuncOp, factor: int):
        self._rules = rules
        self._function = function
        self._factor = factor
        self._nodes: dict[ir.Value, OpNode] = {}
        self._selections: list[OpNode] = []
        # How many elements all selections of a value take together.
        self._selected: Counter[ir.Value] = Counter()
        for op, name, operands in ops_of(function):
            node = OpNode(op, name, operands)
            if name in ELEMENTWISE or name == "jaxpr.broadcast_in_dim":
                self._nodes[op.results[0]] = node
            elif name in _SELECTING and _may_move(node):
                self._selections.append(node)
                self._selected[operands[0]] += _size(op.results[0])

    def move(self) -> int:
        """Moves what there is; how many selections."""
        count = 0
        for node in reversed(self._selections):
            users = [use.owner.name for use in node.operands[0].uses]
            if not _SELECTING.issuperset(users):
                continue
            inner, leaves = self._tree(node)
            taken = _size(node.op.results[0]) * (len(inner) + len(leaves))
            if not inner or self._factor * taken > sum(map(_size, inner)):
                continue
            remark(
                node.op,
                f"'{node.name}' selects {_size(node.op.results[0])} elements before "
                f"{len(inner)} ops on {_size(node.operands[0])}",
            )
            self._write(node, inner, leaves)
            count += 1
        if count:
            drop_dead_ops(self._function)
        return count

    def _tree(self, selection: OpNode) -> tuple[list[ir.Value], list[ir.Value]]:
        """The values that are computed from selected elements, each after those that it is made
        of, and the values that these are selected from."""
        least = self._factor * _size(selection.op.results[0])
        shape = aval_of(selection.operands[0].type).shape
        inner: dict[ir.Value, None] = {}
        leaves: dict[ir.Value, None] = {}
        pending = [(selection.operands[0], False)]
        while pending:
            value, done = pending.pop()
            if done:
                inner[value] = None
            elif value not in inner and value not in leaves:
                node = self._nodes.get(value)
                if (
                    node is None
                    or aval_of(value.type).shape != shape
                    or max(least, self._factor * self._selected[value]) > _size(value)
                    or not _is_plain(node)
                ):
                    leaves[value] = None
                    continue
                pending.append((value, True))
                if node.name in ELEMENTWISE:
                    pending += [(v, False) for v in node.operands if aval_of(v.type).shape]
        return list(inner), list(leaves)

    def _write(self, node: OpNode, inner: list[ir.Value], leaves: list[ir.Value]) -> None:
        """Puts what is computed of selected elements in the place of a selection."""
        selection, (old,) = Selection.of(node), node.op.results
        indices = node.operands[1:]
        with ir.InsertionPoint(node.op), node.op.location:
            values = {v: self._emit(selection, selection, v, indices) for v in leaves}
            for v in inner:
                values[v] = self._computed(selection, v, values, indices)
            value = values[node.operands[0]]
            if selection.fills:
                (value,) = self._rules.emit(
                    lambda *xs: [selection.filled(*xs)], [value, *indices], (selection, "filled")
                )
            value = converted(value, old.type)
        old.replace_all_uses_with(value)
        node.op.operation.erase()

    def _computed(
        self, selection: Selection, value: ir.Value, values: dict[ir.Value, ir.Value], indices: Any
    ) -> ir.Value:
        node = self._nodes[value]
        if node.name == "jaxpr.broadcast_in_dim":
            dims = node.get("broadcast_dimensions")
            spread = _Spread(selection, tuple(dims))
            return self._emit(selection, spread, node.operands[0], indices, value.type)
        operands = [values.get(v, v) for v in node.operands]
        (result,) = ir.Operation.create(
            node.name, [with_shape(value.type, selection.result)], operands, node.attributes
        ).results
        return result

    def _emit(
        self,
        selection: Selection,
        select: Any,
        value: ir.Value,
        indices: list[ir.Value],
        type_: ir.Type | None = None,
    ) -> ir.Value:
        (found,) = self._rules.emit(lambda *xs: [select(*xs)], [value, *indices], select)
        return converted(found, with_shape(type_ or value.type, selection.result))


@dataclass(frozen=True)
class _Spread:
    """A selection from an array that is broadcast."""

    selection: Selection
    dims: tuple[int, ...]

    def __call__(self, array: Any, *indices: Any) -> Any:
        if not self.dims:
            return lax.broadcast_in_dim(array, self.selection.result, ())
        sizes = [1] * len(self.selection.shape)
        for d, size in zip(self.dims, array.shape, strict=True):
            sizes[d] = size
        return self.selection(lax.broadcast_in_dim(array, sizes, self.dims), *indices)


_SELECTING = frozenset({"jaxpr.slice", "jaxpr.dynamic_slice", "jaxpr.gather"})


def _may_move(node: OpNode) -> bool:
    """Whether a selection can be made of other values than its operand."""
    (result,) = node.op.results
    if not _is_plain(node) or not _size(result):
        return False
    if node.name != "jaxpr.gather":
        return True
    mode, fill = node.get("mode"), node.get("fill_value")
    if mode == lax.GatherScatterMode.FILL_OR_DROP:
        return fill is not None or dtypes.issubdtype(aval_of(result.type).dtype, np.inexact)
    return mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _is_plain(node: OpNode) -> bool:
    """Whether an op can be computed of selected elements: of arrays, but not of random keys."""
    values = (*node.operands, *node.op.results)
    return is_plain_op(node) and not any(
        isinstance(aval_of(v.type).dtype, dtypes.ExtendedDType) for v in values
    )


def _size(value: ir.Value) -> int:
    return math.prod(aval_of(value.type).shape) if is_plain_array(value.type) else 0
