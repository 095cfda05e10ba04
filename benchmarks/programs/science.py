"""Well-written programs: simulation, filtering, root finding."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint
from jax.scipy.special import logsumexp

from benchmarks.programs._registry import Program, affine, benchmark, dense, normal


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


@benchmark(
    small={"labels": 4, "batch": 2, "time": 5}, full={"labels": 48, "batch": 16, "time": 100}
)
def conditional_random_field(labels: int, batch: int, time: int) -> Program:
    """Negative log-likelihood of labelled sequences of several lengths."""
    rng = np.random.RandomState(12)

    def conditional_random_field(parameters, chosen, lengths):
        transitions, scores = parameters["transitions"], parameters["scores"]
        valid = jnp.arange(time) < lengths[:, None]

        def step(alpha, row):
            score, is_valid = row
            new = logsumexp(alpha[:, :, None] + transitions, axis=1) + score
            return jnp.where(is_valid[:, None], new, alpha), None

        rows = scores.swapaxes(0, 1), valid.T
        alpha, _ = lax.scan(step, scores[:, 0], jax.tree.map(lambda v: v[1:], rows))
        of_labels = jnp.take_along_axis(scores, chosen[..., None], 2)[..., 0]
        of_pairs = transitions[chosen[:, :-1], chosen[:, 1:]]
        total = jnp.sum(of_labels * valid) + jnp.sum(of_pairs * valid[:, 1:])
        return jnp.sum(logsumexp(alpha, axis=1)) - total

    parameters = {
        "transitions": normal(rng, labels, labels),
        "scores": normal(rng, batch, time, labels),
    }
    chosen = rng.randint(0, labels, (batch, time)).astype(np.int32)
    lengths = rng.randint(time // 2, time + 1, batch).astype(np.int32)
    return conditional_random_field, (parameters, chosen, lengths)


@benchmark(small={"size": 5, "steps": 3}, full={"size": 200, "steps": 100})
def sinkhorn(size: int, steps: int) -> Program:
    """Entropic optimal transport between two clouds of points, in the log domain."""
    rng = np.random.RandomState(13)

    def sinkhorn(x, y):
        cost = jnp.sum((x[:, None] - y[None]) ** 2, -1) / 8
        weight = -jnp.log(size)

        def step(_, potentials):
            f, g = potentials
            f = -0.1 * logsumexp((g - cost) / 0.1 + weight, axis=1)
            g = -0.1 * logsumexp((f[:, None] - cost) / 0.1 + weight, axis=0)
            return f, g

        f, g = lax.fori_loop(0, steps, step, (jnp.zeros(size), jnp.zeros(size)))
        return jnp.mean(f) + jnp.mean(g)

    return sinkhorn, (rng.rand(size, 3).astype(np.float32), rng.rand(size, 3).astype(np.float32))


@benchmark(small={"size": 8, "steps": 3}, full={"size": 512, "steps": 30})
def stencil_loop(size: int, steps: int) -> Program:
    """Nonlinear diffusion on a periodic 2-D grid, its explicit steps in a loop."""
    rng = np.random.RandomState(7)

    def stencil_loop(field, diffusivity):
        def step(_, field):
            neighbours = sum(jnp.roll(field, s, axis) for s in (-1, 1) for axis in (0, 1))
            return field + diffusivity * (neighbours - 4 * field) + 0.01 * field * (1 - field**2)

        return jnp.mean(lax.fori_loop(0, steps, step, field) ** 2)

    return stencil_loop, (normal(rng, size, size), np.float32(0.1))


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


@benchmark(small={"size": 8, "steps": 2}, full={"size": 20_000, "steps": 50})
def lorenz96_loop(size: int, steps: int) -> Program:
    """Lorenz-96 weather model, steps of the classical Runge-Kutta method in a loop."""
    rng = np.random.RandomState(12)

    def lorenz96_loop(state, forcing):
        def rate(x):
            return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + forcing

        def step(_, state):
            h = 0.01
            k1 = rate(state)
            k2 = rate(state + h / 2 * k1)
            k3 = rate(state + h / 2 * k2)
            k4 = rate(state + h * k3)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return jnp.mean(lax.fori_loop(0, steps, step, state) ** 2)

    return lorenz96_loop, (normal(rng, size) + np.float32(8.0), np.float32(8.0))


@benchmark(small={"size": 16}, full={"size": 200_000})
def root_finder(size: int) -> Program:
    """Kepler's equation `x - e sin(x) = m` by Newton steps in a `while_loop`.

    Reverse mode cannot differentiate a `while_loop`. Instead the derivative goes through one more
    Newton step at the root, where derivatives of the earlier steps would be multiplied by zero.
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


@benchmark(
    small={"points": 7, "dimensions": 2, "components": 3},
    full={"points": 20_000, "dimensions": 8, "components": 64},
)
def gaussian_mixture(points: int, dimensions: int, components: int) -> Program:
    """Log likelihood of points under a mixture of Gaussians with diagonal covariances."""
    rng = np.random.RandomState(20)

    def gaussian_mixture(parameters, x):
        scaled = (x[:, None] - parameters["mean"]) * jnp.exp(-parameters["log_scale"])
        logs = -0.5 * (scaled**2).sum(-1) - parameters["log_scale"].sum(-1)
        weights = jax.nn.log_softmax(parameters["logit"])
        return -jnp.mean(jax.nn.logsumexp(weights + logs, axis=-1))

    parameters = {
        "logit": np.zeros(components, np.float32),
        "mean": normal(rng, components, dimensions),
        "log_scale": np.zeros((components, dimensions), np.float32),
    }
    return gaussian_mixture, (parameters, normal(rng, points, dimensions))
