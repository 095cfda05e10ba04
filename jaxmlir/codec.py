"""Parameters of equations as MLIR attributes, and back: one codec per Python type.

=======================  ====================================================================
``None``                 ``none``
``True``                 ``true``
``3``                    ``3 : i64`` (beyond 64 bits: ``{int = "..."}``)
``1.0``                  ``1.000000e+00 : f64``
``1j``                   ``{complex = [0.0, 1.0]}``
``"s"``                  ``"s"``
``np.dtype("f4")``       ``f32`` (an element type); ``np.float32`` is ``{scalar_type = f32}``
an aval                  ``tensor<4xf32>`` (a whole type)
``(1, 2)``               ``array<i64: 1, 2>``; ``(True,)`` is ``array<i1: true>``
other tuples             ``[...]``
``[...]``                ``{list = [...]}``; ``{dict = [[k, v], ...]}``; ``{set = [...]}``
an enum                  ``{GatherScatterMode = "CLIP"}``
a named tuple or class   ``{GatherDimensionNumbers = {offset_dims = array<i64: 1>, ...}}``
a numpy array            ``dense<...>``; a numpy scalar is ``{scalar = dense<...>}``
a (closed) jaxpr         ``@f``, the symbol of a function
a primitive              ``{primitive = "ge"}``
a policy of checkpoint   ``{checkpoint_policy = ["dots_saveable"]}`` (see :mod:`jaxmlir.policies`)
a symbolic dimension     ``{dim = "2*b"}``; with its scope's constraints ``{dim = ["b", "b>=2"]}``
anything else            ``{handle = "h0"}`` (see :mod:`jaxmlir.handles`)
=======================  ====================================================================

A value of another class is a dictionary with one entry, its tag; so every attribute can be decoded
without knowing which parameter it is.  Attributes are uniqued in the process-wide context, which
makes the decoding of one a dictionary look-up the second time.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import marshal
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from jaxmlir import _compat, handles
from jaxmlir._compat import core, dtypes
from jaxmlir.dense import dense, undense
from jaxmlir.errors import ExportError, ImportingError
from jaxmlir.ir import context, ir, scope


class Writer(Protocol):
    """What an encoder needs of the module it writes into."""

    def function(self, jaxpr: Any) -> str:
        """The symbol of the function made from a (closed) jaxpr."""

    def handle(self, value: Any) -> str:
        """The name of an in-process handle for ``value``."""


class Reader(Protocol):
    """What a decoder needs of the module it reads from."""

    def jaxpr(self, symbol: str) -> Any:
        """The closed jaxpr made from a function."""


class _NoModule:
    """Writes and reads attributes that belong to no module, such as the encodings of types."""

    def function(self, jaxpr: Any) -> str:
        raise ImportingError("a jaxpr cannot stand here")

    def handle(self, value: Any) -> str:
        return handles.keep(value)

    def jaxpr(self, symbol: str) -> Any:
        raise ExportError(f"@{symbol} cannot stand here")


_NO_MODULE = _NoModule()

Encoder = Callable[[Any, Writer], ir.Attribute]
_encoders: dict[type, Encoder] = {}
_tagged_decoders: dict[str, Callable[[ir.Attribute, Reader], Any]] = {}
_cache: dict[Any, ir.Attribute] = {}
_decoded: dict[ir.Attribute, Any] = {}


def encode(value: Any, writer: Writer = _NO_MODULE) -> ir.Attribute:
    """The attribute of a parameter's value."""
    encoder = _encoders.get(type(value))
    if encoder is None:
        encoder = _encoders[type(value)] = _find_encoder(type(value))
    return encoder(value, writer)


def decode(attr: ir.Attribute, reader: Reader = _NO_MODULE) -> Any:
    """The value that :func:`encode` wrote as ``attr``."""
    try:
        return _decoded[attr]
    except KeyError:
        value = _decode(attr, reader)
        if not depends_on_module(attr):
            _decoded[attr] = value
        return value


def register_param_type(cls: type, tag: str | None = None) -> None:
    """Lets a user's own enum, named tuple or dataclass be written down as ``{tag = ...}``.

    Args:
      cls: the class; its fields must be encodable in turn.
      tag: its name in the dialect; by default the class's name.
    """
    tag = tag or cls.__name__
    _register_class(tag, cls, None)


