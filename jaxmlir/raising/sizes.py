"""Sizes that are not numbers: which symbolic dimension an integer of a module stands for.

A module of symbolic shapes has types such as ``tensor<?x8xf32>``. It reads the sizes of arrays,
computes other sizes from these, and passes them to ops such as ``dynamic_broadcast_in_dim``. The
dialect has symbolic dimensions in its types, and the value of one is a single op, ``dim_as_value``.
So integers that are computed from sizes are followed through the ops of :data:`OPS`, as arrays of
numbers and symbolic dimensions. Ops that only compute sizes are then no longer needed.

JAX lowers ``floordiv(b, 2)`` to a division that rounds towards zero and a correction where the
signs differ. The sign of a size such as ``b - 2`` is not decided, so the ops that lead to a
correction are kept as an expression (:class:`UndecidedSize`) until the correction is met.

Integers are compared in their type, in which they wrap around: a comparison of ``1000000 * b`` is
decided when the program runs. In a shape it is decided as in JAX, whose sizes do not wrap around.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.moves import MOVES
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import constraints_of, dtype_of, size_variable, symbolic_shape
from jaxmlir.raising.source import attribute, defining_op, is_open, raised_type

Sizes = np.ndarray
"""An array of objects: numbers, booleans, symbolic dimensions, :class:`UndecidedSize`."""

ARITH = {
    f"arith.{name}": f"stablehlo.{same}"
    for same, names in {
        "add": "addf addi",
        "subtract": "subf subi",
        "multiply": "mulf muli",
        "divide": "divf divsi",
        "remainder": "remf remsi",
        "maximum": "maximumf maxsi",
        "minimum": "minimumf minsi",
        "negate": "negf",
        "and": "andi",
        "or": "ori",
        "xor": "xori",
        "select": "select",
    }.items()
    for name in names.split()
}
"""Ops on tensors and sizes that other compilers mix into StableHLO, whose op is the same."""

MAX_ELEMENTS = 64
"""The most elements of an integer array that is followed: shapes and paddings have few."""

MAX_DEPTH = 8
"""The greatest depth of ops that is kept as an expression."""


@dataclasses.dataclass(frozen=True)
class UndecidedSize:
    """An op on sizes whose result is neither a symbolic dimension nor the same for all sizes."""

    name: str
    operands: tuple[Any, ...]
    depth: int
    dtype: Any = dataclasses.field(compare=False)


def objects(values: Sequence[Any], shape: Sequence[int]) -> Sizes:
    """An array of these objects, whatever numpy would convert them to."""
    array = np.empty(len(values), object)
    for k, value in enumerate(values):
        array[k] = value
    return array.reshape(tuple(shape))


def settled(sizes: Sizes, *, wrapping: bool = True) -> tuple[Any, ...] | None:
    """The flat numbers and symbolic dimensions; ``None`` if one is undecided for some sizes.

    Args:
      wrapping: whether integers wrap around; those of a shape do not.
    """
    values = tuple(_settled(value, wrapping) for value in sizes.flat)
    return None if any(value is None for value in values) else values


def is_symbolic(sizes: Sizes) -> bool:
    """Whether an element is not a number."""
    return not all(isinstance(value, (int, bool)) for value in sizes.flat)


# --- ops on one element ---------------------------------------------------------------------------


def _divided(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _sign(x: Any) -> int:
    if not x >= 0:
        return -1
    if x >= 1:
        return 1
    if core.is_constant_dim(x):
        return 0
    raise core.InconclusiveDimensionOperation(f"whether {x} is 0")


def _equal(a: Any, b: Any) -> bool:
    return _sign(a - b) == 0


_ON_ELEMENTS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _divided,
    "remainder": lambda a, b: a - b * _divided(a, b),
    "maximum": core.max_dim,
    "minimum": core.min_dim,
    "negate": operator.neg,
    "sign": _sign,
    "and": operator.and_,
    "or": operator.or_,
    "not": lambda a: not a if isinstance(a, bool) else ~a,
    "EQ": _equal,
    "NE": lambda a, b: not _equal(a, b),
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
    "truth": lambda a: not _equal(a, 0),
    "number": int,
    "widened": lambda a: a,
}
_ORDERED = frozenset("maximum minimum sign EQ NE GE GT LE LT truth widened".split())
"""Ops whose result differs if a number has wrapped around."""
_ROUNDING = ("divide", "remainder")
"""Ops that round towards zero; floor division of symbolic dimensions does not."""


def applied(name: str, *xs: Any, dtype: Any = None) -> Any:
    """The result of an op on elements: a number or symbolic dimension if decided, else an
    :class:`UndecidedSize`; ``None`` if nothing can be said.

    Args:
      dtype: the type of the elements, which wrap around in it; they do not if it is ``None``.
    """
    if name == "select" and isinstance(xs[0], bool):
        return xs[1] if xs[0] else xs[2]
    if any(x is None for x in xs):
        return None
    numbers = all(isinstance(x, (int, bool)) for x in xs)
    dims = not any(isinstance(x, UndecidedSize) for x in xs)
    if dims and dtype is not None and name in _ORDERED:
        dims = all(_is_held(x, dtype) for x in xs)
    try:
        if numbers or (dims and name != "select" and name not in _ROUNDING):
            return _ON_ELEMENTS[name](*xs)
    except core.InconclusiveDimensionOperation:
        pass
    except (TypeError, ZeroDivisionError):
        # Symbolic dimensions have no bits; the backend decides what a division by 0 gives.
        return None
    if name in ("and", "or") and any(isinstance(x, bool) for x in xs):
        first, other = xs if isinstance(xs[0], bool) else xs[::-1]
        return first if first is (name == "or") else other
    if name == "select" and (corrected := _corrected(*xs, dtype)) is not None:
        return corrected
    depth = 1 + max((x.depth for x in xs if isinstance(x, UndecidedSize)), default=0)
    return UndecidedSize(name, xs, depth, dtype) if depth <= MAX_DEPTH else None


def _corrected(condition: Any, on_true: Any, on_false: Any, dtype: Any) -> Any | None:
    """``a // b`` or ``a % b``, if a select corrects the op that rounds towards zero as JAX does."""
    if not isinstance(on_false, UndecidedSize) or on_false.name not in _ROUNDING:
        return None
    a, b = on_false.operands
    apply = functools.partial(applied, dtype=dtype)
    rest = apply("NE", apply("remainder", a, b), 0)
    if on_false.name == "divide":
        signs = apply("NE", apply("sign", a), apply("sign", b))
        correction = apply("subtract", on_false, 1)
    else:
        signs = apply("NE", apply("LT", on_false, 0), apply("LT", b, 0))
        correction = apply("add", on_false, b)
    if on_true != correction:
        return None
    if condition not in (apply("and", signs, rest), apply("and", rest, signs)):
        return None
    return _floored(on_false.name, a, b)


