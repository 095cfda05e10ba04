"""Values that depend on constants only are folded, within limits, to JAX's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import compat, same
from jax import lax

import jaxmlir

N = 32
NORMAL = np.random.default_rng(0).normal
A, B = (NORMAL(size=(N, N)).astype(np.float32) / N + np.eye(N, dtype=np.float32) for _ in "AB")
X = np.linspace(-1, 1, N, dtype=np.float32)
FOLD = "jaxpr-fold-constants"


def product(x):
    return (jnp.asarray(A) @ jnp.asarray(B)) @ x


def in_a_loop(x):
    return lax.scan(lambda c, _: (jnp.tanh(product(c)), None), x, None, length=3)[0]


def ops(program):
    return str(program).count("dot_general")


@compat
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("f", [product, in_a_loop])
def test_products_of_constants_have_the_numbers_of_jax(f, level, tmp_path):
    want = jax.jit(f)(X)
    program = jaxmlir.trace(f)(X).optimize(level)
    program.save(tmp_path / "program.jxm")
    same(program(X), want)
    same(jax.jit(program)(X), want)
    same(jaxmlir.load(tmp_path / "program.jxm")(X), want)
    same(jaxmlir.jit(f, optimize=level)(X), want)


@compat
def test_one_product_is_left():
    """It is not rewritten into products that cost more, such as a @ (b @ x)."""
    assert ops(jaxmlir.trace(product)(X).optimize(2)) == 1

    def while_traced(x):
        # The same holds while another function is being traced.
        assert ops(jaxmlir.trace(product)(X).optimize(2)) == 1
        return product(x)

    same(jax.jit(while_traced)(X), jax.jit(product)(X))


@compat
@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.linalg.solve(A, x),
        lambda x: jnp.linalg.cholesky(A @ A.T) @ x,
        lambda x: jnp.linalg.inv(A.astype(complex)) @ x,
    ],
)
def test_factors_and_their_derivatives(f):
    program = jaxmlir.trace(f)(X)
    folded = program.run_passes(f"jaxpr-inline,{FOLD}")
    assert not any(name in str(folded) for name in ("jaxpr.lu", "jaxpr.cholesky"))
    np.testing.assert_allclose(folded(X), jax.jit(f)(X), rtol=1e-5, atol=1e-6)

    def loss(x):
        return jnp.sum(abs(f(x)) ** 2)

    gradient = jaxmlir.trace(loss)(X).optimize(2).grad()
    np.testing.assert_allclose(gradient(X), jax.grad(loss)(X), rtol=1e-4, atol=1e-5)


KEY = jax.random.key(0)


@compat
@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.random.normal(KEY, (N, N)) @ x,
        lambda x: lax.while_loop(lambda m: m[0, 0] < 9, lambda m: m @ A + m, jnp.asarray(B)) @ x,
        lambda x: (jax.pure_callback(np.sin, jax.ShapeDtypeStruct((N, N), A.dtype), A) @ B) @ x,
        # A large value computed from small constants.
        lambda x: (jnp.outer(A[:8].ravel(), B[:8].ravel()) * x[0]).sum(0)[:N],
    ],
    ids=["random", "while", "callback", "large"],
)
def test_what_stays(f):
    program = jaxmlir.trace(f)(X)
    assert str(program.run_passes(FOLD)).count("jaxpr.") >= str(program).count("jaxpr.") - 1
    np.testing.assert_allclose(program.optimize(2)(X), jax.jit(f)(X), rtol=1e-4, atol=1e-4)


def test_what_is_on_several_devices_or_for_another_platform_stays():
    large = np.tile(A, (2, 2))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "i")
    over_two = jax.device_put(large, jax.sharding.NamedSharding(mesh, jax.P("i")))
    on_another = jax.device_put(large, jax.devices()[1])
    for a in (over_two, on_another):
        program = jaxmlir.trace(lambda x, a=a: (a @ a)[:N, :N] @ x)(X)
        assert str(program.run_passes(FOLD)) == str(program)
    program = jaxmlir.trace(product)(X)
    assert str(program.run_passes(FOLD, target="tpu")) == str(program)
    assert str(program.run_passes(f"{FOLD}{{max-work=1000}}")) == str(program)
    assert str(program.run_passes(f"{FOLD}{{min-work=1e9}}")) == str(program)


@compat
def test_values_that_are_not_numbers_and_debugging_flags():
    """NaNs are folded without an error, which only the run may raise."""

    def f(x):
        return jnp.where(x > 5, (jnp.log(-A) @ B) @ x, x)

    program = jaxmlir.trace(f)(X)
    with jax.debug_nans(True):
        folded = program.run_passes(FOLD)
    same(folded(X), jax.jit(f)(X))


def test_a_program_without_arguments_where_constants_are_evaluated():
    program = jaxmlir.trace(lambda: jnp.sin(jnp.asarray(A)))()
    with jax.ensure_compile_time_eval():
        np.testing.assert_allclose(program(), np.sin(A), rtol=1e-6)
