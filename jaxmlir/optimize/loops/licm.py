"""``jaxpr-licm``: loop-invariant code motion.

The pass hoists values that every iteration computes from the loop's constants, if that pays: they
are computed once before the loop, and become constants of the loop.  It visits loops from the
inside out, so a value leaves all loops that it is invariant in.

It is meant to run before differentiation.  XLA hoists invariant code by itself, but only in the
differentiated program: there the invariant value of the primal loop is a residual, and each
iteration of the backward loop propagates its cotangent through the code that computed it.  If the
value is hoisted first, its cotangents are summed up and propagated once.

What is moved
-------------
An op of the body is *invariant* if it is pure, and all its operands are constants of the loop or
invariant.  The pass moves those whose results are worth keeping.  A value ``v`` that other ops of
the body use is moved, with all ops that compute it, if::

    work(ops that compute v)  >  GROWTH * (bytes(v) - bytes(constants that only they need))

Otherwise it stays, and the operands of its op are tried instead (:class:`HoistedOps`).  So a
product, a reduction or a slice is always moved, and an elementwise function of a matrix if the
function is expensive enough.  A broadcast, a mask or an outer product stays: it is quickly computed
and takes long to read.  On devices that wait for kernels, so do slices of a small array of which
the body reads several parts, and what is fused with them: the backward loop would add up the
cotangent of each part by a kernel of its own.  The gradient of a Lotka-Volterra model with four
coefficients takes 0.95 of a TPU's cycles then.

Calls in a body (``jit``, ``remat2``) are split in two if part of the callee is invariant.  Branches
of a ``cond`` are left alone, because they may not run, and so are the rules of custom derivatives.
The body of a ``while`` may not run either.  Ops that leave it are put under a branch on the initial
condition, unless all of them are cheap and their results have no derivative, as for indices.  So
they have to save more than the branch costs: a product of 12 x 4 numbers, in loops of 5 to 20
iterations, made the gradient of two solvers 1.08 times as slow.  A ``scan`` of a symbolic length
that may be 0 is left alone.

A body is split once (:class:`FunctionSplits`), for all loops that share it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jax import lax

from jaxmlir import toolbox
from jaxmlir._compat import dtypes
from jaxmlir.analysis.call_graph import CallGraph, is_plain_call
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.fusion import FUSIBLE
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.analysis.op_counts import Work, is_array, size
from jaxmlir.analysis.purity import CountedOps, is_pure
from jaxmlir.analysis.strided_view import SLICES, VIEWS
from jaxmlir.dialect import codec, op_signature, ops
from jaxmlir.dialect.builder import SPREAD, inline, is_constant, is_used, named_ops, returned
from jaxmlir.dialect.ir import body_of, func, ir
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.compile_time import ITERATIONS
from jaxmlir.optimize.loops.scan_editor import LOOPS, LoopEditor, can_change, loops_of
from jaxmlir.passes.base import Amount, Pass
from jaxmlir.passes.remarks import remark, remarks_wanted
from jaxmlir.rewriting.driver import visit_functions
from jaxmlir.support.lazy import memoized
from jaxmlir.support.masks import Mask, chosen
from jaxmlir.transforms.higher_order.loops import ScanOp, WhileOp
from jaxmlir.transforms.new_function import NewFunction, set_arguments
from jaxmlir.transforms.templates import Rules

# -- Which invariant ops of a function are moved out of it --


# Ops that are not merged with equal ones, but that may be moved.
_MOVABLE = frozenset({"jaxpr.remat2"})
# Ops that compilers fuse, with slices and other views of an array.
_FUSED_PARTS = FUSIBLE | VIEWS


class HoistedOps:
    """The ops to hoist out of a function, chosen by the work they save; all by number.

    Attributes:
      fixed: the arguments that are the same in each run of the function.
      constants: the op that gives each constant.
      moved: the ops to hoist, in their order.
      kept: the hoisted values that become arguments of the function.
      work: the work of the hoisted ops.
    """

    def __init__(
        self,
        body: FunctionView,
        fixed: Sequence[bool],
        work: Work,
        growth: float,
        in_remat: bool,
        can_move: Callable[[Signature], bool],
    ):
        """
        Args:
          growth: how much work saved justifies keeping one byte more.
          in_remat: whether the function is that of a ``remat2``, whose ``name`` ops stay in it.
          can_move: whether an op of a signature gives the same values elsewhere.
        """
        self._body = body
        self._growth = growth
        self._can_move = can_move
        # On devices that wait for kernels, the work of the kernel that adds up a cotangent.
        self._adding = work.kernel if work.waits_for_kernels else 0.0
        self._stored_byte = work.stored_byte
        self.fixed: list[int] = chosen(range(body.arity), fixed)
        self.constants: dict[int, int] = {}
        self._source: dict[int, int] = {}
        self._find_invariant(in_remat)
        self._own = {i: work.at(body, i) for i in sorted(set(self._source.values()))}
        elsewhere = self._used_elsewhere()
        self._needed = elsewhere & self._source.keys()
        self._freed = set(self.fixed) - elsewhere
        self._choose()

    def _find_invariant(self, in_remat: bool) -> None:
        """Finds the invariant values and the ops that give them."""
        body, constants, source, fixed = self._body, self.constants, self._source, set(self.fixed)
        for index, (name, operands) in enumerate(zip(body.names, body.operands, strict=True)):
            if name == "jaxpr.constant" or (
                name in SPREAD and all(v in constants for v in operands)
            ):
                constants[body.results[index][0]] = index
            elif all(v in source or v in fixed or v in constants for v in operands):
                is_kept = in_remat and name == "jaxpr.name"
                if not is_kept and self._can_move(body.signatures[index]):
                    source.update(dict.fromkeys(range(*body.results[index]), index))

    def _used_elsewhere(self) -> set[int]:
        """The values that the function returns, or that ops read that are not invariant."""
        used = set(self._body.returned)
        for index, operands in enumerate(self._body.operands):
            if index not in self._own:
                used.update(operands)
        return used

    def _choose(self) -> None:
        body = self._body
        taken: set[int] = set()
        self.kept: list[int] = []
        for index in reversed(self._own):
            results = [v for v in range(*body.results[index]) if v in self._needed]
            if not results:
                continue
            # Values that cost nothing are best computed where they are used.
            tree = self._tree(index, self._size(results), taken) if self._own[index] else None
            if tree is None:
                self._needed.update(body.operands[index])
            else:
                taken |= tree
                self.kept[:0] = results
        self.moved: list[int] = sorted(taken)
        self.work: float = sum([self._own[index] for index in taken])

    def _tree(self, root: int, kept_bytes: int, taken: set[int]) -> set[int] | None:
        """The ops, not taken yet, that compute an op's results; ``None`` if hoisting does not pay.

        Args:
          kept_bytes: the bytes of the results.
        """
        tree, pending = {root}, [root]
        work = 0.0
        leaves: set[int] = set()
        while pending:
            index = pending.pop()
            work += self._own[index]
            for v in self._body.operands[index]:
                source = self._source.get(v)
                if source is None:
                    leaves.add(v)
                elif source not in tree and source not in taken:
                    tree.add(source)
                    pending.append(source)
        freed = self._size(leaves & self._freed)
        pays = work > self._growth * max(0, kept_bytes - freed)
        return tree if pays and not self._is_part(tree, leaves) else None

    def _is_part(self, tree: set[int], leaves: set[int]) -> bool:
        """Whether ops only take a part of an argument of which the body reads several parts.

        The cotangents of such parts are added up by a kernel each, in each iteration; those of a
        small argument by one kernel.
        """
        names = {self._body.names[index] for index in tree}
        if not names <= _FUSED_PARTS or names.isdisjoint(SLICES) or len(leaves) != 1:
            return False
        if self._stored_byte * self._size(leaves) > self._adding:
            return False
        readers = [i for i, v in enumerate(self._body.operands) if not leaves.isdisjoint(v)]
        in_parts = all(self._body.names[i] in SLICES for i in readers)
        return in_parts and not tree.issuperset(readers)

    def _size(self, values: Iterable[int]) -> int:
        return sum(size(self._body.types[v]) for v in values)


@functools.cache
def can_move(signature: Signature) -> bool:
    """Whether an op of a signature gives the same values elsewhere, provided its callees do."""
    name = signature.name
    if any(key in ("jaxpr.effects", "jaxpr.ctx") for key, _ in signature.attributes):
        return False
    record = ops.record_of(name)
    if not is_pure(name) or (record is not None and name not in _MOVABLE and record.distinct):
        return False
    return all(map(is_array, signature.results))


# Splits of functions: into the part that their fixed arguments determine, if it is worth keeping,
# and the rest.


class CallingConvention(NamedTuple):
    """How an op passes arguments to a function."""

    fixed: Mask
    """The mask of the arguments that are the same in each run of the function."""
    needed: Mask
    """The mask of the arguments that the op has to pass even if the function does not use them."""
    place: int
    """The number of the argument before which new ones are inserted."""


@dataclass(frozen=True, eq=False)
class FunctionSplit:
    """A function that is split in two.

    Attributes:
      symbol: the symbol of the rest.
      template: a detached function from the fixed arguments to the new arguments of the rest.
      uses: the calling convention of the whole function.
      kept: the mask of the old arguments that the rest still takes.
      moved: the ops of the template, by their numbers in the whole function.
      left: the ops of the rest, likewise.
    """

    symbol: str
    template: func.FuncOp
    uses: CallingConvention
    kept: Mask
    moved: Sequence[int]
    left: Sequence[int]

    def arguments(self, operands: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[ir.Value]:
        """The operands of the rest, from those of the whole and the values of the template."""
        place = self.uses.place
        before = chosen(operands[:place], self.kept[:place])
        return [*before, *values, *chosen(operands[place:], self.kept[place:])]

    @property
    def num_before(self) -> int:
        """The number of arguments of the rest up to the last value of the template."""
        return sum(self.kept[: self.uses.place]) + len(self.template.type.results)


class ComputedSplits:
    """The values of splits that are computed in a function so far; it is visited from the top."""

    def __call__(self, split: FunctionSplit, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """The values for an op with those operands, inlined here unless computed before."""
        return self._inlined(split, *chosen(operands, split.uses.fixed))

    @memoized
    def _inlined(self, split: FunctionSplit, *args: ir.Value) -> list[ir.Value]:
        return inline(split.template, args)


class FunctionSplits:
    """Splits the functions of a program, each once for all ops with one calling convention.

    Args:
      bodies: gives out the functions to be split.
      growth: how much work saved justifies keeping one byte more.

    Attributes:
      changed: whether a function was changed, even if only a call in it.
    """

    def __init__(self, rules: Rules, graph: CallGraph, bodies: LoopEditor, growth: float):
        self._rules = rules
        self._growth = growth
        self.changed: bool = False
        self._bodies = bodies
        # The functions that have not changed since they were read.
        self._unchanged = set(graph.uses)
        self._work = Work(rules.program)
        self._counted = CountedOps(rules.program)
        self._by_pattern: dict[tuple[str, str, CallingConvention], FunctionSplit | None] = {}
        # By the structure of a body: bodies that differ in constants only have the same choice.

    def of_scan(
        self, scan: ScanOp, count: int, body: FunctionView | None = None
    ) -> FunctionSplit | None:
        """Splits the body of a scan with ``count`` operands.

        The scan has to run more than once, or at least once if its length is symbolic: values that
        are computed in vain would have derivatives.

        Args:
          body: the view of the body, if the caller has it.
        """
        runs = scan.length > 1 if scan.is_counted else scan.surely_runs
        if not (runs and self.can_change(scan.body)):
            return None
        consts, carry = scan.counts
        # Constants and slices that the body does not use can be dropped.
        needed = tuple([consts <= i < consts + carry for i in range(count)])
        return self.of(
            scan.body, CallingConvention(_first(consts, count), needed, consts), body=body
        )

    def of_while(
        self, symbol: str, consts: int, carry: int, may_not_run: bool
    ) -> FunctionSplit | None:
        """Splits the condition or the body of a while; the rest takes all carried values.

        Args:
          may_not_run: whether it is the body, which runs only if the condition holds.
        """
        count = consts + carry
        uses = CallingConvention(_first(consts, count), count * (True,), consts)
        return self.of(symbol, uses, may_not_run=may_not_run)

    def can_change(self, symbol: str) -> bool:
        return can_change(self._rules.program.function(symbol))

    def of(
        self,
        symbol: str,
        uses: CallingConvention,
        name: str = "",
        body: FunctionView | None = None,
        may_not_run: bool = False,
    ) -> FunctionSplit | None:
        """Splits ``@symbol``; ``None`` if nothing is to be moved out of it.

        Args:
          name: the name of the op if it is a call: other ops may call the function too.
          body: the view of the function, if the caller has it.
          may_not_run: whether the function may not run, so that the work saved has to make up for
            a branch.
        """
        if True not in uses.fixed:
            return None
        key = (symbol, name, uses)
        if key not in self._by_pattern:
            self._by_pattern[key] = None
            function = self._bodies.copy(symbol) if name else self._bodies.own(symbol)
            if body is None or body.function is not function:
                body = self._read(function)
            in_remat = name == "jaxpr.remat2"
            split = self._by_pattern[key] = self._split(body, uses, in_remat, may_not_run)
            if split is None:
                self._bodies.drop(function) if name else self._bodies.give_back(symbol, function)
        return self._by_pattern[key]

    def change(self, function: func.FuncOp) -> None:
        """Records that a function has changed since it was read."""
        self._unchanged.discard(function.name.value)

    def _can_move(self, signature: Signature) -> bool:
        """Whether an op of a signature gives the same values elsewhere."""
        return can_move(signature) and not self._counted(signature)

    def _read(self, function: func.FuncOp) -> FunctionView:
        is_unchanged = function.name.value in self._unchanged
        body = analyses_of(self._rules.program).body
        return body(function) if is_unchanged else FunctionView(function)

    def _split(
        self, body: FunctionView, uses: CallingConvention, in_remat: bool, may_not_run: bool
    ) -> FunctionSplit | None:
        """Splits a function that has no other users."""
        function = body.function
        arguments = list(body_of(function).arguments)
        if not _CALLS.isdisjoint(body.names):
            if self._split_calls(function, chosen(arguments, uses.fixed)):
                self.change(function)
                body = FunctionView(function)
        choice = HoistedOps(body, uses.fixed, self._work, self._growth, in_remat, self._can_move)
        if not choice.kept or (may_not_run and not self._saves_asking(body, choice)):
            return None
        self.change(function)
        template, moved = self._template(body, choice)
        values = [body.value(v) for v in choice.kept]
        for value in values:
            argument = body_of(function).add_argument(value.type, ir.Location.unknown())
            value.replace_all_uses_with(argument)
        new_args = list(body_of(function).arguments)[len(arguments) :]
        left = dict.fromkeys(range(len(body.ops)))
        # Constants may have lost their last user, too.
        for index in sorted({*choice.moved, *choice.constants.values()}, reverse=True):
            if not any(map(is_used, body.ops[index].results)):
                body.ops[index].operation.erase()
                del left[index]
        mask = tuple([n or is_used(v) for n, v in zip(uses.needed, arguments, strict=True)])
        split = FunctionSplit(function.name.value, template, uses, mask, moved, tuple(left))
        set_arguments(function, split.arguments(arguments, new_args))
        return split

    def _saves_asking(self, body: FunctionView, choice: HoistedOps) -> bool:
        """Whether the ops to hoist need no branch on whether the loop runs, or are worth it."""
        costs = self._rules.program.target.costs
        names = [body.names[index] for index in choice.moved]
        if _may_be_in_vain(names, [body.types[v] for v in choice.kept]):
            return True
        return ITERATIONS * choice.work * costs.flop > costs.call

    def _template(self, body: FunctionView, choice: HoistedOps) -> tuple[func.FuncOp, list[int]]:
        """Writes the chosen ops as a function of the fixed arguments; returns their order, too."""
        types = [body.types[v] for v in choice.fixed]
        new = NewFunction(self._rules, "invariant", types, body.function, detached=True)
        values = dict(zip(choice.fixed, new.args, strict=True))
        order: list[int] = []

        def operand(number: int) -> ir.Value:
            """A value of the template; constants are copied into it where they are needed."""
            if number not in values:
                write(choice.constants[number])
            return values[number]

        def write(index: int) -> None:
            operands = [operand(v) for v in body.operands[index]]
            order.append(index)
            values.update(zip(range(*body.results[index]), body.copy(index, operands), strict=True))

        with new.body():
            for index in choice.moved:
                write(index)
        new.finish([values[v] for v in choice.kept])
        return new.op, order

    def _split_calls(self, function: func.FuncOp, fixed: Sequence[ir.Value]) -> bool:
        """Moves the ops in callees that fixed values determine to the function, before the calls;
        whether there were any."""
        determined, computed, changed = set(fixed), ComputedSplits(), False
        for op, name, operands in toolbox.ops_of(function):
            pattern = tuple([v in determined for v in operands])
            if True not in pattern:
                continue
            if all(f or is_constant(v) for f, v in zip(pattern, operands, strict=True)):
                if self._can_move(op_signature.of_op(op, name, operands)):
                    determined.update(op.results)
                continue
            if not _can_split(op, name):
                continue
            symbol = op.attributes["jaxpr"].value
            if not self.can_change(symbol):
                continue
            count = len(operands)
            split = self.of(symbol, CallingConvention(pattern, count * (False,), count), name)
            if split is None:
                continue
            changed = self.changed = True
            with ir.InsertionPoint(op), op.location:
                values = computed(split, operands)
                attributes = dict(op.attributes.items())
                attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(split.symbol)
                attributes.pop("donated_invars", None)
                results = list(op.results.types)
                args = split.arguments(operands, values)
                new = ir.Operation.create(name, results, args, attributes)
            determined.update(values)
            toolbox.replace(op, list(new.results))
        return changed


def _first(number: int, count: int) -> Mask:
    return number * (True,) + (count - number) * (False,)


_CALLS = frozenset({"jaxpr.jit", "jaxpr.remat2"})


def _can_split(op: Any, name: str) -> bool:
    """Whether an op only calls its function, though it may recompute it in the backward pass."""
    if "jaxpr.effects" in op.attributes:
        return False
    if name == "jaxpr.jit":
        return is_plain_call(op, name)
    return name == "jaxpr.remat2" and not isinstance(toolbox.attribute(op, "prevent_cse"), tuple)


# Flops per byte.  Gradients of loops of 100 iterations on two cores, speed and memory relative to
# no code motion, with GROWTH 1 / 0: an outer product in the body 1.0 and 1.0 / 1.9 and 1.8, half of
# a matrix beside the matrix itself 1.0 and 1.0 / 0.8 and 1.5.  More expensive values gain with
# either: a product of matrices 26 and 0.4, a kernel matrix 11 and 0.7, tanh of a matrix 1.3 and
# 0.7, a factorization 2.3 and 0.5.
GROWTH = 1.0


class Licm(Pass):
    """Hoist loop-invariant ops out of loops, where that pays.

    Options:
      growth: how many flops an iteration must save for each byte that is kept longer.
    """

    name: ClassVar[str] = "jaxpr-licm"
    growth: Amount = GROWTH

    def run(self, program: Module) -> bool:
        graph = analyses_of(program).graph
        return visit_functions(
            program, _CodeMotion(program, graph, self.growth).visit, graph, LOOPS
        )


class _CodeMotion:
    """Code motion in one program."""

    def __init__(self, program: Module, graph: CallGraph, growth: float):
        self._program = program
        self._rules = Rules(program)
        self._counted = CountedOps(program)
        self._splits = FunctionSplits(self._rules, graph, LoopEditor(self._rules, graph), growth)

    def visit(self, function: func.FuncOp) -> bool:
        """Moves code out of the loops of a function, after the loops in their bodies; whether any
        function was changed."""
        self._splits.changed = False
        computed = ComputedSplits()
        for op, name in loops_of(function):
            if name == "jaxpr.scan":
                self._scan(op, computed)
            else:
                self._while(op, computed)
        if self._splits.changed:
            self._splits.change(function)
        return self._splits.changed

    def _scan(self, op: Any, computed: ComputedSplits) -> None:
        operands = list(op.operands)
        signature = op_signature.of_op(op, "jaxpr.scan", operands)
        split, attributes = self._split_scan(signature)
        if split is None:
            return
        self._splits.changed = True
        report(split, f"{codec.decode(attributes['length'])} times")
        with ir.InsertionPoint(op), op.location:
            args = split.arguments(operands, computed(split, operands))
            new = ir.Operation.create("jaxpr.scan", signature.results, args, attributes)
        toolbox.replace(op, new.results)

    @memoized
    def _split_scan(
        self, signature: Signature
    ) -> tuple[FunctionSplit | None, dict[str, ir.Attribute]]:
        """Splits the body of a scan; returns the split and the attributes of the new scan."""
        attributes = dict(signature.attributes)
        scan = ScanOp.of_attributes(signature.attributes)
        split = self._splits.of_scan(scan, len(signature.operands))
        if split is not None:
            attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(split.symbol)
            attributes["num_consts"] = codec.encode(split.num_before)
        return split, attributes

    def _while(self, op: Any, computed: ComputedSplits) -> None:
        """Moves code out of a while: its condition runs at least once, its body may not run."""
        loop = WhileOp.of(op)
        if not (self._splits.can_change(loop.cond) and self._splits.can_change(loop.body)):
            return
        operands = list(op.operands)
        # A branch on the initial condition would draw other numbers than the loop.
        if self._counted.has_state(op_signature.of_op(op, "jaxpr.while", operands)):
            return
        of_cond, of_body, init = loop.operands(operands)
        cond = self._splits.of_while(loop.cond, len(of_cond), len(init), False)
        body = self._splits.of_while(loop.body, len(of_body), len(init), True)
        if cond is None and body is None:
            return
        self._splits.changed = True
        with ir.InsertionPoint(op), op.location:
            if cond is not None:
                report(cond, "in each iteration")
                of_cond += computed(cond, [*of_cond, *init])
                loop = loop._replace(cond=cond.symbol, cond_consts=len(of_cond))
            if body is not None:
                report(body, "in each iteration (there may be none)")
                names = [name for _, name in named_ops(body.template)]
                if _may_be_in_vain(names, body.template.type.results):
                    of_body += computed(body, [*of_body, *init])
                else:
                    function = self._program.function(loop.cond)
                    (predicate,) = inline(function, [*of_cond, *init])
                    of_body += self._guarded(predicate, body, of_body)
                loop = loop._replace(body=body.symbol, body_consts=len(of_body))
            toolbox.replace(op, loop.write(self._rules, [*of_cond, *of_body, *init]))

    def _guarded(
        self, predicate: ir.Value, split: FunctionSplit, consts: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The values of a template if the predicate holds, else arbitrary values."""
        (index,) = self._rules.emit(_as_index, [predicate])
        attributes = {"branches": self._write_branches(split)}
        types = list(split.template.type.results)
        return list(ir.Operation.create("jaxpr.cond", types, [index, *consts], attributes).results)

    @memoized
    def _write_branches(self, split: FunctionSplit) -> ir.ArrayAttr:
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


