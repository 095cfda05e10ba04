"""Python's cyclic garbage collector, put off while much is built that stays.

The collector runs after so many allocations, and looks at everything that lives: with JAX imported
that is over 100,000 objects and takes 50 ms, several times while a program is loaded,
differentiated or lowered, without finding anything.  What these allocate lives on or is freed by
its reference count; cycles wait for the first collection after.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def collector_paused(function: Callable[P, R]) -> Callable[P, R]:
    """Has a function run without collections, unless the process does without them anyway."""

    @functools.wraps(function)
    def paused(*args: P.args, **kwargs: P.kwargs) -> R:
        # Threads that overlap are safe: the first to finish turns collections on again, for all.
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            gc.enable()

    return paused
