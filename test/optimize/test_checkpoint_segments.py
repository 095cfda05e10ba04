"""Recomputed forward passes: memory falls, numbers stay, and some programs are left alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir import targets
from jaxmlir.dialect.ir import scope
from jaxmlir.optimize.memory import checkpoint_segments
from jaxmlir.optimize.memory.profile import Timeline
from jaxmlir.optimize.memory.straight import StraightLine

RNG = np.random.RandomState(0)
X = RNG.randn(1024, 64).astype(np.float32)
WEIGHTS = [RNG.randn(64, 64).astype(np.float32) / 8 for _ in range(24)]
ALL = "jaxpr-checkpoint-segments{calls=inf min-peak=0}"
MIB = 1 << 20


def layers(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w) + jnp.exp(-x * x)
    return jnp.mean(x**2)


def gradient(f=layers, *args):
    """The gradient as the pass gets it at level 2, after jaxpr-materialize-shared."""
    program = jaxmlir.trace(f)(*(args or (WEIGHTS, X))).optimize(1).grad().optimize(1)
    return program.run_passes("jaxpr-materialize-shared")


def temporary(program):
    return program.lower().compile().memory_analysis().temp_size_in_bytes


def library(keeps):
    """The CPU target with a C library that keeps freed blocks of up to so many bytes."""
    cpu = targets.target("cpu")
    costs = cpu.costs._replace(kept_block=keeps)
    return dataclasses.replace(cpu, measured=cpu.machine._replace(costs=costs))


@pytest.mark.compat
@pytest.mark.parametrize("kept", [5 * MIB, 7 * MIB])
def test_memory_is_what_is_kept(kept):
    before = gradient()
    remarks = []
    passes = "jaxpr-checkpoint-segments{calls=inf}"
    after = before.run_passes(passes, target=library(kept), remarks=remarks.append)
    after.verify()
    assert temporary(before) > 2.4 * kept
    assert temporary(after) <= 1.6 * kept
    assert "of the forward pass again" in remarks[0].message
    for got, want in zip(after(WEIGHTS, X), jax.grad(layers)(WEIGHTS, X), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-6)


def test_by_default_at_level_2():
    """A program of 100 MiB and more, jitted as users do."""

    def loss(x):
        return layers(WEIGHTS[:20], x)

    x = RNG.randn(16384, 64).astype(np.float32)
    compiled = [
        jaxmlir.jit(jax.grad(loss), optimize=2, without=without).lower(x).compile()
        for without in (("jaxpr-tile", "jaxpr-checkpoint-segments"), ("jaxpr-tile",))
    ]
    before, after = (c.memory_analysis().temp_size_in_bytes for c in compiled)
    assert before > 64 * MIB
    assert after < before / 3
    np.testing.assert_allclose(compiled[1](x), jax.grad(loss)(x), 1e-4, 1e-8)


def long(x):
    """Recomputing does not pay here: the matrices are square, so products are expensive."""
    for _ in range(8):
        x = jnp.tanh(x @ x @ x @ x)
    return jnp.sum(x)


@pytest.mark.parametrize(
    ("options", "target", "function", "args"),
    [
        ("", "cpu", layers, (WEIGHTS, X)),
        ("{min-peak=0}", "tpu", layers, (WEIGHTS, X)),
        ("{min-peak=0}", "cpu", long, (np.eye(512, dtype=np.float32),)),
        ("{min-peak=0}", "cpu", lambda x: x, (np.float32(1),)),
    ],
)
def test_what_is_left_alone(options, target, function, args):
    program = gradient(function, *args)
    assert str(program.run_passes(f"jaxpr-checkpoint-segments{options}", target=target)) == str(
        program
    )


@pytest.mark.compat
@pytest.mark.parametrize("number", [2, 3, 5])
def test_memory_is_known_before_it_is_written(number):
    """The estimate is the rewritten program's peak, except for values read within a segment."""
    program = gradient()
    with scope():
        steps = Timeline(program, program.function(program.name))
        line = StraightLine.of(program, program.name)
        segments = line.segments(number)
        estimate = checkpoint_segments.memory_in_segments(segments, line, steps).max()
        line.write(program, segments)
        found = Timeline(program, program.function(program.name)).peak
    assert 0.8 * found < estimate <= found


@pytest.mark.parametrize(
    "passes", [ALL, "jaxpr-sink-recompute{calls=inf min-peak=0 min-bytes=0 slowdown=9 min-gain=0}"]
)
def test_what_is_compared_with_its_maximum_is_not_computed_again(passes):
    """Another kernel might round it in another way: then no element would be the maximum."""

    def f(ws, x):
        x = x @ ws[6]
        for w in ws[:6]:
            y = jnp.exp(-x)
            x = jnp.tanh(y @ w) * jnp.max(y, 1, keepdims=True)
        return jnp.sum(x)

    before = gradient(f)
    after = before.run_passes(passes)
    assert str(after).count('"jaxpr.exp"') == str(before).count('"jaxpr.exp"')


def test_where_nothing_gets_along_with_it():
    """The pass saves as much memory as pays."""
    before = gradient()
    after = before.run_passes("jaxpr-checkpoint-segments{calls=inf}", target=library(MIB))
    assert temporary(after) < 0.6 * temporary(before)


@pytest.mark.compat
def test_the_derivative_of_a_program_in_segments():
    def loss(x):
        return layers(WEIGHTS[:4], x)

    x = X[:8]
    program = jaxmlir.trace(jax.grad(loss))(x).optimize(1).run_passes(ALL)
    assert 'name = "wait"' in str(program)
    tangents = np.ones_like(x)
    _, got = program.jvp()((x,), (tangents,))
    _, want = jax.jvp(jax.grad(loss), (x,), (tangents,))
    np.testing.assert_allclose(got, want, 1e-3, 1e-6)
    np.testing.assert_allclose(
        program.vmap()(np.stack([x, 2 * x])),
        jax.vmap(jax.grad(loss))(np.stack([x, 2 * x])),
        1e-4,
        1e-6,
    )
