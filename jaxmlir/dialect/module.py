"""A module of the dialect and what it refers to; passes and transformations work on these.

:class:`jaxmlir.program.program.Program` is a subclass with all that users do to programs.
"""

from __future__ import annotations

import functools
import itertools
import reprlib
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    TransformError,
    at_op,
    count,
    nearest,
)
from jaxmlir.support.lazy import analysis, forget_analyses
from jaxmlir.targets import Target, default_target, target

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


_ASSIGNABLE = ("module", "target")


class Module:
    """A module of the dialect, its constants and handles, and analyses of it.

    Args:
      module: the functions; a call runs the first public one.
      constants: arrays too large for the module, by the name that their ops give.
      handles: Python objects that the module names, by name.
      custom_calls: the custom calls that a module from somebody else may make (see
        :mod:`jaxmlir.dialect.custom_calls`); ``None`` for a module of one's own.

    Attributes:
      rule_tracing: traces custom derivative rules when they are needed; a
        :class:`jaxmlir.bridge.custom_rules.schedule.RuleTracing`.
      state: replaced by a new object at each change.
      core: an object with the same state as the module, which the equations that call it refer to.
        JAX keeps a function's trace for as long as the function lives, so the traced call must not
        keep the function, i.e. the module itself, alive.
    """

    _internal = frozenset(
        """at_function become check_types chosen core custom_calls custom_calls_found
        exporter exporters get_analysis has_untraced_rules lacks module_as_is
        name_of_argument new_rule_tracing of_import reread rule_tracing sizes_scope state
        taken_names widths written_module""".split()
    )
    """Attributes for the rest of jaxmlir, not for users' programs; ``dir`` leaves them out."""

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
        # The scope of the caller's symbolic sizes, if the module was made for such sizes.
        self.sizes_scope: Any | None = None
        self._target: Target | None = None
        self._analyses: dict[Callable[[Any], Any], Any] = {}
        # Makers of jaxprs, which refer to the module's functions by their symbols.
        self.exporters: weakref.WeakSet[Any] = weakref.WeakSet()
        self.rule_tracing: Any = self.new_rule_tracing()
        self.changed()

    def __dir__(self) -> list[str]:
        """The names that users may rely on, without those that only jaxmlir itself uses."""
        names = {*super().__dir__()} - _internal_names(type(self))
        return sorted(name for name in names if name.startswith("__") or not name.startswith("_"))

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name.startswith("_") or name in _ASSIGNABLE or name in _internal_names(type(self))):
            can = " and ".join(_ASSIGNABLE)
            raise AttributeError(
                f"the attribute {name!r} of a {type(self).__name__} cannot be assigned, only {can}"
            )
        object.__setattr__(self, name, value)

    def new_rule_tracing(self, *imported: Any) -> Any:
        """The tracer of this module's custom derivative rules.  For an imported module, it is given
        the table of its untraced rules, and the importer."""
        raise NotImplementedError

    @classmethod
    def of_import(cls, importer: Any) -> Self:
        """The module that a :class:`jaxmlir.bridge.importer.Importer` has written."""
        result = cls(importer.module)
        # Rules that are traced later add constants and handles of their own.
        result._constants, result._handles = importer.constants, importer.handles
        if importer.pending:
            importer.pending.program = result.core
            result.rule_tracing = result.new_rule_tracing(importer.pending.table, importer)
        return result

    @property
    def module(self) -> ir.Module:
        """The MLIR module.  Passes change it in place; call :meth:`changed` after doing so."""
        self.rule_tracing.looked_at()
        return self._module

    @module.setter
    def module(self, module: ir.Module) -> None:
        if not isinstance(module, ir.Module):
            raise ArgumentError(f"module: expected an MLIR module, got {reprlib.repr(module)}")
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
        """The boxes that keep alive the Python objects that the module names by handle."""
        self.rule_tracing.looked_at()
        return self._handles

    @property
    def has_untraced_rules(self) -> bool:
        """Whether custom derivative rules are still to be traced."""
        return self.rule_tracing.waiting

    def trace_rules(self, *, within: Collection[str] | None = None, of: Any = None) -> None:
        """Traces custom derivative rules that are not traced yet.

        If a rule cannot be traced, no error is raised: its op records the reason.

        Args:
          within: only trace the rules of ops in these functions.  The derivative of a run needs
            just the rules of ops that the run executes; only the second derivative needs the rules
            of ops in those rules.
          of: only trace the rules of this op.
        """
        self.rule_tracing.trace(within=within, of=of)

    def get_analysis(self, kind: Callable[[Self], T]) -> T:
        """``kind(module)``, kept until the module changes."""
        cached = self._analyses.get(kind)
        if cached is None:
            cached = self._analyses[kind] = kind(self.core)
        return cached

    def reread(self) -> None:
        """Drops cached facts after an importer has added to the module."""
        self.__dict__.pop("_functions", None)
        self._analyses.clear()

    def become(self, other: Module) -> None:
        """Takes over the module of another program that computes the same, and keeps what was
        compiled.

        Jaxprs that were made from the module so far still refer to the old module.
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

    def lacks(self, names: Collection[str]) -> bool:
        """Whether it is known that no op has any of these names."""
        return False

    def changed(self, functions: dict[str, func.FuncOp] | None = None) -> None:
        """Drops everything that was derived from the module, whose functions the caller may
        know."""
        self.state: object = object()
        self._analyses.clear()
        forget_analyses(self)
        if functions is not None:
            self._functions = functions

    def clone(self, *, hold_rules: bool = False, among: Collection[str] | None = None) -> Self:
        """A copy whose module can be changed; constants and handles are shared.

        Args:
          hold_rules: leave untraced custom rules untraced in the copy until its
            ``rule_tracing.held`` is unset; by default they are traced now.
          among: the functions to copy, by default all.
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
        """The target that passes assume the program is compiled for: the one that was given, or
        else JAX's default device."""
        return self._default_target() if self._target is None else self._target

    @target.setter
    def target(self, value: str | Target) -> None:
        self._target = target(value)

    def _default_target(self) -> Target:
        return default_target()

    # -- text --

    def as_text(self, *, debug_info: bool = False) -> str:
        """The module as MLIR text.  Constants of the side table appear by name only.

        Args:
          debug_info: also print locations: the user's Python lines and JAX's name stacks.
        """
        return mlir_ir.module_text(self.written_module(), debug_info=debug_info)

    def written_module(self) -> ir.Module:
        """The module to write to a file, without marks that only this process understands."""
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
        return functions(self._module)

    @analysis
    def taken_names(self) -> set[str]:
        """The symbols that importers have found taken or are about to add."""
        return set()

    def function(self, symbol: str) -> func.FuncOp:
        """The function ``@symbol``.

        Raises:
          JaxmlirError: the module has no such function.
        """
        self.rule_tracing.looked_at()
        return self._function(symbol)

    def _function(self, symbol: str) -> func.FuncOp:
        """The function ``@symbol``, whose ops may lack untraced rules."""
        function = self._functions.get(symbol)
        if function is None:
            # A pass may have added it since.
            self.reread()
            function = self._functions.get(symbol)
        if function is None:
            meant = nearest(str(symbol), self._functions)
            has = [f"@{name}" for name in itertools.islice(self._functions, 8)] or ["none"]
            more = ["..."] if len(self._functions) > len(has) else []
            hint = f"did you mean @{meant}?" if meant else f"it has {', '.join(has + more)}"
            raise JaxmlirError(f"the module has no function @{symbol}; {hint}")
        return function

    @analysis
    def name(self) -> str:
        """The symbol of the function that a call of the program runs: the first public one."""
        with context():
            for symbol, op in self._functions.items():
                if not is_private(op):
                    return symbol
        raise JaxmlirError("the module has no public function to call")

    def chosen(self, symbol: str, how: str = "choose one with func=") -> str:
        """The function that an option of a pass names, or the public function by default.

        Args:
          how: advice for the case of several public functions.

        Raises:
          JaxmlirError: no function is public.
          PassError: several functions are public.
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
            raise JaxmlirError(
                f"{name} of @{self.name}: expected {n} leaves, got {tree.num_leaves}"
            )
        return tree

    @analysis
    def arg_names(self) -> tuple[str, ...]:
        """The user's names of the flat arguments (``params['w']``); empty if unknown."""
        with context():
            return locations.names_of_arguments(self._function(self.name))

    def name_of_argument(self, index: int) -> str:
        """The name of a flat argument for messages: the one in the user's function
        (``params['w']``), or else one by position (``0['w']``)."""
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
        """An error about a function's types, with the function's name and position."""
        place = locations.position(function.location)
        return at_op(ImportingError, error, "func.func", place, f"op @{function.name.value}")

    def check_types(self, function: func.FuncOp) -> None:
        """Checks that the types of arguments and results are of the dialect; an ImportingError
        names the function and the position of one that is not."""
        try:
            for type_ in (*function.type.inputs, *function.type.results):
                aval_of(type_)
        except ImportingError as e:
            raise self.at_function(function, e) from e

    @property
    def widths(self) -> AbstractContextManager[Any]:
        """A context in which JAX keeps the types of arguments and results, even those of 64
        bits."""
        return widths_of((*self.in_avals, *self.out_avals))


