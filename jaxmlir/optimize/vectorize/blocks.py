"""Equal blocks of a function's ops (:mod:`jaxmlir.analysis.repeated_blocks`), to be written as one
function.

What a block reads from without, and gives, is named by a *place* in it, op and operand or result;
an operand that several ops of a block read has several places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxmlir.analysis.repeated_blocks import OpString, Place, RepeatedBlock
from jaxmlir.dialect.builder import clone
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.vectorize.windows import Windows
from jaxmlir.transforms.new_function import NewFunction

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


@dataclass
class Blocks:
    """The blocks that are a word of a text."""

    rules: Rules
    text: OpString
    word: RepeatedBlock

    def column(self, places: Sequence[Place]) -> list[ir.Value]:
        """An operand of each of the blocks."""
        return [self.text.operand(start, places[0]) for start in self.word.starts]

    def results(self, place: Place) -> list[ir.Value]:
        """A result of each of the blocks."""
        return [self.text.result(start, place) for start in self.word.starts]

    def column_numbers(self, places: Sequence[Place]) -> list[int]:
        """The values that are an operand of each of the blocks."""
        return [self.text.operand_number(start, places[0]) for start in self.word.starts]

    def numbers(self, places: Sequence[Place]) -> set[int]:
        """The values that are an operand of one of the blocks."""
        return set(self.column_numbers(places))

    def is_same(self, places: Sequence[Place]) -> bool:
        """Whether an operand is the same value in all blocks."""
        return len(self.numbers(places)) == 1

    def is_constant(self, places: Sequence[Place]) -> bool:
        """Whether it is the same constant."""
        return self.is_same(places) and self.is_known(places)

    def is_known(self, places: Sequence[Place]) -> bool:
        """Whether it is a constant in each block."""
        return self.numbers(places) <= self.text.free

    def is_at_hand(self, places: Sequence[Place]) -> bool:
        """Whether it is known, or all together are the elements of one array."""
        if self.is_known(places):
            return True
        windows = Windows.of(self.column(places))
        return windows is not None and windows.is_view

    def arguments_and_constants(
        self, inputs: Iterable[list[Place]]
    ) -> tuple[list[list[Place]], list[list[Place]]]:
        """Operands from without, in two: those that a function of the block takes, and those that
        are the same constant in all blocks."""
        parts: tuple[list[list[Place]], list[list[Place]]] = ([], [])
        for places in inputs:
            parts[self.is_constant(places)].append(places)
        return parts

    def operand_type(self, places: Sequence[Place]) -> ir.Type:
        """The type of an operand: the same for all blocks."""
        return self.text.body.types[self.text.operand_number(self.word.starts[0], places[0])]

    def result_type(self, place: Place) -> ir.Type:
        return self.text.body.types[self.text.result_number(self.word.starts[0], place)]

    def write_function(
        self,
        name: str,
        indices: Iterable[int],
        arguments: Sequence[Sequence[Place]],
        constants: Sequence[Sequence[Place]],
        outputs: Sequence[Place | int],
    ) -> str:
        """Writes the first block as a function; the function's symbol.

        Args:
          indices: those of its ops that the function has.
          arguments: operands from without, each as the places that read it.
          constants: likewise, those that are written again in the function.
          outputs: the results that it gives; a number is one of its arguments.
        """
        text, body, start = self.text, self.text.body, self.word.starts[0]
        new = NewFunction(self.rules, name, list(map(self.operand_type, arguments)), body.function)
        columns = zip(arguments, new.args, strict=True)
        given = {place: arg for places, arg in columns for place in places}
        values: dict[int, ir.Value] = {}
        with new.body():
            for places in constants:
                constant = clone(text.operand(start, places[0]))
                given.update((place, constant) for place in places)
            for i in indices:
                index = text.index[start + i]
                operands = [
                    given[i, j] if (i, j) in given else values[v]
                    for j, v in enumerate(body.operands[index])
                ]
                copies = body.copy(index, operands)
                values.update(zip(range(*body.results[index]), copies, strict=True))
        return new.finish(
            [
                new.args[place]
                if isinstance(place, int)
                else values[text.result_number(start, place)]
                for place in outputs
            ]
        )
