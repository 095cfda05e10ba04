"""``jaxpr-discharge-refs``: references that a function makes itself become values.

A function may keep state in references: ``new_ref`` makes one, ``get``, ``swap`` and ``addupdate``
read and write it, called functions take it as an argument, and ``freeze`` ends it::

    r = new_ref(x);  r[0] += y;  freeze(r)    =    x.at[0].add(y)

Seen from outside, such a function is pure, and an equal one without references exists: a read gives
the value written last, and loops, branches and calls take and return the values they change.

For a function that takes references, the pass writes ``@f.pure``, which takes their values and
returns their last values besides its results; loops carry the values.  To an op without functions
the pass applies JAX's discharge rule, which JAX has for its lowering.

Derivatives and batches are those of the pure form, so the passes that compute them run this first.
References that the program is given stay, and so do those of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import jax

from jaxmlir._compat import core, effects
from jaxmlir.analysis.call_graph import CallGraph
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import codec, locations, op_signature
from jaxmlir.dialect.builder import create, returned, symbol_ref
from jaxmlir.dialect.ir import func, functions, ir, scope, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.dialect.ops.effects import MAKERS
from jaxmlir.dialect.types import aval_of, is_reference, type_of
from jaxmlir.errors import TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules

# Attributes of ops that make references; any other one asks for a certain kind of memory.
_PLAIN = frozenset({"jaxpr.effects", "jaxpr.ctx", "kind", "ty"})


def make_pure(rules: Rules) -> None:
    """Rewrites the functions that make references, and their callers."""
    program = rules.program
    for symbol in CallGraph(program.functions).callees_first():
        function = program.functions[symbol]
        if not any(map(is_reference, function.type.inputs)) and _touches_refs(function):
            _replace(rules, function)


def _value_type(type_: ir.Type) -> ir.Type:
    return type_of(aval_of(type_).inner_aval) if is_reference(type_) else type_


def _touches_refs(function: func.FuncOp) -> bool:
    """Whether a function makes references, or calls one that did."""
    for op, name, _ in ops_of(function):
        attributes = op.attributes
        if name in MAKERS or (
            len(attributes)
            and "jaxpr.effects" in attributes
            and _internal() in list(attributes["jaxpr.effects"])
        ):
            return True
    return False


def _internal() -> ir.Attribute:
    return codec.encode(core.internal_mutable_array_effect)


def _replace(rules: Rules, function: func.FuncOp) -> None:
    """Puts the pure form of a function in its place."""
    symbol, count = function.name.value, len(function.arguments)
    pure = rules.program.function(pure_function(rules, symbol, tuple(range(count))))
    attributes: dict[str, Any] = dict(function.attributes.items())
    pure.operation.move_before(function.operation)
    function.operation.erase()
    for key, value in attributes.items():
        if key != "function_type":
            pure.attributes[key] = value
    rules.program.changed()


# --- functions ------------------------------------------------------------------------------------


def pure_function(
    rules: Rules,
    symbol: str,
    order: tuple[int | ir.Type, ...],
    last: Literal["before", "after", "none"] = "after",
) -> str:
    """Writes ``@symbol.pure``: the function with values in place of the references that it takes.

    Args:
      order: for each argument of the new function the number of the same argument of ``@symbol``;
        or, for the value of a reference that ``@symbol`` does not take, its type.
      last: where the references' last values are among the results; they keep the order of
        arguments.
    """
    function = rules.program.function(symbol)
    old = list(function.arguments)
    types = [_value_type(old[i].type) if isinstance(i, int) else i for i in order]
    new = NewFunction(rules, f"{symbol}.pure", types, function)
    pairs = list(zip(order, new.args, strict=True))
    values = {old[i]: value for i, value in pairs if isinstance(i, int)}
    with new.body():
        for op, name, operands in ops_of(function):
            _write(rules, op, name, operands, values)
    results = [values[v] for v in returned(function)]
    refs = [
        values[old[i]] if isinstance(i, int) else value
        for i, value in pairs
        if not isinstance(i, int) or is_reference(old[i].type)
    ]
    if last != "none":
        results = [*refs, *results] if last == "before" else [*results, *refs]
    return new.finish(results)


def _write(
    rules: Rules, op: Any, name: str, operands: list[ir.Value], values: dict[ir.Value, ir.Value]
) -> None:
    """Writes an op on values, and updates the values of the references that it changes."""
    args = [values[v] for v in operands]
    # The references among the operands, numbered.
    refs: dict[ir.Value, int] = {}
    numbers = tuple(
        refs.setdefault(v, len(refs)) if is_reference(v.type) else None for v in operands
    )
    with op.location:
        if name in MAKERS:
            values[op.result] = _first_value(rules, op, name, args)
        elif name == "jaxpr.freeze":
            values[op.result] = args[0]
        elif name == "jaxpr.free_ref":
            pass
        elif refs:
            outs = _apply(rules, op, name, args, numbers)
            n = len(op.results)
            values.update(zip(op.results, outs[:n], strict=True))
            values.update(zip(refs, outs[n:], strict=True))
        else:
            outs = create(name, list(op.results.types), args, _pure_attributes(op))
            values.update(zip(op.results, outs, strict=True))


def _first_value(rules: Rules, op: Any, name: str, args: list[ir.Value]) -> ir.Value:
    """The initial value of a new reference."""
    special = [key for key, _ in op.attributes.items() if key not in _PLAIN]
    if special:
        raise _error(op, name, f"unsupported attributes: {', '.join(special)}")
    if name == "jaxpr.new_ref":
        return args[0]
    aval = aval_of(op.result.type).inner_aval
    key = ("empty", aval.shape, aval.dtype)
    (value,) = rules.emit(lambda: [jax.lax.empty(aval.shape, aval.dtype)], [], key)
    return value


def _pure_attributes(op: Any) -> dict[str, ir.Attribute]:
    """The attributes of an op, without the effect of making references: its functions make none any
    more."""
    attributes = dict(op.attributes.items())
    effect_list = [e for e in attributes.pop("jaxpr.effects", ()) if e != _internal()]
    if effect_list:
        attributes["jaxpr.effects"] = ir.ArrayAttr.get(effect_list)
    return attributes


# --- ops ------------------------------------------------------------------------------------------

Numbers = tuple[int | None, ...]
"""For each operand the number of the reference; ``None`` if it is not a reference."""


def _apply(
    rules: Rules, op: Any, name: str, args: list[ir.Value], numbers: Numbers
) -> list[ir.Value]:
    """Writes an op on the values of references: its results, and the references' last values."""
    rule, repeats = _RULES.get(name), _repeats(numbers)
    if rule is not None and _has_no_other_effects(op) and (rule is _while or not repeats):
        outs = rule(rules, op, args, numbers)
        if outs is not None:
            return outs
    _check_rules(rules, op, name)
    if repeats:
        raise _error(op, name, "the same reference is passed to it twice")
    return rules.discharge(op, op_signature.of_op(op, name, op.operands)).inline(args)


