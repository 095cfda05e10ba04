"""Custom rules that close over values of the enclosing function: derivatives equal those that JAX
computes while the values still exist."""

import collections
import contextlib
import functools
import operator
import types

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.bridge.custom_rules import closures
from jaxmlir.errors import TransformError

pytestmark = pytest.mark.compat

X = np.linspace(0.5, 1.5, 3, dtype=np.float32)
Y = np.linspace(-1.0, 1.0, 3, dtype=np.float32)


def with_jvp(x):
    @jax.custom_jvp
    def f(z):
        return jnp.sin(z * x)

    @f.defjvp
    def f_jvp(primals, tangents):
        (z,), (t,) = primals, tangents
        return f(z), 3.0 * t * jnp.cos(z * x) * x

    return f


def with_jvp_told_zeros(x):
    @jax.custom_jvp
    def f(z, w):
        return z * x + w

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def f_jvp(primals, tangents):
        z, w = primals
        t, u = (0.0 if type(t) is jax.custom_derivatives.SymbolicZero else t for t in tangents)
        return f(z, w), 3.0 * t * x + u + 0.0 * z

    return lambda z: f(z, Y)


def with_vjp(x):
    @jax.custom_vjp
    def f(z):
        return jnp.sin(z * x)

    f.defvjp(
        lambda z: (f(z), (z, jnp.tanh(x))),
        lambda residuals, ct: (3.0 * ct * jnp.cos(residuals[0] * x) * residuals[1],),
    )
    return f


def with_forward_rule_alone(x):
    @jax.custom_vjp
    def f(z):
        return z * x

    f.defvjp(lambda z: (f(z), x), lambda slope, ct: (3.0 * ct * slope,))
    return f


def with_backward_rule_alone(x):
    """The backward rule, unlike the forward rule, closes over ``x``; ``n`` has no derivative."""

    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def f(z, n):
        return z**n * x

    f.defvjp(lambda z, n: (f(z, n), z), lambda n, z, ct: (n * ct * jnp.exp(x) * z,))
    return lambda z: f(z, 2)


def with_vjp_told_zeros(x):
    @jax.custom_vjp
    def f(z, w):
        return z * x + w

    def fwd(z, w):
        return f(z.value, w.value), 2.0 if w.perturbed else 3.0

    f.defvjp(fwd, lambda scale, ct: (scale * ct * x, ct), symbolic_zeros=True)
    return lambda z: f(z, Y)


def with_numbers(x):
    """JAX inlines closed-over scalars into the jaxpr."""
    scale, shift = jnp.float32(2), np.float32(3)
    f = jax.custom_jvp(lambda z: z * scale * x + shift)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale * jnp.exp(x) * shift))
    return f


def whose_rules_alone_do(x):
    """Only the rules close over a value, as in a function that reverses or scales a gradient."""

    @jax.custom_vjp
    def f(z):
        return 2 * z

    f.defvjp(lambda z: (f(z), x), lambda slope, ct: (-jnp.exp(x) * ct * slope,))

    @jax.custom_jvp
    def g(z):
        return z**2

    g.defjvp(lambda primals, tangents: (g(*primals), x * tangents[0] * primals[0]))
    return lambda z: g(f(z))


class Solver:
    """An object whose methods are rules."""

    def __init__(self, x):
        self.x = x
        self.solve = jax.custom_vjp(self.value)
        self.solve.defvjp(self.forward, self.backward)

    def value(self, z):
        return z / self.x

    def forward(self, z):
        return self.value(z), None

    def backward(self, _, ct):
        return (2.0 * ct / self.x,)


FUNCTIONS = [
    with_jvp,
    with_jvp_told_zeros,
    with_vjp,
    with_forward_rule_alone,
    with_backward_rule_alone,
    with_vjp_told_zeros,
    with_numbers,
    lambda x: Solver(x).solve,
]


def scanned(f, y):
    def step(carry, slice_):
        return carry + f(slice_ * carry), f(slice_)

    return lax.scan(step, y, jnp.stack([y, 2 * y]))


def scanned_over(x, y, make):
    """One rule closes over the loop's carry, another one over the carry's initial value."""

    def step(carry, slice_):
        return 1.5 * carry, make(x)(slice_) + make(carry)(slice_)

    return lax.scan(step, x, jnp.stack([y, 2 * y]))[1]


