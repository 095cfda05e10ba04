"""Writing an expression as ops: one JAX function, traced once for each recipe and types."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors.expressions import (
    Dot,
    Expr,
    LabelledReshape,
    Labels,
    Tensor,
    numbered,
)
from jaxmlir.optimize.algebra.labelled_tensors.reading import FunctionTensors
from jaxmlir.transforms.templates import Rules


class NotRecomputable(Exception):
    """An expression would have to be recomputed that cannot be written as ops."""


def write(
    rules: Rules,
    reading: FunctionTensors,
    root: Expr,
    recipe: TensorRecipe,
    inputs: Sequence[Expr],
    new: dict[Expr, ir.Value],
) -> None:
    """Replaces a value of the program by one computed by a recipe, at the same place.

    Args:
      root: the expression of the value.
      inputs: the inputs of the recipe.
      new: by expression, the values that have replaced its value; the new value is added.
    """
    body = reading.body
    values = [new[e] if e in new else body.value(e.value) for e in inputs]
    new[root] = _replace(rules, body, root.value, recipe, values)


def share(rules: Rules, reading: FunctionTensors) -> int:
    """Replaces matrix products that equal an earlier value up to layout and sign; returns their
    number."""
    body, count = reading.body, 0
    for index, name in enumerate(body.names):
        if name != "jaxpr.dot_general":
            continue
        number, _ = body.results[index]
        expr = reading.tensors[number].expr
        if expr.value == number:
            continue
        same = Tensor(expr, numbered(expr.rank))
        recipe, inputs = recipe_of(reading, number, same, lambda _: True)
        _replace(rules, body, number, recipe, [body.value(e.value) for e in inputs])
        count += 1
    return count


def _replace(
    rules: Rules, body: FunctionView, number: int, recipe: TensorRecipe, values: Sequence[ir.Value]
) -> ir.Value:
    op, old = body.ops[body.makers[number]], body.value(number)
    with ir.InsertionPoint(op), op.location:
        (value,) = rules.emit(recipe, values)
        value = converted(value, old.type)
    old.replace_all_uses_with(value)
    return value


@dataclass(frozen=True)
class RecipeStep:
    """An operation; operands are numbers of inputs and steps, with labels and a sign each.

    Attributes:
      kind, params, sizes, rank, dtype, is_dot: as of an :class:`Expr`; the parameters of a
        selection are the row selector and the labels of the selector matrix.
      elements: the number of elements of the result.
    """

    kind: str
    params: Any
    operands: tuple[tuple[int, Labels, int], ...]
    sizes: tuple[int, ...]
    rank: int
    dtype: Any
    is_dot: bool
    elements: int


@dataclass(frozen=True)
class TensorRecipe:
    """A recipe that computes a tensor, as a function that JAX traces; hashable.

    Attributes:
      inputs: for each dimension of each input, the expression's dimension, or ``None``.
      steps: the operations, in order.
      labels: the labels of the dimensions of the last step.
      sign: the sign of the result.
      layout: for each dimension of the result its label, or ``None`` if it is a broadcast.
      shape: the shape of the result.
    """

    inputs: tuple[tuple[int | None, ...], ...]
    steps: tuple[RecipeStep, ...]
    labels: Labels
    sign: int
    layout: tuple[int | None, ...]
    shape: tuple[int, ...]

    def __call__(self, *args: Any) -> list[Any]:
        arrays: dict[int, LabelledArray] = {}
        # The order of the dimensions of the last step in the result.
        order = tuple([self.labels.index(k) for k in self.layout if k in self.labels])

        def array_of(number: int, labels: Labels, rows: Labels | None = None) -> LabelledArray:
            """An operand; row numbers may keep additional dimensions of size 1."""
            if number < len(args) and rows is not None:
                layout, x = self.inputs[number], args[number]
                layout_labels = tuple([labels[k] for k in layout if k is not None])
                if layout_labels == rows and all(
                    k is not None or x.shape[d] == 1 for d, k in enumerate(layout)
                ):
                    return LabelledArray(x, layout_labels)
            if number not in arrays:
                arrays[number] = _input(args[number], self.inputs[number])
            return arrays[number].relabelled(labels)

        for number, step in enumerate(self.steps, start=len(args)):
            rows = step.params[1][1:] if step.kind == "selection" else None
            operands = [
                (array_of(i, labels, rows if k else None), s)
                for k, (i, labels, s) in enumerate(step.operands)
            ]
            is_last = step is self.steps[-1]
            arrays[number] = _computed(step, operands, order if is_last else None)
        array = array_of(len(args) + len(self.steps) - 1, self.labels)
        if self.sign < 0:
            array = array.negative
        # Each broadcast dimension gets a new label.
        labels = [-1 - d if k is None else k for d, k in enumerate(self.layout)]
        return [array.spread(labels, dict(zip(labels, self.shape, strict=True)))]


def recipe_of(
    reading: FunctionTensors, value: int, new: Tensor, is_there: Callable[[Expr], bool]
) -> tuple[TensorRecipe, list[Expr]]:
    """A recipe for a tensor that replaces a value, and the expressions that are its inputs.

    Args:
      new: the tensor, labelled by the dimensions of the value's expression.
      is_there: whether an expression is computed before the value.

    Raises:
      NotRecomputable: an expression has to be recomputed that cannot be written as ops.
    """
    inputs, order = _needed(new.expr, is_there)
    signs = {e: reading.tensors[e.value].sign for e in inputs}
    steps = _steps(inputs, order, signs)
    sign = new.sign * reading.tensors[value].sign * signs[new.expr]
    if sign < 0:
        sign = _push_sign(steps, [e.size for e in inputs])
    recipe = TensorRecipe(
        tuple([tuple(reading.layout(e.value)) for e in inputs]),
        tuple(steps),
        new.labels,
        sign,
        tuple(reading.layout(value)),
        tuple(aval_of(reading.body.types[value]).shape),
    )
    return recipe, inputs


def _needed(new: Expr, is_there: Callable[[Expr], bool]) -> tuple[list[Expr], list[Expr]]:
    """The existing expressions that an expression is computed from, and those to compute, in
    order."""
    inputs: list[Expr] = []
    order: list[Expr] = []
    seen: set[Expr] = set()
    pending = [(new, False)]
    while pending:
        expr, done = pending.pop()
        if done:
            order.append(expr)
        elif expr not in seen:
            seen.add(expr)
            if is_there(expr) and expr.kind != "constant":
                inputs.append(expr)
            elif expr.kind not in _KINDS:
                raise NotRecomputable
            else:
                pending.append((expr, True))
                pending += [(e, False) for e, _, _ in reversed(_operands(expr))]
    return inputs, order


def _steps(
    inputs: Sequence[Expr], order: Sequence[Expr], signs: dict[Expr, int]
) -> list[RecipeStep]:
    """The steps that compute some expressions, each up to its sign.

    Args:
      signs: the signs of the inputs; those of the computed expressions are added.
    """
    number = {expr: k for k, expr in enumerate((*inputs, *order))}
    steps = []
    for expr in order:
        operands = [(number[e], labels, s * signs[e]) for e, labels, s in _operands(expr)]
        params = expr.params
        # The signs of factors move to the product, and those of terms to the sum if they agree.
        signed = [s for _, _, s in operands]
        match expr.kind:
            case "selection":
                selector, wiring, _ = expr.operands[1]
                params, signed = (selector.params, wiring), signed[:1]
            case "add" if signed[0] != signed[1]:
                signed = []
        for k in range(len(signed)):
            operands[k] = (*operands[k][:2], 1)
        signs[expr] = math.prod(signed[:1] if expr.kind == "add" else signed)
        of_result = expr.sizes, expr.rank, expr.dtype, expr.is_dot, expr.size
        steps.append(RecipeStep(expr.kind, params, tuple(operands), *of_result))
    return steps


def _operands(expr: Expr) -> Sequence[tuple[Expr, Labels, int]]:
    """The operands that an expression is computed from: row numbers in place of a selector."""
    if expr.kind != "selection":
        return expr.operands
    array, (selector, wiring, _) = expr.operands
    return [
        array,
        *[(e, tuple([wiring[k] for k in labels]), s) for e, labels, s in selector.operands],
    ]


def _push_sign(steps: list[RecipeStep], inputs: list[int]) -> int:
    """Negates the last step by negating the operand with the fewest elements on the way; returns -1
    if there is no better place than the result, else 1."""
    sizes = [*inputs, *(step.elements for step in steps)]
    uses = Counter(i for step in steps for i, _, _ in step.operands)
    at, place = len(steps) - 1, None
    while at >= 0 and steps[at].kind in _MULTIPLICATIVE:
        factors = [i for i, _, _ in steps[at].operands[: 2 if steps[at].kind == "product" else 1]]
        k = min(range(len(factors)), key=lambda k: sizes[factors[k]])
        if sizes[factors[k]] > steps[at].elements:
            break
        place = at, (k,)
        at = factors[k] - len(inputs) if uses[factors[k]] == 1 else -1
    if at >= 0 and steps[at].kind == "add" and len({s for _, _, s in steps[at].operands}) > 1:
        place = at, (0, 1)
    if place is None:
        return -1
    at, which = place
    operands = enumerate(steps[at].operands)
    changed = tuple([(i, labels, -s if k in which else s) for k, (i, labels, s) in operands])
    steps[at] = replace(steps[at], operands=changed)
    return 1


_KINDS = frozenset(
    {"add", "constant", "diagonal", "div", "eye", "mask", "product", "reshape", "selection"}
)
"""The kinds of expressions that can be written."""
_MULTIPLICATIVE = frozenset({"diagonal", "div", "product", "reshape", "selection"})


def _input(value: Any, layout: Sequence[int | None]) -> LabelledArray:
    """A value without the dimensions that its expression lacks."""
    dims = [d for d, k in enumerate(layout) if k is not None]
    limits = [n if d in dims else 1 for d, n in enumerate(value.shape)]
    if tuple(limits) != value.shape:
        value = lax.slice(value, [0] * value.ndim, limits)
    if len(dims) < value.ndim:
        value = lax.reshape(value, [value.shape[d] for d in dims])
    return LabelledArray(value, tuple([layout[d] for d in dims]))


def _computed(
    step: RecipeStep, operands: Sequence[tuple[LabelledArray, int]], wanted: Labels | None
) -> LabelledArray:
    """The result of a step.

    Args:
      wanted: the preferred order of the dimensions, if any.
    """
    match step.kind:
        case "constant":
            return LabelledArray(np.frombuffer(step.params, step.dtype)[0].reshape(()), ())
        case "eye":
            i, j = (lax.broadcasted_iota(np.int32, step.sizes, axis) for axis in (0, 1))
            return LabelledArray(lax.convert_element_type(lax.eq(i, j), step.dtype), (0, 1))
        case "add":
            return _sum(step, operands)
        case "product":
            return _product(step, [x.negative if sign < 0 else x for x, sign in operands], wanted)
    x, *others = (array if sign > 0 else array.negative for array, sign in operands)
    match step.kind:
        case "diagonal":
            return x.diagonal()
        case "reshape":
            return _reshaped(step.params, x)
        case "selection":
            return _selected(step, x, others)
    arrays, labels = _alike(step, [x, *others])
    if step.kind == "div":
        return LabelledArray(lax.div(*arrays), labels)
    zero = lax.full_like(arrays[1], 0)
    cases = [arrays[1], zero] if step.params else [zero, arrays[1]]
    return LabelledArray(lax.select_n(arrays[0], *cases), labels)


def _alike(step: RecipeStep, operands: Sequence[LabelledArray]) -> tuple[list[Any], Labels]:
    """The operands, broadcast to the result, and its labels; its dimensions are in the order of the
    operand with the most."""
    labels = max((x.labels for x in operands), key=len)
    labels = (*labels, *(k for k in range(len(step.sizes)) if k not in labels))
    return [x.spread(labels, step.sizes) for x in operands], labels


def _sum(step: RecipeStep, operands: Sequence[tuple[LabelledArray, int]]) -> LabelledArray:
    (a, b), labels = _alike(step, [x for x, _ in operands])
    signs = [sign for _, sign in operands]
    if signs[0] < 0 and signs[1] > 0:
        return LabelledArray(lax.sub(b, a), labels)
    a = lax.neg(a) if signs[0] < 0 else a
    return LabelledArray(lax.add(a, b) if signs[1] > 0 else lax.sub(a, b), labels)


def _product(
    step: RecipeStep, factors: list[LabelledArray], wanted: Labels | None
) -> LabelledArray:
    gone = range(step.rank, len(step.sizes))
    if not step.is_dot:
        arrays, labels = _alike(step, factors)
        product = arrays[0] if len(arrays) == 1 else lax.mul(*arrays)
        return LabelledArray(product, labels).summed(gone)
    a, b = factors
    shared = [k for k in b.labels if k in a.labels and k not in gone]
    own_a, own_b = ([k for k in x.labels if k not in (*gone, *shared)] for x in factors)
    if own_a and own_b and (*shared, *own_b, *own_a) == wanted:
        # With swapped factors, the result has the wanted order without a transpose.
        a, b = b, a
    # A sum that was not part of a matrix product keeps full precision.
    dot = step.params or Dot(lax.Precision.HIGHEST)
    return contracted(a, b, gone, dot.precision, a.array.dtype)


def _reshaped(parts: LabelledReshape, x: LabelledArray) -> LabelledArray:
    dims = [parts.operand[k] for k in x.labels]
    labels = tuple(itertools.chain(*dims))
    array = LabelledArray(lax.reshape(x.array, [parts.sizes[k] for k in labels]), labels)
    array = array.spread([k for of_dim in parts.result for k in of_dim], parts.sizes)
    shape = [math.prod([parts.sizes[k] for k in of_dim]) for of_dim in parts.result]
    return LabelledArray(lax.reshape(array, shape), tuple(range(len(shape))))


def _selected(
    step: RecipeStep, x: LabelledArray, numbers: Sequence[LabelledArray]
) -> LabelledArray:
    """Selects, picks, or adds up rows of an array."""
    spec, (rows, *selected) = step.params
    sizes = [step.sizes[k] for k in selected]
    operands = [n.spread(selected, step.sizes) if spec.is_indexed else n.array for n in numbers]
    others = tuple([k for k in x.labels if k != rows and k not in selected])
    if rows not in x.labels:
        array = x.spread((*selected, *others), step.sizes)
        array = spec.add(array, len(selected), step.sizes[rows], operands)
        return LabelledArray(array, (rows, *others))
    if selected and {*selected} <= {*x.labels}:
        array = x.spread((*selected, rows, *others), step.sizes)
        return LabelledArray(spec.pick(array, len(selected), operands), (*selected, *others))
    axis = x.labels.index(rows)
    array = spec.select(x.array, axis, sizes, operands)
    return LabelledArray(array, (*x.labels[:axis], *selected, *x.labels[axis + 1 :]))


# --- arrays with labels, in a JAX function that is traced -----------------------------------------


class LabelledArray(NamedTuple):
    """An array with a label on each dimension."""

    array: Any
    labels: tuple[int, ...]

    def relabelled(self, new: Sequence[int]) -> LabelledArray:
        """The array with its labels replaced by those in a sequence."""
        return LabelledArray(self.array, tuple([new[k] for k in self.labels]))

    @property
    def negative(self) -> LabelledArray:
        return LabelledArray(lax.neg(self.array), self.labels)

    def diagonal(self) -> LabelledArray:
        """The diagonal along repeated labels, which come first in the result."""
        labels, array = list(self.labels), self.array
        for label in {k for k in labels if labels.count(k) > 1}:
            axes = [d for d, k in enumerate(labels) if k == label]
            array = _diagonal(array, axes)
            labels = [label, *(k for k in labels if k != label)]
        return LabelledArray(array, tuple(labels))

    def spread(self, labels: Sequence[int], sizes: Any) -> Any:
        """The array transposed and broadcast to some labels, which include all of its own.

        Args:
          sizes: the sizes of the labels.
        """
        at = [labels.index(k) for k in self.labels]
        dims, array = sorted(at), self.array
        if at != dims:
            array = lax.transpose(array, sorted(range(len(at)), key=at.__getitem__))
        if len(dims) == len(labels):
            return array
        return lax.broadcast_in_dim(array, [sizes[k] for k in labels], dims)

    def summed(self, gone: Collection[int]) -> LabelledArray:
        """The array summed over the labels in ``gone`` that it has."""
        axes = tuple([d for d, k in enumerate(self.labels) if k in gone])
        if not axes:
            return self
        # Not ``jnp.sum``, which may accumulate in another type.
        array = lax.reduce(self.array, np.zeros((), self.array.dtype), lax.add, axes)
        return LabelledArray(array, tuple([k for k in self.labels if k not in gone]))


def contracted(
    a: LabelledArray,
    b: LabelledArray,
    gone: Collection[int],
    precision: Any,
    preferred_element_type: Any,
) -> LabelledArray:
    """The product of two arrays summed over labels, as a ``dot_general``.  The result has the
    labels of both arrays first, then those of the first only, then those of the second only."""
    both = [k for k in a.labels if k in b.labels]
    groups = [k for k in both if k in gone], [k for k in both if k not in gone]
    numbers = tuple(
        tuple(tuple(x.labels.index(k) for k in group) for x in (a, b)) for group in groups
    )
    array = lax.dot_general(a.array, b.array, numbers, precision, preferred_element_type)
    free = [k for x in (a, b) for k in x.labels if k not in both]
    return LabelledArray(array, (*groups[1], *free)).summed(gone)


def _diagonal(array: Any, axes: Sequence[int]) -> Any:
    """The diagonal of an array along some axes; it comes first in the result."""
    others = [k for k in range(array.ndim) if k not in axes]
    size = array.shape[axes[0]]
    array = lax.transpose(array, [*axes, *others])
    rest = array.shape[len(axes) :]
    # In the flattened axes the diagonal is every (1 + n + n^2 + ...)-th element.
    step = sum(size**k for k in range(len(axes)))
    flat = lax.reshape(array, [math.prod([size] * len(axes)), *rest])
    return lax.slice(flat, [0] * flat.ndim, flat.shape, [step, *[1] * len(rest)])
