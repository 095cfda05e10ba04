"""Passes that write single ops in another way, each where it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.toolbox import ops_of, replace
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


def replace_ops(
    program: Module,
    names: Collection[str],
    write: Callable[[Rules, OpView], ir.Value | Sequence[ir.Value] | None],
) -> int:
    """Puts values in the place of ops; how many ops.

    Args:
      names: of the ops, outside of kernels.
      write: writes the value, or those of several results, at the op; gives ``None``, and writes
        nothing, where the op stays.
    """
    count = 0
    with scope():
        rules = Rules(program)
        for function in outside_kernels(program, names):
            for node in ops_of(function):
                if node.name not in names:
                    continue
                op = node.op
                with ir.InsertionPoint(op), op.location:
                    written = write(rules, node)
                    if written is None:
                        continue
                    values = [written] if isinstance(written, ir.Value) else written
                    types = [result.type for result in op.results]
                    values = list(map(converted, values, types))
                replace(op, values)
                count += 1
    if count:
        program.changed()
    return count
