"""Evaluation op by op; the oracles are ``jax.jit`` of the function and JAX's own evaluation."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.ode import odeint
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.errors import ArgumentError
from jaxmlir.interpret import Hook, Interpreter

pytestmark = pytest.mark.compat


class Names(Hook):
    """The ops in the order of their results, and the stack of each."""

    def __init__(self):
        self.steps = []

    def after(self, step):
        self.steps.append((step.name.removeprefix("jaxpr."), step.iterations))


def branches_in_a_loop(x):
    def body(carry, t):
        carry = jax.lax.cond(t > 2, jnp.sin, lambda c: c * 1.5, carry)
        return carry, carry + t

    return jax.lax.scan(body, x, jnp.arange(5.0))


def backwards(x):
    return jax.lax.scan(lambda c, t: (c * t, c), x, jnp.arange(1.0, 5.0), reverse=True)


def batched_while(xs):
    return jax.vmap(
        lambda x: jax.lax.while_loop(lambda s: s[0] < x, lambda s: (s[0] * 2, s[1] + 1), (1.0, 0))
    )(xs)


def switch(x):
    return jax.lax.switch(7, [jnp.sin, jnp.cos, jnp.tan], x)


def solve(x):
    matrix = jnp.eye(3) * 2 + x
    return jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, jnp.arange(3.0))[0]


def pendulum(x):
    return odeint(lambda y, t: -y * x, x, jnp.linspace(0.0, 0.1, 2))


def keys(x):
    def split(key, _):
        first, second = jax.random.split(key)
        return first, second

    _, split_off = jax.lax.scan(split, jax.random.key(3), None, length=3)
    return x + jax.vmap(jax.random.normal)(split_off)


def reference(x):
    ref = jax.new_ref(jnp.zeros(3))
    ref[1] = x
    ref[1] += 2.0
    return ref[...]


def on_two_devices(x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))

    def body(part):
        def step(carry, _):
            return carry + jax.lax.psum(part, "i") * jax.lax.axis_index("i"), carry.sum()

        carry, sums = jax.lax.scan(step, part, None, length=3)
        return carry, jax.lax.psum(part.sum() + 2.0, "i"), sums[None]

    specs = (P("i"), P(), P("i"))
    return jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=specs)(x + jnp.arange(4.0))


def custom_rules(x):
    return jax.nn.relu(x) + jax.nn.silu(x) + jax.checkpoint(jnp.exp)(x)


def no_iterations(x):
    return jax.lax.scan(lambda c, t: (c, t * c), x, jnp.zeros((0, 2)))


FUNCTIONS = [
    branches_in_a_loop,
    backwards,
    switch,
    solve,
    pendulum,
    keys,
    reference,
    on_two_devices,
    custom_rules,
    no_iterations,
]


def same(got, expected, **tolerance):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.sampled
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_compiled(function):
    x = jnp.float32(0.4)
    program = jaxmlir.trace(function)(x)
    parsed = jaxmlir.parse(str(program), constants=program.constants)
    same(parsed.eval(x), jax.jit(function)(x), rtol=1e-6)


def test_a_reference_without_a_value():
    path = Path(__file__).parents[2] / "lit_tests" / "ops" / "empty_ref.mlir"
    program = jaxmlir.parse(path.read_text())
    same(program.eval(jnp.ones(3)), program(jnp.ones(3)), rtol=0)


def test_a_loop_without_iterations():
    def f(key, x):
        weak = jax.lax.scan(lambda c, _: (c, (c, c * 2, x, key)), 2.0, None, length=0)
        scanned = jax.lax.scan(lambda c, y: (c * y, c), 2.0, jnp.ones(0))
        looped = jax.lax.while_loop(lambda c: c < 0, lambda c: c * jnp.ones(()), 2.0)
        return weak, scanned, looped

    args = jax.random.key(0), jnp.int4(3)
    program = jaxmlir.trace(f)(*args)
    for run in (program.eval, jax.jit(program.eval)):
        assert jax.tree.map(jax.typeof, run(*args)) == jax.tree.map(jax.typeof, jax.jit(f)(*args))


def test_batched_loops_stop_one_by_one():
    xs = jnp.arange(5.0)
    program = jaxmlir.trace(batched_while)(xs)
    same(program.eval(xs), jax.jit(batched_while)(xs), rtol=0)


@pytest.mark.parametrize("function", [pendulum, custom_rules, branches_in_a_loop])
def test_gradients(function):
    def total(x):
        return jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, function(x)))

    x = jnp.float32(0.4)
    program = jaxmlir.trace(total)(x).grad()
    same(program.eval(x), jax.jit(jax.grad(total))(x), rtol=1e-5)


def test_op_by_op_is_bit_for_bit_what_jax_does_op_by_op():
    def function(x, y):
        return jnp.tanh(x * y + x) / (jnp.sum(y) + jnp.exp(x) * x)

    args = [jax.random.normal(jax.random.key(i), (50,)) for i in range(2)]
    got = jaxmlir.trace(function)(*args).eval(*args)
    with jax.disable_jit():
        same(got, function(*args), rtol=0)


def test_pytrees_numbers_and_keywords():
    def function(pair, *, scale):
        return {"sum": pair[0] + pair[1] * scale}

    program = jaxmlir.trace(function)((1.0, jnp.ones(2)), scale=2.0)
    same(
        program.eval((1, np.ones(2, np.float32)), scale=3),
        {"sum": jnp.full(2, 4.0, jnp.float32)},
        rtol=0,
    )
    with pytest.raises(ArgumentError, match=r"argument pair\[1\] must be f32\[2\]"):
        program.eval((1, np.ones(3, np.float32)), scale=3)


def test_inside_jax_transformations():
    """Under a trace, ops are bound one by one, and control flow that depends on a tracer whole."""
    program = jaxmlir.trace(branches_in_a_loop)(jnp.float32(0.4))

    def total(run):
        return lambda x: jnp.sum(run(x)[1])

    x = jnp.float32(0.4)
    expected = jax.value_and_grad(total(branches_in_a_loop))(x)
    same(jax.jit(jax.value_and_grad(total(program.eval)))(x), expected, rtol=1e-6)


def test_symbolic_shapes():
    (b,) = jax.export.symbolic_shape("b")
    program = jaxmlir.trace(jnp.sin)(jax.ShapeDtypeStruct((b,), np.float32))
    np.testing.assert_array_equal(
        program.eval(np.ones(3, np.float32)), np.full(3, np.sin(1.0), "f4")
    )


# -- hooks --


def test_hooks_see_every_op_and_the_iterations_around_it():
    names = Names()
    jaxmlir.trace(branches_in_a_loop)(jnp.float32(0.4)).eval(0.4, hooks=[names])
    by_iteration = [name for name, iterations in names.steps if iterations == (1,)]
    assert by_iteration == ["gt", "convert_element_type", "mul", "cond", "add"]
    assert [i for name, i in names.steps if name == "sin"] == [(3,), (4,)]
    assert names.steps[-1] == ("scan", ())


def test_a_step_knows_values_line_and_stack():
    seen = []

    class Look(Hook):
        def before(self, step):
            if step.name == "jaxpr.mul":
                assert step.results is None
                seen.append((step.operands, step.position, step.source, list(map(str, step.stack))))

        def after(self, step):
            if step.name == "jaxpr.mul":
                seen.append(step.results)

    program = jaxmlir.trace(backwards)(2.0)
    program.eval(2.0, hooks=[Look()])
    operands, position, source, stack = seen[2]
    assert [float(x) for x in operands] == [8.0, 3.0]
    assert [float(x) for x in seen[3]] == [24.0]
    assert position[:2] == (__file__, backwards.__code__.co_firstlineno + 1)
    assert source.startswith("return jax.lax.scan(lambda c, t: (c * t, c)")
    assert stack[0] == "@backwards"
    assert stack[-1].endswith("iteration 1 of 4 (slice 2) of scan")


def test_an_op_that_fails_is_located():
    def callback(x):
        raise ValueError("no such value")

    def function(x):
        return jax.pure_callback(callback, x, x)

    program = jaxmlir.trace(function)(jnp.float32(1.0))
    # The same error class as JAX's, so that one `except` catches both.
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: no such value"):
        jax.jit(function)(1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: no such value") as e:
        program.eval(1.0)
    (note,) = [n for n in e.value.__notes__ if "'jaxpr.pure_callback' op" in n]
    assert f"{__file__}:{function.__code__.co_firstlineno + 1}" in note


def test_another_domain_of_values():
    """Values are signs: an interpreter of a few lines, which inherits calls and loops."""

    class Signs(Interpreter):
        def leaf(self, node, operands):
            signs = {"mul": lambda a, b: a * b, "neg": lambda a: -a, "exp": lambda a: 1}
            return [signs[node.name.removeprefix("jaxpr.")](*operands)]

        def constant(self, array):
            (sign,) = set(np.sign(array).ravel())
            return sign

        def slice(self, value, index):
            return value

        def stack_up(self, values, aval):
            (sign,) = set(values)
            return sign

    def function(x):
        turned = jax.jit(lambda a: a * -2.0)
        y, ys = jax.lax.scan(lambda c, t: (turned(c) * t, t), x, np.array([1.0, 2.0, 3.0], "f"))
        return -jnp.exp(y), y, ys

    program = jaxmlir.trace(function)(np.float32(1.0))
    assert Signs(program).run(program.name, [1]) == [-1, -1, 1]
