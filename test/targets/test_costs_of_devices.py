"""What a pass does for a host, it leaves on a device whose compiler charges otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.nn import logsumexp

import jaxmlir
from jaxmlir import targets

RNG = np.random.RandomState(0)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def forward_algorithm(transitions, x):
    """Exponentials of 64 x 64 numbers, in each of 200 iterations."""
    return lax.fori_loop(0, 200, lambda _, x: logsumexp(transitions + x[:, None], 0), x)


def layer_on_edges(x, w, senders):
    """Rows of 16 numbers, which a TPU stores as it stores 128."""
    return x[senders] @ w


def by_inverse(a, y):
    """An inverse, for one vector: each unknown waits for the others."""
    return jnp.linalg.inv(a) @ y


def recurrence(x, w):
    """What a loop computes for its derivative: half a MiB in all."""

    def step(h, _):
        y = jnp.sin(h * w) * jnp.exp(-h * h) + jnp.cos(h)
        return y / (1 + y * y), None

    return jnp.sum(lax.scan(step, x, length=64)[0])


PROGRAMS = {
    "jaxpr-factor-logsumexp": (forward_algorithm, array(64, 64), array(64)),
    "jaxpr-gather-dot": (
        layer_on_edges,
        array(100, 16),
        array(16, 16),
        RNG.randint(0, 100, 2000).astype(np.int32),
    ),
    "jaxpr-reassociate-solves": (by_inverse, array(64, 64) + 20 * np.eye(64, dtype="f"), array(64)),
    "jaxpr-remat": (jax.grad(recurrence), array(32, 64), array(32, 64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pass_leaves_on_a_tpu_what_does_not_pay_there(name):
    function, *args = PROGRAMS[name]
    program = jaxmlir.trace(function)(*args).optimize(1)
    for_host, for_tpu = (program.run_passes(name, target=t) for t in ("cpu", "tpu:v5e"))
    assert for_host.as_text() != program.as_text()
    assert for_tpu.as_text() == program.as_text()
    want = function(*args)
    for optimized in (for_host, for_tpu):
        np.testing.assert_allclose(optimized(*args), want, rtol=2e-3, atol=1e-3)


def test_wide_rows_are_selected_after_the_product_on_a_tpu_too():
    args = array(100, 128), array(128, 128), PROGRAMS["jaxpr-gather-dot"][3]
    program = jaxmlir.trace(layer_on_edges)(*args).optimize(1)
    after = program.run_passes("jaxpr-gather-dot", target="tpu:v5e")
    assert "tensor<100x128xf32>, tensor<128x128xf32>) -> tensor<100x128xf32>" in after.as_text()


def test_devices_wait_for_kernels_and_hosts_do_not():
    waits = {name: targets.target(name).costs.waits_for_kernels for name in targets.target_names()}
    assert {name for name, wait in waits.items() if not wait} == {"cpu"}
