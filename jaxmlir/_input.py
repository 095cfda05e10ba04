"""Reading modules that somebody else wrote, as the command line tools do.

Text goes to MLIR's parser, which survives anything.  MLIR's bytecode reader does not: it aborts the
process on corrupted input.  So bytecode is read in a child process that prints it as text, and what
dies is the child.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from jaxmlir.errors import ParseError
from jaxmlir.ir import ir, parse_module

BYTECODE_MAGIC = b"ML\xefR"

_READ_AND_PRINT = """
import sys
from jaxmlir.errors import ParseError
from jaxmlir.ir import parse_module
try:
    module = parse_module(sys.stdin.buffer.read())
except ParseError as e:
    sys.exit(str(e.diagnostics[0].message))
module.operation.print(file=sys.stdout.buffer, binary=True, enable_debug_info=True,
                       print_generic_op_form=True)
"""


def is_bytecode(data: bytes) -> bool:
    return data.startswith(BYTECODE_MAGIC)


def decode_text(data: bytes, filename: str) -> str:
    """MLIR text from bytes.

    Raises:
      ParseError: the bytes are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise ParseError(
            f"{filename} is neither MLIR bytecode (it does not begin with 'ML\\xefR') nor text: "
            f"byte {e.start} is not UTF-8"
        ) from None


def bytecode_to_text(data: bytes, filename: str) -> str:
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
    raise ParseError(f"{filename} is corrupted MLIR bytecode: {reason}")


def read_module(data: bytes, filename: str) -> ir.Module:
    """A module from the contents of a file: text or bytecode.

    Raises:
      ParseError: with MLIR's diagnostics, located in ``filename``.
    """
    return parse_module(to_text(data, filename), filename)


def to_text(data: bytes, filename: str) -> str:
    """The contents of a file as MLIR text."""
    return bytecode_to_text(data, filename) if is_bytecode(data) else decode_text(data, filename)
