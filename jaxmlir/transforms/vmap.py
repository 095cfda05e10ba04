"""``jaxpr-vmap``: batching.

Every value is batched along one dimension, or not at all.  An op with a batched operand is replaced
by the result of its primitive's batching rule.  An op with none stays as it is, so nothing is
batched needlessly.  Results move to the requested dimension at the end, once.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
from jax import lax

from jaxmlir._compat import batching, core
from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.analysis.liveness import FunctionView
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import attribute, build, reached_ops, symbols_of
from jaxmlir.dialect.custom_rule_ops import is_untraced
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module, at_function
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of, batched_type, type_of
from jaxmlir.errors import TransformError
from jaxmlir.passes.base import Pass
from jaxmlir.support.masks import Dims
from jaxmlir.transforms.discharge_refs import discharge_refs
from jaxmlir.transforms.memo import derived
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules

Shared = Literal["sum", "first"]


class Vmap(Pass):
    """Add ``@f.vmap``, the function on batches.

    Options:
      func: the function to batch; by default the public one.
      axis-size: the size of the batch.
      in-axes: for each flat argument its batch dimension, -1 where it has none; by default all 0.
      out-axes: likewise for each result.
      axis-name: what collectives call the batch dimension.
    """

    name: ClassVar[str] = "jaxpr-vmap"
    axis_size: int
    func: str = ""
    in_axes: tuple[int, ...] = ()
    out_axes: tuple[int, ...] = ()
    axis_name: str = ""

    def run(self, program: Module) -> None:
        discharge_refs(program)
        symbol = program.chosen(self.func)
        signature = call_signature(program, symbol)
        if not 0 <= self.axis_size < 2**63:
            raise TransformError(f"axis-size: expected 0 to 2^63 - 1, got {self.axis_size}")
        in_axes = _axes("in-axes", self.in_axes, signature.operands)
        out_axes = _axes("out-axes", self.out_axes, signature.results)
        axis = batch_axis(self.axis_size, self.axis_name or None)
        vmap(Rules(program), symbol, in_axes, axis, out_axes)


def _axes(option: str, axes: tuple[int, ...], avals: Sequence[Any]) -> Dims:
    """The batch dimensions that an option gives arguments or results of these types."""
    if not axes:
        return (0,) * len(avals)
    if len(axes) != len(avals):
        raise TransformError(f"{option}: expected {len(avals)} axes, got {len(axes)}")
    for i, (axis, aval) in enumerate(zip(axes, avals, strict=True)):
        rank = len(getattr(aval, "shape", ()))
        if not -1 <= axis <= rank:
            raise TransformError(
                f"{option}: expected -1 to {rank} for value {i}, which is "
                f"{aval.str_short(short_dtypes=True)} without the batch, got {axis}"
            )
    return tuple(None if axis == -1 else axis for axis in axes)


@functools.lru_cache(maxsize=256)
def batch_axis(size: int, name: Any = None, spmd_name: Any = None) -> Any:
    """JAX's description of a batch dimension; the same object each time, which compares faster."""
    name = core.no_axis_name if name is None else name
    return batching.AxisData(name, size, spmd_name, None)


