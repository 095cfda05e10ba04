"""What the interpreter reads from a module once: its functions as lists of steps, and how each
primitive is run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir._compat import core, dispatch, dtypes, literals, mlir
from jaxmlir.bridge import params
from jaxmlir.bridge.exporter import constant_value
from jaxmlir.dialect import codec, effect_attributes
from jaxmlir.dialect.ir import context, func, ir
from jaxmlir.dialect.types import aval_of, is_wide, widths_of
from jaxmlir.lowering.lowering import refuse_custom_lin

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

_ABSENT = object()


class Node:
    """One op of a function: what it reads and writes, by number, and its attributes, read once."""

    __slots__ = ("_attributes", "_bind", "name", "op", "operands", "results", "symbol")

    def __init__(
        self, op: Any, name: str, symbol: str, operands: Sequence[int], results: Sequence[int]
    ):
        self.op = op
        self.name = name
        self.symbol = symbol
        self.operands = operands
        self.results = results
        self._attributes: dict[str, Any] = {}
        self._bind: Callable[..., list[Any]] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an attribute, in which a function is its symbol."""
        found = self._attributes.get(key, _ABSENT)
        if found is _ABSENT:
            with context():
                attributes = self.op.attributes
                found = default
                if key in attributes:
                    found = codec.decode(attributes[key], codec.SYMBOLS)
            self._attributes[key] = found
        return found

    def avals(self) -> list[Any]:
        """The abstract values of the results."""
        with context():
            return [aval_of(v.type) for v in self.op.results]

    def bind(self, program: Module) -> Callable[..., list[Any]]:
        """The op as a function of its operands that returns the list of its results."""
        if self._bind is None:
            self._bind = _bind_of(program, self.op, self.name)
        return self._bind


class Plan:
    """A function, ready to be run: its values are numbered, arguments first."""

    __slots__ = ("constants", "nodes", "results", "size")

    def __init__(self, program: Module, function: func.FuncOp):
        numbers: dict[ir.Value, int] = {}
        for argument in function.arguments:
            numbers[argument] = len(numbers)
        symbol = function.name.value
        self.nodes: list[Node] = []
        self.constants: list[tuple[int, Any]] = []
        for op in function.entry_block.operations:
            name = op.name if type(op) is ir.OpView else op.operation.name
            operands = op.operands
            read = [numbers[operands[i]] for i in range(len(operands))]
            if name == "func.return":
                self.results = read
                break
            written = []
            for result in op.results:
                written.append(len(numbers))
                numbers[result] = written[-1]
            if name == "jaxpr.constant":
                self.constants.append((written[0], constant_of(program, op)))
            else:
                self.nodes.append(Node(op, name, symbol, read, written))
        self.size = len(numbers)


def plan_of(program: Module, symbol: str) -> Plan:
    """The plan of a function, made once per program."""
    found = program.plans.get(symbol)
    if found is None:
        with context():
            found = program.plans[symbol] = Plan(program, program._function(symbol))
    return found


def constant_of(program: Module, op: Any) -> Any:
    """The value of a ``jaxpr.constant`` op."""
    return array_of(constant_value(program, op), aval_of(op.results[0].type))


def array_of(value: Any, aval: Any) -> Any:
    """A numpy array as a JAX array of that type: weak types and 64 bits are kept."""
    if isinstance(value, np.ndarray) and aval.dtype != dtypes.float0:
        # A constant of a shard_map's body has its mesh in the type; as a value it has none.
        plain = core.ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type)
        return jax.device_put(literals.TypedNdArray(value, plain))
    return value


# By signature, of every program: those that name no function and no Python object.
_leaves: dict[Any, Callable[..., list[Any]]] = {}


def _bind_of(program: Module, op: Any, name: str) -> Callable[..., list[Any]]:
    with context():
        attributes = tuple(op.attributes.items()) if len(op.attributes) else ()
        if any(codec.depends_on_module(attr) for _, attr in attributes):
            return _make_bind(program, op, name)
        types = tuple(v.type for v in op.operands), tuple(op.results.types)
        key = (name, attributes, types)
        found = _leaves.get(key)
        if found is None:
            found = _leaves[key] = _make_bind(program, op, name)
        return found


def _make_bind(program: Module, op: Any, name: str) -> Callable[..., list[Any]]:
    if name == "jaxpr.custom_lin":
        refuse_custom_lin(program, op, "evaluated")
    primitive, parameters = params.of_op(op, name, program.exporter)
    attributes = op.attributes
    ctx = effect_attributes.decode_ctx(
        attributes["jaxpr.ctx"] if "jaxpr.ctx" in attributes else None
    )

    def bind(*args: Any) -> list[Any]:
        with ctx.manager:
            outs = primitive.bind(*args, **parameters)
        return list(outs) if primitive.multiple_results else [outs]

    bind.__name__ = bind.__qualname__ = primitive.name
    run = bind
    if _is_compiled(primitive):
        compiled = jax.jit(bind)

        def run(*args: Any) -> list[Any]:
            return (compiled if core.trace_state_clean() else bind)(*args)

    wide = list(filter(is_wide, (aval_of(v.type) for v in (*op.operands, *op.results))))
    if not wide:
        return run

    def run_wide(*args: Any) -> list[Any]:
        with widths_of(wide):
            return run(*args)

    return run_wide


def _is_compiled(primitive: Any) -> bool:
    """Whether JAX evaluates the primitive by compiling it, and not by a function of its own."""
    impl = primitive.impl
    if isinstance(impl, functools.partial):
        return impl.func is dispatch.apply_primitive
    has_none = getattr(impl, "__func__", None) is core.Primitive.impl
    return has_none and (
        primitive in mlir._lowerings
        or any(primitive in rules for rules in mlir._platform_specific_lowerings.values())
    )
