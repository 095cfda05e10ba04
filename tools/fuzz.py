"""Fuzzes the readers: loads damaged and forged artifacts, or raises mutated StableHLO modules.

    python tools/fuzz.py [--count 20000] [--seed 0] [--stablehlo]

Artifacts are mutated in two ways, in turn.  *Damage* changes the bytes of the file: it flips bits,
cuts out, copies or overwrites pieces, or truncates the file.  The digests no longer hold, so every
damaged file must be refused.  A *forgery* changes the module's text, the metadata, or the header's
entries, and recomputes all digests, as an attacker would.  A forgery may happen to be a valid
program; if it is not, it must be refused too.  With ``--stablehlo`` the text of StableHLO modules
is mutated in the same ways, and portable artifacts and files of ``jax.export`` are damaged.

To refuse a file is to raise one of jaxmlir's own errors within a second.  Child processes load the
mutants in an empty directory.  A mutant that kills its process, takes longer, raises another error
or leaves a file behind is a failure; it is printed with the seed that reproduces it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import jaxmlir
from jaxmlir.artifact import container
from jaxmlir.dialect.ir import parse_module
from jaxmlir.errors import JaxmlirError

LIMIT_SECONDS = 1.0


def samples() -> list[bytes]:
    """Artifacts that together contain every kind of thing that an artifact can hold."""

    @jax.custom_jvp
    def soft(x):
        return jnp.log1p(jnp.exp(x))

    soft.defjvp(lambda p, t: (soft(*p), jax.nn.sigmoid(*p) * t[0]))
    table = np.linspace(0, 1, 1100, dtype=np.float32).reshape(11, 100)

    def body(carry, x):
        return soft(carry) + lax.cond(x > 0, jnp.sin, jnp.cos, x), {"y": x, "n": None}

    def model(params, key, xs):
        noise = jax.random.normal(key, xs.shape)
        carry, ys = lax.scan(body, params["w"].sum(), xs + noise)
        return carry * (table @ jnp.ones(100)), [ys, params["b"].astype("bfloat16") + 1]

    def kernel(by_ref, x_ref, out_ref, scratch):
        scratch[...] = jnp.sin(x_ref[...]) * by_ref[0]
        out_ref[...] = scratch[...] + pl.program_id(0)

    def blocks(by, x):
        rows = pl.BlockSpec((8, 128), lambda i, by: (by[i], 0), memory_space=pltpu.VMEM)
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[rows],
            out_specs=rows,
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        )
        cost = pl.CostEstimate(flops=9, bytes_accessed=4, transcendentals=1)
        return pl.pallas_call(kernel, x, grid_spec=grid, interpret=True, cost_estimate=cost)(by, x)

    params = {"w": jnp.ones((2, 3)), "b": jnp.arange(3.0)}
    b, c = jax.export.symbolic_shape("b, c", constraints=["c >= 2*b"])
    return [
        contents(jaxmlir.trace(model)(params, jax.random.key(0), jnp.ones(4))),
        contents(
            jaxmlir.trace(lambda x: (x @ x.T, x.reshape(-1)))(
                jax.ShapeDtypeStruct((b, c), np.float32)
            )
        ),
        contents(jaxmlir.trace(blocks)(jnp.arange(4), jnp.ones((32, 128)))),
        # Since JAX 0.12 the artifact also has the expansions of these primitives.
        contents(jaxmlir.trace(lambda x: jnp.ldexp(jnp.interp(x, x, x), 2))(jnp.arange(3.0))),
    ]


def contents(program: jaxmlir.Program) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "sample")
        program.save(path)
        return path.read_bytes()


def modules() -> list[bytes]:
    """StableHLO modules with many kinds of ops and types: in MLIR's generic form, as a portable
    artifact, and as files of ``jax.export``."""

    def calls(x):
        y = lax.scan(lambda c, row: (jnp.sin(c) * row, c.sum()), x[0], x)
        return y, lax.cond(x[0, 0] > 0, jnp.sort, lambda x: x[::-1], x), jax.nn.logsumexp(x)

    def arrays(x, i):
        window = lax.reduce_window(x, 0.0, lax.add, (2, 1), (1, 1), "SAME")
        kernel = lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 1), "SAME")
        taken = x.at[i].add(1.0)[i, 1:], jnp.pad(x, 1), jnp.argmax(x, 1), lax.top_k(x, 2)
        return window, kernel, taken, jnp.linalg.cholesky(x @ x.T), jnp.fft.rfft(x), lax.erf_inv(x)

    def sizes(x):
        y = lax.scan(lambda c, row: (jnp.sin(c) * row, c.sum()), x[0], x)
        return y, jnp.cumsum(x, 1), x[:, : (x.shape[1] - 1) // 2], jnp.take(x, x.shape[0] - 1)

    x, i = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4), np.arange(3)
    symbolic = jax.ShapeDtypeStruct(export.symbolic_shape("b, n"), np.float32)
    found = [jax.jit(f).lower(*args).compiler_ir() for f, args in ((calls, [x]), (arrays, [x, i]))]
    exported = [export.export(jax.jit(f))(arg) for f, arg in ((sizes, symbolic), (calls, x))]
    found.append(parse_module(exported[0].mlir_module()))
    texts = [module.operation.get_asm(print_generic_op_form=True).encode() for module in found]
    artifacts = [exported[1].mlir_module_serialized, *(bytes(e.serialize()) for e in exported)]
    # A process of its own reads each artifact, so most mutants are texts.
    return [*texts * 12, *artifacts]


# --- mutations --------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The file with some bytes changed; always different from the file."""
    found = data
    while found == data:
        found = rng.choice((flipped, cut_out, copied_over, truncated, inserted))(data, rng)
    return found


