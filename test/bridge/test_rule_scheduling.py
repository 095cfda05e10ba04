"""Custom rules are imported untraced, and traced when the program's module is first read."""

import collections
import concurrent.futures
import threading
import time

import jax
import jax.experimental.ode
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir import backend
from jaxmlir.passes import level_pipeline

pytestmark = pytest.mark.compat


def square_with_counted_rule():
    """A function, and a list to which its rule appends whenever it is traced."""
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


@pytest.mark.parametrize("level", [1, 2])
def test_the_passes_of_the_backend_trace_no_rule(level):
    square, traced = square_with_counted_rule()
    with backend.enabled(pipeline=level_pipeline(level)):
        np.testing.assert_array_equal(jax.jit(square)(matrix()), matrix() @ matrix())
    assert not traced


@pytest.mark.parametrize("level", [1, 2])
def test_optimizing_for_jit_traces_no_rule(level):
    square, traced = square_with_counted_rule()

    def alike(x):
        # Two equations with different thunks: their rules are equal nevertheless.
        return square(x) - jax.jit(square)(x) + x

    jitted = jaxmlir.jit(alike, optimize=level)
    assert jitted.lower(matrix()).as_text().count("stablehlo.dot_general") == 1
    np.testing.assert_array_equal(jitted(matrix()), matrix())
    assert not traced
    for ours, theirs in zip(
        jax.jvp(jitted, (matrix(),), (np.eye(3, dtype=np.float32),)),
        jax.jvp(alike, (matrix(),), (np.eye(3, dtype=np.float32),)),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert traced


@pytest.mark.parametrize("level", [1, 2])
def test_optimizing_a_program_traces_no_rule(level):
    square, traced = square_with_counted_rule()

    def loss(x):
        return jnp.sum(square(jnp.sin(x)) * jax.jit(square)(jnp.sin(x)))

    optimized = jaxmlir.trace(loss)(matrix()).optimize(level)
    np.testing.assert_allclose(optimized(matrix()), loss(matrix()), rtol=1e-6)
    assert not traced
    gradient = optimized.grad().optimize(level).remat()
    assert traced
    wanted = jax.grad(loss)(matrix())
    np.testing.assert_allclose(gradient(matrix()), wanted, rtol=1e-5, atol=1e-5)
    second = gradient.jvp()((matrix(),), (matrix(),))[1]
    np.testing.assert_allclose(
        second, jax.jvp(jax.grad(loss), (matrix(),), (matrix(),))[1], rtol=1e-4, atol=1e-4
    )
    assert "jvp_jaxpr = @square_jvp" in optimized.as_text()


@jax.custom_vjp
def scaled_tanh(x, w):
    return jnp.tanh(x) * w


scaled_tanh.defvjp(
    lambda x, w: (scaled_tanh(x, w), (x, w)),
    lambda r, ct: (ct * r[1] / jnp.cosh(r[0]) ** 2, ct * jnp.tanh(r[0])),
)


def alike_in_a_row(x, w):
    return jnp.sum(jnp.stack([scaled_tanh(x * i, w) for i in range(17)]))


def in_a_loop(x, w):
    def step(c, _):
        return jax.nn.silu(c) * jax.nn.relu(w), scaled_tanh(c, w)

    return jnp.sum(lax.scan(step, x, None, 4)[1])


def with_a_solver(x, w):
    def right_side(y, t, w):
        return -w * jnp.sin(y)

    return jnp.sum(jax.experimental.ode.odeint(right_side, x, jnp.linspace(0.0, 1.0, 4), w))


DERIVED = {
    "level 1": lambda p: p.optimize(1),
    "level 2": lambda p: p.optimize(2),
    "with remarks": lambda p: p.optimize(2, remarks=lambda remark: None),
    "gradient": lambda p: p.grad(),
    "gradient of level 2": lambda p: p.optimize(2).grad(),
    "level 2 of gradient": lambda p: p.grad().optimize(2),
    "forward half": lambda p: p.vjp()[0],
    "backward half": lambda p: p.vjp()[1],
    "batch": lambda p: p.vmap(axis_size=3),
    "level 2 of batch of level 1": lambda p: p.optimize(1).vmap(axis_size=3).optimize(2),
    "remat": lambda p: p.grad().remat(),
}


@pytest.mark.sampled
@pytest.mark.parametrize("fun", [alike_in_a_row, in_a_loop, with_a_solver])
@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_what_is_derived_reads_the_same_whatever_was_read_before(fun, derive):
    args = np.linspace(0.3, 0.9, 3, dtype=np.float32), np.float32([0.5, 0.7, 0.9])
    fresh, read, late = (jaxmlir.trace(fun)(*args) for _ in range(3))
    read.as_text()
    wanted = derive(read).as_text(debug_info=True)
    assert derive(fresh).as_text(debug_info=True) == wanted
    # The program is read only after another program has been derived from it.
    derived = derive(late)
    late.as_text()
    assert derived.as_text(debug_info=True) == wanted


def test_a_program_that_was_read_computes_what_it_did():
    args = np.linspace(0.3, 0.9, 3, dtype=np.float32), np.float32([0.5, 0.7, 0.9])
    wanted = jax.grad(alike_in_a_row, (0, 1))(*args)
    optimized = jaxmlir.trace(alike_in_a_row)(*args).optimize(2)
    jitted = jax.jit(lambda *args: optimized(*args))
    for _ in range(2):
        for run in (optimized, jitted):
            np.testing.assert_allclose(run(*args), alike_in_a_row(*args), rtol=1e-6)
        for gradient in (optimized.grad(argnums=(0, 1)), jax.jit(jax.grad(optimized, (0, 1)))):
            for ours, theirs in zip(gradient(*args), wanted, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        optimized.verify()
        assert jaxmlir.parse(optimized.as_text()).as_text() == optimized.as_text()


def test_what_was_derived_from_a_program_that_changed_since_stays():
    square, _ = square_with_counted_rule()
    program = jaxmlir.trace(lambda x: square(x) + 1)(matrix())
    derived = program.optimize(1)
    (add,) = (op for op in program.function(program.name).entry_block if op.name == "jaxpr.add")
    add.results[0].replace_all_uses_with(add.operands[0])
    program.changed()
    np.testing.assert_array_equal(program(matrix()), matrix() @ matrix())
    assert "jvp_jaxpr = @square_jvp" in derived.as_text()
    np.testing.assert_array_equal(
        jaxmlir.parse(derived.as_text())(matrix()), matrix() @ matrix() + 1
    )


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_what_calls_a_derivative_differentiates_it_though_that_was_read_since(mode):
    inner, outer = functions_with_rules_that_call_another(mode)

    def loss(x):
        return jnp.sum(outer(x))

    x = jnp.arange(3.0)
    gradient = jaxmlir.trace(loss)(x).grad()
    calls = jaxmlir.trace(lambda x: jnp.sum(gradient(x) * inner(x)))(x)
    gradient.as_text()
    expected = jax.grad(lambda x: jnp.sum(jax.grad(loss)(x) * inner(x)))(x)
    np.testing.assert_allclose(calls.grad()(x), expected, rtol=1e-6)


def functions_with_rules_that_call_another(mode):
    """Two functions with rules; the rule of the second one calls the first one."""
    if mode == "jvp":
        inner, outer = jax.custom_jvp(jnp.sin), jax.custom_jvp(jnp.square)
        inner.defjvp(lambda p, t: (inner(*p), jnp.cos(*p) * t[0]))
        outer.defjvp(lambda p, t: (outer(*p), 2 * inner(*p) * t[0]))
    else:
        inner, outer = jax.custom_vjp(jnp.sin), jax.custom_vjp(jnp.square)
        inner.defvjp(lambda x: (inner(x), x), lambda x, ct: (jnp.cos(x) * ct,))
        outer.defvjp(lambda x: (outer(x), x), lambda x, ct: (2 * inner(x) * ct,))
    return inner, outer


def test_rules_are_traced_under_the_configuration_of_the_import():
    square, _ = square_with_counted_rule()
    with jax.default_matmul_precision("highest"):
        program = jaxmlir.trace(square)(matrix())
        at_once = jaxmlir.trace(square)(matrix()).as_text()
    assert program.as_text() == at_once
    assert at_once.count('{Precision = "HIGHEST"}') == 2 * at_once.count("jaxpr.dot_general")


def test_what_a_rule_calls_is_the_function_that_the_program_has():
    traced = []

    @jax.jit
    def sine(x):
        traced.append(x)
        return jnp.sin(x)

    @jax.custom_jvp
    def f(x):
        return sine(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return sine(x), t * jnp.cos(x)

    closed = jax.make_jaxpr(lambda x: f(x) * sine(x))(1.0)
    text = jaxmlir.from_jaxpr(closed).as_text()
    assert text.count("func.func private @sine") == 1
    # As in JAX, which finds the rule already traced.
    jax.make_jaxpr(jax.grad(lambda x: f(x) * sine(x)))(1.0)
    assert len(traced) == 1


@pytest.mark.parametrize(
    "derivative",
    [
        lambda function, x: jaxmlir.trace(function)(x).jvp().as_text(),
        lambda function, x: jax.jit(jax.grad(jaxmlir.jit(function))).trace(x),
    ],
    ids=["program", "jit"],
)
def test_jaxs_rules_find_the_functions_that_tracing_the_program_traced(derivative):
    traced = []

    @jax.jit
    def sine(x):
        traced.append(x)
        return jnp.sin(x)

    primitive = jax.extend.core.Primitive("with_a_jitted_derivative")
    primitive.def_abstract_eval(lambda x: x)
    jax.interpreters.ad.defjvp(primitive, lambda t, x: t * sine(x))
    derivative(lambda x: primitive.bind(x) * sine(x), np.float32(1))
    assert len(traced) == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda program: program.grad()(1.0),
        lambda program: jax.grad(program)(1.0),
        lambda program: (program.verify(), jnp.cos(1.0))[1],
    ],
)
def test_a_program_is_used_while_another_thread_traces_its_rules(use):
    half, whole = threading.Event(), threading.Event()

    def rule(x):
        half.set()
        whole.wait(0.3)
        return x, None

    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    @jax.custom_vjp
    def same(x):
        return x

    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),))
    same.defvjp(rule, lambda _, ct: (ct,))
    program = jaxmlir.trace(lambda x: same(sine(x)))(1.0)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: program.grad()(1.0))
        assert half.wait(10)
        got = use(program)
        whole.set()
        np.testing.assert_allclose([got, other.result()], jnp.cos(1.0), rtol=1e-6)


