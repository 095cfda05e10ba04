"""Stacking separate values as the rows of one array, and slicing arrays into their rows.

Values that are windows of one array are read from this array: rows, columns, tiles and sliding
windows are slices of it that differ in their start indices only.  If the starts are evenly spaced
along the dimensions, in the order of nested loops, the windows are read without a gather.  Windows
of length ``l`` at distance ``s`` are made of ``ceil(l / s)`` pieces.  Each piece is a slice of the
array after it is cut at every ``s``-th element::

    stack(x[0:3], x[2:5], x[4:7])  ->  b = reshape(pad(x[0:7]), (4, 2))
                                       concatenate(b[0:3], b[1:4], 1)[:, :3]
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir._compat import dtypes
from jaxmlir.analysis.strided_view import SLICES, StridedView
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.higher_order.loops import stacked

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def stack(rules: Rules, values: Sequence[ir.Value]) -> ir.Value:
    """Stacks values of one type at the insertion point: as a constant if all are constants, from
    the array of which they are windows if there is one, else by concatenation."""
    type_ = stacked(values[0].type, len(values))
    constants = [toolbox.constant_value(rules.program, v) for v in values]
    if all(k is not None for k in constants):
        return toolbox.constant(rules.program, _stack_known(constants), type_)
    windows = Windows.of(values)
    if windows is not None:
        return windows.array if windows.are_rows else windows.write(rules)
    return stack_along(rules, values, 0)


def stack_along(rules: Rules, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Stacks values of one type along a new dimension, always by concatenation."""
    return rules.emit(functools.partial(_stack, axis=axis), values)[0]


def rows_of(rules: Rules, array: ir.Value) -> list[ir.Value]:
    """The rows of an array by one ``split``, whose transpose is also one op."""
    return rules.emit(_rows, [array])


def row_of(rules: Rules, array: ir.Value, index: int, axis: int = 0) -> ir.Value:
    """One row of an array, along a dimension."""
    return rules.emit(functools.partial(_row, index=index, axis=axis), [array])[0]


def total_of(rules: Rules, array: ir.Value) -> ir.Value:
    """The sum of the rows of an array; a sum of nothing but negative zeros is a positive zero, as
    that of every ``jaxpr.reduce_sum``."""
    return rules.emit(_total, [array])[0]


def added(total: ir.Value, value: ir.Value, negative: bool) -> ir.Value:
    """A sum with a value added or subtracted, in the type of the sum."""
    name = "jaxpr.sub" if negative else "jaxpr.add"
    operands = [total, converted(value, total.type)]
    return ir.Operation.create(name, [total.type], operands).result


JOINS = {"jaxpr.concatenate": "dimension", "jaxpr.stack": "axis"}
"""Ops that join values, each with the name of its attribute for the dimension."""


def joined(rules: Rules, array: ir.Value, op: Any, name: str) -> ir.Value:
    """The rows of an array, joined as an op of ``JOINS`` would join them."""
    dimension, is_new = toolbox.attribute(op, JOINS[name]), name == "jaxpr.stack"
    function = functools.partial(_joined, dimension=dimension, is_new=is_new)
    return rules.emit(function, [array])[0]


def _stack_known(values: Sequence[Any]) -> Any:
    if not isinstance(values[0].dtype, dtypes.ExtendedDType):
        return np.stack(values)
    # Random keys: the result has to be an array even during tracing.
    with jax.ensure_compile_time_eval():
        return jnp.stack(values)


def _stack(*values: Any, axis: int) -> list[Any]:
    return [jnp.stack(values, axis)]


def _rows(array: Any) -> list[Any]:
    parts = lax.split(array, (1,) * array.shape[0], 0)
    return [lax.reshape(part, part.shape[1:]) for part in parts]


def _row(array: Any, *, index: int, axis: int) -> list[Any]:
    return [lax.squeeze(_part(array, axis, index, index + 1), (axis,))]


def _total(array: Any) -> list[Any]:
    return [lax.reduce(array, np.zeros((), array.dtype), lax.add, (0,))]


