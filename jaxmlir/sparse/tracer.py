"""The abstract interpretation of a derivative: index sets go through its ops, calls and loops.

The interpreted program is the derivative that the compiler makes (``jaxpr-jvp``).  Its ops are
linear in the tangents, it contains the rules of custom derivatives and of rematerialised functions,
and it lacks everything without a derivative.  A value that depends on tangents is represented by
index sets.  A value that depends on no argument is computed if a rule asks for it: indices, masks,
stencils.

A scan with few ops, all iterations together, is interpreted iteration by iteration.  The body of
any other loop is interpreted with inputs of its own, which gives a relation ``T`` between the
operands and the results of one iteration.  The reflexive and transitive closure of ``T`` says what
the carry depends on after any number of iterations.  Elements of a strongly connected component
depend on the same inputs.  The solution of a linear system is found in the same way: the inverse of
a matrix is a polynomial in it, so an element depends on what paths in the matrix's graph lead to.

An op without a rule that JAX lowers by a function, as a product with a sparse array, is interpreted
by the ops of this function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from scipy import sparse

from jaxmlir._compat import core, open_jaxpr
from jaxmlir.bridge.importer import import_jaxpr
from jaxmlir.dialect import locations
from jaxmlir.dialect.custom_rule_ops import HIGH_LEVEL
from jaxmlir.dialect.ir import context, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES, Trait, with_trait
from jaxmlir.errors import Diagnostic
from jaxmlir.interpret.interpreter import INTERPRETATIONS, Frame, Interpreter, Node, plan_of
from jaxmlir.passes.remarks import remark
from jaxmlir.sparse import bounds, rules
from jaxmlir.sparse.index_sets import Columns, PatternTooDense, Rows, empty
from jaxmlir.sparse.movement import VALUES
from jaxmlir.sparse.rules import LeafOp, Value
from jaxmlir.support.masks import chosen, split
from jaxmlir.transforms.jax_rules import implementation, lowered_function, trace_flat
from jaxmlir.transforms.templates import Rules

_CLOSURE = 20_000_000
"""Closures of at most this many elements are computed; larger ones are replaced by dense blocks."""
_FEW_INPUTS = 4
_FEW = 64
"""Values of so few elements are computed at once, not on demand: e.g. a loop's counter."""


# Ops that run the user's own code, or may give something else on other devices, are never evaluated
# for the analysis.
_NOT_RUN = with_trait(Trait.IMPURE) | with_trait(Trait.CUSTOM_CALL) | {"jaxpr.platform_index"}


