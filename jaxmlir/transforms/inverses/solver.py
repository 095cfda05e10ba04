"""Solves a function for its arguments: knowledge spreads from op to op until nothing is new.

Known arguments and constants spread forwards, by copying the ops; known results spread backwards,
by the ops' inverse rules.  The order of the ops in the function does not matter: an op is visited
again whenever something about one of its values becomes known.

The log-determinant is computed along the way.  An op is an equation, result = op(operands).  The
derivatives of all equations form a square system, block triangular in the order in which they are
solved.  An equation that is solved forwards has a block of determinant 1; one that is solved for
operands u has d op / d u.  So log|det d arguments / d results| is minus the sum of log|det d op / d
u| over the ops that were inverted.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.bridge import params
from jaxmlir.bridge.exporter import constant_value
from jaxmlir.dialect import codec, locations, op_signature, ops
from jaxmlir.dialect.builder import copy, create, zeros
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of, is_reference
from jaxmlir.errors import DiagnosticError, JaxmlirError, TransformError
from jaxmlir.support.masks import Mask
from jaxmlir.transforms.inverses.knowledge import Knowledge, KnownElements, ValuePart, join
from jaxmlir.transforms.templates import Rules


class NotInvertible(Exception):
    """Raised by a rule or a formula; the message is the reason, without the op's name."""

    def __init__(self, reason: str, because: DiagnosticError | None = None):
        """``because`` is the error of an op inside a function that the op refers to."""
        super().__init__(reason)
        self.because = because


class InverseRule:
    """The interface of an op's inverse rule."""

    late: ClassVar[bool] = False
    """Whether it is expensive, and asked only when all other ops have told what they can."""

    def learn(self, site: Site) -> None:
        """Tells ``site`` what follows about its values from what is known of them; raises
        :class:`NotInvertible` if nothing will ever follow."""

    def forward(self, site: Site) -> None:
        """Tells what follows about the results when some operands, or some elements, are known; by
        default nothing."""

    def why_not(self, site: Site) -> str | None:
        """Why some operands have not followed; by default ``None``: it is only known which."""
        return None


class InversionProblem(NamedTuple):
    """A function's inversion problem: what is known of the function, and what is wanted.

    Attributes:
      arguments, results: which of them are known.
      log_det: the dtype of the log-determinant; ``None`` if none is wanted.
      newton: solve monotone equations of one unknown numerically (:mod:`.newton`).
    """

    arguments: Mask
    results: Mask
    log_det: Any | None
    newton: bool = False


@dataclass(frozen=True)
class InverseFunction:
    """A function ``(*known results, *known arguments) -> (*found arguments, *found results)``."""

    symbol: str
    """The function's symbol, empty if nothing was found."""
    arguments: tuple[int, ...]
    """The unknown arguments that it finds."""
    results: tuple[int, ...]
    """The unknown results that it finds: those that depend only on known arguments."""
    log_det: bool
    """Whether it gives log|det d found arguments / d known results| last; if not, that is zero."""

    def places(self, arguments: Iterable[int], results: Iterable[int]) -> list[int]:
        """The positions of arguments and results that it finds, among those that it gives."""
        first = len(self.arguments)
        return [
            *(self.arguments.index(i) for i in arguments),
            *(first + self.results.index(i) for i in results),
        ]