def _floored(name: str, a: Any, b: Any) -> Any | None:
    a, b = _settled(a), _settled(b)
    if a is None or b is None:
        return None
    return a // b if name == "divide" else a % b


def _settled(x: Any, wrapping: bool = True) -> Any | None:
    """A number or symbolic dimension if decided; rounding is decided for natural numbers only."""
    if not isinstance(x, UndecidedSize):
        return x
    xs = [_settled(value, wrapping) for value in x.operands]
    if any(value is None for value in xs):
        return None
    apply = functools.partial(applied, dtype=x.dtype if wrapping else None)
    if x.name in _ROUNDING:
        natural = apply("GE", xs[0], 0) is True and apply("GT", xs[1], 0) is True
        return _floored(x.name, *xs) if natural else None
    result = apply(x.name, *xs)
    return None if isinstance(result, UndecidedSize) else result


def are_held(sizes: Sizes, dtype: np.dtype) -> bool:
    """Whether all sizes are decided and fit an integer type, whatever sizes arrays have."""
    return all(not isinstance(x, UndecidedSize) and _is_held(x, dtype) for x in sizes.flat)


@functools.lru_cache(4096)
def _is_held(dim: Any, dtype: np.dtype) -> bool:
    if core.is_constant_dim(dim):
        return True
    names = sorted(dim._get_vars())
    limits = [f"{name} <= {_MAX_SIZE}" for name in names]
    bounded = symbolic_shape(", ".join(names), (*constraints_of(dim), *limits))
    size = dim._evaluate(dict(zip(names, bounded, strict=True)))
    info = dtypes.iinfo(dtype)
    try:
        return bool(info.min <= size and size <= info.max)
    except core.InconclusiveDimensionOperation:
        return False


_MAX_SIZE = 2**31 - 1

# --- ops of a module ------------------------------------------------------------------------------

Evaluate = Callable[[Any, Sequence[int], Sequence[Sizes]], Sizes | None]
"""Computes the result of an op, of a given shape, from its operands."""


