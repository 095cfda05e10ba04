"""``jaxpr-fuse-scans``: scans that do the same independently of each other become one.

Two scans of one body and length, neither of which reads what the other gives, are one scan of the
batched body: operands that differ are stacked, those that are the same stay unbatched, and results
are the rows of the batched ones.  LoopEditor that differ in constants only count as the same; the
constants are stacked, too.  What stands between the scans and reads the first one's results moves
behind the last one.

An iteration of a small body is mostly the starting of its kernels, and a batch starts them once.
That is all there is to win, so large bodies are left alone, and so are those with branches, loops
or unknown ops in them, which batches make dearer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.analysis.call_graph import SCANS, keep_reachable
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.builder import copy, erase, is_used, returned
from jaxmlir.dialect.ir import body_of, func, ir, scope
from jaxmlir.optimize.loops.fuse_scans.groups import Finder, Group
from jaxmlir.optimize.vectorize.windows import Windows
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Two to four scans of 50 iterations, h' = tanh(x + h w), on two cores and with the XLA of jax 0.10
# and 0.12: time apart / time of the batch of the gradient, with rows x columns, flops of a body.
#             w shared    w their own
#  1 x 32    1.2 to 1.8   1.6 to 2.7     2 Kflops
#  8 x 64    1.2          1.1           75 Kflops
# 32 x 128   1.0 to 1.1   1.0            1 Mflops
# Without product, x + h: 1 x 64 1.4, 1 Kflops; 32 x 1024 1.1 to 1.2 in time and 0.9 to 1.0 in wall
# time, 600 Kflops.
MAX_WORK = 1e5


class FuseScans(Pass):
    """Make independent scans of the same body and length one scan of a batched body.

    Options:
      max-work: scans with bodies of more flops are left alone.
    """

    name: ClassVar[str] = "jaxpr-fuse-scans"
    max_work: Amount = MAX_WORK

    def run(self, program: Module) -> bool:
        return batch_scans(program, self.max_work) > 0


def batch_scans(program: Module, max_work: float = MAX_WORK) -> int:
    """Batches scans in place; how many scans went."""
    with scope():
        graph = analyses_of(program).graph
        entries = graph.entry_points()
        batches = _Batches(program, max_work)
        uses = graph.uses_in(program)
        for function in graph.outside_kernels(SCANS):
            if batches.visit(function):
                del uses[function.name.value]
        if batches.count:
            uses.update(batches.rules.functions.copied)
            keep_reachable(program, entries, uses)
    return batches.count


class _Batches:
    def __init__(self, program: Module, max_work: float):
        self.rules = Rules(program)
        self.finder = Finder(program, max_work)
        self.count = 0

    def visit(self, function: func.FuncOp) -> bool:
        """Batches scans of a function until none are left that may be; whether there were any."""
        before = self.count
        while groups := self.finder.groups(function):
            for group in groups:
                self.merge(group)
                self.count += len(group.members) - 1
            if not self.finder.may_go_on(groups):
                break
        return self.count > before

    def merge(self, group: Group) -> None:
        """Writes one scan in place of several."""
        members, signatures = group.ops, group.signatures
        first, last = members[0], members[-1]
        scan = ScanOp.of_attributes(signatures[0].attributes)
        remark(
            first,
            f"batched: {len(members)} independent loops of {scan.length} iterations are one loop",
        )
        _move_behind([group.function.ops[index] for index in group.between], last)
        operands = [list(op.operands) for op in members]
        order = _in_order(operands, group.may_be_rows)
        members, operands, signatures = (
            [each[i] for i in order] for each in (members, operands, signatures)
        )
        lifted, differing = self.lifted([s.named["jaxpr"].value for s in signatures])
        axis = batch_axis(len(members))
        with ir.InsertionPoint(last), first.location:
            extra = [[copy(op, "jaxpr.constant", [])[0] for op in row] for row in differing]
            rows = [[*e, *o] for e, o in zip(extra, operands, strict=True)]
            slices = len(rows[0]) - len(scan.operands(operands[0])[2])
            columns = list(zip(*rows, strict=True))
            dims = [
                None if all(v == c[0] for v in c) else int(i >= slices)
                for i, c in enumerate(columns)
            ]
            if extra[0]:
                model = replace(scan, body=lifted, num_consts=scan.num_consts + len(extra[0]))
                example = model.write(self.rules, rows[0])[0].owner
                rule = self.rules.batch(example, "jaxpr.scan", tuple(dims), axis)
                example.erase()
            else:
                with self.rules.functions.having_read(lifted, self.finder.body(lifted)):
                    rule = self.rules.batch(
                        members[0], "jaxpr.scan", tuple(dims), axis, signatures[0]
                    )
            args = [
                c[0] if d is None else self.stack(c, d) for c, d in zip(columns, dims, strict=True)
            ]
            outs = rule.inline(args, first.location)
            group.results = tuple([v.type for v in outs])
            for i, op in enumerate(members):
                for old, new, dim in zip(op.results, outs, rule.pattern, strict=True):
                    if is_used(old):
                        old.replace_all_uses_with(new if dim is None else self.row(new, i, dim))
        for op in members:
            erase(op)

    def lifted(self, symbols: Sequence[str]) -> tuple[str, list[list[Any]]]:
        """The body that takes those constants as its first arguments that differ, and for each of
        the bodies the ops of these."""
        symbol = symbols[0]
        if len(set(symbols)) == 1:
            return symbol, [[] for _ in symbols]
        constants = [self.finder.constants(symbol) for symbol in symbols]
        columns = zip(*constants, strict=True)
        differ = [len({_value(op) for op in column}) > 1 for column in columns]
        varying = [chosen(row, differ) for row in constants]
        if not any(differ):
            return symbol, varying
        function = self.rules.program.function(symbol)
        types = [*(op.results[0].type for op in varying[0]), *function.type.inputs]
        new = NewFunction(self.rules, symbol, types, function)
        count = len(varying[0])
        values = dict(zip(body_of(function).arguments, new.args[count:], strict=True))
        given = {op.results[0]: arg for op, arg in zip(varying[0], new.args, strict=False)}
        with new.body():
            for op, name, operands in ops_of(function):
                if op.results and op.results[0] in given:
                    values[op.results[0]] = given[op.results[0]]
                else:
                    results = copy(op, name, [values[v] for v in operands])
                    values.update(zip(op.results, results, strict=True))
        return new.finish([values[v] for v in returned(function)]), varying

    def stack(self, values: Sequence[ir.Value], dim: int) -> ir.Value:
        def stack(*xs: Any) -> list[Any]:
            import jax.numpy as jnp

            return [jnp.stack(xs, dim)]

        return self.rules.emit(stack, values, ("stack", dim))[0]

    def row(self, value: ir.Value, i: int, dim: int) -> ir.Value:
        def row(x: Any) -> list[Any]:
            from jax import lax

            return [lax.index_in_dim(x, i, dim, keepdims=False)]

        return self.rules.emit(row, [value], ("row", i, dim))[0]


def _in_order(operands: Sequence[Sequence[ir.Value]], may_be_rows: Sequence[bool]) -> Sequence[int]:
    """The order of scans in which rows of some array go into them.

    The derivatives of loops that were batched before come the last one first, and read the rows of
    what these have stacked: in order, this is read as it is.
    """
    order = range(len(operands))
    for column in itertools.compress(zip(*operands, strict=True), may_be_rows):
        windows = Windows.of(column)
        if windows is not None and len(set(windows.starts)) == len(order):
            return sorted(order, key=windows.starts.__getitem__)
    return order


def _value(constant: Any) -> Any:
    return tuple((key, attr) for key, attr in constant.attributes.items())


def _move_behind(moved: Sequence[Any], place: Any) -> None:
    """Moves ops, which are in order, behind another one."""
    for op in moved:
        op.operation.move_after(place.operation)
        place = op
