"""The version of the jaxpr dialect that a module, or a file, says it has."""

from __future__ import annotations

from jaxmlir.dialect.ir import DIALECT_VERSION, file_line_col, ir
from jaxmlir.errors import Diagnostic

ATTRIBUTE = "jaxpr.version"


def fault(version: object) -> str:
    """The fault of a version; empty where this jaxmlir reads it, as it does all earlier ones."""
    try:
        numbers = tuple(map(int, str(version).split(".")))
    except ValueError:
        return f"the malformed dialect version {version!r}"
    if numbers > tuple(map(int, DIALECT_VERSION.split("."))):
        return (
            f"version {version} of the jaxpr dialect; this jaxmlir knows versions up to "
            f"{DIALECT_VERSION}: install a newer one"
        )
    return ""


def faults(module: ir.Module, filename: str) -> list[Diagnostic]:
    """The faults of a module's version; a module that says none is of any."""
    operation = module.operation
    if ATTRIBUTE not in operation.attributes:
        return []
    attr = operation.attributes[ATTRIBUTE]
    found = fault(attr.value if isinstance(attr, ir.StringAttr) else str(attr))
    message = f"'builtin.module' op attribute '{ATTRIBUTE}': it has {found}"
    diagnostic = Diagnostic("error", message, *file_line_col(operation.location))
    return [diagnostic.placed(filename)] if found else []
