"""Writing a product in its order: one JAX function, traced once per plan and types."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxmlir.optimize.algebra.products.order import Order
from jaxmlir.optimize.algebra.products.selectors import Spec

Indices = tuple[int, ...]


class Plan(NamedTuple):
    """How to evaluate a product.

    Attributes:
      sizes: of the indices.
      factors: for each tensor, the indices of each of its dimensions.
      selectors: for each, what it does, the index of the rows, and those of the selected ones.
      out: the indices of each dimension of the result.
      order: the steps.
      scalars: ``"mul"``, ``"div"`` or ``"neg"``; the first two have an argument each.
      scaled: which tensor, in the order's numbers, the scalars are applied to.
      times: how often the product is added up, for indices that no factor has.
      exact: the indices of sums, which are not rounded as matrix products may be.
      shape: of the result.
      dtype: of all tensors.
      precision, preferred_element_type: of the matrix products.
    """

    sizes: Indices
    factors: tuple[tuple[Indices, ...], ...]
    selectors: tuple[tuple[Spec, int, Indices], ...]
    out: tuple[Indices, ...]
    order: Order
    scalars: tuple[str, ...]
    scaled: int
    times: int
    exact: frozenset[int]
    shape: tuple[int, ...]
    dtype: Any
    precision: Any
    preferred_element_type: Any

    def __call__(self, *args: Any) -> list[Any]:
        """The product.

        Args:
          args: the tensors, the operands of the selectors, the scalars.
        """
        return [_Evaluation(self, args).result()]

    def __str__(self) -> str:
        """As an Einstein sum, with the order in brackets: ``ab,bc,c->a as (0 (1 2))``."""
        names = [_letters({i for dim in dims for i in dim}) for dims in self.factors]
        names += [
            f"{_letters(selected)}<{_letters([rows])}" for _, rows, selected in self.selectors
        ]
        trees = list(map(str, range(len(names))))
        for i, j in self.order:
            trees.append(f"({trees[i]} {trees[j]})")
        return f"{','.join(names)}->{_letters(i for dim in self.out for i in dim)} as {trees[-1]}"


def _letters(indices: Iterable[int]) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return "".join(alphabet[i] if i < len(alphabet) else f"<{i}>" for i in indices)


@dataclass
class _Tensor:
    array: Any
    indices: Indices


class _Evaluation:
    def __init__(self, plan: Plan, args: Sequence[Any]):
        self.plan = plan
        rest = iter(args)
        self.arrays = [next(rest) for _ in plan.factors]
        self.operands = [[next(rest) for _ in range(s.operands)] for s, *_ in plan.selectors]
        self.scalars = [None if kind == "neg" else next(rest) for kind in plan.scalars]
        # How many tensors and selectors have an index; the result has it for good.
        self.users = Counter(index for dim in plan.out for index in dim)
        for dims in plan.factors:
            self.users.update({index for dim in dims for index in dim})
        for _, rows, selected in plan.selectors:
            self.users.update({rows, *selected})

    def result(self) -> Any:
        plan = self.plan
        live: dict[int, _Tensor | int] = {}
        for k, array in enumerate(self.arrays):
            live[k] = self.scale(k, self.factor(array, plan.factors[k]))
        count = len(self.arrays)
        for k in range(len(plan.selectors)):
            live[count + k] = k
        for step, (i, j) in enumerate(plan.order, start=len(live)):
            a, b = live.pop(i), live.pop(j)
            if isinstance(a, int):
                a, b = b, a
            product = self.selected(a, b) if isinstance(b, int) else self.product(a, b)
            live[step] = self.scale(step, product)
        ((_, tensor),) = live.items()
        return self.spread(tensor)

    def factor(self, array: Any, dims: tuple[Indices, ...]) -> _Tensor:
        """A tensor with one dimension for each of its indices that is needed elsewhere."""
        indices = [index for dim in dims for index in dim]
        array = reshaped(array, [self.plan.sizes[i] for i in indices])
        for index in {i for i in indices if indices.count(i) > 1}:
            axes = [k for k, i in enumerate(indices) if i == index]
            array = diagonal(array, axes)
            indices = [index, *(i for i in indices if i != index)]
        return self.release(_Tensor(array, tuple(indices)), indices)

    def release(self, tensor: _Tensor, indices: Sequence[int]) -> _Tensor:
        """A tensor summed over indices that nobody else has; it has itself been counted."""
        self.users.subtract(set(indices))
        gone = [k for k, i in enumerate(tensor.indices) if not self.users[i]]
        left = tuple(i for i in tensor.indices if self.users[i])
        self.users.update(left)
        return _Tensor(_sum(tensor.array, gone), left) if gone else tensor

    def product(self, a: _Tensor, b: _Tensor) -> _Tensor:
        self.users.subtract(a.indices)
        self.users.subtract(b.indices)
        both = [i for i in a.indices if i in b.indices]
        summed = [i for i in both if not self.users[i]]
        batch = [i for i in both if self.users[i]]
        free_a = [i for i in a.indices if i not in both]
        free_b = [i for i in b.indices if i not in both]
        if summed and (free_a or free_b):
            turned = (*batch, *free_b, *free_a)
            if free_a and free_b and turned == tuple(i for dim in self.plan.out for i in dim):
                # The dimensions come out in the order of the operands: no transpose this way.
                a, b, free_a, free_b = b, a, free_b, free_a
            dimension_numbers = tuple(
                tuple(tuple(x.indices.index(i) for i in group) for x in (a, b))
                for group in (summed, batch)
            )
            array = self.dot_general(a.array, b.array, dimension_numbers, summed)
            made = _Tensor(array, (*batch, *free_a, *free_b))
        else:
            indices = (*a.indices, *free_b)
            array = lax.mul(self.aligned(a, indices), self.aligned(b, indices))
            gone = [k for k, i in enumerate(indices) if i in summed]
            made = _Tensor(
                _sum(array, gone) if gone else array, tuple(i for i in indices if i not in summed)
            )
        self.users.update(made.indices)
        return made

    def dot_general(self, a: Any, b: Any, dimension_numbers: Any, summed: Sequence[int]) -> Any:
        # A sum that was none of a matrix product keeps all digits.
        exact = any(i in self.plan.exact for i in summed)
        return lax.dot_general(
            a,
            b,
            dimension_numbers,
            precision=lax.Precision.HIGHEST if exact else self.plan.precision,
            preferred_element_type=self.plan.preferred_element_type,
        )

    def aligned(self, tensor: _Tensor, indices: Sequence[int]) -> Any:
        """A tensor's elements with a dimension for each of some indices, which include its own."""
        order = sorted(range(len(tensor.indices)), key=lambda k: indices.index(tensor.indices[k]))
        array = tensor.array
        if order != sorted(order):
            array = lax.transpose(array, order)
        dims = sorted(indices.index(i) for i in tensor.indices)
        if len(dims) == len(indices):
            return array
        return lax.broadcast_in_dim(array, [self.plan.sizes[i] for i in indices], dims)

    def selected(self, tensor: _Tensor, k: int) -> _Tensor:
        """Rows of a tensor selected, picked, or added up."""
        spec, rows, selected = self.plan.selectors[k]
        self.users.subtract({rows, *selected})
        self.users.subtract(tensor.indices)
        if rows in tensor.indices and selected and set(selected) <= set(tensor.indices):
            others = tuple(i for i in tensor.indices if i not in (rows, *selected))
            array = self.aligned(tensor, (*selected, rows, *others))
            array = spec.pick(array, len(selected), self.operands[k])
            indices = (*selected, *others)
        elif rows in tensor.indices:
            axis = tensor.indices.index(rows)
            sizes = [self.plan.sizes[i] for i in selected]
            array = spec.select(tensor.array, axis, sizes, self.operands[k])
            indices = (*tensor.indices[:axis], *selected, *tensor.indices[axis + 1 :])
        else:
            others = tuple(i for i in tensor.indices if i not in selected)
            array = self.aligned(tensor, (*selected, *others))
            array = spec.add(array, len(selected), self.plan.sizes[rows], self.operands[k])
            indices = (rows, *others)
        self.users.update(indices)
        return self.release(_Tensor(array, indices), indices)

    def scale(self, k: int, tensor: _Tensor) -> _Tensor:
        """A tensor times the scalars, if it is the one that they are applied to."""
        plan = self.plan
        if k != plan.scaled:
            return tensor
        array = tensor.array
        for kind, scalar in zip(plan.scalars, self.scalars, strict=True):
            if kind == "neg":
                array = lax.neg(array)
            else:
                number = lax.broadcast_in_dim(reshaped(scalar, ()), array.shape, ())
                array = (lax.mul if kind == "mul" else lax.div)(array, number)
        if plan.times != 1:
            array = lax.mul(array, lax.full_like(array, _number(plan.times, plan.dtype)))
        return _Tensor(array, tensor.indices)

    def spread(self, tensor: _Tensor) -> Any:
        """The result: a tensor repeated along indices that no factor has, and zero where an index
        differs from itself."""
        plan = self.plan
        flat = [index for dim in plan.out for index in dim]
        sizes = [plan.sizes[i] for i in flat]
        array = self.aligned(tensor, list(dict.fromkeys(flat)))
        dims = [flat.index(i) for i in dict.fromkeys(flat)]
        if len(dims) < len(flat):
            array = lax.broadcast_in_dim(array, sizes, dims)
            for axis, index in enumerate(flat):
                if flat.index(index) != axis:
                    array = lax.select(
                        same_index(sizes, flat.index(index), axis), array, lax.full_like(array, 0)
                    )
        return reshaped(array, plan.shape)