def _elementwise(name: str) -> Evaluate:
    def evaluate(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes:
        flat = [np.broadcast_to(array, shape).flat for array in arrays]
        # The first operand may be the condition of a select.
        dtype = _dtype_of(op.operands[len(op.operands) - 1])
        elements = [applied(name, *xs, dtype=dtype) for xs in zip(*flat, strict=True)]
        return objects(elements, shape)

    return evaluate


def _dtype_of(value: ir.Value) -> Any:
    return dtype_of(raised_type(value.type).element_type)


def _compare(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes:
    return _elementwise(attribute(op, "comparison_direction"))(op, shape, arrays)


def _clamp(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes:
    low, x, high = arrays
    raised = _elementwise("maximum")(op, shape, (low, x))
    return _elementwise("minimum")(op, shape, (raised, high))


def _convert(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes | None:
    types = list(map(_dtype_of, (op.operands[0], op.results[0])))
    before, after = (dtype == np.bool_ for dtype in types)
    if before != after:
        return _elementwise("truth" if after else "number")(op, shape, arrays)
    if before or dtypes.iinfo(types[1]).max <= dtypes.iinfo(types[0]).max:
        return arrays[0]
    return _elementwise("widened")(op, shape, arrays)


def _broadcast(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes | None:
    dims = list(op.attributes["broadcast_dimensions"])
    if dims != sorted(dims):
        return None
    # The dynamic op also has the shape as an operand.
    return _moved("broadcast_in_dim", arrays[:1], shape=shape, broadcast_dimensions=dims)


def _slice(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes:
    names = ("start_indices", "limit_indices", "strides")
    return _moved("slice", arrays, **{name: list(op.attributes[name]) for name in names})


def _moved(name: str, arrays: Sequence[Sizes], **attributes: Any) -> Sizes:
    """The result of a dialect op of this name, which only moves elements."""
    (result,) = MOVES[name].run(*arrays, **attributes)
    return result


def _gather(op: Any, shape: Sequence[int], arrays: Sequence[Sizes]) -> Sizes | None:
    """Elements of a vector: JAX indexes a shape this way."""
    sizes, indices = arrays
    if sizes.ndim != 1 or list(op.attributes["slice_sizes"]) != [1] or is_symbolic(indices):
        return None
    last = len(sizes) - 1
    return objects([sizes[min(max(k, 0), last)] for k in indices.flat], shape)


OPS: dict[str, Evaluate] = {
    f"stablehlo.{name}": _elementwise(name)
    for name in "add subtract multiply divide remainder maximum minimum negate sign and or not "
    "select".split()
}
"""What ops of StableHLO compute from numbers and symbolic dimensions."""
OPS |= {
    "stablehlo.compare": _compare,
    "stablehlo.clamp": _clamp,
    "stablehlo.convert": _convert,
    "stablehlo.reshape": lambda op, shape, arrays: arrays[0].reshape(shape),
    "stablehlo.dynamic_reshape": lambda op, shape, arrays: arrays[0].reshape(shape),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.concatenate": lambda op, shape, arrays: np.concatenate(
        arrays, op.attributes["dimension"].value
    ),
    "stablehlo.slice": _slice,
    "stablehlo.gather": _gather,
    "arith.index_cast": _convert,
    "tensor.from_elements": lambda op, shape, arrays: np.concatenate(
        [array.reshape(1) for array in arrays]
    ).reshape(shape),
    "tensor.extract": lambda op, shape, arrays: objects(
        [arrays[0][tuple(index.item() for index in arrays[1:])]], shape
    ),
}
OPS |= {name: OPS[same] for name, same in ARITH.items() if same in OPS}


def evaluated(op: Any, arrays: Sequence[Sizes]) -> Sizes | None:
    """The result of an op of :data:`OPS` on known operands; ``None`` if nothing can be said.

    It has size 1 along dimensions of unknown size, to be broadcast.
    """
    type_ = raised_type(op.results[0].type)
    if not isinstance(type_.element_type, ir.IntegerType):
        return None
    shape = [1 if type_.is_dynamic_dim(d) else type_.shape[d] for d in range(type_.rank)]
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    try:
        array = OPS[op.name](op, shape, arrays)
    except (ValueError, IndexError):
        return None
    if array is None:
        return None
    dtype = dtype_of(type_.element_type)
    array = objects([_of_type(value, dtype) for value in array.flat], array.shape)
    return None if any(value is None for value in array.flat) else array


def _of_type(value: Any, dtype: np.dtype) -> Any:
    """A number as its type holds it after overflow; ``None`` for a symbolic dimension that may be
    negative in an unsigned type."""
    if isinstance(value, int):
        return np.uint64(value % 2**64).astype(dtype).item()
    natural = dtype.kind != "u" or applied("GE", value, 0) is True
    return value if natural else None


# --- arguments ------------------------------------------------------------------------------------


def of_arguments(block: ir.Block, source: Mapping[str, Any]) -> dict[ir.Value, tuple[Any, ...]]:
    """The shapes of those arguments of a function that have sizes which are not numbers.

    Each such size is a variable with the name that JAX gave it at export. A size that the function
    asserts to be equal to other sizes is these instead.

    Args:
      source: the functions of the module by name.
    """
    names = _names(block, source)
    shapes: dict[ir.Value, list[Any]] = {}
    variables: dict[tuple[ir.Value, int], Any] = {}
    for value in filter(lambda v: is_open(v.type), block.arguments):
        shapes[value] = list(value.type.shape)
        for d in filter(value.type.is_dynamic_dim, range(value.type.rank)):
            name = names.get((value, d)) or f"d{value.arg_number}_{d}"
            shapes[value][d] = variables[value, d] = size_variable(name, ())
    while (equal := _asserted(block, shapes, variables)) is not None:
        value, d, size = equal
        shapes[value][d] = size
        del variables[value, d]
    return {value: tuple(shape) for value, shape in shapes.items()}


def _size_of(value: ir.Value) -> tuple[ir.Value, int] | None:
    """The array and the dimension whose size an integer is; ``None`` if it is no size."""
    op = defining_op(value, "stablehlo.get_dimension_size")
    return None if op is None else (op.operands[0], op.attributes["dimension"].value)


def _names(block: ir.Block, source: Mapping[str, Any]) -> dict[tuple[ir.Value, int], str]:
    """The names of sizes, taken from the functions that are called with them."""
    names: dict[tuple[ir.Value, int], str] = {}
    for view in block.operations:
        op = view.operation
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]) if op.name == "func.call" else None
        function = source.get(callee.value) if callee is not None else None
        for k, name in global_constants(function).items() if function is not None else ():
            size = _size_of(op.operands[k]) if k < len(op.operands) else None
            if size is not None and name.isidentifier() and name not in names.values():
                names.setdefault(size, name)
    return names


def global_constants(function: Any) -> dict[int, str]:
    """The arguments, with their names, that JAX marks as the same in the whole module: sizes, and
    the index of the platform."""
    if "arg_attrs" not in function.attributes:
        return {}
    name, names = "jax.global_constant", {}
    for k, about in enumerate(function.attributes["arg_attrs"]):
        if name in about and isinstance(about[name], ir.StringAttr):
            names[k] = about[name].value
    return names


def _asserted(
    block: ir.Block,
    shapes: Mapping[ir.Value, Sequence[Any]],
    variables: Mapping[tuple[ir.Value, int], Any],
) -> tuple[ir.Value, int, Any] | None:
    """A dimension that is a variable, and the size that it is asserted to be equal to."""
    arrays: dict[ir.Value, Sizes] = {}
    for view in block.operations:
        op = view.operation
        if op.name == "stablehlo.custom_call":
            equal = _equality(op)
            if equal is None or equal[0] not in variables or equal[1] not in arrays:
                continue
            size = settled(arrays[equal[1]])
            variable = variables[equal[0]]
            if size is not None and len(size) == 1 and variable != size[0]:
                if core.is_constant_dim(size[0]) or str(variable) not in size[0]._get_vars():
                    return *equal[0], size[0]
        elif len(op.results) == 1 and (array := _of_result(op, arrays, shapes)) is not None:
            arrays[op.results[0]] = array
    return None


def _of_result(
    op: Any, known: Mapping[ir.Value, Sizes], shapes: Mapping[ir.Value, Sequence[Any]]
) -> Sizes | None:
    (result,) = op.results
    size = _size_of(result)
    if size is not None:
        value, d = size
        return objects([shapes[value][d]], ()) if value in shapes else None
    if op.name == "stablehlo.constant":
        return of_constant(result, op.attributes["value"])
    if op.name in OPS and all(v in known for v in op.operands):
        return evaluated(op, [known[v] for v in op.operands])
    return None


def of_constant(value: ir.Value, attr: ir.Attribute) -> Sizes | None:
    """The numbers of a constant of integers; ``None`` of many, or of another type."""
    if not is_small(value.type):
        return None
    array = codec.decode(attr)
    return objects(array.reshape(-1).tolist(), array.shape)


def is_small(type_: ir.Type) -> bool:
    """Whether a type has few elements, all integers, as shapes do."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    few = math.prod(type_.shape) <= MAX_ELEMENTS
    return few and isinstance(type_.element_type, ir.IntegerType)


def repeated(name: str, sizes: Sizes, type_: ir.Type) -> Sizes | None:
    """Numbers in another shape, as an op of the dialect gives them; a single one is repeated."""
    if sizes.size == 1:
        return np.broadcast_to(sizes.reshape(()), tuple(type_.shape))
    return None if name == "jaxpr.broadcast_in_dim" else sizes.reshape(tuple(type_.shape))


def _equality(op: Any) -> tuple[tuple[ir.Value, int], ir.Value] | None:
    """The size of an argument, and the value that it is asserted to be equal to."""
    if "shape_assertion" not in str(op.attributes["call_target_name"]) or not len(op.operands):
        return None
    compare = defining_op(op.operands[0], "stablehlo.compare")
    if compare is None or attribute(compare, "comparison_direction") != "EQ":
        return None
    size = _size_of(compare.operands[0])
    return None if size is None else (size, compare.operands[1])
