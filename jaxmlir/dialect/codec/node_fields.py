"""Fields of pytree nodes, for processes that do not have the nodes' classes.

A file describes the fields of each named tuple and each registered dataclass in its pytrees.  If a
class is not known, a class of the same name and fields stands in: a ``namedtuple`` or
``dataclass``, with the same children and the same metadata.  A process makes one stand-in for each
name and fields.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import keyword
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax

from jaxmlir._compat import is_registered_node, tree_util
from jaxmlir.dialect.codec import records, registry
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import ExportError


class NodeFields(NamedTuple):
    """The fields of a class of pytree nodes.

    Attributes:
      name: the class, as ``module:QualifiedName``.
      places: for each field, the index of the child it is, or its index path in the node's
        metadata, a tuple of tuples.  For a named tuple, the indices in order.
    """

    name: str
    is_namedtuple: bool
    fields: tuple[str, ...]
    places: tuple[int | tuple[int, ...], ...]

    @property
    def num_children(self) -> int:
        return sum(isinstance(place, int) for place in self.places)


def encode(trees: Iterable[Any]) -> ir.Attribute | None:
    """The fields of all classes of named tuples and dataclasses in some pytrees; ``None`` if there
    are none."""
    fields: dict[NodeFields, None] = {}
    for tree in trees:
        fields |= dict.fromkeys(_fields_in(tree))
    with context():
        return registry.encode(tuple(map(tuple, fields))) if fields else None


def make_known(attr: ir.Attribute) -> None:
    """Lets pytrees have nodes of the classes whose fields :func:`encode` has written.

    Raises:
      ExportError: the fields are malformed.
    """
    try:
        for item in registry.decode(attr):
            fields = NodeFields(*item)
            _check(fields)
            _stand_ins[fields.name, fields.num_children] = class_of(fields)
    except (TypeError, ValueError) as e:
        raise ExportError(f"cannot read {attr} as fields of pytree nodes: {e}") from None


def stand_in(name: str, num_children: int) -> type | None:
    """The class that stands in for one of this name whose nodes have this many children."""
    return _stand_ins.get((name, num_children))


def is_stand_in(cls: type) -> bool:
    return cls in _fields_of


_stand_ins: dict[tuple[str, int], type] = {}
_fields_of: dict[type, NodeFields] = {}


def _check(fields: NodeFields) -> None:
    """Checks that a class with these fields can be made, and that making it runs no code."""
    module, _, qualname = fields.name.partition(":")
    words = [*module.split("."), *qualname.replace(".<locals>", "").split("."), *fields.fields]
    valid = all(w.isidentifier() and not keyword.iskeyword(w) for w in words)
    if not valid or any(f.startswith("_") for f in fields.fields):
        raise ValueError(f"{fields.name} cannot be a class with the fields {fields.fields}")
    children = sorted(place for place in fields.places if isinstance(place, int))
    paths = [place for place in fields.places if not isinstance(place, int)]
    if (
        len(fields.fields) != len(fields.places)
        or children != list(range(len(children)))
        or (fields.is_namedtuple and paths)
        or not all(isinstance(i, int) for path in paths for i in path)
    ):
        raise ValueError(f"{fields.name} has malformed places of its fields: {fields.places}")


@functools.cache
def class_of(fields: NodeFields) -> type:
    """The stand-in class with these fields; the same one each time."""
    module, _, qualname = fields.name.partition(":")
    name = qualname.rpartition(".")[2]
    if fields.is_namedtuple:
        cls: Any = collections.namedtuple(name, fields.fields)
    else:
        cls = dataclasses.make_dataclass(name, fields.fields)
        data = {f: p for f, p in zip(fields.fields, fields.places, strict=True) if type(p) is int}
        names = sorted(data, key=data.__getitem__)
        flatten = functools.partial(_flatten, names)
        jax.tree_util.register_pytree_with_keys(
            cls, flatten, functools.partial(_unflatten, cls, names)
        )
    cls.__module__, cls.__qualname__ = module, qualname
    _fields_of[cls] = fields
    return cls


def _flatten(names: list[str], node: Any) -> Any:
    children = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in names]
    cls, metadata = type(node), getattr(node, "_metadata", None)
    if metadata is None:
        metadata = getattr(cls, "_metadata_of_one", ())
    for name, place in zip(*_fields_of[cls][2:], strict=True):
        if isinstance(place, tuple):
            metadata = _replaced(metadata, place, getattr(node, name))
    return children, metadata


def _unflatten(cls: Any, names: list[str], metadata: Any, children: Iterable[Any]) -> Any:
    node = object.__new__(cls)
    vars(node).update(zip(names, children, strict=True))
    for name, place in zip(*_fields_of[cls][2:], strict=True):
        if isinstance(place, tuple):
            setattr(node, name, _at(metadata, place))
    node._metadata = cls._metadata_of_one = metadata
    return node


def _at(metadata: Any, path: tuple[int, ...]) -> Any:
    for i in path:
        metadata = metadata[i]
    return metadata


def _replaced(metadata: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    items = [*metadata, *[None] * (path[0] + 1 - len(metadata))]
    items[path[0]] = _replaced(items[path[0]] or (), path[1:], value) if path[1:] else value
    return tuple(items)


# --- what the fields of a class are ---------------------------------------------------------------


def _fields_in(tree: Any) -> Iterator[NodeFields]:
    node = tree.node_data()
    if node is None:
        return
    fields = _fields_at(tree, *node)
    if fields is not None:
        yield fields
    for child in tree.children():
        yield from _fields_in(child)


def _fields_at(tree: Any, cls: type, metadata: Any) -> NodeFields | None:
    """The fields of the class of a tree's node; ``None`` if they do not describe all children."""
    if cls in _fields_of:
        return _fields_of[cls]
    name = f"{cls.__module__}:{cls.__qualname__}"
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and not is_registered_node(cls):
        return NodeFields(name, True, cls._fields, tuple(range(len(cls._fields))))
    if not dataclasses.is_dataclass(cls):
        return None
    try:
        node = jax.tree.unflatten(tree, [object() for _ in range(tree.num_leaves)])
        children = list(tree_util.default_registry.flatten_one_level(node)[0])
        values = {f.name: getattr(node, f.name) for f in dataclasses.fields(cls)}
    except Exception:  # from the user's class
        return None
    places: dict[str, int | tuple[int, ...]] = {}
    for field, value in values.items():
        child = next((i for i, matched in enumerate(children) if matched is value), None)
        place = _path_to(value, metadata) if child is None else child
        if place is not None:
            places[field] = place
    matched = [place for place in places.values() if isinstance(place, int)]
    if len(set(matched)) < len(matched) or len(matched) < len(children):
        return None
    fields = NodeFields(name, False, tuple(places), tuple(places.values()))
    try:
        _check(fields)
    except ValueError:
        return None
    return fields


