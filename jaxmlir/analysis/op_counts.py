"""Estimates of the work of ops, in flops, for the decisions of structure passes.

The unit is one addition of floats in a loop that the compiler vectorizes.  The costs of everything
else are in the table of the target (:mod:`jaxmlir.targets.costs`).  None of the estimates is exact
to a factor of two.
"""

from __future__ import annotations

import functools
from numbers import Real
from typing import Any

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.cost import CostCounter
from jaxmlir.analysis.function_view import FunctionView, OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import Trait, may_have_functions, with_trait
from jaxmlir.dialect.types import aval_of, is_key, type_of, with_shape
from jaxmlir.errors import JaxmlirError
from jaxmlir.targets.costs import Costs

ADDITIONS = with_trait(Trait.ADDITIVE, Trait.COMMUTATIVE)
# Ops that read a part of an operand.  Their work is the size of the whole operand, because that is
# what their transposes write.
_PARTS = with_trait(Trait.SLICING)
# Ops that move elements.  Their work is the size of their results.
_MOVES = with_trait(Trait.MOVEMENT) - with_trait(Trait.VIEW) - _PARTS


class Work:
    """The work of the ops of a program on its target.

    Attributes:
      kernel: starting the kernel of one more op.
      iteration: one more iteration of a loop.
      stored_byte: writing and reading a byte that caches hold.
      stacked_value: stacking one more value with others, besides its bytes.
      transcendental: an exponential, a logarithm or a sine of an element.
      waits_for_kernels: whether programs wait for kernels to start.
    """

    def __init__(self, program: Module):
        costs = program.target.costs
        self.waits_for_kernels: bool = costs.waits_for_kernels
        self.kernel: float = costs.launch / costs.flop
        self.iteration: float = costs.iteration / costs.flop
        self.stored_byte: float = costs.stored_byte_cached / costs.flop
        self.stacked_value: float = costs.stacked_value / costs.flop
        self.transcendental: float = costs.transcendental / costs.flop
        # Ops without a formula all take long; how long matters little.
        self._unknown_byte = costs.unknown_byte / costs.flop
        self._counter = CostCounter(program, by_line=False)
        self._by_signature: dict[Signature, float] = {}
        self._leaves = _leaves.setdefault(costs, {})

    def at(self, body: FunctionView, index: int) -> float:
        """The work of an op, given by its index in a function view."""
        return self.like(body.ops[index], body.signatures[index])

    def like(self, op: Any, signature: Signature) -> float:
        """The work of one op, cached by signature.  The cache is shared by all programs for ops
        that refer to no functions."""
        cache = self._by_signature if may_have_functions(signature.name) else self._leaves
        work = cache.get(signature)
        if work is None:
            work = cache[signature] = self.of(op, signature.name)
        return work

    def of(self, op: Any, name: str) -> float:
        """The work of one op, including the functions it refers to; 0 if that is symbolic."""
        if name in _MOVES:
            return sum(elements(v.type) for v in op.results)
        if name in _PARTS:
            return elements(op.operands[0].type)
        costs = self._counter.of(op, name)
        total = costs.total
        counted = total.flops, total.transcendentals, total.bytes if costs.uncounted else 0
        if not all(isinstance(count, Real) for count in counted):
            return 0
        flops, transcendentals, unknown = counted
        return flops + self.transcendental * transcendentals + self._unknown_byte * unknown


_leaves: dict[Costs, dict[Signature, float]] = {}


def aval_if_any(type_: ir.Type) -> Any | None:
    """The abstract value of a type; ``None`` for types of other dialects."""
    try:
        return aval_of(type_)
    except JaxmlirError:
        return None


@functools.cache
def elements(type_: ir.Type) -> int:
    """The number of elements of a type; 0 if it is not an array or its size is unknown."""
    aval = aval_if_any(type_)
    if not isinstance(aval, core.ShapedArray) or not core.is_constant_shape(aval.shape):
        return 0
    return aval.size


@functools.cache
def size(type_: ir.Type) -> int:
    """The number of bytes of a type; 0 if that is unknown."""
    aval = aval_if_any(type_)
    if is_key(aval):
        aval = core.physical_aval(aval)
        return elements(type_of(aval)) * aval.dtype.itemsize
    if _is_extended(type_):
        return 8 * elements(type_)
    return elements(type_) * getattr(getattr(aval, "dtype", None), "itemsize", 0)


def _is_extended(type_: ir.Type) -> bool:
    return isinstance(getattr(aval_if_any(type_), "dtype", None), dtypes.ExtendedDType)


@functools.cache
def is_array(type_: ir.Type) -> bool:
    """Whether a type is an array of known shape on no mesh."""
    aval = aval_if_any(type_)
    return (
        isinstance(aval, core.ShapedArray)
        and core.is_constant_shape(aval.shape)
        and aval.sharding.mesh.empty
    )


def is_narrow(dtype: Any) -> bool:
    """Whether a type has less precision than 32-bit floats: rounding partial sums loses more."""
    return dtypes.issubdtype(dtype, np.inexact) and dtypes.finfo(dtype).bits < 32


def can_be_summed(dtype: Any) -> bool:
    """Whether numbers of a dtype may be added up in another order, and scaled afterwards.  Floats
    with a small range of exponents would overflow."""
    if dtypes.issubdtype(dtype, np.inexact):
        return dtypes.finfo(dtype).maxexp >= 128
    return dtypes.issubdtype(dtype, np.integer)


@functools.cache
def is_plain_array(type_: ir.Type) -> bool:
    """Whether an array type consists of shape, dtype and weak type only.  The elements are numbers
    or typed random keys.  JAX can make zeros of both and select between two arrays of them, which
    it does not guarantee for other extended dtypes."""
    return (
        is_array(type_)
        and with_shape(type_, aval_of(type_).shape) == type_
        and (is_key(aval_of(type_)) or not _is_extended(type_))
    )


ASKED = frozenset({"jaxpr.ctx", "sharding", "out_sharding"})
"""Attributes that constrain the placement of an op's values."""


def is_plain_op(node: OpView) -> bool:
    """Whether an op's operands and results are plain arrays without placement constraints."""
    plain = (is_plain_array(v.type) for v in (*node.operands, *node.op.results))
    return ASKED.isdisjoint(node.attributes) and all(plain)


@functools.cache
def is_plain_signature(signature: Signature) -> bool:
    """Whether a signature has plain arrays only, without placement constraints."""
    asked = not ASKED.isdisjoint(signature.named)
    return not asked and all(map(is_plain_array, (*signature.operands, *signature.results)))
