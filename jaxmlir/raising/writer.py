"""Walks a StableHLO module and writes the dialect: functions, regions, and ops by the rules.

A rule is a function ``rule(w, op, operands) -> results`` of the :class:`Writer` of the function at
hand, an op of StableHLO and the dialect's values for its operands; :data:`RULES` has one for each
op's name.  Regions become private functions, as sub-jaxprs do; what they take from around them
becomes arguments.  Functions wait in a queue, so nothing here recurses.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import core, open_jaxpr
from jaxmlir.bridge.importer import INLINE_CONSTANT_BYTES, Importer
from jaxmlir.dialect import codec, locations
from jaxmlir.dialect.builder import conversion, drop_dead_ops, filled, write_return
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import (
    body_of,
    captured,
    func,
    functions,
    ir,
    is_private,
    new_function,
    sdy,
)
from jaxmlir.dialect.types import aval_of, element_of, is_key, is_narrowed, type_of, widths_of
from jaxmlir.errors import ImportingError, JaxmlirError, at_op

Values = Sequence[ir.Value]
Rule = Callable[["Writer", Any, list[ir.Value]], Values]

RULES: dict[str, Rule] = {}
"""How each op is written, by its name."""

BY_SIGNATURE = frozenset(
    f"stablehlo.{name}"
    for name in "add multiply maximum minimum broadcast_in_dim reshape transpose slice "
    "concatenate pad dot_general dynamic_slice dynamic_update_slice iota compare select convert "
    "constant reverse round_nearest_even convolution".split()
)
"""Ops that are one op of the dialect on the same operands, in some order, by their name, attributes
and types."""


class Written(NamedTuple):
    """What an op of :data:`BY_SIGNATURE` was written as."""

    name: str
    types: list[ir.Type]
    attributes: dict[str, ir.Attribute]
    order: list[int] | None
    """Which operands it has, if not all in their order."""


_written: dict[Any, Written | None] = {}

MAX_INLINED = 100
"""How deep blocks are written in place of ops of one another."""

IDIOMS: dict[str, Callable[[Writer, Any], Values | None]] = {}
"""What may be the last of several ops that are one function of JAX."""

PLAIN: dict[str, str] = {}
"""Ops that are one op of the dialect on the same operands, without attributes."""

# What says nothing of what is computed.
_NO_MEANING = frozenset(
    "mhlo.sharding mhlo.frontend_attributes mhlo.layout_mode sdy.sharding sdy.sharding_rule".split()
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of some ops of StableHLO."""

    def register(function: Rule) -> Rule:
        RULES.update((n if "." in n else f"stablehlo.{n}", function) for n in names)
        return function

    return register


@functools.cache
def raised_type(type_: ir.Type) -> ir.Type:
    """The dialect's type of the values of a type of StableHLO.

    Raises:
      ImportingError: there is none.
    """
    if isinstance(type_, ir.RankedTensorType):
        if not type_.has_static_shape:
            raise ImportingError(
                f"{type_} has sizes that are not known; expected a module of static shapes, or a "
                "function of jax.export and arguments: jaxmlir.from_exported(exported, *args)"
            )
        if type_.encoding is not None:
            type_ = ir.RankedTensorType.get(type_.shape, type_.element_type)
        if "quant.uniform" in str(type_.element_type):
            raise ImportingError(
                f"{type_} is quantised, which JAX has no type for; expected numbers, as "
                "stablehlo-opt --stablehlo-legalize-quant-to-math leaves them"
            )
        aval_of(type_)
        return type_
    if str(type_) == "!stablehlo.token":
        return ir.Type.parse("!jaxpr.token")
    raise ImportingError(f"{type_} is no type of the dialect; expected tensors and tokens")


