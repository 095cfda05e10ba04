"""Takes the programs of ``programs`` through every step, and compares with plain ``jax.jit``.

If the lowered text equals that of ``jax.jit``, results are the same by construction and nothing is
compiled; otherwise they must agree up to roundings that different fusion explains.
"""

import functools
import itertools
import sys
from contextlib import nullcontext
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import PROGRAMS
from programs.effects import mesh
from round_trip import reread, through_artifact

import jaxmlir
from jaxmlir._compat import core, jax_version
from jaxmlir.errors import ArtifactError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import conformance_steps as steps

pytestmark = pytest.mark.compat

each_program = pytest.mark.parametrize("name", PROGRAMS)


@functools.cache
def to_trace(name):
    """A function, whose traces JAX caches, with arguments for tracing only: a call would change
    references."""
    return PROGRAMS[name]()


def written_and_read(name):
    """The program after saving and loading, or printing and parsing it: see ``round_trip``."""
    function, args = to_trace(name)
    return reread(jaxmlir.trace(function)(*args))


def agree(expected, got, lowered_text, expected_text):
    """Compares the results of two calls, each on new arguments, because calls change references."""
    if lowered_text == expected_text:
        return
    expected, got = expected(), got()
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        assert core.typeof(a) == core.typeof(b)
        if not jnp.issubdtype(a.dtype, jnp.inexact):
            steps.compare_arrays(a, b, "result")
            continue
        eps = float(jnp.finfo(a.dtype).eps)
        wide = np.complex128 if jnp.iscomplexobj(a) else np.float64
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        scale = np.max(np.abs(a), initial=0, where=np.isfinite(a))
        np.testing.assert_allclose(b, a, rtol=64 * eps, atol=64 * eps * scale)


@pytest.mark.sampled
@each_program
def test_text_round_trip_and_verification(name):
    function, args = to_trace(name)
    case = steps.Case(function, args)
    assert steps.import_(case) == steps.PASSED
    assert steps.verify(case) == steps.PASSED
    assert steps.text(case) == steps.PASSED


# Programs with Python objects that cannot be saved -> which objects.
CANNOT_BE_SAVED = {
    "debug_callback": "a callback",
    "diffrax_gradient": "equinox's run-time errors, which are callbacks",
    "io_callbacks": "callbacks",
    "pure_callback": "a callback",
}


# Programs that load with a replacement for a Python object -> the replacement.
EXPANDED = {"batching_rule": "a custom_vmap function as a call with its rules"}

# Programs that load with the axes of a mesh in place of its devices -> these axes.
ON_MESHES = {
    "sharding_constraints": {"data": 4, "model": 2},
    "shard_map_collectives": {"devices": 8},
    "shard_map_gradient": {"data": 4, "model": 2},
    "shard_map_psum": {"devices": 8},
}


@pytest.mark.sampled
@each_program
def test_saves(name):
    """All programs can be saved, except those above, whose errors name the object."""
    function, args = to_trace(name)
    program = jaxmlir.trace(function)(*args)
    if name in CANNOT_BE_SAVED:
        with pytest.raises(ArtifactError, match="cannot be saved|exists in this process only"):
            through_artifact(program)
        return
    again = through_artifact(program)
    if name in EXPANDED or name in ON_MESHES:
        args = PROGRAMS[name]()[1]
        with jax.set_mesh(mesh(**ON_MESHES[name])) if name in ON_MESHES else nullcontext():
            results = again(*args)
        jax.tree.map(np.testing.assert_array_equal, results, jax.jit(function)(*args))
        return
    assert again.as_text(debug_info=True) == program.as_text(debug_info=True)


@pytest.mark.sampled
@each_program
def test_runs(name):
    function, args = to_trace(name)
    jitted = jax.jit(function)
    program = written_and_read(name)
    agree(
        lambda: jitted(*PROGRAMS[name]()[1]),
        lambda: program(*PROGRAMS[name]()[1]),
        steps.canonical(program.lower()),
        steps.canonical(jitted.lower(*args)),
    )


@pytest.mark.sampled
@each_program
def test_optimizes(name):
    """The passes of -O2 leave a valid program of the same type, which can be lowered.

    That its numbers are the same is tested on random programs, and pass by pass.
    """
    function, args = to_trace(name)
    program = jaxmlir.trace(function)(*args)
    optimized = program.optimize(2)
    optimized.verify()
    optimized.lower()
    for ours, given in (
        (optimized.in_avals, program.in_avals),
        (optimized.out_avals, program.out_avals),
    ):
        assert all(itertools.starmap(core.typematch, zip(ours, given, strict=True)))


# JAX lowers an equation within others only if its parameters have a hash.
NO_HASH = {"custom_root_derivatives"} if jax_version() == (0, 11, 2) else set()


@pytest.mark.sampled
@each_program
def test_exported_jaxpr(name):
    """The parsed program's jaxpr gives the same results and, if JAX can, the same derivatives."""
    if name in NO_HASH:
        pytest.skip("of this JAX, the batched lax.custom_root is an object without a hash")
    function, args = to_trace(name)
    program = written_and_read(name)
    exported = core.jaxpr_as_fun(program.to_jaxpr())

    def call(*args):
        return jax.tree.unflatten(program.out_tree, exported(*jax.tree.leaves(args)))

    for of in (lambda f: f), gradient:
        theirs, ours = jax.jit(of(function)), jax.jit(of(call))
        try:
            traced = theirs.trace(*args)
        except Exception:
            # Some loops, callbacks and kernels have no gradient in JAX.
            assert of is gradient
            continue
        agree(
            lambda f=theirs: f(*PROGRAMS[name]()[1]),
            lambda f=ours: f(*PROGRAMS[name]()[1]),
            steps.canonical(ours.lower(*args)),
            steps.canonical(traced.lower()),
        )


def gradient(function):
    """The gradient of the sum of all inexact results with respect to all inexact arguments."""

    def of_inexact(*args):
        leaves, tree = jax.tree.flatten(args)
        chosen = [i for i, x in enumerate(leaves) if is_inexact(x)]

        def loss(*values):
            full = list(leaves)
            for i, value in zip(chosen, values, strict=True):
                full[i] = value
            results = jax.tree.leaves(function(*jax.tree.unflatten(tree, full)))
            return sum(jnp.sum(jnp.real(r)) for r in results if is_inexact(r))

        values = [leaves[i] for i in chosen]
        return jax.grad(loss, tuple(range(len(values))))(*values)

    return of_inexact


def is_inexact(value):
    aval = core.typeof(value)
    return isinstance(aval, core.ShapedArray) and jnp.issubdtype(aval.dtype, jnp.inexact)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("custom_rules_under_control_flow", {"sine_jvp": 1, "cosine_jvp": 1}),
        # One for each exponent: 3, 2, 1 and 0.
        ("custom_jvp_higher_orders", {"sine_jvp": 1, "cosine_jvp": 1, "power_jvp": 4}),
    ],
)
def test_a_rule_that_calls_its_own_function_is_one_function(name, rules):
    function, args = to_trace(name)
    symbols = jaxmlir.trace(function)(*args).functions
    assert {rule: sum(s.startswith(rule) for s in symbols) for rule in rules} == rules
