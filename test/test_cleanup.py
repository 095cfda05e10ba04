"""Clean-up passes on random programs: results bit for bit, idempotence, and JAX as the judge."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import vector_like
from hypothesis import given
from random_programs import budget, programs, run

import jaxmlir
from jaxmlir._compat import core, open_jaxpr, pe
from jaxmlir.errors import PipelineError
from jaxmlir.passes import level_pipeline


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


@pytest.mark.compat
@budget
@given(steps=programs)
def test_dce_leaves_no_more_than_jax_does(steps):
    args, program, jvp = program_of(steps)
    for before, args_ in ((program, args), (jvp, (*args, *args))):
        after = before.run_passes("jaxpr-dce")
        assert equations(after.to_jaxpr()) <= equations(cleaned_by_jax(before))
        assert after.run_passes("jaxpr-dce").as_text() == after.as_text()
        same_bits(before, after, args_)


@pytest.mark.parametrize("passes", ["jaxpr-cse", "jaxpr-inline", level_pipeline(1)])
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


@pytest.mark.compat
def test_effects_stay_in_their_order(capfd):
    """References are read and written, and prints printed, as often and in the order as before."""

    def step(ref, x):
        jax.debug.print("step {}", x[0], ordered=True)
        ref[...] = ref[...] + x
        return ref[...]

    def function(x):
        ref = jax.new_ref(x)
        first, second = step(ref, x), step(ref, x)
        unread = jax.new_ref(x)
        unread[...] = first
        jax.new_ref(x)[...]
        total, _ = jax.lax.scan(lambda c, y: (c + y, jax.debug.print("y {}", y)), 0.0, x)
        return first, second, total, jnp.sin(x) * 0 + x

    x = np.arange(1, 4, dtype=np.float32)
    program = jaxmlir.trace(function)(x)
    after = program.optimize(1)
    after.verify()
    # A reference that is only read is no effect; one that nobody reads is still written.
    assert after.as_text().count("jaxpr.new_ref") == 2
    results, printed = [], []
    for f in (jax.jit(function), program, after, jaxmlir.jit(function, optimize=1)):
        results.append(jax.tree.map(np.asarray, f(x)))
        jax.effects_barrier()
        printed.append(capfd.readouterr().out)
    assert printed[0].count("step") == 2
    assert len(set(printed)) == 1
    for other in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, results[0], other)


@pytest.mark.compat
def test_switches():
    """Levels and their passes can be chosen for ``jit``, too."""

    def function(x):
        return jnp.sin(x) + jnp.sin(x)

    def sines(**options):
        return jaxmlir.jit(function, **options).lower(np.float32(1)).as_text().count("sine")

    assert (sines(), sines(optimize=1), sines(optimize=1, without=["jaxpr-cse"])) == (2, 1, 2)
    with pytest.raises(PipelineError, match="there is no optimization level 9"):
        jaxmlir.jit(function, optimize=9)
    with pytest.raises(PipelineError, match="'jaxpr-vmap' is a pass of no optimization level"):
        jaxmlir.jit(function, without=["jaxpr-vmap"])


def test_remarks_name_the_users_line():
    def function(x):
        jnp.sin(x)  # here
        return jnp.negative(-x)

    said = []
    jaxmlir.trace(function)(1.0).optimize(1, remarks=said.append)
    lines = Path(__file__).read_text().splitlines()
    (removed,) = [r for r in said if "jaxpr.sin" in r.message]
    assert removed.severity == "remark"
    assert removed.message.startswith("[jaxpr-dce] removed")
    assert removed.file == __file__
    assert lines[removed.line - 1].endswith("# here")
    assert any("neg(neg(x)) = x" in r.message for r in said)
