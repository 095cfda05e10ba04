"""The Laplacian of a program in one pass forward, without second derivatives of the whole.

With each value that depends on the inputs go its derivatives in all of them, ``J``, and its
Laplacian ``L``.  An op ``y = f(x)`` takes both along (Li et al. 2024, "forward Laplacian")::

    J_y = f'(x) J_x        L_y = f'(x) L_x + sum_k f''(x)[J_x[k], J_x[k]]

The sum is left out of an op that is linear.  An op with functions other than a plain call (a loop,
a custom rule) is one op ``f``, whose derivatives are by its own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir.dialect import custom_rule_ops
from jaxmlir.dialect.ops import CALLEES, OPS
from jaxmlir.errors import ArgumentError
from jaxmlir.interpret.interpreter import Frame, Interpreter, Node
from jaxmlir.program.transforms.derivatives import composed
from jaxmlir.program.transforms.ends import leaves_of, to_differentiate

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def laplacian(program: Program, argnums: int | Sequence[int]) -> Program:
    """The program of :meth:`Program.laplacian`."""
    args_tree = program.in_tree.children()[0]
    chosen = leaves_of(args_tree, to_differentiate(argnums, args_tree))
    for i in chosen:
        if not jax.dtypes.issubdtype(program.in_avals[i].dtype, np.floating):
            raise ArgumentError(
                f"laplacian of @{program.name}: expected arguments of real numbers to "
                f"differentiate in, got {program.in_avals[i].str_short()}"
            )

    def transformed(*args: Any, **kwargs: Any) -> Any:
        given = [_Value(x) for x in jax.tree.leaves((args, kwargs))]
        sizes = [given[i].value.size for i in chosen]
        starts = np.cumsum([0, *sizes])
        for i, start in zip(chosen, starts, strict=False):
            given[i] = _input(given[i].value, start, int(starts[-1]))
        results = _ForwardLaplacian(program).run(program.name, given)
        return jax.tree.unflatten(program.out_tree, [_laplacian_of(x) for x in results])

    return composed(program, "laplacian", transformed)


class _Value(NamedTuple):
    """A value with what goes along with it.

    Attributes:
      jacobian: its derivatives, along a first axis; ``None`` where it depends on no input.
    """

    value: Any
    jacobian: Any = None
    laplacian: Any = None


def _input(x: Any, start: int, count: int) -> _Value:
    """A value that is a range of the inputs, of which there are so many."""
    one = jnp.eye(count, x.size, -start, dtype=x.dtype).reshape(count, *x.shape)
    return _Value(x, one, jnp.zeros_like(x))


def _laplacian_of(x: _Value) -> Any:
    return jnp.zeros_like(x.value) if x.laplacian is None else x.laplacian


class _ForwardLaplacian(Interpreter):
    """Evaluates on values with their derivatives."""

    def _evaluate(self, node: Node, operands: list[Any]) -> list[Any]:
        if node.name in _PLAIN_CALLS:
            return self.enter(Frame(node.get(CALLEES[node.name]), node), operands)
        return self.leaf(node, operands)

    def leaf(self, node: Node, operands: list[Any]) -> list[Any]:
        depending = [i for i, x in enumerate(operands) if x.jacobian is not None]
        bind, values = node.bind(self.program), [x.value for x in operands]
        if not depending:
            return [_Value(x) for x in bind(*values)]

        def function(*xs: Any) -> list[Any]:
            """The results that have derivatives."""
            given = list(values)
            for i, x in zip(depending, xs, strict=True):
                given[i] = x
            return [x for x in bind(*given) if _has_derivative(x)]

        xs = [values[i] for i in depending]
        jacobians = [operands[i].jacobian for i in depending]
        _, push = jax.linearize(function, *xs)
        new_jacobians = jax.vmap(push)(*jacobians)
        laplacians = push(*[operands[i].laplacian for i in depending])
        record = OPS.get(node.name.removeprefix("jaxpr."))
        if record is None or not {*depending} <= {*record.linear_operands(len(operands))}:

            def second(*directions: Any) -> list[Any]:
                def first(*xs: Any) -> list[Any]:
                    return jax.jvp(function, xs, directions)[1]

                return jax.jvp(first, tuple(xs), directions)[1]

            bent = jax.vmap(second)(*jacobians)
            laplacians = [x + y.sum(0) for x, y in zip(laplacians, bent, strict=True)]
        along = iter(zip(new_jacobians, laplacians, strict=True))
        return [_Value(x, *(next(along) if _has_derivative(x) else ())) for x in bind(*values)]

    def constant(self, array: Any) -> _Value:
        return _Value(array)


def _has_derivative(x: Any) -> bool:
    return jax.dtypes.issubdtype(jnp.result_type(x), np.inexact)


_PLAIN_CALLS = CALLEES.keys() - custom_rule_ops.OPS - {"jaxpr.custom_vmap_call"}
