"""``jaxpr-licm``: loop-invariant code motion.

What every iteration of a loop computes anew from the loop's constants is computed once before the
loop, if that pays, and becomes a constant itself.  Loops are gone through from the inside out, so a
value leaves as many loops as it is invariant in.

It is meant to run before differentiation.  XLA moves invariant code by itself, but only in the
program that it is given: there the invariant value of the primal loop is a residual, and its
cotangent flows back through the code that computed it in each iteration of the backward loop.
Moved first, its cotangents are summed up and flow back once.

What is moved
-------------
Of the body's *invariant* ops (pure, their operands constants of the loop or invariant) those are
chosen whose results are worth keeping.  A value ``v`` that other ops of the body use is moved, with
all that it is computed from, if::

    work(ops that compute v)  >  GROWTH * (bytes(v) - bytes(constants that only they need))

and otherwise stays, and the question is asked of the operands of its op (:mod:`._choice`).  So a
product, a reduction or a slice is moved always, and a function of a matrix for the price of a
function; a broadcast, a mask or an outer product, which are quickly made and take long to read,
stay where they are.

Calls in a body (``jit``, ``remat2``) are split in two where part of what they do is invariant.
Branches of a ``cond`` are not looked into, for they may not run, nor are the rules of custom
derivatives.  The body of a ``while`` may not run either: what leaves it is computed only if the
condition holds at the start, unless it is known to, or unless all of it is quickly computed and has
no derivative, like indices.  A ``scan`` of a symbolic length that may be 0 is left alone.

A body is taken apart once (:mod:`._splits`), for all loops that share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxmlir import toolbox
from jaxmlir._compat import dtypes
from jaxmlir.analysis.call_graph import CallGraph, visit_functions
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import size
from jaxmlir.dialect import codec, op_signature
from jaxmlir.dialect.builder import inline, named_ops, returned
from jaxmlir.dialect.ir import func, ir, scope
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.loops.licm.splits import Computed, Split, Splits
from jaxmlir.optimize.loops.scan_editor import LOOPS, LoopEditor, loops_of
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.transforms.higher_order.scan_op import ScanOp
from jaxmlir.transforms.higher_order.while_op import WhileOp
from jaxmlir.transforms.new_function import NewFunction
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Flops per byte.  Gradients of loops of 100 iterations on two cores, speed and memory against no
# code motion, at 1 / 0: an outer product in the body 1.0 and 1.0 / 1.9 and 1.8, half of a matrix
# beside the matrix itself 1.0 and 1.0 / 0.8 and 1.5.  What costs more than that gains at either: a
# product of matrices 26 and 0.4, a kernel matrix 11 and 0.7, tanh of a matrix 1.3 and 0.7, a
# factorization 2.3 and 0.5.
GROWTH = 1.0


class Licm(Pass):
    """Compute before a loop what is the same in each of its iterations, where that pays.

    Options:
      growth: how many flops saved in an iteration justify keeping one byte more.
    """

    name: ClassVar[str] = "jaxpr-licm"
    growth: Amount = GROWTH

    def run(self, program: Module) -> bool:
        return licm(program, self.growth) > 0


def licm(program: Module, growth: float = GROWTH) -> int:
    """Moves invariant code out of the loops of a program, in place; how many values are kept."""
    with scope():
        graph = analyses_of(program).graph
        motion = _Motion(program, graph, growth)
        visit_functions(program, motion.visit, graph, LOOPS)
    return motion.count


class _Motion:
    """Code motion in one program."""

    def __init__(self, program: Module, graph: CallGraph, growth: float):
        self.count = 0
        self._program = program
        self._rules = Rules(program)
        self._splits = Splits(self._rules, graph, LoopEditor(self._rules, graph), growth)
        self._scans: dict[Signature, tuple[Split | None, dict[str, ir.Attribute]]] = {}
        self._branches: dict[Split, ir.ArrayAttr] = {}

    def visit(self, function: func.FuncOp) -> bool:
        """Moves code out of the loops of a function, those in its loops being done; whether any
        function was changed meanwhile."""
        self._splits.changed = False
        computed = Computed()
        for op, name in loops_of(function):
            if name == "jaxpr.scan":
                self._scan(op, computed)
            else:
                self._while(op, computed)
        if self._splits.changed:
            self._splits.change(function)
        return self._splits.changed

    def _scan(self, op: Any, computed: Computed) -> None:
        operands = list(op.operands)
        signature = op_signature.of_op(op, "jaxpr.scan", operands)
        if signature not in self._scans:
            self._scans[signature] = self._split_scan(op)
        split, attributes = self._scans[signature]
        if split is None:
            return
        self._splits.changed = True
        self._report(split, f"{codec.decode(attributes['length'])} times")
        with ir.InsertionPoint(op), op.location:
            args = split.arguments(operands, computed(split, operands))
            new = ir.Operation.create("jaxpr.scan", signature.results, args, attributes)
        toolbox.replace(op, new.results)

    def _split_scan(self, op: Any) -> tuple[Split | None, dict[str, ir.Attribute]]:
        """The body of a scan in two, and the attributes of the scan with what is left of it."""
        scan, attributes = ScanOp.of(op), dict(op.attributes.items())
        split = self._splits.of_scan(scan, len(op.operands))
        if split is not None:
            attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(split.symbol)
            attributes["num_consts"] = codec.encode(split.num_before)
        return split, attributes

    def _while(self, op: Any, computed: Computed) -> None:
        """The condition runs at least once; the body, if the condition says so."""
        loop = WhileOp.of(op)
        if not (self._splits.can_change(loop.cond) and self._splits.can_change(loop.body)):
            return
        of_cond, of_body, init = loop.operands(list(op.operands))
        cond, body = (
            self._splits.of_while(symbol, len(consts), len(init))
            for symbol, consts in ((loop.cond, of_cond), (loop.body, of_body))
        )
        if cond is None and body is None:
            return
        self._splits.changed = True
        with ir.InsertionPoint(op), op.location:
            if cond is not None:
                self._report(cond, "in each iteration")
                of_cond += computed(cond, [*of_cond, *init])
                loop = replace(loop, cond=cond.symbol, cond_consts=len(of_cond))
            if body is not None:
                self._report(body, "in each iteration, if there is any")
                if _may_be_in_vain(body):
                    of_body += computed(body, [*of_body, *init])
                else:
                    function = self._program.function(loop.cond)
                    (predicate,) = inline(function, [*of_cond, *init])
                    of_body += self._guarded(predicate, body, of_body)
                loop = replace(loop, body=body.symbol, body_consts=len(of_body))
            toolbox.replace(op, loop.write(self._rules, [*of_cond, *of_body, *init]))

    def _guarded(
        self, predicate: ir.Value, split: Split, consts: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """What a template computes if the predicate holds, else values that nobody looks at."""
        if split not in self._branches:
            self._branches[split] = self._write_branches(split)
        (index,) = self._rules.emit(_as_index, [predicate], "licm.index")
        attributes = {"branches": self._branches[split]}
        types = list(split.template.type.results)
        return list(ir.Operation.create("jaxpr.cond", types, [index, *consts], attributes).results)

    def _write_branches(self, split: Split) -> ir.ArrayAttr:
        template, like = split.template, self._program.function(split.symbol)
        branches = []
        for name in ("skip", "invariant"):
            new = NewFunction(self._rules, name, template.type.inputs, like)
            with new.body(), like.location:
                if name == "invariant":
                    values = inline(template, new.args)
                else:
                    values = [self._rules.filler(t) for t in template.type.results]
            branches.append(ir.FlatSymbolRefAttr.get(new.finish(values)))
        return ir.ArrayAttr.get(branches)

    def _report(self, split: Split, often: str) -> None:
        self.count += len(split.template.type.results)
        report(split, often)


def report(split: Split, often: str) -> None:
    """Tells what is computed before a loop instead of in it.

    Args:
      often: how often it was.
    """
    for value in returned(split.template) if remarks_wanted() else ():
        if not isinstance(value.owner, ir.Block):
            remark(
                value.owner,
                f"moved out of the loop: '{value.owner.name}' of {size(value.type)} bytes is "
                f"computed once, not {often}",
            )


def _may_be_in_vain(split: Split) -> bool:
    """Whether values take no longer to compute than to ask whether they are needed, and have no
    derivatives, which are zero times what may be infinite where they are not.

    XLA sees that two loops are the same, but not that two conditionals are: of a gradient in which
    a solver is called twice with the same right-hand side.
    """
    avals = map(aval_of, split.template.type.results)
    return _QUICK.issuperset(name for _, name in named_ops(split.template)) and not any(
        dtypes.issubdtype(aval.dtype, np.inexact) for aval in avals
    )


_QUICK = FUSIBLE | {"jaxpr.constant"}


def _as_index(predicate: Any) -> list[Any]:
    """The branch for a predicate; a batch of loops goes on while one of them does."""
    from jax import lax

    if predicate.ndim:
        predicate = lax.reduce_or(predicate, tuple(range(predicate.ndim)))
    return [lax.convert_element_type(predicate, "int32")]
