"""In which order to multiply: dynamic programming over the connected parts of a network.

The cheapest way to multiply some factors is a cheapest way to split them into two, and to multiply
each part (Godbole 1973 for chains).  Parts that share no index are multiplied last.  As parts are
made from smaller parts that do share one, a chain of n factors has n^2 / 2 of them, though a
network where all share an index has 2^n: beyond a limit, the pair that is cheapest to multiply is
taken again and again.

A factor that selects rows is multiplied with one that has these rows or the selected ones, and
nobody else.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jax import lax

from jaxmlir.optimize.algebra.labelled_tensors.cost import FREE, TensorCost
from jaxmlir.optimize.algebra.labelled_tensors.expressions import Algebra, Dot, Expr, Tensor
from jaxmlir.targets.costs import Costs

SURE_GAIN = 1.05
"""The least gain of an order that takes fewer operations and fewer bytes, whatever either costs.

``(h @ W)[:, :-1]`` of 8 x 128 x 64 and 64 x 4096 numbers saves one operation in 128 and half of the
bytes, 1.15 times in the estimate: its copy, and the padding of its cotangent, were 1.4 times in the
gradient of a language model.
"""

Order = tuple[tuple[int, int], ...]
"""Steps: each multiplies two tensors and appends the product.  The factors come first, then the
selectors."""

# Splits looked at, before the search is not exact any more: 0.1 s, or a chain of 24 factors.
MAX_SPLITS = 10_000


class SelectionFactor(NamedTuple):
    """A factor that selects rows, as the search sees it: bit sets of indices."""

    rows: int
    selected: int
    transposable: bool
    """Whether the selected rows may be added up where they came from."""
    picks: bool = False
    """Whether each selected row may be one of a tensor that has rows for each of them."""


@dataclass(unsafe_hash=True)
class Network:
    """A network as the search sees it; sets of indices and factors are numbers, a bit for each.

    Nobody changes one; where Python watches over that, it takes twice as long to make one.

    Attributes:
      sizes: of the indices.
      factors: the indices of each tensor.
      out: the indices of the result.
      itemsize: bytes of a number.
      costs: of the target.
      fixed: the factors, selectors after tensors, that are the same in each iteration of a loop.
      trips: of how many iterations; what only fixed factors are multiplied to is computed once.
    """

    sizes: tuple[int, ...]
    factors: tuple[int, ...]
    selections: tuple[SelectionFactor, ...]
    out: int
    itemsize: int
    costs: Costs
    fixed: int = 0
    trips: int = 1
    _sizes: dict[int, int] = field(default_factory=dict, compare=False)

    def size(self, indices: int) -> int:
        """The number of elements of a tensor with some indices."""
        size = self._sizes.get(indices)
        if size is None:
            size = math.prod(self.sizes[i] for i in _bits(indices))
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
            # Fused with what gives the factors, as it is where it stands.
            return FREE
        sizes = self.size(a), self.size(b), self.size(out)
        summed = (a | b) != out
        return TensorCost.of_product(self.size(a | b) if summed else 0, sizes, self.itemsize)

    def selects(self, tensor: int, s: SelectionFactor, needed: int) -> int | None:
        """The indices of a tensor whose rows are selected, picked or added up; ``None`` if they
        cannot be."""
        there, back = (s.rows, s.selected), (s.selected, s.rows)
        for old, new in (there, back) if s.transposable else (there,):
            if tensor & old == old and not (tensor & new or old & needed):
                return tensor & ~old | new
        both = s.rows | s.selected
        if s.picks and tensor & both == both and not s.rows & needed:
            return tensor & ~s.rows
        return None

    def selected(self, tensor: int, result: int, s: SelectionFactor) -> TensorCost:
        """The cost of selecting rows, or of adding them up to what is filled with zeros first."""
        if tensor & s.rows:
            return TensorCost(0, 2 * self.bytes(result), 1)
        return TensorCost(0, 2 * self.bytes(tensor) + self.bytes(result), 1)


class PartialProduct(NamedTuple):
    """Some factors multiplied.

    Attributes:
      indices: those of the product.
      cost: of all steps so far.
      tree: a factor's number, or the two parts that were multiplied.
      fixed: whether all of them are.
      selection: what this is, if it is a selection and no tensor.
    """

    indices: int
    cost: TensorCost
    tree: int | tuple
    fixed: bool = False
    selection: SelectionFactor | None = None


class _OrderSearch:
    def __init__(self, network: Network):
        self.network = network
        selections = [s.rows | s.selected for s in network.selections]
        self.factors = [*network.factors, *selections]
        self._users = [0] * len(network.sizes)
        for k, indices in enumerate(self.factors):
            for i in _bits(indices):
                self._users[i] |= 1 << k

    def ns(self, part: PartialProduct) -> float:
        """The nanoseconds of all steps of a part."""
        return part.cost.ns(self.network.costs)

    def needed(self, indices: int, inside: int) -> int:
        """The indices among some that the result has, or a factor that is not in a set."""
        needed = self.network.out & indices
        for i in _bits(indices & ~needed):
            if self._users[i] & ~inside:
                needed |= 1 << i
        return needed

    def single(self, k: int) -> PartialProduct:
        dense = len(self.network.factors)
        fixed = bool(self.network.fixed >> k & 1)
        if k >= dense:
            return PartialProduct(
                self.factors[k], FREE, k, fixed, self.network.selections[k - dense]
            )
        indices = self.factors[k]
        needed = self.needed(indices, 1 << k)
        return PartialProduct(
            needed, self._step(self.network.reduced(indices, needed), fixed), k, fixed
        )

    def _step(self, cost: TensorCost, fixed: bool) -> TensorCost:
        return cost.shared(self.network.trips) if fixed else cost

    def join(self, a: PartialProduct, b: PartialProduct, inside: int) -> PartialProduct | None:
        """The product of two parts, which have the factors ``inside``; ``None`` if it is none."""
        network = self.network
        needed = self.needed(a.indices | b.indices, inside)
        if a.selection is not None:
            a, b = b, a
        if a.selection is not None:
            return None
        tree, fixed = (a.tree, b.tree), a.fixed and b.fixed
        if b.selection is None:
            step = self._step(network.multiplied(a.indices, b.indices, needed), fixed)
            return PartialProduct(
                (a.indices | b.indices) & needed, a.cost + b.cost + step, tree, fixed
            )
        result = network.selects(a.indices, b.selection, needed)
        if result is None:
            return None
        step = network.selected(a.indices, result, b.selection) + network.reduced(result, needed)
        return PartialProduct(result & needed, a.cost + self._step(step, fixed), tree, fixed)


class MultiplicationOrder(NamedTuple):
    """An order of multiplication.

    Attributes:
      cost: an estimate for all steps.
      order: the steps.
      smallest: the number of the tensor that has the fewest elements, of all on the way.
    """

    cost: TensorCost
    order: Order
    smallest: int


@functools.lru_cache(maxsize=8192)
def best_order(network: Network) -> MultiplicationOrder | None:
    """The cheapest order; ``None`` if none was found."""
    search = _OrderSearch(network)
    singles = [search.single(k) for k in range(len(search.factors))]
    best = _exact(search, singles)
    if best is None:
        best = _greedy(search, singles)
    if best is None:
        return None
    order = _steps(best.tree, len(singles))
    return MultiplicationOrder(best.cost, order, _smallest(search, singles, order))


def _smallest(search: _OrderSearch, singles: list[PartialProduct], order: Order) -> int:
    parts = list(singles)
    inside = [1 << k for k in range(len(parts))]
    for i, j in order:
        inside.append(inside[i] | inside[j])
        parts.append(search.join(parts[i], parts[j], inside[-1]))
    tensors = (k for k, part in enumerate(parts) if part.selection is None)
    return min(tensors, key=lambda k: search.network.size(parts[k].indices))


def _exact(search: _OrderSearch, singles: list[PartialProduct]) -> PartialProduct | None:
    """The best order, of connected parts; ``None`` if there are too many."""
    count = len(singles)
    by_size: list[dict[int, PartialProduct]] = [
        {},
        {1 << k: part for k, part in enumerate(singles)},
    ]
    splits = 0
    for size in range(2, count + 1):
        parts: dict[int, PartialProduct] = {}
        for small in range(1, size // 2 + 1):
            for (p, a), (q, b) in itertools.product(
                by_size[small].items(), by_size[size - small].items()
            ):
                splits += 1
                if splits > MAX_SPLITS:
                    return None
                if p & q or not a.indices & b.indices or (2 * small == size and p > q):
                    continue
                inside = p | q
                joined = search.join(a, b, inside)
                if joined is not None and (
                    inside not in parts or search.ns(joined) < search.ns(parts[inside])
                ):
                    parts[inside] = joined
        by_size.append(parts)
    largest: list[tuple[int, PartialProduct]] = []
    inside = 0
    for parts in reversed(by_size):
        for p, part in parts.items():
            if not p & inside:
                largest.append((p, part))
                inside |= p
    return _outer(search, largest)


def _outer(search: _OrderSearch, parts: list[tuple[int, PartialProduct]]) -> PartialProduct | None:
    """The product of parts without common indices, the smallest first."""
    parts.sort(key=lambda item: search.network.size(item[1].indices))
    inside, whole = parts[0]
    for p, part in parts[1:]:
        inside |= p
        joined = search.join(whole, part, inside)
        if joined is None:
            return None
        whole = joined
    return whole if whole.selection is None else None


def _greedy(search: _OrderSearch, singles: list[PartialProduct]) -> PartialProduct | None:
    """An order that multiplies what is cheapest to multiply, again and again."""
    live = dict(enumerate(singles))
    inside = {k: 1 << k for k in live}
    heap: list[tuple[float, int, int, PartialProduct]] = []
    number = itertools.count(len(singles))

    def take_place(i: int, j: int, joined: PartialProduct) -> int:
        place = next(number)
        inside[place] = inside[i] | inside[j]
        del live[i], live[j]
        live[place] = joined
        return place

    # Elementwise products cost nothing. They would be taken first; of n factors, in n^2 steps.
    alike: dict[int, int] = {}
    for k, part in enumerate(singles):
        first = alike.get(part.indices)
        if part.selection is None and first is not None:
            joined = search.join(live[first], part, inside[first] | inside[k])
            if joined is not None and joined.indices == part.indices:
                k = take_place(first, k, joined)
        if part.selection is None:
            alike[part.indices] = k

    def push(i: int, j: int) -> None:
        a, b = live[i], live[j]
        if a.indices & b.indices:
            joined = search.join(a, b, inside[i] | inside[j])
            if joined is not None:
                step = search.ns(joined) - search.ns(a) - search.ns(b)
                heapq.heappush(heap, (step, i, j, joined))

    for i, j in itertools.combinations(live, 2):
        push(i, j)
    while heap:
        _, i, j, joined = heapq.heappop(heap)
        if i not in live or j not in live:
            continue
        place = take_place(i, j, joined)
        for k in live:
            if k != place:
                push(k, place)
    return _outer(search, [(inside[k], part) for k, part in live.items()])


def _steps(tree: int | tuple, count: int) -> Order:
    """The steps of a tree of products."""
    steps: list[tuple[int, int]] = []
    done: dict[int, int] = {}
    pending = [tree]
    while pending:
        node = pending[-1]
        if isinstance(node, int):
            done[id(node)] = node
            pending.pop()
            continue
        waiting = [side for side in node if id(side) not in done]
        if waiting:
            pending += waiting
            continue
        steps.append((done[id(node[0])], done[id(node[1])]))
        done[id(node)] = count + len(steps) - 1
        pending.pop()
    return tuple(steps)


def _bits(number: int) -> Iterator[int]:
    """The numbers of the bits of a number that are set."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


