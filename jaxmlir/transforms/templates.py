"""JAX's transformation rules as functions of the dialect, one per signature.

To differentiate, transpose or batch an op, JAX's own rule for its primitive is run on the jaxpr of
that single equation, and the jaxpr that it traces is imported as a detached function, the
*template*.  A transformation copies the template in, in C++, wherever the signature occurs again.
So every primitive is covered, including a user's own and those with sub-functions, and the rule
itself runs once: per process for ops without sub-functions, else per transformed program.  The
common ops with sub-functions have rules of their own, which transform these as functions of the
program (:mod:`jaxmlir.transforms.higher_order`).

A signature is the op's name, attributes, operand and result types, and the *pattern*: which
operands have tangents, are linear, or are batched along which dimension.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir._compat import (
    ConfigSnapshot,
    ad_util,
    batching,
    close_jaxpr,
    core,
    debug_info,
    dtypes,
    open_jaxpr,
    pe,
    state_discharge,
)
from jaxmlir.analysis import pointwise
from jaxmlir.analysis.purity import CountedOps
from jaxmlir.bridge import exporter as exporting
from jaxmlir.bridge.custom_rules.export import waiting_jvp
from jaxmlir.bridge.importer import Importer
from jaxmlir.caching import disk_cache, is_of_process, kept_for_settings, setting
from jaxmlir.dialect import custom_rule_ops, locations
from jaxmlir.dialect.builder import inline, ops_with_symbols, reachable, symbols_of, zeros
from jaxmlir.dialect.custom_rule_ops import MARK, is_untraced
from jaxmlir.dialect.ir import bytecode, func, ir, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of, is_dynamic, widths_of
from jaxmlir.errors import JaxmlirError, TransformError, cause_of
from jaxmlir.support.masks import Dims, Mask
from jaxmlir.transforms import higher_order, jax_rules
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation, Template
from jaxmlir.transforms.memo import TransformedFunctions

if TYPE_CHECKING:
    from jaxmlir.caching.rule_cache import RuleCache

# Results of rules for a pointwise op of some shape, by the op's kind, each with that shape.
by_kind: dict[Any, tuple[()] | tuple[Any, pointwise.Shape]] = kept_for_settings()

# Templates that mean the same in every program; and the jaxprs of those that do not, because they
# call functions or have large constants, which are each program's own.
by_signature = kept_for_settings()
_traced = kept_for_settings()


class Rules:
    """The rules of one program's ops; new sub-functions are added to its module.

    Attributes:
      reverse: whether the functions that :meth:`linearize` gives will be transposed.  A primitive
        may have another rule for that than for pushing tangents forward, or only that rule.

    Args:
      prepare: does to the functions of custom rules that are traced later what has been done to the
        program's functions.
    """

    def __init__(
        self,
        program: Module,
        *,
        reverse: bool = False,
        prepare: Callable[[str], None] = lambda symbol: None,
    ):
        self.program = program
        self.reverse = reverse
        self._prepare = prepare
        self.importer: Importer = Importer.into(program)
        self.exporter: exporting.Exporter = exporting.Exporter(program)
        self.functions: TransformedFunctions = TransformedFunctions(self)
        self._own: dict[Any, Any] = {}
        self._setting = setting()

    def jvp(self, op: Any, signature: Signature, active: Mask) -> Template | Emitter:
        """``(*operands, *tangents of active ones) -> (*results, *tangents of active ones)``."""
        trace = functools.partial(jax_rules.jvp, active=active)
        write = functools.partial(self._pattern_template, "jvp")
        return self._template_of("jvp", op, signature, (active,), trace, write)

    def linearize(self, op: Any, signature: Signature, active: Mask, wanted: Mask) -> Linearization:
        """The op's results and residuals, and the linear map of tangents that takes the residuals.
        The tangents of results that are not ``wanted`` may be left out."""
        trace = functools.partial(jax_rules.linearize, active=active, reverse=self.reverse)

        def write(primal: Any, tangent: Any, active_out: Mask) -> Linearization:
            halves = (
                self._pattern_template("jvp", jaxpr, active_out) for jaxpr in (primal, tangent)
            )
            return Linearization(*halves, active)

        return self._template_of("linearize", op, signature, (active,), trace, write, wanted)

    def transpose(
        self, op: Any, signature: Signature, linear: Mask, nonzero: Mask
    ) -> Template | Emitter:
        """``(*nonlinear operands, *nonzero cotangents) -> (*nonzero cotangents of linear ones)``.
        The pattern tells for each linear operand whether its cotangent is nonzero."""
        trace = functools.partial(jax_rules.transpose, linear=linear, nonzero=nonzero)
        write = functools.partial(self._pattern_template, "transpose")
        return self._template_of("transpose", op, signature, (linear, nonzero), trace, write)

    def pullback(
        self,
        halves: Linearization,
        nonzero: Mask,
        transpose: Callable[[], tuple[Template | Emitter, bool]],
    ) -> Template | Emitter:
        """``(*residuals, *nonzero cotangents) -> (*nonzero cotangents of used operands)``.

        The transpose of a linearized op's second half.  The pattern tells for each used operand
        whether its cotangent is nonzero.

        Args:
          nonzero: which of the results that have tangents have cotangents.
          transpose: makes the pullback if there is none yet, and tells whether it holds in every
            program.
        """
        rule = halves.pullbacks.get(nonzero) or self._own.get((halves, nonzero))
        if rule is None:
            place = _slot_of_pullback(self._disk, halves, nonzero)
            rule = place and place.find()
            if rule is not None:
                halves.pullbacks[nonzero] = rule
                return rule
            rule, is_portable = transpose()
            if is_portable:
                halves.pullbacks[nonzero] = place.keep(rule) if place else rule
            else:
                self._own[halves, nonzero] = rule
        return rule

    def batch(self, op: Any, signature: Signature, dims: Dims, axis: Any) -> Template | Emitter:
        """The op on operands batched along ``dims``; the pattern: the results' batch dimensions."""
        trace = functools.partial(jax_rules.batch, dims=dims, axis=axis)
        write = functools.partial(self._pattern_template, "vmap")
        with jax_rules.bound(axis):
            return self._template_of("batch", op, signature, (dims, axis), trace, write)

    def batched(self, op: Any, signature: Signature, dims: Dims, axis: Any) -> Dims:
        """The results' batch dimensions."""
        out_dims = self._native("batched", op, signature, dims, axis)
        return self.batch(op, signature, dims, axis).pattern if out_dims is None else out_dims

    def activity(self, kind: str, op: Any, signature: Signature, active: Mask) -> Mask:
        """Which results have tangents in a ``kind`` of derivative: ``"jvp"`` or ``"linearize"``."""
        active_out = self._native("activity", op, signature, kind, active)
        if active_out is not None:
            return active_out
        if kind == "jvp":
            return self.jvp(op, signature, active).pattern
        all_results = (True,) * len(op.results)
        return self.linearize(op, signature, active, all_results).tangent.pattern

    def uses(self, op: Any, signature: Signature, active: Mask, wanted: Mask) -> Mask:
        """Which active operands the wanted results' tangents depend on."""
        uses = self._native("uses", op, signature, active, wanted)
        if uses is None:
            return self.linearize(op, signature, active, wanted).uses
        return uses

    def partial_eval(
        self, op: Any, signature: Signature, unknown: Mask
    ) -> PartialEvaluation | None:
        """The op split by which operands are unknown; ``None`` where it waits as a whole."""
        native = self._native("partial_eval", op, signature, unknown)
        if native is not None or not _refers(op):
            return native

        def trace(closed: Any) -> tuple[Any, ...]:
            return pe.partial_eval_jaxpr_nounits(closed, unknown, False)

        def write(first: Any, second: Any, unknown_out: Any, _: Any) -> PartialEvaluation:
            halves = (self._pattern_template("", jaxpr, unknown_out) for jaxpr in (first, second))
            return PartialEvaluation(*halves)

        return self._rule("partial_eval", op, signature, unknown, trace, write)

    def discharge(self, op: Any, signature: Signature) -> Template:
        """``(*operands) -> (*results, *references)``, with references replaced by their values,
        before the op and after it."""

        def trace(closed: Any) -> tuple[Any]:
            return (state_discharge.discharge_state(closed, lower=False),)

        write = functools.partial(self._pattern_template, "", pattern=())
        return self._rule("discharge", op, signature, (), trace, write)

    def split_call(self, op: Any, signature: Signature, unknown: Mask) -> PartialEvaluation | None:
        """The partial evaluation of an op that merely calls functions; ``None`` for other ops."""
        return self._native("partial_eval", op, signature, unknown)

    def emit(
        self,
        function: Callable[..., list[Any]],
        args: Sequence[ir.Value],
        key: Any = None,
        shared: bool = True,
    ) -> list[ir.Value]:
        """Writes the ops that a JAX function of the values is traced to.

        Args:
          key: identifies the function, which is traced once per key and types of the values.  By
            default it is the function, or the function and arguments of a ``functools.partial``.
          shared: whether the key identifies the same function in other programs.
        """
        if key is None:
            key = function
            if isinstance(function, functools.partial):
                key = function.func, function.args, tuple(function.keywords.items())

        def trace() -> tuple[Any]:
            return (jax_rules.trace_flat(function, [aval_of(v.type) for v in args], "emit"),)

        def write(closed: Any) -> func.FuncOp:
            with ir.Location.unknown():
                return self._template(closed)

        key = ("emit", self._setting, key, *[v.type for v in args])
        template = self._look_up(key)
        if template is None:
            with widths_of(aval_of(v.type) for v in args):
                template = self._keep(key, trace, write, shared)
        return inline(template, args)

    def filler(self, type_: ir.Type) -> ir.Value:
        """A value of a type, for a place that nothing reads."""
        aval = aval_of(type_)
        if isinstance(aval, core.ShapedArray) and not isinstance(aval.dtype, dtypes.ExtendedDType):
            return zeros(type_)
        return self.emit(lambda: [ad_util.empty_like_aval(aval)], [], ("filler", type_))[0]

    def told(self, op: Any, zeros: Mask) -> dict[str, ir.Attribute]:
        """The attribute that names an op's custom rule for when these (co)tangents are zero, if
        any; see :meth:`RuleTracing.tell`."""
        tracing = self.program.rule_tracing
        return self._traced_rule(tracing.tell, op, zeros) if tracing.can_tell(op) else {}

    def forward_alone(self, op: Any) -> dict[str, ir.Attribute]:
        """The attribute that names the forward rule of a custom_vjp call whose tangents nobody asks
        for, if there is one; see :meth:`RuleTracing.forward_alone`."""
        return (
            self._traced_rule(self.program.rule_tracing.forward_alone, op)
            if is_untraced(op)
            else {}
        )

    def _traced_rule(
        self, ask: Callable[..., dict[str, ir.Attribute]], op: Any, *pattern: Mask
    ) -> dict[str, ir.Attribute]:
        """The attributes of a custom rule that is traced for one op, and kept for the op's mark."""
        key = (ask.__name__, op.attributes[MARK].value, *pattern)
        if key not in self._own:
            attributes = ask(op, *pattern)
            for symbol in itertools.chain(*map(symbol_uses, attributes.values())):
                self._prepare(symbol)
            self._own[key] = attributes
        return self._own[key]

    def mark(self) -> tuple[int, ...]:
        """A point to return to, for :meth:`undo`."""
        return len(self._own), len(self.program.functions), *self.functions.mark()

    def undo(self, mark: tuple[int, ...]) -> None:
        """Forgets the rules made since :meth:`mark`, and erases the functions written since."""
        num_own, functions, *memos = mark
        while len(self._own) > num_own:
            self._own.popitem()
        self.functions.undo(memos)
        imported = self.importer.symbols()
        for symbol in list(self.program.functions)[functions:]:
            if symbol not in imported:
                self.program.functions.pop(symbol).operation.erase()

    def _template_of(
        self,
        kind: str,
        op: Any,
        signature: Signature,
        pattern: tuple[Any, ...],
        trace: Callable[[Any], tuple[Any, ...]],
        write: Callable[..., Any],
        *wanted: Any,
    ) -> Any:
        """The result of the rule of an op with functions, or else of JAX's rule, which ignores
        ``wanted``."""
        key = ("found", kind, signature, pattern, wanted)
        answer = self._own.get(key)
        if answer is None:
            answer = self._native(kind, op, signature, *pattern, *wanted)
            if answer is None:
                answer = self._rule(kind, op, signature, pattern, trace, write)
            self._own[key] = answer
        return answer

    def _native(self, kind: str, op: Any, signature: Signature, *pattern: Any) -> Any | None:
        """The result of the rule of an op with functions; ``None`` if it has none or declines."""
        rule = higher_order.rule_of(signature.name)
        if rule is None:
            return None
        key = (rule, kind, signature, pattern)
        if key not in self._own:
            answer = getattr(rule, kind)(self, op, *pattern) if rule.handles(op) else None
            self._own[key] = answer
        return self._own[key]

    def _rule(
        self,
        kind: str,
        op: Any,
        signature: Signature,
        pattern: Any,
        trace: Callable[[Any], tuple[Any, ...]],
        write: Callable[..., Any],
    ) -> Any:
        """What ``write`` makes of the jaxprs that JAX's rule for the op traces to.  If these call
        functions, each program gets its own result, but the rule is not run again."""
        reverse = self.reverse and kind == "linearize"
        key = (kind, self._setting, reverse, signature, pattern)
        rule = self._look_up(key)
        if rule is not None:
            return rule
        place = _slot(self._disk, signature, kind, reverse, pattern)
        rule = place and place.find()
        alike = pointwise.kind_of(signature) if kind in _OF_ANY_SHAPE else None
        if rule is None and alike is not None:
            of_kind = (kind, self._setting, reverse, alike.key, pattern)
            how = _plain(("any shape", kind, reverse, pattern))
            any_shape = place and CacheSlot(self._disk, self._disk.key(alike.text, how))
            if any_shape and of_kind not in by_kind:
                by_kind[of_kind] = any_shape.find_alike()
            rule = _at_shape(alike.shape, *by_kind.get(of_kind, ()))
            if rule is not None and place:
                rule = place.keep(rule)
        if rule is not None:
            by_signature[key] = rule
            return rule
        name, widths = signature.name, widths_of(map(aval_of, signature.types))
        with _located(kind, op, name), widths, self._with_rules(op):
            rule = self._keep(key, lambda: trace(self.jaxpr_of(op, name)), write, not _refers(op))
        if key not in by_signature:
            return rule
        if place:
            rule = by_signature[key] = place.keep(rule)
        if alike is not None:
            by_kind[of_kind] = rule, alike.shape
            if any_shape:
                self._disk.keep_alike(any_shape.key, place.key, alike.shape)
        return rule

    @functools.cached_property
    def counted(self) -> CountedOps:
        """The ops that must not run more or fewer times, as the program is when this is asked for
        first."""
        return CountedOps(self.program)

    @functools.cached_property
    def _disk(self) -> RuleCache | None:
        """The results that other processes have kept."""
        return disk_cache()

    def _look_up(self, key: Any) -> Any | None:
        """The result that was kept for a key, for all programs or for this one."""
        rule = by_signature.get(key)
        return self._own.get(key) if rule is None else rule

    def _keep(
        self,
        key: Any,
        trace: Callable[[], tuple[Any, ...]],
        write: Callable[..., Any],
        shared: bool,
    ) -> Any:
        """Makes and keeps the result of ``write`` for the jaxprs that ``trace`` gives, for other
        programs too if the key is shared."""
        traced = _traced.get(key) or trace()
        before = self.importer.references
        rule = write(*traced)
        # A result that refers to functions or constants of this program belongs to it only.
        if shared and self.importer.references == before:
            by_signature[key] = rule
        else:
            self._own[key] = rule
            if shared:
                _traced[key] = traced
        return rule

    @contextlib.contextmanager
    def _with_rules(self, op: Any) -> Iterator[None]:
        """Makes the custom rules available that JAX's rule for an op may need, in this context.
        Missing ones are traced, unless JAX can call all of them as they were imported."""
        self.exporter.leaves_rules = self._leaves_rules(op)
        if not self.exporter.leaves_rules and self.program.has_untraced_rules:
            if any(is_untraced(inner) for _, inner in self.custom_ops_within(op)):
                self.program.trace_rules()
        try:
            yield
        finally:
            self.exporter.leaves_rules = False

    def _leaves_rules(self, op: Any) -> bool:
        """Whether JAX's rule for an op does without the program's custom rules, so that those of
        the ops in its result can stay untraced."""
        program = self.program
        if not program.has_untraced_rules:
            return False
        inner = [inner for _, inner in self.custom_ops_within(op)]
        return (
            bool(inner)
            and all(waiting_jvp(program, op) is not None for op in inner)
            and program.rule_tracing.table.config == ConfigSnapshot()
        )

    def custom_ops_within(self, op: Any) -> Iterator[tuple[str, Any]]:
        """The ops with custom derivative rules in the functions that an op reaches, each with the
        symbol of its function."""
        functions = self.program.functions
        for symbol in set().union(*(reachable(functions, symbol) for symbol in symbols_of(op))):
            for inner, name in ops_with_symbols(functions[symbol]):
                if name in custom_rule_ops.OPS:
                    yield symbol, inner

    def jaxpr_of(self, op: Any, name: str) -> Any:
        """The closed jaxpr of one op, over its operands."""
        before = set(self.exporter.made)
        invars = [core.Var(aval_of(v.type)) for v in op.operands]
        eqn = exporting.equation(self.exporter, op, name, invars)
        for symbols in self.exporter.made.keys() - before:
            self.importer.share(symbols, self.exporter.made[symbols])
        info = debug_info("jit", name, len(invars), len(eqn.outvars))
        effects = pe.make_jaxpr_effects([], invars, eqn.outvars, [eqn])
        return close_jaxpr(core.Jaxpr([], invars, eqn.outvars, [eqn], effects, info))

    def _pattern_template(
        self, transformation: str, jaxpr: Any, pattern: Sequence[Any]
    ) -> Template:
        return Template(self._template(jaxpr, transformation), tuple(pattern))

    def _template(self, closed: Any, transformation: str = "") -> func.FuncOp:
        """A function to be copied in.  Its ops then get the location of the op that they replace;
        with a transformation, ``"layer"`` becomes ``"layer/jvp()"``."""
        jaxpr, consts = open_jaxpr(closed)
        place = ir.Location.unknown()
        if transformation:
            place = ir.Location.name(f"{transformation}()", childLoc=place)
        return self.importer.add_function(
            jaxpr,
            consts,
            "template",
            leave_rules=self.exporter.leaves_rules,
            detached=True,
            location=place,
        )


