"""``jaxpr-matmul-precision``; the function with conversions written by hand is the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from sampling import examples

import jaxmlir
from jaxmlir.errors import PassError

PASS = "jaxpr-matmul-precision"


def narrow_dot(x, y, dtype=jnp.bfloat16):
    return lax.dot_general(
        x.astype(dtype),
        y.astype(dtype),
        (((x.ndim - 1,), (0,)), ((), ())),
        preferred_element_type=jnp.float32,
    )


def model(dot):
    def loss(params, x):
        h = jnp.tanh(dot(x, params["w"]) + params["b"])

        def layer(h, w):
            return jnp.tanh(dot(h, w)), None

        h, _ = lax.scan(layer, h, params["stack"])
        return jnp.mean(h**2)

    return loss


def arguments():
    keys = iter(jax.random.split(jax.random.key(0), 4))
    params = {
        "w": jax.random.normal(next(keys), (8, 16)),
        "b": jnp.ones(16),
        "stack": jax.random.normal(next(keys), (3, 16, 16)),
    }
    return params, jax.random.normal(next(keys), (4, 8))


def same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.compat
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_as_written_by_hand(dtype):
    args = arguments()
    program = jaxmlir.trace(model(jnp.matmul))(*args)
    narrow = program.run_passes(f"{PASS}{{dtype={dtype.__name__}}}")
    by_hand = jax.jit(model(lambda x, y: narrow_dot(x, y, dtype)))
    same(narrow(*args), by_hand(*args))
    assert narrow(*args) != program(*args)


def test_before_differentiation():
    args = arguments()
    gradient = jaxmlir.trace(model(jnp.matmul))(*args).run_passes(PASS).grad()
    same(gradient(*args), jax.jit(jax.grad(model(narrow_dot)))(*args))


def test_after_differentiation_the_backward_products_are_narrow_too():
    args = arguments()
    gradient = jaxmlir.trace(model(jnp.matmul))(*args).grad()
    narrow = gradient.run_passes(PASS)
    narrow.verify()
    text = str(narrow)
    assert text.count('"jaxpr.dot_general"') == str(gradient).count('"jaxpr.dot_general"') > 3
    lines = [line for line in text.splitlines() if '"jaxpr.dot_general"' in line]
    assert all("xbf16>, tensor<" in line for line in lines)
    for got, want in zip(*map(jax.tree.leaves, (narrow(*args), gradient(*args))), strict=True):
        np.testing.assert_allclose(got, want, atol=0.05 * float(jnp.abs(want).max()))


@examples(5)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0, 4, 16]))
def test_products_of_any_size_and_the_least_size(rows, inner, columns, least):
    x = jax.random.normal(jax.random.key(rows), (rows, inner))
    y = jax.random.normal(jax.random.key(columns), (inner, columns))
    program = jaxmlir.trace(jnp.matmul)(x, y).run_passes(f"{PASS}{{min-size={least}}}")
    is_narrow = min(x.size, y.size) >= least
    same(program(x, y), jax.jit(narrow_dot if is_narrow else jnp.matmul)(x, y))


@pytest.mark.compat
def test_policy():
    def function(x):
        with jax.named_scope("loss"):
            exact = x @ x
        asked = jnp.matmul(x, x, precision="highest")
        image = x[None, None]
        return exact, asked, lax.conv(image, image, (1, 1), "SAME"), x.astype(jnp.float16) @ x

    x = jnp.ones((4, 4))
    program = jaxmlir.trace(function)(x)
    assert str(program.run_passes(f"{PASS}{{exact=loss}}")).count("new_dtype = bf16") == 1
    assert str(program.run_passes(PASS)).count("new_dtype = bf16") == 2
    remarks = []
    program.run_passes(f"{PASS}{{ops=conv_general_dilated}}", remarks=remarks.append)
    (remark,) = remarks
    assert remark.message == "[jaxpr-matmul-precision] operands are rounded to bf16"
    assert remark.file == __file__


def test_an_unknown_dtype():
    with pytest.raises(PassError, match="option 'dtype': 'bfloat17' is not a dtype"):
        jaxmlir.trace(jnp.sin)(1.0).run_passes(f"{PASS}{{dtype=bfloat17}}")


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_a_dtype_that_is_not_narrower(dtype):
    with pytest.raises(PassError, match=f"floats narrower than float32, got '{dtype}'"):
        jaxmlir.trace(jnp.sin)(1.0).run_passes(f"{PASS}{{dtype={dtype}}}")


@pytest.mark.compat
def test_symbolic_sizes():
    """A symbolic size counts as the least possible one."""
    (b,) = jax.export.symbolic_shape("b")
    shapes = (b, 4), (4, 6)
    args = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    program = jaxmlir.trace(jnp.matmul)(*args)
    for least, narrowed in ((0, 2), (4, 2), (5, 0)):
        after = program.run_passes(f"jaxpr-matmul-precision{{min-size={least}}}")
        after.verify()
        assert str(after).count("convert_element_type") == narrowed
    x, y = np.ones((3, 4), np.float32), np.ones((4, 6), np.float32)
    np.testing.assert_array_equal(program.run_passes("jaxpr-matmul-precision")(x, y), x @ y)
