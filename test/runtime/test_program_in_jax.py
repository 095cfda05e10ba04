"""A program inside other JAX code: transformed, traced, called by threads, with effects."""

from __future__ import annotations

import concurrent.futures
import enum
import functools
import inspect
import subprocess
import sys

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread, same
from jax import lax

import jaxmlir
from jaxmlir.errors import ArgumentError
from jaxmlir.runtime import program_primitive
from jaxmlir.runtime.callee import Callee

compat = pytest.mark.compat


def test_a_program_is_called_like_a_function():
    program = jaxmlir.trace(lambda x, y: x * y)(2.0, 3.0)
    assert jaxmlir.Program.__call__(program, 2.0, 3.0) == program(2.0, 3.0) == 6.0
    assert functools.partial(program, 2.0)(3.0) == 6.0
    assert str(inspect.signature(program)) == "(x, y)"
    assert program.__name__ == "lambda"
    assert "module @jit_lambda " in jax.jit(program).lower(2.0, 3.0).as_text()
    unnamed = jaxmlir.parse(str(program))
    assert str(inspect.signature(unnamed)).startswith("(*args")
    assert jaxmlir.Program.__call__.__doc__.startswith("Runs the program")


@pytest.fixture(scope="module")
def wave():
    return reread(jaxmlir.trace(lambda x: jnp.sin(x) * jnp.exp(-x))(1.0))


def python_wave(x):
    return jnp.sin(x) * jnp.exp(-x)


@pytest.mark.sampled
@compat
@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        jax.grad,
        lambda f: jax.grad(jax.grad(f)),
        lambda f: jax.vmap(jax.grad(f)),
        lambda f: jax.jacfwd(jax.vmap(f)),
        lambda f: jax.jit(jax.hessian(lambda x: jax.vmap(f)(x).prod())),
        lambda f: jax.vmap(jax.vmap(f)),
        lambda f: jax.checkpoint(lambda x: jax.grad(f)(x)),
        lambda f: lambda x: lax.scan(lambda c, x: (f(c) + x, f(x)), 0.5, x),
        lambda f: jax.grad(lambda x: lax.fori_loop(0, 3, lambda _, c: f(c) + c, x)),
        lambda f: lambda x: lax.cond(x > 0, f, jnp.cos, x),
        lambda f: lambda x: lax.map(f, x),
        lambda f: lambda x: jax.linearize(f, x)[1](2.0),
        lambda f: lambda x: jax.vjp(f, x)[1](2.0),
        lambda f: lambda x: jax.jvp(f, (x,), (2.0,)),
        lambda f: lambda x: jax.eval_shape(f, x).dtype.type(0) + f(x),
    ],
)
def test_inside_transformations(wave, transform):
    def value(f):
        for x in (0.7, jnp.linspace(0.1, 2.0, 4), jnp.linspace(0.1, 2.0, 4)[:, None]):
            try:
                return transform(f)(jnp.asarray(x))
            except (TypeError, ValueError, ArgumentError, IndexError):
                continue
        raise AssertionError("no argument fits")

    ours, jaxs = value(wave), value(python_wave)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7), ours, jaxs)


@compat
def test_called_op_by_op_it_is_compiled_once(wave, monkeypatch):
    lowered, lower = [], Callee.lower
    monkeypatch.setattr(
        Callee, "lower", lambda self, *args: lowered.append(self) or lower(self, *args)
    )
    _, pullback = jax.vjp(
        lambda x: program_primitive.call(wave, wave.name, [x])[0], jnp.float32(0.7)
    )
    assert pullback(1.0) == pullback(1.0)
    assert len(lowered) == len({*lowered})


@compat
def test_inside_interpreters_that_look_at_equations():
    from jax.experimental import checkify, jet

    def f(x):
        checkify.check(x > 0, "not positive: {x}", x=x)
        return jnp.log(x)

    program = reread(jaxmlir.trace(f)(1.0))
    x = jnp.float32(-1.0)
    (ours, _), (jaxs, _) = (checkify.checkify(lambda x, g=g: g(x))(x) for g in (program, f))
    assert ours.get() == jaxs.get() and "not positive" in ours.get()
    program = jaxmlir.trace(jnp.exp)(x)
    ours, jaxs = (
        jax.jit(lambda x, g=g: jet.jet(g, (x,), ((x, x),)))(x) for g in (program, jnp.exp)
    )
    same(ours, jaxs)
    with jax.disable_jit():
        same(*(jet.jet(g, (x,), ((x, x),)) for g in (program, jnp.exp)))
        assert checkify.checkify(program)(x)[1] == jnp.exp(x)


