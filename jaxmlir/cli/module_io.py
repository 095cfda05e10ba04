"""Modules from files that somebody else wrote, and to files, as the command line tools do it.

Text goes to MLIR's parser, which survives anything.  MLIR's bytecode reader does not: it aborts the
process on corrupted input.  So bytecode is read in a child process that prints it as text, and what
dies is the child.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from jaxmlir.cli import command_line
from jaxmlir.dialect.ir import (
    check_arrays,
    check_nesting,
    context,
    diagnostics_of,
    ir,
    module_bytecode,
    parse_module,
)
from jaxmlir.errors import ParseError

if TYPE_CHECKING:
    from jaxmlir.program.program import Program

BYTECODE_MAGIC = b"ML\xefR"

_READ_AND_PRINT = """
import sys
from jaxmlir.errors import ParseError
from jaxmlir.dialect.ir import parse_module
try:
    module = parse_module(sys.stdin.buffer.read())
except ParseError as e:
    sys.exit(str(e.diagnostics[0].message))
module.operation.print(file=sys.stdout.buffer, binary=True, enable_debug_info=True,
                       print_generic_op_form=True)
"""


def is_bytecode(data: bytes) -> bool:
    return data.startswith(BYTECODE_MAGIC)


def is_artifact(data: bytes) -> bool:
    """Whether a file may be an artifact: neither text nor bytecode has three zeros and a brace
    where the header of a safetensors file begins."""
    return data[5:9] == b"\0\0\0{"


def decode_text(data: bytes) -> str:
    """MLIR text from bytes.

    Raises:
      ParseError: the bytes are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise ParseError(
            "this is neither MLIR bytecode (it does not begin with 'ML\\xefR') nor text: "
            f"byte {e.start} is not UTF-8"
        ) from None


def bytecode_to_text(data: bytes) -> str:
    """The module in generic form with locations, read by a child process.

    Raises:
      ParseError: the bytes are not a module; also where they made MLIR's reader abort.
    """
    child = subprocess.run(
        [sys.executable, "-c", _READ_AND_PRINT], input=data, capture_output=True, check=False
    )
    if child.returncode == 0:
        return child.stdout.decode()
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        reason = f"MLIR's bytecode reader died of {name} on it"
    else:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    raise ParseError(f"this is corrupted MLIR bytecode: {reason}")


def parse_file(path: str, text: str) -> ir.Module:
    """Parses a text file; unlike a string's, its locations name the file.

    Args:
      text: what is in the file.

    Raises:
      ParseError: with MLIR's diagnostics.
    """
    check_nesting(text, path)
    with context():
        try:
            module = ir.Module.parseFile(path)
        except ir.MLIRError as e:
            raise ParseError(diagnostics_of(e, path)) from None
    check_arrays(module, text, path)
    return module


def to_text(data: bytes) -> str:
    """The contents of a file as MLIR text."""
    return bytecode_to_text(data) if is_bytecode(data) else decode_text(data)


def serialized(
    module: ir.Module,
    *,
    bytecode: bool = False,
    debug_info: bool = False,
    elide_over: int | None = None,
    generic: bool = False,
    local_scope: bool = False,
) -> bytes:
    """The module as the contents of a file."""
    if bytecode:
        return module_bytecode(module)
    text = module.operation.get_asm(
        enable_debug_info=debug_info,
        large_elements_limit=elide_over,
        print_generic_op_form=generic,
        use_local_scope=local_scope,
    )
    return (text.rstrip("\n") + "\n").encode()


def read_artifact(path: str, data: bytes, custom_calls: Collection[str] = ()) -> Program:
    """The program of an artifact; its arrays are mapped, unless it came from stdin.

    Raises:
      ArtifactError: it is none that can be loaded.
      VerificationError: its program is invalid.
    """
    from jaxmlir import artifact
    from jaxmlir.program.program import Program

    buffer = memoryview(data) if path == "-" else artifact.map_file(path)
    name = command_line.display_path(path)
    return artifact.read(Program, buffer, name, allow_custom_calls=custom_calls)


def read_program(path: str, custom_calls: Collection[str] = ()) -> Program:
    """The program in a file, an artifact or a module; in stdin where the path is ``-``.

    Args:
      custom_calls: what the program of an artifact may reach beyond XLA.

    Raises:
      UsageError: the file cannot be read.
      ParseError: it is not a module.
      ArtifactError: it is an artifact that cannot be loaded.
    """
    from jaxmlir.program.program import Program

    data = command_line.read_bytes(path)
    if is_artifact(data):
        return read_artifact(path, data, custom_calls)
    filename = command_line.display_path(path)
    text = to_text(data)
    as_file = path != "-" and not is_bytecode(data)
    module = parse_file(path, text) if as_file else parse_module(text, filename)
    return Program(module, {}, {})
