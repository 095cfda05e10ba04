"""Saves a program to a file."""

from __future__ import annotations

import collections
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmlir.artifact import container, expansions
from jaxmlir.artifact import module_text as _module
from jaxmlir.bridge.custom_rules import hijax
from jaxmlir.dialect import codec, handles, locations
from jaxmlir.dialect.builder import ops_with_symbols, symbols_of
from jaxmlir.dialect.ir import (
    DIALECT_VERSION,
    TREES,
    context,
    dialect_ops,
    frames,
    functions,
    ir,
    module_text,
)
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArgumentError, ArtifactError, Diagnostic, JaxmlirError
from jaxmlir.optimize.simplify.drop_callbacks import DropCallbacks, is_dropped
from jaxmlir.passes.pipeline import run_pass

MAX_DIAGNOSTICS = 20


EFFECTS = ("error", "drop", "keep-print")


def pieces(
    program: Module, source_info: bool = True, as_flat: bool = False, effects: str = "error"
) -> list[Any]:
    """The contents of an artifact, as buffers to be written one after another.

    Args:
      source_info: keep the Python files and lines that ops come from, and JAX's name stacks.
      as_flat: leave the pytrees out, so that the loaded program takes and returns flat leaves. This
        is for nodes that hold Python objects of this process.
      effects: what becomes of debug callbacks, prints and run-time checks. ``"error"``: they are an
        error if they are Python objects; ``"drop"``: they are left out; ``"keep-print"``: of these,
        prints of a format string are kept.

    Raises:
      ArgumentError: ``effects`` is none of these.
      ArtifactError: the program refers to Python objects of this process, such as callbacks, of
        which each op and the user's line are named; or a constant has no value.
    """
    import jax

    import jaxmlir

    program = _writable(program, as_flat, effects)
    elements: dict[str, dict[str, str]] = {}
    parts: dict[str, container.StoredArray] = {}
    # The widest elements first, so each array begins at a multiple of its element's size.
    arrays = sorted(_arrays(program).items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in arrays:
        element, part = container.part_of(array)
        elements[name] = {"type": element, "sha256": container.digest(part.data)}
        parts[container.CONSTANT + name] = part
    text, size = _module.compress(program.written_module(), locations=source_info)
    parts[container.MODULE] = container.StoredArray("U8", (len(text),), text)
    metadata = {
        "artifact": container.VERSION,
        "dialect": DIALECT_VERSION,
        "jax": jax.__version__,
        "jaxmlir": jaxmlir.__version__,
        "module": {"bytes": size, "sha256": container.digest(text)},
        "constants": elements,
    }
    return container.pack(metadata, parts)


def _writable(program: Module, as_flat: bool, effects: str) -> Module:
    """The program in a form that another process can load."""
    if effects not in EFFECTS:
        expected = ", ".join(map(repr, EFFECTS))
        raise ArgumentError(f"effects: expected one of {expected}, got {effects!r}")
    expands = expansions.may_expand_in(program)
    if effects == "error":
        # Before the expansion, which takes long and does not help callbacks.
        _check_writable(program.module, {}, _is_callback)
    fields = None if as_flat else _module.fields_of_nodes(program)
    with context():
        others = next(_own_attributes(program), None)
    if as_flat or fields is not None or effects != "error" or expands or others is not None:
        program = program.clone()
        with context():
            for op, own in list(_own_attributes(program)):
                for name in set(op.attributes) - own.keys():
                    del op.attributes[name]
                for name, attr in own.items():
                    op.attributes[name] = attr
    _module.write_trees(program, as_flat, fields)
    places = expansions.expand(program) if expands else {}
    if effects != "error":
        run_pass(DropCallbacks(keep_print=effects == "keep-print"), program)
    if places:
        expansions.forget(program, lambda op: not any(_why_unwritable(op, "")))
    _check_writable(program.module, places)
    return program


def _own_attributes(program: Module) -> Iterator[tuple[Any, dict[str, ir.Attribute]]]:
    """The module and its functions that have attributes of other dialects, which mean nothing to
    the program; each with its other attributes."""

    def is_own(name: str) -> bool:
        return "." not in name or name.startswith("jaxpr.")

    for op in (program.module.operation, *functions(program.module).values()):
        own = {name: attr for name, attr in op.attributes.items() if is_own(name)}
        for key in own.keys() & {"arg_attrs", "res_attrs"}:
            kept = [{a.name: a.attr for a in item if is_own(a.name)} for item in own[key]]
            own[key] = ir.ArrayAttr.get(list(map(ir.DictAttr.get, kept)))
        if own != dict(op.attributes.items()):
            yield op, own


def _check_writable(
    module: ir.Module,
    places: Mapping[str, ir.Location],
    is_checked: Callable[[str], bool] = lambda name: True,
) -> None:
    """Raises an error that lists the checked ops that refer to Python objects of this process."""
    problems = list(_unwritable(module, places, is_checked))
    if problems:
        raise ArtifactError(problems[:MAX_DIAGNOSTICS])


def _arrays(program: Module) -> dict[str, np.ndarray]:
    """The arrays that the module names."""
    arrays = {}
    with context():
        for op in dialect_ops(program.module):
            if op.name != "jaxpr.constant" or "name" not in op.attributes:
                continue
            name = ir.StringAttr(op.attributes["name"]).value
            if name in arrays:
                continue
            if name not in program.constants:
                message = f"constant {name!r} has no value; pass constants={{...}} to parse"
                position = locations.position(op.location)
                raise ArtifactError([Diagnostic("error", message, *position)])
            arrays[container.check_name(name)] = np.asarray(program.constants[name])
    return arrays


# --- what has no form outside of the process ---------------------------------------------------


def _unwritable(
    module: ir.Module, places: Mapping[str, ir.Location], is_checked: Callable[[str], bool]
) -> Iterator[Diagnostic]:
    """The ops that refer to Python objects of this process.  Functions that no user wrote have
    their ``places``: the location of an op that they were added for."""
    text = module_text(module)
    if not any(mark in text for mark in ("{handle = ", "!jaxpr.aval<", "!jaxpr.dtype<")):
        return
    with context():
        callers = _Callers(module, places)
        diagnostics: dict[Diagnostic, None] = {}
        for function in module.body.operations:
            symbol = function.attributes["sym_name"].value
            ops = [op for region in function.regions for block in region for op in block.operations]
            for op in (function, *ops):
                if not is_checked(op.operation.name):
                    continue
                what = f"@{symbol}" if op is function else f"'{op.operation.name}' op"
                for message in _why_unwritable(op, what):
                    diagnostics[callers.diagnostic(message, op, symbol)] = None
        yield from diagnostics


class _Callers:
    """The callers of a module's functions, by which a user's line is found."""

    def __init__(self, module: ir.Module, places: Mapping[str, ir.Location]):
        self._module = module
        self._places = places

    @functools.cached_property
    def _calls(self) -> dict[str, list[tuple[str, ir.Location]]]:
        """The ops that refer to each function: the functions that contain them, and locations."""
        calls = collections.defaultdict(list)
        for caller, function in functions(self._module).items():
            for op, _ in ops_with_symbols(function):
                for symbol in symbols_of(op):
                    calls[symbol].append((caller, self._places.get(caller, op.location)))
        return calls

    def diagnostic(self, message: str, op: Any, symbol: str) -> Diagnostic:
        """An error at the user's line that an op belongs to. If a library's line made the op, the
        message names that line, too."""
        location = self._places.get(symbol, op.location)
        made_by = locations.position(op.location)
        position = self._users(symbol, location) or locations.position(location)
        if made_by[1] and made_by[:2] != position[:2]:
            message += f" (made at {made_by[0]}:{made_by[1]})"
        return Diagnostic("error", message, *position)

    def _users(self, symbol: str, location: ir.Location) -> tuple[str, int, int] | None:
        """The innermost position in a user's file, of an op or of a call around it."""
        seen, pending = {symbol}, collections.deque([(symbol, location)])
        while pending:
            symbol, location = pending.popleft()
            user_frames = [frame for frame in frames(location) if not _is_of_library(frame[0])]
            if user_frames:
                return user_frames[0]
            pending += [call for call in self._calls[symbol] if call[0] not in seen]
            seen.update(caller for caller, _ in self._calls[symbol])
        return None


def _is_of_library(file: str) -> bool:
    """Whether a Python file belongs to an installed package or to Python."""
    return "site-packages" in file or "dist-packages" in file or file.startswith(_PYTHON)


_PYTHON = os.path.dirname(os.__file__) + os.sep
# A type that names a Python object.
_OWN_TYPE = re.compile(r'!jaxpr\.(?:aval|dtype)<"(?:[^"\\]|\\.)*", "\w+">')


def _why_unwritable(op: Any, what: str) -> Iterator[str]:
    name = op.operation.name
    options = _options(op) if name.startswith("jaxpr.call_hi_primitive") else ()
    if options:
        names = " and ".join(f"'{option}'" for option in options)
        yield (
            f"{what} cannot be saved: the dialect has no op for a custom_vjp function with the "
            f"option {names}, so its rules are still Python functions of this process"
        )
        return
    for key in op.attributes:
        handle = next(codec.handles_in(op.attributes[key]), None)
        if handle is not None:
            box = handles.find_box(handle)
            shown = "a Python object" if box is None else f"the Python object {_shown(box.value)}"
            yield (
                f"{what} cannot be saved: attribute '{key}' is {shown}, which exists in this "
                f"process only{_way_out(op, name, key)}"
            )
    parts = [*op.results.types, *(attr for _, attr in op.attributes.items())]
    for type_text in dict.fromkeys(_OWN_TYPE.findall(" ".join(map(str, parts)))):
        yield f"{what} cannot be saved: the type {type_text} exists in this process only"


def _way_out(op: Any, name: str, key: str) -> str:
    if key in TREES:
        return "; as_flat=True saves a program that takes and returns the leaves"
    if is_dropped(op, name):
        return (
            "; effects='drop' saves the program without its debug callbacks and run-time checks, "
            "effects='keep-print' with its prints"
        )
    if _is_callback(name):
        return "; compute its result with JAX, or save the parts before and after the call"
    return ""


def _is_callback(name: str) -> bool:
    return name.endswith("_callback")


def _options(op: Any) -> Sequence[str]:
    """The options of a function with custom rules that cannot be stored, as no op has them; empty
    for a primitive that this process does not know, and another one may."""
    try:
        return hijax.unmatched(codec.decode(op.attributes["_prim"]))
    except JaxmlirError:
        return ()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
