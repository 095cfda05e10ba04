"""Inverses of ops with several results or parts: complex numbers, orderings, factorisations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

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
    """A sort; an array that is known before and after it tells how the others were permuted."""

    def learn(self, site: Site) -> None:
        before, after = site.known(site.operands), site.known(site.results)
        differ = [
            self._differ(site, i) if all(known) else False
            for i, known in enumerate(zip(before, after, strict=True))
        ]
        if not any(differ):
            return
        witness = differ.index(True if True in differ else "maybe")
        dimension = site.params["dimension"]
        for target, result, is_known in zip(site.operands, site.results, before, strict=True):
            if is_known or site.whole(result) is None:
                continue
            aval = aval_of(target.type)

            def unsorted(was: Any, now: Any, y: Any, aval: Any = aval) -> list[Any]:
                order = jnp.argsort(now, axis=dimension)
                rank = jnp.argsort(jnp.argsort(was, axis=dimension), axis=dimension)
                places = jnp.take_along_axis(order, rank, axis=dimension)
                return [typed(jnp.take_along_axis(y, places, axis=dimension), aval)]

            values = [site.operands[witness], site.results[witness], result]
            (value,) = site.emit("unsorted", unsorted, list(map(site.whole, values)))
            site.tell(target, value)

    def _differ(self, site: Site, i: int) -> bool | Literal["maybe"]:
        """Whether the elements of an operand differ, as those of an iota do; they may if they are
        known at run time only."""
        array = site.solver.static(site.operands[i])
        if array is None:
            return "maybe"
        in_order = np.sort(array, site.params["dimension"])
        return bool(np.diff(in_order, axis=site.params["dimension"]).all())


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
