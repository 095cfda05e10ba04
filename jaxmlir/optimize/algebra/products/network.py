"""A product as a network: its factors, and the indices that they share.

The ops of a product tree are read as an Einstein sum.  A matrix product sums over an index of two
factors; a transpose, a reshape or a broadcast says which index a dimension runs over; a sum leaves
one out; an elementwise product runs over the same indices twice; a mask of the diagonal makes two
indices one.  Factors without indices are scalars.  What is left has no order of evaluation::

    trace(A @ (s * B)^T)     ->     s A[i,k] B[i,k], summed over i and k

Rows that a gather or a slice selects are a factor too, a matrix with one 1 in each row
(:mod:`.selectors`), where these are asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxmlir._compat import core, dtypes
from jaxmlir.analysis.function_view import OpView, counts_along, number_of, numbers_rows
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors import wiring_of

# -- Indices of a product: what its dimensions run over --
#
# A dimension of a tensor is a sequence of indices in row-major order: usually one, none if its size
# is 1, several after a reshape that merged dimensions.  Where two dimensions have to run together
# (a contraction, an elementwise product), their indices become the same ones, :func:`unify`; an
# index that meets two smaller ones is split into these.


class Unfit(Exception):
    """Dimensions that no sequences of indices describe."""


class Index:
    """An index of an Einstein sum, which runs from 0 to ``size`` in several tensors at once.

    Attributes:
      parts: the indices that it has become: another one, or those that it was split into.
      solid: whether it must not be split, as a gather reads it as one number.
      exact: whether a sum ran over it that was not part of a matrix product.
    """

    __slots__ = ("exact", "parts", "size", "solid")

    def __init__(self, size: int, solid: bool = False):
        self.size: int = size
        self.parts: tuple[Index, ...] = ()
        self.solid: bool = solid
        self.exact: bool = False

    def become(self, *parts: Index) -> None:
        self.parts = parts
        for part in parts:
            part.solid |= self.solid
            part.exact |= self.exact


Dims = list[list[Index]]
"""The dimensions of a tensor."""


def fresh(shape: Sequence[int]) -> Dims:
    """Dimensions of a shape with indices of their own."""
    return [[Index(size)] if size != 1 else [] for size in shape]


def resolve(indices: Iterable[Index]) -> list[Index]:
    """The indices that a sequence has become."""
    found: list[Index] = []
    for index in indices:
        if not index.parts:
            # As most have become nothing else.
            found.append(index)
            continue
        pending = [*reversed(index.parts)]
        while pending:
            part = pending.pop()
            if part.parts:
                pending += reversed(part.parts)
            else:
                found.append(part)
    return found


def size_of(indices: Iterable[Index]) -> int:
    return math.prod([index.size for index in indices])


def unify(a: Iterable[Index], b: Iterable[Index]) -> None:
    """Makes two sequences of indices the same.

    Raises:
      Unfit: one cannot be split as the other is.  Nothing has changed then.
    """
    left, right = resolve(a), resolve(b)
    if len(left) == len(right) == 1 and left[0].size == right[0].size:
        # As most are.
        if left[0] is not right[0]:
            right[0].become(left[0])
        return
    if not _fit(left, right):
        raise Unfit
    while left and right:
        # An index that occurs twice may have been split meanwhile.
        left[:1], right[:1] = resolve(left[:1]), resolve(right[:1])
        x, y = left.pop(0), right.pop(0)
        if x is y:
            continue
        if x.size == y.size:
            y.become(x)
        elif x.size < y.size:
            right.insert(0, _split(y, x))
        else:
            left.insert(0, _split(x, y))


def _split(whole: Index, first: Index) -> Index:
    """Splits an index into one that is known and the rest, which it returns."""
    rest = Index(whole.size // first.size)
    whole.become(first, rest)
    return rest


def _fit(left: Sequence[Index], right: Sequence[Index]) -> bool:
    """Whether the one sequence can be split as the other."""
    if left == right:
        return True
    if len({*left, *right}) < len(left) + len(right):
        # To split an index here would split it there as well.
        return [x.size for x in left] == [y.size for y in right]
    a = [(x.size, x.solid) for x in left]
    b = [(y.size, y.solid) for y in right]
    while a and b:
        (m, m_solid), (n, n_solid) = a.pop(0), b.pop(0)
        if m == n:
            continue
        if m > n:
            a, b, m, m_solid, n, n_solid = b, a, n, n_solid, m, m_solid
        if n_solid or n % m:
            return False
        b.insert(0, (n // m, False))
    return not a and not b


class Factor(NamedTuple):
    """A tensor of the product."""

    value: Node
    dims: Dims


class Spec:
    """A way to select rows of arrays, and its transpose.

    Attributes:
      operands: how many values it takes: indices.
      transposable: whether rows may be added up where they were to be selected.
      picks: whether there is :meth:`pick`.
    """

    operands = 0
    transposable = True
    picks = False

    def select(self, array: Any, axis: int, sizes: Sequence[int], operands: Sequence[Any]) -> Any:
        """The rows selected along an axis, which dimensions of some sizes take the place of."""
        raise NotImplementedError

    def add(self, array: Any, count: int, rows: int, operands: Sequence[Any]) -> Any:
        """Zeros of so many rows, to which those of the array are added; they are its first
        ``count`` dimensions."""
        raise NotImplementedError

    def pick(self, array: Any, count: int, operands: Sequence[Any]) -> Any:
        """The row of each index of the first ``count`` dimensions, out of those along the next."""
        raise NotImplementedError


class Selector(NamedTuple):
    """A selector in a network."""

    spec: Spec
    operands: tuple[Node, ...]
    rows: Index
    selected: Sequence[Index]


@dataclass(eq=False, slots=True)
class Term:
    """A value as a product.

    Attributes:
      dims: what its dimensions run over; an index that occurs twice says that the value is zero
        where the two differ.
      factors: of which none is a scalar.
      selectors: matrices that select rows.
      scalars: ``("mul" | "div", value)`` or ``("neg", None)``, in the order in which they apply.
      made: indices of broadcasts; those that no factor has are summed by counting.
    """

    dims: Dims
    factors: list[Factor] = field(default_factory=list)
    selectors: list[Selector] = field(default_factory=list)
    scalars: list[tuple[str, Node | None]] = field(default_factory=list)
    made: list[Index] = field(default_factory=list)

    def absorb(self, other: Term) -> None:
        """Takes over the factors of another term."""
        self.factors += other.factors
        self.selectors += other.selectors
        self.scalars += other.scalars
        self.made += other.made


class Node(OpView):
    """A value, with the op that gives it if that is one that is looked at; else it has no name.

    So that a value is found by its place in memory, and its shape with it: to hash values and types
    of the bindings, and to compare them, is most of what reading products would cost.

    Attributes:
      type, shape: of the value.
      dtype: of products and their parts; ``None`` if the type is not plain (:func:`is_plain`).
      rule: how the op is read, if it is.
      parts: the operands that are parts of the product, if it is read as one.
      users: where the value of an op that is looked at is used: the results of products that it is
        a part of, and ``None`` for every other use.
      fixed: in how many iterations it is the same, if it is an argument of a loop's body that is.
    """

    __slots__ = ("_value", "dtype", "fixed", "parts", "rule", "shape", "type", "users")

    def __init__(
        self,
        type_: ir.Type,
        value: ir.Value | None,
        op: Any = None,
        name: str = "",
        operands: tuple[Node, ...] = (),
        attributes: dict[str, ir.Attribute] | None = None,
    ):
        """
        Args:
          value: ``None`` of an op that is written when its value is asked for.
          attributes: by default those of ``op``, read when they are asked for.
        """
        self.op = op
        self.name = name
        self.operands = operands
        if attributes is not None:
            self.attributes = attributes
        self._value = value
        self.type: Any = type_
        shape, dtype = _kind_of(type_)
        self.shape: tuple[int, ...] = shape
        self.dtype: Any = dtype
        self.rule: Rule | None = None
        self.parts: tuple[Node, ...] | None = None
        self.users: list[Node | None] = []
        self.fixed: int | None = None

    @property
    def value(self) -> ir.Value:
        """The value in the program, or what has taken its place; if it is not there yet, it is
        written at the insertion point."""
        if self._value is None:
            operands = [operand.value for operand in self.operands]
            self._value = ir.Operation.create(
                self.name, [self.type], operands, self.attributes
            ).result
        return self._value

    def replace(self, value: ir.Value) -> None:
        """Puts another value in the place of this one."""
        if self._value is not None:
            self._value.replace_all_uses_with(value)
        self._value = value


class Rule(NamedTuple):
    """The way in which ops of one name are read.

    Attributes:
      operands: which operands are parts of the product, none of them if it is made of nothing;
        ``None`` if the op is not read.
      read: the term of the op, of those of these operands; raises
        :class:`Unfit` where it has none.
      free: whether computing the op again costs next to nothing, as it is fused into its users.
      contracts: whether it sums products, so that their order can matter.
      has_others: whether its term has values besides those of its operands that are parts.
    """

    operands: Callable[[Node], tuple[int, ...] | None]
    read: Callable[[Node, list[Term]], Term]
    free: bool = False
    contracts: bool = False
    has_others: bool = False


def leaf(value: Node) -> Term:
    """A value as a product of itself."""
    dims = fresh(value.shape)
    if not any(dims):
        return Term(dims, scalars=[("mul", value)])
    return Term(list(dims), [Factor(value, dims)])


def is_plain(type_: ir.Type) -> bool:
    """Whether a type is a tensor of numbers on one device, with sizes known and none of them 0.

    Products of ``float16`` and narrower are left alone: in another order they may overflow.
    """
    return _kind_of(type_)[1] is not None


def shape_of(type_: ir.Type) -> tuple[int, ...]:
    return _kind_of(type_)[0]


@functools.cache
def _kind_of(type_: ir.Type) -> tuple[tuple[int, ...], Any]:
    """The shape, and the dtype if a type is plain."""
    aval = aval_of(type_)
    plain = (
        type(aval) is core.ShapedArray
        and not isinstance(aval.dtype, dtypes.ExtendedDType)
        and _is_wide(aval.dtype)
        and all(type(d) is int and d > 0 for d in aval.shape)
        and aval.sharding.mesh.empty
        and not getattr(aval, "vma", None)
        and not dict_has(type_, "memory_space")
    )
    return getattr(aval, "shape", ()), aval.dtype if plain else None


def _is_wide(dtype: Any) -> bool:
    if dtypes.issubdtype(dtype, dtypes.np.floating):
        return dtypes.finfo(dtype).maxexp >= 128
    return dtype.kind in "iuc" or dtypes.issubdtype(dtype, dtypes.np.complexfloating)


def dict_has(type_: ir.Type, key: str) -> bool:
    """Whether a tensor type's encoding has a key."""
    encoding = getattr(ir.RankedTensorType(type_), "encoding", None)
    return isinstance(encoding, ir.DictAttr) and key in encoding


