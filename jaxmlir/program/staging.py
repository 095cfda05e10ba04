"""Making programs: by tracing a function, from a jaxpr, from text."""

from __future__ import annotations

import functools
import os
import re
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import jax

from jaxmlir._compat import bind_leading, core, rule_context
from jaxmlir.bridge.importer import CLOSES_OVER, import_jaxpr
from jaxmlir.bridge.resources import take_out
from jaxmlir.dialect import handles
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import functions, parse_module, scope
from jaxmlir.errors import ArgumentError, ImportingError
from jaxmlir.program.program import Program
from jaxmlir.runtime.differentiation import as_given
from jaxmlir.support.lazy import collector_paused
from jaxmlir.targets import Target

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr


def trace(
    fun: Callable[..., Any],
    *misplaced: Any,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Program]:
    """``trace(f)(*args, **kwargs)`` is the program of ``f`` for arguments of those shapes.

    Args:
      fun: a function of pytrees of arrays.
      misplaced: must be empty; arguments of ``fun`` go to the function that ``trace(fun)`` returns.
      static_argnums, static_argnames: arguments that are Python values of the trace, as for
        ``jax.jit``; the program does not take them.

    Returns:
      A function of arrays or ``jax.ShapeDtypeStruct`` that returns a :class:`Program`.  It raises
      the errors of ``fun`` and of JAX's tracing, and ``ImportingError`` if ``fun`` closes over
      values of another trace.

    Raises:
      ArgumentError: ``trace`` itself was given arguments of ``fun``.
      TypeError, ValueError: those of ``jax.jit``: ``fun`` cannot be called, or has no such
        arguments.
    """
    if misplaced:
        name = name_of(fun)
        raise ArgumentError(
            f"trace takes the function alone, got {len(misplaced)} more; pass arguments to its "
            f"result: jaxmlir.trace({name})(...)"
        )
    key = as_key(fun)
    jitted = jax.jit(key, static_argnums=static_argnums, static_argnames=static_argnames)

    @wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Program:
        with as_given(), rule_context():
            return _program_of(jitted.trace(*args, **kwargs), name_of(fun))

    vars(traced).update(getattr(fun, "__dict__", {}) | vars(traced))
    return traced


@collector_paused
def _program_of(traced: Any, name: str) -> Program:
    """The program of JAX's traced stage."""
    if any(isinstance(c, core.Tracer) for c in traced._consts):
        raise ImportingError(f"{name} {CLOSES_OVER}")
    jaxpr, trees = bind_leading(traced.jaxpr, traced._consts), (traced._in_tree, traced.out_tree)

    def program_for(target: Target | None) -> Program:
        importer = import_jaxpr(jaxpr, name, target)
        with scope():
            attributes = next(iter(functions(importer.module).values())).attributes
            for key, tree in zip(("jaxpr.in_tree", "jaxpr.out_tree"), trees, strict=True):
                attributes[key] = pytrees.encode(tree, importer)
        return Program.of_import(importer, program_for)

    return program_for(None)


def from_jaxpr(closed_jaxpr: ClosedJaxpr, name: str = "main") -> Program:
    """The program of a ``ClosedJaxpr``: flat arguments, flat results.

    Args:
      closed_jaxpr: as ``jax.make_jaxpr`` makes it.
      name: the name of the public function; characters that a symbol cannot have become ``_``.

    Raises:
      ArgumentError: ``closed_jaxpr`` is no jaxpr, or ``name`` no string.
      ImportingError: a value or parameter has no form in the dialect; names the equation.
    """
    if not isinstance(getattr(closed_jaxpr, "jaxpr", closed_jaxpr), core.Jaxpr):
        raise ArgumentError(
            f"expected a ClosedJaxpr, as jax.make_jaxpr(f)(*args) returns, got {closed_jaxpr!r}"
        )
    if not isinstance(name, str):
        raise ArgumentError(f"name: expected a string, got {name!r}")
    return import_for(closed_jaxpr, name)


def import_for(closed_jaxpr: Any, name: str, target: Target | None = None) -> Program:
    """The program of a jaxpr; programs that this calls are taken in the version for a target."""
    again = functools.partial(import_for, closed_jaxpr, name)
    return Program.of_import(import_jaxpr(closed_jaxpr, name, target), again)


