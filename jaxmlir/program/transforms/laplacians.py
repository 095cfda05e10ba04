"""The Laplacian of a program in one pass forward, without second derivatives of the whole.

Each value that depends on the inputs is computed with its derivatives in them, ``J``, and its
Laplacian ``L``.  An op ``y = f(x)`` propagates both (Li et al. 2024, "forward Laplacian")::

    J_y = f'(x) J_x        L_y = f'(x) L_x + sum_k f''(x)[J_x[k], J_x[k]]

A linear op has no such sum.  For most values, only the derivatives in the inputs that an element
depends on are stored (:mod:`jaxmlir.sparse.slots`).  Five kinds of ops have formulas of their own:

- *Elementwise* ops on values whose derivatives are multiples of one array: the derivatives of the
  result are, too, ``J_y = c J``, and the sum is ``f'' c_x^2 sum_k J[k]^2``.  So a chain of such
  ops, e.g. an activation function, only squares and sums the ``J[k]``, once.
- *Products* ``u v``: the sum is ``2 sum_k J_u[k] J_v[k]``, one product that contracts ``k`` as
  well.  If each element of ``u`` depends on few inputs, ``k`` ranges over these only.
- *Linear solves* ``A x = b``: both sides have the same Laplacian, so one further solve gives
  ``L_x``: ``A L_x = L_b - L_A x - 2 sum_k J_A[k] J_x[k]``.
- *Custom rules*: a rule ``t_y = R(x, t)`` is itself a program.  ``J_y = R(x, J)``, and
  ``L_y = R(x, L) + sum_k dR/dx(x, J[k]) J[k]`` is half the Laplacian of ``R`` at ``t = 0``, where
  ``t`` has the derivatives ``J`` and the Laplacian ``2 L``.
- *Determinants*: let ``B = A^-1``.  ``log|det A|`` has the derivatives ``tr(B J[k])`` and the
  Laplacian ``tr(B L) - sum_k tr(B J[k] B J[k])``.  In most wave functions an input occurs in one
  row of ``A`` only.  Then ``tr(B J[k] B J[k])`` is the square of ``tr(B J[k])``, and no product
  with the whole of ``B`` is needed.  ``det A`` is linear in each row, so in this case, with the
  cofactors ``C``, it has derivatives ``tr(C^T J[k])`` and the Laplacian ``tr(C^T L)``, even if
  ``A`` has no inverse.

Any other op with functions, e.g. a loop, is one op ``f``, differentiated by its own rules.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from jaxmlir.analysis.function_view import OpView
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.caching import kept_for_settings, setting
from jaxmlir.dialect import custom_rule_ops
from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES, OPS
from jaxmlir.dialect.types import aval_of
from jaxmlir.interpret.interpreter import Frame, Interpreter, Node
from jaxmlir.program.transforms.derivatives import composed
from jaxmlir.program.transforms.ends import argnum_leaves
from jaxmlir.rewriting.dedupe import structure_of
from jaxmlir.sparse import slots
from jaxmlir.sparse.movement import VALUES
from jaxmlir.support.masks import filled
from jaxmlir.toolbox import emit, rewrite_ops

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


# Gathering one element costs as much as this many multiplications of a matrix product.
_TAKEN = 16


def laplacian(program: Program, argnums: int | Sequence[int]) -> Program:
    """The program of :meth:`Program.laplacian`."""
    chosen = argnum_leaves(program, argnums, "laplacian")

    def transformed(*args: Any, **kwargs: Any) -> Any:
        values = [_LaplacianValue(x) for x in jax.tree.leaves((args, kwargs))]
        starts = np.cumsum([0, *(values[i].value.size for i in chosen)])
        for i, start in zip(chosen, starts, strict=False):
            values[i] = _input(values[i].value, start)
        results = _ForwardLaplacian(program, int(starts[-1])).run(program.name, values)
        return jax.tree.unflatten(program.out_tree, [_laplacian_of(x) for x in results])

    new_program = composed(program, "laplacian", transformed)
    rewrite_ops(
        new_program, {"jaxpr.triangular_solve": functools.partial(_by_inverse, new_program)}
    )
    return new_program


def _by_inverse(program: Program, op: OpView) -> Any:
    """Computes a triangular solve with many right-hand sides by a product with the inverse.  There
    is one right-hand side per input.  BLAS would run such a solve of a small matrix on several
    threads, which takes up to a hundred times as long as the arithmetic."""
    (*_, size), sides = (aval_of(x.type).shape for x in op.operands)
    if sides[-1 if op.get("left_side") else -2] < _MANY_SIDES * size:
        return None
    options = ((name, op.get(name)) for name in ("left_side", *_FLAGS))
    return emit(program, _multiplied_by_inverse(**dict(options)), op.operands)


@functools.cache
def _multiplied_by_inverse(left_side: bool, **flags: bool) -> Callable[[Any, Any], list[Any]]:
    def product(a: Any, b: Any) -> list[Any]:
        identity = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
        inverse = jax.lax.linalg.triangular_solve(a, identity, left_side=left_side, **flags)
        factors = (inverse, b) if left_side else (b, inverse)
        return [jnp.matmul(*factors, precision="highest")]

    return product


_FLAGS = ("lower", "transpose_a", "conjugate_a", "unit_diagonal")
_MANY_SIDES = 4


class _SharedDerivatives:
    """Derivatives that the values of a chain of elementwise ops share, up to factors.

    Attributes:
      jacobian: the derivatives, along a first axis of slots.
      layout: the input of each slot; ``None`` where there is one slot for each input.
    """

    def __init__(self, jacobian: Any, layout: slots.Layout | None = None):
        self.jacobian, self.layout = jacobian, layout

    @functools.cached_property
    def squares(self) -> Any:
        """The sum of the squares of an element's derivatives."""
        return jnp.sum(self.jacobian**2, 0)


