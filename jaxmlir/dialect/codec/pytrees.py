"""Pytree structures as attributes.

A leaf is ``"*"``; ``None`` is ``none``; a tuple is an array.  A list, dict, named tuple or custom
node is a dictionary with one entry, whose key gives the kind: ``{list = [...]}``,
``{dict = [["key", child], ...]}``, ``{namedtuple = ["module:Name", [...]]}``,
``{node = ["module:Name", metadata, [...]]}``.  A named tuple that is registered with JAX is a
custom node: its flatten function gives its children, which need not be its fields.

Reading never imports anything.  A named tuple or node type must already be known to the process,
or be made known with :func:`register_node_type`.  If a file describes the fields of an unknown
class, a stand-in replaces it (:mod:`jaxmlir.dialect.codec.node_fields`).  The command line tools
need no classes.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import jax

from jaxmlir import _compat
from jaxmlir._compat import tree_util
from jaxmlir.dialect.codec import node_fields
from jaxmlir.dialect.codec import registry as codec
from jaxmlir.dialect.ir import context, ir, unknown_nodes
from jaxmlir.errors import ArgumentError, ExportError

_node_types: dict[str, type] = {}


def register_node_type(cls: type, name: str | None = None) -> None:
    """Makes a named tuple or registered pytree node readable under ``name``.

    Args:
      cls: the class.
      name: by default ``module:QualifiedName``, as in writing.

    Raises:
      ArgumentError: ``cls`` is not a class, or ``name`` is not a string.
    """
    if not isinstance(cls, type):
        raise ArgumentError(f"register_node_type: expected a class, got {cls!r}")
    if not isinstance(name, str | None):
        raise ArgumentError(f"name: expected a string, got {name!r}")
    _node_types[name or _type_name(cls)] = cls


def _type_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def encode(tree: Any, writer: codec.Writer = codec.NO_MODULE) -> ir.Attribute:
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
    if cls is _StandIn:
        return metadata.encode(children)
    if not node_fields.is_stand_in(cls):
        # The class may replace one of the same name, as when a notebook's cell is run again.
        _node_types[_type_name(cls)] = cls
    if _is_plain_namedtuple(cls):
        name = ir.StringAttr.get(_type_name(cls))
        return codec.tagged("namedtuple", ir.ArrayAttr.get([name, ir.ArrayAttr.get(children)]))
    parts = [
        ir.StringAttr.get(_type_name(cls)),
        codec.encode(metadata, writer),
        ir.ArrayAttr.get(children),
    ]
    return codec.tagged("node", ir.ArrayAttr.get(parts))


def decode(attr: ir.Attribute, reader: codec.Reader = codec.NO_MODULE) -> Any:
    """The ``PyTreeDef`` that :func:`encode` wrote as ``attr``.

    Raises:
      ExportError: a node's type is not known to this process, or the encoding is malformed.
    """
    # JAX's own node types, such as views of references, are only in the registry for tracing.
    registries = (tree_util.default_registry, tree_util.tracing_registry)
    for registry in registries:
        try:
            return _Decoder(registry, reader).tree(attr)
        except (ValueError, TypeError, LookupError, RuntimeError) as e:
            error = e
    raise ExportError(f"{attr} is not the encoding of a pytree: {error}") from None


# Decoded trees without user classes, by registry: the layers of a model have equal subtrees, and
# the tree of a program is decoded repeatedly, also for programs made from it.
_decoded: dict[Any, dict[ir.Attribute, Any]] = {}


class _Decoder:
    """Reads trees with the node types of one of JAX's registries."""

    def __init__(self, registry: Any, reader: codec.Reader):
        self.registry = registry
        self.reader = reader
        self.known = _decoded.setdefault(registry, {})
        # Counts look-ups by name, whose results may change, so such trees are not cached.
        self.lookups = 0

    def tree(self, attr: ir.Attribute) -> Any:
        tree = self.known.get(attr)
        if tree is None:
            before = self.lookups
            tree = self.node(attr)
            if self.lookups == before:
                self.known[attr] = tree
        return tree

    def node(self, attr: ir.Attribute) -> Any:
        if isinstance(attr, ir.StringAttr) and attr.value == "*":
            return self.registry.flatten(0)[1]
        if isinstance(attr, ir.TypeAttr):
            return self.registry.flatten(None)[1]
        if isinstance(attr, ir.ArrayAttr):
            return self.make(tuple, None, attr)
        if not isinstance(attr, ir.DictAttr):
            raise ValueError(f"{attr} is not a node")
        (item,) = attr
        payload = list(item.attr)
        match item.name:
            case "list":
                return self.make(list, None, payload)
            case "dict" | "ordered_dict":
                keys = [self.key(key) for key, _ in payload]
                if len(set(keys)) != len(keys):
                    raise ValueError("a dictionary has the same key twice")
                cls = dict if item.name == "dict" else collections.OrderedDict
                metadata = keys if cls is dict else tuple(keys)
                return self.make(cls, metadata, [child for _, child in payload])
            case "namedtuple" | "node":
                try:
                    return self.of_class(item.name, payload)
                except ExportError:
                    if not unknown_nodes.get():
                        raise
                *said, children = payload
                return self.make(_StandIn, _NodeTexts(item.name, *map(str, said)), children)
        raise ValueError(f"unknown node {item.name!r}")

    def of_class(self, tag: str, payload: list[ir.Attribute]) -> Any:
        """A node of a class that this process has."""
        match tag:
            case "namedtuple":
                name, children = payload
                cls = self.find_type(ir.StringAttr(name).value, len(children))
                if not _is_plain_namedtuple(cls) or len(cls._fields) != len(children):
                    raise ValueError(f"{cls} is not a named tuple of {len(children)} fields")
                return self.make(cls, cls, children)
            case "node":
                name, metadata, children = payload
                cls = self.find_type(ir.StringAttr(name).value, len(children))
                if cls in _BUILTIN or _is_plain_namedtuple(cls):
                    raise ValueError(f"{cls} is not a registered pytree node")
                is_known = not node_fields.is_stand_in(cls)
                decode_metadata = codec.decode if is_known else node_fields.decode_metadata
                return self.make(cls, decode_metadata(metadata, self.reader), children)

    def key(self, attr: ir.Attribute) -> Any:
        if not isinstance(attr, (ir.StringAttr, ir.IntegerAttr)):
            self.lookups += 1
        return codec.decode(attr, self.reader)

    def find_type(self, name: str, num_children: int) -> type:
        self.lookups += 1
        return _find_type(name, num_children)

    def make(self, cls: type, metadata: Any, children: Iterable[ir.Attribute]) -> Any:
        """A tree node; JAX refuses classes that are neither named tuples nor registered."""
        trees = list(map(self.tree, children))
        if _is_namedtuple(cls) and not _is_plain_namedtuple(cls):
            return _compat.custom_node(self.registry, cls, metadata, trees)
        return tree_util.PyTreeDef.from_node_data_and_children(
            self.registry, (cls, metadata), trees
        )


