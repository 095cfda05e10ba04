"""Pairs of transformed functions, JAX's and ours, that conformance compares.

``jvp``, ``vjp`` and ``vmap`` take a function, the program imported from it, and arguments.  Each
yields pairs of functions with their arguments: JAX transforms the function, our passes transform
the program.  Pairs call programs by ``_call``, because a call like that of a ``jax.jit`` function
would become a function of its own in the lowered text; so the two texts can be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmlir
from jaxmlir._compat import core

BATCH = 2


@dataclass(frozen=True)
class Pair:
    """Two functions that should do the same with ``args``."""

    name: str
    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    args: Sequence[Any]


def jvp(function: Any, program: jaxmlir.Program, args: Sequence[Any]) -> Iterator[Pair]:
    """Values and tangents, for random tangents of all arguments that have one."""
    tangents, with_zeros = random_tangents(tuple(args), 1)

    def theirs(args: Any, tangents: Any) -> Any:
        return jax.jvp(function, args, with_zeros(tangents))

    def ours(args: Any, tangents: Any) -> Any:
        return program.jvp()._call(args, with_zeros(tangents))

    yield Pair("jvp", theirs, ours, (tuple(args), tangents))


def vjp(function: Any, program: jaxmlir.Program, args: Sequence[Any]) -> Iterator[Pair]:
    """Values and cotangents, for random cotangents of all results that have one."""
    results = jax.eval_shape(function, *args)
    cotangents, with_zeros = random_tangents(results, 2)

    def theirs(args: Any, cotangents: Any) -> Any:
        out, pullback = jax.vjp(function, *args)
        return out, pullback(with_zeros(cotangents))

    def ours(args: Any, cotangents: Any) -> Any:
        forward, backward = program.vjp()
        out, residuals = forward._call(*args)
        return out, backward._call(residuals, with_zeros(cotangents))

    yield Pair("vjp", theirs, ours, (tuple(args), cotangents))


def vmap(function: Any, program: jaxmlir.Program, args: Sequence[Any]) -> Iterator[Pair]:
    """Batches over all arguments and over each alone, along the first and along the last axis."""
    n = len(args)
    every = [tuple(range(n))] + [(i,) for i in range(n) if n > 1]
    for batched in every:
        for place in ("first", "last"):
            axes = [
                (0 if place == "first" else np.ndim(arg)) if i in batched else None
                for i, arg in enumerate(args)
            ]
            yield _vmap_pair(function, program, args, axes)


def _vmap_pair(
    function: Any, program: jaxmlir.Program, args: Sequence[Any], axes: Sequence[int | None]
) -> Pair:
    def theirs(*args: Any) -> Any:
        return jax.vmap(function, tuple(axes), axis_size=BATCH)(*args)

    def ours(*args: Any) -> Any:
        return program.vmap(tuple(axes), axis_size=BATCH)._call(*args)

    batched = [
        arg if axis is None else jnp.stack([jnp.asarray(x) for x in _batch(arg)], axis)
        for arg, axis in zip(args, axes, strict=True)
    ]
    return Pair(f"vmap over {axes}", theirs, ours, batched)


def _batch(value: Any) -> list[Any]:
    """Several values like this one: of a float array multiples, which stay in most domains
    (positive, sorted, symmetric); of any other value copies."""
    if not jnp.issubdtype(core.typeof(value).dtype, jnp.inexact):
        return [value] * BATCH
    return [value, *(value * np.asarray(0.5**i, value.dtype) for i in range(1, BATCH))]


def random_tangents(values: Any, seed: int) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Random tangents of the leaves that have one, and a function that inserts float0 zeros for
    the others."""
    leaves, tree = jax.tree.flatten(values)
    random = np.random.RandomState(seed)
    avals = [_tangent_aval(leaf) for leaf in leaves]
    given = [_random(random, aval) for aval in avals if aval.dtype != jax.dtypes.float0]

    def with_zeros(tangents: list[Any]) -> Any:
        it = iter(tangents)
        return jax.tree.unflatten(
            tree,
            [
                np.zeros(aval.shape, aval.dtype) if aval.dtype == jax.dtypes.float0 else next(it)
                for aval in avals
            ],
        )

    return given, with_zeros


def _tangent_aval(value: Any) -> Any:
    if isinstance(value, jax.ShapeDtypeStruct):
        return core.ShapedArray(value.shape, value.dtype).to_tangent_aval()
    return core.typeof(value).to_tangent_aval()


def _random(random: np.random.RandomState, aval: Any) -> Any:
    value = random.normal(size=aval.shape)
    if jnp.issubdtype(aval.dtype, jnp.complexfloating):
        value = value + 1j * random.normal(size=aval.shape)
    return jnp.asarray(np.asarray(value).astype(aval.dtype))
