"""Inverses of programs: they return the argument, and the log-determinant of JAX's Jacobian.

The functions of a group are inverted one by one, but run in one computation, because XLA takes most
of the time.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree
from round_trip import reread

import jaxmlir
from jaxmlir._compat import ad, core, mlir
from jaxmlir.errors import ArgumentError, TransformError

pytestmark = pytest.mark.compat

RNG = np.random.RandomState(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return 0.3 + np.abs(normal(*shape))


def inside(*shape):
    """Random numbers between -1 and 1."""
    return np.tanh(normal(*shape))


def complex_(*shape):
    return (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)


MATRIX = normal(3, 3) + 3 * np.eye(3, dtype=np.float32)
MATRICES = np.stack([MATRIX, MATRIX.T])


class Case:
    """A function with arguments, which of them are known, and whether it has a log-determinant."""

    def __init__(self, function, *args, known=(), log_det=True):
        self.function = function
        self.args = jax.tree.map(jnp.asarray, args)
        self.known = known
        self.log_det = log_det

    def unknown(self):
        found = [a for i, a in enumerate(self.args) if i not in self.known]
        return found[0] if len(found) == 1 else tuple(found)

    def expected_log_det(self):
        """Minus log|det| of JAX's Jacobian, as a map between real vectors of the same size."""
        flat, unflatten = ravel_pytree(self.unknown())
        count = len(self.args) - len(self.known)

        def of_flat(flat):
            unknown = iter((unflatten(flat),) if count == 1 else unflatten(flat))
            args = [a if i in self.known else next(unknown) for i, a in enumerate(self.args)]
            return ravel_pytree(self.function(*args))[0]

        holomorphic = bool(jnp.iscomplexobj(flat))
        jacobian = jax.jacfwd(of_flat, holomorphic=holomorphic)(flat)
        return -(1 + holomorphic) * jnp.linalg.slogdet(jacobian)[1]


def check(cases):
    """Inverts the functions, and compares the inverses' results with JAX's."""
    programs = []
    for case in cases.values():
        program = jaxmlir.trace(case.function)(*case.args)
        method = program.inverse_and_log_det if case.log_det else program.inverse
        inverse = method(known=case.known)
        inverse.verify()
        programs.append(reread(inverse))

    @jax.jit
    def run():
        found, expected = [], []
        for case, inverse in zip(cases.values(), programs, strict=True):
            y = case.function(*case.args)
            out = inverse(y, *(case.args[i] for i in case.known))
            found.append(out)
            log_det = (case.expected_log_det(),) if case.log_det else ()
            expected.append((case.unknown(), *log_det) if case.log_det else case.unknown())
        return found, expected

    for name, ours, theirs in zip(cases, *run(), strict=True):
        assert jax.tree.structure(ours) == jax.tree.structure(theirs), name
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert a.dtype == b.dtype, name
            if jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
                a, b = jax.random.key_data(a), jax.random.key_data(b)
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4, err_msg=name)


# --- the published numbers ------------------------------------------------------------------------


def test_exp_tanh():
    def f(x):
        return jnp.exp(jnp.tanh(x))

    inverse = jaxmlir.trace(f)(1.0).inverse()
    ops = [op.operation.name for op in inverse.function(inverse.name).entry_block.operations]
    assert ops == ["jaxpr.log", "jaxpr.atanh", "func.return"]
    np.testing.assert_allclose(inverse(f(1.0)), 1.0, rtol=1e-6)
    expected = [-3.1440797, 15.584931, 2.2551253, 1.3155028, 1.0]
    points = (jnp.arange(5) + 1.0) / 5
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(inverse)))(points), expected, rtol=1e-6)
    composed = inverse.grad().vmap(axis_size=5)
    np.testing.assert_allclose(composed(points), expected, rtol=1e-6)


# --- ops ------------------------------------------------------------------------------------------

