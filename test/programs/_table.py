"""The table of programs, which every module of this package fills."""

from collections.abc import Callable
from typing import Any

Program = tuple[Callable[..., Any], tuple[Any, ...]]

PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """Puts a factory into PROGRAMS, under its own name."""
    if make.__name__ in PROGRAMS:
        raise ValueError(f"there is already a program {make.__name__!r}")
    PROGRAMS[make.__name__] = make
    return make
