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
from typing import Any, ClassVar, NamedTuple

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
from jaxmlir.dialect.ops import CALLEES, Trait, with_trait
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
    log_difference,
    rule,
)
from jaxmlir.transforms.inverses.solver import InverseFunction, InverseRule, NotInvertible, Site


class LibraryFunction(NamedTuple):
    """A function of JAX's library that is inverted as a whole."""

    module: str
    formulas: dict[int, tuple[Callable[..., Any], Callable[..., Any]]]
    """For each operand that can be solved for, the fields of its :class:`Formula`."""
    positive: str = ""
    """The second parameter, if there is one that the function is one-to-one only for positive
    values of.  The formulas take it as their last argument."""

    def check(self, site: Site) -> None:
        """Fails if the parameter is known not to be positive; an argument is not checked."""
        if not self.positive or len(site.operands) < 2:
            return
        static = site.solver.static(site.operands[1])
        if static is not None and not (static > 0).all():
            least = float(static.min())
            raise NotInvertible(f"it is many-to-one for {self.positive} {least:g}, expected > 0")


def _leaky_log_slope(x: Any, y: Any, slope: Any) -> Any:
    return jnp.where(y >= 0, 0.0, jnp.log(jnp.abs(slope)))


def _unelu(y: Any, scale: Any) -> Any:
    return jnp.where(y > 0, y, lax.log1p(jnp.minimum(y, 0) / scale))


def _elu_log_slope(x: Any, y: Any, scale: Any) -> Any:
    return jnp.where(y > 0, 0.0, jnp.log(scale) + x)


def _soft_sign_log_slope(x: Any, y: Any) -> Any:
    # It is not holomorphic: the slope is (1 + |x|)**-2 along x, and (1 + |x|)**-1 across.
    power = -1.5 if jnp.iscomplexobj(x) else -2
    return power * lax.log1p(lax.abs(x))


LIBRARY: dict[str, LibraryFunction] = {
    "logaddexp": LibraryFunction(
        "jax.numpy", dict.fromkeys((0, 1), (log_difference, lambda x, z, b: x - z))
    ),
    "logit": LibraryFunction(
        "jax.scipy.special", {0: (lax.logistic, lambda x, y: -lax.log(x) - lax.log1p(-x))}
    ),
    "leaky_relu": LibraryFunction(
        "jax.nn",
        {0: (lambda y, slope: jnp.where(y >= 0, y, y / slope), _leaky_log_slope)},
        "negative_slope",
    ),
    "elu": LibraryFunction("jax.nn", {0: (_unelu, _elu_log_slope)}, "alpha"),
    "soft_sign": LibraryFunction(
        "jax.nn", {0: (lambda y: y / (1 - lax.abs(y)), _soft_sign_log_slope)}
    ),
}
"""The known library functions, by name."""


def learn_known(site: Site, symbol: str) -> bool:
    """Applies the rule of a library function's call; false if the call is of another function."""
    name = short_name(symbol.partition(".")[0])
    if name not in LIBRARY:
        return False
    if "library" not in site.memory:
        site.memory["library"] = _find_rule(site, symbol, name)
    library_rule = site.memory["library"]
    if library_rule is None:
        return False
    LIBRARY[name].check(site)
    library_rule.learn(site)
    return True


def _find_rule(site: Site, symbol: str, name: str) -> Formulas | None:
    """The rule of a called function, if it is the library's of that name, batched or not."""
    called = site.solver.rules.program.functions
    own = structure_of(called, symbol, without=_DERIVATIVES)
    avals = tuple(aval_of(v.type) for v in site.operands)
    rank = _rank(avals)
    names = _names(called, symbol)
    alone = _traced(name, avals, (), setting())
    # Batches differ in movements only.  A user's function of the name is not searched for.
    if alone is None or alone.names - _MOVEMENTS != names - _MOVEMENTS:
        return None
    # Only a batch along another axis than the first transposes.
    ops = reached_ops(called, symbol, custom_rules=False)
    transposes = [op for op, op_name in ops if op_name == "jaxpr.transpose"]
    permutations = {tuple(codec.decode(op.attributes["permutation"])) for op in transposes}
    orders = {p for p in permutations if len(p) == rank} or {tuple(range(rank))}
    for depth, order in itertools.product(range(rank + 1), orders):
        traced = _traced(name, avals, _batch_axes(order[:depth], rank), setting())
        if traced is not None and traced.structure == own:
            return _rule_of(name, traced.layout if transposes else None)
    return None


