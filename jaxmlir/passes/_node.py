"""An op as passes that match patterns read it: name, operands and attributes, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir import codec
from jaxmlir._compat import dtypes
from jaxmlir.ir import ir
from jaxmlir.types import aval_of


class OpNode:
    """An op, its operands, and its attributes when somebody asks for them."""

    __slots__ = ("_attributes", "name", "op", "operands")

    def __init__(self, op: Any, name: str, operands: Sequence[ir.Value]):
        self.op = op
        self.name = name
        self.operands = operands
        self._attributes: dict[str, ir.Attribute] | None = None

    @property
    def attributes(self) -> dict[str, ir.Attribute]:
        if self._attributes is None:
            self._attributes = dict(self.op.attributes.items())
        return self._attributes

    def get(self, name: str, default: Any = None) -> Any:
        """A decoded attribute."""
        attr = self.attributes.get(name)
        return default if attr is None else codec.decode(attr)


def numbers_rows(node: OpNode | None) -> bool:
    """Whether an op is an iota that gives each row of its dimension another number, from 0 on:
    its type holds them all."""
    if node is None or node.name != "jaxpr.iota":
        return False
    length = node.get("shape")[node.get("dimension")]
    dtype = aval_of(node.op.results[0].type).dtype
    whole = dtype.kind in "iu"
    most = np.iinfo(dtype).max if whole else 2 ** (dtypes.finfo(dtype).nmant + 1)
    return type(length) is int and length - 1 <= most
