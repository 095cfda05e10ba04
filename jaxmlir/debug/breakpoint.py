"""``breakpoint_at``: pdb inside a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jaxmlir.debug.values import Place, Range
from jaxmlir.errors import ArgumentError
from jaxmlir.interpret.interpreter import Hook, Step


def breakpoint_at(
    op: str | None = None,
    *,
    line: int | str | None = None,
    when: Callable[[Step], bool] | None = None,
    after: bool = False,
) -> Hook:
    """A hook for ``program.eval`` that stops in the debugger where all conditions hold.

    In the debugger, ``operands``, ``results``, ``step`` and ``stack`` are at hand; assigning to an
    element of ``operands`` before the op, or of ``results`` after it, changes what evaluation goes
    on with.  The debugger is the one of Python's ``breakpoint()``.

    Args:
      op: the op's name, ``"exp"`` or ``"jaxpr.exp"``.
      line: the user's line, ``12`` or ``"model.py:12"``, anywhere among the frames of the op.
      when: asked of each step, e.g. ``lambda step: step.iterations == (317,)``.
      after: stop behind the op, where its results are known; by default before it.

    Raises:
      ArgumentError: a condition is of the wrong kind.
    """
    if not isinstance(op, str | None) or op == "":
        raise ArgumentError(f"op: expected the name of an op, got {op!r}")
    if line is not None and not re.fullmatch(r"(.*:)?0*[1-9]\d*", str(line)):
        raise ArgumentError(f"line: expected a line, 12 or 'model.py:12', got {line!r}")
    if when is not None and not callable(when):
        raise ArgumentError(f"when: expected a function of a Step, got {when!r}")
    return _Breakpoint(op and f"jaxpr.{op.removeprefix('jaxpr.')}", line, when, after)


class _Breakpoint(Hook):
    def __init__(
        self,
        op: str | None,
        line: int | str | None,
        when: Callable[[Step], bool] | None,
        after: bool,
    ):
        file, _, number = str(line or "").rpartition(":")
        self.op = op
        self.file = file
        self.line = int(number) if number else 0
        self.when = when
        self.is_after = after

    def holds(self, step: Step) -> bool:
        """Whether to stop; the dearest question is asked last."""
        if self.op is not None and step.name != self.op:
            return False
        if self.line and not any(
            line == self.line and self._names(file) for file, line, _ in step.frames
        ):
            return False
        return self.when is None or self.when(step)

    def _names(self, file: str) -> bool:
        """Whether a file is the one meant: ``model.py`` is not ``other_model.py``."""
        return not self.file or f"/{file}".endswith(f"/{self.file.lstrip('/')}")

    def before(self, step: Step) -> None:
        if not self.is_after and self.holds(step):
            _stop(step)

    def after(self, step: Step) -> None:
        if self.is_after and self.holds(step):
            _stop(step)


def _stop(step: Step) -> None:
    """Where the debugger stands: everything of interest is a local name."""
    operands: list[Any] = step.operands
    results: list[Any] | None = step.results
    stack = step.stack
    place = Place.of(step)
    print(
        "\n".join([f"stopped {'before' if results is None else 'after'} {place}"] + place.lines())
    )
    for what, values in (("operands", operands), ("results", results or [])):
        for i, value in enumerate(values):
            print(f"  {what}[{i}]: {Range.of(value)}")
    breakpoint()
    del stack  # The debugger stands at the line after the call, which has to be one of here.
