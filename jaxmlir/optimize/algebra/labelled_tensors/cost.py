"""The cost of products.

The cost table of the target determines it.  The model was measured in float32 on two cores of a
server CPU, XLA:CPU of JAX 0.10.2, medians::

    matrix product, n = 128, 256, 512   50, 91, 94 GFLOP/s        dot_flop
    matrix times vector, n = 256, 1024  22, 41 GB/s               read_byte
    elementwise product, n = 256, 1024  45, 43 GB/s               read_byte
    column and row sums, n = 1024       36, 53 GB/s               read_byte

Selecting 20,000 rows of 64 numbers, or adding them up, took 0.02 to 0.1 ns a byte.

The decisive number is the ratio of operations to bytes that take the same time: 2.5 on a CPU, 18 on
an H100, 470 on a TPU v5e, whose matrix unit is fast at 16 bits.  A program is changed only if the
estimate is better by ``MIN_GAIN``, so an error of a quarter does no harm.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxmlir.targets.costs import Costs

MIN_GAIN = 1.3
"""How many times faster than the old order a new one has to be, by estimate."""


class TensorCost(NamedTuple):
    """An estimate.

    Attributes:
      flops: the floating-point operations of matrix products, two for a multiply-add.
      bytes: read and written.
      ops: kernels that are launched.
    """

    flops: float = 0
    bytes: float = 0
    ops: float = 0

    def __add__(self, other: TensorCost) -> TensorCost:  # type: ignore[override]
        if other is FREE:
            return self
        return TensorCost(self.flops + other.flops, self.bytes + other.bytes, self.ops + other.ops)

    @staticmethod
    def of_product(terms: int, sizes: tuple[int, ...], itemsize: int) -> TensorCost:
        """The cost of a product of matrices.

        Args:
          terms: the number of scalar multiply-adds, for all elements.
          sizes: the sizes of the factors and the result.
        """
        return TensorCost(2 * terms, sum(sizes) * itemsize, 1)

    def shared(self, times: int) -> TensorCost:
        """The cost for each of several uses of a result that is computed once."""
        return (
            self
            if times == 1
            else TensorCost(self.flops / times, self.bytes / times, self.ops / times)
        )

    def is_less(self, other: TensorCost) -> bool:
        """Whether this takes fewer operations and bytes than another, and no more kernels."""
        return self.flops < other.flops and self.bytes < other.bytes and self.ops <= other.ops

    def ns(self, costs: Costs, are_small: bool = False) -> float:
        """Nanoseconds on a target.

        Args:
          costs: the costs of the target.
          are_small: whether it is a batch of products of small matrices.
        """
        flop = costs.small_dot_flop if are_small else costs.dot_flop
        return self.flops * flop + self.bytes * costs.read_byte + self.ops * costs.launch

    def __str__(self) -> str:
        return f"{_si(self.flops)}FLOP and {_si(self.bytes)}B"


FREE = TensorCost()
"""The cost of an op that is fused into others."""


def _si(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} T"
