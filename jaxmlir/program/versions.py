"""What a program becomes where it is lowered or differentiated, each form once.

``program.optimize(2)`` is asked for before anybody knows what the program will be lowered for.  So
it is optimized for JAX's default device, and remembers the program before that and the steps since,
its :class:`Recipe`.  Where it is lowered for another target, the steps are taken again for that
one.  What is given a target is optimized for that, and remembers nothing.
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
"""From a program to the next, for a target; with what is stored decided now, or when lowered."""


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
      target: what it was made for, which nobody named.
      source: gives the program before it was optimized, for another target.
      steps: what followed.
    """

    target: Target
    source: Callable[[Target], Any]
    steps: tuple[ProgramStep, ...] = ()

    def then(self, step: ProgramStep) -> Recipe:
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


class Versions:
    """The forms of a program, each made when it is first asked for.

    Args:
      forms: those that are made already.
    """

    def __init__(self, program: Any, forms: dict[Any, Any]):
        self._program, self._forms = program, forms

    def _once(self, key: Any, make: Callable[..., Any], *args: Any) -> Any:
        if key not in self._forms:
            self._forms[key] = make(*args)
        return self._forms[key]

    def for_target(self, target: Target, *, stored: bool = True) -> Any:
        """The program for a target: itself, unless it was optimized for one that nobody named.

        Args:
          stored: of another one, decide what is stored now; otherwise that is done where it is
            lowered.
        """
        program = self._program
        if program.recipe is None or target == program.target:
            return program
        return self._once((target, stored), self._make, target, stored)

    @property
    def portable(self) -> Any:
        """The program before it was decided what is stored, for derivatives: what is forward and
        what is backward must fit together on every target."""
        program = self._program
        if program.recipe is None or program.when_lowered is not None:
            return program
        return self._once((None, False), self._make, program.recipe.target, False)

    def _make(self, target: Target, stored: bool) -> Any:
        return self._program.recipe.make(target, stored=stored)

    def lowered(self, target: Target) -> Any:
        """What is lowered for a target: the program after the passes that wait until then."""
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
        """The program with values for the references that it makes; ``None`` where it has none."""
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
    """Gives a program as it is now, whatever is done to it."""
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
    """Runs passes on a program in place, and has others run where it is lowered.

    Args:
      default: what the former take for its target where it has none; the others take what it is
        lowered for.
      remarks: takes what the former say they did.
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
    """The passes of a level that derivatives profit from, and those that run where a program is
    lowered: what is stored is decided there, within a budget."""
    from jaxmlir.passes import level_stages, parse_pipeline

    structure, storage = level_stages(level, without)
    if memory_budget is not None:
        # The memory is measured, as by default of `Program.remat`.
        within = f"jaxpr-inline,jaxpr-remat{{memory-budget={memory_budget} measure=true}}"
        storage = ",".join(filter(None, (within, storage)))
    return parse_pipeline(structure), parse_pipeline(storage)


def _structured(
    program: Any, level: int, without: Collection[str], target: Target, memory_budget: float | None
) -> Any:
    """The program after the passes of a level that derivatives profit from, for a target; the
    others run where it is lowered, for what it is lowered for."""
    result = program.clone(hold_rules=True)
    structure, storage = stages_of(level, without, memory_budget)
    decides = level > 1 or memory_budget is not None
    decide(result, structure, storage if decides else program.when_lowered, default=target)
    return result
