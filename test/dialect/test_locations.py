"""Name stacks and source lines: profiles of a program look like JAX's profiles of the function."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import compat
from jax import lax, named_scope

import jaxmlir
from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import context, functions
from jaxmlir.errors import JaxmlirError
from jaxmlir.passes import BUILTIN_PASSES

X = np.linspace(0.2, 1.4, 4, dtype=np.float32)
MATRIX = np.eye(4, dtype=np.float32) * 3 + np.outer(X, X)


@jax.jit
def inner(x):
    with named_scope("inner"):
        return jnp.sin(x) * 2


@jax.checkpoint
def rematerialized(x):
    with named_scope("remat"):
        return jnp.cos(inner(x))


@jax.custom_jvp
def ruled(x):
    with named_scope("ruled"):
        return jnp.tan(inner(x))


@ruled.defjvp
def _ruled_jvp(primals, tangents):
    with named_scope("rule"):
        return ruled(*primals), tangents[0] * jnp.exp(inner(*primals))


def nested(x):
    with named_scope("outer"):
        return inner(x) + 1


def scanned(x):
    with named_scope("outer"):
        return lax.scan(lambda carry, _: (inner(carry), None), x, None, length=3)[0]


def branches(x):
    with named_scope("outer"):
        return lax.cond(x[0] > 0, inner, rematerialized, x)


def decided(x):
    with named_scope("outer"):
        return lax.cond(True, inner, rematerialized, x)


def gradient(function):
    def gradient_of(x):
        return jax.grad(lambda x: function(x).sum())(x)

    return gradient_of


def batch_of_gradients(x):
    return jax.vmap(jax.grad(lambda x: inner(x) * 2))(x)


def tangent(x):
    return jax.jvp(nested, (x,), (x,))


NAMED = {
    "nested": nested,
    "gradient": gradient(nested),
    "batch_of_gradients": batch_of_gradients,
    "tangent": tangent,
    "remat": gradient(rematerialized),
    "rule": gradient(ruled),
    "scan": scanned,
    "scan_gradient": gradient(scanned),
    "cond": branches,
    "cond_of_constant": decided,
    "cond_gradient": gradient(branches),
}


def op_names(lowered):
    """The op names in an executable, without names of calls, which XLA inlines."""
    found = re.findall(r'op_name="([^"]*)"', lowered.compile().as_text())
    return {name for name in found if not re.search(r"(/jit\([^/]*\)|/closed_call)$", name)}


@functools.cache
def jaxs_op_names(case):
    return op_names(jax.jit(NAMED[case]).lower(X))


@compat
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("case", NAMED)
def test_op_names_are_jaxs(case, level):
    program = jaxmlir.trace(NAMED[case])(X).optimize(level)
    expected = jaxs_op_names(case)
    assert any("jit(inner)" in name for name in expected)
    assert op_names(program.lower()) == expected


@compat
def test_op_names_of_an_inlined_program_that_was_read():
    """Op names have the function even if the text has no locations."""
    program = jaxmlir.parse(jaxmlir.trace(nested)(X).as_text()).run_passes("jaxpr-inline")
    (sine,) = [name for name in op_names(program.lower()) if name.endswith("/sin")]
    assert sine == "jit(nested)/jit(inner)/sin"


def with_functions_of_jax(x):
    y = jnp.where(x > 0, x, 0.0)
    y = jnp.linalg.solve(MATRIX, y) + jnp.interp(x, y, y)
    return (jnp.take(y, jnp.arange(2)) * jnp.var(y)).sum() + jnp.median(x)


@compat
@pytest.mark.parametrize("level", [0, 2])
def test_the_position_of_an_op_is_a_line_of_the_user(level):
    """This holds also in JAX's own functions, which JAX traces without their callers."""
    own = {line for *_, line in with_functions_of_jax.__code__.co_lines()}
    traced = jaxmlir.trace(with_functions_of_jax)(X)
    for program in (traced, traced.vmap(axis_size=3)):
        for function in program.optimize(level).functions.values():
            for op in function.entry_block.operations:
                file, line, _ = locations.position(op.location)
                assert not locations.is_of_jax(file), op.location
                assert program is not traced or line in own or not line, op.location


# --- each pass ----------------------------------------------------------------------------------


