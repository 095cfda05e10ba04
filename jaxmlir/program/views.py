"""How a program is looked at: its ``repr``, a page to explore it, and Graphviz text."""

from __future__ import annotations

import os
from pathlib import Path

from jaxmlir.dialect.module import Module
from jaxmlir.errors import JaxmlirError
from jaxmlir.program.arguments import short_types


class Views(Module):
    """How a program is looked at: the methods of :class:`Program` for people."""

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

        It has the calls, each function as text and as a graph, what ops cost and how much memory is
        in use when.  With ``passes`` it has the program before and after each of them as well.

        Args:
          path: of the file to write.
          passes: a pipeline, or a level such as ``"-O2"``, that is run on a copy of the program.
          source_info: show which Python files and lines ops come from, with the text of these lines
            as far as this machine has the files; no other line of a file is read into the page.

        Raises:
          PipelineError: there is no such pipeline or level.
          PassError: a pass failed.
          OSError: the file cannot be written.
        """
        from jaxmlir.viewer.page import page_of

        Path(path).write_text(page_of(self, passes, source_info=source_info), encoding="utf-8")

    def to_dot(self) -> str:
        """The program in the language of Graphviz: a cluster for each function, a node for each op.

        Nodes have the names and types of ops.  Edges are values; dashed ones lead from an op to a
        function that it refers to.
        """
        from jaxmlir.viewer.dot import dot_of

        return dot_of(self)

    def _repr_html_(self) -> str | None:
        """The page of :meth:`explore` as a notebook shows it, in a frame.

        ``None``, for which notebooks show the ``repr``, of a program of more than 5,000 ops, and of
        one that cannot be looked at.
        """
        from jaxmlir.viewer.page import frame_of

        try:
            return frame_of(self)
        except JaxmlirError:
            return None