PLACES = {
    "straight": lambda x, y, make: make(x)(y),
    "of what was computed": lambda x, y, make: make(jnp.exp(x))(jnp.sin(y)),
    "in jit": lambda x, y, make: jax.jit(lambda z: make(x)(z) * 2)(y),
    "around jit": lambda x, y, make: jax.jit(jax.jit(make(x)))(y),
    "in remat": lambda x, y, make: jax.checkpoint(lambda z: jnp.cos(make(x)(z)))(y),
    "in cond": lambda x, y, make: lax.cond(y[0] < 0, make(x), make(2 * x), y),
    "in scan": lambda x, y, make: scanned(make(x), y),
    "of a carry": scanned_over,
    "in fori_loop": lambda x, y, make: lax.fori_loop(0, 3, lambda i, z: make(x)(z) * z, y),
    "in vmap": lambda x, y, make: jax.vmap(make(x))(jnp.stack([y, 2 * y])),
    "in another": lambda x, y, make: with_jvp(x)(make(x)(y)),
}


def loss(place, make):
    def total(x, y):
        leaves = jax.tree.leaves(PLACES[place](x, y, make))
        return sum(jnp.sum(jnp.cos(leaf)) for leaf in leaves)

    return total


def of_jax(function, *args):
    """JAX's result, with Python control flow, because JAX cannot differentiate some of JAX's."""
    with jax.disable_jit():
        return function(*args)


