# /// script
# requires-python = ">=3.11"
# dependencies = ["dynamiqs"]
# ///
"""dynamiqs: a driven and damped cavity by its master equation, in the amplitude of the drive."""

import dynamiqs as dq
import jax.numpy as jnp

dq.set_progress_meter(False)


def make():
    n = 6
    a = dq.destroy(n)
    times = jnp.linspace(0.0, 1.0, 5)

    def loss(params):
        drive = params["amplitude"] * (a + dq.dag(a))
        hamiltonian = params["detuning"] * dq.dag(a) @ a + drive
        result = dq.mesolve(
            hamiltonian,
            [jnp.sqrt(0.3) * a],
            dq.fock(n, 0),
            times,
            exp_ops=[dq.dag(a) @ a],
            method=dq.method.Tsit5(rtol=1e-5, atol=1e-5),
        )
        return jnp.sum(result.expects.real)

    return loss, ({"amplitude": jnp.float32(0.4), "detuning": jnp.float32(0.7)},)
