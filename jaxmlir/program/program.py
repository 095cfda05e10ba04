"""``Program``: a staged-out JAX program as a module of the jaxpr dialect, with its side tables.

A program is made from a Python function, a jaxpr or text (:mod:`jaxmlir.program.staging`).  It can
be printed, verified, transformed by passes, turned back into a jaxpr, lowered and called, alone or
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
from jaxmlir.passes import Pipeline
from jaxmlir.program import arguments, transforms
from jaxmlir.program import specialize as specialization
from jaxmlir.program.arguments import CallProperty, CodeLocation, InstanceProperty
from jaxmlir.program.derived import Inverses, SparseDerivatives, derived_once
from jaxmlir.program.tuned import Tunable
from jaxmlir.program.versions import Recipe, Versions, at_level, snapshot
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
    Methods return new programs; this one stays as it is.

    Args:
      module: of functions; the first public one is what a call runs.
      constants: arrays too large for the module, by the name that their ops give.
      handles: Python objects that the module names, by name.

    Attributes:
      derived: what :mod:`jaxmlir.program.derived` keeps of transformations.
      recipe: of a program that was optimized for a target nobody named, how it is made for others.
      when_lowered: passes that run where the program is lowered, and where one derived from it is.
    """

    _internal = frozenset(
        """callee derived flat_arguments forget_calls placement plans recipe stubs version versions
        when_lowered""".split()
    )

    # These are not in the state: JAX keeps it, and must not keep what keeps its function.
    __slots__ = ("_callees", "_jitted", "derived")

    when_lowered: Pipeline | None = None

    @classmethod
    def of_import(
        cls, importer: Importer, again: Callable[[Target | None], Program] | None = None
    ) -> Program:
        """The program that was imported.

        Args:
          again: imports it for another target, which programs that it calls may depend on.
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

        Args:
          target: a path, or a binary stream to write to.
          source_info: keep the Python files and lines that ops come from, by which errors name the
            user's line.  Who gets the file can read these paths, which may have names in them.
          as_flat: leave the pytrees out, so that what is loaded takes and gives their leaves: for
            nodes that hold Python objects of this process.
          effects: what becomes of debug callbacks, prints and run-time checks: ``"drop"`` leaves
            them out, ``"keep-print"`` all but prints of a format string; by default those that are
            Python functions are an error.

        Raises:
          ArgumentError: ``target`` or ``effects`` is none of these.
          ArtifactError: the program refers to Python objects of this process, such as callbacks;
            names each op, the user's line, and what to do.
          OSError: the file cannot be written; one that was there is as it was.
        """
        from jaxmlir.artifact import saving

        options = {"source_info": source_info, "as_flat": as_flat, "effects": effects}
        saving.save(self, target, **options)

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
        named_target = None if target is None else targets.target(target)
        options: Any = {"verify_each": verify_each, "hold_rules": False}
        program = self if named_target is None else self.version(named_target)
        result = program._after_passes(pipeline, remarks, target=named_target, **options)
        # What passes have done to custom rules is not done to those that would be traced now.
        result.rule_tracing.forget()
        if named_target is None and self.recipe is not None:
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
        from jaxmlir.passes import parse_pipeline
        from jaxmlir.passes.kept import run_kept

        if remarks is not None and not callable(remarks):
            raise ArgumentError(f"remarks: expected a function of a Diagnostic, got {remarks!r}")
        result = self.clone(hold_rules=hold_rules)
        own_target = target or self._target
        result._target = own_target or default or (self.recipe and self.recipe.target)
        passes = parse_pipeline(pipeline)
        if not pipeline:
            result.jaxprs = self.jaxprs
        else:
            with result.rule_tracing.holding():
                run_kept(passes, result, remarks, verify_each=verify_each)
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

        Custom rules that are still to be traced wait on; who looks at the result gets what these
        passes make of the program with its rules.  A program that is still to be differentiated
        does without ``jaxmlir.passes.STORAGE``.

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
        named_target = None if target is None else targets.target(target)
        program = self if named_target is None else self.version(named_target)
        recipe = self.recipe
        # No pass of level 1 asks for what it is.
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
        """The program whose loops store less for their derivative, and compute the rest again.

        Within a budget, straight-line code does so as well, and batches are computed in tiles.

        It is the differentiated program that has something to store::

            program.grad().remat(memory_budget=0.5)

        Args:
          memory_budget: the memory to get along with besides arguments and results: a fraction of
            what the program takes, up to 1, or, from 2 on, bytes, which may have a unit:
            ``"1.5 GiB"``.  By default what is stored is what pays.
          measure: compile it for JAX's default backend, two to sixteen times, to see what memory it
            takes; otherwise, and where that cannot compile it or is not its target, the memory is
            estimated.
          remarks: takes what was done, for example ``print``.

        Warns where no way is within the budget: the result is what takes least.

        Raises:
          ArgumentError: the budget is neither a fraction nor bytes, or ``measure`` no boolean.
        """
        budget = None if memory_budget is None else check_budget(memory_budget)
        # Who asks for it does not ask how long that takes to compile.
        option = "calls=inf"
        if memory_budget is not None:
            option = f"memory-budget={budget} measure={measure}".lower()
        pipeline = f"jaxpr-inline,jaxpr-remat{{{option}}}"
        # Who looks at the result is not to wait for it to be compiled again.
        compiles = measure and memory_budget is not None
        return self._after_passes(pipeline, remarks, hold_rules=not compiles)

    def memory_curve(
        self,
        *args: Any,
        budgets: Sequence[float | str] = (0.75, 0.5, 0.25, 0.1),
        repetitions: int = 5,
    ) -> MemoryCurve[Program]:
        """Memory against time of the program, as it is and as :meth:`remat` makes it for budgets.

        It is printed as a table, and its ``plot()`` shows which budgets are worth their time::

            print(program.grad().memory_curve(w, x))

        Args:
          args: the arguments to run it on.
          budgets: as :meth:`remat` takes them.
          repetitions: how often each form is run; the median counts.

        Raises:
          ArgumentError: the arguments are not the program's, a budget is none, or the program has
            effects, which would happen at each run.
        """
        from jaxmlir.program.memory_curve import memory_curve

        return memory_curve(self, args, budgets, repetitions)

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
    def _forms(self) -> dict[Any, Any]:
        """What :attr:`versions` has made."""
        return {}

    @property
    def versions(self) -> Versions:
        """What the program becomes where it is lowered or differentiated."""
        return Versions(self, self._forms)

    def version(self, target: Target) -> Program:
        """The program for a target: itself, unless it was optimized for one that nobody named."""
        return self.versions.for_target(target)

    def to_jaxpr(self) -> ClosedJaxpr:
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
    def custom_calls_found(self) -> tuple[custom_calls.CustomCall, ...]:
        """The ops that reach beyond XLA."""
        self.rule_tracing.looked_at()
        with context():
            return tuple(custom_calls.among(liveness_of(self).all_ops()))

    @analysis
    def placement(self) -> Any | None:
        """What JAX must know of the devices that the program mentions."""
        with context():
            return placement_of(self, liveness_of(self).all_ops())

    # -- for Python and JAX --

    @property
    def __name__(self) -> str:
        """The program's name, where JAX looks for the names of functions that it stages out."""
        return self.name

    @property
    def __code__(self) -> CodeLocation:
        """Where the user's function is: JAX asks that of all that it traces, and asks for the text
        of what cannot say."""
        with context():
            file, line, _ = locations.position(self._function(self.name).location)
        return CodeLocation(file, line)

    @InstanceProperty
    def __signature__(self) -> Any:
        """What :func:`inspect.signature` gives: that of the user's function, where it is known."""
        return arguments.signature_of(self)

    # -- transformations --

    @derived_once
    def jvp(self, custom_vjp_forward: str = "error") -> Program:
        """The program ``(primals, tangents) -> (result, tangent of result)``.

        Args:
          custom_vjp_forward: ``"transpose"`` differentiates functions with a custom VJP rule by the
            transpose of their backward rule; by default running the result is JAX's error.

        Raises:
          ArgumentError: the program takes keyword arguments, or there is no such option.
          TransformError: an op cannot be differentiated; names it and the user's line.
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
          while_loops: ``"checkpointed"`` gives loops whose trip count is known only when they run a
            transpose, and so this and all derivatives in reverse mode; by default they are JAX's
            error.
          checkpoints: how many states of such a loop are in memory at a time, at least 1.
          custom_vjp_forward: as for :meth:`jvp`; the transpose of ``lin`` does not need it.

        Returns:
          Two programs.  Tangents are given for all arguments, and have their shapes; residuals are
          a tuple of arrays.

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

        The options on loops are those of :meth:`linearize`.

        Returns:
          Two programs.  The cotangent has the pytree and the shapes of the result, the cotangents
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
          A program of the same arguments.  It gives what has the pytree and the shapes of the
          argument ``argnums``, or a tuple where that is a sequence; with ``has_aux`` that and the
          auxiliary result.

        Raises:
          ArgumentError: ``argnums`` names no argument, or an option is wrong.
          TransformError: the result is no real scalar (with ``has_aux`` no pair of one and
            something), an argument has no gradient, or an op cannot be differentiated; names it and
            the user's line.
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
          A program of the same arguments.  For each leaf of the result it gives what has the pytree
          of the argument, of the shape of the leaf followed by that of the argument's leaf.

        Raises:
          ArgumentError: ``argnums`` names no argument, or an option is wrong.
          TransformError: an argument or result has no such derivative, or an op cannot be
            differentiated.
        """
        return self._jacobian("jacfwd", argnums, has_aux, holomorphic)

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
        return self._jacobian("jacrev", argnums, has_aux, holomorphic, **options)

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

        Forward over reverse; of a program in which a function with a custom VJP rule is in the way
        of forward mode, such as a solver of ODEs, reverse over reverse.

        The Jacobian of the Jacobian: its leaves have the shapes of the result, the argument and the
        argument again.  Errors as for :meth:`jacfwd`, ``while_loops`` and ``checkpoints`` as for
        :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
        return self._jacobian("hessian", argnums, has_aux, holomorphic, **options)

    def _jacobian(
        self, kind: str, argnums: Any, has_aux: bool, holomorphic: bool, **others: Any
    ) -> Program:
        options = {"argnums": argnums, "has_aux": has_aux, "holomorphic": holomorphic}
        return transforms.jacobian(self, kind, **options, **others)

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
          in_axes, out_axes: pytree prefixes of the arguments and the result: along which dimension
            each leaf is batched, ``None`` if it is not.
          axis_size: the size of the batch.
          axis_name, spmd_axis_name: what collectives and shardings call the dimension.

        Returns:
          The batched program.  Without ``axis_size``, a function that makes one, once for each size
          of its arguments.

        Raises:
          ArgumentError: axes do not fit the arguments or the result.
          TransformError: an op cannot be batched, or a batched result has the axis ``None``.
        """
        return transforms.vmap(self, in_axes, out_axes, axis_size, axis_name, spmd_axis_name)

    # -- running --

    @analysis
    def stubs(self) -> program_primitive.StubReader:
        """Makes one-equation jaxprs that call the functions."""
        return program_primitive.StubReader(self)

    def callee(self, symbol: str) -> Callee:
        """The parameter of equations that call a function; one object per function."""
        # Of two threads both get that of the first.
        return self._callees.setdefault(symbol, Callee(self.core, symbol))

    if not TYPE_CHECKING:
        # Type checkers are to say which names a program does not have.

        def __getattr__(self, name: str) -> Any:
            """The compiled call, made when it is first asked for: looked up as fast as a slot."""
            if name != "_jitted":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._jitted = on_mesh(self, self._compiled())
            return self._jitted

    def _compiled(self, **options: Any) -> Any:
        return jax.jit(arguments.called(self, self._call, self.name), **options)

    def forget_calls(self) -> None:
        """Has the next calls traced anew."""
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
        """What :mod:`jaxmlir.interpret.interpreter` has read of the functions."""
        return {}

    def eval(self, *args: Any, hooks: Sequence[Hook] = (), **kwargs: Any) -> Any:
        """The result, computed op by op, into every called function, loop and branch.

        What an op raises while it runs (a callback's error, JAX's ``FloatingPointError``) goes
        through as it is, with a note that names the op and the user's line.

        Args:
          hooks: called before and after every op (:class:`jaxmlir.interpret.interpreter.Hook`).

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
          EvaluationError: an op cannot be evaluated; names it and the user's line.
        """
        from jaxmlir.interpret.interpreter import Interpreter

        if any(map(specialization.is_symbolic, self.in_avals)):
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

    def specialize(self, *args: Any, **kwargs: Any) -> Program:
        """A program of symbolic shapes, fixed to the shapes of some arguments.

        Args:
          args, kwargs: arrays or ``jax.ShapeDtypeStruct``; their shapes may be symbolic as well.

        Raises:
          ArgumentError: the shapes are none that the program takes; names a violated constraint.
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
          keep_unused: lower arguments that nothing depends on, and dead code, too; as for
            ``jax.jit``.

        Raises:
          ArgumentError: a platform is not known to JAX.
          LoweringError: an op cannot be lowered for a platform; names it and the user's line.
        """
        if jaxs:
            raise ArgumentError(
                f"lower of @{self.name} takes platforms and keep_unused, got {', '.join(jaxs)}; "
                "jax.export takes jax.jit(f), where f is a program or what jaxmlir.jit returned"
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
