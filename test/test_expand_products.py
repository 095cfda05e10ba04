"""Products as elementwise ops: numbers are JAX's, of all ranks and orders of dimensions."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-products{platform=cpu}"
RNG = np.random.RandomState(0)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(st.data())
def test_random_products(data):
    sizes = st.lists(st.integers(0, 4), max_size=2)
    batch, left, right, summed = (data.draw(sizes) for _ in range(4))
    dtype = data.draw(st.sampled_from((np.float32, np.int32, np.complex64)))

    def operand(free):
        """An array with its dimensions in any order, and where those of the batch and of the sum
        are."""
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
    size = int(np.prod(summed))
    kept = size != 1 and not (1 < size <= 8 and not left and not right)
    assert ("dot_general" in str(after)) == kept
    want = jax.jit(function)(x, y)
    assert after(x, y).dtype == want.dtype
    np.testing.assert_allclose(after(x, y), want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    "dtypes", [(jnp.bfloat16, jnp.bfloat16), (jnp.bfloat16, np.float32), (np.bool_, np.bool_)]
)
def test_other_types_are_left_alone(dtypes):
    dtype, preferred = dtypes

    def function(x, y):
        return lax.dot_general(x, y, (((), ()), ((), ())), preferred_element_type=preferred)

    program = jaxmlir.trace(function)(jnp.ones(3, dtype), jnp.ones(4, dtype))
    assert str(program.run_passes(EXPAND)) == str(program)


@pytest.mark.compat
def test_gradient_of_a_kernel_of_pairs():
    """Batched twice, products of vectors and their derivatives are elementwise."""
    x = RNG.randn(80, 3).astype(np.float32)

    def kernel(a, b):
        return jnp.exp(-jnp.sum((a - b) ** 2)) + 1 / (1 + jnp.dot(a - b, a - b))

    def function(x):
        index = jnp.arange(len(x))
        return jnp.mean(jax.vmap(lambda i: jax.vmap(lambda j: kernel(x[i], x[j]))(index))(index))

    after = jaxmlir.trace(function)(x).optimize(2).grad().optimize(2)
    assert "dot_general" not in str(after)
    np.testing.assert_allclose(after(x), jax.jit(jax.grad(function))(x), 1e-4, 1e-6)
