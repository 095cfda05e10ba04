"""Ops that combine elements: reductions, contractions, convolutions, Fourier transforms."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, family, op, unary, variadic

_AXES = "axes: dimensions"


def _reduction(name: str, combine: str, summary: str, *attributes: str, **fields: object) -> Op:
    return unary(name, summary, *attributes, traits=(Trait.REDUCTION,), combine=combine, **fields)


def _cumulative(name: str, summary: str, **fields: object) -> Op:
    return unary(
        name,
        summary,
        "axis: dimension, reverse: bool = false",
        traits=(Trait.CUMULATIVE,),
        **fields,
    )


REDUCTION = family(
    "reduction",
    "Reductions, cumulative reductions, and the orderings: sort, top_k, argmax, argmin.",
    # Over axes, which disappear from the result
    _reduction(
        "reduce_sum", "add", "Sum over axes.", _AXES, "out_sharding: sharding?", linear=(0,)
    ),
    _reduction("reduce_prod", "mul", "Product over axes.", _AXES),
    _reduction(
        "reduce_max",
        "max",
        "Largest element over axes; NaN if any is NaN.",
        _AXES,
        "out_sharding: sharding? @ >=0.11.1",
    ),
    _reduction(
        "reduce_min",
        "min",
        "Smallest element over axes; NaN if any is NaN.",
        _AXES,
        "out_sharding: sharding? @ >=0.11.1",
    ),
    _reduction("reduce_and", "and", "Bitwise and over axes; for booleans, `all`.", _AXES),
    _reduction("reduce_or", "or", "Bitwise or over axes; for booleans, `any`.", _AXES),
    _reduction("reduce_xor", "xor", "Bitwise exclusive or over axes.", _AXES),
    variadic(
        "reduce",
        "Reduction by any associative function; operands (*arrays, *initial values): a "
        "result for each array.",
        "jaxpr: function, dimensions: dimensions",
        bodies="inspected",
    ),
    unary(
        "argmax", "Index of the first largest element along one axis.", _AXES, "index_dtype: dtype"
    ),
    unary(
        "argmin", "Index of the first smallest element along one axis.", _AXES, "index_dtype: dtype"
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
        domain="x is not 0; an integer is odd, or nothing overflows",
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
    variadic(
        "sort",
        "Sorts along a dimension by the first num_keys operands; the others are permuted in the "
        "same way.",
        "dimension: dimension, is_stable: bool, num_keys: int",
        inverse="the operands, permuted back by the keys, or by constants that are sorted along",
        domain="the keys are known, or these constants are distinct",
    ),
    op(
        "top_k",
        1,
        2,
        "The k largest elements along an axis, in falling order, and their indices.",
        "k: int, axis: dimension, is_stable: bool = true @ >=0.11",
        inverse="not invertible: the smaller elements are lost",
    ),
    op(
        "approx_top_k",
        1,
        2,
        "The k largest (or smallest) elements along a dimension and their indices, with at least "
        "the expected recall.",
        "k: int, reduction_dimension: int, recall_target: float, is_max_k: bool, "
        "reduction_input_size_override: int = -1, aggregate_to_topk: bool = true",
        inverse="not invertible: the smaller elements are lost",
    ),
    inverse="not invertible: a reduction is many-to-one",
)

_WINDOW = (
    "window_dimensions: each dimension's int, window_strides: each dimension's int, "
    "padding: each dimension's pair"
)
_DILATED = f"{_WINDOW}, base_dilation: each dimension's int, window_dilation: each dimension's int"
_PRECISION = "precision: any?, preferred_element_type: dtype?"
_MANY = "not invertible: a windowed reduction is many-to-one"
_UNSELECTED = "not invertible: the elements that are not selected are lost"


def _windowed(combine: str, summary: str, **fields: object) -> Op:
    name = "sum" if combine == "add" else combine
    return unary(
        f"reduce_window_{name}", summary, _DILATED, combine=combine, inverse=_MANY, **fields
    )


CONTRACTION = family(
    "contraction",
    "Contractions, convolutions, windowed reductions and Fourier transforms.",
    binary(
        "dot_general",
        "Contraction of two arrays over contracting dimensions, one product for each batch index.",
        "dimension_numbers: any",
        _PRECISION,
        "out_sharding: sharding?",
        inverse="solve",
        domain="the known matrix is square and invertible",
        traits=(Trait.CONTRACTION,),
        linear_each=(0, 1),
    ),
    op(
        "ragged_dot_general",
        3,
        1,
        "Contraction where a dimension of the left operand is cut into groups of run-time "
        "sizes, each with its own right operand.",
        "ragged_dot_dimension_numbers: record RaggedDotDimensionNumbers",
        _PRECISION,
        "group_offset: any?, out_sharding: sharding?",
        inverse="no rule: every group has a matrix of its own",
        traits=(Trait.CONTRACTION,),
        linear_each=(0, 1),
    ),
    op(
        "scaled_dot",
        4,
        1,
        "Contraction of block-scaled operands, (lhs * lhs_scale) . (rhs * rhs_scale).",
        "dimension_numbers: any, preferred_element_type: dtype?",
        inverse="no rule: the operands are quantised",
        traits=(Trait.CONTRACTION,),
    ),
    binary(
        "conv_general_dilated",
        "Convolution of batches of images with kernels: strides, padding, dilations, groups.",
        "window_strides: each spatial dimension's int, padding: each spatial dimension's pair, "
        "lhs_dilation: each spatial dimension's int, rhs_dilation: each spatial dimension's int, "
        "dimension_numbers: record ConvDimensionNumbers, feature_group_count: int = 1, "
        "batch_group_count: int = 1",
        _PRECISION,
        "out_sharding: sharding?",
        inverse="solve, at each pixel",
        domain="the kernel is known, has one pixel, and is invertible",
        traits=(Trait.CONTRACTION,),
        linear_each=(0, 1),
    ),
    unary(
        "fft",
        "Discrete Fourier transform over the last dimensions; kinds FFT, IFFT, RFFT, IRFFT.",
        "fft_type: enum FftType, fft_lengths: ints",
        linear=(0,),
        inverse="fft of the inverse kind",
        domain="IRFFT: the spectrum is that of a real signal",
    ),
    # Windowed reductions
    variadic(
        "reduce_window",
        "Reduction of every window by any associative function; operands (*arrays, *initial "
        "values).",
        "jaxpr: function, consts: any = ()",
        _DILATED,
        bodies="inspected",
        inverse=_MANY,
    ),
    _windowed("add", "Sum of every window.", linear=(0,)),
    _windowed("max", "Largest element of every window."),
    _windowed("min", "Smallest element of every window."),
    op(
        "select_and_scatter",
        3,
        1,
        "Combines each source element, by scatter_jaxpr, with the element that select_jaxpr "
        "selects in its window; operands (operand, source, initial value).",
        "select_jaxpr: function, select_consts: any = (), scatter_jaxpr: function, "
        "scatter_consts: any = ()",
        _WINDOW,
        bodies="inspected",
        inverse=_UNSELECTED,
    ),
    binary(
        "select_and_scatter_add",
        "Transpose of a windowed maximum or minimum: adds each source element at the element that "
        "its window of the second operand selects.",
        "select_prim: primitive",
        _WINDOW,
        linear=(0,),
        inverse=_UNSELECTED,
    ),
    binary(
        "select_and_gather_add",
        "Derivative of a windowed maximum or minimum: the tangent at the element that each "
        "window of the second operand selects.",
        "select_prim: primitive",
        _DILATED,
        linear=(0,),
        inverse=_UNSELECTED,
    ),
)
