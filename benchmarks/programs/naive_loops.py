"""Naively written programs: loops.

They compute time steps, examples, heads and members of an ensemble one after another, fill arrays
in place, and recompute loop-invariant values in every step.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import expm
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal

from benchmarks.programs._registry import Program, affine, benchmark, dense, normal


@benchmark(
    naive=True,
    small={"batch": 2, "time": 4, "width": 8},
    full={"batch": 16, "time": 24, "width": 64},
)
def lstm_unrolled(batch: int, time: int, width: int) -> Program:
    """A long short-term memory cell in a Python loop over time."""
    rng = np.random.RandomState(100)
    parameters = {"cell": dense(rng, 2 * width, 4 * width), "out": dense(rng, width, width)}

    def lstm_unrolled(parameters, xs, targets):
        h = c = jnp.zeros((batch, width))
        loss = 0.0
        for t in range(time):
            gates = affine(parameters["cell"], jnp.concatenate([xs[t], h], axis=-1))
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            loss = loss + jnp.mean((affine(parameters["out"], h) - targets[t]) ** 2)
        return loss / time

    xs, targets = normal(rng, time, batch, width), normal(rng, time, batch, width)
    return lstm_unrolled, (parameters, xs, targets)


@benchmark(naive=True, small={"size": 8, "steps": 3}, full={"size": 256, "steps": 16})
def gray_scott_unrolled(size: int, steps: int) -> Program:
    """Reaction and diffusion of two substances on a periodic grid, in a Python loop."""
    rng = np.random.RandomState(101)

    def laplacian(u):
        return (
            jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u
        )

    def gray_scott_unrolled(rates, u, v, target):
        for _ in range(steps):
            reaction = u * v**2
            u, v = (
                u + rates["du"] * laplacian(u) - reaction + rates["feed"] * (1 - u),
                v + rates["dv"] * laplacian(v) + reaction - (rates["feed"] + rates["kill"]) * v,
            )
        return jnp.mean((v - target) ** 2)

    rates = {
        name: np.float32(x) for name, x in dict(du=0.16, dv=0.08, feed=0.03, kill=0.06).items()
    }
    u, v, target = (rng.uniform(size=(size, size)).astype(np.float32) for _ in range(3))
    return gray_scott_unrolled, (rates, u, v, target)


@benchmark(naive=True, small={"size": 8, "steps": 3}, full={"size": 1024, "steps": 6})
def stencil_unrolled(size: int, steps: int) -> Program:
    """Nonlinear diffusion on a periodic 2-D grid, its explicit steps in a Python loop.

    Few steps: the time XLA takes to compile and to run the gradient grows with their square.
    """
    rng = np.random.RandomState(7)

    def stencil_unrolled(field, diffusivity):
        for _ in range(steps):
            neighbours = sum(jnp.roll(field, s, axis) for s in (-1, 1) for axis in (0, 1))
            field = field + diffusivity * (neighbours - 4 * field) + 0.01 * field * (1 - field**2)
        return jnp.mean(field**2)

    return stencil_unrolled, (normal(rng, size, size), np.float32(0.1))


@benchmark(naive=True, small={"size": 8, "steps": 2}, full={"size": 100_000, "steps": 4})
def lorenz96_unrolled(size: int, steps: int) -> Program:
    """Lorenz-96 weather model, steps of the classical Runge-Kutta method in a Python loop.

    Few steps, because XLA's CPU fusions recompute every stage for each of its rolled uses: with 20
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


@benchmark(naive=True, small={"size": 16, "steps": 4}, full={"size": 50_000, "steps": 12})
def newton_unrolled(size: int, steps: int) -> Program:
    """Kepler's equation `x - e sin(x) = m` by a fixed number of Newton steps in a Python loop."""
    rng = np.random.RandomState(102)

    def newton_unrolled(eccentricity, anomaly, observed):
        x = anomaly
        for _ in range(steps):
            residual = x - eccentricity * jnp.sin(x) - anomaly
            x = x - residual / (1 - eccentricity * jnp.cos(x))
        return jnp.mean((jnp.cos(x) - observed) ** 2)

    eccentricity = rng.uniform(0.0, 0.7, size).astype(np.float32)
    anomaly = rng.uniform(0.0, 2 * np.pi, size).astype(np.float32)
    return newton_unrolled, (eccentricity, anomaly, normal(rng, size))


@benchmark(naive=True, small={"size": 4, "steps": 6}, full={"size": 128, "steps": 1000})
def states_in_place(size: int, steps: int) -> Program:
    """A recurrence that reads its last state from the array that it writes the next one to."""
    rng = np.random.RandomState(103)

    def states_in_place(weights, start, observed):
        states = jnp.zeros((steps, size)).at[0].set(start)

        def step(i, states):
            return states.at[i].set(jnp.tanh(weights @ states[i - 1]) + 0.1 * states[i - 1])

        states = lax.fori_loop(1, steps, step, states)
        return jnp.mean((states - observed) ** 2)

    weights = normal(rng, size, size, scale=0.9 * size**-0.5)
    return states_in_place, (weights, normal(rng, size), normal(rng, steps, size))


