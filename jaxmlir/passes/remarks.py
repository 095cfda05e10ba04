"""Remarks: a pass reports what it did, where in the user's program, why, and by which estimate.

A pass calls :func:`remark` with the op that it changed, before it changes it::

    remark(op, "hoisted out of the loop: computed once instead of 1000 times")

If nobody listens, this costs a look at a context variable.  ``jaxmlir-opt --remarks=all`` prints
remarks as ``file:line:col: remark: [jaxpr-licm] ...``; in Python, ``run_passes(...,
remarks=print)``. A :class:`~jaxmlir.debug.RemarkReport`, which ``jaxmlir-opt --remarks`` prints,
also gets the ops, and ranks kinds of remarks.  If composing the message is work, ask first: ``if
remarks_wanted(): remark(op, ...)``.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxmlir.errors import ArgumentError, Diagnostic

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

Sink = Callable[[Diagnostic], None]


@runtime_checkable
class OpSink(Protocol):
    """A sink that also gets the program before a pass runs, and the op of each remark."""

    def about(self, program: Module) -> None: ...

    def __call__(self, remark: Diagnostic, op: Any = None) -> None: ...


RemarkListener = Callable[[Diagnostic, Any], None]
"""Takes a remark and the op that it is about, or ``None`` if that is not known."""
_listening: contextvars.ContextVar[tuple[RemarkListener, str] | None] = contextvars.ContextVar(
    "remarks", default=None
)


def check_sink(sink: Any) -> None:
    """Raises :class:`ArgumentError` if a value cannot take remarks."""
    if sink is not None and not callable(sink):
        raise ArgumentError(
            f"remarks: expected print or another function of a Diagnostic, got {sink!r}"
        )


@contextlib.contextmanager
def listening(sink: Sink | None, pass_name: str, program: Module) -> Iterator[None]:
    """Passes the remarks made within the block, as those of ``pass_name``, to ``sink``."""
    # An isinstance check with a protocol takes longer than many a pass: skip it for None.
    if sink is not None and isinstance(sink, OpSink):
        sink.about(program)
    with heard_by(None if sink is None else _hears(sink), pass_name):
        yield


def unheard() -> contextlib.AbstractContextManager[None]:
    """Discards the remarks made within the block, in which a change is only tried."""
    return heard_by(None, "")


def _hears(sink: Sink) -> RemarkListener:
    return sink if isinstance(sink, OpSink) else lambda remark, op: sink(remark)


@contextlib.contextmanager
def heard_by(hears: RemarkListener | None, pass_name: str) -> Iterator[None]:
    """Passes the remarks made within the block to a function, with the op before its change."""
    token = _listening.set(None if hears is None else (hears, pass_name))
    try:
        yield
    finally:
        _listening.reset(token)


def remarks_wanted() -> bool:
    """Whether anybody listens."""
    return _listening.get() is not None


def listener() -> Sink | None:
    """A sink that passes remarks, without ops, to the current listener; ``None`` without one."""
    current = _listening.get()
    return None if current is None else lambda remark: current[0](remark, None)


def remark(op: Any, message: str) -> None:
    """Reports what the running pass did to an op, at the op's location."""
    listener = _listening.get()
    if listener is None:
        return
    # Imports JAX, so only once there is a remark.
    from jaxmlir.dialect import locations

    hears, pass_name = listener
    hears(Diagnostic("remark", f"[{pass_name}] {message}", *locations.position(op.location)), op)
