"""Inverses given by users: of functions (:func:`custom_inverse`), of primitives
(:func:`register_inverse`).

A function with its own inverse is staged out as one equation, ``custom_inverse_call``, which holds
the function and the inverses as jaxprs.  So the inverses are saved with a program, and survive
``vmap``, ``jit`` and loops.  For differentiation and execution, the equation is just the function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import ad, batching, core, dtypes, mlir, open_jaxpr
from jaxmlir.dialect import primitives
from jaxmlir.errors import ArgumentError, count
from jaxmlir.support.masks import chosen, filled
from jaxmlir.transforms.inverses.rule import JACOBIAN, RULES, Formula, Formulas, dense_log_det, wide

# --- functions ------------------------------------------------------------------------------------


class custom_inverse:
    """A function whose inverse is given, as a decorator::

        @jaxmlir.custom_inverse
        def scaled(x, scale):
            return x * jnp.exp(scale)

        scaled.definverse(lambda y, scale: y * jnp.exp(-scale), lambda x, y, scale: x.size * scale)

    Without ``definverse`` it is inverted by its ops, like any other function.
    """

    def __init__(self, function: Callable[..., Any]):
        _check_callable("custom_inverse", function)
        functools.update_wrapper(self, function)
        self._function = function
        self._inverses: dict[int, tuple[Callable[..., Any], Callable[..., Any] | None]] = {}

    def definverse(
        self,
        inverse: Callable[..., Any],
        log_det: Callable[..., Any] | None = None,
        *,
        argnum: int = 0,
    ) -> Callable[..., Any]:
        """Gives the inverse in one argument, the others being known.

        Args:
          inverse: ``(result, *other arguments) -> argument``.
          log_det: ``(argument, result, *other arguments)`` -> log|det| of the derivative of the
            result by the argument, a scalar.  By default it is computed from the dense Jacobian, if
            that is square.
          argnum: the number of the argument; inverses may be given for several.

        Returns:
          ``inverse``, so that this can be used as a decorator.

        Raises:
          ArgumentError: ``argnum`` is not the number of an argument, counted from 0, or a rule is
            not a function.
        """
        if not isinstance(argnum, SupportsIndex) or argnum < 0:
            raise ArgumentError(f"argnum: expected the number of an argument, got {argnum!r}")
        _check_callable("inverse", inverse)
        if log_det is not None:
            _check_callable("log_det", log_det)
        self._inverses[argnum] = (inverse, log_det)
        return inverse

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; where JAX is tracing, an op that keeps the inverses.

        Raises:
          ArgumentError: an inverse returns another type than the argument's, or a log-determinant
            is not a real scalar.
        """
        if kwargs:
            args = self._by_position(args, kwargs)
        flat, tree = jax.tree.flatten(args)
        leaves = [len(jax.tree.leaves(arg)) for arg in args]
        starts = [sum(leaves[:i]) for i in range(len(args))]
        avals = [core.typeof(x) for x in flat]
        closed, out_tree = _trace(self._function, args)
        result = jax.tree.unflatten(out_tree, map(_stand_in, _out_avals(closed)))
        inverses, log_dets, operands = [], [], []
        free = _ClosedOverValues()
        for argnum, (inverse, log_det) in self._inverses.items():
            if argnum >= len(args):
                raise ArgumentError(
                    f"{self.__name__} has an inverse in argument {argnum}, but is called with "
                    f"{count(len(args), 'argument')}"
                )
            others = [arg for i, arg in enumerate(args) if i != argnum]
            traced, _ = _trace(inverse, (result, *others))
            first = starts[argnum]
            chosen = tuple(range(first, first + leaves[argnum]))
            self._check(argnum, [avals[i] for i in chosen], _out_avals(traced))
            inverses.append(traced)
            operands.append(chosen)
            inputs = (args[argnum], result, *others)
            log_dets.append(_trace(log_det or _dense_log_det(self._function, argnum), inputs)[0])
            if log_det is not None:
                self._check_log_det(argnum, _out_avals(log_dets[-1]))
        for jaxpr in (closed, *inverses, *log_dets):
            free.find(jaxpr)
        outs = custom_inverse_call_p.bind(
            *flat,
            *free.values,
            call_jaxpr=free.as_arguments(closed),
            inverses=tuple(map(free.as_arguments, inverses)),
            log_dets=tuple(map(free.as_arguments, log_dets)),
            operands=tuple(operands),
        )
        return jax.tree.unflatten(out_tree, outs)

    def _check(self, argnum: int, want: Sequence[Any], have: Sequence[Any]) -> None:
        names = [[a.str_short(short_dtypes=True) for a in avals] for avals in (want, have)]
        if names[0] != names[1]:
            raise ArgumentError(
                f"the inverse of {self.__name__} in argument {argnum}: expected results of the "
                f"argument's types, {', '.join(names[0])}, got {', '.join(names[1])}"
            )

    def _check_log_det(self, argnum: int, have: Sequence[Any]) -> None:
        is_real = [not dtypes.issubdtype(a.dtype, np.complexfloating) for a in have]
        if is_real != [True] or have[0].shape:
            types = ", ".join(a.str_short(short_dtypes=True) for a in have)
            raise ArgumentError(
                f"the log-determinant of {self.__name__} in argument {argnum}: expected a real "
                f"scalar, got {types}"
            )

    def _by_position(self, args: Any, kwargs: Any) -> tuple[Any, ...]:
        signature = inspect.signature(self._function)
        bound = signature.bind(*args, **kwargs)
        by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD
        positional = {p.name for p in signature.parameters.values() if p.kind is by_position}
        if kwargs.keys() - positional:
            names = ", ".join(sorted(kwargs.keys() - positional))
            raise ArgumentError(
                f"{self.__name__} takes {names} by keyword only, but its inverse takes all "
                "arguments by position"
            )
        bound.apply_defaults()
        return bound.args


