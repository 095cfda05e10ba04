"""A log-sum-exp of terms, and how it is computed by a product."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from jax import lax

from jaxmlir._compat import dtypes

_SCALINGS: dict[str, Callable[..., Any]] = {"neg": lax.neg, "mul": lax.mul, "div": lax.div}

# The operands by their numbers.
Args = Sequence[Any] | Mapping[int, Any]


@dataclass(frozen=True)
class Term:
    """A term of a sum, by the numbers of operands."""

    value: int
    dims: tuple[int, ...]
    """The dimensions of the sum that are its own."""
    scalings: tuple[tuple[str, tuple[int, ...]], ...]
    """The functions of it, and of a number, that give the term; the innermost first."""

    def of(self, args: Args, ndim: int) -> Any:
        """The term as an array of so many dimensions, of size 1 along those that are not its."""
        x = args[self.value]
        shape = [1] * ndim
        for d, size in zip(self.dims, x.shape, strict=True):
            shape[d] = size
        x = lax.broadcast_in_dim(x, shape, self.dims)
        for name, numbers in self.scalings:
            x = _SCALINGS[name](x, *(lax.full_like(x, lax.reshape(args[i], ())) for i in numbers))
        return x


@dataclass(frozen=True)
class LogSumExp:
    """The logarithm of the sum of the exponentials of a sum of terms; hashable.

    Attributes:
      shape: of the sum of the terms.
      axes: what the exponentials are summed over.
      guarded: whether an infinite maximum is not subtracted.
      outer: the terms that are the same along ``axes``.
      inner: the others that change from one iteration to the next.
      inner_size: how many elements the sum of these has.
      constant: the terms that do not change.
      out: the shape of the result.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    guarded: bool
    outer: tuple[Term, ...]
    inner: tuple[Term, ...]
    inner_size: int
    constant: tuple[Term, ...]
    out: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many exponentials are summed up."""
        return math.prod(self.shape)

    @property
    def constants(self) -> tuple[int, ...]:
        """The numbers of the operands that the constant terms are of."""
        numbers = (
            n for t in self.constant for n in (t.value, *(i for _, of in t.scalings for i in of))
        )
        return tuple(dict.fromkeys(numbers))

    def __call__(self, *args: Any) -> list[Any]:
        """The result."""
        import jax.numpy as jnp

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
        """Whether the constant terms are near enough to one another for that.

        Args:
          constants: the operands that they are of.
        """
        import jax.numpy as jnp

        b = self._total(self.constant, dict(zip(self.constants, constants, strict=True)))
        b = b - self._greatest(b)
        # Four derivatives divide by the fourth power of a sum, which is to be a normal number.
        return [jnp.min(lax.stop_gradient(b)) >= math.log(dtypes.finfo(b.dtype).tiny) / 4]

    def _total(self, terms: Sequence[Term], args: Args) -> Any:
        import jax.numpy as jnp

        return reduce(jnp.add, (term.of(args, len(self.shape)) for term in terms))

    def _greatest(self, x: Any) -> Any:
        import jax.numpy as jnp

        return jnp.max(lax.stop_gradient(x), self.axes, keepdims=True)

    def _product(self, *factors: Any) -> Any:
        """The sum over the axes of the products of two arrays, of size 1 along dimensions that
        neither has."""
        import jax.numpy as jnp

        operands, used = [], set()
        for x in factors:
            dims = [d for d, size in enumerate(x.shape) if size > 1]
            operands += [jnp.reshape(x, [x.shape[d] for d in dims]), dims]
            used.update(dims)
        out = sorted(used.difference(self.axes))
        # By default some platforms round the factors to fewer bits than exponentials have.
        product = jnp.einsum(*operands, out, precision=lax.Precision.HIGHEST)
        # Along axes that neither has, all that is added up is the same.
        times = math.prod(self.shape[d] for d in self.axes if d not in used)
        if times != 1:
            product = product * times
        return jnp.reshape(product, [n if d in out else 1 for d, n in enumerate(self.shape)])
