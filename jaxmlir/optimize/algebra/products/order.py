"""The order of multiplication, by dynamic programming over the connected parts of a network.

The cheapest product of some factors is the cheapest split into two parts, each multiplied at its
own least cost (Godbole 1973 for chains).  Parts that share no index are multiplied last.  As each
part is joined from two smaller parts that share an index, a chain of n factors has n^2 / 2 parts,
but a network in which all factors share an index has 2^n.  Beyond a limit, the search is greedy: it
always multiplies the cheapest pair.

A factor that selects rows is only multiplied with a tensor that has the index of the rows or those
of the selected rows.

The search writes sets of indices, and of factors, as bit masks.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jax import lax

from jaxmlir.optimize.algebra.labelled_tensors.cost import FREE, TensorCost
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Expr, Tensor
from jaxmlir.targets.costs import Costs

SURE_GAIN = 1.05
"""The minimum gain of an order with fewer operations and fewer bytes, which wins at any costs.

To slice ``h`` in ``(h @ W)[:, :-1]``, of 8 x 128 x 64 and 64 x 4096 numbers, saves one operation in
128 and half of the bytes, a gain of 1.15 in the estimate.  In the gradient of a language model the
gain was 1.4, as it saves the copy of the slice, and the padding of its cotangent.
"""

# The number of splits after which the search becomes greedy: 0.1 s, or a chain of 24 factors.
MAX_SPLITS = 10_000

Indices = tuple[int, ...]
"""The indices of one or several dimensions, in row-major order."""


class SelectionFactor(NamedTuple):
    """A factor that selects rows.

    Attributes:
      rows: the index of the rows.
      selected: the indices of the selected rows.
      transposable: whether it may be transposed, to add selected rows up where they came from.
      picks: whether it may pick one row for each selected index from a tensor that has both.
    """

    rows: int
    selected: Indices
    transposable: bool
    picks: bool = False


@dataclass(unsafe_hash=True)
class Network:
    """The factors of a product, and the indices that they share.

    It is never modified; it is not declared as frozen since that doubles the time to make one.

    Attributes:
      sizes: the sizes of the indices.
      factors: for each tensor, the indices of each of its dimensions.
      selections: the factors that select rows, which come after the tensors.
      out: the indices of each dimension of the result.
      itemsize: bytes of a number.
      costs: the costs of the target.
      fixed: the factors that are loop-invariant.
      trips: the iterations of the loop; a product of fixed factors only is computed once for all.
    """

    sizes: tuple[int, ...]
    factors: tuple[tuple[Indices, ...], ...]
    selections: tuple[SelectionFactor, ...]
    out: tuple[Indices, ...]
    itemsize: int
    costs: Costs
    fixed: frozenset[int] = frozenset()
    trips: int = 1
    _sizes: dict[int, int] = field(default_factory=dict, compare=False)

    def size(self, indices: int) -> int:
        """The number of elements of a tensor with some indices."""
        size = self._sizes.get(indices)
        if size is None:
            size = math.prod(self.sizes[i] for i in _members(indices))
            self._sizes[indices] = size
        return size

    def bytes(self, indices: int) -> int:
        return self.size(indices) * self.itemsize

    def reduced(self, indices: int, needed: int) -> TensorCost:
        """The cost of summing a tensor over the indices that are not needed."""
        left = indices & needed
        if left == indices:
            return FREE
        return TensorCost(0, self.bytes(indices) + self.bytes(left), 1)

    def multiplied(self, a: int, b: int, needed: int) -> TensorCost:
        """The cost of the product of two tensors, summed over the indices that are not needed."""
        out = (a | b) & needed
        if a == b == out:
            # Fused with the producers of the factors, as in the program.
            return FREE
        sizes = self.size(a), self.size(b), self.size(out)
        summed = (a | b) != out
        return TensorCost.of_product(self.size(a | b) if summed else 0, sizes, self.itemsize)

    def selects(self, tensor: int, s: SelectionFactor, needed: int) -> int | None:
        """The indices of a tensor after its rows are selected, picked or added up; ``None`` if that
        is not possible."""
        rows, selected = 1 << s.rows, _set_of(s.selected)
        there, back = (rows, selected), (selected, rows)
        for old, new in (there, back) if s.transposable else (there,):
            if tensor & old == old and not (tensor & new or old & needed):
                return tensor & ~old | new
        both = rows | selected
        if s.picks and tensor & both == both and not rows & needed:
            return tensor & ~rows
        return None

    def selected(self, tensor: int, result: int, s: SelectionFactor) -> TensorCost:
        """The cost of selecting rows, or of adding them up in an array of zeros."""
        if tensor >> s.rows & 1:
            return TensorCost(0, 2 * self.bytes(result), 1)
        return TensorCost(0, 2 * self.bytes(tensor) + self.bytes(result), 1)


def _set_of(members: Iterable[int]) -> int:
    """The bit mask of a set."""
    number = 0
    for member in members:
        number |= 1 << member
    return number


def _members(number: int) -> Iterator[int]:
    """The members of the set that a bit mask encodes."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