@pytest.mark.sampled
@pytest.mark.parametrize("make", FUNCTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_gradients(place, make):
    function = loss(place, make)
    want = of_jax(jax.grad(function, 1), X, Y)
    program = jaxmlir.trace(function)(X, Y)
    read = jaxmlir.parse(str(program))
    for gradient in (
        program.grad(1),
        read.grad(1),
        program.optimize(2).grad(1).optimize(2),
        jax.jit(jax.grad(program, 1)),
        jax.grad(jax.jit(jaxmlir.trace(lambda x, y: 2 * program(x, y) / 2)(X, Y)), 1),
    ):
        np.testing.assert_allclose(gradient(X, Y), want, 1e-5, 1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("make", FUNCTIONS)
def test_batches_of_what_is_closed_over(make, tmp_path):
    function = loss("in jit", make)
    xs, ys = np.stack([X, 2 * X, 3 * X]), np.stack([Y, 2 * Y, 3 * Y])
    want = [of_jax(jax.grad(function, 1), x, y) for x, y in zip(xs, ys, strict=True)]
    program = jaxmlir.trace(function)(X, Y)
    program.save(tmp_path / "program")
    loaded = jaxmlir.load(tmp_path / "program")

    def of_batch(x, y):
        return jnp.sum(program.vmap()(x, y))

    for gradient in (
        program.grad(1).vmap(),
        loaded.grad(1).vmap(),
        jax.grad(of_batch, 1),
        jaxmlir.trace(of_batch)(xs, ys).grad(1),
        jax.vmap(jax.grad(program, 1)),
    ):
        np.testing.assert_allclose(gradient(xs, ys), want, 1e-5, 1e-6)


def test_second_derivatives():
    function = loss("in jit", with_jvp)
    program = jaxmlir.trace(function)(X, Y)
    want = of_jax(jax.hessian(function, 1), X, Y)
    np.testing.assert_allclose(program.hessian(1)(X, Y), want, 1e-4, 1e-5)
    np.testing.assert_allclose(jax.hessian(program, 1)(X, Y), want, 1e-4, 1e-5)


@pytest.mark.parametrize("make", FUNCTIONS)
def test_what_is_closed_over_has_no_derivative(make):
    program = jaxmlir.trace(loss("in jit", make))(X, Y)
    with pytest.raises(TransformError, match="a value that it closes over"):
        program.grad((0, 1))


@pytest.mark.parametrize("place", ["straight", "of what was computed", "in vmap", "in another"])
def test_rules_that_alone_close_over_something(place):
    function = loss(place, whose_rules_alone_do)
    want = of_jax(jax.grad(function, 1), X, Y)
    program = jaxmlir.trace(function)(X, Y)
    for gradient in (program.grad(1), jaxmlir.parse(str(program)).grad(1), jax.grad(program, 1)):
        np.testing.assert_allclose(gradient(X, Y), want, 1e-5, 1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_a_jvp_rule_speaks_of_arguments_alone(symbolic_zeros, held):
    """A value that only the function closes over is a constant, as in JAX."""

    def function(x, y):
        others = [x, y] if held else []

        @jax.custom_jvp
        def f(z, w):
            return jnp.sin(z) + 0.0 * x + w

        @functools.partial(f.defjvp, symbolic_zeros=symbolic_zeros)
        def f_jvp(primals, tangents):
            z, w = primals
            t, u = (0.0 if type(t) is jax.custom_derivatives.SymbolicZero else t for t in tangents)
            return jnp.sin(z) + w + 0.0 * len(others), 2.0 * t + 5.0 * u + 0.0 * z

        return f(y, jnp.float32(0.5)) * jnp.tanh(x)

    program = jaxmlir.trace(function)(X, Y)
    read = jaxmlir.parse(str(program))
    ones, zeros = np.ones_like(X), np.zeros_like(X)
    for tangents in ((ones, zeros), (zeros, ones), (2 * ones, ones)):
        want = jax.jvp(jax.jit(function), (X, Y), tangents)
        for got in (
            program.jvp()((X, Y), tangents),
            read.jvp()((X, Y), tangents),
            jax.jvp(jaxmlir.jit(function, optimize=2), (X, Y), tangents),
        ):
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    for argnums in ((0,), (1,), (0, 1)):
        want = jax.grad(jax.jit(lambda x, y: function(x, y).sum()), argnums)(X, Y)
        loss = jaxmlir.trace(lambda x, y: function(x, y).sum())(X, Y)
        for gradient in (
            loss.grad(argnums),
            jaxmlir.parse(str(loss)).grad(argnums),
            loss.optimize(2).grad(argnums).optimize(2),
            jax.jit(jax.grad(loss, argnums)),
        ):
            np.testing.assert_allclose(gradient(X, Y), want, 1e-5, 1e-6)


class Holder:
    """An object whose methods have custom rules that close over its attributes and the scale."""

    def __init__(self, weight):
        self.weight, self.scale = weight, 3.0

    def with_jvp(self):
        @jax.custom_jvp
        def f(z, w):
            return jnp.sin(z) * self.scale + w

        @f.defjvp
        def f_jvp(primals, tangents):
            (z, w), (t, u) = primals, tangents
            return f(z, w), self.scale**2 * t * jnp.cos(z) + u

        return f

    def with_jvp_told_zeros(self):
        f = jax.custom_jvp(lambda z, w: jnp.sin(z) * self.scale + w)

        @functools.partial(f.defjvp, symbolic_zeros=True)
        def f_jvp(primals, tangents):
            z, w = primals
            t, u = (0.0 if type(t) is jax.custom_derivatives.SymbolicZero else t for t in tangents)
            return f(z, w), self.scale**2 * t * jnp.cos(z) + u + 0.0 * z

        return f

    def with_vjp(self):
        f = jax.custom_vjp(lambda z, w: jnp.sin(z) * self.scale + w)
        f.defvjp(
            lambda z, w: (f(z, w), z * self.scale),
            lambda r, ct: (self.scale * ct * jnp.cos(r / self.scale), ct),
        )
        return f

    def with_vjp_told_zeros(self):
        f = jax.custom_vjp(lambda z, w: jnp.sin(z) * self.scale + w)
        f.defvjp(
            lambda z, w: (f(z.value, w.value), z.value * self.scale),
            lambda r, ct: (self.scale * ct * jnp.cos(r / self.scale), ct),
            symbolic_zeros=True,
        )
        return f


HELD = [name for name in vars(Holder) if name.startswith("with")]


@pytest.mark.sampled
@pytest.mark.parametrize("make", HELD)
def test_rules_that_close_over_an_object_and_do_not_read_what_is_differentiated(make, tmp_path):
    def function(x, y):
        holder = Holder(x)
        return jnp.sum(getattr(holder, make)()(y, x) * jnp.tanh(holder.weight))

    program = jaxmlir.trace(jax.jit(function))(X, Y)
    program.save(tmp_path / "program")
    exported = jax.extend.core.jaxpr_as_fun(program.to_jaxpr())
    for argnums in ((0,), (1,), (0, 1)):
        want = jax.grad(function, argnums)(X, Y)
        for gradient in (
            program.grad(argnums),
            jaxmlir.load(tmp_path / "program").grad(argnums),
            program.optimize(2).grad(argnums).optimize(2),
            jax.jit(jax.grad(program, argnums)),
            jax.grad(lambda x, y: exported(x, y)[0], argnums),
        ):
            np.testing.assert_allclose(gradient(X, Y), want, 1e-5, 1e-6)
    xs, ys = np.stack([X, 2 * X]), np.stack([Y, 3 * Y])
    want = jax.vmap(jax.grad(function, (0, 1)))(xs, ys)
    np.testing.assert_allclose(program.grad((0, 1)).vmap()(xs, ys), want, 1e-5, 1e-6)
    of_batch = jaxmlir.trace(lambda xs, ys: jnp.sum(program.vmap()(xs, ys)))(xs, ys)
    np.testing.assert_allclose(of_batch.grad((0, 1))(xs, ys), want, 1e-5, 1e-6)
    if "jvp" in make:
        want = jax.hessian(function, (0, 1))(X, Y)
        np.testing.assert_allclose(program.hessian((0, 1))(X, Y), want, 1e-5, 1e-5)


def reads_what_is_stopped(x, y):
    """Only the rule uses the value, so that the value looks dead."""
    stopped = jnp.tanh(jax.lax.stop_gradient(x))
    f = jax.custom_jvp(jnp.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * stopped))
    return jnp.sum(f(y) * x)


@pytest.mark.parametrize("function", [reads_what_is_stopped, jax.jit(reads_what_is_stopped)])
def test_what_rules_alone_close_over_is_not_dead(function):
    want = of_jax(jax.grad(function, (0, 1)), X, Y)
    for level in (0, 2):
        jitted = jaxmlir.jit(function, optimize=level)
        np.testing.assert_allclose(jax.grad(jitted, (0, 1))(X, Y), want, 1e-5, 1e-6)
        np.testing.assert_allclose(jax.jit(jax.grad(jitted, (0, 1)))(X, Y), want, 1e-5, 1e-6)


def test_rules_that_close_over_numbers_alone():
    def function(y):
        scale = jnp.float32(3)
        f = jax.custom_vjp(jnp.sin)
        f.defvjp(lambda z: (f(z), z * scale), lambda z, ct: (ct * z * scale,))
        return jnp.sum(f(y))

    want = jax.jit(jax.grad(function))(Y)
    np.testing.assert_allclose(jaxmlir.trace(function)(Y).grad()(Y), want, 1e-5, 1e-6)


class Closed:
    """An object that fails if a missing attribute is read."""

    __slots__ = ("something",)

    def __getattr__(self, name):
        raise RuntimeError(name)


def _class_with(value):
    class Local:
        attribute = value

        def __call__(self):
            return value

    return Local


def _callable(value):
    class Scaled:
        def __init__(self, function):
            functools.update_wrapper(self, function)
            self.value = value

    return Scaled(len)


def _with_attribute(holder, value):
    holder.value = value
    return holder


def _array_with(value):
    array = np.empty(1, object)
    array[0] = value
    return array


class WithSlots:
    __slots__ = ("__value",)

    def __init__(self, value):
        self.__value = value

    def value(self):
        return self.__value


def _behind_numbers(value):
    def inner():
        return holder[0] if numbers else None

    holder, numbers = [value], list(map(float, range(20_000)))
    return inner


HOLDERS = {
    "deque": (lambda value: collections.deque([value]), lambda held: held[0]),
    "method of a dictionary": (lambda value: {"k": value}.get, lambda held: held("k")),
    "call of methods": (
        lambda value: operator.methodcaller("get", "k", value),
        lambda held: held({}),
    ),
    "view of a dictionary": (
        lambda value: types.MappingProxyType({"k": value}),
        lambda held: held["k"],
    ),
    "local class": (_class_with, lambda held: held.attribute),
    "object of a local class": (lambda value: _class_with(value)(), lambda held: held()),
    "callable that wraps another": (_callable, lambda held: held.value),
    "function": (lambda value: _with_attribute(lambda: None, value), lambda held: held.value),
    "dictionary with attributes": (
        lambda value: _with_attribute(type("Dict", (dict,), {})(), value),
        lambda held: held.value,
    ),
    "array of objects": (_array_with, lambda held: held[0]),
    "private slot": (WithSlots, WithSlots.value),
    "behind numbers": (_behind_numbers, lambda held: held()),
    "jaxpr": (lambda value: jax.make_jaxpr(lambda: 1 * value)(), lambda held: held.consts[0]),
}


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize(("hold", "read"), HOLDERS.values(), ids=HOLDERS)
def test_what_holds_values_that_rules_close_over(hold, read, kind):
    def loss(y, x):
        held = hold(lax.stop_gradient(jnp.sin(x)))
        value = read(held)

        def inner(y):
            @jax.custom_jvp
            def f(z):
                return z * value

            @jax.custom_vjp
            def g(z):
                return z * value

            f.defjvp(lambda primals, t: (f(*primals), 3.0 * t[0] * read(held)))
            g.defvjp(lambda z: (g(z), None), lambda _, ct: (3.0 * ct * read(held),))
            return jnp.sum((f if kind == "jvp" else g)(y))

        return jax.jit(inner)(y)

    wanted = jax.grad(loss)(Y, X)
    np.testing.assert_allclose(jaxmlir.trace(loss)(Y, X).grad()(Y, X), wanted, rtol=1e-6)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def scaled(z, scales):
    return jnp.sin(z) * scales["outer"][0]


@scaled.defjvp
def scaled_jvp(scales, primals, tangents):
    return scaled(*primals, scales), 3.0 * tangents[0] * scales["outer"][0] * jnp.cos(primals[0])


@functools.partial(jax.custom_jvp, nondiff_argnames=("function",))
def applied_with_jvp(function, z):
    return function(z)


@applied_with_jvp.defjvp
def applied_jvp(function, primals, tangents):
    tangent = jax.jvp(function, primals, tangents)[1]
    return applied_with_jvp(function, *primals), 3.0 * tangent


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def applied_with_vjp(function, z):
    return function(z)


applied_with_vjp.defvjp(
    lambda function, z: (applied_with_vjp(function, z), z),
    lambda function, z, ct: (3.0 * jax.vjp(function, z)[1](ct)[0],),
)

GIVEN = {
    "arrays": lambda x: lambda z: scaled(z, {"outer": (x, 2)}),
    "a function, JVP": lambda x: functools.partial(applied_with_jvp, lambda z: jnp.sin(z * x)),
    "a function, VJP": lambda x: functools.partial(applied_with_vjp, lambda z: jnp.sin(z * x)),
    "a partial": lambda x: functools.partial(
        applied_with_vjp, functools.partial(lambda z, slope: jnp.sin(z * slope), slope=x)
    ),
    "a function with one of its own": lambda x: functools.partial(
        applied_with_vjp, lambda z: scaled(z, {"outer": (x, 2)}) * x
    ),
}


def in_while(x, y, make):
    def body(carry):
        i, slope, z = carry
        return i + 1, 1.5 * slope, make(slope)(z) * z

    return lax.while_loop(lambda carry: carry[0] < 3, body, (0, x, y))[2]


@pytest.mark.sampled
@pytest.mark.parametrize("make", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("place", PLACES)
def test_arguments_that_are_not_differentiated(place, make):
    function = loss(place, make)
    program = jaxmlir.trace(function)(X, Y)
    want = of_jax(jax.grad(function, 1), X, Y)
    np.testing.assert_allclose(program.grad(1)(X, Y), want, 1e-5, 1e-6)
    np.testing.assert_allclose(jaxmlir.parse(str(program)).grad(1)(X, Y), want, 1e-5, 1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("make", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("place", ["straight", "in jit", "in scan", "in cond"])
def test_second_derivatives_past_arguments_that_are_not_differentiated(place, make):
    function = loss(place, make)
    want = of_jax(jax.jacrev(jax.grad(function, 1), 1), X, Y)
    gradient = jaxmlir.trace(function)(X, Y).grad(1)
    np.testing.assert_allclose(jax.jacrev(gradient, 1)(X, Y), want, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["arrays", "a function, JVP"])
def test_arguments_that_are_not_differentiated_in_while_loops(kind):
    def total(x, y):
        return jnp.sum(in_while(x, y, GIVEN[kind]))

    _, want = jax.jvp(lambda y: of_jax(total, X, y), (Y,), (X,))
    program = jaxmlir.trace(total)(X, Y)
    np.testing.assert_allclose(jax.jvp(lambda y: program(X, y), (Y,), (X,))[1], want, 1e-5, 1e-6)


@pytest.mark.parametrize("before", ["nothing", "jit of grad", "grad of jit"])
def test_what_a_process_did_before_makes_no_difference_to_rules(before):
    @functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
    def f(z, slope):
        return z * slope

    f.defjvp(lambda slope, primals, tangents: (primals[0] * slope, 2 * slope * tangents[0]))

    @jax.jit
    def total(z, slope):
        return jnp.sum(f(z, slope))

    if before == "jit of grad":
        jax.jit(jax.grad(total.__wrapped__))(Y, X)
    elif before == "grad of jit":
        # JAX itself runs the rule after the closed-over value is gone.
        with contextlib.suppress(TypeError, jax.errors.UnexpectedTracerError):
            jax.grad(total)(Y, X)
    np.testing.assert_allclose(jaxmlir.trace(total)(Y, X).grad()(Y, X), 2 * X, 1e-6)


def test_a_pseudoinverse_with_a_traced_cutoff():
    matrix = np.array([[1.0, 2.0], [3.0, 4.5], [0.5, 1.0]], np.float32)
    cutoff = np.float32(1e-4)

    def total(a, rtol):
        return jnp.sum(jnp.linalg.pinv(a, rtol=rtol))

    want = jax.jit(jax.grad(total))(matrix, cutoff)
    got = jaxmlir.trace(total)(matrix, cutoff).grad()(matrix, cutoff)
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def walks_of_second_derivatives(calls, monkeypatch):
    """The numbers of values that walks over the rules' closures see, in a second derivative of
    ``calls`` calls."""
    found = []

    def counted(rules, *seen):
        values = list(made_of(rules, *seen))
        found.append(len(values))
        return iter(values)

    def total(x, y):
        f = with_jvp(x)
        for _ in range(calls):
            y = jax.jit(lambda z: f(z) + f(2 * z))(y)
        return jnp.sum(y)

    made_of = closures.made_of
    with monkeypatch.context() as patch:
        patch.setattr(closures, "made_of", counted)
        gradient = jaxmlir.trace(total)(X, Y).grad(1)
        jaxmlir.trace(lambda x, y: jnp.sum(jnp.cos(gradient(x, y))))(X, Y).grad(1)
    return found


def test_what_rules_close_over_is_no_program(monkeypatch):
    """An exported rule refers to its program, which may be large and refers to other rules."""
    few, many = (walks_of_second_derivatives(calls, monkeypatch) for calls in (2, 8))
    assert len(many) <= 4 * len(few)
    assert max(many) == max(few) < 100


def test_rules_that_close_over_what_cannot_be_looked_into():
    closed = Closed()

    def function(x, y):
        f = jax.custom_jvp(lambda z: jnp.sum(z * x))
        f.defjvp(lambda primals, tangents: (f(*primals), (closed and 3) * jnp.sum(tangents[0] * x)))
        return f(y)

    want = jax.jit(jax.grad(function, 1))(X, Y)
    np.testing.assert_allclose(jaxmlir.trace(function)(X, Y).grad(1)(X, Y), want, 1e-5, 1e-6)


def in_vmap_of_both(x, y):
    """The rule closes over a row of a batch inside the program."""
    rows = jax.vmap(lambda x, y: with_jvp(x)(y))(jnp.stack([x, x]), jnp.stack([y, y]))
    return jnp.sum(rows)


def of_two_calls(x, y):
    """The rule closes over the value that the first of two calls passes, not the second."""

    @jax.jit
    def called(z, y):
        f = jax.custom_jvp(lambda w: jnp.sum(w * z))
        f.defjvp(lambda primals, tangents: (f(*primals), jnp.sum(tangents[0] * x)))
        return f(y)

    return called(x, y) + called(2 * x, y)


@pytest.mark.parametrize(
    "function", [in_vmap_of_both, of_two_calls, loss("in jit", whose_rules_alone_do)]
)
def test_what_is_not_at_hand(function):
    program = jaxmlir.trace(function)(X, Y)
    np.testing.assert_allclose(program(X, Y), function(X, Y), 1e-5, 1e-6)
    with pytest.raises(TransformError, match="could not be traced"):
        program.grad(1)
