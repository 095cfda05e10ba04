"""``jaxpr-pad-slices``: writes slices that are padded or concatenated as pads with edges of
negative width.

A step on a periodic grid reads neighbours by ``roll(x, 1)``, a concatenation of two slices::

    concatenate(x[n-1:], x[:n-1])    ->    pad(x, 1 - n, n - 1) + pad(x, 1, -1)

and its derivative pads the slices that it splits off::

    pad(x[k:], 0, k)    ->    pad(x, -k, k)

A TPU's compiler fuses ``pad`` with the arithmetic around it, even with edges of negative width,
which cut elements off.  But a slice that is padded is a kernel of its own, and a concatenation is
compiled to padded operands.  This pass pads each operand of a concatenation with negative zeros,
which change no bit of a sum.  If all operands but one repeat the same number, as in a shift,
``concatenate([0, x[:n-1]])``, that one is padded with the number.

Cycles of a step, forwards and of its gradient, as fractions of those of slices (libtpu 0.0.42)::

    2-D periodic, 64 x 64      0.25, 0.38        Lorenz-96, 40         0.25, 0.32
    512 x 512                  0.64, 0.73        20,000                0.35, 0.52

Each operand is computed for all elements of the result; this has to take less time than the kernels
of the slices.  A slice of a few rows of a large array stays, and is padded: for steps on 1024 x
1024, cycles are 0.82 of those with two pads for each roll (0.67 by libtpu 0.0.50), for 512 x 512
0.99 (0.85), but they would be 1.4 (1.3) for 256 x 256.

The compiler stores a value that is padded in several places, once.  It also fuses the value, with
the pads that it is computed from, into kernels that read it element by element, so that backward
steps compute the forward step again.  Behind a barrier, kernels that run later than those that pad
the value read the stored value.  Cycles of gradients of unrolled steps, as fractions of JAX's,
without and with barriers::

    64 x 64, periodic   0.29, 0.26     512 x 512, zeros around   1.00, 0.52
    1024 x 1024         1.22, 0.91     64 x 64 x 64, periodic    0.87, 0.67
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir._compat import dtypes
from jaxmlir.analysis.arithmetic import additive_identity
from jaxmlir.analysis.function_view import OpView, number_of, ops_of
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.op_counts import elements, is_plain_array, is_plain_op
from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.errors import count
from jaxmlir.optimize.barriers import barrier
from jaxmlir.optimize.cpu.pad_stencils import MOVES, Edges, PaddingOps, padded
from jaxmlir.passes.base import Pass
from jaxmlir.passes.levels import COMPILERS
from jaxmlir.passes.remarks import remark
from jaxmlir.rewriting.driver import rewrite_functions
from jaxmlir.targets.costs import Costs
from jaxmlir.transforms.templates import Rules

_PAD = "jaxpr.pad"


class PadSlices(Pass):
    """Write padded or concatenated slices as pads with negative edges, and store padded values."""

    name: ClassVar[str] = "jaxpr-pad-slices"
    compilers: ClassVar[tuple[str, ...]] = COMPILERS[name]
    partitioned: ClassVar[bool] = False

    def run(self, program: Module) -> bool:
        rules = Rules(program)

        def pad(function: func.FuncOp) -> int:
            moves = PaddingOps(program, function)
            return sum(_write(rules, moves, node) for node in moves.order)

        rewritten = rewrite_functions(program, MOVES, pad)
        return rewritten + rewrite_functions(program, {_PAD}, _store, drop_dead=False) > 0


def _write(rules: Rules, moves: PaddingOps, node: OpView) -> bool:
    """Writes a padded slice, or a concatenation of slices, without slices, if that pays."""
    (y,) = node.op.results
    if not is_plain_op(node) or not is_plain_array(y.type):
        return False
    is_pad = node.name == _PAD
    costs = rules.program.target.costs
    edged = (_padded if is_pad else _concatenated)(moves, node, costs)
    if edged is None or not (is_pad or _pays(edged, y.type, costs)):
        return False
    remark(
        node.op,
        f"replaced {count(edged.slices, 'slice')} by negative padding, which is fused into the "
        "kernel that reads this",
    )
    with ir.InsertionPoint(node.op), node.op.location:
        if edged.fill is None:
            form, operands = functools.partial(_sum, edges=edged.edges), edged.arrays
        else:
            form, fill = functools.partial(padded, edges=edged.edges[0]), edged.fill
            if not isinstance(fill, ir.Value):
                scalar = ir.RankedTensorType.get([], y.type.element_type)
                fill = toolbox.constant(rules.program, fill, scalar)
            operands = [*edged.arrays, fill]
        (value,) = rules.emit(form, operands)
        y.replace_all_uses_with(converted(value, y.type))
    return True


class _EdgedArrays(NamedTuple):
    """Arrays with their edges; the number of slices that are saved; and the value or number that a
    single array is padded with."""

    arrays: list[ir.Value]
    edges: tuple[Edges, ...]
    slices: int
    fill: ir.Value | np.generic | None = None


def _stays(value: ir.Value, node: OpView, costs: Costs) -> bool:
    """Whether a slice is so small a part of the result that its kernel takes less time than padding
    the whole array."""
    size = elements(node.op.results[0].type)
    return 8 * elements(value.type) < size and size * dict(costs.elements)["pad"] > costs.launch


def _padded(moves: PaddingOps, node: OpView, costs: Costs) -> _EdgedArrays | None:
    """Matches ``pad`` of a slice, if no side is both cut and padded."""
    if any(interior for *_, interior in node.get("padding_config")):
        return None
    if _stays(node.operands[0], node, costs):
        return None
    edges = tuple((low, high) for low, high, _ in node.get("padding_config"))
    whole = moves.whole(node.operands[0], edges)
    return None if whole is None else _EdgedArrays([whole[0]], (whole[1],), 1, node.operands[1])


def _concatenated(moves: PaddingOps, node: OpView, costs: Costs) -> _EdgedArrays | None:
    """Matches ``concatenate``, at least one of whose operands is a slice that can be padded."""
    dtype = aval_of(node.op.results[0].type).dtype
    if isinstance(dtype, dtypes.ExtendedDType) or dtype == np.bool_:
        return None
    numbers = [number_of(value) for value in node.operands]
    repeated = {number.tobytes(): number for number in numbers if number is not None}
    is_shift = numbers.count(None) == len(repeated) == 1
    dim, total = int(node.get("dimension")), node.op.results[0].type.shape
    arrays, all_edges, start, slices = [], [], 0, 0
    for value, number in zip(node.operands, numbers, strict=True):
        shape = value.type.shape
        edges = [(0, 0)] * len(shape)
        edges[dim] = start, total[dim] - start - shape[dim]
        start += shape[dim]
        if is_shift and number is not None:
            continue
        stays = _stays(value, node, costs)
        whole = None if stays else moves.whole(value, tuple(edges))
        slices += whole is not None
        array, edges = whole or (value, tuple(edges))
        arrays.append(array)
        all_edges.append(edges)
    fill = next(iter(repeated.values())) if is_shift else None
    return _EdgedArrays(arrays, (*all_edges,), slices, fill) if slices else None


def _pays(padded: _EdgedArrays, type_: ir.Type, costs: Costs) -> bool:
    """Whether kernels of slices take longer than padding each operand to the size of the result."""
    return elements(type_) * len(padded.arrays) * costs.flop < padded.slices * costs.launch


def _sum(*xs: Any, edges: tuple[Edges, ...]) -> list[Any]:
    """The sum of padded arrays, which are zero where another one is not."""
    zero = additive_identity(xs[0].dtype)
    parts = (padded(x, zero, edges=of_x)[0] for x, of_x in zip(xs, edges, strict=True))
    return [functools.reduce(lax.add, parts)]


# -- Barriers behind padded values --


def _store(function: func.FuncOp) -> int:
    """Puts barriers behind steps that later kernels read; returns their number."""
    stored = _Steps(function).read_later()
    for step in stored:
        op = step.owner
        remark(op, "stored because later kernels would recompute it with its pads")
        with ir.InsertionPoint.after(op), op.location:
            (fenced,) = barrier([step])
        step.replace_all_uses_except(fenced, fenced.owner.operation)
    return len(stored)


class _Steps:
    """The *steps* of a function: values that one kernel computes from pads and another pads.

    Attributes:
      nodes: the ops.
      padded: the values that pads read.
      depths: about how many kernels, one after another, compute a value.
      steps: the values that are padded and computed from pads.
      joined: steps that an elementwise op reads, perhaps through others, together with another step
        of the same depth: one kernel computes both, and stores functions of both.
    """

    def __init__(self, function: func.FuncOp):
        self.nodes = list(ops_of(function))
        self.padded = {node.operands[0] for node in self.nodes if node.name == _PAD}
        self.depths: dict[ir.Value, int] = {}
        self.steps: set[ir.Value] = set()
        self.joined: set[ir.Value] = set()
        # Whether the kernel that computes a value pads; and the deepest step that it reads.
        pads: dict[ir.Value, bool] = {}
        made_of: dict[ir.Value, ir.Value] = {}
        for node in self.nodes:
            is_pad, is_fused = node.name == _PAD, node.name in FUSIBLE
            depth = max((self.depths.get(v, 0) for v in node.operands), default=0)
            depth += is_pad or not is_fused
            fused = [v for v in node.operands if is_fused and v not in self.padded]
            is_padding = is_pad or any(pads.get(v, False) for v in fused)
            # A dict has an order; that of a set would depend on the addresses of values.
            read = dict.fromkeys(
                made_of[v] for v in node.operands if is_fused and not is_pad and v in made_of
            )
            last = max(map(self.depths.__getitem__, read), default=0)
            deepest = [v for v in read if self.depths[v] == last]
            if len(deepest) > 1:
                self.joined.update(deepest)
            for result in node.op.results:
                self.depths[result], pads[result] = depth, is_padding
                if is_padding and result in self.padded:
                    self.steps.add(result)
                    made_of[result] = result
                elif deepest:
                    made_of[result] = deepest[0]

    def read_later(self) -> list[ir.Value]:
        """The steps, but for joined ones, that kernels read which run after those that pad them."""
        # The depth of the first kernel that needs a value; fused ops run where they are read.
        first: dict[ir.Value, int] = {}

        def needed_at(op: ir.Operation) -> int:
            return min((first[result] for result in op.results), default=0)

        late = []
        for result in (v for node in reversed(self.nodes) for v in node.op.results):
            readers = [use.owner for use in result.uses]
            if result not in self.padded and all(op.name in FUSIBLE for op in readers):
                first[result] = min(map(needed_at, readers), default=0)
            else:
                first[result] = self.depths[result]
            if result in self.steps and result not in self.joined:
                padding = max(needed_at(op) for op in readers if op.name == _PAD)
                if any(needed_at(op) > padding for op in readers):
                    late.append(result)
        return late
