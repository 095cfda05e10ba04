"""Writing the function that solves another for its unknown arguments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import copy, drop_dead_ops, returned
from jaxmlir.dialect.ir import func, ir
from jaxmlir.errors import Diagnostic, TransformError
from jaxmlir.transforms.inverses import calls
from jaxmlir.transforms.inverses.movement import Movement
from jaxmlir.transforms.inverses.rule import rule_of
from jaxmlir.transforms.inverses.solver import Inverted, Site, Solver
from jaxmlir.transforms.new_function import NewFunction

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def invert(
    rules: Rules,
    symbol: str,
    arguments: Sequence[bool],
    results: Sequence[bool],
    log_det: Any | None,
    required: Sequence[int] = (),
) -> Inverted:
    """Writes ``@symbol.inverse``, which finds as much as follows from what is known.

    Args:
      arguments, results: which are known.
      log_det: the dtype of the log-determinant; ``None`` where none is asked for.
      required: unknown arguments that have to be found.

    Raises:
      TransformError: a required argument does not follow; names the op and the user's line.
    """
    function = rules.program.function(symbol)
    expanded: list[func.FuncOp] = []
    # One name for all attempts: only the last is kept.
    name = rules.importer.unique_symbol(f"{symbol}.inverse")
    try:
        while True:
            attempt = _Attempt(rules, symbol, name, function, arguments, results, log_det)
            missing = [i for i in attempt.unknown if attempt.found[i] is None]
            if not missing:
                break
            opaque = [site for site in attempt.solver.sites if calls.can_expand(site)]
            if not opaque:
                break
            attempt.erase()
            # What is known in part only does not pass through such an op: look inside.
            function = _expand(rules, function, opaque)
            expanded.append(function)
        for i in required:
            if attempt.found[i] is None:
                error = attempt.explain(i)
                attempt.erase()
                raise error
        return attempt.finish()
    finally:
        for temporary in expanded:
            temporary.operation.erase()


class _Attempt:
    """One run of the solver, and the function it writes."""

    def __init__(
        self,
        rules: Rules,
        symbol: str,
        name: str,
        function: func.FuncOp,
        arguments: Sequence[bool],
        results: Sequence[bool],
        log_det: Any | None,
    ):
        self.function = function
        self.symbol = symbol
        self.arguments = list(function.arguments)
        self.returned = returned(function)
        self.unknown = [i for i, known in enumerate(arguments) if not known]
        self.missing_results = [i for i, known in enumerate(results) if not known]
        given = [v for v, known in zip(self.returned, results, strict=True) if known]
        given += [v for v, known in zip(self.arguments, arguments, strict=True) if known]
        self.new = NewFunction(rules, name, [v.type for v in given], function, reserved=True)
        self.solver = Solver(rules, function, log_det, rule_of, invert)
        with self.new.body(), function.location:
            # Arguments first: a result that is one says nothing about it.
            for value, arg in reversed(list(zip(given, self.new.args, strict=True))):
                self.solver.tell(value, arg)
            self.solver.run()
            self.found = {i: self.solver.whole(self.arguments[i]) for i in self.unknown}

    def erase(self) -> None:
        self.new.op.operation.erase()

    def finish(self) -> Inverted:
        """Returns what was found, and removes what was computed in vain."""
        arguments = tuple(i for i in self.unknown if self.found[i] is not None)
        outs = [self.found[i] for i in arguments]
        results = []
        with self.new.body(), self.function.location:
            for i in self.missing_results:
                value = self.solver.whole(self.returned[i])
                if value is not None:
                    results.append(i)
                    outs.append(value)
            terms, costs = self.solver.terms, self.solver.costs
            if terms or costs:
                outs.append(_difference(terms, costs))
        if not outs:
            self.erase()
            return Inverted("", (), (), False)
        symbol = self.new.finish(outs)
        drop_dead_ops(self.new.op)
        return Inverted(symbol, arguments, tuple(results), bool(terms or costs))

    def explain(self, missing: int) -> TransformError:
        """Why an argument was not found."""
        stuck = [site for site in self.solver.sites if self._is_stuck(site)]
        reached = _users(self.solver, self.arguments[missing])
        reached &= _makers(self.solver, self.returned)
        stuck = [site for site in stuck if site in reached] or stuck
        if stuck:
            return stuck[-1].error()
        what = f"it does not depend on argument {missing}"
        knowledge = self.solver.of(self.arguments[missing])
        if knowledge.pieces:
            count = f"{knowledge.known().sum()} of the {knowledge.size} elements"
            what = f"only {count} of argument {missing} follow from it"
        message = f"@{self.symbol} cannot be inverted: the result is known, but {what}"
        position = locations.position(self.function.location)
        return TransformError([Diagnostic("error", message, *position)])

    def _is_stuck(self, site: Site) -> bool:
        """Whether an op has something to give back that it does not."""
        if all(site.known(site.operands)):
            return False
        told = [self.solver.of(v) for v in site.results]
        return any(k.whole is not None or k.pieces or k.parts for k in told) and not (
            self._moves(site)
        )

    def _moves(self, site: Site) -> bool:
        """Whether the op gave back all that it had."""
        return isinstance(site.rule, Movement) and site.failure is None and bool(site.done)


def _users(solver: Solver, value: ir.Value) -> set[Site]:
    """The ops that depend on a value."""
    reached = {value}
    found = set()
    for site in solver.sites:
        if not reached.isdisjoint(site.operands):
            found.add(site)
            reached.update(site.results)
    return found


def _makers(solver: Solver, values: Sequence[ir.Value]) -> set[Site]:
    """The ops that values depend on."""
    needed = set(values)
    found = set()
    for site in reversed(solver.sites):
        if not needed.isdisjoint(site.results):
            found.add(site)
            needed.update(site.operands)
    return found


def _difference(terms: Sequence[ir.Value], costs: Sequence[ir.Value]) -> ir.Value:
    """The sum of some scalars, less that of others."""

    def write(name: str, *operands: ir.Value) -> ir.Value:
        types = [operands[0].type]
        return ir.Operation.create(f"jaxpr.{name}", types, list(operands)).result

    add = functools.partial(write, "add")
    if not costs:
        return functools.reduce(add, terms)
    cost = functools.reduce(add, costs)
    return write("sub", functools.reduce(add, terms), cost) if terms else write("neg", cost)


def _expand(rules: Rules, function: func.FuncOp, sites: Sequence[Site]) -> func.FuncOp:
    """The function with some of its ops replaced by what they do."""
    replaced = {site.op: site for site in sites}
    name = f"{function.name.value}.expanded"
    new = NewFunction(rules, name, list(function.type.inputs), function)
    values = dict(zip(function.arguments, new.args, strict=True))
    with new.body():
        for op, op_name, operands in ops_of(function):
            args = [values[v] for v in operands]
            if op in replaced:
                with op.location:
                    outs = calls.expand(replaced[op], args)
            else:
                outs = copy(op, op_name, args)
            values.update(zip(op.results, outs, strict=True))
        outs = [values[v] for v in returned(function)]
    new.finish(outs)
    return new.op
