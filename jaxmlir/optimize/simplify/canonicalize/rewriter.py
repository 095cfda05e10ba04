"""The driver of ``jaxpr-canonicalize``: it tries rewrites on each op of a function, in order.

A rewrite is a function of a :class:`Rewriter` and a :class:`RewriteNode`; it returns the values
that replace the op's results, or ``None``.  Producers come before their users, and new ops are
simplified when they are built.  So one walk from the top simplifies everything but inlined ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import OpView, array_of, number_of
from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import filled, has_lasting_effects, inline, is_used
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import free_symbol, func, ir, new_function
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.types import aval_of
from jaxmlir.passes.remarks import remark, remarks_wanted

Rewrite = Callable[["Rewriter", "RewriteNode"], "Sequence[ir.Value] | None"]

REWRITES: dict[str, list[Rewrite]] = {}
"""The rewrites by op name, in the order in which they are tried."""


def rewrite(equation: str, *names: str) -> Callable[[Rewrite], Rewrite]:
    """Registers a rewrite for ops of some names; the reference documentation shows the equation."""

    def register(function: Rewrite) -> Rewrite:
        function.equation = equation  # type: ignore[attr-defined]
        for name in names:
            REWRITES.setdefault(f"jaxpr.{name}", []).append(function)
        return function

    return register


class RewriteNode(OpView):
    """An op as rewrites see it.

    Attributes:
      written: if the op is a write, the chain of writes up to it (:mod:`.equations`), once known.
      ends: if the op is a concatenation, the end of each piece along its dimension, once known.
    """

    __slots__ = ("ends", "results", "written")

    def __init__(self, op: Any, name: str, operands: list[ir.Value], results: list[ir.Value]):
        super().__init__(op, name, operands)
        self.results: list[Any] = results
        self.written: WriteChain | None = None
        self.ends: list[int] | None = None

    @property
    def type(self) -> ir.Type:
        """The type of the single result."""
        return self.results[0].type


@dataclass(eq=False)
class WriteChain:
    """The array that a chain of writes leaves.

    Attributes:
      under: the array before the first write.
      sizes: the sizes of each part, by dimension.
      first: the start of a part modulo its size, by dimension: the same for all parts.
      parts: the values written, by the place of the part in the grid of parts.
      last: the last write of the chain.
    """

    under: ir.Value
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    parts: dict[tuple[int, ...], ir.Value]
    last: RewriteNode


class Rewriter:
    """Rewrites one function.

    Attributes:
      program: the module with the callees.
      fast_math: whether rewrites may ignore NaN, infinities and the sign of zero.
      returned: what :mod:`.control` knows about the results of functions simplified before.
      variants: names of the functions that :meth:`variant` has written.
      changed: whether anything has been written or erased.
    """

    def __init__(
        self,
        program: Module,
        function: func.FuncOp,
        fast_math: bool,
        returned: dict[str, list[Any]],
        variants: dict[Any, str],
    ):
        self.program = program
        self.function = function
        self.fast_math = fast_math
        self.returned = returned
        self.variants = variants
        self.changed = False
        self._nodes: dict[ir.Value, RewriteNode] = {}
        self._at: RewriteNode | None = None
        self._inlined = False

    # -- what rewrites ask --

    def node(self, value: ir.Value) -> RewriteNode | None:
        """The op that defines a value; ``None`` for arguments, and ops with a ``jaxpr.ctx``."""
        return self._nodes.get(value)

    def producer(self, value: ir.Value, name: str) -> RewriteNode | None:
        """The op that defines a value if it is a ``jaxpr.<name>``, else ``None``."""
        node = self._nodes.get(value)
        return node if node is not None and node.name == f"jaxpr.{name}" else None

    def constant_of(self, value: ir.Value) -> np.ndarray | None:
        """The array of a small constant."""
        return array_of(self._nodes.get(value))

    def number_of(self, value: ir.Value) -> np.generic | None:
        """The number that every element of a value equals, if known."""
        return number_of(value, self._nodes.get)

    # -- what rewrites do --

    def build(
        self,
        name: str,
        operands: Sequence[ir.Value],
        type_: ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        """Builds a ``jaxpr.<name>`` before the op being rewritten, simplifies it, and returns its
        result."""
        node = self.build_node(name, operands, [type_], attributes or {})
        values = self._simplified(node)
        if values is None:
            return node.results[0]
        self._drop(node, values[0])
        return values[0]

    def build_node(
        self,
        name: str,
        operands: Sequence[ir.Value],
        types: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute],
    ) -> RewriteNode:
        """Builds a ``jaxpr.<name>`` with any number of results, without simplifying it."""
        self.changed = True
        at, operands = self._at.op, list(operands)
        op = ir.Operation.create(
            f"jaxpr.{name}",
            list(types),
            operands,
            dict(attributes),
            loc=at.location,
            ip=ir.InsertionPoint(at),
        )
        node = RewriteNode(op, op.name, operands, list(op.results))
        self._nodes.update((result, node) for result in node.results)
        return node

    def variant(self, symbol: str, arguments: Sequence[int], results: Sequence[int]) -> str:
        """The symbol of a function like ``@symbol`` with its arguments in another order and fewer
        results."""
        key = (symbol, tuple(arguments), tuple(results))
        name = self.variants.get(key)
        if name is None:
            self.changed = True
            function = self.program.function(symbol)
            self.program.changed()
            name = self.variants[key] = free_symbol(symbol, self.program.functions)
            _write_variant(function, name, arguments, results)
        return name

    def full(self, type_: ir.Type, number: Any) -> ir.Value:
        """A value of a type with every element ``number``."""
        self.changed = True
        with ir.InsertionPoint(self._at.op), self._at.op.location:
            value = filled(type_, number)
        self._note(value)
        return value

    def array(self, type_: ir.Type, array: np.ndarray) -> ir.Value:
        """A constant."""
        return self.build("constant", [], type_, {"value": dense(array)})

    def inline(self, function: func.FuncOp, args: Sequence[ir.Value], scope: str) -> list[ir.Value]:
        """Inlines a function in place of its call; the next walk simplifies the copied ops.

        Args:
          scope: the name scope that JAX's lowering of the call adds, as ``"cond/branch_0_fun"``.
        """
        self._inlined = self.changed = True
        location = locations.of_body(self._at.op.location, scope)
        with ir.InsertionPoint(self._at.op), location:
            return inline(function, args)

    def drop_effects(self) -> None:
        """Lets the op being rewritten be erased: its effects moved to other ops, or vanish."""
        attributes = self._at.op.attributes
        if "jaxpr.effects" in attributes:
            del attributes["jaxpr.effects"]

    def _note(self, value: ir.Value) -> None:
        """Registers the op of a value that was written without :meth:`build`, and its producers."""
        op = value.owner
        operands = list(op.operands)
        self._nodes[value] = RewriteNode(op, op.name, operands, [value])
        for operand in operands:
            if operand not in self._nodes and isinstance(operand, ir.OpResult):
                self._note(operand)

    # -- the walk --

    def sweep(self) -> bool:
        """Tries every rewrite on every op once, from the top; returns whether ops were inlined,
        which it has not visited."""
        self._nodes = {}
        self._inlined = False
        for op in list(self.function.entry_block.operations):
            name = op.name if type(op) is ir.OpView else op.operation.name
            # Read only now: rewrites of earlier ops change the operands of later ones.
            operands = op.operands
            attributes = op.attributes
            node = RewriteNode(
                op, name, [operands[i] for i in range(len(operands))], list(op.results)
            )
            if len(attributes) and "jaxpr.ctx" in attributes:
                continue
            for result in node.results:
                self._nodes[result] = node
            if name in REWRITES:
                self._at = node
                values = self._simplified(node)
                if values is not None:
                    self._replace(node, values)
        return self._inlined

    def _simplified(self, node: RewriteNode) -> Sequence[ir.Value] | None:
        for rule in REWRITES.get(node.name, ()):
            values = rule(self, node)
            if values is not None and all(
                new.type == old.type for new, old in zip(values, node.results, strict=True)
            ):
                if remarks_wanted():
                    equation = getattr(rule, "equation", None) or self.equation
                    remark(node.op, f"'{node.name}' simplified by {equation}")
                return values
        return None

    equation = ""
    """The equation that :func:`~.equations.fold`, a rewrite with many equations, used last."""

    def _replace(self, node: RewriteNode, values: Sequence[ir.Value]) -> None:
        self.changed: bool = True
        for old, new in zip(node.results, values, strict=True):
            if new is not old:
                old.replace_all_uses_with(new)
        self._drop(node)

    def _drop(self, node: RewriteNode, replacement: ir.Value | None = None) -> None:
        """Erases an op without users, and the producers that only it used.

        Args:
          replacement: the value that replaces the op's result; its op stays though it may have no
            users yet.
        """
        pending: list[RewriteNode] = [node]
        gone: set[RewriteNode] = set()
        # Without recursion: the dead producers may be a chain of thousands of ops.
        while pending:
            node = pending.pop()
            if node in gone or any(map(is_used, node.results)):
                continue
            if has_lasting_effects(node.op, node.name):
                continue
            gone.add(node)
            for result in node.results:
                self._nodes.pop(result, None)
            node.op.operation.erase()
            for operand in node.operands:
                source = self._nodes.get(operand)
                if source is not None and (replacement is None or operand != replacement):
                    pending.append(source)


def _write_variant(
    function: func.FuncOp, name: str, arguments: Sequence[int], results: Sequence[int]
) -> None:
    type_ = function.type
    inputs = [type_.inputs[i] for i in arguments]
    outputs = [type_.results[i] for i in results]
    at = ir.InsertionPoint.after(function.operation)
    _, block = new_function(name, inputs, outputs, function.location, at)
    values = dict(zip(arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block), function.location:
        outs = inline(function, [values[i] for i in range(len(arguments))])
        func.ReturnOp([outs[i] for i in results])


@functools.cache
def kind_of(type_: ir.Type) -> str:
    """``integer``, ``boolean``, ``float``, ``complex`` or ``other``."""
    dtype = getattr(aval_of(type_), "dtype", None)
    if dtype is None or isinstance(dtype, dtypes.ExtendedDType):
        return "other"
    if dtype == np.bool_:
        return "boolean"
    kinds = {"integer": np.integer, "float": np.floating, "complex": np.complexfloating}
    return next(
        (kind for kind, supertype in kinds.items() if dtypes.issubdtype(dtype, supertype)), "other"
    )
