"""Helpers for ops with a user's derivative rules: reading the rules, and batching a function
together with them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxmlir._compat import dtypes
from jaxmlir.bridge.custom_rules.pending import Attributes, DerivedSource, NamedRules, PendingRules
from jaxmlir.dialect import custom_rule_ops, locations
from jaxmlir.dialect.builder import attribute, create, symbol_ref
from jaxmlir.dialect.custom_rule_ops import ATTRIBUTES as OF_RULES
from jaxmlir.dialect.custom_rule_ops import MARK, is_choosy, is_untraced, out_zeros
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import ExportError, JaxmlirError, TransformError, UntracedRuleError, message_of
from jaxmlir.support.masks import Dims, Mask, filled, inverted
from jaxmlir.transforms.emitters import Emitter
from jaxmlir.transforms.jax_rules import bound
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batched_results, vmap_of

_TANGENT_ALONE = (
    "it gives batched derivatives of a result that is not batched; trace the rules before "
    "batching: program.trace_rules()"
)
CANNOT_ASK = (
    "the rule may depend on which tangents are zero, and a program that was loaded or changed "
    "cannot trace it again: differentiate the traced program, then save the derivative"
)


def error_at(op: Any, message: str) -> TransformError:
    """An error at an op, with the user's line."""
    return locations.error_at(TransformError, op.location, f"'{op.operation.name}' op: {message}")


def fitting_rule(
    rules: Rules,
    op: Any,
    attributes: Mapping[str, ir.Attribute],
    name: str,
    symbols: Iterable[str],
    nonzero: Mask,
) -> func.FuncOp:
    """The rule of an op for nonzero (co)tangents: :func:`.custom_rule_ops.fitting_rule`, whose
    errors are raised at the op."""
    functions = map(rules.program.function, symbols)
    try:
        return custom_rule_ops.fitting_rule(attributes, name, functions, inverted(nonzero))
    except ExportError as e:
        message = message_of(e)
        if isinstance(e, UntracedRuleError) and is_choosy(op) and MARK not in op.attributes:
            message += "; " + CANNOT_ASK
        raise error_at(op, message) from None


def places_given(rule: func.FuncOp, count: int, first: int = 0) -> list[int | None]:
    """The position of each of a rule's (co)tangents among its results, whose first is ``first``;
    ``None`` if left out."""
    gives = inverted(out_zeros(rule, count))
    return filled(itertools.count(first), gives)


@functools.cache
def is_float0(type_: ir.Type) -> bool:
    """Whether values of a type are tangents of integers, which carry no information."""
    return getattr(aval_of(type_), "dtype", None) == dtypes.float0


@dataclass(eq=False)
class BatchedRules:
    """The symbols of batched rules, by the keys of ``write``, and the results' dimensions."""

    symbols: dict[Any, str]
    out_dims: Dims
    used: bool = False
    """Whether a rule called its own function while it was being batched."""


def batch_rules(
    rules: Rules,
    key: Any,
    symbols: dict[Any, str],
    guess: Dims,
    write: Callable[[BatchedRules], Dims],
) -> BatchedRules:
    """Batches the rules of a function, once for each pattern.

    A rule may call the function it belongs to.  Batching that call needs the symbols of the batched
    rules and the dimensions of the results before the rules are written.  So symbols are reserved,
    and dimensions guessed.  If a rule then gives a batched result that was guessed to be unbatched,
    and the guess was used, the rules are written anew.

    Args:
      key: identifies the function, its rules and the pattern.
      symbols: the rules to batch, by the keys under which ``write`` finds the batched ones.
      guess: the dimensions of the batched function's results.
      write: writes the batched rules under the reserved symbols, and gives the dimensions that the
        results need to have.
    """
    memo = rules.functions.batched_rules
    if key in memo:
        memo[key].used = True
        return memo[key]
    while True:
        before = rules.mark()
        reserved = {
            name: rules.importer.unique_symbol(f"{symbol}.vmap") for name, symbol in symbols.items()
        }
        entry = memo[key] = BatchedRules(reserved, guess)
        needed = write(entry)
        if needed == guess or not entry.used:
            entry.out_dims = needed
            return entry
        rules.undo(before)
        guess = needed


class Batch(NamedTuple):
    """How a call with rules is batched.

    Attributes:
      dims, out_dims: the batch dimensions of its operands and results.
      settled: whether the rules have to get by with the results' dimensions, if they can.
    """

    dims: Dims
    axis: Any
    out_dims: Dims
    settled: bool = False


BatchAttributes = Callable[[Rules, Attributes, Batch], tuple[Attributes, Dims]]
"""Writes the batched rules of an op with these attributes; gives the attributes that name them, and
the dimensions that the results need to have."""


def batch_call(
    rules: Rules, op: Any, dims: Dims, axis: Any, batch_attributes: BatchAttributes
) -> Emitter:
    """A batched call of a function that has rules; the rules are batched too."""
    function = op.attributes["call_jaxpr"].value
    own_dims = batched_results(rules, function, dims, axis)
    operands = dims[attribute(op, "num_consts", 0) :]
    batch = Batch(operands, axis, own_dims)
    attributes, out_dims = with_batched_rules(rules, op, batch, batch_attributes)
    symbol, _ = vmap_of(rules, function, dims, axis, out_dims)
    attributes["call_jaxpr"] = symbol_ref(symbol)
    types = list(rules.program.function(symbol).type.results)
    name = op.operation.name
    return Emitter(out_dims, lambda args: create(name, types, args, attributes))


