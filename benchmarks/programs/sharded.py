"""Programs over a mesh of devices: seven common ways to distribute the work.

Each takes devices. It returns a mesh of them, a loss of parameters and a batch, both as NumPy
arrays, and their shardings. They are small: only the communication of the devices is measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


class Sharded(NamedTuple):
    """A program over a mesh.

    Attributes:
      loss: a function of the arguments, differentiated with respect to the first one.
      arguments: NumPy arrays.
      specs: a ``PartitionSpec`` for each array of the arguments.
    """

    mesh: Mesh
    loss: Callable[..., Any]
    arguments: tuple[Any, ...]
    specs: tuple[Any, ...]

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """The context to trace and call the program in: types may name axes of an explicit mesh."""
        is_explicit = AxisType.Explicit in self.mesh.axis_types
        return jax.set_mesh(self.mesh) if is_explicit else contextlib.nullcontext()

    @property
    def shardings(self) -> Any:
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), self.specs)

    def placed(self) -> Any:
        """The arguments, placed on their devices."""
        return jax.tree.map(jax.device_put, self.arguments, self.shardings)


SHARDED: dict[str, Callable[[Sequence[Any]], Sharded]] = {}


def _register(function: Callable[[Sequence[Any]], Sharded]) -> Callable[[Sequence[Any]], Sharded]:
    SHARDED[function.__name__] = function
    return function


def _mesh(devices: Sequence[Any], *names: str, axis_type: AxisType = AxisType.Auto) -> Mesh:
    """A mesh with one axis, or with two, of which the second has two devices."""
    shape = (-1,) if len(names) == 1 else (len(devices) // 2, 2)
    return Mesh(np.array(devices).reshape(shape), names, axis_types=(axis_type,) * len(names))


def _normal(seed: int, *shape: int) -> np.ndarray:
    scale = shape[-2] ** -0.5 if len(shape) > 1 else 1.0
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _perceptron(params: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ params["in"] + params["bias"]) @ params["out"]


_PERCEPTRON = {"in": _normal(0, 64, 128), "bias": _normal(1, 128), "out": _normal(2, 128, 64)}
_BATCH = _normal(3, 512, 64)


@_register
def data_parallel(devices: Sequence[Any]) -> Sharded:
    """The batch is sharded, the parameters are on each device."""

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean((_perceptron(params, x) - x) ** 2)

    replicated = dict.fromkeys(_PERCEPTRON, P())
    return Sharded(_mesh(devices, "data"), loss, (_PERCEPTRON, _BATCH), (replicated, P("data")))


@_register
def tensor_parallel(devices: Sequence[Any]) -> Sharded:
    """The hidden units are sharded, the batch is on each device."""

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean((_perceptron(params, x) - x) ** 2)

    specs = {"in": P(None, "model"), "bias": P("model"), "out": P("model")}
    return Sharded(_mesh(devices, "model"), loss, (_PERCEPTRON, _BATCH), (specs, P()))


@_register
def fully_sharded(devices: Sequence[Any]) -> Sharded:
    """The batch and the parameters are sharded; a scan over the layers gathers each one in turn."""
    mesh = _mesh(devices, "data")
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def loss(layers: Any, x: Any) -> Any:
        def step(x: Any, layer: Any) -> tuple[Any, None]:
            layer = lax.with_sharding_constraint(layer, whole)
            return lax.with_sharding_constraint(x + jnp.tanh(x @ layer), rows), None

        return jnp.mean(lax.scan(step, x, layers)[0] ** 2)

    return Sharded(mesh, loss, (_normal(0, 6, 64, 64), _BATCH), (P(None, "data"), P("data")))


@_register
def pipeline(devices: Sequence[Any]) -> Sharded:
    """Each device has a layer; parts of the batch pass from one device to the next."""
    mesh, stages = _mesh(devices, "stage"), len(devices)
    forward = [(i, (i + 1) % stages) for i in range(stages)]

    def loss(layers: Any, parts: Any) -> Any:
        @jax.shard_map(mesh=mesh, in_specs=(P("stage"), P()), out_specs=P())
        def run(layer: Any, parts: Any) -> Any:
            stage = lax.axis_index("stage")
            count = parts.shape[0]

            def turn(carry: Any, t: Any) -> tuple[Any, Any]:
                fresh = parts[jnp.minimum(t, count - 1)]
                x = jnp.where(stage == 0, fresh, carry)
                y = jnp.tanh(x @ layer[0])
                return lax.ppermute(y, "stage", forward), y

            start = lax.pcast(jnp.zeros_like(parts[0]), "stage", to="varying")
            _, results = lax.scan(turn, start, jnp.arange(count + stages - 1))
            last = jnp.where(stage == stages - 1, jnp.sum(results[stages - 1 :] ** 2), 0.0)
            return lax.psum(last, "stage")

        return run(layers, parts)

    arguments = (_normal(0, stages, 32, 32), _normal(1, 8, 16, 32))
    return Sharded(mesh, loss, arguments, (P("stage"), P()))


@_register
def explicit(devices: Sequence[Any]) -> Sharded:
    """Arrays have their shardings in their types (an explicit mesh)."""
    mesh = _mesh(devices, "data", "model", axis_type=AxisType.Explicit)

    def loss(params: Any, x: Any) -> Any:
        hidden = jax.nn.gelu(jnp.einsum("bi,ih->bh", x, params["in"]) + params["bias"])
        out = jnp.einsum("bh,ho->bo", hidden, params["out"], out_sharding=P("data", None))
        return jnp.mean((out - x) ** 2)

    specs = {"in": P(None, "model"), "bias": P("model"), "out": P("model", None)}
    return Sharded(mesh, loss, (_PERCEPTRON, _BATCH), (specs, P("data", None)))


@_register
def every_collective(devices: Sequence[Any]) -> Sharded:
    """A ``shard_map`` that uses all kinds of collectives."""
    mesh, count = _mesh(devices, "i"), len(devices)

    def loss(w: Any, x: Any) -> Any:
        @jax.shard_map(mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P())
        def run(w: Any, x: Any) -> Any:
            rows = lax.all_gather(x, "i", tiled=True)
            columns = jnp.tanh(rows @ w)
            part = lax.all_to_all(columns, "i", split_axis=0, concat_axis=1, tiled=True)
            scaled = part / lax.psum(jnp.sum(part**2), "i")
            shifted = lax.ppermute(scaled, "i", [(i, (i + 1) % count) for i in range(count)])
            peak = lax.pmax(lax.stop_gradient(jnp.max(part)), "i")
            summed = lax.psum_scatter(rows @ jnp.ones_like(w), "i", tiled=True)
            weight = 1.0 + lax.axis_index("i").astype(x.dtype)
            values = jnp.sum(jnp.sin(shifted) * weight) + jnp.mean(summed) * jnp.mean(w) + peak
            return lax.pmean(values, "i")

        return run(w, x)

    arguments = (_normal(0, 32, 8 * count), _normal(1, 8 * count, 32))
    return Sharded(mesh, loss, arguments, (P(None, "i"), P("i")))


@_register
def attention(devices: Sequence[Any]) -> Sharded:
    """The batch is sharded over one axis of the mesh, the heads over the other."""
    mesh = _mesh(devices, "data", "model")
    heads = NamedSharding(mesh, P("data", None, "model"))

    def loss(params: Any, x: Any) -> Any:
        q, k, v = (
            lax.with_sharding_constraint(jnp.einsum("bti,ihd->bthd", x, w), heads)
            for w in params["qkv"]
        )
        scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
        mixed = jnp.einsum("bhts,bshd->bthd", scores, v)
        return jnp.mean((x + jnp.einsum("bthd,hdi->bti", mixed, params["out"])) ** 2)

    qkv = [_normal(seed, 32, 4, 8) for seed in range(3)]
    specs = {"qkv": [P(None, "model")] * 3, "out": P("model")}
    arguments = ({"qkv": qkv, "out": _normal(4, 4, 8, 32)}, _normal(5, 16, 16, 32))
    return Sharded(mesh, loss, arguments, (specs, P("data")))