def vmap(
    rules: Rules,
    symbol: str,
    in_axes: Sequence[int | None],
    axis: Any,
    out_axes: Sequence[int | None] | None = None,
    *,
    reserved: str | None = None,
    shared: Shared | None = None,
    of_first: Collection[int] = (),
) -> tuple[str, Dims]:
    """Writes ``@symbol.vmap``.

    Args:
      in_axes: for each argument its batch dimension, or ``None``.
      axis: from :func:`batch_axis`.
      out_axes: for each result where its batch dimension goes, ``None`` for an unbatched one; by
        default it stays where the rules leave it.
      reserved: the new function's symbol, if one was reserved for it.
      shared: what a batched result becomes if ``out_axes`` has ``None`` for it: the sum over the
        batch, or the first element.
      of_first: unbatched arguments that only the first element has; the others have zeros.

    Returns:
      The symbol, and each result's batch dimension.

    Raises:
      TransformError: an op cannot be batched, or ``out_axes`` has ``None`` for a batched result.
    """
    function, body = rules.program.function(symbol), rules.functions.read(symbol)
    types = [
        batched_type(type_, dim, axis.size, axis.explicit_mesh_axis)
        for type_, dim in zip(body.types[: body.arity], in_axes, strict=True)
    ]
    new = NewFunction(
        rules, reserved or f"{symbol}.vmap", types, function, reserved=reserved is not None
    )
    dims = _dims(body, in_axes)
    values: list[Any] = [*new.args, *[None] * (len(dims) - body.arity)]
    cache: dict[Any, Any] = {}
    with new.body():
        for i in of_first:
            spread = functools.partial(_spread, size=axis.size)
            values[i], dims[i] = rules.emit(spread, [values[i]])[0], 0
        for i, op, operands, pattern in _patterns(rules, body, dims, axis):
            args = [values[v] for v in operands]
            first, last = body.results[i]
            if pattern is None:
                values[first:last] = body.copy(i, args)
                continue
            key = body.signatures[i], pattern
            rule = cache.get(key)
            if rule is None:
                rule = cache[key] = rules.batch(op, key[0], pattern, axis)
            values[first:last] = rule.inline(args, op.location)
            dims[first:last] = rule.pattern
        have = tuple([dims[v] for v in body.returned])
        out_dims = _destinations(body.function, symbol, have, out_axes, shared)
        returned = [values[v] for v in body.returned]
        results = move_all(rules, returned, have, out_dims, axis, shared)
    return new.finish(results), out_dims


vmap_of = derived(vmap)
"""The result of :func:`vmap` for a function, dimensions and an axis, written once."""


@derived
def batched_results(rules: Rules, symbol: str, in_axes: Dims, axis: Any) -> Dims:
    """Each result's batch dimension, where the rules leave it; writes nothing."""
    body = rules.functions.read(symbol)
    dims = _dims(body, in_axes)
    for i, op, _, pattern in _patterns(rules, body, dims, axis):
        if pattern is not None:
            first, last = body.results[i]
            out_dims = rules.batched(op, body.signatures[i], pattern, axis)
            dims[first:last] = out_dims
    return tuple([dims[v] for v in body.returned])


def _dims(body: FunctionView, in_axes: Sequence[int | None]) -> list[int | None]:
    """The batch dimension of each value, as far as known: only the arguments have one yet."""
    return [*in_axes, *[None] * (len(body.types) - body.arity)]


def _patterns(
    rules: Rules, body: FunctionView, dims: list[int | None], axis: Any
) -> Iterator[tuple[int, Any, list[int], Dims | None]]:
    """The ops by index, with their operands and the operands' batch dimensions, or ``None`` if an
    op stays as it is.  The caller enters the dimensions of an op's results into ``dims``."""
    is_named = axis.name is not core.no_axis_name
    for i, (op, operands) in enumerate(zip(body.ops, body.operands, strict=True)):
        pattern = tuple([dims[v] for v in operands])
        stays = pattern.count(None) == len(pattern)
        if stays and is_named:
            # The op may depend on its position along the named axis.
            stays = axis.name not in _axes_of(body.effects.get(i))
            stays = stays and not _hides_axis(rules, op, body.names[i], axis.name)
        yield i, op, operands, None if stays else pattern


@functools.lru_cache(maxsize=256)
def _axes_of(effects: ir.ArrayAttr | None) -> list[Any]:
    """The axes that an op's effects name."""
    decoded = map(codec.decode, effects or ())
    return [effect.name for effect in decoded if isinstance(effect, core.NamedAxisEffect)]


