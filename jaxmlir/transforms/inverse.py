"""``jaxpr-inverse``: the function that solves another for its arguments.

Known values spread through the ops in both directions until the arguments are known: forwards from
known arguments and constants by the ops themselves, backwards from the results by the ops' inverse
rules.  ``y = exp(tanh(x))`` becomes ``x = atanh(log(y))``.  See :mod:`jaxmlir.transforms.inverses`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.dialect.builder import drop_dead_ops, inline, reachable, zeros
from jaxmlir.dialect.ir import free_symbol, func, functions, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import scalar_type
from jaxmlir.errors import Diagnostic, JaxmlirError, TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.passes.options import at_function, named_arguments
from jaxmlir.transforms.inverses.invert import forward, invert
from jaxmlir.transforms.inverses.solver import InverseFunction, InversionProblem
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


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
    derivative in the unknown arguments, last.

    Raises:
      TransformError: as for :func:`inverse`.
    """
    before = set(functions(rules.program.module))
    question, required = _question(rules, symbol, known, True, newton)
    by_newton = question._replace(newton=True)
    with _hint(lambda: None if newton else forward(rules, symbol, by_newton, required, False)):
        name = forward(rules, symbol, question, required, False)
    _keep_only(rules.program, before, name)
    return name


@contextlib.contextmanager
def _hint(by_newton: Callable[[], object | None]) -> Iterator[None]:
    """Adds a hint to the error that a function cannot be inverted: what can be done about it.

    Args:
      by_newton: inverts it with ``newton=True``; gives ``None`` where that has been tried.
    """
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
