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
from jaxmlir.passes.remarks import Sink, listening
from jaxmlir.program.program import Program
from jaxmlir.raising.lost_rules import remark_lost_rules
from jaxmlir.raising.raising import raise_exported, raise_module
from jaxmlir.support.lazy import collector_paused

if TYPE_CHECKING:
    from jax.export import Exported


@collector_paused
def from_stablehlo(
    source: str | bytes | ir.Module, *, filename: str = "-", remarks: Sink | None = None
) -> Program:
    """The program of a module of StableHLO: flat arguments, flat results.

    It can be differentiated, batched, optimised and saved as any other.  What a module does not
    hold is lost: custom derivative rules (the derivative is that of the ops), pytrees, weak types.

    Args:
      source: MLIR text; MLIR bytecode or a portable artifact, which may come from anybody; or a
        module of MLIR's Python bindings, as ``jax.jit(f).lower(x).compiler_ir()``.
      filename: what diagnostics call the text.
      remarks: takes remarks on ops whose derivative may not be that of a rule that was lost.

    Raises:
      ArgumentError: it is none of these.
      ParseError: it is not MLIR.
      ImportingError: an op or type has no counterpart in the dialect; names the op and its place.
      VerificationError: an op is not one that JAX could run.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = to_text(bytes(source))
    if isinstance(source, str):
        module = parse_module(source, filename)
    elif isinstance(source, ir.Module):
        module = read(bytecode(source.operation))
    else:
        raise ArgumentError(
            f"expected the text, bytes or module of StableHLO, got {type(source).__name__}"
        )
    return _program(raise_module(module, _of_import), filename, remarks)


@collector_paused
def from_exported(
    exported: Exported | bytes, *args: Any, remarks: Sink | None = None, **kwargs: Any
) -> Program:
    """The program of a function that ``jax.export`` has exported, with its pytrees.

    Its derivatives of any order, and batches, are made of what it computes: it needs none that was
    exported with it.

    Args:
      exported: a ``jax.export.Exported``, or the bytes that its ``serialize`` gave, which may come
        from anybody.
      args, kwargs: arguments of the only sizes that the program is for, where those of the function
        are symbolic: arrays, or ``jax.ShapeDtypeStruct``.  Without these, they stay symbolic.
      remarks: takes remarks on ops whose derivative may not be that of a rule that was lost.

    Raises:
      ArgumentError: it is neither, or the function does not take such arguments.
      ParseError: the bytes are damaged.
      ImportingError: an op or type has no counterpart in the dialect; names the op and its place.
      VerificationError: an op is not one that JAX could run.
    """
    from jax import export

    trusted = isinstance(exported, export.Exported)
    if isinstance(exported, (bytes, bytearray, memoryview)):
        try:
            exported = export.deserialize(bytearray(exported))
        except ImportError:
            raise
        except Exception as e:  # of the reader of flatbuffers, whatever the bytes say
            message = f"these bytes are no exported function: {type(e).__name__}: {e}"
            raise ParseError(message) from None
    if not isinstance(exported, export.Exported):
        raise ArgumentError(
            f"expected a jax.export.Exported, or the bytes of one, got {type(exported).__name__}"
        )
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
    """The module of an exported function for arguments of some sizes, as bytecode.

    Raises:
      ArgumentError: the function does not take such arguments.
    """
    try:
        lowered = jax.jit(exported.call, keep_unused=True).lower(*args, **kwargs)
    except (TypeError, ValueError) as e:
        raise ArgumentError(f"@{exported.fun_name}: {e}") from e
    return jaxlib_jax.mlir.refine_polymorphic_shapes(bytecode(lowered.compiler_ir().operation))


def _program(importer: Importer, filename: str, remarks: Sink | None) -> Program:
    from jaxmlir.verify.verifier import verify

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
    # It has no derivative in reverse as a ``while``.  Not batched: what is computed is to be what
    # the module computes, to the bit.
    frozenset({"jaxpr.while"}): "jaxpr-raise-loops{batch-bytes=0}",
    # Of a softmax's maximum no derivative is to be taken, which ``stop_gradient`` said.
    frozenset({"jaxpr.reduce_max", "jaxpr.exp"}): "jaxpr-shift-invariance",
}
"""The passes after a module was raised, by the ops that they are of."""


def _raise_further(program: Program) -> None:
    """Gives a program the derivatives that it had before it was lowered, as far as is certain."""
    names = set[str]().union(*analyses_of(program).graph.names.values())
    passes = [pipeline for needed, pipeline in _FURTHER.items() if needed <= names]
    if passes:
        # The program was verified before, as others are before they are optimised.
        parse_pipeline(",".join(passes)).run(program, Instrumentation(verify_each=False))
