"""Analyses of a program are cached until a pass reports that it changed the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import given
from jax import lax

import jaxmlir
from jaxmlir.analysis.function_view import FunctionView, node_of, ops_of
from jaxmlir.analysis.manager import AnalysisManager, analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.passes import LEVELS, Pass, parse_pipeline
from jaxmlir.rewriting.inline import inlined
from jaxmlir.verify import verifier


def twice(x):
    return jnp.sin(x) + jnp.sin(x)


class Told(Pass):
    """A pass that reports what it is told to report."""

    name = "test-told"
    says: str = "nothing"
    seen = []

    def run(self, program):
        Told.seen.append(analyses_of(program))
        return {"nothing": None, "kept": False, "changed": True}[self.says]


@pytest.mark.parametrize(("says", "kept"), [("kept", True), ("nothing", False), ("changed", False)])
def test_what_was_read_is_kept_where_a_pass_says_so(says, kept):
    Told.seen.clear()
    program = jaxmlir.trace(twice)(1.0)
    parse_pipeline(f"test-told{{says={says}}},test-told").run(program)
    first, second = Told.seen
    assert (first is second) == kept


def test_a_program_that_no_pass_changed_is_verified_once(monkeypatch):
    counts = []
    monkeypatch.setattr(verifier, "verify", lambda *_: counts.append(1))
    jaxmlir.trace(twice)(1.0).run_passes("test-told{says=kept},test-told{says=kept},test-told")
    assert len(counts) == 2


def test_the_levels_find_nothing_twice():
    program = jaxmlir.trace(lambda x: jnp.sin(x) * 2.0)(1.0).optimize(2)
    state = program.state
    parse_pipeline(",".join(LEVELS[1])).run(program)
    assert program.state is state


def test_passes_that_find_something_say_so():
    program = jaxmlir.trace(twice)(1.0)
    state = program.state
    parse_pipeline("jaxpr-cse").run(program)
    assert program.state is not state
    np.testing.assert_array_equal(program(1.0), twice(1.0))


def shape(body):
    """The data of a body without its ops."""
    return body.types, body.signatures, body.operands, body.results, body.returned


def check_inlined(program):
    with scope():
        function = program.function(program.name)
        flat = AnalysisManager(program.functions).inlined(function)
        assert shape(flat) == shape(FunctionView(inlined(program.functions, function)))


@jax.jit
def inner(x, y):
    return y, jnp.tanh(x) * y


@jax.jit
def outer(x):
    a, b = inner(x, 2 * x)
    c, d = inner(b, a)
    return d, x, c


def test_a_function_is_read_as_if_its_calls_were_inlined():
    check_inlined(jaxmlir.trace(lambda x: outer(outer(x)[0]))(jnp.ones(3)))
    program = jaxmlir.trace(lambda x: sum(map(jnp.sum, outer(x))))(jnp.ones(3))
    check_inlined(program.grad().vmap(axis_size=2))


@given(steps=random_programs.programs_of("call", "scan"))
@random_programs.budget
def test_random_programs_are_read_as_if_their_calls_were_inlined(steps):
    x = jnp.ones(3)
    check_inlined(jaxmlir.trace(lambda x, y: random_programs.run(steps, x, y))(x, x))


@given(steps=random_programs.programs_of("call", "scan"))
@random_programs.budget
def test_the_users_of_values_are_those_that_mlir_knows(steps):
    x = jnp.ones(3)
    program = jaxmlir.trace(lambda x, y: (random_programs.run(steps, x, y), x * x, y, y))(x, x)
    with scope():
        for function in program.functions.values():
            body = FunctionView(function)
            places = {op.operation: i for i, op in enumerate(body.ops)}
            for number in range(len(body.types)):
                uses = [use.owner for use in body.value(number).uses]
                users = [places[owner] for owner in uses if owner in places]
                assert body.users[number] == sorted(set(users))
                assert body.use_counts[number] == len(uses)
                assert (number in body.outputs) == (len(users) < len(uses))
                maker, node = body.makers[number], node_of(body.value(number))
                assert (maker is None) == (node is None)
                assert node is None or places[node.op] == maker
            needed, ops = set(body.returned), []
            for i in reversed(range(len(body.ops))):
                if not needed.isdisjoint(range(*body.results[i])):
                    needed.update(body.operands[i])
                    ops.insert(0, i)
            sliced, leaves = body.backward_slice(body.returned)
            assert (sliced, set(leaves)) == (ops, {v for v in needed if v < body.arity})


def test_a_view_of_an_op_unpacks_to_the_op_its_name_and_its_operands():
    program = jaxmlir.trace(lambda x, y: x @ y)(jnp.ones((2, 3)), jnp.ones((3, 4)))
    function = program.function(program.name)
    with scope():
        ((op, name, operands),) = views = list(ops_of(function))
        assert (name, operands) == ("jaxpr.dot_general", [*function.arguments])
        assert views[0].get("dimension_numbers") == (((1,), (0,)), ((), ()))
        assert views[0].get("absent", 3) == 3
        (view,) = FunctionView(function).op_views
        assert (view.op, view.operands) == (op, operands)


def test_each_of_several_functions_that_differ_in_constants_has_its_own_view():
    def f(x):
        for rate in (0.5, 0.25):

            def step(h, _, rate=rate):
                return jnp.sin(h * rate) + 1.0, None

            x, _ = lax.scan(step, x, None, length=3)
        # The same ops, elsewhere in the source.
        x, _ = lax.scan(lambda h, _: (jnp.sin(h * 0.5) + 1.0, None), x, None, length=3)
        return lax.scan(lambda h, _: (jnp.cos(h), None), x, None, length=3)[0]

    program = jaxmlir.trace(f)(1.0)
    with scope():
        reading = AnalysisManager(program.functions)
        assert reading.graph
        bodies = [reading.body(function) for function in program.functions.values()]
        for body in bodies:
            plain = FunctionView(body.function)
            assert shape(body) == shape(plain) and body.ops == plain.ops
        assert len({tuple(body.signatures) for body in bodies}) == 4