def report(split: FunctionSplit, often: str) -> None:
    """Reports the values that are computed before a loop instead of in it.

    Args:
      often: how often they were computed in the loop.
    """
    for value in returned(split.template) if remarks_wanted() else ():
        if not isinstance(value.owner, ir.Block):
            remark(
                value.owner,
                f"moved out of the loop: '{value.owner.name}' of {size(value.type)} bytes is "
                f"computed once, not {often}",
            )


def _may_be_in_vain(names: Iterable[str], types: Iterable[ir.Type]) -> bool:
    """Whether values may be computed without a branch, even if the loop then does not run.

    Their ops must cost less than the branch, and they must have no derivatives: unused, these would
    be zero times factors that may be infinite.  A branch has another cost: XLA merges two equal
    loops, but not two equal conditionals, as in a gradient that calls a solver twice with the same
    right-hand side.

    Args:
      names: the names of the ops that compute the values.
      types: the types of the values.
    """
    return _QUICK.issuperset(names) and not any(
        dtypes.issubdtype(aval_of(type_).dtype, np.inexact) for type_ in types
    )


_QUICK = FUSIBLE | {"jaxpr.constant"}


def _as_index(predicate: Any) -> list[Any]:
    """The branch index for a predicate; a batched loop runs while any predicate holds."""
    if predicate.ndim:
        predicate = lax.reduce_or(predicate, tuple(range(predicate.ndim)))
    return [lax.convert_element_type(predicate, "int32")]
