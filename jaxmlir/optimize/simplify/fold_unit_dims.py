"""``jaxpr-fold-unit-dims``: arrays without their dimensions of size 1.

``keepdims``, ``x[:, None]``, and above all ``vmap`` and derivatives of these make arrays of shapes
such as ``(256, 6, 1, 64)``.  Moving a dimension of size 1 costs nothing, and a compiler mostly
generates the same code with and without it.  But libraries choose their loops by the rank of an
array and the size of its last dimensions, and their code for an unusual rank may be slow.  The
pass writes elementwise ops, reductions, matrix products and data movement without unit dimensions:

    mul(x[a,1,b], y[a,1,b])   ->   reshape(mul(reshape(x)[a,b], reshape(y)[a,b]))[a,1,b]

Reshapes between rewritten ops cancel; those at the edges remain, i.e. at arguments, results and
other ops.  They move no data.  No bit of a result changes.  Reductions over unit dimensions
only are left to ``jaxpr-canonicalize``.

If a scan body reshapes each row of an array (xs), the scan takes rows without unit dimensions.
XLA may copy an array for a loop that iterates over it in another shape: a loop over two batches of
``(256, 1, 128)``, 512 examples, needs 1.22 times the memory with jax 0.10.2, and the same with
0.12.

On a CPU with jax 0.10.2, ``jnp.sum(x * y, 1)`` of shape ``(256, 6, 1, 64)`` took 1.9 ms, and of
shape ``(256, 6, 64)`` 0.1 ms; with 0.12, 0.1 ms either way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.function_view import OpView, node_of
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import is_narrow, is_plain_array, is_plain_op
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import drop_dead_ops, reshaped
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of, shape_of, with_shape
from jaxmlir.errors import count
from jaxmlir.optimize.loops.scan_editor import LoopEditor, ScanEditor, can_change, loops_of
from jaxmlir.passes.base import Pass
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_ops, visit_functions
from jaxmlir.transforms.higher_order.loops import ScanOp
from jaxmlir.transforms.templates import Rules

Shape = tuple[int, ...]


class FoldUnitDims(Pass):
    """Compute without dimensions of size 1."""

    name: ClassVar[str] = "jaxpr-fold-unit-dims"
    # A TPU's compiler has no such libraries: of 53 gradients, one takes 0.999 of the cycles without
    # the pass, and of meta-learning 0.975.
    compilers: ClassVar[tuple[str, ...]] = ("cpu", "cuda", "rocm")

    def run(self, program: Module) -> bool:
        changed = _drop_of_rows(program)
        return rewrite_ops(program, _UnitDimFolder().rewrites, drop_dead=True) > 0 or changed


def _drop_of_rows(program: Module) -> bool:
    """Removes unit dimensions from the xs of scans whose bodies reshape the rows; returns whether
    there are any."""
    graph = analyses_of(program).graph
    bodies = LoopEditor(Rules(program), graph)

    def visit(function: func.FuncOp) -> bool:
        changed = False
        for op, _ in loops_of(function, SCANS):
            if rows := _reshaped_rows(program, op):
                _drop_of(op, rows, bodies)
                changed = True
        if changed:
            drop_dead_ops(function)
        return changed

    return visit_functions(program, visit, graph, SCANS)


def _drop_of(op: Any, rows: Sequence[int], bodies: LoopEditor) -> None:
    """Removes the unit dimensions from the rows of some xs of a scan."""
    arrays = count(len(rows), "array")
    remark(op, f"removed dimensions of size 1 from {arrays} that the scan slices")
    loop = ScanEditor(bodies, op)
    for item in (loop.xs[i] for i in rows):
        shape = shape_of(item.arg)
        units = [d for d, size in enumerate(shape) if size == 1]
        item.operand = _reshape_before(op, item.operand, [d + 1 for d in units])
        old_arg, item.arg = (
            item.arg,
            loop.new_argument(with_shape(item.arg.type, _without(shape, units))),
        )
        for use in list(old_arg.uses):
            _reshape_instead(use.owner, item.arg)
    loop.write()
    loop.finish()


def _reshaped_rows(program: Module, op: Any) -> list[int]:
    """The numbers of the xs of a scan whose rows have unit dimensions and are only reshaped."""
    scan = ScanOp.of(op)
    body = program.function(scan.body)
    if not can_change(body):
        return []
    _, _, rows = scan.operands(list(body.arguments))
    return [i for i, arg in enumerate(rows) if _is_unit(arg.type) and _is_reshaped(arg)]


def _is_reshaped(value: ir.Value) -> bool:
    """Whether a value is a plain array that only reshapes read."""
    users = [use.owner for use in value.uses]
    if not users or not is_plain_array(value.type):
        return False
    if not all(user.name in _RESHAPES for user in users):
        return False
    return not any(u.name == "jaxpr.reshape" and "dimensions" in u.attributes for u in users)


def _reshape_before(op: Any, value: ir.Value, gone: Sequence[int]) -> ir.Value:
    """Reshapes a value to drop some dimensions; a reshape of a reshape becomes one."""
    shape = _without(shape_of(value), gone)
    maker = node_of(value)
    plain = maker is not None and maker.name in _RESHAPES and is_plain_op(maker)
    if plain and (maker.name == "jaxpr.squeeze" or "dimensions" not in maker.attributes):
        value = maker.operands[0]
    with ir.InsertionPoint(op), op.location:
        return reshaped(value, shape)


def _reshape_instead(op: Any, value: ir.Value) -> None:
    """Replaces a reshape by one of ``value``, which has the same elements."""
    (result,) = op.results
    with ir.InsertionPoint(op), op.location:
        result.replace_all_uses_with(reshaped(value, shape_of(result)))
    op.erase()


class _UnitDimFolder:
    """Rewrites ops, and remembers the arrays without unit dimensions that it computes."""

    def __init__(self) -> None:
        # For a value, one with the same elements and fewer or other dimensions.
        self._smaller: dict[ir.Value, ir.Value] = {}
        self._reshaped: dict[tuple[ir.Value, Shape], ir.Value] = {}
        self.rewrites = dict.fromkeys(_OPS, self._rewrite) | dict.fromkeys(_RESHAPES, self._note)

    def _rewrite(self, node: OpView) -> ir.Value | None:
        value = _OPS[node.name](self, node) if _can_shrink(node) else None
        if value is None:
            return None
        remark(node.op, f"computed without dimensions of size 1, as {value.type}")
        whole = reshaped(value, shape_of(node.op.results[0]))
        self._smaller[whole] = value
        return whole

    def _note(self, node: OpView) -> None:
        """Records the operand of a reshape, which stays as it is."""
        plain = "dimensions" not in node.attributes or node.name == "jaxpr.squeeze"
        if plain and _can_shrink(node):
            (value,) = node.operands
            self._smaller[node.op.results[0]] = self._smaller.get(value, value)

    def shaped(self, value: ir.Value, shape: Shape) -> ir.Value:
        """Returns a value in another shape, without a new reshape if possible."""
        if shape_of(value) == shape:
            return value
        smaller = self._smaller.get(value, value)
        if shape_of(smaller) == shape:
            return smaller
        cached = self._reshaped.get((smaller, shape))
        if cached is None:
            cached = self._reshaped[smaller, shape] = reshaped(smaller, shape)
        return cached


def _has_halves(node: OpView) -> bool:
    """Whether an op has half-precision operands or results.  XLA's CPU compiler accumulates their
    products in float32 or in half precision, which is five to ten times less accurate, depending
    on how the factors are computed."""
    values = (*node.operands, node.op.results[0])
    return any(is_narrow(aval_of(v.type).dtype) for v in values)


def _build(
    name: str,
    operands: Sequence[ir.Value],
    shape: Shape,
    attributes: Mapping[str, ir.Attribute],
    like: ir.Type | None = None,
) -> ir.Value:
    """Builds an op; its result has the element type of ``like``, by default of its first
    operand."""
    type_ = with_shape(like or operands[0].type, shape)
    return ir.Operation.create(name, [type_], list(operands), dict(attributes)).result


def _can_shrink(node: OpView) -> bool:
    """Whether an op has plain arrays, none in half precision, one of which has unit dimensions."""
    has_units = any(_is_unit(v.type) for v in (*node.op.results, *node.operands))
    return has_units and is_plain_op(node) and not _has_halves(node)


@functools.cache
def _is_unit(type_: ir.Type) -> bool:
    return 1 in getattr(aval_of(type_), "shape", ())


# --- the ops --------------------------------------------------------------------------------------


UnitDimRewrite = Callable[[_UnitDimFolder, OpView], "ir.Value | None"]


def _without(shape: Shape, gone: Sequence[int]) -> Shape:
    return tuple(size for d, size in enumerate(shape) if d not in gone)


def _units_of(value: ir.Value) -> list[int]:
    return [d for d, size in enumerate(shape_of(value)) if size == 1]


# f(x[a,1], y[a,1])[a,1] = f(x[a], y[a])[a]; operands may be broadcast along dimensions of size 1
def _elementwise(f: _UnitDimFolder, node: OpView) -> ir.Value | None:
    (result,) = node.op.results
    gone = _units_of(result)
    if not gone:
        return None
    operands = [
        f.shaped(v, _without(shape_of(v), gone)) if shape_of(v) else v for v in node.operands
    ]
    shape = _without(shape_of(result), gone)
    return _build(node.name, operands, shape, node.attributes, result.type)


def _broadcast(f: _UnitDimFolder, node: OpView) -> ir.Value | None:
    (result,) = node.op.results
    gone = _units_of(result)
    if not gone or len(node.operands) != 1:
        return None
    (value,), dims = node.operands, node.get("broadcast_dimensions")
    left = [d for d in range(len(dims)) if dims[d] not in gone]
    value = f.shaped(value, tuple(shape_of(value)[d] for d in left))
    shape = _without(shape_of(result), gone)
    if shape_of(value) == shape:
        return value
    out_dims = tuple(dims[d] - sum(k < dims[d] for k in gone) for d in left)
    attributes = {"shape": codec.encode(shape), "broadcast_dimensions": codec.encode(out_dims)}
    return _build(node.name, [value], shape, attributes)


def _transpose(f: _UnitDimFolder, node: OpView) -> ir.Value | None:
    (value,), (result,) = node.operands, node.op.results
    gone = _units_of(value)
    left = [d for d in range(len(shape_of(value))) if d not in gone]
    permutation = tuple(left.index(d) for d in node.get("permutation") if d in left)
    value = f.shaped(value, _without(shape_of(value), gone))
    if list(permutation) == sorted(permutation):
        return value
    shape = _without(shape_of(result), _units_of(result))
    return _build(node.name, [value], shape, {"permutation": codec.encode(permutation)})


# sum_b x[a,b,1] = sum_b x[a,b]
def _reduction(f: _UnitDimFolder, node: OpView) -> ir.Value | None:
    (value,), (result,) = node.operands, node.op.results
    gone, axes = _units_of(value), node.get("axes")
    left = [d for d in range(len(shape_of(value))) if d not in gone]
    kept_axes = tuple(left.index(d) for d in axes if d in left)
    if not gone or not kept_axes:
        return None
    value = f.shaped(value, _without(shape_of(value), gone))
    attributes = node.attributes | {"axes": codec.encode(kept_axes)}
    return _build(node.name, [value], _without(shape_of(result), _units_of(result)), attributes)


def _dot_general(f: _UnitDimFolder, node: OpView) -> ir.Value | None:
    (result,) = node.op.results
    numbers = node.get("dimension_numbers")
    gone = [_units_of(v) for v in node.operands]
    left = [
        [d for d in range(len(shape_of(v))) if d not in units]
        for v, units in zip(node.operands, gone, strict=True)
    ]
    (contracted, batch) = (
        tuple(tuple(left[side].index(d) for d in dims[side] if d in left[side]) for side in (0, 1))
        for dims in numbers
    )
    if not any(gone) or (numbers[0][0] and not contracted[0]):
        return None
    operands = [
        f.shaped(v, _without(shape_of(v), units))
        for v, units in zip(node.operands, gone, strict=True)
    ]
    attributes = node.attributes | {"dimension_numbers": codec.encode((contracted, batch))}
    shape = _without(shape_of(result), _units_of(result))
    return _build(node.name, operands, shape, attributes, result.type)


# Left as they are: their users look up the operands.
_RESHAPES = with_trait(Trait.RESHAPE)

_OPS: dict[str, UnitDimRewrite] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "jaxpr.broadcast_in_dim": _broadcast,
    "jaxpr.transpose": _transpose,
    "jaxpr.dot_general": _dot_general,
    **dict.fromkeys(with_trait(Trait.REDUCTION), _reduction),
}
