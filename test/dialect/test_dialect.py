"""Checks the op table against JAX, and the files generated from it against stock MLIR."""

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.internal_test_util import test_harnesses  # noqa: TID251
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import linear_call
from jax.experimental import io_callback

from jaxmlir._compat import core, jax_version
from jaxmlir.dialect import ops
from jaxmlir.dialect.ops import Trait

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generate_dialect  # noqa: E402

from jaxmlir.cli import stock_verify  # noqa: E402

# --- the table ------------------------------------------------------------------------------------


def test_names_are_unique_and_summaries_are_sentences():
    records = [op for family in ops.FAMILIES for op in family.ops]
    assert len(records) == len(ops.OPS)
    primitives = [p for op in records if op.jax != ops.OURS for p in op.primitive_names]
    assert len(primitives) == len(ops.BY_PRIMITIVE)
    for op in records:
        assert re.fullmatch(r"[a-z_][a-z0-9_]*", op.name), op.name
        assert op.summary.endswith(".") and not op.summary.startswith(" "), op.name
        names = [a.name for a in op.attributes]
        assert len(names) == len(set(names)), op.name
        assert op.inverse, op.name


def test_loads_without_jax():
    loaded = "import sys, jaxmlir.dialect.ops; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert not {"jax", "jaxlib", "numpy"} & set(out.stdout.split())


def test_malformed_attribute():
    with pytest.raises(ValueError, match="malformed attribute 'axes ints'"):
        ops.record.attr("axes ints")


@pytest.mark.parametrize(
    ("versions", "version", "expected"),
    [
        ("", (0, 10, 2), True),
        (">=0.12", (0, 12, 0), True),
        (">=0.12", (0, 11, 2), False),
        ("<0.11", (0, 10, 2), True),
        ("<0.11", (0, 11, 0), False),
        (ops.OURS, (0, 10, 2), False),
    ],
)
def test_versions(versions, version, expected):
    assert ops.holds(versions, version) is expected


# Registers every primitive that a public module of JAX has, and names those with a lowering rule.
_LOWERABLE = """
import importlib, json, pkgutil, sys, warnings
warnings.simplefilter("ignore")
import jax, jax.experimental
from jaxmlir._compat import mlir
skip = ("jax._src", "jax.tools", "jax.experimental.jax2tf", "jax.collect_profile")
for module in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None):
    if not module.name.startswith(skip):
        try:
            importlib.import_module(module.name)
        except ImportError:  # an optional dependency that is not installed
            pass
rules = [mlir._lowerings, *mlir._platform_specific_lowerings.values()]
print(json.dumps(sorted({p.name for registry in rules for p in registry})))
"""


