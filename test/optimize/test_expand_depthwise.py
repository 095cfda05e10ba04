"""Depthwise convolutions and their gradients as products of slices, against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-depthwise{calls=inf}"
RNG = np.random.RandomState(0)
CHANNELS = 6


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32)


def arrays(layout, results=CHANNELS, size=(7, 9), kernel=(3, 2)):
    """An array, and a kernel for each of its channels, with dimensions in a given layout."""
    sizes = {"N": 2, "C": CHANNELS, "I": 1, "O": results}
    lhs, rhs, _ = layout
    image = iter(size)
    taps = iter(kernel)
    x = normal(*(sizes[d] if d in sizes else next(image) for d in lhs))
    k = normal(*(sizes[d] if d in sizes else next(taps) for d in rhs))
    return x, k


def convolved(layout, groups=CHANNELS, **options):
    options = {"window_strides": (1, 1), "padding": "SAME", **options}

    def function(x, k):
        return lax.conv_general_dilated(
            x, k, dimension_numbers=layout, feature_group_count=groups, **options
        )

    return function


def convolutions(program):
    return str(program).count('"jaxpr.conv_general_dilated"')


NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


@pytest.mark.parametrize(
    ("layout", "options", "left"),
    [
        (NHWC, {}, 0),
        (NCHW, {"padding": "VALID"}, 0),
        (("NHWC", "OIHW", "CNHW"), {"padding": ((2, 0), (1, 3))}, 0),
        (NHWC, {"window_strides": (2, 3)}, 0),
        (NCHW, {"rhs_dilation": (2, 3), "window_strides": (2, 1)}, 0),
        (NHWC, {"lhs_dilation": (2, 1), "padding": ((1, 1), (-1, 2))}, 0),
    ],
)
def test_same_as_jax(layout, options, left):
    args, function = arrays(layout), convolved(layout, **options)
    cotangent = normal(*jax.eval_shape(function, *args).shape)

    def loss(x, k):
        return jnp.sum(jnp.sin(function(x, k)) * cotangent)

    gradient = jaxmlir.trace(loss)(*args).value_and_grad((0, 1))
    after = gradient.run_passes(EXPAND)
    after.verify()
    assert [convolutions(p) for p in (gradient, after)] == [3, left]
    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(*args)
    for a, b in zip(jax.tree.leaves(after(*args)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


def test_what_is_to_be_summed_in_double_precision_is_left_alone():
    with jax.enable_x64(True):
        x, k = arrays(NHWC)
        f = convolved(NHWC, preferred_element_type=np.float64)
        program = jaxmlir.trace(f)(x, k).run_passes(EXPAND)
        np.testing.assert_allclose(program(x, k), f(*map(np.float64, (x, k))), rtol=0, atol=1e-14)


def test_no_dimensions_but_batch_and_channels():
    args, function = (normal(4, 6), normal(8, 3)), convolved(None, 2, window_strides=(), padding=())
    after = jaxmlir.trace(function)(*args).run_passes(EXPAND)
    assert convolutions(after) == 0
    np.testing.assert_allclose(after(*args), function(*args), 1e-5, 1e-5)


@pytest.mark.compat
def test_several_results_for_each_channel():
    args, function = arrays(NHWC, 3 * CHANNELS), convolved(NHWC)
    after = jaxmlir.trace(function)(*args).run_passes(EXPAND)
    assert convolutions(after) == 0
    np.testing.assert_allclose(after(*args), function(*args), 1e-4, 1e-4)


@pytest.mark.parametrize("layout", [NHWC, NCHW])
def test_groups_of_a_few_channels(layout):
    x, _ = arrays(layout)
    k = normal(3, 2, 3, 4) if layout == NHWC else normal(4, 3, 3, 2)
    function = convolved(layout, 2)
    after = jaxmlir.trace(function)(x, k).run_passes(EXPAND)
    assert convolutions(after) == 0
    np.testing.assert_allclose(after(x, k), function(x, k), 1e-4, 1e-4)


def test_single_channel():
    x, k = normal(11, 9), normal(3, 2)

    def loss(x, k):
        return jnp.sum(jnp.sin(jax.scipy.signal.convolve2d(x, k, "same")))

    gradient = jaxmlir.trace(loss)(x, k).grad((0, 1)).optimize(1)
    after = gradient.run_passes(EXPAND)
    assert [convolutions(p) for p in (gradient, after)] == [3, 1]
    for a, b in zip(after(x, k), jax.grad(loss, (0, 1))(x, k), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("layout", "channels", "options"),
    [
        (NHWC, (3, 2), {}),
        (NCHW, (1, 9), {"padding": ((2, 0), (-1, 3)), "rhs_dilation": (1, 2)}),
        (("NHWC", "OIHW", "CNHW"), (2, 8), {"window_strides": (2, 1)}),
    ],
)
def test_few_channels(layout, channels, options):
    sizes = dict(zip("IO", channels, strict=True)) | {"N": 2, "C": channels[0]}
    x, k = (
        normal(*(sizes.get(d, {"H": h, "W": w}.get(d)) for d in dims))
        for dims, h, w in ((layout[0], 7, 9), (layout[1], 3, 2))
    )
    function = convolved(layout, 1, **options)

    def loss(x, k):
        return jnp.sum(jnp.sin(function(x, k)))

    # The gradient in the kernel is a convolution with an image.
    gradient = jaxmlir.trace(loss)(x, k).grad((0, 1))
    after = gradient.run_passes(EXPAND)
    backwards = channels[1] > 3
    assert [convolutions(p) for p in (gradient, after)] == [3, 1 + backwards]
    for a, b in zip(after(x, k), jax.grad(loss, (0, 1))(x, k), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("image", "kernel"),
    [((2, 9, 9, 4), (3, 3, 4, 1)), ((2, 9, 9, 3), (3, 3, 3, 6)), ((1, 9, 9, 1), (9, 8, 1, 1))],
)
def test_more_channels_are_left_alone(image, kernel):
    """Convolutions with more channels, or with larger kernels."""
    x, k = normal(*image), normal(*kernel)
    after = jaxmlir.trace(convolved(NHWC, 1))(x, k).run_passes(EXPAND)
    assert convolutions(after) == 1


def test_batch_of_kernels():
    x, k = arrays(NCHW)
    function = jax.vmap(convolved(NCHW), (None, 0))
    ks = np.stack([k, 2 * k])
    after = jaxmlir.trace(function)(x, ks).optimize(1).run_passes(EXPAND)
    np.testing.assert_allclose(after(x, ks), function(x, ks), 1e-4, 1e-4)


def test_a_kernel_that_is_too_wide():
    """The convolution has no results, and its gradient is zero."""
    x, k = arrays(NHWC, size=(7, 1))
    program = jaxmlir.trace(convolved(NHWC, padding="VALID"))(x, k)
    assert str(program.run_passes(EXPAND)) == str(program)

    def loss(x, k):
        return jnp.sum(convolved(NHWC, padding="VALID")(x, k))

    gradient = jaxmlir.trace(loss)(x, k).grad((0, 1))
    for found in gradient.run_passes(EXPAND)(x, k):
        np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize(
    ("groups", "kernel", "dtype"),
    [(1, (3, 3), np.float32), (2, (5, 5), np.float32), (6, (9, 9), np.float32)]
    + [(6, (3, 3), jnp.bfloat16)],
)
def test_left_alone(groups, kernel, dtype):
    x = jnp.asarray(normal(2, 12, 12, CHANNELS), dtype)
    k = jnp.asarray(normal(*kernel, CHANNELS // groups, CHANNELS), dtype)
    program = jaxmlir.trace(convolved(NHWC, groups))(x, k)
    assert str(program.run_passes(EXPAND)) == str(program)
