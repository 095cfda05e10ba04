"""Inverses of ops of linear algebra: products with a known matrix, triangular systems, transforms,
sums, factorisations; and of orderings and of complex numbers in parts."""

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
from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.inverses.knowledge import ValuePart
from jaxmlir.transforms.inverses.rule import (
    RULES,
    UNDEFINED,
    Formula,
    Formulas,
    log_abs_det,
    log_difference,
    quotient,
    rule,
    typed,
    whole,
    wide,
)
from jaxmlir.transforms.inverses.solver import InverseRule, NotInvertible, Site

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


for _name, _formula in {
    "cumsum": Formula(lambda y, *, axis, reverse: y - _before(y, 0, axis, reverse), None),
    "cumprod": Formula(
        lambda y, *, axis, reverse: quotient(y, _before(y, 1, axis, reverse)),
        lambda x, y, *, axis, reverse: jnp.sum(jnp.log(jnp.abs(_before(y, 1, axis, reverse)))),
    ),
    "cumlogsumexp": Formula(
        lambda y, *, axis, reverse: log_difference(y, _before(y, -jnp.inf, axis, reverse)),
        lambda x, y, *, axis, reverse: jnp.sum(x - y),
    ),
}.items():
    whole(_name, {(0,): _formula}, attributes=("axis", "reverse"))

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


# --- complex numbers and their parts --------------------------------------------------------------

whole(
    "complex",
    {
        (0, 1): Formula(lambda z: (lax.real(z), lax.imag(z)), None),
        (0,): Formula(lambda z, y: lax.real(z), None),
        (1,): Formula(lambda z, x: lax.imag(z), None),
    },
)


@dataclass(frozen=True)
class PartOfComplex(InverseRule):
    """The real or imaginary part: a complex number is known when both of its parts are."""

    number: int

    def learn(self, site: Site) -> None:
        part = site.whole(site.results[0])
        if part is not None:
            site.solver.tell_part(site.operands[0], ValuePart(None, self.number, 2), part)

    def forward(self, site: Site) -> None:
        part = site.solver.of(site.operands[0]).parts.get(ValuePart(None, self.number, 2))
        if part is not None:
            site.tell(site.results[0], part)


RULES["real"] = PartOfComplex(0)
RULES["imag"] = PartOfComplex(1)

# --- orderings ------------------------------------------------------------------------------------


@rule("sort")
class Sort(InverseRule):
    """A sort: its keys, or an array of different elements that is known before it and after, tell
    how the others were permuted."""

    def learn(self, site: Site) -> None:
        known, dimension = site.known(site.operands), site.params["dimension"]
        keys = range(site.params["num_keys"])
        differ = [i for i, is_known in enumerate(known) if is_known and self._differs(site, i)]
        both = [i for i in differ if site.whole(site.results[i]) is not None]
        is_exact = site.params["is_stable"] or not {*keys}.isdisjoint(differ)
        if is_exact and all(known[i] for i in keys):
            witnesses, places = [site.operands[i] for i in keys], _places_by_keys
        elif both:
            witnesses, places = [site.operands[both[0]], site.results[both[0]]], _places_of_equals
        else:
            return
        for target, result, is_known in zip(site.operands, site.results, known, strict=True):
            if is_known or site.whole(result) is None:
                continue
            aval = aval_of(target.type)

            def unsorted(y: Any, *xs: Any, aval: Any = aval) -> list[Any]:
                at = places(*xs, dimension=dimension)
                return [typed(jnp.take_along_axis(y, at, axis=dimension), aval)]

            values = map(site.whole, [result, *witnesses])
            (value,) = site.emit(("unsorted", len(witnesses), places), unsorted, [*values])
            site.tell(target, value)

    def why_not(self, site: Site) -> str | None:
        return (
            "the order before the sort is lost; it follows from known keys if the sort is stable, "
            "or from a constant of different elements, such as an iota, that is sorted along"
        )

    def _differs(self, site: Site, i: int) -> bool:
        """Whether the elements of an operand are known to differ, as those of an iota do."""
        array = site.solver.static(site.operands[i])
        if array is None:
            return False
        dimension = site.params["dimension"]
        in_order = np.moveaxis(np.sort(array, dimension), dimension, 0)
        return bool((in_order[:-1] < in_order[1:]).all())


def _places_by_keys(*keys: Any, dimension: int) -> Any:
    """The place of each element after a stable sort by keys that are known before it."""
    numbers = lax.broadcasted_iota(np.int32, keys[0].shape, dimension)
    *_, order = lax.sort((*keys, numbers), dimension=dimension, num_keys=len(keys))
    return jnp.argsort(order, axis=dimension)


