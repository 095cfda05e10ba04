"""Custom derivative rules through import, transformations and lowering, against JAX."""

from __future__ import annotations

import functools
import re

import jax
import jax.experimental.ode
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread, same
from jax import lax
from jax.experimental import hijax
from round_trip import through_artifact

import jaxmlir
from jaxmlir import backend
from jaxmlir._compat import jax_version
from jaxmlir.bridge.custom_rules import pending
from jaxmlir.errors import ForwardModeError, JaxmlirError, LoweringError, TransformError

compat = pytest.mark.compat


@jax.custom_jvp
def sin(x):
    return jnp.sin(x)


@jax.custom_jvp
def cos(x):
    return jnp.cos(x)


sin.defjvps(lambda t, y, x: cos(x) * t)
cos.defjvps(lambda t, y, x: -sin(x) * t)


@compat
def test_rules_that_call_each_other_have_all_derivatives():
    """Each rule is one function of the module, although each calls the other's."""
    program = reread(jaxmlir.trace(lambda x: sin(x))(1.0))
    assert str(program).count("custom_jvp_call_jaxpr") < 8
    ours, jaxs = program, sin
    for order, expected in enumerate(
        [jnp.sin, jnp.cos, lambda x: -jnp.sin(x), lambda x: -jnp.cos(x)]
    ):
        np.testing.assert_allclose(ours(0.4), expected(0.4), rtol=1e-6)
        assert ours(0.4) == jaxs(0.4), f"derivative {order}"
        ours, jaxs = jax.grad(ours), jax.grad(jaxs)
    assert ours(0.4) == jaxs(0.4)


@jax.custom_vjp
def double(x):
    """Twice x, with a rule for thrice x, so that numbers show whether the rule was used."""
    return 2 * x


double.defvjp(lambda x: (2 * x, None), lambda _, g: (3 * g,))


@compat
def test_vmap_keeps_the_rule():
    f = reread(jaxmlir.trace(double)(1.0))
    mapped = reread(jaxmlir.trace(jax.vmap(double))(jnp.ones(4)))
    threes = np.full(4, 3.0)
    assert jax.grad(f)(1.0) == 3.0
    assert (jax.vmap(jax.grad(f))(jnp.ones(4)) == threes).all()
    assert (jax.grad(lambda x: jax.vmap(f)(x).sum())(jnp.ones(4)) == threes).all()
    assert (jax.grad(lambda x: mapped(x).sum())(jnp.ones(4)) == threes).all()


@compat
@pytest.mark.parametrize(
    "stage",
    [
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, length=1)[0],
        lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
        lambda f: lambda x: lax.fori_loop(0, 1, lambda _, c: f(c), x),
        lambda f: (
            lambda x: lax.scan(lambda c, _: (jax.jit(jax.checkpoint(f))(c), None), x, length=1)[0]
        ),
    ],
    ids=["jit", "remat", "scan", "cond", "fori", "nested"],
)
def test_staging_keeps_the_rule(stage):
    program = reread(jaxmlir.trace(stage(double))(1.0))
    assert program(1.0) == 2.0
    assert jax.grad(program)(1.0) == 3.0


@compat
def test_a_rule_inside_a_while_loop_is_kept_in_forward_mode():
    def f(x):
        return lax.while_loop(lambda c: c < 10.0, lambda c: marked(c) + 1.0, x)

    @jax.custom_jvp
    def marked(x):
        return 2 * x

    marked.defjvps(lambda t, y, x: 5 * t)
    program = reread(jaxmlir.trace(f)(1.0))
    same(jax.jvp(program, (1.0,), (1.0,)), jax.jvp(f, (1.0,), (1.0,)))


