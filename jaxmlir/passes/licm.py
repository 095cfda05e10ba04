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

and otherwise stays, and the question is asked of the operands of its op.  So a product, a reduction
or a slice is moved always, and a function of a matrix for the price of a function; a broadcast, a
mask or an outer product, which are quickly made and take long to read, stay where they are.

Calls in a body (``jit``, ``remat2``) are split in two where part of what they do is invariant.
Branches of a ``cond`` are not looked into, for they may not run, nor are the rules of custom
derivatives.  The body of a ``while`` may not run either: what leaves it is computed only if the
condition holds at the start, unless it is known to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jaxmlir import ops
from jaxmlir._lists import chosen
from jaxmlir.ir import func, ir, scope
from jaxmlir.passes import toolbox
from jaxmlir.passes._base import Pass
from jaxmlir.passes._bodies import Bodies, Constant, ScanEditor, can_change, is_used, loops_of
from jaxmlir.passes._build import (
    NewFunction,
    clone,
    copy,
    inline,
    is_constant,
    ops_of,
    returned,
    visit_functions,
    zeros,
)
from jaxmlir.passes._edit import set_arguments
from jaxmlir.passes._purity import is_pure
from jaxmlir.passes._remarks import remark, remarks_wanted
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._work import Work, is_array, size
from jaxmlir.passes.higher_order.while_loop import WhileOp
from jaxmlir.passes.inline import is_plain_call

if TYPE_CHECKING:
    from jaxmlir.program import Program

# Flops per byte.  Gradients of loops of 100 iterations on two cores, speed and memory against no
# code motion, at 1 / 0: an outer product in the body 1.0 and 1.0 / 1.9 and 1.8, half of a matrix
# beside the matrix itself 1.0 and 1.0 / 0.8 and 1.5.  What costs more than that gains at either: a
# product of matrices 26 and 0.4, a kernel matrix 11 and 0.7, tanh of a matrix 1.3 and 0.7, a
# factorization 2.3 and 0.5.
GROWTH = 1.0


@dataclass(frozen=True)
class Licm(Pass):
    """Compute before a loop what is the same in each of its iterations, where that pays.

    Options:
      growth: how many flops saved in an iteration justify keeping one byte more.
    """

    name: ClassVar[str] = "jaxpr-licm"
    growth: float = GROWTH

    def run(self, program: Program) -> None:
        licm(program, self.growth)


def licm(program: Program, growth: float = GROWTH) -> int:
    """Moves invariant code out of the loops of a program, in place; how many values are kept."""
    with scope():
        motion = _Motion(program, growth)
        visit_functions(program, motion.visit)
    program.changed()
    return motion.count


@dataclass(frozen=True)
class _Extracted:
    """Code taken out of a function."""

    function: func.FuncOp
    """Detached: from invariant arguments to the values that the function now takes instead."""
    arguments: list[ir.Value]
    """The function's new arguments for these."""
    work: float

    @property
    def kept(self) -> int:
        """How many bytes the values take."""
        return sum(size(v.type) for v in self.arguments)


class _Split(NamedTuple):
    """A function that others call, in two."""

    symbol: str
    template: func.FuncOp
    """From fixed arguments to the values that ``@symbol`` takes last."""
    used: list[bool]
    """Which arguments it takes before them."""


