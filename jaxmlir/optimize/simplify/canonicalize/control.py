"""Rewrites of calls, branches and loops.

They look at what the callees return: if a result is an argument of the callee, or a constant, it
is replaced at the call site, and the call may become dead code.  Functions are simplified before
their callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxmlir.analysis.arithmetic import FLOATS, INTEGERS, functions_of
from jaxmlir.analysis.moves import select
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import is_used, returned
from jaxmlir.dialect.ir import ir, symbol_uses
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.simplify.canonicalize.movement import keeps_order, numbered
from jaxmlir.optimize.simplify.canonicalize.rewriter import RewriteNode, Rewriter, kind_of, rewrite
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp

# Folding of small constants: an op whose operands are all constants becomes a constant.
#
# Only ops that numpy computes exactly as every backend does.  An op with a subnormal operand or
# result stays, as backends differ on whether to flush it to zero.

MAX_ELEMENTS = 64
"""The size of the largest constants that are folded: shapes, strides, indices, counters."""
_WIDTHS = {np.dtype(t) for t in ("f4", "f8", "i4", "i8", "u4", "u8", "i1", "i2", "u1", "u2", "?")}


@rewrite(
    "op(c, ...) = c'; ops of integers and booleans, and the basic ones of floats",
    *{*FLOATS, *INTEGERS},
)
def fold_elementwise(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or any(not name.startswith("jaxpr.") for name in node.attributes):
        return None
    function = functions_of(arrays[0].dtype).get(node.name.removeprefix("jaxpr."))
    if function is None:
        return None
    with np.errstate(all="ignore"):
        folded = function(*arrays)
    if folded is None:
        return None
    return _constant(r, node, folded, arrays)


@rewrite(
    "lt(iota, c) = 0 and ge(iota, c) = 1 where c is 0 or less, for arrays of any size; "
    "also where the iota is broadcast",
    "lt",
    "ge",
)
def row_numbers_are_not_negative(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    """JAX compares every index with 0, as negative indices count from the end."""
    numbers, bound = node.operands
    if numbered(r, numbers) is None:
        return None
    bound = r.number_of(bound)
    return None if bound is None or bound > 0 else [r.full(node.type, node.name == "jaxpr.ge")]


@rewrite("select_n(c, c0, c1, ...) = c'", "select_n")
def fold_select(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None:
        return None
    return _constant(r, node, *select(*arrays), ())


@rewrite(
    "convert(c) = c'; of floats to other kinds only where the value stays the same",
    "convert_element_type",
)
def fold_conversion(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or node.get("sharding") is not None:
        return None
    (array,) = arrays
    dtype = aval_of(node.type).dtype
    if dtype not in _WIDTHS:
        return None
    with np.errstate(all="ignore"):
        folded = array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind != "f" and not np.array_equal(folded, array):
        return None
    return _constant(r, node, folded, arrays)


@rewrite("reshape(c) = c'; also for squeeze", "reshape", "squeeze")
def fold_reshape(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    arrays = _constants(r, node)
    if arrays is None or not keeps_order(node):
        return None
    return _constant(r, node, arrays[0].reshape(aval_of(node.type).shape), ())


def _constants(r: Rewriter, node: RewriteNode) -> list[np.ndarray] | None:
    """The values of the operands; ``None`` unless all are small constants of ordinary dtypes."""
    arrays = []
    for v in node.operands:
        array = r.constant_of(v)
        if array is None or array.size > MAX_ELEMENTS or kind_of(v.type) == "other":
            return None
        if array.dtype not in _WIDTHS:
            return None
        arrays.append(array)
    return arrays


def _constant(
    r: Rewriter, node: RewriteNode, array: Any, operands: list[np.ndarray] | tuple[()]
) -> list[ir.Value] | None:
    aval = aval_of(node.type)
    array = np.asarray(array)
    if array.dtype != aval.dtype or array.shape != aval.shape:
        return None
    if any(map(_has_subnormals, (array, *operands))):
        return None
    return [r.array(node.type, array)]


def _has_subnormals(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return False
    return bool(np.any((array != 0) & (np.abs(array) < np.finfo(array.dtype).tiny)))


KnownResults = list[int | ir.Attribute | None]
"""For each result: the number of the argument, the value of the constant, or ``None``."""


def _returned(r: Rewriter, symbol: str) -> KnownResults:
    outs = r.returned.get(symbol)
    if outs is None:
        function = r.program.function(symbol)
        numbers = {v: i for i, v in enumerate(function.arguments)}
        outs = r.returned[symbol] = [
            numbers[v] if v in numbers else _constant_attr(v) for v in returned(function)
        ]
    return outs


def _constant_attr(value: ir.Value) -> ir.Attribute | None:
    op = value.owner
    if op.name != "jaxpr.constant" or "value" not in op.attributes:
        return None
    attr = op.attributes["value"]
    return attr if isinstance(attr, ir.DenseElementsAttr) else None


def _has_effects(node: RewriteNode) -> bool:
    return "jaxpr.effects" in node.attributes


def _replaced(
    r: Rewriter,
    node: RewriteNode,
    known: Sequence[int | ir.Attribute | None],
    operands: list[ir.Value],
) -> list[ir.Value] | None:
    """The op's results, with known ones replaced by operands or constants; ``None`` if none is.

    The op stays: for its other results, or until dead code elimination.
    """
    values = list(node.results)
    for i, source in enumerate(known):
        # An unused result has been replaced before.
        if source is None or not is_used(values[i]):
            continue
        if isinstance(source, ir.Attribute):
            values[i] = r.build("constant", [], values[i].type, {"value": source})
        elif operands[source].type == values[i].type:
            values[i] = operands[source]
    changed = any(v is not old for v, old in zip(values, node.results, strict=True))
    return values if changed else None


@rewrite(
    "f(x) = x where f returns its argument, f(x) = c where it returns a constant",
    "jit",
    "closed_call",
    "call",
    "eval_jaxpr",
)
def call_returns_argument(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    # These attributes ask for a placement of the results.
    if any(k in node.attributes for k in ("out_shardings", "out_layouts")):
        return None
    (symbol,) = symbol_uses(node.attributes[CALLEES[node.name]])
    return _replaced(r, node, _returned(r, symbol), node.operands)


@rewrite("cond(c, f0, f1, ...)(x) = fc(x) where c is a constant", "cond")
def cond_of_constant(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    index = r.constant_of(node.operands[0])
    symbols = list(symbol_uses(node.attributes["branches"]))
    if len(set(symbols)) == 1:
        index = np.array(0)
    if index is None or index.ndim:
        return None
    # StableHLO's `case` takes the last branch for an index out of range.
    return _branch(r, node, int(index) if 0 <= index < len(symbols) else len(symbols) - 1)


def _branch(r: Rewriter, node: RewriteNode, index: int) -> list[ir.Value] | None:
    """Inlines a branch in place of a ``cond``; the effects move to the inlined ops."""
    function = r.program.function(list(symbol_uses(node.attributes["branches"]))[index])
    if list(function.type.results) != [v.type for v in node.results]:
        return None
    outs = r.inline(function, node.operands[1:], f"cond/branch_{index}_fun")
    r.drop_effects()
    return outs


@rewrite(
    "cond(platform_index, f0, f1, ...)(x) = fi(x) where the other branches are for kernels only",
    "cond",
)
def cond_of_platform(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    """A program is never compiled for a kernel platform, and functions of kernels are skipped."""
    index = r.producer(node.operands[0], "platform_index")
    if index is None:
        return None
    platforms = index.get("platforms")
    left = [i for i, names in enumerate(platforms) if names is None or {*names} - _OF_KERNELS]
    if len(left) != 1:
        return None
    return _branch(r, node, left[0])


# The platform names by which lowerings inside of kernels select their branch.
_OF_KERNELS = frozenset({"mosaic", "mosaic_gpu"})


@rewrite("cond(i, f0, f1, ...)(x) = x where every branch returns its argument", "cond")
def cond_returns_argument(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    branches = [_returned(r, symbol) for symbol in symbol_uses(node.attributes["branches"])]
    sources = [same[0] if len({*same}) == 1 else None for same in zip(*branches, strict=True)]
    return _replaced(r, node, sources, node.operands[1:])


@rewrite("while(false, f)(x) = x", "while")
def while_never(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    loop = WhileOp.of(node.op)
    (source,) = _returned(r, loop.cond)
    if _has_effects(node) or not isinstance(source, ir.Attribute) or np.any(codec.decode(source)):
        return None
    return loop.operands(node.operands)[2]


@rewrite(
    "scan(f)(x, y) = (x, scan(g)(y)) where f returns its argument x; x is a constant of g", "scan"
)
def scan_with_invariant(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    scan = ScanOp.of(node.op)
    consts, carry, rows = scan.operands(range(len(node.operands)))
    init = [node.operands[i] for i in carry]
    fixed, moving = _split_carry(r, node, scan.body, scan.num_consts, init)
    if not fixed or _has_effects(node):
        return _given_back(r, node, fixed, init)
    results = [*moving, *range(len(carry), len(node.results))]
    arguments = [*consts, *(carry[i] for i in (*fixed, *moving)), *rows]
    body = r.variant(scan.body, arguments, results)
    new = scan.with_body(body, len(consts) + len(fixed), len(moving))
    operands = [node.operands[i] for i in arguments]
    return _rebuilt(r, node, operands, new.attributes, results, init)


@rewrite(
    "while(c, f)(x, y) = (x, while(d, g)(y)) where f returns its argument x; x is a constant of d "
    "and g",
    "while",
)
def while_with_invariant(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    loop = WhileOp.of(node.op)
    of_cond, of_body, init = loop.operands(node.operands)
    fixed, moving = _split_carry(r, node, loop.body, len(of_body), init)
    if not fixed or _has_effects(node):
        return _given_back(r, node, fixed, init)

    def arguments(consts: int) -> list[int]:
        return [*range(consts), *(consts + i for i in (*fixed, *moving))]

    new = loop._replace(
        cond=r.variant(loop.cond, arguments(len(of_cond)), [0]),
        body=r.variant(loop.body, arguments(len(of_body)), moving),
        cond_consts=len(of_cond) + len(fixed),
        body_consts=len(of_body) + len(fixed),
    )
    values = [init[i] for i in fixed]
    operands = [*of_cond, *values, *of_body, *values, *(init[i] for i in moving)]
    return _rebuilt(r, node, operands, new.attributes, moving, init)


def _split_carry(
    r: Rewriter, node: RewriteNode, body: str, consts: int, init: list[ir.Value]
) -> tuple[list[int], list[int]]:
    """The carried values that a loop's body returns unchanged, and the others.

    Args:
      consts: the number of the body's constants.
      init: the initial carried values.
    """
    returned = _returned(r, body)
    fixed = [
        i
        for i, value in enumerate(init)
        if not isinstance(returned[i], ir.Attribute)
        and returned[i] == consts + i
        and value.type == node.results[i].type
    ]
    return fixed, [i for i in range(len(init)) if i not in fixed]


def _given_back(
    r: Rewriter, node: RewriteNode, fixed: list[int], init: list[ir.Value]
) -> list[ir.Value] | None:
    """The results of a loop with unchanged ones replaced by operands.  The loop keeps its carry, as
    its effects may refer to carried values by number."""
    known = [i if i in fixed else None for i in range(len(node.results))]
    return _replaced(r, node, known, init)


def _rebuilt(
    r: Rewriter,
    node: RewriteNode,
    operands: list[ir.Value],
    attributes: dict[str, ir.Attribute],
    results: list[int],
    init: list[ir.Value],
) -> list[ir.Value]:
    """The loop's results: those of the new loop, and the initial values of the others."""
    name, types = node.name.removeprefix("jaxpr."), [node.results[i].type for i in results]
    outs = iter(r.build_node(name, operands, types, attributes).results if results else ())
    return [next(outs) if i in results else init[i] for i in range(len(node.results))]


