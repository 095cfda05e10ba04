"""Writing a batch in place of blocks."""

from __future__ import annotations

from jaxmlir.analysis.repeated_blocks import Place
from jaxmlir.dialect.builder import erase, inline
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.vectorize.stacking import stack
from jaxmlir.optimize.vectorize.vectorize_blocks.choice import Candidate
from jaxmlir.optimize.vectorize.vectorize_blocks.results import use
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.vmap import batch_axis, vmap_of


def write(blocks: Candidate) -> list[int]:
    """Writes the batch in place of the blocks; which letters of the text besides these are gone."""
    text, starts, count = blocks.text, blocks.word.starts, len(blocks.word.starts)
    first = text.op(starts[0] + blocks.free[0])
    remark(
        first,
        f"batched: {count} independent blocks of {len(blocks.free)} ops are one, of which "
        f"{len(blocks.inputs)} values go in and {len(blocks.outputs)} come out",
    )
    last = text.op(starts[-1] + blocks.free[-1]).operation
    place = last
    for index in blocks.moved:
        op = text.body.ops[index].operation
        op.move_after(place)
        place = op
    results = _write_batch(blocks, first.location, last)
    gone: list[int] = []
    for output, batched in zip(blocks.outputs, results, strict=True):
        users = use(blocks.rules, blocks.results(output), batched, last)
        for op in reversed(users):
            erase(op)
        if users:
            # Each was the only one of a result.
            numbers = [text.result_number(start, output) for start in starts]
            gone += text.last_use[numbers].tolist()
    for start in reversed(starts):
        for i in reversed(blocks.free):
            erase(text.op(start + i))
    return gone


def _write_batch(blocks: Candidate, location: ir.Location, last: ir.Operation) -> list[ir.Value]:
    """Writes the ops of the batch before an op; what they give."""
    rules, count = blocks.rules, len(blocks.word.starts)
    symbol, arguments = _write_function(blocks)
    dims = tuple([None if blocks.is_same(places) else 0 for places in arguments])
    batched, _ = vmap_of(rules, symbol, dims, batch_axis(count), (0,) * len(blocks.outputs))
    with ir.InsertionPoint(last), location:
        args = [
            blocks.column(places)[0] if dim is None else stack(rules, blocks.column(places))
            for places, dim in zip(arguments, dims, strict=True)
        ]
        return inline(rules.program.function(batched), args)


def _write_function(blocks: Candidate) -> tuple[str, list[list[Place]]]:
    """A block as a function; its symbol, and the inputs that are its arguments."""
    arguments, constants = blocks.arguments_and_constants(blocks.inputs)
    name = f"{blocks.text.body.function.name.value}.block"
    symbol = blocks.write_function(name, blocks.free, arguments, constants, blocks.outputs)
    return symbol, arguments
