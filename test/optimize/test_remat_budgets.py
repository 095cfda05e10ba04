"""Memory budgets: the memory of compiled programs, and recomputed straight-line code."""

import functools
import re

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import strategies as st
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from test_remat import STATE, WEIGHTS, assert_close, gradients, recurrent, temp_bytes

import jaxmlir
from benchmarks.programs import NAIVE, PROGRAMS
from jaxmlir.dialect.ir import scope
from jaxmlir.optimize.memory.straight import in_segments


def layers(ws, x):
    """Straight-line code whose derivative reads several values of each layer."""
    for w in ws:
        x = x + jnp.sin(jnp.tanh(x @ w) ** 2)
    return jnp.sum(x)


LAYERS = [WEIGHTS + 0.01 * i for i in range(24)], np.tile(STATE, (16, 1))
FEWER_LAYERS = LAYERS[0][:14], LAYERS[1]


def test_budget_in_bytes():
    args = (WEIGHTS, STATE)
    program = jaxmlir.trace(recurrent(64))(*args).grad()
    budget = temp_bytes(program) // 3
    assert temp_bytes(program.remat(budget)) <= budget


def test_a_budget_is_positive():
    program = jaxmlir.trace(jnp.sin)(1.0)
    with pytest.raises(jaxmlir.errors.ArgumentError, match="memory_budget: .* above 0 .*, got 0"):
        program.remat(0)
    with pytest.raises(jaxmlir.errors.PipelineError, match="'memory-budget' .* above 0 .*, got 0"):
        program.run_passes("jaxpr-remat{memory-budget=0}")


@pytest.mark.compat
@pytest.mark.parametrize("budget", [0.5, 0.35])
def test_straight_line_code_is_run_again(budget):
    """JAX 0.10 merges values that `jax.checkpoint` recomputes with the original ones."""
    for program in gradients(layers, LAYERS):
        remarks = []
        less = program.remat(budget, remarks=remarks.append)
        assert temp_bytes(less) <= budget * temp_bytes(program)
        jax.tree.map(np.testing.assert_array_equal, less(*LAYERS), program(*LAYERS))
        settled, *again = [remark.message for remark in remarks]
        assert re.search(r"needs .* of temporary memory, by the compiler; the budget is", settled)
        assert "of the forward pass again" in again[0]
        assert {remark.file for remark in remarks} == {__file__}


@pytest.mark.compat
def test_straight_line_code_that_is_run_again_is_transformed_like_any():
    less = jaxmlir.trace(jax.grad(layers, 1))(*FEWER_LAYERS).remat(0.25)
    assert 'name = "wait"' in str(less)
    ws, x = FEWER_LAYERS
    tangent = functools.partial(jax.jvp, primals=(x,), tangents=(x,))
    want = jax.jit(lambda: tangent(lambda x: jax.grad(layers, 1)(ws, x)))()
    assert_close(tangent(lambda x: less(ws, x)), want)
    xs = np.stack([x, 2 * x])
    assert_close(less.vmap((None, 0))(ws, xs), jax.vmap(jax.grad(layers, 1), (None, 0))(ws, xs))


@pytest.mark.compat
def test_what_is_not_to_run_twice_runs_once():
    """Random numbers of a stateful generator, callbacks, and named values."""
    seen = []

    def f(ws, x):
        for w in ws:
            x = jnp.sin(checkpoint_name(jnp.tanh(x @ w), "named"))
            jax.debug.callback(lambda s: seen.append(s), x.sum())
            x = x * lax.rng_uniform(0.5, 1.5, x.shape)
        return jnp.sum(x)

    program = jaxmlir.trace(f)(*FEWER_LAYERS).grad()
    less = program.remat(1e-9)
    assert 'name = "wait"' in str(less)
    for name in ("debug_callback", "rng_uniform", "name"):
        assert str(less).count(f'"jaxpr.{name}"') == str(program).count(f'"jaxpr.{name}"') > 0
    jax.block_until_ready(less(*FEWER_LAYERS))
    jax.effects_barrier()
    assert len(seen) == len(FEWER_LAYERS[0])


