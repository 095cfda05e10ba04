"""Command lines in the manner of LLVM's tools, shared by ``jaxmlir-opt``, ``-translate``, ``-run``.

``-flag`` and ``--flag`` are the same; a value follows ``=`` or is the next word. Flags that are not
in a tool's table are returned in order: ``jaxmlir-opt`` takes them as passes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import IO, Any, TextIO

from jaxmlir.dialect.ir import unknown_nodes
from jaxmlir.errors import Diagnostic, DiagnosticError, JaxmlirError, nearest
from jaxmlir.support.files import PACKAGE, source_line

# How a note of JAX about tracebacks begins; these are not shown.
_JAXS_NOTE = "--------------------\nFor simplicity, JAX"

_HERE = os.path.join(PACKAGE, "")
_IMPORTLIB = os.path.join(os.path.dirname(importlib.__file__), "")

# The largest integer that MLIR and JAX accept.
MAX_INTEGER = 2**63 - 1


class UsageError(JaxmlirError):
    """The command line is wrong, or a file that it names cannot be read or written."""


@dataclass(frozen=True)
class Flag:
    """One flag of a tool.

    Attributes:
      name: without dashes.
      help: one line or a few.
      metavar: what its value is; empty for a switch, which takes ``=0`` and ``=false`` too.
      optional: the value may be left out, and then can only follow ``=``.
      repeats: it may be given more than once; of others with a value that is an error, as in LLVM.
      is_choice: its value is one of those in ``metavar``.
    """

    name: str
    help: str
    metavar: str = ""
    optional: bool = False
    repeats: bool = False
    is_choice: bool = False

    def __str__(self) -> str:
        if len(self.name) == 1:
            return f"{dashed(self.name)} <{self.metavar}>"
        value = f"=<{self.metavar}>" if self.metavar else ""
        return dashed(self.name) + (f"[{value}]" if self.optional else value)


Choice = functools.partial(Flag, is_choice=True)
"""A flag whose value is one of those in its ``metavar``."""

LOAD = Flag(
    "load", "Import this Python module first, for its primitives and passes", "module", repeats=True
)
ALLOW = Flag(
    "allow-custom-calls",
    "Allow these FFI targets, and ops such as pallas_call, in an artifact",
    "name,...",
    repeats=True,
)
EMIT_ARTIFACT = Flag(
    "emit-artifact",
    "Write an artifact: one file with the module and its constants, and the paths of its sources",
)
EFFECTS = Choice(
    "effects",
    "With --emit-artifact: drop debug callbacks, run-time checks and prints; drop all but the "
    "prints; or fail if there are any (default)",
    "drop|keep-print|error",
)
HELP = Flag("help", "Print this help and exit")
VERSION = Flag("version", "Print the versions of jaxmlir, JAX and jaxlib, and exit")
COLOR = Flag(
    "color",
    "Colour diagnostics, and MLIR text on a terminal (default: on a terminal, unless NO_COLOR is "
    "set)",
)
COMPLETION = Choice(
    "completion", "Print a script that makes the shell complete command lines", "bash|zsh"
)
OUTPUT = Flag("o", "Write the output to this file; '-', the default, is stdout", "filename")


@dataclass
class CommandLine:
    """What was on the command line.

    Attributes:
      values: the values of each flag that was given, in order; a switch has ``"true"``/``"false"``.
      positional: the other words.
      unknown: flags that are not in the table, in order, with the value after ``=`` if any.
    """

    values: dict[str, list[str]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    unknown: list[tuple[str, str | None]] = field(default_factory=list)

    def on(self, name: str, default: bool = False) -> bool:
        """Whether a switch is on."""
        return self.values[name][-1] == "true" if name in self.values else default

    def get(self, name: str) -> str | None:
        return self.values[name][-1] if name in self.values else None

    def names(self, name: str) -> frozenset[str]:
        """The values of a flag that takes comma-separated names."""
        listed = (text.split(",") for text in self.values.get(name, ()))
        return frozenset(part.strip() for parts in listed for part in parts)

    def integer(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"--{name} expects an integer, got '{text}'") from None
        if not 0 <= value <= MAX_INTEGER:
            limit = "of at least 0" if value < 0 else f"up to {MAX_INTEGER}"
            raise UsageError(f"--{name} expects an integer {limit}, got '{text}'")
        return value


def artifact_of(program: Any, arguments: CommandLine) -> bytes:
    """The program as an artifact, with the effects that the flag :data:`EFFECTS` asks for."""
    from jaxmlir.artifact.saving import pieces

    effects = arguments.get(EFFECTS.name) or "error"
    return b"".join(pieces(program, effects=effects))


def parse_arguments(argv: Sequence[str], flags: Iterable[Flag]) -> CommandLine:
    """Sorts a command line into flags, positional words and unknown flags.

    Raises:
      UsageError: a value is missing, superfluous, given twice, or not one of the choices.
    """
    table = {flag.name: flag for flag in flags}
    arguments = CommandLine()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            arguments.positional += words
            break
        if word == "-" or not word.startswith("-"):
            arguments.positional.append(word)
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        flag_value = value if has_value else None
        name = {"h": "help", "help-hidden": "help"}.get(name, name)
        if name not in table:
            arguments.unknown.append((name, flag_value))
            continue
        flag = table[name]
        if flag_value is None and flag.metavar and not flag.optional:
            if not words:
                raise UsageError(f"{dashed(name)} needs a value: {flag}")
            flag_value = words.pop(0)
        if flag.metavar and not flag.repeats and name in arguments.values:
            raise UsageError(f"{dashed(name)} may be given only once")
        text = (flag_value or "") if flag.metavar else _truth(name, flag_value)
        if flag.is_choice and text not in flag.metavar.split("|"):
            raise UsageError(f"{dashed(name)} expects {flag.metavar}, got '{text}'")
        arguments.values.setdefault(name, []).append(text)
    if COLOR.name in arguments.values:
        _wants_color.set(arguments.on(COLOR.name))
    return arguments


def _truth(name: str, text: str | None) -> str:
    if text in (None, "1", "true", "TRUE", "True"):
        return "true"
    if text in ("0", "false", "FALSE", "False"):
        return "false"
    raise UsageError(f"--{name} is a switch: expected 0, 1, true or false, got '{text}'")


def unknown_flag(name: str, known: Iterable[str]) -> UsageError:
    return unknown_name(f"unknown command line argument '{dashed(name)}'", name, known, "--")


def dashed(name: str) -> str:
    """A flag as it is written: a single letter has one dash."""
    return f"-{name}" if len(name) == 1 else f"--{name}"


def unknown_name(message: str, name: str, known: Iterable[str], prefix: str = "") -> UsageError:
    """An error that also suggests the nearest known name, after ``prefix``."""
    meant = nearest(name, known)
    hint = f"did you mean '{prefix}{meant}'?" if meant else "see --help"
    return UsageError(f"{message}; {hint}")


def help_text(
    overview: str, usage: str, flags: Iterable[Flag], sections: Mapping[str, str] | None = None
) -> str:
    """The text of ``--help``."""
    out = [f"OVERVIEW: {overview}", "", f"USAGE: {usage}", "", "OPTIONS:", ""]
    out += [entry(str(flag), flag.help) for flag in flags]
    for title, body in (sections or {}).items():
        out += ["", f"{title}:", "", body]
    return "\n".join(out)


def entry(name: str, text: str, width: int = 34) -> str:
    """A line ``name - text``, wrapped."""
    return textwrap.fill(
        f"  {name:<{width}} - {text}",
        100,
        subsequent_indent=" " * (width + 5),
        break_long_words=False,
        break_on_hyphens=False,
    )


def version_text(tool: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "(not installed as a package)"

    return f"{tool}: jaxmlir {of('jaxmlir')}, jax {of('jax')}, jaxlib {of('jaxlib')}"


_COMPLETION = """\
_{function}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}}
    local words="{words}"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    case $cur in -*) ;; *) COMPREPLY+=($(compgen -f -- "$cur")) ;; esac
    case ${{COMPREPLY[0]}} in *=) compopt -o nospace 2> /dev/null ;; esac
}}
complete -o filenames -F _{function} {tool}
"""


def request(
    tool: str, argv: Sequence[str], flags: Sequence[Flag], help_: Callable[[], str]
) -> CommandLine | None:
    """The command line of a tool that has only these flags; ``None`` if it asked for the help or
    the like, which is printed.

    Raises:
      UsageError: a flag is unknown, or is used wrongly.
    """
    arguments = parse_arguments(argv, flags)
    for name, _ in arguments.unknown:
        raise unknown_flag(name, [flag.name for flag in flags])
    return None if answered(arguments, tool, help_, lambda: map(str, flags)) else arguments


def answered(
    arguments: CommandLine, tool: str, help_: Callable[[], str], words: Callable[[], Iterable[str]]
) -> bool:
    """Prints the version, the help or a completion script (for ``eval``) of the flags, which
    ``words`` returns, if the command line asks for it; returns whether it does."""
    if arguments.on("version"):
        print(version_text(tool))
    elif arguments.on("help"):
        print(help_())
    elif shell := arguments.get(COMPLETION.name):
        # zsh runs the functions of bash.
        if shell == "zsh":
            print("autoload -U +X bashcompinit && bashcompinit")
        plain = (word.partition("[")[0].partition("<")[0].strip() for word in words())
        function = tool.replace("-", "_")
        print(_COMPLETION.format(function=function, tool=tool, words=" ".join(plain)))
    else:
        return False
    return True


def run_tool(
    tool: str, body: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None
) -> int:
    """Runs a tool's body; prints an error that the body does not report itself, with status 1.
    After Ctrl-C, the status is the one that a shell gives a command that it ended."""
    before, colored = unknown_nodes.set(True), _wants_color.set(None)
    if sys.stderr is None:
        # It is closed, and `print` would write to stdout.
        sys.stderr = io.StringIO()
    try:
        status = body(sys.argv[1:] if argv is None else argv) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except _Reported:
        pass
    except OSError as e:
        _give_up_stdout()
        if not isinstance(e, BrokenPipeError):
            print(f"{tool}: {e.strerror or e}", file=sys.stderr)
    except JaxmlirError as e:
        # Diagnostics, and errors in the text of a pipeline, begin with a location.
        located = isinstance(e, DiagnosticError) or str(e).startswith("<")
        print(e if located else f"{tool}: {e}", file=sys.stderr)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        unknown_nodes.reset(before)
        _wants_color.reset(colored)
    return 1


def _give_up_stdout() -> None:
    """Discards stdout, which cannot be written or has no reader: Python would try at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Reported(Exception):
    """An error whose diagnostics were printed."""


