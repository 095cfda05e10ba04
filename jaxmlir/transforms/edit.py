"""Changes finished functions in place: their arguments, their results, loop-invariant ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import clone, copy, erase, is_constant, returned, set_results
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.support.masks import Mask, chosen, left_out
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.partial_eval import loses_rules
from jaxmlir.transforms.templates import Rules


def set_arguments(
    function: func.FuncOp,
    arguments: Sequence[ir.Value | ir.Type],
    results: Sequence[ir.Type] | None = None,
) -> list[ir.Value]:
    """Gives a function other arguments: old ones in a new order, and new ones of given types.

    Old arguments that are left out must have no uses.  Attributes that describe the old arguments
    are removed.

    Args:
      results: the function's result types, if the caller knows them.
    """
    block = body_of(function)
    old = list(block.arguments)
    # The leading arguments, which stay where they are.
    same = 0
    while same < min(len(old), len(arguments)) and arguments[same] == old[same]:
        same += 1
    new = old[:same]
    # New arguments have no location, like those that a function has from the start.
    nowhere = ir.Location.unknown()
    for argument in arguments[same:]:
        is_new = isinstance(argument, ir.Type)
        value = block.add_argument(argument if is_new else argument.type, nowhere)
        if not is_new:
            argument.replace_all_uses_with(value)
        new.append(value)
    for i in reversed(range(same, len(old))):
        block.erase_argument(i)
    results = function.type.results if results is None else results
    type_ = ir.FunctionType.get([v.type for v in new], list(results))
    attributes = function.attributes
    attributes["function_type"] = ir.TypeAttr.get(type_)
    for key in ("jaxpr.num_res", "jaxpr.active"):
        if key in attributes:
            del attributes[key]
    return new


@contextmanager
def before_return(function: func.FuncOp) -> Iterator[None]:
    """Inserts the ops built in this context at the end of a finished function."""
    with ir.InsertionPoint.at_block_terminator(body_of(function)):
        yield


class HoistedFunction(NamedTuple):
    """What :func:`hoist` moved out of a function."""

    function: func.FuncOp
    """Detached: ``(*constants) -> (*values for the function, *hoisted results)``."""
    constants: tuple[int, ...]
    """The loop-invariant arguments that the function still takes, before those values."""
    num_values: int
    results: tuple[int, ...]
    """The results that were moved out."""


def _split_calls(
    rules: Rules, function: func.FuncOp, known: set[ir.Value], wanted: set[ir.Value]
) -> None:
    """Splits the calls that compute some results from known operands alone; enters what becomes
    known.  A call without known operands is looked into for the ``wanted`` values only: they may be
    constants in the callee."""
    for op, name, _ in list(ops_of(function)):
        operands, results = [*op.operands], [*op.results]
        unknown = tuple([v not in known and not is_constant(v) for v in operands])
        if True not in unknown:
            known.update(results)
            continue
        if known.isdisjoint(operands):
            if name != "jaxpr.jit" or wanted.isdisjoint(results):
                continue
            callee = op.attributes["jaxpr"].value
            later = rules.functions.once(_dependent_results, callee, unknown)
            if wanted.isdisjoint(left_out(results, later)):
                continue
        if loses_rules(rules, op, name, unknown):
            continue
        halves = rules.split_call(op, op_signature.of_op(op, name, operands), unknown)
        if halves is None or all(halves.unknown.pattern):
            continue
        with ir.InsertionPoint(op), op.location:
            outs = halves.known.inline(left_out(operands, unknown))
            first = left_out(results, halves.unknown.pattern)
            residuals = outs[len(first) :]
            rest = halves.unknown.inline([*residuals, *chosen(operands, unknown)])
        known.update(outs)
        second = chosen(results, halves.unknown.pattern)
        for old, new in (*zip(first, outs, strict=False), *zip(second, rest, strict=True)):
            old.replace_all_uses_with(new)
        op.operation.erase()


def _dependent_results(rules: Rules, symbol: str, unknown: Sequence[bool]) -> Mask:
    """Which results of ``@symbol`` depend on an unknown argument, as far as ``jit`` calls tell.

    :func:`jaxmlir.transforms.partial_eval.unknown_results` looks into more ops, but asks for their
    rules.
    """
    function = rules.program.function(symbol)
    waiting = set(chosen(body_of(function).arguments, unknown))
    for op, name, operands in ops_of(function):
        pattern = tuple([v in waiting for v in operands])
        if True in pattern:
            later = (True,) * len(op.results)
            if name == "jaxpr.jit":
                callee = op.attributes["jaxpr"].value
                later = rules.functions.once(_dependent_results, callee, pattern)
            waiting.update(chosen(op.results, later))
    return tuple(v in waiting for v in returned(function))


def hoist(rules: Rules, function: func.FuncOp, num_constants: int, first: int) -> HoistedFunction:
    """Hoists loop-invariant ops out of a loop's body: those that need only its first
    ``num_constants`` arguments, which are the same in every iteration.

    The body then takes only those of these arguments that it still uses, followed by the hoisted
    values that it uses.  Of its results from the ``first`` on, it returns only those that are not
    loop-invariant.  Constants stay in the body.
    """
    arguments = list(body_of(function).arguments)
    outputs = set(returned(function)[first:])
    _split_calls(rules, function, set(arguments[:num_constants]), outputs)
    outer = NewFunction(
        rules, "hoisted", [v.type for v in arguments[:num_constants]], function, detached=True
    )
    values = dict(zip(arguments, outer.args, strict=False))
    moved = []
    used: dict[ir.Value, None] = {}
    constants = []
    free: set[ir.Value] = set()
    with outer.body():
        for op, name, operands in ops_of(function):
            results = list(op.results)
            if all(v in values or v in free for v in operands):
                if len(results) == 1 and is_constant(results[0]):
                    constants.append(op)
                    free.update(results)
                    continue
                args = [values[v] if v in values else clone(v) for v in operands]
                values.update(zip(results, copy(op, name, args), strict=True))
                moved.append(op)
            else:
                used.update(dict.fromkeys(v for v in operands if v in values))
    outs = returned(function)
    taken = tuple(i for i, v in enumerate(outs) if i >= first and v in values)
    used.update(dict.fromkeys(v for i, v in enumerate(outs) if i < first and v in values))
    remaining = tuple(i for i, v in enumerate(arguments[:num_constants]) if v in used)
    given = set(arguments)
    computed = [v for v in used if v not in given]
    outer.finish([values[v] for v in [*computed, *(outs[i] for i in taken)]])

    set_results(function, [v for i, v in enumerate(outs) if i not in taken])
    added = []
    for value in computed:
        added.append(body_of(function).add_argument(value.type, ir.Location.unknown()))
        value.replace_all_uses_with(added[-1])
    for op in reversed(moved):
        erase(op)
    for op in reversed(constants):
        if not list(op.results[0].uses):
            op.operation.erase()
    set_arguments(
        function, [*(arguments[i] for i in remaining), *added, *arguments[num_constants:]]
    )
    return HoistedFunction(outer.op, remaining, len(computed), taken)
