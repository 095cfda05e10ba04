"""The tables of codecs, by Python type and by tag, and the two functions that use them."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from jaxmlir.dialect import handles
from jaxmlir.dialect.codec import records
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import ArgumentError, ExportError, ImportingError, JaxmlirError, nearest


class Writer(Protocol):
    """The module that an encoder writes into, as encoders see it."""

    def function(self, jaxpr: Any) -> tuple[str, ...]:
        """The symbol of the function made from a (closed) jaxpr.

        If the function takes the jaxpr's constants as its first arguments, the symbol of a function
        without arguments that returns their values follows.
        """

    def handle(self, value: Any) -> str:
        """The name of an in-process handle for ``value``."""


class Reader(Protocol):
    """The module that a decoder reads from, as decoders see it."""

    def jaxpr(self, symbol: str) -> Any:
        """The closed jaxpr made from a function."""

    def bound(self, symbol: str, values: str) -> Any:
        """The closed jaxpr of a function; another function returns the values of its constants."""


class _NoModule:
    """Writes and reads attributes that belong to no module, such as the encodings of types."""

    def function(self, jaxpr: Any) -> tuple[str, ...]:
        raise ImportingError("a value outside of a module cannot contain a jaxpr")

    def handle(self, value: Any) -> str:
        return handles.keep(value)

    def jaxpr(self, symbol: str) -> Any:
        raise ExportError(f"a value outside of a module cannot refer to @{symbol}")

    def bound(self, symbol: str, values: str) -> Any:
        return self.jaxpr(symbol)


NO_MODULE = _NoModule()


class _Symbols:
    """A ``Reader`` that represents a function by its symbol."""

    def jaxpr(self, symbol: str) -> str:
        return symbol

    def bound(self, symbol: str, values: str) -> str:
        return symbol


SYMBOLS: Any = _Symbols()


Encoder = Callable[[Any, Writer], ir.Attribute]
Decoder = Callable[[ir.Attribute, Reader], Any]

encoders: dict[type, Encoder] = {}
"""Encoders by the exact type of a value."""
bases: dict[type, Encoder] = {}
"""Encoders by base class of a value's type."""
decoders: dict[str, Decoder] = {}
"""Decoders by the tag of a dictionary."""
attribute_decoders: dict[type[ir.Attribute], Decoder] = {}
"""Decoders by class of attribute, for classes other than text, numbers and lists."""
late: list[Callable[[str], None]] = []
"""Functions that are called with each tag, or name of a class, before it is looked up.  They
register the codecs of classes that take long to import."""
# Attributes by value, and values by attribute.
cache: dict[Any, ir.Attribute] = {}
_decoded: dict[ir.Attribute, Any] = {}


def encode(value: Any, writer: Writer = NO_MODULE) -> ir.Attribute:
    """The attribute of a parameter's value."""
    encoder = encoders.get(type(value))
    if encoder is None:
        encoder = encoders[type(value)] = _find_encoder(type(value))
    return encoder(value, writer)


def _find_encoder(cls: type) -> Encoder:
    """The encoder for a class seen for the first time, found by its base classes."""
    encoder = _encoder_by_base(cls)
    if encoder is None:
        _register_late(cls.__name__)
        encoder = encoders.get(cls) or _encoder_by_base(cls)
    if encoder is None:
        encoder = _encode_other if records.tag_of(cls) is None else _encode_record
    return encoder


def _encoder_by_base(cls: type) -> Encoder | None:
    return next((encoder for base, encoder in bases.items() if issubclass(cls, base)), None)


def _register_late(name: str) -> None:
    for register in late:
        register(name)


def _encode_record(value: Any, writer: Writer) -> ir.Attribute:
    encoded = record(value, writer)
    return encode_handle(value, writer) if encoded is None else encoded


def record(value: Any, writer: Writer = NO_MODULE) -> ir.Attribute | None:
    """The attribute of a record of JAX's kernel packages; ``None`` for any other value."""
    if records.tag_of(type(value)) is None or not records.can_be_made_again(value):
        return None
    return codec_of_record(type(value))[0](value, writer)


@functools.cache
def codec_of_record(cls: type) -> tuple[Encoder, Decoder]:
    """The codec of the records of a class."""
    return codec_of_class(records.tag_of(cls), cls, None if records.has_fields(cls) else {})


def decode(attr: ir.Attribute, reader: Reader = NO_MODULE) -> Any:
    """The value that :func:`encode` wrote as ``attr``."""
    try:
        return _decoded[attr]
    except KeyError:
        value = _decode(attr, reader)
        if not depends_on_module(attr):
            _decoded[attr] = value
        return value


