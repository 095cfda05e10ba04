"""Functions in two: what their fixed arguments determine, where that is worth keeping, and the
rest."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxmlir import toolbox
from jaxmlir.analysis.call_graph import CallGraph, is_plain_call
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work
from jaxmlir.analysis.purity import Counted
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import inline, is_constant, is_used
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.optimize.loops.licm.choice import Choice, can_move
from jaxmlir.optimize.loops.scan_editor import LoopEditor, can_change
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.edit import set_arguments
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules


class Uses(NamedTuple):
    """How an op gives a function its arguments."""

    fixed: tuple[bool, ...]
    """Which are the same each time that the function runs."""
    needed: tuple[bool, ...]
    """Which the op takes even if the function has no use for them."""
    place: int
    """Before which of them new ones are put."""


@dataclass(frozen=True, eq=False)
class Split:
    """A function in two.

    Attributes:
      symbol: of the rest.
      template: detached; from the fixed arguments to the values that the rest takes besides.
      uses: how the function got its arguments before.
      kept: which of these the rest takes.
      moved: the ops of the template, by their numbers in the function as it was.
      left: those of the rest.
    """

    symbol: str
    template: func.FuncOp
    uses: Uses
    kept: tuple[bool, ...]
    moved: Sequence[int]
    left: Sequence[int]

    def arguments(self, operands: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[ir.Value]:
        """What the rest takes in place of those operands."""
        place = self.uses.place
        before = chosen(operands[:place], self.kept[:place])
        return [*before, *values, *chosen(operands[place:], self.kept[place:])]

    @property
    def num_before(self) -> int:
        """How many arguments the rest takes up to the last of the values."""
        return sum(self.kept[: self.uses.place]) + len(self.template.type.results)


class Computed:
    """The values of splits that have been computed in a function, from the top."""

    def __init__(self) -> None:
        self._found: dict[Any, list[ir.Value]] = {}

    def __call__(self, split: Split, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """The values for an op with those operands, at the insertion point or before."""
        args = chosen(operands, split.uses.fixed)
        key = (split, *args)
        if key not in self._found:
            self._found[key] = inline(split.template, args)
        return self._found[key]


class Splits:
    """The functions of a program, each taken apart once for all ops that use it alike.

    Args:
      bodies: gives out the functions that are taken apart.
      growth: how much work saved justifies keeping one byte more.

    Attributes:
      changed: whether a function has been changed, if only the calls in it.
    """

    def __init__(self, rules: Rules, graph: CallGraph, bodies: LoopEditor, growth: float):
        self._rules = rules
        self._growth = growth
        self.changed = False
        self._bodies = bodies
        # The functions that are as they were read.
        self._unchanged = set(graph.uses)
        self._work = Work(rules.program)
        self._counted = Counted(rules.program)
        self._found: dict[tuple[str, str, Uses], Split | None] = {}
        # By the structure of a body: of many the same is taken out, but for constants.
        self._choices: dict[Hashable, Choice] = {}

    def of_scan(self, scan: ScanOp, count: int, body: FunctionView | None = None) -> Split | None:
        """The body of a scan of so many operands in two, if it has more than one iteration, or
        surely one where how many is not known: what is computed in vain has derivatives.

        Args:
          body: the same, from who has read it.
        """
        runs = scan.length > 1 if scan.is_counted else scan.surely_runs
        if not (runs and self.can_change(scan.body)):
            return None
        consts, carry = scan.counts
        # Nobody misses constants and slices that the body does without.
        needed = tuple([consts <= i < consts + carry for i in range(count)])
        return self.of(scan.body, Uses(_first(consts, count), needed, consts), body=body)

    def of_while(self, symbol: str, consts: int, carry: int) -> Split | None:
        """The condition or the body of a while in two; it takes all that is carried."""
        count = consts + carry
        return self.of(symbol, Uses(_first(consts, count), count * (True,), consts))

    def can_change(self, symbol: str) -> bool:
        return can_change(self._rules.program.function(symbol))

    def of(
        self, symbol: str, uses: Uses, name: str = "", body: FunctionView | None = None
    ) -> Split | None:
        """``@symbol`` in two; ``None`` if nothing is to be computed apart.

        Args:
          name: of the op, if it is a call: others may call the function too.
          body: the function, from who has read it.
        """
        if True not in uses.fixed:
            return None
        key = (symbol, name, uses)
        if key not in self._found:
            self._found[key] = None
            function = self._bodies.copy(symbol) if name else self._bodies.own(symbol)
            if body is None or body.function is not function:
                body = self._read(function)
            found = self._found[key] = self._split(body, uses, name == "jaxpr.remat2")
            if found is None:
                self._bodies.drop(function) if name else self._bodies.give_back(symbol, function)
        return self._found[key]

    def change(self, function: func.FuncOp) -> None:
        """Takes note of a function that is no more as it was read."""
        self._unchanged.discard(function.name.value)

    def _can_move(self, signature: Signature) -> bool:
        """Whether ops give the same values somewhere else."""
        return can_move(signature) and not self._counted(signature)

    def _read(self, function: func.FuncOp) -> FunctionView:
        is_unchanged = function.name.value in self._unchanged
        return (
            analyses_of(self._rules.program).body(function)
            if is_unchanged
            else FunctionView(function)
        )

    def _split(self, body: FunctionView, uses: Uses, in_remat: bool) -> Split | None:
        """Takes a function apart that nobody else uses."""
        function = body.function
        arguments = list(body_of(function).arguments)
        if not _CALLS.isdisjoint(body.names):
            if self._split_calls(function, chosen(arguments, uses.fixed)):
                self.change(function)
                body = FunctionView(function)
        key = body.structure, uses.fixed, in_remat
        choice = self._choices.get(key)
        if choice is None:
            choice = Choice(body, uses.fixed, self._work, self._growth, in_remat, self._can_move)
            self._choices[key] = choice
        if not choice.kept:
            return None
        self.change(function)
        template, moved = self._template(body, choice)
        values = [body.value(v) for v in choice.kept]
        for value in values:
            argument = body_of(function).add_argument(value.type, ir.Location.unknown())
            value.replace_all_uses_with(argument)
        new = list(body_of(function).arguments)[len(arguments) :]
        left = dict.fromkeys(range(len(body.ops)))
        # A constant may have lost its last user, too.
        for index in sorted({*choice.moved, *choice.constants.values()}, reverse=True):
            if not any(map(is_used, body.ops[index].results)):
                body.ops[index].operation.erase()
                del left[index]
        kept = tuple([n or is_used(v) for n, v in zip(uses.needed, arguments, strict=True)])
        split = Split(function.name.value, template, uses, kept, moved, tuple(left))
        set_arguments(function, split.arguments(arguments, new))
        return split

    def _template(self, body: FunctionView, choice: Choice) -> tuple[func.FuncOp, list[int]]:
        """The ops chosen, as a function of the fixed arguments, and in which order."""
        types = [body.types[v] for v in choice.fixed]
        new = NewFunction(self._rules, "invariant", types, body.function, detached=True)
        values = dict(zip(choice.fixed, new.args, strict=True))
        order: list[int] = []

        def operand(number: int) -> ir.Value:
            """A value of the template; constants are written again where they are needed."""
            if number not in values:
                write(choice.constants[number])
            return values[number]

        def write(index: int) -> None:
            operands = [operand(v) for v in body.operands[index]]
            order.append(index)
            values.update(zip(range(*body.results[index]), body.copy(index, operands), strict=True))

        with new.body():
            for index in choice.moved:
                write(index)
        new.finish([values[v] for v in choice.kept])
        return new.op, order

    def _split_calls(self, function: func.FuncOp, fixed: Sequence[ir.Value]) -> bool:
        """Takes what fixed values determine out of calls, into the function; whether there was
        any."""
        known, computed, found = set(fixed), Computed(), False
        for op, name, operands in toolbox.ops_of(function):
            pattern = tuple([v in known for v in operands])
            if True not in pattern:
                continue
            if all(f or is_constant(v) for f, v in zip(pattern, operands, strict=True)):
                if self._can_move(op_signature.of_op(op, name, operands)):
                    known.update(op.results)
                continue
            if not _can_split(op, name):
                continue
            symbol = op.attributes["jaxpr"].value
            if not self.can_change(symbol):
                continue
            count = len(operands)
            split = self.of(symbol, Uses(pattern, count * (False,), count), name)
            if split is None:
                continue
            found = self.changed = True
            with ir.InsertionPoint(op), op.location:
                values = computed(split, operands)
                attributes = dict(op.attributes.items())
                attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(split.symbol)
                attributes.pop("donated_invars", None)
                results = list(op.results.types)
                args = split.arguments(operands, values)
                new = ir.Operation.create(name, results, args, attributes)
            known.update(values)
            toolbox.replace(op, list(new.results))
        return found


def _first(number: int, count: int) -> tuple[bool, ...]:
    return number * (True,) + (count - number) * (False,)


_CALLS = frozenset({"jaxpr.jit", "jaxpr.remat2"})


def _can_split(op: Any, name: str) -> bool:
    """Whether an op does no more than call its function, even if computing it again at times."""
    if "jaxpr.effects" in op.attributes:
        return False
    if name == "jaxpr.jit":
        return is_plain_call(op, name)
    return name == "jaxpr.remat2" and not isinstance(toolbox.attribute(op, "prevent_cse"), tuple)
