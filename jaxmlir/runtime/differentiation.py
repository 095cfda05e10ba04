"""Has JAX differentiate programs instead of the functions it is given.

``jax.grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``linearize``, ``jacrev``, ``jacfwd`` and
``hessian`` all end in two functions of JAX, which run a Python function on their tracers.  Within
:func:`staged_by`, the function is replaced by one that calls its program.  The rules of that call
are the passes.

The setting is part of the key of JAX's caches: a jitted function that is traced within
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
"""Maps a function to one with the same arguments and results."""

_staging = jax.make_user_context(None)


class _StagingCounts(threading.local):
    staged = 0


_counts = _StagingCounts()


def staged_by(staging: Staging | None) -> AbstractContextManager[None]:
    """Has JAX differentiate ``staging(f)`` (``f`` for ``None``) in place of ``f`` while it traces
    within the block.  JAX's caches compare it by equality."""
    if staging is not None:
        _take_over()
    return _staging(staging)


def staged_everywhere_by(staging: Staging | None) -> None:
    """Applies :func:`staged_by` to all threads of the process, without a block."""
    if staging is not None:
        _take_over()
    _staging.set_global(staging)


@contextlib.contextmanager
def as_given() -> Iterator[None]:
    """Has JAX differentiate functions as they are given within the block.  Used around rules, which
    may differentiate functions in turn: their output is shared by all programs."""
    with _staging(None):
        yield


def num_staged() -> int:
    """How many functions this thread has replaced for differentiation so far."""
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
    """Whether JAX is tracing to a jaxpr; otherwise functions may look at concrete values."""
    return any(isinstance(trace, pe.DynamicJaxprTrace) for trace in _traces())


def _traces() -> Iterator[Any]:
    """The active traces, innermost first."""
    trace = core.trace_ctx.trace
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent_trace", None)


def is_under_way(tracer: core.Tracer) -> bool:
    """Whether the trace of a tracer is still active."""
    return any(trace is tracer._trace for trace in _traces())
