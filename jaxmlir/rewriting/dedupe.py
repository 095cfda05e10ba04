"""``jaxpr-dedupe-functions``: structurally equal functions become one.

Two functions are equal if their ops are equal and the functions that these refer to are equal in
turn.  This includes functions that refer to themselves, as custom derivative rules do.  Equal
functions are found like equivalent states of an automaton (Moore 1956): start with classes of
functions with equal ops, and split the classes whose members refer to functions of different
classes until there are none.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect.builder import SymbolUses, named_ops, returned
from jaxmlir.dialect.ir import (
    body_of,
    func,
    has_regions,
    inner_ops,
    ir,
    is_foreign,
    is_private,
    scope,
    symbol_uses,
)
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Pass


class DedupeFunctions(Pass):
    """Merge private functions that are equal but for their names and locations."""

    name: ClassVar[str] = "jaxpr-dedupe-functions"

    def run(self, program: Module) -> bool:
        return dedupe_functions(program)


def dedupe_functions(program: Module) -> bool:
    """Keeps the first of each class of equal private functions and redirects all references to it;
    returns whether any were equal."""
    functions = program.functions
    count = len(functions)
    merge_functions(functions)
    if len(functions) == count:
        return False
    program.changed(functions)
    return True


def merge_functions(
    functions: dict[str, func.FuncOp], among: Collection[str] | None = None
) -> None:
    """Merges equal functions of a module in place; removed ones, by default any, leave the
    dictionary too."""
    with scope():
        representative = equal_functions(functions)
        if among is not None:
            representative |= {name: name for name in functions if name not in among}
        if all(name == chosen for name, chosen in representative.items()):
            return
        for name, function in list(functions.items()):
            if representative[name] != name:
                functions.pop(name).operation.erase()
            else:
                rename_uses(function, representative)


def rename_functions(program: Module, names: dict[str, str], uses: SymbolUses) -> None:
    """Renames functions and the references to them; ``uses`` are the symbols they refer to
    before."""
    if not names:
        return
    with scope():
        for name, function in program.functions.items():
            if not names.keys().isdisjoint(uses[name]):
                rename_uses(function, names)
            if name in names:
                function.attributes["sym_name"] = ir.StringAttr.get(names[name])
    program.changed({names.get(name, name): op for name, op in program.functions.items()})


def equal_functions(functions: Mapping[str, func.FuncOp]) -> dict[str, str]:
    """For each function, the first one that is equal to it."""
    shapes: dict[Any, int] = {}
    class_of: dict[str, int] = {}
    uses: dict[str, tuple[str, ...]] = {}
    outlines = {name: _outline(f) for name, f in functions.items() if is_private(f)}
    # A function with a unique outline equals no other: its shape is not needed.
    count = collections.Counter(outlines.values())
    for name, function in functions.items():
        shape, uses[name] = name, ()
        if count[outlines.get(name)] > 1:
            shape, uses[name] = shape_of(function)
        class_of[name] = shapes.setdefault(shape, len(shapes))
    if len(shapes) == len(functions):
        return {name: name for name in functions}
    split_classes(class_of, uses)
    first: dict[int, str] = {}
    return {name: first.setdefault(class_of[name], name) for name in functions}


def split_classes(class_of: dict[str, int], uses: Mapping[str, tuple[str, ...]]) -> None:
    """Splits classes until the members of each refer to functions of the same classes, in place.

    Each round looks only at functions that refer to one that has just left its class.  The largest
    part of a class stays in it (Hopcroft 1971), so that a function changes its class a few times
    only.  A chain of functions takes as many rounds as it is long.
    """
    members: dict[int, set[str]] = collections.defaultdict(set)
    for name, number in class_of.items():
        members[number].add(name)
    users: dict[str, list[str]] = collections.defaultdict(list)
    for name, number in class_of.items():
        for use in set(uses[name]) if len(members[number]) > 1 else ():
            users[use].append(name)
    changed: Collection[str] = class_of
    while changed:
        groups: dict[int, dict[Any, set[str]]] = collections.defaultdict(dict)
        for name in changed:
            number = class_of[name]
            if len(members[number]) > 1:
                key = tuple([class_of.get(use, use) for use in uses[name]])
                groups[number].setdefault(key, set()).add(name)
        left: list[str] = []
        for number, by_uses in groups.items():
            group, parts = members[number], [*by_uses.values()]
            # The other members refer to the same classes as before.
            others = len(group) - sum(map(len, parts))
            largest = max(parts, key=len)
            if others < len(largest):
                parts.remove(largest)
                if others:
                    parts.append(group.difference(largest, *parts))
            for part in parts:
                new_number = len(members)
                members[new_number] = part
                group -= part
                class_of.update(dict.fromkeys(part, new_number))
                left += part
        changed = {user for name in left for user in users[name]}


def _outline(function: func.FuncOp) -> tuple[ir.FunctionType, str]:
    """The type of a function and the name of its first op: equal for equal functions.  The type
    alone would not do: a function that only calls another one has the same type."""
    first = body_of(function).operations[0]
    return function.type, first.operation.name


def shape_of(
    function: func.FuncOp, without: Collection[str] = ()
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The function without the symbols it refers to, and these in order; leaves attributes of ops
    out."""
    numbers: dict[ir.Value, int] = {v: i for i, v in enumerate(function.arguments)}
    uses: list[str] = []
    ops = []
    for op, name, operands in ops_of(function):
        attributes = []
        for key, attr in op.attributes.items() if len(op.attributes) else ():
            if key in without:
                continue
            symbols = symbol_uses(attr)
            uses.extend(symbols)
            attributes.append((key, rename(attr, _BLANK) if symbols else attr))
        types = tuple(op.results.types)
        # An op with regions equals no other.
        regions = op if has_regions(op, name) else None
        parts = name, tuple(attributes), tuple([numbers[v] for v in operands]), types, regions
        ops.append(parts)
        for result in op.results:
            numbers[result] = len(numbers)
    own_attributes = tuple(
        (key, attr) for key, attr in function.attributes.items() if key != "sym_name"
    )
    returns = tuple(numbers[v] for v in returned(function))
    return (own_attributes, tuple(ops), returns), tuple(uses)


