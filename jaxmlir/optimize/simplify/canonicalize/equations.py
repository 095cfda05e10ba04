"""The folds of the op table, equations in text, as rewrites.

::

    equation  ::= term `=` term (`if` kind (`or` kind)*)?
    term      ::= variable | number | op-name (`[` attribute `=` integer `]`)? `(` term,... `)`
    number    ::= `0` | `-0.0` | `1` | `inf` | `~0` ...

``"sub(x, 0) = x"`` replaces a difference by its first operand where the second is zero in every
element.  ``0`` is the positive zero of floats, ``-0.0`` the negative one, ``~0`` is all bits set,
which of booleans is true.  A variable that occurs twice stands for one value.  The operands of
commutative ops are tried in both orders.  A kind after ``if`` is about the type of the first
variable: ``integer``, ``boolean``, ``float``, ``complex``; ``fast-math`` is ``float`` where the
option is on.  What is put in place of an op must have its type, weak types and shardings included;
else the equation is not used.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.simplify.canonicalize.rewriter import REWRITES, Node, Rewriter, kind_of

_TOKEN = re.compile(
    r"\s*(?:(?P<number>~0|-?inf\b|-?\d+(?:\.\d+)?)|(?P<word>\w+)|(?P<sign>[][(),=]))"
)


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Number:
    text: str

    def of(self, dtype: Any) -> np.generic | None:
        """The number in a dtype; ``None`` where it is not one of it."""
        if self.text == "~0":
            return ~np.zeros((), dtype)[()] if dtype.kind in "biu" else None
        if dtype == np.bool_ and self.text not in ("0", "1"):
            return None
        if dtype.kind in "iu" and (set(self.text) & set(".nf")):
            return None
        if dtype.kind == "u" and self.text.startswith("-"):
            return None
        found = np.asarray(float(self.text)).astype(dtype)[()]
        # Types of few bits round it, and some have no infinity: it is NaN there.
        return found if complex(found) == float(self.text) else None


@dataclass(frozen=True)
class Term:
    op: str
    attributes: tuple[tuple[str, int], ...]
    operands: tuple[Any, ...]


@dataclass(frozen=True)
class Equation:
    text: str
    left: Term
    right: Any
    kinds: tuple[str, ...]

    @property
    def rigid(self) -> bool:
        """Whether a number on the left may have had another type than the result's variables."""
        return any(isinstance(operand, Number) for operand in self.left.operands)


def parse(text: str) -> Equation:
    """Reads one equation.

    Raises:
      ValueError: it is malformed; with the text.
    """
    body, _, condition = text.partition(" if ")
    reader = _Reader(body)
    left = reader.term()
    reader.expect("=")
    right = reader.term()
    if reader.tokens or not isinstance(left, Term):
        raise ValueError(f"malformed equation {text!r}")
    kinds = tuple(condition.split(" or ")) if condition else ()
    return Equation(text, left, right, kinds)


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.tokens = [(m.lastgroup, m[m.lastgroup or 0]) for m in _TOKEN.finditer(text)]

    def expect(self, sign: str) -> None:
        if not self.tokens or self.tokens.pop(0)[1] != sign:
            raise ValueError(f"malformed equation {self.text!r}: expected {sign!r}")

    def takes(self, sign: str) -> bool:
        if self.tokens and self.tokens[0][1] == sign:
            self.tokens.pop(0)
            return True
        return False

    def term(self) -> Any:
        if not self.tokens:
            raise ValueError(f"malformed equation {self.text!r}: expected a term")
        kind, word = self.tokens.pop(0)
        if kind == "number":
            return Number(word)
        attributes = []
        if self.takes("["):
            name = self.tokens.pop(0)[1]
            self.expect("=")
            attributes.append((name, int(self.tokens.pop(0)[1])))
            self.expect("]")
        if not self.takes("("):
            return Variable(word)
        operands = [self.term()]
        while self.takes(","):
            operands.append(self.term())
        self.expect(")")
        return Term(word, tuple(attributes), tuple(operands))


# --- matching -------------------------------------------------------------------------------------

Bindings = dict[str, ir.Value]


