"""Which ops are no dearer in a batch than alone, what a batch saves, and looking for batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from jaxmlir import ops
from jaxmlir._signature import Signature
from jaxmlir.ir import scope
from jaxmlir.passes._body import Body
from jaxmlir.passes._call_graph import keep_reachable
from jaxmlir.passes._fusion import FUSED, MOVED
from jaxmlir.passes._purity import is_pure, is_same_in_a_batch
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import KERNEL, Work, is_plain_signature, size

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Gradients of blocks apart / batched, on two cores with the XLA of jax 0.10: k blocks, each of two
# products of b x n numbers with matrices of n x n, unless it is attention.
#   one matrix for all      k 16, b   1, n 128   1.8      saved 2.0 of  1 Mflops, nothing stacked
#                           k 16, b  16, n 128   1.05           2.0    17
#                           k  8, b 128, n 256   0.8            3.7   270
#   a matrix for each       k  8, b   1, n  64   0.8            0.2   0.1         260 KB stacked
#                           k  8, b  64, n 128   0.7            0.4    34           1 MB
#   b x n by n x h for each,
#   then by h x 1           k  8, b  50, n   8, h 16  1.3       0.02   0.02        40 KB
#                           k 16, b 400, n  16, h 32  0.55     -0.01   0.5         33 KB
#   a head of attention     k  4, b  64, n  64   1.3            0.4     3          50 KB
#                           k  8, b 128, n 128   1.5            1.9    25         200 KB
#                           k  4, b 256, n 256   1.1            2.6   100         800 KB
#   b x d by d x e          k  8, b 256, d 128, e 16  1.7       0.5    10         200 KB
# The part of the work that has to be saved, and how many bytes may be stacked for each flop of it:
# they are written and read, and so are their cotangents.
MIN_GAIN = 0.04
STACKED = 0.25
# Ops with functions that are no dearer in a batch.
_CALLS = frozenset(
    f"jaxpr.{name}" for name in ("custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr", "jit", "remat2")
)


class Batchable:
    """Which ops give the same in a batch, and are no dearer for each member than alone."""

    def __init__(self, rules: Rules):
        self._rules = rules
        self._known: dict[Signature, bool] = {}

    def is_so(self, signature: Signature) -> bool:
        """Whether ops of a signature are."""
        found = self._known.get(signature)
        if found is None:
            found = self._known[signature] = self._is_so(signature)
        return found

    def _is_so(self, signature: Signature) -> bool:
        name = signature.name
        if signature.effects is not None or not is_pure(name):
            return False
        if not is_same_in_a_batch(name, (*signature.operands, *signature.results)):
            return False
        if name == "jaxpr.conv_general_dilated":
            # A batch of kernels is a grouped convolution, which is slow.
            return False
        record = ops.OPS.get(name.removeprefix("jaxpr."))
        if record is None or not is_plain_signature(signature):
            return False
        if name in _CALLS:
            attributes = dict(signature.attributes)
            symbol = attributes["jaxpr" if "jaxpr" in attributes else "call_jaxpr"].value
            body = Body(self._rules.program.function(symbol))
            return all(map(self.is_so, body.signatures))
        return not record.functions


def gain(
    work: Work, body: Body, indices: Iterable[int], varying: Collection[tuple[int, int]]
) -> tuple[float, float]:
    """How much work some ops are, and how much of it each member of a batch after the first saves.

    Args:
      indices: the ops, from the top.
      varying: what they need from without that differs from member to member, as ops and operands.
    """
    inside: set[int] = set()
    total = saved = 0.0
    for index in indices:
        operands = body.operands[index]
        pattern = [(index, j) in varying or v in inside for j, v in enumerate(operands)]
        if True not in pattern:
            continue
        inside.update(range(*body.results[index]))
        total += work.at(body, index)
        name = body.names[index]
        if name not in FUSED and name not in MOVED:
            saved += KERNEL
        if name == "jaxpr.dot_general" and not all(pattern):
            # The common factor is read once.
            common = pattern.index(False)
            saved += size(body.types[operands[common]])
            if common == 0:
                # The members stand within the rows of the result, which are taken apart.
                saved -= size(body.types[body.results[index][0]])
    return total, saved


def make_batches(
    program: Program, search: Callable[[Rules, Work], Callable[[Body], int]], rounds: int
) -> int:
    """Has a search make batches of what the functions of a program do; how many it made.

    Args:
      search: gives what makes batches of a function's ops in place, and says how many.
      rounds: how often a function is read, as long as batches were made of it.
    """
    count = 0
    with scope():
        graph = program.reading.graph
        entries = graph.entry_points()
        batched = search(Rules(program), Work(program))
        for function in graph.outside_kernels():
            body = program.reading.body(function)
            for _ in range(rounds):
                made = batched(body)
                count += made
                if not made:
                    break
                body = Body(function)
        if count:
            keep_reachable(program, entries)
    return count
