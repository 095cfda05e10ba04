"""Exports custom derivative rules, functions in the dialect, as the thunks that JAX expects.

The counterpart of :mod:`jaxmlir.bridge.custom_rules.tracing`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax

from jaxmlir._compat import ad_util, core, debug_info, lu, open_jaxpr, trace_flat, wrap_bwd
from jaxmlir.dialect import codec, custom_rule_ops, primitives
from jaxmlir.dialect.builder import attribute, symbols_in
from jaxmlir.dialect.custom_rule_ops import fitting_rule, in_zeros, is_untraced, out_zeros
from jaxmlir.dialect.ir import symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.support.masks import Dims, Mask, filled, inverted, left_out


class _Exporter(codec.Reader, Protocol):
    """Makes jaxprs of functions: a :class:`jaxmlir.bridge.exporter.Exporter`."""

    program: Module
    leaves_rules: bool


def read(op: Any, name: str, exporter: _Exporter) -> tuple[Any, dict[str, Any]]:
    """The primitive and parameters of a custom-derivative op."""
    return _READERS[name](op, exporter)


def waiting_jvp(program: Module, op: Any) -> Any | None:
    """The thunk of an untraced JVP rule that JAX can call as it is, without the program; ``None``
    if there is none."""
    table = program.rule_tracing.table
    source = table.of(op) if table is not None and is_untraced(op) else None
    return source and source.plain_jvp


def _symbol(op: Any, name: str) -> str | None:
    """The function that an attribute names; ``None`` where it is absent."""
    return next(iter(symbols_in(op, name)), None)


def _read_jvp(op: Any, exporter: _Exporter) -> tuple[Any, dict[str, Any]]:
    params = {
        "call_jaxpr": exporter.jaxpr(_symbol(op, "call_jaxpr")),
        "num_consts": attribute(op, "num_consts", 0),
        "symbolic_zeros": attribute(op, "symbolic_zeros", False),
    }
    rule = waiting_jvp(exporter.program, op) if exporter.leaves_rules else None
    if rule is None:
        rule = _jvp_thunk(op, exporter, params["num_consts"])
    return primitives.get("custom_jvp_call"), params | {"jvp_jaxpr_fun": rule}


def _jvp_thunk(op: Any, exporter: _Exporter, num_consts: int) -> Any:
    in_avals = [aval_of(v.type) for v in op.operands][num_consts:]
    n_out = len(op.results)

    def thunk(*zeros: bool) -> tuple[Any, Sequence[Any], list[bool]]:
        program = exporter.program
        program.trace_rules()
        symbols = symbols_in(op, "jvp_jaxpr") + symbols_in(op, "jvp_with_zeros")
        if "jvp_error" in op.attributes:
            # A rule that fails for some nonzero tangents may not fail for these.
            for attr in program.rule_tracing.tell(op, zeros).values():
                symbols += symbol_uses(attr)
        functions = map(program._function, symbols)
        rule = fitting_rule(op.attributes, "jvp_jaxpr", functions, zeros)
        jaxpr, consts = open_jaxpr(exporter.jaxpr(rule.name.value))
        omitted = in_zeros(rule, len(zeros))
        if omitted != zeros:
            jaxpr, consts = _instantiate_tangents(jaxpr, consts, in_avals, zeros, omitted)
        return jaxpr, consts, list(out_zeros(rule, n_out))

    thunk.taken_for_zero = lambda: _taken_for_zero(exporter, op, "jvp_jaxpr", len(in_avals))
    name = _symbol(op, "jvp_jaxpr") or "jvp"
    info = debug_info("custom_jvp jvp", name, 2 * len(in_avals), 2 * n_out)
    return lu.wrap_init(thunk, debug_info=info)


def _instantiate_tangents(
    jaxpr: Any,
    consts: Sequence[Any],
    in_avals: Sequence[Any],
    zeros: Sequence[bool],
    omitted: Sequence[bool],
) -> tuple[Any, Sequence[Any]]:
    """The jaxpr and the constants of a rule, converted to take nonzero tangents only.

    Args:
      in_avals: the types of the primal arguments.
      zeros: which tangents are zero; the converted rule does not take these.
      omitted: those of them that the given rule does not take either; zeros are written for the
        others.
    """
    tangent_avals = [a.to_tangent_aval() for a in in_avals]

    def rule(*args: Any) -> list[Any]:
        nonzero = iter(args[len(in_avals) :])
        tangents = [
            ad_util.zeros_like_aval(aval) if zero else next(nonzero)
            for aval, zero, is_omitted in zip(tangent_avals, zeros, omitted, strict=True)
            if not is_omitted
        ]
        return core.eval_jaxpr(jaxpr, consts, *args[: len(in_avals)], *tangents)

    avals = [*in_avals, *left_out(tangent_avals, zeros)]
    info = debug_info("custom_jvp jvp", jaxpr.debug_info.func_name, len(avals), 0)
    return trace_flat(rule, avals, info)


def _read_vjp(op: Any, exporter: _Exporter) -> tuple[Any, dict[str, Any]]:
    num_consts = attribute(op, "num_consts", 0)
    operand_avals = [aval_of(v.type) for v in op.operands]
    in_avals = operand_avals[num_consts:]
    n_out = len(op.results)

    families = _RuleFamilies(exporter, op, len(in_avals))

    def fwd(*nonzeros: bool) -> tuple[Any, Sequence[Any]]:
        return open_jaxpr(exporter.jaxpr(families.choose(nonzeros).fwd))

    def bwd(*args: Any) -> list[Any]:
        residuals, cotangents = args[: len(args) - n_out], args[len(args) - n_out :]
        family = families.of(len(residuals))
        ct_avals = [a.to_ct_aval() for a in in_avals]
        own = residuals[: len(family.input_fwds)]
        return _call_bwd(exporter, op, "bwd_jaxpr", family.backward, ct_avals, own, cotangents)

    def out_trees() -> tuple[Any, Any, list[int | None]]:
        input_fwds = families.input_fwds()
        forwarded = [i if i is None else i + num_consts for i in input_fwds]
        return _flat_tree(n_out), _flat_tree(len(forwarded)), forwarded

    fwd.taken_for_zero = lambda: _taken_for_zero(exporter, op, "fwd_jaxpr", len(in_avals))
    fwd_name = _symbol(op, "fwd_jaxpr") or "fwd"
    fwd_info = debug_info("custom_vjp fwd", fwd_name, len(in_avals), n_out)
    return primitives.get("custom_vjp_call"), {
        "call_jaxpr": exporter.jaxpr(_symbol(op, "call_jaxpr")),
        "fwd_jaxpr_thunk": lu.wrap_init(fwd, debug_info=fwd_info),
        "bwd": wrap_bwd(bwd, _bwd_info(_symbol(op, "bwd_jaxpr") or "bwd")),
        "num_consts": num_consts,
        "out_trees": out_trees,
        "symbolic_zeros": attribute(op, "symbolic_zeros", False),
    }


class _RuleFamily(NamedTuple):
    """A forward rule, and the backward rules that take its residuals."""

    fwd: str
    backward: tuple[str, ...]
    input_fwds: Dims


class _RuleFamilies:
    """The rules of a custom_vjp call, whose forward rules JAX asks for one after another.  JAX's
    thunks describe the rule that was asked for last, and a backward rule runs later without being
    told which forward rule it belongs to.  So residuals are padded with operands until each forward
    rule has a different number of them."""

    def __init__(self, exporter: _Exporter, op: Any, n_in: int):
        self.exporter = exporter
        self.op = op
        self.n_in = n_in
        self.last: _RuleFamily | None = None

    @functools.cached_property
    def all(self) -> dict[str, _RuleFamily]:
        """The families by the symbols of their forward rules."""
        program = self.exporter.program
        program.trace_rules()
        rules = custom_rule_ops.vjp_rules(dict(self.op.attributes.items()))
        return {
            fwd: _RuleFamily(
                fwd, backward, attribute(program._function(fwd), "jaxpr.input_fwds", ())
            )
            for fwd, backward in rules.items()
        }

    def choose(self, nonzeros: Sequence[bool]) -> _RuleFamily:
        """The family for the given tangents; JAX's next questions are about its forward rule."""
        functions = map(self.exporter.program._function, self.all)
        fwd = fitting_rule(self.op.attributes, "fwd_jaxpr", functions, inverted(nonzeros))
        self.last = self.all[fwd.name.value]
        return self.last

    def input_fwds(self) -> list[int | None]:
        """For each residual of the last chosen rule, the operand that it is, or ``None``."""
        family = self.last or self.choose((True,) * self.n_in)
        more = self._most + list(self.all).index(family.fwd) - len(family.input_fwds)
        return [*family.input_fwds, *[0] * more]

    def of(self, num_padded: int) -> _RuleFamily:
        """The family whose forward rule has this number of residuals, after padding."""
        return list(self.all.values())[num_padded - self._most]

    @property
    def _most(self) -> int:
        return max(len(family.input_fwds) for family in self.all.values())


