"""Ops that make, move and select elements, and contractions: ``dot_general``, ``convolution``."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import chlo, stablehlo

from jaxmlir.analysis.moves import MOVES
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import symbol_ref
from jaxmlir.dialect.ir import ir
from jaxmlir.errors import ImportingError
from jaxmlir.raising.broadcasts import BROADCASTS
from jaxmlir.raising.derivatives import (
    ScalarFunction,
    Scatter,
    differentiated_as,
    function_of,
    has_derivative,
    on_arrays,
)
from jaxmlir.raising.elementwise import arithmetic_name, type_of_elements
from jaxmlir.raising.sizes import objects, settled
from jaxmlir.raising.source import (
    all_equal,
    attribute,
    defining_op,
    end_of,
    is_open,
    shape_of,
    sizes_of,
    tensor,
)
from jaxmlir.raising.writer import BodyWriter, Values, renamed, rule


@rule("constant", "chlo.constant", "arith.constant", "sdy.constant")
def constant(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    array = _array_of(op.attributes["value"], type_)
    if not isinstance(array, np.ndarray) or array.shape != tuple(type_.shape):
        raise ImportingError(f"its value is not an array of type {type_}")
    return [w.constant(array)]


def _array_of(attr: ir.Attribute, type_: ir.Type) -> Any:
    """The array that an attribute holds: of numbers, of indices, or a single number."""
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr)):
        return np.asarray(attr.value, type_of_elements(type_))
    if isinstance(attr, ir.DenseIntElementsAttr) and isinstance(
        ir.ShapedType(attr.type).element_type, ir.IndexType
    ):
        return np.reshape([*attr], ir.ShapedType(attr.type).shape)
    if type(attr) is ir.Attribute and str(attr).startswith("dense_resource<"):
        return _array_of_resource(attr, type_)
    return codec.decode(attr)


def _array_of_resource(attr: ir.Attribute, type_: ir.Type) -> np.ndarray:
    """The array in a resource of the module, as torch-mlir writes weights. MLIR's bindings cannot
    read resources, so it is printed: four bytes for the alignment, and the elements."""
    holder = ir.Module.create()
    holder.operation.attributes["value"] = attr
    printed = re.search(r': "0x([0-9A-F]{8})([0-9A-F]*)"', holder.operation.get_asm())
    data, dtype = bytes.fromhex(printed[2] if printed else ""), type_of_elements(type_)
    size = math.prod(type_.shape) * dtype.itemsize
    if len(data) != size:
        raise ImportingError(f"expected {size} bytes in {attr}, got {len(data)}")
    return np.frombuffer(data, dtype).reshape(type_.shape)


@rule("chlo.constant_like")
def constant_like(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return [w.filled(w.types(op)[0], attribute(op, "value"))]


# Operands that are shapes add nothing where the result types are static.
@rule("iota", "dynamic_iota")
def iota(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    type_ = _shaped(w, type_, operands)
    dtype, dimension = type_of_elements(type_), attribute(op, "iota_dimension")
    return w.emit("iota", [], [type_], dtype=dtype, shape=sizes_of(type_), dimension=dimension)


def _shaped(w: BodyWriter, type_: ir.Type, shape: Sequence[ir.Value]) -> ir.Type:
    """A type with the sizes that an operand gives, if its own are not numbers."""
    if not is_open(type_):
        return type_
    return tensor(w.known_numbers(shape[0], "sizes"), type_.element_type)


@rule("reshape", "dynamic_reshape")
def reshape(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    return [w.reshape(operands[0], sizes_of(_shaped(w, type_, operands[1:])))]


@rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def broadcast_in_dim(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    type_ = _shaped(w, type_, operands[1:])
    return [w.broadcast(operands[0], type_, attribute(op, "broadcast_dimensions"))]


@rule("broadcast")
def broadcast(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    num_new = len(type_.shape) - len(shape_of(operands[0]))
    return [w.broadcast(operands[0], type_, range(num_new, len(type_.shape)))]


rule("transpose")(renamed("transpose", "permutation"))
rule("concatenate")(renamed("concatenate", "dimension"))
rule("reverse")(renamed("rev", "dimensions"))
rule("dynamic_slice")(renamed("dynamic_slice", "slice_sizes"))
rule("dynamic_update_slice")(renamed("dynamic_update_slice"))


@rule("slice")
def slice_(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    names = ("start_indices", "limit_indices", "strides")
    return _sliced(w, operands, w.types(op), *(attribute(op, name) for name in names))


def _sliced(
    w: BodyWriter, operands: Values, types: Values, start: Any, limit: Any, strides: Any
) -> Values:
    params = {} if set(strides) <= {1} else {"strides": strides}
    return w.emit("slice", operands, types, start_indices=start, limit_indices=limit, **params)


@rule("pad")
def pad(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    config = tuple(zip(*(attribute(op, name) for name in names), strict=True))
    return w.emit("pad", operands, w.types(op), padding_config=config)


# torch-mlir computes with sizes in other dialects.
@rule("get_dimension_size", "tensor.dim")
def get_dimension_size(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    x, *index = operands
    dim = w.known_numbers(index[0], "dimension")[0] if index else attribute(op, "dimension")
    return [w.of_sizes(objects([shape_of(x)[dim]], ()), w.types(op)[0])]


@rule("shape.shape_of")
def shape_of_array(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    shape = shape_of(operands[0])
    return [w.of_sizes(objects(shape, (len(shape),)), w.types(op)[0])]


@rule("tensor.from_elements")
def from_elements(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    rows = [w.reshape(v, (1,)) for v in operands]
    flat = w.one("concatenate", rows, tensor((len(rows),), type_.element_type), dimension=0)
    return [w.reshape(flat, sizes_of(type_))]


@rule("tensor.extract")
def extract(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    x, *places = operands
    ones = (1,) * len(places)
    single = tensor(ones, x.type.element_type)
    return [w.reshape(w.one("dynamic_slice", operands, single, slice_sizes=ones), ())]


@rule("arith.index_cast")
def index_cast(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    return [w.convert(operands[0], w.types(op)[0].element_type)]


# --- ops whose bounds are operands ---------------------------------------------------------------


@rule("real_dynamic_slice")
def real_dynamic_slice(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """A slice; a ``dynamic_slice``, as in JAX, if the start is computed and the size is known."""
    x, *bounds = operands
    types = w.types(op)
    strides = w.known_numbers(bounds[2], "strides")
    start = w.known(bounds[0])
    if (start is None or settled(start) is None) and set(strides) == {1}:
        sizes = _sizes_of_slice(w, op)
        if sizes is not None:
            last = [n - size for n, size in zip(shape_of(x), sizes, strict=True)]
            starts = [_element(w, _unclamped(w, bounds[0], last), k) for k in range(len(last))]
            return w.emit("dynamic_slice", [x, *starts], types, slice_sizes=sizes)
    start, limit = (w.known_numbers(v, "bounds") for v in bounds[:2])
    return _sliced(w, [x], types, start, limit, strides)


def _sizes_of_slice(w: BodyWriter, op: Any) -> tuple[Any, ...] | None:
    """The sizes of a slice, if its limit is its start plus known sizes; else ``None``."""
    _, start, limit, _ = op.operands
    total = defining_op(limit, "stablehlo.add")
    if total is None or start not in total.operands:
        return None
    first, second = total.operands
    size = w.known(w.env[second if first == start else first])
    return None if size is None else settled(size, wrapping=False)


def _unclamped(w: BodyWriter, start: ir.Value, last: list[Any]) -> ir.Value:
    """A slice's start before it was clamped, as the dialect's op clamps it, too."""
    op = defining_op(start, "jaxpr.clamp")
    if op is None:
        return start
    low, inner, high = op.operands
    bounds = [w.known(v) for v in (low, high)]
    flat = [None if array is None else settled(array) for array in bounds]
    return inner if flat == [(0,) * len(last), tuple(last)] else start


def _element(w: BodyWriter, vector: ir.Value, k: int) -> ir.Value:
    """An element of a vector of the dialect; a scalar, if the vector concatenates such."""
    op = defining_op(vector, "jaxpr.concatenate")
    if op is not None:
        parts = list(op.operands)
        if all(shape_of(part) == (1,) for part in parts):
            part = parts[k]
            size = w.known(part)
            if size is not None and settled(size) is not None:
                return w.of_sizes(size.reshape(()), tensor((), part.type.element_type))
            single = defining_op(part, "jaxpr.reshape")
            if single is not None:
                return single.operands[0]
            return w.reshape(part, ())
    unit_type = tensor((1,), vector.type.element_type)
    bounds = {"start_indices": (k,), "limit_indices": (k + 1,)}
    return w.reshape(w.one("slice", [vector], unit_type, **bounds), ())


@rule("dynamic_pad")
def dynamic_pad(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    x, value, *amounts = operands
    config = tuple(zip(*(w.known_numbers(v, "amounts") for v in amounts), strict=True))
    return w.emit("pad", [x, value], w.types(op), padding_config=config)


# --- gather and scatter ---------------------------------------------------------------------------


def _numbers_of(record: Any, numbers: Any, batching: str, **names: str) -> Any:
    """JAX's dimension numbers of those of StableHLO, for indices of :func:`_indices_last`.

    Args:
      record: JAX's class.
      batching: the field that lists batch dimensions of the indices.
      names: what StableHLO calls fields, where that is something else.
    """
    dims = record(*[tuple(getattr(numbers, names.get(n, n))) for n in record._fields])
    moved = tuple(d - (d > numbers.index_vector_dim) for d in getattr(dims, batching))
    return dims._replace(**{batching: moved})


def _indices_last(w: BodyWriter, indices: ir.Value, dim: int) -> ir.Value:
    """The indices with each index vector along the last dimension, as JAX has them."""
    shape = shape_of(indices)
    if dim == len(shape):
        return w.reshape(indices, (*shape, 1))
    if dim == len(shape) - 1:
        return indices
    return w.transpose(indices, [*(i for i in range(len(shape)) if i != dim), dim])


@rule("gather", "dynamic_gather")
def gather(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """StableHLO clamps indices, which is ``mode="clip"``: the derivative goes where they point.

    Indices that were clamped before become ``mode="promise_in_bounds"``. A select of another value
    for indices out of bounds becomes ``mode="fill"``.
    """
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    x, indices, *rest = operands
    sizes = w.known_numbers(rest[0], "slice sizes") if rest else attribute(op, "slice_sizes")
    dims = _numbers_of(lax.GatherDimensionNumbers, numbers, "start_indices_batching_dims")
    limits = [shape_of(x)[d] - sizes[d] for d in dims.start_index_map]
    # In JAX index vectors are along the last dimension.
    is_jaxs = bool(limits) and numbers.index_vector_dim >= len(shape_of(indices)) - 1
    filling = _filling(w, op, numbers, limits) if is_jaxs else None
    params: dict[str, Any] = {"mode": lax.GatherScatterMode.CLIP}
    if filling is not None:
        select, fill = filling
        w.passed_on[select] = op.results[0]
        params = {"mode": lax.GatherScatterMode.FILL_OR_DROP, "fill_value": fill}
    elif is_jaxs and _is_in_bounds(op.operands[1], limits):
        params["mode"] = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return w.emit(
        "gather",
        [x, _indices_last(w, indices, numbers.index_vector_dim)],
        w.types(op),
        dimension_numbers=dims,
        slice_sizes=sizes,
        **_flags(op, "indices_are_sorted"),
        **params,
    )


def _filling(w: BodyWriter, op: Any, numbers: Any, limits: Sequence[Any]) -> tuple[Any, Any] | None:
    """The only user of a gather, if it selects a number wherever an index is out of bounds, and
    that number: ``select(all(0 <= index & index <= limit), gather, number)``."""
    uses = [use.owner.operation for use in op.results[0].uses]
    if len(uses) != 1 or uses[0].name != "stablehlo.select":
        return None
    mask, gathered, other = uses[0].operands
    fill = held_by(other)
    if gathered != op.results[0] or fill is None or not fill.size:
        return None
    maker, placed = mask.owner, tuple(range(mask.type.rank))
    if not isinstance(maker, ir.Block) and maker.operation.name in BROADCASTS:
        mask, placed = maker.operands[0], attribute(maker, "broadcast_dimensions")
    if placed != tuple(d for d in range(gathered.type.rank) if d not in numbers.offset_dims):
        return None
    within = defining_op(mask, "stablehlo.reduce")
    if within is None or attribute(within, "dimensions") != (numbers.index_vector_dim,):
        return None
    start = held_by(within.operands[1])
    if combinations(within.regions[0].blocks[0], 1) != ["and"] or start is None or not start:
        return None
    both = defining_op(within.operands[0], "stablehlo.and")
    if both is None:
        return None
    bounds = {"GE": [0] * len(limits), "LE": list(limits)}
    for side in both.operands:
        compared = defining_op(side, "stablehlo.compare")
        if compared is None:
            return None
        index, bound = compared.operands
        expected = bounds.pop(attribute(compared, "comparison_direction"), None)
        if index != op.operands[1] or expected is None or not _is_each(w, bound, expected, index):
            return None
    number = fill.reshape(-1)[0]
    return (uses[0], number.item()) if all_equal(fill, number.tobytes()) else None


def _is_each(w: BodyWriter, value: ir.Value, wanted: list[Any], index: ir.Value) -> bool:
    """Whether each row of an index has these numbers or symbolic dimensions in a source value."""
    held: np.ndarray | None = None
    if value in w.env and (sizes := w.known(w.env[value])) is not None:
        flat = settled(sizes)
        held = None if flat is None else objects(flat, sizes.shape)
    if held is None:
        held = held_by(value)
    if held is None:
        return False
    n = len(wanted)
    held = np.broadcast_to(held, (n,) if not held.ndim else held.shape)
    if not is_open(index.type):
        held = np.broadcast_to(held, shape_of(index))
    return not held.size % n and bool((held.reshape(-1, n) == objects(wanted, (n,))).all())


def held_by(value: ir.Value) -> np.ndarray | None:
    """The numbers of a source value: a constant, broadcast or not. A scalar that is broadcast to
    sizes which are not numbers stays a scalar."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    name = op.operation.name
    if name == "stablehlo.constant":
        number = op.attributes["value"]
        return codec.decode(number) if value.type.rank else _scalar(number)
    if name not in BROADCASTS or (inner := held_by(op.operands[0])) is None:
        return None
    if name == "stablehlo.dynamic_broadcast_in_dim":
        return inner.reshape(()) if inner.size == 1 else None
    shape = shape_of(value)
    dims = attribute(op, "broadcast_dimensions")
    if tuple(dims) != tuple(sorted(dims)):
        return None
    (held,) = MOVES["broadcast_in_dim"].run(inner, shape=shape, broadcast_dimensions=dims)
    return held


