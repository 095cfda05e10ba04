"""Writing an expression: one JAX function, traced once for each plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import lax

from jaxmlir.optimize.algebra.factor_linear_sums.cost import contracts
from jaxmlir.optimize.algebra.factor_linear_sums.region import Unfit
from jaxmlir.optimize.algebra.factor_linear_sums.tensors import Expr, Tensor, Wiring


@dataclass(frozen=True)
class Step:
    """An operation; operands are numbers of inputs and steps, with a wiring and a sign each."""

    kind: str
    params: Any
    operands: tuple[tuple[int, Wiring, int], ...]
    sizes: tuple[int, ...]
    rank: int
    contracts: bool


@dataclass(frozen=True)
class Plan:
    """How to compute a tensor.

    Attributes:
      inputs: for each dimension of a value the dimension of the expression, or ``None``; and the
        value's sign.
      steps: what is computed, in order.
      labels: of the dimensions of the last one.
      sign: of the last one.
      layout: for each dimension of the result the label, or ``None`` if it is repeated.
      shape: of the result.
    """

    inputs: tuple[tuple[tuple[int | None, ...], int], ...]
    steps: tuple[Step, ...]
    labels: tuple[int, ...]
    sign: int
    layout: tuple[int | None, ...]
    shape: tuple[int, ...]
    dtype: Any

    def __call__(self, *args: Any) -> list[Any]:
        arrays = [_input(x, layout) for x, (layout, _) in zip(args, self.inputs, strict=True)]
        signs = [sign for _, sign in self.inputs]
        for step in self.steps:
            operands = [
                (arrays[i].wired(w), sign * (signs[i] if i < len(signs) else 1))
                for i, w, sign in step.operands
            ]
            arrays.append(_computed(step, operands, self.dtype, len(signs)))
        array, labels = arrays[-1].array, [self.labels[d] for d in arrays[-1].dims]
        order = sorted(range(len(labels)), key=lambda k: self.layout.index(labels[k]))
        if order != sorted(order):
            array = lax.transpose(array, order)
        dims = sorted(self.layout.index(label) for label in labels)
        if self.sign < 0:
            array = lax.neg(array)
        if array.shape != self.shape:
            array = lax.broadcast_in_dim(array, self.shape, dims)
        return [array]


def plan(
    root: Expr, shape: tuple[int, ...], new: Tensor, is_there: Callable[[Expr], bool]
) -> tuple[Plan, list[Expr]]:
    """How to compute a tensor in the place of a root, and from which expressions.

    Raises:
      Unfit: something has to be computed again that cannot be.
    """
    inputs: list[Expr] = []
    order: list[Expr] = []
    seen: set[Expr] = set()
    pending = [(new.expr, False)]
    while pending:
        expr, done = pending.pop()
        if done:
            order.append(expr)
        elif expr not in seen:
            seen.add(expr)
            if is_there(expr) and expr.kind != "constant":
                inputs.append(expr)
            elif expr.kind not in _KINDS:
                raise Unfit
            else:
                pending.append((expr, True))
                pending += [(e, False) for e, _, _ in reversed(expr.operands)]
    number = {expr: k for k, expr in enumerate((*inputs, *order))}
    steps = tuple(
        Step(
            e.kind,
            e.params,
            tuple((number[x], w, s) for x, w, s in e.operands),
            e.sizes,
            e.rank,
            contracts(e),
        )
        for e in order
    )
    found = Plan(
        tuple((e.layout, e.sign) for e in inputs),
        steps,
        new.labels,
        new.sign * root.sign,
        root.layout,
        shape,
        root.dtype,
    )
    return found, inputs


@dataclass
class _Array:
    """An expression's elements; ``dims`` are its dimensions in the order of the array."""

    array: Any
    dims: tuple[int, ...]

    def wired(self, wiring: Wiring) -> _Array:
        return _Array(self.array, tuple([wiring[d] for d in self.dims]))


