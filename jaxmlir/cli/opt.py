"""``jaxmlir-opt``: read a module, run passes on it, print it; mlir-opt for the jaxpr dialect.

JAX is imported only if its rules are needed: ``--version``, ``--help``, ``--list-passes``, parsing,
printing and MLIR's own passes do without.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jaxmlir.cli import command_line
from jaxmlir.cli.command_line import Choice, CommandLine, Flag, UsageError
from jaxmlir.dialect.ir import (
    DIALECT,
    context,
    diagnostic_of,
    file_line_col,
    inner_ops,
    module_bytecode,
    module_text,
    parse_module,
    verify_module,
)
from jaxmlir.errors import Diagnostic, JaxmlirError, PassError, VerificationError

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from jaxmlir.debug.remark_report import RemarkReport
    from jaxmlir.passes import Pipeline
    from jaxmlir.passes.remarks import Sink
    from jaxmlir.program.program import Program

_ACTIONS = "MLIR's Python bindings do not offer actions, and Python passes are not actions"
_PLUGIN = "jaxlib's MLIR is built without C++ plugins; `--load` imports Python modules"
_REMARKS = "it is for the remark files of C++ passes; `--remarks` prints jaxmlir's remarks"
_COUNTERS = "counters are in MLIR's debug builds only"
REFUSED = {
    "elide-resource-data-from-bytecode": "the bytecode would be incomplete",
    "irdl-file": "ops of unregistered dialects are accepted as they are",
    "load-dialect-plugin": _PLUGIN,
    "load-pass-plugin": _PLUGIN,
    "mlir-diagnostic-verbosity-level": "the bindings do not offer it",
    "mlir-print-elementsattrs-with-hex-if-larger": "the bindings do not offer it; large constants "
    "are resources, which are printed in hexadecimal",
    "mlir-print-op-on-diagnostic": "the source line is printed, with a caret",
    "mlir-print-unique-ssa-ids": "the bindings do not offer it",
    "mlir-print-value-users": "the bindings do not offer it",
    "mlir-very-unsafe-disable-verifier-on-parsing": "`--verify=none` skips the "
    "verification of jaxpr ops; MLIR's own is quick, and always on",
}
NOT_APPLICABLE = {
    "log-actions-to": _ACTIONS,
    "log-mlir-actions-filter": _ACTIONS,
    "mlir-debug-counter": _COUNTERS,
    "mlir-enable-debugger-hook": _ACTIONS,
    "mlir-print-debug-counter": _COUNTERS,
    "profile-actions-to": _ACTIONS,
    **dict.fromkeys(("remark-format", "remark-policy", "remarks-output-file"), _REMARKS),
    **dict.fromkeys(("remarks-filter", "remarks-filter-analyse"), _REMARKS),
    **{f"remarks-filter-{kind}": _REMARKS for kind in ("failed", "missed", "passed")},
}

_SEPARATOR = "// -----"

FLAGS = (
    command_line.HELP,
    command_line.VERSION,
    command_line.OUTPUT,
    Flag(
        "pass-pipeline",
        "Run this pipeline, e.g. 'builtin.module(jaxpr-verify,func.func(cse))'",
        "pipeline",
    ),
    Flag(
        "disable-pass",
        "Leave these passes out of the levels -O1 and -O2, which are given like passes",
        "pass,...",
        repeats=True,
    ),
    Flag(
        "target",
        "What the program is optimized for: cpu, cuda:h100, tpu:v5e ... (default: cpu)",
        "target",
    ),
    Flag("dump-pass-pipeline", "Print to stderr the pipeline that will be run"),
    Flag("verify-each", "Verify the program after each pass (default: on)"),
    Choice("verify", "Do not verify the input's jaxpr ops, which would import JAX", "none"),
    Flag(
        "split-input-file",
        f"Process the pieces between '{_SEPARATOR}' lines, or between the given marker, one by one",
        "marker",
        optional=True,
    ),
    Flag(
        "output-split-marker",
        f"Write this between the pieces of a split input instead of '{_SEPARATOR}'",
        "marker",
    ),
    Flag("verify-roundtrip", "Check that the input, printed and parsed again, prints the same"),
    Flag("no-implicit-module", "Expect the input to be one builtin.module op"),
    Flag("verify-diagnostics", "Check that diagnostics match the expected-* comments of the input"),
    command_line.ALLOW,
    command_line.LOAD,
    Flag("list-passes", "List the passes and exit"),
    Flag("show-dialects", "List the registered dialects and exit"),
    Flag("emit-bytecode", "Write MLIR bytecode instead of text"),
    Flag("emit-bytecode-version", "Write this version of the bytecode", "uint"),
    command_line.EMIT_ARTIFACT,
    command_line.EFFECTS,
    Flag("mlir-print-debuginfo", "Print locations"),
    Flag("mlir-pretty-debuginfo", "Print locations in a readable form"),
    Flag("mlir-use-nameloc-as-prefix", "Name values after the names in their locations"),
    Flag("mlir-print-skip-regions", "Leave out the regions of ops"),
    Flag("mlir-print-op-generic", "Print all operations in the generic form"),
    Flag("mlir-print-local-scope", "Print types, attributes and locations without aliases"),
    Flag(
        "mlir-elide-elementsattrs-if-larger", "Elide constants of more elements than this", "uint"
    ),
    Flag(
        "mlir-elide-resource-strings-if-larger",
        "Elide resources of more characters than this",
        "uint",
    ),
    Flag("mlir-print-ir-before", "Print the module before these passes", "pass,...", repeats=True),
    Flag("mlir-print-ir-before-all", "Print the module before every pass"),
    Flag("mlir-print-ir-after", "Print the module after these passes", "pass,...", repeats=True),
    Flag("mlir-print-ir-after-all", "Print the module after every pass"),
    Flag("mlir-print-ir-after-change", "Print the module after a pass only if it changed"),
    Flag("mlir-print-ir-after-failure", "Print the module only after a pass that failed"),
    Flag("mlir-print-ir-module-scope", "Without effect: the whole module is always printed"),
    Flag("mlir-print-ir-tree-dir", "Print the IR to files in this folder", "folder"),
    Flag(
        "remarks",
        "Print what passes did and where, grouped by kind, the costliest ops first; with 'all', "
        "every remark; with a regex, every remark of the passes whose name matches",
        "all|regex",
        optional=True,
    ),
    Flag("mlir-timing", "Print how long each pass took"),
    Choice(
        "mlir-timing-display",
        "Show times in order of the passes, or the longest first",
        "tree|list",
    ),
    Choice("mlir-output-format", "Write the times in this format", "text|json"),
    Flag("mlir-pass-statistics", "Print how many ops each pass added and removed"),
    Choice(
        "mlir-pass-statistics-display",
        "Show statistics in order of the passes, or by name",
        "pipeline|list",
    ),
    Flag(
        "mlir-pass-pipeline-crash-reproducer",
        "If a pass fails, write the module and the pipeline to this file, a reproducer",
        "filename",
    ),
    Flag(
        "mlir-pass-pipeline-local-reproducer",
        "Write only the pass that failed and the module before it to the reproducer",
    ),
    Flag("mlir-generate-reproducer", "Write a reproducer even if no pass fails", "filename"),
    Flag("run-reproducer", "Run the pipeline that is in the input, a reproducer"),
    Flag("mlir-disable-diagnostic-notes", "Print diagnostics without their notes"),
    Flag("mlir-print-stacktrace-on-diagnostic", "Print the Python traceback of an error"),
    Flag("mlir-disable-threading", "Without effect: MLIR always runs in one thread"),
    command_line.COLOR,
    command_line.COMPLETION,
    Flag("allow-unregistered-dialect", "Without effect: unregistered dialects are always allowed"),
)

_DUMPS = tuple(
    f"mlir-print-ir-{when}" for when in "before before-all after after-all after-failure".split()
)

_DIALECTS = """
    arith builtin cf chlo complex func gpu linalg llvm math memref mhlo mpmd nvgpu nvvm quant
    scf sdy shape sparse_tensor stablehlo tensor ub vector vhlo
