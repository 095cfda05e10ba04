"""Examples of collectives, on a mesh of two devices with two numbers each."""

from __future__ import annotations

from typing import Any

from jax import lax
from jax.sharding import PartitionSpec as P

from lit_examples._example import Example, bind, example, f32
from lit_examples.sharding import BY_ROWS, on_each

X = f32(1, 2, 3, 4)
SWAPPED = ((0, 1), (1, 0))


def _each(function: Any, *, out: Any = BY_ROWS, check_vma: bool = False, **options: Any) -> Example:
    """Applies ``function`` to the two numbers of each device."""
    return example(lambda x: on_each(function, out, check_vma=check_vma)(x), X, **options)


GPU = "JAX lowers it for GPUs only."

EXAMPLES = {
    "axis_index": _each(lambda x: x * lax.axis_index("i").astype(x.dtype)),
    "psum": _each(lambda x: lax.psum(x, "i"), out=P()),
    "pmax": _each(lambda x: lax.pmax(x, "i"), out=P()),
    "pmin": _each(lambda x: lax.pmin(x, "i"), out=P()),
    "psum_invariant": _each(lambda x: lax.psum(x, "i"), out=P(), check_vma=True),
    "reduce_scatter": _each(lambda x: lax.psum_scatter(x, "i", tiled=True)),
    "all_gather": _each(lambda x: lax.all_gather(x, "i", tiled=True) * 10),
    "all_gather_invariant": _each(
        lambda x: bind(
            "all_gather_invariant",
            x,
            all_gather_dimension=0,
            axis_name=("i",),
            axis_size=2,
            tiled=True,
        ),
        out=P(),
        check_vma=True,
    ),
    "all_to_all": _each(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True)),
    "ppermute": _each(lambda x: lax.ppermute(x, "i", SWAPPED)),
    "pbroadcast": _each(lambda x: lax.pbroadcast(x, "i", 1), lowers=GPU),
    "pvary": _each(lambda x: x + lax.pcast(lax.psum(x, "i"), "i", to="varying"), check_vma=True),
}

EXPLICIT = "It needs types with unreduced or reduced axes, which only JAX's own tests make so far."
ASYNC = "JAX makes it for the asynchronous collectives of GPU and TPU programs only."
WITHOUT = {
    **dict.fromkeys(
        (
            "unreduced_psum",
            "unreduced_pmax",
            "unreduced_pmin",
            "unreduced_reduce_scatter",
            "all_gather_reduced",
            "preduced",
            "reduced_vary_cast",
            "vary_unreduced_cast",
        ),
        EXPLICIT,
    ),
    **dict.fromkeys(
        (
            "all_gather_start",
            "all_gather_reduced_start",
            "all_gather_done",
            "all_to_all_start",
            "all_to_all_done",
            "pbroadcast_start",
            "pbroadcast_done",
            "ppermute_start",
            "ppermute_done",
            "psum_start",
            "psum_invariant_start",
            "unreduced_psum_start",
            "psum_done",
            "reduce_scatter_start",
            "unreduced_reduce_scatter_start",
            "reduce_scatter_done",
        ),
        ASYNC,
    ),
    "ragged_all_to_all": GPU,
    "pbroadcast_dynamic": GPU,
    "psend": GPU,
    "precv": GPU,
}