def structure_of(
    functions: Mapping[str, func.FuncOp], *symbols: str, without: Collection[str] = ()
) -> tuple[Any, ...]:
    """Functions with all that they refer to, without some attributes of ops: equal for those of any
    program that differ in names."""
    numbers = {name: i for i, name in enumerate(symbols)}
    shapes = []
    for name in (pending := [*numbers]):
        shape, uses = shape_of(functions[name], without)
        unseen = [use for use in dict.fromkeys(uses) if use not in numbers]
        numbers.update((use, len(numbers) + i) for i, use in enumerate(unseen))
        pending += unseen
        shapes.append((shape, tuple([numbers[use] for use in uses])))
    return tuple(shapes)


class _BlankNames(dict[str, str]):
    def get(self, key: str, default: Any = None) -> str:
        return "_"


_BLANK = _BlankNames()


def rename(attr: ir.Attribute, names: Mapping[str, str]) -> ir.Attribute:
    """The attribute with other symbols in it."""
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return ir.FlatSymbolRefAttr.get(names.get(attr.value, attr.value))
    if isinstance(attr, ir.ArrayAttr):
        return ir.ArrayAttr.get([rename(item, names) for item in attr])
    if isinstance(attr, ir.DictAttr):
        return ir.DictAttr.get({item.name: rename(item.attr, names) for item in attr})
    return attr


def short_name(symbol: str) -> str:
    """A symbol without the numbers that make it unique."""
    return re.sub(r"(_\d+)+$", "", symbol) if symbol[-1:].isdigit() else symbol


def rename_uses(function: func.FuncOp, names: Mapping[str, str]) -> None:
    """Renames the references of a function to others."""
    for op, name in named_ops(function):
        for holder in (op, *inner_ops(op)) if is_foreign(name) else (op,):
            attributes = holder.attributes
            for key, attr in list(attributes.items()) if len(attributes) else ():
                if any(names.get(use, use) != use for use in symbol_uses(attr)):
                    attributes[key] = rename(attr, names)
