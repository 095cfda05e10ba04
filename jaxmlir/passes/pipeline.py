"""Pipelines: MLIR's textual form, parsed here because MLIR's own parser knows C++ passes only.

    pipeline ::= element (`,` element)*
    element  ::= pass-name (`{` options `}`)?  |  op-name `(` pipeline `)`

``builtin.module(canonicalize, jaxpr-foo{max-depth=3}, func.func(cse))`` mixes passes of jaxmlir
with those of MLIR, StableHLO and Shardy; the outer ``builtin.module(...)`` may be left out.  A C++
pass that runs on functions only is nested in ``func.func(...)`` automatically, so that it can be
named wherever a module pass can.  Neighbouring C++ passes run as one PassManager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxlib.mlir import ir

from jaxmlir.dialect.ir import context, diagnostics_of, functions, scope
from jaxmlir.errors import TOO_DEEP, JaxmlirError, PassError, PipelineError
from jaxmlir.passes import cxx
from jaxmlir.passes.base import Pass
from jaxmlir.passes.instrument import Instrumentation
from jaxmlir.passes.levels import COMPILERS, LEVELS, NEEDED_OPS
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.support.lazy import collector_paused
from jaxmlir.support.progress import progress

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

_MODULE = "builtin.module"
_LATE = frozenset(name for level in LEVELS.values() for name in level)
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FLAG = re.compile(rf"--?({_NAME.pattern})")
_OPTION = re.compile(r"\s*([\w-]+)(?:=('[^']*'|\"[^\"]*\"|\{[^}]*\}|[^\s'\"{}]*))?(?=\s|$)")
# Modules nest a few ops deep.
_MAX_DEPTH = 64


class _PassElement(NamedTuple):
    name: str
    options: str
    column: int

    def __str__(self) -> str:
        return f"{self.name}{{{self.options}}}" if self.options else self.name


class _NestedPipeline(NamedTuple):
    anchor: str
    children: tuple[_PassElement | _NestedPipeline, ...]
    column: int

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.children))})"


class _PipelineParser:
    """Reads the grammar above; every error points at its column."""

    def __init__(self, text: str):
        self.text = text
        self.at = 0
        self.depth = 0

    def error(self, message: str, at: int | None = None) -> PipelineError:
        return pipeline_error(message, self.text, self.at if at is None else at)

    def skip(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def take(self, char: str) -> bool:
        self.skip()
        if self.text[self.at : self.at + 1] != char:
            return False
        self.at += 1
        return True

    def elements(self) -> tuple[_PassElement | _NestedPipeline, ...]:
        elements = [self.element()]
        while self.take(","):
            elements.append(self.element())
        return tuple(elements)

    def element(self) -> _PassElement | _NestedPipeline:
        self.skip()
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.error(f"expected the name of a pass or of an operation{self.hint()}")
        start, self.at = self.at, match.end()
        if self.take("("):
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise self.error(f"expected pipelines nested up to {_MAX_DEPTH} deep", start)
            children = () if self.text[self.at : self.at + 1] == ")" else self.elements()
            if not self.take(")"):
                raise self.error("expected ',' or ')'")
            self.depth -= 1
            return _NestedPipeline(match[0], children, start)
        options = self.braces() if self.take("{") else ""
        return _PassElement(match[0], options, start)

    def hint(self) -> str:
        """A hint what to write instead of a command-line flag."""
        flag = _FLAG.match(self.text, self.at)
        if flag is None:
            return ""
        if re.fullmatch(r"O\d", flag[1]):
            return f"; {_level_hint(flag[1][1])}"
        return f", without leading dashes: '{flag[1]}'"

    def braces(self) -> str:
        start, depth = self.at, 1
        while self.at < len(self.text):
            depth += {"{": 1, "}": -1}.get(self.text[self.at], 0)
            self.at += 1
            if depth == 0:
                return self.text[start : self.at - 1].strip()
        raise self.error("this '{' has no closing '}'", start - 1)


def _level_hint(level: str) -> str:
    passes = f"program.optimize({level}) runs the passes of level {level}"
    return f"{passes}, as does the flag -O{level} of jaxmlir-opt"


def pipeline_error(message: str, text: str, at: int) -> PipelineError:
    """An error formatted as by a compiler: position, message, the text and a caret."""
    line_start = text.rfind("\n", 0, at) + 1
    line = text[line_start:].partition("\n")[0]
    row, column = text.count("\n", 0, at) + 1, at - line_start
    return PipelineError(
        f"<pass-pipeline>:{row}:{column + 1}: error: {message}\n{line}\n{' ' * column}^"
    )


def parse_options(text: str) -> dict[str, str]:
    """The options of a pass: ``key=value`` separated by blanks, values may be quoted; else an
    error."""
    options: dict[str, str] = {}
    at = 0
    while at < len(text) and not text[at:].isspace():
        match = _OPTION.match(text, at)
        if match is None:
            raise PipelineError(f"expected key=value, got '{text[at:].strip()}'")
        value = "true" if match[2] is None else match[2]
        if value[:1] in ("'", '"', "{"):
            value = value[1:-1]
        if match[1] in options:
            raise PipelineError(f"option '{match[1]}' is given twice")
        options[match[1]] = value
        at = match.end()
    return options


class _CxxPass(NamedTuple):
    """One C++ pass with the anchors it is nested in, outermost first."""

    name: str
    element: str
    is_cxx = True

    def __str__(self) -> str:
        return self.element


class _LatePass(NamedTuple):
    """A pass of an optimization level with default options.  It is imported when a program for one
    of its platforms has an op that it needs.

    Attributes:
      is_named: somebody named the pass itself, not the level.
    """

    name: str
    find: Callable[[str], type[Pass] | None]
    is_named: bool = True
    is_cxx = False

    def __str__(self) -> str:
        return self.name

    def found(self) -> Pass:
        cls = self.find(self.name)
        assert cls is not None
        return cls.with_defaults()

    def is_due(self, program: Module, instrumentation: Instrumentation) -> bool:
        """Whether the pass may have something to do or to say, or is observed even if it has
        not."""
        if instrumentation.observes or (self.is_named and instrumentation.remarks is not None):
            return True
        platforms, needed = COMPILERS.get(self.name), NEEDED_OPS.get(self.name)
        if platforms is not None and program.target.platform not in platforms:
            return False
        return needed is None or not program.lacks(needed)


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order in which they run."""

    passes: tuple[Pass | _CxxPass | _LatePass, ...]

    def __str__(self) -> str:
        return f"{_MODULE}({','.join(map(str, self.passes))})"

    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.passes)

    @property
    def is_plain(self) -> bool:
        """Whether all passes are of the optimization levels, with default options."""
        return all(isinstance(p, _LatePass) for p in self.passes)

    def as_level(self) -> Pipeline:
        """The pipeline as that of a level, which has passes for all platforms: no remark lists the
        passes that are for other platforms."""
        late = (p._replace(is_named=False) if isinstance(p, _LatePass) else p for p in self.passes)
        return Pipeline(tuple(late))

    @collector_paused
    def run(self, program: Module, instrumentation: Instrumentation | None = None) -> None:
        """Runs the passes on ``program`` in place.

        Raises:
          PassError: a pass failed or crashed; the message names it.
          JaxmlirError: a pass raised it; a note names the pass.
        """
        instrumentation = instrumentation or Instrumentation()
        verified: object = None
        with context(), progress("running passes", len(self.passes)) as begin:
            for step in self.steps(instrumentation):
                for p in step:
                    begin(p.name)
                is_named = True
                if isinstance(step[0], _LatePass):
                    if not step[0].is_due(program, instrumentation):
                        continue
                    is_named = step[0].is_named
                    step = (step[0].found(),)
                if _is_for(step[0], program, instrumentation, is_named):
                    verified = _run_step(step, program, instrumentation, verified)

    def steps(self, instrumentation: Instrumentation) -> Iterable[tuple[Any, ...]]:
        """The passes in groups: unless observed, neighbouring C++ passes share a PassManager."""
        group: tuple[Any, ...] = ()
        for p in self.passes:
            together = isinstance(p, _CxxPass) and not instrumentation.observes
            if group and not (together and isinstance(group[-1], _CxxPass)):
                yield group
                group = ()
            group += (p,)
        if group:
            yield group