def test_threads_see_one_module_with_all_rules():
    def nested(x):
        return jnp.sum(jax.nn.gelu(jax.nn.relu(x)) + jax.nn.silu(x) * jax.nn.logsumexp(x))

    program = jaxmlir.trace(nested)(jnp.ones(3))
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(str(program))) for _ in range(4)]
    with program.rule_tracing.lock:
        for thread in threads:
            thread.start()
        # All threads find untraced rules and wait, while one of them traces.
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert len(texts) == 4 and set(texts) == {str(program)}
    assert str(program).count("jvp_jaxpr = @") >= 2


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_rule_that_programs_share_is_traced_by_one_thread_at_a_time(mode):
    """JAX stores the results of tracing with the rule, not with the program."""
    inside, most = [], []

    def alone(rule):
        def counted(*args):
            inside.append(rule)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()
            return rule(*args)

        return counted

    def value(x):
        return {"sin": jnp.sin(x)}

    def jvp(primals, tangents):
        return value(*primals), {"sin": tangents[0] * jnp.cos(primals[0])}

    def bwd(residuals, ct):
        return (ct["sin"] * jnp.cos(residuals["x"]),)

    if mode == "forward":
        function = jax.custom_jvp(value)
        function.defjvp(alone(jvp))
    else:
        function = jax.custom_vjp(value)
        function.defvjp(alone(lambda x: (value(x), {"x": x})), alone(bwd))
    shared = jax.jit(function)
    programs = [jaxmlir.trace(lambda x: shared(x)["sin"])(1.0) for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda program: program.grad()(0.5), programs))
    np.testing.assert_allclose(found, [np.cos(0.5)] * 4, rtol=1e-6)
    assert most and max(most) == 1


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


