"""Programs with effects and the like: callbacks, prints, references, kernels, devices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from programs._table import Program, program


@program
def debug_print() -> Program:
    """Unordered and ordered prints, in a loop and in a branch too."""

    def debug_print(x):
        jax.debug.print("start {x}", x=x)

        def step(i, x):
            jax.debug.print("step {} {}", i, x, ordered=True)
            return x * 2

        x = lax.fori_loop(0, 2, step, x)
        return lax.cond(
            x > 3, lambda x: jax.debug.print("large {}", x, ordered=True), lambda x: None, x
        )

    def printed(x):
        debug_print(x)
        return x + 1

    return printed, (np.float32(1.5),)


@program
def pure_callback() -> Program:
    """A numpy function, called directly, in a loop and batched."""

    def cumulative(x):
        return np.cumsum(x, axis=-1, dtype=x.dtype)

    def pure_callback(x):
        def call(x):
            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            return jax.pure_callback(cumulative, shape, x, vmap_method="expand_dims")

        looped = lax.fori_loop(0, 2, lambda _, x: call(x), x[0])
        return call(x[0]), jax.vmap(call)(x), looped

    return pure_callback, (np.arange(6, dtype=np.float32).reshape(2, 3),)


@program
def io_callbacks() -> Program:
    """Ordered callbacks with a state on the host, which only this program uses."""
    received = []

    def record(x):
        received.append(np.asarray(x))
        return np.float32(len(received))

    def io_callbacks(x):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        received.clear()
        first = io_callback(record, shape, x, ordered=True)
        second = io_callback(record, shape, x + first, ordered=True)
        io_callback(lambda x: None, None, x)
        # The difference does not depend on how often `record` ran before.
        return second - first + x

    return io_callbacks, (np.float32(1.0),)


@program
def debug_callback() -> Program:
    def debug_callback(x):
        jax.debug.callback(lambda x: None, x)
        return jnp.sin(x)

    return debug_callback, (np.float32(1.0),)


@program
def mutable_references() -> Program:
    """A reference that is created, read and written inside the program, also in a loop."""

    def mutable_references(x):
        ref = jax.new_ref(jnp.zeros_like(x))

        def step(i, _):
            ref[i] = x[i] ** 2
            ref[0] += x[i]

        lax.fori_loop(0, len(x), step, None)
        old = jax.ref.swap(ref, 1, jnp.float32(7.0))
        return old, ref[...], jax.freeze(ref)

    return mutable_references, (np.array([1.0, 2.0, 3.0], np.float32),)


@program
def reference_argument() -> Program:
    """A reference as an argument. A call changes it, so each call needs one from the factory."""

    def reference_argument(ref, x):
        ref[...] += x
        return ref[...].sum()

    return reference_argument, (jax.new_ref(jnp.ones(3)), np.array([1.0, 2.0, 3.0], np.float32))


@program
def pallas_kernel() -> Program:
    """A blocked product with an epilogue, interpreted, so that it runs on CPU."""

    def kernel(x_ref, y_ref, out_ref):
        out_ref[...] = jax.nn.relu(x_ref[...] @ y_ref[...]) + pl.program_id(0)

    def pallas_kernel(x, y):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
            grid=(2, 2),
            in_specs=[
                pl.BlockSpec((x.shape[0] // 2, x.shape[1]), lambda i, j: (i, 0)),
                pl.BlockSpec((y.shape[0], y.shape[1] // 2), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((x.shape[0] // 2, y.shape[1] // 2), lambda i, j: (i, j)),
            interpret=True,
        )(x, y)

    rng = np.random.RandomState(0)
    x, y = rng.standard_normal((8, 4)), rng.standard_normal((4, 8))
    return pallas_kernel, (x.astype(np.float32), y.astype(np.float32))


def mesh(**axes: int) -> jax.sharding.Mesh:
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


@program
def shard_map_psum() -> Program:
    """Means over eight devices, and a ring of neighbours."""

    def shard_map_psum(x):
        def local(x):
            mean = lax.pmean(x, "devices")
            total = lax.psum(x.sum(), "devices")
            neighbour = lax.ppermute(x, "devices", [(i, (i + 1) % 8) for i in range(8)])
            return mean, total, neighbour - lax.axis_index("devices")

        specs = P(None), P(), P("devices")
        return jax.shard_map(local, mesh=mesh(devices=8), in_specs=P("devices"), out_specs=specs)(x)

    return shard_map_psum, (np.arange(16, dtype=np.float32),)


@program
def shard_map_gradient() -> Program:
    """Data and model parallelism on a 4 x 2 mesh, differentiated."""

    def local_loss(w, x):
        hidden = lax.psum(x @ w, "model")
        return lax.pmean(jnp.mean(jnp.tanh(hidden) ** 2), "data")

    def loss(w, x):
        in_specs = P("model", None), P("data", "model")
        return jax.shard_map(
            local_loss, mesh=mesh(data=4, model=2), in_specs=in_specs, out_specs=P()
        )(w, x)

    rng = np.random.RandomState(0)
    w, x = rng.standard_normal((4, 3)), rng.standard_normal((8, 4))
    return jax.value_and_grad(loss), (w.astype(np.float32), x.astype(np.float32))


@program
def shard_map_collectives() -> Program:
    def shard_map_collectives(x):
        def local(x):
            gathered = lax.all_gather(x, "devices", tiled=True)
            scattered = lax.psum_scatter(gathered, "devices", tiled=True)
            exchanged = lax.all_to_all(gathered.reshape(8, -1), "devices", 0, 0)
            return scattered, exchanged.reshape(-1)[: len(x)], lax.pmax(x, "devices")

        specs = P("devices"), P("devices"), P()
        return jax.shard_map(local, mesh=mesh(devices=8), in_specs=P("devices"), out_specs=specs)(x)

    return shard_map_collectives, (np.arange(16, dtype=np.float32),)


@program
def sharding_constraints() -> Program:
    """A sharded computation that the compiler partitions by itself."""

    def sharding_constraints(w, x):
        grid = mesh(data=4, model=2)
        hidden = lax.with_sharding_constraint(x @ w, NamedSharding(grid, P("data", "model")))
        return lax.with_sharding_constraint(jnp.tanh(hidden), NamedSharding(grid, P()))

    rng = np.random.RandomState(0)
    w, x = rng.standard_normal((4, 6)), rng.standard_normal((8, 4))
    return sharding_constraints, (w.astype(np.float32), x.astype(np.float32))


@program
def named_batch_axis() -> Program:
    """Collectives over an axis that `vmap` names."""

    def named_batch_axis(x):
        def normalise(x):
            return x / lax.psum(x, "batch"), lax.axis_index("batch"), lax.pmax(x, "batch")

        return jax.vmap(normalise, axis_name="batch")(x)

    return named_batch_axis, (np.array([1.0, 2.0, 5.0], np.float32),)