def _check_callable(what: str, value: Any) -> None:
    if not callable(value):
        raise ArgumentError(f"{what}: expected a function, got {value!r}")


def _stand_in(aval: Any) -> Any:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _trace(function: Callable[..., Any], args: Any) -> tuple[Any, Any]:
    """The closed jaxpr of a function of pytrees, and the tree of its result."""
    abstract = jax.tree.map(lambda x: _stand_in(core.typeof(x)), args)
    closed, out = jax.make_jaxpr(function, return_shape=True)(*abstract)
    return closed, jax.tree.structure(out)


class _ClosedOverValues:
    """The tracers of transformations around a call that its functions close over.  They become the
    op's last operands, so that JAX knows that the op depends on them."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def find(self, closed: Any) -> None:
        _, consts = open_jaxpr(closed)
        self.values += [x for x in consts if isinstance(x, core.Tracer) and self._number(x) is None]

    def _number(self, value: Any) -> int | None:
        return next((i for i, other in enumerate(self.values) if other is value), None)

    def as_arguments(self, closed: Any) -> Any:
        """The closed jaxpr with all these values as its last arguments."""
        if not self.values:
            return closed
        jaxpr, consts = open_jaxpr(closed)
        numbers = [self._number(x) if isinstance(x, core.Tracer) else None for x in consts]
        first = len(jaxpr.invars)

        def function(*xs: Any) -> Any:
            values = [
                x if i is None else xs[first + i] for x, i in zip(consts, numbers, strict=True)
            ]
            return core.eval_jaxpr(jaxpr, values, *xs[:first])

        avals = [*closed.in_avals, *map(core.typeof, self.values)]
        return jax.make_jaxpr(function)(*map(_stand_in, avals))


def _out_avals(closed: Any) -> list[Any]:
    return list(closed.out_avals)


def _dense_log_det(function: Callable[..., Any], argnum: int) -> Callable[..., Any]:
    """log|det| of the Jacobian in one argument, by forward mode; empty if it is not square.
    Complex numbers count as pairs of real ones, integers do not count."""

    def log_det(argument: Any, result: Any, *others: Any) -> Any:
        vector, rebuilt = _real_numbers(argument)

        def of_vector(vector: Any) -> Any:
            args = [*others[:argnum], rebuilt(vector), *others[argnum:]]
            return _real_numbers(function(*args))[0]

        if jax.eval_shape(of_vector, vector).size != vector.size:
            return ()
        return dense_log_det(of_vector, vector)

    return log_det


def _real_numbers(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The real numbers that a pytree holds, and the function that replaces them by others."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    places = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    parts, sizes = [], []
    for i in places:
        flat = jnp.ravel(leaves[i])
        parts.append(jnp.concatenate([flat.real, flat.imag]) if jnp.iscomplexobj(flat) else flat)
        sizes.append(parts[-1].size)

    def rebuilt(vector: Any) -> Any:
        new_leaves = list(leaves)
        for i, part in zip(places, jnp.split(vector, np.cumsum(sizes)[:-1]), strict=True):
            leaf = leaves[i]
            if jnp.iscomplexobj(leaf):
                part = lax.complex(*jnp.split(part, 2))
            new_leaves[i] = part.reshape(leaf.shape).astype(leaf.dtype)
        return jax.tree.unflatten(structure, new_leaves)

    if not parts:
        return jnp.zeros(0), lambda _: tree
    return jnp.concatenate(wide(*parts)), rebuilt


# --- the primitive of such a function -------------------------------------------------------------

custom_inverse_call_p: Any = core.Primitive("custom_inverse_call")
custom_inverse_call_p.multiple_results = True


def _run(*args: Any, call_jaxpr: Any, **_: Any) -> list[Any]:
    return core.jaxpr_as_fun(call_jaxpr)(*args)


custom_inverse_call_p.def_impl(_run)
custom_inverse_call_p.def_effectful_abstract_eval(
    lambda *_, call_jaxpr, **__: (_out_avals(call_jaxpr), call_jaxpr.effects)
)
mlir.register_lowering(custom_inverse_call_p, mlir.lower_fun(_run, multiple_results=True))


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Differentiates the function's own ops."""
    tangents = [ad.instantiate_zeros(t) if type(t) is ad.Zero else t for t in tangents]
    return jax.jvp(functools.partial(_run, **params), list(primals), tangents)


