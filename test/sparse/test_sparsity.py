"""Patterns of derivatives, against the derivatives that JAX computes: elements outside of a pattern
are zero, and known structures are found."""

import functools
import runpy
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax
from jax.experimental.sparse import BCOO
from random_programs import budget, forward_programs, reverse_programs, run
from sampling import examples

import jaxmlir
from jaxmlir.errors import ArgumentError
from jaxmlir.sparse.index_sets import PatternTooDense

ROOT = Path(__file__).resolve().parents[2]
X = jnp.array([0.5, 0.3, -0.2, 0.8, 0.4])
UPPER = np.diag(np.ones(5, np.float32)) + np.diag(np.ones(4, np.float32), 1)
PLACES = np.array([0, 2, 4, 1, 3])


@jax.custom_jvp
def mirrored(x):
    return x


@mirrored.defjvp
def _(primals, tangents):
    return primals[0], 3 * tangents[0][::-1]


@jax.custom_vjp
def pulled_back(x):
    return 2 * x


pulled_back.defvjp(lambda x: (2 * x, x), lambda x, ct: (ct[::-1] * x,))


def of_empty(x):
    """Ops along dimensions without elements, and windows that fit nowhere."""
    rows, kernel = x.reshape(0, 5), np.ones((2, 1, 3), np.float32)
    return [
        jnp.cumsum(x),
        lax.reduce_window(rows, 0.0, lax.add, (1, 2), (1, 1), "VALID"),
        lax.conv_general_dilated(rows[:, None], kernel, (1,), "SAME"),
        lax.linalg.triangular_solve(np.zeros((0, 0), np.float32), rows, left_side=True),
    ]


def images_in_groups(x):
    """A convolution whose groups of images are for different features."""
    images, kernel = jnp.tile(x, 4).reshape(2, 2, 5), np.ones((4, 2, 3), np.float32)
    return lax.conv_general_dilated(images**2, kernel, (1,), "VALID", batch_group_count=2)


def above_the_diagonal(x):
    matrix = jnp.tile(x**2, (5, 1))
    return -(jnp.tril(matrix) - matrix)


def entry(table, x):
    """One of three numbers that are not all known to be ordered, or whole."""
    return lax.dynamic_index_in_dim(np.float32(table), jnp.argmax(x[:3]), keepdims=False)


def recurrence(x):
    return lax.fori_loop(1, 5, lambda i, y: y.at[i].set(x[i] + y[i - 1] ** 2), x)


def until(x):
    def step(carry):
        n, y = carry
        return n + 1, jnp.concatenate([y[:1], y[1:] * y[:-1]])

    return lax.while_loop(lambda carry: carry[0] < 4 + 0 * x[0], step, (0.0, x))[1]


def dense_jacobian(f, x, jacobian=jax.jacfwd):
    leaves = jax.tree.leaves(jacobian(f)(x))
    return np.concatenate([np.asarray(leaf).reshape(-1, x.size) for leaf in leaves])


def pattern_of(f, x):
    return jaxmlir.trace(f)(x).jacobian_sparsity()


