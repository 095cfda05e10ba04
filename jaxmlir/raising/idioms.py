"""What JAX writes as several ops, and has a better derivative of than that of these ops.

The derivative of ``1 / (1 + exp(-x))`` is NaN where ``exp`` overflows, that of ``logaddexp`` is
wrong where its arguments are equal, that of ``maximum(x, 0)`` at 0 is 1/2, and that of
``1 / (x * x)`` overflows where only the square of ``x * x`` does.  Special functions, of which
``jax.export`` writes a series for each range of their argument, have NaN for a derivative wherever
a series that is not chosen has none.  JAX has a primitive or a custom rule for each.  Ops are such
a function if they are those that JAX writes for it; so what is computed stays the same.

Linear equations are solved by a factorisation and loops over its pivots, whose derivative is a
detour: that of a solution is a solution.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from jaxmlir.dialect.ir import body_of, functions, ir
from jaxmlir.dialect.types import aval_of, dtype_of
from jaxmlir.raising.arrays import held_by
from jaxmlir.raising.matching import computation, written_by_jax
from jaxmlir.raising.source import end_of
from jaxmlir.raising.writer import IDIOMS, Values, Writer, as_written


class Idiom(NamedTuple):
    """A function of arrays of one shape that JAX writes as several ops."""

    function: Callable[..., Any]
    last: str
    """The last of the ops, and those of its operands, as far as that is the same for all types."""
    arguments: int = 1


LAST: dict[str, list[Idiom]] = {}
"""By the name of the last of the ops."""
for _idiom in (
    Idiom(lax.logistic, "divide(_, add)"),
    Idiom(jnp.logaddexp, "select(compare, add, add)", 2),
    Idiom(lax.erf_inv, "select(compare, multiply, multiply)"),
    Idiom(lax.erfc, "select(compare, subtract, select)"),
    Idiom(lax.lgamma, "select(compare, constant, select)"),
    Idiom(lax.digamma, "select(and, constant, select)"),
    Idiom(lax.polygamma, "select(or, constant, select)", 2),
    Idiom(lax.bessel_i0e, "select(compare, multiply, divide)"),
    Idiom(lax.bessel_i1e, "multiply(sign, select)"),
    Idiom(jax.scipy.special.i0, "multiply(exponential, select)"),
    Idiom(jax.scipy.special.i1, "multiply(exponential, multiply)"),
    *(
        Idiom(functools.partial(lax.integer_pow, y=y), "divide(constant, multiply)")
        for y in range(-8, -1)
    ),
):
    LAST.setdefault(f"stablehlo.{_idiom.last.partition('(')[0]}", []).append(_idiom)

CALLED = {
    "relu": Idiom(jax.nn.relu, "maximum"),
    "relu6": Idiom(jax.nn.relu6, "minimum"),
}
"""Functions that are called, by their name: other ones may be the same ops."""

SOLVERS = {name: (getattr(jnp.linalg, name),) for name in ("inv", "solve", "det", "slogdet")}
SOLVERS["qr"] = SOLVERS["_qr"] = tuple(
    functools.partial(lax.linalg.qr, full_matrices=full, pivoting=pivoting)
    for full in (False, True)
    for pivoting in (False, True)
)
SOLVERS["lgamma_impl"] = (lax.lgamma,)
"""Functions that are called, of loops and calls, in each form that JAX has of them: those whose
derivatives are solutions again, and what JAX writes a primitive as."""


def written(w: Writer, op: Any) -> Values | None:
    """The result of an op of :data:`LAST`, if it is the last of those of an idiom."""
    names = [_name_of(value) for value in op.operands]
    for idiom in LAST[op.name]:
        wanted = idiom.last.partition("(")[2].rstrip(")").split(", ")
        if all(a in ("_", b) for a, b in zip(wanted, names, strict=True)):
            found = _traced(w, idiom, op.results[0], w.env)
            if found is not None:
                return found
    return None


IDIOMS.update(dict.fromkeys(LAST, written))


def called(w: Writer, name: str, operands: list[ir.Value]) -> Values | None:
    """The result of a call of a function of the source, if it is one of :data:`CALLED`."""
    plain = re.sub(r"_\d+$", "", name)
    if plain in SOLVERS:
        forms = (_solver(w, function, name, operands) for function in SOLVERS[plain])
        return next((found for found in forms if found is not None), None)
    idiom = CALLED.get(plain)
    # A function of arrays of symbolic shapes takes their sizes, too.
    if idiom is None or sum(v not in w.sizes for v in operands) != idiom.arguments:
        return None
    block = body_of(w.raising.source[name])
    env = dict(zip(block.arguments, operands, strict=True))
    (result, *others) = end_of(block).operands
    return None if others else _traced(w, idiom, result, env)


def _solver(
    w: Writer, function: Callable[..., Any], name: str, operands: list[ir.Value]
) -> Values | None:
    """The results of a call of a function of the source, if JAX writes those of a function so."""
    types = tuple(v.type for v in operands)
    if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types):
        return None
    block = body_of(w.raising.source[name])
    wanted = [v.type for v in end_of(block).operands]
    found = computation(block, w.raising.source)
    for known in _solutions(function, types):
        if all(text in known for text in found):
            return w.traced(_Results(function, tuple(map(known.index, found))), operands, wanted)
    return None


class _Results(NamedTuple):
    """A function with some of a function's results."""

    function: Callable[..., Any]
    which: tuple[int, ...]

    def __call__(self, *args: Any) -> list[Any]:
        results = jax.tree.leaves(self.function(*args))
        return [results[k] for k in self.which]


