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

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.fusion import FUNCTIONS, SLOW
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op, size
from jaxmlir.dialect.builder import copy, is_constant, returned
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.optimize.barriers import Together, written_again
from jaxmlir.optimize.compile_time import CALLS, CompileTime
from jaxmlir.optimize.memory.profile import FUSED, REDUCTIONS, VIEWS, peak
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
                found = _Kernels(function, min_bytes, compile_time, costs).recompute(again)
                count += found
                if not found:
                    break
    if count:
        program.changed()
    return count


Places = frozenset[int]
# The place of a value that is in memory anyway.
_STORED = -1


class _Kernels:
    """Which values of a function are read in which kernels."""

    def __init__(
        self, function: func.FuncOp, min_bytes: int, compile_time: CompileTime, costs: Costs
    ):
        self._symbol, self._compile_time = function.name.value, compile_time
        self._nodes = [OpView(op, name, operands) for op, name, operands in ops_of(function)]
        self._min_bytes, self._costs = min_bytes, costs
        self._makers = {v: node for node in self._nodes for v in node.op.results}
        self._order = {v: i for i, node in enumerate(self._nodes) for v in node.op.results}
        self._returned = set(returned(function))
        # Ops that have other operands than when they were looked at, or copies.
        self._touched: set[int] = set()

    def recompute(self, again: Together) -> int:
        """Writes what is computed again; how often."""
        large = [node for node in self._nodes if self._is_candidate(node)]
        if not large:
            return 0
        self._find_places()
        count = 0
        for node in large:
            count += self._split(node, again)
        return count

    def _is_candidate(self, node: OpView) -> bool:
        return (
            _is_function(node)
            and size(node.op.results[0].type) >= self._min_bytes
            and is_plain_op(node)
        )

    # --- where values are read ---

    def _find_places(self) -> None:
        """For each value the kernels that read it, by the number of an op."""
        self._users: dict[ir.Value, list[int]] = {}
        for i, node in enumerate(self._nodes):
            for v in dict.fromkeys(node.operands):
                self._users.setdefault(v, []).append(i)
        self._places: dict[ir.Value, Places] = {}
        for node in reversed(self._nodes):
            for v in node.op.results:
                self._places[v] = self._places_of(v)

    def _places_of(self, value: ir.Value) -> Places:
        """The kernels in which a value is read; of many, some."""
        found: set[int] = {_STORED} if value in self._returned else set()
        for i in self._users.get(value, ()):
            found |= self._places_by(i)
            if len(found) > MAX_COPIES:
                break
        return frozenset(found)

    def _places_by(self, i: int) -> Places:
        """The kernels in which an op reads its operands."""
        node = self._nodes[i]
        if node.name not in FUSED:
            return frozenset({i if node.name in REDUCTIONS else _STORED})
        places = Places().union(*[self._places[v] for v in node.op.results])
        if node.name in VIEWS:
            return places
        if (len(places) > 1 and _is_function(node)) or _STORED in places:
            # A kernel of its own.
            return frozenset({i})
        return places

    # --- what is computed again ---

    def _split(self, node: OpView, again: Together) -> int:
        """Computes a value again for each kernel but the first that reads it."""
        (value,) = node.op.results
        if value in self._returned:
            return 0
        groups: dict[int, list[int]] = {}
        for i in self._users.get(value, ()):
            places = self._places_by(i)
            if _STORED in places or len(places) != 1:
                return 0
            groups.setdefault(min(places), []).append(i)
        if not 1 < len(groups) <= MAX_COPIES:
            return 0
        made = self._made_of(node)
        if made is None:
            return 0
        tree, leaves = made
        ops = (len(groups) - 1) * (len(tree) + 2)
        saved = self._costs.stored_byte_mapped * size(value.type)
        if not self._compile_time.pays(self._symbol, ops, saved):
            return 0
        involved = {id(n) for n in tree} | {id(self._nodes[i]) for g in groups.values() for i in g}
        if involved & self._touched:
            return 0
        self._touched |= involved
        remark(node.op, f"computed {len(groups)} times: {size(value.type)} bytes are not stored")
        for _, users in sorted(groups.items())[1:]:
            users = [self._nodes[i] for i in users]
            with ir.InsertionPoint(users[0].op), node.op.location:
                new = _copied(tree, leaves, again)
            for user in users:
                for k, v in enumerate(user.operands):
                    if v == value:
                        user.op.operation.operands[k] = new
                user.operands = [new if v == value else v for v in user.operands]
        return len(groups) - 1

    def _made_of(self, root: OpView) -> tuple[list[OpView], list[ir.Value]] | None:
        """The ops that compute a value from stored ones, in order, and these, the largest first;
        ``None`` if that is too much to do again."""
        (value,) = root.op.results
        found = {value}
        leaves: dict[ir.Value, None] = {}
        functions = 0
        pending = [value]
        while pending:
            node = self._makers[pending.pop()]
            functions += _is_function(node)
            if node.name in SLOW or functions > MAX_FUNCTIONS or len(found) > MAX_OPS:
                return None
            for v in node.operands:
                maker = self._makers.get(v)
                small = SMALL * size(v.type) <= size(value.type)
                if small or maker is None or not _is_copied(maker) or self._is_stored(v):
                    leaves[v] = None
                elif v not in found:
                    found.add(v)
                    pending.append(v)
        ordered = sorted(leaves, key=lambda v: -size(v.type))
        if sum(size(v.type) for v in ordered) > MAX_READ * size(value.type):
            return None
        tree = sorted((self._makers[v] for v in found), key=lambda n: self._order[n.op.results[0]])
        return tree, ordered

    def _is_stored(self, value: ir.Value) -> bool:
        """Whether a value is in memory anyway: several kernels read it, or another function."""
        places = self._places[value]
        return _is_function(self._makers[value]) and (len(places) > 1 or _STORED in places)


def _copied(tree: list[OpView], leaves: list[ir.Value], again: Together) -> ir.Value:
    """The value that ops compute from leaves, in a way that the compiler takes for another."""
    hidden = _to_hide(leaves)
    values = dict(zip(hidden, again(hidden), strict=True))
    for node in tree:
        (result,) = copy(node.op, node.name, [values.get(v, v) for v in node.operands])
        values[node.op.results[0]] = result
    return result


def _to_hide(leaves: list[ir.Value]) -> list[ir.Value]:
    """The small ones of what a value is computed from, of which the first is the largest; if there
    are none, that."""
    largest, *others = leaves
    small = [v for v in others if SMALL * size(v.type) <= size(largest.type) and not is_constant(v)]
    return small or [largest]


def _is_copied(node: OpView) -> bool:
    """Whether an op is computed by the kernel that reads its only result."""
    return node.name in FUSED and len(node.op.results) == 1


def _is_function(node: OpView) -> bool:
    """Whether an elementwise op is not computed again as it is; quotients by constants are."""
    if node.name == "jaxpr.div" and is_constant(node.operands[1]):
        return False
    return node.name in FUNCTIONS
