"""Newton's method on a two-dimensional equation: a sparse Jacobian, found by the compiler.

The Bratu equation ``laplace(u) + lam exp(u) = 0`` on the unit square, ``u = 0`` on its boundary, is
discretised on a grid of ``size x size`` points.  Its Jacobian has five elements in each row, so it
takes five JVPs instead of one for each unknown; SciPy solves with it.  How the solution depends on
``lam`` follows from the same matrix, by the implicit function theorem: ``J du = - d residual``.

    python examples/sparse_newton.py --size 300
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
    """The solution, and its derivative with respect to ``lam``."""
    u = np.zeros((size, size))
    program = jaxmlir.trace(residual)(u, lam)
    pattern = program.jacobian_sparsity()
    jacobian = program.sparse_jacobian(pattern=pattern).optimize(2)
    print(f"{pattern!r}: {pattern.coloring()} instead of {u.size}")
    for step in range(20):
        wrong = np.asarray(program(u, lam))
        print(f"step {step}: residual {np.abs(wrong).max():.1e}")
        factors = factorised(jacobian(u, lam), pattern)
        if np.abs(wrong).max() < tolerance:
            break
        u = u - factors.solve(wrong.ravel()).reshape(u.shape)
    _, change = jax.jvp(lambda lam: program(u, lam), (lam,), (1.0,))
    sensitivity = -factors.solve(np.asarray(change).ravel()).reshape(u.shape)
    return u, sensitivity


def factorised(matrix, pattern):
    """The LU factors of a BCOO matrix of a known pattern."""
    parts = np.asarray(matrix.data), pattern.indices, pattern.indptr
    return linalg.splu(sparse.csr_matrix(parts, shape=matrix.shape).tocsc())


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