def tensor(shape: Iterable[int], element: ir.Type) -> ir.Type:
    """The type of tensors of a shape."""
    return ir.RankedTensorType.get(list(shape), element)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value, or of what a type has."""
    return tuple(value.type.shape)


def attribute(op: Any, name: str, default: Any = None) -> Any:
    """An attribute of an op of StableHLO as numbers, tuples, strings."""
    attributes = op.attributes
    return python_value(attributes[name]) if name in attributes else default


@functools.cache
def python_value(attr: ir.Attribute) -> Any:
    """Numbers, strings, tuples and arrays of numbers that an attribute holds."""
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attr.value
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
        return tuple(attr)
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return attr.value
    if isinstance(attr, ir.ArrayAttr):
        return tuple(python_value(item) for item in attr)
    if isinstance(attr, ir.DictAttr):
        return {item.name: python_value(item.attr) for item in attr}
    if isinstance(attr, ir.DenseElementsAttr):
        return codec.decode(attr)
    return keyword(attr)


@functools.cache
def keyword(attr: ir.Attribute) -> str:
    """The keyword of an enumeration's attribute: ``LT`` of ``#stablehlo<... LT>``."""
    return str(attr).rstrip(">").rpartition(" ")[2].rpartition("<")[2]


class Region(NamedTuple):
    """A region that has become a function."""

    symbol: str
    captured: list[ir.Value]
    """The dialect's values of what it takes from around it: its first arguments."""


class Raising:
    """Raises one module.

    Attributes:
      importer: writes the new module, and holds its constants.
      of_import: makes the program of an importer.
      module: the source.
      meshes: Shardy's meshes, by their names.
      manual: the mesh and the axes of the manual computation that is raised.
      idioms: what functions of JAX were written as, for operands of a type.
    """

    def __init__(self, source: ir.Module, of_import: Callable[[Importer], Any]):
        self.importer: Importer = Importer()
        self.of_import = of_import
        self.module = source
        self.source: dict[str, Any] = functions(source)
        self.meshes: dict[str, Any] = {
            op.sym_name.value: op.mesh
            for op in source.body.operations
            if isinstance(op, sdy.MeshOp)
        }
        self.manual: Any = None
        self.idioms: dict[Any, Written | None] = {}
        self.symbols: dict[str, str] = {}
        self._queue: deque[Writer] = deque()
        self._shared: dict[Any, str] = {}

    def write(self) -> None:
        """Writes the functions that were asked for, and all that they ask for in turn."""
        while self._queue:
            self._queue.popleft().write()

    def entry(
        self,
        name: str,
        types: Sequence[ir.Type],
        result_types: Sequence[ir.Type],
        kept: Sequence[int],
        given: Values,
    ) -> Any:
        """The public function of an exported one, which is written like :meth:`function`.

        Args:
          types: of its arguments; random keys are so, of which the source has the words.
          result_types: of its results, likewise.
          kept: which of these the function of the source takes, after those that are given.
          given: numbers for its first arguments.
        """
        old = self.source[name]
        block = body_of(old)
        inner = list(block.arguments)[len(given) :]
        if len(inner) != len(kept):
            raise ImportingError(
                f"function @{name} takes {len(inner)} arrays, and is said to take {len(kept)}"
            )
        self.symbols[name] = symbol = self.importer.unique_name(name)
        new, new_block = new_function(
            symbol,
            types,
            result_types,
            old.location,
            ir.InsertionPoint(self.importer.module.body),
            visibility="public",
        )
        env: dict[ir.Value, ir.Value] = {}
        writer = Writer(self, new, block, env)
        with ir.InsertionPoint(new_block):
            for value, k in zip(inner, kept, strict=True):
                env[value] = writer.words(new_block.arguments[k])
            for value, number in zip(block.arguments, given, strict=False):
                env[value] = writer.constant(number)
        for value, k in zip(inner, kept, strict=True):
            _keep_name(value, new_block.arguments[k])
        self._queue.append(writer)
        return new

    def function(self, name: str, public: bool = False) -> str:
        """The symbol of a function of the source, which is written if it was not met before."""
        symbol = self.symbols.get(name)
        if symbol is None:
            if name not in self.source:
                raise ImportingError(f"the module has no function @{name}")
            old = self.source[name]
            if not old.operation.regions[0].blocks:
                raise ImportingError(f"function @{name} has no body")
            symbol = self.symbols[name] = self.importer.unique_name(name)
            block = body_of(old)
            end = end_of(block)
            new = self._new(symbol, block.arguments, end.operands, old.location, public)
            env = dict(zip(block.arguments, new.arguments, strict=True))
            self._queue.append(Writer(self, new, block, env))
            for before, after in zip(old.arguments, new.arguments, strict=True):
                _keep_name(before, after)
        return symbol

    def region(
        self,
        block: ir.Block,
        outer: Outer,
        hint: str,
        loc: Any,
        constant: Sequence[int] = (),
        returned: Sequence[int] | None = None,
        unused: Sequence[int] = (),
    ) -> str:
        """The symbol of the function of a region.

        Args:
          outer: what it takes from around it, as its first arguments.
          constant: which of its own arguments come next, before the others.
          returned: which of its results the function has, in their order; all if ``None``.
          unused: which of its own arguments it does not have.
        """
        symbol = self.importer.unique_name(hint)
        own = list(block.arguments)
        first = [own[k] for k in constant]
        rest = [v for k, v in enumerate(own) if k not in (*constant, *unused)]
        results = _chosen(end_of(block).operands, returned)
        function = self._new(symbol, [*outer.values, *first, *rest], results, loc, False)
        env = dict(zip((*outer.values, *first, *rest), function.arguments, strict=True))
        self._queue.append(Writer(self, function, block, env, outer.constants, returned))
        return symbol

    def combination(self, name: str, element: ir.Type) -> str:
        """The symbol of the function that applies an op to two scalars of a type."""
        key = name, element
        symbol = self._shared.get(key)
        if symbol is None:
            symbol = self._shared[key] = self.importer.unique_name(name)
            scalar = tensor((), element)
            _, block = new_function(
                symbol,
                [scalar, scalar],
                [scalar],
                ir.Location.unknown(),
                ir.InsertionPoint(self.importer.module.body),
            )
            with ir.InsertionPoint(block):
                result = ir.Operation.create(
                    f"jaxpr.{name}", [scalar], list(block.arguments), loc=ir.Location.unknown()
                ).result
                write_return([result])
        return symbol

    def _new(
        self,
        symbol: str,
        arguments: Sequence[ir.Value],
        results: Sequence[ir.Value],
        loc: Any,
        public: bool,
    ) -> func.FuncOp:
        """A function without a body, of the types that values of the source are raised to."""
        function, _ = new_function(
            symbol,
            [raised_type(v.type) for v in arguments],
            [raised_type(v.type) for v in results],
            loc,
            ir.InsertionPoint(self.importer.module.body),
            visibility="public" if public else "private",
        )
        return function


