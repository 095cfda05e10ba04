"""Rewrites of single ops that are written in JAX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.rewriting.driver import rewrite_ops
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


def replace_ops(
    program: Module,
    names: Collection[str],
    write: Callable[[Rules, OpView], ir.Value | Sequence[ir.Value] | None],
) -> int:
    """Rewrites the ops of some names by one function; how many ops.

    Args:
      names: of the ops, outside of kernels.
      write: a rewrite that also takes what writes JAX functions into the program; its values are
        converted to the element types of the results.
    """
    with scope():
        rules = Rules(program)

        def rewrite(node: OpView) -> list[ir.Value] | None:
            written = write(rules, node)
            if written is None:
                return None
            values = [written] if isinstance(written, ir.Value) else written
            return list(map(converted, values, node.op.results.types))

        return rewrite_ops(program, dict.fromkeys(names, rewrite))
