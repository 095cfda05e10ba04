"""``Program``: a staged-out JAX program as a module of the jaxpr dialect, with its side tables.

A program is made from a Python function, a jaxpr or text (:mod:`jaxmlir.staging`).  It can be
printed, verified, transformed by passes, turned back into a jaxpr, lowered and called, alone or
inside other JAX code.
"""

from __future__ import annotations

import functools
import numbers
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jaxmlir import arguments, codec, custom_calls, handles, locations, pytrees, runtime
from jaxmlir import ir as mlir_ir
from jaxmlir import specialize as specialization
from jaxmlir._calls import Calls
from jaxmlir._collector import collector_paused
from jaxmlir._compat import core, effects, state_types
from jaxmlir._derived import derived_once
from jaxmlir.callee import Callee
from jaxmlir.constants import Constants
from jaxmlir.errors import (
    ArgumentError,
    Diagnostic,
    ImportingError,
    JaxmlirError,
    TransformError,
    at_op,
    nearest,
)
from jaxmlir.exporter import Exporter
from jaxmlir.ir import context, func, functions, ir, is_private
from jaxmlir.passes._liveness import Liveness
from jaxmlir.placement import placement_of
from jaxmlir.rule_tracing import RuleTracing
from jaxmlir.types import aval_of, widths_of
from jaxmlir.untraced import MARK, marked_ops

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jax.stages import Lowered

    from jaxmlir.importer import Importer
    from jaxmlir.interpreter import Hook
    from jaxmlir.passes import Pipeline
    from jaxmlir.passes._reading import Reading
    from jaxmlir.passes._volume import Copy


class Signature(NamedTuple):
    """What calling a function takes and gives."""

    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    effects: Any
    uses_refs: bool


