"""The transformations of a program, as its methods: their options, and what each gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxmlir.program.derived import derived_once

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


class Transformations:
    """The part of :class:`jaxmlir.program.program.Program` that makes transformed programs.

    The methods are given to :mod:`jaxmlir.program.transforms`; each result is made once.
    """

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

        Returns:
          Two programs.  Tangents are given for all arguments, and have their shapes; residuals are
          a tuple of arrays.

        Raises:
          ArgumentError, TransformError: as for :meth:`jvp`.
        """
        return _transforms().linearize(self.portable, while_loops, checkpoints, custom_vjp_forward)

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
        return _transforms().vjp(self.portable, while_loops, checkpoints)

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
        """The value and the gradient, as a pair; options as for ``jax.value_and_grad``.

        With ``has_aux`` it is ``((value, auxiliary result), gradient)``.  Errors, ``while_loops``
        and ``checkpoints`` as for :meth:`grad`.
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
        """The second derivatives, forward over reverse; options as for ``jax.hessian``.

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
        return _transforms().jacobian(self, kind, **options, **others)

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

        Raises:
          ArgumentError: ``argnums`` and ``known`` overlap, or name no argument.
          TransformError: an argument does not follow from the result and the known arguments; names
            an op that stands in the way, and the reason.
        """
        return _transforms().inverse(self, argnums, known, log_det=False)

    @derived_once
    def inverse_and_log_det(
        self,
        argnums: int | Sequence[int] | None = None,
        known: int | Sequence[int] | None = None,
    ) -> Program:
        """Like :meth:`inverse`, with log|det| of its Jacobian: ``(arguments, log_det)``.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse`; also where results and unknown
            arguments do not hold as many numbers.
        """
        return _transforms().inverse(self, argnums, known, log_det=True)


def _transforms() -> Any:
    """Loaded late: transforms are made of programs."""
    from jaxmlir.program import transforms

    return transforms