# Functions whose pattern has exactly the nonzero elements of the derivative at X.
TIGHT = {
    "elementwise": lambda x: jnp.sin(x) * x,
    "matrix": lambda x: UPPER @ x,
    "gather": lambda x: x[PLACES] ** 2,
    "gather-filled": lambda x: x.at[np.array([3, 9])].get(mode="fill", fill_value=1.0),
    "scatter-add": lambda x: jnp.zeros(8).at[np.array([1, 3, 5, 5, 7])].add(x**2),
    "scatter-set": lambda x: x.at[PLACES[:3]].set(x[:3] ** 2),
    "computed-indices": lambda x: x[(2 * jnp.arange(5)) % 5] * x,
    "cases": lambda x: lax.select_n(np.int32([-1, 0, 1, 2, 7]), x, x[::-1], 2 * x[::-1]),
    "chosen-indices": lambda x: x[lax.select_n(np.int32([-1, 0, 1, 2, -3]), PLACES, PLACES[::-1])],
    "mask": lambda x: jnp.where(np.arange(5) < 2, x, x[::-1] * x),
    "cancelled": above_the_diagonal,
    "triangle": lambda x: jnp.tril(jnp.tile(lax.stop_gradient(x), (5, 1)))[::-1] @ x,
    "zeros": lambda x: x[::-1] * np.array([1.0, 0, 0, 2, 0], np.float32),
    "random-factors": lambda x: x[::-1] * jax.random.bernoulli(jax.random.key(3), 0.5, (5,)),
    "powers": lambda x: jnp.prod((x**2 + 1)[:, None] ** np.float32([[1, 0]] * 3 + [[0, 2]] * 2), 0),
    "pad": lambda x: lax.pad(x**2, 0.0, [(-1, 2, 1)]),
    "blocks": lambda x: jnp.outer(x, x)[:2].sum(1),
    "convolution": lambda x: jnp.convolve(x, np.array([1.0, 0, -1.0], np.float32), mode="same"),
    "convolution-groups": images_in_groups,
    "cumsum": lambda x: jnp.cumsum(x**2),
    "pool": lambda x: lax.reduce_window(x**2, 0.0, lax.add, (2,), (2,), "VALID"),
    "rule": mirrored,
    "remat": jax.checkpoint(lambda x: jnp.sin(x) * jnp.roll(x, 1)),
    "stop": lambda x: lax.stop_gradient(x) * x[::-1],
    "scan": lambda x: lax.scan(lambda c, a: (c * a, c + a), jnp.float32(1), x)[1],
    "fori": recurrence,
    "solve": lambda x: jnp.linalg.solve(UPPER, x),
    "solve-diagonal": lambda x: jnp.linalg.solve(jnp.diag(x) + np.eye(5, dtype=np.float32), x),
    "solve-batched": jax.vmap(lambda a: jnp.linalg.solve(jnp.outer(a, a) + UPPER[:1, :1], a[None])),
    "sparse-matrix": lambda x: BCOO.fromdense(UPPER, nse=9) @ x**2,
    "batched": lambda x: jax.vmap(lambda i: x[i] ** 2)(jnp.arange(5)[::-1]),
    "tree": lambda x: {"a": x[:2] ** 2, "b": [x[2] * x[3]]},
    "long-scan": lambda x: lax.scan(lambda c, a: (c, c[0] * a), x, jnp.tile(x, 2000))[1][:7],
    "empty": lambda x: [x**2, *of_empty(x[:0]), lax.scan(lambda c, a: (c * a, c), x[0], x[:0])],
}
# Functions whose pattern also covers arguments with more nonzero elements.
SOUND = {
    "sort": jnp.sort,
    "sort-pairs": lambda x: lax.sort((x, x**2), num_keys=1)[1],
    "max": lambda x: jnp.max(x[:, None] * jnp.ones((5, 3)), axis=0),
    "pool-max": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID"),
    "dynamic": lambda x: lax.dynamic_slice(x, (jnp.argmax(x),), (2,)),
    "no-maximum": lambda x: x[lax.reduce_max(jnp.argsort(x)[:0], (0,))],
    "written": lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (jnp.argmin(x),)),
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: x**2, lambda x: x[::-1], x),
    "while": until,
    "solve": lambda x: jnp.linalg.solve(UPPER + jnp.diag(x), x),
    "softmax": jax.nn.softmax,
    "fft": lambda x: jnp.fft.fft(x).imag,
    "long-loop": lambda x: lax.fori_loop(0, 3000, lambda _, c: c * jnp.roll(c, 1), x),
}


# Functions whose pattern is the union of the nonzero elements at some arguments.
REACHED = {
    "argmax": lambda x: x[jnp.argmax(x[:2])],
    "taken": lambda x: jnp.take(x, jnp.array([0, 1]) + jnp.argmax(x[:2])),
    "rows": lambda x: jnp.outer(x[:2], x)[jnp.arange(2), jnp.argmin(x[:4].reshape(2, 2), 1)],
    "slice": lambda x: lax.dynamic_slice(x, (jnp.argmax(x[:2]),), (2,)),
    "written": lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (jnp.argmax(x[:2]),)),
    "set": lambda x: x[:3].at[jnp.argmax(x[3:])].set(x[3]),
    "added": lambda x: x.at[jnp.argmax(x[:2]) + jnp.array([0, 2])].add(x[:2] ** 2),
    "clipped": lambda x: x[jnp.clip((10 * x[0]).astype(int), 1, 2)],
    "modulo": lambda x: x[jnp.argmax(x) % 2],
    "compared": lambda x: x[(x[0] > x[1]).astype(int) + 1],
    "power": lambda x: x[3 - jnp.argmax(x[:2]) ** 2],
    "sign": lambda x: x[jnp.sign((10 * x[0]).astype(int)) + 1],
    "fractions": lambda x: lax.cond(entry([0, 0.5, 0], x).astype(bool), jnp.square, jnp.flip, x),
    "not-a-number": lambda x: lax.cond(entry([0, np.nan, 1], x) > 0, jnp.square, jnp.flip, x),
    "branches": lambda x: lax.switch(jnp.argmax(x[:2]), [jnp.sin, jnp.square, jnp.cumsum], x),
}


