"""``jaxpr-expand-scatter``: sets one element in each short row, by comparisons.

The gradient of ``x[i, labels[i]]`` is an array of zeros to which one element is added in each row.
XLA's CPU compiler writes the zeros, then a list of places, then goes through that list element by
element: three kernels, none of which is fused with anything.  Here each element of a row compares
its index with the index to set::

    y[i, k] = select(k == labels[i], update[i], 0)

This is elementwise, and fused into the ops that read it.  Every element of the array is written
either way.  But in a long row most comparisons are in vain; and if the array is in memory already,
not a constant, a scatter does not touch its other elements.

A negative zero that is added keeps its sign, where XLA adds it to zero.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, number_of
from jaxmlir.dialect.builder import overwrites
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion
from jaxmlir.passes.base import Count

# Milliseconds of XLA's scatter, of this pass; two CPU cores, jax 0.10 and 0.12, rows x elements:
# alone, and if ``exp(x)`` is subtracted from the result.
#   100,000 x 3   0.75, 0.42   0.74, 0.46    fused  1.42, 0.91   1.18, 0.70
#    65,536 x 8   0.53, 0.29   0.56, 0.34           1.22, 0.78   1.27, 0.79
#    16,384 x 32  0.39, 0.44   0.34, 0.33           1.58, 0.88   1.90, 0.88
#    16,384 x 64  0.49, 0.29   0.53, 0.32           1.13, 1.49   1.14, 0.98
#    16,384 x 128 0.54, 0.43   0.61, 0.51           3.02, 3.43   2.25, 3.22
#     4,096 x 256 0.39, 0.36   0.46, 0.44           1.00, 1.61   1.76, 2.39
# To compile, alone 55 to 106, and 30 to 49 with this pass; fused 80 to 430, and 35 to 110.
MAX_LENGTH = 64


class ExpandScatter(ExpandOps):
    """Write scatters of one element into each row of a constant array as comparisons.

    Options:
      max-length: rows of more elements are left alone, and so are rows of more elements than the
        type of the indices can count.
    """

    name: ClassVar[str] = "jaxpr-expand-scatter"
    max_length: Count = MAX_LENGTH

    def expansion(self, node: OpView) -> Expansion | None:
        dims = _suited(node, self.max_length)
        if dims is None or number_of(node.operands[0]) is None:
            return None
        length = aval_of(node.operands[0].type).shape[dims["axis"]]
        clips = node.get("mode") == lax.GatherScatterMode.CLIP
        adds = node.name == "jaxpr.scatter_add"
        scatter = functools.partial(_scattered, **dims, clips=clips, adds=adds)
        # A scatter takes longer to compile than this.
        reason = f"expanded into comparisons: it updates one of {length} elements in each row"
        return Expansion(reason, scatter, 0, 0.0)


def _suited(node: OpView, max_length: int) -> dict[str, Any] | None:
    """The dimensions for :func:`_scattered`, if an op sets one element in each row."""
    if not (node.name == "jaxpr.scatter_add" or overwrites(node.op)):
        return None
    array, indices, update = (aval_of(v.type).shape for v in node.operands)
    numbers = node.get("dimension_numbers")
    if len(numbers.scatter_dims_to_operand_dims) != 1:
        return None
    (axis,) = numbers.scatter_dims_to_operand_dims
    most = dtypes.iinfo(aval_of(node.operands[1].type).dtype).max + 1
    if not 0 < array[axis] <= min(max_length, most):
        return None
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window_dims = [d for d in range(len(array)) if d not in gone]
    windows = dict(zip(numbers.update_window_dims, window_dims, strict=True))
    batches = dict(
        zip(numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True)
    )
    # The dimension of the array for each dimension of the indices, and of the update.
    of_indices = tuple(batches.get(d) for d in range(len(indices) - 1))
    rest = iter(of_indices)
    of_update = tuple(windows[d] if d in windows else next(rest) for d in range(len(update)))
    is_row = all(
        n == (1 if d in (None, axis) else array[d])
        for dims, shape in ((of_indices, indices), (of_update, update))
        for d, n in zip(dims, shape[: len(dims)], strict=True)
    )
    covered = (d in of_update or array[d] == 1 for d in range(len(array)) if d != axis)
    if not is_row or not all(covered):
        return None
    return {"axis": axis, "of_indices": of_indices, "of_update": of_update}


def _scattered(
    array: Any,
    indices: Any,
    update: Any,
    *,
    axis: int,
    of_indices: tuple[int | None, ...],
    of_update: tuple[int | None, ...],
    clips: bool,
    adds: bool,
) -> list[Any]:
    """An array with one element set in each row.

    Args:
      axis: the axis of a row.
      of_indices, of_update: for each dimension of the indices or the update, the corresponding
        dimension of the array; ``None`` if it has size 1 and corresponds to none.  The last
        dimension of the indices, which numbers axes, is left out.
      clips: whether an index out of bounds is clamped; otherwise its update is dropped.
      adds: whether the update is added to the array.
    """

    def spread(x: Any, dims: Sequence[int | None]) -> Any:
        """An array with these dimensions of the result, broadcast along the others."""
        none = [d for d, target in enumerate(dims) if target is None or target == axis]
        x = lax.squeeze(x, none)
        left = [target for d, target in enumerate(dims) if d not in none]
        x = lax.transpose(x, np.argsort(left))
        return lax.broadcast_in_dim(x, array.shape, sorted(left))

    place = lax.squeeze(indices, (indices.ndim - 1,))
    if clips:
        last = np.asarray(array.shape[axis] - 1, place.dtype)
        place = lax.clamp(np.zeros((), place.dtype), place, last)
    place, update = spread(place, of_indices), spread(update, of_update)
    if adds:
        update = lax.add(array, update)
    here = lax.eq(lax.broadcasted_iota(place.dtype, array.shape, axis), place)
    return [lax.select(here, update, array)]