UNARY = {
    "acos": Case(jnp.arccos, inside(3)),
    "acosh": Case(jnp.arccosh, 1 + positive(3)),
    "asin": Case(jnp.arcsin, inside(3)),
    "asinh": Case(jnp.arcsinh, normal(3)),
    "atan": Case(jnp.arctan, normal(3)),
    "atanh": Case(jnp.arctanh, inside(3)),
    "cbrt": Case(jnp.cbrt, normal(3)),
    "conj": Case(lambda z: jnp.conj(jnp.exp(z)), 0.3 * complex_(3), log_det=False),
    "cos": Case(jnp.cos, np.float32([0.3, 1.2, 2.9])),
    "cosh": Case(jnp.cosh, positive(3)),
    "erf": Case(lax.erf, inside(3)),
    "erf_inv": Case(lax.erf_inv, 0.9 * inside(3)),
    "erfc": Case(lax.erfc, inside(3)),
    "exp": Case(jnp.exp, normal(3)),
    "exp of complex": Case(lambda z: (2 + 1j) * jnp.exp(z), 0.3 * complex_(3)),
    "exp2": Case(jnp.exp2, normal(3)),
    "expm1": Case(jnp.expm1, normal(3)),
    "integer_pow -3": Case(lambda x: x**-3, 1 + positive(3)),
    "integer_pow 3": Case(lambda x: x**3, normal(3)),
    "integer_pow 4": Case(lambda x: x**4, positive(3)),
    "integer_pow 5": Case(lambda x: x**5, normal(3)),
    "log": Case(jnp.log, positive(3)),
    "log1p": Case(jnp.log1p, positive(3)),
    "log2": Case(jnp.log2, positive(3)),
    "logistic": Case(jax.nn.sigmoid, normal(3)),
    "neg": Case(jnp.negative, normal(3)),
    "not": Case(jnp.invert, np.arange(3), log_det=False),
    "rsqrt": Case(lax.rsqrt, positive(3)),
    "sin": Case(jnp.sin, inside(3)),
    "sinh": Case(jnp.sinh, normal(3)),
    "sqrt": Case(jnp.sqrt, positive(3)),
    "square": Case(jnp.square, positive(3)),
    "tan": Case(jnp.tan, inside(3)),
    "tanh": Case(jnp.tanh, normal(3)),
}

BINARY = {
    "add": Case(lambda x, y: x + y, normal(3), normal(3), known=(0,)),
    "affine": Case(lambda x: 2 * x + 1, normal(3)),
    "autoregressive, of nothing at first": Case(
        lambda x: jnp.stack([x[i] * jnp.exp(x[:i].sum()) for i in range(3)]), normal(3)
    ),
    "atan2 of x": Case(lambda y, x: jnp.arctan2(y, x), normal(3), positive(3), known=(0,)),
    "atan2 of y": Case(lambda y, x: jnp.arctan2(y, x), normal(3), positive(3), known=(1,)),
    "div": Case(lambda x, y: x / y, normal(3), positive(3), known=(1,)),
    "div of divisor": Case(lambda x, y: x / y, normal(3), positive(3), known=(0,)),
    "factors of integers": Case(
        lambda n, m: n * m, np.int32([3, -5]), np.int32([7, 2]), known=(1,), log_det=False
    ),
    "mul": Case(lambda x, y: x * y, positive(3), normal(3), known=(0,)),
    "pow": Case(lambda x, y: x**y, positive(3), positive(3), known=(1,)),
    "pow of exponent": Case(lambda x, y: x**y, 1 + positive(3), normal(3), known=(0,)),
    "reciprocal": Case(lambda x: 3 / x, normal(3)),
    "sub": Case(lambda x, y: x - y, normal(3), normal(3), known=(0,)),
    "x * x": Case(lambda x: x * x, positive(3)),
    "x + x": Case(lambda x: x + x, normal(3)),
    "xor": Case(lambda x, y: x ^ y, np.int32([3, 5]), np.int32([6, 1]), known=(0,), log_det=False),
    "three results": Case(lambda x, y, z: (jnp.exp(x), x**2 + y, jnp.exp(z + y)), *normal(3, 1)),
    "triangular Jacobian": Case(lambda x, y: (x + 2, jnp.exp(x) + y), *normal(2, 1)),
}

