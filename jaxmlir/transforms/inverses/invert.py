"""``jaxpr-inverse``: the function that solves another for its arguments.

Known values spread through the ops in both directions until the arguments are known: forwards from
known arguments and constants by the ops themselves, backwards from the results by the ops' inverse
rules.  ``y = exp(tanh(x))`` becomes ``x = atanh(log(y))``.  See :mod:`jaxmlir.transforms.inverses`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import (
    build,
    copy,
    drop_dead_ops,
    inline,
    reachable,
    returned,
    take_in,
    zeros,
)
from jaxmlir.dialect.ir import free_symbol, func, functions, ir
from jaxmlir.dialect.module import Module, at_function, named_arguments
from jaxmlir.dialect.types import scalar_type
from jaxmlir.errors import Diagnostic, JaxmlirError, TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.inverses import calls
from jaxmlir.transforms.inverses import newton as newton_method
from jaxmlir.transforms.inverses.movement import Movement
from jaxmlir.transforms.inverses.rule import rule_of
from jaxmlir.transforms.inverses.scans import CondInverse, ScanInverse
from jaxmlir.transforms.inverses.solver import InverseFunction, InversionProblem, Site, Solver
from jaxmlir.transforms.new_function import NewFunction, call
from jaxmlir.transforms.templates import Rules


def invert(
    rules: Rules, symbol: str, known: InversionProblem, required: Sequence[int] = ()
) -> InverseFunction:
    """Writes ``@symbol.inverse``, which finds all that follows from what is known; if this lacks a
    required argument, an error names the op and the user's line."""
    with _solved(rules, symbol, known, required) as attempt:
        return attempt.finish()


def forward(
    rules: Rules, symbol: str, known: InversionProblem, required: Sequence[int], only_log_det: bool
) -> str:
    """Writes the function with log|det d results / d unknown arguments| as its last result, or as
    its only one; arguments are as for :func:`invert`.

    The function is solved for its arguments, to see by which ops they are determined.  The values
    found are not computed again: they are values that the function computes on its way to the
    results.
    """
    suffix = "log_det" if only_log_det else "forward_and_log_det"
    with _solved(rules, symbol, known, required, suffix) as attempt:
        return attempt.finish_forward(only_log_det)


