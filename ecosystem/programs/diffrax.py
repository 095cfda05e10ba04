# /// script
# requires-python = ">=3.11"
# dependencies = ["diffrax"]
# ///
"""diffrax: a neural ODE by an adaptive solver with a discretise-then-optimise adjoint."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp


def make():
    network = eqx.nn.MLP(2, 2, 8, 1, activation=jnp.tanh, key=jax.random.key(0))
    params, static = eqx.partition(network, eqx.is_inexact_array)
    times = jnp.linspace(0.05, 0.95, 6)
    targets = jnp.stack([jnp.cos(times), jnp.sin(times)], 1)

    def loss(params, times, targets):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, network: network(y)),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=0.1,
            y0=targets[0],
            args=eqx.combine(params, static),
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
            max_steps=32,
        )
        return jnp.mean((solution.ys - targets) ** 2)

    return loss, (params, times, targets)