def _decode(attr: ir.Attribute, reader: Reader) -> Any:
    for cls, of_attribute in attribute_decoders.items():
        if isinstance(attr, cls):
            return of_attribute(attr, reader)
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.StringAttr, ir.FloatAttr)):
        return attr.value
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return reader.jaxpr(attr.value)
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        return tuple(attr)
    if isinstance(attr, ir.ArrayAttr):
        return tuple(decode(item, reader) for item in attr)
    if isinstance(attr, ir.DictAttr) and len(attr) == 1:
        (item,) = attr
        _register_late(item.name)
        decoder = decoders.get(item.name)
        if decoder is not None:
            try:
                return decoder(item.attr, reader)
            except JaxmlirError:
                raise
            except Exception as e:  # also from a user's class
                raise ExportError(f"{attr} cannot be read: {type(e).__name__}: {e}") from e
        raise ExportError(
            f'{attr}: this process knows no parameter type "{item.name}"; '
            "register its class with jaxmlir.register_param_type"
        )
    raise ExportError(f"{attr} is not the encoding of a parameter")


# Tags of values that modules must not share: handles of a module, and mutable values.
HANDLE = "handle"
OWN_TAGS = frozenset({HANDLE, "Device", "list", "dict"})


def depends_on_module(attr: ir.Attribute) -> bool:
    """Whether modules must not share the value that an attribute decodes to.

    Such a value refers to functions or handles of the module, or is mutable.
    """
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return True
    if isinstance(attr, ir.ArrayAttr):
        return any(depends_on_module(item) for item in attr)
    if isinstance(attr, ir.DictAttr):
        return any(item.name in OWN_TAGS or depends_on_module(item.attr) for item in attr)
    return False


def handles_in(attr: ir.Attribute) -> Iterator[str]:
    """The names of the Python objects that an attribute refers to."""
    if isinstance(attr, ir.ArrayAttr):
        for item in attr:
            yield from handles_in(item)
    elif isinstance(attr, ir.DictAttr):
        for item in attr:
            if item.name == HANDLE and isinstance(item.attr, ir.StringAttr):
                yield item.attr.value
            else:
                yield from handles_in(item.attr)


# --- what codecs are made of ------------------------------------------------------------------


def tagged(tag: str, payload: ir.Attribute) -> ir.Attribute:
    """``{tag = payload}``."""
    return ir.DictAttr.get({tag: payload})


def array(attrs: Sequence[ir.Attribute]) -> ir.Attribute:
    return ir.ArrayAttr.get(list(attrs))


def string(attr: ir.Attribute) -> str:
    return ir.StringAttr(attr).value


def cached(encoder: Callable[[Any], ir.Attribute]) -> Encoder:
    """Makes the encoder of immutable values that, within one type, are the same if equal."""

    def encode_cached(value: Any, _: Writer) -> ir.Attribute:
        key = (type(value), value)
        encoded = cache.get(key)
        if encoded is None:
            with context():
                encoded = cache[key] = encoder(value)
        return encoded

    return encode_cached


def encode_handle(value: Any, writer: Writer) -> ir.Attribute:
    """Encodes a value that cannot be written down by the name under which the writer keeps it."""
    with context():
        return tagged(HANDLE, ir.StringAttr.get(writer.handle(value)))


def tagged_as(
    tag: str,
    payload_of: Callable[[Any, Writer], ir.Attribute | None],
    value_of: Callable[[ir.Attribute, Reader], Any],
) -> Encoder:
    """Registers the codec of objects that are written as ``{tag = ...}``; one without a payload is
    a handle."""

    def encode_tagged(value: Any, writer: Writer) -> ir.Attribute:
        with context():
            payload = payload_of(value, writer)
            return encode_handle(value, writer) if payload is None else tagged(tag, payload)

    decoders[tag] = value_of
    return encode_tagged


def by_name(tag: str, name_of: Callable[[Any], str | None], find: Callable[[str], Any]) -> Encoder:
    """Registers the codec of objects that are written as a name; one without is a handle."""

    def payload(value: Any, _: Writer) -> ir.Attribute | None:
        name = name_of(value)
        return None if name is None else ir.StringAttr.get(name)

    return tagged_as(tag, payload, lambda attr, _: find(string(attr)))


def by_value(tag: str, value_of: Callable[[Any], Any], make: Callable[[Any], Any]) -> Encoder:
    """Registers the codec of objects that are made of one value, which has a codec of its own."""

    def payload(value: Any, writer: Writer) -> ir.Attribute:
        return encode(value_of(value), writer)

    return tagged_as(tag, payload, lambda attr, reader: make(decode(attr, reader)))


def by_parts(
    tag: str, parts_of: Callable[[Any], dict[str, Any] | None], make: Callable[..., Any]
) -> Encoder:
    """Registers the codec of objects that are made of parts, which have codecs of their own; one
    whose parts are not known is a handle."""

    def payload(value: Any, writer: Writer) -> ir.Attribute | None:
        parts = parts_of(value)
        return None if parts is None else encode_parts(parts, writer)

    return tagged_as(tag, payload, lambda attr, reader: make(**decode_parts(attr, reader)))


def encode_parts(parts: dict[str, Any], writer: Writer) -> ir.Attribute:
    return ir.DictAttr.get({name: encode(part, writer) for name, part in parts.items()})


def decode_parts(attr: ir.Attribute, reader: Reader) -> dict[str, Any]:
    return {item.name: decode(item.attr, reader) for item in attr}