_ArgumentDirections = dict[int, Any]
"""Directions in some of a function's arguments, by the number of the argument."""


class _LaplacianValue(NamedTuple):
    """A value with its derivatives in the inputs and its Laplacian.

    Attributes:
      base: the derivatives, up to a factor; ``None`` where the value depends on no input.
      laplacian: the Laplacian; ``None`` where it is 0 or not needed.
      factor: the factor of the derivatives, for each element; ``None`` for 1.
      first: whether only first derivatives are needed.
    """

    value: Any
    base: _SharedDerivatives | None = None
    laplacian: Any = None
    factor: Any = None
    first: bool = False

    @property
    def jacobian(self) -> Any:
        """The derivatives, one for each slot of the layout."""
        assert self.base is not None
        return self.base.jacobian if self.factor is None else self.factor * self.base.jacobian

    @property
    def layout(self) -> slots.Layout | None:
        """The input of each slot; ``None`` where there is one slot for each input."""
        assert self.base is not None
        return self.base.layout


def _input(x: Any, start: int) -> _LaplacianValue:
    """An argument to differentiate in: its elements are the inputs from number ``start`` on."""
    layout = np.arange(start, start + x.size)[None, :]
    return _LaplacianValue(x, _SharedDerivatives(jnp.ones((1, *x.shape), x.dtype), layout))


def _spread(x: _LaplacianValue, shape: Sequence[int]) -> _LaplacianValue:
    """A value, broadcast with its derivatives to the shape of an elementwise op's result."""
    have = jnp.shape(x.value)
    if have == tuple(shape) or x.base is None:
        return x
    layout, jacobian = x.layout, x.jacobian
    if layout is not None:
        layout = np.broadcast_to(layout.reshape(-1, *have), (len(layout), *shape))
        layout = layout.reshape(len(layout), -1)
    return _LaplacianValue(
        jnp.broadcast_to(x.value, shape),
        _SharedDerivatives(jnp.broadcast_to(jacobian, (len(jacobian), *shape)), layout),
        None if x.laplacian is None else jnp.broadcast_to(x.laplacian, shape),
        first=x.first,
    )


