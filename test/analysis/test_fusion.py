"""Predictions of XLA's fusions, against the programs that it compiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis.fusion import is_stored_if_shared
from jaxmlir.analysis.manager import analyses_of

pytestmark = pytest.mark.compat

X, W = np.random.default_rng(0).uniform(0.2, 0.9, (2, 64, 64)).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "opcode", "stored"),
    [
        (lambda x, w: jnp.sin(x), "sine", False),
        (lambda x, w: jnp.tan(x), "tan", False),
        (lambda x, w: jnp.tanh(x), "tanh", True),
        (lambda x, w: x**w, "power", True),
        (lambda x, w: x / w, "divide", True),
        (lambda x, w: x / w[0, 0], "multiply", False),
        (lambda x, w: lax.integer_pow(x, 3), "multiply", False),
        (lambda x, w: lax.integer_pow(x, -1), "divide", True),
    ],
)
def test_what_several_kernels_read(function, opcode, stored):
    def read(kernels):
        def readers(x, w):
            y = function(x, w)
            found = y - w, jnp.cumsum((y + 1).T[::2, ::3], axis=0), lax.sort(1 - y)
            return found[:kernels]

        return jax.jit(readers).lower(X, W).compile().as_text().count(f" {opcode}(")

    assert (read(3) == read(1)) is stored
    program = jaxmlir.trace(function)(X, W)
    (main,) = program.functions.values()
    # Powers become polynomials, which XLA computes again.
    stored = stored and opcode != "power"
    assert is_stored_if_shared(analyses_of(program).body(main).signatures[-1]) is stored
