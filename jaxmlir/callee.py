"""A function of a program, as the parameter of equations that call it.

It is transformed by the passes once per pattern, and cut down to what some of its results need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir._lists import chosen
from jaxmlir.ir import context, scope
from jaxmlir.lowering import lower_function
from jaxmlir.passes._liveness import Liveness, Variant
from jaxmlir.passes.dce import prune

if TYPE_CHECKING:
    from jaxmlir.program import Program


class Callee:
    """One function of one program; equal to itself only."""

    __slots__ = ("__weakref__", "_derived", "program", "symbol")

    def __init__(self, program: Program, symbol: str):
        self.program = program
        self.symbol = symbol
        self._derived: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"@{self.symbol}"

    def derived(self, transformation: str, pattern: Any) -> Any:
        """The function transformed, made once per pattern (see :func:`derive`)."""
        key = (transformation, pattern)
        if key not in self._derived:
            self._derived[key] = derive(self.program, self.symbol, transformation, pattern)
        return self._derived[key]

    @property
    def body(self) -> Program:
        """The program that is lowered; its custom rules need not be traced."""
        return self.program

    @property
    def signature(self) -> Any:
        """What the function takes and gives."""
        return self.body.signature(self.symbol)

    @property
    def closed_jaxpr(self) -> Any:
        return self.program.exporter.jaxpr(self.symbol)

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        """Emits the function's body; see :func:`jaxmlir.lowering.lower_function`."""
        return lower_function(ctx, self.body, self.symbol, args)

    def pruned(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        """The arguments that those results need, and a callee that takes and gives only these.

        ``None`` where nothing would be dropped from the function and those that it calls.
        """
        key = ("prune", results)
        if key not in self._derived:
            with context():
                self._derived[key] = self._prune(results)
        return self._derived[key]

    def _prune(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        liveness = Liveness(self.body._functions, custom_rules=False)
        arguments = liveness.arguments(self.symbol, results)
        entry = Variant(self.symbol, results, arguments)
        inside = [v for v in liveness.needed([entry]) if v != entry and liveness.drops(v)]
        if not inside and not liveness.drops(entry):
            return None
        if liveness.met_custom_rules:
            # What only a custom rule may need is an argument all the same: the variant can be
            # differentiated.
            needed = liveness.with_custom_rules().arguments(self.symbol, results)
            entry = entry._replace(arguments=needed)
        dead = None if inside else frozenset(liveness.of(self.symbol, results).dead)
        return entry.arguments, _Pruned(self, entry, dead)


class _Pruned(Callee):
    """A variant of a function.

    Where only ops of the function itself are ``dead``, lowering leaves these out; otherwise, and to
    transform it, it is the function of a program that is cut down to it.
    """

    __slots__ = ("_body", "_entry", "_program", "_whole", "dead")

    def __init__(self, whole: Callee, entry: Variant, dead: frozenset[int] | None):
        self._whole, self._entry, self.dead = whole, entry, dead
        self._body: Program | None = None
        self._program: Program | None = None
        self.symbol = whole.symbol
        self._derived = {}

    @property
    def body(self) -> Program:
        if self.dead is not None:
            return self._whole.body
        if self._body is None:
            self._body = self._whole.body.clone(trace_rules=False)
            prune(self._body, self._entry, custom_rules=False)
        return self._body

    @property
    def signature(self) -> Any:
        if self.dead is None:
            return super().signature
        whole = self._whole.signature
        return dataclasses.replace(
            whole,
            operands=tuple(chosen(whole.operands, self._entry.arguments)),
            results=tuple(chosen(whole.results, self._entry.results)),
        )

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = self._whole.program.clone()
            prune(self._program, self._entry)
        return self._program

    def pruned(self, results: tuple[bool, ...]) -> tuple[tuple[bool, ...], Callee] | None:
        if self.dead is None:
            return super().pruned(results)
        if all(results):
            return None
        left = iter(results)
        found = self._whole.pruned(tuple(kept and next(left) for kept in self._entry.results))
        if found is None:
            return None
        arguments, callee = found
        return tuple(chosen(arguments, self._entry.arguments)), callee

    def lower(self, ctx: Any, args: Sequence[Any]) -> tuple[list[Any], Any]:
        if self.dead is None:
            return super().lower(ctx, args)
        given = iter(args)
        every = [next(given) if kept else None for kept in self._entry.arguments]
        results, tokens = lower_function(ctx, self.body, self.symbol, every, self.dead)
        return chosen(results, self._entry.results), tokens


def derive(program: Program, symbol: str, transformation: str, pattern: Any) -> Any:
    """A copy of the program with the transformed function in it, and what the pass says of it."""
    from jaxmlir.passes._rules import Rules
    from jaxmlir.passes.higher_order._residuals import partial_eval_call
    from jaxmlir.passes.jvp import jvp
    from jaxmlir.passes.linearize import linearize
    from jaxmlir.passes.transpose import transpose_nonzero
    from jaxmlir.passes.vmap import vmap

    result = program.clone()
    with scope():
        rules = Rules(result)
        if transformation == "jvp":
            found = jvp(rules, symbol, pattern)
        elif transformation == "linearize":
            found = linearize(rules, symbol, pattern)
        elif transformation == "partial_eval":
            found = partial_eval_call(rules, symbol, pattern)
        elif transformation == "transpose":
            linear, nonzero = pattern
            found = transpose_nonzero(rules, symbol, linear, f"{symbol}.transpose", nonzero)
        else:
            axis, dims = pattern
            found = vmap(rules, symbol, dims, axis)
    result.changed()
    return result, found
