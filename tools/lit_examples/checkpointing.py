"""Examples of loops whose reverse sweep keeps a fixed number of states in memory."""

from __future__ import annotations

import jax
import numpy as np

from lit_examples._example import bound, f32, i32


def _jaxpr(function, *args):
    return jax.make_jaxpr(function)(*args)


_CONDITION = _jaxpr(lambda x: x < 100, np.float32(1))
# One step of the loop, and its cotangents of the constant and of the state.
_TIMES = _jaxpr(lambda c, x: x * c, np.float32(1), np.float32(1))
_BACK = _jaxpr(lambda c, x, y: (x * y, y * c), *[np.float32(1)] * 3)
_SCALE = _jaxpr(lambda r, x: r * x, f32(1, 1), f32(1, 1))

EXAMPLES = {
    # The states are 1, 3, 9, 27 and 81; of these 1, 27 and 81 are in memory at the end.
    "checkpointed_while": bound(
        "checkpointed_while",
        np.float32(3),
        np.float32(1),
        cond_jaxpr=_CONDITION,
        body_jaxpr=_TIMES,
        cond_nconsts=0,
        body_nconsts=1,
        checkpoints=2,
        record=True,
        hlo=("stablehlo.while",),
    ),
    # The derivative of 3**5 = c**5 x: 5 c**4 and c**5.
    "reverse_sweep": bound(
        "reverse_sweep",
        np.float32(3),
        np.float32(1),
        f32(1, 27, 81),
        i32(0, 1, 2),
        i32(0, 3, 4),
        np.int32(5),
        np.float32(1),
        cond_jaxpr=_CONDITION,
        advance_jaxpr=_TIMES,
        step_jaxpr=_BACK,
        cond_nconsts=0,
        nconsts=1,
        hlo=("stablehlo.while", "stablehlo.while", "stablehlo.while"),
    ),
    "linear_map": bound(
        "linear_map",
        f32(2, 3),
        f32(10, 100),
        call_jaxpr=_SCALE,
        transpose_jaxpr=_SCALE,
        num_res=1,
        hlo=("stablehlo.multiply",),
    ),
}