# -- A product in its order, as a tensor --


Indices = tuple[int, ...]


class ContractionPlan(NamedTuple):
    """A product in an order of multiplication; hashable.

    Attributes:
      sizes: of the indices.
      factors: for each tensor, the indices of each of its dimensions.
      selectors: for each, the index of the rows, and those of the selected ones.
      out: the indices of each dimension of the result.
      order: the steps.
      scalars: ``"mul"`` or ``"div"``.
      scaled: which tensor, in the order's numbers, the scalars are applied to.
      times: how often the product is added up, for indices that no factor has.
      sign: of the product.
      exact: the indices of sums, which are not rounded as matrix products may be.
      dot: the mark of the matrix products.
    """

    sizes: Indices
    factors: tuple[tuple[Indices, ...], ...]
    selectors: tuple[tuple[int, Indices], ...]
    out: tuple[Indices, ...]
    order: Order
    scalars: tuple[str, ...]
    scaled: int
    times: int
    sign: int
    exact: frozenset[int]
    dot: Dot

    def tensor(self, algebra: Algebra, exprs: Sequence[Expr]) -> Tensor:
        """The product, labelled by the numbers of the result's dimensions.

        Args:
          exprs: the tensors, the selectors, the scalars.
        """
        return _Multiplication(self, algebra, exprs).result()

    def text(self, dims: Iterable[int]) -> str:
        """The Einstein sum, with the order in brackets: ``ab,bc,c->a as (0 (1 2))``.

        Args:
          dims: those of the result, in the order that they are to have.
        """
        names = [_letters({i for dim in dims for i in dim}) for dims in self.factors]
        names += [f"{_letters(selected)}<{_letters([rows])}" for rows, selected in self.selectors]
        trees = list(map(str, range(len(names))))
        for i, j in self.order:
            trees.append(f"({trees[i]} {trees[j]})")
        out = _letters(i for d in dims for i in self.out[d])
        return f"{','.join(names)}->{out} as {trees[-1]}"


