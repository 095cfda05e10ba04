"""The forward Laplacian of JAX's ``slogdet``: one inverse, and sums over the derivatives' rows.

With ``B = A^-1``, derivatives ``J[k]`` and the Laplacian ``L`` of ``A``, those of ``log|det A|``
are ``tr(B J[k])`` and ``tr(B L) - sum_k tr(B J[k] B J[k])``.  In most wave functions an input is in
one row of ``A`` only: then ``tr(B J[k] B J[k])`` is the square of ``tr(B J[k])``, and nothing is
multiplied by ``B`` as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmlir.caching.configuration_key import kept_for_settings, setting
from jaxmlir.dialect.builder import named_ops, reachable
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.interpret.interpreter import Node
from jaxmlir.rewriting.dedupe import shape_of
from jaxmlir.sparse import slots

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

_RULE = "jaxpr.custom_jvp_call_jaxpr"


def is_slogdet(program: Module, node: Node) -> bool:
    """Whether a custom JVP is that of :func:`jax.numpy.linalg.slogdet` on real matrices: its
    function and its rule are what JAX traces here, op by op."""
    with scope():
        avals = [aval_of(x.type) for x in node.op.operands]
        if len(avals) != 1 or len(node.results) != 2:
            return False
        (aval,) = avals
        is_real = jax.dtypes.issubdtype(aval.dtype, np.floating)
        if not is_real or len(aval.shape) < 2 or aval.shape[-1] != aval.shape[-2]:
            return False
        found = _text(program, node.op)
        return found is not None and found == _text_by_jax(aval.shape, aval.dtype)


_texts_by_jax = kept_for_settings()


def _text_by_jax(shape: tuple[Any, ...], dtype: Any) -> Any:
    """The text of what JAX traces ``slogdet`` of matrices to."""
    from jaxmlir.program.staging import trace

    key = shape, dtype, setting()
    if key not in _texts_by_jax:
        known = trace(jnp.linalg.slogdet)(jax.ShapeDtypeStruct(shape, dtype))
        ops = (op for f in known.functions.values() for op, name in named_ops(f) if name == _RULE)
        _texts_by_jax[key] = _text(known, next(ops))
    return _texts_by_jax[key]


def _text(program: Module, op: Any) -> Any:
    """The functions that a custom JVP has, by themselves: equal for equal ones in any program;
    ``None`` where its rule is not traced."""
    functions = program.functions
    if not all(name in op.attributes for name in ("call_jaxpr", "jvp_jaxpr")):
        return None
    roots = [op.attributes[name].value for name in ("call_jaxpr", "jvp_jaxpr")]
    numbers = {name: i for i, name in enumerate(reachable(functions, *roots))}
    shapes = [shape_of(functions[name]) for name in numbers]
    return [(shape, [numbers[use] for use in uses]) for shape, uses in shapes]


def log_det(
    a: Any, jacobian: Any, laplacian: Any, layout: slots.Layout | None, inputs: int
) -> tuple[Any, Any]:
    """The derivatives of ``log|det a|`` in all inputs, and its Laplacian.

    Args:
      jacobian: that of ``a``, ``[slots, *a.shape]``.
      laplacian: that of ``a``; ``None`` where it is 0.
      layout: the input of each slot; ``None`` where these are all inputs.
    """
    inverse = jnp.linalg.inv(a)
    bent = 0 if laplacian is None else jnp.sum(inverse.mT * laplacian, (-2, -1))
    by_row = None if layout is None else layout.reshape(-1, *a.shape)
    if by_row is not None and not _is_one_row(by_row):
        # The transposed matrix has the same determinant.
        by_row, jacobian, inverse = by_row.swapaxes(-2, -1), jacobian.mT, inverse.mT
    if by_row is not None and _is_one_row(by_row):
        traces = jnp.sum(jacobian * inverse.mT, -1)
        bent -= jnp.sum(traces**2, (0, -1))
        rows = by_row[..., 0].reshape(len(by_row), -1)
        return slots.aligned(traces, rows, None, inputs).sum(-1), bent
    if by_row is not None:
        jacobian, inverse = jacobian.mT, inverse.mT
    jacobian = slots.aligned(jacobian, layout, None, inputs)
    moved = jnp.matmul(jacobian, inverse, precision="highest")
    bent -= jnp.sum(moved * moved.mT, (0, -2, -1))
    return jnp.trace(moved, axis1=-2, axis2=-1), bent


def _is_one_row(layout: slots.Layout) -> bool:
    """Whether an input is in one row of each matrix, and in one slot of it, if in any.

    Args:
      layout: ``[slots, *batch, rows, columns]``.
    """
    if (layout != layout[..., :1]).any():
        return False
    rows = np.moveaxis(layout[..., 0], 0, -1)
    rows = np.sort(rows.reshape(-1, rows.shape[-2] * rows.shape[-1]), -1)
    return not ((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any()