@compat
def test_on_sparse_arrays():
    from jax.experimental import sparse

    def f(a, b):
        return (2 * a.T) @ b, a + a

    dense, x = jnp.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), jnp.array([1.0, -2.0])
    program = reread(jaxmlir.trace(f)(dense, x))
    for g in (program, jaxmlir.jit(f, optimize=2)):
        product, total = sparse.sparsify(g)(sparse.BCOO.fromdense(dense), x)
        assert isinstance(total, sparse.BCOO)
        same((product, total.todense()), f(dense, x))
        same(sparse.sparsify(jax.jit(g))(dense, x), f(dense, x))


@compat
def test_keys_that_are_used_twice():
    """``jax_debug_key_reuse`` knows how a program uses each key."""

    def draws(key, x):
        return lax.scan(lambda key, x: (key, jax.random.normal(key) * x), key, x)[1]

    def reads(key, x):
        return jax.random.key_data(key)[0] * x

    def splits(key, x):
        first, second = jax.random.split(key)
        return jax.random.normal(first, (2,)) * x + jax.random.uniform(second, (2,))

    x = jnp.ones(2)
    programs = [(f, jaxmlir.trace(f)(jax.random.key(0), x)) for f in (draws, reads, splits)]
    with jax.debug_key_reuse(True):
        for f, program in programs:
            refused = []
            for run in (jax.jit(f), program, jax.jit(lambda key, x, g=program: g(key, x))):
                key = jax.random.key(1)
                for use in (1, 2):
                    try:
                        run(key, x)
                    except jax.errors.KeyReuseError:
                        refused.append(use)
                        break
                else:
                    refused.append(None)
            assert refused == [{draws: 1, reads: None, splits: 2}[f]] * 3, f


INTERPRETERS_LATER = """
import jax, jax.numpy as jnp, jaxmlir
program = jaxmlir.trace(jnp.exp)(1.0)
program(0.0)
from jax.experimental import checkify, jet
value, series = jet.jet(program, (0.0,), ((1.0, 0.0),))
print(*map(float, (value, *series, checkify.checkify(program)(0.0)[1])))
"""