@pytest.mark.parametrize("name", REACHED)
def test_an_index_reaches_the_places_that_its_bounds_allow(name):
    f, draw = REACHED[name], np.random.default_rng(0).normal
    points = jnp.asarray(draw(size=(40, *X.shape)), jnp.float32)
    reached = (jax.vmap(jax.jacfwd(f))(points) != 0).any(0)
    np.testing.assert_array_equal(pattern_of(f, X).to_dense(), reached.reshape(-1, X.size))


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.parametrize("name", TIGHT)
def test_a_pattern_is_the_structure_of_the_derivative(name):
    f = TIGHT[name]
    wanted = dense_jacobian(f, X) != 0
    np.testing.assert_array_equal(pattern_of(f, X).to_dense(), wanted)


@pytest.mark.parametrize("name", SOUND)
def test_what_depends_on_values_is_in_the_pattern(name):
    f = SOUND[name]
    nonzero = dense_jacobian(f, X) != 0
    assert not nonzero[~pattern_of(f, X).to_dense()].any()


def test_random_keys_are_followed():
    def f(x, key):
        known = jax.random.split(jax.random.key(0), 3)
        chosen = jnp.where(np.array([True, False]), known[:2], known[::-1][:2])
        (first,), keys = jax.random.split(key, 1), jnp.stack([chosen, jnp.tile(key, 2)])
        noise = jax.vmap(lambda key: jax.random.normal(key, x.shape))(keys[:, 1])
        return (x * noise).sum(0) * jax.random.bits(jax.random.fold_in(first, x.size))

    program = jaxmlir.trace(f)(X, jax.random.key(1))
    np.testing.assert_array_equal(program.jacobian_sparsity().to_dense(), np.eye(5))


def test_a_program_without_results_has_no_rows():
    program = jaxmlir.trace(lambda x: None)(X)
    assert program.sparse_jacobian()(X).shape == (0, 5)


def test_a_pattern_holds_on_every_platform():
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.square, default=jnp.flip)

    pattern = jaxmlir.trace(f)(X).jacobian_sparsity()
    np.testing.assert_array_equal(pattern.to_dense(), np.eye(5) + np.eye(5)[::-1] > 0)


def test_a_backward_rule_is_what_counts():
    wanted = dense_jacobian(pulled_back, X, jax.jacrev)
    program = jaxmlir.trace(pulled_back)(X)
    np.testing.assert_array_equal(program.jacobian_sparsity().to_dense(), wanted != 0)
    np.testing.assert_allclose(program.sparse_jacobian()(X).todense(), wanted)


def test_rules_that_a_derivative_brings_in_are_told_what_is_zero():
    @jax.custom_jvp
    def inner(x):
        return jnp.sin(x)

    inner.defjvp(lambda x, t: (inner(x[0]), jnp.cos(x[0]) * t[0]))

    @jax.custom_vjp
    def outer(x, y):
        return inner(x) * y

    outer.defvjp(
        lambda x, y: (inner(x.value) * y.value, (x.value, y.value)),
        lambda kept, g: (g * jnp.cos(kept[0]) * kept[1], g * inner(kept[0])),
        symbolic_zeros=True,
    )

    def f(x):
        return lax.scan(lambda c, _: (outer(c, jnp.ones(5)), None), x, None, length=3)[0]

    wanted = dense_jacobian(f, X, jax.jacrev) != 0
    np.testing.assert_array_equal(pattern_of(f, X).to_dense(), wanted)


def check(steps, jacobian):
    """Checks a random program's pattern, and the Jacobian computed with it."""

    def f(z):
        return run(steps, z[:3], z[3:])

    z = jnp.array([0.3, -0.4, 0.9, 0.2, 0.7, -0.6])
    wanted = dense_jacobian(f, z, jacobian)
    program = jaxmlir.trace(f)(z)
    pattern = program.jacobian_sparsity()
    assert not (wanted != 0)[~pattern.to_dense()].any()
    found = program.sparse_jacobian(pattern=pattern)(z).todense()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@examples(4, budget)
