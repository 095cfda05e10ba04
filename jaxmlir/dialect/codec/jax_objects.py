"""Codecs of JAX's objects: avals, jaxprs, primitives, shardings, effects, policies ..."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import numpy as np

from jaxmlir import _compat
from jaxmlir._compat import POLICY_MAKERS, batching, core, dtypes, prng, tree_util
from jaxmlir.dialect.codec import pytrees, records
from jaxmlir.dialect.codec.python_values import encode_class, encode_dtype
from jaxmlir.dialect.codec.registry import (
    Encoder,
    Reader,
    Writer,
    array,
    bases,
    by_name,
    by_parts,
    by_value,
    cached,
    codec_of_record,
    decode,
    decode_parts,
    decoders,
    encode,
    encode_handle,
    encode_parts,
    encoders,
    late,
    register_class,
    string,
    tagged,
    tagged_as,
)
from jaxmlir.dialect.codec.types import remember_scope, symbolic_shape, type_of
from jaxmlir.dialect.ir import context, ir
from jaxmlir.errors import ExportError


def _closure_converted(function: Any) -> dict[str, Any]:
    cells = _compat.cells_of(function)
    return {name: cells[name].cell_contents for name in ("jaxpr", "in_tree", "out_tree")}


def _evaluating(make: Callable[..., Any], jaxpr: Any, in_tree: Any, out_tree: Any) -> Any:
    # The function compares trees with those of JAX's registry for tracing.
    arguments = tree_util.tree_unflatten(in_tree, range(in_tree.num_leaves))
    constants, *rest = tree_util.tracing_registry.flatten(arguments)[1].children()
    return make(jaxpr, constants, tree_util.treedef_tuple_tracing_registry(rest), out_tree)


def _parts_of_axis(axis: Any) -> tuple[Any, ...]:
    """The fields of a batched axis; the name is ``None`` if the axis has none."""
    name = None if axis.name is core.no_axis_name else axis.name
    return name, axis.size, axis.spmd_name, axis._ema


def _axis_of(parts: tuple[Any, ...]) -> Any:
    name, *rest = parts
    return batching.AxisData(core.no_axis_name if name is None else name, *rest)


def _batched(function: Any) -> dict[str, Any]:
    cells = _compat.cells_of(function)
    axis = _compat.cells_of(cells["map_zero"].cell_contents)["axis_data"].cell_contents
    vmapped = cells["vmapped"].cell_contents
    # `jax.vmap` wraps the function, inside a wrapper that filters tracebacks.
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
    """Makes the function in JAX 0.11: calls a method of ``Traced`` that reads only these fields."""
    traced = types.SimpleNamespace(
        jaxpr=jaxpr,
        in_tree=in_tree,
        out_tree=out_tree,
        _consts=[0] * constants.num_leaves,
        _closure_converted=None,
    )
    return jax.stages.Traced.closure_convert(traced)[1]


_OLDER = {"closure_converted": _by_closure_convert}


def _if_known(parts_of: Callable[[Any], dict[str, Any]], function: Any) -> dict[str, Any] | None:
    """The parts of a function; ``None`` where it closes over something else in this JAX."""
    try:
        return parts_of(function)
    except (KeyError, AttributeError):
        return None


def _maker(kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """A decoder that makes a function of a kind from its parts, as the installed JAX does."""

    def made(**parts: Any) -> Any:
        module, (name, *_) = _compat.FUNCTION_MAKERS[kind]
        maker = _compat.resolve(module, name) or _OLDER.get(kind)
        if maker is None:
            raise ExportError(f"the installed JAX makes no functions of kind {kind}")
        return make(maker, **parts)

    return made


def encode_function(value: Any, writer: Writer) -> ir.Attribute:
    """Encodes a function that JAX made from data; any other function becomes a handle."""
    for kind, encode_made in _FUNCTIONS.items():
        if _compat.is_made_by(value, *_compat.FUNCTION_MAKERS[kind]):
            return encode_made(value, writer)
    return encode_handle(value, writer)


def _aval(value: Any, _: Writer) -> ir.Attribute:
    with context():
        return ir.TypeAttr.get(type_of(value))


def _jaxpr(value: Any, writer: Writer) -> ir.Attribute:
    with context():
        refs = [ir.FlatSymbolRefAttr.get(symbol) for symbol in writer.function(value)]
        return refs[0] if len(refs) == 1 else tagged("with_constants", array(refs))


def _decode_with_constants(attr: ir.Attribute, reader: Reader) -> Any:
    return reader.bound(*(ref.value for ref in attr))


def _primitive_name(value: Any) -> str | None:
    from jaxmlir.dialect import primitives

    return value.name if primitives.find(value.name) is value else None


def _primitive(name: str) -> Any:
    from jaxmlir.dialect import primitives

    return primitives.get(name)


def _partition_spec(value: Any, writer: Writer) -> ir.Attribute:
    kinds = ("unreduced", "reduced", "unreduced_kind")
    extras = {name: extra for name in kinds if (extra := getattr(value, name, None))}
    if extras:
        return encode_parts({"partitions": value.partitions, **extras}, writer)
    return encode(value.partitions, writer)


def _decode_partition_spec(attr: ir.Attribute, reader: Reader) -> Any:
    from jax.sharding import PartitionSpec

    if isinstance(attr, ir.DictAttr):
        fields = decode_parts(attr, reader)
        return PartitionSpec(*fields.pop("partitions"), **fields)
    return PartitionSpec(*decode(attr, reader))


def _device(name: str) -> Any:
    platform, id_ = name.split(":")
    for device in jax.devices(platform):
        if device.id == int(id_):
            return device
    raise ExportError(f"this process has no device {platform}:{id_}")


def _mesh(value: Any, writer: Writer) -> ir.Attribute:
    fields = {
        "devices": tuple(value.devices.flat),
        "shape": value.devices.shape,
        "axis_names": value.axis_names,
        "axis_types": value.axis_types,
    }
    # The names of devices do not tell their kind, except for CPUs.
    kind = value.abstract_mesh.abstract_device
    if kind is not None and kind.device_kind != kind.platform:
        fields["abstract_device"] = kind
    return encode_parts(fields, writer)


def _decode_mesh(attr: ir.Attribute, reader: Reader) -> Any:
    """The mesh; an abstract one if this process lacks any of its devices.

    Programs on an abstract mesh can be transformed, and lowered for other machines; JAX raises an
    error when it needs the devices.
    """
    from jax.sharding import AbstractMesh, Mesh

    fields = {item.name: item.attr for item in attr}
    shape, names, types = (decode(fields[k], reader) for k in ("shape", "axis_names", "axis_types"))
    devices = np.empty(len(fields["devices"]), object)
    places = devices.reshape(shape)
    try:
        devices[:] = decode(fields["devices"], reader)
    except (ExportError, RuntimeError):  # JAX's if the platform is absent
        kind = _kind_of_devices(fields, reader)
        return AbstractMesh(tuple(shape), tuple(names), axis_types=types, abstract_device=kind)
    return Mesh(places, names, axis_types=types)


def _kind_of_devices(fields: dict[str, ir.Attribute], reader: Reader) -> Any:
    """The kind of a mesh's devices, as its attributes describe them."""
    if "abstract_device" in fields:
        return decode(fields["abstract_device"], reader)
    platform = string(fields["devices"][0][0].attr).split(":")[0]
    cls = _compat.resolve("jax._src.mesh", "AbstractDevice")
    return cls(device_kind=platform, num_cores=None, platform=platform)


