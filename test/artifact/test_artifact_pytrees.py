"""Pytrees in artifacts: the loading process finds node classes and sentinels by name."""

import collections
import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same

import jaxmlir
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import ArtifactError, ExportError

Point = collections.namedtuple("Point", ["x", "y"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Particle:
    position: jax.Array
    charge: int = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_pytree_node_class
class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label

    def tree_flatten(self):
        return (self.content,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)


def nested(value):
    return {
        3: Point(value["p"].x, [value["p"].y, None]),
        1: (Particle(value["q"].position, value["q"].charge + 1), Box({"k": 1.0}, ("a", 2))),
        -(2**70): collections.OrderedDict(b=1, a=()),
    }


def nested_argument():
    return {"p": Point(jnp.float32(1), jnp.ones(2)), "q": Particle(jnp.zeros(3), 7)}


def test_pytrees_of_every_kind(tmp_path):
    jaxmlir.trace(nested)(nested_argument()).save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    expected = jax.jit(nested)(nested_argument())
    got = loaded(nested_argument())
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    assert got[1][0].charge == 8 and got[1][1].label == ("a", 2)


@pytest.mark.compat
def test_keys_that_are_bytes(tmp_path):
    argument = {b"a\xff": jnp.ones(2), b"": {b'"\0': 1.0}}
    jaxmlir.trace(lambda d: jax.tree.map(jnp.sin, d))(argument).save(tmp_path / "a")
    same(jaxmlir.load(tmp_path / "a")(argument), jax.tree.map(jnp.sin, argument))


@pytest.mark.compat
def test_keys_that_come_from_arrays(tmp_path):
    names, days = np.array(["a", "b"]), np.array(["2020-01-01"], "M8[D]")
    argument = {name: jnp.ones(2) for name in names}
    jaxmlir.trace(lambda d: jax.tree.map(jnp.sin, d))(argument).save(tmp_path / "a")
    same(jaxmlir.load(tmp_path / "a")(argument), jax.tree.map(jnp.sin, argument))
    program = jaxmlir.trace(lambda d: jax.tree.map(jnp.sin, d))({days[0]: jnp.ones(2)})
    same(program({days[0]: jnp.ones(2)}), {days[0]: jnp.sin(jnp.ones(2))})
    with pytest.raises(ArtifactError, match="Python object.*2020.*as_flat=True"):
        program.save(tmp_path / "a")


@pytest.mark.parametrize(
    "factory", [None, bytes, dict, float, frozenset, int, list, set, str, tuple]
)
def test_dictionaries_with_defaults(factory, tmp_path):
    argument = collections.defaultdict(factory, b=jnp.ones(2), a=jnp.float32(3))
    jaxmlir.trace(lambda d: jax.tree.map(jnp.sin, d))(argument).save(tmp_path / "a")
    got = jaxmlir.load(tmp_path / "a")(argument)
    assert got.default_factory is factory
    same(jax.tree.leaves(got), jax.tree.leaves(jax.tree.map(jnp.sin, argument)))


def test_a_dictionary_whose_defaults_a_function_makes_is_saved_flat(tmp_path):
    argument = collections.defaultdict(lambda: 0, a=jnp.ones(2))
    program = jaxmlir.trace(lambda d: d["a"] + 1)(argument)
    with pytest.raises(ArtifactError, match="as_flat=True"):
        program.save(tmp_path / "a")
    program.save(tmp_path / "a", as_flat=True)
    same(jaxmlir.load(tmp_path / "a")(jnp.ones(2)), jnp.full(2, 2, jnp.float32))


LOAD_ELSEWHERE = """
import sys
import numpy as np
import jaxmlir
try:
    jaxmlir.load(sys.argv[1])
except jaxmlir.errors.ArtifactError as e:
    print(e)
flat = jaxmlir.load(sys.argv[1], as_flat=True)
print([np.shape(r) for r in flat(np.float32(1), np.ones(2, np.float32), np.zeros(3, np.float32))])
"""


def run_python(*args, cwd):
    """The output of a fresh process, which cannot import the modules of the tests."""
    root = str(Path(jaxmlir.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_process_without_the_node_types(tmp_path):
    jaxmlir.trace(nested)(nested_argument()).save(tmp_path / "a")
    first, flat = run_python("-c", LOAD_ELSEWHERE, "a", cwd=tmp_path).splitlines()
    assert '"test_artifact_pytrees:Box" is not known' in first and "as_flat=True" in first
    assert flat == "[(), (3,), (), (), (2,)]"


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["apply"])
@dataclasses.dataclass(frozen=True)
class State:
    """A node like training states: parameters, and the function that uses them."""

    w: object
    apply: object


def test_nodes_that_hold_functions_are_saved_flat(tmp_path):
    state = State(jnp.arange(3.0), lambda w, x: jnp.sin(w) * x)

    def step(state, x):
        slope = jax.grad(lambda w: jnp.sum(state.apply(w, x)))(state.w)
        return dataclasses.replace(state, w=state.w - slope)

    program = jaxmlir.trace(step)(state, jnp.float32(2.0))
    with pytest.raises(ArtifactError, match="attribute 'jaxpr.in_tree' .* as_flat=True saves"):
        program.save(tmp_path / "a")
    program.save(tmp_path / "a", as_flat=True)
    assert program(state, 2.0).apply is state.apply
    got = jaxmlir.load(tmp_path / "a")(state.w, 2.0)
    np.testing.assert_allclose(got, step(state, 2.0).w, rtol=1e-6)


class Absent:
    """The class of a sentinel."""


ABSENT = Absent()


def doubled(box):
    return 2 * box.content


def test_a_sentinel_is_the_object_of_that_name(tmp_path):
    box = Box(jnp.arange(3.0), ABSENT)
    jaxmlir.trace(doubled)(box).save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    (again,), _ = jax.tree.unflatten(loaded.in_tree, [box.content])
    assert again.label is ABSENT
    same(loaded(box), doubled(box))


@pytest.mark.parametrize("label", [Absent(), collections.Counter()])
def test_other_objects_are_no_sentinels(tmp_path, label):
    program = jaxmlir.trace(doubled)(Box(jnp.arange(3.0), label))
    with pytest.raises(ArtifactError, match="cannot be saved"):
        program.save(tmp_path / "a")


@pytest.mark.parametrize(
    "name", ["os:environ", "os:getpid", "os:nothing", "sys:modules", "nowhere:ABSENT", "os", ""]
)
def test_nothing_else_is_found_as_a_sentinel(name):
    with context():
        attr = ir.Attribute.parse(f'{{sentinel = "{name}"}}')
        with pytest.raises(ExportError, match=f'"{name}" is not known'):
            codec.decode(attr)


def test_axes_given_as_a_range_are_saved(tmp_path):
    dimensions = jax.lax.ScatterDimensionNumbers(
        update_window_dims=range(1), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,)
    )

    def fill(rows):
        zeros, columns = jnp.zeros((2, 4)), np.array([[0], [2], [3]])
        return jax.lax.scatter_add(zeros, columns, rows, dimensions)

    rows = jnp.arange(6.0).reshape(2, 3)
    jaxmlir.trace(fill)(rows).save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    assert loaded(rows).tolist() == fill(rows).tolist()
    loaded.verify()


def leaf(argument):
    """Uses nodes of classes whose fields are in the file."""
    return {"p": argument["p"], "q": dataclasses.replace(argument["q"], charge=3)}


STAND_INS = """
import sys
import jax, numpy as np
import jaxmlir
program, again = jaxmlir.load(sys.argv[1]), jaxmlir.load(sys.argv[1])
((argument,), _) = jax.tree.unflatten(program.in_tree, [np.float32(i) for i in range(3)])
print(argument)
result = again(argument)
print(type(result["p"]) is type(argument["p"]), type(result["q"]) is type(argument["q"]))
print(argument["q"].charge, result["q"].charge, float(result["q"].position), result["p"].y)
print(argument["q"] == argument["q"], type(argument["q"]).__module__)
Particle = type(argument["q"])
print(float(program({**argument, "q": Particle(position=np.float32(5), charge=7)})["q"].position))
try:
    program({**argument, "q": Particle(position=np.float32(5), charge=8)})
except jaxmlir.errors.ArgumentError as e:
    print(str(e)[:37])
program.save("again")
print(jaxmlir.load("again").as_text() == program.as_text())
"""


@pytest.mark.compat
def test_a_class_of_the_same_fields_stands_in(tmp_path):
    argument = {"p": Point(jnp.float32(1), jnp.float32(2)), "q": Particle(jnp.float32(0), 7)}
    program = jaxmlir.trace(leaf)(argument)
    program.save(tmp_path / "a")
    assert jaxmlir.load(tmp_path / "a").in_tree == program.in_tree
    assert jaxmlir.load(tmp_path / "a").as_text() == program.as_text()
    out = run_python("-c", STAND_INS, "a", cwd=tmp_path).splitlines()
    one, two = "x=np.float32(0.0)", "y=np.float32(1.0)"
    assert out[0].replace("np.float32(", "").replace(")", "") == (
        f"{{'p': Point({one}, {two}), 'q': Particle(position=np.float32(2.0), charge=7)}}"
    ).replace("np.float32(", "").replace(")", "")
    assert out[1:5] == ["True True", "7 3 2.0 1.0", "True test_artifact_pytrees", "5.0"]
    assert out[5:] == ["@leaf takes arguments of the pytree (", "True"]


@pytest.mark.parametrize(
    "fields",
    [
        '[["m:A", true, ["x; import os"], [0]]]',
        '[["m:A", false, ["__class__"], [0]]]',
        '[["m:A", false, ["x"], [1]]]',
        '[["m:A()", false, ["x"], [0]]]',
        '[["m:A", true, ["x"], [[0]]]]',
        '"nothing"',
    ],
)
def test_malformed_fields_are_refused(fields):
    from jaxmlir.dialect.codec import node_fields

    with context():
        with pytest.raises(ExportError, match="as fields of pytree nodes"):
            node_fields.make_known(ir.Attribute.parse(fields))