@pytest.mark.compat
def test_every_primitive_that_jax_can_lower_has_a_record():
    out = subprocess.run(
        [sys.executable, "-c", _LOWERABLE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lowerable = set(json.loads(out.stdout))
    assert len(lowerable) > 300
    assert lowerable - ops.BY_PRIMITIVE.keys() == set()
    # Conversely: a record's JAX versions are those that have the primitive.
    gone = {p for p in lowerable if not ops.holds(ops.BY_PRIMITIVE[p].jax, jax_version())}
    assert gone == set()


# --- params, as JAX's own test harnesses use them -------------------------------------------------

# Params that a harness passes, but nothing in JAX itself.
_NOT_JAXS = {("conj", "_input_dtype")}

# Ops with the dialect's own attributes, because JAX's params are callables or hide two counts.
_OWN_ATTRIBUTES = {"custom_jvp_call", "custom_vjp_call", "custom_lin", "linear_call", "reduce"} | (
    {"scan"} if jax_version() >= (0, 11) else set()
)

# From JAX 0.11 a closed jaxpr is a jaxpr.
_JAXPRS = (core.Jaxpr, getattr(core, "ClosedJaxpr", core.Jaxpr))

_KINDS = {
    "bool": lambda v: isinstance(v, bool),
    "int": lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, float),
    "str": lambda v: isinstance(v, str),
    "ints": lambda v: all(isinstance(i, int | np.integer) for i in v),
    "bools": lambda v: all(isinstance(i, bool) for i in v),
    "axes": lambda v: isinstance(v, str) or all(isinstance(i, str | int) for i in v),
    "dtype": lambda v: jnp.dtype(v) is not None,
    "function": lambda v: isinstance(v, _JAXPRS),
    "functions": lambda v: all(isinstance(f, _JAXPRS) for f in v),
    "type": lambda v: isinstance(v, core.AbstractValue),
    "types": lambda v: all(isinstance(t, core.AbstractValue) for t in v),
    "primitive": lambda v: isinstance(v, core.Primitive),
    "tree": lambda v: isinstance(v, jax.tree_util.PyTreeDef),
}


def _equations(jaxpr):
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from _equations(inner)


@pytest.fixture(scope="module")
def harness_equations():
    """A few equations of every primitive in JAX's harnesses, and of some that these lack."""
    found = collections.defaultdict(list)
    makers = [
        lambda h=h: (h.dyn_fun, h.dyn_args_maker(np.random.RandomState(0)))
        for h in test_harnesses.all_harnesses
    ]
    makers += [lambda f=f: (f, [jnp.ones(4)]) for f in _MORE]
    for make in makers:
        try:
            fun, args = make()
            jaxpr = jax.make_jaxpr(fun)(*args)
        except TypeError as e:  # harnesses of what JAX refuses
            assert "does not accept dtype" in str(e)
            continue
        for eqn in _equations(jaxpr):
            found[eqn.primitive.name].append(eqn)
    return found


@jax.custom_vjp
def _twice(x):
    return 2 * x


_twice.defvjp(lambda x: (2 * x, x), lambda x, ct: (2 * ct,))


def _through_ref(x):
    ref = jax.new_ref(x)
    ref[0] = ref[1]
    jax.ref.addupdate(ref, 0, 1.0)
    return jax.ref.freeze(ref)


_MORE = [
    lambda x: jax.lax.scan(lambda c, y: (c + y, c), x[0], x),
    lambda x: jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x),
    lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    jax.checkpoint(jnp.sin),
    jax.nn.relu,
    lambda x: jax.vjp(_twice, x)[1](x),
    lambda x: jax.debug.print("{}", x),
    lambda x: jax.debug.callback(print, x),
    lambda x: jax.pure_callback(np.sin, x, x),
    lambda x: io_callback(np.sin, x, x),
    lambda x: jax.ffi.ffi_call("f", x)(x, a=1),
    lambda x: jax.lax.composite(jnp.sin, "my.sin", version=2)(x),
    lambda x: jax.lax.optimization_barrier(x),
    lambda x: checkpoint_name(x, "h"),
    lambda x: jax.random.wrap_key_data(
        jax.random.key_data(jax.random.fold_in(jax.random.key(0), 1))
    ),
    lambda x: jax.lax.ragged_dot(jnp.ones((4, 4)), jnp.ones((2, 4, 3)), jnp.array([2, 2])),
    lambda x: jnp.stack([x, x]),
    _through_ref,
    lambda x: linear_call(jnp.multiply, jnp.multiply, x, x),
]


@pytest.mark.compat
@pytest.mark.slow
def test_attributes_are_the_params_that_jax_uses(harness_equations):
    assert len(harness_equations) > 130
    wrong = []
    for primitive, eqns in harness_equations.items():
        record = ops.BY_PRIMITIVE[primitive]
        for eqn in eqns:
            if record.operands not in (None, len(eqn.invars)):
                wrong.append(f"{primitive} has {len(eqn.invars)} operands")
            if record.results not in (None, len(eqn.outvars)):
                wrong.append(f"{primitive} has {len(eqn.outvars)} results")
        if primitive in _OWN_ATTRIBUTES:
            continue
        expected = record.params(jax_version())
        for eqn in eqns:
            given = {k: v for k, v in eqn.params.items() if (primitive, k) not in _NOT_JAXS}
            wrong += [f"{primitive} has {name!r} too" for name in given.keys() - expected.keys()]
            wrong += [
                f"{primitive} lacks {name!r}, which has no default"
                for name in expected.keys() - given.keys()
                if expected[name].required
            ]
            wrong += [
                f"{primitive}.{name} is {value!r}, no {expected[name].kind}"
                for name, value in given.items()
                if name in expected and not _is_of_kind(value, expected[name])
            ]
    assert sorted(set(wrong)) == []


def _is_of_kind(value, attribute):
    if attribute.each:
        return isinstance(value, tuple)
    kind = attribute.kind.removesuffix("?")
    if value is None:
        return attribute.kind.endswith("?") or kind in ("any", "handle")
    if kind.startswith(("enum ", "record ")):
        return type(value).__name__ == kind.split()[1]
    return _KINDS.get(kind, lambda v: True)(value)


def _random(aval, rng):
    return jnp.asarray(rng.standard_normal(aval.shape), aval.dtype)


