"""How a program is made again for another target than the one that it was optimized for.

``program.optimize(2)`` is asked for before anybody knows what the program will be lowered for.  So
it is optimized for JAX's default device, and remembers the program before that and the steps since.
Where it is lowered for another target, the steps are taken again for that one.  What is given a
target is optimized for that, and remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jaxmlir.targets import Target

Step = Callable[[Any, "Target", bool], Any]
"""From a program to the next, for a target; with what is stored decided now, or when lowered."""


def at_level(level: int, without: Collection[str]) -> Step:
    """The passes of an optimization level."""

    def step(program: Any, target: Target, stored: bool) -> Any:
        if stored:
            return program.optimize(level, without=without, target=target)
        return program.structured(level, without, target)

    return step


class Recipe(NamedTuple):
    """How a program was made, and for which target.

    Attributes:
      target: what it was made for, which nobody named.
      source: gives the program before it was optimized, for another target.
      steps: what followed.
    """

    target: Target
    source: Callable[[Target], Any]
    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Recipe:
        """The recipe with one step more."""
        return self._replace(steps=(*self.steps, step))

    def make(self, target: Target, *, stored: bool = True) -> Any:
        """The program for a target.

        Args:
          stored: run the passes that decide what is stored, which derivatives do without; by
            default they are.  Otherwise they run where the result is lowered.
        """
        program = self.source(target)
        for step in self.steps:
            program = step(program, target, stored)
        return program
