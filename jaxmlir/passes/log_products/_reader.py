"""Finds the log-sum-exps of the body of a loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxmlir.ir import func, ir
from jaxmlir.passes._build import ops_of
from jaxmlir.passes._fusion import FUSED, MOVED
from jaxmlir.passes._node import OpNode, number_of
from jaxmlir.passes._work import elements, is_plain_op
from jaxmlir.passes.log_products._sum import LogSumExp, Term
from jaxmlir.types import aval_of

NEEDED = frozenset({"jaxpr.exp", "jaxpr.log", "jaxpr.reduce_max", "jaxpr.reduce_sum"})
"""The names of the ops of which there is one in each."""

_SAME = FUSED | MOVED | {"jaxpr.constant"}
_RESHAPES = frozenset(
    f"jaxpr.{name}" for name in ("broadcast_in_dim", "expand_dims", "reshape", "squeeze")
)
_ABS = frozenset({"jaxpr.abs"})
_STOP = frozenset({"jaxpr.stop_gradient"})

# The functions that give a term, each with the number that it takes besides.
_Scalings = tuple[tuple[str, tuple[ir.Value, ...]], ...]


@dataclass(frozen=True)
class Found:
    """A log-sum-exp in a body.

    Attributes:
      op: that gives it.
      operands: the values that it is of.
      steps: the ops that add up its terms, subtract the maximum, and sum the exponentials up.
    """

    op: Any
    operands: list[ir.Value]
    steps: list[OpNode]
    sum: LogSumExp

    def with_values(self, values: Mapping[ir.Value, ir.Value]) -> Found:
        """The same in a copy of the body.

        Args:
          values: those of the copy, by those of the body.
        """

        def in_copy(op: Any) -> Any:
            return values[op.results[0]].owner

        steps = [
            OpNode(in_copy(step.op), step.name, [values[v] for v in step.operands])
            for step in self.steps
        ]
        operands = [values[v] for v in self.operands]
        return Found(in_copy(self.op), operands, steps, self.sum)


class Reader:
    """Reads a body.

    Args:
      num_consts: how many of its arguments are the same in every iteration.
    """

    def __init__(self, body: func.FuncOp, num_consts: int):
        self._nodes: dict[ir.Value, OpNode] = {}
        self._same = set(list(body.arguments)[:num_consts])
        for op, name, operands in ops_of(body):
            node = OpNode(op, name, operands)
            results = list(op.results)
            self._nodes.update(dict.fromkeys(results, node))
            if name in _SAME and self._same.issuperset(operands) and is_plain_op(node):
                self._same.update(results)

    def found(self) -> list[Found]:
        """The log-sum-exps with terms that are the same in every iteration, in order."""
        sums = [node for node in self._nodes.values() if node.name == "jaxpr.add"]
        found = (self._read(node, *pair) for node in sums for pair in _both_ways(node.operands))
        return [f for f in found if f is not None]

    def _read(self, node: OpNode, log: ir.Value, shift: ir.Value) -> Found | None:
        """``log(sum(exp(terms - shift))) + shift``."""
        log_node = self._node(log, "jaxpr.log")
        if log_node is None or not is_plain_op(node):
            return None
        total = self._behind(log_node.operands[0], _ABS)
        if total is None or total.name != "jaxpr.reduce_sum":
            return None
        exp = self._node(total.operands[0], "jaxpr.exp")
        sub = exp and self._node(exp.operands[0], "jaxpr.sub")
        if sub is None or not (_is_used_once(exp) and _is_used_once(sub) and is_plain_op(sub)):
            return None
        terms, subtracted = sub.operands
        shape, axes = aval_of(terms.type).shape, tuple(map(int, total.get("axes")))
        shifted = tuple(1 if d in axes else size for d, size in enumerate(shape))
        if aval_of(terms.type).dtype not in (np.float32, np.float64):
            return None
        if aval_of(subtracted.type).shape != shifted or _shape(log) != _shape(shift):
            return None
        guarded = self._is_guarded(shift, terms, axes)
        if guarded is None or self._is_guarded(subtracted, terms, axes) != guarded:
            return None
        return self._of_terms(node, terms, (sub, exp, total), axes, guarded)

    def _node(self, value: ir.Value, name: str) -> OpNode | None:
        """The op that gives a value, if it has that name and rounds as usual."""
        node = self._nodes.get(value)
        found = node is not None and node.name == name and "accuracy" not in node.attributes
        return node if found else None

    def _behind(self, value: ir.Value, names: frozenset[str] = _STOP) -> OpNode | None:
        """The op that gives the elements of a value, in their order, but for ops of some names."""
        node = self._nodes.get(value)
        while node is not None and (node.name in names or _is_reshape(node)):
            node = self._nodes.get(node.operands[0])
        return node

    def _is_guarded(self, value: ir.Value, terms: ir.Value, axes: tuple[int, ...]) -> bool | None:
        """Whether a value is zero where the maximum of the terms is not finite, and that elsewhere;
        ``None`` if it is not the maximum."""
        node, guarded = self._behind(value), False
        if node is not None and node.name == "jaxpr.select_n":
            is_finite, zero, value = node.operands
            asked = self._node(is_finite, "jaxpr.is_finite")
            if asked is None or asked.operands[0] != value or self._number(zero) != 0:
                return None
            node, guarded = self._behind(value), True
        if node is not None and node.name == "jaxpr.max":
            others = [v for v in node.operands if self._number(v) != -math.inf]
            node = self._behind(others[0]) if len(others) == 1 else None
        if node is None or node.name != "jaxpr.reduce_max":
            return None
        source = node.operands[0]
        stopped = self._node(source, "jaxpr.stop_gradient")
        if stopped is not None:
            (source,) = stopped.operands
        same_axes = set(map(int, node.get("axes"))) == set(axes)
        return guarded if source == terms and same_axes else None

    def _number(self, value: ir.Value) -> Any:
        return number_of(value, self._nodes.get)

    def _of_terms(
        self,
        node: OpNode,
        terms: ir.Value,
        then: Sequence[OpNode],
        axes: tuple[int, ...],
        guarded: bool,
    ) -> Found | None:
        shape = aval_of(terms.type).shape
        operands: dict[ir.Value, int] = {}
        kinds: dict[str, list[Term]] = {"outer": [], "inner": [], "constant": []}
        inner_dims: set[int] = set()
        steps: list[OpNode] = []
        for value, scalings in self._terms(terms, (), steps):
            source, dims = self._narrow(value)
            sizes = zip(dims, _shape(source), strict=True)
            spanned = {d for d, size in sizes if size > 1}
            if value in self._same:
                kind = "constant"
            elif spanned.isdisjoint(axes):
                kind = "outer"
            else:
                kind = "inner"
                inner_dims |= spanned
            values = (source, *(v for _, numbers in scalings for v in numbers))
            for v in values:
                operands.setdefault(v, len(operands))
            numbered = tuple((name, tuple(operands[v] for v in vs)) for name, vs in scalings)
            kinds[kind].append(Term(operands[source], dims, numbered))
        if not kinds["constant"] or not kinds["inner"]:
            return None
        found = LogSumExp(
            shape=shape,
            axes=axes,
            guarded=guarded,
            inner_size=math.prod(shape[d] for d in inner_dims),
            out=_shape(node.op.results[0]),
            **{kind: tuple(of) for kind, of in kinds.items()},
        )
        return Found(node.op, list(operands), [*dict.fromkeys(steps), *then], found)

    def _terms(
        self, value: ir.Value, scalings: _Scalings, steps: list[OpNode]
    ) -> Iterator[tuple[ir.Value, _Scalings]]:
        """The terms that add up to a value, each as a value and functions of it.

        Args:
          steps: where to put the ops that add them up, each after those that it needs.
        """
        node = self._nodes.get(value)
        if node is None or value in self._same or not is_plain_op(node):
            yield value, scalings
            return
        name, operands = node.name.removeprefix("jaxpr."), node.operands
        negated = (("neg", ()), *scalings)
        # A quotient is scaled by its divisor only.
        pairs = _both_ways(operands)[: 2 if name == "mul" else 1]
        scaled = [
            (v, ((name, (number,)), *scalings))
            for v, number in pairs
            if number in self._same and elements(number.type) == 1
        ]
        if name in ("add", "sub"):
            yield from self._terms(operands[0], scalings, steps)
            yield from self._terms(operands[1], scalings if name == "add" else negated, steps)
        elif name == "neg":
            yield from self._terms(operands[0], negated, steps)
        elif name in ("mul", "div") and scaled:
            yield from self._terms(*scaled[0], steps)
        else:
            yield value, scalings
            return
        steps.append(node)

    def _narrow(self, value: ir.Value) -> tuple[ir.Value, tuple[int, ...]]:
        """An array that is spread out to a value, and which dimensions of that are its own."""
        node = self._node(value, "jaxpr.broadcast_in_dim")
        if node is not None:
            return node.operands[0], tuple(map(int, node.get("broadcast_dimensions")))
        return value, tuple(range(len(_shape(value))))


def _both_ways(operands: list[ir.Value]) -> list[tuple[ir.Value, ir.Value]]:
    return [tuple(operands), tuple(operands[::-1])] if len(operands) == 2 else []


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(aval_of(value.type).shape)


def _is_used_once(node: OpNode) -> bool:
    return len(list(node.op.results[0].uses)) == 1


def _is_reshape(node: OpNode) -> bool:
    """Whether an op gives the elements of its operand in the same order."""
    before, after = node.operands[0].type, node.op.results[0].type
    return node.name in _RESHAPES and elements(before) == elements(after)