def _laplacian_of(x: _LaplacianValue) -> Any:
    return jnp.zeros_like(x.value) if x.laplacian is None else x.laplacian


class _ForwardLaplacian(Interpreter):
    """Evaluates a program on values with their derivatives in ``inputs`` elements."""

    def __init__(self, program: Program, inputs: int):
        super().__init__(program)
        self.inputs = inputs

    def _evaluate(self, node: Node, operands: list[Any]) -> list[Any]:
        if node.name in _PLAIN_CALLS:
            return self.enter(Frame(node.get(CALLEES[node.name]), node), operands)
        return self.leaf(node, operands)

    def constant(self, array: Any) -> _LaplacianValue:
        return _LaplacianValue(array)

    def leaf(self, node: Node, operands: list[Any]) -> list[Any]:
        depending = [i for i, x in enumerate(operands) if x.base is not None and x.value.size]
        if not depending or node.name == "jaxpr.stop_gradient":
            return [
                _LaplacianValue(x) for x in self._independent(node, [x.value for x in operands])
            ]
        if node.name == "jaxpr.custom_jvp_call_jaxpr":
            determinant = self._determinant(node, operands)
            return self._by_rule(node, operands, depending) if determinant is None else determinant
        if node.name == "jaxpr.custom_linear_solve":
            return self._solution(node, operands)
        if node.name in ELEMENTWISE:
            shape = node.avals()[0].shape
            operands = [_spread(x, shape) if x.value.ndim == len(shape) else x for x in operands]
            if _is_uniform(node, [operands[i] for i in depending]):
                return [self._elementwise(node, operands, depending)]
        layouts = self._layouts(node, operands, depending)
        if layouts is None and node.name == "jaxpr.dot_general" and len(depending) == 2:
            return self._product(node, operands)
        if layouts is None and node.name == "jaxpr.reduce_sum":
            return self._total(node, *operands)
        return self._differentiated(node, operands, depending, layouts)

    def _independent(self, node: Node, values: list[Any]) -> list[Any]:
        """The results of an op that depends on no input; known indices stay numpy constants."""
        compute = VALUES.get(node.name.removeprefix("jaxpr."))
        is_index = all(np.issubdtype(aval.dtype, np.integer) for aval in node.avals())
        if compute and is_index and not any(isinstance(x, jax.core.Tracer) for x in values):
            indices = compute(node, [np.asarray(x) for x in values])
            if indices is not None:
                return indices
        return node.bind(self.program)(*values)

    def _layouts(
        self, node: Node, operands: list[_LaplacianValue], depending: list[int]
    ) -> tuple[list[slots.Layout], list[slots.Layout]] | None:
        """The layouts of the depending operands and of the results, by which the op is
        differentiated slot by slot; ``None`` where this needs a slot for each input."""
        layouts = [operands[i].layout for i in depending]
        if any(layout is None for layout in layouts):
            return None
        mixing = slots.mixing(self.program, node, [x.value for x in operands], depending)
        joint = mixing and slots.joint(mixing, layouts, self.inputs)
        if joint is None:
            return None
        return [joint[:, g] for g in mixing.operands], [joint[:, g] for g in mixing.results]

    def _elementwise(
        self, node: Node, operands: list[_LaplacianValue], depending: list[int]
    ) -> _LaplacianValue:
        """The result of an elementwise op on values of one shape and type.  Its Jacobian is a sum
        over the bases of the operands: the base times a coefficient."""
        varying = [operands[i] for i in depending]
        xs = [x.value for x in varying]
        function = self._function(node, [x.value for x in operands], depending)
        parts: dict[_SharedDerivatives, _ArgumentDirections] = {}
        for i, x in enumerate(varying):
            assert x.base is not None
            of_base = parts.setdefault(x.base, {})
            of_base[i] = jnp.ones_like(x.value) if x.factor is None else x.factor
        coefficients = [_along(function, part)(*xs)[0] for part in parts.values()]
        curved = {i: x.laplacian for i, x in enumerate(varying) if x.laplacian is not None}
        laplacian = _along(function, curved)(*xs)[0] if curved else None
        layouts = [base.layout for base in parts]
        layout = layouts[0]
        if len(parts) > 1:
            joint = self._layouts(node, operands, depending)
            layout = joint[1][0] if joint else None
        jacobians = [
            slots.aligned(base.jacobian, base.layout, layout, self.inputs) for base in parts
        ]
        first = all(x.first for x in varying)
        pairs: Iterable[Any] = ()
        if not first and not _is_linear(node, operands, depending):
            pairs = itertools.combinations_with_replacement(zip(parts, jacobians, strict=True), 2)
        for (base, one), (other, two) in pairs:
            second = jax.make_jaxpr(_along(_along(function, parts[base]), parts[other]))(*xs)
            if not _is_zero(second):
                (bent,) = jax.extend.core.jaxpr_as_fun(second)(*xs)
                along = base.squares if base is other else 2 * jnp.sum(one * two, 0)
                laplacian = _sum(laplacian, bent * along)
        (value,) = function(*xs)
        if len(parts) == 1:
            return _LaplacianValue(value, *parts, laplacian, *coefficients, first)
        jacobian = sum(c * j for c, j in zip(coefficients, jacobians, strict=True))
        return _with_derivatives(value, jacobian, laplacian, layout, first)

    def _total(self, node: Node, x: _LaplacianValue) -> list[_LaplacianValue]:
        """The result of a ``reduce_sum`` that needs a slot for each input."""
        bind, axes = node.bind(self.program), node.get("axes")
        if x.layout is None:
            jacobian = jnp.sum(x.jacobian, [d + 1 for d in axes])
        else:
            jacobian = slots.summed(x.jacobian, x.layout, axes, self.inputs)
        laplacian = None if x.laplacian is None else bind(x.laplacian)[0]
        return [_with_derivatives(*bind(x.value), jacobian, laplacian, first=x.first)]

    def _function(
        self, node: Node, values: Sequence[Any], depending: list[int]
    ) -> Callable[..., list[Any]]:
        """The op as a function from depending operands to the results that have derivatives."""
        bind, varies = node.bind(self.program), [i in depending for i in range(len(values))]
        return lambda *xs: [x for x in bind(*filled(xs, varies, values)) if _has_derivative(x)]

    def _differentiated(
        self,
        node: Node,
        operands: list[_LaplacianValue],
        depending: list[int],
        layouts: tuple[list[slots.Layout], list[slots.Layout]] | None,
    ) -> list[_LaplacianValue]:
        """The results of an op, by JAX's first and second derivatives of this op."""
        values = [x.value for x in operands]
        outs = node.bind(self.program)(*values)
        function = self._function(node, values, depending)
        varying = [operands[i] for i in depending]
        of_operands = layouts[0] if layouts else [None] * len(varying)
        of_results = layouts[1] if layouts else [None] * len(outs)
        xs = [x.value for x in varying]
        jacobians = [self._aligned(x, to) for x, to in zip(varying, of_operands, strict=True)]
        _, push = jax.linearize(function, *xs)
        news = jax.vmap(push)(*jacobians)
        laplacians = [None] * len(news)
        if any(x.laplacian is not None for x in varying):
            laplacians = push(*map(_laplacian_of, varying))
        first = all(x.first for x in varying)
        if not first and not _is_linear(node, operands, depending):

            def second(*directions: Any) -> list[Any]:
                along = dict(enumerate(directions))
                return _along(_along(function, along), along)(*xs)

            bent = [x.sum(0) for x in jax.vmap(second)(*jacobians)]
            laplacians = list(map(_sum, laplacians, bent))
        along = iter(zip(news, laplacians, strict=True))
        return [
            _with_derivatives(x, *next(along), layout, first)
            if _has_derivative(x)
            else _LaplacianValue(x)
            for x, layout in zip(outs, of_results, strict=True)
        ]

    def _aligned(self, x: _LaplacianValue, layout: slots.Layout | None = None) -> Any:
        """The derivatives of a value in the slots of a layout, by default in all inputs."""
        return slots.aligned(x.jacobian, x.layout, layout, self.inputs)

    def _product(self, node: Node, operands: list[_LaplacianValue]) -> list[_LaplacianValue]:
        """A product ``u v`` of two values that depend on inputs."""
        u, v = operands
        parts = [[u, _LaplacianValue(v.value)], [_LaplacianValue(u.value), v]]
        (by_u,), (by_v,) = (
            self._differentiated(node, part, [i], self._layouts(node, part, [i]))
            for i, part in enumerate(parts)
        )
        jacobian = self._aligned(by_u) + self._aligned(by_v)
        laplacian, first = _sum(by_u.laplacian, by_v.laplacian), u.first and v.first
        if not first:
            both = self._crossed(node, u, v).astype(by_u.value.dtype)
            laplacian = _sum(laplacian, 2 * both)
        return [_with_derivatives(by_u.value, jacobian, laplacian, first=first)]

    def _crossed(self, node: Node, u: _LaplacianValue, v: _LaplacianValue) -> Any:
        """The sum of ``du dv`` over all inputs.  If the elements of one factor depend on few
        inputs, the derivatives of the other factor in these inputs are gathered, for each element.
        So a factor that is a matrix of inputs is not expanded to one matrix per input, which would
        be zero but for one element."""
        contracting, batch = node.get("dimension_numbers")
        dtype = node.avals()[0].dtype
        options = {"precision": node.get("precision"), "preferred_element_type": dtype}
        axes = [
            (
                *batch_dims,
                *(d for d in range(x.value.ndim) if d not in (*batch_dims, *summed)),
                *summed,
            )
            for x, batch_dims, summed in zip((u, v), batch, contracting, strict=True)
        ]
        rank, ends = len(batch[0]), len(contracting[0])
        for few, many in ((0, 1), (1, 0)):
            x, y = ((u, v)[i] for i in (few, many))
            shape = [y.value.shape[d] for d in axes[many]]
            free = shape[rank : len(shape) - ends]
            if x.layout is None or not _pays(x, y, math.prod(free), self.inputs):
                continue
            # Both as [slots or inputs, batch, free, contracting], with the batch dimensions, the
            # free ones and the contracting ones flattened to one dimension each.
            own, other = (
                jnp.transpose(data, (0, *(d + 1 for d in axes[i])))
                for data, i in ((x.jacobian, few), (self._aligned(y), many))
            )
            sizes = math.prod(shape[:rank]), math.prod(free), math.prod(shape[len(shape) - ends :])
            inputs = x.layout.reshape(-1, *x.value.shape).transpose(0, *(d + 1 for d in axes[few]))
            lines = len(inputs), sizes[0], -1, sizes[2]
            inputs = inputs.reshape(lines)
            own = own.reshape(lines)
            if (inputs < 0).any():
                own = jnp.where(inputs >= 0, own, 0)
            places = np.ogrid[: sizes[0], : sizes[2]]
            taken = other.reshape(-1, *sizes).transpose(0, 1, 3, 2)[
                np.maximum(inputs, 0), places[0][:, None], places[1][None]
            ]
            product = jnp.einsum("sbmk,sbmkn->bmn", own, taken, **options)
            product = product if few == 0 else product.transpose(0, 2, 1)
            return product.reshape(node.avals()[0].shape)
        summed = tuple((0, *(d + 1 for d in dims)) for dims in contracting)
        batch_dims = tuple(tuple(d + 1 for d in dims) for dims in batch)
        return jax.lax.dot_general(
            self._aligned(u), self._aligned(v), (summed, batch_dims), **options
        )

    def _solution(self, node: Node, operands: list[_LaplacianValue]) -> list[_LaplacianValue]:
        """The solution of ``A x = b``: two further solves, one of them for all inputs at once."""
        values, bind = [x.value for x in operands], node.bind(self.program)
        lengths, total = node.get("const_lengths"), sum(node.get("const_lengths"))
        matrix, b = operands[: lengths.matvec], operands[total:]
        matvec = Frame(node.get("jaxprs").matvec, node)
        solved = bind(*values)
        xs, aux = solved[: len(b)], solved[len(b) :]

        def solve(sides: Sequence[Any]) -> list[Any]:
            return bind(*values[:total], *sides)[: len(b)]

        moved = self.enter(matvec, [*matrix, *map(_LaplacianValue, xs)])
        sides = [self._difference(y, z) for y, z in zip(b, moved, strict=True)]
        jacobians = jax.vmap(solve)(sides)
        followed = [x for x in (*matrix, *b) if x.base is not None]
        first, laplacians = all(x.first for x in followed), [None] * len(b)
        if not first:
            along = [
                _LaplacianValue(x, _SharedDerivatives(j))
                for x, j in zip(xs, jacobians, strict=True)
            ]
            bent = self.enter(matvec, [*matrix, *along])
            laplacians = solve(
                [_laplacian_of(y) - _laplacian_of(z) for y, z in zip(b, bent, strict=True)]
            )
        results = zip(xs, jacobians, laplacians, strict=True)
        return [*(_with_derivatives(*x, first=first) for x in results), *map(_LaplacianValue, aux)]

    def _difference(self, y: _LaplacianValue, z: _LaplacianValue) -> Any:
        """The derivatives of ``y - z`` in all inputs."""
        zeros = jnp.zeros((self.inputs, *y.value.shape), y.value.dtype)
        left, right = (zeros if x.base is None else self._aligned(x) for x in (y, z))
        return left - right

    def _determinant(
        self, node: Node, operands: list[_LaplacianValue]
    ) -> list[_LaplacianValue] | None:
        """The results of ``slogdet``, and of ``det`` where each input is in one row (or column) of
        the matrix; ``None`` otherwise."""
        name, (x, *_) = _determinant_of(self.program, node), operands
        if name is None:
            return None
        bind, sign = node.bind(self.program), []
        if name == "slogdet":
            *sign, value = bind(x.value)
            derivatives = _log_det(x.value, x.jacobian, x.laplacian, x.layout, self.inputs)
        else:
            by_line = _lines(x.layout, x.value.shape)
            if by_line is None:
                return None
            (value,), pull = jax.vjp(bind, x.value)
            (cofactors,) = pull([jnp.ones_like(value)])
            derivatives = _det(cofactors, x.jacobian, x.laplacian, by_line, self.inputs)
        jacobian, laplacian = derivatives[0], None if x.first else derivatives[1]
        result = _with_derivatives(value, jacobian, laplacian, first=x.first)
        return [*map(_LaplacianValue, sign), result]

    def _by_rule(
        self, node: Node, operands: list[_LaplacianValue], depending: list[int]
    ) -> list[_LaplacianValue]:
        """The results of an op with a custom rule, by the forward Laplacian of the rule itself."""
        from jaxmlir.program.staging import trace

        bind, values = node.bind(self.program), [x.value for x in operands]
        varying = [operands[i] for i in depending]
        if all(x.first for x in varying):
            return self._differentiated(node, operands, depending, None)

        def rule(values: Any, directions: Any) -> list[Any]:
            function = self._function(node, values, depending)
            return jax.jvp(function, [values[i] for i in depending], directions)[1]

        xs = [x._replace(laplacian=None, first=True) for x in operands]
        twice = [None if x.laplacian is None else 2 * x.laplacian for x in varying]
        directions = [
            x._replace(value=jnp.zeros_like(x.value), laplacian=laplacian)
            for x, laplacian in zip(varying, twice, strict=True)
        ]
        program = trace(rule)(values, [x.value for x in directions])
        tangents = _ForwardLaplacian(program, self.inputs).run(program.name, [*xs, *directions])
        halves = iter(
            x._replace(laplacian=None if x.laplacian is None else x.laplacian / 2) for x in tangents
        )
        return [
            next(halves)._replace(value=x) if _has_derivative(x) else _LaplacianValue(x)
            for x in bind(*values)
        ]


