"""What is known of the machines that targets are named after.

Numbers of the vendors' data sheets, of one device.  Of CPUs there is what passes have measured.
"""

from __future__ import annotations

from typing import NamedTuple

_MiB, _GiB = 1 << 20, 1 << 30


class Costs(NamedTuple):
    """What the hardware and the runtime of a target charge for."""

    flops: float | None = None
    """Operations in a second, of products of matrices of 16-bit floats."""
    bandwidth: float | None = None
    """Bytes of its memory that it reads or writes in a second."""
    launch: float = 0.0
    """Seconds for starting one kernel."""
    kept_block: int | None = None
    """Bytes of a freed block up to which it is kept for the next call; ``None``: of any."""


class Machine(NamedTuple):
    """A kind of device."""

    caches: tuple[int, ...]
    memory: int | None
    costs: Costs


# Of each core, a cache; of the C library, that it keeps a freed block up to 32 MiB.
CPU = Machine((2 * _MiB,), None, Costs(kept_block=32 * _MiB))

_LAUNCH = 2e-6


def _gpu(cache: int, memory: int, flops: float, bandwidth: float) -> Machine:
    return Machine((cache * _MiB,), memory * _GiB, Costs(flops, bandwidth, _LAUNCH))


def _tpu(memory: int, flops: float, bandwidth: float, vmem: int = 128) -> Machine:
    return Machine((vmem * _MiB,), memory * _GiB, Costs(flops, bandwidth))


# By platform, the machines by name; the first is what the platform alone stands for.
MACHINES: dict[str, dict[str, Machine]] = {
    "cpu": {"": CPU},
    "cuda": {
        "h100": _gpu(50, 80, 989e12, 3.35e12),
        "h200": _gpu(50, 141, 989e12, 4.8e12),
        "a100": _gpu(40, 80, 312e12, 2.04e12),
        "l4": _gpu(48, 24, 121e12, 0.3e12),
        "v100": _gpu(6, 32, 125e12, 0.9e12),
    },
    "rocm": {
        "mi300x": _gpu(256, 192, 1307e12, 5.3e12),
    },
    "tpu": {
        "v5e": _tpu(16, 197e12, 0.82e12),
        "v4": _tpu(32, 275e12, 1.2e12, vmem=32),
        "v5p": _tpu(95, 459e12, 2.77e12),
        "v6e": _tpu(32, 918e12, 1.64e12),
    },
}
