"""Whether attributes are of the kinds that the op table gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxmlir import codec
from jaxmlir._compat import core
from jaxmlir.ir import ir


def unmet(op: Any, attr: ir.Attribute, kind: str) -> str:
    """What an attribute of a kind is to be, where it is something else."""
    if not _fits(attr, kind):
        return kind
    if kind == "axes":
        # XLA ends the process over a mesh axis that is named twice.
        names = codec.decode(attr)
        return "different axes" if isinstance(names, tuple) and len({*names}) < len(names) else ""
    if kind in ("dimension", "dimensions") and len(op.operands):
        type_, value = op.operands[0].type, codec.decode(attr)
        dims = value if isinstance(value, tuple) else (value,)
        if isinstance(type_, ir.RankedTensorType) and not (
            len({*dims}) == len(dims)
            and all(isinstance(dim, (int, np.integer)) and 0 <= dim < type_.rank for dim in dims)
        ):
            what = "a dimension" if kind == "dimension" else "different dimensions"
            return f"{what} of {type_}, counted from 0"
    return ""


def _fits(attr: ir.Attribute, kind: str) -> bool:
    """Whether an attribute can be of a kind, for those kinds that are easy to tell."""
    if kind.endswith("?") and str(attr) == "none":
        return True
    kind, _, name = kind.removesuffix("?").partition(" ")
    match kind:
        case "bool":
            return isinstance(attr, ir.BoolAttr)
        case "str":
            return isinstance(attr, ir.StringAttr)
        case "int" | "dimension":
            # A dictionary is a symbolic or a huge one, or a scalar of numpy's.
            return isinstance(attr, ir.IntegerAttr) or (
                isinstance(attr, ir.DictAttr) and core.is_dim(codec.decode(attr))
            )
        case "dtype" | "type":
            # A dictionary is an extended dtype of a module, or a Python object.
            return isinstance(attr, (ir.TypeAttr, ir.DictAttr))
        case "dimensions":
            return isinstance(attr, (ir.DenseI64ArrayAttr, ir.ArrayAttr, ir.DictAttr))
        case "function":
            return isinstance(attr, ir.FlatSymbolRefAttr)
        case "functions":
            return isinstance(attr, ir.ArrayAttr) and all(_fits(a, "function") for a in attr)
        case "lists":  # of functions
            return isinstance(attr, ir.ArrayAttr) and all(
                _fits(a, "functions") and len(a) for a in attr
            )
        case "enum" | "record":
            # Of records of functions, more is said where these are checked.
            class_name = _tag(attr).rpartition(".")[2]
            return codec.depends_on_module(attr) or class_name in (name, codec.HANDLE)
        case "sharding":
            return _tag(attr) not in _PLAIN
    return True


# Tags of values of Python's, and none at all.
_PLAIN = ("", "bytes", "complex", "container_type", "dict", "int", "list", "scalar", "set")


def _tag(attr: ir.Attribute) -> str:
    """The class of the value that an attribute stands for, where that is a dictionary's key."""
    return attr[0].name if isinstance(attr, ir.DictAttr) and len(attr) == 1 else ""
