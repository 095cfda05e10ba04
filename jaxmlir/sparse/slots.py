"""Jacobians in slots: for each element of a value, only the derivatives in inputs it depends on.

If each element of a value depends on at most ``s`` of ``n`` inputs, it has ``s`` derivatives, in
arrays ``[s, *shape]`` of *slots*.  The input that a slot stands for is known, for each element,
when the program is transformed: ``inputs[slot, element]``, -1 for none.

An op can be differentiated slot by slot if all elements that it mixes have the same input in each
slot.  The groups of mixed elements are the connected components of the graph of its reads
(:mod:`jaxmlir.sparse.rules`).  For a product of a matrix and a constant one, these are the rows.
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
from jaxmlir.sparse.index_sets import Columns, empty

Layout = np.ndarray
"""The input of each slot of each element, ``[slots, elements]``; -1: none."""
_ANALYSED = 4_000_000
"""Ops with more elements are not analysed: their results count as depending on all inputs."""


class Mixing(NamedTuple):
    """The elements of an op's operands and results that belong together, as group numbers.

    Attributes:
      operands: the group of each element, for each operand that depends on an input.
      results: the group of each element, for each result.
      count: the number of groups.
    """

    operands: list[np.ndarray]
    results: list[np.ndarray]
    count: int


def mixing(program: Module, node: Node, operands: Sequence[Any], depending: Sequence[int]) -> Any:
    """The :class:`Mixing` of an op; ``None`` if it is not known.

    Args:
      operands: arrays; those that are no tracers are constants.
      depending: the numbers of the operands that depend on an input.
    """
    shapes = [tuple(aval.shape) for aval in node.avals()]
    in_shapes = [np.shape(operands[i]) for i in depending]
    if node.name in ELEMENTWISE and {*in_shapes} == {*shapes}:
        numbers = np.arange(math.prod(shapes[0]))
        return Mixing([numbers] * len(in_shapes), [numbers] * len(shapes), numbers.size)
    sizes, out_sizes = (list(map(math.prod, of_side)) for of_side in (in_shapes, shapes))
    if sum(sizes) + sum(out_sizes) > _ANALYSED:
        return None
    columns = Columns(sizes)
    values = [rules.Value(np.shape(x), None, _as_constant(x)) for x in operands]
    for k, i in enumerate(depending):
        values[i] = rules.Value(np.shape(operands[i]), columns.identity(k))
    with jax.ensure_compile_time_eval():
        sets = rules.sets_of(rules.LeafOp(columns, node, values, shapes, program))
    if sets is None:
        return None
    parts = [
        empty(size, columns.width) if rows is None else rows
        for rows, size in zip(sets, out_sizes, strict=True)
    ]
    count, labels = sparse.csgraph.connected_components(columns.links(parts), directed=False)
    # The graph's vertices are the results, then the operands, then the hubs.
    *groups, _ = np.split(labels, np.cumsum([*out_sizes, *sizes]))
    return Mixing(groups[len(shapes) :], groups[: len(shapes)], count)


def _as_constant(x: Any) -> Any:
    return None if isinstance(x, jax.core.Tracer) else functools.partial(np.asarray, x)


def joint(mix: Mixing, layouts: Sequence[Layout], inputs: int) -> Layout | None:
    """The layout of each group, ``[slots, groups]``; ``None`` if it has over ``inputs / 2`` slots.

    Args:
      layouts: the layouts of the operands that depend on an input.
      inputs: the number of inputs.
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
    """Derivatives, rearranged to the slots of another layout, which has all inputs of the first.

    Args:
      data: the derivatives, ``[slots, *shape]``.
      have, want: the old and the new layout; ``None`` for all inputs, in order.
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
    """The derivatives, in all inputs, of sums of elements along some axes.

    Args:
      data: the derivatives of the elements, ``[slots, *shape]``.
      axes: axes of ``shape``.
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
    """An array of zeros to which chosen derivatives are added, each at its place.

    Args:
      parts: the derivatives, ``[slots, elements, alike]``.
      slot, element: the derivatives to choose.
      place: where they go.
      size: the shape of the array, without the dimension ``alike``.
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
    """The number of consecutive elements that share a layout: a product of the last dimensions, not
    including those before ``first``."""
    trailing = 1
    for size in reversed(shape[first:]):
        grouped = source.reshape(len(source), -1, trailing * size)
        if (grouped != grouped[:, :, :1]).any():
            break
        trailing *= size
    return trailing
