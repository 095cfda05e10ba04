"""Clean-up passes on random programs: results bit for bit, idempotence, and JAX as the judge."""

import jax
import numpy as np
import pytest
from derivative_checks import vector_like
from hypothesis import given
from random_programs import budget, programs, run

import jaxmlir
from jaxmlir._compat import core, open_jaxpr, pe
from jaxmlir.passes import level_pipeline

pytestmark = pytest.mark.compat


def program_of(steps):
    """A random program together with its derivative, which leaves more to clean up."""
    args = vector_like((np.zeros(3, np.float32),) * 2, 0)
    program = jaxmlir.trace(lambda x, y: run(steps, x, y))(*args)
    return args, program, program.jvp()


def equations(jaxpr):
    """How many equations a jaxpr has, with those of the jaxprs inside."""
    jaxpr, _ = open_jaxpr(jaxpr)
    return len(jaxpr.eqns) + sum(
        equations(inner) for eqn in jaxpr.eqns for inner in core.jaxprs_in_params(eqn.params)
    )


def cleaned_by_jax(program):
    jaxpr, _ = open_jaxpr(program.to_jaxpr())
    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)[0]


def evaluate(program, args):
    """The program's flat results, op by op: XLA rounds as it fuses."""
    with jax.disable_jit():
        return core.jaxpr_as_fun(program.to_jaxpr())(*args)


def same_bits(program, other, args):
    for a, b in zip(evaluate(program, args), evaluate(other, args), strict=True):
        assert np.array_equal(a, b, equal_nan=True), (a, b)


@budget
@given(steps=programs)
def test_dce_leaves_no_more_than_jax_does(steps):
    args, program, jvp = program_of(steps)
    for before, args_ in ((program, args), (jvp, (*args, *args))):
        after = before.run_passes("jaxpr-dce")
        assert equations(after.to_jaxpr()) <= equations(cleaned_by_jax(before))
        assert after.run_passes("jaxpr-dce").as_text() == after.as_text()
        same_bits(before, after, args_)


@pytest.mark.parametrize("passes", ["jaxpr-cse", level_pipeline(1)])
@budget
@given(steps=programs)
def test_clean_up_changes_no_bit(passes, steps):
    args, program, jvp = program_of(steps)
    for before, args_ in ((program, args), (jvp, (*args, *args))):
        after = before.run_passes(passes)
        again = after.run_passes(passes).as_text()
        # Merging functions makes calls equal, and merging ops functions: levels do each once.
        assert "," in passes or again == after.as_text()
        same_bits(before, after, args_)


def test_symbol_dce_sees_functions_in_records():
    """MLIR's own pass keeps the functions that only attributes inside attributes refer to."""

    def solve(b):
        return jax.lax.custom_linear_solve(
            lambda x: 2 * x, b, lambda _, b: b / 2, lambda _, b: b / 2
        )

    program = jaxmlir.trace(solve)(np.ones(3, np.float32))
    after = program.run_passes("symbol-dce")
    assert after.as_text() == program.as_text()
    assert len(after.functions) > 1
