"""Tuning: what is timed, chosen and remembered, and when nothing can be measured."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir.caching import rule_cache
from jaxmlir.errors import ArgumentError
from jaxmlir.program import tuned, tuning
from jaxmlir.program.tuning import Candidate, Choice, Trial

N = 700
MOST_FORMS = 6


def bracketed(a, b, x):
    """A product of matrices, applied to a vector: level 2 makes it two products with vectors."""
    return (a @ b) @ x


@pytest.fixture
def operands():
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(N, N), (N, N), (N,)]
    return [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]


@pytest.fixture
def said():
    return []


def tuned_jit(fun, said, **options):
    return jaxmlir.jit(fun, optimize="tune", remarks=lambda d: said.append(d.message), **options)


@pytest.mark.compat
def test_the_fastest_form_is_kept_and_gives_the_same_numbers(operands, said):
    f = tuned_jit(bracketed, said)
    np.testing.assert_allclose(f(*operands), bracketed(*operands), rtol=2e-3, atol=2e-2)
    chosen = [text for text in said if text.endswith("chosen")]
    assert len(chosen) == 1 and "jax.jit:" not in chosen[0]
    assert len(said) <= MOST_FORMS
    seconds = {text: float(ms[1]) for text in said if (ms := re.search(r"([\d.]+) ms", text))}
    is_fastest = seconds[chosen[0]] <= min(seconds.values())
    assert is_fastest or "no other is measurably faster, chosen" in chosen[0]
    before = len(said)
    f(*operands)
    assert len(said) == before


def test_a_program_is_tuned_as_well(operands, said):
    program = jaxmlir.trace(bracketed)(*operands)
    found = program.tune(*operands, seconds=1, remarks=lambda d: said.append(d.message))
    assert any(text.endswith("chosen") for text in said)
    assert "dot_general" in str(found) and str(found) != str(program)
    np.testing.assert_allclose(found(*operands), bracketed(*operands), rtol=2e-3, atol=2e-2)
    with pytest.raises(ArgumentError, match="seconds: expected a positive number"):
        program.tune(*operands, seconds=0)


def test_what_compiles_to_the_same_code_is_not_timed(said):
    f = tuned_jit(lambda x: x + 1, said)
    assert f(jnp.float32(1)) == 2
    assert [text for text in said if "ms" in text] == []
    assert said[0].endswith("jax.jit: chosen")
    assert all("the same as jax.jit" in text for text in said[1:])


def test_each_signature_has_a_choice_of_its_own(operands, said):
    f = tuned_jit(bracketed, said)
    f(*operands)
    small = [jnp.ones((2, 2)), jnp.eye(2), jnp.arange(2.0)]
    np.testing.assert_array_equal(f(*small), [1, 1])
    f(*operands)
    assert sum("chosen" in text for text in said) == 2
    assert f.lower(*small).as_text().count("dot_general") == 2


def test_static_and_keyword_arguments(said):
    f = tuned_jit(lambda x, n, *, by: x * n + by, said, static_argnums=1, static_argnames="by")
    assert f(jnp.ones(2), 3, by=1).tolist() == [4, 4]
    assert f(jnp.ones(2), 4, by=1).tolist() == [5, 5]
    assert sum("chosen" in text for text in said) == 2


def test_donated_arguments_are_consumed_by_the_call_alone(said):
    f = tuned_jit(lambda s, x: s + jnp.sin(x) * jnp.cos(x), said, donate_argnums=0)
    x = jnp.linspace(0, 1, 1 << 18)
    state = jnp.zeros_like(x)
    found = f(state, x)
    assert state.is_deleted() and not x.is_deleted()
    np.testing.assert_allclose(found, np.sin(x) * np.cos(x), rtol=1e-5, atol=1e-6)


@pytest.mark.compat
def test_what_has_effects_runs_once_for_each_call(said):
    seen = []

    def f(x):
        jax.debug.callback(lambda x: seen.append(float(x)), x)
        return x + 1

    g = tuned_jit(f, said)
    with pytest.warns(UserWarning, match="it has effects .*, so it is not run for timing"):
        assert g(jnp.float32(1)) == 2
    g(jnp.float32(3))
    jax.effects_barrier()
    assert seen == [1, 3]
    program = jaxmlir.trace(f)(1.0)
    with pytest.warns(UserWarning, match="is not run for timing"):
        program.tune(jnp.float32(1))
    jax.effects_barrier()
    assert seen == [1, 3]


@pytest.mark.compat
def test_where_jax_traces_it_is_level_2(operands, said):
    f = tuned_jit(bracketed, said)
    a, b, x = operands
    batch = jnp.stack([x, 2 * x])
    rows = jax.vmap(f, (None, None, 0))(a, b, batch)
    np.testing.assert_allclose(rows[1], 2 * bracketed(a, b, x), rtol=2e-3, atol=2e-2)
    slope = jax.grad(lambda x: f(a, b, x).sum())(x)
    np.testing.assert_allclose(slope, (a @ b).sum(0), rtol=2e-3, atol=2e-2)
    jax.jit(f)(a, b, x)
    jax.eval_shape(f, a, b, x)
    f.lower(a, b, x)
    assert all("level 2: " in text for text in said) and len(said) >= 3
    with jax.disable_jit():
        np.testing.assert_array_equal(f(a, b, x), bracketed(a, b, x))


def test_a_target_that_is_not_here_is_not_timed(operands, said):
    tuned_jit(bracketed, said, target="tpu:v5e")(*operands)
    assert said == ["[jaxmlir.jit] bracketed with optimize='tune': level 2: "
                    "there is no device of the target tpu:v5e here"]  # fmt: skip


def test_a_choice_is_remembered_by_later_processes(operands, said, tmp_path, monkeypatch):
    def new_process():
        files = rule_cache.RuleFiles(str(tmp_path))
        cache = rule_cache.RuleCache(files, "", frozenset())
        monkeypatch.setattr(tuned, "disk_cache", lambda: cache)
        return files

    files = new_process()
    tuned_jit(bracketed, said)(*operands)
    files.write()
    new_process()
    later = []
    np.testing.assert_allclose(
        tuned_jit(bracketed, later)(*operands), bracketed(*operands), rtol=2e-3, atol=2e-2
    )
    assert len(later) == 1 and later[0].endswith("chosen by an earlier trial")
    # Nothing is known about another program.
    tuned_jit(lambda a, b, x: bracketed(a, b, x) + 1, later)(*operands)
    assert len(later) > 2
    assert tuned.decoded_choice(b'[2, ["no-such-pass"], null]') is None
    assert tuned.decoded_choice(b"damaged") is None


# -- of a trial ------------------------------------------------------------------------------------


def run(forms, *args):
    """Chooses among functions by level; returns the choice, and the trial."""
    trial = Trial("f", lambda choice, _: jax.jit(forms[choice.level]), lambda: (args, {}))
    return trial.run(), trial


def slow(x, steps):
    return jax.lax.fori_loop(0, steps, lambda _, x: jnp.sin(x), x)


def test_a_form_of_other_numbers_is_dropped():
    forms = [lambda x: slow(x, 50), lambda x: slow(x, 51), lambda x: x]
    with pytest.warns(UserWarning, match="differ from those of jax.jit: in result 0, elements"):
        choice, trial = run(forms, jnp.ones(1000))
    assert choice == Choice(0) and all(c.note for c in trial.candidates)


def test_a_form_that_cannot_be_compiled_is_left_out():
    def fails(x):
        raise RuntimeError("no such form")

    choice, trial = run([jnp.sin, fails, fails], jnp.ones(3))
    assert choice == Choice(0)
    assert "RuntimeError: no such form" in trial.candidates[1].note
    with pytest.raises(RuntimeError, match="no such form"):
        run([fails, fails, fails], jnp.ones(3))


def test_the_plainer_form_wins_in_doubt():
    rng = np.random.default_rng(0)

    def candidate(level, scale, rounds):
        found = Candidate(Choice(level), None)
        # Like real times: noise only makes them longer.
        found.times = list(scale * (1 + rng.exponential(0.05, rounds)))
        return found

    for rounds in tuning.LOOKS:
        wrong = faster = 0
        for _ in range(50):
            plain = candidate(0, 1.0, rounds)
            wrong += tuning.best_of([plain, candidate(2, 1.0, rounds)]) is not plain
            faster += tuning.best_of([plain, candidate(2, 0.7, rounds)]) is not plain
        assert wrong <= 1 and faster == 50


@pytest.mark.parametrize(
    ("expected", "found", "agrees"),
    [
        (np.float32([1, 1000]), np.float32([1.1, 1000]), True),
        (np.float32([1, 1000]), np.float32([2, 1000]), False),
        (np.float64([1.0]), np.float64([1 + 1e-7]), False),
        (jnp.array([1.0], "bfloat16"), jnp.array([1.05], "bfloat16"), True),
        (np.float32([np.nan, 1]), np.float32([np.nan, 1]), True),
        (np.float32([np.nan, 1]), np.float32([0, 1]), False),
        (np.float32([1, 1]), np.float32([1, np.nan]), False),
        (np.float32([np.inf]), np.float32([-np.inf]), False),
        (np.complex64([1j]), np.complex64([1]), False),
        (np.int32([1, 2]), np.int32([1, 3]), False),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), True),
        (jax.random.key(0), jax.random.key(1), False),
    ],
)
def test_numbers_agree_up_to_rounding(expected, found, agrees):
    assert (tuning.difference(expected, found) == "") is agrees


def test_at_most_six_forms_are_tried():
    said = {f"jaxpr-{name}": 3 for name in ("licm", "tile", "remat", "dot-to-2d")}
    for temporaries in (0, 1 << 30):
        choices = list(tuning.plan((), said, temporaries))
        assert len({Choice(0), Choice(1), Choice(2), *choices}) == MOST_FORMS
    assert list(tuning.plan((), {"jaxpr-cse": 9}, 0)) == []


def test_a_wrong_level_says_how_to_tune():
    program = jaxmlir.trace(jnp.sin)(1.0)
    with pytest.raises(jaxmlir.errors.PipelineError, match=r"program\.tune\(\*args\)"):
        program.optimize("tune")
    with pytest.raises(jaxmlir.errors.PipelineError, match="optimize='tune'"):
        jaxmlir.jit(jnp.sin, optimize="tuned")(1.0)
