"""``jaxpr-reassociate-solves``: linear systems are solved for the vectors that are needed, and by
products with an inverse if a loop solves with the same matrix in each iteration.

``inv(A) @ y`` solves a system for each column of the identity, and multiplies.  One system is
enough, and more exact.  A solution is a product with an inverse matrix, and products can be
reassociated::

    (A^-1 B) y    ->   A^-1 (B y)           y^T (A^-1 B)   ->   (A^-T y)^T B

If ``B`` is the identity, the product with it vanishes.  A system of ``n`` unknowns with ``k``
right-hand sides, whose solution is multiplied by ``m`` vectors, takes ``2 n^2 k + 2 n k m``
operations before, and ``2 n^2 m + 2 n k m`` after.  The system is rewritten if that is less for all
uses of the solution together.

``A`` may be triangular (``triangular_solve``; a solve by Cholesky factors has two of these) or
general (``custom_linear_solve`` by an LU factorization, as ``jnp.linalg.solve`` and ``inv`` write
it).  The factorization is kept: it solves the transposed system as well.  Batches of systems are
left alone.

The opposite holds for a loop that solves with a loop-invariant matrix, as in implicit time steps.
Solving for a vector by triangular factors takes as many operations as multiplying by the inverse
matrix, but each unknown waits for the one before.  So it takes several times as long, and the
inverse soon pays::

    x[i + 1] = solve(A, x[i])   ->   V = A^-1, before the loop;   x[i + 1] = V x[i]

The ``custom_linear_solve`` stays: ``V`` replaces the factors, and its two matrix-vector functions,
of ``A`` and of the transpose, become its solvers, applied to ``V``.  So it is differentiated by
``A x = b`` as before, ``V`` has no derivative, and the gradient stores ``V`` instead of the
factors.  ``V`` is computed such that ``V A``, not ``A V``, is the identity up to rounding.  Then
the error of ``V b`` is as small as with the factors, about the condition number of ``A`` times the
unit roundoff (A. Druinsky, S. Toledo, "How accurate is inv(A)*b?", 2012).  Its residual may be
larger.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import FunctionView, OpView, node_of, ops_of
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.builder import converted, drop_dead_ops
from jaxmlir.dialect.ir import func, ir, is_private
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import count
from jaxmlir.optimize.algebra.labelled_tensors.kinds import swapped_precision
from jaxmlir.optimize.algebra.labelled_tensors.reading import FunctionTensors, read
from jaxmlir.optimize.loops.licm import Licm
from jaxmlir.optimize.loops.scan_editor import loop_constants
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.levels import NEEDED_OPS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.transforms.higher_order.custom_linear_solve import Solve
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.templates import Rules

# The factor by which the estimate must fall. An LU solve of 384 unknowns with 384 right-hand sides
# takes 5 ms, with one 0.1 ms; if few vectors are left, the error of the estimate is below this.
MIN_GAIN = 1.3
# The rows that one kernel solves for, whatever the number of columns; the next rows wait for it.
# On a TPU 384 unknowns take 50 us for a vector, and less for a matrix.
ROWS = 16
# The minimum number of iterations per row of the matrix.  Microseconds on a core, jax 0.12:
#   rows                                    16    64   128   256   512
#   a solve by LU factors, one vector      0.8   4.7    11    36   138
#   a product                              0.8   0.6     3     5    24
#   the inverse, after its factors           6    60   130   800  4400
# Gradients of loops with a quarter as many iterations as rows took 0.84, 0.45, 0.36 and 0.25 of
# their time, for 32, 128, 256 and 512 rows; with 16 right-hand sides 0.83, 0.45, 0.67 and 0.55.
MIN_ITERATIONS = 0.25
# The overhead, in rows: for small matrices a product is no faster than a solve.
OVERHEAD = 32
# A solve with more right-hand sides consists of matrix products itself.
MOST_COLUMNS = 16


class ReassociateSolves(Pass):
    """Solve linear systems only for needed vectors; in long loops, multiply by inverses.

    Options:
      min-gain: how many times fewer operations solving for vectors must take.
      min-iterations: a matrix of n rows is inverted before a loop of at least so many times
        (n + 32) iterations.
    """

    name: ClassVar[str] = "jaxpr-reassociate-solves"
    min_gain: Amount = MIN_GAIN
    min_iterations: Amount = MIN_ITERATIONS

    def run(self, program: Module) -> bool:
        solve_late = functools.partial(_solve_late, Rules(program), self.min_gain)
        count = rewrite_functions(program, NEEDED_OPS[self.name], solve_late)
        if not outside_kernels(program, _SOLVES[1:]):
            return count > 0
        inverted = rewrite_functions(
            program, _SOLVES[1:], _LoopSystems(program, self.min_iterations).rewrite
        )
        if inverted:
            Licm().run(program)
        return count + inverted > 0


# -- Systems that are solved by LU factors --


class _FactoredSolve(NamedTuple):
    """A ``custom_linear_solve`` whose two products take the same matrix and whose two solvers take
    the same arrays: LU factors and a permutation, if ``jnp.linalg.solve`` has written it."""

    solve: Solve
    matrix: ir.Value
    lu: ir.Value
    permutation: ir.Value
    b: ir.Value

    @staticmethod
    def read(node: OpView) -> _FactoredSolve | None:
        solve = Solve.read(node.op)
        if tuple(solve.lengths.values()) != (1, 1, 2, 2) or len(node.operands) != 7:
            return None
        a, a_again, lu, permutation, lu_again, permutation_again, b = node.operands
        if (a, lu, permutation) != (a_again, lu_again, permutation_again) or not is_plain_op(node):
            return None
        return _FactoredSolve(solve, a, lu, permutation, b)


def _are_factors(a: ir.Value, lu: ir.Value, permutation: ir.Value) -> bool:
    """Whether two values are the LU factors and the permutation of ``jaxpr.lu`` for a matrix."""
    factors = node_of(lu)
    if factors is None or factors.name != "jaxpr.lu":
        return False
    (source,) = factors.operands
    stopped = node_of(source)
    if stopped is not None and stopped.name == "jaxpr.stop_gradient":
        (source,) = stopped.operands
    return list(factors.op.results)[::2] == [lu, permutation] and source == a


class _MatrixProduct(NamedTuple):
    """The product of matrices with the vectors along one dimension of an array; the result has the
    products along the same dimension.

    Attributes:
      summed: the contracting dimension of the matrices: -1, or -2 for transposed matrices.
      dim: the contracting dimension of the array.
      is_exact: whether the product has full precision.
    """

    summed: int
    dim: int
    is_exact: bool


def _matrix_product(function: func.FuncOp) -> _MatrixProduct | None:
    """A function of a matrix, or of a batch of matrices, and an array as their product; ``None`` if
    it computes anything else."""
    reading = read(FunctionView(function))
    (out,) = reading.body.returned
    expr, out_labels, sign = reading.tensors[out]
    operands = sorted(expr.operands, key=lambda operand: operand[0].number)
    is_product = expr.kind == "product" and sign == 1
    if not is_product or [e for e, _, _ in operands] != [t.expr for t in reading.tensors[:2]]:
        return None
    # For each dimension that of the result; -1 if it is contracted, ``None`` if it has size 1.
    if len(expr.sizes) != expr.rank + 1:
        return None
    at = (*out_labels, -1)
    (*batch, row, column), x = (
        [None if k is None else at[labels[k]] for k in reading.layout(e.value)]
        for e, labels, _ in operands
    )
    dim = x.index(-1) if -1 in x else None
    in_place = all(k in (d, None) for dims in (batch, x) for d, k in enumerate(dims) if k != -1)
    if -1 in batch or dim not in (row, column) or -1 not in (row, column) or not in_place:
        return None
    precision = None if expr.params is None else expr.params.precision
    # The precision is no pair if it names an algorithm.
    is_exact = isinstance(precision, Sequence) and set(precision) == {lax.Precision.HIGHEST}
    return _MatrixProduct(-2 if row == -1 else -1, dim, expr.params is None or is_exact)


# -- Solving for the vectors that are needed --


_SolverKey = tuple[tuple[str, Any], ...] | None
"""How a system is solved: the parameters of a ``triangular_solve``, or ``None`` for an LU
factorization."""


def _solved(solver: _SolverKey, b: Any, transposed: bool, a: Any, *factors: Any) -> Any:
    """The solution for right-hand sides that are columns.

    Args:
      transposed: whether to solve the transposed system.
      factors: LU factors and the permutation of the rows.
    """
    if solver is not None:
        params = dict(solver)
        params["transpose_a"] ^= transposed
        return lax.linalg.triangular_solve(a, b, **params)
    lu, permutation = factors

    def solve(x: Any, transposed: bool) -> Any:
        return _solve_by_lu(lu, permutation, x, transposed)

    numbers = (((0 if transposed else 1,), (0,)), ((), ()))
    return lax.custom_linear_solve(
        lambda x: lax.dot_general(a, x, numbers, precision=lax.Precision.HIGHEST),
        b,
        lambda _, x: solve(x, transposed),
        lambda _, x: solve(x, not transposed),
    )


def _solve_by_lu(lu: Any, permutation: Any, b: Any, transposed: bool) -> Any:
    """``P A = L U``: so ``A^-1 = U^-1 L^-1 P`` and ``A^-T = P^T L^-T U^-T``."""

    def solve(x: Any, lower: bool) -> Any:
        return lax.linalg.triangular_solve(
            lu, x, left_side=True, lower=lower, unit_diagonal=lower, transpose_a=transposed
        )

    if transposed:
        back = lax.sort_key_val(permutation, lax.iota(permutation.dtype, len(permutation)))[1]
        return solve(solve(b, lower=False), lower=True)[back]
    return solve(solve(b[permutation], lower=True), lower=False)


class _SolutionUse(NamedTuple):
    """A product of a solution, ``n x k``, and another array; hashable.

    Attributes:
      of_rows: whether it contracts the solution's rows, not its columns.
      first: whether the solution is the product's first operand.
      axis: the contracting dimension of the other array.
    """

    of_rows: bool
    first: bool
    axis: int


def _product(
    other: Any,
    *operands: Any,
    solver: _SolverKey,
    use: _SolutionUse,
    shape: tuple[int, ...],
    right: str,
    precision: Any,
) -> list[Any]:
    """A product with a solution, computed by a solve for the other factor.

    Args:
      shape: the shape of the product.
      right: ``"matrix"`` if the right-hand sides are columns, ``"rows"`` if they are rows, empty if
        they are the identity.
      precision: the precision of a product of the right-hand sides and the other factor.
    """

    def dot(axis: int, y: Any) -> Any:
        return lax.dot_general(b, y, (((axis,), (0,)), ((), ())), precision=precision)

    others = [d for d in range(other.ndim) if d != use.axis]
    columns = math.prod(other.shape[d] for d in others)
    y = lax.reshape(lax.transpose(other, [use.axis, *others]), (other.shape[use.axis], columns))
    if right:
        *operands, b = operands
        of_columns = 1 if right == "matrix" else 0
    if right and not use.of_rows:
        y = dot(of_columns, y)
    z = _solved(solver, y, use.of_rows, *operands)
    if right and use.of_rows:
        z = dot(1 - of_columns, z)
    return [lax.reshape(z if use.first else lax.transpose(z, (1, 0)), shape)]


@dataclass
class _System:
    """A system in a function.

    Attributes:
      index: the number of its op.
      node: its op.
      solver: how it is solved.
      matrix: the operands of the solver: the matrix and its factors.
      b: the right-hand sides, or ``None`` for an identity.
      as_rows: whether right-hand sides and solutions are rows, not columns.
    """

    index: int
    node: OpView
    solver: _SolverKey
    matrix: list[ir.Value]
    b: ir.Value | None
    as_rows: bool

    @property
    def solution(self) -> ir.Value:
        return self.node.op.results[0]


def _solve_late(rules: Rules, min_gain: float, function: func.FuncOp) -> int:
    """Solves for vectors instead of matrices; repeats that, as right-hand sides may become products
    with other solutions.  Returns the number of rewritten systems."""
    count = 0
    body = analyses_of(rules.program).body(function)
    while True:
        systems = _Systems(rules, body)
        solved = sum(systems.solve_late(system, min_gain) for system in systems.found)
        if not solved:
            return count
        drop_dead_ops(function)
        count += solved
        body = FunctionView(function)


class _Systems:
    """The systems of a function that are solved for matrices.

    Attributes:
      found: the systems, in order.
    """

    def __init__(self, rules: Rules, body: FunctionView):
        self._rules = rules
        self._body = body
        systems = (self._system(index, node) for index, node in enumerate(body.op_views))
        self.found = [system for system in systems if system is not None]

    # --- reading ---

    def _system(self, index: int, node: OpView) -> _System | None:
        if node.name not in _SOLVES or not is_plain_op(node):
            return None
        if len(aval_of(node.op.results[0].type).shape) != 2:
            return None
        system_of = self._triangular if node.name == _SOLVES[0] else self._general
        return system_of(index, node)

    def _triangular(self, index: int, node: OpView) -> _System | None:
        params = {
            key: bool(node.get(key, False))
            for key in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        }
        if not params["left_side"] or params["conjugate_a"]:
            return None
        a, b = node.operands
        solver = tuple(sorted(params.items()))
        is_inverse = self._is_identity(self._body.operands[index][-1])
        return _System(index, node, solver, [a], None if is_inverse else b, False)

    def _general(self, index: int, node: OpView) -> _System | None:
        """A system of ``jnp.linalg.solve``, whose right-hand sides and solutions are rows."""
        factored = _FactoredSolve.read(node)
        if factored is None or len(aval_of(factored.matrix.type).shape) != 2:
            return None
        if not _are_factors(factored.matrix, factored.lu, factored.permutation):
            return None
        product = _matrix_product(self._rules.program.function(factored.solve.symbols["matvec"]))
        if product is None or (product.summed, product.dim) != (-1, 1):
            return None
        b = None if self._is_identity(self._body.operands[index][-1]) else factored.b
        return _System(
            index, node, None, [factored.matrix, factored.lu, factored.permutation], b, True
        )

    @functools.cached_property
    def _reading(self) -> FunctionTensors:
        return read(self._body)

    def _is_identity(self, value: int) -> bool:
        """Whether a matrix is ``eye(n)``."""
        expr, _, sign = self._reading.tensors[value]
        return expr.kind == "eye" and sign == 1

    def _uses(self, index: int, transposed: bool) -> list[tuple[_SolutionUse, OpView]] | None:
        """The products with a solution, or its transpose, as a factor; ``None`` if it has other
        uses.

        Args:
          index: the number of the op that defines it.
          transposed: whether that op gives the transpose of the solution.
        """
        value, _ = self._body.results[index]
        if value in self._body.outputs:
            return None
        uses: list[tuple[_SolutionUse, OpView]] = []
        for user in self._body.users[value]:
            node = self._body.op_views[user]
            if node.name == "jaxpr.transpose":
                inner = self._uses(user, not transposed)
                if inner is None:
                    return None
                uses += inner
                continue
            use = self._use(node, self._body.operands[user].index(value), transposed)
            if use is None:
                return None
            uses.append((use, node))
        return uses

    def _use(self, node: OpView, position: int, transposed: bool) -> _SolutionUse | None:
        if node.name != "jaxpr.dot_general" or not is_plain_op(node):
            return None
        # If both factors are the solution, it is needed.
        if len({*node.operands}) < len(node.operands):
            return None
        dtypes = {aval_of(v.type).dtype for v in (*node.operands, node.op.results[0])}
        contracted, batch = node.get("dimension_numbers")
        if len(dtypes) != 1 or any(batch) or len(contracted[0]) != 1:
            return None
        of_rows = (contracted[position][0] == 0) != transposed
        return _SolutionUse(of_rows, position == 0, contracted[1 - position][0])

    # --- writing ---

    def solve_late(self, system: _System, min_gain: float) -> bool:
        """Solves a system for the other factors of products with its solution, if that pays."""
        uses = self._uses(system.index, system.as_rows)
        # A product of a solution with its own transpose needs the solution anyway.
        if not uses or len({node for _, node in uses}) < len(uses):
            return False
        shape = aval_of(system.solution.type).shape
        n, k = reversed(shape) if system.as_rows else shape
        if not n * k:
            return False
        sizes = []
        for use, node in uses:
            other = aval_of(node.operands[use.first].type).shape
            sizes.append(math.prod(other) // other[use.axis])
        before = 2 * n * n * k + sum(2 * n * k * m for m in sizes)
        products = 0 if system.b is None else k
        after = sum(2 * n * m * (n + products) for m in sizes)
        # The number of operations must fall, else two forms could alternate forever.
        if after >= before:
            return False
        costs = self._rules.program.target.costs
        waiting = n / ROWS * costs.unfused / costs.dot_flop
        if (after + waiting * len(uses)) * min_gain > before + waiting:
            return False
        remark(
            system.node.op,
            f"reassociated: solved for {count(sum(sizes), 'right-hand side')} instead of {k}",
        )
        for use, node in uses:
            self._write(system, use, node)
        return True

    def _write(self, system: _System, use: _SolutionUse, node: OpView) -> None:
        (old,) = node.op.results
        precision = node.get("precision")
        right = "" if system.b is None else "rows" if system.as_rows else "matrix"
        product = functools.partial(
            _product,
            solver=system.solver,
            use=use,
            shape=aval_of(old.type).shape,
            right=right,
            precision=precision if use.first else swapped_precision(precision),
        )
        operands = [node.operands[use.first], *system.matrix]
        if system.b is not None:
            operands.append(system.b)
        with ir.InsertionPoint(node.op), node.op.location:
            (value,) = self._rules.emit(product, operands)
            value = converted(value, old.type)
        old.replace_all_uses_with(value)


# -- Solving in loops by inverses --


class _LoopSystems:
    """The loops of a program, and the systems in them."""

    def __init__(self, program: Module, min_iterations: float):
        self._program = program
        self._rules = Rules(program)
        self._min_iterations = min_iterations
        self._iterations = loop_constants(program)
        # The operands of loops, by the block of the body, if only loops use the body.
        self._loops: dict[ir.Block, list[list[ir.Value]]] = {}
        bodies: dict[str, list[list[ir.Value]]] = {}
        for function in outside_kernels(program, SCANS):
            for op, name, operands in ops_of(function):
                if name == "jaxpr.scan":
                    bodies.setdefault(ScanOp.of(op).body, []).append(operands)
        uses = analyses_of(program).graph.counts()
        for symbol, calls in bodies.items():
            body = program.function(symbol)
            if uses[symbol] == len(calls) and is_private(body):
                self._loops[body.entry_block] = calls

    def rewrite(self, function: func.FuncOp) -> int:
        """Replaces the solves in a loop body by products with inverses; returns their number."""
        return sum(self._rewrite(node) for node in ops_of(function) if node.name == _SOLVES[1])

    def _rewrite(self, node: OpView) -> bool:
        factored = _FactoredSolve.read(node)
        if factored is None:
            return False
        solve, a, *factors, b = factored
        iterations, shape = self._iterations.get(a, 0), aval_of(a.type).shape
        if not self._pays(iterations, shape, aval_of(b.type).size):
            return False
        if not self._are_transposed(solve) or not self._are_factors(a, *factors):
            return False
        remark(
            node.op,
            f"inverted once: a matrix of {shape[-1]} rows, instead of {iterations} solves with it",
        )
        with ir.InsertionPoint(node.op), node.op.location:
            (inverse,) = self._rules.emit(_inverse, [a])
            (x,) = solve.by_products().create([a, a, inverse, inverse, b])
        node.op.results[0].replace_all_uses_with(x)
        return True

    def _pays(self, iterations: int, shape: Sequence[int], size: int) -> bool:
        """Whether it pays to invert loop-invariant matrices of a shape.

        Args:
          iterations: the trip count of the loop; 0 if the matrices are not loop-invariant.
          size: the number of elements of the right-hand sides in each iteration.
        """
        if not iterations or len(shape) < 2 or not math.prod(shape) or shape[-1] != shape[-2]:
            return False
        columns = size // math.prod(shape[:-1])
        return columns <= MOST_COLUMNS and iterations >= self._min_iterations * (
            shape[-1] + OVERHEAD
        )

    def _are_factors(self, *values: ir.Value) -> bool:
        """Whether values are a matrix, its LU factors and its permutation; if all are constants of
        loops, this is tested for the operands of each loop."""
        if not all(v in self._iterations for v in values):
            return _are_factors(*values)
        numbers = [ir.BlockArgument(v).arg_number for v in values]
        calls = self._loops.get(values[0].owner, ())
        return bool(calls) and all(self._are_factors(*(args[i] for i in numbers)) for args in calls)

    def _are_transposed(self, solve: Solve) -> bool:
        """Whether the two products of a solve are exact, and have transposed matrices."""
        a, b = (
            _matrix_product(self._program.function(solve.symbols[name]))
            for name in ("matvec", "vecmat")
        )
        if a is None or b is None or not (a.is_exact and b.is_exact):
            return False
        return a.dim == b.dim and a.summed != b.summed


def _inverse(a: Any) -> list[Any]:
    """The transpose of ``a^-1``, as the solution of ``a^T x = 1``; it has no derivative."""
    lu, _, permutation = lax.linalg.lu(jnp.swapaxes(lax.stop_gradient(a), -1, -2))
    rows = lax.broadcasted_iota(permutation.dtype, a.shape, a.ndim - 1)
    x = (permutation[..., None] == rows).astype(a.dtype)
    for lower in (True, False):
        x = lax.linalg.triangular_solve(lu, x, left_side=True, lower=lower, unit_diagonal=lower)
    return [x]


_SOLVES = ("jaxpr.triangular_solve", "jaxpr.custom_linear_solve")
