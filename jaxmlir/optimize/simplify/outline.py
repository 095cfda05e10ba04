"""``jaxpr-outline``: repeated blocks of straight-line code become calls of one function.

The layers of an unrolled network, unrolled time steps, and the blocks of their derivatives are the
same ops over and over.  Written once, as a function that is called at each place, they are
transformed, lowered and verified once, by all that comes after.

Blocks are found in the text of a function (:mod:`jaxmlir.analysis.repeated_blocks`).  What a block
reads from without becomes an argument, unless it is the same constant at every place: that is
written again in the function, so that it stays a constant for the compiler.  What anybody without
reads becomes a result.  Functions are looked through in turn, those made here as well.

A call is the same code for XLA, which inlines it; so no result changes by a bit, and no program
becomes slower.  A TPU's compiler fuses ops as they follow one another, which the blocks put in
another order: the cycles of a transformer's gradient rose to 1.04.  So for TPUs blocks stay.  With
``keep-calls`` XLA is asked to compile the blocks by themselves; what crosses from one to another is
then stored.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import kept_call
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.repeated_blocks import RepeatedBlock, op_string_of
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.optimize.vectorize.isomorphic import Group
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

# Estimates, not measured one by one: XLA inlines the calls, so they decide about the work of
# lowering and of later passes only.
# Ops of a block, at least.  jaxpr-inline takes functions of up to 8 ops apart.
MIN_OPS = 12
# What a call costs, in ops that are not written: for itself, and for each operand and result.
CALL, VALUE = 2, 0.1
# Ops that are to be saved, at least: below, the function costs more to lower than it saves.
MIN_SAVED = 16


class Outline(Pass):
    """Make repeated blocks of ops calls of one function.

    Options:
      min-ops: blocks of fewer ops are left alone.
      keep-calls: ask XLA not to inline the calls.
    """

    name: ClassVar[str] = "jaxpr-outline"
    compilers: ClassVar[tuple[str, ...]] = ("cpu", "cuda", "rocm")
    # Where the calls are, the partitioner has once what they share, or once for each.
    partitioned: ClassVar = False
    min_ops: Count = MIN_OPS
    keep_calls: bool = False

    def run(self, program: Module) -> bool:
        changed = False
        rules = Rules(program)
        pending = [analyses_of(program).body(function) for function in outside_kernels(program)]
        while pending:
            symbols = _outline(rules, pending.pop(), self.min_ops, self.keep_calls)
            pending += [FunctionView(program.function(symbol)) for symbol in symbols]
            changed |= bool(symbols)
        return changed


def _outline(rules: Rules, body: FunctionView, min_ops: int, keep_calls: bool) -> list[str]:
    """Outlines the blocks of one function; the symbols of the new functions."""
    text = op_string_of(body)
    taken = np.zeros(len(text.letters), bool)
    symbols = []
    for word in text.words:
        block = text.alike(_free(_long_enough(word, min_ops), taken))
        if len(block.starts) < 2 or block.length < min_ops or _saved(block, 0) < MIN_SAVED:
            continue
        group = Group(rules, body, text.packs(block), text.outputs(block), text.free)
        num_inputs, num_outputs = len(group.inputs), len(group.outputs)
        saved = _saved(block, num_inputs + num_outputs)
        if saved < MIN_SAVED:
            continue
        for start in block.starts:
            taken[start : start + block.length] = True
        remark(
            text.op(block.starts[0]),
            f"outlined: {block.length} ops stand at {len(block.starts)} places, where "
            f"{num_inputs} values go in and {num_outputs} come out; {saved:.0f} ops less",
        )
        symbols.append(_write(group, keep_calls))
    return symbols


def _long_enough(word: RepeatedBlock, min_ops: int) -> RepeatedBlock:
    """The word, or several in a row as one."""
    turns = max(1, math.ceil(min_ops / word.length))
    if turns == 1 or not word.is_tandem:
        return word
    count = len(word.starts) // turns
    return RepeatedBlock(word.length * turns, word.starts[: count * turns : turns])


def _free(word: RepeatedBlock, taken: np.ndarray) -> RepeatedBlock:
    """The word where nothing of it has been outlined yet."""
    starts = [s for s in word.starts if not taken[s : s + word.length].any()]
    return RepeatedBlock(word.length, tuple(starts))


def _saved(block: RepeatedBlock, num_values: int) -> float:
    """The number of ops that calls save."""
    count = len(block.starts)
    return (count - 1) * block.length - count * (CALL + VALUE * num_values)


def _write(group: Group, keep_calls: bool) -> str:
    """Writes the function, and calls in place of the blocks; the function's symbol."""
    body = group.body
    arguments, constants = group.split_constants()
    name = f"{body.function.name.value.removesuffix('.block')}.block"
    symbol = group.write_function(name, arguments, group.outputs, constants)
    attributes = {
        "jaxpr": ir.FlatSymbolRefAttr.get(symbol),
        "name": ir.StringAttr.get(symbol.partition(".")[0]),
    }
    if keep_calls:
        attributes["jaxpr.ctx"] = kept_call()
    types = list(map(group.type, group.outputs))
    for member, indices in enumerate(zip(*group.packs, strict=True)):
        first, last = body.ops[indices[0]], body.ops[indices[-1]]
        operands = [group.value(column, member) for column in arguments]
        # The last op of the block comes after all that the block reads.
        with ir.InsertionPoint(last), first.location:
            call = ir.Operation.create("jaxpr.jit", types, operands, attributes)
        for column, result in zip(group.outputs, call.results, strict=True):
            body.value(column[member]).replace_all_uses_with(result)
    group.erase()
    return symbol
