"""The elements of a Jacobian that may be nonzero: an interpreter of sparsity patterns.

A value is an array together with its *dependencies*, a boolean array with one more axis: element
``[..., j]`` says whether it may depend on input ``j``.  Calls, branches and loops are inherited
from ``Interpreter``; this class defines what an op does to dependencies, in four cases:

    elementwise        the union of the dependencies of the operands' elements
    linear             the op itself, applied to the dependencies on each input
    mul, dot_general   dependencies times the nonzero elements of the other operand
    anything else      every result depends on all inputs that any operand depends on

The last case is always right, so it covers new primitives too.  With the pattern, a banded or block
Jacobian can be computed with a few products (column compression: Curtis, Powell and Reid 1974).

    pattern = jacobian_sparsity(jaxmlir.trace(f)(x), x)     # bool[len(f(x)), len(x)]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir.dialect import ops
from jaxmlir.interpret import Interpreter, Node


class Traced(NamedTuple):
    """An array and the inputs that its elements depend on."""

    value: Any
    deps: np.ndarray


def jacobian_sparsity(program: Any, x: Any) -> np.ndarray:
    """The pattern of the Jacobian of the program's flat results in its one array argument."""
    deps = np.eye(x.size, dtype=bool).reshape(*x.shape, x.size)
    results = Sparsity(program, x.size).run(program.name, [Traced(x, deps)])
    return np.concatenate([r.deps.reshape(-1, x.size) for r in results])


ELEMENTWISE = frozenset(
    f"jaxpr.{record.name}"
    for family in ops.FAMILIES
    if family.name in ("elementwise", "transcendental", "comparison", "special")
    for record in family.ops
)


class Sparsity(Interpreter):
    """Evaluates on :class:`Traced` values at one point, with the branches taken there."""

    def __init__(self, program: Any, inputs: int):
        super().__init__(program)
        self.inputs = inputs

    def leaf(self, node: Node, operands: list[Any]) -> list[Any]:
        values = [x.value for x in operands]
        outs = super().leaf(node, values)
        return [
            Traced(out, deps & jnp.issubdtype(jnp.result_type(out), jnp.inexact))
            for out, deps in zip(outs, self.dependencies(node, operands, outs), strict=True)
        ]

    def dependencies(self, node: Node, operands: list[Traced], outs: list[Any]) -> list[Any]:
        """The dependencies of each result."""
        if node.name == "jaxpr.mul":
            x, y = operands
            return [(x.deps & _can_be_nonzero(y)) | (y.deps & _can_be_nonzero(x))]
        if node.name in ELEMENTWISE:
            (shape,) = {np.shape(out) for out in outs}
            deps = np.zeros((*shape, self.inputs), bool)
            for x in operands:
                deps |= x.deps
            return [deps] * len(outs)
        record = ops.OPS.get(node.name.removeprefix("jaxpr."))
        linear = record.linear_operands(len(operands)) if record else ()
        if linear and not any(x.deps.any() for i, x in enumerate(operands) if i not in linear):
            return self.mapped(node, operands, linear)
        if node.name == "jaxpr.dot_general":
            x, y = operands
            x_factor, y_factor = (_as_factor(v) for v in operands)
            (through_x,) = self.mapped(node, [x, y_factor], (0,))
            (through_y,) = self.mapped(node, [x_factor, y], (1,))
            return [through_x | through_y]
        union = np.zeros(self.inputs, bool)
        for x in operands:
            union |= x.deps.reshape(-1, self.inputs).any(0)
        return [np.broadcast_to(union, (*np.shape(out), self.inputs)) for out in outs]

    def mapped(self, node: Node, operands: list[Traced], linear: tuple[int, ...]) -> list[Any]:
        """Applies the op to the dependencies on each input, written as numbers."""
        args = [
            jnp.asarray(x.deps, x.value.dtype) if i in linear else x.value
            for i, x in enumerate(operands)
        ]
        axes = [-1 if i in linear else None for i in range(len(operands))]
        outs = jax.vmap(node.bind(self.program), axes, -1)(*args)
        return [np.asarray(out) != 0 for out in outs]

    def constant(self, array: Any) -> Traced:
        return Traced(array, np.zeros((*np.shape(array), self.inputs), bool))

    def concrete(self, value: Traced) -> np.ndarray:
        return np.asarray(value.value)

    def slice(self, value: Traced, index: int) -> Traced:
        return Traced(super().slice(value.value, index), value.deps[index])

    def stack_up(self, values: list[Traced], aval: Any) -> Traced:
        deps = np.zeros((*aval.shape, self.inputs), bool)
        for i, x in enumerate(values):
            deps[i] = x.deps
        return Traced(super().stack_up([x.value for x in values], aval), deps)


def _can_be_nonzero(x: Traced) -> np.ndarray:
    """Where a factor can be nonzero, with one more axis for the inputs."""
    return (x.deps.any(-1) | (np.asarray(x.value) != 0))[..., None]


def _as_factor(x: Traced) -> Traced:
    """An array like a factor, with ones where the factor can be nonzero."""
    nonzero = _can_be_nonzero(x)[..., 0]
    return Traced(jnp.asarray(nonzero, x.value.dtype), x.deps)
