"""Converts the origins of equations to MLIR locations, and back.

An op's location is ``loc("name/stack"(callsite("f"("file.py":3:4) at ...)))``: JAX's name stack
around the user's Python frames, innermost first.
"""

from __future__ import annotations

import _thread
import functools
import os
import re
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jaxmlir._compat import hide_frames, jax_mlir_ext, jaxlib_jax, mlir, source_info_util
from jaxmlir.dialect.ir import context, file_line_col, ir
from jaxmlir.dialect.ir import frames as frames_of
from jaxmlir.errors import Diagnostic, DiagnosticError
from jaxmlir.support.files import PACKAGE, directory, may_be_shown

E = TypeVar("E", bound=DiagnosticError)

# Frames of ours occur when a rule is traced, dozens of them in a derivative.
hide_frames(PACKAGE)

_JAX = os.path.dirname(os.path.dirname(source_info_util.__file__)) + os.sep
_NO_STACK = source_info_util.NameStack()
_named: dict[Any, ir.Location] = {}
# The traceback that a location was made from, if this happened in this process.  JAX locates its
# own tracebacks faster, and exported equations get back the traceback they came with.
_origins: dict[ir.Attribute, Any] = {}
_of_traceback: dict[Any, ir.Location] = {}
_tracebacks_lock = threading.Lock()


@functools.cache
def _tracebacks() -> Any:
    """The bindings' cache from tracebacks to locations, for the process-wide context."""
    with context():
        return jax_mlir_ext.TracebackToLocationCache(
            code_to_filename=mlir._code_to_filename, frame_limit=10
        )


def of_equation(source_info: Any, function: ir.Location) -> ir.Location:
    """The location of an equation; its function's if JAX made it, e.g. to increment a loop counter.
    The context must be entered."""
    traceback = source_info.traceback
    stack = source_info.name_stack
    location = _of_traceback.get(traceback)
    if location is None:
        location = _new_location(traceback) or function
    if not stack.stack:
        return location
    key = (stack, location.attr)
    named = _named.get(key)
    if named is None:
        named = _named[key] = ir.Location.name(str(stack), childLoc=location)
    return named


def _new_location(traceback: Any) -> ir.Location | None:
    """The location of a traceback seen for the first time; ``None`` without a user's frame."""
    if traceback is None:
        return None
    # The call runs Python code, during which another thread could find the cache half changed.
    with _tracebacks_lock:
        location = _tracebacks().get(traceback)
    if location == ir.Location.unknown():
        return None
    if directory():
        # The bindings' file ranges differ from those that MLIR parses, though they print alike.
        # Files for later processes hold parsed locations, so this one is parsed, too.
        location = ir.Module.parse(f"module {{}} {location}").operation.location
    _of_traceback[traceback] = location
    _origins[location.attr] = traceback
    return location


_SOURCE = r"^(?P<name>.*?) at (?P<file>.*):(?P<line>\d+)$"


def of_function(debug_info: Any, call: ir.Location | None = None) -> ir.Location:
    """The location of a function: its name, and the file and line of its definition.

    JAX records no user's line for equations in its own functions, such as ``jnp.where``.  So the
    location of such a function includes that of its call site, ``call``, which the user knows.

    The context must be entered.
    """
    location, is_library = _of_source(getattr(debug_info, "func_src_info", None) or "")
    if call is None or not is_library:
        return location
    _, frames = split(call)
    return (
        location if isinstance(frames, ir.UnknownLoc) else ir.Location.callsite(location, [frames])
    )


def is_of_function(location: ir.Location, function: ir.Location) -> bool:
    """Whether an op has only the location of its function, one of JAX's, and no line of its own."""
    return split(location)[1] == function and is_of_jax(file_line_col(function)[0])


@functools.lru_cache(1024)
def _of_source(info: str) -> tuple[ir.Location, bool]:
    """The location in JAX's ``name at file:line``, and whether the file is one of JAX's."""
    match = re.match(_SOURCE, info)
    if not match:
        return ir.Location.unknown(), False
    child = ir.Location.file(match["file"], int(match["line"]), 1)
    return ir.Location.name(match["name"], childLoc=child), is_of_jax(match["file"])


def name_arguments(function: Any, names: Sequence[str]) -> None:
    """Gives the arguments of a function names (``params['w']``), stored in their locations.  An
    argument with an empty name gets none.  Does nothing if the numbers of names and arguments
    differ."""
    arguments = function.arguments
    if len(names) == len(arguments):
        for argument, name in zip(arguments, names, strict=True):
            if name:
                argument.set_location(ir.Location.name(name))


def names_of_arguments(function: Any) -> tuple[str, ...]:
    """The names of a function's arguments; empty where one has none."""
    places = (argument.location for argument in function.arguments)
    return tuple([place.name_str if isinstance(place, ir.NameLoc) else "" for place in places])


def traceback_of(location: ir.Location) -> Any | None:
    """The traceback that a location's frames were made from, if that was in this process."""
    return _origins.get(location.attr)


