"""Custom rules in JAX's newer form, high-level primitives, are imported as the same program.

Each program is traced with and without JAX's flags; derivatives are compared with JAX's without.
"""

import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread, same
from hypothesis import given
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.experimental import hijax
from jax.extend.core import jaxpr_as_fun
from random_programs import budget, reverse_programs, run
from round_trip import through_artifact
from test_rules_closures import whose_rules_alone_do

import jaxmlir
from jaxmlir._compat import jax_version
from jaxmlir.errors import ArtifactError, LoweringError

pytestmark = pytest.mark.compat

FLAGS = [flag for flag in ("jax_custom_vjp3", "jax_custom_jvp3") if flag in jax.config.values]
since_011 = pytest.mark.skipif(jax_version() < (0, 11), reason="JAX refuses it there")
since_012 = pytest.mark.skipif(jax_version() < (0, 12), reason="JAX has it since 0.12")

X = np.linspace(0.5, 1.5, 3, dtype=np.float32)
Y = np.linspace(-1.0, 1.0, 3, dtype=np.float32)


@contextlib.contextmanager
def other_form():
    for flag in FLAGS:
        jax.config.update(flag, True)
    try:
        yield
    finally:
        for flag in FLAGS:
            jax.config.update(flag, False)


def close(ours, jaxs):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), ours, jaxs)


# --- functions with rules; the slopes are wrong, so that results show the rules -------------------


def of_trees():
    @jax.custom_vjp
    def f(pair):
        return {"product": pair["x"] * pair["y"][0], "sum": pair["x"] + 2.0}

    def fwd(pair):
        return f(pair), (pair["y"], {"sin": jnp.sin(pair["x"])})

    def bwd(residuals, ct):
        (y,), sin = residuals[0], residuals[1]["sin"]
        return ({"x": 3.0 * ct["product"] * y + ct["sum"], "y": [ct["product"] * sin]},)

    f.defvjp(fwd, bwd)
    return lambda x, y: sum(f({"x": x, "y": [y]}).values())


def of_itself():
    """The rule calls its own function, so that derivatives of any order use the rule."""

    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), 2.0 * tangents[0] * f(primals[0] + 1.0)

    @jax.custom_vjp
    def g(x):
        return jnp.cos(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (3.0 * ct * g(2.0 * x),))
    return lambda x, y: f(x) * g(y) + f(y) + g(x)


def with_fixed_arguments():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0, 2))
    def f(function, x, powers):
        return function(x) ** powers[0]

    f.defvjp(
        lambda function, x, powers: (f(function, x, powers), function(x)),
        lambda function, powers, value, ct: (5.0 * ct * value * powers[1],),
    )

    @functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
    def g(x, function):
        return function(x)

    g.defjvp(lambda function, primals, tangents: (g(*primals, function), 3.0 * tangents[0]))
    # Before 0.11 such an argument must be hashable.
    kind = tuple if jax_version() < (0, 11) else list
    return lambda x, y: f(jnp.sin, x, kind((2, 3))) * g(y, jnp.exp) + f(jnp.cos, y, kind((3, 1)))


def told_of_zeros():
    @jax.custom_vjp
    def f(x, y):
        return x * y, x + y

    def f_fwd(x, y):
        return f(x.value, y.value), (jnp.exp(x.value) if y.perturbed else 2.0, 2.0 * y.value)

    def f_bwd(residuals, ct):
        first = 0.0 if type(ct[0]) is SymbolicZero else ct[0]
        return first * residuals[1], first * residuals[0]

    f.defvjp(f_fwd, f_bwd, symbolic_zeros=True)

    @jax.custom_jvp
    def g(x, y):
        return x * y

    def g_jvp(primals, tangents):
        t = next((t for t in tangents if type(t) is not SymbolicZero), 0.0 * primals[0])
        alone = sum(type(t) is SymbolicZero for t in tangents)
        return g(*primals), (2.0 + alone) * t

    g.defjvp(g_jvp, symbolic_zeros=True)
    return lambda x, y: f(x, lax.stop_gradient(y))[0] + f(x, y)[0] + g(x, Y) * g(x, y)


