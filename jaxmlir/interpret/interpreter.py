"""Evaluates a program op by op, and is the base of custom interpreters.

``program.eval(*args)`` runs every op by itself, as JAX's eager mode does.  It enters called
functions, loops, branches and the functions of custom derivative rules, so that hooks see each op
with its operands and results.  An op without a body is evaluated by binding its primitive.  The
callable is kept per signature, so a loop compiles its body once.

An :class:`Interpreter` computes with arrays.  Other domains (intervals, sparsity patterns, units)
subclass it: :meth:`~Interpreter.leaf` evaluates an op on their values, and four small methods tell
loops and branches how to read them.  Calls and control flow are inherited.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import core, dispatch, dtypes, literals, mesh_lib, mlir
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.bridge import params
from jaxmlir.bridge.exporter import constant_value
from jaxmlir.dialect import codec, custom_calls, effect_attributes, locations, op_signature
from jaxmlir.dialect.ir import context, frames, func
from jaxmlir.dialect.module import Module, check_program
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.dialect.types import aval_of, is_wide, widths_of
from jaxmlir.errors import (
    ArgumentError,
    Diagnostic,
    EvaluationError,
    JaxmlirError,
    count,
    deep_calls_as,
    message_of,
)
from jaxmlir.lowering.lowering import refuse_custom_lin
from jaxmlir.support.files import source_line


class Node:
    """One op of a function: its operands and results by value number, and its attributes."""

    __slots__ = ("_bind", "name", "op", "operands", "results", "signature", "symbol")

    def __init__(
        self,
        op: Any,
        signature: Signature,
        symbol: str,
        operands: Sequence[int],
        results: Sequence[int],
    ):
        self.op: Any = op
        self.signature: Signature = signature
        self.name: str = signature.name
        self.symbol: str = symbol
        self.operands: Sequence[int] = operands
        self.results: Sequence[int] = results
        self._bind: Callable[..., list[Any]] | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an attribute; a function in it is given as its symbol."""
        attr = self.signature.named.get(key)
        if attr is None:
            return default
        with context():
            return codec.decode(attr, codec.SYMBOLS)

    def avals(self) -> list[Any]:
        """The abstract values of the results."""
        return list(map(aval_of, self.signature.results))

    def bind(self, program: Module) -> Callable[..., list[Any]]:
        """The op as a function of its operands that returns the list of its results."""
        if self._bind is None:
            signature = self.signature
            bind = ops_by_signature.get(signature)
            if bind is None:
                with context():
                    bind = _make_bind(program, self.op, self.name)
                if signature.is_portable:
                    ops_by_signature[signature] = bind
            self._bind = bind
        return self._bind


class ExecutionPlan:
    """A function prepared for evaluation: its values are numbered, arguments first."""

    __slots__ = ("constants", "nodes", "results", "size")

    def __init__(self, program: Module, function: func.FuncOp):
        body = FunctionView(function)
        symbol = function.name.value
        self.nodes: list[Node] = []
        self.constants: list[tuple[int, Any]] = []
        columns = zip(body.ops, body.signatures, body.operands, body.results, strict=True)
        for op, signature, operands, (first, last) in columns:
            if signature.name == "jaxpr.constant":
                self.constants.append((first, constant_of(program, op)))
            else:
                self.nodes.append(Node(op, signature, symbol, operands, range(first, last)))
        self.results: list[int] = body.returned
        self.size: int = len(body.types)


def plan_of(program: Module, symbol: str) -> ExecutionPlan:
    """The plan of a function, made once per program."""
    plan = program.plans.get(symbol)
    if plan is None:
        with context():
            plan = program.plans[symbol] = ExecutionPlan(program, program._function(symbol))
    return plan


def constant_of(program: Module, op: Any) -> Any:
    """The value of a ``jaxpr.constant`` op."""
    return array_of(constant_value(program, op), aval_of(op.results[0].type))


