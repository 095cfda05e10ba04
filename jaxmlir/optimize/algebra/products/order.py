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
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxmlir.optimize.algebra.labelled_tensors import LabelledArray, contracted
from jaxmlir.optimize.algebra.products.selectors import Spec
from jaxmlir.targets.costs import Costs

# -- What a step of a product costs --
#
# By the table of the target.  The model was measured in float32 on two cores of a server CPU,
# XLA:CPU of JAX 0.10.2, medians:
#
#   matrix product, n = 128, 256, 512   50, 91, 94 GFLOP/s        dot_flop
#   matrix times vector, n = 256, 1024  22, 41 GB/s               read_byte
#   elementwise product, n = 256, 1024  45, 43 GB/s               read_byte
#   column and row sums, n = 1024       36, 53 GB/s               read_byte
#
# Selecting 20,000 rows of 64 numbers, or adding them up, took 0.02 to 0.1 ns a byte.
#
# What decides is the ratio: how many operations take as long as a byte does, 2.5 on a CPU, 18 on an
# H100, 470 on a TPU v5e, whose unit for products is fast at 16 bits.  An order of evaluation is
# changed only if its estimate is better by ``MIN_GAIN``: an estimate that is off by a quarter does
# no harm.


MIN_GAIN = 1.3
"""How many times faster than the old order a new one has to be in the estimate."""

