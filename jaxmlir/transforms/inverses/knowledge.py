"""What is known of one value of the function that is being inverted.

Knowledge comes in *pieces*: some elements, addressed by their flat indices, as a value of the new
function.  A known slice of an unknown array is a piece of that array; when the pieces cover the
array, it is known.  Index arrays exist only while the pass runs, and only where something is known
in part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.dialect.ir import ir


@dataclass(frozen=True, eq=False)
class KnownElements:
    """Some elements of a value."""

    value: ir.Value
    where: np.ndarray
    """The flat index of each, in the shape of ``value``; no index occurs twice."""


@dataclass(frozen=True)
class ValuePart:
    """One of several facts that together make every element known.  It is about the elements
    that a run-time predicate selects (``of`` is the predicate), or about the real parts (``of``
    is None)."""

    of: Any
    number: int
    count: int


@dataclass
class Knowledge:
    """What is known of one value."""

    shape: tuple[Any, ...]
    whole: ir.Value | None = None
    pieces: list[KnownElements] = field(default_factory=list)
    parts: dict[ValuePart, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.static: bool = all(isinstance(d, int) for d in self.shape)
        self._known: np.ndarray | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def known(self) -> np.ndarray:
        """Which elements are known, as a flat mask."""
        if self.whole is not None:
            return np.ones(self.size, bool)
        if self._known is None:
            self._known = np.zeros(self.size, bool)
        return self._known

    @property
    def is_complete(self) -> bool:
        """Whether all elements are known."""
        return self.whole is not None or bool(self.pieces and self.known().all())

    def everywhere(self) -> np.ndarray:
        """The index array of all elements."""
        return np.arange(self.size).reshape(self.shape)

    def add(self, piece: KnownElements) -> bool:
        """Adds a piece; false if it holds nothing new."""
        mask = self.known()
        if mask[piece.where].all():
            return False
        self.pieces.append(piece)
        mask[piece.where] = True
        return True

    def holders(
        self, where: np.ndarray
    ) -> list[tuple[KnownElements, np.ndarray, np.ndarray]] | None:
        """Pieces that hold the elements ``where``, each with flat positions in ``where`` and in the
        piece; ``None`` if an element is unknown."""
        flat = where.ravel()
        if not self.known()[flat].all():
            return None
        missing = np.ones(flat.size, bool)
        holders = []
        for piece in self.pieces:
            position = np.full(self.size, -1)
            position[piece.where.ravel()] = np.arange(piece.where.size)
            held = (position[flat] >= 0) & missing
            if held.any():
                holders.append((piece, np.flatnonzero(held), position[flat[held]]))
                missing &= ~held
            if not missing.any():
                break
        return holders


@dataclass(frozen=True)
class StridedBox:
    """A rectangular part of an array, as slicing takes it."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        pairs = zip(self.starts, self.stops, self.strides, strict=True)
        return tuple(len(range(a, b, s)) for a, b, s in pairs)


def box_of(positions: np.ndarray, shape: tuple[int, ...]) -> StridedBox | None:
    """The box whose elements, in order, are at flat ``positions`` of an array; or None."""
    flat = positions.ravel()
    if not flat.size or not shape:
        return StridedBox((), (), ()) if flat.size == 1 and not shape else None
    starts, stops, strides = [], [], []
    for coordinates in np.unravel_index(flat, shape):
        along = np.unique(coordinates)
        steps = np.diff(along)
        if (steps != (steps[0] if steps.size else 1)).any():
            return None
        starts.append(int(along[0]))
        stops.append(int(along[-1]) + 1)
        strides.append(int(steps[0]) if steps.size else 1)
    box = StridedBox(tuple(starts), tuple(stops), tuple(strides))
    if math.prod(box.shape) != flat.size:
        return None
    slices = tuple(slice(*s) for s in zip(starts, stops, strides, strict=True))
    inside = np.arange(math.prod(shape)).reshape(shape)[slices]
    return box if (inside.ravel() == flat).all() else None


