"""``python -m benchmarks.artifacts``: the time and space that a saved program saves.

Three comparisons, each in fresh processes that take turns:

* *start*: from an imported JAX to the lowered gradient of a flax transformer (``--layers``): by
  importing its source, tracing and lowering; by loading its artifact, differentiating and lowering
  it; and by an artifact whose repeated blocks are functions (``jaxpr-outline``).  The last two run
  without the rule cache, and *again* with the results of rules that an earlier process has cached
  (``JAXMLIR_CACHE_DIR``, see ``docs/rule-cache.md``);
* *size*: the artifact beside its constants and MLIR bytecode;
* *open*: loading an artifact with a constant of 1 GB (``--gigabytes``), and reading the file.

Times are seconds of CPU, except for *open*: these are wall-clock times, with the file in the
operating system's cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SOURCE = """
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        attended = nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
        x = x + attended
        hidden = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(hidden)


class Model(nn.Module):
    layers: int = {layers}

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(50, 32)(tokens)
        for _ in range(self.layers):
            x = Block()(x)
        return nn.Dense(50)(x)


MODEL = Model()
TOKENS = jax.ShapeDtypeStruct((2, 16), np.int32)
PARAMETERS = jax.eval_shape(MODEL.init, jax.random.key(0), TOKENS)


def loss(parameters, tokens):
    logits = jax.nn.log_softmax(MODEL.apply(parameters, tokens))
    return -jnp.mean(jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], -1))
"""

SAVE = """
import jaxmlir, model
program = jaxmlir.trace(model.loss)(model.PARAMETERS, model.TOKENS)
program.save("model.jaxmlir")
program.run_passes("jaxpr-outline").save("outlined.jaxmlir")
from jaxmlir.dialect.ir import module_bytecode
print(len(module_bytecode(program.module)))
"""

FROM_SOURCE = """
import time, jax
start = time.process_time()
import model
jax.jit(jax.grad(model.loss)).lower(model.PARAMETERS, model.TOKENS)
print(time.process_time() - start)
"""

FROM_ARTIFACT = """
import time, jax
start = time.process_time()
import jaxmlir
jaxmlir.load("{file}").grad().lower()
print(time.process_time() - start)
"""

OPEN = """
import time, jaxmlir
jaxmlir.load("model.jaxmlir")
start = time.perf_counter()
if {read}:
    with open("large.jaxmlir", "rb") as file:
        file.read()
else:
    jaxmlir.load("large.jaxmlir")
print(time.perf_counter() - start)
"""


def child(code: str, folder: str, rules: str = "") -> float:
    """The number that a fresh process prints last.

    Args:
      rules: the folder of its rule cache; by default it has none.
    """
    root = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={
            "PYTHONPATH": f"{root}:{folder}",
            "JAX_PLATFORMS": "cpu",
            "JAXMLIR_CACHE_DIR": rules,
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


def compare(codes: Sequence[str], folder: str, repetitions: int) -> list[float]:
    """The medians of several programs, which take turns."""
    times = [[child(code, folder) for code in codes] for _ in range(repetitions)]
    return list(map(statistics.median, zip(*times, strict=True)))


def start_and_size(folder: str, repetitions: int, layers: int) -> None:
    Path(folder, "model.py").write_text(SOURCE.format(layers=layers))
    bytecode = child(SAVE, folder)
    size = Path(folder, "model.jaxmlir").stat().st_size
    print(
        f"size   {layers} layers: artifact {size}, bytecode {bytecode:.0f}: {size / bytecode:.2f}"
    )
    names = ("artifact", "outlined")
    ours = [FROM_ARTIFACT.format(file=name) for name in ("model.jaxmlir", "outlined.jaxmlir")]
    kept = str(Path(folder, "rules"))
    for code in ours:
        child(code, folder, kept)
    times = []
    for _ in range(repetitions):
        times.append(
            [child(FROM_SOURCE, folder)]
            + [child(code, folder, rules) for code in ours for rules in ("", kept)]
        )
    source, *found = map(statistics.median, zip(*times, strict=True))
    for name, once, again in zip(names, found[::2], found[1::2], strict=True):
        print(
            f"start  {layers} layers: source {source:.2f} s, {name} {once:.2f} s: "
            f"{source / once:.1f} times, again {again:.2f} s: {source / again:.1f} times"
        )


def opening(folder: str, repetitions: int, gigabytes: float) -> None:
    import numpy as np

    import jaxmlir

    table = np.ones(int(gigabytes * 2**28), np.float32)
    started = time.perf_counter()
    jaxmlir.trace(lambda i: jax_take(table, i))(0).save(Path(folder, "large.jaxmlir"))
    print(f"save   {gigabytes:g} GB in {time.perf_counter() - started:.2f} s")
    codes = [OPEN.format(read=1), OPEN.format(read=0)]
    read, load = compare(codes, folder, repetitions)
    print(f"open   read {read:.3f} s, load {load:.3f} s: {load / read:.3f}")


def jax_take(table: object, index: object) -> object:
    import jax.numpy as jnp

    return jnp.take(table, index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--layers", type=int, nargs="+", default=[24])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for layers in arguments.layers:
            folder = str(Path(root, str(layers)))
            Path(folder).mkdir()
            start_and_size(folder, arguments.repetitions, layers)
        opening(folder, arguments.repetitions, arguments.gigabytes)


if __name__ == "__main__":
    main()
