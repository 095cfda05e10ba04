"""The only access to JAX's private modules, where differences between versions are handled.

Everything is loaded on first use: printing or parsing a module must not pay for importing JAX.
``from jaxmlir._compat import core`` imports ``jax._src.core`` immediately.  To defer that, a module
imports ``_compat`` itself and uses its attributes inside functions.

Supported: 0.10.2, 0.11.x, 0.12.x.  Differences between them, and where they are handled:

======================  =================================================================
since 0.11              ``ClosedJaxpr is Jaxpr``: :func:`close_jaxpr`, :func:`open_jaxpr`
since 0.12              ``ShapedArray.layout``; ``JaxprEqnContext.no_collectives``,
                        ``cur_layout_mode``: read by name where present
since 0.11.1            linearization rules have structured residuals:
                        :func:`register_linearization`
since 0.11.1            ``custom_vjp``'s bwd returns ``(cotangents, logs)``:
                        :func:`call_bwd`, :func:`wrap_bwd`
custom rules as hijax   what these primitives take differs: :mod:`jaxmlir.bridge.custom_rules.hijax`
======================  =================================================================
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
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
    "dispatch": "jax._src.dispatch",
    "dtypes": "jax._src.dtypes",
    "effects": "jax._src.effects",
    "hijax": "jax._src.hijax",
    "jax_export": "jax._src.export._export",
    "jax_mlir_ext": "jaxlib.mlir._mlir_libs._jax_mlir_ext",
    "literals": "jax._src.literals",
    "lu": "jax._src.linear_util",
    "mesh_lib": "jax._src.mesh",
    "mlir": "jax._src.interpreters.mlir",
    "mlir_hlo": "jaxlib.mlir._mlir_libs._mlirHlo",
    "named_sharding": "jax._src.named_sharding",
    "pe": "jax._src.interpreters.partial_eval",
    "prng": "jax._src.random.prng",
    "shape_poly": "jax._src.export.shape_poly",
    "source_info_util": "jax._src.source_info_util",
    "stages": "jax._src.stages",
    "state_discharge": "jax._src.state.discharge",
    "state_types": "jax._src.state.types",
    "tree_util": "jax._src.tree_util",
    "util": "jax._src.util",
    "xla_bridge": "jax._src.xla_bridge",
    "jaxlib_jax": "jaxlib._jax",
}


def __getattr__(name: str) -> Any:
    try:
        module = importlib.import_module(_MODULES[name])
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = module
    return module


@functools.cache
def jax_version() -> tuple[int, ...]:
    """The installed JAX's version as integers, from its metadata if JAX is not imported."""
    if "jax" in sys.modules:
        version = sys.modules["jax"].__version__
    else:
        from importlib.metadata import version as version_of

        version = version_of("jax")
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _fields(*names: str, **keywords: str) -> dict[str, str]:
    """The fields of a class with the constructor's keyword for each, which is the name for most."""
    return {name: name for name in names} | keywords