@given(reverse_programs)
def test_random_programs_with_rules(steps):
    check(steps, jax.jacrev)


@examples(3, budget)
@given(forward_programs)
def test_random_programs_with_loops(steps):
    check(steps, jax.jacfwd)


# --- stencils -------------------------------------------------------------------------------------


def differences(u):
    """The star of 2 d + 1 points of a grid, with zeros around it."""
    padded, total = jnp.pad(u, 1), jnp.exp(u)
    for d in range(u.ndim):
        for shift in (-1, 1):
            near = jnp.roll(padded, shift, d)[(slice(1, -1),) * u.ndim]
            total += near * (1 + d)
    return total


def brusselator(uv):
    u, v = uv
    wrapped = jnp.pad(uv, ((0, 0), (1, 1), (1, 1)), mode="wrap")
    near = wrapped[:, 2:, 1:-1] + wrapped[:, :-2, 1:-1] + wrapped[:, 1:-1, 2:]
    near += wrapped[:, 1:-1, :-2] - 4 * uv
    return near + jnp.stack([1 + u**2 * v - 4 * u, 3 * u - u**2 * v])


def arrow(x):
    return jnp.concatenate([jnp.sum(x**2)[None], x[0] * x[1:] ** 2])


def finite_volume(u):
    """Fluxes over the edges of a ring, added up in cells."""
    left = np.arange(u.size)
    right = (left + 1) % u.size
    flux = u[left] ** 2 - u[right]
    return jnp.zeros_like(u).at[left].add(flux).at[right].add(-flux)


def graph_laplacian(u):
    cells = np.tile(np.arange(u.size), 2)
    others = (cells + np.random.default_rng(0).integers(1, u.size, cells.size)) % u.size
    return jnp.zeros_like(u).at[cells].add(u[others] - 2 * u[cells]) * u


def blocks(u):
    return jnp.einsum("bi,bj->bi", u, jnp.sin(u))


STENCILS = {
    "line": (differences, (20,), 3),
    "plane": (differences, (9, 11), 5),
    "plane-flat": (lambda x: differences(x.reshape(9, 11)).ravel(), (99,), 5),
    "space": (differences, (5, 6, 7), 7),
    "brusselator": (brusselator, (2, 8, 8), 8),
    "arrow": (arrow, (20,), 3),
    "finite-volume": (finite_volume, (21,), 3),
    "graph": (graph_laplacian, (30,), 30),
    "blocks": (blocks, (6, 4), 4),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", STENCILS)
def test_stencils_have_their_structure_and_take_few_products(name):
    f, shape, most = STENCILS[name]
    x = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1, shape), jnp.float32)
    wanted = dense_jacobian(f, x)
    program = jaxmlir.trace(f)(x)
    pattern = program.jacobian_sparsity()
    np.testing.assert_array_equal(pattern.to_dense(), wanted != 0)
    assert pattern.colors <= most
    matrix = program.sparse_jacobian(pattern=pattern)(x)
    assert matrix.nse == pattern.nnz
    np.testing.assert_allclose(matrix.todense(), wanted, rtol=1e-5, atol=1e-5)


def test_a_million_unknowns_take_three_products():
    pattern = pattern_of(differences, jax.ShapeDtypeStruct((1_000_000,), np.float32))
    assert (pattern.nnz, pattern.colors) == (2_999_998, 3)


def test_a_dense_pattern_says_why():
    def centred(x):
        return x - jnp.mean(x)

    with pytest.raises(PatternTooDense, match=r"test_sparsity.py:\d+.*reduce_sum.*1,000,000"):
        pattern_of(centred, jax.ShapeDtypeStruct((1_000_000,), np.float32))
    with pytest.raises(PatternTooDense, match="cumsum"):
        pattern_of(jnp.cumsum, jax.ShapeDtypeStruct((100_000,), np.float32))
    x = jnp.arange(40.0)
    said = r"takes 40 JVPs.*\n.*'jaxpr.reduce_sum' op of the derivative"
    with pytest.warns(UserWarning, match=said) as caught:
        jaxmlir.trace(centred)(x).sparse_jacobian()
    assert caught[0].filename == __file__


