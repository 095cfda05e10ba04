"""Realistic JAX programs, as users of JAX's libraries write them, for tests of the dialect.

    from programs import PROGRAMS

    function, arguments = PROGRAMS["flax_train_step"]()
    expected = jax.jit(function)(*arguments)

Each factory takes no arguments. It returns a new function and its arguments, pytrees of arrays with
the same values on every call. Every function runs under plain `jax.jit` on eight CPU devices, on
every supported JAX. Nothing here imports jaxmlir.
"""

from programs import containers, control, derivatives, ecosystem, effects, numerics
from programs._table import PROGRAMS, Program

__all__ = [
    "PROGRAMS",
    "Program",
    "containers",
    "control",
    "derivatives",
    "ecosystem",
    "effects",
    "numerics",
]