@benchmark(naive=True, small={"length": 12, "window": 3}, full={"length": 4000, "window": 64})
def windows_in_place(length: int, window: int) -> Program:
    """A filter over a signal, one window at a time; results are written in place."""
    rng = np.random.RandomState(104)
    outputs = length - window + 1

    def windows_in_place(filter_, signal, target):
        def write(i, out):
            piece = lax.dynamic_slice(signal, (i,), (window,))
            return out.at[i].set(jnp.tanh(jnp.dot(filter_, piece)))

        out = lax.fori_loop(0, outputs, write, jnp.zeros(outputs))
        return jnp.mean((out - target) ** 2)

    filter_ = normal(rng, window, scale=window**-0.5)
    return windows_in_place, (filter_, normal(rng, length), normal(rng, outputs))


@benchmark(
    naive=True,
    small={"images": 2, "size": 8, "channels": (4, 8, 6)},
    full={"images": 16, "size": 48, "channels": (8, 16, 32)},
)
def kernels_by_places(images: int, size: int, channels: tuple[int, ...]) -> Program:
    """Convolutions of 3 x 3 by their definition: a sum over the positions in the kernel."""
    rng = np.random.RandomState(117)

    def kernels_by_places(kernels, x, target):
        for kernel in kernels:
            size, total = x.shape[1] - 2, 0.0
            for i in range(3):
                for j in range(3):
                    total = total + x[:, i : i + size, j : j + size] @ kernel[i, j]
            x = jax.nn.relu(total)
        return jnp.mean((jnp.mean(x, (1, 2)) - target) ** 2)

    kernels = [
        normal(rng, 3, 3, n, m, scale=(9 * n) ** -0.5) for n, m in itertools.pairwise(channels)
    ]
    x, target = normal(rng, images, size, size, channels[0]), normal(rng, images, channels[-1])
    return kernels_by_places, (kernels, x, target)


@benchmark(
    naive=True,
    small={"examples": 4, "width": 6, "depth": 2},
    full={"examples": 32, "width": 192, "depth": 3},
)
def examples_unrolled(examples: int, width: int, depth: int) -> Program:
    """The loss of a network, one example after another in a Python loop."""
    rng = np.random.RandomState(105)

    def examples_unrolled(layers, xs, ys):
        total = 0.0
        for i in range(examples):
            x = xs[i]
            for layer in layers:
                x = jnp.tanh(affine(layer, x))
            total = total + jnp.sum((x - ys[i]) ** 2)
        return total / examples

    layers = [dense(rng, width, width) for _ in range(depth)]
    return examples_unrolled, (layers, normal(rng, examples, width), normal(rng, examples, width))


@benchmark(
    naive=True,
    small={"examples": 5, "width": 6, "depth": 2},
    full={"examples": 512, "width": 128, "depth": 3},
)
def examples_fori(examples: int, width: int, depth: int) -> Program:
    """A loss over examples, summed up by a `fori_loop` over them."""
    rng = np.random.RandomState(106)

    def examples_fori(layers, xs, labels):
        def add(i, total):
            x = xs[i]
            for layer in layers:
                x = jax.nn.relu(affine(layer, x))
            return total - jax.nn.log_softmax(x)[labels[i]]

        return lax.fori_loop(0, examples, add, 0.0) / examples

    layers = [dense(rng, width, width) for _ in range(depth)]
    labels = rng.randint(0, width, examples).astype(np.int32)
    return examples_fori, (layers, normal(rng, examples, width), labels)


@benchmark(
    naive=True,
    small={"time": 6, "width": 8, "heads": 2, "layers": 2},
    full={"time": 128, "width": 128, "heads": 8, "layers": 4},
)
def heads_one_by_one(time: int, width: int, heads: int, layers: int) -> Program:
    """Self-attention whose heads have their own weights and are computed in a Python loop."""
    rng = np.random.RandomState(107)
    size = width // heads

    def head():
        return {name: normal(rng, width, size, scale=width**-0.5) for name in "qkv"}

    def heads_one_by_one(parameters, x, target):
        for layer in parameters:
            mixed = []
            for head in layer["heads"]:
                q, k, v = (x @ head[name] for name in "qkv")
                mixed.append(jax.nn.softmax(q @ k.T / jnp.sqrt(size)) @ v)
            x = x + affine(layer["out"], jnp.concatenate(mixed, axis=-1))
        return jnp.mean((x - target) ** 2)

    parameters = [
        {"heads": [head() for _ in range(heads)], "out": dense(rng, width, width)}
        for _ in range(layers)
    ]
    return heads_one_by_one, (parameters, normal(rng, time, width), normal(rng, time, width))