def tagged(tag: str, payload: ir.Attribute) -> ir.Attribute:
    """``{tag = payload}``."""
    return ir.DictAttr.get({tag: payload})


def _array(attrs: Sequence[ir.Attribute]) -> ir.Attribute:
    return ir.ArrayAttr.get(list(attrs))


# --- encoding ---------------------------------------------------------------------------------


def _cached(encoder: Callable[[Any], ir.Attribute]) -> Encoder:
    """For immutable values whose equality, within one type, means being the same."""

    def encode_cached(value: Any, _: Writer) -> ir.Attribute:
        key = (type(value), value)
        found = _cache.get(key)
        if found is None:
            with context():
                found = _cache[key] = encoder(value)
        return found

    return encode_cached


def _int(value: int) -> ir.Attribute:
    if -(2**63) <= value < 2**63:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))
    return tagged("int", ir.StringAttr.get(str(int(value))))


def _float(value: float, _: Writer = _NO_MODULE) -> ir.Attribute:
    with scope():
        return ir.FloatAttr.get(ir.F64Type.get(), float(value))


def _complex(value: complex, _: Writer) -> ir.Attribute:
    with context():
        return tagged("complex", _array([_float(value.real), _float(value.imag)]))


def _tuple(value: tuple, writer: Writer) -> ir.Attribute:
    try:
        # A key that tells 1 from True and 1.0, which are equal.
        key = marshal.dumps(value, 2)
    except ValueError:
        return _uncached_tuple(value, writer)
    found = _cache.get(key)
    if found is None:
        found = _uncached_tuple(value, writer)
        if _is_plain(value):
            _cache[key] = found
    return found


_PLAIN = frozenset({int, bool, float, str, type(None)})


def _is_plain(value: tuple) -> bool:
    """Whether a tuple holds numbers, strings and such tuples only; others may share their bytes."""
    return all(_is_plain(v) if type(v) is tuple else type(v) in _PLAIN for v in value)


def _uncached_tuple(value: tuple, writer: Writer) -> ir.Attribute:
    kinds = set(map(type, value))
    if np.int64 in kinds and kinds <= {int, np.int64}:
        # Rules compute axes and sizes with numpy; to JAX these are integers like others.
        value, kinds = tuple(map(int, value)), {int}
    with context():
        if kinds == {int} and all(-(2**63) <= v < 2**63 for v in value):
            return ir.DenseI64ArrayAttr.get(list(value))
        if kinds == {bool}:
            return ir.DenseBoolArrayAttr.get(list(value))
        return _array([encode(v, writer) for v in value])


def _list(value: list, writer: Writer) -> ir.Attribute:
    with context():
        return tagged("list", _array([encode(v, writer) for v in value]))


def _dict(value: dict, writer: Writer) -> ir.Attribute:
    with context():
        items = [_array([encode(k, writer), encode(v, writer)]) for k, v in value.items()]
        return tagged("dict", _array(items))


def _set(value: frozenset | set, writer: Writer) -> ir.Attribute:
    with context():
        attrs = sorted((encode(v, writer) for v in value), key=str)
        return tagged("set", _array(attrs))


def _dtype(value: Any) -> ir.Attribute:
    from jaxmlir import types

    return ir.TypeAttr.get(types.element_of(value))


def _dtype_class(value: type, writer: Writer) -> ir.Attribute:
    try:
        dtype = np.dtype(value) if value is not object else None
    except TypeError:
        dtype = None
    if dtype is None or value not in (dtype.type, *_PYTHON_SCALARS):
        return encode_handle(value, writer)
    with context():
        if value in _PYTHON_SCALARS:
            return tagged("scalar_type", ir.StringAttr.get(value.__name__))
        return tagged("scalar_type", _dtype(dtype))


_PYTHON_SCALARS = (bool, int, float, complex)


def _aval(value: Any, _: Writer) -> ir.Attribute:
    from jaxmlir import types

    with context():
        return ir.TypeAttr.get(types.type_of(value))


def _ndarray(value: np.ndarray, writer: Writer) -> ir.Attribute:
    return dense(np.asarray(value))


