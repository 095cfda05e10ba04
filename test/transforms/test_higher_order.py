"""Branches, recomputation, custom rules and linear solves by the passes, against JAX.

JAX applies some transformations before a program is traced, and the passes apply the others after
it.  All programs of a group are compiled together, because compilation takes most of the time.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread
from derivative_checks import check_derivatives, check_vmap, close, vector_like
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback
from random_programs import budget, programs, run

import jaxmlir
from jaxmlir._compat import core
from jaxmlir.analysis.call_graph import call_signature
from jaxmlir.errors import TransformError
from jaxmlir.runtime import program_primitive

pytestmark = pytest.mark.compat

f32, i32 = np.float32, np.int32
X = np.array([0.3, -0.7, 1.1], f32)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4], [-1.2, 0.6, 0.8]], f32)
MATRIX = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]], f32)


def derivatives_of(f, args):
    """Reverse mode, and forward mode over it, of a function and of its program."""
    ct = vector_like(jax.eval_shape(f, *args), 1)
    tangents = vector_like(args, 2)
    program = jaxmlir.trace(f)(*args)
    fwd, bwd = program.vjp()

    def ours(args):
        return jax.jvp(lambda *xs: bwd(fwd(*xs)[1], ct), args, tangents)

    def theirs(args):
        return jax.jvp(lambda *xs: jax.vjp(f, *xs)[1](ct), args, tangents)

    return ours, theirs


def check_all(pairs, args):
    """Compares all pairs of (ours, theirs) on their arguments, with two compilations."""
    ours = jax.jit(lambda args: [f(*xs) for (f, _), xs in zip(pairs, args, strict=True)])(args)
    theirs = jax.jit(lambda args: [g(*xs) for (_, g), xs in zip(pairs, args, strict=True)])(args)
    close(ours, theirs, rtol=1e-4)


# --- cond -------------------------------------------------------------------------------------


def three_ways(i, x, w, n):
    """The branches differ in their tangents, residuals, and batched results."""
    return lax.switch(
        i,
        [
            lambda x, w, n: (jnp.sin(x) @ w, 2 * x, n + 1),
            lambda x, w, n: (jnp.exp(x) * x, lax.stop_gradient(x), n),
            lambda x, w, n: (jnp.zeros_like(x), jnp.ones(3), 2),
        ],
        x,
        w,
        n,
    )


@pytest.mark.parametrize("i", [0, 1, 2])
def test_derivatives_of_branches(i):
    check_derivatives(three_ways, (i32(i), X, ROWS, i32(3)))


def test_batches_of_branches():
    numbers, one, rows = np.array([2, 0, 1], i32), i32(1), np.stack([ROWS, ROWS + 1, -ROWS])
    cases = [
        ((None, 0, None, None), (one, ROWS, ROWS, one)),
        ((None, 1, None, 0), (one, ROWS, ROWS, numbers)),
        ((None, None, 1, None), (one, X, rows, one)),
        ((0, None, None, None), (numbers, X, ROWS, one)),
        ((0, 1, 2, 0), (numbers, ROWS, rows, numbers)),
    ]
    pairs = []
    for axes, args in cases:
        first = [x if d is None else jnp.take(x, 0, d) for x, d in zip(args, axes, strict=True)]
        batched = jaxmlir.trace(three_ways)(*first).vmap(axes, axis_size=3)
        batched.verify()
        g = jax.vmap(three_ways, axes)
        pairs += [(batched, g), (batched.jvp(), lambda p, t, g=g: jax.jvp(g, p, t))]
    arguments = [a for _, args in cases for a in (args, (args, vector_like(args, 3)))]
    check_all(pairs, arguments)


def test_branches_share_places_and_return_nothing_twice():
    """Residuals of different branches share results of the cond; the operand is no residual."""

    def f(i, x, y):
        return lax.cond(i > 0, lambda x: jnp.sin(x) * y, lambda x: jnp.exp(x) + y, x)

    fwd, _ = jaxmlir.trace(f)(i32(1), ROWS, ROWS).vjp()
    (cond,) = [op for op in fwd.function(fwd.name).entry_block if op.name == "jaxpr.cond"]
    ours = [aval.str_short() for aval in fwd.out_avals]
    assert len(cond.results) == 1 + 2  # The value, and places for cos and sin, or for exp.
    residuals = jax.tree.leaves(
        jax.eval_shape(lambda *args: jax.vjp(f, *args)[1], i32(1), ROWS, ROWS)
    )
    assert len(ours) - 1 <= len(residuals)


def test_a_branch_not_taken_makes_no_nan():
    def f(x):
        return lax.cond(x > 0, lambda x: jnp.sqrt(x), lambda x: 0 * x, x)

    batch = np.array([-1.0, 4.0], f32)
    batched = jaxmlir.trace(f)(f32(0)).vmap(axis_size=2)
    gradient = jaxmlir.trace(lambda x: batched(x).sum())(batch).grad()
    np.testing.assert_array_equal(gradient(batch), np.array([0.0, 0.25], f32))


def test_operands_as_residuals_take_the_free_slots_of_other_branches():
    """The second branch keeps an operand, where the first one keeps a value of its own."""

    def f(x):
        kept = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
        both = (lambda x: jnp.sin(jnp.sin(x)), lambda x: jnp.sin(kept(x)))
        return lax.cond(jnp.sum(x) > 0, *both, x)

    residuals = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(f, x)[1], ROWS))
    forward, _ = jaxmlir.trace(f)(ROWS).vjp()
    assert len(forward.out_avals) - 1 <= len(residuals)
    gradient = jaxmlir.trace(lambda x: f(x).sum())(ROWS).grad()
    for x in (ROWS, -ROWS):
        np.testing.assert_allclose(gradient(x), jax.grad(lambda x: f(x).sum())(x), rtol=1e-6)


def test_residuals_may_be_keys():
    @jax.custom_vjp
    def noisy(x, key):
        return 2 * x

    noisy.defvjp(
        lambda x, key: (2 * x, jax.random.fold_in(key, 1)),
        lambda key, ct: (ct * jax.random.normal(key, ct.shape), None),
    )

    def f(i, x, key):
        return lax.cond(i > 0, noisy, lambda x, key: jnp.sin(x), x, key)

    for i in (0, 1):
        check_derivatives(f, (i32(i), X, jax.random.key(3)), forward=False)


def test_a_choice_by_platform_stays_one():
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    check_derivatives(f, (X,))
    batched = check_vmap(f, (ROWS,), 0)
    assert "branches_platforms" in batched.as_text()


# --- remat ------------------------------------------------------------------------------------


@jax.checkpoint
def layer(x, w):
    y = jnp.sin(x @ w)
    return jnp.tanh(y) * x, jnp.sum(y)


def layers(x, w):
    (y, a), f = layer(x, w), partial(jax.checkpoint, prevent_cse=False)
    z, _ = lax.scan(f(lambda c, _: (layer(c, w)[0], None)), y, None, length=2)
    return z, a


def test_remat_is_differentiated_in_all_ways():
    pairs = [
        derivatives_of(layers, (X, ROWS)),
        # JAX's forward mode gives a remat of values and tangents, which must be transposed.
        derivatives_of(lambda x, w: jax.jvp(lambda x: layers(x, w), (x,), (x,)), (X, ROWS)),
    ]
    check_all(pairs, [((X, ROWS),)] * 2)
    check_vmap(layers, (ROWS, ROWS), (0, None))


def scalar_layers(x, w):
    return jnp.sum(layer(*[layer(x, w)[0]], w)[0])


def test_a_remat_keeps_its_operands_alone_and_computes_again_behind_a_barrier():
    fwd, bwd = jaxmlir.trace(scalar_layers)(X, ROWS).vjp()
    # The residuals are x, w, and the result of the first layer.
    assert len(fwd.out_avals) - 1 == 3
    ours = jaxmlir.trace(scalar_layers)(X, ROWS).grad().lower().as_text()
    theirs = jax.jit(jax.grad(scalar_layers)).lower(X, ROWS).as_text()
    assert ours.count("optimization_barrier") == theirs.count("optimization_barrier") == 2
    assert "differentiated = true" in bwd.as_text()


def test_forward_mode_over_a_recomputed_function_with_a_vjp_rule():
    """The gradient's value comes from the forward rule, which can be differentiated in forward mode
    although the function cannot; here that value differs from the function's."""
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (3 * jnp.sin(x), x), lambda x, ct: (ct * x * x,))

    def loss(x):
        step = jax.checkpoint(lambda c, _: (f(c) + c, None))
        return jnp.sum(lax.scan(step, jax.checkpoint(f)(jnp.cos(x)), None, length=2)[0])

    program = jaxmlir.trace(loss)(X)
    want = jax.jvp(jax.value_and_grad(loss), (X,), (X,))
    gradient = program.value_and_grad()
    close(gradient(X), want[0])
    close(gradient.jvp()((X,), (X,)), want)
    close(jax.jvp(jax.value_and_grad(reread(program)), (X,), (X,)), want)
    close(jax.hessian(program)(X), jax.hessian(loss)(X))


