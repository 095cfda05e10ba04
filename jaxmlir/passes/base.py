"""The base of passes: a frozen dataclass whose fields are its command-line options.

A pass ``jaxpr-foo`` is one small file with one class::

    class Foo(Pass):
        '''One line, shown by --list-passes.

        Then the algorithm, in prose.
        '''

        name: ClassVar[str] = "jaxpr-foo"
        max_depth: int = 3

        def run(self, program): ...

Its text form is ``jaxpr-foo{max-depth=3}``: the field ``max_depth`` is the option ``max-depth``.
Defining the class is all the registration that ``--load`` needs.  The class becomes a dataclass on
first use: most processes use the algorithms of a few passes, and none of their options.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import math
import re
import sys
import threading
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union

from jaxmlir.errors import PassError, PipelineError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from jaxmlir.dialect.module import Module

# Options that count or measure something, and so cannot be negative.
_NOT_NEGATIVE = "at least 0"
Count = Annotated[int, _NOT_NEGATIVE]
Amount = Annotated[float, _NOT_NEGATIVE]

_TRUE = ("true", "1")
_FALSE = ("false", "0")


@typing.dataclass_transform(frozen_default=True)
class Pass:
    """Base of all passes. ``run`` changes ``program.module`` in place.

    ``program.target`` is the target that the program is compiled for.
    """

    name: ClassVar[str]
    is_cxx: ClassVar[bool] = False

    compilers: ClassVar[tuple[str, ...]] = ()
    """The platforms that the pass is for; it is skipped on others. Empty: all platforms."""

    partitioned: ClassVar[bool] = True
    """Whether the pass is also for programs that the compiler partitions over several devices.  It
    is not if it splits an array along a dimension that may be sharded."""

    loaded: ClassVar[dict[str, type[Pass]]] = {}
    """Every pass class defined so far, by name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            return
        if not re.fullmatch(r"[A-Za-z_][\w.-]*", cls.name):
            raise PipelineError(
                f"a pass cannot be named '{cls.name}': expected a letter or '_', then letters, "
                "digits, '_', '.' and '-'"
            )
        # dataclass(slots=True) creates the class again, under the same qualified name.
        first, this = Pass.loaded.get(cls.name, cls), f"{cls.__module__}.{cls.__qualname__}"
        other = f"{first.__module__}.{first.__qualname__}"
        if not cls.__module__.startswith("jaxmlir."):
            from jaxmlir.passes import cxx

            if cxx.exists(cls.name):
                other = f"{cls.name} of MLIR, StableHLO or Shardy"
        if other != this:
            raise PipelineError(
                f"two passes are named '{cls.name}': {other} and {this}; rename one of them"
            )
        Pass.loaded[cls.name] = cls

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        cls._become_dataclass()
        return super().__new__(cls)

    @classmethod
    def _become_dataclass(cls) -> None:
        with _becoming_dataclass:
            for part in reversed(cls.__mro__[: cls.__mro__.index(Pass)]):
                if issubclass(part, Pass) and "__dataclass_fields__" not in part.__dict__:
                    try:
                        dataclasses.dataclass(frozen=True)(part)
                    except (TypeError, ValueError) as e:
                        raise PipelineError(f"the options of pass '{cls.name}': {e}") from e

    def run(self, program: Module) -> bool | None:
        """Changes the program in place, within the context of the process.

        Returns:
          ``False`` if no op has changed: then cached analyses of the program are kept.
        """
        raise PassError(f"pass '{self.name}' does not define run(program)")

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by their kebab-case name."""
        return _options_of(cls)

    @classmethod
    def with_defaults(cls) -> Self:
        """The pass with its default options.  These are attributes of the class, which does not
        become a dataclass for this."""
        return object.__new__(cls)

    @classmethod
    def from_options(cls, texts: Mapping[str, str]) -> Pass:
        """Makes the pass from the option texts of a pipeline: ``{"in-axes": "0,none"}``.

        Raises:
          PipelineError: an option is unknown, missing, or its text is not of its type.
        """
        if not texts:
            with contextlib.suppress(TypeError):
                return cls()
        options = cls.options()
        for name in texts:
            if name not in options:
                raise PipelineError(
                    f"pass '{cls.name}' has no option '{name}'; " + describe_options(options)
                )
        for name, option in options.items():
            if option.required and name not in texts:
                raise PipelineError(f"pass '{cls.name}' needs the option '{name}' ({option.kind})")
        values = {options[n].field.name: options[n].parse(t, cls.name) for n, t in texts.items()}
        return cls(**values)

    def __str__(self) -> str:
        """The pass as a pipeline spells it; options at their default are left out."""
        shown = [
            f"{name}={format_value(value)}"
            for name, option in self.options().items()
            if (value := getattr(self, option.field.name)) != option.field.default
        ]
        return f"{self.name}{{{' '.join(shown)}}}" if shown else self.name


# A class that another thread is turning into a dataclass must not be used meanwhile.
_becoming_dataclass = threading.RLock()


@functools.cache
def _options_of(cls: type[Pass]) -> dict[str, Option]:
    cls._become_dataclass()
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        (option := Option(field, hints[field.name])).name: option
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
    }


class Option(NamedTuple):
    """One option of a pass: a dataclass field and its type."""

    field: dataclasses.Field[Any]
    type: Any

    @property
    def name(self) -> str:
        # A field named like a Python keyword ends in an underscore: ``while_``.
        return self.field.name.rstrip("_").replace("_", "-")

    @property
    def required(self) -> bool:
        return (
            self.field.default is dataclasses.MISSING
            and self.field.default_factory is dataclasses.MISSING
        )

    @property
    def kind(self) -> str:
        """The type in words, for help and errors."""
        return _kind(self.type)

    def parse(self, text: str, pass_name: str) -> Any:
        try:
            return _parse(text, self.type)
        except ValueError:
            limits = getattr(self.type, "__metadata__", ())
            raise PipelineError(
                f"option '{self.name}' of pass '{pass_name}' expects "
                f"{', '.join([self.kind, *limits])}, got '{text}'"
            ) from None

    def __str__(self) -> str:
        default = "required" if self.required else f"default {format_value(self.field.default)}"
        return f"{self.name}=<{self.kind}> ({default})"


def describe_options(options: Mapping[str, Option]) -> str:
    if not options:
        return "it has no options"
    return "its options are: " + ", ".join(str(option) for option in options.values())


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (Union, types.UnionType)


def _parse(text: str, kind: Any) -> Any:
    """Parses a value of type ``kind``; raises ValueError for other texts."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        value = _parse(text, args[0])
        if _NOT_NEGATIVE in args and value < 0:
            raise ValueError(text)
        return value
    if origin is Literal:
        for choice in args:
            if text == format_value(choice):
                return choice
        raise ValueError(text)
    if _is_union(kind):
        if text == "none" and type(None) in args:
            return None
        for member in args:
            if member is not type(None):
                return _parse(text, member)
    if origin is tuple:
        return tuple(_parse(part, args[0]) for part in text.split(",")) if text else ()
    if kind not in (bool, int, float, str):
        raise PipelineError(f"an option of a pass cannot be of type {_kind(kind)}")
    return _parse_scalar(text, kind)


