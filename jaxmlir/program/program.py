"""``Program``: a staged-out JAX program as a module of the jaxpr dialect, with its side tables.

A program is made from a Python function, a jaxpr or text (:mod:`jaxmlir.program.staging`).  It can
be printed, verified, transformed by passes, turned back into a jaxpr, lowered, and called: alone or
inside other JAX code.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import jax

from jaxmlir import targets
from jaxmlir.analysis.liveness import liveness_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.bridge.custom_rules.schedule import RuleTracing
from jaxmlir.bridge.exporter import Exporter
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect import custom_calls, locations
from jaxmlir.dialect.ir import context, func
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArgumentError, Diagnostic
from jaxmlir.passes import parse_pipeline
from jaxmlir.passes.remarks import check_sink
from jaxmlir.program import arguments, transforms
from jaxmlir.program import specialize as specialization
from jaxmlir.program.arguments import CallProperty, CodeLocation, InstanceProperty
from jaxmlir.program.derived import (
    Inverses,
    Recipe,
    SparseDerivatives,
    Versions,
    at_level,
    derived_once,
    snapshot,
)
from jaxmlir.program.tuned import Tunable
from jaxmlir.program.views import Views
from jaxmlir.runtime import program_primitive
from jaxmlir.runtime.callee import Callee
from jaxmlir.runtime.placement import mesh_for, on_mesh, placement_of
from jaxmlir.support.lazy import analysis, collector_paused
from jaxmlir.support.options import check_budget, check_platforms
from jaxmlir.targets import Target

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr
    from jax.stages import Lowered

    from jaxmlir.interpret.interpreter import Hook
    from jaxmlir.passes import Pipeline
    from jaxmlir.program.memory_curve import MemoryCurve


class Program(SparseDerivatives, Inverses, Tunable, Views, Module):
    """A JAX function, staged out: a module of the jaxpr dialect and what it refers to.

    :func:`jaxmlir.trace`, :func:`jaxmlir.parse`, :func:`jaxmlir.load` and
    :func:`jaxmlir.from_jaxpr` make programs::

        program = jaxmlir.trace(f)(x)
        print(program)                      # MLIR text
        program(x)                          # runs; also within jax.jit, jax.grad, jax.vmap ...
        program.grad().optimize(2)          # another program

    It takes and returns pytrees as ``f`` does, of the shapes and dtypes that it was traced for.
    Methods return new programs and leave this one unchanged.

    Args:
      module: a module of functions; a call runs the first public one.
      constants: arrays too large for the module, by the name that their ops have for them.
      handles: Python objects that the module names, by name.

    Attributes:
      derived: the cache of :mod:`jaxmlir.program.derived`, with results of transformations.
      recipe: how to make the program for other targets, if it was optimized for a default target.
      when_lowered: passes that run when the program, or a program derived from it, is lowered.
    """

    _internal = frozenset(
        """callee derived flat_arguments forget_calls is_symbolic placement plans recipe stubs
        version versions when_lowered""".split()
    )

    # Not in the state: JAX keeps the state alive as long as the function `_jitted` lives, so the
    # state must not keep that function alive.
    __slots__ = ("_callees", "_jitted", "derived")

    when_lowered: Pipeline | None = None

    @classmethod
    def of_import(
        cls, importer: Importer, again: Callable[[Target | None], Program] | None = None
    ) -> Program:
        """The program that an importer wrote.

        Args:
          again: imports it again for another target, on which programs that it calls may depend.
        """
        program = super().of_import(importer)
        program._target = importer.target
        if again is not None and importer.versions_for is not None and importer.target is None:
            program.recipe = Recipe(importer.versions_for, again)
        return program

    def new_rule_tracing(self, *imported: Any) -> RuleTracing:
        return RuleTracing(self.core, *imported)

    def lacks(self, names: Collection[str]) -> bool:
        op_names = analyses_of(self).graph.names.values()
        return all(of_function.isdisjoint(names) for of_function in op_names)

    def changed(self, functions: dict[str, func.FuncOp] | None = None) -> None:
        self.forget_calls()
        self._specialized: dict[Any, Program] = {}
        for program in (self, self.core):
            program.derived = {}
        self.recipe: Recipe | None = None
        super().changed(functions)

    def become(self, other: Module) -> None:
        super().become(other)
        for program in (self, self.core):
            program._callees = {}

    def clone(self, *, hold_rules: bool = False, among: Collection[str] | None = None) -> Program:
        result = super().clone(hold_rules=hold_rules, among=among)
        result.when_lowered = self.when_lowered
        return result

    # -- reading --

    def save(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        source_info: bool = True,
        as_flat: bool = False,
        effects: str = "error",
    ) -> None:
        """Writes the program to one file, which :func:`jaxmlir.load` reads anywhere.

        A file is replaced when everything is written: an interruption leaves the old contents or
        the new.

        Args:
          target: a path, or a binary stream to write to.
          source_info: keep the Python files and lines that ops come from, so that errors can name
            the user's line.  Whoever gets the file can read these paths, which may contain names.
          as_flat: leave the pytrees out, so that the loaded program takes and returns their leaves;
            needed if nodes hold Python objects of this process.
          effects: how to treat debug callbacks, prints and run-time checks: ``"drop"`` leaves them
            out, ``"keep-print"`` leaves out all but prints of a format string; by default those
            that are Python functions are an error.

        Raises:
          ArgumentError: ``target`` or ``effects`` is none of these.
          ArtifactError: the program refers to Python objects of this process, such as callbacks;
            names each op, the user's line, and what to do.
          OSError: the file cannot be written; an existing file is unchanged.
        """
        from jaxmlir.artifact.container import write
        from jaxmlir.artifact.saving import pieces

        write(target, pieces(self, source_info, as_flat, effects))

    # -- checking and transforming --

    def verify(self) -> None:
        """Checks the module: MLIR's rules, the ops' records, and types by abstract evaluation.

        Raises:
          VerificationError: the module is invalid; names the op, its location, what was expected
            and what was found.
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
        """The program after a pipeline of passes, e.g. ``"jaxpr-grad,cse"``; this one is unchanged.

        Args:
          verify_each: check the program after each pass.
          target: the target that passes assume the program is compiled for, such as
            ``"cuda:h100"``; by default the program's own or, if it has none, JAX's default device.
          remarks: takes the remarks of passes on what they did, for example ``print``.

        Raises:
          ArgumentError: there is no such target.
          PipelineError: the pipeline is malformed, or names a pass that does not exist.
          PassError: a pass failed, or left an invalid module.
        """
        named_target = None if target is None else targets.target(target)
        options: Any = {"verify_each": verify_each, "hold_rules": False}
        program = self if named_target is None else self.version(named_target)
        passes = parse_pipeline(pipeline)
        result = program._after_passes(passes, remarks, target=named_target, **options)
        # Rules traced later would lack what the passes have done to custom rules.
        result.rule_tracing.forget()
        if named_target is None and self.recipe is not None:
            result.recipe = self.recipe.then(
                lambda p, target, stored: p.run_passes(pipeline, verify_each=verify_each)
            )
        return result

    @collector_paused
    def _after_passes(
        self,
        pipeline: Pipeline,
        remarks: Callable[[Diagnostic], None] | None,
        *,
        target: Target | None = None,
        default: Target | None = None,
        verify_each: bool = False,
        hold_rules: bool = True,
    ) -> Program:
        """The program after a pipeline, for a target; passes assume the default if it has none."""
        from jaxmlir.passes.kept import run_kept

        check_sink(remarks)
        result = self.clone(hold_rules=hold_rules)
        own_target = target or self._target
        result._target = own_target or default or (self.recipe and self.recipe.target)
        if pipeline.passes:
            with result.rule_tracing.holding():
                run_kept(pipeline, result, remarks, verify_each=verify_each)
                result.changed()
        result._target = own_target
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

        Custom rules that are not traced yet stay untraced; when the result's module is first looked
        at, the program is optimized again with its rules.  Derivatives of the result are taken of
        its form without the passes of ``jaxmlir.passes.STORAGE``.

        Args:
          level: 0 does nothing; 1 is cheap and changes no bit of a result.
          without: names of passes to leave out.
          target: the target to optimize for, such as ``"cuda:h100"`` or ``"tpu:v5e:2x2"``.  The
            default is JAX's default device; if the result is lowered for another device, this
            program is optimized again for that one.
          remarks: takes the remarks of passes on what they did, for example ``print``.

        Raises:
          ArgumentError: there is no such target.
          PipelineError: there is no such level or pass.
        """
        from jaxmlir.passes import level_pipeline

        pipeline = parse_pipeline(level_pipeline(level, without)).as_level()
        named_target = None if target is None else targets.target(target)
        program = self if named_target is None else self.version(named_target)
        recipe = self.recipe
        # No pass of level 1 asks for the target.
        if named_target is None and recipe is None and self._target is None and level > 1:
            recipe = Recipe(targets.default_target(), snapshot(self))
        default = recipe and recipe.target
        result = program._after_passes(pipeline, remarks, target=named_target, default=default)
        if level > 1:
            result.when_lowered = None
        if named_target is None and recipe is not None:
            result.recipe = recipe.then(at_level(level, without))
        return result

    @derived_once
    def remat(
        self,
        memory_budget: float | str | None = None,
        *,
        measure: bool = True,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program with loops that store less for their derivative and recompute the rest.

        With a budget, straight-line code recomputes values, too, and batches are tiled.

        Call it on the differentiated program, which is the one that stores values::

            program.grad().remat(memory_budget=0.5)

        Args:
          memory_budget: the memory allowed besides arguments and results: a number up to 1 is a
            fraction of the memory that the program takes, a number from 2 on is bytes, and a string
            is bytes with a unit: ``"1.5 GiB"``.  By default, a value is stored if that pays.
          measure: compile the program for JAX's default backend, two to sixteen times, to measure
            its memory; otherwise the memory is estimated, and so it is if this backend cannot
            compile the program or is not its target.
          remarks: takes remarks on what was done, for example ``print``.

        Warns if nothing is within the budget; the result is then the form with the least memory.

        Raises:
          ArgumentError: the budget is neither a fraction nor bytes, or ``measure`` no boolean.
        """
        budget = None if memory_budget is None else check_budget(memory_budget)
        # The user asked for rematerialization, whatever it costs in compile time.
        option = "calls=inf"
        if memory_budget is not None:
            option = f"memory-budget={budget} measure={measure}".lower()
        pipeline = parse_pipeline(f"jaxpr-inline,jaxpr-remat{{{option}}}")
        # With rules held, looking at the result would make it again, and compile it again.
        compiles = measure and memory_budget is not None
        return self._after_passes(pipeline, remarks, hold_rules=not compiles)

    def memory_curve(
        self,
        *args: Any,
        budgets: Sequence[float | str] = (0.75, 0.5, 0.25, 0.1),
        repetitions: int = 5,
        **kwargs: Any,
    ) -> MemoryCurve[Program]:
        """The memory and time of the program, as it is and as :meth:`remat` makes it for budgets.

        The result prints as a table, and its ``plot()`` shows which budgets are worth their time::

            print(program.grad().memory_curve(w, x))

        Args:
          args, kwargs: the arguments to run the program on; symbolic shapes take their sizes.
          budgets: memory budgets, as for :meth:`remat`.
          repetitions: how often each form is run; its time is the median.

        Raises:
          ArgumentError: the arguments are not the program's, a budget is invalid, or the program
            has effects, which would happen at each run.
        """
        from jaxmlir.program.memory_curve import memory_curve

        return memory_curve(self, args, kwargs, budgets, repetitions)

    def __copy__(self) -> Program:
        result = self.clone()
        result.recipe = self.recipe
        return result

    def __deepcopy__(self, memo: Any) -> Program:
        return self.__copy__()

    def __reduce__(self) -> Any:
        """Pickles as the bytes that :meth:`save` writes.

        Raises:
          ArtifactError: as for :meth:`save`.
        """
        contents = io.BytesIO()
        self.save(contents)
        return _unpickled, (contents.getvalue(), self.custom_calls)

    # -- targets --

    def _default_target(self) -> Target:
        return super()._default_target() if self.recipe is None else self.recipe.target

    @analysis
    def _forms(self) -> dict[Any, Any]:
        """The forms that :attr:`versions` has made."""
        return {}

    @property
    def versions(self) -> Versions:
        """The forms of the program for lowering and differentiation."""
        return Versions(self, self._forms)

    def version(self, target: Target) -> Program:
        """The program for a target: itself, unless another one was assumed for optimizing it."""
        return self.versions.for_target(target)

    def to_jaxpr(self) -> ClosedJaxpr:
        """The program as a ``ClosedJaxpr`` over its flat arguments, custom rules included.

        Raises:
          ExportError: the installed JAX lacks a primitive that the program uses.
        """
        return self.exporter.jaxpr(self.name)

    @analysis
    def exporter(self) -> Exporter:
        """The exporter, which makes a jaxpr of each function once."""
        return Exporter(self)

    @analysis
    def custom_calls_found(self) -> tuple[custom_calls.CustomCall, ...]:
        """The program's ops that reach beyond XLA."""
        self.rule_tracing.looked_at()
        with context():
            return tuple(custom_calls.among(liveness_of(self).all_ops()))

    @analysis
    def placement(self) -> Any | None:
        """The facts that JAX needs about the devices that the program mentions."""
        with context():
            return placement_of(self, liveness_of(self).all_ops())

    # -- for Python and JAX --

    @property
    def __name__(self) -> str:
        """The program's name, where JAX looks for the names of functions that it stages out."""
        return self.name

    @property
    def __code__(self) -> CodeLocation:
        """The position of the user's function.  JAX asks every function that it traces for it, and
        would ask an object without it for its text."""
        with context():
            file, line, _ = locations.position(self._function(self.name).location)
        return CodeLocation(file, line)

    @InstanceProperty
    def __signature__(self) -> Any:
        """The user's function's signature, if known, for :func:`inspect.signature`."""
        return arguments.signature_of(self)

    # -- transformations --

    @derived_once
    def jvp(self, custom_vjp_forward: str = "error") -> Program:
        """The program ``(primals, tangents) -> (result, tangent of result)``.

        Args:
          custom_vjp_forward: ``"transpose"`` differentiates functions with a custom VJP rule by the
            transpose of their backward rule; by default running the result raises JAX's error.

        Raises:
          ArgumentError: the program takes keyword arguments, or there is no such option.
          TransformError: an op cannot be differentiated, or a backward rule is not linear in the
            cotangent; names the op and the user's line.
        """
        return transforms.jvp(self, custom_vjp_forward)

    @derived_once
    def linearize(
        self,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
        custom_vjp_forward: str = "error",
    ) -> tuple[Program, Program]:
        """``fwd(*args) -> (result, residuals)`` and ``lin(residuals, *tangents) -> tangent``.

        Args:
          while_loops: ``"checkpointed"`` makes reverse mode possible for loops whose trip count is
            known only when they run, here and in all derivatives in reverse mode; by default such
            loops raise JAX's error.
          checkpoints: how many states of such a loop are in memory at a time, at least 1.
          custom_vjp_forward: as for :meth:`jvp`; the transpose of ``lin`` does not need it.

        Returns:
          Two programs.  There is a tangent for each argument, of the same shape; residuals are a
          tuple of arrays.

        Raises:
          ArgumentError, TransformError: as for :meth:`jvp`.
        """
        return transforms.linearize(
            self.versions.portable, while_loops, checkpoints, custom_vjp_forward
        )

    @derived_once
    def vjp(
        self, *, while_loops: str = "error", checkpoints: int | None = None
    ) -> tuple[Program, Program]:
        """``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, cotangent) -> cotangents``.

        The options on loops are as for :meth:`linearize`.

        Returns:
          Two programs.  The cotangent has the pytree and the shapes of the result; the cotangents
          are a tuple with one for each argument.

        Raises:
          ArgumentError: the program takes keyword arguments, or an option is wrong.
          TransformError: an op cannot be transposed; names it and the user's line.
        """
        return transforms.vjp(self.versions.portable, while_loops, checkpoints)

    @derived_once
    def grad(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        allow_int: bool = False,
        holomorphic: bool = False,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
    ) -> Program:
        """The gradient of a scalar-valued program; options as for ``jax.grad``.

        ``while_loops`` and ``checkpoints`` as for :meth:`linearize`.

        Returns:
          A program of the same arguments.  Its result has the pytree and the shapes of the argument
          ``argnums``, or is a tuple of such if ``argnums`` is a sequence.  With ``has_aux`` it is a
          pair of the gradient and the auxiliary result.

        Raises:
          ArgumentError: ``argnums`` names no argument, or an option is wrong.
          TransformError: the result is no real scalar (with ``has_aux``: no pair whose first
            element is one), an argument has no gradient, or an op cannot be differentiated; names
            it and the user's line.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
        return transforms.grad(self, argnums, has_aux, allow_int, holomorphic, **options)

    @derived_once
    def value_and_grad(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        allow_int: bool = False,
        holomorphic: bool = False,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
    ) -> Program:
        """The value and the gradient, as a pair; options as for ``jax.value_and_grad``.

        With ``has_aux`` it is ``((value, auxiliary result), gradient)``.  Errors, ``while_loops``
        and ``checkpoints`` as for :meth:`grad`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints, "value": True}
        return transforms.grad(self, argnums, has_aux, allow_int, holomorphic, **options)

    @derived_once
    def jacfwd(
        self, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
    ) -> Program:
        """The Jacobian, by forward mode; options as for ``jax.jacfwd``.

        Returns:
          A program of the same arguments.  For each leaf of the original result it gives a pytree
          like the argument's, whose leaves have the leaf's shape followed by the argument leaf's.

        Raises:
          ArgumentError: ``argnums`` names no argument, or an option is wrong.
          TransformError: an argument or result has no such derivative, or an op cannot be
            differentiated.
        """
        return transforms.jacobian(self, "jacfwd", argnums, has_aux, holomorphic)

    @derived_once
    def jacrev(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        allow_int: bool = False,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
    ) -> Program:
        """The Jacobian, by reverse mode; options as for ``jax.jacrev``.

        Result and errors as for :meth:`jacfwd`, ``while_loops`` and ``checkpoints`` as for
        :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints, "allow_int": allow_int}
        return transforms.jacobian(self, "jacrev", argnums, has_aux, holomorphic, **options)

    @derived_once
    def hessian(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
    ) -> Program:
        """The second derivatives; options as for ``jax.hessian``.

        It is computed forward over reverse.  If a function with a custom VJP rule, such as an ODE
        solver, prevents forward mode, it is computed reverse over reverse.

        The result is the Jacobian of the Jacobian: the shape of a leaf is the shapes of the result,
        the argument and the argument again.  Errors as for :meth:`jacfwd`, ``while_loops`` and
        ``checkpoints`` as for :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
        return transforms.jacobian(self, "hessian", argnums, has_aux, holomorphic, **options)

    @derived_once
    def vmap(
        self,
        in_axes: Any = 0,
        out_axes: Any = 0,
        axis_size: int | None = None,
        axis_name: Any = None,
        spmd_axis_name: Any = None,
    ) -> Program | Callable[..., Any]:
        """The program on batches; options as for ``jax.vmap``.

        Args:
          in_axes, out_axes: pytree prefixes of the positional arguments and the result: the batch
            dimension of each leaf, ``None`` if it has none.  That of keyword arguments is 0.
          axis_size: the size of the batch.
          axis_name, spmd_axis_name: the names of the batch dimension for collectives and shardings.

        Returns:
          The batched program.  Without ``axis_size``, a function that makes and calls one, once for
          each batch size of its arguments.

        Raises:
          ArgumentError: axes do not fit the arguments or the result.
          TransformError: an op cannot be batched, or a batched result has the axis ``None``.
        """
        return transforms.vmap(self, in_axes, out_axes, axis_size, axis_name, spmd_axis_name)

    # -- running --

    @analysis
    def stubs(self) -> program_primitive.StubReader:
        """The maker of one-equation jaxprs that call the functions."""
        return program_primitive.StubReader(self)

    def callee(self, symbol: str) -> Callee:
        """The parameter of equations that call a function; one object per function."""
        # Of two threads, both get the first one's object.
        return self._callees.setdefault(symbol, Callee(self.core, symbol))

    if not TYPE_CHECKING:
        # Hidden from type checkers, which report attributes that a program does not have.

        def __getattr__(self, name: str) -> Any:
            """The compiled call, made on first access; later accesses are as fast as a slot's."""
            if name != "_jitted":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._jitted = on_mesh(self, self._compiled())
            return self._jitted

    def _compiled(self, **options: Any) -> Any:
        return jax.jit(arguments.called(self, self._call, self.name), **options)

    def forget_calls(self) -> None:
        """Forgets traced and compiled calls, so that the next ones are traced again."""
        for program in (self, self.core):
            program._callees = {}
            # Entering `contextlib.suppress` takes longer than all the rest.
            try:
                del program._jitted
            except AttributeError:
                pass

    __call__: Callable[..., Any] = CallProperty(
        "_jitted",
        """Runs the program on arrays, or stages it out where JAX is tracing.

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
        """,
    )

    @analysis
    def plans(self) -> dict[str, Any]:
        """The plans of the functions, which :mod:`jaxmlir.interpret.interpreter` makes."""
        return {}

    def eval(self, *args: Any, hooks: Sequence[Hook] = (), **kwargs: Any) -> Any:
        """The result, computed op by op; called functions, loops and branches are entered.

        An error that an op raises while it runs (a callback's error, JAX's ``FloatingPointError``)
        is passed on with a note that names the op and the user's line.

        Args:
          hooks: called before and after every op (:class:`jaxmlir.interpret.interpreter.Hook`).

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
          EvaluationError: an op cannot be evaluated; names it and the user's line.
        """
        from jaxmlir.interpret.interpreter import Interpreter

        if self.is_symbolic:
            return self.specialize(*args, **kwargs).eval(*args, hooks=hooks, **kwargs)
        flat = self.flat_arguments(args, kwargs)
        results = Interpreter(self, hooks).run(self.name, list(map(arguments.as_array, flat)))
        return jax.tree.unflatten(self.out_tree, results)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        program: Program = self
        flat, tree = jax.tree.flatten((args, kwargs))
        if tree == self.in_tree and any(map(arguments.refines, flat, self.in_avals)):
            program = self.specialize(*args, **kwargs)
        program = specialization.for_device_of(program, flat)
        flat = program.flat_arguments(args, kwargs)
        results = program_primitive.call(program, program.name, flat)
        return jax.tree.unflatten(program.out_tree, results)

    def flat_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call, flat and of the program's types.

        Raises:
          ArgumentError: they have another pytree, shape or dtype.
        """
        return arguments.flatten(self, args, kwargs)

    @analysis
    def is_symbolic(self) -> bool:
        """Whether an argument has a dimension that is not a number."""
        return any(map(specialization.is_symbolic, self.in_avals))

    def specialize(self, *args: Any, **kwargs: Any) -> Program:
        """A program with symbolic shapes, specialized to the shapes of some arguments.

        Args:
          args, kwargs: arrays or ``jax.ShapeDtypeStruct``; their shapes may be symbolic as well.

        Raises:
          ArgumentError: the program does not take such shapes; names a violated constraint.
        """
        flat = arguments.check_tree(self, args, kwargs)
        sizes = specialization.solve(self, arguments.concrete_shapes(self, flat))
        key = tuple(sizes.items())
        if key not in self._specialized:
            self._specialized[key] = specialization.specialize(self, sizes)
        return self._specialized[key]

    @collector_paused
    def lower(
        self, platforms: Sequence[str] | None = None, *, keep_unused: bool = False, **jaxs: Any
    ) -> Lowered:
        """The program lowered to StableHLO, as JAX's ahead-of-time stage.

        Args:
          platforms: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``; by default the default backend.
          keep_unused: keep unused arguments and dead code, as for ``jax.jit``.

        Raises:
          ArgumentError: a platform is not known to JAX.
          LoweringError: an op cannot be lowered for a platform; names it and the user's line.
        """
        if jaxs:
            raise ArgumentError(
                f"lower of @{self.name} takes platforms and keep_unused, got {', '.join(jaxs)}; "
                "jax.export takes jax.jit(program), not the program itself"
            )
        check_platforms(platforms)
        jitted = self._compiled(keep_unused=True) if keep_unused else self._jitted
        chosen = {} if platforms is None else {"lowering_platforms": tuple(platforms)}
        with self.widths, mesh_for(self, platforms):
            args, kwargs = arguments.abstract(self)
            return jitted.trace(*args, **kwargs).lower(**chosen)


def _unpickled(contents: bytes, custom_calls: Collection[str] | None) -> Program:
    """The program that was pickled.  Unlike unpickling itself, this executes nothing."""
    from jaxmlir.artifact.load import read

    return read(Program, memoryview(contents), "pickle", allow_custom_calls=custom_calls)