def _taken_for_zero(exporter: _Exporter, op: Any, name: str, count: int) -> Mask:
    """Which of the ``count`` tangents the rule that an attribute names takes for zero, whatever it
    is told.  An import of the exported thunk asks for this."""
    exporter.program.trace_rules()
    symbol = _symbol(op, name)
    return in_zeros(exporter.program._function(symbol), count) if symbol else (False,) * count


def _bwd_info(name: str) -> Any:
    return debug_info("custom_vjp bwd", name, 0, 0).with_unknown_names()


def _call_bwd(
    exporter: _Exporter,
    op: Any,
    name: str,
    symbols: Sequence[str],
    ct_avals: Sequence[Any],
    residuals: Sequence[Any],
    cotangents: Sequence[Any],
) -> list[Any]:
    """The cotangents that a backward rule gives, with zeros for those that it leaves out.

    Args:
      name, symbols: the attribute and the rules among which :func:`.fitting_rule` chooses.
      ct_avals: the types of the cotangents that are to be given.
      cotangents: those that the rule is passed, some of which may be symbolic zeros.
    """
    zero = [type(ct) in (ad_util.SymbolicZero, ad_util.Zero) for ct in cotangents]
    functions = map(exporter.program._function, symbols)
    rule = fitting_rule(op.attributes, name, functions, zero)
    passed_cts = [
        ad_util.zeros_like_aval(ct.aval) if is_zero else ct
        for ct, is_zero, omitted in zip(cotangents, zero, in_zeros(rule, len(zero)), strict=True)
        if not omitted
    ]
    closed = exporter.jaxpr(rule.name.value)
    outs = core.jaxpr_as_fun(closed)(*residuals, *passed_cts)
    given = inverted(out_zeros(rule, len(closed.out_avals)))
    return filled(outs, given, map(ad_util.Zero, ct_avals))


