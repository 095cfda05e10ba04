"""Texts that tell whether ops of a module are those that JAX lowers a function to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import export

from jaxmlir.dialect.ir import body_of, functions, ir, parse_module
from jaxmlir.dialect.types import widths_of
from jaxmlir.raising.source import defining_op

# Default values of attributes, which some modules write out and others omit.
_DEFAULTS = {"api_version = 1 : i32", 'backend_config = ""', "called_computations = []"} | {
    f"{name} = false"
    for name in ("has_side_effect", "indices_are_sorted", "is_stable", "unique_indices")
}

MAX_NESTED = 8
"""How deep regions and calls are followed; deeper ones never compare equal."""


def computation(
    block: ir.Block,
    source: Mapping[str, Any],
    renamed: Mapping[ir.Type, str] | None = None,
    around: Mapping[ir.Value, str] | None = None,
    depth: int = 0,
) -> tuple[str, ...]:
    """One text for each result of a block, equal for results that are computed in the same way.

    Names, unused ops, the order of ops, duplicate ops and conversions to the same type make no
    difference.

    Args:
      source: the functions of the module by name; the body of a callee counts, not its name.
      renamed: texts for types, where these are not to be compared.
      around: texts for values from outside of the block.
    """
    if depth > MAX_NESTED:
        return (f"too deep: {id(block)}",)
    renamed = renamed or {}
    texts: dict[ir.Value, str] = dict(around or {})
    types = [renamed.get(v.type) or str(v.type) for v in block.arguments]
    texts.update((v, f"%{depth}.{k}: {types[k]}") for k, v in enumerate(block.arguments))
    for view in block.operations:
        op = view.operation
        operands = tuple(texts.get(v) or _constant(v) for v in op.operands)
        if not len(op.results):
            return operands
        if op.name == "stablehlo.convert" and op.operands[0].type == op.results[0].type:
            # From a weak type, which modules do not tell from others.
            texts[op.results[0]] = operands[0]
            continue
        bodies = [b for region in op.regions for b in region.blocks]
        if "callee" in op.attributes:
            callee = source.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            bodies += list(callee.operation.regions[0].blocks) if callee else []
        inner = [computation(b, source, renamed, texts, depth + 1) for b in bodies]
        attributes = attribute_texts(op)
        types = [renamed.get(v.type) or str(v.type) for v in op.results]
        digest = _digest(f"{op.name} {operands} {attributes} {inner} {types}")
        texts.update((v, f"{digest}#{k}") for k, v in enumerate(op.results))
    return ("no end",)


def attribute_texts(op: Any) -> list[str]:
    """The attributes of an op, except those with default values and the callee."""
    attributes = {f"{name} = {value}" for name, value in op.attributes.items() if name != "callee"}
    return sorted(attributes - _DEFAULTS)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _constant(value: ir.Value) -> str:
    """The text of a constant from outside of a block, as if inside; ``?`` for another value."""
    op = defining_op(value, "stablehlo.constant")
    if op is None:
        return "?"
    attributes = [f"value = {op.attributes['value']}"]
    return _digest(f"stablehlo.constant () {attributes} [] {[str(value.type)]}") + "#0"


def region_text(region: Any) -> tuple[str, ...]:
    """The texts of what the only block of a region computes."""
    return computation(region.blocks[0], {})


def written_by_jax(
    fun: Callable[..., Any],
    args: Sequence[jax.ShapeDtypeStruct],
    platform: str = "cpu",
    *,
    exported: bool = False,
) -> ir.Module | None:
    """The module that JAX lowers a function of arrays to; ``None`` where it cannot.

    Args:
      exported: lower as ``jax.export`` does, which expands ops that compilers may not know.
    """
    jitted = jax.jit(fun)
    try:
        with widths_of(args):
            if exported:
                text = export.export(jitted, platforms=[platform])(*args).mlir_module()
            else:
                text = jitted.trace(*args).lower(lowering_platforms=(platform,)).as_text()
    except (TypeError, NotImplementedError, ValueError):
        return None
    return parse_module(text)


def region_by_jax(
    fun: Callable[..., Any], args: Sequence[jax.ShapeDtypeStruct], name: str
) -> tuple[str, ...] | None:
    """The texts of the region of the first op of a name in JAX's lowering of a function."""
    module = written_by_jax(fun, args)
    for function in functions(module).values() if module else ():
        for op in body_of(function).operations:
            if op.operation.name == name:
                return region_text(op.operation.regions[0])
    return None
