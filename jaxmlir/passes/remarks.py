"""Remarks: a pass says what it did, where in the user's program, why, and with what estimate.

A pass calls :func:`remark` with the op that it changed, before it changes it::

    remark(op, "hoisted out of the loop: computed once instead of 1000 times")

Nobody listening, that costs a look at a context variable.  ``jaxmlir-opt --remarks`` prints them
as ``file:line:col: remark: [jaxpr-licm] ...``; in Python, ``run_passes(..., remarks=print)``.  A
message that is itself work to make is asked for first: ``if remarks_wanted(): remark(op, ...)``.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jaxmlir.errors import Diagnostic

Sink = Callable[[Diagnostic], None]
OpSink = Callable[[Diagnostic, Any], None]
"""Takes a remark and the op that it is about."""

_listening: contextvars.ContextVar[tuple[OpSink, str] | None] = contextvars.ContextVar(
    "remarks", default=None
)


@contextlib.contextmanager
def listening(sink: Sink | None, pass_name: str) -> Iterator[None]:
    """Hands the remarks made meanwhile, those of the pass ``pass_name``, to ``sink``."""
    with listening_at_ops(None if sink is None else lambda said, op: sink(said), pass_name):
        yield


@contextlib.contextmanager
def listening_at_ops(sink: OpSink | None, pass_name: str) -> Iterator[None]:
    """Hands the remarks made meanwhile to ``sink``, each with its op as it is before the change."""
    token = _listening.set(None if sink is None else (sink, pass_name))
    try:
        yield
    finally:
        _listening.reset(token)


def remarks_wanted() -> bool:
    """Whether anybody listens."""
    return _listening.get() is not None


def listener() -> Sink | None:
    """What takes the remarks that are made now."""
    found = _listening.get()
    return None if found is None else found[0]


def remark(op: Any, message: str) -> None:
    """Reports what the running pass did to an op; the place is the op's location."""
    listener = _listening.get()
    if listener is None:
        return
    # JAX stays out until a pass has something to say.
    from jaxmlir.dialect import locations

    sink, pass_name = listener
    said = Diagnostic("remark", f"[{pass_name}] {message}", *locations.position(op.location))
    sink(said, op)


@contextlib.contextmanager
def recording() -> Iterator[list[Diagnostic]]:
    """The remarks made meanwhile, which are handed to nobody: none if nobody listens."""
    found: list[Diagnostic] = []
    listener = _listening.get()
    with listening(None if listener is None else found.append, listener[1] if listener else ""):
        yield found


def repeat(remarks: Iterable[Diagnostic], op: Any) -> None:
    """Makes remarks that were recorded; those without a place are about the op."""
    listener = _listening.get()
    if listener is None:
        return
    from jaxmlir.dialect import locations

    for said in remarks:
        file, line, col = locations.position(op.location)
        listener[0](said if said.line else said._replace(file=file, line=line, col=col), op)
