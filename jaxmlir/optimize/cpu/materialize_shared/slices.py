"""Finds slices that ``jaxpr-materialize-shared`` stores because an op reads them in two
arrangements.

Where a loop's slice of an array starts is known at run time only.  A kernel that reads the slice in
one arrangement reads the array itself.  But some kernels read it in two, such as all pairs of its
elements (``x[:, None] - x[None]``).  For these, XLA's CPU compiler writes a function that returns
an element of the slice, and the kernel calls it for each element of its result, so that it is not
vectorized.  Once stored, the slice is an array like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.optimize.barriers import FencedValue
from jaxmlir.transforms.higher_order.loops import ScanOp

# Functions of all differences of the 200 elements of a slice / of an array, jax 0.10 and 0.12, us:
# sin 590/155 and 580/145, logistic 270/85 and 330/90, tanh 330/120 and 320/140, exp 260/65 and
# 400/75, squares 190/90 and 97/52.  Slices of fewer elements, in a loop: tanh of 64 14/3.4 and
# 7.5/3.3, of 32 4.7/2.2 and 3.2/2.1, of 16 1.1/0.6 and 0.8/0.5; squares of 32 2.2/1.6 and 2.1/2.1,
# of 16 1.6/1.6 and 1.9/1.9.
MIN_ELEMENTS = 1024

_VIEWS = with_trait(Trait.VIEW)
# The most slices that are followed of those a value is computed from.
_MAX_READS = 8

# A slice, and the number of the arrangement that it is read in.
_Read = tuple[int, int]


def read_in_two_ways(
    symbols: Iterable[str], bodies: Callable[[str], FunctionView]
) -> dict[str, list[FencedValue]]:
    """The slices to store, by function."""
    # The arguments of each scan body that are slices.
    slices: dict[str, Sequence[int]] = {}
    for symbol in symbols:
        body = bodies(symbol)
        for op, name in zip(body.ops, body.names, strict=True):
            if name == "jaxpr.scan":
                scan = ScanOp.of(op)
                _, _, slices[scan.body] = scan.operands(range(len(op.operands)))
    return {symbol: _in_two_ways(bodies(symbol), slices.get(symbol, ())) for symbol in symbols}


def _in_two_ways(body: FunctionView, slices: Iterable[int]) -> list[FencedValue]:
    """The slices of a function to store, because an op reads them in two arrangements.

    Args:
      slices: the arguments that are slices.
    """
    reads: dict[int, tuple[_Read, ...]] = {v: ((v, 0),) for v in slices}
    sources = {v: (-1, v) for v in slices}
    if not reads and "jaxpr.dynamic_slice" not in body.names:
        return []
    counts = [elements(type_) for type_ in body.types]
    # The number of each arrangement, by the arrangement before it and the op in between.
    numbers: dict[tuple[int, Any], int] = {}
    ways: defaultdict[int, set[int]] = defaultdict(set)
    for index, (name, operands, (first, _)) in enumerate(
        zip(body.names, body.operands, body.results, strict=True)
    ):
        if name == "jaxpr.dynamic_slice":
            reads[first], sources[first] = ((first, 0),), (index, 0)
            continue
        if name not in FUSIBLE:
            continue
        reaching = dict.fromkeys(arrangement for v in operands for arrangement in reads.get(v, ()))
        if name in _VIEWS:
            signature = body.signatures[index]
            reaching = {
                (source, numbers.setdefault((way, signature), len(numbers) + 1)): None
                for source, way in reaching
            }
        for source, way in list(reaching):
            if counts[first] >= MIN_ELEMENTS and 1 < counts[source] <= counts[first] // 2:
                ways[source].add(way)
                del reaching[source, way]
        if reaching:
            reads[first] = tuple(reaching)[:_MAX_READS]
    reason = "its user reads it with two index maps"
    twice = [source for source, several in ways.items() if len(several) > 1]
    return [FencedValue(*sources[source], reason) for source in twice]