def _chosen(values: Sequence[Any], which: Sequence[int] | None) -> list[Any]:
    return list(values) if which is None else [values[k] for k in which]


def _keep_name(old: ir.Value, new: ir.Value) -> None:
    """An argument of the new function has the old one's name."""
    if isinstance(old.location, ir.NameLoc):
        new.set_location(ir.Location.name(old.location.name_str))


class Writer:
    """Writes the body of one function.

    Attributes:
      env: the dialect's value of each value of the source.
      constants: ops of the source that are written first.
      returned: which of the results the function has, in their order; all if ``None``.
      passed_on: ops of the source whose result is one of their operands, as an earlier rule has
        found.
      location: of the op that is being written.
    """

    def __init__(
        self,
        raising: Raising,
        function: func.FuncOp,
        source: ir.Block,
        env: dict[ir.Value, ir.Value],
        constants: Sequence[Any] = (),
        returned: Sequence[int] | None = None,
    ):
        self.raising = raising
        self.constants = constants
        self.returned = returned
        self.function: Any = function
        self.source: Any = source
        self.block: Any = body_of(function)
        self.env: dict[Any, Any] = env
        self.passed_on: dict[Any, ir.Value] = {}
        self._depth = 0
        self.location: Any = function.location

    def write(self) -> None:
        """Writes all ops and the return."""
        with ir.InsertionPoint(self.block):
            for op in self.constants:
                self.location = op.location
                operands = [self.env[v] for v in op.operands]
                self.env[op.results[0]] = RULES[op.name](self, op, operands)[0]
            results = _chosen(self.ops(self.source, self.env), self.returned)
            types = self.function.type.results
            write_return([self.keys(v, t) for v, t in zip(results, types, strict=True)])
        drop_dead_ops(self.function)

    def words(self, value: ir.Value) -> ir.Value:
        """The words of random keys; another value as it is."""
        aval = aval_of(value.type)
        if not is_key(aval):
            return value
        return self.one("random_unwrap", [value], type_of(core.physical_aval(aval)))

    def keys(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        """The random keys of some words, where keys are wanted; another value as it is."""
        if value.type == type_ or not is_key(aval := aval_of(type_)):
            return value
        return self.one("random_wrap", [value], type_, impl=aval.dtype._impl)

    def ops(self, block: ir.Block, env: dict[ir.Value, ir.Value]) -> list[ir.Value]:
        """Writes a block's ops; the values that it returns."""
        create = ir.Operation.create
        for view in block.operations:
            op = view.operation
            name = op.name
            self.location = location = op.location
            operands = [env[v] for v in op.operands]
            before = op.results
            plain = PLAIN.get(name)
            try:
                if self.passed_on and op in self.passed_on:
                    results: Values = [env[self.passed_on[op]]]
                elif name in IDIOMS and (meant := IDIOMS[name](self, op)) is not None:
                    results = meant
                elif plain is not None and not len(op.attributes):
                    types = list(map(raised_type, before.types))
                    results = create(plain, types, operands, loc=location).results
                elif name in BY_SIGNATURE:
                    results = self.by_signature(op, name, before.types, operands)
                elif (found := RULES.get(name)) is not None:
                    results = found(self, op, operands)
                elif name in ("func.return", "stablehlo.return", "sdy.return"):
                    return operands
                else:
                    raise ImportingError(_no_rule(name))
            except JaxmlirError as e:
                raise self.located(e, name) from e.__cause__
            except (KeyError, ValueError, TypeError, IndexError, ir.MLIRError) as e:
                # JAX's own checks of what an op of it may be.
                raise self.located(ImportingError(f"{type(e).__name__}: {e}"), name) from e
            env.update(zip(before, results, strict=True))
        raise self.located(ImportingError("expected an op that ends the block"), "func.func")

    def located(self, error: JaxmlirError, name: str) -> ImportingError:
        """An error about the op that is being written."""
        file, line, col = locations.position(self.location)
        if isinstance(error, ImportingError) and error.diagnostics[0].line:
            return error
        return at_op(ImportingError, error, name, (file, line, col))

    def by_signature(
        self, op: Any, name: str, types: list[ir.Type], operands: list[ir.Value]
    ) -> Values:
        """The results of an op that its rule writes as one on the same operands: as the last op of
        that name, attributes and types was written."""
        key = (name, *types, *[v.type for v in operands], *op.attributes.items())
        known = _written.get(key)
        if known is None:
            results = RULES[name](self, op, operands)
            if key not in _written and len(set(operands)) == len(operands):
                _written[key] = as_written(results, operands)
            return results
        return self.again(known, operands)

    def again(self, known: Written, operands: list[ir.Value]) -> Values:
        """Writes an op as one like it was."""
        name, types, attributes, order = known
        if order is not None:
            operands = [operands[k] for k in order]
        return ir.Operation.create(name, types, operands, attributes, loc=self.location).results

    # -- what rules use --

    def inlined(self, block: ir.Block, env: dict[ir.Value, ir.Value]) -> list[ir.Value]:
        """Writes a block's ops in place of the op at hand; the values that it returns.

        Rules ask for what they stand beside by the writer's environment, so it is that one.

        Raises:
          ImportingError: blocks are written in place of one another without end.
        """
        around, location = self.env, self.location
        self._depth += 1
        try:
            if self._depth > MAX_INLINED:
                raise ImportingError("functions that call one another are nested too deep")
            self.env = env
            return self.ops(block, env)
        finally:
            self.env, self.location = around, location
            self._depth -= 1

    def emit(
        self, primitive: str, operands: Values, types: Sequence[ir.Type], /, **params: Any
    ) -> list[ir.Value]:
        """Writes ``jaxpr.<primitive>``; its results.

        Args:
          params: its attributes, as they are or as Python values in the dialect's form; not those
            that have their default.
        """
        attributes = {
            key: value if isinstance(value, ir.Attribute) else codec.encode(value)
            for key, value in params.items()
        }
        return list(
            ir.Operation.create(
                f"jaxpr.{primitive}", list(types), list(operands), attributes, loc=self.location
            ).results
        )

    def one(self, primitive: str, operands: Values, type_: ir.Type, /, **params: Any) -> ir.Value:
        """As :meth:`emit`, of an op of one result."""
        return self.emit(primitive, operands, [type_], **params)[0]

    def types(self, op: Any) -> list[ir.Type]:
        """The dialect's types of an op's results."""
        return [raised_type(v.type) for v in op.results]

    def like(self, primitive: str, /, *operands: ir.Value, **params: Any) -> ir.Value:
        """An op whose result is of the type of its last operand."""
        return self.one(primitive, operands, operands[-1].type, **params)

    def constant(self, array: np.ndarray) -> ir.Value:
        """An array; a large one of equal elements is a scalar that is repeated."""
        with self.location:
            if array.nbytes > INLINE_CONSTANT_BYTES and _is_splat(array):
                type_ = tensor(array.shape, element_of(array.dtype))
                scalar = self.constant(array.reshape(-1)[0].reshape(()))
                return self.broadcast(scalar, type_)
            # Where JAX makes arrays of 64 bits narrower, there can be none beside the module.
            beside = not is_narrowed(aval_of(tensor(array.shape, element_of(array.dtype))))
            if array.nbytes > INLINE_CONSTANT_BYTES and beside:
                value: ir.Attribute = ir.StringAttr.get(self.raising.importer._constant_name(array))
                attributes = {"name": value}
            else:
                attributes = {"value": dense(array)}
            type_ = tensor(array.shape, element_of(array.dtype))
            return ir.Operation.create("jaxpr.constant", [type_], [], attributes).result

    def filled(self, type_: ir.Type, value: float) -> ir.Value:
        """A tensor of a type with every element ``value``."""
        with self.location:
            return filled(type_, value)

    def broadcast(self, value: ir.Value, type_: ir.Type, dims: Sequence[int] = ()) -> ir.Value:
        """A value repeated to a type."""
        return self.one(
            "broadcast_in_dim",
            [value],
            type_,
            shape=tuple(type_.shape),
            broadcast_dimensions=tuple(dims),
        )

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """A value's elements in another shape."""
        type_ = tensor(shape, value.type.element_type)
        return self.one("reshape", [value], type_, new_sizes=tuple(shape), dimensions=None)

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        """A value with its dimensions permuted."""
        shape = [shape_of(value)[i] for i in permutation]
        type_ = tensor(shape, value.type.element_type)
        return self.one("transpose", [value], type_, permutation=tuple(permutation))

    def convert(self, value: ir.Value, element: ir.Type) -> ir.Value:
        """A value with another element type."""
        return self._as(value, tensor(shape_of(value), element))

    def traced(self, fun: Callable[..., Any], operands: Values, types: Sequence[ir.Type]) -> Values:
        """The ops of a JAX function of some values; its results, converted to types."""
        avals = tuple(aval_of(v.type) for v in operands)
        with widths_of([*avals, *map(aval_of, types)]):
            closed = _jaxpr_of(fun, avals, jax.config.jax_enable_x64)
        results = self.raising.importer.write_inline(
            *open_jaxpr(closed), operands, self.block, self.location
        )
        pairs = zip(results, types, strict=True)
        return [v if v.type == t else self._as(v, t) for v, t in pairs]

    def _as(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        return ir.Operation.create(
            "jaxpr.convert_element_type", [type_], [value], conversion(type_), loc=self.location
        ).result

    def region(self, region: Any, op: Any, hint: str) -> Region:
        """A region as a function."""
        block = region.blocks[0]
        outer = outer_of([block])
        symbol = self.raising.region(block, outer, hint, op.location)
        return Region(symbol, [self.env[v] for v in outer.values])

    def closed_region(self, region: Any, op: Any, hint: str) -> str:
        """The symbol of the function of a region that takes constants alone from around it.

        Raises:
          ImportingError: it uses other values.
        """
        block = region.blocks[0]
        return self.raising.region(block, _constants_around(block), hint, op.location)

    def alone(self, region: Any, hint: str, manual: Any = None) -> tuple[Raising, str]:
        """A module with the function of a region, which takes constants alone from around it; and
        the function's symbol.

        Raises:
          ImportingError: the region uses other values.
        """
        inner = Raising(self.raising.module, self.raising.of_import)
        inner.manual = manual
        block = region.blocks[0]
        symbol = inner.region(block, _constants_around(block), hint, self.location)
        inner.write()
        # A program is what can be called.
        function = functions(inner.importer.module)[symbol]
        function.attributes["sym_visibility"] = ir.StringAttr.get("public")
        return inner, symbol


@functools.lru_cache(256)
def _jaxpr_of(fun: Callable[..., Any], avals: Sequence[Any], wide: bool) -> Any:
    """The jaxpr of a function, where numbers of 64 bits are what ``wide`` says."""
    return jax.make_jaxpr(fun)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))