@pytest.mark.compat
@pytest.mark.slow
def test_linear_ops_are_linear(harness_equations):
    """f(x + y) = f(x) + f(y) for floating-point numbers, in the operands that the record names."""
    tested = set()
    rng = np.random.default_rng(0)
    for primitive, eqns in harness_equations.items():
        record = ops.BY_PRIMITIVE[primitive]
        for eqn in eqns:
            avals = [v.aval for v in eqn.invars]
            linear = record.linear_operands(len(avals))
            results = [v.aval.dtype for v in eqn.outvars if hasattr(v.aval, "dtype")]
            floats = [avals[i].dtype for i in linear] + results
            if not linear or any(d != jnp.float32 for d in floats):
                continue

            def run(values, eqn=eqn, avals=avals, linear=linear):
                others = iter(values)
                full = [
                    next(others) if i in linear else jnp.ones(a.shape, a.dtype)
                    for i, a in enumerate(avals)
                ]
                out = eqn.primitive.bind(*full, **eqn.params)
                return out if eqn.primitive.multiple_results else [out]

            x, y = ([_random(avals[i], rng) for i in linear] for _ in range(2))
            both = run([a + b for a, b in zip(x, y, strict=True)])
            apart = [a + b for a, b in zip(run(x), run(y), strict=True)]
            for left, right in zip(both, apart, strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4, err_msg=str(eqn))
            tested.add(primitive)
            break
    assert len(tested) > 30, tested


@pytest.mark.compat
@pytest.mark.slow
def test_ops_linear_in_each_operand_are(harness_equations):
    """f(x + y, z) = f(x, z) + f(y, z), for each of the operands that the record names."""
    rng = np.random.default_rng(0)
    tested = set()
    for primitive, eqns in harness_equations.items():
        each = ops.BY_PRIMITIVE[primitive].linear_each
        for eqn in eqns if each else ():
            avals = [v.aval for v in eqn.invars]
            if any(a.dtype != jnp.float32 or not a.size for a in avals):
                continue
            # Stay away from singular matrices, and from divisors near 0.
            given = [3 + _random(a, rng) / 4 for a in avals]
            for i in each:

                def run(x, i=i, eqn=eqn, given=given):
                    return eqn.primitive.bind(*given[:i], x, *given[i + 1 :], **eqn.params)

                x, y = (_random(avals[i], rng) for _ in range(2))
                np.testing.assert_allclose(
                    run(x + y), run(x) + run(y), rtol=1e-3, atol=1e-3, err_msg=eqn.primitive.name
                )
            tested.add(primitive)
            break
    assert {"conv_general_dilated", "div", "dot_general", "mul", "triangular_solve"} <= tested


# --- traits, against what JAX computes ------------------------------------------------------------


def _with(trait, harness_equations, most=3):
    """Equations of ops with a trait, on nonempty arrays of numbers; a few for each op."""
    for primitive, eqns in harness_equations.items():
        if trait in ops.BY_PRIMITIVE[primitive].traits:
            good = [
                eqn
                for eqn in eqns
                if all(
                    isinstance(v.aval, core.ShapedArray)
                    and not jax.dtypes.issubdtype(v.aval.dtype, jax.dtypes.extended)
                    and v.aval.size
                    for v in (*eqn.invars, *eqn.outvars)
                )
            ]
            yield from good[:most]


def _values(eqn, rng):
    """Operands with small numbers, many of them equal; small integers also serve as indices."""
    for v in eqn.invars:
        whole = rng.integers(0, 3, v.aval.shape)
        floats = jnp.issubdtype(v.aval.dtype, jnp.inexact)
        yield jnp.asarray(whole / 4 if floats else whole).astype(v.aval.dtype)


def _run(eqn, operands, **params):
    out = eqn.primitive.bind(*operands, **{**eqn.params, **params})
    return [np.asarray(v) for v in (out if eqn.primitive.multiple_results else [out])]


@pytest.mark.compat
@pytest.mark.slow
def test_elementwise_ops_are(harness_equations):
    """Applying an op to the elements at one position gives the result's element there."""
    tested = set()
    rng = np.random.default_rng(0)
    for eqn in _with(Trait.ELEMENTWISE, harness_equations):
        if eqn.params.get("sharding") is not None or not eqn.outvars[0].aval.shape:
            continue
        operands = list(_values(eqn, rng))
        whole = _run(eqn, operands)[0]
        place = tuple(rng.integers(0, n) for n in whole.shape)
        # Use arrays of one element, because JAX's rules differ for scalars.
        at = [
            x[tuple(slice(min(i, n - 1), i + 1) for i, n in zip(place, x.shape, strict=True))]
            if x.shape
            else x
            for x in operands
        ]
        np.testing.assert_allclose(
            _run(eqn, at)[0].ravel()[0],
            whole[place],
            rtol=1e-5,
            atol=1e-6,
            err_msg=eqn.primitive.name,
        )
        tested.add(eqn.primitive.name)
    assert len(tested) > 60, tested