def _single_device_sharding(device: Any, memory_kind: Any) -> Any:
    from jax.sharding import SingleDeviceSharding

    return SingleDeviceSharding(device, memory_kind=memory_kind)


def _effect(value: Any, writer: Writer) -> ir.Attribute:
    """Encodes an effect.  An effect on an operand holds the operand's index, which the importer has
    put in place of the variable."""
    name: str | None = type(value).__name__
    if _compat.resolve(_compat.EFFECT_CLASSES.get(name, "jaxmlir"), name) is not type(value):
        name = records.tag_of(type(value))
        if name is None or _the_instance(type(value)) is not value:
            return encode_handle(value, writer)
    with context():
        return tagged(name, encode(getattr(value, "input", None), writer))


@functools.cache
def _the_instance(cls: type) -> Any:
    """The only object of an effect without fields, held by its module; JAX compares by ``is``."""
    return next((v for v in vars(sys.modules[cls.__module__]).values() if type(v) is cls), None)


def _decode_effect(name: str) -> Callable[[ir.Attribute, Reader], Any]:
    def decode_effect(attr: ir.Attribute, reader: Reader) -> Any:
        cls = _compat.resolve(_compat.EFFECT_CLASSES[name], name)
        if cls is None:
            raise ExportError(f"the installed JAX has no effect {name}")
        index = decode(attr, reader)
        return _the_instance(cls) if index is None else cls(index)

    return decode_effect