@compat
def test_a_rule_of_which_jax_has_dropped_a_result_is_traced():
    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x), x + jnp.cos(y)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), (2.0 * jnp.cos(x) * dx, 1.5 * dx - dy)

    gradient = jax.grad(jax.checkpoint(lambda x, y: f(x, y)[0]))
    program = reread(jaxmlir.trace(gradient)(0.5, 2.0))
    args = (0.5, 2.0), (1.0, 1.0)
    np.testing.assert_allclose(jax.jvp(program, *args), jax.jvp(gradient, *args), rtol=1e-6)


@compat
def test_lowering_drops_the_rule_and_nothing_before_does():
    program = jaxmlir.trace(double)(1.0)
    assert "custom_vjp_call_jaxpr" in str(program.run_passes("jaxpr-verify, cse"))
    stablehlo = program.lower().as_text()
    assert "custom" not in stablehlo and "3.0" not in stablehlo


@compat
def test_forward_mode_over_a_custom_vjp_is_an_error_as_in_jax():
    program = reread(jaxmlir.trace(double)(1.0))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(double, (1.0,), (1.0,))
    with pytest.raises(LoweringError, match="forward-mode"):
        jax.jvp(program, (1.0,), (1.0,))


@compat
def test_a_rule_may_belong_to_a_high_level_primitive():
    class Double(hijax.HiPrim if hasattr(hijax, "HiPrim") else hijax.VJPHiPrimitive):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return 2 * x

        def vjp_fwd(self, nonzero, x):
            return self(x), jnp.sin(x)

        def vjp_bwd_retval(self, residual, ct):
            return (3 * residual * ct,)

        def batch(self, axis, args, dims):
            return double(*args), dims[0]

    def double(x):
        return Double(jax.typeof(x))(x)

    def f(x):
        return jnp.cos(double(x))

    xs = jnp.arange(3.0)
    p = jaxmlir.trace(f)(1.0)
    for transform in (
        lambda g: jax.vmap(jax.grad(g)),
        lambda g: jax.grad(lambda xs: jax.vmap(g)(xs).sum()),
    ):
        same(transform(p)(xs), transform(f)(xs))
    same(p.grad().grad()(1.0), jax.grad(jax.grad(p))(1.0))
    with pytest.raises(TransformError, match="for jvp support"):
        jax.jvp(p, (1.0,), (1.0,))


@compat
def test_a_rule_that_closes_over_a_transformed_value_is_an_error():
    def f(y):
        g = jax.custom_vjp(jnp.sin)
        g.defvjp(lambda x: (g(x), ()), lambda _, ct: (ct * y,))
        return jax.grad(jaxmlir.trace(g)(1.0))(1.0)

    with pytest.raises(TransformError, match="closes over a value of an enclosing"):
        jax.vmap(f)(jnp.arange(3.0))


@compat
@pytest.mark.skipif(jax_version() < (0, 12), reason="residuals have no structure there")
def test_residuals_of_a_high_level_primitive_may_have_a_structure():
    from jax.experimental.hijax import HiPrim

    class Product(HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval, aval), aval, {}
            super().__init__()

        def expand(self, x, y):
            return x * y

        def vjp_fwd(self, nonzero, x, y):
            return x * y, (), True, {"x": x, "y": y}

        def vjp_bwd(self, residuals, kept, ct, *sums):
            sums[0].accum(3 * ct * kept["y"])
            sums[1].accum(5 * ct * kept["x"])

    program = jaxmlir.trace(lambda x, y: jnp.sin(Product(jax.typeof(x))(x, y)))(2.0, 0.5)
    slope = jnp.cos(jnp.float32(1.0))
    same(program.grad((0, 1))(2.0, 0.5), (3 * slope * 0.5, 5 * slope * 2.0))


