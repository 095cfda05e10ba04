"""Matrices inverted before loops of solves: which ones are, and that numbers equal JAX's."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir.passes import level_pipeline

RNG = np.random.RandomState(0)
A = (RNG.randn(6, 6) + 6 * np.eye(6)).astype(np.float32)
X = RNG.randn(6).astype(np.float32)


def rewritten(function, *args, options=""):
    """The program after the pass, and how many solves have become products."""
    remarks = []
    solves = f"jaxpr-reassociate-solves{options}"
    pipeline = f"{level_pipeline(1)},jaxpr-licm,{solves},jaxpr-cse,jaxpr-dce"
    after = jaxmlir.trace(function)(*args).run_passes(pipeline, remarks=remarks.append)
    after.verify()
    return after, sum("inverted once" in remark.message for remark in remarks)


def loop(solve, length=20):
    def function(a, x):
        return lax.fori_loop(0, length, lambda _, x: solve(a, x) + 0.5 * jnp.sin(x), x)

    return function


def nested(a, x):
    def outer(x, s):
        return loop(jnp.linalg.solve)(a + s * jnp.eye(6), x), x[0]

    return lax.scan(outer, x, jnp.ones(3))[0]


def by_diagonal(a, x):
    d = jnp.diag(a)
    return lax.custom_linear_solve(lambda x: d * x, x, lambda _, b: b / d, symmetric=True)


def with_other_factors(a, x):
    """Solves by factors that the loop carries and changes."""
    factors, _, permutation = lax.linalg.lu(lax.stop_gradient(a))

    def step(carry, _):
        lu, x = carry

        def solve(b, lower):
            return lax.linalg.triangular_solve(
                lu, b, left_side=True, lower=lower, unit_diagonal=lower
            )

        def by_factors(_, b):
            return solve(solve(b[:, None], True), False)[permutation, 0]

        x = lax.custom_linear_solve(
            lambda x: jnp.dot(a, x, precision="highest"), x, by_factors, by_factors
        )
        return (0.9 * lu, jnp.sin(x)), None

    return lax.scan(step, (factors, x), None, length=20)[0][1]


def same_as_jax(program, function, *args, jacobian=jax.jacrev):
    np.testing.assert_allclose(program(*args), function(*args), 1e-5, 1e-6)
    want = jax.jit(jacobian(function, (0, 1)))(*args)
    for a, b in zip(jax.jit(jacobian(program, (0, 1)))(*args), want, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5 * np.abs(b).max())


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize(
    ("function", "args", "count"),
    {
        "vector": (loop(jnp.linalg.solve), (A, X), 1),
        "columns": (loop(jnp.linalg.solve), (A, np.stack([X, -X, X**2], 1)), 1),
        "as many as rows": (loop(jnp.linalg.solve), (A, A), 1),
        "rows": (loop(jax.vmap(jnp.linalg.solve, (None, 0))), (A, np.stack([X, -X])), 1),
        "batch": (
            loop(jax.vmap(jnp.linalg.solve)),
            (np.stack([A, 2 * A, A.T]), np.stack([X, -X, X])),
            1,
        ),
        "twice": (
            loop(lambda a, x: jnp.linalg.solve(a, jnp.sin(jnp.linalg.solve(a, x)))),
            (A, X),
            2,
        ),
        "loop in a loop": (nested, (A, X), 1),
        # The loop is too short, the matrix changes, other solvers, or many right-hand sides.
        "short": (loop(jnp.linalg.solve, 9), (A, X), 0),
        "another matrix": (
            loop(lambda a, x: jnp.linalg.solve(a + x[0] ** 2 * jnp.eye(6), x)),
            (A, X),
            0,
        ),
        "symmetric": (
            loop(lambda a, x: jax.scipy.linalg.solve(a @ a.T, x, assume_a="pos")),
            (A, X),
            0,
        ),
        "diagonal": (loop(by_diagonal), (A, X), 0),
        "other factors": (with_other_factors, (A, X), 0),
        "many": (loop(jnp.linalg.solve), (A, np.ones((6, 17), np.float32)), 0),
    }.values(),
)
def test_what_is_inverted(function, args, count):
    program, found = rewritten(function, *args)
    assert found == count
    same_as_jax(program, function, *args)


def test_a_product_by_a_named_algorithm_is_not_known_to_be_exact():
    def function(a, x):
        lu, _, permutation = lax.linalg.lu(lax.stop_gradient(a))

        def solve(_, b):
            for lower in (True, False):
                b = lax.linalg.triangular_solve(
                    lu, b, left_side=True, lower=lower, unit_diagonal=lower
                )
            return b[permutation]

        def times(x):
            return jnp.matmul(a, x, precision="F32_F32_F32")

        return lax.fori_loop(
            0, 20, lambda _, x: lax.custom_linear_solve(times, jnp.sin(x), solve, solve), x
        )

    program, found = rewritten(function, A, X[:, None])
    assert found == 0
    np.testing.assert_allclose(program(A, X[:, None]), jax.jit(function)(A, X[:, None]), 1e-5)


@examples(6)
@hypothesis.given(
    n=st.integers(2, 9),
    shape=st.sampled_from([(), (1,), (3,)]),
    transposed=st.booleans(),
    length=st.integers(2, 12),
    seed=st.integers(0, 99),
)
def test_any_loop(n, shape, transposed, length, seed):
    rng = np.random.RandomState(seed)
    a = rng.randn(n, n).astype(np.float32) + 4 * n**0.5 * np.eye(n, dtype=np.float32)[::-1]
    x = rng.randn(n, *shape).astype(np.float32)

    def function(a, x):
        return loop(jnp.linalg.solve, length)(a.T if transposed else a, x)

    program, count = rewritten(function, a, x, options="{min-iterations=0}")
    assert count == 1
    same_as_jax(program, function, a, x, jacobian=jax.jacfwd)


def test_complex_and_empty():
    for a, x in ((A + 1j * A.T, X - 2j), (np.zeros((0, 0)), np.zeros(0))):
        a, x = a.astype(np.result_type(a, np.complex64)), x.astype(np.complex64)
        program, _ = rewritten(loop(jnp.linalg.solve), a, x)
        np.testing.assert_allclose(program(a, x), loop(jnp.linalg.solve)(a, x), 1e-4, 1e-5)


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_solutions_are_as_near_to_the_truth_as_those_by_factors(condition):
    """The solutions are much smaller than the inverse's norm times that of the right-hand sides."""
    rng = np.random.RandomState(1)
    n = 40
    (u, _), (v, _) = (np.linalg.qr(rng.randn(n, n)) for _ in range(2))
    a = (u * np.geomspace(1, 1 / condition, n) @ v).astype(np.float32)
    truth = rng.randn(30, n).astype(np.float32)
    bs = (truth.astype(np.float64) @ a.T.astype(np.float64)).astype(np.float32)
    exact = np.linalg.solve(a.astype(np.float64), bs.T.astype(np.float64)).T

    def each(a, bs):
        return lax.scan(lambda c, b: (c, jnp.linalg.solve(a, b)), 0.0, bs)[1]

    program, count = rewritten(each, a, bs)
    assert count == 1
    errors = [np.linalg.norm(f(a, bs) - exact, axis=1) for f in (program, each)]
    assert errors[0].mean() < 3 * errors[1].mean()


def test_gradients_keep_no_more():
    def loss(a, x):
        return jnp.mean(loop(jnp.linalg.solve, 50)(a, x) ** 2)

    a = np.eye(64, dtype=np.float32) * 3 + RNG.randn(64, 64).astype(np.float32) / 8
    x = np.ones(64, np.float32)
    gradient = jaxmlir.trace(loss)(a, x).optimize(2).grad().optimize(2)
    of_jax, ours = jax.jit(jax.grad(loss)).lower(a, x).compile(), gradient.lower().compile()
    np.testing.assert_allclose(ours(a, x), of_jax(a, x), 1e-4, 1e-7)
    assert ours.memory_analysis().temp_size_in_bytes <= of_jax.memory_analysis().temp_size_in_bytes