def _letters(indices: Iterable[int]) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return "".join(alphabet[i] if i < len(alphabet) else f"<{i}>" for i in indices)


class _Multiplication:
    """The steps of a plan, each a tensor whose labels are indices."""

    def __init__(self, plan: ContractionPlan, algebra: Algebra, exprs: Sequence[Expr]):
        self.plan = plan
        self.algebra = algebra
        first, last = len(plan.factors), len(plan.factors) + len(plan.selectors)
        self.factors = exprs[:first]
        self.selectors = [
            Tensor(expr, (rows, *selected))
            for expr, (rows, selected) in zip(exprs[first:last], plan.selectors, strict=True)
        ]
        self.scalars = exprs[last:]
        # How many tensors and selectors have an index; the result has it for good.
        self.users = Counter(index for dim in plan.out for index in dim)
        for dims in plan.factors:
            self.users.update({index for dim in dims for index in dim})
        for t in self.selectors:
            self.users.update(t.labels)

    def result(self) -> Tensor:
        plan = self.plan
        live: dict[int, Tensor] = {}
        for k, (expr, dims) in enumerate(zip(self.factors, plan.factors, strict=True)):
            live[k] = self.scale(k, self.factor(expr, dims))
        selectors = dict(enumerate(self.selectors, start=len(live)))
        for step, (i, j) in enumerate(plan.order, start=len(live) + len(selectors)):
            if i in selectors:
                i, j = j, i
            if j in selectors:
                product = self.selected(live.pop(i), selectors[j])
            else:
                product = self.product(live.pop(i), live.pop(j))
            live[step] = self.scale(step, product)
        ((_, tensor),) = live.items()
        return self.laid_out(tensor.times(plan.sign))

    def factor(self, expr: Expr, dims: tuple[Indices, ...]) -> Tensor:
        """A tensor with one dimension for each of its indices that is needed elsewhere."""
        flat = [index for dim in dims for index in dim]
        tensor = Tensor(expr, tuple(range(len(dims))))
        if any(len(dim) != 1 for dim in dims):
            places = iter(range(len(flat)))
            parts = [tuple([next(places) for _ in dim]) for dim in dims]
            sizes = [self.plan.sizes[index] for index in flat]
            result = [(k,) for of_dim in parts for k in of_dim]
            tensor = self.algebra.reshaped(tensor, parts, result, sizes)
        return self.release(self.algebra.diagonal(tensor.relabelled(flat)))

    def release(self, tensor: Tensor) -> Tensor:
        """A tensor, which is counted as a user, summed over the indices that nobody else has."""
        self.users.subtract(tensor.labels)
        gone = [i for i in tensor.labels if not self.users[i]]
        summed = self.algebra.raw_sum(tensor, gone) if gone else tensor
        self.users.update(summed.labels)
        return summed

    def selected(self, tensor: Tensor, selector: Tensor) -> Tensor:
        """Rows of a tensor selected, picked, or added up."""
        self.users.subtract(tensor.labels)
        self.users.subtract(selector.labels)
        rows, *chosen = selector.labels
        gone = [rows] if rows in tensor.labels else chosen
        selection = self.algebra.selected(tensor, selector, gone)
        self.users.update(selection.labels)
        return self.release(selection)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        self.users.subtract(a.labels)
        self.users.subtract(b.labels)
        both = [i for i in a.labels if i in b.labels]
        gone = [i for i in both if not self.users[i]]
        params = None
        if gone and len(both) < max(len(a.labels), len(b.labels)):
            # A sum that was none of a matrix product keeps all digits.
            is_exact = not self.plan.exact.isdisjoint(gone)
            params = Dot(lax.Precision.HIGHEST) if is_exact else self.plan.dot
        product = self.algebra.raw_product(a, b, gone, params)
        self.users.update(product.labels)
        return product

    def scale(self, k: int, tensor: Tensor) -> Tensor:
        """A tensor times the scalars, if it is the one that they are applied to."""
        plan = self.plan
        if k != plan.scaled:
            return tensor
        for kind, number in zip(plan.scalars, self.scalars, strict=True):
            if kind == "mul":
                tensor = self.algebra.raw_product(tensor, Tensor(number, ()))
            else:
                operands = [tensor.unsigned, Tensor(number, ())]
                quotient = self.algebra.apply("div", None, operands, number.dtype)
                tensor = quotient.times(tensor.sign)
        return self.algebra.scaled(tensor, plan.times)

    def laid_out(self, tensor: Tensor) -> Tensor:
        """The result: zero where an index differs from itself."""
        algebra, sizes = self.algebra, dict(enumerate(self.plan.sizes))
        out: list[Indices] = []
        seen: set[int] = set()
        for dim in self.plan.out:
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
        merged = self.algebra.reshaped(tensor, parts, [out[d] for d in dims], sizes)
        return merged.relabelled(dims)