# --- the ops --------------------------------------------------------------------------------------


def _first(node: Node) -> tuple[int, ...]:
    return (0,)


def _wired_operands(node: Node) -> tuple[int, ...] | None:
    """All operands, if nothing is asked of the result but to have their elements."""
    preferred = node.get("preferred_element_type")
    if {"sharding", "out_sharding"} & node.attributes.keys() or preferred not in (None, node.dtype):
        return None
    return tuple(range(len(node.operands)))


def _wired(node: Node, terms: list[Term]) -> Term:
    """The product of some terms, by the op's wiring: each of its labels becomes what the dimensions
    that have it run over."""
    shapes = [operand.shape for operand in node.operands]
    wiring = wiring_of(node.name, node.get, shapes, node.shape)
    if wiring is None:
        raise Unfit
    known: dict[int, list[Index]] = {}
    whole, *others = terms
    for term, dims in zip(terms, wiring.operands, strict=True):
        for indices, labels in zip(term.dims, dims, strict=True):
            if len(labels) > 1:
                parts = [Index(wiring.sizes[label]) for label in labels]
                unify(indices, parts)
                known |= {label: [part] for label, part in zip(labels, parts, strict=True)}
            elif labels and labels[0] in known:
                unify(known[labels[0]], indices)
            elif labels:
                known[labels[0]] = indices
    for other in others:
        whole.absorb(other)
    for label in wiring.sizes.keys() - known.keys():
        known[label] = [Index(wiring.sizes[label])]
        whole.made += known[label]
    whole.dims = [[i for label in labels for i in known[label]] for labels in wiring.result]
    if node.name == "jaxpr.reduce_sum":
        for index in resolve([i for label in wiring.summed for i in known[label]]):
            index.exact = True
    return whole


