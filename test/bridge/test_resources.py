"""Large constants in text and bytecode."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxmlir
from jaxmlir.cli import opt
from jaxmlir.cli.module_io import serialized, whole_module

pytestmark = pytest.mark.compat

DTYPES = ["float32", "bool", "int8", "uint32", "complex64", "float16", ml_dtypes.bfloat16]


def constant(dtype):
    return (np.arange(6000).reshape(30, 200) % 7).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_text_is_whole(dtype):
    big = constant(dtype)
    program = jaxmlir.trace(lambda i: (jnp.asarray(big)[i], jnp.asarray(big)[i + 1]))(0)
    text = serialized(whole_module(program)).decode()
    assert "dense_resource<" in text
    # Writing does not change the program.
    assert "dense_resource<" not in str(program)
    again = jaxmlir.parse(text)
    for got, want in zip(again(3), (big[3], big[4]), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    # A program that was read can be written again.
    np.testing.assert_array_equal(jaxmlir.parse(whole_text(again))(3)[0], big[3])


def whole_text(program):
    return serialized(whole_module(program)).decode()


def test_the_tools_hand_them_on(tmp_path):
    big = constant("float32")
    program = jaxmlir.trace(lambda x: x + big + big)(big)
    names = ("first", "reproducer", "second", "third")
    first, reproducer, second, third = (str(tmp_path / name) for name in names)
    with open(first, "w") as file:
        file.write(whole_text(program))
    words = [f"--mlir-generate-reproducer={reproducer}", "-o", second]
    assert opt.main([first, "--jaxpr-cse", *words]) == 0
    assert opt.main([reproducer, "--run-reproducer", "--emit-bytecode", "-o", second]) == 0
    assert opt.main([second, "--jaxpr-canonicalize", "-o", third]) == 0
    with open(third) as file:
        np.testing.assert_array_equal(jaxmlir.parse(file.read())(big), 3 * big)


def test_a_resource_in_constants_of_several_types():
    types = ("tensor<2xf32>", "tensor<2xi32>", "tensor<1x2xf32>")
    use = '%{0} = "jaxpr.constant"() {{value = dense_resource<_0> : {1}}} : () -> {1}'
    text = f"""func.func @f() -> ({", ".join(types)}) {{
      {chr(10).join(use.format(i, t) for i, t in enumerate(types))}
      return %0, %1, %2 : {", ".join(types)}
    }}
    {{-# dialect_resources: {{builtin: {{_0: "0x040000000000803F00000040"}}}} #-}}"""
    values = np.array([1.0, 2.0], "f4")
    wanted = values, values.view("i4"), values[None]
    for got, want in zip(jaxmlir.parse(text)(), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_resource_of_another_size_is_an_error():
    big = constant("float32")
    text = whole_text(jaxmlir.trace(lambda x: x + big)(big))
    broken = text.replace(text[text.index('"0x') + 11 : text.index('"0x') + 19], "", 1)
    with pytest.raises(jaxmlir.errors.JaxmlirError):
        jaxmlir.parse(broken)(big)


def test_names_that_end_in_numbers_stay_apart():
    text = """func.func @f() -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = "jaxpr.constant"() {name = "w_1"} : () -> tensor<2xf32>
      %1 = "jaxpr.constant"() {name = "w"} : () -> tensor<2xf32>
      return %0, %1 : tensor<2xf32>, tensor<2xf32>
    }"""
    first, second = np.float32([1, 2]), np.float32([3, 4])
    program = jaxmlir.parse(text, constants={"w_1": first, "w": second})
    np.testing.assert_array_equal(jaxmlir.parse(whole_text(program))(), [first, second])
