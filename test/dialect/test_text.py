"""Programs as text: aliases for what is written once and used by name elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.dialect.ir import with_mesh_aliases


def test_a_mesh_is_written_once():
    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)

    def mapped(x):
        return jax.shard_map(
            lambda x: lax.psum(jnp.sin(x), "b"), mesh=mesh, in_specs=P("a", "b"), out_specs=P("a")
        )(x)

    x = np.linspace(0, 1, 32, dtype=np.float32).reshape(4, 8)
    program = jaxmlir.trace(mapped)(x)
    for debug_info in (False, True):
        text = program.as_text(debug_info=debug_info)
        lines = text.splitlines()
        meshes = [line for line in lines if line.startswith("#mesh")]
        assert 1 < len(meshes) < 5 and lines[: len(meshes)] == meshes
        assert text.count("Mesh = {") == len(meshes) and text.count("#mesh") > 10
        again = jaxmlir.parse(text)
        assert again.as_text(debug_info=debug_info) == text
        np.testing.assert_array_equal(again(x), jax.jit(mapped)(x))


def test_strings_stay_as_they_are():
    mesh = '{Mesh = {x = "}"}}'
    text = f'"{{Mesh = {{" {mesh} "\\"{{Mesh = {{}}}}" {mesh} {{AbstractMesh = {{a = {mesh}}}}}\n'
    assert with_mesh_aliases(text) == (
        f"#mesh = {mesh}\n#mesh1 = {{AbstractMesh = {{a = {mesh}}}}}\n"
        '"{Mesh = {" #mesh "\\"{Mesh = {}}" #mesh #mesh1\n'
    )