def layers(x):
    with named_scope("layers"):
        hidden = jnp.tanh(MATRIX @ jnp.tanh(MATRIX @ x))
        hidden = jax.nn.softmax(hidden * 3.0 + jnp.arange(4.0))
        return hidden.reshape(2, 2) @ hidden.reshape(2, 2).T


def looped(x):
    def body(carry, row):
        with named_scope("body"):
            return jnp.tanh(MATRIX @ carry) + row, inner(carry).sum()

    def halve(v):
        with named_scope("halve"):
            return inner(v) / 4

    with named_scope("loops"):
        carry, sums = lax.scan(body, x, MATRIX)
        return carry + sums + lax.while_loop(lambda v: (v > 1).any(), halve, x)


def convolved(x):
    with named_scope("convolutions"):
        image, kernel = jnp.outer(x, x).reshape(1, 4, 4, 1), MATRIX[:3, :3].reshape(3, 3, 1, 1)
        layout = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=layout)
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        deep = lax.conv_general_dilated(
            jnp.concatenate([image, image], -1),
            jnp.concatenate([kernel, kernel], -1),
            (1, 1),
            "SAME",
            dimension_numbers=layout,
            feature_group_count=2,
        )
        return y.sum() + deep.sum() + lax.cumlogsumexp(x).sum()


def solved(x):
    with named_scope("solves"):
        updated = x.at[jnp.array([1, 0])].add(3.0)
        return jnp.linalg.solve(MATRIX, x) + jnp.linalg.cholesky(MATRIX) @ x + updated


def repeated(x):
    with named_scope("repeated"):
        parts = [jnp.sin(x[i] * MATRIX[i] + 1.0) * jnp.cos(x[i]) for i in range(4)]
        return sum(parts) + inner(x) + inner(x * 2) + inner(x * 3)


def linear(x):
    with named_scope("linear"):
        return MATRIX @ x * 2


OPTIONS = {
    "jaxpr-checkpoint-while": "{checkpoints=2}",
    "jaxpr-partial-eval": "{unknown=0}",
    "jaxpr-vmap": "{axis-size=3}",
}


@functools.cache
def examples():
    """Programs and gradients, of different ops."""
    found = []
    for function in (layers, looped, convolved, solved, repeated, linear, branches):
        found.append(jaxmlir.trace(function)(X))

        def loss(x, function=function):
            return function(x).sum()

        if function is not looped:
            found += [(program := jaxmlir.trace(loss)(X)), program.grad()]
    return found


# Constants and the terminators of blocks have no location.
_NOWHERE = ("jaxpr.constant", "stablehlo.constant", "func.return")


def places(program):
    """For each op its name and location, and the scopes and functions in its name stack."""
    with context():
        for function in functions(program.module).values():
            for op in function.entry_block.operations:
                name = op.operation.name
                if name not in _NOWHERE:
                    stack, _ = locations.split(op.location)
                    scopes = re.sub(r"/?\b(jvp|transpose|vmap)\(\)", "", stack)
                    yield (name, locations.position(op.location)), scopes


# This pass takes a module of StableHLO: see test/raising.
_OF_STABLEHLO = "jaxpr-raise-stablehlo"


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name, _ in BUILTIN_PASSES if name != _OF_STABLEHLO])
def test_every_pass_keeps_lines_and_name_stacks(name):
    ran = False
    for program in examples():
        before = {}
        for op, scopes in places(program):
            before.setdefault(op, set()).add(scopes)
        try:
            found = program.run_passes(name + OPTIONS.get(name, ""))
        except JaxmlirError:
            # There is no gradient of a non-scalar, no transpose of a nonlinear function ...
            continue
        ran = True
        for op, scopes in places(found):
            # Functions that JAX's lowering rules write have names, but no lines.
            lowered = op[0].startswith("stablehlo.") and scopes
            assert op[1][1] or lowered, f"{op} has no line"
            # The op keeps its scopes, whatever function it has moved to.
            known = before.get(op, {""})
            assert any(old in scopes for old in known), f"{op} is in {scopes!r}, was in {known}"
    assert ran


def test_tracebacks_do_not_contain_our_frames():
    @jaxmlir.jit(optimize=2)
    def failing(x):
        raise RuntimeError(str(x))

    with pytest.raises(RuntimeError) as error:
        failing(X)
    files = {entry.path.name for entry in error.traceback}
    assert files == {"test_locations.py"}
