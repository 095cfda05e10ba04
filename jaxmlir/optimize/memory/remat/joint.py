"""Joins two scans, the second of which scans stacked results of the first; and separates them.

A forward loop and the backward loop of its derivative are such a pair.  In the *joint body* both
run in the same iteration, so a value that the first loop hands to the second is a value like any
other::

    (*constants, *carry, *slices of the first, *those of the second) -> (*results of both)

The first loop can store any set of values from which the rest of the second body can be computed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jax import lax

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import erase, inline, named_ops, returned
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.memory.price import size_of
from jaxmlir.rewriting.inline import inlined
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp, stacked
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


class Loop:
    """A scan in a function.

    Operands are read from the op each time, because rewriting other loops replaces them.
    """

    def __init__(self, op: Any, scan: ScanOp | None = None):
        """
        Args:
          scan: the parsed op, if the caller has just written it.
        """
        self.op = op
        self.scan: ScanOp = scan or ScanOp.of(op)

    @property
    def symbol(self) -> str:
        """The function that the loop stands in."""
        return self.op.operation.parent.attributes["sym_name"].value

    @property
    def operands(self) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """Constants, carry, slices."""
        consts, carry, slices = self.scan.operands(list(self.op.operands))
        return consts, carry, slices

    @functools.cached_property
    def results(self) -> list[ir.Value]:
        return list(self.op.results)

    @functools.cached_property
    def stacked(self) -> list[ir.Value]:
        """The results that have a row for each iteration."""
        return self.scan.results(self.results)[1]


def counted_loops(function: func.FuncOp) -> list[Loop]:
    """The scans of a function that are plain loops of more than one iteration, with results."""
    loops = []
    for op, name in named_ops(function):
        if name == "jaxpr.scan" and all(key in PLAIN_SCAN for key in op.attributes.keys()):
            loop = Loop(op)
            if loop.results and loop.scan.is_counted and loop.scan.length > 1:
                loops.append(loop)
    return loops


class LoopPair:
    """A loop, and a later loop that scans over stacked results of the first."""

    def __init__(self, first: Loop, second: Loop):
        self.first: Loop = first
        self.second: Loop = second
        stacked = set(first.stacked)
        consts, carry, slices = second.operands
        handed = {v for v in slices if v in stacked}
        start = len(consts) + len(carry)
        reader = second.op.operation
        self.links: set[Any] = {
            v
            for v in handed
            if all(use.owner == reader and use.operand_number >= start for use in v.uses)
        }
        """The stacked results that only the second loop reads, as slices."""

    @functools.cached_property
    def given(self) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """The operands of the first loop, by kind; to be read once other loops are rewritten."""
        return self.first.operands

    @functools.cached_property
    def taken(self) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """The operands of the second loop, by kind."""
        return self.second.operands

    @functools.cached_property
    def stored(self) -> float:
        """The bytes of the links."""
        return sum(size_of(v.type) for v in self.links)

    @functools.cached_property
    def kept(self) -> tuple[int, ...]:
        """The stacked results of the first loop that have other readers and therefore stay."""
        return tuple(
            i
            for i, v in enumerate(self.first.stacked)
            if v not in self.links and any(True for _ in v.uses)
        )

    @functools.cached_property
    def retained(self) -> tuple[int, ...]:
        """The slices, computed by the program, that only the first loop reads so far: they are in
        memory, but would have to stay there for the second loop."""
        later = set().union(*self.taken)
        return tuple(
            i
            for i, v in enumerate(self.given[2])
            if not _is_argument(v)
            and v not in later
            and all(use.owner == self.first.op.operation for use in v.uses)
        )

    @functools.cached_property
    def likeness(self) -> Hashable:
        """All that the choice depends on besides the bodies: pairs that agree in it and in their
        bodies are rewritten alike."""
        numbers: dict[ir.Value, int] = {}
        first, second = (
            [*consts, *carry, *slices] for consts, carry, slices in (self.given, self.taken)
        )
        stacked = self.first.stacked
        signatures = [
            op_signature.of_op(loop.op, "jaxpr.scan", operands)
            for loop, operands in ((self.first, first), (self.second, second))
        ]
        return (
            tuple([item for s in signatures for item in s.attributes if item[0] != "jaxpr"]),
            tuple([s.types for s in signatures]),
            tuple([numbers.setdefault(v, len(numbers)) for v in (*first, *stacked, *second)]),
            tuple([v in self.links for v in stacked]),
            self.kept,
            self.retained,
        )

    @property
    def symbols(self) -> tuple[str, str]:
        """The symbols of the bodies."""
        return self.first.scan.body, self.second.scan.body


def replace_results(
    pair: LoopPair, first: Sequence[ir.Value | None], second: Sequence[ir.Value | None]
) -> None:
    """Replaces the results of both loops, and erases the loops.

    The second loop is erased first: it reads results of the first that have no replacement.
    """
    for loop, values in ((pair.second, second), (pair.first, first)):
        for old, new in zip(loop.results, values, strict=True):
            if new is not None:
                old.replace_all_uses_with(new)
        erase(loop.op)


@dataclass(frozen=True)
class JointBody:
    """The joint body of a pair; its values are numbers."""

    pair: LoopPair
    function: func.FuncOp
    """Detached."""
    consts: list[int]
    """The arguments that are operands of the first loop: constants, carry, slices."""
    carry: list[int]
    slices: list[int]
    second_consts: list[tuple[int, int]]
    """The operands that only the second loop takes, by index, each with its argument."""
    second_carry: list[int]
    second_slices: list[tuple[int, int]]
    names: frozenset[str]
    """The names of values that are stored for the second loop, and therefore stay stored."""
    links: tuple[ir.Value, ...]
    """The values that are stored for the second loop so far; empty if that makes no difference to
    prices, or if ops were rewritten."""

    @classmethod
    def of(cls, rules: Rules, pair: LoopPair, flat: bool = False) -> JointBody:
        """The joint body of a pair.

        Args:
          flat: whether calls are inlined.
        """
        first, second = pair.first, pair.second
        bodies = [rules.program.function(loop.scan.body) for loop in (first, second)]
        whole = bodies
        if flat:
            whole = [inlined(rules.program.functions, body) for body in bodies]
        of_first, of_second = (list(body_of(body).arguments) for body in bodies)
        given_c, given_k, given_x = pair.given
        taken_c, _, taken_x = pair.taken
        rows = first.stacked
        sliced = {*given_x, *rows}
        types_c, types_k, types_x = second.scan.operands([v.type for v in of_second])
        own_c = [i for i, v in enumerate(taken_c) if v not in given_c]
        own_x = [i for i, v in enumerate(taken_x) if v not in sliced]
        types = [*(v.type for v in of_first), *(types_c[i] for i in own_c)]
        types += [*types_k, *(types_x[i] for i in own_x)]
        new = NewFunction(rules, "joint", types, bodies[1], detached=True)
        counts = len(given_c), len(given_k), len(given_x), len(own_c), len(types_k)
        consts, carry, slices, consts2, carry2, slices2 = split(new.args, *counts)
        with new.body():
            outs = inline(whole[0], [*consts, *carry, *slices])
            _, stacked = first.scan.results(outs)
            values = dict(zip(given_c, consts, strict=True))
            values |= {taken_c[i]: arg for i, arg in zip(own_c, consts2, strict=True)}
            xs = dict(zip(given_x, slices, strict=True))
            xs |= dict(zip(rows, stacked, strict=True))
            xs |= {taken_x[i]: arg for i, arg in zip(own_x, slices2, strict=True)}
            args = [*(values[v] for v in taken_c), *carry2, *(xs[v] for v in taken_x)]
            outs2 = inline(whole[1], args)
        for body, copy in zip(bodies, whole, strict=True):
            if copy is not body:
                copy.operation.erase()
        costs = rules.program.target.costs
        links = [v for outer, v in zip(rows, stacked, strict=True) if outer in pair.links]
        carried, _ = split(outs, len(carry))
        new.finish([*carried, *(stacked[i] for i in pair.kept), *outs2])
        consts, carry, slices, consts2, carry2, slices2 = split(range(len(new.args)), *counts)
        return cls(
            pair,
            new.op,
            consts,
            carry,
            slices,
            list(zip(own_c, consts2, strict=True)),
            carry2,
            [(len(taken_c) + len(carry2) + i, arg) for i, arg in zip(own_x, slices2, strict=True)],
            frozenset(name for v in links if (name := name_of(rules.program, v)) is not None),
            tuple(links) if costs.linked_value < costs.fused_value else (),
        )

    @functools.cached_property
    def body(self) -> FunctionView:
        """The view of the joint body; to be read once nothing in it is rewritten any more."""
        return FunctionView(self.function)

    def results(self) -> tuple[list[int], list[int], list[int]]:
        """The first loop's carry, its stacked results that are kept, and the second's results."""
        carry, ys, outs = split(
            self.body.returned, self.pair.first.scan.num_carry, len(self.pair.kept)
        )
        return carry, ys, outs

    @functools.cached_property
    def linked(self) -> frozenset[int]:
        """The values that are stored for the second loop so far: the numbers of the links."""
        links, body = set(self.links), self.body
        return frozenset(n for n in range(len(body.types)) if links and body.value(n) in links)

    @property
    def retained(self) -> set[int]:
        """The arguments of the slices that would stay in memory for the second loop alone."""
        return {self.slices[i] for i in self.pair.retained}


def _is_argument(value: ir.Value) -> bool:
    """Whether a value is an argument of the function, perhaps reshaped: the same bytes, which the
    caller keeps in memory."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.operation.name == "jaxpr.reshape":
            keeps_order = "dimensions" not in op.attributes
        else:
            keeps_order = op.operation.name == "jaxpr.squeeze"
        if not keeps_order:
            return False
        value = op.operands[0]
    return True