def _at_shape(shape: pointwise.Shape, rule: Any = None, old: Any = None) -> Any | None:
    """The result of a pointwise op's rule, for another shape; ``None`` if it is unknown."""
    if isinstance(rule, Linearization):
        primal, tangent = (_at_shape(shape, half, old) for half in (rule.primal, rule.tangent))
        if primal is None or tangent is None:
            return None
        return replace(rule, primal=primal, tangent=tangent, pullbacks={}, origin=None)
    if rule is None:
        return None
    function = pointwise.reshaped(rule.function.operation, old, shape)
    return function and Template(function.opview, rule.pattern)


def _refers(op: Any) -> bool:
    """Whether an op refers to functions."""
    return any(True for _, attr in op.attributes.items() for _ in symbol_uses(attr))


# Kinds of rules whose patterns name no dimensions.
_OF_ANY_SHAPE = frozenset({"jvp", "linearize", "transpose"})

_VERBS = {
    "jvp": "differentiated",
    "linearize": "differentiated in reverse mode",
    "partial_eval": "partially evaluated",
    "transpose": "transposed",
    "batch": "batched",
    "discharge": "rewritten to take values instead of references",
}


_KEEP_STATES = (
    " Or keep some of the loop's states: while_loops='checkpointed', checkpoints=N (options of a "
    "pass: while=checkpointed checkpoints=N)."
)
_AT_SIZES = (
    "; its shapes are symbolic, which JAX's rule may not support: make the program static first, "
    "program.specialize(*args)"
)
_KEEP_NONE = " while_loops='checkpointed' does not help: it would repeat the loop's side effects."


