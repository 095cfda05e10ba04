"""The Python API, as a user meets it; every number is compared with plain JAX's."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import inspect

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.extend
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir import rules
from jaxmlir.errors import (
    ArgumentError,
    ExportError,
    ImportingError,
    LoweringError,
    ParseError,
    VerificationError,
)
from jaxmlir.ir import file_line_col, func
from tools.conformance_steps import canonical

compat = pytest.mark.compat


def reread(program: jaxmlir.Program) -> jaxmlir.Program:
    """The program as its text alone has it."""
    text = program.as_text()
    again = jaxmlir.parse(text, constants=program.constants)
    assert again.as_text() == text
    return again


def bits(tree):
    """Dtypes, shapes and bytes of the leaves: equal for NaNs of equal payload, and not for -0.0."""
    return [(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, jax.tree.leaves(tree))]


def same(ours, jaxs):
    assert jax.tree.structure(ours) == jax.tree.structure(jaxs)
    assert bits(ours) == bits(jaxs)


# --- stages -----------------------------------------------------------------------------------


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


@compat
def test_the_way_through():
    x = jnp.array([3.0, 4.0])
    program = jaxmlir.trace(norm)(x)
    program.verify()
    assert program.name == "norm"
    assert repr(program) == "<Program @norm(f32[2]) -> (f32[])>"
    assert str(program) == program.as_text()
    assert '"jaxpr.sqrt"' in str(program)
    same(program(x), jax.jit(norm)(x))
    same(reread(program)(x), jax.jit(norm)(x))


@compat
def test_traces_for_abstract_arguments():
    program = jaxmlir.trace(norm)(jax.ShapeDtypeStruct((3,), "bfloat16"))
    assert [str(a) for a in program.in_avals] == ["bfloat16[3]"]
    x = jnp.arange(3, dtype="bfloat16")
    same(program(x), jax.jit(norm)(x))


@compat
def test_to_jaxpr_is_the_jaxpr_that_was_imported():
    original = jax.make_jaxpr(norm)(jnp.ones(2))
    assert str(jaxmlir.trace(norm)(jnp.ones(2)).to_jaxpr()) == str(original)


@compat
def test_from_jaxpr_takes_and_gives_flat_values():
    jaxpr = jax.make_jaxpr(lambda d: {"s": d["a"] - d["b"]})({"a": 3.0, "b": 1.0})
    program = jaxmlir.from_jaxpr(jaxpr, "difference")
    assert program.name == "difference"
    assert program(3.0, 1.0) == 2.0


@compat
def test_lower_and_compile():
    x = jnp.array([3.0, 4.0])
    lowered = jaxmlir.trace(norm)(x).lower()
    assert "stablehlo.sqrt" in lowered.as_text()
    compiled = lowered.compile()
    same(compiled(x), jax.jit(norm)(x))
    assert "sqrt" in compiled.as_text()
    theirs = jax.jit(norm).lower(x).compile()
    assert compiled.cost_analysis() == theirs.cost_analysis()
    ours, jaxs = compiled.memory_analysis(), theirs.memory_analysis()
    for name in ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes"):
        assert getattr(ours, name) == getattr(jaxs, name)


@compat
@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_lowers_for_platforms_that_are_not_here(platform):
    program = jaxmlir.trace(lambda x: jnp.cumsum(jnp.exp(x)))(jnp.ones(8))
    assert "stablehlo" in program.lower(platforms=[platform]).as_text()


def test_run_passes_leaves_the_program_as_it_is():
    program = jaxmlir.trace(norm)(jnp.ones(2))
    before = str(program)
    legalized = program.run_passes("jaxpr-verify, jaxpr-legalize-to-stablehlo, canonicalize")
    assert "stablehlo.sqrt" in str(legalized) and "jaxpr.sqrt" not in str(legalized)
    assert str(program) == before


def test_clone_is_another_module():
    program = jaxmlir.trace(norm)(jnp.ones(2))
    clone = program.clone()
    assert str(clone) == str(program)
    assert clone.module is not program.module
    same(clone(jnp.ones(2)), program(jnp.ones(2)))


# --- arguments --------------------------------------------------------------------------------

Point = collections.namedtuple("Point", "x y")


@jax.tree_util.register_pytree_node_class
class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label

    def tree_flatten(self):
        return (self.content,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(children[0], label)


@compat
@pytest.mark.parametrize(
    "tree",
    [
        (1.0, (2.0, 3.0)),
        [1.0, []],
        {"b": 1.0, "a": {"c": 2.0}},
        {1: 2.0, 3: None},
        None,
        Point(1.0, None),
        collections.OrderedDict(b=1.0, a=2.0),
        Box((1.0, {"k": 2.0}), "label"),
    ],
    ids=["tuple", "list", "dict", "int-keys", "none", "namedtuple", "ordered", "node"],
)
def test_pytrees_in_and_out(tree):
    def f(tree, *, scale):
        return jax.tree.map(lambda x: x * scale, tree), (None, scale)

    program = reread(jaxmlir.trace(f)(tree, scale=2.0))
    ours, jaxs = program(tree, scale=3.0), jax.jit(f)(tree, scale=3.0)
    same(ours, jaxs)
    compiled = program.lower().compile()
    same(compiled(tree, scale=3.0), jaxs)


@compat
def test_keywords_and_defaults():
    def f(x, y=2.0, *, z):
        return x + y * z

    program = jaxmlir.trace(f)(1.0, z=3.0)
    assert program(4.0, z=5.0) == f(4.0, z=5.0)


@pytest.mark.parametrize(
    ("args", "expected", "got"),
    [
        (({"a": jnp.ones(3)},), r"\(\{'a': \*, 'b': \*\}\)", r"\(\{'a': \*\}\)"),
        (
            ({"a": jnp.ones(4), "b": jnp.ones(2)},),
            r"argument 0\['a'\] must be f32\[3\]",
            r"f32\[4\]",
        ),
        (
            ({"a": jnp.ones(3, int), "b": jnp.ones(2)},),
            r"argument 0\['a'\] must be f32\[3\]",
            r"i32\[3\]",
        ),
    ],
    ids=["tree", "shape", "dtype"],
)
def test_wrong_arguments_are_named(args, expected, got):
    def f(d):
        return d["a"].sum() + d["b"].sum()

    program = jaxmlir.trace(f)({"a": jnp.ones(3), "b": jnp.ones(2)})
    with pytest.raises(ArgumentError, match=rf"@f.*{expected}.*got {got}"):
        program(*args)


@compat
def test_weak_types_and_python_scalars():
    def f(x, n):
        return x * n, x + 1, n

    program = reread(jaxmlir.trace(f)(1.0, 2))
    assert [a.weak_type for a in program.in_avals] == [True, True]
    for ours, jaxs in zip(program(1.5, 2), jax.jit(f)(1.5, 2), strict=True):
        assert (ours.aval.dtype, ours.aval.weak_type) == (jaxs.aval.dtype, jaxs.aval.weak_type)
        assert ours == jaxs
    # A weakly typed result promotes like JAX's.
    half = jnp.ones((), "bfloat16")
    assert (program(1.5, 2)[0] * half).dtype == (jax.jit(f)(1.5, 2)[0] * half).dtype == "bfloat16"


@compat
def test_symbolic_shapes():
    (b,) = export.symbolic_shape("b")

    def mean(x):
        return x.sum() / x.shape[0]

    program = reread(jaxmlir.trace(mean)(jax.ShapeDtypeStruct((b,), "float32")))
    assert 'tensor<?xf32, {shape = "b"}>' in str(program)
    for n in (3, 5):
        same(program(jnp.arange(n, dtype="float32")), jax.jit(mean)(jnp.arange(n, dtype="float32")))
    assert jax.grad(program)(jnp.ones(4)).tolist() == [0.25] * 4
    exported = export.export(jax.jit(program))(jax.ShapeDtypeStruct((b,), "float32"))
    assert exported.call(jnp.ones(7)) == 1.0


# --- jit --------------------------------------------------------------------------------------


@compat
def test_jit_static_arguments():
    calls = []

    def f(x, n, *, mode):
        calls.append((n, mode))
        return x**n if mode == "power" else x * n

    ours = jaxmlir.jit(f, static_argnums=1, static_argnames="mode")
    jaxs = jax.jit(f, static_argnums=1, static_argnames="mode")
    for n, mode in [(2, "power"), (3, "times"), (2, "power")]:
        same(ours(2.0, n, mode=mode), jaxs(2.0, n, mode=mode))
    calls.clear()
    ours(5.0, 2, mode="power")
    assert calls == []
    assert "integer_pow" in str(ours.trace(2.0, 3, mode="power"))
    assert "stablehlo" in ours.lower(2.0, 3, mode="power").as_text()


@compat
def test_jit_donation():
    f = jaxmlir.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = jnp.ones(1024), jnp.ones(1024)
    assert "tf.aliasing_output" in f.lower(x, y).as_text()
    same(f(x, y), jnp.full(1024, 2.0))
    assert x.is_deleted() and not y.is_deleted()


@compat
def test_jit_shardings():
    mesh = Mesh(np.array(jax.devices()), "i")
    rows, replicated = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())

    def f(x):
        return jnp.sin(x) @ x.T

    x = jnp.arange(64.0).reshape(16, 4)
    options = {"in_shardings": rows, "out_shardings": replicated}
    ours, jaxs = jaxmlir.jit(f, **options)(x), jax.jit(f, **options)(x)
    same(ours, jaxs)
    assert ours.sharding == jaxs.sharding == replicated


@compat
@pytest.mark.parametrize("keep", [False, True])
def test_jit_keep_unused(keep):
    def f(x, _):
        return x + 1.0

    args = jnp.ones(2), jnp.ones(3)
    ours = jaxmlir.jit(f, keep_unused=keep).lower(*args).as_text()
    jaxs = jax.jit(f, keep_unused=keep).lower(*args).as_text()
    assert ours.count("%arg1: ") == jaxs.count("%arg1: ") == int(keep)


@compat
def test_jit_of_a_method_and_of_a_partial():
    class Model:
        weight = 3.0

        @functools.partial(jaxmlir.jit, static_argnums=0)
        def __call__(self, x):
            return self.weight * x

    model = Model()
    assert type(model).__call__(model, 2.0) == 6.0
    assert jaxmlir.jit(functools.partial(jnp.add, 1.0))(2.0) == 3.0


@compat
def test_jit_under_transformations_sees_outer_values():
    def outer(x):
        return jaxmlir.jit(lambda y: y * x)(x)

    assert jax.grad(outer)(3.0) == 6.0
    same(jax.vmap(outer)(jnp.arange(3.0)), jnp.arange(3.0) ** 2)


def test_trace_refuses_values_of_an_outer_transformation():
    def outer(x):
        return jaxmlir.trace(lambda y: y * x)(1.0)(1.0)

    with pytest.raises(ImportingError, match="closes over a value of an enclosing"):
        jax.grad(outer)(3.0)


# --- constants --------------------------------------------------------------------------------


def as_constant(value):
    """The value, through import, print, parse, export and a run."""
    program = jaxmlir.trace(lambda: value)()
    program.verify()
    again = reread(program)
    jaxpr = again.to_jaxpr()
    return again(), jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts)[0]


@compat
def test_big_constants_stay_out_of_the_text():
    table = np.random.default_rng(0).normal(size=(64, 64)).astype("float32")

    def lookup(i):
        return jnp.asarray(table)[i]

    program = jaxmlir.trace(lookup)(3)
    text = program.as_text()
    assert len(text) < 4096
    (name,) = program.constants
    assert f'name = "{name}"' in text
    same(jaxmlir.parse(text, constants=program.constants)(5), jnp.asarray(table[5]))
    with pytest.raises(LoweringError, match=f'constant "{name}" has no value'):
        jaxmlir.parse(text)(5)


INTEGER_VIEW = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
FLOATS = ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]


@compat
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_floats_keep_their_bits(dtype):
    """Every bit pattern of the small types: NaN payloads, -0.0, subnormals."""
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    n = dtype.itemsize
    patterns = np.arange(256, dtype="u1")
    if n > 1:
        # The pattern as the top byte, with a payload below it.
        patterns = (patterns.astype(f"u{n}") << (8 * (n - 1))) | np.array(0x15, f"u{n}")
    value = patterns.view(dtype)
    for got in as_constant(value):
        assert np.asarray(got).tobytes() == value.tobytes()
    for x in value[[0, 127, 128, 255]]:
        for got in as_constant(np.asarray(x)):
            assert np.asarray(got).tobytes() == x.tobytes()


@compat
@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_sub_byte_types_keep_their_values(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    value = np.arange(-2 if name == "int2" else 0, 2).astype(dtype)
    if name == "int4":
        value = np.arange(-8, 8).astype(dtype)
    for got in as_constant(value):
        assert got.dtype == dtype
        assert np.asarray(got).astype("float32").tolist() == value.astype("float32").tolist()


ARRAYS = st.sampled_from(["bool", "i1", "u2", "i4", "f2", "f4", "c8"]).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)


@compat
@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(ARRAYS)
def test_constants_keep_their_bits(value):
    for got in as_constant(value):
        assert got.dtype == value.dtype and got.shape == value.shape
        assert np.asarray(got).tobytes() == value.tobytes()


@compat
def test_double_precision_constants():
    with jax.enable_x64(True):
        value = np.array([0.1, -0.0, np.pi, 5e-324, np.inf])
        for got in as_constant(value):
            assert np.asarray(got).tobytes() == value.tobytes()


@compat
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_as_constants(impl):
    key = jax.random.key(7, impl=impl)

    def f():
        return jax.random.uniform(key, (3,)), key

    program = jaxmlir.trace(f)()
    assert "!jaxpr.key<" in str(program)
    numbers, again = reread(program)()
    same(numbers, jax.random.uniform(key, (3,)))
    same(jax.random.key_data(again), jax.random.key_data(key))


# --- inside other JAX code ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def wave():
    return reread(jaxmlir.trace(lambda x: jnp.sin(x) * jnp.exp(-x))(1.0))


def python_wave(x):
    return jnp.sin(x) * jnp.exp(-x)


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


# --- custom derivative rules -------------------------------------------------------------------


@jax.custom_jvp
def sin(x):
    return jnp.sin(x)


@jax.custom_jvp
def cos(x):
    return jnp.cos(x)


sin.defjvps(lambda t, y, x: cos(x) * t)
cos.defjvps(lambda t, y, x: -sin(x) * t)


@compat
def test_rules_that_call_each_other_have_all_derivatives():
    """Each rule is one function of the module, although each calls the other's."""
    program = reread(jaxmlir.trace(lambda x: sin(x))(1.0))
    assert str(program).count("custom_jvp_call_jaxpr") < 8
    ours, jaxs = program, sin
    for order, expected in enumerate(
        [jnp.sin, jnp.cos, lambda x: -jnp.sin(x), lambda x: -jnp.cos(x)]
    ):
        np.testing.assert_allclose(ours(0.4), expected(0.4), rtol=1e-6)
        assert ours(0.4) == jaxs(0.4), f"derivative {order}"
        ours, jaxs = jax.grad(ours), jax.grad(jaxs)
    assert ours(0.4) == jaxs(0.4)


