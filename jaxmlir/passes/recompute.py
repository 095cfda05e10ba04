"""``jaxpr-recompute``: a large value is computed in each kernel that reads it, not stored for all.

XLA's CPU compiler computes cheap elementwise values again in each kernel that uses them, but not an
``exp``: it is stored by a kernel of its own.  That is right for values that fit in a cache.  A
large one goes to memory and comes back, which takes longer than a few transcendental functions of
each element, and all of it has to be there at the same time.  Of the softmax

::

    e = exp(s - m);    p = e / sum(e)        and in its derivative        e * (g / sum(e))

the sum and the quotient read ``e`` in kernels that cannot be one, as the first is done before the
second begins.  Each of them computes ``e`` from ``s``, which they read as quickly::

    v = f(big, small);  a = kernel(v);  b = kernel(v, a)
    ->   a = kernel(f(big, small));  b = kernel(f(big, fence(small)), a)

A fence is the identity, which the compiler does not see through; so it does not find that the two
are the same.

Where a value is read is found from the end: elementwise ops are part of the kernels that their
results are read in, all others begin a new *stage*, one more than the latest of their operands.
Kernels of different stages are not one.  A value is computed again if all of its users read it
elementwise or sum it up (an operand of a matrix product is stored anyway), if it is made of one
stored value of its size, and of no more than ``MAX_FUNCTIONS`` functions that take long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import copy, filled, is_constant, kernels, ops_of, returned
from jaxmlir.passes._node import OpNode
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._work import ELEMENTWISE, is_plain_op, size, with_shape
from jaxmlir.passes.fence import SLOW, fences

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Of values that are smaller, both ways take as long.
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


@dataclass(frozen=True)
class Recompute(Pass):
    """Compute large elementwise values in each kernel that reads them, instead of storing them.

    Options:
      platform: what the program will be compiled for; by default JAX's default backend. Compilers
        other than the CPU's decide by themselves.
      min-bytes: values of fewer bytes are stored.
    """

    name: ClassVar[str] = "jaxpr-recompute"
    platform: str = ""
    min_bytes: int = MIN_BYTES

    def run(self, program: Program) -> None:
        import jax

        recompute(program, self.platform or jax.default_backend(), self.min_bytes)


def recompute(program: Program, platform: str = "cpu", min_bytes: int = MIN_BYTES) -> int:
    """Has large values computed in several kernels, in place; how often once more."""
    fence = fences(program, platform)
    if fence is None:
        return 0
    count = 0
    with scope():
        skipped = kernels(program.functions)
        for symbol, function in list(program.functions.items()):
            if symbol in skipped:
                continue
            for _ in range(MAX_SWEEPS):
                found = _Kernels(function, min_bytes).recompute(fence)
                count += found
                if not found:
                    break
    program.changed()
    return count


Stages = frozenset[int]
# The stage of a kernel that reads a value from memory.
_STORED = -1


class _Kernels:
    """Which values of a function are read in which kernels."""

    def __init__(self, function: func.FuncOp, min_bytes: int):
        self._nodes = [OpNode(op, name, operands) for op, name, operands in ops_of(function)]
        self._min_bytes = min_bytes
        self._makers = {v: node for node in self._nodes for v in node.op.results}
        self._order = {v: i for i, node in enumerate(self._nodes) for v in node.op.results}
        self._returned = set(returned(function))
        # Ops that have other operands than when they were looked at, or copies.
        self._touched: set[int] = set()

    def recompute(self, fence: Callable[[ir.Value], ir.Value]) -> int:
        """Writes what is computed again; how often."""
        large = [node for node in self._nodes if self._is_candidate(node)]
        if not large:
            return 0
        self._find_stages()
        count = 0
        for node in large:
            count += self._split(node, fence)
        return count

    def _is_candidate(self, node: OpNode) -> bool:
        return (
            node.name in FUNCTIONS
            and size(node.op.results[0].type) >= self._min_bytes
            and is_plain_op(node)
        )

    # --- where values are read ---

    def _find_stages(self) -> None:
        """The stage of each op, and for each value the stages of the kernels that read it."""
        stages: dict[ir.Value, int] = {}
        self._stages: list[int] = []
        self._users: dict[ir.Value, list[int]] = {}
        for i, node in enumerate(self._nodes):
            stage = max((stages.get(v, 0) for v in node.operands), default=0)
            self._stages.append(stage)
            for v in node.op.results:
                stages[v] = stage + (not _is_fused(node))
            for v in dict.fromkeys(node.operands):
                self._users.setdefault(v, []).append(i)
        self._read: dict[ir.Value, Stages] = {}
        for i in reversed(range(len(self._nodes))):
            for v in self._nodes[i].op.results:
                self._read[v] = self._reads_of(v)

    def _reads_of(self, value: ir.Value) -> Stages:
        """The stages of the kernels in which a value is read; of many, two."""
        found: set[int] = {_STORED} if value in self._returned else set()
        for i in self._users.get(value, ()):
            found |= self._reads_by(i)
            if len(found) > MAX_COPIES:
                break
        return frozenset(found)

    def _reads_by(self, i: int) -> Stages:
        """Those in which an op reads its operands."""
        node = self._nodes[i]
        if not _is_fused(node):
            return frozenset({self._stages[i] if node.name in _REDUCTIONS else _STORED})
        (result,) = node.op.results
        reads = self._read[result]
        if (len(reads) > 1 and node.name in FUNCTIONS) or _STORED in reads:
            # It is computed as soon as it can be, by a kernel of its own.
            return frozenset({self._stages[i]})
        return reads

    # --- what is computed again ---

    def _split(self, node: OpNode, fence: Callable[[ir.Value], ir.Value]) -> int:
        """Computes a value again for each stage but the first that reads it."""
        (value,) = node.op.results
        if value in self._returned:
            return 0
        groups: dict[int, list[int]] = {}
        for i in self._users.get(value, ()):
            reads = self._reads_by(i)
            if _STORED in reads or not reads:
                return 0
            groups.setdefault(min(reads), []).append(i)
        if not 1 < len(groups) <= MAX_COPIES:
            return 0
        made = self._made_of(node)
        if made is None:
            return 0
        tree, leaves = made
        involved = {id(n) for n in tree} | {id(self._nodes[i]) for g in groups.values() for i in g}
        if involved & self._touched:
            return 0
        self._touched |= involved
        remark(node.op, f"computed {len(groups)} times: {size(value.type)} bytes are not stored")
        for _, users in sorted(groups.items())[1:]:
            users = [self._nodes[i] for i in users]
            with ir.InsertionPoint(users[0].op), node.op.location:
                again = _again(tree, leaves, fence)
            for user in users:
                for k, v in enumerate(user.operands):
                    if v == value:
                        user.op.operation.operands[k] = again
                user.operands = [again if v == value else v for v in user.operands]
        return len(groups) - 1

    def _made_of(self, root: OpNode) -> tuple[list[OpNode], list[ir.Value]] | None:
        """The ops that compute a value from stored ones, in order, and these, the largest first;
        ``None`` if that is too much to do again."""
        (value,) = root.op.results
        found = {value}
        leaves: dict[ir.Value, None] = {}
        functions = 0
        pending = [value]
        while pending:
            node = self._makers[pending.pop()]
            functions += node.name in FUNCTIONS
            if node.name in SLOW or functions > MAX_FUNCTIONS or len(found) > MAX_OPS:
                return None
            for v in node.operands:
                maker = self._makers.get(v)
                small = SMALL * size(v.type) <= size(value.type)
                if small or maker is None or not _is_fused(maker) or self._is_stored(v):
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
        reads = self._read[value]
        return self._makers[value].name in FUNCTIONS and (len(reads) > 1 or _STORED in reads)


def _again(
    tree: list[OpNode], leaves: list[ir.Value], fence: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """The value that ops compute from leaves, in a way that the compiler takes for another."""
    values: dict[ir.Value, ir.Value] = {}
    largest, *small = leaves
    fenced = [v for v in small if SMALL * size(v.type) <= size(largest.type) and not is_constant(v)]
    for v in fenced:
        values[v] = fence(v)
    if not fenced:
        one = fence(filled(with_shape(largest.type, ()), 1))
        values[largest] = ir.Operation.create("jaxpr.mul", [largest.type], [one, largest]).result
    for node in tree:
        (result,) = copy(node.op, node.name, [values.get(v, v) for v in node.operands])
        values[node.op.results[0]] = result
    return result


def _is_fused(node: OpNode) -> bool:
    """Whether an op is computed as a part of what reads its result."""
    return node.name in ELEMENTWISE or node.name in _MOVED


# Elementwise functions that the compiler does not compute again by itself, though they take no
# more than 0.1 to 1 ns (see SLOW for those that do).
FUNCTIONS = frozenset(
    f"jaxpr.{name}"
    for name in (
        "div",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "logistic",
        "rsqrt",
        "sqrt",
        "tanh",
    )
)
_MOVED = frozenset(
    f"jaxpr.{name}" for name in ("broadcast_in_dim", "expand_dims", "reshape", "squeeze")
)
_REDUCTIONS = frozenset(
    f"jaxpr.reduce_{name}" for name in ("and", "max", "min", "or", "prod", "sum")
)
