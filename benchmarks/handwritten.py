"""``python -m benchmarks.handwritten``: generated gradients against those written by hand.

    python -m benchmarks.handwritten                  gradients after the passes of -O2
    python -m benchmarks.handwritten --level 1

The gradient of ``trace(A @ B)`` is ``(B^T, A^T)``, without a product; the derivative rules of the
matrix product and the trace give two products with the identity.  Times are wall-clock
microseconds; each gradient takes turns with the handwritten one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmlir
from benchmarks._measure import Sides, Work, side_by_side

SIZES = (30, 1024)


def trace_of_product(a: Any, b: Any) -> Any:
    return jnp.trace(a @ b)


def by_hand(a: Any, b: Any) -> Any:
    return b.T, a.T


def gradients(level: int, args: Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """Compiled gradients, by origin."""
    program = jaxmlir.trace(trace_of_product)(*args)
    ours = program.optimize(level).grad((0, 1)).optimize(level)
    return {
        "jax.grad": jax.jit(jax.grad(trace_of_product, (0, 1))).lower(*args).compile(),
        f"jaxmlir -O{level}": ours.lower().compile(),
    }


def against(
    one: Callable[..., Any], other: Callable[..., Any], args: Sequence[Any], repetitions: int
) -> Sides:
    def run(compiled: Callable[..., Any]) -> Work:
        return lambda: jax.block_until_ready(compiled(*args))

    calls = 1 if args[0].size > 100_000 else 200
    return side_by_side(lambda: (run(one), run(other)), repetitions, calls=calls)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handwritten", description=__doc__)
    parser.add_argument("--level", type=int, default=2, help="the optimization level")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="sizes of the matrices")
    parser.add_argument("--repetitions", type=int, default=9)
    options = parser.parse_args(argv)
    print(f"jax {jax.__version__}: gradient of trace(A @ B), us, medians\n")
    print("| size | gradient | generated | by hand | ratio |\n|---|---|---|---|---|")
    for size in map(int, options.sizes.split(",")):
        random = np.random.RandomState(size)
        args = [jnp.asarray(random.rand(size, size), jnp.float32) for _ in "ab"]
        hand = jax.jit(by_hand).lower(*args).compile()
        for name, gradient in gradients(options.level, args).items():
            for a, b in zip(gradient(*args), hand(*args), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)
            one, other, *_ = against(gradient, hand, args, options.repetitions)
            ratio = one.median / other.median
            print(
                f"| {size} | {name} | {one.median * 1e6:.1f} | {other.median * 1e6:.1f} "
                f"| {ratio:.2f} |"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
