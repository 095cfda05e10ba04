"""Linear algebra, of dense and of sparse matrices."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import binary, family, op, unary

LINALG = family(
    "linalg",
    "Linear algebra on the last two dimensions; the leading ones are batch dimensions.",
    # Factorisations
    unary("cholesky", "Lower triangular L with L L^H = x.", inverse="L @ L^H"),
    binary(
        "cholesky_update",
        "Upper triangular factor of R^T R + w w^T; operands (R, w).",
        inverse="no rule: a downdate may not exist",
    ),
    op(
        "lu",
        1,
        3,
        "LU factorisation with row pivoting: the packed factors, the pivots, the permutation.",
        inverse="P^T L U",
    ),
    unary(
        "lu_pivots_to_permutation",
        "The permutation that a sequence of row exchanges amounts to.",
        "permutation_size: int",
        inverse="no rule: many sequences of row exchanges amount to one permutation",
    ),
    op(
        "qr",
        1,
        None,
        "QR factorisation: Q and R; with pivoting the permutation too.",
        "pivoting: bool = false, full_matrices: bool, use_magma: bool?",
        inverse="Q R",
    ),
    op(
        "geqrf",
        1,
        2,
        "QR factorisation in LAPACK's form: packed reflectors with R, and their factors tau.",
        inverse="no rule: the factors are packed",
    ),
    op(
        "geqp3",
        2,
        3,
        "geqrf with column pivoting; operands (a, initial pivots).",
        "use_magma: bool?",
        inverse="no rule: the factors are packed",
    ),
    binary(
        "householder_product",
        "The orthogonal matrix of packed reflectors; operands (a, tau).",
        inverse="no rule: the factors are packed",
    ),
    op(
        "ormqr",
        3,
        1,
        "c multiplied by the orthogonal matrix of packed reflectors; operands (a, tau, c).",
        "left: bool, transpose: bool",
        inverse="no rule: the factors are packed",
    ),
    op(
        "svd",
        1,
        None,
        "Singular values; with compute_uv also U and V^H.",
        "full_matrices: bool, compute_uv: bool, subset_by_index: ints?, "
        "algorithm: enum SvdAlgorithm?",
        inverse="U diag(s) V^H",
        domain="with all of U and V^H",
    ),
    # Eigenvalues
    op(
        "eig",
        1,
        None,
        "Eigenvalues of a general matrix, and the left and right eigenvectors that are asked for.",
        "compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, "
        "enable_eigvec_derivs: bool = false, implementation: enum EigImplementation?",
        inverse="no rule: the eigenvectors may not be independent",
    ),
    op(
        "eigh",
        1,
        2,
        "Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read.",
        "lower: bool, sort_eigenvalues: bool = true, subset_by_index: ints?, "
        "algorithm: enum EighImplementation?",
        inverse="V diag(w) V^H",
        domain="with all of V",
    ),
    op(
        "schur",
        1,
        None,
        "Schur form T with x = Z T Z^H, and Z if asked for.",
        "compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: handle?",
        inverse="no rule: the vectors may be missing",
    ),
    op(
        "hessenberg",
        1,
        2,
        "Upper Hessenberg form in LAPACK's packed form, and the reflectors' factors tau.",
        inverse="no rule: the factors are packed",
    ),
    op(
        "tridiagonal",
        1,
        4,
        "Tridiagonal form of a Hermitian matrix: packed reflectors, diagonal, off-diagonal, tau.",
        "lower: bool",
        inverse="no rule: the factors are packed",
    ),
    # Products and solves
    binary(
        "symmetric_product",
        "alpha A A^T + beta C; operands (A, C).",
        "alpha: float, beta: float",
        inverse="no rule: many A have the same A A^T",
    ),
    binary(
        "triangular_solve",
        "The x with a x = b (or x a = b), a triangular; operands (a, b).",
        "left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool",
        linear=(1,),
        inverse="b = a x (or x a), the triangle of a",
        linear_each=(1,),
    ),
    op(
        "tridiagonal_solve",
        4,
        1,
        "The x with a tridiagonal system times x = b; operands (lower, diagonal, upper, b).",
        "perturb_singular: bool = false",
        linear=(3,),
        inverse="b = the tridiagonal matrix times x",
    ),
)

_DOT = "dimension_numbers: any, preferred_element_type: dtype?"
_INFO = "spinfo: any"
_TRANSPOSE = "transpose: bool = false"
_FROM = "nse: int, index_dtype: dtype"
_BATCHED_FROM = "nse: int, n_batch: int, n_dense: int, index_dtype: dtype"

SPARSE = family(
    "sparse",
    """Sparse matrices of `jax.experimental.sparse`, in their three formats.

