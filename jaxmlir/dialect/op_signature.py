"""An op's signature: its name, attributes and types, i.e. all of the op but its operands.

Programs contain the same few hundred signatures over and over.  The results of rules, checks and
queries for an op are cached by its signature.  There is one object for each signature, so a look-up
only compares pointers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jaxmlir.dialect import codec, effect_attributes, locations, ops
from jaxmlir.dialect.ir import ir, is_foreign
from jaxmlir.errors import TransformError


class Signature:
    """The name, attributes and types that ops have in common; equal only to itself."""

    def __init__(
        self,
        name: str,
        attributes: tuple[tuple[str, ir.Attribute], ...],
        operands: tuple[ir.Type, ...],
        results: tuple[ir.Type, ...],
    ):
        self.name = name
        self.attributes = attributes
        self.operands = operands
        self.results = results
        self.named: dict[str, ir.Attribute] = dict(attributes)
        """The attributes by name."""
        self.effects: ir.ArrayAttr | None = self.named.get("jaxpr.effects")
        """The effects that the ops list; an empty list for ops of other dialects, whose effects are
        unknown."""
        if self.effects is None and is_foreign(name):
            self.effects = ir.ArrayAttr.get([])

    @property
    def types(self) -> tuple[ir.Type, ...]:
        """The types of the operands, then of the results."""
        return self.operands + self.results

    def create(self, operands: Sequence[ir.Value], location: ir.Location) -> list[ir.Value]:
        """The results of a new op at the current insertion point."""
        op = ir.Operation.create(self.name, self.results, operands, self.named, loc=location)
        return list(op.results)

    @functools.cached_property
    def is_lasting(self) -> bool:
        """Whether the ops have an effect that keeps them, even if their results are unused."""
        return effect_attributes.is_lasting(self.name, self.effects)

    @functools.cached_property
    def is_portable(self) -> bool:
        """Whether the ops mean the same in every program: no attribute refers to one program."""
        if self.name == "jaxpr.constant" and any(key == "name" for key, _ in self.attributes):
            return False
        return not any(codec.depends_on_module(attr) for _, attr in self.attributes)

    @functools.cached_property
    def text(self) -> str | None:
        """A text that identifies the signature in any process; ``None`` if that is impossible."""
        if not (self.is_portable and self.name.removeprefix("jaxpr.") in ops.OPS):
            return None
        parts = [self.name, str(len(self.operands)), *map(_type_text, self.types)]
        parts += [f"{key}={_text(attr)}" for key, attr in self.attributes]
        text = "\n".join(map(str, parts))
        return None if None in parts or _OF_PROCESS in text else text


class WithRegions(Signature):
    """The signature of a single op of another dialect; it does not describe the op's regions."""

    def create(self, operands: Sequence[ir.Value], location: ir.Location) -> list[ir.Value]:
        message = f"'{self.name}' op cannot be copied: it has regions"
        raise locations.error_at(TransformError, location, message)


# The prefix of types that are not builtin.  Some refer to objects of a process.
_OF_PROCESS = "!jaxpr."
_text = functools.cache(str)


@functools.cache
def _type_text(type_: ir.Type) -> str | None:
    """The text of a type that has just a shape and an element type; ``None`` for others."""
    if not isinstance(type_, ir.RankedTensorType):
        return None
    encoding = type_.encoding
    plain = encoding is None or all(item.name in _PLAIN for item in encoding)
    return str(type_) if plain else None


_PLAIN = frozenset({"weak_type", "shape", "constraints"})


def of_op(op: Any, name: str, operands: Sequence[ir.Value]) -> Signature:
    """The signature of an op whose name and operands the caller has read."""
    attributes = op.attributes
    return of_parts(
        name,
        tuple(attributes.items()) if len(attributes) else (),
        tuple([v.type for v in operands]),
        tuple(op.results.types),
    )


@functools.cache
def of_parts(*parts: Any) -> Signature:
    """The signature with this name, attributes, operand types and result types."""
    return Signature(*parts)
