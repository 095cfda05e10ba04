"""Custom derivative rules that have not been traced yet.

JAX traces rules when it differentiates, and so does a program: it traces the rules of the ops that
it runs.  The rules of ops in these rules wait in the derivative for the next differentiation.  All
rules are traced when somebody looks at a program's module.  A program that is only lowered and run
traces none.

An op without its rules is marked with their number in a table (:class:`UntracedRules`) that a
program shares with the programs derived from it.  The source of the rules is the equation that the
op was imported from.  If a transformation made the op from another op, it is the source of that.

A rule that is told which tangents are zero is traced when the zeros are known, as in JAX.  So its
op keeps its mark after the rules are traced, until the program is written to a file; a program read
from a file has the rules that were traced for possible zeros.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from jaxmlir._compat import ConfigSnapshot, ad, config, core
from jaxmlir.dialect import locations
from jaxmlir.dialect.custom_rule_ops import MARK, is_choosy, is_untraced, marked_ops
from jaxmlir.dialect.ir import functions, ir
from jaxmlir.dialect.module import Module
from jaxmlir.errors import Diagnostic, ForwardModeError, JaxmlirError, UntracedRuleError
from jaxmlir.support.masks import Mask

if TYPE_CHECKING:
    from jaxmlir.bridge.custom_rules.identity import Identities

T = TypeVar("T")

# How often a rule is traced within itself, for other arguments each time: the number of
# derivatives.  Each derivative of an ODE is several times as large as the one before, so only short
# rules (of up to SHORT equations) go on after the first few.
MAX_ORDER = 2
MAX_ORDER_OF_SHORT = 8
SHORT = 100

# Unique across programs, since an op may bring its mark into another program.
_numbers = itertools.count()


Attributes = dict[str, Any]
"""Attributes of an op by name."""
NamedRules = Iterator[tuple[str, Any]]
"""Attributes, each with its name, that name rules or say why a rule could not be traced."""


class RuleSource:
    """A source from which the rules of an op can be traced.  Equal sources make equal rules.

    Attributes:
      in_rule: whether the op is inside the rule of another op.
      function: the function that has the rules, or the rule of a custom_lin, in JAX's format:
        ``f at model.py:3``.
      plain_jvp: the thunk of a JVP rule that JAX can call as it is, wherever the op is; ``None``
        for other rules.
    """

    in_rule: bool
    function: str
    plain_jvp: Any | None = None

    def trace(self, attributes: Attributes, pending: PendingRules) -> NamedRules:
        """Writes the functions of the rules; yields the attributes that name them on the op, which
        has the given ``attributes``."""
        raise NotImplementedError

    def tell(self, attributes: Attributes, pending: PendingRules, zeros: Mask) -> NamedRules:
        """Writes the rule that is told which tangents (for a custom_lin: cotangents) are zero;
        yields the attribute that names it or says why there is none."""
        raise NotImplementedError

    def forward_alone(self, pending: PendingRules) -> NamedRules:
        """Yields the forward rule of a custom_vjp call as :meth:`trace` does, or why there is none;
        nothing if the forward rule is made along with the backward rule."""
        return iter(())

    def backward(self, pending: PendingRules, in_zeros: Mask, ct_zeros: Mask | None) -> NamedRules:
        """Yields the rule attributes of the custom_lin that is the derivative of a custom_vjp call.

        Args:
          in_zeros: the zero tangents that the forward rule was told.
          ct_zeros: the zero cotangents that the backward rule is told; ``None`` for all rules that
            are traced for possible zeros.
        """
        raise NotImplementedError

    def numbered_by(self, identity: Identities) -> Self:
        """An equal source, for the table with this identity."""
        raise NotImplementedError


class UntracedRules:
    """The sources of rules that a program lacks, by the numbers that its ops are marked with.

    A program and those derived from it share a table, which only grows.

    Attributes:
      config: JAX's configuration at the time of the import, under which rules are traced.
      identity: numbers the Python objects that rules consist of; equal ones get equal numbers.
    """

    def __init__(self) -> None:
        from jaxmlir.bridge.custom_rules.identity import Identities

        self.config: ConfigSnapshot = ConfigSnapshot()
        self.identity: Identities = Identities()
        self._sources: dict[int, RuleSource] = {}
        self._numbers: dict[RuleSource, int] = {}

    def add(self, op: Any, source: RuleSource) -> None:
        """Marks an op with a new number, since comparing rules takes longer than an import."""
        op.attributes[MARK] = _mark(self._append(source))

    def number(self, source: RuleSource) -> ir.IntegerAttr:
        """The mark of ops with this source; equal sources have the same mark."""
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = self._append(source)
        return _mark(number)

    def unify(self, functions: Iterable[Any]) -> None:
        """Gives the marked ops of some functions equal marks where their rules are equal."""
        for op in marked_ops(functions):
            source = self.of(op)
            if source is not None:
                op.attributes[MARK] = self.number(source)

    def take_up(self, sources: Mapping[int, RuleSource]) -> None:
        """Adds the sources of ops that come from another program, under the marks they have."""
        for number, source in sources.items():
            if number not in self._sources:
                self._sources[number] = source.numbered_by(self.identity)

    def of(self, op: Any) -> RuleSource | None:
        """The source of an op's rules, if the op has a mark of this table."""
        attributes = op.attributes
        return self._sources.get(attributes[MARK].value) if MARK in attributes else None

    def _append(self, source: RuleSource) -> int:
        number = next(_numbers)
        self._sources[number] = source
        return number


