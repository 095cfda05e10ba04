"""Putting values that were apart together, as the rows of one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.ir import ir
from jaxmlir.passes import toolbox
from jaxmlir.passes._windows import Windows
from jaxmlir.passes.higher_order._loops import stacked

if TYPE_CHECKING:
    from jaxmlir.passes._rules import Rules


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
