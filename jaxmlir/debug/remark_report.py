"""Ranks the remarks of passes, kind by kind, the costliest first.

A pipeline makes hundreds of remarks, most of which say that a duplicate was removed. Remarks of one
pass that differ only in names and numbers are one *kind*. Kinds are ranked by the estimated time of
the ops that they are about, from the table of the program's target, times how often these ops run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from jaxmlir.dialect import op_signature
from jaxmlir.dialect.module import Module
from jaxmlir.errors import Diagnostic
from jaxmlir.optimize.compile_time import runs_of
from jaxmlir.optimize.memory.price import Prices, size_of

FEW = 3
"""Kinds of up to this many remarks are listed in full, others by their costliest remark."""

# What differs between remarks of one kind: names, types, numbers.
_VARYING = re.compile(r"'[^']*'|@[\w.]+|!?tensor<[^>]*>|\[[^\]]*\]|\d+(?:\.\d+)?")


class RemarkReport:
    """Collects remarks, to be passed as ``remarks=``; its text ranks them::

        report = debug.RemarkReport()
        program.optimize(2, remarks=report)
        print(report)

    The remarks with the greatest estimated effect come first.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], list[tuple[float, Diagnostic]]] = {}

    def about(self, program: Module) -> None:
        """States that the next remarks are about ops of this program in its present form."""
        self._prices, self._runs = Prices(program), runs_of(program)

    def clear(self) -> None:
        """Forgets all remarks."""
        self._kinds.clear()

    def __call__(self, remark: Diagnostic, op: Any = None) -> None:
        """Keeps a remark.

        Args:
          op: the op that the remark is about, before it is changed.
        """
        nanoseconds = 0.0 if op is None else self._price(op)
        pass_name, _, message = remark.message.partition("] ")
        kind = pass_name, _VARYING.sub("#", message)
        self._kinds.setdefault(kind, []).append((nanoseconds, remark))

    def __len__(self) -> int:
        return sum(map(len, self._kinds.values()))

    def ranked(self) -> Iterator[Diagnostic]:
        """The remarks, those about the costliest ops first; a large kind has one remark only."""
        by_price = sorted(self._kinds.values(), key=lambda kind: -sum(price for price, _ in kind))
        for kind in by_price:
            # Remarks of equal price stay in the order in which they were made.
            ordered = sorted(kind, key=lambda pair: -pair[0])
            if len(ordered) <= FEW:
                yield from (remark for _, remark in ordered)
                continue
            (_, first), *rest = ordered
            more = f"{first.message} (and {len(rest)} more of this kind)"
            yield first._replace(message=more)

    def __str__(self) -> str:
        return "\n".join(map(str, self.ranked()))

    def _price(self, op: Any) -> float:
        """The estimated time of an op in a run of the program, in nanoseconds; if it is not known,
        the bytes that the op reads and writes."""
        op = op.operation
        if not op.name.startswith("jaxpr.") or op.parent is None:
            return 0.0
        price = self._prices.computing(op, op_signature.of_op(op, op.name, list(op.operands)))
        if not isfinite(price):
            values = [*op.operands, *op.results]
            price = sum(filter(isfinite, (size_of(v.type) for v in values)))
        within = op.parent.attributes
        return (
            price * self._runs.get(within["sym_name"].value, 1) if "sym_name" in within else price
        )
