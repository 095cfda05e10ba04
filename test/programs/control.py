"""Control flow, called functions, rematerialisation and user-defined linear solves."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from programs._table import Program, program


@program
def nested_control_flow() -> Program:
    """scan of while_loop of cond of switch of fori_loop, with values closed over at each level."""

    def nested_control_flow(xs, limit):
        def branch(scale, x):
            return lax.fori_loop(0, 3, lambda i, x: x * scale + i, x)

        branches = [partial(branch, 0.5), partial(branch, 0.25), jnp.negative]

        def inner(x):
            chosen = lax.switch(jnp.asarray(jnp.abs(x), jnp.int32) % 3, branches, x)
            return lax.cond(chosen > limit, lambda: chosen - limit, lambda: chosen + 1.0)

        def step(carry, x):
            total, count = carry
            x, iterations = lax.while_loop(
                lambda state: (state[0] < 2 * limit) & (state[1] < 5),
                lambda state: (inner(state[0]), state[1] + 1),
                (x, 0),
            )
            return (total + x, count + iterations), {"x": x, "iterations": iterations}

        return lax.scan(step, (jnp.float32(0.0), 0), xs, reverse=True, unroll=2)

    return nested_control_flow, (np.linspace(-2, 2, 6, dtype=np.float32), np.float32(1.5))


@program
def differentiated_control_flow() -> Program:
    """Reverse mode through scan and cond, forward mode through while_loop, and vmap of all."""

    def scanned(x, ws):
        def step(x, w):
            return lax.cond(x > 0, lambda x: jnp.sin(w * x), lambda x: w * x**2, x), x

        final, path = lax.scan(step, x, ws)
        return final + path.sum()

    def looped(x):
        return lax.while_loop(lambda x: x < 10.0, lambda x: x * x + 0.5, x)

    def differentiated_control_flow(xs, ws):
        return (
            jax.vmap(jax.value_and_grad(scanned, argnums=(0, 1)), in_axes=(0, None))(xs, ws),
            jax.jvp(jax.vmap(looped), (xs,), (jnp.ones_like(xs),)),
            jax.hessian(scanned)(xs[0], ws),
        )

    arguments = np.array([-1.0, 0.5, 2.0], np.float32), np.array([0.5, -1.5], np.float32)
    return differentiated_control_flow, arguments


@program
def associative_operations() -> Program:
    def associative_operations(a, b):
        def compose(first, second):
            return first[0] * second[0], first[1] * second[0] + second[1]

        mapped = lax.map(lambda pair: pair[0] @ pair[1], (a, b), batch_size=2)
        reduced = lax.reduce((a, b), (1.0, 0.0), lambda x, y: (x[0] * y[0], x[1] + y[1]), (0,))
        return lax.associative_scan(compose, (a, b)), mapped, reduced

    a = np.linspace(0.1, 1, 15, dtype=np.float32).reshape(5, 3)
    return associative_operations, (a, a[::-1])


@program
def shared_functions() -> Program:
    """One jitted function called many times, an inlined one, and one with static arguments."""

    @jax.jit
    def layer(w, x):
        return jnp.tanh(w @ x)

    @partial(jax.jit, inline=True)
    def inlined(x):
        return x * 2

    @partial(jax.jit, static_argnames="power")
    def raised(x, power):
        return x**power

    def shared_functions(ws, x):
        for w in ws:
            x = layer(w, inlined(x))
        return raised(x, power=2) + raised(x, power=3)

    rng = np.random.RandomState(0)
    ws = [rng.standard_normal((3, 3)).astype(np.float32) for _ in range(5)]
    return shared_functions, (ws, np.ones(3, np.float32))


def three_layers(ws, x):
    for w in ws:
        x = checkpoint_name(jnp.sin(w @ x), "activation")
    return x.sum()


def three_layers_arguments():
    rng = np.random.RandomState(0)
    ws = [rng.standard_normal((3, 3)).astype(np.float32) for _ in range(3)]
    return ws, np.ones(3, np.float32)


@program
def checkpoint() -> Program:
    """Rematerialised functions, not differentiated."""

    def checkpoint(ws, x):
        policy = jax.checkpoint_policies.save_only_these_names("activation")
        named = jax.checkpoint(three_layers, policy=policy)
        return jax.checkpoint(three_layers)(ws, x) + named(ws, x)

    return checkpoint, three_layers_arguments()


@program
def checkpoint_gradients() -> Program:
    """The gradient under several checkpoint policies: only the residuals differ."""

    def checkpoint_gradients(ws, x):
        policies = (
            None,
            jax.checkpoint_policies.everything_saveable,
            jax.checkpoint_policies.dots_saveable,
            jax.checkpoint_policies.save_only_these_names("activation"),
        )
        return [
            jax.value_and_grad(jax.checkpoint(three_layers, policy=policy))(ws, x)
            for policy in policies
        ]

    return checkpoint_gradients, three_layers_arguments()


def square_root(y):
    """The positive root of `x**2 - y`, by bisection, with implicit derivatives."""

    def bisect(f, guess):
        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            below = f(middle) < 0
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        return lax.fori_loop(0, 30, halve, (jnp.zeros_like(guess), guess + 1.0))[0]

    return lax.custom_root(lambda x: x**2 - y, y, bisect, lambda g, y: y / g(jnp.ones_like(y)))


@program
def custom_root() -> Program:
    return jax.vmap(square_root), (np.array([0.5, 2.0, 9.0], np.float32),)


@program
def custom_root_derivatives() -> Program:
    def custom_root_derivatives(ys):
        first = jax.grad(square_root)
        return jax.vmap(first)(ys), jax.vmap(jax.grad(first))(ys)

    return custom_root_derivatives, (np.array([0.5, 2.0, 9.0], np.float32),)


def conjugate_gradients(matrix, b):
    """Solves `matrix @ x = b` for a symmetric matrix, given only as a linear function."""

    def solve(matvec, b):
        def step(_, state):
            x, residual, direction = state
            image = matvec(direction)
            squared = residual @ residual
            # The residual may reach zero before the last step.
            length = squared / jnp.maximum(direction @ image, 1e-12)
            x, new_residual = x + length * direction, residual - length * image
            ratio = new_residual @ new_residual / jnp.maximum(squared, 1e-12)
            return x, new_residual, new_residual + ratio * direction

        return lax.fori_loop(0, len(b), step, (jnp.zeros_like(b), b, b))[0]

    return lax.custom_linear_solve(lambda x: matrix @ x, b, solve, symmetric=True)


@program
def custom_linear_solve() -> Program:
    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], np.float32)
    return conjugate_gradients, (matrix, np.array([1.0, 2.0, 3.0], np.float32))


@program
def custom_linear_solve_gradient() -> Program:
    def loss(matrix, b):
        return jnp.sum(conjugate_gradients(matrix, b) ** 2)

    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], np.float32)
    arguments = matrix, np.array([1.0, 2.0, 3.0], np.float32)
    return jax.value_and_grad(loss, argnums=(0, 1)), arguments


@program
def iterative_solvers() -> Program:
    """jax.scipy's sparse solvers and minimiser, built on custom_linear_solve and while_loop."""

    def iterative_solvers(matrix, b):
        return (
            jax.scipy.sparse.linalg.cg(matrix, b)[0],
            jax.scipy.sparse.linalg.gmres(lambda x: matrix @ x, b)[0],
            jax.scipy.sparse.linalg.bicgstab(matrix, b)[0],
            jax.scipy.optimize.minimize(
                lambda x: jnp.sum((matrix @ x - b) ** 2), jnp.zeros_like(b), method="BFGS"
            ).x,
        )

    matrix = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], np.float32)
    return iterative_solvers, (matrix, np.array([1.0, 2.0, 3.0], np.float32))
