"""What is made of a program does not depend on other programs that share its functions."""

import gc
import re
import threading

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
from derivative_checks import close
from jax import lax

import jaxmlir
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import TransformError

X = np.array([0.3, 1.2, -0.7], np.float32)
SQUARE = np.array([[2.0, 0.5, 0.1], [0.2, 3.0, 0.4], [0.3, 0.1, 4.0]], np.float32)


def canonical(program):
    """The functions with locations, in the order of their first reference, without their names."""
    program.trace_rules()
    functions, order = dict(program.functions), [program.name]
    texts = []
    with scope():
        for name in order:
            op = functions[name].operation
            text = op.get_asm(enable_debug_info=True, pretty_debug_info=True)
            order += [n for n in re.findall(r'@"?([\w.]+)"?', text) if n not in order]
            texts.append(text)
    assert set(order) == set(functions)
    number = {name: f"@{i}" for i, name in enumerate(order)}
    # Profiler names of calls of rules have the symbol in the program that made the rule.
    texts = [re.sub(r'(name = "\w+?)(_\d+)+"', r'\1"', text) for text in texts]
    return [re.sub(r'@"?([\w.]+)"?', lambda found: number[found[1]], text) for text in texts]


@jax.jit
def layer(w, x):
    return jnp.tanh(w @ x)


@jax.jit
def with_loop(x):
    def body(carry, y):
        return jax.nn.softplus(carry * y), jnp.where(carry > 0.5, carry, y)

    carry, ys = lax.scan(body, x[0], x)
    return carry + lax.cond(x[0] > 0, jnp.sum, jnp.prod, ys)


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -0.5, 0.5),))
clipped_twice = jax.jit(lambda x: clipped(2.0 * clipped(x)))


larger = jax.jit(lambda x, y: jnp.where(x > y, x * y, y))
larger_twice = jax.jit(lambda x, y: larger(x, y) + larger(y, x))


@jax.custom_jvp
def ruled(x, y):
    return larger_twice(x, y)


@ruled.defjvp
def ruled_jvp(primals, tangents):
    # The rule calls directly a function that the primal function calls through another one.
    return ruled(*primals), 3 * tangents[0] * larger(*primals) + tangents[1]