def _input(value: Any, layout: Sequence[int | None]) -> _Array:
    """A value without dimensions that the expression has not."""
    kept = [d for d, k in enumerate(layout) if k is not None]
    limits = [n if d in kept else 1 for d, n in enumerate(value.shape)]
    if tuple(limits) != value.shape:
        value = lax.slice(value, [0] * value.ndim, limits)
    if len(kept) < value.ndim:
        value = lax.reshape(value, [value.shape[d] for d in kept])
    return _Array(value, tuple([layout[d] for d in kept]))


def _computed(step: Step, operands: list[tuple[_Array, int]], dtype: Any, inputs: int) -> _Array:
    match step.kind:
        case "constant":
            return _Array(np.frombuffer(step.params, dtype)[0].reshape(()), ())
        case "eye":
            shape = step.sizes
            i, j = (lax.broadcasted_iota(np.int32, shape, axis) for axis in (0, 1))
            return _Array(lax.convert_element_type(lax.eq(i, j), dtype), (0, 1))
        case "product" if step.contracts:
            # What is computed comes first: it is of points, say, and the other one of weights.
            order = sorted(range(2), key=lambda k: step.operands[k][0] < inputs)
            found = _contracted(step, *(operands[k][0] for k in order))
            negative = [sign for _, sign in operands].count(-1) == 1
            return _Array(lax.neg(found.array), found.dims) if negative else found
    # The result has its dimensions in the order of the largest operand.
    dims = max((a.dims for a, _ in operands), key=len)
    dims = (*dims, *(d for d in range(len(step.sizes)) if d not in dims))
    arrays = [_spread(a, dims, step.sizes) for a, _ in operands]
    signs = [sign for _, sign in operands]
    match step.kind:
        case "add":
            a, b = arrays
            if signs[0] < 0 and signs[1] > 0:
                found = lax.sub(b, a)
            else:
                a = lax.neg(a) if signs[0] < 0 else a
                found = lax.add(a, b) if signs[1] > 0 else lax.sub(a, b)
            return _Array(found, dims)
        case "mask":
            zero = lax.full_like(arrays[1], 0)
            cases = [arrays[1], zero] if step.params else [zero, arrays[1]]
            found = lax.select_n(arrays[0], *cases)
        case "div":
            found = lax.div(*arrays)
        case _:
            found = arrays[0] if len(arrays) == 1 else lax.mul(*arrays)
    if signs.count(-1) % 2:
        found = lax.neg(found)
    gone = tuple(k for k, d in enumerate(dims) if d >= step.rank)
    if gone:
        found = lax.reduce(found, np.zeros((), dtype), lax.add, gone)
    return _Array(found, tuple([d for d in dims if d < step.rank]))


def _contracted(step: Step, a: _Array, b: _Array) -> _Array:
    """A matrix product."""
    both = [d for d in a.dims if d in b.dims]
    summed = [d for d in both if d >= step.rank]
    batch = [d for d in both if d < step.rank]
    numbers = tuple(
        tuple(tuple(x.dims.index(d) for d in group) for x in (a, b)) for group in (summed, batch)
    )
    # A sum that was none of a matrix product keeps all digits.
    precision = lax.Precision.HIGHEST if step.params is None else step.params.precision
    array = lax.dot_general(
        a.array, b.array, numbers, precision=precision, preferred_element_type=a.array.dtype
    )
    free = [d for x in (a, b) for d in x.dims if d not in both]
    found = _Array(array, (*batch, *free))
    gone = tuple(k for k, d in enumerate(found.dims) if d >= step.rank)
    if gone:
        array = lax.reduce(array, np.zeros((), array.dtype), lax.add, gone)
        found = _Array(array, tuple([d for d in found.dims if d < step.rank]))
    return found


def _spread(a: _Array, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """An array with certain dimensions in a certain order."""
    order = sorted(range(len(a.dims)), key=lambda k: dims.index(a.dims[k]))
    array = a.array if order == sorted(order) else lax.transpose(a.array, order)
    at = sorted(dims.index(d) for d in a.dims)
    shape = [sizes[d] for d in dims]
    if list(array.shape) == shape:
        return array
    return lax.broadcast_in_dim(array, shape, at)


_KINDS = frozenset({"add", "constant", "div", "eye", "mask", "product"})
"""What can be written."""