@pytest.mark.parametrize(
    "policy",
    ["nothing_saveable", "dots_saveable", "everything_saveable"],
)
def test_a_policy_keeps_what_jax_keeps(policy):
    @partial(jax.checkpoint, policy=getattr(jax.checkpoint_policies, policy))
    def f(x, w):
        return jnp.sum(jnp.sin(jnp.sin(x @ w) @ w))

    program = jaxmlir.trace(f)(X, ROWS)
    fwd, bwd = program.vjp()
    close(bwd(fwd(X, ROWS)[1], f32(2.0)), jax.vjp(f, X, ROWS)[1](f32(2.0)))
    theirs = jax.eval_shape(lambda *args: jax.vjp(f, *args)[1], X, ROWS)
    assert len(fwd.out_avals) - 1 <= len(jax.tree.leaves(theirs))


@pytest.mark.parametrize("kind", ["names", "without names", "both", "offload"])
def test_policies_of_jax_are_read_back(kind):
    policies = jax.checkpoint_policies
    made = {
        "names": [
            policies.save_only_these_names("inner", "outer"),
            policies.save_any_names_but_these("inner"),
            policies.save_anything_except_these_names("inner"),
        ],
        "without names": [
            policies.save_only_these_names(),
            policies.save_any_names_but_these(),
            policies.save_anything_except_these_names(),
        ],
        "both": [
            policies.save_from_both_policies(
                policies.dots_saveable, policies.save_anything_except_these_names("inner")
            )
        ],
        "offload": [
            policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
            policies.save_and_offload_only_these_names(
                names_which_can_be_saved=["inner"],
                names_which_can_be_offloaded=["outer"],
                offload_src="device",
                offload_dst="pinned_host",
            ),
        ],
    }

    def layer(x, w):
        return checkpoint_name(jnp.sin(checkpoint_name(x @ w, "inner")), "outer")

    def kept(f):
        """The types of the residuals."""
        residuals = jax.eval_shape(lambda *args: jax.vjp(f, *args)[1], X, ROWS)
        return sorted(str(leaf) for leaf in jax.tree.leaves(residuals))

    for policy in made[kind]:

        def f(x, w, policy=policy):
            return jnp.sum(jax.checkpoint(lambda x, w: layer(layer(x, w), w), policy=policy)(x, w))

        program = reread(jaxmlir.trace(f)(X, ROWS))
        assert not program.handles
        exported = core.jaxpr_as_fun(program.to_jaxpr())
        assert kept(lambda x, w, call=exported: call(x, w)[0]) == kept(f)
        if kind != "offload":
            close(program.grad((0, 1))(X, ROWS), jax.grad(f, (0, 1))(X, ROWS))


