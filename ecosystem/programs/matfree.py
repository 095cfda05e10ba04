# /// script
# requires-python = ">=3.11"
# dependencies = ["matfree"]
# ///
"""Matfree: a stochastic log-determinant, a matrix function and a least-squares solution."""

import jax
import jax.numpy as jnp
from matfree import decomp, funm, lstsq, stochtrace


def make():
    matrix = jax.random.normal(jax.random.key(0), (8, 6)) / 3
    vector = jax.random.normal(jax.random.key(1), (8,))

    def matvec(v, matrix):
        return matrix.T @ (matrix @ v) + v

    def loss(matrix, vector, key):
        tridiagonal = decomp.tridiag_sym(4)
        problem = funm.monte_carlo_funm_sym_logdet(tridiagonal)
        sampler = stochtrace.sampler_signs(jnp.ones(6), num=3)
        estimate = stochtrace.estimator_monte_carlo(problem, sampler)
        logdet = estimate(matvec, key, matrix)
        root = funm.funm_lanczos_sym(funm.dense_funm_sym_eigh(jnp.sqrt), decomp.tridiag_sym(4))
        product = root(matvec, jnp.linspace(1.0, 2.0, 6), matrix)
        solve = lstsq.lsmr()
        solution, _ = solve(lambda v, m: m.T @ v, vector, matrix)
        return logdet + jnp.sum(product**2) + jnp.sum(solution**2)

    return loss, (matrix, vector, jax.random.key(2))
