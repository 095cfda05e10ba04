"""What the body of a loop becomes, by the numbers of its ops and values.

Many bodies differ in the values of their constants only, and share one plan.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import Work
from jaxmlir.dialect.builder import is_constant
from jaxmlir.optimize.algebra.factor_logsumexp.reader import Answers, Found, Reader, is_number

# Gradients of hidden Markov models, of the time that they took without, jax 0.10 and 0.12:
#   states                 8           16          32          64          128
#   200 iterations         1.0, 1.1    0.74, 0.73  0.47, 0.48  0.30, 0.23  0.25, 0.24
#   10                                                         0.85, 0.87  0.59, 0.48
#   4                                                          1.1, 0.9    0.84, 0.94
#   50, of 16 sequences    1.5, 1.2    0.46, 0.45  0.29, 0.29
MIN_ITERATIONS = 8
MIN_ELEMENTS = 256
MIN_RATIO = 12
# Of the work of an iteration, the part that the exponentials are: two loops take longer to compile.
MIN_SHARE = 0.5


def worthwhile(
    work: Work, reader: Reader, min_elements: float = MIN_ELEMENTS, min_ratio: float = MIN_RATIO
) -> list[Found]:
    """The log-sum-exps of the body of a long loop that become products; none if they are too small
    a part of its work."""
    found = [
        f for f in reader.found() if f.sum.size >= max(min_elements, min_ratio * f.sum.inner_size)
    ]
    if not found:
        return []
    body = reader.body
    taken = work.transcendental * sum(f.sum.size for f in found)
    all_ = sum(work.at(body, index) for index in range(len(body.ops)))
    return found if taken >= MIN_SHARE * all_ else []


class Exponentials(NamedTuple):
    """The ops that sum up the exponentials of a log-sum-exp, as a function.

    Attributes:
      args: the values that it takes.
      constants: those that are written again in it.
      total: the value that it gives.
      ops: those that it has, by number.
    """

    args: tuple[int, ...]
    constants: tuple[int, ...]
    total: int
    ops: tuple[int, ...]


class Plan:
    """What becomes of bodies that are alike but for their constants.

    Attributes:
      found: the log-sum-exps that become products.
      exponentials: of each, the function that computes them again.
      check: the ops that compute what the products are asked of.
      unused_far: the ops without users once the exponentials are computed again.
      unused_near: those without users once the log-sum-exps are the logs of products.
    """

    def __init__(self, body: FunctionView, found: Sequence[Found]):
        self._length = len(body.ops)
        self.found = found
        self.exponentials = [_exponentials(body, f) for f in found]
        asked = [f.operands[i] for f in found for i in f.sum.constants]
        self.check = _needed(body, asked)
        self.unused_far = _unused(
            body,
            {f.steps[-1]: e.args for f, e in zip(found, self.exponentials, strict=True)},
        )
        self.unused_near = _unused(body, {f.op: f.operands for f in found})

    @property
    def far(self) -> list[int]:
        """The ops of the body whose exponentials are computed again, by number; the ops that do so
        have those of the sums."""
        again, unused = {f.steps[-1] for f in self.found}, set(self.unused_far)
        return [i for i in range(self._length) if i in again or i not in unused]


class Plans:
    """The plans of a program's bodies."""

    def __init__(self, work: Work, min_elements: float, min_ratio: float):
        self._work = work
        self._large = min_elements, min_ratio
        # By the structure of a body: with what its constants were asked, and answered.
        self._known: dict[Hashable, list[tuple[Answers, Plan | None]]] = {}

    def of(self, body: FunctionView, num_consts: int) -> Plan | None:
        """What becomes of a body; ``None`` if it stays as it is.

        Args:
          num_consts: how many of its arguments are the same in every iteration.
        """
        known = self._known.setdefault((body.structure, num_consts), [])
        for answers, plan in known:
            if all(is_number(body, *asked) == answer for asked, answer in answers.items()):
                return plan
        reader = Reader(body, num_consts)
        found = worthwhile(self._work, reader, *self._large)
        plan = Plan(body, found) if found else None
        known.append((reader.answers, plan))
        return plan


def _exponentials(body: FunctionView, found: Found) -> Exponentials:
    made = {v for step in found.steps for v in range(*body.results[step])}
    operands = dict.fromkeys(
        v for step in found.steps for v in body.operands[step] if v not in made
    )
    constants = [v for v in operands if is_constant(body.value(v))]
    (total,) = range(*body.results[found.steps[-1]])
    args = [v for v in operands if v not in constants]
    ops = (*(i for v in constants for i in _cloned(body, v)), *found.steps)
    return Exponentials(tuple(args), tuple(constants), total, ops)


def _cloned(body: FunctionView, constant: int) -> list[int]:
    """The ops that a constant is written by again."""
    index = body.makers[constant]
    return [*(i for v in body.operands[index] for i in _cloned(body, v)), index]


def _needed(body: FunctionView, values: Iterable[int]) -> list[int]:
    """The ops that values are computed by, in order."""
    found: set[int] = set()
    pending = [body.makers[v] for v in values]
    while pending:
        index = pending.pop()
        if index is not None and index not in found:
            found.add(index)
            pending += [body.makers[v] for v in body.operands[index]]
    return sorted(found)


def _unused(body: FunctionView, instead: Mapping[int, Collection[int]]) -> list[int]:
    """The ops whose results nobody uses, users first, when others take the place of some.

    Args:
      instead: of each op that is replaced, what those in its place are given.
    """
    used = set(body.returned)
    found = []
    for index in reversed(range(len(body.ops))):
        is_used = not used.isdisjoint(range(*body.results[index]))
        if index in instead:
            found.append(index)
            used.update(instead[index])
        elif is_used or index in body.effects:
            used.update(body.operands[index])
        else:
            found.append(index)
    return found
