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
from jaxmlir.optimize.cpu import expand_products

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


def split_small_arrays(program):
    """The program after the pass, for which arrays of any size are worth being split into parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expand_products, "SPLIT", 0.0)
        return program.run_passes(EXPAND)


@examples(30)
@hypothesis.given(st.data())
def test_random_complex_products(data):
    sizes = st.lists(st.integers(0, 5), max_size=2)
    batch, left, right = (data.draw(sizes) for _ in range(3))
    summed = data.draw(st.lists(st.integers(3, 5), min_size=2, max_size=3))
    wide = data.draw(st.booleans())

    def operand(free, kind):
        """An array with its batch first and its other dimensions in any order, and the positions
        of its contracting dimensions."""
        shape, n = [*batch, *free, *summed], len(batch)
        order = [*range(n), *data.draw(st.permutations(range(n, len(shape))))]
        array = RNG.randn(*shape) + (1j * RNG.randn(*shape) if kind == "complex" else 0)
        types = {"complex": np.complex64, "real": np.float32, "integer": np.int32}
        wider = {"complex": np.complex128, "real": np.float64, "integer": np.int32}
        array = (3 * array).astype((wider if wide else types)[kind])
        return array.transpose(order), [order.index(d) for d in range(n + len(free), len(shape))]

    kinds = data.draw(st.permutations(["complex", "real", "integer", "complex"]))[:2]
    with jax.enable_x64(True):
        result = np.complex128 if wide else np.complex64
        (x, of_x), (y, of_y) = map(operand, (left, right), kinds)
        dims = ((of_x, of_y), (range(len(batch)),) * 2)
        part = data.draw(st.sampled_from((lambda z: z, lax.real, lax.imag)))

        def function(x, y):
            return part(lax.dot_general(x.astype(result), y.astype(result), dims))

        program = jaxmlir.trace(function)(x, y)
        after = split_small_arrays(program)
        after.verify()
        lines = [line for line in str(after).split("\n") if "dot_general" in line]
        assert 0 in (*batch, *left, *right) or not any("complex" in line for line in lines)
        want = jax.jit(function)(x, y)
        assert after(x, y).dtype == want.dtype
        tolerance = 1e-11 if wide else 1e-4
        np.testing.assert_allclose(after(x, y), want, tolerance, 100 * tolerance)


@pytest.mark.parametrize(
    ("x", "y", "kept"),
    [
        ((64, 64), (64, 64), False),
        ((16, 16), (16, 16), True),
        ((1024, 1024), (1024,), True),
        ((512, 9), (9, 512), True),
        ((2, 64, 64), (2, 64, 64), False),
        ((4000, 64), (64, 64), False),
    ],
)
def test_which_complex_products_are_split_into_parts(x, y, kept):
    of_batch = (0,) if len(x) == 3 else ()
    dims = (((len(x) - 1,), (len(of_batch),)), (of_batch, of_batch))
    arrays = [jnp.ones(shape, np.complex64) for shape in (x, y)]
    program = jaxmlir.trace(lambda x, y: lax.dot_general(x, y, dims))(*arrays)
    assert (str(program.run_passes(EXPAND)) == str(program)) == kept


def test_products_with_a_real_operand_split_only_the_other():
    """A product of a real matrix with a complex vector is split: the matrix is read as it is."""
    x, y = jnp.ones((256, 256)), jnp.ones(256, np.complex64)
    for function in (jnp.matmul, lambda x, y: x.astype(y.dtype) @ y):
        program = jaxmlir.trace(function)(x, y)
        after = program.run_passes(EXPAND)
        assert str(after).count("dot_general") == 2
        np.testing.assert_allclose(after(x, y), program(x, y), 1e-5)
    turned = jaxmlir.trace(jnp.matmul)(x.astype(np.complex64), jnp.ones(256))
    assert str(turned.run_passes(EXPAND)) == str(turned)


def test_parts_that_are_not_finite():
    """Each part is that of the formula; JAX's library turns both into NaN if one is not finite."""
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
    values = np.array([complex(a, b) for a in special for b in special], np.complex64)
    x, y = np.ones((2, 36, 20), np.complex64)
    x[:, 3], y[:, 3] = values, values
    after = split_small_arrays(jaxmlir.trace(lambda x, y: x @ y.T)(x, y))
    got, want = np.asarray(after(x, y)), np.asarray(jax.jit(lambda x, y: x @ y.T)(x, y))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[finite], want[finite])
    with np.errstate(invalid="ignore"):
        left, right = values[:, None], values[None]
        real = left.real * right.real - left.imag * right.imag + 19
        imaginary = left.real * right.imag + left.imag * right.real
    np.testing.assert_array_equal(got.real, real)
    np.testing.assert_array_equal(got.imag, imaginary)


@pytest.mark.compat
def test_gradient_of_a_unitary_evolution():
    """Products in a loop, with a matrix that is real, conjugated and transposed."""
    h, x = RNG.randn(64, 64).astype(np.float32) / 8, RNG.randn(2, 64, 64).astype(np.float32)

    def function(h, x):
        def step(u, _):
            u = u - 0.1j * (h @ u)
            return u @ jnp.conj(u).T, None

        u = lax.scan(step, (x[0] + 1j * x[1]) / 16, None, length=3)[0]
        return jnp.sum(jnp.abs(u) ** 2)

    after = jaxmlir.trace(function)(h, x).optimize(2).grad((0, 1)).optimize(2)
    products = [line for line in str(after).split("\n") if "dot_general" in line]
    assert products and not any("complex" in line for line in products)
    for got, want in zip(after(h, x), jax.jit(jax.grad(function, (0, 1)))(h, x), strict=True):
        np.testing.assert_allclose(got, want, 1e-3, 1e-5 * np.abs(want).max())
