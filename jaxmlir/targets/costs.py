"""Costs on a target: one table for each compiler, in a data file.

``tables/cpu.toml`` and the other tables say what was measured, when, and on which machine; ``python
-m benchmarks.calibrate`` measures again.  Passes read the costs from ``program.target.costs`` and
compare them with each other.  A decision without numbers of its own changes with the table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""The platforms that have a table."""
TABLES = Path(__file__).parent / "tables"
"""The folder of the tables."""


class Costs(NamedTuple):
    """The costs that the hardware, the compiler and the runtime of a target charge.  Times are
    nanoseconds of one thread of a host, or of a whole device.  A number that is missing from a
    table is that of the platform that the table is ``like``, or else the CPU's."""

    launch: float
    """Starting the kernel of one more op."""
    unfused: float
    """Starting the kernel of a product or a reduction that is recomputed."""
    product: float
    """Starting a product of small matrices that sums over rows, in a loop."""
    fork: float
    """Starting a kernel that runs on all threads, and waiting for them."""
    call: float
    """A call that the compiler does not inline."""
    iteration: float
    """One more iteration of a loop, besides its ops."""
    flop: float
    """An arithmetic operation on an element, fused with others."""
    transcendental: float
    """An exponential, a logarithm or a sine of an element."""
    dot_flop: float
    """A floating-point operation of a product of large matrices."""
    small_dot_flop: float
    """A floating-point operation of a product of matrices of less than 32 rows."""
    read_byte: float
    """A byte that a product of a matrix and a vector reads."""
    stored_byte_cached: float
    """Writing and reading a byte of a value that caches hold."""
    stored_byte_kept: float
    """Writing and reading a byte of a larger value, in memory that the runtime reuses."""
    stored_byte_mapped: float
    """Writing and reading a byte in newly mapped memory."""
    unknown_byte: float
    """A byte of the operands of an op without a formula: a factorization, a sort."""
    indexed_element: float
    """Reading or writing a single element at a computed position."""
    stored_value: float
    """One more value, even a scalar, that each iteration of a loop stores for another loop."""
    fused_value: float
    """One more value that the elementwise kernel that computes it stores."""
    linked_value: float
    """Still storing a value that a loop already stores, in the kernel that computes it."""
    spread_value: float
    """Broadcasting a value in memory for a loop that reads each element for several others."""
    stacked_value: float
    """One more value, even a scalar, that is stacked with others into one array."""
    compiled_op: float
    """Compiling one more op."""
    cached: int
    """The largest value, in bytes, that caches hold."""
    kept_block: int
    """The largest freed block, in bytes, that the runtime keeps for the next call."""
    lanes: int
    """The elements of a row that are stored and computed together; shorter rows take as long."""
    sublanes: int
    """The rows that are stored and computed together; fewer rows take as long."""
    flops: float | None = None
    """Operations per second in products of matrices of 16-bit floats, by the data sheet."""
    bandwidth: float | None = None
    """Bytes per second that the device's memory reads or writes, by the data sheet."""
    elements: tuple[tuple[str, float], ...] = ()
    """The cost per element of ops without another number here, by the primitive's name."""

    @property
    def mapped_byte(self) -> float:
        """The additional cost of a byte of newly mapped memory over reused memory."""
        return self.stored_byte_mapped - self.stored_byte_kept

    def stored(self, size: int) -> float:
        """Starting a kernel that reads and writes a value of ``size`` bytes."""
        byte = self.stored_byte_cached if size <= self.cached else self.stored_byte_kept
        return self.launch + size * byte

    @property
    def waits_for_kernels(self) -> bool:
        """Whether programs wait for kernels to start, as on accelerators, unlike on a host."""
        return self.unfused >= self.launch


class Machine(NamedTuple):
    """A kind of device: its caches in bytes, the nearest first, its memory, and its costs."""

    caches: tuple[int, ...]
    memory: int | None
    costs: Costs


@functools.cache
def machines(platform: str) -> dict[str, Machine]:
    """The kinds of devices of a platform by name; the first is the default of the platform.  A
    platform without a table uses the CPU's."""
    table = _table(platform)
    return {name: _machine(table, of_one) for name, of_one in table["machines"].items()}


def _machine(table: Mapping[str, Any], of_one: Mapping[str, Any]) -> Machine:
    fields = dict(of_one)
    caches, memory = tuple(fields.pop("caches")), fields.pop("memory", None)
    costs: dict[str, Any] = {}
    elements: dict[str, float] = {}
    for layer in (_table("cpu"), _table(table.get("like", "cpu")), table):
        costs |= layer.get("costs", {}) | layer.get("sizes", {})
        elements |= layer.get("elements", {})
    return Machine(caches, memory, Costs(**costs | fields, elements=(*elements.items(),)))


def described_devices(platform: str) -> dict[str, dict[str, Any]]:
    """By kind of device, further properties that the compilers of a platform need."""
    return _table(platform).get("devices", {})


@functools.cache
def _table(platform: str) -> dict[str, Any]:
    # Imported here: most processes need no costs.
    import tomllib

    name = platform if platform in PLATFORMS else "cpu"
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
