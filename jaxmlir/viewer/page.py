"""The page to explore a program: one HTML file that needs nothing but a browser.

Its data is compressed JSON in Base64, so nothing in a program can be read as HTML; its scripts
insert what they read as text only. Each part of the data is unpacked when it is first shown.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.errors import Diagnostic
from jaxmlir.passes import level_pipeline, parse_pipeline
from jaxmlir.passes.instrument import Instrumentation
from jaxmlir.passes.remarks import heard_by
from jaxmlir.support.lazy import collector_paused
from jaxmlir.viewer.form import Tables, form_of, text_of

if TYPE_CHECKING:
    from jaxmlir.passes.pipeline import Pipeline


@dataclass
class PassStage:
    """A pass that ran.

    Attributes:
      name: the name in pipelines; empty for the program before all passes.
      ops: the number of ops after the pass.
      functions: for each function after the pass, the stage that has its text, and the index there;
        ``None`` if the pass changed nothing.
      texts: the functions that the pass changed.
      remarks: the remarks of the pass, each with its position and its op: the function and the
        index before the pass, or ``None``, 0 if the pass made the op.
    """

    name: str
    ops: int = 0
    seconds: float = 0.0
    functions: dict[str, tuple[int, int]] | None = None
    texts: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[tuple[str, int, str | None, int]] = field(default_factory=list)

    def written(self) -> dict[str, Any]:
        """The stage as data for JSON, without the texts."""
        return {
            "name": self.name,
            "ops": self.ops,
            "seconds": round(self.seconds, 4),
            "functions": self.functions,
            "remarks": self.remarks,
        }


@dataclass(frozen=True)
class _PassRecorder(Instrumentation):
    """Records the program after each pass, and the remarks of the pass."""

    program: Module = None  # type: ignore[assignment]
    tables: Tables = field(default_factory=Tables)
    stages: list[PassStage] = field(default_factory=list)
    ops: dict[Any, tuple[str | None, int]] = field(default_factory=dict)
    """The places of ops before the running pass, by the marks of :func:`_marks`."""

    @property
    def observes(self) -> bool:
        return True

    @contextlib.contextmanager
    def listen(self, name: str, program: Module) -> Iterator[None]:
        stage = PassStage(name, self.stages[-1].ops)
        self.stages.append(stage)

        def take(said: Diagnostic, op: Any) -> None:
            stage.remarks.append((*self.tables.remark(said), *self.where(op)))

        start, state = time.perf_counter(), self.program.state
        with heard_by(take, name):
            yield
        stage.seconds = time.perf_counter() - start
        if self.program.state is not state:
            self.look(stage)

    def where(self, op: Any | None) -> tuple[str | None, int]:
        """The place of an op in the text before the pass.  For an op that the pass has rewritten,
        it is that of the first op of its name and line."""
        if op is None:
            return None, 0
        places = (self.ops[mark] for mark in _marks(op, op.operation.name) if mark in self.ops)
        return next(places, (None, 0))

    def look(self, stage: PassStage) -> None:
        """Records which functions have changed."""
        number = self.stages.index(stage)
        before = next((s.functions for s in reversed(self.stages) if s.functions), {})
        functions: dict[str, tuple[int, int]] = {}
        for symbol, function in self.program.functions.items():
            text = text_of(function, self.tables)
            version = before.get(symbol)
            if (
                version is None
                or self.stages[version[0]].texts[version[1]]["lines"] != text["lines"]
            ):
                version = number, len(stage.texts)
                stage.texts.append(text)
            functions[symbol] = version
        ops = analyses_of(self.program).graph.ops
        self.ops.clear()
        for symbol, listed in ops.items():
            for index, (op, name) in enumerate(listed):
                for mark in _marks(op, name):
                    self.ops.setdefault(mark, (symbol, index))
        stage.ops = sum(map(len, ops.values()))
        if functions != before:
            stage.functions = functions


def _marks(op: Any, name: str) -> Iterator[tuple[Any, ...]]:
    """What identifies an op: its results, which stay when operands change, or else its location.
    The hash of an op itself changes with its operands."""
    for result in op.results:
        yield name, result
    yield name, op.location.attr


def pipeline_of(passes: str) -> Pipeline:
    """The pipeline that a text describes, which may be a level: ``"-O2"``."""
    level = re.fullmatch(r"\s*-?O(\d+)\s*", passes) if isinstance(passes, str) else None
    if level is None:
        return parse_pipeline(passes)
    return parse_pipeline(level_pipeline(int(level[1]))).as_level()


def run(program: Module, passes: str, tables: Tables) -> list[PassStage]:
    """Runs a pipeline on a program in place; returns the stages, with one before all passes."""
    recorder = _PassRecorder(program=program, tables=tables, stages=[PassStage("")])
    pipeline = pipeline_of(passes)
    with scope():
        recorder.look(recorder.stages[0])
    pipeline.run(program, recorder)
    return recorder.stages


SCRIPTS = tuple(
    f"{name}.js"
    for name in "dagre.min myers.min data rows code graph passes memory source app".split()
)

MOST_OPS = 5000
"""Notebooks show no larger programs, since they keep the pages that they show."""


@collector_paused
def page_of(program: Module, passes: str | None = None, *, source_info: bool = True) -> str:
    """The page of a program, as text.

    Args:
      passes: a pipeline, or a level such as ``"-O2"``, to run on a copy of the program: the page
        shows the program before and after it, and what each pass did.
      source_info: show the Python files and lines that ops come from, with their text if this
        machine has the files. No other line of a file gets into the page.

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
        stages = run(after, passes, tables)
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
    """The text of one of the page's files."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
