"""Programs that are derived from a program: each is made once and cached.

``program.grad()(x)`` in a loop differentiates and compiles the first time only, like ``jax.grad``
of a ``jax.jit`` function.

A program derived before the custom rules are traced differs from one derived afterwards, since
passes change and merge rules, too.  So when somebody looks at such a program, it is derived again
from the program with its rules.  Its text then does not depend on what was looked at before.

The forms that a program takes when it is lowered or differentiated are made once, too.
``program.optimize(2)`` is called before the target of lowering is known.  So it optimizes for JAX's
default device, and the result remembers the original program and the steps since: its
:class:`Recipe`.  If it is lowered for another target, the steps are repeated for that target.  With
an explicit target, a program is optimized for this target, and has no recipe.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import jax

from jaxmlir._compat import ConfigSnapshot
from jaxmlir.caching import setting
from jaxmlir.errors import JaxmlirError, TransformError, deep_calls_as
from jaxmlir.passes import parse_pipeline
from jaxmlir.passes.remarks import listener
from jaxmlir.program import transforms
from jaxmlir.runtime.differentiation import as_given
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.options import check_switch

if TYPE_CHECKING:
    from jaxmlir.passes import Pipeline
    from jaxmlir.passes.remarks import Sink
    from jaxmlir.sparse.detect import Pattern
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
        # The passes from which derivatives profit; the others run when the result is lowered.
        result = program.clone(hold_rules=True)
        structure, storage = stages_of(level, without, memory_budget)
        decides = level > 1 or memory_budget is not None
        decide(result, structure, storage if decides else program.when_lowered, default=target)
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
        """The program for a target.  Unless ``stored``, the passes that decide what is stored run
        when the result is lowered, as derivatives require."""
        program = self.source(target)
        for step in self.steps:
            program = step(program, target, stored)
        return program


class Versions:
    """The forms of a program, each made when it is first asked for and kept in ``forms``."""

    def __init__(self, program: Any, forms: dict[Any, Any]):
        self._program, self._forms = program, forms

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._forms:
            self._forms[key] = make()
        return self._forms[key]

    def for_target(self, target: Target, *, stored: bool = True) -> Any:
        """The program for a target: itself, unless another one was assumed for optimizing it; then
        it is made again, as by :meth:`Recipe.make`."""
        program, recipe = self._program, self._program.recipe
        if recipe is None or target == program.target:
            return program
        return self._once((target, stored), lambda: recipe.make(target, stored=stored))

    @property
    def portable(self) -> Any:
        """The program to differentiate, before the passes that decide what is stored: forward and
        backward program must fit together on every target."""
        program, recipe = self._program, self._program.recipe
        if recipe is None or program.when_lowered is not None:
            return program
        return self._once((None, False), lambda: recipe.make(recipe.target, stored=False))

    def lowered(self, target: Target) -> Any:
        """The program to lower for a target, after the passes that wait until then."""
        program = self._program
        if program.when_lowered is None:
            return program
        target = program._target or target
        return self._once(("lowered", target), lambda: self._make_lowered(target))

    def _make_lowered(self, target: Target) -> Any:
        from jaxmlir.passes.kept import run_kept

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
    from jaxmlir.passes import level_stages

    structure, storage = level_stages(level, without)
    if memory_budget is not None:
        # The memory is measured, as `Program.remat` does by default.
        within = f"jaxpr-inline,jaxpr-remat{{memory-budget={memory_budget} measure=true}}"
        storage = ",".join(filter(None, (within, storage)))
    return parse_pipeline(structure).as_level(), parse_pipeline(storage).as_level()


Method = TypeVar("Method", bound=Callable[..., Any])


class _DerivedResult(NamedTuple):
    """The result of a method, and the state of each program in it at that time."""

    result: Any
    states: list[tuple[Any, object]]

    def is_as_given(self) -> bool:
        return all(program.state is state for program, state in self.states)


class _TracedDerivation:
    """The result of a method for a program after its custom rules were traced.

    Args:
      options: the method's arguments, by name.
    """

    def __init__(self, method: Callable[..., Any], program: Any, options: dict[str, Any]):
        # Not the program itself, which holds the compiled function that calls it.
        self._method, self._of, self._state = method, program.core, program.state
        # The remarks were made the first time.
        self._options = options | ({"remarks": None} if "remarks" in options else {})
        self._config = ConfigSnapshot()

    @functools.cached_property
    def programs(self) -> tuple[Any, ...]:
        """The derived programs; empty if the program has been changed since, or if the method fails
        with the rules traced: nobody has asked for these rules, so this is no error."""
        if self._of.state is not self._state:
            return ()
        self._of.rule_tracing.looked_at()
        try:
            with self._config.restored():
                return _programs(self._method(self._of, **self._options))
        except JaxmlirError:
            return ()

    def program(self, i: int) -> Any | None:
        """The derived program number ``i``; ``None`` if there are none."""
        return self.programs[i] if self.programs else None


def _programs(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def derived_once(method: Method) -> Method:
    """Caches the result of a method of programs by its arguments, until the program or the result
    is changed.

    Calls with a callable argument (``remarks``) or an unhashable one are not cached; their result
    is equal.
    """
    method = deep_calls_as(TransformError)(method)
    _, *parameters = inspect.signature(method).parameters.values()
    defaults = {p.name: p.default for p in parameters}
    switches = [p.name for p in parameters if isinstance(p.default, bool)]
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    # One pause for everything: between two pauses, a collection would visit all new objects.
    @collector_paused
    @as_given()
    @functools.wraps(method)
    def derived(program: Any, *args: Any, **kwargs: Any) -> Any:
        by_position = dict(zip(positional, args, strict=False))
        bound = defaults | by_position | kwargs
        fits = len(args) == len(by_position) and len(bound) == len(defaults)
        if not fits or not by_position.keys().isdisjoint(kwargs):
            return method(program, *args, **kwargs)
        for name in switches:
            check_switch(name, bound[name])
        leaves, tree = jax.tree.flatten(tuple(bound.values()))
        # 0, False and 0.0 are equal as keys, but mean different things.
        typed_leaves = [(type(leaf), leaf) for leaf in leaves]
        # The ops that JAX's rules emit depend on its configuration.
        key = (method.__name__, tree, *typed_leaves, program.custom_calls, setting())
        try:
            cached = program.derived.get(key)
        except TypeError:
            key = cached = None
        if cached is not None and cached.is_as_given():
            return cached.result
        known_rules = program.rule_tracing.is_read
        result = _derive(method, program, bound)
        programs = _programs(result)
        _keep_target(program, programs, bound, derived)
        if not all(isinstance(p, type(program)) for p in programs):
            return result
        if not (known_rules or program.rule_tracing.is_read):
            with_rules = _TracedDerivation(method, program, bound)
            for i, p in enumerate(programs):
                p.rule_tracing.read_as(functools.partial(with_rules.program, i))
        if key is not None and not any(map(callable, leaves)):
            program.derived[key] = _DerivedResult(result, [(p, p.state) for p in programs])
        return result

    return derived  # type: ignore[return-value]


def _derive(method: Callable[..., Any], program: Any, options: Mapping[str, Any]) -> Any:
    """The result of a method for a program; if that fails, for the program derived with rules."""
    try:
        return method(program, **options)
    except TransformError:
        # A program that was batched without its rules may have too few batched values for the
        # rules, once these are traced.
        if not program.rule_tracing.reads_as_another:
            raise
        program.rule_tracing.looked_at()
        return method(program, **options)


def _keep_target(
    program: Any, programs: Sequence[Any], bound: Mapping[str, Any], method: Callable[..., Any]
) -> None:
    """Gives results the program's target or, if it has a recipe, the recipe with this step."""
    if bound.get("target") is not None:
        return
    if program.recipe is None:
        for result in programs:
            if isinstance(result, type(program)) and result._target is None:
                result._target = program._target
    elif len(programs) == 1 and isinstance(programs[0], type(program)):
        (result,) = programs
        if result.recipe is None:
            again = bound | ({"remarks": None} if "remarks" in bound else {})
            result.recipe = program.recipe.then(lambda p, target, stored: method(p, **again))


