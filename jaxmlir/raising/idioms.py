"""Functions that JAX lowers to several ops, and whose derivative is better than that of the ops.

The derivative of ``1 / (1 + exp(-x))`` is NaN where ``exp`` overflows, that of ``logaddexp`` is
wrong where its arguments are equal, that of ``maximum(x, 0)`` at 0 is 1/2, and that of
``1 / (x * x)`` overflows where only the square of ``x * x`` does. ``jax.export`` writes special
functions as a choice between series, one for each range of the argument; the derivative is NaN
wherever a series that is not chosen has none. JAX has a primitive or a custom rule for each. Ops
become such a function only if JAX lowers it to them, so the values stay the same.

Loops that run until a series has converged have no reverse-mode derivative, and LAPACK's packed
form of a factorisation has no derivative at all. JAX lowers a linear solve to a factorisation and
loops over its pivots. Differentiating that is a detour: the derivative of a solution is a solution.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.codec.types import remember_scope, symbolic_shape
from jaxmlir.dialect.ir import body_of, captured, functions, ir
from jaxmlir.dialect.types import aval_of, dtype_of
from jaxmlir.raising.arrays import held_by
from jaxmlir.raising.broadcasts import BROADCASTS
from jaxmlir.raising.matching import attribute_texts, computation, written_by_jax
from jaxmlir.raising.sizes import global_constants
from jaxmlir.raising.source import all_equal, end_of
from jaxmlir.raising.writer import IDIOMS, BodyWriter, Values, as_written

Ops = str | tuple[Any, ...]
"""The name of an op, then the patterns of the ops that compute its operands, as far as they are the
same for all types; ``_`` is any op, and broadcasts are looked through."""


class Idiom(NamedTuple):
    """A function of arrays of one shape that JAX writes as several ops."""

    function: Callable[..., Any]
    last: Ops
    arguments: int = 1
    has_loops: bool = False
    """Whether some of the ops depend on the shape, such as a test whether all elements are done."""


LAST: dict[str, dict[str, list[Idiom]]] = {}
"""Idioms, by the names of their last op and of the op that computes its first operand."""
_NEXT = ("select", "compare", "constant", "select")
for _idiom in (
    Idiom(lax.logistic, ("divide", "_", "add")),
    Idiom(jnp.logaddexp, ("select", "compare", "add", "add"), 2),
    Idiom(lax.asin, ("atan2", "_", "sqrt")),
    Idiom(lax.erf_inv, ("select", "compare", "multiply", "multiply")),
    Idiom(lax.erfc, ("select", "compare", "subtract", "select")),
    Idiom(lax.lgamma, ("select", "compare", "constant", "select")),
    Idiom(lax.digamma, ("select", "and", "constant", "select")),
    Idiom(lax.polygamma, ("select", "or", "constant", "select"), 2),
    Idiom(lax.bessel_i0e, ("select", "compare", "multiply", "divide")),
    Idiom(lax.bessel_i1e, ("multiply", "sign", "select")),
    Idiom(special.i0, ("multiply", "exponential", "select")),
    Idiom(special.i1, ("multiply", "exponential", "multiply")),
    Idiom(special.zeta, ("chlo.zeta", "_", "_"), 2),
    Idiom(
        special.zeta, ("select", "compare", "constant", ("select", "and", "select", "select")), 2
    ),
    Idiom(lax.igamma, ("select", "or", "constant", (*_NEXT[:3], _NEXT)), 2, True),
    Idiom(
        lax.igammac,
        (
            "select",
            "or",
            "constant",
            ("select", ("or", "compare", "compare"), "constant", "select"),
        ),
        2,
        True,
    ),
    Idiom(
        lax.igamma_grad_a,
        ("select", "or", "constant", (*_NEXT[:3], ("select", "and", "negate", "divide"))),
        2,
        True,
    ),
    Idiom(
        lax.betainc,
        ("select", "or", "constant", ("select", ("or", "and", "and"), "constant", "select")),
        3,
        True,
    ),
    *(
        Idiom(functools.partial(lax.integer_pow, y=y), ("divide", "constant", "multiply"))
        for y in range(-8, -1)
    ),
):
    _name, _first, *_ = _idiom.last
    _by_first = LAST.setdefault(_name if "." in _name else f"stablehlo.{_name}", {})
    _by_first.setdefault(_first, []).append(_idiom)

CALLED = {"relu": Idiom(jax.nn.relu, "maximum"), "relu6": Idiom(jax.nn.relu6, "minimum")}
"""Called functions by name, which is needed as other functions may have the same ops."""

SPECIAL: dict[str, Callable[..., Any]] = {
    **{name: getattr(jnp.linalg, name) for name in ("inv", "solve", "det", "slogdet")},
    **{name: getattr(special, name) for name in ("expi", "expn", "hyp1f1")},
    "_expn": special.expn,
    "lgamma_impl": lax.lgamma,
}
"""Called functions that have loops and calls in them, by their name in the module. JAX has a
derivative rule for them, or lowers a primitive to them."""

SAMPLERS = {"_gamma": (jax.random.gamma, jax.random.loggamma)}
"""Called functions that draw samples from the words of a random key, likewise."""


def written(w: BodyWriter, op: Any) -> Values | None:
    """The result of an op of :data:`LAST`, if it is the last op of an idiom."""
    by_first, operands = LAST[op.name], op.operands
    candidates = [*by_first.get(_name_of(operands[0]), ()), *by_first.get("_", ())]
    names = [_name_of(v) for v in operands] if candidates else []
    for idiom in candidates:
        if all(map(_is_made_by, idiom.last[1:], names, operands)):
            results = _traced(w, idiom, op.results[0], w.env)
            if results is not None:
                return results
    return None


def _is_made_by(ops: Ops, name: str, value: ir.Value) -> bool:
    """Whether a source value, computed by the op of this name, matches a pattern of ops."""
    if isinstance(ops, str):
        return ops == "_" or ops == name
    if ops[0] != name:
        return False
    operands = _maker_of(value).operands
    return all(map(_is_made_by, ops[1:], map(_name_of, operands), operands))


IDIOMS.update(dict.fromkeys(LAST, written))


def called(w: BodyWriter, name: str, operands: list[ir.Value]) -> Values | None:
    """The result of a call of a function of :data:`CALLED`, :data:`SPECIAL` or :data:`SAMPLERS`."""
    plain = re.sub(r"_\d+$", "", name)
    if plain in SPECIAL:
        return _called(w, SPECIAL[plain], name, operands)
    if plain in SAMPLERS:
        (result, *_) = end_of(body_of(w.raising.source[name])).operands
        if not result.type.has_static_shape:
            return None
        drawn = aval_of(result.type)
        samplers = (_sampler(f, drawn.shape, drawn.dtype) for f in SAMPLERS[plain])
        candidates = (_called(w, sampler, name, operands) for sampler in samplers)
        return next((results for results in candidates if results is not None), None)
    idiom = CALLED.get(plain)
    # A function of arrays of symbolic shapes also takes their sizes.
    if idiom is None or sum(v not in w.sizes for v in operands) != idiom.arguments:
        return None
    block = body_of(w.raising.source[name])
    env = dict(zip(block.arguments, operands, strict=True))
    (result, *others) = end_of(block).operands
    return None if others else _traced(w, idiom, result, env)


def _called(
    w: BodyWriter, function: Callable[..., Any], name: str, operands: list[ir.Value]
) -> Values | None:
    """The results of a call of a source function, if JAX lowers ``function`` to the same ops.

    A function of arrays of symbolic shapes also takes all symbolic dimensions of the module.
    """
    arrays = [v for v in operands if v not in w.sizes]
    if not all(isinstance(v.type, ir.RankedTensorType) for v in arrays):
        return None
    block = body_of(w.raising.source[name])
    result_types = [v.type for v in end_of(block).operands]
    texts = computation(block, w.raising.source)
    types = tuple(v.type for v in arrays)
    for spread in _spreads(function, types, result_types):
        for lowered in _computations(spread, types, _sizes_of(w)):
            if all(text in lowered for text in texts):
                chosen = _ResultSubset(spread, tuple(map(lowered.index, texts)))
                return w.traced(chosen, arrays, result_types)
    return None


def _sizes_of(w: BodyWriter) -> tuple[str, ...]:
    """The symbolic dimensions of a module; each of its functions takes them all."""
    if not w.raising.symbolic:
        return ()
    sizes = (tuple(global_constants(op).values()) for op in w.raising.source.values())
    return next(filter(None, sizes), ())


def _spreads(
    function: Callable[..., Any], types: Sequence[ir.Type], wanted: Sequence[ir.Type]
) -> Iterator[Callable[..., Any]]:
    """The function, and versions of it whose operands lack dimensions of its only result."""
    yield function
    if len(wanted) != 1:
        return
    rank, shape = wanted[0].rank, wanted[0].shape

    def fit(type_: ir.Type, dims: tuple[int, ...]) -> bool:
        pairs = zip(type_.shape, dims, strict=True)
        return all(n == shape[d] or min(n, shape[d]) < 0 for n, d in pairs)

    present = [
        [dims for dims in itertools.combinations(range(rank), type_.rank) if fit(type_, dims)]
        for type_ in types
    ]
    for dims in itertools.product(*present):
        some_lack = min(map(len, dims)) < rank
        if some_lack and {d for operand_dims in dims for d in operand_dims} == set(range(rank)):
            yield _Spread(function, rank, dims)


@dataclass(frozen=True)
class _Spread:
    """A function applied to arrays, some of which lack dimensions.

    Attributes:
      rank: the rank of the arrays that the function takes.
      present: for each array, the dimensions that it has.
    """

    function: Callable[..., Any]
    rank: int
    present: tuple[tuple[int, ...], ...]

    def __call__(self, *args: Any) -> Any:
        lacking = [[d for d in range(self.rank) if d not in dims] for dims in self.present]
        return self.function(*map(jnp.expand_dims, args, lacking))


@functools.cache
def _sampler(function: Callable[..., Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """The function that draws samples of a shape from the words of a random key."""

    def sample(words: Any, *parameters: Any) -> Any:
        return function(jax.random.wrap_key_data(words), *parameters, shape, dtype)

    return sample


class _ResultSubset(NamedTuple):
    """A function that returns some of another function's results."""

    function: Callable[..., Any]
    which: tuple[int, ...]

    def __call__(self, *args: Any) -> list[Any]:
        results = jax.tree.leaves(self.function(*args))
        return [results[k] for k in self.which]