# A loop unrolled for a GPU offloads a residual for each of the iterations in its body.
@pytest.mark.parametrize(
    ("level", "without", "platforms"),
    [(0, (), ("cuda", "tpu")), (2, (), ("tpu",)), (2, ("jaxpr-unroll-scans",), ("cuda", "tpu"))],
    ids=["0", "2", "2 without unrolling"],
)
def test_residuals_that_a_policy_offloads_are_in_the_memory_of_the_host(level, without, platforms):
    """They are there also after loading, and if the program is optimized for another device."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["product"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    @partial(jax.checkpoint, policy=policy)
    def layer(x, w):
        return jnp.sin(checkpoint_name(x @ w, "product"))

    def f(ws, x):
        x = layer(x, ws[0])
        return jnp.sum(lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0])

    args = np.stack([ROWS, MATRIX]), ROWS
    program = reread(jaxmlir.trace(f)(*args)).optimize(level, without=without)
    gradient = program.grad().optimize(level, without=without)
    close(gradient(*args), jax.grad(f)(*args))

    def placements(text):
        return [text.count(place) for place in ("annotate_device_placement", "pinned_host")]

    for platform in platforms:
        traced = jax.jit(jax.grad(f)).trace(*args)
        theirs = placements(traced.lower(lowering_platforms=(platform,)).as_text())
        assert placements(gradient.lower((platform,)).as_text()) == theirs
        assert min(theirs) > 1


# --- custom rules -----------------------------------------------------------------------------


@jax.custom_jvp
def first(x, y):
    """The value does not depend on y, but its tangent does: with y batched, the rule's results are
    batched and the function's are not.  The rule calls the function."""
    return jnp.sin(x)


