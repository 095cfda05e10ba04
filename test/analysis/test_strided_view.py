"""Strided views: numpy reads the same elements through a view as JAX's ops return."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis.strided_view import StridedView
from jaxmlir.dialect.builder import returned
from jaxmlir.dialect.ir import scope

CHAINS = {
    "slice of slice": lambda x: x[1:4:2, 1:][:, ::3],
    "reversed slice": lambda x: lax.rev(x[1:3], (0, 1)),
    "slice of reversed": lambda x: lax.rev(x, (1,))[:, 2:5:2],
    "transposed": lambda x: lax.transpose(x[:, 1:3], (2, 0, 1)),
    "split": lambda x: lax.split(x, (1, 2, 2), 1)[1],
    "slice of split": lambda x: lax.split(x[1:], (2, 3), 1)[1][:, 1:],
    "squeezed": lambda x: lax.squeeze(lax.transpose(x[:, 3:4], (1, 2, 0)), (0,)),
    "expanded": lambda x: lax.expand_dims(x[2, :, 1:], (0, 2)),
    "one element": lambda x: lax.rev(x[3:, 2:3, :1], (0,)),
}


@pytest.mark.compat
@pytest.mark.parametrize("name", CHAINS)
def test_reads_what_the_ops_give(name):
    x = np.arange(4 * 5 * 3).reshape(4, 5, 3)
    view = view_of_result(CHAINS[name], x)
    rest = [d for d in range(3) if d not in view.dims]
    sizes = [1 if d is None else view.sizes[d] for d in view.dims]
    indices = [
        start + step * np.arange(size)
        for start, step, size in zip(view.starts, view.steps, view.sizes, strict=True)
    ]
    order = [*rest, *(d for d in view.dims if d is not None)]
    read = x[np.ix_(*indices)].transpose(order).reshape(sizes)
    np.testing.assert_array_equal(read, CHAINS[name](jnp.asarray(x)))


@pytest.mark.parametrize(
    "move",
    [jnp.sin, jnp.ravel, lambda x: jnp.pad(x, 1), lambda x: jnp.broadcast_to(x, (2, *x.shape))],
)
def test_does_not_look_through_other_ops(move):
    x = np.ones((4, 5, 3), np.float32)
    assert view_of_result(move, x, argument=False).through() is None


def view_of_result(function, x, argument=True):
    """The view of the argument that a function's result amounts to."""
    program = jaxmlir.trace(function)(x)
    with scope():
        main = program._function(program.name)
        (value,) = returned(main)
        view = StridedView.whole(value)
        while (farther := view.through()) is not None:
            view = farther
        assert not argument or view.array == main.arguments[0]
        return view