def _np_scalar(value: np.generic, _: Writer) -> ir.Attribute:
    with context():
        return tagged("scalar", dense(np.asarray(value)))


def _jaxpr(value: Any, writer: Writer) -> ir.Attribute:
    with context():
        return ir.FlatSymbolRefAttr.get(writer.function(value))


def encode_handle(value: Any, writer: Writer) -> ir.Attribute:
    """A value that cannot be written down, as the name under which the writer keeps it."""
    with context():
        return tagged("handle", ir.StringAttr.get(writer.handle(value)))


def _primitive(value: Any, writer: Writer) -> ir.Attribute:
    from jaxmlir import primitives

    if primitives.find(value.name) is not value:
        return encode_handle(value, writer)
    with context():
        return tagged("primitive", ir.StringAttr.get(value.name))


def _partition_spec(value: Any, writer: Writer) -> ir.Attribute:
    with context():
        extras = {
            name: encode(getattr(value, name), writer)
            for name in ("unreduced", "reduced", "unreduced_kind")
            if getattr(value, name, None)
        }
        entries = encode(value.partitions, writer)
        payload = ir.DictAttr.get({"partitions": entries, **extras}) if extras else entries
        return tagged("PartitionSpec", payload)


def _device(value: Any, _: Writer) -> ir.Attribute:
    with context():
        return tagged("Device", ir.StringAttr.get(f"{value.platform}:{value.id}"))


def _mesh(value: Any, writer: Writer) -> ir.Attribute:
    with context():
        devices = value.devices
        fields = {
            "devices": _array([encode(d, writer) for d in devices.flat]),
            "shape": encode(devices.shape, writer),
            "axis_names": encode(value.axis_names, writer),
            "axis_types": encode(value.axis_types, writer),
        }
        return tagged("Mesh", ir.DictAttr.get(fields))


def _single_device_sharding(value: Any, writer: Writer) -> ir.Attribute:
    with context():
        fields = {
            "device": encode(value._device, writer),
            "memory_kind": encode(value._memory_kind, writer),
        }
        return tagged("SingleDeviceSharding", ir.DictAttr.get(fields))


def _treedef(value: Any, writer: Writer) -> ir.Attribute:
    from jaxmlir import pytrees

    with context():
        return tagged("pytree", pytrees.encode(value, writer))


def _effect(value: Any, writer: Writer) -> ir.Attribute:
    """Effects on an operand carry its index here; the importer has put it in place of the var."""
    name = type(value).__name__
    if _compat.resolve(_compat.EFFECT_CLASSES.get(name, "jaxmlir"), name) is not type(value):
        if name == "NamedAxisEffect":
            with context():
                return tagged(name, encode(value.name, writer))
        return encode_handle(value, writer)
    with context():
        index = getattr(value, "input", None)
        return tagged(name, encode(index, writer))


def _policy(value: Any, writer: Writer) -> ir.Attribute:
    """A policy of JAX's for ``jax.checkpoint``; any other function is a handle."""
    from jaxmlir import policies

    found = policies.describe(value)
    if found is None:
        return encode_handle(value, writer)
    name, arguments = found
    with context():
        fields = {key: encode(argument, writer) for key, argument in arguments.items()}
        parts = [ir.StringAttr.get(name), *([ir.DictAttr.get(fields)] if fields else [])]
        return tagged("checkpoint_policy", _array(parts))


def _hi_primitive(value: Any, writer: Writer) -> ir.Attribute:
    """A primitive that is an object of a class, with parameters of its own."""
    cls = type(value)
    with context():
        fields = {
            "name": ir.StringAttr.get(f"{cls.__module__}:{cls.__qualname__}"),
            "in_avals": encode(value.in_avals, writer),
            "out_aval": encode(value.out_aval, writer),
            "params": encode(dict(value.params), writer),
        }
        return tagged("hi_primitive", ir.DictAttr.get(fields))


def _dimension(value: Any, _: Writer) -> ir.Attribute:
    from jaxmlir import types

    with context():
        parts = [ir.StringAttr.get(part) for part in (str(value), *types.remember_scope(value))]
        return tagged("dim", parts[0] if len(parts) == 1 else _array(parts))


