"""Programs saved here, and loaded by a process that does not have their source.

Here, JAX differentiates and batches the Python functions.  There, jaxmlir has only the artifacts:
no flax, and no module of the tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.ode import odeint
from programs import PROGRAMS, derivatives
from sampling import some

import jaxmlir

pytestmark = pytest.mark.slow

LOADED = {}


def problem(make):
    LOADED[make.__name__] = make
    return make


@problem
def pendulum_fit():
    """The loss of a fit of a pendulum's friction and length, through ``odeint``."""
    times = np.linspace(0.0, 1.0, 4, dtype=np.float32)

    def pendulum_fit(x):
        def field(state, t, x):
            return jnp.stack([state[1], -9.81 / x[0] * jnp.sin(state[0]) - x[1] * state[1]])

        angles = odeint(field, jnp.array([1.0, 0.0]), times, x)[:, 0]
        return jnp.mean((angles - np.cos(3 * times)) ** 2)

    return pendulum_fit, np.array([1.0, 0.1], np.float32)


@problem
def transformer_loss():
    """The loss of a small flax transformer."""
    import optax
    from jax.flatten_util import ravel_pytree
    from programs.ecosystem import LanguageModel

    model = LanguageModel(vocabulary=5, width=4)
    tokens = np.arange(6, dtype=np.int32).reshape(1, 6) % 5
    flat, unravel = ravel_pytree(model.init(jax.random.key(0), tokens, train=False))

    def transformer_loss(x):
        logits = model.apply(unravel(x), tokens[:, :-1], train=False)
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return transformer_loss, np.asarray(flat)


@problem
def gaussian_process():
    """The marginal likelihood of a Gaussian process, by a Cholesky factorization."""
    rng = np.random.default_rng(0)
    # Large enough to be stored as a constant in the artifact.
    points = rng.standard_normal((20, 60)).astype(np.float32)
    values = np.sin(points[:, 0])

    def gaussian_process(x):
        scale, noise = jnp.exp(x)
        distances = jnp.sum((points[:, None] - points[None]) ** 2, -1)
        kernel = jnp.exp(-distances / (120 * scale)) + (0.1 + noise) * jnp.eye(20)
        factor = jnp.linalg.cholesky(kernel)
        solved = jax.scipy.linalg.cho_solve((factor, True), values)
        return 0.5 * values @ solved + jnp.sum(jnp.log(jnp.diag(factor)))

    return gaussian_process, np.array([0.1, -0.5], np.float32)


@problem
def recursive_rules():
    """Custom rules that call each other's functions."""

    def recursive_rules(x):
        return derivatives.sine(x[0]) * derivatives.power(3, x[1]) + derivatives.log1pexp(x[0])

    return recursive_rules, np.array([0.3, 0.8], np.float32)


@problem
def implicit_fixed_point():
    """A fixed point with the derivative of the implicit function theorem."""
    program, _ = PROGRAMS["fixed_point_implicit"]()
    newton = next(
        cell.cell_contents
        for cell in program.__closure__
        if getattr(cell.cell_contents, "__name__", "") == "newton_square_root"
    )

    def implicit_fixed_point(x):
        return newton(x[0] + 1) * x[1]

    return implicit_fixed_point, np.array([1.0, 2.0], np.float32)


# The transformations of each function that both processes compute, by JAX only.
TRANSFORMED = """
import jax
import jax.numpy as jnp
import numpy as np

def results(f, x, forward):
    xs = jnp.stack([x, 1.01 * x])

    def slope(x):
        return jnp.sum(jax.grad(f)(x) * jnp.cos(jnp.arange(x.size, dtype="float32")))

    def all_of_them(x):
        found = {
            "value": f(x),
            "grad": jax.grad(f)(x),
            "grad of grad": jax.grad(slope)(x),
            "vmap(grad)": jax.vmap(jax.grad(f))(xs),
        }
        if forward:
            found["jvp"] = jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
            found["hessian"] = jax.hessian(f)(x)
        else:
            found["hessian"] = jax.jacrev(jax.grad(f))(x)
        return found

    return jax.tree.map(np.asarray, jax.jit(all_of_them)(x))
"""

ELSEWHERE = (
    TRANSFORMED
    + """
import json, sys
import jaxmlir

for name, forward in json.loads(sys.argv[1]).items():
    program = jaxmlir.load(f"{name}.jaxmlir")
    x = np.load(f"{name}.npy")
    np.savez(f"{name}.npz", **results(program, x, forward))
    if not forward:
        try:
            jax.jvp(program, (x,), (x,))
        except Exception as e:
            print(name, e)
print([m for m in ("flax", "optax", "programs", "scipy.integrate") if m in sys.modules])
"""
)

# JAX has no forward mode for custom_vjp functions.
REVERSE_ONLY = {"pendulum_fit", "implicit_fixed_point"}


def test_a_process_without_the_source(tmp_path):
    namespace = {}
    exec(TRANSFORMED, namespace)
    loaded = dict(some(LOADED.items()))
    forward = {name: name not in REVERSE_ONLY for name in loaded}
    for name, make in loaded.items():
        f, x = make()
        jaxmlir.trace(f)(x).save(tmp_path / f"{name}.jaxmlir")
        np.save(tmp_path / f"{name}.npy", x)
    child = subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, json.dumps(forward)],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(Path(jaxmlir.__file__).parent.parent),
            **{name: os.environ[name] for name in ("JAX_PLATFORMS", "XLA_FLAGS")},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    expected = {n: namespace["results"](*make(), forward[n]) for n, make in loaded.items()}
    printed, errors = child.communicate(timeout=500)
    assert child.returncode == 0, errors[-3000:]
    assert printed.splitlines()[-1] == "[]"
    for name in REVERSE_ONLY & loaded.keys():
        assert f"{name} " in printed and "custom_vjp" in printed
    for name, results in expected.items():
        with np.load(tmp_path / f"{name}.npz") as got:
            assert set(got) == set(results)
            for what, value in results.items():
                scale = np.max(np.abs(value))
                np.testing.assert_allclose(
                    got[what], value, rtol=1e-3, atol=2e-4 * scale, err_msg=f"{what} of {name}"
                )
