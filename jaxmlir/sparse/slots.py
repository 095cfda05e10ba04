"""Jacobians in slots: of each element of a value, only the derivatives in inputs it depends on.

A value whose elements depend on at most ``s`` of ``n`` inputs has ``s`` derivatives for each,
in arrays ``[s, *shape]`` of *slots*.  Which input a slot stands for is known when the program is
transformed, element by element: ``inputs[slot, element]``, -1 for none.

An op can be differentiated slot by slot if all that it mixes has the same input in each slot.  What
it mixes are the connected components of the graph of its reads (:mod:`jaxmlir.sparse.rules`): the
elements of a row, for a product of a matrix by a constant one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.module import Module
from jaxmlir.interpret.interpreter import Node
from jaxmlir.sparse import rules
from jaxmlir.sparse.index_sets import Columns

Layout = np.ndarray
"""The input of each slot of each element, ``[slots, elements]``; -1: none."""
_ANALYSED = 4_000_000
"""Values of more elements are not analysed: they are taken to depend on all inputs."""


class Mixing(NamedTuple):
    """Which elements of an op's operands and results belong together, as numbers of groups.

    Attributes:
      operands: of each operand that depends on an input.
    """

    operands: list[np.ndarray]
    results: list[np.ndarray]
    count: int


def mixing(program: Module, node: Node, operands: Sequence[Any], depending: Sequence[int]) -> Any:
    """The :class:`Mixing` of an op; ``None`` where it is not known.

    Args:
      operands: arrays; those that are no tracers are constants.
      depending: which of them depend on an input.
    """
    shapes = [tuple(aval.shape) for aval in node.avals()]
    in_shapes = [np.shape(operands[i]) for i in depending]
    if node.name in ELEMENTWISE and {*in_shapes} == {*shapes}:
        numbers = np.arange(math.prod(shapes[0]))
        return Mixing([numbers] * len(in_shapes), [numbers] * len(shapes), numbers.size)
    sizes = [math.prod(shape) for shape in (*in_shapes, *shapes)]
    if sum(sizes) > _ANALYSED:
        return None
    reading = sum(sizes[: len(in_shapes)])
    columns, start = Columns(reading), 0
    values = [rules.Value(np.shape(x), None, _as_constant(x)) for x in operands]
    for i, size in zip(depending, sizes, strict=False):
        values[i] = rules.Value(np.shape(operands[i]), columns.inputs_from(start, size))
        start += size
    with jax.ensure_compile_time_eval():
        sets = rules.sets_of(rules.LeafOp(columns, node, values, shapes, program))
    if sets is None:
        return None
    links = columns.links([rows for rows in sets if rows is not None])
    results = np.full(sum(sizes[len(in_shapes) :]), -1)
    # Of the graph's vertices the results come first, then operands and hubs.
    count, labels = sparse.csgraph.connected_components(links, directed=False)
    placed, start = 0, 0
    for rows, size in zip(sets, sizes[len(in_shapes) :], strict=True):
        if rows is not None:
            results[start : start + size] = labels[placed : placed + size]
            placed += size
        start += size
    ends = np.cumsum(sizes)
    of_operands = np.split(labels[placed : placed + reading], ends[: len(in_shapes) - 1])
    # Results that depend on nothing are a group by themselves.
    of_results = np.split(
        np.where(results < 0, count, results), ends[len(in_shapes) : -1] - reading
    )
    return Mixing(of_operands, of_results, count + 1)


def _as_constant(x: Any) -> Any:
    return None if isinstance(x, jax.core.Tracer) else functools.partial(np.asarray, x)


def joint(mix: Mixing, layouts: Sequence[Layout], inputs: int) -> Layout | None:
    """The layout of each group ``[slots, groups]``; ``None`` where most inputs have a slot.

    Args:
      layouts: of the operands that depend on an input.
      inputs: how many there are.
    """
    pairs = []
    for groups, layout in zip(mix.operands, layouts, strict=True):
        keys = groups * inputs + layout
        pairs.append(np.unique(keys[layout >= 0]))
    group, of_group = np.divmod(np.unique(np.concatenate(pairs)), inputs)
    counts = np.bincount(group, minlength=mix.count)
    slots = int(counts.max(initial=0))
    if 2 * slots > inputs:
        return None
    layout = np.full((slots, mix.count), -1)
    layout[np.arange(group.size) - (np.cumsum(counts) - counts)[group], group] = of_group
    return layout


def aligned(data: Any, have: Layout | None, want: Layout | None, inputs: int) -> Any:
    """Derivatives in the slots of another layout, which has all inputs of the first.

    Args:
      data: ``[slots, *shape]``.
      want: ``None`` for all inputs, in order.
    """
    if have is None or have is want:
        return data
    shape = data.shape[1:]
    if want is None:
        want = np.broadcast_to(np.arange(inputs)[:, None], (inputs, have.shape[1]))
    elif np.array_equal(have, want):
        return data
    if not data.size or not want.size:
        return jnp.zeros((len(want), *shape), data.dtype)
    source = np.full(want.shape, -1)
    for slot, slot_inputs in enumerate(have):
        source[(want == slot_inputs) & (slot_inputs >= 0)] = slot
    trailing = _repeated(source, shape)
    source = source.reshape(len(want), -1, trailing)[:, :, 0]
    parts = data.reshape(len(data), -1, trailing)
    filled = source >= 0
    if 2 * np.count_nonzero(filled) <= filled.size:
        slot, element = np.nonzero(filled)
        arranged = _scattered(parts, source[filled], element, (slot, element), source.shape)
    else:
        arranged = parts[np.maximum(source, 0), np.arange(source.shape[1])]
        arranged = jnp.where(filled[:, :, None], arranged, jnp.zeros((), data.dtype))
    return arranged.reshape(len(want), *shape)


def summed(data: Any, have: Layout, axes: Sequence[int], inputs: int) -> Any:
    """The derivatives, in all inputs, of sums of elements.

    Args:
      data: ``[slots, *shape]``.
      axes: those of the elements, along which they are added up.
    """
    shape = data.shape[1:]
    out_dims = tuple(d for d in range(len(shape)) if d not in axes)
    last = max((d + 1 for d in axes), default=0)
    trailing = _repeated(have, shape, last)
    of_results = np.arange(math.prod(shape[d] for d in out_dims)).reshape(
        [shape[d] for d in out_dims]
    )
    of_results = np.broadcast_to(np.expand_dims(of_results, tuple(axes)), shape)
    of_results = of_results.reshape(-1, trailing)[:, 0] // trailing
    have = have.reshape(len(have), -1, trailing)[:, :, 0]
    slot, element = np.nonzero(have >= 0)
    place = have[slot, element], of_results[element]
    parts = data.reshape(len(data), -1, trailing)
    size = inputs, math.prod(shape[d] for d in out_dims) // trailing
    sums = _scattered(parts, slot, element, place, size)
    return sums.reshape(inputs, *(shape[d] for d in out_dims))


def _scattered(
    parts: Any,
    slot: np.ndarray,
    element: np.ndarray,
    place: tuple[np.ndarray, np.ndarray],
    size: tuple[int, int],
) -> Any:
    """Derivatives, each added to what is at its place.

    Args:
      parts: ``[slots, elements, alike]``.
      slot, element: which of them.
      place: where they go, in an array of this ``size``.
    """
    order = np.lexsort((element, slot))
    slot, element = slot[order], element[order]
    alike = parts.shape[-1]
    if slot.size == parts.shape[0] * parts.shape[1]:
        updates = parts.reshape(-1, alike)
    else:
        updates = parts[slot, element]
    zeros = jnp.zeros((*size, alike), parts.dtype)
    return zeros.at[tuple(at[order] for at in place)].add(updates, mode="promise_in_bounds")


def _repeated(source: np.ndarray, shape: Sequence[int], first: int = 0) -> int:
    """How many elements of the last dimensions, from the ``first`` one on, are alike."""
    trailing = 1
    for size in reversed(shape[first:]):
        grouped = source.reshape(len(source), -1, trailing * size)
        if (grouped != grouped[:, :, :1]).any():
            break
        trailing *= size
    return trailing