def of_integers():
    @jax.custom_vjp
    def f(x, n):
        return x * n, n + 1

    f.defvjp(lambda x, n: (f(x, n), n), lambda n, ct: (7.0 * ct[0] * n, None))

    @jax.custom_jvp
    def g(x, n):
        return x**n

    g.defjvps(lambda t, _, x, n: t * n * 2.0, None)
    n = np.arange(3)
    return lambda x, y: f(x, n)[0] * y * g(x, 3) + f(y, f(y, n)[1])[0]


def over_values():
    """The rules, but not their function, close over a value of the program."""
    return lambda x, y: whose_rules_alone_do(x)(y)


def called_often():
    @jax.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (f(x, y), (x, 2.0)), lambda r, ct: (r[1] * ct * r[0], ct * r[1] ** 2))
    return lambda x, y: f(f(x, y), f(y, x)) + f(x, y)


def optimized_remat():
    """Two functions share a forward rule; if no residuals are needed, the functions run instead."""

    @jax.custom_vjp
    def f(x, y):
        return jnp.sin(x) * y

    @jax.custom_vjp
    def g(x, y):
        return y * jnp.sin(x)

    def fwd(x, y):
        return jnp.sin(x) * y, (jnp.cos(x), y)

    def bwd(residuals, ct):
        return 2.0 * ct * residuals[0] * residuals[1], ct * residuals[0]

    f.defvjp(fwd, bwd, optimize_remat=True)
    g.defvjp(fwd, bwd, optimize_remat=True)
    return lambda x, y: f(x, y) + g(x, y)


FUNCTIONS = [
    of_trees,
    of_itself,
    with_fixed_arguments,
    told_of_zeros,
    of_integers,
    over_values,
    called_often,
    optimized_remat,
]


def scanned(f, x, y):
    def step(carry, slice_):
        value = f(carry, slice_)
        return value, value * slice_

    return lax.scan(step, x, jnp.stack([y, 2.0 * y]))[1]


PLACES = {
    "straight": lambda f, x, y: f(x, y),
    "jit": lambda f, x, y: jax.jit(f)(jnp.sin(x), y) * x,
    "scan": scanned,
    "cond": lambda f, x, y: lax.cond(x[0] > 0, f, lambda x, y: f(y, x), x, y),
    "remat": lambda f, x, y: jnp.sin(jax.checkpoint(lambda z: f(jnp.cos(z), y))(x)),
}


def loss(make, place="straight"):
    return lambda x, y: jnp.sum(jnp.sin(PLACES[place](make(), x, y)))


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", FUNCTIONS)
def test_it_is_imported_as_the_program_that_it_is_without_the_flags(make, place):
    without = jaxmlir.trace(loss(make, place))(X, Y)
    with other_form():
        program = jaxmlir.trace(loss(make, place))(X, Y)
        assert "call_hi_primitive" not in program.as_text()
    # In the form without flags, newer ones leave dead ops out of a function that its rule calls.
    passes = "jaxpr-dce," if jax_version() >= (0, 12) else ""
    passes += "jaxpr-dedupe-functions"
    assert program.run_passes(passes).as_text() == without.run_passes(passes).as_text()


@pytest.mark.sampled
@pytest.mark.parametrize("make", FUNCTIONS)
def test_derivatives(make):
    want = loss(make)
    # A program has no derivative with respect to values that a rule closes over.
    argnums = (1,) if make is over_values else (0, 1)
    with other_form():
        program = jaxmlir.trace(loss(make))(X, Y)
        saved = through_artifact(program)
        optimized = reread(program.optimize(2).grad(argnums).optimize(2))
        back = jaxpr_as_fun(program.to_jaxpr())
    first = jax.value_and_grad(want, argnums)(X, Y)
    close((saved(X, Y), saved.grad(argnums)(X, Y)), first)
    close(optimized(X, Y), first[1])
    # JAX writes zero tangents for a rule, also for the values that it closes over.
    if make is not over_values:
        close(jax.grad(lambda x, y: back(x, y)[0], argnums)(X, Y), first[1])

    def second(f):
        return jax.grad(lambda x, y: jnp.sum(jax.grad(f, 1)(x, y) ** 2), argnums[0])

    # JAX has none of a forward rule that is optimised for remat.  In rules, calls whose rules are
    # told of zeros are not told in a file.
    if make is not optimized_remat:
        close(second(program if make is told_of_zeros else saved)(X, Y), second(want)(X, Y))


