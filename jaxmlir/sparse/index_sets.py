"""Index sets in compressed form: for each element of a value, the inputs that it may depend on.

The sets of a value are the rows of a boolean CSR matrix (SciPy's).  An op maps them by a gather of
rows, a union of two matrices, or a product with the op's own boolean matrix, all in C.

A set that many elements share is not repeated.  It becomes a *hub*: a further column that stands
for the set.  So ``x - mean(x)`` of a million elements has one large set and a million references to
it, and an op that mixes all elements costs no more than its operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jaxmlir.errors import DiagnosticError

Rows = sparse.csr_matrix
"""The sets of a value's elements, in row-major order."""

MOST = 100_000_000
"""At most this many elements of a pattern are written out."""
_WORTH_SHARING = 8
_SMALL = 100_000


class PatternTooDense(DiagnosticError):
    """A pattern has more elements than are written out."""


class Columns:
    """The columns of index sets: the inputs, numbered from 0, and after them the hubs.

    Args:
      sizes: the sizes of the arrays whose elements are the inputs, one array after the other.

    Attributes:
      starts: the first column of each array, and the number of inputs.
    """

    def __init__(self, sizes: Iterable[int]):
        self.starts = np.cumsum([0, *sizes])
        self.inputs = self.width = int(self.starts[-1])
        self._blocks: list[Rows] = []

    def identity(self, argument: int) -> Rows:
        """The sets of one of the arrays: each element depends on itself."""
        return self._singles(*self.starts[argument : argument + 2])

    def _singles(self, start: int, stop: int) -> Rows:
        """Sets of one column each: those of a range."""
        return _rows(np.arange(start, stop), np.arange(stop - start + 1), self.width)

    def shared(self, rows: Rows) -> Rows:
        """Makes a hub for each set; returns sets that consist of these hubs."""
        self._blocks.append(rows)
        self.width += rows.shape[0]
        return self._singles(self.width - rows.shape[0], self.width)

    def take(self, rows: Rows, numbers: np.ndarray) -> Rows:
        """The sets of a value whose elements are elements of another value, by their numbers; -1 is
        an element that depends on nothing."""
        numbers = numbers.reshape(-1)
        size = rows.shape[0]
        if numbers.size == size and (numbers == np.arange(size)).all():
            return rows
        lengths = np.append(np.diff(rows.indptr), 0)
        nnz = int(lengths[numbers].sum())
        if nnz > max(_SMALL, 3 * rows.nnz) and lengths.max() > _WORTH_SHARING:
            return self.take(self._with_hubs(rows), numbers)
        return _picked(rows, numbers)

    def _with_hubs(self, rows: Rows) -> Rows:
        """The sets, with each large one replaced by a hub."""
        large = np.diff(rows.indptr) > _WORTH_SHARING
        places = np.where(large, np.cumsum(large) - 1, -1)
        hubs = self.shared(rows[np.flatnonzero(large)])
        small = _picked(rows, np.where(large, -1, np.arange(large.size)))
        return self.united([_picked(hubs, places), small])

    def united(self, parts: Iterable[Rows | None]) -> Rows | None:
        """The unions of some values' sets, element by element; ``None`` stands for empty sets."""
        whole: Rows | None = None
        for part in parts:
            if whole is None or part is None:
                whole = part if whole is None else whole
            elif whole is not part:
                self._widen(whole, part)
                whole = whole + part
        return whole

    def through(self, op: Rows, rows: Rows) -> Rows:
        """The sets of results; row ``i`` of ``op`` has the operand elements that ``i`` reads."""
        result = op @ rows
        result.sort_indices()
        return result

    def grouped(self, rows: Rows, groups: np.ndarray, count: int) -> Rows:
        """For each of ``count`` groups of elements, the union of their sets."""
        return self.through(reads(groups, np.arange(rows.shape[0]), count, rows.shape[0]), rows)

    def joined(self, parts: Sequence[Rows]) -> Rows:
        """The sets of several values, one value after the other."""
        self._widen(*parts)
        parts = parts or [self._singles(0, 0)]
        return sparse.vstack(parts, format="csr") if len(parts) > 1 else parts[0]

    def links(self, parts: Sequence[Rows]) -> Rows:
        """The graph with an edge from each element to all members of its set: one vertex for each
        element, in the order of ``parts``, then one for each input and hub."""
        self._widen(*parts, *self._blocks)
        rows = sparse.vstack([*parts, empty(self.inputs, self.width), *self._blocks], format="csr")
        before = rows.shape[0] - self.width
        indices = rows.indices + np.asarray(before, rows.indices.dtype)
        return _rows(indices, rows.indptr, rows.shape[0])

    def _widen(self, *parts: Rows) -> None:
        for part in parts:
            if part.shape[1] < self.width:
                part.resize(part.shape[0], self.width)

    def written_out(self, rows: Rows) -> Rows:
        """The sets without hubs, sorted.

        Raises:
          PatternTooDense: they have more than :data:`MOST` elements.
        """
        self._widen(rows)
        return _substituted(rows, self.inputs, self._hubs_written_out(rows))

    def _hubs_written_out(self, rows: Rows) -> Rows:
        """The sets of the hubs; a hub to which nothing in ``rows`` refers gets an empty set."""
        needed = np.zeros(self.width, bool)
        needed[rows.indices] = True
        starts = self.width - np.cumsum([block.shape[0] for block in self._blocks[::-1]])
        for start, block in zip(starts, self._blocks[::-1], strict=True):
            rows_needed = needed[start : start + block.shape[0]]
            needed[block.indices[np.repeat(rows_needed, np.diff(block.indptr))]] = True
        sets = empty(0, self.inputs)
        for block in self._blocks:
            start = self.inputs + sets.shape[0]
            hubs = np.flatnonzero(needed[start : start + block.shape[0]])
            hub_sets = _substituted(block[hubs], self.inputs, sets)
            spread = reads(hubs, np.arange(hubs.size), block.shape[0], hubs.size)
            sets = sparse.vstack([sets, spread @ hub_sets], format="csr")
        return sets