def _hint(kind: str, op: Any, name: str) -> str:
    """What the user can do about an op that has no rule, or whose rule fails."""
    if (kind, name) != ("transpose", "jaxpr.while"):
        is_symbolic = any(is_dynamic(v.type) for v in (*op.operands, *op.results))
        return _AT_SIZES if is_symbolic else ""
    return _KEEP_NONE if "jaxpr.effects" in op.attributes else _KEEP_STATES


@contextlib.contextmanager
def _located(kind: str, op: Any, name: str) -> Iterator[None]:
    """Has errors of the op's rule name the op and its location."""
    try:
        yield
    except JaxmlirError as e:
        located = exporting.at_op(e, op, name)
        raise located from cause_of(located, e)
    except Exception as e:
        raise _at_op(kind, op, name, e) from e


def _at_op(kind: str, op: Any, name: str, error: Exception) -> TransformError:
    if kind == "transpose" and isinstance(error, AssertionError):
        # JAX's rules assert this where other operands are linear than those the op is linear in.
        reason = "it is not linear in the operands that are to have cotangents"
    else:
        reason = f"{type(error).__name__}: {error}"
    message = f"'{name}' op cannot be {_VERBS[kind]}: {reason}"
    message += _hint(kind, op, name)
    return locations.error_at(TransformError, op.location, message)


