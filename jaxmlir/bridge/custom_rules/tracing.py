"""Traces the custom derivative rules of an equation, Python thunks, to functions of the dialect.

``custom_jvp_call``, ``custom_vjp_call`` and ``custom_lin`` equations carry their rules as callables
that trace the user's function when they are called.  This module calls them with every tangent and
cotangent present and writes the jaxpr that they return; export gives JAX a thunk that returns it.
A rule that asks to be told which tangents and cotangents are zero (``symbolic_zeros``) is called
once more for each combination of these, except for ops inside other rules, where the numbers would
multiply.  VJP rules get such variants only if they are short, since others may take seconds.  A
VJP rule may refuse some tangents altogether (:func:`_call_fwd`).

:mod:`jaxmlir.bridge.custom_rules.pending` decides when rules are traced, and
:mod:`jaxmlir.dialect.custom_rule_ops` describes the attributes that ops have for them.

A rule may call the function it belongs to, and every trace of that call makes new thunks.
:mod:`jaxmlir.bridge.custom_rules.identity` decides which rules are the same.

A rule that cannot be traced does not make the import fail: the op records the reason, and only
differentiating it raises that error.  The same holds for a rule that applies its own function to
ever larger arguments, such as that of ``odeint``, which also solves for the adjoint state: it is
traced for a few derivatives (:data:`jaxmlir.bridge.custom_rules.pending.MAX_ORDER`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxmlir._compat import (
    ad_util,
    call_bwd,
    closed_over,
    config,
    core,
    dtypes,
    flat_jvp,
    forget_traced,
    in_context,
    innermost_layer,
    lu,
    named_axes,
    pe,
    trace_flat,
    util,
)
from jaxmlir.bridge.custom_rules import closures
from jaxmlir.bridge.custom_rules.closures import made_of, rules_may_read
from jaxmlir.bridge.custom_rules.identity import Identities, SerialThunk, innermost, rules_key
from jaxmlir.bridge.custom_rules.pending import Attributes, NamedRules, PendingRules, RuleSource
from jaxmlir.caching import setting
from jaxmlir.dialect.ir import ir
from jaxmlir.errors import JaxmlirError
from jaxmlir.support.masks import Mask, filled, inverted, left_out

# A user's rule is traced anew for each equation, here as in JAX: it may read state that has changed
# meanwhile.  A rule made of JAX's functions alone, such as that of jax.nn.relu, reads only JAX's
# configuration, so it is traced once per process.
LIMIT = 512
"""How many of the latest traces are kept."""

TracedRule = tuple[Any, Sequence[Any], Sequence[bool]]
"""A jaxpr, its constants, and which tangents of results are zero."""


class _Traces(dict[Any, TracedRule]):
    """Traces that ``jax.clear_caches()`` frees, along with JAX's own traces: rules must not call
    older traces of functions than the programs they belong to."""

    __hash__ = object.__hash__
    cache_clear = dict.clear


traced_rules = _Traces()
util.register_cache(traced_rules, "rules of JAX's functions")
_are_of_jax: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def trace_jvp(eqn: Any, in_avals: Sequence[Any], in_zeros: Mask) -> TracedRule:
    """Traces the rule of a ``custom_jvp_call`` equation for some zero tangents, or reuses the trace
    of a rule of JAX's.  Dead code is removed, within loops too: a rule that differentiates a
    function has its primals and tangents in one loop, but may return only some of them."""
    thunk = eqn.params["jvp_jaxpr_fun"]
    key = _key(thunk)
    if key is None:
        return _live(thunk.call_wrapped(*in_zeros))
    symbolic_zeros = eqn.params["symbolic_zeros"]
    key = (*key, tuple(in_avals), in_zeros, symbolic_zeros, eqn.ctx, setting())
    traced = traced_rules.get(key)
    if traced is None:
        traced = _live(thunk.call_wrapped(*in_zeros))
        _, consts, _ = traced
        if not consts:
            traced_rules[key] = traced
            if len(traced_rules) > LIMIT:
                traced_rules.pop(next(iter(traced_rules)), None)
    return traced


def _live(traced: TracedRule) -> TracedRule:
    jaxpr, consts, out_zeros = traced
    live, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    # The test of what rules may read takes longer, so it comes last.
    if _size(live, {}) < _size(jaxpr, {}) and not rules_may_read(jaxpr):
        jaxpr = live
    return jaxpr, consts, out_zeros


def _size(jaxpr: Any, known: dict[Any, int]) -> int:
    """The number of operands and results of a jaxpr's equations and of those of inner jaxprs."""
    if jaxpr not in known:
        known[jaxpr] = sum(
            len(eqn.invars)
            + len(eqn.outvars)
            + sum(_size(inner, known) for inner in core.jaxprs_in_params(eqn.params))
            for eqn in jaxpr.eqns
        )
    return known[jaxpr]


