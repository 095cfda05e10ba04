"""``jaxpr-fuse-scans``: independent scans with the same body become one scan.

Independent scans with the same body and length become one scan of the batched body.  Operands that
differ are stacked, equal operands stay unbatched, and the results are rows of the batched results.
Bodies that differ in constants only count as the same; the constants are stacked, too.  Ops between
the scans that depend on the first scans move behind the last one.

An iteration of a small body mostly spends its time on starting kernels, and a batch starts them
once.  This is the only gain, so large bodies are left alone.  So are bodies with branches, loops or
unknown ops, which cost more in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, ClassVar

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work, is_array, size
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.builder import copy, is_used, trip_count
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature, of_op
from jaxmlir.optimize.vectorize.batchable import BATCHED_CALLS, SharedRules, called, can_batch
from jaxmlir.optimize.vectorize.isomorphic import (
    BodyClasses,
    Group,
    dependents_between,
    independent_groups,
    may_move,
    move_behind,
)
from jaxmlir.optimize.vectorize.stacking import Windows, row_of, stack_along
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.support.lazy import memoized
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis

# The work of stacking operands and slicing results, at most, relative to the work of the loop.
MOVED = 2.0
# Two to four scans of 50 iterations, h' = tanh(x + h w), on two cores and with the XLA of jax 0.10
# and 0.12: time of the gradients apart / in a batch, with rows x columns, and flops of a body.
#             w shared    w their own
#  1 x 32    1.2 to 1.8   1.6 to 2.7     2 Kflops
#  8 x 64    1.2          1.1           75 Kflops
# 32 x 128   1.0 to 1.1   1.0            1 Mflops
# Without a product, x + h: 1 x 64 1.4, 1 Kflops; 32 x 1024 1.1 to 1.2 in time and 0.9 to 1.0 in
# wall time, 600 Kflops.
MAX_WORK = 1e5


class FuseScans(Pass):
    """Fuse independent scans of the same body and length into one scan of a batched body.

    Options:
      max-work: scans with bodies of more flops are left alone.
    """

    name: ClassVar[str] = "jaxpr-fuse-scans"
    max_work: Amount = MAX_WORK

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        entries = graph.entry_points()
        fusion = _Fusion(program, self.max_work)
        for function in graph.outside_kernels(SCANS):
            fusion.visit(function)
        if fusion.changed:
            keep_reachable(program, entries)
        return bool(fusion.changed)


class _Fusion:
    """Fuses the scans of one program.

    Attributes:
      changed: the functions that were changed since they were read.
    """

    def __init__(self, program: Module, max_work: float):
        self.rules = Rules(program)
        self.changed: set[str] = set()
        self._program = program
        self._max_work = max_work
        self._work = Work(program)
        self._shared_rules = SharedRules(program)
        self._bodies = BodyClasses(self.rules, self._read)

    def visit(self, function: func.FuncOp) -> None:
        """Fuses scans of a function until there are no more to fuse."""
        symbol = function.name.value
        while groups := self._groups(self._read(symbol)):
            for group in groups:
                self._merge(group)
            self.changed.add(symbol)

    def _read(self, symbol: str) -> FunctionView:
        function = self._program.function(symbol)
        if symbol in self.changed:
            return FunctionView(function)
        return analyses_of(self._program).body(function)

    # -- which scans may be fused: alike, independent of each other, and worth it --

    def _keys_in(self, body: FunctionView) -> dict[int, Any]:
        """The keys of the candidates among the scans of a function, by index."""
        if body.names.count("jaxpr.scan") < 2:
            return {}
        scans = [i for i, name in enumerate(body.names) if name == "jaxpr.scan"]
        keys = [self._key(body.signatures[i]) for i in scans]
        return {i: key for i, key in zip(scans, keys, strict=True) if key is not None}

    def _groups(self, body: FunctionView) -> list[Group]:
        """Groups of at least two scans whose ranges of ops do not overlap, so that none invalidates
        the next one."""
        groups: list[Group] = []
        keys, end = self._keys_in(body), -1
        for members in independent_groups(body.operands, starmap(range, body.results), keys):
            if len(members) == 1:
                continue
            group = Group(self.rules, body, [tuple(members)])
            if members[0] > end and self._can_merge(group, keys[members[0]][0]):
                groups.append(group)
                end = members[-1]
        return groups

    @memoized
    def _key(self, signature: Signature) -> Any | None:
        """The key of a scan, equal for scans that may be fused; ``None`` if it is no candidate."""
        attributes = dict(signature.attributes)
        if not PLAIN_SCAN.issuperset(attributes) or not signature.results:
            return None
        if not all(map(is_array, (*signature.operands, *signature.results))):
            return None
        if trip_count(codec.decode(attributes["length"])) is None:
            return None
        number = self._bodies.number(attributes.pop("jaxpr").value)
        return number, tuple(attributes.items()), signature.operands, signature.results

    def _can_merge(self, group: Group, number: int) -> bool:
        """Whether scans may be fused, and stacking operands and slicing results costs little.

        Args:
          number: the number of the class of their bodies.
        """
        cost = self._cost(number)
        if cost is None:
            return False
        body, (pack,) = group.body, group.packs
        columns, signature = group.operands(pack), body.signatures[pack[0]]
        moved = sum(map(size, signature.results))
        moved += sum(size(group.type(c)) for c in columns if not group.is_same(c))
        if self._work.stored_byte * moved > MOVED * signature.named["length"].value * cost:
            return False
        if not may_move(self.rules, body, dependents_between(body, pack)):
            return False
        # An op with a VJP rule must not run once for all members.
        differ = [not group.is_same(column) for column in columns]
        return not self._shared_rules.of_op(signature, lambda: differ)

    @memoized
    def _cost(self, number: int) -> float | None:
        """The work of an iteration of a body, with the start of a kernel for each op; ``None`` if
        the body must not be batched."""
        body = self._bodies.first(number)
        work = self._cheap(body)
        return None if work is None else work + self._work.kernel * len(body.ops)

    def _cheap(self, body: FunctionView) -> float | None:
        """The work of a body; ``None`` if it is too large, or costs more per member in a batch."""
        total = 0.0
        for index, signature in enumerate(body.signatures):
            name = signature.name
            record = ops.record_of(name)
            if record is None or signature.is_lasting or not can_batch(self._program, signature):
                return None
            if record.functions:
                if name not in BATCHED_CALLS or not self._is_cheap_call(called(signature)):
                    return None
            total += self._work.at(body, index)
        return total if total <= self._max_work else None

    @memoized
    def _is_cheap_call(self, symbol: str) -> bool:
        return self._cheap(self._read(symbol)) is not None

    # -- one scan in place of several --

    def _merge(self, group: Group) -> None:
        """Writes one scan in place of several."""
        body, (pack,) = group.body, group.packs
        first, last = body.ops[pack[0]], body.ops[pack[-1]]
        scan = ScanOp.of_attributes(body.signatures[pack[0]].attributes)
        remark(
            first,
            f"batched {group.count} independent loops of {scan.length} iterations into one loop",
        )
        move_behind(body, dependents_between(body, pack), last)
        pack = _in_order(group, pack)
        members = [body.ops[index] for index in pack]
        signatures = [body.signatures[index] for index in pack]
        lifted, differing = self._bodies.unified([s.named["jaxpr"].value for s in signatures])
        axis = batch_axis(group.count)
        with ir.InsertionPoint(last), first.location:
            extra = [[copy(op, "jaxpr.constant", [])[0] for op in row] for row in differing]
            rows = [[*e, *op.operands] for e, op in zip(extra, members, strict=True)]
            slices = len(rows[0]) - len(scan.operands(list(members[0].operands))[2])
            columns = list(zip(*rows, strict=True))
            same = [all(v == c[0] for v in c) for c in columns]
            dims = tuple([None if s else int(i >= slices) for i, s in enumerate(same)])
            if extra[0]:
                model = scan._replace(body=lifted, num_consts=scan.num_consts + len(extra[0]))
                example = model.write(self.rules, rows[0])[0].owner
                signature = of_op(example, "jaxpr.scan", example.operands)
                rule = self.rules.batch(example, signature, dims, axis)
                example.erase()
            else:
                view = None if lifted in self.changed else self._read(lifted)
                with self.rules.functions.having_read(lifted, view):
                    rule = self.rules.batch(members[0], signatures[0], dims, axis)
            args = [
                c[0] if d is None else stack_along(self.rules, c, d)
                for c, d in zip(columns, dims, strict=True)
            ]
            outs = rule.inline(args, first.location)
            for i, op in enumerate(members):
                for old, new, dim in zip(op.results, outs, rule.pattern, strict=True):
                    if is_used(old):
                        row = new if dim is None else row_of(self.rules, new, i, dim)
                        old.replace_all_uses_with(row)
        group.erase()


def _in_order(group: Group, pack: Sequence[int]) -> Sequence[int]:
    """The scans in the order in which they read the rows of some array.

    The derivatives of loops that were batched before come last loop first, and read the rows of
    stacked results: in order, they read such a stack as it is.
    """
    for column in group.inputs:
        # Only distinct values can be in such an order.
        windows = Windows.of(group.values(column)) if len(set(column)) == group.count else None
        if windows is not None and len(set(windows.starts)) == group.count:
            return [pack[i] for i in sorted(range(group.count), key=windows.starts.__getitem__)]
    return pack