def _parse_scalar(text: str, kind: type[bool | int | float | str]) -> Any:
    if kind is bool and text not in _TRUE + _FALSE:
        raise ValueError(text)
    value = text in _TRUE if kind is bool else kind(text)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(text)
    return value


def format_value(value: Any) -> str:
    """The value of an option as a pipeline spells it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(format_value, value))
    if isinstance(value, str) and (not value or any(c in value for c in " {}'")):
        return "'" + value + "'"
    return str(value)


def _kind(kind: Any) -> str:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _kind(args[0])
    if origin is Literal:
        return "|".join(map(format_value, args))
    if _is_union(kind):
        return "|".join("none" if a is type(None) else _kind(a) for a in args)
    if origin is tuple:
        return f"{_kind(args[0])},..."
    return kind.__name__


ENTRY_POINT_GROUP = "jaxmlir.passes"


def find_class(name: str, builtin: tuple[tuple[str, str], ...]) -> type[Pass] | None:
    """The class of a pass that is written in Python; ``None`` if there is none.

    Raises:
      PipelineError: an installed package offers the pass, but it cannot be imported.
    """
    target = _by_name(builtin).get(name)
    if target is not None:
        # Imported even if the class is loaded: another thread may still be executing the module,
        # and the import waits for that.
        return _import(name, target)
    if name in Pass.loaded:
        return Pass.loaded[name]
    for plugin in plugins():
        if plugin.name == name:
            return _import(name, plugin.value)
    return None


@functools.cache
def _by_name(builtin: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(builtin)


def plugins() -> tuple[EntryPoint, ...]:
    """The passes that installed packages offer: ``[project.entry-points."jaxmlir.passes"]``."""
    return _plugins_on(tuple(sys.path))


@functools.cache
def _plugins_on(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of the packages on a path; reading them takes milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _import(name: str, target: str) -> type[Pass]:
    module, _, attribute = target.partition(":")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except PipelineError:
        raise
    except Exception as e:
        raise PipelineError(
            f"pass '{name}' is registered as {target}, which cannot be imported: "
            f"{type(e).__name__}: {e}"
        ) from e
    if cls.name != name:
        raise PipelineError(f"{target} is registered as pass '{name}' but is named '{cls.name}'")
    return cls