def flipped(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 8, 64))):
        out[_position(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(out)


def _position(data: bytes, rng: random.Random) -> int:
    """A random offset; half of the offsets are in the header, which is a small part of the file."""
    return rng.randrange(min(len(data), 1024) if rng.random() < 0.5 else len(data))


def cut_out(data: bytes, rng: random.Random) -> bytes:
    start = _position(data, rng)
    return data[:start] + data[start + rng.choice((1, 8, 100)) :]


def copied_over(data: bytes, rng: random.Random) -> bytes:
    source, target, n = rng.randrange(len(data)), _position(data, rng), rng.choice((1, 8, 64, 500))
    return data[:target] + data[source : source + n] + data[target + n :]


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def inserted(data: bytes, rng: random.Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 8, 64))) + data[at:]


def forged(data: bytes, rng: random.Random) -> bytes:
    """A file with changed contents whose digests all hold."""
    metadata, parts = container.unpack(memoryview(data))
    text = lzma.decompress(parts[container.MODULE].data)
    kind = rng.random()
    if kind < 0.85:
        for _ in range(rng.choice((1, 1, 2, 5))):
            text = rng.choice(TEXT_MUTATIONS)(text, rng)
        return sealed(metadata, parts, text)
    if kind < 0.95:
        changed = mutated_json(metadata, rng)
        return sealed(changed, parts, text) if isinstance(changed, dict) else resealed(data, rng)
    return resealed(data, rng)


def sealed(metadata: dict, parts: dict, text: bytes) -> bytes:
    """An artifact of these parts, with right digests wherever the metadata have a place for one."""
    packed = lzma.compress(text, preset=0)
    parts = {**parts, container.MODULE: container.StoredArray("U8", (len(packed),), packed)}
    metadata = json.loads(json.dumps(metadata))
    module = metadata.get("module")
    if isinstance(module, dict):
        if isinstance(module.get("bytes"), int):
            module["bytes"] = len(text)
        module["sha256"] = container.digest(packed)
    return b"".join(map(bytes, container.pack(metadata, parts)))


def resealed(data: bytes, rng: random.Random) -> bytes:
    """The file with one or two mutations of its header, whose digest is computed anew."""
    import hashlib

    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].rstrip(b" ")
    for _ in range(rng.choice((1, 2))):
        header = rng.choice(TEXT_MUTATIONS)(header, rng)
    header += b" " * (-(8 + len(header)) % 64)
    start = len(header).to_bytes(8, "little") + header
    return start + data[8 + length : -32] + hashlib.sha256(start).digest()