def reshaped(array: Any, shape: Sequence[int]) -> Any:
    return array if array.shape == tuple(shape) else lax.reshape(array, shape)


def _number(times: int, dtype: Any) -> Any:
    """A count in a dtype, wrapped around as sums of integers are."""
    if np.dtype(dtype).kind not in "iu":
        return times
    return np.asarray(times % (1 << 8 * np.dtype(dtype).itemsize), np.uint64).astype(dtype)


def _sum(array: Any, axes: Sequence[int]) -> Any:
    """Not ``jnp.sum``, which computes in another type."""
    return lax.reduce(array, np.zeros((), array.dtype), lax.add, tuple(axes))


def diagonal(array: Any, axes: Sequence[int]) -> Any:
    """The elements whose indices along some axes are equal; the common one comes first."""
    others = [k for k in range(array.ndim) if k not in axes]
    size = array.shape[axes[0]]
    array = lax.transpose(array, [*axes, *others])
    rest = array.shape[len(axes) :]
    # Along the axes the diagonal is every (1 + n + n^2 + ...)-th element.
    step = sum(size**k for k in range(len(axes)))
    flat = lax.reshape(array, [math.prod([size] * len(axes)), *rest])
    return lax.slice(flat, [0] * flat.ndim, flat.shape, [step, *[1] * len(rest)])


def same_index(shape: Sequence[int], first: int, second: int) -> jax.Array:
    """Where two indices of a tensor are equal."""
    i, j = (lax.broadcasted_iota(np.int32, shape, axis) for axis in (first, second))
    return lax.eq(i, j)
