"""Programs called inside ``jax.shard_map`` vary over the axes that their arguments vary over."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxmlir

pytestmark = pytest.mark.compat

W = np.float32(0.7)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]], np.float32)


def layer(w, x):
    """A result that does not depend on ``x``, one that does, and one that depends on nothing."""
    return 2 * w, jnp.sum(jnp.sin(w * x)), jnp.float32(3)


SHARED = P()


def over_rows(local, out_specs=SHARED):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(local, mesh=mesh, in_specs=(P(), P("i")), out_specs=out_specs)


def mean(layer):
    def local(w, x):
        double, total, three = layer(w, x[0])
        return double * lax.pmean(total, "i") + three

    return over_rows(local)


def gradients_within(layer):
    """The gradient in what all devices share is their sum."""

    def product(w, x):
        double, total, three = layer(w, x)
        return double * total * three

    def loop(w, x):
        def body(carry, y):
            return jnp.sin(carry) + layer(w, x * y)[1], carry

        start = lax.pcast(0.0, "i", to="varying")
        return lax.scan(jax.checkpoint(body), start, jnp.arange(3.0))[0]

    def local(w, x):
        batch = jax.vmap(jax.grad(product), (0, None))(jnp.stack([w, -w]), x[0])
        derivatives = [jax.grad(f)(w, x[0]) for f in (product, jax.checkpoint(product), loop)]
        return *derivatives, lax.pmean(batch, "i")

    return over_rows(local, (P(), P(), P(), P()))


@pytest.mark.parametrize("transformed", [
    lambda layer: jax.value_and_grad(mean(layer), (0, 1)),
    lambda layer: jax.hessian(mean(layer)),
    lambda layer: lambda w, x: jax.jvp(mean(layer), (w, x), (w, x)),
    lambda layer: jax.grad(jax.checkpoint(mean(layer))),
    gradients_within,
], ids=["reverse", "second", "forward", "checkpoint", "within"])  # fmt: skip
def test_derivatives_are_those_of_the_function(transformed):
    program = jaxmlir.trace(layer)(W, ROWS[0])
    close(jax.jit(transformed(program))(W, ROWS), jax.jit(transformed(layer))(W, ROWS))


def test_a_result_that_varies_is_not_the_same_on_all_devices():
    program = jaxmlir.trace(layer)(W, ROWS[0])
    doubles, _ = over_rows(lambda w, x: program(w, x[0])[::2], (P(), P()))(W, ROWS)
    close(doubles, 2 * W)
    with pytest.raises(ValueError, match="out_specs"):
        over_rows(lambda w, x: program(w, x[0])[1])(W, ROWS)
