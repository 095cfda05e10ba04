"""What the inverses of loops and branches share: functions around the inverses of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect.builder import drop_dead_ops, filled, inline
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import type_of
from jaxmlir.transforms.inverses.solver import Inverted, Site
from jaxmlir.transforms.new_function import NewFunction


def symbol_of(site: Site, attribute: str) -> str:
    """The symbol of the function that an attribute names."""
    return ir.FlatSymbolRefAttr(site.op.attributes[attribute]).value


def rearranged(
    site: Site, inverted: Inverted, order: Sequence[int], outs: Sequence[int], log_det: bool
) -> str:
    """The symbol of an inverse with other orders of arguments and results.

    Args:
      order: for each argument of ``inverted``, which of the new function's it is.
      outs: the positions of its results to return.
      log_det: also return the log-determinant, 0 where there is none.
    """
    rules = site.solver.rules
    function = rules.program.function(inverted.symbol)
    types = list(function.type.inputs)
    arguments = [types[order.index(i)] for i in range(len(types))]
    new = NewFunction(rules, inverted.symbol, arguments, function)
    with new.body(), function.location:
        results = inline(function, [new.args[i] for i in order])
        returned = [results[i] for i in outs]
        if log_det:
            returned.append(results[-1] if inverted.log_det else zero(site))
    name = new.finish(returned)
    drop_dead_ops(new.op)
    return name


def zero(site: Site) -> ir.Value:
    """A log-determinant that is zero."""
    return filled(type_of(core.ShapedArray((), np.dtype(site.solver.log_det))), 0)


def some(values: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    """Those of the values that are chosen."""
    return [v for v, c in zip(values, chosen, strict=True) if c]