@jax.jit
def with_callback(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return x * jax.pure_callback(np.cos, shape, lax.stop_gradient(x), vmap_method="sequential")


TABLE = np.arange(3000, dtype=np.float32).reshape(1000, 3)
with_constant = jax.jit(lambda x: jax.jit(lambda x: TABLE @ x)(x).sum())

CASES = {
    "det": (lambda a: jnp.linalg.det(a), (SQUARE,)),
    "slogdet": (lambda a: jnp.linalg.slogdet(a)[1], (SQUARE,)),
    "expm": (lambda a: jax.scipy.linalg.expm(a).sum(), (SQUARE / 8,)),
    "solve": (lambda a, b: jnp.linalg.solve(a, b).sum(), (SQUARE, X)),
    "interp": (lambda x: jnp.interp(x, jnp.arange(3.0), X).sum(), (X,)),
    "median": (lambda x: jnp.median(x) + jnp.std(x), (X,)),
    "relu": (lambda x: jax.nn.relu(x).sum() * jax.nn.silu(x).sum(), (X,)),
    "layers": (lambda w, x: layer(w, layer(w, x)).sum(), (SQUARE, X)),
    "partly active": (lambda w, x: layer(w, x).sum() + layer(SQUARE, X).sum(), (SQUARE, X)),
    "not active": (lambda x: layer(SQUARE, X).sum() * x.sum(), (X,)),
    "loop": (lambda x: with_loop(x), (X,)),
    "custom_vjp": (lambda x: jnp.sum(x * clipped_twice(x)), (X,)),
    "in a scan": (lambda w, x: lax.scan(lambda c, _: (layer(w, c), None), x, None, 3)[0].sum(),
                  (SQUARE, X)),
    "in a cond": (lambda w, x: lax.cond(x[0] > 0, layer, layer, w, x).sum(), (SQUARE, X)),
    "in a rule": (lambda x: jax.scipy.special.xlogy(x, jnp.abs(x)).sum(), (X,)),
    "by a rule too": (lambda x: jnp.sum(ruled(x, jnp.sin(x))), (X,)),
    "vmapped": (lambda w, x: jax.vmap(layer, (None, 0))(w, x).sum(), (SQUARE, SQUARE)),
    "callback": (lambda x: jnp.sum(with_callback(x)), (X,)),
    "large constant": (lambda x: jnp.sum(with_constant(x)), (X,)),
    "rematerialised": (lambda w, x: jax.checkpoint(layer)(w, x).sum(), (SQUARE, X)),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_the_same_each_time(name):
    # Functions in JAX's caches have the locations of their first caller.
    jax.clear_caches()
    f, args = CASES[name]
    argnums = tuple(range(len(args)))
    given = []
    for _ in range(2):
        # Trace anew each time, with a new function object around f.
        gradient = jaxmlir.trace(lambda *args: f(*args))(*args).grad(argnums)
        gradient.verify()
        given.append(canonical(gradient))
    assert given[0] == given[1]
    close(gradient(*args), jax.grad(f, argnums)(*args))


@pytest.mark.parametrize("name", ["det", "layers", "custom_vjp", "loop"])
def test_both_halves_of_a_vjp_are_the_same_each_time(name):
    jax.clear_caches()
    f, args = CASES[name]
    given = []
    for _ in range(2):
        halves = jaxmlir.trace(lambda *args: f(*args))(*args).vjp()
        for half in halves:
            half.verify()
        given.append([canonical(half) for half in halves])
    assert given[0] == given[1]
    value, residuals = halves[0](*args)
    expected, pull = jax.vjp(f, *args)
    close(value, expected)
    close(halves[1](residuals, jnp.float32(2.0)), pull(jnp.float32(2.0)))


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("transform", ["jvp", "linearize", "vmap"])
def test_other_transformations_are_the_same_each_time(transform, name):
    jax.clear_caches()
    f, args = CASES[name]
    options = {"axis_size": 2} if transform == "vmap" else {}
    given = []
    for _ in range(2):
        program = jaxmlir.trace(lambda *args: f(*args))(*args)
        found = getattr(program, transform)(**options)
        programs = found if isinstance(found, tuple) else (found,)
        for made in programs:
            made.verify()
        given.append([canonical(made) for made in programs])
    assert given[0] == given[1]
    tangents = tuple(np.ones_like(arg) for arg in args)
    if name == "custom_vjp" and transform != "vmap":
        return  # it has no derivative in forward mode
    if transform == "jvp":
        close(found(args, tangents), jax.jvp(f, args, tangents))
    elif transform == "vmap":
        batches = [np.stack([arg, 2 * arg]) for arg in args]
        close(found(*batches), jax.vmap(f)(*batches))
    else:
        value, residuals = found[0](*args)
        close((value, found[1](residuals, *tangents)), jax.jvp(f, args, tangents))


@pytest.mark.parametrize("order", [("vjp", "linearize", "jvp"), ("jvp", "linearize", "vjp")])
def test_names_do_not_depend_on_what_was_made_before(order):
    jitted = jax.jit(lambda x: jnp.abs(jnp.fft.rfft(x)))
    texts = {transform: [] for transform in order}
    for _ in range(2):
        program = jaxmlir.trace(lambda x: jitted(x).sum())(X)
        for transform in order:
            found = getattr(program, transform)()
            programs = found if isinstance(found, tuple) else (found,)
            texts[transform].append([made.as_text() for made in programs])
    for alone, later in texts.values():
        assert alone == later


def test_batching_traces_no_rules():
    traced = []

    @jax.custom_vjp
    def g(x):
        return 2.0 * x

    g.defvjp(lambda x: (traced.append(x), (2.0 * x, None))[1], lambda _, ct: (2.0 * ct,))
    jitted = jax.jit(lambda x: g(x))
    batched = jaxmlir.trace(lambda x: jitted(x).sum())(X).vmap(axis_size=2)
    assert not traced
    batches = np.stack([X, 2 * X])
    close(batched(batches), (2.0 * batches).sum(1))
    close(jax.grad(lambda x: batched(x).sum())(batches), np.full((2, 3), 2.0, np.float32))


@pytest.mark.parametrize("name", ["det", "relu", "loop"])
def test_derivatives_of_derivatives_of_a_shared_function(name):
    f, (x,) = CASES[name]
    for _ in range(2):
        first = jaxmlir.trace(lambda x: f(x))(x).grad()
        second = jaxmlir.trace(lambda x: jnp.sum(first(x)))(x).grad()  # noqa: B023
        second.verify()
    close(second(x), jax.grad(lambda x: jnp.sum(jax.grad(f)(x)))(x))
    restored = jaxmlir.parse(str(first))
    close(restored(x), jax.grad(f)(x))


def test_programs_around_the_same_function():
    for scale in (1.0, 2.0, 3.0):

        def f(w, x):
            return scale * jnp.sum(layer(w, x) ** 2)  # noqa: B023

        gradient = jaxmlir.trace(f)(SQUARE, X).grad((0, 1))
        close(gradient(SQUARE, X), jax.grad(f, (0, 1))(SQUARE, X))


def made_alike(what):
    """Jitted functions of one name with equal texts that differ in ``what``."""

    def rule(scale):
        @jax.custom_jvp
        def g(x):
            return x * 1.0

        g.defjvp(lambda p, t: (g(*p), scale * t[0]))
        return jax.jit(lambda x: g(x))

    def constant(scale):
        held = jnp.full((2000,), scale)
        return jax.jit(lambda x: x * held.sum() / 2000)

    def static(scale):
        power = jax.jit(lambda x, n: x**n, static_argnums=1)
        return lambda x: power(x, int(scale))

    def body(scale):
        def g(x):
            return x * scale

        return jax.jit(g)

    return {"rule": rule, "constant": constant, "static": static, "body": body}[what]


@pytest.mark.parametrize("what", ["rule", "constant", "static", "body"])
def test_functions_that_look_alike_are_told_apart(what):
    functions = [made_alike(what)(scale) for scale in (2.0, 3.0, 5.0)]
    for _ in range(2):
        for g in functions:
            gradient = jaxmlir.trace(lambda x: jnp.sum(g(x)))(X).grad()  # noqa: B023
            close(gradient(X), jax.grad(lambda x: jnp.sum(g(x)))(X))  # noqa: B023
        both = lambda x: jnp.sum(functions[0](x) * functions[1](x))  # noqa: E731
        close(jaxmlir.trace(both)(X).grad()(X), jax.grad(both)(X))


def test_each_program_has_the_configuration_that_it_was_traced_in():
    f = jax.jit(lambda x: jnp.sum(x @ x))
    texts = []
    for precision in ("float32", "bfloat16") * 2:
        with jax.default_matmul_precision(precision):
            texts.append(canonical(jaxmlir.trace(lambda x: f(x))(SQUARE).grad()))
    assert texts[0] == texts[2] != texts[1] == texts[3]


def test_rules_have_the_configuration_that_they_were_traced_in():
    @jax.custom_vjp
    def g(x):
        return x * 1.0

    g.defvjp(lambda x: (x, None), lambda _, ct: (SQUARE @ ct,))
    jitted = jax.jit(lambda x: g(x))

    closed = jax.make_jaxpr(lambda x: jitted(x).sum())(SQUARE)

    def gradient_in(precision):
        with jax.default_matmul_precision(precision):
            program = jaxmlir.from_jaxpr(closed)
        program.trace_rules()
        return str(program.grad())

    # All are differentiated outside of the setting that they are traced in.
    texts = [gradient_in(precision) for precision in ("float32", "bfloat16") * 2]
    assert texts[0] == texts[2] != texts[1] == texts[3]


def test_a_derivative_keeps_the_functions_of_its_callbacks_alive():
    f, (x,) = CASES["callback"]
    gradient = jaxmlir.trace(lambda x: f(x))(x).grad()
    gc.collect()
    close(gradient(x), jax.grad(f)(x))
    close(jaxmlir.parse(gradient.as_text())(x), jax.grad(f)(x))


def test_errors_tell_of_the_program_at_hand():
    @jax.jit
    def endless(x):
        return lax.while_loop(lambda x: x < 9.0, lambda x: x * 2.0, x)

    errors = []
    for _ in range(2):
        with pytest.raises(TransformError) as caught:
            jaxmlir.trace(lambda x: endless(x))(1.0).grad()
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "test_shared_functions.py" in errors[0]


def test_threads_differentiate_the_same_function():
    wanted = jax.grad(lambda a: jnp.linalg.det(a))(SQUARE)
    found = []

    def run():
        for _ in range(5):
            gradient = jaxmlir.trace(lambda a: jnp.linalg.det(a))(SQUARE).grad()
            gradient.verify()
            found.append(gradient(SQUARE))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for gradient in found:
        close(gradient, wanted)
