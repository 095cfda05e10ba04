"""Exports custom derivative rules, functions in the dialect, as the thunks that JAX expects.

The counterpart of :mod:`jaxmlir.bridge.custom_rules.tracing`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import jax

from jaxmlir._compat import ad_util, core, debug_info, lu, open_jaxpr, trace_flat, wrap_bwd
from jaxmlir.dialect import codec, custom_rule_ops, primitives
from jaxmlir.dialect.builder import attribute, symbols_in
from jaxmlir.dialect.custom_rule_ops import is_untraced
from jaxmlir.dialect.ir import symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ExportError, UntracedRuleError
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


def _rule(exporter: _Exporter, op: Any, name: str) -> str:
    """The symbol of a rule's function; an :class:`UntracedRuleError` if it could not be traced."""
    exporter.program.trace_rules()
    symbol = _symbol(op, name)
    if symbol is None:
        raise UntracedRuleError(name, attribute(op, f"{name.split('_')[0]}_error"))
    return symbol


def _function_attribute(exporter: _Exporter, symbol: str, name: str, default: Any) -> Any:
    return attribute(exporter.program._function(symbol), name, default)


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

    def thunk(*in_zeros: bool) -> tuple[Any, Sequence[Any], list[bool]]:
        program = exporter.program
        program.trace_rules()
        with_zeros = symbols_in(op, "jvp_with_zeros")
        if "jvp_error" in op.attributes:
            # A rule that fails for some nonzero tangents may not fail for these.
            for attr in program.rule_tracing.tell(op, tuple(in_zeros)).values():
                with_zeros += symbol_uses(attr)
        symbol, taken = _chosen(
            exporter, in_zeros, with_zeros, lambda: _rule(exporter, op, "jvp_jaxpr")
        )
        out_zeros = _function_attribute(exporter, symbol, "jaxpr.out_zeros", (False,) * n_out)
        jaxpr, consts = open_jaxpr(exporter.jaxpr(symbol))
        if taken != tuple(in_zeros):
            jaxpr, consts = _instantiate_tangents(jaxpr, consts, in_avals, in_zeros, taken)
        return jaxpr, consts, list(out_zeros)

    thunk.taken_for_zero = lambda: _taken_for_zero(exporter, op, "jvp_jaxpr", len(in_avals))
    name = _symbol(op, "jvp_jaxpr") or "jvp"
    info = debug_info("custom_jvp jvp", name, 2 * len(in_avals), 2 * n_out)
    return lu.wrap_init(thunk, debug_info=info)


def _instantiate_tangents(
    jaxpr: Any,
    consts: Sequence[Any],
    in_avals: Sequence[Any],
    in_zeros: Sequence[bool],
    taken: Sequence[bool],
) -> tuple[Any, Sequence[Any]]:
    """Converts a rule to one that takes just the nonzero tangents, and fills in zeros for others,
    except for those that the rule takes for zero."""
    tangent_avals = [a.to_tangent_aval() for a in in_avals]

    def rule(*args: Any) -> list[Any]:
        nonzero = iter(args[len(in_avals) :])
        tangents = [
            ad_util.zeros_like_aval(aval) if zero else next(nonzero)
            for aval, zero, left_out in zip(tangent_avals, in_zeros, taken, strict=True)
            if not left_out
        ]
        return core.eval_jaxpr(jaxpr, consts, *args[: len(in_avals)], *tangents)

    avals = [*in_avals, *left_out(tangent_avals, in_zeros)]
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
        return _call_bwd(
            exporter,
            family.backward,
            lambda: _rule(exporter, op, "bwd_jaxpr"),
            [a.to_ct_aval() for a in in_avals],
            residuals[: len(family.input_fwds)],
            cotangents,
        )

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
    in_zeros: Mask
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
    def all(self) -> list[_RuleFamily]:
        self.exporter.program.trace_rules()
        return [
            _RuleFamily(
                fwd,
                backward,
                _in_zeros(self.exporter, fwd, self.n_in),
                _function_attribute(self.exporter, fwd, "jaxpr.input_fwds", ()),
            )
            for fwd, backward in custom_rule_ops.vjp_rules(dict(self.op.attributes.items())).items()
        ]

    def choose(self, nonzeros: Sequence[bool]) -> _RuleFamily:
        """The forward rule for the given tangents; JAX's next questions are about this rule."""
        candidates = [(family, family.in_zeros) for family in self.all]
        chosen = custom_rule_ops.fitting(inverted(nonzeros), candidates)
        if chosen is None:
            symbol = _rule(self.exporter, self.op, "fwd_jaxpr")
            in_zeros = _in_zeros(self.exporter, symbol, self.n_in)
            raise ExportError(custom_rule_ops.refused(symbol, nonzeros, in_zeros))
        self.last = chosen
        return chosen

    def input_fwds(self) -> list[int | None]:
        """For each residual of the last chosen rule, the operand that it is, or ``None``."""
        family = self.last or self.choose((True,) * self.n_in)
        more = self._most + self.all.index(family) - len(family.input_fwds)
        return [*family.input_fwds, *[0] * more]

    def of(self, num_padded: int) -> _RuleFamily:
        """The rule whose number of residuals, after padding, is this."""
        return self.all[num_padded - self._most]

    @property
    def _most(self) -> int:
        return max(len(family.input_fwds) for family in self.all)


