"""Products as elementwise ops: numbers equal JAX's, for all ranks and orders of dimensions."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir

EXPAND = "jaxpr-expand-products{calls=inf}"
RNG = np.random.RandomState(0)


@examples(25)
@hypothesis.given(st.data())
def test_random_products(data):
    sizes = st.lists(st.integers(0, 4), max_size=2)
    batch, left, right, summed = (data.draw(sizes) for _ in range(4))
    dtype = data.draw(st.sampled_from((np.float32, np.int32, np.complex64)))

    def operand(free):
        """An array with its dimensions in any order, and the positions of its batch dimensions and
        contracting dimensions."""
        shape = [*batch, *free, *summed]
        order = data.draw(st.permutations(range(len(shape))))
        array = RNG.randn(*shape).astype(dtype) if shape else np.asarray(RNG.randn(), dtype)
        at = [order.index(d) for d in range(len(shape))]
        return array.transpose(order), at[: len(batch)], at[len(batch) + len(free) :]

    (x, *of_x), (y, *of_y) = operand(left), operand(right)
    (batch_x, summed_x), (batch_y, summed_y) = of_x, of_y

    def function(x, y):
        return lax.dot_general(x, y, ((summed_x, summed_y), (batch_x, batch_y)))

    program = jaxmlir.trace(function)(x, y)
    after = program.run_passes(EXPAND)
    after.verify()
    size, rows, columns = (int(np.prod(sizes)) for sizes in (summed, left, right))
    of_vectors = min(rows, columns) == 1 < max(rows, columns)
    kept = size != 1 and (
        not 1 < size <= 8
        or 0 in (*batch, *left, *right)
        or (of_vectors and (np.prod(batch) == 1 or size > 4))
    )
    assert ("dot_general" in str(after)) == kept
    want = jax.jit(function)(x, y)
    assert after(x, y).dtype == want.dtype
    np.testing.assert_allclose(after(x, y), want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("x", "y", "kept"),
    [
        ((100, 4, 6), (100, 6, 5), False),
        ((100, 4, 9), (100, 9, 5), True),
        ((2000, 3), (3, 3), False),
        ((32, 8), (8, 32), False),
        ((48, 4), (4, 48), True),
        ((500, 4, 4), (500, 4), False),
        ((500, 5, 5), (500, 5), True),
        ((8, 8), (8,), True),
    ],
)
def test_which_products_are_of_small_matrices(x, y, kept):
    x, y = (RNG.randn(*shape).astype(np.float32) for shape in (x, y))
    of_batch = (0,) if x.ndim == 3 else ()
    dims = (((x.ndim - 1,), (len(of_batch),)), (of_batch, of_batch))
    program = jaxmlir.trace(lambda x, y: lax.dot_general(x, y, dims))(x, y)
    after = program.run_passes(EXPAND)
    assert ("dot_general" in str(after)) == kept
    np.testing.assert_allclose(after(x, y), program(x, y), 1e-5, 1e-5)


@pytest.mark.compat
def test_gradient_of_a_batch_of_filters():
    """A loop with chains of products of small matrices, of functions of them, and transposed."""

    def function(a, x):
        def step(p, x):
            p = jnp.tanh(a @ p @ jnp.swapaxes(a, -1, -2)) + jnp.exp(-(x**2)) @ jnp.sin(x)
            return p, jnp.sum(p @ x)

        return jnp.sum(lax.scan(step, x[0], x)[1])

    a, x = RNG.randn(80, 4, 4).astype(np.float32) / 4, RNG.randn(6, 80, 4, 4).astype(np.float32)
    after = jaxmlir.trace(function)(a, x).optimize(2).grad((0, 1)).optimize(2)
    assert "dot_general" not in str(after)
    for got, want in zip(after(a, x), jax.jit(jax.grad(function, (0, 1)))(a, x), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize(
    "dtypes", [(jnp.bfloat16, jnp.bfloat16), (jnp.bfloat16, np.float32), (np.bool_, np.bool_)]
)
def test_other_types_are_left_alone(dtypes):
    dtype, preferred = dtypes

    def function(x, y):
        return lax.dot_general(x, y, (((), ()), ((), ())), preferred_element_type=preferred)

    program = jaxmlir.trace(function)(jnp.ones(3, dtype), jnp.ones(4, dtype))
    assert str(program.run_passes(EXPAND)) == str(program)


def test_products_by_a_named_algorithm_are_left_alone():
    """The requested algorithm keeps digits that single precision loses."""
    with jax.enable_x64(True):
        x, y = RNG.randn(80, 4, 6).astype(np.float32), RNG.randn(80, 6, 5).astype(np.float32)
        x[..., 0], x[..., 1], y[:, 1] = 3e4, -3e4, y[:, 0]

        def function(x, y):
            return jnp.matmul(x, y, precision="F64_F64_F64")

        program = jaxmlir.trace(function)(x, y)
        assert str(program.run_passes(EXPAND)) == str(program)
        want = jax.jit(function)(x, y)
        np.testing.assert_allclose(program.optimize(2)(x, y), want, 1e-5, 1e-6)


@pytest.mark.compat
def test_gradient_of_a_kernel_of_pairs():
    """Products of vectors that are batched twice are elementwise, and so are their derivatives."""
    x = RNG.randn(80, 3).astype(np.float32)

    def kernel(a, b):
        return jnp.exp(-jnp.sum((a - b) ** 2)) + 1 / (1 + jnp.dot(a - b, a - b))

    def function(x):
        index = jnp.arange(len(x))
        return jnp.mean(jax.vmap(lambda i: jax.vmap(lambda j: kernel(x[i], x[j]))(index))(index))

    after = jaxmlir.trace(function)(x).optimize(2).grad().optimize(2)
    assert "dot_general" not in str(after)
    np.testing.assert_allclose(after(x), jax.jit(jax.grad(function))(x), 1e-4, 1e-6)
