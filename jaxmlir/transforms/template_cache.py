"""Encodes results of JAX's rules for the cache on disk (:mod:`jaxmlir.caching.rule_cache`)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

from jaxmlir._compat import batching, core
from jaxmlir.caching import is_of_process
from jaxmlir.caching.rule_cache import RuleCache
from jaxmlir.dialect.ir import bytecode, ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.support.masks import Mask
from jaxmlir.transforms.emitters import Linearization, Template


class CacheSlot(NamedTuple):
    """The place in the cache where the result of one rule is kept."""

    cache: RuleCache
    key: bytes

    def find(self) -> Any | None:
        """The result of the rule that an earlier process kept."""
        entry = self.cache.find(self.key)
        try:
            return entry and _read(entry, self.key)
        except (ValueError, ir.MLIRError):
            return None

    def keep(self, rule: Any) -> Any:
        """Keeps the result of the rule, and returns it."""
        self.cache.keep(self.key, lambda: _written(rule))
        return replace(rule, origin=self.key) if isinstance(rule, Linearization) else rule

    def find_alike(self) -> tuple[()] | tuple[Any, tuple[int, ...]]:
        """The result of a pointwise op's rule for some shape, and that shape."""
        entry = self.cache.find_alike(self.key)
        rule = entry and CacheSlot(self.cache, entry[0]).find()
        return (rule, entry[1]) if entry and rule else ()

    def keep_alike(self, like: CacheSlot, shape: tuple[int, ...]) -> None:
        """Keeps the place of a result for some shape, and that shape."""
        self.cache.keep_alike(self.key, like.key, shape)


class RuleTemplates:
    """The places in the cache where results of JAX's rules are kept."""

    def __init__(self, cache: RuleCache):
        self._cache = cache

    def place(self, known: Signature, *pattern: Any) -> CacheSlot | None:
        """The place of a rule's result for ops of a signature and a pattern; ``None`` if it is not
        to be kept."""
        if known.text is None or known.name in self._cache.without:
            return None
        return self.place_of(known.text, pattern)

    def place_of(self, text: str, pattern: Any) -> CacheSlot | None:
        """The place of the result that a text and a pattern identify."""
        parts = _plain(pattern)
        return parts and CacheSlot(self._cache, self._cache.key(text, parts))

    def pullback_place(self, halves: Linearization, nonzero: Mask) -> CacheSlot | None:
        """The place of a linearized op's pullback: its linear half, transposed op by op."""
        if halves.origin is None:
            return None
        without = self._cache.without
        ops = halves.tangent.function.regions[0].blocks[0] if without else ()
        if any(op.name in without for op in ops):
            return None
        return self.place_of(halves.origin.hex(), ("pullback", nonzero))


def _plain(value: Any) -> str | None:
    """A pattern as text; ``None`` unless it is made of numbers and flags."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return repr(value)
    if kind is tuple:
        items = list(map(_plain, value))
        return None if None in items else f"({', '.join(items)})"
    if kind is batching.AxisData and type(value.size) is int:
        nameless = value.name is core.no_axis_name and value.spmd_name is None
        return f"axis {value.size}" if nameless and value.explicit_mesh_axis is None else None
    return None


def _written(entry: Any) -> bytes | None:
    """A rule's result as bytes: a line about it, and the bytecode of its templates."""
    if isinstance(entry, Linearization):
        rules, head = [entry.primal, entry.tangent], [entry.uses]
    else:
        rules, head = [entry], []
    codes = [bytecode(rule.function.operation) for rule in rules]
    line = [list(map(len, codes)), *head, *(rule.pattern for rule in rules)]
    try:
        value = b"".join([json.dumps(line).encode(), b"\n", *codes])
    except TypeError:  # A pattern has more in it than numbers.
        return None
    return None if is_of_process(value) else value


def _read(value: bytes, key: bytes) -> Any:
    line, _, codes = value.partition(b"\n")
    sizes, *head = _tuples(json.loads(line))
    functions: list[Any] = []
    for size in sizes:
        module = ir.Module.parse(codes[:size])
        _alive.append(module)
        functions += module.body.operations
        codes = codes[size:]
    if len(functions) == 1:
        return Template(*functions, *head)
    uses, *patterns = head
    return Linearization(*map(Template, functions, patterns), uses, origin=key)


# An operation does not keep its module alive, and rules live as long as the process.
_alive: list[ir.Module] = []


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
