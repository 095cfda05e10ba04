"""Has XLA's CPU compiler keep a loop as a loop of kernels, each of which may run on many threads.

XLA of jax 0.12 turns any loop that calls no library into one kernel, however large its arrays are,
and a kernel that contains loops runs on one thread.  A loop stays if XLA cannot write a part of it
into a kernel, for example the number of the replica that runs it.  There is only one replica.  So
the loop condition also requires that its number is not 2^32 - 1: always true, but unknown to XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from jaxmlir._compat import jax_version
from jaxmlir.dialect.ir import ir

ATTRIBUTE = "jaxpr.parallel"
"""The attribute that marks a loop to be kept parallel on a CPU."""

_SINCE = (0, 12)


def keep_parallel(function: Any, platforms: Sequence[str], devices: int) -> None:
    """Changes the loop conditions in the StableHLO that a rule emitted for a loop of the dialect.
    If there are several devices, they may be replicas."""
    if jax_version()[:2] < _SINCE or tuple(platforms) != ("cpu",) or devices != 1:
        return
    for op in function.entry_block.operations:
        if op.operation.name == "stablehlo.while":
            _keep(op.operation.regions[0].blocks[0])


def _keep(condition: ir.Block) -> None:
    end = condition.operations[len(condition.operations) - 1]
    (goes_on,) = end.operands
    with ir.InsertionPoint(end), end.location:
        replica = stablehlo.ReplicaIdOp().result
        last = ir.DenseElementsAttr.get_splat(
            replica.type, ir.IntegerAttr.get(replica.type.element_type, 2**32 - 1)
        )
        is_other = stablehlo.compare(
            replica, stablehlo.constant(last), stablehlo.ComparisonDirectionAttr.get("NE")
        )
        end.operands[0] = stablehlo.and_(goes_on, is_other)
