"""Measures the costs of ops on this machine, and writes the cost table that passes read.

    python -m benchmarks.calibrate                     prints the table, beside the one in the tree
    python -m benchmarks.calibrate --write             writes it: jaxmlir/targets/tables/cpu.toml
    python -m benchmarks.calibrate --target tpu:v5e    prints what its compiler estimates

Each number is a slope: the difference in CPU time of two programs, compiled by XLA, that differ
only in how many they have of one thing.  The fastest of several runs counts, because other
processes disturb it least; still, run none meanwhile.  It takes a minute.

Numbers that are no times (the size from which the C library maps a block anew, say), and costs of
ops that are not elementwise, are kept from the table in the tree.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxmlir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.targets import Target, target
from jaxmlir.targets.costs import TABLES

REPEATS = 15
MIB = 1 << 20


Clock = Callable[[], float]


@dataclass(frozen=True)
class Meter:
    """Takes the times of programs: measured here, or estimated by the compiler of a target."""

    target: Target | None = None

    def seconds(
        self, function: Callable[..., Any], *args: Any, clock: Clock = time.process_time
    ) -> float:
        """The seconds of the fastest of several runs of a compiled function."""
        if self.target is not None:
            return 1e-9 * jaxmlir.aot(jax.jit(function), self.target, *args).estimate.nanoseconds
        compiled = jax.jit(function).lower(*args).compile()
        jax.block_until_ready(compiled(*args))
        found = []
        for _ in range(REPEATS):
            start = clock()
            jax.block_until_ready(compiled(*args))
            found.append(clock() - start)
        return min(found)

    def slope(
        self,
        make: Callable[[int], Callable[..., Any]],
        few: int,
        many: int,
        *args: Any,
        clock: Clock = time.process_time,
    ) -> float:
        """Nanoseconds for each additional step.

        Args:
          make: makes the function with a given number of steps.
        """
        times = [self.seconds(make(count), *args, clock=clock) for count in (few, many)]
        return max(0.0, 1e9 * (times[1] - times[0]) / (many - few))

    def storing(self, rows: Any) -> float:
        """Nanoseconds for each byte that one loop stores and another one reads."""

        def at_once(rows: Any) -> Any:
            return lax.scan(lambda total, row: (total + jnp.sum(row * row), None), 0.0, rows)[0]

        def one_by_one(rows: Any) -> Any:
            _, squares = lax.scan(lambda _, row: (0.0, row * row), 0.0, rows)
            return lax.scan(lambda total, row: (total + jnp.sum(row), None), 0.0, squares)[0]

        longer = self.seconds(one_by_one, rows) - self.seconds(at_once, rows)
        return max(0.0, 1e9 * longer / rows.nbytes)

    def compiling(self, count: int) -> float:
        """Nanoseconds of CPU time that XLA takes to compile a chain of ``count`` muls and adds."""
        found = []
        for _ in range(3):
            jax.clear_caches()
            function = jax.jit(chain(lambda x: x * x + 0.5)(count // 2))
            start = time.process_time()
            jaxmlir.aot(function, self.target or "cpu", jnp.ones(MIB // 16))
            found.append(time.process_time() - start)
        return 1e9 * min(found)


def chain(step: Callable[..., Any]) -> Callable[[int], Callable[..., Any]]:
    """Makes functions of a number of steps in a row; all get the same further arguments."""

    def make(count: int) -> Callable[..., Any]:
        def function(x: Any, *others: Any) -> Any:
            for _ in range(count):
                x = step(x, *others)
            return x

        return function

    return make


def in_turn(count: int) -> Callable[..., Any]:
    """``count`` multi-threaded kernels on an array, in a loop that keeps XLA from fusing them."""
    return lambda x: lax.fori_loop(0, count, lambda _, y: y * y + 0.5, x)


def kept_call(x: Any) -> Any:
    """A call that XLA does not inline."""
    from jax.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(inlineable="false"):
        return jax.jit(lambda y: jnp.sin(y) + 1)(x)


def measured(meter: Meter) -> Iterator[tuple[str, float]]:
    """Yields the costs by name, in nanoseconds."""
    rng = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return jnp.asarray(rng.random(shape, np.float32))

    def step(function: Callable[..., Any], few: int, many: int, *args: Any) -> float:
        return meter.slope(chain(function), few, many, *args)

    cached, vector, shared = array(MIB // 16), array(2048), array(1 << 16)
    tiny, small, large, matrix = (array(n, n) for n in (4, 16, 1024, 2048))
    places = jnp.asarray(rng.permutation(cached.size)[: 1 << 14])
    flop = step(lambda x: x * x + 0.5, 8, 40, cached) / 2 / cached.size
    yield "launch", step(lambda x, w: x @ w, 8, 72, tiny, tiny)
    if meter.target is None:
        wall = meter.slope(in_turn, 8, 72, shared, clock=time.perf_counter)
        yield "fork", max(0.0, wall - 2 * flop * shared.size / (os.cpu_count() or 1))
        yield "call", step(kept_call, 4, 132, tiny)
    yield "iteration", meter.slope(counting, 100, 10_100, 0.0)
    yield "flop", flop
    yield "transcendental", step(lambda x: jnp.exp(-x), 2, 10, cached) / cached.size
    yield "dot_flop", step(lambda x, w: (x @ w) * 1e-3, 1, 5, large, large) / 2 / 1024**3
    yield "small_dot_flop", step(lambda x, w: (x @ w) * 0.1, 16, 80, small, small) / 2 / 16**3
    yield "read_byte", step(lambda x, w: (w @ x) * 1e-3, 2, 10, vector, matrix) / matrix.nbytes
    yield "stored_byte_cached", meter.storing(array(64, 4096))
    yield "stored_byte_kept", meter.storing(array(64, MIB // 10))
    yield "stored_byte_mapped", meter.storing(array(64, MIB // 3))
    matrices = array(9, 64, 64)
    yield "unknown_byte", meter.slope(factorized, 1, 9, matrices) / matrices[0].nbytes
    indexed = step(lambda x, i: x.at[i].add(x[i]), 2, 10, cached, places)
    yield "indexed_element", indexed / (2 * places.size)
    yield "stored_value", meter.slope(stored_values, 1, 33, shared) / shared.size
    yield "stacked_value", meter.slope(stacked, 4, 28, array(16, 256))
    yield "compiled_op", (meter.compiling(80) - meter.compiling(16)) / 64


def counting(count: int) -> Callable[[Any], Any]:
    """A loop that does next to nothing."""
    return lambda x: lax.fori_loop(0, count, lambda _, y: y + 1, x)


# Ops that are not unary elementwise ops, as steps of a chain on a vector.
STEPS: dict[str, Callable[[Any], Any]] = {
    "pow": lambda x: x**x,
    "atan2": lambda x: jnp.arctan2(x, x + 0.5),
    "gather": lambda x: x.reshape(-1, 256)[::-1][jnp.arange(x.size // 256) * 3 % 251].ravel(),
    "concatenate": lambda x: jnp.concatenate([x[x.size // 2 :] * 2, x[: x.size // 2] + 1]),
    "stack": lambda x: jnp.stack([x[x.size // 2 :] * 2, x[: x.size // 2] + 1]).ravel(),
    "cumsum": lax.cumsum,
    "cumprod": lax.cumprod,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "argmax": lambda x: x * lax.argmax(x, 0, np.int32),
    "argmin": lambda x: x * lax.argmin(x, 0, np.int32),
    "sort": lambda x: lax.sort(x) * jnp.arange(x.size) % 3,
}


def of_elements(meter: Meter, names: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yields the costs of ops per element, in nanoseconds, by name."""
    x = jnp.asarray(np.random.default_rng(0).random(MIB // 16, np.float32))
    functions = dict(STEPS) if meter.target else {}
    for name in names:
        function = getattr(lax, name, None)
        if function is not None and _is_elementwise(function, x):
            functions[name] = lambda x, f=function: jnp.clip(f(x), 0.25, 0.75)
    for name, function in functions.items():
        yield name, meter.slope(chain(function), 2, 10, x) / x.size


def _is_elementwise(function: Callable[..., Any], x: Any) -> bool:
    try:
        jaxpr = jax.make_jaxpr(function)(x)
    except TypeError:
        return False
    return f"jaxpr.{jaxpr.eqns[0].primitive.name}" in with_trait(Trait.TRANSCENDENTAL)


def stored_values(count: int) -> Callable[..., Any]:
    """Two loops: the first stores ``count`` numbers in each iteration, the second reads them."""

    def function(xs: Any) -> Any:
        def forward(total: Any, x: Any) -> Any:
            return total + x, tuple(total * float(i) for i in range(count))

        def backward(total: Any, ys: Any) -> Any:
            return total * 0.5 + sum(ys), None

        total, stored = lax.scan(forward, 0.0, xs)
        return lax.scan(backward, total, stored, reverse=True)[0]

    return function


def stacked(count: int) -> Callable[[Any], Any]:
    """A stack of ``count`` exponentials."""
    return lambda x: jnp.stack([jnp.exp(x - float(i)) for i in range(count)])


def factorized(count: int) -> Callable[..., Any]:
    """The LU decompositions of ``count`` matrices."""
    return lambda x: lax.linalg.lu(x[:count])


def caches() -> list[int]:
    """The sizes in bytes of one core's caches, nearest first, without instruction caches."""
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            found.append(int((index / "size").read_text().strip().removesuffix("K")) << 10)
    return found


def table(costs: dict[str, float], elements: dict[str, float], before: dict[str, Any]) -> str:
    """The table as text.

    Args:
      elements: the measured costs per element; other ops keep their costs from the tree.
      before: the table in the tree.
    """
    nearest = caches()[1:2] or before["machines"][""]["caches"]
    lines = [
        "# Costs of programs that XLA compiles for a CPU.  "
        "jaxmlir.targets.costs.Costs describes the entries.",
        "# `python -m benchmarks.calibrate --write` measured them, and wrote this file.",
        "",
        "[measured]",
        f'date = "{datetime.date.today()}"',
        f'machine = "{platform.machine()}, {os.cpu_count()} cores, caches of {caches()} bytes"',
        f'jax = ["{jax.__version__}"]',
        'how = "by benchmarks.calibrate: slopes of the time of programs that differ in one thing"',
        "",
        "# Nanoseconds; of an element, a flop or a byte where the name says so.",
        "[costs]",
        *(f"{name} = {float(f'{value:.2g}')}" for name, value in costs.items()),
        "",
        "# Bytes.",
        "[sizes]",
        *(f"{name} = {value}" for name, value in before["sizes"].items()),
        "",
        "# Nanoseconds of one element of an op.",
        "[elements]",
        *(
            f"{name} = {float(f'{value:.2g}')}"
            for name, value in (before["elements"] | elements).items()
        ),
        "",
        '[machines.""]',
        f"caches = {nearest}",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--write",
        metavar="FILE",
        nargs="?",
        type=Path,
        const=TABLES / "cpu.toml",
        help="write the table",
    )
    parser.add_argument("--target", metavar="NAME", type=target, help="default: this machine")
    options = parser.parse_args(argv)
    meter = Meter(options.target)
    before = tomllib.loads((TABLES / "cpu.toml").read_text(encoding="utf-8"))
    in_tree = (meter.target or target("cpu")).costs
    known = in_tree._asdict() | dict(in_tree.elements)
    costs: dict[str, float] = {}
    elements: dict[str, float] = {}
    of_steps = of_elements(meter, before["elements"])
    for found, rows in ((costs, measured(meter)), (elements, of_steps)):
        for name, value in rows:
            found[name] = value
            print(f"{name:20} {value:12.4g} ns   {known[name]:12.4g} in the tree", flush=True)
    if meter.target is not None:
        return 0
    text = table(before["costs"] | costs, elements, before)
    if options.write is None:
        print(f"\n{text}", end="")
    else:
        options.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
