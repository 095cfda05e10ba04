"""Custom derivative rules: Python thunks in a jaxpr, functions in the dialect.

``custom_jvp_call``, ``custom_vjp_call`` and ``custom_lin`` equations carry their rules as callables
that trace the user's function when they are called.  They are called with every tangent and
cotangent present, and the jaxpr they return is written; export hands JAX a thunk that returns it.
A JVP rule that asks to be told which tangents are zero (``symbolic_zeros``) is called once more for
each combination of these, unless it is of an op in another rule: their numbers would multiply.  A
VJP rule that asks so is told that none is, but for tangents that it refuses (:func:`_call_fwd`).

This module knows how to trace the rules of an equation; when that is done, :mod:`jaxmlir.untraced`
does.

A rule may call the function it belongs to, and every trace of that call makes new thunks.  So rules
are told apart by structure (:class:`Identities`), not by object: the user's function behind the
wrappers, what it closes over, and the abstract arguments.

A rule that cannot be traced does not make the import fail: the op records the reason, and only
differentiating it raises that error.  So it is with a rule that applies its own function to ever
larger arguments, as that of ``odeint`` does, which solves for the adjoint state besides: it is
traced for a few derivatives (:data:`jaxmlir.untraced.MAX_ORDER`).
"""

from __future__ import annotations

import functools
import itertools
import types as py_types
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jaxmlir import codec
from jaxmlir._compat import (
    ad_util,
    call_bwd,
    closed_over,
    core,
    dtypes,
    forget_traced,
    lu,
    pe,
    rule_transforms,
    tree_util,
    util,
    wrapped_rule,
)
from jaxmlir.ir import ir

if TYPE_CHECKING:
    from jaxmlir.untraced import Pending

T = TypeVar("T")

PRIMITIVES = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_lin"})

OPS = frozenset({"jaxpr.custom_jvp_call_jaxpr", "jaxpr.custom_vjp_call_jaxpr", "jaxpr.custom_lin"})
# The attributes of these ops that name their rules.
ATTRIBUTES = frozenset({"jvp_jaxpr", "jvp_with_zeros", "fwd_jaxpr", "bwd_jaxpr", "bwd"})

# Of a rule that is told which tangents are zero there is one for each combination of up to so many
# tangents.
MAX_COMBINED = 4


def write(eqn: Any, importer: Any) -> dict[str, ir.Attribute]:
    """The attributes of the op of a custom-derivative equation, but for its rules."""
    params = eqn.params
    given = {name: params[name] for name in _STATIC if params.get(name)}
    if "in_zeros" in given:
        given["in_zeros"] = tuple(given["in_zeros"])
    return {name: codec.encode(value, importer) for name, value in given.items()}


# Left out where they say nothing: 0, `False`, `()`.
_STATIC = ("call_jaxpr", "num_consts", "num_res", "in_zeros", "symbolic_zeros")


def _trace_jvp_rule(eqn: Any, pending: Pending) -> Iterator[tuple[str, ir.Attribute]]:
    params = eqn.params
    thunk = params["jvp_jaxpr_fun"]
    in_avals = [v.aval for v in eqn.invars[params["num_consts"] :]]

    def trace(in_zeros: tuple[bool, ...]) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        jaxpr, consts, out_zeros = thunk.call_wrapped(*in_zeros)
        zeros = {"jaxpr.in_zeros": in_zeros, "jaxpr.out_zeros": tuple(out_zeros)}
        return jaxpr, consts, {name: value for name, value in zeros.items() if any(value)}

    def function(in_zeros: tuple[bool, ...]) -> tuple[str, ir.Attribute]:
        key = ("jvp", pending.identity(thunk), tuple(in_avals), in_zeros)
        return pending.function(
            "jvp_jaxpr", key, thunk.debug_info, functools.partial(trace, in_zeros)
        )

    yield function((False,) * len(in_avals))
    if params["symbolic_zeros"] and not pending.in_rule:
        found = map(function, _zeros_of_tangents(in_avals))
        symbols = [symbol for name, symbol in found if name == "jvp_jaxpr"]
        if symbols:
            yield "jvp_with_zeros", ir.ArrayAttr.get(symbols)


def _zeros_of_tangents(avals: Sequence[Any]) -> Iterator[tuple[bool, ...]]:
    """Which tangents a rule may find to be zero, but not all, nor none; integers' always are."""
    tangible = [i for i, aval in enumerate(avals) if has_tangent(aval)]
    few = len(tangible) <= MAX_COMBINED
    for count in range(len(tangible), 0, -1):
        if few or count in (1, len(tangible)):
            for nonzero in itertools.combinations(tangible, count):
                zeros = tuple(i not in nonzero for i in range(len(avals)))
                if any(zeros):
                    yield zeros


def has_tangent(aval: Any) -> bool:
    return getattr(aval.to_tangent_aval(), "dtype", None) != dtypes.float0


