"""Whether a loop's body is better batched: what it gains, and what it loses.

On a CPU, XLA compiles a loop of small ops to little more than a loop, and elementwise code is as
fast in it as on a batch.  What a batch is good for there are contractions with something that all
iterations share, a vector times a matrix of weights: they become products of matrices.  And
convolutions of an image at a time, the gradients of which are slow, and loops in the body, around
which a batch goes once.  What it is bad for is reading and writing at positions
that differ between iterations: in a batch that is a gather or a scatter, which take their time for
each element.

Elsewhere each op of an iteration is a kernel of its own, and everything is better batched.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import Work, elements, size
from jaxmlir.analysis.purity import Counted, is_pure, is_same_in_a_batch
from jaxmlir.dialect.builder import SPREAD
from jaxmlir.dialect.ir import symbol_uses
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, may_have_functions, record_of, with_trait
from jaxmlir.optimize.vectorize.batchable import BATCHED_CALLS, can_batch, is_slow_alone
from jaxmlir.transforms.higher_order.scan_op import ScanOp

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module
    from jaxmlir.targets import Target

# Flops that going around a loop once costs.
ITERATION = 1000
# Flops that reading or writing an element by itself costs.
INDEXED = 100
# A gain of fewer flops in an iteration is none: XLA makes one kernel of so small a loop.
LEAST = 100
# Gradients of maps on two cores, at 4 MiB, speed against the loop: two products of a vector with a
# matrix of 3 / 8 / 16 / 32 / 64 / 256 rows 0.4 / 2.8 / 6.6 / 1.7 / 2.2 / 1.1, of four vectors at a
# time with one of 64 / 256 2.4 / 1.6, of 64 1.3 / 1.2; an inner loop of 20 turns 2.0; batched
# nevertheless, a softmax 0.9, and distances of points in space 0.5.


@dataclass
class Gain:
    """What batching changes, for each iteration."""

    shared: float = 0
    """Flops of contractions with what all iterations share, and of the turns of inner loops."""
    indexed: int = 0
    """Elements read or written at a position of the iteration's own."""

    def pays(self, target: Target) -> bool:
        if not target.is_cpu:
            return True
        return self.shared > max(LEAST, INDEXED * self.indexed)


def may_pay(ops: Sequence[tuple[Any, str]], target: Target) -> bool:
    """Whether a body of some ops has any at all that a batch gains by: it need not be read
    otherwise."""
    if not target.is_cpu:
        return True
    names = {name for _, name in ops}
    return not _GAINING.isdisjoint(names) or any(map(may_have_functions, names))


_GAINING = with_trait(Trait.CONTRACTION)


class Gains:
    """What is gained by batching the bodies of a program's loops."""

    def __init__(self, program: Module):
        self.program = program
        self._work = Work(program)
        self.counted = Counted(program)
        self._bodies: dict[str, FunctionView] = {}
        self._of_symbol: dict[tuple[str, tuple[bool, ...]], Gain | None] = {}
        # Of bodies that are alike but for their constants.
        self._of_structure: dict[tuple[Hashable, tuple[bool, ...]], Gain | None] = {}
        self._bytes: dict[Hashable, int] = {}

    def read(self, symbol: str, ops: Sequence[tuple[Any, str]] | None = None) -> FunctionView:
        """A body that does not change any more.

        Args:
          ops: those in it, with their names, from a caller that has them.
        """
        found = self._bodies.get(symbol)
        if found is None:
            found = self._bodies[symbol] = FunctionView(self.program.function(symbol), ops)
        return found

    def of(self, symbol: str, batched: tuple[bool, ...]) -> Gain | None:
        """The gain of such a body; ``None`` if it should not be batched anywhere.

        Args:
          batched: which arguments are batched.
        """
        key = (symbol, batched)
        if key not in self._of_symbol:
            self._of_symbol[key] = self.of_body(self.read(symbol), batched)
        return self._of_symbol[key]

    def of_body(self, body: FunctionView, batched: Sequence[bool]) -> Gain | None:
        """Likewise, of a body as it was read."""
        key = (body.structure, tuple(batched))
        if key not in self._of_structure:
            gain = Gain()
            can_batch = _Walk(self, self._work, gain).body(body, batched, 1)
            self._of_structure[key] = gain if can_batch else None
        return self._of_structure[key]

    def bytes(self, body: FunctionView) -> int:
        """How many bytes the values of a function take if all are kept, those of its calls
        included."""
        if body.structure not in self._bytes:
            self._bytes[body.structure] = self._bytes_of(body)
        return self._bytes[body.structure]

    def _bytes_of(self, body: FunctionView) -> int:
        total = 0
        constants: set[int] = set()
        for signature, operands, results in zip(
            body.signatures, body.operands, body.results, strict=True
        ):
            name = signature.name
            if name == "jaxpr.constant" or (name in SPREAD and constants.issuperset(operands)):
                constants.update(range(*results))
            else:
                total += sum(map(size, signature.results))
            symbol = callee_of(signature) if may_have_functions(name) else None
            if symbol is not None:
                total += self.bytes(self.read(symbol))
        return total


