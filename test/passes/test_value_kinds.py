"""Every pass on programs with values of every kind that JAX has, against JAX.

The values are typed and raw random keys, 4-bit integers, 8-bit floats, booleans, complex numbers
and arrays without elements.  All passes in the registry run, also those not named here, with
options that make them rewrite as much as possible.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.interpret.interpreter import Interpreter
from jaxmlir.passes import BUILTIN_PASSES, LEVELS, find_pass

pytestmark = pytest.mark.compat

N = 4


def floating():
    """The values that a derivative is taken with respect to."""
    line = np.linspace(-1, 1, N, dtype=np.float32)
    return {
        "complex": (line + 1j * line[::-1] / 2).astype(np.complex64),
        "empty": np.zeros((N, 0), np.float32),
        "float": line,
        "fp8": line.astype(ml_dtypes.float8_e4m3fn),
    }


def others():
    keys = jax.random.split(jax.random.key(0), N)
    return {
        "bool": np.arange(N) % 3 == 0,
        "int4": np.arange(-2, N - 2).astype(ml_dtypes.int4),
        "key": keys,
        "no_keys": keys[:, None][:, :0],
        "raw": jax.random.key_data(keys),
    }


fold_in = jax.vmap(jax.random.fold_in, (0, None))


def step(v, i):
    """Other values of the same types; each depends on its own kind, and the floats on all."""
    x, small = v["float"], v["fp8"].astype(np.float32)
    drawn = jax.random.key_data(v["key"])[:, 0] ^ v["raw"][:, 1]
    total = jnp.sin(x) * small + v["int4"].astype(np.float32) + (drawn >> 8) * 2.0**-24
    return {
        "bool": v["bool"] ^ (x > 0),
        "complex": v["complex"] * lax.complex(x, small),
        "empty": jnp.sin(v["empty"]),
        "float": jnp.where(v["bool"], total, x) + v["empty"].sum(1) + v["complex"].real,
        "fp8": (small * 0.5).astype(v["fp8"].dtype),
        "int4": v["int4"] + jnp.asarray(i, v["int4"].dtype),
        "key": fold_in(v["key"], i),
        "no_keys": v["no_keys"][::-1],
        "raw": v["raw"] ^ jnp.asarray(i, np.uint32),
    }


def loops(v):
    """Loops that carry, read, stack and write all kinds."""
    v, rows = lax.scan(lambda v, i: (step(v, i), v), v, np.arange(2, dtype=np.int32))

    def turn(i, carry):
        v, rows = carry
        row = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, i, keepdims=False), rows)
        v = step(choose(i > 0, row, v), i)
        return v, jax.tree.map(lambda xs, x: xs.at[i].set(x), rows, v)

    v, rows = lax.fori_loop(0, 2, turn, (v, rows))
    return v, rows, lax.map(lambda v: step(v, 1), jax.tree.map(lambda x: x[:, None], v))


def moves(v):
    """Selections and movements of elements of all kinds, and reductions."""
    other = jax.tree.map(lambda x: x[jnp.array([2, 0, 0, 1])], v)
    found = choose(v["bool"][0], v, other)
    found = lax.cond(v["float"][0] > 0, lambda v: step(v, 2), lambda v: v, found)
    halves = jax.tree.map(lambda x, y: jnp.concatenate([x[:2], y[2:]]), v, found)
    spread = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), found)
    turned = jax.tree.map(lambda x: x[None].swapaxes(0, 1).reshape(x.shape), spread)
    part = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, 1, 2), turned)
    rows = jax.tree.map(lambda x: jnp.stack([x[0], x[1], x[0], x[1]]), part)
    numbers = {k: rows[k] for k in ("complex", "empty", "float", "fp8", "int4", "raw")}
    added = jax.tree.map(lambda x: jnp.zeros_like(x).at[1].add(x[0]), numbers)
    sums = jax.tree.map(lambda x: lax.reduce(x, np.zeros((), x.dtype), lax.add, (0,)), numbers)
    products = [lax.dot(lax.dot(v[k][:, None], v[k][None]), v[k]) for k in numbers if v[k].ndim < 2]
    return halves, rows, added, sums, products, jnp.argmax(rows["float"])


@jax.jit
def called(v, i):
    return step(v, i)


@jax.custom_jvp
def with_rule(v):
    return step(v, 1)["float"]


@with_rule.defjvp
def with_rule_jvp(primals, tangents):
    (v,), (t,) = primals, tangents
    return with_rule(v), 2 * t["float"]


def calls(v):
    """A sequence of calls, whose values its derivative needs again."""
    rows = [called(jax.tree.map(lambda x, i=i: x[i], joined(v)), i) for i in range(N)]
    v = jax.checkpoint(lambda v: step(v, 2))(step(rows[0], 1))
    return v | {"float": v["float"] + with_rule(rows[1])}, rows


def joined(v):
    """Rows of values."""
    return jax.tree.map(lambda x: jnp.stack([x, x[::-1], x, x]), v)


def numerics(v):
    """Ops that passes rewrite, on several kinds of numbers and on empty arrays."""
    x, c, none = v["float"], v["complex"], v["empty"]
    found = [lax.fft(c, "fft", c.shape)]
    for a in (x, c, x[:0]):
        matrix = a[:, None] * a.conj() + 4 * jnp.eye(len(a), dtype=a.dtype)
        factor = lax.linalg.cholesky(matrix)
        found += [lax.linalg.triangular_solve(factor, matrix, left_side=True)]
        found += [lax.conv(jnp.tile(a, (1, 2, 1)), jnp.ones((2, 2, 2), a.dtype), (1,), "SAME")]
    for a in (x[None], none, none.T):
        found += [lax.cumlogsumexp(a, 1), jax.nn.softmax(a, 1)]
        found += [lax.reduce_window(a, -np.inf, lax.max, (1, 2), (1, 1), "SAME")]
    found += [lax.sort(v[k], dimension=0) for k in ("float", "fp8", "int4", "raw", "bool")]
    return [*found, lax.dot(none.T, none), lax.dot(none, none.T), v["int4"] @ v["int4"]]


def choose(predicate, v, w):
    return jax.tree.map(lambda x, y: lax.select(jnp.full(x.shape, predicate), x, y), v, w)


FUNCTIONS = (loops, moves, calls, numerics)


def loss(f, at, rest):
    """A number that depends on all floats in the results of ``f``, and these results."""
    found = f(at | rest)
    floats = [x for x in jax.tree.leaves(found) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return sum(jnp.sum(abs(x.astype(np.complex64))) for x in floats), found


def on_all(f, at, rest):
    return f(at | rest)


ARGS = floating(), others()
OPTIONS = {
    # Options whose names do not show which value is eager.
    "checkpoints": "2",
    "growth": "1e9",
    "factor": "0",
    "threshold": "1",
    "margin": "100",
    "moved": "1e9",
    "memory": "1e9",
    "stacked": "1e9",
    "stored": "1e9",
    "slowdown": "1e9",
    "sure-gain": "0",
    "batch-bytes": "1000",
    "tile-size": "2",
    "memory-budget": "0.3",
    "measure": "false",
    "while": "checkpointed",
    "fast-math": "true",
    "platform": "cpu",
}


def eager(name):
    """The pass, with options that make it rewrite as much as possible."""
    texts = {}
    for option in find_pass(name).options():
        if option in OPTIONS:
            texts[option] = OPTIONS[option]
        elif option.startswith("min-"):
            texts[option] = "2" if option == "min-length" else "0"
        elif option.startswith("max-") and option != "max-size":
            texts[option] = "1000"
    return f"{name}{{{' '.join(map('='.join, texts.items()))}}}"


# Passes that return another function; all others rewrite the same function.
OTHER_FUNCTIONS = {
    "jaxpr-cost",
    "jaxpr-grad",
    "jaxpr-hessian-sparsity",
    "jaxpr-inverse",
    "jaxpr-jacobian-sparsity",
    "jaxpr-jvp",
    "jaxpr-legalize-to-stablehlo",
    "jaxpr-linearize",
    "jaxpr-partial-eval",
    "jaxpr-transpose",
    "jaxpr-verify",
    "jaxpr-vjp",
    "jaxpr-vmap",
}
REWRITES = [name for name, _ in BUILTIN_PASSES if name not in OTHER_FUNCTIONS]


@functools.cache
def gradient(f):
    """A function's value and gradient as a program, and JAX's results."""
    of_loss = functools.partial(loss, f)
    program = jaxmlir.trace(of_loss)(*ARGS).value_and_grad(has_aux=True)
    return program, jax.jit(jax.value_and_grad(of_loss, has_aux=True))(*ARGS)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("f", FUNCTIONS, ids=operator.attrgetter("__name__"))
@pytest.mark.parametrize("name", REWRITES)
def test_rewriting_passes(name, f):
    """Evaluated op by op, a program that a pass rewrites has JAX's results."""
    program, want = gradient(f)
    new = program.run_passes(eager(name))
    if str(new) != str(program):
        got = jax.tree.unflatten(jax.tree.structure(want), op_by_op(new))
        same(got, want, 0.01 if name == "jaxpr-matmul-precision" else 1e-4)