def sine_with_counted_rules():
    """A function with rules that call functions with rules, and a list to which tracing them
    appends."""
    traced = []

    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    @jax.custom_jvp
    def cosine(x):
        return jnp.cos(x)

    def fwd(x):
        traced.append("fwd")
        return sine(x), x

    def bwd(x, ct):
        traced.append("bwd")
        return (cosine(x) * ct,)

    @cosine.defjvp
    def cosine_jvp(primals, tangents):
        traced.append("jvp")
        return cosine(*primals), -sine(*primals) * tangents[0]

    sine.defvjp(fwd, bwd)
    return sine, traced


def test_a_derivative_traces_the_rules_of_the_ops_that_it_meets():
    sine, traced = sine_with_counted_rules()

    def f(x):
        return sine(x) * x

    x = np.float32(1.3)
    first = jaxmlir.trace(f)(x).grad()
    first.verify()
    np.testing.assert_array_equal(first(x), jax.jit(jax.grad(f))(x))
    assert first.has_untraced_rules
    traced.clear()
    second = first.grad()
    assert "jvp" in traced
    np.testing.assert_allclose(second(x), jax.grad(jax.grad(f))(x), rtol=1e-6)
    np.testing.assert_allclose(second.grad()(x), jax.grad(jax.grad(jax.grad(f)))(x), rtol=1e-5)


