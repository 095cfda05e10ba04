"""The index sets of an op's results, by rules for kinds of ops.

The ops are those of a derivative, so they are linear in the operands that depend on an input, and
the sets of a result are unions of sets of the operands.  Rules are tried in this order:

    values known          mul, select_n, dot_general: zeros of the other factor count
    movement              run on the numbers of the operand's elements, at each place that indices
                          may be, if these are few
    UPDATE                the operand passes; each update goes where the op's transpose reads
    windows               convolutions and pooling: index arithmetic
    elementwise           the union of the operands' sets, element by element
    an indexing map       the op repeats itself along loops, and mixes along all other dimensions
    anything else         every result depends on all that any operand depends on

The last rule is always right, so an unknown op makes a pattern dense, not wrong.
"""

from __future__ import annotations

import functools
import itertools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse

from jaxmlir.analysis.index_maps import Dims, maps_of
from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.dialect import op_signature
from jaxmlir.dialect.builder import window_sizes
from jaxmlir.dialect.ir import context
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import OPS, Trait, with_trait
from jaxmlir.interpret.interpreter import Node
from jaxmlir.sparse import bounds
from jaxmlir.sparse.bounds import Bounds
from jaxmlir.sparse.index_sets import Columns, Rows, reads
from jaxmlir.sparse.movement import MOVES


class Value(NamedTuple):
    """A value: the index sets of its elements, and the elements themselves if they are known.

    Attributes:
      rows: the index sets; ``None`` if the value depends on no input.
      known: computes the value, if it does not depend on the arguments.
      limits: computes bounds of a value that depends on the arguments; of floats, only zeros.
      terms: the values whose sum it is, see :func:`terms_of`; empty if only itself.
    """

    shape: tuple[int, ...]
    rows: Rows | None = None
    known: Callable[[], np.ndarray] | None = None
    limits: Callable[[], Bounds] | None = None
    terms: Terms = types.MappingProxyType({})

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def with_rows(self, rows: Rows | None) -> Value:
        """Another value that is known as far as this one, with its own index sets."""
        return self._replace(rows=rows, terms={})

    def bounds(self) -> Bounds:
        """The least and the greatest value of each element."""
        if self.known is not None:
            return bounds.exactly(self.known())
        return bounds.unknown(self.shape) if self.limits is None else self.limits()

    def nonzero(self) -> np.ndarray | None:
        """Which elements may be other than zero; ``None`` if no zero is known."""
        if self.known is not None:
            return np.asarray(self.known() != 0)
        if self.limits is None:
            return None
        low, high = self.limits()
        return (low != 0) | (high != 0)


Sets = list[Rows | None]
Terms = Mapping[int, "tuple[Value, Any]"]
"""Values of one shape, by their identity, with coefficients -1, 0 and 1 for each element."""


class LeafOp(NamedTuple):
    """An op without functions, with its operands, as rules take it."""

    columns: Columns
    node: Node
    operands: Sequence[Value]
    shapes: Sequence[tuple[int, ...]]
    program: Module

    @property
    def name(self) -> str:
        return self.node.name.removeprefix("jaxpr.")

    @property
    def bind(self) -> Callable[..., list[Any]]:
        """The op as a function of arrays."""
        return self.node.bind(self.program)

    @property
    def depending(self) -> list[int]:
        """The numbers of the operands that depend on an input."""
        return [i for i, x in enumerate(self.operands) if x.rows is not None]


def sets_of(leaf: LeafOp) -> Sets | None:
    """The sets of an op's results; ``None`` if no rule knows them.

    An empty array depends on nothing, so rules are not asked about it.
    """
    operands = [x._replace(rows=None) if 0 in x.shape else x for x in leaf.operands]
    leaf = leaf._replace(operands=operands)
    if not leaf.depending or all(0 in shape for shape in leaf.shapes):
        return [None] * len(leaf.shapes)
    for rule in _rules_of(leaf.name):
        sets = rule(leaf)
        if sets is not None:
            return sets
    return None


def dense(leaf: LeafOp) -> Sets:
    """The sets of results that depend on everything that any operand depends on."""
    columns, parts = leaf.columns, [leaf.operands[i].rows for i in leaf.depending]
    whole = columns.grouped(columns.joined(parts), np.zeros(sum(p.shape[0] for p in parts), int), 1)
    return [
        columns.take(whole, np.zeros(math.prod(shape), int)) if math.prod(shape) else None
        for shape in leaf.shapes
    ]


