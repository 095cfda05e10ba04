"""Adapts programs that were made with another version of JAX to the primitives of this one.

Names and parameters that differ between versions of JAX are the same in the dialect
(:mod:`jaxmlir.bridge.params`). What remains are primitives that one version has and another lacks:
an op of such a primitive is replaced by the computation that JAX itself uses without it. A
derivative of the replacement is a derivative of the primitive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import jax
from jax import lax

from jaxmlir._compat import mlir
from jaxmlir.dialect import codec, custom_rule_ops, locations, ops, primitives
from jaxmlir.dialect.builder import put_instead, reachable, rename_call
from jaxmlir.dialect.ir import context, dialect_ops, functions, ir, is_foreign, is_private, scope
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArtifactError, Diagnostic
from jaxmlir.transforms.templates import Rules


def _log2(x: Any) -> Any:
    """log(x) / log(2)."""
    return lax.div(lax.log(x), lax.log(lax.full_like(x, 2)))


def _one_minus_square(x: Any) -> Any:
    """(1 - x) (1 + x), which does not cancel near |x| = 1."""
    one = lax.full_like(x, 1)
    return lax.mul(lax.sub(one, x), lax.add(one, x))


def _polynomial(x: Any, *coefficients: Any) -> Any:
    """A polynomial by Horner's rule, its coefficients in ascending order."""
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = jax.numpy.add(jax.numpy.multiply(result, x), coefficient)
    shape = jax.numpy.broadcast_shapes(*(v.shape for v in (x, *coefficients)))
    return jax.numpy.broadcast_to(result, shape)


# What primitives compute that not every supported JAX has.
EQUATIONS: dict[str, Callable[..., Any]] = {
    "log2": _log2,
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
}

EXPANSION = "jaxpr.expansion"
"""The attribute of an op that names a function which computes the same."""

# Ops that only call a function, and an op for each that another JAX has instead.
CALLS = {
    "call": "eval_jaxpr",
    "closed_call": "eval_jaxpr",
    "eval_jaxpr": "closed_call",
    "program_order": "eval_jaxpr",
}


def adapt(program: Module, made_with: str) -> None:
    """Replaces the ops of a program whose primitives the installed JAX lacks, in place.

    Args:
      made_with: the version of JAX that the program was made with, for the error.

    Raises:
      ArtifactError: lists the ops for which there is no replacement, with their places.
    """
    problems: list[Any] = []
    with context():
        # In order: an op that calls a kernel makes the instructions of kernels known.
        names = dict.fromkeys(op.name for op in dialect_ops(program.module))
        if any(map(may_expand, names)):
            problems += _settle(program)
            names = dict.fromkeys(op.name for op in dialect_ops(program.module))
        unknown = {name for name in names if not _is_known(name)} - custom_rule_ops.HIGH_LEVEL_OPS
        ops_here = dialect_ops(program.module) if unknown else ()
        missing = [op for op in ops_here if op.name in unknown]
    if not (missing or problems):
        return
    with scope():
        writer = Rules(program)
        for op in missing:
            name = op.name.removeprefix("jaxpr.")
            if name in EQUATIONS:
                _replace(writer, op, EQUATIONS[name], name)
            elif name in CALLS and _is_known(f"jaxpr.{CALLS[name]}"):
                rename_call(op, f"jaxpr.{CALLS[name]}")
            else:
                problems.append(op)
    program.changed()
    if problems:
        raise ArtifactError(_cannot(problems, made_with))


def _settle(program: Module) -> list[Any]:
    """Replaces the ops whose primitives this process lacks by their expansions; returns the
    high-level ops that have neither."""
    symbols, unknown = [], []
    for op in list(dialect_ops(program.module)):
        expansion = op.attributes[EXPANSION] if EXPANSION in op.attributes else None
        if expansion is None and not _is_high_level(op):
            continue
        is_known = _has_primitive(program, op)
        if isinstance(expansion, ir.FlatSymbolRefAttr):
            symbols.append(expansion.value)
            if is_known:
                del op.attributes[EXPANSION]
            else:
                name = ir.StringAttr.get(expansion.value)
                rename_call(op, "jaxpr.jit", {"jaxpr": expansion, "name": name})
        elif not is_known and _is_high_level(op):
            unknown.append(op)
    if symbols:
        present = functions(program.module)
        erase_unused(program, reachable(present, *(s for s in symbols if s in present)))
    return unknown


