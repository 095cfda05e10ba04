"""How passes read a function: as a whole with its values numbered, or op by op.

Reading an op through MLIR's bindings takes several microseconds, and hashing a value or a type some
tenths of one.  Making a :class:`FunctionView` does this once for each op.  After that, a pass walks
small integers and tables by signature.  The makers and the users of values are found when first
asked for.  The view shows the function as it was read, not later changes.

An :class:`OpView` is one op: of a :class:`FunctionView` (:attr:`FunctionView.op_views`), of a
function that is being rewritten (:func:`ops_of`), or the one that gives a value (:func:`node_of`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator, KeysView, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.dialect import codec, custom_rule_ops, op_signature
from jaxmlir.dialect.builder import named_ops, returned, symbols_of
from jaxmlir.dialect.ir import body_of, captured, func, has_regions, ir, is_foreign, symbol_uses
from jaxmlir.dialect.op_signature import Signature, WithRegions
from jaxmlir.dialect.ops import may_have_functions
from jaxmlir.dialect.types import aval_of


class OpView:
    """An op with its name, its operands, and its attributes, which are read on first use.  Unpacks
    to op, name and operands: ``for op, name, operands in ops_of(function)``."""

    __slots__ = ("attributes", "name", "op", "operands")

    attributes: dict[str, ir.Attribute]

    def __init__(self, op: Any, name: str, operands: Sequence[Any] = ()):
        self.op: Any = op
        self.name: str = name
        self.operands: Sequence[Any] = operands

    def __iter__(self) -> Iterator[Any]:
        return iter((self.op, self.name, self.operands))

    def __getattr__(self, name: str) -> Any:
        """Reads the attributes when they are first asked for."""
        if name != "attributes":
            raise AttributeError(name=name, obj=self)
        self.attributes = attributes_of(self.op)
        return self.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """A decoded attribute; a function in it is given as its symbol."""
        attr = self.attributes.get(name)
        return default if attr is None else codec.decode(attr, codec.SYMBOLS)


def attributes_of(op: Any) -> dict[str, ir.Attribute]:
    """The attributes of an op by name."""
    attributes = op.attributes
    # Many ops have none.
    return dict(attributes.items()) if len(attributes) else {}


def ops_of(function: func.FuncOp) -> Iterator[OpView]:
    """The ops before the return, in order.  The current op may be replaced; later ops are read with
    the operands they have by then."""
    for op in list(body_of(function).operations):
        name = op.name if type(op) is ir.OpView else op.operation.name
        if name != "func.return":
            yield OpView(op, name, list(op.operands))


def node_of(value: ir.Value) -> OpView | None:
    """The op that gives a value; ``None`` for a function's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else OpView(owner, owner.name, list(owner.operands))