@compat
def test_inside_interpreters_that_are_imported_later():
    """JAX has already traced the program, and does not trace it again."""
    command = [sys.executable, "-c", INTERPRETERS_LATER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [float(word) for word in done.stdout.split()] == pytest.approx([1.0, 1.0, 1.0, 1.0])


ONE_WHILE_ANOTHER_IS_SEARCHED = """
import importlib, sys
import jaxmlir, jaxmlir.runtime.program_primitive


class Elsewhere:
    def find_spec(name, path, target=None):
        if name == "jax.experimental.jet":
            importlib.import_module("jax._src.checkify")


sys.meta_path.insert(1, Elsewhere)
import jax.experimental.jet
for module, rules in (("jax.experimental.jet", "jet_rules"), ("jax._src.checkify", "error_checks")):
    assert jaxmlir.runtime.program_primitive.call_p in getattr(sys.modules[module], rules), module
"""


def test_an_interpreter_that_is_imported_while_another_one_is_searched():
    """Another thread may import one meanwhile."""
    command = [sys.executable, "-c", ONE_WHILE_ANOTHER_IS_SEARCHED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@compat
def test_the_backward_pass_keeps_what_there_is():
    x = jnp.arange(3.0)
    program = jaxmlir.trace(lambda x: jnp.exp(x * x))(x)
    out, pullback = jax.vjp(program, x)
    assert any(leaf is x for leaf in jax.tree.leaves(pullback))
    assert any(leaf is out for leaf in jax.tree.leaves(pullback))
    np.testing.assert_allclose(pullback(jnp.ones(3))[0], 2 * x * jnp.exp(x * x), rtol=1e-6)


def test_without_jit():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: lax.cond(c > 0, jnp.cos, jnp.sin, c), jnp.tanh(x))

    program = jaxmlir.trace(f)(1.0)
    with jax.disable_jit():
        np.testing.assert_allclose(program(1.0), f(1.0), rtol=1e-6)
        np.testing.assert_allclose(jax.grad(program)(1.0), jax.grad(f)(1.0), rtol=1e-6)


@compat
def test_a_program_traces_into_another(wave):
    program = reread(jaxmlir.trace(lambda x: wave(x) + jax.grad(wave)(x))(1.0))
    expected = python_wave(0.5) + jax.grad(python_wave)(0.5)
    np.testing.assert_allclose(program(0.5), expected, rtol=1e-6)


@compat
def test_programs_are_shared_by_threads(wave):
    def work(i):
        def f(x):
            return jnp.cos(x) * i + wave(x) + jax.grad(wave)(x)

        return reread(jaxmlir.trace(f)(1.0))(0.5)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ours = list(pool.map(work, range(8)))
    base = python_wave(0.5) + jax.grad(python_wave)(0.5)
    np.testing.assert_allclose(ours, [jnp.cos(0.5) * i + base for i in range(8)], rtol=1e-6)


# Threads that make jaxmlir create per-process objects at the same time.
BEGUN_BY_THREADS = """
import sys, threading
import jax, jax.numpy as jnp, numpy as np

x = np.arange(6, dtype=np.float32).reshape(2, 3)
together = threading.Barrier(6)
found = []

def work(i):
    def f(x):
        return jnp.sum(jnp.tanh(x * i) @ x.T)

    expected = jax.grad(f)(x)
    together.wait(100)
    import jaxmlir

    program = jaxmlir.trace(f)(x)
    gradient = program.optimize(2).grad() if i % 2 else jaxmlir.parse(program.as_text()).grad()
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-5)
    found.append(i)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(found) == list(range(6)), found
"""


@compat
def test_threads_are_the_first_to_use_it():
    done = subprocess.run([sys.executable, "-c", BEGUN_BY_THREADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@compat
@pytest.mark.parametrize(
    "wrap", [lambda f: jaxmlir.trace(f)(jax.new_ref(jnp.ones(3)), 2.0), jaxmlir.jit]
)
def test_mutable_arrays_are_mutated(wrap):
    def add(ref, x):
        ref[...] += x

    ref = jax.new_ref(jnp.ones(3))
    wrap(add)(ref, 2.0)
    same(ref[...], jnp.full(3, 3.0))


@compat
def test_a_custom_rule_writes_to_an_array_that_is_closed_over():
    seen = jax.new_ref(jnp.float32(0.0))

    @jax.custom_vjp
    def stash(ref, x):
        return x

    def bwd(ref, g):
        ref[...] = g
        return None, g

    stash.defvjp(lambda ref, x: (x, ref), bwd)
    program = jaxmlir.trace(lambda x: jnp.sin(stash(seen, x)))(jnp.float32(0.5))
    same(jax.grad(program)(jnp.float32(0.5)), jnp.cos(0.5))
    same(seen[...], jnp.cos(0.5))


def test_donation_of_a_programs_arguments():
    program = jaxmlir.trace(jnp.add)(jnp.ones(4), jnp.ones(4))
    x, y = jnp.ones(4), jnp.ones(4)
    same(jax.jit(program, donate_argnums=0)(x, y), jnp.full(4, 2.0))
    assert x.is_deleted() and not y.is_deleted()


@compat
def test_ordered_effects_keep_their_order(capsys):
    def f(x):
        jax.debug.print("first {}", x, ordered=True)
        y = lax.fori_loop(0, 3, lambda i, c: (jax.debug.print("{}", i, ordered=True), c + x)[1], x)
        jax.debug.print("last {}", y, ordered=True)
        return y

    def printed(g):
        result = g(2.0)
        jax.effects_barrier()
        return result, capsys.readouterr().out

    program = jaxmlir.trace(f)(1.0)
    expected = printed(jax.jit(f))
    assert expected[1].splitlines() == ["first 2.0", "0", "1", "2", "last 8.0"]
    assert printed(program) == printed(reread(program)) == expected


@compat
def test_callbacks_are_handles_of_this_process():
    def f(x):
        shape = jax.ShapeDtypeStruct((), "float32")
        return jax.pure_callback(lambda v: np.float32(v + 1), shape, x)

    program = jaxmlir.trace(f)(jnp.float32(1))
    assert "{handle = " in str(program)
    assert reread(program)(jnp.float32(2)) == 3.0


@compat
def test_functions_that_are_not_staged_out():
    """Functions are not staged out under ``jax_disable_jit``, or if JAX searches for a NaN's op."""

    def f(x, n, y):
        return lax.fori_loop(0, n, lambda i, s: s + jnp.log(x - i), y)

    x, y = jnp.float32(2.5), jnp.float32(1)
    ours = jaxmlir.jit(f, static_argnums=1, optimize=2)
    program = jaxmlir.trace(f, static_argnums=1)(x, 2, y)
    expected = jax.jit(f, static_argnums=1)(x, 2, y)
    with jax.disable_jit():
        np.testing.assert_allclose([ours(x, 2, y), program(x, y)], expected, rtol=1e-6)
        batched = jax.vmap(ours, (0, None, None))(jnp.stack([x, x]), 2, y)
        np.testing.assert_allclose(batched, expected, rtol=1e-6)
        # A function that is not staged out may look at its arguments' values.
        looking = jaxmlir.jit(lambda x, n: x * n if x > 0 else -x, static_argnums=1)
        assert looking(x, 3) == 7.5 and jax.grad(looking)(x, 3) == 3.0
    nan = r"(?s)invalid value \(nan\).*test_program_in_jax.py:\d+.*raised by 'jaxpr.log' op"
    for run in (program, program.value_and_grad()):
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match=nan):
            run(x - 3, y)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        ours(x - 3, 2, y)
    inf = r"(?s)\(inf\).*raised by 'jaxpr.log' op"
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match=inf):
        program(x - 1.5, y)


class Axis(enum.Enum):
    ROWS = 1


@compat
@pytest.mark.parametrize("name", ["rows", Axis.ROWS])
@pytest.mark.parametrize("in_axis", [0, None])
def test_a_batch_has_any_name(name, in_axis):
    """An op may depend on its position along the axis, whether it is batched or not."""

    def f(x):
        rows = lax.scan(lambda c, _: (c + lax.psum(x, name), None), x, None, length=2)[0]
        return rows + lax.axis_index(name) + lax.ppermute(x, name, [(0, 1), (1, 2), (2, 0)])

    x = np.float32([1.0, 2.0, 4.0]) if in_axis == 0 else np.float32(3.0)
    batched = functools.partial(jax.vmap, in_axes=in_axis, axis_size=3, axis_name=name)
    same(batched(jaxmlir.jit(f))(x), batched(f)(x))


@compat
def test_what_is_not_batched_is_broadcast_over_a_named_axis():
    closed = jax.make_jaxpr(lambda x: lax.pbroadcast(x, ("rows",), 1), axis_env=[("rows", 3)])(
        jnp.float32(1.0)
    )
    program = jaxmlir.from_jaxpr(closed).vmap(None, axis_size=3, axis_name="rows")
    same(program(jnp.float32(2.0)), jnp.full(3, 2.0))


@pytest.mark.parametrize(("split", "concat", "tiled"), [(0, 0, False), (0, 1, False), (0, 1, True)])
def test_an_exchange_of_the_same_values(split, concat, tiled):
    """JAX's rule gives a batch of batches, so the oracle exchanges a batch of equal members."""

    def f(x):
        return jax.lax.all_to_all(x, "i", split, concat, tiled=tiled)

    x = jnp.arange(12.0).reshape(3, 4)
    want = jax.vmap(f, axis_name="i")(jnp.stack([x] * 3))
    batched = jax.vmap(jaxmlir.jit(f), in_axes=None, axis_name="i", axis_size=3)
    np.testing.assert_array_equal(batched(x), want)


class Sized:
    """A node whose constructor inspects its children if they may be arrays."""

    def __init__(self, a):
        self.a = a
        if type(a) is not object:
            self.shape = a.shape


jax.tree_util.register_pytree_node(Sized, lambda s: ((s.a,), None), lambda _, c: Sized(*c))


def test_a_node_that_asks_for_shapes_is_an_argument():
    x = Sized(np.arange(3, dtype=np.float32))
    program = jaxmlir.trace(lambda s: jnp.sum(s.a**2))(x)
    np.testing.assert_array_equal(program.grad()(x).a, 2 * x.a)
    with pytest.raises(ArgumentError, match=r"takes arguments of the pytree \(<.*Sized.*>\), got"):
        program(x, x)


def test_the_jacobian_in_integers():
    def f(x, i):
        return jnp.sin(x) * i, x * x

    args = np.arange(1, 4, dtype=np.float32), np.array([1, 2, 3], np.int32)
    found = jaxmlir.trace(f)(*args).jacrev((0, 1), allow_int=True)(*args)
    same(found, jax.jacrev(f, (0, 1), allow_int=True)(*args))
