"""A ``jaxpr.while`` apart from its operands: how they are grouped, and writing it with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import split

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules


@dataclass(frozen=True)
class WhileOp:
    """A while op without its operands."""

    cond: str
    body: str
    cond_consts: int
    body_consts: int
    other: dict[str, ir.Attribute]

    @classmethod
    def of(cls, op: Any) -> WhileOp:
        attributes = dict(op.attributes.items())
        counts = [
            codec.decode(attributes.pop(name)) if name in attributes else 0
            for name in ("cond_nconsts", "body_nconsts")
        ]
        symbols = [attributes.pop(name).value for name in ("cond_jaxpr", "body_jaxpr")]
        return cls(*symbols, *counts, attributes)

    def operands(self, values: Sequence[Any]) -> list[list[Any]]:
        """Constants of the condition, those of the body, carry."""
        return split(values, self.cond_consts, self.body_consts)

    def write(self, rules: Rules, args: Sequence[ir.Value]) -> list[ir.Value]:
        """The op at the current insertion point; its results."""
        attributes = {
            **self.other,
            "cond_jaxpr": ir.FlatSymbolRefAttr.get(self.cond),
            "body_jaxpr": ir.FlatSymbolRefAttr.get(self.body),
        }
        for name, value in (("cond_nconsts", self.cond_consts), ("body_nconsts", self.body_consts)):
            if value:
                attributes[name] = codec.encode(value)
        types = list(rules.program.function(self.body).type.results)
        return list(ir.Operation.create("jaxpr.while", types, list(args), attributes).results)
