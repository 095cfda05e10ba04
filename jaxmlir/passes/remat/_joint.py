"""Two scans of which the second reads what the first stacks, as one body, and apart again.

A forward loop and the backward loop of its derivative are such a pair.  In the *joint body* both
run in the same iteration, so that what goes from one to the other is a value like any other::

    (*constants, *carry, *slices of the first, *those of the second) -> (*results of both)

Any set of its values from which the rest of the second body follows can be what is stored.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir._lists import split
from jaxmlir.ir import func, ir
from jaxmlir.passes._body import Body
from jaxmlir.passes._build import NewFunction, erase, inline, named_ops, returned
from jaxmlir.passes.higher_order._scan_op import PLAIN_SCAN, ScanOp

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules
    from jaxmlir.program import Program


class Loop:
    """A scan in a function.

    Its operands are read when they are asked for: rewriting other loops exchanges them.
    """

    def __init__(self, op: Any):
        self.op = op
        self.scan = ScanOp.of(op)

    @property
    def operands(self) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value]]:
        """Constants, carry, slices."""
        consts, carry, slices = self.scan.operands(list(self.op.operands))
        return consts, carry, slices

    @property
    def results(self) -> list[ir.Value]:
        return list(self.op.results)

    @property
    def stacked(self) -> list[ir.Value]:
        """The results that have a value for each iteration."""
        return self.scan.results(self.results)[1]


def loops_of(function: func.FuncOp) -> list[Loop]:
    """The scans of a function that are plain loops of more than one iteration, with results."""
    found = []
    for op, name in named_ops(function):
        if name == "jaxpr.scan" and all(key in PLAIN_SCAN for key in op.attributes.keys()):
            loop = Loop(op)
            if loop.results and loop.scan.is_counted and loop.scan.length > 1:
                found.append(loop)
    return found


class Pair:
    """A loop, and a later one that goes over values which it stacks."""

    def __init__(self, first: Loop, second: Loop):
        self.first, self.second = first, second
        stacked = set(first.stacked)
        consts, carry, slices = second.operands
        read = {v for v in slices if v in stacked}
        start = len(consts) + len(carry)
        self.links = {
            v
            for v in read
            if all(
                use.owner == second.op.operation and use.operand_number >= start for use in v.uses
            )
        }
        """The stacked values that nobody else reads."""


def replace_results(
    pair: Pair, first: Sequence[ir.Value | None], second: Sequence[ir.Value | None]
) -> None:
    """Uses other values in place of both loops' results, and removes the loops.

    The second goes first: it uses results of the first that nothing stands for any more.
    """
    for loop, values in ((pair.second, second), (pair.first, first)):
        for old, new in zip(loop.results, values, strict=True):
            if new is not None:
                old.replace_all_uses_with(new)
        erase(loop.op)


@dataclass(frozen=True)
class Joint:
    """The joint body of a pair; values of it by number."""

    pair: Pair
    function: func.FuncOp
    """Detached."""
    consts: list[int]
    """The first's arguments in the joint body: constants, carry, slices."""
    carry: list[int]
    slices: list[int]
    second_consts: list[tuple[ir.Value, int]]
    """What only the second takes: operands, and their arguments in the joint body."""
    second_carry: list[int]
    second_slices: list[tuple[ir.Value, int]]
    kept: tuple[int, ...]
    """The stacked results of the first that stay whatever is chosen: somebody else reads them."""
    names: frozenset[str]
    """The names of values that are stored for the second, and therefore stay stored."""

    @classmethod
    def of(cls, rules: Rules, pair: Pair) -> Joint:
        first, second = pair.first, pair.second
        bodies = [rules.program.function(loop.scan.body) for loop in (first, second)]
        of_first, of_second = (list(body.arguments) for body in bodies)
        given_c, given_k, given_x = first.operands
        taken_c, _, taken_x = second.operands
        sliced = {*given_x, *first.stacked}
        types_c, types_k, types_x = second.scan.operands([v.type for v in of_second])
        own_c = [(v, t) for v, t in zip(taken_c, types_c, strict=True) if v not in given_c]
        own_x = [(v, t) for v, t in zip(taken_x, types_x, strict=True) if v not in sliced]
        new = NewFunction(
            rules,
            "joint",
            [
                *(v.type for v in of_first),
                *(t for _, t in own_c),
                *types_k,
                *(t for _, t in own_x),
            ],
            bodies[1],
            detached=True,
        )
        counts = len(given_c), len(given_k), len(given_x), len(own_c), len(types_k)
        consts, carry, slices, consts2, carry2, slices2 = split(new.args, *counts)
        with new.body():
            outs = inline(bodies[0], [*consts, *carry, *slices])
            _, stacked = first.scan.results(outs)
            values = dict(zip(given_c, consts, strict=True))
            values |= {v: arg for (v, _), arg in zip(own_c, consts2, strict=True)}
            xs = dict(zip(given_x, slices, strict=True))
            xs |= dict(zip(first.stacked, stacked, strict=True))
            xs |= {v: arg for (v, _), arg in zip(own_x, slices2, strict=True)}
            args = [*(values[v] for v in taken_c), *carry2, *(xs[v] for v in taken_x)]
            outs2 = inline(bodies[1], args)
        pairs = list(zip(first.stacked, stacked, strict=True))
        links = [v for outer, v in pairs if outer in pair.links]
        kept = tuple(
            i
            for i, (outer, _) in enumerate(pairs)
            if outer not in pair.links and any(True for _ in outer.uses)
        )
        carried, _ = split(outs, len(carry))
        new.finish([*carried, *(stacked[i] for i in kept), *outs2])
        consts, carry, slices, consts2, carry2, slices2 = split(range(len(new.args)), *counts)
        return cls(
            pair,
            new.op,
            consts,
            carry,
            slices,
            [(v, arg) for (v, _), arg in zip(own_c, consts2, strict=True)],
            carry2,
            [(v, arg) for (v, _), arg in zip(own_x, slices2, strict=True)],
            kept,
            frozenset(name for v in links if (name := name_of(rules.program, v)) is not None),
        )

    @functools.cached_property
    def body(self) -> Body:
        """The joint body, when nothing in it is rewritten any more."""
        return Body(self.function)

    def results(self) -> tuple[list[int], list[int], list[int]]:
        """The carry of the first, of its stacked results those that are kept; all of the second."""
        carry, kept, outs = split(
            self.body.returned, self.pair.first.scan.num_carry, len(self.kept)
        )
        return carry, kept, outs

    def retained(self) -> set[int]:
        """The slices that only the first loop reads so far, of values that a program computes:
        they are in memory, but for the second loop would have to stay there."""
        pair = self.pair
        later = {*pair.second.op.operands}
        return {
            arg
            for outer, arg in zip(pair.first.operands[2], self.slices, strict=True)
            if not _is_argument(outer)
            and outer not in later
            and all(use.owner == pair.first.op.operation for use in outer.uses)
        }


