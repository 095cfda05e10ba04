"""``Program``: a staged-out JAX program as a module of the jaxpr dialect, with its side tables.

A program is made from a Python function, a jaxpr or text (:mod:`jaxmlir.program.staging`).  It can
be
printed, verified, transformed by passes, turned back into a jaxpr, lowered and called, alone or
inside other JAX code.  What it says of its functions, its transformations and running it are its
base classes, each in a file of its own.
"""

from __future__ import annotations

import numbers
import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir import targets
from jaxmlir.analysis.liveness import Liveness
from jaxmlir.bridge.custom_rules.pending import MARK, marked_ops
from jaxmlir.bridge.custom_rules.schedule import RuleTracing
from jaxmlir.bridge.exporter import Exporter
from jaxmlir.dialect import custom_calls, handles
from jaxmlir.dialect import ir as mlir_ir
from jaxmlir.dialect.constants import Constants
from jaxmlir.dialect.ir import context, func, functions, ir
from jaxmlir.errors import ArgumentError, Diagnostic, JaxmlirError, TransformError
from jaxmlir.program.derived import derived_once
from jaxmlir.program.functions import Functions, Signature
from jaxmlir.program.recipes import Recipe, at_level
from jaxmlir.program.running import Running
from jaxmlir.program.transformations import Transformations
from jaxmlir.runtime.placement import placement_of
from jaxmlir.support.cached import analysis, forget_analyses
from jaxmlir.support.collector import collector_paused

if TYPE_CHECKING:
    from jaxmlir.analysis.manager import AnalysisManager
    from jaxmlir.bridge.importer import Importer
    from jaxmlir.passes import Pipeline
    from jaxmlir.targets import Target
    from jaxmlir.transforms.shared_functions import Copy


SHOWN = 10
"""How many arguments, or results, the ``repr`` of a program has."""


