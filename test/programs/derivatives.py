"""Custom derivative and batching rules, written as in JAX's documentation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero, closure_convert, linear_call

from programs._table import Program, program


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


@jax.custom_jvp
def cosine(x):
    return jnp.cos(x)


# The rules call each other's functions, so that derivatives of any order go through rules.
@sine.defjvp
def sine_jvp(primals, tangents):
    return sine(*primals), cosine(*primals) * tangents[0]


@cosine.defjvp
def cosine_jvp(primals, tangents):
    return cosine(*primals), -sine(*primals) * tangents[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def power(exponent, x):
    return x**exponent


@power.defjvp
def power_jvp(exponent, primals, tangents):
    (x,), (t,) = primals, tangents
    derivative = exponent * power(exponent - 1, x) if exponent else jnp.zeros_like(x)
    return power(exponent, x), derivative * t


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


log1pexp.defjvps(lambda t, answer, x: (1 - 1 / (1 + jnp.exp(x))) * t)


@program
def custom_jvp_rules() -> Program:
    """Functions with JVP rules, not differentiated, so that the rules are in the jaxpr."""

    def custom_jvp_rules(x):
        return sine(x), power(3, x), log1pexp(x), jax.vmap(sine)(jnp.stack([x, x]))

    return custom_jvp_rules, (np.float32(0.7),)


@program
def custom_jvp_higher_orders() -> Program:
    def custom_jvp_higher_orders(x):
        results, f, g = [], sine, partial(power, 3)
        for _ in range(4):
            f, g = jax.grad(f), jax.grad(g)
            results.append((f(x), g(x)))
        return results, jax.jvp(jax.grad(log1pexp), (100.0 * x,), (1.0,))

    return custom_jvp_higher_orders, (np.float32(0.7),)


@jax.custom_jvp
def product(x, y):
    return x * y


def product_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    answer = product(x, y)
    terms = [x * dy if not isinstance(dy, SymbolicZero) else None]
    terms.append(dx * y if not isinstance(dx, SymbolicZero) else None)
    present = [term for term in terms if term is not None]
    return answer, sum(present) if present else jnp.zeros_like(answer)


product.defjvp(product_jvp, symbolic_zeros=True)


@program
def custom_jvp_symbolic_zeros() -> Program:
    def custom_jvp_symbolic_zeros(x, y):
        return (
            product(x, y),
            jax.jvp(lambda x: product(x, y), (x,), (1.0,)),
            jax.grad(lambda y: product(x, y))(y),
            jax.grad(product, argnums=(0, 1))(x, y),
        )

    return custom_jvp_symbolic_zeros, (np.float32(2.0), np.float32(3.0))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def clip_gradient(low, high, x):
    return x


clip_gradient.defvjp(
    lambda low, high, x: (x, None),
    lambda low, high, _, g: (jnp.clip(g, low, high),),
)


@jax.custom_vjp
def tripled_backward(x):
    return 2 * x


tripled_backward.defvjp(lambda x: (2 * x, None), lambda _, g: (3 * g,))


@program
def custom_vjp_rules() -> Program:
    """Functions with VJP rules, not differentiated, with pytrees as arguments and results."""

    @jax.custom_vjp
    def f(tree):
        return {"sum": tree["x"] + tree["y"], "product": tree["x"] * tree["y"]}

    def forward(tree):
        return f(tree), (tree["x"], tree["y"])

    def backward(residuals, g):
        x, y = residuals
        return ({"x": g["sum"] + y * g["product"], "y": g["sum"] + x * g["product"]},)

    f.defvjp(forward, backward)

    def custom_vjp_rules(tree):
        return f(tree), clip_gradient(-1.0, 1.0, tree["x"]), tripled_backward(tree["y"])

    return custom_vjp_rules, ({"x": np.float32(2.0), "y": np.array([1.0, 3.0], np.float32)},)


@program
def custom_vjp_gradients() -> Program:
    """`vmap` must keep a custom rule: the gradients of the tripled function are threes."""

    def custom_vjp_gradients(x):
        return (
            jax.vmap(jax.grad(tripled_backward))(x),
            jax.grad(lambda x: jax.vmap(tripled_backward)(x).sum())(x),
            jax.grad(lambda x: (100.0 * clip_gradient(-1.0, 1.0, x) ** 2).sum())(x),
        )

    return custom_vjp_gradients, (np.ones(4, np.float32),)


@program
def custom_vjp_symbolic_zeros() -> Program:
    @jax.custom_vjp
    def multiply(x, y):
        return x * y

    def forward(x, y):
        # Keep only the residuals that are needed, according to `perturbed`.
        kept = (y.value if x.perturbed else None, x.value if y.perturbed else None)
        return x.value * y.value, kept

    def backward(residuals, g):
        return tuple(None if r is None else r * g for r in residuals)

    multiply.defvjp(forward, backward, symbolic_zeros=True)

    def custom_vjp_symbolic_zeros(x, y):
        return multiply(x, y), jax.grad(multiply)(x, y), jax.grad(multiply, argnums=(0, 1))(x, y)

    return custom_vjp_symbolic_zeros, (np.float32(2.0), np.float32(3.0))


@program
def custom_rules_under_control_flow() -> Program:
    """Functions with rules inside scan, cond, remat and a nested jit."""

    def custom_rules_under_control_flow(x):
        def step(x, _):
            x = jax.lax.cond(x > 0, sine, tripled_backward, x)
            return jax.checkpoint(jax.jit(cosine))(x), None

        def total(x):
            return jax.lax.scan(step, x, None, length=3)[0]

        return total(x), jax.grad(total)(x), jax.grad(jax.grad(total))(x)

    return custom_rules_under_control_flow, (np.float32(0.7),)


@program
def fixed_point_implicit() -> Program:
    """A fixed point whose derivative comes from the implicit function theorem."""

    def iterate(f, x):
        def unfinished(state):
            previous, x = state
            return jnp.abs(previous - x) > 1e-6

        return jax.lax.while_loop(unfinished, lambda s: (s[1], f(s[1])), (x, f(x)))[1]

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, guess):
        return iterate(lambda x: f(a, x), guess)

    def forward(f, a, guess):
        solution = fixed_point(f, a, guess)
        return solution, (a, solution)

    def backward(f, residuals, g):
        a, solution = residuals
        _, vjp_a = jax.vjp(lambda a: f(a, solution), a)

        def reverse_iteration(packed, u):
            a, solution, g = packed
            _, vjp_x = jax.vjp(lambda x: f(a, x), solution)
            return g + vjp_x(u)[0]

        cotangent = fixed_point(reverse_iteration, (a, solution, g), g)
        return vjp_a(cotangent)[0], jnp.zeros_like(solution)

    fixed_point.defvjp(forward, backward)

    def newton_square_root(a):
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    def fixed_point_implicit(a):
        gradient = jax.grad(newton_square_root)
        return newton_square_root(a), gradient(a), jax.grad(gradient)(a)

    return fixed_point_implicit, (np.float32(2.0),)


@program
def converted_closure() -> Program:
    """A closure over a traced value made an argument of a custom_vjp function."""

    def converted_closure(x, scale):
        f, constants = closure_convert(lambda x: jnp.sin(scale * x), x)

        @partial(jax.custom_vjp, nondiff_argnums=())
        def evaluate(x, *constants):
            return f(x, *constants)

        def forward(x, *constants):
            return evaluate(x, *constants), (x, constants)

        def backward(residuals, g):
            x, constants = residuals
            return jax.vjp(f, x, *constants)[1](g)

        evaluate.defvjp(forward, backward)
        return jax.grad(lambda x, s: evaluate(x, *constants) * s)(x, scale)

    return converted_closure, (np.float32(0.5), np.float32(3.0))


@program
def stopped_and_gradient_free() -> Program:
    def stopped_and_gradient_free(x):
        def straight_through(x):
            return x + jax.lax.stop_gradient(jnp.round(x) - x)

        return jax.value_and_grad(lambda x: jnp.sum(straight_through(x) ** 2))(x)

    return stopped_and_gradient_free, (np.array([0.3, 1.7], np.float32),)


@program
def batching_rule() -> Program:
    """A custom_vmap function on its own, and batched with each pattern of batched arguments."""

    @custom_vmap
    def scale(x, y):
        return x * y

    @scale.def_vmap
    def scale_rule(axis_size, in_batched, x, y):
        x_batched, y_batched = in_batched
        x = x if x_batched else jnp.broadcast_to(x, (axis_size, *x.shape))
        y = y if y_batched else jnp.broadcast_to(y, (axis_size, *y.shape))
        # Differs from the plain function, so that a result shows which of them ran.
        return x * y + 1.0, True

    def batching_rule(x, xs):
        return scale(x, x), jax.vmap(scale)(xs, xs), jax.vmap(scale, in_axes=(0, None))(xs, x)

    return batching_rule, (np.float32(2.0), np.array([1.0, 2.0, 3.0], np.float32))


def quotient(divisor, x):
    """A linear function of `x` with a custom transpose."""

    def divide(divisor, x):
        return x / divisor

    return linear_call(divide, divide, divisor, x)


@program
def linear_calls() -> Program:
    def linear_calls(divisor, x):
        transposed = jax.linear_transpose(partial(quotient, divisor), x)
        return (
            quotient(divisor, x),
            transposed(x),
            jax.grad(lambda x: quotient(divisor, x).sum())(x),
        )

    return linear_calls, (np.float32(4.0), np.array([1.0, 2.0], np.float32))


@program
def derivatives_of_derivatives() -> Program:
    """jacfwd, jacrev, hessian, linearize, vjp and jvp of one function inside one program."""

    def f(x):
        return jnp.stack([jnp.sin(x[0]) * x[1], x[0] ** 2 + jnp.exp(x[1])])

    def derivatives_of_derivatives(x):
        value, linear = jax.linearize(f, x)
        _, pullback = jax.vjp(f, x)
        return (
            value,
            linear(jnp.ones_like(x)),
            pullback(value),
            jax.jacfwd(f)(x),
            jax.jacrev(f)(x),
            jax.hessian(f)(x),
            jax.jvp(jax.jacrev(f), (x,), (x,)),
        )

    return derivatives_of_derivatives, (np.array([0.5, -0.25], np.float32),)
