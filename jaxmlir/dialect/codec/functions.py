"""Functions that JAX makes of data: written as what they were made of.

A primitive that is an object may have functions among its parameters.  Those of ``lax.custom_root``
evaluate a jaxpr (``Traced.closure_convert``), or are such a function on batches.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import jax

from jaxmlir import _compat
from jaxmlir._compat import batching, core, tree_util
from jaxmlir.dialect.codec.registry import Reader, Writer, decode, encode, encode_handle, tagged
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import ExportError


def _closure_converted(function: Any) -> dict[str, Any]:
    cells = _compat.cells_of(function)
    return {name: cells[name].cell_contents for name in ("jaxpr", "in_tree", "out_tree")}


def _evaluating(make: Callable[..., Any], jaxpr: Any, in_tree: Any, out_tree: Any) -> Any:
    # The function compares trees with those of JAX's own registry.
    arguments = tree_util.tree_unflatten(in_tree, range(in_tree.num_leaves))
    constants, *rest = tree_util.tracing_registry.flatten(arguments)[1].children()
    return make(jaxpr, constants, tree_util.treedef_tuple_tracing_registry(rest), out_tree)


def _parts_of_axis(axis: Any) -> tuple[Any, ...]:
    """Of an axis that is batched; ``None`` in the place of a name where it has none."""
    name = None if axis.name is core.no_axis_name else axis.name
    return name, axis.size, axis.spmd_name, axis._ema


def _axis_of(parts: tuple[Any, ...]) -> Any:
    name, *rest = parts
    return batching.AxisData(core.no_axis_name if name is None else name, *rest)


def encode_axis(axis: Any, writer: Writer) -> ir.Attribute:
    with context():
        return tagged("AxisData", encode(_parts_of_axis(axis), writer))


def _batched(function: Any) -> dict[str, Any]:
    cells = _compat.cells_of(function)
    axis = _compat.cells_of(cells["map_zero"].cell_contents)["axis_data"].cell_contents
    vmapped = cells["vmapped"].cell_contents
    # `jax.vmap` wraps the function, around one that filters tracebacks.
    options = _compat.cells_of(_compat.cells_of(vmapped)["fun"].cell_contents)
    return {
        "function": vmapped.__wrapped__,
        "axis": _parts_of_axis(axis),
        "in_axes": cells["in_axes"].cell_contents,
        "out_axes": cells["out_axes"].cell_contents,
        "sum_match": options["sum_match"].cell_contents,
    }


def _batching(
    make: Callable[..., Any],
    function: Any,
    axis: tuple[Any, ...],
    in_axes: Any,
    out_axes: Any,
    sum_match: bool,
) -> Any:
    return make(_axis_of(axis), function, in_axes, out_axes, sum_match=sum_match)


def _by_closure_convert(jaxpr: Any, constants: Any, in_tree: Any, out_tree: Any) -> Any:
    """The maker of JAX 0.11: a method of what was traced, of which it reads these."""
    traced = types.SimpleNamespace(
        jaxpr=jaxpr,
        in_tree=in_tree,
        out_tree=out_tree,
        _consts=[0] * constants.num_leaves,
        _closure_converted=None,
    )
    return jax.stages.Traced.closure_convert(traced)[1]


_OLDER = {"closure_converted": _by_closure_convert}

# What a function was made of, and how it is made of that.
_KINDS: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {
    "closure_converted": (_closure_converted, _evaluating),
    "vmap_rule": (_batched, _batching),
}


def encode_function(value: Any, writer: Writer) -> ir.Attribute:
    """A function that JAX made of data; any other is a handle."""
    for kind, (parts_of, _) in _KINDS.items():
        if _compat.is_made_by(value, *_compat.FUNCTION_MAKERS[kind]):
            try:
                parts = parts_of(value)
            except (KeyError, AttributeError):
                # In this version of JAX it closes over something else.
                break
            with context():
                fields = {name: encode(part, writer) for name, part in parts.items()}
                return tagged(kind, ir.DictAttr.get(fields))
    return encode_handle(value, writer)


def _decoder(kind: str) -> Callable[[ir.Attribute, Reader], Any]:
    def decode_function(attr: ir.Attribute, reader: Reader) -> Any:
        module, (name, *_) = _compat.FUNCTION_MAKERS[kind]
        maker = _compat.resolve(module, name) or _OLDER.get(kind)
        if maker is None:
            raise ExportError(f"this JAX makes no functions that are {kind}")
        return _KINDS[kind][1](maker, **{item.name: decode(item.attr, reader) for item in attr})

    return decode_function


DECODERS = {
    **{kind: _decoder(kind) for kind in _KINDS},
    "AxisData": lambda attr, reader: _axis_of(decode(attr, reader)),
}