def _prng_impl(value: Any, writer: Writer) -> ir.Attribute:
    from jaxmlir._compat import prng

    if prng.prngs.get(value.name) is not value:
        return encode_handle(value, writer)
    with context():
        return tagged("PRNGImpl", ir.StringAttr.get(value.name))


def _singleton(tag: str) -> Encoder:
    def encode_singleton(value: Any, _: Writer) -> ir.Attribute:
        with context():
            return tagged("constant", ir.StringAttr.get(tag))

    return encode_singleton


def _register_class(tag: str, cls: type, fields: dict[str, str] | None) -> None:
    if issubclass(cls, enum.Enum):

        def encoder(value: Any, _: Writer) -> ir.Attribute:
            key = (cls, value.name)
            found = _cache.get(key)
            if found is None:
                with context():
                    found = _cache[key] = tagged(tag, ir.StringAttr.get(value.name))
            return found

        _encoders[cls] = encoder
        _tagged_decoders[tag] = lambda attr, reader: cls[_string(attr)]
        return

    defaults: dict[str, Any] = dict.fromkeys(fields or ())
    if fields is None and hasattr(cls, "_fields"):
        fields = {name: name for name in cls._fields}
        defaults = cls._field_defaults
    elif fields is None:
        own = [f for f in dataclasses.fields(cls) if f.init]
        fields = {f.name: f.name for f in own}
        defaults = {f.name: f.default for f in own if f.default is not dataclasses.MISSING}

    def encode_fields(value: Any, writer: Writer) -> ir.Attribute:
        with context():
            payload = {}
            for field, keyword in fields.items():
                item = getattr(value, field, None)
                if field not in defaults or item != defaults[field]:
                    payload[keyword] = encode(item, writer)
            return tagged(tag, ir.DictAttr.get(payload))

    is_tuple = hasattr(cls, "_fields")

    def decode_fields(attr: ir.Attribute, reader: Reader) -> Any:
        kwargs = {item.name: decode(item.attr, reader) for item in attr}
        if is_tuple:
            kwargs = {name: kwargs.get(name, defaults.get(name)) for name in cls._fields}
        return cls(**kwargs)

    _encoders[cls] = encode_fields
    _tagged_decoders[tag] = decode_fields


def _string(attr: ir.Attribute) -> str:
    return ir.StringAttr(attr).value


def _find_encoder(cls: type) -> Encoder:
    """The encoder of a class seen for the first time, by what it derives from."""
    for base, encoder in _BASES.items():
        if issubclass(cls, base):
            return encoder
    _register_jax_classes()
    _register_late_class(cls.__name__)
    if cls in _encoders:
        return _encoders[cls]
    for base, encoder in _jax_bases():
        if isinstance(base, type) and issubclass(cls, base):
            return encoder
    return encode_handle


def _jax_bases() -> list[tuple[Any, Encoder]]:
    import jax
    from jax import sharding

    from jaxmlir._compat import effects, mesh_lib, prng, shape_poly, tree_util

    return [
        (dtypes.ExtendedDType, _cached(_dtype)),
        (core.Jaxpr, _jaxpr),
        (core.ClosedJaxpr if hasattr(core, "ClosedJaxpr") else core.Jaxpr, _jaxpr),
        (core.AbstractValue, _aval),
        (core.Primitive, _primitive),
        (prng.PRNGImpl, _prng_impl),
        (sharding.PartitionSpec, _partition_spec),
        (sharding.SingleDeviceSharding, _single_device_sharding),
        (mesh_lib.Mesh, _mesh),
        (jax.Device, _device),
        (tree_util.PyTreeDef, _treedef),
        (effects.Effect, _effect),
        (shape_poly._DimExpr, _dimension),
        (_compat.hi_primitive_class(), _hi_primitive),
        *((cls, _policy) for cls in _compat.policy_classes()),
        (type, _dtype_class),
        (
            tuple,
            lambda value, writer: (
                _tuple(value, writer) if type(value) is tuple else encode_handle(value, writer)
            ),
        ),
    ]


