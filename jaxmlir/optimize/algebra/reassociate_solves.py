"""``jaxpr-reassociate-solves``: linear systems are solved for the vectors that are wanted.

``inv(A) @ y`` solves a system for each column of the identity, and multiplies.  One system is
enough, and more exact.  A solution is a product with an inverse matrix, and products may be
bracketed otherwise::

    (A^-1 B) y    ->   A^-1 (B y)           y^T (A^-1 B)   ->   (A^-T y)^T B

Where ``B`` is the identity it is no factor at all.  A system of ``n`` unknowns with ``k`` right
sides, whose solution is multiplied by ``m`` vectors, takes ``2 n^2 k + 2 n k m`` operations as it
is written, and ``2 n^2 m + 2 n k m`` after; what is solved for is changed if that is less for all
uses of the solution together.

``A`` may be triangular (``triangular_solve``: Cholesky factors and their solutions are two of
these) or general (``custom_linear_solve`` by an LU factorization, as ``jnp.linalg.solve`` and
``inv`` write it).  Its factorization stays as it is: the transposed system is solved by the same.
Batches of systems are left alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jax import lax

from jaxmlir.analysis.function_view import FunctionView, OpView, node_of, numbers_rows, ops_of
from jaxmlir.analysis.manager import analyses_of, outside_kernels
from jaxmlir.analysis.op_counts import is_plain_op
from jaxmlir.dialect.builder import converted, drop_dead_ops, returned
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Times the estimate must fall. An LU solve of 384 unknowns with 384 right sides is 5 ms, with one
# 0.1 ms; the estimate is off by less than this where few vectors are left.
MIN_GAIN = 1.3


class ReassociateSolves(Pass):
    """Solve linear systems for the vectors that are wanted, not for a matrix times these.

    Options:
      min-gain: how many times fewer operations it must take.
    """

    name: ClassVar[str] = "jaxpr-reassociate-solves"
    min_gain: Amount = MIN_GAIN

    def run(self, program: Module) -> bool:
        return solve_late(program, self.min_gain) > 0


def solve_late(program: Module, min_gain: float = MIN_GAIN) -> int:
    """Solves for vectors instead of matrices, in place; how many solutions of matrices went."""
    with scope():
        rules = Rules(program)
        count = sum(
            _rewrite(rules, function, min_gain) for function in outside_kernels(program, _SOLVES)
        )
    if count:
        program.changed()
    return count


@dataclass(frozen=True)
class _Solver:
    """How a system is solved; hashable.

    Attributes:
      params: of a ``triangular_solve``; ``None`` where there is an LU factorization.
    """

    params: tuple[tuple[str, Any], ...] | None

    def __call__(self, b: Any, transposed: bool, a: Any, *factors: Any) -> Any:
        """The solution for right sides that are columns.

        Args:
          transposed: of the transposed system.
          factors: LU factors and the permutation of the rows.
        """
        if self.params is not None:
            params = dict(self.params)
            params["transpose_a"] ^= transposed
            return lax.linalg.triangular_solve(a, b, **params)
        lu, permutation = factors

        def solve(x: Any, transposed: bool) -> Any:
            return _solve_by_lu(lu, permutation, x, transposed)

        return lax.custom_linear_solve(
            lambda x: lax.dot_general(
                a,
                x,
                (((0 if transposed else 1,), (0,)), ((), ())),
                precision=lax.Precision.HIGHEST,
            ),
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


@dataclass(frozen=True)
class _Use:
    """A product of a solution, ``n x k``, and another array; hashable but for its node.

    Attributes:
      of_rows: whether it contracts the solution's rows, not its columns.
      first: whether the solution is the product's first operand.
      axis: the dimension of the other array that is contracted.
    """

    of_rows: bool
    first: bool
    axis: int


@dataclass(frozen=True)
class _Product:
    """A product as a solution of its own.

    Attributes:
      shape: of the product.
      right: what there is of right sides: nothing of an identity, a matrix or its transpose.
      precision: of products with these.
    """

    solver: _Solver
    use: _Use
    shape: tuple[int, ...]
    right: str
    precision: Any

    def __call__(self, other: Any, *operands: Any) -> list[Any]:
        use = self.use
        others = [n for d, n in enumerate(other.shape) if d != use.axis]
        order = [use.axis, *(d for d in range(other.ndim) if d != use.axis)]
        y = lax.reshape(lax.transpose(other, order), (other.shape[use.axis], math.prod(others)))
        if self.right:
            *operands, b = operands
            of_columns = 1 if self.right == "matrix" else 0
        if self.right and not use.of_rows:
            y = self.dot(b, of_columns, y)
        z = self.solver(y, use.of_rows, *operands)
        if self.right and use.of_rows:
            z = self.dot(b, 1 - of_columns, z)
        return [lax.reshape(z if use.first else lax.transpose(z, (1, 0)), self.shape)]

    def dot(self, b: Any, axis: int, y: Any) -> Any:
        return lax.dot_general(b, y, (((axis,), (0,)), ((), ())), precision=self.precision)


@dataclass
class _System:
    """A system in a function.

    Attributes:
      index: of its op, ...
      node: ... and that.
      matrix: what the solver takes: the matrix, its factors.
      b: the right sides, or ``None`` of an identity.
      as_rows: whether right sides and solutions are rows, not columns.
    """

    index: int
    node: OpView
    solver: _Solver
    matrix: list[ir.Value]
    b: ir.Value | None
    as_rows: bool

    @property
    def solution(self) -> ir.Value:
        return self.node.op.results[0]


def _rewrite(rules: Rules, function: func.FuncOp, min_gain: float) -> int:
    """Rewrites a function, again where right sides have become products with other solutions."""
    count = 0
    body = analyses_of(rules.program).body(function)
    while True:
        systems = _Systems(rules, body)
        found = sum(systems.solve_late(system, min_gain) for system in systems.found)
        if not found:
            return count
        drop_dead_ops(function)
        count += found
        body = FunctionView(function)


class _Systems:
    """The systems of a function that are solved for matrices.

    Attributes:
      found: these, in order.
    """

    def __init__(self, rules: Rules, body: FunctionView):
        self._rules = rules
        self._body = body
        systems = (self._system(index, node) for index, node in enumerate(body.op_views))
        self.found = [system for system in systems if system is not None]

    # --- what there is ---

    def _system(self, index: int, node: OpView) -> _System | None:
        if node.name not in _SOLVES or not is_plain_op(node):
            return None
        if len(aval_of(node.op.results[0].type).shape) != 2:
            return None
        read = self._triangular if node.name == _SOLVES[0] else self._general
        return read(index, node)

    def _triangular(self, index: int, node: OpView) -> _System | None:
        params = {
            key: bool(node.get(key, False))
            for key in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        }
        if not params["left_side"] or params["conjugate_a"]:
            return None
        a, b = node.operands
        solver = _Solver(tuple(sorted(params.items())))
        return _System(index, node, solver, [a], None if self._is_identity(b) else b, False)

    def _general(self, index: int, node: OpView) -> _System | None:
        """Of ``jnp.linalg.solve``: its right sides, and its solutions, are rows here."""
        lengths = node.get("const_lengths")
        if tuple(lengths) != (1, 1, 2, 2) or len(node.operands) != 7:
            return None
        a, a_again, lu, permutation, lu_again, permutation_again, b = node.operands
        if (a, lu, permutation) != (a_again, lu_again, permutation_again):
            return None
        factors = node_of(lu)
        if factors is None or factors.name != "jaxpr.lu" or len(aval_of(a.type).shape) != 2:
            return None
        (source,) = factors.operands
        stopped = node_of(source)
        if stopped is not None and stopped.name == "jaxpr.stop_gradient":
            (source,) = stopped.operands
        if [lu, permutation] != [factors.op.results[0], factors.op.results[2]] or source != a:
            return None
        if not self._multiplies_rows(_matvec(node)):
            return None
        b = None if self._is_identity(b) else b
        return _System(index, node, _Solver(None), [a, lu, permutation], b, True)

    def _multiplies_rows(self, symbol: str) -> bool:
        """Whether a function of ``a`` and ``x`` is ``x[i] -> a @ x[i]``."""
        function = self._rules.program.function(symbol)
        a, x = function.arguments
        made: dict[ir.Value, bool] = {}
        for node in ops_of(function):
            op, name, operands = node
            (result,) = op.results
            if name == "jaxpr.dot_general" and set(operands) == {a, x}:
                expected = (((1,), (1,)), ((), ()))
                if _tuples(node.get("dimension_numbers")) != expected:
                    return False
                made[result] = operands[0] == x
            elif name == "jaxpr.transpose" and operands[0] in made:
                made[result] = not made[operands[0]]
            elif name == "jaxpr.reduce_sum" and operands[0] in made and not node.get("axes"):
                made[result] = made[operands[0]]
            else:
                return False
        (out,) = returned(function)
        return made.get(out, False)

    def _is_identity(self, value: ir.Value) -> bool:
        """Whether a matrix is ``eye(n)``."""
        node = node_of(value)
        while node is not None and node.name in ("jaxpr.transpose", "jaxpr.convert_element_type"):
            node = node_of(node.operands[0])
        if node is None or node.name != "jaxpr.eq":
            return False
        iotas = list(map(node_of, node.operands))
        if not all(map(numbers_rows, iotas)):
            return False
        shape, dims = aval_of(value.type).shape, [i.get("dimension") for i in iotas]
        # One that has a single row repeats its zero.
        are_whole = all(i.get("shape")[d] == shape[0] for i, d in zip(iotas, dims, strict=True))
        return len(set(shape)) == 1 and set(dims) == {0, 1} and are_whole

    def _uses(self, index: int, transposed: bool) -> list[tuple[_Use, OpView]] | None:
        """The products that a solution, or its transpose, is a factor of; ``None`` if it is used
        otherwise, too.

        Args:
          index: of the op that gives it.
        """
        value, _ = self._body.results[index]
        if value in self._body.outputs:
            return None
        found: list[tuple[_Use, OpView]] = []
        for user in self._body.users[value]:
            node = self._body.op_views[user]
            if node.name == "jaxpr.transpose":
                inner = self._uses(user, not transposed)
                if inner is None:
                    return None
                found += inner
                continue
            use = self._use(node, self._body.operands[user].index(value), transposed)
            if use is None:
                return None
            found.append((use, node))
        return found

    def _use(self, node: OpView, position: int, transposed: bool) -> _Use | None:
        if node.name != "jaxpr.dot_general" or not is_plain_op(node):
            return None
        # Both factors are the solution.
        if len({*node.operands}) < len(node.operands):
            return None
        dtypes = {aval_of(v.type).dtype for v in (*node.operands, node.op.results[0])}
        contracted, batch = _tuples(node.get("dimension_numbers"))
        if len(dtypes) != 1 or batch != ((), ()) or len(contracted[0]) != 1:
            return None
        of_rows = (contracted[position][0] == 0) != transposed
        return _Use(of_rows, position == 0, contracted[1 - position][0])

    # --- writing ---

    def solve_late(self, system: _System, min_gain: float) -> bool:
        """Solves a system for what its solution is multiplied by, if that pays."""
        uses = self._uses(system.index, system.as_rows)
        # A product of a solution with itself needs the solution, whichever of the two goes.
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
        # Fewer in any case: else two ways of solving would take turns for ever.
        if after >= before or after * min_gain > before:
            return False
        remark(
            system.node.op,
            f"solved for {sum(sizes)} vectors, not for {k} that these are multiplied by",
        )
        for use, node in uses:
            self._write(system, use, node)
        return True

    def _write(self, system: _System, use: _Use, node: OpView) -> None:
        (old,) = node.op.results
        right = "" if system.b is None else "rows" if system.as_rows else "matrix"
        product = _Product(
            system.solver, use, aval_of(old.type).shape, right, _hashable(node.get("precision"))
        )
        operands = [node.operands[use.first], *system.matrix]
        if system.b is not None:
            operands.append(system.b)
        with ir.InsertionPoint(node.op), node.op.location:
            (value,) = self._rules.emit(product, operands, product)
            value = converted(value, old.type)
        old.replace_all_uses_with(value)


def _matvec(node: OpView) -> str:
    """The function of a ``custom_linear_solve`` that multiplies by the matrix."""
    return ir.DictAttr(ir.DictAttr(node.attributes["jaxprs"])["_LinearSolveTuple"])["matvec"].value


def _tuples(numbers: Any) -> tuple[Any, ...]:
    """Dimension numbers as tuples of tuples."""
    return tuple(tuple(tuple(map(int, dims)) for dims in group) for group in numbers)


def _hashable(precision: Any) -> Any:
    return tuple(precision) if isinstance(precision, list) else precision


_SOLVES = ("jaxpr.triangular_solve", "jaxpr.custom_linear_solve")
