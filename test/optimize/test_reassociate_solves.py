"""Linear systems solved only for the vectors that are needed: which are, and JAX's numbers."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve, solve_triangular
from sampling import examples

import jaxmlir

RNG = np.random.RandomState(0)
A = (RNG.randn(6, 6) + 4 * np.eye(6)).astype(np.float32)
B = RNG.randn(6, 4).astype(np.float32)
V = RNG.randn(4).astype(np.float32)
Y = RNG.randn(6).astype(np.float32)
SPD = A @ A.T


def rewritten(function, *args):
    """The program after the pass, and its remarks."""
    remarks = []
    program = jaxmlir.trace(function)(*args).optimize(1)
    after = program.run_passes("jaxpr-reassociate-solves, jaxpr-dce", remarks=remarks.append)
    after.verify()
    return after, remarks


def same_as_jax(program, function, *args):
    np.testing.assert_allclose(program(*args), function(*args), 1e-4, 1e-5)

    def scalar(f):
        return lambda *args: jnp.sum(jnp.sin(f(*args)))

    def gradient(f):
        return jax.jit(jax.grad(scalar(f), tuple(range(len(args)))))(*args)

    for a, b in zip(gradient(program), gradient(function), strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-4 * max(1, np.abs(b).max()))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("function", "args", "count"),
    {
        "quadratic form": (lambda a, y: y @ jnp.linalg.inv(a) @ y, (A, Y), 1),
        "columns": (lambda a, y: jnp.linalg.inv(a) @ y, (A, Y), 1),
        "rows": (lambda a, y: y @ jnp.linalg.inv(a), (A, Y), 1),
        "transposed": (lambda a, y: jnp.linalg.inv(a).T @ y, (A, Y), 1),
        "right sides": (lambda a, b, v: jnp.linalg.solve(a, b) @ v, (A, B, V), 1),
        "rows of right sides": (lambda a, b, y: y @ jnp.linalg.solve(a, b), (A, B, Y), 1),
        "as many": (lambda a, y: jnp.outer(y, y) @ jnp.linalg.inv(a), (A, Y), 1),
        "twice": (lambda a, y: (i := jnp.linalg.inv(a)) @ y + y @ i, (A, Y), 1),
        "triangular": (
            lambda a, y: y @ solve_triangular(jnp.tril(a), jnp.eye(6), lower=True),
            (A, Y),
            1,
        ),
        "by Cholesky": (lambda a, y: cho_solve(cho_factor(a), jnp.eye(6)) @ y, (SPD, Y), 2),
        # The solution is a result, or a batch, or there are more vectors than right-hand sides.
        "with itself": (
            lambda a, b: (s := jnp.linalg.solve(a, jnp.tile(b, (1, 20)))) @ s.T,
            (A, B),
            0,
        ),
        "returned": (lambda a: jnp.trace(i := jnp.linalg.inv(a)) * jnp.sum(i @ a), (A,), 0),
        "of a batch": (
            lambda a, y: jnp.linalg.inv(jnp.stack([a, 2 * a])) @ y,
            (A, Y),
            0,
        ),
        "of a batch with a vector each": (
            lambda a, y: jax.vmap(jnp.linalg.solve)(jnp.stack([a] * 8), jnp.stack([y] * 8)) @ y,
            (A, Y),
            0,
        ),
        "more vectors": (lambda a, v: jnp.linalg.solve(a, v[:, None]) @ v[None], (A, Y), 0),
    }.values(),
)
def test_what_is_solved_for(function, args, count):
    program, remarks = rewritten(function, *args)
    assert len(remarks) == count
    same_as_jax(program, function, *args)


def test_no_two_ways_take_turns():
    """The pass must not rewrite ``y^T (A^-1 B)`` and ``(A^-T y)^T B`` into each other forever."""
    a, b, y = (RNG.randn(*shape).astype(np.float32) for shape in ((6, 6), (6, 5), (1, 6)))

    def function(a, b, y):
        return y @ jax.scipy.linalg.solve_triangular(a, b, lower=True)

    remarks = []
    program = jaxmlir.trace(function)(a, b, y).optimize(1)
    program.run_passes("jaxpr-reassociate-solves{min-gain=0}", remarks=remarks.append)
    assert len(remarks) == 1


def test_factors_keep_their_precision_where_they_change_places():
    def function(a, b, y):
        x = jax.scipy.linalg.solve_triangular(a, b, lower=True)
        return jnp.matmul(y, x.T, precision=("highest", "default"))

    program, (_,) = rewritten(function, A, A, Y)
    (product,) = [line for line in str(program).splitlines() if "dot_general" in line]
    assert product.index("DEFAULT") < product.index("HIGHEST")


def test_one_factorization_serves_both_systems():
    def function(a, y):
        inverse = jnp.linalg.inv(a)
        return inverse @ y + y @ inverse

    program, _ = rewritten(function, A, Y)
    assert str(program).count('"jaxpr.lu"') == 1


def test_complex_and_empty():
    a, y = A + 1j * A.T, Y - 2j
    for function in (
        lambda a, y: jnp.linalg.inv(a) @ y,
        lambda a, y: y @ jnp.linalg.inv(a),
        lambda a, y: y @ jnp.linalg.inv(a).conj(),
    ):
        program, _ = rewritten(function, a, y)
        np.testing.assert_allclose(program(a, y), function(a, y), 1e-4, 1e-5)
    none = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
    program, _ = rewritten(lambda a, y: jnp.linalg.inv(a) @ y, *none)
    assert program(*none).shape == (0,)


def test_singular_matrices_have_no_solution():
    program, remarks = rewritten(lambda a, y: jnp.linalg.inv(a) @ y, A, Y)
    assert remarks and not np.isfinite(program(np.zeros_like(A), Y)).any()


def test_rows_that_a_type_cannot_number_make_no_identity():
    """In eight bits, row 256 has the number 0 again."""
    a, y = np.diag(np.arange(1.0, 301)).astype(np.float32), np.ones(300, np.float32)

    def function(a, y):
        i, j = (jax.lax.broadcasted_iota(np.int8, a.shape, d) for d in (0, 1))
        return solve_triangular(a, (i == j).astype(a.dtype)) @ y

    program, _ = rewritten(function, a, y)
    np.testing.assert_allclose(program(a, y), function(a, y), 1e-5)


@pytest.mark.parametrize("shapes", [((1, 30), (30, 30)), ((30, 30), (30, 1))])
def test_rows_of_one_number_make_no_identity(shapes):
    """A single row's number, zero, equals only the number of the first column."""

    def function(a, y):
        i, j = (lax.broadcasted_iota(np.int32, shape, d) for d, shape in enumerate(shapes))
        return solve_triangular(a, lax.eq(i, j).astype(a.dtype), lower=True) @ y

    a, y = np.tril(RNG.randn(30, 30)) + 9 * np.eye(30), RNG.randn(30)
    a, y = a.astype(np.float32), y.astype(np.float32)
    program, _ = rewritten(function, a, y)
    np.testing.assert_allclose(program(a, y), function(a, y), 1e-5, 1e-6)


FACTORS = {
    "inv": lambda a, b: jnp.linalg.inv(a),
    "solve": jnp.linalg.solve,
    "triangular": lambda a, b: solve_triangular(jnp.triu(a), b),
    "plain": lambda a, b: b / 6,
}


@pytest.mark.compat
@examples(12)
@hypothesis.given(
    kinds=st.lists(
        st.tuples(st.sampled_from(sorted(FACTORS)), st.booleans()), min_size=1, max_size=4
    ),
    left=st.booleans(),
)
def test_random_chains(kinds, left):
    def function(a, b, y):
        product = None
        for kind, transposed in kinds:
            factor = FACTORS[kind](a, b)
            factor = factor.T if transposed else factor
            product = factor if product is None else product @ factor
        return y @ product if left else product @ y

    args = A, RNG.randn(6, 6).astype(np.float32), Y
    program, _ = rewritten(function, *args)
    want = function(*args)
    np.testing.assert_allclose(program(*args), want, 1e-3, 1e-4 * np.abs(want).max())