@functools.cache
def _solutions(function: Callable[..., Any], types: tuple[ir.Type, ...]) -> list[tuple[str, ...]]:
    """What JAX lowers, and exports, a function of operands of some types to."""
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in map(aval_of, types)]
    plain = inspect.unwrap(function)
    found = []
    for exported in (False, True):
        module = written_by_jax(plain, args, exported=exported)
        if module is None:
            continue  # JAX cannot export all that it lowers.
        there = functions(module)
        block = body_of(there["main"])
        first, *others = (view.operation for view in block.operations)
        if first.name == "func.call" and len(others) == 1:
            # A primitive is a call of its function.
            block = body_of(there[ir.FlatSymbolRefAttr(first.attributes["callee"]).value])
        found.append(computation(block, there))
    return found


def _traced(
    w: Writer, idiom: Idiom, result: ir.Value, env: dict[ir.Value, ir.Value]
) -> Values | None:
    """The idiom's function, applied to what a value of the source is made of by the idiom's ops."""
    pattern = _pattern(idiom, result.type.element_type)
    if pattern is None:
        return None
    block = body_of(functions(pattern)["main"])
    matched: dict[ir.Value, ir.Value] = {}
    if not _matches(end_of(block).operands[0], result, matched):
        return None
    arguments = [matched[v] for v in block.arguments]
    if any(v.type != result.type or v not in env for v in arguments):
        return None
    operands = [env[v] for v in arguments]
    key = idiom, *(v.type for v in operands)
    known = w.raising.idioms.get(key)
    if known is not None:
        return w.again(known, operands)
    results = w.traced(idiom.function, operands, [result.type])
    if len(set(operands)) == len(operands):
        w.raising.idioms[key] = as_written(results, operands)
    return results


@functools.cache
def _pattern(idiom: Idiom, element: ir.Type) -> ir.Module | None:
    """What JAX exports an idiom's function of arrays of a type as, in one function."""
    dtype = dtype_of(element)
    if not jnp.issubdtype(dtype, np.floating):
        return None
    # JAX writes a jitted function as one that is called.
    function = inspect.unwrap(idiom.function)
    args = [jax.ShapeDtypeStruct((3,), dtype)] * idiom.arguments
    return written_by_jax(function, args, exported=True)


def _matches(pattern: ir.Value, value: ir.Value, matched: dict[ir.Value, ir.Value]) -> bool:
    """Whether a value of the source is computed as one of a pattern; what each value of the pattern
    stands for is noted."""
    pending = [(pattern, value)]
    while pending:
        pattern, value = pending.pop()
        if pattern in matched:
            if not _same(matched[pattern], value):
                return False
            continue
        matched[pattern] = value
        if isinstance(pattern.owner, ir.Block):
            continue
        number = held_by(pattern)
        if number is not None:
            held = held_by(value)
            if held is None or not held.size or not _all_are(held, number.reshape(-1)[0]):
                return False
            continue
        if isinstance(value.owner, ir.Block):
            return False
        wanted, op = pattern.owner.operation, value.owner.operation
        if op.name != wanted.name or len(op.operands) != len(wanted.operands):
            return False
        if dict(op.attributes.items()) != dict(wanted.attributes.items()):
            return False
        pending += zip(wanted.operands, op.operands, strict=True)
    return True


def _same(a: ir.Value, b: ir.Value, depth: int = 4) -> bool:
    """Whether two values are one, or are computed in the same way of the same few ops."""
    if a == b:
        return True
    if isinstance(a.owner, ir.Block) or isinstance(b.owner, ir.Block) or a.type != b.type:
        return False
    one, other = a.owner.operation, b.owner.operation
    return (
        depth > 0
        and not len(one.regions)
        and one.name == other.name
        and list(one.results).index(a) == list(other.results).index(b)
        and dict(one.attributes.items()) == dict(other.attributes.items())
        and len(one.operands) == len(other.operands)
        and all(_same(x, y, depth - 1) for x, y in zip(one.operands, other.operands, strict=True))
    )


def _all_are(array: np.ndarray, number: Any) -> bool:
    return array.tobytes() == np.full_like(array, number).tobytes()


def _name_of(value: ir.Value) -> str:
    """The name of the op that computes a value of the source; of a repeated constant that."""
    name = ""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        name = op.name.removeprefix("stablehlo.")
        if name != "broadcast_in_dim":
            break
        value = op.operands[0]
    return name
