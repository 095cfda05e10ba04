"""``--verify-diagnostics``: comments in the input say which diagnostics it must cause.

    // expected-error@+1 {{substring of the message}}
    // expected-error-re@below {{expected {{[0-9]+}} operands}}

The line is this one, or ``@+N``, ``@-N``, ``@above``, ``@below`` (the nearest line without such a
comment) or ``@unknown`` (a diagnostic without a line).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jaxmlir.errors import Diagnostic

_COMMENT = re.compile(
    r"expected-(error|note|remark|warning)(-re)? *(@([+-][0-9]+|above|below|unknown))? *{{(.*)}}$"
)
_UNKNOWN = 0


@dataclass(frozen=True)
class Expectation:
    """One diagnostic that must come.  ``line`` is 0 for one without a place."""

    severity: str
    line: int
    text: str
    is_regex: bool
    written_at: int

    def matches(self, d: Diagnostic) -> bool:
        if d.severity != self.severity or d.line != self.line:
            return False
        if self.is_regex:
            return re.search(_regex(self.text), d.message) is not None
        return self.text in d.message


def _regex(text: str) -> str:
    """Literal text in which ``{{...}}`` are regular expressions."""
    parts = re.split(r"{{(.*?)}}", text)
    return "".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts))


def read_expectations(text: str) -> list[Expectation]:
    """The expectations written in ``text``, in order."""
    lines = text.split("\n")
    found = [_COMMENT.search(line.rstrip()) for line in lines]
    marked = [match is not None for match in found]
    return [
        Expectation(match[1], _target(match[4], i, marked) + 1, match[5], bool(match[2]), i + 1)
        for i, match in enumerate(found)
        if match
    ]


def _target(where: str | None, index: int, marked: list[bool]) -> int:
    """The index of the line meant by ``@where`` in a comment on line ``index``."""
    if where is None:
        return index
    if where == "unknown":
        return _UNKNOWN - 1
    if where in ("above", "below"):
        step = 1 if where == "below" else -1
        index += step
        while 0 <= index < len(marked) and marked[index]:
            index += step
        return index
    return index + int(where)


def unmet(text: str, diagnostics: Iterable[Diagnostic], filename: str) -> list[Diagnostic]:
    """What is wrong: diagnostics that nobody expected, and expectations that nothing met.

    Errors, warnings and remarks must all be expected; notes may.  The note with which MLIR prints
    the operation does not count.
    """
    open_expectations = read_expectations(text)
    wrong = []
    for d in _flatten(diagnostics):
        if d.message.startswith("see current operation"):
            continue
        met = next((e for e in open_expectations if e.matches(d)), None)
        if met is not None:
            open_expectations.remove(met)
        elif d.severity != "note":
            message = f"unexpected {d.severity}: {d.message}"
            wrong.append(Diagnostic("error", message, d.file or filename, d.line, d.col))
    for e in open_expectations:
        column = text.split("\n")[e.written_at - 1].find("expected-") + 1
        message = f'expected {e.severity} "{e.text}" was not produced'
        wrong.append(Diagnostic("error", message, filename, e.written_at, column))
    return wrong


def _flatten(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for d in diagnostics:
        yield d
        yield from _flatten(d.notes)
