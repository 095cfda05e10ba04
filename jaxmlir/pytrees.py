"""Pytree structures as attributes.

A leaf is ``"*"``; ``None`` is ``none``; a tuple is an array; a list, dict, named tuple or custom
node is a dictionary with one entry that says which: ``{list = [...]}``,
``{dict = [["key", child], ...]}``, ``{namedtuple = ["module:Name", [...]]}``,
``{node = ["module:Name", metadata, [...]]}``.

Reading never imports anything: a named tuple or node type must already be known to the process, or
be made known with :func:`register_node_type`.
"""

from __future__ import annotations

import collections
import sys
from typing import Any

import jax

from jaxmlir import codec
from jaxmlir._compat import tree_util
from jaxmlir.errors import ExportError
from jaxmlir.ir import context, ir

_node_types: dict[str, type] = {}


def register_node_type(cls: type, name: str | None = None) -> None:
    """Makes a named tuple or registered pytree node readable under ``name``.

    Args:
      cls: the class.
      name: by default ``module:QualifiedName``, what writing uses.
    """
    _node_types[name or _type_name(cls)] = cls


def _type_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def encode(tree: Any, writer: codec.Writer = codec._NO_MODULE) -> ir.Attribute:
    """The attribute of a ``PyTreeDef``."""
    with context():
        return _encode(tree, writer)


def _encode(tree: Any, writer: codec.Writer) -> ir.Attribute:
    data = tree.node_data()
    if data is None:
        return ir.StringAttr.get("*")
    cls, metadata = data
    children = [_encode(child, writer) for child in tree.children()]
    if cls is type(None):
        return ir.TypeAttr.get(ir.NoneType.get())
    if cls is tuple:
        return ir.ArrayAttr.get(children)
    if cls is list:
        return codec.tagged("list", ir.ArrayAttr.get(children))
    if cls in (dict, collections.OrderedDict):
        items = [
            ir.ArrayAttr.get([codec.encode(key, writer), child])
            for key, child in zip(metadata, children, strict=True)
        ]
        tag = "dict" if cls is dict else "ordered_dict"
        return codec.tagged(tag, ir.ArrayAttr.get(items))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        _node_types.setdefault(_type_name(cls), cls)
        name = ir.StringAttr.get(_type_name(cls))
        return codec.tagged("namedtuple", ir.ArrayAttr.get([name, ir.ArrayAttr.get(children)]))
    _node_types.setdefault(_type_name(cls), cls)
    parts = [
        ir.StringAttr.get(_type_name(cls)),
        codec.encode(metadata, writer),
        ir.ArrayAttr.get(children),
    ]
    return codec.tagged("node", ir.ArrayAttr.get(parts))


def decode(attr: ir.Attribute, reader: codec.Reader = codec._NO_MODULE) -> Any:
    """The ``PyTreeDef`` that :func:`encode` wrote as ``attr``.

    Raises:
      ExportError: a node's type is not known to this process.
    """
    registry = tree_util.default_registry
    if isinstance(attr, ir.StringAttr):
        return jax.tree.structure(0)
    if isinstance(attr, ir.TypeAttr):
        return jax.tree.structure(None)
    if isinstance(attr, ir.ArrayAttr):
        return _make(registry, (tuple, None), [decode(child, reader) for child in attr])
    (item,) = attr
    payload = list(item.attr)
    if item.name == "list":
        return _make(registry, (list, None), [decode(child, reader) for child in payload])
    if item.name in ("dict", "ordered_dict"):
        keys = [codec.decode(pair[0], reader) for pair in payload]
        cls = dict if item.name == "dict" else collections.OrderedDict
        metadata = keys if cls is dict else tuple(keys)
        return _make(registry, (cls, metadata), [decode(pair[1], reader) for pair in payload])
    cls = _find_type(ir.StringAttr(payload[0]).value)
    children = [decode(child, reader) for child in payload[-1]]
    metadata = cls if item.name == "namedtuple" else codec.decode(payload[1], reader)
    return _make(registry, (cls, metadata), children)


def _make(registry: Any, data: tuple[type, Any], children: list[Any]) -> Any:
    return tree_util.PyTreeDef.from_node_data_and_children(registry, data, children)


def _find_type(name: str) -> type:
    found = _node_types.get(name)
    if found is not None:
        return found
    module, _, qualname = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in qualname.split("."):
        value = getattr(value, part, None)
    if isinstance(value, type):
        return value
    raise ExportError(
        f'the pytree node type "{name}" is not known to this process: import its module, or call '
        "jaxmlir.pytrees.register_node_type"
    )