@jax.custom_vjp
def double(x):
    """Twice x, whose rule says thrice: so it shows whether the rule was used."""
    return 2 * x


double.defvjp(lambda x: (2 * x, None), lambda _, g: (3 * g,))


@compat
def test_vmap_keeps_the_rule():
    f = reread(jaxmlir.trace(double)(1.0))
    mapped = reread(jaxmlir.trace(jax.vmap(double))(jnp.ones(4)))
    threes = np.full(4, 3.0)
    assert jax.grad(f)(1.0) == 3.0
    assert (jax.vmap(jax.grad(f))(jnp.ones(4)) == threes).all()
    assert (jax.grad(lambda x: jax.vmap(f)(x).sum())(jnp.ones(4)) == threes).all()
    assert (jax.grad(lambda x: mapped(x).sum())(jnp.ones(4)) == threes).all()


@compat
@pytest.mark.parametrize(
    "stage",
    [
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, length=1)[0],
        lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
        lambda f: lambda x: lax.fori_loop(0, 1, lambda _, c: f(c), x),
        lambda f: (
            lambda x: lax.scan(lambda c, _: (jax.jit(jax.checkpoint(f))(c), None), x, length=1)[0]
        ),
    ],
    ids=["jit", "remat", "scan", "cond", "fori", "nested"],
)
def test_staging_keeps_the_rule(stage):
    program = reread(jaxmlir.trace(stage(double))(1.0))
    assert program(1.0) == 2.0
    assert jax.grad(program)(1.0) == 3.0


