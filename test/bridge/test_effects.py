"""Side effects under transformations happen as in JAX, and in the same order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

_happened = []


def _note(rule, x):
    _happened.append((rule, float(x)))


def _sine_that_tells(ordered):
    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    def forward(x):
        jax.debug.callback(lambda x: _note("forward", x), x, ordered=ordered)
        return sine(x), x

    def backward(x, g):
        jax.debug.callback(lambda g: _note("backward", g), g, ordered=ordered)
        return (g * jnp.cos(x),)

    sine.defvjp(forward, backward)
    return sine


def _in_a_scan(f, x):
    return lax.scan(lambda c, i: (f(c) * i, None), x, jnp.arange(1.0, 4.0))[0]


CALLERS = {
    "alone": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(f)(x),
    "cond": lambda f, x: lax.cond(x > 0, f, jnp.cos, x),
    "scan": _in_a_scan,
    "fori": lambda f, x: lax.fori_loop(0, 3, lambda i, c: f(c), x),
    "checkpoint": lambda f, x: jax.checkpoint(f)(x),
    "checkpoint in scan": lambda f, x: _in_a_scan(jax.checkpoint(f), x),
    "scan in jit": lambda f, x: jax.jit(lambda x: _in_a_scan(f, x))(x),
}


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("caller", CALLERS)
def test_what_a_custom_rule_does_happens(caller, ordered):
    """Only the rules have effects, not the function: every op around a rule gets these effects."""
    f = _sine_that_tells(ordered)
    gradient = jaxmlir.trace(lambda x: CALLERS[caller](f, x))(1.0).grad()
    gradient.verify()
    optimized = gradient.optimize(2)
    optimized.verify()

    def run(g):
        _happened.clear()
        result = g(1.0)
        jax.effects_barrier()
        return result, _happened[:] if ordered else sorted(_happened)

    expected, happened = run(jax.jit(jax.grad(lambda x: CALLERS[caller](f, x))))
    assert len(happened) >= 2
    for ours in (gradient, optimized):
        result, told = run(ours)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert [rule for rule, _ in told] == [rule for rule, _ in happened]
        np.testing.assert_allclose([v for _, v in told], [v for _, v in happened], rtol=1e-6)


@pytest.mark.parametrize("ordered", [0, 1, np.bool_(True)])
def test_a_flag_is_what_it_is_true_as(ordered, capfd):
    """JAX accepts any object for ``ordered``, and tests its truth value."""

    def f(x):
        jax.debug.print("x = {}", x, ordered=ordered)
        return x * 2

    program = jaxmlir.trace(f)(1.0)
    program.verify()
    restored = jaxmlir.parse(program.as_text())
    assert restored(3.0) == 6.0
    jax.effects_barrier()
    assert "x = 3.0" in capfd.readouterr().out
    plain = jaxmlir.trace(lambda x: (jax.debug.print("x = {}", x, ordered=bool(ordered)), x * 2)[1])
    assert program.as_text() == plain(1.0).as_text().replace("@lambda", "@f")


@pytest.mark.compat
@pytest.mark.parametrize("ordered", [False, True])
def test_branches_that_are_chosen_before_are_run_once(ordered):
    happened = []

    def telling(x):
        jax.debug.callback(lambda x: happened.append(float(x)), x, ordered=ordered)
        return x + 1

    def function(x):
        x = lax.cond(x > 0, telling, telling, x)
        x = lax.switch(1, [jnp.sin, telling], x)
        return lax.fori_loop(0, 0, lambda i, x: telling(x), x)

    program = jaxmlir.trace(function)(1.0).optimize(1)
    program.verify()
    assert not any(f'"jaxpr.{name}"' in program.as_text() for name in ("cond", "scan"))
    assert float(program(1.0)) == 3
    jax.effects_barrier()
    assert sorted(happened) == [1, 2]


@pytest.mark.compat
def test_references_are_written_once_by_a_branch_that_is_chosen_before():
    def function(x):
        ref = jax.new_ref(x)

        def double():
            ref[...] = 2 * ref[...] + 1

        lax.cond(x > 0, double, double)
        lax.switch(1, [lambda: None, double])
        return ref[...]

    program = jaxmlir.trace(function)(1.0)
    for level in (1, 2):
        assert float(program.optimize(level)(1.0)) == float(jax.jit(function)(1.0)) == 7
