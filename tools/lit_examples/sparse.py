"""Examples of sparse matrices."""

from __future__ import annotations

from typing import Any

from jax.experimental import sparse

from lit_examples._example import Example, bound, example, f32, i32

DENSE = f32([1, 0, 2], [0, 0, 3])
VECTOR = f32(1, 10, 100)
COLUMN = f32([1], [10], [100])
# The same matrix by its nonzero elements (values, rows, columns), and by the start of each row.
DATA, ROW, COL, ROWS_BEGIN = f32(1, 2, 3), i32(0, 0, 1), i32(0, 2, 2), i32(0, 2, 3)
INDICES = i32([0, 0], [0, 2], [1, 2])
UNSORTED = i32([1, 2], [0, 0], [0, 2])
GPU = "JAX lowers it for GPUs only."


def _coo(function: Any, *operands: Any) -> Example:
    def run(data: Any, row: Any, col: Any, *others: Any) -> Any:
        return function(sparse.COO((data, row, col), shape=(2, 3)), *others)

    return example(run, DATA, ROW, COL, *operands)


def _csr(function: Any, *operands: Any) -> Example:
    def run(data: Any, col: Any, rows_begin: Any, *others: Any) -> Any:
        return function(sparse.CSR((data, col, rows_begin), shape=(2, 3)), *others)

    return example(run, DATA, COL, ROWS_BEGIN, *operands)


def _bcoo(function: Any, *operands: Any, indices: Any = INDICES) -> Example:
    def run(data: Any, indices: Any, *others: Any) -> Any:
        return function(sparse.BCOO((data, indices), shape=(2, 3)), *others)

    return example(run, DATA, indices, *operands)


def _bcsr(function: Any, *operands: Any) -> Example:
    def run(data: Any, col: Any, rows_begin: Any, *others: Any) -> Any:
        return function(sparse.BCSR((data, col, rows_begin), shape=(2, 3)), *others)

    return example(run, DATA, COL, ROWS_BEGIN, *operands)


def _squared(matrix: sparse.BCOO) -> Any:
    product = matrix @ matrix.T
    return product.data, product.indices


def _sampled(a: Any, b: Any, indices: Any) -> Any:
    numbers = (((1,), (0,)), ((), ()))
    return sparse.bcoo_dot_general_sampled(a, b, indices, dimension_numbers=numbers)


EXAMPLES = {
    "todense": _bcoo(sparse.todense),
    "coo_fromdense": example(
        lambda x: sparse.coo_fromdense(x, nse=3), DENSE, hlo=("stablehlo.compare NE",)
    ),
    "coo_todense": _coo(sparse.coo_todense),
    "coo_matvec": _coo(lambda m, v: m @ v, VECTOR),
    "coo_matmat": _coo(lambda m, b: m @ b, COLUMN),
    "csr_fromdense": example(
        lambda x: sparse.csr_fromdense(x, nse=3), DENSE, hlo=("stablehlo.compare NE",)
    ),
    "csr_todense": _csr(sparse.csr_todense),
    "csr_matvec": _csr(lambda m, v: m @ v, VECTOR),
    "csr_matmat": _csr(lambda m, b: m @ b, COLUMN),
    "bcoo_fromdense": example(lambda x: sparse.bcoo_fromdense(x, nse=3), DENSE),
    "bcoo_todense": _bcoo(sparse.bcoo_todense),
    "bcoo_extract": _bcoo(sparse.bcoo_extract, f32([1, 2, 3], [4, 5, 6])),
    "bcoo_transpose": _bcoo(lambda m: sparse.bcoo_transpose(m, permutation=(1, 0))),
    "bcoo_sort_indices": _bcoo(sparse.bcoo_sort_indices, indices=UNSORTED),
    "bcoo_sum_duplicates": _bcoo(
        lambda m: sparse.bcoo_sum_duplicates(m, nse=2), indices=i32([0, 0], [1, 2], [0, 0])
    ),
    "bcoo_dot_general": _bcoo(lambda m, b: m @ b, COLUMN),
    "bcoo_spdot_general": _bcoo(_squared),
    "bcoo_dot_general_sampled": example(_sampled, f32([1], [2]), f32([1, 10, 100]), INDICES),
    "bcsr_fromdense": example(lambda x: sparse.bcsr_fromdense(x, nse=3), DENSE),
    "bcsr_todense": _bcsr(sparse.bcsr_todense),
    "bcsr_extract": example(sparse.bcsr_extract, COL, ROWS_BEGIN, f32([1, 2, 3], [4, 5, 6])),
    "bcsr_dot_general": _bcsr(lambda m, b: m @ b, COLUMN),
    "spsolve": example(
        lambda data, col, rows, b: sparse.linalg.spsolve(data, col, rows, b),
        f32(2, 1, 4),
        i32(0, 0, 1),
        i32(0, 1, 3),
        f32(4, 10),
    ),
    "coo_spmv": bound(
        "coo_spmv", DATA, ROW, COL, VECTOR, transpose=False, shape=(2, 3), lowers=GPU
    ),
    "coo_spmm": bound(
        "coo_spmm", DATA, ROW, COL, COLUMN, transpose=False, shape=(2, 3), lowers=GPU
    ),
    "csr_spmv": bound(
        "csr_spmv", DATA, COL, ROWS_BEGIN, VECTOR, transpose=False, shape=(2, 3), lowers=GPU
    ),
    "csr_spmm": bound(
        "csr_spmm", DATA, COL, ROWS_BEGIN, COLUMN, transpose=False, shape=(2, 3), lowers=GPU
    ),
}