def name_of(program: Module, value: ir.Value) -> str | None:
    """The name that the user gave a value, in this function or in a callee that returns it."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    return name_of_result(program, op, op.operation.name, value.result_number)


def name_of_result(program: Module, op: Any, name: str, number: int) -> str | None:
    """The name that JAX's checkpoint policies know a result of an op by, if it has one."""
    if name == "jaxpr.name":
        return op.attributes["name"].value
    if name == "jaxpr.reduce_precision":
        # JAX's rule for jax.checkpoint applies one to each value that a policy stores.
        return name_of(program, op.operands[0])
    if name in ("jaxpr.scan", "jaxpr.jit"):
        body = program.functions.get(op.attributes["jaxpr"].value)
        if body is not None:
            return name_of(program, returned(body)[number])
    return None


class PairReplacement(NamedTuple):
    """Two loops that can replace a pair, and any pair like it.

    Operands are numbered: first those of the pair's first loop, then those of its second loop, then
    the stacked results of the new first loop.
    """

    first: ScanOp
    of_first: list[int]
    second: ScanOp
    of_second: list[int]
    types: tuple[list[ir.Type], list[ir.Type]]
    """The result types of both bodies."""

    def take_place(self, rules: Rules, pair: LoopPair) -> tuple[Loop | None, Loop]:
        """Replaces a pair by the loops; the first is ``None`` if it has no results left."""
        first, second = pair.first.op, pair.second.op
        values = [*first.operands, *second.operands]
        with ir.InsertionPoint(first), first.location:
            outs = self.first.write(rules, [values[i] for i in self.of_first], self.types[0])
        carry, stacked = split(outs, self.first.num_carry)
        values += stacked
        with ir.InsertionPoint(second), second.location:
            results = self.second.write(rules, [values[i] for i in self.of_second], self.types[1])
        row_of = dict(zip(pair.kept, stacked, strict=False))
        rows = [row_of.get(i) for i in range(len(pair.first.stacked))]
        replace_results(pair, [*carry, *rows], results)
        left = Loop(outs[0].owner, self.first) if outs else None
        return left, Loop(results[0].owner, self.second)