def _is_high_level(op: Any) -> bool:
    return op.name in custom_rule_ops.HIGH_LEVEL_OPS


def _has_primitive(program: Module, op: Any) -> bool:
    """Whether this process has the primitive of an op, and it accepts the parameters."""
    if not _is_high_level(op):
        return primitives.find(op.name.removeprefix("jaxpr.")) is not None
    try:
        codec.decode(op.attributes["_prim"], program.exporter)
    except Exception:  # JAX's classes may raise anything for parameters of another version
        return False
    return True


def erase_unused(program: Module, candidates: Collection[str]) -> None:
    """Erases those candidates that are private and that no other function uses."""
    present = functions(program.module)
    others = [name for name, op in present.items() if name not in candidates or not is_private(op)]
    for name in candidates - reachable(present, *others):
        present[name].operation.erase()
    program.changed()


def may_expand(op_name: str) -> bool:
    """Whether the primitive of ops of a name is not JAX's, or is an object of a class."""
    is_ours = is_foreign(op_name) or ops.record_of(op_name) is not None
    return not is_ours or op_name in custom_rule_ops.HIGH_LEVEL_OPS


def _is_known(op_name: str) -> bool:
    """Whether the installed JAX has an op's primitive."""
    if is_foreign(op_name):
        return True
    name = op_name.removeprefix("jaxpr.")
    record = ops.OPS.get(name)
    if op_name in custom_rule_ops.OPS or (record is not None and record.jax == ops.OURS):
        return True
    names = record.primitive_names if record else (name,)
    installed = [p for p in map(primitives.find, names) if p is not None]
    # JAX 0.10 has another primitive named eval_jaxpr, without a lowering.
    return bool(installed) and (name not in CALLS or any(p in mlir._lowerings for p in installed))


def _replace(writer: Rules, op: Any, equation: Callable[..., Any], name: str) -> None:
    with ir.InsertionPoint(op), op.location:
        operands = [op.operands[i] for i in range(len(op.operands))]
        values = writer.emit(lambda *args: [equation(*args)], operands, ("decompose", name))
    put_instead(op, values)


def _cannot(missing: list[Any], made_with: str) -> list[Diagnostic]:
    """One diagnostic for each op name or class of primitives, at its first place."""
    kinds = [(op.name, _class_of(op)) for op in missing]
    first = dict(reversed(list(zip(kinds, missing, strict=True))))
    return [
        Diagnostic(
            "error",
            f"'{name}' op ({count} in the program) cannot be read: {_why(name, cls, made_with)}",
            *locations.position(first[name, cls].location),
        )
        for (name, cls), count in Counter(kinds).items()
    ]


def _class_of(op: Any) -> str:
    """The name of the class of a high-level primitive; empty for other ops."""
    attribute = op.attributes["_prim"] if "_prim" in op.attributes else None
    if isinstance(attribute, ir.DictAttr) and len(attribute) == 1:
        fields = attribute[0].attr
        if isinstance(fields, ir.DictAttr) and "name" in fields:
            return str(fields["name"])
    return ""


def _why(op_name: str, cls: str, made_with: str) -> str:
    cause = f"the program was made with jax {made_with}"
    name = op_name.removeprefix("jaxpr.")
    if op_name in custom_rule_ops.HIGH_LEVEL_OPS:
        return (
            f"{cause}; this process, with jax {jax.__version__}, has no primitive class {cls} that "
            "takes its parameters, and the program has no expansion of it"
        )
    if name in ops.OPS:
        return (
            f"{cause}; the installed jax {jax.__version__} has no such primitive, and jaxmlir has "
            "no decomposition of it into others"
        )
    return (
        f'the installed jax {jax.__version__} has no primitive "{name}", and no imported module '
        f"registers one ({cause}; if it is your own, import its module: --load)"
    )
