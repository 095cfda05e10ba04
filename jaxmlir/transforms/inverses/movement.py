"""Inverses of ops that move elements: each result element is one operand element.

If the result is known entirely and nothing is lost, the inverse is an op of the same kind.
Otherwise the elements that come back are a piece of the operand.  To find which element goes where,
the rule moves the indices themselves, in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir.analysis.moves import MOVES, Move, select
from jaxmlir.dialect.builder import overwrites
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops.record import operands_in
from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.inverses.knowledge import ValuePart, box_shape, take
from jaxmlir.transforms.inverses.rule import RULES, typed
from jaxmlir.transforms.inverses.solver import InverseRule, NotInvertible, Site


@dataclass(frozen=True)
class Movement(InverseRule):
    """The rule of an op whose operands' elements are moved, not changed."""

    move: Move
    undo: Callable[..., Any] | None = None
    """``(result, shape of the operand, **attributes) -> operand``, where nothing is lost."""
    moved: tuple[int | EllipsisType, ...] = (0, ...)
    """The operands whose elements are moved; the others say how, and have to be constants."""

    def learn(self, site: Site) -> None:
        """Gives known elements of the results back to the operands."""
        if self._undone(site):
            return
        results_known = all(site.known(site.results))
        if results_known and not all(site.solver.of(v).static for v in site.operands):
            raise NotInvertible("its shape is symbolic, so it is not known where each element goes")
        origins = self._origins(site)
        if origins is None:
            return
        for i, (owner, index) in enumerate(origins):
            knowledge = site.solver.of(site.results[i])
            if knowledge.whole is not None:
                pieces = [(knowledge.whole, knowledge.everywhere())]
            else:
                pieces = [(p.value, p.where) for p in knowledge.pieces]
            for value, where in pieces:
                if (i, where.tobytes()) not in site.done:
                    site.done.add((i, where.tobytes()))
                    self._hand_back(site, value, owner.ravel()[where], index.ravel()[where])

    def _attributes(self, site: Site) -> dict[str, Any]:
        return {name: site.params[name] for name in self.move.attributes}

    def _undone(self, site: Site) -> bool:
        """Undoes the op as a whole, if possible; whether it was."""
        if self.undo is None:
            return False
        result, target = site.whole(site.results[0]), site.operands[0]
        if result is None or site.whole(target) is not None:
            return False
        aval = aval_of(target.type)
        if 0 in aval_of(result.type).shape and 0 not in aval.shape:
            return False
        attributes, undo = self._attributes(site), self.undo

        def undone(y: Any) -> list[Any]:
            return [typed(undo(y, aval.shape, **attributes), aval)]

        (value,) = site.emit(("undo", aval.shape), undone, [result])
        site.tell(target, value)
        return True

    def _hand_back(self, site: Site, value: ir.Value, owner: np.ndarray, index: np.ndarray) -> None:
        """Tells which elements of the operands the elements of one value are."""
        for i, operand in enumerate(site.operands):
            knowledge = site.solver.of(operand)
            if knowledge.whole is not None or not (owner == i).any():
                continue
            positions = np.flatnonzero(owner.ravel() == i)
            where, first = np.unique(index.ravel()[positions], return_index=True)
            if where.size == owner.size:
                site.tell(operand, value, index)
                continue
            # If they are a box of the operand, they get the box's shape.
            positions = positions[first]
            shape = box_shape(where, knowledge.shape)
            part = take(site.emit, value, owner.shape, positions.reshape(shape))
            site.tell(operand, part, where.reshape(shape))

    def forward(self, site: Site) -> None:
        """Passes known elements of the operands on to the results."""
        solver = site.solver
        if not any(solver.of(v).known().any() for v in site.operands if solver.of(v).static):
            return
        try:
            origins = self._origins(site)
        except NotInvertible:
            return
        if origins is None:
            return
        for result, (owner, index) in zip(site.results, origins, strict=True):
            knowledge = solver.of(result)
            if knowledge.whole is not None:
                continue
            missing = ~knowledge.known().reshape(knowledge.shape)
            for i, operand in enumerate(site.operands):
                mine = (owner == i) & missing
                if not mine.any():
                    continue
                got = mine & solver.of(operand).known()[np.where(owner == i, index, 0)]
                if got.all():
                    site.tell(result, _required(solver.take(operand, index)))
                elif got.any():
                    where = np.flatnonzero(got)
                    shape = box_shape(where, knowledge.shape)
                    value = solver.take(operand, index.ravel()[where].reshape(shape))
                    site.tell(result, _required(value), where.reshape(shape))

    def _origins(self, site: Site) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """For each result, the operand of each element, and the element's flat index there."""
        if "origins" not in site.memory:
            origins = site.memory["origins"] = self._moved(site)
            # Only for ops that read one array: others read most of each array.
            if origins and operands_in(self.moved, len(site.operands)) == (0,):
                indices = np.concatenate([index.ravel() for _, index in origins])
                if indices.size and all((owner == 0).all() for owner, _ in origins):
                    site.reads[site.operands[0]] = int(indices.min()), int(indices.max())
        return site.memory["origins"]

    def _moved(self, site: Site) -> list[tuple[np.ndarray, np.ndarray]] | None:
        shapes = [site.solver.of(v).shape for v in site.operands]
        if not all(site.solver.of(v).static for v in site.operands):
            return None
        moved = operands_in(self.moved, len(shapes))
        offsets, args, total = [], [], 0
        for i, (value, shape) in enumerate(zip(site.operands, shapes, strict=True)):
            offsets.append(total)
            if i not in moved:
                static = site.solver.static(value)
                if static is None:
                    return None
                args.append(static)
            else:
                size = math.prod(shape)
                args.append(np.arange(total, total + size).reshape(shape))
                total += size
        origins = []
        for array in self.move.run(*args, **self._attributes(site)):
            array = np.asarray(array)
            owner = np.full(array.shape, -1)
            for i, (offset, shape) in enumerate(zip(offsets, shapes, strict=True)):
                if i in moved:
                    owner[(array >= offset) & (array < offset + math.prod(shape))] = i
            origins.append((owner, array - np.asarray([*offsets, 0])[owner]))
        return origins