def array_of(value: Any, aval: Any) -> Any:
    """A numpy array as a JAX array of type ``aval``, including weak types and 64-bit types."""
    if isinstance(value, np.ndarray) and aval.dtype != dtypes.float0:
        # The type of a constant in a shard_map's body has the mesh; the value has none.
        plain = core.ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type)
        return jax.device_put(literals.TypedNdArray(value, plain))
    return value


# By signature, for all programs; only ops that refer to no function and no Python object.
ops_by_signature: dict[Signature, Callable[..., list[Any]]] = {}


def _make_bind(program: Module, op: Any, name: str) -> Callable[..., list[Any]]:
    if name == "jaxpr.custom_lin":
        refuse_custom_lin(program, op, "evaluated")
    primitive, parameters = params.of_op(op, name, program.exporter)
    ctx = effect_attributes.ctx_of(op.attributes)

    def bind(*args: Any) -> list[Any]:
        with ctx.manager:
            outs = primitive.bind(*args, **primitive.get_bind_params(parameters))
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
    """Whether JAX evaluates the primitive by compiling it, not by a special implementation."""
    impl = primitive.impl
    if isinstance(impl, functools.partial):
        return impl.func is dispatch.apply_primitive
    has_none = getattr(impl, "__func__", None) is core.Primitive.impl
    return has_none and (
        primitive in mlir._lowerings
        or any(primitive in rules for rules in mlir._platform_specific_lowerings.values())
    )


# --- ops with functions ---------------------------------------------------------------------------


class Frame(NamedTuple):
    """One level of the stack of functions under evaluation."""

    symbol: str
    """The function."""
    caller: Node | None
    """The op that calls it; ``None`` for the outermost function."""
    iteration: int | None = None
    """The iteration of a loop, from 0, in the order of execution."""
    length: int | None = None
    """The loop's trip count, if it is known."""
    index: int | None = None
    """The slice of a scan that runs in reverse, or the branch of a cond."""

    def __str__(self) -> str:
        if self.caller is None:
            return f"@{self.symbol}"
        kind = self.caller.name.removeprefix("jaxpr.")
        if self.iteration is not None:
            total = "" if self.length is None else f" of {self.length}"
            slices = "" if self.index is None else f" (slice {self.index})"
            return f"@{self.symbol}, iteration {self.iteration}{total}{slices} of {kind}"
        if self.index is not None:
            return f"@{self.symbol}, branch {self.index} of {kind}"
        return f"@{self.symbol}, called by {kind}"


Interpretation = Callable[["Interpreter", Node, list[Any]], "list[Any] | None"]


def _call(attribute: str) -> Interpretation:
    """The interpretation of an op whose operands and results are those of one function."""

    def call(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any]:
        return interpreter.enter(Frame(node.get(attribute), node), args)

    return call