@budget
@given(steps=reverse_programs)
def test_gradients_of_random_programs(steps):
    def f(x, y):
        return jnp.sum(run(steps, x, y))

    with other_form():
        program = jaxmlir.trace(f)(X, Y)
        gradient = through_artifact(program).optimize(2).grad((0, 1)).optimize(1)
    close(gradient(X, Y), jax.jit(jax.grad(f, (0, 1)))(X, Y))


@pytest.mark.sampled
@pytest.mark.parametrize("make", [make for make in FUNCTIONS if make is not over_values])
def test_batches(make):
    xs, ys = jnp.stack([X, Y, 2 * X]), jnp.stack([Y, X, X])
    want = jax.vmap(jax.grad(loss(make)), (0, None))(xs, Y)
    with other_form():
        program = jaxmlir.trace(loss(make))(X, Y)
        batched = jaxmlir.trace(lambda x, y: jax.vmap(loss(make))(x, y))(xs, ys)
    close(program.grad().vmap((0, None), axis_size=3)(xs, Y), want)
    close(jax.vmap(jax.grad(program), (0, None))(xs, Y), want)
    want = jax.vmap(jax.grad(loss(make), (0, 1)))(xs, ys)
    close(jax.grad(lambda x, y: jnp.sum(through_artifact(batched)(x, y)), (0, 1))(xs, ys), want)


def test_a_function_may_close_over_a_value():
    """With the flags, JAX before 0.12 refuses this, at least in part."""

    def program():
        def f(x, y):
            @jax.custom_vjp
            def g(z):
                return z * jnp.exp(x)

            @jax.custom_jvp
            def h(z):
                return z * x

            g.defvjp(lambda z: (g(z), jnp.sin(x)), lambda r, ct: (3.0 * ct * r,))
            h.defjvp(lambda primals, tangents: (h(*primals), 2.0 * tangents[0] * x))
            return jnp.sum(h(g(y)))

        return f

    without = jaxmlir.trace(program())(X, Y)
    with other_form():
        try:
            found = jaxmlir.trace(program())(X, Y)
        except jax.errors.UnexpectedTracerError:
            assert jax_version() < (0, 12)
            return
    once = "jaxpr-dedupe-functions"
    close(through_artifact(found).grad(1)(X, Y), jax.grad(program(), 1)(X, Y))
    is_same = found.run_passes(once).as_text() == without.run_passes(once).as_text()
    if jax_version() >= (0, 12) and not is_same:
        pytest.xfail("the form that is not JAX's default has one residual less since rules wait")
    assert is_same


def test_the_derivative_of_a_call_is_a_custom_lin():
    function = called_often

    def tangent(make):
        return lambda x, y: jax.jvp(make(), (x, y), (jnp.ones(3), jnp.sin(y)))[1]

    without = jaxmlir.trace(tangent(function))(X, Y)
    with other_form():
        program = jaxmlir.trace(tangent(function))(X, Y)
    assert "call_hi_primitive" not in program.as_text()
    assert program.as_text().count("jaxpr.custom_lin") == 4
    with pytest.raises(LoweringError, match="forward-mode"):
        program(X, Y)
    close(
        through_artifact(program).run_passes("jaxpr-expand-custom-lin")(X, Y),
        without.run_passes("jaxpr-expand-custom-lin")(X, Y),
    )


@since_011
@pytest.mark.parametrize("make", [called_often, told_of_zeros])
def test_a_linear_function_can_be_saved_and_transposed(make):
    def tangent(t):
        return jax.linearize(lambda x: make()(x, Y), X)[1](t)

    want = jax.vjp(lambda x: make()(x, Y), X)[1](jnp.cos(X))
    with other_form():
        program = jaxmlir.trace(tangent)(X)
    linear = through_artifact(program)
    close(jax.linear_transpose(linear, X)(jnp.cos(X)), want)


