"""The forms that a program takes when it is lowered or differentiated; each is made once.

``program.optimize(2)`` is called before the target of lowering is known.  So it optimizes for JAX's
default device, and the result remembers the original program and the steps since: its
:class:`Recipe`.  If it is lowered for another target, the steps are repeated for that target.  With
an explicit target, a program is optimized for this target, and has no recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir.errors import TransformError

if TYPE_CHECKING:
    from jaxmlir.passes import Pipeline
    from jaxmlir.passes.remarks import Sink
    from jaxmlir.targets import Target

ProgramStep = Callable[[Any, "Target", bool], Any]
"""Makes the next program from a program, a target, and whether the passes that decide what is
stored run now or when the program is lowered."""


def at_level(
    level: int, without: Collection[str], memory_budget: float | None = None
) -> ProgramStep:
    """The passes of an optimization level, within a memory budget."""

    def step(program: Any, target: Target, stored: bool) -> Any:
        if stored and memory_budget is None:
            return program.optimize(level, without=without, target=target)
        result = _structured(program, level, without, target, memory_budget)
        return result.versions.lowered(target) if stored else result

    return step


class Recipe(NamedTuple):
    """How a program was made, and for which target.

    Attributes:
      target: the target that it was made for, a default that nobody named.
      source: gives the program before it was optimized, for another target.
      steps: the steps that followed.
    """

    target: Target
    source: Callable[[Target], Any]
    steps: tuple[ProgramStep, ...] = ()

    def then(self, step: ProgramStep) -> Recipe:
        """The recipe with one more step at its end."""
        return self._replace(steps=(*self.steps, step))

    def make(self, target: Target, *, stored: bool = True) -> Any:
        """The program for a target.

        Args:
          stored: run the passes that decide what is stored now.  Otherwise they run when the result
            is lowered, as derivatives require.
        """
        program = self.source(target)
        for step in self.steps:
            program = step(program, target, stored)
        return program


class Versions:
    """The forms of a program, each made when it is first asked for.

    Args:
      forms: the forms that have been made; new ones are added.
    """

    def __init__(self, program: Any, forms: dict[Any, Any]):
        self._program, self._forms = program, forms

    def _once(self, key: Any, make: Callable[..., Any], *args: Any) -> Any:
        if key not in self._forms:
            self._forms[key] = make(*args)
        return self._forms[key]

    def for_target(self, target: Target, *, stored: bool = True) -> Any:
        """The program for a target: itself, unless another one was assumed for optimizing it.

        Args:
          stored: as for :meth:`Recipe.make`, if the program is made again.
        """
        program = self._program
        if program.recipe is None or target == program.target:
            return program
        return self._once((target, stored), self._make, target, stored)

    @property
    def portable(self) -> Any:
        """The program to differentiate, before the passes that decide what is stored: forward and
        backward program must fit together on every target."""
        program = self._program
        if program.recipe is None or program.when_lowered is not None:
            return program
        return self._once((None, False), self._make, program.recipe.target, False)

    def _make(self, target: Target, stored: bool) -> Any:
        return self._program.recipe.make(target, stored=stored)

    def lowered(self, target: Target) -> Any:
        """The program to lower for a target, after the passes that wait until then."""
        program = self._program
        if program.when_lowered is None:
            return program
        target = program._target or target
        return self._once(("lowered", target), self._make_lowered, target)

    def _make_lowered(self, target: Target) -> Any:
        from jaxmlir.passes.kept import run_kept
        from jaxmlir.passes.remarks import listener

        result = self._program.clone(hold_rules=True)
        result.when_lowered, result._target = None, target
        run_kept(self._program.when_lowered, result, listener())
        return result

    @property
    def pure(self) -> Any | None:
        """The program with values in place of references that it makes; ``None`` if impossible."""
        return self._once("pure", self._make_pure)

    def _make_pure(self) -> Any | None:
        from jaxmlir.transforms.discharge_refs import discharge_refs

        result = self._program.clone()
        try:
            discharge_refs(result)
        except TransformError:
            return None
        if self._program.recipe is not None:
            result.recipe = self._program.recipe.then(
                lambda p, target, stored: p.versions.pure or p
            )
        return result


def snapshot(program: Any) -> Callable[[Target], Any]:
    """A function that gives a program as it is now, even if the program changes later."""
    copy = program.clone(hold_rules=True)
    copy.rule_tracing.held = False
    return lambda target: copy


def decide(
    program: Any,
    structure: Pipeline,
    storage: Pipeline | None,
    default: Target | None,
    remarks: Sink | None = None,
) -> None:
    """Runs passes on a program in place, and schedules others for when it is lowered.

    Args:
      structure: the passes to run now.
      storage: the passes to run when it is lowered, for the target of lowering.
      default: the target of ``structure`` if the program has none.
      remarks: takes the remarks of ``structure``.
    """
    from jaxmlir.passes.kept import run_kept

    own_target, program._target = program._target, program._target or default
    with program.rule_tracing.holding():
        run_kept(structure, program, remarks)
    program._target = own_target
    program.when_lowered = storage if storage is not None and storage.passes else None


def stages_of(
    level: int, without: Collection[str], memory_budget: float | None
) -> tuple[Pipeline, Pipeline]:
    """The passes of a level from which derivatives profit, and those that run when a program is
    lowered and decide what is stored, within a budget."""
    from jaxmlir.passes import level_stages, parse_pipeline

    structure, storage = level_stages(level, without)
    if memory_budget is not None:
        # The memory is measured, as `Program.remat` does by default.
        within = f"jaxpr-inline,jaxpr-remat{{memory-budget={memory_budget} measure=true}}"
        storage = ",".join(filter(None, (within, storage)))
    return parse_pipeline(structure), parse_pipeline(storage)


def _structured(
    program: Any, level: int, without: Collection[str], target: Target, memory_budget: float | None
) -> Any:
    """The program after the passes of a level from which derivatives profit, for a target; the
    other passes run when it is lowered, for the target of lowering."""
    result = program.clone(hold_rules=True)
    structure, storage = stages_of(level, without, memory_budget)
    decides = level > 1 or memory_budget is not None
    decide(result, structure, storage if decides else program.when_lowered, default=target)
    return result
