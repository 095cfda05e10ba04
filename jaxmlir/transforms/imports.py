"""Functions shared between programs, whose derivatives are made once in a process.

JAX keeps the derivative of a jitted function with its jaxpr, so that all calls of
``jnp.linalg.det`` share one.  This module does the same.  A function whose jaxpr another program
had before gets a *volume* (:class:`SharedFunctions`), a program of its own in which the passes work
as in any other.  There is one volume for reverse mode, one for all else, and where there are custom
rules one for batches, in which these stay untraced.  Other programs copy the *leaves*: the
functions as they were when they were first asked for, under short names, with equal ones merged.  A
program that is being made refers to functions of the volume as if they were in its module; those
that it needs in the end are copied in (:class:`Loans`).

A function is identified by its jaxpr object, which never changes, and which holds its constants,
source lines and custom rules.  A jaxpr that is freed takes its volume along.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from jaxmlir._compat import ConfigSnapshot, core
from jaxmlir.caching import setting
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import (
    SymbolUses,
    named_ops,
    ops_with_symbols,
    reachable,
    reached_ops,
    symbols_of,
)
from jaxmlir.dialect.custom_rule_ops import OPS
from jaxmlir.dialect.handles import Box, get_box
from jaxmlir.dialect.ir import clone_module, free_symbol, func, functions, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.rewriting.dedupe import (
    ExportedFunction,
    FunctionCopy,
    equal_functions,
    outline_of,
    rename_uses,
    shape_of,
    short_name,
)
from jaxmlir.transforms.discharge_refs import makes_references
from jaxmlir.transforms.higher_order import rule_of
from jaxmlir.transforms.higher_order.call import Call
from jaxmlir.transforms.memo import CopiedFunctions
from jaxmlir.transforms.templates import Rules


class Unavailable(BaseException):
    """A program needs more of a function than the library has, and has to do without it.

    Not an ``Exception``: exceptions that rules raise are caught, and reported with the op.
    """


def has_custom_rules(program: Module, symbol: str) -> bool:
    """Whether a function reaches ops that have custom rules, traced or not."""
    return any(name in OPS for _, name in reached_ops(program._functions, symbol))


class SharedFunctions:
    """The volume of a function: the function, all that it reaches, and its derivatives.

    Attributes:
      symbol: the function in the volume's program.
      config: the configuration under which its rules are traced, now or later; ``None`` if it has
        no custom rules.
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
          program: the program that has ``@symbol``; it is only read.
          reverse: linearized functions will be transposed.
          rules_wait: custom rules are left untraced.
          custom: some ops that the function reaches have custom rules, traced or not.
          forget: removes the volume from the library.
        """
        symbol_table = program._functions
        within = reachable(symbol_table, symbol)
        tracing = program.rule_tracing
        sources = tracing.sources(symbol_table[name] for name in within)
        boxes = _boxes(symbol_table[name] for name in within)
        copy = type(program)(clone_module(program.module_as_is, within), None, boxes)
        copy._functions[symbol].attributes["sym_visibility"] = ir.StringAttr.get("public")
        self.symbol = symbol
        self.config: ConfigSnapshot | None = tracing.table.config if custom else None
        if sources:
            copy.rule_tracing.take_up(sources, self.config)
            if not rules_wait:
                copy.trace_rules(within=reachable(copy._functions, symbol, custom_rules=False))
        copy.rule_tracing.held = True
        self._program = copy
        self._rules = Rules(copy, reverse=reverse)
        # Leaves by symbol, shared by equal functions; and short names, by the first of equal ones.
        self._leaves: dict[str, ExportedFunction] = {}
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._forget = forget

    def derived(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """``transform(rules, symbol, *pattern)`` in the volume's program, made once.

        Raises:
          Unavailable: the transformation fails, another thread is in the volume, or the result
            refers to constants that only one program can have.
        """
        with self._alone(), scope():
            try:
                derived = self._rules.functions.derived(transform, symbol, *pattern)
            except BaseException as e:
                # A half-written function is of no use to anybody.
                self._forget(self)
                # The caller transforms its own program then, and that error names its ops.
                raise (Unavailable() if isinstance(e, Exception) else e) from None
            if self._program.constants:
                self._forget(self)
                raise Unavailable
            return derived

    @property
    def boxes(self) -> dict[str, Box]:
        """The Python objects that its functions name, by names that are unique in the process."""
        return self._program._handles

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Has other threads do without the volume in this context.

        If they waited, the thread in here might in turn wait for them to trace a rule.
        """
        if not self._lock.acquire(blocking=False):
            raise Unavailable
        try:
            yield
        finally:
            self._lock.release()

    def function(self, symbol: str) -> func.FuncOp:
        """A function of the volume, for reading."""
        return self._program.function(symbol)

    def leaf(self, symbol: str) -> ExportedFunction:
        """A function of the volume, for copying."""
        if symbol not in self._leaves:
            with self._alone():
                self._write_leaves(symbol)
        return self._leaves[symbol]

    def _write_leaves(self, symbol: str) -> None:
        """Writes the leaves of all functions that one reaches; equal functions share a leaf.

        Rules that are traced later are not included.
        """
        program = self._program
        program.reread()
        symbol_table, first = program.functions, equal_functions(program.functions)
        within = reachable(symbol_table, symbol)
        reached = [name for name in symbol_table if name in within]
        for name in reached:
            if first[name] not in self._names:
                taken = self._names.values()
                self._names[first[name]] = free_symbol(short_name(first[name]), taken)
        names = {n: self._names[model] for n, model in first.items() if model in self._names}
        for name in reached:
            model = first[name]
            if model not in self._leaves:
                shape, uses = shape_of(symbol_table[model])
                function = symbol_table[model].operation.clone(ip=False).opview
                rename_uses(function, names)
                function.attributes["sym_name"] = ir.StringAttr.get(names[model])
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
                self._leaves[model] = ExportedFunction(
                    function,
                    names[model],
                    outline_of(function),
                    tuple([first[use] for use in uses]),
                    program.rule_tracing.sources([function]),
                    shape,
                    set(),
                )
            self._leaves[name] = self._leaves[model]