ad.primitive_jvps[custom_inverse_call_p] = _jvp


def _transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    """Transposes the function's own ops, if it is linear."""
    linear = [ad.is_undefined_primal(x) for x in args]

    def of_linear(*xs: Any) -> list[Any]:
        return _run(*filled(xs, linear, args), **params)

    avals = [_stand_in(x.aval) for x in chosen(args, linear)]
    outs = jax.linear_transpose(of_linear, *avals)(list(map(ad.instantiate_zeros, cts)))
    return filled(outs, linear)


ad.primitive_transposes[custom_inverse_call_p] = _transpose


def _batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Batches the function and its inverses, except inverses in operands that are not batched."""
    batched = [d is not None for d in dims]
    args = [
        batching.moveaxis(x, d, 0) if b else x for x, d, b in zip(args, dims, batched, strict=True)
    ]

    def over(closed: Any, in_batched: Sequence[bool]) -> Any:
        return batching.batch_jaxpr(closed, axis_data, in_batched, True)[0]

    usable = [k for k, chosen in enumerate(params["operands"]) if all(batched[i] for i in chosen)]
    inverses, log_dets = [], []
    results = [True] * len(params["call_jaxpr"].out_avals)
    for k in usable:
        chosen = params["operands"][k]
        others = [b for i, b in enumerate(batched) if i not in chosen]
        inverses.append(over(params["inverses"][k], [*results, *others]))
        in_batched = [*[True] * len(chosen), *results, *others]
        log_dets.append(_summed(over(params["log_dets"][k], in_batched)))
    outs = custom_inverse_call_p.bind(
        *args,
        call_jaxpr=over(params["call_jaxpr"], batched),
        inverses=tuple(inverses),
        log_dets=tuple(log_dets),
        operands=tuple(params["operands"][k] for k in usable),
    )
    return outs, [0] * len(outs)


def _summed(closed: Any) -> Any:
    """A closed jaxpr whose results are summed over their first dimension."""
    function = core.jaxpr_as_fun(closed)
    avals = map(_stand_in, closed.in_avals)
    return jax.make_jaxpr(lambda *xs: [jnp.sum(out, 0) for out in function(*xs)])(*avals)


batching.fancy_primitive_batchers[custom_inverse_call_p] = _batch

# --- primitives -----------------------------------------------------------------------------------


def register_inverse(
    primitive: Any,
    solve: Callable[..., Any],
    log_det: Callable[..., Any] | str | None = JACOBIAN,
    *,
    operand: int = 0,
    elementwise: bool = False,
) -> None:
    """Gives a primitive an inverse in one operand, the others being known.

    Args:
      primitive: a JAX primitive, such as a user's own.
      solve: ``(*results, *other operands, **params) -> operand``.
      log_det: ``(operand, *results, *other operands, **params)`` -> log|det| of the derivative of
        the results by the operand, a scalar; for an elementwise primitive log|slope| of each
        element.  By default it comes from the primitive's JVP rule; ``None`` says that it is zero.
      operand: the number of the operand; inverses may be given for several.
      elementwise: whether operands and results have one shape, and elements do not affect each
        other.

    Raises:
      ArgumentError: this is not a primitive, a rule not a function, or ``operand`` not a number of
        one.
    """
    if not isinstance(primitive, core.Primitive):
        raise ArgumentError(f"register_inverse: expected a jax Primitive, got {primitive!r}")
    _check_callable("solve", solve)
    if log_det not in (None, JACOBIAN):
        _check_callable("log_det", log_det)
    if not isinstance(operand, SupportsIndex) or operand < 0:
        raise ArgumentError(f"operand: expected the number of an operand, got {operand!r}")
    primitives.meet(primitive)
    name = primitives.op_name(primitive.name).removeprefix("jaxpr.")
    registered = RULES.get(name)
    formulas = dict(registered.formulas) if isinstance(registered, Formulas) else {}
    formulas[(operand,)] = Formula(solve, log_det)
    RULES[name] = Formulas(formulas, attributes=None, elementwise=elementwise)


__all__ = ["custom_inverse", "register_inverse"]
