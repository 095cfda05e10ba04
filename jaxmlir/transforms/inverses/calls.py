"""Inverses of calls: the called function is inverted, once for each set of known values.

Functions of JAX's own library are recognized as a whole: ``jax.nn.softplus`` is one-to-one, but is
made of ops that are many-to-one.  So a called function is inverted by a formula if it has a known
name, and its ops are those that the installed JAX traces for the function of that name.  A user's
own function of such a name has other ops, and these are inverted.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from jaxmlir._compat import core
from jaxmlir.bridge.importer import import_jaxpr
from jaxmlir.caching import setting
from jaxmlir.dialect import codec, custom_rule_ops
from jaxmlir.dialect.builder import inline, reached_ops, symbol_ref
from jaxmlir.dialect.ir import functions, ir
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.dialect.types import aval_of, widths_of
from jaxmlir.rewriting.dedupe import short_name, structure_of
from jaxmlir.support.masks import chosen, split
from jaxmlir.transforms.higher_order.custom_linear_solve import Solve
from jaxmlir.transforms.inverses.linear import Update
from jaxmlir.transforms.inverses.rule import (
    RULES,
    Formula,
    Formulas,
    dense_log_det,
    learn,
    log_difference,
    rule,
)
from jaxmlir.transforms.inverses.solver import InverseFunction, InverseRule, NotInvertible, Site


@dataclass(frozen=True)
class LibraryFunction:
    """A function of JAX's library."""

    module: str
    formulas: Formulas
    positive: str = ""
    """The second parameter, if the function is many-to-one unless that is positive."""

    def check(self, site: Site) -> None:
        """Fails if the parameter is known not to be positive; an argument is not checked."""
        if not self.positive or len(site.operands) < 2:
            return
        static = site.solver.static(site.operands[1])
        if static is not None and not (static > 0).all():
            least = float(static.min())
            raise NotInvertible(f"it is many-to-one for {self.positive} {least:g}, expected > 0")


def _unary(solve: Callable[..., Any], log_slope: Callable[..., Any]) -> Formulas:
    return Formulas({(0,): Formula(solve, log_slope)}, elementwise=True)


_LOGADDEXP = Formula(log_difference, lambda x, z, b: x - z)


# A parameter of a call is an operand; at its default it is a constant in the called function.


def _unleaky(y: Any, slope: Any = None, *, negative_slope: Any) -> Any:
    return jnp.where(y >= 0, y, y / (negative_slope if slope is None else slope))


def _leaky_log_slope(x: Any, y: Any, slope: Any = None, *, negative_slope: Any) -> Any:
    slope = negative_slope if slope is None else slope
    return jnp.where(y >= 0, 0.0, jnp.log(jnp.abs(slope)))


def _unelu(y: Any, scale: Any = None, *, alpha: Any) -> Any:
    return jnp.where(y > 0, y, lax.log1p(jnp.minimum(y, 0) / (alpha if scale is None else scale)))


def _elu_log_slope(x: Any, y: Any, scale: Any = None, *, alpha: Any) -> Any:
    return jnp.where(y > 0, 0.0, jnp.log(alpha if scale is None else scale) + x)


def _soft_sign_log_slope(x: Any, y: Any) -> Any:
    # It is not holomorphic: the slope is (1 + |x|)**-2 along x, and (1 + |x|)**-1 across.
    power = -1.5 if jnp.iscomplexobj(x) else -2
    return power * lax.log1p(lax.abs(x))


def _parametric(name: str, solve: Callable[..., Any], log_slope: Callable[..., Any]) -> Formulas:
    formula = Formula(solve, log_slope)
    return Formulas({(0,): formula}, attributes=(name,), elementwise=True)


LIBRARY: dict[str, LibraryFunction] = {
    "logaddexp": LibraryFunction(
        "jax.numpy", Formulas({(0,): _LOGADDEXP, (1,): _LOGADDEXP}, elementwise=True)
    ),
    "logit": LibraryFunction(
        "jax.scipy.special", _unary(lax.logistic, lambda x, y: -lax.log(x) - lax.log1p(-x))
    ),
    "leaky_relu": LibraryFunction(
        "jax.nn", _parametric("negative_slope", _unleaky, _leaky_log_slope), "negative_slope"
    ),
    "elu": LibraryFunction("jax.nn", _parametric("alpha", _unelu, _elu_log_slope), "alpha"),
    "soft_sign": LibraryFunction(
        "jax.nn", _unary(lambda y: y / (1 - lax.abs(y)), _soft_sign_log_slope)
    ),
}
"""The known library functions, by name."""


def learn_known(site: Site, symbol: str) -> bool:
    """Applies the rule of a library function's call; false if the call is of another function."""
    name = short_name(symbol.partition(".")[0])
    if name not in LIBRARY:
        return False
    if "library" not in site.memory:
        site.memory["library"] = _formulas(site, symbol, name)
    formulas = site.memory["library"]
    if formulas is None:
        return False
    LIBRARY[name].check(site)
    learn(formulas, site, _defaults(name))
    return True


