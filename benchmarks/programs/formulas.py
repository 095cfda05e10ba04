"""Programs of one formula, for measuring the fixed cost of a transformation.

Their arrays have a few elements, so run times of these programs mean nothing.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special, stats

from benchmarks.programs._registry import Program

_VECTOR = np.linspace(-0.9, 0.9, 8, dtype=np.float32)
_MATRIX = np.eye(4, dtype=np.float32) + np.float32(0.1)


@jax.custom_jvp
def _sine(x):
    return jnp.sin(x)


@_sine.defjvp
def _sine_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return _sine(x), t * jnp.cos(x)


@jax.custom_vjp
def _cosine(x):
    return jnp.cos(x)


_cosine.defvjp(lambda x: (jnp.cos(x), x), lambda x, ct: (-ct * jnp.sin(x),))


def _accumulate(x):
    return lax.scan(lambda c, y: (c * y, c + y), jnp.float32(1), x)[1]


def _branch(x):
    return lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)


_OF_VECTOR: dict[str, Callable[[jax.Array], jax.Array]] = {
    "sin": jnp.sin,
    "square": lambda x: x * x,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "logsumexp": jax.nn.logsumexp,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "log_sigmoid": jax.nn.log_sigmoid,
    "standardize": jax.nn.standardize,
    "norm": jnp.linalg.norm,
    "variance": jnp.var,
    "maximum": jnp.max,
    "sort": jnp.sort,
    "cumsum": jnp.cumsum,
    "clip": lambda x: jnp.clip(x, -0.5, 0.5),
    "where": lambda x: jnp.where(x > 0, x, 0.0),
    "strided": lambda x: x[::2],
    "gathered": lambda x: x[np.array([0, 2, 2])],
    "set_at": lambda x: x.at[0].set(2.0),
    "interpolated": lambda x: jnp.interp(x, np.sort(_VECTOR), x),
    "gammaln": lambda x: special.gammaln(x + 2),
    "log_density": stats.norm.logpdf,
    "custom_jvp": _sine,
    "custom_vjp": _cosine,
    "checkpoint": lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x),
    "scan": _accumulate,
    "cond": _branch,
}
_OF_MATRIX: dict[str, Callable[[jax.Array], jax.Array]] = {
    "product": lambda a: a @ a,
    "determinant": jnp.linalg.det,
    "inverse": jnp.linalg.inv,
    "cholesky": jnp.linalg.cholesky,
    "solution": lambda a: jnp.linalg.solve(a, np.ones(4, np.float32)),
    "matrix_exponential": jax.scipy.linalg.expm,
}


def _summed(function: Callable[[jax.Array], jax.Array], x: np.ndarray) -> Callable[[], Program]:
    return lambda: (lambda x: jnp.sum(function(x)), (x,))


FORMULAS: dict[str, Callable[[], Program]] = {
    **{name: _summed(function, _VECTOR) for name, function in _OF_VECTOR.items()},
    **{name: _summed(function, _MATRIX) for name, function in _OF_MATRIX.items()},
}
