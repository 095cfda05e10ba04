"""Examples of callbacks, foreign functions, tokens and order."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental import io_callback

from lit_examples._example import bound, example, f32

X = f32(1, 2)


def negative(x: Any) -> Any:
    return -x


def _printed(x: Any) -> Any:
    jax.debug.print("x = {x}", x=x)
    return x + 1


def _noted(x: Any) -> Any:
    jax.debug.callback(negative, x)
    return x + 1


def _foreign(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("my_function", shape)(x, scale=np.int64(2))


def _sunk(x: Any) -> Any:
    lax.dce_sink(x)
    return x + 1


EXAMPLES = {
    "pure_callback": example(lambda x: jax.pure_callback(negative, x, x), X),
    "io_callback": example(lambda x: io_callback(negative, x, x, ordered=True), X),
    "debug_callback": example(_noted, X),
    "debug_print": example(_printed, X),
    "ffi_call": example(_foreign, X, numbers="Nobody has registered a function of that name."),
    "create_token": example(lambda x: (lax.create_token(x), x)[1], X),
    "after_all": example(lambda x: (lax.after_all(lax.create_token(x)), x)[1], X),
    "optimization_barrier": example(lax.optimization_barrier, X),
    "dce_sink": example(_sunk, X),
    "tie": bound("tie", X, f32(3, 4)),
}

WITHOUT = {
    "buffer_callback": "JAX runs it on GPUs only.",
    "check": "`checkify` collects it before a program is lowered.",
    "stop_gradient": "No function of JAX makes it: `lax.stop_gradient` has a rule of its own.",
}
