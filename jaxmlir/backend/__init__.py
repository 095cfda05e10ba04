"""Every ``jax.jit`` of a process, or of a ``with`` block, compiled through the dialect.

    with jaxmlir.backend.enabled(pipeline="jaxpr-dedupe-functions"):
        f(x)                                        # jaxpr -> dialect -> passes -> StableHLO

    JAXMLIR_BACKEND=1 python script.py              # a script that imports jaxmlir
    python -m jaxmlir.backend script.py args        # any script; `-m module args` works too
    pytest -p jaxmlir.backend                       # a test suite

JAX lowers a jaxpr by making a module, its ``main`` function with the calling convention (donation,
aliasing, shardings, layouts, tokens, dimension variables, platforms), and then the body, equation
by equation. The backend takes over the body: it imports the jaxpr, runs the passes on the program,
and lowers the program's ops in place of the equations. Everything around the body is JAX's, and
works for the dialect as it does for a jaxpr.

With an optimization level, functions that JAX differentiates while it traces are staged out first,
as in a function of ``jaxmlir.jit`` (:mod:`jaxmlir.program.jit`).

Environment variables set what the arguments do not: ``JAXMLIR_OPTIMIZE``, ``JAXMLIR_PIPELINE``,
``JAXMLIR_ROUND_TRIP=1`` and ``JAXMLIR_DUMP_TO``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax

from jaxmlir.backend import lowering
from jaxmlir.backend.lowering import Settings
from jaxmlir.runtime.differentiation import as_given, staged_by, staged_everywhere_by

# Part of the key of JAX's caches: code compiled under other settings is not used.
_settings = jax.make_user_context(None)


@contextlib.contextmanager
def enabled(
    *,
    optimize: int | None = None,
    pipeline: str | None = None,
    round_trip: bool | None = None,
    dump_to: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Within the block, in this thread, every ``jax.jit`` compiles through the dialect.

    Args:
      optimize, pipeline, round_trip, dump_to: see :class:`Settings`; by default from the
        environment.

    Raises:
      PipelineError: there is no such level, or the pipeline is malformed or names a pass that does
        not exist.
    """
    settings = Settings.given(optimize, pipeline, round_trip, dump_to)
    _take_over()
    with _settings(settings), staged_by(settings.stager):
        yield


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Within the block, in this thread, JAX compiles as it always does."""
    with _settings(None), as_given():
        yield


def enable(
    *,
    optimize: int | None = None,
    pipeline: str | None = None,
    round_trip: bool | None = None,
    dump_to: str | os.PathLike[str] | None = None,
) -> None:
    """Enables the backend for all threads of the process, until :func:`disable`; it takes the
    arguments of :func:`enabled`."""
    settings = Settings.given(optimize, pipeline, round_trip, dump_to)
    _take_over()
    _settings.set_global(settings)
    staged_everywhere_by(settings.stager)


def disable() -> None:
    """Undoes :func:`enable`."""
    _settings.set_global(None)
    staged_everywhere_by(None)


def _take_over() -> None:
    lowering.take_over(lambda: _settings.value)


def pytest_configure(config: Any) -> None:
    """``pytest -p jaxmlir.backend``: enabled unless ``JAXMLIR_BACKEND=0``."""
    if os.environ.get("JAXMLIR_BACKEND") != "0":
        enable()


__all__ = ["Settings", "disable", "disabled", "enable", "enabled"]
