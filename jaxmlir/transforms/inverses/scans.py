"""Inverses of loops and branches: loops and branches around the inverses of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmlir.dialect.builder import build, drop_dead_ops, filled, inline, symbol_ref, zeros
from jaxmlir.dialect.ir import ir, symbol_uses
from jaxmlir.dialect.types import scalar_type
from jaxmlir.support.masks import chosen, split
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp, stacked
from jaxmlir.transforms.inverses.rule import rule
from jaxmlir.transforms.inverses.solver import InverseFunction, InverseRule, NotInvertible, Site
from jaxmlir.transforms.new_function import NewFunction


def rearranged(
    site: Site, inverted: InverseFunction, order: Sequence[int], outs: Sequence[int], log_det: bool
) -> str:
    """The symbol of an inverse that takes its arguments in another order (for each, which one of
    the new function it is), and returns the results ``outs`` and, if asked for, the
    log-determinant, 0 if there is none."""
    rules = site.solver.rules
    function = rules.program.function(inverted.symbol)
    types = list(function.type.inputs)
    arguments = [types[order.index(i)] for i in range(len(types))]
    new = NewFunction(rules, inverted.symbol, arguments, function)
    with new.body(), function.location:
        results = inline(function, [new.args[i] for i in order])
        returned = [results[i] for i in outs]
        if log_det:
            returned.append(results[-1] if inverted.log_det else _zero(site))
    name = new.finish(returned)
    drop_dead_ops(new.op)
    return name


def _zero(site: Site) -> ir.Value:
    """A log-determinant that is zero."""
    return zeros(scalar_type(site.solver.log_det))


def _sum(site: Site, terms: ir.Value) -> ir.Value:
    (term,) = site.emit("sum", lambda x: [jnp.sum(x)], [terms])
    return term


def _computed_with(site: Site, attribute: str, functions: ir.Attribute, type_: ir.Type) -> ir.Value:
    """Rewrites the computed op with functions that return one result more; gives that result."""
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


def _computed_carry(
    site: Site, body: str, consts: Sequence[bool], carry: Sequence[bool], xs: Sequence[bool] = ()
) -> list[int]:
    """The carried values of a loop that depend on known values only, in all steps.  The site
    remembers the function that computes them, and all else that depends on such values, in a step.
    """
    carried = [i for i, k in enumerate(carry) if k]
    while True:
        args = [*consts, *(i in carried for i in range(len(carry))), *xs]
        step = site.memory["step"] = site.invert(body, args, (False,) * len(site.results))
        remaining = [i for i in carried if i in step.results]
        if remaining == carried:
            return carried
        carried = remaining


# --- scan ----------------------------------------------------------------------------------------


class _ScanValues:
    """The operands and results of a scan, by role."""

    def __init__(self, site: Site):
        self.scan = ScanOp.of(site.op)
        self.consts, self.init, self.xs = self.scan.operands(site.operands)
        self.final, self.ys = self.scan.results(site.results)


@rule("scan")
class ScanInverse(InverseRule):
    """Runs the inverse of the body, backwards or forwards in time."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        loop = _ScanValues(site)
        mask = site.given([*site.operands, *site.results])
        if mask in site.done:
            return
        site.done.add(mask)
        carried = self._compute(site, loop)
        if not all(site.known(loop.consts)):
            if all(site.known(site.results)):
                raise NotInvertible("a loop-invariant operand is unknown")
            return
        if all(site.given(loop.init)) and self._forwards(site, loop):
            return
        if all(site.given(loop.final)):
            self._backwards(site, loop, carried)

    def _compute(self, site: Site, loop: _ScanValues) -> list[int]:
        """Computes what depends only on known operands; gives the carried values among it."""
        consts, xs = site.known(loop.consts), site.given(loop.xs)
        carried = _computed_carry(site, loop.scan.body, consts, site.given(loop.init), xs)
        part: InverseFunction = site.memory["step"]
        n = len(loop.init)
        ys = [i for i in part.results if i >= n]
        computed = [*carried, *ys]
        if not part.symbol or all(site.known([site.results[i] for i in computed])):
            return carried
        outs = part.places((), computed)
        init = [loop.init[i] for i in carried]
        operands = [*chosen(loop.consts, consts), *init, *chosen(loop.xs, xs)]
        function = rearranged(site, part, range(len(operands)), outs, False)
        values = [site.whole(v) for v in operands]
        new = loop.scan.with_body(function, sum(consts), len(carried))
        results = new.write(site.solver.rules, values)
        for i, value in zip(computed, results, strict=True):
            site.tell(site.results[i], value)
        return carried

    def _forwards(self, site: Site, loop: _ScanValues) -> bool:
        """Finds slices from results and the carry so far; false if the body does not give them."""
        n = len(loop.init)
        xs, ys = site.given(loop.xs), site.given(loop.ys)
        args = [True] * (len(loop.consts) + n) + list(xs)
        results = [*[False] * n, *ys]
        inverted = site.invert(loop.scan.body, args, results)
        if not set(range(n)) <= set(inverted.results):
            return False
        new_ys = [i for i in inverted.results if i >= n]
        if not inverted.arguments and not new_ys:
            return False
        # The inverse takes (ys, consts, carry, xs); a scan's body takes (consts, carry, xs, ys).
        n_args = sum(args)
        order = [*range(n_args, n_args + sum(ys)), *range(n_args)]
        outs = inverted.places((), range(n)) + inverted.places(inverted.arguments, new_ys)
        function = rearranged(site, inverted, order, outs, inverted.log_det)
        operands = [*loop.consts, *loop.init, *chosen(loop.xs, xs), *chosen(loop.ys, ys)]
        values = [site.whole(v) for v in operands]
        targets = [*loop.final, *(site.operands[i] for i in inverted.arguments)]
        targets += [site.results[i] for i in new_ys]
        site.inverted = (tuple(args), tuple(results)) if inverted.log_det else None
        new = loop.scan.with_body(function, len(loop.consts), n)
        self._run(site, new, inverted, targets, values)
        return True

    def _backwards(self, site: Site, loop: _ScanValues, carried: Sequence[int]) -> None:
        """Finds the carry before each step, and slices, from the carry after it."""
        n, n_consts = len(loop.init), len(loop.consts)
        rest = [i for i in range(n) if i not in carried]
        xs, ys = site.given(loop.xs), site.given(loop.ys)
        args = [*[True] * n_consts, *(i in carried for i in range(n)), *xs]
        results = [*(i in rest for i in range(n)), *ys]
        inverted = site.invert(loop.scan.body, args, results)
        missing = [i for i in rest if n_consts + i not in inverted.arguments]
        if missing:
            if all(site.known(site.results)):
                raise NotInvertible(
                    f"carried value {missing[0]} before a step does not follow from the carry "
                    "after it, and not all initial values are known",
                    site.why_function(loop.scan.body, args, results, n_consts + missing[0]),
                )
            return
        # The inverse takes (carry, ys, consts, history, xs); a scan's body takes (consts, carry,
        # history, xs, ys).
        numbers = range(n_consts + n + sum(xs) + sum(ys))
        of_consts, of_carry, history, of_xs, of_ys = split(
            numbers, n_consts, len(rest), len(carried), sum(xs)
        )
        order = [*of_carry, *of_ys, *of_consts, *history, *of_xs]
        arguments = inverted.arguments
        slices = [i for i in arguments if i >= n_consts + n]
        new_ys = [i for i in inverted.results if i >= n]
        if not rest and not slices and not new_ys:
            return
        outs = inverted.places([*(n_consts + i for i in rest), *slices], new_ys)
        function = rearranged(site, inverted, order, outs, inverted.log_det)
        values = [site.whole(v) for v in (*loop.consts, *(loop.final[i] for i in rest))]
        values += self._history(site, loop, carried)
        values += [site.whole(v) for v in (*chosen(loop.xs, xs), *chosen(loop.ys, ys))]
        targets = [loop.init[i] for i in rest] + [site.operands[i] for i in slices]
        targets += [site.results[i] for i in new_ys]
        site.inverted = (tuple(args), tuple(results)) if inverted.log_det else None
        new = loop.scan.with_body(function, n_consts, len(rest))
        self._run(site, new._replace(reverse=not new.reverse), inverted, targets, values)

    def _history(self, site: Site, loop: _ScanValues, carried: Sequence[int]) -> list[ir.Value]:
        """The values before every step of each carried value that is computed forwards."""
        if not carried:
            return []
        rules = site.solver.rules
        step: InverseFunction = site.memory["step"]
        function = rules.program.function(step.symbol)
        new = NewFunction(rules, f"{step.symbol}.history", list(function.type.inputs), function)
        first = len(loop.consts)
        with new.body(), function.location:
            results = inline(function, new.args)
            outs = [results[place] for place in step.places((), carried)]
        before = new.args[first : first + len(carried)]
        name = new.finish([*outs, *before])
        operands = [*loop.consts, *(loop.init[i] for i in carried)]
        operands += chosen(loop.xs, site.given(loop.xs))
        values = [site.whole(v) for v in operands]
        results = loop.scan.with_body(name, first, len(carried)).write(rules, values)
        return results[len(carried) :]

    def _run(
        self,
        site: Site,
        scan: ScanOp,
        inverted: InverseFunction,
        targets: Sequence[ir.Value],
        values: Sequence[ir.Value],
    ) -> None:
        """Writes the loop, and reports its results."""
        outs = scan.write(site.solver.rules, values)
        term = _sum(site, outs[-1]) if inverted.log_det else None
        site.answer(targets, outs[: len(targets)], term)

    def log_det(self, site: Site, forward: Callable[[str], str]) -> ir.Value:
        """The loop's log-determinant, computed by the loop itself: the sum over its steps."""
        scan = ScanOp.of(site.op)
        body = forward(scan.body)
        scalar = site.solver.rules.program.function(body).type.results[-1]
        type_ = stacked(scalar, scan.length)
        return _sum(site, _computed_with(site, "jaxpr", symbol_ref(body), type_))


