"""The derivatives and batches of JAX's own tests by the passes: ``jax_tests.py --transforms``.

``jax.grad``, ``jax.vmap`` and the like remain JAX's, but transform a function that calls a program
in place of ``f``.  The passes are the derivative and batching rules of that call.  Values that
``f`` closes over are hoisted: those of an enclosing transformation become arguments of the program.

Some functions cannot be traced for abstract values: they look at values, or at the tracers of the
transformation.  These are used as they are, and counted.
"""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import jax
import jax.test_util
from jax.core import Tracer
from jax.extend import source_info_util

from jaxmlir.bridge.importer import CLOSES_OVER
from jaxmlir.errors import JaxmlirError
from jaxmlir.program.staging import from_jaxpr, name_of, wraps
from jaxmlir.runtime import program_primitive

NAMES = (
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "linearize",
    "linear_transpose",
    "jacfwd",
    "jacrev",
    "jacobian",
    "hessian",
    "vmap",
    "fwd_and_bwd",
)

# Tracebacks and source locations leave out the frames of this file.
source_info_util.register_exclusion(__file__)

# Counts of the running test: calls of programs (key ""), and functions used as they are, by reason.
_counts: collections.Counter[str] = collections.Counter()


def take_counts() -> dict[str, Any]:
    """The counts of calls of programs, and of other calls by error; resets the counts."""
    counts = dict(_counts)
    _counts.clear()
    return {"programs": counts.pop("", 0), "as_they_are": counts}


def staged(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, which calls its program if an argument is a tracer."""

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        varying = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
        if not varying:
            return fun(*args, **kwargs)
        # Arguments that are no tracers, and results that are no arrays, are not of the program.
        results: list[Any] = []

        def arrays(*values: Any) -> list[Any]:
            given = dict(zip(varying, values, strict=True))
            merged = [given.get(i, leaf) for i, leaf in enumerate(leaves)]
            args, kwargs = jax.tree.unflatten(tree, merged)
            flat, out_tree = jax.tree.flatten(fun(*args, **kwargs))
            results[:] = [out_tree, [None if _is_array(x) else (x,) for x in flat]]
            return list(filter(_is_array, flat))

        arrays.__name__ = arrays.__qualname__ = name_of(fun)
        operands = [leaves[i] for i in varying]
        try:
            traced = jax.jit(arrays).trace(*operands)
            _check_types(traced)
        except Exception as e:
            _counts[type(e).__name__] += 1
            return fun(*args, **kwargs)
        try:
            program = from_jaxpr(traced.jaxpr, arrays.__name__)
            values = iter(
                program_primitive.call(program, program.name, [*traced._consts, *operands])
            )
        except JaxmlirError as error:
            # If JAX refuses the function, its error is raised.  If JAX refuses only the staged-out
            # function (a custom rule looks at values, say), the function is used as it is.
            result = fun(*args, **kwargs)
            if CLOSES_OVER in str(error):
                _counts[CLOSES_OVER] += 1
                return result
            try:
                jax.jit(arrays)(*operands)
            except Exception as e:
                _counts[type(e).__name__] += 1
                return result
            raise
        _counts[""] += 1
        out_tree, fixed = results
        return jax.tree.unflatten(out_tree, [f[0] if f else next(values) for f in fixed])

    return call


def _check_types(traced: Any) -> None:
    """Raises a ``TypeError`` for values of high-level types, which only JAX can lower."""
    jaxpr = traced.jaxpr.jaxpr
    made = [v for eqn in jaxpr.eqns for v in eqn.outvars]
    if any(getattr(v.aval, "is_high", False) for v in (*jaxpr.constvars, *jaxpr.invars, *made)):
        raise TypeError("values of high-level types")


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tracer, jax.Array))


def of_staged(transformation: Callable[..., Any]) -> Callable[..., Any]:
    """The transformation, applied to staged functions."""

    @functools.wraps(transformation)
    def transform(*args: Any, **kwargs: Any) -> Any:
        if args and callable(args[0]):
            args = (staged(args[0]), *args[1:])
        elif callable(kwargs.get("fun")):
            kwargs["fun"] = staged(kwargs["fun"])
        result = _in_words_of_jax(transformation)(*args, **kwargs)
        return _in_words_of_jax(result) if isinstance(result, FunctionType) else result

    return transform


def _in_words_of_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but if a pass wraps an error of a JAX rule, JAX's error is raised."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except JaxmlirError as e:
            cause: BaseException | None = e
            while isinstance(cause, JaxmlirError):
                cause = cause.__cause__
            if cause is None:
                raise
            cause.add_note(str(e))
        raise cause

    return call


class _Api(ModuleType):
    """A proxy of JAX's module of transformations, which tests get in its place."""

    def __init__(self, module: ModuleType):
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(jax if name in NAMES else self._module, name)


def install() -> None:
    """Replaces JAX's transformations in the ``jax`` module by those of staged functions."""
    for name in NAMES:
        setattr(jax, name, of_staged(getattr(jax, name)))


def install_in(modules: Iterable[ModuleType]) -> None:
    """Replaces JAX's internal module of transformations in tests and in their gradient checker."""
    api, checks = (sys.modules[f.__module__] for f in (jax.jvp, jax.test_util.check_grads))
    for module in {*modules, checks}:
        for name, value in list(vars(module).items()):
            if value is api:
                setattr(module, name, _Api(api))