@first.defjvp
def first_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return first(x, y), first(x + 1, y) * dx + y * dy


@partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def applied(f, x, power):
    return f(x) ** power


@applied.defjvp
def applied_jvp(f, power, primals, tangents):
    """A rule with a loop, a branch and another rule inside."""
    (x,), (t,) = primals, tangents
    slope = lax.fori_loop(0, power, lambda _, s: s + f(x), jnp.zeros_like(x))
    t = lax.cond(jnp.array(power) < 2, lambda t: 2 * t, lambda t: first(x, x) * t, t)
    return applied(f, x, power), lax.scan(lambda c, s: (c + s, c * s), t, jnp.stack([slope, x]))[0]


@jax.custom_vjp
def product(tree, n):
    return {"p": tree["x"] * tree["y"] * n, "n": n + 1}


def product_fwd(tree, n):
    return product(tree, n), (tree["x"], jnp.cos(tree["y"]), n)


def product_bwd(residuals, ct):
    """Wrong cotangents: five times the true ones, and a sum over a value that may be batched."""
    x, cosine, n = residuals
    return {"x": 5 * ct["p"] * cosine, "y": jnp.sum(ct["p"] * x * n)}, None


product.defvjp(product_fwd, product_bwd)


def nested(x):
    """Functions whose rules use functions with rules, in control flow, with closed-over values."""

    @jax.custom_jvp
    def outer(z):
        return z * ROWS[0]

    outer.defjvps(lambda t, out, z: first(z, out) * t)
    return lax.cond(jnp.sum(ROWS) > 9, outer, lambda z: applied(jnp.cos, outer(z), 2), x)


def with_product(x, y):
    return product({"x": x, "y": y}, 3)["p"]


def halves(word, f):
    """Every split of a word: JAX applies the first transformations and the passes the others.

    Each letter turns a function of vectors into another one: ``jvp`` in the direction of the
    argument, ``grad`` of the sum; and ``vmap`` takes rows.
    """

    def by_jax(step, g):
        return {
            "jvp": lambda x: jax.jvp(g, (x,), (x,))[1],
            "grad": jax.grad(lambda x: jnp.sum(g(x))),
            "vmap": jax.vmap(g),
        }[step]

    def by_passes(step, g, x):
        if step == "vmap":
            return jaxmlir.trace(g)(x[0]).vmap(axis_size=len(x))
        if step == "grad":
            return jaxmlir.trace(lambda x: jnp.sum(g(x)))(x).grad()
        program = jaxmlir.trace(g)(x).jvp()
        return lambda x: program((x,), (x,))[1]

    shape = {0: X, 1: ROWS, 2: np.stack([ROWS, -ROWS])}
    wanted = f
    for step in word:
        wanted = by_jax(step, wanted)
    for cut in range(len(word)):
        made, batched = f, 0
        for i, step in enumerate(word):
            batched += step == "vmap"
            made = by_jax(step, made) if i < cut else by_passes(step, made, shape[batched])
        yield made, wanted, (shape[batched],)