@contextlib.contextmanager
def reporting(filename: str) -> Iterator[None]:
    """Has the tool end with the status 1 at an error about ``filename``, whose diagnostics are
    printed."""
    try:
        yield
    except DiagnosticError as e:
        print_diagnostics(diagnostics_from(e, filename), filename)
        raise _Reported from None


def load_modules(arguments: CommandLine) -> None:
    """Imports the modules of ``--load``, which may be in the current directory."""
    for name in arguments.values.get("load", ()):
        import_here("load", name)


def import_here(flag: str, name: str) -> ModuleType:
    """Imports the module that a flag names, as ``python -m`` does: the current directory counts.  A
    usage error if it cannot be imported; if its own code failed, the traceback is printed."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"--{flag} expects the name of a module, such as pkg.module, got '{name}'")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        # What a module prints on import is not part of the output.
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    # A script may exit when it is imported; the tool must not end as if it had succeeded.
    except (Exception, SystemExit) as e:
        absent = isinstance(e, ModuleNotFoundError) and f"{name}.".startswith(f"{e.name}.")
        if not absent:
            print_user_traceback(e)
        hint = f"; the module's name is '{name[:-3]}'" if absent and name.endswith(".py") else ""
        message = f"--{flag}: cannot import '{name}': {type(e).__name__}: {e}{hint}"
        raise UsageError(message) from None


def print_user_traceback(error: BaseException) -> None:
    """Prints a traceback from the user's first frame on; nothing if no frame is a user's."""
    users = error.__traceback__
    while users is not None and _is_ours(users):
        users = users.tb_next
    if users is not None or isinstance(error, SyntaxError):
        traceback.print_exception(error.with_traceback(users))


def _is_ours(entry: TracebackType) -> bool:
    """Whether the code of a frame belongs to the tools, or to Python's import system."""
    file = entry.tb_frame.f_code.co_filename
    return file.startswith((_HERE, _IMPORTLIB, "<frozen importlib"))