# --- cond and while ------------------------------------------------------------------------------


@rule("cond")
class CondInverse(InverseRule):
    """Calls the inverse of the branch that was taken."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        index, *operands = site.operands
        masks = site.given(operands), site.given(site.results)
        if site.whole(index) is None:
            if all(masks[1]):
                raise NotInvertible("which branch was taken is unknown")
            return
        if masks in site.done:
            return
        site.done.add(masks)
        symbols = symbol_uses(site.op.attributes["branches"])
        branches = [site.invert(symbol, *masks) for symbol in symbols]
        arguments = sorted(set.intersection(*(set(b.arguments) for b in branches)))
        results = sorted(set.intersection(*(set(b.results) for b in branches)))
        if not arguments and not results:
            if all(masks[1]):
                self._explain(site, symbols, branches, masks)
            return
        log_det = any(b.log_det for b in branches)
        inputs = chosen(site.results, masks[1]) + chosen(operands, masks[0])
        functions = []
        for branch in branches:
            outs = branch.places(arguments, results)
            functions.append(rearranged(site, branch, range(len(inputs)), outs, log_det))
        attributes = dict(site.op.attributes.items())
        attributes["branches"] = ir.ArrayAttr.get(list(map(symbol_ref, functions)))
        types = site.solver.rules.program.function(functions[0]).type.results
        values = [site.whole(v) for v in (index, *inputs)]
        outs = site.create(site.name, types, values, attributes)
        targets = [*(operands[i] for i in arguments), *(site.results[i] for i in results)]
        site.inverted = masks if log_det else None
        site.answer(targets, outs[: len(targets)], outs[-1] if log_det else None)

    def log_det(self, site: Site, forward: Callable[[str], str]) -> ir.Value:
        """The log-determinant of the branch that was taken."""
        symbols = list(map(forward, symbol_uses(site.op.attributes["branches"])))
        scalar = site.solver.rules.program.function(symbols[0]).type.results[-1]
        branches = ir.ArrayAttr.get(list(map(symbol_ref, symbols)))
        return _computed_with(site, "branches", branches, scalar)

    def _explain(
        self, site: Site, symbols: Sequence[str], branches: list[InverseFunction], known: Any
    ) -> None:
        """Raises an error that says which branch cannot be inverted."""
        for i, (symbol, branch) in enumerate(zip(symbols, branches, strict=True)):
            missing = [j for j, k in enumerate(known[0]) if not k and j not in branch.arguments]
            if missing:
                raise NotInvertible(
                    f"operand {missing[0] + 1} does not follow from the results of branch {i}",
                    site.why_function(symbol, *known, missing[0]),
                )


@rule("while")
class WhileInverse(InverseRule):
    """Counts the steps by the values that the condition depends on, and runs as many backwards."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        loop = WhileOp.of(site.op)
        of_cond, of_body, carry = loop.operands(site.operands)
        mask = site.known([*site.operands, *site.results])
        if mask in site.done or all(site.known(carry)):
            return
        site.done.add(mask)
        if not any(site.known(site.results)):
            return
        if not all(site.known([*of_cond, *of_body])):
            raise NotInvertible("a loop-invariant operand is unknown")
        fixed = (True,) * loop.body_consts
        carried = _computed_carry(site, loop.body, fixed, site.known(carry))
        tested = [*[True] * loop.cond_consts, *(i in carried for i in range(len(carry)))]
        condition = site.invert(loop.cond, tested, (False,))
        if not condition.results:
            raise NotInvertible(
                "how many steps it takes depends on an unknown; a loop can be run backwards only "
                "if its condition depends on known values alone"
            )
        length, finals = self._count(site, loop, condition, carried)
        for i, value in zip(carried, finals, strict=True):
            site.tell(site.results[i], value)
        if all(site.known(site.results)):
            self._backwards(site, loop, length, carried)

    def _count(
        self, site: Site, loop: WhileOp, condition: InverseFunction, carried: Sequence[int]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """The number of steps, and the final carried values that follow from known values."""
        rules = site.solver.rules
        program = rules.program
        step: InverseFunction = site.memory["step"]
        of_cond, of_body, carry = loop.operands(site.operands)
        types = [scalar_type(np.int32), *(carry[i].type for i in carried)]
        like = program.function(condition.symbol)
        cond_types = [*(v.type for v in of_cond), *types]
        cond = NewFunction(rules, f"{loop.cond}.count", cond_types, like)
        with cond.body(), like.location:
            consts, (_, *state) = split(cond.args, len(of_cond))
            (truth,) = inline(like, [*consts, *state])
        cond.finish([truth])
        body_types = [*(v.type for v in of_body), *types]
        body = NewFunction(rules, f"{loop.body}.count", body_types, like)
        with body.body(), like.location:
            consts, (steps, *state) = split(body.args, len(of_body))
            outs = []
            if carried:
                results = inline(program.function(step.symbol), [*consts, *state])
                outs = [results[place] for place in step.places((), carried)]
            next_count = _add(steps, 1)
        body.finish([next_count, *outs])
        start = filled(scalar_type(np.int32), 0)
        values = [site.whole(v) for v in (*of_cond, *of_body)]
        values += [start, *(site.whole(carry[i]) for i in carried)]
        length, *finals = loop._replace(cond=cond.name, body=body.name).write(rules, values)
        return length, finals

    def _backwards(
        self, site: Site, loop: WhileOp, length: ir.Value, carried: Sequence[int]
    ) -> None:
        """Runs ``length`` steps backwards."""
        rules = site.solver.rules
        _, consts, carry = loop.operands(site.operands)
        m = len(consts)
        # Carried values that do not depend on the unknown are undone first.  They add no
        # log-determinant: their equations are solved forwards.
        n = len(carry)
        is_carried = [i in carried for i in range(n)]
        undo = site.solver.inverse(loop.body, [*[True] * m, *[False] * n], is_carried, None)
        inverted = site.invert(loop.body, [*[True] * m, *is_carried], [not k for k in is_carried])
        solved = {i - m for i in (*inverted.arguments, *undo.arguments)}
        missing = [i for i in range(n) if i not in solved]
        if missing:
            first = missing[0]
            # Values that are computed forwards must follow from such values alone.
            after = is_carried if first in carried else [True] * n
            before = [
                first not in carried and k and i not in missing for i, k in enumerate(is_carried)
            ]
            raise NotInvertible(
                f"carried value {first} before a step does not follow from the carry after it",
                site.why_function(loop.body, [*[True] * m, *before], after, m + first),
            )
        function = rules.program.function(inverted.symbol)
        log_det = [_zero(site)] if inverted.log_det else []
        types = [length.type, *(v.type for v in carry), *(v.type for v in log_det)]
        cond = NewFunction(rules, f"{loop.body}.steps_left", types, function)
        with cond.body(), function.location:
            truth = build("gt", [cond.args[0], filled(length.type, 0)], scalar_type(bool))
        cond.finish([truth])
        body_types = [*(v.type for v in consts), *types]
        body = NewFunction(rules, f"{loop.body}.backwards", body_types, function)
        with body.body(), function.location:
            fixed, (steps, *state) = split(body.args, m)
            before: dict[int, ir.Value] = {}
            if carried:
                after = [state[i] for i in carried]
                outs = inline(rules.program.function(undo.symbol), [*after, *fixed])
                before = {i: outs[undo.arguments.index(m + i)] for i in carried}
            after = [state[i] for i in range(n) if i not in carried]
            args = [*after, *fixed, *(before[i] for i in carried)]
            outs = inline(function, args)
            before |= {i - m: v for i, v in zip(inverted.arguments, outs, strict=False)}
            results = [before[i] for i in range(n)]
            if inverted.log_det:
                results.append(build("add", [state[-1], outs[-1]], outs[-1].type))
            left = _add(steps, -1)
        body.finish([left, *results])
        values = [*map(site.whole, consts), length, *map(site.whole, site.results), *log_det]
        _, *outs = WhileOp(cond.name, body.name, 0, m, {}).write(rules, values)
        site.answer(carry, outs[: len(carry)], outs[-1] if inverted.log_det else None)


def _add(counter: ir.Value, by: int) -> ir.Value:
    return build("add", [counter, filled(counter.type, by)], counter.type)