@functools.lru_cache(256)
def _scalar(number: ir.Attribute) -> np.ndarray:
    """The number of a scalar constant; cached, as many ops share constants."""
    return codec.decode(number)


def _is_in_bounds(indices: ir.Value, limits: Sequence[int]) -> bool:
    """Whether indices are in bounds: clamped to what the gather clamps to, or constants."""
    clamp = defining_op(indices, "stablehlo.clamp")
    if clamp is None:
        held = held_by(indices)
        low = high = held
    else:
        low, high = held_by(clamp.operands[0]), held_by(clamp.operands[2])
    if low is None or high is None or is_open(indices.type):
        return False
    low, high = (
        np.broadcast_to(v, shape_of(indices)).reshape(-1, len(limits)) for v in (low, high)
    )
    return bool((low >= 0).all() and (high <= np.asarray(limits)).all())


def _flags(op: Any, *names: str) -> dict[str, bool]:
    return {name: True for name in names if attribute(op, name, False)}


@rule("torch_index_select")
def torch_index_select(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    dim, batch = attribute(op, "dim"), attribute(op, "batch_dims")
    select = functools.partial(jnp.take, axis=dim - batch, mode="clip")
    return w.traced(on_arrays(select, batch), operands, w.types(op))


@rule("scatter")
def scatter(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    """Updates out of bounds are dropped, as ``mode="drop"`` says."""
    n = len(op.results)
    arrays, indices, updates = operands[:n], operands[n], operands[n + 1 :]
    combined = combinations(op.regions[0].blocks[0], n)
    results: list[ir.Value] = []
    for k, (array, update) in enumerate(zip(arrays, updates, strict=True)):
        how = None if combined is None else combined[k]
        if how is None and n > 1:
            raise ImportingError(
                "its region combines several arrays; expected one array, or a sum, product, "
                "minimum, maximum or replacement of each"
            )
        results.append(_scatter(w, op, [array, indices, update], how, array.type))
    return results


def _scatter(w: BodyWriter, op: Any, operands: Values, how: str | None, type_: ir.Type) -> ir.Value:
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    array, indices, update = operands
    dims = _numbers_of(
        lax.ScatterDimensionNumbers,
        numbers,
        "scatter_indices_batching_dims",
        scatter_dims_to_operand_dims="scattered_dims_to_operand_dims",
        operand_batching_dims="input_batching_dims",
    )
    operands = [array, _indices_last(w, indices, numbers.index_vector_dim), update]
    params: dict[str, Any] = _flags(op, "indices_are_sorted", "unique_indices")
    params |= {"dimension_numbers": dims, "mode": lax.GatherScatterMode.FILL_OR_DROP}
    once = "unique_indices" in params
    if has_derivative([type_]) and (how is None or (how == "mul" and not once)):
        combine = function_of(w, op.regions[0])
        function = functools.partial(_scatter_by, combine, how, params)
        return w.traced(
            differentiated_as(Scatter(combine, dims, once), function), operands, [type_]
        )[0]
    suffix = ""
    if how is None:
        symbol = w.closed_region(op.regions[0], op, "update")
        params["update_jaxpr"] = symbol_ref(symbol)
    elif how != "second":
        if how in ("add", "sub", "mul", "min", "max"):
            suffix = f"_{how}"
        symbol = w.raising.combination(how, type_.element_type)
        params["update_jaxpr"] = symbol_ref(symbol)
    return w.one(f"scatter{suffix}", operands, type_, **params)


def _scatter_by(
    combine: ScalarFunction,
    how: str | None,
    params: dict[str, Any],
    x: Any,
    indices: Any,
    updates: Any,
) -> Any:
    """JAX's ``scatter`` by any function, or its ``scatter_mul``."""
    primitive = lax.scatter_p if how is None else lax.scatter_mul_p
    scalar = jax.ShapeDtypeStruct((), x.dtype)
    jaxpr = jax.make_jaxpr(combine)(scalar, scalar)
    flags = {"indices_are_sorted": False, "unique_indices": False, "update_consts": ()}
    return primitive.bind(x, indices, updates, update_jaxpr=jaxpr.jaxpr, **{**flags, **params})


_COMBINATIONS = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor", "subtract")
)


def combinations(block: ir.Block, n: int) -> list[str] | None:
    """How a region of ``2 * n`` scalars combines the k-th of the first and of the last ``n``.

    Returns:
      For each k the dialect's name of an op, or ``"second"`` if the last one is taken; ``None`` for
      another region.
    """
    arguments, results = list(block.arguments), list(end_of(block).operands)
    if len(arguments) != 2 * n or len(results) != n:
        return None
    names = []
    for k, value in enumerate(results):
        pair = arguments[k], arguments[n + k]
        placed = defining_op(value, "sdy.sharding_constraint")
        if placed is not None:
            # JAX writes an open sharding for a scalar.
            value = placed.operands[0]
        if value == pair[1]:
            names.append("second")
            continue
        op = value.owner
        if isinstance(op, ir.Block) or (name := op.name) not in _COMBINATIONS:
            return None
        operands = tuple(op.operands)
        if operands != pair and (operands != pair[::-1] or name == "stablehlo.subtract"):
            return None
        names.append(arithmetic_name(name, value.type))
    return names


# --- contractions ---------------------------------------------------------------------------------


def _precision(op: Any) -> dict[str, Any]:
    """The parameter ``precision``: one for each operand; nothing where it is JAX's default."""
    names = attribute(op, "precision_config", ())
    precisions = tuple(getattr(lax.Precision, name) for name in names)
    return {"precision": precisions} if set(precisions) - {lax.Precision.DEFAULT} else {}


def _algorithm(op: Any) -> dict[str, Any]:
    """The parameter ``precision`` of a contraction whose algorithm is given."""
    if "algorithm" not in op.attributes:
        return _precision(op)
    algorithm = stablehlo.DotAlgorithm(op.attributes["algorithm"])
    types = algorithm.lhs_precision_type, algorithm.rhs_precision_type
    for preset in lax.DotAlgorithmPreset:
        try:
            hlo_attr = preset._convert_to_hlo_attr(*types)
        except ValueError:
            # The preset does not have these types.
            continue
        if str(hlo_attr) == str(op.attributes["algorithm"]):
            return {"precision": preset}
    raise ImportingError(f"JAX has no preset for the algorithm {op.attributes['algorithm']}")


@rule("dot_general")
def dot_general(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return _dot(w, op, operands, _dot_numbers(numbers), _algorithm(op))


def _dot_numbers(numbers: Any) -> Any:
    """The dimensions of both operands that are summed over, and those of the batch."""
    return (
        (tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)),
        (tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)),
    )


