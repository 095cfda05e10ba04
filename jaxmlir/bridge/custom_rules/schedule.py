"""Decides when the custom derivative rules of a program are traced.

:mod:`jaxmlir.bridge.custom_rules.pending` holds the rules that wait to be traced.  The rules of an
imported program are traced when its module, or a side table, is first looked at.  Calling and
lowering need no rules, nor do the passes of ``optimize`` and ``jit``.  Differentiating a program
traces the rules of those of its own ops that have tangents; the rules of ops in these rules are
traced when the derivative is differentiated or looked at.  Batching traces only JVP rules that may
require more values to be batched.  A rule that is told which tangents are zero is traced for the
zeros that a derivative meets.

If a program was derived from one with untraced rules, looking at it derives it again from the
program with traced rules (:mod:`jaxmlir.program.derived`), so its text does not depend on what was
looked at before.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from jaxmlir.bridge.custom_rules.pending import (
    Attributes,
    NamedRules,
    PendingRules,
    RuleSource,
    UntracedRules,
)
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect.builder import put_in_order
from jaxmlir.dialect.custom_rule_ops import is_choosy, is_untraced
from jaxmlir.dialect.ir import func, functions, scope
from jaxmlir.dialect.module import Module
from jaxmlir.rewriting.dedupe import merge_functions
from jaxmlir.support.masks import Mask


class RuleTracing:
    """Traces the rules of one program.

    Args:
      table: the rules that the marks of ops stand for, if there are marks.
      importer: the importer that wrote the module, if it still exists.

    Attributes:
      waiting: whether untraced rules may be left.
      marked: whether ops may have marks, of this table or of one that was dropped.
      held: leave rules untraced even if somebody looks: a transformation is under way.
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
        """Whether the program is already in the form that its readers see."""
        return not (self.waiting or self.reads_as_another)

    @property
    def reads_as_another(self) -> bool:
        """Whether the program is derived again before somebody looks at it."""
        return self._read_as is not None

    def read_as(self, make: Callable[[], Module | None]) -> None:
        """Replaces the program by an equivalent one as soon as somebody looks at it.  ``make``
        returns the other program, or ``None`` to keep this one."""
        self._read_as = make

    def forget(self) -> None:
        """Forgets untraced rules: the module was replaced, and the new one has its rules."""
        self.table = self._importer = self._read_as = None
        self.waiting = False

    def of_clone(self, program: Module, held: bool) -> RuleTracing:
        """The rule tracing of a copy of the program."""
        result = RuleTracing(program, self.table)
        result.waiting, result.marked, result.held = self.waiting, self.marked, held
        return result

    def take_up(self, sources: Mapping[int, RuleSource]) -> None:
        """Adds the untraced rules of ops that come from another program."""
        if sources:
            if self.table is None:
                self.table = UntracedRules()
            self.table.take_up(sources)
            self.waiting = self.marked = True

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Leaves rules untraced meanwhile, for passes that change and compare ops.  Ops with equal
        rules get equal marks, as they would name the same functions if traced."""
        self.held = True
        # The importer refers to ops that passes may erase.
        self._importer = None
        if self.table is not None:
            with scope():
                self.table.unify(functions(self.program.module_as_is).values())
        try:
            yield
        finally:
            self.held = False

    def looked_at(self) -> None:
        """Traces rules before somebody looks at the program."""
        if self.held:
            return
        if self.reads_as_another:
            self._become_as_read()
        self.trace()

    def _become_as_read(self) -> None:
        with self.lock:
            # Another thread may be first.  A rule that looks at its program sees it unfinished.
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
            # Another thread may be first, and read the module already.
            if not self._is_due(of):
                return
            # A rule that looks at its own program sees it unfinished.
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
        """Whether any rules, or those of the given op, are still to be traced."""
        return self.waiting and (of is None or is_untraced(of))

    def tell(self, op: Any, zeros: Mask) -> Attributes:
        """Traces the rule of an op that is told which tangents (for a custom_lin: cotangents) are
        zero, and returns the attribute that names it or says why there is none.  Empty for an op
        whose rule is not told, or that was read from a file with all its rules."""
        if not self.can_tell(op):
            return {}
        attributes = dict(op.attributes.items())
        return self._asked(op, lambda source, pending: source.tell(attributes, pending, zeros))

    def forward_alone(self, op: Any) -> Attributes:
        """Traces the forward rule of a custom_vjp call without the backward rule, if possible, and
        returns the attribute that names it.  The op itself is not changed.  Empty for an op that
        has its rules, or whose forward rule is made with the backward rule."""
        if not (self._is_due(op) and self.table is not None and self.table.of(op) is not None):
            return {}
        return self._asked(op, lambda source, pending: source.forward_alone(pending))

    def _asked(self, op: Any, ask: Callable[[RuleSource, PendingRules], NamedRules]) -> Attributes:
        """Traces the one rule that is asked of the source of an op's rules."""
        with self.lock:
            # The ops of that rule may have rules in turn, which wait.
            self.waiting: bool = True
            if self._under_way:
                attributes = self._pending.ask(op, ask)
                self.program.reread()
                return attributes
            with self._resumed(every=False):
                return self._pending.ask(op, ask)

    def can_tell(self, op: Any) -> bool:
        """Whether the rules of an op can be told what is zero."""
        return self.table is not None and is_choosy(op) and self.table.of(op) is not None

    @contextlib.contextmanager
    def _resumed(self, *, every: bool) -> Iterator[None]:
        """Sets ``_pending`` to all ops of the program that lack rules, or to none, for a request
        for the rules of one op."""
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
        """Drops new functions that duplicate others or that no function reaches, and puts the rest
        in order.  During a transformation some functions are half written, so it tidies up when it
        ends."""
        after = functions(self.program.module_as_is)
        merge_functions(after, after.keys() - before.keys())
        self.program.reread()
        after = functions(self.program.module_as_is)
        reached = put_in_order(after, self.program.name)
        for name in after.keys() - before.keys() - reached.keys():
            after[name].operation.erase()