""".split()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit status is 1 if anything went wrong."""
    return command_line.run_tool("jaxmlir-opt", _main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = command_line.parse_arguments(argv, FLAGS)
    command_line.load_modules(arguments)
    for name, text in (("list-passes", _pass_list), ("show-dialects", _dialects)):
        if arguments.on(name):
            print(text())
            return 0
    if command_line.answered(arguments, "jaxmlir-opt", _help, _words):
        return 0
    pipeline = _pipeline(arguments)
    if arguments.on("dump-pass-pipeline"):
        print(f"Pass Manager with {len(pipeline.passes)} passes:\n{pipeline}", file=sys.stderr)
    path = command_line.single_input(arguments)
    return _Driver(arguments, pipeline, path).run(command_line.read_bytes(path))


def _help() -> str:
    return command_line.help_text(
        "runs passes on a module of the jaxpr dialect, as mlir-opt does on others",
        "jaxmlir-opt [options] [passes] [file]    (stdin where there is no file, or it is '-')",
        FLAGS,
        {
            "PASSES": _pass_list(),
            "EXAMPLES": "  jaxmlir-opt --jaxpr-verify program.mlir\n"
            "  jaxmlir-opt --jaxpr-grad -O1 --remarks program.mlir\n"
            "  jaxmlir-opt --inline='default-pipeline=cse' --cse program.mlir -o out.mlir\n"
            "  jaxmlir-opt --pass-pipeline='builtin.module(jaxpr-verify,func.func(cse))'",
        },
    )


def _words() -> list[str]:
    """The words that may appear on the command line."""
    return [str(flag) for flag in FLAGS] + [f"--{name}" for name in sorted(_pass_names())]


def _pass_names() -> list[str]:
    from jaxmlir.passes import list_passes

    return [name for group in list_passes().values() for name in group]


def _pass_list() -> str:
    """Every pass with its summary and options."""
    from jaxmlir.passes import describe_passes

    out = []
    for title, group in describe_passes().items():
        if not group:
            continue
        out.append(f"{title}:")
        for name, description in sorted(group.items()):
            out.append(command_line.entry(f"--{name}", description.summary))
            out += [
                command_line.entry(f"    {option}", option.description)
                for option in description.options
            ]
        out.append("")
    return "\n".join(out).rstrip()


def _dialects() -> str:
    def registered(name: str) -> bool:
        try:
            context().get_dialect_descriptor(name)
        except ValueError:
            return False
        return True

    names = sorted([DIALECT, *filter(registered, _DIALECTS)])
    return "Available Dialects: " + ",".join(names)


def _pipeline(arguments: CommandLine) -> Pipeline:
    """The pipeline of the command line: ``--pass-pipeline``, or the pass flags in their order."""
    from jaxmlir.passes import Pipeline, parse_pipeline, pass_exists

    for flag in ("mlir-print-ir-before", "mlir-print-ir-after"):
        for name in sorted(arguments.names(flag)):
            if not pass_exists(name):
                message = f"--{flag}: unknown pass '{name}'"
                raise command_line.unknown_name(message, name, _pass_names())
    text = arguments.get("pass-pipeline")
    levels = [name for name, _ in arguments.unknown if re.fullmatch(r"O\d", name)]
    if "disable-pass" in arguments.values and not levels:
        raise UsageError("--disable-pass leaves passes out of a level: give -O1 or -O2, too")
    if text is None:
        without = arguments.names("disable-pass")
        named = (_named(name, options, without) for name, options in arguments.unknown)
        return Pipeline(tuple(p for pipeline in named for p in pipeline.passes))
    if arguments.unknown:
        name, _ = arguments.unknown[0]
        raise UsageError(f"--pass-pipeline cannot be used with individual passes, here --{name}")
    if not text.strip().startswith("builtin.module("):
        raise UsageError(
            "expected pass pipeline to be wrapped with the anchor operation type, e.g. "
            f"'builtin.module({text.strip()})'"
        )
    return parse_pipeline(text)


def _named(name: str, options: str | None, without: frozenset[str]) -> Pipeline:
    """The pipeline of a flag that names a level or a pass."""
    from jaxmlir.passes import level_pipeline, parse_pipeline, pass_exists

    if re.fullmatch(r"O\d", name) and options is None:
        return parse_pipeline(level_pipeline(int(name[1]), without)).as_level()
    if re.fullmatch(r"O\d?", name):
        suffix = "" if options is None else f"={options}"
        raise UsageError(f"expected -O0, -O1 or -O2, got -{name}{suffix}")
    if not pass_exists(name):
        if reason := (REFUSED | NOT_APPLICABLE).get(name):
            raise UsageError(f"--{name} of mlir-opt is not supported: {reason}")
        raise command_line.unknown_flag(name, [*(flag.name for flag in FLAGS), *_pass_names()])
    return parse_pipeline(f"{name}{{{options}}}" if options else name)


class _Driver:
    """Parses the input, runs the pipeline, and prints the result."""

    def __init__(self, arguments: CommandLine, pipeline: Pipeline, path: str):
        from jaxmlir.passes import Instrumentation, Statistics, Timing
        from jaxmlir.targets import target

        self.arguments = arguments
        self.pipeline = pipeline
        self.path = path
        self.filename = command_line.display_path(path)
        self.is_plain_file = False
        if arguments.on("emit-artifact") and arguments.on("emit-bytecode"):
            raise UsageError("--emit-artifact and --emit-bytecode exclude each other")
        if arguments.on("run-reproducer") and pipeline.passes:
            raise UsageError("--run-reproducer runs the pipeline of its input, and no other passes")
        self.verifies = arguments.get("verify") is None
        self.crash_file = arguments.get("mlir-pass-pipeline-crash-reproducer")
        is_local = arguments.on("mlir-pass-pipeline-local-reproducer")
        if is_local and self.crash_file is None:
            raise UsageError(
                "--mlir-pass-pipeline-local-reproducer requires "
                "--mlir-pass-pipeline-crash-reproducer=<filename>"
            )
        self.target = target(arguments.get("target") or "cpu")
        debug_info = arguments.on("mlir-print-debuginfo")
        elide_over = arguments.integer("mlir-elide-elementsattrs-if-larger")
        self.printing = {
            "enable_debug_info": debug_info or arguments.on("mlir-pretty-debuginfo"),
            "pretty_debug_info": arguments.on("mlir-pretty-debuginfo"),
            "large_elements_limit": elide_over,
            "large_resource_limit": arguments.integer("mlir-elide-resource-strings-if-larger"),
            "print_generic_op_form": arguments.on("mlir-print-op-generic"),
            "use_local_scope": arguments.on("mlir-print-local-scope"),
            "use_name_loc_as_prefix": arguments.on("mlir-use-nameloc-as-prefix"),
            "skip_regions": arguments.on("mlir-print-skip-regions"),
        }
        self.timing = Timing() if arguments.on("mlir-timing") else None
        self.statistics = Statistics() if arguments.on("mlir-pass-statistics") else None
        self.report: RemarkReport | None = None
        self.diagnostics: list[Diagnostic] = []
        self.instrumentation = Instrumentation(
            verify_each=arguments.on("verify-each", default=True),
            print_before=arguments.names("mlir-print-ir-before"),
            print_after=arguments.names("mlir-print-ir-after"),
            print_before_all=arguments.on("mlir-print-ir-before-all"),
            print_after_all=arguments.on("mlir-print-ir-after-all"),
            print_after_change=arguments.on("mlir-print-ir-after-change"),
            print_after_failure=arguments.on("mlir-print-ir-after-failure"),
            debug_info=debug_info,
            elide_over=elide_over,
            tree_dir=self._tree_dir(),
            timing=self.timing,
            statistics=self.statistics,
            keep_last=is_local,
            remarks=self._remarks_sink(),
        )

    def _tree_dir(self) -> Path | None:
        folder = self.arguments.get("mlir-print-ir-tree-dir")
        if folder is not None and set(self.arguments.values).isdisjoint(_DUMPS):
            raise UsageError(
                "--mlir-print-ir-tree-dir requires one of "
                f"{', '.join(f'--{name}' for name in _DUMPS)}"
            )
        if folder is None:
            return None
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(
                f"--mlir-print-ir-tree-dir: cannot write to '{folder}': {e.strerror}"
            ) from None
        return Path(folder)

    def run(self, data: bytes) -> int:
        """Processes the whole input; returns the exit status."""
        from jaxmlir.cli.module_io import is_artifact, read_artifact
        from jaxmlir.dialect.bytecode import is_bytecode, to_text

        program = None
        try:
            if is_artifact(data):
                allowed = self.arguments.names(command_line.ALLOW.name)
                program = read_artifact(self.path, data, allowed)
                program.target = self.target
                pieces = [program.as_text()]
            else:
                pieces = self._split(to_text(data))
        except JaxmlirError as e:
            command_line.print_diagnostics(
                command_line.diagnostics_from(e, self.filename), self.filename
            )
            return 1
        # MLIR can read such a file itself, and then every location has the file's name.
        self.is_plain_file = len(pieces) == 1 and program is None and not is_bytecode(data)
        results = [self._process(piece, program) for piece in pieces]
        if len(pieces) > 1:
            outputs = [out + b"\n" if out else b"" for _, out in results]
            marker = self.arguments.get("output-split-marker") or _SEPARATOR
            self._write(f"{marker}\n".encode().join(outputs))
        elif results[0][1] is not None:
            self._write(results[0][1])
        shown = self.arguments.get
        if self.timing is not None:
            by_time = shown("mlir-timing-display") == "list"
            as_json = shown("mlir-output-format") == "json"
            print(self.timing.report(by_time=by_time, as_json=as_json), file=sys.stderr)
        if self.statistics is not None:
            by_name = shown("mlir-pass-statistics-display") == "list"
            print(self.statistics.report(by_name=by_name), file=sys.stderr)
        return 0 if all(ok for ok, _ in results) else 1

    def _split(self, text: str) -> list[str]:
        """The pieces of the input, each after empty lines that keep its line numbers right."""
        marker = self.arguments.get("split-input-file")
        if marker is None:
            return [text]
        pieces: list[list[str]] = [[]]
        for number, line in enumerate(text.split("\n"), 1):
            if line.rstrip() == (marker or _SEPARATOR):
                pieces.append([""] * number)
            else:
                pieces[-1].append(line)
        for flag in ("emit-bytecode", "emit-artifact"):
            if len(pieces) > 1 and self.arguments.on(flag):
                raise UsageError(f"--{flag} writes one module, but the input was split into many")
        return ["\n".join(piece) for piece in pieces]

    def _process(self, text: str, program: Program | None) -> tuple[bool, bytes | None]:
        """Whether a piece did what it should, and its output unless it failed; ``program`` is that
        of an artifact, if the piece is its text."""
        output = None
        with _collect_diagnostics(self.filename) as diagnostics:
            self.diagnostics = diagnostics
            if self.report is not None:
                self.report.clear()
            try:
                output = self._transform(program or self._read(text))
                if self.report is not None:
                    for remark in self.report.ranked():
                        diagnostics.append(remark.placed(self.filename))
            except JaxmlirError as e:
                _print_crash(e)
                if self.arguments.on("mlir-print-stacktrace-on-diagnostic"):
                    traceback.print_exception(e)
                diagnostics += command_line.diagnostics_from(e, self.filename)
        if self.arguments.on("verify-diagnostics"):
            wrong = unmet(text, diagnostics, self.filename)
            command_line.print_diagnostics(wrong, self.filename, text)
            return not wrong, output
        if self.arguments.on("mlir-disable-diagnostic-notes"):
            diagnostics[:] = [d._replace(notes=()) for d in diagnostics if d.severity != "note"]
        command_line.print_diagnostics(diagnostics, self.filename, text)
        return output is not None, output

    def _read(self, text: str) -> Program | _MlirModule:
        if self.arguments.on("run-reproducer"):
            text = self._take_pipeline(text)
        with self._measure("parser"):
            module = self._parse(text)
        if self.arguments.on("verify-roundtrip"):
            self._check_roundtrip(module)
        return self._program(module, text)

    def _take_pipeline(self, text: str) -> str:
        """Removes what to run from a reproducer; returns the text of its module."""
        from jaxmlir.cli.module_io import read_reproducer
        from jaxmlir.passes import parse_pipeline

        text, run = read_reproducer(text)
        if run is None:
            raise UsageError(
                f"--run-reproducer: {self.filename} has no pipeline; expected "
                "{-# external_resources: { mlir_reproducer: { pipeline: ... } } #-}"
            )
        # MLIR would read the file itself, including what was removed from the text.
        self.is_plain_file = False
        self.pipeline = parse_pipeline(run.pipeline)
        self.instrumentation = replace(self.instrumentation, verify_each=run.verify_each)
        return text

    def _check_roundtrip(self, module: ir.Module) -> None:
        """Checks that a module's text and bytecode are each read as the same module."""
        first = module_text(module, debug_info=True)
        for form, source in (("text", first), ("bytecode", module_bytecode(module))):
            if module_text(parse_module(source), debug_info=True) != first:
                raise VerificationError(f"the module changes when written as {form} and read back")

    def _transform(self, program: Program | _MlirModule) -> bytes:
        from jaxmlir.cli.module_io import serialized, whole_module

        self._run_pipeline(program)
        with self._measure("output"):
            if self.arguments.on("emit-artifact"):
                return command_line.artifact_of(program, self.arguments)
            is_mlirs = isinstance(program, _MlirModule)
            return serialized(
                program.module if is_mlirs else whole_module(program),
                bytecode=self.arguments.on("emit-bytecode"),
                bytecode_version=self.arguments.integer("emit-bytecode-version"),
                **self.printing,
            )

    def _run_pipeline(self, program: Program | _MlirModule) -> None:
        """Runs the passes, and writes the reproducers that were asked for."""
        from jaxmlir.cli.module_io import Reproducer, with_elements

        constants = {} if isinstance(program, _MlirModule) else program._constants
        file = self.arguments.get("mlir-generate-reproducer")
        any_file = file or self.crash_file
        text = module_text(program.module, debug_info=True) if any_file else ""
        whole = Reproducer(str(self.pipeline), self.instrumentation.verify_each)
        if file is not None:
            whole.write(file, with_elements(text, constants))
        try:
            self.pipeline.run(program, self.instrumentation)
        except JaxmlirError as e:
            if self.crash_file is not None:
                last = self.instrumentation.last
                if self.instrumentation.keep_last and last:
                    text = last["text"]
                    whole = whole._replace(pipeline=f"builtin.module({last['element']})")
                try:
                    whole.write(self.crash_file, with_elements(text, constants))
                except UsageError as unwritten:
                    e.add_note(str(unwritten))
            raise

    def _parse(self, text: str) -> ir.Module:
        from jaxmlir.cli.module_io import check_module

        if self.arguments.on("no-implicit-module"):
            check_module(text, self.filename)
        return parse_module(text, self.filename, from_file=self.is_plain_file)

    def _program(self, module: ir.Module, text: str) -> Program | _MlirModule:
        """The program, of which parsing has done MLIR's part of the verification; without ops and
        passes of ours, a module without JAX."""
        as_artifact = self.arguments.on("emit-artifact")
        is_mlirs = not as_artifact and all(pass_.is_cxx for pass_ in self.pipeline.passes)
        if is_mlirs and not (self.verifies and _has_ops_of_ours(module)):
            return _MlirModule(module)
        from jaxmlir.bridge.resources import take_out
        from jaxmlir.program.program import Program

        program = Program(module, take_out(module, text), {})
        program.target = self.target
        if self.verifies:
            with self._measure("verifier"):
                program.verify()
        if not _has_ops_of_ours(module):
            self._warn_of_stablehlo(module)
        return program

    def _warn_of_stablehlo(self, module: ir.Module) -> None:
        """Warns that the passes of a level, if they run, leave a module of StableHLO as it is."""
        from jaxmlir.dialect.primitives import is_lowered
        from jaxmlir.passes import LEVELS

        names = {*self.pipeline.names()}
        if "jaxpr-raise-stablehlo" in names or names.isdisjoint(LEVELS[2]):
            return
        with context():
            op = next((op for op in inner_ops(module) if is_lowered(op.operation.name)), None)
            if op is not None:
                message = (
                    f"'{op.operation.name}' op: the passes of -O1 and -O2 are for ops of the jaxpr "
                    "dialect; --jaxpr-raise-stablehlo, before them, raises this one"
                )
                warning = Diagnostic("warning", message, *file_line_col(op.location))
                self.diagnostics.append(warning.placed(self.filename))

    def _remarks_sink(self) -> Sink | None:
        pattern = self.arguments.get("remarks")
        if pattern is None:
            return None
        if pattern == "" and not self.arguments.on("verify-diagnostics"):
            from jaxmlir.debug.remark_report import RemarkReport

            self.report = RemarkReport()
            return self.report
        try:
            regex = re.compile("" if pattern == "all" else pattern)
        except re.error as e:
            raise UsageError(f"--remarks expects a regular expression, got '{pattern}': {e}") from e

        def keep(remark: Diagnostic) -> None:
            name = remark.message.partition("]")[0].removeprefix("[")
            if regex.search(name):
                self.diagnostics.append(remark.placed(self.filename))

        return keep

    def _measure(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self.instrumentation.measure(name)

    def _write(self, data: bytes) -> None:
        is_mlir = not (self.arguments.on("emit-bytecode") or self.arguments.on("emit-artifact"))
        command_line.write_bytes(self.arguments, data, is_mlir=is_mlir)


def _has_ops_of_ours(module: ir.Module) -> bool:
    """Whether a module contains an op of the jaxpr dialect."""
    with context():
        return any(op.operation.name.startswith("jaxpr.") for op in inner_ops(module))


@dataclass
class _MlirModule:
    """A module that only MLIR verifies, which does not import JAX; its state is new after each
    change."""

    module: ir.Module
    state: object = field(default_factory=object)

    def verify(self) -> None:
        verify_module(self.module)

    def changed(self) -> None:
        """Nothing else is derived from the module."""
        self.state = object()


def _print_crash(error: JaxmlirError) -> None:
    """Prints the traceback of an exception that a pass did not intend, or a user's rule raised.
    For exceptions of JAX's own rules, the message says everything."""
    cause = error.__cause__
    if cause is None or isinstance(cause, JaxmlirError):
        return
    if isinstance(error, PassError) or any(
        map(_is_users, traceback.extract_tb(cause.__traceback__))
    ):
        traceback.print_exception(cause)


def _is_users(frame: traceback.FrameSummary) -> bool:
    """Whether the code of a frame belongs to neither jaxmlir, JAX nor Python."""
    import jax
    import jaxlib

    import jaxmlir

    modules = (jaxmlir, jax, jaxlib, contextlib)
    return not frame.filename.startswith(tuple(os.path.dirname(m.__file__) for m in modules))


@contextlib.contextmanager
def _collect_diagnostics(filename: str) -> Iterator[list[Diagnostic]]:
    """Collects the warnings and remarks of C++ passes; their errors are raised."""
    diagnostics: list[Diagnostic] = []

    def keep(said: ir.Diagnostic) -> bool:
        diagnostics.append(diagnostic_of(said).placed(filename))
        return True

    # MLIR's worker threads cannot call a Python handler while the main thread waits for them.
    context().enable_multithreading(False)
    handler = context().attach_diagnostic_handler(keep)
    try:
        yield diagnostics
    finally:
        handler.detach()


# --- diagnostics that the input expects -----------------------------------------------------------

_COMMENT = re.compile(
    r"expected-(error|note|remark|warning)(-re)? *(@([+-][0-9]+|above|below|unknown))? *{{(.*)}}$"
)
_UNKNOWN = 0


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that must be emitted. ``line`` is 0 if it has no place."""

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
    """The regex of a literal text with regular expressions in ``{{...}}``."""
    parts = re.split(r"{{(.*?)}}", text)
    return "".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts))


def read_expectations(text: str) -> list[Expectation]:
    """The expectations written in ``text``, in order."""
    lines = text.split("\n")
    matches = [_COMMENT.search(line.rstrip()) for line in lines]
    marked = [match is not None for match in matches]
    return [
        Expectation(match[1], _target(match[4], i, marked) + 1, match[5], bool(match[2]), i + 1)
        for i, match in enumerate(matches)
        if match
    ]


def _target(where: str | None, index: int, marked: list[bool]) -> int:
    """The index of the line that ``@where`` means in a comment on line ``index``."""
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
    """What is wrong: unexpected diagnostics, and expectations that were not met.  All errors,
    warnings and remarks must be expected; notes may be. The note with which MLIR prints the
    operation does not count."""
    open_expectations = read_expectations(text)
    wrong = []
    for d in command_line.flattened(diagnostics):
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


if __name__ == "__main__":
    sys.exit(main())
