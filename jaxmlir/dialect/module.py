"""A module of the dialect with what it refers to: what passes and transformations work on.

:class:`jaxmlir.program.program.Program` is one, with all that users do to programs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax

from jaxmlir.dialect import handles, locations
from jaxmlir.dialect import ir as mlir_ir
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.custom_rule_ops import MARK, marked_ops
from jaxmlir.dialect.handles import Constants
from jaxmlir.dialect.ir import (
    DIALECT_VERSION,
    context,
    file_line_col,
    func,
    functions,
    ir,
    is_private,
)
from jaxmlir.dialect.types import aval_of, widths_of
from jaxmlir.errors import (
    ArgumentError,
    Diagnostic,
    ImportingError,
    JaxmlirError,
    PassError,
    at_op,
    nearest,
)
from jaxmlir.support.lazy import analysis, forget_analyses
from jaxmlir.targets import Target, default_target

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jax.tree_util import PyTreeDef

T = TypeVar("T")


@functools.lru_cache(1024)
def _flat_arguments(n: int) -> Any:
    """The pytree of ``n`` arguments without structure."""
    return jax.tree.structure(((0,) * n, {}))


@functools.lru_cache(1024)
def _flat_results(n: int) -> Any:
    return jax.tree.structure(0 if n == 1 else (0,) * n)


class Module:
    """A module of the dialect, its constants and handles, and what has been found out about it.

    Args:
      module: of functions; the first public one is what a call runs.
      constants: arrays too large for the module, by the name that their ops give.
      handles: Python objects that the module names, by name.
      custom_calls: of a module that somebody else wrote, what it may reach beyond XLA (see
        :mod:`jaxmlir.dialect.custom_calls`); ``None`` of one's own.

    Attributes:
      rule_tracing: traces custom derivative rules when they are needed; a
        :class:`jaxmlir.bridge.custom_rules.schedule.RuleTracing`.
      jaxprs: of an imported module, what its private functions were imported from.
      imports: functions of other modules that this one's may name, while it is being made.
      copies: functions that are copied from where they have been verified.
      state: another object after each change.
      core: the module as equations that call it know it: the same state, but for what is a call of
        it to JAX.  JAX keeps what a function was traced to for as long as there is the function,
        which the traced call must not keep in turn.
    """

    _internal = frozenset(
        """at_function become check_types chosen copies core custom_calls custom_calls_found
        exporter exporters get_analysis has_untraced_rules imports jaxprs lacks module_as_is
        name_of_argument new_rule_tracing of_import reread rule_tracing sizes_scope state
        taken_names widths written_module""".split()
    )
    """Attributes that other rooms use, and users' programs do not; ``dir`` leaves them out."""

    def __init__(
        self,
        module: ir.Module,
        constants: Mapping[str, Any] | None = None,
        handles: Mapping[str, handles.Box] | None = None,
        custom_calls: frozenset[str] | None = None,
    ):
        self.core: Self = object.__new__(type(self))
        self.core.__dict__ = self.__dict__
        self._module = module
        self._constants = Constants(constants or {})
        self._handles = dict(handles or {})
        self.custom_calls = custom_calls
        # Of a module for symbolic sizes of a caller: the scope that these are of.
        self.sizes_scope: Any | None = None
        self._target: Target | None = None
        self._analyses: dict[Callable[[Any], Any], Any] = {}
        # What makes jaxprs of the module, and refers to its functions by their symbols.
        self.exporters: weakref.WeakSet[Any] = weakref.WeakSet()
        self.rule_tracing: Any = self.new_rule_tracing()
        self.changed()

    def __dir__(self) -> list[str]:
        """The names that users may count on, without those that only the package itself uses."""
        internal = (getattr(cls, "_internal", ()) for cls in type(self).__mro__)
        names = {*super().__dir__()}.difference(*internal)
        return sorted(name for name in names if name.startswith("__") or not name.startswith("_"))

    def new_rule_tracing(self, *imported: Any) -> Any:
        """The tracer of this module's custom derivative rules.

        Args:
          imported: of an imported module, the table of rules that wait, and the importer.
        """
        raise NotImplementedError

    @classmethod
    def of_import(cls, importer: Any) -> Self:
        """The module that a :class:`jaxmlir.bridge.importer.Importer` has written."""
        result = cls(importer.module)
        # The rules that are still to be traced bring constants and handles of their own.
        result._constants, result._handles = importer.constants, importer.handles
        result.jaxprs = importer.jaxprs
        if importer.pending:
            importer.pending.program = result.core
            result.rule_tracing = result.new_rule_tracing(importer.pending.table, importer)
        return result

    @property
    def module(self) -> ir.Module:
        """The MLIR module.  Passes change it in place; call :meth:`changed` after doing so."""
        self.rule_tracing.looked_at()
        # Who changes it may want to have it verified before that.
        self.copies = {}
        return self._module

    @module.setter
    def module(self, module: ir.Module) -> None:
        self._module = module
        self.rule_tracing.forget()

    @property
    def module_as_is(self) -> ir.Module:
        """The module as it is: its ops may lack custom rules that are not traced yet."""
        return self._module

    @property
    def constants(self) -> Constants:
        """Arrays too large for the IR, by the name their ``jaxpr.constant`` ops give them."""
        self.rule_tracing.looked_at()
        return self._constants

    @property
    def handles(self) -> dict[str, handles.Box]:
        """The boxes that keep alive the Python objects which the module names by handle."""
        self.rule_tracing.looked_at()
        return self._handles

    @property
    def has_untraced_rules(self) -> bool:
        """Whether custom derivative rules are still to be traced."""
        return self.rule_tracing.waiting

    def trace_rules(self, *, within: Collection[str] | None = None, of: Any = None) -> None:
        """Traces the custom derivative rules that are still to be traced.

        A rule that cannot be traced is no error here: its op records the reason.

        Args:
          within: only of the ops of these functions: those that a run of the program meets are what
            its derivative needs, and ops in their rules are left for the derivative's derivative.
          of: only of this op.
        """
        self.rule_tracing.trace(within=within, of=of)

    def get_analysis(self, kind: Callable[[Self], T]) -> T:
        """``kind(module)``, kept until the module changes."""
        cached = self._analyses.get(kind)
        if cached is None:
            cached = self._analyses[kind] = kind(self.core)
        return cached

    def reread(self) -> None:
        """Takes note of what an importer has added to the module."""
        self.copies = {}
        self.__dict__.pop("_functions", None)
        self._analyses.clear()

    def become(self, other: Module) -> None:
        """Takes over the module of another program, which computes the same: what was compiled
        stays.

        Jaxprs that were made of the module so far stay those of that module.
        """
        before: Any = object.__new__(type(self))
        before.__dict__ = {**self.__dict__, "core": before, "_analyses": {}}
        before.rule_tracing = self.rule_tracing.of_clone(before, held=False)
        for exporter in self.exporters:
            exporter.program = before
        self.exporters = weakref.WeakSet()
        self._module = other._module
        self._constants, self._handles = other._constants, other._handles
        self._analyses.clear()
        forget_analyses(self)
        self.copies, self.jaxprs = other.copies, other.jaxprs

    def lacks(self, names: Collection[str]) -> bool:
        """Whether it is known that no op has one of some names."""
        return False

    def changed(self, functions: dict[str, func.FuncOp] | None = None) -> None:
        """Forgets what was derived from the module.

        Args:
          functions: those that it has now, of a caller who knows.
        """
        self.jaxprs: dict[str, weakref.ref[Any]] = {}
        self.imports: dict[str, func.FuncOp] = {}
        self.copies: dict[str, Any] = {}
        self.state: object = object()
        self._analyses.clear()
        forget_analyses(self)
        if functions is not None:
            self._functions = functions

    def clone(self, *, hold_rules: bool = False, among: Collection[str] | None = None) -> Self:
        """A copy whose module can be changed; constants and handles are shared.

        Args:
          hold_rules: leave custom rules that are not traced yet so in the copy, which holds them
            until its ``rule_tracing.held`` is unset; by default they are traced now.
          among: only these functions are in the copy, by default all.
        """
        hold_rules = hold_rules or self.rule_tracing.held
        if not hold_rules:
            self.rule_tracing.looked_at()
        with self.rule_tracing.lock:
            module = mlir_ir.clone_module(self._module, among)
        result = type(self)(module, self._constants, self._handles, self.custom_calls)
        result._target = self._target
        result.sizes_scope = self.sizes_scope
        result.rule_tracing = self.rule_tracing.of_clone(result.core, hold_rules)
        return result

    @property
    def target(self) -> Target:
        """The target that passes compile for: the one that was given, or else JAX's default
        device."""
        return default_target() if self._target is None else self._target

    @target.setter
    def target(self, target: Target) -> None:
        self._target = target

    # -- text --

    def as_text(self, *, debug_info: bool = False) -> str:
        """The module as MLIR text.  Constants of the side table appear by name only.

        Args:
          debug_info: also print locations: the user's Python lines and JAX's name stacks.
        """
        return mlir_ir.module_text(self.written_module(), debug_info=debug_info)

    def written_module(self) -> ir.Module:
        """The module to write down: without what only this process can make sense of."""
        module = self.module
        if self.rule_tracing.marked:
            with mlir_ir.context():
                module = mlir_ir.clone_module(module)
                for op in list(marked_ops(functions(module).values())):
                    del op.attributes[MARK]
        return module

    def __str__(self) -> str:
        return self.as_text()

    # -- functions --

    @property
    def functions(self) -> dict[str, func.FuncOp]:
        """The module's functions by symbol."""
        self.rule_tracing.looked_at()
        return self._functions

    @analysis
    def _functions(self) -> dict[str, func.FuncOp]:
        return functions(self._module) | self.imports

    @analysis
    def taken_names(self) -> set[str]:
        """The symbols that importers have found taken, and those that they are about to add."""
        return set()

    def function(self, symbol: str) -> func.FuncOp:
        """The function ``@symbol``.

        Raises:
          JaxmlirError: the module has none.
        """
        self.rule_tracing.looked_at()
        return self._function(symbol)

    def _function(self, symbol: str) -> func.FuncOp:
        """The function ``@symbol``, whose ops may lack the rules that are not traced yet."""
        function = self._functions.get(symbol)
        if function is None:
            # A pass may have added it since.
            self.reread()
            function = self._functions.get(symbol)
        if function is None:
            meant = nearest(str(symbol), self._functions)
            hint = f"; did you mean @{meant}?" if meant else ""
            raise JaxmlirError(f"the module has no function @{symbol}{hint}")
        return function

    @analysis
    def name(self) -> str:
        """The symbol of the function that a call of the program runs: the first public one."""
        with context():
            for symbol, op in self._functions.items():
                if not is_private(op):
                    return symbol
        raise JaxmlirError("the module has no public function to call")

    def chosen(self, symbol: str, how: str = "func= says which is meant") -> str:
        """The function that an option of a pass names; the public one where it names none.

        Args:
          how: what to do about several.

        Raises:
          JaxmlirError: no function is public.
          PassError: several are.
        """
        if symbol:
            return symbol
        with context():
            public = [f"@{name}" for name, f in self._functions.items() if not is_private(f)]
        if len(public) > 1:
            advice = how.format(public[0][1:])
            raise PassError(f"expected one public function, got {', '.join(public)}; {advice}")
        return self.name

    @analysis
    def in_tree(self) -> PyTreeDef:
        """The pytree of ``(args, kwargs)`` that a call takes."""
        return self._tree("jaxpr.in_tree", len(self.in_avals), _flat_arguments)

    @analysis
    def out_tree(self) -> PyTreeDef:
        """The pytree of a call's result."""
        return self._tree("jaxpr.out_tree", len(self.out_avals), _flat_results)

    def _tree(self, name: str, n: int, default: Callable[[int], Any]) -> Any:
        with context():
            attributes = self._function(self.name).attributes
            if name not in attributes:
                return default(n)
            tree = pytrees.decode(attributes[name])
        if tree.num_leaves != n:
            raise JaxmlirError(f"{name} has {tree.num_leaves} leaves, @{self.name} has {n} values")
        return tree

    @analysis
    def arg_names(self) -> tuple[str, ...]:
        """The user's names of the flat arguments (``params['w']``); empty if unknown."""
        with context():
            return locations.names_of_arguments(self._function(self.name))

    def name_of_argument(self, index: int) -> str:
        """What to call a flat argument: as the user's function does (``params['w']``), or by its
        place (``0['w']``)."""
        if self.arg_names[index]:
            return self.arg_names[index]
        args, kwargs = pytrees.of_placeholders(self.in_tree, self.in_avals)
        path = jax.tree_util.tree_flatten_with_path((args, kwargs))[0][index][0]
        (side, first, *rest) = path
        return str(first.idx if side.idx == 0 else first.key) + jax.tree_util.keystr(rest)

    @analysis
    def in_avals(self) -> tuple[Any, ...]:
        """The abstract values of the flat arguments."""
        return self._avals(self._function(self.name).type.inputs)

    @analysis
    def out_avals(self) -> tuple[Any, ...]:
        """The abstract values of the flat results."""
        return self._avals(self._function(self.name).type.results)

    def _avals(self, types: Sequence[ir.Type]) -> tuple[Any, ...]:
        try:
            return tuple(map(aval_of, types))
        except ImportingError as e:
            raise self.at_function(self._function(self.name), e) from e

    def at_function(self, function: func.FuncOp, error: ImportingError) -> ImportingError:
        """An error of a function's types, with its name and place."""
        place = locations.position(function.location)
        return at_op(ImportingError, error, "func.func", place, f"op @{function.name.value}")

    def check_types(self, function: func.FuncOp) -> None:
        """Sees to it that arguments and results are of types of the dialect.

        Raises:
          ImportingError: one is not; names the function and its place.
        """
        try:
            for type_ in (*function.type.inputs, *function.type.results):
                aval_of(type_)
        except ImportingError as e:
            raise self.at_function(function, e) from e

    @property
    def widths(self) -> AbstractContextManager[Any]:
        """A context in which JAX leaves the types of arguments and results as they are, 64 bits
        wide or not."""
        return widths_of((*self.in_avals, *self.out_avals))