class Tracer(Interpreter):
    """Interprets functions of a program.

    Args:
      columns: the inputs.
      reasons: receives a remark on each op that made a set dense.

    Attributes:
      reasons: by op, the remark that it made a set dense.
      unrolled: scans of at most this many ops, all iterations together, are run.
    """

    unrolled: ClassVar[int] = 4_000
    _all: ClassVar[Callable[[LeafOp], Any]] = staticmethod(rules.dense)
    """The sets of results that depend on everything that any operand depends on."""

    def __init__(self, program: Module, columns: Columns, reasons: dict[Any, Diagnostic]):
        super().__init__(program)
        self.columns: Columns = columns
        self.reasons: dict[Any, Diagnostic] = reasons

    def constant(self, array: Any) -> Value:
        return Value(np.shape(array), None, functools.partial(_as_numpy, array))

    def _evaluate(self, node: Node, operands: list[Value]) -> list[Value]:
        if node.name in _CALLS:
            return self.enter(Frame(node.get(_CALLS[node.name]), node), operands)
        if node.name not in _CONTROL:
            return self.leaf(node, operands)
        num_reasons = len(self.reasons)
        try:
            values = getattr(self, _CONTROL[node.name])(node, operands)
        except PatternTooDense:
            return self._dense(node, operands)
        if len(self.reasons) == num_reasons:
            self._note_mixing(node, operands, [x.rows for x in values])
        return values

    def leaf(self, node: Node, operands: list[Value]) -> list[Value]:
        if all(x.rows is None for x in operands):
            return self._independent(node, operands, _shapes_of(node))
        leaf = LeafOp(self.columns, node, operands, _shapes_of(node), self.program)
        sets, terms = self._sets(leaf)
        if sets is None:
            return self._lowered(node, operands) or self._dense(node, operands)
        self._note_mixing(node, operands, sets)
        pairs = zip(leaf.shapes, sets, strict=True)
        return [Value(shape, rows, terms=terms) for shape, rows in pairs]

    def _lowered(self, node: Node, operands: list[Value]) -> list[Value]:
        """The results of an op that JAX lowers by a function, by the ops that this function is
        traced to; none if it is lowered in another way."""
        with scope():
            (eqn,) = open_jaxpr(Rules(self.program).jaxpr_of(node.op, node.name))[0].eqns
            if not (eqn.primitive.name in HIGH_LEVEL or lowered_function(eqn.primitive)):
                return []
            try:
                avals = [v.aval for v in eqn.invars]
                importer = import_jaxpr(trace_flat(implementation(eqn), avals, "main"))
            except Exception:  # of the user's function
                return []
        program = type(self.program).of_import(importer)
        inner = type(self)(program, self.columns, {})
        values = inner.enter(Frame("main", None), operands)
        self._note_mixing(node, operands, [x.rows for x in values])
        return values

    def _dense(self, node: Node, operands: list[Value]) -> list[Value]:
        """The results of an op that may depend on everything that any operand depends on."""
        leaf = LeafOp(self.columns, node, operands, _shapes_of(node), self.program)
        self._add_reason(node, "no rule says which inputs it depends on, so all are assumed")
        return list(map(Value, leaf.shapes, self._all(leaf)))

    def _sets(self, leaf: LeafOp) -> tuple[Any, rules.Terms]:
        """The sets of an op's results, ``None`` if no rule knows them, and the result's terms."""
        terms, merged = rules.terms_of(leaf)
        sets = [rules.sum_of(leaf.columns, terms)] if merged else rules.sets_of(leaf)
        return sets and [None if rows is None or not rows.nnz else rows for rows in sets], terms

    def _independent(
        self, node: Node, operands: list[Value], shapes: list[tuple[int, ...]]
    ) -> list[Value]:
        """The results of an op that depend on no input."""
        known_operands = all(x.known is not None for x in operands)
        if not known_operands or node.name in _NOT_RUN or _has_effects(node):
            return self._limited(node, operands, shapes)

        @functools.cache
        def results() -> list[Any]:
            arrays = [x.known() for x in operands]
            compute = VALUES.get(node.name.removeprefix("jaxpr.")) if _in_numpy(arrays) else None
            with np.errstate(all="ignore"):
                computed = compute and compute(node, arrays)
            return node.bind(self.program)(*arrays) if computed is None else computed

        def known(i: int) -> Callable[[], Any]:
            return lambda: _as_numpy(results()[i])

        values = [Value(shape, None, known(i)) for i, shape in enumerate(shapes)]
        if sum(x.size for x in (*values, *operands)) <= _FEW and node.name[6:] in VALUES:
            results()
        return values

    def _limited(
        self, node: Node, operands: list[Value], shapes: list[tuple[int, ...]]
    ) -> list[Value]:
        """The results of an op whose value is not known, with bounds of their elements."""
        values = [Value(shape) for shape in shapes]
        if node.name in bounds.UPPER_TRIANGULAR:
            i = bounds.UPPER_TRIANGULAR[node.name]
            limits = functools.partial(bounds.upper_triangular, shapes[i])
            values[i] = values[i]._replace(limits=limits)
        elif len(values) == 1:
            kind = _kind(node.avals()[0])
            if kind in "iub":
                of_result = bounds.of_result
            elif kind == "f" and _may_have_zeros(node, operands):
                of_result = bounds.zeros_of_result
            else:
                return values
            limits = functools.cache(lambda: of_result(node, [x.bounds() for x in operands]))
            values = [values[0]._replace(limits=limits)]
            if sum(x.size for x in (*values, *operands)) <= _FEW:
                limits()
        return values

    # -- remarks --

    def _note_mixing(self, node: Node, operands: Sequence[Value], out_rows: Sequence[Any]) -> None:
        """Remarks on an op whose results depend on most inputs while no operand does."""
        if what := self._reason_of_mixing(operands, out_rows):
            self._add_reason(node, what)

    def _reason_of_mixing(self, operands: Sequence[Value], out_rows: Sequence[Any]) -> str:
        """The remark on an op whose results depend on most inputs while no operand does."""
        inputs = self.columns.inputs
        if inputs < 2:
            return ""
        before = max(_longest(x.rows) for x in operands)
        after = max(map(_longest, out_rows), default=0)
        if after <= max(before, inputs // 2, _FEW_INPUTS):
            return ""
        return f"an element of its result depends on {after:,} of {inputs:,} inputs"

    def _add_reason(self, node: Node, what: str) -> None:
        if node.op in self.reasons:
            return
        with context():
            message = f"'{node.name}' op of the derivative: {what}"
            position = locations.position(node.op.location)
            self.reasons[node.op] = Diagnostic("remark", message, *position)
            remark(node.op, message)

    # -- ops with functions --

    def _cond(self, node: Node, operands: list[Value]) -> list[Value]:
        """The union of the results of all branches that may be taken."""
        which, *arguments = operands
        taken = self._taken(which, node.get("branches"))
        results = [self.enter(Frame(branch, node), arguments) for branch in taken]
        if len(taken) == 1:
            return results[0]
        return list(map(self._any_of, zip(*results, strict=True)))

    def _while(self, node: Node, operands: list[Value]) -> list[Value]:
        carried = len(operands) - len(node.results)
        consts = operands[node.get("cond_nconsts", 0) : carried]
        return self._carry_after(node, node.get("body_jaxpr"), consts, operands[carried:])

    def _scan(self, node: Node, operands: list[Value]) -> list[Value]:
        length, ops = node.get("length"), plan_of(self.program, node.get("jaxpr")).nodes
        if core.is_constant_dim(length) and length * max(1, len(ops)) <= self.unrolled:
            return INTERPRETATIONS[node.name](self, node, operands)
        groups = split(operands, node.get("num_consts", 0), node.get("num_carry", 0))
        return self._scan_as_relation(node, *groups)

    def _custom_linear_solve(self, node: Node, operands: list[Value]) -> list[Value]:
        """The solution ``x`` of ``A x = b``."""
        lengths, symbol = node.get("const_lengths"), node.get("jaxprs").matvec
        of_matrix, right = operands[: lengths.matvec], operands[sum(lengths) :]
        is_fixed = all(x.rows is None for x in of_matrix)
        if not is_fixed or len(right) < len(node.results) or all(x.rows is None for x in right):
            return self.leaf(node, operands)
        solution = [Value(x.shape) for x in right]
        arguments, first = [*of_matrix, *solution], len(of_matrix)
        relation = self._relation(symbol, arguments, first, [True] * len(right))
        return self._reached(relation, arguments, first, range(len(right)), right)

    def _taken(self, which: Value, branches: Sequence[str]) -> Sequence[str]:
        """The branches that an index may mean."""
        first, last = (int(np.clip(x, 0, len(branches) - 1)) for x in which.bounds())
        return branches[first : last + 1]

    def _any_of(self, values: Sequence[Value]) -> Value:
        """What may be any of some values of a shape."""
        return Value(values[0].shape, self.columns.united(x.rows for x in values))

    def slice(self, value: Value, index: int) -> Value:
        known = None if value.known is None else lambda: value.known()[index]
        part = Value(value.shape[1:], None, known)
        if value.rows is None:
            return part
        rows = value.rows[index * part.size : (index + 1) * part.size]
        return part._replace(rows=rows if rows.nnz else None)

    def stack_up(self, values: list[Value], aval: Any) -> Value:
        if any(x.rows is not None for x in values):
            rows = self.columns.joined([_rows_of(x, self.columns) for x in values])
            return Value(aval.shape, rows)
        is_known = all(x.known is not None for x in values) and len(values) > 0
        known = functools.partial(_stack_known, values) if is_known else None
        return Value(aval.shape, None, known)

    def _carry_after(
        self, node: Node, symbol: str, consts: Sequence[Value], carry: Sequence[Value]
    ) -> list[Value]:
        """The carry of a loop after any number of iterations."""
        return self.loop(symbol, consts, carry)[0]

    def _scan_as_relation(
        self, node: Node, consts: list[Value], carry: list[Value], arrays: list[Value]
    ) -> list[Value]:
        """Interprets a scan by the relation of one iteration."""
        columns, length = self.columns, node.get("length")
        slices = []
        for x in arrays:
            part, rows = Value(x.shape[1:]), None
            if x.rows is not None and length:
                rows = columns.grouped(x.rows, np.arange(x.size) % part.size, part.size)
            slices.append(part._replace(rows=rows))
        carry, relation = self.loop(node.get("jaxpr"), consts, carry, slices)
        shapes = [tuple(aval.shape) for aval in node.avals()[len(carry) :]]
        stacked = [
            Value(shape, _stacked(columns, relation, rows, [*consts, *carry], arrays, length))
            for shape, rows in zip(shapes, relation.rows[len(carry) :], strict=True)
        ]
        return [*carry, *stacked]

    # -- loops --

    def loop(
        self,
        symbol: str,
        consts: Sequence[Value],
        carry: Sequence[Value],
        slices: Sequence[Value] = (),
    ) -> tuple[list[Value], Relation]:
        """A loop's carry after any number of iterations, and the relation of one iteration.

        Args:
          slices: the slices (xs) that an iteration reads, each with the union of its sets over all
            iterations.
        """
        carry = [x._replace(known=None, limits=None) for x in carry]
        slices = [x._replace(known=None, limits=None) for x in slices]
        depend = [x.rows is not None for x in carry]
        while True:
            relation = self._relation(symbol, [*consts, *carry, *slices], len(consts), depend)
            grown = [a or r.nnz > 0 for a, r in zip(depend, relation.rows, strict=False)]
            if grown == depend:
                break
            depend = grown
        depending = [i for i, d in enumerate(depend) if d]
        if not depending:
            return carry, relation
        begin = [carry[i] for i in depending]
        blank = [x.with_rows(None) for x in carry]
        arguments = [*consts, *blank, *slices]
        reached = self._reached(relation, arguments, len(consts), depending, begin)
        for i, x in zip(depending, reached, strict=True):
            carry[i] = x
        return carry, relation

    def _reached(
        self,
        relation: Relation,
        arguments: Sequence[Value],
        first: int,
        results: Sequence[int],
        begin: Sequence[Value],
    ) -> list[Value]:
        """The values ``y = begin + f(..., y, ...)``: what paths in the relation lead to.

        Args:
          first: the number of the first argument that is one of the values.
          results: the numbers of the function's results that are the values.
        """
        columns, inner = self.columns, relation.columns
        size, inputs = sum(x.size for x in begin), inner.inputs
        graph = inner.links([relation.rows[i] for i in results])
        # The elements of the values are the same vertices as results and as arguments.
        vertices = np.arange(graph.shape[0], dtype=graph.indices.dtype)
        start = size + inner.starts[first]
        vertices[start : start + size] = np.arange(size)
        graph.indices = vertices[graph.indices]
        base = [*begin, *chosen(arguments, relation.pattern)]
        hubs = empty(graph.shape[0] - size - inputs, columns.width)
        whole = self._closure(graph, columns.joined([*(_rows_of(x, columns) for x in base), hubs]))
        ends = np.cumsum([0, *(x.size for x in begin)])
        triples = zip(begin, ends[:-1], ends[1:], strict=True)
        return [x.with_rows(whole[start:end]) for x, start, end in triples]

    def _relation(
        self, symbol: str, arguments: Sequence[Value], first: int, depend: Sequence[bool]
    ) -> Relation:
        """The relation between a function's results and its own arguments.

        Args:
          first: the number of the first argument that is part of the carry.
          depend: for each part of the carry, whether it depends on an input.
        """
        pattern = [x.rows is not None for x in arguments]
        pattern[first : first + len(depend)] = depend
        pairs = list(zip(arguments, pattern, strict=True))
        columns = Columns(x.size if d else 0 for x, d in pairs)
        values = [x.with_rows(columns.identity(i) if d else None) for i, (x, d) in enumerate(pairs)]
        inner = Tracer(self.program, columns, self.reasons)
        rows = [_rows_of(x, columns) for x in inner.enter(Frame(symbol, None), values)]
        return Relation(columns, rows, pattern)

    def _closure(self, step: Rows, base: Rows) -> Rows:
        """For each vertex of a graph, the union of the sets of all vertices that paths lead to."""
        size, columns = step.shape[0], self.columns
        count, labels = sparse.csgraph.connected_components(step, connection="strong")
        member = rules.reads(labels, np.arange(size), count, size)
        reached = (member @ step @ member.T + sparse.identity(count, bool, "csr")).tocsr()
        while reached.nnz <= _CLOSURE:
            further = reached @ reached
            if further.nnz == reached.nnz:
                rows = columns.through(reached, columns.through(member, base))
                return columns.take(rows, labels)
            reached = further
        count, labels = sparse.csgraph.connected_components(step, directed=False)
        return columns.take(columns.grouped(base, labels, count), labels)


class Relation(NamedTuple):
    """The elements of a function's own arguments that its results depend on.

    Attributes:
      columns: the columns of ``rows``: the elements of the arguments that depend on an input; the
        others have none.
      rows: the sets of each result.
      pattern: for each argument, whether it depends on an input.
    """

    columns: Columns
    rows: list[Rows]
    pattern: list[bool]


def _shapes_of(node: Node) -> list[tuple[int, ...]]:
    return [tuple(getattr(aval, "shape", ())) for aval in node.avals()]


def _rows_of(x: Value, columns: Columns) -> Rows:
    return empty(x.size, columns.width) if x.rows is None else x.rows


def _stacked(
    columns: Columns,
    relation: Relation,
    rows: Rows,
    fixed: Sequence[Value],
    arrays: Sequence[Value],
    length: int,
) -> Rows | None:
    """The sets of a stacked result (ys), given those of the body's result in the relation.

    Args:
      fixed: the loop-invariant operands and the carry.
      arrays: the arrays that the scan slices (xs).

    Raises:
      PatternTooDense: the body's result depends on too many elements.
    """
    if not rows.nnz:
        return None
    rows = relation.columns.written_out(rows)
    arguments = [*fixed, *(Value(x.shape[1:]) for x in arrays)]
    base = [_rows_of(x, columns) for x in chosen(arguments, relation.pattern)]
    same, starts = columns.through(rows, columns.joined(base)), relation.columns.starts
    sets = [columns.take(same, np.tile(np.arange(rows.shape[0]), length))]
    for i, x in enumerate(arrays, len(fixed)):
        if x.rows is not None:
            block = rows[:, starts[i] : starts[i + 1]]
            diagonal = sparse.kron(sparse.identity(length, bool), block, "csr").astype(bool)
            sets.append(columns.through(diagonal, x.rows))
    return columns.united(sets)


def _stack_known(parts: Sequence[Value]) -> Any:
    arrays = [x.known() for x in parts]
    return np.stack(arrays) if _in_numpy(arrays) else jax.numpy.stack(arrays)


_CALLS = CALLEES | {"jaxpr.linear_call": "callee", "jaxpr.remat_opt": "fwd_jaxpr"}
_CONTROL = {
    f"jaxpr.{name}": f"_{name}" for name in ("cond", "custom_linear_solve", "scan", "while")
}


def _longest(rows: Rows | None) -> int:
    return 0 if rows is None or not rows.shape[0] else int(np.diff(rows.indptr).max())


def _may_have_zeros(node: Node, operands: Sequence[Value]) -> bool:
    """Whether elements of an op's result may be known to be zero."""
    if node.name in bounds.SUMS:
        return all(map(_may_be_zero, operands))
    if node.name not in bounds.KEEPS_ZEROS:
        return False
    if node.name == "jaxpr.select_n" and operands[0].known is None:
        return False
    return any(map(_may_be_zero, operands))


def _may_be_zero(x: Value) -> bool:
    """Whether elements of an array may be known to be zero."""
    if x.known is None:
        return x.limits is not None
    known = x.known()
    return np.ndim(known) > 0 and not np.all(known)


def _kind(aval: Any) -> str:
    """The kind of an array's elements, as numpy has it; 'V' for those that it does not have."""
    return getattr(getattr(aval, "dtype", None), "kind", "V")


def _in_numpy(arrays: Sequence[Any]) -> bool:
    """Whether numpy has the arrays: random keys are arrays of JAX only."""
    return all(isinstance(x, np.ndarray | np.generic) for x in arrays)


def _has_effects(node: Node) -> bool:
    with context():
        return "jaxpr.effects" in node.op.attributes


def _as_numpy(value: Any) -> Any:
    try:
        return np.asarray(value)
    except TypeError:  # a PRNG key
        return value