def _is_for(
    p: Pass | _CxxPass, program: Module, instrumentation: Instrumentation, is_named: bool
) -> bool:
    """Whether a pass is for the target of the program; a remark says why if it is not, unless the
    pass is one of a level, for another platform."""
    if not isinstance(p, Pass) or not (p.compilers or not p.partitioned):
        return True
    target = program.target
    if p.compilers and target.platform not in p.compilers:
        if not is_named:
            return False
        reason = f"the pass is for {', '.join(p.compilers)}"
    elif not p.partitioned and target.devices > 1:
        reason = "the pass is for one device"
    else:
        return True
    with instrumentation.listen(p.name, program):
        if remarks_wanted():
            function = next(iter(functions(program.module_as_is).values()), None)
            if function is not None:
                remark(function, f"skipped: {reason}, the target is {target}")
    return False


def _run_step(
    step: tuple[Pass | _CxxPass, ...],
    program: Module,
    instrumentation: Instrumentation,
    verified: object,
) -> object:
    """Runs a group of passes as one; takes and returns the program state that was verified last."""
    names = ", ".join(f"'{p.name}'" for p in step)
    where = f"while running pass{'es' if len(step) > 1 else ''} {names}"
    instrumentation.before(step[0].name, step[0], program.module)
    try:
        name = step[0].name
        with instrumentation.measure(name), instrumentation.listen(name, program):
            if not isinstance(step[0], Pass):
                _run_cxx(",".join(map(str, step)), program, instrumentation.verify_each)
                program.changed()
            elif run_pass(step[0], program):
                program.changed()
    except JaxmlirError as e:
        e.add_note(where)
        instrumentation.failed(step[0].name, program.module)
        raise
    if instrumentation.verify_each and program.state is not verified:
        with instrumentation.measure("verifier"):
            _verify(program, where)
        verified = program.state
    instrumentation.after(step[-1].name, program.module)
    return verified


