# /// script
# requires-python = ">=3.11"
# dependencies = ["lineax"]
# ///
"""lineax: solutions of linear systems by factorizations, by least squares and by iteration."""

import jax
import jax.numpy as jnp
import lineax as lx


def make():
    matrix = jnp.eye(6) * 4 + 0.3 * jax.random.normal(jax.random.key(0), (6, 6))
    vector = jax.random.normal(jax.random.key(1), (6,))

    def loss(matrix, vector):
        symmetric = matrix @ matrix.T
        positive = lx.MatrixLinearOperator(symmetric, lx.positive_semidefinite_tag)
        x = lx.linear_solve(lx.MatrixLinearOperator(matrix), vector, lx.LU()).value
        y = lx.linear_solve(positive, x, lx.Cholesky()).value
        z = lx.linear_solve(positive, y, lx.CG(rtol=1e-6, atol=1e-6)).value
        tall = lx.MatrixLinearOperator(jnp.concatenate([matrix, symmetric]))
        w = lx.linear_solve(tall, jnp.concatenate([z, x]), lx.QR()).value
        return jnp.sum(w**2) + jnp.sum(y * vector)

    return loss, (matrix, vector)
