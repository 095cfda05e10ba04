"""Derivatives of linear solves whose solvers iterate, against JAX and against matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread
from jax import lax
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

import jaxmlir
from jaxmlir.errors import TransformError

pytestmark = pytest.mark.compat

A = np.float32([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.5]])
THETA = np.float32([1.0, -0.5, 0.7])


def through_artifact(program, tmp_path):
    program.save(tmp_path / "program.jaxmlir")
    return jaxmlir.load(tmp_path / "program.jaxmlir")


def matvec_of(theta):
    return lambda v: A @ v + theta**2 * v


def symmetric(matvec, b):
    """Newton's only step; A is symmetric, so the transposed solve is the solver itself."""

    def solve(matvec, b):
        return jnp.linalg.solve(jax.jacobian(matvec)(b), b)

    return lax.custom_linear_solve(matvec, b, solve, symmetric=True)


def iterated(solver):
    return lambda matvec, b: solver(matvec, b, tol=1e-7)[0]


def loss(solve, theta):
    return jnp.sum(jnp.sin(solve(matvec_of(theta), theta * jnp.arange(1.0, 4.0))))


SOLVERS = {
    "symmetric": symmetric,
    "cg": iterated(cg),
    "gmres": iterated(gmres),
    "bicgstab": iterated(bicgstab),
}

DERIVATIVES = {
    "grad": (lambda p: p.grad()(THETA), lambda f: jax.grad(f)(THETA)),
    "hessian": (lambda p: p.hessian()(THETA), lambda f: jax.hessian(f)(THETA)),
    "jvp of grad": (
        lambda p: p.grad().jvp()((THETA,), (THETA,)),
        lambda f: jax.jvp(jax.grad(f), (THETA,), (THETA,)),
    ),
    "batch of grad": (
        lambda p: p.grad().vmap(axis_size=2)(np.stack([THETA, 2 * THETA])),
        lambda f: jax.vmap(jax.grad(f))(np.stack([THETA, 2 * THETA])),
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers(solver, derivative, tmp_path):
    ours, jaxs = DERIVATIVES[derivative]

    def f(theta):
        return loss(SOLVERS[solver], theta)

    program = jaxmlir.trace(f)(THETA)
    wanted = jaxs(f)
    for p in (program, through_artifact(program, tmp_path)):
        for got, want in zip(jax.tree.leaves(ours(p)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def root(tangent_solve, theta):
    """A function of the root of a cubic with parameters, found by Newton's method."""

    def f(z):
        return A @ z + 0.1 * z**3 - theta

    def newton(f, z):
        step = lambda _, z: z - jnp.linalg.solve(jax.jacobian(f)(z), f(z))  # noqa: E731
        return lax.fori_loop(0, 20, step, z)

    return jnp.sum(jnp.sin(lax.custom_root(f, jnp.zeros(3), newton, tangent_solve)))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("solver", "derivative"),
    [*((solver, "grad") for solver in SOLVERS), *(("cg", name) for name in DERIVATIVES)],
)
def test_the_tangent_of_a_root_is_solved_for(solver, derivative):
    """These solvers put their first guess on a device with the right-hand side; JAX takes the guess
    for linear too, and then has no reverse mode.  A dense solve gives the expected numbers."""
    ours, jaxs = DERIVATIVES[derivative]

    def dense(g, y):
        return jnp.linalg.solve(jax.jacobian(g)(y), y)

    program = jaxmlir.trace(lambda theta: root(SOLVERS[solver], theta))(THETA)
    wanted = jaxs(lambda theta: root(dense, theta))
    for p in (program, reread(program)):
        for got, want in zip(jax.tree.leaves(ours(p)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_what_a_transpose_lacks_is_said():
    def without(theta):
        def solve(matvec, b):
            return jnp.linalg.solve(A, b)

        return jnp.sum(lax.custom_linear_solve(lambda v: A @ v, theta, solve))

    program = jaxmlir.trace(without)(THETA)
    np.testing.assert_allclose(
        program.jvp()((THETA,), (THETA,))[1], jnp.sum(jnp.linalg.solve(A, THETA)), rtol=1e-5
    )
    with pytest.raises(TypeError, match="transpose_solve required"):
        jax.grad(without)(THETA)
    message = (
        r"test_linear_solves.py:\d+:\d+: error: 'jaxpr.custom_linear_solve' op: .*"
        r"transpose_solve required.*symmetric=True"
    )
    with pytest.raises(TransformError, match=message):
        program.grad()
    with pytest.raises(TransformError, match=message):
        jax.grad(program)(THETA)


def test_a_matrix_is_not_transposed():
    """The op is linear in b alone; JAX's error tells users to open an issue."""

    def in_matrix(scale):
        return lax.custom_linear_solve(
            lambda v: scale * v, jnp.ones(3), lambda _, b: b / scale, symmetric=True
        )

    with pytest.raises(NotImplementedError, match="open an issue"):
        jax.linear_transpose(in_matrix, THETA)(THETA)
    program = jaxmlir.trace(in_matrix)(THETA)
    with pytest.raises(TransformError, match=r"test_linear_solves.py:\d+.*its matvec, @"):
        jax.linear_transpose(program, THETA)(THETA)