class Outer(NamedTuple):
    """What regions take from around them."""

    values: list[ir.Value]
    """The values that their functions take as arguments."""
    constants: list[Any]
    """The ops that each of their functions writes again: so a loop's bounds stay known."""


def as_written(results: Values, operands: list[ir.Value]) -> Written | None:
    """How to write an op again whose results are these; ``None`` where they are not those of one op
    on the same operands alone."""
    new = results[0].owner
    if isinstance(new, ir.Block) or results[0] in operands or "name" in new.attributes:
        # A large constant is known by a name in one module only.
        return None
    order = [operands.index(v) for v in new.operands if v in operands]
    if len(order) != len(new.operands):
        return None
    types = [v.type for v in new.results]
    same = order == list(range(len(operands)))
    return Written(new.name, types, dict(new.attributes.items()), None if same else order)


def outer_of(blocks: Sequence[ir.Block]) -> Outer:
    """What the ops of some blocks, and those in their regions, take from around these."""
    values: list[ir.Value] = []
    constants: dict[Any, None] = {}
    for value in dict.fromkeys(v for block in blocks for v in captured_by(block)):
        ops = _constant_ops(value)
        if ops is None:
            values.append(value)
        else:
            constants.update(dict.fromkeys(ops))
    return Outer(values, list(constants))


