"""Program to file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxmlir.artifact import container, expansions, format
from jaxmlir.artifact import module_text as _module
from jaxmlir.dialect import codec, handles, locations
from jaxmlir.dialect.ir import DIALECT_VERSION, TREES, context, func, ir, module_text
from jaxmlir.errors import ArtifactError, Diagnostic, JaxmlirError

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

MAX_DIAGNOSTICS = 20


def save(
    program: Module,
    path: str | os.PathLike[str],
    *,
    source_info: bool = True,
    as_flat: bool = False,
) -> None:
    """Writes a program to a file, which :func:`load` reads.

    The file is replaced at once when everything is written: whatever interrupts this leaves the
    old contents or the new.

    Args:
      source_info: keep the Python files and lines that ops come from, and JAX's name stacks.
      as_flat: leave the pytrees out, so that what is loaded takes and gives their leaves: for nodes
        that hold Python objects of this process.

    Raises:
      ArtifactError: the program refers to Python objects of this process, such as callbacks; names
        each op and the user's line.  Or a constant has no value.
      OSError: the file cannot be written.
    """
    container.write_atomically(path, pieces(program, source_info, as_flat))


def pieces(program: Module, source_info: bool = True, as_flat: bool = False) -> list[Any]:
    """The contents of an artifact, as buffers to be written one after another."""
    import jax

    import jaxmlir

    if as_flat:
        program = program.clone()
        _module.forget_trees(program)
    program = expansions.expanded(program)
    problems = list(_unwritable(program.module))
    if problems:
        raise ArtifactError(problems[:MAX_DIAGNOSTICS])
    elements: dict[str, dict[str, str]] = {}
    parts: dict[str, container.Part] = {}
    # The widest elements first: then each array begins at a multiple of its element's size.
    arrays = sorted(_arrays(program).items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in arrays:
        element, part = format.part_of(array)
        elements[name] = {"type": element, "sha256": format.digest(part.data)}
        parts[format.CONSTANT + name] = part
    text, size = _module.compress(program.written_module(), locations=source_info)
    parts[format.MODULE] = container.Part("U8", (len(text),), text)
    metadata = {
        "artifact": format.VERSION,
        "dialect": DIALECT_VERSION,
        "jax": jax.__version__,
        "jaxmlir": jaxmlir.__version__,
        "module": {"bytes": size, "sha256": format.digest(text)},
        "constants": elements,
    }
    return container.pack(metadata, parts)


def _arrays(program: Module) -> dict[str, np.ndarray]:
    """The arrays that the module names."""
    found = {}
    with context():
        for name, op in _constant_names(program.module):
            if name in found:
                continue
            if name not in program.constants:
                raise ArtifactError([_at(op, f"constant {name!r} has no value that can be saved")])
            found[format.check_name(name)] = np.asarray(program.constants[name])
    return found


def _constant_names(module: ir.Module) -> Iterator[tuple[str, Any]]:
    for op in _ops(module):
        if type(op) is ir.OpView and op.name == "jaxpr.constant" and "name" in op.attributes:
            yield ir.StringAttr(op.attributes["name"]).value, op


def _ops(module: ir.Module) -> Iterator[Any]:
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                yield from block.operations


# --- what has no form outside of the process ---------------------------------------------------


def _unwritable(module: ir.Module) -> Iterator[Diagnostic]:
    """The ops that name Python objects of this process."""
    text = module_text(module)
    if not any(mark in text for mark in ("{handle = ", "!jaxpr.aval<", "!jaxpr.dtype<")):
        return
    with context():
        for op in module.body.operations:
            symbol = f"@{op.attributes['sym_name'].value}"
            yield from _unwritable_attributes(op, symbol)
            yield from _unwritable_types(op, symbol)
        for op in _ops(module):
            name = op.name if type(op) is ir.OpView else op.operation.name
            if not isinstance(op, func.ReturnOp):
                yield from _unwritable_op(op, name)
                yield from _unwritable_types(op, f"'{name}' op")


# A type that names a Python object.
_OWN_TYPE = re.compile(r'!jaxpr\.(?:aval|dtype)<"(?:[^"\\]|\\.)*", "\w+">')


def _unwritable_op(op: Any, name: str) -> Iterator[Diagnostic]:
    what = f"'{name}' op"
    options = _options(op) if name == "jaxpr.call_hi_primitive" else ()
    if options:
        names = " and ".join(f"'{option}'" for option in options)
        yield _at(
            op,
            f"{what} cannot be saved: no op has the option {names} of a custom_vjp function, so "
            "its rules are Python functions of this process",
        )
    else:
        yield from _unwritable_attributes(op, what)


def _options(op: Any) -> Sequence[str]:
    """The options of a function with custom rules for which these are not functions of the module.

    None of a primitive that another process has: it is not known here.
    """
    from jaxmlir.bridge.custom_rules import hijax

    try:
        return hijax.unmatched(codec.decode(op.attributes["_prim"]))
    except JaxmlirError:
        return ()


def _unwritable_types(op: Any, what: str) -> Iterator[Diagnostic]:
    parts = [*op.results.types, *(attr for _, attr in op.attributes.items())]
    for own in dict.fromkeys(_OWN_TYPE.findall(" ".join(map(str, parts)))):
        yield _at(op, f"{what} cannot be saved: the type {own} exists in this process only")


def _unwritable_attributes(op: Any, what: str) -> Iterator[Diagnostic]:
    for key, attr in op.attributes.items():
        for handle in _handles(attr):
            box = handles.find_box(handle)
            found = "a Python object" if box is None else f"the Python object {_shown(box.value)}"
            flat = "; as_flat=True saves a program of the flat leaves" if key in TREES else ""
            yield _at(
                op,
                f"{what} cannot be saved: attribute '{key}' is {found}, which has no form outside "
                f"of this process{flat}",
            )


def _handles(attr: ir.Attribute) -> Iterator[str]:
    if isinstance(attr, ir.ArrayAttr):
        for item in attr:
            yield from _handles(item)
    elif isinstance(attr, ir.DictAttr):
        for item in attr:
            if item.name == "handle" and isinstance(item.attr, ir.StringAttr):
                yield item.attr.value
            else:
                yield from _handles(item.attr)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _at(op: Any, message: str) -> Diagnostic:
    return Diagnostic("error", message, *locations.position(op.location))
