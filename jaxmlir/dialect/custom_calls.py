"""Ops that reach beyond XLA, which a program that somebody else wrote may not do unasked.

XLA compiles arithmetic; whatever a program of other ops is, running it gives numbers.  These ops
run code that is not in the program, with what the program says: a foreign function of this process,
a kernel that reads and writes memory by itself, the compiler with options that may name files.

``Program.custom_calls`` says what of this a loaded program may use: targets of ``jaxpr.ffi_call``
by their name, the rest by the op's.  A program that was traced here may use everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import context, dialect_ops, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.errors import Diagnostic, LoweringError

OPS = with_trait(Trait.CUSTOM_CALL) | {"jaxpr.triton_kernel_call"}


class CustomCall(NamedTuple):
    """An op that reaches beyond XLA.

    Attributes:
      target: what has to be allowed for it.
      op: its name.
      place: file, line and column that it came from.
    """

    target: str
    op: str
    place: tuple[str, int, int]


def find(module: ir.Module) -> Iterator[CustomCall]:
    """The ops of a module that reach beyond XLA."""
    with context():
        yield from among((op, op.name) for op in dialect_ops(module))


def among(ops: Iterable[tuple[ir.OpView, str]]) -> Iterator[CustomCall]:
    """The ops among some, given with their names, that reach beyond XLA."""
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
    """Checks that a program reaches beyond XLA only as it may.

    Raises:
      LoweringError: names each op, its target and the user's line.
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
                    "loaded without leave to use it; if you trust who wrote it, load it with "
                    f"allow_custom_calls=[{call.target!r}]",
                    *call.place,
                )
                for call in refused
            ]
        )