def _in_zeros(exporter: _Exporter, symbol: str, count: int) -> Mask:
    return _function_attribute(exporter, symbol, "jaxpr.in_zeros", (False,) * count)


def _taken_for_zero(exporter: _Exporter, op: Any, name: str, count: int) -> Mask:
    """Which tangents a rule takes for zero whatever it is told; read if it is imported again."""
    exporter.program.trace_rules()
    symbol = _symbol(op, name)
    return _in_zeros(exporter, symbol, count) if symbol else (False,) * count


def _chosen(
    exporter: _Exporter, zero: Sequence[bool], rules: Iterable[str], absent: Callable[[], str]
) -> tuple[str, Mask]:
    """The rule to call for (co)tangents with these zeros, and the zeros that it does not take; if
    none of ``rules`` fits, the one that takes all, which ``absent`` returns."""
    in_zeros = {symbol: _in_zeros(exporter, symbol, len(zero)) for symbol in rules}
    symbol = custom_rule_ops.fitting(zero, in_zeros.items())
    if symbol is None:
        symbol = absent()
        in_zeros[symbol] = _in_zeros(exporter, symbol, len(zero))
        refused = custom_rule_ops.refused(symbol, inverted(zero), in_zeros[symbol])
        if refused:
            raise ExportError(refused)
    return symbol, in_zeros[symbol]


def _bwd_info(name: str) -> Any:
    return debug_info("custom_vjp bwd", name, 0, 0).with_unknown_names()


def _call_bwd(
    exporter: _Exporter,
    backward: Sequence[str],
    absent: Callable[[], str],
    ct_avals: Sequence[Any],
    residuals: Sequence[Any],
    cotangents: Sequence[Any],
) -> list[Any]:
    """Runs the backward rule's function for the given cotangents, or ``absent`` if no rule fits
    them, and inserts zeros for the results that it leaves out."""
    zero = [type(ct) in (ad_util.SymbolicZero, ad_util.Zero) for ct in cotangents]
    symbol, taken = _chosen(exporter, zero, backward, absent)
    passed_cts = [
        ad_util.zeros_like_aval(ct.aval) if is_zero else ct
        for ct, is_zero, left_out in zip(cotangents, zero, taken, strict=True)
        if not left_out
    ]
    closed = exporter.jaxpr(symbol)
    outs = core.jaxpr_as_fun(closed)(*residuals, *passed_cts)
    n_own = len(closed.out_avals)
    zeros = _function_attribute(exporter, symbol, "jaxpr.out_zeros", (False,) * n_own)
    return filled(outs, inverted(zeros), map(ad_util.Zero, ct_avals))


def _flat_tree(n: int) -> Any:
    return jax.tree.structure((0,) * n)


def _read_lin(op: Any, exporter: _Exporter) -> tuple[Any, dict[str, Any]]:
    num_res = attribute(op, "num_res", 0)
    in_zeros = list(attribute(op, "in_zeros", ()))
    # Of a zero tangent nothing is known, and its cotangent is dropped.
    nonzero = [aval_of(v.type).to_ct_aval() for v in op.operands][num_res:]
    ct_avals = filled(nonzero, inverted(in_zeros), [core.abstract_token] * len(in_zeros))

    def bwd(*args: Any) -> list[Any]:
        exporter.program.trace_rules()
        return _call_bwd(
            exporter,
            custom_rule_ops.backward_rules(op.attributes),
            lambda: _rule(exporter, op, "bwd"),
            ct_avals,
            args[:num_res],
            args[num_res:],
        )

    return primitives.get("custom_lin"), {
        "num_res": num_res,
        "bwd": wrap_bwd(bwd, _bwd_info(_symbol(op, "bwd") or "bwd")),
        "out_avals": [aval_of(v.type) for v in op.results],
        "symbolic_zeros": attribute(op, "symbolic_zeros", False),
        "in_zeros": in_zeros,
    }


_READERS = {
    "jaxpr.custom_jvp_call_jaxpr": _read_jvp,
    "jaxpr.custom_vjp_call_jaxpr": _read_vjp,
    "jaxpr.custom_lin": _read_lin,
}