def _cond(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    chosen = interpreter.concrete(args[0])
    if chosen is None:
        return None
    branches = node.get("branches")
    # StableHLO's `case` takes the last branch for an index out of range.
    index = int(chosen) if 0 <= chosen < len(branches) else len(branches) - 1
    return interpreter.enter(Frame(branches[index], node, index=index), args[1:])


def _while(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    """A batched loop runs until all batch elements are done; finished ones keep their carry."""
    cond, body = node.get("cond_jaxpr"), node.get("body_jaxpr")
    n_cond = node.get("cond_nconsts", 0)
    n_carry = len(node.results)
    cond_consts, body_consts = args[:n_cond], args[n_cond : len(args) - n_carry]
    carry = args[len(args) - n_carry :]
    iteration = 0
    while True:
        test = Frame(cond, node, iteration=iteration)
        (predicate,) = interpreter.enter(test, [*cond_consts, *carry])
        goes_on = interpreter.concrete(predicate)
        if goes_on is None:
            return None
        if not goes_on.any():
            return carry if iteration else _as_given(carry, node.avals())
        next_carry = interpreter.enter(
            Frame(body, node, iteration=iteration), [*body_consts, *carry]
        )
        carry = next_carry if goes_on.all() else _where(goes_on, next_carry, carry)
        iteration += 1


def _as_given(carry: list[Any], avals: list[Any]) -> list[Any]:
    """The results of a loop without iterations: weak types become strong, as in an iteration."""

    def strong(x: Any, aval: Any) -> Any:
        if not getattr(x, "weak_type", False) or aval.weak_type:
            return x
        with widths_of((aval,)):
            return jax.lax.convert_element_type(x, aval.dtype)

    return list(map(strong, carry, avals))


def _where(predicate: np.ndarray, new: list[Any], old: list[Any]) -> list[Any]:
    """Selects from ``new`` where the predicate, over the leading axes, holds, else from ``old``."""

    def choose(x: Any, y: Any) -> Any:
        leading = predicate.reshape(predicate.shape + (1,) * (x.ndim - predicate.ndim))
        return jax.lax.select(np.broadcast_to(leading, x.shape), x, y)

    return [choose(x, y) for x, y in zip(new, old, strict=True)]


def _scan(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any]:
    body, length = node.get("jaxpr"), node.get("length")
    n_consts, n_carry = node.get("num_consts", 0), node.get("num_carry", 0)
    backwards = node.get("reverse", False)
    consts, carry = args[:n_consts], args[n_consts : n_consts + n_carry]
    xs = args[n_consts + n_carry :]
    slices: list[list[Any]] = []
    for iteration in range(length):
        index = length - 1 - iteration if backwards else iteration
        frame = Frame(
            body, node, iteration=iteration, length=length, index=index if backwards else None
        )
        outs = interpreter.enter(
            frame, [*consts, *carry, *(interpreter.slice(x, index) for x in xs)]
        )
        carry = outs[:n_carry]
        slices.append(outs[n_carry:])
    if backwards:
        slices.reverse()
    avals = node.avals()
    if not length:
        carry = _as_given(carry, avals[:n_carry])
    stacked = enumerate(avals[n_carry:])
    ys = [interpreter.stack_up([s[i] for s in slices], aval) for i, aval in stacked]
    return [*carry, *ys]


def _linear_solve(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any]:
    lengths, solve = node.get("const_lengths"), node.get("jaxprs").solve
    first = lengths.matvec + lengths.vecmat
    total = sum(lengths)
    consts = args[first : first + lengths.solve]
    return interpreter.enter(Frame(solve, node), [*consts, *args[total:]])


def _shard_map(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    """The body runs once, on values that represent the shards on all devices (JAX's eager mode)."""
    with context():
        _, parameters = params.of_op(node.op, node.name, interpreter.program.exporter)
    if isinstance(parameters["mesh"], mesh_lib.AbstractMesh) or not core.trace_state_clean():
        return None

    def body(*parts: Any) -> tuple[Any, ...]:
        return tuple(interpreter.enter(Frame(node.get("jaxpr"), node), parts))

    mapped = jax.shard_map(
        body,
        mesh=parameters["mesh"],
        in_specs=tuple(parameters["in_specs"]),
        out_specs=tuple(parameters["out_specs"]),
        check_vma=parameters["check_vma"],
        axis_names=set(parameters["newly_manual_axes"]),
    )
    return list(mapped(*args))


def _empty_ref(interpreter: Interpreter, node: Node, args: list[Any]) -> list[Any]:
    """JAX makes such references in compiled code only; their initial content is undefined."""
    (aval,) = node.avals()
    return [jax.new_ref(jax.numpy.zeros(aval.shape, aval.dtype))]


INTERPRETATIONS: dict[str, Interpretation] = {
    **{name: _call(attribute) for name, attribute in CALLEES.items()},
    "jaxpr.cond": _cond,
    "jaxpr.custom_linear_solve": _linear_solve,
    "jaxpr.empty_ref": _empty_ref,
    "jaxpr.linear_call": _call("callee"),
    "jaxpr.remat_opt": _call("fwd_jaxpr"),
    "jaxpr.scan": _scan,
    "jaxpr.shard_map": _shard_map,
    "jaxpr.while": _while,
}


# --- the interpreter ------------------------------------------------------------------------------


class Step:
    """One op under evaluation, as hooks see it.

    Attributes:
      name: the op's name, such as ``"jaxpr.sin"``.
      op: the MLIR op.
      operands: the values of the operands.
      results: the values of the results; ``None`` before the op has run.
      stack: the functions under evaluation, outermost first.
    """

    __slots__ = ("name", "node", "op", "operands", "results", "stack")

    def __init__(self, node: Node, operands: list[Any], stack: tuple[Frame, ...]):
        self.node: Node = node
        self.name: str = node.name
        self.op: Any = node.op
        self.operands: list[Any] = operands
        self.results: list[Any] | None = None
        self.stack: tuple[Frame, ...] = stack

    @property
    def location(self) -> Any:
        """The MLIR location: the user's Python frames under JAX's name stack."""
        return self.op.location

    @property
    def position(self) -> tuple[str, int, int]:
        """File, line and column of the user's frame; ``("", 0, 0)`` if there is none."""
        with context():
            return locations.position(self.op.location)

    @property
    def frames(self) -> list[tuple[str, int, int]]:
        """File, line and column of all of the user's frames, innermost first."""
        with context():
            return frames(self.op.location)

    @property
    def source(self) -> str:
        """The user's source line; ``""`` if it cannot be read."""
        file, line, _ = self.position
        return source_line(file, line).strip()

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations of the enclosing loops, outermost first."""
        return tuple(f.iteration for f in self.stack if f.iteration is not None)

    def __str__(self) -> str:
        """The op and its place, as in ``'jaxpr.sin' op at model.py:12``."""
        file, line, _ = self.position
        return f"'{self.name}' op" + (f" at {file}:{line}" if line else "")


class Hook:
    """Callbacks around every op; subclasses override what they need.

    An op that calls functions is seen before and after the ops of its functions.  A hook may
    assign to elements of ``step.operands`` before the op, and of ``step.results`` after it:
    evaluation continues with the new values.
    """

    def before(self, step: Step) -> None:
        """Called before the op, with the operands."""

    def after(self, step: Step) -> None:
        """Called after the op, with operands and results."""


class Interpreter:
    """Evaluates functions of a program op by op.

    Args:
      program: the program; its module must not change during evaluation.
      hooks: called around every op, in order.
    """

    def __init__(self, program: Module, hooks: Sequence[Hook] = ()):
        check_program(program)
        self.program = program
        if not isinstance(hooks, Sequence) or not all(isinstance(h, Hook) for h in hooks):
            raise ArgumentError(f"hooks: expected a list of Hooks, got {hooks!r}")
        self.hooks: tuple[Hook, ...] = tuple(hooks)
        self.stack: tuple[Frame, ...] = ()

    def run(self, symbol: str, args: Sequence[Any]) -> list[Any]:
        """The results of ``@symbol`` for flat arguments.

        Errors raised while an op runs (a callback's error, JAX's ``FloatingPointError``) pass
        through, with a note that names the op and the user's line.

        Raises:
          ArgumentError: the function takes another number of arguments.
          EvaluationError: an op cannot be evaluated; names the op and the user's line.
          LoweringError: the program was loaded, and reaches a custom call that it may not use.
        """
        custom_calls.check(self.program)
        takes = len(self.program.function(symbol).type.inputs)
        if len(args) != takes:
            raise ArgumentError(f"@{symbol} takes {count(takes, 'argument')}, got {len(args)}")
        with deep_calls_as(EvaluationError):
            return self.enter(Frame(symbol, None), args)

    def evaluate(self, op: Any, operands: Sequence[Any]) -> list[Any]:
        """The results of one op of the program for values of its operands."""
        name = op.operation.name
        if name == "jaxpr.constant":
            return [self.constant(constant_of(self.program, op))]
        signature = op_signature.of_op(op, name, op.operands)
        node = Node(op, signature, "", range(len(operands)), range(len(op.results)))
        return self._step(node, list(operands))

    # -- for interpretations of ops with functions (``_control``) --

    def enter(self, frame: Frame, args: Sequence[Any]) -> list[Any]:
        """Evaluates a function on a new level of the stack."""
        plan = plan_of(self.program, frame.symbol)
        outer = self.stack
        self.stack = (*outer, frame)
        values: list[Any] = [None] * plan.size
        values[: len(args)] = args
        for number, array in plan.constants:
            values[number] = self.constant(array)
        try:
            for node in plan.nodes:
                outs = self._step(node, [values[i] for i in node.operands])
                if len(outs) != len(node.results):
                    expected = count(len(node.results), "result")
                    raise _located(JaxmlirError(f"expected {expected}, got {len(outs)}"), node)
                for number, out in zip(node.results, outs, strict=True):
                    values[number] = out
        finally:
            self.stack = outer
        return [values[i] for i in plan.results]

    def _step(self, node: Node, operands: list[Any]) -> list[Any]:
        if not self.hooks:
            return self._evaluate(node, operands)
        step = Step(node, operands, self.stack)
        for hook in self.hooks:
            hook.before(step)
        step.results = self._evaluate(node, operands)
        for hook in self.hooks:
            hook.after(step)
        return step.results

    def _evaluate(self, node: Node, operands: list[Any]) -> list[Any]:
        control = INTERPRETATIONS.get(node.name)
        if control is not None:
            outs = control(self, node, operands)
            if outs is not None:
                return outs
        try:
            return self.leaf(node, operands)
        except EvaluationError:
            raise
        except (JaxmlirError, NotImplementedError) as e:
            raise _located(e, node) from e
        except Exception as e:
            # Raised while the op ran, by JAX's check for NaNs or by a callback, for example.
            e.add_note(str(Diagnostic("note", f"raised by '{node.name}' op", *_position(node))))
            raise

    # -- the domain of values: arrays; subclasses override these --

    def leaf(self, node: Node, operands: list[Any]) -> list[Any]:
        """The results of an op that is evaluated as a whole."""
        return node.bind(self.program)(*operands)

    def constant(self, array: Any) -> Any:
        """The value of a constant of the program."""
        return array

    def concrete(self, value: Any) -> np.ndarray | None:
        """The array that controls a branch or a loop; ``None`` if it is not known, in which case
        the op is evaluated as a whole."""
        return None if isinstance(value, core.Tracer) else np.asarray(value)

    def slice(self, value: Any, index: int) -> Any:
        """``value[index]``, for an operand that a scan slices."""
        if isinstance(value, core.Tracer):
            return jax.lax.dynamic_index_in_dim(value, index, keepdims=False)
        return _slice(value, index)

    def stack_up(self, values: list[Any], aval: Any) -> Any:
        """A stacked result of a scan: the values of all iterations along a new first axis.

        Args:
          aval: the type of the result, needed if ``values`` is empty.
        """
        if not values:
            with widths_of((aval,)):
                if isinstance(aval.dtype, dtypes.ExtendedDType):
                    return jax.lax.full(aval.shape, 0, aval.dtype)
                return array_of(np.zeros(aval.shape, aval.dtype), aval)
        if any(isinstance(v, core.Tracer) or _is_key(v) for v in values):
            return jax.numpy.stack(values)
        # In numpy: JAX would compile a concatenation with as many operands as there are arrays.
        return array_of(np.stack([np.asarray(v) for v in values]), aval)


_slice = jax.jit(lambda value, index: jax.lax.dynamic_index_in_dim(value, index, keepdims=False))


def _is_key(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), dtypes.ExtendedDType)


def _located(error: Exception, node: Node) -> EvaluationError:
    """Converts an error into one about the op."""
    text = message_of(error).strip().partition("\n")[0]
    message = f"'{node.name}' op cannot be evaluated: {text}"
    return EvaluationError([Diagnostic("error", message, *_position(node))])


def _position(node: Node) -> tuple[str, int, int]:
    with context():
        return locations.position(node.op.location)


__all__ = ["Frame", "Hook", "Interpreter", "Step"]
