"""Passes: program-to-program transformations that mutate a module in place.

A pass is named in a pipeline as MLIR names its own::

    program.run_passes("jaxpr-verify, cse, func.func(canonicalize)")

``jaxmlir-opt --list-passes`` lists them.  A package adds its own under the entry-point group
``jaxmlir.passes``: ``my-pass = "my_package.my_module:MyPass"``.

The modules that run pipelines are loaded on first use: differentiating a program needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxmlir.errors import nearest
from jaxmlir.support.lazy import lazy_names

_EXPORTS = {
    "Description": "descriptions",
    "Instrumentation": "instrument",
    "LEVELS": "levels",
    "Option": "base",
    "Pass": "base",
    "Pipeline": "pipeline",
    "STORAGE": "levels",
    "Statistics": "instrument",
    "Timing": "instrument",
    "level_pipeline": "levels",
    "level_stages": "levels",
    "remark": "remarks",
    "remarks_wanted": "remarks",
}

BUILTIN_PASSES = (
    ("jaxpr-bound-maxima", "jaxmlir.optimize.tpu.bound_maxima:BoundMaxima"),
    ("jaxpr-canonicalize", "jaxmlir.optimize.simplify.canonicalize:Canonicalize"),
    ("jaxpr-carry-conditions", "jaxmlir.optimize.tpu.carry_conditions:CarryConditions"),
    ("jaxpr-checkpoint-segments", "jaxmlir.optimize.memory.checkpoint_segments:CheckpointSegments"),
    ("jaxpr-checkpoint-while", "jaxmlir.transforms.checkpoint_while:CheckpointWhile"),
    ("jaxpr-cost", "jaxmlir.analysis.cost:PrintCost"),
    ("jaxpr-cse", "jaxmlir.optimize.simplify.cse:Cse"),
    ("jaxpr-dce", "jaxmlir.optimize.simplify.dce:Dce"),
    ("jaxpr-dedupe-functions", "jaxmlir.rewriting.dedupe:DedupeFunctions"),
    ("jaxpr-discharge-refs", "jaxmlir.transforms.discharge_refs:DischargeRefs"),
    ("jaxpr-distribute-scans", "jaxmlir.optimize.loops.distribute_scans:DistributeScans"),
    ("jaxpr-dot-to-2d", "jaxmlir.optimize.cpu.dot_to_2d:DotTo2d"),
    ("jaxpr-drop-callbacks", "jaxmlir.optimize.simplify.drop_callbacks:DropCallbacks"),
    ("jaxpr-expand-convolutions", "jaxmlir.optimize.cpu.expand_convolutions:ExpandConvolutions"),
    ("jaxpr-expand-cumulative", "jaxmlir.optimize.cpu.expand_cumulative:ExpandCumulative"),
    ("jaxpr-expand-custom-lin", "jaxmlir.transforms.expand_custom_lin:ExpandCustomLin"),
    ("jaxpr-expand-depthwise", "jaxmlir.optimize.cpu.expand_depthwise:ExpandDepthwise"),
    ("jaxpr-expand-elementary", "jaxmlir.optimize.cpu.elementary.expand:ExpandElementary"),
    (
        "jaxpr-expand-factorizations",
        "jaxmlir.optimize.cpu.expand_factorizations:ExpandFactorizations",
    ),
    ("jaxpr-expand-products", "jaxmlir.optimize.cpu.expand_products:ExpandProducts"),
    ("jaxpr-expand-random-bits", "jaxmlir.optimize.cpu.expand_random_bits:ExpandRandomBits"),
    ("jaxpr-expand-scatter", "jaxmlir.optimize.cpu.expand_scatter:ExpandScatter"),
    (
        "jaxpr-expand-select-and-scatter",
        "jaxmlir.optimize.cpu.expand_select_and_scatter:ExpandSelectAndScatter",
    ),
    ("jaxpr-expand-sorts", "jaxmlir.optimize.cpu.expand_sorts:ExpandSorts"),
    ("jaxpr-factor-linear-sums", "jaxmlir.optimize.algebra.factor_linear_sums:FactorLinearSums"),
    ("jaxpr-factor-logsumexp", "jaxmlir.optimize.algebra.factor_logsumexp:FactorLogsumexp"),
    ("jaxpr-fence-initial-values", "jaxmlir.optimize.tpu.fence_initial_values:FenceInitialValues"),
    ("jaxpr-fold-constants", "jaxmlir.runtime.fold_constants:FoldConstants"),
    ("jaxpr-fold-unit-dims", "jaxmlir.optimize.simplify.fold_unit_dims:FoldUnitDims"),
    ("jaxpr-fuse-scans", "jaxmlir.optimize.loops.fuse_scans:FuseScans"),
    ("jaxpr-gather-dot", "jaxmlir.optimize.algebra.gather_dot:GatherDot"),
    ("jaxpr-grad", "jaxmlir.transforms.vjp:Grad"),
    ("jaxpr-hessian-sparsity", "jaxmlir.sparse.detect:PrintHessianSparsity"),
    ("jaxpr-hoist-slices", "jaxmlir.optimize.algebra.hoist_slices:HoistSlices"),
    ("jaxpr-inline", "jaxmlir.rewriting.inline:Inline"),
    ("jaxpr-inplace-scans", "jaxmlir.optimize.loops.inplace_scans:InplaceScans"),
    ("jaxpr-inverse", "jaxmlir.transforms.inverses.invert:Inverse"),
    ("jaxpr-jacobian-sparsity", "jaxmlir.sparse.detect:PrintJacobianSparsity"),
    ("jaxpr-jvp", "jaxmlir.transforms.jvp:Jvp"),
    ("jaxpr-legalize-to-stablehlo", "jaxmlir.lowering.lowering:LegalizeToStablehlo"),
    ("jaxpr-licm", "jaxmlir.optimize.loops.licm:Licm"),
    ("jaxpr-linearize", "jaxmlir.transforms.linearize:Linearize"),
    ("jaxpr-materialize-shared", "jaxmlir.optimize.cpu.materialize_shared:MaterializeShared"),
    ("jaxpr-matmul-precision", "jaxmlir.optimize.simplify.matmul_precision:MatmulPrecision"),
    ("jaxpr-outline", "jaxmlir.optimize.simplify.outline:Outline"),
    ("jaxpr-pad-slices", "jaxmlir.optimize.tpu.pad_slices:PadSlices"),
    ("jaxpr-pad-stencils", "jaxmlir.optimize.cpu.pad_stencils:PadStencils"),
    ("jaxpr-parallel-loops", "jaxmlir.optimize.cpu.parallel_loops:ParallelLoops"),
    ("jaxpr-partial-eval", "jaxmlir.transforms.partial_eval:PartialEval"),
    ("jaxpr-raise-convolutions", "jaxmlir.optimize.vectorize.raise_convolutions:RaiseConvolutions"),
    ("jaxpr-raise-loops", "jaxmlir.optimize.loops.raise_loops:RaiseLoops"),
    ("jaxpr-raise-stablehlo", "jaxmlir.raising.raising:RaiseStablehlo"),
    ("jaxpr-reassociate", "jaxmlir.optimize.algebra.reassociate:Reassociate"),
    ("jaxpr-reassociate-solves", "jaxmlir.optimize.algebra.reassociate_solves:ReassociateSolves"),
    ("jaxpr-remat", "jaxmlir.optimize.memory.remat:Remat"),
    ("jaxpr-reroll", "jaxmlir.optimize.loops.reroll:Reroll"),
    ("jaxpr-shift-invariance", "jaxmlir.optimize.algebra.shift_invariance:ShiftInvariance"),
    ("jaxpr-sink-recompute", "jaxmlir.optimize.memory.sink_recompute:SinkRecompute"),
    ("jaxpr-sink-reductions", "jaxmlir.optimize.loops.sink_reductions:SinkReductions"),
    ("jaxpr-slices-to-split", "jaxmlir.optimize.cpu.slices_to_split:SlicesToSplit"),
    ("jaxpr-slp-vectorize", "jaxmlir.optimize.vectorize.slp:SlpVectorize"),
    ("jaxpr-sum-in-products", "jaxmlir.optimize.tpu.sum_in_products:SumInProducts"),
    ("jaxpr-tile", "jaxmlir.optimize.memory.tile:Tile"),
    ("jaxpr-transpose", "jaxmlir.transforms.transpose:Transpose"),
    ("jaxpr-unroll-reductions", "jaxmlir.optimize.cpu.unroll_reductions:UnrollReductions"),
    ("jaxpr-unroll-scans", "jaxmlir.optimize.loops.unroll_scans:UnrollScans"),
    ("jaxpr-vectorize-blocks", "jaxmlir.optimize.vectorize.vectorize_blocks:VectorizeBlocks"),
    ("jaxpr-verify", "jaxmlir.verify.verifier:Verify"),
    ("jaxpr-vjp", "jaxmlir.transforms.vjp:Vjp"),
    ("jaxpr-vmap", "jaxmlir.transforms.vmap:Vmap"),
    ("jaxpr-zero-sums", "jaxmlir.optimize.algebra.zero_sums:ZeroSums"),
)
"""Name and ``module:Class`` of every pass of jaxmlir, imported when the pass is used."""


if TYPE_CHECKING:
    from jaxmlir.passes.base import Option as Option
    from jaxmlir.passes.base import Pass as Pass
    from jaxmlir.passes.descriptions import Description as Description
    from jaxmlir.passes.instrument import Instrumentation as Instrumentation
    from jaxmlir.passes.instrument import Statistics as Statistics
    from jaxmlir.passes.instrument import Timing as Timing
    from jaxmlir.passes.levels import LEVELS as LEVELS
    from jaxmlir.passes.levels import STORAGE as STORAGE
    from jaxmlir.passes.levels import level_pipeline as level_pipeline
    from jaxmlir.passes.levels import level_stages as level_stages
    from jaxmlir.passes.pipeline import Pipeline as Pipeline
    from jaxmlir.passes.remarks import remark as remark
    from jaxmlir.passes.remarks import remarks_wanted as remarks_wanted
else:
    __getattr__ = lazy_names(__name__, _EXPORTS, ())


def find_pass(name: str) -> type[Pass] | None:
    """The class of a pass written in Python; ``None`` for other names, such as C++ passes."""
    from jaxmlir.passes import base

    return base.find_class(name, BUILTIN_PASSES)


def pass_exists(name: str) -> bool:
    """Whether there is a pass of this name, in Python or in C++."""
    from jaxmlir.passes import cxx

    return bool(name) and (find_pass(name) is not None or cxx.exists(name))


def describe_passes() -> dict[str, dict[str, Description]]:
    """Summary and options of every pass, by origin and name, without importing the passes."""
    from jaxmlir.passes import base, cxx, descriptions
    from jaxmlir.passes.base import Pass

    builtin = {name: descriptions.of_target(target) for name, target in BUILTIN_PASSES}
    plugins = {p.name: descriptions.of_target(p.value) for p in base.plugins()}
    loaded = {
        name: descriptions.of_class(cls)
        for name, cls in Pass.loaded.items()
        if name not in builtin and name not in plugins
    }
    cxx = {name: descriptions.Description(summary) for name, summary in cxx.available().items()}
    return {
        "Passes of jaxmlir": builtin,
        "Passes of loaded modules and installed packages": plugins | loaded,
        "C++ passes of MLIR, StableHLO and Shardy": cxx,
    }


def list_passes() -> dict[str, dict[str, str]]:
    """Name and summary of every pass, by origin, without importing the passes."""
    return {
        origin: {name: description.summary for name, description in group.items()}
        for origin, group in describe_passes().items()
    }


def suggest_pass(name: str) -> str | None:
    """The pass whose name is nearest to a mistyped one."""
    return nearest(name, (n for group in list_passes().values() for n in group))


def parse_pipeline(text: str) -> Pipeline:
    """Parses MLIR's textual pipeline, e.g. ``builtin.module(jaxpr-verify,func.func(cse))``.

    Raises:
      PipelineError: the text is malformed, or a pass or option is unknown; points at the column
        and suggests the nearest name.
    """
    from jaxmlir.passes import pipeline

    return pipeline.parse_pipeline(text, find_pass, suggest_pass)


__all__ = [
    *_EXPORTS,
    "BUILTIN_PASSES",
    "describe_passes",
    "find_pass",
    "list_passes",
    "parse_pipeline",
    "pass_exists",
    "suggest_pass",
]