def _matches(r: Rewriter, node: Node, term: Term) -> Iterator[Bindings]:
    """The ways in which an op is of the form of a term."""
    attributes = {name: codec.encode(value) for name, value in term.attributes}
    if node.attributes != attributes or len(node.operands) != len(term.operands):
        return
    orders = [node.operands]
    if ops.Trait.COMMUTATIVE in ops.OPS[term.op].traits:
        orders.append(node.operands[::-1])
    for operands in orders:
        bindings: Bindings = {}
        if all(_match(r, v, t, bindings) for v, t in zip(operands, term.operands, strict=True)):
            yield bindings


def _match(r: Rewriter, value: ir.Value, term: Any, bindings: Bindings) -> bool:
    if isinstance(term, Variable):
        return bindings.setdefault(term.name, value) == value
    if isinstance(term, Number):
        have = r.number_of(value)
        if have is None:
            return False
        want = term.of(have.dtype)
        return want is not None and have.tobytes() == want.tobytes()
    node = r.producer(value, term.op)
    if node is None:
        return False
    for inner in _matches(r, node, term):
        if all(bindings.get(name, v) == v for name, v in inner.items()):
            bindings.update(inner)
            return True
    return False


def _holds(equation: Equation, bindings: Bindings, r: Rewriter) -> bool:
    if not equation.kinds:
        return True
    kind = kind_of(next(iter(bindings.values())).type)
    return kind in equation.kinds or (
        kind == "float" and r.fast_math and "fast-math" in equation.kinds
    )


def _make(r: Rewriter, term: Any, type_: ir.Type, bindings: Bindings) -> ir.Value:
    if isinstance(term, Variable):
        return bindings[term.name]
    if isinstance(term, Number):
        from jaxmlir.dialect.types import aval_of

        return r.full(type_, term.of(aval_of(type_).dtype))
    operands = [_make(r, operand, type_, bindings) for operand in term.operands]
    attributes = {name: codec.encode(value) for name, value in term.attributes}
    return r.build(term.op, operands, type_, attributes)


def _apply(r: Rewriter, node: Node, equation: Equation) -> list[ir.Value] | None:
    for bindings in _matches(r, node, equation.left):
        if not _holds(equation, bindings, r):
            continue
        right = equation.right
        if isinstance(right, Term) and equation.rigid:
            # The number may have made the result larger, or its type strong.
            operands = [t for t in right.operands if isinstance(t, Variable)]
            if any(bindings[t.name].type != node.type for t in operands):
                continue
        r.equation = equation.text
        return [_make(r, right, node.type, bindings)]
    return None


@functools.cache
def _candidates(name: str, producers: tuple[str, ...], same: bool) -> tuple[Equation, ...]:
    """The equations of an op that its operands' producers do not rule out."""
    found = []
    for equation in equations_of(name.removeprefix("jaxpr.")):
        operands = equation.left.operands
        if len(operands) != len(producers):
            continue
        commutes = ops.Trait.COMMUTATIVE in ops.OPS[equation.left.op].traits
        orders = [producers, producers[::-1]] if commutes else [producers]
        repeated = len(set(operands)) < len(operands)
        if repeated and not same and all(isinstance(t, Variable) for t in operands):
            continue
        if any(all(map(_may_give, operands, order)) for order in orders):
            found.append(equation)
    return tuple(found)


def _may_give(term: Any, producer: str) -> bool:
    if isinstance(term, Number):
        return producer in ("jaxpr.constant", "jaxpr.broadcast_in_dim")
    return isinstance(term, Variable) or producer == f"jaxpr.{term.op}"


@functools.cache
def equations_of(op: str) -> tuple[Equation, ...]:
    return tuple(map(parse, ops.OPS[op].folds))


def fold(r: Rewriter, node: Node) -> Sequence[ir.Value] | None:
    """Tries the equations of the op's record."""
    operands = node.operands
    nodes = [r.node(v) for v in operands]
    producers = tuple(["" if n is None else n.name for n in nodes])
    same = len(operands) > 1 and any(v == operands[-1] for v in operands[:-1])
    for equation in _candidates(node.name, producers, same):
        values = _apply(r, node, equation)
        if values is not None:
            return values
    return None


for _record in ops.OPS.values():
    if _record.folds:
        REWRITES.setdefault(f"jaxpr.{_record.name}", []).append(fold)