class PartialProduct(NamedTuple):
    """The product of some factors.

    Attributes:
      inside: the set of factors.
      indices: the set of indices of the product.
      cost: the cost of all steps so far.
      parts: the two parts that were multiplied; empty for a single factor.
      fixed: whether all factors are loop-invariant.
      selection: the selection, if this is one and no tensor.
    """

    inside: int
    indices: int
    cost: TensorCost
    parts: tuple[PartialProduct, ...] = ()
    fixed: bool = False
    selection: SelectionFactor | None = None


class _OrderSearch:
    """The products of the factors of a network.

    Attributes:
      singles: each factor alone.
    """

    def __init__(self, network: Network):
        self.network = network
        factors = [_set_of(itertools.chain(*dims)) for dims in network.factors]
        factors += [1 << s.rows | _set_of(s.selected) for s in network.selections]
        self._out = _set_of(itertools.chain(*network.out))
        self._users = [0] * len(network.sizes)
        for k, indices in enumerate(factors):
            for i in _members(indices):
                self._users[i] |= 1 << k
        self.singles: list[PartialProduct] = [
            self._single(k, indices) for k, indices in enumerate(factors)
        ]

    def ns(self, part: PartialProduct) -> float:
        """The nanoseconds of all steps of a part."""
        return part.cost.ns(self.network.costs)

    def _needed(self, indices: int, inside: int) -> int:
        """The indices of a set that the result has, or a factor that is not in ``inside``."""
        needed = self._out & indices
        for i in _members(indices & ~needed):
            if self._users[i] & ~inside:
                needed |= 1 << i
        return needed

    def _single(self, k: int, indices: int) -> PartialProduct:
        inside, dense = 1 << k, len(self.network.factors)
        fixed = k in self.network.fixed
        if k >= dense:
            selection = self.network.selections[k - dense]
            return PartialProduct(inside, indices, FREE, fixed=fixed, selection=selection)
        needed = self._needed(indices, inside)
        cost = self._step(self.network.reduced(indices, needed), fixed)
        return PartialProduct(inside, needed, cost, fixed=fixed)

    def _step(self, cost: TensorCost, fixed: bool) -> TensorCost:
        return cost.shared(self.network.trips) if fixed else cost

    def join(self, a: PartialProduct, b: PartialProduct) -> PartialProduct | None:
        """The product of two parts; ``None`` if they cannot be multiplied."""
        if a.selection is not None:
            a, b = b, a
        if a.selection is not None:
            return None
        network, inside, fixed = self.network, a.inside | b.inside, a.fixed and b.fixed
        needed = self._needed(a.indices | b.indices, inside)
        if b.selection is None:
            indices = a.indices | b.indices
            step = network.multiplied(a.indices, b.indices, needed)
        else:
            indices = network.selects(a.indices, b.selection, needed)
            if indices is None:
                return None
            step = network.selected(a.indices, indices, b.selection)
            step += network.reduced(indices, needed)
        cost = a.cost + b.cost + self._step(step, fixed)
        return PartialProduct(inside, indices & needed, cost, (a, b), fixed)


class MultiplicationOrder(NamedTuple):
    """An order of multiplication.  Tensors, selections and products are numbered in this order.

    Attributes:
      cost: an estimate for all steps.
      steps: each multiplies two tensors, or a tensor and a selection, to the next product.
      left: for each number the set of indices that are left once the indices that neither other
        factors nor the result need are summed over.
      smallest: the number of the product with the fewest elements, the last one of several.
    """

    cost: TensorCost
    steps: tuple[tuple[int, int], ...]
    left: tuple[int, ...]
    smallest: int


@functools.lru_cache(maxsize=8192)
def best_order(network: Network) -> MultiplicationOrder | None:
    """The cheapest order; ``None`` if none was found."""
    search = _OrderSearch(network)
    whole = _exact(search) or _greedy(search)
    if whole is None:
        return None
    products, pending = [], [whole]
    while pending:
        part = pending.pop()
        if part.parts:
            products.append(part)
            pending += reversed(part.parts)
    # Each product after its factors.
    parts = [*search.singles, *reversed(products)]
    numbers = {part.inside: k for k, part in enumerate(parts)}
    steps = [(numbers[a.inside], numbers[b.inside]) for a, b in (p.parts for p in products[::-1])]
    # A factor times a number may overflow or vanish, where the product times it does not.
    numbered = range(len(parts) - 1, min(len(search.singles), len(parts) - 1) - 1, -1)
    return MultiplicationOrder(
        whole.cost,
        tuple(steps),
        tuple([part.indices for part in parts]),
        min(numbered, key=lambda k: network.size(parts[k].indices)),
    )