class CacheSlot(NamedTuple):
    """The place in the cache where the result of one rule is kept."""

    cache: RuleCache
    key: bytes

    def find(self) -> Any | None:
        """The result of the rule that an earlier process kept."""
        return _read(self.cache.find(self.key), self.key)

    def keep(self, rule: Any) -> Any:
        """Keeps the result of the rule, and returns it."""
        self.cache.keep(self.key, lambda: _written(rule))
        return replace(rule, origin=self.key) if isinstance(rule, Linearization) else rule

    def find_alike(self) -> tuple[()] | tuple[Any, tuple[int, ...]]:
        """The result of a pointwise op's rule for some shape, and that shape."""
        value, shape = self.cache.find_alike(self.key) or (None, ())
        rule = _read(value, None)
        return (rule, shape) if rule else ()


def _slot(cache: RuleCache | None, signature: Signature, *pattern: Any) -> CacheSlot | None:
    """The place of a rule's result for ops of a signature and a pattern; ``None`` if it is not to
    be kept."""
    parts = cache and _plain(pattern)
    key = parts and cache.key_of(signature, parts)
    return key and CacheSlot(cache, key)


def _slot_of_pullback(
    cache: RuleCache | None, halves: Linearization, nonzero: Mask
) -> CacheSlot | None:
    """The place of a linearized op's pullback: its linear half, transposed op by op."""
    if cache is None or halves.origin is None:
        return None
    ops = halves.tangent.function.regions[0].blocks[0] if cache.without else ()
    if any(op.name in cache.without for op in ops):
        return None
    return CacheSlot(cache, cache.key(halves.origin.hex(), _plain(("pullback", nonzero))))


