"""The entry for one op in a family's table: a small function that uses the op, with arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Example:
    """A function whose jaxpr has the op, and what its lit test should check.

    Attributes:
      function: takes the arguments one by one; its results are flattened.
      args: small arrays, with numbers that a reader can follow.
      hlo: regular expressions for the StableHLO lines to check, if the first few lines are not the
        interesting ones, or if JAX's versions write them differently.
      numbers: whether the results can be checked; otherwise the reason: they are undefined, or this
        machine cannot run the op.
      lowers: whether JAX can lower the function for CPU; otherwise the reason.
      requires: a lit feature, if only some versions of JAX give this text.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    hlo: tuple[str, ...] | None = None
    numbers: str = ""
    lowers: str = ""
    requires: str = ""


def example(function: Callable[..., Any], *args: Any, **options: Any) -> Example:
    return Example(function, args, **options)


def bound(primitive: str, *args: Any, **params: Any) -> Example:
    """An example that binds a primitive directly, because no public function of JAX does."""
    options = {k: params.pop(k) for k in ("hlo", "numbers", "lowers", "requires") if k in params}
    return Example(lambda *operands: bind(primitive, *operands, **params), args, **options)


def bind(primitive: str, *operands: Any, **params: Any) -> Any:
    from jaxmlir.dialect import primitives

    found = primitives.get(primitive)
    return found.bind(*operands, **found.get_bind_params(params))


def f32(*rows: Any) -> Any:
    """A vector of these numbers, or a matrix of these rows."""
    return np.array(rows, np.float32)


def i32(*rows: Any) -> Any:
    return np.array(rows, np.int32)


def u32(*rows: Any) -> Any:
    return np.array(rows, np.uint32)


def c64(*rows: Any) -> Any:
    return np.array(rows, np.complex64)


def bools(*rows: Any) -> Any:
    return np.array(rows, np.bool_)


def key(seed: int = 0) -> Any:
    return jax.random.key(seed)
