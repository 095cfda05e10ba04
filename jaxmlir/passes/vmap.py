"""``jaxpr-vmap``: batching.

Every value is batched along one dimension, or not at all.  An op with a batched operand becomes
what its primitive's batching rule makes of it; an op with none stays as it is, so nothing is
batched that need not be.  Results move to the dimension asked for at the end, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.errors import TransformError
from jaxmlir.ir import ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import NewFunction, copy, ops_of, returned
from jaxmlir.passes._rules import Rules
from jaxmlir.types import aval_of, type_of

if TYPE_CHECKING:
    from jaxmlir.program import Program

Axes = tuple[int | None, ...]


@dataclass(frozen=True)
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

    def run(self, program: Program) -> None:
        with scope():
            symbol = self.func or program.name
            signature = program.signature(symbol)
            in_axes = _axes(self.in_axes, len(signature.operands))
            out_axes = _axes(self.out_axes, len(signature.results))
            axis = batch_axis(self.axis_size, self.axis_name or None)
            vmap(Rules(program), symbol, in_axes, axis, out_axes)
        program.changed()


def _axes(given: tuple[int, ...], count: int) -> tuple[int | None, ...]:
    if not given:
        return (0,) * count
    if len(given) != count:
        raise TransformError(f"expected {count} axes, got {len(given)}")
    return tuple(None if axis == -1 else axis for axis in given)


def batch_axis(size: int, name: Any = None, spmd_name: Any = None) -> Any:
    """JAX's description of a batch dimension."""
    from jaxmlir._compat import batching, core

    name = core.no_axis_name if name is None else name
    return batching.AxisData(name, size, spmd_name, None)


def vmap(
    rules: Rules,
    symbol: str,
    in_axes: Sequence[int | None],
    axis: Any,
    out_axes: Sequence[int | None] | Callable[[Axes], Axes] | None = None,
    *,
    reserved: str | None = None,
    sum_results: bool = False,
) -> tuple[str, tuple[int | None, ...]]:
    """Writes ``@symbol.vmap``.

    Args:
      in_axes: for each argument its batch dimension, or ``None``.
      axis: from :func:`batch_axis`.
      out_axes: for each result where its batch dimension goes, ``None`` for an unbatched one; by
        default they stay where the rules leave them.  A function gets these, and tells where
        they go.
      reserved: the new function's symbol, if it was reserved for it.
      sum_results: batched results for which ``out_axes`` has ``None`` are summed over the batch.

    Returns:
      The symbol, and each result's batch dimension.

    Raises:
      TransformError: an op cannot be batched, or a batched result is asked for without dimension.
    """
    function = rules.program.function(symbol)
    arguments = list(function.arguments)
    types = [
        batched_type(v.type, dim, axis.size) for v, dim in zip(arguments, in_axes, strict=True)
    ]
    new = NewFunction(
        rules, reserved or f"{symbol}.vmap", types, function, reserved=reserved is not None
    )
    values = dict(zip(arguments, new.args, strict=True))
    dims = {v: dim for v, dim in zip(arguments, in_axes, strict=True) if dim is not None}
    named = f'"{axis.name}"' if isinstance(axis.name, str) else None
    with new.body():
        for op, name, operands in ops_of(function):
            pattern = tuple([dims.get(v) for v in operands])
            args = [values[v] for v in operands]
            if all(dim is None for dim in pattern) and not (named and _mentions(op, named)):
                values.update(zip(op.results, copy(op, name, args), strict=True))
                continue
            rule = rules.batch(op, name, pattern, axis)
            with op.location:
                outs = rule.inline(args)
            for result, out, dim in zip(op.results, outs, rule.pattern, strict=True):
                values[result] = out
                if dim is not None:
                    dims[result] = dim
        results = []
        outs = returned(function)
        own = tuple(dims.get(v) for v in outs)
        if out_axes is None or callable(out_axes):
            out_axes = out_axes(own) if callable(out_axes) else own
        for i, (v, want) in enumerate(zip(outs, out_axes, strict=True)):
            have = dims.get(v)
            if have is not None and want is None and not sum_results:
                raise TransformError(
                    f"result {i} of @{symbol} is batched, but out_axes has None for it"
                )
            results.append(_move(rules, values[v], have, want, axis.size))
    return new.finish(results), tuple(out_axes)


def _mentions(op: Any, axis_name: str) -> bool:
    """Whether an op without batched operands still depends on its place along the named axis."""
    attributes = op.attributes
    if "jaxpr.effects" not in attributes:
        return False
    return f"NamedAxisEffect = {axis_name}" in str(attributes["jaxpr.effects"])


def batched_type(type_: ir.Type, dim: int | None, size: int) -> ir.Type:
    """The type with a dimension of ``size`` inserted at ``dim``."""
    from jaxmlir._compat import core

    return type_ if dim is None else type_of(core.unmapped_aval(size, dim, aval_of(type_), None))


def _move(rules: Rules, value: ir.Value, have: int | None, want: int | None, size: int) -> ir.Value:
    """Moves a batch dimension, or makes one."""
    if have == want:
        return value
    import jax.numpy as jnp

    def moved(x: Any) -> list[Any]:
        if want is None:
            return [jnp.sum(x, have)]
        if have is not None:
            return [jnp.moveaxis(x, have, want)]
        dim = want + x.ndim + 1 if want < 0 else want
        shape = (*x.shape[:dim], size, *x.shape[dim:])
        kept = tuple(d for d in range(len(shape)) if d != dim)
        from jax import lax

        return [lax.broadcast_in_dim(x, shape, kept)]

    (result,) = rules.emit(moved, [value], ("move", have, want, size))
    return result