LINEAR = {
    "batched matmul": Case(lambda x: jnp.einsum("bij,bjk->bik", MATRICES, x), normal(2, 3, 2)),
    "batched matmul, other order": Case(
        lambda x: jnp.einsum("kbj,bij->ikb", x, MATRICES), normal(2, 2, 3)
    ),
    "convolution of pixels": Case(
        lambda x: lax.conv(x, MATRIX[:, :, None, None], (1, 1), "SAME"), normal(2, 3, 2, 2)
    ),
    "cumlogsumexp": Case(lambda x: lax.cumlogsumexp(x, 0), normal(4)),
    "cumprod": Case(jnp.cumprod, positive(4)),
    "cumsum": Case(lambda x: lax.cumsum(x, 1, reverse=True), normal(2, 3)),
    "fft": Case(jnp.fft.fft, complex_(4)),
    "ifft2": Case(jnp.fft.ifft2, complex_(4, 2)),
    "matmul by rows": Case(lambda x: x @ MATRIX, normal(2, 3)),
    "matrix of a product": Case(lambda a, x: a @ x, normal(2, 3), MATRIX, known=(1,)),
    "matvec": Case(lambda a, x: a @ x, MATRIX, normal(3), known=(0,)),
    "rfft": Case(jnp.fft.rfft, normal(4), log_det=False),
    "scatter-add": Case(lambda x: x.at[np.array([2, 0])].add(np.float32([1, 3])), normal(3)),
    "scatter-add in part": Case(lambda x: x.at[2:].add(jnp.sin(x[:2])), normal(4)),
    "scatter-mul": Case(lambda x: x.at[np.array([0, 2])].multiply(3.0), normal(3)),
    "scatter-mul in part": Case(
        lambda x: x.at[:, np.array([3, 0])].multiply(2 + jnp.sin(x[:, 1:3]), unique_indices=True),
        normal(2, 4),
    ),
    "solve": Case(lambda b: jnp.linalg.solve(MATRIX, b), normal(3)),
    "triangular_solve": Case(
        lambda b: lax.linalg.triangular_solve(MATRIX, b, lower=True, transpose_a=True),
        normal(2, 3),
    ),
    "triangular_solve, left": Case(
        lambda b: jax.scipy.linalg.solve_triangular(MATRIX, b, lower=True), normal(3, 2)
    ),
    "tridiagonal_solve": Case(
        lambda b: lax.linalg.tridiagonal_solve(*np.float32(TRIDIAGONAL), b), normal(3, 2)
    ),
}
TRIDIAGONAL = [[0.0, 0.1, 0.2], [2.0, 3.0, 4.0], [0.3, 0.1, 0.0]]

MOVEMENT = {
    "broadcast": Case(lambda x: jnp.broadcast_to(x[:, None], (3, 2)), normal(3), log_det=False),
    "broadcast by an op": Case(lambda x: np.float32([2, 3]) * jnp.sin(x), normal(), log_det=False),
    "concatenate": Case(lambda x, y: jnp.concatenate([x, y]), normal(2), normal(3)),
    "convert": Case(lambda n: n.astype(jnp.float32), np.int16([3, -4]), log_det=False),
    "dynamic_slice": Case(lambda x: (x[0], lax.dynamic_slice(x, (1,), (2,)), x[3]), normal(4)),
    "dynamic_update_slice": Case(
        lambda x, u: lax.dynamic_update_slice(jnp.pad(x, (0, 2)), u, (3,)), normal(3), normal(2)
    ),
    "even and odd": Case(lambda x: (x[::2], x[1::2]), normal(5)),
    "gathers": Case(lambda x: (x[np.array([2, 0])], x[np.array([1, 3])]), normal(4)),
    "overwritten": Case(lambda x: (x.at[0].set(3.0), x[0]), normal(3), log_det=False),
    "pad": Case(lambda x: lax.pad(x, np.float32(0), [(1, 0, 2)]), normal(3), log_det=False),
    "permutation": Case(lambda x: x[:, np.array([2, 0, 1])], normal(2, 3)),
    "permutation at run time": Case(lambda x, p: x[p], normal(3), np.array([2, 0, 1]), known=(1,)),
    "reshape and transpose": Case(lambda x: x.reshape(3, 2).T.reshape(6), normal(2, 3)),
    "rev": Case(lambda x: x[::-1], normal(3)),
    "roll": Case(lambda x: jnp.roll(x, 2), normal(5)),
    "select": Case(
        lambda x, p: jnp.where(p, jnp.exp(x), 2 * x),
        normal(4),
        np.array([True, False, True, True]),
        known=(1,),
    ),
    "select by a constant": Case(
        lambda x: jnp.where(np.array([True, False, True]), jnp.exp(x), x * x), positive(3)
    ),
    "split": Case(lambda x: jnp.split(x, 2), normal(4)),
    "squeeze": Case(lambda x: jnp.squeeze(x, 1), normal(3, 1)),
    "stack": Case(lambda x, y: jnp.stack([x, y], 1), normal(2), normal(2)),
    "tile": Case(lambda x: jnp.tile(x, 3), normal(2), log_det=False),
}