def _path_to(value: Any, metadata: Any) -> tuple[int, ...] | None:
    """The index path of a value in a tuple of tuples."""
    if not isinstance(metadata, tuple):
        return None
    for i, item in enumerate(metadata):
        if item is value:
            return (i,)
        below = _path_to(value, item)
        if below is not None:
            return (i, *below)
    return None


# --- the metadata of nodes ------------------------------------------------------------------------


class UnknownSentinel(NamedTuple):
    """A sentinel, ``module:NAME``, of a module that this process does not have."""

    name: str

    def __repr__(self) -> str:
        return self.name


def decode_metadata(attr: ir.Attribute, reader: registry.Reader) -> Any:
    """The metadata of a stand-in's node, in which sentinels may be unknown."""
    if isinstance(attr, ir.ArrayAttr):
        return tuple([decode_metadata(item, reader) for item in attr])
    if isinstance(attr, ir.DictAttr) and [item.name for item in attr] == ["sentinel"]:
        name = ir.StringAttr(attr[0].attr).value
        try:
            return records.sentinel_called(name)
        except ExportError:
            return UnknownSentinel(name)
    return registry.decode(attr, reader)


def _encode_unknown(value: UnknownSentinel, writer: registry.Writer) -> ir.Attribute:
    with context():
        return registry.tagged("sentinel", ir.StringAttr.get(value.name))


registry.encoders[UnknownSentinel] = _encode_unknown
