"""Counts of the work of ops for the choices of structure passes, in units of one flop.

The unit is one addition of floats in a loop that the compiler vectorizes.  What else costs how much
of it is in the table of the target (:mod:`jaxmlir.targets.costs`); nothing here is so exact that a
factor of two would matter.
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
# Ops that read a part of an operand: as much work as the whole of it, for that is what their
# transposes write.
_PARTS = with_trait(Trait.SLICING)
# Ops that move elements: as much work as the elements that they give.
_MOVES = with_trait(Trait.MOVEMENT) - with_trait(Trait.VIEW) - _PARTS


class Work:
    """How much work the ops of a program are, on its target.

    Attributes:
      kernel: what starting the kernel of one more op is.
      iteration: what one more iteration of a loop is.
      stored_byte: what writing and reading a byte is that caches hold.
      stacked_value: what putting one more value together with others is, besides its bytes.
      transcendental: what an exponential, a logarithm or a sine of an element is.
    """

    def __init__(self, program: Module):
        costs = program.target.costs
        self.kernel: float = costs.launch / costs.flop
        self.iteration: float = costs.iteration / costs.flop
        self.stored_byte: float = costs.stored_byte_cached / costs.flop
        self.stacked_value: float = costs.stacked_value / costs.flop
        self.transcendental: float = costs.transcendental / costs.flop
        # They all take long; how long matters little.
        self._unknown_byte = costs.unknown_byte / costs.flop
        self._counter = CostCounter(program, by_line=False)
        self._by_signature: dict[Signature, float] = {}
        self._leaves = _leaves.setdefault(costs, {})

    def at(self, body: FunctionView, index: int) -> float:
        """The work of an op of a numbered function."""
        return self.like(body.ops[index], body.signatures[index])

    def like(self, op: Any, signature: Signature) -> float:
        """The work of one op, the same for all of its signature; and of all programs, unless they
        refer to functions."""
        cache = self._by_signature if may_have_functions(signature.name) else self._leaves
        work = cache.get(signature)
        if work is None:
            work = cache[signature] = self.of(op, signature.name)
        return work

    def of(self, op: Any, name: str) -> float:
        """The work of one op, with the functions that it refers to; 0 if that is not a number."""
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
    """The abstract value of a type; ``None`` of one of another dialect."""
    try:
        return aval_of(type_)
    except JaxmlirError:
        return None


@functools.cache
def elements(type_: ir.Type) -> int:
    """How many elements a value of a type has; 0 if it is no array, or its size is not known."""
    aval = aval_if_any(type_)
    if not isinstance(aval, core.ShapedArray) or not core.is_constant_shape(aval.shape):
        return 0
    return aval.size


@functools.cache
def size(type_: ir.Type) -> int:
    """How many bytes a value of a type takes; 0 if that is not known."""
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
    """Whether values of a type are arrays on no mesh, of a shape that is known."""
    aval = aval_if_any(type_)
    return (
        isinstance(aval, core.ShapedArray)
        and core.is_constant_shape(aval.shape)
        and aval.sharding.mesh.empty
    )


def is_narrow(dtype: Any) -> bool:
    """Whether numbers of a type are rounded more than floats are: where sums are rounded before
    they are added up, more is lost."""
    return dtypes.issubdtype(dtype, np.inexact) and dtypes.finfo(dtype).bits < 32


@functools.cache
def is_plain_array(type_: ir.Type) -> bool:
    """Whether a type says nothing of an array but shape, dtype, and that it is weak.

    The elements are numbers or typed random keys: there are zeros of them, and one of two such
    arrays can be selected, which JAX does not say of other extended dtypes.
    """
    return (
        is_array(type_)
        and with_shape(type_, aval_of(type_).shape) == type_
        and (is_key(aval_of(type_)) or not _is_extended(type_))
    )


ASKED = frozenset({"jaxpr.ctx", "sharding", "out_sharding"})
"""Attributes that ask something of where the values of an op are."""


def is_plain_op(node: OpView) -> bool:
    """Whether the values of an op are plain arrays, with nothing asked of where they are."""
    plain = (is_plain_array(v.type) for v in (*node.operands, *node.op.results))
    return ASKED.isdisjoint(node.attributes) and all(plain)


@functools.cache
def is_plain_signature(signature: Signature) -> bool:
    """Whether the values of the ops of a signature are plain arrays, wherever they are."""
    asked = not ASKED.isdisjoint(signature.named)
    return not asked and all(map(is_plain_array, (*signature.operands, *signature.results)))