STRUCTURED = {
    "bits": Case(lambda x: lax.bitcast_convert_type(x, jnp.int32), normal(3), log_det=False),
    "cholesky": Case(
        lambda x: lax.linalg.cholesky(x, symmetrize_input=False), MATRIX @ MATRIX.T, log_det=False
    ),
    "complex": Case(lax.complex, normal(3), normal(3), log_det=False),
    "eigh": Case(
        lambda x: lax.linalg.eigh(x, symmetrize_input=False), MATRIX @ MATRIX.T, log_det=False
    ),
    "keys": Case(jax.random.wrap_key_data, np.uint32([3, 4]), log_det=False),
    "key data": Case(jax.random.key_data, jax.random.key(3), log_det=False),
    "lu": Case(lax.linalg.lu, normal(3, 3), log_det=False),
    "parts": Case(lambda z: (z.imag, z.real), complex_(3), log_det=False),
    "qr": Case(jnp.linalg.qr, normal(3, 2), log_det=False),
    "sort": Case(lambda x: lax.sort_key_val(x, jnp.arange(4)), normal(4), log_det=False),
    "svd": Case(lambda x: lax.linalg.svd(x, full_matrices=False), normal(3, 2), log_det=False),
}

LIBRARY = {
    "elu": Case(jax.nn.elu, normal(4)),
    "selu of batches": Case(jax.vmap(jax.vmap(jax.nn.selu)), normal(3, 2, 2)),
    "leaky_relu": Case(jax.nn.leaky_relu, normal(4)),
    "leaky_relu of a slope": Case(lambda x: jax.nn.leaky_relu(x, 0.3), normal(4)),
    "log_sigmoid": Case(jax.nn.log_sigmoid, normal(4)),
    "logaddexp": Case(lambda x, y: jnp.logaddexp(x, y), normal(3), normal(3), known=(1,)),
    "logit": Case(jax.scipy.special.logit, 0.5 + 0.4 * inside(4)),
    "soft_sign": Case(jax.nn.soft_sign, normal(4)),
    "softplus": Case(jax.nn.softplus, normal(4)),
}


@jax.custom_jvp
def stretched(x):
    return 2 * jnp.sinh(x)


stretched.defjvps(lambda t, y, x: 2 * jnp.cosh(x) * t)


def conditional(i, x):
    return lax.switch(i, [jnp.exp, lambda x: x[::-1], lambda x: 3 * x], x)


def autoregressive(xs):
    def step(c, x):
        return jnp.tanh(c + x), x * jnp.exp(c)

    return lax.scan(step, np.float32(0), xs)[1]


def counted(n, x):
    def step(c):
        i, scale, x = c
        return i + 1, scale * 1.5, jnp.sinh(x) * scale

    return lax.while_loop(lambda c: c[0] < n, step, (0, np.float32(1), x))[2]


def keyed(x):
    """A loop in which the key of a step cannot be computed from that of the next step."""

    def step(c, _):
        key, x = c
        return (jax.random.split(key)[0], 2 * x + jax.random.normal(key, x.shape)), None

    return lax.scan(step, (jax.random.key(0), x), None, length=2)[0][1]


def carry_and_slices(x, ws):
    (_, x), ys = lax.scan(
        lambda c, w: ((c[0] + 1, jnp.sinh(c[1]) + c[0] * w), w * jnp.exp(c[0])),
        (np.float32(0), x),
        ws,
    )
    return x, ys


CALLS = {
    "autoregressive scan": Case(autoregressive, normal(4)),
    "autoregressive scan in reverse": Case(
        lambda xs: lax.scan(lambda c, x: (x, 2 * x + c), 0.0, xs, reverse=True)[1], normal(4)
    ),
    "checkpoint": Case(jax.checkpoint(lambda x: jnp.sinh(2 * x)), normal(3)),
    "cond 0": Case(conditional, 0, normal(3), known=(0,)),
    "cond 1": Case(conditional, 1, normal(3), known=(0,)),
    "custom_jvp": Case(stretched, normal(3)),
    "fori_loop": Case(lambda x: lax.fori_loop(0, 3, lambda i, x: 2 * x + i, x), normal(3)),
    "jit": Case(lambda x: jax.jit(lambda x: 3 / x)(jax.jit(jnp.exp)(x)), normal(3)),
    "layers": Case(
        lambda ws, x: lax.scan(lambda x, w: (jnp.sinh(w @ x), None), 0.1 * x, ws)[0],
        MATRICES,
        normal(3),
        known=(0,),
    ),
    "nested loops": Case(
        lambda x: lax.fori_loop(
            0, 2, lambda j, x: lax.fori_loop(0, 2, lambda i, x: jnp.sinh(x) * (i + 1.0), x), 0.1 * x
        ),
        inside(3),
    ),
    "scan of carry and slices": Case(carry_and_slices, 0.3 * normal(3), 0.3 * normal(3, 3)),
    "scan with keys": Case(keyed, normal(3)),
    "vmap of scan": Case(jax.vmap(autoregressive), normal(2, 3)),
    "while": Case(counted, 2, inside(3), known=(0,)),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "cases",
    [UNARY, BINARY, LINEAR, MOVEMENT, STRUCTURED, LIBRARY, CALLS],
    ids=["unary", "binary", "linear", "movement", "structured", "library", "calls"],
)
def test_inverse(cases):
    check(cases)