@rewrite("scan[length=0](f)(x) = x where all results are carried values", "scan")
def scan_of_nothing(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    scan = ScanOp.of(node.op)
    if scan.length != 0 or len(node.results) != scan.num_carry:
        return None
    _, carried, _ = scan.operands(node.operands)
    if [v.type for v in carried] == [v.type for v in node.results]:
        r.drop_effects()
    return carried


@rewrite("scan[length=1](f)(x, xs) = f(x, xs[0])", "scan")
def scan_of_one(r: Rewriter, node: RewriteNode) -> list[ir.Value] | None:
    scan = ScanOp.of(node.op)
    if scan.length != 1 or _has_effects(node):
        return None
    body = r.program.function(scan.body)
    consts, carry, rows = scan.operands(node.operands)
    _, _, types = scan.operands(body.type.inputs)
    _, ys = scan.results(node.results)
    if not all(_is_array(v) for v in (*rows, *ys)):
        return None
    dimensions = {"dimensions": codec.encode((0,))}
    first = [r.build("squeeze", [v], t, dimensions) for v, t in zip(rows, types, strict=True)]
    outs = r.inline(body, [*consts, *carry, *first], "while/body/closed_call")
    final, outs = scan.results(outs)
    stacked = []
    for out, y in zip(outs, ys, strict=True):
        shape = tuple(aval_of(y.type).shape)
        attributes = {
            "shape": codec.encode(shape),
            "broadcast_dimensions": codec.encode(tuple(range(1, len(shape)))),
        }
        stacked.append(r.build("broadcast_in_dim", [out], y.type, attributes))
    return [*final, *stacked]


def _is_array(value: ir.Value) -> bool:
    """Whether a value is an ordinary array without a mesh."""
    aval = aval_of(value.type)
    sharding = getattr(aval, "sharding", None)
    return hasattr(aval, "shape") and sharding is not None and sharding.mesh.empty