def _pays(x: _LaplacianValue, y: _LaplacianValue, free: int, inputs: int) -> bool:
    """Whether gathering derivatives of ``y`` for elements of ``x``, each of which is multiplied
    with ``free`` elements of ``y``, beats products with zeros."""
    count = len(x.layout)
    held = inputs * max(x.value.size, y.value.size)
    return _TAKEN * count <= inputs and 0 < count * x.value.size * free <= held


def _with_derivatives(
    x: Any, jacobian: Any, laplacian: Any, layout: slots.Layout | None = None, first: bool = False
) -> _LaplacianValue:
    return _LaplacianValue(x, _SharedDerivatives(jacobian, layout), laplacian, first=first)


def _is_uniform(node: Node, values: Sequence[_LaplacianValue]) -> bool:
    """Whether an op has one real result, with the shape and dtype of each of ``values``."""
    (aval, *more) = node.avals()
    is_real = not more and jax.dtypes.issubdtype(aval.dtype, np.floating)
    return is_real and all(
        (x.value.shape, x.value.dtype) == (aval.shape, aval.dtype) for x in values
    )


def _is_linear(node: Node, operands: Sequence[_LaplacianValue], depending: Sequence[int]) -> bool:
    record = OPS.get(node.name.removeprefix("jaxpr."))
    return record is not None and {*depending} <= {*record.linear_operands(len(operands))}