def op_by_op(program):
    return Interpreter(program).run(program.name, jax.tree.leaves(ARGS))


@pytest.mark.sampled
@pytest.mark.parametrize("f", FUNCTIONS, ids=operator.attrgetter("__name__"))
def test_all_rewriting_passes_compiled(f):
    pipeline = ",".join(map(eager, dict.fromkeys(e.partition("{")[0] for e in LEVELS[2])))
    program, want = gradient(f)
    same(program.run_passes(pipeline)(*ARGS), want, 1e-3)


@pytest.mark.parametrize("f", (loops, moves), ids=operator.attrgetter("__name__"))
def test_transformations(f):
    """jvp and vmap of programs with values that have no derivatives."""
    function = functools.partial(on_all, f)
    program = jaxmlir.trace(function)(*ARGS)
    tangents = [
        jax.tree.map(lambda x: jnp.full_like(x, 0.5), ARGS[0]),
        jax.tree.map(float0, ARGS[1]),
    ]
    rows = joined(ARGS)

    @jax.jit
    def wanted(args, rows):
        pushed = jax.jvp(function, args, tuple(tangents))
        return pushed, jax.vmap(function)(*rows)

    pushed, of_rows = wanted(ARGS, rows)
    same(program.jvp()(ARGS, tuple(tangents)), pushed)
    same(program.vmap(0, axis_size=N)(*rows), of_rows)


def float0(x):
    return np.zeros(x.shape, jax.dtypes.float0)


def key_data(tree):
    def words(x):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(x) if is_key else x

    return jax.tree.map(words, tree)


def same(ours, jaxs, tolerance=1e-4, what=""):
    assert jax.tree.structure(ours) == jax.tree.structure(jaxs)
    ours, jaxs = map(jax.device_get, map(key_data, (ours, jaxs)))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(jaxs), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if jnp.issubdtype(a.dtype, jnp.inexact):
            # An 8-bit float has a mantissa of three bits.
            least = 0.125 if a.dtype.itemsize == 1 else tolerance
            a, b = (np.asarray(x, np.promote_types(x.dtype, np.float32)) for x in (a, b))
            np.testing.assert_allclose(a, b, rtol=least, atol=least / 10, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)