def check_program(program: Any) -> None:
    """Sees to it that what is to be evaluated op by op has ops, and is no function.

    Raises:
      ArgumentError: it is no program.
    """
    if not isinstance(program, Module):
        raise ArgumentError(
            f"expected a Program, as jaxmlir.trace(f)(*args) makes of a function, got {program!r}"
        )


VERSION = "jaxpr.version"
"""The attribute in which a module says its version of the dialect."""


def version_fault(version: object) -> str:
    """The fault of a version; empty where this jaxmlir reads it, as it does all earlier ones."""
    try:
        numbers = tuple(map(int, str(version).split(".")))
    except ValueError:
        return f"the malformed dialect version {version!r}"
    if numbers > tuple(map(int, DIALECT_VERSION.split("."))):
        return (
            f"version {version} of the jaxpr dialect; this jaxmlir knows versions up to "
            f"{DIALECT_VERSION}: install a newer one"
        )
    return ""


def version_faults(module: ir.Module, filename: str) -> list[Diagnostic]:
    """The faults of a module's version; a module that says none is of any."""
    operation = module.operation
    if VERSION not in operation.attributes:
        return []
    attr = operation.attributes[VERSION]
    fault = version_fault(attr.value if isinstance(attr, ir.StringAttr) else str(attr))
    message = f"'builtin.module' op attribute '{VERSION}': it has {fault}"
    diagnostic = Diagnostic("error", message, *file_line_col(operation.location))
    return [diagnostic.placed(filename)] if fault else []
