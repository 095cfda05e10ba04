"""``jaxpr-expand-random-bits``: random numbers of a hash without a loop.

JAX makes random bits, and keys from keys, by hashing counters (Threefry-2x32: J. K. Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011).  For CPUs it lowers the hash to a loop of
five iterations of four rounds each.  The loop writes and reads two arrays in each iteration, and
takes longer to compile than its 20 rounds do.  This pass writes the rounds as elementwise ops,
which become one kernel::

    random_bits(key)     ->    x0, x1 = rounds of (key, iota);    x0 ^ x1
    threefry2x32(k, x)   ->    rounds of (k, x)

The bits are the same.  They are stored: each op that is fused with them would hash again, and a
key that depends on the bits of another key, and so on, would be hashed by one huge kernel.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmlir.analysis.function_view import OpView
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.cpu.expansion import ExpandOps, Expansion, ExpansionWriter

# Nanoseconds per element in a loop / in one kernel, two CPU cores, with jax 0.10 and 0.12:
#   12,288 elements 11 / 3.8 and 5.1 / 4.1; 100,000 5.5 / 2.1 and 3.8 / 1.3; 1,000,000 2.3 / 0.8 and
#   3.7 / 0.8; 1,000 elements take 17 to 26 us either way.
SAVED = 1.0
# Compiling the loop takes 0.25 to 0.5 s of CPU time, compiling the rounds 0.1 s.
OPS = 0.0

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)
# The counter has two words, of which only the lower one is counted here.
_MOST_COUNTS = 1 << 32


class ExpandRandomBits(ExpandOps):
    """Write the hash that makes random bits and keys as one kernel, not as a loop."""

    name: ClassVar[str] = "jaxpr-expand-random-bits"

    def expansion(self, node: OpView) -> Expansion | None:
        keys, result = (aval_of(v.type) for v in (node.operands[0], node.op.results[0]))
        if node.name != "jaxpr.threefry2x32" and keys.dtype.name != "key<fry>":
            return None
        if not 0 < result.size < _MOST_COUNTS:
            return None
        return Expansion(
            f"hashes {result.size:,} counters without a loop",
            functools.partial(_write, node.name, tuple(node.get("shape", ())), result.dtype),
            OPS,
            SAVED * result.size,
            by_steps=True,
        )


def _write(
    name: str, shape: tuple[int, ...], dtype: Any, writer: ExpansionWriter, *operands: ir.Value
) -> list[ir.Value]:
    """Writes what replaces an op with a ``shape`` whose results have a ``dtype``."""
    if name == "jaxpr.threefry2x32":
        return [writer.store(word) for word in writer.emit(_hash, *operands)]
    if name == "jaxpr.random_bits":
        (bits,) = writer.emit(functools.partial(_bits, shape=shape, dtype=dtype), *operands)
        return [writer.store(bits)]
    derived = functools.partial(_split, shape=shape) if name == "jaxpr.random_split" else _fold_in
    (words,) = writer.emit(derived, *operands)
    return writer.emit(_keys, writer.store(words))


def _bits(keys: Any, *, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """The random bits of each key, as JAX defines them where keys are "partitionable"."""
    high, low = _hash(*_words(keys, len(shape)), np.uint32(0), _counts(shape))
    if dtype.itemsize == 8:
        # A program has the same types whether JAX has 64 bits enabled or not.
        with jax.enable_x64(True):
            return [(high.astype(dtype) << 32) | low.astype(dtype)]
    return [(high ^ low).astype(dtype)]


def _split(keys: Any, *, shape: tuple[int, ...]) -> list[Any]:
    """The words of new keys of each key."""
    return [jnp.stack(_hash(*_words(keys, len(shape)), np.uint32(0), _counts(shape)), axis=-1)]


def _fold_in(keys: Any, data: Any) -> list[Any]:
    """The words of a new key of each key and integer."""
    return [jnp.stack(_hash(*_words(keys), np.uint32(0), data.astype(np.uint32)), axis=-1)]


def _keys(words: Any) -> list[Any]:
    return [jax.random.wrap_key_data(words, impl="threefry2x32")]


def _words(keys: Any, dims: int = 0) -> list[Any]:
    """The two words of each key, with further dimensions of size 1."""
    words = jax.random.key_data(keys)
    return [words[(..., word, *[None] * dims)] for word in range(2)]


def _counts(shape: tuple[int, ...]) -> Any:
    return lax.reshape(lax.iota(np.uint32, math.prod(shape)), shape)


def _hash(*operands: Any) -> list[Any]:
    """Threefry-2x32 of 20 rounds, of operands (key0, key1, counter0, counter1)."""
    key0, key1, x0, x1 = jnp.broadcast_arrays(*operands)
    keys = key0, key1, key0 ^ key1 ^ _PARITY
    x0, x1 = x0 + key0, x1 + key1
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ (x1 << distance | x1 >> 32 - distance)
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return [x0, x1]
