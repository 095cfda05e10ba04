"""The exceptions of jaxmlir.

Every error is a paragraph: the op, its MLIR location, the user's Python line, what was expected and
what was found.  All derive from :class:`JaxmlirError`; those that point into a module carry
``diagnostics``, which ``jaxmlir-opt`` prints as ``file:line:col: error: message``.
"""

from __future__ import annotations

import contextlib
import copyreg
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar


class Diagnostic(NamedTuple):
    """One message about one place.  ``line`` and ``col`` count from 1; 0 means unknown."""

    severity: str
    message: str
    file: str = ""
    line: int = 0
    col: int = 0
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.col}: " if self.line else ""
        text = f"{where}{self.severity}: {self.message}"
        return "\n".join([text, *(str(note) for note in self.notes)])

    def placed(self, filename: str) -> Diagnostic:
        """The diagnostic and its notes with a file name in place of MLIR's ``-`` for parsed
        strings. Without line and column, a diagnostic is about the whole file."""
        file = filename if self.file in ("", "-") else self.file
        return self._replace(file=file, notes=tuple(n.placed(filename) for n in self.notes))


class JaxmlirError(Exception):
    """Base of all errors that jaxmlir raises on purpose."""


class DiagnosticError(JaxmlirError):
    """An error about places in a module."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | str):
        if isinstance(diagnostics, str):
            diagnostics = (Diagnostic("error", diagnostics),)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))

    def __reduce__(self) -> Any:
        # Not by `__init__`, which would make a diagnostic of the text of all.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)


def message_of(error: Exception) -> str:
    """The message of an error without its place, for an error about another place."""
    if isinstance(error, DiagnosticError):
        return "\n".join(d.message for d in error.diagnostics)
    return str(error)


def count(n: int, what: str) -> str:
    """``1 operand``, ``2 operands``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


# With more comparisons of letters, the search takes longer than anybody waits.
_MAX_COMPARISONS = 4_000_000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely meant: one with an added prefix (``jaxpr-dce`` for
    ``dce``), or one of the nearest names, preferably with the same letters.

    Returns ``None`` without searching if the known names are very many or very long.
    """
    known = list(known)
    if len(name) * sum(map(len, known)) > _MAX_COMPARISONS:
        return None
    prefixed = [match for match in known if match.endswith(f"-{name}")]
    matches = prefixed or difflib.get_close_matches(name, known)
    same = (match for match in matches if sorted(match) == sorted(name))
    return next(same, matches[0] if matches else None)


_Kind = TypeVar("_Kind", bound=DiagnosticError)


def at_op(
    kind: type[_Kind], error: Exception, name: str, position: tuple[str, int, int], what: str = "op"
) -> _Kind:
    """Converts an error to this kind, about an op; an error of this kind with a place stays.

    Args:
      name: the name of the op.
      position: the user's file, line and column.
      what: follows the op's name if the message does not begin with it.
    """
    if isinstance(error, kind) and error.diagnostics[0].line:
        return error
    message = message_of(error)
    if not message.startswith(f"'{name}'"):
        message = f"'{name}' {what}: {message}"
    return kind([Diagnostic("error", message, *position)])


class ParseError(DiagnosticError):
    """The text or bytecode is not an MLIR module."""


class VerificationError(DiagnosticError):
    """The module is MLIR, but not a valid program of the jaxpr dialect."""


class ImportingError(DiagnosticError):
    """A jaxpr cannot be written in the dialect."""


class ExportError(DiagnosticError):
    """A program cannot be turned back into a jaxpr of the installed JAX."""


class UntracedRuleError(ExportError):
    """A custom derivative rule is needed that could not be traced.

    Attributes:
      reason: why it could not; ``None`` for a rule that the program lacks.
    """

    def __init__(self, rule: str, reason: str | None):
        said = "is absent" if reason is None else f"could not be traced: {reason}"
        super().__init__(f"the custom derivative rule '{rule}' {said}")
        self.reason = reason


class LoweringError(DiagnosticError):
    """A program cannot be lowered to StableHLO."""


class TransformError(DiagnosticError):
    """An op cannot be differentiated, transposed, batched or inverted."""


class EvaluationError(DiagnosticError):
    """An op cannot be evaluated."""


class ForwardModeError(LoweringError, EvaluationError, TransformError, TypeError):
    """A function with a custom VJP rule is differentiated in forward mode: a ``TypeError``, as in
    JAX."""


def cause_of(located: BaseException, error: BaseException) -> BaseException | None:
    """The cause to raise ``located`` from; ``located`` is ``error`` with a place added.

    If ``error`` already had a place, the two are the same object, which must not become its own
    cause: JAX follows the causes of an error, and would not end on a cycle.
    """
    return error.__cause__ if located is error else error


TOO_DEEP = (
    "functions call one another deeper than Python's recursion limit allows; the pass jaxpr-inline "
    "moves functions that are called once into their callers"
)


@contextlib.contextmanager
def deep_calls_as(kind: type[DiagnosticError]) -> Iterator[None]:
    """Raises an error of this kind for functions that call one another too deeply."""
    try:
        yield
    except RecursionError:
        raise kind(TOO_DEEP) from None


class PipelineError(JaxmlirError):
    """A pass pipeline is malformed, or names an unknown pass or option."""


class PassError(DiagnosticError):
    """A pass failed on a module."""


class ArgumentError(JaxmlirError, TypeError):
    """A call's arguments have the wrong pytree, shape, dtype or kind, or are out of range."""


class CompilerError(JaxmlirError):
    """The compiler of a target is not installed; the message says how to install it."""


class ArtifactError(DiagnosticError):
    """A file is not an artifact that can be loaded, or a program cannot be saved as one."""


__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CompilerError",
    "Diagnostic",
    "DiagnosticError",
    "EvaluationError",
    "ExportError",
    "ForwardModeError",
    "ImportingError",
    "JaxmlirError",
    "LoweringError",
    "ParseError",
    "PassError",
    "PipelineError",
    "TransformError",
    "VerificationError",
]
