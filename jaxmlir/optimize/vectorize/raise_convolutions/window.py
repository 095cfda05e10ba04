"""Windows with a place for each of some products, and the convolution that their sum is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax import lax

from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.vectorize.raise_convolutions.taps import Product, Tap

# Times of a convolution / of products, forward and gradient in the kernel, two CPU cores, jax 0.10
# and 0.12; in and out are the channels:
#   8 x 32 x 32, 3 x 3    1 -> 8    0.71, 0.72   0.47, 0.68     8 -> 1   2.48, 1.21   2.28, 1.18
#                         2 -> 4    1.16, 0.54   0.97, 0.46     4 -> 8   1.05, 0.47   1.18, 0.46
#               2 x 2   16 -> 16    0.82, 0.45   0.92, 0.46
#   3 x 3, 2 apart      16 -> 16    0.80, 0.33   0.91, 0.34
#   2 x 16 x 16, 3 x 3  64 -> 64    0.72, 0.50   1.02, 0.70
#   16 x 256, 5           4 -> 4    1.57, 0.84   0.83, 0.66
#             9         16 -> 16    0.67, 0.39   0.74, 0.39
#   2, 4 apart          32 -> 32    0.93, 0.72   1.09, 0.66
# Gradients in the array as well: 0.34 to 1.01, but of one channel up to 2.1.  Bytes of temporaries
# are 0.16 to 0.6 of those of products, and it takes 0.2 to 0.6 of the time to compile.
MIN_TAPS = 3
MIN_CHANNELS = 4
MIN_WEIGHTS = 32
# Multiplications from which on windows along one dimension are raised. Gradients in the kernel:
#   1 x 500, 5          16 -> 16    1.45, 1.13      1 x 2,000, 5   16 -> 16    1.07, 1.05
#   2 x 250, 5          16 -> 16    1.10, 1.04                     32 -> 32    0.79, 0.85
#   4 x 500, 3          16 -> 16    0.92, 0.96      1 x 1,000, 5   64 -> 64    0.59, 0.71
# Along two they pay from the smallest on: 1 x 16 x 16, 3 x 3, 0.8 and 0.55.
MIN_WORK_ALONG_ONE = 1 << 22
# More dimensions than these are not convolved in.
MAX_SPATIAL = 3


def window_of(product: Product, taps: Sequence[Tap]) -> Convolution | None:
    """The convolution whose window has a place for each of some terms; ``None`` if there is none,
    or it does not pay."""
    weights = aval_of(taps[0].matrix.type).shape
    if len(taps) < MIN_TAPS or min(weights) < MIN_CHANNELS or math.prod(weights) < MIN_WEIGHTS:
        return None
    places = [sorted(set(starts)) for starts in zip(*(tap.start for tap in taps), strict=True)]
    if sorted(tap.start for tap in taps) != list(itertools.product(*places)):
        return None
    rank = len(product.shape)
    still = [d for d in range(rank) if len(places[d]) == 1 and d != product.channel]
    batch = still[0] if still else None
    spatial = tuple(d for d in range(rank) if d not in (product.channel, batch))
    if len(places[product.channel]) > 1 or len(spatial) > MAX_SPATIAL:
        return None
    apart = tuple(places[d][1] - places[d][0] if len(places[d]) > 1 else 1 for d in spatial)
    for d, distance in zip(spatial, apart, strict=True):
        first, count = places[d][0], len(places[d])
        evenly = list(range(first, first + count * distance, distance))
        overlap = distance < product.shape[d] * product.strides[d]
        if places[d] != evenly or (count > 1 and not overlap):
            return None
    counts = tuple(len(places[d]) for d in spatial)
    work = len(taps) * math.prod(weights) * math.prod(product.shape) // weights[product.summed]
    if sum(count > 1 for count in counts) == 1 and work < MIN_WORK_ALONG_ONE:
        return None
    return Convolution(product, tuple(p[0] for p in places), batch, spatial, counts, apart)


@dataclass(frozen=True)
class Convolution:
    """A sum of products as a function of the array and a kernel; hashable.

    Attributes:
      start: of the first place of the window in the array.
      batch: a dimension along which no slice is moved, if there is one.
      spatial: the others, but that of the channels.
      counts: how many places the window has along these.
      apart: how far apart these are.
    """

    product: Product
    start: tuple[int, ...]
    batch: int | None
    spatial: tuple[int, ...]
    counts: tuple[int, ...]
    apart: tuple[int, ...]

    def __call__(self, array: Any, kernel: Any) -> list[Any]:
        product, n = self.product, len(self.spatial)
        x, moves = self.met(array), tuple(product.strides[d] for d in self.spatial)
        positions = dict(zip(self.unsummed(), product.kept, strict=True))
        lhs = [self.batch, product.channel, *self.spatial]
        out = [positions.get(self.batch), product.features, *(positions[d] for d in self.spatial)]
        if self.batch is None:
            x = lax.expand_dims(x, (0,))
            lhs, out = ([0, *(d + 1 for d in dims[1:])] for dims in (lhs, out))
        numbers = lax.ConvDimensionNumbers(
            tuple(lhs), (n + 1 - product.summed, n + product.summed, *range(n)), tuple(out)
        )
        y = lax.conv_general_dilated(
            x,
            kernel,
            moves,
            [(0, 0)] * n,
            rhs_dilation=self.apart,
            dimension_numbers=numbers,
            precision=product.precision,
        )
        return [y if self.batch is not None else lax.squeeze(y, (0,))]

    def unsummed(self) -> list[int]:
        return [d for d in range(len(self.product.shape)) if d != self.product.channel]

    def met(self, array: Any) -> Any:
        """The part of the array that the window meets."""
        product = self.product
        limits, steps = [], []
        window = dict(zip(self.spatial, zip(self.counts, self.apart, strict=True), strict=True))
        for d, (size, stride) in enumerate(zip(product.shape, product.strides, strict=True)):
            count, distance = window.get(d, (1, 1))
            last = self.start[d] + (size - 1) * stride + (count - 1) * distance
            limits.append(last + 1)
            steps.append(1 if d in window else stride)
        return lax.slice(array, self.start, limits, steps)
