"""One of several processes that train together: ``processes.py RANK COUNT PORT FILE PROGRAM WAY``.

Four devices of the CPU are shared by 1, 2 or 4 processes. Each prints the losses of three steps as
JSON: of JAX's gradient, of ours at level 2, and of the gradient of a program that is loaded from a
file. Of a WAY ``killed``, the last process ends itself after its first step.
"""

import json
import os
import signal
import sys

DEVICES, STEPS, RATE = 4, 3, 1e-3


def losses(devices, file, name, *, may_write=True, written=lambda: None, stepped=lambda: None):
    """The losses of a program of ``benchmarks.programs.sharded`` by form.

    Args:
      may_write: whether this process writes the file.
      written: waits until the file is written.
      stepped: is called after each step.
    """
    import jax

    import jaxmlir
    from benchmarks.programs.sharded import SHARDED

    program, found = SHARDED[name](devices), {}
    if may_write:
        jaxmlir.trace(program.loss)(*program.arguments).save(file)
    written()
    with jax.set_mesh(program.mesh):
        forms = {
            "jax": jax.jit(jax.value_and_grad(program.loss)),
            "level 2": jaxmlir.jit(jax.value_and_grad(program.loss), optimize=2),
            "loaded": jaxmlir.load(file).value_and_grad().optimize(2),
        }
        for form, step in forms.items():
            params, *batch = program.placed()
            found[form] = []
            for _ in range(STEPS):
                loss, gradient = step(params, *batch)
                found[form].append(float(loss))
                params = jax.tree.map(lambda p, g: p - RATE * g, params, gradient)
                jax.block_until_ready(params)
                stepped()
    return found


def main(rank, count, port, file, name, way):
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

    first = rank == 0
    found = losses(jax.devices(), file, name, may_write=first, written=written, stepped=stepped)
    print(json.dumps(found))


if __name__ == "__main__":
    rank, count, port, *others = sys.argv[1:]
    main(int(rank), int(count), port, *others)
