"""The pipelines ``-O0``, ``-O1`` ... of ``jaxmlir-opt`` and ``jit(f, optimize=)``.

A level is a tuple of passes, with their default options.  Level 1 is safe and cheap: it changes no
bit of a result and costs tens of microseconds per op.  Level 2 changes the structure of a program
as well where a cost model says that it pays, and decides what is computed once and stored.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from jaxmlir.errors import PipelineError, nearest

CLEAN_UP = (
    "jaxpr-dedupe-functions",
    "jaxpr-inline",
    "jaxpr-canonicalize",
    "jaxpr-cse",
    "jaxpr-dce",
)

# Passes that run before a program is differentiated; CLEAN_UP runs again after them.
STRUCTURE = (
    # Functions that were simplified are small now.
    "jaxpr-inline",
    "jaxpr-licm",
    # Folded constants cost nothing when later passes weigh the costs of ops.
    "jaxpr-fold-constants",
    "jaxpr-raise-loops",
    "jaxpr-carry-conditions",
    "jaxpr-raise-convolutions",
    "jaxpr-fuse-scans",
    "jaxpr-slp-vectorize",
    "jaxpr-vectorize-blocks",
    # Sums become products next.
    "jaxpr-zero-sums",
    "jaxpr-reassociate",
    "jaxpr-gather-dot",
    # Hoists what the rewritten products compute from loop invariants.
    "jaxpr-licm",
    "jaxpr-factor-linear-sums",
    "jaxpr-reassociate-solves",
    "jaxpr-shift-invariance",
    "jaxpr-hoist-slices",
    # Merges values that loops were given twice, before blocks are compared.
    "jaxpr-cse",
    "jaxpr-reroll",
    "jaxpr-factor-logsumexp",
    "jaxpr-bound-maxima",
    # Slices for the steps of unrolled loops are gone by now.
    "jaxpr-slices-to-split",
)

# Outlines repeated ops into a function, when no later pass needs to see them inline.
SHARING = ("jaxpr-outline",)

STORAGE = (
    "jaxpr-tile",
    "jaxpr-distribute-scans",
    "jaxpr-remat",
    "jaxpr-sink-reductions",
    "jaxpr-inplace-scans",
    "jaxpr-fold-unit-dims",
    "jaxpr-expand-depthwise",
    "jaxpr-expand-convolutions",
    "jaxpr-expand-select-and-scatter",
    "jaxpr-expand-scatter",
    "jaxpr-expand-cumulative",
    "jaxpr-expand-products",
    "jaxpr-dot-to-2d",
    "jaxpr-unroll-reductions",
    "jaxpr-pad-stencils",
    "jaxpr-sum-in-products",
    "jaxpr-fence-initial-values",
    "jaxpr-pad-slices",
    "jaxpr-materialize-shared",
    "jaxpr-sink-recompute",
    "jaxpr-checkpoint-segments",
    # After the passes that put fences on values: a fence belongs on the result of a factorization,
    # a hash or a sine, not inside its expansion.
    "jaxpr-expand-factorizations",
    "jaxpr-expand-random-bits",
    "jaxpr-expand-sorts",
    "jaxpr-expand-elementary",
    "jaxpr-parallel-loops",
    "jaxpr-unroll-scans",
)
"""The passes of level 2 for a program that is compiled next and not differentiated any more.  They
decide how arrays are laid out, and what batches, loops (for derivatives) and fusions store."""

LEVELS: dict[int, tuple[str, ...]] = {
    0: (),
    1: CLEAN_UP,
    2: (*CLEAN_UP, *STRUCTURE, *CLEAN_UP, *SHARING, *STORAGE),
}
"""The passes of each optimization level, in the order in which they run."""


_CONVOLUTIONS = {"jaxpr.conv_general_dilated"}
_PRODUCTS = {"jaxpr.dot_general"}
_SCANS = {"jaxpr.scan"}
_MOVES = {"jaxpr.concatenate", "jaxpr.pad"}
_LOOPS = _SCANS | {"jaxpr.while"}

NEEDED_OPS: dict[str, Set[str]] = {
    "jaxpr-bound-maxima": {"jaxpr.is_finite"},
    "jaxpr-carry-conditions": {"jaxpr.while"},
    "jaxpr-distribute-scans": _SCANS,
    "jaxpr-dot-to-2d": _PRODUCTS,
    "jaxpr-expand-convolutions": _CONVOLUTIONS,
    "jaxpr-expand-cumulative": {
        f"jaxpr.cum{name}" for name in ("logsumexp", "max", "min", "prod", "sum")
    },
    "jaxpr-expand-depthwise": _CONVOLUTIONS,
    "jaxpr-expand-elementary": {
        *("jaxpr.acos", "jaxpr.asin", "jaxpr.atan", "jaxpr.atan2", "jaxpr.cbrt", "jaxpr.cos"),
        *("jaxpr.exp", "jaxpr.log", "jaxpr.pow", "jaxpr.rem", "jaxpr.sin", "jaxpr.sqrt"),
        *("jaxpr.tan", "jaxpr.tanh"),
    },
    "jaxpr-expand-factorizations": {"jaxpr.cholesky", "jaxpr.triangular_solve", "jaxpr.lu"},
    "jaxpr-expand-products": _PRODUCTS,
    "jaxpr-expand-random-bits": {
        *("jaxpr.random_bits", "jaxpr.random_fold_in", "jaxpr.random_split", "jaxpr.threefry2x32")
    },
    "jaxpr-expand-scatter": {"jaxpr.scatter", "jaxpr.scatter_add"},
    "jaxpr-expand-select-and-scatter": {
        "jaxpr.select_and_gather_add",
        "jaxpr.select_and_scatter_add",
    },
    "jaxpr-expand-sorts": {"jaxpr.sort"},
    "jaxpr-factor-linear-sums": _PRODUCTS | {"jaxpr.reduce_sum"},
    "jaxpr-factor-logsumexp": _SCANS,
    "jaxpr-fence-initial-values": _SCANS,
    "jaxpr-fold-constants": {"jaxpr.constant"},
    "jaxpr-fuse-scans": _SCANS,
    "jaxpr-gather-dot": {
        *("jaxpr.dynamic_slice", "jaxpr.dynamic_update_slice", "jaxpr.eq", "jaxpr.gather"),
        *("jaxpr.pad", "jaxpr.scatter_add", "jaxpr.slice", "jaxpr.split"),
    },
    "jaxpr-hoist-slices": {
        *("jaxpr.dynamic_slice", "jaxpr.gather", "jaxpr.slice", "jaxpr.split", "jaxpr.unstack")
    },
    "jaxpr-inplace-scans": _SCANS,
    "jaxpr-licm": _LOOPS,
    "jaxpr-pad-slices": _MOVES,
    "jaxpr-pad-stencils": _MOVES,
    "jaxpr-parallel-loops": _LOOPS,
    "jaxpr-raise-convolutions": {"jaxpr.slice"},
    "jaxpr-raise-loops": _LOOPS,
    "jaxpr-reassociate-solves": {"jaxpr.triangular_solve", "jaxpr.custom_linear_solve"},
    "jaxpr-remat": _SCANS,
    "jaxpr-shift-invariance": {"jaxpr.reduce_max"},
    "jaxpr-sink-reductions": _SCANS,
    "jaxpr-slices-to-split": {"jaxpr.slice"},
    "jaxpr-sum-in-products": _PRODUCTS,
    "jaxpr-unroll-reductions": {
        *(f"jaxpr.reduce_{name}" for name in ("and", "max", "min", "or", "prod", "sum", "xor")),
        *(f"jaxpr.reduce_window_{name}" for name in ("max", "min", "sum")),
    },
    "jaxpr-unroll-scans": _SCANS,
    "jaxpr-zero-sums": {"jaxpr.reduce_sum"},
}
"""By pass, ops that it needs: it leaves functions without any of them alone, and reads them here.

