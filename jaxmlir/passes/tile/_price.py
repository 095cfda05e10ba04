"""What tiles of a batch save and cost, and how many rows a tile has.

All constants of the choice are here.  They were measured on two cores of an x86 server with the XLA
of jax 0.10 and 0.12, on gradients of four programs in their arguments and weights, ``n`` rows each:
softmaxes of 2048 logits, three times over; attention of 512 positions; tanh, sine and normalization
of 2048 elements, four times over; a perceptron of widths 256, 1024, 1024, 256.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from jaxmlir.passes._body import Body
from jaxmlir.passes._work import ELEMENTWISE, size
from jaxmlir.passes.fence import MOVED, SLOW, Fence
from jaxmlir.passes.recompute import FUNCTIONS
from jaxmlir.passes.tile._regions import Schedule, Uses
from jaxmlir.passes.tile._write import Tiles

# A C library keeps a freed block of up to 32 MiB for the next call; a larger one is mapped anew,
# and each of its pages zeroed when it is first touched.  CPU time of tiles / of the entire batch,
# by the memory that the latter takes:
#                  7 to 14 MiB  20 to 28  40 to 56  80 to 112  160 to 320
#   softmaxes      1.07         1.06      0.70      0.76       0.65
#   attention      1.04         0.96      0.67      0.66       0.40
#   normalization               1.0       0.63      0.67       0.6
#   perceptron                  1.05      0.92                 0.8
MIN_PEAK = 33_554_432
# Nanoseconds for each byte of that memory: 0.5 to 0.7.
MEMORY = 0.5
# For each byte that every tile reads or writes as a whole: the weights of its matrix products, and
# their gradients, which are summed up.  Tiles of 64 rows instead of 256: 0.15 and 0.3.
SHARED = 0.12
# For each byte that a tile reads of rows, and writes of them, apart from its ops.
COPIED = 0.1
# Of a tile for each of its kernels.
KERNEL = 2000
# A gain that is less than what tiles cost is no gain, nor is one that is a tenth more.
MARGIN = 1.5
# What the values of a tile take together: caches are larger than a MiB, and much larger than a tile
# there is nothing to win.  Time at 4 / 8 / 16 / 32 MiB: softmaxes 1.15 / 1.05 / 1 / 1.06, attention
# 1.05 / 1 / 1.02 / 1.1, normalization - / 1.03 / 1 / 1.06, perceptron 1.3 / 1.1 / 1 / 1.
TILE_BYTES = 16_777_216


@dataclass(frozen=True)
class Estimate:
    """What a stage takes, in bytes.

    Attributes:
      peak: of values of the entire batch that are stored now, at the end of no op more.
      rows: what is read and given by rows.
      shared: what each tile reads and writes as a whole.
      kernels: how many loops over memory a tile is.
    """

    peak: int
    rows: int
    shared: int
    kernels: int

    def gain(self) -> float:
        """Nanoseconds that not storing the values of the batch saves."""
        return MEMORY * self.peak

    def cost(self, count: int) -> float:
        """Nanoseconds that ``count`` tiles take beyond the time that the batch takes."""
        return count * (SHARED * self.shared + KERNEL * self.kernels) + COPIED * self.rows

    def pays(self, count: int) -> bool:
        return count > 1 and self.gain() > MARGIN * self.cost(count)


def estimate(schedule: Schedule, number: int, stored: Container[int]) -> Estimate:
    """What a stage takes, given which values are stored."""
    body, ops = schedule.uses.body, schedule.stages[number].rows
    outer = set(schedule.outer(number))
    last: dict[int, int] = {}
    reads: set[int] = set()
    shared: set[int] = set()
    for i in ops:
        for k, v in enumerate(body.operands[i]):
            last[v] = i
            if schedule.is_inner(i, k):
                continue
            if schedule.rows[i].operands[k] is not None:
                reads.add(v)
            elif not _is_fused(body, i):
                shared.add(v)
    sums = schedule.sums(number)
    live = peak = kernels = 0
    ends: dict[int, int] = {}
    for i in ops:
        for v in range(*body.results[i]):
            if schedule.dim(v) is None or v in outer:
                kernels += 1
            elif v in stored:
                kernels += 1
                bytes_ = size(body.types[v])
                live += bytes_
                ends[last.get(v, i)] = ends.get(last.get(v, i), 0) + bytes_
        peak = max(peak, live)
        live -= ends.pop(i, 0)
    return Estimate(
        peak,
        _bytes(body, reads) + _bytes(body, outer),
        _bytes(body, shared) + 2 * _bytes(body, sums),
        kernels,
    )


def stored_values(uses: Uses) -> set[int]:
    """The values of a function that the compiler has in memory, not only in the kernels that they
    are a part of: those that it does not compute elementwise, or that are dear and used twice."""
    body = uses.body
    found = set(range(body.arity))
    # Of an element, in ops, if all that is not stored is computed with it.
    ops_of = [0] * len(body.types)
    for i, name in enumerate(body.names):
        cost = sum(ops_of[v] for v in body.operands[i]) + SLOW.get(name, 1)
        fused = _is_fused(body, i)
        for v in range(*body.results[i]):
            users = uses.users[v]
            is_dear = name in FUNCTIONS or cost > Fence.threshold
            read = any(body.names[u] in _STORING for u in users)
            if not fused or v in uses.is_returned or read or (len(users) > 1 and is_dear):
                found.add(v)
            else:
                ops_of[v] = cost
    return found


def tiles_of(rows: int, bytes_: int, tile_bytes: int) -> Tiles | None:
    """Tiles of about so many bytes, all of one size if that may be.

    Args:
      bytes_: what all rows take.
    """
    most = rows * tile_bytes // max(bytes_, 1)
    if most >= rows:
        return None
    most = max(most, 1)
    # As many rows as fit, or down to half of them so that none is left over.
    for count in range(-(-rows // most), min(2 * rows // most, rows) + 1):
        if rows % count == 0:
            return Tiles(rows, rows // count)
    return Tiles(rows, most)


def _is_fused(body: Body, i: int) -> bool:
    return body.names[i] in ELEMENTWISE or body.names[i] in MOVED


def _bytes(body: Body, values: Iterable[int]) -> int:
    return sum(size(body.types[v]) for v in values)


# They read their operands from memory.
_STORING = frozenset(
    f"jaxpr.{name}"
    for name in (
        "cholesky",
        "conv_general_dilated",
        "dot_general",
        "lu",
        "sort",
        "triangular_solve",
    )
)
