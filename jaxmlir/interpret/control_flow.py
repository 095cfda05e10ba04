"""How the interpreter goes into ops with functions: one small interpretation for each kind.

An interpretation returns the op's results, or ``None`` where it cannot go in (a predicate is not
known), and the op is then evaluated as a whole, as are all ops without an interpretation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import numpy as np

from jaxmlir._compat import core, mesh_lib
from jaxmlir.bridge import params
from jaxmlir.dialect.ir import context
from jaxmlir.dialect.types import widths_of

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.interpret.plans import Node


class Frame(NamedTuple):
    """One level of the stack of functions that are being evaluated."""

    symbol: str
    """The function."""
    caller: Node | None
    """The op that calls it; ``None`` for the function that was asked for."""
    iteration: int | None = None
    """Which pass of a loop this is, from 0, in the order of execution."""
    length: int | None = None
    """The loop's trip count, where it is known."""
    index: int | None = None
    """Which slice of a scan this is, where the scan runs backwards; or which branch of a cond."""

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


class _Interpreter(Protocol):
    """What evaluates functions: a :class:`jaxmlir.interpret.interpreter.Interpreter`."""

    program: Module

    def enter(self, frame: Frame, args: Sequence[Any]) -> list[Any]: ...

    def concrete(self, value: Any) -> np.ndarray | None: ...

    def slice(self, value: Any, index: int) -> Any: ...

    def stack_up(self, values: list[Any], aval: Any) -> Any: ...


Interpretation = Callable[[_Interpreter, "Node", list[Any]], "list[Any] | None"]


def _call(attribute: str) -> Interpretation:
    """Of an op that calls one function with its operands, for its results."""

    def call(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any]:
        return interpreter.enter(Frame(node.get(attribute), node), args)

    return call


def _cond(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    chosen = interpreter.concrete(args[0])
    if chosen is None:
        return None
    branches = node.get("branches")
    # StableHLO's `case` takes the last branch for an index out of range.
    index = int(chosen) if 0 <= chosen < len(branches) else len(branches) - 1
    return interpreter.enter(Frame(branches[index], node, index=index), args[1:])


def _while(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    """A batched loop goes on until it is done for all, and leaves alone those that it is for."""
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
        new = interpreter.enter(Frame(body, node, iteration=iteration), [*body_consts, *carry])
        carry = new if goes_on.all() else _where(goes_on, new, carry)
        iteration += 1


def _as_given(carry: list[Any], avals: list[Any]) -> list[Any]:
    """What a loop without iterations gives, where a step would have made strong types of weak."""

    def strong(x: Any, aval: Any) -> Any:
        if not getattr(x, "weak_type", False) or aval.weak_type:
            return x
        with widths_of((aval,)):
            return jax.lax.convert_element_type(x, aval.dtype)

    return list(map(strong, carry, avals))


def _where(predicate: np.ndarray, new: list[Any], old: list[Any]) -> list[Any]:
    """Each value of ``new`` where the predicate, over its leading axes, holds."""

    def choose(x: Any, y: Any) -> Any:
        leading = predicate.reshape(predicate.shape + (1,) * (x.ndim - predicate.ndim))
        return jax.lax.select(np.broadcast_to(leading, x.shape), x, y)

    return [choose(x, y) for x, y in zip(new, old, strict=True)]


def _scan(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any]:
    body, length = node.get("jaxpr"), node.get("length")
    n_consts, n_carry = node.get("num_consts", 0), node.get("num_carry", 0)
    backwards = node.get("reverse", False)
    consts, carry = args[:n_consts], args[n_consts : n_consts + n_carry]
    xs = args[n_consts + n_carry :]
    slices: list[list[Any]] = []
    for iteration in range(length):
        index = length - 1 - iteration if backwards else iteration
        frame = Frame(
            body,
            node,
            iteration=iteration,
            length=length,
            index=index if backwards else None,
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


def _linear_solve(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any]:
    lengths, solve = node.get("const_lengths"), node.get("jaxprs").solve
    first = lengths.matvec + lengths.vecmat
    total = sum(lengths)
    consts = args[first : first + lengths.solve]
    return interpreter.enter(Frame(solve, node), [*consts, *args[total:]])


def _shard_map(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any] | None:
    """The body runs once, on values that stand for the parts on all devices (JAX's eager mode)."""
    with context():
        _, found = params.of_op(node.op, node.name, interpreter.program.exporter)
    if isinstance(found["mesh"], mesh_lib.AbstractMesh) or not core.trace_state_clean():
        return None

    def body(*parts: Any) -> tuple[Any, ...]:
        return tuple(interpreter.enter(Frame(node.get("jaxpr"), node), parts))

    mapped = jax.shard_map(
        body,
        mesh=found["mesh"],
        in_specs=tuple(found["in_specs"]),
        out_specs=tuple(found["out_specs"]),
        check_vma=found["check_vma"],
        axis_names=set(found["newly_manual_axes"]),
    )
    return list(mapped(*args))


def _empty_ref(interpreter: _Interpreter, node: Node, args: list[Any]) -> list[Any]:
    """JAX makes such a reference in compiled code only; what it holds at first is not defined."""
    (aval,) = node.avals()
    return [jax.new_ref(jax.numpy.zeros(aval.shape, aval.dtype))]


INTERPRETATIONS: dict[str, Interpretation] = {
    "jaxpr.call": _call("call_jaxpr"),
    "jaxpr.closed_call": _call("call_jaxpr"),
    "jaxpr.composite": _call("call_jaxpr"),
    "jaxpr.compute_on": _call("jaxpr"),
    "jaxpr.cond": _cond,
    "jaxpr.custom_jvp_call_jaxpr": _call("call_jaxpr"),
    "jaxpr.custom_linear_solve": _linear_solve,
    "jaxpr.custom_partitioning": _call("call"),
    "jaxpr.custom_vjp_call_jaxpr": _call("call_jaxpr"),
    "jaxpr.custom_vmap_call": _call("call"),
    "jaxpr.empty_ref": _empty_ref,
    "jaxpr.eval_jaxpr": _call("call_jaxpr"),
    "jaxpr.fused_call": _call("jaxpr"),
    "jaxpr.jit": _call("jaxpr"),
    "jaxpr.linear_call": _call("callee"),
    "jaxpr.program_order": _call("call_jaxpr"),
    "jaxpr.remat2": _call("jaxpr"),
    "jaxpr.remat_opt": _call("fwd_jaxpr"),
    "jaxpr.scan": _scan,
    "jaxpr.shard_map": _shard_map,
    "jaxpr.while": _while,
    "jaxpr.xla_metadata_call": _call("jaxpr"),
}
