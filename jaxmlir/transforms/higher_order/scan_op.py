"""A ``jaxpr.scan`` apart from its operands: how they are grouped, and writing it with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import trip_count
from jaxmlir.dialect.ir import ir
from jaxmlir.support.masks import split
from jaxmlir.transforms.higher_order.loops import stacked

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules

PLAIN_SCAN = frozenset(
    {
        *("jaxpr", "length", "num_consts", "num_carry", "reverse", "unroll"),
        *("jaxpr.ctx", "jaxpr.parallel"),
    }
)
"""The attributes of a scan that is no more than a loop: without effects, say."""


@dataclass(frozen=True)
class ScanOp:
    """A scan op without its operands."""

    body: str
    num_consts: int
    num_carry: int
    length: int
    reverse: bool
    other: dict[str, ir.Attribute]

    @classmethod
    def of(cls, op: Any) -> ScanOp:
        return cls.of_attributes(op.attributes.items())

    @classmethod
    def of_attributes(cls, items: Iterable[tuple[str, ir.Attribute]]) -> ScanOp:
        attributes = dict(items)

        def take(name: str, default: Any) -> Any:
            attr = attributes.pop(name, None)
            return default if attr is None else codec.decode(attr)

        return cls(
            attributes.pop("jaxpr").value,
            take("num_consts", 0),
            take("num_carry", 0),
            take("length", 0),
            take("reverse", False),
            attributes,
        )

    @property
    def is_counted(self) -> bool:
        """Whether its length is a number, not a symbolic size."""
        return trip_count(self.length) is not None

    @property
    def surely_runs(self) -> bool:
        """Whether it has an iteration, whatever symbolic sizes are."""
        try:
            return self.length >= 1
        except core.InconclusiveDimensionOperation:
            return False

    def operands(self, values: Sequence[Any]) -> list[list[Any]]:
        """Constants, carry, slices."""
        return split(values, self.num_consts, self.num_carry)

    def results(self, values: Sequence[Any]) -> list[list[Any]]:
        """Carry, slices."""
        return split(values, self.num_carry)

    @property
    def counts(self) -> tuple[int, int]:
        """How many constants and carried values there are: how the body's arguments are grouped."""
        return self.num_consts, self.num_carry

    def with_body(self, body: str, num_consts: int, num_carry: int) -> ScanOp:
        # As `replace` would, which takes three times as long.
        return ScanOp(body, num_consts, num_carry, self.length, self.reverse, self.other)

    def write(
        self, rules: Rules, args: Sequence[ir.Value], given: Sequence[ir.Type] | None = None
    ) -> list[ir.Value]:
        """The op at the current insertion point; its results.

        Args:
          given: the types of the body's results, from who has them.
        """
        if given is None:
            given = list(rules.program.function(self.body).type.results)
        carry, slices = self.results(given)
        types = [*carry, *(stacked(t, self.length) for t in slices)]
        if not types:
            return []
        attributes = {
            **self.other,
            "jaxpr": ir.FlatSymbolRefAttr.get(self.body),
            "length": codec.encode(self.length),
        }
        for name, value in (
            ("num_consts", self.num_consts),
            ("num_carry", self.num_carry),
            ("reverse", self.reverse),
        ):
            if value:
                attributes[name] = codec.encode(value)
        return list(ir.Operation.create("jaxpr.scan", types, list(args), attributes).results)