@compat
def test_a_rule_inside_a_while_loop_is_kept_in_forward_mode():
    def f(x):
        return lax.while_loop(lambda c: c < 10.0, lambda c: marked(c) + 1.0, x)

    @jax.custom_jvp
    def marked(x):
        return 2 * x

    marked.defjvps(lambda t, y, x: 5 * t)
    program = reread(jaxmlir.trace(f)(1.0))
    same(jax.jvp(program, (1.0,), (1.0,)), jax.jvp(f, (1.0,), (1.0,)))


@compat
def test_lowering_drops_the_rule_and_nothing_before_does():
    program = jaxmlir.trace(double)(1.0)
    assert "custom_vjp_call_jaxpr" in str(program.run_passes("jaxpr-verify, cse"))
    stablehlo = program.lower().as_text()
    assert "custom" not in stablehlo and "3.0" not in stablehlo


@compat
def test_forward_mode_over_a_custom_vjp_is_an_error_as_in_jax():
    program = reread(jaxmlir.trace(double)(1.0))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(double, (1.0,), (1.0,))
    with pytest.raises(LoweringError, match="forward-mode"):
        jax.jvp(program, (1.0,), (1.0,))


@compat
def test_nondiff_arguments_and_pytrees_in_rules():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def apply(f, tree):
        return f(tree["x"]) * tree["y"]

    def fwd(f, tree):
        return apply(f, tree), tree

    def bwd(f, tree, g):
        return ({"x": 7 * g * tree["y"], "y": f(tree["x"]) * g},)

    apply.defvjp(fwd, bwd)

    def loss(tree):
        return apply(jnp.tanh, tree)

    tree = {"x": jnp.float32(0.3), "y": jnp.float32(2.0)}
    program = reread(jaxmlir.trace(loss)(tree))
    same(jax.grad(program)(tree), jax.grad(loss)(tree))