def _plain(value: Any) -> str | None:
    """A pattern as text; ``None`` unless it is made of numbers and flags."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return repr(value)
    if kind is tuple:
        items = list(map(_plain, value))
        return None if None in items else f"({', '.join(items)})"
    if kind is batching.AxisData and type(value.size) is int:
        nameless = value.name is core.no_axis_name and value.spmd_name is None
        return f"axis {value.size}" if nameless and value.explicit_mesh_axis is None else None
    return None


def _written(entry: Any) -> bytes | None:
    """A rule's result as bytes: a line about it, and the bytecode of its templates."""
    if isinstance(entry, Linearization):
        rules, head = [entry.primal, entry.tangent], [entry.uses]
    else:
        rules, head = [entry], []
    codes = [bytecode(rule.function.operation) for rule in rules]
    line = [list(map(len, codes)), *head, *(rule.pattern for rule in rules)]
    try:
        value = b"".join([json.dumps(line).encode(), b"\n", *codes])
    except TypeError:  # A pattern has more in it than numbers.
        return None
    return None if is_of_process(value) else value


def _read(value: bytes | None, key: bytes | None) -> Any | None:
    """The result that :func:`_written` gave as bytes, kept under a key; ``None`` if there is none,
    or if it cannot be read."""
    if value is None:
        return None
    line, _, codes = value.partition(b"\n")
    functions: list[Any] = []
    try:
        sizes, *head = _tuples(json.loads(line))
        for size in sizes:
            module = ir.Module.parse(codes[:size])
            _alive.append(module)
            functions += module.body.operations
            codes = codes[size:]
    except (ValueError, ir.MLIRError):
        return None
    if len(functions) == 1:
        return Template(*functions, *head)
    uses, *patterns = head
    return Linearization(*map(Template, functions, patterns), uses, origin=key)


# An operation does not keep its module alive, and rules live as long as the process.
_alive: list[ir.Module] = []


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
