"""Remarks: a pass says what it did, where in the user's program, why, and with what estimate.

A pass calls :func:`remark` with the op that it changed, before it changes it::

    remark(op, "hoisted out of the loop: computed once instead of 1000 times")

Nobody listening, that costs a look at a context variable.  ``jaxmlir-opt --remarks=all`` prints
them as ``file:line:col: remark: [jaxpr-licm] ...``; in Python, ``run_passes(..., remarks=print)``.
A :class:`~jaxmlir.debug.RemarkReport`, which ``jaxmlir-opt --remarks`` prints, is told the ops too,
and ranks kinds of remarks.  A message that is itself work to make is asked for first:
``if remarks_wanted(): remark(op, ...)``.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxmlir.errors import Diagnostic

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

Sink = Callable[[Diagnostic], None]


@runtime_checkable
class OpSink(Protocol):
    """A sink that is told, before a pass runs, of which program, and what op a remark is about."""

    def about(self, program: Module) -> None: ...

    def __call__(self, remark: Diagnostic, op: Any = None) -> None: ...


RemarkListener = Callable[[Diagnostic, Any], None]
"""Takes a remark and the op that it is about, ``None`` where that is not known."""
_listening: contextvars.ContextVar[tuple[RemarkListener, str] | None] = contextvars.ContextVar(
    "remarks", default=None
)


@contextlib.contextmanager
def listening(sink: Sink | None, pass_name: str, program: Module) -> Iterator[None]:
    """Hands the remarks made meanwhile, those of the pass ``pass_name``, to ``sink``."""
    # Without the first question, the second takes longer than many a pass.
    if sink is not None and isinstance(sink, OpSink):
        sink.about(program)
    with heard_by(None if sink is None else _hears(sink), pass_name):
        yield


def unheard() -> contextlib.AbstractContextManager[None]:
    """Has nobody hear the remarks made meanwhile: what is tried is not done."""
    return heard_by(None, "")


def _hears(sink: Sink) -> RemarkListener:
    return sink if isinstance(sink, OpSink) else lambda remark, op: sink(remark)


@contextlib.contextmanager
def heard_by(hears: RemarkListener | None, pass_name: str) -> Iterator[None]:
    """Hands the remarks made meanwhile to a function, each with its op before the change."""
    token = _listening.set(None if hears is None else (hears, pass_name))
    try:
        yield
    finally:
        _listening.reset(token)


def remarks_wanted() -> bool:
    """Whether anybody listens."""
    return _listening.get() is not None


def listener() -> Sink | None:
    """What takes the remarks that are made now; of those that it is handed, it knows no op."""
    current = _listening.get()
    return None if current is None else lambda remark: current[0](remark, None)


def remark(op: Any, message: str) -> None:
    """Reports what the running pass did to an op; the place is the op's location."""
    listener = _listening.get()
    if listener is None:
        return
    # JAX stays out until a pass has something to say.
    from jaxmlir.dialect import locations

    hears, pass_name = listener
    hears(Diagnostic("remark", f"[{pass_name}] {message}", *locations.position(op.location)), op)


@contextlib.contextmanager
def recording() -> Iterator[list[Diagnostic]]:
    """The remarks made meanwhile, which are handed to nobody: none if nobody listens."""
    remarks: list[Diagnostic] = []
    listener = _listening.get()
    if listener is None:
        yield remarks
        return
    with heard_by(lambda remark, op: remarks.append(remark), listener[1]):
        yield remarks


def repeat(remarks: Iterable[Diagnostic], op: Any) -> None:
    """Makes remarks that were recorded; those without a place are about the op."""
    listener = _listening.get()
    if listener is None:
        return
    from jaxmlir.dialect import locations

    for said in remarks:
        file, line, col = locations.position(op.location)
        listener[0](said if said.line else said._replace(file=file, line=line, col=col), op)
