"""The folds of the op table, i.e. equations in text, as rewrites.

::

    equation  ::= term `=` term (`if` kind (`or` kind)*)?
    term      ::= variable | number | op-name (`[` attribute `=` integer `]`)? `(` term,... `)`
    number    ::= `0` | `-0.0` | `1` | `inf` | `~0` ...

``"sub(x, 0) = x"`` replaces a difference by its first operand where the second is zero in every
element.  ``0`` is the positive zero of floats, ``-0.0`` the negative one; ``~0`` has all bits set,
which is true for booleans.  A variable that occurs twice stands for one value.  The operands of
commutative ops are tried in both orders.  A kind after ``if`` restricts the type of the first
variable: ``integer``, ``boolean``, ``float``, ``complex``; ``fast-math`` is ``float`` where the
option is on.  The new value must have the type of the old one, weak types and shardings included;
else the equation is not used.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir.analysis.strided_view import slice_of
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.builder import overwrites, window_sizes
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, shape_of
from jaxmlir.optimize.simplify.canonicalize.movement import is_static, slice_attributes
from jaxmlir.optimize.simplify.canonicalize.rewriter import (
    REWRITES,
    RewriteNode,
    Rewriter,
    WriteChain,
    kind_of,
    rewrite,
)

# -- Store-to-load forwarding in arrays that are filled part by part, at constant indices --
#
# A table that Python fills, ``v = v.at[i].set(f(v[i - 1]))``, is a chain of arrays in a jaxpr, each
# an updated copy of the one before.  A read is replaced by the last update of its part, or by a
# read of the original array.  Then no read depends on the whole array, and passes that look for
# repeated blocks see that the steps are alike.
#
# Parts of equal size at multiples of this size are either the same or disjoint.  So a chain of
# writes shares one dictionary of its parts, and a read costs one look-up.


MOST_PARTS = 64
"""The most parts to test for an overlap: those that a slice covers, or those written so far."""


class Write(NamedTuple):
    """One write: ``update`` takes the place of a part of ``array``."""

    array: ir.Value
    update: ir.Value
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def first(self) -> tuple[int, ...]:
        return tuple([i % n for i, n in zip(self.starts, self.sizes, strict=True)])

    @property
    def place(self) -> tuple[int, ...]:
        return tuple([i // n for i, n in zip(self.starts, self.sizes, strict=True)])


@rewrite(
    "slice(scatter(x, c, y)) = slice(y) or slice(x) where the index c is a constant and all or "
    "none of the elements taken are in y; also for dynamic_update_slice",
    "slice",
)
def slice_of_written(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    written = _written(r, node.operands[0])
    if written is None:
        return None
    starts, limits, strides = slice_of(node)
    if any(a >= b for a, b in zip(starts, limits, strict=True)):
        return None
    grid = list(zip(starts, limits, written.first, written.sizes, strict=True))
    low = tuple([(a - first) // n for a, _, first, n in grid])
    high = tuple([(b - 1 - first) // n for _, b, first, n in grid])
    source = written.parts.get(low) if low == high else None
    if source is not None:
        begins = [p * n + first for p, (_, _, first, n) in zip(low, grid, strict=True)]
        starts = tuple([a - b for a, b in zip(starts, begins, strict=True)])
        limits = tuple([a - b for a, b in zip(limits, begins, strict=True)])
        whole = ir.RankedTensorType.get(written.sizes, source.type.element_type)
        if source.type != whole:
            shape = {"new_sizes": codec.encode(written.sizes)}
            source = r.build("reshape", [source], whole, shape)
        if whole == node.type and not any(starts):
            return [source]
    elif _is_untouched(written, low, high):
        source = written.under
    else:
        return None
    return [r.build("slice", [source], node.type, slice_attributes(starts, limits, strides))]


def _is_untouched(written: WriteChain, low: tuple[int, ...], high: tuple[int, ...]) -> bool:
    """Whether certainly none of the parts from ``low`` to ``high`` has been written."""
    ranges = [range(a, b + 1) for a, b in zip(low, high, strict=True)]
    if math.prod(map(len, ranges)) <= MOST_PARTS:
        return written.parts.keys().isdisjoint(itertools.product(*ranges))
    if len(written.parts) > MOST_PARTS:
        return False
    return not any(
        all(p in places for p, places in zip(part, ranges, strict=True)) for part in written.parts
    )


def _written(r: Rewriter, array: ir.Value) -> WriteChain | None:
    """The chain of writes that ends in an array; ``None`` if no write computes it."""
    top = node = r.node(array)
    writes: list[tuple[RewriteNode, Write]] = []
    while node is not None and node.written is None:
        write = _write(r, node)
        if write is None:
            break
        writes.append((node, write))
        node = r.node(write.array)
    for node, write in reversed(writes):
        before = r.node(write.array)
        written = before.written if before is not None else None
        extends = (
            written is not None
            and written.last is before
            and written.sizes == write.sizes
            and written.first == write.first
        )
        if not extends:
            written = WriteChain(write.array, write.sizes, write.first, {}, node)
        written.parts[write.place] = write.update
        written.last = node
        node.written = written
    record = top.written if top is not None else None
    # Another write may have extended the chain from there.
    return record if record is not None and record.last is top else None


def _write(r: Rewriter, node: RewriteNode) -> Write | None:
    """An op as a write; ``None`` unless its indices are constant and in bounds."""
    if node.name == "jaxpr.scatter" and overwrites(node.op):
        array, indices, update = node.operands
        numbers = node.get("dimension_numbers")
        index = _index(r, indices)
        if index is None or numbers.operand_batching_dims:
            return None
        starts = [0] * len(shape_of(array))
        for axis, start in zip(numbers.scatter_dims_to_operand_dims, index, strict=True):
            starts[axis] = start
        sizes = window_sizes(numbers, shape_of(update))
    elif node.name == "jaxpr.dynamic_update_slice":
        array, update, *indices = node.operands
        starts = [c for v in indices for c in (_index(r, v) or ())]
        sizes = list(shape_of(update))
    else:
        return None
    if len(starts) != len(sizes) or not (is_static(array) and is_static(update)):
        return None
    ends = [i + n for i, n in zip(starts, sizes, strict=True)]
    inside = all(0 <= i for i in starts) and all(
        e <= d for e, d in zip(ends, shape_of(array), strict=True)
    )
    if not inside or not all(sizes):
        return None
    return Write(array, update, tuple(starts), tuple(sizes))


def _index(r: Rewriter, value: ir.Value) -> list[int] | None:
    """The integers of a constant scalar or vector, or of a concatenation of constants."""
    if len(shape_of(value)) > 1 or not is_static(value):
        return None
    joined = r.producer(value, "concatenate")
    if joined is not None:
        pieces = [_index(r, v) for v in joined.operands]
        return None if any(p is None for p in pieces) else [i for p in pieces for i in p]
    array = r.constant_of(value)
    if array is not None:
        return [int(i) for i in array.reshape(-1)]
    number = r.number_of(value)
    return None if number is None else [int(number)] * aval_of(value.type).size


_TOKEN = re.compile(
    r"\s*(?:(?P<number>~0|-?inf\b|-?\d+(?:\.\d+)?)|(?P<word>\w+)|(?P<sign>[][(),=]))"
)


class Variable(NamedTuple):
    name: str


class Number(NamedTuple):
    text: str

    def of(self, dtype: Any) -> np.generic | None:
        """The number in a dtype; ``None`` if the dtype cannot represent it."""
        if self.text == "~0":
            return ~np.zeros((), dtype)[()] if dtype.kind in "biu" else None
        if dtype == np.bool_ and self.text not in ("0", "1"):
            return None
        if dtype.kind in "iu" and (set(self.text) & set(".nf")):
            return None
        if dtype.kind == "u" and self.text.startswith("-"):
            return None
        number = np.asarray(float(self.text)).astype(dtype)[()]
        # Narrow types round it, and those without infinities turn one into NaN.
        return number if complex(number) == float(self.text) else None


class Term(NamedTuple):
    op: str
    attributes: tuple[tuple[str, int], ...]
    operands: tuple[Any, ...]


class Equation(NamedTuple):
    text: str
    left: Term
    right: Any
    kinds: tuple[str, ...]

    @property
    def rigid(self) -> bool:
        """Whether a number on the left may have another type than the variables on the right."""
        return any(isinstance(operand, Number) for operand in self.left.operands)


def parse(text: str) -> Equation:
    """Reads one equation.

    Raises:
      ValueError: it is malformed; with the text.
    """
    body, _, condition = text.partition(" if ")
    reader = _EquationParser(body)
    left = reader.term()
    reader.expect("=")
    right = reader.term()
    if reader.tokens or not isinstance(left, Term):
        raise ValueError(f"malformed equation {text!r}")
    kinds = tuple(condition.split(" or ")) if condition else ()
    return Equation(text, left, right, kinds)


class _EquationParser:
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


def _matches(r: Rewriter, node: RewriteNode, term: Term) -> Iterator[Bindings]:
    """All bindings with which an op matches a term."""
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
        return r.full(type_, term.of(aval_of(type_).dtype))
    operands = [_make(r, operand, type_, bindings) for operand in term.operands]
    attributes = {name: codec.encode(value) for name, value in term.attributes}
    return r.build(term.op, operands, type_, attributes)


def _apply(r: Rewriter, node: RewriteNode, equation: Equation) -> list[ir.Value] | None:
    for bindings in _matches(r, node, equation.left):
        if not _holds(equation, bindings, r):
            continue
        right = equation.right
        if isinstance(right, Term) and equation.rigid:
            # The number may have broadcast the result, or made its type strong.
            operands = [t for t in right.operands if isinstance(t, Variable)]
            if any(bindings[t.name].type != node.type for t in operands):
                continue
        r.equation = equation.text
        return [_make(r, right, node.type, bindings)]
    return None


@functools.cache
def _candidates(name: str, producers: tuple[str, ...], same: bool) -> tuple[Equation, ...]:
    """The equations of an op that the producers of its operands do not rule out."""
    candidates = []
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
            candidates.append(equation)
    return tuple(candidates)


def _may_give(term: Any, producer: str) -> bool:
    if isinstance(term, Number):
        return producer in ("jaxpr.constant", "jaxpr.broadcast_in_dim")
    return isinstance(term, Variable) or producer == f"jaxpr.{term.op}"


@functools.cache
def equations_of(op: str) -> tuple[Equation, ...]:
    return tuple(map(parse, ops.OPS[op].folds))


def fold(r: Rewriter, node: RewriteNode) -> Sequence[ir.Value] | None:
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