class Program(Functions, Transformations, Running):
    """A JAX function, staged out: a module of the jaxpr dialect and what it refers to.

    :func:`jaxmlir.trace`, :func:`jaxmlir.parse`, :func:`jaxmlir.load` and
    :func:`jaxmlir.from_jaxpr` make programs::

        program = jaxmlir.trace(f)(x)
        print(program)                      # MLIR text
        program(x)                          # runs; also within jax.jit, jax.grad, jax.vmap ...
        program.grad().optimize(2)          # another program

    It takes and returns pytrees as ``f`` does, of the shapes and dtypes that it was traced for.
    Methods return new programs; this one stays as it is.

    Args:
      module: of functions; the first public one is what a call runs.
      constants: arrays too large for the module, by the name that their ops give.
      handles: Python objects that the module names, by name.

    Attributes:
      rule_tracing: traces custom derivative rules when they are needed.
      recipe: of a program that was optimized for a target nobody named, how it is made for others.
      when_lowered: passes that run where the program is lowered, and where one derived from it is.
      custom_calls: of a program that somebody else wrote, what it may reach beyond XLA (see
        :mod:`jaxmlir.dialect.custom_calls`); ``None`` of one's own.
      derived: what :mod:`jaxmlir.program.derived` keeps of transformations.
      jaxprs: of an imported program, what its private functions were imported from.
      lent: functions of other modules that this one's may name, while it is being made.
      copies: functions that are copied from where they have been verified.
      state: another object after each change.
      core: the program as equations that call it know it: the same state, but for what is a call of
        it to JAX.  JAX keeps what a function was traced to for as long as there is the function,
        which the traced call must not keep in turn.
    """

    # These are not in the state.
    __slots__ = ("_callees", "_jitted")

    def __init__(
        self,
        module: ir.Module,
        constants: Mapping[str, Any] | None = None,
        handles: Mapping[str, handles.Box] | None = None,
        custom_calls: frozenset[str] | None = None,
    ):
        self.core: Program = object.__new__(Program)
        self.core.__dict__ = self.__dict__
        self._module = module
        self._constants = Constants(constants or {})
        self._handles = dict(handles or {})
        self.custom_calls = custom_calls
        # Of a program for symbolic sizes of a caller: the scope that these are of.
        self.sizes_scope: Any | None = None
        self.rule_tracing = RuleTracing(self.core)
        self.when_lowered: Pipeline | None = None
        self._target: Target | None = None
        self.changed()

    @classmethod
    def _of_import(cls, importer: Importer, again: Callable[[Target], Program]) -> Program:
        """The program that was imported.

        Args:
          again: imports it for another target, which programs that it calls may depend on.
        """
        program = cls(importer.module)
        program._target = importer.target
        if importer.versions_for is not None and importer.target is None:
            program.recipe = Recipe(importer.versions_for, again)
        # The rules that are still to be traced bring constants and handles of their own.
        program._constants, program._handles = importer.constants, importer.handles
        program.jaxprs = importer.jaxprs
        if importer.pending:
            importer.pending.program = program.core
            program.rule_tracing = RuleTracing(program.core, importer.pending.table, importer)
        return program

    @property
    def module(self) -> ir.Module:
        """The MLIR module.  Passes change it in place; call :meth:`changed` after doing so."""
        self.rule_tracing.looked_at()
        # Who changes it may want to have it verified before that.
        self.copies = {}
        return self._module

    @module.setter
    def module(self, module: ir.Module) -> None:
        self._module = module
        self.rule_tracing.forget()

    @property
    def module_as_is(self) -> ir.Module:
        """The module as it is: its ops may lack custom rules that are not traced yet."""
        return self._module

    @property
    def constants(self) -> Constants:
        """Arrays too large for the IR, by the name their ``jaxpr.constant`` ops give them."""
        self.rule_tracing.looked_at()
        return self._constants

    @property
    def handles(self) -> dict[str, handles.Box]:
        """What keeps alive the Python objects that the module names by handle."""
        self.rule_tracing.looked_at()
        return self._handles

    @property
    def has_untraced_rules(self) -> bool:
        """Whether custom derivative rules are still to be traced."""
        return self.rule_tracing.waiting

    def trace_rules(self, *, within: Collection[str] | None = None, of: Any = None) -> None:
        """Traces the custom derivative rules that are still to be traced.

        A rule that cannot be traced is no error here: its op records the reason.

        Args:
          within: only of the ops of these functions: those that a run of the program meets are what
            its derivative needs, and ops in their rules are left for the derivative's derivative.
          of: only of this op.
        """
        self.rule_tracing.trace(within=within, of=of)

    def reread(self) -> None:
        """Takes note of what an importer has added to the module."""
        self.copies = {}
        for name in ("_functions", "liveness", "reading"):
            self.__dict__.pop(name, None)

    def changed(self, functions: dict[str, func.FuncOp] | None = None) -> None:
        """Forgets what was derived from the module.

        Args:
          functions: those that it has now, of a caller who knows.
        """
        self._signatures: dict[str, Signature] = {}
        self.forget_calls()
        self._specialized: dict[Any, Program] = {}
        self.derived: dict[Any, Any] = {}
        self.jaxprs: dict[str, weakref.ref[Any]] = {}
        self.lent: dict[str, func.FuncOp] = {}
        self.copies: dict[str, Copy] = {}
        self.state = object()
        self.recipe: Recipe | None = None
        forget_analyses(self)
        if functions is not None:
            self._functions = functions

    # -- reading --

    def as_text(self, *, debug_info: bool = False) -> str:
        """The module as MLIR text.  Constants of the side table appear by name only.

        Args:
          debug_info: also print locations: the user's Python lines and JAX's name stacks.
        """
        return mlir_ir.module_text(self.written_module(), debug_info=debug_info)

    def written_module(self) -> ir.Module:
        """The module to write down: without what only this process can make sense of."""
        module = self.module
        if self.rule_tracing.marked:
            with mlir_ir.context():
                module = mlir_ir.clone_module(module)
                for op in list(marked_ops(functions(module).values())):
                    del op.attributes[MARK]
        return module

    __str__ = as_text

    def save(
        self, path: str | os.PathLike[str], *, source_info: bool = True, as_flat: bool = False
    ) -> None:
        """Writes the program to one file, which :func:`jaxmlir.load` reads anywhere.

        Args:
          source_info: keep the Python files and lines that ops come from.
          as_flat: leave the pytrees out, so that what is loaded takes and gives their leaves: for
            nodes that hold Python objects of this process.

        Raises:
          ArtifactError: the program refers to Python objects of this process, such as callbacks.
          OSError: the file cannot be written; one that was there is as it was.
        """
        from jaxmlir import artifact

        artifact.save(self, path, source_info=source_info, as_flat=as_flat)

    def __repr__(self) -> str:
        try:
            name = self.name
        except JaxmlirError:
            return "<Program without a public function>"
        return f"<Program @{name}({_short(self.in_avals)}) -> ({_short(self.out_avals)})>"

    # -- checking and transforming --

    def verify(self) -> None:
        """Checks the module: MLIR's rules, the ops' records, and types by abstract evaluation.

        Raises:
          VerificationError: names the op, its location, what was expected and what came.
        """
        from jaxmlir.verify.verifier import verify

        verify(self)

    def run_passes(
        self,
        pipeline: str,
        *,
        verify_each: bool = True,
        target: str | Target | None = None,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program after a pipeline of passes, e.g. ``"jaxpr-grad,cse"``; this one is as it was.

        Args:
          verify_each: check the program after each pass.
          target: what the passes take the program to be compiled for, such as ``"cuda:h100"``; by
            default its own, which is JAX's default device where it was given none.
          remarks: takes what the passes say they did, for example ``print``.

        Raises:
          ArgumentError: there is no such target.
          PipelineError: the pipeline is malformed, or names a pass that does not exist.
          PassError: a pass failed, or left an invalid module.
        """
        found = None if target is None else targets.target(target)
        options: Any = {"verify_each": verify_each, "hold_rules": False}
        program = self if found is None else self.version(found)
        result = program._after_passes(pipeline, remarks, target=found, **options)
        # What passes have done to custom rules is not done to those that would be traced now.
        result.rule_tracing.forget()
        if found is None and self.recipe is not None:
            result.recipe = self.recipe.then(
                lambda p, target, stored: p.run_passes(pipeline, verify_each=verify_each)
            )
        return result

    @collector_paused
    def _after_passes(
        self,
        pipeline: str,
        remarks: Callable[[Diagnostic], None] | None,
        *,
        target: Target | None = None,
        default: Target | None = None,
        verify_each: bool = False,
        hold_rules: bool = True,
    ) -> Program:
        """The program after a pipeline.

        Args:
          target: that which it is given.
          default: what passes take for its target where it has none.
        """
        from jaxmlir.passes import Instrumentation, parse_pipeline

        if remarks is not None and not callable(remarks):
            raise ArgumentError(f"remarks: expected a function of a Diagnostic, got {remarks!r}")
        result = self.clone(hold_rules=hold_rules)
        kept = target or self._target
        result._target = kept or default or (self.recipe and self.recipe.target)
        instrumentation = Instrumentation(verify_each=verify_each, remarks=remarks)
        with result.rule_tracing.holding():
            parse_pipeline(pipeline).run(result, instrumentation)
            result.changed()
        result._target = kept
        return result

    @derived_once
    def optimize(
        self,
        level: int = 1,
        *,
        without: Collection[str] = (),
        target: str | Target | None = None,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program after the passes of an optimization level; see ``jaxmlir.passes.LEVELS``.

        Custom rules that are still to be traced wait on, and are not optimized when they are.  A
        program that is still to be differentiated does without ``jaxmlir.passes.STORAGE``.

        Args:
          level: 0 does nothing; 1 is cheap and changes no bit of a result.
          without: names of passes to leave out.
          target: what it is optimized for, such as ``"cuda:h100"`` or ``"tpu:v5e:2x2"``.  By
            default that is JAX's default device, and where the result is lowered for another one,
            this program is optimized for that.
          remarks: takes what the passes say they did, for example ``print``.

        Raises:
          ArgumentError: there is no such target.
          PipelineError: there is no such level or pass.
        """
        from jaxmlir.passes import level_pipeline

        pipeline = level_pipeline(level, without)
        found = None if target is None else targets.target(target)
        program = self if found is None else self.version(found)
        recipe = self.recipe
        # No pass of level 1 asks for what it is.
        if found is None and recipe is None and self._target is None and level > 1:
            recipe = Recipe(targets.default_target(), self._snapshot())
        default = recipe and recipe.target
        result = program._after_passes(pipeline, remarks, target=found, default=default)
        if level > 1:
            result.when_lowered = None
        if found is None and recipe is not None:
            result.recipe = recipe.then(at_level(level, without))
        return result

    def structured(self, level: int, without: Collection[str], target: Target) -> Program:
        """The program after the passes of a level that derivatives profit from, for a target; the
        others run where it is lowered, for what it is lowered for."""
        from jaxmlir.passes import level_stages, parse_pipeline

        result = self.clone(hold_rules=True)
        structure, storage = map(parse_pipeline, level_stages(level, without))
        result.decide(structure, storage if level > 1 else self.when_lowered, default=target)
        return result

    def decide(self, structure: Pipeline, storage: Pipeline | None, default: Target | None) -> None:
        """Runs passes in place, and has others run where the program is lowered.

        Args:
          default: what the former take for its target where it has none; the others take what it is
            lowered for.
        """
        from jaxmlir.passes import Instrumentation

        given, self._target = self._target, self._target or default
        with self.rule_tracing.holding():
            structure.run(self, Instrumentation(verify_each=False))
        self._target = given
        self.when_lowered = storage if storage is not None and storage.passes else None

    def _snapshot(self) -> Callable[[Target], Program]:
        """Gives the program as it is now, whatever is done to it."""
        program = self.clone(hold_rules=True)
        program.rule_tracing.held = False
        return lambda target: program

    @derived_once
    def remat(
        self,
        memory_budget: float | None = None,
        *,
        measure: bool = True,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program whose loops store less for their derivative, and compute the rest again.

        Within a budget, straight-line code does so as well, and batches are computed in tiles.

        It is the differentiated program that has something to store::

            program.grad().remat(memory_budget=0.5)

        Args:
          memory_budget: the memory to get along with besides arguments and results: a fraction of
            what the program takes, or, from 2 on, bytes.  By default what is stored is what pays.
          measure: compile it for JAX's default backend, two to sixteen times, to see what memory it
            takes; otherwise, and where that cannot compile it or is not its target, the memory is
            estimated.
          remarks: takes what was done, for example ``print``.

        Raises:
          ArgumentError: the budget is no number.
          PipelineError: it is not positive.
        """
        is_number = isinstance(memory_budget, numbers.Real) and not isinstance(memory_budget, bool)
        if memory_budget is not None and not (is_number and memory_budget == memory_budget):
            raise ArgumentError(f"memory_budget: expected a number, got {memory_budget!r}")
        option = ""
        if memory_budget is not None:
            option = f"{{memory-budget={memory_budget} measure={measure}}}".lower()
        pipeline = f"jaxpr-inline,jaxpr-remat{option}"
        return self._after_passes(pipeline, remarks)

    def clone(self, *, hold_rules: bool = False, among: Collection[str] | None = None) -> Program:
        """A copy whose module can be changed; constants and handles are shared.

        Args:
          hold_rules: leave custom rules that are not traced yet so in the copy, which holds them
            until its ``rule_tracing.held`` is unset; by default they are traced now.
          among: only these functions are in the copy, by default all.
        """
        hold_rules = hold_rules or self.rule_tracing.held
        if not hold_rules:
            self.trace_rules()
        with self.rule_tracing.lock:
            module = mlir_ir.clone_module(self._module, among)
        result = Program(module, self._constants, self._handles, self.custom_calls)
        result.when_lowered = self.when_lowered
        result._target = self._target
        result.sizes_scope = self.sizes_scope
        result.rule_tracing = self.rule_tracing.of_clone(result.core, hold_rules)
        return result

    def __copy__(self) -> Program:
        result = self.clone()
        result.recipe = self.recipe
        return result

    def __deepcopy__(self, memo: Any) -> Program:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled; program.save(path) writes it to a file, which "
            "jaxmlir.load(path) reads in another process"
        )

    # -- targets --

    @property
    def target(self) -> Target:
        """What passes take the program to be compiled for: what was given, or else JAX's default
        device."""
        if self._target is not None:
            return self._target
        return self.recipe.target if self.recipe is not None else targets.default_target()

    @target.setter
    def target(self, target: Target) -> None:
        self._target = target

    @analysis
    def _versions(self) -> dict[tuple[Target, bool], Program]:
        """What :meth:`version` has made."""
        return {}

    def version(self, target: Target, *, stored: bool = True) -> Program:
        """The program for a target: itself, unless it was optimized for one that nobody named.

        Args:
          stored: of another one, decide what is stored now; otherwise that is done where it is
            lowered.
        """
        # Passes do not ask yet on how many devices a program runs.
        if self.recipe is None or target.on(1) == self.target.on(1):
            return self
        key = target, stored
        if key not in self._versions:
            self._versions[key] = self.recipe.make(target, stored=stored)
        return self._versions[key]

    @analysis
    def portable(self) -> Program:
        """The program before it was decided what is stored, for derivatives: what is forward and
        what is backward must fit together on every target."""
        if self.recipe is None or self.when_lowered is not None:
            return self
        return self.recipe.make(self.recipe.target, stored=False)

    @analysis
    def _lowered_forms(self) -> dict[Target, Program]:
        """What :meth:`lowered_form` has made."""
        return {}

    def lowered_form(self, target: Target) -> Program:
        """What is lowered for a target: the program after the passes that wait until then."""
        if self.when_lowered is None:
            return self
        target = self._target or target
        if target not in self._lowered_forms:
            from jaxmlir.passes import Instrumentation

            result = self.clone(hold_rules=True)
            result.when_lowered, result._target = None, target
            self.when_lowered.run(result, Instrumentation(verify_each=False))
            self._lowered_forms[target] = result
        return self._lowered_forms[target]

    @analysis
    def pure_form(self) -> Program | None:
        """The program with values for the references that it makes; ``None`` where it has none."""
        from jaxmlir.transforms.discharge_refs import discharge_refs

        result = self.clone()
        try:
            discharge_refs(result)
        except TransformError:
            return None
        if self.recipe is not None:
            result.recipe = self.recipe.then(lambda p, target, stored: p.pure_form or p)
        return result

    def to_jaxpr(self) -> Any:
        """The program as a ``ClosedJaxpr`` over its flat arguments, custom rules included.

        Raises:
          ExportError: the installed JAX lacks a primitive that the program uses.
        """
        return self.exporter.jaxpr(self.name)

    @analysis
    def exporter(self) -> Exporter:
        """Makes jaxprs of the functions, each once."""
        return Exporter(self)

    @analysis
    def liveness(self) -> Liveness:
        """What lowering has found out of the functions: custom rules are no reason to keep."""
        return Liveness(self._functions, custom_rules=False)

    @analysis
    def reading(self) -> AnalysisManager:
        """What passes have read of the functions since they were changed."""
        from jaxmlir.analysis.manager import AnalysisManager

        return AnalysisManager(self.functions)

    @analysis
    def custom_calls_found(self) -> tuple[custom_calls.CustomCall, ...]:
        """The ops that reach beyond XLA."""
        self.rule_tracing.looked_at()
        with context():
            return tuple(custom_calls.among(self.liveness.all_ops()))

    @analysis
    def placement(self) -> Any | None:
        """What JAX must know of the devices that the program mentions."""
        with context():
            return placement_of(self, self.liveness.all_ops())


def _short(avals: Sequence[Any]) -> str:
    """Types as JAX abbreviates them, of many the first ones."""
    shown = avals if len(avals) <= SHOWN else avals[: SHOWN - 1]
    names = [aval.str_short(short_dtypes=True) for aval in shown]
    rest = len(avals) - len(shown)
    return ", ".join([*names, f"... {rest} more"] if rest else names)
