"""Colourings: groups of columns, or rows, of a pattern that share one product with a vector.

Columns without a common row can share a product: ``J @ (sum of their unit vectors)`` has all their
elements, in different rows.  Dividing the columns into as few such groups as possible is a graph
colouring problem (Curtis, Powell and Reid 1974; Gebremedhin, Manne and Pothen 2005), solved

1. *by lattice*: a stencil looks the same from every point of a grid, so ``(a . point) mod c`` is
   tried as the colour, for all ``a``, and for ``c`` from the length of the longest row on, which is
   a lower bound: 3 colours for a tridiagonal matrix, 5 for the five-point stencil.  The grid is the
   argument's shape, or is inferred from the distances between the columns of a row.
2. *greedily*, in several orders: each column gets the first colour that is still free in all its
   rows.  The colours used in a row are the bits of one integer.

In a symmetric matrix, an element can be read at either of its two positions: *star* colouring.  If
that takes fewer colours, an element is computed as a sum of a few elements of products: *acyclic*
colouring, solved by substitution.  The columns of any two colours then form trees.  The element of
a leaf is alone in the leaf's row of a product.  It is subtracted from its parent's row, and so on
up the tree (Coleman and Cai 1986; Gebremedhin et al. 2007).  In a star colouring the trees are
stars; in an acyclic one, an element has as many terms as the tree below it has vertices.

If a few rows are long and all others short, the long ones are computed by products from the left
(*both* modes).
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

Matrix = sparse.csr_matrix
Shape = tuple[int, ...]


class Coloring(NamedTuple):
    """A set of products with vectors that determines all elements of a matrix.

    Attributes:
      columns: the colour of each column, for products from the right (JVPs); -1: none.
      rows: the colour of each row, for products from the left (VJPs); -1: none.
      source: for each element of the pattern, in row-major order, its index in the flat array of
        all products.  Those from the right come first, each with an element for each row; then
        those from the left, each with an element for each column.
      substitution: how elements are sums of elements of products, if ``source`` is not enough.
    """

    columns: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    substitution: Substitution | None = None

    @property
    def forward(self) -> int:
        """How many products from the right there are."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def reverse(self) -> int:
        """How many products from the left there are."""
        return int(self.rows.max(initial=-1)) + 1

    @property
    def total(self) -> int:
        """How many products there are."""
        return self.forward + self.reverse

    def __str__(self) -> str:
        """``'3 JVPs'``, ``'2 JVPs and 1 VJP'``."""
        parts = [
            f"{n} {name}" + "s" * (n != 1)
            for n, name in ((self.forward, "JVP"), (self.reverse, "VJP"))
            if n
        ]
        return " and ".join(parts) or "no product"


def color(
    pattern: Matrix, mode: str, in_shapes: Sequence[Shape], out_shapes: Sequence[Shape]
) -> Coloring:
    """The colouring of a matrix with the fewest products.

    Args:
      mode: ``"forward"`` (columns), ``"reverse"`` (rows), ``"both"``, or ``"auto"`` for the best.
      in_shapes, out_shapes: the shapes of the arrays whose elements are the columns and the rows.
    """
    colorings: list[Coloring] = []
    if not pattern.nnz:
        none = [np.full(size, -1) for size in (*pattern.shape[::-1], 0)]
        return Coloring(*none)
    if mode != "reverse":
        colorings.append(_split(pattern, np.zeros(pattern.shape[0], bool), in_shapes, out_shapes))
    if mode == "reverse" or (mode != "forward" and colorings[0].total > _bound(pattern.T.tocsr())):
        colorings.append(_split(pattern, np.ones(pattern.shape[0], bool), in_shapes, out_shapes))
    best = min(colorings, key=lambda c: c.total)
    if mode in ("both", "auto") and best.total > _FEW and pattern.nnz <= _GREEDY:
        best = min([best, *_splits(pattern, best.total)], key=lambda c: c.total)
    return best


def color_symmetric(pattern: Matrix, shapes: Sequence[Shape]) -> Coloring:
    """The star or acyclic colouring of a symmetric matrix, for products from the right."""
    if not pattern.nnz:
        return color(pattern, "forward", shapes, shapes)
    star = _by_stars(pattern, shapes)
    if pattern.nnz > _SUBSTITUTED or star.total <= 2:
        return star
    orders = _orders(np.diff(pattern.indptr))
    colors = min((_acyclic(pattern, order) for order in orders), key=lambda c: c.max())
    if colors.max() + 1 < star.total:
        terms = _substitution(pattern, colors, _TERMS * pattern.nnz)
        if terms is not None:
            return Coloring(colors, star.rows, terms.source, terms)
    return star


