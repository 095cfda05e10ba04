"""Helpers for transformations, to walk a function and to build a new one beside it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from typing import Any

import numpy as np
from jax import lax

from jaxmlir._compat import core, dtypes, jax_mlir_ext
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.custom_rule_ops import ATTRIBUTES
from jaxmlir.dialect.effect_attributes import effects_of, is_lasting
from jaxmlir.dialect.ir import (
    body_of,
    func,
    functions_around,
    inner_ops,
    ir,
    is_foreign,
    is_private,
    symbol_uses,
)
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of, is_key, shape_of, type_of, with_shape
from jaxmlir.errors import Diagnostic, PassError
from jaxmlir.support import graphs


def attribute(op: Any, name: str, default: Any = None) -> Any:
    """An op's attribute as a Python value: numbers, tuples, dtypes, JAX's enumerations ..."""
    attributes = op.attributes
    return codec.decode(attributes[name]) if name in attributes else default


def symbols_in(op: Any, name: str) -> tuple[str, ...]:
    """The symbols that an attribute of an op refers to; none where it is absent."""
    return symbol_uses(op.attributes[name]) if name in op.attributes else ()


def overwrites(op: Any) -> bool:
    """Whether a ``jaxpr.scatter`` writes its updates as they are; the scatter of
    ``x.at[i].apply(f)`` writes ``f`` of the current elements instead."""
    return "update_jaxpr" not in op.attributes


def window_sizes(numbers: Any, update: Sequence[int]) -> list[int]:
    """The size, in the array, of a window that a scatter with these dimension numbers writes;
    ``update`` is its shape in the scatter's updates."""
    sizes = list(update)
    for axis in sorted((*numbers.inserted_window_dims, *numbers.operand_batching_dims)):
        sizes.insert(axis, 1)
    return sizes


def gather_of(numbers: Any) -> lax.GatherDimensionNumbers:
    """The dimension numbers of the gather that reads what a scatter with ``numbers`` writes."""
    return lax.GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )


def named_ops(function: func.FuncOp) -> list[tuple[Any, str]]:
    """The ops before the return, with their names."""
    ops = body_of(function).operations
    named = [(op, op.name if type(op) is ir.OpView else op.operation.name) for op in ops]
    return named[:-1]


def returned(function: func.FuncOp) -> list[ir.Value]:
    """The values that a function returns."""
    return list(_return_of(body_of(function)).operands)


def write_return(values: Sequence[ir.Value]) -> None:
    """Writes a function's return; the class of the bindings takes four times as long."""
    ir.Operation.create("func.return", [], list(values), loc=ir.Location.unknown())


def _return_of(block: ir.Block) -> ir.Operation:
    """The return at the end of a block; indexing the list of ops would walk through it."""
    return ir.InsertionPoint.at_block_terminator(block).ref_operation


