"""Which of a function's invariant ops are computed apart from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import Work, is_array, size
from jaxmlir.analysis.purity import is_pure
from jaxmlir.dialect import ops
from jaxmlir.dialect.builder import SPREAD
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.support.masks import chosen

# Ops that no other is the same as, but that may be moved.
_MOVABLE = frozenset({"jaxpr.remat2"})


class Choice:
    """What is taken out of a function; values and ops by number.

    Attributes:
      fixed: the arguments that are the same whenever the function runs.
      constants: of each constant the op that gives it.
      moved: the ops, in their order.
      kept: the values that the function is to be given.
    """

    def __init__(
        self,
        body: FunctionView,
        fixed: Sequence[bool],
        work: Work,
        growth: float,
        in_remat: bool,
        can_move: Callable[[Signature], bool],
    ):
        """
        Args:
          growth: how much work saved justifies keeping one byte more.
          in_remat: whether the function is that of a ``remat2``, whose names stay in it.
          can_move: whether ops give the same values somewhere else.
        """
        self._body = body
        self._growth = growth
        self._can_move = can_move
        self.fixed = chosen(range(body.arity), fixed)
        self.constants: dict[int, int] = {}
        self._source: dict[int, int] = {}
        self._find_invariant(in_remat)
        self._own = {i: work.at(body, i) for i in sorted(set(self._source.values()))}
        elsewhere = self._used_elsewhere()
        self._needed = elsewhere & self._source.keys()
        self._freed = set(self.fixed) - elsewhere
        self._choose()

    def _find_invariant(self, in_remat: bool) -> None:
        """Of each value that follows from the fixed ones, the op that gives it."""
        body, constants, source, fixed = self._body, self.constants, self._source, set(self.fixed)
        for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
            if name == "jaxpr.constant" or (
                name in SPREAD and all(v in constants for v in operands)
            ):
                constants[body.results[index][0]] = index
            elif all(v in source or v in fixed or v in constants for v in operands):
                is_kept = in_remat and name == "jaxpr.name"
                if not is_kept and self._can_move(body.signatures[index]):
                    source.update(dict.fromkeys(range(*body.results[index]), index))

    def _used_elsewhere(self) -> set[int]:
        """What the function returns, and what ops use that are not invariant."""
        found = set(self._body.returned)
        for index, operands in enumerate(self._body.operands):
            if index not in self._own:
                found.update(operands)
        return found

    def _choose(self) -> None:
        body = self._body
        taken: set[int] = set()
        self.kept: list[int] = []
        for index in reversed(self._own):
            results = [v for v in range(*body.results[index]) if v in self._needed]
            if not results:
                continue
            # What costs nothing to compute is best computed where it is used.
            tree = self._tree(index, self._size(results), taken) if self._own[index] else None
            if tree is None:
                self._needed.update(body.operands[index])
            else:
                taken |= tree
                self.kept[:0] = results
        self.moved = sorted(taken)

    def _tree(self, root: int, kept: int, taken: set[int]) -> set[int] | None:
        """The ops, not taken yet, that compute an op's results, if keeping these pays.

        Args:
          kept: how many bytes the results are.
        """
        found, pending = {root}, [root]
        work = 0.0
        leaves: set[int] = set()
        while pending:
            index = pending.pop()
            work += self._own[index]
            for v in self._body.operands[index]:
                source = self._source.get(v)
                if source is None:
                    leaves.add(v)
                elif source not in found and source not in taken:
                    found.add(source)
                    pending.append(source)
        freed = self._size(leaves & self._freed)
        return found if work > self._growth * max(0, kept - freed) else None

    def _size(self, values: Iterable[int]) -> int:
        return sum(size(self._body.types[v]) for v in values)


@functools.cache
def can_move(signature: Signature) -> bool:
    """Whether ops give the same values somewhere else, if the functions that they run do."""
    name = signature.name
    if any(key in ("jaxpr.effects", "jaxpr.ctx") for key, _ in signature.attributes):
        return False
    record = ops.record_of(name)
    if not is_pure(name) or (record is not None and name not in _MOVABLE and record.distinct):
        return False
    return all(map(is_array, signature.results))
