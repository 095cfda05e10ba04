"""Targets: what passes need to know of the compiler and the devices that a program is for.

A target is made where JAX lowers a program, or given by name: ``"tpu"``, ``"cuda:h100"``, or with a
topology ``"tpu:v5e:2x2"``.  Passes read it from ``program.target``.  No pass asks JAX which backend
is present.
"""

from __future__ import annotations

import functools
import math
import os
import re
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jaxmlir import _compat
from jaxmlir._compat import jax_version
from jaxmlir.errors import ArgumentError, nearest
from jaxmlir.targets.costs import PLATFORMS, Costs, Machine, machines


@dataclass(frozen=True)
class Target:
    """The compiler that a program is for, the kind of device, and the number of devices.

    Attributes:
      platform: JAX's name of the compiler: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``.
      kind: the kind of device, such as ``"h100"``; empty if only the platform is known.
      compiler: the version of JAX whose XLA compiles.
      threads: how many host threads run one program; 1 on accelerators.
      devices: the number of devices that the program runs on.
      measured: a machine to use instead of the one in the table.
      topology: the arrangement of the devices, such as (2, 2); empty if not given.
    """

    platform: str
    kind: str
    compiler: tuple[int, ...]
    threads: int
    devices: int = 1
    measured: Machine | None = None
    topology: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The name, in the form that :func:`target` accepts."""
        placed = "x".join(map(str, self.topology)) or str(self.devices)
        return ":".join(filter(None, (self.platform, self.kind, "" if placed == "1" else placed)))

    def on(self, devices: int) -> Target:
        """The target with another number of devices."""
        return self if devices == self.devices else replace(self, devices=devices, topology=())

    @property
    def machine(self) -> Machine:
        """The kind of device from the platform's table; the first one for an unknown kind."""
        kinds = machines(self.platform)
        return self.measured or kinds.get(self.kind) or next(iter(kinds.values()))

    @property
    def caches(self) -> tuple[int, ...]:
        """Bytes of the caches of a device, the nearest first."""
        return self.machine.caches

    @property
    def memory(self) -> int | None:
        """Bytes of the memory of a device; ``None`` if it is the host's memory."""
        return self.machine.memory

    @property
    def costs(self) -> Costs:
        """The costs that the hardware, the compiler and the runtime charge."""
        return self.machine.costs

    @property
    def is_cpu(self) -> bool:
        """Whether XLA's CPU compiler compiles the program."""
        return self.platform == "cpu"


# How many devices, or how many along each dimension.
_TOPOLOGY = r"[1-9]\d*(x[1-9]\d*)*"


def target(name: str | Target) -> Target:
    """The target with a name ``platform[:kind][:topology]``, such as ``"cpu"``, ``"cpu:8"`` or
    ``"tpu:v5e:2x2"``.

    Raises:
      ArgumentError: there is no such target; suggests the nearest name.
    """
    if isinstance(name, Target):
        return name
    if not isinstance(name, str):
        raise ArgumentError(
            f"target: expected a name such as 'cuda:h100', got {reprlib.repr(name)}"
        )
    return _named(name)


@functools.cache
def _named(name: str) -> Target:
    platform, _, rest = name.partition(":")
    if platform == "gpu":
        raise ArgumentError(f"target {name!r}: 'gpu' stands for 'cuda' or 'rocm': name one")
    kind, _, topology = rest.partition(":")
    if not topology and re.fullmatch(_TOPOLOGY, kind):
        kind, topology = "", kind
    if platform not in PLATFORMS:
        raise _unknown(name, PLATFORMS, platform)
    kinds = machines(platform)
    if kind and kind not in kinds:
        choices = [f"{platform}:{k}" for k in kinds if k]
        raise _unknown(name, choices or PLATFORMS, f"{platform}:{kind}")
    if topology and not re.fullmatch(_TOPOLOGY, topology):
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
    # Imported here: a target that is given by name does not need JAX.
    import jax

    device = jax.config.jax_default_device
    if device is None or isinstance(device, str):
        device = jax.local_devices(backend=device)[0]
    platform = _compat.xla_bridge.canonicalize_platform(device.platform)
    return _of_machine(platform, _kind(platform, device.device_kind))


def is_here(target: Target) -> bool:
    """Whether JAX's default device is of the target's platform."""
    return target.platform == default_target().platform


def target_on(platform: str, devices: int = 1) -> Target:
    """The target of a program that JAX lowers for a platform and a number of devices; of the local
    kind of device, if that is of the platform."""
    here = default_target()
    base = here if here.platform == platform else _of_machine(platform, "")
    return base.on(devices)


@functools.cache
def _kind(platform: str, device_kind: str) -> str:
    """The kind of a device from its PJRT name; empty if it is unknown."""
    if platform == "cpu":
        return ""
    words = re.sub(r"\bv(\d) lite\b", r"v\1e", device_kind.lower())
    words = re.sub(r"\btpu v5$", "tpu v5p", words)
    kinds = [kind for kind in machines(platform) if kind in re.split(r"\W+", words)]
    return kinds[0] if kinds else ""
