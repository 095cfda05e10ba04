"""An op as passes that match patterns read it: name, operands and attributes, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxmlir import codec
from jaxmlir.ir import ir


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
