"""The functions of a program transformed, each once per pattern.

The passes on functions and the rules of ops call each other: a rule transforms the functions that
its op refers to through this memo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.dialect.builder import Uses, symbols_of
from jaxmlir.dialect.ops.__init__ import may_have_functions
from jaxmlir.transforms.activity import Activity, active_results, forward, used_arguments
from jaxmlir.transforms.effects import GivenEffects

if TYPE_CHECKING:
    from jaxmlir.rewriting.dedupe import Copy
    from jaxmlir.transforms.clone_plan import ClonePlan
    from jaxmlir.transforms.higher_order.custom_rules import BatchedRules
    from jaxmlir.transforms.higher_order.residuals import Forwarded
    from jaxmlir.transforms.imports import Loans
    from jaxmlir.transforms.inverses.invert import Inverted
    from jaxmlir.transforms.templates import Rules


_WITH_RULES = frozenset({"jaxpr.custom_jvp_call_jaxpr", "jaxpr.custom_vjp_call_jaxpr"})
# What calls functions whose derivatives change nothing about its results.
_AS_IT_STANDS = frozenset({"jaxpr.custom_lin", "jaxpr.custom_linear_solve", "jaxpr.linear_call"})


class Copied(NamedTuple):
    """What is known of the functions of a program that is being made."""

    copies: dict[str, Copy]
    """Those that are copies, by symbol."""
    uses: Uses


class Functions:
    """The transformed functions of one program, by symbol, transformation and pattern.

    Attributes:
      loans: the functions that are transformed elsewhere, if there may be any.
    """

    def __init__(self, rules: Rules):
        self._rules = rules
        self.loans: Loans | None = None
        self._made: dict[Any, Any] = {}
        # Batches that are patterns for those of functions that are alike, and what those refer to
        # that were copied.
        self.batches: dict[Any, tuple[ClonePlan, Any]] = {}
        self.copied = Uses(rules.program)
        self.batched_rules: dict[Any, BatchedRules] = {}
        self.given_effects = GivenEffects(rules)

    def body(self, symbol: str) -> FunctionView:
        """``@symbol`` with its values numbered.  Functions that are referred to do not change."""
        return self.once(_body, symbol)

    def read(self, symbol: str) -> FunctionView:
        """Likewise, of a function that may change later: it is read now unless it was before."""
        return self._made.get((_body, symbol, ())) or _body(self._rules, symbol)

    @contextmanager
    def having_read(self, symbol: str, body: FunctionView | None) -> Iterator[None]:
        """Meanwhile ``@symbol`` is not read again, if it has been."""
        if body is None:
            yield
            return
        key = (_body, symbol, ())
        self._made[key] = body
        try:
            yield
        finally:
            del self._made[key]

    def forward(self, symbol: str, active: tuple[bool, ...], kind: str) -> Activity:
        """What has a tangent when the function is differentiated by ``kind``."""
        return self.once(forward, symbol, active, kind)

    def activity(self, symbol: str, active: tuple[bool, ...], kind: str) -> tuple[bool, ...]:
        """Which results have tangents when the function is differentiated by ``kind``."""
        return self.derived(active_results, symbol, active, kind)

    def uses(
        self, symbol: str, active: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        """Which active arguments the wanted results' tangents depend on."""
        return self.derived(used_arguments, symbol, active, wanted)

    def jvp(
        self, symbol: str, active: tuple[bool, ...], required: tuple[bool, ...] = ()
    ) -> tuple[str, tuple[bool, ...]]:
        """The symbol of ``@symbol.jvp``, and which results have tangents."""
        from jaxmlir.transforms.jvp import jvp

        return self.derived(jvp, symbol, active, required)

    def holds_rules(self, symbol: str) -> bool:
        """Whether a function that has a derivative rule of its own is called in ``@symbol``, or in
        what that calls."""
        (found,) = self.derived(_holds_rules, symbol)
        return found

    def primals(self, symbol: str, active: tuple[bool, ...]) -> str:
        """``@symbol`` as a derivative computes its results, whose own derivatives are of these: a
        custom rule that is given a tangent says what the result is, in place of its function."""
        from jaxmlir.transforms.linearize import linearize

        if not self.holds_rules(symbol):
            return symbol
        wanted = (False,) * len(self.body(symbol).returned)
        return self.derived(linearize, symbol, active, wanted).fwd

    def linearize_call(
        self,
        symbol: str,
        active: tuple[bool, ...],
        wanted: tuple[bool, ...],
        required: tuple[bool, ...] | None = None,
        taken: tuple[bool, ...] | None = None,
    ) -> Forwarded:
        """``@symbol.fwd`` and ``@symbol.lin``; the first gives only residuals that its caller does
        not have."""
        from jaxmlir.transforms.higher_order.residuals import linearize_call

        return self.derived(linearize_call, symbol, active, wanted, required, taken)

    def mattering(
        self, symbol: str, active: tuple[bool, ...], used: tuple[bool, ...]
    ) -> tuple[bool, ...]:
        """The active arguments that ``@symbol`` is to be linearized in when only tangents of those
        that are used will be taken: custom rules, and nothing else, have to be told of all."""
        return active if self.holds_rules(symbol) else used

    def partial_eval_call(self, symbol: str, unknown: tuple[bool, ...]) -> Forwarded:
        """``@symbol.known`` and ``@symbol.unknown``, likewise."""
        from jaxmlir.transforms.higher_order.residuals import partial_eval_call

        return self.derived(partial_eval_call, symbol, unknown)

    def unknown_results(self, symbol: str, unknown: tuple[bool, ...]) -> tuple[bool, ...]:
        """Which results depend on an unknown argument."""
        from jaxmlir.transforms.partial_eval import unknown_results

        return self.derived(unknown_results, symbol, unknown)

    def linearize_rule(
        self, symbol: str, unknown: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Forwarded:
        """A JVP rule as ``@symbol.fwd`` and ``@symbol.lin``: split by which tangents there are."""
        from jaxmlir.transforms.higher_order.residuals import partial_eval_call

        return self.derived(partial_eval_call, symbol, unknown, wanted, None, ("fwd", "lin"))

    def transpose(
        self, symbol: str, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
    ) -> tuple[str, tuple[bool, ...]]:
        """The symbol of the transpose, and which linear arguments it gives cotangents of."""
        return self.derived(_transposed, symbol, linear, nonzero)

    def batched(
        self, symbol: str, dims: tuple[int | None, ...], axis: Any
    ) -> tuple[int | None, ...]:
        """Where the rules leave the batch dimension of each result."""
        from jaxmlir.transforms.vmap import batched_results

        return self.derived(batched_results, symbol, dims, axis)

    def batch(
        self,
        symbol: str,
        dims: tuple[int | None, ...],
        axis: Any,
        out_dims: Any = None,
    ) -> tuple[str, tuple[int | None, ...]]:
        """The symbol of ``@symbol.vmap``, and each result's batch dimension: ``out_dims``, or where
        the rules leave it."""
        from jaxmlir.transforms.vmap import vmap

        return self.derived(vmap, symbol, dims, axis, out_dims)

    def inverse(
        self, symbol: str, arguments: tuple[bool, ...], results: tuple[bool, ...], log_det: Any
    ) -> Inverted:
        """What follows from the arguments and results that are known."""
        from jaxmlir.transforms.inverses.invert import invert

        return self.once(invert, symbol, arguments, results, log_det)

    def copy_in(self, *roots: str) -> Copied:
        """Brings what some functions reach into the program's module; what is known of these."""
        if self.loans is None:
            return Copied({}, Uses(self._rules.program))
        return self.loans.copy_in(*roots)

    def mark(self) -> list[int]:
        """A point to return to, for :meth:`undo`."""
        return [len(self._made), len(self.batched_rules), len(self.batches)]

    def undo(self, mark: Sequence[int]) -> None:
        """Forgets what was made since."""
        memos = self._made, self.batched_rules, self.batches
        for memo, count in zip(memos, mark, strict=True):
            while len(memo) > count:
                memo.popitem()

    def derived(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """Likewise, of what the library may have: the symbols of functions, and patterns."""
        if self.loans is not None and symbol in self.loans:
            return self.loans.derived(transform, symbol, *pattern)
        return self.once(transform, symbol, *pattern)

    def once(self, transform: Callable[..., Any], symbol: str, *pattern: Any) -> Any:
        """``transform(rules, symbol, *pattern)``, or what it returned before."""
        key = (transform, symbol, pattern)
        if key not in self._made:
            if self.loans is not None:
                self.loans.check(symbol)
            self._made[key] = transform(self._rules, symbol, *pattern)
        return self._made[key]


def _body(rules: Rules, symbol: str) -> FunctionView:
    return FunctionView(rules.program.function(symbol))


def _holds_rules(rules: Rules, symbol: str) -> tuple[bool]:
    return (any(holds_rules(rules, op) for op in rules.functions.body(symbol).ops),)


def holds_rules(rules: Rules, op: Any) -> bool:
    """Whether an op calls a function with a derivative rule of its own: then its results may not be
    what they are when it is differentiated."""
    name = op.operation.name
    if name in _WITH_RULES:
        return True
    return (
        may_have_functions(name)
        and name not in _AS_IT_STANDS
        and any(map(rules.functions.holds_rules, symbols_of(op)))
    )


def _transposed(
    rules: Rules, symbol: str, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[str, tuple[bool, ...]]:
    from jaxmlir.transforms.transpose import transpose_nonzero

    name = f"{symbol.removesuffix('.lin')}.bwd"
    return transpose_nonzero(rules, symbol, linear, name, nonzero)