def test_every_rule_has_a_case():
    """Every op whose record has an inverse is inverted by one of the functions above."""
    from jaxmlir.dialect import ops
    from jaxmlir.dialect.ir import scope

    seen = set()
    groups = [UNARY, BINARY, LINEAR, MOVEMENT, STRUCTURED, LIBRARY, CALLS]
    for case in (case for group in groups for case in group.values()):
        program = jaxmlir.trace(case.function)(*case.args)
        with scope():
            for function in program.functions.values():
                seen |= {op.operation.name for op in function.entry_block.operations}
    untested = {
        op.name
        for op in ops.OPS.values()
        if op.has_inverse and f"jaxpr.{op.name}" not in seen and op.name not in UNSEEN
    }
    assert not untested


UNSEEN = {
    # Ops that come from transformations, rare programs or devices, and share another op's rule.
    *("add_any", "call", "closed_call", "composite", "compute_on", "custom_partitioning"),
    "custom_inverse_call",
    *("custom_vjp_call_jaxpr", "custom_vmap_call", "device_put", "eval_jaxpr", "fused_call"),
    *("layout_constraint", "name", "one_minus_square", "optimization_barrier", "program_order"),
    *("random_clone", "reduce_precision", "scatter_sub", "sharding_constraint", "stack", "tie"),
    *("unstack", "xla_metadata_call", "xla_metadata_value", "copy", "tile", "log2", "exp2"),
    *("square", "rev", "transpose"),
}


# --- what is asked for ----------------------------------------------------------------------------


def test_arguments_that_are_asked_for():
    def f(tree, y, z):
        return {"a": tree["a"] * y, "b": tree["b"] + z}, jnp.exp(y), z

    args = ({"a": np.float32(2), "b": np.float32(3)}, np.float32(0.5), np.float32(7))
    program = jaxmlir.trace(f)(*args)
    y = f(*args)
    assert jax.tree.structure(program.inverse()(y)) == jax.tree.structure(args)
    np.testing.assert_allclose(program.inverse(argnums=1, known=())(y), 0.5, rtol=1e-6)
    found = program.inverse(argnums=(2, 0), known=())(y)
    np.testing.assert_allclose([found[0], found[1]["a"], found[1]["b"]], [7, 2, 3], rtol=1e-6)
    # The inverse takes the known arguments in their order.
    found = program.inverse(argnums=0)(y, 0.5, 7.0)
    np.testing.assert_allclose([found["a"], found["b"]], [2, 3], rtol=1e-6)
    found = program.inverse(known=0)(y, args[0])
    np.testing.assert_allclose(found, [0.5, 7], rtol=1e-6)
    with pytest.raises(ArgumentError, match="argnums=1 and known=1 overlap"):
        program.inverse(argnums=1, known=1)
    with pytest.raises(ArgumentError, match="argnums=5: the program takes 3"):
        program.inverse(argnums=5)
    with pytest.raises(TransformError, match="has no log-determinant: .* 4 .* 3"):
        program.inverse_and_log_det(known=2)


def test_composes_with_transformations():
    def f(w, x):
        return jnp.sinh(w * x)

    w, x = np.float32(2), normal(3)
    program = jaxmlir.trace(f)(w, x)
    inverse = program.inverse(argnums=1)

    def expected(y, w):
        return jnp.arcsinh(y) / w

    y = f(w, x)
    jacobian = jax.jacrev(expected, (0, 1))(y, w)
    np.testing.assert_allclose(jax.jacrev(inverse, (0, 1))(y, w)[1], jacobian[1], rtol=1e-5)
    np.testing.assert_allclose(inverse.jacfwd((0, 1))(y, w)[0], jacobian[0], rtol=1e-5, atol=1e-6)
    batch = np.stack([y, 2 * y])
    found = inverse.vmap((0, None), axis_size=2)(batch, w)
    np.testing.assert_allclose(found, jax.vmap(expected, (0, None))(batch, w), rtol=1e-5)
    # The inverse of the inverse equals the function.
    again = inverse.inverse(argnums=0)
    np.testing.assert_allclose(again(x, w), y, rtol=1e-5)


