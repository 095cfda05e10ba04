"""Examples of creating, reshaping, joining and converting arrays."""

from __future__ import annotations

import numpy as np
from jax import lax

from lit_examples._example import bound, example, f32

MATRIX = f32([1, 2, 3], [4, 5, 6])

EXAMPLES = {
    "constant": example(lambda x: x + np.array([0.1, -0.0, 3], np.float32), f32(1, 2, 3)),
    "iota": example(lambda: lax.broadcasted_iota(np.int32, (2, 3), 1)),
    "iota_2x32_shape": bound("iota_2x32_shape", shape=(2, 2)),
    "empty": example(lambda: lax.empty((2,), np.float32), numbers="The elements are not defined."),
    "broadcast_in_dim": example(lambda x: lax.broadcast_in_dim(x, (2, 3), (0,)), f32(1, 2)),
    "reshape": example(lambda x: lax.reshape(x, (3, 2)), MATRIX),
    "squeeze": example(lambda x: lax.squeeze(x, (0,)), f32([1, 2, 3])),
    "transpose": example(lambda x: lax.transpose(x, (1, 0)), MATRIX),
    "rev": example(lambda x: lax.rev(x, (1,)), MATRIX),
    "tile": bound("tile", f32(1, 2), reps=(2,)),
    "copy": bound("copy", f32(1, 2)),
    "concatenate": example(lambda x, y: lax.concatenate([x, y], 0), f32(1, 2), f32(3)),
    "stack": bound("stack", f32(1, 2), f32(3, 4), axis=0),
    "unstack": bound("unstack", f32([1, 2], [3, 4]), axis=0),
    "split": example(lambda x: lax.split(x, (1, 2)), f32(1, 2, 3)),
    "pad": example(lambda x, v: lax.pad(x, v, [(1, 0, 1)]), f32(1, 2), np.float32(9)),
    "convert_element_type": example(
        lambda x: lax.convert_element_type(x, np.int32), f32(1.5, -2.5)
    ),
    "bitcast_convert_type": example(lambda x: lax.bitcast_convert_type(x, np.int32), f32(1, -0.0)),
    "dimension_size": bound("dimension_size", f32([1, 2]), dimension=1),
}

SYMBOLIC = "It stands for a symbolic dimension, which no array given on a command line has."
EXTENDED = "It converts from and to a user's own extended dtypes."
WITHOUT = {
    "zeros_like": "No function of JAX makes it any more.",
    "dim_as_value": SYMBOLIC,
    "shape_assertion": SYMBOLIC,
    "to_edtype": EXTENDED,
    "from_edtype": EXTENDED,
    "empty2": "JAX makes it in scans of accumulators only, and removes it again.",
}
