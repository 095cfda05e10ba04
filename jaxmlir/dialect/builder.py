"""What transformations share: walking a function, building a new one beside it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir._compat import core, dtypes, jax_mlir_ext
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.custom_rule_ops import ATTRIBUTES
from jaxmlir.dialect.dense import dense
from jaxmlir.dialect.ir import body_of, func, inner_ops, ir, is_private, new_function, symbol_uses
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.errors import Diagnostic, PassError

if TYPE_CHECKING:
    from jaxmlir.program.program import Program
    from jaxmlir.transforms.templates import Rules


def attribute(op: Any, name: str, default: Any = None) -> Any:
    """An op's attribute as a Python value: numbers, tuples, dtypes, JAX's enumerations ..."""
    attributes = op.attributes
    return codec.decode(attributes[name]) if name in attributes else default


class NewFunction:
    """A function under construction: arguments first, result types when it is finished.

    A ``detached`` one is not in the module, but copied in piecewise.
    """

    def __init__(
        self,
        rules: Rules,
        name: str,
        arg_types: Sequence[ir.Type],
        like: func.FuncOp,
        *,
        reserved: bool = False,
        detached: bool = False,
    ):
        """
        Args:
          name: the symbol, or, unless it is ``reserved``, what it is made from.
          like: the function whose location the new one has.
        """
        self._rules = rules
        self._detached = detached
        self.name = name if reserved or detached else rules.importer.unique_symbol(name)
        arg_types = list(arg_types)
        ip = False if detached else ir.InsertionPoint(rules.program.module.body)
        self.op, self.block = new_function(self.name, arg_types, [], like.location, ip)
        if not detached:
            # Found without going through the module again.
            rules.program.functions[self.name] = self.op
        self.args = list(self.block.arguments)

    @contextmanager
    def body(self) -> Iterator[None]:
        """Ops built meanwhile go to the end of the function, and are where it is unless they, or
        who builds them, are somewhere else.  Those of a detached one are where it is copied to."""
        place = ir.Location.current
        if isinstance(place, ir.UnknownLoc) and not self._detached:
            place = self.op.location
        with ir.InsertionPoint(self.block), place:
            yield

    def finish(self, results: Sequence[ir.Value]) -> str:
        """Returns the results; gives the symbol."""
        with ir.InsertionPoint(self.block):
            _return(results)
        type_ = ir.FunctionType.get([v.type for v in self.args], [v.type for v in results])
        self.op.attributes["function_type"] = ir.TypeAttr.get(type_)
        self._rules.functions.given_effects.list_in(self.op)
        return self.name


OF_PRIVATE = frozenset({"function_type", "sym_name", "sym_visibility"})
"""The attributes of a private function of which nothing else is known."""


def copy_function(rules: Rules, symbol: str) -> func.FuncOp:
    """A private function of the same ops, of which nothing else is known."""
    _, new = clone_function(rules, rules.program.function(symbol), symbol)
    attributes = new.attributes
    for key in set(attributes.keys()) - OF_PRIVATE:
        del attributes[key]
    attributes["sym_visibility"] = ir.StringAttr.get("private")
    return new


def clone_function(rules: Rules, function: func.FuncOp, name: str) -> tuple[str, func.FuncOp]:
    """A function again, under a symbol that is made from a name."""
    program = rules.program
    with ir.InsertionPoint(program.module.body):
        new = function.operation.clone()
    symbol = rules.importer.unique_symbol(name)
    new.attributes["sym_name"] = ir.StringAttr.get(symbol)
    program.functions[symbol] = new
    rules.functions.given_effects.list_in(new)
    return symbol, new


def ops_of(function: func.FuncOp) -> Iterator[tuple[Any, str, list[ir.Value]]]:
    """The ops before the return: each with its name and operands."""
    for op in body_of(function).operations:
        name = op.name if type(op) is ir.OpView else op.operation.name
        if name == "func.return":
            return
        yield op, name, [*op.operands]


def overwrites(op: Any) -> bool:
    """Whether a ``jaxpr.scatter`` writes what it is given: that of ``x.at[i].apply(f)`` puts ``f``
    of what is there."""
    return "update_jaxpr" not in op.attributes


def window_sizes(numbers: Any, update: Sequence[int]) -> list[int]:
    """The sizes, in the array, of the one window that a scatter writes.

    Args:
      numbers: its dimension numbers.
      update: the shape of what it writes.
    """
    sizes = list(update)
    for axis in sorted(numbers.inserted_window_dims):
        sizes.insert(axis, 1)
    return sizes


def named_ops(function: func.FuncOp) -> list[tuple[Any, str]]:
    """The ops before the return, with their names."""
    ops = body_of(function).operations
    named = [(op, op.name if type(op) is ir.OpView else op.operation.name) for op in ops]
    return named[:-1]


def returned(function: func.FuncOp) -> list[ir.Value]:
    """The values that a function returns."""
    return list(_return_of(body_of(function)).operands)


def _return(values: Sequence[ir.Value]) -> None:
    """Writes the end of a function; the binding's own class takes four times as long."""
    ir.Operation.create("func.return", [], list(values), loc=ir.Location.unknown())


