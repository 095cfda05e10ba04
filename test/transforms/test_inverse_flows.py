"""Normalising flows: a model maps samples to data, and is trained by the log-determinant of its
inverse.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import jaxmlir
from jaxmlir.transforms.inverses.solver import Site

pytestmark = pytest.mark.compat

SIZE, HIDDEN, BATCH, STEPS = 4, 8, 64, 30


def dense(params, x):
    return jnp.tanh(x @ params["in"]) @ params["out"]


def random_dense(key, n_in, n_out):
    first, second = jax.random.split(key)
    return {
        "in": 0.5 * jax.random.normal(first, (n_in, HIDDEN)),
        "out": 0.3 * jax.random.normal(second, (HIDDEN, n_out)),
    }


def real_nvp(params, x):
    """Coupling layers: functions of one half scale and shift the other half, then both swap."""
    for layer in params:
        a, b = jnp.split(x, 2)
        log_scale, shift = jnp.split(dense(layer, a), 2)
        x = jnp.concatenate([b * jnp.exp(jnp.tanh(log_scale)) + shift, a])
    return x


def autoregressive(params, x):
    """Functions of the earlier elements, summarized in a state, scale and shift each element."""

    def step(state, x):
        log_scale, shift = dense(params["net"], state)
        y = x * jnp.exp(jnp.tanh(log_scale)) + shift
        return jnp.tanh(state @ params["state"] + y * params["input"]), y

    return lax.scan(step, jnp.zeros(HIDDEN), x)[1]


def real_nvp_params(key):
    return [random_dense(k, SIZE // 2, SIZE) for k in jax.random.split(key, 3)]


def autoregressive_params(key):
    keys = jax.random.split(key, 3)
    return {
        "net": random_dense(keys[0], HIDDEN, 2),
        "state": 0.3 * jax.random.normal(keys[1], (HIDDEN, HIDDEN)),
        "input": jax.random.normal(keys[2], (HIDDEN,)),
    }


@pytest.mark.parametrize(
    ("flow", "make_params"),
    [(real_nvp, real_nvp_params), (autoregressive, autoregressive_params)],
    ids=["real_nvp", "autoregressive"],
)
def test_flow_is_trained_by_its_inverse(flow, make_params):
    key, data_key = jax.random.split(jax.random.key(0))
    params = make_params(key)
    raw = jax.random.normal(data_key, (BATCH, SIZE))
    data = jnp.stack([raw[:, 0], raw[:, 1] + raw[:, 0] ** 2, *jnp.sinh(raw[:, 2:]).T], 1)
    inverse = jaxmlir.trace(flow)(params, data[0]).inverse_and_log_det(argnums=1)
    inverse.verify()

    def loss(params, data):
        x, log_det = jax.vmap(inverse, (0, None))(data, params)
        return jnp.mean(jnp.sum(x * x, -1) / 2 - log_det)

    optimizer = optax.adam(1e-2)

    @jax.jit
    def train(params, data):
        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params, data)
            updates, state = optimizer.update(grads, state)
            return (optax.apply_updates(params, updates), state), value

        (params, _), losses = lax.scan(step, (params, optimizer.init(params)), None, length=STEPS)
        x, log_det = jax.vmap(inverse, (0, None))(data, params)
        again = jax.vmap(flow, (None, 0))(params, x)
        jacobians = jax.vmap(jax.jacfwd(flow, 1), (None, 0))(params, x)
        return losses, again, log_det, -jnp.linalg.slogdet(jacobians)[1]

    losses, again, log_det, expected = train(params, data)
    assert losses[-1] < losses[0] - 0.3
    np.testing.assert_allclose(again, data, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(log_det, expected, rtol=1e-4, atol=1e-4)


def test_glow_step():
    """An invertible convolution of pixels, an affine coupling of channels, and a squeeze."""
    rng = np.random.default_rng(0)
    kernel = np.linalg.qr(rng.standard_normal((4, 4)))[0].astype(np.float32)
    net = rng.standard_normal((2, 4)).astype(np.float32)

    def step(image):
        height, width, channels = image.shape
        blocks = image.reshape(height // 2, 2, width // 2, 2, channels)
        x = blocks.transpose(0, 2, 1, 3, 4).reshape(height // 2, width // 2, 4 * channels)
        x = lax.conv_general_dilated(
            x[None],
            1.5 * kernel[None, None],
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]
        a, b = jnp.split(x, 2, -1)
        log_scale, shift = jnp.split(jnp.tanh(a @ net), 2, -1)
        return jnp.concatenate([a, b * jnp.exp(log_scale) + shift], -1)

    image = rng.standard_normal((4, 4, 1)).astype(np.float32)
    found, log_det = jaxmlir.trace(step)(image).inverse_and_log_det()(step(image))
    np.testing.assert_allclose(found, image, rtol=1e-4, atol=1e-4)
    flat = jax.jacfwd(lambda x: step(x.reshape(image.shape)).ravel())(image.ravel())
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(flat)[1], rtol=1e-4)


@pytest.mark.parametrize("shape", [(3, 3), (1, 3), (3, 1)])
def test_masked_coupling(shape):
    """Masks of zeros and ones: products with zero are known, the other products are divided.

    A mask may be the same for all rows, or for all columns.
    """
    rng = np.random.default_rng(0)
    mask = np.indices(shape).sum(0).astype(np.float32) % 2
    weights = rng.standard_normal((9, 9)).astype(np.float32)

    def coupling(x):
        kept = mask * x
        log_scale = jnp.tanh(weights @ kept.ravel()).reshape(3, 3)
        return kept + (1 - mask) * (x * jnp.exp(log_scale) + log_scale)

    x = rng.standard_normal((3, 3)).astype(np.float32)
    found, log_det = jaxmlir.trace(coupling)(x).inverse_and_log_det()(coupling(x))
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)
    flat = jax.jacfwd(lambda x: coupling(x.reshape(3, 3)).ravel())(x.ravel())
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(flat)[1], rtol=1e-4)


def test_an_array_of_which_each_element_is_sliced(monkeypatch):
    """Solving for one piece does not make the inverter visit the other slices again."""
    count, visits = 100, []
    forward = Site.forward

    def counted(site):
        visits.append(site.index)
        forward(site)

    monkeypatch.setattr(Site, "forward", counted)
    x = jnp.arange(float(count))
    program = jaxmlir.trace(lambda x: [x[i] * 2 for i in range(count)])(x)
    np.testing.assert_array_equal(program.inverse()(program(x)), x)
    assert len(visits) < 40 * count