class _Motion:
    """Code motion in one program."""

    def __init__(self, program: Program, growth: float):
        self.count = 0
        self._program = program
        self._rules = Rules(program)
        self._bodies = Bodies(self._rules)
        self._work = Work(program)
        self._growth = growth
        self._calls: dict[tuple[str, tuple[bool, ...]], _Split | None] = {}

    def visit(self, function: func.FuncOp) -> None:
        """Moves code out of the loops of a function, those in its loops being done."""
        for op, name in loops_of(function):
            symbols = [op.attributes[a].value for a in _BODIES[name]]
            if all(can_change(self._program.function(symbol)) for symbol in symbols):
                self._scan(op) if name == "jaxpr.scan" else self._while(op)

    # --- loops ---

    def _scan(self, op: Any) -> None:
        editor = ScanEditor(self._bodies, op)
        found = None
        if editor.scan.length > 1:
            found = self._extract(editor.body, [item.arg for item in editor.consts])
        if found is None:
            editor.cancel()
            return
        self._report(op, found, f"{editor.scan.length} times")
        with ir.InsertionPoint(op), op.location:
            values = inline(found.function, [item.operand for item in editor.consts])
        pairs = zip(values, found.arguments, strict=True)
        editor.consts += [Constant(value, argument) for value, argument in pairs]
        editor.write()
        editor.finish()

    def _while(self, op: Any) -> None:
        """The condition runs at least once; the body, if the condition says so."""
        loop = WhileOp.of(op)
        of_cond, of_body, init = loop.operands(list(op.operands))
        cond, body = self._bodies.own(loop.cond), self._bodies.own(loop.body)
        found = [
            self._extract(function, list(function.arguments)[: len(consts)])
            for function, consts in ((cond, of_cond), (body, of_body))
        ]
        if found == [None, None]:
            self._bodies.give_back(loop.cond, cond)
            self._bodies.give_back(loop.body, body)
            return
        with ir.InsertionPoint(op), op.location:
            if found[0] is not None:
                self._report(op, found[0], "in each iteration")
                of_cond += inline(found[0].function, of_cond)
            _add_constants(cond, loop.cond_consts, found[0])
            if found[1] is not None:
                self._report(op, found[1], "in each iteration, if there is any")
                (predicate,) = inline(cond, [*of_cond, *init])
                of_body += self._guarded(predicate, found[1].function, of_body, body)
            _add_constants(body, loop.body_consts, found[1])
            new = replace(
                loop,
                cond=cond.name.value,
                body=body.name.value,
                cond_consts=len(of_cond),
                body_consts=len(of_body),
            )
            results = new.write(self._rules, [*of_cond, *of_body, *init])
        for old, value in zip(op.results, results, strict=True):
            old.replace_all_uses_with(value)
        op.operation.erase()

    def _guarded(
        self,
        predicate: ir.Value,
        template: func.FuncOp,
        args: Sequence[ir.Value],
        like: func.FuncOp,
    ) -> list[ir.Value]:
        """What the template computes if the predicate holds, else zeros, which nobody looks at."""
        types = [v.type for v in args]
        branches = []
        for name, computed in (("skip", False), ("invariant", True)):
            new = NewFunction(self._rules, name, types, like)
            with new.body(), like.location:
                if computed:
                    values = inline(template, new.args)
                else:
                    values = [zeros(t) for t in template.type.results]
            branches.append(ir.FlatSymbolRefAttr.get(new.finish(values)))
        (index,) = self._rules.emit(_as_index, [predicate], "licm.index")
        attributes = {"branches": ir.ArrayAttr.get(branches)}
        results = list(template.type.results)
        return list(ir.Operation.create("jaxpr.cond", results, [index, *args], attributes).results)

    def _report(self, op: Any, found: _Extracted, often: str) -> None:
        self.count += len(found.arguments)
        if remarks_wanted():
            for value in returned(found.function):
                if isinstance(value.owner, ir.Block):
                    continue
                remark(
                    value.owner,
                    f"moved out of the loop: '{value.owner.name}' of {size(value.type)} bytes is "
                    f"computed once, not {often}",
                )

    # --- functions ---

    def _extract(
        self, function: func.FuncOp, invariant: Sequence[ir.Value], in_remat: bool = False
    ) -> _Extracted | None:
        """Takes code out of a function that nobody else uses.

        The function has new arguments at its end then, of which its type does not know yet.

        Args:
          invariant: those of its arguments that are the same in every iteration.
        """
        if not invariant:
            return None
        self._split_calls(function, invariant)
        nodes = self._invariant_ops(function, invariant, in_remat)
        choice = _Choice(function, nodes, invariant, self._work, self._growth)
        if not choice.kept:
            return None
        new = NewFunction(
            self._rules, "invariant", [v.type for v in invariant], function, detached=True
        )
        values = dict(zip(invariant, new.args, strict=True))
        with new.body():
            for op, name, operands in choice.moved:
                for v in operands:
                    if v not in values:
                        values[v] = clone(v)
                args = [values[v] for v in operands]
                values.update(zip(op.results, copy(op, name, args), strict=True))
        new.finish([values[v] for v in choice.kept])
        arguments = []
        for v in choice.kept:
            arguments.append(function.entry_block.add_argument(v.type, ir.Location.unknown()))
            v.replace_all_uses_with(arguments[-1])
        for op, *_ in reversed(choice.moved):
            if not any(map(is_used, op.results)):
                op.operation.erase()
        return _Extracted(new.op, arguments, choice.work)

    def _invariant_ops(
        self, function: func.FuncOp, invariant: Sequence[ir.Value], in_remat: bool
    ) -> list[tuple[Any, str, list[ir.Value]]]:
        known = set(invariant)
        found = []
        for op, name, operands in ops_of(function):
            results = list(op.results)
            if len(results) == 1 and is_constant(results[0]):
                continue
            if all(v in known or is_constant(v) for v in operands) and _can_move(op, name):
                if in_remat and name == "jaxpr.name":
                    continue
                known.update(results)
                found.append((op, name, operands))
        return found

    # --- calls ---

    def _split_calls(self, function: func.FuncOp, invariant: Sequence[ir.Value]) -> None:
        """Takes the invariant part of calls out of them, into the function."""
        known = set(invariant)
        before: dict[Any, list[ir.Value]] = {}
        for op, name, operands in toolbox.ops_of(function):
            fixed = tuple([v in known for v in operands])
            if True not in fixed:
                continue
            if all(f or is_constant(v) for f, v in zip(fixed, operands, strict=True)):
                if _can_move(op, name):
                    known.update(op.results)
                continue
            if not _can_split(op, name):
                continue
            split = self._split(op.attributes["jaxpr"].value, fixed, name)
            if split is None:
                continue
            symbol, template, used = split
            args = chosen(operands, fixed)
            with ir.InsertionPoint(op), op.location:
                values = before.get((symbol, *args)) or inline(template, args)
                before[symbol, *args] = values
                attributes = dict(op.attributes.items())
                attributes["jaxpr"] = ir.FlatSymbolRefAttr.get(symbol)
                attributes.pop("donated_invars", None)
                results = ir.Operation.create(
                    name,
                    list(op.results.types),
                    [*chosen(operands, used), *values],
                    attributes,
                ).results
            known.update(values)
            for old, new in zip(op.results, results, strict=True):
                old.replace_all_uses_with(new)
            op.operation.erase()

    def _split(self, symbol: str, fixed: tuple[bool, ...], name: str) -> _Split | None:
        """The function without what its fixed arguments determine."""
        key = (symbol, fixed)
        if key not in self._calls:
            self._calls[key] = None
            if can_change(self._program.function(symbol)):
                function = self._bodies.copy(symbol)
                arguments = list(function.arguments)
                found = self._extract(
                    function, chosen(arguments, fixed), in_remat=name == "jaxpr.remat2"
                )
                if found is None:
                    self._bodies.drop(function)
                else:
                    used = [is_used(v) for v in arguments]
                    set_arguments(function, [*chosen(arguments, used), *found.arguments])
                    self._calls[key] = _Split(function.name.value, found.function, used)
        return self._calls[key]


