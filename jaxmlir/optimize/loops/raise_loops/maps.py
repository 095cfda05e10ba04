"""Loops with independent iterations, batched: many iterations at a time, by the pass ``vmap``.

A scan that carries nothing is a map; one that carries sums, to which each iteration adds something
that does not depend on them, is a map and a sum of what it gives::

    scan(lambda a, x: (a + g(x), f(x)))(a, xs)  =  a + sum(vmap(g)(xs)), vmap(f)(xs)

Batched, a product of a matrix and a vector becomes one of matrices, and nothing is paid for going
around the loop.  What it costs is memory: all values of all iterations are there at once.  So as
many iterations are batched as fit into a given number of bytes, which should be what a cache holds,
and around these batches there is a loop.  If less than a few fit, going around a loop is cheap
beside what an iteration does, and it stays as it is.

Iterations that take branches or turns in a ``while`` of their own stay a loop: batched, each would
take all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.dialect.builder import converted, erase, inline, named_ops, returned
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.raise_loops.gain import Gains, may_pay
from jaxmlir.optimize.loops.raise_loops.known import Known
from jaxmlir.optimize.loops.scan_editor import Carried, LoopEditor, ScanEditor, Stacked, can_change
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.clone_plan import ClonePlan, places
from jaxmlir.transforms.higher_order.loops import stacked
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.vmap import batch_axis, vmap

if TYPE_CHECKING:
    from jaxmlir.targets import Target
    from jaxmlir.transforms.templates import Rules

# If fewer iterations fit, an iteration is so large that the loop around it costs nothing, and that
# its values are better kept in cache: products of matrices with 200 rows, 800 KiB an iteration, are
# 0.8 times as fast batched.
MIN_BATCH = 8


class Maps:
    """Batches the loops of a program.

    Args:
      batch_bytes: how much memory the values of a batch may take.
    """

    def __init__(
        self, rules: Rules, bodies: LoopEditor, gains: Gains, batch_bytes: int, target: Target
    ):
        self._rules, self._bodies, self._gains = rules, bodies, gains
        self._batch_bytes, self._target = batch_bytes, target
        self._patterns: dict[Hashable, _Batched] = {}

    def batch(self, op: Any, scan: ScanOp, ops: Sequence[tuple[Any, str]] | None) -> int:
        """Batches a scan with independent iterations, if that pays; 1 if it did.

        Args:
          scan: the op without its operands.
          ops: those of its body, with their names, from a caller that has them.
        """
        body = self._rules.program.function(scan.body)
        if scan.length < 2 or not can_change(body):
            return 0
        ops = ops or named_ops(body)
        if not may_pay(ops, self._target):
            return 0
        if not all([is_array(v.type) for v in (*op.operands, *op.results)]):
            return 0
        if _sums(scan, body) is None:
            return 0
        others = len(op.operands) - scan.num_consts
        gains = self._gains
        gains.read(scan.body, ops)
        gain = gains.of(scan.body, (False,) * scan.num_consts + (True,) * others)
        if gain is None or not gain.pays(self._target):
            return 0
        taken = max(gains.bytes(gains.read(scan.body)), 1)
        batch = _batch_size(scan.length, self._batch_bytes // taken)
        if not batch:
            return 0
        remark(
            op,
            f"its {scan.length} iterations are independent: {batch} at a time, "
            f"of {taken} bytes each",
        )
        self._write(op, scan, batch)
        return 1

    def _write(self, op: Any, scan: ScanOp, batch: int) -> None:
        """Writes the batched loop in the place of the scan."""
        rules = self._rules
        sums: list[Carried] = []
        subtracted: list[bool] = []
        results: list[ir.Value | None] = list(op.results)
        if scan.num_carry:
            editor = ScanEditor(self._bodies, op)
            sums = list(editor.carry)
            subtracted = [editor.out(item).owner.name == "jaxpr.sub" for item in sums]
            results = [item.result for item in editor.ys]
            op = _of_rows(editor)
            scan = ScanOp.of(op)
            body = FunctionView(editor.body)
        else:
            body = self._gains.read(scan.body)
        operands = list(op.operands)
        consts, _, xs = scan.operands(operands)
        dims = (*[None] * len(consts), *[0] * len(xs))
        batched = self._batched(body, dims, batch)
        with ir.InsertionPoint(op), op.location:
            if batch == scan.length:
                values = inline(batched, operands)
                totals = [
                    _total(rules, item.init, value, negative)
                    for item, value, negative in zip(
                        sums, values[len(results) :], subtracted, strict=True
                    )
                ]
            else:
                values, totals = _in_batches(
                    rules, scan, batched, consts, xs, sums, subtracted, scan.length // batch
                )
        for result, value in zip(results, values, strict=False):
            result.replace_all_uses_with(value)
        for item, value in zip(sums, totals, strict=True):
            item.result.replace_all_uses_with(value)
        erase(op)
        if sums:
            editor.finish()

    def _batched(self, body: FunctionView, dims: tuple[int | None, ...], size: int) -> func.FuncOp:
        """A body on a batch, to be copied in.

        LoopEditor that are alike but for their constants are batched once.

        Args:
          dims: of each argument the batch dimension.
        """
        constants = [i for i, name in enumerate(body.names) if name == "jaxpr.constant"]
        named = tuple([tuple(body.signatures[i].named) for i in constants])
        key = body.structure, named, dims, size
        where = [body.function.location, *[op.location for op in body.ops]]
        found = self._patterns.get(key)
        if found is not None and found.where == where:
            return found.pattern.like(body.signatures)
        symbol, values = body.function.name.value, []
        out_dims = (0,) * len(body.returned)
        with self._rules.functions.having_read(symbol, body):
            new, _ = vmap(self._rules, symbol, dims, batch_axis(size), out_dims, written=values)
        function = self._rules.program.function(new)
        sources = places(function, {i: values[body.results[i][0]].owner for i in constants})
        self._patterns[key] = _Batched(ClonePlan(function, body.signatures, sources), where)
        return function


class _Batched(NamedTuple):
    """A body on a batch, for bodies that are alike; where the body and its ops were."""

    pattern: ClonePlan
    where: list[ir.Location]


def would_gain(editor: ScanEditor, gains: Gains, known: Known, target: Target) -> bool:
    """Whether a scan under change may come to be batched, were it not for what it reads."""
    for item in editor.carry:
        if item.arg not in known and _added(item.arg, editor.out(item)) is None:
            return False
    constants = {item.arg for item in editor.consts}
    batched = [v not in constants for v in body_of(editor.body).arguments]
    gain = gains.of_body(FunctionView(editor.body), batched)
    return gain is not None and replace(gain, indexed=0).pays(target)


def _batch_size(length: int, fitting: int) -> int:
    """How many iterations to batch: all, or what divides them."""
    if fitting < MIN_BATCH:
        return 0
    if fitting >= length:
        return length
    divisors = (d for d in range(fitting, MIN_BATCH - 1, -1) if length % d == 0)
    return next(divisors, 0)


def _sums(scan: ScanOp, body: func.FuncOp) -> list[ir.Value] | None:
    """What an iteration adds to each carried value, if that is all it does with them."""
    if not scan.num_carry:
        return []
    _, carry, _ = scan.operands(list(body_of(body).arguments))
    added = [_added(arg, out) for arg, out in zip(carry, returned(body), strict=False)]
    if any(v is None for v in added) or not all(is_array(v.type) for v in carry):
        return None
    # Each is looked at once, to be added to, and the sum is looked at by the next iteration.
    for arg, out in zip(carry, returned(body), strict=False):
        while arg != out:
            users = list(arg.uses)
            if len(users) != 1:
                return None
            arg = users[0].owner.results[0]
        if len(list(out.uses)) != 1:
            return None
    return added


def _added(arg: ir.Value, out: ir.Value) -> ir.Value | None:
    if isinstance(out.owner, ir.Block) or out.owner.name not in _SUMS:
        return None
    first, second = out.owner.operands
    if _strong(first) == arg:
        added = second
    elif _strong(second) == arg and out.owner.name != "jaxpr.sub":
        added = first
    else:
        return None
    # A scalar is added to each element.
    return added if out.type.shape == arg.type.shape == added.type.shape else None


_SUMS = with_trait(Trait.ADDITIVE)


def _strong(value: ir.Value) -> ir.Value:
    """What a value is but for being weakly typed."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "jaxpr.convert_element_type":
        return value
    (operand,) = owner.operands
    return operand if aval_of(operand.type).dtype == aval_of(value.type).dtype else value


