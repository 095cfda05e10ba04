"""Custom derivative rules that close over values of the program around them::

    def loss(x, y):
        @jax.custom_jvp
        def f(z):
            return jnp.sum(z * jnp.tanh(x))

        @f.defjvp
        def f_jvp(primals, tangents):
            return f(*primals), jnp.sum(tangents[0] * jnp.tanh(x))

        return f(y)

JAX runs such a rule while ``x`` is available.  A program's rules are functions, so such values must
be passed to them.  Values that ``f`` itself closes over are its constants, the first operands of
its equation.  If rules close over values, these operands become ordinary ones: arguments of the
rules, in which they have no derivative.  Values that only the rules close over become operands as
well.  In a rule's jaxpr such a value is a constant that is a tracer, which stands for a variable of
an enclosing jaxpr; this variable is looked up among the operands.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import (
    atom_of,
    close_jaxpr,
    core,
    lu,
    open_jaxpr,
    rebound,
    rule_transforms,
    stages,
    tree_util,
)
from jaxmlir.bridge.custom_rules import hijax
from jaxmlir.bridge.exporter import Exporter
from jaxmlir.dialect.custom_rule_ops import HIGH_LEVEL, PRIMITIVES
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.support.masks import Mask

THUNKS = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")
"""The parameters of equations that hold rules."""

# The limit on objects that are searched for what a rule closes over.
MOST = 10_000


class ClosureConstants(NamedTuple):
    """The first operands of an equation, which its rules may close over."""

    variables: tuple[Any, ...] = ()
    own: int = 0
    """How many of them the function itself closes over."""
    origins: Mapping[Any, Any] = {}
    """See :func:`jaxmlir.bridge.custom_rules.closures.note_origins`."""

    @property
    def chains(self) -> list[tuple[Any, ...]]:
        """For each value, its variable and the variables of enclosing jaxprs that this stands
        for."""
        return [tuple(chain_of(v, self.origins)) for v in self.variables]

    @property
    def values(self) -> tuple[Any, ...]:
        """The outermost variable of each, equal for variables that stand for the same value.
        ``None`` for a literal in the jaxpr."""
        return tuple(chain[-1] if chain else None for chain in self.chains)


_PARAMETER = "jaxmlir_constants"


def constants_of(eqn: Any) -> ClosureConstants:
    """The closure constants that :func:`with_constants` has attached to an equation."""
    return eqn.params.get(_PARAMETER, ClosureConstants(own=eqn.params.get("num_consts", 0)))


def with_constants(
    eqn: Any, origins: Mapping[Any, Any], at_hand: Iterable[Any], closed: dict[int, Any]
) -> Any:
    """The equation of a call with custom rules, with the values its rules close over as operands.

    The new equation has no constants.  An equation whose rules close over nothing stays as is.

    Args:
      origins: see :func:`jaxmlir.bridge.custom_rules.closures.note_origins`.
      at_hand: the variables of the jaxpr that have a value at the equation.
      closed: objects that hold no tracer, by id; those found are added.
    """
    params = eqn.params
    rules = [params[name] for name in THUNKS if name in params]
    if "call_jaxpr" not in params or not (captured := _closed_over(rules, closed)):
        return eqn
    num_consts = params["num_consts"]
    missing = captured.difference(*(chain_of(v, origins) for v in eqn.invars[:num_consts]))
    more = {}
    for variable in at_hand if missing else ():
        same = missing.intersection(chain_of(variable, origins))
        more.update(dict.fromkeys(same, variable))
    operands = [*eqn.invars[:num_consts], *more.values()]
    if missing == captured and not more:
        return eqn
    constants = ClosureConstants(tuple(operands), num_consts, origins)
    params = {**params, "num_consts": 0, _PARAMETER: constants}
    if more:
        called, consts = open_jaxpr(params["call_jaxpr"])
        unused = [core.Var(v.aval) for v in more.values()]
        invars = [*called.invars[:num_consts], *unused, *called.invars[num_consts:]]
        called = rebound(called, list(called.constvars), invars)
        params["call_jaxpr"] = close_jaxpr(called, consts)
    return eqn.replace(invars=[*operands, *eqn.invars[num_consts:]], params=params)


def reads(consts: Sequence[Any], chains: Sequence[tuple[Any, ...]]) -> Mask:
    """Which of the values that a rule may close over it uses: those that its jaxpr has as
    constants.  An object that a rule closes over may hold further values.

    Args:
      consts: the constants of the rule's jaxpr.
      chains: the values; see :class:`ClosureConstants`.
    """
    variables = set(map(_variable, consts))
    return tuple(not variables.isdisjoint(chain) for chain in chains)


def bound(
    jaxpr: Any,
    consts: Sequence[Any],
    operands: Sequence[Any],
    chains: Sequence[tuple[Any, ...]],
    origins: dict[Any, Any],
    at: int = 0,
) -> tuple[Any, Sequence[Any]]:
    """Converts a rule's jaxpr so that it takes closed-over values as arguments.

    Args:
      operands: the types of the values.
      chains: see :class:`ClosureConstants`.
      origins: the new arguments are added, for the case that the rule calls its function.
      at: the position of the first new argument.

    Returns:
      the jaxpr and its other constants.
    """
    consts = list(map(_literal_value, consts))
    if not chains:
        return jaxpr, consts
    jaxpr, consts = open_jaxpr(close_jaxpr(jaxpr, consts))
    rest = dict(zip(jaxpr.constvars, consts, strict=True))
    variables = []
    for aval, chain in zip(operands, chains, strict=False):
        same = (v for v, value in rest.items() if _variable(value) in chain)
        variable = next(same, None)
        rest.pop(variable, None)
        variables.append(core.Var(aval) if variable is None else variable)
        origins.update(itertools.pairwise((variables[-1], *chain)))
    invars = [*jaxpr.invars[:at], *variables, *jaxpr.invars[at:]]
    return rebound(jaxpr, list(rest), invars), list(rest.values())


def ignoring(jaxpr: Any, consts: Sequence[Any], avals: Sequence[Any], at: int) -> Any:
    """A rule's jaxpr with additional arguments, which it does not use.

    Args:
      consts: the constants of the jaxpr.
      avals: the types of the new arguments.
      at: the position of the first new argument.
    """
    # From JAX 0.11 on, unbound constants come before the arguments.
    jaxpr, _ = open_jaxpr(close_jaxpr(jaxpr, consts))
    unused = list(map(core.Var, avals))
    return rebound(jaxpr, list(jaxpr.constvars), [*jaxpr.invars[:at], *unused, *jaxpr.invars[at:]])


def _variable(value: Any) -> Any | None:
    """The variable of a tracer in its jaxpr; ``None`` for other values."""
    atom = atom_of(value)
    return atom if isinstance(atom, core.Var) else None


def _literal_value(value: Any) -> Any:
    """The value itself, or the array of a tracer that stands for a literal."""
    atom = atom_of(value)
    return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, core.Literal) else value


def holds_tracer(rule: Any) -> bool:
    """Whether a rule, or an object it refers to, closes over a tracer."""
    return bool(_closed_over([rule]))


def rules_may_read(closed_jaxpr: Any) -> bool:
    """Whether a custom rule in a jaxpr, or in its sub-jaxprs, may close over a value of it.  The
    equation of such a value looks dead if nothing else uses the value."""
    return any(_variable(tracer) is not None for tracer in read_by_rules(closed_jaxpr))


def read_by_rules(closed_jaxpr: Any) -> Iterator[core.Tracer]:
    """The values that custom rules in a jaxpr, or in its sub-jaxprs, may close over."""
    pending, seen, closed = [open_jaxpr(closed_jaxpr)[0]], set(), {}
    while pending:
        jaxpr = pending.pop()
        if id(jaxpr) in seen:
            continue
        seen.add(id(jaxpr))
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in HIGH_LEVEL:
                eqn = hijax.ordinary(eqn)
            if eqn.primitive.name in PRIMITIVES:
                yield from _tracers(
                    [eqn.params[name] for name in THUNKS if name in eqn.params], closed
                )
            pending += core.jaxprs_in_params(eqn.params)


def _closed_over(rules: Iterable[Any], closed: dict[int, Any] | None = None) -> set[Any]:
    """The variables of the tracers that rules, or objects they refer to, close over; for ``closed``
    see :func:`with_constants`."""
    return {*map(_variable, _tracers(rules, {} if closed is None else closed))} - {None}


def _tracers(rules: Iterable[Any], closed: dict[int, Any]) -> list[core.Tracer]:
    """The tracers that rules, or objects they refer to, close over."""
    before = len(closed)
    tracers = [v for v in made_of(rules, closed) if isinstance(v, core.Tracer)]
    if tracers or len(closed) >= before + MOST:
        while len(closed) > before:
            closed.popitem()
    return tracers


def made_of(rules: Iterable[Any], seen: dict[int, Any] | None = None) -> Iterator[Any]:
    """Rules, and all objects that they refer to or close over.

    Args:
      seen: objects that need not be searched, by id; those searched are added.
    """
    seen = {} if seen is None else seen
    most = len(seen) + MOST
    waiting = list(rules)
    while waiting and len(seen) < most:
        value = waiting.pop()
        if id(value) in seen:
            continue
        yield value
        if (parts := _parts_of(type(value))) is _nothing:
            continue
        # Kept alive, since it is known by its id.
        seen[id(value)] = value
        # If the search fails, as a user's object may make it, the object counts as empty.
        with contextlib.suppress(Exception):
            waiting.extend(parts(value))


def _nothing(value: Any) -> Iterable[Any]:
    return ()


def _of_function(value: Any) -> Iterator[Any]:
    yield from filter(None, (value.__defaults__, value.__kwdefaults__, value.__dict__))
    for cell in value.__closure__ or ():
        # A cell that is not filled yet has no contents.
        with contextlib.suppress(ValueError):
            yield cell.cell_contents


def _of_array(value: Any) -> Iterable[Any]:
    return value.flat if value.dtype == object else ()


def _of_class(value: Any) -> Iterator[Any]:
    # Methods of a class defined in a function may close over values of the function.
    if "<locals>" in value.__qualname__:
        yield from value.__bases__
        yield from vars(value).values()


def _of_object(value: Any) -> Iterator[Any]:
    attributes = getattr(value, "__dict__", {})
    if "__wrapped__" in attributes and type(value).__module__.startswith("jax"):
        yield attributes["__wrapped__"]
        return
    yield type(value)
    if isinstance(value, Mapping):
        yield from value.values()
    # Items, attributes, slots, and references of objects made by C code, such as the dictionary of
    # a bound method.
    yield from gc.get_referents(value)


_PARTS: dict[Any, Callable[[Any], Iterable[Any]]] = {
    types.FunctionType: _of_function,
    np.ndarray: _of_array,
    type: _of_class,
    core.Jaxpr: lambda jaxpr: open_jaxpr(jaxpr)[1],
    # Objects that close over nothing, or refer to objects that are not the rule's own, such as a
    # program that the rule was exported from or calls.
    (
        *(str, bytes, int, float, complex, type(None), types.ModuleType),
        *(np.generic, np.dtype, jax.Array, tree_util.PyTreeDef),
        *(core.Trace, core.Tracer, core.DebugInfo, core.AbstractValue),
        *(lu.Store, lu.EqualStore, stages.Traced, hijax.CalledFunction, Exporter, Module),
    ): _nothing,
    # The static arguments of the function are in its transforms.
    lu.WrappedFun: lambda value: (value.f, *rule_transforms(value)),
    jax.custom_jvp: lambda value: (value.fun, value.jvp),
    jax.custom_vjp: lambda value: (value.fun, value.fwd, value.bwd),
    hijax.FUNCTIONS: hijax.function_parts,
    hijax.HijaxRule: lambda rule: rule.parts,
    object: _of_object,
}


@functools.lru_cache(1024)
def _parts_of(cls: type) -> Callable[[Any], Iterable[Any]]:
    """A function that returns the objects that a value of a class refers to and owns."""
    return next(parts for classes, parts in _PARTS.items() if issubclass(cls, classes))


# --- variables that stand for variables of enclosing jaxprs ---------------------------------------


PASSING = frozenset({*CALLEES, "jaxpr.cond", "jaxpr.scan", "jaxpr.while"})
"""The ops of which :func:`note_origins` takes note."""


def note_origins(
    origins: dict[Any, Any], name: str, params: Mapping[str, Any], operands: Sequence[Any]
) -> None:
    """Records, for the jaxprs that an op passes operands to, which of their variables stand for
    which variables of the enclosing jaxpr.  A jaxpr may be called from several places: a variable
    that gets different operands has ``None``."""
    for variable, operand in _passed(name, params, operands):
        if origins.setdefault(variable, operand) is not operand:
            origins[variable] = None


def chain_of(variable: Any, origins: Mapping[Any, Any]) -> Iterator[Any]:
    """A variable, and the variables of enclosing jaxprs that it stands for, innermost first."""
    # The last operand may be a literal.
    while isinstance(variable, core.Var):
        yield variable
        variable = origins.get(variable)


def _passed(
    name: str, params: Mapping[str, Any], operands: Sequence[Any]
) -> Iterator[tuple[Any, Any]]:
    """Pairs of a variable of an op's jaxprs and the operand that is passed to it unchanged."""
    match name:
        case "jaxpr.scan":
            yield from _pairs(params["jaxpr"], operands[: params["num_consts"]])
        case "jaxpr.while":
            first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            yield from _pairs(params["cond_jaxpr"], operands[:first])
            yield from _pairs(params["body_jaxpr"], operands[first:last])
        case "jaxpr.cond":
            for branch in params["branches"]:
                yield from _pairs(branch, operands[1:])
        case _:
            yield from _pairs(params[CALLEES[name]], operands)


def _pairs(jaxpr: Any, operands: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    jaxpr, _ = open_jaxpr(jaxpr)
    for variable, operand in zip(jaxpr.invars, operands, strict=False):
        if not isinstance(operand, core.Literal):
            yield variable, operand
