"""Which ops do no more than give their results, wherever they stand and however often they run."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jaxmlir import ops
from jaxmlir.ir import ir, symbol_uses
from jaxmlir.ops import may_have_functions
from jaxmlir.passes._build import named_ops, reachable

if TYPE_CHECKING:
    from jaxmlir._signature import Signature
    from jaxmlir.program import Program

# What they do depends on where they are, or is seen by somebody else.
_FIXED_FAMILIES = (
    ops.effects,
    ops.state,
    ops.hardware,
    ops.kernel,
    ops.collectives,
    ops.sharding,
)


@functools.cache
def is_pure(name: str) -> bool:
    """Whether ops of a name are so, save for effects that they say they have.

    A primitive that we know nothing of is taken at its word.
    """
    record = ops.OPS.get(name.removeprefix("jaxpr."))
    return record is None or not _is_fixed(record)


def _is_fixed(record: ops.Op) -> bool:
    return f"jaxpr.{record.name}" == _DRAWS or any(
        record in family.OPS for family in _FIXED_FAMILIES
    )


# JAX gives it no effect, though every op draws other numbers.
_DRAWS = "jaxpr.rng_uniform"


class Draws:
    """Whether the functions of a program draw numbers from the generator that has a state."""

    def __init__(self, program: Program):
        self._program = program
        names = program.reading.graph.names.values()
        self._any = any(_DRAWS in found for found in names)
        self._known: dict[str, bool] = {}

    def __call__(self, signature: Signature) -> bool:
        """Whether ops of a signature run one that does."""
        if not self._any or not may_have_functions(signature.name):
            return False
        uses = (use for _, attr in signature.attributes for use in symbol_uses(attr))
        return any(map(self._function, uses))

    def _function(self, symbol: str) -> bool:
        if symbol not in self._known:
            functions = self._program.functions
            self._known[symbol] = any(
                name == _DRAWS
                for reached in reachable(functions, symbol)
                for _, name in named_ops(functions[reached])
            )
        return self._known[symbol]


_RANDOM = frozenset(f"jaxpr.{op.name}" for op in ops.random.OPS if op.name != "threefry2x32")
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
