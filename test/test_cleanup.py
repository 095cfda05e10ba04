"""Clean-up passes on random programs: results bit for bit, idempotence, and JAX as the judge."""

import jax
import numpy as np
import pytest
from derivative_checks import vector_like
from hypothesis import given
from random_programs import budget, programs, run

import jaxmlir
from jaxmlir._compat import core, open_jaxpr, pe

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


def same_bits(program, other, *args):
    ours, theirs = jax.tree.leaves(program(*args)), jax.tree.leaves(other(*args))
    for a, b in zip(ours, theirs, strict=True):
        assert np.array_equal(a, b, equal_nan=True), (a, b)


@budget
@given(steps=programs)
def test_dce_leaves_no_more_than_jax_does(steps):
    args, program, jvp = program_of(steps)
    for before, args_ in ((program, args), (jvp, (args, args))):
        after = before.run_passes("jaxpr-dce")
        assert equations(after.to_jaxpr()) <= equations(cleaned_by_jax(before))
        assert after.run_passes("jaxpr-dce").as_text() == after.as_text()
        same_bits(before, after, *args_)
