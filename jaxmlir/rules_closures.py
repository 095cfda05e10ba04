"""Custom derivative rules that close over values of the program around them::

    def loss(x, y):
        @jax.custom_jvp
        def f(z):
            return jnp.sum(z * jnp.tanh(x))

        @f.defjvp
        def f_jvp(primals, tangents):
            return f(*primals), jnp.sum(tangents[0] * jnp.tanh(x))

        return f(y)

JAX runs such a rule while ``x`` is at hand.  A program's rules are functions, so values have to be
passed to them.  What ``f`` itself closes over are its constants, the first operands of its
equation.  Where rules close over values too, these operands are no constants, but like others:
arguments of the rules, in which they have no derivative.  In a rule's jaxpr such a value is a
constant that is a tracer, of a variable of the jaxpr around it; it is looked up among the operands.

What rules close over and the function does not is at hand nowhere: such a rule cannot be traced.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxmlir._compat import close_jaxpr, core, open_jaxpr, rebound, variable_of

Constants = tuple[tuple[Any, ...], ...]
"""Of each operand that the function closed over its variable, and those that this stands for in the
jaxprs around: the value is the same."""

THUNKS = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")
"""The parameters of equations that are rules."""

PARAMETER = "jaxmlir_constants"
"""The parameter of an equation that holds these."""

# How many objects are looked at for what a rule closes over.
MOST = 10_000


def with_constants(eqn: Any, origins: Mapping[Any, Any]) -> Any:
    """The equation of a call with custom rules; its constants are operands like others where its
    rules close over values.

    Args:
      origins: of variables that stand for one of the jaxpr around theirs, that one.
    """
    params = eqn.params
    count = params.get("num_consts", 0)
    if not count or not any(holds_tracer(params[name]) for name in THUNKS if name in params):
        return eqn
    constants = tuple(tuple(_chain(v, origins)) for v in eqn.invars[:count])
    return eqn.replace(params={**params, "num_consts": 0, PARAMETER: constants})


def values(eqn: Any) -> tuple[Any, ...]:
    """The constants of an equation, by the outermost variable of each: the same for all that are
    the same value."""
    return tuple(chain[-1] for chain in eqn.params.get(PARAMETER, ()))


def _chain(variable: Any, origins: Mapping[Any, Any]) -> Iterator[Any]:
    while variable is not None:
        yield variable
        variable = origins.get(variable)


def bound(
    jaxpr: Any,
    consts: Sequence[Any],
    operands: Sequence[Any],
    constants: Constants,
    origins: dict[Any, Any],
    at: int = 0,
) -> tuple[Any, Sequence[Any]]:
    """A rule's jaxpr as one that takes the values of these constants.

    Args:
      operands: their types.
      origins: gets what its variables for them stand for: a rule may call its function.
      at: which argument the first one is.

    Returns:
      the jaxpr and its other constants.
    """
    if not constants:
        return jaxpr, consts
    jaxpr, consts = open_jaxpr(close_jaxpr(jaxpr, consts))
    rest = dict(zip(jaxpr.constvars, consts, strict=True))
    variables = []
    for aval, known in zip(operands, constants, strict=False):
        same = (v for v, value in rest.items() if variable_of(value) in known)
        variable = next(same, None)
        rest.pop(variable, None)
        variables.append(core.Var(aval) if variable is None else variable)
        origins[variables[-1]] = known[0]
    invars = [*jaxpr.invars[:at], *variables, *jaxpr.invars[at:]]
    return rebound(jaxpr, list(rest), invars), list(rest.values())


PASSING = frozenset(
    {
        "jaxpr.closed_call",
        "jaxpr.cond",
        "jaxpr.custom_jvp_call_jaxpr",
        "jaxpr.custom_vjp_call_jaxpr",
        "jaxpr.jit",
        "jaxpr.remat2",
        "jaxpr.scan",
        "jaxpr.while",
    }
)
"""The ops that :func:`passed` knows."""


def passed(name: str, params: Mapping[str, Any], operands: Sequence[Any]) -> Iterator[Any]:
    """Of an op the jaxprs that get operands as they are: pairs of a jaxpr's variables and these.

    Args:
      params: those of the dialect.
    """
    match name:
        case "jaxpr.jit" | "jaxpr.closed_call" | "jaxpr.remat2":
            yield from _pairs(params["jaxpr" if "jaxpr" in params else "call_jaxpr"], operands)
        case "jaxpr.custom_jvp_call_jaxpr" | "jaxpr.custom_vjp_call_jaxpr":
            yield from _pairs(params["call_jaxpr"], operands)
        case "jaxpr.scan":
            yield from _pairs(params["jaxpr"], operands[: params["num_consts"]])
        case "jaxpr.while":
            first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            yield from _pairs(params["cond_jaxpr"], operands[:first])
            yield from _pairs(params["body_jaxpr"], operands[first:last])
        case "jaxpr.cond":
            for branch in params["branches"]:
                yield from _pairs(branch, operands[1:])


def _pairs(jaxpr: Any, operands: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    jaxpr, _ = open_jaxpr(jaxpr)
    for variable, operand in zip(jaxpr.invars, operands, strict=False):
        if not isinstance(operand, core.Literal):
            yield variable, operand


def holds_tracer(function: Any) -> bool:
    """Whether a function, or what it is made of, closes over a value of a trace."""
    seen: dict[int, Any] = {}
    waiting = [function]
    while waiting and len(seen) < MOST:
        value = waiting.pop()
        if id(value) not in seen:
            if isinstance(value, core.Tracer):
                return True
            # Kept alive, for its number.
            seen[id(value)] = value
            waiting.extend(_parts(value))
    return False


def _parts(value: Any) -> Iterator[Any]:
    """What a value refers to, of what belongs to it."""
    if isinstance(value, _WHOLE):
        return
    if isinstance(value, types.FunctionType):
        yield from filter(None, (value.__defaults__, value.__kwdefaults__))
        for cell in value.__closure__ or ():
            # One that is not filled yet has no contents.
            with contextlib.suppress(ValueError):
                yield cell.cell_contents
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    else:
        yield from getattr(value, "__dict__", {}).values()
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                yield getattr(value, name, None)


# What closes over nothing, or over what is not the rule's.
_WHOLE = (
    *(str, bytes, int, float, complex, type, types.ModuleType, np.ndarray, np.generic, np.dtype),
    *(jax.Array, core.Trace, core.Jaxpr, core.DebugInfo, core.AbstractValue),
)