def test_a_called_function_is_inverted_once():
    @jax.jit
    def layer(x):
        return jnp.sinh(x) + 1

    program = jaxmlir.trace(lambda x: layer(layer(layer(x))))(normal(3))
    assert len(program.inverse().functions) == 2


def test_precision():
    """Log-determinants for which a formula in the result is more exact than the chain rule."""
    logistic = jaxmlir.trace(jax.nn.sigmoid)(1.0).inverse_and_log_det()
    np.testing.assert_allclose(logistic(1e-30)[1], 30 * np.log(10), rtol=1e-6)
    tanh = jaxmlir.trace(jnp.tanh)(1.0).inverse_and_log_det()
    np.testing.assert_allclose(tanh(1 - 2.0**-23)[1], -np.log(2.0**-22 - 2.0**-46), rtol=1e-5)
    exp = jaxmlir.trace(jnp.exp)(1.0).inverse_and_log_det()
    np.testing.assert_allclose(exp(1e-37)[1], 37 * np.log(10), rtol=1e-6)


def test_integers_are_exact():
    numbers = np.int32([2**30 - 1, -3])
    for function in (lambda n: n + n, lambda n: 7 * n - 5, lambda n: (n ^ 12345) + 1):
        np.testing.assert_array_equal(
            jaxmlir.trace(function)(numbers // 8).inverse()(function(numbers // 8)), numbers // 8
        )


def test_symbolic_shapes():
    (b,) = jax.export.symbolic_shape("b")
    x = jnp.arange(3.0)
    program = jaxmlir.trace(lambda x: jnp.exp(2 * x) + 1)(jax.ShapeDtypeStruct((b,), x.dtype))
    found, log_det = program.inverse_and_log_det()(jnp.exp(2 * x) + 1)
    np.testing.assert_allclose(found, x, atol=1e-6)
    np.testing.assert_allclose(log_det, -3 * np.log(2) - 6, rtol=1e-6)
    program = jaxmlir.trace(lambda x: jnp.concatenate([x[:1], 2 * x[1:]]))(
        jax.ShapeDtypeStruct((b,), x.dtype)
    )
    with pytest.raises(TransformError, match="'jaxpr.concatenate' op .* its shape is symbolic"):
        program.inverse()


# --- inverses that users give ---------------------------------------------------------------------


@jaxmlir.custom_inverse
def shifted(x, by):
    return x + by


# Deliberately not the inverse: a program that does not use it gives other numbers.
shifted.definverse(lambda y, by: y - by + 100, lambda x, y, by: 7 * jnp.sum(by))


def test_custom_inverse():
    x, by = normal(3), np.float32([1, 2, 3])

    def f(x, by):
        return 2 * jax.jit(shifted)(x, by)

    program = reread(jaxmlir.trace(f)(x, by))
    y = f(x, by)
    found, log_det = program.inverse_and_log_det(known=1)(y, by)
    np.testing.assert_allclose(found, x + 100, rtol=1e-5)
    np.testing.assert_allclose(log_det, -3 * np.log(2) - 42, rtol=1e-6)
    # For an argument without a custom inverse, the ops of the function are inverted.
    np.testing.assert_allclose(program.inverse(known=0)(y, x), by, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(f(x, by)))(x), 2.0)


def test_custom_inverse_of_batches():
    xs, by = normal(2, 3), np.float32([1, 2, 3])
    ys = 2 * (xs + by)
    program = jaxmlir.trace(lambda x, by: 2 * shifted(x, by))(xs[0], by)
    by_jax = jaxmlir.trace(jax.vmap(lambda x, by: 2 * shifted(x, by), (0, None)))(xs, by)
    for batched in (program.vmap((0, None), axis_size=2), by_jax):
        found, log_det = batched.inverse_and_log_det(known=1)(ys, by)
        np.testing.assert_allclose(found, xs + 100, rtol=1e-5)
        np.testing.assert_allclose(log_det, -6 * np.log(2) - 84, rtol=1e-6)


