"""Linear algebra on the last two dimensions; the leading ones are batch dimensions."""

from __future__ import annotations

from jaxmlir.ops._record import Op, binary, op, unary

OPS: tuple[Op, ...] = (
    # Factorisations
    unary("cholesky", "Lower triangular L with L L^H = x.", inverse="L @ L^H"),
    binary("cholesky_update", "Upper triangular factor of R^T R + w w^T, of operands (R, w)."),
    op(
        "lu",
        1,
        3,
        "LU factorisation with row pivoting: the packed factors, the pivots, the permutation.",
    ),
    unary(
        "lu_pivots_to_permutation",
        "The permutation that a sequence of row exchanges makes.",
        "permutation_size: int",
        inverse="the row exchanges that make the permutation",
    ),
    op(
        "qr",
        1,
        None,
        "QR factorisation: Q and R; with pivoting the permutation too.",
        "pivoting: bool = false",
        "full_matrices: bool",
        "use_magma: bool?",
    ),
    op(
        "geqrf",
        1,
        2,
        "QR factorisation in LAPACK's form: packed reflectors with R, and their factors tau.",
    ),
    op(
        "geqp3",
        2,
        3,
        "geqrf with column pivoting, of operands (a, initial pivots).",
        "use_magma: bool?",
    ),
    binary(
        "householder_product", "The orthogonal matrix of packed reflectors, of operands (a, tau)."
    ),
    op(
        "ormqr",
        3,
        1,
        "c multiplied by the orthogonal matrix of packed reflectors, of operands (a, tau, c).",
        "left: bool",
        "transpose: bool",
    ),
    op(
        "svd",
        1,
        None,
        "Singular values; with compute_uv also U and V^H.",
        "full_matrices: bool",
        "compute_uv: bool",
        "subset_by_index: ints?",
        "algorithm: enum SvdAlgorithm?",
    ),
    # Eigenvalues
    op(
        "eig",
        1,
        None,
        "Eigenvalues of a general matrix, and the left and right eigenvectors that are asked for.",
        "compute_left_eigenvectors: bool",
        "compute_right_eigenvectors: bool",
        "enable_eigvec_derivs: bool = false",
        "implementation: enum EigImplementation?",
    ),
    op(
        "eigh",
        1,
        2,
        "Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read.",
        "lower: bool",
        "sort_eigenvalues: bool = true",
        "subset_by_index: ints?",
        "algorithm: enum EighImplementation?",
    ),
    op(
        "schur",
        1,
        None,
        "Schur form T with x = Z T Z^H, and Z if asked for.",
        "compute_schur_vectors: bool",
        "sort_eig_vals: bool",
        "select_callable: handle?",
    ),
    op(
        "hessenberg",
        1,
        2,
        "Upper Hessenberg form in LAPACK's packed form, and the reflectors' factors tau.",
    ),
    op(
        "tridiagonal",
        1,
        4,
        "Tridiagonal form of a Hermitian matrix: packed reflectors, diagonal, off-diagonal, tau.",
        "lower: bool",
    ),
    # Products and solves
    binary(
        "symmetric_product",
        "alpha A A^T + beta C, of operands (A, C).",
        "alpha: float",
        "beta: float",
    ),
    binary(
        "triangular_solve",
        "The x with a x = b (or x a = b), a triangular, of operands (a, b).",
        "left_side: bool",
        "lower: bool",
        "transpose_a: bool",
        "conjugate_a: bool",
        "unit_diagonal: bool",
        linear=(1,),
    ),
    op(
        "tridiagonal_solve",
        4,
        1,
        "The x with a tridiagonal system times x = b, of operands (lower, diagonal, upper, b).",
        "perturb_singular: bool = false",
        linear=(3,),
    ),
)
