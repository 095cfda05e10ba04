"""Who traces the custom derivative rules of a program, and when.

What waits to be traced is :mod:`jaxmlir.bridge.custom_rules.pending`.  The rules of an imported
program are traced when its module, or a side table, is first looked at: calling and lowering do
without, and so do the passes of ``optimize`` and ``jit``.
Differentiating it traces those of its own ops that have tangents; those of the ops in these rules
are traced when the derivative is differentiated or looked at.  Batching it traces none, but JVP
rules by which more may have to be batched.  A rule that is told which tangents are zero is traced
for those that a derivative meets.

Whoever looks at what was derived from a program whose rules wait gets it as it is derived from the
program with its rules (:mod:`jaxmlir.program.derived`): no text depends on what was read before.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from jaxmlir._compat import ConfigSnapshot
from jaxmlir.bridge.custom_rules.pending import PendingRules, RuleSource, UntracedRules
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect.builder import put_in_order
from jaxmlir.dialect.custom_rule_ops import MARK, is_choosy, is_untraced, marked_ops
from jaxmlir.dialect.ir import func, functions, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.rewriting.dedupe import merge_functions
from jaxmlir.support.masks import Mask


class RuleTracing:
    """Traces the rules of one program.

    Args:
      table: what the marks of ops mean, if there are any.
      importer: what wrote the module, if it is there still.

    Attributes:
      waiting: whether rules may still be to be traced.
      marked: whether ops may have marks, of this table or of one that was forgotten.
      held: leave rules untraced, whoever looks: a transformation is under way.
      lock: held while the module changes.
    """

    def __init__(
        self, program: Module, table: UntracedRules | None = None, importer: Importer | None = None
    ):
        self.program = program
        self.table: UntracedRules | None = table
        self.waiting: bool = table is not None
        self.marked: bool = self.waiting
        self.held: bool = False
        self.lock: threading.RLock = threading.RLock()
        self._importer = importer
        self._under_way = False
        self._pending: PendingRules | None = None
        self._read_as: Callable[[], Module | None] | None = None

    @property
    def is_read(self) -> bool:
        """Whether the program is what whoever looks at it sees."""
        return not (self.waiting or self.reads_as_another)

    @property
    def reads_as_another(self) -> bool:
        """Whether the program is derived again before somebody looks at it."""
        return self._read_as is not None

    def read_as(self, make: Callable[[], Module | None]) -> None:
        """Has the program become another that computes the same when somebody looks at it.

        Args:
          make: gives that program, or ``None`` if this one is to stay as it is.
        """
        self._read_as = make

    def forget(self) -> None:
        """Takes the rules of the module, which is another one now, for traced."""
        self.table = self._importer = self._read_as = None
        self.waiting = False

    def of_clone(self, program: Module, held: bool) -> RuleTracing:
        """The rule tracing of a copy of the program."""
        result = RuleTracing(program, self.table)
        result.waiting, result.marked, result.held = self.waiting, self.marked, held
        return result

    def sources(self, functions: Iterable[func.FuncOp]) -> dict[int, RuleSource]:
        """What the marks of the ops in some functions mean."""
        sources = {}
        for op in marked_ops(functions) if self.table is not None else ():
            source = self.table.of(op)
            if source is not None:
                sources[op.attributes[MARK].value] = source
        return sources

    def take_up(
        self, sources: Mapping[int, RuleSource], config: ConfigSnapshot | None = None
    ) -> None:
        """Makes room for ops of another program: the rules that they lack may be asked for."""
        if sources:
            if self.table is None:
                self.table = UntracedRules(config)
            self.table.take_up(sources)
            self.waiting = self.marked = True

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
        if self.held:
            return
        if self.reads_as_another:
            self._become_as_read()
        self.trace()

    def _become_as_read(self) -> None:
        with self.lock:
            # Another thread may have done it meanwhile; and a rule that looks at the program it
            # belongs to sees it as far as it is.
            if self._read_as is None or self._under_way:
                return
            self._under_way = True
            try:
                other = self._read_as()
                if other is not None:
                    other.rule_tracing.looked_at()
                    self.program.become(other)
                    self.table, self._importer = other.rule_tracing.table, None
                    self.marked, self.waiting = other.rule_tracing.marked, False
                self._read_as = None
            finally:
                self._under_way = False

    def trace(self, *, within: Collection[str] | None = None, of: Any = None) -> None:
        """Traces rules: see :meth:`Program.trace_rules`."""
        if not self._is_due(of):
            return
        with self.lock:
            # Another thread may have done it meanwhile, and reads the module already.
            if not self._is_due(of):
                return
            # A rule that looks at the program it belongs to sees it as far as it is.
            if self._under_way:
                if of is not None:
                    self._pending.trace_op(of)
                return
            with self._resumed(every=of is None):
                tidies = self._importer is None and not self.held
                before = functions(self.program.module_as_is) if tidies else {}
                if of is not None:
                    self._pending.trace_op(of)
                else:
                    self._pending.trace(within)
                if tidies:
                    self._tidy(before)
                if of is None and not self._pending:
                    self.waiting, self._importer = False, None

    def _is_due(self, of: Any) -> bool:
        """Whether rules, or that of an op, are still to be traced."""
        return self.waiting and (of is None or is_untraced(of))

    def tell(self, op: Any, zeros: Mask) -> dict[str, ir.Attribute]:
        """The rule of an op that is told which tangents are zero, or of a custom_lin which
        cotangents: the attribute that names it, or says why there is none.

        Empty for an op whose rule is not told, or that was read and knows of no more rules.
        """
        return self._asked(lambda pending: pending.tell(op, zeros)) if self.can_tell(op) else {}

    def forward_alone(self, op: Any) -> dict[str, ir.Attribute]:
        """The attribute that names the forward rule of a custom_vjp call, traced without the
        backward rule, if it can be: the op lacks its rules afterwards as before.

        Empty for an op that has its rules, or whose forward rule is made with the backward rule.
        """
        if not (self._is_due(op) and self.table is not None and self.table.of(op) is not None):
            return {}
        return self._asked(lambda pending: pending.forward_alone(op))

    def _asked(
        self, ask: Callable[[PendingRules], dict[str, ir.Attribute]]
    ) -> dict[str, ir.Attribute]:
        """What is traced for somebody who asks for one rule."""
        with self.lock:
            # Its own ops may have rules, which wait.
            self.waiting: bool = True
            if self._under_way:
                attributes = ask(self._pending)
                self.program.reread()
                return attributes
            with self._resumed(every=False):
                return ask(self._pending)

    def can_tell(self, op: Any) -> bool:
        """Whether the rules of an op can be told what is zero."""
        return self.table is not None and is_choosy(op) and self.table.of(op) is not None

    @contextlib.contextmanager
    def _resumed(self, *, every: bool) -> Iterator[None]:
        """The ops that lack rules are in ``_pending`` meanwhile.

        Args:
          every: or else none: somebody asks for the rules of one op.
        """
        self._under_way = True
        try:
            with scope():
                if self._importer is not None:
                    self._pending = self._importer.pending
                else:
                    self._pending = Importer.into(self.program).pending
                    to_resume = functions(self.program.module_as_is).values() if every else ()
                    self._pending.resume(to_resume, self.table)
                yield
        finally:
            self._under_way = False
            self.program.reread()

    def _tidy(self, before: Mapping[str, func.FuncOp]) -> None:
        """Drops functions that traced rules have brought and that the program has already, or that
        served to make others, and puts the rest in their places.

        While a transformation goes on some functions are half written; it tidies up in the end.
        """
        after = functions(self.program.module_as_is)
        merge_functions(after, after.keys() - before.keys())
        self.program.reread()
        after = functions(self.program.module_as_is)
        reached = put_in_order(after, self.program.name)
        for name in after.keys() - before.keys() - reached.keys():
            after[name].operation.erase()
