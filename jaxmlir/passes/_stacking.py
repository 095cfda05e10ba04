"""Putting values that were apart together, as the rows of one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.ir import ir
from jaxmlir.passes import toolbox
from jaxmlir.passes.higher_order._loops import stacked

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules


def stack(rules: Rules, values: Sequence[ir.Value]) -> ir.Value:
    """Values of one type, stacked at the insertion point: what they are rows of, if that is one
    array, or a constant, if they are."""
    type_ = stacked(values[0].type, len(values))
    known = [toolbox.constant_value(rules.program, v) for v in values]
    if all(k is not None for k in known):
        return toolbox.constant(rules.program, _stack_known(known), type_)
    found = rows_of(values)
    if found is not None:
        array, first = found
        if array.type == type_:
            return array
        end = first + len(values)
        key = ("rows", first, end)
        return rules.emit(lambda a: [a[first:end]], [array], key)[0]
    return rules.emit(_stack, values, _stack)[0]


def rows_of(values: Sequence[ir.Value]) -> tuple[ir.Value, int] | None:
    """The array of which values are rows one after the other, and the first row's number."""
    found = [_row(v) for v in values]
    if None in found:
        return None
    array, first = found[0]
    one_after_the_other = all(f == (array, first + i) for i, f in enumerate(found))
    return (array, first) if one_after_the_other else None


def _row(value: ir.Value) -> tuple[ir.Value, int] | None:
    """The array and the number of which a value is ``array[number]``."""
    op, name = toolbox.definition(value) or (None, "")
    if name not in ("jaxpr.squeeze", "jaxpr.reshape"):
        return None
    part, name = toolbox.definition(op.operands[0]) or (None, "")
    if name != "jaxpr.slice" or toolbox.attribute(part, "strides") is not None:
        return None
    array = part.operands[0]
    start = toolbox.attribute(part, "start_indices")
    limit = toolbox.attribute(part, "limit_indices")
    shape = tuple(array.type.shape)
    is_row = limit[0] == start[0] + 1 and limit[1:] == shape[1:] and not any(start[1:])
    return (array, start[0]) if is_row and tuple(value.type.shape) == shape[1:] else None


def _stack_known(values: Sequence[Any]) -> Any:
    import jax
    import jax.numpy as jnp

    if not isinstance(values[0].dtype, dtypes.ExtendedDType):
        return np.stack(values)
    # Random keys: arrays, while something is traced, too.
    with jax.ensure_compile_time_eval():
        return jnp.stack(values)


def _stack(*values: Any) -> list[Any]:
    import jax.numpy as jnp

    return [jnp.stack(values)]
