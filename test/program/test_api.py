"""The Python API as shown to users: signatures, docstrings, ``help``."""

import copy
import inspect
import pydoc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

pytestmark = pytest.mark.compat

MODULES = (
    jaxmlir.interpret,
    jaxmlir.backend,
    jaxmlir.debug,
    jaxmlir.errors,
    jaxmlir.passes,
    jaxmlir.toolbox,
)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (jaxmlir, *MODULES)
    for name in getattr(module, "__all__", ())
    if callable(getattr(module, name))
}
METHODS = {
    name: getattr(jaxmlir.Program, name)
    for name in dir(jaxmlir.Program)
    if not name.startswith("_") and callable(getattr(jaxmlir.Program, name))
}


def dot(x, y):
    return jnp.sum(x * y)


@pytest.fixture(scope="module")
def program():
    return jaxmlir.trace(dot)(jnp.ones(3), jnp.ones(3))


@pytest.mark.parametrize("function", [*PUBLIC.values(), *METHODS.values()], ids=[*PUBLIC, *METHODS])
def test_it_says_what_it_is(function):
    assert inspect.getdoc(function)
    if inspect.isclass(function) and issubclass(function, Exception):
        return
    signature = inspect.signature(function)
    if inspect.isfunction(function):
        parameters = [p for p in signature.parameters.values() if p.name != "self"]
        assert all(p.annotation is not p.empty for p in parameters)
        assert signature.return_annotation is not signature.empty


def test_an_index_of_numpy(program):
    expected = jax.grad(dot, np.int64(1))(jnp.ones(3), jnp.arange(3.0))
    np.testing.assert_array_equal(program.grad(np.int64(1))(jnp.ones(3), jnp.arange(3.0)), expected)


def test_help(program):
    text = pydoc.render_doc(jaxmlir.Program, renderer=pydoc.plaintext)
    assert "class Program(" in text
    assert "A JAX function, staged out" in text
    assert repr(program) == "<Program @dot(f32[3], f32[3]) -> (f32[])>"
    assert str(inspect.signature(program)) == "(x, y)"
    assert "module" in inspect.signature(jaxmlir.Program).parameters


def test_the_repr_of_many_arguments_is_short():
    many = jaxmlir.trace(lambda xs: xs[:10])([jnp.float32(0)] * 100)
    ten = ", ".join(["f32[]"] * 10)
    assert repr(many) == f"<Program @lambda({ten[:-7]}, ... 91 more) -> ({ten})>"


def test_jit_with_options_as_a_decorator():
    @jaxmlir.jit(optimize=2, static_argnums=1)
    def power(x, n):
        return x**n

    assert power(jnp.float32(3), 2) == 9.0
    assert repr(power).startswith("<JitFunction of <function ")
    assert jax.jit(lambda x: x, keep_unused=True)(1.0) == jaxmlir.jit()(lambda x: x)(1.0)


def test_a_batch_of_unknown_size_is_a_function(program):
    batched = program.vmap()
    xs = jnp.arange(6.0).reshape(2, 3)
    expected = jax.vmap(dot)(xs, xs)
    for function in (batched, copy.copy(batched), jax.jit(batched)):
        np.testing.assert_array_equal(function(xs, xs), expected)
    assert not hasattr(batched, "shape")
