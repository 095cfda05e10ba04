"""Naively written programs: formulas.

They multiply from left to right, compute inverses and one-hot vectors explicitly, write softmaxes
by hand, and compute a full Hessian for its trace.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.programs._registry import Program, affine, benchmark, dense, normal


@benchmark(naive=True, small={"size": 6}, full={"size": 768})
def chain_times_vector(size: int) -> Program:
    """Several matrices, multiplied from left to right and applied to a vector."""
    rng = np.random.RandomState(200)

    def chain_times_vector(matrices, v, target):
        a, b, c, d = matrices
        return jnp.mean((a @ b @ c @ d @ v - target) ** 2)

    matrices = [normal(rng, size, size, scale=size**-0.5) for _ in range(4)]
    return chain_times_vector, (matrices, normal(rng, size), normal(rng, size))


@benchmark(
    naive=True,
    small={"time": 8, "width": 4, "heads": 2},
    full={"time": 1024, "width": 32, "heads": 4},
)
def linear_attention(time: int, width: int, heads: int) -> Program:
    """Attention without softmax, written like softmax attention: `(q k^T) v`."""
    rng = np.random.RandomState(201)

    def linear_attention(weights, x, target):
        q, k, v = (jnp.einsum("td,dhw->htw", x, weights[name]) for name in "qkv")
        q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
        mixed = (q @ jnp.swapaxes(k, -1, -2)) @ v / time
        return jnp.mean((jnp.einsum("htw,hwd->td", mixed, weights["out"]) - target) ** 2)

    total = heads * width
    weights = {name: normal(rng, total, heads, width, scale=total**-0.5) for name in "qkv"}
    weights["out"] = normal(rng, heads, width, total, scale=total**-0.5)
    return linear_attention, (weights, normal(rng, time, total), normal(rng, time, total))


@benchmark(
    naive=True,
    small={"batch": 4, "width": 8, "rank": 2, "depth": 2},
    full={"batch": 256, "width": 768, "rank": 8, "depth": 3},
)
def low_rank_adapters(batch: int, width: int, rank: int, depth: int) -> Program:
    """Fine-tuning by low-rank updates of frozen layers; the low-rank product is multiplied out."""
    rng = np.random.RandomState(202)

    def low_rank_adapters(adapters, layers, x, target):
        for adapter, layer in zip(adapters, layers, strict=True):
            update = adapter["down"] @ adapter["up"]
            x = jax.nn.gelu(affine(layer, x) + x @ update)
        return jnp.mean((x - target) ** 2)

    layers = [dense(rng, width, width) for _ in range(depth)]
    adapters = [
        {
            "down": normal(rng, width, rank, scale=width**-0.5),
            "up": normal(rng, rank, width, scale=0.1),
        }
        for _ in range(depth)
    ]
    x, target = normal(rng, batch, width), normal(rng, batch, width)
    return low_rank_adapters, (adapters, layers, x, target)


@benchmark(naive=True, small={"items": 8, "width": 4}, full={"items": 1536, "width": 64})
def contrastive_by_hand(items: int, width: int) -> Program:
    """A symmetric contrastive loss at several temperatures, its softmaxes written by hand."""
    rng = np.random.RandomState(203)

    def softmax(x, axis):
        e = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
        return e / jnp.sum(e, axis=axis, keepdims=True)

    def contrastive_by_hand(parameters, images, texts):
        a, b = images @ parameters["image"], texts @ parameters["text"]
        a = a / jnp.sqrt(jnp.sum(a**2, axis=-1, keepdims=True))
        b = b / jnp.sqrt(jnp.sum(b**2, axis=-1, keepdims=True))
        similarity = a @ b.T
        loss = 0.0
        for temperature in (0.1, 0.3, 1.0):
            rows = softmax(similarity / temperature, axis=1)
            columns = softmax(similarity / temperature, axis=0)
            loss = loss - jnp.mean(jnp.log(jnp.diag(rows))) - jnp.mean(jnp.log(jnp.diag(columns)))
        return loss

    parameters = {name: normal(rng, width, width, scale=width**-0.5) for name in ("image", "text")}
    return contrastive_by_hand, (parameters, normal(rng, items, width), normal(rng, items, width))


@benchmark(
    naive=True,
    small={"nodes": 5, "edges": 12, "width": 4, "rounds": 2},
    full={"nodes": 1000, "edges": 16_000, "width": 64, "rounds": 3},
)
def layer_on_each_edge(nodes: int, edges: int, width: int, rounds: int) -> Program:
    """Message passing whose layers are applied to the features of both ends of every edge."""
    rng = np.random.RandomState(204)

    def layer_on_each_edge(layers, features, senders, receivers, target):
        for layer in layers:
            messages = jax.nn.relu(
                affine(layer["from"], features[senders]) + affine(layer["to"], features[receivers])
            )
            received = jnp.zeros_like(features).at[receivers].add(messages)
            features = features + jnp.tanh(affine(layer["update"], received))
        return jnp.mean((features - target) ** 2)

    layers = [
        {name: dense(rng, width, width) for name in ("from", "to", "update")} for _ in range(rounds)
    ]
    senders, receivers = rng.randint(0, nodes, (2, edges)).astype(np.int32)
    features, target = normal(rng, nodes, width), normal(rng, nodes, width)
    return layer_on_each_edge, (layers, features, senders, receivers, target)


@benchmark(
    naive=True,
    small={"points": 3, "inputs": 2, "width": 6, "depth": 2},
    full={"points": 256, "inputs": 6, "width": 64, "depth": 3},
)
def poisson_residual(points: int, inputs: int, width: int, depth: int) -> Program:
    """A network that solves Poisson's equation; its Laplacian is the trace of the Hessian."""
    rng = np.random.RandomState(205)

    def network(layers, x):
        for layer in layers[:-1]:
            x = jnp.tanh(affine(layer, x))
        return affine(layers[-1], x)[0]

    def poisson_residual(layers, xs):
        def residual(x):
            hessian = jax.hessian(lambda x: network(layers, x))(x)
            return jnp.trace(hessian) - jnp.prod(jnp.sin(x))

        return jnp.mean(jax.vmap(residual)(xs) ** 2)

    widths = [inputs, *[width] * depth, 1]
    layers = [dense(rng, m, n) for m, n in zip(widths, widths[1:], strict=False)]
    return poisson_residual, (layers, normal(rng, points, inputs))


