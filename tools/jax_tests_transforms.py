"""The derivatives and batches of JAX's own tests by the passes: ``jax_tests.py --transforms``.

``jax.grad(f)`` and its like stay JAX's, of a function that calls a program in place of ``f``.  The
rules of that call are the passes.  What ``f`` closes over is hoisted: values of an enclosing
transformation are arguments of the program.

A function that cannot be staged out for abstract values (it looks at them, or at what only the
transformation itself has) is used as it is, and counted.
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

# What goes wrong in a function did not go wrong here.
source_info_util.register_exclusion(__file__)

# Of the test that is running: how often a program was called, and why a function was used as it is.
_counts: collections.Counter[str] = collections.Counter()


def take_counts() -> dict[str, Any]:
    """How many calls were programs, and for what errors how many were not; counts from 0 again."""
    counts = dict(_counts)
    _counts.clear()
    return {"programs": counts.pop("", 0), "as_they_are": counts}


def staged(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, by a call of its program wherever an argument is being transformed."""

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        varying = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
        if not varying:
            return fun(*args, **kwargs)
        # What is no array, of arguments and results, is the function's own affair.
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
            # What JAX refuses is refused in JAX's words, and what it refuses once it is staged out
            # is not for a program either: a custom rule, say, that looks at values.
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
    """Raises a ``TypeError`` for values of types that only JAX can take apart."""
    jaxpr = traced.jaxpr.jaxpr
    made = [v for eqn in jaxpr.eqns for v in eqn.outvars]
    if any(getattr(v.aval, "is_high", False) for v in (*jaxpr.constvars, *jaxpr.invars, *made)):
        raise TypeError("values of high-level types")


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tracer, jax.Array))


def of_staged(transformation: Callable[..., Any]) -> Callable[..., Any]:
    """The transformation, of staged functions."""

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
    """The function, which raises what a rule of JAX did where a pass only says of which op."""

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
    """JAX's module of transformations, as the tests see it."""

    def __init__(self, module: ModuleType):
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(jax if name in NAMES else self._module, name)


def install() -> None:
    """Replaces JAX's transformations by those of staged functions, where users import them from."""
    for name in NAMES:
        setattr(jax, name, of_staged(getattr(jax, name)))


def install_in(modules: Iterable[ModuleType]) -> None:
    """And where tests, and what checks derivatives for them, have JAX's own module of them."""
    api, checks = (sys.modules[f.__module__] for f in (jax.jvp, jax.test_util.check_grads))
    for module in {*modules, checks}:
        for name, value in list(vars(module).items()):
            if value is api:
                setattr(module, name, _Api(api))