def _hides_axis(rules: Rules, op: Any, name: str, axis: Any) -> bool:
    """Whether an op, or one in its functions, may depend on its position along an axis without
    having an effect that says so."""
    return _may_hide(op, name, axis) or (
        may_have_functions(name)
        and any(rules.functions.once(_function_hides, symbol, axis) for symbol in symbols_of(op))
    )


# Collectives without such an effect.
_UNTOLD = frozenset({"jaxpr.pbroadcast", "jaxpr.pbroadcast_dynamic", "jaxpr.ppermute"})


def _may_hide(op: Any, name: str, axis: Any) -> bool:
    """Whether an op may depend on its position along an axis without such an effect: some of JAX's
    collectives, high-level primitives, which do not tell what they expand to, and functions with
    rules that are still to be traced."""
    if name in _UNTOLD:
        named = attribute(op, "axis_name")
        return axis in named if isinstance(named, tuple) else axis == named
    return name == "jaxpr.call_hi_primitive" or is_untraced(op)


def _function_hides(rules: Rules, symbol: str, axis: Any) -> bool:
    ops = reached_ops(rules.program.functions, symbol)
    return any(_may_hide(op, name, axis) for op, name in ops)


def _destinations(
    function: func.FuncOp,
    symbol: str,
    have: Dims,
    out_axes: Sequence[int | None] | None,
    shared: Shared | None,
) -> Dims:
    """Where each result's batch dimension goes."""
    if out_axes is None:
        return have
    for i, (dim, want) in enumerate(zip(have, out_axes, strict=True)):
        if dim is not None and want is None and shared is None:
            raise at_function(
                function, f"result {i} of @{symbol} is batched, but out_axes has None for it"
            )
    return tuple(out_axes)


def move_all(
    rules: Rules,
    values: Sequence[ir.Value],
    have: Sequence[int | None],
    want: Sequence[int | None],
    axis: Any,
    shared: Shared | None = "sum",
) -> list[ir.Value]:
    """Moves each value from the batch dimension that it has to the wanted one."""
    pairs = zip(values, have, want, strict=True)
    return [move(rules, value, old, new, axis, shared) for value, old, new in pairs]


def move(
    rules: Rules,
    value: ir.Value,
    have: int | None,
    want: int | None,
    axis: Any,
    shared: Shared | None = "sum",
) -> ir.Value:
    """Moves a batch dimension, adds one, or removes it where none is wanted."""
    if have == want:
        return value
    aval = aval_of(value.type)
    if want is None or type(aval) is not core.ShapedArray or not aval.sharding.mesh.empty:
        moved = functools.partial(_moved, have=have, want=want, axis=axis, shared=shared)
        return rules.emit(moved, [value])[0]
    if have is None:
        dim = want + aval.ndim + 1 if want < 0 else want
        type_ = batched_type(value.type, dim, axis.size)
        dims = tuple(d for d in range(aval.ndim + 1) if d != dim)
        shape = aval_of(type_).shape
        return build("broadcast_in_dim", [value], type_, shape=shape, broadcast_dimensions=dims)
    order = [d for d in range(aval.ndim) if d != have]
    order.insert(want + aval.ndim if want < 0 else want, have)
    if order == sorted(order):
        return value
    type_ = type_of(aval.update(shape=tuple(aval.shape[d] for d in order)))
    return build("transpose", [value], type_, permutation=tuple(order))


def _moved(
    x: Any, *, have: int | None, want: int | None, axis: Any, shared: Shared | None
) -> list[Any]:
    """Moves a batch dimension by JAX's functions, which take care of the sharding."""
    if want is None:
        return [jnp.sum(x, have) if shared == "sum" else lax.index_in_dim(x, 0, have, False)]
    return [batching.matchaxis(axis, have, want, x)]


def _spread(x: Any, *, size: int) -> list[Any]:
    """A batch of a value, the first element, and zeros."""
    return [jnp.zeros((size, *x.shape), x.dtype).at[0].set(x)]
