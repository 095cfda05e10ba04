"""Dialect to jaxpr: the inverse of :mod:`jaxmlir.bridge.importer`.

Every op becomes an equation with the primitive, parameters, effects, context and source position it
was imported from.  Every function becomes a closed jaxpr, made once.  Custom rules become the
thunks that JAX expects, which return the jaxprs of the rules' functions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxmlir import errors
from jaxmlir._compat import close_jaxpr, core, debug_info, dtypes, literals, pe, state_types
from jaxmlir.bridge import params
from jaxmlir.dialect import codec, custom_calls, effect_attributes, locations
from jaxmlir.dialect.builder import attribute, references
from jaxmlir.dialect.ir import context, func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ExportError, JaxmlirError, cause_of
from jaxmlir.support.graphs import below_first


class Exporter:
    """Makes jaxprs of one program's functions.  Also the ``Reader`` that codecs use.

    Args:
      to_run: the jaxprs may be run, so the program must be allowed all custom calls that it makes.

    Attributes:
      leaves_rules: export untraced custom rules as they were imported, where possible.  Set while
        jaxprs are transformed under the configuration of the import.
    """

    def __init__(self, program: Module, *, to_run: bool = True):
        self.program = program
        program.exporters.add(self)
        self._to_run = to_run
        self.leaves_rules = False
        self.made: dict[tuple[str, ...], Any] = {}
        """The jaxprs made so far, by the symbols they were made from: that of a function, or those
        of a function and of another that returns the values of its constants."""
        # Without the lock, a function that another thread is making would seem to call itself.
        self._lock = threading.RLock()
        self._depth = 0

    def jaxpr(self, symbol: str) -> Any:
        """The closed jaxpr of the function ``@symbol``.

        Raises:
          ExportError: there is no such function, it calls itself, or an op has no equation.
          LoweringError: the program may not use one of its ops.
        """
        if self._to_run:
            custom_calls.check(self.program)
        with self._lock:
            closed = self.made.get((symbol,))
            if closed is _IN_PROGRESS:
                raise ExportError(
                    f"@{symbol} calls itself: only a custom derivative rule may refer to the "
                    "function it belongs to"
                )
            if closed is None:
                deep = self._depth == MAX_DEPTH
                for name in self._callees_first(symbol) if deep else (symbol,):
                    closed = self._make(name)
            return closed

    def _make(self, symbol: str) -> Any:
        function = self.program._function(symbol)
        self.made[symbol,] = _IN_PROGRESS
        self._depth += 1
        try:
            with context():
                closed = self.made[symbol,] = _export_function(self, function)
        except BaseException:
            del self.made[symbol,]
            raise
        finally:
            self._depth -= 1
        return closed

    def _callees_first(self, symbol: str) -> Iterator[str]:
        """A function after those that it calls, directly or not, and that are not made yet."""

        def below(name: str) -> Iterator[str]:
            uses = references(self.program._function(name), custom_rules=False)
            return (use for use in uses if (use,) not in self.made)

        return below_first([symbol], below)

    def bound(self, symbol: str, values: str) -> Any:
        """The closed jaxpr of ``@symbol`` whose constants have the values that ``@values``
        returns."""
        with self._lock:
            closed = self.made.get((symbol, values))
            if closed is None:
                closed = close_jaxpr(self.jaxpr(symbol), self.values(values))
                self.made[symbol, values] = closed
            return closed

    def values(self, symbol: str) -> list[Any]:
        """The values that a function without arguments returns; concrete even during a trace."""
        with jax.ensure_compile_time_eval():
            return core.jaxpr_as_fun(self.jaxpr(symbol))()


_IN_PROGRESS = object()
# Up to this depth callees' jaxprs are made by recursion; beyond it, callees are made first.
MAX_DEPTH = 10


def constant_value(program: Module, op: Any) -> Any:
    """The value of a ``jaxpr.constant`` op, as JAX would hold it; an :class:`ExportError` if the op
    names an array that the program's side table lacks."""
    attributes = op.attributes
    aval = aval_of(op.results[0].type)
    if "name" in attributes:
        name = ir.StringAttr(attributes["name"]).value
        if name not in program._constants:
            raise ExportError(
                f'constant "{name}" has no value: as_text() gives only the names of arrays over 4 '
                "KiB; pass constants={...} to parse, or save the program as an artifact "
                "(--emit-artifact)"
            )
        value = program._constants[name]
    else:
        value = codec.decode(attributes["value"])
    if isinstance(aval, core.ShapedArray):
        if isinstance(aval.dtype, dtypes.ExtendedDType):
            if isinstance(value, (np.ndarray, jax.Array)) and value.dtype != aval.dtype:
                # Makes a concrete array of keys, even during a trace.
                with jax.ensure_compile_time_eval():
                    value = jax.random.wrap_key_data(value, impl=aval.dtype._impl.name)
        elif aval.dtype == dtypes.float0:
            value = np.zeros(aval.shape, dtypes.float0)
    return value


