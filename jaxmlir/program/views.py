"""Views of a program: its ``repr``, a page to explore it, and Graphviz text."""

from __future__ import annotations

import os
from pathlib import Path

from jaxmlir.dialect.module import Module
from jaxmlir.errors import JaxmlirError
from jaxmlir.program.arguments import short_types


class Views(Module):
    """The methods of :class:`Program` that show it to people."""

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            name = self.name
        except JaxmlirError:
            return "<Program without a public function>"
        return f"<Program @{name}({short_types(self.in_avals)}) -> ({short_types(self.out_avals)})>"

    def explore(
        self, path: str | os.PathLike[str], *, passes: str | None = None, source_info: bool = True
    ) -> None:
        """Writes a page to explore the program in a browser: one HTML file that needs no network.

        It shows the calls, each function as text and as a graph, the costs of ops, and the memory
        in use over time.  With ``passes``, it also shows the program before and after each pass.

        Args:
          path: the path of the file to write.
          passes: a pipeline, or a level such as ``"-O2"``, that is run on a copy of the program.
          source_info: show the Python files and lines that ops come from, with the text of these
            lines if this machine has the files; no other line of a file gets into the page.

        Raises:
          PipelineError: there is no such pipeline or level.
          PassError: a pass failed.
          OSError: the file cannot be written.
        """
        from jaxmlir.viewer.page import page_of

        Path(path).write_text(page_of(self, passes, source_info=source_info), encoding="utf-8")

    def to_dot(self) -> str:
        """The program in the language of Graphviz: a cluster for each function, a node for each op.

        Nodes show the names and types of ops.  Edges are values; dashed edges lead from an op to a
        function that it refers to.
        """
        from jaxmlir.viewer.dot import dot_of

        return dot_of(self)

    def _repr_html_(self) -> str | None:
        """The page of :meth:`explore` as a notebook shows it, in a frame.  ``None`` for a program
        with more than 5,000 ops, and for one that cannot be shown; notebooks then show the
        ``repr``."""
        from jaxmlir.viewer.page import frame_of

        try:
            return frame_of(self)
        except JaxmlirError:
            return None
