"""Large constants in text and bytecode, stored as MLIR resources so that a file is complete.

In memory, a ``jaxpr.constant`` of more than a few KiB names an array of the program's side table,
which passes share without copying.  In a file its value is ``dense_resource<name>``.  The elements
are at the end of the file, as hexadecimal bytes after four bytes that give the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.dialect.ir import context, dialect_ops, free_symbol, ir
from jaxmlir.dialect.types import aval_of

_USE = re.compile(r'dense_resource<(?:"(?P<quoted>[^"]*)"|(?P<name>[^>]*))>')
_DATA = re.compile(r'(?:"(?P<quoted>[^"\n]*)"|(?P<name>[\w.$-]+))\s*:\s*"0x(?P<hex>[0-9A-Fa-f]*)"')
_ALIGNMENT = 4
"""How many bytes, before the data, give its alignment."""


def put_in(module: ir.Module, constants: Mapping[str, Any]) -> None:
    """Replaces the names of arrays in constants by resources of the module, with the elements."""
    with context(), ir.Location.unknown():
        for op in _constants(module):
            if "name" not in op.attributes:
                continue
            name, type_ = ir.StringAttr(op.attributes["name"]).value, op.results[0].type
            array = constants.get(name)
            if array is None or not _is_plain(type_):
                continue
            data = np.ascontiguousarray(array)
            plain = ir.RankedTensorType.get(type_.shape, type_.element_type)
            alignment = data.dtype.alignment
            op.attributes["value"] = ir.DenseResourceElementsAttr.get_from_buffer(
                data.reshape(-1).view(np.uint8), name, plain, alignment
            )
            del op.attributes["name"]


def take_out(module: ir.Module, text: str) -> dict[str, np.ndarray]:
    """Replaces resources in constants by names of arrays, and returns the arrays.  The text is the
    one that the module was parsed from."""
    if "dense_resource<" not in text:
        return {}
    # The bindings give no access to the elements, and the parser may have renamed the resources.
    text = module.operation.get_asm()
    arrays: dict[str, np.ndarray] = {}
    data = {m["quoted"] or m["name"]: m["hex"] for m in _DATA.finditer(text)}
    with context():
        constants = _constants(module)
        named = [op.attributes["name"] for op in constants if "name" in op.attributes]
        taken = {ir.StringAttr(name).value for name in named}
        renamed: dict[Any, str] = {}
        for op in constants:
            use = "value" in op.attributes and _USE.match(str(op.attributes["value"]))
            name = (use["quoted"] or use["name"]) if use else None
            type_ = op.results[0].type
            if name not in data or not _is_plain(type_):
                continue
            aval = aval_of(type_)
            elements = np.frombuffer(bytes.fromhex(data[name])[_ALIGNMENT:], aval.dtype)
            # On a size that does not match the type, the verifier reports the error.
            if elements.size == aval.size:
                key = name, aval.dtype, aval.shape
                if key not in renamed:
                    # MLIR appends a number to a name that it has met in this process.
                    own = re.sub(r"(?<=.)(_\d+)+$", "", name)
                    renamed[key] = free_symbol(own, taken)
                    taken.add(renamed[key])
                    arrays[renamed[key]] = elements.reshape(aval.shape)
                op.attributes["name"] = ir.StringAttr.get(renamed[key])
                del op.attributes["value"]
    return arrays


def _constants(module: ir.Module) -> list[Any]:
    return [op for op in dialect_ops(module) if op.name == "jaxpr.constant"]


def _is_plain(type_: ir.Type) -> bool:
    """Whether a type is an array of static shape whose elements are plain bytes in memory."""
    aval = aval_of(type_)
    return (
        isinstance(type_, ir.RankedTensorType)
        and isinstance(aval, core.ShapedArray)
        and not isinstance(aval.dtype, dtypes.ExtendedDType)
        and aval.dtype != dtypes.float0
        and type_.has_static_shape
    )
