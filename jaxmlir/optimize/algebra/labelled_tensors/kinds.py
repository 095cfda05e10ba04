"""What the ops of a signature have in common for who reads them as labelled tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.op_counts import is_array
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Tensor
from jaxmlir.optimize.algebra.labelled_tensors.wirings import Wiring, wiring_of

SUMS = frozenset({"jaxpr.dot_general", "jaxpr.reduce_sum"})
"""The ops that may sum over dimensions."""


class Kind:
    """What the ops of a signature have in common, as they are read.

    Attributes:
      is_plain: whether they can be read: of arrays of numbers on one device, to one.
      shapes: of the operands.
      shape, dtype: of the result.
    """

    def __init__(self, signature: Signature):
        self.signature = signature
        self.name: str = signature.name
        self._types = list(map(described, signature.types))
        shape, dtype = self._types[-1] if self._types else ((), None)
        self.shapes: list[tuple[int, ...]] = [shape for shape, _ in self._types[:-1]]
        self.shape: tuple[int, ...] = shape
        self.dtype: Any = dtype
        is_free = signature.named.keys().isdisjoint(("jaxpr.ctx", "jaxpr.effects", "sharding"))
        are_known = all(dtype is not None for _, dtype in self._types)
        self.is_plain: bool = is_free and are_known and len(signature.results) == 1

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes by name, decoded."""
        return {key: codec.decode(attr, codec.SYMBOLS) for key, attr in self.signature.attributes}

    @functools.cached_property
    def is_number(self) -> bool:
        """Whether they compute with numbers of one type whose sums may be added up in any order."""
        return all(dtype == self.dtype for _, dtype in self._types) and can_be_summed(self.dtype)

    def sums_to(self, a: Tensor) -> bool:
        """Whether they may add up elements of a tensor, and do nothing else with them."""
        return a.expr.dtype == self.dtype and can_be_summed(self.dtype)

    @functools.cached_property
    def wiring(self) -> Wiring | None:
        """How their dimensions run together."""
        if self.name in SUMS and not self.is_number:
            return None
        if self.attributes.get("preferred_element_type") not in (None, self.dtype):
            return None
        return wiring_of(self.name, self.attributes.get, self.shapes, self.shape)

    @functools.cached_property
    def dot(self) -> Dot | None:
        """The mark of a matrix product."""
        is_dot = "dimension_numbers" in self.attributes
        return Dot(self.attributes.get("precision")) if is_dot else None


kind_of = functools.cache(Kind)


@functools.cache
def described(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype; of what is no array on one device, a scalar of an unknown type."""
    aval = aval_of(type_)
    plain = isinstance(aval, core.ShapedArray) and is_array(type_) and aval.size > 0
    plain = plain and not isinstance(aval.dtype, dtypes.ExtendedDType)
    encoding = getattr(type_, "encoding", None)
    is_far = isinstance(encoding, ir.DictAttr) and "memory_space" in encoding
    plain = plain and not is_far and not getattr(aval, "vma", None)
    return (tuple(aval.shape), np.dtype(aval.dtype)) if plain else ((), None)


def can_be_summed(dtype: Any) -> bool:
    """Whether sums of a type may be added up in another order; narrow floats may overflow then."""
    if dtypes.issubdtype(dtype, np.floating):
        return dtypes.finfo(dtype).maxexp >= 128
    return dtype.kind in "iuc"


Reader = Callable[[Algebra, Kind, list[Tensor]], Tensor | None]
"""The tensor that an op of a kind makes of those of its operands, if it is read."""
