"""Custom rules are traced when a program's module is first looked at, as they were imported."""

import threading

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir

pytestmark = pytest.mark.compat


def square_with_counted_rule():
    """A function and the list that its rule adds to whenever it is traced."""
    traced = []

    @jax.custom_jvp
    def square(x):
        return x @ x

    @square.defjvp
    def square_jvp(primals, tangents):
        traced.append(primals)
        (x,), (t,) = primals, tangents
        return square(x), t @ x + x @ t

    return square, traced


def matrix():
    return np.arange(9, dtype=np.float32).reshape(3, 3)


def test_calling_and_lowering_trace_no_rule():
    square, traced = square_with_counted_rule()
    program = jaxmlir.trace(square)(matrix())
    np.testing.assert_array_equal(program(matrix()), jax.jit(square)(matrix()))
    program.lower().compile()
    assert not traced
    assert "jvp_jaxpr = @square_jvp" in program.as_text()
    assert traced


def test_rules_are_traced_under_the_configuration_of_the_import():
    square, _ = square_with_counted_rule()
    with jax.default_matmul_precision("highest"):
        program = jaxmlir.trace(square)(matrix())
        at_once = jaxmlir.trace(square)(matrix()).as_text()
    assert program.as_text() == at_once
    assert at_once.count('{Precision = "HIGHEST"}') == 2 * at_once.count("jaxpr.dot_general")


def test_threads_see_one_module_with_all_rules():
    def nested(x):
        return jnp.sum(jax.nn.gelu(jax.nn.relu(x)) + jax.nn.silu(x) * jax.nn.logsumexp(x))

    program = jaxmlir.trace(nested)(jnp.ones(3))
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(str(program))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 4 and set(texts) == {str(program)}
    assert str(program).count("jvp_jaxpr = @") >= 2


def test_a_constant_of_a_rule_is_in_the_side_table():
    table = np.arange(5000, dtype=np.float32)

    @jax.custom_jvp
    def f(x):
        return x

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), tangents[0] * table

    program = jaxmlir.trace(f)(jnp.ones(5000))
    (constant,) = program.constants.values()
    np.testing.assert_array_equal(constant, table)
    _, tangent = program.jvp()((jnp.ones(5000),), (jnp.ones(5000),))
    np.testing.assert_array_equal(tangent, table)


def test_a_module_of_an_exported_program_has_its_rules():
    square, traced = square_with_counted_rule()
    jaxpr = jaxmlir.trace(square)(matrix()).to_jaxpr()
    assert not traced
    evaluate = jax.extend.core.jaxpr_as_fun(jaxpr)
    (out,), (tangent,) = jax.jvp(evaluate, (matrix(),), (np.ones_like(matrix()),))
    want = jax.jvp(square, (matrix(),), (np.ones_like(matrix()),))
    np.testing.assert_array_equal(out, want[0])
    np.testing.assert_array_equal(tangent, want[1])
