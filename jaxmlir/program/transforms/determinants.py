"""The forward Laplacian of JAX's ``slogdet`` and ``det``: sums over the derivatives' rows.

Let ``B = A^-1``, and let ``A`` have derivatives ``J[k]`` and the Laplacian ``L``.  Then
``log|det A|`` has the derivatives ``tr(B J[k])`` and the Laplacian
``tr(B L) - sum_k tr(B J[k] B J[k])``.  In most wave functions an input occurs in one row of ``A``
only.  Then ``tr(B J[k] B J[k])`` is the square of ``tr(B J[k])``, and no product with the whole of
``B`` is needed.  ``det A`` is linear in each row, so in this case, with the cofactors ``C``, it has
derivatives ``tr(C^T J[k])`` and the Laplacian ``tr(C^T L)``, even if ``A`` has no inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir.caching import kept_for_settings, setting
from jaxmlir.dialect.builder import named_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.interpret.interpreter import Node
from jaxmlir.rewriting.dedupe import structure_of
from jaxmlir.sparse import slots

_RULE = "jaxpr.custom_jvp_call_jaxpr"


def determinant_of(program: Module, node: Node) -> str | None:
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


def log_det(
    a: Any, jacobian: Any, laplacian: Any, layout: slots.Layout | None, inputs: int
) -> tuple[Any, Any]:
    """The derivatives of ``log|det a|`` in all inputs, and its Laplacian.

    Args:
      jacobian: the Jacobian of ``a``, ``[slots, *a.shape]``.
      laplacian: the Laplacian of ``a``; ``None`` where it is 0.
      layout: the input of each slot; ``None`` where there is one slot for each input.
    """
    inverse = jnp.linalg.inv(a)
    bent = 0 if laplacian is None else jnp.sum(inverse.mT * laplacian, (-2, -1))
    by_line = lines(layout, a.shape)
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


def det(cofactors: Any, jacobian: Any, laplacian: Any, by_line: MatrixLines, inputs: int) -> Any:
    """The derivatives of ``det a`` in all inputs, and its Laplacian.

    Args:
      cofactors: the derivatives of ``det a`` in the elements of ``a``.
      jacobian, laplacian: as for :func:`log_det`.
      by_line: the result of :func:`lines` for ``a``.
    """
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


def lines(layout: slots.Layout | None, shape: Sequence[int]) -> MatrixLines | None:
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
    """Whether each input is in at most one row of each matrix, and there in one slot.

    Args:
      layout: ``[slots, *batch, rows, columns]``.
    """
    if (layout != layout[..., :1]).any():
        return False
    rows = np.moveaxis(layout[..., 0], 0, -1)
    rows = np.sort(rows.reshape(-1, rows.shape[-2] * rows.shape[-1]), -1)
    return not ((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any()