@compat
@pytest.mark.skipif(jax_version() == (0, 11, 2), reason="its functions close over what was traced")
def test_an_implicit_function_is_data(tmp_path):
    """Since JAX 0.11.2, the solvers for a root and its tangent are parameters of a primitive."""

    def root(a, b):
        def f(x):
            return {"x": x["x"] ** 3 + b * x["x"] - a}

        def newton(f, x):
            def step(_, x):
                return {"x": x["x"] - f(x)["x"] / (3 * x["x"] ** 2 + 1)}

            return lax.fori_loop(0, 40, step, x)

        def solve(g, y):
            return {"x": y["x"] / g({"x": jnp.ones_like(y["x"])})["x"]}

        return lax.custom_root(f, {"x": a}, newton, solve)["x"]

    def saved(program):
        program.save(tmp_path / "root.jaxmlir")
        return reread(jaxmlir.load(tmp_path / "root.jaxmlir"))

    def close(ours, jaxs):
        np.testing.assert_allclose(ours, jaxs, rtol=1e-5)

    a, b = jnp.array([1.0, 2.0, 5.0]), jnp.array([1.0, 0.5, 2.0])
    slope = jax.grad(root, 1)
    program = saved(jaxmlir.trace(root)(a[0], b[0]))
    close(saved(program.grad(1))(a[1], b[1]), slope(a[1], b[1]))
    close(saved(program.vmap(axis_size=3))(a, b), jax.vmap(root)(a, b))
    close(saved(program.grad(1).vmap(axis_size=3))(a, b), jax.vmap(slope)(a, b))
    batched = saved(program.vmap((0, None), axis_size=3, axis_name="i"))
    wanted = jax.vmap(slope, (0, None))(a, b[2]).sum()
    close(jax.grad(lambda b: batched(a, b).sum())(b[2]), wanted)

    size = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "float32")
    symbolic = saved(jaxmlir.trace(lambda a, b: jax.vmap(root)(a, b).sum())(size, size))
    close(symbolic(a, b), jax.vmap(root)(a, b).sum())
    close(symbolic.grad(1)(a[1:], b[1:]), jax.vmap(slope)(a[1:], b[1:]))


@compat
def test_a_high_level_primitive_may_ask_which_tangents_are_zero():
    """Since JAX 0.12 these two are high-level primitives, and ask when they are transposed."""

    def f(x, n):
        return jnp.sum(jnp.sin(jnp.ldexp(x, n))) + jnp.sum(jnp.frexp(3 * x)[0] ** 2)

    args = jnp.array([0.1, 0.7, 1.5]), jnp.array([-1, 0, 2])
    program = jaxmlir.trace(f)(*args)
    wanted = jax.grad(f)(*args)
    for gradient in (program.grad(), reread(program.optimize(2).grad().optimize(2))):
        same(gradient(*args), wanted)
    forward, linear = program.linearize()
    result, residuals = forward(*args)
    zero = np.zeros(3, jax.dtypes.float0)
    tangent = reread(linear)(residuals, args[0], zero)
    same((result, tangent), jax.jvp(f, args, (args[0], zero)))
    same(program.hessian()(*args), jax.hessian(f)(*args))
    batch = jnp.stack([args[0], args[0] + 1]), args[1]
    mapped = (jax.vmap(jax.grad(g), (0, None)) for g in (program, f))
    same(*(g(*batch) for g in mapped))


@compat
def test_integers_of_a_high_level_primitive_have_no_tangents():
    """Since JAX 0.12 searchsorted is a high-level primitive."""

    def f(x):
        return x * (3 - jnp.searchsorted(jnp.array([0.1, 0.5, 1.0]), x))

    program = jaxmlir.trace(f)(0.3)
    same(program.grad()(0.3), jax.grad(f)(0.3))
    same(jax.vmap(jax.grad(program))(jnp.array([0.3, 0.6])), jnp.array([2.0, 1.0]))