def _of_rows(editor: ScanEditor) -> Any:
    """The scan that gives what its iterations add up as rows, after the others, instead."""
    sums = list(editor.carry)
    rows = [Stacked(_added(item.arg, editor.out(item))) for item in sums]
    with ir.InsertionPoint(editor.op), editor.op.location:
        for item in sums:
            item.init = converted(item.init, item.result.type)
    editor.carry, editor.ys = [], [*editor.ys, *rows]
    for item in editor.ys:
        item.result = None
    editor.write()
    return editor.written


def _in_batches(
    rules: Rules,
    scan: ScanOp,
    batched: func.FuncOp,
    consts: Sequence[ir.Value],
    xs: Sequence[ir.Value],
    sums: Sequence[Carried],
    subtracted: Sequence[bool],
    count: int,
) -> tuple[list[ir.Value], list[ir.Value]]:
    """A loop over batches; the stacked results and the sums."""
    inputs = list(batched.type.inputs)
    types = [*inputs[: len(consts)], *(item.init.type for item in sums), *inputs[len(consts) :]]
    new = NewFunction(rules, f"{scan.body}.batch", types, batched)
    with new.body(), batched.location:
        args = [*new.args[: len(consts)], *new.args[len(consts) + len(sums) :]]
        outs = inline(batched, args)
        num_rows = len(outs) - len(sums)
        carried = new.args[len(consts) :][: len(sums)]
        totals = [
            _total(rules, total, value, negative)
            for total, value, negative in zip(carried, outs[num_rows:], subtracted, strict=True)
        ]
    body = new.finish([*totals, *outs[:num_rows]])
    loop = replace(
        scan, body=body, num_carry=len(sums), length=count, reverse=False, other=_plain(scan)
    )
    cut = [
        _reshaped(rules, v, stacked(t, count))
        for v, t in zip(xs, inputs[len(consts) :], strict=True)
    ]
    results = loop.write(rules, [*consts, *(item.init for item in sums), *cut])
    whole = [_reshaped(rules, v, None) for v in results[len(sums) :]]
    return whole, results[: len(sums)]