def _neg(node: Node, terms: list[Term]) -> Term:
    terms[0].scalars.append(("neg", None))
    return terms[0]


def _divided(node: Node) -> tuple[int, ...] | None:
    """Quotients of floats by one number; those of integers round."""
    whole = node.dtype.kind in "iu"
    return None if whole or scalar_of(node.operands[1]) is None else (0,)


def _div(node: Node, terms: list[Term]) -> Term:
    terms[0].scalars.append(("div", scalar_of(node.operands[1])))
    return terms[0]


def scalar_of(value: Node) -> Node | None:
    """The one number that every element of a value is, as a value of one element."""
    while True:
        if not any(size != 1 for size in value.shape):
            return value
        if value.name != "jaxpr.broadcast_in_dim" or len(value.operands) != 1:
            return None
        value = value.operands[0]


def convert_operands(node: Node) -> tuple[int, ...] | None:
    """Conversions between weak and strong types, and the identity matrix as numbers."""
    (x,) = node.operands
    if "sharding" in node.attributes:
        return None
    if is_diagonal(x):
        return ()
    return (0,) if x.dtype is not None else None


# Pattern: convert(i == j)[i,j] = 1 on the diagonal
def convert(node: Node, terms: list[Term]) -> Term:
    if terms:
        return terms[0]
    (size, _) = node.shape
    index = Index(size)
    return Term([[index], [index]], made=[index])


