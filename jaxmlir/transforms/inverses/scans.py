"""Inverses of loops and branches: functions around the inverses of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import drop_dead_ops, filled, inline
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.inverses.rule import rule
from jaxmlir.transforms.inverses.solver import Inverted, NotInvertible, Rule, Site
from jaxmlir.transforms.new_function import NewFunction


def symbol_of(site: Site, attribute: str) -> str:
    """The symbol of the function that an attribute names."""
    return ir.FlatSymbolRefAttr(site.op.attributes[attribute]).value


def rearranged(
    site: Site, inverted: Inverted, order: Sequence[int], outs: Sequence[int], log_det: bool
) -> str:
    """The symbol of an inverse with other orders of arguments and results.

    Args:
      order: for each argument of ``inverted``, which of the new function's it is.
      outs: the positions of its results to return.
      log_det: also return the log-determinant, 0 where there is none.
    """
    rules = site.solver.rules
    function = rules.program.function(inverted.symbol)
    types = list(function.type.inputs)
    arguments = [types[order.index(i)] for i in range(len(types))]
    new = NewFunction(rules, inverted.symbol, arguments, function)
    with new.body(), function.location:
        results = inline(function, [new.args[i] for i in order])
        returned = [results[i] for i in outs]
        if log_det:
            returned.append(results[-1] if inverted.log_det else zero(site))
    name = new.finish(returned)
    drop_dead_ops(new.op)
    return name


def zero(site: Site) -> ir.Value:
    """A log-determinant that is zero."""
    return filled(type_of(core.ShapedArray((), np.dtype(site.solver.log_det))), 0)


def _sum(site: Site, terms: ir.Value) -> ir.Value:
    (term,) = site.emit("sum", lambda x: [jnp.sum(x)], [terms])
    return term


def _computed_with(site: Site, attribute: str, functions: ir.Attribute, type_: ir.Type) -> ir.Value:
    """Writes the op where it is computed, with functions that give one result more; gives that."""
    computed = site.solver.computed
    old = computed[site.results[0]].owner
    attributes = {**dict(site.op.attributes.items()), attribute: functions}
    types = [*(v.type for v in site.results), type_]
    with ir.InsertionPoint(old):
        *outs, more = site.create(site.name, types, list(old.operands), attributes)
    for result, out in zip(site.results, outs, strict=True):
        computed[result].replace_all_uses_with(out)
        computed[result] = out
    old.erase()
    return more


# --- scan ----------------------------------------------------------------------------------------


def _stacked(type_: ir.Type, length: int) -> ir.Type:
    return type_of(core.unmapped_aval(length, 0, aval_of(type_), None))


@dataclass(frozen=True)
class _Loop:
    """The operands and results of a scan, by their roles."""

    consts: list[ir.Value]
    init: list[ir.Value]
    xs: list[ir.Value]
    final: list[ir.Value]
    ys: list[ir.Value]

    @classmethod
    def of(cls, site: Site) -> _Loop:
        def count(name: str) -> int:
            attributes = site.op.attributes
            return codec.decode(attributes[name]) if name in attributes else 0

        n, m = count("num_consts"), count("num_carry")
        operands, results = site.operands, site.results
        return cls(operands[:n], operands[n : n + m], operands[n + m :], results[:m], results[m:])


@rule("scan")
class Scan(Rule):
    """Runs the inverse of the body, backwards or forwards in time."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        loop = _Loop.of(site)
        known = site.given([*site.operands, *site.results])
        if known in site.done:
            return
        site.done.add(known)
        carried = self._compute(site, loop)
        if not all(site.known(loop.consts)):
            if all(site.known(site.results)):
                raise NotInvertible("a constant of the loop, an operand of every step, is unknown")
            return
        if all(site.given(loop.init)) and self._forwards(site, loop):
            return
        if all(site.given(loop.final)):
            self._backwards(site, loop, carried)

    def _compute(self, site: Site, loop: _Loop) -> list[int]:
        """Runs what depends on known operands only; returns the carried values that do."""
        body = symbol_of(site, "jaxpr")
        consts, xs = site.known(loop.consts), site.given(loop.xs)
        carried = [i for i, k in enumerate(site.given(loop.init)) if k]
        n = len(loop.init)
        while True:
            args = [*consts, *(i in carried for i in range(n)), *xs]
            part = site.invert(body, args, (False,) * len(site.results))
            kept = [i for i in carried if i in part.results]
            if kept == carried:
                site.memory["step"] = part
                break
            carried = kept
        ys = [i for i in part.results if i >= n]
        wanted = [*carried, *ys]
        if not part.symbol or all(site.known([site.results[i] for i in wanted])):
            return carried
        outs = [len(part.arguments) + part.results.index(i) for i in wanted]
        function = rearranged(site, part, range(sum(args)), outs, False)
        operands = [
            *chosen(loop.consts, consts),
            *(loop.init[i] for i in carried),
            *chosen(loop.xs, xs),
        ]
        values = [site.whole(v) for v in operands]
        types = [site.results[i].type for i in wanted]
        results = self._write(site, function, sum(consts), len(carried), types, values, False)
        for i, value in zip(wanted, results, strict=True):
            site.tell(site.results[i], value)
        return carried

    def _forwards(self, site: Site, loop: _Loop) -> bool:
        """Finds slices from results and the carry so far; false if the body does not give them."""
        n = len(loop.init)
        xs, ys = site.given(loop.xs), site.given(loop.ys)
        args = [True] * (len(loop.consts) + n) + list(xs)
        results = [*[False] * n, *ys]
        inverted = site.invert(symbol_of(site, "jaxpr"), args, results)
        if not set(range(n)) <= set(inverted.results):
            return False
        new_ys = [i for i in inverted.results if i >= n]
        if not inverted.arguments and not new_ys:
            return False
        # It takes (ys, consts, carry, xs); a scan's body (consts, carry, xs, ys).
        n_args = sum(args)
        order = [*range(n_args, n_args + sum(ys)), *range(n_args)]
        first = len(inverted.arguments)
        outs = [first + inverted.results.index(i) for i in range(n)]
        outs += [*range(first), *(first + inverted.results.index(i) for i in new_ys)]
        function = rearranged(site, inverted, order, outs, inverted.log_det)
        operands = [*loop.consts, *loop.init, *chosen(loop.xs, xs), *chosen(loop.ys, ys)]
        values = [site.whole(v) for v in operands]
        targets = [*loop.final, *(site.operands[i] for i in inverted.arguments)]
        targets += [site.results[i] for i in new_ys]
        site.inverted = (tuple(args), tuple(results)) if inverted.log_det else None
        self._run(site, function, inverted, targets, len(loop.consts), n, values, False)
        return True

    def _backwards(self, site: Site, loop: _Loop, carried: Sequence[int]) -> None:
        """Finds the carry before each step, and slices, from the carry after it."""
        n, n_consts = len(loop.init), len(loop.consts)
        rest = [i for i in range(n) if i not in carried]
        xs, ys = site.given(loop.xs), site.given(loop.ys)
        args = [*[True] * n_consts, *(i in carried for i in range(n)), *xs]
        results = [*(i in rest for i in range(n)), *ys]
        inverted = site.invert(symbol_of(site, "jaxpr"), args, results)
        missing = [i for i in rest if n_consts + i not in inverted.arguments]
        if missing:
            if all(site.known(site.results)):
                body = symbol_of(site, "jaxpr")
                raise NotInvertible(
                    f"carried value {missing[0]} before a step does not follow from the carry "
                    "after it, nor are all initial values known",
                    site.why_function(body, args, results, n_consts + missing[0]),
                )
            return
        # It takes (carry, ys, consts, history, xs); a scan's body (consts, carry, history, xs, ys).
        sizes = {"consts": n_consts, "carry": len(rest), "history": len(carried)}
        sizes |= {"xs": sum(xs), "ys": sum(ys)}
        place, total = {}, 0
        for name, size in sizes.items():
            place[name] = range(total, total + size)
            total += size
        order = [i for g in ("carry", "ys", "consts", "history", "xs") for i in place[g]]
        found = inverted.arguments
        slices = [i for i in found if i >= n_consts + n]
        new_ys = [i for i in inverted.results if i >= n]
        if not rest and not slices and not new_ys:
            return
        outs = [found.index(n_consts + i) for i in rest] + [found.index(i) for i in slices]
        outs += [len(found) + inverted.results.index(i) for i in new_ys]
        function = rearranged(site, inverted, order, outs, inverted.log_det)
        values = [site.whole(v) for v in (*loop.consts, *(loop.final[i] for i in rest))]
        values += self._history(site, loop, carried)
        values += [site.whole(v) for v in (*chosen(loop.xs, xs), *chosen(loop.ys, ys))]
        targets = [loop.init[i] for i in rest] + [site.operands[i] for i in slices]
        targets += [site.results[i] for i in new_ys]
        site.inverted = (tuple(args), tuple(results)) if inverted.log_det else None
        self._run(site, function, inverted, targets, n_consts, len(rest), values, True)

    def _history(self, site: Site, loop: _Loop, carried: Sequence[int]) -> list[ir.Value]:
        """What each carried value that is computed forwards was before every step."""
        if not carried:
            return []
        rules = site.solver.rules
        step: Inverted = site.memory["step"]
        function = rules.program.function(step.symbol)
        new = NewFunction(rules, f"{step.symbol}.history", list(function.type.inputs), function)
        first = len(loop.consts)
        with new.body(), function.location:
            results = inline(function, new.args)
            outs = [results[step.results.index(i)] for i in carried]
        before = new.args[first : first + len(carried)]
        name = new.finish([*outs, *before])
        operands = [*loop.consts, *(loop.init[i] for i in carried)]
        operands += chosen(loop.xs, site.given(loop.xs))
        length = codec.decode(site.op.attributes["length"])
        types = [loop.init[i].type for i in carried]
        types += [_stacked(t, length) for t in types]
        values = [site.whole(v) for v in operands]
        results = self._write(site, name, first, len(carried), types, values, False)
        return results[len(carried) :]

    def _run(
        self,
        site: Site,
        function: str,
        inverted: Inverted,
        targets: Sequence[ir.Value],
        n_consts: int,
        n_carry: int,
        values: Sequence[ir.Value],
        backwards: bool,
    ) -> None:
        """Writes the loop, and says what its results are."""
        types = [v.type for v in targets]
        if inverted.log_det:
            scalar = site.solver.rules.program.function(function).type.results[-1]
            types.append(_stacked(scalar, codec.decode(site.op.attributes["length"])))
        outs = self._write(site, function, n_consts, n_carry, types, values, backwards)
        term = _sum(site, outs[-1]) if inverted.log_det else None
        site.answer(targets, outs[: len(targets)], term)

    def log_det(self, site: Site, forward: Callable[[str], str]) -> ir.Value:
        """What the loop adds, computed on its way: the sum of what its steps do."""
        body = forward(symbol_of(site, "jaxpr"))
        scalar = site.solver.rules.program.function(body).type.results[-1]
        stacked = _stacked(scalar, codec.decode(site.op.attributes["length"]))
        return _sum(site, _computed_with(site, "jaxpr", ir.FlatSymbolRefAttr.get(body), stacked))

    def _write(
        self,
        site: Site,
        function: str,
        n_consts: int,
        n_carry: int,
        types: Sequence[ir.Type],
        values: Sequence[ir.Value],
        backwards: bool,
    ) -> list[ir.Value]:
        attributes = dict(site.op.attributes.items())
        attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(function)
        reverse = "reverse" in attributes and codec.decode(attributes["reverse"])
        for key in ("num_consts", "num_carry", "reverse"):
            attributes.pop(key, None)
        counts = {"num_consts": n_consts, "num_carry": n_carry}
        attributes |= {key: codec.encode(n) for key, n in counts.items() if n}
        if reverse != backwards:
            attributes["reverse"] = codec.encode(True)
        return site.create(site.name, types, values, attributes)


# --- cond and while ------------------------------------------------------------------------------


@rule("cond")
class Cond(Rule):
    """Calls the inverse of the branch that was taken."""

    late: ClassVar[bool] = True

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
        given = chosen(site.results, known[1]) + chosen(operands, known[0])
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
        site.inverted = known if log_det else None
        site.answer(targets, outs[: len(targets)], outs[-1] if log_det else None)

    def log_det(self, site: Site, forward: Callable[[str], str]) -> ir.Value:
        """What the branch that was taken adds."""
        symbols = [forward(ir.FlatSymbolRefAttr(a).value) for a in site.op.attributes["branches"]]
        scalar = site.solver.rules.program.function(symbols[0]).type.results[-1]
        branches = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(symbol) for symbol in symbols])
        return _computed_with(site, "branches", branches, scalar)

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
class While(Rule):
    """Counts the steps, from what the condition depends on, and runs as many backwards."""

    late: ClassVar[bool] = True

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