def _required(value: ir.Value | None) -> ir.Value:
    assert value is not None
    return value


def _register(name: str, **fields: Any) -> None:
    RULES[name] = Movement(MOVES[name], **fields)


# --- one operand, nothing lost --------------------------------------------------------------------


def _unreshape(y: Any, shape: Any, *, new_sizes: Any, dimensions: Any) -> Any:
    if dimensions is None:
        return lax.reshape(y, shape)
    permuted = lax.reshape(y, tuple(shape[d] for d in dimensions))
    return lax.transpose(permuted, np.argsort(dimensions))


_register("reshape", undo=_unreshape)
_register("squeeze", undo=lambda y, shape, *, dimensions: lax.expand_dims(y, dimensions))
_register(
    "transpose", undo=lambda y, shape, *, permutation: lax.transpose(y, np.argsort(permutation))
)
_register("rev", undo=lambda y, shape, *, dimensions: lax.rev(y, dimensions))


# --- one operand, repeated ------------------------------------------------------------------------


def _unbroadcast(y: Any, operand_shape: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    sizes = [1] * len(shape)
    for d, size in zip(broadcast_dimensions, operand_shape, strict=True):
        sizes[d] = size
    first = y if tuple(sizes) == y.shape else lax.slice(y, (0,) * y.ndim, sizes)
    return lax.reshape(first, operand_shape)


_register("broadcast_in_dim", undo=_unbroadcast, moved=(0,))
_register("tile", undo=lambda y, shape, *, reps: lax.slice(y, (0,) * y.ndim, shape))

for _name in ("slice", "pad", "split", "unstack", "concatenate", "stack"):
    _register(_name)


# --- at indices that are constants ----------------------------------------------------------------


def _on_indices(primitive: Any) -> Callable[..., np.ndarray]:
    """The op itself, on integers, run once while the program is inverted."""

    def move(*args: np.ndarray, **params: Any) -> np.ndarray:
        with jax.ensure_compile_time_eval():
            return np.asarray(primitive(*map(jnp.asarray, args), **params))

    return move


def _scatter(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, dimension_numbers: Any, mode: Any
) -> list[np.ndarray]:
    run = _on_indices(lambda *xs: lax.scatter(*xs, dimension_numbers, mode=mode))
    return [run(x.astype(np.int32), indices, updates.astype(np.int32))]


def _gather(
    x: np.ndarray, indices: np.ndarray, *, dimension_numbers: Any, slice_sizes: Any, mode: Any
) -> list[np.ndarray]:
    run = _on_indices(
        lambda *xs: lax.gather(*xs, dimension_numbers, slice_sizes, mode=mode, fill_value=-1)
    )
    return [run(x.astype(np.int32), indices)]


_register("dynamic_slice", moved=(0,))
_register("dynamic_update_slice", moved=(0, 1))


class Scatter(Movement):
    """A scatter: overwritten elements are lost.  If it applies a function, it is no movement."""

    def _moved(self, site: Site) -> list[tuple[np.ndarray, np.ndarray]] | None:
        if not overwrites(site.op):
            raise NotInvertible("it applies a function to elements instead of overwriting them")
        return super()._moved(site)


RULES["scatter"] = Scatter(Move(_scatter, ("dimension_numbers", "mode")), moved=(0, 2))


class Gather(Movement):
    """A gather; at indices known only at run time, it must take all elements in some order."""

    def learn(self, site: Site) -> None:
        super().learn(site)
        target, indices = site.operands
        y, order = site.whole(site.results[0]), site.whole(indices)
        if y is None or order is None or site.whole(target) is not None or self._origins(site):
            return
        if "permuted" in site.done:
            return
        site.done.add("permuted")
        aval, result = aval_of(target.type), aval_of(site.results[0].type)
        if result.size != aval.size:
            raise NotInvertible(
                f"it takes {result.size} of {aval.size} elements, at indices computed at run time; "
                "with such indices, only a permutation can be undone"
            )
        attributes = self._attributes(site)

        def unpermuted(y: Any, indices: Any) -> list[Any]:
            places = jnp.arange(aval.size, dtype=jnp.int32).reshape(aval.shape)
            taken = lax.gather(places, indices, **attributes)
            # An element that is at no index is unknown.
            unknown = np.nan if jnp.issubdtype(y.dtype, jnp.inexact) else 0
            flat = jnp.full(aval.size, unknown, y.dtype)
            flat = flat.at[taken.ravel()].set(y.ravel(), unique_indices=True)
            return [typed(flat.reshape(aval.shape), aval)]

        (value,) = site.emit(("permuted", aval.shape), unpermuted, [y, order])
        site.tell(target, value)


RULES["gather"] = Gather(Move(_gather, ("dimension_numbers", "slice_sizes", "mode")), moved=(0,))


class Select(Movement):
    """A selection; a predicate known only at run time makes parts of the cases known."""

    def learn(self, site: Site) -> None:
        result = site.whole(site.results[0])
        which, *cases = site.operands
        by_case = result is not None and site.whole(which) is not None and not self._origins(site)
        if not by_case:
            super().learn(site)
            return
        for i, case in enumerate(cases):
            if site.whole(case) is None:
                site.solver.tell_part(case, ValuePart(which, i, len(cases)), result)


RULES["select_n"] = Select(Move(select), moved=(1, ...))

# --- values passed through ------------------------------------------------------------------------


class PassThrough(Movement):
    """Results are operands: a value known as a whole passes in any shape."""

    def learn(self, site: Site) -> None:
        if self._pass_on(site, site.results, self._passed(site)):
            super().learn(site)

    def forward(self, site: Site) -> None:
        if self._pass_on(site, self._passed(site), site.results):
            super().forward(site)

    @staticmethod
    def _passed(site: Site) -> list[ir.Value]:
        return site.operands[-len(site.results) :]

    @staticmethod
    def _pass_on(site: Site, sources: Sequence[ir.Value], targets: Sequence[ir.Value]) -> bool:
        """Passes values on from sources to targets; whether a target is not known yet."""
        for source, target in zip(sources, targets, strict=True):
            value = site.whole(source)
            # The types differ where one says in which memory the value is.
            if value is not None and value.type == target.type:
                site.solver.tell(target, value)
        return not all(site.known(targets))


_PASSING_ON = """
    copy device_put layout_constraint name optimization_barrier sharding_constraint stop_gradient
    xla_metadata_value
""".split()
RULES |= dict.fromkeys(_PASSING_ON, PassThrough(Move(lambda *xs: list(xs))))
RULES["tie"] = PassThrough(Move(lambda x, y: [y]))
