"""What JAX's lowering rules gave for ops without functions, for the cache on disk
(:mod:`jaxmlir.rule_cache`), and back."""

from __future__ import annotations

from typing import Any

from jaxmlir._compat import mlir
from jaxmlir._pointwise import Kind, Shape
from jaxmlir._signature import Signature
from jaxmlir.ir import ir
from jaxmlir.rule_cache import RuleCache, current


class KeptLeaves:
    """The templates that are kept for one environment of a lowering."""

    def __init__(self, cache: RuleCache, environment: str):
        self._cache = cache
        self._environment = environment

    def find(self, known: Signature) -> ir.Operation | None:
        """The template for the ops of a signature, in the current context."""
        return self._read(self._key("leaf", known.text)) if known.text else None

    def find_alike(self, alike: Kind) -> tuple[ir.Operation, Shape] | None:
        """That of pointwise ops of some shape, and the shape."""
        found = self._cache.find_alike(self._key("alike", alike.text))
        template = found and self._read(found[0])
        return (template, found[1]) if found and template else None

    def keep(self, known: Signature, text: str, alike: Kind | None = None) -> None:
        """Keeps a template for later processes.

        Args:
          alike: it is to serve for pointwise ops of other shapes, too.
        """
        if known.text and _WITH_LIBRARY not in text:
            key = self._key("leaf", known.text)
            self._cache.keep(key, lambda: [text])
            if alike is not None:
                self._cache.keep_alike(self._key("alike", alike.text), key, alike.shape)

    def _key(self, what: str, text: str) -> bytes:
        return self._cache.key(what, self._environment, text)

    def _read(self, key: bytes) -> ir.Operation | None:
        found = self._cache.find(key)
        try:
            return found and ir.Operation.parse(*found).operation
        except ir.MLIRError:
            return None


# What a rule calls has to be registered by it, or by what it imports.
_WITH_LIBRARY = "custom_call"


def kept_leaves(module_context: Any, platforms: Any) -> KeptLeaves | None:
    """What is kept for the lowering of a module for platforms, unless that is no plain one."""
    axes, parameters = module_context.axis_context, module_context.lowering_parameters
    mesh = getattr(axes, "abstract_mesh", None)
    is_plain = type(axes) is mlir.sharding_impls.ShardingContext and (mesh is None or mesh.empty)
    if not is_plain or parameters.override_lowering_rules:
        return None
    cache, backend = current(), module_context.backend
    if cache is None:
        return None
    client = backend and (backend.platform, backend.platform_version)
    return KeptLeaves(cache, repr((platforms, client, axes.device_assignment, parameters)))