def test_custom_inverse_with_the_default_log_det():
    @jaxmlir.custom_inverse
    def spun(tree):
        return {"y": MATRIX @ tree["x"] + tree["z"]}

    @jaxmlir.custom_inverse
    def matrix(x):
        return MATRIX @ jnp.sinh(x)

    matrix.definverse(lambda y: jnp.arcsinh(jnp.linalg.solve(MATRIX, y)))
    x = inside(3)
    found, log_det = jaxmlir.trace(lambda x: matrix(x))(x).inverse_and_log_det()(matrix(x))
    np.testing.assert_allclose(found, x, rtol=1e-4)
    expected = -jnp.linalg.slogdet(jax.jacfwd(lambda x: MATRIX @ jnp.sinh(x))(x))[1]
    np.testing.assert_allclose(log_det, expected, rtol=1e-4)
    spun.definverse(lambda result: result["y"])
    with pytest.raises(TypeError, match=r"argument's types, f32\[3\], f32\[3\], got f32\[3\]"):
        spun({"x": x, "z": x})


@pytest.mark.parametrize(
    ("argnum", "log_det", "expected"),
    [
        ("x", None, "expected the number of an argument, got 'x'"),
        (-1, None, "expected the number of an argument, got -1"),
        (2, None, "has an inverse in argument 2, but is called with 2 arguments"),
        (0, lambda x, y, s: x, r"expected a real scalar, got f32\[3\]"),
        (0, lambda x, y, s: (0.0, 0.0), r"expected a real scalar, got f32\[\], f32\[\]"),
    ],
)
def test_wrong_uses_of_custom_inverse(argnum, log_det, expected):
    scaled = jaxmlir.custom_inverse(lambda x, s: x * s)
    with pytest.raises(ArgumentError, match=expected):
        scaled.definverse(lambda y, s: y / s, log_det, argnum=argnum)
        scaled(jnp.ones(3), 2.0)


def test_which_arguments_are_given_is_asked_for():
    program = jaxmlir.trace(lambda x, y: x + y)(1.0, 2.0)
    with pytest.raises(TransformError, match="operands 0 and 1 are unknown") as error:
        program.inverse()
    assert "all 2 arguments of @lambda are unknown" in error.value.__notes__[0]
    assert program.inverse(argnums=0)(3.0, 2.0) == 1.0


def test_custom_inverse_by_keyword():
    @jaxmlir.custom_inverse
    def scaled(x, s=2.0, *, shift=0.0):
        return x * s + shift

    scaled.definverse(lambda y, s: y / s, lambda x, y, s: jnp.log(s))
    assert scaled(1.0, s=4.0) == 4.0
    assert scaled(s=3.0, x=1.0) == 3.0
    assert jaxmlir.trace(lambda x: scaled(x, s=4.0))(1.0).inverse()(8.0) == 2.0
    with pytest.raises(ArgumentError, match="takes shift by keyword only"):
        scaled(1.0, shift=1.0)


def test_register_inverse():
    primitive = core.Primitive("multiply_add_by")
    primitive.def_impl(lambda x, y, *, k: k * x + y)
    primitive.def_abstract_eval(lambda x, y, *, k: x)
    ad.primitive_jvps[primitive] = lambda primals, tangents, *, k: (
        primitive.bind(*primals, k=k),
        k * tangents[0] + ad.instantiate_zeros(tangents[1]),
    )
    mlir.register_lowering(
        primitive, mlir.lower_fun(lambda x, y, *, k: k * x + y, multiple_results=False)
    )
    x, y = normal(3), normal(3)
    program = jaxmlir.trace(lambda x, y: primitive.bind(jnp.exp(x), y, k=3.0))(x, y)
    with pytest.raises(TransformError, match="'multiply_add_by' has no inverse rule"):
        program.inverse(known=1)
    # The log-determinant comes from the JVP rule, element by element or by the dense Jacobian.
    for elementwise in (True, False):
        jaxmlir.register_inverse(primitive, lambda z, y, *, k: (z - y) / k, elementwise=elementwise)
        found, log_det = program.inverse_and_log_det(known=1)(3 * np.exp(x) + y, y)
        np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(log_det, -3 * np.log(3) - np.sum(x), rtol=1e-4)


# --- what cannot be inverted ----------------------------------------------------------------------


def loop_of_rounds(x):
    return lax.scan(lambda c, _: (jnp.round(c), None), x, None, length=3)[0]


