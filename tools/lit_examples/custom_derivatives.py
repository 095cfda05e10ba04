"""Examples of functions with derivative rules of their own."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax
from jax.custom_derivatives import linear_call

from lit_examples._example import Example, example, f32

X = f32(1, 2)


@jax.custom_jvp
def doubled_jvp(x: Any) -> Any:
    return 2 * x


@doubled_jvp.defjvp
def _tripled_tangent(primals: Any, tangents: Any) -> Any:
    return 2 * primals[0], 3 * tangents[0]


@jax.custom_vjp
def doubled_vjp(x: Any) -> Any:
    return 2 * x


doubled_vjp.defvjp(lambda x: (2 * x, x), lambda x, ct: (ct * x,))


def _linear_part(x: Any, t: Any) -> Any:
    return jax.linearize(doubled_vjp, x)[1](t)


def _recomputed() -> Example:
    f = jax.custom_vjp(lambda x: lax.sin(x))
    f.defvjp(lambda x: (lax.sin(x), lax.cos(x)), lambda c, ct: (ct * c,), optimize_remat=True)
    return example(lambda x: jax.linearize(f, x)[0], X)


EXAMPLES = {
    "custom_jvp_call_jaxpr": example(lambda x: doubled_jvp(x), X),
    "custom_vjp_call_jaxpr": example(lambda x: doubled_vjp(x), X),
    "custom_lin": example(
        _linear_part,
        X,
        f32(1, 1),
        lowers="Nobody knows the linear map itself, only its transpose: it cannot be lowered.",
    ),
    "linear_call": example(
        lambda r, x: linear_call(lambda r, x: r * x, lambda r, ct: r * ct, r, x),
        f32(2, 3),
        X,
    ),
    "remat_opt": _recomputed(),
}