def callee_of(signature: Signature) -> str | None:
    """The function that ops of a signature run; not the rules of its derivative."""
    attributes = dict(signature.attributes)
    found = (name for name in ("jaxpr", "call_jaxpr") if name in attributes)
    return next((attributes[name].value for name in found), None)


@functools.lru_cache(maxsize=1 << 14)
def _can_stand(signature: Signature) -> bool:
    """Whether ops of a signature may stand in a body that is batched."""
    if signature.effects is not None or any(key == "jaxpr.ctx" for key, _ in signature.attributes):
        return False
    return is_pure(signature.name) and signature.name not in _STAY


class _Walk:
    def __init__(self, gains: Gains, work: Work, gain: Gain):
        self._gains = gains
        self._work = work
        self._gain = gain

    def function(self, symbol: str, batched: Sequence[bool], times: int) -> bool:
        """Adds up a function that runs so often in an iteration; whether it can be batched."""
        return self.body(self._gains.read(symbol), batched, times)

    def body(self, body: FunctionView, batched: Sequence[bool], times: int) -> bool:
        """Likewise, of a function that was read."""
        varying = {v for v, b in enumerate(batched) if b}
        for index, signature in enumerate(body.signatures):
            if not _can_stand(signature) or self._gains.counted.draws(signature):
                return False
            pattern = [v in varying for v in body.operands[index]]
            if True not in pattern:
                # A batch runs it once.
                if self._gains.counted.has_vjp_rule(signature):
                    return False
                continue
            if not is_same_in_a_batch(signature.name, signature.types):
                return False
            if not can_batch(self._gains.program, signature):
                return False
            varying.update(range(*body.results[index]))
            if not self._op(body, index, pattern, times):
                return False
        return True

    def _op(self, body: FunctionView, index: int, pattern: list[bool], times: int) -> bool:
        signature = body.signatures[index]
        name, record = signature.name, record_of(signature.name)
        if name == "jaxpr.dot_general":
            if pattern != [True, True]:
                self._gain.shared += times * self._work.at(body, index)
        elif name == "jaxpr.conv_general_dilated":
            if pattern[1]:
                # It would be a grouped convolution, which is slow.
                return False
            numbers = dict(signature.attributes)["dimension_numbers"]
            if is_slow_alone(numbers, signature.results[0]):
                self._gain.shared += times * self._work.at(body, index)
        elif record is not None and record.indices:
            if any(pattern[i] for i in record.index_operands(len(pattern))):
                update = record.update
                moved = signature.results[0] if update is None else signature.operands[update]
                self._gain.indexed += times * elements(moved)
        elif name == "jaxpr.scan":
            scan = ScanOp.of_attributes(signature.attributes)
            if not scan.is_counted:
                return False
            self._gain.shared += times * ITERATION * scan.length
            return self.function(scan.body, _in_scan(scan, pattern), times * scan.length)
        elif may_have_functions(name):
            symbol = callee_of(signature)
            if symbol is not None and name in BATCHED_CALLS:
                return self.function(symbol, pattern, times)
            return not any(symbol_uses(attr) for _, attr in signature.attributes)
        return True


def _in_scan(scan: ScanOp, pattern: list[bool]) -> list[bool]:
    """Which arguments of an inner scan's body are batched: of the carry, all."""
    consts, carry, xs = scan.operands(pattern)
    return [*consts, *[True] * len(carry), *xs]


# Batched, each iteration would take all branches, and as many turns as the one with the most.
_STAY = frozenset({"jaxpr.while", "jaxpr.cond", "jaxpr.custom_linear_solve"})
