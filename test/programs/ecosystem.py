"""Libraries from PyPI: flax and optax, equinox, diffrax, and JAX's own `odeint`."""

import diffrax
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental.ode import odeint

from programs._table import Program, program


class TransformerBlock(nn.Module):
    heads: int = 2

    @nn.compact
    def __call__(self, x, train: bool):
        attended = nn.MultiHeadDotProductAttention(num_heads=self.heads)(nn.LayerNorm()(x))
        x = x + nn.Dropout(0.1, deterministic=not train)(attended)
        hidden = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
        return x + nn.Dropout(0.1, deterministic=not train)(nn.Dense(x.shape[-1])(hidden))


class LanguageModel(nn.Module):
    vocabulary: int = 11
    width: int = 8

    @nn.compact
    def __call__(self, tokens, train: bool = True):
        x = nn.Embed(self.vocabulary, self.width)(tokens)
        return nn.Dense(self.vocabulary)(TransformerBlock()(x, train))


@program
def flax_train_step() -> Program:
    """One Adam step of a transformer with dropout, a warm-up schedule and gradient clipping."""
    model = LanguageModel()
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 100)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    tokens = np.arange(12, dtype=np.int32).reshape(2, 6) % model.vocabulary
    parameters = model.init(jax.random.key(0), tokens, train=False)

    def train_step(parameters, optimizer_state, key, tokens):
        def loss(parameters):
            logits = model.apply(parameters, tokens[:, :-1], rngs={"dropout": key})
            labels = tokens[:, 1:]
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, optimizer_state = optimizer.update(gradient, optimizer_state, parameters)
        return optax.apply_updates(parameters, updates), optimizer_state, value

    return train_step, (parameters, optimizer.init(parameters), jax.random.key(1), tokens)


@program
def flax_inference() -> Program:
    """The same model without its optimizer, deterministic."""
    model = LanguageModel()
    tokens = np.arange(12, dtype=np.int32).reshape(2, 6) % model.vocabulary
    parameters = model.init(jax.random.key(0), tokens, train=False)
    return lambda parameters, tokens: model.apply(parameters, tokens, train=False), (
        parameters,
        tokens,
    )


@program
def equinox_mlp() -> Program:
    """Loss and gradient of an MLP split into its arrays, the arguments, and the static rest."""
    model = eqx.nn.MLP(3, 2, width_size=8, depth=2, key=jax.random.key(0))
    parameters, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(parameters, x, y):
        model = eqx.combine(parameters, static)
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    return jax.value_and_grad(loss), (parameters, x, x[:, :2])


def solve_van_der_pol(mu: jax.Array, y0: jax.Array) -> jax.Array:
    def field(t, y, mu):
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=2.0,
        dt0=0.1,
        y0=y0,
        args=mu,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 2.0, 5)),
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
    ).ys


@program
def diffrax_gradient() -> Program:
    """An adaptive solve with Tsitouras' method and a PID controller of the step size, and its
    gradient through diffrax's recursive checkpointing adjoint."""

    def loss(mu, y0):
        return jnp.sum(solve_van_der_pol(mu, y0) ** 2)

    arguments = np.float32(1.5), np.array([2.0, 0.0], np.float32)
    return jax.value_and_grad(loss, argnums=(0, 1)), arguments


@program
def odeint_pendulum_fit() -> Program:
    """Loss and gradient of fitting a damped pendulum's length and friction to observations."""
    times = np.linspace(0.0, 1.0, 5, dtype=np.float32)

    def simulate(parameters, times):
        def field(state, t, parameters):
            angle, speed = state
            torque = -9.81 / parameters["length"] * jnp.sin(angle)
            return speed, torque - parameters["friction"] * speed

        start = (jnp.float32(1.0), jnp.float32(0.0))
        return odeint(field, start, times, parameters)[0]

    def loss(parameters, times, observed):
        return jnp.mean((simulate(parameters, times) - observed) ** 2)

    parameters = {"length": np.float32(1.0), "friction": np.float32(0.1)}
    return jax.value_and_grad(loss), (parameters, times, np.cos(3 * times))


@program
def odeint_solve() -> Program:
    """A solve that is not differentiated, so that its custom rule is still in the jaxpr."""

    def solve(y0, times, matrix):
        return odeint(lambda y, t, matrix: matrix @ y, y0, times, matrix)

    matrix = np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32)
    return solve, (
        np.array([1.0, 0.0], np.float32),
        np.linspace(0, 1, 4, dtype=np.float32),
        matrix,
    )
