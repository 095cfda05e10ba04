"""Which functions JAX differentiates: those that it is given, or what they are staged out to.

``jax.grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``linearize``, ``jacrev``, ``jacfwd`` and
``hessian`` all come to two functions of JAX, which run a Python function on tracers of theirs.
Within :func:`staged_by` that function is another one, which calls its program instead: the rules of
that call are the passes.

What is in force is a part of the key of JAX's caches: a jitted function that is traced within
:func:`staged_by` is traced again outside.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import jax

from jaxmlir._compat import core, pe, replace_differentiated

Staging: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""From a function to one of the same arguments and results."""

_staging = jax.make_user_context(None)


class _StagingCounts(threading.local):
    staged = 0


_counts = _StagingCounts()


def staged_by(staging: Staging | None) -> AbstractContextManager[None]:
    """Has JAX, where it traces within the block, differentiate ``staging(f)`` in place of ``f``.

    Args:
      staging: equal ones are the same to JAX's caches; ``None`` leaves functions as they are.
    """
    if staging is not None:
        _take_over()
    return _staging(staging)


def staged_everywhere_by(staging: Staging | None) -> None:
    """Has JAX differentiate as within :func:`staged_by`, in all threads of the process."""
    if staging is not None:
        _take_over()
    _staging.set_global(staging)


@contextlib.contextmanager
def as_given() -> Iterator[None]:
    """Has JAX differentiate functions as they are given within the block.

    So do its rules, which may differentiate functions in turn: what they write is the same for all
    programs.
    """
    with _staging(None):
        yield


def num_staged() -> int:
    """How many functions this thread has differentiated staged so far."""
    return _counts.staged


_in_place = threading.Lock()


def _take_over() -> None:
    with _in_place:
        replace_differentiated(_replacement)


def _replacement(function: Callable[..., Any]) -> Callable[..., Any]:
    staging = _staging.value
    if staging is None or not _is_traced() or jax.config.jax_disable_jit:
        return function
    _counts.staged += 1
    return staging(function)


def _is_traced() -> bool:
    """Whether JAX stages out what happens now: elsewhere functions may look at values."""
    return any(isinstance(trace, pe.DynamicJaxprTrace) for trace in _traces())


def _traces() -> Iterator[Any]:
    """The traces under way, innermost first."""
    trace = core.trace_ctx.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent_trace", None)


def is_under_way(tracer: core.Tracer) -> bool:
    """Whether the trace that a value is of goes on."""
    return any(trace is tracer._trace for trace in _traces())