@contextmanager
def _solved(
    rules: Rules,
    symbol: str,
    known: InversionProblem,
    required: Sequence[int],
    suffix: str = "inverse",
) -> Iterator[_Attempt]:
    """Solves a function; the caller finishes the attempt, as its inverse or as ``suffix`` says."""
    function = rules.program.function(symbol)
    expanded: list[func.FuncOp] = []
    # All attempts have the same name: only the last one is kept.
    name = rules.importer.unique_symbol(f"{symbol}.{suffix}")
    computed = suffix != "inverse"
    try:
        while True:
            attempt = _Attempt(rules, symbol, name, function, known, computed)
            opaque = attempt.opaque()
            if not opaque:
                attempt.iterate()
                # An unknown may occur again inside a function that has a rule as a whole.
                opaque = attempt.opaque(with_rules=True) if known.newton else []
            if not opaque:
                break
            attempt.erase()
            # Values that are known in part do not pass through such an op: expand it.
            function = _expand(rules, function, opaque)
            expanded.append(function)
        for i in required:
            if attempt.found[i] is None:
                error = attempt.explain(i)
                attempt.erase()
                raise error
        yield attempt
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
        known: InversionProblem,
        computed: bool,
    ):
        self.rules = rules
        self.function = function
        self.symbol = symbol
        self.arguments = list(function.arguments)
        self.returned = returned(function)
        self.unknown = [i for i, is_known in enumerate(known.arguments) if not is_known]
        self.missing_results = [i for i, is_known in enumerate(known.results) if not is_known]
        inputs = chosen(self.returned, known.results) + chosen(self.arguments, known.arguments)
        taken = self.arguments if computed else inputs
        self.solver = Solver(rules, function, known, rule_of, invert)
        self.new = NewFunction(rules, name, [v.type for v in taken], function, reserved=True)
        with self.new.body(), function.location:
            values = dict(zip(taken, self.new.args, strict=True))
            if computed:
                _copy_ops(function, values, {})
                self.solver.computed = values
            # Arguments come first: a result that is an argument says nothing new about it.
            for value in reversed(inputs):
                self.solver.tell(value, values[value])
            self.solver.tell_empty()
            self._spread()

    def _spread(self) -> None:
        self.solver.run()
        self.found = {i: self.solver.whole(self.arguments[i]) for i in self.unknown}

    def is_solved(self) -> bool:
        return all(value is not None for value in self.found.values())

    def opaque(self, with_rules: bool = False) -> list[Site]:
        """The ops that may be expanded while an argument is still to be found."""
        if self.is_solved():
            return []
        return [site for site in self.solver.sites if calls.can_expand(site, with_rules)]

    def iterate(self) -> None:
        """Solves numerically what does not follow otherwise, one equation after the other."""
        if self.is_solved() or not self.solver.newton:
            return
        with self.new.body(), self.function.location:
            while not self.is_solved():
                equation = newton_method.equation_of(self.solver)
                if equation is None:
                    return
                newton_method.solve(self.solver, equation)
                self._spread()

    def erase(self) -> None:
        self.new.op.operation.erase()

    def finish(self) -> InverseFunction:
        """Returns what was found, and removes computations that are not needed."""
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
            return InverseFunction("", (), (), False)
        symbol = self.new.finish(outs)
        drop_dead_ops(self.new.op)
        return InverseFunction(symbol, arguments, tuple(results), bool(terms or costs))

    def finish_forward(self, only_log_det: bool) -> str:
        """Returns the log-determinant, after the results unless it alone is wanted."""
        solver = self.solver
        with self.new.body(), self.function.location:
            for site in solver.sites:
                if site.inverted is not None and site.term is not None:
                    solver.terms.remove(site.term)
                    solver.costs.append(self._log_det_of(site))
            if only_log_det:
                outs = []
            elif self.function.name.value == self.symbol:
                outs = [solver.computed[v] for v in self.returned]
            else:
                # The expanded calls have derivative rules of their own, which the original keeps.
                outs = take_in(self.rules.program.function(self.symbol), self.new.args)
            terms, costs = solver.terms, solver.costs
            if terms or costs:
                outs.append(_difference(costs, terms))
            else:
                outs.append(zeros(scalar_type(solver.log_det)))
        symbol = self.new.finish(outs)
        drop_dead_ops(self.new.op)
        return symbol

    def _log_det_of(self, site: Site) -> ir.Value:
        """The log-determinant of an op whose functions were inverted, from their arguments."""
        solver, rules = self.solver, self.rules
        known = InversionProblem(*site.inverted, solver.log_det, solver.newton)

        def forward_of(symbol: str, only_log_det: bool = False) -> str:
            return rules.functions.once(forward, symbol, known, (), only_log_det)

        with site.op.location:
            if isinstance(site.rule, (ScanInverse, CondInverse)):
                return site.rule.log_det(site, forward_of)
            symbol = forward_of(calls.callee(site), only_log_det=True)
            return call(rules, symbol, [solver.computed[v] for v in site.operands])[0]

    def explain(self, missing: int) -> TransformError:
        """The error that says why an argument was not found."""
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
        return locations.error_at(TransformError, self.function.location, message)

    def _is_stuck(self, site: Site) -> bool:
        """Whether something is known of an op's results that it does not give back."""
        if all(site.known(site.operands)):
            return False
        facts = [self.solver.of(v) for v in site.results]
        return any(k.whole is not None or k.pieces or k.parts for k in facts) and not (
            self._moves(site)
        )

    def _moves(self, site: Site) -> bool:
        """Whether the op moves elements, and gave back all that is known of them."""
        return isinstance(site.rule, Movement) and site.failure is None and bool(site.done)


def _users(solver: Solver, value: ir.Value) -> set[Site]:
    """The ops that depend on a value."""
    reached = {value}
    users = set()
    for site in solver.sites:
        if not reached.isdisjoint(site.operands):
            users.add(site)
            reached.update(site.results)
    return users


def _makers(solver: Solver, values: Sequence[ir.Value]) -> set[Site]:
    """The ops that values depend on."""
    needed = set(values)
    makers = set()
    for site in reversed(solver.sites):
        if not needed.isdisjoint(site.results):
            makers.add(site)
            needed.update(site.operands)
    return makers