# JAX's policies are a few functions: members of a namespace, or results of calling such a member
# with some names.  They are written in this form, and reading calls nothing else.


def _described(policy: Any) -> tuple[str, dict[str, Any]] | None:
    """The name of a policy and the arguments that make it; ``None`` for a user's own policy.

    Arguments that are policies are not described.
    """
    namespace = vars(jax.checkpoint_policies)
    for name, jax_policy in namespace.items():
        if policy is jax_policy or (dataclasses.is_dataclass(policy) and policy == jax_policy):
            return name, {}
    if dataclasses.is_dataclass(policy) and type(policy).__name__ in POLICY_MAKERS:
        fields = {name: _sorted(value) for name, value in vars(policy).items()}
        if len(fields) == 1:
            fields = {"names": fields.popitem()[1]}
        return POLICY_MAKERS[type(policy).__name__], fields
    maker, _, rest = getattr(policy, "__qualname__", "").partition(".<locals>.")
    made_by_jax = getattr(policy, "__module__", "").startswith("jax.") and maker in namespace
    if not (made_by_jax and rest in ("policy", "<lambda>")):
        return None
    free = inspect.getclosurevars(policy).nonlocals
    parameters = inspect.signature(namespace[maker]).parameters.values()
    arguments = {p.name: _sorted(free[p.name]) for p in parameters if p.name in free}
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            # A policy that ignores its names does not close over them.
            arguments["names"] = arguments.pop(p.name, ())
    return maker, arguments


def _sorted(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, (set, frozenset)) else value


def _policy(value: Any, writer: Writer) -> ir.Attribute:
    """Encodes a policy of JAX's for ``jax.checkpoint``, or a function that JAX made from data; any
    other function becomes a handle."""
    described = _described(value)
    if described is None:
        return encode_function(value, writer)
    name, arguments = described
    with context():
        fields = [encode_parts(arguments, writer)] if arguments else []
        parts = [ir.StringAttr.get(name), *fields]
        return tagged("checkpoint_policy", array(parts))


def _decode_policy(attr: ir.Attribute, reader: Reader) -> Any:
    name, *fields = attr
    arguments = {item.name: decode(item.attr, reader) for group in fields for item in group}
    policy = vars(jax.checkpoint_policies).get(string(name))
    if policy is None:
        raise ExportError(f"the installed JAX has no checkpoint policy {name}")
    return policy(*arguments.pop("names", ()), **arguments) if arguments else policy


def _parts_of_hi_primitive(value: Any) -> dict[str, Any]:
    """The parts of a high-level primitive, i.e. an object of a class with parameters."""
    cls = type(value)
    return {
        "name": f"{cls.__module__}:{cls.__qualname__}",
        "in_avals": value.in_avals,
        "out_aval": value.out_aval,
        "params": dict(value.params),
    }


def _hi_primitive(name: str, **fields: Any) -> Any:
    cls = _compat.hi_primitive_named(name)
    if cls is None:
        raise ExportError(f'this process has no primitive class "{name}"')
    value = cls.__new__(cls)
    for field, part in fields.items():
        setattr(value, field, part)
    _compat.hi_primitive_class().__init__(value)
    return value


def _parts_of_static(value: Any) -> dict[str, Any] | None:
    """The batch axes of residuals, which a batched primitive keeps in their pytree.  They are
    written as data, since the pytree of the axes has the nodes of the residuals' own pytree: JAX
    compares the jaxprs in both by identity.  Any other value is unknown, and stays a handle."""
    axes, tree = tree_util.tracing_registry.flatten(value.val)
    return {"axes": axes, "tree": tree} if all(type(axis) is int for axis in axes) else None


def _static(axes: list[int], tree: Any) -> Any:
    return _compat.static_class()(tree.unflatten(axes))


def _dimension(value: Any, _: Writer) -> ir.Attribute:
    parts = [ir.StringAttr.get(part) for part in (str(value), *remember_scope(value))]
    return parts[0] if len(parts) == 1 else array(parts)


def _decode_dimension(attr: ir.Attribute, _: Reader) -> Any:
    if isinstance(attr, ir.StringAttr):
        return symbolic_shape(attr.value, ())[0]
    text, *constraints = map(string, attr)
    return symbolic_shape(text, tuple(constraints))[0]


def _prng_name(value: Any) -> str | None:
    return value.name if prng.prngs.get(value.name) is value else None


