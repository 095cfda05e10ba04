"""Finding a pass by its name: built in, loaded, or from an installed package's entry points."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING

from jaxmlir.errors import PipelineError
from jaxmlir.passes.base import Pass

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "jaxmlir.passes"


def find(name: str, builtin: tuple[tuple[str, str], ...]) -> type[Pass] | None:
    """The class of a pass that is written in Python, or None.

    Raises:
      PipelineError: an installed package offers the pass, but it cannot be imported.
    """
    target = _by_name(builtin).get(name)
    if target is not None:
        # Though it may be loaded: another thread may not have come to the end of its module, and an
        # import waits for that.
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
    """Those of the packages on a path, each of which has to be read: that takes milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _import(name: str, target: str) -> type[Pass]:
    module, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as e:
        raise PipelineError(
            f"pass '{name}' is said to be {target}, which cannot be imported: "
            f"{type(e).__name__}: {e}"
        ) from e
    if found.name != name:
        raise PipelineError(f"{target} is registered as pass '{name}' but is named '{found.name}'")
    return found