def nodes(tree: Any) -> Iterator[tuple[type, Any]]:
    """The type and the metadata of each container in a pytree."""
    node = tree.node_data()
    if node is not None:
        yield node
        for child in tree.children():
            yield from nodes(child)


def is_of_arguments(tree: Any) -> bool:
    """Whether a ``PyTreeDef`` is of a tuple of arguments and a dictionary of keyword arguments."""
    kinds = [node[0] if (node := part.node_data()) else None for part in (tree, *tree.children())]
    return kinds == [tuple, tuple, dict]


def of_placeholders(tree: Any, avals: Sequence[Any] = ()) -> Any:
    """The pytree of a ``PyTreeDef`` with an ``object()`` for each leaf.

    JAX itself unflattens trees without arrays this way, so a node that distinguishes arrays from
    other values takes these for arrays.  A node that inspects the shapes of its leaves when it is
    made fails on them: then the leaves are ``ShapeDtypeStruct``s of ``avals`` (or arrays).
    """
    try:
        return jax.tree.unflatten(tree, [object() for _ in range(tree.num_leaves)])
    except Exception:
        if len(avals) != tree.num_leaves:
            raise
        return jax.tree.unflatten(tree, jax.eval_shape(lambda *leaves: leaves, *avals))


class _NodeTexts(NamedTuple):
    """The description of a node of an unknown class, as texts of attributes."""

    tag: str
    name: str
    metadata: str = ""

    def encode(self, children: list[ir.Attribute]) -> ir.Attribute:
        said = [ir.Attribute.parse(text) for text in (self.name, self.metadata) if text]
        return codec.tagged(self.tag, ir.ArrayAttr.get([*said, ir.ArrayAttr.get(children)]))


class _StandIn(tuple[Any, ...]):
    """A node of an unknown class, with its children; see :mod:`jaxmlir.dialect.codec.pytrees`."""

    said: _NodeTexts


def _flatten_stand_in(node: _StandIn) -> Any:
    return [(jax.tree_util.SequenceKey(i), child) for i, child in enumerate(node)], node.said


def _unflatten_stand_in(said: _NodeTexts, children: Iterable[Any]) -> _StandIn:
    node = _StandIn(children)
    node.said = said
    return node


jax.tree_util.register_pytree_with_keys(_StandIn, _flatten_stand_in, _unflatten_stand_in)


@dataclass(frozen=True)
class BoolNode:
    """A boolean that is part of a tree; unflattening gives the boolean itself."""

    value: bool


jax.tree_util.register_pytree_node(
    BoolNode, lambda flag: ((), flag.value), lambda value, children: value
)

_BUILTIN = frozenset({tuple, list, dict, type(None), collections.OrderedDict})


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _is_plain_namedtuple(cls: type) -> bool:
    """Whether JAX treats a class as a node whose children are its fields."""
    return _is_namedtuple(cls) and not _compat.is_registered_node(cls)


def _find_type(name: str, num_children: int) -> type:
    """The class of that name among those that exist in this process, or its stand-in."""
    registered = _node_types.get(name)
    if registered is not None:
        return registered
    module, _, qualname = name.partition(":")
    # Uses vars(): getattr on a module may run its code, or import others.
    value: Any = sys.modules.get(module)
    for part in qualname.split("."):
        value = vars(value).get(part) if isinstance(value, (type, ModuleType)) else None
    if isinstance(value, type):
        return value
    stand_in = node_fields.stand_in(name, num_children)
    if stand_in is not None:
        return stand_in
    raise ExportError(
        f'the pytree node type "{name}" is not known to this process: import its module, or give a '
        "class this name with jaxmlir.register_node_type"
    )
