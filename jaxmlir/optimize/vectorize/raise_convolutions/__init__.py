"""``jaxpr-raise-convolutions``: sums of products with shifted slices of an array as convolutions.

A convolution that is written as it is defined multiplies, for each place of its window, what the
place meets with the matrix that stands there::

    sum of x[:, i : i + h, j : j + w] @ k[i, j] over i and j   ->   convolution(x, k)

That reads and writes every element of the result once for each place, and its derivative adds up as
many arrays, padded.  A convolution is one op, which compilers have fast code for, and so is each of
its transposes.

Each place of a window has one term: steps of the slices are the convolution's strides, and places
that are several elements apart its dilation.  The sum is rounded in another order.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jaxmlir.analysis.function_view import OpView, node_of, ops_of
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import ADDITIONS, is_plain_op, with_shape
from jaxmlir.dialect.builder import build, converted, drop_dead_ops, only_user
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.vectorize.raise_convolutions.kernel import kernel_of
from jaxmlir.optimize.vectorize.raise_convolutions.taps import Product, Tap, taps_of
from jaxmlir.optimize.vectorize.raise_convolutions.window import MIN_TAPS, window_of
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.toolbox import replace
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class RaiseConvolutions(Pass):
    """Write sums of products with shifted slices of an array as convolutions."""

    name: ClassVar[str] = "jaxpr-raise-convolutions"
    # A GPU's library of convolutions gains nothing on few channels.
    compilers: ClassVar = ("cpu",)

    def run(self, program: Module) -> bool:
        return raise_convolutions(program) > 0


def raise_convolutions(program: Module) -> int:
    """Raises sums in place; how many convolutions there are then."""
    count = 0
    with scope():
        rules = Rules(program)
        for function in outside_kernels(program, ADDITIONS):
            found = sum(_raised(rules, *total) for total in _sums(function))
            if found:
                drop_dead_ops(function)
            count += found
    if count:
        program.changed()
    return count


def _sums(function: func.FuncOp) -> Iterator[tuple[OpView, list[ir.Value]]]:
    """The last addition of each sum of several terms, and these in order."""
    for node in ops_of(function):
        if not _is_addition(node):
            continue
        user = only_user(node.op.results[0])
        if user is not None and user.name in ADDITIONS:
            continue
        terms = list(_terms(node))
        if len(terms) >= MIN_TAPS:
            yield node, terms[::-1]


def _terms(last: OpView) -> Iterator[ir.Value]:
    """What is added up, from the last term to the first."""
    shape = _shape(last.op.results[0])
    pending = list(last.operands)
    while pending:
        value = pending.pop()
        inner = node_of(value)
        # A sum of smaller arrays, of biases say, stays one.
        whole = _shape(value) == shape and only_user(value) is not None
        if whole and inner is not None and _is_addition(inner):
            pending += inner.operands
        else:
            yield value


def _is_addition(node: OpView) -> bool:
    return node.name in ADDITIONS and is_plain_op(node)


def _shape(value: ir.Value) -> tuple[int, ...]:
    return aval_of(value.type).shape


def _raised(rules: Rules, last: OpView, terms: list[ir.Value]) -> int:
    """Writes what convolutions there are among the terms of a sum; how many."""
    (total,) = last.op.results
    groups: dict[tuple[ir.Value, Product], list[Tap]] = defaultdict(list)
    for term in terms:
        if _shape(term) == _shape(total):
            for tap in taps_of(term):
                groups[tap.array, tap.product].append(tap)
    # A convolution is added in the place of its first term, and the others are not.
    places: dict[ir.Value, ir.Value | None] = {}
    with ir.InsertionPoint(last.op), last.op.location:
        for (array, product), taps in groups.items():
            window = window_of(product, taps)
            if window is None or any(tap.term in places for tap in taps):
                continue
            remark(last.op, f"{len(taps)} products with slices of an array are a convolution")
            kernel = kernel_of(rules, window, sorted(taps, key=lambda tap: tap.start))
            (found,) = rules.emit(window, [array, kernel], window)
            members = {tap.term for tap in taps}
            first = next(term for term in terms if term in members)
            places |= dict.fromkeys(members) | {first: found}
        if not places:
            return 0
        values = (places.get(term, term) for term in terms)
        value = functools.reduce(_added, (v for v in values if v is not None))
        replace(last.op, [converted(value, total.type)])
    return sum(v is not None for v in places.values())


def _added(x: ir.Value, y: ir.Value) -> ir.Value:
    return build("add", [x, y], with_shape(x.type, np.broadcast_shapes(_shape(x), _shape(y))))
