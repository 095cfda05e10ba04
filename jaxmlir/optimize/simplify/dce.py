"""``jaxpr-dce``: dead code elimination, through calls, branches and loops.

The pass removes ops without lasting effects whose results are unused, and everything that only
these needed: operands and results of calls and conds, carried values of loops, and arguments,
results and ops of callees.  Ops of other dialects stay, and ops that run them, with all values that
they and the ops in their regions read, as their effects are unknown here; MLIR's ``canonicalize``
knows them.  If two callers of a function use different results, it is cloned.  Functions that only
dead ops referred to are erased.  A function that was never referred to is an entry point and stays
(MLIR's ``symbol-dce`` removes it).

:mod:`jaxmlir.analysis.liveness` finds what is live; this module removes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from jaxmlir.analysis.liveness import FunctionVariant, Liveness, Mask, PrunedOp, whole
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect import codec, ops
from jaxmlir.dialect.builder import erase
from jaxmlir.dialect.ir import free_symbol, func, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.support.masks import chosen


class Dce(Pass):
    """Remove ops that contribute to no result and no effect, in called functions too."""

    name: ClassVar[str] = "jaxpr-dce"

    def run(self, program: Module) -> bool:
        return dce(program)


def dce(program: Module) -> bool:
    """Removes dead ops, operands, arguments, results and functions in place; returns whether there
    were any."""
    functions, analyses = program.functions, analyses_of(program)
    liveness = Liveness(functions, read=lambda symbol: analyses.body(functions[symbol]))
    entries = analyses.graph.entry_points()
    return _keep(program, liveness, [whole(functions[symbol]) for symbol in entries])


def prune(program: Module, entry: FunctionVariant) -> None:
    """Cuts a program down to one variant of one function, in place; the variant keeps its name."""
    with scope():
        _keep(program, Liveness(program.functions), [entry])


def _keep(program: Module, liveness: Liveness, entries: Sequence[FunctionVariant]) -> bool:
    functions = liveness.functions
    variants = _variants(liveness, entries)
    by_variant = _make(program, variants)
    trimmed = [
        _trim(function, variant, liveness, by_variant) for variant, function in by_variant.items()
    ]
    dead = functions.keys() - variants.keys()
    for symbol in dead:
        functions[symbol].operation.erase()
    changed = bool(dead) or len(by_variant) > len(variants) or any(trimmed)
    if changed:
        program.changed()
    return changed


def _variants(
    liveness: Liveness, entries: Sequence[FunctionVariant]
) -> dict[str, list[FunctionVariant]]:
    """The needed variants of each function; an unchanged one comes first."""
    functions = liveness.functions
    variants: dict[str, list[FunctionVariant]] = {}
    for variant in liveness.needed(entries):
        variants.setdefault(variant.symbol, []).append(variant)
    return {
        symbol: sorted(variants[symbol], reverse=True) for symbol in functions if symbol in variants
    }


def _make(
    program: Module, variants: dict[str, list[FunctionVariant]]
) -> dict[FunctionVariant, func.FuncOp]:
    """Clones a function for each of its variants, not trimmed yet; the first variant keeps the
    original."""
    functions = program.functions
    taken = set(functions)
    by_variant = {}
    for symbol, (first, *others) in variants.items():
        by_variant[first] = functions[symbol]
        for variant in others:
            name = free_symbol(symbol, taken)
            taken.add(name)
            copy = functions[symbol].operation.clone(ir.InsertionPoint(program.module.body))
            copy.attributes["sym_name"] = ir.StringAttr.get(name)
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
            by_variant[variant] = copy.opview
    return by_variant


def _trim(
    function: func.FuncOp,
    variant: FunctionVariant,
    liveness: Liveness,
    by_variant: dict[FunctionVariant, func.FuncOp],
) -> bool:
    """Trims a whole function to its variant in place; returns whether that changed anything."""
    live = liveness.of(variant.symbol, variant.results)
    all_kept = all(variant.results) and all(variant.arguments)
    # Needs no new symbol: a variant that is the whole function keeps its name.
    cuts = {i: cut for i, cut in live.cuts.items() if not cut.is_whole}
    if not (live.dead or cuts) and all_kept:
        return False
    *body, end = function.entry_block.operations
    if not all(variant.results):
        values = chosen(list(end.operands), variant.results)
        with ir.InsertionPoint(end):
            func.ReturnOp(values, loc=end.location)
        end.operation.erase()
    dead = set(live.dead)
    # From the end, so that users are erased before producers.
    for i in range(len(body) - 1, -1, -1):
        if i in dead:
            if remarks_wanted():
                remark(body[i], f"removed '{body[i].operation.name}': nothing uses its results")
            erase(body[i])
        elif i in cuts:
            _cut(body[i].operation, cuts[i], by_variant, liveness)
    if not all_kept:
        _drop_arguments(function, variant)
    return True


def _drop_arguments(function: func.FuncOp, variant: FunctionVariant) -> None:
    arguments, results = variant.arguments, variant.results
    type_, attributes = function.type, function.attributes
    for i in range(len(arguments) - 1, -1, -1):
        if not arguments[i]:
            function.entry_block.erase_argument(i)
    inputs, outputs = chosen(type_.inputs, arguments), chosen(type_.results, results)
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    for name, mask in (("arg_attrs", arguments), ("res_attrs", results)):
        if name in attributes:
            attributes[name] = ir.ArrayAttr.get(chosen(list(attributes[name]), mask))
    if "jaxpr.num_constvars" in attributes:
        count = codec.decode(attributes["jaxpr.num_constvars"])
        attributes["jaxpr.num_constvars"] = codec.encode(sum(arguments[:count]))
    for name in _ABOUT_WHOLE_FUNCTIONS:
        if name in attributes:
            del attributes[name]


# Attributes that describe a function as an entry point or a rule; they do not hold for a variant.
_ABOUT_WHOLE_FUNCTIONS = tuple(
    f"jaxpr.{name}" for name in "in_tree out_tree num_res in_zeros out_zeros input_fwds".split()
)


def _cut(
    op: ir.Operation,
    cut: PrunedOp,
    by_variant: dict[FunctionVariant, func.FuncOp],
    liveness: Liveness,
) -> None:
    """Replaces an op by one with fewer operands and results that refers to function variants."""
    dropped = _dropped(cut)
    if dropped and remarks_wanted():
        remark(op, f"{dropped} of '{op.name}' dropped: nothing depends on them")
    with ir.InsertionPoint(op):
        new = reduced(op, cut, lambda variant: by_variant[variant].name.value, liveness)
    for old, replacement in zip(chosen(list(op.results), cut.results), new.results, strict=True):
        old.replace_all_uses_with(replacement)
    op.erase()


def reduced(
    op: Any,
    cut: PrunedOp,
    symbol: Callable[[FunctionVariant], str],
    liveness: Liveness,
    ip: ir.InsertionPoint | bool | None = None,
) -> ir.Operation:
    """Builds the part of an op that a cut leaves, and returns the new op.

    Args:
      symbol: returns the name of a variant of a function.
      ip: where to build it; by default at the current insertion point.
    """
    op = op.operation
    attributes = dict(op.attributes.items())
    for name, variants in cut.functions.items():
        symbols = [ir.FlatSymbolRefAttr.get(symbol(v)) for v in variants]
        is_tuple = isinstance(attributes.get(name), ir.ArrayAttr)
        attributes[name] = ir.ArrayAttr.get(symbols) if is_tuple else symbols[0]
    for name in cut.dropped:
        attributes.pop(name, None)
    attributes |= cut.added
    for name, count in cut.counts.items():
        attributes[name] = codec.encode(count)
        if not count:
            del attributes[name]
    if not (all(cut.operands) and all(cut.results)):
        for name, mask in _one_each(op.name, cut):
            if name in attributes:
                _keep_items(attributes, name, mask)
    if "jaxpr.effects" in attributes:
        left = liveness.effects_left(attributes["jaxpr.effects"], cut)
        attributes["jaxpr.effects"] = ir.ArrayAttr.get(left)
        if not left:
            del attributes["jaxpr.effects"]
    types = chosen(list(op.results.types), cut.results)
    operands = chosen(list(op.operands), cut.operands)
    name = cut.name or op.name
    return ir.Operation.create(name, types, operands, attributes, loc=op.location, ip=ip)


def _dropped(cut: PrunedOp) -> str:
    counts = (cut.operands.count(False), "operand"), (cut.results.count(False), "result")
    return " and ".join(f"{n} {what}{'s' * (n > 1)}" for n, what in counts if n)


# Attributes with one item for each operand or result, besides those whose record says so.
_ONE_EACH = {"jaxpr.remat2": (("prevent_cse", "operands"),)}


def _one_each(name: str, cut: PrunedOp) -> Iterator[tuple[str, Mask]]:
    masks = {"operands": cut.operands, "results": cut.results}
    record = ops.OPS[name.removeprefix("jaxpr.")]
    named = [(a.name, a.each) for a in record.attributes if a.each in masks]
    for attribute, each in (*named, *_ONE_EACH.get(name, ())):
        yield attribute, masks[each]


def _keep_items(attributes: dict[str, ir.Attribute], name: str, mask: Mask) -> None:
    """Filters a tuple attribute; drops it if all its items are defaults, as the importer does."""
    attr = attributes[name]
    if isinstance(attr, ir.ArrayAttr):
        items = chosen(list(attr), mask)
        attributes[name] = ir.ArrayAttr.get(items)
        says_nothing = all(codec.decode(item) is None for item in items) and "specs" not in name
    elif isinstance(attr, ir.DenseBoolArrayAttr):
        flags = tuple(chosen(list(attr), mask))
        attributes[name] = codec.encode(flags)
        says_nothing = name == "donated_invars" and not any(flags)
    else:
        return
    if says_nothing:
        del attributes[name]
