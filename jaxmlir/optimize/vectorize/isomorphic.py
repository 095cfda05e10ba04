"""Isomorphic groups: equal ops that a function runs several times on different operands.

A :class:`Group` consists of *members*, each of which has the same ops: consecutive blocks, the
lanes of a sum, calls of one function, scans of one body.  Passes differ in where they look for
members, and in how they replace them.  This module has their common parts: the inputs and outputs
of a group, the work that a batch of it saves and the bytes that it moves, and how it is written as
a function, a batch or a scan.

A *column* is one value of each member, and a *pack* one op of each member.  Both are tuples of the
numbers that values and ops have in the :class:`FunctionView`, one for each member.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from jaxmlir.analysis.function_view import FunctionView, ops_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work, is_plain_signature, size
from jaxmlir.analysis.repeated_blocks import op_string_of
from jaxmlir.analysis.strided_view import SLICES
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import build, clone, copy, erase, inline, is_used, returned
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import scalar_type
from jaxmlir.optimize.vectorize.batchable import COMMON, OF_NARROW, Batchable, is_slow_alone
from jaxmlir.optimize.vectorize.stacking import Windows, row_of, rows_of, stack
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.rewriting.driver import keep_reachable
from jaxmlir.support.lazy import memoized
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis, vmap_of

Column = tuple[int, ...]
"""A value, or an op, of each member."""

# Time of gradients of blocks apart / batched, on two cores with the XLA of jax 0.10: k blocks, each
# of two products of b x n numbers with matrices of n x n, unless it is attention.
#   one matrix for all      k 16, b   1, n 128   1.8      saved 2.0 of  1 Mflops, nothing stacked
#                           k 16, b  16, n 128   1.05           2.0    17
#                           k  8, b 128, n 256   0.8            3.7   270
#   a matrix for each       k  8, b   1, n  64   0.8            0.2   0.1         260 KB stacked
#                           k  8, b  64, n 128   0.7            0.4    34           1 MB
#   b x n by n x h for each,
#   then by h x 1           k  8, b  50, n   8, h 16  1.3       0.02   0.02        40 KB
#                           k 16, b 400, n  16, h 32  0.55     -0.01   0.5         33 KB
#   a head of attention     k  4, b  64, n  64   1.3            0.4     3          50 KB
#                           k  8, b 128, n 128   1.5            1.9    25         200 KB
#                           k  4, b 256, n 256   1.1            2.6   100         800 KB
#   b x d by d x e          k  8, b 256, d 128, e 16  1.7       0.5    10         200 KB
# The part of the work that has to be saved, and the part of the savings that stacking may take:
# stacked values are written and read, and so are their cotangents.
MIN_GAIN = 0.04
STACKED = 0.5


class Group:
    """Isomorphic ops of a function.

    Attributes:
      rules: the rules of the program.
      body: the function as it was read; the operands of its ops may have changed since.
      packs: the ops, in the order in which a member runs them.
      outputs: the results that are used outside of the group.
      constants: the values of the function that are known to be constants.
    """

    def __init__(
        self,
        rules: Rules,
        body: FunctionView,
        packs: list[Column],
        outputs: Sequence[Column] = (),
        constants: Collection[int] = frozenset(),
    ):
        self.rules = rules
        self.body = body
        self.packs = packs
        self.outputs: list[Column] = list(outputs)
        self._constants = frozenset(constants)

    # -- inputs and outputs --

    @property
    def count(self) -> int:
        """The number of members."""
        return len(self.packs[0])

    def operands(self, pack: Column) -> list[Column]:
        """The columns that a pack reads."""
        return list(zip(*[self.body.operands[op] for op in pack], strict=True))

    def results(self, pack: Column) -> list[Column]:
        """The columns of a pack's results."""
        return list(zip(*[range(*self.body.results[op]) for op in pack], strict=True))

    @functools.cached_property
    def _readers(self) -> dict[Column, tuple[Column, int]]:
        """The first pack that reads each column, and the number of the operand."""
        readers: dict[Column, tuple[Column, int]] = {}
        for pack in self.packs:
            for j, column in enumerate(self.operands(pack)):
                readers.setdefault(column, (pack, j))
        return readers

    @functools.cached_property
    def inputs(self) -> list[Column]:
        """The columns that are read from outside of the group, in order of their first use."""
        produced = {column for pack in self.packs for column in self.results(pack)}
        return [column for column in self._readers if column not in produced]

    def value(self, column: Column, member: int) -> ir.Value:
        """The current value of an input for a member."""
        pack, j = self._readers[column]
        return self.body.ops[pack[member]].operands[j]

    def values(self, column: Column) -> list[ir.Value]:
        """The current values of an input for all members."""
        pack, j = self._readers[column]
        return [self.body.ops[op].operands[j] for op in pack]

    def given(self, column: Column) -> list[ir.Value]:
        """The values of an output for all members."""
        return list(map(self.body.value, column))

    def type(self, column: Column) -> ir.Type:
        """The type of a column's values."""
        return self.body.types[column[0]]

    def is_same(self, column: Column) -> bool:
        """Whether a column is the same value for all members."""
        return column.count(column[0]) == len(column)

    def is_known(self, column: Column) -> bool:
        """Whether a column consists of constants."""
        return self._constants.issuperset(column)

    def is_at_hand(self, column: Column) -> bool:
        """Whether an input is available as one array without a copy: if its values are constants,
        or together a part of one array."""
        if self.is_known(column):
            return True
        windows = Windows.of(self.values(column))
        return windows is not None and windows.is_view

    def split_constants(self) -> tuple[list[Column], list[Column]]:
        """The inputs in two parts: those that the function of a member takes as arguments, and
        those that are the same constant for all members, which are copied into it."""
        parts: tuple[list[Column], list[Column]] = ([], [])
        for column in self.inputs:
            parts[self.is_same(column) and self.is_known(column)].append(column)
        return parts

    # -- whether a batch pays --

    def gain(self, work: Work) -> tuple[float, float]:
        """The work of a member that depends on differing inputs, and how much of it a batch saves
        for each member after the first."""
        varying = {column for column in self.inputs if not self.is_same(column)}
        total = saved = 0.0
        for pack in self.packs:
            operands, index = self.operands(pack), pack[0]
            pattern = [column in varying for column in operands]
            if True not in pattern:
                continue
            varying.update(self.results(pack))
            total += work.at(self.body, index)
            name = self.body.names[index]
            if name not in FUSIBLE and name not in SLICES:
                saved += work.kernel
            if name in with_trait(Trait.CONTRACTION) and not all(pattern):
                # The common factor is read once.
                common = pattern.index(False)
                saved += size(self.type(operands[common]))
                signature = self.body.signatures[index]
                if name in COMMON:
                    if is_slow_alone(signature.named["dimension_numbers"], signature.results[0]):
                        saved += OF_NARROW * work.at(self.body, index)
                elif common == 0:
                    # The members are within the rows of the result, which has to be sliced.
                    saved -= size(signature.results[0])
        return total, saved

    def moved(self, apart: Iterable[Column]) -> int:
        """The bytes of the inputs that a batch stacks, and of the outputs that are sliced.

        Args:
          apart: the outputs that are sliced into rows.
        """
        return self.count * sum(size(self.type(column)) for column in (*self.together, *apart))

    @functools.cached_property
    def together(self) -> list[Column]:
        """The inputs that a batch stacks."""
        return [c for c in self.inputs if not self.is_same(c) and not self.is_at_hand(c)]

    def pays(
        self, search: GroupSearch, total: float, saved: float, apart: Callable[[], Iterable[Column]]
    ) -> bool:
        """Whether the savings of a batch are worth the stacked inputs and sliced outputs.

        Args:
          search: has the thresholds.
          total, saved: the work of a member, and the part that each but the first saves.
          apart: gives the outputs that are sliced into rows.
        """
        work = search.work
        gained = (self.count - 1) * saved - work.stacked_value * self.count * len(self.together)
        # The derivative slices the cotangents of stacked inputs, by a kernel for each member.  Each
        # is compiled in 20 ms, as it reads another place; equal kernels are compiled once.  Where
        # stacking takes a kernel for each value, one kernel slices them all.
        values = [c for c in self.together if Windows.of(self.values(c)) is None]
        gained -= max(work.kernel - work.stacked_value, 0.0) * self.count * len(values)
        if gained < search.min_gain * self.count * total:
            return False
        return work.stored_byte * self.moved(apart()) <= search.stacked * gained

    # -- writing a group --

    def write_function(
        self,
        name: str,
        arguments: Sequence[Column],
        outputs: Sequence[Column],
        constants: Sequence[Column] = (),
    ) -> str:
        """Writes the first member as a function; returns its symbol.

        Args:
          arguments: the inputs that are arguments of the function.
          outputs: the values that it returns: results, or some of its arguments.
          constants: the other inputs, which are constants in the function.
        """
        new = NewFunction(self.rules, name, list(map(self.type, arguments)), self.body.function)
        values = dict(zip(arguments, new.args, strict=True))
        with new.body():
            for column in constants:
                values[column] = clone(self.value(column, 0))
            for pack in self.packs:
                operands = [values[column] for column in self.operands(pack)]
                copies = self.body.copy(pack[0], operands)
                values.update(zip(self.results(pack), copies, strict=True))
        return new.finish([values[column] for column in outputs])

    def write_batch(
        self, name: str, outputs: Sequence[Column], place: Any, location: ir.Location
    ) -> list[ir.Value]:
        """Writes the members as one batch; returns an array of rows for each output.

        Args:
          name: the name of the function of a member.
          place: the op before which the batch is written.
        """
        arguments, constants = self.split_constants()
        symbol = self.write_function(name, arguments, outputs, constants)
        dims = tuple([None if self.is_same(column) else 0 for column in arguments])
        axis = batch_axis(self.count)
        batched, _ = vmap_of(self.rules, symbol, dims, axis, (0,) * len(outputs))
        with ir.InsertionPoint(place), location:
            args = list(map(self._together, arguments))
            return inline(self.rules.program.function(batched), args)

    def write_scan(
        self,
        name: str,
        carry: Mapping[Column, Column],
        outputs: Sequence[Column],
        place: Any,
        location: ir.Location,
    ) -> list[ir.Value]:
        """Writes the members as the iterations of a scan; returns the final carried values, and an
        array of rows for each output.

        Args:
          name: the name of the body.
          carry: the carried inputs, each with its value for the next member: a result, or another
            carried input.
        """
        symbol, consts, xs = self.write_scan_body(name, carry, outputs)
        scan = ScanOp(symbol, len(consts), len(carry), self.count, False, {})
        with ir.InsertionPoint(place), location:
            firsts = [self.value(column, 0) for column in (*consts, *carry)]
            return scan.write(self.rules, [*firsts, *map(self._together, xs)])

    def write_scan_body(
        self, name: str, carry: Mapping[Column, Column], outputs: Sequence[Column]
    ) -> tuple[str, list[Column], list[Column]]:
        """Writes the body ``(*consts, *carry, *xs) -> (*carry, *outputs)``; returns its symbol,
        ``consts`` and ``xs``."""
        arguments, constants = self.split_constants()
        consts = [column for column in arguments if self.is_same(column)]
        xs = [c for c in arguments if not self.is_same(c) and c not in carry]
        outs = [*carry.values(), *outputs]
        return self.write_function(name, [*consts, *carry, *xs], outs, constants), consts, xs

    def _together(self, column: Column) -> ir.Value:
        """An input at the insertion point: the value if it is the same for all, else a stack."""
        same = self.is_same(column)
        return self.value(column, 0) if same else stack(self.rules, self.values(column))

    def use_rows(self, column: Column, rows: ir.Value) -> None:
        """Replaces an output by the rows of an array, each sliced at the insertion point if it is
        used."""
        for member, value in enumerate(self.given(column)):
            if is_used(value):
                value.replace_all_uses_with(row_of(self.rules, rows, member))

    def take_apart(self, column: Column, rows: ir.Value) -> None:
        """Replaces an output by the rows of an array, all split off at the insertion point by one
        op."""
        for value, row in zip(self.given(column), rows_of(self.rules, rows), strict=True):
            value.replace_all_uses_with(row)

    def erase(self) -> None:
        """Erases the ops, whose results must have no users any more."""
        for op in sorted({op for pack in self.packs for op in pack}, reverse=True):
            erase(self.body.ops[op])


