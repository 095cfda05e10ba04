"""The programs that the benchmarks measure, in plain JAX: nothing here imports jaxmlir.

Each is a `Benchmark` whose `make(scale)` returns a differentiable function and its arguments, a
tuple of pytrees of arrays. "small" runs in milliseconds and compiles quickly, for tests; "full"
runs for 5 to 500 ms on two CPU cores. Arguments are the same on every call and every machine.

There are two sets. `PROGRAMS` are well written. `NAIVE` are written as they come to mind first:
time steps unrolled by a Python loop, products multiplied from left to right, arrays filled in
place, loop-invariant values computed in the loop. Their "full" size may take a second or two in
JAX.

`FORMULAS` are a few operations each, for measuring the cost of transformations.

The derivative of a program is taken with respect to its first argument, which holds floating-point
arrays only.
"""

from benchmarks.programs import naive_algebra, naive_loops, networks, science  # noqa: F401 (registers)
from benchmarks.programs._registry import NAIVE, PROGRAMS, Benchmark, Program
from benchmarks.programs.equations import many_equations, many_loops
from benchmarks.programs.formulas import FORMULAS


def deep_transformer(layers: int) -> Program:
    """The unrolled transformer of the plain set, with another number of layers."""
    return networks.transformer_unrolled(**networks.TRANSFORMER_SIZES["full"] | {"layers": layers})


def deep_stencil(steps: int) -> Program:
    """The unrolled diffusion of the naive set on a smaller grid, with another number of steps."""
    return naive_loops.stencil_unrolled(size=256, steps=steps)


__all__ = [
    "FORMULAS",
    "NAIVE",
    "PROGRAMS",
    "Benchmark",
    "Program",
    "deep_stencil",
    "deep_transformer",
    "many_equations",
    "many_loops",
]
