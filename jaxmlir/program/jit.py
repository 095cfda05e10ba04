"""``jaxmlir.jit``: functions that JAX compiles through the dialect, their derivatives included.

Inside such a function, e.g. at ``jax.grad(g)``, JAX differentiates ``g`` as a program
(:mod:`jaxmlir.runtime.differentiation`).  ``g`` is staged out, goes through the passes from which
derivatives profit, and is called; our passes are the differentiation rules of that call.  Values
that ``g`` closes over, tracers of other transformations included, are operands of the call.  The
passes that decide what is stored run on the function as a whole, when it is lowered.

A function ``g`` that cannot be staged out, because it looks at values that only JAX's own
derivative knows, is differentiated by JAX as it is.  If the trace of the whole function fails, it
is traced again with JAX's derivatives, so that errors are JAX's own.  A remark reports both.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import jax

from jaxmlir import targets
from jaxmlir._compat import core, pe, rule_context, user_function, without_dead_code
from jaxmlir.bridge.custom_rules.closures import read_by_rules, rules_may_read
from jaxmlir.errors import ArgumentError, Diagnostic, JaxmlirError
from jaxmlir.passes import Pipeline
from jaxmlir.passes.remarks import Sink, check_sink
from jaxmlir.program.arguments import CallProperty
from jaxmlir.program.derived import Recipe, at_level, decide, stages_of
from jaxmlir.program.program import Program
from jaxmlir.program.staging import as_key, import_for, name_of, trace, wraps
from jaxmlir.program.tuned import TunedFunction
from jaxmlir.program.tuning import Choice
from jaxmlir.runtime import program_primitive
from jaxmlir.runtime.differentiation import as_given, is_under_way, num_staged, staged_by
from jaxmlir.runtime.placement import devices_of
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.masks import chosen
from jaxmlir.support.options import check_budget
from jaxmlir.targets import Target

if TYPE_CHECKING:
    from jax.stages import Lowered


@dataclass(frozen=True)
class Stager:
    """Turns functions into programs, and calls these while JAX traces.

    Attributes:
      level: the optimization level.
      without: names of passes of that level that do not run.
      target: the target that programs are optimized for; by default the one JAX lowers them for.
      memory_budget: the memory besides arguments and results, as a fraction or bytes.
      remarks: takes the remarks of passes that run before a program is lowered, and remarks on
        functions that could not be staged out.
      devices: the number of devices that arguments are partitioned over, where types do not say.

    Raises:
      PipelineError: there is no such level or pass.
    """

    level: int
    without: Collection[str] = ()
    target: Target | None = None
    memory_budget: float | None = None
    remarks: Sink | None = field(default=None, compare=False)
    devices: int = 1
    structure: Pipeline = field(init=False, compare=False)
    storage: Pipeline = field(init=False, compare=False)

    # Imports the passes' modules, whose many objects all live on.
    @collector_paused
    def __post_init__(self) -> None:
        structure, storage = stages_of(self.level, self.without, self.memory_budget)
        fixed = {"without": frozenset(self.without), "structure": structure, "storage": storage}
        for name, value in fixed.items():
            object.__setattr__(self, name, value)

    def call(
        self, traced: Any, operands: Sequence[Any], name: str, *, keep_unused: bool = False
    ) -> list[Any]:
        """Makes the program of JAX's traced stage, and calls it; returns the flat results.

        Raises:
          JaxmlirError: the dialect cannot express it, a pass failed, or it is being differentiated
            and has no derivative.
        """
        jaxpr, values = traced.jaxpr, [*traced._consts, *operands]
        if not (keep_unused or rules_may_read(jaxpr)):
            jaxpr, used = without_dead_code(jaxpr)
            values = chosen(values, used)
        program = import_for(jaxpr, name, self.target)
        recipe = program.recipe
        # No pass of level 1 asks for the target.
        if recipe is None and self.target is None and self.level > 1:
            again = functools.partial(import_for, jaxpr, name)
            devices = max(self.devices, devices_of(jaxpr.in_avals))
            recipe = Recipe(targets.default_target().on(devices), again)
        default = recipe and recipe.target
        decide(program, self.structure, self.storage, default, self.remarks)
        program.recipe = recipe and recipe.then(
            at_level(self.level, self.without, self.memory_budget)
        )
        return program_primitive.call(program, program.name, values)

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """``fun`` as a call of its program, for arguments that are tracers of a derivative."""
        name = name_of(user_function(fun))

        @wraps(fun)
        def staged(*args: Any) -> Any:
            leaves, tree = jax.tree.flatten(args)
            varying = [i for i, leaf in enumerate(leaves) if isinstance(leaf, core.Tracer)]
            operands = [leaves[i] for i in varying]
            # Arguments and results that are no tracers bypass the program.
            out_tree, constant = None, []

            def of_tracers(*values: Any) -> list[Any]:
                nonlocal out_tree, constant
                tracers = dict(zip(varying, values, strict=True))
                args = jax.tree.unflatten(tree, [tracers.get(i, x) for i, x in enumerate(leaves)])
                flat, out_tree = jax.tree.flatten(fun(*args))
                constant = [None if isinstance(x, core.Tracer) else (x,) for x in flat]
                return [x for x in flat if isinstance(x, core.Tracer)]

            try:
                traced = jax.jit(wraps(fun)(of_tracers)).trace(*operands)
                _check_constants(traced)
                _check_staged(traced)
                with as_given():
                    values = iter(self.call(traced, operands, name))
            except Exception as error:
                self.remark(user_function(fun), "is differentiated by JAX", error)
            else:
                flat = [boxed[0] if boxed else next(values) for boxed in constant]
                return jax.tree.unflatten(out_tree, flat)
            return fun(*args)

        return staged

    def remark(self, fun: Callable[..., Any], what: str, error: Exception) -> None:
        """Remarks that a function is treated in another way, because of an error."""
        if self.remarks is not None:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            self.remarks(_remark(fun, f"{what}: {reason}"))


def _check_constants(traced: Any) -> None:
    """Raises an error for a function that uses a tracer which another function leaked: that
    function was not meant to be staged out."""
    for value in traced._consts:
        if isinstance(value, pe.DynamicJaxprTracer) and not is_under_way(value):
            raise JaxmlirError(
                f"it uses a traced {_short(value.aval)} that another function leaked"
            )


def _check_staged(traced: Any) -> None:
    """Raises an error for a function that takes or returns references, or has a custom rule that
    closes over a tracer."""
    jaxpr = traced.jaxpr
    for aval in (*jaxpr.in_avals, *jaxpr.out_avals):
        # JAX inspects the equations that use references.
        if not isinstance(aval, core.ShapedArray):
            raise JaxmlirError(f"it takes or returns {_short(aval)}")
    for value in read_by_rules(jaxpr):
        if is_under_way(value):
            raise JaxmlirError(f"a custom rule in it closes over a traced {_short(value.aval)}")


def _short(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)


def _remark(fun: Callable[..., Any], message: str) -> Diagnostic:
    """A remark about a function, at its source line."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    where = (code.co_filename, code.co_firstlineno, 1) if code else ()
    return Diagnostic("remark", f"[jaxmlir.jit] {name_of(fun)} {message}", *where)


