"""Programs that are derived from a program, each once.

``program.grad()(x)`` in a loop differentiates and compiles the first time, as ``jax.grad`` of a
``jax.jit`` function does.

What is derived while custom rules wait to be traced is not what is derived when they are there:
passes change and merge rules, too.  So whoever looks at it gets it derived again, from the program
with its rules, and reads the same whatever was read before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import jax

from jaxmlir._compat import ConfigSnapshot
from jaxmlir.caching import setting
from jaxmlir.errors import JaxmlirError, TransformError, deep_calls_as
from jaxmlir.program import transforms
from jaxmlir.runtime.differentiation import as_given
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.options import check_switch

if TYPE_CHECKING:
    from jaxmlir.sparse.detect import Pattern

Method = TypeVar("Method", bound=Callable[..., Any])


class _Derivable(Protocol):
    """A program, as far as what is derived from it depends on it.

    Attributes:
      custom_calls: what it may reach beyond XLA.
      state: another object after each change.
      derived: what was derived from it, by the method and its arguments.
    """

    custom_calls: frozenset[str] | None
    state: object
    derived: dict[Any, _DerivedResult]


class _DerivedResult(NamedTuple):
    """What a method gave, and the state that each program in it was in."""

    result: Any
    states: list[tuple[_Derivable, object]]

    def is_as_given(self) -> bool:
        return all(program.state is state for program, state in self.states)


class _TracedDerivation:
    """What a method gives of a program whose custom rules are traced.

    Args:
      options: the method's, by name.
    """

    def __init__(self, method: Callable[..., Any], program: Any, options: dict[str, Any]):
        # Not the program itself, which has the function that calls it.
        self._method, self._of, self._state = method, program.core, program.state
        # What was done has been said.
        self._options = options | ({"remarks": None} if "remarks" in options else {})
        self._config = ConfigSnapshot()

    @functools.cached_property
    def programs(self) -> tuple[Any, ...]:
        """The derived programs; none where the program has been changed since, or cannot be derived
        from with its rules: that is no error before somebody asks for them."""
        if self._of.state is not self._state:
            return ()
        self._of.rule_tracing.looked_at()
        try:
            with self._config.restored():
                return _programs(self._method(self._of, **self._options))
        except JaxmlirError:
            return ()

    def program(self, i: int) -> Any | None:
        """One of them."""
        return self.programs[i] if self.programs else None


def _programs(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def derived_once(method: Method) -> Method:
    """A method of a program that gives the same for the same arguments, until the program is
    changed, or what it gave is.

    Nothing is kept of calls with an argument that is to be called itself (``remarks``) or that
    cannot be hashed; what they give is the same.
    """
    method = deep_calls_as(TransformError)(method)
    _, *parameters = inspect.signature(method).parameters.values()
    defaults = {p.name: p.default for p in parameters}
    switches = [p.name for p in parameters if isinstance(p.default, bool)]
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    # In one go: what comes between two pauses would set off a collection of what the first made.
    @collector_paused
    @as_given()
    @functools.wraps(method)
    def derived(program: _Derivable, *args: Any, **kwargs: Any) -> Any:
        by_position = dict(zip(positional, args, strict=False))
        bound = defaults | by_position | kwargs
        fits = len(args) == len(by_position) and len(bound) == len(defaults)
        if not fits or not by_position.keys().isdisjoint(kwargs):
            return method(program, *args, **kwargs)
        for name in switches:
            check_switch(name, bound[name])
        leaves, tree = jax.tree.flatten(tuple(bound.values()))
        # 0, False and 0.0 are equal and mean different things.
        typed_leaves = [(type(leaf), leaf) for leaf in leaves]
        # What JAX's rules write depends on its configuration.
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
    """What a method gives of a program, if need be of the one that is read with its rules."""
    try:
        return method(program, **options)
    except TransformError:
        # A batch may be of too little for what its rules, traced since, turn out to need.
        if not program.rule_tracing.reads_as_another:
            raise
        program.rule_tracing.looked_at()
        return method(program, **options)


def _keep_target(
    program: Any, programs: Sequence[Any], bound: Mapping[str, Any], method: Callable[..., Any]
) -> None:
    """Has what was made of a program be for the same target, or made again for others as it is."""
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
    """What a program has to do with inverses: the methods of :class:`Program` on them."""

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
          known: those that are given, which the inverse takes in their order; by default all that
            are not to be found.
          newton: whether to solve for an unknown that occurs more than once, as in
            ``x + tanh(x)``, by a loop of safeguarded Newton steps.  Elementwise expressions of one
            unknown are then taken to be strictly monotone in it; where the loop finds no root, the
            result is NaN.

        Returns:
          A program that gives the argument, or a tuple of them where they are several.

        Raises:
          ArgumentError: ``argnums`` and ``known`` overlap, or name no argument.
          TransformError: an argument does not follow from the result and the known arguments; names
            an op that stands in the way, and the reason.
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
          ArgumentError, TransformError: as for :meth:`inverse`; also where results and unknown
            arguments do not hold as many numbers.
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

        It is what :meth:`inverse_and_log_det` finds with the other sign, computed from the values
        on the way to the result, without Jacobians of the whole.

        Raises:
          ArgumentError, TransformError: as for :meth:`inverse_and_log_det`.
        """
        return transforms.forward_and_log_det(self, argnums, known, newton)