class Inverses:
    """The methods of :class:`Program` for inverses."""

    __slots__ = ()

    @derived_once
    def inverse(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """The program ``(result, *known arguments) -> unknown arguments``.

        Args:
          argnums: the positional arguments to find; by default all that are not known.
          known: the arguments that are given, which the inverse takes in their order; by default
            all that are not to be found.
          newton: whether to solve for an unknown that occurs more than once, as in
            ``x + tanh(x)``, by a loop of safeguarded Newton steps.  Elementwise expressions of one
            unknown are then assumed to be strictly monotone in it; where the loop finds no root,
            the result is NaN.

        Returns:
          A program that gives the unknown argument, or a tuple if there are several.

        Raises:
          ArgumentError: ``argnums`` and ``known`` overlap, or name no argument.
          TransformError: an argument does not follow from the result and the known arguments; names
            an op that prevents the inversion, and the reason.
        """
        return transforms.inverse(self, argnums, known, newton)

    @derived_once
    def inverse_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """Like :meth:`inverse`, with log|det| of its Jacobian: ``(arguments, log_det)``.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse`; also if the results and the unknown
            arguments differ in their number of elements.
        """
        return transforms.inverse(self, argnums, known, newton, log_det=True)

    @derived_once
    def forward_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
        *,
        newton: bool = False,
    ) -> Self:
        """The program with log|det| of its Jacobian in the unknown arguments:
        ``(*arguments) -> (result, log_det)``.

        :meth:`inverse_and_log_det` finds the same with the opposite sign.  It is computed op by op
        from the intermediate values, without the Jacobian of the whole program.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse_and_log_det`.
        """
        return transforms.forward_and_log_det(self, argnums, known, newton)


