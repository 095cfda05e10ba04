"""``jaxpr.custom_linear_solve``: x with A x = b, where A and its solvers are functions.

Its derivative follows from the equation, not from the solver's steps: ``A x = b`` implies
``A dx = db - dA x``, another solve with the same A.  The op is linear in b, and its transpose
solves with the transpose of A, which is among the functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import build, create, instantiated, symbol_ref
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import batched_type, tangent_type_of
from jaxmlir.support.masks import Dims, Mask, filled, inverted
from jaxmlir.transforms.emitters import Emitter, Linearization, PartialEvaluation, waiting
from jaxmlir.transforms.higher_order.call import linearize_call_of
from jaxmlir.transforms.higher_order.custom_rules import error_at, joined
from jaxmlir.transforms.higher_order.rule import HigherOrderRule
from jaxmlir.transforms.new_function import call
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.transpose import linear_type
from jaxmlir.transforms.vmap import batched_results, move_all, vmap_of

_RECORD = "_LinearSolveTuple"
_NAMES = ("matvec", "vecmat", "solve", "transpose_solve")
_TRANSPOSE = {
    "matvec": "vecmat",
    "vecmat": "matvec",
    "solve": "transpose_solve",
    "transpose_solve": "solve",
}


class CustomLinearSolve(HigherOrderRule):
    def activity(self, rules: Rules, op: Any, kind: str, active: Mask) -> Mask:
        """All of x depends on all of b and on A; a solver's additional results have no tangents."""
        solve = Solve.read(op)
        some = any(solve.of(active, "matvec")) or any(solve.right(active))
        return tuple(some and i < solve.size for i in range(len(op.results)))

    def uses(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Mask:
        """The tangents of the solvers' operands do not affect the solution."""
        solve = Solve.read(op)
        return tuple(
            a and (i < solve.lengths["matvec"] or i >= solve.num_consts)
            for i, a in enumerate(active)
        )

    def linearize(self, rules: Rules, op: Any, active: Mask, wanted: Mask) -> Linearization:
        solve = Solve.read(op)
        uses = self.uses(rules, op, active, wanted)
        pattern = self.activity(rules, op, "linearize", uses)
        size, of_matrix, of_right = solve.size, solve.of(uses, "matvec"), solve.right(uses)
        types = [tangent_type_of(v.type) for v in solve.right(list(op.operands))]
        product = None
        if any(of_matrix):
            product = linearize_call_of(
                rules, solve.symbols["matvec"], (*of_matrix, *[False] * size), (True,) * size
            )

        def primal(args: Sequence[ir.Value]) -> list[ir.Value]:
            x = solve.create(args)
            residuals = list(args[: solve.num_consts])
            if product is not None:
                inputs = [*solve.of(args, "matvec"), *x[:size]]
                _, extra = product.values(inputs, call(rules, product.first, inputs))
                residuals += extra
            return [*x, *residuals]

        def tangent(args: Sequence[ir.Value]) -> list[ir.Value]:
            consts, rest = args[: solve.num_consts], list(args[solve.num_consts :])
            right: list[ir.Value | None] = [None] * size
            if product is not None:
                count = len(product.residuals) + sum(of_matrix)
                moved = iter(call(rules, product.second, rest[:count]))
                right = [_negated(next(moved)) if a else None for a in product.pattern]
                rest = rest[count:]
            right_tangents = iter(rest)
            for i, has in enumerate(of_right):
                if has:
                    right[i] = _added(next(right_tangents), right[i])
            return solve.create([*consts, *instantiated(right, types)])[:size]

        return Linearization(Emitter(pattern, primal), Emitter(pattern, tangent), uses)

    def partial_eval(self, rules: Rules, op: Any, unknown: Mask) -> PartialEvaluation:
        return waiting(op, unknown)

    def transpose(self, rules: Rules, op: Any, linear: Mask, nonzero: Mask) -> Emitter:
        """The solve with the transpose of A, whose right-hand side is the cotangent of x.  A solver
        may have operands that are linear in the tangents, such as the first guess 0 b. The solution
        does not depend on them, so zeros will do."""
        solve = Solve.read(op)
        _check_transposable(op, solve, linear)
        transposed = solve.transposed(rules)
        types = list(map(linear_type, solve.results[: solve.size]))
        of_consts = [v.type for v in list(op.operands)[: solve.num_consts]]
        # A part of b that is not linear is zero in a tangent.
        of_right = solve.right(linear)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            cts = args[linear.count(False) :]
            right = instantiated(filled(cts, nonzero[: solve.size]), types)
            values = instantiated(filled(args, inverted(linear[: solve.num_consts])), of_consts)
            consts = [v for name in _NAMES for v in solve.of(values, _TRANSPOSE[name])]
            outs = transposed.create([*consts, *right])
            return [v for v, want in zip(outs, of_right, strict=False) if want]

        pattern = (False,) * sum(linear[: solve.num_consts]) + (True,) * sum(of_right)
        return Emitter(pattern, write)

    def batch(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Emitter:
        solve, out_dims = Solve.read(op), self.batched(rules, op, dims, axis)
        vector = out_dims[: solve.size]
        symbols = dict(solve.symbols)
        for name, function_dims in _dims_of_functions(rules, solve, dims, vector, axis).items():
            out_axes = (*vector, *map(_at_front, function_dims[solve.size :]))
            arguments = (*solve.of(dims, name), *vector)
            symbols[name], _ = vmap_of(rules, solve.symbols[name], arguments, axis, out_axes)
        results = zip(solve.results, out_dims, strict=True)
        types = [
            batched_type(type_, dim, axis.size, axis.explicit_mesh_axis) for type_, dim in results
        ]
        batched = Solve(solve.lengths, symbols, solve.size, types)

        def write(args: Sequence[ir.Value]) -> list[ir.Value]:
            right = move_all(rules, solve.right(args), solve.right(dims), vector, axis)
            return batched.create([*args[: solve.num_consts], *right])

        return Emitter(out_dims, write)

    def batched(self, rules: Rules, op: Any, dims: Dims, axis: Any) -> Dims:
        """Parts of x and b are batched alike: where b is batched, or any function makes them so."""
        solve = Solve.read(op)
        vector = tuple(map(_at_front, solve.right(dims)))
        while True:
            by_function = _dims_of_functions(rules, solve, dims, vector, axis)
            joined_dims = tuple(
                _at_front(joined(*part_dims))
                for part_dims in zip(vector, *by_function.values(), strict=False)
            )
            if joined_dims == vector:
                return (*vector, *map(_at_front, by_function["solve"][solve.size :]))
            vector = joined_dims


def _check_transposable(op: Any, solve: Solve, linear: Mask) -> None:
    """Raises an error if the transpose of A is not known, or A itself is linear in the tangents."""
    if solve.symbols["transpose_solve"] is None:
        raise error_at(
            op,
            "it cannot be transposed: transpose_solve required for backwards mode automatic "
            "differentiation of custom_linear_solve; pass transpose_solve, or symmetric=True if A "
            "equals its transpose",
        )
    for name in ("matvec", "vecmat"):
        if any(solve.of(linear, name)):
            raise error_at(
                op,
                f"it cannot be transposed: its {name}, @{solve.symbols[name]}, depends on a value "
                "that is to get a cotangent; a solve is linear in the right-hand side only",
            )


def _dims_of_functions(
    rules: Rules, solve: Solve, dims: Dims, vector: Dims, axis: Any
) -> dict[str, Dims]:
    """The dimensions of each function's results, if x and b are batched along ``vector``."""
    return {
        name: batched_results(rules, symbol, (*solve.of(dims, name), *vector), axis)
        for name, symbol in solve.symbols.items()
        if symbol is not None
    }


def _at_front(dim: int | None) -> int | None:
    return None if dim is None else 0


@dataclass(frozen=True)
class Solve:
    """A custom_linear_solve: operands ``(*function consts, *b)``, results ``(*x, *aux)``."""

    lengths: dict[str, int]
    """How many operands belong to each function."""
    symbols: dict[str, str | None]
    """The functions, which take (*their own operands, *x or b)."""
    size: int
    """How many values x and b have."""
    results: Sequence[ir.Type]

    @classmethod
    def read(cls, op: Any) -> Solve:
        attributes = op.attributes
        symbols = ir.DictAttr(ir.DictAttr(attributes["jaxprs"])[_RECORD])
        lengths = codec.decode(attributes["const_lengths"])._asdict()
        refs = {name: symbols[name] for name in _NAMES}
        return cls(
            lengths,
            {n: a.value if isinstance(a, ir.FlatSymbolRefAttr) else None for n, a in refs.items()},
            len(op.operands) - sum(lengths.values()),
            [v.type for v in op.results],
        )

    @property
    def num_consts(self) -> int:
        return sum(self.lengths.values())

    def of(self, values: Sequence[Any], name: str) -> list[Any]:
        """The part of ``values`` (operands, or facts about them) that belongs to a function."""
        start = sum(self.lengths[before] for before in _NAMES[: _NAMES.index(name)])
        return list(values[start : start + self.lengths[name]])

    def right(self, values: Sequence[Any]) -> list[Any]:
        """The part of ``values`` (operands, or facts about them) that belongs to b."""
        return list(values[self.num_consts : self.num_consts + self.size])

    def transposed(self, rules: Rules) -> Solve:
        """The solve of the transposed system; its solver may have other additional results."""
        symbols = {name: self.symbols[_TRANSPOSE[name]] for name in _NAMES}
        of_solver = list(rules.program.function(symbols["solve"]).type.results)
        lengths = {name: self.lengths[_TRANSPOSE[name]] for name in _NAMES}
        results = [*self.results[: self.size], *of_solver[self.size :]]
        return Solve(lengths, symbols, self.size, results)

    def by_products(self) -> Solve:
        """The solve with products in place of solvers: ``vecmat`` as ``solve``, and ``matvec`` as
        ``transpose_solve``, in which the transposed inverse shall take the place of the matrix."""
        products = {"solve": "vecmat", "transpose_solve": "matvec"}
        return replace(
            self,
            lengths=self.lengths | {n: self.lengths[m] for n, m in products.items()},
            symbols=self.symbols | {n: self.symbols[m] for n, m in products.items()},
        )

    def create(self, args: Sequence[ir.Value]) -> list[ir.Value]:
        """Writes the op at the current insertion point; gives its results.  x has b's types."""
        absent = codec.encode(None)
        symbols = {n: symbol_ref(s) if s else absent for n, s in self.symbols.items()}
        types = [*(v.type for v in self.right(args)), *self.results[self.size :]]
        attributes = {
            "const_lengths": _record({n: codec.encode(k) for n, k in self.lengths.items()}),
            "jaxprs": _record(symbols),
        }
        return create("jaxpr.custom_linear_solve", types, args, attributes)


def _record(fields: dict[str, ir.Attribute]) -> ir.Attribute:
    return ir.DictAttr.get({_RECORD: ir.DictAttr.get(fields)})


def _negated(a: ir.Value) -> ir.Value:
    return build("neg", [a], a.type)


def _added(a: ir.Value, b: ir.Value | None) -> ir.Value:
    return a if b is None else build("add_any", [a, b], a.type)