def numbers_of(shape: Sequence[int]) -> np.ndarray:
    """The flat numbers of a value's elements, as an array of its shape."""
    return np.arange(math.prod(shape)).reshape(shape)


# --- elementwise, and ops that return their operands ----------------------------------------------


def spread(columns: Columns, rows: Rows, have: Sequence[int], want: Sequence[int]) -> Rows:
    """The sets of an operand, broadcast to the shape of the result."""
    if tuple(have) == tuple(want):
        return rows
    numbers = numbers_of(have if len(have) == len(want) else (1,) * len(want))
    return columns.take(rows, np.broadcast_to(numbers, want))


def _where(columns: Columns, rows: Rows, mask: np.ndarray) -> Rows:
    mask = mask.reshape(-1)
    return rows if mask.all() else columns.take(rows, np.where(mask, np.arange(mask.size), -1))


def _elementwise(leaf: LeafOp, coefficients: Sequence[Any] | None = None) -> Sets:
    """The rule of elementwise ops; an operand is not read where its coefficient is zero."""
    (shape,), columns, sets = leaf.shapes, leaf.columns, []
    for i in leaf.depending:
        rows = spread(columns, leaf.operands[i].rows, leaf.operands[i].shape, shape)
        if coefficients is not None:
            rows = _where(columns, rows, np.broadcast_to(coefficients[i] != 0, shape))
        sets.append(rows)
    return [columns.united(sets)]


# d(x y) = y dx: no dependence where y is known to be 0
def _mul(leaf: LeafOp) -> Sets | None:
    if len(leaf.depending) != 1:
        return None
    nonzero = leaf.operands[1 - leaf.depending[0]].nonzero()
    return None if nonzero is None else _elementwise(leaf, [nonzero, nonzero])


# d(select(p, x, y)) = select(p, dx, dy)
def _select(leaf: LeafOp) -> Sets | None:
    coefficients = _coefficients_of_select(leaf)
    return None if coefficients is None else _elementwise(leaf, coefficients)


# x - select(p, x, 0) = select(p, 0, x)
def terms_of(leaf: LeafOp) -> tuple[Terms, bool]:
    """The result of an op as a sum of values, element by element, and whether terms were merged.

    Terms that are merged may cancel each other, e.g. where a triangle is taken from a matrix.
    """
    if not _COEFFICIENTS.keys() & {leaf.name}:
        return {}, False
    coefficients, terms, merged = _COEFFICIENTS[leaf.name](leaf), {}, False
    if coefficients is None:
        return {}, False
    for i in leaf.depending:
        x = leaf.operands[i]
        for key, (term, c) in (x.terms or {id(x): (x, 1)}).items():
            if term.shape != leaf.shapes[0]:
                return {}, False
            merged |= key in terms
            sum_of = terms[key][1] if key in terms else 0
            terms[key] = term, sum_of + coefficients[i] * c
    if len(terms) > _MOST_TERMS or any(np.max(np.abs(c)) > 1 for _, c in terms.values()):
        return {}, False
    return terms, merged


def sum_of(columns: Columns, terms: Terms) -> Rows | None:
    """The sets of a sum of values."""
    return columns.united(
        _where(columns, x.rows, np.broadcast_to(coefficient != 0, x.shape))
        for x, coefficient in terms.values()
    )


def _coefficients_of_select(leaf: LeafOp) -> list[Any] | None:
    """For each case, 1 where a ``select_n`` takes it; ``None`` if that is not known."""
    which, *cases = leaf.operands
    if which.known is None:
        return None
    # An index out of range selects the first or the last case.
    chosen = np.asarray(which.known()).astype(int).clip(0, len(cases) - 1)
    chosen = np.broadcast_to(chosen, leaf.shapes[0])
    return [0, *((chosen == i).astype(np.int8) for i in range(len(cases)))]