def mutated_json(value: object, rng: random.Random) -> object:
    """A JSON value with one key or value in it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        changed = {**value, key: mutated_json(value[key], rng)}
        if rng.random() < 0.2:
            changed[rng.choice(["..", "../../x", "", "a" * 1000, "c0"])] = changed.pop(key)
        return changed
    return rng.choice(
        [None, True, -1, 10**30, 1e308, "", "\0", "9" * 5000, "0.1.1.1", "99.0", [], {}, [[]] * 9]
    )


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|%[\w#:]+|@?[A-Za-z_][\w.]*|-?\d[\w.+-]*|.', re.DOTALL)
_ODD = [
    # numbers and shapes
    b"-1", b"0", b"0x7FF", b"1.0e400", b"9223372036854775807", b"99999999999999999999999999",
    b"4294967296x4294967296x", b"?x", b"array<i64: 1, 2>",
    b"dense<1.0> : tensor<99999999x99999999xf32>",
    b'{dim = "b*b"}', b'{shape = "b^999999"}', b'{shape = "' + b"(" * 3000 + b'"}',
    # types
    b"f32", b"i1", b"tensor<4xf32>", b"!jaxpr.token", b"!jaxpr.ref<tensor<4xf32>>",
    b'!jaxpr.key<"fry">',
    # parameters
    b"none", b"true", b"[]", b"{}", b'"*"', b'{int = "1"}', b"{complex = [1.0, 2.0]}",
    b'{set = [[]]}', b'{scalar_type = "x"}', b'{Device = "cpu:9999999"}', b'{handle = "h0"}',
    b'{PartitionSpec = [["x"]]}', b'{pytree = "*"}', b'{list = ["*"]}',
    b'{namedtuple = ["os:stat_result", []]}', b'{node = ["subprocess:Popen", none, []]}',
    # structure
    b'"jaxpr.ffi_call"', b'"jaxpr.iota"', b'"jaxpr.while"', b'"func.func"', b'"func.return"',
    b"@main", b"@body", b"%0", b"%arg0", b"loc(unknown)", b"#loc1",
    b"->", b"(", b")", b"{", b"}", b"<", b">", b'"', b"\n", b"[[[[]]]]", b"[" * 600,
]  # fmt: skip


def _tokens(text: bytes) -> list[bytes]:
    return _TOKEN.findall(text)


def replace_token(text: bytes, rng: random.Random) -> bytes:
    tokens = _tokens(text)
    tokens[rng.randrange(len(tokens))] = rng.choice(_ODD)
    return b"".join(tokens)


def swap_token(text: bytes, rng: random.Random) -> bytes:
    """Replaces one token by another one of the same kind."""
    tokens = _tokens(text)
    target = rng.randrange(len(tokens))
    kind = tokens[target][:1]
    tokens[target] = rng.choice([t for t in tokens if t[:1] == kind])
    return b"".join(tokens)


def delete_tokens(text: bytes, rng: random.Random) -> bytes:
    tokens = _tokens(text)
    at = rng.randrange(len(tokens))
    del tokens[at : at + rng.choice((1, 1, 3, 20))]
    return b"".join(tokens)


def swap_ops(text: bytes, rng: random.Random) -> bytes:
    """Replaces the name of an op, once or everywhere, by that of any known op."""
    from jaxmlir.dialect import ops
    from jaxmlir.raising.raising import RaiseStablehlo  # noqa: F401 (has the rules imported)
    from jaxmlir.raising.writer import RULES

    names = re.findall(rb'"(?:jaxpr|stablehlo)\.\w+"\(', text)
    known = [*RULES] if b'"stablehlo.' in text else [f"jaxpr.{name}" for name in ops.OPS]
    new = b'"%s"(' % rng.choice(known).encode()
    return text.replace(rng.choice(names), new, rng.choice((1, -1))) if names else text


def move_line(text: bytes, rng: random.Random) -> bytes:
    lines = text.split(b"\n")
    line = lines.pop(rng.randrange(len(lines))) if rng.random() < 0.5 else rng.choice(lines)
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def flip_text(text: bytes, rng: random.Random) -> bytes:
    out = bytearray(text)
    out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


TEXT_MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    replace_token,
    swap_token,
    delete_tokens,
    swap_ops,
    move_line,
    flip_text,
)


def mutant(
    originals: Sequence[bytes], seed: int, index: int
) -> tuple[bytes, Callable[[str], jaxmlir.Program], bool]:
    """Mutant ``index`` of a run, what loads its file, and whether it is certainly not valid."""
    rng = random.Random(f"{seed}-{index}")
    data = rng.choice(originals)
    if data.isascii():
        for _ in range(rng.choice((1, 1, 2, 5))):
            data = rng.choice(TEXT_MUTATIONS)(data, rng)
        return data, raise_text, False
    if data.startswith(b"ML\xefR"):
        return damaged(data, rng), raise_artifact, False
    if data[8:9] != b"{":
        return damaged(data, rng), raise_exported, False
    return (damaged if index % 2 else forged)(data, rng), jaxmlir.load, bool(index % 2)


# --- loading ----------------------------------------------------------------------------------


def attempt(path: str, must_fail: bool, load: Callable[[str], jaxmlir.Program]) -> str:
    """Loads and prints a file; returns what went wrong, or an empty string."""
    started = time.thread_time()
    try:
        program = load(path)
        if must_fail:
            return "a damaged file was loaded"
        str(program), repr(program)
    except JaxmlirError:
        pass
    except BaseException as e:
        return f"{type(e).__name__}: {e}"
    taken = time.thread_time() - started
    return f"took {taken:.1f} s" if taken > LIMIT_SECONDS else ""


def raise_text(path: str) -> jaxmlir.Program:
    """The program that a StableHLO text is raised to."""
    return jaxmlir.from_stablehlo(Path(path).read_text(errors="replace"))


def raise_artifact(path: str) -> jaxmlir.Program:
    """The program that a portable artifact of StableHLO is raised to."""
    return jaxmlir.from_stablehlo(Path(path).read_bytes())


def raise_exported(path: str) -> jaxmlir.Program:
    """The program that a file of ``jax.export`` is raised to."""
    return jaxmlir.from_exported(Path(path).read_bytes())


def run(originals: Sequence[bytes], indices: range, seed: int) -> list[str]:
    """Loads mutants in child processes and returns the failures."""
    failures: list[str] = []
    position = indices.start
    with tempfile.TemporaryDirectory() as directory:
        for i, data in enumerate(originals):
            Path(directory, f"original{i}").write_bytes(data)
        while position < indices.stop:
            rest = range(position, indices.stop)
            position = _run_child(directory, rest, seed, failures)
    return failures


def _run_child(directory: str, indices: range, seed: int, failures: list[str]) -> int:
    """Runs a child until it is done or dies; returns the index to continue with."""
    numbers = [f"--start={indices.start}", f"--count={len(indices)}", f"--seed={seed}"]
    command = [sys.executable, __file__, f"--originals={directory}", *numbers]
    reached = indices.start
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            index, _, failure = line.rstrip("\n").partition(" ")
            reached = int(index)
            if failure:
                failures.append(f"seed {seed}, mutant {index}: {failure}")
    if child.returncode == 0:
        return indices.stop
    how = f"the process ended with status {child.returncode}"
    failures.append(f"seed {seed}, mutant {reached}: {how}")
    return reached + 1


def _in_child(directory: str, indices: range, seed: int) -> None:
    originals = [path.read_bytes() for path in sorted(Path(directory).glob("original*"))]
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        for index in indices:
            print(index, flush=True)
            data, load, must_fail = mutant(originals, seed, index)
            Path("mutant").write_bytes(data)
            signal.setitimer(signal.ITIMER_REAL, 120)
            failure = attempt("mutant", must_fail, load)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if os.listdir() != ["mutant"] or Path("mutant").read_bytes() != data:
                failure = f"{failure}; it wrote {os.listdir()}"
            if failure:
                print(index, " ".join(failure.split()), flush=True)
        os.chdir("/")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--stablehlo", action="store_true", help="mutate texts of StableHLO, not artifacts"
    )
    parser.add_argument("--originals", help="run as a child: mutate the files in this folder")
    arguments = parser.parse_args()
    indices = range(arguments.start, arguments.start + arguments.count)
    if arguments.originals:
        _in_child(arguments.originals, indices, arguments.seed)
        return 0
    started = time.monotonic()
    originals = modules() if arguments.stablehlo else samples()
    failures = run(originals, indices, arguments.seed)
    print("\n".join(failures))
    seconds = time.monotonic() - started
    print(f"{len(indices)} mutants in {seconds:.0f} s: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
