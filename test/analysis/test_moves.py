"""The numpy versions of ops that move elements do the same as JAX's ops."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmlir.analysis.moves import MOVES


@pytest.mark.parametrize(
    "config",
    [
        ((1, 2, 0), (0, 0, 3)),
        ((-1, 0, 0), (0, -2, 1)),
        ((-2, 5, 2), (3, -4, 0)),
        ((0, 0, 0), (-6, 0, 1)),
        ((-3, 1, 0), (0, 0, 0)),
    ],
)
def test_pads_as_jax_does(config):
    x = np.arange(15).reshape(3, 5)
    (padded,) = MOVES["pad"].run(x, np.int64(-1), padding_config=config)
    np.testing.assert_array_equal(padded, lax.pad(jnp.asarray(x), -1, config))


@pytest.mark.parametrize("start", [-2, 1, 9])
def test_dynamic_slices_are_moved_inside(start):
    x, at = np.arange(15).reshape(3, 5), [np.int32(1), np.int32(start)]
    (read,) = MOVES["dynamic_slice"].run(x, *at, slice_sizes=(2, 3))
    np.testing.assert_array_equal(read, lax.dynamic_slice_p.bind(x, *at, slice_sizes=(2, 3)))
    (written,) = MOVES["dynamic_update_slice"].run(x, -x[:2, :3], *at)
    np.testing.assert_array_equal(written, lax.dynamic_update_slice_p.bind(x, -x[:2, :3], *at))
