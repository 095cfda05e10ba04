"""What a family's table says about one op: a small function that uses it, with arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Example:
    """A function whose jaxpr has the op, and what its lit test should look at.

    Attributes:
      function: takes the arguments one by one; its results are flattened.
      args: small arrays, with numbers that a reader can follow.
      hlo: regular expressions for the StableHLO lines to check, where the first few are not the
        point, or where JAX's versions write them differently.
      numbers: whether the results can be checked; otherwise why not: they are undefined, or this
        machine cannot run the op.
      lowers: whether JAX can lower it for CPU; otherwise why not.
      requires: a lit feature, where only some versions of JAX give this text.
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
    """An op that no public function of JAX stands for."""
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