@pytest.mark.parametrize(
    ("f", "letters"),
    [
        (lambda x: first(x, jnp.flip(x)), ("jvp", "grad", "vmap")),
        (nested, ("jvp", "grad", "vmap")),
        (lambda x: with_product(x, jnp.sum(x)), ("grad", "vmap")),
    ],
    ids=["first", "nested", "product"],
)
def test_words_of_which_jax_does_the_first_part(f, letters):
    words = [("vmap", a, b) for a in letters for b in letters if a != "vmap" or b != "vmap"]
    words += [(a, "vmap") for a in letters[:-1]]
    made = [m for word in words for m in halves(word, f)]
    check_all([(ours, theirs) for ours, theirs, _ in made], [args for *_, args in made])


def test_batched_rules_agree_on_what_is_batched():
    """The result is batched if its tangent is, although the function's result is not."""
    program = jaxmlir.trace(first)(X, X)
    pairs, arguments = [], []
    for axes in [(0, None), (None, 0), (1, 0)]:
        args = tuple(X if d is None else ROWS for d in axes)
        batched = reread(program.vmap(axes, axis_size=3))
        batched.verify()
        g = jax.vmap(first, axes)
        pairs += [(batched, g), (batched.jvp(), lambda p, t, g=g: jax.jvp(g, p, t))]
        arguments += [args, (args, vector_like(args, 1))]
        fwd, bwd = batched.vjp()
        pairs.append(
            (
                lambda *xs, fwd=fwd, bwd=bwd: bwd(fwd(*xs)[1], ROWS),
                lambda *xs, g=g: jax.vjp(g, *xs)[1](ROWS),
            )
        )
        arguments.append(args)
    check_all(pairs, arguments)


def test_cotangents_of_what_is_not_batched_are_summed():
    program = jaxmlir.trace(with_product)(X, f32(2.0))
    pairs, arguments = [], []
    for axes in [(0, None), (None, 0), (1, 0)]:
        args = (X if axes[0] is None else ROWS, f32(2.0) if axes[1] is None else X)
        fwd, bwd = reread(program.vmap(axes, axis_size=3)).vjp()
        g = jax.vmap(with_product, axes)
        pairs.append(
            (
                lambda *xs, fwd=fwd, bwd=bwd: bwd(fwd(*xs)[1], ROWS),
                lambda *xs, g=g: jax.vjp(g, *xs)[1](ROWS),
            )
        )
        arguments.append(args)
    check_all(pairs, arguments)


def test_an_unknown_linear_map_is_batched_with_its_backward_rule():
    """JAX refuses to batch the linear function; its transpose is the batched backward rule."""
    _, lin = jaxmlir.trace(with_product)(X, f32(2.0)).linearize()
    text = lin.vmap((None, 0, None), axis_size=3).as_text()
    assert '"jaxpr.custom_lin"' in text and "@product_bwd" in text


def test_a_rule_says_nothing_of_what_its_function_closes_over():
    def f(x, y):
        g = jax.custom_vjp(lambda x: x * y)
        g.defvjp(lambda x: (x * y, None), lambda _, ct: (ct,))
        return g(x)

    with pytest.raises(TransformError, match=r"test_higher_order.py.*a value that it closes over"):
        jaxmlir.trace(f)(f32(1.0), f32(2.0)).grad(1)


# --- linear solves ----------------------------------------------------------------------------


def solve_tree(k, b):
    """A solve over a pytree, with an auxiliary result."""

    def matvec(x):
        return {"u": k * x["u"] + x["v"], "v": 3 * x["v"] - x["u"]}

    def solve(matvec, b):
        x = b
        for _ in range(8):
            x = jax.tree.map(lambda x, b, m: x + 0.3 * (b - m), x, b, matvec(x))
        return x, f32(7)

    return lax.custom_linear_solve(matvec, b, solve, solve, has_aux=True)


def test_linear_solves():
    tree = {"u": X, "v": X + 1}
    check_derivatives(solve_tree, (f32(2.0), tree))
    check_vmap(solve_tree, (np.ones(3, f32), tree), (0, None))
    check_vmap(solve_tree, (f32(2.0), tree | {"u": ROWS}), (None, {"u": 0, "v": None}))
    matrices = np.stack([MATRIX, MATRIX + 1, 2 * MATRIX], 1)
    pairs = [
        derivatives_of(jnp.linalg.solve, (MATRIX, X)),
        derivatives_of(jax.vmap(jnp.linalg.solve, (1, None)), (matrices, X)),
        derivatives_of(jax.vmap(jnp.linalg.solve, (None, 1)), (MATRIX, ROWS)),
    ]
    check_all(pairs, [((MATRIX, X),), ((matrices, X),), ((MATRIX, ROWS),)])


