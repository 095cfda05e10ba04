"""Compares patterns of derivatives with the derivatives that JAX computes.

    python tools/sparsity.py [--count 2000] [--columns 40]

Of random programs, those of the tests, the whole Jacobian is computed, and the Hessian of the
results' sum of squares.  Of the benchmarks' programs, in their small size, these are rows of the
Jacobian and columns of the Hessian, in all arguments of real numbers.  An element outside of the
pattern that is other than zero is a failure, and ends the run with a status of 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from jax.flatten_util import ravel_pytree
from random_programs import forward_programs, reverse_programs, run

import jaxmlir
from benchmarks.programs import FORMULAS, NAIVE, PROGRAMS
from jaxmlir.errors import JaxmlirError
from jaxmlir.sparse.index_sets import PatternTooDense


def missed(pattern: Any, columns: Any, found: Any) -> int:
    """How many elements outside of the pattern some columns of the matrix have."""
    outside = ~pattern.to_scipy()[:, columns].toarray()
    return int(np.count_nonzero(np.asarray(found) * outside))


def check_random(count: int, kind: Any, jacobian: Callable[..., Any]) -> int:
    """How many of so many random programs have elements outside of their pattern."""
    failures, z = [], jnp.array([0.3, -0.4, 0.9, 0.2, 0.7, -0.6])

    @settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind)
    def check(steps: Any) -> None:
        def f(z: Any) -> Any:
            return ravel_pytree(run(steps, z[:3], z[3:]))[0]

        def energy(z: Any) -> Any:
            return jnp.sum(f(z) ** 2)

        everything = np.arange(z.size)
        wrong = missed(jaxmlir.trace(f)(z).jacobian_sparsity(), everything, jacobian(f)(z))
        if jacobian is jax.jacrev:
            pattern = jaxmlir.trace(energy)(z).hessian_sparsity()
            wrong += missed(pattern, everything, jax.jacrev(jax.grad(energy))(z))
        if wrong:
            failures.append(steps)
            print(f"{wrong} elements outside of the pattern of {steps}", flush=True)

    check()
    return len(failures)


def check_benchmark(function: Callable[..., Any], args: Any, columns: int) -> str:
    """What the patterns of a program's derivatives in all real arguments were found to be."""
    leaves, tree = jax.tree.flatten(args)
    real = [i for i, x in enumerate(leaves) if np.issubdtype(jnp.result_type(x), np.floating)]
    flat, unravel = ravel_pytree([leaves[i] for i in real])
    chosen = np.random.default_rng(0).permutation(flat.size)[:columns]

    def loss(x: Any) -> Any:
        given = list(leaves)
        for i, part in zip(real, unravel(x), strict=True):
            given[i] = part
        return ravel_pytree(function(*jax.tree.unflatten(tree, given)))[0]

    def total(x: Any) -> Any:
        return loss(x).sum()

    program, gradient = jaxmlir.trace(loss)(flat), jax.grad(total)
    pattern = program.jacobian_sparsity()
    found = jax.jit(jax.vmap(jax.grad(lambda x, i: loss(x)[i]), (None, 0)))
    rows = np.arange(min(columns, pattern.shape[0]))
    outside = ~pattern.to_scipy()[rows].toarray()
    wrong = np.count_nonzero(np.asarray(found(flat, rows)) * outside)
    said = f"Jacobian {pattern.nnz}/{pattern.shape[0] * pattern.shape[1]}"
    try:
        pattern = jaxmlir.trace(total)(flat).hessian_sparsity()
        product = jax.jit(lambda x, v: jax.jvp(gradient, (x,), (v,))[1])
        for j in chosen:
            column = product(flat, jnp.zeros_like(flat).at[j].set(1))
            wrong += missed(pattern, [j], column[:, None])
        said += f", Hessian {pattern.nnz}/{flat.size**2}"
    except PatternTooDense:
        said += ", Hessian dense"
    return said + (f": {wrong} ELEMENTS OUTSIDE" if wrong else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="random programs")
    parser.add_argument("--columns", type=int, default=40, help="columns of a benchmark's matrix")
    options = parser.parse_args()
    failures = 0
    for name, benchmark in (PROGRAMS | NAIVE | FORMULAS).items():
        made = benchmark.make("small") if hasattr(benchmark, "make") else benchmark()
        try:
            said = check_benchmark(*made, options.columns)
        except (TypeError, NotImplementedError, JaxmlirError) as e:
            said = f"not differentiated: {type(e).__name__}: {str(e)[:100]}"
        failures += "OUTSIDE" in said
        print(f"{name}: {said}", flush=True)
    half = options.count // 2
    failures += check_random(half, reverse_programs, jax.jacrev)
    failures += check_random(options.count - half, forward_programs, jax.jacfwd)
    print(f"{options.count} random programs; {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
