"""Contractions, convolutions, windowed reductions and Fourier transforms."""

from __future__ import annotations

from jaxmlir.dialect.ops.record import Op, Trait, binary, op, unary

_WINDOW = ("window_dimensions: ints", "window_strides: ints", "padding: pairs")
_DILATED = (*_WINDOW, "base_dilation: ints", "window_dilation: ints")
_PRECISION = ("precision: any?", "preferred_element_type: dtype?")
_MANY = "not invertible: a windowed reduction is many-to-one"

OPS: tuple[Op, ...] = (
    binary(
        "dot_general",
        "Contraction of two arrays over contracting dimensions, one product for each batch index.",
        "dimension_numbers: any",
        *_PRECISION,
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
        *_PRECISION,
        "group_offset: any?",
        "out_sharding: sharding?",
        inverse="no rule: every group has a matrix of its own",
        traits=(Trait.CONTRACTION,),
        linear_each=(0, 1),
    ),
    op(
        "scaled_dot",
        4,
        1,
        "Contraction of block-scaled operands, (lhs * lhs_scale) . (rhs * rhs_scale).",
        "dimension_numbers: any",
        "preferred_element_type: dtype?",
        inverse="no rule: the operands are quantised",
        traits=(Trait.CONTRACTION,),
    ),
    binary(
        "conv_general_dilated",
        "Convolution of batches of images with kernels: strides, padding, dilations, groups.",
        "window_strides: ints",
        "padding: pairs",
        "lhs_dilation: ints",
        "rhs_dilation: ints",
        "dimension_numbers: record ConvDimensionNumbers",
        "feature_group_count: int = 1",
        "batch_group_count: int = 1",
        *_PRECISION,
        "out_sharding: sharding?",
        inverse="solve, at each pixel",
        domain="the kernel is known, of one pixel, and invertible",
        traits=(Trait.CONTRACTION,),
        linear_each=(0, 1),
    ),
    unary(
        "fft",
        "Discrete Fourier transform over the last dimensions; kinds FFT, IFFT, RFFT, IRFFT.",
        "fft_type: enum FftType",
        "fft_lengths: ints",
        linear=(0,),
        inverse="fft of the inverse kind",
        domain="IRFFT: the spectrum is that of a real signal",
    ),
    # Windowed reductions
    op(
        "reduce_window",
        None,
        None,
        "Reduction of every window by any associative function, of operands (*arrays, *initial "
        "values).",
        "jaxpr: function",
        "consts: any = ()",
        *_DILATED,
        bodies="inspected",
        inverse="not invertible: a windowed reduction is many-to-one",
    ),
    unary(
        "reduce_window_sum",
        "Sum of every window.",
        *_DILATED,
        linear=(0,),
        combine="add",
        inverse=_MANY,
    ),
    unary(
        "reduce_window_max",
        "Largest element of every window.",
        *_DILATED,
        combine="max",
        inverse=_MANY,
    ),
    unary(
        "reduce_window_min",
        "Smallest element of every window.",
        *_DILATED,
        combine="min",
        inverse=_MANY,
    ),
    op(
        "select_and_scatter",
        3,
        1,
        "Combines each source element, by one function, with the element that another selects in "
        "its window; operands (operand, source, initial value).",
        "select_jaxpr: function",
        "select_consts: any = ()",
        "scatter_jaxpr: function",
        "scatter_consts: any = ()",
        *_WINDOW,
        bodies="inspected",
        inverse="not invertible: the elements that are not selected are lost",
    ),
    binary(
        "select_and_scatter_add",
        "Transpose of a windowed maximum or minimum: adds each source element where its window "
        "of the second operand selects.",
        "select_prim: primitive",
        *_WINDOW,
        linear=(0,),
        inverse="not invertible: the elements that are not selected are lost",
    ),
    binary(
        "select_and_gather_add",
        "Derivative of a windowed maximum or minimum: the tangent at the element that each "
        "window of the second operand selects.",
        "select_prim: primitive",
        *_DILATED,
        linear=(0,),
        inverse="not invertible: the elements that are not selected are lost",
    ),
)