class _Choice:
    """Which of a function's invariant ops are moved.

    Attributes:
      moved: the ops, in their order, with name and operands.
      kept: the values that remain to be given to the function.
      work: of the ops moved.
    """

    def __init__(
        self,
        function: func.FuncOp,
        nodes: list[tuple[Any, str, list[ir.Value]]],
        invariant: Sequence[ir.Value],
        work: Work,
        growth: float,
    ):
        self._nodes = nodes
        self._growth = growth
        self._source = {v: i for i, (op, *_) in enumerate(nodes) for v in op.results}
        self._own = [work.of(op, name) for op, name, _ in nodes]
        users = {v: 0 for v in invariant}
        inside = {v: 0 for v in invariant}
        self._needed: set[ir.Value] = set(returned(function))
        for op, _, operands in ops_of(function):
            for v in operands:
                if v in users:
                    users[v] += 1
                elif v in self._source and op.results[0] not in self._source:
                    self._needed.add(v)
        for _, _, operands in nodes:
            for v in operands:
                if v in inside:
                    inside[v] += 1
        returned_values = set(returned(function))
        self._freed = {v for v in invariant if users[v] == inside[v] and v not in returned_values}
        self._choose()

    def _choose(self) -> None:
        self._taken: set[int] = set()
        kept: list[ir.Value] = []
        for i in range(len(self._nodes) - 1, -1, -1):
            op, _, operands = self._nodes[i]
            results = [v for v in op.results if v in self._needed]
            if not results:
                continue
            # What costs nothing to compute is best computed where it is used.
            tree = self._tree(i, sum(size(v.type) for v in results)) if self._own[i] else None
            if tree is None:
                self._needed.update(operands)
            else:
                self._taken |= tree
                kept[:0] = results
        self.moved = [self._nodes[i] for i in sorted(self._taken)]
        self.kept = kept
        self.work = sum(self._own[i] for i in self._taken)

    def _tree(self, root: int, kept: int) -> set[int] | None:
        """The nodes, not taken yet, that compute a node's results, if keeping these pays."""
        found = {root}
        pending = [root]
        work, freed = 0.0, 0
        leaves: set[ir.Value] = set()
        while pending:
            i = pending.pop()
            work += self._own[i]
            for v in self._nodes[i][2]:
                source = self._source.get(v)
                if source is None:
                    if v in self._freed and v not in leaves:
                        leaves.add(v)
                        freed += size(v.type)
                elif source not in found and source not in self._taken:
                    found.add(source)
                    pending.append(source)
        return found if work > self._growth * max(0, kept - freed) else None


