"""Caches for later calls and later processes, and their keys.

The output of JAX's rules and type checks depends on JAX's configuration and, because rules use each
other, on all registered rules.  Both are part of every key.
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
    """The cache on disk for the present configuration.  ``None`` without a cache directory, in
    which case its module is not imported, or if the configuration cannot be cached."""
    if not directory():
        return None
    from jaxmlir.caching.rule_cache import current

    return current()


def is_of_process(code: bytes) -> bool:
    """Whether bytecode of the dialect refers to objects of this process, or to types whose names
    may contain such objects."""
    return re.search(rb"!jaxpr\.|handle|Device", code) is not None


_configurations: dict[Any, object] = {}
_settings: dict[Any, object] = {}
_kept: list[dict[Any, Any]] = []


def configuration() -> object:
    """An object for each configuration, for values that depend on no rules.  Comparing objects is
    faster than comparing configurations."""
    return _configurations.setdefault(config.trace_context(), object())


def setting() -> object:
    """An object for each configuration; a new one after the rule of a primitive was replaced."""
    _rules.look()
    return _settings.setdefault(config.trace_context(), object())


def kept_for_settings() -> dict[Any, Any]:
    """A table whose keys contain a setting.  It is emptied when settings are replaced."""
    _kept.append({})
    return _kept[-1]


class _RuleWatcher:
    """The transformation rules that are registered with JAX."""

    def __init__(self) -> None:
        self._tables = primitives.transformations()
        self._rules = [list(table.values()) for table in self._tables]
        self._by_primitive = [dict(table) for table in self._tables]

    def look(self) -> None:
        """Drops the settings if the rules of a primitive have changed or increased."""
        # Comparing lists is fast: identical elements count as equal.
        rules = [list(table.values()) for table in self._tables]
        if rules == self._rules:
            return
        before, now = self._by_primitive, [dict(table) for table in self._tables]
        self._rules, self._by_primitive = rules, now
        # New primitives alone do not count: modules that are imported late add some.
        met = set().union(*before)
        pairs = list(zip(before, now, strict=True))
        if any(old.get(p) is not new.get(p) for p in met for old, new in pairs):
            _settings.clear()
            for table in _kept:
                table.clear()


_rules = _RuleWatcher()
