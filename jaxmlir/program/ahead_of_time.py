"""``jaxmlir.aot``: compiles with the real compiler of a TPU or GPU, on a machine without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import serialize_executable
from jax.sharding import SingleDeviceSharding

from jaxmlir.errors import ArgumentError
from jaxmlir.program import arguments
from jaxmlir.program.program import Program
from jaxmlir.support.options import in_units
from jaxmlir.targets import Target, compilers, hlo
from jaxmlir.targets import target as target_named


@dataclass(frozen=True)
class Executable:
    """A program compiled for a target, with the compiler's figures.

    Attributes:
      target: the target that it is compiled for.
      compiled: JAX's stage, with ``as_text()``.  It can be called on a machine with the devices.
      arguments, outputs, temporary, code: bytes per device for the arguments, the results,
        temporary buffers, and the instructions.
      flops: floating-point operations; each instruction of a loop counts once; ``None`` if XLA does
        not report them.
      estimate: for a TPU, the cycles that its compiler expects; for a GPU, kernels, bytes and
        nanoseconds estimated from the HLO and the data sheet.  A loop counts as often as it runs.
    """

    target: Target
    compiled: Any
    arguments: int
    outputs: int
    temporary: int
    code: int
    flops: float | None
    estimate: hlo.WorkEstimate

    def serialize(self) -> tuple[bytes, Any, Any]:
        """The executable as bytes, and the pytrees of arguments and results: the arguments of
        ``jax.experimental.serialize_executable.deserialize_and_load`` on a machine with the device
        and the same versions."""
        return serialize_executable.serialize(self.compiled)

    def __str__(self) -> str:
        """The compiler's figures, one per line."""
        of_hlo = self.estimate
        lines = [
            ("arguments", in_units(self.arguments)),
            ("results", in_units(self.outputs)),
            ("temporary", in_units(self.temporary)),
            ("code", in_units(self.code)),
        ]
        if self.flops is not None:
            lines.append(("flops", f"{self.flops:,.0f}"))
        if self.target.platform == "tpu":
            lines.append(("cycles", f"{of_hlo.cycles:,}"))
        elif not self.target.is_cpu:
            lines.append(("kernels", f"{of_hlo.kernels:,}"))
            lines.append(("moved", in_units(of_hlo.bytes)))
        if not self.target.is_cpu:
            lines.append(("estimate", f"{of_hlo.nanoseconds / 1e3:,.1f} us"))
        if of_hlo.unknown_loops:
            lines.append(("loops", f"{of_hlo.unknown_loops} of unknown length, counted once"))
        head = f"compiled for {self.target} by jax {jax.__version__}"
        return "\n".join([head, *(f"  {name:10}{value:>16}" for name, value in lines)])


def aot(
    function: Program | Callable[..., Any], target: str, *args: Any, **kwargs: Any
) -> Executable:
    """Compiles a program or a function for a target with its real compiler, without the device::

        print(jaxmlir.aot(program.optimize(2), "tpu:v5e:2x2"))

    Args:
      function: a program, which is compiled in its version for the target; a function of
        ``jaxmlir.jit`` or ``jax.jit``, which keeps its options; or any other function, which goes
        through ``jax.jit``.
      target: ``platform:kind:topology``, such as ``"cuda:h100"``; see docs/targets.md.
      args, kwargs: arguments, or ``jax.ShapeDtypeStruct`` in their place; by default, a program's
        are those that it was traced for.  An argument without a sharding over devices of
        :func:`jaxmlir.targets.compilers.devices` is placed on the first of these.

    Raises:
      ArgumentError: there is no such target, or the arguments of a program with symbolic shapes are
        missing.
      CompilerError: its compiler is not installed; says how to install it.
      LoweringError: an op cannot be lowered for the target.
    """
    resolved = target_named(target)
    devices = compilers.devices(resolved)
    if not callable(function):
        raise ArgumentError(f"aot: expected a program or a function, got {function!r}")
    if isinstance(function, Program) and not (args or kwargs):
        args, kwargs = arguments.abstract(function)
        if function.is_symbolic:
            raise ArgumentError(
                f"aot: {function!r} has symbolic shapes; give arguments of the sizes to compile for"
            )
    placed = SingleDeviceSharding(devices[0])
    device_set = frozenset(devices)

    def place(x: Any) -> Any:
        sharding = getattr(x, "sharding", None)
        if sharding is None or not device_set.issuperset(sharding.device_set):
            sharding = placed
        aval = jax.typeof(x)
        return jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type
        )

    args, kwargs = jax.tree.map(place, (args, kwargs))
    if isinstance(function, Program):
        # `Program.lower` takes no arguments, so it could not tell their placement.
        jitted = function.version(resolved.on(1))._jitted
    else:
        jitted = function if hasattr(function, "lower") else jax.jit(function)
    return executable(resolved, jitted.lower(*args, **kwargs).compile())


def executable(target: Target, compiled: Any) -> Executable:
    """The compiler's figures for an executable of a target."""
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    return Executable(
        target,
        compiled,
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
        cost.get("flops") if cost else None,
        compilers.estimate(target, compiled.as_text()),
    )