# The classes of equation parameters that can be serialized, by the dialect's tag: their module, and
# their fields (with the constructor's keyword if it differs).  ``None``: an enum, a named tuple or
# a dataclass, which know their own fields.
PARAM_CLASSES: dict[str, tuple[str, dict[str, str] | None]] = {
    "AbstractDevice": ("jax._src.mesh", None),
    "AbstractMesh": (
        "jax._src.mesh",
        _fields("axis_sizes", "axis_names", "axis_types", "abstract_device"),
    ),
    "AccumClass": ("jax._src.lax.control_flow.loops", None),
    "AccuracyMode": ("jax._src.lax.lax", None),
    "ArrayCopySemantics": ("jaxlib._jax", None),
    "AxisType": ("jax._src.mesh", None),
    "ConvDimensionNumbers": ("jax._src.lax.convolution", None),
    "DotAlgorithm": ("jax._src.lax.lax", None),
    "DotAlgorithmPreset": ("jax._src.lax.lax", None),
    "EigImplementation": ("jax._src.lax.linalg", None),
    "EighImplementation": ("jax._src.lax.linalg", None),
    "FftType": ("jax._src.lax.fft", None),
    "GatherDimensionNumbers": ("jax._src.lax.slicing", None),
    "GatherScatterMode": ("jax._src.lax.slicing", None),
    "IgammaMode": ("jax._src.lax.special", None),
    "Inline": ("jax._src.api", None),
    "Layout": (
        "jax._src.layout",
        _fields("major_to_minor", "tiling", "sub_byte_element_size_in_bits"),
    ),
    "LayoutMode": ("jax._src.layout", None),
    "ManualAxisType": (
        "jax._src.core",
        _fields("varying", "unreduced", "reduced", "unreduced_kind"),
    ),
    "MemorySpace": ("jax._src.core", None),
    "NamedSharding": (
        "jax._src.named_sharding",
        _fields("mesh", "spec", "_logical_device_ids", _memory_kind="memory_kind"),
    ),
    "Precision": ("jax._src.lax.lax", None),
    "RaggedDotDimensionNumbers": ("jax._src.lax.lax", None),
    "RaggedDotMode": ("jax._src.lax.lax", None),
    "RandomAlgorithm": ("jax._src.lax.lax", None),
    "RoundingMethod": ("jax._src.lax.lax", None),
    "ScatterDimensionNumbers": ("jax._src.lax.slicing", None),
    "SvdAlgorithm": ("jax._src.lax.linalg", None),
    "Tolerance": ("jax._src.lax.lax", _fields("atol", "rtol", "ulps")),
    "UnreducedKind": ("jax._src.partition_spec", None),
    "_LinearSolveTuple": ("jax._src.lax.control_flow.solves", None),
}

# The same for packages that take long to import: resolved when a value or a text has one.
LATE_PARAM_CLASSES: dict[str, tuple[str, dict[str, str] | None]] = {
    "COOInfo": ("jax.experimental.sparse.coo", None),
    "SparseInfo": ("jax.experimental.sparse.util", None),
}

# Singletons, by the dialect's tag.
PARAM_SINGLETONS: dict[str, tuple[str, str]] = {
    "UNSPECIFIED": ("jax._src.named_sharding", "UNSPECIFIED"),
    "AUTO_LAYOUT": ("jax._src.layout", "AutoLayout"),
}

# Effects without fields, by class.
EFFECT_CLASSES: dict[str, str] = {
    "AccumEffect": "jax._src.state.types",
    "BufferCallbackEffect": "jax._src.buffer_callback",
    "DebugEffect": "jax._src.debugging",
    "IOEffect": "jax._src.callback",
    "InternalMutableArrayEffect": "jax._src.core",
    "NoDCEEffect": "jax._src.lax.lax",
    "OrderedDebugEffect": "jax._src.debugging",
    "OrderedIOEffect": "jax._src.callback",
    "ReadEffect": "jax._src.state.types",
    "ShapeAssertionEffect": "jax._src.export.shape_poly",
    "WriteEffect": "jax._src.state.types",
}


def resolve(module: str, name: str) -> Any:
    """An attribute of a JAX module; ``None`` if the installed JAX does not have it."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


@functools.cache
def kernel_modules() -> list[Any]:
    """The modules that define the primitives of kernels: for all backends, then for each."""
    names = """
        primitives core triton.primitives triton.core mosaic.primitives mosaic.core mosaic.pipeline
        mosaic.sc_primitives mosaic_gpu.primitives mosaic_gpu.core
    """
    modules = []
    for name in names.split():
        # Some JAX versions lack some of them.
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(f"jax._src.pallas.{name}"))
    return modules


def hi_primitive_class() -> Any | None:
    """The class whose instances are primitives with their own parameters (since JAX 0.11)."""
    return resolve("jax._src.hijax", "HiPrim")


def static_class() -> Any | None:
    """The class of values that JAX keeps in a pytree without leaves (since JAX 0.11)."""
    return resolve("jax._src.hijax", "Static")


def hi_primitive_named(name: str) -> Any | None:
    """The imported subclass of :func:`hi_primitive_class` called ``module:QualifiedName``."""
    pending = [hi_primitive_class()]
    while pending:
        cls = pending.pop()
        if cls is not None:
            if f"{cls.__module__}:{cls.__qualname__}" == name:
                return cls
            pending += cls.__subclasses__()
    return None


def transposes_linearized(eqn: Any) -> bool:
    """Whether JAX makes an equation's backward rule by transposing its linearization."""
    if "_prim" not in eqn.params:
        return False
    cls, pair = type(eqn.params["_prim"]), resolve("jax._src.hijax", "vjp_from_lin")
    return pair is not None and (cls.vjp_fwd, cls.vjp_bwd_retval) == tuple(pair)


