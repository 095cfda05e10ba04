"""``jaxpr-cost``; XLA's own count of the compiled program's operations is the oracle."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis.cost import Cost, costs

pytestmark = pytest.mark.compat


def of_xla(function, *args):
    found = jax.jit(function).lower(*args).cost_analysis()
    names = ("flops", "transcendentals", "bytes accessed")
    return Cost(*(int(found.get(name, 0)) for name in names))


def ours(function, *args):
    return costs(jaxmlir.trace(function)(*args))


X, Y, Z = (np.ones(shape, np.float32) for shape in ((8, 16), (16, 4), (5, 8, 16)))
IMAGE, KERNEL = np.ones((2, 3, 8, 9), np.float32), np.ones((5, 3, 3, 2), np.float32)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, y: x @ y, (X, Y)),
        (lambda x, y: lax.batch_matmul(x, y), (Z, np.ones((5, 16, 2), np.float32))),
        (lambda x: x * x + x - x / x, (X,)),
        (lambda x: jnp.tanh(x) + jnp.exp(x) * jnp.sin(x), (X,)),
        (lambda x: jnp.floor(x) * jnp.abs(-x), (X,)),
        (lambda x: lax.select(x > x * x, x, lax.max(x, x + x)), (X,)),
        (lambda x: x**x, (X,)),
        (lambda x: x.astype(jnp.bfloat16), (X,)),
        (lambda x: x.T.reshape(2, 64), (X,)),
    ],
)
def test_counts_are_those_of_xla(function, args):
    found = ours(function, *args)
    assert found.total == of_xla(function, *args)
    assert not found.uncounted


@pytest.mark.parametrize("function", [lambda x: lax.integer_pow(x, 5), jax.nn.relu, jnp.square])
def test_operations_of_ops_that_lower_to_several(function):
    """XLA also counts the memory traffic between the ops."""
    found, of_compiled = ours(function, X).total, of_xla(function, X)
    assert found.flops == of_compiled.flops
    assert found.bytes <= of_compiled.bytes


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(2, 0), (1, 3)]])
@pytest.mark.parametrize("options", [{}, {"rhs_dilation": (2, 1)}, {"lhs_dilation": (1, 2)}])
def test_convolutions(padding, options):
    def convolve(image, kernel):
        return lax.conv_general_dilated(image, kernel, (2, 1), padding, **options)

    if options.get("lhs_dilation") and isinstance(padding, str):
        padding = [(0, 0), (1, 1)]
    assert ours(convolve, IMAGE, KERNEL).total == of_xla(convolve, IMAGE, KERNEL)


@pytest.mark.parametrize("strides", [(1, 4), (2, 6), (3, 1)])
@pytest.mark.parametrize("padding", [(0, 0), (-2, 5), (4, -3)])
def test_convolutions_of_arrays_with_gaps(strides, padding):
    def convolve(image, kernel):
        return lax.conv_general_dilated(
            image, kernel, strides, [padding, padding], lhs_dilation=(3, 4), rhs_dilation=(2, 3)
        )

    assert ours(convolve, IMAGE, KERNEL).total == of_xla(convolve, IMAGE, KERNEL)


def test_a_long_convolution_is_counted_at_once():
    x = jax.ShapeDtypeStruct((1, 1, 1_000_000), np.float32)

    def convolve(x):
        return lax.conv_general_dilated(x, x, (1,), [(999_999, 999_999)])

    assert ours(convolve, x).total.flops == 2 * 10**12


def test_grouped_convolution():
    def convolve(image, kernel):
        return lax.conv_general_dilated(image, kernel, (1, 1), "SAME", feature_group_count=3)

    args = IMAGE, np.ones((6, 1, 3, 3), np.float32)
    assert ours(convolve, *args).total == of_xla(convolve, *args)


def test_reductions():
    def reduce(x):
        return jnp.sum(x, 0), jnp.max(x)

    assert ours(reduce, X).total.flops == of_xla(reduce, X).flops
    assert ours(lambda x: jnp.sum(x[:0], 0), X).total.flops == 0


def test_gradient_of_a_matrix_product_costs_twice_as_much():
    program = jaxmlir.trace(lambda x, y: jnp.sum(x @ y))(X, Y)
    forward = 2 * 8 * 16 * 4
    backward = costs(program.vjp()[1]).total.flops
    assert backward == 2 * forward


def test_lines_loops_and_branches():
    def function(x):
        def body(carry, _):
            return carry * carry, None

        y, _ = lax.scan(body, x, None, length=10)
        y = lax.cond(y[0] > 0, lambda y: y, lambda y: y + y + y, y)
        return lax.while_loop(lambda y: y[0] < 5, lambda y: y - 1.0, y)

    found = ours(function, jnp.ones(100))
    _, first = inspect.getsourcelines(function)
    flops = {line - first: cost.flops for (_, line), cost in found.by_line.items()}
    assert flops[2] == 10 * 100
    assert flops[5] == 1 + 1 + 200  # The comparison, its conversion and the dearer branch.
    assert flops[6] == 1 + 100
    assert {line - first for _, line in found.unbounded} == {6}
    assert all(file == __file__ for file, _ in found.by_line)
    assert f"{__file__}:{first + 6} (per iteration)  return lax.while_loop" in found.table()


@pytest.mark.parametrize("level", [0, 2])
def test_ops_of_functions_of_jax_cost_the_lines_that_call_them(level):
    def function(x, i):
        y = jnp.where(x > 0, x, 0.0)
        z = jnp.where(y < 1, y, 0.0)
        y = jnp.take(y, i) + jnp.var(z) + jnp.linalg.solve(jnp.eye(3), z[:3])
        return y.sum()

    program = jaxmlir.trace(function)(jnp.ones(100), jnp.arange(3))
    found = costs(program.optimize(level))
    _, first = inspect.getsourcelines(function)
    lines = {line - first: cost.bytes for (_, line), cost in found.by_line.items()}
    assert lines.keys() <= {0, 1, 2, 3, 4}
    assert level or lines[1] == lines[2]
    assert sum(lines.values()) == found.total.bytes
    for of in (found, costs(program.grad().optimize(level))):
        assert all(file == __file__ for file, _ in of.by_line)


def test_what_has_no_formula_is_named():
    found = ours(lambda x: jnp.linalg.qr(x)[0], np.ones((4, 4), np.float32))
    assert "geqrf" in found.uncounted or "qr" in found.uncounted
    assert "arithmetic not counted: " in found.table()


def test_symbolic_sizes_are_counted():
    b, c = jax.export.symbolic_shape("b, c")

    def function(x):
        y = jnp.sin(x)
        return y.sum()

    table = ours(function, jax.ShapeDtypeStruct((b, c), np.float32)).table()
    assert "b*c - 1" in table and "8*b*c" in table


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, 1),
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x[:, :3], axis=1), axis=1),
        lambda x: lax.conv(x[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")[0, 0],
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, x.shape[1]), (1, 1), "VALID"),
    ],
)
def test_arithmetic_that_symbolic_sizes_do_not_tell(function):
    """Passes that read such costs leave the gradient's results unchanged."""
    b, c = jax.export.symbolic_shape("b, c", constraints=["b >= 3", "c >= 3"])
    symbolic = jax.ShapeDtypeStruct((b, c), np.float32)
    assert "arithmetic not counted: " in ours(function, symbolic).table()

    def loss(x):
        def step(carry, _):
            return jnp.sin(carry) + jnp.mean(function(carry) ** 2), jnp.sum(jnp.cos(carry))

        return jnp.sum(lax.scan(step, x, None, length=3)[1])

    program = jaxmlir.trace(loss)(symbolic).optimize(2).grad().optimize(2)
    np.testing.assert_allclose(program(X), jax.jit(jax.grad(loss))(X), 2e-5, 2e-6)