def read_bytes(path: str) -> bytes:
    """The contents of a file, or of stdin if the path is ``-``."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise UsageError("cannot read stdin: it is closed; give the name of a file")
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:
        raise UsageError(f"cannot open input file '{path}': {e.strerror}") from None


def write_bytes(arguments: CommandLine, data: bytes, *, is_mlir: bool = False) -> None:
    """Writes the file of ``-o``, or stdout if that is ``-`` or not given.  MLIR text is coloured on
    a terminal, not in files and pipes."""
    path = arguments.get("o")
    if path is None or path == "-":
        if sys.stdout is None:
            raise UsageError("cannot write to stdout: it is closed; name a file with -o")
        if is_mlir and sys.stdout.isatty() and _is_colored(sys.stdout):
            data = highlighted(data.decode()).encode()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with output_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def output_file(path: str) -> Iterator[IO[bytes]]:
    """A file to write to; it is removed if writing fails or is interrupted, as in LLVM's tools."""
    try:
        file = open(path, "wb")
    except OSError as e:
        raise UsageError(f"cannot open output file '{path}': {e.strerror}") from None
    try:
        with file:
            yield file
    except BaseException as e:
        # A device or a pipe stays.
        if os.path.isfile(path):
            os.unlink(path)
        if isinstance(e, OSError):
            raise UsageError(f"cannot write output file '{path}': {e.strerror}") from None
        raise


