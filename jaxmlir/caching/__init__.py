"""What is kept for later calls and later processes, and the keys under which it is kept."""

from __future__ import annotations

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