def test_a_forward_rule_without_use_of_its_residuals_is_the_function():
    def value(x, y):
        return jax.jvp(optimized_remat(), (x, y), (x, y))[0]

    with other_form():
        program = jaxmlir.trace(value)(X, Y)
    assert "jaxpr.remat_opt" in program.as_text()
    close(through_artifact(program)(X, Y), 2.0 * np.sin(X) * Y)
    cleaned = program.optimize(1).as_text()
    assert "jaxpr.cos" not in cleaned and "jaxpr.sin" in cleaned


@pytest.mark.compat
@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint, jax.vmap])
def test_a_gradient_with_a_forward_rule_optimised_for_remat_is_differentiated(wrap):
    def loss(optimize_remat):
        @jax.custom_vjp
        def f(x):
            return jnp.sin(x)

        def bwd(x, ct):
            return (2.0 * ct * jnp.cos(x),)

        f.defvjp(lambda x: (jnp.sin(x), x), bwd, optimize_remat=optimize_remat)
        return lambda x: jnp.sum(wrap(f)(x) ** 3)

    gradient = jaxmlir.trace(loss(True))(X).grad()
    assert "jaxpr.remat_opt" in gradient.as_text()
    want = jax.hessian(loss(False))(X)
    close(through_artifact(gradient).jacrev()(X), want)
    close(gradient.optimize(2).jacrev().optimize(2)(X), want)
    close(jax.jacfwd(gradient)(X), want)


@since_012
def test_an_option_that_no_op_has_stays_with_the_process():
    def value(x):
        return jnp.sin(x)

    generic = jax.custom_vjp(value)
    generic.defvjp(
        lambda x: (value(x), x), lambda x, ct: (2.0 * ct * jnp.cos(x),), generic_batching=True
    )
    rules = jax.custom_vjp(value)
    rules.defremat(
        lambda x: (value(x), None), lambda _, x: (value(x), x), lambda x, ct: (3.0 * ct * x,)
    )
    for function, option in ((generic, "generic_batching"), (rules, "remat_rules")):
        with other_form():
            program = jaxmlir.trace(lambda x, f=function: jnp.sum(f(x)))(X)
            want = jax.grad(lambda x, f=function: jnp.sum(f(x)))(X)
        close(program.grad()(X), want)
        with pytest.raises(ArtifactError, match=f"with the option '{option}'"):
            through_artifact(program)


@since_012
def test_residuals_of_a_batch_whose_pytree_holds_a_jaxpr():
    @functools.partial(jax.custom_gradient, remat=True)
    def f(x):
        y = jnp.exp(x)
        return y, lambda x: (y, lambda ct: (3.0 * ct * x * y,))

    def loss(xs):
        return jnp.sum(jax.vmap(f)(xs) * xs)

    xs = np.stack([X, Y])
    with other_form():
        program = jaxmlir.trace(loss)(xs)
        want = jax.grad(loss)(xs)
    close(program.grad()(xs), want)
    close(jax.grad(program)(xs), want)


@since_012
def test_what_a_backward_rule_takes_beside_cotangents_does_not_matter():
    def value(x):
        return jnp.sin(x)

    def bwd(x, ct, total):
        total.accum(2.0 * ct * jnp.cos(x))

    summing = jax.custom_vjp(value)
    summing.defvjp_with_accums(lambda x: (value(x), x), bwd)
    logging = jax.custom_vjp(value)
    logging.defvjp_with_logs(lambda x: (value(x), x), lambda x, ct: ((ct * x,), {"x": x}))
    for function in (summing, logging):
        want = jax.grad(lambda x, f=function: jnp.sum(f(x)))(X)
        with other_form():
            program = jaxmlir.trace(lambda x, f=function: jnp.sum(f(x)))(X)
        close(through_artifact(program).grad()(X), want)


