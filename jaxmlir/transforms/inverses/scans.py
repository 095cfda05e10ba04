"""Inverses of ``scan``: the inverse of the body, run backwards or forwards in time.

A ``scan`` whose final carry is known runs backwards.  One whose initial carry is known, as that of
an autoregressive map, runs forwards and finds each slice from the carry so far.  What depends on
known values only, such as a counter, is computed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import inline
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.transforms.inverses.bodies import rearranged, some, symbol_of
from jaxmlir.transforms.inverses.rule import rule
from jaxmlir.transforms.inverses.solver import Inverted, NotInvertible, Site
from jaxmlir.transforms.new_function import NewFunction


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
class Scan:
    """Runs the inverse of the body, backwards or forwards in time."""

    late = True

    def forward(self, site: Site) -> None:
        """What follows from some of the operands is found by :meth:`learn`."""

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
            *some(loop.consts, consts),
            *(loop.init[i] for i in carried),
            *some(loop.xs, xs),
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
        inverted = site.invert(symbol_of(site, "jaxpr"), args, [*[False] * n, *ys])
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
        operands = [*loop.consts, *loop.init, *some(loop.xs, xs), *some(loop.ys, ys)]
        values = [site.whole(v) for v in operands]
        targets = [*loop.final, *(site.operands[i] for i in inverted.arguments)]
        targets += [site.results[i] for i in new_ys]
        self._run(site, function, inverted, targets, len(loop.consts), n, values, False)
        return True

    def _backwards(self, site: Site, loop: _Loop, carried: Sequence[int]) -> None:
        """Finds the carry before each step, and slices, from the carry after it."""
        n, n_consts = len(loop.init), len(loop.consts)
        rest = [i for i in range(n) if i not in carried]
        xs, ys = site.given(loop.xs), site.given(loop.ys)
        args = [*[True] * n_consts, *(i in carried for i in range(n)), *xs]
        inverted = site.invert(
            symbol_of(site, "jaxpr"), args, [*(i in rest for i in range(n)), *ys]
        )
        missing = [i for i in rest if n_consts + i not in inverted.arguments]
        if missing:
            if all(site.known(site.results)):
                body, results = symbol_of(site, "jaxpr"), [*(i in rest for i in range(n)), *ys]
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
        values += [site.whole(v) for v in (*some(loop.xs, xs), *some(loop.ys, ys))]
        targets = [loop.init[i] for i in rest] + [site.operands[i] for i in slices]
        targets += [site.results[i] for i in new_ys]
        self._run(site, function, inverted, targets, n_consts, len(rest), values, True)

    def _history(self, site: Site, loop: _Loop, carried: Sequence[int]) -> list[ir.Value]:
        """Of the carried values that are computed forwards: what each was before every step."""
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
        operands += some(loop.xs, site.given(loop.xs))
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
        term = None
        if inverted.log_det:
            (term,) = site.emit("sum", lambda x: [jnp.sum(x)], outs[-1:])
        site.answer(targets, outs[: len(targets)], term)

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
