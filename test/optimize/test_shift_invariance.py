"""Maxima that results do not depend on: the analysis finds these, and no others."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

RNG = np.random.RandomState(0)
X, V = RNG.randn(4, 6).astype(np.float32), RNG.randn(6, 3).astype(np.float32)


def masked(x, v):
    z = jnp.where(x > 0, x, -jnp.inf)
    m = jnp.max(z, 1, keepdims=True)
    e = jnp.where(x > 0, jnp.exp(z - jnp.where(jnp.isfinite(m), m, 0.0)), 0.0)
    return e / jnp.sum(e, 1, keepdims=True)


def attention(x, v):
    m = jnp.max(x, 1)
    e = jnp.exp((x - m[:, None]) * 2.0)
    return (e @ v) / e.sum(1)[:, None]


def log_sum(x, v):
    m = jnp.max(x, 0)
    return m + jnp.log(jnp.sum(jnp.exp(x - m), 0))


def log_softmax(x, v):
    z = x - jnp.max(x, 1, keepdims=True)
    return z - jnp.log(jnp.sum(jnp.exp(z), 1, keepdims=True))


def softmax(x, axis):
    e = jnp.exp(x - jnp.max(x, axis, keepdims=True))
    return e / jnp.sum(e, axis, keepdims=True)


def norm(x, v):
    e = jnp.exp(x - jnp.max(x))
    return e / jnp.sqrt(jnp.sum(e**2))


INVARIANT = {
    "softmax": lambda x, v: softmax(x, 1),
    "temperature": lambda x, v: softmax(x / 0.3, 0) + softmax(x / 0.7, 0),
    "attention": attention,
    "log sum": log_sum,
    "log softmax": log_softmax,
    "masked": masked,
    "transposed": lambda x, v: softmax(x.T, 0).T @ v,
    "norm": norm,
    "compared": lambda x, v: jnp.where(
        (x - jnp.max(x)) > jnp.min(x - jnp.max(x)), softmax(x, 1), 0
    ),
}


def signed_log_sum(x, v):
    """The log-magnitude of a sum of terms of both signs, times the sum's sign."""
    m = jnp.max(x, 1, keepdims=True)
    total = jnp.sum(jnp.exp(x - m) * jnp.sin(5 * x), 1, keepdims=True)
    return (jnp.log(jnp.abs(total)) + m) * jnp.sign(total)


INVARIANT["of both signs"] = signed_log_sum


def exp(x, axis=1):
    return jnp.exp(x - jnp.max(x, axis, keepdims=True))


# Each of these violates one condition.
DEPENDENT = {
    "no quotient": lambda x, v: exp(x),
    "wrong sum": lambda x, v: exp(x) / jnp.sum(exp(x), 0),
    "one more": lambda x, v: exp(x) / (1 + jnp.sum(exp(x), 1, keepdims=True)),
    "twice": lambda x, v: exp(x) ** 2 / jnp.sum(exp(x), 1, keepdims=True),
    "used otherwise": lambda x, v: softmax(x, 1) + jnp.max(x, 1, keepdims=True),
    "by the maximum": lambda x, v: exp(x) * jnp.max(x, 1, keepdims=True) / jnp.sum(exp(x)),
    "columns": lambda x, v: exp(x[:, :4]) / jnp.sum(exp(x[:, :4]).T, 1, keepdims=True),
    "sine": lambda x, v: jnp.sin(exp(x)) / jnp.sum(exp(x), 1, keepdims=True),
    "stopped": lambda x, v: exp(x) / jax.lax.stop_gradient(jnp.sum(exp(x), 1, keepdims=True)),
    "contracted": lambda x, v: (exp(x).T @ x) / jnp.sum(exp(x)),
}


def passed(f):
    program = jaxmlir.trace(lambda x: jnp.sum(jnp.sin(f(x, V))))(X).optimize(1)
    remarks = []
    after = program.run_passes("jaxpr-shift-invariance", remarks=remarks.append)
    after.verify()
    assert np.asarray(after(X)).tobytes() == np.asarray(program(X)).tobytes()
    again = []
    after.run_passes("jaxpr-shift-invariance", remarks=again.append)
    assert not again
    return after, len(remarks)


@pytest.mark.sampled
@pytest.mark.parametrize("name", INVARIANT)
def test_invariant(name):
    f = INVARIANT[name]
    after, count = passed(f)
    assert count >= 1
    want = jax.grad(lambda x: jnp.sum(jnp.sin(f(x, V))))(X)
    np.testing.assert_allclose(jax.grad(after)(X), want, rtol=1e-4, atol=2e-6)
    # The derivative of the maximum is gone.
    assert "reduce_max" in str(after.grad()) and "jaxpr.eq" not in str(after.grad())


@pytest.mark.compat
def test_derivatives_of_higher_order():
    after, _ = passed(INVARIANT["softmax"])
    want = jax.hessian(lambda x: jnp.sum(jnp.sin(jax.nn.softmax(x, 1))))(X)
    np.testing.assert_allclose(jax.hessian(after)(X), want, rtol=1e-3, atol=2e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent(name):
    f = DEPENDENT[name]
    after, count = passed(f)
    assert count == 0
    want = jax.grad(lambda x: jnp.sum(jnp.sin(f(x, V))))(X)
    np.testing.assert_allclose(jax.grad(after)(X), want, rtol=1e-4, atol=2e-6)


def test_one_maximum_serves_several_temperatures():
    program = jaxmlir.trace(lambda x: softmax(x / 0.3, 1) + softmax(x / 0.7, 1))(X).optimize(1)
    after = program.run_passes("jaxpr-shift-invariance, jaxpr-cse, jaxpr-dce")
    count = '"jaxpr.reduce_max"'
    assert (str(program).count(count), str(after).count(count)) == (2, 1)
    np.testing.assert_allclose(after(X), program(X), rtol=1e-6)


@pytest.mark.compat
def test_scaled_integers_wrap_around():
    """The maximum of scaled integers is not the scaled maximum."""

    def softmax(x):
        e = jnp.exp((x * 3 - jnp.max(x * 3)).astype(jnp.float32))
        return e / jnp.sum(e)

    x = np.array([2**30, 1, 5], np.int32)
    after = jaxmlir.trace(softmax)(x).optimize(1).run_passes("jaxpr-shift-invariance")
    np.testing.assert_array_equal(after(x), softmax(x))


def test_the_work_is_linear_in_a_chain():
    def chain(length):
        def function(x):
            for _ in range(length):
                x = softmax(x, 1)
            return x

        return jaxmlir.trace(function)(X).run_passes("jaxpr-inline")

    def seconds(program):
        start = time.thread_time()
        after = program.run_passes("jaxpr-shift-invariance")
        assert "stop_gradient" in str(after)
        return time.thread_time() - start

    small, large = chain(60), chain(480)
    assert min(seconds(large) for _ in range(3)) < 24 * min(seconds(small) for _ in range(3))
