"""What is in an artifact, in words: nothing of it is verified, run or trusted for this."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from jaxmlir.artifact.load import Contents, refused
from jaxmlir.dialect import custom_calls, locations
from jaxmlir.dialect.ir import TREES, context, func, ir, is_private

# More source files than these say little.
MAX_FILES = 20


def describe(buffer: memoryview, filename: str) -> str:
    """A report on an artifact's contents.

    Raises:
      ArtifactError: it is damaged or malformed.
    """
    with refused(filename):
        contents = Contents(buffer)
        module = contents.module()
        with context():
            return _Report(filename, len(buffer), contents, module).text()


class _Report:
    def __init__(self, filename: str, size: int, contents: Contents, module: ir.Module):
        self.filename = filename
        self.size = size
        self.contents = contents
        self.module = module
        self.functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
        found = (op for f in self.functions for block in f.body for op in block.operations)
        self.ops = [op for op in found if not isinstance(op, func.ReturnOp)]

    def text(self) -> str:
        metadata = self.contents.metadata
        module = metadata["module"]
        lines = [
            f"{self.filename}: {self.size} bytes",
            f"versions: artifact {metadata['artifact']}, dialect {metadata['dialect']}, "
            f"made by jaxmlir {metadata.get('jaxmlir')} with jax {metadata.get('jax')}",
            f"module: {module['bytes']} bytes of text, {self.contents.module_size} in the file, "
            f"sha256 {module['sha256'][:16]}...",
        ]
        sections = {
            "public functions": self.signatures(),
            "functions": [f"{len(self.functions)}, with {len(self.ops)} ops"],
            "ops": self.op_counts(),
            "constants": self.constants(),
            "custom derivative rules": self.rules(),
            "beyond XLA": self.reach(),
            "sources": self.sources(),
        }
        for title, entries in sections.items():
            entries = list(entries)
            lines += [f"{title}:", *(f"  {entry}" for entry in entries)] if entries else []
        return "\n".join(lines)

    def signatures(self) -> Iterable[str]:
        for function in self.functions:
            if is_private(function):
                continue
            type_, attributes = function.type, function.attributes
            takes, gives = (", ".join(map(str, types)) for types in (type_.inputs, type_.results))
            yield f"@{function.name.value}({takes}) -> ({gives})"
            for key in TREES:
                if key in attributes:
                    yield f"  {key.removeprefix('jaxpr.')}: {attributes[key]}"

    def op_counts(self) -> Iterable[str]:
        names = (op.operation.name for op in self.ops)
        counts = collections.Counter(name.removeprefix("jaxpr.") for name in names)
        return [f"{count:5} {name}" for name, count in counts.most_common()]

    def constants(self) -> Iterable[str]:
        for name in self.contents.constants:
            value = self.contents.constants.unread(name)
            entry = self.contents.metadata["constants"][name]
            shape = "x".join(map(str, value.shape)) or "scalar"
            yield f"{name}: {shape} of {entry['type']}, sha256 {entry['sha256'][:16]}..."

    def rules(self) -> Iterable[str]:
        """Each function that has rules, once."""
        found: dict[str, None] = {}
        for op in self.ops:
            attributes = op.attributes
            keys = ("jvp_jaxpr", "fwd_jaxpr", "bwd_jaxpr", "bwd")
            rules = [f"{key} {attributes[key]}" for key in keys if key in attributes]
            if rules:
                of = f"{attributes['call_jaxpr']}: " if "call_jaxpr" in attributes else ""
                found[of + ", ".join(rules)] = None
        return list(found)

    def reach(self) -> Iterable[str]:
        found = collections.Counter((c.op, c.target) for c in custom_calls.find(self.module))
        return [f"{count} {op} of {target!r}" for (op, target), count in found.items()]

    def sources(self) -> Iterable[str]:
        """The lines of each file that ops come from, as ranges."""
        lines: dict[str, set[int]] = collections.defaultdict(set)
        for op in self.ops:
            file, line, _ = locations.position(op.location)
            if line:
                lines[file].add(line)
        for file in sorted(lines)[:MAX_FILES]:
            yield f"{file}: {_ranges(sorted(lines[file]))}"
        if len(lines) > MAX_FILES:
            yield f"and {len(lines) - MAX_FILES} more files"


def _ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` as ``1-3, 7``."""
    groups: list[list[int]] = []
    for n in numbers:
        if groups and n == groups[-1][-1] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    return ", ".join(f"{g[0]}-{g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)
