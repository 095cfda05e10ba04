"""The real compilers of targets, on a machine without such a device.

XLA's compilers for TPU and GPU are in separate packages, and compile for devices that are only
described: a TPU by its name and topology, a GPU by its multiprocessors and memory.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxmlir.errors import ArgumentError, CompilerError
from jaxmlir.targets import Target, hlo
from jaxmlir.targets import target as target_named
from jaxmlir.targets.costs import Machine, described_devices, machines


class _Compiler(NamedTuple):
    """A platform's compiler: modules to import, extra to install, environment variables to set."""

    modules: tuple[str, ...]
    extra: str
    environment: dict[str, str]


COMPILERS = {
    "tpu": _Compiler(
        ("libtpu",),
        "aot-tpu",
        {
            # Otherwise the library queries the cloud's servers, and only one process may load it.
            "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_WORKER_HOSTNAMES": "localhost",
        },
    ),
    "cuda": _Compiler(
        ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"),
        "aot-gpu",
        # Otherwise the plugin looks for the driver.
        {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"},
    ),
}


def missing(target: Target) -> str | None:
    """The command that installs the compiler of a target; ``None`` if it is installed.

    Raises:
      ArgumentError: there is no compiler that works without a device.
    """
    if target.is_cpu:
        return None
    compiler = COMPILERS.get(target.platform)
    if compiler is None:
        platforms = ", ".join(("cpu", *COMPILERS))
        raise ArgumentError(f"target '{target}': without a device, XLA compiles for {platforms}")
    if _installed(target.platform) is not None:
        return None
    return f"pip install 'jaxmlir[{compiler.extra}]'"


def _installed(platform: str) -> str | None:
    """The module of a platform's compiler, if it is installed."""
    for module in COMPILERS[platform].modules:
        # find_spec fails if the module's package is missing.
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(module) is not None:
                return module
    return None


def devices(name: str | Target) -> list[Any]:
    """The devices of a target as JAX's compilers know them: to compile for, not to run on.

    Args:
      name: a name such as ``"tpu:v5e:2x2"``; without a topology, the smallest one is used.

    Raises:
      ArgumentError: there is no such target, or it has no such topology.
      CompilerError: the compiler is not installed; says how to install it.
    """
    target = target_named(name)
    if (command := missing(target)) is not None:
        modules = " or ".join(COMPILERS[target.platform].modules)
        raise CompilerError(
            f"the compiler of target '{target}' is not installed (no {modules}): {command}"
        )
    if target.is_cpu:
        import jax

        return jax.devices("cpu")
    return _described(target)


def estimate(target: Target, text: str) -> hlo.WorkEstimate:
    """The estimated work of optimized HLO that the compiler of a target produced."""
    kind = target.kind or next(iter(machines(target.platform)))
    clock = described_devices(target.platform).get(kind, {}).get("clock")
    return hlo.estimate(text, target.costs, clock if target.platform == "tpu" else None)


@functools.cache
def _described(target: Target) -> list[Any]:
    from jax.errors import JaxRuntimeError

    kind = target.kind or next(iter(machines(target.platform)))
    described = described_devices(target.platform)[kind]
    if target.platform == "tpu":
        name = f"{kind}:{'x'.join(map(str, target.topology)) or described['topology']}"
        options = {}
    else:
        name = ""
        config = _gpu(target.machine, **described)
        options = {"target_config": config, "topology": f"1x1x{target.devices}"}
    try:
        topology = _topology(target.platform, name, options)
    except JaxRuntimeError as error:
        raise ArgumentError(f"target '{target}': {error}") from None
    return list(topology.devices)


def _topology(platform: str, name: str, options: Mapping[str, str]) -> Any:
    """JAX's description of a topology."""
    from jax.experimental import topologies

    for variable, value in COMPILERS[platform].environment.items():
        # JAX stores a warning in the variable if it found nothing.
        if os.environ.get(variable, "WARNING").startswith("WARNING"):
            os.environ[variable] = value
    try:
        return topologies.get_topology_desc(name, platform, **options)
    except NotImplementedError:
        # JAX has looked for devices before, and dropped the plugin because it found none.
        importlib.import_module(_installed(platform)).initialize()
        return topologies.get_topology_desc(name, platform, **options)


def _gpu(
    machine: Machine,
    name: str,
    capability: Sequence[int],
    multiprocessors: int,
    lanes: int,
    shared: int,
    clock: float,
) -> str:
    """The description of an NVIDIA GPU for XLA, a ``GpuTargetConfigProto`` as text.

    Args:
      lanes: the number of units for 32-bit floats in each multiprocessor.
      shared: the bytes of shared memory in each multiprocessor.
      clock: in GHz.
    """
    major, minor = capability
    # From capability 8.0 on, the system reserves a KiB for each block.
    of_block = shared - 1024 if major >= 8 else shared
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {shared}
  shared_memory_per_block_optin: {of_block}
  threads_per_core_limit: {1536 if capability == [8, 9] else 2048}
  core_count: {multiprocessors}
  fpus_per_core: {lanes}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {machine.costs.bandwidth:.0f}
  l2_cache_size: {machine.caches[-1]}
  clock_rate_ghz: {clock}
  device_memory_size: {machine.memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{name}"
"""