def _along(
    function: Callable[..., list[Any]], part: _ArgumentDirections
) -> Callable[..., list[Any]]:
    """The derivatives of a function along directions of some of its arguments."""

    def derivative(*xs: Any) -> list[Any]:
        def of_part(*ys: Any) -> list[Any]:
            replaced = dict(enumerate(xs)) | dict(zip(part, ys, strict=True))
            return function(*replaced.values())

        return jax.jvp(of_part, [xs[i] for i in part], list(part.values()))[1]

    return derivative


def _is_zero(function: Any) -> bool:
    """Whether a traced function's single result is 0 for all arguments."""
    (result,) = function.jaxpr.outvars
    for eqn in reversed(function.jaxpr.eqns):
        if result in eqn.outvars and eqn.primitive.name == "broadcast_in_dim":
            result = eqn.invars[0]
    return isinstance(result, jax.extend.core.Literal) and not np.any(result.val)


def _sum(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


def _has_derivative(x: Any) -> bool:
    return jax.dtypes.issubdtype(jnp.result_type(x), np.inexact)


_PLAIN_CALLS = CALLEES.keys() - custom_rule_ops.OPS - {"jaxpr.custom_vmap_call"}


_RULE = "jaxpr.custom_jvp_call_jaxpr"


def _determinant_of(program: Module, node: Node) -> str | None:
    """``"slogdet"`` or ``"det"`` where a custom JVP op is that of :mod:`jax.numpy.linalg` on real
    matrices: its function and its rule equal, op by op, those that JAX traces here."""
    with scope():
        avals = [aval_of(x.type) for x in node.op.operands]
        name = {1: "det", 2: "slogdet"}.get(len(node.results))
        if len(avals) != 1 or name is None:
            return None
        (aval,) = avals
        is_real = jax.dtypes.issubdtype(aval.dtype, np.floating)
        if not is_real or len(aval.shape) < 2 or aval.shape[-1] != aval.shape[-2]:
            return None
        structure = _structure(program, node.op)
        by_jax = _structures_by_jax(name, aval.shape, aval.dtype)
        return name if structure is not None and structure in by_jax else None


_by_jax = kept_for_settings()


def _structures_by_jax(name: str, shape: tuple[Any, ...], dtype: Any) -> list[Any]:
    """The functions of the custom JVPs that JAX traces a function of matrices to."""
    from jaxmlir.program.staging import trace

    key = name, shape, dtype, setting()
    if key not in _by_jax:
        program = trace(getattr(jnp.linalg, name))(jax.ShapeDtypeStruct(shape, dtype))
        ops = (op for f in program.functions.values() for op, kind in named_ops(f) if kind == _RULE)
        _by_jax[key] = [_structure(program, op) for op in ops]
    return _by_jax[key]


def _structure(program: Module, op: Any) -> Any | None:
    """The functions of a custom JVP; ``None`` where its rule is not traced."""
    names = [name for name in ("call_jaxpr", "jvp_jaxpr") if name in op.attributes]
    if len(names) < 2:
        return None
    return structure_of(program.functions, *(op.attributes[name].value for name in names))


def _log_det(
    a: Any, jacobian: Any, laplacian: Any, layout: slots.Layout | None, inputs: int
) -> tuple[Any, Any]:
    """The derivatives of ``log|det a|`` in all inputs, and its Laplacian.  The Jacobian of ``a`` is
    ``[slots, *a.shape]``; the layout has the input of each slot, ``None`` for one slot per input.
    """
    inverse = jnp.linalg.inv(a)
    bent = 0 if laplacian is None else jnp.sum(inverse.mT * laplacian, (-2, -1))
    by_line = _lines(layout, a.shape)
    if by_line is not None:
        traces = _traces(inverse.mT, jacobian, by_line)
        derivatives = slots.aligned(traces, by_line.layout, None, inputs).sum(-1)
        return derivatives, bent - jnp.sum(traces**2, (0, -1))
    if layout is not None:
        jacobian, inverse = jacobian.mT, inverse.mT
    jacobian = slots.aligned(jacobian, layout, None, inputs)
    moved = jnp.matmul(jacobian, inverse, precision="highest")
    bent -= jnp.sum(moved * moved.mT, (0, -2, -1))
    return jnp.trace(moved, axis1=-2, axis2=-1), bent


def _det(cofactors: Any, jacobian: Any, laplacian: Any, by_line: MatrixLines, inputs: int) -> Any:
    """The derivatives of ``det a`` in all inputs, and its Laplacian.  The cofactors are the
    derivatives in the elements of ``a``; the other arguments are as for ``_log_det``."""
    traces = _traces(cofactors, jacobian, by_line)
    derivatives = slots.aligned(traces, by_line.layout, None, inputs).sum(-1)
    return derivatives, None if laplacian is None else jnp.sum(cofactors * laplacian, (-2, -1))


class MatrixLines(NamedTuple):
    """The inputs of a matrix, where each occurs in one row only, or each in one column only.

    Attributes:
      axis: the axis along which such a line, i.e. a row or a column, extends.
      layout: the input of each slot of each line.
    """

    axis: int
    layout: slots.Layout


def _lines(layout: slots.Layout | None, shape: Sequence[int]) -> MatrixLines | None:
    """The :class:`MatrixLines` of matrices of a shape; ``None`` where there are none."""
    if layout is None:
        return None
    by_element = layout.reshape(-1, *shape)
    for axis in (-1, -2):
        if _is_one_row(by_element if axis == -1 else by_element.swapaxes(-2, -1)):
            rows = np.take(by_element, 0, axis)
            return MatrixLines(axis, rows.reshape(len(layout), -1))
    return None


def _traces(factors: Any, jacobian: Any, by_line: MatrixLines) -> Any:
    """For each line, the sum over its elements of their derivatives times their factors."""
    return jnp.sum(jacobian * factors, by_line.axis)


def _is_one_row(layout: slots.Layout) -> bool:
    """Whether each input of a layout ``[slots, *batch, rows, columns]`` is in at most one row of
    each matrix, and there in one slot."""
    if (layout != layout[..., :1]).any():
        return False
    rows = np.moveaxis(layout[..., 0], 0, -1)
    rows = np.sort(rows.reshape(-1, rows.shape[-2] * rows.shape[-1]), -1)
    return not ((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any()
