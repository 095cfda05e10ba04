"""Caches for later calls and later processes, and their keys.

What JAX's rules write and find valid depends on its configuration, and, since rules use each other,
on whichever are registered: both are a part of every key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jaxmlir._compat import config
from jaxmlir.dialect import primitives
from jaxmlir.support.files import directory

if TYPE_CHECKING:
    from jaxmlir.caching.rule_cache import RuleCache


def disk_cache() -> RuleCache | None:
    """The cache on disk for the present configuration; ``None`` where nothing is to be kept, and
    then its module is not imported."""
    if not directory():
        return None
    from jaxmlir.caching.rule_cache import current

    return current()


def is_of_process(code: bytes) -> bool:
    """Whether bytecode of the dialect names objects of this process, or types that may be named
    after such."""
    return re.search(rb"!jaxpr\.|handle|Device", code) is not None


_configurations: dict[Any, object] = {}
_settings: dict[Any, object] = {}
_kept: list[dict[Any, Any]] = []


def configuration() -> object:
    """An object for each configuration, which is long to compare: for what depends on no rules."""
    return _configurations.setdefault(config.trace_context(), object())


def setting() -> object:
    """An object for each configuration; others when a primitive is given another rule than it
    had."""
    _rules.look()
    return _settings.setdefault(config.trace_context(), object())


def kept_for_settings() -> dict[Any, Any]:
    """A table of which the keys have a setting in them.  It is emptied when there are others."""
    _kept.append({})
    return _kept[-1]


class _RuleWatcher:
    """The transformation rules that are registered with JAX."""

    def __init__(self) -> None:
        self._tables = primitives.transformations()
        self._rules = [list(table.values()) for table in self._tables]
        self._by_primitive = [dict(table) for table in self._tables]

    def look(self) -> None:
        """Drops the settings if a primitive that had rules has others, or more."""
        # In lists, the same objects are equal: this is soon known.
        rules = [list(table.values()) for table in self._tables]
        if rules == self._rules:
            return
        before, now = self._by_primitive, [dict(table) for table in self._tables]
        self._rules, self._by_primitive = rules, now
        # Not if there are only more primitives: modules that are imported late bring some.
        met = set().union(*before)
        pairs = list(zip(before, now, strict=True))
        if any(old.get(p) is not new.get(p) for p in met for old, new in pairs):
            _settings.clear()
            for table in _kept:
                table.clear()


_rules = _RuleWatcher()
