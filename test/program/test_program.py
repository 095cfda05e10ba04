"""The Python API as users see it; every number is compared with plain JAX's."""

from __future__ import annotations

import collections
import copy
import dataclasses
import inspect
import pickle
import pickletools
import re

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import reread, same
from jax import export, lax

import jaxmlir
from jaxmlir import targets
from jaxmlir.dialect.ir import file_line_col, func, parse_module
from jaxmlir.errors import ArgumentError, ArtifactError, JaxmlirError, ParseError, VerificationError
from tools.conformance_steps import canonical

compat = pytest.mark.compat


# --- stages -------------------------------------------------------------------------------------


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


def test_a_module_that_cannot_be_called_is_shown():
    program = jaxmlir.parse("func.func private @f() { return }")
    assert repr(program) == "<Program without a public function>"
    with pytest.raises(JaxmlirError, match="no public function to call"):
        program(1.0)


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
def test_traces_a_model_that_is_a_pytree_of_arrays():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Scale:
        factor: jax.Array
        __name__ = 0  # what wraps functions may leave something that is no name

        def __call__(self, x):
            return self.factor * x

    model = Scale(jnp.float32(3.0))
    with pytest.raises(TypeError, match="unhashable"):
        hash(model)
    program = jaxmlir.trace(model)(2.0)
    assert program.name == "Scale"
    assert jaxmlir.trace(model).factor is model.factor
    assert program(2.0) == 6.0
    batch = jnp.float32([1.0, 2.0])
    same(jaxmlir.trace(jax.vmap(model))(batch)(batch), 3.0 * batch)


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


@pytest.mark.parametrize("name", ["name", "nmae", "grad", "in_tree", "targett"])
def test_only_some_attributes_can_be_assigned(name):
    program = jaxmlir.trace(jnp.sin)(1.0)
    message = f"the attribute '{name}' of a Program cannot be assigned, only module and target"
    with pytest.raises(AttributeError, match=message):
        setattr(program, name, "x")
    assert program.name == "sin"


def test_what_is_assigned_is_checked():
    program = jaxmlir.trace(jnp.sin)(1.0)
    program.target = "cuda:h100"
    assert program.target == targets.target("cuda:h100")
    with pytest.raises(ArgumentError, match="no target 'cuda:h101'; did you mean"):
        program.target = "cuda:h101"
    with pytest.raises(ArgumentError, match="module: expected an MLIR module, got 'x'"):
        program.module = "x"
    assert str(program.target) == "cuda:h100" and program.module is not None


def test_clone_is_another_module():
    program = jaxmlir.trace(norm)(jnp.ones(2))
    clone = program.clone()
    assert str(clone) == str(program)
    assert clone.module is not program.module
    same(clone(jnp.ones(2)), program(jnp.ones(2)))


# --- lowering -----------------------------------------------------------------------------------


def test_copies_and_pickles():
    program = jaxmlir.trace(norm)(jnp.ones(3))
    for copied in (copy.copy(program), copy.deepcopy([program])[0]):
        assert copied is not program
        assert copied.module is not program.module
        assert copied(jnp.ones(3)) == program(jnp.ones(3))
    pickled = pickle.dumps(program)
    # Unpickling calls the reader of artifacts, and nothing else.
    called = {arg for op, arg, _ in pickletools.genops(pickled) if op.name == "SHORT_BINUNICODE"}
    assert called == {"jaxmlir.program.program", "_unpickled"}
    assert (
        pickle.loads(pickled).grad()(jnp.ones(3)).tolist() == program.grad()(jnp.ones(3)).tolist()
    )


def test_a_program_with_a_callback_is_not_pickled():
    program = jaxmlir.trace(lambda x: jax.pure_callback(lambda v: v, x, x))(jnp.ones(3))
    with pytest.raises(ArtifactError, match="'jaxpr.pure_callback' op cannot be saved"):
        pickle.dumps(program)


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
@pytest.mark.parametrize("inline", ["true", '"XLA_EARLY"'])
def test_inlining_is_one_attribute_in_every_version(inline):
    program = jaxmlir.trace(lambda x: jax.jit(jnp.sin, inline=True)(x))(1.0)
    if "inline" in str(program):  # older versions write the body in place
        assert "inline = true" in str(program)
    text = str(jaxmlir.trace(lambda x: jax.jit(jnp.sin)(x))(1.0))
    wished = text.replace("{jaxpr = @sin", f"{{inline = {inline}, jaxpr = @sin")
    assert wished != text
    assert jaxmlir.parse(wished)(1.0) == jnp.sin(1.0)
    again = str(jaxmlir.from_jaxpr(jaxmlir.parse(wished).to_jaxpr(), "f"))
    assert (f"inline = {inline}" in again) == (inline == "true" or hasattr(jax, "Inline"))


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
    # A variant can be differentiated after it was lowered.
    both = jax.value_and_grad(lambda *xs: jnp.sum(jax.jit(program)(*xs)))(*args)
    want = jax.value_and_grad(lambda *xs: jnp.sum(f(*xs)))(*args)
    jax.tree.map(np.testing.assert_array_equal, both, want)