For a program without any of them, a pass with its default options is not even imported.
"""

COMPILERS: dict[str, tuple[str, ...]] = {
    "jaxpr-bound-maxima": ("tpu",),
    "jaxpr-carry-conditions": ("tpu",),
    "jaxpr-distribute-scans": ("tpu",),
    "jaxpr-fence-initial-values": ("tpu",),
    "jaxpr-pad-slices": ("tpu",),
    "jaxpr-sum-in-products": ("tpu",),
    "jaxpr-unroll-scans": ("cuda", "rocm"),
}
"""The platforms of passes that are not for CPUs; the passes read it here.

For programs of other platforms these passes are not even imported.
"""


def level_pipeline(level: int, without: Collection[str] = ()) -> str:
    """The pipeline of an optimization level as text.

    Args:
      level: a key of ``LEVELS``.
      without: names of passes to leave out.

    Raises:
      PipelineError: there is no such level, or a name is a pass of no level.
    """
    # `True` and 2.0 equal levels, but may be meant as something else.
    if isinstance(level, (bool, float)) or level not in tuple(LEVELS):
        raise PipelineError(
            f"there is no optimization level {level!r}; "
            f"the levels are {', '.join(map(str, LEVELS))}; "
            "jaxmlir.jit(f, optimize='tune') and program.tune(*args) time several forms"
        )
    if isinstance(without, str) or not isinstance(without, Collection):
        hint = f"; write [{without!r}]" if isinstance(without, str) else ""
        raise PipelineError(
            f"without: expected a collection of names of passes, got {without!r}{hint}"
        )
    names = set().union(*LEVELS.values())
    for name in without:
        if name not in names:
            # The prefix makes all names look alike.
            short = {n.removeprefix("jaxpr-"): n for n in names}
            meant = nearest(str(name).removeprefix("jaxpr-"), short)
            hint = f"those that can be left out are {', '.join(sorted(names))}"
            if meant:
                hint = f"did you mean '{short[meant]}'?"
            raise PipelineError(f"'{name}' is not a pass of an optimization level; {hint}")
    return ",".join(name for name in LEVELS[level] if name not in without)


def level_stages(level: int, without: Collection[str] = ()) -> tuple[str, str]:
    """A level's pipeline in two parts: passes before differentiation, and passes before compiling.

    Raises:
      PipelineError: see :func:`level_pipeline`.
    """
    level_pipeline(level, without)
    names = [name for name in LEVELS[level] if name not in without]
    return (
        ",".join(name for name in names if name not in STORAGE),
        ",".join(name for name in names if name in STORAGE),
    )