def test_the_solver_of_the_transpose_may_say_something_else_of_another_type():
    def f(matrix, b):
        x, twice = lax.custom_linear_solve(
            lambda x: matrix @ x,
            b,
            lambda matvec, b: (jnp.linalg.solve(matrix, b), 2),
            lambda vecmat, b: (jnp.linalg.solve(matrix.T, b), b[:2]),
            has_aux=True,
        )
        return twice * jnp.sum(x**2)

    gradient, program = jax.grad(f, (0, 1)), jaxmlir.trace(f)(MATRIX, X).grad((0, 1))
    close(program(MATRIX, X), gradient(MATRIX, X))
    for axes in ((None, 1), (0, None)):
        args = (MATRIX, ROWS) if axes[0] is None else (np.stack([MATRIX, MATRIX + 1]), X)
        batched = program.vmap(axes, axis_size=2 if axes[1] is None else ROWS.shape[1])
        close(batched(*args), jax.vmap(gradient, axes)(*args))


def test_a_solve_may_have_a_right_hand_side_without_tangent():
    """JAX's own rule fails here, so forward and reverse mode are compared with each other."""

    def f(k):
        return solve_tree(k, {"u": X, "v": X + 1})[0]

    program, k = jaxmlir.trace(f)(f32(2.0)), f32(2.0)
    _, tangent = program.jvp()((k,), (f32(1.0),))
    close(tangent, jax.jvp(f, (k,), (f32(1.0),))[1])
    fwd, bwd = program.vjp()
    ct = vector_like(tangent, 1)
    (pulled,) = bwd(fwd(k)[1], ct)
    expected = sum(np.vdot(ct[name], tangent[name]) for name in ct)
    np.testing.assert_allclose(pulled, expected, rtol=1e-5)


# --- partial evaluation -----------------------------------------------------------------------


@budget
@given(steps=programs, unknown=st.sampled_from([0, 1]))
def test_what_is_known_first_and_the_rest_make_the_whole(steps, unknown):
    def f(x, y):
        return run(steps, x, y)

    args = vector_like((X, X), 0)
    program = jaxmlir.trace(f)(*args).run_passes(f"jaxpr-partial-eval{{unknown={unknown}}}")
    program.verify()

    @jax.jit
    def both(x, y):
        given = (x, y)
        first = program_primitive.call(program, "f.known", [given[1 - unknown]])
        if not call_signature(program, "f.unknown").results:
            return first[0]
        return program_primitive.call(program, "f.unknown", [*first, given[unknown]])[0]

    close(both(*args), jax.jit(f)(*args))


@jax.custom_jvp
def in_loops(x, y):
    def step(carry, s):
        a, b = carry
        return (jnp.sin(x) * a + s, b + a), (b * a, jnp.cos(x) * s)

    (a, b), (p, q) = lax.scan(step, (x, y), jnp.arange(4) + y)
    return a + b * jnp.sum(p * q)


@in_loops.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents

    def step(carry, s):
        a, b, t, u = carry
        following = t * jnp.cos(a) * jnp.exp(x) + dy * s
        carry = (jnp.sin(x) * a + s, b + a, following, 0.5 * u + a * t)
        return carry, (b * a, jnp.cos(x) * s, following * jnp.exp(b), jnp.cos(x) * s * dx)

    start = (x, y, dx, jnp.float32(0))
    (a, b, t, u), (p, q, *sums) = lax.scan(step, start, jnp.arange(4) + y)
    return a + b * jnp.sum(p * q), t * b + u + sum(map(jnp.sum, sums))