def is_registered_node(cls: type) -> bool:
    """Whether a class is registered as a pytree node."""
    from jaxmlir._compat import tree_util

    return cls in tree_util._registry


def custom_node(registry: Any, cls: type, metadata: Any, children: Sequence[Any]) -> Any:
    """The ``PyTreeDef`` of a registered node.

    ``PyTreeDef.from_node_data_and_children`` makes the same, except that a named tuple becomes an
    unregistered node.  A pickled state lists the nodes, children first, each as (kind, arity,
    metadata, class, leaves, nodes).

    Raises:
      RuntimeError: the class is not in the registry.
    """
    from jaxmlir._compat import tree_util

    custom_kind = 6
    nodes = [node for child in children for node in child.__getstate__()[1]]
    leaves = sum(child.num_leaves for child in children)
    node = (custom_kind, len(children), metadata, cls, leaves, len(nodes) + 1)
    tree = tree_util.PyTreeDef.__new__(tree_util.PyTreeDef)
    tree.__setstate__((registry, [*nodes, node]))
    return tree


# Functions of `jax.checkpoint_policies` whose policies are records in some versions of JAX, by the
# class of the record.
POLICY_MAKERS = {
    "OffloadDotWithNoBatchDims": "offload_dot_with_no_batch_dims",
    "SaveAndOffloadOnlyTheseNames": "save_and_offload_only_these_names",
    "SaveAnyNamesButThese": "save_any_names_but_these",
    "SaveOnlyTheseNames": "save_only_these_names",
}


def policy_classes() -> list[type]:
    """The classes of ``jax.checkpoint`` policies that are records (before JAX 0.12)."""
    classes = [resolve("jax._src.ad_checkpoint", name) for name in ("DotsSaveable", *POLICY_MAKERS)]
    return [cls for cls in classes if cls is not None]


def close_jaxpr(jaxpr: Any, consts: Any = ()) -> Any:
    """Closes an open jaxpr over its constants, in the installed JAX's representation."""
    from jax._src import core

    if hasattr(jaxpr, "with_consts"):
        return jaxpr.with_consts(list(consts))
    return core.ClosedJaxpr(jaxpr, list(consts))


def bind_leading(closed_jaxpr: Any, values: Any) -> Any:
    """Fixes the first arguments of a closed jaxpr to values."""
    if not values:
        return closed_jaxpr
    jaxpr, consts = open_jaxpr(closed_jaxpr)
    n = len(values)
    bound = rebound(jaxpr, [*jaxpr.constvars, *jaxpr.invars[:n]], jaxpr.invars[n:])
    return close_jaxpr(bound, [*consts, *values])


def without_dead_code(closed_jaxpr: Any) -> tuple[Any, list[bool]]:
    """A closed jaxpr without dead equations and unused arguments, and the mask of used ones."""
    from jax._src.interpreters import partial_eval as pe

    jaxpr, consts = open_jaxpr(closed_jaxpr)
    live, used = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return close_jaxpr(live, consts), used


def open_jaxpr(jaxpr: Any) -> tuple[Any, list[Any]]:
    """The open jaxpr and the constants of a closed or open one."""
    from jax._src import core

    if type(jaxpr) is core.Jaxpr:
        return jaxpr, list(getattr(jaxpr, "consts", ()))
    return jaxpr.jaxpr, list(jaxpr.consts)


def without_consts(closed_jaxpr: Any) -> Any:
    """An open jaxpr without constant variables: constants become literals where they are used."""
    from jax._src import core

    jaxpr, consts = open_jaxpr(closed_jaxpr)
    if not consts:
        return jaxpr
    values = dict(zip(jaxpr.constvars, consts, strict=True))

    def inline(atom: Any) -> Any:
        if type(atom) is core.Literal or atom not in values:
            return atom
        return core.Literal(values[atom], atom.aval)

    eqns = [eqn.replace(invars=[inline(v) for v in eqn.invars]) for eqn in jaxpr.eqns]
    return jaxpr.replace(constvars=[], eqns=eqns, outvars=[inline(v) for v in jaxpr.outvars])


