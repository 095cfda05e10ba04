"""Checks sparsity patterns of Jacobians and Hessians against the derivatives that JAX computes.

    python tools/sparsity.py [--count 2000] [--columns 40] [--start 0] [--seed 0]

For the random programs of the tests, JAX computes the whole Jacobian, and the Hessian of the sum of
the squared results.  For the benchmark programs, in their small size, it computes some rows of the
Jacobian and some columns of the Hessian, with respect to all arguments of real numbers.  A nonzero
element outside of the pattern is a failure: the exit status is 1.  ``--start`` continues an
interrupted run.

Run it with the newest supported JAX.  JAX 0.10 computes some second derivatives through the reverse
of a scan wrongly: if the rule of a custom JVP calls a custom JVP function, it loses the latter's
rule.  Two forward derivatives, the unrolled loop, and JAX 0.12 all agree with the pattern.  Random
programs are compared with forward derivatives, except that a custom VJP has none.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from jax.flatten_util import ravel_pytree
from random_programs import forward_programs, reverse_programs, run
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import jaxmlir
from benchmarks.programs import FORMULAS, NAIVE, PROGRAMS
from jaxmlir.errors import JaxmlirError, TransformError
from jaxmlir.sparse.index_sets import PatternTooDense


def missed(pattern: Any, columns: Any, found: Any) -> int:
    """How many nonzero elements outside of the pattern some columns of the matrix have."""
    outside = ~pattern.to_scipy()[:, columns].toarray()
    return int(np.count_nonzero(np.asarray(found) * outside))


def drawn(count: int, kind: Any, random: int) -> list[Any]:
    """Draws ``count`` random programs, the same ones in every run with this seed."""
    programs = []

    @seed(random)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind)
    def draw(steps: Any) -> None:
        programs.append(steps)

    draw()
    return programs


def reference(f: Callable[..., Any], z: Any, order: int) -> Any:
    """The Jacobian (order 1) or the Hessian (2) by JAX: in forward mode, or in reverse mode if
    forward mode has no rule.

    It is computed op by op: the ops of all programs are few and are compiled once.
    """
    forward = reverse = f
    for _ in range(order):
        forward, reverse = jax.jacfwd(forward), jax.jacrev(reverse)
    with jax.disable_jit():
        try:
            return forward(z)
        except TypeError:
            return reverse(z)


def check_random(steps: Any, *, twice: bool) -> str:
    """Says what is wrong with the patterns of a random program; empty if nothing is.

    Args:
      twice: check the Hessian, too; the program must have a derivative in reverse mode.
    """
    z = jnp.array([0.3, -0.4, 0.9, 0.2, 0.7, -0.6])

    def f(z: Any) -> Any:
        return ravel_pytree(run(steps, z[:3], z[3:]))[0]

    def energy(z: Any) -> Any:
        return jnp.sum(f(z) ** 2)

    everything = np.arange(z.size)
    try:
        wrong = missed(jaxmlir.trace(f)(z).jacobian_sparsity(), everything, reference(f, z, 1))
        if twice:
            pattern = jaxmlir.trace(energy)(z).hessian_sparsity()
            wrong += missed(pattern, everything, reference(energy, z, 2))
    except (NotImplementedError, TypeError, ValueError, TransformError) as e:
        return f"random program {steps}: {_UNKNOWN}: {e}"
    return f"random program {steps}: {wrong} {_OUTSIDE}" if wrong else ""


def check_benchmark(function: Callable[..., Any], args: Any, columns: int) -> str:
    """Checks the patterns of a program's derivatives in all real arguments; returns a report."""
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
    return said + (f": {wrong} {_OUTSIDE}" if wrong else "")


def check_named(name: str, columns: int) -> str:
    """Checks the patterns of a benchmark program; returns a report."""
    benchmark = (PROGRAMS | NAIVE | FORMULAS)[name]
    made = benchmark.make("small") if hasattr(benchmark, "make") else benchmark()
    try:
        return f"{name}: {check_benchmark(*made, columns)}"
    except (TypeError, NotImplementedError, JaxmlirError) as e:
        return f"{name}: {_UNKNOWN}: {type(e).__name__}: {str(e)[:100]}"


_OUTSIDE = "ELEMENTS OUTSIDE"
_UNKNOWN = "not differentiated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="how many random programs")
    parser.add_argument(
        "--columns", type=int, default=40, help="rows or columns of a benchmark's matrix"
    )
    parser.add_argument("--start", type=int, default=0, help="skip so many programs")
    parser.add_argument("--seed", type=int, default=0, help="which random programs")
    options = parser.parse_args()
    half = options.count // 2
    twice = drawn(half, reverse_programs, options.seed)
    once = drawn(options.count - half, forward_programs, options.seed)
    checks = [
        *(functools.partial(check_named, x, options.columns) for x in PROGRAMS | NAIVE | FORMULAS),
        *(functools.partial(check_random, x, twice=True) for x in twice),
        *(functools.partial(check_random, x, twice=False) for x in once),
    ]
    console, done, failures, unknown = Console(soft_wrap=True), options.start, 0, 0
    columns = (TextColumn("programs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(checks), completed=done)
        try:
            for check in checks[options.start :]:
                if said := check():
                    console.print(said, markup=False, highlight=False)
                failures += _OUTSIDE in said
                unknown += _UNKNOWN in said
                done += 1
                progress.update(task, completed=done)
        except KeyboardInterrupt:
            console.print(f"interrupted: --start {done} goes on from here")
    checked = f"{done - options.start} of {len(checks)} programs checked"
    console.print(f"{checked}; {failures} failures, {unknown} not differentiated")
    sys.exit(failures > 0 or done < len(checks))


if __name__ == "__main__":
    main()
