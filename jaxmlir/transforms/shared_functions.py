"""A function that many programs call, with what it was transformed to.

It is a program of its own, in which the passes work as in any other.  What other programs copy are
the *leaves*: functions as they were when they were first asked for, equal ones made one, under
short names.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from jaxmlir.dialect.builder import ops_with_symbols, reachable
from jaxmlir.dialect.custom_rule_ops import OPS
from jaxmlir.dialect.ir import clone_module, free_symbol, func, ir, scope
from jaxmlir.rewriting.dedupe import (
    ExportedFunction,
    equal_functions,
    outline_of,
    rename_uses,
    shape_of,
    short_name,
)
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir._compat import ConfigSnapshot
    from jaxmlir.dialect.module import Module


class Unavailable(BaseException):
    """A program needs more of a function than the library has: it is to do without.

    Not an ``Exception``: those that rules raise are caught, and told with the op.
    """


def has_custom_rules(program: Module, symbol: str) -> bool:
    """Whether a function reaches ops that have custom rules, traced or not."""
    known = program._functions
    return any(
        name in OPS
        for reached in reachable(known, symbol)
        for _, name in ops_with_symbols(known[reached])
    )


class SharedFunctions:
    """A function with all that it reaches, and its derivatives.

    Attributes:
      symbol: the function in its program.
      config: under which its rules are, or are to be, traced; ``None`` if it has no custom rules.
    """

    def __init__(
        self,
        program: Module,
        symbol: str,
        reverse: bool,
        rules_wait: bool,
        custom: bool,
        forget: Callable[[SharedFunctions], None],
    ):
        """
        Args:
          program: has the function ``@symbol``, and is only read.
          reverse: what is linearized is to be transposed.
          rules_wait: custom rules are left untraced.
          custom: some ops that it reaches have custom rules, traced or not.
          forget: takes the volume out of the library.
        """
        known = program._functions
        within = reachable(known, symbol)
        tracing = program.rule_tracing
        sources = tracing.sources(known[name] for name in within)
        own = type(program)(clone_module(program.module_as_is, within))
        own._functions[symbol].attributes["sym_visibility"] = ir.StringAttr.get("public")
        self.symbol = symbol
        self.config: ConfigSnapshot | None = tracing.table.config if custom else None
        if sources:
            own.rule_tracing.take_up(sources, self.config)
            if not rules_wait:
                own.trace_rules(within=reachable(own._functions, symbol, custom_rules=False))
        own.rule_tracing.held = True
        self._program = own
        self._rules = Rules(own, reverse=reverse)
        # By symbol, those of equal functions alike; and the short names of the first of these.
        self._leaves: dict[str, ExportedFunction] = {}
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._forget = forget

    def derived(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """``transform(rules, symbol, *pattern)`` in the volume's program, made once.

        Raises:
          Unavailable: it cannot be, or refers to what only one program can have.
        """
        with self._alone(), scope():
            try:
                found = self._rules.functions.derived(transform, symbol, *pattern)
            except BaseException as e:
                # What is half written is of no use to anybody.
                self._forget(self)
                # The error is to tell of the program at hand.
                raise (Unavailable() if isinstance(e, Exception) else e) from None
            if self._program.constants or self._program.handles:
                self._forget(self)
                raise Unavailable
            return found

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Has other threads do without the volume meanwhile.

        Were they to wait, it could be for who waits for them, to trace a rule.
        """
        if not self._lock.acquire(blocking=False):
            raise Unavailable
        try:
            yield
        finally:
            self._lock.release()

    def function(self, symbol: str) -> func.FuncOp:
        """A function of the volume, to read."""
        return self._program.function(symbol)

    def leaf(self, symbol: str) -> ExportedFunction:
        """A function of the volume, to copy."""
        if symbol not in self._leaves:
            with self._alone():
                self._write_leaves(symbol)
        return self._leaves[symbol]

    def _write_leaves(self, symbol: str) -> None:
        """Of all that a function reaches; equal functions have one.

        Rules that are traced later are not in it.
        """
        own = self._program
        own.reread()
        known, first = own.functions, equal_functions(own.functions)
        within = reachable(known, symbol)
        reached = [name for name in known if name in within]
        for name in reached:
            if first[name] not in self._names:
                taken = self._names.values()
                self._names[first[name]] = free_symbol(short_name(first[name]), taken)
        names = {n: self._names[kept] for n, kept in first.items() if kept in self._names}
        for name in reached:
            kept = first[name]
            if kept not in self._leaves:
                shape, uses = shape_of(known[kept])
                function = known[kept].operation.clone(ip=False).opview
                rename_uses(function, names)
                function.attributes["sym_name"] = ir.StringAttr.get(names[kept])
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
                self._leaves[kept] = ExportedFunction(
                    function,
                    names[kept],
                    outline_of(function),
                    tuple([first[use] for use in uses]),
                    own.rule_tracing.sources([function]),
                    shape,
                    set(),
                )
            self._leaves[name] = self._leaves[kept]