def _difference(terms: Sequence[ir.Value], costs: Sequence[ir.Value]) -> ir.Value:
    """The sum of some scalars, minus the sum of others."""

    def total(values: Sequence[ir.Value]) -> ir.Value:
        return functools.reduce(lambda a, b: build("add", [a, b], a.type), values)

    if not costs:
        return total(terms)
    cost = total(costs)
    return (
        build("sub", [total(terms), cost], cost.type) if terms else build("neg", [cost], cost.type)
    )


def _expand(rules: Rules, function: func.FuncOp, sites: Sequence[Site]) -> func.FuncOp:
    """The function with some of its ops expanded."""
    name = f"{function.name.value}.expanded"
    new = NewFunction(rules, name, list(function.type.inputs), function)
    values = dict(zip(function.arguments, new.args, strict=True))
    with new.body():
        _copy_ops(function, values, {site.op: site for site in sites})
        outs = [values[v] for v in returned(function)]
    new.finish(outs)
    return new.op


def _copy_ops(
    function: func.FuncOp, values: dict[ir.Value, ir.Value], expanded: Mapping[Any, Site]
) -> None:
    """Copies the ops of a function; ``values`` maps its arguments to their new values, and then all
    values.  The ops in ``expanded`` are expanded."""
    for op, op_name, operands in ops_of(function):
        args = [values[v] for v in operands]
        if op in expanded:
            with op.location:
                outs = calls.expand(expanded[op], args)
        else:
            outs = copy(op, op_name, args)
        values.update(zip(op.results, outs, strict=True))


class Inverse(Pass):
    """Add ``@f.inverse``: (*results, *known arguments) -> (*unknown arguments).

    Options:
      func: the function to invert; by default the public one.
      argnums: the flat arguments to find; by default all that are not in ``known``.
      known: the flat arguments that are given; by default all that are not in ``argnums``.
      log-det: also return, last, log|det| of the Jacobian of the unknown arguments with respect to
        the results.
      newton: solve numerically for an unknown that occurs more than once, assuming that the
        equation is strictly monotone in it.
    """

    name: ClassVar[str] = "jaxpr-inverse"
    func: str = ""
    argnums: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    log_det: bool = False
    newton: bool = False

    def run(self, program: Module) -> None:
        symbol = program.chosen(self.func)
        argnums, known = self.argnums, self.known
        count = len(named_arguments(program, symbol, (*argnums, *known)))
        both = [i for i in argnums if i in known]
        if both:
            raise at_function(
                program.function(symbol),
                f"argument {both[0]} of @{symbol} is both in argnums and in known",
            )
        if not known and argnums:
            known = tuple(i for i in range(count) if i not in argnums)
        unknowns = argnums or tuple(i for i in range(count) if i not in known)
        inverse(Rules(program), symbol, unknowns, known, self.log_det, self.newton)


def inverse(
    rules: Rules,
    symbol: str,
    argnums: tuple[int, ...],
    known: tuple[int, ...],
    log_det: bool,
    newton: bool = False,
) -> str:
    """Writes ``@symbol.inverse``, which gives the arguments in the order of ``argnums``, and takes
    the results and the known arguments in the order of ``@symbol``.

    Raises:
      TransformError: an argument does not follow from the results and the known arguments, or
        there is no log-determinant; names the op and the user's line.
    """
    program = rules.program
    before = set(functions(program.module))
    question, required = _question(rules, symbol, known, log_det, newton)
    # The determinant is of a square matrix, so it needs all unknowns.
    required = required if log_det else argnums
    by_newton = question._replace(newton=True)
    with _hint(lambda: None if newton else invert(rules, symbol, by_newton, required)):
        inverted = invert(rules, symbol, question, required)
    name = inverted.symbol
    if not name or inverted.arguments != argnums or inverted.results or inverted.log_det != log_det:
        name = _completed(rules, symbol, inverted, argnums, known, question.log_det, before)
    _keep_only(program, before, name)
    return name


