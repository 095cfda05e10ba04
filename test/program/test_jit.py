"""``jaxmlir.jit`` and its options do the same as ``jax.jit``, through the dialect."""

from __future__ import annotations

import functools
import re

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.errors import ImportingError

compat = pytest.mark.compat


@compat
def test_jit_static_arguments():
    calls = []

    def f(x, n, *, mode):
        calls.append((n, mode))
        return x**n if mode == "power" else x * n

    ours = jaxmlir.jit(f, static_argnums=1, static_argnames="mode")
    jaxs = jax.jit(f, static_argnums=1, static_argnames="mode")
    for n, mode in [(2, "power"), (3, "times"), (2, "power")]:
        same(ours(2.0, n, mode=mode), jaxs(2.0, n, mode=mode))
    calls.clear()
    ours(5.0, 2, mode="power")
    assert calls == []
    assert "integer_pow" in str(ours.trace(2.0, 3, mode="power"))
    assert "stablehlo" in ours.lower(2.0, 3, mode="power").as_text()


@compat
def test_jit_as_a_decorator_with_options():
    @jaxmlir.jit(static_argnums=1, optimize=1)
    def f(x, n):
        """Powers."""
        return x**n

    assert f.__name__ == "f" and f.__doc__ == "Powers."
    same(f(2.0, 3), jnp.float32(8.0))
    for stage in (jaxmlir.jit, jaxmlir.trace):
        for nothing in (None, 3, [f]):
            with pytest.raises(TypeError, match="callable"):
                stage(nothing)


@compat
def test_jit_donation():
    f = jaxmlir.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(1024), jnp.ones(1024)
    assert "tf.aliasing_output" in f.lower(x, y).as_text()
    same(f(x, y), jnp.full(1024, 2.0))
    assert x.is_deleted() and not y.is_deleted()


@compat
def test_jit_shardings():
    mesh = Mesh(np.array(jax.devices()), "i")
    rows, replicated = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())

    def f(x):
        return jnp.sin(x) @ x.T

    x = jnp.arange(64.0).reshape(16, 4)
    options = {"in_shardings": rows, "out_shardings": replicated}
    ours, jaxs = jaxmlir.jit(f, **options)(x), jax.jit(f, **options)(x)
    same(ours, jaxs)
    assert ours.sharding == jaxs.sharding == replicated


@compat
@pytest.mark.parametrize("keep", [False, True])
def test_jit_keep_unused(keep):
    def f(x, _):
        return x + 1.0

    args = jnp.ones(2), jnp.ones(3)
    ours = jaxmlir.jit(f, keep_unused=keep).lower(*args).as_text()
    jaxs = jax.jit(f, keep_unused=keep).lower(*args).as_text()
    assert ours.count("%arg1: ") == jaxs.count("%arg1: ") == int(keep)


@compat
def test_jit_of_a_method_and_of_a_partial():
    class Model:
        weight = 3.0

        @functools.partial(jaxmlir.jit, static_argnums=0)
        def __call__(self, x):
            return self.weight * x

    model = Model()
    assert type(model).__call__(model, 2.0) == 6.0

    def shifted(shift, x):
        return x + shift

    partial = functools.partial(functools.partial(shifted), 1.0)
    jitted = jaxmlir.jit(partial)
    assert jitted(2.0) == 3.0
    assert jitted.trace(2.0).name == jaxmlir.trace(partial)(2.0).name == "shifted"
    assert "@jit_shifted" in jitted.lower(2.0).as_text()
    with pytest.raises(TypeError, match="function shifted"):
        jitted("2.0")


@compat
def test_jit_under_transformations_sees_outer_values():
    def outer(x):
        return jaxmlir.jit(lambda y: y * x)(x)

    assert jax.grad(outer)(3.0) == 6.0
    same(jax.vmap(outer)(jnp.arange(3.0)), jnp.arange(3.0) ** 2)


@compat
def test_jit_with_random_keys_from_without():
    """Known keys, of a function that is traced, in one function and in several."""
    keys = jax.random.split(jax.random.key(0), 3)
    few, many = keys[0], jax.random.split(jax.random.key(1), 5000)

    def draw(x):
        y = jax.lax.cond(x > 0, lambda: jax.random.normal(few), lambda: 0.0)
        return x * y * jax.random.normal(keys[1]) + jax.random.normal(many[4000])

    for function in (draw, jax.grad(draw)):
        np.testing.assert_allclose(jaxmlir.jit(function)(2.0), function(2.0), 1e-6)
    np.testing.assert_allclose(jax.grad(jaxmlir.jit(draw))(2.0), jax.grad(draw)(2.0), 1e-6)