@compat
def test_a_forward_rule_is_run_only_for_its_residuals():
    """With optimize_remat, as in JAX: the values show whether the rule or the function ran."""
    f = jax.custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (3 * x, jnp.sin(x)), lambda res, ct: (res * ct,), optimize_remat=True)
    program = reread(jaxmlir.trace(lambda x: f(x))(0.7))
    mapped = reread(program.vmap(axis_size=2))
    xs = np.array([0.7, 0.2], np.float32)
    for of in (lambda f, x: jax.vjp(f, x)[0], lambda f, x: jax.vjp(f, x)[1](f(x))):
        same(*(jax.jit(functools.partial(of, g))(0.7) for g in (program, f)))
        same(*(jax.jit(functools.partial(of, g))(xs) for g in (mapped, jax.vmap(f))))
    forward, _ = program.vjp()
    assert jax.jit(lambda x: forward(x)[0])(1.0) == 2.0
    assert jax.jit(forward)(1.0)[0] == 3.0


@compat
def test_a_forward_rule_of_which_only_residuals_are_left():
    """JAX compiles the rule without its unused result, and keeps the function that computes it."""
    f = jax.custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (3 * x, jnp.sin(x)), lambda res, ct: (res * ct,), optimize_remat=True)
    want = jax.grad(f)(0.7)
    with backend.enabled(pipeline="jaxpr-dce"):
        same(jax.jit(jax.grad(f))(0.7), want)


@compat
def test_nondiff_arguments_and_pytrees_in_rules():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def apply(f, tree):
        return f(tree["x"]) * tree["y"]

    def fwd(f, tree):
        return apply(f, tree), tree

    def bwd(f, tree, g):
        return ({"x": 7 * g * tree["y"], "y": f(tree["x"]) * g},)

    apply.defvjp(fwd, bwd)

    def loss(tree):
        return apply(jnp.tanh, tree)

    tree = {"x": jnp.float32(0.3), "y": jnp.float32(2.0)}
    program = reread(jaxmlir.trace(loss)(tree))
    same(jax.grad(program)(tree), jax.grad(loss)(tree))


