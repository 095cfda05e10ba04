"""The class and the registries of benchmark programs, and helpers that the programs share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

PyTree = Any
Program = tuple[Callable[..., jax.Array], tuple[PyTree, ...]]


@dataclass(frozen=True)
class Benchmark:
    """A named program in two sizes."""

    name: str
    make: Callable[[str], Program]


PROGRAMS: dict[str, Benchmark] = {}
NAIVE: dict[str, Benchmark] = {}


def benchmark(*, naive: bool = False, **sizes: dict[str, Any]):
    """Registers `make(**size)`; `sizes` gives the keyword arguments of each scale.

    A naive program goes into NAIVE, a well-written one into PROGRAMS.
    """

    def register(make: Callable[..., Program]) -> Callable[..., Program]:
        def at_scale(scale: str) -> Program:
            if scale not in sizes:
                raise ValueError(f"no scale {scale!r} of {make.__name__}: expected {list(sizes)}")
            return make(**sizes[scale])

        (NAIVE if naive else PROGRAMS)[make.__name__] = Benchmark(make.__name__, at_scale)
        return make

    return register


def normal(rng: np.random.RandomState, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.asarray(scale * rng.standard_normal(shape), np.float32)


def dense(rng: np.random.RandomState, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    """Weights that keep the scale of their input, and a bias of zero."""
    return {
        "w": normal(rng, inputs, outputs, scale=inputs**-0.5),
        "b": np.zeros(outputs, np.float32),
    }


def affine(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ layer["w"] + layer["b"]