# -- Groups of single ops: with equal keys, and independent of each other --


def independent_groups(
    operands: Iterable[Iterable[int]],
    results: Iterable[Iterable[int]],
    keys: Mapping[int, Hashable],
) -> list[list[int]]:
    """Groups of ops with equal keys, none of which depends on another op of its group.

    Each op is in the first group of its key that it does not depend on.  Groups are in the order of
    their first members; some have one member only.

    Args:
      operands, results: the values of each op of a function, in order.
      keys: the keys of the ops that may be in groups, by index.
    """
    count = collections.Counter(keys.values())
    groups: list[list[int]] = []
    # Sets of groups as bits: the groups of each key, and the groups that each value depends on.
    alike: dict[Hashable, int] = collections.defaultdict(int)
    reached: dict[int, int] = {}
    for index, (consumed, produced) in enumerate(zip(operands, results, strict=True)):
        depends = 0
        for value in consumed:
            depends |= reached.get(value, 0)
        key = keys.get(index)
        if key is not None and count[key] > 1:
            free = alike[key] & ~depends
            bit = free & -free
            if not bit:
                bit = 1 << len(groups)
                alike[key] |= bit
                groups.append([])
            groups[bit.bit_length() - 1].append(index)
            depends |= bit
        if depends:
            reached.update(dict.fromkeys(produced, depends))
    return groups