def _formulas(site: Site, symbol: str, name: str) -> Formulas | None:
    """The formulas of a called function, if it is the library's of that name, batched or not."""
    called = site.solver.rules.program.functions
    own = structure_of(called, symbol, without=_DERIVATIVES)
    avals = tuple(aval_of(v.type) for v in site.operands)
    rank = _rank(avals)
    ops = reached_ops(called, symbol, custom_rules=False)
    # Only a batch along another axis than the first transposes.
    transposes = any(op_name == "jaxpr.transpose" for _, op_name in ops)
    for depth in range(rank + 1):
        ranks = range(rank - depth + 1, rank + 1)
        for axes in itertools.product(*(range(n if transposes else 1) for n in ranks)):
            structure, layout = _traced(name, avals, axes, setting())
            if structure == own:
                return _transposed(name, layout) if transposes else LIBRARY[name].formulas
    return None


@functools.cache
def _transposed(name: str, layout: tuple[int, ...]) -> Formulas:
    """The formulas of a library function whose result is transposed; ``layout`` undoes that."""
    formulas = LIBRARY[name].formulas

    def of_transposed(formula: Formula) -> Formula:
        def solve(z: Any, *known: Any, **attributes: Any) -> Any:
            return formula.solve(z.transpose(layout), *known, **attributes)

        def log_det(x: Any, z: Any, *known: Any, **attributes: Any) -> Any:
            log_slope = formula.log_det(x, z.transpose(layout), *known, **attributes)
            return jnp.broadcast_to(log_slope, x.shape)

        return Formula(solve, log_det)

    transposed = {k: of_transposed(formula) for k, formula in formulas.formulas.items()}
    return Formulas(transposed, attributes=formulas.attributes)


def _function(name: str) -> Callable[..., Any] | None:
    return getattr(importlib.import_module(LIBRARY[name].module), name, None)


def _defaults(name: str) -> dict[str, Any]:
    """The defaults of a library function's parameters."""
    parameters = inspect.signature(_function(name)).parameters.values()
    return {p.name: p.default for p in parameters}


@functools.cache
def _traced(
    name: str, avals: tuple[Any, ...], axes: tuple[int, ...], _: object
) -> tuple[Any | None, tuple[int, ...]]:
    """The structure of JAX's function for arguments of these types, batched along ``axes``, the
    innermost first, in a setting; and the permutation that gives its result the arguments' axes."""
    function = _function(name)
    if function is None or not all(isinstance(a, core.ShapedArray) for a in avals):
        return None, ()
    # Without disable_jit the function is a call, which is found by its name.
    with widths_of(avals), jax.disable_jit(False):
        rank = _rank(avals)
        for axis in axes:
            in_axes = [axis if len(a.shape) == rank else None for a in avals]
            function = jax.vmap(function, in_axes, axis)
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
        try:
            closed = jax.make_jaxpr(lambda *xs: function(*xs))(*args)
        except TypeError:  # Not for arguments of this kind.
            return None, ()
    traced = functions(import_jaxpr(closed, "main").module)
    symbols = [s for s in traced if re.fullmatch(rf"{name}(_\d+)*", s)]
    if not symbols:
        return None, ()
    layout = np.arange(rank)
    for eqn in closed.eqns:
        if eqn.primitive is lax.transpose_p:
            layout = layout[list(eqn.params["permutation"])]
    structure = structure_of(traced, symbols[-1], without=_DERIVATIVES)
    return structure, tuple(layout.tolist())


def _rank(avals: Iterable[Any]) -> int:
    return max([len(getattr(aval, "shape", ())) for aval in avals], default=0)


# Derivative rules do not affect the value.
_DERIVATIVES = custom_rule_ops.TRACED | {custom_rule_ops.MARK}