def with_batched_rules(
    rules: Rules, op: Any, batch: Batch, batch_attributes: BatchAttributes
) -> tuple[Attributes, Dims]:
    """The attributes of a batched op, and the dimensions of its results.

    Untraced rules are batched when they are traced.  Then it is too late to batch a result whose
    tangent turns out to be batched.  So a JVP rule, if there may be one, is traced at once.  The
    rule of an op inside a rule is not: it is for another derivative, and there may be many such
    ops.
    """
    tracing, out_dims = rules.program.rule_tracing, batch.out_dims

    def mark(attributes: Attributes, out_dims: Dims) -> Attributes:
        settled = batch._replace(out_dims=out_dims, settled=True)
        source = _BatchedSource(tracing.table.of(op), batch_attributes, settled)
        return attributes | {MARK: tracing.table.number(source)}

    def can_wait() -> bool:
        has_jvp = op.operation.name == "jaxpr.custom_jvp_call_jaxpr"
        return batch.axis.size > 0 and (not has_jvp or tracing.table.of(op).in_rule)

    # A mark in a text that was written by hand stands for no rule.
    if is_untraced(op) and tracing.table is not None:
        attributes = dict(op.attributes.items())
        if None not in out_dims or can_wait():
            return mark(attributes, out_dims), out_dims
        if tracing.can_tell(op):
            # The rule that is told of no zeros takes all tangents there may be.
            with bound(batch.axis):
                traced = rules.told(op, (False,) * len(batch.dims))
            _, out_dims = batch_attributes(rules, attributes | traced, batch)
            return mark(attributes, out_dims), out_dims
        with bound(batch.axis):
            rules.program.trace_rules(of=op)
    attributes = dict(op.attributes.items())
    batched, out_dims = batch_attributes(rules, attributes, batch)
    attributes |= batched
    if tracing.can_tell(op):
        return mark(attributes, out_dims), out_dims
    return attributes, out_dims


@dataclass(frozen=True)
class _BatchedSource(DerivedSource):
    """The rules of a batched op: those of the original op, batched."""

    batch_attributes: BatchAttributes
    batch: Batch

    def trace(self, attributes: Attributes, pending: PendingRules) -> NamedRules:
        traced = self._traced(self.of.trace(attributes, pending))
        return self._batched(attributes, traced, pending)

    def tell(self, attributes: Attributes, pending: PendingRules, zeros: Mask) -> NamedRules:
        plain = {k: v for k, v in attributes.items() if k not in OF_RULES}
        return self._batched(plain, self._traced(self.of.tell(plain, pending, zeros)), pending)

    def backward(self, pending: PendingRules, in_zeros: Mask, ct_zeros: Mask | None) -> NamedRules:
        """The backward rules, batched with the forward rule whose residuals they take."""
        of_call = self._traced(self.of.tell({}, pending, in_zeros))
        backward = self._traced(self.of.backward(pending, in_zeros, ct_zeros))
        for name, value in backward.items():
            if name == "bwd":
                of_call["bwd_jaxpr"] = value
            elif name == "bwd_with_zeros":
                family = ir.ArrayAttr.get([of_call["fwd_jaxpr"], *value])
                of_call["vjp_with_zeros"] = ir.ArrayAttr.get([family])
            else:
                of_call[name] = value
        for name, value in self._batched({}, of_call, pending):
            if name == "bwd_jaxpr":
                yield "bwd", value
            elif name == "vjp_with_zeros":
                yield "bwd_with_zeros", ir.ArrayAttr.get(list(value[0])[1:])
            elif name == "bwd_error":
                yield name, value

    def _traced(self, rules: NamedRules) -> Attributes:
        """The rules of the original op, traced where the batch's axis has its name."""
        with bound(self.batch.axis):
            return dict(rules)

    def _batched(
        self, attributes: Attributes, traced: Attributes, pending: PendingRules
    ) -> NamedRules:
        """The batched rules, in place of the traced ones."""
        attributes = attributes | traced
        rules = pending.once(Rules)
        # The rules that were just traced must survive a failure.
        rules.program.reread()
        before = rules.mark()
        try:
            with pending.writing():
                batched, out_dims = self.batch_attributes(rules, attributes, self.batch)
                if out_dims != self.batch.out_dims:
                    raise JaxmlirError(_TANGENT_ALONE)
        except JaxmlirError as e:
            # Treated like a rule that cannot be traced.
            rules.undo(before)
            alone = (name for name in traced if not name.endswith("_with_zeros"))
            stems = {name.split("_")[0] for name in alone if name in OF_RULES}
            batched = {f"{stem}_error": ir.StringAttr.get(str(e)) for stem in stems}
        yield from ((name, value) for name, value in traced.items() if name not in OF_RULES)
        yield from batched.items()


def batched_with_rules(rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims | None:
    """The results' batch dimensions; ``None`` if they depend on the rules.  If all results of the
    function are batched, the rules' results are batched alike."""
    out_dims = batched_results(rules, op.attributes["call_jaxpr"].value, dims, axis)
    return None if None in out_dims else out_dims


def joined(*dims: int | None) -> int | None:
    """The common dimension of values that must be batched alike: batched if any of them is."""
    return next((d for d in dims if d is not None), None)


def keep_attributes(source: func.FuncOp, target: func.FuncOp) -> None:
    """Copies the attributes that describe a rule's (co)tangents and residuals."""
    for name in ("jaxpr.in_zeros", "jaxpr.out_zeros", "jaxpr.num_res", "jaxpr.input_fwds"):
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]