def _exact(search: _OrderSearch) -> PartialProduct | None:
    """The best order, by dynamic programming; ``None`` if there are too many splits."""
    by_size: list[list[PartialProduct]] = [[], search.singles]
    splits = 0
    for size in range(2, len(search.singles) + 1):
        parts: dict[int, PartialProduct] = {}
        for small in range(1, size // 2 + 1):
            for a, b in itertools.product(by_size[small], by_size[size - small]):
                splits += 1
                if splits > MAX_SPLITS:
                    return None
                if a.inside & b.inside or not a.indices & b.indices:
                    continue
                if 2 * small == size and a.inside > b.inside:
                    # The pair occurs in both orders.
                    continue
                joined = search.join(a, b)
                if joined is not None:
                    best = parts.get(joined.inside)
                    if best is None or search.ns(joined) < search.ns(best):
                        parts[joined.inside] = joined
        by_size.append([*parts.values()])
    largest: list[PartialProduct] = []
    inside = 0
    for part in itertools.chain(*reversed(by_size)):
        if not part.inside & inside:
            largest.append(part)
            inside |= part.inside
    return _outer(search, largest)


def _outer(search: _OrderSearch, parts: list[PartialProduct]) -> PartialProduct | None:
    """The product of parts without common indices, the smallest first."""
    whole, *others = sorted(parts, key=lambda part: search.network.size(part.indices))
    for part in others:
        joined = search.join(whole, part)
        if joined is None:
            return None
        whole = joined
    return whole if whole.selection is None else None


def _greedy(search: _OrderSearch) -> PartialProduct | None:
    """An order that always multiplies the pair that is cheapest to multiply."""
    live = dict(enumerate(_elementwise_multiplied(search)))
    number = itertools.count(len(live))
    heap: list[tuple[float, int, int, PartialProduct]] = []

    def push(i: int, j: int) -> None:
        a, b = live[i], live[j]
        joined = search.join(a, b) if a.indices & b.indices else None
        if joined is not None:
            step = search.ns(joined) - search.ns(a) - search.ns(b)
            heapq.heappush(heap, (step, i, j, joined))

    for i, j in itertools.combinations(live, 2):
        push(i, j)
    while heap:
        _, i, j, joined = heapq.heappop(heap)
        if i in live and j in live:
            del live[i], live[j]
            others, product = [*live], next(number)
            live[product] = joined
            for k in others:
                push(k, product)
    return _outer(search, [*live.values()])


def _elementwise_multiplied(search: _OrderSearch) -> list[PartialProduct]:
    """The factors, with those of the same indices multiplied, which costs nothing.

    The greedy search would take these products first, but in n^2 steps for n factors.
    """
    live = {part.inside: part for part in search.singles}
    alike: dict[int, PartialProduct] = {}
    for part in search.singles:
        if part.selection is not None:
            continue
        first = alike.get(part.indices)
        joined = None if first is None else search.join(first, part)
        if joined is not None and joined.indices == part.indices:
            del live[first.inside], live[part.inside]
            live[joined.inside] = alike[part.indices] = joined
        else:
            alike[part.indices] = part
    return [*live.values()]


# -- A product in a given order, as a tensor --


class ContractionPlan(NamedTuple):
    """A product in an order of multiplication.

    Attributes:
      network: its factors.
      order: the order.
      values: the tensors, the selectors and the scalars.
      scalars: ``"mul"`` or ``"div"`` for each scalar; they are applied to the smallest product.
      times: the product of the sizes of summed indices that no factor has.
      sign: the sign of the product.
      exact: the indices of plain sums, which must not be rounded as matrix products may be.
      dot: the mark of the matrix products.
    """

    network: Network
    order: MultiplicationOrder
    values: Sequence[Expr]
    scalars: tuple[str, ...]
    times: int
    sign: int
    exact: frozenset[int]
    dot: Dot

    @property
    def cost(self) -> TensorCost:
        """An estimate."""
        return self.order.cost

    def text(self, dims: Iterable[int]) -> str:
        """The Einstein sum, with the order in brackets: ``ab,bc,c->a as (0 (1 2))``.

        Args:
          dims: the dimensions of the result, in the order of the text.
        """
        network = self.network
        names = [_letters({i for dim in dims for i in dim}) for dims in network.factors]
        names += [f"{_letters(s.selected)}<{_letters([s.rows])}" for s in network.selections]
        trees = list(map(str, range(len(names))))
        for i, j in self.order.steps:
            trees.append(f"({trees[i]} {trees[j]})")
        out = _letters(i for d in dims for i in network.out[d])
        return f"{','.join(names)}->{out} as {trees[-1]}"

    def tensor(self, algebra: Algebra) -> Tensor:
        """The product, labelled by the numbers of the result's dimensions."""
        network, values = self.network, iter(self.values)
        # All tensors, selections and products so far; labels are indices.
        tensors: list[Tensor] = []

        def add(tensor: Tensor) -> None:
            """Sums a tensor over indices that nothing else needs, and scales the smallest."""
            left = self.order.left[len(tensors)]
            gone = [i for i in tensor.labels if not left >> i & 1]
            tensor = algebra.raw_sum(tensor, gone) if gone else tensor
            is_smallest = len(tensors) == self.order.smallest
            tensors.append(self._scaled(algebra, tensor) if is_smallest else tensor)

        for dims in network.factors:
            add(_with_indices(algebra, next(values), dims, network.sizes))
        dense = len(tensors)
        for s in network.selections:
            tensors.append(Tensor(next(values), (s.rows, *s.selected)))
        selectors = range(dense, len(tensors))
        for i, j in self.order.steps:
            a, b = tensors[i], tensors[j]
            if j in selectors:
                rows, *selected = b.labels
                add(algebra.selected(a, b, [rows] if rows in a.labels else selected))
            else:
                add(self._product(algebra, a, b, self.order.left[len(tensors)]))
        return _laid_out(algebra, tensors[-1].times(self.sign), network)

    def _product(self, algebra: Algebra, a: Tensor, b: Tensor, left: int) -> Tensor:
        both = [i for i in a.labels if i in b.labels]
        gone = [i for i in both if not left >> i & 1]
        params = None
        if gone and len(both) < max(len(a.labels), len(b.labels)):
            # A sum that was not part of a matrix product keeps full precision.
            is_exact = not self.exact.isdisjoint(gone)
            params = Dot(lax.Precision.HIGHEST) if is_exact else self.dot
        return algebra.raw_product(a, b, gone, params)

    def _scaled(self, algebra: Algebra, tensor: Tensor) -> Tensor:
        """A tensor times the scalars."""
        numbers = self.values[len(self.values) - len(self.scalars) :]
        for kind, number in zip(self.scalars, numbers, strict=True):
            if kind == "mul":
                tensor = algebra.raw_product(tensor, Tensor(number, ()))
            else:
                operands = [tensor.unsigned, Tensor(number, ())]
                quotient = algebra.apply("div", None, operands, number.dtype)
                tensor = quotient.times(tensor.sign)
        return algebra.scaled(tensor, self.times)


def _letters(indices: Iterable[int]) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return "".join(alphabet[i] if i < len(alphabet) else f"<{i}>" for i in indices)


def _with_indices(
    algebra: Algebra, expr: Expr, dims: tuple[Indices, ...], sizes: Sequence[int]
) -> Tensor:
    """A factor with one dimension for each of its indices."""
    flat = [index for dim in dims for index in dim]
    tensor = Tensor(expr, tuple(range(len(dims))))
    if any(len(dim) != 1 for dim in dims):
        places = iter(range(len(flat)))
        parts = [tuple([next(places) for _ in dim]) for dim in dims]
        result = [(k,) for of_dim in parts for k in of_dim]
        tensor = algebra.reshaped(tensor, parts, result, [sizes[index] for index in flat])
    return algebra.diagonal(tensor.relabelled(flat))


def _laid_out(algebra: Algebra, tensor: Tensor, network: Network) -> Tensor:
    """A product with indices as labels, laid out by the dimensions of the result; if an index
    occurs twice in the result, it is zero off the diagonal."""
    sizes = dict(enumerate(network.sizes))
    out: list[Indices] = []
    seen: set[int] = set()
    for dim in network.out:
        labels = []
        for index in dim:
            if index in seen:
                size, other = sizes[index], len(sizes)
                sizes[other] = size
                eye = algebra.atom("eye", None, (size, size), np.dtype(bool))
                operands = [Tensor(eye, (index, other)), tensor.unsigned]
                masked = algebra.apply("mask", 0, operands, tensor.expr.dtype)
                tensor, index = masked.times(tensor.sign), other
            seen.add(index)
            labels.append(index)
        out.append(tuple(labels))
    if all(len(labels) == 1 for labels in out):
        at = {labels[0]: d for d, labels in enumerate(out)}
        return tensor.relabelled(at)
    present = {*tensor.labels}
    dims = [d for d, labels in enumerate(out) if not present.isdisjoint(labels)]
    parts = [(k,) for k in tensor.labels]
    return algebra.reshaped(tensor, parts, [out[d] for d in dims], sizes).relabelled(dims)
