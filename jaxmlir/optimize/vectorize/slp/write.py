"""Writing a batch in place of the lanes."""

from __future__ import annotations

import functools
from typing import Any

from jax import lax

from jaxmlir import toolbox
from jaxmlir.dialect.builder import build, converted, inline
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.optimize.vectorize.slp.lanes import Lanes, Tree
from jaxmlir.optimize.vectorize.stacking import JOINS, joined, rows_of, stack, total_of
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis, vmap_of


def write(rules: Rules, tree: Tree) -> None:
    """Writes the batch of a tree before its sink, which uses it then."""
    body, seed = tree.body, tree.seed
    sink = body.ops[seed.sink].operation
    remark(
        sink,
        f"packed: {tree.count} lanes of {len(tree.packs)} ops are one, of which "
        f"{len(tree.leaves)} values go in",
    )
    results = list(dict.fromkeys([seed.values, *tree.outputs]))
    symbol = _write_function(rules, tree, results)
    dims = tuple([None if tree.is_same(leaf) else 0 for leaf in tree.leaves])
    batched, _ = vmap_of(rules, symbol, dims, batch_axis(tree.count), (0,) * len(results))
    with ir.InsertionPoint(sink), body.ops[tree.packs[-1][0]].location:
        args = [
            tree.values(leaf)[0] if dim is None else stack(rules, tree.values(leaf))
            for leaf, dim in zip(tree.leaves, dims, strict=True)
        ]
        made = dict(zip(results, inline(rules.program.function(batched), args), strict=True))
        for lanes in tree.outputs:
            for old, row in zip(tree.values(lanes), rows_of(rules, made[lanes]), strict=True):
                old.replace_all_uses_with(row)
    with ir.InsertionPoint(sink), sink.location:
        if seed.parts is not None:
            array = body.value(seed.meeting[0])
            value = rules.emit(seed.parts, [array, made[seed.values]], seed.parts)[0]
        elif body.names[seed.sink] in JOINS:
            value = _joined(rules, tree, made[seed.values])
        else:
            value = _sum(rules, tree, made[seed.values])
        sink.results[0].replace_all_uses_with(converted(value, sink.results[0].type))


def _sum(rules: Rules, tree: Tree, batched: ir.Value) -> ir.Value:
    """The sum of the lanes and what else is added."""
    seed, sink = tree.seed, tree.body.ops[tree.seed.sink].operation
    type_ = sink.results[0].type
    total = total_of(rules, batched)
    shape = tuple(type_.shape)
    if tuple(total.type.shape) != shape:
        # Numbers that are added to an array, or arrays that are repeated along a dimension.
        spread = type_of(aval_of(total.type).update(shape=shape))
        dims = tuple(range(total.type.rank))
        total = build("broadcast_in_dim", [total], spread, shape=shape, broadcast_dimensions=dims)
    total = converted(total, type_)
    lanes = set(seed.values)
    others = [value for value in seed.meeting if value not in lanes]
    for value in reversed(tree.values(others)):
        total = ir.Operation.create(sink.name, [type_], [value, total]).result
    return total


def _joined(rules: Rules, tree: Tree, batched: ir.Value) -> ir.Value:
    """The lanes between what else is put together."""
    seed, body = tree.seed, tree.body
    sink, name = body.ops[seed.sink], body.names[seed.sink]
    whole = joined(rules, batched, sink, name)
    if len(seed.values) == len(seed.meeting):
        return whole
    first = seed.meeting.index(seed.values[0])
    parts = tree.values(seed.meeting[:first]), tree.values(seed.meeting[first + tree.count :])
    if name == "jaxpr.stack":
        # Values to be stacked and a stack of values are stacks, concatenated.
        axis = toolbox.attribute(sink, JOINS[name])
        expand, together = functools.partial(_expanded, axis), functools.partial(_together, axis)
        before, behind = (
            [rules.emit(expand, [value], ("expanded", axis))[0] for value in part] for part in parts
        )
        return rules.emit(together, [*before, whole, *behind], ("together", axis))[0]
    return body.copy(seed.sink, [*parts[0], whole, *parts[1]])[0]


def _expanded(axis: int, x: Any) -> list[Any]:
    return [lax.expand_dims(x, (axis,))]


def _together(axis: int, *parts: Any) -> list[Any]:
    return [lax.concatenate(parts, axis % parts[0].ndim)]


def _write_function(rules: Rules, tree: Tree, results: list[Lanes]) -> str:
    """The first lane as a function; its symbol."""
    body = tree.body
    name = f"{body.function.name.value}.lane"
    new = NewFunction(rules, name, [body.types[leaf[0]] for leaf in tree.leaves], body.function)
    args = dict(zip(tree.leaves, new.args, strict=True))
    made: dict[Lanes, ir.Value] = {}
    with new.body():
        for ops in tree.packs:
            columns = tree.operands(ops)
            operands = [args[lanes] if lanes in args else made[lanes] for lanes in columns]
            made.update(zip(tree.results(ops), body.copy(ops[0], operands), strict=True))
    return new.finish([made[lanes] for lanes in results])