def separate(rules: Rules, joint: JointBody, stored: Sequence[int]) -> PairReplacement:
    """Two loops that replace the pair; the first stores the given values of each iteration."""
    first, second = joint.pair.first, joint.pair.second
    body = joint.body
    carry, ys, outs = joint.results()
    position = {v: i for i, v in enumerate(ys)}

    # The second loop computes what is not stored from constants and slices.
    todo, live = body.backward_slice(outs, set(stored).__contains__)
    handed = [v for v in stored if v in live and v not in position]
    position |= {v: len(ys) + i for i, v in enumerate(handed)}
    results = [*carry, *ys, *handed]
    todo_first, live_first = body.backward_slice(results)

    # The arguments of the first loop in the joint body have the numbers of its operands.
    consts = [v for v in joint.consts if v in live_first]
    slices = [v for v in joint.slices if v in live_first]
    of_first = [*consts, *joint.carry, *slices]
    symbol = _body(rules, first, body, of_first, todo_first, results)
    new_first = first.scan.with_body(symbol, len(consts), len(joint.carry))

    num_first = len(first.op.operands)
    stacked = num_first + len(second.op.operands)
    again = [(v, v) for v in joint.consts]
    of_consts = [*((num_first + i, v) for i, v in joint.second_consts), *again]
    again = [(v, v) for v in joint.slices]
    again += [(stacked + i, v) for v, i in position.items()]
    of_slices = [*((num_first + i, v) for i, v in joint.second_slices), *again]
    start = second.scan.num_consts
    taken = [
        [pair for pair in of_consts if pair[1] in live],
        [(num_first + start + i, v) for i, v in enumerate(joint.second_carry)],
        [pair for pair in of_slices if pair[1] in live],
    ]
    pairs = list(itertools.chain.from_iterable(taken))
    symbol = _body(rules, second, body, [arg for _, arg in pairs], todo, outs)
    new_second = second.scan.with_body(symbol, len(taken[0]), len(joint.second_carry))
    types = [body.types[v] for v in results], [body.types[v] for v in outs]
    of_second = [operand for operand, _ in pairs]
    return PairReplacement(new_first, of_first, new_second, of_second, types)


