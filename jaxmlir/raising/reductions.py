"""Reductions over dimensions and over windows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.arithmetic import identity
from jaxmlir.analysis.function_view import number_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import symbol_ref
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import dtype_of
from jaxmlir.raising.arrays import combinations, pairs
from jaxmlir.raising.derivatives import (
    Fold,
    WindowFold,
    differentiated_as,
    function_of,
    has_derivative,
)
from jaxmlir.raising.linalg import custom
from jaxmlir.raising.matching import region_by_jax, region_text
from jaxmlir.raising.source import (
    StandInOp,
    attribute,
    defining_op,
    end_of,
    is_open,
    shape_of,
    sizes_of,
    tensor,
)
from jaxmlir.raising.writer import BodyWriter, Values, rule

_REDUCTIONS = {"add": "sum", "mul": "prod"}


def is_identity(how: str, value: ir.Value) -> bool:
    """Whether a value is the constant that a combination does nothing with, to the bit."""
    held = number_of(value)
    dtype = dtype_of(value.type.element_type)
    neutral = None if held is None else identity(how, dtype)
    return neutral is not None and held.tobytes() == neutral.tobytes()


@rule("reduce")
def reduce(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A known monoid becomes its own primitive, if the initial value is the identity or unknown;
    JAX's regions of ``argmax`` and ``argmin`` become these ops; else it becomes ``reduce``."""
    n = len(op.results)
    arrays, inits = operands[:n], operands[n:]
    axes, types = attribute(op, "dimensions"), w.types(op)
    how = combinations(op.regions[0].blocks[0], n)
    if how is not None and "second" not in how and "sub" not in how:
        results = [_reduced(w, *args, axes) for args in zip(how, arrays, inits, types, strict=True)]
        if all(value is not None for value in results):
            return results
    index = _arg_reduction(w, op, arrays, inits, axes)
    if index is not None:
        return index
    if has_derivative(types):
        combine = function_of(w, op.regions[0])
        reduced = functools.partial(lax.reduce, dimensions=axes)
        return _folded(w, Fold(combine, axes), reduced, operands, types)
    symbol = w.closed_region(op.regions[0], op, "reducer")
    return w.emit("reduce", operands, types, dimensions=axes, jaxpr=symbol_ref(symbol))


def _folded(
    w: BodyWriter,
    fold: Fold | WindowFold,
    reduction: Callable[..., Any],
    operands: Values,
    types: Sequence[ir.Type],
) -> Values:
    """A reduction of JAX's with the derivative of a fold; the fold itself where an initial value is
    not known, of which JAX has no batches."""
    if any(number_of(init) is None for init in operands[len(types) :]):
        return w.traced(fold, operands, types)
    reduced = _ReductionFunction(reduction, fold.combine)
    return w.traced(differentiated_as(fold, reduced), operands, types)


class _ReductionFunction(NamedTuple):
    """A reduction of JAX as a function of operands and initial values."""

    reduction: Callable[..., Any]
    combine: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        n = len(args) // 2
        return self.reduction(args[:n], args[n:], lambda a, b: tuple(self.combine(*a, *b)))


def _reduced(
    w: BodyWriter, how: str, array: ir.Value, init: ir.Value, type_: ir.Type, axes: tuple[int, ...]
) -> ir.Value | None:
    name = f"reduce_{_REDUCTIONS.get(how, how)}"
    if identity(how, dtype_of(type_.element_type)) is None:
        return None
    adds_nothing = is_identity(how, init)
    if not adds_nothing and number_of(init) is not None:
        return None
    result = w.one(name, [array], type_, axes=axes)
    return result if adds_nothing else w.like(how, w.broadcast(init, result.type), result)