class SparseDerivatives:
    """What a program has to do with sparse derivatives: the methods of :class:`Program` on them."""

    __slots__ = ()

    grad: Any

    def jacobian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Jacobian can be other than zero, for any arguments.

        Rows are the elements of the flat results, columns those of the arguments ``argnums``, leaf
        by leaf.  The pattern is that of the derivative as the compiler writes it: custom rules
        count, not what they are rules of.

        Returns:
          A ``SparsityPattern``; of a program whose shapes are symbolic a ``SymbolicPattern``, which
          holds at all sizes.

        Raises:
          ArgumentError: ``argnums`` names no argument.
          TransformError: an argument has no derivative, or an op cannot be differentiated.
          PatternTooDense: there are more than 100 million elements; names the ops that mix them.
        """
        return transforms.jacobian_sparsity(self, argnums)

    def hessian_sparsity(self, argnums: int | Sequence[int] = 0) -> Pattern:
        """Which elements of the Hessian of a scalar-valued program can be other than zero.

        It is the pattern of the gradient's Jacobian.  That is a symmetric matrix, unless a custom
        derivative rule makes the gradient something else.

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

        A warning says so where that is most of the rows or columns, and names the ops that make the
        pattern dense.  Of a program whose shapes are symbolic it is a program at all sizes, if it
        takes the same number of products at all sizes (``pattern.colors``).

        Args:
          mode: ``"forward"`` (JVPs), ``"reverse"`` (VJPs), ``"both"``, or ``"auto"``: the fewest.
          format: ``"bcoo"``, or ``"dense"`` for an array.
          chunk_size: compute so many products at a time, which bounds the memory; by default all.
          pattern: that of :meth:`jacobian_sparsity`, if it is known: it is not checked.

        Returns:
          A program of the same arguments.  It gives a matrix of ``jax.experimental.sparse.BCOO``,
          sorted by rows: those of :meth:`jacobian_sparsity`.  Where shapes are symbolic, elements
          are in the order of the pattern's pieces, and some may be padding.

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
        """The Hessian as a sparse matrix: the sparse Jacobian of the gradient, told by symmetry.

        Args and result are those of :meth:`sparse_jacobian`; the products are those with the
        Hessian, ``"forward"`` over reverse or reverse over ``"reverse"``.

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

        It is the sum of the second derivatives in all elements of the arguments ``argnums``, each
        twice: the trace of the Hessian, of which nothing is computed.  With each value go its first
        derivatives, so the memory is that of :meth:`jacfwd`.

        Returns:
          A program of the same arguments.  It gives what has the pytree and shapes of the result.

        Raises:
          ArgumentError: ``argnums`` names no argument, or one is not of real numbers.
          TransformError, EvaluationError: an op cannot be differentiated; names it.
        """
        return transforms.laplacian(self, argnums)