@functools.cache
def _internal_names(cls: type[Module]) -> frozenset[str]:
    """The attributes that a class and its bases have for the rest of jaxmlir."""
    return frozenset().union(*(getattr(base, "_internal", ()) for base in cls.__mro__))


def check_program(program: Any) -> None:
    """Checks that an object to be evaluated op by op is a program; an ArgumentError if it is
    not."""
    if not isinstance(program, Module):
        raise ArgumentError(
            f"expected a Program, as jaxmlir.trace(f)(*args) returns, got {program!r}"
        )


VERSION = "jaxpr.version"
"""The attribute that gives a module's version of the dialect."""


def version_fault(version: object) -> str:
    """The fault of a dialect version; empty if this jaxmlir can read it, as all earlier ones."""
    try:
        numbers = tuple(map(int, str(version).split(".")))
    except ValueError:
        return f"the malformed dialect version {version!r}"
    if numbers > tuple(map(int, DIALECT_VERSION.split("."))):
        return (
            f"version {version} of the jaxpr dialect; this jaxmlir knows versions up to "
            f"{DIALECT_VERSION}: install a newer jaxmlir"
        )
    return ""


def version_faults(module: ir.Module, filename: str) -> list[Diagnostic]:
    """The faults of a module's version; none for a module without a version."""
    operation = module.operation
    if VERSION not in operation.attributes:
        return []
    attr = operation.attributes[VERSION]
    fault = version_fault(attr.value if isinstance(attr, ir.StringAttr) else str(attr))
    if not fault:
        return []
    message = f"'builtin.module' op attribute '{VERSION}': it has {fault}"
    diagnostic = Diagnostic("error", message, *file_line_col(operation.location))
    return [diagnostic.placed(filename)]


def named_arguments(program: Module, symbol: str, numbers: Iterable[int]) -> tuple[bool, ...]:
    """Which flat arguments of ``@symbol`` an option lists by number; an error if there is no such
    one."""
    function = program.function(symbol)
    program.check_types(function)
    total, numbers = len(function.arguments), set(numbers)
    for i in sorted(numbers):
        if not 0 <= i < total:
            has = f"@{symbol} has {count(total, 'argument')}, but none of number {i}, from 0"
            raise at_function(function, has)
    return tuple(i in numbers for i in range(total))


def at_function(function: func.FuncOp, message: str) -> TransformError:
    """An error about a function as a whole."""
    return locations.error_at(TransformError, function.location, message)


def at_public(program: Module, message: str) -> TransformError:
    """An error about the function that a call of the program runs."""
    return at_function(program.function(program.name), message)
