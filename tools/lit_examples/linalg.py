"""Examples of linear algebra, on matrices of two rows."""

from __future__ import annotations

from jax import lax

from lit_examples._example import bound, example, f32, i32

MATRIX = f32([1, 2], [3, 4])
POSITIVE = f32([4, 2], [2, 5])
LOWER = f32([2, 0], [1, 4])
TALL = f32([3, 1], [4, 2])

EXAMPLES = {
    "cholesky": example(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), POSITIVE),
    "cholesky_update": example(lax.linalg.cholesky_update, f32([2, 1], [0, 2]), f32(1, 1)),
    "lu": example(lax.linalg.lu, MATRIX),
    "lu_pivots_to_permutation": example(
        lambda p: lax.linalg.lu_pivots_to_permutation(p, 3), i32(2, 2)
    ),
    "qr": example(lambda x: lax.linalg.qr(x, full_matrices=False), TALL),
    "geqrf": bound("geqrf", TALL),
    "geqp3": bound("geqp3", TALL, i32(0, 0), use_magma=None),
    "householder_product": example(
        lax.linalg.householder_product, f32([1, 0], [0.5, 1]), f32(1.6, 0)
    ),
    "ormqr": bound("ormqr", f32([1, 0], [0.5, 1]), f32(1.6, 0), MATRIX, left=True, transpose=False),
    "svd": example(lambda x: lax.linalg.svd(x, compute_uv=False), MATRIX),
    "eig": example(
        lambda x: lax.linalg.eig(
            x, compute_left_eigenvectors=False, compute_right_eigenvectors=False
        ),
        f32([2, 1], [0, 3]),
    ),
    "eigh": example(lambda x: lax.linalg.eigh(x, symmetrize_input=False)[1], POSITIVE),
    "schur": example(lax.linalg.schur, f32([2, 1], [0, 3])),
    # No number of the result is short; whether a short one is hit exactly depends on LAPACK.
    "hessenberg": example(lax.linalg.hessenberg, f32([5, 3, 4], [6, 3, 7], [5, 2, 1])),
    "tridiagonal": example(
        lambda x: lax.linalg.tridiagonal(x, lower=True), f32([2, 3, 4], [3, 1, 5], [4, 5, 6])
    ),
    "symmetric_product": example(
        lambda a, c: lax.linalg.symmetric_product(a, c, beta=1.0, symmetrize_output=False),
        MATRIX,
        f32([1, 0], [0, 1]),
    ),
    "triangular_solve": example(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        LOWER,
        f32([4], [10]),
    ),
    "tridiagonal_solve": example(
        lax.linalg.tridiagonal_solve, f32(0, 1, 1), f32(2, 2, 2), f32(1, 1, 0), f32([4], [8], [8])
    ),
}