def _arg_reduction(
    w: BodyWriter, op: Any, arrays: Values, inits: Values, axes: tuple[int, ...]
) -> Values | None:
    """``argmax`` or ``argmin`` along one dimension, with the element that is there."""
    if len(arrays) != 2 or len(axes) != 1 or number_of(inits[0]) is None:
        return None
    positions = arrays[1].owner
    if isinstance(positions, ir.Block) or positions.operation.name != "jaxpr.iota":
        return None
    length = shape_of(arrays[0])[axes[0]]
    if codec.decode(positions.attributes["dimension"]) != axes[0] or length == 0:
        return None
    index, value = w.types(op)[::-1]
    if not is_identity("add", inits[1]):
        return None
    element = arrays[0].type.element_type
    text = region_text(op.regions[0])
    for how, name in (("max", "argmax"), ("min", "argmin")):
        if text == _arg_region(name, element, index.element_type) and is_identity(how, inits[0]):
            dtype = dtype_of(index.element_type)
            place = w.one(name, [arrays[0]], index, axes=axes, index_dtype=dtype)
            if next(op.results[0].uses, None) is None:
                # The element is not used.
                return [w.filled(tensor(shape_of(place), value.element_type), 0), place]
            pick = functools.partial(_pick, axis=axes[0])
            return [*w.traced(pick, [arrays[0], place], [value]), place]
    return None


def _pick(x: Any, index: Any, axis: int) -> Any:
    picked = jnp.take_along_axis(x, jnp.expand_dims(index, axis), axis, mode="clip")
    return jnp.squeeze(picked, axis)


def three(element: ir.Type) -> jax.ShapeDtypeStruct:
    """An array of three elements of a type: regions do not depend on the shape."""
    return jax.ShapeDtypeStruct((3,), dtype_of(element))


@functools.cache
def _arg_region(name: str, element: ir.Type, index: ir.Type) -> tuple[str, ...] | None:
    """The texts of the region that JAX lowers ``argmax`` or ``argmin`` of a type to."""

    def arg(x: Any) -> Any:
        return getattr(lax, f"{name}_p").bind(x, axes=(0,), index_dtype=dtype_of(index))

    return region_by_jax(arg, [three(element)], "stablehlo.reduce")


# --- windows --------------------------------------------------------------------------------------


_WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def _window(op: Any, rank: int) -> dict[str, Any]:
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    sizes, strides, *dilations = (attribute(op, name, (1,) * rank) for name in names)
    return dict(zip(_WINDOW, (sizes, strides, pairs(op, "padding", rank), *dilations), strict=True))