def user_position(source_info: Any) -> tuple[str, int, int]:
    """File, line and column of the user's frame that made an equation."""
    frame = source_info_util.user_frame(source_info.traceback)
    return (frame.file_name, frame.start_line, frame.start_column) if frame else ("", 0, 0)


def position(location: ir.Location) -> tuple[str, int, int]:
    """The user's file, line and column: the innermost frame of a location outside JAX's files.  If
    all frames are in JAX's files, the innermost one; ``("", 0, 0)`` if there is none."""
    frames = frames_of(location)
    user_frames = (p for p in frames if not is_of_jax(p[0]))
    return next(user_frames, frames[0] if frames else ("", 0, 0))


def error_at(
    kind: type[E], location: ir.Location, message: str, notes: tuple[Diagnostic, ...] = ()
) -> E:
    """An error about a location in a program, with the user's line."""
    return kind([Diagnostic("error", message, *position(location), notes)])


def is_of_jax(file: str) -> bool:
    """Whether a Python file is one of JAX's."""
    return file.startswith(_JAX)


def split(location: ir.Location) -> tuple[str, ir.Location]:
    """The name stack of an op's location, or an empty string, and its frames.  A name directly on a
    file position is not a name stack but the name of a Python function."""
    if isinstance(location, ir.NameLoc):
        child = location.child_loc
        if not isinstance(child, ir.FileLineColLoc):
            return location.name_str, child
    return "", location


def name_stack(location: ir.Location) -> Any:
    """JAX's name stack of an op's location."""
    name, _ = split(location)
    return _name_stack(name) if name else _NO_STACK


_of_bodies: dict[Any, ir.Location] = {}


def of_body(call: ir.Location, scope: str) -> ir.Location:
    """The location to copy the ops of a called function to: that of the call, with one more scope,
    such as ``"jit(layer)"``, on its name stack, as in JAX's lowering of the call."""
    key = (scope, call.attr)
    location = _of_bodies.get(key)
    if location is None:
        name, frames = split(call)
        stack = _name_stack(name) if name else _NO_STACK
        if isinstance(frames, ir.FileLineColLoc):
            # A name directly on a file position would be that of a Python function.
            frames = ir.Location.callsite(frames, [ir.Location.unknown()])
        location = ir.Location.name(str(stack.extend(scope)), childLoc=frames)
        _of_bodies[key] = location
    return location


_OPEN_TRANSFORMS = r"((?:[^()/]+\()+)(\)+)"


@functools.lru_cache(maxsize=4096)
def _name_stack(text: str) -> Any:
    """The name stack that prints as ``text``.  A transformation is printed around the scope that
    follows it.  So two transformations in ``"a/transpose(jvp())"`` wait for a scope: with ``"b"``
    added it is ``"a/transpose(jvp(b))"``."""
    depth, parts = 0, [""]
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    stack: list[Any] = list(map(source_info_util.Scope, parts))
    opened = re.fullmatch(_OPEN_TRANSFORMS, parts[-1])
    if opened and opened[1].count("(") == len(opened[2]):
        names = opened[1].split("(")[:-1]
        stack[-1:] = map(source_info_util.Transform, names)
    return source_info_util.NameStack(tuple(stack))


_source_infos: dict[ir.Attribute, Any] = {}


def source_info(location: ir.Location) -> Any:
    """JAX's source information for an op's location, for an exported equation."""
    key = location.attr
    info = _source_infos.get(key)
    if info is None:
        info = source_info_util.SourceInfo(_traceback(location), name_stack(location))
        _source_infos[key] = info
    return info


def _traceback(location: ir.Location) -> Any:
    _, frames = split(location)
    traceback = traceback_of(frames)
    if traceback is not None:
        return traceback
    file, line, _ = file_line_col(location)
    return _traceback_at(file, line) if line else None


@functools.lru_cache(maxsize=4096)
def _traceback_at(file: str, line: int) -> Any:
    """A traceback whose innermost frame is ``file:line``: JAX takes tracebacks from live frames
    only, so this calls a function that claims to be there."""
    position = min(line, 2**31 - 1)
    # A bracketed name is not a file, so nobody who prints the traceback looks up its line.
    name = file if may_be_shown(file) else f"<{file}>"
    code = _STANDING.__code__.replace(co_filename=name, co_name="user", co_firstlineno=position)
    function, tracebacks = types.FunctionType(code, {}), []
    arguments = jaxlib_jax.Traceback.get_traceback, tracebacks.append
    # Files for later processes must not depend on who asked first for a position.  In a thread of
    # its own the function has no callers.
    if not (directory() and _run_alone(function, arguments)):
        function(*arguments, bool)
    return tracebacks[0]


# The whole function must be on one line.
_STANDING = lambda take, give, end: (give(take()), end())  # noqa: E731


def _run_alone(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Calls a function in a thread, with a last argument to call at its end; false if no thread
    could start."""
    done = _thread.allocate_lock()
    done.acquire()
    try:
        _thread.start_new_thread(function, (*arguments, done.release))
    except RuntimeError:  # too many threads
        return False
    done.acquire()
    return True
