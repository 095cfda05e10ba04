"""Programs from StableHLO: text, bytecode, portable artifacts, and what ``jax.export`` wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from jaxmlir._compat import jaxlib_jax
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.bridge.importer import Importer
from jaxmlir.dialect.bytecode import read, to_text
from jaxmlir.dialect.ir import bytecode, ir, parse_module
from jaxmlir.errors import ArgumentError, ImportingError, ParseError
from jaxmlir.passes import Instrumentation, parse_pipeline
from jaxmlir.passes.remarks import Sink, check_sink, listening
from jaxmlir.program.program import Program
from jaxmlir.program.staging import is_path, received
from jaxmlir.raising.lost_rules import remark_lost_rules
from jaxmlir.raising.raising import raise_exported, raise_module
from jaxmlir.support.lazy import collector_paused
from jaxmlir.verify.verifier import verify

if TYPE_CHECKING:
    from jax.export import Exported


@collector_paused
def from_stablehlo(
    source: str | bytes | ir.Module, *, filename: str = "-", remarks: Sink | None = None
) -> Program:
    """The program of a module of StableHLO: flat arguments, flat results.

    It can be differentiated, batched, optimised and saved like any other.  A module does not hold
    custom derivative rules (the derivative is then that of the ops), pytrees and weak types.

    Args:
      source: MLIR text; MLIR bytecode or a portable artifact, which may come from anybody; or a
        module of MLIR's Python bindings, such as ``jax.jit(f).lower(x).compiler_ir()``.
      filename: the name of the text in diagnostics.
      remarks: takes remarks on ops whose derivative may differ from that of a lost custom rule.

    Raises:
      ArgumentError: ``source`` is none of these.
      ParseError: it is not MLIR.
      ImportingError: an op or type has no counterpart in the dialect; names the op and its place.
      VerificationError: an op is not one that JAX could run.
    """
    check_sink(remarks)
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = to_text(bytes(source))
    if isinstance(source, str) and not is_path(source):
        module = parse_module(source, filename)
    elif isinstance(source, ir.Module):
        module = read(bytecode(source.operation))
    else:
        got = received(source, "read_bytes")
        raise ArgumentError(f"expected the text, bytes or module of StableHLO, {got}")
    try:
        importer = raise_module(module, _of_import)
    except ImportingError as e:
        raise ImportingError([d.placed(filename) for d in e.diagnostics]) from e.__cause__
    return _program(importer, filename, remarks)


@collector_paused
def from_exported(
    exported: Exported | bytes, *args: Any, remarks: Sink | None = None, **kwargs: Any
) -> Program:
    """The program of a function that ``jax.export`` has exported, with its pytrees.

    Derivatives of any order, and batches, are made from its ops; derivatives that were exported
    with it are not needed.

    Args:
      exported: a ``jax.export.Exported``, or the bytes that its ``serialize`` gave, which may come
        from anybody.
      args, kwargs: arrays, or ``jax.ShapeDtypeStruct``, to whose sizes a function with symbolic
        shapes is specialized.  Without these, the sizes stay symbolic.
      remarks: takes remarks on ops whose derivative may differ from that of a lost custom rule.

    Raises:
      ArgumentError: ``exported`` is neither, or the function does not take such arguments.
      ParseError: the bytes are damaged.
      ImportingError: an op or type has no counterpart in the dialect; names the op and its place.
      VerificationError: an op is not one that JAX could run.
    """
    from jax import export

    check_sink(remarks)
    trusted = isinstance(exported, export.Exported)
    if isinstance(exported, (bytes, bytearray, memoryview)):
        try:
            exported = export.deserialize(bytearray(exported))
        except ImportError:
            raise
        except Exception as e:  # any error of the flatbuffers reader on such bytes
            message = f"these bytes are not an exported function: {type(e).__name__}: {e}"
            raise ParseError(message) from None
    if not isinstance(exported, export.Exported):
        got = received(exported, "read_bytes")
        raise ArgumentError(f"expected a jax.export.Exported, or the bytes of one, {got}")
    if args or kwargs:
        refined = refined_module(exported, args, kwargs)
        importer = raise_exported(read(refined), exported, _of_import, refined=True)
        return _program(importer, "-", remarks)
    data = bytes(exported.mlir_module_serialized)
    module = read(data) if trusted else parse_module(to_text(data))
    if exported.ordered_effects or exported.unordered_effects:
        effects = ", ".join(map(str, (*exported.ordered_effects, *exported.unordered_effects)))
        raise ImportingError(f"{exported.fun_name} has effects that cannot be raised: {effects}")
    return _program(raise_exported(module, exported, _of_import), "-", remarks)


def refined_module(exported: Exported, args: Any, kwargs: Any) -> bytes:
    """The module of an exported function, specialized to the sizes of arguments, as bytecode."""
    try:
        lowered = jax.jit(exported.call, keep_unused=True).lower(*args, **kwargs)
    except (TypeError, ValueError) as e:
        raise ArgumentError(f"@{exported.fun_name}: {e}") from e
    return jaxlib_jax.mlir.refine_polymorphic_shapes(bytecode(lowered.compiler_ir().operation))


def _program(importer: Importer, filename: str, remarks: Sink | None) -> Program:
    program = Program.of_import(importer)
    verify(program, filename)
    _raise_further(program)
    if remarks is not None:
        with listening(remarks, "jaxpr-raise-stablehlo", program):
            remark_lost_rules(program)
    return program


def _of_import(importer: Importer) -> Program:
    program = Program.of_import(importer)
    _raise_further(program)
    return program


_FURTHER = {
    # A ``while`` has no derivative in reverse mode.  Not batched, so that the results equal those
    # of the module to the bit.
    frozenset({"jaxpr.while"}): "jaxpr-raise-loops{batch-bytes=0}",
    # The maximum in a softmax has no derivative: the module has lost its ``stop_gradient``.
    frozenset({"jaxpr.reduce_max", "jaxpr.exp"}): "jaxpr-shift-invariance",
}
"""The passes that run after a module was raised, by the ops that they apply to."""


def _raise_further(program: Program) -> None:
    """Restores the derivatives that a program had before it was lowered, as far as is certain."""
    names = set[str]().union(*analyses_of(program).graph.names.values())
    passes = [pipeline for needed, pipeline in _FURTHER.items() if needed <= names]
    if passes:
        # The program has been verified already, like any other before it is optimised.
        parse_pipeline(",".join(passes)).run(program, Instrumentation(verify_each=False))
