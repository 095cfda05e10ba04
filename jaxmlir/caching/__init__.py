"""Caches for later calls and later processes, and their keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
