"""Scan and while ops without operands: how operands are grouped, and writing a loop with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import create, instantiated, symbol_ref, trip_count
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import batched_type, tangent_type_of
from jaxmlir.support.masks import chosen, filled, split

if TYPE_CHECKING:
    from jaxmlir.transforms.templates import Rules

T = TypeVar("T")


def interleaved(*groups: Sequence[Sequence[T]]) -> list[T]:
    """The first pieces of each group, then the second ones ...: ``[[a], [b]]`` and ``[[c], [d]]``
    give ``[a, c, b, d]``."""
    return [v for pieces in zip(*groups, strict=True) for piece in pieces for v in piece]


def tangents_of(
    types: Sequence[ir.Type],
    has: Sequence[bool],
    tangents: Sequence[ir.Value],
    needs: Sequence[bool],
) -> list[ir.Value | None]:
    """The tangents of operands of these types that need one, zero if they have none; ``None`` for
    the others."""
    needed = chosen(filled(tangents, has), needs)
    return filled(instantiated(needed, map(tangent_type_of, chosen(types, needs))), needs)


def stacked(type_: ir.Type, length: int) -> ir.Type:
    """The type of the stacked values of all iterations."""
    return batched_type(type_, 0, length)


class WhileOp(NamedTuple):
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
        """Splits values into constants of the condition, constants of the body, and carry."""
        return split(values, self.cond_consts, self.body_consts)

    @property
    def attributes(self) -> dict[str, ir.Attribute]:
        attributes = {
            **self.other,
            "cond_jaxpr": symbol_ref(self.cond),
            "body_jaxpr": symbol_ref(self.body),
        }
        for name, value in (("cond_nconsts", self.cond_consts), ("body_nconsts", self.body_consts)):
            if value:
                attributes[name] = codec.encode(value)
        return attributes

    def write(self, rules: Rules, args: Sequence[ir.Value]) -> list[ir.Value]:
        """Writes the op at the current insertion point; gives its results."""
        types = rules.program.function(self.body).type.results
        return create("jaxpr.while", types, args, self.attributes)


PLAIN_SCAN = frozenset(
    "jaxpr length num_consts num_carry reverse unroll jaxpr.ctx jaxpr.parallel".split()
)
"""The attributes of a scan that is merely a loop: without effects, for example."""


class ScanOp(NamedTuple):
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
        """Whether it has an iteration for all values of symbolic sizes."""
        try:
            return self.length >= 1
        except core.InconclusiveDimensionOperation:
            return False

    def operands(self, values: Sequence[Any]) -> list[list[Any]]:
        """Splits values into constants, carry and slices (xs)."""
        return split(values, self.num_consts, self.num_carry)

    def results(self, values: Sequence[Any]) -> list[list[Any]]:
        """Splits values into carry and slices (ys)."""
        return split(values, self.num_carry)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of constants and of carried values, which group the body's arguments."""
        return self.num_consts, self.num_carry

    def with_body(self, body: str, num_consts: int, num_carry: int) -> ScanOp:
        # Not by `replace`, which takes three times as long.
        return ScanOp(body, num_consts, num_carry, self.length, self.reverse, self.other)

    @property
    def attributes(self) -> dict[str, ir.Attribute]:
        attributes = {
            **self.other,
            "jaxpr": symbol_ref(self.body),
            "length": codec.encode(self.length),
        }
        for name, value in (
            ("num_consts", self.num_consts),
            ("num_carry", self.num_carry),
            ("reverse", self.reverse),
        ):
            if value:
                attributes[name] = codec.encode(value)
        return attributes

    def write(
        self, rules: Rules, args: Sequence[ir.Value], out_types: Sequence[ir.Type] | None = None
    ) -> list[ir.Value]:
        """Writes the op at the current insertion point; gives its results, whose types the caller
        may know."""
        if out_types is None:
            out_types = list(rules.program.function(self.body).type.results)
        carry, slices = self.results(out_types)
        types = [*carry, *(stacked(t, self.length) for t in slices)]
        if not types:
            return []
        return create("jaxpr.scan", types, args, self.attributes)
