"""Programs over a mesh of devices, and over several processes, compared with JAX."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import processes
import pytest
from collectives import Collectives, collectives
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmlir
from benchmarks.programs.sharded import SHARDED
from jaxmlir import targets

ROOT = Path(__file__).resolve().parents[2]


def close(found, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected
    )


@pytest.mark.compat
@pytest.mark.parametrize("name", SHARDED)
def test_no_level_adds_collectives_to_those_of_jax(name):
    program = SHARDED[name](jax.devices())
    gradient = jax.value_and_grad(program.loss)
    with program.context():
        arguments = program.placed()
        compiled = jax.jit(gradient).lower(*arguments).compile()
        expected, most = compiled(*arguments), collectives(compiled.as_text())
        assert most
        for level in (0, 2):
            ours = jaxmlir.jit(gradient, optimize=level).lower(*arguments).compile()
            close(ours(*arguments), expected)
            found = collectives(ours.as_text())
            assert found.keys() <= most.keys()
            for kind in found:
                assert found[kind].count <= most[kind].count
                assert found[kind].bytes <= most[kind].bytes
        file = io.BytesIO()
        jaxmlir.trace(program.loss)(*arguments).save(file)
    with jax.set_mesh(program.mesh):
        loaded = jaxmlir.load(file.getvalue())
        close(loaded.value_and_grad().optimize(2)(*arguments), expected)


def rows(x):
    """A batch that level 2 would tile: much work is done on each row separately."""
    hidden = jnp.exp(jnp.sin(x[:, :, None] * jnp.arange(1.0, 33)))
    return jnp.tanh(hidden / hidden.sum(-1, keepdims=True)).sum((1, 2))


@pytest.mark.compat
def test_a_sharded_batch_is_not_taken_apart():
    mesh = Mesh(np.array(jax.devices()), ("data",), axis_types=(AxisType.Auto,))
    x = jax.ShapeDtypeStruct((65536, 8), "float32")
    sharding = NamedSharding(mesh, P("data"))
    program = jaxmlir.trace(rows)(x).optimize(2)
    said = []
    alone = jaxmlir.trace(rows)(x).optimize(2, remarks=lambda d: said.append(d.message))
    assert any("[jaxpr-tile]" in text for text in said)
    assert "stablehlo.while" in alone.lower().as_text()
    for function in (program, jaxmlir.jit(rows, optimize=2)):
        lowered = jax.jit(function, in_shardings=sharding).lower(x)
        assert "stablehlo.while" not in lowered.as_text()
        assert not collectives(lowered.compile().as_text())


def test_a_pass_for_one_device_says_that_it_is_skipped():
    said = []
    program = jaxmlir.trace(rows)(jax.ShapeDtypeStruct((65536, 8), "float32"))
    target = targets.default_target().on(8)
    program.optimize(2, target=target, remarks=lambda d: said.append(d.message))
    assert "[jaxpr-tile] skipped: the pass is for one device, the target is cpu:8" in said


def test_collectives_are_counted_as_often_as_they_run():
    text = """\
HloModule m
%body (p: f32[8]) -> f32[8] {
  %a = f32[8]{0} all-reduce(%p), to_apply=%add
  %b = (bf16[2,3]{1,0}, pred[4]{0}) all-gather-start(%q, %r), dimensions={0}
}
%less (p: f32[8]) -> f32[8] {
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %w = f32[8] while(%x), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %k = f32[8] conditional(%i, %x, %x), branch_computations={%less, %body}
}
"""
    found = collectives(text)
    assert found == {"all-reduce": Collectives(6, 192), "all-gather": Collectives(6, 96)}
    assert str(found) == "6 all-gather (96 B), 6 all-reduce (192 B)"


# -- several processes -----------------------------------------------------------------------------


def started(count, file, program, way="run"):
    """Starts the processes of ``processes.py``, whose output the tests read."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return [
        subprocess.Popen(
            [
                sys.executable,
                processes.__file__,
                str(rank),
                str(count),
                str(port),
                file,
                program,
                way,
            ],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("program", ["data_parallel", "fully_sharded", "pipeline", "explicit"])
def test_several_processes_have_the_losses_of_one(program, count, tmp_path):
    running = started(count, tmp_path / "several", program)
    expected = processes.losses(jax.devices()[: processes.DEVICES], tmp_path / "one", program)
    for process in running:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-2000:]
        for form, values in json.loads(out.splitlines()[-1]).items():
            np.testing.assert_allclose(values, expected[form], rtol=1e-6)


def test_a_process_that_is_killed_is_an_error_in_the_others(tmp_path):
    first, last = started(2, tmp_path / "file", "data_parallel", "killed")
    last.communicate(timeout=300)
    assert last.returncode == -signal.SIGKILL
    ended = time.monotonic()
    _, err = first.communicate(timeout=120)
    assert first.returncode != 0 and time.monotonic() - ended < 60
    assert err


def pairs(x):
    def step(_, x):
        apart = x[None] - x[:, None]
        return x + 1e-3 * jnp.sum(apart * (jnp.sum(apart**2, -1) + 0.1)[..., None] ** -1.5, 1)

    return jnp.sum(jax.lax.fori_loop(0, 3, step, x))


def edges(w, x, senders):
    for _ in range(2):
        x = x + jax.nn.relu(x[senders] @ w[0] + x[senders[::-1]] @ w[1]).reshape(4, *x.shape).sum(0)
    return jnp.sum(x**2)


def heads(w, x):
    for layer in w:
        for _ in range(2):
            mixed = [jax.nn.softmax((x @ q) @ (x @ k).T) @ (x @ v) for q, k, v in layer]
            x = x + jnp.concatenate(mixed, -1)
    return jnp.sum(x**2)


@pytest.mark.compat
@pytest.mark.parametrize(
    ("loss", "shapes"),
    [(pairs, [(64, 3)]), (edges, [(2, 32, 32), (64, 32)]), (heads, [(2, 4, 3, 32, 8), (64, 32)])],
)
def test_a_sharded_batch_is_exchanged_no_more_than_by_jax(loss, shapes):
    rng = np.random.RandomState(0)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    arguments = [
        jax.device_put(0.1 * rng.randn(*shape).astype(np.float32), NamedSharding(mesh, spec))
        for shape, spec in zip(shapes, [P(), P("data")][-len(shapes) :], strict=True)
    ]
    if loss is edges:
        senders = rng.randint(0, 64, 256).astype(np.int32)
        arguments.append(jax.device_put(senders, NamedSharding(mesh, P("data"))))
    gradient = jax.value_and_grad(loss)
    plain = jax.jit(gradient).lower(*arguments).compile()
    ours = jaxmlir.jit(gradient, optimize=2).lower(*arguments).compile()
    close(ours(*arguments), plain(*arguments))
    most, found = (collectives(each.as_text()).total() for each in (plain, ours))
    assert found.count <= most.count
    assert found.bytes <= most.bytes
