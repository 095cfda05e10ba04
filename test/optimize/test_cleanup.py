"""Clean-up passes on random programs: equal results bit for bit, idempotence, JAX as oracle."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import vector_like
from hypothesis import given
from jax import lax
from random_programs import budget, programs, run

import jaxmlir
from jaxmlir._compat import core, open_jaxpr, pe
from jaxmlir.errors import PipelineError
from jaxmlir.passes import level_pipeline
from jaxmlir.rewriting import dedupe, inline


def program_of(steps):
    """A random program together with its derivative, which gives more to clean up."""
    args = vector_like((np.zeros(3, np.float32),) * 2, 0)
    program = jaxmlir.trace(lambda x, y: run(steps, x, y))(*args)
    return args, program, program.jvp()


def equations(jaxpr):
    """The number of equations in a jaxpr, including nested jaxprs."""
    jaxpr, _ = open_jaxpr(jaxpr)
    return len(jaxpr.eqns) + sum(
        equations(inner) for eqn in jaxpr.eqns for inner in core.jaxprs_in_params(eqn.params)
    )


def cleaned_by_jax(program):
    jaxpr, _ = open_jaxpr(program.to_jaxpr())
    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)[0]


def evaluate(program, args):
    """The program's flat results, evaluated op by op, because XLA's rounding depends on fusion."""
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
        # Merging functions makes calls equal, and merging ops makes functions so: levels run both.
        assert "," in passes or again == after.as_text()
        same_bits(before, after, args_)


def test_symbol_dce_sees_functions_in_records():
    """MLIR's own pass keeps functions that only nested attributes refer to."""

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
    """Reads and writes of references and prints keep their number and order."""

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
    # A reference that is only read has no effect; writes stay although nothing reads the reference.
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
    with pytest.raises(PipelineError, match="'jaxpr-vmap' is not a pass of an optimization level"):
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


# --- time -----------------------------------------------------------------------------------------


def in_one_another(count, times=1, most=10):
    """A chain of functions, each of which calls the next one."""

    def function(x):
        return -x

    for _ in range(count):

        def function(x, inner=function):
            for _ in range(most):
                x = jnp.cos(x)
            for _ in range(times):
                x = inner(x)
            return x + x

        function = jax.jit(function)
    return function


def test_a_chain_of_calls_is_copied_once(monkeypatch):
    count, most = 30, 10
    program = jaxmlir.trace(in_one_another(count, most=most))(jnp.ones(3))
    copied = []

    def counted(function, args):
        copied.append(len(function.entry_block.operations))
        return inline_body(function, args)

    inline_body = inline.inline_body
    monkeypatch.setattr(inline, "inline_body", counted)
    inlined = program.run_passes("jaxpr-inline")
    assert len(inlined.functions) == 1
    np.testing.assert_array_equal(inlined(jnp.ones(3)), program(jnp.ones(3)))
    # Each op is copied once, with the return of its function in place of the call.
    assert sum(copied) <= (most + 5) * (count + 1)


def test_a_chain_of_functions_is_split_class_by_class():
    """Functions that differ only in their distance from the last one: each round separates one."""
    count = 300
    reads = []

    class Counted(dict):
        def __getitem__(self, name):
            reads.append(name)
            return super().__getitem__(name)

    uses = {
        f"{chain}{i}": (f"{chain}{i + 1}",) if i + 1 < count else ()
        for chain in "ab"
        for i in range(count)
    }
    class_of = {name: int(not used) for name, used in uses.items()}
    dedupe.split_classes(class_of, Counted(uses))
    assert all(class_of[f"a{i}"] == class_of[f"b{i}"] for i in range(count))
    assert len(set(class_of.values())) == count
    assert len(reads) < 20 * count


@pytest.mark.parametrize("seed", range(20))
def test_classes_are_split_as_one_by_one(seed):
    """The result equals that of rounds that look at all functions."""
    random = np.random.default_rng(seed)
    names = [f"f{i}" for i in range(40)]
    uses = {name: tuple(random.choice(names, random.integers(0, 3))) for name in names}
    class_of = {name: int(random.integers(0, 2)) for name in names}
    expected = dict(class_of)
    while True:
        keys = {n: (expected[n], *(expected[use] for use in uses[n])) for n in names}
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys.values()))}
        if len(numbers) == len(set(expected.values())):
            break
        expected = {name: numbers[keys[name]] for name in names}
    dedupe.split_classes(class_of, uses)
    pairs = {(class_of[name], expected[name]) for name in names}
    assert len(pairs) == len(set(class_of.values())) == len(set(expected.values()))


def test_calls_in_calls_are_looked_into_once():
    """Each function calls the next one twice, 40 deep: 2**40 calls."""
    nested = in_one_another(40, times=2, most=0)

    def blocks(x, w):
        for _ in range(20):
            x = jnp.tanh(nested(x) @ w)
        return x

    def loops(x):
        return [
            lax.scan(lambda c, _, k=k: (nested(c * k), None), x, None, 400)[0] for k in (2.0, 3.0)
        ]

    program = jaxmlir.trace(blocks)(jnp.ones((4, 4)), jnp.ones((4, 4)))
    program.run_passes("jaxpr-reroll")
    program = jaxmlir.trace(loops)(jnp.ones(3))
    program.run_passes("jaxpr-fuse-scans")
