"""``jaxmlir-translate``: from and to the jaxpr dialect.

A Python function, or a module of StableHLO, becomes a module of the dialect. A module becomes
StableHLO, a printed jaxpr, or a page to explore it in a browser.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.cli import command_line
from jaxmlir.cli.command_line import CommandLine, Flag, UsageError
from jaxmlir.errors import JaxmlirError

if TYPE_CHECKING:
    from jaxmlir.program.program import Program

FLAGS = (
    command_line.HELP,
    command_line.VERSION,
    command_line.OUTPUT,
    Flag(
        "import-python",
        "Trace this Python function and write the module; takes no input file",
        "pkg.module:function",
    ),
    Flag(
        "args",
        "Positional arguments to trace with, e.g. 'f32[8,128], float, {\"w\": bf16[3]}'; literals "
        "are static",
        "arguments",
    ),
    Flag(
        "kwargs", "Keyword arguments to trace with, e.g. 'mask=bool[8], mode=\"fast\"'", "arguments"
    ),
    Flag(
        "stablehlo-to-jaxpr",
        "Raise a module of StableHLO (text, bytecode or a portable artifact) to the jaxpr dialect",
    ),
    Flag("to-stablehlo", "Lower the module to StableHLO"),
    Flag("platforms", "Lower for these platforms: cpu, cuda, rocm, tpu", "platform,..."),
    Flag("to-jaxpr", "Write the module as a jaxpr, as JAX prints it"),
    Flag("to-html", "Write an HTML page to explore the module: text, graphs, cost, memory"),
    Flag(
        "passes",
        "With --to-html: show what each pass of this pipeline, or of -O2, does",
        "pipeline",
    ),
    Flag("no-source-info", "With --to-html: leave out Python files, lines and their text"),
    Flag(
        "compile-for",
        "Compile for a target, such as tpu:v5e:2x2, and write the program's memory and time",
        "target",
    ),
    Flag("describe", "List what a file contains: signature, ops, constants, effects, sources ..."),
    command_line.EMIT_ARTIFACT,
    command_line.EFFECTS,
    Flag("emit-bytecode", "Write MLIR bytecode instead of text"),
    Flag("mlir-print-debuginfo", "Print locations"),
    command_line.ALLOW,
    command_line.LOAD,
    command_line.COLOR,
    command_line.COMPLETION,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit status is 1 if anything went wrong."""
    return command_line.run_tool("jaxmlir-translate", _main, argv)


def _main(argv: Sequence[str]) -> None:
    arguments = command_line.request("jaxmlir-translate", argv, FLAGS, _help)
    if arguments is None:
        return
    command_line.load_modules(arguments)
    filename = arguments.get("import-python") or command_line.display_path(
        command_line.single_input(arguments)
    )
    _check(arguments)
    with command_line.reporting(filename):
        if arguments.on("describe"):
            output = _describe(command_line.single_input(arguments))
        else:
            output = _output(_program(arguments), arguments)
        others = (*(name for name in _OUTPUTS if name != "to-stablehlo"), "emit-bytecode")
        is_mlir = not any(name in arguments.values for name in others)
        command_line.write_bytes(arguments, output, is_mlir=is_mlir)


def _help() -> str:
    return command_line.help_text(
        "translates between Python functions, the jaxpr dialect, StableHLO and jaxprs",
        "jaxmlir-translate --import-python=<pkg.module:function> --args=<arguments> [options]\n"
        "       jaxmlir-translate (--to-stablehlo | --stablehlo-to-jaxpr | --to-jaxpr |\n"
        "           --to-html | --describe | --emit-artifact | --compile-for=<target>) [options] "
        "[file]",
        FLAGS,
        {
            "EXAMPLES": "  jaxmlir-translate --import-python jax.nn:relu --args 'f32[8]'\n"
            "  jaxmlir-translate --import-python jax.numpy:sum --args 'f32[8,2]' --kwargs 'axis=1'"
            " | jaxmlir-translate --to-stablehlo --platforms=cpu,cuda\n"
            "  jaxmlir-translate --to-jaxpr program.mlir\n"
            "  jaxmlir-translate --stablehlo-to-jaxpr module.mlir | jaxmlir-opt --jaxpr-grad\n"
            "  jaxmlir-opt -O2 --target=tpu:v5e f.mlir | jaxmlir-translate --compile-for=tpu:v5e"
        },
    )


def _program(arguments: CommandLine) -> Program:
    target = arguments.get("import-python")
    if target is None:
        from jaxmlir.cli.module_io import read_program

        allowed = arguments.names(command_line.ALLOW.name)
        program = read_program(command_line.single_input(arguments), allowed)
        if arguments.on("stablehlo-to-jaxpr"):
            program = program.run_passes("builtin.module(jaxpr-raise-stablehlo)")
        program.verify()
        return program
    return _trace(target, arguments.get("args") or "", arguments.get("kwargs") or "")