class FunctionView:
    """A function with its values numbered: arguments first, then the ops' results in order.

    Attributes:
      op_string: the result of :func:`jaxmlir.analysis.repeated_blocks.op_string_of`.
      tensors: the result of :func:`jaxmlir.optimize.algebra.labelled_tensors.reading.read`.
    """

    op_string: Any = None
    tensors: Any = None

    def __init__(
        self,
        function: func.FuncOp,
        ops: Iterable[tuple[Any, str]] | None = None,
        *,
        custom_rules: bool = True,
    ):
        """
        Args:
          ops: the ops before the return with their names, if the caller has them.
          custom_rules: whether signatures include the marks of custom rules that are not traced
            yet.
        """
        self.function = function
        arguments = list(body_of(function).arguments)
        numbers: dict[ir.Value, int] = {v: i for i, v in enumerate(arguments)}
        self.arity: int = len(arguments)
        self.types: list[ir.Type] = [v.type for v in arguments]
        """The types of the values, by number."""
        self.ops: list[Any] = []
        self.signatures: list[Signature] = []
        self.operands: list[list[int]] = []
        """The operands of each op, then the outer values that the ops in its regions read."""
        self.results: list[tuple[int, int]] = []
        """The number of each op's first result, and the number after its last."""
        types, marked = self.types, frozenset() if custom_rules else custom_rule_ops.OPS
        for op, name in named_ops(function) if ops is None else ops:
            self.ops.append(op)
            operands = [numbers[v] for v in op.operands]
            is_alone = has_regions(op, name)
            if is_alone:
                operands += [numbers[v] for v in captured(op)]
            self.operands.append(operands)
            first = last = len(types)
            for result in op.results:
                numbers[result] = last
                types.append(result.type)
                last += 1
            self.results.append((first, last))
            attributes = op.attributes
            items = tuple(attributes.items()) if len(attributes) else ()
            if name in marked:
                items = tuple([item for item in items if item[0] != custom_rule_ops.MARK])
            of_operands = tuple([types[v] for v in operands])
            make = WithRegions if is_alone else op_signature.of_parts
            self.signatures.append(make(name, items, of_operands, tuple(types[first:])))
        self.names = [signature.name for signature in self.signatures]
        self.returned = [numbers[v] for v in returned(function)]

    def with_calls_inlined(self, callee: Callable[[Any, str], FunctionView | None]) -> FunctionView:
        """A view of the function as if calls were inlined; the ops themselves do not move.
        ``callee`` gives the view to put in place of an op, with its own calls inlined; ``None``
        keeps the op."""
        inlined = self._begun()
        values, tops, start = list(range(self.arity)), list[int](), 0
        for i, name in enumerate(self.names):
            inner = callee(self.ops[i], name) if may_have_functions(name) else None
            if inner is not None:
                inlined._append(self, start, i, values)
                tops += range(start, i)
                inside = [values[v] for v in self.operands[i]]
                inlined._append(inner, 0, len(inner.ops), inside)
                tops += [i] * len(inner.ops)
                values += [inside[v] for v in inner.returned]
                start = i + 1
        inlined._append(self, start, len(self.ops), values)
        tops += range(start, len(self.ops))
        inlined._finish(self, values)
        inlined.own, inlined.tops = values, tops
        return inlined

    def with_put_in(self, ops: Iterable[InsertedOp]) -> FunctionView:
        """A view of the function after ``ops``, given in program order, were inserted.  Reading the
        function again would ask the bindings for the operands of every op."""
        extended = self._begun()
        values, start = list(range(self.arity)), 0
        for op, after, reads, replaced in ops:
            extended._append(self, start, after + 1, values)
            start = after + 1
            first = len(extended.types)
            extended.ops.append(op)
            extended.signatures.append(op_signature.of_op(op, op.operation.name, op.operands))
            extended.operands.append([values[v] for v in reads])
            extended.types += extended.signatures[-1].results
            extended.results.append((first, len(extended.types)))
            for v in replaced:
                values[v] = first
        extended._append(self, start, len(self.ops), values)
        extended._finish(self, values)
        return extended

    def _begun(self) -> FunctionView:
        """A view with the same arguments and no ops yet."""
        view = object.__new__(FunctionView)
        view.function, view.arity = self.function, self.arity
        view.types = self.types[: self.arity]
        view.ops, view.signatures, view.operands, view.results = [], [], [], []
        return view

    def _finish(self, body: FunctionView, values: Sequence[int]) -> None:
        """Sets the names from the signatures, and the returned values from those of ``body``, whose
        values have the given numbers in this view."""
        self.names: list[str] = [signature.name for signature in self.signatures]
        self.returned: list[int] = [values[v] for v in body.returned]

    def of_copy(self, function: func.FuncOp) -> FunctionView:
        """The view of a copy of the function, with the same ops and value numbers."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view.op_string = view.tensors = None
        view.__dict__.pop("op_views", None)
        view.function, (*view.ops, _) = function, body_of(function).operations
        return view

    def references(self) -> list[str]:
        """The symbols that the ops refer to, once for each reference."""
        symbols: list[str] = []
        for op, signature in zip(self.ops, self.signatures, strict=True):
            if is_foreign(signature.name):
                symbols += symbols_of(op)
            elif may_have_functions(signature.name):
                for _, attr in signature.attributes:
                    symbols += symbol_uses(attr)
        return symbols

    def _append(self, body: FunctionView, start: int, end: int, values: list[int]) -> None:
        """Appends the ops ``start`` to ``end`` of a function, whose values have the given numbers
        in this view; adds their results."""
        if start == end:
            return
        first, last = body.results[start][0], body.results[end - 1][1]
        moved = len(self.types) - first
        self.types += body.types[first:last]
        values += range(first + moved, last + moved)
        self.ops += body.ops[start:end]
        self.signatures += body.signatures[start:end]
        self.operands += [[values[v] for v in operands] for operands in body.operands[start:end]]
        self.results += [(a + moved, b + moved) for a, b in body.results[start:end]]

    @functools.cached_property
    def makers(self) -> list[int | None]:
        """The op that gives each value, by index; ``None`` for an argument."""
        makers: list[int | None] = [None] * self.arity
        for index, (first, last) in enumerate(self.results):
            makers += [index] * (last - first)
        return makers

    @functools.cached_property
    def users(self) -> list[list[int]]:
        """The ops that read each value, in order, each once; the return does not count."""
        users: list[list[int]] = [[] for _ in self.types]
        for index, operands in enumerate(self.operands):
            for value in dict.fromkeys(operands):
                users[value].append(index)
        return users

    @functools.cached_property
    def use_counts(self) -> list[int]:
        """How often each value is an operand, the return included."""
        counts = [0] * len(self.types)
        for operands in (*self.operands, self.returned):
            for value in operands:
                counts[value] += 1
        return counts

    @functools.cached_property
    def outputs(self) -> frozenset[int]:
        """The values that the function returns."""
        return frozenset(self.returned)

    @functools.cached_property
    def own(self) -> Sequence[int]:
        """The number of each value that the function had before calls were inlined."""
        return range(len(self.types))

    @functools.cached_property
    def tops(self) -> Sequence[int]:
        """The index that each op, or the call that it is in, had before calls were inlined."""
        return range(len(self.ops))

    def backward_slice(
        self, values: Iterable[int], is_there: Callable[[int], bool] = lambda value: False
    ) -> tuple[list[int], KeysView[int]]:
        """The ops that compute some values, in order, and the leaves that these start from:
        arguments, and results that are there."""
        makers, ops, leaves = self.makers, set[int](), dict[int, None]()
        pending = [*values]
        while pending:
            value = pending.pop()
            maker = makers[value]
            if maker is None or is_there(value):
                leaves[value] = None
            elif maker not in ops:
                ops.add(maker)
                pending += self.operands[maker]
        return sorted(ops), leaves.keys()

    @functools.cached_property
    def op_views(self) -> list[OpView]:
        """The ops one by one, with the operands that they have when this is first asked for."""
        views = zip(self.ops, self.names, strict=True)
        return [OpView(op, name, list(op.operands)) for op, name in views]

    @functools.cached_property
    def effects(self) -> dict[int, ir.ArrayAttr]:
        """The effects of the ops that have any, or may have any, by index."""
        signatures = enumerate(self.signatures)
        return {i: s.effects for i, s in signatures if s.effects is not None}

    def value(self, number: int) -> ir.Value:
        """The value with a number."""
        index = self.makers[number]
        if index is None:
            return body_of(self.function).arguments[number]
        return self.ops[index].results[number - self.results[index][0]]

    def copy(self, index: int, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Copies an op with other operands at the current insertion point; returns the results."""
        return self.signatures[index].create(operands, self.ops[index].location)

    def copy_ops(self, indices: Iterable[int], values: dict[int, ir.Value]) -> None:
        """Copies some ops, in order, at the current insertion point.  ``values`` has those that the
        copies read, by number in the function; results of copies are added if their numbers are
        absent."""
        for index in indices:
            outs = self.copy(index, [values[v] for v in self.operands[index]])
            for number, out in zip(range(*self.results[index]), outs, strict=True):
                values.setdefault(number, out)

    def replace_reads(self, values: Container[int], readers: Iterable[int], new: ir.Value) -> None:
        """Makes ``readers`` read ``new`` in place of each of ``values``."""
        for index in readers:
            operands = self.ops[index].operation.operands
            for k, value in enumerate(self.operands[index][: len(operands)]):
                if value in values:
                    operands[k] = new


