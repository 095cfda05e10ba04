"""The functions of a program: what they are called, take and give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from jaxmlir._compat import core, effects, state_types
from jaxmlir.dialect import codec, locations, pytrees
from jaxmlir.dialect.ir import context, func, functions, ir, is_private
from jaxmlir.dialect.types import aval_of, widths_of
from jaxmlir.errors import ImportingError, JaxmlirError, PassError, at_op, nearest
from jaxmlir.program import arguments
from jaxmlir.support.cached import analysis

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Signature(NamedTuple):
    """What calling a function takes and gives."""

    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    effects: Any
    uses_refs: bool


class Code(NamedTuple):
    """Where a function is, under the names that Python's code objects have for it."""

    co_filename: str
    co_firstlineno: int


class _OfInstances(property):
    """A property that the class has not: where ``inspect`` asks that for its own signature."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError
        return super().__get__(instance, owner)


@functools.lru_cache(1024)
def _flat_arguments(n: int) -> Any:
    """The pytree of ``n`` arguments without structure."""
    return jax.tree.structure(((0,) * n, {}))


@functools.lru_cache(1024)
def _flat_results(n: int) -> Any:
    return jax.tree.structure(0 if n == 1 else (0,) * n)


class Functions:
    """The part of :class:`jaxmlir.program.program.Program` that reads the module's functions."""

    @property
    def functions(self) -> dict[str, func.FuncOp]:
        """The module's functions by symbol."""
        self.rule_tracing.looked_at()
        return self._functions

    @analysis
    def _functions(self) -> dict[str, func.FuncOp]:
        return functions(self._module) | self.lent

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
        """Likewise; its ops may lack the custom rules that are not traced yet."""
        found = self._functions.get(symbol)
        if found is None:
            # A pass may have added it since.
            self.reread()
            found = self._functions.get(symbol)
        if found is None:
            meant = nearest(str(symbol), self._functions)
            hint = f"; did you mean @{meant}?" if meant else ""
            raise JaxmlirError(f"the module has no function @{symbol}{hint}")
        return found

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

    @property
    def __name__(self) -> str:
        """The same, as JAX calls functions that it stages out."""
        return self.name

    @property
    def __code__(self) -> Code:
        """Where the user's function is: JAX asks that of all that it traces, and asks for the text
        of what cannot say."""
        with context():
            file, line, _ = locations.position(self._function(self.name).location)
        return Code(file, line)

    @_OfInstances
    def __signature__(self) -> Any:
        """What :func:`inspect.signature` gives: that of the user's function, where it is known."""
        return arguments.signature_of(self)

    @analysis
    def in_tree(self) -> Any:
        """The pytree of ``(args, kwargs)`` that a call takes."""
        return self._tree("jaxpr.in_tree", len(self.in_avals), _flat_arguments)

    @analysis
    def out_tree(self) -> Any:
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
        """What the user's function calls the flat arguments (``params['w']``); empty if unknown."""
        with context():
            return locations.names_of_arguments(self._function(self.name))

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
            raise self._at_function(self._function(self.name), e) from e

    def _at_function(self, function: func.FuncOp, error: ImportingError) -> ImportingError:
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
            raise self._at_function(function, e) from e

    def signature(self, symbol: str) -> Signature:
        """Operands, results and effects of a function, as JAX has them."""
        found = self._signatures.get(symbol)
        if found is None:
            with context():
                function = self._function(symbol)
                listed = self.liveness.listed_effects(symbol)
                try:
                    found = _signature(function, listed, self._closes_over_refs)
                except ImportingError as e:
                    raise self._at_function(function, e) from e
            self._signatures[symbol] = found
        return found

    @property
    def _closes_over_refs(self) -> bool:
        """Whether references of this process may be constants, of which no effect needs to tell:
        a custom rule writes to them."""
        return any(isinstance(box.value, core.Ref) for box in self._handles.values())

    @property
    def widths(self) -> AbstractContextManager[Any]:
        """Has JAX leave the types of arguments and results as they are, 64 bits wide or not."""
        return widths_of((*self.in_avals, *self.out_avals))


def _signature(
    function: func.FuncOp, effect_lists: Iterable[ir.ArrayAttr], closes_over_refs: bool
) -> Signature:
    type_ = function.type
    found = {codec.decode(item) for items in effect_lists for item in items}
    operands = tuple(map(aval_of, type_.inputs))
    internal = getattr(core, "InternalMutableArrayEffect", ())
    uses_refs = (
        closes_over_refs
        or any(isinstance(e, (effects.JaxprInputEffect, internal)) for e in found)
        or any(isinstance(aval, state_types.AbstractRef) for aval in operands)
    )
    return Signature(operands, tuple(map(aval_of, type_.results)), frozenset(found), uses_refs)