def _is_argument(value: ir.Value) -> bool:
    """Whether a value is an argument of the function, perhaps with other dimensions: the same
    bytes, which the caller keeps."""
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


def name_of(program: Program, value: ir.Value) -> str | None:
    """The name that the user gave a value, in this function or in one that gives it."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    return name_of_result(program, op, op.operation.name, value.result_number)


def name_of_result(program: Program, op: Any, name: str, number: int) -> str | None:
    """The same of a result of an op whose name the caller has read."""
    if name == "jaxpr.name":
        return op.attributes["name"].value
    if name == "jaxpr.reduce_precision":
        # JAX's rule for jax.checkpoint puts one around each value that a policy stores.
        return name_of(program, op.operands[0])
    if name in ("jaxpr.scan", "jaxpr.jit"):
        body = program.functions.get(op.attributes["jaxpr"].value)
        if body is not None:
            return name_of(program, returned(body)[number])
    return None


def needed_for(
    body: Body, wanted: Iterable[int], available: set[int]
) -> tuple[list[int], set[int]]:
    """The ops that give the wanted values where some are available, and all values that takes."""
    live = set(wanted)
    kept = []
    for index in reversed(range(len(body.ops))):
        for v in range(*body.results[index]):
            if v in live and v not in available:
                live.update(body.operands[index])
                kept.append(index)
                break
    return kept[::-1], live


def separate(rules: Rules, joint: Joint, stored: Sequence[int]) -> tuple[Loop | None, Loop]:
    """Puts two loops in the place of the pair, where the first stores these values of each
    iteration.

    Returns:
      The loops; of the first nothing may be left.
    """
    first, second = joint.pair.first, joint.pair.second
    body = joint.body
    consts_first, carry_first, slices_first = first.operands
    carry, kept, outs = joint.results()
    position = {v: i for i, v in enumerate(kept)}

    # The second loop: what it does not find stored it computes from constants and slices.
    arguments = {*joint.consts, *joint.carry, *joint.slices}
    todo, live = needed_for(body, outs, {*stored, *arguments})
    handed = [v for v in stored if v in live and v not in position]
    position |= {v: len(kept) + i for i, v in enumerate(handed)}
    todo_first, live_first = needed_for(body, [*carry, *kept, *handed], arguments)

    with ir.InsertionPoint(first.op), first.op.location:
        consts = [
            (o, a) for o, a in zip(consts_first, joint.consts, strict=True) if a in live_first
        ]
        slices = [
            (o, a) for o, a in zip(slices_first, joint.slices, strict=True) if a in live_first
        ]
        new = first.scan.with_body(
            _body(
                rules,
                first,
                body,
                [*_args(consts), *joint.carry, *_args(slices)],
                todo_first,
                [*carry, *kept, *handed],
            ),
            len(consts),
            len(joint.carry),
        )
        values = new.write(rules, [*_operands(consts), *carry_first, *_operands(slices)])
    final, stacked = split(values, len(carry))
    results_first: list[ir.Value | None] = [*final, *[None] * len(first.stacked)]
    for i, v in zip(joint.kept, stacked, strict=False):
        results_first[len(carry) + i] = v

    with ir.InsertionPoint(second.op), second.op.location:
        again = list(zip(consts_first, joint.consts, strict=True))
        consts = [pair for pair in (*joint.second_consts, *again) if pair[1] in live]
        again = list(zip(slices_first, joint.slices, strict=True))
        again += [(stacked[i], v) for v, i in position.items()]
        slices = [pair for pair in (*joint.second_slices, *again) if pair[1] in live]
        new = second.scan.with_body(
            _body(
                rules,
                second,
                body,
                [*_args(consts), *joint.second_carry, *_args(slices)],
                todo,
                outs,
            ),
            len(consts),
            len(joint.second_carry),
        )
        results = new.write(rules, [*_operands(consts), *second.operands[1], *_operands(slices)])
    replace_results(joint.pair, results_first, results)
    return Loop(values[0].owner) if values else None, Loop(results[0].owner)


def _operands(pairs: Sequence[tuple[ir.Value, int]]) -> list[ir.Value]:
    return [operand for operand, _ in pairs]


def _args(pairs: Sequence[tuple[ir.Value, int]]) -> list[int]:
    return [arg for _, arg in pairs]


def _body(
    rules: Rules,
    loop: Loop,
    joint: Body,
    arguments: Sequence[int],
    ops: Sequence[int],
    results: Sequence[int],
) -> str:
    """A body of those ops of the joint one, over those values of it; its symbol."""
    like = rules.program.function(loop.scan.body)
    new = NewFunction(rules, like.name.value, [joint.types[v] for v in arguments], like)
    values = dict(zip(arguments, new.args, strict=True))
    with new.body():
        for index in ops:
            outs = joint.copy(index, [values[v] for v in joint.operands[index]])
            for old, value in zip(range(*joint.results[index]), outs, strict=True):
                values.setdefault(old, value)
    return new.finish([values[v] for v in results])