def set_results(function: func.FuncOp, results: Sequence[ir.Value]) -> None:
    """Makes a function return other values of its body, and updates its type."""
    set_return(function, results)
    types = [v.type for v in body_of(function).arguments], [v.type for v in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def set_return(function: func.FuncOp, results: Sequence[ir.Value]) -> None:
    """Makes a function return other values of its body; the caller has to update its type."""
    block = body_of(function)
    end = _return_of(block)
    if list(end.operands) != list(results):
        end.erase()
        with ir.InsertionPoint(block):
            write_return(results)


def copy(op: Any, name: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Copies an op with other operands at the current insertion point; returns the results."""
    types, attributes = list(op.results.types), dict(op.attributes.items())
    new = ir.Operation.create(name, types, list(operands), attributes, loc=op.location)
    return list(new.results)


def put_instead(op: Any, values: Sequence[ir.Value]) -> None:
    """Replaces an op's results by values, and erases the op."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()


def rename_call(
    op: Any,
    name: str,
    own: Mapping[str, ir.Attribute] = {},
    operands: Sequence[ir.Value] | None = None,
) -> None:
    """Replaces an op that calls a function by an op of another name that calls it, which has
    attributes of its ``own``, and other operands if they are given."""
    shared = ("call_jaxpr", "jaxpr.effects", "jaxpr.ctx")
    attributes = {key: op.attributes[key] for key in shared if key in op.attributes} | dict(own)
    types, values = list(op.results.types), list(op.operands if operands is None else operands)
    with ir.InsertionPoint(op):
        renamed = ir.Operation.create(name, types, values, attributes, loc=op.location)
    put_instead(op, renamed.results)


def symbol_ref(symbol: str) -> ir.Attribute:
    """The attribute that names the function ``@symbol``."""
    return ir.FlatSymbolRefAttr.get(symbol)


def create(
    name: str, types: Sequence[ir.Type], args: Sequence[ir.Value], attributes: dict[str, Any]
) -> list[ir.Value]:
    """Writes an op at the current insertion point; returns its results."""
    return list(ir.Operation.create(name, list(types), list(args), attributes).results)


def build(name: str, operands: Sequence[ir.Value], type_: ir.Type, **attributes: Any) -> ir.Value:
    """Writes a ``jaxpr.<name>`` with one result, given its attributes as Python values."""
    encoded = {key: codec.encode(value) for key, value in attributes.items()}
    return ir.Operation.create(f"jaxpr.{name}", [type_], list(operands), encoded).result


def reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The array in another shape, or itself if it already has that shape."""
    if shape_of(value) == tuple(shape):
        return value
    return build("reshape", [value], with_shape(value.type, shape), new_sizes=tuple(shape))


def inline(function: func.FuncOp, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Copies a function's body to the current insertion point; returns its results.  The ops get
    the current location, that of the call, as their call site."""
    return list(jax_mlir_ext.inlined_func_call(function.operation, list(args)))


def take_in(function: func.FuncOp, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Copies a function's body in as part of a larger one; the ops keep their locations."""
    nowhere = ir.Location.unknown()
    return list(jax_mlir_ext.inlined_func_call(function.operation, list(args), nowhere))


def has_lasting_effects(
    op: Any, name: str, functions: Mapping[str, func.FuncOp] | None = None
) -> bool:
    """Whether an op is kept even if its results are unused: for an effect that it lists, or because
    it is an op of another dialect, or runs one, whose effects are unknown."""
    if is_lasting(name, effects_of(op)):
        return True
    symbols = [*symbols_of(op, custom_rules=False)] if may_have_functions(name) else []
    if not symbols:
        return False
    around = functions_around(op) if functions is None else functions
    return any(is_foreign(n) for _, n in reached_ops(around, *symbols, custom_rules=False))


def drop_dead_ops(function: func.FuncOp) -> None:
    """Erases ops without lasting effects whose results nobody uses."""
    for view in reversed(list(body_of(function).operations)[:-1]):
        op = view.operation
        if not any(map(is_used, op.results)) and not has_lasting_effects(op, op.name):
            op.erase()


def is_used(value: ir.Value) -> bool:
    """Whether any op uses a value."""
    return next(value.uses, None) is not None


def erase(op: Any) -> None:
    """Erases an op; a :class:`PassError` if it has uses: MLIR's bindings would erase it all the
    same, and reading such an operand reads freed memory."""
    operation = op.operation
    for result in operation.results:
        use = next(result.uses, None)
        if use is not None:
            user = use.owner.name
            message = f"'{operation.name}' op: expected no use when erased, got one by '{user}'"
            raise PassError([Diagnostic("error", message, *locations.position(operation.location))])
    operation.erase()


def filled(type_: ir.Type, value: float) -> ir.Value:
    """A tensor whose elements are all ``value``; random keys have it in each of their words."""
    keys = _key_data(type_)
    if keys is not None:
        name, type_of_words, attributes = keys
        return ir.Operation.create(name, [type_], [filled(type_of_words, value)], attributes).result
    # Floats are not cached: 0.0 and -0.0 are equal as keys.
    how = _filled if type(value) is int else _filled.__wrapped__
    scalar, value_attr, spread = how(type_, value)
    constant = ir.Operation.create("jaxpr.constant", [scalar], [], {"value": value_attr}).result
    if scalar == type_:
        return constant
    return ir.Operation.create("jaxpr.broadcast_in_dim", [type_], [constant], spread).result


@functools.cache
def _filled(type_: ir.Type, value: float) -> tuple[ir.Type, ir.Attribute, dict[str, ir.Attribute]]:
    """The type and value of a scalar constant, and the attributes of the op that broadcasts it."""
    aval = aval_of(type_)
    if aval.dtype == dtypes.float0 and core.is_constant_shape(aval.shape):
        return type_, dense(np.zeros(aval.shape, dtypes.float0)), {}
    scalar = core.ShapedArray((), aval.dtype, aval.weak_type)
    spread = {"shape": codec.encode(tuple(aval.shape)), "broadcast_dimensions": codec.encode(())}
    if not aval.sharding.mesh.empty:
        spread["sharding"] = codec.encode(aval.sharding)
    return type_of(scalar), dense(np.full((), value, aval.dtype)), spread


@functools.cache
def _key_data(type_: ir.Type) -> tuple[str, ir.Type, dict[str, ir.Attribute]] | None:
    """The op that makes typed random keys from their words, the type of the words, and the op's
    attributes; ``None`` for a type of other values."""
    aval = aval_of(type_)
    if not is_key(aval):
        return None
    words = core.physical_aval(aval)
    return "jaxpr.random_wrap", type_of(words), {"impl": codec.encode(aval.dtype._impl)}


def zeros(type_: ir.Type) -> ir.Value:
    """A tensor of zeros; for random keys, those whose words are zeros, and a new token."""
    if isinstance(aval_of(type_), core.AbstractToken):
        return ir.Operation.create("jaxpr.create_token", [type_]).result
    return filled(type_, 0)


def instantiated(values: Iterable[ir.Value | None], types: Iterable[ir.Type]) -> list[ir.Value]:
    """The values, with zeros of the given types in place of ``None``."""
    return [zeros(t) if v is None else v for v, t in zip(values, types, strict=True)]


SPREAD = frozenset({"jaxpr.broadcast_in_dim", "jaxpr.convert_element_type", "jaxpr.iota"})
"""Ops that cost nothing: their result counts as a constant if their operands do."""


def converted(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The value converted to another element type or weak type, at the insertion point."""
    if value.type == type_:
        return value
    name = "jaxpr.convert_element_type"
    return ir.Operation.create(name, [type_], [value], conversion(type_)).result


def conversion(type_: ir.Type) -> dict[str, ir.Attribute]:
    """The attributes of a ``convert_element_type`` to a type."""
    aval = aval_of(type_)
    attributes = {"new_dtype": codec.encode(aval.dtype)}
    if aval.weak_type:
        attributes["weak_type"] = codec.encode(True)
    return attributes


def is_constant(value: ir.Value) -> bool:
    """Whether a value is a constant or a broadcast one, and so cheaper to rewrite than to keep."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    name = op.name if isinstance(op, ir.Operation) else op.operation.name
    return name == "jaxpr.constant" or (name in SPREAD and all(map(is_constant, op.operands)))


def clone(value: ir.Value) -> ir.Value:
    """A copy of a constant, for which :func:`is_constant` holds, at the current insertion point."""
    op = value.owner
    name = op.name if isinstance(op, ir.Operation) else op.operation.name
    (result,) = copy(op, name, [clone(v) for v in op.operands])
    return result


def set_attribute(function: func.FuncOp, name: str, value: Any) -> None:
    """Sets an attribute of a function through its codec."""
    function.attributes[name] = codec.encode(value)


class SymbolUses(dict[str, tuple[str, ...]]):
    """The symbols that each function of a program refers to, read on first use."""

    def __init__(self, program: Module):
        super().__init__()
        self._program = program

    def __missing__(self, name: str) -> tuple[str, ...]:
        function = self._program.function(name)
        symbols = self[name] = tuple(dict.fromkeys(references(function)))
        return symbols


def make_public(program: Module, symbol: str, uses: SymbolUses) -> None:
    """Makes ``@symbol`` the function that a call of the program runs, and drops functions that it
    does not reach by the symbols that they use."""
    functions, remaining = program.functions, {}
    reached = reachable(functions, symbol, uses=uses)
    for name, op in functions.items():
        if name not in reached:
            op.operation.erase()
            continue
        remaining[name] = op
        if is_private(op) == (name == symbol):
            visibility = "public" if name == symbol else "private"
            op.attributes["sym_visibility"] = ir.StringAttr.get(visibility)
    program.changed(remaining)


def put_in_order(
    functions: Mapping[str, func.FuncOp], symbol: str, uses: SymbolUses | None = None
) -> dict[str, func.FuncOp]:
    """Moves a function and those that it reaches into the order in which it reaches them, so that
    the order does not depend on how they were made."""
    ordered = {name: functions[name] for name in reachable(functions, symbol, uses=uses)}
    for first, second in itertools.pairwise(ordered.values()):
        second.operation.move_after(first.operation)
    return ordered


def reachable(
    functions: Mapping[str, func.FuncOp],
    *symbols: str,
    custom_rules: bool = True,
    uses: SymbolUses | None = None,
) -> KeysView[str]:
    """The functions that the given ones reach, directly or not, and these themselves, in the order
    in which they are reached.

    Args:
      custom_rules: follow custom derivative rules, which a run does not call, as well.
      uses: the symbols that functions refer to, for callers that ask more than once.
    """

    def below(name: str) -> Iterable[str]:
        referred = references(functions[name], custom_rules=custom_rules)
        return filter(functions.__contains__, referred if uses is None else uses[name])

    return graphs.reached(filter(functions.__contains__, symbols), below)


def reached_ops(
    functions: Mapping[str, func.FuncOp], *symbols: str, custom_rules: bool = True
) -> Iterator[tuple[Any, str]]:
    """The ops of the functions that :func:`reachable` gives, with their names."""
    for name in reachable(functions, *symbols, custom_rules=custom_rules):
        yield from named_ops(functions[name])


def ops_with_symbols(function: func.FuncOp) -> Iterator[tuple[Any, str]]:
    """The ops that refer to functions, with their names."""
    for op in body_of(function).operations:
        name = op.name if type(op) is ir.OpView else op.operation.name
        if may_have_functions(name) and any(True for _ in symbols_of(op)):
            yield op, name


def only_user(value: ir.Value) -> ir.Operation | None:
    """The op with the only use of a value; ``None`` if there is none, or another use."""
    uses = value.uses
    first = next(uses, None)
    # Reads at most two uses, as a value may have very many.
    return None if first is None or next(uses, None) is not None else first.owner


def trip_count(length: Any) -> int | None:
    """How often a scan of this length runs its body; ``None`` for a symbolic length."""
    return length if isinstance(length, int) else None


def symbols_of(op: Any, *, custom_rules: bool = True) -> Iterator[str]:
    """The symbols that an op, or an op in its regions, refers to, those of custom rules by default
    too."""
    for holder in (op, *inner_ops(op)):
        for name, attr in holder.attributes.items():
            if custom_rules or name not in ATTRIBUTES:
                yield from symbol_uses(attr)


def references(function: func.FuncOp, *, custom_rules: bool = True) -> Iterator[str]:
    """The symbols that a function's ops refer to, with repetitions."""
    for op in body_of(function).operations:
        if may_have_functions(op.name if type(op) is ir.OpView else op.operation.name):
            yield from symbols_of(op, custom_rules=custom_rules)
