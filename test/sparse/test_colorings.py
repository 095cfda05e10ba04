"""Colourings determine every element of a matrix; patterns can be saved and shown."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples
from scipy import sparse

from jaxmlir.errors import ArgumentError, Diagnostic
from jaxmlir.sparse.pattern import MODES, SparsityPattern


def pattern_of(matrix, **options):
    found = sparse.csr_matrix(matrix != 0)
    found.sort_indices()
    return SparsityPattern(found.shape, found.indptr, found.indices, **options)


def told(matrix, pattern, mode="auto"):
    """The matrix recovered from its products with the sums of unit vectors of each colour."""
    coloring = pattern.coloring(mode)
    right = [matrix @ (coloring.columns == c) for c in range(coloring.forward)]
    left = [(coloring.rows == c) @ matrix for c in range(coloring.reverse)]
    products = np.concatenate([*right, *left, np.zeros(0)])
    found = np.zeros_like(matrix)
    elements, sums = products[coloring.source], coloring.substitution
    if sums is not None:
        elements = np.bincount(sums.element, sums.sign * elements, minlength=pattern.nnz)
    found[pattern.rows, pattern.cols] = elements
    return found


def matrices(square=False):
    def make(seed, m, n, share):
        rng = np.random.default_rng(seed)
        n = m if square else n
        matrix = rng.uniform(1, 2, (m, n)) * (rng.uniform(size=(m, n)) < share)
        return matrix + matrix.T if square else matrix

    sizes = st.integers(1, 14)
    return st.builds(make, st.integers(0, 1000), sizes, sizes, st.sampled_from([0.05, 0.2, 0.5]))


@examples(40)
@given(matrices(), st.sampled_from(MODES))
def test_a_colouring_tells_a_matrix(matrix, mode):
    pattern = pattern_of(matrix)
    np.testing.assert_array_equal(told(matrix, pattern, mode), matrix)
    assert pattern.coloring(mode).total <= max(matrix.shape)


@examples(40)
@given(matrices(square=True))
def test_a_symmetric_matrix_is_told_by_fewer_products(matrix):
    pattern = pattern_of(matrix, symmetric=True)
    np.testing.assert_allclose(told(matrix, pattern), matrix, rtol=1e-12, atol=1e-12)
    assert pattern.colors <= pattern_of(matrix).coloring("forward").total


def test_an_acyclic_colouring_is_taken_where_stars_need_more():
    random = sparse.random(100, 100, 0.02, random_state=1).toarray()
    pattern = pattern_of(random + random.T + np.eye(100), symmetric=True)
    assert pattern.colors <= 5
    np.testing.assert_allclose(told(pattern.to_dense() * 1.0, pattern), pattern.to_dense())
    # A path is a deep tree, in which an element would be a sum of many terms.
    path = np.eye(500) + np.eye(500, k=1) + np.eye(500, k=-1)
    assert pattern_of(path, symmetric=True).coloring().substitution is None


@pytest.mark.parametrize("width", range(1, 5))
def test_a_band_takes_as_many_products_as_it_is_wide(width):
    matrix = sum(np.eye(40, k=k) for k in range(-width, width + 1))
    assert pattern_of(matrix).colors == 2 * width + 1


def test_few_rows_with_several_elements_are_found():
    """All rows of a large matrix have one element each, but for a few."""
    matrix = sparse.identity(20_000, format="lil")
    matrix[5_000:5_002, 3] = 1
    assert pattern_of(matrix.tocsr()).colors == 2


def test_an_irregular_pattern_is_coloured_without_trying_all_lattices():
    random = sparse.random(1000, 1000, 0.004, format="csr", random_state=0)
    matrix = (random + random.T + sparse.identity(1000)).tocsr()
    start = time.process_time()
    pattern = pattern_of(matrix)
    coloring = pattern.coloring("forward")
    assert time.process_time() - start < 10
    assert coloring.total <= 2 * np.diff(pattern.indptr).max()
    columns = sparse.csr_matrix(np.eye(coloring.total)[coloring.columns])
    assert ((matrix != 0).astype(int) @ columns).max() == 1


def test_a_pattern_is_kept_in_a_file(tmp_path):
    reason = Diagnostic("remark", "'jaxpr.sort' op: mixes", "model.py", 3, 1)
    pattern = pattern_of(np.eye(5, k=1), in_shapes=[(5,)], reasons=[reason])
    pattern.save(tmp_path / "pattern.npz")
    found = SparsityPattern.load(tmp_path / "pattern.npz")
    np.testing.assert_array_equal(found.to_dense(), pattern.to_dense())
    assert (found.in_shapes, found.reasons, found.symmetric) == (((5,),), (reason,), False)
    (tmp_path / "other.npz").write_bytes(b"PK\x03\x04 nothing")
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "number.npz", about="3", indptr=[0], indices=[0])
    for name in ("other.npz", "array.npy", "number.npz"):
        with pytest.raises(ArgumentError, match="is not a sparsity pattern"):
            SparsityPattern.load(tmp_path / name)


def test_a_pattern_is_shown():
    pattern = pattern_of(np.eye(8) + np.eye(8, k=-8 + 1))
    assert str(pattern) == "<SparsityPattern 8 x 8, 9 elements (0.14)>\n⠑⢄⠀⠀\n⡀⠀⠑⢄"
    assert pattern._repr_html_().count("h1v1h-1z") == pattern.nnz
    large = pattern_of(sparse.identity(5000, format="csr"))
    assert max(map(len, str(large).splitlines())) <= 64


def test_a_pattern_is_a_matrix_of_scipy_and_of_jax():
    matrix = np.eye(4, 6, k=1)
    pattern = pattern_of(matrix)
    np.testing.assert_array_equal(pattern.to_bcoo().todense(), matrix != 0)
    np.testing.assert_array_equal(pattern.to_scipy().toarray(), matrix != 0)
    assert (pattern.nnz, pattern.density) == (4, 4 / 24)