def test_a_backward_rule_that_nobody_calls_waits():
    traced = []

    @jax.custom_vjp
    def root(x):
        return jnp.tanh(x), x

    def forward(x):
        traced.append("forward")
        # Differs from the function's value: the rule determines the results.
        return (1.1 * jnp.tanh(x), x), root(x + 1)[0]

    def backward(residual, cts):
        traced.append("backward")
        return (jnp.cos(residual) * cts[0] + cts[1],)

    root.defvjp(forward, backward)

    def loss(x):
        return jnp.sum(jnp.sin(x) * lax.stop_gradient(root(x)[0]))

    x = matrix()[0]
    program = jaxmlir.trace(loss)(x)
    gradient = program.grad()
    assert traced == ["forward"]
    np.testing.assert_allclose(gradient(x), jax.grad(loss)(x), rtol=1e-6)
    assert "backward" not in traced
    # The rule exists once the text is read, or a derivative goes through the call.
    assert "bwd_jaxpr" in program.as_text()
    np.testing.assert_allclose(program.grad()(x), jax.grad(loss)(x), rtol=1e-6)

    used = jaxmlir.trace(lambda x: loss(x) + jnp.sum(root(x)[0]))(x)
    wanted = jax.grad(lambda x: loss(x) + jnp.sum(root(x)[0]))(x)
    np.testing.assert_allclose(used.grad()(x), wanted, rtol=1e-6)


