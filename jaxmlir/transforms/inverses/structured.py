"""Inverses of ops with several results or parts: complex numbers, orderings, factorisations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.inverses.knowledge import ValuePart
from jaxmlir.transforms.inverses.rule import RULES, UNDEFINED, Formula, rule, typed, whole
from jaxmlir.transforms.inverses.solver import InverseRule, NotInvertible, Site

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