class CallInverse(InverseRule):
    """The rule of calls: a call of the called function's inverse."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        if learn_known(site, callee(site)):
            return
        masks = site.given(site.operands), site.given(site.results)
        if masks in site.done or not any(map(any, masks)):
            return
        site.done.add(masks)
        inverted = site.invert(callee(site), *masks)
        if not inverted.symbol:
            return
        site.inverted = masks if inverted.log_det else None
        arguments = chosen(site.results, masks[1]) + chosen(site.operands, masks[0])
        values = [site.whole(v) for v in arguments]
        distribute(site, inverted, self._write(site, inverted, values))

    def _write(self, site: Site, inverted: InverseFunction, values: Any) -> list[ir.Value]:
        function = site.solver.rules.program.function(inverted.symbol)
        attributes: dict[str, Any] = {}
        name = "jaxpr.jit"
        if site.name == "jaxpr.remat2":
            name, attributes = site.name, dict(site.op.attributes.items())
        elif site.name == name:
            names = ("name", "jaxpr.ctx")
            attributes = {k: v for k, v in site.op.attributes.items() if k in names}
        attributes["jaxpr"] = symbol_ref(inverted.symbol)
        return site.create(name, function.type.results, values, attributes)


def distribute(site: Site, inverted: InverseFunction, outs: list[ir.Value]) -> None:
    """Reports the results of a call of an inverted function."""
    targets = [site.operands[i] for i in inverted.arguments]
    targets += [site.results[i] for i in inverted.results]
    site.answer(targets, outs[: len(targets)], outs[-1] if inverted.log_det else None)


def callee(site: Site) -> str:
    """The symbol of the function that an op calls."""
    attribute = CALLEES[site.name]
    return ir.FlatSymbolRefAttr(site.op.attributes[attribute]).value


def can_expand(site: Site, with_rules: bool = False) -> bool:
    """Whether an op whose operands are not all known may be replaced: a call, without or
    ``with_rules`` for the library function as a whole, by the ops of the callee, an update by its
    steps."""
    if all(site.known(site.operands)):
        return False
    if isinstance(site.rule, Update):
        return site.rule.steps(site) is not None
    if isinstance(site.rule, CustomInverse) and len(site.op.attributes["operands"]):
        return False
    if not isinstance(site.rule, CallInverse):
        return False
    return with_rules or not site.memory.get("library")


def expand(site: Site, args: list[ir.Value]) -> list[ir.Value]:
    """Writes the ops that replace an op that :func:`can_expand`."""
    if isinstance(site.rule, Update):
        steps = site.rule.steps(site)
        assert steps is not None
        return site.emit("steps", steps, args)
    return inline(site.solver.rules.program.function(callee(site)), args)


class CustomInverse(CallInverse):
    """The rule of custom inverses: a call of the one given for the unknown operands, if any."""

    def learn(self, site: Site) -> None:
        unknown = tuple(i for i, k in enumerate(site.given(site.operands)) if not k)
        attributes = site.op.attributes
        targets = [codec.decode(a) for a in attributes["operands"]]
        if unknown not in targets or not all(site.given(site.results)):
            super().learn(site)
            return
        k = targets.index(unknown)
        dtype, symbol = site.solver.log_det, attributes["log_dets"][k]
        function = site.solver.rules.program.function(ir.FlatSymbolRefAttr(symbol).value)
        if dtype is not None and not function.type.results:
            raise NotInvertible("its Jacobian is not square, and no log_det is given")
        others = [v for i, v in enumerate(site.operands) if i not in unknown]
        values = [site.whole(v) for v in (*site.results, *others)]
        types = [site.operands[i].type for i in unknown]
        answers = site.create("jaxpr.jit", types, values, {"jaxpr": attributes["inverses"][k]})
        term = None
        if dtype is not None:
            (log_det,) = site.create(
                "jaxpr.jit", function.type.results, [*answers, *values], {"jaxpr": symbol}
            )
            (term,) = site.emit("term", lambda x: [-x.astype(dtype)], [log_det])
        site.answer([site.operands[i] for i in unknown], answers, term)


@rule("custom_linear_solve")
class LinearSolve(InverseRule):
    """Undoes a solve: the right-hand side is the linear function, applied to the solution."""

    late: ClassVar[bool] = True

    def learn(self, site: Site) -> None:
        solve = Solve.read(site.op)
        consts, unknown = split(site.operands, solve.num_consts)
        is_known = site.known(unknown)
        if not all(site.known(site.results)) or all(is_known):
            return
        if not all(site.known(consts)):
            raise NotInvertible("a value that its functions close over is unknown")
        if any(is_known):
            return
        matvec = solve.symbols["matvec"]
        args = [site.whole(v) for v in (*solve.of(consts, "matvec"), *site.results)]
        types = [v.type for v in unknown]
        outs = site.create("jaxpr.jit", types, args, {"jaxpr": symbol_ref(matvec)})
        if site.solver.log_det is not None:
            self._add_log_det(site, matvec, args)
        for target, out in zip(unknown, outs, strict=True):
            site.tell(target, out)

    def _add_log_det(self, site: Site, matvec: str, args: list[ir.Value]) -> None:
        """Adds the log-determinant of the right-hand side as a function of the solution."""
        function = core.jaxpr_as_fun(site.solver.rules.exporter.jaxpr(matvec))
        n = len(site.results)

        def log_det(*args: Any) -> list[Any]:
            consts, x = args[: len(args) - n], args[len(args) - n :]
            flat, unflatten = ravel_pytree(x)

            def product(flat: Any) -> Any:
                return ravel_pytree(function(*consts, *unflatten(flat)))[0]

            log_abs_det = dense_log_det(product, flat).astype(site.solver.log_det)
            return [2 * log_abs_det if jnp.iscomplexobj(flat) else log_abs_det]

        (term,) = site.emit("log_det", log_det, args)
        site.solver.terms.append(term)


for _name in CALLEES:
    RULES[_name.removeprefix("jaxpr.")] = CallInverse()
RULES["custom_inverse_call"] = CustomInverse()
