"""The programs that the benchmarks measure, in plain JAX: nothing here imports jaxmlir.

Each is a `Benchmark` whose `make(scale)` returns a differentiable function and its arguments, a
tuple of pytrees of arrays. "small" runs in milliseconds and compiles quickly, for tests; "full"
runs for 5 to 500 ms on two CPU cores. Arguments are the same on every call and every machine.

The derivative of a program is taken with respect to its first argument, which holds floating-point
arrays only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint

PyTree = Any
Program = tuple[Callable[..., jax.Array], tuple[PyTree, ...]]


@dataclass(frozen=True)
class Benchmark:
    """A named program in two sizes."""

    name: str
    make: Callable[[str], Program]


PROGRAMS: dict[str, Benchmark] = {}


def benchmark(**sizes: dict[str, Any]):
    """Puts `make(**size)` into PROGRAMS; `sizes` gives the keyword arguments of each scale."""

    def register(make: Callable[..., Program]) -> Callable[..., Program]:
        def at_scale(scale: str) -> Program:
            if scale not in sizes:
                raise ValueError(f"no scale {scale!r} of {make.__name__}: expected {list(sizes)}")
            return make(**sizes[scale])

        PROGRAMS[make.__name__] = Benchmark(make.__name__, at_scale)
        return make

    return register


def normal(rng: np.random.RandomState, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.asarray(scale * rng.standard_normal(shape), np.float32)


def dense(rng: np.random.RandomState, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    """Weights that keep the scale of what they are applied to, and a bias of zero."""
    return {
        "w": normal(rng, inputs, outputs, scale=inputs**-0.5),
        "b": np.zeros(outputs, np.float32),
    }


def affine(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ layer["w"] + layer["b"]


@benchmark(
    small={"batch": 8, "width": 16, "depth": 3}, full={"batch": 512, "width": 512, "depth": 8}
)
def mlp(batch: int, width: int, depth: int) -> Program:
    """Mean squared error of a multi-layer perceptron with tanh."""
    rng = np.random.RandomState(0)
    layers = [dense(rng, width, width) for _ in range(depth)]

    def mlp(layers, x, y):
        for layer in layers[:-1]:
            x = jnp.tanh(affine(layer, x))
        return jnp.mean((affine(layers[-1], x) - y) ** 2)

    return mlp, (layers, normal(rng, batch, width), normal(rng, batch, width))


def transformer_layer(rng: np.random.RandomState, width: int) -> dict[str, PyTree]:
    return {
        "qkv": dense(rng, width, 3 * width),
        "out": dense(rng, width, width),
        "up": dense(rng, width, 4 * width),
        "down": dense(rng, 4 * width, width),
        "scale1": np.ones(width, np.float32),
        "scale2": np.ones(width, np.float32),
    }


def layer_norm(scale: jax.Array, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return scale * centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def transformer_block(layer: dict[str, PyTree], x: jax.Array, heads: int) -> jax.Array:
    """Pre-norm causal self-attention and a GELU feed-forward part; x is [batch, time, width]."""
    batch, time, width = x.shape
    qkv = affine(layer["qkv"], layer_norm(layer["scale1"], x))
    q, k, v = jnp.moveaxis(qkv.reshape(batch, time, 3, heads, width // heads), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads) ** -0.5
    scores = jnp.where(jnp.tri(time, dtype=bool), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + affine(layer["out"], mixed.reshape(x.shape))
    hidden = jax.nn.gelu(affine(layer["up"], layer_norm(layer["scale2"], x)))
    return x + affine(layer["down"], hidden)


def next_token_loss(embedding: jax.Array, x: jax.Array, tokens: jax.Array) -> jax.Array:
    log_probabilities = jax.nn.log_softmax(x[:, :-1] @ embedding.T)
    return -jnp.take_along_axis(log_probabilities, tokens[:, 1:, None], axis=-1).mean()


def transformer_arguments(
    batch: int, time: int, width: int, layers: int, vocabulary: int = 64
) -> tuple[PyTree, np.ndarray]:
    rng = np.random.RandomState(1)
    parameters = {
        "embedding": normal(rng, vocabulary, width, scale=width**-0.5),
        "layers": [transformer_layer(rng, width) for _ in range(layers)],
    }
    return parameters, rng.randint(0, vocabulary, (batch, time)).astype(np.int32)


TRANSFORMER_SIZES = {
    "small": {"batch": 2, "time": 8, "width": 16, "layers": 2},
    "full": {"batch": 4, "time": 64, "width": 128, "layers": 12},
}


@benchmark(**TRANSFORMER_SIZES)
def transformer_unrolled(batch: int, time: int, width: int, layers: int) -> Program:
    """Language-model loss; each layer is traced by itself."""

    def transformer_unrolled(parameters, tokens):
        x = parameters["embedding"][tokens]
        for layer in parameters["layers"]:
            x = transformer_block(layer, x, heads=4)
        return next_token_loss(parameters["embedding"], x, tokens)

    return transformer_unrolled, transformer_arguments(batch, time, width, layers)


@benchmark(**TRANSFORMER_SIZES)
def transformer_scanned(batch: int, time: int, width: int, layers: int) -> Program:
    """The same model as one `scan` over stacked layers."""
    parameters, tokens = transformer_arguments(batch, time, width, layers)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *parameters["layers"])

    def transformer_scanned(parameters, tokens):
        x = parameters["embedding"][tokens]

        def step(x, layer):
            return transformer_block(layer, x, heads=4), None

        x, _ = lax.scan(step, x, parameters["layers"])
        return next_token_loss(parameters["embedding"], x, tokens)

    return transformer_scanned, (parameters | {"layers": stacked}, tokens)


@benchmark(
    small={"batch": 2, "size": 8, "channels": 4, "blocks": 2},
    full={"batch": 16, "size": 32, "channels": 16, "blocks": 8},
)
def resnet(batch: int, size: int, channels: int, blocks: int) -> Program:
    """Residual blocks of two 3x3 convolutions with batch normalisation, then global pooling."""
    rng = np.random.RandomState(2)

    def kernel(inputs):
        return normal(rng, 3, 3, inputs, channels, scale=(9 * inputs) ** -0.5)

    def norm():
        return {"scale": np.ones(channels, np.float32), "shift": np.zeros(channels, np.float32)}

    parameters = {
        "stem": kernel(3),
        "blocks": [
            {"conv1": kernel(channels), "norm1": norm(), "conv2": kernel(channels), "norm2": norm()}
            for _ in range(blocks)
        ],
        "head": dense(rng, channels, 10),
    }

    def convolve(x, kernel):
        dimensions = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dimensions)

    def normalise(norm, x):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return norm["scale"] * (x - mean) * lax.rsqrt(variance + 1e-5) + norm["shift"]

    def resnet(parameters, images, labels):
        x = convolve(images, parameters["stem"])
        for block in parameters["blocks"]:
            y = jax.nn.relu(normalise(block["norm1"], convolve(x, block["conv1"])))
            x = jax.nn.relu(x + normalise(block["norm2"], convolve(y, block["conv2"])))
        log_probabilities = jax.nn.log_softmax(affine(parameters["head"], x.mean((1, 2))))
        return -jnp.mean(log_probabilities * jax.nn.one_hot(labels, 10))

    labels = rng.randint(0, 10, batch).astype(np.int32)
    return resnet, (parameters, normal(rng, batch, size, size, 3), labels)


@benchmark(small={"batch": 2, "time": 6, "width": 8}, full={"batch": 32, "time": 128, "width": 128})
def lstm_scan(batch: int, time: int, width: int) -> Program:
    """A long short-term memory cell scanned over time; loss on the last hidden state."""
    rng = np.random.RandomState(3)
    parameters = {"x": dense(rng, width, 4 * width), "h": dense(rng, width, 4 * width)}

    def lstm_scan(parameters, xs, target):
        def step(state, x):
            h, c = state
            gates = affine(parameters["x"], x) + affine(parameters["h"], h)
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros(xs.shape[1:], xs.dtype)
        (h, _), _ = lax.scan(step, (zeros, zeros), xs)
        return jnp.mean((h - target) ** 2)

    return lstm_scan, (parameters, normal(rng, time, batch, width), normal(rng, batch, width))


@benchmark(
    small={"batch": 2, "width": 4, "points": 3}, full={"batch": 512, "width": 128, "points": 10}
)
def neural_ode(batch: int, width: int, points: int) -> Program:
    """Fit of a neural vector field to observations, through adaptive Dormand-Prince steps."""
    rng = np.random.RandomState(4)
    parameters = [dense(rng, width, 2 * width), dense(rng, 2 * width, width)]
    times = np.linspace(0.0, 1.0, points, dtype=np.float32)

    def neural_ode(parameters, y0, times, observed):
        def field(y, t, parameters):
            return affine(parameters[1], jnp.tanh(affine(parameters[0], y) + t))

        ys = odeint(field, y0, times, parameters, rtol=1e-4, atol=1e-5)
        return jnp.mean((ys - observed) ** 2)

    observed = normal(rng, points, batch, width)
    return neural_ode, (parameters, normal(rng, batch, width), times, observed)


@benchmark(small={"bodies": 5, "steps": 3}, full={"bodies": 256, "steps": 50})
def n_body(bodies: int, steps: int) -> Program:
    """Energy of softened gravitating bodies after leapfrog steps."""
    rng = np.random.RandomState(5)

    def separations(positions):
        difference = positions[None] - positions[:, None]
        return difference, (difference**2).sum(-1) + 1e-2

    def n_body(positions, velocities, masses):
        def acceleration(positions):
            difference, squared = separations(positions)
            return jnp.einsum("ijk,ij,j->ik", difference, squared**-1.5, masses)

        def leapfrog(_, state):
            positions, velocities = state
            velocities = velocities + 5e-4 * acceleration(positions)
            positions = positions + 1e-3 * velocities
            return positions, velocities + 5e-4 * acceleration(positions)

        positions, velocities = lax.fori_loop(0, steps, leapfrog, (positions, velocities))
        _, squared = separations(positions)
        kinetic = 0.5 * jnp.sum(masses[:, None] * velocities**2)
        return kinetic - 0.5 * jnp.sum(masses[:, None] * masses * squared**-0.5)

    masses = np.full(bodies, 1 / bodies, np.float32)
    return n_body, (normal(rng, bodies, 3), normal(rng, bodies, 3, scale=0.1), masses)


@benchmark(small={"state": 3, "steps": 5}, full={"state": 64, "steps": 200})
def kalman_filter(state: int, steps: int) -> Program:
    """Negative log-likelihood of a linear Gaussian state-space model, filtered by `scan`."""
    rng = np.random.RandomState(6)
    seen = max(1, state // 2)
    model = {
        "transition": 0.9 * np.eye(state, dtype=np.float32) + normal(rng, state, state, scale=0.01),
        "observation": normal(rng, seen, state, scale=state**-0.5),
        "process_noise": np.float32(0.1),
        "observation_noise": np.float32(0.5),
    }

    def kalman_filter(model, observations):
        a, h = model["transition"], model["observation"]
        q, r = (model["process_noise"] * jnp.eye(state), model["observation_noise"] * jnp.eye(seen))

        def step(carry, observation):
            mean, covariance = carry
            mean, covariance = a @ mean, a @ covariance @ a.T + q
            innovation = observation - h @ mean
            s = h @ covariance @ h.T + r
            gain = jnp.linalg.solve(s, h @ covariance).T
            _, log_determinant = jnp.linalg.slogdet(s)
            loss = 0.5 * (log_determinant + innovation @ jnp.linalg.solve(s, innovation))
            return (mean + gain @ innovation, covariance - gain @ h @ covariance), loss

        _, losses = lax.scan(step, (jnp.zeros(state), jnp.eye(state)), observations)
        return losses.sum()

    return kalman_filter, (model, normal(rng, steps, seen))


@benchmark(small={"size": 8, "steps": 3}, full={"size": 1024, "steps": 6})
def stencil_unrolled(size: int, steps: int) -> Program:
    """Nonlinear diffusion on a periodic 2-D grid, each explicit step traced by itself.

    Few steps: the time XLA takes to compile and to run the gradient grows with their square.
    """
    rng = np.random.RandomState(7)

    def stencil_unrolled(field, diffusivity):
        for _ in range(steps):
            neighbours = sum(jnp.roll(field, s, axis) for s in (-1, 1) for axis in (0, 1))
            field = field + diffusivity * (neighbours - 4 * field) + 0.01 * field * (1 - field**2)
        return jnp.mean(field**2)

    return stencil_unrolled, (normal(rng, size, size), np.float32(0.1))


@benchmark(
    small={"nodes": 6, "edges": 10, "width": 4, "rounds": 2},
    full={"nodes": 2000, "edges": 10_000, "width": 64, "rounds": 4},
)
def gnn(nodes: int, edges: int, width: int, rounds: int) -> Program:
    """Message passing: gather along edges, a layer on each message, sum at the receivers."""
    rng = np.random.RandomState(8)
    layers = [
        {"message": dense(rng, 2 * width, width), "update": dense(rng, 2 * width, width)}
        for _ in range(rounds)
    ]

    def gnn(layers, features, senders, receivers, targets):
        for layer in layers:
            pairs = jnp.concatenate([features[senders], features[receivers]], axis=-1)
            messages = jax.nn.relu(affine(layer["message"], pairs))
            received = jax.ops.segment_sum(messages, receivers, num_segments=nodes)
            both = jnp.concatenate([features, received], axis=-1)
            features = features + jnp.tanh(affine(layer["update"], both))
        return jnp.mean((features - targets) ** 2)

    senders, receivers = rng.randint(0, nodes, (2, edges)).astype(np.int32)
    features, targets = normal(rng, nodes, width), normal(rng, nodes, width)
    return gnn, (layers, features, senders, receivers, targets)


@benchmark(small={"points": 8, "inputs": 2}, full={"points": 400, "inputs": 8})
def gaussian_process(points: int, inputs: int) -> Program:
    """Negative log marginal likelihood of a Gaussian process, by Cholesky factorisation."""
    rng = np.random.RandomState(9)
    hyperparameters = {
        "log_lengthscale": np.zeros(inputs, np.float32),
        "log_amplitude": np.float32(0.0),
        "log_noise": np.float32(-1.0),
    }

    def gaussian_process(hyperparameters, x, y):
        x = x * jnp.exp(-hyperparameters["log_lengthscale"])
        squared = ((x[:, None] - x[None]) ** 2).sum(-1)
        kernel = jnp.exp(2 * hyperparameters["log_amplitude"] - 0.5 * squared)
        kernel = kernel + jnp.exp(2 * hyperparameters["log_noise"]) * jnp.eye(points)
        factor = jnp.linalg.cholesky(kernel)
        whitened = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        constant = 0.5 * points * np.log(2 * np.pi)
        return 0.5 * whitened @ whitened + jnp.log(jnp.diag(factor)).sum() + constant

    return gaussian_process, (hyperparameters, normal(rng, points, inputs), normal(rng, points))


@benchmark(small={"size": 4, "count": 4}, full={"size": 512, "count": 12})
def matrix_chain(size: int, count: int) -> Program:
    """Trace of a product of many square matrices."""
    rng = np.random.RandomState(10)

    def matrix_chain(matrices):
        product = matrices[0]
        for matrix in matrices[1:]:
            product = product @ matrix
        return jnp.trace(product)

    return matrix_chain, ([normal(rng, size, size, scale=size**-0.5) for _ in range(count)],)


@benchmark(
    small={"time": 6, "heads": 2, "width": 4, "rounds": 2},
    full={"time": 384, "heads": 8, "width": 16, "rounds": 6},
)
def softmax_attention(time: int, heads: int, width: int, rounds: int) -> Program:
    """Attention over a narrow width, so that the softmaxes cost more than the products."""
    rng = np.random.RandomState(11)

    def softmax_attention(q, k, v):
        for _ in range(rounds):
            scores = jnp.einsum("hqd,hkd->hqk", q, k) * width**-0.5
            mixed = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)
            q = jax.nn.softmax(q + mixed, axis=-1) * width
        return jax.nn.logsumexp(q)

    return softmax_attention, tuple(normal(rng, heads, time, width) for _ in range(3))


@benchmark(small={"size": 8, "steps": 2}, full={"size": 100_000, "steps": 4})
def lorenz96_unrolled(size: int, steps: int) -> Program:
    """Lorenz-96 weather model, unrolled steps of the classical Runge-Kutta method.

    Few steps, as XLA's CPU fusions compute every stage again for each of its rolled uses: with 20
    steps the program takes seconds.
    """
    rng = np.random.RandomState(12)

    def lorenz96_unrolled(state, forcing):
        def rate(x):
            return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + forcing

        h = 0.01
        for _ in range(steps):
            k1 = rate(state)
            k2 = rate(state + h / 2 * k1)
            k3 = rate(state + h / 2 * k2)
            k4 = rate(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return jnp.mean(state**2)

    return lorenz96_unrolled, (normal(rng, size) + np.float32(8.0), np.float32(8.0))


@benchmark(small={"size": 16}, full={"size": 200_000})
def root_finder(size: int) -> Program:
    """Kepler's equation `x - e sin(x) = m` by Newton steps in a `while_loop`.

    The derivative goes through one more Newton step at the root, where those of the loop's own
    steps would be multiplied by zero; reverse mode cannot go through a `while_loop` itself.
    """
    rng = np.random.RandomState(13)

    def newton(x, eccentricity, anomaly):
        residual = x - eccentricity * jnp.sin(x) - anomaly
        return x - residual / (1 - eccentricity * jnp.cos(x))

    def root_finder(eccentricity, anomaly):
        def unfinished(state):
            x, previous, steps = state
            return (jnp.max(jnp.abs(x - previous)) > 1e-5) & (steps < 50)

        def step(state):
            x, _, steps = state
            return newton(x, *lax.stop_gradient((eccentricity, anomaly))), x, steps + 1

        start = lax.stop_gradient(anomaly)
        root, _, _ = lax.while_loop(unfinished, step, (start, start + 1, 0))
        return jnp.mean(newton(lax.stop_gradient(root), eccentricity, anomaly) ** 2)

    eccentricity = rng.uniform(0.0, 0.8, size).astype(np.float32)
    anomaly = rng.uniform(0.0, 2 * np.pi, size).astype(np.float32)
    return root_finder, (eccentricity, anomaly)


def many_equations(n: int, size: int = 8) -> Program:
    """A program of `n` equations, eight elementwise ones and two matrix products over and over.

    It measures what a compiler does per equation, so its arrays are tiny. The equations are small
    steps of an oscillator followed by rotations, which neither grow nor vanish, and so neither do
    the derivatives. The last equation is a sum.
    """
    rng = np.random.RandomState(14)
    rotation = np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)
    step_size = np.full((size, size), 1e-3, np.float32)
    product = partial(lax.dot_general, dimension_numbers=(((1,), (0,)), ((), ())))

    def many_equations(x, v, h, r):
        equations = (
            lambda x, v, t: (x, v, lax.sin(x)),
            lambda x, v, t: (x, v, lax.mul(t, h)),
            lambda x, v, t: (x, lax.sub(v, t), t),
            lambda x, v, t: (x, v, lax.tanh(v)),
            lambda x, v, t: (x, v, lax.mul(t, h)),
            lambda x, v, t: (lax.add(x, t), v, t),
            lambda x, v, t: (product(x, r), v, t),
            lambda x, v, t: (x, product(v, r), t),
            lambda x, v, t: (lax.neg(x), v, t),
            lambda x, v, t: (x, lax.neg(v), t),
        )
        state = x, v, x
        for i in range(n - 1):
            state = equations[i % len(equations)](*state)
        return jnp.sum(state[0])

    x, v = normal(rng, size, size), normal(rng, size, size)
    return many_equations, (x, v, step_size, rotation)


benchmark(small={"n": 200}, full={"n": 20_000})(many_equations)