@compat
def test_a_rule_in_a_loop_is_kept_for_the_second_derivative():
    """Older versions of JAX lose the rule in a loop, so the loop is unrolled for them."""

    @jax.custom_jvp
    def f(x):
        return x**3

    f.defjvp(lambda primals, tangents: (f(*primals), (1 + f(*primals)) * tangents[0] / 2))

    def loop(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    program = reread(jaxmlir.trace(loop)(0.5)).grad().grad()
    # With a power of two, nothing is rounded.
    same(program(0.5), jax.grad(jax.grad(lambda x: f(f(x))))(0.5))


def told_of_zeros(count):
    """A function of ``count`` arguments and an integer, whose rule branches on which tangents are
    zero, so that the numbers show the branch."""

    @jax.custom_jvp
    def f(n, *xs):
        return n * sum(xs), xs[0]

    def f_jvp(primals, tangents):
        n, *xs = primals
        out, first = f(*primals)
        zero = [isinstance(t, jax.custom_derivatives.SymbolicZero) for t in tangents]
        assert zero[0]
        code = sum(2.0**i for i, z in enumerate(zero) if not z)
        slope = sum(
            code * x * t for x, t, z in zip(xs, tangents[1:], zero[1:], strict=True) if not z
        )
        return (out, first), (slope, tangents[1])

    f.defjvp(f_jvp, symbolic_zeros=True)
    return f


@compat
@pytest.mark.parametrize("count", [3, 6])
def test_a_rule_is_told_which_tangents_are_zero(count):
    """With many arguments, a rule is only told that a single tangent, or that all are nonzero."""
    f = told_of_zeros(count)
    args = (3, *(0.3 * i - 1.0 for i in range(count)))
    program = reread(jaxmlir.trace(lambda *args: f(*args))(*args))
    program.verify()
    chosen = [(1,), (count,), tuple(range(1, count + 1)), *([(1, 3), (2, 3)] if count == 3 else [])]

    def derivatives(g):
        def of(argnums):
            def total(*args):
                a, b = g(*args)
                return a * b

            return jax.grad(total, argnums)(*args)

        return [of(argnums) for argnums in chosen]

    same(derivatives(program), derivatives(f))


@compat
def test_batched_rules_are_told_which_tangents_are_zero():
    f = told_of_zeros(2)
    xs = np.array([0.3, 0.5, -0.7], np.float32)
    batched = reread(jaxmlir.trace(lambda x, y: f(3, x, y))(1.0, 1.0).vmap((0, None), axis_size=3))
    batched.verify()
    expected = jax.vmap(lambda x, y: f(3, x, y), (0, None))
    for argnums in (0, 1, (0, 1)):
        ours, theirs = (
            jax.grad(lambda *args, g=g: jnp.sum(g(*args)[0]), argnums)(xs, 2.0)
            for g in (batched, expected)
        )
        same(ours, theirs)


def vjp_told_of_zeros():
    """A function of an integer and two arguments, whose rule's numbers show which tangents and
    cotangents it was told to be zero."""

    @jax.custom_vjp
    def f(n, x, y):
        return n * x * y, x + n

    def f_fwd(n, x, y):
        assert not n.perturbed
        kept = y.value if x.perturbed else None, x.value if y.perturbed else None
        return f(n.value, x.value, y.value), kept

    def f_bwd(kept, cts):
        is_zero = [isinstance(ct, jax.custom_derivatives.SymbolicZero) for ct in cts]
        first = 0.0 if is_zero[0] else cts[0]
        code = sum(10.0**i for i, zero in enumerate((*is_zero, kept[0] is None)) if not zero)
        return None, *(None if value is None else code + value * first for value in kept)

    f.defvjp(f_fwd, f_bwd, symbolic_zeros=True)
    return f


@compat
def test_a_vjp_rule_is_told_which_tangents_and_cotangents_are_zero():
    args, xs = (3, 0.7, -1.3), np.array([0.7, 0.2], np.float32)
    program = reread(jaxmlir.trace(lambda *args: vjp_told_of_zeros()(*args))(*args))
    program.verify()
    mapped = reread(program.vmap((None, 0, None), axis_size=2))
    exported = jax.extend.core.jaxpr_as_fun(program.to_jaxpr())
    for argnums, chosen in [(1, [0]), (2, [1]), ((1, 2), [1]), ((1, 2), [0, 1])]:

        def slope(f, *args, argnums=argnums, chosen=chosen):
            def total(*args):
                outs = f(*args)
                return sum(outs[i].sum() for i in chosen)

            return jax.jit(jax.grad(total, argnums))(*args)

        for f in (program, exported):
            same(slope(f, *args), slope(vjp_told_of_zeros(), *args))
        expected = slope(jax.vmap(vjp_told_of_zeros(), (None, 0, None)), 3, xs, -1.3)
        same(slope(mapped, 3, xs, -1.3), expected)


@jax.custom_vjp
def weighted(w, x, fixed, y, also_fixed, n):
    return w * x * fixed + jnp.sin(y) * also_fixed * n


def weighted_fwd(*args):
    """Checks that two arguments have no tangent; saves the residuals of the others."""
    assert not args[2].perturbed and not args[4].perturbed, "two arguments are fixed"
    w, x, fixed, y, also_fixed, n = values = [arg.value for arg in args]
    kept = {0: x * fixed, 1: w * fixed, 3: jnp.cos(y) * also_fixed * n}
    return weighted(*values), {i: v for i, v in kept.items() if args[i].perturbed}


def weighted_bwd(kept, ct):
    return tuple(kept[i] * ct if i in kept else None for i in range(6))


weighted.defvjp(weighted_fwd, weighted_bwd, symbolic_zeros=True)


@compat
def test_a_rule_may_insist_that_some_arguments_have_no_tangent():
    args = (2.0, 0.3, 1.5, 0.4, 3.0, 2)

    def f(*args):
        return weighted(*args) ** 2

    program = reread(jaxmlir.trace(f)(*args))
    program.verify()
    for argnums in (0, 1, 3, (0, 1), (1, 3), (0, 1, 3)):
        expected = jax.jit(jax.grad(f, argnums))(*args)
        same(program.grad(argnums)(*args), expected)
        same(jax.jit(jax.grad(program, argnums))(*args), expected)
    exported = jax.extend.core.jaxpr_as_fun(program.to_jaxpr())
    for argnums, refused in ((2, 2), ((0, 4), 4)):
        for differentiate in (
            program.grad,
            lambda argnums: jax.grad(lambda *args: exported(*args)[0], argnums)(*args),
        ):
            with pytest.raises(
                JaxmlirError, match=f"a tangent of argument {refused} of the function"
            ):
                differentiate(argnums)


@pytest.mark.sampled
@compat
@pytest.mark.parametrize(
    "f",
    [
        jax.nn.relu,
        jax.nn.gelu,
        jax.nn.silu,
        jax.scipy.special.logit,
        jax.scipy.special.expit,
        lambda x: jax.nn.logsumexp(jnp.stack([x, 2 * x])),
        lambda x: jax.nn.softmax(jnp.stack([x, 2 * x]))[0],
        lambda x: lax.custom_root(
            lambda y: y**3 - x,
            1.0,
            lambda g, y: lax.fori_loop(0, 20, lambda _, y: y - g(y) / (3 * y**2), y),
            lambda g, y: y / g(1.0),
        ),
        lambda x: lax.custom_linear_solve(
            lambda y: x * y, 1.0, lambda f, b: b / f(1.0), symmetric=True
        ),
    ],
    ids="relu gelu silu logit expit logsumexp softmax custom_root custom_linear_solve".split(),
)
def test_functions_with_rules_of_jax(f):
    program = reread(jaxmlir.trace(f)(0.7))
    for ours, jaxs in [(program, f), (jax.grad(program), jax.grad(f))]:
        same(jax.jit(ours)(0.7), jax.jit(jaxs)(0.7))
    second = jax.grad(jax.grad(program))(0.7), jax.grad(jax.grad(f))(0.7)
    np.testing.assert_allclose(*second, rtol=1e-5)


@jax.tree_util.register_pytree_node_class
class Wave:
    """A pytree node that compares by identity, as layers and solvers of libraries do."""

    def __init__(self, frequency):
        self.frequency = frequency

    def tree_flatten(self):
        return (), self.frequency

    @classmethod
    def tree_unflatten(cls, frequency, _):
        return cls(frequency)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def rise(wave, x):
    return jnp.sin(wave.frequency * x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def fall(wave, x):
    return jnp.cos(wave.frequency * x)


@rise.defjvp
def _rise_jvp(wave, primals, tangents):
    anew = Wave(wave.frequency)
    return rise(anew, *primals), wave.frequency * fall(anew, *primals) * tangents[0]


@fall.defjvp
def _fall_jvp(wave, primals, tangents):
    anew = Wave(wave.frequency)
    return fall(anew, *primals), -wave.frequency * rise(anew, *primals) * tangents[0]


@compat
def test_rules_that_make_nodes_anew_are_one_for_equal_nodes(monkeypatch):
    monkeypatch.setattr(pending, "MAX_ORDER_OF_SHORT", 2)  # the numbers of others would multiply
    program = reread(jaxmlir.trace(lambda x: rise(Wave(2.0), x) + rise(Wave(3.0), x))(1.0))
    assert str(program).count("custom_jvp_call_jaxpr") == 2 + 4 * 2
    ours, jaxs = program, lambda x: jnp.sin(2.0 * x) + jnp.sin(3.0 * x)
    for _ in range(4):
        np.testing.assert_allclose(ours(0.4), jaxs(0.4), rtol=1e-5)
        ours, jaxs = jax.grad(ours), jax.grad(jaxs)


@jax.custom_vjp
def growing(x):
    return x.sum()


def _growing_bwd(x, g):
    # Calls the function again on a longer vector, so that no two traces of this rule are alike.
    return (g * jnp.cos(x) * growing(jnp.concatenate([x, x[:1]])),)


growing.defvjp(lambda x: (x.sum(), x), _growing_bwd)


@compat
def test_a_rule_with_ever_new_arguments_is_traced_for_some_derivatives(monkeypatch):
    monkeypatch.setattr(pending, "MAX_ORDER_OF_SHORT", 2)
    program = reread(jaxmlir.trace(growing)(jnp.ones(2)))
    same(jax.grad(program)(jnp.ones(2)), jax.grad(growing)(jnp.ones(2)))

    def third(f):
        for _ in range(3):
            f = jax.grad(lambda x, f=f: f(x).sum())
        return f

    third(growing)(jnp.ones(2))
    with pytest.raises(TransformError, match="_growing_bwd.*each time.*2 derivatives"):
        third(program)(jnp.ones(2))


@compat
def test_a_rule_that_cannot_be_traced_fails_when_it_is_used():
    @jax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def rule(primals, tangents):
        raise ValueError("no derivative today")

    program = reread(jaxmlir.trace(lambda x: f(x))(1.0))
    assert program(1.0) == 2.0
    with pytest.raises(TransformError, match="no derivative today"):
        jax.grad(program)(1.0)


def _lifted(x):
    return jnp.zeros((1, *x.shape)).at[0].set(x)


def _constant(x):
    return jnp.zeros(2)


@compat
@pytest.mark.parametrize(
    ("fun", "rule", "shape"),
    [
        # JAX omits this parameter if it is empty.
        (_lifted, lambda p, t: (p[0][None], t[0][None]), (1, 0)),
        (_lifted, lambda p, t: (p[0][None], t[0][None]), (2, 0)),
        (_constant, lambda p, t: (0 * p[0], t[0]), (3, 2)),
        (_constant, lambda p, t: (jnp.zeros(2), t[0]), (3, 2)),
    ],
)
def test_a_jvp_rule_that_is_batched_alone(fun, rule, shape):
    """``jax.vmap`` batches the rule's results, but not the function's results, which depend on
    nothing batched; JAX cannot differentiate the staged-out function."""
    with_rule = jax.custom_jvp(fun)
    with_rule.defjvp(rule)
    x = jnp.ones(shape)
    batched = jax.vmap(with_rule)
    with pytest.raises(TypeError, match="broadcast_dimensions"):
        jax.jvp(jax.jit(batched), (x,), (x,))
    program = jaxmlir.trace(batched)(x)
    program.verify()
    for p in (program, program.optimize(2), through_artifact(program)):
        np.testing.assert_array_equal(p(x), batched(x))
        with pytest.raises(TransformError, match=r"(?s)test_custom_rules.py:\d+.*jax.vmap makes"):
            p.jvp()
    wanted = jax.jvp(batched, (x,), (x,))
    same(jaxmlir.trace(with_rule)(x[0]).vmap(axis_size=len(x)).jvp()((x,), (x,)), wanted)


@compat
def test_a_forward_rule_that_is_batched_alone():
    with_rule = jax.custom_vjp(_constant)
    with_rule.defvjp(lambda x: (0 * x, x), lambda x, ct: (ct * x,))
    x = jnp.ones((3, 2))
    batched = jax.vmap(with_rule)
    with pytest.raises(TypeError, match="broadcast_dimensions"):
        jax.vjp(jax.jit(batched), x)
    program = jaxmlir.trace(batched)(x)
    program.verify()
    for p in (program, program.optimize(2), through_artifact(program)):
        np.testing.assert_array_equal(p(x), batched(x))
        with pytest.raises(TransformError, match=r"(?s)test_custom_rules.py:\d+.*jax.vmap makes"):
            p.vjp()
    wanted = jax.vjp(batched, x)[1](2 * x)
    for read in (False, True):
        program = jaxmlir.trace(with_rule)(x[0])
        if read:
            program.trace_rules()
        ours = program.vmap(axis_size=len(x))
        same(jax.vjp(ours, x)[1](2 * x), wanted)
        fwd, bwd = ours.vjp()
        same(bwd(fwd(x)[1], 2 * x), wanted)


def _of_ode(y0):
    def right_side(y, t):
        return -jnp.sin(y)

    return jnp.sum(jax.experimental.ode.odeint(right_side, y0, jnp.linspace(0.0, 1.0, 4)) ** 2)


def _of_doubles(x):
    return jnp.sum(double(x) ** 2)


@compat
def test_the_hessian_of_a_function_whose_vjp_rule_calls_it_is_in_reverse_mode():
    x = jnp.array([0.3, 0.8])
    wanted = jax.jacrev(jax.jacrev(_of_ode))(x)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.hessian(_of_ode)(x)
    program = jaxmlir.trace(_of_ode)(x)
    for p in (program, reread(program)):
        np.testing.assert_allclose(p.hessian()(x), wanted, rtol=1e-5)
    same(jaxmlir.trace(_of_doubles)(x).hessian()(x), jax.hessian(_of_doubles)(x))


@compat
@pytest.mark.parametrize("fun", [_of_ode, _of_doubles])
def test_forward_mode_over_a_vjp_rule_says_what_jax_says_and_where(fun):
    x = jnp.array([0.3, 0.8])
    with pytest.raises(TypeError) as caught:
        jax.jvp(fun, (x,), (x,))
    said = re.escape(str(caught.value).removesuffix("."))
    line = fun.__code__.co_firstlineno
    program = jaxmlir.trace(fun)(x)
    ways = (
        lambda: program.jacfwd(),
        lambda: program.jvp()((x,), (x,)),
        lambda: jax.jvp(program, (x,), (x,)),
    )
    for way in ways:
        with pytest.raises(ForwardModeError, match=rf"transpose is known \(.*\): {said}") as caught:
            way()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, LoweringError)
        first = caught.value.diagnostics[0]
        assert first.file == __file__
        assert line < first.line <= line + 4
    with pytest.raises(ForwardModeError, match=said):
        program.jvp().eval((x,), (x,))


def test_a_backward_rule_that_failed_is_not_replaced_by_that_of_another_forward_rule():
    """The forward rule gives other residuals if ``y`` has no tangent; the backward rule for these
    takes one cotangent only."""

    @jax.custom_vjp
    def products(x, y):
        return x * y, x - y

    def fwd(x, y):
        residuals = (x.value, y.value) if y.perturbed else (y.value,)
        return (x.value * y.value, x.value - y.value), residuals

    def bwd(residuals, cts):
        ct, other = (0 * residuals[-1] if is_zero(c) else c for c in cts)
        if len(residuals) == 1 and not any(map(is_zero, cts)):
            raise ValueError("both results have cotangents")
        *x, y = residuals
        return ct * y + other, ct * x[0] - other if x else ct

    def is_zero(ct):
        return isinstance(ct, jax.custom_derivatives.SymbolicZero)

    products.defvjp(fwd, bwd, symbolic_zeros=True)
    program = jaxmlir.trace(products)(3.0, 5.0)
    program.as_text()
    exported = jax.extend.core.jaxpr_as_fun(program.to_jaxpr())
    with pytest.raises(JaxmlirError, match="the custom derivative rule 'bwd_jaxpr' is absent"):
        jax.grad(lambda x: sum(exported(x, 5.0)))(3.0)
    assert jax.grad(lambda x: exported(x, 5.0)[0])(3.0) == 5.0
    assert jax.grad(lambda x, y: sum(exported(x, y)), (0, 1))(3.0, 5.0) == (6.0, 2.0)