@benchmark(
    naive=True,
    small={"members": 2, "time": 5, "width": 4},
    full={"members": 8, "time": 400, "width": 32},
)
def ensemble_of_scans(members: int, time: int, width: int) -> Program:
    """Recurrent networks on the same input series, with a separate scan for each."""
    rng = np.random.RandomState(108)

    def ensemble_of_scans(ensemble, xs, target):
        def final_state(parameters):
            def step(h, x):
                gate = jax.nn.sigmoid(affine(parameters["gate"], jnp.concatenate([x, h])))
                new = jnp.tanh(affine(parameters["new"], jnp.concatenate([x, h])))
                return gate * h + (1 - gate) * new, None

            return lax.scan(step, jnp.zeros(width), xs)[0]

        prediction = sum(final_state(parameters) for parameters in ensemble) / members
        return jnp.mean((prediction - target) ** 2)

    ensemble = [
        {"gate": dense(rng, 2 * width, width), "new": dense(rng, 2 * width, width)}
        for _ in range(members)
    ]
    return ensemble_of_scans, (ensemble, normal(rng, time, width), normal(rng, width))


@benchmark(
    naive=True,
    small={"states": 4, "symbols": 6, "steps": 5},
    full={"states": 128, "symbols": 512, "steps": 200},
)
def hidden_markov(states: int, symbols: int, steps: int) -> Program:
    """Likelihood of a hidden Markov model; its tables are normalised at each use, in the loop."""
    rng = np.random.RandomState(109)

    def hidden_markov(logits, observed):
        def forward(alpha, symbol):
            transition = jax.nn.log_softmax(logits["transition"], axis=1)
            emission = jax.nn.log_softmax(logits["emission"], axis=1)
            alpha = logsumexp(alpha[:, None] + transition, axis=0) + emission[:, symbol]
            return alpha, None

        start = jnp.full(states, -jnp.log(states))
        alpha, _ = lax.scan(forward, start, observed)
        return -logsumexp(alpha)

    logits = {"transition": normal(rng, states, states), "emission": normal(rng, states, symbols)}
    return hidden_markov, (logits, rng.randint(0, symbols, steps).astype(np.int32))


@benchmark(naive=True, small={"size": 3, "steps": 4}, full={"size": 48, "steps": 100})
def linear_system(size: int, steps: int) -> Program:
    """A driven linear system; every step computes the matrix exponential that propagates it."""
    rng = np.random.RandomState(110)

    def linear_system(system, inputs, observed):
        def step(x, u):
            x = expm(0.05 * system["a"]) @ x + 0.05 * system["b"] @ u
            return x, system["c"] @ x

        _, outputs = lax.scan(step, jnp.zeros(size), inputs)
        return jnp.mean((outputs - observed) ** 2)

    system = {
        "a": normal(rng, size, size, scale=size**-0.5) - np.eye(size, dtype=np.float32),
        "b": normal(rng, size, 4, scale=0.5),
        "c": normal(rng, 3, size, scale=size**-0.5),
    }
    return linear_system, (system, normal(rng, steps, 4), normal(rng, steps, 3))


@benchmark(naive=True, small={"size": 6, "steps": 3}, full={"size": 128, "steps": 100})
def implicit_heat(size: int, steps: int) -> Program:
    """Implicit Euler steps of a heat equation: each builds the same matrix and solves with it."""
    rng = np.random.RandomState(111)

    def implicit_heat(conductivity, temperature, measured):
        def step(_, temperature):
            flux = jnp.diag(conductivity[1:]) @ (jnp.eye(size, k=1) - jnp.eye(size))[:-1]
            divergence = (jnp.eye(size) - jnp.eye(size, k=-1))[:, :-1]
            return jnp.linalg.solve(jnp.eye(size) - 0.1 * divergence @ flux, temperature)

        temperature = lax.fori_loop(0, steps, step, temperature)
        return jnp.mean((temperature - measured) ** 2)

    conductivity = rng.uniform(0.5, 1.5, size).astype(np.float32)
    return implicit_heat, (conductivity, normal(rng, size), normal(rng, size))


@benchmark(naive=True, small={"samples": 4, "size": 3}, full={"samples": 64, "size": 64})
def log_densities(samples: int, size: int) -> Program:
    """Likelihood of a Gaussian: log-densities of the samples, one after another."""
    rng = np.random.RandomState(112)

    def log_densities(parameters, xs):
        def add(total, x):
            covariance = parameters["factor"] @ parameters["factor"].T + 0.1 * jnp.eye(size)
            return total + multivariate_normal.logpdf(x, parameters["mean"], covariance), None

        total, _ = lax.scan(add, 0.0, xs)
        return -total / samples

    parameters = {"mean": normal(rng, size), "factor": normal(rng, size, size, scale=size**-0.5)}
    return log_densities, (parameters, normal(rng, samples, size))