_BODIES = {"jaxpr.scan": ("jaxpr",), "jaxpr.while": ("cond_jaxpr", "body_jaxpr")}
# Ops that no other is the same as, but that may be moved.
_MOVABLE = frozenset({"jaxpr.remat2"})


def _can_move(op: Any, name: str) -> bool:
    """Whether an op gives the same values somewhere else."""
    attributes = op.attributes
    if len(attributes) and ("jaxpr.effects" in attributes or "jaxpr.ctx" in attributes):
        return False
    if name not in _movable:
        record = ops.OPS.get(name.removeprefix("jaxpr."))
        _movable[name] = is_pure(name) and (
            record is None or name in _MOVABLE or not ops.distinct(record)
        )
    return _movable[name] and all(is_array(v.type) for v in op.results)


_movable: dict[str, bool] = {}


def _can_split(op: Any, name: str) -> bool:
    """Whether an op does no more than call its function, even if computing it again at times."""
    if "jaxpr.effects" in op.attributes:
        return False
    if name == "jaxpr.jit":
        return is_plain_call(op, name)
    return name == "jaxpr.remat2" and not isinstance(toolbox.attribute(op, "prevent_cse"), tuple)


def _add_constants(function: func.FuncOp, count: int, found: _Extracted | None) -> None:
    """Puts the new arguments behind the constants."""
    if found is not None:
        arguments = list(function.arguments)[: -len(found.arguments)]
        set_arguments(function, [*arguments[:count], *found.arguments, *arguments[count:]])


def _as_index(predicate: Any) -> list[Any]:
    from jax import lax

    return [lax.convert_element_type(predicate, "int32")]
