"""Which ops do no more than give their results, wherever they stand and however often they run."""

from __future__ import annotations

from collections.abc import Iterable

from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect import ops
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import ir, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.ops.random import RANDOM


def is_pure(name: str) -> bool:
    """Whether ops of a name are so, save for effects that they say they have.

    A primitive that we know nothing of is taken at its word.
    """
    return name not in _IMPURE


_IMPURE = ops.with_trait(ops.Trait.IMPURE)


# JAX gives it no effect, though every op draws other numbers.
_DRAWS = "jaxpr.rng_uniform"


# A backward rule need not be linear in the cotangent: one that clips it gives something else for
# the sum of two than for each of them.
_WITH_VJP_RULE = frozenset({"jaxpr.custom_vjp_call_jaxpr", "jaxpr.custom_lin"})


class CountedOps:
    """Which ops of a program make a difference by how often they run, be it to its derivative.

    They draw numbers from the generator that has a state, or have a VJP rule, or run a function
    with such ops.
    """

    def __init__(self, program: Module):
        self._draw = _ReachingOps(program, frozenset({_DRAWS}))
        self._have_rule = _ReachingOps(program, _WITH_VJP_RULE)

    def __call__(self, signature: Signature) -> bool:
        return self.draws(signature) or self.has_vjp_rule(signature)

    def draws(self, signature: Signature) -> bool:
        """Whether ops of a signature draw numbers, or run one that does."""
        return self._draw.is_so(signature)

    def has_vjp_rule(self, signature: Signature) -> bool:
        """Whether ops of a signature have a VJP rule, or run one that has."""
        return self._have_rule.is_so(signature)


class _ReachingOps:
    """Which ops of a program are of some names, or run a function that has one of these."""

    def __init__(self, program: Module, names: frozenset[str]):
        self._program = program
        self._names = names
        self._any = not all(map(names.isdisjoint, analyses_of(program).graph.names.values()))
        self._reaches: dict[str, bool] = {}

    def is_so(self, signature: Signature) -> bool:
        if not self._any:
            return False
        if signature.name in self._names:
            return True
        if not may_have_functions(signature.name):
            return False
        uses = (use for _, attr in signature.attributes for use in symbol_uses(attr))
        return any(map(self._function, uses))

    def _function(self, symbol: str) -> bool:
        if symbol not in self._reaches:
            ops = reached_ops(self._program.functions, symbol)
            self._reaches[symbol] = any(name in self._names for _, name in ops)
        return self._reaches[symbol]


_RANDOM = ops.names(RANDOM.ops) - {"jaxpr.threefry2x32"}
_WITHOUT_KEYS = frozenset({"jaxpr.rng_bit_generator", "jaxpr.rng_uniform"})


def is_same_in_a_batch(name: str, types: Iterable[ir.Type]) -> bool:
    """Whether ops of a name do to each member of a batch what they do to it alone.

    Of JAX's generators of random numbers only threefry does; others draw other numbers for a batch
    of keys.

    Args:
      types: of the operands and results.
    """
    if name not in _RANDOM:
        return True
    keys = [text for text in map(str, types) if "!jaxpr.key" in text]
    return name not in _WITHOUT_KEYS and all('key<"fry">' in text for text in keys)