def _body(
    rules: Rules,
    loop: Loop,
    joint: FunctionView,
    arguments: Sequence[int],
    ops: Sequence[int],
    results: Sequence[int],
) -> str:
    """Writes a body of some ops of the joint body, with some of its values as arguments; returns
    its symbol."""
    like = rules.program.function(loop.scan.body)
    new = NewFunction(rules, like.name.value, [joint.types[v] for v in arguments], like)
    values = dict(zip(arguments, new.args, strict=True))
    with new.body():
        joint.copy_ops(ops, values)
    return new.finish([values[v] for v in results])


# Long loops in segments: the carry is stored at the start of each segment, the rest is recomputed.
#
# A loop of ``m k`` iterations becomes ``m`` iterations of a loop of ``k``, and so does the loop
# that scans over its stacked results.  In the outer pair, an iteration of the first loop is itself
# a loop; whether its stacked results are stored or recomputed is a choice like any other.  At best
# the outer loop stores the carry only, and the inner loop is run again: its stacked results live
# for one segment only.  With ``m = k`` memory goes from ``n`` to ``2 sqrt(n)`` for one more run
# forwards (Chen et al. 2016), and segments of segments take ``d n^(1/d)`` for ``d - 1`` runs.


@functools.cache
def segments(
    length: int, depth: int, per_segment: float, per_iteration: float
) -> tuple[int, float]:
    """The number of segments that takes least memory, and its bytes.

    Args:
      depth: how deep segments are nested; 0: there are none.
      per_segment: bytes stored at the start of a segment.
      per_iteration: bytes stored in each iteration of the innermost loop.
    """
    best = 0, length * per_iteration
    if depth and length >= 4:
        for count in range(2, length // 2 + 1):
            if count * per_segment >= best[1]:
                # More segments take more.
                break
            _, inner = segments(length // count, depth - 1, per_segment, per_iteration)
            # An iteration that is left over stores as much as the start of a segment.
            size = (count + length % count) * per_segment + inner
            if size < best[1]:
                best = count, size
    return best


def in_segments(rules: Rules, pair: LoopPair, count: int) -> list[LoopPair]:
    """Cuts both loops of a pair into ``count`` segments and a loop of the iterations left over."""
    length = pair.first.scan.length
    seg_length = length // count
    parts = [_SegmentedRange(0, count * seg_length, count)]
    if count * seg_length < length:
        parts.append(_SegmentedRange(count * seg_length, length, 1))
    views = _StackedParts(rules, length)
    first, of_first = _rewrite(rules, pair.first, parts, views, pair.links)
    second, of_second = _rewrite(rules, pair.second, parts, views, pair.links)
    replace_results(pair, of_first, of_second)
    return [LoopPair(Loop(a), Loop(b)) for a, b in zip(first, second, strict=True)]


@dataclass(frozen=True)
class _SegmentedRange:
    """A range of iterations of a loop, cut into ``count`` segments."""

    start: int
    stop: int
    count: int


class _StackedParts:
    """Writes the parts of stacked values, each once."""

    def __init__(self, rules: Rules, length: int):
        self.rules = rules
        self.length = length
        self.known: dict[tuple[ir.Value, _SegmentedRange], ir.Value] = {}

    def of(self, value: ir.Value, part: _SegmentedRange) -> ir.Value:
        """A part of a stacked value: ``[count, iterations of a segment, ...]``."""
        key = value, part
        if key not in self.known:
            view = functools.partial(_view, part, self.length)
            (self.known[key],) = self.rules.emit(view, [value])
        return self.known[key]

    def whole(self, parts: Sequence[tuple[_SegmentedRange, ir.Value]]) -> ir.Value:
        """The stacked value that consists of the parts."""
        whole = functools.partial(_whole, tuple(part for part, _ in parts))
        return self.rules.emit(whole, [value for _, value in parts])[0]


def _view(part: _SegmentedRange, length: int, x: Any) -> list[Any]:
    if part.stop - part.start < length:
        x = lax.slice_in_dim(x, part.start, part.stop)
    if part.count > 1:
        x = lax.reshape(x, (part.count, (part.stop - part.start) // part.count, *x.shape[1:]))
    return [x]


def _whole(parts: tuple[_SegmentedRange, ...], *xs: Any) -> list[Any]:
    flat = [
        lax.reshape(x, (part.stop - part.start, *x.shape[2:])) if part.count > 1 else x
        for part, x in zip(parts, xs, strict=True)
    ]
    return [lax.concatenate(flat, 0) if len(flat) > 1 else flat[0]]


def _rewrite(
    rules: Rules,
    loop: Loop,
    parts: Sequence[_SegmentedRange],
    views: _StackedParts,
    links: set[ir.Value],
) -> tuple[list[Any], list[ir.Value | None]]:
    """Writes the parts of a loop; returns their ops in the order of ``parts``, and replacements of
    the loop's results, except for the ``links``."""
    ops: dict[_SegmentedRange, Any] = {}
    consts, carry, whole_slices = loop.operands
    with ir.InsertionPoint(loop.op), loop.op.location:
        for part in reversed(parts) if loop.scan.reverse else parts:
            scan = loop.scan._replace(length=(part.stop - part.start) // part.count)
            if part.count > 1:
                body = _segment(rules, loop, scan)
                other = {k: v for k, v in scan.other.items() if k != "unroll"}
                scan = scan._replace(body=body, length=part.count, other=other)
            slices = [views.of(v, part) for v in whole_slices]
            outs = scan.write(rules, [*consts, *carry, *slices])
            ops[part] = outs[0].owner
            carry, outs = split(outs, len(carry))
            views.known.update(((v, part), out) for v, out in zip(loop.stacked, outs, strict=True))
        whole = [
            views.whole([(part, views.known[v, part]) for part in parts])
            if v not in links and any(True for _ in v.uses)
            else None
            for v in loop.stacked
        ]
    return [ops[part] for part in parts], [*carry, *whole]


def _segment(rules: Rules, loop: Loop, scan: Any) -> str:
    """Writes a body that runs a segment; returns its symbol."""
    body = rules.program.function(scan.body)
    consts, carry, slices = scan.operands([v.type for v in body.arguments])
    types = [*consts, *carry, *(stacked(t, scan.length) for t in slices)]
    new = NewFunction(rules, f"{scan.body}.segment", types, body)
    with new.body(), loop.op.location:
        outs = scan.write(rules, new.args)
    return new.finish(outs)
