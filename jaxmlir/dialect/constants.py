"""The arrays that a module names instead of holding them: a program's side table.

An array of an artifact stays in its file, which is mapped into memory; it is looked at when it is
first used, and only then is it known whether its bytes are those that were saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple


class Unread(NamedTuple):
    """An array that nobody has looked at.

    Attributes:
      read: checks the bytes and returns the array.
      shape, dtype: the array's.
    """

    read: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: Any


class Constants(MutableMapping[str, Any]):
    """Arrays by the name that ``jaxpr.constant`` ops give them."""

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()):
        self._values: dict[str, Any] = (
            values._values.copy() if isinstance(values, Constants) else dict(values)
        )

    def __getitem__(self, name: str) -> Any:
        """The array.

        Raises:
          ArtifactError: its bytes in an artifact are not those that were saved.
        """
        value = self._values[name]
        if isinstance(value, Unread):
            value = self._values[name] = value.read()
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Constants({', '.join(self)})"

    def unread(self, name: str) -> Any:
        """The array, or what stands for one that nobody has looked at; ``None`` without either."""
        return self._values.get(name)
