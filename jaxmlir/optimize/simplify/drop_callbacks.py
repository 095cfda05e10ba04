"""``jaxpr-drop-callbacks``: a program without debug callbacks, prints and run-time checks.

The pass removes ops that only have a side effect on the host: debug callbacks and prints,
callbacks without results, the checks of ``checkify``.  It also removes a branch with a callback
that never returns, as in ``equinox.error_if``: the other branch replaces the ``cond``, unchecked::

    cond(p, raise_error, f) = f

A callback with results stays.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any, ClassVar

from jaxmlir.dialect import codec, handles
from jaxmlir.dialect.builder import drop_dead_ops, named_ops, rename_call, symbol_ref, symbols_of
from jaxmlir.dialect.ir import ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Pass
from jaxmlir.rewriting.driver import keep_reachable

_PRINT = "jaxpr.debug_print"
_CALLBACKS = frozenset({"jaxpr.pure_callback", "jaxpr.io_callback", "jaxpr.debug_callback"})
_WITHOUT_RESULTS = frozenset({*_CALLBACKS, _PRINT, "jaxpr.inspect_sharding", "jaxpr.check"})
# Effects of host ops; ops that call a function with such ops list them too.
_EFFECTS = frozenset({"DebugEffect", "OrderedDebugEffect", "IOEffect", "OrderedIOEffect"})


class DropCallbacks(Pass):
    """Remove debug callbacks, prints and run-time checks.

    Options:
      keep-print: keep prints of a format string and values, which need no Python object.
    """

    name: ClassVar[str] = "jaxpr-drop-callbacks"
    keep_print: bool = False

    def run(self, program: Module) -> bool:
        changed = self._drop_ops(program) | _drop_branches(program)
        if changed:
            _drop_effects(program)
            for function in program.functions.values():
                drop_dead_ops(function)
            public = [name for name, op in program.functions.items() if not is_private(op)]
            keep_reachable(program, public)
        return changed

    def _drop_ops(self, program: Module) -> bool:
        changed = False
        for function in program.functions.values():
            for op, name in named_ops(function):
                if name not in _WITHOUT_RESULTS or len(op.results):
                    continue
                if name != _PRINT or not self.keep_print:
                    op.operation.erase()
                elif "logging_record" in op.attributes:
                    del op.attributes["logging_record"]
                else:
                    continue
                changed = True
        return changed


def is_dropped(op: Any, name: str) -> bool:
    """Whether the pass can remove an op, alone or with the branch that it is in."""
    if name in _WITHOUT_RESULTS and not len(op.results):
        return True
    return any(_never_returns(other, other.operation.name) for other in op.operation.block)


def _drop_branches(program: Module) -> bool:
    """Replaces each ``cond`` of which only one branch returns by a call of that branch."""
    functions, changed = program.functions, False
    stuck: dict[str, bool] = {}

    def never_returns(symbol: str) -> bool:
        if symbol not in stuck:
            # A recursive function returns on the paths without a recursive call.
            stuck[symbol] = False
            stuck[symbol] = any(
                _never_returns(op, name)
                or (name == "jaxpr.jit" and never_returns(op.attributes["jaxpr"].value))
                for op, name in named_ops(functions[symbol])
            )
        return stuck[symbol]

    for function in list(functions.values()):
        for op, name in named_ops(function):
            if name != "jaxpr.cond":
                continue
            branches = [branch.value for branch in op.attributes["branches"]]
            returning = [symbol for symbol in branches if not never_returns(symbol)]
            if len(returning) == 1 < len(branches):
                symbol = returning[0]
                called = {"jaxpr": symbol_ref(symbol), "name": ir.StringAttr.get(symbol)}
                rename_call(op, "jaxpr.jit", called, list(op.operands)[1:])
                changed = True
    return changed


def _never_returns(op: Any, name: str) -> bool:
    """Whether an op calls a Python function of this process that always raises an error."""
    if name not in _CALLBACKS or "callback" not in op.attributes:
        return False
    names = [item.attr.value for item in op.attributes["callback"] if item.name == codec.HANDLE]
    box = handles.find_box(names[0]) if names else None
    function = getattr(box and box.value, "callback_func", None)
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, types.FunctionType):
        return False
    instructions = {instruction.opname for instruction in dis.get_instructions(function)}
    return "RAISE_VARARGS" in instructions and not any(
        name.startswith(("RETURN_", "YIELD_")) for name in instructions
    )


def _drop_effects(program: Module) -> None:
    """Removes effects that callees no longer have from the effect lists of calling ops."""
    functions = program.functions
    listed: dict[str, set[ir.Attribute]] = {}

    def of_function(symbol: str) -> set[ir.Attribute]:
        if symbol not in listed:
            listed[symbol] = set()
            for op, _ in named_ops(functions[symbol]):
                if "jaxpr.effects" not in op.attributes:
                    continue
                effects = set(op.attributes["jaxpr.effects"])
                callees = list(symbols_of(op, custom_rules=False))
                if callees:
                    below = set().union(*map(of_function, callees))
                    effects = {e for e in effects if e in below or not _is_of_host(e)}
                    if effects:
                        attribute = ir.ArrayAttr.get(sorted(effects, key=str))
                        op.attributes["jaxpr.effects"] = attribute
                    else:
                        del op.attributes["jaxpr.effects"]
                listed[symbol] |= effects
        return listed[symbol]

    for symbol in functions:
        of_function(symbol)


def _is_of_host(effect: ir.Attribute) -> bool:
    return isinstance(effect, ir.DictAttr) and any(item.name in _EFFECTS for item in effect)
