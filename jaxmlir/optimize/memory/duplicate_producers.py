"""``jaxpr-duplicate-producers``: a large value is computed in each kernel that reads it, not
stored for all.

XLA's CPU compiler computes cheap elementwise values again in each kernel that uses them, but not an
``exp``: it is stored by a kernel of its own.  That is right where there is memory at hand.  Where
there is not, to map it anew in each call takes longer than a few transcendental functions of each
element.  Of the softmax

::

    e = exp(s - m);    p = e / sum(e)        and in its derivative        e * (g / sum(e))

the sum and the quotient read ``e`` in kernels that cannot be one, as the first is done before the
second begins.  Each of them computes ``e`` from ``s``, which they read as quickly::

    v = f(big, small);  a = kernel(v);  b = kernel(v, a)
    ->   a = kernel(f(big, small));  b = kernel(f(big, again(small)), a)

where ``again`` puts its operand behind a barrier, or selects it by a boolean that the compiler does
not know to be true; so it does not find that the two are the same.

Where a value is read the profile of the memory knows (:mod:`jaxmlir.optimize.memory.profile`).  A
value is computed again if all of its users read it in one kernel each, elementwise or to sum it up
(an operand of a matrix product is stored anyway), if it is made of one stored value of its size,
and of no more than ``MAX_FUNCTIONS`` functions that take long.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUNCTIONS, SLOW
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import is_plain_signature, size
from jaxmlir.dialect.builder import copy
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.optimize.barriers import Together, written_again
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.profile import FUSED, REDUCTIONS, MemoryProfile, peak
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.targets.costs import Costs

# A C library keeps a freed block of up to 32 MiB for the next call. A larger one is mapped anew,
# and each of its pages zeroed when it is first touched. Losses of a similarity matrix s by the
# exponential of 2 s, 3 s, ... along rows and columns, stored / computed again, jax 0.10 and 0.12:
#   1 and 2 of 1024 x 1024      6.1 / 6.5 and 8.8 / 9.2 ms,   11.8 / 10.6 and 8.8 / 9.1 ms
#   6 of 1536 x 1536            72 / 37 and 65 / 34 ms, 65 / 29 MiB
# So where all of it fits in such a block, storing is faster by a tenth.  Of values that are smaller
# than half of the caches, storing is nothing.

# Of a value that is computed again, and kernels that compute it.
MAX_FUNCTIONS = 2
MAX_COPIES = 3
# In how many times as large values one is as good as nothing.
SMALL = 8
# Bytes that each of them reads, for each byte of the value.
MAX_READ = 1.25
# Ops that are looked at for one value, and how often all values are: what one is made of may have
# to be computed again first.
MAX_OPS = 24
MAX_SWEEPS = 4


class DuplicateProducers(Pass):
    """Compute large elementwise values in each kernel that reads them, instead of storing them.

    Options:
      min-peak: programs that need fewer bytes at once store all values; by default those that fit
        in a block that the C library keeps.
      min-bytes: values of fewer bytes are stored; by default those that half of the caches hold.
      calls: how often the program is taken to be called: what is computed again has to save the
        time that it takes to compile within so many calls.
    """

    name: ClassVar[str] = "jaxpr-duplicate-producers"
    # Other compilers decide by themselves.
    compilers: ClassVar = ("cpu",)
    min_peak: Count | None = None
    min_bytes: Count | None = None
    calls: Amount = CALLS

    def run(self, program: Module) -> bool:
        return recompute(program, self) > 0


def recompute(program: Module, options: DuplicateProducers) -> int:
    """Has large values computed in several kernels, in place; how often once more."""
    again = written_again(program)
    if again is None:
        return 0
    count, costs = 0, program.target.costs
    min_peak = costs.kept_block if options.min_peak is None else options.min_peak
    min_bytes = costs.cached // 2 if options.min_bytes is None else options.min_bytes
    with scope():
        if peak(program) < min_peak:
            return 0
        compile_time = CompileTime(program, options.calls)
        for function in outside_kernels(program):
            for _ in range(MAX_SWEEPS):
                found = _Duplication(function, min_bytes, compile_time, costs).write(again)
                count += found
                if not found:
                    break
    if count:
        program.changed()
    return count


class _Duplication:
    """The values of a function that are computed again, by the profile of its memory."""

    def __init__(
        self, function: func.FuncOp, min_bytes: int, compile_time: CompileTime, costs: Costs
    ):
        self._symbol, self._compile_time = function.name.value, compile_time
        self._view = FunctionView(function)
        self._min_bytes, self._costs = min_bytes, costs
        # Ops that have other operands than when they were looked at, or copies.
        self._touched: set[int] = set()

    def write(self, again: Together) -> int:
        """Writes what is computed again; how often."""
        large = [index for index in range(len(self._view.ops)) if self._is_candidate(index)]
        if not large:
            return 0
        self._profile = MemoryProfile(self._view)
        return sum(self._split(index, again) for index in large)

    def _is_candidate(self, index: int) -> bool:
        signature = self._view.signatures[index]
        return (
            self._is_function(index)
            and size(signature.results[0]) >= self._min_bytes
            and is_plain_signature(signature)
        )

    def _is_function(self, index: int) -> bool:
        """Whether an elementwise op is not computed again as it is; quotients by constants are."""
        view = self._view
        if view.names[index] == "jaxpr.div":
            maker = view.makers[view.operands[index][1]]
            if maker is not None and view.names[maker] == "jaxpr.constant":
                return False
        return view.names[index] in FUNCTIONS

    def _kernel(self, index: int) -> int | None:
        """The only kernel in which an op reads its operands; ``None`` where that is several, or one
        for which they are stored in any case."""
        least, greatest, _ = self._profile.reading(index)
        if least != greatest:
            return None
        # A reduction computes what it reads.
        if least < 0:
            return ~least if self._view.names[~least] in REDUCTIONS else None
        return least

    def _split(self, index: int, again: Together) -> int:
        """Computes a value again for each kernel but the first that reads it."""
        view = self._view
        value, _ = view.results[index]
        if value in view.outputs:
            return 0
        groups: dict[int, list[int]] = {}
        for user in view.users[value]:
            kernel = self._kernel(user)
            if kernel is None:
                return 0
            groups.setdefault(kernel, []).append(user)
        if not 1 < len(groups) <= MAX_COPIES:
            return 0
        made = self._made_of(index)
        if made is None:
            return 0
        tree, leaves = made
        ops, bytes_ = (len(groups) - 1) * (len(tree) + 2), self._profile.sizes[value]
        if not self._compile_time.pays(self._symbol, ops, self._costs.stored_byte_mapped * bytes_):
            return 0
        involved = {*tree, *itertools.chain(*groups.values())}
        if involved & self._touched:
            return 0
        self._touched |= involved
        op, old = view.ops[index], view.value(value)
        remark(op, f"computed {len(groups)} times: {bytes_} bytes are not stored")
        for _, users in sorted(groups.items())[1:]:
            with ir.InsertionPoint(view.ops[users[0]]), op.location:
                new = self._copied(tree, leaves, again)
            for user in users:
                operands = view.ops[user].operation.operands
                for k, v in enumerate(operands):
                    if v == old:
                        operands[k] = new
        return len(groups) - 1

    def _made_of(self, root: int) -> tuple[list[int], list[int]] | None:
        """The ops that compute a value from stored ones, in order, and these, the largest first;
        ``None`` if that is too much to do again."""
        view, sizes = self._view, self._profile.sizes
        whole = sizes[view.results[root][0]]
        found, leaves, pending, functions = {root}, dict[int, None](), [root], 0
        while pending:
            index = pending.pop()
            functions += self._is_function(index)
            if view.names[index] in SLOW or functions > MAX_FUNCTIONS or len(found) > MAX_OPS:
                return None
            for v in view.operands[index]:
                maker = view.makers[v]
                if SMALL * sizes[v] <= whole or maker is None or self._is_there(maker, v):
                    leaves[v] = None
                elif maker not in found:
                    found.add(maker)
                    pending.append(maker)
        ordered = sorted(leaves, key=lambda v: -sizes[v])
        if sum(sizes[v] for v in ordered) > MAX_READ * whole:
            return None
        return sorted(found), ordered

    def _is_there(self, maker: int, value: int) -> bool:
        """Whether the result of an op is in memory, and not to be computed again."""
        first, last = self._view.results[maker]
        if self._view.names[maker] not in FUSED or last - first != 1:
            return True
        return self._is_function(maker) and self._profile.stored[value]

    def _copied(self, tree: Sequence[int], leaves: Sequence[int], again: Together) -> ir.Value:
        """The value that ops compute from leaves, in a way that the compiler takes for another."""
        view, hidden = self._view, self._to_hide(leaves)
        values = dict(zip(hidden, again([view.value(v) for v in hidden]), strict=True))
        for index in tree:
            operands = view.operands[index]
            (result,) = copy(
                view.ops[index],
                view.names[index],
                [values[v] if v in values else view.value(v) for v in operands],
            )
            values[view.results[index][0]] = result
        return result

    def _to_hide(self, leaves: Sequence[int]) -> list[int]:
        """The small ones of what a value is computed from, of which the first is the largest; if
        there are none, that."""
        largest, *others = leaves
        sizes, view = self._profile.sizes, self._view
        small = [
            v
            for v in others
            if SMALL * sizes[v] <= sizes[largest]
            and not (view.makers[v] is not None and view.names[view.makers[v]] == "jaxpr.constant")
        ]
        return small or [largest]
