"""The module of an artifact: its text, compressed, and the way back."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

from jaxmlir.artifact import grammar
from jaxmlir.dialect.codec import node_fields
from jaxmlir.dialect.ir import TREES, context, ir, parse_module
from jaxmlir.errors import ArtifactError, JaxmlirError

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


NODE_FIELDS = "jaxpr.node_fields"


def fields_of_nodes(program: Module) -> ir.Attribute | None:
    """What the fields of the nodes of a program's pytrees are, if these have classes."""
    try:
        return node_fields.encode([program.in_tree, program.out_tree])
    except JaxmlirError:
        # The command line tools pass pytrees on of which nothing is known.
        return None


def write_trees(program: Module, as_flat: bool, fields: ir.Attribute | None = None) -> None:
    """Has a program say what the fields of its pytrees' nodes are, in place, or forget these.

    Args:
      as_flat: it is to take and give flat values.
    """
    if not as_flat and fields is None:
        return
    with context():
        attributes = program.function(program.name).attributes
        for key in TREES:
            if as_flat and key in attributes:
                del attributes[key]
        if fields is not None:
            attributes[NODE_FIELDS] = fields
    program.changed()


def read_trees(program: Module, as_flat: bool) -> None:
    """Makes the nodes of a program's pytrees known, in place, or has it forget these."""
    with context():
        attributes = program.function(program.name).attributes
        fields = attributes[NODE_FIELDS] if NODE_FIELDS in attributes else None
        if fields is not None:
            del attributes[NODE_FIELDS]
            if not as_flat:
                node_fields.make_known(fields)
    if as_flat:
        write_trees(program, as_flat)
