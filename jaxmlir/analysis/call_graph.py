"""Which functions of a program refer to which."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from jaxmlir._compat import core, effects, state_types
from jaxmlir.analysis.liveness import liveness_of
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.builder import named_ops, symbols_of
from jaxmlir.dialect.ir import context, func, ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.kernels import HARDWARE
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ImportingError
from jaxmlir.support.graphs import below_first, reached

# The op names for callers that look for loops with a known trip count.
SCANS = frozenset({"jaxpr.scan"})


class CallGraph:
    """The functions of a program and the symbols in them, from one walk over the ops.

    Attributes:
      ops: the ops of each function before its return, with their names.
      uses: the symbols that each function's ops refer to, once for each reference.
      names: the names of each function's ops.
    """

    def __init__(self, functions: dict[str, func.FuncOp]):
        self._functions = functions
        self.ops: dict[str, list[tuple[Any, str]]] = {}
        self.uses: dict[str, list[str]] = {}
        self.names: dict[str, set[str]] = {}
        self._of_kernels: set[str] = set()
        for symbol, function in functions.items():
            uses = self.uses[symbol] = []
            ops = self.ops[symbol] = named_ops(function)
            names = self.names[symbol] = {name for _, name in ops}
            if not any(map(may_have_functions, names)):
                continue
            for op, name in ops:
                if may_have_functions(name):
                    symbols = list(symbols_of(op))
                    uses += symbols
                    if name in KERNELS:
                        self._of_kernels.update(symbols)

    def counts(self) -> collections.Counter[str]:
        """How often each symbol is referred to."""
        return collections.Counter(use for uses in self.uses.values() for use in uses)

    def entry_points(self) -> list[str]:
        """The public functions, and those that no other refers to."""
        referred = set().union(*self.uses.values())
        return [
            symbol
            for symbol, function in self._functions.items()
            if symbol not in referred or not is_private(function)
        ]

    def callees_first(self, roots: Iterable[str] | None = None) -> Iterator[str]:
        """The functions, by default all, each after the functions it refers to, except within
        cycles."""
        uses = {
            symbol: [use for use in dict.fromkeys(symbols) if use in self.uses]
            for symbol, symbols in self.uses.items()
        }
        return below_first(uses if roots is None else roots, uses.__getitem__)

    def kernels(self) -> set[str]:
        """The functions of kernels (Pallas and the like), which may not contain every op."""
        return self._below(self._of_kernels)

    def run_by(self, names: Collection[str]) -> set[str]:
        """The functions that ops with these names refer to, directly or not."""
        return self._below(
            symbol
            for function, ops in self.ops.items()
            if self.have(function, names)
            for op, name in ops
            if name in names
            for symbol in symbols_of(op)
        )

    def _below(self, symbols: Iterable[str]) -> set[str]:
        """The functions that some symbols reach, directly or not, themselves included."""
        known = self.uses.keys()
        return reached(symbols, lambda symbol: self.uses.get(symbol, ())) & known

    def have(self, symbol: str, names: Collection[str]) -> bool:
        """Whether a function has an op with one of the names."""
        return not self.names[symbol].isdisjoint(names)

    def outside_kernels(self, names: Collection[str] | None = None) -> list[func.FuncOp]:
        """The functions that are not kernels and are not called by one; with names, those that have
        such an op."""
        skipped = self.kernels()
        return [
            self._functions[symbol]
            for symbol in self.uses
            if symbol not in skipped and (names is None or self.have(symbol, names))
        ]


KERNELS = ops.names(HARDWARE.ops)

# Attributes that do not affect how the called function is compiled.
_PLAIN = frozenset(
    {"jaxpr", "call_jaxpr", "name", "inline", "keep_unused", "donated_invars", "jaxpr.effects"}
)
CALLS = frozenset({"jaxpr.jit", "jaxpr.call", "jaxpr.closed_call", "jaxpr.eval_jaxpr"})


def callee_of(op: Any, name: str, functions: dict[str, func.FuncOp]) -> str | None:
    """The function that an op calls, if inlining the call loses nothing; else ``None``."""
    if not is_plain_call(op, name):
        return None
    attributes = op.attributes
    symbol = attributes["jaxpr" if "jaxpr" in attributes else "call_jaxpr"].value
    callee_attrs = functions[symbol].attributes
    return None if "no_inline" in callee_attrs or "jaxpr.num_constvars" in callee_attrs else symbol


def is_plain_call(op: Any, name: str) -> bool:
    """Whether an op is a call without attributes of its own, such as shardings."""
    return name in CALLS and all(key in _PLAIN for key, _ in op.attributes.items())


class CallSignature(NamedTuple):
    """Operands, results and effects of a function, as JAX has them."""

    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    effects: Any
    uses_refs: bool


class _Signatures(dict[str, CallSignature]):
    """The signatures of a module's functions, each found when it is first asked for."""

    def __init__(self, program: Module):
        super().__init__()
        self._program = program

    def __missing__(self, symbol: str) -> CallSignature:
        program = self._program
        with context():
            function = program._function(symbol)
            listed = liveness_of(program).listed_effects(symbol)
            # Constants may be references of this process.  A custom rule may write to them without
            # listing an effect.
            closes_over_refs = any(isinstance(b.value, core.Ref) for b in program._handles.values())
            try:
                signature = _signature(function, listed, closes_over_refs)
            except ImportingError as e:
                raise program.at_function(function, e) from e
        self[symbol] = signature
        return signature


def call_signature(program: Module, symbol: str) -> CallSignature:
    """The signature of a function of a module; an error if a type is not one of the dialect's."""
    return program.get_analysis(_Signatures)[symbol]


def _signature(
    function: func.FuncOp, effect_lists: Iterable[ir.ArrayAttr], closes_over_refs: bool
) -> CallSignature:
    type_ = function.type
    effect_set = {codec.decode(item) for items in effect_lists for item in items}
    operands = tuple(map(aval_of, type_.inputs))
    internal = getattr(core, "InternalMutableArrayEffect", ())
    uses_refs = (
        closes_over_refs
        or any(isinstance(e, (effects.JaxprInputEffect, internal)) for e in effect_set)
        or any(isinstance(aval, state_types.AbstractRef) for aval in operands)
    )
    return CallSignature(
        operands, tuple(map(aval_of, type_.results)), frozenset(effect_set), uses_refs
    )
