"""The forward Laplacian, against the trace of the Hessian that JAX computes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.errors import ArgumentError


def weights(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) / 2


LAYERS = [weights(6, 8, seed=1), weights(8, 3, seed=2)]
HEAD = [weights(3, 3, seed=3 + i) for i in range(4)]


def perceptron(x):
    for layer in LAYERS:
        x = jnp.tanh(x @ layer + 0.1)
    return jnp.log(1 + jnp.sum(x**2))


def attention(x):
    h = x.reshape(2, 3)
    q, k, v = (h @ w for w in HEAD[:3])
    h = jax.nn.gelu(h + jax.nn.softmax(q @ k.T) @ v) @ HEAD[3]
    return jnp.linalg.slogdet(h[:, :2])[1]


def orbitals(x):
    """Determinants of two matrices, whose rows are functions of one electron each."""
    a = jnp.einsum("id,idj->ij", x.reshape(2, 3), ORBITALS) + jnp.eye(2)
    return jnp.linalg.slogdet(jnp.stack([jnp.tanh(a), jnp.sin(a)]))[1].sum()


def banded(x):
    """A determinant in which an input is in two rows."""
    return jnp.linalg.slogdet(3 * jnp.eye(6) + jnp.diag(x**2) + jnp.diag(jnp.sin(x[1:]), 1))[1]


def pairs(x):
    """Features of pairs of electrons, averaged for each of them."""
    x = x.reshape(3, 2)
    apart = x[:, None] - x[None]
    far = jnp.sqrt(jnp.sum(apart**2, -1) + 1)
    mean = jnp.concatenate([apart, far[..., None]], -1).mean(1)
    return jnp.sum(jax.nn.softplus(mean @ HEAD[0]) ** 2)


def system(x):
    return jnp.tanh(jnp.outer(x, x[::-1])) + 3 * jnp.eye(6)


def by_rows(x):
    """A matrix whose rows each depend on one or two of the inputs."""
    return jnp.sin(jnp.stack([x[0] * x[1], x[2], x[3], x[4] - x[5]])[:, None] * ROWS)


@jax.custom_jvp
def slogdet(a):
    """JAX's function with another rule."""
    return tuple(jnp.linalg.slogdet(a))


@slogdet.defjvp
def _(primals, tangents):
    (a,), (t,) = primals, tangents
    sign, value = slogdet(a)
    return (sign, value), (jnp.zeros_like(sign), jnp.sum(a * t))


@jax.custom_jvp
def ruled(x):
    return x**3


@ruled.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return ruled(x), 2 * x**2 * t


ROWS = weights(4, 4, seed=10)
MIXED = weights(32, 32, seed=12)
ORBITALS = weights(2, 3, 2, seed=9)
FUNCTIONS = {
    "orbitals": orbitals,
    "orbitals-in-columns": lambda x: jnp.linalg.slogdet(jnp.cos(x.reshape(2, 3)[:, :2]).T)[1],
    "banded": banded,
    "determinant-by-another-rule": lambda x: slogdet(system(x))[1],
    "pairs": pairs,
    "det": lambda x: jnp.linalg.det(system(x)),
    "det-by-rows": lambda x: jnp.linalg.det(jnp.stack([by_rows(x), by_rows(x**2)])).sum(),
    "det-by-columns": lambda x: jnp.linalg.det(by_rows(x).T),
    "elementwise": lambda x: jnp.arctan2(
        jnp.tanh(x) * x, x[::-1] + jnp.where(x > 0, x, x**3)
    ).sum(),
    "solve": lambda x: jnp.linalg.solve(system(x), jnp.sin(x)),
    "inverse": lambda x: jnp.linalg.inv(system(x))[:2],
    "cholesky": lambda x: jnp.linalg.cholesky(system(x) @ system(x).T)[-1],
    "moved": lambda x: jnp.zeros(8).at[np.array([1, 3, 3, 7])].add(x[np.array([5, -1, 0, 2])] ** 3),
    "kernel": lambda x: jnp.convolve(x[:4], x[3:]) * jnp.cumsum(x**2)[:1],
    "sorted": lambda x: jnp.sort(x**2) * jnp.arange(6.0),
    "nested-rule": lambda x: jnp.sum(ruled(ruled(x)) * jax.nn.relu(x)),
    "perceptron": perceptron,
    "attention": attention,
    "scan": lambda x: lax.scan(lambda c, a: (jnp.sin(c * a) + c, c**2), x[:2], x[2:4])[1].sum(),
    "rule": lambda x: jnp.sum(ruled(x) * x[::-1]),
    "several-results": lambda x: {"cubes": x**3, "products": jnp.outer(x, x), "rounded": x.round()},
    "empty": lambda x: {
        "sum": x[:0].sum() + jnp.sum(x**2),
        "none": jnp.outer(x[:0], x).sum(1) ** 2,
    },
    "integers": lambda x: x[(2 * x).astype(int).sum() % 6] ** 2,
}


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_laplacian_is_the_trace_of_the_hessian(name):
    f, x = FUNCTIONS[name], jnp.asarray(weights(6, seed=7))
    wanted = jax.tree.map(
        lambda hessian: jnp.trace(hessian, axis1=-2, axis2=-1), jax.jacfwd(jax.jacfwd(f))(x)
    )
    found = jaxmlir.trace(f)(x).laplacian()(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4), found, wanted)


