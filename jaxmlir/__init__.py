"""jaxmlir: JAX programs as an MLIR dialect, still transformable.

    program = jaxmlir.trace(f)(x)     # a Python function becomes a module of the jaxpr dialect
    print(program)                    # ... which is plain MLIR text
    program = jaxmlir.parse(text)     # and back
    program(x)                        # lowered to StableHLO and run through PJRT

Names are loaded on first use: parsing and printing modules does not import JAX.

``JAXMLIR_BACKEND=1`` in the environment makes every ``jax.jit`` of the process compile through the
dialect from here on (see :mod:`jaxmlir.backend`).
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from jaxmlir.support.lazy import lazy_names

__version__ = "0.1.0"

_EXPORTS = {
    "Program": "program.program",
    "aot": "program.ahead_of_time",
    "custom_inverse": "transforms.inverses.given",
    "from_exported": "program.raised",
    "from_jaxpr": "program.staging",
    "from_stablehlo": "program.raised",
    "jacobian": "program.transforms.sparse",
    "jit": "program.jit",
    "load": "program.staging",
    "parse": "program.staging",
    "register_inverse": "transforms.inverses.given",
    "register_node_type": "dialect.codec.pytrees",
    "register_param_type": "dialect.codec",
    "trace": "program.staging",
}

__all__ = [*_EXPORTS]

_SUBMODULES = frozenset({"backend", "debug", "errors", "interpret", "passes", "toolbox"})


if TYPE_CHECKING:
    from jaxmlir import backend as backend
    from jaxmlir import debug as debug
    from jaxmlir import errors as errors
    from jaxmlir import interpret as interpret
    from jaxmlir import passes as passes
    from jaxmlir import toolbox as toolbox
    from jaxmlir.dialect.codec import register_param_type as register_param_type
    from jaxmlir.dialect.codec.pytrees import register_node_type as register_node_type
    from jaxmlir.program.ahead_of_time import aot as aot
    from jaxmlir.program.jit import jit as jit
    from jaxmlir.program.program import Program as Program
    from jaxmlir.program.raised import from_exported as from_exported
    from jaxmlir.program.raised import from_stablehlo as from_stablehlo
    from jaxmlir.program.staging import from_jaxpr as from_jaxpr
    from jaxmlir.program.staging import load as load
    from jaxmlir.program.staging import parse as parse
    from jaxmlir.program.staging import trace as trace
    from jaxmlir.program.transforms.sparse import jacobian as jacobian
    from jaxmlir.transforms.inverses.given import custom_inverse as custom_inverse
    from jaxmlir.transforms.inverses.given import register_inverse as register_inverse
else:
    __getattr__ = lazy_names(__name__, _EXPORTS, _SUBMODULES)


def __dir__() -> list[str]:
    """The public names only, without the imports of this file and the modules loaded so far."""
    special = {name for name in globals() if name.startswith("__")}
    return sorted({*special, *__all__, *_SUBMODULES})


if os.environ.get("JAXMLIR_BACKEND", "0") not in ("", "0"):
    importlib.import_module("jaxmlir.backend").enable()
