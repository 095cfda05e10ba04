"""Inside JAX's lowering: the body of a module's ``main`` comes from a program.

Two functions of JAX are wrapped.  Where a module is made, the jaxpr is imported and its program
waits; where the body of that jaxpr is lowered, the program's ops are emitted in its place.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxmlir._compat import mlir, open_jaxpr, source_info_util
from jaxmlir.backend.dump import Dump
from jaxmlir.backend.settings import Settings
from jaxmlir.errors import JaxmlirError, LoweringError, PassError
from jaxmlir.lowering.functions import lower_for_targets
from jaxmlir.lowering.lowering import lower_function
from jaxmlir.passes import Instrumentation, parse_pipeline
from jaxmlir.program.program import Program
from jaxmlir.program.staging import import_for, parse
from jaxmlir.targets import Target


def program_of(
    closed_jaxpr: Any, settings: Settings, target: Target | None = None, dump: Dump | None = None
) -> Program:
    """The program that a jaxpr is compiled as: imported, printed and parsed, through the passes.

    Args:
      target: what it is compiled for.

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
    if settings.pipeline:
        signature = program.in_avals, program.out_avals
        instrumentation = dump or Instrumentation(verify_each=False)
        # What is compiled is not differentiated any more, and tracing rules may take a minute.
        with program.rule_tracing.holding():
            parse_pipeline(settings.pipeline).run(program, instrumentation)
            program.changed()
        if (program.in_avals, program.out_avals) != signature:
            raise PassError(
                f"the pipeline {settings.pipeline!r} changes what @{program.name} takes or gives; "
                "a pipeline of the backend must keep it"
            )
    return program


class _Pending(threading.local):
    """The jaxpr being lowered, and the program for each target that stands in for it when its body
    is reached."""

    jaxpr: Any = None
    consts: Sequence[Any] = ()
    program_for: Callable[[Target], Program] | None = None


_pending = _Pending()


@contextlib.contextmanager
def _instead(
    jaxpr: Any, consts: Sequence[Any], program_for: Callable[[Target], Program] | None
) -> Iterator[None]:
    """Within the block, the body of the jaxpr is the program for what it is lowered for.

    Rules of lowering compile other functions meanwhile.
    """
    outer = _pending.jaxpr, _pending.consts, _pending.program_for
    _pending.jaxpr, _pending.consts, _pending.program_for = jaxpr, consts, program_for
    try:
        yield
    finally:
        _pending.jaxpr, _pending.consts, _pending.program_for = outer


_in_place = threading.Lock()


def take_over(settings_in_force: Callable[[], Settings | None]) -> None:
    """Puts the backend where JAX lowers modules and bodies; it acts where settings are in force."""
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

        with _instead(*open_jaxpr(jaxpr), program_for):
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
        const_lowering: Any,
        dim_var_values: Any,
        outer_traceback: Any,
    ) -> Any:
        program_for = _pending.program_for
        if program_for is None or jaxpr is not _pending.jaxpr:
            return original(
                module_context,
                jaxpr,
                name_stack,
                tokens,
                consts,
                *args,
                const_lowering=const_lowering,
                dim_var_values=dim_var_values,
                outer_traceback=outer_traceback,
            )
        # JAX has emitted what is closed over; the program's large constants are the same objects.
        emitted = {
            (id(value), var.aval): node
            for value, var, node in zip(_pending.consts, jaxpr.constvars, consts, strict=True)
        }
        ctx = mlir.LoweringRuleContext(
            module_context=module_context,
            primitive=None,
            name_stack=name_stack,
            traceback=outer_traceback,
            avals_in=[v.aval for v in jaxpr.invars],
            avals_out=[v.aval for v in jaxpr.outvars],
            tokens_in=tokens,
            tokens_out=None,
            dim_var_values=dim_var_values,
            const_lowering={**const_lowering, **emitted},
        )
        with _instead(None, (), None):
            return _lower(ctx, jaxpr.effects, program_for, args)

    return jaxpr_subcomp


def _lower(
    ctx: Any, effects: Any, program_for: Callable[[Target], Program], args: Sequence[Any]
) -> tuple[list[Any], Any]:
    """Emits the body; a failing rule's own exception is raised, as callers of JAX expect."""
    try:
        return lower_for_targets(
            ctx, effects, program_for, lambda ctx, p: lower_function(ctx, p, p.name, args)
        )
    except LoweringError as e:
        # JAX puts an exception of its own in between, which says where the user's line is.
        placed = source_info_util.JaxStackTraceBeforeTransformation
        cause: BaseException | None = e
        while isinstance(cause, (JaxmlirError, placed)):
            cause = cause.__cause__
        if cause is None:
            raise
        cause.add_note(str(e))
    raise cause
