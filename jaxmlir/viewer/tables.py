"""Tables of what a page says again and again: types, positions in source files, places of ops."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from jaxmlir.analysis.op_counts import aval_if_any
from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import frames, ir
from jaxmlir.errors import Diagnostic
from jaxmlir.support.files import source_line

MAX_WIDTH = 2000
"""Lines of a page are cut after so many characters: constants and pytrees may be long."""
MAX_FRAMES = 8
"""How many frames of the user's stack a place has."""


Row = TypeVar("Row", bound=Hashable)


class Table(Generic[Row]):
    """The distinct rows that were asked for, in order."""

    def __init__(self) -> None:
        self._numbers: dict[Row, int] = {}

    def number(self, row: Row) -> int:
        """The index of a row, which is added if it is new."""
        return self._numbers.setdefault(row, len(self._numbers))

    @property
    def rows(self) -> list[Row]:
        return list(self._numbers)


class Tables:
    """The tables of one page.

    Attributes:
      files: names of source files.
      positions: ``(file, line, column)``, files by index; the first is that of what has none.
      places: ``(name stack, positions of the user's frames, innermost first)``.
      types: types as JAX abbreviates them: ``f32[8,16]``.

    Args:
      source_info: whether the page may say which Python files and lines ops come from.
    """

    def __init__(self, source_info: bool = True):
        self.source_info = source_info
        self.files: Table[str] = Table()
        self.positions: Table[tuple[int, int, int]] = Table()
        self.places: Table[tuple[str, tuple[int, ...]]] = Table()
        self.types: Table[str] = Table()
        self.position("", 0, 0)
        self.places.number(("", ()))
        self._of_locations: dict[Any, int] = {}
        self._of_types: dict[ir.Type, int] = {}

    def type(self, type_: ir.Type) -> int:
        """The index of a type, as JAX abbreviates it."""
        found = self._of_types.get(type_)
        if found is None:
            aval = aval_if_any(type_)
            short = getattr(aval, "str_short", None)
            text = str(type_) if short is None else short(short_dtypes=True)
            found = self._of_types[type_] = self.types.number(text)
        return found

    def position(self, file: str, line: int, column: int) -> int:
        """The index of a position; of none, where the page is not to say any."""
        if not self.source_info:
            file, line, column = "", 0, 0
        return self.positions.number((self.files.number(file), line, column))

    def place(self, location: ir.Location) -> int:
        """The index of an op's place: the user's frames, or JAX's where there are no others."""
        key = location.attr
        found = self._of_locations.get(key)
        if found is None:
            found = 0
            if self.source_info:
                stack, _ = locations.split(location)
                every = frames(location)
                own = [f for f in every if not locations.is_of_jax(f[0])] or every[:1]
                where = tuple([self.position(*frame) for frame in own[:MAX_FRAMES]])
                found = self.places.number((stack, where))
            self._of_locations[key] = found
        return found

    def remark(self, said: Diagnostic) -> tuple[str, int]:
        """What a pass said, without its name, and the position it said it of."""
        message = said.message.partition("] ")[2] or said.message
        return message, self.position(said.file, said.line, said.col)

    def source(self) -> list[dict[int, str]]:
        """The lines of each source file that positions name, as far as they can be read."""
        files = self.files.rows
        found: list[dict[int, str]] = [{} for _ in files]
        for file, line, _ in self.positions.rows:
            text = source_line(files[file], line)
            if text:
                found[file][line] = text[:MAX_WIDTH]
        return found

    def written(self) -> dict[str, Any]:
        """The tables, to be written as JSON."""
        return {
            "files": self.files.rows,
            "positions": self.positions.rows,
            "places": self.places.rows,
            "types": self.types.rows,
            "source": self.source(),
        }
