"""Convolutions rewritten into other ones, against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir

EXPAND = "jaxpr-expand-convolutions{calls=inf}"
RNG = np.random.RandomState(0)
DIMENSIONS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32)


def convolved(rank, dimensions=None, strides=None, padding="SAME", **options):
    def function(x, k):
        return lax.conv_general_dilated(
            x,
            k,
            strides or (1,) * rank,
            padding,
            dimension_numbers=dimensions or DIMENSIONS[rank],
            **options,
        )

    return function


def remarked(program):
    remarks = []
    after = program.run_passes(EXPAND, remarks=remarks.append)
    after.verify()
    return after, [r.message.partition("] ")[2] for r in remarks]


BATCH = "replaced {} batch groups by feature groups"
GROUPS, ZEROS, FLAT, ORDER, PADDED = (
    "split into one convolution per group",
    "split by phase, which skips the zeros of a dilated array",
    "split into convolutions in two dimensions",
    "transposed into the dimension order of the library",
    "padded by a separate op",
)


@pytest.mark.parametrize(
    ("image", "kernel", "options", "steps"),
    [
        ((2, 7, 6, 8), (3, 2, 4, 4), {"feature_group_count": 2}, [GROUPS, BATCH.format(2), GROUPS]),
        (
            (2, 6, 20),
            (3, 2, 10),
            {"feature_group_count": 10, "strides": (2,)},
            [BATCH.format(10)],
        ),
        (
            (2, 8, 6, 5),
            (2, 4, 3, 3),
            {
                "feature_group_count": 2,
                "dimensions": ("NCHW", "OIHW", "CNHW"),
                "padding": ((2, 0), (1, 3)),
                "rhs_dilation": (1, 2),
            },
            [GROUPS, BATCH.format(2), GROUPS],
        ),
        (
            (2, 4, 5, 3),
            (4, 3, 3, 2),
            {"lhs_dilation": (2, 3), "padding": ((2, 1), (1, -1))},
            [ZEROS],
        ),
        # A kernel that is larger than the array, and smaller than the result.
        ((2, 9, 9, 3), (4, 4, 3, 2), {"strides": (3, 3)}, [ZEROS]),
        ((1, 5, 6, 7, 2), (3, 2, 2, 2, 3), {}, [FLAT] * 3),
        ((2, 6, 5, 7, 3), (2, 3, 3, 3, 2), {"strides": (2, 1, 3)}, [FLAT, ZEROS, FLAT]),
        (
            (1, 4, 3, 4, 4),
            (3, 2, 2, 2, 4),
            {"feature_group_count": 2, "lhs_dilation": (1, 2, 2), "padding": ((1, 2),) * 3},
            [ZEROS, BATCH.format(2), FLAT],
        ),
        (
            (4, 8, 7, 6),
            (5, 8, 3, 2),
            {"dimensions": ("NCHW", "OIHW", "NCHW")},
            [ORDER, ORDER, PADDED],
        ),
        ((3, 9, 8, 5), (3, 3, 5, 6), {"strides": (2, 1)}, [ORDER, PADDED]),
        ((5, 8, 7, 6), (3, 2, 6, 8), {"rhs_dilation": (1, 2)}, [ORDER] * 2),
        ((1, 9, 8, 5), (3, 3, 5, 6), {"padding": ((2, -1), (0, 1))}, [ORDER, PADDED]),
        ((1, 9, 8, 5), (3, 3, 5, 6), {"padding": "VALID"}, [ORDER]),
    ],
)
def test_same_as_jax(image, kernel, options, steps):
    """The results and gradients of a convolution equal JAX's."""
    args, function = (normal(*image), normal(*kernel)), convolved(len(image) - 2, **options)
    cotangent = normal(*jax.eval_shape(function, *args).shape)

    def loss(x, k):
        return jnp.sum(jnp.sin(function(x, k)) * cotangent)

    gradient = jaxmlir.trace(loss)(*args).value_and_grad((0, 1))
    after, done = remarked(gradient)
    assert sorted(done) == sorted(steps)
    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(*args)
    for a, b in zip(jax.tree.leaves(after(*args)), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.compat
def test_in_a_batch():
    x, k = normal(3, 2, 6, 6, 4), normal(2, 2, 2, 4)
    function = jax.vmap(convolved(2, feature_group_count=2), (0, None))
    program = jaxmlir.trace(function)(x, k).optimize(2).run_passes(EXPAND)
    assert str(program).count("conv_general_dilated") != 1
    np.testing.assert_allclose(program(x, k), function(x, k), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("image", "kernel", "options", "dtype"),
    [
        ((2, 9, 9, 8), (3, 3, 8, 4), {}, "float32"),
        ((2, 3, 9, 9), (5, 3, 3, 3), {"dimensions": ("NCHW", "OIHW", "NCHW")}, "float32"),
        ((2, 9, 9, 9), (3, 3, 1, 9), {"feature_group_count": 9}, "float32"),
        ((2, 5, 5, 2), (3, 3, 2, 2), {"lhs_dilation": (2, 2), "padding": ((0, 0),) * 2}, "float32"),
        ((1, 5, 5, 5, 2), (3, 3, 3, 2, 2), {}, "bfloat16"),
        ((0, 6, 20), (3, 2, 20), {"feature_group_count": 10}, "float32"),
    ],
)
def test_left_alone(image, kernel, options, dtype):
    args = (jnp.zeros(image, dtype), jnp.zeros(kernel, dtype))
    program = jaxmlir.trace(convolved(len(image) - 2, **options))(*args)
    assert remarked(program)[1] == []


def test_in_a_loop():
    """In a loop XLA does not change the order of dimensions."""
    function = convolved(2)

    def loss(k, x):
        return lax.scan(lambda y, k: (jnp.tanh(function(y, k)), jnp.sum(y**2)), x, k)[1].sum()

    args = normal(3, 3, 3, 5, 5) / 4, normal(4, 6, 7, 5)
    gradient = jaxmlir.trace(loss)(*args).grad((0, 1))
    after, done = remarked(gradient)
    assert sorted(done) == [PADDED, ORDER]
    want = jax.jit(jax.grad(loss, (0, 1)))(*args)
    for a, b in zip(after(*args), want, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("image", "options"),
    [
        ((1, 5, 5, 8), {"lhs_dilation": (2, 3), "padding": ((-1, 3), (3, -2))}),
        ((2, 9, 9, 8), {"padding": ((-1, 1), (1, -1))}),
        ((1, 9, 9, 8), {"padding": ((0, -1), (-1, 2)), "rhs_dilation": (2, 1)}),
    ],
)
def test_padding_and_cutting(image, options):
    """XLA reads out of bounds if one side is cropped and the other one padded."""
    options = {"dimensions": ("NHWC", "HWOI", "NCHW"), **options}
    x, k = normal(*image), normal(9 // options.get("rhs_dilation", (1,))[0], 9, 6, 8)
    after, done = remarked(jaxmlir.trace(convolved(2, **options))(x, k))
    assert done
    dilations = options.pop("lhs_dilation", (1, 1))
    pairs = zip(options.pop("padding"), dilations, strict=True)
    edges = [(0, 0, 0), *((*p, d - 1) for p, d in pairs), (0, 0, 0)]
    want = convolved(2, padding="VALID", **options)(lax.pad(x, np.float32(0), edges), k)
    np.testing.assert_allclose(after(x, k), want, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("kernel", "dilations", "padding", "spread"),
    [
        ((3, 1), (2, 1), ((3, 0), (1, -1)), (1, 2)),
        ((1, 3), (1, 3), ((-1, 1), (3, 0)), (2, 1)),
        ((1, 2), (1, 2), ((2, -1), (0, 1)), (1, 1)),
        ((1, 3), (1, 2), ((0, 0), (1, 1)), (1, 1)),
    ],
)
def test_what_is_cut_off_is_not_read(kernel, dilations, padding, spread):
    """For a single image, XLA multiplies an element instead of the zero beside it."""
    x, k = normal(1, 1, 1, 64), normal(*kernel, 64, 2)
    options = {"padding": padding, "lhs_dilation": dilations, "rhs_dilation": spread}
    program = jaxmlir.trace(convolved(2, **options))(x, k)
    after, done = remarked(program)
    edges = [(0, 0, 0), *((*p, d - 1) for p, d in zip(padding, dilations, strict=True)), (0, 0, 0)]
    padded = np.asarray(lax.pad(x, np.float32(0), edges))
    want = convolved(2, padding="VALID", rhs_dilation=spread)(padded, k)
    np.testing.assert_allclose(after(x, k), want, 1e-4, 1e-4)
    is_cut = any(low < 0 or high < 0 for low, high in padding)
    assert bool(done) == (not is_cut)
