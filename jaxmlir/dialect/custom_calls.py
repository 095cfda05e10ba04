"""Ops that reach beyond XLA, which a program from somebody else needs permission for.

XLA only computes: running a program of other ops yields numbers and does nothing else.  The ops
here run code from outside the program, with arguments from the program: a foreign function of this
process, a kernel that accesses memory by itself, or the compiler with options that may name files.

``Program.custom_calls`` says which of these a loaded program may use: a ``jaxpr.ffi_call`` is named
by its target, other ops by their name.  A program that was traced here may use all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import context, dialect_ops, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.errors import Diagnostic, LoweringError

OPS = with_trait(Trait.CUSTOM_CALL) | {"jaxpr.triton_kernel_call"}

# JAX's lowering calls Python functions of its process by numbers. In another process these mean
# nothing, and would crash it.
PYTHON_CALLBACK = re.compile(r"xla_(ffi_)?(partitioned_)?python_[a-z]+_callback")


class CustomCall(NamedTuple):
    """An op that reaches beyond XLA.

    Attributes:
      target: the name that has to be allowed.
      op: the op's name.
      place: file, line and column of the user's code.
    """

    target: str
    op: str
    place: tuple[str, int, int]


def find(module: ir.Module) -> Iterator[CustomCall]:
    """The custom calls of a module, i.e. its ops that reach beyond XLA."""
    with context():
        yield from among((op, op.name) for op in dialect_ops(module))


def among(ops: Iterable[tuple[ir.OpView, str]]) -> Iterator[CustomCall]:
    """Custom calls among the given ops, which come with their names."""
    for op, name in ops:
        if name == "jaxpr.jit" or name in OPS:
            yield from _of_op(op, name)


def _of_op(op: ir.OpView, name: str) -> Iterator[CustomCall]:
    if name == "jaxpr.jit":
        if "compiler_options_kvs" in op.attributes:
            yield CustomCall("compiler_options", name, locations.position(op.location))
    else:
        target = name.removeprefix("jaxpr.")
        if name == "jaxpr.ffi_call" and "target_name" in op.attributes:
            target = ir.StringAttr(op.attributes["target_name"]).value
        yield CustomCall(target, name, locations.position(op.location))


def check(program: Module) -> None:
    """Checks that a program makes only the custom calls that it may make.

    Raises:
      LoweringError: names each refused op, its target and the user's line.
    """
    allowed = program.custom_calls
    if allowed is None:
        return
    refused = [call for call in program.custom_calls_found if call.target not in allowed]
    if refused:
        raise LoweringError(
            [
                Diagnostic(
                    "error",
                    f"'{call.op}' op: {call.target!r} is not part of XLA, and this program was "
                    "loaded without permission to use it; if you trust its author, load it with "
                    f"allow_custom_calls=[{call.target!r}]",
                    *call.place,
                )
                for call in refused
            ]
        )
