"""Products with fewer dimensions: numbers equal JAX's, for all ranks and orders of dimensions."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir.dialect import codec

FLATTEN = "jaxpr-dot-to-2d"
RNG = np.random.RandomState(0)


def ranks(program):
    """The ranks of the operands of each product."""
    ops = program.functions[program.name].entry_block.operations
    products = [op for op in ops if op.operation.name == "jaxpr.dot_general"]
    return [tuple(v.type.rank for v in op.operands) for op in products]


@examples(30)
@hypothesis.given(st.data())
def test_random_products(data):
    sizes = st.lists(st.integers(0, 3), max_size=3)
    batch, left, right, summed = (data.draw(sizes) for _ in range(4))
    dtype = data.draw(st.sampled_from((np.float32, np.int32, np.complex64)))

    def operand(free):
        """An array with its dimensions in any order, the program's transposition of it, and the
        positions of batch and contracting dimensions after that."""
        shape = [*batch, *free, *summed]
        order, first = (data.draw(st.permutations(range(len(shape)))) for _ in range(2))
        array = np.asarray(RNG.randn(*shape) * 4).astype(dtype)
        at = [order.index(d) for d in range(len(shape))]
        given = array.transpose(order).transpose(np.argsort(first))
        return given, first, at[: len(batch)], at[len(batch) + len(free) :]

    (x, order_x, batch_x, summed_x), (y, order_y, batch_y, summed_y) = operand(left), operand(right)

    def function(x, y):
        x, y = lax.transpose(x, order_x), lax.transpose(y, order_y)
        return lax.dot_general(x, y, ((summed_x, summed_y), (batch_x, batch_y)))

    program = jaxmlir.trace(function)(x, y).run_passes(FLATTEN)
    program.verify()
    np.testing.assert_allclose(program(x, y), function(x, y), 1e-5, 1e-5)
    assert str(program.run_passes(FLATTEN)) == str(program)


@pytest.mark.compat
def test_heads_are_products_of_matrices():
    def heads(w, x):
        return jnp.sum(jnp.sin(jnp.einsum("td,dhk->thk", x, w)))

    args = RNG.randn(8, 2, 4).astype(np.float32), RNG.randn(16, 8).astype(np.float32)
    gradient = jaxmlir.trace(heads)(*args).grad((0, 1)).run_passes(FLATTEN)
    assert set(ranks(gradient)) == {(2, 2)}
    for got, want in zip(gradient(*args), jax.grad(heads, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_matrices_are_not_transposed_in_loops():
    def function(w, x):
        return lax.scan(lambda x, _: (jnp.tanh(w.T @ x), None), x, None, length=10)[0]

    w, x = RNG.randn(4, 4).astype(np.float32), np.ones(4, np.float32)
    program = jaxmlir.trace(function)(w, x).optimize(1)
    flat = program.run_passes(FLATTEN)
    assert ['"jaxpr.transpose"' in str(p) for p in (program, flat)] == [True, False]
    np.testing.assert_allclose(flat(w, x), function(w, x), 1e-5, 1e-6)


@pytest.mark.parametrize(("rows", "rank"), [(4, 3), (64, 2)])
def test_wide_operands_are_copied(rows, rank):
    def function(x, y):
        return jnp.einsum("abi,abj->ij", x, y)

    x, y = (jax.ShapeDtypeStruct((2, rows, n), np.float32) for n in (32, 8))
    assert ranks(jaxmlir.trace(function)(x, y).run_passes(FLATTEN)) == [(rank, rank)]


def test_types_and_precision_stay():
    def function(x, y):
        return lax.dot_general(
            x, y, (((2,), (0,)), ((), ())), precision="highest", preferred_element_type=np.float32
        )

    x, y = (jax.ShapeDtypeStruct(shape, np.float16) for shape in ((2, 3, 4), (4, 5)))
    text = str(jaxmlir.trace(function)(x, y).run_passes(FLATTEN))
    assert "tensor<6x4xf16>, tensor<4x5xf16>) -> tensor<6x5xf32>" in text
    assert text.count("HIGHEST") == 2


@examples(30)
@hypothesis.given(st.data())
def test_transposes_that_swap_the_operands(data):
    sizes = st.lists(st.integers(0, 3), max_size=2)
    batch, left, right, summed = (data.draw(sizes) for _ in range(4))
    x = np.asarray(RNG.randn(*batch, *summed, *left)).astype(np.float32)
    y = np.asarray(RNG.randn(*batch, *right, *summed)).astype(np.float32)
    dims = range(len(batch)), range(len(batch), len(batch) + len(summed))
    of_batch, of_left, of_right = itertools.accumulate(map(len, (batch, left, right)))
    swap = [*range(of_batch), *range(of_left, of_right), *range(of_batch, of_left)]
    order = data.draw(st.sampled_from((swap, data.draw(st.permutations(swap)))))

    def function(x, y):
        summed_y = [d + len(right) for d in dims[1]]
        product = lax.dot_general(x, y, ((dims[1], summed_y), (dims[0], dims[0])))
        return jnp.sin(lax.transpose(product, order))

    program = jaxmlir.trace(function)(x, y)
    flat = program.run_passes(FLATTEN)
    flat.verify()
    np.testing.assert_allclose(flat(x, y), function(x, y), 1e-5, 1e-5)
    if left and right and summed and order == swap:
        assert "jaxpr.transpose" in str(program)
        assert "jaxpr.transpose" not in str(flat)


_ALGORITHM = lax.DotAlgorithm(jnp.bfloat16, np.float32, np.float32)


@pytest.mark.parametrize(
    ("precision", "parts"), [(("highest", "default"), ("DEFAULT", "HIGHEST")), (_ALGORITHM, ())]
)
def test_operands_keep_their_precision_where_they_are_swapped(precision, parts):
    def function(x, y):
        return lax.dot_general(x, y, (((0,), (0,)), ((), ())), precision=precision).T

    x, y = (jax.ShapeDtypeStruct((6, n), np.float32) for n in (4, 5))
    program = jaxmlir.trace(function)(x, y).run_passes(FLATTEN)
    product = program.functions["function"].entry_block.operations[0]
    assert [v.type.shape[1] for v in product.operands] == [5, 4]
    text = str(product)
    if parts:
        assert text.index(parts[0]) < text.index(parts[1])
    else:
        found = codec.decode(product.attributes["precision"])
        assert (found.lhs_precision_type, found.rhs_precision_type) == (np.float32, jnp.bfloat16)


@pytest.mark.compat
def test_gradients_in_weights_are_not_transposed():
    def layer(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    args = RNG.randn(8, 16).astype(np.float32), RNG.randn(2, 4, 8).astype(np.float32)
    gradient = jaxmlir.trace(layer)(*args).grad()
    flat = gradient.run_passes(FLATTEN)
    assert ["jaxpr.transpose" in str(p) for p in (gradient, flat)] == [True, False]
    np.testing.assert_allclose(flat(*args), jax.grad(layer)(*args), 1e-5, 1e-5)


@pytest.mark.compat
def test_what_products_read_as_a_matrix_is_summed_so():
    def layer(w, b, x):
        return jnp.sum(jnp.tanh(x @ w + b) ** 2)

    args = [RNG.randn(*shape).astype(np.float32) for shape in ((8, 16), (16,), (2, 4, 8))]
    gradient = jaxmlir.trace(layer)(*args).grad((0, 1))
    flat = gradient.run_passes(FLATTEN)
    sums = [str(p).count("(tensor<2x4x16xf32>) -> tensor<16xf32>") for p in (gradient, flat)]
    assert sums == [1, 0]
    for got, want in zip(flat(*args), jax.grad(layer, (0, 1))(*args), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)