def _return_of(block: ir.Block) -> ir.Operation:
    """The op at the end of a block: to index its list of ops is to walk through it."""
    return ir.InsertionPoint.at_block_terminator(block).ref_operation


def set_results(function: func.FuncOp, results: Sequence[ir.Value]) -> None:
    """Makes a function return other values of its body."""
    set_return(function, results)
    types = [v.type for v in body_of(function).arguments], [v.type for v in results]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def set_return(function: func.FuncOp, results: Sequence[ir.Value]) -> None:
    """Likewise, of a function whose type is still to be set."""
    block = body_of(function)
    old = _return_of(block)
    if list(old.operands) != list(results):
        old.erase()
        with ir.InsertionPoint(block):
            _return(results)


def copy(op: Any, name: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """The op again, on other operands; its results."""
    return list(
        ir.Operation.create(
            name,
            list(op.results.types),
            list(operands),
            dict(op.attributes.items()),
            loc=op.location,
        ).results
    )


def put_instead(op: Any, values: Sequence[ir.Value]) -> None:
    """Uses values instead of an op's results, and removes the op."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()


def build(name: str, operands: Sequence[ir.Value], type_: ir.Type, **attributes: Any) -> ir.Value:
    """A ``jaxpr.<name>`` of one result, given its attributes as Python values."""
    encoded = {key: codec.encode(value) for key, value in attributes.items()}
    return ir.Operation.create(f"jaxpr.{name}", [type_], list(operands), encoded).result


def inline(function: func.FuncOp, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Copies a function's body in at the current insertion point; its results.

    The ops are located in the call: at the current location.
    """
    return list(jax_mlir_ext.inlined_func_call(function.operation, list(args)))


def take_in(function: func.FuncOp, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Likewise, where it is no call but the body of a larger function: ops are where they were."""
    nowhere = ir.Location.unknown()
    return list(jax_mlir_ext.inlined_func_call(function.operation, list(args), nowhere))


def drop_dead_ops(function: func.FuncOp) -> None:
    """Erases ops without effects whose results nobody uses."""
    *ops, _ = body_of(function).operations
    for op in reversed(ops):
        if not any(map(is_used, op.results)) and "jaxpr.effects" not in op.attributes:
            op.operation.erase()


def is_used(value: ir.Value) -> bool:
    """Whether any op uses a value."""
    return next(value.uses, None) is not None


def erase(op: Any) -> None:
    """Takes an op out.

    MLIR's bindings take out what is used as well; who then reads the operand reads freed memory.

    Raises:
      PassError: an op uses a result.
    """
    operation = op.operation
    for result in operation.results:
        use = next(result.uses, None)
        if use is not None:
            user = use.owner.name
            message = f"'{operation.name}' op: expected no use when it is erased, got '{user}'"
            raise PassError([Diagnostic("error", message, *locations.position(operation.location))])
    operation.erase()


def adapt(
    rules: Rules,
    symbol: str,
    name: str,
    arguments: Sequence[tuple[ir.Type, bool]],
    results: Sequence[tuple[ir.Type, bool]],
) -> str:
    """``@symbol`` with arguments it ignores and results that are zero, written as ``@name`` if
    there are any.

    Args:
      arguments: each argument's type, and whether ``@symbol`` takes it.
      results: each result's type, and whether ``@symbol`` gives it.
    """
    function = rules.program.function(symbol)
    if all(taken for _, taken in (*arguments, *results)):
        # It is no part of a derivative any more, but a function of its own.
        for key in {"jaxpr.active", "jaxpr.num_res"}.intersection(function.attributes.keys()):
            del function.attributes[key]
        return symbol
    new = NewFunction(rules, name, [type_ for type_, _ in arguments], function)
    args = [v for v, (_, taken) in zip(new.args, arguments, strict=True) if taken]
    with new.body(), function.location:
        outs = iter(take_in(function, args))
        full = [next(outs) if given else zeros(type_) for type_, given in results]
    return new.finish(full)


def filled(type_: ir.Type, value: float) -> ir.Value:
    """A tensor of a type with every element ``value``."""
    # Not floats: what is equal to 0.0 may be -0.0.
    how = _filled if type(value) is int else _filled.__wrapped__
    scalar, value_attr, spread = how(type_, value)
    constant = ir.Operation.create("jaxpr.constant", [scalar], [], {"value": value_attr}).result
    if scalar == type_:
        return constant
    return ir.Operation.create("jaxpr.broadcast_in_dim", [type_], [constant], spread).result


@functools.cache
def _filled(type_: ir.Type, value: float) -> tuple[ir.Type, ir.Attribute, dict[str, ir.Attribute]]:
    """The type and the value of a constant, and the attributes of the op that spreads it out."""
    aval = aval_of(type_)
    if aval.dtype == dtypes.float0 and core.is_constant_shape(aval.shape):
        return type_, dense(np.zeros(aval.shape, dtypes.float0)), {}
    scalar = core.ShapedArray((), aval.dtype, aval.weak_type)
    spread = {"shape": codec.encode(tuple(aval.shape)), "broadcast_dimensions": codec.encode(())}
    if not aval.sharding.mesh.empty:
        spread["sharding"] = codec.encode(aval.sharding)
    return type_of(scalar), dense(np.full((), value, aval.dtype)), spread


def zeros(type_: ir.Type) -> ir.Value:
    """A tensor of zeros."""
    return filled(type_, 0)


SPREAD = frozenset({"jaxpr.broadcast_in_dim", "jaxpr.convert_element_type", "jaxpr.iota"})
"""Ops that cost nothing, so that their result is a constant if their operands are."""


def converted(value: ir.Value, type_: ir.Type) -> ir.Value:
    """The value with another element type, or weakly typed or not, at the insertion point."""
    if value.type == type_:
        return value
    name = "jaxpr.convert_element_type"
    return ir.Operation.create(name, [type_], [value], conversion(type_)).result


def conversion(type_: ir.Type) -> dict[str, ir.Attribute]:
    """The attributes of an op that converts to a type."""
    aval = aval_of(type_)
    attributes = {"new_dtype": codec.encode(aval.dtype)}
    if aval.weak_type:
        attributes["weak_type"] = codec.encode(True)
    return attributes


def is_constant(value: ir.Value) -> bool:
    """Whether a value is a constant, or one spread out: cheaper to write again than to keep."""
    op = value.owner
    if isinstance(op, ir.Block):
        return False
    name = op.name if isinstance(op, ir.Operation) else op.operation.name
    return name == "jaxpr.constant" or (name in SPREAD and all(map(is_constant, op.operands)))


def clone(value: ir.Value) -> ir.Value:
    """The constant again, at the current insertion point."""
    op = value.owner
    name = op.name if isinstance(op, ir.Operation) else op.operation.name
    (result,) = copy(op, name, [clone(v) for v in op.operands])
    return result


def set_attribute(function: func.FuncOp, name: str, value: Any) -> None:
    """Sets an attribute of a function through its codec."""
    function.attributes[name] = codec.encode(value)


class Uses(dict[str, tuple[str, ...]]):
    """What the functions of a program refer to; each is read when that is first asked for."""

    def __init__(self, program: Program):
        super().__init__()
        self._program = program

    def __missing__(self, name: str) -> tuple[str, ...]:
        function = self._program.function(name)
        found = self[name] = tuple(dict.fromkeys(references(function)))
        return found


def make_public(program: Program, symbol: str, uses: Uses, private: Collection[str]) -> None:
    """Makes ``@symbol`` the function that a call of the program runs, and drops what it does not
    reach.

    Args:
      uses: what the functions refer to.
      private: functions that are known to be so.
    """
    functions, kept = program.functions, {}
    reached = reachable(functions, symbol, uses=uses)
    for name, op in functions.items():
        if name not in reached:
            op.operation.erase()
            continue
        kept[name] = op
        if name not in private and is_private(op) == (name == symbol):
            visibility = "public" if name == symbol else "private"
            op.attributes["sym_visibility"] = ir.StringAttr.get(visibility)
    program.changed(kept)


def put_in_order(
    functions: Mapping[str, func.FuncOp], symbol: str, uses: Uses | None = None
) -> dict[str, func.FuncOp]:
    """Moves a function before those that it reaches, and these into the order in which it reaches
    them: their order does not tell how they were made."""
    ordered = {name: functions[name] for name in reachable(functions, symbol, uses=uses)}
    for first, second in itertools.pairwise(ordered.values()):
        second.operation.move_after(first.operation)
    return ordered


def reachable(
    functions: Mapping[str, func.FuncOp],
    *symbols: str,
    custom_rules: bool = True,
    uses: Uses | None = None,
) -> KeysView[str]:
    """Some functions and those that they refer to, directly or not, in the order in which they are
    met.

    Args:
      custom_rules: also as a custom derivative rule, which a run does not call.
      uses: what they refer to, for who asks more than once.
    """
    reached: dict[str, None] = {}
    pending = [*reversed(symbols)]
    while pending:
        name = pending.pop()
        if name in reached or name not in functions:
            continue
        reached[name] = None
        if uses is None:
            found = list(references(functions[name], custom_rules=custom_rules))
        else:
            found = uses[name]
        pending.extend(reversed(found))
    return reached.keys()


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
    # No more are looked at than tell: a value may have as many as there are ops.
    return None if first is None or next(uses, None) is not None else first.owner


def trip_count(length: Any) -> int | None:
    """How often a scan of a length runs its body; ``None`` if that is a symbolic size."""
    return length if isinstance(length, int) else None


def symbols_of(op: Any, *, custom_rules: bool = True) -> Iterator[str]:
    """The symbols that an op refers to, and those in its regions.

    Args:
      custom_rules: also as a custom derivative rule.
    """
    for holder in (op, *inner_ops(op)):
        for name, attr in holder.attributes.items():
            if custom_rules or name not in ATTRIBUTES:
                yield from symbol_uses(attr)


def references(function: func.FuncOp, *, custom_rules: bool = True) -> Iterator[str]:
    """The symbols that a function's ops refer to, as often as they do."""
    for op in body_of(function).operations:
        if may_have_functions(op.name if type(op) is ir.OpView else op.operation.name):
            yield from symbols_of(op, custom_rules=custom_rules)
