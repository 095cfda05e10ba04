"""Inverses of ``cond`` and ``while``: of the branch that was taken, and of the steps in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import inline
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import type_of
from jaxmlir.transforms.inverses.bodies import rearranged, some, symbol_of, zero
from jaxmlir.transforms.inverses.rule import rule
from jaxmlir.transforms.inverses.solver import Inverted, NotInvertible, Site
from jaxmlir.transforms.new_function import NewFunction


@rule("cond")
class Cond:
    """Calls the inverse of the branch that was taken."""

    late = True

    def forward(self, site: Site) -> None:
        """What follows from some of the operands is found by :meth:`learn`."""

    def learn(self, site: Site) -> None:
        index, *operands = site.operands
        known = site.given(operands), site.given(site.results)
        if site.whole(index) is None:
            if all(known[1]):
                raise NotInvertible("which branch was taken is unknown")
            return
        if known in site.done:
            return
        site.done.add(known)
        symbols = [ir.FlatSymbolRefAttr(a).value for a in site.op.attributes["branches"]]
        branches = [site.invert(symbol, *known) for symbol in symbols]
        arguments = sorted(set.intersection(*(set(b.arguments) for b in branches)))
        results = sorted(set.intersection(*(set(b.results) for b in branches)))
        if not arguments and not results:
            if all(known[1]):
                self._explain(site, symbols, branches, known)
            return
        log_det = any(b.log_det for b in branches)
        given = some(site.results, known[1]) + some(operands, known[0])
        functions = []
        for branch in branches:
            outs = [branch.arguments.index(i) for i in arguments]
            outs += [len(branch.arguments) + branch.results.index(i) for i in results]
            functions.append(rearranged(site, branch, range(len(given)), outs, log_det))
        attributes = dict(site.op.attributes.items())
        symbols = [ir.FlatSymbolRefAttr.get(f) for f in functions]
        attributes["branches"] = ir.ArrayAttr.get(symbols)
        types = site.solver.rules.program.function(functions[0]).type.results
        values = [site.whole(v) for v in (index, *given)]
        outs = site.create(site.name, types, values, attributes)
        targets = [*(operands[i] for i in arguments), *(site.results[i] for i in results)]
        site.answer(targets, outs[: len(targets)], outs[-1] if log_det else None)

    def _explain(
        self, site: Site, symbols: list[str], branches: list[Inverted], known: Any
    ) -> None:
        """Says which branch cannot be inverted."""
        for i, (symbol, branch) in enumerate(zip(symbols, branches, strict=True)):
            missing = [j for j, k in enumerate(known[0]) if not k and j not in branch.arguments]
            if missing:
                raise NotInvertible(
                    f"branch {i} does not give operand {missing[0] + 1}",
                    site.why_function(symbol, *known, missing[0]),
                )


@rule("while")
class While:
    """Counts the steps, from what the condition depends on, and runs as many backwards."""

    late = True

    def forward(self, site: Site) -> None:
        """What follows from some of the operands is found by :meth:`learn`."""

    def learn(self, site: Site) -> None:
        attributes = site.op.attributes

        def count(name: str) -> int:
            return codec.decode(attributes[name]) if name in attributes else 0

        n, m = count("cond_nconsts"), count("body_nconsts")
        consts, carry = site.operands[: n + m], site.operands[n + m :]
        known = site.known([*site.operands, *site.results])
        if known in site.done or all(site.known(carry)):
            return
        site.done.add(known)
        if not any(site.known(site.results)):
            return
        if not all(site.known(consts)):
            raise NotInvertible("a constant of the loop, an operand of every step, is unknown")
        carried = self._carried(site, m, carry)
        cond = symbol_of(site, "cond_jaxpr")
        tested = [*[True] * n, *(i in carried for i in range(len(carry)))]
        condition = site.invert(cond, tested, (False,))
        if not condition.results:
            raise NotInvertible(
                "how many steps it takes depends on an unknown; a loop is run backwards where its "
                "condition depends on known values only"
            )
        length, finals = self._count(site, condition, n, m, carried)
        for i, value in zip(carried, finals, strict=True):
            site.tell(site.results[i], value)
        if all(site.known(site.results)):
            self._backwards(site, length, m, carried, consts[n:], carry)

    def _carried(self, site: Site, m: int, carry: Sequence[ir.Value]) -> list[int]:
        """The carried values that depend on known values only."""
        body = symbol_of(site, "body_jaxpr")
        carried = [i for i, k in enumerate(site.known(carry)) if k]
        while True:
            args = [*[True] * m, *(i in carried for i in range(len(carry)))]
            step = site.invert(body, args, (False,) * len(carry))
            kept = [i for i in carried if i in step.results]
            if kept == carried:
                site.memory["step"] = step
                return carried
            carried = kept

    def _count(
        self, site: Site, condition: Inverted, n: int, m: int, carried: Sequence[int]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """How many steps the loop takes, and what it computes of known values."""
        rules = site.solver.rules
        program = rules.program
        step: Inverted = site.memory["step"]
        consts, carry = site.operands[: n + m], site.operands[n + m :]
        counter = type_of(_int32())
        types = [counter, *(carry[i].type for i in carried)]
        like = program.function(condition.symbol)
        cond_types = [*(v.type for v in consts[:n]), *types]
        cond = NewFunction(
            rules, f"{site.op.attributes['cond_jaxpr'].value}.count", cond_types, like
        )
        with cond.body(), like.location:
            (truth,) = inline(like, [*cond.args[:n], *cond.args[n + 1 :]])
        cond.finish([truth])
        body = NewFunction(
            rules,
            f"{site.op.attributes['body_jaxpr'].value}.count",
            [*(v.type for v in consts[n:]), *types],
            like,
        )
        with body.body(), like.location:
            outs = []
            if carried:
                function = program.function(step.symbol)
                results = inline(function, [*body.args[:m], *body.args[m + 1 :]])
                outs = [results[step.results.index(i)] for i in carried]
            one = _add(body.args[m], 1)
        body.finish([one, *outs])
        start = _integer(0)
        values = [site.whole(v) for v in consts]
        values += [start, *(site.whole(carry[i]) for i in carried)]
        attributes = {
            **{k: v for k, v in site.op.attributes.items()},
            "cond_jaxpr": ir.FlatSymbolRefAttr.get(cond.name),
            "body_jaxpr": ir.FlatSymbolRefAttr.get(body.name),
        }
        length, *finals = site.create(site.name, types, values, attributes)
        return length, finals

    def _backwards(
        self,
        site: Site,
        length: ir.Value,
        m: int,
        carried: Sequence[int],
        consts: Sequence[ir.Value],
        carry: Sequence[ir.Value],
    ) -> None:
        rules = site.solver.rules
        body_symbol = symbol_of(site, "body_jaxpr")
        # What does not depend on the unknown is undone first: its equations are solved forwards.
        n = len(carry)
        kept = [i in carried for i in range(n)]
        undo = site.solver.inverse(body_symbol, [*[True] * m, *[False] * n], kept, None)
        inverted = site.invert(body_symbol, [*[True] * m, *kept], [not k for k in kept])
        found = {i - m for i in (*inverted.arguments, *undo.arguments)}
        missing = [i for i in range(n) if i not in found]
        if missing:
            first = missing[0]
            # What is computed forwards is to follow from such values alone.
            after = kept if first in carried else [True] * n
            before = [first not in carried and k and i not in missing for i, k in enumerate(kept)]
            raise NotInvertible(
                f"carried value {first} before a step does not follow from the carry after it",
                site.why_function(body_symbol, [*[True] * m, *before], after, m + first),
            )
        function = rules.program.function(inverted.symbol)
        log_det = [zero(site)] if inverted.log_det else []
        counter = type_of(_int32())
        types = [counter, *(v.type for v in carry), *(v.type for v in log_det)]
        cond = NewFunction(rules, f"{body_symbol}.steps_left", types, function)
        with cond.body(), function.location:
            truth = ir.Operation.create(
                "jaxpr.gt", [_boolean()], [cond.args[0], _integer(0)]
            ).result
        cond.finish([truth])
        body_types = [*(v.type for v in consts), *types]
        body = NewFunction(rules, f"{body_symbol}.backwards", body_types, function)
        with body.body(), function.location:
            steps, *state = body.args[m:]
            before: dict[int, ir.Value] = {}
            if carried:
                after = [state[i] for i in carried]
                outs = inline(rules.program.function(undo.symbol), [*after, *body.args[:m]])
                before = {i: outs[undo.arguments.index(m + i)] for i in carried}
            after = [state[i] for i in range(n) if i not in carried]
            args = [*after, *body.args[:m], *(before[i] for i in carried)]
            outs = inline(function, args)
            before |= {i - m: v for i, v in zip(inverted.arguments, outs, strict=False)}
            results = [before[i] for i in range(n)]
            if inverted.log_det:
                operands = [state[-1], outs[-1]]
                type_ = operands[0].type
                results.append(ir.Operation.create("jaxpr.add", [type_], operands).result)
            left = _add(steps, -1)
        body.finish([left, *results])
        values = [*map(site.whole, consts), length, *map(site.whole, site.results), *log_det]
        attributes = {
            "cond_jaxpr": ir.FlatSymbolRefAttr.get(cond.name),
            "body_jaxpr": ir.FlatSymbolRefAttr.get(body.name),
            **({"body_nconsts": m} if m else {}),
        }
        _, *outs = site.create(site.name, types, values, attributes)
        site.answer(carry, outs[: len(carry)], outs[-1] if inverted.log_det else None)


def _int32() -> Any:
    return core.ShapedArray((), np.dtype(np.int32))


def _boolean() -> ir.Type:
    return type_of(core.ShapedArray((), np.dtype(bool)))


def _integer(value: int) -> ir.Value:
    attribute = dense(np.asarray(value, np.int32))
    return ir.Operation.create(
        "jaxpr.constant", [type_of(_int32())], [], {"value": attribute}
    ).result


def _add(counter: ir.Value, by: int) -> ir.Value:
    return ir.Operation.create("jaxpr.add", [counter.type], [counter, _integer(by)]).result
