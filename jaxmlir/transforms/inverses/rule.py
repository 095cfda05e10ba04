"""The definition of inverse rules, and their registry.

A rule says how an op's operands follow from its results.  Whenever something new is known, the
solver offers the rule a :class:`Site`, which is the op with what is known of its values, and the
rule tells what follows.  Most ops need a formula only::

    unary("exp", lax.log, log_slope=lambda x, y: x)

Rules are grouped in small files by family, under the names of the ops; an op's record says in words
what the rule does, or why there is none.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from jaxmlir._compat import core
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.transforms.inverses.knowledge import Knowledge, ValuePart, box_shape
from jaxmlir.transforms.inverses.solver import InverseRule, NotInvertible, Site

JACOBIAN = "the Jacobian"
"""The log-determinant is that of the op's Jacobian for all elements, by its JVP rule."""

UNDEFINED = "undefined"
"""There is no log-determinant: the results are not independent of each other."""


@dataclass(frozen=True)
class Formula:
    """Computes the unknown operands from the results and the other operands."""

    solve: Callable[..., Any]
    """``(*results, *known operands, **attributes) -> operand``, or a tuple of several operands."""
    log_det: Callable[..., Any] | str | None = JACOBIAN
    """``(operand, *results, *known operands, **attributes)`` -> log|d result / d operand|: for each
    element of an elementwise op, else one number; ``None`` is zero."""


RULES: dict[str, InverseRule] = {}
"""The rules by op name."""


def rule(name: str) -> Callable[[type[InverseRule]], type[InverseRule]]:
    """Makes an instance of the decorated class the rule of an op."""

    def register(cls: type[InverseRule]) -> type[InverseRule]:
        RULES[name] = cls()
        return cls

    return register


def rule_of(op_name: str) -> InverseRule | None:
    """The rule of an op ``jaxpr.<name>``."""
    return RULES.get(op_name.removeprefix("jaxpr."))


# --- numbers that inverses compute in more than one place ----------------------------------------


def quotient(z: Any, y: Any) -> Any:
    """The factor that multiplied ``y`` to give ``z``.

    Integers are multiplied modulo a power of two, where an odd number has an inverse (Newton's
    iteration: each step doubles the correct bits).  Of an even ``y`` the factors of two are shifted
    out.  But if ``y`` divides ``z``, the quotient is the factor, unless the product overflowed.
    """
    if jnp.issubdtype(z.dtype, jnp.inexact):
        return z / y
    y = jnp.broadcast_to(y, z.shape).astype(z.dtype)
    one, two = jnp.ones_like(y), jnp.full_like(y, 2)
    twos = lax.population_count((y & -y) - one)
    odd = lax.shift_right_logical(y, twos)
    inverse, bits = (odd * 3) ^ two, 5
    while bits < jnp.iinfo(z.dtype).bits:
        inverse, bits = inverse * (two - odd * inverse), 2 * bits
    is_signed = jnp.issubdtype(z.dtype, jnp.signedinteger)
    shift = lax.shift_right_arithmetic if is_signed else lax.shift_right_logical
    return lax.select(lax.rem(z, y) == 0, lax.div(z, y), shift(z * inverse, twos))


def log_difference(z: Any, b: Any) -> Any:
    """log(exp(z) - exp(b)) for z > b, exact whether these are close or not (M. Maechler,
    "Accurately computing log(1 - exp(-|a|))", 2012)."""
    is_all = b == -jnp.inf
    below = jnp.where(is_all, -1, b - z)
    is_close = below > -math.log(2)
    close = jnp.log(-jnp.expm1(jnp.where(is_close, below, -1)))
    far = jnp.log1p(-jnp.exp(jnp.where(is_close, -1, below)))
    return jnp.where(is_all, z, z + jnp.where(is_close, close, far))


def wide(*xs: Any) -> list[Any]:
    """Arrays in one floating type in which matrices are factored, of at least 32 bits."""
    dtype = jnp.result_type(*(x.dtype for x in xs), jnp.float32)
    return [x.astype(dtype) for x in xs]


def log_abs_det(matrix: Any) -> Any:
    """log|det| of each matrix of a stack."""
    return jnp.linalg.slogdet(*wide(matrix))[1]


def dense_log_det(function: Callable[[Any], Any], vector: Any) -> Any:
    """log|det| of the Jacobian of a function between vectors of equal size."""
    holomorphic = bool(jnp.iscomplexobj(vector))
    return log_abs_det(jax.jacfwd(function, holomorphic=holomorphic)(vector))


# --- rules that are formulas ---------------------------------------------------------------------


