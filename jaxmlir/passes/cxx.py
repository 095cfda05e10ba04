"""The C++ passes inside jaxlib: MLIR's, StableHLO's, CHLO's and Shardy's.

MLIR's Python bindings parse a pipeline but cannot list the passes they know.  So the names are
listed here, and the parser of the installed jaxlib is asked which of them exist.  A name that is
not in this table works in a pipeline if the parser knows it.
"""

from __future__ import annotations

import functools
import re

from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from jaxmlir._compat import mlir_hlo
from jaxmlir.dialect.ir import context

PASSES = {
    "canonicalize": "Canonicalize operations",
    "composite-fixed-point-pass": "Run a pipeline until the module stops changing",
    "control-flow-sink": "Sink operations into the regions that use them",
    "cse": "Eliminate common sub-expressions",
    "inline": "Inline function calls",
    "loop-invariant-code-motion": "Hoist loop invariant instructions outside of the loop",
    "mem2reg": "Promote memory slots into values",
    "print-ir": "Print the module on stderr",
    "print-op-stats": "Print how often each operation occurs",
    "remove-dead-values": "Remove values, arguments and results that nobody uses",
    "sccp": "Sparse conditional constant propagation",
    "snapshot-op-locations": "Take new locations from the printed module",
    "sroa": "Scalar replacement of aggregates",
    "strip-debuginfo": "Replace all locations by unknown ones",
    "symbol-dce": "Remove functions that nobody refers to",
    "symbol-privatize": "Make all symbols private, except those listed",
    "topological-sort": "Sort the operations of blocks without SSA dominance",
    "trivial-dce": "Remove operations that are trivially dead",
    "view-op-graph": "Print the module as a Graphviz graph",
    "chlo-legalize-to-stablehlo": "Legalize CHLO to StableHLO",
    "shape-legalize-to-stablehlo": "Legalize the shape dialect to StableHLO",
    "stablehlo-canonicalize-dynamism": "Make dynamic StableHLO operations static where possible",
    "stablehlo-check-shape-assertions": "Check and remove shape assertion custom calls",
    "stablehlo-compatibility-expander": "Decompose operations that an older StableHLO lacks",
    "stablehlo-complex-math-expander": "Expand complex math into accurate real math",
    "stablehlo-convert-to-signless": "Convert signed and unsigned integers to signless ones",
    "stablehlo-legalize-composite-to-call": "Replace composites by calls of their decomposition",
    "stablehlo-legalize-deprecated-ops": "Replace deprecated StableHLO operations",
    "stablehlo-legalize-qdq-to-quantized-op": "Fuse dequantize, op, quantize into a quantized op",
    "stablehlo-legalize-quant-to-math": "Legalize quantized operations to integer math",
    "stablehlo-legalize-quantized-op-to-qdq": "Split quantized ops into dequantize, op, quantize",
    "stablehlo-legalize-to-hlo": "Legalize StableHLO to MHLO",
    "stablehlo-legalize-to-linalg": "Legalize StableHLO to linalg",
    "stablehlo-legalize-to-vhlo": "Legalize StableHLO to the versioned dialect VHLO",
    "stablehlo-refine-arguments": "Refine the argument types of the main function",
    "stablehlo-refine-shapes": "Infer static shapes throughout a StableHLO module",
    "stablehlo-wrap-in-composite": "Wrap StableHLO operations in composites",
    "vhlo-legalize-to-stablehlo": "Legalize VHLO to StableHLO",
    "vhlo-to-version": "Convert VHLO between versions",
    "hlo-legalize-to-stablehlo": "Legalize MHLO to StableHLO",
    "sdy-aggressive-propagate": "Propagate shardings, resolving conflicts greedily",
    "sdy-apply-sharding-constraints": "Apply sharding constraints to the values they constrain",
    "sdy-basic-propagate": "Propagate shardings where there are no conflicts",
    "sdy-close-shardings": "Close tensor shardings and drop replicated axes",
    "sdy-drop-sharding-rules": "Remove the sharding rules of registered operations",
    "sdy-export-pipeline": "Run the passes that follow propagation",
    "sdy-import-pipeline": "Run the passes that propagation needs first",
    "sdy-inline-meshes": "Inline the meshes into the shardings",
    "sdy-insert-explicit-reshards": "Insert reshards where operations disagree",
    "sdy-lift-inlined-meshes": "Turn inlined meshes into symbols",
    "sdy-op-priority-propagate": "Propagate shardings by operation priority",
    "sdy-populate-op-sharding-rules": "Attach sharding rules to operations",
    "sdy-propagation-pipeline": "Run the whole propagation: import, propagate, export",
    "sdy-reshard-to-collectives": "Turn reshards into collectives",
    "sdy-sharding-constraint-to-reshard": "Turn sharding constraints into reshards",
    "sdy-user-priority-propagate": "Propagate shardings by the user's priorities",
}

_NAMES_IN_DUMPS = {"canonicalize": "Canonicalizer", "inline": "Inliner", "print-ir": "PrintIRPass"}
_ACRONYMS = ("cse", "dce", "sccp", "sroa", "hlo", "vhlo", "chlo", "mhlo", "qdq")
_RESTRICTED = re.compile(r"restricted to '([^']*)'")


@functools.cache
def _register() -> None:
    stablehlo.register_stablehlo_passes()
    mlir_hlo.register_mhlo_passes()


def parse(element: str, anchor: str = "builtin.module") -> PassManager:
    """A PassManager for ``anchor(element)``; a ValueError with the message of MLIR's parser."""
    _register()
    with context() as ctx:
        return PassManager.parse(f"{anchor}({element})", context=ctx)


def anchor_of(element: str, anchor: str = "builtin.module") -> str | None:
    """The op that a pass must be nested in to run under ``anchor``; None if it needs no nesting.
    If there is no such pass, a ValueError with the message of MLIR's parser."""
    try:
        parse(element, anchor)
    except ValueError as e:
        restricted = _RESTRICTED.search(str(e))
        if restricted is None:
            raise
        return restricted[1]
    return None


def exists(name: str) -> bool:
    """Whether the installed jaxlib has a C++ pass or pipeline of this name."""
    try:
        anchor_of(name, "any")
    except ValueError as e:
        return "does not refer to a registered pass" not in str(e)
    return True


def available() -> dict[str, str]:
    """The passes of the table that the installed jaxlib has, with their summaries."""
    return {name: summary for name, summary in PASSES.items() if exists(name)}


def options(name: str) -> list[str]:
    """The options of a C++ pass with their defaults, as MLIR prints them."""
    printed = str(parse(name, "any"))
    body = re.fullmatch(rf"any\({re.escape(name)}\{{(.*)\}}\)", printed, re.DOTALL)
    return body[1].split() if body else []


def display_name(name: str) -> str:
    """The name that a dump or timing report shows: ``CSE`` for ``cse``."""
    if name in _NAMES_IN_DUMPS:
        return _NAMES_IN_DUMPS[name]
    return "".join(
        word.upper() if word in _ACRONYMS else word.capitalize() for word in name.split("-")
    )
