"""The worked examples under ``examples/passes``: constant folding and sparsity of Jacobians."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir import debug

EXAMPLES = Path(__file__).parents[2] / "examples" / "passes"
sys.path.insert(0, str(EXAMPLES))

from fold_constants import FoldConstants  # noqa: E402
from jacobian_sparsity import jacobian_sparsity  # noqa: E402

# -- fold-constants --


def folded(function, *args, options=""):
    program = jaxmlir.trace(function)(*args)
    result = program.run_passes(f"{FoldConstants.name}{options},jaxpr-dce,symbol-dce")
    return program, result


def ops_in(program):
    text = str(program.function(program.name))
    return [line.split('"')[1] for line in text.splitlines() if '"jaxpr.' in line]


def test_what_is_known_is_a_constant():
    def function(x):
        weights = jax.jit(jnp.cumsum)(np.arange(4.0, dtype=np.float32)) / 6
        power = lax.fori_loop(0, 5, lambda _, c: c * 2, jnp.float32(1.0))
        scale = lax.cond(power > 3, lambda: 2.0, lambda: 3.0)
        return jnp.sum(jnp.sort(-weights) * scale) + power * x

    program, result = folded(function, jnp.float32(3.0))
    assert sorted(ops_in(result)) == ["jaxpr.add", *["jaxpr.constant"] * 2, "jaxpr.mul"]
    np.testing.assert_allclose(result(3.0), jax.jit(function)(3.0), rtol=1e-6)
    assert list(result.functions) == ["function"]
    assert debug.diff(program, result, jnp.float32(3.0)) is None


@pytest.mark.compat
def test_types_survive():
    """Weak types, small floats, integers and booleans are constants of the same type."""

    def function(x):
        values = (jnp.asarray(1.0) * 2, jnp.bfloat16(1) / 3, jnp.int8(100) + jnp.int8(100))
        return *values, jnp.array([1, 2]) > 1, x

    _, result = folded(function, 1.0)
    assert set(ops_in(result)) == {"jaxpr.constant"}
    expected = jax.jit(function)(1.0)
    for got, want in zip(result(1.0), expected, strict=True):
        assert (got.dtype, got.weak_type) == (want.dtype, want.weak_type)
        np.testing.assert_array_equal(got, want)


def test_what_is_more_than_a_value_stays():
    def function(x):
        jax.debug.print("{}", 1.0)
        kept = lax.optimization_barrier(jnp.float32(1.0))
        return kept + jnp.exp(x), jax.random.key(0)

    _, result = folded(function, jnp.float32(1.0))
    assert {"jaxpr.debug_print", "jaxpr.optimization_barrier", "jaxpr.exp"} <= set(
        name.replace("debug_callback", "debug_print") for name in ops_in(result)
    )


def test_large_results_stay_unless_asked_for():
    def function(x):
        return x + jnp.tile(np.arange(3.0, dtype=np.float32), 2000)

    x = jnp.ones(6000)
    small, large = (folded(function, x, options=o)[1] for o in ("", "{max-elements=6000}"))
    assert "jaxpr.constant" in ops_in(small)
    assert len(ops_in(small)) > 2
    assert ops_in(large) == ["jaxpr.constant", "jaxpr.add"]
    assert [value.size for value in large.constants.values()] == [6000]
    np.testing.assert_array_equal(large(x), function(x))


def test_folding_twice_changes_nothing():
    program, once = folded(lambda x: x + jnp.sin(jnp.float32(1.0)), jnp.float32(1.0))
    assert str(once.run_passes(FoldConstants.name)) == str(once)


UNARY = [jnp.sin, jnp.exp, jnp.negative, jnp.tanh, jnp.cumsum, jnp.flip, jnp.sort]
BINARY = [jnp.add, jnp.multiply, jnp.subtract, jnp.maximum]


@pytest.mark.compat
@examples(8)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_random_programs(steps):
    def function(x):
        values = [x, np.array([0.5, -1.0, 2.0], np.float32), np.float32(3.0) * jnp.ones(3)]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            operation = (UNARY + BINARY)[kind]
            values.append(operation(a) if kind < len(UNARY) else operation(a, b))
        return values

    x = jnp.array([0.1, 0.2, 0.3])
    program, result = folded(function, x)
    for got, want in zip(result(x), program.eval(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


# -- sparsity of Jacobians --


def stencil(x):
    return jnp.roll(x, 1) - 2 * x + jnp.sin(jnp.roll(x, -1))


def blocks(x):
    return np.kron(np.eye(3), np.ones((2, 2))).astype(np.float32) @ jnp.exp(x)


def recurrence(x):
    total, partial = lax.scan(lambda c, t: (0.5 * c + t**2, c), 0.0, x)
    return jnp.append(partial, total)


def product(x):
    return x.reshape(2, 3) @ x.reshape(3, 2)


def slices(x):
    y = lax.dynamic_update_slice(x, x[:2] ** 2, (3,))
    return jnp.concatenate([y[jnp.array([5, 0, 3])], jnp.pad(x[1:3], 1), x[::-1]])


def loops_and_calls(x):
    y = lax.fori_loop(0, 2, lambda i, c: jax.jit(jnp.roll)(c, 1) * x, x)
    return lax.cond(x[0] > -100, lambda: y[:3], lambda: y[3:]), jax.nn.silu(x)


def broadcast(x):
    return x[:, None] * jnp.arange(3.0) + x[:3].T, jnp.tril(jnp.ones((6, 6))) @ x


FUNCTIONS = [stencil, blocks, recurrence, product, slices, loops_and_calls, broadcast]


def exact(function, x):
    jacobian = jax.tree.leaves(jax.jacfwd(function)(x))
    return np.concatenate([np.asarray(j).reshape(-1, x.size) for j in jacobian]) != 0


@pytest.mark.sampled
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_patterns_are_those_of_the_jacobian(function):
    x = jax.random.uniform(jax.random.key(1), (6,), minval=0.5, maxval=1.5)
    pattern = jacobian_sparsity(jaxmlir.trace(function)(x), x)
    np.testing.assert_array_equal(pattern, exact(function, x))
    assert pattern.any()


def test_what_is_not_known_better_is_dense():
    def function(x):
        return jnp.sort(x), jnp.linalg.det(x.reshape(2, 2)), jnp.argmax(x), jax.nn.relu(x - 10)

    x = jnp.array([3.0, 1.0, 2.0, 5.0])
    pattern = jacobian_sparsity(jaxmlir.trace(function)(x), x)
    float_rows = lambda x: [y for y in function(x) if y.dtype == np.float32]  # noqa: E731
    assert (pattern[[0, 1, 2, 3, 4, 6, 7, 8, 9]] >= exact(float_rows, x)).all()
    assert not pattern[5].any()  # This result is the index of the largest element.


@pytest.mark.compat
def test_a_gradient_program_gives_the_pattern_of_the_hessian():
    def energy(x):
        return jnp.sum((x[1:] - x[:-1]) ** 4)

    x = jnp.array([1.0, 2.0, 4.0, 8.0, 16.0])
    pattern = jacobian_sparsity(jaxmlir.trace(energy)(x).grad(), x)
    np.testing.assert_array_equal(pattern, np.asarray(jax.hessian(energy)(x)) != 0)
    np.testing.assert_array_equal(pattern, np.abs(np.subtract.outer(range(5), range(5))) <= 1)
