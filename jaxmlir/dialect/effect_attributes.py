"""Effects and equation contexts as attributes ``jaxpr.effects`` and ``jaxpr.ctx``.

Both are absent if they have their defaults: no effects, and the context of an equation when no
configuration was set.  An effect on an operand contains the operand's index.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxmlir._compat import core, default_eqn_context, effects, eqn_context_fields, pe
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, ir, is_foreign
from jaxmlir.errors import ExportError


def encode(eqn: Any, writer: codec.Writer) -> ir.Attribute:
    """The effects of an equation, in a stable order."""
    attrs = []
    for effect in eqn.effects:
        if isinstance(effect, effects.JaxprInputEffect) and not isinstance(effect.input, int):
            index = next(i for i, v in enumerate(eqn.invars) if v is effect.input)
            effect = effect.replace(index)
        attrs.append(codec.encode(effect, writer))
    return ir.ArrayAttr.get(sorted(attrs, key=str))


def decode(attr: ir.Attribute, invars: list[Any]) -> Any:
    """The effects of an exported equation with these operands."""
    return core.resolve_input_effects({*listed(attr)}, invars)


def listed(attr: ir.Attribute) -> list[Any]:
    """The effects that an attribute lists; an error if it is not a list of effects."""
    items = [codec.decode(item) for item in attr] if isinstance(attr, ir.ArrayAttr) else [None]
    if not all(isinstance(item, effects.Effect) for item in items):
        raise ExportError(f"attribute 'jaxpr.effects': expected a list of effects, got {attr}")
    return items


@functools.cache
def encode_ctx(ctx: Any) -> ir.Attribute | None:
    """The fields in which an equation's context differs from the default one."""
    default = default_eqn_context()
    changed = {}
    for name in eqn_context_fields():
        value = getattr(ctx, name)
        if name == "cur_abstract_mesh" and value.are_all_axes_auto:
            # No rule depends on this mesh; ops that do depend on a mesh have it as a parameter.
            continue
        if value is not getattr(default, name) and value != getattr(default, name):
            changed[name] = value
    if not changed:
        return None
    with context():
        return ir.DictAttr.get({k: codec.encode(v) for k, v in changed.items()})


@functools.cache
def decode_ctx(attr: ir.Attribute | None) -> Any:
    """The context that :func:`encode_ctx` wrote as ``attr``."""
    default = default_eqn_context()
    if attr is None:
        return default
    fields = {name: getattr(default, name) for name in eqn_context_fields()}
    names = [item.name for item in attr] if isinstance(attr, ir.DictAttr) else [str(attr)]
    if unknown := [name for name in names if name not in fields]:
        takes = ", ".join(map(repr, fields))
        raise ExportError(f"attribute 'jaxpr.ctx': expected some of {takes}, got {unknown[0]}")
    fields.update((item.name, codec.decode(item.attr)) for item in attr)
    metadata = fields.get("xla_metadata")
    if isinstance(metadata, dict):
        fields["xla_metadata"] = tuple(sorted(metadata.items()))
    return core.JaxprEqnContext._create(*fields.values())


def ctx_of(attributes: Any) -> Any:
    """The context of an op's equation, by the op's attributes."""
    return decode_ctx(attributes["jaxpr.ctx"] if "jaxpr.ctx" in attributes else None)


def effects_of(op: Any) -> ir.ArrayAttr | None:
    """The effects that an op lists; ``None`` if it has none."""
    attributes = op.attributes
    return (
        attributes["jaxpr.effects"] if len(attributes) and "jaxpr.effects" in attributes else None
    )


def is_lasting(name: str, listed: ir.ArrayAttr | None) -> bool:
    """Whether an op must be kept because of its name or of an effect that it lists.  Ops of other
    dialects are kept: these know the effects, and MLIR's ``canonicalize`` asks them."""
    return name in _ALWAYS_KEPT or is_foreign(name) or (listed is not None and _are_lasting(listed))


_ALWAYS_KEPT = frozenset({"jaxpr.free_ref", "jaxpr.dce_sink"})


@functools.cache
def _are_lasting(listed: ir.ArrayAttr) -> bool:
    return not all(map(is_droppable, listed))


def is_on_operand(effect: ir.Attribute) -> bool:
    """Whether an effect is on an operand, a reference."""
    return isinstance(codec.decode(effect), effects.JaxprInputEffect)


def is_droppable(effect: ir.Attribute) -> bool:
    """Whether JAX's dead code elimination may drop an op with this effect."""
    return pe.dceable_effects.contains(codec.decode(effect))


def axis_names(op: Any) -> list[str]:
    """The names of the axes that a collective operates over."""
    attributes = op.attributes
    decoded = [codec.decode(attributes[k]) for k in ("axes", "axis_name") if k in attributes]
    names = [axis for axes in decoded for axis in (axes if isinstance(axes, tuple) else (axes,))]
    return [name for name in names if isinstance(name, str)]
