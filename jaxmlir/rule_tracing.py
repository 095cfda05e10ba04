"""Who traces the custom derivative rules of a program, and when.

What waits to be traced is :mod:`jaxmlir.untraced`.  The rules of an imported program are traced
when its module, or a side table, is first looked at: calling and lowering do without, and so do the
passes that ``jit`` runs.
Differentiating it traces those of its own ops; those of the ops in these rules are traced when the
derivative is differentiated or looked at.  Batching it traces none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jaxmlir.importer import Importer
from jaxmlir.ir import func, functions, scope
from jaxmlir.passes._build import reachable
from jaxmlir.passes.dedupe_functions import merge_functions

if TYPE_CHECKING:
    from jaxmlir.program import Program
    from jaxmlir.untraced import Pending, Untraced


class RuleTracing:
    """Traces the rules of one program.

    Args:
      table: the rules that are still to be traced, if there are any.
      importer: what wrote the module, if it is there still.

    Attributes:
      held: leave rules untraced, whoever looks: a transformation is under way.
      lock: held while the module changes.
    """

    def __init__(
        self, program: Program, table: Untraced | None = None, importer: Importer | None = None
    ):
        self.program = program
        self.table = table
        self.held = False
        self.lock = threading.RLock()
        self._importer = importer
        self._under_way = False
        self._pending: Pending | None = None

    def forget(self) -> None:
        """Takes the rules of the module, which is another one now, for traced."""
        self.table = self._importer = None

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Leaves rules untraced meanwhile, for passes that change and compare ops.

        Ops whose rules are equal are marked alike, as they would name the same functions.
        """
        self.held = True
        # It remembers ops, which passes may erase.
        self._importer = None
        if self.table is not None:
            with scope():
                self.table.unify(functions(self.program.module_as_is).values())
        try:
            yield
        finally:
            self.held = False

    def looked_at(self) -> None:
        """Traces the rules of ops for somebody who may look for them."""
        if not self.held:
            self.trace()

    def trace(self, *, met: bool = False, of: Any = None) -> None:
        """Traces rules: see :meth:`Program.trace_rules`."""
        if self.table is None:
            return
        with self.lock:
            # A rule that looks at the program it belongs to sees it as far as it is.
            if self._under_way:
                if of is not None:
                    self._pending.trace_op(of)
                return
            self._under_way = True
            try:
                with scope():
                    self._trace(met, of)
            finally:
                self._under_way = False
                self.program.reread()

    def _trace(self, met: bool, of: Any) -> None:
        before = functions(self.program.module_as_is)
        if self._importer is not None:
            self._pending = self._importer.pending
        else:
            self._pending = Importer.into(self.program).pending
            self._pending.resume(before.values(), self.table)
        if of is not None:
            self._pending.trace_op(of)
        else:
            name = self.program.name
            self._pending.trace(reachable(before, name, custom_rules=False) if met else None)
        if self._importer is None and not self.held:
            self._tidy(before)
        if not self._pending:
            self.forget()

    def _tidy(self, before: Mapping[str, func.FuncOp]) -> None:
        """Drops functions that traced rules have brought and that the program has already, or that
        served to make others.

        While a transformation goes on some functions are half written; it tidies up in the end.
        """
        after = functions(self.program.module_as_is)
        merge_functions(after, after.keys() - before.keys())
        self.program.reread()
        after = functions(self.program.module_as_is)
        reached = reachable(after, self.program.name)
        for name in after.keys() - before.keys() - reached:
            after[name].operation.erase()
