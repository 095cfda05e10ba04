"""The tool that composes transformations of the benchmark programs."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import lax

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import words

pytestmark = pytest.mark.compat


def test_compositions_of_programs_equal_jaxs(capsys):
    assert words.main(["--length", "2", "--select", "^root_finder$"]) == 0
    assert "12 passed  0 refused  0 failed" in capsys.readouterr().out


def test_a_program_that_is_not_there_is_an_error(capsys):
    with pytest.raises(SystemExit):
        words.main(["--select", "^root_findr$"])
    message = "no program has a name that matches '^root_findr$'; there are mlp, "
    assert message in capsys.readouterr().err


def test_a_wrong_number_is_found(monkeypatch):
    x = jnp.arange(1.0, 4.0)
    assert words.outcome(jnp.sin, ("jvp", "vmap"), x) == "passed"
    by_passes = words.by_passes

    def slightly_wrong(letter, f, x):
        made = by_passes(letter, f, x)
        return lambda x: 1.01 * made(x)

    monkeypatch.setattr(words, "by_passes", slightly_wrong)
    assert words.outcome(jnp.sin, ("jvp", "vmap"), x).startswith("off by 2.0e-02 where JAX applies")


def test_what_jax_refuses_is_refused():
    def f(x):
        return lax.while_loop(lambda c: c < 9.0, lambda c: c * x, x)

    assert words.outcome(f, ("grad",), jnp.float32(2.0)) == "refused"
    assert words.outcome(f, ("jvp",), jnp.float32(2.0)) == "passed"


def test_what_jax_refuses_when_it_lowers_is_refused():
    @jax.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * x * ct,))
    assert words.outcome(f, ("jvp",), jnp.float32(2.0)) == "refused"
    assert words.outcome(f, ("grad",), jnp.float32(2.0)) == "passed"
