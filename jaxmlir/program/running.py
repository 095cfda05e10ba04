"""Running a program: calls, evaluation op by op, lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir.errors import ArgumentError
from jaxmlir.program import arguments
from jaxmlir.program import specialize as specialization
from jaxmlir.runtime import program_primitive
from jaxmlir.runtime.callee import Callee
from jaxmlir.runtime.calls import Calls
from jaxmlir.runtime.placement import mesh_wanted
from jaxmlir.support.cached import analysis
from jaxmlir.support.collector import collector_paused

if TYPE_CHECKING:
    from jax.stages import Lowered

    from jaxmlir.interpret.interpreter import Hook
    from jaxmlir.program.program import Program


class Running:
    """The part of :class:`jaxmlir.program.program.Program` that runs and lowers it."""

    @analysis
    def stubs(self) -> program_primitive.Stubs:
        """Makes one-equation jaxprs that call the functions."""
        return program_primitive.Stubs(self)

    def callee(self, symbol: str) -> Callee:
        """The parameter of equations that call a function; one object per function."""
        # Of two threads both get that of the first.
        return self._callees.setdefault(symbol, Callee(self.core, symbol))

    def __getattr__(self, name: str) -> Any:
        """Where there is none yet, the compiled call: so it is looked up as fast as a slot is."""
        if name != "_jitted":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._jitted = jax.jit(arguments.called(self, self._call, self.name))
        return self._jitted

    def forget_calls(self) -> None:
        """Has the next calls traced anew."""
        for program in (self, self.core):
            program._callees = {}
            # Entering `contextlib.suppress` takes longer than all the rest.
            try:
                del program._jitted
            except AttributeError:
                pass

    __call__ = Calls(
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
          hooks: see :class:`jaxmlir.interpret.interpreter.Hook`; each is called before and after
          every op.

        Raises:
          ArgumentError: the arguments have another pytree, shape or dtype than the program's.
          EvaluationError: an op cannot be evaluated; names it and the user's line.
        """
        from jaxmlir.interpret.interpreter import Interpreter

        if any(map(specialization.is_symbolic, self.in_avals)):
            return self.specialize(*args, **kwargs).eval(*args, hooks=hooks, **kwargs)
        flat = self.flat_arguments(args, kwargs)
        results = Interpreter(self, hooks).run(self.name, list(map(_as_array, flat)))
        return jax.tree.unflatten(self.out_tree, results)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        flat, tree = jax.tree.flatten((args, kwargs))
        if tree == self.in_tree and any(map(arguments.refines, flat, self.in_avals)):
            program = self.specialize(*args, **kwargs)
            results = program_primitive.call(
                program, program.name, program.flat_arguments(args, kwargs)
            )
            return jax.tree.unflatten(self.out_tree, results)
        results = program_primitive.call(self, self.name, self.flat_arguments(args, kwargs))
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
        arguments.check_platforms(platforms)
        jitted = self._jitted
        if keep_unused:
            called = arguments.called(self, self._call, self.name)
            jitted = jax.jit(called, keep_unused=True)
        with self.widths, mesh_wanted(self.name):
            args, kwargs = arguments.abstract(self)
            traced = jitted.trace(*args, **kwargs)
            if platforms is None:
                return traced.lower()
            return traced.lower(lowering_platforms=tuple(platforms))


def _as_array(value: Any) -> Any:
    """A number or numpy array as a JAX array."""
    is_host = isinstance(value, (np.ndarray, np.generic, bool, int, float, complex))
    return jax.numpy.asarray(value) if is_host and np.result_type(value).kind != "V" else value
