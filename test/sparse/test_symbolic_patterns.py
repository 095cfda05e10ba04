"""Patterns for symbolic sizes, compared with the patterns at given sizes."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.export import symbolic_shape

import jaxmlir
from jaxmlir.errors import ArgumentError

(N,) = symbolic_shape("n", constraints=["n >= 4"])
ROWS, COLS = symbolic_shape("n, m", constraints=["n >= 4", "m >= 4"])


def star(u):
    padded, total = jnp.pad(u, 1), jnp.exp(u)
    for d in range(u.ndim):
        for shift in (-1, 1):
            near = jnp.roll(padded, shift, d)[(slice(1, -1),) * u.ndim]
            total += near * (1 + d)
    return total


def ring(u):
    return jnp.roll(u, 1, 0) - 2 * jnp.sin(u) + jnp.roll(u, -1, 0)


def reaction(uv):
    u, v = uv
    return ring(uv[:, :, None] * uv[:, None, :])[0] + jnp.stack([u * v**2, u - v])[:, :, None]


def finite_volume(u):
    left = jnp.arange(u.size)
    return jnp.zeros(u.size + 1).at[left].add(u[left] ** 2).at[left + 1].add(-u[left])


def strided_kernel(u):
    kernel = np.array([1.0, 0.0, 2.0, 3.0], np.float32)[None, None]
    return lax.conv_general_dilated(u[None, None], kernel, (2,), [(1, 2)])[0, 0]


def running(u):
    def body(carry, x):
        return carry * 2, x * carry

    carry, products = lax.scan(body, u[0], u)
    return jnp.where(products > 0, products, carry)


# The function, its argument's shape, the number of products at all sizes, and whether the pattern
# may have more elements than that at given sizes.
CASES = {
    "line": (star, (N,), 3, False),
    "plane": (star, (ROWS, COLS), 5, False),
    "steps": (lambda u: lax.fori_loop(0, 2, lambda i, c: star(c), u), (N,), 5, False),
    "ring": (ring, (N,), 5, False),
    "torus": (ring, (ROWS, COLS), None, False),
    "components": (lambda uv: star(uv[0]) + uv[1:] ** 2, (2, N), 4, False),
    "inner": (lambda u: u.at[1:-1].set(u[2:] * u[:-2]), (N,), 3, False),
    "written": (lambda u: lax.dynamic_update_slice(u, u[:2], (1,)), (N,), 1, False),
    "ends": (lambda u: u[-1] * u[1:] + u[0], (N,), 3, False),
    "strides": (lambda u: u[::2] * 2, (N,), None, False),
    "half": (lambda u: u[u.size // 2 :], (N,), None, False),
    "reversed": (lambda u: u[::-1] ** 2, (N,), None, False),
    "kernel": (strided_kernel, (N,), None, False),
    "pooled": (
        lambda u: lax.reduce_window(u, -jnp.inf, lax.max, (3,), (1,), "SAME"),
        (N,),
        3,
        False,
    ),
    "edges": (finite_volume, (N,), 2, False),
    "sum": (lambda x: jnp.sum(x, 0), (ROWS, COLS), None, False),
    "centred": (lambda x: x - jnp.mean(x), (N,), None, False),
    "running sum": (jnp.cumsum, (N,), None, False),
    "sorted": (lambda x: jnp.sort(x, -1), (ROWS, COLS), None, False),
    "flat": (lambda x: star(x.reshape(-1)).reshape(x.shape), (ROWS, COLS), None, False),
    "across": (lambda x: star(x.reshape(-1)).reshape(x.shape[::-1]), (ROWS, COLS), None, True),
    "scan": (running, (N,), 2, False),
    "loop": (lambda u: lax.fori_loop(0, u.size, lambda i, c: star(c), u), (N,), None, True),
    "solve": (lambda u: jnp.linalg.solve(jnp.diag(u), u), (N,), None, True),
    "unwritten": (lambda u: u.at[jnp.zeros(u.size - 4, int)].set(0.0), (N,), 1, True),
    "truth": (
        lambda u: u[jnp.where((0 * jnp.arange(u.size) - 1).astype(bool), 1, 0)],
        (N,),
        1,
        False,
    ),
}


def at(shape, n, m):
    return tuple(d if isinstance(d, int) else d._evaluate({"n": n, "m": m}) for d in shape)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_a_pattern_at_all_sizes_is_that_at_each(name):
    f, shape, colors, is_loose = CASES[name]
    program = jaxmlir.trace(f)(jax.ShapeDtypeStruct(shape, np.float32))
    pattern = program.jacobian_sparsity()
    assert pattern.colors == colors
    for n, m in ((4, 5), (7, 4)):
        x = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1, at(shape, n, m)), jnp.float32)
        found = pattern.at(**{v: s for v, s in {"n": n, "m": m}.items() if v in pattern.variables})
        wanted = program.specialize(x).jacobian_sparsity()
        assert not (wanted.to_dense() & ~found.to_dense()).any()
        assert is_loose or found.nnz == wanted.nnz
        if colors:
            matrix = program.sparse_jacobian(pattern=pattern)(x)
            by_jax = np.asarray(jax.jacfwd(f)(x)).reshape(matrix.shape)
            np.testing.assert_allclose(matrix.todense(), by_jax, rtol=1e-5, atol=1e-6)


def test_several_arguments_and_results():
    def f(matrix, x):
        return matrix @ x, jnp.sin(x)[:, None] * matrix.T

    shapes = ROWS, COLS
    args = [jax.ShapeDtypeStruct(shape, np.float32) for shape in (shapes, shapes[1:])]
    pattern = jaxmlir.trace(f)(*args).jacobian_sparsity((1, 0))
    x = [jnp.ones((5, 4)), jnp.ones(4)]
    wanted = jaxmlir.trace(f)(*x).jacobian_sparsity((1, 0))
    np.testing.assert_array_equal(pattern.at(n=5, m=4).to_dense(), wanted.to_dense())


def test_a_pattern_says_what_it_is():
    program = jaxmlir.trace(star)(jax.ShapeDtypeStruct((N,), np.float32))
    assert str(program.jacobian_sparsity()).splitlines() == [
        "<SymbolicPattern n x n: diagonals -1, 0, 1, 3 JVPs>",
        "  [i] of [i], 0 <= i < n",
        "  [i] of [i + 1], 0 <= i < n - 1",
        "  [i] of [i - 1], 1 <= i < n",
    ]
    f, shape, *_ = CASES["loop"]
    pattern = jaxmlir.trace(f)(jax.ShapeDtypeStruct(shape, np.float32)).jacobian_sparsity()
    assert Path(__file__).name in str(pattern.reasons[0])
    assert "its carry depends on more inputs in each iteration" in str(pattern.reasons[0])


@pytest.mark.compat
def test_a_sparse_hessian_of_symbolic_sizes_is_a_program(tmp_path):
    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    program = jaxmlir.trace(rosenbrock)(jax.ShapeDtypeStruct((N,), np.float32))
    assert program.hessian_sparsity().symmetric
    program.sparse_hessian(chunk_size=1).save(tmp_path / "hessian.jaxmlir")
    hessian = jaxmlir.load(tmp_path / "hessian.jaxmlir").optimize(2)
    for n in (4, 9):
        x = jnp.linspace(0.1, 1, n)
        wanted = jax.hessian(rosenbrock)(x)
        np.testing.assert_allclose(hessian(x).todense(), wanted, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(hessian(x) @ x, wanted @ x, rtol=1e-4, atol=1e-2)


def test_what_depends_on_sizes_is_refused_and_named():
    program = jaxmlir.trace(ring)(jax.ShapeDtypeStruct((ROWS, COLS), np.float32))
    with pytest.raises(ArgumentError, match=r"depend on the sizes.*\n?.*program.specialize"):
        program.sparse_jacobian()
    pattern = program.jacobian_sparsity()
    with pytest.raises(ArgumentError, match="a positive integer for each of m, n, got n=5"):
        pattern.at(n=5)
    with pytest.raises(ArgumentError, match="violate the constraint 'n >= 4'"):
        pattern.at(n=3, m=5)
    line = jaxmlir.trace(star)(jax.ShapeDtypeStruct((N,), np.float32))
    with pytest.raises(ArgumentError, match="expected mode 'auto' or 'forward', got 'reverse'"):
        line.sparse_jacobian(mode="reverse")
