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

Where a value is read is found from the end: an elementwise op is part of the kernel that its result
is read in, any other op is a kernel, and so is a function that several of them read.  A value is
computed again if all of its users read it in one kernel each, elementwise or to sum it up (an
operand of a matrix product is stored anyway), if it is made of one stored value of its size, and of
no more than ``MAX_FUNCTIONS`` functions that take long.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import SLOW
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_plain_signature, size
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect.builder import is_constant
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.barriers import Together, written_again
from jaxmlir.optimize.memory.remat.price import peak
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

    pass

# A C library keeps a freed block of up to 32 MiB for the next call. A larger one is mapped anew,
# and each of its pages zeroed when it is first touched. Losses of a similarity matrix s by the
# exponential of 2 s, 3 s, ... along rows and columns, stored / computed again, jax 0.10 and 0.12:
#   1 and 2 of 1024 x 1024      6.1 / 6.5 and 8.8 / 9.2 ms,   11.8 / 10.6 and 8.8 / 9.1 ms
#   6 of 1536 x 1536            72 / 37 and 65 / 34 ms, 65 / 29 MiB
# So where all of it fits in such a block, storing is faster by a tenth.
MIN_PEAK = 33_554_432
# Of values that are smaller than a part of a cache, storing is nothing.
MIN_BYTES = 2_097_152
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
      min-peak: programs that need fewer bytes at once store all values.
      min-bytes: values of fewer bytes are stored.
    """

    name: ClassVar[str] = "jaxpr-duplicate-producers"
    # Other compilers decide by themselves.
    compilers: ClassVar = ("cpu",)
    min_peak: Count = MIN_PEAK
    min_bytes: Count = MIN_BYTES

    def run(self, program: Module) -> bool:
        return recompute(program, self.min_peak, self.min_bytes) > 0


def recompute(
    program: Module,
    min_peak: int = MIN_PEAK,
    min_bytes: int = MIN_BYTES,
) -> int:
    """Has large values computed in several kernels, in place; how often once more."""
    again = written_again(program)
    if again is None:
        return 0
    count = 0
    with scope():
        if peak(program) < min_peak:
            return 0
        for function in outside_kernels(program):
            body = analyses_of(program).body(function)
            for _ in range(MAX_SWEEPS):
                found = _Kernels(body, min_bytes).recompute(again)
                count += found
                if not found:
                    break
                body = FunctionView(function)
    if count:
        program.changed()
    return count


Places = frozenset[int]
# The place of a value that is in memory anyway.
_STORED = -1


class _Kernels:
    """Which values of a function are read in which kernels."""

    def __init__(self, body: FunctionView, min_bytes: int):
        self._body = body
        self._min_bytes = min_bytes
        # Ops that have other operands than when they were looked at, or copies.
        self._touched: set[int] = set()

    def recompute(self, again: Together) -> int:
        """Writes what is computed again; how often."""
        large = list(filter(self._is_candidate, range(len(self._body.ops))))
        if not large:
            return 0
        self._find_places()
        return sum(self._split(i, again) for i in large)

    def _is_candidate(self, i: int) -> bool:
        signature = self._body.signatures[i]
        return (
            self._is_function(i)
            and size(signature.results[0]) >= self._min_bytes
            and is_plain_signature(signature)
        )

    # --- where values are read ---

    def _find_places(self) -> None:
        """For each value the kernels that read it, by the number of an op."""
        self._places: dict[int, Places] = {}
        for v in reversed(range(self._body.arity, len(self._body.types))):
            self._places[v] = self._places_of(v)

    def _places_of(self, value: int) -> Places:
        """The kernels in which a value is read; of many, some."""
        found: set[int] = {_STORED} if value in self._body.outputs else set()
        for i in self._body.users[value]:
            found |= self._places_by(i)
            if len(found) > MAX_COPIES:
                break
        return frozenset(found)

    def _places_by(self, i: int) -> Places:
        """Those in which an op reads its operands."""
        name, (result, _) = self._body.names[i], self._body.results[i]
        if name not in FUSED:
            return frozenset({i if name in REDUCTIONS else _STORED})
        places = self._places[result]
        if name in VIEWS:
            return places
        if (len(places) > 1 and self._is_function(i)) or _STORED in places:
            # A kernel of its own.
            return frozenset({i})
        return places

    # --- what is computed again ---

    def _split(self, root: int, again: Together) -> int:
        """Computes the value of an op again for each kernel but the first that reads it."""
        body, (value, _) = self._body, self._body.results[root]
        if value in body.outputs:
            return 0
        groups: dict[int, list[int]] = {}
        for i in body.users[value]:
            places = self._places_by(i)
            if _STORED in places or len(places) != 1:
                return 0
            groups.setdefault(min(places), []).append(i)
        if not 1 < len(groups) <= MAX_COPIES:
            return 0
        made = self._made_of(value)
        if made is None:
            return 0
        tree, leaves = made
        involved = {*tree, *itertools.chain(*groups.values())}
        if involved & self._touched:
            return 0
        self._touched |= involved
        op, bytes_ = body.ops[root], size(body.types[value])
        remark(op, f"computed {len(groups)} times: {bytes_} bytes are not stored")
        for _, users in sorted(groups.items())[1:]:
            with ir.InsertionPoint(body.ops[users[0]]), op.location:
                new = self._copied(tree, leaves, again)
            for user in users:
                for k, v in enumerate(body.operands[user]):
                    if v == value:
                        body.ops[user].operation.operands[k] = new
        return len(groups) - 1

    def _made_of(self, value: int) -> tuple[list[int], list[ir.Value]] | None:
        """The ops that compute a value from stored ones, in order, and these, the largest first;
        ``None`` if that is too much to do again."""
        body, types = self._body, self._body.types
        whole = size(types[value])
        tree = {body.makers[value]}
        leaves: dict[int, None] = {}
        functions = 0
        pending = list(tree)
        while pending:
            index = pending.pop()
            name = body.names[index]
            functions += self._is_function(index)
            if name in SLOW or functions > MAX_FUNCTIONS or len(tree) > MAX_OPS:
                return None
            for v in body.operands[index]:
                maker = body.makers[v]
                small = SMALL * size(types[v]) <= whole
                if small or maker is None or body.names[maker] not in FUSED or self._is_stored(v):
                    leaves[v] = None
                elif maker not in tree:
                    tree.add(maker)
                    pending.append(maker)
        ordered = sorted(leaves, key=lambda v: -size(types[v]))
        if sum(size(types[v]) for v in ordered) > MAX_READ * whole:
            return None
        return sorted(tree), list(map(body.value, ordered))

    def _is_stored(self, value: int) -> bool:
        """Whether a value is in memory anyway: several kernels read it, or another function."""
        places, maker = self._places[value], self._body.makers[value]
        return self._is_function(maker) and (len(places) > 1 or _STORED in places)

    def _is_function(self, i: int) -> bool:
        """Whether an elementwise op is not computed again as it is; quotients by constants are."""
        name = self._body.names[i]
        if name == "jaxpr.div" and is_constant(self._body.value(self._body.operands[i][1])):
            return False
        return name in FUNCTIONS

    def _copied(self, tree: list[int], leaves: list[ir.Value], again: Together) -> ir.Value:
        """The value that ops compute from leaves, in a way that the compiler takes for another."""
        hidden = _to_hide(leaves)
        values = dict(zip(hidden, again(hidden), strict=True))
        for i in tree:
            op = self._body.ops[i]
            (result,) = self._body.copy(i, [values.get(v, v) for v in op.operands])
            values[op.results[0]] = result
        return result


def _to_hide(leaves: list[ir.Value]) -> list[ir.Value]:
    """The small ones of what a value is computed from, of which the first is the largest; if there
    are none, that."""
    largest, *others = leaves
    small = [v for v in others if SMALL * size(v.type) <= size(largest.type) and not is_constant(v)]
    return small or [largest]


# Elementwise functions that the compiler does not compute again by itself, though they take no
# more than 0.1 to 1 ns (see SLOW for those that do).
FUNCTIONS = (with_trait(Trait.TRANSCENDENTAL) | {"jaxpr.div"}) - SLOW.keys()
VIEWS = with_trait(Trait.RESHAPE)
# What is computed by the kernel that reads it.
FUSED = ELEMENTWISE | VIEWS | {"jaxpr.broadcast_in_dim"}
REDUCTIONS = with_trait(Trait.REDUCTION)