@benchmark(
    naive=True,
    small={"batch": 2, "time": 4, "vocabulary": 10, "width": 4},
    full={"batch": 8, "time": 128, "vocabulary": 4096, "width": 64},
)
def one_hot_words(batch: int, time: int, vocabulary: int, width: int) -> Program:
    """A bag-of-neighbours language model; words are one-hot vectors, both inputs and labels."""
    rng = np.random.RandomState(206)

    def one_hot_words(parameters, words):
        x = jax.nn.one_hot(words, vocabulary) @ parameters["embedding"]
        context = jnp.cumsum(x, axis=1) / jnp.arange(1, time + 1)[:, None]
        logits = jnp.tanh(affine(parameters["hidden"], context)) @ parameters["embedding"].T
        log_probabilities = jnp.log(jax.nn.softmax(logits[:, :-1]))
        return -jnp.mean(jnp.sum(jax.nn.one_hot(words[:, 1:], vocabulary) * log_probabilities, -1))

    parameters = {
        "embedding": normal(rng, vocabulary, width, scale=width**-0.5),
        "hidden": dense(rng, width, width),
    }
    return one_hot_words, (parameters, rng.randint(0, vocabulary, (batch, time)).astype(np.int32))


@benchmark(naive=True, small={"points": 6, "inputs": 2}, full={"points": 384, "inputs": 4})
def process_by_inverse(points: int, inputs: int) -> Program:
    """Marginal likelihood of a Gaussian process by the inverse and the determinant."""
    rng = np.random.RandomState(207)

    def process_by_inverse(hyperparameters, x, y):
        difference = (x[:, None, :] - x[None, :, :]) / jnp.exp(hyperparameters["log_lengthscale"])
        kernel = jnp.exp(-0.5 * jnp.sum(difference**2, axis=-1))
        kernel = kernel + jnp.exp(hyperparameters["log_noise"]) * jnp.eye(points)
        _, log_determinant = jnp.linalg.slogdet(kernel)
        return 0.5 * y @ jnp.linalg.inv(kernel) @ y + 0.5 * log_determinant

    hyperparameters = {
        "log_lengthscale": np.zeros(inputs, np.float32),
        "log_noise": np.float32(-1.0),
    }
    return process_by_inverse, (hyperparameters, normal(rng, points, inputs), normal(rng, points))