def _trace(target: str, args: str, kwargs: str) -> Program:
    import jaxmlir
    from jaxmlir.cli import argspec

    f = _find_function(target)
    f, positional, keywords = argspec.split_static(
        f, argspec.parse_positional(args), argspec.parse_keywords(kwargs)
    )
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return jaxmlir.trace(f)(*positional, **keywords)
    except JaxmlirError:
        raise
    except (Exception, SystemExit) as e:
        # If the function was not even called, the message says everything.
        command_line.print_user_traceback(e)
        raise UsageError(
            f"tracing {target} with ({args}{', ' if args and kwargs else ''}{kwargs}) raised "
            f"{type(e).__name__}: {e}"
        ) from e


def _find_function(target: str) -> Callable[..., Any]:
    module, _, path = target.partition(":")
    if not (module and path):
        raise UsageError(f"--import-python expects pkg.module:function, got '{target}'")
    imported = command_line.import_here("import-python", module)
    try:
        resolved = operator.attrgetter(path)(imported)
    except AttributeError as e:
        raise UsageError(f"--import-python: cannot find '{target}': {e}") from e
    if not callable(resolved):
        raise UsageError(f"--import-python: expected a function '{target}', got {resolved!r}")
    return resolved


# The possible outputs; without any of these, the module is written.
_OUTPUTS = ("to-stablehlo", "to-jaxpr", "to-html", "emit-artifact", "compile-for", "describe")
_EXCLUSIVE = (
    *itertools.combinations(_OUTPUTS, 2),
    *((name, "emit-bytecode") for name in _OUTPUTS if name != "to-stablehlo"),
    *((name, "import-python") for name in ("describe", "stablehlo-to-jaxpr")),
)
# The flag without which each of these says nothing.
_GOES_WITH = {
    "platforms": "to-stablehlo",
    "passes": "to-html",
    "no-source-info": "to-html",
    "args": "import-python",
    "kwargs": "import-python",
}


def _check(arguments: CommandLine) -> None:
    """Rejects flags that do not go together, before any work is done."""
    given = {name for name in arguments.values if arguments.get(name) != "false"}
    for first, second in _EXCLUSIVE:
        if {first, second} <= given:
            raise UsageError(f"--{first} and --{second} exclude each other")
    for name, other in _GOES_WITH.items():
        if name in arguments.values and other not in given:
            raise UsageError(f"--{name} requires --{other}")
    if platforms := _platforms(arguments):
        from jaxmlir.support.options import check_platforms

        check_platforms(platforms)
    if "import-python" in given:
        if arguments.positional:
            raise command_line.surplus(arguments, "--import-python takes no input file")
    elif given.isdisjoint((*_OUTPUTS, "stablehlo-to-jaxpr")):
        others = ", ".join(f"--{name}" for name in ("stablehlo-to-jaxpr", *_OUTPUTS[:-1]))
        raise UsageError(f"nothing to do: give --import-python, {others} or --{_OUTPUTS[-1]}")


def _describe(path: str) -> bytes:
    from jaxmlir.artifact import description
    from jaxmlir.cli.module_io import is_artifact, read_module

    data = command_line.read_bytes(path)
    name = command_line.display_path(path)
    if not data.strip():
        raise UsageError(f"{name} is empty: writing it was interrupted, or has not ended")
    module = None if is_artifact(data) else read_module(path, data)[0]
    report = description.describe(memoryview(data), name, module)
    # The name of a file may have bytes that are not Unicode.
    return f"{report}\n".encode(errors="surrogateescape")


def _output(program: Program, arguments: CommandLine) -> bytes:
    from jaxmlir.cli.module_io import serialized, whole_module

    if arguments.on("emit-artifact"):
        return command_line.artifact_of(program, arguments)
    if arguments.on("to-html"):
        from jaxmlir.viewer.page import page_of

        source_info = not arguments.on("no-source-info")
        return page_of(program, arguments.get("passes"), source_info=source_info).encode()
    if (target := arguments.get("compile-for")) is not None:
        from jaxmlir.program.ahead_of_time import aot

        return f"{aot(program, target)}\n".encode()
    if arguments.on("to-jaxpr"):
        from jaxmlir.lowering.lowering import MAKE_PRIVATE

        program.chosen("", how=MAKE_PRIVATE)
        return f"{program.to_jaxpr()}\n".encode()
    if arguments.on("to-stablehlo"):
        platforms = ",".join(_platforms(arguments))
        options = f"{{platforms={platforms}}}" if platforms else ""
        program = program.run_passes(f"builtin.module(jaxpr-legalize-to-stablehlo{options})")
    return serialized(
        whole_module(program),
        bytecode=arguments.on("emit-bytecode"),
        enable_debug_info=arguments.on("mlir-print-debuginfo"),
    )


def _platforms(arguments: CommandLine) -> list[str]:
    """The platforms that ``--platforms`` lists; an empty list means JAX's default."""
    text = arguments.get("platforms") or ""
    return [name.strip() for name in text.split(",")] if text.strip() else []


if __name__ == "__main__":
    sys.exit(main())