def _substituted(rows: Rows, inputs: int, sets: Rows) -> Rows:
    """The rows, with each hub replaced by the inputs in its set."""
    is_hub = rows.indices >= inputs
    if is_hub.any():
        # Rows that are older than the last hubs are narrower, and do not refer to these.
        hubs = rows[:, inputs : inputs + sets.shape[0]]
        rows, sets = rows[:, :inputs], sets[: hubs.shape[1]]
        total = int(np.diff(sets.indptr).astype(np.int64)[hubs.indices].sum())
        # This is an upper bound, since sets can overlap.
        if rows.nnz + total > MOST:
            raise PatternTooDense(f"its pattern may have {rows.nnz + total:,} elements")
        rows = rows + hubs @ sets
    elif rows.shape[1] != inputs:
        rows = _rows(rows.indices, rows.indptr, inputs)
    rows.sort_indices()
    return rows


def _picked(rows: Rows, numbers: np.ndarray) -> Rows:
    """Rows by their numbers; -1 gives an empty row."""
    padded = _rows(rows.indices, np.append(rows.indptr, rows.indptr[-1]), rows.shape[1])
    return padded[np.where(numbers < 0, rows.shape[0], numbers)]


def empty(size: int, width: int) -> Rows:
    """The sets of elements that depend on nothing."""
    return sparse.csr_matrix((size, width), dtype=bool)


def reads(results: np.ndarray, operands: np.ndarray, rows: int, columns: int) -> Rows:
    """The matrix of an op, from pairs of a result element and an operand element that it reads."""
    pairs = np.ravel(results), np.ravel(operands)
    matrix = sparse.coo_matrix((np.ones(pairs[0].size, bool), pairs), shape=(rows, columns))
    return matrix.tocsr()


def _rows(indices: np.ndarray, indptr: np.ndarray, width: int) -> Rows:
    data = np.ones(len(indices), bool)
    kind = np.int32 if max(len(indices), width) < 2**31 else np.int64
    parts: Any = (data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False))
    return sparse.csr_matrix(parts, shape=(len(indptr) - 1, width))
