"""Parts of an array that are written one after another, written at once.

Parts that are written side by side are one part: what they consist of is put together, and written
where the first of them begins.  Others are one scatter of several windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import is_plain_signature
from jaxmlir.dialect.builder import overwrites, window_sizes
from jaxmlir.optimize.loops.raise_loops.known import Known
from jaxmlir.optimize.vectorize.windows import Level, levels_of

SCATTERS = frozenset({"jaxpr.scatter", "jaxpr.scatter_add"})

# Of how many parts it is found out, two by two, whether they overlap.
MOST_PARTS = 2_000
# Where a part may begin at most: places are written as numbers of 32 bits.
_MOST = int(np.iinfo(np.int32).max)


def chain(body: FunctionView, last: int) -> list[int]:
    """Scatters of one kind, from the top: each is used by the next one only, up to the last one."""
    found = [last]
    while True:
        array = body.operands[found[-1]][0]
        before = body.makers[array]
        is_one = before is not None and body.signatures[before] == body.signatures[last]
        if not is_one or body.use_counts[array] != 1:
            return found[::-1]
        found.append(before)


def parts_of(body: FunctionView, ops: Sequence[int]) -> Parts | None:
    """The parts that scatters of one kind write, if they can be one: single parts, where is known,
    and apart unless they are added."""
    first = ops[0]
    if not is_plain_signature(body.signatures[first]):
        return None
    if body.names[first] == "jaxpr.scatter" and not overwrites(body.ops[first]):
        return None
    parts = Parts.of(body, ops)
    return parts if parts is not None and (parts.adds or parts.apart) else None


@dataclass(frozen=True)
class Parts:
    """Parts of an array and how they are written: a function of the array and what is written, one
    part for each row; hashable.

    Attributes:
      starts: where each begins, by dimension.
      sizes: their size.
      numbers: the scatters' own attributes.
    """

    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    numbers: Any
    mode: Any
    adds: bool

    @classmethod
    def of(cls, body: FunctionView, ops: Sequence[int]) -> Parts | None:
        first = body.ops[ops[0]]
        numbers = toolbox.attribute(first, "dimension_numbers")
        array, indices, update = (tuple(v.type.shape) for v in first.operands)
        # XLA has no scatter of several numbers to one that has no dimensions.
        if len(indices) != 1 or numbers.operand_batching_dims or not array:
            return None
        sizes = window_sizes(numbers, update)
        known = Known({}, 0)
        starts = np.zeros((len(ops), len(array)), np.int64)
        for start, op in zip(starts, ops, strict=True):
            found = known.get(body.ops[op].operands[1])
            if found is None:
                return None
            start[list(numbers.scatter_dims_to_operand_dims)] = found
        adds = body.names[ops[0]] == "jaxpr.scatter_add"
        mode = toolbox.attribute(first, "mode")
        if mode == lax.GatherScatterMode.CLIP:
            # What is out of bounds is moved inside, and may be on top of another part there.
            starts = np.clip(starts, 0, np.array(array) - sizes)
        elif not -_MOST <= starts.min() <= starts.max() <= _MOST:
            return None
        return cls(tuple(map(tuple, starts.tolist())), tuple(sizes), numbers, mode, adds)

    @property
    def apart(self) -> bool:
        """Whether no two of them overlap."""
        starts = np.array(self.starts)
        if _side_by_side(starts, self.sizes) is not None:
            return True
        if len(starts) > MOST_PARTS:
            return False
        near = (abs(starts[:, None] - starts) < self.sizes).all(-1)
        return int(near.sum()) == len(starts)

    def _layout(self, shape: Sequence[int]) -> tuple[Level, ...] | None:
        """How the parts are one part, if they are, and within the array."""
        starts = np.array(self.starts)
        if (starts < 0).any() or (starts + self.sizes > shape).any():
            return None
        return _side_by_side(starts, self.sizes)

    def __call__(self, array: Any, updates: Any) -> list[Any]:
        layout = self._layout(array.shape)
        if layout is None:
            return [self._scattered(array, updates)]
        counts = [level.count for level in layout]
        part = lax.reshape(updates, (*counts, *self.sizes))
        for depth in reversed(range(len(layout))):
            part = layout[depth].join(part, depth)
        low = np.min(self.starts, 0)
        if self.adds:
            high = np.array(array.shape) - low - part.shape
            padding = [(int(a), int(b), 0) for a, b in zip(low, high, strict=True)]
            # What leaves all others as they are: a zero would make zeros of negative ones. Of
            # integers of less than 8 bits, numpy's minus has 8.
            nothing = (-np.zeros((), part.dtype)).astype(part.dtype)
            return [lax.add(array, lax.pad(part, nothing, padding))]
        if part.shape == array.shape:
            return [part]
        return [lax.dynamic_update_slice(array, part, [np.int32(i) for i in low])]

    def _scattered(self, array: Any, updates: Any) -> Any:
        numbers = self.numbers
        dims = list(numbers.scatter_dims_to_operand_dims)
        batch = lax.ScatterDimensionNumbers(
            update_window_dims=tuple([d + 1 for d in numbers.update_window_dims]),
            inserted_window_dims=numbers.inserted_window_dims,
            scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
        )
        indices = np.array(self.starts, np.int32)[:, dims]
        scatter = lax.scatter_add if self.adds else lax.scatter
        return scatter(array, indices, updates, batch, unique_indices=self.apart, mode=self.mode)


def _side_by_side(starts: np.ndarray, sizes: Sequence[int]) -> tuple[Level, ...] | None:
    """The loops over parts each of which begins where the one before it ends."""
    found = levels_of(starts, sizes)
    return found if found is not None and all(level.is_exact for level in found) else None