def _by_stars(pattern: Matrix, shapes: Sequence[Shape]) -> Coloring:
    colors = column_colors(pattern, shapes)
    size, cols = pattern.shape[0], pattern.indices
    if pattern.nnz <= _GREEDY and colors.max(initial=-1) + 1 > 2:
        for order in _orders(np.diff(pattern.indptr)):
            other = _star(pattern, order)
            if other.max() < colors.max():
                colors = other
    rows = row_numbers(pattern)
    count = int(colors.max(initial=-1)) + 1
    # If no other element of a row has an element's colour, it is there; else at its mirror image.
    keys = rows * count + colors[cols]
    if size * count <= _COUNTED:
        alone = np.bincount(keys)[keys] == 1
    else:
        _, which, times = np.unique(keys, return_inverse=True, return_counts=True)
        alone = times[which] == 1
    source = np.where(alone, colors[cols] * size + rows, colors[rows] * size + cols)
    return Coloring(colors, np.full(size, -1), source)


def row_numbers(pattern: Matrix) -> np.ndarray:
    """The row of each element."""
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))


_FEW = 4
_COUNTED = 100_000_000
_GREEDY = 5_000_000
"""Patterns with more elements are coloured greedily in one order; no stars, no split is tried."""
_GREEDY_TOO = 100_000
"""Patterns with more elements are not coloured greedily if there is a colouring by lattice."""
_SUBSTITUTED = 200_000
"""Symmetric patterns with more elements get a star colouring only."""
_TERMS = 8
"""An element is a sum of at most this many terms, on average."""
_LONGEST_ROW = 32
_FAR = 4
"""A pattern is no stencil if its rows have more different distances between columns than this
times the square of the longest row."""
_TRIED = 4_000_000
"""At most this many remainders are computed to find a lattice with a given number of colours."""


def _bound(pattern: Matrix) -> int:
    """A lower bound on the number of colours: the length of the longest row."""
    return int(np.diff(pattern.indptr).max(initial=0))


# --- both modes -----------------------------------------------------------------------------------


def _split(
    pattern: Matrix, from_left: np.ndarray, in_shapes: Sequence[Shape], out_shapes: Sequence[Shape]
) -> Coloring:
    """The colouring with some rows computed by products from the left, the rest from the right.

    Args:
      from_left: a mask of the rows computed from the left.
    """
    m, n = pattern.shape
    columns, rows = np.full(n, -1), np.full(m, -1)
    if not from_left.all():
        part = pattern if not from_left.any() else pattern[~from_left]
        columns = column_colors(part, in_shapes)
    if from_left.any():
        part = pattern if from_left.all() else pattern[from_left]
        rows[from_left] = column_colors(part.T.tocsr(), out_shapes if from_left.all() else ())
    numbers, cols = row_numbers(pattern), pattern.indices
    forward = int(columns.max(initial=-1)) + 1
    by_column = columns[cols] * m + numbers
    by_row = forward * m + rows[numbers] * n + cols
    return Coloring(columns, rows, np.where(from_left[numbers], by_row, by_column))


def _splits(pattern: Matrix, best: int) -> Iterator[Coloring]:
    """Colourings in which the 1, 2, 4, ... longest rows are computed by products from the left."""
    lengths = np.diff(pattern.indptr)
    order = np.argsort(-lengths, kind="stable")
    for k in itertools.takewhile(lambda k: k < min(best, len(order)), (2**i for i in range(20))):
        if 2 * lengths[order[k]] <= best:
            from_left = np.zeros(pattern.shape[0], bool)
            from_left[order[:k]] = True
            yield _split(pattern, from_left, (), ())


# --- columns --------------------------------------------------------------------------------------


def column_colors(pattern: Matrix, shapes: Sequence[Shape]) -> np.ndarray:
    """Colours of the columns such that columns with a common row have different ones."""
    least = _bound(pattern)
    if least <= 1:
        return np.zeros(pattern.shape[1], int)
    best: np.ndarray | None = None
    if least <= _LONGEST_ROW:
        best = _by_lattice(pattern, shapes, least)
        if best is not None and best.max() + 1 == least:
            return best
    by_column = pattern.T.tocsr()
    large = pattern.nnz > (_GREEDY if best is None else _GREEDY_TOO)
    for order in itertools.islice(_orders(np.diff(by_column.indptr)), 1 if large else None):
        if best is not None and large:
            break
        colors = _greedy(by_column, order)
        if best is None or colors.max() < best.max():
            best = colors
        if best.max() + 1 == least:
            break
    return best