def _plain_struct(value: Any, writer: Writer) -> ir.Attribute | None:
    aval = core.ShapedArray(value.shape, value.dtype)
    return _aval(aval, writer) if value == jax.ShapeDtypeStruct(value.shape, value.dtype) else None


def _decode_struct(attr: ir.Attribute, reader: Reader) -> Any:
    aval = decode(attr, reader)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _constant(tag: str) -> Any:
    return _compat.resolve(*_compat.PARAM_SINGLETONS[tag])


def _bases() -> list[tuple[Any, Encoder]]:
    from jax import sharding

    from jaxmlir._compat import effects, mesh_lib, shape_poly

    frozen_dict = _compat.resolve("jax._src.frozen_dict", "FrozenDict")
    return [
        (dtypes.ExtendedDType, cached(encode_dtype)),
        (core.Jaxpr, _jaxpr),
        (core.ClosedJaxpr if hasattr(core, "ClosedJaxpr") else core.Jaxpr, _jaxpr),
        (core.AbstractValue, _aval),
        (core.Primitive, by_name("primitive", _primitive_name, _primitive)),
        (prng.PRNGImpl, by_name("PRNGImpl", _prng_name, lambda name: prng.prngs[name])),
        (
            sharding.PartitionSpec,
            tagged_as("PartitionSpec", _partition_spec, _decode_partition_spec),
        ),
        (
            sharding.SingleDeviceSharding,
            by_parts(
                "SingleDeviceSharding",
                lambda value: {"device": value._device, "memory_kind": value._memory_kind},
                _single_device_sharding,
            ),
        ),
        (mesh_lib.Mesh, tagged_as("Mesh", _mesh, _decode_mesh)),
        (jax.Device, by_name("Device", lambda d: f"{d.platform}:{d.id}", _device)),
        (tree_util.PyTreeDef, tagged_as("pytree", pytrees.encode, pytrees.decode)),
        (
            core.NamedAxisEffect,
            by_value("NamedAxisEffect", lambda effect: effect.name, core.NamedAxisEffect),
        ),
        (effects.Effect, _effect),
        (shape_poly._DimExpr, tagged_as("dim", _dimension, _decode_dimension)),
        (
            _compat.hi_primitive_class(),
            by_parts("hi_primitive", _parts_of_hi_primitive, _hi_primitive),
        ),
        (_compat.static_class(), by_parts("Static", _parts_of_static, _static)),
        *((cls, _policy) for cls in _compat.policy_classes()),
        (frozen_dict, by_value("frozen_dict", dict, lambda items: frozen_dict(items))),
        (jax.ShapeDtypeStruct, tagged_as("ShapeDtypeStruct", _plain_struct, _decode_struct)),
        (batching.AxisData, by_value("AxisData", _parts_of_axis, _axis_of)),
        (type, encode_class),
    ]


def register_classes(tag: str) -> None:
    """Registers JAX's classes, and the class of a tag if its package takes long to import."""
    _register_classes()
    if tag in decoders:
        return
    if tag in _compat.LATE_PARAM_CLASSES:
        module, fields = _compat.LATE_PARAM_CLASSES[tag]
        register_class(tag, _compat.resolve(module, tag), fields)
    elif (cls := records.find(tag)) is not None:
        if records.is_effect(cls):
            decoders[tag] = lambda attr, reader: _the_instance(cls)
        else:
            decoders[tag] = codec_of_record(cls)[1]


@functools.cache
def _register_classes() -> None:
    for tag, (module, fields) in _compat.PARAM_CLASSES.items():
        cls = _compat.resolve(module, tag)
        if cls is not None and cls not in encoders:
            register_class(tag, cls, fields)
    for tag, (module, name) in _compat.PARAM_SINGLETONS.items():
        value = _compat.resolve(module, name)
        if value is not None:
            encoders[type(value)] = by_name("constant", lambda _, tag=tag: tag, _constant)
    bases.update((base, encoder) for base, encoder in _bases() if isinstance(base, type))


late.append(register_classes)

# What a function was made of, and how it is made of that.
_FUNCTIONS = {
    kind: by_parts(kind, functools.partial(_if_known, parts_of), _maker(kind, make))
    for kind, parts_of, make in (
        ("closure_converted", _closure_converted, _evaluating),
        ("vmap_rule", _batched, _batching),
    )
}

encoders[FunctionType] = _policy
decoders.update(
    {
        "checkpoint_policy": _decode_policy,
        "with_constants": _decode_with_constants,
        **{name: _decode_effect(name) for name in _compat.EFFECT_CLASSES},
    }
)