_TO_COME: Any = object()


@overload
def jit(
    fun: Callable[..., Any],
    /,
    *,
    optimize: int | str = ...,
    without: Collection[str] = ...,
    target: str | Target | None = ...,
    memory_budget: float | str | None = ...,
    remarks: Sink | None = ...,
    **options: Any,
) -> JitFunction: ...


@overload
def jit(
    *,
    optimize: int | str = ...,
    without: Collection[str] = ...,
    target: str | Target | None = ...,
    memory_budget: float | str | None = ...,
    remarks: Sink | None = ...,
    **options: Any,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    fun: Callable[..., Any] = _TO_COME,
    /,
    *,
    optimize: int | str = 0,
    without: Collection[str] = (),
    target: str | Target | None = None,
    memory_budget: float | str | None = None,
    remarks: Sink | None = None,
    **options: Any,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """``jax.jit``, compiled through the dialect; also a decorator with options::

        @jaxmlir.jit(optimize=2)
        def loss(w, x):
            return jnp.mean((x @ w) ** 2)

    Args:
      fun: a function of pytrees of arrays; without it ``jit`` returns a decorator.
      optimize: the optimization level; see :meth:`Program.optimize`.  Derivatives that JAX takes
        in the function, or of it, are those of optimized programs; custom rules are traced then,
        and as they are written.  With ``"tune"``, at most six forms of the function are timed on
        the arguments of the first call for each combination of shapes, and the fastest is kept; see
        :mod:`jaxmlir.program.tuned`.
      without: names of passes of that level to leave out.
      target: the target to optimize for; by default the one that JAX lowers the function for.
      memory_budget: the memory besides arguments and results, for the function and derivatives in
        it, as for :meth:`Program.remat`; the function is compiled several times to measure it.
      remarks: takes the remarks of passes that run before the function is lowered, and remarks on
        functions that JAX differentiates itself, with the reason; for example ``print``.
      options: those of ``jax.jit``: ``static_argnums``, ``static_argnames``, ``donate_argnums``,
        ``donate_argnames``, ``in_shardings``, ``out_shardings``, ``keep_unused`` ...  With
        ``inline``, a trace that calls the function contains only the call of its program.

    Returns:
      A function like one of ``jax.jit``, whose ``trace`` gives a :class:`Program`; without ``fun``,
      a decorator that makes one.

    Raises:
      ArgumentError: there is no such target, the budget is neither a fraction nor bytes, passes are
        left out of level 0, or ``remarks`` is not a function.
      PipelineError: there is no such level or pass.
    """
    check_sink(remarks)
    budget = None if memory_budget is None else check_budget(memory_budget)
    named_target = None if target is None else targets.target(target)
    tune = optimize == "tune"
    shardings = [value for name, value in options.items() if name.endswith("_shardings")]
    devices = devices_of(jax.tree.leaves(shardings))
    stager = Stager(2 if tune else optimize, without, named_target, budget, remarks, devices)
    if without and optimize == 0:
        raise ArgumentError("without= leaves passes out of a level: give optimize=2, too")
    if fun is _TO_COME:
        return lambda fun: JitFunction(fun, options, stager, tune=tune)
    return JitFunction(fun, options, stager, tune=tune)


class JitFunction:
    """A function that JAX compiles through the dialect, with JAX's stages.

    A call costs as much as a call of a ``jax.jit`` function.  It is one: the jitted function traces
    ``fun``, imports the jaxpr and stages out a call of the program.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        options: Mapping[str, Any],
        stager: Stager,
        *,
        tune: bool = False,
    ):
        # Without those of the methods' names, which a model may have.
        attributes = getattr(fun, "__dict__", {}).items()
        vars(self).update({k: v for k, v in attributes if not hasattr(JitFunction, k)})
        functools.update_wrapper(self, fun, updated=())
        static = {k: v for k, v in options.items() if k.startswith("static_")}
        # Private, since wrappers copy the attributes of this object, and `jax.jit` of it has a
        # `trace` of its own.
        self._trace = trace(fun, **static)
        if not tune:
            self._jitted = jax.jit(_through_dialect(fun, stager, options), **options)
            return

        def form(choice: Choice, heard: Sink | None) -> Callable[..., Any]:
            if choice.level == 0 and stager.memory_budget is None:
                return fun
            budget = stager.memory_budget or choice.memory_budget
            changed = {"level": choice.level, "without": choice.without, "memory_budget": budget}
            return _through_dialect(fun, replace(stager, remarks=heard, **changed), options)

        def say(text: str) -> None:
            if stager.remarks is not None:
                stager.remarks(_remark(fun, f"with optimize='tune': {text}"))

        without, target = stager.without, stager.target
        self._jitted = TunedFunction(fun, form, options, self._trace, without, target, say)

    __call__: Callable[..., Any] = CallProperty("_jitted")

    def __repr__(self) -> str:
        return f"<JitFunction of {self.__wrapped__!r}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Binds it to an object as a method, as for any function."""
        return self if instance is None else types.MethodType(self, instance)

    def trace(self, *args: Any, **kwargs: Any) -> Program:
        """The program of the function for arguments of those shapes, before any passes."""
        return self._trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """JAX's ``Lowered`` stage: StableHLO, to be printed or compiled."""
        return self._jitted.lower(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the result, as of a ``jax.jit`` function."""
        return self._jitted.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets the compiled functions."""
        self._jitted.clear_cache()


def _through_dialect(
    fun: Callable[..., Any], stager: Stager, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """``fun`` as a call of its program, to be traced by ``jax.jit`` with some options."""
    name = name_of(fun)
    static = {k: v for k, v in options.items() if k.startswith("static_")}
    traceable = jax.jit(as_key(fun), **static)

    def trace_staged(args: Any, kwargs: Any) -> Any:
        before = num_staged()
        try:
            with staged_by(stager):
                traced = traceable.trace(*args, **kwargs)
            _check_constants(traced)
            return traced
        except Exception as error:
            if num_staged() == before:
                raise
            stager.remark(fun, "is traced with JAX's derivatives", error)
        with as_given():
            return traceable.trace(*args, **kwargs)

    @wraps(fun)
    def through_dialect(*args: Any, **kwargs: Any) -> Any:
        if jax.config.jax_disable_jit:
            return fun(*args, **kwargs)
        with rule_context():
            return staged(args, kwargs)

    def staged(args: Any, kwargs: Any) -> Any:
        if stager.level or stager.memory_budget is not None:
            traced = trace_staged(args, kwargs)
        else:
            traced = traceable.trace(*args, **kwargs)
        # Under jit, every leaf is a tracer, except for leaves of static arguments.
        leaves = [x for x in jax.tree.leaves((args, kwargs)) if isinstance(x, core.Tracer)]
        if len(leaves) != traced._in_tree.num_leaves:
            # Where JAX looks for the origin of a NaN, it passes arrays, and nothing is staged out.
            return fun(*args, **kwargs)
        with as_given():
            keep_unused = options.get("keep_unused", False)
            results = stager.call(traced, leaves, name, keep_unused=keep_unused)
        return jax.tree.unflatten(traced.out_tree, results)

    return through_dialect