@rule("reduce_window")
def reduce_window(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return _reduced_windows(w, op, operands, _window(op, len(shape_of(operands[0]))))


@custom("stablehlo.dynamic_reduce_window")
def dynamic_reduce_window(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """The window is given by operands, and a function combines the elements."""
    n = 2 * len(op.results)
    sizes, strides, base, dilation, padding = (w.known_numbers(v, "windows") for v in operands[n:])
    padding = tuple(zip(padding[::2], padding[1::2], strict=True))
    window = dict(zip(_WINDOW, (sizes, strides, padding, base, dilation), strict=True))
    (callee,) = op.attributes["called_computations"]
    function = w.raising.source[ir.FlatSymbolRefAttr(callee).value]
    regions = function.operation.regions
    reduction = StandInOp(op.name, op.results, op.attributes, regions, op.location)
    return _reduced_windows(w, reduction, operands[:n], window)


def _reduced_windows(
    w: BodyWriter, op: Any, operands: list[ir.Value], window: dict[str, Any]
) -> Values:
    n = len(op.results)
    arrays, inits = operands[:n], operands[n:]
    types = w.types(op)
    how = combinations(op.regions[0].blocks[0], n)
    if n == 1:
        cumulative = _cumulative(w, op, arrays[0], inits[0], types[0], window, how and how[0])
        if cumulative is not None:
            return [cumulative]
    if how and all(h in ("add", "max", "min") for h in how):
        if all(map(is_identity, how, inits)):
            return [
                _known_windows(w, h, x, init, t, window)
                for h, x, init, t in zip(how, arrays, inits, types, strict=True)
            ]
    if has_derivative(types):
        combine = function_of(w, op.regions[0])
        reduced = functools.partial(lax.reduce_window, **window)
        return _folded(w, WindowFold(combine, _hashable(window)), reduced, operands, types)
    symbol = w.closed_region(op.regions[0], op, "reducer")
    return w.emit("reduce_window", operands, types, jaxpr=symbol_ref(symbol), **window)


def _hashable(window: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, window.values()))


def _known_windows(
    w: BodyWriter, how: str, x: ir.Value, init: ir.Value, type_: ir.Type, window: dict[str, Any]
) -> ir.Value:
    """Sums, maxima or minima of windows.

    JAX cannot transpose maxima and minima of dilated windows; these get the derivative of a fold.
    """
    name = f"reduce_window_{_REDUCTIONS.get(how, how)}"
    if how == "add" or set(window["window_dilation"]) <= {1} or not has_derivative([type_]):
        return w.one(name, [x], type_, **window)
    start = number_of(init)
    binary = getattr(lax, how)
    fold = WindowFold(lambda a, b: [binary(a, b)], _hashable(window))
    prim = getattr(lax, f"{name}_p")
    function = differentiated_as(lambda x: fold(x, start)[0], lambda x: prim.bind(x, **window))
    return w.traced(function, [x], [type_])[0]


_CUMULATIVE = {"add": "cumsum", "mul": "cumprod", "max": "cummax", "min": "cummin"}


def _cumulative(
    w: BodyWriter,
    op: Any,
    array: ir.Value,
    init: ir.Value,
    type_: ir.Type,
    window: dict[str, Any],
    how: str | None,
) -> ir.Value | None:
    """The cumulative op, if the window is as long as a dimension and ends or begins at the element.
    Its derivative is known for products, too; JAX has none of booleans."""
    shape = shape_of(array)
    ones = (1,) * len(shape)
    is_boolean = str(type_.element_type) == "i1"
    if is_boolean or (not is_open(type_) and sizes_of(type_) != shape) or 0 in shape:
        return None
    if any(
        tuple(window[k]) != ones for k in ("window_strides", "base_dilation", "window_dilation")
    ):
        return None
    long = [d for d, size in enumerate(window["window_dimensions"]) if size != 1]
    if len(long) != 1 or window["window_dimensions"][long[0]] != shape[long[0]]:
        return None
    (axis,) = long
    before, after = ((shape[axis] - 1, 0), (0, shape[axis] - 1))
    padding = window["padding"]
    others = (p for d, p in enumerate(padding) if d != axis)
    if padding[axis] not in (before, after) or any(p != (0, 0) for p in others):
        return None
    name = _CUMULATIVE.get(how or "")
    if name is None:
        element = array.type.element_type
        if region_text(op.regions[0]) != _logsumexp_region(element) or not is_identity("max", init):
            return None
        name = "cumlogsumexp"
    elif not is_identity(how or "", init):
        return None
    params = {"reverse": True} if padding[axis] == after else {}
    return w.one(name, [array], type_, axis=axis, **params)


@functools.cache
def _logsumexp_region(element: ir.Type) -> tuple[str, ...] | None:
    """The texts of the region that JAX lowers ``cumlogsumexp`` of a type to."""
    if not dtypes.issubdtype(dtype_of(element), np.inexact):
        return None
    return region_by_jax(lax.cumlogsumexp, [three(element)], "stablehlo.reduce_window")


@rule("select_and_scatter")
def select_and_scatter(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    x, source, init = operands
    window = _window(op, len(shape_of(x)))
    window = {name: window[name] for name in _WINDOW[:3]}
    choice, combine = op.regions[0].blocks[0], op.regions[1].blocks[0]
    select, how = _comparison(choice), combinations(combine, 1)
    # Booleans are added by "or".
    is_bool = str(init.type.element_type) == "i1"
    adds = how == ["add"] or (how == ["or"] and is_bool and is_identity("or", init))
    if select in ("ge", "le") and adds:
        prim, (type_,) = getattr(lax, f"{select}_p"), w.types(op)
        sums = w.one("select_and_scatter_add", [source, x], type_, select_prim=prim, **window)
        if is_bool or is_identity("add", init):
            return [sums]
        return [w.like("add", sums, w.broadcast(init, sums.type))]
    hints = zip(op.regions, ("select", "scatter"), strict=True)
    selected, scattered = (symbol_ref(w.closed_region(r, op, hint)) for r, hint in hints)
    return w.emit(
        "select_and_scatter",
        operands,
        w.types(op),
        select_jaxpr=selected,
        scatter_jaxpr=scattered,
        select_consts=(),
        scatter_consts=(),
        **window,
    )


def _comparison(block: ir.Block) -> str | None:
    """The direction of a region that compares its first argument with its second."""
    (result,) = end_of(block).operands
    compare = defining_op(result, "stablehlo.compare")
    if compare is None or list(compare.operands) != list(block.arguments):
        return None
    if attribute(compare, "compare_type") == "TOTALORDER":
        return None
    return attribute(compare, "comparison_direction").lower()