def test_trace_refuses_values_of_an_outer_transformation():
    def outer(x):
        return jaxmlir.trace(lambda y: y * x)(1.0)(1.0)

    with pytest.raises(ImportingError, match="closes over a value of an enclosing"):
        jax.grad(outer)(3.0)


def relaxation(w, x):
    """A loop with a loop-invariant matrix."""

    def step(x, _):
        return jnp.tanh(w @ w.T @ x), None

    return jnp.sum(jax.lax.scan(step, x, None, length=5)[0] ** 2)


def test_derivatives_of_an_optimized_function_are_those_of_the_optimized_program():
    w = np.random.RandomState(0).rand(3, 3).astype(np.float32) / 2
    x = np.ones(3, np.float32)
    gradient = jax.grad(jaxmlir.jit(relaxation, optimize=2))
    np.testing.assert_allclose(gradient(w, x), jax.grad(relaxation)(w, x), rtol=1e-5)

    def products_of_matrices_in_loops(function):
        program = jaxmlir.trace(function)(w, x).optimize(1)
        bodies = [op for name, op in program.functions.items() if name != program.name]
        product = re.compile(r'"jaxpr.dot_general".*-> tensor<3x3xf32>')
        return sum(len(product.findall(str(body))) for body in bodies)

    # The only product is the outer product in the backward loop, the cotangent of a matrix.
    assert products_of_matrices_in_loops(gradient) == 1
    assert products_of_matrices_in_loops(jax.grad(relaxation)) > 1


def test_what_is_stored_is_decided_after_differentiation():
    def diffusion(u):
        for _ in range(4):
            around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
            u = u + 0.1 * (around - 4 * u) * u
        return jnp.sum(u**2)

    u = np.random.RandomState(0).rand(8, 8).astype(np.float32)
    gradient = jax.grad(jaxmlir.jit(diffusion, optimize=2))
    np.testing.assert_allclose(jax.jit(gradient)(u), jax.grad(diffusion)(u), rtol=1e-4, atol=1e-6)
    assert "optimization_barrier" not in str(jaxmlir.trace(gradient)(u))
    compiled = [jax.jit(f).lower(u) for f in (gradient, jax.grad(diffusion))]
    fences = [text.as_text().count("stablehlo.optimization_barrier") for text in compiled]
    assert fences[0] > fences[1] == 0


def test_a_jit_of_a_derivative_of_a_jit():
    w, x = jnp.eye(3) / 2, jnp.ones(3)
    inner = jaxmlir.jit(relaxation, optimize=2)
    both = jaxmlir.jit(jax.value_and_grad(inner), optimize=2)
    expected = jax.value_and_grad(relaxation)(w, x)
    for got in (
        both(w, x),
        jax.jit(both)(w, x),
        jax.jit(inner).trace(w, x).lower().compile()(w, x),
    ):
        value, *rest = jax.tree.leaves(got)
        np.testing.assert_allclose(value, expected[0], rtol=1e-5)
        for gradient in rest:
            np.testing.assert_allclose(gradient, expected[1], rtol=1e-5)
    assert inner.trace(w, x).name == "relaxation"


class Scaled:
    """A class with a compiled method, whose first argument, the object, is static."""

    def __init__(self, factor):
        self.factor = factor

    @functools.partial(jaxmlir.jit, static_argnums=0)
    def of(self, x):
        return self.factor * x


def test_a_method():
    assert Scaled(3.0).of(2.0) == 6.0
    assert Scaled.of(Scaled(4.0), 2.0) == 8.0


def test_what_else_a_jit_function_has():
    doubled = jaxmlir.jit(lambda x: 2 * x)
    assert doubled.eval_shape(1.0).dtype == np.float32
    assert doubled(1.0) == 2.0
    doubled.clear_cache()
    assert doubled(1.0) == 2.0

    class Model:
        def __init__(self):
            self.trace, self.lower = 3.0, 4.0

        def __call__(self, x):
            return self.trace * x

    model = jaxmlir.jit(Model())
    assert model.lower(1.0).compile()(2.0) == model.trace(1.0)(2.0) == 6.0