def _batch_axes(first: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes of nested batches, the innermost first, that ``vmap`` makes the ``first`` axes of an
    array.  It does so with the outermost batch first; an inner one counts the axes that remain."""
    remaining = list(range(rank))
    axes = []
    for axis in first:
        axes.append(remaining.index(axis))
        remaining.remove(axis)
    return tuple(reversed(axes))


def _names(called: Any, symbol: str) -> frozenset[str]:
    """The names of the ops that a function runs."""
    return frozenset(name for _, name in reached_ops(called, symbol, custom_rules=False))


@functools.cache
def _rule_of(name: str, layout: tuple[int, ...] | None) -> Formulas:
    """The rule of a library function.  A parameter of a call is an operand; at its default it is a
    constant in the called function, which the formulas take from JAX.

    Args:
      layout: if the result is transposed, the permutation that undoes that.
    """
    function = LIBRARY[name]
    formulas = function.formulas
    if function.positive:
        solve, log_slope = formulas[0]
        default = inspect.signature(_function(name)).parameters[function.positive].default
        formulas = {
            0: (
                lambda y, value=default: solve(y, value),
                lambda x, y, value=default: log_slope(x, y, value),
            )
        }
    if layout is not None:
        formulas = {i: _of_transposed(*fields, layout) for i, fields in formulas.items()}
    rules = {(i,): Formula(*fields) for i, fields in formulas.items()}
    return Formulas(rules, elementwise=layout is None)


def _of_transposed(
    solve: Callable[..., Any], log_slope: Callable[..., Any], layout: tuple[int, ...]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The fields of a formula for a result that is transposed; ``layout`` undoes that."""

    def of_transposed(z: Any, *known: Any) -> Any:
        return solve(z.transpose(layout), *known)

    def log_det(x: Any, z: Any, *known: Any) -> Any:
        return jnp.broadcast_to(log_slope(x, z.transpose(layout), *known), x.shape)

    return of_transposed, log_det


def _function(name: str) -> Callable[..., Any] | None:
    return getattr(importlib.import_module(LIBRARY[name].module), name, None)


class _TracedFunction(NamedTuple):
    """A function of the library, traced.

    Attributes:
      layout: the permutation that gives its result the arguments' axes.
      names: the names of its ops.
    """

    structure: Any
    layout: tuple[int, ...]
    names: frozenset[str]


@functools.cache
def _traced(
    name: str, avals: tuple[Any, ...], axes: tuple[int, ...], _: object
) -> _TracedFunction | None:
    """JAX's function for arguments of these types, batched along ``axes``, the innermost first, in
    a setting; ``None`` if it does not take such arguments."""
    function = _function(name)
    if function is None or not all(isinstance(a, core.ShapedArray) for a in avals):
        return None
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
            return None
    traced = functions(import_jaxpr(closed, "main").module)
    symbols = [s for s in traced if re.fullmatch(rf"{name}(_\d+)*", s)]
    if not symbols:
        return None
    layout = np.arange(rank)
    for eqn in closed.eqns:
        if eqn.primitive is lax.transpose_p:
            layout = layout[list(eqn.params["permutation"])]
    structure = structure_of(traced, symbols[-1], without=_DERIVATIVES)
    return _TracedFunction(structure, tuple(layout.tolist()), _names(traced, symbols[-1]))


def _rank(avals: Iterable[Any]) -> int:
    return max([len(getattr(aval, "shape", ())) for aval in avals], default=0)


_MOVEMENTS = with_trait(Trait.MOVEMENT)
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
        outs = self._write(site, inverted, [site.whole(v) for v in arguments])
        targets = [site.operands[i] for i in inverted.arguments]
        targets += [site.results[i] for i in inverted.results]
        site.answer(targets, outs[: len(targets)], outs[-1] if inverted.log_det else None)

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
