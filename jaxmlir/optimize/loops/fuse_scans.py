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

import collections
import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.analysis.call_graph import SCANS, keep_reachable
from jaxmlir.analysis.function_view import FunctionView, ops_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import KERNEL, Work, is_array, size
from jaxmlir.analysis.purity import is_pure, is_same_in_a_batch
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.builder import copy, erase, is_used, returned, trip_count
from jaxmlir.dialect.ir import body_of, func, ir, scope
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.vectorize.batchable import BATCHED_CALLS, SharedRules, called, can_batch
from jaxmlir.optimize.vectorize.windows import Windows
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.scan_op import PLAIN_SCAN, ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


# -- Which scans of a function may be one: alike, independent of each other, and worth it --


# Bytes that are put together and taken apart for each flop of the loop, at most.
MOVED = 1.0

# Ops that give parts of their operand, or all of it in another shape.
_PARTS = with_trait(Trait.SPLITTING) | with_trait(Trait.RESHAPE) | {"jaxpr.slice"}


class Group:
    """Scans of a function that are alike and do not depend on each other.

    Attributes:
      function: as it was read.
      members: their indices among the ops of the function.
      results: the types of what the one loop gives that they have become.
    """

    def __init__(self, function: FunctionView, work: float):
        """
        Args:
          work: of an iteration, with the starting of a kernel for each op.
        """
        self.function = function
        self._work = work
        self.members: list[int] = []
        self.results: tuple[ir.Type, ...] = ()

    @property
    def ops(self) -> list[Any]:
        return [self.function.ops[index] for index in self.members]

    @property
    def signatures(self) -> list[Signature]:
        return [self.function.signatures[index] for index in self.members]

    @property
    def may_be_rows(self) -> list[bool]:
        """Of each operand whether those of the members may be parts of one array."""
        columns = zip(*(self.function.operands[index] for index in self.members), strict=True)
        return [
            len(set(column)) == len(column) and len(set(map(self._whole, column))) == 1
            for column in columns
        ]

    def _whole(self, value: int) -> int | None:
        """The array that a value is a part of, if any; ``None`` for all that loops give, which may
        be parts of what others give that have become one."""
        makers, names = self.function.makers, self.function.names
        while (maker := makers[value]) is not None and names[maker] in _PARTS:
            value = self.function.operands[maker][0]
        return None if maker is not None and names[maker] == "jaxpr.scan" else value

    @functools.cached_property
    def between(self) -> list[int]:
        """The ops between the first and the last that depend on any of these, by index."""
        function = self.function
        dependent = {v for index in self.members for v in range(*function.results[index])}
        found = []
        for index in range(self.members[0] + 1, self.members[-1]):
            if not dependent.isdisjoint(function.operands[index]):
                dependent.update(range(*function.results[index]))
                found.append(index)
        return found

    def can_move(self) -> bool:
        """Whether what is between may come after the last."""
        return self.function.effects.keys().isdisjoint(self.between)

    def shares_rules(self, rules: SharedRules) -> bool:
        """Whether the one loop would run once what has a VJP rule in each of the members."""
        columns = zip(*(self.function.operands[index] for index in self.members), strict=True)
        differ = [len(set(column)) > 1 for column in columns]
        return rules.of_op(self.signatures[0], lambda: differ)

    def pays(self) -> bool:
        """Whether what is put together and taken apart is little beside the loops."""
        function = self.function
        first = function.signatures[self.members[0]]
        length = dict(first.attributes)["length"].value
        moved = sum(map(size, first.results))
        for column in zip(*(function.operands[index] for index in self.members), strict=True):
            if any(v != column[0] for v in column):
                moved += size(function.types[column[0]])
        return MOVED * moved <= length * self._work


