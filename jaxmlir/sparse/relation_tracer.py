"""Patterns that hold at all sizes, for programs with symbolic shapes.

The derivative is interpreted as at given sizes (:mod:`jaxmlir.sparse.tracer`), with relations in
place of index sets.  A loop's carry is a fixpoint.  If it grows from one iteration to the next, as
repeated steps of a stencil do, each of its elements is assumed to depend on all elements of the
arguments that it depends on.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from jaxmlir._compat import core
from jaxmlir.interpret.interpreter import Frame, Node
from jaxmlir.sparse import formulas, relation_rules
from jaxmlir.sparse.formulas import SymbolicArray
from jaxmlir.sparse.relations import AffineSum, Arguments, Piece, Pieces, composed, united
from jaxmlir.sparse.rules import LeafOp, Terms, Value
from jaxmlir.sparse.tracer import Tracer

_GROWING = 3
"""After this many iterations, a carry that still grows is replaced by whole arguments."""


class SymbolicTracer(Tracer):
    """Interprets functions of a program with symbolic shapes; the ``rows`` of values are pieces."""

    unrolled: ClassVar[int] = 400
    _all: ClassVar = staticmethod(relation_rules.dense)

    def _sets(self, leaf: LeafOp) -> tuple[Any, Terms]:
        return relation_rules.relations_of(leaf), {}

    def _reason_of_mixing(self, operands: Sequence[Value], out_rows: Sequence[Any]) -> str:
        """The remark on an op whose results depend on a number of inputs that grows with the sizes,
        while no operand does."""
        if _grows(out_rows) and not _grows([x.rows for x in operands]):
            return "an element of its result depends on more inputs as the sizes grow"
        return ""

    def _independent(
        self, node: Node, operands: list[Value], shapes: list[tuple[int, ...]]
    ) -> list[Value]:
        is_fixed = all(map(core.is_constant_shape, shapes))
        if is_fixed and operands and not any(isinstance(x.known, SymbolicArray) for x in operands):
            return super()._independent(node, operands, shapes)
        formula = formulas.of_result(node, operands, shapes[0]) if len(shapes) == 1 else None
        return [Value(shape, None, formula) for shape in shapes]

    def _limited(
        self, node: Node, operands: list[Value], shapes: list[tuple[int, ...]]
    ) -> list[Value]:
        return [Value(shape) for shape in shapes]

    def _custom_linear_solve(self, node: Node, operands: list[Value]) -> list[Value]:
        return self.leaf(node, operands)

    def _taken(self, which: Value, branches: Sequence[str]) -> Sequence[str]:
        if which.known is None or isinstance(which.known, SymbolicArray):
            return branches
        return super()._taken(which, branches)

    def _any_of(self, values: Sequence[Value]) -> Value:
        return functools.reduce(_either, values)

    def slice(self, value: Value, index: int) -> Value:
        return _slice(value, index, index + 1)

    def stack_up(self, values: list[Value], aval: Any) -> Value:
        pieces = [
            piece._replace(result=(AffineSum(i), *piece.result))
            for i, x in enumerate(values)
            for piece in x.rows or ()
        ]
        return Value(tuple(aval.shape), united(pieces) or None)

    def _scan_as_relation(
        self, node: Node, consts: list[Value], carry: list[Value], arrays: list[Value]
    ) -> list[Value]:
        length, symbol = node.get("length"), node.get("jaxpr")
        slices = [_slice(x, 0, length) for x in arrays]
        carry = self._carry_after(node, symbol, consts, carry, slices)
        parts = self._stacked(symbol, [*consts, *carry], arrays, length)[len(carry) :]
        shapes = [tuple(aval.shape) for aval in node.avals()[len(carry) :]]
        return [
            *carry,
            *(Value(n, united(part) or None) for n, part in zip(shapes, parts, strict=True)),
        ]

    def _stacked(
        self, symbol: str, fixed: list[Value], arrays: list[Value], length: Any
    ) -> list[list[Piece]]:
        """For each result of the body, the pieces of the results of all iterations, stacked.

        Args:
          fixed: the loop-invariant operands and the carry of any iteration.
        """
        # Each slice is a further argument of the inner tracer.
        num_args, shapes = len(self.columns.shapes), [x.shape[1:] for x in arrays]
        inner = SymbolicTracer(
            self.program, Arguments([*self.columns.shapes, *shapes]), self.reasons
        )
        slices = [
            Value(shape, x.rows and inner.columns.identity(num_args + k))
            for k, (x, shape) in enumerate(zip(arrays, shapes, strict=True))
        ]
        stacked: list[list[Piece]] = []
        for x in inner.enter(Frame(symbol, None), [*fixed, *slices]):
            stacked.append([])
            for piece in x.rows or ():
                if piece.argument < num_args:
                    part, index = piece.fresh(length)
                    stacked[-1].append(part._replace(result=(index, *part.result)))
                else:
                    for of_array in arrays[piece.argument - num_args].rows:
                        stacked[-1] += composed(piece, of_array)
        return stacked

    def _carry_after(
        self,
        node: Node,
        symbol: str,
        consts: Sequence[Value],
        carry: Sequence[Value],
        slices: Sequence[Value] = (),
    ) -> list[Value]:
        carry = [x._replace(known=None) for x in carry]
        reached: list[set[int]] = [set() for _ in carry]
        for i in itertools.count():
            results = self.enter(Frame(symbol, node), [*consts, *carry, *slices])
            after = [_either(a, b) for a, b in zip(carry, results, strict=False)]
            grown = [
                not arguments <= earlier if earlier else {*(a.rows or ())} != {*(b.rows or ())}
                for a, b, earlier in zip(carry, after, reached, strict=True)
                for arguments in [{piece.argument for piece in b.rows or ()}]
            ]
            if not any(grown):
                return carry
            for k in np.flatnonzero(grown):
                carry[k] = after[k]
                if i >= _GROWING:
                    self._add_reason(node, "its carry depends on more inputs in each iteration")
                    reached[k] = {piece.argument for piece in after[k].rows}
                    rows = relation_rules.whole(after[k].rows, self.columns, after[k].shape)
                    carry[k] = after[k]._replace(rows=rows)


def _either(a: Value, b: Value) -> Value:
    """A value that may be one or the other of two values of the same shape."""
    return Value(a.shape, united([*(a.rows or ()), *(b.rows or ())]) or None)


def _slice(x: Value, low: Any, high: Any) -> Value:
    """A slice of a value along its first axis, at any index from ``low`` to before ``high``."""
    parts = [y for piece in x.rows or () for y in piece.where(piece.result[0], low, high)]
    rows = united([y._replace(result=y.result[1:]) for y in parts])
    return Value(x.shape[1:], rows or None)


def _grows(rows: Sequence[Pieces | None]) -> bool:
    """Whether elements depend on a number of inputs that grows with the sizes."""
    for piece in (piece for pieces in rows for piece in pieces or ()):
        named = {t for x in piece.result for t, _ in x.terms}
        read = {t for x in piece.read for t, _ in x.terms}
        for t in read - named:
            low, high = piece.ranges[t]
            if not core.is_constant_dim(high - low):
                return True
    return False