class Solver:
    """What is known of the values of one function, and the ops that are still to be visited.  Ops
    are built at the current insertion point, in the caller's context."""

    def __init__(
        self,
        rules: Rules,
        function: func.FuncOp,
        known: InversionProblem,
        rule_of: Callable[[str], InverseRule | None],
        invert: Callable[..., InverseFunction],
    ):
        """
        Args:
          rule_of: gives the rule of an op by the op's name.
          invert: inverts the functions that ops refer to:
            :func:`jaxmlir.transforms.inverses.invert.invert`.
        """
        self.rules = rules
        # Found before the inverse adds functions, whose ops do nothing that others do not.
        self._counted = rules.counted
        self.newton = known.newton
        self.invert = invert
        self.log_det = known.log_det
        self.function = function
        self._static: dict[ir.Value, Any] = {}
        self.computed: dict[ir.Value, ir.Value] = {}
        """The function's own values, if it is computed as well: they replace the solutions."""
        self.terms: list[ir.Value] = []
        """Summands of the inverse's log-determinant: those of called inverses."""
        self.costs: list[ir.Value] = []
        """Values subtracted from it: the log-determinants of the ops that were inverted."""
        self._knowledge: dict[ir.Value, Knowledge] = {}
        self.sites: list[Site] = []
        self._neighbours: dict[ir.Value, list[Site]] = {}
        for op, name, operands in ops_of(function):
            site = Site(self, len(self.sites), op, name, operands, rule_of(name))
            self.sites.append(site)
            for value in {*operands, *site.results}:
                self._neighbours.setdefault(value, []).append(site)
        self._forwards = list(range(len(self.sites)))
        self._backwards: list[int] = []
        self._late: list[int] = []
        self._waiting = set(self._forwards)
        """The ops in the queues: number i to be visited forwards, -i - 1 backwards."""

    def of(self, value: ir.Value) -> Knowledge:
        """What is known of a value."""
        knowledge = self._knowledge.get(value)
        if knowledge is None:
            shape = getattr(aval_of(value.type), "shape", ())
            knowledge = self._knowledge[value] = Knowledge(tuple(shape))
        return knowledge

    def whole(self, value: ir.Value) -> ir.Value | None:
        """The new function's value for a value that is known entirely; ``None`` for others."""
        knowledge = self._knowledge.get(value)
        if knowledge is None:
            return None
        if knowledge.whole is None and knowledge.pieces and knowledge.known().all():
            everywhere = knowledge.everywhere()
            knowledge.whole = self._as_computed(value, join(self.emit, knowledge, everywhere))
        return knowledge.whole

    def _as_computed(self, value: ir.Value, solution: ir.Value) -> ir.Value:
        """The value that was computed, if any, in place of the solution that was found."""
        computed = self.computed.get(value, solution)
        if computed != solution and solution not in self.computed.values():
            solution.replace_all_uses_with(computed)
        return computed

    def take(self, value: ir.Value, where: np.ndarray) -> ir.Value | None:
        """The elements ``where`` of a value, if they are known."""
        return join(self.emit, self.of(value), where)

    def emit(
        self, key: Any, function: Callable[..., Any], values: Sequence[ir.Value]
    ) -> list[ir.Value]:
        return self.rules.emit(function, values, key)

    def tell(self, value: ir.Value, solution: ir.Value, where: np.ndarray | None = None) -> None:
        """Tells what a value is, or what its elements ``where`` are."""
        knowledge = self.of(value)
        if knowledge.whole is not None:
            return
        if where is None:
            knowledge.whole = self._as_computed(value, solution)
        elif not knowledge.add(KnownElements(solution, where)):
            return
        self.touch(value, where)

    def tell_empty(self) -> None:
        """Tells the values of arrays without elements: there is nothing to find out."""
        results = [v for site in self.sites for v in site.results]
        for value in (*self.function.arguments, *results):
            if 0 in self.of(value).shape:
                self.tell(value, zeros(value.type))

    def tell_part(self, value: ir.Value, part: ValuePart, solution: ir.Value) -> None:
        """Tells a part of a value; when all parts are known, they are merged."""
        knowledge = self.of(value)
        if knowledge.whole is not None or part in knowledge.parts:
            return
        knowledge.parts[part] = solution
        family = [knowledge.parts.get(ValuePart(part.of, i, part.count)) for i in range(part.count)]
        if all(v is not None for v in family):
            if part.of is None:
                merged = self.emit("complex", lambda re, im: [lax.complex(re, im)], family)
            else:
                which = self.whole(part.of)
                select = ("select", part.count)
                merged = self.emit(select, lambda w, *xs: [lax.select_n(w, *xs)], [which, *family])
            knowledge.whole = self._as_computed(value, merged[0])
        self.touch(value)

    def touch(self, value: ir.Value, where: np.ndarray | None = None) -> None:
        """Queues the ops around a value to be visited again, some (by default all) elements of
        which are new."""
        waiting = self._waiting
        # A value in thousands of pieces has as many ops that each read one of them.
        is_partial = where is not None and not self.of(value).is_complete
        first, last = (int(where.min()), int(where.max())) if is_partial else (0, 0)
        for site in self._neighbours.get(value, ()):
            if is_partial and (span := site.reads.get(value)) is not None:
                if span[1] < first or last < span[0]:
                    continue
            index = site.index
            if index not in waiting:
                waiting.add(index)
                heapq.heappush(self._forwards, index)
            if ~index not in waiting:
                waiting.add(~index)
                rule = site.rule
                heap = self._late if rule is not None and rule.late else self._backwards
                heapq.heappush(heap, ~index)

    def run(self) -> None:
        """Spreads knowledge until nothing new follows."""
        while True:
            if self._forwards:
                self._next(self._forwards).forward()
            elif self._backwards:
                self._next(self._backwards).learn()
            elif self._late:
                self._next(self._late).learn()
            else:
                return

    def _next(self, heap: list[int]) -> Site:
        number = heapq.heappop(heap)
        self._waiting.remove(number)
        return self.sites[max(number, ~number)]

    def inverse(
        self, symbol: str, arguments: Sequence[bool], results: Sequence[bool], log_det: Any | None
    ) -> InverseFunction:
        """The inverse of another function for the arguments and results that are known."""
        known = InversionProblem(tuple(arguments), tuple(results), log_det, self.newton)
        return self.rules.functions.once(self.invert, symbol, known)

    def has_state(self, op: Any) -> bool:
        """Whether an op, or one in its functions, may give something else each time it runs."""
        operation = op.operation
        signature = op_signature.of_op(op, operation.name, operation.operands)
        return self._counted.has_state(signature)

    def static(self, value: ir.Value) -> np.ndarray | None:
        """The array of a value that depends on constants only, computed once; ``None`` for other
        values."""
        arrays = self._static
        # Not recursive: a value may depend on a chain of thousands of ops.
        pending = [value]
        while pending:
            top = pending[-1]
            if top in arrays:
                pending.pop()
                continue
            owner = top.owner
            if isinstance(owner, ir.Block) or not isinstance(aval_of(top.type), core.ShapedArray):
                arrays[top] = None
                continue
            missing = [v for v in owner.operands if v not in arrays]
            if missing:
                pending += missing
                continue
            for result, array in zip(owner.results, self._computed(owner), strict=True):
                extended = array is not None and isinstance(array.dtype, dtypes.ExtendedDType)
                arrays[result] = None if array is None or extended else np.asarray(array)
        return arrays[value]

    def _computed(self, op: Any) -> list[Any]:
        """The results of an op with static operands; ``None`` if they need more than constants."""
        if op.name == "jaxpr.constant":
            return [constant_value(self.rules.program, op)]
        inputs = [self._static[v] for v in op.operands]
        if any(v is None for v in inputs) or "jaxpr.effects" in op.attributes or self.has_state(op):
            return [None] * len(op.results)
        with jax.ensure_compile_time_eval():
            return core.jaxpr_as_fun(self.rules.jaxpr_of(op, op.name))(*inputs)


