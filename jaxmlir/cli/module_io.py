"""Reads modules from files of any origin, and writes modules, for the command line tools.

MLIR's parser reads text, as it survives anything; a child process reads bytecode (see
:mod:`jaxmlir.dialect.bytecode`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir.cli import command_line
from jaxmlir.cli.command_line import UsageError
from jaxmlir.dialect.bytecode import is_bytecode, to_text
from jaxmlir.dialect.ir import (
    check_nesting,
    clone_module,
    context,
    diagnostics_of,
    ir,
    module_bytecode,
    module_text,
    parse_module,
    with_mesh_aliases,
)
from jaxmlir.errors import Diagnostic, ParseError

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def is_artifact(data: bytes) -> bool:
    """Whether a file may be an artifact: three zeros and a brace where the header of a safetensors
    file begins are neither text nor bytecode."""
    return data[5:9] == b"\0\0\0{"


def check_module(text: str, filename: str) -> None:
    """Checks that a text is one ``builtin.module``: MLIR would put one around anything else.  A
    :class:`ParseError` if it is not."""
    check_nesting(text, filename)
    with context():
        try:
            op = ir.Operation.parse(text, source_name=filename)
        except ir.MLIRError as e:
            raise ParseError(diagnostics_of(e, filename)) from None
    name = op.operation.name
    if name != "builtin.module":
        message = f"expected one builtin.module op with --no-implicit-module, got '{name}'"
        raise ParseError([Diagnostic("error", message, filename)])


def read_module(path: str, data: bytes) -> tuple[ir.Module, str]:
    """The module in a file of text or bytecode, and its text; a ParseError if there is none."""
    text = to_text(data)
    filename = command_line.display_path(path)
    return parse_module(text, filename, from_file=not is_bytecode(data)), text


def whole_module(program: Program) -> ir.Module:
    """The module to write to a file, with the elements of its large constants."""
    from jaxmlir.bridge.resources import put_in

    module = program.written_module()
    if program._constants:
        module = clone_module(module)
        put_in(module, program._constants)
    return module


def with_elements(text: str, constants: Mapping[str, Any]) -> str:
    """The text of a module, with the elements of the large constants that it names."""
    from jaxmlir.bridge.resources import put_in

    if not constants:
        return text
    module = parse_module(text)
    put_in(module, constants)
    return module_text(module, debug_info=True)


def serialized(
    module: ir.Module,
    *,
    bytecode: bool = False,
    bytecode_version: int | None = None,
    **printing: Any,
) -> bytes:
    """The module as the contents of a file.

    Args:
      printing: what MLIR's ``get_asm`` takes.

    Raises:
      UsageError: there is no such version of the bytecode.
    """
    if bytecode:
        try:
            return module_bytecode(module, bytecode_version)
        except ValueError as e:
            raise UsageError(f"--emit-bytecode-version={bytecode_version}: {e}") from None
    text = module.operation.get_asm(**printing)
    if not printing.get("use_local_scope"):
        text = with_mesh_aliases(text)
    return (text.rstrip("\n") + "\n").encode()


def read_artifact(path: str, data: bytes, custom_calls: Collection[str] = ()) -> Program:
    """The program of an artifact.

    Raises:
      ArtifactError: the artifact cannot be loaded.
      VerificationError: its program is invalid.
    """
    from jaxmlir.artifact.load import read
    from jaxmlir.program.program import Program

    name = command_line.display_path(path)
    return read(Program, memoryview(data), name, allow_custom_calls=custom_calls)


def read_program(path: str, custom_calls: Collection[str] = ()) -> Program:
    """The program in a file, an artifact or a module; in stdin if the path is ``-``.

    Args:
      custom_calls: what an artifact's program may use beyond XLA.

    Raises:
      UsageError: the file cannot be read.
      ParseError: it is not a module.
      ArtifactError: it is an artifact that cannot be loaded.
    """
    from jaxmlir.bridge.resources import take_out
    from jaxmlir.program.program import Program

    data = command_line.read_bytes(path)
    if is_artifact(data):
        return read_artifact(path, data, custom_calls)
    module, text = read_module(path, data)
    return Program(module, take_out(module, text), {})


_METADATA = re.compile(
    r"\{-#\s*external_resources:\s*\{\s*mlir_reproducer:\s*\{(?P<entries>.*?)\}\s*\}\s*#-\}\s*",
    re.DOTALL,
)
_PIPELINE = re.compile(r'pipeline:\s*(?P<text>"(?:[^"\\]|\\.)*")')
_VERIFY = re.compile(r"verify_each:\s*(true|false)")


class Reproducer(NamedTuple):
    """What to run on a module: the metadata of a file that holds both, as mlir-opt writes it.

    Attributes:
      pipeline: the passes.
      verify_each: whether to verify the program after each pass.
    """

    pipeline: str
    verify_each: bool

    def written(self, module: str) -> str:
        """The text of the file, with the text of the module."""
        verify = str(self.verify_each).lower()
        with context():
            pipeline = ir.StringAttr.get(self.pipeline)
        return (
            f"{module.rstrip()}\n\n"
            "{-#\n"
            "  external_resources: {\n"
            "    mlir_reproducer: {\n"
            f"      pipeline: {pipeline},\n"
            "      disable_threading: true,\n"
            f"      verify_each: {verify}\n"
            "    }\n"
            "  }\n"
            "#-}\n"
        )

    def write(self, path: str, module: str) -> None:
        """Writes the file; a usage error if that is impossible."""
        try:
            Path(path).write_text(self.written(module), encoding="utf-8")
        except OSError as e:
            raise UsageError(f"cannot write the reproducer '{path}': {e.strerror}") from None


def read_reproducer(text: str) -> tuple[str, Reproducer | None]:
    """The module's text, and what to run on it; ``None`` if the text is no reproducer."""
    metadata = _METADATA.search(text)
    pipeline = metadata and _PIPELINE.search(metadata["entries"])
    if metadata is None or pipeline is None:
        return text, None
    verify = _VERIFY.search(metadata["entries"])
    with context():
        try:
            passes = ir.StringAttr(ir.Attribute.parse(pipeline["text"])).value
        except ir.MLIRError as e:
            message = f"the pipeline of the reproducer: {diagnostics_of(e)[0].message}"
            raise ParseError(message) from None
    run = Reproducer(passes, verify is None or verify[1] == "true")
    # Lines keep their numbers.
    blank = "\n" * metadata[0].count("\n")
    return text[: metadata.start()] + blank + text[metadata.end() :], run