def test_sets_that_many_elements_share_are_kept_once():
    def f(x):
        mixed = jnp.concatenate([x[:500] ** 2, x[500:] - jnp.mean(x[300:])])
        return jnp.tile(mixed, 3).reshape(3, -1).sum(0) * jnp.roll(mixed, 1)

    x = jnp.asarray(np.random.default_rng(0).uniform(1, 2, 1000), jnp.float32)
    wanted = dense_jacobian(f, x) != 0
    np.testing.assert_array_equal(pattern_of(f, x).to_dense(), wanted)


# --- Hessians -------------------------------------------------------------------------------------


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def hub(x):
    return jnp.sum(x[0] * x[1:] ** 2) + x[0] ** 3


def smooth(u):
    return jnp.sum((u[1:] - u[:-1]) ** 4) + jnp.sum((u[:, 1:] - u[:, :-1]) ** 4)


def trained(x):
    state, losses = lax.scan(lambda c, a: (c, c[0] * a**2), x[:2], x[2:])
    return jnp.sum(losses) + state[1] ** 2


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("f", "shape", "most"),
    [(rosenbrock, (30,), 3), (hub, (30,), 2), (smooth, (5, 6), 5), (trained, (12,), 3)],
)
def test_hessians_are_told_by_symmetry(f, shape, most):
    x = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1, shape), jnp.float32)
    wanted = np.asarray(jax.hessian(f)(x)).reshape(x.size, x.size)
    program = jaxmlir.trace(f)(x)
    pattern = program.hessian_sparsity()
    np.testing.assert_array_equal(pattern.to_dense(), wanted != 0)
    assert pattern.symmetric
    assert pattern.colors <= most
    found = program.sparse_hessian()(x)
    np.testing.assert_allclose(found.todense(), wanted, rtol=1e-4, atol=1e-4)


def test_a_gradient_by_a_rule_is_not_taken_for_symmetric():
    def f(x):
        return jnp.sum(mirrored(x) ** 2 * jnp.arange(5.0))

    wanted = dense_jacobian(jax.grad(f), X)
    program = jaxmlir.trace(f)(X)
    assert not program.hessian_sparsity().symmetric
    np.testing.assert_allclose(program.sparse_hessian()(X).todense(), wanted, rtol=1e-5)


HESSIANS = {
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: jnp.sum(x[1:] * x[:-1]), jnp.prod, x),
    "remat": lambda x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(x) * jnp.roll(x, 1))(x) ** 2),
    "solve": lambda x: jnp.sum(jnp.linalg.solve(UPPER + jnp.diag(x**2), x) ** 2),
    "loop": lambda x: jnp.sum(recurrence(x) ** 2),
    "scan": lambda x: lax.scan(lambda c, a: (c, jnp.cos(c * a)), x[0], x[1:])[1].sum(),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_go_through_control_flow_solves_and_recomputation(name):
    f = HESSIANS[name]
    wanted = np.asarray(jax.hessian(f)(X))
    program = jaxmlir.trace(f)(X)
    pattern = program.hessian_sparsity()
    assert not (wanted != 0)[~pattern.to_dense()].any()
    found = program.sparse_hessian(pattern=pattern)(X).todense()
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4)