def _key(thunk: Any) -> tuple[Any, ...] | None:
    """A key for the rule of a thunk and how it is called; ``None`` if the rule is not JAX's."""
    key = flat_jvp(innermost(thunk))
    if key is None or not isinstance(key[0], types.FunctionType):
        return None
    rule = key[0]
    if rule not in _are_of_jax:
        _are_of_jax[rule] = all(map(_is_of_jax, made_of([rule])))
    return key if _are_of_jax[rule] else None


def _is_of_jax(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return _package(value) == "jax"
    return _package(type(value)) in ("jax", "jaxlib", "builtins")


def _package(owner: Any) -> str:
    return (owner.__module__ or "").partition(".")[0]


# A rule that is told which tangents are zero is traced for each combination of nonzero tangents if
# there are up to MAX_COMBINED, and for each single one if there are up to MAX_ALONE.
MAX_COMBINED = 4
MAX_ALONE = 16
# Zero cotangents are not combined if a function would have more backward rules than this.
MAX_BACKWARD = 64


_Named = tuple[str, ir.Attribute]
"""An attribute of an op, by name: a rule, or the reason why it could not be traced."""


class _JvpRules:
    """The rules of one custom_jvp_call equation."""

    def __init__(self, eqn: Any, pending: PendingRules):
        self.eqn, self.pending = eqn, pending
        self.thunk = eqn.params["jvp_jaxpr_fun"]
        self.in_avals = [v.aval for v in eqn.invars[eqn.params["num_consts"] :]]
        self.constants = closures.constants_of(eqn)
        self.fixed = len(self.constants.variables)

    def trace(self) -> NamedRules:
        taken_for_zero = _taken_for_zero(self.eqn, self.thunk, self.in_avals)
        yield self.tell(taken_for_zero)
        if self.eqn.params["symbolic_zeros"] and not self.pending.in_rule:
            tangible = _tangible(self.in_avals, taken_for_zero, self.fixed)
            symbols = _traceable(map(self.tell, _zeros(tangible)))
            if symbols:
                yield "jvp_with_zeros", ir.ArrayAttr.get(symbols)

    def tell(self, in_zeros: Mask) -> _Named:
        kind = ("jvp", tuple(self.in_avals), in_zeros, self.constants.values, self.eqn.ctx)
        key = (*kind, self.pending.alike(self.thunk, *kind))
        trace = functools.partial(self._traced, in_zeros)
        return self.pending.function("jvp_jaxpr", key, self.thunk.debug_info, trace)

    def _traced(self, in_zeros: Mask) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        eqn, in_avals, fixed = self.eqn, self.in_avals, self.fixed
        with _Turns.at(self.thunk).lock:
            jaxpr, consts, out_zeros = trace_jvp(eqn, in_avals, in_zeros[fixed:])
        _check_count(len(out_zeros), eqn)
        tangents = [v.aval.to_tangent_aval() for v in eqn.outvars]
        nonzero = left_out(tangents, out_zeros)
        _check_types("result", [v.aval for v in eqn.outvars], jaxpr.outvars)
        _check_types("nonzero tangent", nonzero, jaxpr.outvars[len(eqn.outvars) :])
        chains = self.constants.chains
        are_read = closures.reads(consts, chains)
        jaxpr, consts = closures.bound(jaxpr, consts, in_avals, chains, self.pending.origins)
        # A value that the rule does not read may have a tangent, which makes no difference.
        of_constants = [zero or r for zero, r in zip(in_zeros, are_read, strict=False)]
        in_zeros = (*of_constants, *in_zeros[fixed:])
        ignored = [a.to_tangent_aval() for a in left_out(in_avals[:fixed], of_constants)]
        if ignored:
            jaxpr = closures.ignoring(jaxpr, consts, ignored, len(in_avals))
        return jaxpr, consts, _zeros_of_rule(in_zeros, out_zeros)


def _zeros_of_rule(in_zeros: Sequence[bool], out_zeros: Sequence[bool]) -> dict[str, Any]:
    """The attributes that say which (co)tangents a rule does not take, and does not give."""
    zeros = {"jaxpr.in_zeros": tuple(in_zeros), "jaxpr.out_zeros": tuple(out_zeros)}
    return {name: mask for name, mask in zeros.items() if any(mask)}


def _taken_for_zero(eqn: Any, thunk: Any, in_avals: Sequence[Any], own: int = 0) -> Mask:
    """Which operands' tangents a rule takes for zero, whatever it is told.

    A rule that was exported says so.  Of another rule it is not known yet which of the values that
    it may close over it reads; none of them counts but those without tangents.

    Args:
      thunk: the rule.
      in_avals: the types of the operands, the values that it may close over first.
      own: how many of these the function itself closes over, whose tangents are zero for the rule.
    """
    exported = getattr(thunk.f, "taken_for_zero", None)
    if exported:
        return exported()
    fixed = len(closures.constants_of(eqn).variables)
    return tuple(
        i < fixed and (i < own or not has_tangent(aval)) for i, aval in enumerate(in_avals)
    )


def _tangible(in_avals: Sequence[Any], taken_for_zero: Sequence[bool], fixed: int) -> Mask:
    """Which operands may have tangents that a rule can be told of.

    Args:
      in_avals: the types of the operands.
      taken_for_zero: the tangents that the rule takes for zero anyway.
      fixed: how many of the first operands are values that the rule may close over; it is not told
        of their tangents.
    """
    return tuple(
        i >= fixed and not zero and has_tangent(aval)
        for i, (zero, aval) in enumerate(zip(taken_for_zero, in_avals, strict=True))
    )


def _check_closed_over(read: Iterable[bool], in_zeros: Iterable[bool]) -> None:
    """Raises an error if a rule closes over a value that has a tangent, and reads the value."""
    if any(r and not zero for r, zero in zip(read, in_zeros, strict=False)):
        raise JaxmlirError(
            "it closes over a value that has a tangent; pass the value as an argument"
        )


def _check_count(count: int, eqn: Any) -> None:
    """Raises an error if a rule gives another number of results than its function.  JAX's
    ``checkify`` adds results to a function, but not to its rule."""
    if count != len(eqn.outvars):
        raise JaxmlirError(
            f"expected the rule to give {len(eqn.outvars)} results, as the function does, got "
            f"{count}"
        )


def _check_types(what: str, wanted: Sequence[Any], given: Sequence[Any]) -> None:
    """Raises an error if a rule gives values of other types than its function does.  JAX's ``vmap``
    batches the two separately, and never compares them."""
    for i, (want, have) in enumerate(zip(wanted, given, strict=False)):
        if core.typematch(want, have.aval):
            continue
        message = (
            f"expected the rule to give {want.str_short()} for {what} #{i}, as the function does, "
            f"got {have.aval.str_short()}"
        )
        shape = have.aval.shape
        if want.shape in (shape[:axis] + shape[axis + 1 :] for axis in range(len(shape))):
            message += (
                "; jax.vmap makes such a rule where the function's result is the same for the "
                "whole batch, and the rule's is not: trace the function with jaxmlir.trace, and "
                "batch the program with program.vmap"
            )
        raise JaxmlirError(message)


def _zeros(tangible: Sequence[bool], few: bool = True) -> Iterator[Mask]:
    """The masks of zero (co)tangents that a rule may meet, except all zero or none zero.

    Args:
      tangible: which may be nonzero; those of integers may not.
      few: yield all combinations if at most ``MAX_COMBINED`` may be nonzero; otherwise either all
        of these are nonzero, or only one.
    """
    may = [i for i, t in enumerate(tangible) if t]
    counts = {len(may), *([1] if len(may) <= MAX_ALONE else [])}
    if few and len(may) <= MAX_COMBINED:
        counts = {*range(1, len(may) + 1)}
    for count in sorted(counts - {0}, reverse=True):
        for nonzero in itertools.combinations(may, count):
            zeros = tuple(i not in nonzero for i in range(len(tangible)))
            if any(zeros):
                yield zeros


def has_tangent(aval: Any) -> bool:
    return getattr(aval.to_tangent_aval(), "dtype", None) != dtypes.float0


class _Turns:
    """Lets one thread at a time trace a user's rule.

    A trace leaves facts about the rule's results with the rule.  Another thread, or the equation of
    another program that came from the same call, would overwrite them.

    Attributes:
      lock: held while the rule is traced and while the facts it left are used.
      last: whose trace, and for which zeros, left the facts.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.last: Any = None

    @classmethod
    def at(cls, rule: Any) -> _Turns:
        """The turns of a user's rule, given the rule or JAX's wrappers around it."""
        with _turns_lock:
            return _turns.setdefault(innermost_layer(rule) or rule.f, cls())


_turns: weakref.WeakKeyDictionary[Any, _Turns] = weakref.WeakKeyDictionary()
_turns_lock = threading.Lock()


class _VjpRules:
    """The rules of one custom_vjp_call equation.

    Tracing the forward rule tells JAX what the backward rule of that trace takes, so a backward
    rule is traced after the forward rule that it belongs to.

    Attributes:
      tangible: which operands may have tangents.
    """

    def __init__(self, eqn: Any, pending: PendingRules):
        params = eqn.params
        self.eqn, self.pending = eqn, pending
        self.fwd, self.bwd = params["fwd_jaxpr_thunk"], params["bwd"]
        self.out_trees = params["out_trees"]
        self.choosy = params["symbolic_zeros"]
        self.in_avals = [v.aval for v in eqn.invars[params["num_consts"] :]]
        self.cotangents = [v.aval.to_ct_aval() for v in eqn.outvars]
        self.constants = closures.constants_of(eqn)
        self.fixed = len(self.constants.variables)
        kind = (tuple(self.in_avals), self.constants.values, eqn.ctx)
        rules = {"fwd": self.fwd, "bwd": self.bwd}
        self.shared = (*kind, *(pending.alike(rule, name, *kind) for name, rule in rules.items()))
        # Integers and the values that the function closes over have no tangents.
        zero = _taken_for_zero(eqn, self.fwd, self.in_avals, self.constants.own)
        self.tangible = _tangible(self.in_avals, zero, self.fixed + closed_over(self.fwd))
        self.taken_for_zero = tuple(
            z and has_tangent(a) for z, a in zip(zero, self.in_avals, strict=True)
        )
        self._turns = _Turns.at(self.fwd)
        self._owner = object()
        # The latest trace of the forward rule, and of a backward rule that belongs to it.
        self._last_fwd: Any = None
        self._last_bwd: Any = None

    def trace(self) -> NamedRules:
        name, fwd = self.forward()
        yield name, fwd
        if name == "fwd_jaxpr":
            yield self.backward()
        elif not self.choosy:
            return
        if self.has_variants:
            families = self.with_zeros(fwd if name == "fwd_jaxpr" else None)
            if families := list(map(ir.ArrayAttr.get, families)):
                yield "vjp_with_zeros", ir.ArrayAttr.get(families)

    def trace_backward(self, in_zeros: Mask) -> NamedRules:
        """The attributes of a custom_lin that name its backward rules, for a forward rule that was
        told which tangents are zero."""
        yield self.backward_of_lin(in_zeros)
        if self.has_variants:
            masks = _zeros_of_cotangents(self.cotangents, 1)
            if symbols := _traceable(self.backward(in_zeros, zeros) for zeros in masks):
                yield "bwd_with_zeros", ir.ArrayAttr.get(symbols)

    def backward_of_lin(self, in_zeros: Mask, ct_zeros: Mask = ()) -> _Named:
        """The result of :meth:`backward`, as an attribute of a custom_lin."""
        name, value = self.backward(in_zeros, ct_zeros)
        return ("bwd" if name == "bwd_jaxpr" else name), value

    def tell(self, in_zeros: Mask) -> _Named:
        return self.forward(in_zeros)

    def forward(self, in_zeros: Mask | None = None) -> _Named:
        """The forward rule, told which tangents are zero; by default none, or as few as possible
        for the rule not to fail."""
        key = ("fwd", self.shared, in_zeros)
        info = self.fwd.debug_info
        return self.pending.function("fwd_jaxpr", key, info, lambda: self._run(in_zeros))

    def backward(self, in_zeros: Mask | None = None, ct_zeros: Mask = ()) -> _Named:
        """The backward rule of a forward rule, told which cotangents are zero."""

        def trace() -> tuple[Any, Sequence[Any], dict[str, Any]]:
            with self._turns.lock:
                fwd = self._run(in_zeros)
                bwd = (None if ct_zeros else self._last_bwd) or self._traced_bwd(fwd, ct_zeros)
                jaxpr, consts, about = bwd
                passed = self.constants.chains[: self.num_passed]
                if in_zeros is not None:
                    _check_closed_over(closures.reads(consts, passed), in_zeros)
                at = fwd[2]["jaxpr.num_res"] - self.num_passed
                jaxpr, consts = closures.bound(
                    jaxpr, consts, self.in_avals, passed, self.pending.origins, at
                )
                if self.fixed:
                    # The values that the function closes over have no cotangents.
                    none_zero = (False,) * (len(self.in_avals) - self.fixed)
                    zeros = about.get("jaxpr.out_zeros", none_zero)
                    about = about | {"jaxpr.out_zeros": (True,) * self.fixed + zeros}
                return jaxpr, consts, about

        key = ("bwd", self.shared, in_zeros, ct_zeros)
        return self.pending.function("bwd_jaxpr", key, self.bwd.debug_info, trace)

    def _traced_bwd(
        self, fwd: tuple[Any, Sequence[Any], dict[str, Any]], ct_zeros: Mask
    ) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        jaxpr, _, about = fwd
        outvars = iter(jaxpr.outvars)
        # From JAX 0.11 the constants of a jaxpr may stand before its operands.
        operands = jaxpr.invars[len(jaxpr.invars) - len(self.in_avals) :]
        input_fwds = about["jaxpr.input_fwds"]
        atoms = [next(outvars) if i is None else operands[i] for i in input_fwds]
        # A residual that is a Python value stays one in the backward rule.
        literals = {i: v.val for i, v in enumerate(atoms) if isinstance(v, core.Literal)}
        residuals = [atom.aval for atom in atoms][: len(atoms) - self.num_passed]
        return _trace_bwd(self.bwd, residuals, self.cotangents, ct_zeros, literals)

    def _run(self, in_zeros: Mask | None) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        """Traces the forward rule, unless its last trace was the same."""
        turns, turn = self._turns, (self._owner, in_zeros)
        with turns.lock:
            if turns.last != turn:
                turns.last = None
                self._last_fwd = self._traced(in_zeros)
                turns.last = turn
            return self._last_fwd

    def _traced(self, in_zeros: Any) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        tangible, self._last_bwd = self.tangible, None
        if in_zeros is None:
            taken, (jaxpr, consts) = _call_fwd(self._call, tangible, self.choosy)
        else:
            taken = inverted(in_zeros)
            jaxpr, consts = self._call(taken)
        _, res_tree, input_fwds = self.out_trees()
        # JAX counts forwarded operands after the constants, which fwd does not take.
        start = self.fixed - self.constants.own
        operands = [i if i is None else start + i for i in input_fwds]
        num_own = operands.count(None)
        _check_count(len(jaxpr.outvars) - num_own, self.eqn)
        results = [v.aval for v in self.eqn.outvars]
        _check_types("result", results, jaxpr.outvars[num_own:])
        are_read = closures.reads(consts, self.constants.chains)
        jaxpr, consts = closures.bound(
            jaxpr, consts, self.in_avals, self.constants.chains, self.pending.origins
        )
        # The backward rule gets the values that it closes over as residuals.
        operands += range(self.num_passed)
        num_res = res_tree.num_leaves + self.num_passed
        about = {"jaxpr.num_res": num_res, "jaxpr.input_fwds": tuple(operands)}
        if in_zeros is None:
            by_bwd = self._read_by_bwd((jaxpr, consts, about))
            constant = [a or b for a, b in zip(are_read, by_bwd, strict=True)]
        else:
            _check_closed_over(are_read, in_zeros)
            constant = in_zeros[: self.fixed]
        never = zip(self.taken_for_zero, tangible, taken, strict=True)
        zeros = [zero or (may and not does) for zero, may, does in never]
        zeros[: self.fixed] = [a or b for a, b in zip(zeros, constant, strict=False)]
        if any(zeros):
            about["jaxpr.in_zeros"] = tuple(zeros)
        return jaxpr, consts, about

    def _read_by_bwd(self, fwd: tuple[Any, Sequence[Any], dict[str, Any]]) -> Sequence[bool]:
        """Which of the values that the backward rule of ``fwd`` may close over it reads; all of
        them if it cannot be traced."""
        if not self.num_passed:
            return [False] * self.fixed
        try:
            self._last_bwd = self._traced_bwd(fwd, ())
        except Exception:
            return [True] * self.fixed
        return closures.reads(self._last_bwd[1], self.constants.chains)

    def _call(self, nonzeros: Sequence[bool]) -> Any:
        """Calls the forward rule, told which tangents are nonzero."""
        forget_traced(self.fwd)
        return self.fwd.call_wrapped(*nonzeros[self.fixed :])

    @functools.cached_property
    def num_passed(self) -> int:
        """How many values are passed to the backward rule because it may close over them."""
        return self.fixed if self.fixed and closures.holds_tracer(self.bwd) else 0

    @property
    def has_variants(self) -> bool:
        """Whether the rules are traced for combinations of zeros, too."""
        rules = self.fwd.debug_info, self.bwd.debug_info
        return self.choosy and not self.pending.in_rule and all(map(self.pending.is_short, rules))

    def with_zeros(self, fwd: ir.Attribute | None) -> Iterator[list[ir.Attribute]]:
        """The forward rules that are told which tangents are zero, each with its backward rules;
        ``fwd`` is told of no zeros."""
        families = [] if fwd is None else [(None, [fwd])]
        for in_zeros in _zeros(self.tangible):
            # If only tangents that cannot exist are zero, there is nothing new to tell.
            if any(may and zero for may, zero in zip(self.tangible, in_zeros, strict=True)):
                name, forward = self.forward(in_zeros)
                if name == "fwd_jaxpr":
                    families.append((in_zeros, [forward, *_traceable([self.backward(in_zeros)])]))
        for in_zeros, family in families:
            masks = _zeros_of_cotangents(self.cotangents, len(families))
            family += _traceable([self.backward(in_zeros, zeros) for zeros in masks])
            if len(family) > 1:
                yield family


def _traceable(functions: Iterable[_Named]) -> list[ir.Attribute]:
    """The rules that could be traced."""
    return [symbol for name, symbol in functions if not name.endswith("_error")]


def _zeros_of_cotangents(cotangents: Sequence[Any], times: int) -> Iterator[Mask]:
    """The masks of zero cotangents that each of ``times`` backward rules may meet."""
    tangible = [getattr(aval, "dtype", None) != dtypes.float0 for aval in cotangents]
    return _zeros(tangible, times * (2 ** sum(tangible) - 1) <= MAX_BACKWARD)


def _call_fwd(
    call: Callable[[Sequence[bool]], Any], tangible: Mask, choosy: bool
) -> tuple[Mask, Any]:
    """The tangents that a forward rule accepts, all if possible, and what it returned for them.  A
    rule with ``symbolic_zeros`` (``choosy``) may insist that some tangents are zero, as equinox's
    do for values that were not meant to be differentiated.  The rule does not say which; it fails.
    Then the set of tangents is halved, and each half is tried.  So finding ``k`` of ``n`` takes
    about ``2 k log2(n / k)`` calls, most of which fail at once."""
    taken = [False] * len(tangible)

    def extend(more: Sequence[int]) -> None:
        """Adds those of the given tangents that the rule accepts along with the ones before."""
        try:
            call([is_taken or i in more for i, is_taken in enumerate(taken)])
        except Exception:
            extend_by_halves(more)
        else:
            for i in more:
                taken[i] = True

    def extend_by_halves(more: Sequence[int]) -> None:
        if len(more) > 1:
            extend(more[: len(more) // 2])
            extend(more[len(more) // 2 :])

    try:
        return tangible, call(tangible)
    except Exception:
        if choosy:
            extend_by_halves([i for i, may in enumerate(tangible) if may])
        if not any(taken):
            raise
    return tuple(taken), call(taken)


class _LinRules:
    """The rules of one custom_lin equation."""

    def __init__(self, eqn: Any, pending: PendingRules):
        self.eqn, self.pending, self.bwd = eqn, pending, eqn.params["bwd"]
        self.residuals = [v.aval for v in eqn.invars[: eqn.params["num_res"]]]
        self.cotangents = [a.to_ct_aval() for a in eqn.params["out_avals"]]

    def trace(self) -> NamedRules:
        yield self.tell(())
        choosy = self.eqn.params["symbolic_zeros"] and not self.pending.in_rule
        if choosy and self.pending.is_short(self.bwd.debug_info):
            symbols = _traceable(map(self.tell, _zeros_of_cotangents(self.cotangents, 1)))
            if symbols:
                yield "bwd_with_zeros", ir.ArrayAttr.get(symbols)

    def tell(self, ct_zeros: Mask) -> _Named:
        kind = ("lin", tuple(self.residuals), tuple(self.cotangents), ct_zeros, self.eqn.ctx)
        key = (*kind, self.pending.alike(self.bwd, *kind))
        of_rule = self.bwd, self.residuals, self.cotangents, ct_zeros, {}
        trace = functools.partial(_trace_bwd, *of_rule)
        return self.pending.function("bwd", key, self.bwd.debug_info, trace)


def _trace_bwd(
    bwd: Any,
    residuals: Sequence[Any],
    cotangents: Sequence[Any],
    ct_zeros: Sequence[bool],
    known: dict[int, Any],
) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """A backward rule as a jaxpr ``(*residuals, *cotangents) -> (*cotangents)``, its constants, and
    the attributes of its function.

    Args:
      residuals, cotangents: the types of the arguments.
      ct_zeros: which cotangents are zero, and so are not taken; empty if none is.
      known: values of residuals, by index, that are the same in every call.
    """
    zeros: list[bool] = []
    ct_zeros = ct_zeros or (False,) * len(cotangents)

    def flat(*args: Any) -> list[Any]:
        zero_cts = map(ad_util.SymbolicZero, cotangents)
        ct_args = filled(args[len(residuals) :], inverted(ct_zeros), zero_cts)
        res_args = (known.get(i, arg) for i, arg in enumerate(args[: len(residuals)]))
        outs = call_bwd(bwd, *res_args, *ct_args)
        zeros[:] = [type(ct) in (ad_util.Zero, ad_util.SymbolicZero) for ct in outs]
        return left_out(outs, zeros)

    args = [*residuals, *left_out(cotangents, ct_zeros)]
    info = core.DebugInfo("custom_vjp bwd", bwd.debug_info.func_src_info, None, None)
    jaxpr, consts = trace_flat(flat, args, info)
    return jaxpr, consts, _zeros_of_rule(ct_zeros, zeros)


RULES: dict[str, Callable[[Any, PendingRules], Any]] = {
    "custom_jvp_call": _JvpRules,
    "custom_vjp_call": _VjpRules,
    "custom_lin": _LinRules,
}
"""The rules of an equation, by its primitive: ``trace()`` traces those that an op names, and
``tell(zeros)`` the one that is told which tangents (cotangents for a custom_lin) are zero."""


@dataclass(frozen=True, eq=False)
class EquationSource(RuleSource):
    """The rules of an imported op, given by its equation."""

    eqn: Any
    within: Counter[str]
    """How often each rule, by source line, encloses this op: the order of the derivative."""
    check_vma: bool
    """Whether types say which mesh axes values vary over: the op is in a shard_map that checks
    this."""
    identity: Identities
    axis_env: Any = field(default_factory=core.get_axis_env)
    """The named axes where the equation was imported."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EquationSource) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @functools.cached_property
    def _key(self) -> Any:
        within = frozenset(self.within.items())
        # A context is known by its id: JAX keeps one object per kind.
        around = id(self.eqn.ctx), within, self.check_vma, self.axis_env
        return rules_key(self.eqn, self.identity), *around

    @property
    def in_rule(self) -> bool:
        return bool(self.within)

    @property
    def function(self) -> str:
        params = self.eqn.params
        if "call_jaxpr" in params:
            return params["call_jaxpr"].jaxpr.debug_info.func_src_info
        return params["bwd"].debug_info.func_src_info

    @property
    def plain_jvp(self) -> Any | None:
        # A JVP rule must be passed the values it closes over.  A VJP rule is excluded since each
        # trace leaves its own facts with it.
        rule = self.eqn.params.get("jvp_jaxpr_fun")
        if rule is None or self.check_vma or closures.constants_of(self.eqn).variables:
            return None
        return lu.wrap_init(SerialThunk(rule, _Turns.at(rule).lock), debug_info=rule.debug_info)

    def numbered_by(self, identity: Identities) -> EquationSource:
        return replace(self, identity=identity)

    def trace(self, attributes: Attributes, pending: PendingRules) -> NamedRules:
        with self._rules(pending) as rules:
            yield from rules.trace()

    def tell(self, attributes: Attributes, pending: PendingRules, zeros: Mask) -> NamedRules:
        with self._rules(pending) as rules:
            yield rules.tell(zeros)

    def forward_alone(self, pending: PendingRules) -> NamedRules:
        with self._rules(pending) as rules:
            yield rules.forward()

    def backward(self, pending: PendingRules, in_zeros: Mask, ct_zeros: Mask | None) -> NamedRules:
        with self._rules(pending) as rules:
            if ct_zeros is None:
                yield from rules.trace_backward(in_zeros)
            else:
                yield rules.backward_of_lin(in_zeros, ct_zeros)

    @contextlib.contextmanager
    def _rules(self, pending: PendingRules) -> Iterator[Any]:
        """The rules, in the context in which JAX would trace at the equation, including its
        mesh."""
        ctx = self.eqn.ctx
        with (
            pending.around(self.within, self.check_vma),
            core.extend_axis_env_nd(self.axis_env.axis_sizes.items()),
            in_context(ctx),
            named_axes(ctx.cur_abstract_mesh),
            config._check_vma(self.check_vma),
        ):
            yield RULES[self.eqn.primitive.name](self.eqn, pending)
