"""Files describe meshes by axis names and sizes; the loading process chooses the devices."""

import io
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.artifact.module_text import without_devices
from jaxmlir.errors import LoweringError

X = np.arange(32, dtype=np.float32).reshape(16, 2)


def mesh_of(devices, axis_type=AxisType.Auto):
    return Mesh(np.array(devices), ("data",), axis_types=(axis_type,))


MESH = mesh_of(jax.devices())
REVERSED = mesh_of(jax.devices()[::-1])
ROWS = NamedSharding(MESH, P("data"))

PROGRAMS = {
    "shard_map": lambda x: jax.shard_map(
        lambda x: lax.psum(jnp.sin(x), "data"), mesh=MESH, in_specs=P("data"), out_specs=P()
    )(x),
    "constraint": lambda x: lax.with_sharding_constraint(jnp.sin(x), ROWS).sum(0),
    "device_put": lambda x: jax.device_put(jnp.sin(x), ROWS).sum(0),
    "jit": lambda x: jax.jit(jnp.sin, out_shardings=ROWS)(x).sum(0),
}


def loaded(program):
    file = io.BytesIO()
    program.save(file)
    return jaxmlir.load(file.getvalue())


@pytest.mark.compat
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_mesh_is_chosen_when_the_program_is_called(name):
    function = PROGRAMS[name]
    expected = function(X)
    program = loaded(jaxmlir.trace(function)(X))
    assert "Device" not in program.as_text()

    def check(found, mesh):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert found.sharding.is_equivalent_to(NamedSharding(mesh, P()), found.ndim)

    check(program(X), MESH)
    check(program(jax.device_put(X, NamedSharding(REVERSED, P("data")))), REVERSED)
    check(jax.jit(program, in_shardings=ROWS)(X), MESH)
    check(jax.jit(program)(X), MESH)
    with jax.set_mesh(REVERSED):
        check(program(X), REVERSED)
        check(program.lower().compile()(X), REVERSED)
        check(jax.jit(program)(jax.device_put(X, NamedSharding(REVERSED, P("data")))), REVERSED)
    check(program.lower().compile()(X), MESH)
    # The program can be lowered for another platform, whatever devices this process has.
    assert "num_partitions = 8" in program.lower(platforms=("tpu",)).as_text()


@pytest.mark.compat
def test_derivatives_of_what_was_loaded_are_on_the_chosen_mesh_as_well():
    def loss(x):
        return PROGRAMS["shard_map"](x).sum() + PROGRAMS["constraint"](x).sum()

    program = loaded(jaxmlir.trace(loss)(X))
    expected = jax.grad(loss)(X)
    with jax.set_mesh(REVERSED):
        for gradient in (program.grad(), program.grad().optimize(2), jax.grad(program)):
            np.testing.assert_allclose(gradient(X), expected, rtol=1e-5)
    np.testing.assert_allclose(loaded(program.grad())(X), expected, rtol=1e-5)


def test_without_a_mesh_of_its_size_a_program_is_an_error():
    program = loaded(jaxmlir.trace(PROGRAMS["shard_map"])(X))
    with (
        jax.set_mesh(mesh_of(jax.devices()[:4])),
        pytest.raises(LoweringError, match=r"lowered for 4 devices: .*jax.set_mesh"),
    ):
        program(X)


LOWERED_ON_ONE_DEVICE = """
import sys
import jax
import jaxmlir

assert len(jax.devices()) == 1
for path in sys.argv[1:]:
    program = jaxmlir.load(path)
    assert "num_partitions = 8" in program.lower(platforms=("tpu",)).as_text()
    try:
        program.lower()
    except jaxmlir.errors.LoweringError as error:
        assert "there are 1 here" in str(error)
    else:
        raise AssertionError(path)
"""


@pytest.mark.compat
def test_a_program_for_many_devices_is_lowered_for_another_platform_on_one(tmp_path):
    paths = []
    for name, function in PROGRAMS.items():
        paths.append(str(tmp_path / f"{name}.jaxmlir"))
        jaxmlir.trace(function)(X).save(paths[-1])
    command = [sys.executable, "-c", LOWERED_ON_ONE_DEVICE, *paths]
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.compat
def test_a_shard_map_runs_on_a_mesh_of_its_axes_only():
    def mesh(**axes):
        devices = np.array(jax.devices()).reshape(*axes.values())
        return Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes))

    function = jax.shard_map(
        lambda x: lax.psum(x.max(), "data"),
        mesh=mesh(data=4, model=2),
        in_specs=P("data"),
        out_specs=P(),
    )
    traced = jaxmlir.trace(function)(X)
    for program in (traced, loaded(traced)):
        with jax.set_mesh(mesh(data=4, model=2)):
            np.testing.assert_array_equal(program(X), function(X))
        for other in (mesh(data=2, model=4), mesh(model=2, data=4), mesh(data=8), mesh(x=4, y=2)):
            with jax.set_mesh(other), pytest.raises(LoweringError, match="of the same axes"):
                program(X)


@pytest.mark.compat
def test_types_of_explicit_meshes_are_of_the_arguments_kind_of_device():
    def f(x):
        return jnp.sin(x) * 2

    mesh = mesh_of(jax.devices(), AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("data")))
        program = loaded(jaxmlir.trace(f)(x))
        found = jax.jit(lambda x: program(x) + x)(x)
        assert found.sharding.spec == P("data", None)
        np.testing.assert_allclose(found, np.sin(X) * 2 + X, rtol=1e-5)
        gradient = jax.jit(lambda x: jax.grad(lambda x: program(x).sum())(x) + x)(x)
        np.testing.assert_allclose(gradient, np.cos(X) * 2 + X, rtol=1e-5)


def test_only_attributes_lose_their_devices():
    mesh = (
        '{Mesh = {axis_names = ["a]", "b"], axis_types = [{AxisType = "Auto"}], '
        'devices = [{Device = "cpu:0"}], shape = array<i64: 1, 1>}}'
    )
    written = mesh.replace('"', "\\22")
    text = f'"jaxpr.x"() {{mesh = {mesh}, text = "{written}"}}'
    assert without_devices(text) == (
        '"jaxpr.x"() {mesh = {AbstractMesh = {axis_names = ["a]", "b"], '
        'axis_sizes = array<i64: 1, 1>, axis_types = [{AxisType = "Auto"}]}}, '
        f'text = "{written}"}}'
    )
