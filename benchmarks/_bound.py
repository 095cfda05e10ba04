"""A lower bound of a gradient: the least CPU time that it could take on this machine.

The bound is the longer of two times.  One is its flops at the speed of large matrix products, plus
its transcendentals at the speed of exponentials.  The other is reading its arguments and writing
its results once.  The cost pass counts these in the optimized gradient; their speeds are measured
once.  No program reaches the bound, because additions are slower than products of matrices.  But it
shows where time can still be gained.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxmlir
from jaxmlir.analysis.cost import CostCounter, FunctionCost
from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir, scope


class Peaks(NamedTuple):
    """CPU seconds for a flop of a large product, for an exponential, and for a byte read."""

    flop: float
    exponential: float
    byte: float


@functools.cache
def peaks() -> Peaks:
    """The peak speeds of this machine, from the fastest of several runs."""

    def exponentials(x: jax.Array) -> jax.Array:
        def add(_: Any, total: jax.Array) -> jax.Array:
            return total + jnp.sum(jnp.exp(x - total))

        return jax.lax.fori_loop(0, 64, add, jnp.float32(0.0))

    side, length, large = 1024, 2**16, 2**24
    matrix = jnp.ones((side, side), jnp.float32)
    return Peaks(
        _least(jnp.dot, matrix, matrix) / (2 * side**3),
        _least(exponentials, jnp.linspace(-1.0, 0.0, length, dtype=jnp.float32)) / (64 * length),
        _least(jnp.sum, jnp.ones(large, jnp.float32)) / (4 * large),
    )


def _least(function: Callable[..., jax.Array], *args: jax.Array) -> float:
    jitted, found = jax.jit(function), []
    jitted(*args).block_until_ready()
    for _ in range(20):
        start = time.process_time()
        jitted(*args).block_until_ready()
        found.append(time.process_time() - start)
    return min(found)


class _Least(CostCounter):
    """A cost counter that counts only the cheapest of several branches."""

    def op(self, node: OpView, found: FunctionCost, function: ir.Location | None = None) -> None:
        if node.name == "jaxpr.cond":
            found.add(min(map(self.function, node.get("branches")), key=_work))
        else:
            super().op(node, found, function)


def _work(cost: FunctionCost) -> int:
    return cost.total.flops + cost.total.transcendentals


def bound(gradient: jaxmlir.Program) -> float | None:
    """The least CPU seconds of a call; ``None`` if the trip count of a loop is not known.

    Ops without a formula in the cost pass, such as factorizations and sorts, count as nothing.
    """
    with scope():
        found, machine = _Least(gradient).function(gradient.name), peaks()
    if found.unbounded:
        return None
    arrays = (*gradient.in_avals, *gradient.out_avals)
    size = sum(math.prod(a.shape) * a.dtype.itemsize for a in arrays)
    work = found.total.flops * machine.flop + found.total.transcendentals * machine.exponential
    return max(work, size * machine.byte)