P = ParamSpec("P")
R = TypeVar("R")

LIMIT = 512
"""How many jaxprs are remembered, the most recently met ones."""


def library_first(transform: Callable[P, R]) -> Callable[P, R]:
    """Has a transformation repeated without the library, where that is :class:`Unavailable`."""

    @functools.wraps(transform)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return transform(*args, **kwargs)
        except Unavailable:
            _this_thread.without = True
            try:
                return transform(*args, **kwargs)
            finally:
                _this_thread.without = False

    return transformed


class _ThisThread(threading.local):
    without = False


_this_thread = _ThisThread()


class Loans:
    """The functions that a program under construction has from the library.

    Args:
      volumes: the volumes of its functions that are transformed in the library, by symbol.
    """

    def __init__(self, rules: Rules, volumes: Mapping[str, SharedFunctions]):
        self._rules = rules
        self._origin: dict[str, tuple[SharedFunctions, str]] = {}
        self._names: dict[tuple[SharedFunctions, str], str] = {}
        for symbol, volume in volumes.items():
            self._lend(symbol, volume, volume.symbol)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._origin

    def check(self, *symbols: str) -> None:
        """Called before functions are read.

        Raises:
          Unavailable: one of them is in the library, maybe with untraced rules.
        """
        if not self._origin.keys().isdisjoint(symbols):
            raise Unavailable

    def derived(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """Transforms a lent function in its volume, and names the results in the program."""
        volume, inner = self._origin[symbol]
        derived = volume.derived(transform, inner, *pattern)
        if not any(isinstance(item, str) for item in derived):
            return derived
        items = [self._name(volume, item) if isinstance(item, str) else item for item in derived]
        return derived._make(items) if hasattr(derived, "_make") else tuple(items)

    def copy_in(self, *roots: str) -> CopiedFunctions:
        """Copies the lent functions that some functions reach into the program's module."""
        program = self._rules.program
        uses = SymbolUses(program)
        own, lent, seen = list(roots), [], set(roots)
        for symbol in own:
            for use in uses[symbol]:
                if use not in seen:
                    seen.add(use)
                    (lent if use in self._origin else own).append(use)
        # Functions that only lent functions call get their names here.
        taken = {*functions(program.module_as_is), *lent}
        names: dict[int, str] = {}
        leaves = []
        for symbol in lent:
            volume, inner = self._origin[symbol]
            leaf = volume.leaf(inner)
            names.setdefault(id(leaf), symbol)
            leaves.append((symbol, leaf, volume))
        for _, leaf, volume in leaves:
            for use in map(volume.leaf, leaf.uses):
                if id(use) not in names:
                    name = names[id(use)] = free_symbol(use.name, taken)
                    taken.add(name)
                    leaves.append((name, use, volume))
        with scope(), ir.InsertionPoint(program.module.body):
            copies = {
                symbol: self._copied(symbol, leaf, volume, names) for symbol, leaf, volume in leaves
            }
        uses.update((symbol, copy.uses) for symbol, copy in copies.items())
        return CopiedFunctions(copies, uses)

    def _copied(
        self, symbol: str, leaf: ExportedFunction, volume: SharedFunctions, names: dict[int, str]
    ) -> FunctionCopy:
        used = [volume.leaf(use) for use in leaf.uses]
        uses = tuple([names[id(use)] for use in used])
        function = leaf.function.operation.clone().opview
        renamed = {old.name: new for old, new in zip(used, uses, strict=True) if old.name != new}
        if renamed:
            rename_uses(function, renamed)
        if symbol != leaf.name:
            function.attributes["sym_name"] = ir.StringAttr.get(symbol)
        self._rules.program.rule_tracing.take_up(leaf.sources, volume.config)
        self._rules.importer.handles |= volume.boxes
        return FunctionCopy(leaf, uses)

    def _name(self, volume: SharedFunctions, inner: str) -> str:
        """The symbol in the program of a function of a volume."""
        symbol = self._names.get((volume, inner))
        if symbol is None:
            symbol = self._rules.importer.unique_symbol(short_name(inner))
            self._lend(symbol, volume, inner)
        return symbol

    def _lend(self, symbol: str, volume: SharedFunctions, inner: str) -> None:
        self._names[volume, inner] = symbol
        self._origin[symbol] = volume, inner
        program = self._rules.program
        program.taken_names.add(symbol)
        program.imports[symbol] = program._functions[symbol] = volume.function(inner)


# --- which functions have a volume ----------------------------------------------------------------


class _JaxprVolumes:
    """A jaxpr that a program had, and its volumes.

    Attributes:
      volumes: the volumes by two flags: whether linearized functions will be transposed (those that
        push tangents forward may differ), and whether custom rules stay untraced.  Empty until
        another program has the jaxpr; ``None`` where the function has no volume.
      has_rules: whether it reaches ops that have custom rules, once that is known.
    """

    def __init__(self, jaxpr: Any, forget: Callable[[Any], None]):
        self.jaxpr = weakref.ref(jaxpr, forget)
        self.volumes: dict[tuple[bool, bool], SharedFunctions | None] = {}
        self.has_rules: bool | None = None


# Keyed by the jaxpr's id and the setting.
met_jaxprs: collections.OrderedDict[tuple[int, object], _JaxprVolumes] = collections.OrderedDict()
_lock = threading.Lock()


def _forget(volume: SharedFunctions) -> None:
    with _lock:
        for met in list(met_jaxprs.values()):
            for key, other in met.volumes.items():
                if other is volume:
                    met.volumes[key] = None


def volumes_for(
    program: Module, *, reverse: bool, rules_wait: bool
) -> tuple[dict[str, SharedFunctions], set[str]]:
    """The volumes of a program's functions that are called, and not referred to in another way; if
    there are any, also the functions that the program reaches without them.

    Args:
      reverse: linearized functions will be transposed.
      rules_wait: custom rules are left untraced.
    """
    volumes: dict[str, SharedFunctions] = {}
    if _this_thread.without or not program.jaxprs:
        return volumes, set()
    symbol_table, here = program._functions, setting()
    pending, reached, referenced = [program.name], set(), set()
    looked_up: dict[str, SharedFunctions | None] = {}
    while pending:
        name = pending.pop()
        if name in reached or name in volumes:
            continue
        reached.add(name)
        for called, symbol in _uses(symbol_table[name]):
            if symbol is None:
                return {}, set()
            if called and symbol not in referenced and symbol not in reached:
                if symbol not in looked_up:
                    looked_up[symbol] = _volume(program, symbol, here, reverse, rules_wait)
                volume = looked_up[symbol]
                if volume is not None:
                    volumes[symbol] = volume
            elif not called:
                referenced.add(symbol)
                volumes.pop(symbol, None)
            pending.append(symbol)
    return volumes, reached


def _uses(function: func.FuncOp) -> Iterator[tuple[bool, str | None]]:
    """The functions that a function refers to, each with whether the op merely calls it; ``None``
    for those of a shard_map, where types mean something else."""
    for op, name in ops_with_symbols(function):
        if name == "jaxpr.shard_map":
            yield False, None
        rule = rule_of(name)
        called = isinstance(rule, Call) and rule.handles(op)
        for symbol in symbols_of(op):
            yield called, symbol


def _volume(
    program: Module, symbol: str, here: object, reverse: bool, rules_wait: bool
) -> SharedFunctions | None:
    """The volume of a function, made when its jaxpr is met for the second time."""
    reference = program.jaxprs.get(symbol)
    jaxpr = None if reference is None else reference()
    if jaxpr is None:
        return None
    key = id(jaxpr), here
    with _lock:
        met = met_jaxprs.get(key)
        if met is None:
            met_jaxprs[key] = _JaxprVolumes(jaxpr, lambda _: met_jaxprs.pop(key, None))
            if len(met_jaxprs) > LIMIT:
                met_jaxprs.popitem(last=False)
            return None
        met_jaxprs.move_to_end(key)
    if met.has_rules is None:
        met.has_rules = has_custom_rules(program, symbol)
    kind = reverse, rules_wait and met.has_rules
    if kind not in met.volumes:
        # This traces rules, so no lock is held.  Of two threads the last one's volume stays.
        with scope():
            portable = _is_portable(program, symbol, met.has_rules)
            met.volumes[kind] = (
                SharedFunctions(program, symbol, *kind, met.has_rules, _forget)
                if portable
                else None
            )
    volume = met.volumes[kind]
    if volume is None or volume.config is None:
        return volume
    table = program.rule_tracing.table
    return volume if table is not None and table.config == volume.config else None


def _is_portable(program: Module, symbol: str, custom: bool) -> bool:
    """Whether a function and those it reaches refer to nothing that only their program has.

    Args:
      custom: some of their ops have custom rules.
    """
    symbol_table = program._functions
    if makes_references(program):
        return False
    if custom and program.rule_tracing.table is None:
        return False
    for op, kind in reached_ops(symbol_table, symbol):
        if kind == "jaxpr.shard_map" or (kind == "jaxpr.constant" and "name" in op.attributes):
            return False
    boxes = _boxes(symbol_table[name] for name in reachable(symbol_table, symbol))
    return not any(isinstance(box.value, core.Ref) for box in boxes.values())


def _boxes(functions: Iterable[func.FuncOp]) -> dict[str, Box]:
    """The boxes of the Python objects that the ops of some functions name."""
    ops = (op for function in functions for op, _ in named_ops(function))
    names = {name for op in ops for a in op.attributes.values() for name in codec.handles_in(a)}
    return {name: get_box(name) for name in names}