@pytest.mark.compat
def test_what_was_dead_once_may_be_dead_again():
    def f(x, y):
        jnp.exp(y)
        return jnp.sin(x), jnp.cos(y), x * y

    program = jaxmlir.trace(f)(1.0, 2.0)
    # JAX removes dead code when it traces, and again when it lowers.
    inner = jax.jit(lambda x, y: program(x, y)[1:])
    outer = jax.jit(lambda x, y: inner(x, y)[1])
    assert canonical(outer.lower(1.0, 2.0)).count("stablehlo.") == 1
    assert outer(1.0, 2.0) == 2.0
    assert jax.grad(outer)(1.0, 2.0) == 2.0


def test_effects_are_not_dead(capsys):
    def f(x, y):
        jax.debug.print("y is {}", y)
        return x

    jax.block_until_ready(jaxmlir.trace(f)(1.0, 2.0)(1.0, 2.0))
    jax.effects_barrier()
    assert capsys.readouterr().out == "y is 2.0\n"


# --- arguments ----------------------------------------------------------------------------------


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


class Part(collections.namedtuple("Part", "value kind")):
    """A named tuple with a field that is not a pytree child, as in optimizer states."""


jax.tree_util.register_pytree_node(
    Part, lambda part: ((part.value,), part.kind), lambda kind, children: Part(*children, kind)
)


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
        {"a": Part([1.0, Part(2.0, None)], "kind"), "b": 3.0},
        collections.OrderedDict(b=1.0, a=2.0),
        Box((1.0, {"k": 2.0}), "label"),
    ],
    ids=["tuple", "list", "dict", "int-keys", "none", "namedtuple", "part", "ordered", "node"],
)
def test_pytrees_in_and_out(tree):
    def f(tree, *, scale):
        return jax.tree.map(lambda x: x * scale, tree), (None, scale)

    program = reread(jaxmlir.trace(f)(tree, scale=2.0))
    ours, jaxs = program(tree, scale=3.0), jax.jit(f)(tree, scale=3.0)
    same(ours, jaxs)
    compiled = program.lower().compile()
    same(compiled(tree, scale=3.0), jaxs)


@jax.tree_util.register_pytree_node_class
class Sorted:
    """A node whose children are its array-like attributes, as in distrax."""

    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def tree_flatten(self):
        children = [x if isinstance(x, jax.Array) or type(x) is object else None for x in self]
        rest = [x if child is None else None for x, child in zip(self, children, strict=True)]
        return children, tuple(rest)

    @classmethod
    def tree_unflatten(cls, rest, children):
        return cls(*(r if c is None else c for r, c in zip(rest, children, strict=True)))


@compat
def test_nodes_that_tell_arrays_from_other_values():
    @jax.custom_batching.custom_vmap
    def product(node):
        return node.values[0] * jnp.sin(node.values[2])

    @product.def_vmap
    def product_rule(size, batched, node):
        return product(node), True

    def f(node):
        return Sorted(node.values[0], "label", product(node))

    node = Sorted(jnp.float32(2.0), "label", jnp.float32(3.0))
    batch = Sorted(jnp.float32([2.0, 3.0]), "label", jnp.float32([4.0, 5.0]))
    program = jaxmlir.trace(f)(node)
    same(program(node), jax.jit(f)(node))
    same(jaxmlir.jit(f)(node), jax.jit(f)(node))
    same(program.vmap()(batch), jax.vmap(f)(batch))
    same(program.vmap(in_axes=(0,))(batch), jax.vmap(f)(batch))
    exported = jax.vmap(jax.extend.core.jaxpr_as_fun(program.to_jaxpr()))
    same(exported(batch.values[0], batch.values[2]), jax.tree.leaves(program.vmap()(batch)))
    with pytest.raises(ArgumentError, match=r"argument node\[0\] must be f32\[\]"):
        program(batch)


