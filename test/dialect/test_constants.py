"""Constants keep every bit, in the text and outside of it."""

from __future__ import annotations

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.extend
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from comparing import reread, same
from sampling import examples

import jaxmlir
from jaxmlir._compat import batching, core, dtypes
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import scope
from jaxmlir.errors import LoweringError

compat = pytest.mark.compat


def as_constant(value):
    """The value after import, printing, parsing, export and a run."""
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


@compat
def test_a_scalar_beside_the_text_is_saved_as_one(tmp_path):
    text = """
    func.func public @f(%x: tensor<f32>) -> tensor<f32> {
      %c = "jaxpr.constant"() {name = "scale"} : () -> tensor<f32>
      %0 = "jaxpr.mul"(%x, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    program = jaxmlir.parse(text, constants={"scale": np.float32(3)})
    program.save(tmp_path / "a")
    same(jaxmlir.load(tmp_path / "a")(jnp.float32(2)), program(jnp.float32(2)))


FLOATS = ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]


@compat
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_floats_keep_their_bits(dtype):
    """Every bit pattern of the small types: NaN payloads, -0.0, subnormals."""
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    n = dtype.itemsize
    patterns = np.arange(256, dtype="u1")
    if n > 1:
        # The pattern is the top byte, with a payload below it.
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
    if name == "float4_e2m1fn":
        value = np.arange(16, dtype="u1").view(dtype)
    for got in as_constant(value):
        assert got.dtype == dtype
        assert np.asarray(got).astype("float32").tolist() == value.astype("float32").tolist()


ARRAYS = st.sampled_from(["bool", "i1", "u2", "i4", "f2", "f4", "c8"]).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)


@compat
@examples(30)
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


@compat
def test_a_value_of_a_users_own_dtype_stays_in_the_process():
    class Pair(dtypes.ExtendedDType):
        type = jax.dtypes.extended
        name = "pair"
        itemsize = 8

    value = object()
    with scope():
        importer = Importer()
        (attribute,) = importer.constant_attributes(value, core.ShapedArray((), Pair())).values()
    assert codec.decode(attribute) is value


@compat
@pytest.mark.parametrize("dtype", [">f4", ">i8", ">c8", ">u2"])
def test_arrays_in_attributes_of_the_other_byte_order(dtype):
    value = np.array([1, 2], dtype)
    same(codec.decode(codec.encode(value)), value.astype(value.dtype.newbyteorder("=")))


@compat
def test_arrays_that_programs_share_cannot_be_written_to():
    attribute = codec.encode(np.arange(3, dtype=np.int32))
    shared = codec.decode(attribute)
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = 7
    assert codec.decode(attribute).tolist() == [0, 1, 2]


def test_arrays_of_objects_in_attributes():
    pairs = np.empty(2, object)
    pairs[0], pairs[1] = ("a", 1), ("b", 2)
    assert codec.decode(codec.encode(pairs)).tolist() == pairs.tolist()


@compat
def test_objects_of_jax_are_read_as_they_were_written():
    device = jax.devices()[0]
    values = [
        jax.sharding.SingleDeviceSharding(device, memory_kind=device.default_memory().kind),
        jax.sharding.Mesh(np.array([device]), ("i",)),
        jax.sharding.PartitionSpec(("i", "j"), None),
        jax.ShapeDtypeStruct((2, 3), "float32"),
        batching.AxisData(core.no_axis_name, 3, None, None),
        core.NamedAxisEffect("i"),
        {"a": [1j], 2: frozenset({"b", None})},
    ]
    assert [codec.decode(codec.encode(value)) for value in values] == values


@compat
def test_an_array_that_is_changed_later_stays_as_it_was_in_the_program():
    table = np.arange(4096, dtype=np.float32)
    program = jaxmlir.trace(lambda x: jnp.sum(x * table))(np.float32(1))
    text = program.as_text()
    parsed = jaxmlir.parse(text, constants={name: table for name in program.constants})
    before = float(program(np.float32(1)))
    table[:] = 0
    for each in (program, parsed, program.grad(), program.optimize(2)):
        assert float(each(np.float32(1))) == before
    (array,) = program.constants.values()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