def _orders(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """The orders of columns to try: as they are, longest first, at random."""
    yield np.arange(len(lengths))
    if lengths.size and lengths.max() != lengths.min():
        yield np.argsort(-lengths, kind="stable")
    yield np.random.default_rng(0).permutation(len(lengths))


def _greedy(by_column: Matrix, order: np.ndarray) -> np.ndarray:
    indptr, indices = by_column.indptr.tolist(), by_column.indices.tolist()
    used, colors = [0] * by_column.shape[1], [0] * by_column.shape[0]
    for j in order.tolist():
        rows = indices[indptr[j] : indptr[j + 1]]
        taken = 0
        for r in rows:
            taken |= used[r]
        first = ~taken & (taken + 1)
        colors[j] = first.bit_length() - 1
        for r in rows:
            used[r] |= first
    return np.array(colors)


def _neighbours(pattern: Matrix) -> list[list[int]]:
    """The other columns that the row of each column of a symmetric pattern has."""
    indices, ends = pattern.indices.tolist(), itertools.pairwise(pattern.indptr.tolist())
    return [[w for w in indices[a:b] if w != v] for v, (a, b) in enumerate(ends)]


def _star(pattern: Matrix, order: np.ndarray) -> np.ndarray:
    """Greedy star colouring: no path of four vertices has two colours (GMP 2005, algorithm 4.1)."""
    near, size = _neighbours(pattern), pattern.shape[0]
    colors = [-1] * size
    around: list[dict[int, int]] = [{} for _ in range(size)]
    for v in order.tolist():
        taken = 0
        for w in near[v]:
            of_w = colors[w]
            if of_w < 0:
                for c in around[w]:
                    taken |= 1 << c
                continue
            taken |= 1 << of_w
            for x in near[w]:
                if colors[x] >= 0 and around[x].get(of_w, 0) > 1:
                    taken |= 1 << colors[x]
        c = (~taken & (taken + 1)).bit_length() - 1
        colors[v] = c
        for w in near[v]:
            around[w][c] = around[w].get(c, 0) + 1
    return np.array(colors)


# --- stencils -------------------------------------------------------------------------------------


def _by_lattice(pattern: Matrix, shapes: Sequence[Shape], least: int) -> np.ndarray | None:
    """Colours ``(a . point) mod c`` of the points of a grid; ``None`` if it takes too many."""
    rows, n = _sample(pattern), pattern.shape[1]
    best: np.ndarray | None = None
    for grid in _grids(rows, n, shapes):
        apart = _distances(rows, grid)
        if len(apart) > _FAR * least**2:
            continue
        limit = 2 * least if best is None else int(best.max())
        for count in range(least, limit + 1):
            for factors in lattice_factors(apart, count):
                colors = _lattice_colors(grid, factors, count)
                if _is_valid(pattern, colors, count):
                    best = colors
                    break
            else:
                continue
            break
        if best is not None and best.max() + 1 == least:
            return best
    return best


def _sample(pattern: Matrix) -> list[np.ndarray]:
    """The columns of some of the rows that have several: at both ends, and at random."""
    chosen = np.flatnonzero(np.diff(pattern.indptr) > 1)
    m = len(chosen)
    if m > 1000:
        ends = np.arange(100)
        random = np.random.default_rng(0).integers(0, m, 800)
        chosen = chosen[np.unique(np.concatenate([ends, m - 1 - ends, random]))]
    starts, stops = pattern.indptr[chosen], pattern.indptr[chosen + 1]
    return [pattern.indices[a:b] for a, b in zip(starts, stops, strict=True)]


def _grids(rows: list[np.ndarray], n: int, shapes: Sequence[Shape]) -> Iterator[Shape]:
    """Candidate grids, whose points the columns may be."""
    if shapes and len(set(shapes)) == 1:
        grid = tuple(d for d in (len(shapes), *shapes[0]) if d != 1)
        if 1 < len(grid) <= 4 and math.prod(grid) == n:
            yield grid
    apart, times = np.unique(np.concatenate([np.diff(row) for row in rows]), return_counts=True)
    often = apart[np.argsort(-times)][:8].tolist()
    yield (n,)
    # In a grid with rows of m points, the number of a point grows by m from row to row.
    likely = sorted({m + d for m in often for d in (-2, -1, 0, 1, 2) if m > 4})
    widths = [m for m in likely if 1 < m < n and n % m == 0]
    for m in widths:
        yield n // m, m
    for m, k in itertools.combinations(widths, 2):
        if k % m == 0:
            yield n // k, k // m, m


def _distances(rows: Sequence[np.ndarray], grid: Shape) -> np.ndarray:
    """The distances in a grid between any two points of a row, each once."""
    of_row = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    points = np.array(np.unravel_index(np.concatenate(rows), grid))
    # Each distance as one number: numbers are sorted faster than columns of coordinates.
    base = 2 * max(grid) + 1
    weights = base ** np.arange(len(grid), dtype=np.int64)
    numbers = []
    for k in range(1, max(map(len, rows))):
        together = of_row[k:] == of_row[:-k]
        apart = (points[:, k:] - points[:, :-k])[:, together]
        numbers.append(np.unique(weights @ (apart + base // 2)))
    codes = np.unique(np.concatenate(numbers))
    return codes[:, None] // weights % base - base // 2


def lattice_factors(apart: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Factors ``a`` that give points of one row different colours modulo ``count``; at most two."""
    rank = apart.shape[1]
    if count**rank * len(apart) > _TRIED:
        return
    tried = np.array(list(itertools.product(range(count), repeat=rank)))
    valid = (tried @ apart.T % count != 0).all(axis=1)
    yield from tried[valid][:2]


def _lattice_colors(grid: Shape, factors: np.ndarray, count: int) -> np.ndarray:
    lines = zip(factors, np.indices(grid, sparse=True), strict=True)
    return (sum(factor * index for factor, index in lines) % count).reshape(-1)


def _is_valid(pattern: Matrix, colors: np.ndarray, count: int) -> bool:
    keys = row_numbers(pattern) * count + colors[pattern.indices]
    return bool(np.bincount(keys, minlength=1).max() <= 1)


# --- acyclic colourings ---------------------------------------------------------------------------


class Substitution(NamedTuple):
    """The elements of a matrix as signed sums of elements of its products.

    Attributes:
      element: the element of the pattern that each term belongs to, in order.
      source, sign: the position of each term in the products, and its sign.
    """

    element: np.ndarray
    source: np.ndarray
    sign: np.ndarray


def _acyclic(pattern: Matrix, order: np.ndarray) -> np.ndarray:
    """The greedy acyclic colouring of the columns of a symmetric pattern."""
    near = _neighbours(pattern)
    colors = [-1] * len(near)
    # The forest of each pair of colours, as the parents of a disjoint-set structure.
    forests: dict[tuple[int, int], dict[int, int]] = collections.defaultdict(dict)
    for v in order.tolist():
        by_color: dict[int, list[int]] = collections.defaultdict(list)
        for w in near[v]:
            if colors[w] >= 0:
                by_color[colors[w]].append(w)
        color = 0
        while color in by_color or any(
            _are_joined(forests[min(color, c), max(color, c)], ws)
            for c, ws in by_color.items()
            if len(ws) > 1
        ):
            color += 1
        colors[v] = color
        for c, ws in by_color.items():
            forest = forests[min(color, c), max(color, c)]
            for w in ws:
                forest[_root(forest, w)] = _root(forest, v)
    return np.array(colors)


def _substitution(pattern: Matrix, colors: np.ndarray, most: int) -> Substitution | None:
    """The sums for an acyclic colouring; ``None`` if they have more than ``most`` terms.

    Sources are numbered as in :class:`Coloring`.
    """
    size, of = pattern.shape[0], colors.tolist()
    rows = row_numbers(pattern).tolist()
    number = {place: i for i, place in enumerate(zip(rows, pattern.indices.tolist(), strict=True))}
    terms: list[list[tuple[int, int]]] = [[] for _ in number]
    near: dict[tuple[int, int], set[int]] = collections.defaultdict(set)
    for (v, w), i in number.items():
        if v == w:
            terms[i] = [(of[v] * size + v, 1)]
        else:
            near[v, of[w]].add(w)
    # For each row and product, the sum that is left after known elements are subtracted.
    left = {(v, c): [(c * size + v, 1)] for v, c in near}
    leaves = collections.deque(key for key, ws in near.items() if len(ws) == 1)
    count = 0
    while leaves:
        v, c = leaves.popleft()
        if not near[v, c]:
            continue
        (w,) = near.pop((v, c))
        solution = left[v, c]
        count += 2 * len(solution)
        if count > most:
            return None
        terms[number[v, w]] = terms[number[w, v]] = solution
        parent = w, of[v]
        near[parent].discard(v)
        left[parent] += [(source, -sign) for source, sign in solution]
        if len(near[parent]) == 1:
            leaves.append(parent)
    element = np.repeat(np.arange(len(terms)), [len(solution) for solution in terms])
    source, sign = np.array([term for solution in terms for term in solution]).T
    return Substitution(element, source, sign)


def _root(forest: dict[int, int], v: int) -> int:
    while forest.setdefault(v, v) != v:
        forest[v] = forest[forest[v]]
        v = forest[v]
    return v


def _are_joined(forest: dict[int, int], vertices: list[int]) -> bool:
    """Whether any two of the vertices are in one tree."""
    return len({_root(forest, v) for v in vertices}) < len(vertices)