def box_shape(where: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the elements at sorted indices: of their box, if they are one, else flat."""
    box = box_of(where, shape)
    return (where.size,) if box is None or not shape else box.shape


def joined_along(boxes: list[StridedBox], shape: tuple[int, ...]) -> tuple[int, list[int]] | None:
    """The dimension along which boxes make up an array, and their order; or None."""
    if any(stride != 1 for box in boxes for stride in box.strides):
        return None
    for d in range(len(shape)):
        order = sorted(range(len(boxes)), key=lambda i: boxes[i].starts[d])
        ends = [0, *(boxes[i].stops[d] for i in order)]
        rest = [e for e in range(len(shape)) if e != d]
        others = all((b.starts[e], b.stops[e]) == (0, shape[e]) for b in boxes for e in rest)
        if others and ends[-1] == shape[d]:
            if all(boxes[i].starts[d] == end for i, end in zip(order, ends, strict=False)):
                return d, order
    return None


# --- taking arrays apart and putting pieces together ---------------------------------------------


Emit = Callable[[Any, Callable[..., Any], Sequence[ir.Value]], list[ir.Value]]
"""``(key, function, values)``: writes the ops of a JAX function, which the key identifies."""


def take(emit: Emit, value: ir.Value, shape: tuple[int, ...], positions: np.ndarray) -> ir.Value:
    """The elements at flat positions of an array, in the shape of ``positions``."""
    out_shape = positions.shape
    size = int(np.prod(shape))
    if positions.size == size and (positions.ravel() == np.arange(size)).all():
        return reshape(emit, value, shape, out_shape)
    box = box_of(positions, shape)
    if box is not None:
        return emit(
            ("slice", box, out_shape), lambda x: [_slice(x, box).reshape(out_shape)], [value]
        )[0]
    # A box with one dimension reversed, or with two dimensions exchanged.
    for axes, reversed_ in _rearrangements(len(out_shape), len(shape)):
        back = np.flip(positions, reversed_).transpose(np.argsort(axes))
        box = box_of(back, shape)
        if box is not None:

            def rearranged(
                x: Any, box: StridedBox = box, axes: Any = axes, rev: Any = reversed_
            ) -> Any:
                x = _slice(x, box).transpose(axes) if box.shape else x
                return [lax.rev(x, rev) if rev else x]

            return emit(("rearranged", box, axes, reversed_), rearranged, [value])[0]

    def gathered(x: Any) -> Any:
        return [x.reshape(-1)[positions]]

    return emit(("gathered", out_shape, positions.tobytes()), gathered, [value])[0]


def _rearrangements(wanted: int, ndim: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    if wanted != ndim or not ndim:
        return []
    same = tuple(range(ndim))
    orders = [(same, (d,)) for d in same]
    if ndim == 2:
        orders.append(((1, 0), ()))
    return orders


def _slice(x: Any, box: StridedBox) -> Any:
    whole = (0,) * x.ndim == box.starts and box.stops == x.shape and set(box.strides) <= {1}
    if whole:
        return x
    return lax.slice(x, box.starts, box.stops, None if set(box.strides) == {1} else box.strides)


def reshape(emit: Emit, value: ir.Value, shape: Any, wanted: Any) -> ir.Value:
    if tuple(shape) == tuple(wanted):
        return value
    return emit(("reshape", wanted), lambda x: [x.reshape(wanted)], [value])[0]


def join(emit: Emit, knowledge: Knowledge, where: np.ndarray) -> ir.Value | None:
    """The elements ``where``, from the pieces that hold them; ``None`` if one is unknown."""
    if knowledge.whole is not None:
        return take(emit, knowledge.whole, knowledge.shape, where)
    held = knowledge.holders(where)
    if not held:
        return None
    values = []
    for piece, to, at in held:
        shape = where.shape if len(held) == 1 else (to.size,)
        values.append(take(emit, piece.value, piece.where.shape, at.reshape(shape)))
    if len(values) == 1:
        return values[0]
    places = [to for _, to, _ in held]
    boxes = [box_of(to, where.shape) for to in places]
    along = None
    if all(box is not None for box in boxes):
        along = joined_along(boxes, where.shape)
    if along is not None:
        dimension, order = along

        def joined(*xs: Any) -> Any:
            parts = [xs[i].reshape(boxes[i].shape) for i in order]
            return [lax.concatenate(parts, dimension)]

        return emit(("joined", dimension, tuple(order), tuple(boxes)), joined, values)[0]

    # Interleaved pieces: concatenated, then put in the order of the indices.
    order = np.argsort(np.concatenate(places))

    def interleaved(*xs: Any) -> Any:
        return [lax.concatenate(xs, 0)[order].reshape(where.shape)]

    return emit(("interleaved", where.shape, order.tobytes()), interleaved, values)[0]
