"""Describes the contents of an artifact in words, without verifying, running or trusting it."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxmlir.analysis.op_counts import size as size_of
from jaxmlir.artifact.load import Contents, refused
from jaxmlir.dialect import custom_calls, locations
from jaxmlir.dialect.ir import TREES, context, func, ir, is_private
from jaxmlir.dialect.module import VERSION
from jaxmlir.support.options import in_units

# Longer lists of source files say little.
MAX_FILES = 20


def describe(buffer: memoryview, filename: str, module: ir.Module | None = None) -> str:
    """A report on the contents of a file.

    Args:
      module: the module in a file of text or bytecode; by default, the file is an artifact.

    Raises:
      ArtifactError: it is damaged or malformed.
    """
    with refused(filename):
        contents = Contents(buffer) if module is None else None
        module = contents.module() if contents is not None else module
        with context():
            return _Report(filename, len(buffer), contents, module).text()


class _Report:
    """A report on a file: an artifact, or a module alone if there are no ``contents``."""

    def __init__(self, filename: str, size: int, contents: Contents | None, module: ir.Module):
        self.filename = filename
        self.size = size
        self.contents = contents
        self.module = module
        self.functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
        all_ops = (op for f in self.functions for block in f.body for op in block.operations)
        self.ops = [op for op in all_ops if not isinstance(op, func.ReturnOp)]

    def text(self) -> str:
        lines = [f"{self.filename}: {self.size} bytes", *self.versions()]
        sections = {
            "public functions": self.signatures(),
            "functions": [f"{len(self.functions)}, with {len(self.ops)} ops"],
            "ops": self.op_counts(),
            "constants": self.constants(),
            "custom derivative rules": self.rules(),
            "callbacks and effects": self.effects(),
            "custom calls": self.reach(),
            "sources": self.sources(),
        }
        for title, entries in sections.items():
            entries = list(entries)
            lines += [f"{title}:", *(f"  {entry}" for entry in entries)] if entries else []
        return "\n".join(lines)

    def versions(self) -> Iterable[str]:
        if self.contents is None:
            attributes = self.module.operation.attributes
            if VERSION in attributes:
                yield f"versions: dialect {ir.StringAttr(attributes[VERSION]).value}"
            return
        metadata = self.contents.metadata
        module = metadata["module"]
        yield (
            f"versions: artifact {metadata['artifact']}, dialect {metadata['dialect']}, "
            f"made by jaxmlir {metadata.get('jaxmlir')} with jax {metadata.get('jax')}"
        )
        yield (
            f"module: {module['bytes']} bytes of text, {self.contents.module_size} in the file, "
            f"sha256 {module['sha256'][:16]}..."
        )

    def signatures(self) -> Iterable[str]:
        for function in self.functions:
            if is_private(function):
                continue
            attributes = function.attributes
            results = list(_paths(attributes[TREES[1]])) if TREES[1] in attributes else None
            yield f"@{function.name.value}"
            yield from _table("argument", function.type.inputs, paths_of_arguments(function))
            yield from _table("result", function.type.results, results)

    def op_counts(self) -> Iterable[str]:
        names = (op.operation.name for op in self.ops)
        counts = collections.Counter(name.removeprefix("jaxpr.") for name in names)
        return [f"{count:5} {name}" for name, count in counts.most_common()]

    def constants(self) -> Iterable[str]:
        if self.contents is None:
            for op in self.ops:
                if op.operation.name == "jaxpr.constant" and "name" in op.attributes:
                    name = ir.StringAttr(op.attributes["name"]).value
                    yield f"{name}: {op.results[0].type}, not in the file"
            return
        for name in self.contents.constants:
            value = self.contents.constants.unread(name)
            entry = self.contents.metadata["constants"][name]
            shape = "x".join(map(str, value.shape)) or "scalar"
            yield f"{name}: {shape} of {entry['type']}, sha256 {entry['sha256'][:16]}..."

    def rules(self) -> Iterable[str]:
        """The rules of functions that have some, each listed once."""
        lines: dict[str, None] = {}
        for op in self.ops:
            attributes = op.attributes
            keys = ("jvp_jaxpr", "fwd_jaxpr", "bwd_jaxpr", "bwd")
            rules = [f"{key} {attributes[key]}" for key in keys if key in attributes]
            if rules:
                prefix = f"{attributes['call_jaxpr']}: " if "call_jaxpr" in attributes else ""
                lines[prefix + ", ".join(rules)] = None
        return list(lines)

    def effects(self) -> Iterable[str]:
        """The ops with effects, by kind, and where the first of each kind is."""
        by_kind: dict[tuple[str, str], list[str]] = {}
        for op in self.ops:
            if "jaxpr.effects" in op.attributes:
                effects = re.findall(r"\{(\w+)", str(op.attributes["jaxpr.effects"]))
                kind = op.operation.name.removeprefix("jaxpr."), ", ".join(effects)
                file, line, _ = locations.position(op.location)
                by_kind.setdefault(kind, []).append(f", at {file}:{line}" if line else "")
        for (name, effects), places in by_kind.items():
            yield f"{len(places)} {name}: {effects}{places[0]}"

    def reach(self) -> Iterable[str]:
        counts = collections.Counter((c.op, c.target) for c in custom_calls.find(self.module))
        return [f"{count} {op} of {target!r}" for (op, target), count in counts.items()]

    def sources(self) -> Iterable[str]:
        """The lines of each file that ops come from, as ranges."""
        lines: dict[str, set[int]] = collections.defaultdict(set)
        for op in self.ops:
            file, line, _ = locations.position(op.location)
            # Without debug info, MLIR locates ops in the text itself.
            if line and (file != self.filename or self.contents is not None):
                lines[file].add(line)
        for file in sorted(lines)[:MAX_FILES]:
            yield f"{file}: {_ranges(sorted(lines[file]))}"
        if len(lines) > MAX_FILES:
            yield f"and {len(lines) - MAX_FILES} more files"


def paths_of_arguments(function: func.FuncOp) -> Sequence[str] | None:
    """The names of a function's arguments, or else their paths in its pytree, as ``['w'][0]``.
    ``None`` if the function has neither."""
    names = locations.names_of_arguments(function)
    if all(names):
        return names
    attributes = function.attributes
    if TREES[0] not in attributes:
        return None
    # Positional and keyword arguments are the two children of the tree.
    return [path.partition("]")[2] for path in _paths(attributes[TREES[0]])]


def _paths(tree: ir.Attribute, prefix: str = "") -> Iterator[str]:
    """The paths of the leaves of an encoded pytree (:mod:`jaxmlir.dialect.codec.pytrees`)."""
    if isinstance(tree, ir.StringAttr):
        yield prefix
        return
    children: Iterable[tuple[Any, Any]] = ()
    if isinstance(tree, ir.ArrayAttr):
        children = enumerate(tree)
    elif isinstance(tree, ir.DictAttr):
        (entry,) = tree
        parts = list(entry.attr)
        if entry.name == "list":
            children = enumerate(parts)
        elif entry.name in ("dict", "ordered_dict"):
            children = [(_key_text(key), child) for key, child in parts]
        else:
            children = enumerate(parts[-1])
    for key, child in children:
        yield from _paths(child, f"{prefix}[{key}]")


def _key_text(key: ir.Attribute) -> str:
    """The key of a dictionary, as Python prints it."""
    return repr(key.value) if isinstance(key, (ir.StringAttr, ir.IntegerAttr)) else str(key)


def _table(what: str, types: Sequence[ir.Type], paths: Sequence[str] | None) -> Iterator[str]:
    """A line for each argument or result, with its path, type and size; then their total."""
    if paths is None or len(paths) != len(types):
        paths = [f"[{i}]" if len(types) > 1 else "" for i in range(len(types))]
    names = [f"{what} {path}" if path[:1] not in ("", "[") else what + path for path in paths]
    width, total = max(map(len, names), default=0), 0
    width_of_type = max((len(str(type_)) for type_ in types), default=0)
    for name, type_ in zip(names, types, strict=True):
        total += (size := size_of(type_))
        shown = in_units(size) if size else ""
        yield f"  {name:{width}}  {type_!s:{width_of_type}}  {shown}".rstrip()
    if len(types) > 1:
        yield f"  {len(types)} {what}s, {in_units(total)}"


def _ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` as ``1-3, 7``."""
    groups: list[list[int]] = []
    for n in numbers:
        if groups and n == groups[-1][-1] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    return ", ".join(f"{g[0]}-{g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)