_MOST_TERMS = 8
_COEFFICIENTS: dict[str, Callable[[LeafOp], list[Any] | None]] = {
    "add": lambda leaf: [1, 1],
    "add_any": lambda leaf: [1, 1],
    "neg": lambda leaf: [-1],
    "select_n": _coefficients_of_select,
    "sub": lambda leaf: [1, -1],
}
"""The coefficients of the operands of linear ops whose results are sums of their operands."""


def _each(leaf: LeafOp) -> Sets | None:
    """The rule of ops whose results are their operands, in order."""
    if [x.shape for x in leaf.operands] != list(leaf.shapes):
        return None
    return [x.rows for x in leaf.operands]


# --- movement -------------------------------------------------------------------------------------


def _moved(leaf: LeafOp) -> Sets | None:
    """The rule of movements: the op is run on element numbers, -1 for operands without inputs.

    It is run once for each possible value of its indices.
    """
    record, arity = OPS[leaf.name], len(leaf.operands)
    indices = record.index_operands(arity)
    places = _places(leaf, jointly="jaxpr." + leaf.name in with_trait(Trait.UPDATE))
    if places is None:
        return None
    numbers, parts, start = [], [], 0
    for i, x in enumerate(leaf.operands):
        if i in indices:
            numbers.append(None)
        elif x.rows is None:
            numbers.append(np.full(x.shape, -1))
        else:
            numbers.append(numbers_of(x.shape) + start)
            parts.append(x.rows)
            start += x.size
    runs = []
    for place in places:
        for i, at in zip(indices, place, strict=True):
            numbers[i] = at
        move = MOVES.get(leaf.name, lambda node, operands: None)
        moved = move(leaf.node, numbers)
        if moved is None:
            moved = _run_on_numbers(leaf, numbers, indices, start)
        if moved is None:
            return None
        runs.append(moved)
    rows = leaf.columns.joined(parts)
    if len(runs) == 1:
        return [leaf.columns.take(rows, x) for x in runs[0]]
    return [_any_of(leaf.columns, rows, results) for results in zip(*runs, strict=True)]


def _any_of(columns: Columns, rows: Rows, results: Sequence[np.ndarray]) -> Rows:
    """The sets of results that may be any of several operand elements, one number for each run."""
    numbers = np.stack([x.reshape(-1) for x in results])
    run, element = np.nonzero(numbers >= 0)
    op = reads(element, numbers[run, element], numbers.shape[1], rows.shape[0])
    return columns.through(op, rows)


_MOST_PLACES = 64
"""All possible values of indices are tried if there are at most this many."""


def _places(leaf: LeafOp, *, jointly: bool) -> list[list[np.ndarray]] | None:
    """All possible values of the index operands of an op; ``None`` if these are not known.

    Args:
      jointly: whether a result can depend on several rows of indices, so that their combinations
        matter.  Otherwise each row takes all of its values, but not in all combinations.
    """
    indices = OPS[leaf.name].index_operands(len(leaf.operands))
    if all(leaf.operands[i].known is not None for i in indices):
        return [[leaf.operands[i].known() for i in indices]]
    last = _last_places(leaf)
    if last is None:
        return None
    # For each index, the least value, and the largest number of further values in any row.
    least, more = [], []
    for i, most in zip(indices, last, strict=True):
        low, high = (np.clip(x, 0, most) for x in leaf.operands[i].bounds())
        if jointly and low.size > len(most):
            return None
        least.append(low.astype(int))
        more.append(np.max((high - low).reshape(-1, len(most)), 0, initial=0).astype(int))
    counts = np.concatenate(more) + 1
    if math.prod(map(float, counts)) > _MOST_PLACES:
        return None
    places = []
    for offsets in itertools.product(*map(range, counts)):
        parts = np.split(np.array(offsets), np.cumsum([len(x) for x in more])[:-1])
        places.append(
            [
                np.minimum(low + part, most).reshape(leaf.operands[i].shape)
                for i, low, part, most in zip(indices, least, parts, last, strict=True)
            ]
        )
    return places