@compat
def test_symbolic_zeros_in_a_rule():
    @jax.custom_jvp
    def mul(x, y):
        return x * y

    def mul_jvp(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        zero = jax.custom_derivatives.SymbolicZero
        out = jnp.zeros_like(x)
        out = out if isinstance(tx, zero) else out + tx * y
        return x * y, (out if isinstance(ty, zero) else out + x * ty)

    mul.defjvp(mul_jvp, symbolic_zeros=True)
    program = reread(jaxmlir.trace(lambda x, y: mul(x, y))(2.0, 3.0))
    for argnums in (0, 1, (0, 1)):
        same(jax.grad(program, argnums)(2.0, 3.0), jax.grad(mul, argnums)(2.0, 3.0))


@compat
@pytest.mark.parametrize(
    "f",
    [
        jax.nn.relu,
        jax.nn.gelu,
        jax.nn.silu,
        jax.scipy.special.logit,
        jax.scipy.special.expit,
        lambda x: jax.nn.logsumexp(jnp.stack([x, 2 * x])),
        lambda x: jax.nn.softmax(jnp.stack([x, 2 * x]))[0],
        lambda x: lax.custom_root(
            lambda y: y**3 - x,
            1.0,
            lambda g, y: lax.fori_loop(0, 20, lambda _, y: y - g(y) / (3 * y**2), y),
            lambda g, y: y / g(1.0),
        ),
        lambda x: lax.custom_linear_solve(
            lambda y: x * y, 1.0, lambda f, b: b / f(1.0), symmetric=True
        ),
    ],
    ids="relu gelu silu logit expit logsumexp softmax custom_root custom_linear_solve".split(),
)
def test_functions_with_rules_of_jax(f):
    program = reread(jaxmlir.trace(f)(0.7))
    for ours, jaxs in [(program, f), (jax.grad(program), jax.grad(f))]:
        same(jax.jit(ours)(0.7), jax.jit(jaxs)(0.7))
    second = jax.grad(jax.grad(program))(0.7), jax.grad(jax.grad(f))(0.7)
    np.testing.assert_allclose(*second, rtol=1e-5)


@jax.custom_vjp
def growing(x):
    return x.sum()


def _growing_bwd(x, g):
    # The function again, on a longer vector: no two traces of this rule are alike.
    return (g * jnp.cos(x) * growing(jnp.concatenate([x, x[:1]])),)


growing.defvjp(lambda x: (x.sum(), x), _growing_bwd)


@compat
def test_a_rule_with_ever_new_arguments_is_traced_for_some_derivatives(monkeypatch):
    monkeypatch.setattr(rules, "MAX_ORDER_OF_SHORT", 2)
    program = reread(jaxmlir.trace(growing)(jnp.ones(2)))
    same(jax.grad(program)(jnp.ones(2)), jax.grad(growing)(jnp.ones(2)))

    def third(f):
        for _ in range(3):
            f = jax.grad(lambda x, f=f: f(x).sum())
        return f

    third(growing)(jnp.ones(2))
    with pytest.raises(ExportError, match="_growing_bwd.*new arguments each time.*2 derivatives"):
        third(program)(jnp.ones(2))


@compat
def test_a_rule_that_cannot_be_traced_fails_when_it_is_used():
    @jax.custom_jvp
    def f(x):
        return x * 2

    @f.defjvp
    def rule(primals, tangents):
        raise ValueError("no derivative today")

    program = reread(jaxmlir.trace(lambda x: f(x))(1.0))
    assert program(1.0) == 2.0
    with pytest.raises(ExportError, match="no derivative today"):
        jax.grad(program)(1.0)


# --- locations ----------------------------------------------------------------------------------


@compat
def test_every_op_knows_the_users_line():
    def f(x):
        y = jnp.sin(x)
        return double(y) * lax.fori_loop(0, 3, lambda _, c: c * y, x)

    source, first = inspect.getsourcelines(f)
    program = jaxmlir.trace(f)(1.0)
    program = jaxmlir.parse(program.as_text(debug_info=True))
    lines = {}
    for symbol, function in program.functions.items():
        for op in function.entry_block.operations:
            if not isinstance(op, func.ReturnOp):
                file, line, _ = file_line_col(op.location)
                assert file == __file__, f"{op.operation.name} in @{symbol} is from {file}"
                lines[op.operation.name] = line
    assert lines["jaxpr.sin"] == first + 1
    assert lines["jaxpr.custom_vjp_call_jaxpr"] == first + 2
    assert 'loc("' in program.as_text(debug_info=True)


# --- invalid text -------------------------------------------------------------------------------

GOOD = """func.func public @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "jaxpr.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


@compat
def test_text_needs_no_pytree():
    assert jaxmlir.parse(GOOD)(jnp.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("return %0", "return %9", ParseError, "undeclared SSA value"),
        ('"jaxpr.add"(%x, %x) : (tensor<2xf32>, ', '"jaxpr.add"(%x) : (', VerificationError, "add"),
        ("-> tensor<2xf32>\n  return", "-> tensor<3xf32>\n  return", ParseError, "%0"),
        ('"jaxpr.add"', '"jaxpr.addd"', VerificationError, "addd"),
    ],
    ids=["syntax", "operand-count", "type", "unknown-primitive"],
)
def test_invalid_text_is_located(old, new, error, message):
    assert old in GOOD
    with pytest.raises(error, match=rf"prog\.mlir:\d+:\d+: error: .*{message}"):
        jaxmlir.parse(GOOD.replace(old, new), filename="prog.mlir")


def test_a_platform_that_jax_does_not_know_is_an_error():
    program = jaxmlir.trace(jnp.sin)(1.0)
    with pytest.raises(ArgumentError, match=r"platforms that JAX knows \(cpu, .*got 'abacus'"):
        program.lower(platforms=["cpu", "abacus"])


@pytest.mark.compat
def test_metadata_for_xla_is_one_attribute_in_every_version():
    from jax.experimental.scheduling_groups import scheduling_group

    grouped = scheduling_group("first")(jnp.sin)
    program = jaxmlir.trace(grouped)(1.0)
    assert 'xla_metadata = [["scheduling_group", "first"]]' in str(program)
    evaluate = jax.extend.core.jaxpr_as_fun(program.to_jaxpr())
    assert evaluate(1.0) == [grouped(1.0)]
    assert program.grad()(1.0) == jax.grad(grouped)(1.0)


@pytest.mark.compat
def test_what_is_dead_is_not_lowered():
    def f(x, unused, y):
        def step(carry, row):
            total, forgotten = carry
            return (total + row, forgotten * jnp.cos(row)), None

        (total, _), _ = lax.scan(step, (x[0], y), x)
        jnp.exp(unused)
        return jax.jit(lambda a, b: (a * 2, jnp.sin(b)))(total, y)[0]

    args = jnp.ones((4, 3)), jnp.ones(7), jnp.ones(3)
    program = jaxmlir.trace(f)(*args)
    for name in ("exp", "cos", "sin"):
        assert f"jaxpr.{name}" in str(program), "the program itself keeps everything"
    lowered = program.lower()
    assert canonical(lowered) == canonical(jax.jit(f).lower(*args))
    assert len(lowered.in_avals[0]) == 3
    np.testing.assert_array_equal(program(*args), f(*args))
    # A variant that was lowered can be differentiated as well.
    both = jax.value_and_grad(lambda *xs: jnp.sum(jax.jit(program)(*xs)))(*args)
    want = jax.value_and_grad(lambda *xs: jnp.sum(f(*xs)))(*args)
    jax.tree.map(np.testing.assert_array_equal, both, want)


def test_effects_are_not_dead(capsys):
    def f(x, y):
        jax.debug.print("y is {}", y)
        return x

    jax.block_until_ready(jaxmlir.trace(f)(1.0, 2.0)(1.0, 2.0))
    jax.effects_barrier()
    assert capsys.readouterr().out == "y is 2.0\n"