class Program:
    """A module of the jaxpr dialect and what it refers to outside itself.

    Attributes:
      rule_tracing: traces custom derivative rules when they are needed.
      custom_calls: of a program that somebody else wrote, what it may reach beyond XLA (see
        :mod:`jaxmlir.custom_calls`); ``None`` of one's own.
      derived: what :mod:`jaxmlir._derived` keeps of transformations.
      jaxprs: of an imported program, what its private functions were imported from.
      lent: functions of other modules that this one's may name, while it is being made.
      copies: functions that are copied from where they have been verified.
      state: another object after each change.
    """

    def __init__(
        self,
        module: ir.Module,
        constants: Mapping[str, Any] | None = None,
        handles: Mapping[str, handles.Box] | None = None,
        custom_calls: frozenset[str] | None = None,
    ):
        self._module = module
        self._constants = Constants(constants or {})
        self._handles = dict(handles or {})
        self.custom_calls = custom_calls
        self.rule_tracing = RuleTracing(self)
        # Passes that run where the program is lowered, and where one derived from it is.
        self.when_lowered: Pipeline | None = None
        self.changed()

    @classmethod
    def _of_import(cls, importer: Importer) -> Program:
        program = cls(importer.module)
        # The rules that are still to be traced bring constants and handles of their own.
        program._constants, program._handles = importer.constants, importer.handles
        program.jaxprs = importer.jaxprs
        if importer.pending:
            importer.pending.program = program
            program.rule_tracing = RuleTracing(program, importer.pending.table, importer)
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
        self._callees: dict[str, Callee] = {}
        self._specialized: dict[Any, Program] = {}
        self.derived: dict[Any, Any] = {}
        self.jaxprs: dict[str, weakref.ref[Any]] = {}
        self.lent: dict[str, func.FuncOp] = {}
        self.copies: dict[str, Copy] = {}
        self.state = object()
        for name in (
            "exporter",
            "plans",
            "stubs",
            "liveness",
            "reading",
            "_functions",
            "taken_names",
            "arg_names",
            "in_avals",
            "in_tree",
            "out_avals",
            "out_tree",
            "placement",
            "lowered_form",
            "pure_form",
            "_jitted",
            "custom_calls_found",
        ):
            self.__dict__.pop(name, None)
        if functions is not None:
            self._functions = functions

    # -- reading --

    @property
    def functions(self) -> dict[str, func.FuncOp]:
        """The module's functions by symbol."""
        self.rule_tracing.looked_at()
        return self._functions

    @functools.cached_property
    def _functions(self) -> dict[str, func.FuncOp]:
        return functions(self._module) | self.lent

    @functools.cached_property
    def taken_names(self) -> set[str]:
        """The symbols that importers have found taken, and those that they are about to add."""
        return set()

    def function(self, symbol: str) -> func.FuncOp:
        """The function ``@symbol``.

        Raises:
          JaxmlirError: the module has none.
        """
        self.rule_tracing.looked_at()
        return self._function(symbol)

    def _function(self, symbol: str) -> func.FuncOp:
        """Likewise; its ops may lack the custom rules that are not traced yet."""
        found = self._functions.get(symbol)
        if found is None:
            # A pass may have added it since.
            self.reread()
            found = self._functions.get(symbol)
        if found is None:
            meant = nearest(symbol, self._functions)
            hint = f"; did you mean @{meant}?" if meant else ""
            raise JaxmlirError(f"the module has no function @{symbol}{hint}")
        return found

    @property
    def name(self) -> str:
        """The symbol of the function that a call of the program runs: the first public one."""
        with context():
            for symbol, op in self._functions.items():
                if not is_private(op):
                    return symbol
        raise JaxmlirError("the module has no public function to call")

    @property
    def __name__(self) -> str:
        """The same, as JAX calls functions that it stages out."""
        return self.name

    @property
    def __signature__(self) -> Any:
        """What :func:`inspect.signature` gives: that of the user's function, where it is known."""
        return arguments.signature_of(self)

    @functools.cached_property
    def in_tree(self) -> Any:
        """The pytree of ``(args, kwargs)`` that a call takes."""
        return self._tree("jaxpr.in_tree", len(self.in_avals), lambda n: ((0,) * n, {}))

    @functools.cached_property
    def out_tree(self) -> Any:
        """The pytree of a call's result."""
        n = len(self.out_avals)
        return self._tree("jaxpr.out_tree", n, lambda n: 0 if n == 1 else (0,) * n)

    def _tree(self, name: str, n: int, default: Callable[[int], Any]) -> Any:
        with context():
            attributes = self._function(self.name).attributes
            if name not in attributes:
                return jax.tree.structure(default(n))
            tree = pytrees.decode(attributes[name])
        if tree.num_leaves != n:
            raise JaxmlirError(f"{name} has {tree.num_leaves} leaves, @{self.name} has {n} values")
        return tree

    @functools.cached_property
    def arg_names(self) -> tuple[str, ...]:
        """What the user's function calls the flat arguments (``params['w']``); empty if unknown."""
        with context():
            return locations.names_of_arguments(self._function(self.name))

    @functools.cached_property
    def in_avals(self) -> tuple[Any, ...]:
        """The abstract values of the flat arguments."""
        return self._avals(self._function(self.name).type.inputs)

    @functools.cached_property
    def out_avals(self) -> tuple[Any, ...]:
        """The abstract values of the flat results."""
        return self._avals(self._function(self.name).type.results)

    def _avals(self, types: Sequence[ir.Type]) -> tuple[Any, ...]:
        try:
            return tuple(map(aval_of, types))
        except ImportingError as e:
            raise self._at_function(self._function(self.name), e) from e

    def _at_function(self, function: func.FuncOp, error: ImportingError) -> ImportingError:
        place = locations.position(function.location)
        return at_op(ImportingError, error, "func.func", place, f"op @{function.name.value}")

    def check_types(self, function: func.FuncOp) -> None:
        """Sees to it that arguments and results are of types of the dialect.

        Raises:
          ImportingError: one is not; names the function and its place.
        """
        try:
            for type_ in (*function.type.inputs, *function.type.results):
                aval_of(type_)
        except ImportingError as e:
            raise self._at_function(function, e) from e

    def signature(self, symbol: str) -> Signature:
        """Operands, results and effects of a function, as JAX has them."""
        found = self._signatures.get(symbol)
        if found is None:
            with context():
                function = self._function(symbol)
                listed = self.liveness.listed_effects(symbol)
                try:
                    found = _signature(function, listed, self._closes_over_refs)
                except ImportingError as e:
                    raise self._at_function(function, e) from e
            self._signatures[symbol] = found
        return found

    @property
    def _closes_over_refs(self) -> bool:
        """Whether references of this process may be constants, of which no effect needs to tell:
        a custom rule writes to them."""
        return any(isinstance(box.value, core.Ref) for box in self._handles.values())

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

    def save(self, path: str | os.PathLike[str], *, source_info: bool = True) -> None:
        """Writes the program to one file, which :func:`jaxmlir.load` reads anywhere.

        Args:
          source_info: keep the Python files and lines that ops come from.

        Raises:
          ArtifactError: the program refers to Python objects of this process, such as callbacks.
          OSError: the file cannot be written; one that was there is as it was.
        """
        from jaxmlir import artifact

        artifact.save(self, path, source_info=source_info)

    def __repr__(self) -> str:
        args = ", ".join(aval.str_short(short_dtypes=True) for aval in self.in_avals)
        outs = ", ".join(aval.str_short(short_dtypes=True) for aval in self.out_avals)
        return f"<Program @{self.name}({args}) -> ({outs})>"

    # -- checking and transforming --

    def verify(self) -> None:
        """Checks the module: MLIR's rules, the ops' records, and types by abstract evaluation.

        Raises:
          VerificationError: names the op, its location, what was expected and what came.
        """
        from jaxmlir.verifier import verify

        verify(self)

    def run_passes(
        self,
        pipeline: str,
        *,
        verify_each: bool = True,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program after a pipeline of passes, e.g. ``"jaxpr-grad,cse"``; this one is as it was.

        Args:
          verify_each: check the program after each pass.
          remarks: takes what the passes say they did, for example ``print``.

        Raises:
          PipelineError: the pipeline is malformed, or names a pass that does not exist.
          PassError: a pass failed, or left an invalid module.
        """
        result = self._after_passes(pipeline, verify_each, remarks)
        # What passes have done to custom rules is not done to those that would be traced now.
        result.rule_tracing.forget()
        return result

    def _after_passes(
        self, pipeline: str, verify_each: bool, remarks: Callable[[Diagnostic], None] | None
    ) -> Program:
        from jaxmlir.passes import Instrumentation, parse_pipeline

        result = self.clone()
        instrumentation = Instrumentation(verify_each=verify_each, remarks=remarks)
        parse_pipeline(pipeline).run(result, instrumentation)
        result.changed()
        return result

    @derived_once
    def optimize(
        self,
        level: int = 1,
        *,
        without: Collection[str] = (),
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program after the passes of an optimization level; see ``jaxmlir.passes.LEVELS``.

        Args:
          level: 0 does nothing; 1 is cheap and changes no bit of a result.
          without: names of passes to leave out.
          remarks: takes what the passes say they did, for example ``print``.

        Raises:
          PipelineError: there is no such level or pass.
        """
        from jaxmlir.passes import level_pipeline

        pipeline = level_pipeline(level, without)
        return self._after_passes(pipeline, False, remarks)

    @derived_once
    def remat(
        self,
        memory_budget: float | None = None,
        *,
        remarks: Callable[[Diagnostic], None] | None = None,
    ) -> Program:
        """The program whose loops store less for their derivative, and compute the rest again.

        It is the differentiated program that has something to store::

            program.grad().remat(memory_budget=0.5)

        Args:
          memory_budget: the memory to get along with besides arguments and results: a fraction of
            what the program takes, or, from 2 on, bytes.  By default what is stored is what pays.
          remarks: takes what was done, for example ``print``.

        Raises:
          ArgumentError: the budget is no number.
          PipelineError: it is not positive.
        """
        if not (memory_budget is None or isinstance(memory_budget, numbers.Real)):
            raise ArgumentError(f"memory_budget: expected a number, got {memory_budget!r}")
        option = "" if memory_budget is None else f"{{memory-budget={memory_budget}}}"
        pipeline = f"jaxpr-inline,jaxpr-remat{option}"
        return self._after_passes(pipeline, False, remarks)

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
        result.rule_tracing = self.rule_tracing.of_clone(result, hold_rules)
        return result

    def __copy__(self) -> Program:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> Program:
        return self.clone()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled; program.save(path) writes it to a file, which "
            "jaxmlir.load(path) reads in another process"
        )

    @functools.cached_property
    def lowered_form(self) -> Program:
        """What is lowered: the program after the passes that wait until then."""
        if self.when_lowered is None:
            return self
        from jaxmlir.passes import Instrumentation

        result = self.clone(hold_rules=True)
        result.when_lowered = None
        self.when_lowered.run(result, Instrumentation(verify_each=False))
        return result

    @functools.cached_property
    def pure_form(self) -> Program | None:
        """The program with values for the references that it makes; ``None`` where it has none."""
        from jaxmlir.passes.discharge_refs import discharge_refs

        result = self.clone()
        try:
            discharge_refs(result)
        except TransformError:
            return None
        return result

    def to_jaxpr(self) -> Any:
        """The program as a ``ClosedJaxpr`` over its flat arguments, custom rules included.

        Raises:
          ExportError: the installed JAX lacks a primitive that the program uses.
        """
        return self.exporter.jaxpr(self.name)

    @derived_once
    def jvp(self, custom_vjp_forward: str = "error") -> Program:
        """The program ``(primals, tangents) -> (result, tangent of result)``.

        Args:
          custom_vjp_forward: ``"transpose"`` differentiates functions with a custom VJP rule by the
            transpose of their backward rule; by default running the result is JAX's error.
        """
        return _transforms().jvp(self, custom_vjp_forward)

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
        """
        return _transforms().linearize(self, while_loops, checkpoints, custom_vjp_forward)

    @derived_once
    def vjp(
        self, *, while_loops: str = "error", checkpoints: int | None = None
    ) -> tuple[Program, Program]:
        """``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, cotangent) -> cotangents``.

        The options on loops are those of :meth:`linearize`.
        """
        return _transforms().vjp(self, while_loops, checkpoints)

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
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
        return _transforms().grad(self, argnums, has_aux, allow_int, holomorphic, **options)

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
        """The value and the gradient; options as for ``jax.value_and_grad``.

        ``while_loops`` and ``checkpoints`` as for :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints, "value": True}
        return _transforms().grad(self, argnums, has_aux, allow_int, holomorphic, **options)

    @derived_once
    def jacfwd(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
    ) -> Program:
        """The Jacobian, by forward mode; options as for ``jax.jacfwd``."""
        return self._jacobian("jacfwd", argnums, has_aux, holomorphic)

    @derived_once
    def jacrev(
        self,
        argnums: int | Sequence[int] = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        *,
        while_loops: str = "error",
        checkpoints: int | None = None,
    ) -> Program:
        """The Jacobian, by reverse mode; options as for ``jax.jacrev``.

        ``while_loops`` and ``checkpoints`` as for :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
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
        """The second derivatives, forward over reverse; options as for ``jax.hessian``.

        ``while_loops`` and ``checkpoints`` as for :meth:`linearize`.
        """
        options = {"while_loops": while_loops, "checkpoints": checkpoints}
        return self._jacobian("hessian", argnums, has_aux, holomorphic, **options)

    def _jacobian(
        self, kind: str, argnums: Any, has_aux: bool, holomorphic: bool, **loops: Any
    ) -> Program:
        options = {"argnums": argnums, "has_aux": has_aux, "holomorphic": holomorphic}
        return _transforms().jacobian(self, kind, **options, **loops)

    @derived_once
    def vmap(
        self,
        in_axes: Any = 0,
        out_axes: Any = 0,
        axis_size: int | None = None,
        axis_name: Any = None,
        spmd_axis_name: Any = None,
    ) -> Any:
        """The program on batches; options as for ``jax.vmap``.

        Without ``axis_size`` it is a function that is specialised by its first arguments' size.
        """
        return _transforms().vmap(self, in_axes, out_axes, axis_size, axis_name, spmd_axis_name)

    @derived_once
    def inverse(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
    ) -> Program:
        """The program ``(result, *known arguments) -> unknown arguments``.

        Args:
          argnums: the positional arguments to find; by default all that are not known.
          known: those that are given, which the inverse takes in their order; by default all that
            are not to be found.

        Returns:
          A program that gives the argument, or a tuple of them where they are several.
        """
        return _transforms().inverse(self, argnums, known, log_det=False)

    @derived_once
    def inverse_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
    ) -> Program:
        """Like :meth:`inverse`, with log|det| of its Jacobian: ``(arguments, log_det)``."""
        return _transforms().inverse(self, argnums, known, log_det=True)

    # -- running --

    @functools.cached_property
    def exporter(self) -> Exporter:
        """Makes jaxprs of the functions, each once."""
        return Exporter(self)

    @functools.cached_property
    def stubs(self) -> runtime.Stubs:
        """Makes one-equation jaxprs that call the functions."""
        return runtime.Stubs(self)

    @functools.cached_property
    def liveness(self) -> Liveness:
        """What lowering has found out of the functions: custom rules are no reason to keep."""
        return Liveness(self._functions, custom_rules=False)

    @functools.cached_property
    def reading(self) -> Reading:
        """What passes have read of the functions since they were changed."""
        from jaxmlir.passes._reading import Reading

        return Reading(self.functions)

    @functools.cached_property
    def custom_calls_found(self) -> tuple[custom_calls.CustomCall, ...]:
        """The ops that reach beyond XLA."""
        self.rule_tracing.looked_at()
        with context():
            return tuple(custom_calls.among(self.liveness.all_ops()))

    @functools.cached_property
    def placement(self) -> Any | None:
        """What JAX must know of the devices that the program mentions."""
        with context():
            return placement_of(self, self.liveness.all_ops())

    def callee(self, symbol: str) -> Callee:
        """The parameter of equations that call a function; one object per function."""
        return self._callees.setdefault(symbol, Callee(self, symbol))

    __call__ = Calls(
        "_jitted",
        """Runs the program on arrays, or stages it out where JAX is tracing.

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
        """,
    )

    @functools.cached_property
    def _jitted(self) -> Any:
        return jax.jit(arguments.called(self, self._call, self.name))

    @functools.cached_property
    def plans(self) -> dict[str, Any]:
        """What :mod:`jaxmlir.interpreter` has read of the functions."""
        return {}

    def eval(self, *args: Any, hooks: Sequence[Hook] = (), **kwargs: Any) -> Any:
        """The result, computed op by op, into every called function, loop and branch.

        Args:
          hooks: see :class:`jaxmlir.interpreter.Hook`; each is called before and after every op.

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
          EvaluationError: an op cannot be evaluated; names it and the user's line.
        """
        from jaxmlir.interpreter import Interpreter

        if any(map(specialization.is_symbolic, self.in_avals)):
            return self.specialize(*args, **kwargs).eval(*args, hooks=hooks, **kwargs)
        flat = self.flat_arguments(args, kwargs)
        results = Interpreter(self, hooks).run(self.name, list(map(_as_array, flat)))
        return jax.tree.unflatten(self.out_tree, results)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        flat, tree = jax.tree.flatten((args, kwargs))
        if tree == self.in_tree and any(map(arguments.refines, flat, self.in_avals)):
            program = self.specialize(*args, **kwargs)
            results = runtime.call(program, program.name, program.flat_arguments(args, kwargs))
            return jax.tree.unflatten(self.out_tree, results)
        results = runtime.call(self, self.name, self.flat_arguments(args, kwargs))
        return jax.tree.unflatten(self.out_tree, results)

    def flat_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call, flat and of the program's types.

        Raises:
          ArgumentError: they have another pytree, shape or dtype.
        """
        return arguments.flatten(self, args, kwargs)

    def specialize(self, *args: Any, **kwargs: Any) -> Program:
        """A program of symbolic shapes, fixed to the shapes of some arguments.

        Args:
          args, kwargs: arrays or ``jax.ShapeDtypeStruct`` of concrete shapes.

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
        self, platforms: Sequence[str] | None = None, *, keep_unused: bool = False
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
        arguments.check_platforms(platforms)
        jitted = self._jitted
        if keep_unused:
            called = arguments.called(self, self._call, self.name)
            jitted = jax.jit(called, keep_unused=True)
        with self.widths:
            args, kwargs = arguments.abstract(self)
            traced = jitted.trace(*args, **kwargs)
            if platforms is None:
                return traced.lower()
            return traced.lower(lowering_platforms=tuple(platforms))

    @property
    def widths(self) -> AbstractContextManager[Any]:
        """Has JAX leave the types of arguments and results as they are, 64 bits wide or not."""
        return widths_of((*self.in_avals, *self.out_avals))


@collector_paused
def _transforms() -> Any:
    """Loaded late: transforms are made of programs."""
    from jaxmlir import transforms

    return transforms


def _signature(
    function: func.FuncOp, effect_lists: Iterable[ir.ArrayAttr], closes_over_refs: bool
) -> Signature:
    type_ = function.type
    found = {codec.decode(item) for items in effect_lists for item in items}
    operands = tuple(map(aval_of, type_.inputs))
    internal = getattr(core, "InternalMutableArrayEffect", ())
    uses_refs = (
        closes_over_refs
        or any(isinstance(e, (effects.JaxprInputEffect, internal)) for e in found)
        or any(isinstance(aval, state_types.AbstractRef) for aval in operands)
    )
    return Signature(operands, tuple(map(aval_of, type_.results)), frozenset(found), uses_refs)


def _as_array(value: Any) -> Any:
    """A number or numpy array as a JAX array."""
    is_host = isinstance(value, (np.ndarray, np.generic, bool, int, float, complex))
    return jax.numpy.asarray(value) if is_host and np.result_type(value).kind != "V" else value