A COO matrix is (data, row, col); a CSR matrix (data, indices, indptr); a BCOO or BCSR array has
leading batch and trailing dense dimensions besides. ``spinfo`` holds the dense shape.
""",
    op(
        "todense", None, 1, "The dense array of any sparse one, given by its buffers.", "tree: tree"
    ),
    # Coordinate format
    op("coo_fromdense", 1, 3, "The COO matrix of a dense one, with room for nse elements.", _FROM),
    op("coo_todense", 3, 1, "The dense matrix of a COO one.", _INFO, linear=(0,)),
    op("coo_matvec", 4, 1, "COO matrix times vector.", _INFO, _TRANSPOSE),
    op("coo_matmat", 4, 1, "COO matrix times dense matrix.", _INFO, _TRANSPOSE),
    op("coo_spmv", 4, 1, "coo_matvec as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op("coo_spmm", 4, 1, "coo_matmat as one vendor library call.", _TRANSPOSE, "shape: ints"),
    # Compressed rows
    op("csr_fromdense", 1, 3, "The CSR matrix of a dense one, with room for nse elements.", _FROM),
    op("csr_todense", 3, 1, "The dense matrix of a CSR one.", "shape: ints", linear=(0,)),
    op("csr_matvec", 4, 1, "CSR matrix times vector.", "shape: ints", _TRANSPOSE),
    op("csr_matmat", 4, 1, "CSR matrix times dense matrix.", "shape: ints", _TRANSPOSE),
    op("csr_spmv", 4, 1, "csr_matvec as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op("csr_spmm", 4, 1, "csr_matmat as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op(
        "spsolve",
        4,
        1,
        "The x with A x = b, for a CSR matrix A.",
        "tol: float, reorder: int",
        linear=(3,),
    ),
    # Batched coordinate format
    op("bcoo_fromdense", 1, 2, "The BCOO array of a dense one.", _BATCHED_FROM),
    op("bcoo_todense", 2, 1, "The dense array of a BCOO one.", _INFO, linear=(0,)),
    op(
        "bcoo_extract",
        2,
        1,
        "The elements of a dense array at BCOO indices; operands (indices, array).",
        "assume_unique: bool",
        linear=(1,),
    ),
    op(
        "bcoo_transpose",
        2,
        2,
        "Permutes the dimensions of a BCOO array.",
        "permutation: ints",
        _INFO,
        linear=(0,),
    ),
    op("bcoo_sort_indices", 2, 2, "The same BCOO array with sorted indices.", _INFO, linear=(0,)),
    op(
        "bcoo_sum_duplicates",
        2,
        2,
        "The same BCOO array, with elements at equal indices summed.",
        _INFO,
        "nse: int?",
        linear=(0,),
    ),
    op(
        "bcoo_dot_general",
        3,
        1,
        "Contraction of a BCOO array with a dense one.",
        _DOT,
        "lhs_spinfo: any",
    ),
    op(
        "bcoo_spdot_general",
        4,
        2,
        "Contraction of two BCOO arrays, to a BCOO array.",
        "lhs_spinfo: any, rhs_spinfo: any",
        _DOT,
    ),
    op(
        "bcoo_dot_general_sampled",
        3,
        1,
        "The elements at BCOO indices of a contraction of dense arrays.",
        "dimension_numbers: any",
    ),
    # Batched compressed rows
    op("bcsr_fromdense", 1, 3, "The BCSR array of a dense one.", _BATCHED_FROM),
    op("bcsr_todense", 3, 1, "The dense array of a BCSR one.", _INFO, linear=(0,)),
    op(
        "bcsr_extract",
        3,
        1,
        "The elements of a dense array at BCSR indices; operands (indices, indptr, array).",
        linear=(2,),
    ),
    op(
        "bcsr_dot_general",
        4,
        1,
        "Contraction of a BCSR array with a dense one.",
        _DOT,
        "lhs_spinfo: any",
    ),
    inverse="no rule: sparse formats are not inverted",
)
