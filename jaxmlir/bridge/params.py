"""An op's attributes as the parameters of its primitive, in the installed JAX's form."""

from __future__ import annotations

import functools
from typing import Any

from jaxmlir._compat import (
    OPEN_JAXPR_PARAMS,
    closed_and_open_differ,
    version_matches,
    without_consts,
)
from jaxmlir.bridge import jax_versions
from jaxmlir.dialect import codec, custom_rule_ops, ops, primitives
from jaxmlir.errors import ExportError

_NO_DEFAULT = object()
# JAX itself leaves such a parameter out, and asks whether it is there.
_ABSENT = object()


def of_op(op: Any, name: str, reader: codec.Reader) -> tuple[Any, dict[str, Any]]:
    """The primitive of an op called ``name``, and its parameters.

    Raises:
      ExportError: the installed JAX lacks the primitive or a parameter, or one cannot be read.
    """
    if name in custom_rule_ops.OPS:
        from jaxmlir.bridge.custom_rules import export

        return export.read(op, name, reader)
    attributes = op.attributes
    given = {key: attributes[key] for key in attributes}
    foreign = given.get("jaxpr.primitive")
    primitive = codec.decode(foreign) if foreign is not None else primitives.of_op(name)
    defaults = {} if foreign is not None else _defaults(name)
    params: dict[str, Any] = {}
    for key, (param, default, each) in defaults.items():
        attr = given.pop(key, None)
        if attr is not None:
            params[param] = codec.decode(attr, reader)
        elif default is _ABSENT:
            continue
        elif default is not _NO_DEFAULT:
            count = {"": 0, "operands": len(op.operands), "results": len(op.results)}[each]
            params[param] = (default,) * count if each else default
        else:
            raise ExportError(f"'{name}' op requires attribute '{key}'")
    for key, attr in given.items():
        if not key.startswith("jaxpr."):
            params[key] = codec.decode(attr, reader)
    rewrite = jax_versions.FROM_DIALECT.get(primitive.name)
    if rewrite is not None:
        params = rewrite(params, len(op.operands), len(op.results))
    if closed_and_open_differ():
        for key in params:
            if (primitive.name, key) in OPEN_JAXPR_PARAMS and params[key] is not None:
                params[key] = without_consts(params[key])
    return primitive, params


@functools.cache
def _defaults(name: str) -> dict[str, tuple[str, Any, str]]:
    """For each attribute of an op's record: the installed JAX's name of the parameter, its default
    and whether that is one for each operand or result."""
    record = ops.record_of(name)
    found = {}
    for attr in record.attributes if record else ():
        if version_matches(attr.jax):
            names = [old for where, old in attr.renamed if version_matches(where)]
            default = _NO_DEFAULT if attr.default is ops.REQUIRED else attr.default
            if attr.optional:
                default = _ABSENT
            found[attr.name] = (names[0] if names else attr.name, default, attr.each)
    return found
