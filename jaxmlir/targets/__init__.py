"""Targets: what a program will be compiled for, as far as passes ask.

A target is made where JAX lowers a program, or given by name: ``"tpu"``, ``"cuda:h100"``, or with a
topology ``"tpu:v5e:2x2"``.  Passes get it from the pass manager, as ``program.target``.  None asks
JAX which backend is there.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jaxmlir import _compat
from jaxmlir._compat import jax_version
from jaxmlir.errors import ArgumentError, nearest
from jaxmlir.targets.costs import PLATFORMS, Costs, Machine, machines


@dataclass(frozen=True)
class Target:
    """The compiler that a program is for, a kind of device, and how many of them.

    Attributes:
      platform: JAX's name of the compiler: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``.
      kind: the kind of device, such as ``"h100"``; empty where the platform is all that is known.
      compiler: the version of JAX whose XLA compiles.
      threads: how many threads of the host run one program; 1 on devices of their own.
      devices: on how many devices the program runs.
      measured: a machine other than the one of the table.
      topology: how the devices are placed, as 2 by 2; empty where that was not said.
    """

    platform: str
    kind: str
    compiler: tuple[int, ...]
    threads: int
    devices: int = 1
    measured: Machine | None = None
    topology: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The name, as it can be given."""
        name = f"{self.platform}:{self.kind}" if self.kind else self.platform
        placed = "x".join(map(str, self.topology)) or str(self.devices)
        return name if placed == "1" else f"{name}:{placed}"

    def on(self, devices: int) -> Target:
        """The target on another number of devices."""
        return self if devices == self.devices else replace(self, devices=devices, topology=())

    @property
    def machine(self) -> Machine:
        """The kind of device, from the table of the platform: of an unknown kind, the first."""
        kinds = machines(self.platform)
        return self.measured or kinds.get(self.kind) or next(iter(kinds.values()))

    @property
    def caches(self) -> tuple[int, ...]:
        """Bytes of the caches of a device, the nearest first."""
        return self.machine.caches

    @property
    def memory(self) -> int | None:
        """Bytes of the memory of a device; ``None`` where that is the host's."""
        return self.machine.memory

    @property
    def costs(self) -> Costs:
        """The costs that the hardware, the compiler and the runtime charge."""
        return self.machine.costs

    @property
    def is_cpu(self) -> bool:
        """Whether XLA's CPU compiler is what compiles."""
        return self.platform == "cpu"


def target(name: str | Target) -> Target:
    """The target of a name: ``platform[:kind[:topology]]``, as ``"cpu"`` or ``"tpu:v5e:2x2"``.

    Raises:
      ArgumentError: there is none of that name; suggests the nearest.
    """
    if isinstance(name, Target):
        return name
    if not isinstance(name, str):
        raise ArgumentError(f"target: expected a name such as 'cuda:h100', got {name!r}")
    return _named(name)


@functools.cache
def _named(name: str) -> Target:
    platform, _, rest = name.partition(":")
    if platform == "gpu":
        raise ArgumentError(f"target {name!r}: 'gpu' stands for 'cuda' or 'rocm': name one")
    kind, _, topology = rest.partition(":")
    if platform not in PLATFORMS:
        raise _unknown(name, PLATFORMS, platform)
    kinds = machines(platform)
    if kind and kind not in kinds:
        choices = [f"{platform}:{k}" for k in kinds if k]
        raise _unknown(name, choices or PLATFORMS, f"{platform}:{kind}")
    if topology and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", topology):
        raise ArgumentError(
            f"target {name!r}: expected a topology such as 2x2 or a number of devices, "
            f"got {topology!r}"
        )
    shape = tuple(map(int, topology.split("x"))) if topology else ()
    placed = shape if len(shape) > 1 else ()
    return replace(_of_machine(platform, kind), devices=math.prod(shape), topology=placed)


def _unknown(name: str, known: Iterable[str], meant: str) -> ArgumentError:
    known = list(known)
    guess = nearest(meant, known)
    hint = f"did you mean {guess!r}? " if guess else ""
    return ArgumentError(f"there is no target {name!r}; {hint}known are {', '.join(known)}")


def target_names() -> Iterator[str]:
    """The names of all targets, without topologies."""
    for platform in PLATFORMS:
        yield platform
        yield from (f"{platform}:{kind}" for kind in machines(platform) if kind)


@functools.cache
def _of_machine(platform: str, kind: str) -> Target:
    """The target of a kind of device."""
    threads = (os.cpu_count() or 1) if platform == "cpu" else 1
    return Target(platform, kind, jax_version(), threads)


def default_target() -> Target:
    """The target of a program for which none was named: JAX's default device."""
    # Naming a target takes no JAX.
    import jax

    device = jax.config.jax_default_device
    if device is None or isinstance(device, str):
        device = jax.local_devices(backend=device)[0]
    platform = _compat.xla_bridge.canonicalize_platform(device.platform)
    return _of_machine(platform, _kind(platform, device.device_kind))


def is_here(target: Target) -> bool:
    """Whether JAX's default device is what compiles for a target."""
    return target.platform == default_target().platform


def target_on(platform: str, devices: int = 1) -> Target:
    """The target of a program that JAX lowers for a platform: of the devices here, if it is theirs.

    Args:
      devices: on how many it runs.
    """
    here = default_target()
    base = here if here.platform == platform else _of_machine(platform, "")
    return base.on(devices)


@functools.cache
def _kind(platform: str, device_kind: str) -> str:
    """The kind of a device from what PJRT calls it; empty where it is none that is known."""
    if platform == "cpu":
        return ""
    words = re.sub(r"\bv(\d) lite\b", r"v\1e", device_kind.lower())
    words = re.sub(r"\btpu v5$", "tpu v5p", words)
    kinds = [kind for kind in machines(platform) if kind and kind in words]
    return kinds[0] if kinds else ""
