"""An op as passes that match patterns read it: name, operands and attributes, each read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of


class OpView:
    """An op, its operands, and its attributes when somebody asks for them."""

    __slots__ = ("attributes", "name", "op", "operands")

    attributes: dict[str, ir.Attribute]

    def __init__(self, op: Any, name: str, operands: Sequence[ir.Value]):
        self.op = op
        self.name = name
        self.operands = operands

    def __getattr__(self, name: str) -> Any:
        """Reads the attributes when they are first asked for."""
        if name != "attributes":
            raise AttributeError(name=name, obj=self)
        self.attributes = attributes_of(self.op)
        return self.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """A decoded attribute, in which a function is its symbol."""
        attr = self.attributes.get(name)
        return default if attr is None else codec.decode(attr, codec.SYMBOLS)


def attributes_of(op: Any) -> dict[str, ir.Attribute]:
    """The attributes of an op."""
    attributes = op.attributes
    # As many have none.
    return dict(attributes.items()) if len(attributes) else {}


def node_of(value: ir.Value) -> OpView | None:
    """The op that gives a value; ``None`` of a function's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else OpView(owner, owner.name, list(owner.operands))


def array_of(node: OpView | None) -> np.ndarray | None:
    """The value of a ``jaxpr.constant`` that stands in the IR; ``None`` of other ops."""
    if node is None or node.name != "jaxpr.constant":
        return None
    attr = node.attributes.get("value")
    return codec.decode(attr) if isinstance(attr, ir.DenseElementsAttr) else None


def number_of(
    value: ir.Value, node_of: Callable[[ir.Value], OpView | None] = node_of
) -> np.generic | None:
    """The number that every element of a value is, where a constant says so.

    Args:
      node_of: the op that gives a value.
    """
    node = node_of(value)
    while node is not None and node.name == "jaxpr.broadcast_in_dim":
        node = node_of(node.operands[0])
    array = array_of(node)
    if array is None or not array.size:
        return None
    first = array.flat[0]
    if array.size > 1 and array.tobytes() != first.tobytes() * array.size:
        return None
    return first


def numbers_rows(node: OpView | None) -> bool:
    """Whether an op is an iota that gives each row of its dimension another number, from 0 on:
    its type holds them all."""
    if node is None or node.name != "jaxpr.iota":
        return False
    length = node.get("shape")[node.get("dimension")]
    return type(length) is int and can_count(aval_of(node.op.results[0].type).dtype, length)


def can_count(dtype: Any, length: int) -> bool:
    """Whether a type holds all of 0, 1, 2 ..., so many."""
    whole = dtypes.issubdtype(dtype, np.integer)
    if whole:
        return length - 1 <= dtypes.iinfo(dtype).max
    info = dtypes.finfo(dtype)
    return length - 1 <= min(2 ** (info.nmant + 1), float(info.max))


def counts_along(value: ir.Value, node_of: Callable[[ir.Value], OpView | None]) -> int | None:
    """The dimension along which a value is 0, 1, 2 ..., and the same along all others; ``None``
    where that is not known.

    Args:
      node_of: the op that gives a value.
    """
    node = node_of(value)
    if node is None:
        return None
    if numbers_rows(node):
        return node.get("dimension")
    if node.name not in ("jaxpr.broadcast_in_dim", "jaxpr.convert_element_type"):
        return None
    source = node.operands[0]
    d = counts_along(source, node_of)
    if d is None:
        return None
    have, want = aval_of(source.type), aval_of(value.type)
    if node.name == "jaxpr.broadcast_in_dim":
        new = node.get("broadcast_dimensions")[d]
        return new if have.shape[d] == want.shape[new] else None
    whole = dtypes.issubdtype(want.dtype, np.integer)
    return d if whole and can_count(want.dtype, have.shape[d]) else None
