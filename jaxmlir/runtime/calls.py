"""Objects that are called as fast as what they call."""

from __future__ import annotations

import operator
from typing import Any


class Calls(property):
    """A ``__call__`` that is an attribute's.

    Python calls the attribute itself, without a frame of ours in between: that would be a tenth of
    what it costs to dispatch a compiled function.
    """

    def __init__(self, attribute: str, doc: str | None = None):
        super().__init__(operator.attrgetter(attribute))
        self.__doc__ = doc

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What the method of a class is called as."""
        return self.__get__(instance)(*args, **kwargs)