@pytest.mark.compat
@pytest.mark.slow
def test_commutative_ops_are(harness_equations):
    tested = set()
    rng = np.random.default_rng(0)
    for eqn in _with(Trait.COMMUTATIVE, harness_equations):
        x, y = _values(eqn, rng)
        np.testing.assert_array_equal(_run(eqn, [x, y])[0], _run(eqn, [y, x])[0])
        tested.add(eqn.primitive.name)
    assert tested >= {"add", "and", "eq", "mul", "ne", "or", "xor"}


@pytest.mark.compat
@pytest.mark.slow
def test_ops_that_move_elements_give_them(harness_equations):
    """A function applied to each element of the operands gives the same for the results."""
    tested = collections.Counter()
    rng = np.random.default_rng(0)
    for eqn in _with(Trait.MOVEMENT, harness_equations, most=200):
        record = ops.BY_PRIMITIVE[eqn.primitive.name]
        indices = record.index_operands(len(eqn.invars))
        operands = list(_values(eqn, rng))
        moved = [x for i, x in enumerate(operands) if i not in indices]
        other = any(x.dtype != jnp.float32 for x in moved) or eqn.params.get("update_jaxpr")
        if other or tested[record.name] == 5:
            continue
        size = 1
        for i, x in enumerate(operands):
            if i not in indices:
                operands[i] = jnp.arange(size, size + x.size, dtype=x.dtype).reshape(x.shape)
                size += x.size
        results = _run(eqn, operands)
        found = {n for r in results for n in r.ravel() if np.isfinite(n)}
        fill = {eqn.params.get("fill_value")} if eqn.primitive.name == "gather" else set()
        assert found <= {*range(1, size), *fill}, eqn.primitive.name
        if Trait.RESHAPE in record.traits and not (
            record.name == "reshape" and eqn.params["dimensions"]
        ):
            np.testing.assert_array_equal(results[0].ravel(), operands[0].ravel())
        if Trait.SLICING in record.traits or Trait.SPLITTING in record.traits:
            assert found <= {*range(1, 1 + operands[0].size), *fill}, eqn.primitive.name
        if Trait.SPLITTING in record.traits or Trait.JOINING in record.traits:
            assert len(found) == size - 1, eqn.primitive.name
        if Trait.UPDATE in record.traits:
            assert results[0].shape == operands[0].shape, eqn.primitive.name
            assert record.update not in indices
        tested[record.name] += 1
    known = {name.removeprefix("jaxpr.") for name in ops.with_trait(Trait.MOVEMENT)}
    assert known - tested.keys() <= {"stack", "unstack", "tile"}


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.parametrize("trait", [Trait.REDUCTION, Trait.CUMULATIVE, Trait.UPDATE])
def test_reductions_combine_elements(trait, harness_equations):
    """A reduction of two elements equals the binary op that the record names."""
    named = [op for op in ops.OPS.values() if trait in op.traits and op.combine]
    x, y = jnp.array([5, 3], jnp.int32)
    for op in named:
        bitwise = "bitwise_" if op.combine in ("and", "or", "xor") else ""
        expected = getattr(jax.lax, bitwise + op.combine)(x, y)
        if trait is Trait.UPDATE:
            got = getattr(jax.lax, op.name)(
                jnp.array([5]),
                jnp.array([0]),
                jnp.array(3),
                jax.lax.ScatterDimensionNumbers((), (0,), (0,)),
            )
        elif trait is Trait.REDUCTION:
            sharding = {"out_sharding": None} if "out_sharding" in op.params(jax_version()) else {}
            got = getattr(jax.lax, f"{op.name}_p").bind(jnp.array([5, 3]), axes=(0,), **sharding)
        else:
            got = getattr(jax.lax, op.name)(jnp.array([5, 3]))[-1]
        np.testing.assert_array_equal(np.ravel(got), np.ravel(expected), err_msg=op.name)
    assert len(named) > 3


@pytest.mark.compat
def test_calls_give_what_their_function_gives():
    for name, attribute in ops.CALLEES.items():
        kinds = {a.name: a.kind for a in ops.record_of(name).attributes}
        assert kinds[attribute] == "function"


