"""Writes the artifacts that later versions must be able to load: test/data/artifacts.

    python tools/freeze_artifacts.py

Run it once for each supported JAX when the dialect's version changes, or a program is added, and
commit what it writes; existing files are never overwritten.  Beside each artifact, an .npz file has
the value and the gradient that JAX computed of the Python function.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import jaxmlir
from jaxmlir.dialect.ir import DIALECT_VERSION

FOLDER = Path(__file__).resolve().parent.parent / "test" / "data" / "artifacts"


@jax.custom_jvp
def softplus(x):
    return jnp.log1p(jnp.exp(x))


softplus.defjvp(lambda p, t: (softplus(*p), t[0] * (1 - jnp.exp(-softplus(*p)))))


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.5, 0.5),))


def control(params, x):
    """Loops, branches, custom rules, checkpoints, and pytrees."""

    def step(carry, row):
        carry = lax.cond(row.sum() > 0, softplus, jnp.tanh, carry + row @ params["w"][0])
        return clipped(carry), carry.mean()

    carry, means = lax.scan(jax.checkpoint(step), params["b"], x)
    return lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, carry.sum() + means.sum())


def numerics(x):
    """Primitives that only some versions of JAX have, keys, small floats, a stored constant."""
    noise = jax.random.normal(jax.random.key(3), x.shape)
    table = np.sin(np.arange(1100, dtype=np.float32)).reshape(11, 100)
    gram = x[:, None] * x[None] + 3 * jnp.eye(x.size)
    return (
        jnp.sum(jnp.log2(1 + x * x))
        + jnp.sum(jax.grad(lambda y: jnp.tanh(y).sum())(x))
        + jnp.sum(jax.scipy.special.ndtri(0.3 + 0.1 * jax.nn.sigmoid(x)))
        + jnp.linalg.slogdet(gram)[1]
        + jnp.sum(noise * x.astype("bfloat16").astype("float32"))
        + jnp.sum(jnp.sort(x) * jnp.take(table, 7, axis=0)[: x.size])
    )


def _kernel(by_ref, x_ref, out_ref):
    out_ref[...] = jnp.sin(x_ref[...]) + by_ref[0].astype(jnp.float32)


@jax.custom_vjp
def rows_of(by, x):
    """Permutes rows by a kernel; the order is a scalar-prefetch argument."""
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((2, 4), lambda i, by: (by[i], 0))],
        out_specs=pl.BlockSpec((2, 4), lambda i, by: (i, 0)),
    )
    return pl.pallas_call(_kernel, x, grid_spec=grid, interpret=True)(by, x)


rows_of.defvjp(
    lambda by, x: (rows_of(by, x), (by, x)),
    lambda saved, g: (
        np.zeros(2, jax.dtypes.float0),
        jnp.zeros_like(g).reshape(2, 2, 4).at[saved[0]].add(g.reshape(2, 2, 4)).reshape(4, 4)
        * jnp.cos(saved[1]),
    ),
)


def kernel(x):
    """A Pallas kernel with a custom rule: grids, block mappings, references in memory spaces."""
    return jnp.sum(rows_of(jnp.array([1, 0]), x) * x)


def places(x):
    """Functions over integers and bits; some versions of JAX have them as objects with rules."""
    grid = jnp.arange(4.0)
    largest = jnp.nonzero(x > 0, size=2, fill_value=0)[0]
    mantissa, exponent = jnp.frexp(1 + x * x)
    return (
        jnp.sum(jnp.interp(x, grid, jnp.sin(grid)))
        + jnp.sum(jnp.searchsorted(grid, 3 * x, side="right") * x)
        + jnp.sum(x[largest] ** 2)
        + jnp.sum(jnp.ldexp(jnp.cos(x), exponent) * mantissa)
        + jnp.sum(jnp.unique(jnp.round(x), size=3) * x)
        + jnp.sum(jnp.histogram(x, bins=2, range=(-1.0, 1.0))[0] * x[:2])
    )


def root(x):
    """The solution y of y^3 + y = x by ``lax.custom_root``, which has an implicit derivative."""

    def newton(f, y):
        return lax.fori_loop(0, 20, lambda _, y: y - f(y) / (3 * y * y + 1), y)

    def solve(g, y):
        return y / g(jnp.ones_like(y))

    y = lax.custom_root(lambda y: y**3 + y - x, x, newton, solve)
    return jnp.sum(jnp.exp(y))


PROGRAMS = {
    "control": (
        control,
        (
            {"w": [np.full((3, 2), 0.1, np.float32)], "b": np.ones(2, np.float32)},
            np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
        ),
    ),
    "numerics": (numerics, (np.array([0.3, -0.2, 0.7], np.float32),)),
    "kernel": (kernel, (np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4),)),
    "places": (places, (np.array([0.3, -0.2, 0.7], np.float32),)),
    "root": (root, (np.array([0.5, 2.0, 3.0], np.float32),)),
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (function, args) in PROGRAMS.items():
        path = FOLDER / f"{name}-dialect{DIALECT_VERSION}-jax{jax.__version__}.jaxmlir"
        if path.exists():
            print(f"{path.name} is frozen")
            continue
        # Paths of source files are of no use on another machine.
        jaxmlir.trace(function)(*args).save(path, source_info=False)
        value, gradient = jax.jit(jax.value_and_grad(function))(*args)
        np.savez(path.with_suffix(".npz"), value, *jax.tree.leaves(gradient))


if __name__ == "__main__":
    main()