def _export_function(exporter: Exporter, function: func.FuncOp) -> Any:
    block = function.entry_block
    env: dict[ir.Value, Any] = {}
    invars = []
    for argument in block.arguments:
        env[argument] = var = core.Var(_own_aval(argument.type))
        invars.append(var)
    num_constvars = count_constvars(function)
    constvars: list[Any] = []
    consts: list[Any] = []
    eqns: list[Any] = []
    outvars: list[Any] = []
    for op in block.operations:
        name = op.name if type(op) is ir.OpView else op.operation.name
        if isinstance(op, func.ReturnOp):
            outvars = [env[v] for v in op.operands]
            break
        try:
            if name == "jaxpr.constant":
                value, aval = _constant(exporter, op)
                # If the equation passes the constants of a jaxpr, it can bind no others.
                if num_constvars or (isinstance(value, literals.TypedNdArray) and not aval.shape):
                    env[op.results[0]] = core.Literal(value, aval)
                else:
                    env[op.results[0]] = var = core.Var(aval)
                    constvars.append(var)
                    consts.append(value)
            else:
                eqn = equation(exporter, op, name, [env[v] for v in op.operands])
                env.update(zip(op.results, eqn.outvars, strict=True))
                eqns.append(eqn)
        except JaxmlirError as e:
            located = at_op(e, op, name)
            raise located from cause_of(located, e)
    own_constvars, invars = invars[:num_constvars], invars[num_constvars:]
    constvars = own_constvars or constvars
    info = debug_info("jit", function.name.value, len(invars), len(outvars))
    effects = pe.make_jaxpr_effects(constvars, invars, outvars, eqns)
    jaxpr = core.Jaxpr(constvars, invars, outvars, eqns, effects, info)
    return jaxpr if own_constvars else close_jaxpr(jaxpr, consts)


def count_constvars(function: func.FuncOp) -> int:
    """How many first arguments are constants that an op's rules pass to an open jaxpr."""
    return attribute(function, "jaxpr.num_constvars", 0)


def _own_aval(type_: ir.Type) -> Any:
    """The abstract value of a variable, a new one for a reference: JAX compares these by ``is``."""
    aval = aval_of(type_)
    return aval.update() if type(aval) is state_types.AbstractRef else aval


def _constant(exporter: Exporter, op: Any) -> tuple[Any, Any]:
    """The value and the abstract value of a ``jaxpr.constant`` op."""
    value = constant_value(exporter.program, op)
    aval = aval_of(op.results[0].type)
    if isinstance(value, np.ndarray) and aval.dtype != dtypes.float0:
        value = literals.TypedNdArray(value, aval)
    return value, aval


def equation(exporter: Exporter, op: Any, name: str, invars: list[Any]) -> Any:
    """The equation of an op on the given operands."""
    outvars = [core.Var(_own_aval(v.type)) for v in op.results]
    primitive, parameters = params.of_op(op, name, exporter)
    attributes = op.attributes
    effects = core.no_effects
    if "jaxpr.effects" in attributes:
        effects = effect_attributes.decode(attributes["jaxpr.effects"], invars)
    ctx = effect_attributes.ctx_of(attributes)
    return core.new_jaxpr_eqn(
        invars, outvars, primitive, parameters, effects, locations.source_info(op.location), ctx
    )


def at_op(error: JaxmlirError, op: Any, name: str) -> ExportError:
    """The error with the op's name and the user's line, unless it already has a location."""
    return errors.at_op(ExportError, error, name, locations.position(op.location))
