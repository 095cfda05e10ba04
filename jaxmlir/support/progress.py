"""A progress line on the terminal during long work, removed when the work is done.

It appears after a second, only if ``sys.stderr`` is a terminal and ``rich`` is installed.
``JAXMLIR_PROGRESS=0`` turns it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

DELAY = 1.0
"""The seconds after which work is shown."""

ProgressReporter = Callable[[str], None]

_line: ContextVar[_ProgressLine | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[ProgressReporter]:
    """Shows work on the terminal while it is in progress.

    Args:
      what: a description, such as "optimizing @f".
      total: the number of steps, if it is known.

    Yields:
      A function to call with the name of each step when it begins.
    """
    outer = _line.get()
    if outer is not None:
        with outer.work(what, total) as step:
            yield step
    elif not is_seen():
        yield _unseen
    else:
        line = _ProgressLine()
        token = _line.set(line)
        try:
            with line.work(what, total) as step:
                yield step
        finally:
            _line.reset(token)
            line.stop()


def _unseen(step: str) -> None:
    """Shows nothing."""


def is_seen() -> bool:
    """Whether progress may be shown to a person."""
    if os.environ.get("JAXMLIR_PROGRESS") == "0" or os.environ.get("TERM") == "dumb":
        return False
    # Two threads would write over each other's lines.
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stderr is not None and sys.stderr.isatty()


@dataclass
class _ProgressTask:
    what: str
    total: int | None
    begun: int = 0
    step: str = ""

    def __str__(self) -> str:
        count = f" {self.begun}/{self.total}" if self.total else ""
        return f"{self.what}{count}" + (f": {self.step}" if self.step else "")


class _ProgressLine:
    """The line of nested tasks, which appears after a delay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nested: list[_ProgressTask] = []
        self._status: Any = None
        # A timer, because compiling is one long step that calls nothing here meanwhile.
        self._timer = threading.Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    @contextlib.contextmanager
    def work(self, what: str, total: int | None) -> Iterator[ProgressReporter]:
        work = _ProgressTask(what, total)
        self._nested.append(work)

        def step(name: str) -> None:
            work.begun, work.step = work.begun + 1, name
            self._update()

        self._update()
        try:
            yield step
        finally:
            self._nested.remove(work)
            self._update()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            if self._status is not None:
                self._status.stop()
                self._status = None

    def _show(self) -> None:
        try:
            from rich.console import Console
        except ImportError:
            return
        with self._lock:
            # The work may be done by now.
            if self._nested:
                self._status = Console(stderr=True).status(self._text())
                self._status.start()

    def _update(self) -> None:
        with self._lock:
            if self._status is not None and self._nested:
                self._status.update(self._text())

    def _text(self) -> str:
        from rich.markup import escape

        return escape("; ".join(map(str, self._nested)))
