"""Whether attributes are of the kinds that the op table gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir


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
    if " or " in kind:
        return any(_fits(attr, each) for each in kind.removesuffix("?").split(" or "))
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
        case "ints":
            return _is_tuple_of(attr, core.is_dim)
        case "bools":
            return _is_tuple_of(attr, lambda item: isinstance(item, (bool, np.bool_)))
        case "strs":
            return _is_tuple_of(attr, lambda item: isinstance(item, str))
        case "pairs":
            return _is_tuple_of(attr, _is_pair)
        case "platforms":
            return _is_tuple_of(attr, lambda item: item is None or _are_names(item))
        case "policy":
            # A record, or a Python object.
            return isinstance(attr, ir.DictAttr)
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


def _is_tuple_of(attr: ir.Attribute, fits: Callable[[Any], bool]) -> bool:
    # A dictionary that is none may be of this module, or of this process.
    if isinstance(attr, ir.DictAttr) and codec.depends_on_module(attr):
        return True
    value = codec.decode(attr)
    return isinstance(value, (tuple, list)) and all(map(fits, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(core.is_dim, value))


def _are_names(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)


# Tags of values of Python's, and none at all.
_PLAIN = ("", "bytes", "complex", "container_type", "dict", "int", "list", "scalar", "set")


def _tag(attr: ir.Attribute) -> str:
    """The class of the value that an attribute stands for, where that is a dictionary's key."""
    return attr[0].name if isinstance(attr, ir.DictAttr) and len(attr) == 1 else ""
