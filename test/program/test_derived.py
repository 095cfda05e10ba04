"""A transformation of a program is computed once, until something changes."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir.errors import TransformError


def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w["a"]) * w["b"])


W = {"a": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "b": np.float32(0.5)}
X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


def traced():
    return jaxmlir.trace(loss)(W, X)


TRANSFORMATIONS = {
    "grad": lambda p: p.grad(),
    "value_and_grad": lambda p: p.value_and_grad(argnums=(0, 1)),
    "jvp": lambda p: p.jvp(),
    "vjp": lambda p: p.vjp(),
    "linearize": lambda p: p.linearize(),
    "jacfwd": lambda p: p.jacfwd(1),
    "jacrev": lambda p: p.jacrev([0, 1]),
    "hessian": lambda p: p.hessian(),
    "vmap": lambda p: p.vmap(in_axes=({"a": None, "b": 0}, 0), axis_size=5),
    "optimize": lambda p: p.optimize(2),
    "grad of grad": lambda p: p.jacfwd(1).vmap(axis_size=3),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_the_same_again(name):
    program, transform = traced(), TRANSFORMATIONS[name]
    assert transform(program) is transform(program)
    assert transform(program) is not transform(traced())


def compiled(caplog):
    """JAX's log messages about compilations."""
    return [r.message for r in caplog.records if "Finished XLA compilation" in r.message]


def test_a_loop_compiles_once(caplog):
    program = traced()
    before = jax.grad(loss)(W, X)
    with jax.log_compiles():
        for _ in range(3):
            after = program.grad()(W, X)
            program.grad(0)(W, X)
            program.grad(argnums=0)(W, X)
    assert len(compiled(caplog)) == 1
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6), before, after)


def test_arguments_are_told_apart():
    program = jaxmlir.trace(lambda x, y: x * y)(1.0, 2.0)
    programs = [program.grad(0), program.grad((0,)), program.grad(1), program.grad(allow_int=True)]
    assert len(set(map(id, programs))) == 4
    assert program.grad(0)(3.0, 5.0) == 5.0
    assert program.grad(1)(3.0, 5.0) == 3.0
    assert program.grad((0,))(3.0, 5.0) == (5.0,)
    assert program.vmap(in_axes=(0, None), axis_size=2) is not program.vmap(axis_size=2)


def test_sizes_of_a_batch(caplog):
    program = jaxmlir.trace(lambda x: x * x)(1.0)
    with jax.log_compiles():
        program.vmap()(np.ones(3, np.float32))
        program.vmap(axis_size=3)(np.ones(3, np.float32))
    assert len(compiled(caplog)) == 1


def test_a_changed_program_is_transformed_again():
    program = jaxmlir.trace(lambda x: jnp.sin(x))(1.0)
    first = program.grad()
    assert first(0.5) == np.cos(np.float32(0.5))
    program.module = jaxmlir.trace(lambda x: x * x)(1.0).module
    program.changed()
    assert program.grad() is not first
    assert program.grad()(0.5) == 1.0


def test_a_changed_derivative_is_forgotten():
    program = jaxmlir.trace(lambda x: jnp.sin(x))(1.0)
    first, pair = program.grad(), program.vjp()
    first.module = jaxmlir.trace(lambda x: x)(1.0).module
    first.changed()
    pair[1].changed()
    assert program.grad() is not first
    assert program.grad()(0.5) == np.cos(np.float32(0.5))
    assert program.vjp() is not pair


def test_jaxs_configuration_counts():
    program = jaxmlir.trace(lambda x: jnp.sum(x @ x))(np.ones((2, 2), np.float32))
    plain = program.grad()
    with jax.default_matmul_precision("float32"):
        assert program.grad() is not plain
    assert program.grad() is plain


def test_remarks_are_given_each_time():
    program = jaxmlir.trace(lambda a, b, v: a @ b @ v)(*map(np.ones, [(64, 64)] * 2), np.ones(64))
    heard = [[], []]
    for remarks in heard:
        program.optimize(2, remarks=remarks.append)
    assert heard[0]
    assert list(map(str, heard[0])) == list(map(str, heard[1]))


def test_what_cannot_be_kept_is_derived_alike():
    """Unhashable arguments are handled like hashable ones: rules are optimized, too."""

    @jax.custom_vjp
    def clipped(x):
        return jnp.clip(x, 0.0, 1.0)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(x, 0.0, 1.0) * ct,))
    program = jaxmlir.trace(lambda x: clipped(x).sum())(np.ones(3, np.float32))
    as_tuple, as_set = (program.optimize(1, without=f(["jaxpr-cse"])) for f in (tuple, set))
    assert str(as_set) == str(as_tuple)


def test_errors_are_not_kept():
    program = jaxmlir.trace(lambda x: x)(np.ones(2))
    for _ in range(2):
        with pytest.raises(TransformError, match="scalar"):
            program.grad()


def test_what_is_derived_goes_with_the_program():
    program = traced()
    derived = weakref.ref(program.grad())
    assert program.grad()(W, X)["b"].shape == ()
    del program
    jax.clear_caches()
    gc.collect()
    assert derived() is None