def _joined(array: Any, *, dimension: int, is_new: bool) -> list[Any]:
    """The rows of an array, joined along one of their dimensions, or a new one."""
    dimension %= array.ndim if is_new else array.ndim - 1
    array = jnp.moveaxis(array, 0, dimension)
    if is_new:
        return [array]
    shape = array.shape
    count, size = shape[dimension : dimension + 2]
    return [lax.reshape(array, (*shape[:dimension], count * size, *shape[dimension + 2 :]))]


# -- Windows of one array --

# The most pieces that overlapping windows are put together of; with more, a gather reads them.
MOST_PIECES = 32


@dataclass(frozen=True)
class Windows:
    """Windows of an array, all of one size.

    Attributes:
      array: the array.
      starts: the start index of each window, by dimension.
      sizes: the size of the windows in the array.
      order: the dimensions of the array in which a window is larger than 1, in the window's order.
      shape: the shape of each value: a window, transposed to that order and reshaped.
    """

    array: ir.Value
    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[ir.Value]) -> Windows | None:
        """The windows that values are; ``None`` if they are not alike windows of one array."""
        views = [_window(value) for value in values]
        if None in views:
            return None
        kinds = {
            (view.array, view.sizes, _order(view), tuple(value.type.shape))
            for view, value in zip(views, values, strict=True)
        }
        if len(kinds) > 1:
            return None
        ((array, *kind),) = kinds
        return cls(array, tuple([view.starts for view in views]), *kind)

    @functools.cached_property
    def _layout(self) -> tuple[WindowLevel, ...] | None:
        levels = levels_of(np.array(self.starts), self.sizes)
        extended = isinstance(aval_of(self.array.type).dtype, dtypes.ExtendedDType)
        if levels is None or (extended and not all(level.is_exact for level in levels)):
            # Random keys cannot be padded.
            return None
        return levels

    @property
    def is_view(self) -> bool:
        """Whether the windows together are just a part of the array in another shape."""
        return self._layout is not None and all(level.pieces == 1 for level in self._layout)

    @property
    def are_rows(self) -> bool:
        """Whether the windows are all rows of the array, in order."""
        count = len(self.starts)
        if self._layout != (WindowLevel(0, 1, count, 1),) or list(self.order) != sorted(self.order):
            return False
        return tuple(self.array.type.shape) == (count, *self.shape)

    def write(self, rules: Rules) -> ir.Value:
        """Writes the windows as one array, along a leading dimension, at the insertion point."""
        windows = {"starts": self.starts, "sizes": self.sizes, "order": self.order}
        reader = functools.partial(_read, **windows, shape=self.shape, layout=self._layout)
        return rules.emit(reader, [self.array])[0]