def parse(
    text: str,
    *,
    constants: Mapping[str, Any] | None = None,
    filename: str = "-",
    verify: bool = True,
) -> Program:
    """The program that :meth:`Program.as_text` printed.

    Args:
      text: MLIR text.
      constants: values of the constants that the text only names; constants that are resources of
        the text need not be given.
      filename: the name of the text in diagnostics.
      verify: check the program; without it, an invalid one fails later or not at all.

    Raises:
      ArgumentError: the text is no string, or the constants are no mapping.
      ParseError: the text is not MLIR.
      VerificationError: it is not a valid program.
    """
    if not isinstance(text, str) or is_path(text):
        raise ArgumentError(f"expected the text of a module, {received(text, 'read_text')}")
    if not isinstance(constants, Mapping | None):
        raise ArgumentError(f"constants: expected arrays by name, got {type(constants).__name__}")
    module = parse_module(text, filename)
    arrays = take_out(module, text) | dict(constants or {})
    program = Program(module, arrays, _handles_in(text))
    if verify:
        from jaxmlir.verify.verifier import verify as verify_program

        verify_program(program, filename)
    return program


def is_path(text: str) -> bool:
    """Whether what should be the text of a module is the path of a file."""
    return re.fullmatch(r"[^\s(){}<>%@\"]+\.\w+", text) is not None


def received(source: Any, read: str) -> str:
    """What came in place of a module, and what to do with it.

    Args:
      read: the method of a path that reads such a module.
    """
    from jax.export import Exported

    saved, hint = "or read an artifact with jaxmlir.load", ""
    if isinstance(source, str) and is_path(source):
        return f"got the path {source!r}; pass pathlib.Path({source!r}).{read}(), {saved}"
    if isinstance(source, os.PathLike):
        hint = f"; pass its {read}(), {saved}"
    elif isinstance(source, bytes | bytearray):
        hint = f"; pass its decode(), {saved}"
    elif isinstance(source, Exported):
        hint = "; jaxmlir.from_exported takes it"
    elif isinstance(source, jax.stages.Lowered):
        hint = "; jaxmlir.from_stablehlo takes its as_text()"
    elif callable(source):
        hint = "; jaxmlir.trace(f)(*args) makes a program of a function"
    return f"got {type(source).__name__}{hint}"


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    as_flat: bool = False,
    allow_custom_calls: Collection[str] | None = (),
    verify: bool = True,
) -> Program:
    """The program that :meth:`Program.save` wrote.

    The file may come from anybody: loading executes nothing in it, and a damaged, malformed or
    malicious file is an error.  The arrays stay in the file, which is mapped into memory.

    Args:
      source: the path of the file, or its contents: bytes, or a binary stream.
      as_flat: make a program that takes and returns the leaves of the pytrees only, for pytrees
        with node types that this process does not know.
      allow_custom_calls: the calls beyond XLA that the program may make: targets of ``jax.ffi``
        calls, and ``"pallas_call"`` and such (:mod:`jaxmlir.dialect.custom_calls`); ``None`` allows
        all.  Other calls are refused when the program is lowered or turned into a jaxpr, not when
        it is loaded.
      verify: check the program's types; without it, an invalid one fails later or not at all.

    Raises:
      ArgumentError: ``source`` is none of these, or ``allow_custom_calls`` no collection of names.
      ArtifactError: the file is not an artifact that can be loaded here.
      VerificationError: its program is invalid.
      OSError: the file cannot be read.
    """
    from jaxmlir.artifact.container import contents
    from jaxmlir.artifact.load import read

    if isinstance(allow_custom_calls, str) or not isinstance(allow_custom_calls, Collection | None):
        raise ArgumentError(
            "allow_custom_calls: expected a collection of names, or None, "
            f"got {allow_custom_calls!r}"
        )
    buffer, filename = contents(source)
    return read(Program, buffer, filename, as_flat, allow_custom_calls, verify)


def _handles_in(text: str) -> dict[str, handles.Box]:
    """The boxes of the handles that a text names; an unknown handle fails when it is used."""
    boxes = {}
    for name in set(re.findall(r'\{handle = "(h\d+)"\}', text)):
        box = handles.find_box(name)
        if box is not None:
            boxes[name] = box
    return boxes


def name_of(fun: Callable[..., Any]) -> str:
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def wraps(fun: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like ``functools.wraps``, for any callable, even an object whose name is no string.

    The attributes of an object are not copied: JAX would find them in place of its own.
    """

    def named(wrapper: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(wrapper, fun, ("__module__", "__doc__"), ())
        wrapper.__name__ = wrapper.__qualname__ = name_of(fun)
        return wrapper

    return named


def as_key(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, or a function that calls it: if JAX cannot cache by it, as by a model with arrays,
    or would take an attribute of it for the method ``trace`` of ``jax.jit(fun)``."""
    if not callable(fun):
        return fun  # JAX raises the error.
    try:
        hash(fun)
        weakref.ref(fun)
        has_trace = "trace" in getattr(fun, "__dict__", {})
        if isinstance(getattr(fun, "__name__", ""), str) and not has_trace:
            return fun
    except TypeError:
        pass

    @wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    return call
