"""``jaxpr-sink-reductions``: sums that a loop adds to but does not read are computed after it.

The gradient of a loop with respect to a value that all iterations share, a weight matrix say, is a
sum over the iterations, which the backward loop carries::

    w' = w' + u[t] v[t]^T

Each iteration computes an outer product as large as the matrix, and reads and writes the sum.  The
factors are much smaller.  If they are stacked, one product after the loop computes the sum; it
contracts the iterations, too::

    for t: w' = w' + u[t] v[t]^T     ->    w' + U^T V
    for t: s = s + e[i[t]] := v[t]   ->    s.at[i].add(V)
    for t: s = s + c * L(v[t])       ->    c * L(sum of v[t])

A carried value that only its own sum reads leaves the loop, term by term.  A term is a *core* under
linear, loop-invariant ops (transposes, reshapes, products with constants of the loop), which are
applied to the sum instead.  The sum of a core depends on the core:

- a product of two values (``dot_general``) becomes the product of the stacked values, which
  contracts the iterations as well;
- an array of zeros of which a part is set or added to (``dynamic_update_slice``, ``scatter``)
  becomes one scatter of all parts;
- any other value is summed up in the loop as before, but without the ops around it.

Operands that are slices of the loop are stacked already; others are stacked by the loop.  That pays
if they are small beside a large sum (``MOVED``, ``MIN_BYTES``).  It is not done if they, and the
copies that the product makes in another layout, take more memory than the slices that the loop
reads (``MEMORY``), or if scattering one more part takes longer than the sum in the loop: on a TPU a
scatter is a loop over the parts.  Where a loop waits for its kernels, products of small sums leave
it as well if the loop then starts fewer kernels.  Sums are added up, and so rounded, in another
order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.call_graph import SCANS, CallGraph
from jaxmlir.analysis.function_view import OpView, number_of, ops_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work, can_be_summed, is_plain_array, is_plain_op, size
from jaxmlir.dialect import codec, op_signature
from jaxmlir.dialect.builder import (
    clone,
    converted,
    is_constant,
    only_user,
    overwrites,
    returned,
    zeros,
)
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.scan_editor import (
    CarriedValue,
    LoopEditor,
    ScanEditor,
    StackedResult,
    can_change,
    loops_of,
)
from jaxmlir.optimize.vectorize.stacking import added, total_of
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import visit_functions
from jaxmlir.transforms.higher_order.loops import PLAIN_SCAN
from jaxmlir.transforms.new_function import before_return
from jaxmlir.transforms.templates import Rules

# A sum of fewer bytes stays in the loop, because it is in cache.  Gradients of h' = tanh(h w + x),
# rows x columns of h, time in the loop / after it, XLA of jax 0.10 and 0.12 on a CPU core:
#   w of   4 KiB     1 x  32  0.9, 0.9      8 x  32  1.2, 1.2     32 x  32  0.8, 0.9
#   w of  64 KiB     1 x 128  0.9, 1.0      8 x 128  1.1, 1.0     32 x 128  0.7, 0.8
#   w of 127 KiB     1 x 180  1.1, 1.1      8 x 180  1.4, 1.3     16 x 180  1.3, 1.2
#   w of   1 MiB     1 x 512  2.2, 1.3      8 x 512  1.3, 1.3     32 x 512  1.1, 1.1
MIN_BYTES = 98_304
# Bytes stacked in an iteration for each byte of such a sum, at most: with 128 x 512 it is 0.25, and
# the speed 1.0.
MOVED = 0.125
# Bytes stacked and copied in all, at most, for each byte of the slices that the loop reads.
# FREE_BYTES are always allowed.
MEMORY = 1.0
FREE_BYTES = 1_048_576


class SinkReductions(Pass):
    """Replace sums that a loop only accumulates by one product or scatter after the loop.

    Options:
      min-bytes: sums of fewer bytes are left alone where a loop does not wait for its kernels.
      moved: how many bytes may be stacked in an iteration for each byte of a sum that leaves the
        loop.
      memory: how many bytes may be stacked in all, for each byte of the slices that a loop reads.
    """

    name: ClassVar[str] = "jaxpr-sink-reductions"
    min_bytes: Count = MIN_BYTES
    moved: Amount = MOVED
    memory: Amount = MEMORY

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        return visit_functions(program, _Deferral(program, graph, self).visit, graph, SCANS)


@dataclass(eq=False)
class _SunkOp:
    """An op of the body that is moved behind the loop.

    Attributes:
      operands: values before the loop; ``None`` for operands that only the loop knows.
    """

    name: str
    type: ir.Type
    attributes: dict[str, ir.Attribute]
    operands: list[ir.Value | None]

    def __call__(self, value: ir.Value) -> ir.Value:
        """Writes the op with a value for its missing operand."""
        operands = [value if v is None else v for v in self.operands]
        return ir.Operation.create(self.name, [self.type], operands, self.attributes).result


@dataclass(eq=False)
class _Summand:
    """A value that an iteration adds to a sum, or subtracts from it.

    Attributes:
      value: the value in the body.
      negative: whether it is subtracted.
      chain: linear ops that lead from the core to the value, the last one first.
      core: a product, an update of zeros, or any other value.
      node: the op of a core that is a product or an update.
      rows: the values to stack for the sum of the core: the operands of its op that differ between
        iterations, or the core itself; empty if the loop sums it up.
      type: the type of the core, which is gone once the loop is rewritten.
      after: the ops of the chain, for after the loop.
      carried: the new carried sum of a core that the loop sums up without its chain.
    """

    value: ir.Value
    negative: bool
    chain: list[OpView]
    core: ir.Value
    node: OpView | None = None
    rows: list[ir.Value] = field(default_factory=list)
    type: ir.Type | None = None
    after: list[_SunkOp] = field(default_factory=list)
    carried: CarriedValue | None = None

    @property
    def leaves(self) -> bool:
        """Whether any part of the summand is computed after the loop."""
        return bool(self.rows or self.chain)


@dataclass(eq=False)
class _CarriedSum:
    """A carried value to which an iteration only adds terms."""

    item: CarriedValue
    terms: list[_Summand]


class _Deferral:
    """Moves sums out of the loops of one program."""

    def __init__(self, program: Module, graph: CallGraph, options: SinkReductions):
        self.options = options
        self.rules = Rules(program)
        self.work = Work(program)
        self._program = program
        self._bodies = LoopEditor(self.rules, graph)
        # The signatures of loops without such sums: loops that share a body are tried once.
        self._left_alone: set[Signature] = set()

    def visit(self, function: func.FuncOp) -> bool:
        """Moves sums out of the loops of a function; whether there are any."""
        changed = False
        for op, name in loops_of(function, SCANS):
            signature = op_signature.of_op(op, name, list(op.operands))
            if signature in self._left_alone:
                continue
            if self._scan(op):
                changed = True
            else:
                self._left_alone.add(signature)
        return changed

    def _scan(self, op: Any) -> bool:
        """Moves sums out of a loop; whether there are any."""
        if not PLAIN_SCAN.issuperset(dict(op.attributes.items())):
            return False
        if not can_change(self._program.function(op.attributes["jaxpr"].value)):
            return False
        editor = ScanEditor(self._bodies, op)
        body = _Body(editor)
        repeats = editor.scan.is_counted and editor.scan.length > 1
        sums = _SinkPlan(self, editor, body).sums if repeats else []
        if not sums:
            editor.cancel()
            return False
        _write(self.rules, editor, body, sums)
        return True


class _Body:
    """The body of a loop, with its sums and the terms of these."""

    def __init__(self, editor: ScanEditor):
        self.nodes: dict[ir.Value, OpView] = {}
        for node in ops_of(editor.body):
            self.nodes.update((result, node) for result in node.op.results)
        self.constants = {item.arg: item.operand for item in editor.consts}
        self.slices = {item.arg: item.operand for item in editor.xs}

    def is_fixed(self, value: ir.Value) -> bool:
        """Whether a value is a constant, or a constant of the loop."""
        return value in self.constants or is_constant(value)

    def terms(self, arg: ir.Value, out: ir.Value) -> list[_Summand]:
        """The terms that an iteration adds to a carried value; none if it does anything else."""
        if out == arg or not is_plain_array(arg.type) or only_user(arg) is None:
            return []
        if not can_be_summed(aval_of(arg.type).dtype):
            return []
        terms: list[_Summand] = []
        carried = False
        pending = [(out, False)]
        while pending:
            value, negative = pending.pop()
            node = self.nodes.get(value)
            if value == arg:
                if negative:
                    return []
                carried = True
            elif node is not None and only_user(value) is not None and _is_addition(node):
                second = negative != (node.name == "jaxpr.sub")
                pending += [(node.operands[1], second), (node.operands[0], negative)]
            else:
                terms.append(self.term(value, negative))
        return terms if carried else []

    def term(self, value: ir.Value, negative: bool) -> _Summand:
        """A value as linear ops on a core."""
        chain: list[OpView] = []
        core = value
        while (node := self.nodes.get(core)) is not None and only_user(core) is not None:
            if not is_plain_op(node):
                break
            rows = self.rows(node)
            if rows:
                return _Summand(value, negative, chain, core, node, rows)
            if not self.is_linear(node):
                break
            chain.append(node)
            core = self.varying(node)
        return _Summand(value, negative, chain, core)

    def shared_core(self, value: ir.Value, stored: Collection[ir.Value]) -> ir.Value | None:
        """The stacked value from which linear ops compute a value that only sums read, such as the
        sums for two biases; else ``None``."""
        if not all(use.owner.name in _ADDITIONS for use in value.uses):
            return None
        core = value
        while core not in stored:
            node = self.nodes.get(core)
            if node is None or not is_plain_op(node) or not self.is_linear(node):
                return None
            if core != value and only_user(core) is None:
                return None
            core = self.varying(node)
        return core if core != value else None

    def varying(self, node: OpView) -> ir.Value:
        """The operand of a linear op that is not the same in all iterations."""
        return next(v for v in node.operands if not self.is_fixed(v))

    def is_linear(self, node: OpView) -> bool:
        """Whether an op may be applied to a sum instead of its terms: it is linear in one operand,
        and the others are loop-invariant.

        The dtype must stay the same: a product of narrow numbers may be wide enough for sums that
        overflow in the narrow type.
        """
        fixed = [self.is_fixed(v) for v in node.operands]
        dtype = aval_of(node.op.results[0].type).dtype
        if fixed.count(False) != 1 or aval_of(self.varying(node).type).dtype != dtype:
            return False
        match node.name:
            case "jaxpr.mul" | "jaxpr.dot_general":
                return True
            case "jaxpr.div":
                return not fixed[0] and not dtypes.issubdtype(dtype, np.integer)
            case "jaxpr.pad":
                return not fixed[0] and self.is_zero(node.operands[1])
        return node.name in _LINEAR

    def rows(self, node: OpView) -> list[ir.Value]:
        """The operands that differ between iterations, if the sum of an op is one op on stacks."""
        if node.name == "jaxpr.dot_general":
            return [] if any(map(self.is_fixed, node.operands)) else list(node.operands)
        if node.name in _UPDATES and self.is_zero(node.operands[0]) and _is_sum(node):
            return [v for v in node.operands[1:] if not self.is_fixed(v)]
        return []

    def is_zero(self, value: ir.Value) -> bool:
        return number_of(value, self.nodes.get) == 0


class _SinkPlan:
    """Chooses the sums that leave a loop, and how.

    Attributes:
      sums: the sums with a term that leaves the loop.
    """

    def __init__(self, deferral: _Deferral, editor: ScanEditor, body: _Body):
        self._work = deferral.work
        self._costs = deferral.rules.program.target.costs
        self._options = deferral.options
        self._body = body
        self._length = editor.scan.length
        self._stacked: set[ir.Value] = set()
        slices = sum(size(v.type) for v in body.slices.values())
        self._left = max(FREE_BYTES, deferral.options.memory * slices)
        outs = returned(editor.body)
        sums = [_CarriedSum(item, body.terms(item.arg, outs[item.out])) for item in editor.carry]
        self._terms = terms = [term for total in sums for term in total.terms]
        for term in terms:
            if term.node is not None and not self._pays(term):
                term.node, term.rows = None, []
        for term in terms:
            if term.node is None:
                self._settle(term)
        self.sums = [total for total in sums if any(term.leaves for term in total.terms)]

    def _pays(self, term: _Summand) -> bool:
        """Whether stacking the operands of a core pays; if so, counts them as stacked."""
        unstacked = {v for v in term.rows if v not in self._body.slices} - self._stacked
        stacked = sum(size(v.type) for v in unstacked)
        added = size(term.core.type)
        is_small = added < self._options.min_bytes or stacked > self._options.moved * added
        if is_small and not self._saves_kernels(term.node, unstacked):
            return False
        if (stacked + _copied(term.node)) * self._length > self._left:
            return False
        if _is_at_one_place(term.node) and self._costs.indexed_element > self._costs.stored(added):
            return False
        self._left -= stacked * self._length
        self._stacked |= set(term.rows)
        return True

    def _saves_kernels(self, node: OpView, new: set[ir.Value]) -> bool:
        """Whether a loop that waits for its kernels starts fewer of them without a product, and
        without other ops that leave it with the same stacked values.

        Args:
          new: the values that the loop stacks in its place.
        """
        costs = self._costs
        if not costs.waits_for_kernels or node.name != "jaxpr.dot_general":
            return False
        available = new | self._stacked | {*self._body.slices}
        products = {
            t.node.op: t.node for t in self._terms if t.node and available.issuperset(t.rows)
        }
        saved = sum(map(self._product, products.values()))
        # The sum of a stacked value is computed from the stack.
        cores = [t.core for t in self._terms if t.node is None and not t.chain]
        summed = {t.core for t in self._terms if t.node is None and t.core in new and t.chain}
        summed |= {core for v in cores if (core := self._body.shared_core(v, new)) is not None}
        return len(new) * costs.stored_value <= saved + len(summed) * costs.launch

    def _product(self, node: OpView) -> float:
        """The cost of starting the kernel of a product in the loop."""
        if node.name != "jaxpr.dot_general":
            return 0.0
        (summed, _), _ = node.get("dimension_numbers")
        shape = aval_of(node.operands[0].type).shape
        is_outer = math.prod(shape[d] for d in summed) == 1
        return self._costs.launch if is_outer else self._costs.product

    def _settle(self, term: _Summand) -> None:
        """Chooses how many ops of the chain are applied to the sum after the loop."""
        if self._costs.waits_for_kernels and not term.chain:
            shared = self._body.shared_core(term.core, self._stacked)
            while shared is not None and term.core != shared:
                term.chain.append(self._body.nodes[term.core])
                term.core = self._body.varying(term.chain[-1])
        if term.core in self._stacked:
            term.rows = [term.core]
            return
        values = [term.value, *map(self._body.varying, term.chain)]
        inside = [self._work.of(node.op, node.name) for node in term.chain]
        costs = [3 * size(v.type) + sum(inside[k:]) for k, v in enumerate(values)]
        best = costs.index(min(costs))
        # The savings of an iteration have to be worth a new loop.
        if costs[best] + self._work.iteration > costs[0]:
            best = 0
        term.chain, term.core = term.chain[:best], values[best]


def _write(rules: Rules, editor: ScanEditor, body: _Body, sums: list[_CarriedSum]) -> None:
    """Rewrites a loop, and writes its sums after it."""
    results = [sum_.item.result for sum_ in sums]
    stacks: dict[ir.Value, StackedResult] = {}
    updates: dict[_Summand, _SunkOp] = {}
    before = ir.InsertionPoint(editor.op)
    for sum_ in sums:
        sum_.item.result = None
        for term in sum_.terms:
            _report(term, editor.op)
            term.type = term.core.type
            with before, editor.op.location:
                term.after = [_outside(body, node, [body.varying(node)]) for node in term.chain]
                if term.node is not None:
                    updates[term] = _outside(body, term.node, term.rows)
            for v in term.rows:
                if v not in body.slices and v not in stacks:
                    stacks[v] = StackedResult(v)
            if term.chain and not term.rows:
                term.carried = _carry(editor, term.core)
        staying = [term for term in sum_.terms if not term.leaves]
        _keep(editor, sum_.item, staying)
    editor.ys += stacks.values()
    editor.write()
    for sum_, result in zip(sums, results, strict=True):
        with before, editor.op.location:
            total = _sum_of(editor, sum_.item)
            for term in sum_.terms:
                if term.leaves:
                    value = _after(rules, editor, body, term, stacks, updates.get(term))
                    total = added(total, value, term.negative)
            total = converted(total, result.type)
        result.replace_all_uses_with(total)
    editor.finish()


def _sum_of(editor: ScanEditor, item: CarriedValue) -> ir.Value:
    """The result of the new loop for a sum; the initial value if the loop does not carry it."""
    return editor.written.results[editor.carry.index(item)] if item in editor.carry else item.init


def _after(
    rules: Rules,
    editor: ScanEditor,
    body: _Body,
    term: _Summand,
    stacks: dict[ir.Value, StackedResult],
    update: _SunkOp | None,
) -> ir.Value:
    """Writes the sum of a term over all iterations, after the new loop."""
    if term.rows:
        rows = {v: body.slices.get(v) or stacks[v].written for v in term.rows}
        value = _summed(rules, term, rows, update, editor.scan.length)
    else:
        value = _sum_of(editor, term.carried)
    for op in reversed(term.after):
        value = op(value)
    return value


def _outside(body: _Body, node: OpView, rows: Sequence[ir.Value]) -> _SunkOp:
    """An op of the body with its loop-invariant operands, written at the insertion point.

    Args:
      rows: the other operands, which only the loop knows.
    """
    operands = [
        None if v in rows else body.constants[v] if v in body.constants else clone(v)
        for v in node.operands
    ]
    return _SunkOp(node.name, node.op.results[0].type, node.attributes, operands)


def _carry(editor: ScanEditor, core: ir.Value) -> CarriedValue:
    """Adds a carried value that sums up a value of the body."""
    arg = editor.new_argument(core.type)
    with before_return(editor.body), editor.body.location:
        out = added(arg, core, False)
    with ir.InsertionPoint(editor.op), editor.op.location:
        item = CarriedValue(zeros(core.type), arg, out)
    editor.carry.append(item)
    return item


def _keep(editor: ScanEditor, item: CarriedValue, terms: Sequence[_Summand]) -> None:
    """Makes a carried value sum up these terms only; removes it if there are none."""
    if not terms:
        editor.carry.remove(item)
        return
    total = item.arg
    with before_return(editor.body), editor.body.location:
        for term in terms:
            total = added(total, term.value, term.negative)
        item.out = converted(total, item.arg.type)


def _summed(
    rules: Rules, term: _Summand, rows: dict[ir.Value, ir.Value], op: _SunkOp | None, length: int
) -> ir.Value:
    """The sum of a core over all iterations.

    Args:
      rows: the stacks of the operands that differ between iterations.
      op: the op of the core, if it is a product or an update.
    """
    if op is None:
        (value,) = rows.values()
        return converted(total_of(rules, value), term.type)
    operands = [
        rows[v] if operand is None else operand
        for v, operand in zip(term.node.operands, op.operands, strict=True)
    ]
    if op.name == "jaxpr.dot_general":
        contracted, batch = term.node.get("dimension_numbers")
        numbers = (
            tuple((0, *(d + 1 for d in dims)) for dims in contracted),
            tuple(tuple(d + 1 for d in dims) for dims in batch),
        )
        attributes = {**op.attributes, "dimension_numbers": codec.encode(numbers)}
        return ir.Operation.create(op.name, [op.type], operands, attributes).result
    stacked = tuple(operand is None for operand in op.operands)
    of_op = {"numbers": term.node.get("dimension_numbers"), "mode": term.node.get("mode")}
    scatter = functools.partial(_scattered, length=length, stacked=stacked, **of_op)
    (value,) = rules.emit(scatter, operands)
    return converted(value, op.type)


def _scattered(
    array: Any, *operands: Any, length: int, stacked: tuple[bool, ...], numbers: Any, mode: Any
) -> list[Any]:
    """All updates of an array of zeros in one scatter.

    Args:
      length: the number of updates.
      stacked: which operands have a row for each update.
      numbers, mode: the parameters of a scatter; ``None`` for a ``dynamic_update_slice``.
    """
    rows = [
        x if is_stacked else lax.broadcast(x, (length,))
        for x, is_stacked in zip(operands, stacked[1:], strict=True)
    ]
    if numbers is None:
        update, *starts = rows
        dims = tuple(range(array.ndim))
        indices = lax.concatenate([lax.expand_dims(i, (1,)) for i in starts], 1)
        numbers = lax.ScatterDimensionNumbers(tuple(d + 1 for d in dims), (), dims)
        # Both ops clamp the indices of a part that is out of bounds.
        return [lax.scatter_add(array, indices, update, numbers, mode="clip")]
    indices, update = rows
    batching = numbers.scatter_indices_batching_dims
    numbers = numbers._replace(
        update_window_dims=tuple(d + 1 for d in numbers.update_window_dims),
        scatter_indices_batching_dims=tuple(d + 1 for d in batching),
    )
    return [lax.scatter_add(array, indices, update, numbers, mode=mode)]


def _is_at_one_place(node: OpView) -> bool:
    """Whether a core updates one place of the sum, so that the loop needs no scatter."""
    if node.name == "jaxpr.dot_general":
        return False
    scatters = node.name != "jaxpr.dynamic_update_slice"
    return not scatters or math.prod(aval_of(node.operands[1].type).shape[:-1]) == 1


def _copied(node: OpView) -> int:
    """The bytes per iteration that XLA copies to multiply the stacks.

    It copies operands whose contracting dimensions are not the leading ones, or that have batch
    dimensions.
    """
    if node.name != "jaxpr.dot_general":
        return 0
    copied = 0
    for v, summed, batch in zip(node.operands, *node.get("dimension_numbers"), strict=True):
        dims = [d for d, n in enumerate(aval_of(v.type).shape) if n != 1]
        outer = [d in summed for d in dims]
        if outer != sorted(outer, reverse=True) or any(d in batch for d in dims):
            copied += size(v.type)
    return copied


def _report(term: _Summand, loop: Any) -> None:
    if term.leaves:
        node = term.node
        if node:
            subject = f"'{node.name}' of {size(term.core.type)} bytes is"
        else:
            subject = "the sum is" if term.rows else "the linear ops on the sum are"
        place = term.value.owner
        place = loop if isinstance(place, ir.Block) else place
        remark(place, f"moved out of the loop: {subject} computed once, after the loop")


def _is_addition(node: OpView) -> bool:
    """Whether an op adds or subtracts plain arrays without a broadcast."""
    if node.name not in _ADDITIONS or not is_plain_op(node):
        return False
    shape = aval_of(node.op.results[0].type).shape
    return all(aval_of(v.type).shape == shape for v in node.operands)


def _is_sum(node: OpView) -> bool:
    """Whether an update of zeros writes each place once, or adds up the numbers for a place."""
    if node.name != "jaxpr.scatter":
        return bool(aval_of(node.op.results[0].type).shape)
    *places, _ = aval_of(node.operands[1].type).shape
    apart = math.prod(places) == 1 or bool(node.get("unique_indices"))
    return apart and overwrites(node.op)


_ADDITIONS = with_trait(Trait.ADDITIVE)
_UPDATES = frozenset({"jaxpr.dynamic_update_slice", "jaxpr.scatter", "jaxpr.scatter_add"})
# Linear ops of one operand, which may be applied to a sum instead of its terms.
_LINEAR = with_trait(Trait.VIEW) | {"jaxpr.neg", "jaxpr.reduce_sum", "jaxpr.rev"}
