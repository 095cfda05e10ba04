"""``jaxpr-matmul-precision``: matrix products and convolutions of narrow operands.

    // Pattern: dot_general(x: f32, y: f32) -> dot_general(convert(x), convert(y)): f32

Matrix units are many times faster for bfloat16 than for float32.  The only loss is the rounding of
the operands: their products are exact in float32, and are accumulated in it.  The pass converts
the operands and has the op accumulate in its old result type (``preferred_element_type``).  All
other ops, and the argument and result types of functions, stay as they are.

A policy decides which products are narrowed: those of at least some size, unless they are under a
``jax.named_scope`` that the user wants to be exact, or have a precision that the user asked for.
Run before differentiation, the pass narrows the forward pass, and the differentiation rules of the
narrowed ops narrow the backward pass; run after it, the pass decides for each product separately.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import jax
import numpy as np

from jaxmlir._compat import core
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import OPS
from jaxmlir.dialect.types import aval_of, dtype_of, element_of, type_of
from jaxmlir.errors import PassError
from jaxmlir.passes.base import Count, Pass
from jaxmlir.passes.remarks import remark


class MatmulPrecision(Pass):
    """Compute matrix products and convolutions of float32 with narrower operands, accumulating in
    float32.

    Options:
      dtype: the type of the operands, such as bfloat16 or float16.
      min-size: products with an operand of fewer elements are left alone; a symbolic dimension
        counts as 1.
      exact: products whose name stack (``jax.named_scope``) matches this regular expression are
        left alone.
      ops: the ops to change.
    """

    name: ClassVar[str] = "jaxpr-matmul-precision"
    dtype: str = "bfloat16"
    min_size: Count = 0
    exact: str = ""
    ops: tuple[str, ...] = ("dot_general", "conv_general_dilated")

    def run(self, program: Module) -> None:
        narrow = self.checked()
        names = {f"jaxpr.{name}" for name in self.ops}
        for function in program.functions.values():
            for op, name, operands in list(ops_of(function)):
                if name in names and self.wants(op, operands):
                    _narrow(op, operands, narrow)

    def checked(self) -> ir.Type:
        """Checks the options and returns the element type of the narrowed operands.

        Raises:
          PassError: an option is invalid.
        """
        for name in self.ops:
            if name not in OPS:
                raise PassError(f"option 'ops': there is no op '{name}'")
            if OPS[name].attribute("preferred_element_type") is None:
                raise PassError(f"option 'ops': '{name}' has no preferred_element_type")
        try:
            re.compile(self.exact)
        except re.error as e:
            raise PassError(
                f"option 'exact': '{self.exact}' is not a regular expression: {e}"
            ) from None
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            raise PassError(f"option 'dtype': '{self.dtype}' is not a dtype") from None
        if not jax.numpy.issubdtype(dtype, np.floating) or dtype.itemsize >= 4:
            raise PassError(
                f"option 'dtype': expected floats narrower than float32, got '{self.dtype}'"
            )
        return element_of(dtype)

    def wants(self, op: Any, operands: list[ir.Value]) -> bool:
        """Whether the policy narrows this op."""
        avals = [aval_of(v.type) for v in (*operands, op.results[0])]
        if any(type(a) is not core.ShapedArray or a.dtype != np.float32 for a in avals):
            return False
        least = (math.prod(d for d in a.shape if isinstance(d, int)) for a in avals[:2])
        if min(least) < self.min_size:
            return False
        if "precision" in op.attributes:
            return False  # Asked for by the user, and not the default.
        stack, _ = locations.split(op.location)
        return not (self.exact and re.search(self.exact, stack))


def _narrow(op: Any, operands: list[ir.Value], narrow: ir.Type) -> None:
    remark(op, f"operands are rounded to {narrow}")
    rounded: dict[ir.Value, ir.Value] = {}
    with ir.InsertionPoint(op), op.location:
        for i, operand in enumerate(operands):
            if operand not in rounded:
                aval = aval_of(operand.type).update(dtype=dtype_of(narrow), weak_type=False)
                rounded[operand] = converted(operand, type_of(aval))
            op.operation.operands[i] = rounded[operand]
    result = aval_of(op.results[0].type)
    op.attributes["preferred_element_type"] = codec.encode(np.dtype(result.dtype))