class SparseDerivatives:
    """The methods of :class:`Program` for sparse derivatives."""

    __slots__ = ()

    grad: Any

    def jacobian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Jacobian can be other than zero, for any arguments.

        Rows are the elements of the flat results, columns the elements of the arguments
        ``argnums``, leaf by leaf.  The pattern belongs to the derivative that the compiler makes:
        for a function with a custom rule it follows the rule, not the function.

        Returns:
          A ``SparsityPattern``; for a program with symbolic shapes a ``SymbolicPattern``, which
          holds at all sizes.

        Raises:
          ArgumentError: ``argnums`` names no argument.
          TransformError: an argument has no derivative, or an op cannot be differentiated.
          PatternTooDense: there are more than 100 million elements; names the ops that cause it.
        """
        return transforms.jacobian_sparsity(self, argnums)

    def hessian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Hessian of a scalar-valued program can be other than zero.

        This is the pattern of the gradient's Jacobian, a symmetric matrix unless a custom
        derivative rule defines another gradient.

        Returns:
          As :meth:`jacobian_sparsity`.

        Raises:
          ArgumentError, PatternTooDense: as for :meth:`jacobian_sparsity`.
          TransformError: as for :meth:`grad`.
        """
        return transforms.hessian_sparsity(self, argnums)

    @derived_once
    def sparse_jacobian(
        self,
        argnums: int | Sequence[int] = 0,
        mode: str = "auto",
        *,
        format: str = "bcoo",
        chunk_size: int | None = None,
        pattern: Pattern | None = None,
    ) -> Self:
        """The Jacobian as a sparse matrix, by as few products with vectors as its pattern needs.

        If this takes a product for most of the rows or columns, a warning names the ops that make
        the pattern dense.  For a program with symbolic shapes the result is a program for all
        sizes, provided that the number of products (``pattern.colors``) is the same at all sizes.

        Args:
          mode: ``"forward"`` (JVPs), ``"reverse"`` (VJPs), ``"both"``, or ``"auto"``: the fewest.
          format: ``"bcoo"``, or ``"dense"`` for an array.
          chunk_size: the number of products at a time, which bounds the memory; by default all.
          pattern: the result of :meth:`jacobian_sparsity`, if it is known; it is not checked.

        Returns:
          A program of the same arguments.  It gives a matrix of ``jax.experimental.sparse.BCOO``
          with the elements of :meth:`jacobian_sparsity`, sorted by rows.  With symbolic shapes,
          elements are in the order of the pattern's pieces, and some may be padding.

        Raises:
          ArgumentError: an option is wrong, an argument is complex, or the number of products
            depends on symbolic sizes.
          TransformError, PatternTooDense: as for :meth:`jacobian_sparsity`.
        """
        sparsity = self.jacobian_sparsity(argnums) if pattern is None else pattern
        options = (argnums, mode, format, chunk_size, sparsity)
        return transforms.sparse_matrix(self, *options, "sparse_jacobian")

    @derived_once
    def sparse_hessian(
        self,
        argnums: int | Sequence[int] = 0,
        mode: str = "auto",
        *,
        format: str = "bcoo",
        chunk_size: int | None = None,
        pattern: Pattern | None = None,
    ) -> Self:
        """The Hessian as a sparse matrix: the sparse Jacobian of the gradient, using its symmetry.

        Arguments and result are as for :meth:`sparse_jacobian`.  The products with the Hessian are
        forward over reverse in mode ``"forward"``, and reverse over reverse in mode ``"reverse"``.

        Raises:
          ArgumentError, TransformError, PatternTooDense: as for :meth:`hessian_sparsity` and
            :meth:`sparse_jacobian`.
        """
        sparsity = self.hessian_sparsity(argnums) if pattern is None else pattern
        options = (argnums, mode, format, chunk_size, sparsity)
        return transforms.sparse_matrix(self.grad(argnums), *options, "sparse_hessian")

    @derived_once
    def laplacian(self, argnums: int | Sequence[int] = 0) -> Self:
        """The Laplacian of each element of the result, in one pass forward.

        This is the trace of the Hessian, the sum of ``d^2 f / dx^2`` over all elements ``x`` of the
        arguments ``argnums``; the Hessian itself is not computed.  Each value is computed with its
        first derivatives, so the memory is that of :meth:`jacfwd`.

        Returns:
          A program of the same arguments, whose result has the same pytree and shapes.

        Raises:
          ArgumentError: ``argnums`` names no argument, or one is not of real numbers.
          TransformError, EvaluationError: an op cannot be differentiated; names it.
        """
        return transforms.laplacian(self, argnums)