def constvars_as_arguments(jaxpr: Any) -> Any:
    """An open jaxpr that takes its constant variables as its first arguments.

    JAX's own ``convert_constvars_jaxpr`` may check the jaxpr, which requires its axes in scope.
    """
    if hasattr(jaxpr, "with_consts"):
        return jaxpr.with_consts(())
    return rebound(jaxpr, [], [*jaxpr.constvars, *jaxpr.invars])


def arguments_as_constvars(closed_jaxpr: Any, n: int) -> Any:
    """The inverse of :func:`constvars_as_arguments`: the first ``n`` arguments become constant
    variables, whose values the equation's operands give."""
    jaxpr = without_consts(closed_jaxpr)
    if hasattr(jaxpr, "with_consts"):
        return jaxpr.with_consts([None] * n)
    return rebound(jaxpr, jaxpr.invars[:n], jaxpr.invars[n:])


def rebound(jaxpr: Any, constvars: list[Any], invars: list[Any]) -> Any:
    """An open jaxpr with other constant variables and arguments."""
    from jax._src import core

    info = debug_info("jit", jaxpr.debug_info.func_name, len(invars), len(jaxpr.outvars))
    return core.Jaxpr(constvars, invars, jaxpr.outvars, jaxpr.eqns, jaxpr.effects, info)


def atom_of(value: Any) -> Any | None:
    """The variable or literal that a tracer stands for in its jaxpr; ``None`` for other values."""
    from jax._src import core

    atom = getattr(value, "val", None) if isinstance(value, core.Tracer) else None
    return atom if isinstance(atom, (core.Var, core.Literal)) else None


def closed_and_open_differ() -> bool:
    """Whether closed jaxprs have a class of their own (before JAX 0.11)."""
    return jax_version() < (0, 11)


# Parameters that hold an open jaxpr if open and closed jaxprs differ.
OPEN_JAXPR_PARAMS = frozenset(
    {
        ("call", "call_jaxpr"),
        ("pallas_call", "jaxpr"),
        ("reduce_window", "jaxpr"),
        ("remat2", "jaxpr"),
        ("run_state", "jaxpr"),
        ("run_scoped", "jaxpr"),
        ("scatter", "update_jaxpr"),
        ("scatter-add", "update_jaxpr"),
        ("scatter-max", "update_jaxpr"),
        ("scatter-min", "update_jaxpr"),
        ("scatter-mul", "update_jaxpr"),
        ("scatter-sub", "update_jaxpr"),
        ("select_and_scatter", "scatter_jaxpr"),
        ("select_and_scatter", "select_jaxpr"),
        ("shard_map", "jaxpr"),
    }
)


def register_linearization(primitive: Any, rule: Any) -> None:
    """Registers ``rule(is_vjp, nonzeros, *primals, **params) -> (results, nonzeros out, residuals,
    linearized)`` with ``linearized(residuals, *tangents)``."""
    from jax._src.interpreters import ad

    def with_structured_residuals(*args: Any, **params: Any) -> Any:
        results, nonzeros, residuals, linearized = rule(*args, **params)
        return results, nonzeros, residuals, None, lambda res, _, *ts: linearized(res, *ts)

    structured = jax_version() >= (0, 11, 1)
    ad.primitive_linearizations[primitive] = with_structured_residuals if structured else rule


def register_dce(primitive: Any, rule: Any) -> None:
    """Registers ``rule(used_results, eqn) -> (used_operands, eqn or None)``.

    Since JAX 0.12 rules also get the live inputs of the jaxpr.
    """
    from jax._src.interpreters import partial_eval

    takes_live = len(inspect.signature(partial_eval._default_dce_rule).parameters) == 3
    partial_eval.dce_rules[primitive] = (
        (lambda used, live, eqn: rule(used, eqn)) if takes_live else rule
    )


def linearity(primitive: Any) -> str | None:
    """``"linear"`` in all operands or ``"bilinear"`` in two, by the JVP rule; else ``None``."""
    from jax._src.interpreters import ad

    rule = ad.primitive_jvps.get(primitive)
    if not isinstance(rule, functools.partial):
        return None
    if rule.func is ad.linear_jvp:
        return "linear"
    if rule.func is ad.standard_jvp:
        home = f"{ad.defbilinear.__qualname__}."
        bilinear = [getattr(r, "__qualname__", "").startswith(home) for r in rule.args[0]]
        if len(bilinear) == 2 and all(bilinear):
            return "bilinear"
    return None