# --- the programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "forward"},
        {"mode": "reverse"},
        {"mode": "both"},
        {"format": "dense"},
        {"chunk_size": 1},
        {"chunk_size": 2, "mode": "reverse"},
    ],
    ids=str,
)
def test_ways_to_compute_a_jacobian_give_the_same(options):
    x = jnp.linspace(0.1, 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an arrow takes many products of one kind
        found = jaxmlir.trace(arrow)(x).sparse_jacobian(**options)(x)
    dense = found if options.get("format") == "dense" else found.todense()
    np.testing.assert_allclose(dense, jax.jacfwd(arrow)(x), rtol=1e-6)


@pytest.mark.compat
def test_a_sparse_jacobian_is_a_program(tmp_path):
    x = jnp.linspace(0.1, 1, 12)
    program = jaxmlir.trace(arrow)(x).sparse_jacobian()
    wanted = jax.jacfwd(arrow)(x)
    program.save(tmp_path / "jacobian.jaxmlir")
    loaded = jaxmlir.load(tmp_path / "jacobian.jaxmlir")
    np.testing.assert_allclose(loaded(x).todense(), wanted, rtol=1e-6)
    np.testing.assert_allclose(program.optimize(2)(x).todense(), wanted, rtol=1e-6)
    batch = program.vmap(axis_size=2)(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(batch.data[1], program(2 * x).data, rtol=1e-6)
    gradient = jax.grad(lambda x: jnp.sum(program(x).data ** 2))(x)
    by_jax = jax.grad(lambda x: jnp.sum(jax.jacfwd(arrow)(x) ** 2))(x)
    np.testing.assert_allclose(gradient, by_jax, rtol=1e-5)


def test_a_sparse_hessian_is_a_program(tmp_path):
    program = jaxmlir.trace(rosenbrock)(X).sparse_hessian()
    wanted = jax.hessian(rosenbrock)
    program.save(tmp_path / "hessian.jaxmlir")
    loaded = jaxmlir.load(tmp_path / "hessian.jaxmlir")
    np.testing.assert_allclose(loaded.optimize(2)(X).todense(), wanted(X), rtol=1e-5, atol=1e-4)
    batch = loaded.vmap(axis_size=2)(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(batch.data[1], loaded(2 * X).data, rtol=1e-5)
    gradient = jax.grad(lambda x: jnp.sum(loaded(x).data ** 2))(X)
    by_jax = jax.grad(lambda x: jnp.sum(wanted(x) ** 2))(X)
    np.testing.assert_allclose(gradient, by_jax, rtol=1e-4)


def test_a_batch_over_parameters_has_a_matrix_for_each():
    def f(scale, x):
        return scale * jnp.exp(x[1:]) * x[:-1]

    program = jaxmlir.trace(f)(jnp.float32(1), X).sparse_jacobian(1)
    scales = jnp.array([1.0, 2.0, 5.0])
    found = program.vmap(in_axes=(0, None))(scales, X)
    wanted = jax.vmap(jax.jacfwd(f, 1), (0, None))(scales, X)
    np.testing.assert_allclose(found.todense(), wanted, rtol=1e-6)


def test_a_raised_program_has_a_sparse_jacobian():
    module = jax.jit(differences).lower(X).as_text()
    raised = jaxmlir.from_stablehlo(module)
    pattern = raised.jacobian_sparsity()
    np.testing.assert_array_equal(pattern.to_dense(), dense_jacobian(differences, X) != 0)
    (found,) = jax.tree.leaves(raised.sparse_jacobian()(X), is_leaf=lambda x: hasattr(x, "todense"))
    np.testing.assert_allclose(found.todense(), jax.jacfwd(differences)(X), rtol=1e-5)


def test_a_loaded_program_has_a_sparse_jacobian(tmp_path):
    jaxmlir.trace(until)(X).save(tmp_path / "until.jaxmlir")
    loaded = jaxmlir.load(tmp_path / "until.jaxmlir")
    np.testing.assert_allclose(
        loaded.sparse_jacobian()(X).todense(), jax.jacfwd(until)(X), rtol=1e-5
    )


def test_columns_are_those_of_the_arguments_asked_for():
    def f(a, b):
        return a[:3] * b["u"], b["v"] ** 2

    args = jnp.arange(1.0, 5), {"u": jnp.arange(1.0, 4), "v": jnp.arange(1.0, 3)}
    blocks = jax.jacfwd(f, (1, 0))(*args)
    rows = [[b["u"], b["v"], a] for b, a in blocks]
    wanted = np.block([[np.asarray(x) for x in row] for row in rows])
    program = jaxmlir.trace(f)(*args)
    np.testing.assert_array_equal(program.jacobian_sparsity((1, 0)).to_dense(), wanted != 0)
    np.testing.assert_allclose(program.sparse_jacobian((1, 0))(*args).todense(), wanted)


def test_one_call_says_what_it_did(capsys):
    x = jnp.arange(10.0)
    matrix = jaxmlir.jacobian(differences, x)
    np.testing.assert_allclose(matrix.todense(), jax.jacfwd(differences)(x), rtol=1e-6)
    said = "jacobian of differences: 10 x 10, 28 elements; 3 JVPs instead of 10\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "sideways"}, "mode: expected one of auto, forward, reverse, both"),
        ({"format": "csr"}, "format: expected 'bcoo' or 'dense', got 'csr'"),
        ({"chunk_size": 0}, "chunk_size: expected a positive number or None, got 0"),
        ({"argnums": 1}, "argnums=1: the program takes 1 positional argument"),
    ],
)
def test_wrong_options_are_said(options, message):
    with pytest.raises(ArgumentError, match=message):
        jaxmlir.trace(arrow)(X).sparse_jacobian(**options)


def test_complex_arguments_are_refused():
    program = jaxmlir.trace(jnp.sin)(X.astype(complex))
    with pytest.raises(ArgumentError, match="by arguments of real numbers"):
        program.sparse_jacobian()


@pytest.mark.parametrize("size", [6, 24])
def test_the_example_solves_and_differentiates_an_equation(size):
    example = runpy.run_path(str(ROOT / "examples" / "sparse_newton.py"))
    with jax.enable_x64(True):
        u, sensitivity = example["solve"](size)
        residual = example["residual"]
        assert np.abs(residual(jnp.asarray(u), 5.0)).max() < 1e-8
        by_u = np.asarray(jax.jacfwd(residual)(u, 5.0)).reshape(u.size, u.size)
        by_lam = np.asarray(jax.jacfwd(residual, 1)(u, 5.0)).ravel()
        np.testing.assert_allclose(sensitivity.ravel(), -np.linalg.solve(by_u, by_lam), rtol=1e-7)


# --- what was missed once -------------------------------------------------------------------------


def test_products_with_a_known_number_are_followed():
    def f(x):
        return lax.scan(lambda c, a: (c, jnp.dot(c, a)), jnp.float32(2), x)[1]

    np.testing.assert_array_equal(pattern_of(f, X).to_dense(), np.eye(5, dtype=bool))
    assert not pattern_of(lambda x: jnp.dot(jnp.float32(0), x), X).nnz


def test_a_triangular_factor_has_no_derivative_below_its_diagonal():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4, 3)), jnp.float32)
    pattern = pattern_of(lambda x: jnp.linalg.qr(x).R, x)
    rows = pattern.to_dense().any(1).reshape(2, 3, 3)
    np.testing.assert_array_equal(rows, np.broadcast_to(np.triu(np.ones((3, 3), bool)), rows.shape))
    assert str(pattern.coloring()) == "6 VJPs"
    nonzero = np.abs(dense_jacobian(lambda x: jnp.linalg.qr(x).R, x)) > 1e-5
    assert not nonzero[~pattern.to_dense()].any()


