"""Programs with primitives of a library: saved, and used in a process without that library.

There they have the derivatives and batches of the library's rules.  For most primitives here, these
differ deliberately from those of the computed functions.
"""

import functools
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import jaxmlir
from jaxmlir.errors import ArtifactError

pytestmark = pytest.mark.compat

X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([1.5, 0.25, -1.0], np.float32)


class Static:
    """A parameter that is an object of this process, and is compared by its state."""

    __slots__ = ("function", "order")

    def __init__(self, function, order=0):
        self.function, self.order = function, order


def _primitive(name, compute, *, several=False, lowered=True):
    """A primitive that computes a function of its operands and parameters."""
    primitive = Primitive(name)
    primitive.multiple_results = several

    def abstract_eval(*avals, **params):
        return jax.tree.map(
            lambda s: jax.core.ShapedArray(s.shape, s.dtype),
            jax.eval_shape(functools.partial(compute, **params), *avals),
        )

    primitive.def_abstract_eval(abstract_eval)
    primitive.def_impl(compute)
    if lowered:
        rule = mlir.lower_fun(compute, multiple_results=several)
    else:
        # The lowering is not made by `lower_fun`: only the implementation says what is computed.
        traced = mlir.lower_fun(compute, multiple_results=several)

        def rule(ctx, *args, **params):
            return traced(ctx, *args, **params)

    mlir.register_lowering(primitive, rule)
    return primitive


# Has a function of one operand as a parameter; its JVP applies the primitive again.
apply_p = _primitive(
    "elsewhere_apply", lambda x, *, static: static.function(x) / (1 + static.order)
)


def _apply_jvp(primals, tangents, *, static):
    (x,), (t,) = primals, tangents
    up = apply_p.bind(x, static=Static(static.function, static.order + 1))
    return apply_p.bind(x, static=static), 3 * up * t


ad.primitive_jvps[apply_p] = _apply_jvp
batching.primitive_batchers[apply_p] = lambda args, dims, **params: (
    apply_p.bind(*args, **params),
    dims[0],
)


# Has several results, is linear in the last operand, has a transpose rule; implementation only.
def _solve(a, b, *, tree, flags):
    assert flags == {"transposed": False} or flags == {"transposed": True}
    del tree
    x = b / (a.T if flags["transposed"] else a)
    return [x, jnp.sum(x).astype(jnp.int32)]


solve_p = _primitive("elsewhere_solve", _solve, several=True, lowered=False)


def _solve_jvp(primals, tangents, **params):
    (a, b), (ta, tb) = primals, tangents
    x, count = solve_p.bind(a, b, **params)
    right = 0
    if type(ta) is not ad.Zero:
        right = right - 2 * ta * x
    if type(tb) is not ad.Zero:
        right = right + tb
    tx, _ = solve_p.bind(a, right, **params)
    return [x, count], [tx, ad.Zero(jax.core.ShapedArray((), jax.dtypes.float0))]


def _solve_transpose(cts, a, b, *, tree, flags):
    assert not ad.is_undefined_primal(a) and ad.is_undefined_primal(b)
    ct, _ = cts
    flags = {"transposed": not flags["transposed"]}
    return None, solve_p.bind(a, ad.instantiate_zeros(ct), tree=tree, flags=flags)[0] * 5


def _solve_batch(args, dims, **params):
    moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)]
    size = next(x.shape[0] for x, d in zip(moved, dims, strict=True) if d is not None)
    a, b = (x if d is not None else jnp.stack([x] * size) for x, d in zip(moved, dims, strict=True))
    x = b / a
    return [x, jnp.sum(x, tuple(range(1, x.ndim))).astype(jnp.int32)], [0, 0]


ad.primitive_jvps[solve_p] = _solve_jvp
ad.primitive_transposes[solve_p] = _solve_transpose
batching.primitive_batchers[solve_p] = _solve_batch

# Its batching rule is not that of the computed function; its parameters can be written.
everything_p = _primitive("elsewhere_all", lambda x, *, name: jnp.max(x))
batching.primitive_batchers[everything_p] = lambda args, dims, **params: (
    everything_p.bind(*args, **params),
    None,
)
ad.primitive_jvps[everything_p] = lambda primals, tangents, **params: (
    everything_p.bind(*primals, **params),
    jnp.sum(2 * ad.instantiate_zeros(tangents[0])),
)