def test_a_derivative_in_jax_code_traces_the_rules_of_the_ops_that_it_meets():
    sine, traced = sine_with_counted_rules()

    def f(x, unused):
        return sine(x) * x, unused

    x = np.float32(1.3)
    program = jaxmlir.trace(f)(x, x)
    # JAX reads the location of the traced function's code, and its text if there is none.
    assert program.__code__.co_filename == __file__
    np.testing.assert_array_equal(jax.jit(program)(x, x), jax.jit(f)(x, x))
    assert not traced
    for of in (program, jaxmlir.jit(f, optimize=2)):
        first = jax.jit(jax.grad(lambda x, of=of: of(x, x)[0]))
        np.testing.assert_array_equal(first(x), jax.jit(jax.grad(lambda x: f(x, x)[0]))(x))
        assert "jvp" not in traced
    second = jax.grad(jax.grad(lambda x: program(x, x)[0]))
    np.testing.assert_allclose(second(x), jax.grad(jax.grad(lambda x: f(x, x)[0]))(x), rtol=1e-6)
    assert "jvp" in traced


def test_a_backward_rule_that_a_derivative_of_jax_traces_has_the_mesh_of_its_program():
    """JAX transposes a ``jit`` under the mesh of its equations."""

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    def bwd(x, ct):
        _, pullback = jax.vjp(lambda x, unused: x * jnp.cos(x), x, x)
        return (sum(pullback(ct)),)

    f.defvjp(lambda x: (f(x), x), bwd)
    for level in (0, 2):
        assert jax.grad(jaxmlir.jit(f, optimize=level))(1.0) == jax.grad(f)(1.0)


def test_a_derivative_that_is_looked_at_has_all_rules():
    sine, _ = sine_with_counted_rules()
    x = np.float32(1.3)
    derivative = jaxmlir.trace(sine)(x).grad()
    before = derivative(x)
    text = derivative.as_text()
    assert not derivative.has_untraced_rules
    assert "untraced" not in text
    # The rules and the derivative call the same functions, which are not copied.
    assert text.count("func.func") == 6
    assert text.count("jvp_jaxpr = @") == 2
    assert text.count("bwd_jaxpr = @") == 2
    assert derivative(x) == before == jaxmlir.parse(text)(x)
    derivative.verify()
    second = jaxmlir.parse(text).grad()(x)
    np.testing.assert_allclose(second, jax.grad(jax.grad(sine))(x), rtol=1e-6)


def test_rules_that_jax_differentiates_are_traced_first():
    sine, _ = sine_with_counted_rules()

    @jax.custom_jvp
    def outer(x):
        return jnp.sum(jnp.cos(x))

    @outer.defjvp
    def outer_jvp(primals, tangents):
        # JAX's own rule differentiates a recomputation with a policy.
        policy = jax.checkpoint_policies.dots_saveable
        weighted = jax.checkpoint(lambda x, t: jnp.sum(sine(x) * t), policy=policy)
        return outer(*primals), -weighted(*primals, *tangents)

    x = np.linspace(0, 1, 4, dtype=np.float32)
    program = jaxmlir.trace(outer)(x)
    np.testing.assert_allclose(program.grad()(x), jax.grad(outer)(x), rtol=1e-6)
    _, lin = program.linearize()
    hessian = jax.jacrev(jax.grad(outer))(x)
    np.testing.assert_allclose(jax.jacrev(program.grad())(x), hessian, rtol=1e-5)
    assert "untraced" not in lin.as_text()