def dependents_between(body: FunctionView, members: Collection[int]) -> list[int]:
    """The ops between the first and the last member that depend on a member, by index."""
    dependent = {value for op in members for value in range(*body.results[op])}
    between = []
    for op in range(min(members) + 1, max(members)):
        if op not in members and not dependent.isdisjoint(body.operands[op]):
            dependent.update(range(*body.results[op]))
            between.append(op)
    return between


def may_move(rules: Rules, body: FunctionView, moved: Iterable[int]) -> bool:
    """Whether ops may move behind others: none has effects, or may have any."""
    return not any(rules.counted.keeps_order(body.signatures[index]) for index in moved)


def move_behind(body: FunctionView, moved: Iterable[int], place: Any) -> None:
    """Moves ops, in their order, behind another one."""
    place = place.operation
    for index in moved:
        operation = body.ops[index].operation
        operation.move_after(place)
        place = operation


# -- Blocks: slices of one size are alike wherever they begin --
#
# Static indices, as in ``logits[label]`` where labels are numbers, are attributes, and would make
# alike blocks differ.  As constant operands of a ``dynamic_slice``, they are stacked like other
# constants.  ``jaxpr-canonicalize`` turns a ``dynamic_slice`` that was not grouped into a slice
# again.


# The least number of blocks.
MIN_BLOCKS = 4