class _LateMhlo(types.ModuleType):
    """The MHLO module, which imports its contents on first access to another attribute."""

    register_mhlo_dialect: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("jaxlib.mlir.dialects.mhlo"), name)


def defer_mhlo_classes() -> None:
    """Defers the import of the Python classes of MHLO's operations, which takes 10 to 20 ms.

    JAX imports the dialect's module to register the dialect in a context for lowering, and uses
    none of the classes.
    """
    from jax._src.lib.mlir import dialects
    from jaxlib.mlir._mlir_libs import _mlirHlo

    if "mhlo" not in vars(dialects):
        late = _LateMhlo("mhlo")
        late.register_mhlo_dialect = _mlirHlo.register_mhlo_dialect
        dialects.mhlo = late


def flatten_primals(values: Any) -> Any:
    """A tuple of values in the form that ``ad.linearize`` takes as primals."""
    from jax._src.interpreters import ad

    return ad.ft.flatten(tuple(values)) if hasattr(ad, "ft") else ad.FlatTree.flatten(tuple(values))


def replace_differentiated(replacement: Callable[[Any], Any]) -> None:
    """From now on, has JAX's ``jvp``, ``vjp`` and ``linearize``, and all functions built on them,
    differentiate ``replacement(function)`` in place of a function."""
    from jax._src.interpreters import ad

    def replaced(differentiate: Any) -> Any:
        @functools.wraps(differentiate)
        def of_replacement(function: Any, *args: Any, **options: Any) -> Any:
            return differentiate(replacement(function), *args, **options)

        return of_replacement

    if not hasattr(ad.linearize, "__wrapped__"):
        ad.jvp, ad.linearize = replaced(ad.jvp), replaced(ad.linearize)


def call_bwd(bwd: Any, *args: Any) -> list[Any]:
    """The cotangents that a custom_vjp's flat backward rule returns."""
    out = bwd.call_wrapped(*args)
    return list(out[0] if jax_version() >= (0, 11, 1) else out)


def wrap_bwd(function: Any, debug_info: Any) -> Any:
    """A flat backward rule for the installed JAX, made from a function that returns cotangents."""
    from jax._src import linear_util as lu

    if jax_version() >= (0, 11, 1):
        return lu.wrap_init(lambda *args: (list(function(*args)), None), debug_info=debug_info)
    return lu.wrap_init(lambda *args: list(function(*args)), debug_info=debug_info)


def wrapped_rule(function: Any) -> Any | None:
    """The custom rule, or thunk of one, inside a wrapper of JAX's that has no effect.

    Each time JAX traces or prunes a jaxpr again, its rules get another wrapper: a memo, the removal
    of unused results, the removal of constants.  ``None`` if the wrapper has something to do, or
    the function is not a wrapper.
    """
    if not (function.__module__ or "").startswith("jax._src."):
        return None
    cells = cells_of(function)

    def value(*names: str) -> Any:
        return next(cells[name].cell_contents for name in names if name in cells)

    match function.__qualname__.split(".<locals>."):
        case ["_memoize", "memoized"]:
            return value("fn")
        case ["_custom_jvp_call_dce" | "_custom_vjp_call_dce", _]:
            return (
                value("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")
                if all(value("used_outs"))
                else None
            )
        case [_, "jvp_jaxpr_thunk" | "fwd_jaxpr_from_zeros"]:
            traced = value("jvp", "fwd")
            name = getattr(traced.f, "__qualname__", "")
            is_layer = name.startswith(("lift_jvp.", "lift_fwd."))
            return traced.f if is_layer and not traced.transforms else None
        case ["lift_jvp" | "lift_fwd", _]:
            return None if value("num_consts") else value("jvp_jaxpr_fun", "fwd_jaxpr_thunk")
    return None


def cells_of(function: Any) -> dict[str, Any]:
    """The closure cells of a function, by variable name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def user_function(function: Any) -> Any:
    """The user's function inside wrappers that fix some of its arguments, as ``jax.grad`` does."""
    while getattr(function, "__qualname__", "").startswith("argnums_partial2."):
        function = cells_of(function)["f"].cell_contents
    return function


