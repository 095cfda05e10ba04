"""Ops with functions: loops, branches, calls, composites."""

from __future__ import annotations

import functools
import re
from typing import Any

from jax import lax

from jaxmlir.analysis.function_view import number_of
from jaxmlir.dialect.builder import symbol_ref
from jaxmlir.dialect.ir import body_of, ir
from jaxmlir.dialect.types import is_dynamic
from jaxmlir.raising.idioms import called
from jaxmlir.raising.loops import scanned
from jaxmlir.raising.random import is_threefry
from jaxmlir.raising.sizes import global_constants, is_symbolic, settled
from jaxmlir.raising.source import RegionCaptures, attribute, end_of, named_inside, shape_of, tensor
from jaxmlir.raising.writer import RULES, BodyWriter, Values, rule


@rule("while")
def while_(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Values that the regions capture become constants of the loop. So do values that every
    iteration passes on unchanged: JAX lowers the constants of a ``scan`` to such."""
    condition, body = (region.blocks[0] for region in op.regions)
    end = end_of(body)
    pairs = zip(end.operands, body.arguments, strict=True)
    same = [k for k, (after, before) in enumerate(pairs) if after == before]
    used = [k for k in same if next(condition.arguments[k].uses, None) is not None]
    outer = [w.outer([block]) for block in (condition, body)]
    raising, types = w.raising, w.types(op)
    consts = [
        [*(w.env[v] for v in around.values), *(operands[k] for k in unchanged)]
        for around, unchanged in zip(outer, (used, same), strict=True)
    ]
    changed = [k for k in range(len(operands)) if k not in same]
    carried = [v.type for v in operands] if raising.symbolic else types
    tests, steps = (dict(zip(b.arguments, carried, strict=True)) for b in (condition, body))
    symbols = (
        raising.region(condition, outer[0], "cond", op.location, [*used, *changed], types=tests),
        raising.region(body, outer[1], "body", op.location, [*same, *changed], changed, steps),
    )
    changing = [operands[k] for k in changed]
    outs = scanned(w, *symbols, consts, changing) if raising.symbolic else None
    if outs is None:
        counts = {"cond_nconsts": len(consts[0]), "body_nconsts": len(consts[1])}
        outs = w.emit(
            "while",
            [*consts[0], *consts[1], *changing],
            [carried[k] for k in changed],
            cond_jaxpr=symbol_ref(symbols[0]),
            body_jaxpr=symbol_ref(symbols[1]),
            **{name: count for name, count in counts.items() if count},
        )
    results = iter(outs)
    return [operands[k] if k in same else next(results) for k in range(len(operands))]


@rule("chlo.scan")
def scan(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """JAX scans along the first dimension, and puts the carry before the slices."""
    n, axis = attribute(op, "operandSegmentSizes")[0], attribute(op, "dimension")
    xs, carries = operands[:n], operands[n:]
    length = shape_of(xs[0])[axis]
    block = op.regions[0].blocks[0]
    types = w.types(op)
    outputs = len(types) - len(carries)
    symbol = w.raising.region(
        block,
        RegionCaptures([], []),
        "body",
        op.location,
        [*range(n, len(operands)), *range(n)],
        [*range(outputs, len(types)), *range(outputs)],
    )
    rank = len(shape_of(xs[0]))
    to_front = [axis, *(d for d in range(rank) if d != axis)]
    back = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    xs = [w.transpose(x, to_front) for x in xs] if axis else xs
    stacked = [tensor([t.shape[d] for d in to_front], t.element_type) for t in types[:outputs]]
    results = w.emit(
        "scan",
        [*carries, *xs],
        [*types[outputs:], *stacked],
        jaxpr=symbol_ref(symbol),
        length=length,
        **({"num_carry": len(carries)} if carries else {}),
        **({"reverse": True} if attribute(op, "is_reverse", False) else {}),
    )
    ys = results[len(carries) :]
    return [*(w.transpose(y, back) if axis else y for y in ys), *results[: len(carries)]]


@rule("case")
def case(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """An index that is out of bounds chooses the last branch."""
    n = len(op.regions)
    (index,) = operands
    chosen = number_of(index)
    if chosen is not None:
        # As in a module for several platforms, once the platform is known.
        block = op.regions[int(chosen) if 0 <= chosen < n else n - 1].blocks[0]
        return w.inlined(block)
    if not _in_bounds(index, n):
        (index,) = w.traced(functools.partial(_last_if_outside, n), operands, [index.type])
    return branches(w, op, index, list(op.regions))


def _last_if_outside(n: int, index: Any) -> Any:
    return lax.select((index < 0) | (index >= n), lax.full_like(index, n - 1), index)


def _in_bounds(index: ir.Value, n: int) -> bool:
    """Whether an index is known to be one of ``n``: JAX clamps it, or converts a boolean."""
    op = index.owner
    if isinstance(op, ir.Block):
        return False
    op = op.operation
    if op.name == "jaxpr.convert_element_type":
        return n > 1 and str(op.operands[0].type.element_type) == "i1"
    if op.name != "jaxpr.clamp":
        return False
    low, high = (number_of(op.operands[k]) for k in (0, 2))
    return low is not None and high is not None and 0 <= low and high < n


@rule("if")
def if_(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    index = w.convert(operands[0], ir.IntegerType.get_signless(32))
    return branches(w, op, index, [op.regions[1], op.regions[0]])


def branches(w: BodyWriter, op: Any, index: ir.Value, regions: list[Any]) -> Values:
    """A ``cond``, all of whose branches take the values that any of them captures."""
    blocks = [region.blocks[0] for region in regions]
    outer = w.outer(blocks)
    symbols = [
        w.raising.region(block, outer, f"branch_{k}", op.location) for k, block in enumerate(blocks)
    ]
    return w.emit(
        "cond",
        [index, *(w.env[v] for v in outer.values)],
        w.raising.results_of(symbols[0]) if w.raising.symbolic else w.types(op),
        branches=ir.ArrayAttr.get([symbol_ref(symbol) for symbol in symbols]),
    )


@rule("func.call")
def call(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A call becomes a ``jit`` of the callee. The body of a scan, and functions that slice and
    update its arrays, are inlined so that loops are recognised; so are functions that JAX lowers
    one primitive to. Threefry's function becomes its primitive."""
    callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    if _IN_PLACE.fullmatch(callee) and callee in w.raising.source:
        return w.inlined(body_of(w.raising.source[callee]), operands)
    if callee.startswith("threefry2x32") and callee in w.raising.source:
        if is_threefry(w.raising.source[callee], w.raising.source):
            return w.emit("threefry2x32", operands, w.types(op))
    if callee in w.raising.source and (meant := called(w, callee, operands)) is not None:
        return meant
    return _called(w, op, callee, operands, callee)


def _called(w: BodyWriter, op: Any, callee: str, operands: list[ir.Value], name: str) -> Values:
    """A ``jit`` of a function, specialised to the operands' sizes if its own are symbolic.

    A function of sizes alone is inlined, so that its results are known to be sizes.
    """
    types = w.types(op)
    function = w.raising.source.get(callee) if w.raising.symbolic else None
    if (
        function is not None
        and all(map(_is_integer, types))
        and all(w.known(v) is not None for v in operands)
    ):
        return w.inlined(body_of(function), operands)
    sizes = {} if function is None else _known_operands(w, function, operands)
    is_static = not any(map(is_dynamic, (*types, *(v.type for v in operands))))
    if function is None or (is_static and not sizes):
        symbol = w.raising.function(callee)
        return w.emit("jit", operands, types, jaxpr=symbol_ref(symbol), name=name)
    symbol, types = w.raising.at_sizes(callee, operands, sizes)
    rest = [v for k, v in enumerate(operands) if k not in sizes]
    return w.emit("jit", rest, types, jaxpr=symbol_ref(symbol), name=name)


def _known_operands(w: BodyWriter, function: Any, operands: list[ir.Value]) -> dict[int, Any]:
    """The operands of a call that are symbolic sizes, or that JAX marks as the same in the whole
    module; the function need not take them."""
    arrays = {}
    fixed = global_constants(function)
    for k, value in enumerate(operands):
        array = w.known(value) if k in fixed else w.sizes.get(value)
        if array is not None and (k in fixed or is_symbolic(array)) and settled(array) is not None:
            arrays[k] = array
    return arrays


def _is_integer(type_: ir.Type) -> bool:
    is_scalar = isinstance(type_, ir.RankedTensorType) and not type_.rank
    return is_scalar and isinstance(type_.element_type, ir.IntegerType)


_IN_PLACE = re.compile(
    r"(closed_call|dynamic_(update_)?index_in_dim|arg(max|min)|cum(sum|prod|max|min|logsumexp))"
    r"(_\d+)?"
)


@rule("composite")
def composite(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A composite of CHLO becomes the op that it stands for. Any other becomes a call of its
    decomposition, which has a derivative; a composite of JAX has none."""
    name = attribute(op, "name")
    if name in RULES and name.startswith("chlo."):
        stands_for = named_inside(op, name, "composite_attributes")
        return RULES[name](w, stands_for, operands)
    callee = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
    return _called(w, op, callee, operands, name)


# --- tokens ---------------------------------------------------------------------------------------


@rule("create_token", "after_all")
def token(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return w.emit("after_all" if operands else "create_token", operands, w.types(op))