# Values of classes that nothing is known of.
_encode_other = by_name("sentinel", records.sentinel_name, records.sentinel_called)


def register_param_type(cls: type, tag: str | None = None) -> None:
    """Lets a user's own enum, named tuple or dataclass be written down as ``{tag = ...}``.

    Args:
      cls: the class; its fields must be encodable in turn.
      tag: its name in the dialect; by default the class's name.

    Raises:
      ArgumentError: ``cls`` is not such a class, or the dialect uses the tag for values of JAX.
    """
    is_supported = isinstance(cls, type) and (
        issubclass(cls, enum.Enum) or hasattr(cls, "_fields") or dataclasses.is_dataclass(cls)
    )
    if not is_supported:
        raise ArgumentError(
            f"register_param_type: expected an enum, a named tuple or a dataclass, got {cls!r}"
        )
    tag = cls.__name__ if tag is None else tag
    if not isinstance(tag, str) or not tag:
        raise ArgumentError(f"tag: expected a name, got {tag!r}")
    _register_late(tag)
    if tag in decoders and tag not in _of_users:
        raise ArgumentError(
            f"register_param_type: the dialect has values of its own named {tag!r}; give another "
            f"name for {cls.__name__}: tag=..."
        )
    # The class may replace one of the same name, as when a notebook's cell is run again.
    _of_users.add(tag)
    _decoded.clear()
    register_class(tag, cls, None)


_of_users: set[str] = set()
"""Tags of classes that users have registered."""


def register_class(tag: str, cls: type, fields: dict[str, str] | None) -> None:
    encoders[cls], decoders[tag] = codec_of_class(tag, cls, fields)


def codec_of_class(tag: str, cls: type, fields: dict[str, str] | None) -> tuple[Encoder, Decoder]:
    """The codec that writes an enum, a named tuple or a dataclass as ``{tag = ...}``.

    Args:
      fields: for other classes, the constructor's keyword for each field.
    """
    return _codec_of_enum(tag, cls) if issubclass(cls, enum.Enum) else _of_fields(tag, cls, fields)


def _codec_of_enum(tag: str, cls: type[enum.Enum]) -> tuple[Encoder, Decoder]:
    def encode_member(value: Any, writer: Writer) -> ir.Attribute:
        key = (cls, value.name or value.value)
        encoded = cache.get(key)
        if encoded is None:
            with context():
                # A combination of several flags, or of none, is not a member.
                named = value.name in cls.__members__
                payload = ir.StringAttr.get(value.name) if named else encode(value.value, writer)
                encoded = cache[key] = tagged(tag, payload)
        return encoded

    def decode_member(attr: ir.Attribute, _: Reader) -> Any:
        if issubclass(cls, enum.Flag) and isinstance(attr, ir.IntegerAttr):
            return cls(attr.value)
        name = string(attr)
        if name not in cls.__members__:
            members = ", ".join(f'"{member}"' for member in cls.__members__)
            raise ExportError(f"{{{tag} = {attr}}} cannot be read: expected one of {members}")
        return cls[name]

    return encode_member, decode_member


def _of_fields(tag: str, cls: type, fields: dict[str, str] | None) -> tuple[Encoder, Decoder]:
    defaults: dict[str, Any] = dict.fromkeys(fields or ())
    if fields is None and hasattr(cls, "_fields"):
        fields = {name: name for name in cls._fields}
        defaults = cls._field_defaults
    elif fields is None:
        init_fields = [f for f in dataclasses.fields(cls) if f.init]
        fields = {f.name: f.name for f in init_fields}
        defaults = {f.name: f.default for f in init_fields if f.default is not dataclasses.MISSING}

    def encode_fields(value: Any, writer: Writer) -> ir.Attribute:
        with context():
            payload = {}
            for field, keyword in fields.items():
                item = getattr(value, field, None)
                default = defaults.get(field, dataclasses.MISSING)
                if item is not default and (type(item) is not type(default) or item != default):
                    payload[keyword] = encode(item, writer)
            return tagged(tag, ir.DictAttr.get(payload))

    is_tuple = hasattr(cls, "_fields")

    def decode_fields(attr: ir.Attribute, reader: Reader) -> Any:
        kwargs = {item.name: decode(item.attr, reader) for item in attr}
        if is_tuple:
            _check_fields(tag, cls._fields, defaults, kwargs)
            kwargs = {name: kwargs.get(name, defaults.get(name)) for name in cls._fields}
        return cls(**kwargs)

    return encode_fields, decode_fields


def _check_fields(
    tag: str, fields: Sequence[str], defaults: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Refuses missing fields, and fields that a class does not have (of another version, or
    misspelt)."""
    if unknown := sorted(given.keys() - {*fields}):
        takes = ", ".join(map(repr, fields))
        meant = nearest(unknown[0], fields)
        hint = f"; did you mean '{meant}'?" if meant else ""
        raise ExportError(f"a {tag} of this JAX has fields {takes}, got '{unknown[0]}'{hint}")
    for name in fields:
        if name not in given and name not in defaults:
            raise ExportError(f"a {tag} needs a field '{name}', got {', '.join(given) or 'none'}")
