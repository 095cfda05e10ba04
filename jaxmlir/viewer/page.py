"""The page on which a program is explored: one HTML file that needs nothing but a browser.

Its data are JSON, compressed and in Base64, so nothing that a program says can be read as HTML;
its scripts write what they read as text only.  A part of the data is unpacked when it is looked at.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import zlib
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.support.lazy import collector_paused
from jaxmlir.viewer import history
from jaxmlir.viewer.form import form_of
from jaxmlir.viewer.tables import Tables

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

SCRIPTS = (
    "dagre.min.js",
    "myers.min.js",
    "data.js",
    "rows.js",
    "code.js",
    "graph.js",
    "passes.js",
    "memory.js",
    "source.js",
    "app.js",
)

MOST_OPS = 5000
"""A notebook, which keeps the pages that it shows, shows none of programs of more ops."""


@collector_paused
def page_of(program: Module, passes: str | None = None, *, source_info: bool = True) -> str:
    """The page of a program, as text.

    Args:
      passes: a pipeline, or a level such as ``"-O2"``, to be run on a copy of the program: the page
        shows the program before and after it, and what each pass did.
      source_info: show which Python files and lines ops come from, and these lines, as far as this
        machine has the files.  No other line of a file is read into the page.

    Raises:
      PipelineError: there is no such pipeline.
      PassError: a pass failed.
    """
    tables = Tables(source_info)
    parts = {"form-0": form_of(program, tables)}
    about: dict[str, Any] = {"name": program.name, "forms": ["as given"], "stages": []}
    if passes is not None:
        after = program.clone()
        after.target = program.target
        stages = history.run(after, passes, tables)
        about["forms"] = ["before", f"after {passes.strip()}"]
        about["stages"] = [stage.written() for stage in stages]
        parts["form-1"] = form_of(after, tables)
        parts |= {f"stage-{i}": stage.texts for i, stage in enumerate(stages) if stage.texts}
    about |= tables.written()
    about["arguments"] = program.arg_names
    return _written({"about": about, **parts}, program.name)


def frame_of(program: Module) -> str | None:
    """The page of a program in a frame, for a notebook; ``None`` if it has too many ops."""
    if sum(map(len, analyses_of(program).graph.ops.values())) > MOST_OPS:
        return None
    page = html.escape(page_of(program))
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" loading="lazy" '
        f'title="{html.escape(repr(program))}" '
        'style="width:100%;height:480px;border:1px solid #8884;border-radius:6px"></iframe>'
    )


def _written(parts: dict[str, Any], name: str) -> str:
    scripts = [f"<script>\n{asset(file)}\n</script>" for file in SCRIPTS]
    data = [
        f'<script type="text/plain" id="{key}">{_packed(part)}</script>'
        for key, part in parts.items()
    ]
    return Template(asset("page.html")).substitute(
        title=html.escape(f"@{name}"),
        style=asset("viewer.css"),
        data="\n".join(data),
        scripts="\n".join(scripts),
    )


def _packed(part: Any) -> str:
    text = json.dumps(part, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


@functools.cache
def asset(name: str) -> str:
    """A file of the page."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
