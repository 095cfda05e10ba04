"""MLIR bytecode from others, including portable artifacts of StableHLO.

MLIR's bytecode reader aborts the process on corrupted input, or reads on for years.  So a child
process reads the bytecode and prints it as text; an abort only ends the child.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from jaxlib.mlir.dialects import stablehlo

from jaxmlir.dialect.ir import context, ir, parse_module
from jaxmlir.errors import ParseError

MAGIC = b"ML\xefR"

# The CPU time of a sound module of 100,000 ops, which takes megabytes, is a second.
_SECONDS = 5
_SECONDS_PER_MEGABYTE = 1

_READ_AND_PRINT = """
import contextlib
import sys
with contextlib.suppress(ImportError):  # Windows has no such limits
    import resource
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
from jaxmlir.dialect.bytecode import read
from jaxmlir.errors import ParseError
try:
    module = read(sys.stdin.buffer.read())
except ParseError as e:
    sys.exit(str(e.diagnostics[0].message))
module.operation.print(file=sys.stdout.buffer, binary=True, enable_debug_info=True,
                       print_generic_op_form=True)
"""


def is_bytecode(data: bytes) -> bool:
    """Whether bytes start like MLIR bytecode."""
    return data.startswith(MAGIC)


def read(data: bytes) -> ir.Module:
    """The module in bytecode, or in a portable artifact, that is known to be sound."""
    # A portable artifact names, as its producer, the StableHLO version that it targets.
    if data[5:].lstrip().startswith(b"StableHLO_v"):
        try:
            with context() as here:
                return stablehlo.deserialize_portable_artifact(here, data)
        except (ValueError, ir.MLIRError) as e:
            raise ParseError(f"cannot read this portable artifact: {e}") from None
    return parse_module(data)


def bytecode_to_text(data: bytes) -> str:
    """The module in generic form with locations, read by a child process.

    Raises:
      ParseError: the bytes are not a module, or MLIR's reader aborted on them or took too long.
    """
    seconds = _SECONDS + _SECONDS_PER_MEGABYTE * (len(data) >> 20)
    child = subprocess.run(
        [sys.executable, "-c", _READ_AND_PRINT, str(seconds)],
        input=data,
        capture_output=True,
        check=False,
    )
    if child.returncode == 0:
        return child.stdout.decode()
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        reason = f"MLIR's bytecode reader was ended by {name}"
    else:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    raise ParseError(f"this is corrupted MLIR bytecode: {reason}")


def to_text(data: bytes) -> str:
    """The text of a module from bytes: text or bytecode.

    Raises:
      ParseError: the bytes are neither.
    """
    if is_bytecode(data):
        return bytecode_to_text(data)
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise ParseError(
            "this is neither MLIR bytecode (it does not begin with 'ML\\xefR') nor text: "
            f"byte {e.start} is not UTF-8{hint_of_exported(data)}"
        ) from None


def hint_of_exported(data: bytes | memoryview) -> str:
    """Advice on bytes of a function that ``jax.export`` serialized; empty for other bytes."""
    if b"StableHLO_v" not in bytes(data):
        return ""
    return "; if jax.export wrote it, read it with jaxmlir.from_exported(data)"
