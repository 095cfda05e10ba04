"""The module of an artifact: its text, compressed, and the way back."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

from jaxmlir.artifact import grammar
from jaxmlir.dialect.ir import TREES, context, ir, parse_module
from jaxmlir.errors import ArtifactError

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Text that says something is never this much larger than its compressed form.
MAX_EXPANSION = 1000
FREE_SIZE = 1 << 20
# What the decompressor may allocate besides its output.
MEMORY_LIMIT = 64 << 20


def compress(module: ir.Module, *, locations: bool) -> tuple[bytes, int]:
    """A module as an ``.xz`` stream of its text, and the text's length.

    Raises:
      ArtifactError: the text has what :mod:`._grammar` refuses.
    """
    with context():
        text = module.operation.get_asm(
            enable_debug_info=locations, print_generic_op_form=True, assume_verified=True
        )
    data = text.encode()
    grammar.check(data)
    # Higher presets take ten times the time, for a tenth of the size.
    return lzma.compress(data, preset=1), len(data)


def decompress(data: bytes, size: int) -> ir.Module:
    """The module of :func:`compress`'s stream.

    Raises:
      ArtifactError: it is no such stream, or not of a text of ``size`` bytes.
      ParseError: the text is not MLIR.
    """
    if size > FREE_SIZE + MAX_EXPANSION * len(data):
        raise ArtifactError(
            f"the module has {size} bytes in {len(data)} compressed ones: more than a factor of "
            f"{MAX_EXPANSION} is not accepted"
        )
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_LIMIT)
        text = decompressor.decompress(data, size + 1)
    except lzma.LZMAError as e:
        raise ArtifactError(f"the module cannot be decompressed: {e}") from None
    if len(text) != size or not decompressor.eof or decompressor.unused_data:
        raise ArtifactError(f"the module does not decompress to the {size} bytes it should")
    grammar.check(text)
    return parse_module(text.decode("ascii"), "the artifact's module", is_shallow=True)


def forget_trees(program: Module) -> None:
    """Makes the program take and give flat values."""
    with context():
        attributes = program.function(program.name).attributes
        for key in TREES:
            if key in attributes:
                del attributes[key]
    program.changed()
