"""Purity: which ops do nothing but give their results, wherever and however often they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect import ops
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import ir, is_foreign, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.random import RANDOM
from jaxmlir.support.lazy import memoized


def is_pure(name: str) -> bool:
    """Whether ops with a name are pure, apart from the effects that they declare.  An unknown
    primitive is taken to have no other effects; an op of another dialect may have any."""
    return name not in _IMPURE and not is_foreign(name)


_IMPURE = ops.with_trait(ops.Trait.IMPURE)


# JAX declares no effect for it, although every run draws other numbers.
_DRAWS = "jaxpr.rng_uniform"


# A backward rule need not be linear in the cotangent.  One that clips it gives something else for
# the sum of two cotangents than the sum of its results for each.
_WITH_VJP_RULE = frozenset({"jaxpr.custom_vjp_call_jaxpr", "jaxpr.custom_lin"})


class CountedOps:
    """Which ops change the program's results, effects or derivatives if they run more or fewer
    times: those that draw numbers from the stateful generator, are of another dialect, have a VJP
    rule, or run a function with such ops."""

    def __init__(self, program: Module):
        self._have_state = _ReachingOps(program, lambda name: name == _DRAWS or is_foreign(name))
        self._have_rule = _ReachingOps(program, _WITH_VJP_RULE.__contains__)

    def __call__(self, signature: Signature) -> bool:
        return self.has_state(signature) or self.has_vjp_rule(signature)

    def has_state(self, signature: Signature) -> bool:
        """Whether ops of a signature draw numbers or may have unknown effects, as ops of other
        dialects do, or run an op that does."""
        return self._have_state.is_so(signature)

    def keeps_order(self, signature: Signature) -> bool:
        """Whether ops of a signature must not pass each other: they list effects, draw numbers or
        may have unknown effects."""
        return signature.effects is not None or self.has_state(signature)

    def has_vjp_rule(self, signature: Signature) -> bool:
        """Whether ops of a signature have a VJP rule, or run an op that has one."""
        return self._have_rule.is_so(signature)


class _ReachingOps:
    """Which ops of a program have one of some names, or run a function that has such an op."""

    def __init__(self, program: Module, is_one: Callable[[str], bool]):
        self._program = program
        self._is_one = is_one
        names = set[str]().union(*analyses_of(program).graph.names.values())
        self._any = any(map(is_one, names))

    def is_so(self, signature: Signature) -> bool:
        if not self._any:
            return False
        if self._is_one(signature.name):
            return True
        if not may_have_functions(signature.name):
            return False
        uses = (use for _, attr in signature.attributes for use in symbol_uses(attr))
        return any(map(self._function, uses))

    @memoized
    def _function(self, symbol: str) -> bool:
        return any(self._is_one(name) for _, name in reached_ops(self._program.functions, symbol))


_RANDOM = ops.names(RANDOM.ops) - {"jaxpr.threefry2x32"}
_WITHOUT_KEYS = frozenset({"jaxpr.rng_bit_generator", "jaxpr.rng_uniform"})


def is_same_in_a_batch(name: str, types: Iterable[ir.Type]) -> bool:
    """Whether a batched op of these types gives each member of the batch the result that it would
    get alone.  Of JAX's random number generators only threefry does.  The others draw other numbers
    for a batch of keys."""
    if name not in _RANDOM:
        return True
    keys = [text for text in map(str, types) if "!jaxpr.key" in text]
    return name not in _WITHOUT_KEYS and all('key<"fry">' in text for text in keys)