@rule("dot")
def dot(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    numbers = (((len(shape_of(operands[0])) - 1,), (0,)), ((), ()))
    return _dot(w, op, operands, numbers, _precision(op))


def _dot(w: BodyWriter, op: Any, operands: Values, numbers: Any, params: dict[str, Any]) -> Values:
    (type_,) = w.types(op)
    return w.emit(
        "dot_general",
        operands,
        [type_],
        dimension_numbers=numbers,
        preferred_element_type=type_of_elements(type_),
        **params,
    )


@rule("chlo.ragged_dot")
def ragged_dot(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    dimensions = chlo.RaggedDotDimensionNumbers(op.attributes["ragged_dot_dimension_numbers"])
    (type_,) = w.types(op)
    numbers = lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=_dot_numbers(dimensions),
        lhs_ragged_dimensions=tuple(dimensions.lhs_ragged_dimensions),
        rhs_group_dimensions=tuple(dimensions.rhs_group_dimensions),
    )
    return w.emit(
        "ragged_dot_general",
        operands,
        [type_],
        ragged_dot_dimension_numbers=numbers,
        preferred_element_type=type_of_elements(type_),
        **_precision(op),
    )


@rule("einsum", "unary_einsum")
def einsum(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    equation = attribute(op, "einsum_config")
    return w.traced(lambda *args: jnp.einsum(equation, *args), operands, w.types(op))


@rule("convolution", "dynamic_conv")
def convolution(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
    (type_,) = w.types(op)
    lhs, rhs, *rest = operands
    dims = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs_spec, rhs_spec, out_spec = (
        (
            getattr(dims, f"{array}_{first}_dimension"),
            getattr(dims, f"{array}_{second}_dimension"),
            *getattr(dims, f"{array}_spatial_dimensions"),
        )
        for array, first, second in (
            ("input", "batch", "feature"),
            ("kernel", "output_feature", "input_feature"),
            ("output", "batch", "feature"),
        )
    )
    ones = (1,) * (len(lhs_spec) - 2)
    if rest:
        flat = w.known_numbers(rest[0], "paddings")
        padding = tuple(zip(flat[::2], flat[1::2], strict=True))
    else:
        padding = pairs(op, "padding", len(ones))
    reverse = attribute(op, "window_reversal", ())
    if any(reverse):
        turned = tuple(d for d, r in zip(rhs_spec[2:], reverse, strict=True) if r)
        rhs = w.like("rev", rhs, dimensions=turned)
    params = _precision(op)
    for name in ("feature_group_count", "batch_group_count"):
        if attribute(op, name, 1) != 1:
            params[name] = attribute(op, name)
    dtypes = {type_of_elements(v.type) for v in (lhs, rhs)}
    if dtypes != {type_of_elements(type_)}:
        params["preferred_element_type"] = type_of_elements(type_)
    return w.emit(
        "conv_general_dilated",
        [lhs, rhs],
        [type_],
        window_strides=attribute(op, "window_strides", ones),
        padding=padding,
        lhs_dilation=attribute(op, "lhs_dilation", ones),
        rhs_dilation=attribute(op, "rhs_dilation", ones),
        dimension_numbers=lax.ConvDimensionNumbers(lhs_spec, rhs_spec, out_spec),
        **params,
    )


def pairs(op: Any, name: str, n: int) -> tuple[tuple[int, int], ...]:
    """The low and high padding of each of ``n`` dimensions; zeros if none is given."""
    padding = attribute(op, name)
    if padding is None:
        return ((0, 0),) * n
    return tuple((int(low), int(high)) for low, high in padding)
