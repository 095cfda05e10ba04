"""``jaxpr-discharge-refs``: references that a function makes itself become values.

A function may keep state in references: ``new_ref`` makes one, ``get``, ``swap`` and ``addupdate``
read and write it, called functions take it as an argument, and ``freeze`` ends it::

    r = new_ref(x);  r[0] += y;  freeze(r)    =    x.at[0].add(y)

Seen from outside such a function is pure, and there is an equal one without references: a read
gives what was written last, and loops, branches and calls take and return the values they change.

Derivatives and batches are those of the pure form, so passes that take them do this first.  What an
op does to the values of references is asked of JAX's rules, which it has for its lowering.
References that the program is given stay, and so do those of kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax

from jaxmlir import codec, locations
from jaxmlir._compat import core, state_types
from jaxmlir.errors import Diagnostic, TransformError
from jaxmlir.ir import func, ir, module_bytecode, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import callees_first, ops_of
from jaxmlir.passes._rules import Rules
from jaxmlir.types import aval_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

_MAKERS = frozenset({"jaxpr.new_ref", "jaxpr.empty_ref"})
_ENDS = frozenset({"jaxpr.freeze", "jaxpr.free_ref"})
# Other attributes ask for a certain kind of memory.
_PLAIN = frozenset({"jaxpr.effects", "jaxpr.ctx", "kind", "ty"})


@dataclass(frozen=True)
class DischargeRefs(Pass):
    """Turn references that functions make themselves into values."""

    name: ClassVar[str] = "jaxpr-discharge-refs"

    def run(self, program: Program) -> None:
        discharge_refs(program)


def discharge_refs(program: Program) -> None:
    """Rewrites the functions that make references, under the names they have.

    Raises:
      TransformError: an op that takes or makes a reference has no pure form; names it.
    """
    # Bytecode has each name once: nothing else tells as soon that there are none.
    bytecode = module_bytecode(program.module)
    if not any(maker.removeprefix("jaxpr.").encode() in bytecode for maker in _MAKERS):
        return
    program.trace_rules()
    with scope():
        rules = Rules(program)
        for symbol in list(callees_first(program.functions)):
            function = program.functions[symbol]
            if not any(map(_is_ref, function.type.inputs)):
                _discharge(rules, function)
    program.changed()


def _is_ref(type_: ir.Type) -> bool:
    return isinstance(aval_of(type_), state_types.AbstractRef)


def _discharge(rules: Rules, function: func.FuncOp) -> None:
    """Rewrites a function that is given no reference; those that it calls have been rewritten."""
    state: dict[ir.Value, ir.Value] = {}
    done = []
    for op, name, operands in list(ops_of(function)):
        refs = [v for v in operands if v in state]
        if name in _MAKERS:
            state[op.result] = _first_value(rules, op, name)
        elif name == "jaxpr.freeze":
            op.result.replace_all_uses_with(state[operands[0]])
        elif refs and name not in _ENDS:
            with ir.InsertionPoint(op), op.location:
                rule = rules.discharge(op, name)
                outs = rule.inline([state.get(v, v) for v in operands])
            n = len(op.results)
            for old, new in zip(op.results, outs[:n], strict=True):
                old.replace_all_uses_with(new)
            state.update(zip(refs, outs[n:], strict=True))
        elif not refs:
            _forget(op)
            continue
        done.append(op)
    for op in reversed(done):
        op.operation.erase()


def _first_value(rules: Rules, op: Any, name: str) -> ir.Value:
    """What a new reference holds."""
    special = [key for key, _ in op.attributes.items() if key not in _PLAIN]
    if special:
        message = f"'{name}' op cannot become a value: it asks for {', '.join(special)}"
        raise TransformError([Diagnostic("error", message, *locations.position(op.location))])
    if name == "jaxpr.new_ref":
        return op.operands[0]
    aval = aval_of(op.result.type).inner_aval
    with ir.InsertionPoint(op), op.location:
        key = ("empty", aval.shape, aval.dtype)
        (value,) = rules.emit(lambda: [jax.lax.empty(aval.shape, aval.dtype)], [], key)
    return value


def _forget(op: Any) -> None:
    """Takes the effect of making references off a call: the function called does not any more."""
    attributes = op.attributes
    if "jaxpr.effects" in attributes:
        internal = codec.encode(core.internal_mutable_array_effect)
        effects = attributes["jaxpr.effects"]
        left = [effect for effect in effects if effect != internal]
        if not left:
            del attributes["jaxpr.effects"]
        elif len(left) < len(effects):
            attributes["jaxpr.effects"] = ir.ArrayAttr.get(left)