@dataclass(frozen=True)
class WindowLevel:
    """Evenly spaced windows along a dimension.

    Attributes:
      step: the distance from one window to the next; if negative, the order is reversed.
      length: the length of each window along the dimension.
    """

    axis: int
    step: int
    count: int
    length: int

    @property
    def pieces(self) -> int:
        return -(-self.length // abs(self.step))

    @property
    def is_exact(self) -> bool:
        """Whether each window ends where the next one begins."""
        return self.length == abs(self.step)

    def split(self, x: Any, axis: int) -> Any:
        """The windows of ``x`` along an axis, with a new dimension for their number before the
        axis; the first window in memory begins at index 0."""
        step = abs(self.step)
        size = (self.count + self.pieces - 1) * step
        x = _resized(x, axis, size)
        x = lax.reshape(x, (*x.shape[:axis], size // step, step, *x.shape[axis + 1 :]))
        ends = range(self.count, self.count + self.pieces)
        parts = [_part(x, axis, end - self.count, end) for end in ends]
        x = parts[0] if len(parts) == 1 else lax.concatenate(parts, axis + 1)
        x = _resized(x, axis + 1, self.length)
        return lax.rev(x, (axis,)) if self.step < 0 else x

    def join(self, x: Any, depth: int) -> Any:
        """Undoes :meth:`split` for exact windows: merges dimension ``depth``, which counts them,
        into their axis.  The dimensions before it count other windows."""
        if self.step < 0:
            x = lax.rev(x, (depth,))
        axis = depth + self.axis
        x = jnp.moveaxis(x, depth, axis)
        size = self.count * self.length
        return lax.reshape(x, (*x.shape[:axis], size, *x.shape[axis + 2 :]))


def levels_of(starts: np.ndarray, sizes: Sequence[int]) -> tuple[WindowLevel, ...] | None:
    """The nested loops, outermost first, that give the starts of windows in this order; ``None`` if
    there are none, or if windows consist of too many pieces."""
    levels: list[WindowLevel] = []
    extent = list(sizes)
    while len(starts) > 1:
        steps = np.diff(starts, axis=0)
        same = (steps == steps[0]).all(1)
        count = len(starts) if same.all() else int(np.argmin(same)) + 1
        axes = np.flatnonzero(steps[0])
        if len(starts) % count or len(axes) != 1:
            return None
        turns = starts.reshape(-1, count, len(extent))
        if (turns - turns[:, :1] != turns[0] - turns[0, 0]).any():
            return None
        axis = int(axes[0])
        level = WindowLevel(axis, int(steps[0, axis]), count, extent[axis])
        if not 0 < level.pieces <= MOST_PIECES:
            # Empty windows have no pieces.
            return None
        levels.append(level)
        extent[axis] += (count - 1) * abs(level.step)
        starts = turns[:, 0]
    return tuple(reversed(levels))


def _read(
    array: Any,
    *,
    starts: tuple[tuple[int, ...], ...],
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    shape: tuple[int, ...],
    layout: tuple[WindowLevel, ...] | None,
) -> list[Any]:
    """Windows of an array."""
    places, rank = np.array(starts, np.int32), array.ndim
    # Dimensions are numbered: first those of the array, then the ones that count windows.
    if layout is None:
        windows = jax.vmap(lambda start: lax.dynamic_slice(array, start, sizes))(places)
        dims, of_windows = [rank, *range(rank)], [rank]
    else:
        # Pieces read beyond the end of a window: mostly the array has these elements.
        more = [0] * rank
        for level in layout:
            more[level.axis] += level.pieces * abs(level.step) - level.length
        end = np.minimum(places.max(0) + sizes + more, array.shape)
        windows = array
        for axis, (low, high) in enumerate(zip(places.min(0), end, strict=True)):
            windows = _part(windows, axis, int(low), int(high))
        dims, of_windows = list(range(rank)), list(range(rank, rank + len(layout)))
        for number, level in zip(of_windows, layout, strict=True):
            axis = dims.index(level.axis)
            windows = level.split(windows, axis)
            dims.insert(axis, number)
    targets = [*of_windows, *order]
    extents = {d: n for d, n in zip(dims, windows.shape, strict=True) if d in targets}
    windows = lax.reshape(windows, tuple(extents.values()))
    windows = lax.transpose(windows, [list(extents).index(d) for d in targets])
    return [lax.reshape(windows, (len(places), *shape))]


def _resized(x: Any, axis: int, size: int) -> Any:
    """The array with a dimension cut, or padded with zeros, to a size."""
    if x.shape[axis] >= size:
        return _part(x, axis, 0, size)
    padding = [(0, 0, 0)] * x.ndim
    padding[axis] = (0, size - x.shape[axis], 0)
    return lax.pad(x, np.zeros((), x.dtype), padding)


def _part(x: Any, axis: int, start: int, end: int) -> Any:
    if (start, end) == (0, x.shape[axis]):
        return x
    starts, ends = [0] * x.ndim, list(x.shape)
    starts[axis], ends[axis] = start, end
    return lax.slice(x, starts, ends)


def _window(value: ir.Value) -> StridedView | None:
    """The box of an array of which a value is a reshape or transpose; ``None`` if there is none."""
    op, name = toolbox.definition(value) or (None, "")
    if name == "jaxpr.squeeze" or (
        name == "jaxpr.reshape" and toolbox.attribute(op, "dimensions") is None
    ):
        value = op.operands[0]
    view = StridedView.whole(value)
    while (turned := view.through(_TURNS)) is not None:
        view = turned
    view = view.through(SLICES)
    return view if view is not None and view.is_box else None


def _order(view: StridedView) -> tuple[int, ...]:
    """The dimensions of the array with a size other than 1, in the order of the view."""
    return tuple([d for d in view.dims if d is not None and view.sizes[d] != 1])


_TURNS = frozenset({"jaxpr.squeeze", "jaxpr.transpose"})