def forward_and_log_det(rules: Rules, symbol: str, known: tuple[int, ...], newton: bool) -> str:
    """Writes ``@symbol.forward_and_log_det``: the function, which also gives log|det| of its
    derivative in the unknown arguments, last.  Errors are as for :func:`inverse`."""
    before = set(functions(rules.program.module))
    question, required = _question(rules, symbol, known, True, newton)
    by_newton = question._replace(newton=True)
    with _hint(lambda: None if newton else forward(rules, symbol, by_newton, required, False)):
        name = forward(rules, symbol, question, required, False)
    _keep_only(rules.program, before, name)
    return name


@contextlib.contextmanager
def _hint(by_newton: Callable[[], object | None]) -> Iterator[None]:
    """Adds a hint to the error that a function cannot be inverted.  ``by_newton`` inverts it with
    ``newton=True``; it gives ``None`` where that has been tried."""
    try:
        yield
    except TransformError as e:
        hint = "jaxmlir.custom_inverse gives a function that contains the op its own inverse"
        with contextlib.suppress(JaxmlirError):
            if by_newton() is not None:
                hint += "; newton=True solves numerically for an unknown that occurs more than once"
        first, *rest = e.diagnostics
        first = first._replace(notes=(*first.notes, Diagnostic("note", hint)))
        raise TransformError([first, *rest]).with_traceback(e.__traceback__) from e.__cause__


def _question(
    rules: Rules, symbol: str, known: tuple[int, ...], log_det: bool, newton: bool
) -> tuple[InversionProblem, tuple[int, ...]]:
    """The inversion problem of a function whose results are known, and its unknown arguments."""
    signature = call_signature(rules.program, symbol)
    operands, results = signature.operands, signature.results
    unknown = tuple(i for i in range(len(operands)) if i not in known)
    dtype = None
    if log_det:
        avals = [operands[i] for i in unknown]
        dtype = _log_det_dtype(rules.program.function(symbol), avals, results)
    arguments = tuple(i in known for i in range(len(operands)))
    return InversionProblem(arguments, (True,) * len(results), dtype, newton), unknown


def _keep_only(program: Module, before: Container[str], name: str) -> None:
    """Erases the functions written since ``before``, except one and those that it calls."""
    program.changed()
    reached = reachable(functions(program.module), name)
    for unused in functions(program.module).keys() - reached:
        if unused not in before:
            program.function(unused).operation.erase()


def _completed(
    rules: Rules,
    symbol: str,
    inverted: InverseFunction,
    argnums: tuple[int, ...],
    known: tuple[int, ...],
    dtype: Any | None,
    before: Container[str],
) -> str:
    """The inverse that gives the arguments asked for, and zero as a missing log-determinant."""
    original = rules.program.function(symbol)
    types = [*original.type.results, *(original.type.inputs[i] for i in sorted(known))]
    new = NewFunction(rules, f"{symbol}.inverse", types, original)
    with new.body(), original.location:
        outs = inline(rules.program.function(inverted.symbol), new.args) if inverted.symbol else []
        results = [outs[inverted.arguments.index(i)] for i in argnums]
        if dtype is not None:
            results.append(outs[-1] if inverted.log_det else zeros(scalar_type(dtype)))
    new.finish(results)
    if inverted.symbol:
        rules.program.function(inverted.symbol).operation.erase()
    # The name that the inverse has, or would have had.
    name = inverted.symbol or free_symbol(f"{symbol}.inverse", before)
    new.op.attributes["sym_name"] = ir.StringAttr.get(name)
    drop_dead_ops(new.op)
    return name


def _log_det_dtype(function: func.FuncOp, operands: Any, results: Any) -> np.dtype:
    """The real dtype of the results; both sides have to hold equally many real numbers."""

    def inexact(avals: Any) -> list[Any]:
        return [a for a in avals if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jnp.inexact)]

    def numbers(avals: Any) -> int:
        return sum(a.size * (1 + jnp.issubdtype(a.dtype, jnp.complexfloating)) for a in avals)

    ins, outs = inexact(operands), inexact(results)
    if numbers(ins) != numbers(outs):
        raise at_function(
            function,
            f"@{function.name.value} has no log-determinant: its Jacobian is not square, as its "
            f"results hold {numbers(outs)} real numbers, but its unknown arguments {numbers(ins)}",
        )
    dtypes = [jnp.finfo(a.dtype).dtype for a in outs]
    return jnp.result_type(*dtypes) if dtypes else np.dtype(np.float32)