# Its rules refuse differentiation and batching.
strict_p = _primitive("elsewhere_strict", lambda x, *, what: x * 2)


def _refuse(*args, what, **_):
    raise RuntimeError(f"{what} is not to be transformed")


ad.primitive_jvps[strict_p] = _refuse
batching.primitive_batchers[strict_p] = _refuse


def apply(x):
    return jnp.sum(jnp.tanh(apply_p.bind(x, static=Static(jnp.sin))) * x)


def solve(a, b):
    tree = jax.tree.structure({"a": 1})
    x, count = solve_p.bind(a, b, tree=tree, flags={"transposed": False})
    return jnp.sum(x**2) + count


def everything(x):
    return everything_p.bind(x * x, name="all") + jnp.sum(x)


def custom_vmap(x):
    @jax.custom_batching.custom_vmap
    def f(x):
        return jnp.sin(x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        return 7 * jnp.sin(x), in_batched[0]

    return jnp.sum(f(x) * x)


def in_a_loop(x):
    def body(carry, _):
        return apply_p.bind(carry, static=Static(jnp.cos)), jnp.sum(carry)

    carry, sums = jax.lax.scan(body, x, None, length=3)
    return jnp.sum(carry) + jnp.sum(sums)


PROGRAMS = {
    "apply": (apply, (X,)),
    "solve": (solve, (Y, X)),
    "everything": (everything, (X,)),
    "in_a_loop": (in_a_loop, (X,)),
    "custom_vmap": (custom_vmap, (X,)),
}


def derived(f):
    """Transformations of a function of arrays, by name; the arrays are the same everywhere."""
    return {
        "value": f,
        "jvp": lambda *args: jax.jvp(f, args, args)[1],
        "vmap": lambda *args: jax.vmap(f)(*(jnp.stack([x, 2 * x, x - 1]) for x in args)),
        "grad": jax.grad(f),
        "last grad": lambda *args: jax.grad(f, len(args) - 1)(*args),
        "vmap of grad": lambda *args: jax.vmap(jax.grad(f))(
            *(jnp.stack([x, 2 * x, x - 1]) for x in args)
        ),
        "vmap of one": lambda *args: jax.vmap(lambda x: f(*args[:-1], x))(
            jnp.stack([args[-1], 2 * args[-1]])
        ),
        "grad of grad": lambda *args: jax.grad(lambda *args: jnp.vdot(jax.grad(f)(*args), args[0]))(
            *args
        ),
        "hessian": jax.hessian(f),
    }


ELSEWHERE = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
import jaxmlir

{derived}

program = jaxmlir.load({path!r})
assert not any(name.startswith("test_") for name in sys.modules)
args = [np.array(x, np.float32) for x in {args}]
for name, function in derived(program).items():
    try:
        print(json.dumps([name, np.asarray(function(*args)).tolist()]))
    except Exception as error:
        print(json.dumps([name, str(error)]))
"""


def run_elsewhere(code):
    root = str(Path(jaxmlir.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_without_the_primitives(name, tmp_path):
    f, args = PROGRAMS[name]
    path = str(tmp_path / "a")
    jaxmlir.trace(f)(*args).save(path)
    names = {
        "derived": inspect.getsource(derived),
        "path": path,
        "args": [a.tolist() for a in args],
    }
    found = run_elsewhere(ELSEWHERE.format(**names))
    for what, function in derived(f).items():
        try:
            expected = function(*args)
        except (NotImplementedError, ValueError):
            # JAX has no reverse mode for functions with a custom batching rule.
            assert f is custom_vmap
            continue
        np.testing.assert_allclose(found[what], expected, rtol=1e-5, atol=1e-6, err_msg=what)


def test_an_error_that_a_rule_raises_is_raised_elsewhere(tmp_path, monkeypatch):
    jaxmlir.trace(lambda x: jnp.sum(strict_p.bind(x, what="this")))(X).save(tmp_path / "a")
    _hide(monkeypatch, "elsewhere_strict")
    program = jaxmlir.load(tmp_path / "a")
    np.testing.assert_allclose(program(X), np.sum(2 * X), rtol=1e-6)
    for transform in (program.grad, lambda: program.vmap(axis_size=2)):
        with pytest.raises(jaxmlir.errors.TransformError, match="this is not to be transformed"):
            transform()


def _hide(monkeypatch, name):
    """Makes the process forget a primitive."""
    from jaxmlir.dialect import primitives

    known = primitives.find
    monkeypatch.setattr(primitives, "find", lambda n: None if n == name else known(n))


def test_the_op_stays_where_the_primitive_is(tmp_path):
    program = jaxmlir.trace(everything)(X)
    program.save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    assert "jaxpr.elsewhere_all" in loaded.as_text()
    assert loaded.as_text() == program.as_text()


def test_derivatives_of_any_order_are_in_a_finite_file(tmp_path):
    jaxmlir.trace(lambda x: apply_p.bind(x, static=Static(jnp.exp)))(np.float32(0.5)).save(
        tmp_path / "a"
    )
    loaded = jaxmlir.load(tmp_path / "a")
    for order in range(4):
        np.testing.assert_allclose(
            loaded(np.float32(0.5)), 3**order * np.exp(0.5) / (1 + order), rtol=1e-5
        )
        loaded = loaded.grad()


def test_parameters_that_say_the_same_are_written_once(tmp_path):
    def f(x):
        for _ in range(4):
            x = apply_p.bind(x, static=Static(jnp.sin))
        return x

    jaxmlir.trace(f)(X).save(tmp_path / "a")
    text = jaxmlir.load(tmp_path / "a").as_text()
    assert text.count("jvp_jaxpr = @elsewhere_apply_jvp,") >= 4
    assert text.count("func.func") < 20


def test_a_rule_of_a_rule_is_for_all_operands_that_it_works_for(tmp_path, monkeypatch):
    def compute(*operands, static):
        *many, last = operands
        return static.function(sum(many) + many[0] * many[1]) * last / (1 + static.order)

    traced = []
    many_p = _primitive("elsewhere_many", compute)

    def jvp(primals, tangents, *, static):
        traced.append(static.order)
        if type(tangents[-1]) is not ad.Zero:
            raise ValueError("not the last operand")
        up = many_p.bind(*primals, static=Static(static.function, static.order + 1))
        given = [(n + 1) * t for n, t in enumerate(tangents) if type(t) is not ad.Zero]
        return many_p.bind(*primals, static=static), 3 * up * sum(given)

    ad.primitive_jvps[many_p] = jvp

    def f(x, y):
        return many_p.bind(x, *y, jnp.float32(2.0), static=Static(jnp.sin))

    args = np.float32(0.3), np.linspace(-0.1, 0.2, 11, dtype=np.float32)
    jaxmlir.trace(f)(*args).save(tmp_path / "a")
    # Twelve operands and the last: those of order 0 also alone.
    assert (traced.count(0), traced.count(1)) == (15, 10)
    _hide(monkeypatch, "elsewhere_many")
    loaded = jaxmlir.load(tmp_path / "a")

    def derivatives(f):
        return jax.tree.leaves(
            jax.jit(lambda *args: jax.jvp(jax.grad(f, (0, 1)), args, args))(*args)
        )

    for got, expected in zip(derivatives(loaded), derivatives(f), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_what_cannot_be_traced_is_an_error_that_names_the_op(tmp_path):
    opaque_p = Primitive("elsewhere_opaque")
    opaque_p.def_abstract_eval(lambda x, *, static: x)
    with pytest.raises(ArtifactError) as error:
        jaxmlir.trace(lambda x: opaque_p.bind(x, static=Static(None)))(X).save(tmp_path / "a")
    (diagnostic,) = error.value.diagnostics
    assert "'jaxpr.elsewhere_opaque' op cannot be saved" in diagnostic.message
    assert diagnostic.file == __file__


def test_a_callback_is_an_error_before_what_primitives_compute_is_traced(tmp_path):
    computed = []

    def compute(x, *, static):
        computed.append(static)
        return static.function(x)

    counted_p = _primitive("elsewhere_counted", compute)

    def f(x):
        x = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return counted_p.bind(x, static=Static(jnp.cos))

    program = jaxmlir.trace(f)(X)
    computed.clear()
    with pytest.raises(ArtifactError, match="'jaxpr.pure_callback' op cannot be saved"):
        program.save(tmp_path / "a")
    assert not computed
