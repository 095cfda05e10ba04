"""JAX's primitives by name, and the names of the ops they become.

JAX keeps no list of its primitives, but every primitive that can do something is in a registry of
rules.  A user's own primitive is there, too, once its module is imported.  A primitive of an
imported jaxpr is remembered, whether it has rules or not.
"""

from __future__ import annotations

import importlib
import re
import sys
import weakref
from typing import Any

from jaxmlir import _compat
from jaxmlir._compat import ad, batching, core, mlir, pe, state_discharge
from jaxmlir.dialect import ops
from jaxmlir.dialect.ir import is_foreign
from jaxmlir.dialect.ops.kernels import KERNEL
from jaxmlir.errors import ExportError, nearest

_by_name: dict[str, Any] = {}
_met: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def registries() -> list[dict[Any, Any]]:
    """JAX's tables of rules; every primitive that can do something is in one of them."""
    lowerings = [mlir._lowerings, *mlir._platform_specific_lowerings.values()]
    return [*lowerings, *transformations()]


def transformations() -> list[dict[Any, Any]]:
    """JAX's tables of the rules that transform equations."""
    return [
        ad.primitive_jvps,
        ad.primitive_linearizations,
        ad.primitive_transposes,
        ad.fancy_transposes,
        batching.fancy_primitive_batchers,
        pe.dce_rules,
        pe.custom_partial_eval_rules,
        pe.partial_eval_jaxpr_custom_rules,
        state_discharge._discharge_rules,
    ]


def _scan() -> None:
    for registry in registries():
        for primitive in registry:
            if isinstance(primitive, core.Primitive):
                _by_name.setdefault(primitive.name, primitive)


# Modules that are not always imported, by the primitives that they register.  A text may use the
# primitives in a process that has not imported the module.
_LATE_MODULES = {
    r"checkpointed_while|reverse_sweep|linear_map": "jaxmlir.transforms.checkpointing",
    r"(coo|csr|bcoo|bcsr)_.*|todense|spsolve": "jax.experimental.sparse",
    r"custom_inverse_call": "jaxmlir.transforms.inverses.given",
    r"compute_on": "jax.experimental.compute_on",
    r"xla_metadata_(call|value)": "jax.experimental.xla_metadata",
    r"xla_metadata_call": "jax.experimental.scheduling_groups",
    r"fused_call": "jax.experimental.fused",
    r"program_order": "jax.experimental.overlap",
    r"shard_alike": "jax.experimental.shard_alike",
    r"check": "jax.experimental.checkify",
    r"(global|host_local)_array_to_.*": "jax.experimental.multihost_utils",
    r"buffer_callback": "jax.experimental.buffer_callback",
    r"rnn_(fwd|bwd)": "jax.experimental.rnn",
    r"thunky\.inline_constant": "jax.experimental.thunky",
    r"pallas_call|mpmd_map|core_map|run_scoped|masked_.*": "jax.experimental.pallas",
}


def find(name: str) -> Any | None:
    """The primitive of that name, or ``None``."""
    primitive = _by_name.get(name) or _met.get(name)
    if primitive is None:
        _scan()
        primitive = _by_name.get(name)
    return _find_late(name) if primitive is None else primitive


def _find_late(name: str) -> Any | None:
    for pattern, module in _LATE_MODULES.items():
        if module not in sys.modules and re.fullmatch(pattern, name):
            try:
                importlib.import_module(module)
            except ImportError:  # Not every JAX has it.
                continue
            _scan()
    if name not in _by_name and (name in _IN_KERNELS or _PALLAS in sys.modules):
        _scan_kernels()
    return _by_name.get(name)


# Few kernel instructions have rules, so they are not in the registries.  Some names stand for two
# instructions, of two backends, where no instruction serves all backends; the first is used.
_IN_KERNELS = frozenset(op.name for op in KERNEL.ops)
_PALLAS = "jax.experimental.pallas"


def _scan_kernels() -> None:
    for module in _compat.kernel_modules():
        for value in vars(module).values():
            if isinstance(value, core.Primitive):
                _by_name.setdefault(value.name, value)


def get(name: str) -> Any:
    """The primitive of that name.

    Raises:
      ExportError: this process has no such primitive; suggests the nearest name.
    """
    primitive = find(name)
    if primitive is None:
        near = nearest(name, _by_name)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ExportError(
            f'the installed JAX has no primitive "{name}", and no imported module registers '
            f"one{hint} (if it is your own, import its module: --load)"
        )
    return primitive


def meet(primitive: Any) -> bool:
    """Remembers a primitive; false if another primitive already has its name."""
    namesake = find(primitive.name)
    if namesake is None:
        _met[primitive.name] = primitive
        return True
    return namesake is primitive


def op_name(primitive_name: str) -> str:
    """``jaxpr.<name>``, with the primitive's name or the one that its record gives."""
    record = ops.BY_PRIMITIVE.get(primitive_name)
    return f"jaxpr.{record.name if record else primitive_name}"


def is_lowered(op_name: str) -> bool:
    """Whether an op is one that the dialect is lowered to, and can be raised from."""
    return op_name.startswith(("stablehlo.", "chlo."))


def of_op(op_name: str) -> Any:
    """The primitive of an op ``jaxpr.<name>``.

    Raises:
      ExportError: the installed JAX has no such primitive, or the op is of another dialect.
    """
    if is_foreign(op_name):
        hint = "; jaxmlir.from_stablehlo or jaxmlir-translate --stablehlo-to-jaxpr raises it"
        raise ExportError(
            f"expected an op of the jaxpr dialect{hint if is_lowered(op_name) else ''}"
        )
    name = op_name.removeprefix("jaxpr.")
    record = ops.OPS.get(name)
    names = record.primitive_names if record else (name,)
    found = next(filter(None, map(find, names)), None)
    return get(names[0]) if found is None else found
