"""Writes new functions of a module, and changes the arguments and results of finished ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from jaxmlir.dialect.builder import create, inline, instantiated, symbol_ref, take_in, write_return
from jaxmlir.dialect.ir import body_of, func, ir, new_function
from jaxmlir.support.masks import Mask, filled

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


class NewFunction:
    """A function under construction: its result types are set when it is finished.  A ``detached``
    one is not in the module; its ops are copied in."""

    op: func.FuncOp
    block: ir.Block

    def __init__(
        self,
        rules: Rules,
        name: str,
        arg_types: Sequence[ir.Type],
        like: func.FuncOp,
        *,
        reserved: bool = False,
        detached: bool = False,
    ):
        """
        Args:
          name: the symbol if it is ``reserved``, else what the symbol is made from.
          like: the function whose location the new one gets.
        """
        self._rules = rules
        self._detached = detached
        self.name: str = name if reserved or detached else rules.importer.unique_symbol(name)
        arg_types = list(arg_types)
        ip = False if detached else ir.InsertionPoint(rules.program.module.body)
        self.op, self.block = new_function(self.name, arg_types, [], like.location, ip)
        if not detached:
            # Entered here, so that nobody has to walk the module again to find it.
            rules.program.functions[self.name] = self.op
        self.args: list[ir.Value] = list(self.block.arguments)

    @contextmanager
    def body(self) -> Iterator[None]:
        """Appends the ops built in this context to the function.  They get its location, unless
        they or their builder have another; ops of a detached function get the copy's location."""
        place = ir.Location.current
        if isinstance(place, ir.UnknownLoc) and not self._detached:
            place = self.op.location
        with ir.InsertionPoint(self.block), place:
            yield

    def finish(self, results: Sequence[ir.Value]) -> str:
        """Writes the return of the results; gives the symbol."""
        with ir.InsertionPoint(self.block):
            write_return(results)
        type_ = ir.FunctionType.get([v.type for v in self.args], [v.type for v in results])
        self.op.attributes["function_type"] = ir.TypeAttr.get(type_)
        self._rules.functions.given_effects.list_in(self.op)
        return self.name


class SplitFunction(NamedTuple):
    """The symbols of the two functions that one was split into."""

    first: str
    """The first half, whose last results are the residuals."""
    second: str
    """The second half, whose first arguments are the residuals."""
    num_residuals: int
    pattern: Mask
    """Which results of the original the second one gives, or takes the cotangents of."""


OF_PRIVATE = frozenset({"function_type", "sym_name", "sym_visibility"})
"""The attributes of a private function about which nothing else is known."""


def copy_function(rules: Rules, symbol: str) -> func.FuncOp:
    """A private copy of a function, without any further attributes."""
    _, copied = clone_function(rules, rules.program.function(symbol), symbol)
    attributes = copied.attributes
    for key in set(attributes.keys()) - OF_PRIVATE:
        del attributes[key]
    attributes["sym_visibility"] = ir.StringAttr.get("private")
    return copied


def clone_function(rules: Rules, function: func.FuncOp, name: str) -> tuple[str, func.FuncOp]:
    """A copy of a function, under a symbol that is made from a name."""
    program = rules.program
    with ir.InsertionPoint(program.module.body):
        clone = function.operation.clone()
    symbol = rules.importer.unique_symbol(name)
    clone.attributes["sym_name"] = ir.StringAttr.get(symbol)
    program.functions[symbol] = clone
    rules.functions.given_effects.list_in(clone)
    return symbol, clone


def adapt(
    rules: Rules,
    symbol: str,
    name: str,
    arguments: Sequence[tuple[ir.Type, bool]],
    results: Sequence[tuple[ir.Type, bool]],
) -> str:
    """``@symbol`` with additional arguments, which it ignores, and additional results, which are
    zero; written as ``@name`` if there are any.  Arguments and results are types, each with whether
    ``@symbol`` has it."""
    function = rules.program.function(symbol)
    if all(taken for _, taken in (*arguments, *results)):
        # From now on it is a function of its own, not part of a derivative.
        for key in {"jaxpr.active", "jaxpr.num_res"}.intersection(function.attributes.keys()):
            del function.attributes[key]
        return symbol
    new = NewFunction(rules, name, [type_ for type_, _ in arguments], function)
    args = [v for v, (_, taken) in zip(new.args, arguments, strict=True) if taken]
    with new.body(), function.location:
        types, mask = zip(*results, strict=True) if results else ((), ())
        full = instantiated(filled(take_in(function, args), mask), types)
    return new.finish(full)


def ignoring(
    rules: Rules, symbol: str, name: str, before: Sequence[ir.Type], after: Sequence[ir.Type]
) -> str:
    """``@symbol`` with unused arguments of these types before and after its own; written under a
    symbol that is made from ``name``, if there are any."""
    if not before and not after:
        return symbol
    function = rules.program.function(symbol)
    types = [*before, *function.type.inputs, *after]
    new = NewFunction(rules, name, types, function)
    with new.body():
        results = inline(function, new.args[len(before) : len(types) - len(after)])
    return new.finish(results)


def call(rules: Rules, symbol: str, args: Sequence[ir.Value]) -> list[ir.Value]:
    """Writes a call of ``@symbol`` at the current insertion point; gives its results."""
    # Profilers show the user's name.
    name, _, _ = symbol.partition(".")
    attributes = {"jaxpr": symbol_ref(symbol), "name": ir.StringAttr.get(name)}
    effects = rules.functions.given_effects.of_call(symbol)
    if effects is not None:
        attributes["jaxpr.effects"] = effects
    types = rules.program.function(symbol).type.results
    return create("jaxpr.jit", types, args, attributes)


def set_arguments(
    function: func.FuncOp,
    arguments: Sequence[ir.Value | ir.Type],
    results: Sequence[ir.Type] | None = None,
) -> list[ir.Value]:
    """Gives a function other arguments: old ones in a new order, and new ones of given types.  Old
    arguments that are left out must have no uses.  Attributes that describe the old arguments are
    removed.  The caller may know the types of the results."""
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