def _mark(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


@dataclass(frozen=True)
class DerivedSource(RuleSource):
    """The source of the rules of an op that a transformation has made from the op of another
    source."""

    of: RuleSource

    @property
    def in_rule(self) -> bool:
        return self.of.in_rule

    @property
    def function(self) -> str:
        return self.of.function

    def numbered_by(self, identity: Identities) -> Self:
        return replace(self, of=self.of.numbered_by(identity))


@dataclass(frozen=True)
class Backward(DerivedSource):
    """The source of a custom_lin's rules: the backward rules of a forward rule told zeros."""

    in_zeros: Mask

    def trace(self, attributes: Attributes, pending: PendingRules) -> NamedRules:
        return self.of.backward(pending, self.in_zeros, None)

    def tell(self, attributes: Attributes, pending: PendingRules, zeros: Mask) -> NamedRules:
        return self.of.backward(pending, self.in_zeros, zeros)


class _Importer(Protocol):
    """Writes rules: a :class:`jaxmlir.bridge.importer.Importer`."""

    module: ir.Module
    origins: dict[Any, Any]

    def rule(self, key: Any, hint: str, trace: Any) -> str: ...


class PendingRules:
    """The ops that an importer has written and that lack their rules.

    The ops in a rule are traced after the rule, breadth first, so a rule that calls its own
    function is written for the lowest order that needs it.

    Attributes:
      program: the program whose module the importer writes to, once there is one.
    """

    def __init__(self, importer: _Importer, program: Module | None = None):
        self._importer = importer
        self.program = program
        self.table: UntracedRules | None = None
        self._queue: collections.deque[Any] = collections.deque()
        self._within: collections.Counter[str] = collections.Counter()
        self._check_vma: bool = config._check_vma.value
        self._traced: dict[str, Any] = {}
        self._first: dict[Any, Any] = {}
        self._derived: dict[Callable[[Module], Any], Any] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def add(
        self,
        op: ir.Operation,
        source: Callable[[collections.Counter[str], bool, Identities], RuleSource],
    ) -> None:
        """Queues the op of a custom-derivative equation.  ``source`` makes the source of the rules,
        given the op's :attr:`place` and the numbering of equal rules."""
        if self.table is None:
            self.table = UntracedRules()
        self.table.add(op, source(*self.place, self.table.identity))
        self._queue.append(op)

    def resume(self, functions: Iterable[Any], table: UntracedRules) -> None:
        """Queues the marked ops of some functions whose rules are in a table.

        Ops with marks of another table are left out: its owner is tracing their rules right now, if
        a rule of that program exports functions of the program that it is written to.
        """
        self.table = table
        self._queue.extend(
            op for op in marked_ops(functions) if is_untraced(op) and table.of(op) is not None
        )

    def drop(self, count: int) -> None:
        """Removes the last ``count`` ops, which are being erased, from the queue."""
        for _ in range(count):
            self._queue.pop()

    @property
    def origins(self) -> dict[Any, Any]:
        """For each variable, the variable of the enclosing jaxpr that it stands for, if any."""
        return self._importer.origins

    # -- where tracing is --

    @property
    def in_rule(self) -> bool:
        """Whether the op whose rules are being traced is inside another rule."""
        return bool(self._within)

    @property
    def place(self) -> tuple[collections.Counter[str], bool]:
        """The place of ops added now: the arguments of :meth:`around`."""
        return self._within, self._check_vma

    @contextlib.contextmanager
    def around(self, within: collections.Counter[str], check_vma: bool) -> Iterator[None]:
        """Ops added meanwhile are inside these rules; ``check_vma``: in a shard_map that checks
        types."""
        outer = self._within, self._check_vma
        self._within, self._check_vma = within, check_vma
        try:
            yield
        finally:
            self._within, self._check_vma = outer

    def inside(self, eqn: Any) -> contextlib.AbstractContextManager[None]:
        """Ops added meanwhile are in a function that a shard_map refers to."""
        return self.around(self._within, eqn.params["check_vma"])

    # -- tracing --

    def trace(self, within: Collection[str] | None = None) -> None:
        """Traces the rules of all queued ops (or of those within some functions), and of the ops in
        these rules.  In the second case, ops in their rules stay queued, as do ops whose rules are
        told zeros: these can be traced when the zeros are known."""
        if not self._queue:
            return
        self._derived.clear()
        self._trace_round(within)
        while within is None and self._queue:
            self._trace_round(None)

    def leave(self) -> None:
        """Moves the queued ops to those whose rules the program is to trace later."""
        self.program.rule_tracing.take_up(
            {op.attributes[MARK].value: self.table.of(op) for op in self._queue}
        )
        self._queue.clear()

    def _trace_round(self, within: Collection[str] | None) -> None:
        """Traces the rules of the queued ops; ops in these rules are queued after them."""
        now, later = collections.deque(), []
        for op in self._queue:
            here = within is None or (
                op.parent.attributes["sym_name"].value in within and not is_choosy(op)
            )
            (now if here else later).append(op)
        self._queue = collections.deque()
        try:
            while now:
                self.trace_op(now[0])
                now.popleft()
        finally:
            self._queue.extendleft(reversed([*now, *later]))

    def trace_op(self, op: Any) -> None:
        """Traces the rules of an op that lacks them."""
        if is_untraced(op):
            source = self.table.of(op)
            with self.table.config.restored():
                for name, value in source.trace(dict(op.attributes.items()), self):
                    op.attributes[name] = value
            if is_choosy(op):
                op.attributes[MARK] = self.table.number(source)
            else:
                del op.attributes[MARK]

    def ask(self, op: Any, ask: Callable[[RuleSource, PendingRules], NamedRules]) -> Attributes:
        """Traces the rule that is asked of the source of an op's rules."""
        with self.table.config.restored():
            return dict(ask(self.table.of(op), self))

    def once(self, make: Callable[[Module], T]) -> T:
        """The result of ``make(program)``, made once and kept until the next :meth:`trace`."""
        if make not in self._derived:
            self._derived[make] = make(self.program)
        return self._derived[make]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Queues the marked ops of functions that are written in this context."""
        before = functions(self._importer.module).keys()
        yield
        after = functions(self._importer.module)
        self.resume((after[name] for name in after.keys() - before), self.table)

    def function(
        self, name: str, key: Any, info: core.DebugInfo, trace: Any
    ) -> tuple[str, ir.Attribute]:
        """Traces a rule: ``(name, @rule)``, or ``<stem>_error`` with the reason why it failed."""
        source = _source(info)

        def trace_bounded() -> Any:
            bound = MAX_ORDER_OF_SHORT if self.is_short(info) else MAX_ORDER
            if self._within[source] > bound:
                raise JaxmlirError(
                    f"the rule {info.func_name!r} calls its own function with new arguments each "
                    f"time; tracing stopped after {bound} derivatives"
                )
            traced = trace()
            self._traced[source] = traced[0]
            return traced

        within = self._within.copy()
        within[source] += 1
        with self.around(within, self._check_vma):
            try:
                symbol = self._importer.rule(key, info.func_name, trace_bounded)
                return name, ir.FlatSymbolRefAttr.get(symbol)
            except Exception as e:
                error = str(e) if isinstance(e, JaxmlirError) else f"{type(e).__name__}: {e}"
                if isinstance(e, UntracedRuleError) and e.reason is not None:
                    error = e.reason  # a rule that runs a rule, as the VJP of a `shard_map` does
                return f"{name.split('_')[0]}_error", ir.StringAttr.get(error)

    def is_short(self, info: core.DebugInfo) -> bool:
        """Whether a rule has few equations, as far as is known."""
        jaxpr = self._traced.get(_source(info))
        return jaxpr is None or _length(jaxpr) <= SHORT

    def alike(self, rule: Any, *kind: Any) -> int | None:
        """A key for a rule, equal for rules of a kind that would trace alike.  Rules are only
        compared if there are several of a kind: most are the only one for their types, which a key
        contains anyway."""
        first = self._first.setdefault(kind, rule)
        if first is rule:
            return None
        of_first, number = map(self.table.identity, (first, rule))
        return None if number == of_first else number


def _source(info: core.DebugInfo) -> str:
    return info.func_src_info or info.func_name


def _length(jaxpr: Any) -> int:
    """The number of equations of a jaxpr and its sub-jaxprs."""
    return sum(1 + sum(map(_length, core.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)


def forward_mode_error(program: Module, op: Any, hint: str, what: str = "op") -> ForwardModeError:
    """The error for a custom_lin that is not transposed: JAX's message, the function, and a
    hint."""
    table = program.rule_tracing.table
    source = table and table.of(op)
    if source is not None:
        function = source.function
    elif "bwd" in op.attributes:
        bwd = op.attributes["bwd"].value
        file, line, _ = locations.position(program._function(bwd).location)
        function = f"@{bwd}" + (f" at {file}:{line}" if line else "")
    else:
        function = "a rule that could not be traced"
    try:
        ad.raise_custom_vjp_error_on_jvp()
    except TypeError as e:
        said = str(e).removesuffix(".")
    message = (
        f"'{op.operation.name}' {what}: it is the derivative of a custom_vjp function, and only "
        f"its transpose is known ({function}): {said}; {hint}"
    )
    place = locations.position(op.location)
    return ForwardModeError([Diagnostic("error", message, *place)])