class Site:
    """One op of the function, as its rule sees it."""

    def __init__(
        self,
        solver: Solver,
        index: int,
        op: Any,
        name: str,
        operands: list[ir.Value],
        rule: InverseRule | None,
    ):
        self.solver = solver
        self.index = index
        self.op = op
        self.name = name
        self.operands = operands
        self.results: list[ir.Value] = list(op.results)
        self.rule = rule
        self.failure: NotInvertible | None = None
        """Why the op cannot be inverted, once that is certain."""
        self.done: set[Any] = set()
        """What the rule has told already, under keys of its own."""
        self.memory: dict[str, Any] = {}
        """What the rule remembers for the next visit."""
        self.reads: dict[ir.Value, tuple[int, int]] = {}
        """The first and the last element that the op reads of each operand, if this is known."""
        self.inverted: tuple[Mask, Mask] | None = None
        """The known arguments and results for which the op's functions were inverted with a
        log-determinant."""
        self.term: ir.Value | None = None
        """The log-determinant's summand from the inverse of a function that the op refers to."""
        self._answered: set[ir.Value] = set()

    # -- what is known --

    def whole(self, value: ir.Value) -> ir.Value | None:
        return self.solver.whole(value)

    def known(self, values: Sequence[ir.Value]) -> Mask:
        """Which of the values are known entirely."""
        whole = self.solver.whole
        return tuple([whole(v) is not None for v in values])

    def given(self, values: Sequence[ir.Value]) -> Mask:
        """Which of the values are known entirely, other than by :meth:`answer`."""
        mask = self.known(values)
        return tuple([k and v not in self._answered for v, k in zip(values, mask, strict=True)])

    @functools.cached_property
    def primitive_and_params(self) -> tuple[Any, dict[str, Any]]:
        """JAX's primitive of the op, and its parameters."""
        return params.of_op(self.op, self.name, self.solver.rules.exporter)

    @property
    def params(self) -> dict[str, Any]:
        return self.primitive_and_params[1]

    def apply(self, *xs: Any) -> list[Any]:
        """The op's results of arrays."""
        primitive, params = self.primitive_and_params
        outs = primitive.bind(*xs, **params)
        return outs if primitive.multiple_results else [outs]

    @functools.cached_property
    def signature(self) -> Signature:
        """What identifies the op."""
        return op_signature.of_op(self.op, self.name, self.operands)

    # -- what the rule tells --

    def emit(
        self, key: Any, function: Callable[..., Any], values: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Writes the ops of a JAX function of values; ``key`` identifies the function."""
        signature = self.signature
        with self.op.location:
            return self.solver.rules.emit(function, values, (signature, key), signature.is_portable)

    def tell(self, value: ir.Value, solution: ir.Value, where: np.ndarray | None = None) -> None:
        """Tells what a value is, or what its elements ``where`` are."""
        if where is None and solution.type != value.type:
            raise NotInvertible(
                f"its inverse rule: expected an operand of type {value.type}, got {solution.type}"
            )
        self.solver.tell(value, solution, where)

    def why_function(
        self, symbol: str, arguments: Sequence[bool], results: Sequence[bool], required: int
    ) -> DiagnosticError | None:
        """The error of the op that prevents solving a function for one of its arguments."""
        try:
            solver = self.solver
            known = InversionProblem(tuple(arguments), tuple(results), None, solver.newton)
            solver.invert(solver.rules, symbol, known, (required,))
        except TransformError as e:
            return e
        return None

    def invert(
        self, symbol: str, arguments: Sequence[bool], results: Sequence[bool]
    ) -> InverseFunction:
        """The inverse of a function that the op refers to, as far as there is one."""
        return self.solver.inverse(symbol, arguments, results, self.solver.log_det)

    def create(
        self,
        name: str,
        types: Sequence[ir.Type],
        operands: Sequence[ir.Value],
        attributes: dict[str, Any],
    ) -> list[ir.Value]:
        """Writes an op in place of this one; encodes the attributes that are not encoded yet."""
        encoded = {
            key: value if isinstance(value, ir.Attribute) else codec.encode(value)
            for key, value in attributes.items()
        }
        with self.op.location:
            return create(name, types, operands, encoded)

    def answer(
        self, targets: Sequence[ir.Value], solutions: Sequence[ir.Value], term: ir.Value | None
    ) -> None:
        """Tells the results of the inverse of a function that the op refers to.

        The function may be inverted again when more is known.  The second inverse finds again what
        the first one found, unless it is told these values.  If there is a log-determinant, it is
        not told them, so ``term`` is all that the op adds to log|det| of the inverse.
        """
        for target, value in zip(targets, solutions, strict=True):
            if self.solver.log_det is not None and self.whole(target) is None:
                self._answered.add(target)
            self.tell(target, value)
        terms = self.solver.terms
        if self.term is not None:
            terms.remove(self.term)
        if term is not None:
            terms.append(term)
        self.term = term

    # -- the solver's part --

    def forward(self) -> None:
        """Copies the op if all its operands are known; otherwise the rule tells what follows."""
        if all(self.known(self.results)) or self._has_state:
            return
        if all(self.known(self.operands)):
            computed = self.solver.computed
            if computed:
                outs = [computed[v] for v in self.results]
            elif self.solver.has_state(self.op):
                return
            else:
                outs = copy(self.op, self.name, list(map(self.whole, self.operands)))
            for result, value in zip(self.results, outs, strict=True):
                self.tell(result, value)
        elif self.rule is not None:
            with self.op.location:
                self.rule.forward(self)

    def learn(self) -> None:
        """Lets the rule tell what follows for the operands."""
        if self.rule is None or self.failure or all(self.known([*self.operands, *self.results])):
            return
        try:
            with self.op.location:
                self.rule.learn(self)
        except NotInvertible as e:
            self.failure = e
        except (JaxmlirError, RecursionError):
            raise
        except Exception as e:
            self.failure = NotInvertible(f"its inverse rule failed: {type(e).__name__}: {e}")
            raise self.error() from e

    @functools.cached_property
    def _has_state(self) -> bool:
        """Whether a value is a reference: its reads and writes cannot be reordered."""
        return any(is_reference(v.type) for v in (*self.operands, *self.results))

    def why_not(self) -> str:
        """The reason why the op has not given its operands."""
        if self.failure is not None:
            return str(self.failure)
        record = ops.record_of(self.name)
        if self._has_state:
            return "it reads or writes a reference, whose history cannot be undone"
        if self.rule is None:
            if record is None or not record.inverse:
                primitive = self.name.removeprefix("jaxpr.")
                return (
                    f"the primitive '{primitive}' has no inverse rule; "
                    "jaxmlir.register_inverse gives it one"
                )
            return record.inverse.partition(": ")[2]
        unknown = [i for i, is_known in enumerate(self.known(self.operands)) if not is_known]
        reason = self.rule.why_not(self)
        if reason is not None:
            return reason
        if len(unknown) > 1:
            *most, last = map(str, unknown)
            return f"its operands {', '.join(most)} and {last} are unknown"
        others = ", ".join(map(str, sorted(set(range(len(self.operands))) - set(unknown))))
        given = f" from operand{'s' * (',' in others)} {others}" if others else ""
        return f"no inverse rule finds operand {unknown[0]}{given}"

    def error(self) -> TransformError:
        """The error that names the op, the user's line and the reason."""
        message = f"'{self.name}' op cannot be inverted: {self.why_not()}"
        notes = ()
        if self.failure is not None and self.failure.because is not None:
            notes = tuple(d._replace(severity="note") for d in self.failure.because.diagnostics)
        return locations.error_at(TransformError, self.op.location, message, notes)