def _last_places(leaf: LeafOp) -> list[np.ndarray] | None:
    """For each index operand, the largest indices at which a window is within the operand.

    An index that is larger or negative is clamped, or nothing is read or written.
    """
    node, have = leaf.node, np.array(leaf.operands[0].shape, int)
    if leaf.name == "dynamic_slice":
        return [np.array([x]) for x in have - node.get("slice_sizes")]
    if leaf.name == "dynamic_update_slice":
        return [np.array([x]) for x in have - leaf.operands[1].shape]
    numbers = node.get("dimension_numbers")
    if leaf.name == "gather":
        dims, sizes = numbers.start_index_map, node.get("slice_sizes")
    elif leaf.name.startswith("scatter"):
        dims = numbers.scatter_dims_to_operand_dims
        update = leaf.operands[OPS[leaf.name].update].shape
        sizes = window_sizes(numbers, [update[d] for d in numbers.update_window_dims])
    else:
        return None
    return [(have - sizes)[list(dims)]]


# float32 represents all whole numbers up to here exactly.
_COUNTED_IN_F32 = 2**24


def _run_on_numbers(
    leaf: LeafOp, numbers: Sequence[np.ndarray], indices: Sequence[int], count: int
) -> list[np.ndarray] | None:
    if count >= _COUNTED_IN_F32:
        return None
    # Fill values are 0 or NaN, so numbers start at 1.
    args = [
        x if i in indices else (x + 1).astype(np.float32)
        for i, x in enumerate(map(np.asarray, numbers))
    ]
    outs = [np.nan_to_num(np.asarray(x), nan=0) for x in leaf.bind(*args)]
    return [np.where((x >= 1) & (x <= count), x, 0).astype(int) - 1 for x in outs]


# y = x, y[p] += u: an element of u goes where the transpose, a gather, reads it from
def _update(leaf: LeafOp) -> Sets:
    """The rule of updates: overwritten elements count as kept, which makes the pattern larger."""
    x, which = leaf.operands[0], OPS[leaf.name].update
    updates = leaf.operands[which]
    if updates.rows is None:
        return [x.rows]
    added = _scattered(leaf, x.shape, updates)
    if added is None:
        maps = _maps_of(leaf)
        of_update, of_result = (maps.operands[which], maps.results[0]) if maps else ((), ())
        added = _through_loops(leaf.columns, updates, of_update, of_result, x.shape)
    return [leaf.columns.united([x.rows, added])]


def _scattered(leaf: LeafOp, shape: tuple[int, ...], updates: Value) -> Rows | None:
    """The sets that updates add to the operand, at the places where they may go."""
    size, count = math.prod(shape), updates.size
    if not leaf.name.startswith("scatter") or size >= _COUNTED_IN_F32:
        return None
    places = _places(leaf, jointly=False)
    if places is None:
        return None
    options = {name: leaf.node.get(name) for name in ("dimension_numbers", "mode")}
    zeros, like = np.zeros(shape, np.float32), jax.ShapeDtypeStruct(updates.shape, np.float32)
    # The numbers start at 1, so that a dropped update reads 0.
    of_each = jax.numpy.asarray(numbers_of(shape) + 1, np.float32)
    to = []
    for (place,) in places:
        scatter = functools.partial(jax.lax.scatter_add, zeros, place, **options)
        transposed = jax.linear_transpose(scatter, like)
        to.append(np.asarray(transposed(of_each)[0]).reshape(-1).astype(int) - 1)
    places, sources = np.concatenate(to), np.tile(np.arange(count), len(to))
    inside = places >= 0
    op = reads(places[inside], sources[inside], size, count)
    return leaf.columns.through(op, updates.rows)


# --- ops along loops ------------------------------------------------------------------------------


def _maps_of(leaf: LeafOp) -> Any:
    with context():
        op = leaf.node.op
        return maps_of(op_signature.of_op(op, leaf.node.name, list(op.operands)))


def _along_loops(leaf: LeafOp) -> Sets | None:
    """The rule of ops with an indexing map."""
    maps = _maps_of(leaf)
    if maps is None:
        return None
    columns = leaf.columns
    return [
        columns.united(
            _through_loops(columns, leaf.operands[i], maps.operands[i], of_result, shape)
            for i in leaf.depending
        )
        for shape, of_result in zip(leaf.shapes, maps.results, strict=True)
    ]