@pytest.mark.parametrize(
    ("product", "few"), [("bij,bkj->bik", (4, 3, 2)), ("bkj,jbl->bkl", (2, 4, 3))]
)
def test_a_product_with_a_factor_of_few_inputs_takes_those_only(product, few):
    """The factor is on either side, with a batch, and with elements that depend on no input."""

    def f(x):
        own = jnp.pad((x[: math.prod(few)] ** 2).reshape(few), [(0, 0), (0, 0), (0, 1)])
        nothing = jnp.sum(x[:0].reshape(3, 0) @ x[:0].reshape(0, 2))
        mixed = jnp.tanh(MIXED @ x)[:24]
        if product.startswith("bij"):
            return jnp.einsum(product, own, mixed.reshape(4, 2, 3)).sum(0) + nothing
        return jnp.einsum(product, mixed[:16].reshape(4, 2, 2), own)[0] + nothing

    x = jnp.asarray(weights(32, seed=3))
    wanted = jnp.trace(jax.jacfwd(jax.jacfwd(f))(x), axis1=-2, axis2=-1)
    np.testing.assert_allclose(jaxmlir.trace(f)(x).laplacian()(x), wanted, rtol=2e-3, atol=1e-4)


def test_the_laplacian_of_a_determinant_that_is_zero():
    rows = weights(4, 4, seed=11) * (np.arange(4) != 2)[:, None]

    def f(x):
        return jnp.linalg.det(rows + x[:, None] ** 2 * ROWS)

    wanted = 0
    for i in range(4):
        bent = rows.copy()
        bent[i] = 2 * ROWS[i]
        wanted += np.linalg.det(bent)
    assert abs(wanted) > 0.01
    found = jaxmlir.trace(f)(jnp.zeros(4)).laplacian()(jnp.zeros(4))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_laplacian_in_some_of_the_arguments():
    def f(a, b):
        return jnp.sum(a**3 * b["u"]) + b["v"] ** 4

    args = jnp.arange(1.0, 4), {"u": jnp.arange(3.0), "v": jnp.float32(2)}
    program = jaxmlir.trace(f)(*args)
    np.testing.assert_allclose(program.laplacian(0)(*args), 6 * jnp.sum(args[0] * args[1]["u"]))
    np.testing.assert_allclose(program.laplacian(1)(*args), 48.0)
    with pytest.raises(ArgumentError, match="argnums=2"):
        program.laplacian(2)


def test_complex_arguments_are_refused():
    program = jaxmlir.trace(jnp.sin)(jnp.ones(2, complex))
    with pytest.raises(ArgumentError, match="by arguments of real numbers"):
        program.laplacian()