def _register_late_class(tag: str) -> None:
    """Registers the class of that tag if it is one of a package that takes long to import."""
    if tag in _compat.LATE_PARAM_CLASSES and tag not in _tagged_decoders:
        module, fields = _compat.LATE_PARAM_CLASSES[tag]
        _register_class(tag, _compat.resolve(module, tag), fields)


_registered = False


def _register_jax_classes() -> None:
    global _registered
    if _registered:
        return
    _registered = True
    for tag, (module, fields) in _compat.PARAM_CLASSES.items():
        cls = _compat.resolve(module, tag)
        if cls is not None and cls not in _encoders:
            _register_class(tag, cls, fields)
    for tag, (module, name) in _compat.PARAM_SINGLETONS.items():
        value = _compat.resolve(module, name)
        if value is not None:
            _encoders[type(value)] = _singleton(tag)


_encoders.update(
    {
        type(None): _cached(lambda _: ir.TypeAttr.get(ir.NoneType.get())),
        bool: _cached(ir.BoolAttr.get),
        int: _cached(_int),
        float: _float,
        complex: _complex,
        str: _cached(ir.StringAttr.get),
        tuple: _tuple,
        list: _list,
        dict: _dict,
        frozenset: _set,
        set: _set,
        FunctionType: _policy,
    }
)
_BASES: dict[type, Encoder] = {
    np.dtype: _cached(_dtype),
    np.generic: _np_scalar,
    np.ndarray: _ndarray,
}


# --- decoding ---------------------------------------------------------------------------------


def _decode(attr: ir.Attribute, reader: Reader) -> Any:
    if isinstance(attr, ir.TypeAttr):
        return _decode_type(attr.value)
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.StringAttr, ir.FloatAttr)):
        return attr.value
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return reader.jaxpr(attr.value)
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        return tuple(attr)
    if isinstance(attr, ir.ArrayAttr):
        return tuple(decode(item, reader) for item in attr)
    if isinstance(attr, ir.DenseElementsAttr):
        return undense(attr)
    if isinstance(attr, ir.DictAttr) and len(attr) == 1:
        (item,) = attr
        _register_jax_classes()
        _register_late_class(item.name)
        decoder = _tagged_decoders.get(item.name)
        if decoder is not None:
            return decoder(item.attr, reader)
        raise ExportError(
            f'{attr}: this process knows no parameter type "{item.name}"; '
            "register_param_type makes a class known"
        )
    raise ExportError(f"{attr} is not the encoding of a parameter")


def _decode_type(type_: ir.Type) -> Any:
    from jaxmlir import types

    if isinstance(type_, ir.NoneType):
        return None
    text = str(type_)
    if isinstance(type_, ir.RankedTensorType) or text.startswith(
        ("!jaxpr.ref<", "!jaxpr.token", "!jaxpr.aval<")
    ):
        return types.aval_of(type_)
    return types.dtype_of(type_)


def depends_on_module(attr: ir.Attribute) -> bool:
    """Whether modules must not share what an attribute decodes to.

    It refers to functions or handles of theirs, or can be changed.
    """
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return True
    if isinstance(attr, ir.ArrayAttr):
        return any(depends_on_module(item) for item in attr)
    if isinstance(attr, ir.DictAttr):
        return any(
            item.name in ("handle", "Device", "list", "dict") or depends_on_module(item.attr)
            for item in attr
        )
    return False


def _decode_scalar_type(attr: ir.Attribute, _: Reader) -> type:
    if isinstance(attr, ir.StringAttr):
        return {cls.__name__: cls for cls in _PYTHON_SCALARS}[attr.value]
    return decode(attr).type


def _decode_partition_spec(attr: ir.Attribute, reader: Reader) -> Any:
    from jax.sharding import PartitionSpec

    if isinstance(attr, ir.DictAttr):
        fields = {item.name: decode(item.attr, reader) for item in attr}
        return PartitionSpec(*fields.pop("partitions"), **fields)
    return PartitionSpec(*decode(attr, reader))


def _decode_device(attr: ir.Attribute, _: Reader) -> Any:
    import jax

    platform, id_ = _string(attr).split(":")
    for device in jax.devices(platform):
        if device.id == int(id_):
            return device
    raise ExportError(f"there is no device {platform}:{id_} here")


