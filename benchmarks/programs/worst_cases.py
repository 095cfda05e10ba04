"""Worst-case programs: on each of them one pass has as much work per op as possible.

In most programs a pass quickly decides to leave most ops alone.  Here it rewrites most of them, or
finds out late that a rewrite does not pay.  Each function makes a program of about ``n`` ops;
arrays are small, as nothing is run.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from benchmarks.programs._registry import Program, normal


def linear_chain(n: int, *, products: bool = False) -> Program:
    """A chain of ops, each linear in the one before, from a product of matrices to a sum.

    Args:
      products: whether every second op is a matrix product; otherwise every third op is an add.
    """
    rng = np.random.RandomState(16)

    def linear_chain(x, first, weights, scales):
        y = (x * scales[3]) @ first
        for i in range(n // 2):
            y = y @ weights[i % 4] if products else y + x * scales[(i + 1) % 4]
            y = y * scales[i % 4]
        return jnp.sum(y)

    weights, scales = ([normal(rng, 16, 16) for _ in range(4)] for _ in range(2))
    return linear_chain, (normal(rng, 16, 16), normal(rng, 16, 16), weights, scales)


def sums_of_products(n: int) -> Program:
    """Products with sums of two outer products; no two of the matrices have the same shape."""
    rng = np.random.RandomState(17)

    def sums_of_products(x, vectors):
        for a, b in zip(vectors, vectors[1:], strict=False):
            x = x @ (a[:, None] * b[None, :] + a[:, None] * jnp.sin(b)[None, :])
        return x

    def size(i: int) -> int:
        return 4 + i // 2 % 256 if i % 2 == 0 else 300 + i // 512

    vectors = [normal(rng, size(i)) for i in range(n // 8 + 1)]
    return sums_of_products, (normal(rng, 2, 4), vectors)


def filled_arrays(n: int) -> Program:
    """Loops of two dozen ops that fill an array in place; each body has a different constant."""
    rng = np.random.RandomState(18)

    def filled_arrays(x, weights):
        for i in range(n // 43):

            def step(t, carry, rate=0.1 / (1 + i)):
                x, out = carry
                row = weights[t]
                for _ in range(5):
                    row = jnp.tanh(row * rate) + row * row
                return x, out.at[t].set(row + x)

            _, out = lax.fori_loop(0, 8, step, (x, jnp.zeros((8, 4), np.float32)))
            x = jnp.sum(out, 0)
        return x

    return filled_arrays, (normal(rng, 4), normal(rng, 8, 4))


def small_maps(n: int) -> Program:
    """Maps of six ops over vectors; one op is a product with a matrix of weights."""
    rng = np.random.RandomState(19)

    def small_maps(rows, weights):
        for i in range(n // 9):

            def of_row(row, rate=0.1 / (1 + i)):
                return jnp.tanh(row @ weights) * rate + jnp.sin(row) * row

            rows = lax.map(of_row, rows)
        return rows

    return small_maps, (normal(rng, 8, 16), normal(rng, 16, 16))


def pairs_of_loops(n: int) -> Program:
    """Pairs of independent loops that differ only in a constant."""
    rng = np.random.RandomState(20)

    def pairs_of_loops(x, y, weights):
        for i in range(n // 16):

            def step(h, row, rate=0.1 / (1 + i)):
                h = jnp.tanh(h @ weights + row * rate)
                return h, h * rate

            (a, _), (b, _) = (lax.scan(step, v[0], v) for v in (x, y))
            x, y = x + a, y + b
        return jnp.sum(x) + jnp.sum(y)

    return pairs_of_loops, (normal(rng, 20, 4), normal(rng, 20, 4), normal(rng, 4, 4))


def written_parts(n: int) -> Program:
    """An array whose rows are each computed and written by separate ops."""
    rng = np.random.RandomState(21)
    rows = n // 8

    def written_parts(x, weights):
        out = jnp.zeros_like(x)
        for i in range(rows):
            out = out.at[i].set(jnp.tanh(x[i] @ weights) * weights[0])
        return out

    return written_parts, (normal(rng, rows, 4), normal(rng, 4, 4))


def examples(n: int) -> Program:
    """Blocks of a dozen ops, repeated for sixteen examples one after another."""
    rng = np.random.RandomState(22)

    def examples(xs, weights):
        total = 0.0
        for i in range(n // (16 * 14)):
            rate = 0.1 / (1 + i)
            for x in xs:
                for _ in range(3):
                    x = jnp.tanh(x @ weights) * rate + x
                total = total + jnp.sum(x)
            weights = weights * jnp.cos(total)
        return total

    return examples, ([normal(rng, 4) for _ in range(16)], normal(rng, 4, 4))


def shared_factor(n: int) -> Program:
    """The sum of the products of one matrix with many others."""
    rng = np.random.RandomState(23)

    def shared_factor(x, y, others):
        factor = x @ y
        products = [factor @ other for other in others]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return products, total

    matrices = [normal(rng, 8, 8) for _ in range(max(2, n // 2))]
    return shared_factor, (normal(rng, 8, 8), normal(rng, 8, 8), matrices)


def shared_term(n: int) -> Program:
    """An array that is added to many others."""
    rng = np.random.RandomState(29)

    def shared_term(x, others):
        return [jnp.tanh(x + other) for other in others]

    return shared_term, (normal(rng, 8), [normal(rng, 8) for _ in range(max(1, n // 2))])


def selected_rows(n: int) -> Program:
    """An array that is computed as a whole, with each row read by a separate op."""
    rng = np.random.RandomState(24)
    rows = max(2, n // 3)

    def selected_rows(x):
        whole = jnp.tanh(x)
        return [jnp.sin(whole[i]) for i in range(rows)]

    return selected_rows, (normal(rng, rows, 4),)


def places_in_a_loop(n: int) -> Program:
    """A loop that reads and writes many places of an array in each iteration."""
    rng = np.random.RandomState(25)
    places = max(2, n // 5)

    def places_in_a_loop(x):
        def step(i, x):
            for k in range(places):
                x = x.at[i, k].set(jnp.sin(x[i, k]) * 2)
            return x

        return lax.fori_loop(0, 6, step, x)

    return places_in_a_loop, (normal(rng, 6, places, 4),)


def loops_over_one_array(n: int) -> Program:
    """Loops over the rows of one array; each body has a different constant."""
    rng = np.random.RandomState(26)

    def loops_over_one_array(x, array):
        for i in range(n // 7):

            def step(h, row, rate=0.1 / (1 + i)):
                return jnp.tanh(h * rate) + row, None

            x, _ = lax.scan(step, x, array)
        return x

    return loops_over_one_array, (normal(rng, 64), normal(rng, 256, 64))


def shrinking(n: int) -> Program:
    """Windows of an array that becomes shorter in each step, so that all shapes differ."""
    rng = np.random.RandomState(27)

    def shrinking(x):
        for i in range(n // 7):
            x = x[2:] + x[:-2] * (0.1 + i) - x[1:-1]
        return x

    return shrinking, (normal(rng, n),)


def wide_loop(n: int) -> Program:
    """A loop that carries many values, and computes each with two ops."""
    rng = np.random.RandomState(28)

    def wide_loop(xs):
        return lax.scan(lambda xs, _: ([jnp.sin(x) * 2 for x in xs], None), xs, length=4)[0]

    return wide_loop, ([normal(rng, 8) for _ in range(n // 2)],)


def likelihoods(n: int) -> Program:
    """Loops that compute a log-sum-exp; each body has a different constant."""
    rng = np.random.RandomState(29)

    def likelihoods(x, transitions):
        for i in range(n // 20):

            def step(x, _, rate=0.1 / (1 + i)):
                return logsumexp(x[:, None] * rate + transitions, axis=0), None

            x, _ = lax.scan(step, x, None, length=20)
        return x

    return likelihoods, (normal(rng, 16), normal(rng, 16, 16))