# Pattern: select_n(i == j, 0, x)[i,j] = x[i,i] on the diagonal
def _diagonal_operands(node: Node) -> tuple[int, ...] | None:
    mask, *cases = node.operands
    if len(cases) != 2 or not is_diagonal(mask) or not is_zero(cases[0]):
        return None
    return (2,)


def _diagonal(node: Node, terms: list[Term]) -> Term:
    (term,) = terms
    if len(term.dims) != 2:
        raise Unfit
    unify(*term.dims)
    return term


# Pattern: gather(x, (i, i))[i] = x[i,i]
def _picked_operands(node: Node) -> tuple[int, ...] | None:
    numbers, shape = node.get("dimension_numbers"), node.operands[0].shape
    ok = (
        len(shape) == 2
        and shape[0] == shape[1]
        and node.operands[1].shape == (shape[0], 2)
        and set(numbers.start_index_map) == {0, 1}
        and len(numbers.collapsed_slice_dims) == 2
        and _are_row_numbers(node.operands[1])
    )
    return (0,) if ok else None


def _picked(node: Node, terms: list[Term]) -> Term:
    term = _diagonal(node, terms)
    term.dims = term.dims[:1]
    return term


def _are_row_numbers(pairs: Node) -> bool:
    """Whether the rows of an array are (0, 0), (1, 1) ..."""
    if pairs.name != "jaxpr.concatenate" or pairs.get("dimension") != 1:
        return False
    for column in pairs.operands:
        if column.name == "jaxpr.reshape":
            (source,) = column.operands
            if source.shape != column.shape[:1]:
                return False
            column = source
        if counts_along(column, itself) != 0:
            return False
    return True


def itself(node: Node) -> Node:
    """The op that gives a value, for who asks for it by the value."""
    return node


def is_diagonal(mask: Node) -> bool:
    """Whether a value is ``i == j`` of a square matrix, which has more than one element."""
    return mask.name == "jaxpr.eq" and number_both(mask.operands, mask.shape)


def number_both(sides: Sequence[OpView | None], shape: Sequence[int]) -> bool:
    """Whether of two values one numbers the rows of a square matrix and the other its columns, of
    which there are several."""
    if len({*shape}) != 1 or shape[0] == 1 or not all(map(numbers_rows, sides)):
        return False
    dims = [side.get("dimension") for side in sides]
    # A value of size 1 along its dimension repeats its zero.
    are_whole = all(s.get("shape")[d] == shape[0] for s, d in zip(sides, dims, strict=True))
    return len(shape) == 2 and {*dims} == {0, 1} and are_whole


def is_mask(node: Node) -> bool:
    """Whether an op makes numbers of a mask: an identity matrix, or one with a 1 in each row."""
    is_conversion = node.name == "jaxpr.convert_element_type"
    return is_conversion and aval_of(node.operands[0].type).dtype == bool


def is_zero(value: Node) -> bool:
    """Whether every element of a value is the constant 0."""
    return number_of(value, itself) == 0


RULES: dict[str, Rule] = {
    "jaxpr.dot_general": Rule(_wired_operands, _wired, contracts=True),
    "jaxpr.mul": Rule(_wired_operands, _wired),
    "jaxpr.neg": Rule(_first, _neg, free=True),
    "jaxpr.transpose": Rule(_wired_operands, _wired, free=True),
    "jaxpr.reshape": Rule(_wired_operands, _wired, free=True),
    "jaxpr.squeeze": Rule(_wired_operands, _wired, free=True),
    "jaxpr.broadcast_in_dim": Rule(_wired_operands, _wired, free=True),
    "jaxpr.reduce_sum": Rule(_wired_operands, _wired, contracts=True),
    "jaxpr.convert_element_type": Rule(convert_operands, convert, free=True),
    "jaxpr.div": Rule(_divided, _div, free=True, has_others=True),
    "jaxpr.select_n": Rule(_diagonal_operands, _diagonal, contracts=True),
    "jaxpr.gather": Rule(_picked_operands, _picked, contracts=True),
}
"""The rules of the ops that products are read from, by name."""

LOOKED_AT = frozenset({"jaxpr.concatenate", "jaxpr.constant", "jaxpr.eq", "jaxpr.iota"})
"""Other ops, which tell what these mean."""
