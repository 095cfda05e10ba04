"""Newton's method on a two-dimensional equation: a sparse Jacobian, found by the compiler.

The Bratu equation ``laplace(u) + lam exp(u) = 0`` on the unit square, ``u = 0`` on its boundary, is
discretised on a grid of ``size x size`` points.  Its Jacobian has five elements in each row, so it
takes five JVPs instead of one for each unknown.  SciPy's conjugate gradients solve linear systems,
with one multigrid cycle as the preconditioner.  The work is proportional to the number of unknowns,
so a million take half a minute.  The derivative of the solution with respect to ``lam`` follows
from the same matrix by the implicit function theorem: ``J du = - d residual``.

    python examples/sparse_newton.py --size 1000
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import jaxmlir


def residual(u, lam):
    n = u.shape[0] + 1
    padded = jnp.pad(u, 1)
    near = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    return (near - 4 * u) * n**2 + lam * jnp.exp(u)


def solve(size: int, lam: float = 5.0, tolerance: float = 1e-8):
    """The solution, and its derivative with respect to ``lam``.

    Args:
      tolerance: the allowed residual, relative to the residual at zero.
    """
    u = np.zeros((size, size))
    program = jaxmlir.trace(residual)(u, lam)
    pattern = program.jacobian_sparsity()
    jacobian = program.sparse_jacobian(pattern=pattern)
    print(f"{pattern!r}: {pattern.coloring()} instead of {u.size}")
    for step in range(20):
        wrong = np.asarray(program(u, lam))
        print(f"step {step}: residual {np.abs(wrong).max():.1e}", flush=True)
        parts = np.asarray(jacobian(u, lam).data), pattern.indices, pattern.indptr
        grids = Multigrid(-sparse.csr_matrix(parts, shape=pattern.shape), size)
        if np.abs(wrong).max() < tolerance * lam:
            break
        u = u + grids.solve(wrong.ravel()).reshape(u.shape)
    _, change = jax.jvp(lambda lam: program(u, lam), (lam,), (1.0,))
    sensitivity = grids.solve(np.asarray(change).ravel()).reshape(u.shape)
    return u, sensitivity


class Multigrid:
    """Solves with a positive definite matrix on a grid of ``size x size`` points.

    Each coarser grid has every other point; its matrix is ``P^T A P``, where ``P`` interpolates.
    """

    def __init__(self, matrix: sparse.csr_matrix, size: int):
        self.levels = []
        while size > COARSEST:
            line = interpolation(size)
            up = sparse.kron(line, line, "csr")
            self.levels.append((matrix, up, up.T.tocsr(), 0.8 / matrix.diagonal()))
            matrix, size = self.levels[-1][2] @ matrix @ up, size // 2
        self.coarsest = linalg.splu(matrix.tocsc())

    def cycle(self, b: np.ndarray, level: int = 0) -> np.ndarray:
        """An approximate solution: a Jacobi step before and after the coarser grid's correction."""
        if level == len(self.levels):
            return self.coarsest.solve(b)
        matrix, up, down, step = self.levels[level]
        x = step * b
        x += up @ self.cycle(down @ (b - matrix @ x), level + 1)
        return x + step * (b - matrix @ x)

    def solve(self, b: np.ndarray) -> np.ndarray:
        if not self.levels:
            return self.coarsest.solve(b)
        matrix = self.levels[0][0]
        cycle = linalg.LinearOperator(matrix.shape, self.cycle)
        x, failed = linalg.cg(matrix, b, rtol=1e-10, maxiter=100, M=cycle)
        if failed:
            raise RuntimeError("conjugate gradients did not converge in 100 iterations")
        return x


COARSEST = 20


def interpolation(size: int) -> sparse.csr_matrix:
    """Linear interpolation to ``size`` points of a line from every other one of them."""
    whole = sparse.diags([0.5, 1.0, 0.5], [-1, 0, 1], shape=(size, size), format="csc")
    return whole[:, 1 : 2 * (size // 2) : 2].tocsr()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=100, help="points along a side")
    size = parser.parse_args().size
    with jax.enable_x64(True):
        start = time.perf_counter()
        u, sensitivity = solve(size)
        seconds = time.perf_counter() - start
        print(f"{size * size} unknowns in {seconds:.1f} s: u is {u.max():.6f} at most")
        nearby, _ = solve(size, 5.0 + 1e-4)
        error = np.abs((nearby - u) / 1e-4 - sensitivity).max()
        print(f"its derivative in lam differs from a difference quotient by {error:.1e}")


if __name__ == "__main__":
    main()