def _through_loops(
    columns: Columns, x: Value, of_operand: Dims, of_result: Dims, shape: tuple[int, ...]
) -> Rows:
    """The sets of a result each of whose elements reads all operand elements that have the same
    index in the loops of both."""
    shared = [loop for loop in of_operand if loop is not None and loop in of_result]
    sizes = [x.shape[of_operand.index(loop)] for loop in shared]

    def groups(dims: Dims, of: tuple[int, ...]) -> np.ndarray:
        """For each element of a value, the flat number of its indices in the shared loops."""
        along = np.indices(of, sparse=True)
        places = [along[dims.index(loop)] for loop in shared]
        return np.broadcast_to(np.ravel_multi_index(places, sizes) if shared else 0, of)

    rows = columns.grouped(x.rows, groups(of_operand, x.shape), math.prod(sizes))
    return columns.take(rows, groups(of_result, shape))


# y[b,i,j] = sum_k u[b,i,k] v[b,k,j]: no dependence where v is known to be 0
def _dot_general(leaf: LeafOp) -> Sets | None:
    if len(leaf.depending) != 1:
        return None
    (i,) = leaf.depending
    x, factor = leaf.operands[i], leaf.operands[1 - i]
    maps = _maps_of(leaf)
    is_nonzero = factor.nonzero()
    if is_nonzero is not None and not is_nonzero.any():
        return [None]
    if is_nonzero is None or is_nonzero.all() or maps is None:
        return None
    of_factor, of_x, (of_result,) = maps.operands[1 - i], maps.operands[i], maps.results
    nonzero = np.nonzero(is_nonzero)
    free = [d for d in range(len(of_x)) if of_x[d] not in of_factor]
    repeated = [x.shape[d] for d in free]
    if math.prod(repeated) * nonzero[0].size > _MOST_READS:
        return None
    (shape,), whole = leaf.shapes, (nonzero[0].size, *repeated)
    number, *lines = np.indices(whole, sparse=True)
    at = {loop: index[number] for loop, index in zip(of_factor, nonzero, strict=True)}
    at |= {of_x[d]: line for d, line in zip(free, lines, strict=True)}

    def places(dims: Dims, of: tuple[int, ...]) -> np.ndarray:
        flat = np.ravel_multi_index([np.broadcast_to(at[d], whole) for d in dims], of) if of else 0
        return np.broadcast_to(flat, whole)

    op = reads(places(of_result, shape), places(of_x, x.shape), math.prod(shape), x.size)
    return [leaf.columns.through(op, x.rows)]


_MOST_READS = 30_000_000
"""The matrix of an op, from :func:`reads`, has at most this many elements."""


# y[i] = sum_{j <= i} x[j]
def _cumulative(leaf: LeafOp) -> Sets | None:
    (x,), axis = leaf.operands, leaf.node.get("axis")
    length = x.shape[axis]
    if x.size * (length + 1) > 2 * _MOST_READS:
        return None
    pairs = np.tril_indices(length)
    return _mixed(leaf, 0, axis, *(pairs[::-1] if leaf.node.get("reverse", False) else pairs))


# a y = x: y[i] depends on x[j] if a path of nonzero elements of a leads from i to j
def _triangular_solve(leaf: LeafOp) -> Sets | None:
    matrix, get = leaf.operands[0], leaf.node.get
    size = matrix.shape[-1]
    if leaf.depending != [1] or leaf.operands[1].size * size > _MOST_READS:
        return None
    triangle = np.tri(size, dtype=bool) if get("lower") else np.tri(size, dtype=bool).T
    nonzero = matrix.nonzero()
    if nonzero is not None:
        nonzero = nonzero.reshape(-1, size, size).any(0)
        paths = sparse.csr_matrix((triangle & nonzero) | np.eye(size, dtype=bool))
        while (further := paths @ paths).nnz != paths.nnz:
            paths = further
        triangle = paths.toarray()
    if get("transpose_a") == get("left_side"):
        triangle = triangle.T
    return _mixed(leaf, 1, -2 if get("left_side") else -1, *np.nonzero(triangle))


def _mixed(leaf: LeafOp, which: int, axis: int, i: np.ndarray, j: np.ndarray) -> Sets | None:
    """The sets of a result whose elements ``i`` along an axis read operand elements ``j``."""
    x = leaf.operands[which]
    if x.size // max(1, x.shape[axis]) * i.size > _MOST_READS:
        return None
    numbers = np.moveaxis(numbers_of(x.shape), axis, -1).reshape(-1, x.shape[axis])
    op = reads(numbers[:, i], numbers[:, j], x.size, x.size)
    return [leaf.columns.through(op, x.rows)]