def run_pass(p: Pass, program: Module) -> bool:
    """Runs a pass in the process's context; returns whether it may have changed anything."""
    try:
        with scope():
            return p.run(program) is not False
    except JaxmlirError:
        raise
    except ir.MLIRError as e:
        raise PassError(diagnostics_of(e)) from e
    except RecursionError:
        raise PassError(f"pass '{p.name}': {TOO_DEEP}") from None
    except Exception as e:
        raise PassError(f"pass '{p.name}' crashed: {type(e).__name__}: {e}") from e


def _run_cxx(elements: str, program: Module, verify_each: bool) -> None:
    manager = cxx.parse(elements)
    manager.enable_verifier(verify_each)
    try:
        manager.run(program.module.operation)
    except ir.MLIRError as e:
        raise PassError(diagnostics_of(e)) from None


def _verify(program: Module, where: str) -> None:
    try:
        program.verify()
    except JaxmlirError as e:
        e.add_note(f"the program no longer verifies {where.replace('while', 'after')}")
        raise


def parse_pipeline(
    text: str, find: Callable[[str], type[Pass] | None], suggest: Callable[[str], str | None]
) -> Pipeline:
    """Parses a textual pipeline, looking up passes by ``find``.

    Raises:
      PipelineError: the text is malformed, or a pass or option is unknown; with the column and a
        suggestion.
    """
    if not isinstance(text, str):
        raise PipelineError(f"expected a pipeline as text, 'jaxpr-grad,cse', got {text!r}")
    reader = _PipelineParser(text)
    reader.skip()
    if reader.at == len(text):
        return Pipeline(())
    elements = reader.elements()
    reader.skip()
    if reader.at != len(text):
        raise reader.error("expected ',' or the end of the pipeline")
    if (
        len(elements) == 1
        and isinstance(elements[0], _NestedPipeline)
        and elements[0].anchor == _MODULE
    ):
        elements = elements[0].children
    resolver = _Resolver(text, find, suggest)
    return Pipeline(tuple(p for element in elements for p in resolver.resolve(element, ())))


class _Resolver(NamedTuple):
    """The lookup of passes by name."""

    text: str
    find: Callable[[str], type[Pass] | None]
    suggest: Callable[[str], str | None]

    def resolve(
        self, element: _PassElement | _NestedPipeline, anchors: tuple[str, ...]
    ) -> Iterable[Pass | _CxxPass | _LatePass]:
        if isinstance(element, _NestedPipeline):
            for child in element.children:
                yield from self.resolve(child, (*anchors, element.anchor))
            return
        if element.name in _LATE and not (anchors or element.options):
            yield _LatePass(element.name, self.find)
            return
        try:
            cls = self.find(element.name)
            if cls is None:
                yield self._cxx(element, anchors)
            else:
                yield self._python(cls, element, anchors)
        except PipelineError as e:
            raise pipeline_error(str(e), self.text, element.column) from e

    def _python(self, cls: type[Pass], leaf: _PassElement, anchors: tuple[str, ...]) -> Pass:
        if anchors:
            raise PipelineError(
                f"pass '{leaf.name}' runs on the whole module and cannot be nested in "
                f"'{anchors[-1]}'"
            )
        return cls.from_options(parse_options(leaf.options))

    def _cxx(self, leaf: _PassElement, anchors: tuple[str, ...]) -> _CxxPass:
        if not cxx.exists(leaf.name):
            meant = self.suggest(leaf.name)
            hint = "see jaxmlir-opt --list-passes; --load imports the module of a pass of your own"
            if meant:
                hint = f"did you mean '{meant}'?"
            if re.fullmatch(r"O\d", leaf.name):
                hint = _level_hint(leaf.name[1])
            raise PipelineError(f"unknown pass '{leaf.name}'; {hint}")
        try:
            needed = cxx.anchor_of(str(leaf), anchors[-1] if anchors else _MODULE)
        except ValueError:
            options = cxx.options(leaf.name)
            listed = "its options are: " + " ".join(options) if options else "it has no options"
            raise PipelineError(
                f"pass '{leaf.name}' does not take '{leaf.options}'; {listed}"
            ) from None
        element = str(leaf)
        for anchor in reversed((*anchors, needed) if needed else anchors):
            element = f"{anchor}({element})"
        return _CxxPass(leaf.name, element)
