"""Templates: the output of JAX's lowering rules for ops without functions, in this process and on
disk (:mod:`jaxmlir.caching.rule_cache`)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from jaxmlir._compat import mlir
from jaxmlir.analysis.pointwise import PointwiseKind, Shape
from jaxmlir.caching import disk_cache
from jaxmlir.dialect.ir import bytecode, inner_ops, ir
from jaxmlir.dialect.op_signature import Signature

if TYPE_CHECKING:
    from jaxmlir.caching.rule_cache import RuleCache


class LoweringTemplate:
    """A rule's output as a function whose body is copied for each op."""

    __slots__ = ("function", "module")

    def __init__(self, function: Any, module: ir.Module | None = None):
        self.function: Any = function
        # Keeps the module alive: an operation does not.
        self.module: Any | None = module

    @classmethod
    def read(cls, code: bytes) -> LoweringTemplate:
        """The template with this :attr:`code`, in the current context."""
        module = ir.Module.parse(code)
        (function,) = module.body.operations
        return cls(function.operation, module)

    @property
    def code(self) -> bytes:
        """The function as bytecode."""
        return bytecode(self.function)

    @property
    def is_whole(self) -> bool:
        """Whether nothing in it refers to other functions or to library code."""
        return all(_is_plain(op.operation.name) for op in inner_ops(self.function))


@functools.cache
def _is_plain(name: str) -> bool:
    dialect, _, rest = name.partition(".")
    if dialect in ("stablehlo", "chlo"):
        return rest not in ("composite", "custom_call")
    return name == "func.return"


class LeafTemplates:
    """The templates on disk for one environment of a lowering."""

    def __init__(self, cache: RuleCache, environment: str):
        self._cache = cache
        self._environment = environment

    def find(self, known: Signature) -> bytes | None:
        """The bytecode of the template for a signature."""
        key = self._cache.key_of(known, "leaf", self._environment)
        return key and self._cache.find(key)

    def find_alike(self, alike: PointwiseKind) -> tuple[bytes, Shape] | None:
        """The bytecode and the shape of a template for pointwise ops of this kind."""
        return self._cache.find_alike(self._key_of_kind(alike))

    def keep(self, known: Signature, code: bytes, alike: PointwiseKind | None = None) -> None:
        """Keeps a template for later processes, for other shapes too if it is of a kind of
        pointwise ops."""
        key = self._cache.key_of(known, "leaf", self._environment)
        if key is not None:
            self._cache.keep(key, lambda: code)
            if alike is not None:
                self._cache.keep_alike(self._key_of_kind(alike), key, alike.shape)

    def _key_of_kind(self, alike: PointwiseKind) -> bytes:
        return self._cache.key(alike.text, "leaves alike", self._environment)


def kept_leaves(module_context: Any, platforms: Any) -> LeafTemplates | None:
    """The templates on disk for the lowering of a module; ``None`` without a cache directory, with
    a mesh, or with overridden lowering rules."""
    axes, parameters = module_context.axis_context, module_context.lowering_parameters
    mesh = getattr(axes, "abstract_mesh", None)
    is_plain = type(axes) is mlir.sharding_impls.ShardingContext and (mesh is None or mesh.empty)
    if not is_plain or parameters.override_lowering_rules:
        return None
    cache, backend = disk_cache(), module_context.backend
    if cache is None:
        return None
    client = backend and (backend.platform, backend.platform_version)
    return LeafTemplates(cache, repr((platforms, client, axes.device_assignment, parameters)))
