"""``jaxpr-remat``: what loops store for their derivative, and what they compute again.

(doc)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jaxmlir.ir import func, scope
from jaxmlir.passes._base import Pass
from jaxmlir.passes._build import callees_first, entry_points, keep_reachable
from jaxmlir.passes._remarks import remark, remarks_wanted
from jaxmlir.passes._rules import Rules
from jaxmlir.passes.remat._choice import choose
from jaxmlir.passes.remat._joint import Joint, Loop, Pair, loops_of, separate
from jaxmlir.passes.remat._price import MEMORY, Prices, size_of

if TYPE_CHECKING:
    from jaxmlir.program import Program


@dataclass(frozen=True)
class Remat(Pass):
    """Store of each iteration of a loop what is cheapest to store, and compute the rest again."""

    name: ClassVar[str] = "jaxpr-remat"
    memory_price: float = MEMORY

    def run(self, program: Program) -> None:
        remat(program, self.memory_price)


def remat(program: Program, memory_price: float = MEMORY) -> None:
    with scope():
        entries = entry_points(program.functions)
        pass_ = _Remat(Rules(program), Prices(program, memory_price))
        for symbol in list(callees_first(program.functions)):
            pass_.function(program.functions[symbol])
        keep_reachable(program, entries)
    program.changed()


class _Remat:
    def __init__(self, rules: Rules, prices: Prices):
        self.rules = rules
        self.prices = prices

    def function(self, function: func.FuncOp) -> None:
        loops = loops_of(function)
        for j in range(len(loops)):
            for i in range(j):
                pair = Pair(loops[i], loops[j])
                if pair.links:
                    loops[i], loops[j] = self.pair(pair)

    def pair(self, pair: Pair) -> tuple[Loop, Loop]:
        joint = Joint.of(self.rules, pair)
        self.function(joint.function)
        choice = choose(joint, self.prices)
        current = sum(size_of(v.type) for v in pair.links)
        if choice is None or choice.size * pair.first.scan.length >= current:
            return pair.first, pair.second
        if remarks_wanted():
            remark(
                pair.first.op, f"{current} -> {choice.size * pair.first.scan.length} {choice.price}"
            )
        new = separate(self.rules, joint, choice.stored)
        # The second goes first: it uses results of the first that nothing stands for any more.
        second = pair.second.replaced(new[1])
        return pair.first.replaced(new[0]), second
