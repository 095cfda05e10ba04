"""Loops of large steps stay loops of kernels, and their results do not change."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir import targets
from jaxmlir._compat import jax_version

MARK = "jaxpr-parallel-loops"
RNG = np.random.RandomState(0)


def scanned(x):
    return lax.scan(lambda c, y: (jnp.sin(c) * jnp.cos(y), jnp.sum(c)), x[0], x)


def counted(x):
    return lax.fori_loop(0, 4, lambda i, c: 0.5 * jnp.sin(c + jnp.cos(c)) + i, x[0])


def until(x):
    return lax.while_loop(
        lambda c: c[0, 0] < 5, lambda c: c + jnp.exp(0.1 * jnp.sin(jnp.cos(c))), x[0]
    )


@pytest.mark.compat
@pytest.mark.parametrize("function", [scanned, counted, until])
def test_loops_of_large_steps(function):
    x = RNG.rand(4, 400, 300).astype(np.float32)
    program = jaxmlir.trace(function)(x)
    after = program.run_passes(MARK)
    after.verify()
    assert "jaxpr.parallel" in str(after)
    compiled, plain = after.lower().compile(), program.lower().compile()
    for got, want in zip(jax.tree.leaves(compiled(x)), jax.tree.leaves(plain(x)), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    hoisted = [c.as_text().count("xla_cpu_small_call") for c in (plain, compiled)]
    if jax_version()[:2] >= (0, 12) and function is not scanned:
        assert hoisted == [1, 0]
    assert hoisted[1] == 0


@pytest.mark.compat
def test_loops_of_small_steps_are_left_alone():
    x = RNG.rand(4, 30, 20).astype(np.float32)
    for function in (scanned, counted, until):
        program = jaxmlir.trace(function)(x)
        assert str(program.run_passes(MARK)) == str(program)


def test_one_thread_and_dear_kernels_leave_loops_alone():
    program = jaxmlir.trace(scanned)(RNG.rand(4, 400, 300).astype(np.float32))
    cpu = dataclasses.replace(targets.target("cpu"), threads=2)
    assert "jaxpr.parallel" in str(program.run_passes(MARK, target=cpu))
    alone = dataclasses.replace(cpu, threads=1)
    costs = cpu.costs._replace(fork=1e7)
    slow = dataclasses.replace(cpu, measured=cpu.machine._replace(costs=costs))
    for target in (alone, slow):
        assert "jaxpr.parallel" not in str(program.run_passes(MARK, target=target))


@examples(10)
@hypothesis.given(st.integers(1, 5), st.sampled_from([40, 300]), st.booleans())
def test_marked_programs_are_transformed_as_others(length, size, reverse):
    def function(w, x):
        def step(c, y):
            c = jnp.tanh(c * w) * jnp.cos(jnp.sin(y) + c)
            return c, c * y

        return jnp.sum(lax.scan(step, x[0], x, reverse=reverse)[1] ** 2)

    w, x = np.float32(0.7), RNG.rand(length, size, size).astype(np.float32)
    marked = jaxmlir.trace(function)(w, x).run_passes(MARK)
    want = jax.jit(jax.value_and_grad(function, (0, 1)))(w, x)
    for program in (
        marked.value_and_grad((0, 1)),
        jaxmlir.trace(function)(w, x).optimize(2).value_and_grad((0, 1)).optimize(2),
        jaxmlir.trace(jax.value_and_grad(lambda w, x: marked(w, x), (0, 1)))(w, x),
    ):
        for got, expected in zip(
            jax.tree.leaves(program(w, x)), jax.tree.leaves(want), strict=True
        ):
            np.testing.assert_allclose(got, expected, 2e-4, 2e-4 * np.max(np.abs(expected)))


def test_programs_on_several_devices_have_no_replica():
    """Devices that run one program may be replicas, so it must not ask for replica numbers."""
    x = RNG.rand(4, 8 * 300, 200).astype(np.float32)
    marked = jaxmlir.trace(counted)(x).run_passes(MARK)
    mesh = jax.make_mesh((len(jax.devices()),), ("i",), (jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, jax.P(None, "i"))
    text = jax.jit(lambda x: marked(x), in_shardings=sharding).lower(x).as_text()
    assert len(jax.devices()) > 1
    assert "replica_id" not in text