def test_a_call_is_no_fence_by_the_name_of_its_function():
    @jax.jit
    def fence(x):
        jax.debug.callback(lambda s: None, x)

    def f(x):
        fence(x)
        return jnp.sum(jnp.sin(x))

    program = jaxmlir.trace(f)(LAYERS[1])
    passes = "jaxpr-checkpoint-segments{min-peak=0},jaxpr-remat{memory-budget=1}"
    assert 'name = "fence"' in str(program.run_passes(passes))


def test_where_results_take_all_memory_nothing_is_run_again():
    """Intermediate values fit into the results' memory, which is allocated from the start."""

    def f(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    args = LAYERS[0], STATE[:8]
    program = jaxmlir.trace(f)(*args).grad()
    assert str(program.remat(0.5)) == str(program.run_passes("jaxpr-inline"))


@pytest.mark.compat
def test_what_could_run_early_waits():
    """Steps on small grids: XLA does not mind memory at these sizes, so it runs ops as early as it
    can, and fuses each step into the next ones."""

    def f(u, v):
        for _ in range(12):
            u, v = u + 0.1 * jnp.roll(u, 1, 0) - u * v**2, v + 0.1 * jnp.roll(v, 1, 1) + u * v**2
        return jnp.mean(v**2)

    args = np.linspace(0, 1, 128 * 128, dtype=np.float32).reshape(2, 64, 128)
    program = jaxmlir.trace(f)(*args).grad((0, 1))
    less = program.remat(0.5)
    assert temp_bytes(less) <= 0.5 * temp_bytes(program)
    assert_close(less(*args), program(*args))


@pytest.mark.compat
def test_sums_are_stored_on_the_way():
    """The layers share one matrix; XLA adds up its cotangents at the end, all at once, and they
    would take most of the memory."""

    def f(w, x):
        for _ in range(24):
            x = x + jnp.sin(jnp.tanh(x @ w) ** 2)
        return jnp.sum(x)

    args = np.tile(WEIGHTS, (4, 4)) / 4, np.tile(STATE, (1, 4))
    for program in gradients(f, args):
        less = program.remat(0.35)
        assert temp_bytes(less) <= 0.35 * temp_bytes(program)
        assert_close(less(*args), program(*args))


@pytest.mark.compat
def test_zeros_to_write_into_are_made_late():
    """XLA would make the zeros for the gathers' gradients of all layers right at the start."""

    def f(x, i):
        for _ in range(16):
            x = x * jnp.sin(jnp.tanh(x)[i].sum(0))
        return jnp.sum(x**2)

    args = np.linspace(0, 1, 64 * 512, dtype=np.float32).reshape(64, 512), np.arange(8)
    for program in gradients(f, args):
        less = program.remat(0.4)
        assert temp_bytes(less) <= 0.4 * temp_bytes(program)
        assert_close(less(*args), program(*args))


@pytest.mark.compat
@pytest.mark.parametrize("number", [2, 4, 8])
def test_what_waits_is_another_buffer(number):
    """XLA writes in place into an operand if a kernel is its last reader.  The kernel may read both
    a value of the forward pass, transposed, and the value that waited."""

    def f(x, y):
        x = x * jnp.roll(y, 1, 0) * 0.5 + x
        x, y = y, x * 0.9 + 0.1 * jnp.sum(x * y, 0, keepdims=True) / 40
        x, y = y, x[::-1] * jnp.tanh(y) + x * 0.5
        x, y = y, jnp.tanh(x @ w) + y
        x, y = y, x.T * y * 0.5 + jnp.roll(x, 1, 0)
        x, y = y, jnp.sin(x) + y.T * 0.3
        return jnp.mean(x * jnp.roll(y, 1, 0))

    w = np.random.RandomState(0).randn(40, 40).astype(np.float32) / 8
    x, y = (np.random.RandomState(i).rand(40, 40).astype(np.float32) - 0.5 for i in (21, 22))
    program = jaxmlir.trace(f)(x, y).grad((0, 1)).run_passes("jaxpr-inline")
    cut = program.clone()
    with scope():
        assert in_segments(cut, cut.name, number)
    for got, want in zip(cut(x, y), program(x, y), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 * np.max(np.abs(want)))


@pytest.mark.compat
def test_batches_are_computed_in_tiles_within_a_budget():
    def mixture(means, x):
        distance = jnp.sum((x[:, None] - means) ** 2, -1)
        return -jnp.mean(jax.nn.logsumexp(-distance, axis=1))

    means, x = np.resize(WEIGHTS, (64, 8)), np.resize(STATE, (20_000, 8))
    program = jaxmlir.trace(mixture)(means, x).grad()
    less = program.remat(0.1)
    assert temp_bytes(less) <= 0.1 * temp_bytes(program)
    assert_close(less(means, x), program(means, x))


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize("name", ["gnn", "lstm_unrolled", "newton_unrolled", "gray_scott_unrolled"])
def test_half_of_the_memory(name):
    """Segments of these programs take less than half of the memory, as the compiler reports;
    estimates are off by up to 1.6 here."""
    function, args = (PROGRAMS | NAIVE)[name].make("full")
    less = jaxmlir.trace(function)(*args).grad().optimize(1).remat(0.5)
    of_jax = jax.jit(jax.grad(function)).lower(*args).compile().memory_analysis()
    assert temp_bytes(less) <= 0.5 * of_jax.temp_size_in_bytes


@pytest.mark.compat
def test_where_nothing_takes_less_it_stays_as_it_is():
    """The factors of the product are arguments, which are in memory anyway."""
    program = jaxmlir.trace(lambda a, b: jnp.sum((a @ b) ** 2))(WEIGHTS, WEIGHTS).grad((0, 1))
    remarks = []
    with pytest.warns(UserWarning, match="@lambda.grad needs .*; the budget is"):
        assert str(program.remat(0.1, remarks=remarks.append)) == str(program)
    (remark,) = remarks
    assert "of temporary memory, by the compiler; the budget is" in remark.message


def test_memory_is_estimated_if_that_is_asked_for():
    remarks = []
    program = jaxmlir.trace(layers)(*LAYERS).grad()
    less = program.remat(0.5, measure=False, remarks=remarks.append)
    assert "by an estimate" in remarks[0].message
    assert temp_bytes(less) <= 0.5 * temp_bytes(program)


@pytest.mark.compat
def test_memory_is_estimated_where_the_program_is_not_compiled():
    """The program calls a foreign function that is not registered in this process."""

    def f(ws, x):
        start = jax.ffi.ffi_call("elsewhere", jax.ShapeDtypeStruct(x.shape, x.dtype))
        return layers(ws, start(x))

    remarks = []
    program = jaxmlir.trace(f)(*LAYERS).grad(0)
    less = program.remat(0.5, remarks=remarks.append)
    less.verify()
    messages = [remark.message for remark in remarks]
    assert "memory is estimated: " in messages[0] and "elsewhere" in messages[0]
    assert "by an estimate" in messages[1]
    assert "of the forward pass again" in messages[2]


@pytest.mark.compat
@hypothesis.given(random_programs.programs, st.sampled_from([2, 3, 8]))
@random_programs.budget
def test_random_programs_in_segments(steps, number):
    def f(x, y):
        return random_programs.run(steps, x, y).sum()

    x, y = jnp.array([0.3, -0.8, 0.5]), jnp.array([0.9, 0.1, -0.4])
    program = jaxmlir.trace(f)(x, y).grad((0, 1)).run_passes("jaxpr-inline")
    cut = program.clone()
    with scope():
        in_segments(cut, cut.name, number)
    cut.verify()
    assert_close(cut(x, y), program(x, y))
