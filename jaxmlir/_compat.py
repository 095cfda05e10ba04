"""The only door to JAX's private modules, and the place where JAX's versions are made alike.

Everything is loaded on first use: printing or parsing a module must not pay for importing JAX.
``from jaxmlir._compat import core`` imports ``jax._src.core`` then and there; a module that wants
to stay light imports ``_compat`` itself and touches attributes inside its functions.

Supported: 0.10.2, 0.11.x, 0.12.x.  Differences between them, and where they are handled:

======================  =================================================================
since 0.11              ``ClosedJaxpr is Jaxpr``: :func:`close_jaxpr`, :func:`open_jaxpr`
since 0.12              ``ShapedArray.layout``; ``JaxprEqnContext.no_collectives``,
                        ``cur_layout_mode``: read by name where present
since 0.12              ``custom_vjp``'s bwd returns ``(cotangents, logs)``:
                        :func:`call_bwd`, :func:`wrap_bwd`
======================  =================================================================
"""

from __future__ import annotations

import importlib
import re
from typing import Any

_MODULES = {
    "ad": "jax._src.interpreters.ad",
    "ad_util": "jax._src.ad_util",
    "api": "jax._src.api",
    "api_util": "jax._src.api_util",
    "batching": "jax._src.interpreters.batching",
    "config": "jax._src.config",
    "core": "jax._src.core",
    "custom_derivatives": "jax._src.custom_derivatives",
    "debugging": "jax._src.debugging",
    "dtypes": "jax._src.dtypes",
    "effects": "jax._src.effects",
    "jax_mlir_ext": "jaxlib.mlir._mlir_libs._jax_mlir_ext",
    "lu": "jax._src.linear_util",
    "mesh_lib": "jax._src.mesh",
    "mlir": "jax._src.interpreters.mlir",
    "named_sharding": "jax._src.named_sharding",
    "pe": "jax._src.interpreters.partial_eval",
    "pjit": "jax._src.pjit",
    "prng": "jax._src.random.prng",
    "sharding_impls": "jax._src.sharding_impls",
    "site_initialize": "jaxlib.mlir._mlir_libs",
    "source_info_util": "jax._src.source_info_util",
    "stages": "jax._src.stages",
    "state_types": "jax._src.state.types",
    "traceback_util": "jax._src.traceback_util",
    "tree_util": "jax._src.tree_util",
    "xc": "jax._src.lib.xla_client",
}


def __getattr__(name: str) -> Any:
    try:
        module = importlib.import_module(_MODULES[name])
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = module
    return module


def jax_version() -> tuple[int, ...]:
    """The installed JAX's version as integers, read from its metadata without importing it."""
    from importlib.metadata import version

    return tuple(int(part) for part in re.findall(r"\d+", version("jax"))[:3])