def test_a_loop_of_a_jvp_rule_is_split_by_what_is_known():
    """Part of the carry is known only initially; slices, constants and the length stay known."""

    def f(x):
        return jnp.sin(0.1 * in_loops(x, 2 * x))

    x, t = f32(0.3), f32(0.7)
    gradient = jaxmlir.trace(f)(x).grad()
    lengths = re.findall(r'"jaxpr.scan".*length = (\d+)', gradient.as_text())
    assert lengths == ["4", "4"]
    close(gradient(x), jax.grad(f)(x))
    close(gradient.grad()(x), jax.grad(jax.grad(f))(x))
    close(gradient.jvp()((x,), (t,)), jax.jvp(jax.grad(f), (x,), (t,)))


# --- forward mode through backward rules ------------------------------------------------------


def test_backward_rules_pushed_forward_agree_with_reverse_mode():
    """``<ct, jvp(t)> == <vjp(ct), t>`` for a rule in a branch of a loop, also batched."""

    def f(x, y):
        def step(c, row):
            return lax.cond(y > 0, lambda c: with_product(c, y), jnp.sin, c), c * row

        return lax.scan(step, x, ROWS)

    args, tangents = (X, f32(0.7)), vector_like((X, f32(0.7)), 1)
    program = jaxmlir.trace(f)(*args)
    fwd, lin = program.linearize(custom_vjp_forward="transpose")
    _, bwd = program.vjp()
    value, residuals = fwd(*args)
    ct = vector_like(value, 2)
    _, pushed = program.jvp(custom_vjp_forward="transpose")(args, tangents)
    close(lin(residuals, *tangents), pushed)
    pulled = bwd(program.vjp()[0](*args)[1], ct)

    def inner(a, b):
        return sum(np.vdot(x, y) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))

    np.testing.assert_allclose(inner(ct, pushed), inner(pulled, tangents), rtol=1e-4)


NOT_LINEAR = {
    "convert_element_type": lambda ct: ct.astype(jnp.int32).astype(ct.dtype),
    "gather": lambda ct: ct.at[jnp.arange(1, 4)].get(mode="fill", fill_value=2.0),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_linear_but_for_an_attribute_is_not_pushed_forward(name):
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, ct: (NOT_LINEAR[name](ct),))
    program = jaxmlir.trace(double)(np.ones(3, np.float32))
    with pytest.raises(TransformError, match=f"'jaxpr.{name}' op in @.* is not known to be linear"):
        program.jvp(custom_vjp_forward="transpose")


def test_what_a_gather_fills_with_zeros_or_nan_is_pushed_forward():
    @jax.custom_vjp
    def pick(x):
        return x[1:]

    def backward(_, ct):
        indices = jnp.arange(-1, 2)
        return (jnp.take(ct, indices) + ct.at[indices + 1].get(mode="fill", fill_value=0),)

    pick.defvjp(lambda x: (x[1:], None), backward)
    x, t = np.ones(3, np.float32), np.array([1, 2, 4], np.float32)
    _, pushed = jaxmlir.trace(pick)(x).jvp(custom_vjp_forward="transpose")((x,), (t,))
    (want,) = jax.linear_transpose(lambda ct: backward(None, ct)[0], x[1:])(t)
    np.testing.assert_array_equal(pushed, want)


# --- calls with effects -------------------------------------------------------------------------


def test_calls_with_effects():
    seen = []

    @jax.jit
    def noting(x):
        y = io_callback(lambda x: seen.append(float(x)) or x * 2, x, x, ordered=True)
        return jnp.sin(x) * y

    @jax.jit
    def f(x):
        return noting(lax.stop_gradient(x)) * noting(lax.stop_gradient(x + 1)) * jnp.exp(x)

    def noted(function):
        seen.clear()
        result = jax.jit(function)(f32(0.3))
        jax.effects_barrier()
        return np.array([*map(float, jax.tree.leaves(result)), *seen])

    program = jaxmlir.trace(f)(f32(0.3))
    twice = program.grad().jvp()
    assert "func.func private @f_0.fwd" in program.grad().as_text()
    close(noted(program.grad()), noted(jax.grad(f)))
    close(noted(lambda x: twice((x,), (x,))), noted(lambda x: jax.jvp(jax.grad(f), (x,), (x,))))
    with pytest.raises(TransformError, match="io_callback' op cannot be batched: .* ordered"):
        program.vmap(axis_size=2)