def fitting(zeros: Sequence[bool], rules: Iterable[tuple[T, Sequence[bool]]]) -> T | None:
    """Of some rules that are each for certain zeros the one for the most of those that there are.

    Args:
      zeros: which tangents are zero.
      rules: each with the tangents that it takes for zero.
    """
    fit = [
        (sum(taken), rule)
        for rule, taken in rules
        if all(zero or not t for zero, t in zip(zeros, taken, strict=True))
    ]
    return max(fit, key=lambda pair: pair[0])[1] if fit else None


def _trace_vjp_rules(eqn: Any, pending: Pending) -> Iterator[tuple[str, ir.Attribute]]:
    params = eqn.params
    fwd, bwd = params["fwd_jaxpr_thunk"], params["bwd"]
    num_consts = params["num_consts"]
    in_avals = [v.aval for v in eqn.invars[num_consts:]]
    out_avals = [v.aval for v in eqn.outvars]
    shared = (pending.identity(fwd), pending.identity(bwd), tuple(in_avals))
    # Integers have no tangents, nor has what the function closed over.
    fixed = closed_over(fwd)
    tangible = tuple(i >= fixed and has_tangent(a) for i, a in enumerate(in_avals))

    @functools.cache
    def run_fwd() -> tuple[Any, Sequence[Any], dict[str, Any]]:
        taken, (jaxpr, consts) = _call_fwd(fwd, tangible, params["symbolic_zeros"])
        _, res_tree, input_fwds = params["out_trees"]()
        # JAX counts forwarded operands with the constants in front; fwd does not take these.
        operands = tuple(i if i is None else i - num_consts for i in input_fwds)
        found = {"jaxpr.num_res": res_tree.num_leaves, "jaxpr.input_fwds": operands}
        if taken != tangible:
            zeros = zip(tangible, taken, strict=True)
            found["jaxpr.in_zeros"] = tuple(may and not does for may, does in zeros)
        return jaxpr, consts, found

    name, found = pending.function("fwd_jaxpr", ("fwd", shared), fwd.debug_info, run_fwd)
    yield name, found
    if name != "fwd_jaxpr":
        return

    def trace_bwd() -> tuple[Any, Sequence[Any], dict[str, Any]]:
        # Tracing the forward rule tells JAX what the backward rule takes; that may have been done
        # for the same rule in another equation only.
        jaxpr, _, about = run_fwd()
        input_fwds = about["jaxpr.input_fwds"]
        own = iter(jaxpr.outvars)
        # From JAX 0.11 the constants of a jaxpr may stand before its operands.
        operands = jaxpr.invars[len(jaxpr.invars) - len(in_avals) :]
        atoms = [next(own) if i is None else operands[i] for i in input_fwds]
        # A residual that is a Python value is one in the backward rule as well.
        known = {i: atom.val for i, atom in enumerate(atoms) if isinstance(atom, core.Literal)}
        cotangents = [a.to_ct_aval() for a in out_avals]
        return _trace_bwd(bwd, [atom.aval for atom in atoms], cotangents, known)

    yield pending.function("bwd_jaxpr", ("bwd", shared), bwd.debug_info, trace_bwd)


def _call_fwd(fwd: Any, tangible: tuple[bool, ...], choosy: bool) -> tuple[tuple[bool, ...], Any]:
    """Traces a forward rule for all tangents that there can be, or as many as it does not fail for.

    A rule with ``symbolic_zeros`` (``choosy``) may insist that some are zero, as equinox's do for
    what was not meant to be differentiated.  Which, shows in its failing: of those that it fails
    for halves are tried, and halves of these.  So ``k`` of ``n`` take about ``2 k log2(n / k)``
    calls, of which most fail at once.

    Returns:
      the tangents, and what the rule returned.
    """

    def call(nonzeros: Sequence[bool]) -> Any:
        forget_traced(fwd)
        return fwd.call_wrapped(*nonzeros)

    taken = [False] * len(tangible)

    def extend(more: Sequence[int]) -> None:
        """Adds those of some tangents that the rule does not fail for, with the ones before."""
        try:
            call([known or i in more for i, known in enumerate(taken)])
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


def refused(rule: str, nonzeros: Sequence[bool], in_zeros: Sequence[bool]) -> str | None:
    """What is wrong where an operand has a tangent that a forward rule insists is zero; ``None``
    where none has."""
    for operand, (nonzero, zero) in enumerate(zip(nonzeros, in_zeros, strict=True)):
        if nonzero and zero:
            return (
                f"the custom derivative rule @{rule} fails if told that argument {operand} of the "
                "function has a tangent; it has one here: stop it with jax.lax.stop_gradient, or "
                "pass the argument as one that is differentiated"
            )
    return None


def _trace_lin_rule(eqn: Any, pending: Pending) -> Iterator[tuple[str, ir.Attribute]]:
    bwd = eqn.params["bwd"]
    residuals = [v.aval for v in eqn.invars[: eqn.params["num_res"]]]
    cotangents = [a.to_ct_aval() for a in eqn.params["out_avals"]]

    def trace() -> tuple[Any, Sequence[Any], dict[str, Any]]:
        return _trace_bwd(bwd, residuals, cotangents, {})

    key = ("lin", pending.identity(bwd), tuple(residuals), tuple(cotangents))
    yield pending.function("bwd", key, bwd.debug_info, trace)