def _layers(rule: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """JAX's wrappers around a custom rule, outermost first, with the closure cells of each."""
    while rule is not None:
        rule = rule.f if hasattr(rule, "f") else rule
        is_function = isinstance(rule, types.FunctionType)
        if not is_function or not (rule.__module__ or "").startswith("jax._src."):
            break
        cells = cells_of(rule)
        yield rule, cells
        inner = next((cells[name] for name in _WRAPPED if name in cells), None)
        rule = inner and inner.cell_contents


# The closure variables of JAX's wrappers that hold the rule or the next wrapper.
_WRAPPED = ("fn", "fwd", "fwd_jaxpr_thunk", "jvp", "jvp_jaxpr_fun")


# JAX's functions that make functions from data: module and names in the supported versions.
FUNCTION_MAKERS = {
    "closure_converted": ("jax._src.stages", ("_closure_converted_fun", "Traced.closure_convert")),
    "vmap_rule": ("jax._src.hijax", ("vmap_rule",)),
}


def is_made_by(function: Any, module: str, makers: Sequence[str]) -> bool:
    """Whether a function was defined inside one of the ``makers`` of a module."""
    name, local, _ = function.__qualname__.partition(".<locals>.")
    return function.__module__ == module and bool(local) and name in makers


def innermost_layer(rule: Any) -> Any:
    """JAX's innermost wrapper around a user's custom rule; ``None`` if there is none.  All wrapped
    forms of the rule share it, with the state that tracing the rule leaves there."""
    # A rule of JAX's own is also a function of a JAX module, but wraps nothing.
    around = [layer for layer, cells in _layers(rule) if not cells.keys().isdisjoint(_WRAPPED)]
    return around[-1] if around else None


def flat_jvp(thunk: Any) -> tuple[Any, Any] | None:
    """The user's rule that the innermost thunk of a ``jax.custom_jvp`` function runs, and the
    pytree of its arguments.  ``None`` for other functions, and if the thunk adds arguments."""
    # Thunks that drop unused results call another thunk, and do not count.
    if not isinstance(thunk, types.FunctionType) or thunk.__name__ != "jvp_jaxpr_thunk":
        return None
    flat = cells_of(thunk)["jvp"].cell_contents
    match [(getattr(gen, "__name__", ""), args) for gen, args in flat.transforms]:
        case [("_flatten_jvp", (_, _, in_tree, _))]:
            return flat.f, in_tree
    return None


def closed_over(fwd: Any) -> int:
    """The number of leading operands that a forward rule refuses to be differentiated in.

    The ``custom_vjp`` function closed over these values when its jaxpr was first traced.
    """
    return sum(
        cells["num_consts"].cell_contents
        for layer, cells in _layers(fwd)
        if layer.__qualname__.startswith("lift_fwd.")
    )


def forget_traced(fwd: Any) -> None:
    """Clears the memo of a forward rule, so that its next call traces it again.

    Tracing records the structure of the residuals, also for the backward rule.  The record is that
    of the last traced call, which need not be the last call: that may be memoized or have failed.
    """
    for layer, cells in _layers(fwd):
        if layer.__qualname__ == "_memoize.<locals>.memoized":
            cells["cells"].cell_contents.clear()


def rule_transforms(function: Any) -> list[tuple[Any, Any]]:
    """The transforms of a ``WrappedFun``, except those that handle an empty list of constants."""
    return [
        (transform, args)
        for transform, args in function.transforms
        if getattr(transform, "__name__", "") != "_handle_consts_in_bwd" or args[0]
    ]


class ConfigSnapshot:
    """JAX's configuration as it is now for this thread: flags, precisions, meshes, name stacks."""

    def __init__(self) -> None:
        self._values = {option: option.value for option in _config_options()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigSnapshot) and self._effective() == other._effective()

    def _effective(self) -> dict[Any, Any]:
        """The values, in which an empty mesh is no mesh."""
        from jax._src import mesh

        empty = mesh.empty_abstract_mesh
        return {o: None if value is empty else value for o, value in self._values.items()}

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restores the configuration of the snapshot within the block."""
        with contextlib.ExitStack() as stack:
            for option, value in self._values.items():
                if option.value is not value and option.value != value:
                    stack.enter_context(_override(option, value))
            yield


@functools.cache
def _config_options() -> tuple[Any, ...]:
    """JAX's options that may have thread-local values."""
    from jax._src import config, layout, mesh

    kind = resolve("jax._src.config", "config_ext").Config
    options = [v for m in (config, mesh, layout) for v in vars(m).values() if isinstance(v, kind)]
    return tuple(dict.fromkeys(options))


@contextlib.contextmanager
def _override(option: Any, value: Any) -> Iterator[None]:
    unset = resolve("jax._src.config", "config_ext").unset
    hook = getattr(option, "_update_thread_local_hook", None) or (lambda _: None)
    # The global value must not become thread-local: for a mesh it is ``None``, on which JAX fails.
    before = option.swap_local(unset if value is option.get_global() else value)
    hook(value)
    try:
        yield
    finally:
        option.set_local(before)
        hook(None if before is unset else before)


def eqn_context_fields() -> list[str]:
    """The fields of an equation's context, in the order of its constructor's arguments."""
    from jax._src import core

    unlisted = ("configs", "__weakref__")
    return [name for name in core.JaxprEqnContext.__slots__ if name not in unlisted]


@functools.cache
def default_eqn_context() -> Any:
    """The context of an equation without any configuration.

    ``JaxprEqnContext()`` has the present configuration instead.  A program must mean the same in
    another process, and outside of the mesh in which it was traced.
    """
    from jax._src import core, mesh

    layout_mode = resolve("jax._src.layout", "LayoutMode")
    defaults = {
        "compute_type": None,
        "threefry_partitionable": True,
        "cur_abstract_mesh": mesh.empty_abstract_mesh,
        "cur_layout_mode": layout_mode and layout_mode.AUTO,
        "remove_size_one_mesh_axis": False,
        "no_collectives": frozenset(),
        "xla_metadata": None,
    }
    return core.JaxprEqnContext._create(*(defaults[name] for name in eqn_context_fields()))


def rule_context() -> contextlib.AbstractContextManager[Any]:
    """Sets an empty mesh within the block if no mesh is set, as JAX does for a rule's equation.

    A program traced so finds JAX's traces of jitted functions again when its rules run.
    """
    from jax._src import core

    return core.JaxprEqnContext().manager


def in_context(ctx: Any) -> contextlib.AbstractContextManager[Any]:
    """Sets the context of an equation within the block.

    If it is set already, nothing is done: JAX distinguishes no mesh from an empty one when it looks
    up a jitted function, and would trace the function again.
    """
    from jax._src import core

    return contextlib.nullcontext() if core.JaxprEqnContext() == ctx else ctx.manager


def named_axes(mesh: Any) -> contextlib.AbstractContextManager[Any]:
    """The named axes that an equation inside a ``shard_map`` over ``mesh`` may use."""
    from jax._src import core

    if mesh.empty:
        return contextlib.nullcontext()
    return core.extend_axis_env_nd([(axis, mesh.shape[axis]) for axis in mesh.manual_axes])


def trace_flat(function: Any, avals: Sequence[Any], info: Any) -> tuple[Any, list[Any]]:
    """The jaxpr of a function of flat arguments, and its constants.

    Args:
      info: tells the function's name; its arguments and results have none.
    """
    from jax._src import linear_util as lu
    from jax._src.interpreters import partial_eval as pe

    wrapped = lu.wrap_init(function, debug_info=info.with_unknown_names())
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(wrapped, list(avals))
    return jaxpr, consts


def hide_frames(folder: str) -> None:
    """Has JAX leave the frames of a folder's files out of locations of equations, and out of
    tracebacks of errors."""
    from jax._src import source_info_util, traceback_util

    source_info_util.register_exclusion(folder + os.sep)
    traceback_util.register_exclusion(folder)
    # JAX compares a file with each path in turn, on the disk, until one fits.
    paths = traceback_util._exclude_paths
    paths.insert(0, paths.pop())


def debug_info(traced_for: str, name: str, n_args: int, n_results: int) -> Any:
    """Debug information that consists of a function's name only."""
    from jax._src import core

    return core.DebugInfo(traced_for, name, ("",) * n_args, ("",) * n_results)