def test_rules_that_jax_does_not_meet_wait():
    """JAX's rule is run for a recomputation with a policy, in the rule of another function; it
    calls a function whose rule calls one with a rule."""
    traced = collections.Counter()

    @jax.custom_jvp
    def outer(x):
        return jnp.sum(jnp.cos(x))

    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    @jax.custom_jvp
    def cosine(x):
        return jnp.cos(x)

    @outer.defjvp
    def outer_jvp(primals, tangents):
        policy = jax.checkpoint_policies.dots_saveable
        weighted = jax.checkpoint(lambda x, t: jnp.sum(sine(x) * t), policy=policy)
        return outer(*primals), -weighted(*primals, *tangents)

    @sine.defjvp
    def sine_jvp(primals, tangents):
        traced["sine"] += 1
        return sine(*primals), cosine(*primals) * tangents[0]

    @cosine.defjvp
    def cosine_jvp(primals, tangents):
        traced["cosine"] += 1
        return cosine(*primals), -sine(*primals) * tangents[0]

    def second(gradient):
        return lambda x: jnp.sum(gradient(x) ** 2)

    x = np.linspace(0, 1, 4, dtype=np.float32)
    first = jaxmlir.trace(outer)(x).grad()
    assert traced["cosine"] == 0
    np.testing.assert_allclose(first(x), jax.grad(outer)(x), rtol=1e-6)
    derivative = jaxmlir.trace(second(first))(x).grad()
    wanted = jax.grad(second(jax.grad(outer)))(x)
    np.testing.assert_allclose(derivative(x), wanted, rtol=1e-5)
    for program, of_jax in ((first, jax.grad(outer)), (derivative, jax.grad(second(first)))):
        text = program.as_text()
        assert "untraced" not in text
        np.testing.assert_allclose(jaxmlir.parse(text)(x), of_jax(x), rtol=1e-5)


def test_rules_that_are_traced_meanwhile_take_no_name_twice():
    """A branch in a loop is split, and its rule traced, while enclosing functions are written."""

    @jax.custom_vjp
    def product(x, y):
        return x * y

    def product_fwd(x, y):
        return product(x, y), (x, y)

    def product_bwd(residuals, ct):
        x, y = residuals
        return ct * y, jnp.sum(x * ct)

    product.defvjp(product_fwd, product_bwd)

    def f(x, y):
        def step(c, row):
            return lax.cond(y > 0, lambda c: product(c, y), jnp.sin, c), c * row

        return lax.scan(step, x, matrix())

    x, y = np.ones(3, np.float32), np.float32(0.5)
    program = jaxmlir.trace(f)(x, y)
    _, lin = program.linearize(custom_vjp_forward="transpose")
    fwd, bwd = program.vjp()
    out, residuals = fwd(x, y)
    want, pullback = jax.vjp(f, x, y)
    for ours, theirs in zip(bwd(residuals, out), pullback(want), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    lin.verify()


def test_batching_traces_no_rule():
    sine, traced = sine_with_counted_rules()
    xs = np.linspace(0, 2, 6, dtype=np.float32).reshape(3, 2)

    def f(x):
        return jnp.sum(sine(x) * x)

    program = jaxmlir.trace(f)(xs[0])
    batched = program.vmap(axis_size=3)
    batched.verify()
    twice = jaxmlir.trace(lambda x: sine(x))(xs[0, 0]).vmap(axis_size=2).vmap(axis_size=3)
    traced.clear()
    np.testing.assert_array_equal(batched(xs), jax.jit(jax.vmap(f))(xs))
    np.testing.assert_array_equal(twice(xs), jax.jit(jax.vmap(jax.vmap(sine)))(xs))
    assert not traced
    for derivative in (batched.vjp()[0], program.grad().vmap(axis_size=3)):
        derivative.verify()
        assert derivative.has_untraced_rules

    def summed(f):
        return lambda xs: jnp.sum(f(xs))

    want = jax.grad(summed(jax.vmap(f)))(xs)
    np.testing.assert_allclose(jax.grad(summed(batched))(xs), want, rtol=1e-6)
    np.testing.assert_allclose(program.grad().vmap(axis_size=3)(xs), want, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(summed(twice))(xs), np.cos(xs), rtol=1e-6)
    hessian = jax.jacrev(jax.grad(summed(jax.vmap(f))))(xs)
    np.testing.assert_allclose(jax.jacrev(jax.grad(summed(batched)))(xs), hessian, rtol=1e-5)
    text = batched.as_text()
    assert not batched.has_untraced_rules
    # The text is the same as if all rules had been traced from the beginning.
    assert text == jaxmlir.parse(str(program)).vmap(axis_size=3).as_text()
    np.testing.assert_allclose(jax.grad(summed(jaxmlir.parse(text)))(xs), want, rtol=1e-6)
