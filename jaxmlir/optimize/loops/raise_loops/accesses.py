"""Accesses of a loop's body to parts of arrays, at positions that the loop's counter determines
along one dimension."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import filled, overwrites, returned, window_sizes
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.ops import Trait, record_of, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.known import IntBounds, KnownIntegers, affine, bounds_of, vector
from jaxmlir.optimize.vectorize.stacking import WindowLevel
from jaxmlir.support.lazy import memoized
from jaxmlir.toolbox import replace
from jaxmlir.transforms.templates import Rules

# -- Blocks of an array along one dimension as rows, and rows as blocks of an array --
#
# ``numbers`` are the positions at which the blocks begin, one for each row.  Evenly spaced
# positions become slices, reversals and transposes, others gathers and scatters at constant
# positions.


# Overlapping windows are made of at most this many slices, one for each place in a window: their
# transposes add up arrays, while that of a gather adds up elements.
MAX_SHIFTS = 16


def take_rows(rules: Rules, array: ir.Value, numbers: np.ndarray, axis: int, size: int) -> ir.Value:
    """``rows[i] = array[..., numbers[i] : numbers[i] + size, ...]``."""
    key = ("rows", numbers.tobytes(), axis, size)
    (rows,) = rules.emit(lambda x: [_take(x, numbers, axis, size)], [array], key)
    return rows


def put_rows(
    rules: Rules, array: ir.Value, rows: ir.Value, numbers: np.ndarray, axis: int, size: int
) -> ir.Value:
    """The array with ``array[..., numbers[i] : numbers[i] + size, ...] = rows[i]``; no two blocks
    overlap."""
    key = ("put_rows", numbers.tobytes(), axis, size)
    (result,) = rules.emit(lambda x, y: [_put(x, y, numbers, axis, size)], [array, rows], key)
    return result


def part(
    rules: Rules, array: ir.Value, starts: Sequence[ir.Value | None], shape: Sequence[int]
) -> ir.Value:
    """A part of an array, with its starts clamped as ``dynamic_slice`` does.

    Args:
      starts: where the part begins in each dimension; ``None`` if it is all of the dimension.
    """
    indices = [v for v in starts if v is not None]
    if not indices:
        return array
    mask = tuple(v is not None for v in starts)
    key = ("part", mask, tuple(shape))
    (result,) = rules.emit(
        lambda x, *at: [dynamic_slice(x, _filled(at, mask), tuple(shape))], [array, *indices], key
    )
    return result


def put_part(
    rules: Rules, array: ir.Value, update: ir.Value, starts: Sequence[ir.Value | None]
) -> ir.Value:
    """The array with such a part replaced."""
    indices = [v for v in starts if v is not None]
    if not indices:
        return update
    mask = tuple(v is not None for v in starts)
    (result,) = rules.emit(
        lambda x, y, *at: [dynamic_update_slice(x, y, _filled(at, mask))],
        [array, update, *indices],
        ("put_part", mask),
    )
    return result


def _is_contiguous(numbers: np.ndarray, size: int) -> bool:
    progression = affine(numbers)
    return progression is not None and (abs(progression[1]) == size or len(numbers) == 1)


def _filled(at: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The indices, zeros where none is given."""
    indices = iter(at)
    return [next(indices) if m else np.zeros((), at[0].dtype) for m in mask]