_SLICE = "jaxpr.slice"


def with_dynamic_slices(
    program: Module, body: FunctionView, search: Callable[[FunctionView], int]
) -> int:
    """Runs a search in a function after slices that differ in their starts were made dynamic.

    Returns how many changes the search made; without any the slices are restored.

    Args:
      search: reads a function, and changes it.
    """
    slices = _own_slices(body)
    if not slices:
        return search(body)
    attributes = [dict(op.attributes.items()) for op in slices]
    dynamic = [_as_dynamic(op) for op in slices]
    count = search(FunctionView(body.function))
    if not count:
        for op, of_slice in zip(dynamic, attributes, strict=True):
            _as_static(op, of_slice)
        # The text is the same, but the ops are not those that were read.
        program.changed()
    return count


def _own_slices(body: FunctionView) -> list[Any]:
    """The slices to make dynamic: of one type and size, of different values, and with different
    starts.  Slices of arguments are excluded, as they are no part of a block."""
    if _SLICE not in body.names:
        return []
    alike: dict[tuple[ir.Type, ...], list[int]] = collections.defaultdict(list)
    for i in op_string_of(body).index:
        signature = body.signatures[i]
        if signature.name == _SLICE and _is_dense(signature):
            alike[signature.types].append(i)
    return [
        body.ops[i]
        for indices in alike.values()
        if len(indices) >= MIN_BLOCKS
        and len({body.operands[i][0] for i in indices}) == len(indices)
        and len({body.signatures[i] for i in indices}) > 1
        for i in indices
    ]


def _is_dense(signature: Signature) -> bool:
    """Whether a slice has strides of 1 and static shapes."""
    strides = (codec.decode(attr) for name, attr in signature.attributes if name == "strides")
    return is_plain_signature(signature) and all(set(steps or ()) <= {1} for steps in strides)


def _as_dynamic(op: Any) -> Any:
    """Replaces a slice by a ``dynamic_slice``."""
    (x,), (result,) = op.operands, op.results
    with ir.InsertionPoint(op), op.location:
        starts = [
            build("constant", [], scalar_type(np.int32), value=np.array(start, np.int32))
            for start in codec.decode(op.attributes["start_indices"])
        ]
        sizes = tuple(result.type.shape)
        dynamic = build("dynamic_slice", [x, *starts], result.type, slice_sizes=sizes)
    result.replace_all_uses_with(dynamic)
    op.operation.erase()
    return dynamic.owner


def _as_static(op: Any, attributes: dict[str, ir.Attribute]) -> None:
    """Undoes :func:`_as_dynamic` for a slice with those attributes."""
    x, *indices = op.operands
    with ir.InsertionPoint(op), op.location:
        static = ir.Operation.create(_SLICE, [op.result.type], [x], attributes).result
    op.result.replace_all_uses_with(static)
    for dead in (op, *(v.owner for v in indices)):
        erase(dead)