def _trace_bwd(
    bwd: Any, residuals: Sequence[Any], cotangents: Sequence[Any], known: dict[int, Any]
) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """A backward rule as a jaxpr ``(*residuals, *cotangents) -> (*cotangents)``, zeros dropped.

    Args:
      known: values of residuals that are the same in every call, by index.
    """
    zeros: list[bool] = []

    def flat(*args: Any) -> list[Any]:
        outs = call_bwd(bwd, *(known.get(i, arg) for i, arg in enumerate(args)))
        zeros[:] = [type(ct) in (ad_util.Zero, ad_util.SymbolicZero) for ct in outs]
        return [ct for ct, zero in zip(outs, zeros, strict=True) if not zero]

    args = [*residuals, *cotangents]
    info = core.DebugInfo("custom_vjp bwd", bwd.debug_info.func_src_info, None, None)
    wrapped = lu.wrap_init(flat, debug_info=info)
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(wrapped, args)
    return jaxpr, consts, {"jaxpr.out_zeros": tuple(zeros)} if any(zeros) else {}


TRACERS = {
    "custom_jvp_call": _trace_jvp_rule,
    "custom_vjp_call": _trace_vjp_rules,
    "custom_lin": _trace_lin_rule,
}


# --- what makes two rules the same --------------------------------------------------------------


def rules_key(eqn: Any, identity: Identities) -> Any:
    """Equal for equations whose rules would trace alike."""
    params = eqn.params
    functions = tuple(identity(params[name]) for name in _THUNKS if name in params)
    numbers = tuple(params.get(name) for name in ("num_consts", "num_res", "symbolic_zeros"))
    avals = tuple(v.aval for v in (*eqn.invars, *eqn.outvars))
    cotangents = tuple(params.get("out_avals", ()))
    return eqn.primitive.name, functions, numbers, cotangents, avals


_THUNKS = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")

_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, np.dtype, tree_util.PyTreeDef)


class Identities:
    """Numbers for objects: equal for rules that would trace alike.

    Functions are their code with what they close over, wrapped functions what they wrap; a new
    closure over equal things gets the same number.  What cannot be compared is its own address, so
    everything numbered is kept alive.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of_object: dict[int, int] = {}
        self._alive: list[Any] = []

    def __call__(self, value: Any) -> int:
        value = _innermost(value)
        if isinstance(value, _ATOMS):
            return self._number((type(value), value))
        known = self._of_object.get(id(value))
        if known is None:
            self._alive.append(value)
            self._of_object[id(value)] = self._number("cycle")
            known = self._of_object[id(value)] = self._number(self._structure(value))
        return known

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _structure(self, value: Any) -> Any:
        if isinstance(value, lu.WrappedFun):
            transforms = [(self(gen), self(args)) for gen, args in rule_transforms(value)]
            return ("wrapped", self(value.f), *transforms)
        if isinstance(value, functools.partial):
            return ("partial", self(value.func), self(value.args), self(value.keywords))
        if isinstance(value, py_types.MethodType):
            return ("method", self(value.__func__), self(value.__self__))
        if isinstance(value, py_types.FunctionType):
            cells = [self(_cell(cell)) for cell in value.__closure__ or ()]
            return (value.__code__, self(value.__defaults__), self(value.__kwdefaults__), *cells)
        if isinstance(value, _BOXES):
            return (type(value), self(value.val))
        if isinstance(value, _INCIDENTAL) or type(value) is object:
            return type(value)
        if isinstance(value, (tuple, list)):
            return (type(value), *map(self, value))
        if isinstance(value, dict):
            # The memo of a thunk grows by calling it.
            return (
                "memo" if _is_memo(value) else tuple((self(k), self(v)) for k, v in value.items())
            )
        if isinstance(value, core.AbstractValue):
            return value
        return ("object", id(value))


# What tells nothing about a rule: the trace that made it, what tracing it filled in, its names
# (and sentinels, bare objects).
_INCIDENTAL = (core.Trace, lu.Store, lu.EqualStore, core.DebugInfo)


# What JAX puts static and nondifferentiated arguments in.
_BOXES = (util.Unhashable, util.Hashable)


def _innermost(value: Any) -> Any:
    """A rule without the layers that JAX put around it and that do nothing.

    Tracing a rule that calls its own function adds one each time; they must not make it another.
    """
    while True:
        if isinstance(value, lu.WrappedFun) and not rule_transforms(value):
            value = value.f
        elif (
            isinstance(value, py_types.FunctionType) and (inner := wrapped_rule(value)) is not None
        ):
            value = inner
        else:
            return value


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty cell"


def _is_memo(value: dict[Any, Any]) -> bool:
    return all(isinstance(k, tuple) and all(isinstance(b, bool) for b in k) for k in value)
