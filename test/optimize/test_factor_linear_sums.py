"""Sums of linear functions: Laplacians and similar operators of random networks, against JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from random_programs import budget

import jaxmlir
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra

ACTIVATIONS = {
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "square": jnp.square,
}


def network(activation, skip, layers, x):
    first, *middle, last = layers
    x = activation(x @ first)
    for w in middle:
        x = activation(x @ w) + (x if skip else 0)
    return x @ last


def weights(widths):
    random = np.random.RandomState(sum(widths))
    pairs = zip(widths, widths[1:], strict=False)
    return [random.standard_normal((m, n)) / np.sqrt(m) for m, n in pairs]


def basis(x):
    return jnp.eye(x.size, dtype=x.dtype)


# Each takes a function of a vector, whose values are vectors, and a vector.


def trace_of_hessian(f, x):
    return jnp.trace(jax.hessian(f)(x), axis1=-2, axis2=-1)


def weighted_trace(f, x):
    return jnp.sum(jax.hessian(lambda x: f(x)[0])(x) * jnp.outer(jnp.cos(x), x))


def forward_over_forward(f, x):
    def second(v):
        return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]

    return jnp.sum(jax.vmap(second)(basis(x)), 0)


def products_with_hessian(f, x):
    gradient = jax.grad(lambda x: f(x).sum())
    return jnp.sum(jax.vmap(lambda v: jax.jvp(gradient, (x,), (v,))[1] @ v)(basis(x)))


def quadratic_form(f, x):
    v = jnp.sin(x)
    return jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (v,))[1] @ v


def divergence(f, x):
    return jnp.trace(jax.jacfwd(lambda x: x * f(x)[0])(x))


def biharmonic(f, x):
    return trace_of_hessian(lambda x: trace_of_hessian(f, x), x)


def bundle(f, x):
    return jax.hessian(lambda x: f(x)[0])(x)


OPERATORS = [
    trace_of_hessian,
    weighted_trace,
    forward_over_forward,
    products_with_hessian,
    quadratic_form,
    divergence,
    biharmonic,
    bundle,
]


def residual(operator, f, layers, xs):
    return jnp.sin(jax.vmap(lambda x: operator(functools.partial(f, layers), x))(xs))


@pytest.mark.compat
@budget
@given(
    operator=st.sampled_from(OPERATORS),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    skip=st.booleans(),
    sizes=st.tuples(*[st.integers(1, 5)] * 3),
    depth=st.integers(1, 3),
    min_gain=st.sampled_from([0, 1]),
)
def test_operators_on_random_networks(operator, activation, skip, sizes, depth, min_gain):
    inputs, width, outputs = sizes
    f = functools.partial(network, ACTIVATIONS[activation], skip)
    with jax.enable_x64(True):
        layers = weights([inputs, *[width] * depth, outputs])
        xs = np.random.RandomState(0).standard_normal((3, inputs))
        program = jaxmlir.trace(functools.partial(residual, operator, f))(layers, xs).optimize(1)
        other = program.run_passes(f"jaxpr-factor-linear-sums{{min-gain={min_gain}}}")
        other.verify()
        np.testing.assert_allclose(other(layers, xs), program(layers, xs), rtol=1e-9, atol=1e-11)


def matrix_products(program):
    return str(program).count("dot_general")


def problem(operator, activation="tanh"):
    f = functools.partial(network, ACTIVATIONS[activation], False)
    layers = [w.astype(np.float32) for w in weights([5, 64, 64, 1])]
    xs = np.random.RandomState(0).standard_normal((100, 5)).astype(np.float32)

    def loss(layers, xs):
        return jnp.mean(residual(operator, f, layers, xs) ** 2)

    return loss, layers, xs


@pytest.mark.sampled
@pytest.mark.parametrize(
    "operator, activation",
    [
        (trace_of_hessian, "tanh"),
        (trace_of_hessian, "silu"),
        (products_with_hessian, "sin"),
        (quadratic_form, "gelu"),
    ],
)
def test_no_batch_goes_back_through_the_network(operator, activation):
    """The backward pass's products for each basis vector disappear, one for each layer."""
    loss, layers, xs = problem(operator, activation)
    program = jaxmlir.trace(loss)(layers, xs).optimize(1)
    remarks = []
    other = program.run_passes("jaxpr-factor-linear-sums", remarks=remarks.append).optimize(1)
    assert len(remarks) == 1
    assert matrix_products(other) <= matrix_products(program) - 2
    want = jax.grad(loss)(layers, xs)
    for a, b in zip(other.grad()(layers, xs), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def test_sums_move_in_front_of_the_network():
    """Second derivatives along all basis vectors are summed before they go through a layer."""
    loss, layers, xs = problem(forward_over_forward)
    program = jaxmlir.trace(loss)(layers, xs).optimize(1)
    remarks = []
    other = program.run_passes("jaxpr-factor-linear-sums", remarks=remarks.append).optimize(1)
    assert len(remarks) == 1
    batched = [line for line in str(other).splitlines() if "-> tensor<100x5x64xf32>" in line]
    assert sum("dot_general" in line for line in batched) == 1  # of the first derivatives
    np.testing.assert_allclose(other(layers, xs), loss(layers, xs), rtol=1e-5)


WIDE, SMALL = np.ones((300, 64), np.float32), np.ones((64, 64), np.float32)


@pytest.mark.parametrize(
    "function, args",
    [
        # The product is also a result of the program.
        (lambda x, w: ((y := (jnp.sin(x) * x) @ w), jnp.sum(y * x, 1)), (WIDE, SMALL)),
        # The linear chains are too short.
        (lambda x, w: jnp.mean(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2), (WIDE, SMALL)),
        # Partial sums in half precision would be rounded too early.
        (
            lambda x, w: jnp.sum(((x @ w) * x) @ w.T * x, 1),
            (WIDE.astype(np.float16), SMALL.astype(np.float16)),
        ),
        # The loop body is another function.
        (
            lambda x, w: jnp.sum(lax.fori_loop(0, 3, lambda _, y: (y * x) @ w, x), 1),
            (WIDE, SMALL),
        ),
    ],
)
def test_leaves_alone(function, args):
    program = jaxmlir.trace(function)(*args).optimize(1)
    assert str(program.run_passes("jaxpr-factor-linear-sums")) == str(program)


def test_does_it_once():
    loss, layers, xs = problem(trace_of_hessian)
    once = (
        jaxmlir.trace(loss)(layers, xs)
        .optimize(1)
        .run_passes("jaxpr-factor-linear-sums")
        .optimize(1)
    )
    assert str(once.run_passes("jaxpr-factor-linear-sums")) == str(once)


def test_the_work_is_linear_in_a_chain(monkeypatch):
    """One value gets cotangents from every op of a chain; these share their factors."""

    def chain(length):
        def function(x, w, scales):
            y = (x * scales[0]) @ w
            for i in range(length):
                y = (y + x * scales[i % 3]) * scales[(i + 1) % 3]
            return jnp.sum(y)

        matrix = np.ones((16, 16), np.float32)
        return jaxmlir.trace(function)(matrix, matrix, [matrix] * 3)

    count = 0
    product = Algebra.product

    def counted(*args, **kwargs):
        nonlocal count
        count += 1
        return product(*args, **kwargs)

    monkeypatch.setattr(Algebra, "product", counted)
    found = []
    for length in (50, 100):
        count = 0
        chain(length).run_passes("jaxpr-factor-linear-sums")
        found.append(count)
    assert 0 < found[1] < 2.5 * found[0]


def test_integers_are_exact():
    def function(x, w, v):
        y = jnp.einsum("pih,kh->pik", x * v[:, None], w)
        return jnp.max(jnp.trace(y, axis1=1, axis2=2))

    random = np.random.RandomState(0)
    shapes = [(200, 8, 32), (8, 32), (200, 32)]
    args = [random.randint(-(2**30), 2**30, shape).astype(np.int32) for shape in shapes]
    program = jaxmlir.trace(function)(*args).optimize(1)
    remarks = []
    other = program.run_passes("jaxpr-factor-linear-sums", remarks=remarks.append)
    assert remarks
    assert other(*args) == function(*args)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_what_is_nearly_an_identity(dtype):
    rng = np.random.RandomState(0)
    a, b = (rng.randint(-9, 9, (8, 8)).astype(dtype) for _ in "ab")

    def converted(a, b):
        return jnp.sum(lax.convert_element_type(-jnp.eye(8, dtype=np.int8), dtype) @ (a @ b), 0)

    def compared(a, b):
        i = lax.iota(np.int32, 8)
        return jnp.sum(((-i)[:, None] == i).astype(dtype) @ (a @ b), 0)

    def numbered_again(a, b):
        # In eight bits, row 256 has the number 0.
        i, j = (lax.broadcasted_iota(np.int8, (264, 264), d) for d in (0, 1))
        rows = jnp.concatenate([a @ b] * 33)
        return jnp.sum((i == j).astype(dtype) @ rows, 0)

    for function in (converted, compared, numbered_again):
        after = jaxmlir.trace(function)(a, b).run_passes("jaxpr-factor-linear-sums{min-gain=0}")
        np.testing.assert_array_equal(after(a, b), function(a, b))


def test_what_a_mask_keeps_out_is_not_multiplied_by_zero():
    """Masks may exclude rows, elements or constants that are not finite; relu's mask does not."""
    x = np.random.RandomState(0).standard_normal((64, 32))
    x[7] = np.nan
    w = weights([32, 48])[0]

    def rows(x):
        valid = jnp.isfinite(x).all(1)[:, None]
        return jnp.sin(jnp.sum(jnp.where(valid, x @ w @ w.T, 0), 0))

    def elements(x):
        return jnp.sin(jnp.sum(jnp.where(x > 0, jnp.log(x), 0) @ w @ w.T, 0))

    def constants(x):
        k = jnp.full(x.shape, -jnp.inf)
        return jnp.sin(jnp.sum(jnp.where(jnp.isfinite(k), k, 0) @ w @ w.T, 0))

    for f in (rows, elements, constants):
        program = jaxmlir.trace(f)(x).optimize(1)
        for gain in (0, 1):
            got = program.run_passes(f"jaxpr-factor-linear-sums{{min-gain={gain}}}")(x)
            np.testing.assert_allclose(got, program(x), rtol=1e-3, atol=1e-3)

    def rectified(x, t):
        _, dh = jax.jvp(lambda x: jax.nn.relu(x @ w), (x,), (t,))
        return jnp.sin(jnp.sum(dh @ w.T))

    program = jaxmlir.trace(rectified)(x[:7], x[8:15]).optimize(1)
    collapsed = program.run_passes("jaxpr-factor-linear-sums").optimize(1)
    assert [str(p).count("dot_general") for p in (program, collapsed)] == [3, 2]


@pytest.mark.parametrize("gain", [0, 1])
def test_what_a_diagonal_leaves_out_is_not_multiplied_by_zero(gain):
    """Elements off the diagonal, which may be infinite, must not enter the sums."""
    n = 64
    x, a = np.arange(n) % 40 + 1.0, weights([n, n])[0]

    def function(x, a):
        quotients = 1 / (x[:, None] - x + 0.5 * jnp.eye(n))
        diagonal = jnp.where(jnp.eye(n, dtype=bool), quotients * (a @ a), 0)
        return jnp.sin(diagonal @ a)

    program = jaxmlir.trace(function)(x, a).optimize(1)
    after = program.run_passes(f"jaxpr-factor-linear-sums{{min-gain={gain}}}")
    assert np.isfinite(program(x, a)).all()
    np.testing.assert_allclose(after(x, a), program(x, a), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.uint4, jnp.int8])
def test_quotients_of_integers_are_not_linear(dtype):
    rng = np.random.RandomState(0)
    x, w = (rng.randint(0, 8, (4, 4)).astype(dtype) for _ in "xw")

    def dot(x, y):
        return lax.dot(x, y, preferred_element_type=dtype)

    def function(x, w):
        return dot(lax.div(dot(x, w), jnp.full((4, 4), 3, dtype)), w.T)

    after = jaxmlir.trace(function)(x, w).run_passes("jaxpr-factor-linear-sums{min-gain=0}")
    got, want = (f(x, w).astype(np.int32) for f in (after, jax.jit(function)))
    np.testing.assert_array_equal(got, want)
