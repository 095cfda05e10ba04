"""Jaxpr to dialect: ``ClosedJaxpr`` in, module out.

An equation becomes one op, a variable one value, a sub-jaxpr one private function referred to by
symbol.  A jaxpr that several equations share becomes one function.  The work per equation is kept
to a few dictionary look-ups: types, attributes and locations are memoised process-wide.

Custom derivative rules are Python thunks in a jaxpr; :mod:`jaxmlir.bridge.custom_rules.tracing`
runs them, and this module writes what they return as functions like any other.

The body of a function is written when an equation first refers to it, about a dozen Python frames
deeper.  A deeply nested function is only declared there; its body is written after the outermost.
"""

from __future__ import annotations

import collections
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxmlir._compat import (
    close_jaxpr,
    core,
    debug_info,
    dtypes,
    jax_version,
    open_jaxpr,
    state_types,
)
from jaxmlir.bridge import manual_axes, params
from jaxmlir.bridge.custom_rules import closures, hijax
from jaxmlir.bridge.custom_rules.closures import PASSING, note_origins
from jaxmlir.bridge.custom_rules.pending import PendingRules
from jaxmlir.dialect import (
    codec,
    custom_rule_ops,
    effect_attributes,
    handles,
    locations,
    ops,
    primitives,
)
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.handles import Constants
from jaxmlir.dialect.ir import (
    DIALECT_VERSION,
    free_symbol,
    func,
    functions,
    ir,
    new_function,
    scope,
)
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import type_of
from jaxmlir.errors import Diagnostic, ImportingError, JaxmlirError, cause_of, message_of
from jaxmlir.targets import Target

T = TypeVar("T")

# Larger constants stay out of the IR, in the program's side table.
INLINE_CONSTANT_BYTES = 4096
# Up to this depth a function's body is written when an equation first names it.
MAX_DEPTH = 10

CLOSES_OVER = (
    "closes over a value of an enclosing JAX transformation, which a program cannot hold; pass the "
    "value as an argument"
)


def import_jaxpr(closed_jaxpr: Any, name: str = "main", target: Target | None = None) -> Importer:
    """Writes a closed jaxpr as a module whose public function is ``name``.

    Args:
      target: import called programs in their versions for this target; by default as they are.

    Returns the importer, which holds the ``module`` and the side tables ``constants`` and
    ``handles`` that the module refers to.

    Raises:
      ImportingError: a value or parameter has no form in the dialect; names the equation.
    """
    importer = Importer()
    importer.target = target
    importer.constants.copies = target is None
    jaxpr, consts = open_jaxpr(closed_jaxpr)
    with scope():
        importer.write_function(jaxpr, consts, importer.unique_name(name), public=True)
    return importer