SURE_GAIN = 1.05
"""The least gain of an order that takes fewer operations and fewer bytes, whatever either costs.

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
        """The cost for each of several uses of what is computed once."""
        return (
            self if times == 1 else Cost(self.flops / times, self.bytes / times, self.ops / times)
        )

    def is_less(self, other: Cost) -> bool:
        """Whether this takes fewer operations and bytes than another, and no more kernels."""
        return self.flops < other.flops and self.bytes < other.bytes and self.ops <= other.ops

    def ns(self, costs: Costs) -> float:
        """Nanoseconds on a target of some costs."""
        at_work = self.flops * costs.dot_flop + self.bytes * costs.read_byte
        return at_work + self.ops * costs.launch

    def __str__(self) -> str:
        return f"{_si(self.flops)}FLOP and {_si(self.bytes)}B"


FREE = Cost()
"""The cost of what is fused into others."""


def _si(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} T"


Order = tuple[tuple[int, int], ...]
"""Steps: each multiplies two tensors and appends the product.  The factors come first, then the
selectors."""

# Splits looked at, before the search is not exact any more: 0.1 s, or a chain of 24 factors.
MAX_SPLITS = 10_000


class Selection(NamedTuple):
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
    selections: tuple[Selection, ...]
    out: int
    itemsize: int
    costs: Costs
    fixed: int = 0
    trips: int = 1
    _sizes: dict[int, int] = field(default_factory=dict, compare=False)

    def size(self, indices: int) -> int:
        """The number of elements of a tensor with some indices."""
        found = self._sizes.get(indices)
        if found is None:
            found = math.prod(self.sizes[i] for i in _bits(indices))
            self._sizes[indices] = found
        return found

    def bytes(self, indices: int) -> int:
        return self.size(indices) * self.itemsize

    def reduced(self, indices: int, needed: int) -> Cost:
        """The cost of summing a tensor over the indices that are not needed."""
        left = indices & needed
        if left == indices:
            return FREE
        return Cost(0, self.bytes(indices) + self.bytes(left), 1)

    def multiplied(self, a: int, b: int, needed: int) -> Cost:
        """The cost of the product of two tensors, summed over the indices that are not needed."""
        out = (a | b) & needed
        if a == b == out:
            # Fused with what gives the factors, as it is where it stands.
            return FREE
        moved = self.bytes(a) + self.bytes(b) + self.bytes(out)
        summed = (a | b) != out
        return Cost(2 * self.size(a | b) if summed else 0, moved, 1)

    def selects(self, tensor: int, s: Selection, needed: int) -> int | None:
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

    def selected(self, tensor: int, result: int, s: Selection) -> Cost:
        """The cost of selecting rows, or of adding them up to what is filled with zeros first."""
        if tensor & s.rows:
            return Cost(0, 2 * self.bytes(result), 1)
        return Cost(0, 2 * self.bytes(tensor) + self.bytes(result), 1)


class Part(NamedTuple):
    """Some factors multiplied.

    Attributes:
      indices: those of the product.
      cost: of all steps so far.
      tree: a factor's number, or the two parts that were multiplied.
      fixed: whether all of them are.
      selection: what this is, if it is a selection and no tensor.
    """

    indices: int
    cost: Cost
    tree: int | tuple
    fixed: bool = False
    selection: Selection | None = None


class _Search:
    def __init__(self, network: Network):
        self.network = network
        selections = [s.rows | s.selected for s in network.selections]
        self.factors = [*network.factors, *selections]
        self._users = [0] * len(network.sizes)
        for k, indices in enumerate(self.factors):
            for i in _bits(indices):
                self._users[i] |= 1 << k

    def ns(self, part: Part) -> float:
        """The nanoseconds of all steps of a part."""
        return part.cost.ns(self.network.costs)

    def needed(self, indices: int, inside: int) -> int:
        """The indices among some that the result has, or a factor that is not in a set."""
        found = self.network.out & indices
        for i in _bits(indices & ~found):
            if self._users[i] & ~inside:
                found |= 1 << i
        return found

    def single(self, k: int) -> Part:
        dense = len(self.network.factors)
        fixed = bool(self.network.fixed >> k & 1)
        if k >= dense:
            return Part(self.factors[k], FREE, k, fixed, self.network.selections[k - dense])
        indices = self.factors[k]
        needed = self.needed(indices, 1 << k)
        return Part(needed, self._step(self.network.reduced(indices, needed), fixed), k, fixed)

    def _step(self, cost: Cost, fixed: bool) -> Cost:
        return cost.shared(self.network.trips) if fixed else cost

    def join(self, a: Part, b: Part, inside: int) -> Part | None:
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
            return Part((a.indices | b.indices) & needed, a.cost + b.cost + step, tree, fixed)
        result = network.selects(a.indices, b.selection, needed)
        if result is None:
            return None
        step = network.selected(a.indices, result, b.selection) + network.reduced(result, needed)
        return Part(result & needed, a.cost + self._step(step, fixed), tree, fixed)


class Ordered(NamedTuple):
    """An order of multiplication.

    Attributes:
      cost: an estimate for all steps.
      order: the steps.
      smallest: the number of the tensor that has the fewest elements, of all on the way.
    """

    cost: Cost
    order: Order
    smallest: int


@functools.lru_cache(maxsize=8192)
def best_order(network: Network) -> Ordered | None:
    """The cheapest order; ``None`` if none was found."""
    search = _Search(network)
    singles = [search.single(k) for k in range(len(search.factors))]
    found = _exact(search, singles)
    if found is None:
        found = _greedy(search, singles)
    if found is None:
        return None
    order = _steps(found.tree, len(singles))
    return Ordered(found.cost, order, _smallest(search, singles, order))


def _smallest(search: _Search, singles: list[Part], order: Order) -> int:
    parts = list(singles)
    inside = [1 << k for k in range(len(parts))]
    for i, j in order:
        inside.append(inside[i] | inside[j])
        parts.append(search.join(parts[i], parts[j], inside[-1]))
    tensors = (k for k, part in enumerate(parts) if part.selection is None)
    return min(tensors, key=lambda k: search.network.size(parts[k].indices))


def _exact(search: _Search, singles: list[Part]) -> Part | None:
    """The best order, of connected parts; ``None`` if there are too many."""
    count = len(singles)
    by_size: list[dict[int, Part]] = [{}, {1 << k: part for k, part in enumerate(singles)}]
    splits = 0
    for size in range(2, count + 1):
        made: dict[int, Part] = {}
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
                    inside not in made or search.ns(joined) < search.ns(made[inside])
                ):
                    made[inside] = joined
        by_size.append(made)
    largest: list[tuple[int, Part]] = []
    inside = 0
    for made in reversed(by_size):
        for p, part in made.items():
            if not p & inside:
                largest.append((p, part))
                inside |= p
    return _outer(search, largest)


def _outer(search: _Search, parts: list[tuple[int, Part]]) -> Part | None:
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


def _greedy(search: _Search, singles: list[Part]) -> Part | None:
    """An order that multiplies what is cheapest to multiply, again and again."""
    live = dict(enumerate(singles))
    inside = {k: 1 << k for k in live}
    heap: list[tuple[float, int, int, Part]] = []
    number = itertools.count(len(singles))

    def take_place(i: int, j: int, joined: Part) -> int:
        new = next(number)
        inside[new] = inside[i] | inside[j]
        del live[i], live[j]
        live[new] = joined
        return new

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
        new = take_place(i, j, joined)
        for k in live:
            if k != new:
                push(k, new)
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


# -- Writing a product in its order: one JAX function, traced once per plan and types --


Indices = tuple[int, ...]


class Plan(NamedTuple):
    """A product in an order of multiplication, as a function that JAX traces; hashable.

    Attributes:
      sizes: of the indices.
      factors: for each tensor, the indices of each of its dimensions.
      selectors: for each, what it does, the index of the rows, and those of the selected ones.
      out: the indices of each dimension of the result.
      order: the steps.
      scalars: ``"mul"``, ``"div"`` or ``"neg"``; the first two have an argument each.
      scaled: which tensor, in the order's numbers, the scalars are applied to.
      times: how often the product is added up, for indices that no factor has.
      exact: the indices of sums, which are not rounded as matrix products may be.
      shape: of the result.
      dtype: of all tensors.
      precision, preferred_element_type: of the matrix products.
    """

    sizes: Indices
    factors: tuple[tuple[Indices, ...], ...]
    selectors: tuple[tuple[Spec, int, Indices], ...]
    out: tuple[Indices, ...]
    order: Order
    scalars: tuple[str, ...]
    scaled: int
    times: int
    exact: frozenset[int]
    shape: tuple[int, ...]
    dtype: Any
    precision: Any
    preferred_element_type: Any

    def __call__(self, *args: Any) -> list[Any]:
        """The product.

        Args:
          args: the tensors, the operands of the selectors, the scalars.
        """
        return [_Evaluation(self, args).result()]

    def __str__(self) -> str:
        """The Einstein sum, with the order in brackets: ``ab,bc,c->a as (0 (1 2))``."""
        names = [_letters({i for dim in dims for i in dim}) for dims in self.factors]
        names += [
            f"{_letters(selected)}<{_letters([rows])}" for _, rows, selected in self.selectors
        ]
        trees = list(map(str, range(len(names))))
        for i, j in self.order:
            trees.append(f"({trees[i]} {trees[j]})")
        return f"{','.join(names)}->{_letters(i for dim in self.out for i in dim)} as {trees[-1]}"


def _letters(indices: Iterable[int]) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return "".join(alphabet[i] if i < len(alphabet) else f"<{i}>" for i in indices)


class _Evaluation:
    def __init__(self, plan: Plan, args: Sequence[Any]):
        self.plan = plan
        rest = iter(args)
        self.arrays = [next(rest) for _ in plan.factors]
        self.operands = [[next(rest) for _ in range(s.operands)] for s, *_ in plan.selectors]
        self.scalars = [None if kind == "neg" else next(rest) for kind in plan.scalars]
        # How many tensors and selectors have an index; the result has it for good.
        self.users = Counter(index for dim in plan.out for index in dim)
        for dims in plan.factors:
            self.users.update({index for dim in dims for index in dim})
        for _, rows, selected in plan.selectors:
            self.users.update({rows, *selected})

    def result(self) -> Any:
        plan = self.plan
        live: dict[int, LabelledArray | int] = {}
        for k, array in enumerate(self.arrays):
            live[k] = self.scale(k, self.factor(array, plan.factors[k]))
        count = len(self.arrays)
        for k in range(len(plan.selectors)):
            live[count + k] = k
        for step, (i, j) in enumerate(plan.order, start=len(live)):
            a, b = live.pop(i), live.pop(j)
            if isinstance(a, int):
                a, b = b, a
            product = self.selected(a, b) if isinstance(b, int) else self.product(a, b)
            live[step] = self.scale(step, product)
        ((_, tensor),) = live.items()
        return self.spread(tensor)

    def factor(self, array: Any, dims: tuple[Indices, ...]) -> LabelledArray:
        """A tensor with one dimension for each of its indices that is needed elsewhere."""
        indices = [index for dim in dims for index in dim]
        array = reshaped(array, [self.plan.sizes[i] for i in indices])
        for index in {i for i in indices if indices.count(i) > 1}:
            axes = [k for k, i in enumerate(indices) if i == index]
            array = diagonal(array, axes)
            indices = [index, *(i for i in indices if i != index)]
        return self.release(LabelledArray(array, tuple(indices)))

    def release(self, tensor: LabelledArray) -> LabelledArray:
        """A tensor, which is counted as a user, summed over the indices that nobody else has."""
        self.users.subtract(tensor.labels)
        found = tensor.summed([i for i in tensor.labels if not self.users[i]])
        self.users.update(found.labels)
        return found

    def product(self, a: LabelledArray, b: LabelledArray) -> LabelledArray:
        self.users.subtract(a.labels)
        self.users.subtract(b.labels)
        both = [i for i in a.labels if i in b.labels]
        summed = [i for i in both if not self.users[i]]
        batch = [i for i in both if self.users[i]]
        free_a = [i for i in a.labels if i not in both]
        free_b = [i for i in b.labels if i not in both]
        if summed and (free_a or free_b):
            turned = (*batch, *free_b, *free_a)
            if free_a and free_b and turned == tuple(i for dim in self.plan.out for i in dim):
                # The dimensions come out in the order of the operands: no transpose this way.
                a, b = b, a
            # A sum that was none of a matrix product keeps all digits.
            exact = not self.plan.exact.isdisjoint(summed)
            precision = lax.Precision.HIGHEST if exact else self.plan.precision
            made = contracted(a, b, summed, precision, self.plan.preferred_element_type)
        else:
            labels, sizes = (*a.labels, *free_b), self.plan.sizes
            array = lax.mul(a.spread(labels, sizes), b.spread(labels, sizes))
            made = LabelledArray(array, labels).summed(summed)
        self.users.update(made.labels)
        return made

    def selected(self, tensor: LabelledArray, k: int) -> LabelledArray:
        """Rows of a tensor selected, picked, or added up."""
        spec, rows, selected = self.plan.selectors[k]
        self.users.subtract({rows, *selected})
        self.users.subtract(tensor.labels)
        if rows in tensor.labels and selected and set(selected) <= set(tensor.labels):
            others = tuple(i for i in tensor.labels if i not in (rows, *selected))
            array = tensor.spread((*selected, rows, *others), self.plan.sizes)
            array = spec.pick(array, len(selected), self.operands[k])
            indices = (*selected, *others)
        elif rows in tensor.labels:
            axis = tensor.labels.index(rows)
            sizes = [self.plan.sizes[i] for i in selected]
            array = spec.select(tensor.array, axis, sizes, self.operands[k])
            indices = (*tensor.labels[:axis], *selected, *tensor.labels[axis + 1 :])
        else:
            others = tuple(i for i in tensor.labels if i not in selected)
            array = tensor.spread((*selected, *others), self.plan.sizes)
            array = spec.add(array, len(selected), self.plan.sizes[rows], self.operands[k])
            indices = (rows, *others)
        self.users.update(indices)
        return self.release(LabelledArray(array, indices))

    def scale(self, k: int, tensor: LabelledArray) -> LabelledArray:
        """A tensor times the scalars, if it is the one that they are applied to."""
        plan = self.plan
        if k != plan.scaled:
            return tensor
        array = tensor.array
        for kind, scalar in zip(plan.scalars, self.scalars, strict=True):
            if kind == "neg":
                array = lax.neg(array)
            else:
                number = lax.broadcast_in_dim(reshaped(scalar, ()), array.shape, ())
                array = (lax.mul if kind == "mul" else lax.div)(array, number)
        if plan.times != 1:
            array = lax.mul(array, lax.full_like(array, _number(plan.times, plan.dtype)))
        return LabelledArray(array, tensor.labels)

    def spread(self, tensor: LabelledArray) -> Any:
        """The result: a tensor repeated along indices that no factor has, and zero where an index
        differs from itself."""
        plan = self.plan
        flat = [index for dim in plan.out for index in dim]
        sizes = [plan.sizes[i] for i in flat]
        array = tensor.spread(list(dict.fromkeys(flat)), self.plan.sizes)
        dims = [flat.index(i) for i in dict.fromkeys(flat)]
        if len(dims) < len(flat):
            array = lax.broadcast_in_dim(array, sizes, dims)
            for axis, index in enumerate(flat):
                if flat.index(index) != axis:
                    array = lax.select(
                        same_index(sizes, flat.index(index), axis), array, lax.full_like(array, 0)
                    )
        return reshaped(array, plan.shape)


def reshaped(array: Any, shape: Sequence[int]) -> Any:
    return array if array.shape == tuple(shape) else lax.reshape(array, shape)


def _number(times: int, dtype: Any) -> Any:
    """A count in a dtype, wrapped around as sums of integers are."""
    if np.dtype(dtype).kind not in "iu":
        return times
    return np.asarray(times % (1 << 8 * np.dtype(dtype).itemsize), np.uint64).astype(dtype)


def diagonal(array: Any, axes: Sequence[int]) -> Any:
    """The elements whose indices along some axes are equal; the common one comes first."""
    others = [k for k in range(array.ndim) if k not in axes]
    size = array.shape[axes[0]]
    array = lax.transpose(array, [*axes, *others])
    rest = array.shape[len(axes) :]
    # Along the axes the diagonal is every (1 + n + n^2 + ...)-th element.
    step = sum(size**k for k in range(len(axes)))
    flat = lax.reshape(array, [math.prod([size] * len(axes)), *rest])
    return lax.slice(flat, [0] * flat.ndim, flat.shape, [step, *[1] * len(rest)])


def same_index(shape: Sequence[int], first: int, second: int) -> jax.Array:
    """A mask of the elements of a shape at which two indices are equal."""
    i, j = (lax.broadcasted_iota(np.int32, shape, axis) for axis in (first, second))
    return lax.eq(i, j)
