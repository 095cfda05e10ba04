"""Finds the log-sum-exps of a loop body, and decides which are worth a product."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView, OpView, node_of, number_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.op_counts import Work, elements, is_plain_signature
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import only_user
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import Trait, with_trait
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.algebra.labelled_tensors.writing import LabelledArray, contracted

# -- A log-sum-exp of terms, and its computation by a product --


_SCALINGS: dict[str, Callable[..., Any]] = {"neg": lax.neg, "mul": lax.mul, "div": lax.div}

# The operands by their numbers.
Args = Sequence[Any] | Mapping[int, Any]


class LogSumExpTerm(NamedTuple):
    """A term of a sum, by the numbers of operands."""

    value: int
    dims: tuple[int, ...]
    """The dimensions of the sum that it has."""
    scalings: tuple[tuple[str, tuple[int, ...]], ...]
    """The functions applied to it, each with the numbers of other operands; the innermost first."""

    def of(self, args: Args, ndim: int) -> Any:
        """The term as an array of ``ndim`` dimensions, of size 1 along those that it lacks."""
        x = args[self.value]
        shape = [1] * ndim
        for d, size in zip(self.dims, x.shape, strict=True):
            shape[d] = size
        x = lax.broadcast_in_dim(x, shape, self.dims)
        for name, numbers in self.scalings:
            x = _SCALINGS[name](x, *(lax.full_like(x, lax.reshape(args[i], ())) for i in numbers))
        return x


class LogSumExp(NamedTuple):
    """The logarithm of the sum of the exponentials of a sum of terms; hashable.

    Attributes:
      shape: the shape of the sum of the terms.
      axes: the axes over which the exponentials are summed.
      guarded: whether an infinite maximum is not subtracted.
      outer: the terms that are constant along ``axes``, and not loop-invariant.
      inner: the other terms that are not loop-invariant.
      inner_size: the number of elements of the sum of these.
      constant: the loop-invariant terms.
      out: the shape of the result.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    guarded: bool
    outer: tuple[LogSumExpTerm, ...]
    inner: tuple[LogSumExpTerm, ...]
    inner_size: int
    constant: tuple[LogSumExpTerm, ...]
    out: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of exponentials that are summed up."""
        return math.prod(self.shape)

    @property
    def constants(self) -> tuple[int, ...]:
        """The numbers of the operands of the constant terms."""
        numbers = (
            n
            for t in self.constant
            for n in (t.value, *(i for _, args in t.scalings for i in args))
        )
        return tuple(dict.fromkeys(numbers))

    def __call__(self, *args: Any) -> list[Any]:
        """The result."""
        b, x = self._total(self.constant, args), self._total(self.inner, args)
        r, m = self._greatest(b), self._greatest(x)
        if self.guarded:
            m = lax.select(lax.is_finite(m), m, lax.full_like(m, 0))
        log = jnp.log(self._product(jnp.exp(x - m), jnp.exp(b - r)))
        shift = m + r
        if self.outer:
            shift = shift + self._total(self.outer, args)
        shape = [1 if d in self.axes else size for d, size in enumerate(self.shape)]
        return [jnp.reshape(jnp.broadcast_to(shift + log, shape), self.out)]

    def near(self, *constants: Any) -> list[Any]:
        """Whether the constant terms are close enough to one another to use a product.

        Args:
          constants: the operands of the constant terms.
        """
        b = self._total(self.constant, dict(zip(self.constants, constants, strict=True)))
        b = b - self._greatest(b)
        return [jnp.min(lax.stop_gradient(b)) >= _least(b.dtype)]

    def _total(self, terms: Sequence[LogSumExpTerm], args: Args) -> Any:
        return reduce(jnp.add, (term.of(args, len(self.shape)) for term in terms))

    def _greatest(self, x: Any) -> Any:
        return jnp.max(lax.stop_gradient(x), self.axes, keepdims=True)

    def _product(self, *factors: Any) -> Any:
        """The sum over the axes of the products of two arrays, of size 1 along dimensions that
        neither has."""
        a, b = map(_labelled, factors)
        # Axes that only one of them has are summed over first.
        a, b = (x.summed(set(self.axes).difference(y.labels)) for x, y in ((a, b), (b, a)))
        # By default some platforms would round the exponentials to fewer bits.
        product = contracted(a, b, self.axes, lax.Precision.HIGHEST, a.array.dtype)
        out = sorted(product.labels)
        array = product.spread(out, self.shape)
        # A sum over axes that neither has is a multiplication by their sizes.
        used = {d for x in factors for d, size in enumerate(x.shape) if size > 1}
        times = math.prod(self.shape[d] for d in self.axes if d not in used)
        if times != 1:
            array = array * times
        return lax.reshape(array, [n if d in out else 1 for d, n in enumerate(self.shape)])


def _least(dtype: Any) -> float:
    """The minimum of the logarithm of a factor of a product."""
    # Four derivatives divide by the fourth power of a sum, which should be a normal number.
    return math.log(dtypes.finfo(dtype).tiny) / 4


def is_near(index: ir.Value) -> bool:
    """Whether the index of a branch is computed by :meth:`LogSumExp.near`."""
    node = node_of(index)
    while node is not None and node.name in ("jaxpr.and", "jaxpr.convert_element_type"):
        node = node_of(node.operands[0])
    if node is None or node.name != "jaxpr.ge":
        return False
    smallest = node_of(node.operands[0])
    if smallest is None or smallest.name != "jaxpr.reduce_min":
        return False
    dtype = aval_of(smallest.operands[0].type).dtype
    return bool(number_of(node.operands[1]) == np.asarray(_least(dtype), dtype))


def _labelled(x: Any) -> LabelledArray:
    """An array without its dimensions of size 1, labelled by the numbers of the others."""
    dims = [d for d, size in enumerate(x.shape) if size > 1]
    return LabelledArray(lax.reshape(x, [x.shape[d] for d in dims]), tuple(dims))


NEEDED = frozenset({"jaxpr.exp", "jaxpr.log", "jaxpr.reduce_max", "jaxpr.reduce_sum"})
"""The names of ops that every log-sum-exp contains."""

_SAME = FUSIBLE | {"jaxpr.constant"}
_RESHAPES = with_trait(Trait.RESHAPE) | {"jaxpr.broadcast_in_dim"}
_ABS = frozenset({"jaxpr.abs"})

# Sums are flattened into at most this many terms.
MAX_TERMS = 16

# The functions applied to a value to give a term, each with the values of further operands.
_Scalings = tuple[tuple[str, tuple[int, ...]], ...]


class LogSumExpMatch(NamedTuple):
    """A log-sum-exp in a body; ops and values by number.

    Attributes:
      op: the op that computes it.
      operands: the values that it is computed from.
      steps: the ops that add up its terms, subtract the maximum, and sum up the exponentials.
      sum: the log-sum-exp in terms of the operands.
    """

    op: int
    operands: tuple[int, ...]
    steps: tuple[int, ...]
    sum: LogSumExp


class _Maximum(NamedTuple):
    """A maximum that is subtracted so that nothing overflows.

    Attributes:
      guarded: whether it is replaced by zero where the maximum is not finite.
      stopped: whether it has a ``stop_gradient``.
    """

    guarded: bool
    stopped: bool


class LogSumExpReader:
    """Finds the log-sum-exps of a body.

    Args:
      num_consts: the number of its leading arguments that are loop-invariant.
    """

    def __init__(self, body: FunctionView, num_consts: int):
        self.body = body
        self._same = same = set(range(num_consts))
        for index, name in enumerate(body.names):
            if name in _SAME and same.issuperset(body.operands[index]) and self._is_plain(index):
                same.update(range(*body.results[index]))

    def found(self) -> list[LogSumExpMatch]:
        """The log-sum-exps with loop-invariant terms, in order."""
        body = self.body
        sums = [index for index, name in enumerate(body.names) if name == "jaxpr.add"]
        candidates = (
            self._read(index, *pair) for index in sums for pair in _both_ways(body.operands[index])
        )
        return [f for f in candidates if f is not None]

    def _read(self, index: int, log: int, shift: int) -> LogSumExpMatch | None:
        """``log(sum(exp(terms - shift))) + shift``."""
        names, operands = self.body.names, self.body.operands
        log_op = self._op(log, "jaxpr.log")
        if log_op is None or not self._is_plain(index):
            return None
        total = self._behind(operands[log_op][0], _ABS)
        if total is None or names[total] != "jaxpr.reduce_sum":
            return None
        exp = self._op(operands[total][0], "jaxpr.exp")
        sub = None if exp is None else self._op(operands[exp][0], "jaxpr.sub")
        if sub is None or not self._is_plain(sub):
            return None
        if not (self._is_used_once(exp) and self._is_used_once(sub)):
            return None
        terms, subtracted = operands[sub]
        shape, axes = self._shape(terms), self._get(total, "axes")
        shifted = tuple(1 if d in axes else size for d, size in enumerate(shape))
        if aval_of(self.body.types[terms]).dtype not in (np.float32, np.float64):
            return None
        if self._shape(subtracted) != shifted or self._shape(log) != self._shape(shift):
            return None
        maximum = self._maximum(shift, terms, axes)
        # The derivatives of the two maxima cancel; one with and one without a derivative would not.
        if maximum is None or self._maximum(subtracted, terms, axes) != maximum:
            return None
        return self._of_terms(index, terms, (sub, exp, total), axes, maximum.guarded)

    def _op(self, value: int, name: str) -> int | None:
        """The op that defines a value, if it has that name and the default accuracy."""
        index = self.body.makers[value]
        matches = (
            index is not None
            and self.body.names[index] == name
            and "accuracy" not in self.body.signatures[index].named
        )
        return index if matches else None

    def _behind(self, value: int, names: frozenset[str] = frozenset()) -> int | None:
        """The op that defines a value, looking through reshapes and ops of some names."""
        body = self.body
        index = body.makers[value]
        while index is not None and (body.names[index] in names or self._is_reshape(index)):
            index = body.makers[body.operands[index][0]]
        return index

    def _maximum(self, value: int, terms: int, axes: tuple[int, ...]) -> _Maximum | None:
        """A value as the maximum of the terms; ``None`` if it is none."""
        names, operands = self.body.names, self.body.operands
        guarded = stopped = False
        scalings: list[tuple[str, int]] = []
        while (index := self._behind(value)) is not None:
            match names[index].removeprefix("jaxpr."):
                case "stop_gradient":
                    stopped = True
                    (value,) = operands[index]
                case "select_n" if not guarded and len(operands[index]) == 3:
                    is_finite, zero, value = operands[index]
                    test = self._op(is_finite, "jaxpr.is_finite")
                    if test is None or operands[test][0] != value or not self._is(zero, 0):
                        return None
                    guarded = True
                case "max":
                    others = [v for v in operands[index] if not self._is(v, -math.inf)]
                    if len(others) != 1:
                        return None
                    (value,) = others
                # max(x) / c = max(x / c) where c > 0
                case "div" | "mul" if self._is_positive(operands[index][1]):
                    value, factor = operands[index]
                    scalings.append((names[index], factor))
                case "reduce_max":
                    break
                case _:
                    return None
        if index is None or {*self._get(index, "axes")} != {*axes}:
            return None
        (source,) = operands[index]
        inner = self._op(source, "jaxpr.stop_gradient")
        if inner is not None:
            stopped = True
            (source,) = operands[inner]
        for name, factor in scalings:
            scaled = self._op(terms, name)
            if scaled is None or operands[scaled][1] != factor:
                return None
            terms = operands[scaled][0]
        return _Maximum(guarded, stopped) if source == terms else None

    def _of_terms(
        self, index: int, terms: int, then: Sequence[int], axes: tuple[int, ...], guarded: bool
    ) -> LogSumExpMatch | None:
        shape = self._shape(terms)
        operands: dict[int, int] = {}
        kinds: dict[str, list[LogSumExpTerm]] = {"outer": [], "inner": [], "constant": []}
        inner_dims: set[int] = set()
        steps: list[int] = []
        for value, scalings in self._terms(terms, steps):
            source, dims = self._narrow(value)
            sizes = zip(dims, self._shape(source), strict=True)
            spanned = {d for d, size in sizes if size > 1}
            if value in self._same:
                kind = "constant"
            elif spanned.isdisjoint(axes):
                kind = "outer"
            else:
                kind = "inner"
                inner_dims |= spanned
            values = (source, *(v for _, numbers in scalings for v in numbers))
            for v in values:
                operands.setdefault(v, len(operands))
            numbered = tuple((name, tuple(operands[v] for v in vs)) for name, vs in scalings)
            kinds[kind].append(LogSumExpTerm(operands[source], dims, numbered))
        if not kinds["constant"] or not kinds["inner"]:
            return None
        log_sum_exp = LogSumExp(
            shape=shape,
            axes=axes,
            guarded=guarded,
            inner_size=math.prod(shape[d] for d in inner_dims),
            out=self._shape(self.body.results[index][0]),
            **{kind: tuple(members) for kind, members in kinds.items()},
        )
        return LogSumExpMatch(index, tuple(operands), (*dict.fromkeys(steps), *then), log_sum_exp)

    def _terms(self, total: int, steps: list[int]) -> list[tuple[int, _Scalings]]:
        """The terms that add up to a value, each as a value and the functions applied to it.

        Args:
          steps: the list to which the ops that add them up are appended, operands first.
        """
        terms: list[tuple[int, _Scalings]] = []
        pending: list[tuple[int, _Scalings, bool]] = [(total, (), False)]
        count = 1
        while pending:
            value, scalings, is_read = pending.pop()
            index = self.body.makers[value]
            if index is not None and is_read:
                steps.append(index)
                continue
            inner = self._summands(value, scalings)
            more = len(inner) - 1
            if inner and count + more <= MAX_TERMS:
                count += more
                pending.append((value, scalings, True))
                pending += [(v, functions, False) for v, functions in reversed(inner)]
            else:
                terms.append((value, scalings))
        return terms

    def _summands(self, value: int, scalings: _Scalings) -> list[tuple[int, _Scalings]]:
        """The summands of a value, or the value that it is a multiple of, each with the functions
        applied to it; empty if the value is a term."""
        body = self.body
        index = body.makers[value]
        if index is None or value in self._same or not self._is_plain(index):
            return []
        name, operands = body.names[index].removeprefix("jaxpr."), body.operands[index]
        negated = (("neg", ()), *scalings)
        if name in ("add", "sub"):
            a, b = operands
            return [(a, scalings), (b, scalings if name == "add" else negated)]
        if name == "neg":
            return [(operands[0], negated)]
        if name not in ("mul", "div"):
            return []
        # Only the divisor of a quotient is a scaling.
        pairs = _both_ways(operands)[: 2 if name == "mul" else 1]
        scaled = [
            (v, ((name, (number,)), *scalings))
            for v, number in pairs
            if number in self._same and elements(body.types[number]) == 1
        ]
        return scaled[:1]

    def _narrow(self, value: int) -> tuple[int, tuple[int, ...]]:
        """The array that is broadcast to a value, and the dimensions of the value that it has."""
        index = self._op(value, "jaxpr.broadcast_in_dim")
        if index is not None:
            return self.body.operands[index][0], self._get(index, "broadcast_dimensions")
        return value, tuple(range(len(self._shape(value))))

    def _is(self, value: int, number: float) -> bool:
        return bool(_number(self.body, value) == number)

    def _is_positive(self, value: int) -> bool:
        """Whether a value is a scalar constant that is a positive, finite number."""
        number = None if self._shape(value) else _number(self.body, value)
        return number is not None and bool(0 < number < math.inf)

    def _shape(self, value: int) -> tuple[int, ...]:
        return tuple(aval_of(self.body.types[value]).shape)

    def _get(self, index: int, name: str) -> Any:
        return codec.decode(self.body.signatures[index].named[name])

    def _is_plain(self, index: int) -> bool:
        return is_plain_signature(self.body.signatures[index])

    def _is_used_once(self, index: int) -> bool:
        return only_user(self.body.ops[index].results[0]) is not None

    def _is_reshape(self, index: int) -> bool:
        """Whether an op is a reshape that keeps the order of elements."""
        signature = self.body.signatures[index]
        if signature.name not in _RESHAPES:
            return False
        if signature.name == "jaxpr.reshape" and "dimensions" in signature.named:
            order = list(self._get(index, "dimensions"))
            if order != sorted(order):
                return False
        return elements(signature.operands[0]) == elements(signature.results[0])


def _number(body: FunctionView, value: int) -> np.generic | None:
    """The constant number that every element of a value is; ``None`` if it is not known."""

    def node_of(value: int) -> OpView | None:
        index = body.makers[value]
        if index is None:
            return None
        return OpView(body.ops[index], body.names[index], body.operands[index])

    return number_of(value, node_of)


def _both_ways(operands: list[int]) -> list[tuple[int, int]]:
    return [tuple(operands), tuple(operands[::-1])] if len(operands) == 2 else []


# -- The log-sum-exps that are worth a product --


# The product is a separate kernel: the exponentials must take this part of the time of a launch.
LAUNCHES = 0.4
MIN_RATIO = 12
# The minimum share of the exponentials in the work of an iteration.
MIN_SHARE = 0.5


def worthwhile(
    work: Work,
    reader: LogSumExpReader,
    min_elements: float | None = None,
    min_ratio: float = MIN_RATIO,
) -> list[LogSumExpMatch]:
    """The log-sum-exps of the body of a long loop that become products; none if their share of its
    work is too small."""
    if min_elements is None:
        min_elements = LAUNCHES * work.kernel / work.transcendental
    log_sum_exps = [
        f for f in reader.found() if f.sum.size >= max(min_elements, min_ratio * f.sum.inner_size)
    ]
    if not log_sum_exps:
        return []
    body = reader.body
    taken = work.transcendental * sum(f.sum.size for f in log_sum_exps)
    all_ = sum(work.at(body, index) for index in range(len(body.ops)))
    return log_sum_exps if taken >= MIN_SHARE * all_ else []