@functools.cache
def _computations(
    function: Callable[..., Any], types: tuple[ir.Type, ...], sizes: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """The computations that JAX exports and lowers a function of operands of some types to.

    Args:
      sizes: the symbolic dimensions of the module.
    """
    computations = []
    for _, symbol_table, block in _patterns(function, types, sizes):
        *before, call, _ = (view.operation for view in block.operations)
        if call.name == "func.call" and all(op.name in _RESHAPES for op in before):
            block = body_of(symbol_table[ir.FlatSymbolRefAttr(call.attributes["callee"]).value])
        computations.append(computation(block, symbol_table))
    return computations


_RESHAPES = frozenset(("stablehlo.reshape", "stablehlo.broadcast_in_dim"))


class _ExportedPattern(NamedTuple):
    """The module that JAX lowers a function to; without it, its functions would be freed."""

    module: ir.Module
    functions: Mapping[str, Any]
    body: Any


def _patterns(
    function: Callable[..., Any], types: tuple[ir.Type, ...], sizes: tuple[str, ...] = ()
) -> Iterator[_ExportedPattern]:
    """The modules that JAX exports and lowers a function of operands of some types to.

    Args:
      sizes: the symbolic dimensions of the module, which all of its functions take.
    """
    for exported in (True, False):
        # JAX cannot export everything that it can lower.
        if (pattern := _pattern(function, types, sizes, exported)) is not None:
            yield pattern


@functools.cache
def _pattern(
    function: Callable[..., Any], types: tuple[ir.Type, ...], sizes: tuple[str, ...], exported: bool
) -> _ExportedPattern | None:
    avals = [aval_of(type_) for type_ in types]
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    symbols = [d for a in avals for d in a.shape if core.is_symbolic_dim(d)]
    if symbols:
        if not exported:
            return None
        every = symbolic_shape(", ".join(sizes), remember_scope(symbols[0]))
        args.insert(0, jax.ShapeDtypeStruct(every, np.float32))
        function = functools.partial(_after_sizes, function)
    module = written_by_jax(function, args, exported=exported)
    if module is None:
        return None
    symbol_table = functions(module)
    return _ExportedPattern(
        module,
        symbol_table,
        body_of(symbol_table.get("_wrapped_jax_export_main") or symbol_table["main"]),
    )


def _after_sizes(function: Callable[..., Any], sizes: Any, *args: Any) -> Any:
    """A function of one array more, before its own: the shape is all symbolic dimensions."""
    return function(*args)


def _traced(
    w: BodyWriter, idiom: Idiom, result: ir.Value, env: dict[ir.Value, ir.Value]
) -> Values | None:
    """Writes the idiom's function, applied to the values from which its ops compute ``result``."""
    arguments = _arguments(w, idiom, result, env)
    if arguments is None or any(v.type != result.type or v not in env for v in arguments):
        return None
    operands = [env[v] for v in arguments]
    key = idiom, *(v.type for v in operands)
    template = w.raising.idioms.get(key)
    if template is not None:
        return w.again(template, operands)
    results = w.traced(idiom.function, operands, [result.type])
    if len(set(operands)) == len(operands):
        w.raising.idioms[key] = as_written(results, operands)
    return results


def _arguments(
    w: BodyWriter, idiom: Idiom, result: ir.Value, env: dict[ir.Value, ir.Value]
) -> list[ir.Value] | None:
    """The source values from which an idiom's ops compute ``result``; ``None`` if ops differ."""
    type_ = result.type
    if not jnp.issubdtype(dtype_of(type_.element_type), np.floating):
        return None
    if not idiom.has_loops:
        type_ = ir.RankedTensorType.get([3], type_.element_type)
    elif not type_.has_static_shape:
        # The symbolic shape is that of an operand of the last op.
        type_ = next(env[v].type for v in result.owner.operands if v.type == result.type)
    # JAX lowers a jitted function to a call; the pattern needs its ops.
    function = inspect.unwrap(idiom.function)
    types = (type_,) * idiom.arguments
    for _, symbol_table, block in _patterns(function, types, _sizes_of(w)):
        match = _Match(symbol_table, w.raising.source)
        if match.extend(end_of(block).operands[0], result):
            return [match.values[v] for v in list(block.arguments)[-idiom.arguments :]]
    return None


def factored(w: BodyWriter, op: Any, forms: Sequence[Callable[..., Any]]) -> None:
    """Replaces values computed from LAPACK's packed form by results of a JAX primitive.

    Args:
      op: the source op that computes the packed form of its first operand.
      forms: the primitive with different parameters.
    """
    matrix = op.operands[0]
    factors = _made_of(op)
    best: dict[ir.Value, int] = {}
    for function, (_, symbol_table, block) in (
        (f, p) for f in forms for p in _patterns(f, (matrix.type,))
    ):
        matched: dict[ir.Value, int] = {}
        for k, end in enumerate(end_of(block).operands):
            for value in factors:
                match = _Match(symbol_table, w.raising.source)
                if match.extend(end, value) and match.values[block.arguments[0]] == matrix:
                    matched[value] = k
        if len(matched) > len(best):
            # Forms may share results: the one that has the most is used.
            best, form = matched, function
    if best:
        chosen = _ResultSubset(form, tuple(best.values()))
        results = w.traced(chosen, [w.env[matrix]], [v.type for v in best])
        w.env.update(zip(best, results, strict=True))
        w.passed_on.update((value.owner.operation, value) for value in best)


_OF_PACKED = frozenset(
    f"stablehlo.{n}" for n in ("custom_call", "pad", "select", "slice", "subtract")
)


def _made_of(op: Any) -> list[ir.Value]:
    """The results of the ops that compute factors from a packed form."""
    pending, users = [op], {}
    for op in pending:
        for user in (use.owner for result in op.results for use in result.uses):
            if user.name in _OF_PACKED and user not in users:
                users[user] = None
                pending.append(user)
    return [user.results[0] for user in users]


class _Match:
    """A match between values of a pattern and values of the source.

    Attributes:
      values: the source value that each value of the pattern stands for.
    """

    def __init__(self, pattern: Mapping[str, Any], source: Mapping[str, Any]):
        self.values: dict[ir.Value, ir.Value] = {}
        self._pattern, self._source = pattern, source
        self._inner: set[tuple[Any, Any]] = set()

    def extend(self, pattern: ir.Value, value: ir.Value) -> bool:
        """Whether a source value matches one of the pattern, given the values matched so far."""
        pending = [(pattern, value)]
        while pending:
            pattern, value = pending.pop()
            if pattern in self.values:
                if not self._is_same(self.values[pattern], value):
                    return False
                continue
            self.values[pattern] = value
            if isinstance(pattern.owner, ir.Block):
                continue
            number = _number_of_pattern(pattern)
            if number is not None:
                if not is_number(value, number):
                    return False
            elif self._are_alike(pattern, value, self._pattern):
                pending += zip(_taken_for(pattern), _taken_for(value), strict=True)
            else:
                return False
        return True

    def _is_same(self, a: ir.Value, b: ir.Value, depth: int = 4) -> bool:
        """Whether two source values are the same, or computed by a few equal ops from the same
        values."""
        if a == b:
            return True
        if not depth or a.type != b.type or not self._are_alike(a, b, self._source):
            return False
        pairs = zip(_taken_for(a), _taken_for(b), strict=True)
        return all(self._is_same(x, y, depth - 1) for x, y in pairs)

    def _are_alike(self, a: ir.Value, b: ir.Value, of_a: Mapping[str, Any]) -> bool:
        """Whether two values are the same result of ops that differ at most in their operands.

        Args:
          a: a value of the pattern or of the source; ``of_a`` are the functions of its module.
          b: a value of the source.
        """
        if isinstance(a.owner, ir.Block) or isinstance(b.owner, ir.Block):
            return False
        one, other = a.owner.operation, b.owner.operation
        if one.name != other.name or a.result_number != b.result_number:
            return False
        if len(_taken_for(a)) != len(_taken_for(b)):
            return False
        if not (len(one.attributes) or len(other.attributes) or len(one.regions)):
            return True
        if (one, other) in self._inner:
            return True
        if attribute_texts(one) != attribute_texts(other):
            return False
        if _inside(one, of_a) != _inside(other, self._source):
            return False
        self._inner.add((one, other))
        return True


# Values of a pattern may be keys: the pattern lives as long as its function.
@functools.lru_cache(1024)
def _number_of_pattern(value: ir.Value) -> np.generic | None:
    """The number that all elements of a constant of a pattern have."""
    held = held_by(value)
    return None if held is None or not held.size else held.reshape(-1)[0]


def is_number(value: ir.Value, number: np.generic) -> bool:
    """Whether all elements of a source value have the bits of a number."""
    maker = _maker_of(value)
    if maker is not None and maker.name == "stablehlo.constant":
        return _is_filled(maker.attributes["value"], number.tobytes())
    held = held_by(value)
    return held is not None and all_equal(held, number.tobytes())


@functools.lru_cache(1024)
def _is_filled(constant: ir.Attribute, number: bytes) -> bool:
    """Whether all elements of a constant have these bits; cached, as ops share constants."""
    return all_equal(codec.decode(constant), number)


def _taken_for(value: ir.Value) -> list[ir.Value]:
    """The operands of the op that computes a value, and the values that its regions capture."""
    op = value.owner.operation
    return [*op.operands, *captured(op)] if len(op.regions) else list(op.operands)


def _inside(op: Any, source: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The computations of an op's regions and of the function that it calls."""
    around = {value: f"around {k}" for k, value in enumerate(captured(op))}
    blocks = [block for region in op.regions for block in region.blocks]
    if "callee" in op.attributes:
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        blocks.append(body_of(source[callee]))
    return [computation(block, source, around=around) for block in blocks]


def _name_of(value: ir.Value) -> str:
    """The name, without the dialect, of the op that computes a source value before broadcasts."""
    op = _maker_of(value)
    return "" if op is None else op.name.removeprefix("stablehlo.")


def _maker_of(value: ir.Value) -> Any:
    """The op that computes a source value before broadcasts; ``None`` for an argument."""
    op = None
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name not in BROADCASTS:
            break
        value = op.operands[0]
    return op
