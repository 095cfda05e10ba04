"""Inverses of calls: the called function is inverted, once for what is known of its values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import inline
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.transforms.inverses import library
from jaxmlir.transforms.inverses.linear import Update
from jaxmlir.transforms.inverses.rule import RULES, rule
from jaxmlir.transforms.inverses.solver import Inverted, NotInvertible, Site


class Call:
    """The call of the called function's inverse."""

    late = True

    def learn(self, site: Site) -> None:
        if library.learn(site, callee(site)):
            return
        known = site.given(site.operands), site.given(site.results)
        if known in site.done or not any(map(any, known)):
            return
        site.done.add(known)
        inverted = site.invert(callee(site), *known)
        if not inverted.symbol:
            return
        arguments = [v for v, k in zip(site.results, known[1], strict=True) if k]
        arguments += [v for v, k in zip(site.operands, known[0], strict=True) if k]
        values = [site.whole(v) for v in arguments]
        distribute(site, inverted, self._write(site, inverted, values))

    def _write(self, site: Site, inverted: Inverted, values: Any) -> list[ir.Value]:
        function = site.solver.rules.program.function(inverted.symbol)
        attributes: dict[str, Any] = {}
        name = "jaxpr.jit"
        if site.name == "jaxpr.remat2":
            name, attributes = site.name, dict(site.op.attributes.items())
        elif site.name == name:
            kept = ("name", "jaxpr.ctx")
            attributes = {k: v for k, v in site.op.attributes.items() if k in kept}
        attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(inverted.symbol)
        return site.create(name, function.type.results, values, attributes)

    def forward(self, site: Site) -> None:
        """What follows from some of the operands is part of what :meth:`learn` finds."""


def distribute(site: Site, inverted: Inverted, outs: list[ir.Value]) -> None:
    """Says what the results of an inverted function's call are."""
    targets = [site.operands[i] for i in inverted.arguments]
    targets += [site.results[i] for i in inverted.results]
    site.answer(targets, outs[: len(targets)], outs[-1] if inverted.log_det else None)


def callee(site: Site) -> str:
    """The symbol of the function that an op calls."""
    attribute = CALLEES[site.name]
    return ir.FlatSymbolRefAttr(site.op.attributes[attribute]).value


def can_expand(site: Site) -> bool:
    """Whether an op that has not given all may be replaced: a call by what it calls, an update by
    its steps."""
    if all(site.known(site.operands)):
        return False
    if isinstance(site.rule, Update):
        return site.rule.steps(site) is not None
    if isinstance(site.rule, CustomInverse) and len(site.op.attributes["operands"]):
        return False
    return isinstance(site.rule, Call) and not site.memory.get("library")


def expand(site: Site, args: list[ir.Value]) -> list[ir.Value]:
    """Writes what an op that :func:`can_expand` is replaced by."""
    if isinstance(site.rule, Update):
        steps = site.rule.steps(site)
        assert steps is not None
        return site.emit("steps", steps, args)
    return inline(site.solver.rules.program.function(callee(site)), args)


class CustomInverse(Call):
    """The call of the inverse that the user gave for the unknown operands, if there is one."""

    def learn(self, site: Site) -> None:
        unknown = tuple(i for i, k in enumerate(site.given(site.operands)) if not k)
        attributes = site.op.attributes
        given = [codec.decode(a) for a in attributes["operands"]]
        if unknown not in given or not all(site.given(site.results)):
            super().learn(site)
            return
        k = given.index(unknown)
        dtype, symbol = site.solver.log_det, attributes["log_dets"][k]
        function = site.solver.rules.program.function(ir.FlatSymbolRefAttr(symbol).value)
        if dtype is not None and not function.type.results:
            raise NotInvertible("its Jacobian is not square, and no log_det is given")
        others = [v for i, v in enumerate(site.operands) if i not in unknown]
        values = [site.whole(v) for v in (*site.results, *others)]
        types = [site.operands[i].type for i in unknown]
        found = site.create("jaxpr.jit", types, values, {"jaxpr": attributes["inverses"][k]})
        term = None
        if dtype is not None:
            (log_det,) = site.create(
                "jaxpr.jit", function.type.results, [*found, *values], {"jaxpr": symbol}
            )
            (term,) = site.emit("term", lambda x: [-x.astype(dtype)], [log_det])
        site.answer([site.operands[i] for i in unknown], found, term)


@rule("custom_linear_solve")
class LinearSolve:
    """The right-hand side is the linear function of the solution: what is solved, undone."""

    late = True

    def learn(self, site: Site) -> None:
        lengths = site.params["const_lengths"]
        n_consts = sum(lengths)
        consts, unknown = site.operands[:n_consts], site.operands[n_consts:]
        known = site.known(unknown)
        if not all(site.known(site.results)) or all(known):
            return
        if not all(site.known(consts)):
            raise NotInvertible("what its functions close over is unknown")
        if any(known):
            return
        attributes = site.op.attributes
        matvec = _symbol_in(attributes["jaxprs"], "matvec")
        args = [site.whole(v) for v in (*consts[: lengths.matvec], *site.results)]
        types = [v.type for v in unknown]
        outs = site.create("jaxpr.jit", types, args, {"jaxpr": ir.FlatSymbolRefAttr.get(matvec)})
        if site.solver.log_det is not None:
            self._add_log_det(site, matvec, args)
        for target, out in zip(unknown, outs, strict=True):
            site.tell(target, out)

    def _add_log_det(self, site: Site, matvec: str, args: list[ir.Value]) -> None:
        """The right-hand side as a function of the solution has the matrix's determinant."""
        function = core.jaxpr_as_fun(site.solver.rules.exporter.jaxpr(matvec))
        n = len(site.results)

        def log_det(*args: Any) -> list[Any]:
            consts, x = args[: len(args) - n], args[len(args) - n :]
            flat, unflatten = ravel_pytree(x)

            def product(flat: Any) -> Any:
                return ravel_pytree(function(*consts, *unflatten(flat)))[0]

            complex_ = bool(jnp.iscomplexobj(flat))
            matrix = jax.jacfwd(product, holomorphic=complex_)(flat)
            found = jnp.linalg.slogdet(matrix)[1].astype(site.solver.log_det)
            return [2 * found if complex_ else found]

        (term,) = site.emit("log_det", log_det, args)
        site.solver.terms.append(term)

    def forward(self, site: Site) -> None:
        """A part of the right-hand side says nothing about the solution."""


def _symbol_in(attribute: ir.Attribute, field: str) -> str:
    """The symbol under a field of a record."""
    (fields,) = (item.attr for item in ir.DictAttr(attribute))
    return ir.FlatSymbolRefAttr(ir.DictAttr(fields)[field]).value


for _name in CALLEES:
    RULES[_name.removeprefix("jaxpr.")] = Call()
RULES["custom_inverse_call"] = CustomInverse()
