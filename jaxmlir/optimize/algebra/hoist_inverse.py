"""``jaxpr-hoist-inverse``: a matrix that a loop solves with in each iteration is inverted before
it.

To solve for a vector, by triangular factors, takes as many operations as to multiply by the inverse
matrix, but each unknown waits for the one before, so that it takes several times as long.  In a
loop that solves with one of its constants over and over, as implicit time steps do, the inverse
soon pays::

    x[i + 1] = solve(A, x[i])   ->   V = A^-1, before the loop;   x[i + 1] = V x[i]

It is found where ``jnp.linalg.solve`` wrote it: a ``custom_linear_solve`` of LU factors.  That
stays one: ``V`` takes the place of the factors, and the two products that it has, with ``A`` and
with its transpose, are its solvers.  So it is differentiated by ``A x = b``, as before, no
derivative leads to ``V``, and the gradient keeps ``V`` instead of the factors.

``V`` is made such that ``V A`` is the identity but for rounding, not ``A V``: then ``V b`` is as
near to the solution as what factors give, about the condition number of ``A`` times the unit
roundoff (A. Druinsky, S. Toledo, "How accurate is inv(A)*b?", 2012).  Its residual may be larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import OpView, ops_of
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.builder import drop_dead_ops, returned
from jaxmlir.dialect.ir import func, ir, is_private, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.licm import Licm
from jaxmlir.optimize.loops.scan_editor import loop_constants
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.higher_order.custom_linear_solve import Solve
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# How long the loop has to be, for each row of the matrix.  Microseconds on a core, jax 0.12:
#   rows                                    16    64   128   256   512
#   a solve by LU factors, one vector      0.8   4.7    11    36   138
#   a product                              0.8   0.6     3     5    24
#   the inverse, after its factors           6    60   130   800  4400
# Gradients of loops of a quarter as many iterations as rows took 0.84, 0.45, 0.36 and 0.25 of their
# time, of 32, 128, 256 and 512 rows; with 16 right sides 0.83, 0.45, 0.67 and 0.55.
MIN_ITERATIONS = 0.25
# Rows that the overhead is worth: for small matrices one is as good as the other.
OVERHEAD = 32
# Of many right sides a solve is products of matrices itself.
MOST_COLUMNS = 16

SOLVE = "jaxpr.custom_linear_solve"


class HoistInverse(Pass):
    """Invert the matrix that a loop solves with, where it solves often.

    Options:
      min-iterations: of the loop, for each row of the matrix, with 32 rows more.
    """

    name: ClassVar[str] = "jaxpr-hoist-inverse"
    min_iterations: Amount = MIN_ITERATIONS

    def run(self, program: Module) -> bool:
        return solve_once(program, self.min_iterations) > 0


def solve_once(program: Module, min_iterations: float = MIN_ITERATIONS) -> int:
    """Replaces solves in loops by products, in place; how many."""
    functions = outside_kernels(program, {SOLVE})
    if not functions:
        return 0
    with scope():
        systems = _Systems(program, min_iterations)
        count = sum(map(systems.rewrite, functions))
    if count:
        program.changed()
        Licm().run(program)
    return count


class _Systems:
    """The systems in the loops of a program."""

    def __init__(self, program: Module, min_iterations: float):
        self._program = program
        self._rules = Rules(program)
        self._min_iterations = min_iterations
        self._iterations = loop_constants(program)
        # What loops take, by the blocks of their bodies, if nothing else uses these.
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
        count = 0
        for node in list(ops_of(function)):
            if node.name == SOLVE:
                count += self._rewrite(node)
        if count:
            drop_dead_ops(function)
        return count

    def _rewrite(self, node: OpView) -> bool:
        solve = Solve.read(node.op)
        # Two products with the matrix, two solvers by its factors.
        if tuple(solve.lengths.values()) != (1, 1, 2, 2) or len(node.operands) != 7:
            return False
        a, a_again, *factors, b = node.operands
        if a != a_again or factors[:2] != factors[2:] or not is_plain_op(node):
            return False
        iterations, shape = self._iterations.get(a, 0), aval_of(a.type).shape
        if not self._pays(iterations, shape, aval_of(b.type).size):
            return False
        if not self._are_transposed(solve, len(shape)) or not self._are_factors(a, *factors[:2]):
            return False
        remark(
            node.op,
            f"the matrix of {shape[-1]} rows is inverted once, not solved with {iterations} times",
        )
        with ir.InsertionPoint(node.op), node.op.location:
            (inverse,) = self._rules.emit(_inverse, [a], "solve_once.inverse")
            (x,) = solve.by_products().create([a, a, inverse, inverse, b])
        node.op.results[0].replace_all_uses_with(x)
        return True

    def _pays(self, iterations: int, shape: Sequence[int], size: int) -> bool:
        """Whether to invert matrices of a shape, the same in all iterations, in each of which they
        are solved with for so many numbers."""
        if not iterations or len(shape) < 2 or not math.prod(shape) or shape[-1] != shape[-2]:
            return False
        columns = size // math.prod(shape[:-1])
        return columns <= MOST_COLUMNS and iterations >= self._min_iterations * (
            shape[-1] + OVERHEAD
        )

    def _are_factors(self, a: ir.Value, lu: ir.Value, permutation: ir.Value) -> bool:
        """Whether two values are what ``jaxpr.lu`` gives for a matrix; all may be constants of
        loops, in each of which they are."""
        values = a, lu, permutation
        if all(v in self._iterations for v in values):
            numbers = [ir.BlockArgument(v).arg_number for v in values]
            calls = self._loops.get(lu.owner, ())
            return bool(calls) and all(
                self._are_factors(*(args[i] for i in numbers)) for args in calls
            )
        if isinstance(lu.owner, ir.Block):
            return False
        if lu.owner.name != "jaxpr.lu" or list(lu.owner.results)[::2] != [lu, permutation]:
            return False
        (source,) = lu.owner.operands
        if not isinstance(source.owner, ir.Block) and source.owner.name == "jaxpr.stop_gradient":
            (source,) = source.owner.operands
        return source == a

    def _are_transposed(self, solve: Solve, ndim: int) -> bool:
        """Whether the two products are with the last two dimensions of the matrix, each with one of
        them, in each system of a batch."""
        found = [self._contracted(solve.symbols[name], ndim) for name in ("matvec", "vecmat")]
        return None not in found and set(found) == {ndim - 2, ndim - 1}

    def _contracted(self, symbol: str, ndim: int) -> int | None:
        """The dimension of a matrix that a function of it and ``x`` sums over, in the exact product
        with each vector along one dimension of ``x``; ``None`` if that is not what it gives."""
        function = self._program.function(symbol)
        matrix, x = function.arguments
        value, dims, contracted = None, [], None
        for node in ops_of(function):
            op, name, operands = node
            if name == "jaxpr.dot_general" and value is None and {*operands} == {matrix, x}:
                found = _product(node, operands.index(matrix), ndim)
                if found is None:
                    return None
                contracted, dims = found
            elif name == "jaxpr.transpose" and operands == [value]:
                dims = [dims[d] for d in node.get("permutation")]
            elif name != "jaxpr.reduce_sum" or operands != [value] or node.get("axes"):
                return None
            value = op.results[0]
        in_place = [value] == returned(function) and dims == sorted(dims)
        return contracted if in_place else None


def _product(node: OpView, position: int, ndim: int) -> tuple[int, list[int]] | None:
    """Of a product of matrices, an operand of so many dimensions, and an array: the dimension of
    the matrices that is summed over, and of each of the result the one of the array in whose place
    it is."""
    contracting, batch = (
        [list(map(int, dims)) for dims in pair] for pair in node.get("dimension_numbers")
    )
    leading = list(range(ndim - 2))
    if batch != [leading, leading] or len(contracting[0]) != 1:
        return None
    # Not a pair where an algorithm is named.
    precision = node.get("precision")
    if not isinstance(precision, Sequence) or set(precision) != {lax.Precision.HIGHEST}:
        return None
    (of_matrix,), (of_x,) = contracting[position], contracting[1 - position]
    x_ndim = len(aval_of(node.operands[1 - position].type).shape)
    rest = [d for d in range(ndim - 2, x_ndim) if d != of_x]
    return of_matrix, [*leading, *([of_x, *rest] if position == 0 else [*rest, of_x])]


def _inverse(a: Any) -> list[Any]:
    """The transpose of ``a^-1``: the solution of ``a^T x = 1``; no derivative leads to it."""
    import jax.numpy as jnp

    lu, _, permutation = lax.linalg.lu(jnp.swapaxes(lax.stop_gradient(a), -1, -2))
    rows = lax.broadcasted_iota(permutation.dtype, a.shape, a.ndim - 1)
    x = (permutation[..., None] == rows).astype(a.dtype)
    for lower in (True, False):
        x = lax.linalg.triangular_solve(lu, x, left_side=True, lower=lower, unit_diagonal=lower)
    return [x]