@dataclass(frozen=True)
class Formulas(InverseRule):
    """The rule of an op whose unknown operands follow by a formula from all other values."""

    formulas: Mapping[tuple[int, ...], Formula]
    """The formulas by the unknown operands: ``formulas`` for operands that are different values,
    ``same`` for several operands that are all one value."""
    same: Mapping[tuple[int, ...], Formula] = field(default_factory=dict)
    attributes: tuple[str, ...] | None = ()
    """The attributes that the formulas take; ``None`` for all of the primitive's parameters."""
    elementwise: bool = False
    check: Callable[..., None] | None = None
    """``(unknown operands, *operand avals, **attributes)``; raises :class:`NotInvertible` for
    operands that have no inverse."""
    lost: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """For an operand, the values of the other one with which the result says nothing about it, as
    in a product with zero.  Only constants are compared with them."""

    def learn(self, site: Site) -> None:
        """Solves for the unknown operands, if the results are known."""
        results = [site.whole(v) for v in site.results]
        unknown = tuple(i for i, v in enumerate(site.operands) if site.whole(v) is None)
        if not unknown:
            return
        formula, targets = self._formula(site, unknown)
        all_known = all(v is not None for v in results)
        if all_known and formula is not None and not self._in_part(site, targets):
            self._solve(site, formula, unknown, targets, results)
        elif self.elementwise:
            self._by_element(site)
            if formula is not None and not any(_is_lost(self, site, t).any() for t in targets):
                self._by_case(site, formula, unknown, targets)

    def why_not(self, site: Site) -> str | None:
        for i, operand in enumerate(site.operands):
            if site.whole(operand) is None and _is_lost(self, site, operand).any():
                values = " or ".join(map(str, self.lost[i]))
                return f"operand {i} does not follow where operand {1 - i} is a constant {values}"
        return None

    def forward(self, site: Site) -> None:
        if self.elementwise:
            forward(site)

    def _formula(
        self, site: Site, unknown: tuple[int, ...]
    ) -> tuple[Formula | None, list[ir.Value]]:
        """The formula for some operands, and the values that it gives."""
        targets = [site.operands[i] for i in unknown]
        if len(unknown) > 1 and len(set(targets)) == 1:
            return self.same.get(unknown), targets[:1]
        return self.formulas.get(unknown), targets

    def _in_part(self, site: Site, targets: Sequence[ir.Value]) -> bool:
        """Whether some elements of the operands are known, or cannot be solved for."""
        return self.elementwise and any(
            site.solver.of(target).pieces or _is_lost(self, site, target).any()
            for target in targets
        )

    def _by_element(self, site: Site) -> None:
        """Solves for the elements for which all else is known: each element is an equation of its
        own, and is solved once."""
        (result,) = site.results
        shape = site.solver.of(result).shape
        if not site.solver.of(result).static:
            return
        for target in dict.fromkeys(site.operands):
            knowledge = site.solver.of(target)
            if knowledge.whole is not None or knowledge.shape != shape:
                continue
            solvable = site.solver.of(result).known() & ~knowledge.known()
            for operand in site.operands:
                if operand != target:
                    solvable = solvable & _known_elements(site.solver.of(operand), shape)
            if self.lost:
                solvable = solvable & ~_is_lost(self, site, target)
            places = tuple(i for i, v in enumerate(site.operands) if v == target)
            formula, targets = self._formula(site, places)
            if formula is not None and solvable.any():
                where = np.flatnonzero(solvable)
                where = where.reshape(box_shape(where, shape))
                elements = site.solver.take(result, where)
                self._solve(site, formula, places, targets, [elements], where)

    def _by_case(
        self, site: Site, formula: Formula, unknown: tuple[int, ...], targets: Sequence[ir.Value]
    ) -> None:
        """Solves for the elements that a predicate selects, if the result is known for these."""
        knowledge = site.solver.of(site.results[0])
        for part, value in list(knowledge.parts.items()):
            if part.of is not None and part not in site.done:
                site.done.add(part)
                self._solve(site, formula, unknown, targets, [value], part=part)

    def _solve(
        self,
        site: Site,
        formula: Formula,
        unknown: tuple[int, ...],
        targets: Sequence[ir.Value],
        results: Sequence[ir.Value],
        where: np.ndarray | None = None,
        part: ValuePart | None = None,
    ) -> None:
        """Applies a formula to whole values, the elements ``where``, or those ``part`` selects."""
        attributes = self._attributes(site)
        if self.check is not None:
            self.check(unknown, *(aval_of(v.type) for v in site.operands), **attributes)
        shape = site.solver.of(site.results[0]).shape
        known_args = [
            _at(site, v, where, shape) for i, v in enumerate(site.operands) if i not in unknown
        ]
        inputs = [*results, *known_args]
        avals = [aval_of(v.type) for v in targets]

        def solved(*args: Any) -> list[Any]:
            outs = formula.solve(*args, **attributes)
            outs = outs if len(avals) > 1 else (outs,)
            if self.elementwise and where is None:
                outs = [_first(x, a.shape) for x, a in zip(outs, avals, strict=True)]
            return [typed(x, a) for x, a in zip(outs, avals, strict=True)]

        values = site.emit(("solve", formula, unknown, len(targets)), solved, inputs)
        if site.solver.log_det is not None and formula.log_det is not None:
            self._add_log_det(site, formula, unknown, values, inputs, part)
        for target, value in zip(targets, values, strict=True):
            if part is not None:
                site.solver.tell_part(target, part, value)
            else:
                site.tell(target, value, where)

    def _attributes(self, site: Site) -> dict[str, Any]:
        """The arguments of the formulas besides values."""
        if self.attributes is None:
            return site.params
        return {name: site.params[name] for name in self.attributes}

    def _add_log_det(
        self,
        site: Site,
        formula: Formula,
        unknown: tuple[int, ...],
        solved: Sequence[ir.Value],
        inputs: Sequence[ir.Value],
        part: ValuePart | None,
    ) -> None:
        """Subtracts log|det| of the op in the operands that were found."""
        dtypes = {aval_of(v.type).dtype for v in solved}
        if not any(jnp.issubdtype(d, jnp.inexact) for d in dtypes):
            return
        # A holomorphic map between vectors of complex numbers counts as one of twice as many real
        # ones.
        per_number = 2 if any(jnp.issubdtype(d, jnp.complexfloating) for d in dtypes) else 1
        dtype, n = site.solver.log_det, len(solved)
        masked = [] if part is None else [site.whole(part.of)]
        log_det = formula.log_det
        numbers = [sum(map(_numbers, values)) for values in (solved, inputs[: len(site.results)])]
        if log_det is UNDEFINED or numbers[0] != numbers[1]:
            raise NotInvertible("its results are not independent, so it has no log-determinant")
        if log_det is JACOBIAN:
            log_det = (_slopes if self.elementwise else _slogdet)(site, unknown)
        else:
            log_det = functools.partial(log_det, **self._attributes(site))

        def total(*args: Any) -> list[Any]:
            xs, rest = args[:n], args[n : len(args) - len(masked)]
            logs = jnp.asarray(log_det(*xs, *rest))
            # log|z| is the real part of log(z).
            logs = (lax.real(logs) if jnp.iscomplexobj(logs) else logs).astype(dtype)
            if self.elementwise and logs.shape != xs[0].shape:
                # A slope that is the same for all elements counts for each.
                logs = jnp.broadcast_to(logs, xs[0].shape)
            for which in args[len(args) - len(masked) :]:
                selected = which == jnp.asarray(part.number, which.dtype)
                logs = lax.select(selected, logs, jnp.zeros_like(logs))
            if logs.ndim:
                logs = lax.reduce_sum(logs, tuple(range(logs.ndim)))
            return [logs if per_number == 1 else per_number * logs]

        key = ("log_det", formula, unknown, n, str(dtype), part and (part.number, part.count))
        (cost,) = site.emit(key, total, [*solved, *inputs, *masked])
        site.solver.costs.append(cost)