class Finder:
    """Finds the scans of a program that may be one.

    Args:
      max_work: loops with bodies of more flops are left alone.
    """

    def __init__(self, program: Module, max_work: float):
        self._program = program
        self._max_work = max_work
        self._work = Work(program)
        self._shared_rules = SharedRules(program)
        # LoopEditor that differ in constants only have one number.
        self._numbers: dict[Any, int] = {}
        self._bodies: list[FunctionView] = []
        self._number_of: dict[str, int] = {}
        self._constants: dict[str, list[Any]] = {}
        self._costs: dict[int, float | None] = {}
        self._cheap_calls: dict[str, bool] = {}
        self._keys: dict[Signature, Any | None] = {}
        # The functions whose groups have become one scan each, since they were read.
        self._changed: set[str] = set()
        # Of the function that was looked at last: its candidates, and whether there was another
        # group of several.
        self._last: dict[int, Any] = {}
        self._left_out = False

    def groups(self, function: func.FuncOp) -> list[Group]:
        """Groups of two scans and more that stand one after the other, not into each other: none
        changes what is known of the next one."""
        body = self._read(function)
        self._left_out = False
        if body.names.count("jaxpr.scan") < 2:
            return []
        found: list[Group] = []
        end = -1
        for group in self._candidates(body):
            if len(group.members) == 1:
                continue
            if (
                group.members[0] > end
                and group.pays()
                and group.can_move()
                and not group.shares_rules(self._shared_rules)
            ):
                found.append(group)
                end = group.members[-1]
            else:
                self._left_out = True
        if found:
            self._changed.add(function.name.value)
        return found

    def may_go_on(self, groups: list[Group]) -> bool:
        """Whether there may be more groups in a function, of whose groups each has become a scan.

        Such a scan may be like another one that gives values of the same types, and neither needs
        the other.  To find that there is none takes less than to read the function again.
        """
        if self._left_out:
            return True
        function = groups[0].function
        keys = self._last
        ends = {group.members[-1]: group for group in groups}
        waiting = {index for group in groups for index in (*group.members[:-1], *group.between)}
        # Scans as bits: those that give values of some types, and those that each value depends on.
        batched: dict[Any, int] = collections.defaultdict(int)
        others: dict[Any, int] = collections.defaultdict(int)
        after: dict[int, int] = {}
        bit = 1

        def depends(index: int) -> int:
            found = 0
            for v in function.operands[index]:
                found |= after.get(v, 0)
            return found

        for index in range(len(function.ops)):
            if index in waiting:
                continue
            group = ends.get(index)
            if group is not None:
                before = 0
                for member in group.members:
                    before |= depends(member)
                if (batched[group.results] | others[group.results]) & ~before:
                    return True
                batched[group.results] |= bit
                for member in group.members:
                    after.update(dict.fromkeys(range(*function.results[member]), before | bit))
                bit <<= 1
                moved = group.between
            else:
                moved = (index,)
            for i in moved:
                before = depends(i)
                if i in keys:
                    results = function.signatures[i].results
                    if batched[results] & ~before:
                        return True
                    others[results] |= bit
                    before |= bit
                    bit <<= 1
                if before:
                    after.update(dict.fromkeys(range(*function.results[i]), before))
        return False

    def _read(self, function: func.FuncOp) -> FunctionView:
        if function.name.value in self._changed:
            return FunctionView(function)
        return analyses_of(self._program).body(function)

    def body(self, symbol: str) -> FunctionView | None:
        """The body of a scan that is in a group, if it is as it was when it was read."""
        if symbol in self._changed:
            return None
        return analyses_of(self._program).body(self._program.function(symbol))

    def constants(self, symbol: str) -> list[Any]:
        """The ops of the constants in the body of a scan that is in a group."""
        return self._constants[symbol]

    def _candidates(self, function: FunctionView) -> list[Group]:
        """Each scan in the first group of its key that has none it depends on; by their first
        members."""
        keys = self._last = self._keys_in(function)
        count = collections.Counter(keys.values())
        groups: list[Group] = []
        # Groups as bits: those of a key, and those that each value depends on.
        alike: dict[Any, int] = collections.defaultdict(int)
        after: dict[int, int] = {}
        for index, operands in enumerate(function.operands):
            depends = 0
            for v in operands:
                depends |= after.get(v, 0)
            key = keys.get(index)
            if key is not None and count[key] > 1 and (work := self._cost(key[0])) is not None:
                free = alike[key] & ~depends
                bit = free & -free
                if not bit:
                    bit = 1 << len(groups)
                    alike[key] |= bit
                    groups.append(Group(function, work))
                groups[bit.bit_length() - 1].members.append(index)
                depends |= bit
            if depends:
                after.update(dict.fromkeys(range(*function.results[index]), depends))
        return groups

    def _keys_in(self, function: FunctionView) -> dict[int, Any]:
        """What each scan that is a candidate has to have in common with others, by index."""
        keys = {}
        for index, signature in enumerate(function.signatures):
            if signature.name == "jaxpr.scan" and (key := self._key(signature)) is not None:
                keys[index] = key
        return keys

    def _key(self, signature: Signature) -> Any | None:
        """What scans have to have in common; ``None`` if an op is no candidate."""
        if signature not in self._keys:
            self._keys[signature] = self._make_key(signature)
        return self._keys[signature]

    def _make_key(self, signature: Signature) -> Any | None:
        attributes = dict(signature.attributes)
        if not PLAIN_SCAN.issuperset(attributes) or not signature.results:
            return None
        if not all(map(is_array, (*signature.operands, *signature.results))):
            return None
        if trip_count(codec.decode(attributes["length"])) is None:
            return None
        number = self._number(attributes.pop("jaxpr").value)
        return number, tuple(attributes.items()), signature.operands, signature.results

    def _number(self, symbol: str) -> int:
        """A number for a body, the same for those that differ in constants only."""
        if symbol not in self._number_of:
            body = self._read(self._program.function(symbol))
            named = zip(body.ops, body.names, strict=True)
            self._constants[symbol] = [op for op, name in named if name == "jaxpr.constant"]
            number = self._numbers.get(body.likeness)
            if number is None:
                number = self._numbers.setdefault(body.structure, len(self._bodies))
                if body.likeness is not None:
                    self._numbers[body.likeness] = number
            self._number_of[symbol] = number
            if number == len(self._bodies):
                self._bodies.append(body)
        return self._number_of[symbol]

    def _cost(self, number: int) -> float | None:
        """The work of an iteration of a body; ``None`` if it is not to be batched."""
        if number not in self._costs:
            body = self._bodies[number]
            work = self._cheap(body)
            self._costs[number] = None if work is None else work + KERNEL * len(body.ops)
        return self._costs[number]

    def _cheap(self, body: FunctionView) -> float | None:
        """The work of a body; ``None`` if a batch of it costs more for each member than it does."""
        total = 0.0
        for index, signature in enumerate(body.signatures):
            name = signature.name
            record = ops.record_of(name)
            if record is None or signature.is_lasting or not is_pure(name):
                return None
            if not can_batch(self._program, signature):
                return None
            if not is_same_in_a_batch(name, (*signature.operands, *signature.results)):
                return None
            if record.functions:
                if name not in BATCHED_CALLS:
                    return None
                callee = called(signature)
                if callee not in self._cheap_calls:
                    work = self._cheap(self._read(self._program.function(callee)))
                    self._cheap_calls[callee] = work is not None
                if not self._cheap_calls[callee]:
                    return None
            total += self._work.at(body, index)
        return total if total <= self._max_work else None


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
