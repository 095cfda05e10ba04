"""What calling a function of a module takes and gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir._compat import core, effects, state_types
from jaxmlir.analysis.liveness import liveness_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, func, ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ImportingError

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


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
            # References of this process may be constants, of which no effect needs to tell: a
            # custom rule writes to them.
            closes_over_refs = any(isinstance(b.value, core.Ref) for b in program._handles.values())
            try:
                found = _signature(function, listed, closes_over_refs)
            except ImportingError as e:
                raise program.at_function(function, e) from e
        self[symbol] = found
        return found


def call_signature(program: Module, symbol: str) -> CallSignature:
    """The signature of a function of a module.

    Raises:
      ImportingError: an argument or result has a type that is none of the dialect's.
    """
    return program.get_analysis(_Signatures)[symbol]


def _signature(
    function: func.FuncOp, effect_lists: Iterable[ir.ArrayAttr], closes_over_refs: bool
) -> CallSignature:
    type_ = function.type
    found = {codec.decode(item) for items in effect_lists for item in items}
    operands = tuple(map(aval_of, type_.inputs))
    internal = getattr(core, "InternalMutableArrayEffect", ())
    uses_refs = (
        closes_over_refs
        or any(isinstance(e, (effects.JaxprInputEffect, internal)) for e in found)
        or any(isinstance(aval, state_types.AbstractRef) for aval in operands)
    )
    return CallSignature(operands, tuple(map(aval_of, type_.results)), frozenset(found), uses_refs)
