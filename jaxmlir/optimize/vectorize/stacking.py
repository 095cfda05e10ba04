"""Putting values that were apart together, as the rows of one array, and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir import toolbox
from jaxmlir._compat import dtypes
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.vectorize.windows import Windows
from jaxmlir.transforms.higher_order.loops import stacked

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def stack(rules: Rules, values: Sequence[ir.Value]) -> ir.Value:
    """Values of one type, stacked at the insertion point: what they are windows of, if that is one
    array, or a constant, if they are."""
    type_ = stacked(values[0].type, len(values))
    known = [toolbox.constant_value(rules.program, v) for v in values]
    if all(k is not None for k in known):
        return toolbox.constant(rules.program, _stack_known(known), type_)
    windows = Windows.of(values)
    if windows is not None:
        return windows.array if windows.are_rows else windows.write(rules)
    return rules.emit(_stack, values, _stack)[0]


def rows_of(rules: Rules, array: ir.Value) -> list[ir.Value]:
    """The rows of an array, by one op, whose transpose is one op."""
    return rules.emit(_rows, [array], _rows)


def row_of(rules: Rules, array: ir.Value, index: int) -> ir.Value:
    """One row of an array."""
    return rules.emit(lambda a: [a[index]], [array], ("row", index))[0]


def total_of(rules: Rules, array: ir.Value) -> ir.Value:
    """The sum of the rows of an array."""
    return rules.emit(_total, [array], _total)[0]


JOINS = {"jaxpr.concatenate": "dimension", "jaxpr.stack": "axis"}
"""Ops that put values together, and what of theirs says along which dimension."""


def joined(rules: Rules, array: ir.Value, op: Any, name: str) -> ir.Value:
    """The rows of an array, put together as an op would that is one of ``JOINS``."""
    function = _Joined(toolbox.attribute(op, JOINS[name]), is_new=name == "jaxpr.stack")
    return rules.emit(function, [array], function)[0]


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


def _rows(array: Any) -> list[Any]:
    from jax import lax

    parts = lax.split(array, (1,) * array.shape[0], 0)
    return [lax.reshape(part, part.shape[1:]) for part in parts]


def _total(array: Any) -> list[Any]:
    from jax import lax

    return [lax.reduce(array, np.zeros((), array.dtype), lax.add, (0,))]


@dataclass(frozen=True)
class _Joined:
    """The rows of an array, put together along a dimension of theirs, or a new one; hashable."""

    dimension: int
    is_new: bool

    def __call__(self, array: Any) -> list[Any]:
        from jax import lax

        rank = array.ndim if self.is_new else array.ndim - 1
        dimension = self.dimension % rank
        order = list(range(1, array.ndim))
        order.insert(dimension, 0)
        array = lax.transpose(array, order)
        if self.is_new:
            return [array]
        shape = array.shape
        count, size = shape[dimension : dimension + 2]
        return [lax.reshape(array, (*shape[:dimension], count * size, *shape[dimension + 2 :]))]
