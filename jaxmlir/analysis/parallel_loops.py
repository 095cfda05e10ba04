"""Loops that XLA's CPU compiler keeps as loops of kernels, each of which several threads may run.

XLA of jax 0.12 makes one kernel of any loop that calls no library, however large its arrays are,
and a kernel that has loops of its own runs on one thread.  It leaves alone what it cannot write as
a part of a kernel, such as the number of the replica that runs it.  There is one, so the condition
of a loop may demand as well that it is not the last of 2^32: so it is, and XLA does not find out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from jaxmlir._compat import jax_version
from jaxmlir.dialect.ir import ir

ATTRIBUTE = "jaxpr.parallel"
"""The attribute of a loop that is to stay parallel on a CPU."""

_SINCE = (0, 12)


def keep_parallel(function: Any, platforms: Sequence[str], devices: int) -> None:
    """Changes the conditions of the loops in what a rule has written for a loop of the dialect.

    Args:
      devices: how many the program runs on; those of several may be in replicas.
    """
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
