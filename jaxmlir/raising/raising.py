"""Raises a module of StableHLO to the dialect; the pass that does so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from jaxmlir._compat import core
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import TREES, body_of, functions, ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import is_key, type_of
from jaxmlir.errors import ImportingError, JaxmlirError
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remarks_wanted
from jaxmlir.raising import (  # noqa: F401 (rules)
    arrays,
    control,
    elementwise,
    linalg,
    random,
    reductions,
    sharding,
    sorting,
)
from jaxmlir.raising.lost_rules import remark_lost_rules
from jaxmlir.raising.source import end_of, is_open, located, public_functions, raised_type
from jaxmlir.raising.tuples import flatten_tuples
from jaxmlir.raising.writer import ModuleRaiser


def raise_module(module: ir.Module, of_import: Callable[[Importer], Module]) -> Importer:
    """Writes a module of StableHLO in the dialect; returns the importer that holds the result.

    Args:
      module: the source; its public functions stay public.
      of_import: makes the program of an importer.

    Raises:
      ImportingError: an op or type has no counterpart; names the op and its place.
    """
    with scope():
        try:
            return _raised(ModuleRaiser(module, of_import))
        except ImportingError:
            if not flatten_tuples(functions(module)):
                raise
            return _raised(ModuleRaiser(module, of_import))


def _raised(raising: ModuleRaiser) -> Importer:
    """Writes the public functions of a module; its importer."""
    public = public_functions(raising.source)
    if not public:
        raise ImportingError("the module has no public function to call")
    for name in public:
        try:
            raising.function(name, public=True)
        except JaxmlirError as e:
            raise located(e, raising.source[name].operation) from e.__cause__
    symbol_table = raising.write()
    for name in public:
        attributes = raising.source[name].attributes
        for key in TREES:
            if key in attributes:
                symbol_table[raising.symbols[name]].attributes[key] = attributes[key]
    return raising.importer


def raise_exported(
    module: ir.Module,
    exported: Any,
    of_import: Callable[[Importer], Module],
    *,
    refined: bool = False,
) -> Importer:
    """Writes an exported function in the dialect, with all of its arguments; returns the importer.

    Args:
      exported: a ``jax.export.Exported``: lists all arguments, and those that the module takes.
      of_import: makes the program of an importer.
      refined: whether the module is for arguments of known sizes; it then takes all arguments.

    Raises:
      ImportingError: an op or type has no counterpart; names the op and its place.
    """
    with scope():
        raising = ModuleRaiser(module, of_import)
        public = public_functions(raising.source)
        _expect(exported, "public functions", public, 1)
        (name,) = public
        raising.asserting_block = body_of(raising.source[name])
        arguments = raising.source[name].arguments
        returned = end_of(body_of(raising.source[name])).operands
        kept = range(len(exported.in_avals)) if refined else exported.module_kept_var_idx
        taken = [k for k in kept if k < len(exported.in_avals)]
        _expect(exported, "kept arguments", taken, len(kept))
        _expect(exported, "results", returned, len(exported.out_avals))
        results = [
            _type_of(v.type, aval) for v, aval in zip(returned, exported.out_avals, strict=True)
        ]
        numbers = []
        if len(exported.platforms) > 1 and not refined:
            numbers.append(np.array(_platform_of(exported), np.int32))
        # Arguments that the module does not take have no type in it.
        types = [type_of(aval.update(weak_type=False)) for aval in exported.in_avals]
        for value, k in zip(arguments[len(numbers) :], taken, strict=False):
            if not is_open(value.type):
                types[k] = _type_of(value.type, exported.in_avals[k])
        entry = raising.entry(name, types, results, taken, numbers)
        raising.write()
        for key, tree in zip(TREES, (exported.in_tree, exported.out_tree), strict=True):
            entry.attributes[key] = pytrees.encode(tree, raising.importer)
        symbol = raising.importer.unique_name(exported.fun_name)
        entry.attributes["sym_name"] = ir.StringAttr.get(symbol)
    return raising.importer


def _expect(exported: Any, what: str, found: Any, number: int) -> None:
    """Refuses an exported function whose module and types do not belong together."""
    if len(found) != number:
        raise ImportingError(f"{exported.fun_name}: expected {number} {what}, got {len(found)}")


def _type_of(type_: ir.Type, aval: Any) -> ir.Type:
    """The dialect's type of an argument or result; the module has the words of a random key."""
    raised = raised_type(type_)
    if not is_key(aval):
        return raised
    if is_open(type_):
        return type_of(aval)
    words = core.physical_element_aval(aval.dtype).shape
    shape = raised.shape[: raised.rank - len(words)]
    return type_of(core.ShapedArray(tuple(shape), aval.dtype))


def _platform_of(exported: Any) -> int:
    """The index of JAX's platform here among those that the function was exported for."""
    platform = jax.default_backend()
    platform = {"gpu": "cuda"}.get(platform, platform)
    if platform not in exported.platforms:
        raise ImportingError(
            f"{exported.fun_name} was exported for {', '.join(exported.platforms)}, not for "
            f"{platform}, on which JAX runs here"
        )
    return exported.platforms.index(platform)


class RaiseStablehlo(Pass):
    """Raise a module of StableHLO and CHLO to the dialect, so that it can be transformed.

    The way back from `jaxpr-legalize-to-stablehlo`. Regions become functions; sums, products and
    other known reductions become their primitives; LAPACK calls become factorisations. Remarks name
    ops whose plain derivative may differ from a custom rule, which StableHLO does not hold.
    """

    name: ClassVar[str] = "jaxpr-raise-stablehlo"

    def run(self, program: Module) -> None:
        importer = raise_module(program.module, type(program).of_import)
        program.module = importer.module
        program.constants.update(importer.constants)
        program.handles.update(importer.handles)
        program.changed()
        if remarks_wanted():
            remark_lost_rules(program)
