"""Custom derivative rules that have not been traced yet, and when they are.

JAX traces rules when it differentiates.  So does a program: the rules of the ops that it runs, not
those of the ops in these rules, which wait in the derivative for the next one.  All are traced when
somebody looks at a program's module; what is only lowered and run never does either.

An op whose rules are missing is marked with their number in a table (:class:`UntracedRules`) that a
program shares with what is derived from it.  What they are is known by the equation that the op was
imported from, or, of an op that a transformation has made, by those of the op that it made it of.

A rule that is told which tangents are zero is asked when these are known, as JAX does.  So the mark
of its op stays after the rules are traced, until the program is written down: one that was read
has the rules that were traced for what they may be told.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from jaxmlir._compat import ConfigSnapshot, ad, core
from jaxmlir.dialect import locations
from jaxmlir.dialect.custom_rule_ops import MARK, is_choosy, is_untraced, marked_ops
from jaxmlir.dialect.ir import functions, ir
from jaxmlir.dialect.module import Module
from jaxmlir.errors import Diagnostic, ForwardModeError, JaxmlirError, UntracedRuleError
from jaxmlir.support.masks import Mask

if TYPE_CHECKING:
    from jaxmlir.bridge.custom_rules.identity import Identities

T = TypeVar("T")

# How often a rule is traced within itself, for other arguments each time: how many derivatives
# there are.  Each of an ODE's is several times the program of the one before, so only short rules
# (in equations) go on after the first few.
MAX_ORDER = 2
MAX_ORDER_OF_SHORT = 8
SHORT = 100

# No number is that of other rules in another program, which a mark may get to.
_numbers = itertools.count()


class RuleSource(Protocol):
    """What the rules of an op can be made of.  Equal sources make equal rules."""

    @property
    def in_rule(self) -> bool:
        """Whether the op came with the rule of another."""

    @property
    def function(self) -> str:
        """The function that has the rules, or the rule of a custom_lin, as JAX tells of it:
        ``f at model.py:3``."""

    @property
    def plain_jvp(self) -> Any | None:
        """The thunk of a JVP rule that JAX can call as it is, wherever the op is; ``None`` of other
        rules."""

    def trace(
        self, attributes: dict[str, ir.Attribute], pending: PendingRules
    ) -> Iterator[tuple[str, ir.Attribute]]:
        """What its rules add to the attributes of an op; writes their functions."""

    def tell(
        self, attributes: dict[str, ir.Attribute], pending: PendingRules, zeros: Mask
    ) -> Iterator[tuple[str, ir.Attribute]]:
        """The one that names the rule which is told which tangents are zero, or of a custom_lin
        which cotangents; or else that says why there is none."""

    def forward_alone(self, pending: PendingRules) -> Iterator[tuple[str, ir.Attribute]]:
        """The forward rule of a custom_vjp call, as :meth:`trace` gives it, or says why there is
        none; nothing where it is made with the backward rule."""

    def backward(
        self, pending: PendingRules, in_zeros: Mask, ct_zeros: Mask | None
    ) -> Iterator[tuple[str, ir.Attribute]]:
        """The attributes of a custom_lin that stands for the derivative of a custom_vjp call.

        Args:
          in_zeros: what the forward rule was told.
          ct_zeros: what the backward rule is told; ``None``: all that it may be told.
        """

    def numbered_by(self, identity: Identities) -> RuleSource:
        """An equal source, among those of another table."""


class UntracedRules:
    """The rules that are missing in a program, by the numbers that its ops are marked with.

    A program and those derived from it share a table.  It grows only.

    Attributes:
      config: JAX's configuration at the time of the import, under which rules are traced.
      identity: numbers Python's side of rules, equal ones alike.
    """

    def __init__(self, config: ConfigSnapshot | None = None) -> None:
        from jaxmlir.bridge.custom_rules.identity import Identities

        self.config: ConfigSnapshot = config or ConfigSnapshot()
        self.identity: Identities = Identities()
        self._sources: dict[int, RuleSource] = {}
        self._numbers: dict[RuleSource, int] = {}

    def add(self, op: Any, source: RuleSource) -> None:
        """Marks an op with a number of its own: comparing rules takes longer than an import."""
        op.attributes[MARK] = _mark(self._append(source))

    def number(self, source: RuleSource) -> ir.IntegerAttr:
        """The mark of ops with such rules; equal ones have the same."""
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = self._append(source)
        return _mark(number)

    def unify(self, functions: Iterable[Any]) -> None:
        """Marks the marked ops of some functions alike where their rules are equal."""
        for op in marked_ops(functions):
            source = self.of(op)
            if source is not None:
                op.attributes[MARK] = self.number(source)

    def take_up(self, sources: Mapping[int, RuleSource]) -> None:
        """Knows the rules of ops that come from another program, by the marks that they have."""
        for number, source in sources.items():
            if number not in self._sources:
                self._sources[number] = source.numbered_by(self.identity)

    def of(self, op: Any) -> RuleSource | None:
        """What the rules of an op are made of, if it has a mark of this table."""
        attributes = op.attributes
        return self._sources.get(attributes[MARK].value) if MARK in attributes else None

    def _append(self, source: RuleSource) -> int:
        number = next(_numbers)
        self._sources[number] = source
        return number


def _mark(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)


@dataclass(frozen=True)
class DerivedSource:
    """What the rules of an op are made of that a transformation has made of another op.

    Attributes:
      of: what those of the other op are made of.
    """

    of: RuleSource

    @property
    def in_rule(self) -> bool:
        return self.of.in_rule

    @property
    def function(self) -> str:
        return self.of.function

    @property
    def plain_jvp(self) -> None:
        return None

    def forward_alone(self, pending: PendingRules) -> Iterator[tuple[str, ir.Attribute]]:
        return iter(())

    def numbered_by(self, identity: Identities) -> Self:
        return replace(self, of=self.of.numbered_by(identity))


@dataclass(frozen=True)
class Backward(DerivedSource):
    """The rules of a custom_lin: the backward rules of a forward rule that was told zeros."""

    in_zeros: Mask

    def trace(
        self, attributes: dict[str, ir.Attribute], pending: PendingRules
    ) -> Iterator[tuple[str, ir.Attribute]]:
        return self.of.backward(pending, self.in_zeros, None)

    def tell(
        self, attributes: dict[str, ir.Attribute], pending: PendingRules, zeros: Mask
    ) -> Iterator[tuple[str, ir.Attribute]]:
        return self.of.backward(pending, self.in_zeros, zeros)

    def backward(
        self, pending: PendingRules, in_zeros: Mask, ct_zeros: Mask | None
    ) -> Iterator[tuple[str, ir.Attribute]]:
        raise NotImplementedError("a backward rule has none of its own")


class _Importer(Protocol):
    """What writes rules: a :class:`jaxmlir.bridge.importer.Importer`."""

    module: ir.Module
    origins: dict[Any, Any]

    def rule(self, key: Any, hint: str, trace: Any) -> str: ...


class PendingRules:
    """The ops that an importer has written and that lack their rules.

    A rule's own ops are traced after it, breadth first, so a rule that calls its own function is
    written for the lowest order that needs it.

    Attributes:
      program: whose module the importer writes to, once there is one.
    """

    def __init__(self, importer: _Importer, program: Module | None = None):
        self._importer = importer
        self.program = program
        self.table: UntracedRules | None = None
        self._queue: collections.deque[Any] = collections.deque()
        self._within: collections.Counter[str] = collections.Counter()
        self._check_vma = False
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
        """Puts off the rules of the op of a custom-derivative equation.

        Args:
          source: makes what they are made of, given where the op is (:attr:`place`), and the
            numbers of equal rules.
        """
        if self.table is None:
            self.table = UntracedRules()
        self.table.add(op, source(*self.place, self.table.identity))
        self._queue.append(op)

    def resume(self, functions: Iterable[Any], table: UntracedRules) -> None:
        """Has the marked ops of some functions wait here.

        Not those with marks of another table: whoever has that is about to trace them, and came
        here since a rule exports functions of the program that it is written to.
        """
        self.table = table
        self._queue.extend(
            op for op in marked_ops(functions) if is_untraced(op) and table.of(op) is not None
        )

    def drop(self, count: int) -> None:
        """Forgets the last ``count`` ops, which are being erased."""
        for _ in range(count):
            self._queue.pop()

    @property
    def origins(self) -> dict[Any, Any]:
        """The variable of the jaxpr around that each variable stands for, if it stands for one."""
        return self._importer.origins

    # -- where tracing is --

    @property
    def in_rule(self) -> bool:
        """Whether the op whose rules are being traced is in another rule."""
        return bool(self._within)

    @property
    def place(self) -> tuple[collections.Counter[str], bool]:
        """Where ops are added: what :meth:`around` takes."""
        return self._within, self._check_vma

    @contextlib.contextmanager
    def around(self, within: collections.Counter[str], check_vma: bool) -> Iterator[None]:
        """Ops added meanwhile are within those rules, and in a shard_map that checks types or
        not."""
        outer = self._within, self._check_vma
        self._within, self._check_vma = within, check_vma
        try:
            yield
        finally:
            self._within, self._check_vma = outer

    def inside(self, eqn: Any) -> contextlib.AbstractContextManager[None]:
        """Ops added meanwhile are in a function that a shard_map names."""
        return self.around(self._within, eqn.params["check_vma"])

    # -- tracing --

    def trace(self, within: Collection[str] | None = None) -> None:
        """Traces the rules of all ops, and of those that the rules bring.

        Args:
          within: only of the ops of these functions; those that their rules bring wait on, and
            rules that are told zeros, which can be asked when these are known.
        """
        if not self._queue:
            return
        self._derived.clear()
        self._trace_round(within)
        while within is None and self._queue:
            self._trace_round(None)

    def leave(self) -> None:
        """Has the ops that wait here wait with those of the program."""
        self.program.rule_tracing.take_up(
            {op.attributes[MARK].value: self.table.of(op) for op in self._queue}
        )
        self._queue.clear()

    def _trace_round(self, within: Collection[str] | None) -> None:
        """Traces the rules of the ops that wait; those that the rules bring wait after them."""
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
        """Traces the rules of one op, if it lacks them."""
        if is_untraced(op):
            source = self.table.of(op)
            with self.table.config.restored():
                for name, value in source.trace(dict(op.attributes.items()), self):
                    op.attributes[name] = value
            if is_choosy(op):
                op.attributes[MARK] = self.table.number(source)
            else:
                del op.attributes[MARK]

    def tell(self, op: Any, zeros: Mask) -> dict[str, ir.Attribute]:
        """What names the rule of an op that is told which tangents are zero: see
        :meth:`RuleSource.tell`."""
        with self.table.config.restored():
            attributes = dict(op.attributes.items())
            return dict(self.table.of(op).tell(attributes, self, zeros))

    def forward_alone(self, op: Any) -> dict[str, ir.Attribute]:
        """What names the forward rule of a custom_vjp call (:meth:`RuleSource.forward_alone`)."""
        with self.table.config.restored():
            return dict(self.table.of(op).forward_alone(self))

    def once(self, make: Callable[[Module], T]) -> T:
        """``make(program)``, made once while the rules at hand are traced."""
        if make not in self._derived:
            self._derived[make] = make(self.program)
        return self._derived[make]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Marked ops of functions that are written meanwhile, by whomever, wait here."""
        before = functions(self._importer.module).keys()
        yield
        after = functions(self._importer.module)
        self.resume((after[name] for name in after.keys() - before), self.table)

    def function(
        self, name: str, key: Any, info: core.DebugInfo, trace: Any
    ) -> tuple[str, ir.Attribute]:
        """``(name, @rule)``, or the reason why there is none under ``<stem>_error``."""
        source = _source(info)

        def trace_bounded() -> Any:
            bound = MAX_ORDER_OF_SHORT if self.is_short(info) else MAX_ORDER
            if self._within[source] > bound:
                raise JaxmlirError(
                    f"the rule {info.func_name!r} calls its own function with new arguments each "
                    f"time; it was traced for {bound} derivatives"
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
        """Whether a rule has few equations, as far as that is known."""
        jaxpr = self._traced.get(_source(info))
        return jaxpr is None or _length(jaxpr) <= SHORT

    def alike(self, rule: Any, *kind: Any) -> int | None:
        """What stands for a rule in a key: equal for those of a kind that would trace alike.

        What a rule is made of is looked at when there is another of its kind: most are alone of
        their types, and a key that has these needs no more.
        """
        first = self._first.setdefault(kind, rule)
        if first is rule:
            return None
        of_first, number = map(self.table.identity, (first, rule))
        return None if number == of_first else number


def _source(info: core.DebugInfo) -> str:
    return info.func_src_info or info.func_name


def _length(jaxpr: Any) -> int:
    """The equations of a jaxpr and its sub-jaxprs."""
    return sum(1 + sum(map(_length, core.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)


def forward_mode_error(program: Module, op: Any, hint: str, what: str = "op") -> ForwardModeError:
    """What there is to say of a custom_lin that is not transposed: what JAX says, and of what
    function.

    Args:
      hint: what to do about it.
      what: said of the op.
    """
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
        f"'{op.operation.name}' {what}: it is the derivative of a custom_vjp function, of which "
        f"only the transpose is known, {function}: {said}; {hint}"
    )
    place = locations.position(op.location)
    return ForwardModeError([Diagnostic("error", message, *place)])
