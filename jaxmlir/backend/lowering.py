"""Hooks in JAX's lowering: the body of a module's ``main`` comes from a program.

Two functions of JAX are wrapped. The one that makes a module notes the jaxpr, to be imported as a
program. The one that lowers that jaxpr's body emits the program's ops in its place.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from jaxmlir._compat import mlir, open_jaxpr, source_info_util
from jaxmlir.dialect.ir import ir, module_text
from jaxmlir.errors import JaxmlirError, LoweringError, PassError, PipelineError
from jaxmlir.lowering.functions import lower_for_targets
from jaxmlir.lowering.lowering import lower_function
from jaxmlir.passes import Instrumentation, level_pipeline, parse_pipeline
from jaxmlir.passes.kept import run_kept
from jaxmlir.program.jit import Stager
from jaxmlir.program.program import Program
from jaxmlir.program.staging import import_for, parse
from jaxmlir.targets import Target


@dataclass(frozen=True)
class Settings:
    """How programs are compiled.

    Attributes:
      optimize: the optimization level.
      pipeline: the passes that run on every program, after those of the level.
      round_trip: print every program, and go on with what is parsed from the text.
      dump_to: a folder to hold a folder for each compiled function, with the IR of each stage.
    """

    optimize: int = 0
    pipeline: str = ""
    round_trip: bool = False
    dump_to: str = ""

    def __post_init__(self) -> None:
        if self.passes:
            parse_pipeline(self.passes)

    @functools.cached_property
    def passes(self) -> str:
        """All passes that run on a program."""
        return ",".join(filter(None, (level_pipeline(self.optimize), self.pipeline)))

    @property
    def stager(self) -> Stager | None:
        """Stages out functions that JAX differentiates while tracing; ``None`` at level 0."""
        return Stager(self.optimize) if self.optimize else None

    @classmethod
    def given(
        cls,
        optimize: int | None,
        pipeline: str | None,
        round_trip: bool | None,
        dump_to: str | os.PathLike[str] | None,
    ) -> Settings:
        """Settings; those that are ``None`` come from the environment."""
        getenv = os.environ.get
        if optimize is None:
            text = getenv("JAXMLIR_OPTIMIZE", "") or "0"
            if not text.isdecimal():
                raise PipelineError(f"JAXMLIR_OPTIMIZE: expected a level, got {text!r}")
            optimize = int(text)
        if pipeline is None:
            pipeline = getenv("JAXMLIR_PIPELINE", "")
        if round_trip is None:
            round_trip = getenv("JAXMLIR_ROUND_TRIP", "0") not in ("", "0")
        if dump_to is None:
            dump_to = getenv("JAXMLIR_DUMP_TO", "")
        return cls(optimize, pipeline, round_trip, os.fspath(dump_to))


# --- the IR of each stage, in files ---------------------------------------------------------------

# The number of the next folder, by the folder that contains it.
_numbers: dict[str, itertools.count[int]] = {}


@dataclass(frozen=True)
class Dump(Instrumentation):
    """Writes the IR of one function after each stage into a folder of its own."""

    folder: Path = Path()
    written: list[str] = field(default_factory=list, compare=False)

    @classmethod
    def into(cls, parent: str, name: str) -> Dump:
        name = re.sub(r"[^\w.-]+", "_", name).strip("_") or "function"
        if parent not in _numbers:
            taken = len(os.listdir(parent)) if os.path.isdir(parent) else 0
            _numbers[parent] = itertools.count(1 + taken)
        while True:
            folder = Path(parent) / f"{next(_numbers[parent]):05d}-{name}"
            # Other threads and processes create folders, too.
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
                return cls(verify_each=False, folder=folder)

    @property
    def observes(self) -> bool:
        return True

    def after(self, name: str, module: ir.Module) -> None:
        self.write(name, module)

    def failed(self, name: str, module: ir.Module) -> None:
        self.write(f"{name}-failed", module)

    def write(self, stage: str, module: ir.Module) -> None:
        path = self.folder / f"{len(self.written)}-{stage}.mlir"
        self.written.append(stage)
        path.write_text(module_text(module))


# --- lowering -------------------------------------------------------------------------------------


def program_of(
    closed_jaxpr: Any, settings: Settings, target: Target | None = None, dump: Dump | None = None
) -> Program:
    """The program that a jaxpr is compiled as: imported, printed and parsed, and optimized.

    Args:
      target: the target to compile for.

    Raises:
      ImportingError: a value or parameter has no form in the dialect.
      PassError: a pass failed, or changed what the program takes or gives.
    """
    name = closed_jaxpr.jaxpr.debug_info.func_name
    program = import_for(closed_jaxpr, name, target)
    if dump is not None:
        dump.write("jaxpr", program.module)
    if settings.round_trip:
        text = program.as_text(debug_info=True)
        program = parse(text, constants=program.constants, filename=name, verify=False)
    if settings.passes:
        signature = program.in_avals, program.out_avals
        passes = parse_pipeline(settings.passes)
        # No compiled program is differentiated further, and tracing rules may take a minute.
        with program.rule_tracing.holding():
            if dump is None:
                run_kept(passes, program)
            else:
                passes.run(program, dump)
            program.changed()
        if (program.in_avals, program.out_avals) != signature:
            raise PassError(
                f"the pipeline {settings.passes!r} changes the types of @{program.name}'s "
                "arguments or results; a pipeline of the backend must keep them"
            )
    return program


class _Body(NamedTuple):
    """The jaxpr being lowered, its constants, and a function that returns the program for it."""

    jaxpr: Any
    consts: Sequence[Any]
    program_for: Callable[[Target], Program] | None


_NO_BODY = _Body(None, (), None)


_pending: ContextVar[_Body] = ContextVar("pending", default=_NO_BODY)


@contextlib.contextmanager
def _instead(body: _Body) -> Iterator[None]:
    """Within the block, the body of the jaxpr is the program for the target of the lowering.

    Blocks nest, as lowering rules compile other functions.
    """
    token = _pending.set(body)
    try:
        yield
    finally:
        _pending.reset(token)


_in_place = threading.Lock()


def take_over(settings_in_force: Callable[[], Settings | None]) -> None:
    """Wraps JAX's lowering of modules and bodies; the wrappers act while settings are in force."""
    with _in_place:
        if not hasattr(mlir.lower_jaxpr_to_module, "__wrapped__"):
            mlir.lower_jaxpr_to_module = _lower_module_with(
                mlir.lower_jaxpr_to_module, settings_in_force
            )
            mlir.jaxpr_subcomp = _lower_body_with(mlir.jaxpr_subcomp)


