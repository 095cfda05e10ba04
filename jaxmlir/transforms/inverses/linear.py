"""Inverses of linear maps: products with a known matrix, triangular systems, transforms, sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir.dialect.builder import gather_of, window_sizes
from jaxmlir.transforms.inverses.rule import (
    RULES,
    Formula,
    Formulas,
    log_abs_det,
    log_difference,
    quotient,
    whole,
    wide,
)
from jaxmlir.transforms.inverses.solver import NotInvertible, Site

# --- contraction with a known matrix --------------------------------------------------------------


def _roles(dimension_numbers: Any, side: int, ndim: int) -> tuple[Any, Any, list[int]]:
    """The batch, contracting and free dimensions of one operand."""
    contracting, batch = dimension_numbers
    rest = [d for d in range(ndim) if d not in (*contracting[side], *batch[side])]
    return batch[side], contracting[side], rest


def _square(known: Any, side: int, dimension_numbers: Any) -> tuple[Any, Any, Any]:
    """A known operand as matrices [batch, free, contracted], and the two flattened shapes."""
    batch, contracted, free = _roles(dimension_numbers, side, known.ndim)
    order = (*batch, *free, *contracted)
    shapes = [tuple(known.shape[d] for d in dims) for dims in (batch, free, contracted)]
    matrix = known.transpose(order).reshape(*shapes[0], math.prod(shapes[1]), math.prod(shapes[2]))
    return matrix, shapes[1], shapes[2]


def _dot_unknown(unknown: int) -> Formula:
    known_side = 1 - unknown

    def solve(y: Any, known: Any, *, dimension_numbers: Any) -> Any:
        matrix, free, contracted = _square(known, known_side, dimension_numbers)
        n_batch = len(dimension_numbers[1][0])
        batch = y.shape[:n_batch]
        # y is [batch, free of the first operand, free of the second].
        rest = y.shape[n_batch + len(free) :] if unknown else y.shape[n_batch : y.ndim - len(free)]
        if unknown:
            columns = y.reshape(*batch, math.prod(free), math.prod(rest))
        else:
            columns = y.reshape(*batch, math.prod(rest), math.prod(free)).swapaxes(-1, -2)
        x = jnp.linalg.solve(*wide(matrix, columns))
        x = x.reshape(*batch, *contracted, *rest)
        # Now in the order [batch, contracted, free]: restore the operand's order.
        ndim = x.ndim
        dims = _roles(dimension_numbers, unknown, ndim)
        return x.transpose(np.argsort([d for group in dims for d in group]))

    def log_det(x: Any, y: Any, known: Any, *, dimension_numbers: Any) -> Any:
        matrix, _, _ = _square(known, known_side, dimension_numbers)
        _, _, free = _roles(dimension_numbers, unknown, x.ndim)
        columns = math.prod(x.shape[d] for d in free)
        return columns * jnp.sum(log_abs_det(matrix))

    return Formula(solve, log_det)


def _square_matrix(unknown: tuple[int, ...], *avals: Any, dimension_numbers: Any) -> None:
    (side,) = unknown
    aval = avals[1 - side]
    _, contracted, free = _roles(dimension_numbers, 1 - side, aval.ndim)
    rows, columns = (math.prod(aval.shape[d] for d in dims) for dims in (free, contracted))
    if rows != columns:
        raise NotInvertible(f"the known matrix is {rows} by {columns}, not square")
    if not jnp.issubdtype(avals[side].dtype, jnp.inexact):
        raise NotInvertible("a product with a matrix of integers has no inverse among integers")


whole(
    "dot_general",
    {(0,): _dot_unknown(0), (1,): _dot_unknown(1)},
    attributes=("dimension_numbers",),
    check=_square_matrix,
)


# --- convolution with a kernel of one pixel -------------------------------------------------------


def _pixel_kernel(
    unknown: tuple[int, ...],
    image: Any,
    kernel: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> None:
    out, into, *spatial = (kernel.shape[d] for d in dimension_numbers.rhs_spec)
    plain = (
        unknown == (0,)
        and set(spatial) == set(window_strides) == set(lhs_dilation) == {1}
        and not any(map(any, padding))
        and feature_group_count == batch_group_count == 1
    )
    if not jnp.issubdtype(image.dtype, jnp.inexact):
        raise NotInvertible("a product with a matrix of integers has no inverse among integers")
    if not plain or out != into:
        raise NotInvertible(
            "expected a known kernel of one pixel, as many output as input features, one group, "
            "stride 1 and no padding"
        )


def _kernel_matrix(kernel: Any, dimension_numbers: Any) -> Any:
    """The kernel [features out, features in]."""
    return kernel.transpose(dimension_numbers.rhs_spec).reshape(
        tuple(kernel.shape[d] for d in dimension_numbers.rhs_spec[:2])
    )


def _unconvolve(y: Any, kernel: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    features_last = jnp.moveaxis(y, dimension_numbers.out_spec[1], -1)
    matrix = _kernel_matrix(kernel, dimension_numbers)
    flat = features_last.reshape(-1, matrix.shape[0]).T
    x = jnp.linalg.solve(*wide(matrix, flat)).T.reshape(features_last.shape)
    # First the dimension order of y, then that of x.
    image = jnp.moveaxis(x, -1, dimension_numbers.out_spec[1])
    canonical = image.transpose(dimension_numbers.out_spec)
    return canonical.transpose(np.argsort(dimension_numbers.lhs_spec))


def _convolution_log_det(x: Any, y: Any, kernel: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    matrix = _kernel_matrix(kernel, dimension_numbers)
    return x.size // matrix.shape[0] * log_abs_det(matrix)


whole(
    "conv_general_dilated",
    {(0,): Formula(_unconvolve, _convolution_log_det)},
    attributes=(
        *("window_strides", "padding", "lhs_dilation", "dimension_numbers"),
        *("feature_group_count", "batch_group_count"),
    ),
    check=_pixel_kernel,
)

# --- systems of equations -------------------------------------------------------------------------


def _triangle(
    a: Any, *, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool, **_: Any
) -> Any:
    """The matrix of a triangular solve."""
    a = jnp.tril(a) if lower else jnp.triu(a)
    if unit_diagonal:
        eye = jnp.eye(a.shape[-1], dtype=bool)
        a = jnp.where(eye, 1, a)
    a = a.swapaxes(-1, -2) if transpose_a else a
    return jnp.conj(a) if conjugate_a else a


def _untriangular(x: Any, a: Any, *, left_side: bool, **attributes: Any) -> Any:
    triangle = _triangle(a, **attributes)
    left, right = (triangle, x) if left_side else (x, triangle)
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)


def _triangular_log_det(
    b: Any, x: Any, a: Any, *, left_side: bool, unit_diagonal: bool, **_: Any
) -> Any:
    if unit_diagonal:
        return jnp.zeros((), jnp.abs(b).dtype)
    diagonal = jnp.diagonal(a, axis1=-2, axis2=-1)
    columns = b.shape[-1] if left_side else b.shape[-2]
    return -columns * jnp.sum(jnp.log(jnp.abs(diagonal)))


whole(
    "triangular_solve",
    {(1,): Formula(_untriangular, _triangular_log_det)},
    attributes=("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"),
)


def _tridiagonal_product(x: Any, low: Any, diagonal: Any, high: Any) -> Any:
    rows = diagonal[..., None] * x
    rows = rows.at[..., 1:, :].add(low[..., 1:, None] * x[..., :-1, :])
    return rows.at[..., :-1, :].add(high[..., :-1, None] * x[..., 1:, :])


whole("tridiagonal_solve", {(3,): Formula(_tridiagonal_product)})

# --- transforms -----------------------------------------------------------------------------------

_OPPOSITE = {"FFT": "IFFT", "IFFT": "FFT", "RFFT": "IRFFT", "IRFFT": "RFFT"}


def _unfft(y: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    return lax.fft(y, type(fft_type)[_OPPOSITE[fft_type.name]], fft_lengths)


def _fft_log_det(x: Any, y: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    # |det| of the n-point transform is n ** (n / 2).
    n = math.prod(fft_lengths)
    sign = -1 if fft_type.name == "IFFT" else 1
    return jnp.full((), sign * x.size / 2 * math.log(n), jnp.abs(x).dtype)


def _full_spectrum(unknown: tuple[int, ...], aval: Any, *, fft_type: Any, fft_lengths: Any) -> None:
    if fft_type.name == "IRFFT" and fft_lengths[-1] // 2 + 1 != aval.shape[-1]:
        raise NotInvertible("a real transform of that length drops frequencies")


whole(
    "fft",
    {(0,): Formula(_unfft, _fft_log_det)},
    attributes=("fft_type", "fft_lengths"),
    check=_full_spectrum,
)

# --- running sums and products --------------------------------------------------------------------


def _before(y: Any, start: Any, axis: int, reverse: bool) -> Any:
    """y shifted by one element along the axis, with ``start`` in the first place."""
    if not y.shape[axis]:
        return y
    edge = jnp.full_like(lax.slice_in_dim(y, 0, 1, axis=axis), start)
    n = y.shape[axis]
    if reverse:
        return lax.concatenate([lax.slice_in_dim(y, 1, n, axis=axis), edge], axis)
    return lax.concatenate([edge, lax.slice_in_dim(y, 0, n - 1, axis=axis)], axis)


def _log_difference(y: Any, *, axis: int, reverse: bool) -> Any:
    """log(exp(y[i]) - exp(y[i - 1]))."""
    return log_difference(y, _before(y, -jnp.inf, axis, reverse))


whole(
    "cumsum",
    {(0,): Formula(lambda y, *, axis, reverse: y - _before(y, 0, axis, reverse), None)},
    attributes=("axis", "reverse"),
)
whole(
    "cumprod",
    {
        (0,): Formula(
            lambda y, *, axis, reverse: quotient(y, _before(y, 1, axis, reverse)),
            lambda x, y, *, axis, reverse: jnp.sum(jnp.log(jnp.abs(_before(y, 1, axis, reverse)))),
        )
    },
    attributes=("axis", "reverse"),
)
whole(
    "cumlogsumexp",
    {(0,): Formula(_log_difference, lambda x, y, *, axis, reverse: jnp.sum(x - y))},
    attributes=("axis", "reverse"),
)

# --- updates at known indices ---------------------------------------------------------------------


@dataclass(frozen=True)
class Update(Formulas):
    """The rule of ``x[indices] = op(x[indices], updates)``."""

    op: Callable[..., Any] = lax.add

    def steps(self, site: Site) -> Callable[..., list[Any]] | None:
        """The op as a gather, ``op`` and a scatter, through which single elements pass; ``None``
        unless the indices are constants and all different."""
        operand, indices, updates = site.operands
        if not all(site.solver.of(v).static for v in site.operands):
            return None
        at = site.solver.static(indices)
        if at is None:
            return None
        numbers, mode = site.params["dimension_numbers"], site.params["mode"]
        shape, update_shape = (site.solver.of(v).shape for v in (operand, updates))
        with jax.ensure_compile_time_eval():
            zeros, ones = np.zeros(shape, np.int32), np.ones(update_shape, np.int32)
            hits = lax.scatter_add(zeros, at, ones, numbers, mode=mode)
        if np.max(hits, initial=0) > 1:
            return None
        sizes = window_sizes(numbers, [update_shape[d] for d in numbers.update_window_dims])
        taken = gather_of(numbers)

        def steps(x: Any, indices: Any, updates: Any) -> list[Any]:
            before = lax.gather(x, indices, taken, sizes, mode=mode)
            after = self.op(before, updates)
            return [lax.scatter(x, indices, after, numbers, mode=mode, unique_indices=True)]

        return steps


def _scattered(updates_of: Any) -> Any:
    def undo(y: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any) -> Any:
        return lax.scatter_add(y, indices, updates_of(updates), dimension_numbers, mode=mode)

    return undo


def _factors(x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any) -> Any:
    """The factor of each element."""
    return lax.scatter_mul(jnp.ones_like(x), indices, updates, dimension_numbers, mode=mode)


def _unscatter_mul(y: Any, *others: Any, **attributes: Any) -> Any:
    return quotient(y, _factors(y, *others, **attributes))


def _scatter_mul_log_det(x: Any, y: Any, *others: Any, **attributes: Any) -> Any:
    return jnp.sum(jnp.log(jnp.abs(_factors(x, *others, **attributes))))


for _name, _op, _undo, _log_det in (
    ("scatter_add", lax.add, _scattered(lambda u: -u), None),
    ("scatter_sub", lax.sub, _scattered(lambda u: u), None),
    ("scatter_mul", lax.mul, _unscatter_mul, _scatter_mul_log_det),
):
    _formulas = {(0,): Formula(_undo, _log_det)}
    RULES[_name] = Update(_formulas, attributes=("dimension_numbers", "mode"), op=_op)
