"""Costs on a target: one table for each compiler, in a data file.

``tables/cpu.toml`` and its like say what was measured, when, and on which machine; ``python -m
benchmarks.calibrate`` measures again.  Passes read them as ``program.target.costs`` and weigh one
against another: a choice that names no number of its own moves with the table.
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
    """The costs that the hardware, the compiler and the runtime of a target charge.

    Times are nanoseconds of one thread of a host, or of a whole device.  A number that a table
    leaves out is that of the platform that it says it is like, or the CPU's.
    """

    launch: float
    """Starting the kernel of one more op."""
    unfused: float
    """Starting the kernel of a product or a reduction that is computed again."""
    product: float
    """Starting a product of small matrices that sums over rows, in a loop."""
    fork: float
    """Starting a kernel that all threads begin and await."""
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
    """Writing and reading a byte of a larger value, in memory that the runtime has kept."""
    stored_byte_mapped: float
    """Writing and reading a byte in memory that is mapped anew."""
    unknown_byte: float
    """A byte of the operands of an op without a formula: a factorization, a sort."""
    indexed_element: float
    """Reading or writing an element by itself, at a position that is computed."""
    stored_value: float
    """One value more, be it a scalar, that each iteration of a loop stores for another loop."""
    fused_value: float
    """One value more that is stored by the kernel that computes it element by element."""
    linked_value: float
    """A value that a loop stores already, by the kernel that computes it."""
    spread_value: float
    """Laying out a value for a loop that reads each of its elements for several others."""
    stacked_value: float
    """One value more, be it a scalar, that is put together with others into one array."""
    compiled_op: float
    """Compiling one more op."""
    cached: int
    """Bytes up to which caches hold a value."""
    kept_block: int
    """Bytes of a freed block up to which the runtime keeps it for the next call."""
    lanes: int
    """Elements of a row that are stored and computed together: shorter rows take as long."""
    sublanes: int
    """Rows that are stored and computed together: fewer take as long."""
    flops: float | None = None
    """Operations in a second, of products of matrices of 16-bit floats, by the data sheet."""
    bandwidth: float | None = None
    """Bytes in a second that the device's memory reads or writes, by the data sheet."""
    elements: tuple[tuple[str, float], ...] = ()
    """An element of ops that no other number here is for, by their primitives' names."""

    @property
    def mapped_byte(self) -> float:
        """What a byte of memory takes for being mapped anew, not kept."""
        return self.stored_byte_mapped - self.stored_byte_kept

    def stored(self, size: int) -> float:
        """Starting a kernel that reads a value of so many bytes, and writes it."""
        byte = self.stored_byte_cached if size <= self.cached else self.stored_byte_kept
        return self.launch + size * byte

    @property
    def waits_for_kernels(self) -> bool:
        """Whether starting kernels is what programs wait for: on devices, not on a host."""
        return self.unfused >= self.launch


class Machine(NamedTuple):
    """A kind of device: its caches in bytes, the nearest first, its memory, and its costs."""

    caches: tuple[int, ...]
    memory: int | None
    costs: Costs


@functools.cache
def machines(platform: str) -> dict[str, Machine]:
    """The kinds of devices of a platform, by name; the first is what the platform alone stands for.

    A platform without a table has the CPU's.
    """
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
    """What else compilers ask of the kinds of devices of a platform, by name."""
    return _table(platform).get("devices", {})


@functools.cache
def _table(platform: str) -> dict[str, Any]:
    # Most processes ask for no costs.
    import tomllib

    name = platform if platform in PLATFORMS else "cpu"
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
