"""One of several processes that train together: ``python processes.py RANK COUNT PORT FILE WAY``.

Four devices of the CPU are shared by 1, 2 or 4 processes. Each prints the losses of three steps as
JSON: of JAX's gradient, of ours at level 2, and of the gradient of a program that is loaded from a
file. Of a WAY ``killed``, the last process ends itself after its first step.
"""

import json
import os
import signal
import sys

DEVICES, STEPS, RATE = 4, 3, 1e-3
PROGRAMS = ("data_parallel", "fully_sharded", "pipeline")


def losses(devices, file, *, may_write=True, written=lambda: None, stepped=lambda: None):
    """The losses by program and form.

    Args:
      file: the beginning of the files' names.
      may_write: whether this process writes them.
      written: waits until they are.
      stepped: is called after each step.
    """
    import jax

    import jaxmlir
    from benchmarks.programs.sharded import SHARDED

    found = {}
    for name in PROGRAMS:
        program = SHARDED[name](devices)
        if may_write:
            jaxmlir.trace(program.loss)(*program.arguments).save(f"{file}.{name}")
        written()
        with jax.set_mesh(program.mesh):
            forms = {
                "jax": jax.jit(jax.value_and_grad(program.loss)),
                "level 2": jaxmlir.jit(jax.value_and_grad(program.loss), optimize=2),
                "loaded": jaxmlir.load(f"{file}.{name}").value_and_grad().optimize(2),
            }
            for form, step in forms.items():
                params, *batch = program.placed()
                of_form = found[f"{name}, {form}"] = []
                for _ in range(STEPS):
                    loss, gradient = step(params, *batch)
                    of_form.append(float(loss))
                    params = jax.tree.map(lambda p, g: p - RATE * g, params, gradient)
                    jax.block_until_ready(params)
                    stepped()
    return found


def main(rank, count, port, file, way):
    os.environ["JAX_PLATFORMS"] = "cpu"
    flag = "--xla_force_host_platform_device_count"
    os.environ["XLA_FLAGS"] = f"{flag}={DEVICES // count} --xla_backend_optimization_level=0"
    import jax
    from jax.experimental import multihost_utils

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"127.0.0.1:{port}", count, rank, initialization_timeout=60, heartbeat_timeout_seconds=20
    )

    def stepped():
        if way == "killed" and rank == count - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def written():
        multihost_utils.sync_global_devices("written")

    print(
        json.dumps(
            losses(jax.devices(), file, may_write=rank == 0, written=written, stepped=stepped)
        )
    )


if __name__ == "__main__":
    rank, count, port, file, way = sys.argv[1:]
    main(int(rank), int(count), port, file, way)