def _is_lost(rule: Formulas, site: Site, target: ir.Value) -> np.ndarray:
    """Which elements of an operand the result says nothing about, as a flat mask."""
    if not rule.lost:
        return np.zeros(0, bool)
    index = site.operands.index(target)
    return is_constant(site, site.operands[1 - index], rule.lost.get(index, ()))


def is_constant(site: Site, operand: ir.Value, values: Sequence[int]) -> np.ndarray:
    """Where an operand is a constant of some values, as a flat mask of the elements of the result;
    empty for a result of unknown size."""
    result = site.solver.of(site.results[0])
    static = site.solver.static(operand) if result.static else None
    if static is None:
        return np.zeros(result.size if result.static else 0, bool)
    return np.broadcast_to(np.isin(static, values), result.shape).ravel()


def forward(site: Site) -> None:
    """Computes an elementwise op for the elements for which all operands are known."""
    solver = site.solver
    (result,) = site.results
    full = solver.of(result)
    if not full.static:
        return
    computable = np.ones(full.size, bool)
    for operand in site.operands:
        computable &= _known_elements(solver.of(operand), full.shape)
    where = np.flatnonzero(computable & ~full.known())
    if not where.size:
        return
    where = where.reshape(box_shape(where, full.shape))
    args = [_at(site, v, where, full.shape) for v in site.operands]
    (value,) = site.emit("forward", site.apply, args)
    site.tell(result, value, where)


