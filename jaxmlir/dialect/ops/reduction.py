"""Reductions, cumulative reductions, and the orderings: sort, top_k, argmax, argmin."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, op, unary

_AXES = "axes: dimensions"
_MANY = "not invertible: a reduction is many-to-one"


def _reduction(name: str, combine: str, summary: str, *attributes: str, **fields: object) -> Op:
    return unary(
        name,
        summary,
        *attributes,
        traits=(Trait.REDUCTION,),
        combine=combine,
        inverse=_MANY,
        **fields,
    )


def _cumulative(name: str, summary: str, **fields: object) -> Op:
    return unary(
        name,
        summary,
        "axis: dimension",
        "reverse: bool = false",
        traits=(Trait.CUMULATIVE,),
        **fields,
    )


OPS: tuple[Op, ...] = (
    # Over axes, which disappear from the result
    _reduction(
        "reduce_sum", "add", "Sum over axes.", _AXES, "out_sharding: sharding?", linear=(0,)
    ),
    _reduction("reduce_prod", "mul", "Product over axes.", _AXES),
    _reduction(
        "reduce_max",
        "max",
        "Largest element over axes; NaN if there is one.",
        _AXES,
        "out_sharding: sharding? @ >=0.11.1",
    ),
    _reduction(
        "reduce_min",
        "min",
        "Smallest element over axes; NaN if there is one.",
        _AXES,
        "out_sharding: sharding? @ >=0.11.1",
    ),
    _reduction("reduce_and", "and", "Bitwise and over axes; of booleans `all`.", _AXES),
    _reduction("reduce_or", "or", "Bitwise or over axes; of booleans `any`.", _AXES),
    _reduction("reduce_xor", "xor", "Bitwise exclusive or over axes.", _AXES),
    op(
        "reduce",
        None,
        None,
        "Reduction by any associative function, of operands (*arrays, *initial values): a "
        "result for each array.",
        "jaxpr: function",
        "dimensions: dimensions",
        bodies="inspected",
        inverse="not invertible: a reduction is many-to-one",
    ),
    unary(
        "argmax",
        "Index of the first largest element along one axis.",
        _AXES,
        "index_dtype: dtype",
        inverse=_MANY,
    ),
    unary(
        "argmin",
        "Index of the first smallest element along one axis.",
        _AXES,
        "index_dtype: dtype",
        inverse=_MANY,
    ),
    # Along an axis, which keeps its size; `reverse` starts from the end
    _cumulative(
        "cumsum",
        "Running sum, y[i] = x[0] + ... + x[i].",
        linear=(0,),
        inverse="differences, x[i] = y[i] - y[i - 1]",
        combine="add",
    ),
    _cumulative(
        "cumprod",
        "Running product, y[i] = x[0] * ... * x[i].",
        inverse="quotients, x[i] = y[i] / y[i - 1]",
        domain="x is not 0; of integers it is odd, or nothing overflows",
        combine="mul",
    ),
    _cumulative(
        "cummax",
        "Running maximum.",
        inverse="not invertible: an element below the maximum so far is lost",
        combine="max",
    ),
    _cumulative(
        "cummin",
        "Running minimum.",
        inverse="not invertible: an element above the minimum so far is lost",
        combine="min",
    ),
    _cumulative(
        "cumlogsumexp",
        "Running log of the sum of exponentials.",
        inverse="log(exp(y[i]) - exp(y[i - 1]))",
    ),
    # Orderings
    op(
        "sort",
        None,
        None,
        "Sorts along a dimension by the first num_keys operands; the others are permuted alike.",
        "dimension: dimension",
        "is_stable: bool",
        "num_keys: int",
        inverse="the operands, permuted back by one that is known before and after: the indices",
        domain="the elements of that one differ",
    ),
    op(
        "top_k",
        1,
        2,
        "The k largest elements along an axis, in falling order, and their indices.",
        "k: int",
        "axis: dimension",
        "is_stable: bool = true @ >=0.11",
        inverse="not invertible: the smaller elements are lost",
    ),
    op(
        "approx_top_k",
        1,
        2,
        "The k largest (or smallest) elements along a dimension and their indices, with at least "
        "the expected recall.",
        "k: int",
        "reduction_dimension: int",
        "recall_target: float",
        "is_max_k: bool",
        "reduction_input_size_override: int = -1",
        "aggregate_to_topk: bool = true",
        inverse="not invertible: the smaller elements are lost",
    ),
)
