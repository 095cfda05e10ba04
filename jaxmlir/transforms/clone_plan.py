"""Functions that were written for a body, and are written again for bodies that are alike.

Many bodies of loops are the same but for the values of their constants
(:attr:`jaxmlir.analysis.function_view.Body.structure`), and so is what a pass makes of them.  MLIR
copies a function in the time in which two or three of its ops are made one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.builder import Uses, references
from jaxmlir.dialect.ir import body_of, func, ir, is_private
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.transforms.new_function import OF_PRIVATE, clone_function

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


def is_model(body: FunctionView) -> bool:
    """Whether a pattern can be made of a function that is changed in place: nothing else is known
    of it, and each of its ops has a user and keeps its place."""
    function, used = body.function, {*body.returned}.union(*body.operands)
    return (
        len(body.ops) > 0
        and is_private(function)
        and OF_PRIVATE.issuperset(function.attributes.keys())
        and all(not used.isdisjoint(range(*results)) for results in body.results)
    )


def places(function: func.FuncOp, copies: Mapping[int, Any]) -> list[int | None]:
    """Which of a body's constants each op of a function is a copy of.

    Args:
      copies: those ops, by the number of the constant.
    """
    ops = list(body_of(function).operations)
    found: list[int | None] = [None] * len(ops)
    for index, op in copies.items():
        found[ops.index(op)] = index
    return found


class ClonePlan:
    """A function that was written for a body.

    Attributes:
      sources: of its ops, the op of the body that each is a copy of, if it is a constant.
    """

    def __init__(
        self,
        function: func.FuncOp,
        body: Sequence[Signature],
        sources: Iterable[int | None],
        others: Sequence[tuple[int, str]] = (),
    ):
        """
        Args:
          body: its ops.
          others: the ops that refer to functions that were written for the body as well, each
            with the attribute that does.
        """
        self._function = function
        self._uses = tuple(dict.fromkeys(references(function)))
        self._others = others
        self.sources: list[int | None] = list(sources)
        self._constants = [
            (place, index, body[index])
            for place, index in enumerate(self.sources)
            if index is not None and body[index].name == "jaxpr.constant"
        ]

    def write(self, rules: Rules, name: str, body: Sequence[Signature], uses: Uses) -> str:
        """The function for a body that is alike, in the program; its symbol.

        Args:
          name: what the symbol is made from.
          uses: what functions refer to, which is put down.
        """
        symbol, new = clone_function(rules, self._function, name)
        self._give_constants(new, body)
        uses[symbol] = self._uses
        return symbol

    def replace(self, rules: Rules, symbol: str, body: Sequence[Signature], uses: Uses) -> None:
        """Writes the function in the place of ``@symbol``, which is gone then."""
        functions = rules.program.functions
        old = functions[symbol]
        with ir.InsertionPoint(old):
            new = functions[symbol] = self._function.operation.clone()
        new.attributes["sym_name"] = ir.StringAttr.get(symbol)
        old.operation.erase()
        self._give_constants(new, body)
        uses[symbol] = self._uses

    def refer(self, rules: Rules, written: str, symbols: Sequence[str], uses: Uses) -> None:
        """Has a function that was written refer to others that were."""
        ops = body_of(rules.program.function(written)).operations
        for (place, name), symbol in zip(self._others, symbols, strict=True):
            ops[place].attributes[name] = ir.FlatSymbolRefAttr.get(symbol)
        uses[written] = tuple(symbols)

    def like(self, body: Sequence[Signature]) -> func.FuncOp:
        """The function for a body that is alike, where it is not in the program."""
        if all(body[index] is old for _, index, old in self._constants):
            return self._function
        new = self._function.operation.clone(ip=False)
        self._give_constants(new, body)
        return new

    def _give_constants(self, function: func.FuncOp, body: Sequence[Signature]) -> None:
        ops = body_of(function).operations
        for place, index, old in self._constants:
            signature = body[index]
            if signature is not old:
                attributes = ops[place].attributes
                for name, attribute in signature.attributes:
                    attributes[name] = attribute