@pytest.mark.parametrize(("lower", "transposed"), [(False, False), (False, True), (True, False)])
def test_triangular_systems_mix_along_the_paths_of_known_matrices(lower, transposed):
    links = np.eye(5) + np.diag([2.0, 0, 3, 4], -1 if lower else 1)
    options = {"lower": lower, "transpose_a": transposed}

    def f(x):
        solve = functools.partial(lax.linalg.triangular_solve, links.astype(np.float32), **options)
        return solve(x, left_side=True), solve(x.T)

    x = jnp.asarray(np.random.default_rng(0).uniform(1, 2, (5, 2)), jnp.float32)
    np.testing.assert_array_equal(pattern_of(f, x).to_dense(), dense_jacobian(f, x) != 0)


def test_sets_that_were_shared_at_different_times_are_written_out():
    def loss(layers):
        x = np.ones((16, 16), np.float32)
        for layer in layers:
            x = jnp.tanh(x @ layer)
        return jnp.mean(x**2)

    layers = jnp.asarray(np.random.default_rng(0).normal(size=(3, 16, 16)), jnp.float32) / 4
    pattern = jaxmlir.trace(loss)(layers).hessian_sparsity()
    wanted = np.asarray(jax.hessian(loss)(layers)).reshape(pattern.shape)
    assert not (wanted != 0)[~pattern.to_dense()].any()


def test_a_hessian_is_told_by_an_acyclic_colouring():
    ends = np.random.default_rng(0).integers(0, 40, (2, 80))

    def f(x):
        return jnp.sum(jnp.sin(x[ends[0]] * x[ends[1]])) + jnp.sum(x**4)

    x = jnp.asarray(np.random.default_rng(1).normal(size=40), jnp.float32)
    program = jaxmlir.trace(f)(x)
    assert program.hessian_sparsity().coloring().substitution is not None
    found = program.sparse_hessian()(x).todense()
    np.testing.assert_allclose(found, jax.hessian(f)(x), rtol=1e-4, atol=1e-4)
