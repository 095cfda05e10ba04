"""Compares derivatives and batches of a function by the passes with those by JAX.

Both sides are compiled as one computation each, so that a check costs two compilations.
"""

import jax
import jax.numpy as jnp
import numpy as np
from round_trip import reread

import jaxmlir


def close(ours, theirs, rtol=2e-5, atol=1e-6):
    """Asserts that pytrees have the same structure and dtypes, and nearly the same numbers."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert jnp.shape(a) == jnp.shape(b) and a.dtype == b.dtype
        if jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if b.dtype != jax.dtypes.float0:
            scale = max(1.0, float(np.max(np.abs(np.asarray(b, complex)), initial=0.0)))
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol * scale)


def vector_like(tree, seed):
    """Random tangents (or cotangents) of a pytree; float0 for leaves that have none."""
    rng = np.random.RandomState(seed)

    def leaf(x):
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            return (normal(*x.shape) + 1j * normal(*x.shape)).astype(x.dtype)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return normal(*x.shape).astype(x.dtype)
        return np.zeros(x.shape, jax.dtypes.float0)

    def normal(*shape):
        return np.asarray(rng.standard_normal(shape))

    return jax.tree.map(leaf, tree)


def check_derivatives(f, args, *, forward=True, text=False, rtol=2e-5):
    """Checks that jvp, linearize and vjp of the program of ``f`` give JAX's results.

    Args:
      forward: also jvp and linearize, which are errors for functions with a custom VJP.
      text: print and parse each program before it is called.
    """
    program = jaxmlir.trace(f)(*args)
    same = reread if text else lambda p: p
    tangents = vector_like(args, 0)
    cotangents = vector_like(jax.eval_shape(f, *args), 1)
    fwd, bwd = map(same, program.vjp())
    made = [fwd, bwd]
    if forward:
        jvp, (base, lin) = same(program.jvp()), map(same, program.linearize())
        made += [jvp, base, lin]
    for new in made if not text else ():
        new.verify()

    def ours(args):
        out, residuals = fwd(*args)
        reverse = (out, bwd(residuals, cotangents))
        if not forward:
            return reverse
        out, residuals = base(*args)
        return reverse, jvp(args, tangents), (out, lin(residuals, *tangents))

    def theirs(args):
        out, pullback = jax.vjp(f, *args)
        reverse = (out, pullback(cotangents))
        if not forward:
            return reverse
        pushed = jax.jvp(f, args, tangents)
        return reverse, pushed, pushed

    close(jax.jit(ours)(args), jax.jit(theirs)(args), rtol)


def check_vmap(f, args, in_axes, out_axes=0, axis_size=3, **options):
    """Checks that vmap of the program of ``f`` gives JAX's results; ``args`` are unbatched."""
    one = jax.tree.map(
        lambda axis, x: x if axis is None else jax.tree.map(lambda a: jnp.take(a, 0, axis), x),
        tuple(in_axes) if not isinstance(in_axes, int) else (in_axes,) * len(args),
        tuple(args),
        is_leaf=lambda x: x is None,
    )
    name = options.get("axis_name")
    if name is None:
        program = jaxmlir.trace(f)(*one)
    else:
        # A collective can be traced only if its axis is known.
        axis_env = [(name, axis_size)]
        program = jaxmlir.from_jaxpr(jax.make_jaxpr(f, axis_env=axis_env)(*one))
    batched = program.vmap(in_axes, out_axes, axis_size=axis_size, **options)
    batched.verify()
    expected = jax.vmap(f, in_axes, out_axes, axis_size=axis_size, **options)
    close(batched(*args), jax.jit(expected)(*args))
    return batched
