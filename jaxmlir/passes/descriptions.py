"""Descriptions of passes and their options, read from the source.

Listing passes must not import them: some import JAX, and passes of other packages import anything.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from jaxmlir.passes.base import Pass, format_value


@dataclass(frozen=True)
class OptionText:
    """An option as ``--list-passes`` shows it."""

    name: str
    kind: str
    """The type in words; empty for C++ passes, which only print the default."""
    default: str | None
    """``None`` if the option is required."""
    help: str = ""

    def __str__(self) -> str:
        return f"{self.name}=<{self.kind}>" if self.kind else f"{self.name}={self.default}"

    @property
    def description(self) -> str:
        """The option's meaning, and its default unless the help states it."""
        if self.default is None:
            note = "required"
        elif not self.kind or self.default in ("", "''") or "by default" in self.help:
            note = ""
        else:
            note = f"default: {self.default}"
        return f"{self.help} ({note})".strip() if note else self.help


@dataclass(frozen=True)
class Description:
    """A pass as ``--list-passes`` shows it."""

    summary: str
    options: tuple[OptionText, ...] = ()


NOTHING = Description("")


def of_target(target: str) -> Description:
    """The description of ``package.module:Class``; empty if the source is not found."""
    module, _, name = target.partition(":")
    definitions = _top_level(module)
    cls = definitions.get(name)
    if not isinstance(cls, ast.ClassDef):
        return NOTHING
    lineage = [*_lineage(cls, definitions)]
    docs = [ast.get_docstring(node) or "" for node, _ in lineage]
    fields = dict(field for node, definitions in lineage for field in _fields(node, definitions))
    return Description(summary_of(docs[-1]), tuple(_options(fields, docs)))


def of_class(cls: type[Pass]) -> Description:
    """The description of a pass that is imported already."""
    docs = [inspect.cleandoc(base.__doc__ or "") for base in reversed(cls.__mro__)]
    fields = {
        name: (option.kind, None if option.required else format_value(option.field.default))
        for name, option in cls.options().items()
    }
    return Description(summary_of(docs[-1]), tuple(_options(fields, docs)))


def _find(module: str) -> ModuleSpec | None:
    """The spec of a module, found without importing its parent packages."""
    name, *rest = module.split(".")
    # Only a finder of its own may know a package that is installed in editable mode.
    spec = find_spec(name)
    for part in rest:
        if spec is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    return spec


def summary_of(docstring: str | None) -> str:
    """The first paragraph."""
    paragraph = (docstring or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(".")


@dataclass(frozen=True)
class _ImportedName:
    """A name that another module defines."""

    module: str
    name: str

    def definition(self) -> _Definition | None:
        member = _top_level(self.module).get(self.name)
        return member.definition() if isinstance(member, _ImportedName) else member


_Definition = ast.ClassDef | ast.expr | _ImportedName


@functools.cache
def _top_level(module: str) -> dict[str, _Definition]:
    """A module's classes, constants and imports by name; empty if its source is not found."""
    spec = _find(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return {}
    definitions: dict[str, _Definition] = {}
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(source), names=names, level=0):
                definitions.update(
                    (n.asname or n.name, _ImportedName(source, n.name)) for n in names
                )
            case ast.ClassDef(name=name):
                definitions[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                definitions[name] = value
    return definitions


def _lineage(
    node: ast.ClassDef, known: Mapping[str, _Definition]
) -> Iterator[tuple[ast.ClassDef, Mapping[str, _Definition]]]:
    """The base classes of a class and the class, each with the definitions of its module."""
    for base in node.bases:
        cls, names = known.get(base.id) if isinstance(base, ast.Name) else None, known
        if isinstance(cls, _ImportedName):
            cls, names = cls.definition(), _top_level(cls.module)
        if isinstance(cls, ast.ClassDef):
            yield from _lineage(cls, names)
    yield node, known


def _fields(
    node: ast.ClassDef, known: Mapping[str, _Definition]
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Name, kind and default of each option that a class defines itself."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if "ClassVar" not in ast.unparse(item.annotation):
                name = item.target.id.rstrip("_").replace("_", "-")
                yield name, (_kind(item.annotation, known), _default(item.value, known))


def _kind(node: ast.expr, known: Mapping[str, _Definition]) -> str:
    """A type in words, as :class:`~jaxmlir.passes.base.Option` writes it."""
    match node:
        case ast.Constant(value=None):
            return "none"
        case ast.Constant(value=str(text)):
            return _kind(ast.parse(text, mode="eval").body, known)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_kind(left, known)}|{_kind(right, known)}"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[first, _])):
            return f"{_kind(first, known)},..."
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=choices)):
            return "|".join(format_value(ast.literal_eval(choice)) for choice in choices)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
            return _kind(first, known)
        case ast.Name():
            expression = _named(node, known)
            return ast.unparse(node) if expression is None else _kind(expression, {})
    return ast.unparse(node)


def _default(node: ast.expr | None, known: Mapping[str, _Definition]) -> str | None:
    if node is None:
        return None
    expression = _named(node, known)
    if expression is not None:
        return _default(expression, {})
    try:
        return format_value(ast.literal_eval(node))
    except ValueError:
        return ast.unparse(node)


def _named(node: ast.expr, known: Mapping[str, _Definition]) -> ast.expr | None:
    """The expression assigned to a name; ``None`` for classes and other expressions."""
    definition = known.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(definition, _ImportedName):
        definition = definition.definition()
    return definition if isinstance(definition, ast.expr) else None


_SECTION = re.compile(r"^Options:\n(?P<body>(?:[ ].*\n?|\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^  (?P<name>[\w-]+): (?P<text>.*(?:\n   .*)*)", re.MULTILINE)


def _options(
    fields: Mapping[str, tuple[str, str | None]], docs: Sequence[str]
) -> Iterator[OptionText]:
    helps: dict[str, str] = {}
    for section in filter(None, map(_SECTION.search, docs)):
        for entry in _ENTRY.finditer(section["body"]):
            text = " ".join(entry["text"].split()).rstrip(".")
            helps[entry["name"].replace("_", "-")] = text
    for name, (kind, default) in fields.items():
        yield OptionText(name, kind, default, helps.get(name, ""))