def display_path(path: str) -> str:
    """The name of an input in diagnostics."""
    return "<stdin>" if path == "-" else path


def single_input(arguments: CommandLine) -> str:
    """The one input file, stdin by default."""
    if len(arguments.positional) > 1:
        raise surplus(arguments, "expected one input file")
    return arguments.positional[0] if arguments.positional else "-"


def surplus(arguments: CommandLine, expected: str) -> UsageError:
    """An error about surplus input files, which may have been meant for a flag."""
    args = arguments.get("args")
    hint = "" if args is None else f"; --args takes one word, in quotes: --args '{args}, ...'"
    return UsageError(f"{expected}, got {' '.join(arguments.positional)}{hint}")


def diagnostics_from(error: JaxmlirError, filename: str) -> list[Diagnostic]:
    """An error as diagnostics about ``filename``, with its notes, e.g. which pass raised it."""
    if isinstance(error, DiagnosticError):
        diagnostics = [d.placed(filename) for d in error.diagnostics]
    else:
        diagnostics = [Diagnostic("error", str(error), filename)]
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith(_JAXS_NOTE)]
    if notes and diagnostics:
        extra = tuple(Diagnostic("note", note, filename) for note in notes)
        diagnostics[-1] = diagnostics[-1]._replace(notes=diagnostics[-1].notes + extra)
    return diagnostics


def print_diagnostics(
    diagnostics: Iterable[Diagnostic], filename: str, text: str | None = None
) -> None:
    """Prints ``file:line:col: error: message``, the source line and a caret, as mlir-opt does.

    Args:
      text: the contents of ``filename``; by default, lines are read from the file.
    """
    lines = text.split("\n") if text is not None else []
    is_colored = _is_colored(sys.stderr)

    def painted(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if is_colored else text

    for d in diagnostics:
        place = ""
        for message in (d, *flattened(d.notes)):
            before, place = place, _place(message)
            severity = painted(f"{message.severity}:", _COLORS.get(message.severity, "1"))
            print(painted(f"{place}:", "1"), severity, message.message, file=sys.stderr)
            # A note about the same place does not show the line again.
            if place != before and (line := _source_line(message, filename, lines)):
                # Tabs stay, since their width is unknown.
                blanks = re.sub(r"[^\t]", " ", line[: max(message.col - 1, 0)])
                print(f"{line}\n{blanks}{painted('^', '1;32')}", file=sys.stderr)


# The colours of LLVM's tools.
_COLORS = {"error": "1;31", "warning": "1;35", "remark": "1;34", "note": "1;30"}
_wants_color: ContextVar[bool | None] = ContextVar("color", default=None)


def _is_colored(stream: TextIO) -> bool:
    choice = _wants_color.get()
    if choice is not None:
        return choice
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal and not os.environ.get("NO_COLOR")


def flattened(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Diagnostics and their notes, each note after the diagnostic that it belongs to."""
    for d in diagnostics:
        yield d
        yield from flattened(d.notes)


def _place(d: Diagnostic) -> str:
    return f"{d.file}:{d.line}:{d.col}" if d.line else d.file


def _source_line(d: Diagnostic, filename: str, lines: list[str]) -> str:
    if d.file == filename and lines:
        return lines[d.line - 1] if 0 < d.line <= len(lines) else ""
    return source_line(d.file, d.line)


# ANSI's codes: each is a terminal's own shade, on light and on dark.
_CODES = {"quiet": "2", "value": "33", "symbol": "36", "string": "32", "type": "2", "name": "1"}
_TOKEN = re.compile(
    r"""
      (?P<quiet> //.* | ^\#loc.* | \ loc\([^()]*\) )
    | (?P<name> (?: ^\s* | (?<=\ =\ ) ) (?: "[\w.$]+"(?=\() | [a-z_][\w.$]* ) )
    | (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<value> %[\w.$-]+ (?:[#:]\d+)? )
    | (?P<symbol> @[\w.$-]+ )
    | (?P<type> \b(?:tensor|vector|memref|tuple)<[^<>\n]*> | ![\w.]+(?:<[^<>\n]*>)? )
    """,
    re.VERBOSE | re.MULTILINE,
)


def highlighted(text: str) -> str:
    """The text with the codes that colour it on a terminal; it is not changed otherwise."""

    def painted(match: re.Match[str]) -> str:
        kind = match.lastgroup
        assert kind is not None
        return f"\x1b[{_CODES[kind]}m{match[0]}\x1b[0m"

    return _TOKEN.sub(painted, text)
