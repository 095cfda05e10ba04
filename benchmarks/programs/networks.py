"""Well-written programs: networks and their losses."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.programs._registry import Program, PyTree, affine, benchmark, dense, normal


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
    """Language-model loss; a Python loop traces each layer by itself."""

    def transformer_unrolled(parameters, tokens):
        x = parameters["embedding"][tokens]
        for layer in parameters["layers"]:
            x = transformer_block(layer, x, heads=4)
        return next_token_loss(parameters["embedding"], x, tokens)

    return transformer_unrolled, transformer_arguments(batch, time, width, layers)


@benchmark(**TRANSFORMER_SIZES)
def transformer_scanned(batch: int, time: int, width: int, layers: int) -> Program:
    """A transformer as one `scan` over stacked layers."""
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


@benchmark(
    small={"batch": 6, "width": 4, "slots": 5, "layers": 2},
    full={"batch": 2048, "width": 64, "slots": 2048, "layers": 3},
)
def softmax_memory(batch: int, width: int, slots: int, layers: int) -> Program:
    """Layers that look up a vector in a memory of many slots: large softmaxes, narrow results."""
    rng = np.random.RandomState(19)

    def softmax_memory(memories, x):
        for memory in memories:
            x = x + jax.nn.softmax(x @ memory) @ memory.T
        return jnp.mean(x**2)

    memories = [normal(rng, width, slots, scale=0.1) for _ in range(layers)]
    return softmax_memory, (memories, normal(rng, batch, width))
