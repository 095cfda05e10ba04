"""``jaxpr-outline``: repeated blocks of straight-line code become calls of one function.

The layers of an unrolled network, unrolled time steps, and the blocks of their derivatives repeat
the same ops.  Outlined into a function with a call at each place, these ops are transformed,
lowered and verified only once by everything that follows.

:mod:`jaxmlir.analysis.repeated_blocks` finds the blocks by string matching.  A value from outside
that a block reads becomes an argument, unless it is the same constant at every place: that is
cloned into the function, so that it stays a constant for the compiler.  A value that is read
outside of the block becomes a result.  The pass searches all functions, also those that it made.

XLA inlines the calls and generates the same code; so no bit of a result changes, and no program
becomes slower.  A TPU's compiler fuses ops in program order, which outlining changes: the cycles
of a transformer's gradient rose to 1.04.  So the pass does nothing for TPUs.  With ``keep-calls``
XLA is asked to compile the blocks separately; values that cross between blocks are then stored.
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
from jaxmlir.errors import count
from jaxmlir.optimize.vectorize.isomorphic import Group
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

# Estimates, not measured one by one: XLA inlines the calls, so they only affect the work of
# lowering and of later passes.
# The minimum number of ops of a block.  jaxpr-inline inlines functions of up to 8 ops.
MIN_OPS = 12
# The cost of a call, in ops: for itself, and for each operand and result.
CALL, VALUE = 2, 0.1
# The minimum number of ops to save: below, the function costs more to lower than it saves.
MIN_SAVED = 16


class Outline(Pass):
    """Outline repeated blocks of ops as calls of one function.

    Options:
      min-ops: blocks of fewer ops are left alone.
      keep-calls: ask XLA not to inline the calls.
    """

    name: ClassVar[str] = "jaxpr-outline"
    compilers: ClassVar[tuple[str, ...]] = ("cpu", "cuda", "rocm")
    # Outlining could change whether the partitioner handles shared code once or once per call.
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
    """Outlines the blocks of one function; returns the symbols of the new functions."""
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
            f"outlined {block.length} ops that occur {len(block.starts)} times, with "
            f"{count(num_inputs, 'input')} and {count(num_outputs, 'output')}: {saved:.0f} ops "
            "fewer",
        )
        symbols.append(_write(group, keep_calls))
    return symbols


def _long_enough(word: RepeatedBlock, min_ops: int) -> RepeatedBlock:
    """The word, or several consecutive occurrences joined until they have ``min_ops`` ops."""
    turns = max(1, math.ceil(min_ops / word.length))
    if turns == 1 or not word.is_tandem:
        return word
    count = len(word.starts) // turns
    return RepeatedBlock(word.length * turns, word.starts[: count * turns : turns])


def _free(word: RepeatedBlock, taken: np.ndarray) -> RepeatedBlock:
    """The occurrences of a word of which no op has been outlined yet."""
    starts = [s for s in word.starts if not taken[s : s + word.length].any()]
    return RepeatedBlock(word.length, tuple(starts))


def _saved(block: RepeatedBlock, num_values: int) -> float:
    """The number of ops that calls save."""
    count = len(block.starts)
    return (count - 1) * block.length - count * (CALL + VALUE * num_values)


def _write(group: Group, keep_calls: bool) -> str:
    """Writes the function, replaces the blocks by calls, and returns the function's symbol."""
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
        # The last op of the block comes after the producers of all values that the block reads.
        with ir.InsertionPoint(last), first.location:
            call = ir.Operation.create("jaxpr.jit", types, operands, attributes)
        for column, result in zip(group.outputs, call.results, strict=True):
            body.value(column[member]).replace_all_uses_with(result)
    group.erase()
    return symbol
