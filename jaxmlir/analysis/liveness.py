"""Which ops, arguments and operands of a program contribute to the results that are used.

Liveness is computed for a function and a *mask* of its results: those that are used.  A function
that is called twice may get two answers, as in JAX.  Ops with functions pass the question on:

* a call uses the operands whose arguments its function uses;
* a loop's carried value is used if it is used after the loop, or if a used value depends on it in
  some iteration: a least fixed point, found by asking again with more results until no more are
  added;
* a cond uses what any of its branches uses.

An op is also kept for its effects, by the rules of JAX's dead code elimination: all effects count
except reads, fresh references, and the mention of a mesh axis.  Functions that other attributes
name, such as custom derivative rules, must stay as they are; they are *pinned*.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect import codec, custom_rule_ops
from jaxmlir.dialect.builder import has_lasting_effects, named_ops, symbols_of
from jaxmlir.dialect.effect_attributes import is_droppable
from jaxmlir.dialect.ir import func, ir, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.support.masks import Mask, chosen, fixpoint


class FunctionVariant(NamedTuple):
    """A function restricted to some of its results and arguments."""

    symbol: str
    results: Mask
    arguments: Mask


def whole(function: func.FuncOp) -> FunctionVariant:
    """The variant that keeps all results and arguments of a function."""
    type_ = function.type
    return FunctionVariant(
        function.name.value, (True,) * len(type_.results), (True,) * len(type_.inputs)
    )


class PrunedOp(NamedTuple):
    """The operands, results and functions that remain of an op."""

    operands: Mask
    results: Mask
    functions: dict[str, list[FunctionVariant]]
    """By attribute, the variants that replace the functions named there."""
    counts: Mapping[str, int] = {}
    """Attributes that count operands."""
    dropped: tuple[str, ...] = ()
    """Attributes to remove."""
    name: str | None = None
    """The new name of the op, if it becomes another op."""
    added: Mapping[str, ir.Attribute] = {}
    """Attributes to add for the new name."""

    @property
    def is_whole(self) -> bool:
        """Whether the op is unchanged and refers to whole functions."""
        variants = itertools.chain.from_iterable(self.functions.values())
        return (
            all(self.operands)
            and all(self.results)
            and not (self.dropped or self.name or self.added)
            and all(all(v.results) and all(v.arguments) for v in variants)
        )


# How deep the recursion into nested functions goes.
MAX_DEPTH = 20


class _TooDeep(Exception):
    """Functions are nested deeper."""

    def __init__(self, *question: Any):
        self.question = question


class LiveOps(NamedTuple):
    """The answer for one function and mask; ops are given by index."""

    arguments: Mask
    dead: list[int]
    cuts: dict[int, PrunedOp]
    pinned: set[str]
    """Functions that must stay as they are."""

    @property
    def drops(self) -> bool:
        """Whether an op is removed or becomes another op."""
        return bool(self.dead) or any(cut.name for cut in self.cuts.values())


class Liveness:
    """Answers for the functions of one program, each computed once.

    Args:
      custom_rules: whether custom derivative rules are needed.  They are not in a program that is
        about to be lowered: there a call with rules is a plain call.
      read: returns the view of a function given by its symbol, which may have been read already;
        by default it is read here.
    """

    def __init__(
        self,
        functions: dict[str, func.FuncOp],
        *,
        custom_rules: bool = True,
        read: Callable[[str], FunctionView] | None = None,
    ):
        self.functions = functions
        self._read = read
        self._rules = _RULES if custom_rules else _RULES | _WITHOUT_CUSTOM_RULES
        self._ops: dict[str, list[tuple[Any, str]]] = {}
        self._bodies: dict[str, FunctionView] = {}
        self._live: dict[tuple[str, Mask], LiveOps] = {}
        # By the functions that an op runs, whether ops of other dialects keep it.
        self._lasting: dict[tuple[str, ...], bool] = {}
        # The enclosing functions of the one being analyzed, and their maximal number.
        self._walking: set[str] = set()
        self._limit = 0

    def ops(self, symbol: str) -> list[tuple[Any, str]]:
        """The ops of ``@symbol`` before its return, with their names.  They are kept: walking a
        block takes half as long as everything else done with most ops."""
        ops = self._ops.get(symbol)
        if ops is None:
            ops = self._ops[symbol] = named_ops(self.functions[symbol])
        return ops

    def all_ops(self) -> Iterator[tuple[Any, str]]:
        """The ops of all functions."""
        return itertools.chain.from_iterable(map(self.ops, self.functions))

    def body(self, symbol: str) -> FunctionView:
        body = self._bodies.get(symbol)
        if body is None:
            if self._read is None:
                body = FunctionView(self.functions[symbol], self.ops(symbol), custom_rules=False)
            else:
                body = self._read(symbol)
            self._bodies[symbol] = body
        return body

    def of(self, symbol: str, results: Mask) -> LiveOps:
        """The arguments and ops of ``@symbol`` that some of its results need."""
        live = self._live.get((symbol, results))
        if live is None:
            if not self._walking:
                return self._of_outermost(symbol, results)
            if len(self._walking) >= self._limit:
                raise _TooDeep(symbol, results)
            live = self._find(symbol, results)
        return live

    def _find(self, symbol: str, results: Mask) -> LiveOps:
        self._walking.add(symbol)
        live = self._live[symbol, results] = self._walk(self.body(symbol), results)
        self._walking.discard(symbol)
        return live

    def _of_outermost(self, symbol: str, results: Mask) -> LiveOps:
        """The answer to an outermost question.  Functions nested too deeply are analyzed first,
        outside of the recursion that meets them."""
        asked_for = [(symbol, results, set[str]())]
        try:
            while asked_for:
                symbol, results, around = asked_for[-1]
                self._walking, self._limit = set(around), len(around) + MAX_DEPTH
                try:
                    live = self._find(symbol, results)
                    asked_for.pop()
                except _TooDeep as deep:
                    asked_for.append((*deep.question, self._walking))
        finally:
            self._walking = set()
        return live

    def arguments(self, symbol: str, results: Mask) -> Mask:
        """The arguments that ``@symbol`` needs for those results."""
        return self.of(symbol, results).arguments

    def needed(self, entries: Sequence[FunctionVariant]) -> list[FunctionVariant]:
        """The variants that ``entries`` need, directly or not, themselves included."""
        variants: dict[FunctionVariant, None] = {}
        pending = list(entries)
        while pending:
            variant = pending.pop()
            if variant not in variants:
                variants[variant] = None
                live = self.of(variant.symbol, variant.results)
                pending += [whole(self.functions[symbol]) for symbol in sorted(live.pinned)]
                for cut in live.cuts.values():
                    pending += itertools.chain(*cut.functions.values())
        return list(variants)

    def drops(self, entry: FunctionVariant) -> bool:
        """Whether a variant, or one that it needs, lacks parts of its function."""
        return any(
            not (all(v.results) and all(v.arguments)) or self.of(v.symbol, v.results).drops
            for v in self.needed([entry])
        )

    def listed_effects(self, symbol: str) -> Iterator[ir.ArrayAttr]:
        """The effects of the ops of ``@symbol`` that have any."""
        body = self._bodies.get(symbol)
        if body is not None:
            yield from body.effects.values()
            return
        for op, _ in self.ops(symbol):
            attributes = op.attributes
            if len(attributes) and "jaxpr.effects" in attributes:
                yield attributes["jaxpr.effects"]

    def effects(self, variant: FunctionVariant) -> set[ir.Attribute]:
        """The effects that a variant still has; only those that name no operand are meaningful."""
        body, live = self.body(variant.symbol), self.of(variant.symbol, variant.results)
        remaining: set[ir.Attribute] = set()
        for i in body.effects.keys() - set(live.dead):
            effects = body.effects[i]
            remaining.update(
                self.effects_left(effects, live.cuts[i]) if i in live.cuts else effects
            )
        return remaining

    def effects_left(self, effects: Iterable[ir.Attribute], cut: PrunedOp) -> list[ir.Attribute]:
        """The effects of the remaining part of an op, with operands renumbered."""
        operands = cut.operands
        positions = dict(
            zip(chosen(range(len(operands)), operands), itertools.count(), strict=False)
        )
        inside: set[ir.Attribute] | None = None
        left = []
        for item in effects:
            effect = codec.decode(item)
            index = getattr(effect, "input", None)
            if isinstance(index, int):
                if index in positions:
                    left.append(codec.encode(effect.replace(positions[index])))
                continue
            if is_droppable(item):
                if inside is None:
                    inside = set().union(
                        *map(self.effects, itertools.chain(*cut.functions.values()))
                    )
                if item not in inside:
                    continue
            left.append(item)
        return left

    @property
    def met_custom_rules(self) -> bool:
        """Whether any function looked at has an op with custom derivative rules."""
        return any(not custom_rule_ops.OPS.isdisjoint(body.names) for body in self._bodies.values())

    def with_custom_rules(self) -> Liveness:
        """Answers for the same functions where custom derivative rules are needed."""
        liveness = Liveness(self.functions)
        liveness._ops, liveness._bodies = self._ops, self._bodies
        return liveness

    def _walk(self, body: FunctionView, results: Mask) -> LiveOps:
        live = bytearray(len(body.types))
        for value, used in zip(body.returned, results, strict=True):
            if used:
                live[value] = True
        dead: list[int] = []
        cuts: dict[int, PrunedOp] = {}
        pinned: set[str] = set()
        for i in range(len(body.names) - 1, -1, -1):
            first, last = body.results[i]
            if True not in live[first:last] and not self._is_lasting(body, i):
                dead.append(i)
                continue
            name, operands = body.names[i], body.operands[i]
            if may_have_functions(name):
                cut = self._cut(body, i, tuple(map(bool, live[first:last])), pinned)
                if cut is not None:
                    cuts[i] = cut
                    operands = chosen(operands, cut.operands)
            for value in operands:
                live[value] = True
        return LiveOps(tuple(map(bool, live[: body.arity])), dead, cuts, pinned)

    def _is_lasting(self, body: FunctionView, index: int) -> bool:
        """Whether an op without used results stays."""
        op, signature = body.ops[index], body.signatures[index]
        if signature.is_lasting or not may_have_functions(signature.name):
            return signature.is_lasting
        symbols = tuple(symbols_of(op, custom_rules=False))
        if symbols not in self._lasting:
            self._lasting[symbols] = has_lasting_effects(op, signature.name, self.functions)
        return self._lasting[symbols]

    def _cut(
        self, body: FunctionView, index: int, results: Mask, pinned: set[str]
    ) -> PrunedOp | None:
        op, name = body.ops[index], body.names[index]
        rule, symbols = self._rules.get(name), set(symbols_of(op))
        # A function that calls itself is left as it is.
        if rule is not None and not symbols & self._walking:
            return rule(self, op, results)
        pinned |= symbols
        return None


# --- ops with functions ---------------------------------------------------------------------------

_LivenessRule = Callable[[Liveness, Any, Mask], PrunedOp]


def _function(op: Any, attribute: str) -> str:
    return op.attributes[attribute].value


def count_of(op: Any, attribute: str) -> int:
    """The value of an integer attribute, 0 if it is absent."""
    attributes = op.attributes
    return attributes[attribute].value if attribute in attributes else 0


def _call(attribute: str) -> _LivenessRule:
    """The rule of ops whose operands and results are those of one function."""

    def rule(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
        symbol = _function(op, attribute)
        arguments = liveness.arguments(symbol, results)
        return PrunedOp(
            arguments, results, {attribute: [FunctionVariant(symbol, results, arguments)]}
        )

    return rule


def _cond(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
    symbols = list(symbol_uses(op.attributes["branches"]))
    arguments = _either(*[liveness.arguments(symbol, results) for symbol in symbols])
    branches = [FunctionVariant(symbol, results, arguments) for symbol in symbols]
    return PrunedOp((True, *arguments), results, {"branches": branches})


def _scan(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
    symbol = _function(op, "jaxpr")
    consts, carry = count_of(op, "num_consts"), count_of(op, "num_carry")
    ys = results[carry:]

    def iteration(used: list[bool]) -> Mask:
        return liveness.arguments(symbol, (*used, *ys))[consts : consts + carry]

    out = (*fixpoint(results[:carry], iteration), *ys)
    arguments = liveness.arguments(symbol, out)
    arguments = (*arguments[:consts], *out[:carry], *arguments[consts + carry :])
    counts = {"num_consts": sum(arguments[:consts]), "num_carry": sum(out[:carry])}
    return PrunedOp(arguments, out, {"jaxpr": [FunctionVariant(symbol, out, arguments)]}, counts)


def _while(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
    cond, body = _function(op, "cond_jaxpr"), _function(op, "body_jaxpr")
    n_cond, n_body = count_of(op, "cond_nconsts"), count_of(op, "body_nconsts")
    of_cond = liveness.arguments(cond, (True,))
    asked_for = _either(results, of_cond[n_cond:])
    carry = tuple(fixpoint(asked_for, lambda c: liveness.arguments(body, tuple(c))[n_body:]))
    of_body = liveness.arguments(body, carry)
    cond_consts, body_consts = of_cond[:n_cond], of_body[:n_body]
    return PrunedOp(
        (*cond_consts, *body_consts, *carry),
        carry,
        {
            "cond_jaxpr": [FunctionVariant(cond, (True,), (*cond_consts, *carry))],
            "body_jaxpr": [FunctionVariant(body, carry, (*body_consts, *carry))],
        },
        {"cond_nconsts": sum(cond_consts), "body_nconsts": sum(body_consts)},
    )


def _remat_opt(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
    """Without used residuals the op becomes a call of the primal function, else it keeps both."""
    fwd, n_res = _function(op, "fwd_jaxpr"), count_of(op, "num_res")
    n_consts, n_operands = count_of(op, "num_consts"), len(op.operands)
    if "fun_jaxpr" not in op.attributes:
        function = whole(liveness.functions[fwd])
        return PrunedOp((True,) * n_operands, (True,) * len(results), {"fwd_jaxpr": [function]})
    fun = _function(op, "fun_jaxpr")
    if any(results[:n_res]):
        all_args = (True,) * (n_operands - n_consts)
        arguments = (*liveness.arguments(fwd, results)[:n_consts], *all_args)
        functions = {
            "fwd_jaxpr": [FunctionVariant(fwd, results, arguments)],
            "fun_jaxpr": [FunctionVariant(fun, results[n_res:], all_args)],
        }
        counts = {"num_consts": sum(arguments[:n_consts]), "num_res": sum(results[:n_res])}
        return PrunedOp(arguments, results, functions, counts)
    arguments = liveness.arguments(fun, results[n_res:])
    return PrunedOp(
        (*(False,) * n_consts, *arguments),
        results,
        {"jaxpr": [FunctionVariant(fun, results[n_res:], arguments)]},
        dropped=("fwd_jaxpr", "fun_jaxpr", "num_consts", "num_res"),
        name="jaxpr.jit",
        added={"name": ir.StringAttr.get(fun)},
    )


def _either(*masks: Sequence[bool]) -> Mask:
    return tuple(any(column) for column in zip(*masks, strict=True))


_RULES: dict[str, _LivenessRule] = {
    **{f"jaxpr.{name}": _call("jaxpr") for name in ("jit", "remat2", "shard_map")},
    **{f"jaxpr.{name}": _call("call_jaxpr") for name in ("call", "closed_call", "eval_jaxpr")},
    "jaxpr.cond": _cond,
    "jaxpr.remat_opt": _remat_opt,
    "jaxpr.scan": _scan,
    "jaxpr.while": _while,
}


def _call_without_rules(liveness: Liveness, op: Any, results: Mask) -> PrunedOp:
    cut = _call("call_jaxpr")(liveness, op, results)
    num_consts = sum(cut.operands[: count_of(op, "num_consts")])
    rule_attributes = (*custom_rule_ops.ATTRIBUTES, custom_rule_ops.MARK)
    dropped = tuple(key for key in rule_attributes if key in op.attributes)
    return cut._replace(counts={"num_consts": num_consts}, dropped=dropped)


_WITHOUT_CUSTOM_RULES: dict[str, _LivenessRule] = {
    "jaxpr.custom_jvp_call_jaxpr": _call_without_rules,
    "jaxpr.custom_vjp_call_jaxpr": _call_without_rules,
}


def liveness_of(program: Module) -> Liveness:
    """The liveness of a module's functions for lowering: custom rules keep nothing alive."""
    return program.get_analysis(_for_lowering)


def _for_lowering(program: Module) -> Liveness:
    return Liveness(program._functions, custom_rules=False)
