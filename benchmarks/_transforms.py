"""Times differentiation and batching of a program: by the passes, and by JAX on the same jaxpr.

Each repetition traces the program anew for each side, because JAX keeps the trace of a custom rule
with the equation.  Other caches are warm: both have seen the rules of the primitives before.
jaxmlir's time includes the verification of the result.

An imported program has its custom derivative rules in its IR, as a saved one does.  JAX traces the
rules' functions each time; so another measure starts from a program with untraced rules.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

import jaxmlir
from benchmarks._measure import Sides, Work, side_by_side
from jaxmlir._compat import core

if TYPE_CHECKING:
    from benchmarks._comparisons import Case

BATCH = 4


def grad(case: Case, repetitions: int) -> Sides:
    """Times the gradient in all differentiable arguments, of a program with traced rules."""
    return _grad(case, repetitions, rules_traced=True)


def grad_rules(case: Case, repetitions: int) -> Sides | None:
    """Times the gradient of a program with untraced custom rules; ``None`` without such rules."""
    if not jaxmlir.from_jaxpr(case.trace()).has_untraced_rules:
        return None
    return _grad(case, repetitions, rules_traced=False)


def _grad(case: Case, repetitions: int, *, rules_traced: bool) -> Sides:
    argnums = [i for i, a in enumerate(case.flat) if jnp.issubdtype(a.dtype, jnp.inexact)]

    def prepare() -> tuple[Work, Work]:
        program = jaxmlir.from_jaxpr(case.trace())
        if rules_traced:
            program.trace_rules()
        of_jax = jax.grad(_scalar(case.trace()), argnums)
        return (
            lambda: jax.make_jaxpr(of_jax)(*case.flat),
            lambda: program.grad(argnums).verify(),
        )

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def vmap(case: Case, repetitions: int) -> Sides:
    """Times batching over all arguments of an imported program."""
    batched = [jax.ShapeDtypeStruct((BATCH, *a.shape), a.dtype) for a in case.flat]

    def prepare() -> tuple[Work, Work]:
        program = jaxmlir.from_jaxpr(case.trace())
        of_jax = jax.vmap(core.jaxpr_as_fun(case.trace()))
        return (
            lambda: jax.make_jaxpr(of_jax)(*batched),
            lambda: program.vmap(axis_size=BATCH).verify(),
        )

    return side_by_side(prepare, repetitions, clock=time.thread_time)


def _scalar(closed: Any) -> Any:
    """The jaxpr as a function that returns its one result."""
    flat = core.jaxpr_as_fun(closed)

    @functools.wraps(flat)
    def scalar(*args: Any) -> Any:
        (result,) = flat(*args)
        return result

    return scalar