def _plain(scan: ScanOp) -> dict[str, ir.Attribute]:
    """The attributes of the loop over batches: the loop was unrolled for its own length, if at
    all."""
    return {name: attr for name, attr in scan.other.items() if name != "unroll"}


def _reshaped(rules: Rules, value: ir.Value, type_: ir.Type | None) -> ir.Value:
    """Rows as batches of rows, or back."""
    shape = None if type_ is None else tuple(type_.shape)
    (result,) = rules.emit(lambda x: [_reshape(x, shape)], [value], ("batches", shape))
    return result


def _reshape(x: Any, shape: tuple[int, ...] | None) -> Any:
    from jax import lax

    return lax.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]) if shape is None else shape)


def _total(rules: Rules, init: ir.Value, rows: ir.Value, negative: bool) -> ir.Value:
    """What has been summed up, with some rows more or less."""
    key = ("raise_loops.total", negative)
    (total,) = rules.emit(lambda x, rows: [_sum(x, rows, negative)], [init, rows], key)
    return converted(total, init.type)


def _sum(x: Any, rows: Any, negative: bool) -> Any:
    import numpy as np
    from jax import lax

    total = lax.reduce(rows, np.zeros((), rows.dtype), lax.add, (0,))
    total = lax.convert_element_type(total, x.dtype)
    return lax.sub(x, total) if negative else lax.add(x, total)