# -- Functions that differ in constants only: one function that takes these as arguments --


class BodyClasses:
    """Classes of the private functions of a program that differ in constants only.

    Args:
      read: gives the current view of a function.
    """

    def __init__(self, rules: Rules, read: Callable[[str], FunctionView]):
        self._rules = rules
        self._read = read
        self._numbers: dict[Hashable, int] = {}
        self._constants: dict[str, list[Any]] = {}
        self._firsts: list[FunctionView] = []

    @memoized
    def number(self, symbol: str) -> int:
        """The number of a function's class."""
        body = self._read(symbol)
        named = zip(body.ops, body.names, strict=True)
        self._constants[symbol] = [op for op, name in named if name == "jaxpr.constant"]
        number = self._numbers.setdefault(_structure(body), len(self._firsts))
        if number == len(self._firsts):
            self._firsts.append(body)
        return number

    def first(self, number: int) -> FunctionView:
        """The first function of a class."""
        return self._firsts[number]

    def unified(self, symbols: Sequence[str]) -> tuple[str, list[list[Any]]]:
        """One function for functions of one class, and the constant ops that are its arguments for
        each of them.

        The function takes the constants that differ as its first arguments.
        """
        symbol = symbols[0]
        if len(set(symbols)) == 1:
            return symbol, [[] for _ in symbols]
        constants = [self._constants[symbol] for symbol in symbols]
        columns = zip(*constants, strict=True)
        differ = [len({tuple(op.attributes.items()) for op in column}) > 1 for column in columns]
        varying = [chosen(row, differ) for row in constants]
        if not any(differ):
            return symbol, varying
        function = self._rules.program.function(symbol)
        types = [*(op.results[0].type for op in varying[0]), *function.type.inputs]
        new = NewFunction(self._rules, symbol, types, function)
        count = len(varying[0])
        values = dict(zip(body_of(function).arguments, new.args[count:], strict=True))
        lifted = {op.results[0]: arg for op, arg in zip(varying[0], new.args, strict=False)}
        with new.body():
            for op, name, operands in ops_of(function):
                if op.results and op.results[0] in lifted:
                    values[op.results[0]] = lifted[op.results[0]]
                else:
                    results = copy(op, name, [values[v] for v in operands])
                    values.update(zip(op.results, results, strict=True))
        return new.finish([values[v] for v in returned(function)]), varying


def _structure(body: FunctionView) -> Hashable:
    """A function without the values of its constants."""
    return (
        tuple(body.types[: body.arity]),
        tuple([s.results if s.name == "jaxpr.constant" else s for s in body.signatures]),
        tuple(map(tuple, body.operands)),
        tuple(body.returned),
    )


# -- Looking for groups in all functions --


class GroupSearch:
    """A search for groups in functions; it writes batches of the groups that pay.

    Attributes:
      min_gain: the part of the work that has to be saved.
      stacked: the part of the savings that stacking and slicing values may take.
    """

    def __init__(self, rules: Rules, work: Work, min_gain: float, stacked: float):
        self.rules: Rules = rules
        self.work: Work = work
        self.min_gain: float = min_gain
        self.stacked: float = stacked
        self.batchable: Batchable = Batchable(rules)

    def batch(self, body: FunctionView) -> int:
        """Makes batches of groups in a function, in place; returns how many."""
        raise NotImplementedError


class BatchGroups(Pass):
    """Base of passes that make batches of isomorphic groups.

    Options:
      min-gain: the part of the work that has to be saved.
      stacked: the part of the savings that stacking and slicing values may take.
    """

    search: ClassVar[type[GroupSearch]]
    """The class that finds the groups and batches them."""
    max_rounds: ClassVar[int]
    """How often a function is read at most; it is read again if batches were made in it."""
    min_gain: Amount = MIN_GAIN
    stacked: Amount = STACKED

    def run(self, program: Module) -> bool:
        changed = False
        graph = analyses_of(program).graph
        entries = graph.entry_points()
        search = self.search(Rules(program), Work(program), self.min_gain, self.stacked)
        for function in graph.outside_kernels():
            body = analyses_of(program).body(function)
            for _ in range(self.max_rounds):
                if not search.batch(body):
                    break
                changed = True
                body = FunctionView(function)
        if changed:
            keep_reachable(program, entries)
        return changed