def _constants_around(block: ir.Block) -> Outer:
    """What a block takes from around it, where that is constants alone.

    Raises:
      ImportingError: it uses other values.
    """
    outer = outer_of([block])
    if outer.values:
        raise ImportingError("its region uses values from around it; expected none")
    return outer


def _constant_ops(value: ir.Value) -> list[Any] | None:
    """The ops that make a constant, or repeat one."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    op = op.operation
    if op.name == "stablehlo.constant":
        return [op]
    if op.name == "stablehlo.broadcast_in_dim":
        inner = _constant_ops(op.operands[0])
        return None if inner is None else [*inner, op]
    return None


def end_of(block: ir.Block) -> ir.Operation:
    """The op that ends a block.

    Raises:
      ImportingError: there is none, which MLIR lets pass in a text of damaged ops.
    """
    try:
        return ir.InsertionPoint.at_block_terminator(block).ref_operation
    except ValueError:
        error, owner = ImportingError("expected an op that ends the block"), block.owner.operation
        place = locations.position(owner.location)
        raise at_op(ImportingError, error, owner.name, place) from None


def captured_by(block: ir.Block) -> list[ir.Value]:
    """The values that a block's ops, and those in their regions, take from around it."""
    own = set(block.arguments)
    used: dict[ir.Value, None] = {}
    for op in block.operations:
        used.update(dict.fromkeys(op.operands))
        if len(op.operation.regions):
            used.update(dict.fromkeys(captured(op)))
        own.update(op.results)
    return [value for value in used if value not in own]


def _is_splat(array: np.ndarray) -> bool:
    first = array.reshape(-1)[:1].tobytes()
    return array.tobytes() == first * array.size


def _no_rule(name: str) -> str:
    reason = REFUSED.get(name)
    if reason is not None:
        return f"it cannot be raised: {reason}"
    return "there is no op of the dialect for it; expected ops of StableHLO, CHLO and func"


REFUSED = {
    "stablehlo.uniform_quantize": "JAX has no quantised types",
    "stablehlo.uniform_dequantize": "JAX has no quantised types",
    "stablehlo.send": "JAX has no op that sends to a channel",
    "stablehlo.recv": "JAX has no op that receives from a channel",
    "stablehlo.infeed": "JAX has no infeed",
    "stablehlo.outfeed": "JAX has no outfeed",
}
"""Why there is no rule for some ops."""


def public_functions(module: ir.Module) -> list[str]:
    """The functions that others than the module itself may call: ``main``, or where there is none
    all that do not say otherwise."""
    public = [name for name, op in functions(module).items() if not is_private(op)]
    return ["main"] if "main" in public else public