class InsertedOp(NamedTuple):
    """An op that was inserted into a function.

    Attributes:
      op: an op with one result.
      after: the index of the function's op that it follows, possibly with other inserted ops
        between; -1 if it precedes all of them.
      reads: its operands, as value numbers before the insertion.
      replaced: the values that its result replaces in all later ops.
    """

    op: Any
    after: int
    reads: Sequence[int]
    replaced: Sequence[int]


# --- what values are known to be ------------------------------------------------------------------


def array_of(node: OpView | None) -> np.ndarray | None:
    """The value of a ``jaxpr.constant`` if the IR contains it; ``None`` for other ops."""
    if node is None or node.name != "jaxpr.constant":
        return None
    attr = node.attributes.get("value")
    return codec.decode(attr) if isinstance(attr, ir.DenseElementsAttr) else None


def number_of(
    value: ir.Value, node_of: Callable[[ir.Value], OpView | None] = node_of
) -> np.generic | None:
    """The number that all elements of a value equal, if it is a constant; else ``None``."""
    node = node_of(value)
    while node is not None and node.name == "jaxpr.broadcast_in_dim":
        node = node_of(node.operands[0])
    array = array_of(node)
    if array is None or not array.size:
        return None
    first = array.flat[0]
    if array.size > 1 and array.tobytes() != first.tobytes() * array.size:
        return None
    return first


def can_count(dtype: Any, length: int) -> bool:
    """Whether a type represents each of the ``length`` numbers 0, 1, 2 ..."""
    whole = dtypes.issubdtype(dtype, np.integer)
    if whole:
        return length - 1 <= dtypes.iinfo(dtype).max
    info = dtypes.finfo(dtype)
    return length - 1 <= min(2 ** (info.nmant + 1), float(info.max))


def counts_along(value: ir.Value, node_of: Callable[[ir.Value], OpView | None]) -> int | None:
    """The dimension along which a value is 0, 1, 2 ..., if it is constant along all others;
    ``None`` if that is not known."""
    node, through = node_of(value), list[OpView]()
    while node is not None and node.name in _REPEATING:
        through.append(node)
        node = node_of(node.operands[0])
    if node is None or node.name != "jaxpr.iota":
        return None
    d = node.get("dimension")
    length = node.get("shape")[d]
    for step in (node, *reversed(through)):
        aval = aval_of(step.op.results[0].type)
        if step.name == "jaxpr.broadcast_in_dim":
            d = step.get("broadcast_dimensions")[d]
        elif step is not node and not dtypes.issubdtype(aval.dtype, np.integer):
            return None
        if type(length) is not int or aval.shape[d] != length or not can_count(aval.dtype, length):
            return None
    return d


_REPEATING = frozenset({"jaxpr.broadcast_in_dim", "jaxpr.convert_element_type"})
