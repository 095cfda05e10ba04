"""``SparsityPattern``: which elements of a matrix of derivatives can be other than zero."""

from __future__ import annotations

import functools
import json
import os
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from scipy import sparse

from jaxmlir.errors import ArgumentError, Diagnostic
from jaxmlir.sparse import coloring

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO

MODES = ("auto", "forward", "reverse", "both")
_WIDTH, _HEIGHT = 64, 24
"""A picture has at most this many characters per line, and at most this many lines."""


class SparsityPattern:
    """The pattern of a Jacobian, or of a Hessian: a matrix of results by inputs.

    Rows are the elements of the program's flat results, columns the elements of the flat arguments
    that it is differentiated in, in the order of ``jax.flatten_util.ravel_pytree``.  An element
    outside the pattern is zero for all arguments; one inside may be zero for some arguments or all.

    Args:
      shape: the numbers of rows and columns.
      indptr, indices: the columns of each row in order, as in SciPy's CSR.
      in_shapes, out_shapes: the shapes of the arrays whose elements are the columns and the rows.
      symmetric: whether the matrix is symmetric, and needs fewer products.
      reasons: the ops that made it dense, each with the user's line.
    """

    def __init__(
        self,
        shape: Sequence[int],
        indptr: np.ndarray,
        indices: np.ndarray,
        *,
        in_shapes: Sequence[Sequence[int]] = (),
        out_shapes: Sequence[Sequence[int]] = (),
        symmetric: bool = False,
        reasons: Sequence[Diagnostic] = (),
    ):
        self.shape: tuple[int, int] = (int(shape[0]), int(shape[1]))
        self.indptr: np.ndarray = indptr
        self.indices: np.ndarray = indices
        self.in_shapes: tuple[tuple[int, ...], ...] = tuple(map(tuple, in_shapes))
        self.out_shapes: tuple[tuple[int, ...], ...] = tuple(map(tuple, out_shapes))
        self.symmetric = symmetric
        self.reasons: tuple[Diagnostic, ...] = tuple(reasons)

    @classmethod
    def of_matrix(cls, matrix: sparse.csr_matrix, *, symmetric: bool, **others: Any) -> Self:
        """The pattern of a matrix; if it is ``symmetric``, of the elements whose mirror images it
        has, too."""
        if symmetric:
            matrix = matrix.multiply(matrix.T).tocsr()
        matrix.sort_indices()
        parts = matrix.shape, matrix.indptr, matrix.indices
        return cls(*parts, symmetric=symmetric, **others)

    # -- the elements --

    @property
    def nnz(self) -> int:
        """How many elements can be other than zero."""
        return len(self.indices)

    @property
    def density(self) -> float:
        """The fraction of all elements that can be other than zero."""
        return self.nnz / max(1, self.shape[0] * self.shape[1])

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """The row of each element, in row-major order."""
        return coloring.row_numbers(self.to_scipy())

    @property
    def cols(self) -> np.ndarray:
        """The column of each element, in row-major order."""
        return self.indices

    def to_scipy(self) -> sparse.csr_matrix:
        """The pattern as SciPy's CSR matrix of booleans."""
        parts = np.ones(self.nnz, bool), self.indices, self.indptr
        return sparse.csr_matrix(parts, shape=self.shape)

    def to_bcoo(self) -> BCOO:
        """The pattern as JAX's BCOO matrix, of ones."""
        from jax.experimental.sparse import BCOO

        indices = np.stack([self.rows, self.cols], axis=1).astype(np.int32)
        parts = jax.numpy.ones(self.nnz, np.float32), jax.numpy.asarray(indices)
        return BCOO(parts, shape=self.shape, indices_sorted=True, unique_indices=True)

    def to_dense(self) -> np.ndarray:
        """The pattern as an array of booleans."""
        return self.to_scipy().toarray()

    # -- colourings --

    @property
    def colors(self) -> int:
        """The number of products with vectors that determine the matrix, in the best mode."""
        return self.coloring("auto").total

    def coloring(self, mode: str = "auto") -> coloring.Coloring:
        """The products with vectors that determine the matrix.

        Args:
          mode: ``"forward"`` (JVPs), ``"reverse"`` (VJPs), ``"both"``, or ``"auto"``: the fewest;
            for a symmetric matrix, JVPs by star or acyclic colouring.

        Raises:
          ArgumentError: there is no such mode.
        """
        if mode not in MODES:
            raise ArgumentError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
        colorings = self.__dict__.setdefault("_colorings", {})
        if mode not in colorings:
            if self.symmetric and mode == "auto":
                colorings[mode] = coloring.color_symmetric(self.to_scipy(), self.in_shapes)
            else:
                matrix = self.to_scipy()
                colorings[mode] = coloring.color(matrix, mode, self.in_shapes, self.out_shapes)
        return colorings[mode]

    # -- files --

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the pattern to one file of numpy's format, which :meth:`load` reads.

        Raises:
          OSError: the file cannot be written.
        """
        about = {
            "shape": self.shape,
            "in_shapes": self.in_shapes,
            "out_shapes": self.out_shapes,
            "symmetric": self.symmetric,
            "reasons": [reason[:5] for reason in self.reasons],
        }
        with open(path, "wb") as file:
            np.savez_compressed(
                file, indptr=self.indptr, indices=self.indices, about=json.dumps(about)
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SparsityPattern:
        """The pattern that :meth:`save` wrote.

        Raises:
          ArgumentError: the file is no such pattern.
          OSError: the file cannot be read.
        """
        try:
            with open(path, "rb") as file:
                parts = np.load(file, allow_pickle=False)
                about = json.loads(str(parts["about"]))
                indptr, indices = parts["indptr"], parts["indices"]
            reasons = [Diagnostic(*reason) for reason in about.pop("reasons")]
            pattern = cls(about.pop("shape"), indptr, indices, reasons=reasons, **about)
            pattern.to_scipy().check_format()
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            EOFError,
            zipfile.BadZipFile,
        ) as e:
            raise ArgumentError(f"{os.fspath(path)} is not a sparsity pattern: {e}") from e
        return pattern

    # -- pictures --

    def __repr__(self) -> str:
        m, n = self.shape
        return f"<SparsityPattern {m} x {n}, {self.nnz} elements ({self.density:.2g})>"

    def __str__(self) -> str:
        """The pattern in braille, eight elements per character, with :attr:`reasons` below."""
        lines = [repr(self), *self._braille(), *map(str, self.reasons)]
        return "\n".join(lines)

    def _braille(self) -> list[str]:
        dots = self._dots(4 * _HEIGHT, 2 * _WIDTH)
        h, w = -(-dots.shape[0] // 4), -(-dots.shape[1] // 2)
        padded = np.zeros((4 * h, 2 * w), int)
        padded[: dots.shape[0], : dots.shape[1]] = dots
        bits = np.array([[1, 8], [2, 16], [4, 32], [64, 128]])
        codes = np.einsum("hiwj,ij->hw", padded.reshape(h, 4, w, 2), bits)
        return ["".join(chr(0x2800 + int(code)) for code in line) for line in codes]

    def _dots(self, height: int, width: int) -> np.ndarray:
        """The pattern, scaled down to at most ``height`` by ``width`` dots."""
        scale = max(1.0, self.shape[0] / height, self.shape[1] / width)
        size = [max(1, int(np.ceil(n / scale))) for n in self.shape]
        dots = np.zeros(size, bool)
        if self.nnz:
            dots[(self.rows / scale).astype(int), (self.cols / scale).astype(int)] = True
        return dots

    def _repr_html_(self) -> str:
        """The picture that a notebook shows: an SVG image of at most 200 x 200 dots."""
        dots = self._dots(200, 200)
        h, w = dots.shape
        marks = "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(dots))
        text = repr(self).replace("<", "&lt;").replace(">", "&gt;")
        return (
            f'<div>{text}<br><svg viewBox="0 0 {w} {h}" width="{min(400, 8 * w)}" '
            f'style="border:1px solid #888"><path d="{marks}" fill="currentColor"/></svg></div>'
        )

    def spy(self, ax: Any = None, **options: Any) -> Any:
        """The pattern as a plot of matplotlib, which has to be installed.

        Args:
          ax: the axes to plot in, by default the current ones.
          options: options of matplotlib's ``spy``.

        Returns:
          The axes.
        """
        from matplotlib import pyplot

        ax = pyplot.gca() if ax is None else ax
        ax.spy(self.to_scipy(), **({"markersize": 1} | options))
        return ax
