"""Passes: program-to-program transformations that mutate a module in place.

A pass is named in a pipeline as MLIR names its own::

    program.run_passes("jaxpr-verify, cse, func.func(canonicalize)")

``jaxmlir-opt --list-passes`` lists them.  A package adds its own under the entry-point group
``jaxmlir.passes``: ``my-pass = "my_package.my_module:MyPass"``.

What runs pipelines is loaded on first use: a program is differentiated without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxmlir._lazy import lazy_names
from jaxmlir.errors import nearest

if TYPE_CHECKING:
    from jaxmlir.passes._base import Option, Pass
    from jaxmlir.passes._instrument import Instrumentation, Timing
    from jaxmlir.passes._levels import LEVELS, STORAGE, level_pipeline, level_stages
    from jaxmlir.passes._pipeline import Pipeline
    from jaxmlir.passes._remarks import remark, remarks_wanted
    from jaxmlir.passes._source import Description

_EXPORTS = {
    "Description": "_source",
    "Instrumentation": "_instrument",
    "LEVELS": "_levels",
    "Option": "_base",
    "Pass": "_base",
    "Pipeline": "_pipeline",
    "STORAGE": "_levels",
    "Timing": "_instrument",
    "level_pipeline": "_levels",
    "level_stages": "_levels",
    "remark": "_remarks",
    "remarks_wanted": "_remarks",
}

BUILTIN_PASSES = (
    ("jaxpr-batch-blocks", "jaxmlir.passes.batch_blocks:BatchBlocks"),
    ("jaxpr-batch-scans", "jaxmlir.passes.batch_scans:BatchScans"),
    ("jaxpr-canonicalize", "jaxmlir.passes.canonicalize:Canonicalize"),
    ("jaxpr-checkpoint-while", "jaxmlir.passes.checkpoint_while:CheckpointWhile"),
    ("jaxpr-collapse", "jaxmlir.passes.collapse:Collapse"),
    ("jaxpr-compute-late", "jaxmlir.passes.compute_late:ComputeLate"),
    ("jaxpr-cost", "jaxmlir.passes.cost:PrintCost"),
    ("jaxpr-cse", "jaxmlir.passes.cse:Cse"),
    ("jaxpr-dce", "jaxmlir.passes.dce:Dce"),
    ("jaxpr-dedupe-functions", "jaxmlir.passes.dedupe_functions:DedupeFunctions"),
    ("jaxpr-defer-sums", "jaxmlir.passes.defer_sums:DeferSums"),
    ("jaxpr-discharge-refs", "jaxmlir.passes.discharge_refs:DischargeRefs"),
    ("jaxpr-distribute", "jaxmlir.passes.distribute:Distribute"),
    ("jaxpr-drop-unit-dims", "jaxmlir.passes.drop_unit_dims:DropUnitDims"),
    ("jaxpr-expand-convolutions", "jaxmlir.passes.expand_convolutions:ExpandConvolutions"),
    ("jaxpr-expand-cumlogsumexp", "jaxmlir.passes.expand_cumlogsumexp:ExpandCumlogsumexp"),
    ("jaxpr-expand-custom-lin", "jaxmlir.passes.expand_custom_lin:ExpandCustomLin"),
    ("jaxpr-expand-depthwise", "jaxmlir.passes.expand_depthwise:ExpandDepthwise"),
    ("jaxpr-expand-factorizations", "jaxmlir.passes.expand_factorizations:ExpandFactorizations"),
    ("jaxpr-expand-products", "jaxmlir.passes.expand_products:ExpandProducts"),
    ("jaxpr-expand-scatter", "jaxmlir.passes.expand_scatter:ExpandScatter"),
    (
        "jaxpr-expand-select-and-scatter",
        "jaxmlir.passes.expand_select_and_scatter:ExpandSelectAndScatter",
    ),
    ("jaxpr-expand-trigonometry", "jaxmlir.passes.expand_trigonometry:ExpandTrigonometry"),
    ("jaxpr-fence", "jaxmlir.passes.fence:Fence"),
    ("jaxpr-flatten-products", "jaxmlir.passes.flatten_products:FlattenProducts"),
    ("jaxpr-gather-dot", "jaxmlir.passes.gather_dot:GatherDot"),
    ("jaxpr-grad", "jaxmlir.passes.vjp:Grad"),
    ("jaxpr-halo", "jaxmlir.passes.halo:Halo"),
    ("jaxpr-inline", "jaxmlir.passes.inline:Inline"),
    ("jaxpr-inverse", "jaxmlir.passes.inverse:Inverse"),
    ("jaxpr-jvp", "jaxmlir.passes.jvp:Jvp"),
    ("jaxpr-legalize-to-stablehlo", "jaxmlir.passes.legalize_to_stablehlo:LegalizeToStablehlo"),
    ("jaxpr-licm", "jaxmlir.passes.licm:Licm"),
    ("jaxpr-linearize", "jaxmlir.passes.linearize:Linearize"),
    ("jaxpr-log-products", "jaxmlir.passes.log_products:LogProducts"),
    ("jaxpr-map-calls", "jaxmlir.passes.map_calls:MapCalls"),
    ("jaxpr-matmul-precision", "jaxmlir.passes.matmul_precision:MatmulPrecision"),
    ("jaxpr-outline", "jaxmlir.passes.outline:Outline"),
    ("jaxpr-parallel-loops", "jaxmlir.passes.parallel_loops:ParallelLoops"),
    ("jaxpr-partial-eval", "jaxmlir.passes.partial_eval:PartialEval"),
    ("jaxpr-raise-convolutions", "jaxmlir.passes.raise_convolutions:RaiseConvolutions"),
    ("jaxpr-raise-loops", "jaxmlir.passes.raise_loops:RaiseLoops"),
    ("jaxpr-reassociate", "jaxmlir.passes.reassociate:Reassociate"),
    ("jaxpr-recompute", "jaxmlir.passes.recompute:Recompute"),
    ("jaxpr-remat", "jaxmlir.passes.remat:Remat"),
    ("jaxpr-reroll", "jaxmlir.passes.reroll:Reroll"),
    ("jaxpr-scan-in-place", "jaxmlir.passes.scan_in_place:ScanInPlace"),
    ("jaxpr-segment", "jaxmlir.passes.segment:Segments"),
    ("jaxpr-select-early", "jaxmlir.passes.select_early:SelectEarly"),
    ("jaxpr-slp-vectorize", "jaxmlir.passes.slp:SlpVectorize"),
    ("jaxpr-solve-late", "jaxmlir.passes.solve_late:SolveLate"),
    ("jaxpr-solve-once", "jaxmlir.passes.solve_once:SolveOnce"),
    ("jaxpr-stop-shifts", "jaxmlir.passes.stop_shifts:StopShifts"),
    ("jaxpr-tile", "jaxmlir.passes.tile:Tile"),
    ("jaxpr-transpose", "jaxmlir.passes.transpose:Transpose"),
    ("jaxpr-unroll-reductions", "jaxmlir.passes.unroll_reductions:UnrollReductions"),
    ("jaxpr-verify", "jaxmlir.passes.verify:Verify"),
    ("jaxpr-vjp", "jaxmlir.passes.vjp:Vjp"),
    ("jaxpr-vmap", "jaxmlir.passes.vmap:Vmap"),
)
"""Name and ``module:Class`` of every pass of jaxmlir, imported when the pass is used."""


# Those that users of the package want, and that no other name of it loads.
_SUBMODULES = frozenset({"cost", "toolbox"})


__getattr__ = lazy_names(__name__, _EXPORTS, _SUBMODULES)


def find_pass(name: str) -> type[Pass] | None:
    """The class of a pass written in Python, or None: then it may be a C++ pass."""
    from jaxmlir.passes import _registry

    return _registry.find(name, BUILTIN_PASSES)


def pass_exists(name: str) -> bool:
    """Whether a pipeline may name this pass, in Python or in C++."""
    from jaxmlir.passes import _cxx

    return bool(name) and (find_pass(name) is not None or _cxx.exists(name))


def describe_passes() -> dict[str, dict[str, Description]]:
    """Summary and options of every pass, by origin and name, without importing the passes."""
    from jaxmlir.passes import _cxx, _registry, _source
    from jaxmlir.passes._base import Pass

    builtin = {name: _source.of_target(target) for name, target in BUILTIN_PASSES}
    plugins = {p.name: _source.of_target(p.value) for p in _registry.plugins()}
    loaded = {
        name: _source.of_class(cls)
        for name, cls in Pass.loaded.items()
        if name not in builtin and name not in plugins
    }
    cxx = {name: _source.Description(summary) for name, summary in _cxx.available().items()}
    return {
        "Passes of jaxmlir": builtin,
        "Passes of loaded modules and installed packages": plugins | loaded,
        "C++ passes of MLIR, StableHLO and Shardy": cxx,
    }


def list_passes() -> dict[str, dict[str, str]]:
    """Name and summary of every pass, by origin, without importing the passes."""
    return {
        origin: {name: found.summary for name, found in group.items()}
        for origin, group in describe_passes().items()
    }


def suggest_pass(name: str) -> str | None:
    """The pass whose name is nearest to a mistyped one."""
    return nearest(name, (n for group in list_passes().values() for n in group))


def parse_pipeline(text: str) -> Pipeline:
    """Parses MLIR's textual pipeline, e.g. ``builtin.module(jaxpr-verify,func.func(cse))``.

    Raises:
      PipelineError: malformed, or an unknown pass or option; points at the column, and suggests
        the nearest name.
    """
    from jaxmlir.passes import _pipeline

    return _pipeline.parse_pipeline(text, find_pass, suggest_pass)


__all__ = [
    "BUILTIN_PASSES",
    "Description",
    "LEVELS",
    "STORAGE",
    "Instrumentation",
    "Option",
    "Pass",
    "Pipeline",
    "Timing",
    "describe_passes",
    "find_pass",
    "level_pipeline",
    "level_stages",
    "list_passes",
    "parse_pipeline",
    "pass_exists",
    "remark",
    "remarks_wanted",
    "suggest_pass",
]