class Importer:
    """Builds one module.  Also the ``Writer`` that parameter codecs use for jaxprs and handles."""

    def __init__(self) -> None:
        with scope():
            self.module: ir.Module = ir.Module.create()
            self.module.operation.attributes["jaxpr.version"] = ir.StringAttr.get(DIALECT_VERSION)
        self._start(Constants(), {}, None)

    @classmethod
    def into(cls, program: Module) -> Importer:
        """An importer that adds functions to a program, and reuses those it has exported."""
        self = cls.__new__(cls)
        self.module = program.module
        self._start(program.constants, program.handles, program)
        # Shared: another importer may write functions before this one is done.
        self._names = program.taken_names
        self._names.update(functions(program.module))
        return self

    def _start(
        self, constants: Constants, boxes: dict[str, handles.Box], program: Module | None
    ) -> None:
        self.constants = constants
        self.handles = boxes
        self.pending: PendingRules = PendingRules(self, program)
        self._names: set[str] = set()
        # For each base name that is taken, a counter of suffixes that may be free.
        self._numbers: collections.defaultdict[str, Any] = collections.defaultdict(itertools.count)
        self._functions: dict[Any, str] = {}
        self._constant_names: dict[int, str] = {}
        # Maps a variable to the variable of the enclosing jaxpr that it stands for, or to None.
        self.origins: dict[Any, Any] = {}
        # The location of the equation at hand: the call site of functions written meanwhile.
        self.call: ir.Location | None = None
        # Set while a function is being written.
        self._nest: _FunctionNest | None = None
        # Counts references to what only this program has: functions and entries of side tables.
        self.references: int = 0
        # The target that called programs are imported for, by default each as it is optimized; and
        # the target of a called program that has other versions for other targets.
        self.target: Target | None = None if program is None else program._target
        self.versions_for: Target | None = None
        # Keys above are ids of objects, which must not be freed meanwhile.
        self._alive: list[Any] = []

    # -- what codecs ask for --

    def function(self, jaxpr: Any, *, opened: bool = False) -> tuple[str, ...]:
        """The symbol of a (closed) jaxpr's function, written when first seen.  In an opened one,
        constants are the first arguments; if there are any, the symbol of a function of their
        values follows."""
        self.references += 1
        jaxpr, consts = open_jaxpr(jaxpr)
        if any(isinstance(value, core.Tracer) for value in consts):
            # The trace has ended; the jaxpr's equation passes these values itself.
            consts = []
        parts = _parts(jaxpr, consts, opened)
        return tuple([self._written(key, *part) for key, part in parts.items()])

    def _written(self, key: Any, jaxpr: Any, consts: Sequence[Any]) -> str:
        symbol = self._functions.get(key)
        if symbol is None:
            self._alive.append((jaxpr, consts))
            hint = getattr(jaxpr.debug_info, "func_name", "") or "jaxpr"
            symbol = self._functions[key] = self.unique_name(hint)
            self.write_function(jaxpr, consts, symbol)
        return symbol

    def handle(self, value: Any) -> str:
        """An in-process handle that lives as long as the program."""
        self.references += 1
        box = handles.box(value)
        self.handles[box.name] = box
        return box.name

    # -- functions --

    def unique_name(self, hint: str) -> str:
        """A symbol made from ``hint`` that the module does not have yet."""
        return self.unique_symbol(_symbol(hint))

    def unique_symbol(self, name: str) -> str:
        """``name``, or ``name_0`` ... if the module has it; dots are kept."""
        symbol = free_symbol(name, self._names, self._numbers[name])
        self._names.add(symbol)
        return symbol

    def rule(self, key: Any, hint: str, trace: Any) -> str:
        """The symbol of a custom rule's function; ``trace() -> (jaxpr, consts)`` runs on a miss.
        The symbol is known before the rule is traced, so that a rule may call the function it
        belongs to."""
        self.references += 1
        symbol = self._functions.get(key)
        if symbol is None:
            symbol = self._functions[key] = self.unique_name(hint)
            try:
                jaxpr, consts, attributes = trace()
                if consts:
                    jaxpr, consts = open_jaxpr(close_jaxpr(jaxpr, consts))
                self._alive.append((key, jaxpr, consts))
                self.write_function(jaxpr, consts, symbol, attributes=attributes)
            except BaseException:
                self._names.discard(symbol)
                self._numbers.clear()
                self._functions.pop(key, None)
                raise
        return symbol

    def symbols(self) -> set[str]:
        """The symbols that :meth:`function` has returned or can return."""
        return set(self._functions.values())

    def share(self, symbols: tuple[str, ...], closed_jaxpr: Any) -> None:
        """Makes :meth:`function` answer ``symbols`` for a jaxpr that was exported from them."""
        jaxpr, consts = open_jaxpr(closed_jaxpr)
        self._alive.append((jaxpr, consts))
        parts = _parts(jaxpr, consts, opened=len(symbols) > 1)
        self._functions.update(zip(parts, symbols, strict=True))

    def add_function(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        name: str,
        *,
        leave_rules: bool = False,
        **options: Any,
    ) -> Any:
        """Writes an open jaxpr as :meth:`write_function` does, and the custom rules it uses.  With
        ``leave_rules``, these wait with the program's untraced rules."""
        function = self.write_function(jaxpr, consts, name, **options)
        if leave_rules:
            self.pending.leave()
        else:
            self.pending.trace()
        return function

    def write_function(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        name: str,
        *,
        public: bool = False,
        detached: bool = False,
        location: ir.Location | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> func.FuncOp:
        """Writes an open jaxpr with its constants as the function ``@name``.

        Custom rules wait in ``pending``.

        Args:
          attributes: the function's own, by name; visible to a call of the function in its body.
          detached: leave the function outside the module, to be copied in piecewise.
          location: the location of the function and all its ops; by default each has the location
            of its function or equation.
        """
        call = self.call
        # Before JAX 0.11, an open jaxpr may have constants that its equation passes as operands.
        unbound = list(jaxpr.constvars)[len(consts) :] if not consts else []
        invars = [*unbound, *jaxpr.invars]
        op, block = new_function(
            name,
            [type_of(v.aval) for v in invars],
            [type_of(v.aval) for v in jaxpr.outvars],
            location or locations.of_function(jaxpr.debug_info, call),
            False if detached else ir.InsertionPoint(self.module.body),
            visibility="public" if public else "private",
        )
        if unbound:
            op.attributes["jaxpr.num_constvars"] = codec.encode(len(unbound))
        for key, value in (attributes or {}).items():
            op.attributes[key] = codec.encode(value, self)
        if public:
            locations.name_arguments(op, jaxpr.debug_info.arg_names or ())
        env = dict(zip(invars, block.arguments, strict=True))
        body = _JaxprWriter(self, block, location)
        nest, waiting = self._nest, len(self.pending)
        try:
            if nest is None:
                self._outermost(functools.partial(body.write, jaxpr, env, consts))
                return op
            nest.symbols.append(name)
            if nest.depth == MAX_DEPTH:
                nest.waiting.append(_QueuedJaxpr(body, jaxpr, env, consts, self.pending.place))
                return op
            nest.depth += 1
            body.write(jaxpr, env, consts)
            nest.depth -= 1
        except BaseException:
            # The import goes on without a rule that cannot be written.
            self.pending.drop(len(self.pending) - waiting)
            op.erase()
            self._forget({name})
            raise
        finally:
            self.call = call
        return op

    def write_inline(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        args: Sequence[ir.Value],
        block: ir.Block,
        location: ir.Location,
    ) -> list[ir.Value]:
        """Writes an open jaxpr's equations on some arguments, all at one location, at the current
        insertion point in the block; gives the results."""
        env = dict(zip(jaxpr.invars, args, strict=True))
        self._alive.append((jaxpr, consts))
        body = _JaxprWriter(self, block, location)
        results = self._outermost(functools.partial(body.equations, jaxpr, env, consts))
        self.pending.trace()
        return results

    def _outermost(self, write: Callable[[], T]) -> T:
        """Writes an outermost jaxpr, then the bodies of functions that were only declared."""
        nest = self._nest = _FunctionNest()
        waiting = nest.waiting
        try:
            result = write()
            # Entries stay: after an error they show that some functions may lack a body.
            for deep in waiting:
                nest.depth = 1
                deep.write(self.pending)
            return result
        except BaseException:
            if nest.waiting:
                self._erase(nest.symbols)
            raise
        finally:
            self._nest = None

    def _erase(self, symbols: Sequence[str]) -> None:
        """Erases functions: if one lacks its body, those that refer to it are useless too."""
        here = functions(self.module)
        for symbol in here.keys() & symbols:
            here[symbol].operation.erase()
        self._forget({*symbols})

    def _forget(self, symbols: Set[str]) -> None:
        self._functions = {k: v for k, v in self._functions.items() if v not in symbols}

    def constant_attributes(self, value: Any, aval: Any) -> dict[str, ir.Attribute]:
        """The attributes of the ``jaxpr.constant`` that holds ``value``; an :class:`ImportingError`
        if it is a tracer of an enclosing transformation, e.g. one that a custom rule closes over.
        """
        if isinstance(value, core.Tracer):
            raise ImportingError(CLOSES_OVER)
        array: Any = None
        if isinstance(aval, core.ShapedArray) and not isinstance(value, core.Token):
            extended = isinstance(aval.dtype, dtypes.ExtendedDType)
            array = key_data(value, aval.dtype) if extended else value
            if getattr(array, "nbytes", 0) > INLINE_CONSTANT_BYTES:
                return {"name": ir.StringAttr.get(self._constant_name(array))}
            array = np.asarray(array)
            if not extended and array.dtype != object:
                array = array.astype(aval.dtype, copy=False)
        # Values without numbers become handles; JAX lowers or refuses them.
        if array is None or array.dtype == object:
            return {"value": codec.encode_handle(value, self)}
        return {"value": dense(array)}

    def _constant_name(self, value: Any) -> str:
        self.references += 1
        name = self._constant_names.get(id(value))
        if name is None:
            n = len(self.constants)
            while f"c{n}" in self.constants:
                n += 1
            name = self._constant_names[id(value)] = f"c{n}"
            self.constants[name] = value
            self._alive.append(value)
        return name


def key_data(values: Any, dtype: Any) -> Any | None:
    """The integers under an array of random keys; ``None`` for other extended dtypes."""
    import jax

    if not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    # The keys are concrete, even if the function that closes over them is being traced.
    with jax.ensure_compile_time_eval():
        return jax.random.key_data(values)


@functools.lru_cache(1024)
def _symbol(hint: str) -> str:
    return re.sub(r"[^\w.]+", "_", hint).strip("_") or "function"


class _JaxprWriter:
    """Writes the equations of one jaxpr into one block."""

    def __init__(self, importer: Importer, block: ir.Block, location: ir.Location | None):
        self.importer = importer
        self.block = block
        self.one_place = location is not None
        # The location of ops without an equation: closed-over constants, results that are literals.
        self.location = location or block.owner.location
        self.literals: dict[Any, ir.Value] = {}

    def write(self, jaxpr: Any, env: dict[Any, ir.Value], consts: Sequence[Any]) -> None:
        """Writes a jaxpr and the return of its results."""
        with ir.InsertionPoint(self.block):
            results = self.equations(jaxpr, env, consts)
            func.ReturnOp(results, loc=self.location)

    def equations(
        self, jaxpr: Any, env: dict[Any, ir.Value], consts: Sequence[Any]
    ) -> list[ir.Value]:
        """Writes the equations of a jaxpr and returns its results."""
        create = ir.Operation.create
        literal_type = core.Literal
        locate, one_place = locations.of_equation, self.one_place
        no_effects = core.no_effects
        for var, value in zip(jaxpr.constvars, consts, strict=False):
            env[var] = self.constant(value, var.aval, self.location)
        for eqn in jaxpr.eqns:
            loc = self.location if one_place else locate(eqn.source_info, self.location)
            self.importer.call = loc
            if eqn.primitive.name == "jaxmlir_call":
                self.splice(eqn, env, loc)
                continue
            if eqn.primitive.name in _WITH_RULES:
                eqn = self.with_rules(eqn, env)
            try:
                operands = [
                    self.literal(v, loc) if type(v) is literal_type else env[v] for v in eqn.invars
                ]
                if eqn.primitive.name == "shard_map":
                    with self.importer.pending.inside(eqn):
                        name, attributes = self.attributes(eqn)
                else:
                    name, attributes = self.attributes(eqn)
                if eqn.effects is not no_effects and eqn.effects:
                    attributes["jaxpr.effects"] = effect_attributes.encode(eqn, self.importer)
                ctx = effect_attributes.encode_ctx(eqn.ctx)
                if ctx is not None:
                    attributes["jaxpr.ctx"] = ctx
                outvars = eqn.outvars
                if len(outvars) == 1:
                    (var,) = outvars
                    op = create(name, [type_of(var.aval)], operands, attributes, loc=loc)
                    env[var] = op.result
                else:
                    types = [type_of(v.aval) for v in outvars]
                    op = create(name, types, operands, attributes, loc=loc)
                    env.update(zip(outvars, op.results, strict=True))
                if name in custom_rule_ops.OPS:
                    from jaxmlir.bridge.custom_rules.tracing import EquationSource

                    self.importer.pending.add(op, functools.partial(EquationSource, eqn))
            except JaxmlirError as e:
                located = _at_equation(e, eqn)
                raise located from cause_of(located, e)
        end = self.location
        return [self.literal(v, end) if type(v) is literal_type else env[v] for v in jaxpr.outvars]

    def with_rules(self, eqn: Any, env: dict[Any, ir.Value]) -> Any:
        """An equation with custom rules in JAX's ordinary form, with the values they close over."""
        if eqn.primitive.name in custom_rule_ops.HIGH_LEVEL:
            eqn = hijax.ordinary(eqn)
        if eqn.primitive.name in custom_rule_ops.PRIMITIVES:
            closed = self.importer._nest.closed
            eqn = closures.with_constants(eqn, self.importer.origins, env, closed)
        return eqn

    def splice(self, eqn: Any, env: dict[Any, ir.Value], loc: ir.Location) -> None:
        """Writes the equations of a called program in place of the call."""
        callee = manual_axes.retyped(eqn.params["callee"], [v.aval for v in eqn.invars])
        if callee.has_versions:
            self.importer.versions_for = callee.whole.target
        called, consts = open_jaxpr(callee.jaxpr_for(self.importer.target))
        inner = {
            var: self.literal(atom, loc) if type(atom) is core.Literal else env[atom]
            for var, atom in zip(called.invars, eqn.invars, strict=True)
        }
        self.importer._alive.append((called, consts))
        results = self.equations(called, inner, consts)
        env.update(zip(eqn.outvars, results, strict=True))

    def attributes(self, eqn: Any) -> tuple[str, dict[str, ir.Attribute]]:
        """The op's name and attributes."""
        primitive = eqn.primitive
        name, defaults, rewrite, opens = _plan(primitive)
        params = eqn.params
        if not params and name is not _FOREIGN:
            return name, {}
        attributes: dict[str, ir.Attribute] = {}
        if rewrite is not None and rewrite is not custom_rule_ops.write:
            params = rewrite(params, eqn)
        if name in PASSING:
            note_origins(self.importer.origins, name, params, eqn.invars)
        if rewrite is custom_rule_ops.write:
            return name, rewrite(eqn, self.importer)
        importer: codec.Writer = self.importer
        if opens:
            importer = _OpeningWriter(self.importer)
        encode = codec.encode
        for key, value in params.items():
            default = defaults.get(key, _REQUIRED)
            if type(default) is bool and type(value) in (int, np.bool_):
                # A user may pass 0 or 1 for a flag; JAX only uses its truth value.
                value = bool(value)
            if value is default or (type(value) is type(default) and value == default):
                continue
            if type(default) is _EachDefault and all(item == default.value for item in value):
                continue
            attributes[key] = encode(value, importer)
        if name is _FOREIGN:
            name = f"jaxpr.{primitive.name}"
            attributes["jaxpr.primitive"] = codec.encode_handle(primitive, importer)
        return name, attributes

    def literal(self, literal: Any, loc: ir.Location) -> ir.Value:
        aval = literal.aval
        value = literal.val
        if isinstance(aval, core.ShapedArray) and not isinstance(aval.dtype, dtypes.ExtendedDType):
            array = np.asarray(value, aval.dtype)
            key = (aval, array.tobytes())
        else:
            key = id(value)
        constant = self.literals.get(key)
        if constant is None:
            constant = self.literals[key] = self.constant(value, aval, loc)
        return constant

    def constant(self, value: Any, aval: Any, loc: ir.Location) -> ir.Value:
        attributes = self.importer.constant_attributes(value, aval)
        if isinstance(aval, state_types.AbstractRef):
            self.importer._alive.append(value)
        return ir.Operation.create(
            "jaxpr.constant", [type_of(aval)], [], attributes, loc=loc
        ).result


class _QueuedJaxpr(NamedTuple):
    """A jaxpr whose body is still to be written, and where its ops are in the program."""

    function: _JaxprWriter
    jaxpr: Any
    env: dict[Any, ir.Value]
    consts: Sequence[Any]
    place: tuple[Any, ...]

    def write(self, pending: PendingRules) -> None:
        with pending.around(*self.place):
            self.function.write(self.jaxpr, self.env, self.consts)


class _FunctionNest:
    """The functions that are written along with an outermost one.

    Attributes:
      depth: how many functions enclose the next one.
      symbols: the names of the functions.
      waiting: the deeply nested functions, whether their bodies are written or not.
      closed: objects of custom rules that hold no tracer, by id.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.symbols: list[str] = []
        self.waiting: list[_QueuedJaxpr] = []
        self.closed: dict[int, Any] = {}


class _OpeningWriter(NamedTuple):
    """The ``Writer`` for parameters of a primitive whose rules are unknown.  They may pass operands
    for a jaxpr's constants, so they rely on all constants in order."""

    importer: Importer

    def function(self, jaxpr: Any) -> tuple[str, ...]:
        return self.importer.function(jaxpr, opened=True)

    def handle(self, value: Any) -> str:
        return self.importer.handle(value)


def _parts(jaxpr: Any, consts: list[Any], opened: bool) -> dict[Any, tuple[Any, list[Any]]]:
    """The functions that an open jaxpr and its constants are written as, by key: the jaxpr itself,
    or the jaxpr with constants as arguments, followed by a function that returns the constants."""
    if not (opened and consts):
        return {(id(jaxpr), *map(id, consts)): (jaxpr, consts)}
    constvars = jaxpr.constvars
    info = debug_info("jit", "constants", 0, len(constvars))
    values = close_jaxpr(core.Jaxpr(constvars, [], constvars, [], core.no_effects, info), consts)
    key = ("values", *map(id, consts), *[v.aval for v in constvars])
    return {(id(jaxpr),): (jaxpr, []), key: open_jaxpr(values)}


class _EachDefault(NamedTuple):
    """The default of a tuple with one entry for each operand or result."""

    value: Any


_WITH_RULES = custom_rule_ops.PRIMITIVES | custom_rule_ops.HIGH_LEVEL

_REQUIRED = object()
_FOREIGN = "jaxpr.<another primitive of that name>"


@functools.cache
def _plan(primitive: Any) -> tuple[str, dict[str, Any], Any, bool]:
    """How equations of a primitive are written: op name, default attributes, parameter rewrite, and
    whether constants of jaxprs among the parameters stay constants."""
    if not primitives.meet(primitive):
        return _FOREIGN, {}, None, True
    record = ops.BY_PRIMITIVE.get(primitive.name)
    defaults = {
        attr.name: _EachDefault(attr.default) if attr.each else attr.default
        for attr in (record.attributes if record else ())
        if not attr.required
    }
    if primitive.name in custom_rule_ops.PRIMITIVES:
        rewrite: Any = custom_rule_ops.write
    else:
        rewrite = params.TO_DIALECT.get(primitive.name) or (record and _renaming(record))
    return primitives.op_name(primitive.name), defaults, rewrite, record is None


def _renaming(record: Any) -> Any | None:
    """A rewrite that gives parameters the dialect's names where the installed JAX has others."""
    names = {
        jax_name: attr.name
        for jax_name, attr in record.params(jax_version()).items()
        if jax_name != attr.name
    }
    if not names:
        return None
    return lambda params, _: {names.get(key, key): value for key, value in params.items()}


def _at_equation(error: JaxmlirError, eqn: Any) -> ImportingError:
    """The error with the equation's primitive, user line and name stack."""
    if isinstance(error, ImportingError) and error.diagnostics[0].line:
        return error
    file, line, col = locations.user_position(eqn.source_info)
    message = f"importing '{eqn.primitive.name}': {message_of(error)}"
    return ImportingError([Diagnostic("error", message, file, line, col)])