def _decode_mesh(attr: ir.Attribute, reader: Reader) -> Any:
    from jax.sharding import Mesh

    fields = {item.name: decode(item.attr, reader) for item in attr}
    devices = np.empty(fields["shape"], object)
    devices.reshape(-1)[:] = fields["devices"]
    return Mesh(devices, fields["axis_names"], axis_types=fields["axis_types"])


def _decode_single_device_sharding(attr: ir.Attribute, reader: Reader) -> Any:
    from jax.sharding import SingleDeviceSharding

    fields = {item.name: decode(item.attr, reader) for item in attr}
    return SingleDeviceSharding(fields["device"], memory_kind=fields["memory_kind"])


def _decode_primitive(attr: ir.Attribute, _: Reader) -> Any:
    from jaxmlir import primitives

    return primitives.get(_string(attr))


def _decode_pytree(attr: ir.Attribute, reader: Reader) -> Any:
    from jaxmlir import pytrees

    return pytrees.decode(attr, reader)


@functools.cache
def _the_instance(cls: type) -> Any:
    """An effect without fields is one object, which its module holds; JAX compares by identity."""
    return next(v for v in vars(sys.modules[cls.__module__]).values() if type(v) is cls)


def _decode_effect(name: str) -> Callable[[ir.Attribute, Reader], Any]:
    def decode_effect(attr: ir.Attribute, reader: Reader) -> Any:
        cls = _compat.resolve(_compat.EFFECT_CLASSES[name], name)
        if cls is None:
            raise ExportError(f"this JAX has no effect {name}")
        index = decode(attr, reader)
        return _the_instance(cls) if index is None else cls(index)

    return decode_effect


def _decode_dimension(attr: ir.Attribute, _: Reader) -> Any:
    from jaxmlir import types

    if isinstance(attr, ir.StringAttr):
        return types.symbolic_shape(attr.value, ())[0]
    text, *constraints = map(_string, attr)
    return types.symbolic_shape(text, tuple(constraints))[0]


def _decode_policy(attr: ir.Attribute, reader: Reader) -> Any:
    from jaxmlir import policies

    name, *fields = attr
    arguments = {item.name: decode(item.attr, reader) for group in fields for item in group}
    return policies.make(_string(name), arguments)


def _decode_hi_primitive(attr: ir.Attribute, reader: Reader) -> Any:
    fields = {item.name: item.attr for item in attr}
    name = _string(fields.pop("name"))
    cls = _compat.hi_primitive_named(name)
    if cls is None:
        raise ExportError(f'this process has no primitive class "{name}"')
    value = cls.__new__(cls)
    for field, encoded in fields.items():
        setattr(value, field, decode(encoded, reader))
    _compat.hi_primitive_class().__init__(value)
    return value


def _decode_prng_impl(attr: ir.Attribute, _: Reader) -> Any:
    from jaxmlir._compat import prng

    return prng.prngs[_string(attr)]


_tagged_decoders.update(
    {
        "int": lambda attr, _: int(_string(attr)),
        "complex": lambda attr, reader: complex(*decode(attr, reader)),
        "list": lambda attr, reader: [decode(item, reader) for item in attr],
        "dict": lambda attr, reader: dict(decode(item, reader) for item in attr),
        "set": lambda attr, reader: frozenset(decode(item, reader) for item in attr),
        "scalar_type": _decode_scalar_type,
        "scalar": lambda attr, _: undense(attr)[()],
        "primitive": _decode_primitive,
        "checkpoint_policy": _decode_policy,
        "hi_primitive": _decode_hi_primitive,
        "dim": _decode_dimension,
        "handle": lambda attr, _: handles.get(_string(attr)),
        "pytree": _decode_pytree,
        "PartitionSpec": _decode_partition_spec,
        "Device": _decode_device,
        "Mesh": _decode_mesh,
        "SingleDeviceSharding": _decode_single_device_sharding,
        "PRNGImpl": _decode_prng_impl,
        "NamedAxisEffect": lambda attr, reader: core.NamedAxisEffect(decode(attr, reader)),
        "constant": lambda attr, _: _compat.resolve(*_compat.PARAM_SINGLETONS[_string(attr)]),
        **{name: _decode_effect(name) for name in _compat.EFFECT_CLASSES},
    }
)