def _known_elements(operand: Knowledge, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of an elementwise op's result for which an operand is known, as a flat mask."""
    return np.broadcast_to(operand.known().reshape(operand.shape), shape).ravel()


def _at(
    site: Site, value: ir.Value, where: np.ndarray | None, shape: tuple[Any, ...]
) -> ir.Value | None:
    """An operand of an elementwise op at some of the result's elements.  Scalars stay as they are;
    along dimensions of size 1, a box has only one element."""
    value_shape = site.solver.of(value).shape
    if where is None or len(value_shape) < len(shape):
        return site.whole(value)
    if value_shape != shape:
        coordinates = np.unravel_index(where, shape)
        repeated = [n == 1 != m for n, m in zip(value_shape, shape, strict=True)]
        where = np.ravel_multi_index(
            tuple(c * (not again) for c, again in zip(coordinates, repeated, strict=True)),
            value_shape,
        )
        if where.ndim == len(shape):
            where = where[tuple(slice(1) if again else slice(None) for again in repeated)]
    return site.solver.take(value, where)


def _first(x: Any, shape: tuple[Any, ...]) -> Any:
    """The first of the equal values of an operand that the op repeats along dimensions."""
    if shape == jnp.shape(x):
        return x
    return lax.reshape(lax.slice(x, (0,) * x.ndim, shape or (1,) * x.ndim), shape)


def typed(x: Any, aval: Any) -> Any:
    """A value, converted to the dtype and the weak type of an abstract value."""
    x = jnp.asarray(x)
    if jnp.iscomplexobj(x) and not jnp.issubdtype(aval.dtype, jnp.complexfloating):
        x = lax.real(x)
    if jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(aval.dtype, jnp.integer):
        x = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    have = core.typeof(x)
    if have.dtype == aval.dtype and have.weak_type == aval.weak_type:
        return x
    return lax.convert_element_type_p.bind(
        x, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )


def _numbers(value: ir.Value) -> Any:
    """The number of real numbers in an array; symbolic if the array's size is."""
    aval = aval_of(value.type)
    if not jnp.issubdtype(aval.dtype, jnp.inexact):
        return 0
    return aval.size * (2 if jnp.issubdtype(aval.dtype, jnp.complexfloating) else 1)


def _of_unknown(site: Site, unknown: tuple[int, ...]) -> Callable[..., list[Any]]:
    """``(operand, *results, *known operands)`` -> the op's results as a function of the operand."""
    count, number = len(site.operands), len(site.results)

    def results(x: Any, *rest: Any) -> list[Any]:
        others = iter(rest[number:])
        return site.apply(*(x if i in unknown else next(others) for i in range(count)))

    return results


def _slopes(site: Site, unknown: tuple[int, ...]) -> Callable[..., Any]:
    """log|d result / d operand| of each element, by the op's JVP rule."""
    function = _of_unknown(site, unknown)

    def log_slope(x: Any, *rest: Any) -> Any:
        _, (slope,) = jax.jvp(lambda x: function(x, *rest), (x,), (jnp.ones_like(x),))
        return jnp.log(jnp.abs(slope))

    return log_slope


def _slogdet(site: Site, unknown: tuple[int, ...]) -> Callable[..., Any]:
    """log|det| of the op's Jacobian in one operand, by its JVP rule."""
    function = _of_unknown(site, unknown)

    def log_det(x: Any, *rest: Any) -> Any:
        def of_vector(flat: Any) -> Any:
            return ravel_pytree(function(flat.reshape(x.shape), *rest))[0]

        return dense_log_det(of_vector, jnp.ravel(x))

    return log_det


def unary(
    name: str,
    solve: Callable[..., Any],
    log_slope: Callable[..., Any] | str | None = JACOBIAN,
    *,
    attributes: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
) -> None:
    """The rule of an elementwise op of one operand; ``log_slope(x, y)`` is log|dy/dx|."""
    formula = {(0,): Formula(solve, log_slope)}
    RULES[name] = Formulas(formula, attributes=attributes, elementwise=True, check=check)


def binary(
    name: str,
    first: Formula | None,
    second: Formula | None,
    same: Formula | None = None,
    *,
    check: Callable[..., None] | None = None,
    lost: Mapping[int, tuple[int, ...]] | None = None,
) -> None:
    """The rule of an elementwise op of two operands: how each follows from the other, and how both
    follow if they are one value."""
    formulas = {(i,): f for i, f in enumerate((first, second)) if f is not None}
    together = {(0, 1): same} if same else {}
    RULES[name] = Formulas(formulas, together, (), True, check, lost or {})


def whole(
    name: str,
    formulas: Mapping[tuple[int, ...], Formula],
    *,
    attributes: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
) -> None:
    """The rule of an op that is inverted for all elements together."""
    RULES[name] = Formulas(formulas, attributes=attributes, check=check)