ERRORS = {
    "add": (lambda x: x**2 + jnp.sin(x), "'jaxpr.add' op .* its operands 0 and 1 are unknown"),
    "applied": (
        lambda x: x.at[0].apply(jnp.exp),
        "'jaxpr.scatter' op .*: it applies a function to elements instead of overwriting",
    ),
    "applied beside it": (lambda x: x + x.at[:].apply(jnp.exp), "'jaxpr.add' op .* are unknown"),
    "branch": (lambda x: lax.cond(x[0] > 0, jnp.exp, jnp.sinh, x), "which branch was taken"),
    "constant": (lambda x: jnp.ones(3), "it does not depend on argument 0"),
    "convert": (lambda x: x.astype(jnp.bfloat16), "bfloat16 does not hold every value of float32"),
    "dead code beside it": (
        lambda x: (jnp.floor(x), jnp.exp(x**2 * np.float32([1, 0, 1])))[0],
        "'jaxpr.floor' op .*: floor is many-to-one",
    ),
    "dropped": (lambda x: x[:2], "only 2 of the 3 elements of argument 0 follow"),
    "floor": (lambda x: jnp.floor(x) + 1.0, "'jaxpr.floor' op .*: floor is many-to-one"),
    "in a called function": (lambda x: jax.jit(jnp.abs)(x), "'jaxpr.abs' op .* same absolute"),
    "in a loop": (loop_of_rounds, "'jaxpr.scan' op [^@]*note: 'jaxpr.round' op .* many-to-one"),
    "integers": (lambda x: x / 2 * jnp.arange(3), "operand 0 does not follow where .* constant 0"),
    "matrix": (lambda x: MATRIX[:2] @ x, "the known matrix is 2 by 3, not square"),
    "indices alike": (
        lambda x: x.at[np.array([0, 0])].add(x[1:]),
        "'jaxpr.scatter_add' op .* its operands 0 and 2 are unknown",
    ),
    "powers": (lambda x: x ** np.float32([1, 2, 0]), "operand 0 .* operand 1 is a constant 0"),
    "powers of one": (lambda x: np.float32([2, 1, 3]) ** x, "operand 0 is a constant 0 or 1"),
    "predicate": (lambda x: jnp.where(x > 0, x, 2 * x), "'jaxpr.select_n' op .* are unknown"),
    "quotient of zero": (lambda x: np.float32([1, 0, 2]) / x, "operand 0 is a constant 0"),
    "sum": (lambda x: jnp.sum(x), "'jaxpr.reduce_sum' op .*: a reduction is many-to-one"),
    "trip count": (
        lambda x: lax.while_loop(lambda x: x[0] < 9, lambda x: 2 * x, x),
        "'jaxpr.while' op .* how many steps it takes depends on an unknown",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_op_line_and_reason(name):
    function, message = ERRORS[name]
    with pytest.raises(TransformError, match=f"(?s){message}") as caught:
        jaxmlir.trace(function)(np.float32([1, 2, 3])).inverse()
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.file == __file__ and diagnostic.line > 0


def test_a_namesake_of_a_library_function_is_none():
    """A user's function with the name of one of JAX's is inverted by its own ops."""

    @jax.jit
    def softplus(x):
        return jnp.sinh(x)

    @jax.jit
    def logaddexp(x):
        return jnp.abs(x)

    program = jaxmlir.trace(lambda x: softplus(x))(1.0)
    np.testing.assert_allclose(program.inverse()(np.sinh(0.5)), 0.5, rtol=1e-6)
    with pytest.raises(TransformError, match="'jaxpr.abs' op cannot be inverted"):
        jaxmlir.trace(lambda x: logaddexp(x))(1.0).inverse()


def test_64_bit_types_need_no_configuration():
    def f(x):
        return jnp.cumsum(jnp.tanh(jnp.linalg.solve(jnp.eye(4) + jnp.ones((4, 4)), x)))

    x = np.linspace(0.1, 0.9, 4)
    with jax.enable_x64(True):
        program, y = jaxmlir.trace(f)(x), f(x)
        expected = jnp.linalg.slogdet(jax.jacobian(f)(x))[1]
    found = program.inverse_and_log_det()
    assert "f32" not in found.as_text()
    with jax.enable_x64(True):
        again, log_det = found(y)
        np.testing.assert_allclose(again, x, rtol=1e-12)
        np.testing.assert_allclose(log_det, -expected, rtol=1e-12)
