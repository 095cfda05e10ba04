"""What a step of a product costs: the constants of the cost model, and what they were chosen by.

Times are of float32 on two cores of a server CPU, XLA:CPU of JAX 0.10.2, medians:

==================================  ======================  ========================================
matrix product, n = 128, 256, 512   50, 91, 94 GFLOP/s      ``FLOP_NS``
matrix times vector, n = 256, 1024  22, 41 GB/s             ``BYTE_NS``
elementwise product, n = 256, 1024  45, 43 GB/s             ``BYTE_NS``
column and row sums, n = 1024       36, 53 GB/s             ``BYTE_NS``
matrix product, n = 8, 32           6 us over no op at all  ``OP_NS``, what of that is not dispatch
==================================  ======================  ========================================

Selecting 20,000 rows of 64 numbers, or adding them up, took 0.02 to 0.1 ns a byte.

What decides is the ratio: how many operations take as long as a byte does, 2.5 here.  Accelerators
do more of them (14 on an H200, in float32 by its data sheet), so what saves operations at the price
of bytes is estimated too well there; the model has been measured on CPUs only.  An order of
evaluation is changed only if its estimate is better by ``MIN_GAIN``: an estimate that is off by a
quarter does no harm.
"""

from __future__ import annotations

from typing import NamedTuple

FLOP_NS = 0.012
BYTE_NS = 0.03
OP_NS = 500.0

MIN_GAIN = 1.3
"""How many times faster than the old order a new one has to be in the estimate."""

SURE_GAIN = 1.05
"""The same of an order that takes fewer operations and fewer bytes, whatever either costs.

``(h @ W)[:, :-1]`` of 8 x 128 x 64 and 64 x 4096 numbers saves one operation in 128 and half of the
bytes, 1.15 times in the estimate: its copy, and the padding of its cotangent, were 1.4 times in the
gradient of a language model.
"""


class Cost(NamedTuple):
    """An estimate.

    Attributes:
      flops: of matrix products, two for a multiply-add.
      bytes: read and written.
      ops: kernels that are launched.
    """

    flops: float = 0
    bytes: float = 0
    ops: float = 0

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        if other is FREE:
            return self
        return Cost(self.flops + other.flops, self.bytes + other.bytes, self.ops + other.ops)

    def shared(self, times: int) -> Cost:
        """Of each of several uses of what is computed once."""
        return (
            self if times == 1 else Cost(self.flops / times, self.bytes / times, self.ops / times)
        )

    def is_less(self, other: Cost) -> bool:
        """Whether it is the lesser one in operations and in bytes, with no more kernels."""
        return self.flops < other.flops and self.bytes < other.bytes and self.ops <= other.ops

    @property
    def ns(self) -> float:
        return self.flops * FLOP_NS + self.bytes * BYTE_NS + self.ops * OP_NS

    def __str__(self) -> str:
        return f"{_si(self.flops)}FLOP and {_si(self.bytes)}B"


FREE = Cost()
"""Of what is fused into others."""


def _si(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} T"