# --- windows --------------------------------------------------------------------------------------


def _windows(
    have: int, want: int, size: int, stride: int, low: int, base: int, window: int
) -> np.ndarray:
    """The indices that each result reads along one dimension: ``[want, size]``, -1 for padding."""
    places = stride * np.arange(want)[:, None] + window * np.arange(size) - low
    inside = (places >= 0) & (places <= (have - 1) * base) & (places % base == 0)
    return np.where(inside, places // base, -1)


def _numbers_in_windows(
    leaf: LeafOp, have: Sequence[int], want: Sequence[int], window: Sequence[int], dilations: Any
) -> np.ndarray:
    """The elements that each result of an op reads: ``[*results, *taps]``, -1 for padding.

    Args:
      have, want, window: the sizes of the operand, of the result and of a window.
      dilations: the names of the attributes with the operand's and the window's dilation.
    """
    rank, get = len(have), leaf.node.get
    padding = [low for low, _ in get("padding")]
    strides, *spread = (get(a) or (1,) * rank for a in ("window_strides", *dilations))
    number, inside = np.zeros((1,) * (2 * rank), int), np.ones((1,) * (2 * rank), bool)
    for d, of_one in enumerate(zip(have, want, window, strides, padding, *spread, strict=True)):
        places, sizes = _windows(*of_one), [1] * (2 * rank)
        sizes[d], sizes[rank + d] = places.shape
        places = places.reshape(sizes)
        number, inside = number * have[d] + places, inside & (places >= 0)
    return np.where(inside, number, -1)


def _reads_of_windows(leaf: LeafOp, have: tuple[int, ...], want: tuple[int, ...]) -> Rows | None:
    """The elements of an array of shape ``have`` in the window of each element of one of shape
    ``want``; ``None`` if there are too many."""
    sizes = leaf.node.get("window_dimensions")
    if math.prod(want) * math.prod(sizes) > _MOST_READS:
        return None
    dilations = "base_dilation", "window_dilation"
    numbers = _numbers_in_windows(leaf, have, want, sizes, dilations).reshape(math.prod(want), -1)
    inside = np.nonzero(numbers >= 0)
    return reads(inside[0], numbers[inside], len(numbers), math.prod(have))


def _pooling(leaf: LeafOp) -> Sets | None:
    """The rule of window reductions; an initial value must not depend on an input."""
    have, columns = leaf.operands[0].shape, leaf.columns
    op = _reads_of_windows(leaf, have, leaf.shapes[0])
    if op is None or any(leaf.operands[i].shape != have for i in leaf.depending):
        return None
    sets = columns.united(columns.through(op, leaf.operands[i].rows) for i in leaf.depending)
    return [sets] * len(leaf.shapes)


# y[p(i)] += x[i], for some p(i) in i's window
def _scattered_windows(leaf: LeafOp) -> Sets | None:
    source = leaf.operands[0]
    op = _reads_of_windows(leaf, leaf.shapes[0], source.shape)
    if op is None or leaf.depending != [0]:
        return None
    return [leaf.columns.through(op.T.tocsr(), source.rows)]


# y[n,f,i] = sum_{c,a} x[n,c,i+a] w[f,c,a]
def _convolution(leaf: LeafOp) -> Sets | None:
    image, kernel = leaf.operands
    node, (shape,) = leaf.node, leaf.shapes
    spec = node.get("dimension_numbers")
    features = shape[spec.out_spec[1]]
    of_kernel = of_image = None
    if kernel.rows is not None:
        of_feature = _indices_along(spec.rhs_spec[0], kernel.shape)
        rows = leaf.columns.grouped(kernel.rows, of_feature, features)
        of_kernel = leaf.columns.take(rows, _indices_along(spec.out_spec[1], shape))
    if image.rows is not None:
        of_image = _through_kernel(leaf, spec)
        if of_image is None:
            return None
    return [leaf.columns.united([of_kernel, of_image])]


def _indices_along(d: int, shape: tuple[int, ...]) -> np.ndarray:
    """The index of each element of an array along a dimension."""
    return np.broadcast_to(np.indices(shape, sparse=True)[d], shape)


def _through_kernel(leaf: LeafOp, spec: Any) -> Rows | None:
    image, kernel = leaf.operands
    node, (shape,) = leaf.node, leaf.shapes
    # Groups of images, like those of channels, are for different features.
    batches = node.get("batch_group_count", 1)
    groups = batches * node.get("feature_group_count", 1)
    lhs, rhs, out = spec.lhs_spec, spec.rhs_spec, spec.out_spec
    sizes, outs = [
        [array_shape[d] for d in dims[2:]]
        for array_shape, dims in ((image.shape, lhs), (shape, out))
    ]
    taps = [kernel.shape[d] for d in rhs[2:]]
    images, features = shape[out[0]], shape[out[1]]
    channels = kernel.shape[rhs[1]]
    nonzero = kernel.nonzero()
    if nonzero is None:
        of_each = np.ones((groups, channels, math.prod(taps)), bool)
    else:
        of_each = np.transpose(nonzero, rhs).reshape(features, channels, -1)
        if of_each.all():
            of_each = of_each[:: features // groups]
    kinds = len(of_each)
    if images * math.prod(outs) * of_each.size > _MOST_READS:
        return None
    in_windows = _numbers_in_windows(leaf, sizes, outs, taps, ("lhs_dilation", "rhs_dilation"))
    in_windows = in_windows.reshape(math.prod(outs), -1)
    kind, channel, tap = np.nonzero(of_each)
    # In one image, results are numbered by kind and place, operands by channel and place.
    places = in_windows[:, tap]
    from_channel = (kind // (kinds // groups)) * channels + channel
    operands = from_channel * math.prod(sizes) + places
    results = kind * math.prod(outs) + np.arange(math.prod(outs))[:, None]
    results, operands = results[places >= 0], operands[places >= 0]
    n = np.arange(images)[:, None]
    op = reads(
        n * (kinds * math.prod(outs)) + results,
        n * (groups * channels * math.prod(sizes)) + operands,
        images * kinds * math.prod(outs),
        image.size,
    )
    columns, of_image = leaf.columns, numbers_of(image.shape).transpose(lhs)
    of_image = of_image.reshape(batches, images, -1).swapaxes(0, 1)
    rows = columns.through(op, columns.take(image.rows, of_image))
    numbers = np.arange(images * kinds * math.prod(outs)).reshape(images, kinds, *outs)
    numbers = np.repeat(numbers, features // kinds, axis=1)
    return columns.take(rows, numbers.transpose(np.argsort(out)))


SparsityRule = Callable[[LeafOp], "Sets | None"]

IDENTITIES = (
    *("optimization_barrier", "device_put", "reduce_precision", "sharding_constraint", "reshard"),
    *("layout_constraint", "name", "pvary", "pbroadcast", "copy"),
)
"""Ops whose results depend on their operands, in order, element by element."""
POOLING = ("reduce_window_sum", "reduce_window_max", "reduce_window_min", "select_and_gather_add")
"""Ops each of whose results depends on the operands' elements in one window."""

_RULES: dict[str, SparsityRule] = {
    "conv_general_dilated": _convolution,
    "dot_general": _dot_general,
    "mul": _mul,
    "select_and_scatter_add": _scattered_windows,
    "select_n": _select,
    "triangular_solve": _triangular_solve,
    **dict.fromkeys(POOLING, _pooling),
    **dict.fromkeys(IDENTITIES, _each),
}


@functools.cache
def _rules_of(name: str) -> tuple[SparsityRule, ...]:
    """The rules for an op, in the order in which they are tried."""
    full, rules = f"jaxpr.{name}", [_RULES[name]] if name in _RULES else []
    kinds = ((Trait.UPDATE, _update), (Trait.MOVEMENT, _moved), (Trait.CUMULATIVE, _cumulative))
    rules += [rule for trait, rule in kinds if full in with_trait(trait)]
    if full in with_trait(Trait.UPDATE, Trait.MOVEMENT):
        # Overwriting at known places is a movement; otherwise old and new elements are united.
        rules.reverse()
    if full in ELEMENTWISE:
        rules.append(_elementwise)
    return (*rules, _along_loops)
