"""Sparse matrices of `jax.experimental.sparse`, in their three formats.

A COO matrix is (data, row, col); a CSR matrix (data, indices, indptr); a BCOO or BCSR array has
leading batch and trailing dense dimensions besides. ``spinfo`` holds the dense shape.
"""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, op, without_inverse

_DOT = ("dimension_numbers: any", "preferred_element_type: dtype?")
_INFO = "spinfo: any"
_TRANSPOSE = "transpose: bool = false"
_FROM = ("nse: int", "index_dtype: dtype")
_BATCHED_FROM = ("nse: int", "n_batch: int", "n_dense: int", "index_dtype: dtype")

OPS: tuple[Op, ...] = (
    op(
        "todense", None, 1, "The dense array of any sparse one, given by its buffers.", "tree: tree"
    ),
    # Coordinate format
    op("coo_fromdense", 1, 3, "The COO matrix of a dense one, with room for nse elements.", *_FROM),
    op("coo_todense", 3, 1, "The dense matrix of a COO one.", _INFO, linear=(0,)),
    op("coo_matvec", 4, 1, "COO matrix times vector.", _INFO, _TRANSPOSE),
    op("coo_matmat", 4, 1, "COO matrix times dense matrix.", _INFO, _TRANSPOSE),
    op("coo_spmv", 4, 1, "coo_matvec as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op("coo_spmm", 4, 1, "coo_matmat as one vendor library call.", _TRANSPOSE, "shape: ints"),
    # Compressed rows
    op("csr_fromdense", 1, 3, "The CSR matrix of a dense one, with room for nse elements.", *_FROM),
    op("csr_todense", 3, 1, "The dense matrix of a CSR one.", "shape: ints", linear=(0,)),
    op("csr_matvec", 4, 1, "CSR matrix times vector.", "shape: ints", _TRANSPOSE),
    op("csr_matmat", 4, 1, "CSR matrix times dense matrix.", "shape: ints", _TRANSPOSE),
    op("csr_spmv", 4, 1, "csr_matvec as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op("csr_spmm", 4, 1, "csr_matmat as one vendor library call.", _TRANSPOSE, "shape: ints"),
    op(
        "spsolve",
        4,
        1,
        "The x with A x = b, of a CSR matrix and b.",
        "tol: float",
        "reorder: int",
        linear=(3,),
    ),
    # Batched coordinate format
    op("bcoo_fromdense", 1, 2, "The BCOO array of a dense one.", *_BATCHED_FROM),
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
        "The same BCOO array, elements at one index summed.",
        _INFO,
        "nse: int?",
        linear=(0,),
    ),
    op(
        "bcoo_dot_general",
        3,
        1,
        "Contraction of a BCOO array with a dense one.",
        *_DOT,
        "lhs_spinfo: any",
    ),
    op(
        "bcoo_spdot_general",
        4,
        2,
        "Contraction of two BCOO arrays, to a BCOO array.",
        "lhs_spinfo: any",
        "rhs_spinfo: any",
        *_DOT,
    ),
    op(
        "bcoo_dot_general_sampled",
        3,
        1,
        "The elements at BCOO indices of a contraction of dense arrays.",
        "dimension_numbers: any",
    ),
    # Batched compressed rows
    op("bcsr_fromdense", 1, 3, "The BCSR array of a dense one.", *_BATCHED_FROM),
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
        *_DOT,
        "lhs_spinfo: any",
    ),
)

OPS = without_inverse("no rule: sparse formats are not inverted", OPS)