def _places_of_equals(before: Any, after: Any, *, dimension: int) -> Any:
    """The place, in an array, of the element that was at each place before."""
    order = jnp.argsort(after, axis=dimension)
    rank = jnp.argsort(jnp.argsort(before, axis=dimension), axis=dimension)
    return jnp.take_along_axis(order, rank, axis=dimension)


# --- bits and keys --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeConversion(InverseRule):
    """A conversion; the operand follows from the result and the operand's type."""

    convert: Callable[[Any, Any], Any]
    """``(result, abstract value of the operand) -> operand``."""

    def learn(self, site: Site) -> None:
        y, (target,) = site.whole(site.results[0]), site.operands
        if y is not None and site.whole(target) is None:
            aval, convert = aval_of(target.type), self.convert
            if site.solver.log_det is not None and jnp.issubdtype(aval.dtype, jnp.inexact):
                raise NotInvertible("bits have no derivative, so it has no log-determinant")
            (value,) = site.emit(("to", aval), lambda y: [convert(y, aval)], [y])
            site.tell(target, value)


def _keys(y: Any, aval: Any) -> Any:
    return jax.random.wrap_key_data(y, impl=aval.dtype._impl.name)


def _bits(y: Any, aval: Any) -> Any:
    return typed(lax.bitcast_convert_type(y, aval.dtype), aval)


RULES["bitcast_convert_type"] = TypeConversion(_bits)
RULES["random_wrap"] = TypeConversion(lambda y, aval: jax.random.key_data(y))
RULES["random_unwrap"] = TypeConversion(_keys)
RULES["random_clone"] = TypeConversion(lambda y, aval: y)

# --- factorisations -------------------------------------------------------------------------------


def _matmul(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _adjoint(a: Any) -> Any:
    return jnp.conj(a).swapaxes(-1, -2)


def _unlu(packed: Any, pivots: Any, permutation: Any) -> Any:
    n = min(packed.shape[-2:])
    eye = jnp.eye(packed.shape[-2], n, dtype=packed.dtype)
    lower = jnp.tril(packed[..., :, :n], -1) + eye
    product = _matmul(lower, jnp.triu(packed[..., :n, :]))
    return jnp.take_along_axis(product, jnp.argsort(permutation)[..., None], axis=-2)


def _unsvd(s: Any, u: Any, vh: Any) -> Any:
    n = s.shape[-1]
    return _matmul(u[..., :, :n] * s[..., None, :].astype(u.dtype), vh[..., :n, :])


@rule("cholesky")
class Cholesky(InverseRule):
    """The product L L^H, for which the lower triangle is enough."""

    def learn(self, site: Site) -> None:
        (target,), (result,) = site.operands, site.results
        knowledge = site.solver.of(result)
        if site.whole(target) is not None or not knowledge.static:
            return
        where = np.flatnonzero(np.broadcast_to(np.tri(knowledge.shape[-1]), knowledge.shape))
        entries = site.solver.take(result, where)
        if entries is None:
            return
        if site.solver.log_det is not None:
            raise NotInvertible("its results are not independent, so it has no log-determinant")
        aval = aval_of(target.type)

        def product(entries: Any) -> list[Any]:
            lower = jnp.zeros(aval.size, aval.dtype).at[where].set(entries).reshape(aval.shape)
            return [typed(_matmul(lower, _adjoint(lower)), aval)]

        (value,) = site.emit("product", product, [entries])
        site.tell(target, value)


def _all_of(unknown: tuple[int, ...], aval: Any, *, subset_by_index: Any) -> None:
    if subset_by_index not in (None, (0, min(aval.shape[-2:]))):
        raise NotInvertible("a subset of the vectors does not determine the matrix")


def _with_vectors(
    unknown: tuple[int, ...], aval: Any, *, compute_uv: bool, subset_by_index: Any
) -> None:
    if not compute_uv:
        raise NotInvertible("the singular values alone do not determine the matrix")
    _all_of(unknown, aval, subset_by_index=subset_by_index)


whole("lu", {(0,): Formula(_unlu, UNDEFINED)})
whole("qr", {(0,): Formula(lambda q, r, *p: _unqr(q, r, *p), UNDEFINED)})
whole(
    "eigh",
    {
        (0,): Formula(
            lambda v, w, **_: _matmul(v * w[..., None, :].astype(v.dtype), _adjoint(v)), UNDEFINED
        )
    },
    attributes=("subset_by_index",),
    check=_all_of,
)
whole(
    "svd",
    {(0,): Formula(lambda *factors, **_: _unsvd(*factors), UNDEFINED)},
    attributes=("compute_uv", "subset_by_index"),
    check=_with_vectors,
)


def _unqr(q: Any, r: Any, *pivots: Any) -> Any:
    x = _matmul(q, r)
    for permutation in pivots:
        x = jnp.take_along_axis(x, jnp.argsort(permutation)[..., None, :], axis=-1)
    return x
