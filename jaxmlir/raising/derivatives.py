"""Derivatives of reductions and scatters by any function, which JAX's primitives lack.

JAX differentiates a reduction as a tree. That is another function if the region is not associative,
or if the initial value is not its identity. XLA folds from the left, and so does the derivative
here: it is that of a loop over the elements, which is unrolled if there are few.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import core
from jaxmlir.bridge.exporter import Exporter
from jaxmlir.dialect.builder import gather_of
from jaxmlir.dialect.ir import ir
from jaxmlir.raising.source import RegionCaptures
from jaxmlir.raising.writer import BodyWriter

ScalarFunction = Callable[..., Any]

_UNROLLED = 16


def function_of(w: BodyWriter, region: Any, outer: RegionCaptures | None = None) -> ScalarFunction:
    """The JAX function of scalars that a region computes.

    Args:
      outer: what the region captures; the captured values are the function's first arguments.

    Raises:
      ImportingError: the region captures values, and ``outer`` is not given.
    """
    inner, symbol = w.alone(region, "combine", outer=outer)
    return core.jaxpr_as_fun(Exporter(inner.of_import(inner.importer)).jaxpr(symbol))


def differentiated_as(model: ScalarFunction, function: ScalarFunction) -> ScalarFunction:
    """A function with the derivative of ``model``, which computes the same values."""
    wrapped = jax.custom_jvp(function)

    @wrapped.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return wrapped(*primals), jax.jvp(model, primals, tangents)[1]

    return wrapped


def has_derivative(types: Sequence[ir.Type]) -> bool:
    """Whether one of some tensor types has floats or complex numbers."""
    return not all(isinstance(t.element_type, ir.IntegerType) for t in types)


class Fold(NamedTuple):
    """A left fold of the first half of its arguments; the others are the initial values."""

    combine: ScalarFunction
    axes: tuple[int, ...]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        xs, inits = args[: len(args) // 2], args[len(args) // 2 :]
        out_dims = [d for d in range(xs[0].ndim) if d not in self.axes]
        shape = [xs[0].shape[d] for d in out_dims]
        size = int(np.prod([xs[0].shape[d] for d in self.axes]))
        rows = [jnp.reshape(jnp.transpose(x, (*self.axes, *out_dims)), (size, *shape)) for x in xs]
        combine = on_arrays(self.combine, len(shape))
        carry = [jnp.broadcast_to(init, shape) for init in inits]
        if size > _UNROLLED:
            return tuple(lax.scan(lambda c, row: (combine(*c, *row), None), carry, rows)[0])
        for k in range(size):
            carry = combine(*carry, *(lax.index_in_dim(x, k, keepdims=False) for x in rows))
        return tuple(carry)


class WindowFold(NamedTuple):
    """A left fold over windows of the first half of its arguments; the others are initial values.

    It copies each window. As in XLA, the parts of windows outside of the array are not combined.
    """

    combine: ScalarFunction
    window: tuple[tuple[Any, ...], ...]
    """The sizes, strides and padding, and the dilation of the base and of the windows."""

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        n = len(args) // 2
        inside = jnp.ones(args[0].shape, np.bool_)
        windows = [self._windows(x) for x in (*args[:n], inside)]
        axes = tuple(range(1, windows[0].ndim, 2))
        return Fold(self._combined_inside, axes)(*windows, *args[n:], np.True_)[:n]

    def _combined_inside(self, *args: Any) -> list[Any]:
        *carry, _ = args[: len(args) // 2]
        *xs, inside = args[len(args) // 2 :]
        combined = self.combine(*carry, *xs)
        return [*(jnp.where(inside, a, b) for a, b in zip(combined, carry, strict=True)), np.True_]

    def _windows(self, x: Any) -> Any:
        """Splits each dimension of an array into two: the window, and the position in it."""
        sizes, strides, padding, base, dilation = self.window
        config = [(*p, b - 1) for p, b in zip(padding, base, strict=True)]
        x = lax.pad(x, np.zeros((), x.dtype), config)
        for d in reversed(range(x.ndim)):
            count = (x.shape[d] - dilation[d] * (sizes[d] - 1) - 1) // strides[d] + 1
            first = strides[d] * np.arange(max(count, 0))
            index = first[:, None] + dilation[d] * np.arange(sizes[d])
            x = jnp.take(x, index, axis=d, mode="clip")
        return x


class Scatter(NamedTuple):
    """A scatter of an array, indices and updates; it applies duplicate indices in order."""

    combine: ScalarFunction
    numbers: lax.ScatterDimensionNumbers
    unique: bool

    def __call__(self, x: Any, indices: Any, updates: Any) -> Any:
        if self.unique:
            return self._once(x, indices, updates, self.numbers)
        n = self.numbers
        window = n.update_window_dims
        placed = [d for d in range(updates.ndim) if d not in window]
        if n.operand_batching_dims:
            raise NotImplementedError(
                "a scatter by an arbitrary function with batching dimensions has no derivative if "
                "indices may occur twice; expected unique_indices = true"
            )
        count = math.prod(updates.shape[d] for d in placed)
        rows = jnp.reshape(indices, (count, 1, indices.shape[-1]))
        order = (*placed, *window)
        shape = (count, 1, *(updates.shape[d] for d in window))
        row_updates = jnp.reshape(jnp.transpose(updates, order), shape)
        single = n._replace(update_window_dims=tuple(range(1, 1 + len(window))))

        def step(x: Any, row: Any) -> Any:
            return self._once(x, *row, single), None

        return lax.scan(step, x, (rows, row_updates))[0]

    def _once(self, x: Any, indices: Any, updates: Any, n: lax.ScatterDimensionNumbers) -> Any:
        """The scatter of unique indices: combines the updates with the gathered old elements."""
        window = iter(n.update_window_dims)
        alone = {*n.inserted_window_dims, *n.operand_batching_dims}
        sizes = tuple(1 if d in alone else updates.shape[next(window)] for d in range(x.ndim))
        numbers = gather_of(n)
        mode = lax.GatherScatterMode.FILL_OR_DROP
        current = lax.gather(x, indices, numbers, sizes, mode=mode, fill_value=1)
        (combined,) = on_arrays(self.combine, updates.ndim)(current, updates)
        return lax.scatter(x, indices, combined, n, mode=mode, unique_indices=True)


def on_arrays(combine: ScalarFunction, rank: int) -> ScalarFunction:
    """A function of scalars, vectorized over arrays."""
    return functools.reduce(lambda f, _: jax.vmap(f), range(rank), combine)
