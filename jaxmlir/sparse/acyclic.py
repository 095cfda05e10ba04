"""Acyclic colourings of symmetric matrices, which are told by substitution.

Where columns of two colours form trees, an element of a leaf is all that the leaf's row has in a
product.  It is subtracted from its parent's row, and so on up the tree (Coleman and Cai 1986;
Gebremedhin et al. 2007).  This takes fewer colours than star colouring, whose trees are stars, but
an element is a sum of as many terms as the tree below it has vertices.
"""

from __future__ import annotations

import collections
from typing import NamedTuple

import numpy as np
from scipy import sparse


class Substitution(NamedTuple):
    """Elements of a matrix as sums of elements of its products, with signs.

    Attributes:
      element: which element of the pattern each term belongs to, in order.
      source, sign: of each term.
    """

    element: np.ndarray
    source: np.ndarray
    sign: np.ndarray


def colors_of(pattern: sparse.csr_matrix, order: np.ndarray) -> np.ndarray:
    """Greedy acyclic colours of the columns of a symmetric pattern."""
    near = _neighbours(pattern)
    colors = [-1] * len(near)
    # Of each pair of colours the forest, as parents in a disjoint-set structure.
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


def substitution(pattern: sparse.csr_matrix, colors: np.ndarray, most: int) -> Substitution | None:
    """How an acyclic colouring tells all elements; ``None`` if it takes more than ``most`` terms.

    Sources are numbered as in :class:`~jaxmlir.sparse.coloring.Coloring`.
    """
    size, of = pattern.shape[0], colors.tolist()
    rows = np.repeat(np.arange(size), np.diff(pattern.indptr)).tolist()
    number = {place: i for i, place in enumerate(zip(rows, pattern.indices.tolist(), strict=True))}
    terms: list[list[tuple[int, int]]] = [[] for _ in number]
    near: dict[tuple[int, int], set[int]] = collections.defaultdict(set)
    for (v, w), i in number.items():
        if v == w:
            terms[i] = [(of[v] * size + v, 1)]
        else:
            near[v, of[w]].add(w)
    # What a row has in a product, without the elements that are told.
    left = {(v, c): [(c * size + v, 1)] for v, c in near}
    leaves = collections.deque(key for key, ws in near.items() if len(ws) == 1)
    count = 0
    while leaves:
        v, c = leaves.popleft()
        if not near[v, c]:
            continue
        (w,) = near.pop((v, c))
        found = left[v, c]
        count += 2 * len(found)
        if count > most:
            return None
        terms[number[v, w]] = terms[number[w, v]] = found
        parent = w, of[v]
        near[parent].discard(v)
        left[parent] += [(source, -sign) for source, sign in found]
        if len(near[parent]) == 1:
            leaves.append(parent)
    element = np.repeat(np.arange(len(terms)), [len(found) for found in terms])
    source, sign = np.array([term for found in terms for term in found]).T
    return Substitution(element, source, sign)


def _neighbours(pattern: sparse.csr_matrix) -> list[list[int]]:
    indptr, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    ends = zip(indptr, indptr[1:], strict=False)
    return [[w for w in indices[a:b] if w != v] for v, (a, b) in enumerate(ends)]


def _root(forest: dict[int, int], v: int) -> int:
    while forest.setdefault(v, v) != v:
        forest[v] = forest[forest[v]]
        v = forest[v]
    return v


def _are_joined(forest: dict[int, int], vertices: list[int]) -> bool:
    """Whether any two of them are in one tree."""
    return len({_root(forest, v) for v in vertices}) < len(vertices)