def _lower_module_with(original: Any, settings_in_force: Callable[[], Settings | None]) -> Any:
    @functools.wraps(original)
    def lower_jaxpr_to_module(module_name: str, jaxpr: Any, **options: Any) -> Any:
        settings = settings_in_force()
        if settings is None:
            return original(module_name, jaxpr, **options)
        dump = Dump.into(settings.dump_to, module_name) if settings.dump_to else None

        @functools.cache
        def program_for(target: Target) -> Program:
            return program_of(jaxpr, settings, target, dump)

        with _instead(_Body(*open_jaxpr(jaxpr), program_for)):
            result = original(module_name, jaxpr, **options)
        if dump is not None:
            dump.write("stablehlo", result.module)
        return result

    return lower_jaxpr_to_module


def _lower_body_with(original: Any) -> Any:
    @functools.wraps(original)
    def jaxpr_subcomp(
        module_context: Any,
        jaxpr: Any,
        name_stack: Any,
        tokens: Any,
        consts: Sequence[Any],
        *args: Any,
        **options: Any,
    ) -> Any:
        pending, pending_consts, program_for = _pending.get()
        if program_for is None or jaxpr is not pending:
            return original(module_context, jaxpr, name_stack, tokens, consts, *args, **options)
        # JAX has emitted the closed-over values; the large constants are the same objects.
        emitted = {
            (id(value), var.aval): node
            for value, var, node in zip(pending_consts, jaxpr.constvars, consts, strict=True)
        }
        ctx = mlir.LoweringRuleContext(
            module_context=module_context,
            primitive=None,
            name_stack=name_stack,
            traceback=options["outer_traceback"],
            avals_in=[v.aval for v in jaxpr.invars],
            avals_out=[v.aval for v in jaxpr.outvars],
            tokens_in=tokens,
            tokens_out=None,
            dim_var_values=options["dim_var_values"],
            const_lowering={**options["const_lowering"], **emitted},
        )
        with _instead(_NO_BODY):
            return _lower(ctx, jaxpr.effects, program_for, args)

    return jaxpr_subcomp


def _lower(
    ctx: Any, effects: Any, program_for: Callable[[Target], Program], args: Sequence[Any]
) -> tuple[list[Any], Any]:
    """Emits the body; raises a failing rule's own exception, as callers of JAX expect."""
    try:
        return lower_for_targets(
            ctx, effects, program_for, lambda ctx, p: lower_function(ctx, p, p.name, args)
        )
    except LoweringError as e:
        # JAX inserts an exception of its own, which gives the user's line.
        placed = source_info_util.JaxStackTraceBeforeTransformation
        cause: BaseException | None = e
        while isinstance(cause, (JaxmlirError, placed)):
            cause = cause.__cause__
        if cause is None:
            raise
        cause.add_note(str(e))
    raise cause
