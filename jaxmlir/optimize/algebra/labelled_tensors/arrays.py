"""Arrays with labels on their dimensions, in a JAX function that is traced."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax


class LabelledArray(NamedTuple):
    """An array with a label on each dimension."""

    array: Any
    labels: tuple[int, ...]

    def relabelled(self, new: Sequence[int]) -> LabelledArray:
        """The array with the labels that a sequence has for its own."""
        return LabelledArray(self.array, tuple([new[k] for k in self.labels]))

    @property
    def negative(self) -> LabelledArray:
        return LabelledArray(lax.neg(self.array), self.labels)

    def diagonal(self) -> LabelledArray:
        """The elements at which labels that the array has twice have one index, in its first
        dimensions."""
        labels, array = list(self.labels), self.array
        for label in {k for k in labels if labels.count(k) > 1}:
            axes = [d for d, k in enumerate(labels) if k == label]
            array = _diagonal(array, axes)
            labels = [label, *(k for k in labels if k != label)]
        return LabelledArray(array, tuple(labels))

    def spread(self, labels: Sequence[int], sizes: Any) -> Any:
        """The elements with a dimension for each of some labels, which include all of its own.

        Args:
          sizes: of the labels.
        """
        at = [labels.index(k) for k in self.labels]
        dims, array = sorted(at), self.array
        if at != dims:
            array = lax.transpose(array, sorted(range(len(at)), key=at.__getitem__))
        if len(dims) == len(labels):
            return array
        return lax.broadcast_in_dim(array, [sizes[k] for k in labels], dims)

    def summed(self, gone: Collection[int]) -> LabelledArray:
        """The array summed over those of some labels that it has."""
        axes = tuple([d for d, k in enumerate(self.labels) if k in gone])
        if not axes:
            return self
        # Not ``jnp.sum``, which computes in another type.
        array = lax.reduce(self.array, np.zeros((), self.array.dtype), lax.add, axes)
        return LabelledArray(array, tuple([k for k in self.labels if k not in gone]))


def contracted(
    a: LabelledArray,
    b: LabelledArray,
    gone: Collection[int],
    precision: Any,
    preferred_element_type: Any,
) -> LabelledArray:
    """The product of two arrays summed over labels, as a ``dot_general``: with the labels that both
    have first, then those of the first array, then those of the second."""
    both = [k for k in a.labels if k in b.labels]
    groups = [k for k in both if k in gone], [k for k in both if k not in gone]
    numbers = tuple(
        tuple(tuple(x.labels.index(k) for k in group) for x in (a, b)) for group in groups
    )
    array = lax.dot_general(
        a.array,
        b.array,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    free = [k for x in (a, b) for k in x.labels if k not in both]
    return LabelledArray(array, (*groups[1], *free)).summed(gone)


def reshaped(array: Any, shape: Sequence[int]) -> Any:
    return array if array.shape == tuple(shape) else lax.reshape(array, shape)


def _diagonal(array: Any, axes: Sequence[int]) -> Any:
    """The elements whose indices along some axes are equal; the common one comes first."""
    others = [k for k in range(array.ndim) if k not in axes]
    size = array.shape[axes[0]]
    array = lax.transpose(array, [*axes, *others])
    rest = array.shape[len(axes) :]
    # Along the axes the diagonal is every (1 + n + n^2 + ...)-th element.
    step = sum(size**k for k in range(len(axes)))
    flat = lax.reshape(array, [math.prod([size] * len(axes)), *rest])
    return lax.slice(flat, [0] * flat.ndim, flat.shape, [step, *[1] * len(rest)])