def _flat_tree(n: int) -> Any:
    return jax.tree.structure((0,) * n)


def _read_lin(op: Any, exporter: _Exporter) -> tuple[Any, dict[str, Any]]:
    num_res = attribute(op, "num_res", 0)
    absent = list(attribute(op, "in_zeros", ()))
    # Of a zero tangent nothing is known, and its cotangent is dropped.
    nonzero = [aval_of(v.type).to_ct_aval() for v in op.operands][num_res:]
    ct_avals = filled(nonzero, inverted(absent), [core.abstract_token] * len(absent))

    def bwd(*args: Any) -> list[Any]:
        exporter.program.trace_rules()
        symbols = custom_rule_ops.backward_rules(op.attributes)
        residuals, cotangents = args[:num_res], args[num_res:]
        return _call_bwd(exporter, op, "bwd", symbols, ct_avals, residuals, cotangents)

    return primitives.get("custom_lin"), {
        "num_res": num_res,
        "bwd": wrap_bwd(bwd, _bwd_info(_symbol(op, "bwd") or "bwd")),
        "out_avals": [aval_of(v.type) for v in op.results],
        "symbolic_zeros": attribute(op, "symbolic_zeros", False),
        "in_zeros": absent,
    }


_READERS = {
    "jaxpr.custom_jvp_call_jaxpr": _read_jvp,
    "jaxpr.custom_vjp_call_jaxpr": _read_vjp,
    "jaxpr.custom_lin": _read_lin,
}