def test_out_axes_are_a_list_where_the_result_is_one():
    x, rows = np.ones(3, np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    program = jaxmlir.trace(lambda x: [x, (2 * x,)])(x)
    expected = jax.vmap(lambda x: [x, (2 * x,)], out_axes=[0, (1,)])(rows)
    same(program.vmap(out_axes=[0, (1,)])(rows), expected)
    same(program.vmap(out_axes=[0, (1,)], axis_size=4)(rows), expected)
    with pytest.raises(ArgumentError, match="not a prefix"):
        program.vmap(out_axes=(0, 1), axis_size=4)


@compat
def test_keywords_and_defaults():
    def f(x, y=2.0, *, z):
        return x + y * z

    program = jaxmlir.trace(f)(1.0, z=3.0)
    assert program(4.0, z=5.0) == f(4.0, z=5.0)
    named = {"": 1.0, "a b": 2.0}  # not names of parameters
    assert jaxmlir.trace(lambda **k: k["a b"] - k[""])(**named)(**named) == 1.0


@pytest.mark.parametrize(
    ("args", "expected", "got"),
    [
        (({"a": jnp.ones(3)},), r"\(\{'a': \*, 'b': \*\}\)", r"\(\{'a': \*\}\)"),
        (
            ({"a": jnp.ones(4), "b": jnp.ones(2)},),
            r"argument d\['a'\] must be f32\[3\]",
            r"f32\[4\]",
        ),
        (
            ({"a": jnp.ones(3, int), "b": jnp.ones(2)},),
            r"argument d\['a'\] must be f32\[3\]",
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
def test_arguments_keep_their_names(tmp_path):
    def f(d, x, *rest, scale):
        return jnp.sum(d["a"] * x) * scale + sum(map(jnp.sum, rest))

    args = {"a": jnp.ones(3), "b": jnp.ones(2)}, jnp.ones(3), jnp.ones(1), jnp.ones(2)
    names = ("d['a']", "d['b']", "x", "rest[0]", "rest[1]", "scale")
    program = jaxmlir.trace(f)(*args, scale=2.0)
    path = tmp_path / "f.jaxmlir"
    program.save(path)
    for same_arguments in (
        program,
        jaxmlir.load(path),
        jaxmlir.parse(program.as_text(debug_info=True)),
        program.optimize(2),
        program.grad(1),
        program.value_and_grad().optimize(2),
        program.hessian(1),
        program.vmap((None, 0, 0, 0), axis_size=2),
    ):
        assert same_arguments.arg_names == names
    assert jaxmlir.parse(program.as_text()).arg_names == ("",) * 6
    # JAX names the arguments of its own function like this.
    lowered = [p.lower(*args, scale=2.0) for p in (jax.jit(f), jaxmlir.jit(f))]
    for stage in (*lowered, program.lower()):
        found = re.findall(r'loc\("([^"]*)"\)', stage.as_text(debug_info=True))
        assert {*found} & {*names} == {*names} - {"d['b']"}


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


# --- locations ----------------------------------------------------------------------------------


@compat
def test_every_op_knows_the_users_line():
    @jax.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

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


@compat
def test_derived_ops_are_where_the_op_is_that_they_stand_for():
    """They do not have the location of the first op of that signature, whose rule was copied."""

    def f(x):
        with jax.named_scope("first"):
            x = jnp.tanh(x)
        with jax.named_scope("second"):
            return jnp.tanh(x)

    _, first = inspect.getsourcelines(f)
    program = jaxmlir.trace(f)(1.0).grad()
    places = {"first": set(), "second": set()}
    for op in program.function(program.name).entry_block.operations:
        name = getattr(op.location, "name_str", "")
        if name and op.operation.name != "jaxpr.constant":
            scope, _, transformed = name.partition("/")
            places[scope].add(file_line_col(op.location)[1] - first)
            assert transformed in ("jvp()", "jvp()/transpose()")
    assert places == {"first": {2}, "second": {4}}


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


# MLIR's own parser crashes the process at a depth of some thousands.
@pytest.mark.parametrize("depth", [400, 20_000])
@pytest.mark.parametrize(
    ("before", "opening", "innermost", "closing"),
    [
        ("func.func @g() attributes {a = ", "[", "", "]"),
        ("func.func @g() attributes {a = ", "{b = ", "1", "}"),
        ('func.func @g() attributes {s = "))]]", a = ', "[", "", "]"),
        ("// }}]] and more\nfunc.func @g() attributes {a = ", "[", "", "]"),
        ("func.func @g(%x: memref<4xf32>) -> () attributes {a = ", "tuple<", "f32", ">"),
    ],
)
def test_text_that_is_nested_too_deep_is_refused(depth, before, opening, innermost, closing):
    nested = opening * depth + innermost + closing * depth
    text = f"{GOOD}\n{before}{nested}}} {{ return }}"
    if depth == 400:
        assert "@g" in str(parse_module(text))
        return
    line = GOOD.count("\n") + 2 + before.count("\n")
    with pytest.raises(ParseError, match=rf"prog\.mlir:{line}:1: error: .*nested too deep"):
        jaxmlir.parse(text, filename="prog.mlir")


def wide_inside(x, a):
    """A function with 64-bit types inside, and arguments that any process can pass."""
    first = jnp.argmax(x)
    total, sums = lax.scan(lambda c, e: (c + e, (c, first)), jnp.float64(1), x.astype(float))
    _, none = lax.scan(lambda c, _: (c + a, c), first, x[:0])
    turns = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * s[0]), (a, total))
    picked = lax.cond(x[first] > 0, lambda: jnp.argmin(x), lambda: first * a)
    drawn = jax.random.randint(jax.random.key(0), (3,), 0, 9)
    return x * a, sums, none, turns, picked, drawn, jnp.nonzero(x, size=2), lax.top_k(x, 2)


@compat
def test_a_program_of_64_bits_runs_without_x64(tmp_path):
    x = np.array([0.25, 1.0, 0.5], np.float32)
    with jax.enable_x64(True):
        expected = jax.jit(wide_inside)(x, 2)
        jaxmlir.trace(wide_inside)(x, 2).save(tmp_path / "a")
    program = jaxmlir.load(tmp_path / "a")
    for run in (program, program.optimize(2), program.eval, jax.jit(program)):
        results = run(x, 2)
        assert jax.tree.map(jax.typeof, results) == jax.tree.map(jax.typeof, expected)
        jax.tree.map(np.testing.assert_array_equal, results, expected)


@compat
def test_a_python_number_is_as_wide_as_the_argument_that_it_stands_for():
    def f(a):
        return a * 3

    with jax.enable_x64(True):
        wide = jaxmlir.trace(f)(0.1)
        assert wide(0.1) == 0.1 * 3
    for run in (wide, wide.eval, jaxmlir.trace(f)(0.1).eval):
        result = run(2)  # an integer, exact in all floats
        assert np.asarray(result) == 6 and result.weak_type
    with pytest.raises(ArgumentError, match=r"f64\[\], got f32\[\]; jax_enable_x64 is off"):
        wide(0.1)  # JAX has rounded it


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Rows:
    """A node whose constructor reads the shapes of its leaves."""

    x: jax.Array
    y: jax.Array

    def __post_init__(self):
        assert self.x.shape[0] == self.y.shape[0]

    def tree_flatten(self):
        return (self.x, self.y), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@compat
def test_nodes_that_look_at_shapes_when_they_are_made():
    def f(rows, scale):
        return scale * jnp.sum(jnp.sin(rows.x) * rows.y)

    rows = Rows(jnp.arange(3.0), jnp.arange(3.0) + 1)
    program = jaxmlir.trace(f)(rows, 2.0)
    same(program(rows, 2.0), jax.jit(f)(rows, 2.0))
    gradient, expected = program.grad()(rows, 2.0), jax.grad(f)(rows, 2.0)
    np.testing.assert_allclose(gradient.x, expected.x, rtol=1e-6)
    np.testing.assert_allclose(gradient.y, expected.y, rtol=1e-6)
    batch = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), rows)
    batched = program.vmap((0, None))(batch, 2.0)
    expected = jax.vmap(lambda x, y: f(Rows(x, y), 2.0))(batch.x, batch.y)
    np.testing.assert_allclose(batched, expected, rtol=1e-6)
    with pytest.raises(
        ArgumentError, match=r"@f: argument rows\[0\] must be f32\[3\], got f32\[4\]"
    ):
        program(Rows(jnp.arange(4.0), jnp.arange(4.0)), 2.0)
    with pytest.raises(ArgumentError, match=r"takes arguments of the pytree \(Rows\(x="):
        program((rows.x, rows.y), 2.0)
    namesake = jax.tree_util.register_pytree_node_class(type("Rows", (Rows,), {}))
    with pytest.raises(ArgumentError, match="argument .* is of another class Rows than the progr"):
        program(namesake(rows.x, rows.y), 2.0)
