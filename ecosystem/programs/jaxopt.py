# /// script
# requires-python = ">=3.11"
# dependencies = ["jaxopt"]
# ///
"""JAXopt: validation losses of an elastic net and a logistic regression, in their penalties."""

import jax
import jax.numpy as jnp
import jaxopt


def make():
    x = jax.random.normal(jax.random.key(0), (20, 4))
    y = x @ jnp.array([1.0, -1.0, 0.5, 0.0]) + 0.1 * jax.random.normal(jax.random.key(1), (20,))

    def loss(penalties, x, y):
        lasso = jaxopt.ProximalGradient(
            jaxopt.objective.least_squares,
            prox=jaxopt.prox.prox_elastic_net,
            maxiter=30,
            tol=1e-4,
            implicit_diff=True,
        )
        fit = lasso.run(
            jnp.zeros(4), hyperparams_prox=(penalties["l1"], penalties["l2"]), data=(x[:12], y[:12])
        )

        def logistic(w, penalty, data):
            x, y = data
            return jnp.mean(jax.nn.softplus(x @ w) - y * (x @ w)) + penalty * jnp.sum(w**2)

        labels = (y > 0).astype(jnp.float32)
        newton = jaxopt.LBFGS(logistic, maxiter=20, tol=1e-4)
        w = newton.run(jnp.zeros(4), penalties["ridge"], (x[:12], labels[:12])).params
        validation = jnp.mean((x[12:] @ fit.params - y[12:]) ** 2)
        return validation + logistic(w, 0.0, (x[12:], labels[12:]))

    penalties = {"l1": jnp.float32(0.05), "l2": jnp.float32(0.1), "ridge": jnp.float32(0.05)}
    return loss, (penalties, x, y)
