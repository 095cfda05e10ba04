"""Where the results of blocks go: the rows of a batched result, or all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from jaxmlir.analysis.op_counts import ADDITIONS
from jaxmlir.dialect.builder import converted, only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.vectorize.stacking import JOINS, joined, rows_of, total_of
from jaxmlir.transforms.templates import Rules


def use(
    rules: Rules, values: Sequence[ir.Value], batched: ir.Value, place: ir.Operation
) -> list[ir.Operation]:
    """Uses the rows of a batched result, or all of them at once; the ops that are needed no more.

    Args:
      values: the results that the rows take the place of.
      place: the op before which rows are taken apart.
    """
    chain = sum_of(values)
    if chain is not None:
        start, users = chain
        with ir.InsertionPoint(users[-1]), users[-1].location:
            total = converted(total_of(rules, batched), users[-1].results[0].type)
            if start is not None:
                name, type_ = users[0].name, users[-1].results[0].type
                total = ir.Operation.create(name, [type_], [start, total]).result
        users[-1].results[0].replace_all_uses_with(total)
        return users
    whole = concatenation_of(values)
    if whole is not None:
        with ir.InsertionPoint(whole), whole.location:
            value = joined(rules, batched, whole, whole.name)
        whole.results[0].replace_all_uses_with(converted(value, whole.results[0].type))
        return [whole]
    with ir.InsertionPoint(place), place.location:
        rows = rows_of(rules, batched)
    for value, row in zip(values, rows, strict=True):
        value.replace_all_uses_with(row)
    return []


def sum_of(values: Sequence[ir.Value]) -> tuple[ir.Value | None, list[ir.Operation]] | None:
    """If values are added up one after another, and used by nothing else: what they are added to,
    and the additions."""
    users: list[ir.Operation] = []
    start: ir.Value | None = None
    total: ir.Value | None = None
    for k, value in enumerate(values):
        user = only_user(value)
        if user is None or user.name not in ADDITIONS:
            return None
        left, right = user.operands
        other = right if left == value else left
        if user.results[0].type.shape != value.type.shape:
            return None
        if k == 0:
            start = None if other == values[1] else other
        elif k == 1 and start is None:
            if user != users[0]:
                return None
            continue
        elif other != total:
            return None
        if total is not None:
            next_user = only_user(total)
            if next_user is None or next_user != user:
                return None
        users.append(user)
        total = user.results[0]
    return start, users


def concatenation_of(values: Sequence[ir.Value]) -> ir.Operation | None:
    """The op that puts all of some values together in order, if nothing else uses them."""
    user = only_user(values[0])
    if user is None or user.name not in JOINS or list(user.operands) != list(values):
        return None
    return user if all(only_user(v) is not None for v in values) else None