def dynamic_slice(x: Any, starts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    # The primitive itself: ``lax.dynamic_slice`` counts negative indices from the end.
    return lax.dynamic_slice_p.bind(x, *starts, slice_sizes=shape)


def dynamic_update_slice(x: Any, y: Any, starts: Sequence[Any]) -> Any:
    return lax.dynamic_update_slice_p.bind(x, y, *starts)


def _take(x: Any, numbers: np.ndarray, axis: int, size: int) -> Any:
    count = len(numbers)
    progression = affine(numbers)
    if progression is not None and (size == 1 or _is_contiguous(numbers, size)):
        _, step = progression
        low, high = int(numbers.min()), int(numbers.max()) + size
        x = lax.slice_in_dim(x, low, high, abs(step) if size == 1 else 1, axis)
        return jnp.moveaxis(_side_by_side(step, count, axis, size).split(x, axis), axis, 0)
    if progression is not None and progression[1] and size <= MAX_SHIFTS:
        x = lax.concatenate([_shifted(x, numbers + k, axis) for k in range(size)], axis + 1)
        if progression[1] < 0:
            x = lax.rev(x, (axis,))
        return jnp.moveaxis(x, axis, 0)
    # A gather of whole windows, since one of elements reads a position for each element: a sum of
    # 3937 windows of 64 and its gradient take 0.3 ms on jax 0.10 and 0.12, with elements 0.55.
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


def _side_by_side(step: int, count: int, axis: int, size: int) -> WindowLevel:
    """Adjacent blocks: each begins where the one before it ends, or ends where that one begins."""
    return WindowLevel(axis, size if step > 0 else -size, count, size)


def _shifted(x: Any, numbers: np.ndarray, axis: int) -> Any:
    """The elements at evenly spaced positions, in the order of the array, with a dimension of size
    1 behind that axis."""
    low, high = int(numbers.min()), int(numbers.max()) + 1
    part = lax.slice_in_dim(x, low, high, abs(int(numbers[1] - numbers[0])), axis)
    return lax.reshape(part, (*part.shape[: axis + 1], 1, *part.shape[axis + 1 :]))


def _put(x: Any, rows: Any, numbers: np.ndarray, axis: int, size: int) -> Any:
    count = len(numbers)
    if _is_contiguous(numbers, size):
        _, step = affine(numbers)
        block = _side_by_side(step, count, axis, size).join(rows, 0)
        if block.shape == x.shape:
            return block
        return lax.dynamic_update_slice_in_dim(x, block, int(numbers.min()), axis)
    positions = (numbers[:, None] + np.arange(size)).reshape(-1, 1).astype(np.int32)
    rows = jnp.moveaxis(rows, axis + 1, 1)
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


_Span = tuple[np.ndarray, np.ndarray]


class Access(NamedTuple):
    """A ``dynamic_slice`` or ``dynamic_update_slice`` in a loop's body, or a scatter that combines
    a single window with the elements there."""

    op: Any
    array: ir.Value
    starts: tuple[ir.Value, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    """The shape of the array."""
    writes: bool
    combine: str | None = None
    """The function in ``jax.lax`` that combines an update with the elements there, if any."""

    @property
    def result(self) -> ir.Value:
        return self.op.results[0]

    @property
    def update(self) -> ir.Value:
        """The value that is written, from the op's operands now: they may have been replaced."""
        return self.op.operands[1 if self.combine is None else 2]


class Positions:
    """The positions and extents of accesses along the dimensions of their arrays.

    Many accesses have indices in common; the results for each index are cached.

    Args:
      length: the number of iterations of the loop.
    """

    def __init__(self, known: KnownIntegers, length: int):
        self._known = known
        self._length = length
        self._numbers: dict[tuple[ir.Value, int], np.ndarray] = {}
        self._spans: dict[tuple[ir.Value, int, int], _Span] = {}
        self._places: dict[tuple[ir.Value, int, int], Hashable] = {}
        self._zeros = np.zeros(length, np.int64)

    def numbers(self, access: Access, axis: int) -> np.ndarray | None:
        """The position of an access along a dimension in each iteration; ``None`` if unknown."""
        start, last = access.starts[axis], access.shape[axis] - access.sizes[axis]
        if last == 0:
            return self._zeros
        numbers = self._numbers.get((start, last))
        if numbers is None:
            numbers = vector(self._known, start, self._length)
            if numbers is not None:
                # Positions out of bounds are clamped.
                numbers = self._numbers[start, last] = _inside(numbers, last)
        return numbers

    def are_same(self, one: Access, other: Access, axis: int) -> bool:
        """Whether both begin at the same place along a dimension in each iteration."""
        if one.starts[axis] == other.starts[axis]:
            return True
        starts, others = self._everywhere(one, axis), self._everywhere(other, axis)
        return starts is not None and others is not None and bool((starts == others).all())

    def span(self, access: Access, axis: int) -> _Span | None:
        """The range of elements, with an exclusive end, that all iterations of this loop touch
        along a dimension; an array over the iterations of the loops around it."""
        size = access.sizes[axis]
        key = access.starts[axis], size, access.shape[axis]
        span = self._spans.get(key)
        if span is None:
            positions = self._everywhere(access, axis)
            if positions is not None and positions.size:
                span = self._spans[key] = positions.min(-1), positions.max(-1) + size
        return span

    def place(self, access: Access, axis: int) -> Hashable:
        """A key of the span of an access: equal for equal spans, and for all unknown spans."""
        key = access.starts[axis], access.sizes[axis], access.shape[axis]
        place = self._places.get(key)
        if place is None:
            span = self.span(access, axis) or ()
            place = self._places[key] = tuple([(array.shape, array.tobytes()) for array in span])
        return place

    def _everywhere(self, access: Access, axis: int) -> np.ndarray | None:
        """The positions of an access over the iterations of all loops around it, this loop last."""
        positions = self._known.get(access.starts[axis])
        if positions is None or not positions.ndim:
            return None
        return _inside(positions.astype(np.int64), access.shape[axis] - access.sizes[axis])


def _inside(numbers: np.ndarray, last: int) -> np.ndarray:
    """Numbers clipped to 0 to ``last``; for few numbers ``np.clip`` takes ten times as long."""
    return np.minimum(np.maximum(numbers, 0), last)


def varies(numbers: np.ndarray | None) -> bool:
    """Whether positions are known and not all equal."""
    return numbers is not None and len(numbers) > 1 and bool((numbers != numbers[0]).any())


# The accesses of scatters that combine, by result.
CombinedAccesses = Mapping[ir.Value, Access]


def access_of(
    op: Any, name: str, operands: Sequence[ir.Value], combined: CombinedAccesses
) -> Access | None:
    """The access that an op is; ``None`` if it is none, or touches no elements."""
    if name == "jaxpr.dynamic_slice":
        array, *starts = operands
        sizes = tuple(codec.decode(op.attributes["slice_sizes"]))
    elif name == "jaxpr.dynamic_update_slice":
        array, update, *starts = operands
        sizes = tuple(aval_of(update.type).shape)
    else:
        return combined.get(next(iter(op.results), None))
    shape = tuple(aval_of(array.type).shape)
    if len(starts) != len(shape) or not all(type(d) is int for d in (*shape, *sizes)):
        return None
    if 0 in sizes:
        return None
    return Access(op, array, tuple(starts), sizes, shape, name == "jaxpr.dynamic_update_slice")


def _is_retyped(op: Any, name: str) -> bool:
    """Whether an op only changes whether a value is weakly typed, as JAX does where a carried value
    began as a Python number."""
    if name != "jaxpr.convert_element_type" or "sharding" in op.attributes:
        return False
    return aval_of(op.operands[0].type).dtype == aval_of(op.results[0].type).dtype


def untyped(value: ir.Value) -> ir.Value:
    """The value before conversions that only change whether it is weakly typed."""
    while (definition := toolbox.definition(value)) is not None and _is_retyped(*definition):
        value = definition[0].operands[0]
    return value


class ValueUses:
    """The ops that use each value of a body, without the return; a retyped array is the same value.

    Attributes:
      returned: the values that the body returns, untyped.
    """

    def __init__(self, body: func.FuncOp):
        self._same: dict[ir.Value, ir.Value] = {}
        self.returned = [untyped(v) for v in returned(body)]

    def __getitem__(self, value: ir.Value) -> Sequence[tuple[Any, str, list[ir.Value]]]:
        """The users of a value in order, each with its name and operands."""
        same, users, pending = self._same, {}, [value]
        while pending:
            for use in pending.pop().uses:
                op = use.owner.operation
                if _is_retyped(op, op.name):
                    same[op.results[0]] = value
                    pending.append(op.results[0])
                elif op.name != "func.return":
                    users[op] = None
        ops = list(users)
        if len(ops) > 1:
            ops.sort(key=functools.cmp_to_key(_order))
        return [(op, op.name, [same.get(v, v) for v in op.operands]) for op in ops]


def _order(op: ir.Operation, other: ir.Operation) -> int:
    return -1 if op.is_before_in_block(other) else 1


def is_written(value: ir.Value, combined: CombinedAccesses) -> bool:
    """Whether a value is the result of a write to an array."""
    if value in combined:
        return True
    op = value.owner
    return not isinstance(op, ir.Block) and op.name == "jaxpr.dynamic_update_slice"


@dataclass(eq=False)
class AccessChain:
    """The accesses to a carried array; each write gives the next *version* of the array."""

    versions: list[ir.Value]
    writes: list[Access]
    reads: list[tuple[int, Access]]
    """Each read, with the number of the version that it reads."""

    def accesses(self) -> Iterator[Access]:
        yield from self.writes
        yield from (access for _, access in self.reads)

    def is_apart(self, read: Access, axes: Sequence[int], positions: Positions) -> bool:
        """Whether a read touches no element that any iteration of this loop writes.

        For each write, the spans of both have to be disjoint along one of the given dimensions.
        """
        # Most reads are at the place of a write, which is found without comparing all spans.
        place = tuple([positions.place(read, axis) for axis in axes])
        if place in self._places(tuple(axes), positions):
            return False
        spans = [positions.span(read, axis) for axis in axes]
        apart = np.zeros(len(self.writes), bool)
        for axis, span in zip(axes, spans, strict=True):
            write_spans = self._written(axis, positions)
            if span is None or write_spans is None:
                continue
            at, start, end = write_spans
            disjoint = (span[1] <= start) | (end <= span[0])
            apart[at] |= disjoint.reshape(len(at), -1).all(-1)
        return bool(apart.all())

    @memoized
    def _places(self, axes: tuple[int, ...], positions: Positions) -> set[Hashable]:
        """The keys of the spans of the writes along some dimensions."""
        return {tuple([positions.place(write, axis) for axis in axes]) for write in self.writes}

    @memoized
    def _written(
        self, axis: int, positions: Positions
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The writes with a known span along a dimension, and the starts and ends of the spans."""
        spans = [positions.span(write, axis) for write in self.writes]
        at = [k for k, span in enumerate(spans) if span is not None]
        if not at:
            return None
        starts, ends = zip(*[spans[k] for k in at], strict=True)
        return np.array(at), _stacked(starts), _stacked(ends)


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*arrays))


def chain_of(
    arg: ir.Value, out: ir.Value, uses: ValueUses, combined: CombinedAccesses
) -> AccessChain | None:
    """The accesses of a body to a carried array.

    ``None`` if the body does anything but read and write parts of the array and return its last
    version once.
    """
    chain = AccessChain([arg], [], [])
    while True:
        version = chain.versions[-1]
        is_last = version == out
        if uses.returned.count(version) != is_last:
            return None
        following = None
        for op, name, operands in uses[version]:
            access = access_of(op, name, operands, combined)
            if access is None or operands.count(version) > 1 or access.array != version:
                return None
            if not access.writes:
                chain.reads.append((len(chain.writes), access))
            elif is_last or following is not None:
                return None
            else:
                following = access
        if is_last:
            return chain if chain.writes else None
        if following is None:
            return None
        chain.writes.append(following)
        chain.versions.append(following.result)


# -- Gathers and scatters of a single window as ``dynamic_slice`` and ``dynamic_update_slice`` --
#
# JAX writes ``x[i]`` and ``x.at[i].set(u)`` with one index as either, with a mode for indices that
# are out of bounds.  If the indices are known to be in bounds, or the mode clamps them, the gathers
# and scatters are::
#
#     gather(x, i) = dynamic_slice(x, i)
#     scatter(x, i, u) = dynamic_update_slice(x, u, i)
#     scatter_add(x, i, u) = dynamic_update_slice(x, dynamic_slice(x, i) + u, i)


def simplify_windows(
    rules: Rules, ops: Sequence[tuple[Any, str]], known: KnownIntegers, arrays: set[ir.Value]
) -> dict[ir.Value, Access]:
    """Rewrites the gathers and scatters of a body; returns the accesses of scatters that combine.

    Args:
      ops: the ops of the body, with their names.
      arrays: the arrays whose accesses are rewritten; so are those of updated arrays.
    """
    arrays = set(arrays)
    combined: dict[ir.Value, Access] = {}
    for op, name in ops:
        if name not in _WINDOWS:
            continue
        operands = list(op.operands)
        if operands[0] not in arrays:
            continue
        if name == "jaxpr.convert_element_type":
            if _is_retyped(op, name):
                arrays.add(op.results[0])
        elif name == "jaxpr.gather":
            _gather(rules, op, operands, known)
        elif name == "jaxpr.dynamic_update_slice":
            arrays.add(op.results[0])
        elif name == "jaxpr.scatter":
            array = _scatter(rules, op, operands, known)
            if array is not None:
                arrays.add(array)
        else:
            access = _combined(rules, op, name, operands, known)
            if access is not None:
                combined[access.result] = access
                arrays.add(access.result)
    return combined


_WINDOWS = with_trait(Trait.UPDATE) | {"jaxpr.convert_element_type", "jaxpr.gather"}


def _gather(rules: Rules, op: Any, operands: Sequence[ir.Value], known: KnownIntegers) -> None:
    window = _window(op, operands, known)
    if window is None:
        return
    targets, sizes, pieces = window
    gone = tuple(codec.decode(op.attributes["dimension_numbers"]).collapsed_slice_dims)

    def slice_(x: Any, *index: Any) -> list[Any]:
        piece = dynamic_slice(x, _starts(index, targets, x.ndim), sizes)
        return [lax.squeeze(piece, gone)]

    _replace(rules, op, slice_, operands[:1], pieces, ("window", targets, gone, sizes))


def _scatter(
    rules: Rules, op: Any, operands: Sequence[ir.Value], known: KnownIntegers
) -> ir.Value | None:
    x, _, update = operands
    window = _window(op, operands, known) if overwrites(op) else None
    if window is None:
        return None
    targets, sizes, pieces = window

    def put(x: Any, update: Any, *index: Any) -> list[Any]:
        return [
            dynamic_update_slice(x, lax.reshape(update, sizes), _starts(index, targets, x.ndim))
        ]

    return _replace(rules, op, put, [x, update], pieces, ("put_window", targets, sizes))


def _combined(
    rules: Rules, op: Any, name: str, operands: Sequence[ir.Value], known: KnownIntegers
) -> Access | None:
    x = operands[0]
    window = _window(op, operands, known)
    if window is None:
        return None
    targets, sizes, pieces = window
    with ir.InsertionPoint(op), op.location:
        at = _components(rules, pieces)
        zero = filled(at[0].type, 0)
    shape = tuple(aval_of(x.type).shape)
    starts = tuple(at[targets.index(d)] if d in targets else zero for d in range(len(shape)))
    return Access(op, x, starts, sizes, shape, True, record_of(name).combine)


def _window(
    op: Any, operands: Sequence[ir.Value], known: KnownIntegers
) -> tuple[tuple[int, ...], tuple[int, ...], list[ir.Value]] | None:
    """The dimensions that the index of a gather or scatter is for, the sizes of its window, and the
    pieces of the index.

    ``None`` if there is not exactly one window, if the index is unknown, or if the window may be
    out of bounds and the mode does not clamp it.
    """
    x, index, *updates = operands
    numbers = codec.decode(op.attributes["dimension_numbers"])
    if updates:
        targets = numbers.scatter_dims_to_operand_dims
        sizes = window_sizes(numbers, aval_of(updates[0].type).shape)
    else:
        targets, sizes = numbers.start_index_map, codec.decode(op.attributes["slice_sizes"])
    shape = aval_of(x.type).shape
    # The index of a whole array, as in `x[:]`, is for no dimension.
    is_single = len(aval_of(index.type).shape) == 1 and len(targets) > 0
    if not is_single or numbers.operand_batching_dims or x in updates:
        return None
    if len(sizes) != len(shape) or 0 in sizes:
        return None
    pieces = _pieces(index)
    bounds = _bounds(pieces, known)
    if bounds is None:
        return None
    mode = codec.decode(op.attributes["mode"])
    is_inside = mode.name == "CLIP" or (
        mode.name in ("FILL_OR_DROP", "PROMISE_IN_BOUNDS")
        and all(
            # A symbolic size may be too small.
            least >= 0 and isinstance(shape[d], int) and greatest + sizes[d] <= shape[d]
            for (least, greatest), d in zip(bounds, targets, strict=True)
        )
    )
    return (tuple(targets), tuple(sizes), pieces) if is_inside else None


def _bounds(pieces: Sequence[ir.Value], known: KnownIntegers) -> list[IntBounds] | None:
    """The least and the greatest value of each scalar of an index, if they are known."""
    all_bounds: list[IntBounds] = []
    for piece in pieces:
        shape = aval_of(piece.type).shape
        if not shape:
            bounds = known.bounds(piece)
            if bounds is None:
                return None
            all_bounds.append(bounds)
        else:
            array = known.get(piece)
            if array is None:
                return None
            all_bounds += [bounds_of(array[..., i]) for i in range(*shape)]
    return all_bounds


def _starts(index: Sequence[Any], targets: Sequence[int], rank: int) -> list[Any]:
    zero = np.zeros((), index[0].dtype)
    return [index[targets.index(d)] if d in targets else zero for d in range(rank)]


def _pieces(index: ir.Value) -> list[ir.Value]:
    """The pieces of an index: scalars, and vectors that are not made of scalars."""
    owner = index.owner
    if not isinstance(owner, ir.Block):
        if owner.name == "jaxpr.concatenate":
            return [v for piece in owner.operands for v in _pieces(piece)]
        if owner.name in ("jaxpr.broadcast_in_dim", "jaxpr.reshape"):
            (scalar,) = owner.operands
            if not aval_of(scalar.type).shape and aval_of(index.type).shape == (1,):
                return [scalar]
    return [index]


def _components(rules: Rules, pieces: Sequence[ir.Value]) -> list[ir.Value]:
    """The scalars of an index, from its pieces."""
    scalars: list[ir.Value] = []
    for piece in pieces:
        shape = aval_of(piece.type).shape
        if shape:
            scalars += rules.emit(_elements, [piece])
        else:
            scalars.append(piece)
    return scalars


def _elements(vector: Any) -> list[Any]:
    return [lax.index_in_dim(vector, i, 0, keepdims=False) for i in range(len(vector))]


def _replace(
    rules: Rules,
    op: Any,
    function: Any,
    arrays: Sequence[ir.Value],
    pieces: Sequence[ir.Value],
    key: Any,
) -> ir.Value | None:
    """Replaces an op by a function of arrays and the scalars of its index."""
    with ir.InsertionPoint(op), op.location:
        values = rules.emit(function, [*arrays, *_components(rules, pieces)], key)
    if values[0].type != op.results[0].type:
        return None
    replace(op, values)
    return values[0]
