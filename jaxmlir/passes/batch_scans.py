"""``jaxpr-batch-scans``: scans that do the same independently of each other become one.

Two scans of one body and length, neither of which reads what the other gives, are one scan of the
batched body: operands that differ are stacked, those that are the same stay unbatched, and results
are the rows of the batched ones.  Bodies that differ in constants only count as the same; the
constants are stacked, too.  What stands between the scans and reads the first one's results moves
behind the last one.

An iteration of a small body is mostly the starting of its kernels, and a batch starts them once.
That is all there is to win, so large bodies are left alone, and so are those with branches, loops
or unknown ops in them, which batches make dearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir import ops
from jaxmlir._lists import chosen
from jaxmlir.effect_attrs import has_lasting_effects
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import (
    NewFunction,
    copy,
    entry_points,
    keep_reachable,
    kernels,
    ops_of,
    returned,
)
from jaxmlir.passes._remarks import remark
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import KERNEL, Work, is_array, size
from jaxmlir.passes.higher_order._scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.passes.vmap import batch_axis

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Two to four scans of 50 iterations, h' = tanh(x + h w), on two cores and with the XLA of jax 0.10
# and 0.12: time apart / time of the batch of the gradient, with rows x columns, flops of a body.
#             w shared    w their own
#  1 x 32    1.2 to 1.8   1.6 to 2.7     2 Kflops
#  8 x 64    1.2          1.1           75 Kflops
# 32 x 128   1.0 to 1.1   1.0            1 Mflops
# Without product, x + h: 1 x 64 1.4, 1 Kflops; 32 x 1024 1.1 to 1.2 in time and 0.9 to 1.0 in wall
# time, 600 Kflops.
MAX_WORK = 1e5
# Bytes that are put together and taken apart for each flop of the loop, at most.
MOVED = 1.0

# Ops with functions that are no dearer in a batch.
_CALLS = frozenset(
    {"jaxpr.custom_jvp_call_jaxpr", "jaxpr.custom_vjp_call_jaxpr", "jaxpr.jit", "jaxpr.remat2"}
)


@dataclass(frozen=True)
class BatchScans(Pass):
    """Make independent scans of the same body and length one scan of a batched body.

    Options:
      max-work: scans with bodies of more flops are left alone.
    """

    name: ClassVar[str] = "jaxpr-batch-scans"
    max_work: float = MAX_WORK

    def run(self, program: Program) -> None:
        batch_scans(program, self.max_work)


def batch_scans(program: Program, max_work: float = MAX_WORK) -> int:
    """Batches scans in place; how many scans went."""
    with scope():
        entries = entry_points(program.functions)
        skipped = kernels(program.functions)
        batches = _Batches(program, max_work)
        for symbol, function in list(program.functions.items()):
            if symbol not in skipped:
                batches.visit(function)
        keep_reachable(program, entries)
    program.changed()
    return batches.count


@dataclass(frozen=True)
class _Body:
    """A body with its constants apart from it.

    Attributes:
      key: equal for bodies that differ in constants only.
      constants: the ops of these, in order.
    """

    key: Any
    constants: tuple[Any, ...]


class _Batches:
    def __init__(self, program: Program, max_work: float):
        self.rules = Rules(program)
        self.work = Work(program)
        self.max_work = max_work
        self.count = 0
        self._bodies: dict[str, _Body | None] = {}

    def visit(self, function: func.FuncOp) -> None:
        while (group := self.group(function)) is not None:
            self.merge(function, group)
            self.count += len(group) - 1

    def group(self, function: func.FuncOp) -> list[Any] | None:
        """The first scans of a function that may be one."""
        groups: dict[Any, list[tuple[Any, int]]] = {}
        # For each value the scans that it depends on, as bits.
        after: dict[ir.Value, int] = {}
        scans: list[Any] = []
        for op, name, operands in ops_of(function):
            depends = 0
            for v in operands:
                depends |= after.get(v, 0)
            key = self.key(op) if name == "jaxpr.scan" else None
            if key is not None:
                found = groups.setdefault(key, [])
                if not any(depends >> index & 1 for _, index in found):
                    found.append((op, len(scans)))
                depends |= 1 << len(scans)
                scans.append(op)
            if depends:
                after.update(dict.fromkeys(op.results, depends))
        for found in groups.values():
            members = [op for op, _ in found]
            if len(members) > 1 and self.pays(members) and _can_move(function, members):
                return members
        return None

    def key(self, op: Any) -> Any | None:
        """What scans have to have in common; ``None`` if an op is no candidate."""
        attributes = dict(op.attributes.items())
        if not PLAIN_SCAN.issuperset(attributes) or not len(op.results):
            return None
        if not all(is_array(v.type) for v in (*op.operands, *op.results)):
            return None
        symbol = attributes.pop("jaxpr").value
        if symbol not in self._bodies:
            self._bodies[symbol] = self.body(symbol)
        body = self._bodies[symbol]
        if body is None:
            return None
        types = tuple([v.type for v in op.operands]), tuple([v.type for v in op.results])
        return body.key, tuple(attributes.items()), types

    def body(self, symbol: str) -> _Body | None:
        """A body apart from its constants; ``None`` if it is not to be batched."""
        function = self.rules.program.function(symbol)
        if not self.is_cheap(function):
            return None
        numbers = {v: i for i, v in enumerate(function.arguments)}
        found, constants = [], []
        for op, name, operands in ops_of(function):
            items = tuple(op.attributes.items())
            if name == "jaxpr.constant":
                constants.append(op)
                items = ()
            types = tuple(op.results.types)
            found.append((name, items, tuple([numbers[v] for v in operands]), types))
            for v in op.results:
                numbers[v] = len(numbers)
        returns = tuple([numbers[v] for v in returned(function)])
        return _Body((tuple(found), returns, function.type), tuple(constants))

    def is_cheap(self, function: func.FuncOp) -> bool:
        """Whether a batch of a body costs no more for each member than the body does."""
        total = 0.0
        for op, name, _ in ops_of(function):
            record = ops.OPS.get(name.removeprefix("jaxpr."))
            if record is None or has_lasting_effects(op, name):
                return False
            if record.functions and name not in _CALLS:
                return False
            if name in _CALLS and not all(map(self.is_cheap, self.functions_of(op))):
                return False
            total += self.work.of(op, name)
        return total <= self.max_work

    def functions_of(self, op: Any) -> Iterator[func.FuncOp]:
        key = "jaxpr" if "jaxpr" in op.attributes else "call_jaxpr"
        yield self.rules.program.function(op.attributes[key].value)

    def pays(self, members: Sequence[Any]) -> bool:
        """Whether what is put together and taken apart is little beside the loops."""
        op, scan = members[0], ScanOp.of(members[0])
        function = self.rules.program.function(scan.body)
        body = sum(self.work.of(inner, name) for inner, name, _ in ops_of(function))
        moved = sum(size(v.type) for v in op.results)
        for column in zip(*(m.operands for m in members), strict=True):
            if any(v != column[0] for v in column):
                moved += size(column[0].type)
        started = KERNEL * sum(1 for _ in ops_of(function))
        return MOVED * moved <= scan.length * (body + started)

    def merge(self, function: func.FuncOp, members: Sequence[Any]) -> None:
        """Writes one scan in place of several."""
        first, last = members[0], members[-1]
        scan = ScanOp.of(first)
        remark(
            first,
            f"batched: {len(members)} independent loops of {scan.length} iterations are one loop",
        )
        _move_behind(function, members)
        operands = [list(op.operands) for op in members]
        lifted, differing = self.lifted(members)
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
            model = replace(scan, body=lifted, num_consts=scan.num_consts + len(extra[0]))
            example = model.write(self.rules, rows[0])[0].owner
            rule = self.rules.batch(example, "jaxpr.scan", tuple(dims), axis)
            args = [
                c[0] if d is None else self.stack(c, d) for c, d in zip(columns, dims, strict=True)
            ]
            outs = rule.inline(args, first.location)
            for i, op in enumerate(members):
                for old, new, dim in zip(op.results, outs, rule.pattern, strict=True):
                    if next(iter(old.uses), None) is not None:
                        old.replace_all_uses_with(new if dim is None else self.row(new, i, dim))
            example.operation.erase()
        for op in members:
            op.operation.erase()

    def lifted(self, members: Sequence[Any]) -> tuple[str, list[list[Any]]]:
        """The body that takes those constants as its first arguments that differ, and for each scan
        the ops of these."""
        symbol = ScanOp.of(members[0]).body
        bodies = [b for op in members if (b := self._bodies[ScanOp.of(op).body])]
        columns = zip(*(body.constants for body in bodies), strict=True)
        differ = [len({_value(op) for op in column}) > 1 for column in columns]
        varying = [chosen(body.constants, differ) for body in bodies]
        if not any(differ):
            return symbol, varying
        function = self.rules.program.function(symbol)
        types = [*(op.results[0].type for op in varying[0]), *function.type.inputs]
        new = NewFunction(self.rules, symbol, types, function)
        count = len(varying[0])
        values = dict(zip(function.arguments, new.args[count:], strict=True))
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


def _value(constant: Any) -> Any:
    return tuple((key, attr) for key, attr in constant.attributes.items())


def _between(function: func.FuncOp, members: Sequence[Any]) -> list[Any]:
    """The ops between the first and the last of some scans that depend on any of these."""
    dependent = {v for op in members for v in op.results}
    last = members[-1].results[0]
    found = []
    for op, _, operands in ops_of(function):
        results = list(op.results)
        if last in results:
            break
        if not dependent.isdisjoint(operands):
            dependent.update(results)
            found.append(op)
    return found


def _can_move(function: func.FuncOp, members: Sequence[Any]) -> bool:
    return not any("jaxpr.effects" in op.attributes for op in _between(function, members))


def _move_behind(function: func.FuncOp, members: Sequence[Any]) -> None:
    """Moves what depends on the scans behind the last one."""
    place = members[-1].operation
    for op in _between(function, members):
        op.operation.move_after(place)
        place = op.operation