def test_a_rule_writes_to_a_reference():
    seen = jax.new_ref(jnp.float32(0.0))
    with other_form():

        @jax.custom_vjp
        def stash(ref, x):
            return x

        def bwd(ref, ct):
            ref[...] = ct
            return None, ct

        stash.defvjp(lambda ref, x: (x, ref), bwd)
        program = jaxmlir.trace(lambda x: jnp.sin(stash(seen, x)))(jnp.float32(0.5))
    close((jax.grad(program)(jnp.float32(0.5)), seen[...]), (np.cos(0.5), np.cos(0.5)))


def test_effects_of_the_function_and_of_its_rules(capsys):
    def make():
        @jax.custom_vjp
        def f(x):
            jax.debug.print("value {}", x)
            return jnp.sin(x)

        def fwd(x):
            jax.debug.print("forward {}", x)
            return jnp.sin(x), x

        def bwd(x, ct):
            jax.debug.print("backward {}", x)
            return (2.0 * ct * x,)

        f.defvjp(fwd, bwd)
        return lambda x: lax.fori_loop(0, 2, lambda i, c: f(c) + i, x)

    def printed(g):
        value = g(0.5)
        jax.effects_barrier()
        return value, sorted(capsys.readouterr().out.splitlines())

    with other_form():
        program = jaxmlir.trace(make())(0.5)
    # Before 0.11 JAX hides the effects of such a call from the enclosing function.
    assert ("call_hi_primitive" in program.as_text()) == (jax_version() < (0, 11))
    assert printed(jax.jit(program)) == printed(jax.jit(make()))
    assert printed(jax.jit(jax.grad(program))) == printed(jax.jit(jax.grad(make())))


@pytest.mark.skipif(jax_version() < (0, 12), reason="its high-level types have other methods")
@pytest.mark.parametrize("optimize", [None, 2])
def test_values_of_high_level_types(optimize):
    class Quantized:
        def __init__(self, integers, scale):
            self.integers, self.scale = integers, scale

    @dataclasses.dataclass(frozen=True)
    class Type(hijax.HiType):
        size: int

        def lo_ty(self):
            return [jax.core.ShapedArray((self.size,), jnp.dtype("int8")), jax.typeof(1.0)]

        def lower_val(self, value):
            return [value.integers, value.scale]

        def raise_val(self, integers, scale):
            return Quantized(integers, scale)

        def to_tangent_aval(self):
            return jax.core.ShapedArray((self.size,), jnp.dtype("float32"))

        to_ct_aval = to_tangent_aval

    hijax.register_hitype(Quantized, lambda value: Type(value.integers.size))

    class Quantize(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), Type(aval.size), {}
            super().__init__()

        def expand(self, x):
            scale = jnp.max(jnp.abs(x)) / 127
            return Quantized(jnp.round(x / scale).astype(jnp.int8), scale)

        def vjp_fwd(self, nonzero, x):
            return self(x), ()

        def vjp_bwd_retval(self, residuals, ct):
            return (3 * ct,)

    class Dequantize(hijax.HiPrim):
        def __init__(self, kind):
            aval = jax.core.ShapedArray((kind.size,), jnp.dtype("float32"))
            self.in_avals, self.out_aval, self.params = (kind,), aval, {}
            super().__init__()

        def expand(self, value):
            return value.integers.astype(jnp.float32) * value.scale

        def vjp_fwd(self, nonzero, value):
            return self(value), ()

        def vjp_bwd_retval(self, residuals, ct):
            return (5 * ct,)

    def inside(x):
        return jnp.sum(Dequantize(Type(x.size))(Quantize(jax.typeof(x))(x)) ** 2)

    def argument(value):
        return jnp.sin(Dequantize(Type(3))(value))

    def check(f, x):
        want = jax.jit(f)(x)
        program = jaxmlir.trace(f)(x)
        program = program if optimize is None else program.optimize(optimize)
        same(program(x), want)
        same(jax.jit(lambda x: program(x))(x), want)
        same(program.lower().compile()(x), want)
        same(jaxmlir.jit(f, optimize=optimize or 1)(x), want)
        return program

    x = jnp.array([1.0, -2.0, 3.0])
    check(argument, Quantized(jnp.array([1, 2, 3], jnp.int8), jnp.float32(0.5)))
    gradient = check(inside, x).grad()
    same(gradient(x), jax.jit(jax.grad(inside))(x))