@pytest.mark.compat
def test_inverses_undo():
    """f(inverse(f(x))) = f(x), for ops that have no attributes, and whose inverse has none."""
    tested = set()
    points = {"acosh": 1.7, "erf_inv": 0.3}
    for op in ops.OPS.values():
        inverse = ops.OPS.get(op.inverse)
        if inverse is None or not hasattr(jax.lax, op.name) or not hasattr(jax.lax, inverse.name):
            continue
        if any(a.required for a in (*op.attributes, *inverse.attributes)):
            continue
        f, g = getattr(jax.lax, op.name), getattr(jax.lax, inverse.name)
        x = 5 if op.name in ("not", "bitwise_not") else points.get(op.name, 0.3)
        np.testing.assert_allclose(g(f(x)), x, rtol=1e-5, err_msg=op.name)
        tested.add(op.name)
    assert {"neg", "exp", "log", "tanh", "asin", "erf"} <= tested


# --- the generated files --------------------------------------------------------------------------


def test_generated_files_are_fresh():
    assert generate_dialect.stale() == [], "run python tools/generate_dialect.py"


def test_stock_verify_says_what_it_cannot_read(tmp_path, capsys):
    program = tmp_path / "program.mlir"
    assert stock_verify.main([str(program), "--print"]) == 1
    assert capsys.readouterr().err == f"[Errno 2] No such file or directory: '{program}'\n"
    program.write_text("func.func @f( {")
    assert stock_verify.main([str(program), "--print"]) == 1
    assert capsys.readouterr().err.startswith(f"{program}:1:14: error: ")


needs_mlir_opt = pytest.mark.skipif(
    stock_verify.mlir_opt() is None, reason="mlir-opt-22 is not installed"
)

PROGRAM = """\
func.func private @body(%c: tensor<f32>, %x: tensor<f32, {weak_type}>)
    -> (tensor<f32>, tensor<f32>) {
  %0 = "jaxpr.mul"(%c, %x) : (tensor<f32>, tensor<f32, {weak_type}>) -> tensor<f32>
  return %0, %c : tensor<f32>, tensor<f32>
}
func.func public @f(%x: tensor<4xf32>, %keys: tensor<4x!jaxpr.key<"fry">>) -> tensor<4xf32> {
  %c = "jaxpr.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0:2 = "jaxpr.scan"(%c, %x) {jaxpr = @body, length = 4 : i64, num_carry = 1 : i64}
      : (tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)
  %ref = "jaxpr.new_ref"(%x) : (tensor<4xf32>) -> !jaxpr.ref<tensor<4xf32>>
  %1 = "jaxpr.freeze"(%ref) : (!jaxpr.ref<tensor<4xf32>>) -> tensor<4xf32>
  %data = "jaxpr.random_unwrap"(%keys) : (tensor<4x!jaxpr.key<"fry">>) -> tensor<4x2xui32>
  %token = "jaxpr.create_token"() : () -> !jaxpr.token
  %2 = "jaxpr.multiply_add"(%0#0, %1, %0#1)
      : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "jaxpr.reduce_sum"(%2) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  return %2 : tensor<4xf32>
}
"""


@needs_mlir_opt
def test_stock_mlir_accepts_the_dialect():
    irdl = ROOT / "jaxmlir" / "dialect" / "jaxpr.irdl.mlir"
    done = subprocess.run(
        [stock_verify.mlir_opt(), str(irdl), "-o", "/dev/null"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_mlir_opt
def test_stock_mlir_accepts_a_program():
    done = stock_verify.verify(PROGRAM, "program.mlir")
    assert (done.returncode, done.stderr) == (0, "")


@needs_mlir_opt
@pytest.mark.parametrize(
    ("good", "bad", "error"),
    [
        pytest.param(
            '"jaxpr.mul"(%c, %x) : (tensor<f32>, tensor<f32, {weak_type}>)',
            '"jaxpr.mul"(%c) : (tensor<f32>)',
            "program.mlir:3:8: error: op expects exactly 2 operands, but got 1",
            id="operand-count",
        ),
        pytest.param(
            " {axes = array<i64: 0>}",
            "",
            "program.mlir:16:8: error: 'jaxpr.reduce_sum' op attribute \"axes\" is expected",
            id="missing-attribute",
        ),
        pytest.param(
            "jaxpr = @body",
            'jaxpr = "body"',
            "program.mlir:8:10: error: expected base attribute 'builtin.symbol_ref'",
            id="function-attribute",
        ),
        pytest.param(
            '!jaxpr.key<"fry">',
            "!jaxpr.key<4>",
            "expected base attribute 'builtin.string' but got 'builtin.integer'",
            id="key-type",
        ),
    ],
)
def test_stock_mlir_rejects(good, bad, error):
    assert good in PROGRAM
    done = stock_verify.verify(PROGRAM.replace(good, bad), "program.mlir")
    assert done.returncode != 0
    assert error in done.stderr
