"""Memory budgets of compiled functions, and the cost of budgets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.errors import ArgumentError
from jaxmlir.support.options import in_units
from jaxmlir.support.warn import warn

W, XS = 0.1 * jnp.ones((64, 64)), jnp.ones((200, 64, 64))


def loss(w, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.sum(h**2)

    return jnp.sum(lax.scan(step, jnp.zeros((64, 64)), xs)[1])


def update(w, xs):
    return w - 0.1 * jax.grad(loss)(w, xs)


def temporary(compiled):
    return compiled.lower(W, XS).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.compat
@pytest.mark.parametrize("level", [0, 2])
def test_jit_gets_along_with_a_budget(level):
    ours = jaxmlir.jit(update, optimize=level, memory_budget="1.5MiB")
    assert temporary(jax.jit(update)) > 9e6
    assert temporary(ours) <= 1.5 * 2**20
    np.testing.assert_allclose(ours(W, XS), update(W, XS), rtol=1e-5)


def test_as_a_decorator_it_takes_a_fraction():
    @jaxmlir.jit(memory_budget=0.5)
    def ours(w, xs):
        return update(w, xs)

    assert temporary(ours) <= 0.5 * temporary(jax.jit(update))


def test_a_part_of_the_memory_is_in_whole_bytes():
    assert [in_units(n) for n in (333.6, 1536, 3 * 2**29)] == ["334 bytes", "1.5 KiB", "1.5 GiB"]


@pytest.mark.parametrize("budget", ["much", True, float("nan")])
def test_a_budget_is_checked_at_once(budget):
    with pytest.raises(ArgumentError, match="memory_budget: expected a fraction"):
        jaxmlir.jit(update, memory_budget=budget)


class Axes:
    """A stand-in for matplotlib's axes that records what is drawn."""

    def __init__(self):
        self.drawn, self.said = [], []

    def plot(self, x, y, *marker, **options):
        self.drawn.append((x, y))

    def annotate(self, text, place, **options):
        self.said.append(text)

    def set_xlabel(self, text):
        self.said.append(text)

    set_ylabel = set_xlabel


def test_the_curve_of_a_program():
    program = jaxmlir.trace(loss)(W, XS).grad()
    curve = program.memory_curve(W, XS, budgets=(0.5, 0.1), repetitions=2)
    assert [point.budget for point in curve.points] == [None, 0.5, 0.1]
    asis, half, tenth = curve.points
    assert asis.bytes == program.lower().compile().memory_analysis().temp_size_in_bytes
    assert half.bytes <= 0.5 * asis.bytes and tenth.bytes <= 0.15 * asis.bytes
    assert all(point.seconds > 0 for point in curve.points)
    np.testing.assert_allclose(tenth.program(W, XS), jax.grad(loss)(W, XS), rtol=1e-5)
    # No point on the Pareto front is worse than another one in both respects.
    for point in curve.pareto:
        others = (p for p in curve.points if p.bytes < point.bytes)
        assert all(p.seconds > point.seconds for p in others)
    assert str(curve).count("\n") == 3
    axes = Axes()
    assert curve.plot(axes) is axes
    assert len(axes.drawn) == 4
    assert {"as it is", "0.5", "0.1", "time, ms"} <= set(axes.said)


def test_the_curve_of_symbolic_sizes_and_keyword_arguments():
    (steps,) = jax.export.symbolic_shape("steps")
    traced = jaxmlir.trace(lambda w, *, xs: loss(w, xs))
    program = traced(W, xs=jax.ShapeDtypeStruct((steps, *XS.shape[1:]), XS.dtype)).grad()
    curve = program.memory_curve(W, xs=XS, budgets=(), repetitions=1)
    np.testing.assert_allclose(curve.points[0].program(W, xs=XS), jax.grad(loss)(W, XS), rtol=1e-5)


def test_a_curve_checks_what_it_is_given():
    program = jaxmlir.trace(loss)(W, XS).grad()
    with pytest.raises(ArgumentError, match="memory_budget: expected a fraction"):
        program.memory_curve(W, XS, budgets=("half",))
    with pytest.raises(ArgumentError, match="takes arguments of the pytree"):
        program.memory_curve(W)


def test_a_curve_repeats_no_effects(capfd):
    def noisy(x):
        jax.debug.print("ran")
        return jnp.sin(x)

    program = jaxmlir.trace(noisy)(1.0)
    with pytest.raises(ArgumentError, match=r"has effects .*'jaxpr-drop-callbacks'"):
        program.memory_curve(1.0)
    quiet = program.run_passes("jaxpr-drop-callbacks")
    assert len(quiet.memory_curve(1.0, budgets=(0.5,), repetitions=1).points) == 2
    jax.effects_barrier()
    assert "ran" not in capfd.readouterr().out


def test_tuned_within_a_budget_that_is_not_met_it_warns_once():
    def short(w, x):
        return jnp.sum(lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=20)[0])

    w, x = 0.1 * jnp.ones((8, 8)), jnp.ones((16, 8))
    gradient = jaxmlir.jit(jax.grad(short), optimize="tune", memory_budget=100)
    with pytest.warns(UserWarning, match="the budget is 100 bytes") as warned:
        found = gradient(w, x)
    assert len(warned) == 1
    np.testing.assert_allclose(found, jax.grad(short)(w, x), rtol=1e-4)


def test_one_budget_alone_is_no_list_of_them():
    program = jaxmlir.trace(jnp.sin)(1.0)
    with pytest.raises(jaxmlir.errors.ArgumentError, match="budgets: expected a sequence"):
        program.memory_curve(1.0, budgets=0.5)


def test_a_warning_from_within_jax_is_at_the_users_line():
    with pytest.warns(UserWarning, match="said") as warned:
        jax.tree.map(warn, ["said"])
    assert [w.filename for w in warned] == [__file__]
