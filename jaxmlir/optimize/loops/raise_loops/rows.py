"""Blocks of an array along one dimension as rows, and rows as blocks of an array.

``numbers`` are the positions at which the blocks begin, one for each row.  Evenly spaced ones make
slices, reversals and transposes, others gathers and scatters at constant positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.loops.raise_loops.known import affine

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


# Windows that overlap are made of so many slices at most, one for each place in a window: their
# transposes are sums of arrays, that of a gather is one of elements.
MAX_SHIFTS = 16


def take_rows(rules: Rules, array: ir.Value, numbers: np.ndarray, axis: int, size: int) -> ir.Value:
    """``rows[i] = array[..., numbers[i] : numbers[i] + size, ...]``."""
    key = ("rows", numbers.tobytes(), axis, size)
    (rows,) = rules.emit(lambda x: [_take(x, numbers, axis, size)], [array], key)
    return rows


def put_rows(
    rules: Rules,
    array: ir.Value,
    rows: ir.Value,
    numbers: np.ndarray,
    axis: int,
    size: int,
) -> ir.Value:
    """The array with ``array[..., numbers[i] : numbers[i] + size, ...] = rows[i]``; no two blocks
    overlap."""
    key = ("put_rows", numbers.tobytes(), axis, size)
    (result,) = rules.emit(lambda x, y: [_put(x, y, numbers, axis, size)], [array, rows], key)
    return result


def part(
    rules: Rules, array: ir.Value, starts: Sequence[ir.Value | None], shape: Sequence[int]
) -> ir.Value:
    """A part of an array, moved inside of it as ``dynamic_slice`` does.

    Args:
      starts: where it begins in each dimension; ``None`` where it is all of it.
    """
    given = [v for v in starts if v is not None]
    if not given:
        return array
    mask = tuple(v is not None for v in starts)
    key = ("part", mask, tuple(shape))
    (result,) = rules.emit(
        lambda x, *at: [dynamic_slice(x, _filled(at, mask), tuple(shape))], [array, *given], key
    )
    return result


def put_part(
    rules: Rules, array: ir.Value, update: ir.Value, starts: Sequence[ir.Value | None]
) -> ir.Value:
    """The array with that part replaced."""
    given = [v for v in starts if v is not None]
    if not given:
        return update
    mask = tuple(v is not None for v in starts)
    (result,) = rules.emit(
        lambda x, y, *at: [dynamic_update_slice(x, y, _filled(at, mask))],
        [array, update, *given],
        ("put_part", mask),
    )
    return result


def _is_contiguous(numbers: np.ndarray, size: int) -> bool:
    found = affine(numbers)
    return found is not None and (abs(found[1]) == size or len(numbers) == 1)


def _filled(at: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The indices, zeros where none is given."""
    given = iter(at)
    return [next(given) if m else np.zeros((), at[0].dtype) for m in mask]


def dynamic_slice(x: Any, starts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    from jax import lax

    # The primitive itself: negative indices are not meant from the end here.
    return lax.dynamic_slice_p.bind(x, *starts, slice_sizes=shape)


def dynamic_update_slice(x: Any, y: Any, starts: Sequence[Any]) -> Any:
    from jax import lax

    return lax.dynamic_update_slice_p.bind(x, y, *starts)


def _take(x: Any, numbers: np.ndarray, axis: int, size: int) -> Any:
    from jax import lax

    count = len(numbers)
    found = affine(numbers)
    if found is not None and (size == 1 or _is_contiguous(numbers, size)):
        _, step = found
        low, high = int(numbers.min()), int(numbers.max()) + size
        stride = abs(step) if size == 1 else 1
        x = lax.slice_in_dim(x, low, high, stride, axis)
        x = lax.reshape(x, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
        if step < 0:
            x = lax.rev(x, (axis,))
        return lax.transpose(x, _to_front(x.ndim, axis))
    if found is not None and found[1] and size <= MAX_SHIFTS:
        x = lax.concatenate([_shifted(x, numbers + k, axis) for k in range(size)], axis + 1)
        if found[1] < 0:
            x = lax.rev(x, (axis,))
        return lax.transpose(x, _to_front(x.ndim, axis))
    # Whole windows: a gather of elements reads a position for each. A sum of 3937 windows of 64 and
    # its gradient take 0.3 ms on jax 0.10 and 0.12, and 0.55 with a gather of elements.
    dimensions = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(1, x.ndim + 1)), collapsed_slice_dims=(), start_index_map=(axis,)
    )
    return lax.gather(
        x,
        numbers[:, None].astype(np.int32),
        dimensions,
        tuple(size if d == axis else n for d, n in enumerate(x.shape)),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _shifted(x: Any, numbers: np.ndarray, axis: int) -> Any:
    """The elements at evenly spaced positions, in the order of the array, with a dimension of size
    1 behind theirs."""
    from jax import lax

    low, high = int(numbers.min()), int(numbers.max()) + 1
    part = lax.slice_in_dim(x, low, high, abs(int(numbers[1] - numbers[0])), axis)
    return lax.reshape(part, (*part.shape[: axis + 1], 1, *part.shape[axis + 1 :]))


def _put(x: Any, rows: Any, numbers: np.ndarray, axis: int, size: int) -> Any:
    from jax import lax

    count = len(numbers)
    if _is_contiguous(numbers, size):
        _, step = affine(numbers)
        rows = lax.transpose(rows, _insert(rows.ndim, 0, axis))
        if step < 0:
            rows = lax.rev(rows, (axis,))
        block = lax.reshape(rows, (*rows.shape[:axis], count * size, *rows.shape[axis + 2 :]))
        if block.shape == x.shape:
            return block
        return lax.dynamic_update_slice_in_dim(x, block, int(numbers.min()), axis)
    positions = (numbers[:, None] + np.arange(size)).reshape(-1, 1).astype(np.int32)
    rows = lax.transpose(rows, _insert(rows.ndim, axis + 1, 1))
    rows = lax.reshape(rows, (count * size, *rows.shape[2:]))
    dimensions = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, x.ndim)),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
    )
    return lax.scatter(
        x,
        positions,
        rows,
        dimensions,
        unique_indices=True,
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _to_front(rank: int, axis: int) -> tuple[int, ...]:
    return (axis, *(d for d in range(rank) if d != axis))


def _insert(rank: int, source: int, target: int) -> tuple[int, ...]:
    """The permutation that moves one dimension to another place."""
    order = [d for d in range(rank) if d != source]
    order.insert(target, source)
    return tuple(order)