def _repeats(numbers: Sequence[int | None]) -> bool:
    """Whether a reference is among some operands more than once."""
    refs = [n for n in numbers if n is not None]
    return len(set(refs)) < len(refs)


def _has_no_other_effects(op: Any) -> bool:
    attributes = op.attributes
    listed = map(codec.decode, attributes["jaxpr.effects"] if "jaxpr.effects" in attributes else ())
    array_effect = core.internal_mutable_array_effect
    return all(isinstance(e, effects.JaxprInputEffect) or e is array_effect for e in listed)


def _check_rules(rules: Rules, op: Any, name: str) -> None:
    """Refuses an op for which JAX's rule would lose custom derivative rules."""
    for symbol, _ in rules.custom_ops_within(op):
        message = f"@{symbol} contains an op with custom derivative rules, which would be lost"
        raise _error(op, name, message)


def _error(op: Any, name: str, reason: str) -> TransformError:
    message = f"'{name}' op: its references cannot be replaced by their values: {reason}"
    return locations.error_at(TransformError, op.location, message)


def _pure(rules: Rules, symbol: str, order: Sequence[int | ir.Type], last: str = "after") -> str:
    return rules.functions.once(pure_function, symbol, tuple(order), last)


def _call(attribute: str) -> Callable[..., list[ir.Value] | None]:
    """The rule of an op that calls one function with its operands."""

    def rule(
        rules: Rules, op: Any, args: list[ir.Value], numbers: Numbers
    ) -> list[ir.Value] | None:
        attributes = _other_attributes(op)
        if not attributes.keys() <= {attribute, *_PLAIN_CALL}:
            return None
        symbol = _pure(rules, attributes[attribute].value, range(len(args)))
        attributes[attribute] = symbol_ref(symbol)
        return _create(rules, op, symbol, args, attributes)

    return rule


# Attributes that neither count operands or results nor say where they are.
_PLAIN_CALL = frozenset(
    {"name", "inline", "keep_unused", "policy", "prevent_cse", "differentiated", "jaxpr.ctx"}
)


def _cond(rules: Rules, op: Any, args: list[ir.Value], numbers: Numbers) -> list[ir.Value]:
    attributes = _other_attributes(op)
    branches = [
        _pure(rules, branch, range(len(args) - 1)) for branch in symbol_uses(attributes["branches"])
    ]
    attributes["branches"] = ir.ArrayAttr.get([symbol_ref(b) for b in branches])
    return _create(rules, op, branches[0], args, attributes)


def _create(
    rules: Rules, op: Any, like: str, args: list[ir.Value], attributes: dict[str, Any]
) -> list[ir.Value]:
    types = list(rules.program.function(like).type.results)
    return create(op.operation.name, types, args, attributes)


def _other_attributes(op: Any) -> dict[str, Any]:
    return {key: attr for key, attr in op.attributes.items() if key != "jaxpr.effects"}


def _scan(rules: Rules, op: Any, args: list[ir.Value], numbers: Numbers) -> list[ir.Value] | None:
    """Carries the references among the loop's constants."""
    scan = ScanOp.of(op)
    consts, carry, slices = scan.operands(numbers)
    if any(n is not None for n in (*carry, *slices)):
        return None
    fixed = [i for i, n in enumerate(consts) if n is None]
    refs = [i for i, n in enumerate(consts) if n is not None]
    order = [*fixed, *refs, *range(len(consts), len(args))]
    scan.other.pop("jaxpr.effects", None)
    body = _pure(rules, scan.body, order, "before")
    new = scan.with_body(body, len(fixed), scan.num_carry + len(refs))
    outs = new.write(rules, [args[i] for i in order])
    return [*outs[len(refs) :], *outs[: len(refs)]]


def _while(rules: Rules, op: Any, args: list[ir.Value], numbers: Numbers) -> list[ir.Value] | None:
    """Carries the references among the constants; the condition and the body may share one."""
    loop = WhileOp.of(op)
    of_cond, of_body, carry = loop.operands(numbers)
    if any(n is not None for n in carry) or _repeats(of_cond) or _repeats(of_body):
        return None
    values = dict(zip(numbers, args, strict=True))
    refs = [values[n] for n in sorted(n for n in values if n is not None)]

    def order(consts: list[int | None]) -> list[int | ir.Type]:
        index_of = {n: i for i, n in enumerate(consts)}
        fixed = [i for i, n in enumerate(consts) if n is None]
        carried = [index_of.get(n, refs[n].type) for n in range(len(refs))]
        return [*fixed, *carried, *range(len(consts), len(consts) + len(carry))]

    loop.other.pop("jaxpr.effects", None)
    cond_args, body_args, init = loop.operands(args)
    cond_args = chosen(cond_args, [n is None for n in of_cond])
    body_args = chosen(body_args, [n is None for n in of_body])
    new = loop._replace(
        cond=_pure(rules, loop.cond, order(of_cond), "none"),
        body=_pure(rules, loop.body, order(of_body), "before"),
        cond_consts=len(cond_args),
        body_consts=len(body_args),
    )
    outs = new.write(rules, [*cond_args, *body_args, *refs, *init])
    return [*outs[len(refs) :], *outs[: len(refs)]]


_RULES: dict[str, Callable[..., list[ir.Value] | None]] = {
    **{name: _call(attribute) for name, attribute in CALLEES.items()},
    "jaxpr.cond": _cond,
    "jaxpr.scan": _scan,
    "jaxpr.while": _while,
}


class DischargeRefs(Pass):
    """Turn references that functions make themselves into values."""

    name: ClassVar[str] = "jaxpr-discharge-refs"

    def run(self, program: Module) -> None:
        discharge_refs(program)


def makes_references(program: Module) -> bool:
    """Whether functions of the module make references."""
    with scope():
        for function in functions(program.module_as_is).values():
            for block in function.body:
                for op in block.operations:
                    if type(op) is ir.OpView and op.name in MAKERS:
                        return True
    return False


def discharge_refs(program: Module) -> None:
    """Rewrites the functions that make references, under the names they have; names an op that has
    no pure form."""
    if not makes_references(program):
        return
    program.trace_rules()
    with scope():
        make_pure(Rules(program))
    program.changed()
