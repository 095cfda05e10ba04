"""Walks a StableHLO module and writes the dialect: functions, regions, and ops by the rules.

A rule is a function ``rule(w, op, operands) -> results``: it takes the :class:`BodyWriter` of the
current function, an op of StableHLO, and the dialect's values for the op's operands. :data:`RULES`
maps names of ops to rules. Regions become private functions, as sub-jaxprs do; the values that they
capture become arguments. Functions wait in a queue, so nothing here recurses. Only functions of
symbolic sizes are written at once: their ops determine the types of their results.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import core, open_jaxpr
from jaxmlir.bridge.importer import INLINE_CONSTANT_BYTES, Importer
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import (
    conversion,
    drop_dead_ops,
    filled,
    reachable,
    set_results,
    write_return,
)
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import body_of, func, functions, ir, is_private, new_function, sdy
from jaxmlir.dialect.types import (
    aval_of,
    dtype_of,
    element_of,
    is_key,
    is_narrowed,
    type_of,
    widths_of,
)
from jaxmlir.errors import ImportingError, JaxmlirError
from jaxmlir.raising import sizes
from jaxmlir.raising.broadcasts import BROADCASTING, BROADCASTS, Broadcasts
from jaxmlir.raising.source import (
    STATIC,
    RegionCaptures,
    all_equal,
    attribute,
    constants_around,
    end_of,
    is_open,
    located,
    outer_of,
    python_value,
    raised_type,
    shape_of,
    sizes_of,
    tensor,
)
from jaxmlir.support.lazy import memoized
from jaxmlir.verify.verifier import evaluate

Values = Sequence[ir.Value]
RaisingRule = Callable[["BodyWriter", Any, list[ir.Value]], Values]

RULES: dict[str, RaisingRule] = {}
"""The rule that writes each op, by name."""

BY_SIGNATURE = frozenset(
    f"stablehlo.{name}"
    for name in "add multiply maximum minimum broadcast_in_dim reshape transpose slice "
    "concatenate pad dot_general dynamic_slice dynamic_update_slice iota compare select convert "
    "constant reverse round_nearest_even convolution".split()
)
"""Ops that become one op on the same operands, in some order, which depends only on their name,
attributes and types."""


class WrittenOp(NamedTuple):
    """The op that an op of :data:`BY_SIGNATURE` was written as."""

    name: str
    types: list[ir.Type]
    attributes: dict[str, ir.Attribute]
    order: list[int] | None
    """The indices of its operands, if they are not all operands in order."""


_written: dict[Any, WrittenOp | None] = {}

MAX_INLINED = 100
"""How deep blocks may be inlined into one another."""

MAX_NESTED = 40
"""How deep a function may wait for others to be written before it."""

IDIOMS: dict[str, Callable[[BodyWriter, Any], Values | None]] = {}
"""What recognises an idiom, several ops that are one JAX function, by the name of its last op."""

PLAIN: dict[str, str] = {}
"""Ops that are one op of the dialect on the same operands, without attributes."""

SHAPE_OPERANDS = "indices_of_shape_operands"
"""The attribute of a custom call that says which operands are the shapes of its results."""

# Ops that end a function or a region.
_ENDS = frozenset(("func.return", "stablehlo.return", "sdy.return"))

# Ops of the dialect that constants of shapes are made by.
_REPEATING = frozenset(("jaxpr.broadcast_in_dim", "jaxpr.reshape", "jaxpr.convert_element_type"))

# Errors that JAX raises for an invalid op.
_BY_JAX = (ValueError, TypeError, core.InconclusiveDimensionOperation)


def rule(*names: str) -> Callable[[RaisingRule], RaisingRule]:
    """Registers the rule of some ops of StableHLO."""

    def register(function: RaisingRule) -> RaisingRule:
        RULES.update((n if "." in n else f"stablehlo.{n}", function) for n in names)
        return function

    return register


def renamed(primitive: str, *attributes: str) -> RaisingRule:
    """The rule of an op that is one of the dialect on the same operands, with attributes that have
    the same names there."""

    def write(w: BodyWriter, op: Any, operands: list[ir.Value]) -> Values:
        params = {name: attribute(op, name) for name in attributes}
        return w.emit(primitive, operands, w.types(op), **params)

    return write


def computed_by(fun: Callable[..., Any]) -> RaisingRule:
    """The rule of an op that computes what a JAX function of its operands does."""
    return lambda w, op, operands: w.traced(fun, operands, w.types(op))


class ModuleRaiser:
    """Raises one module.

    Attributes:
      importer: writes the new module, and holds its constants.
      of_import: makes the program of an importer.
      module: the source.
      meshes: Shardy's meshes, by their names.
      manual: the mesh and the axes of the manual computation that is being raised.
      idioms: the ops that idioms were written as, by the types of their operands.
      symbolic: whether there are sizes that are not numbers.
      asserting_block: a block whose assertions about sizes are not checked: the types of its
        arguments state them already.
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
        self.idioms: dict[Any, WrittenOp | None] = {}
        self.symbols: dict[str, str] = {}
        self.symbolic = any(
            is_open(t) for op in self.source.values() for t in (*op.type.inputs, *op.type.results)
        )
        self.asserting_block: ir.Block | None = None
        self._at_sizes: dict[Any, tuple[str, list[ir.Type]]] = {}
        self._depth = 0
        self._queue: deque[BodyWriter] = deque()

    def write(self) -> dict[str, Any]:
        """Writes the functions that were asked for, and all that these ask for in turn; all by
        their symbols.

        Functions that are not called are erased: a raised idiom leaves those of its loops behind.
        """
        while self._queue:
            self._queue.popleft().write()
        symbol_table = functions(self.importer.module)
        public = [name for name, op in symbol_table.items() if not is_private(op)]
        if len(public) < len(symbol_table):
            for name in symbol_table.keys() - reachable(symbol_table, *public):
                symbol_table.pop(name).operation.erase()
        return symbol_table

    def entry(
        self,
        name: str,
        types: Sequence[ir.Type],
        result_types: Sequence[ir.Type],
        taken: Sequence[int],
        numbers: Values,
    ) -> Any:
        """Writes the public function of an exported one, similarly to :meth:`function`.

        Args:
          types: the types of its arguments; random keys are keys here, and words in the source.
          result_types: of its results, likewise.
          taken: the arguments that the source function takes after those in ``numbers``.
          numbers: constants for the first arguments of the source function.
        """
        old = self.source[name]
        block = body_of(old)
        inner = list(block.arguments)[len(numbers) :]
        if len(inner) != len(taken):
            raise ImportingError(
                f"function @{name}: expected {len(taken)} arrays as arguments, got {len(inner)}"
            )
        self.symbols[name] = symbol = self.importer.unique_name(name)
        place = old.location, ir.InsertionPoint(self.importer.module.body)
        new, new_block = new_function(symbol, types, result_types, *place, visibility="public")
        env: dict[ir.Value, ir.Value] = {}
        writer = BodyWriter(self, new, block, env)
        with ir.InsertionPoint(new_block):
            for value, k in zip(inner, taken, strict=True):
                env[value] = writer.words(new_block.arguments[k])
            for value, number in zip(block.arguments, numbers, strict=False):
                env[value] = writer.constant(number)
        _keep_names({v: new_block.arguments[k] for v, k in zip(inner, taken, strict=True)})
        self._queue.append(writer)
        return new

    def function(self, name: str, public: bool = False) -> str:
        """The symbol of a source function; the first call queues it for writing."""
        symbol = self.symbols.get(name)
        if symbol is None:
            if name not in self.source:
                raise ImportingError(f"the module has no function @{name}")
            old = self.source[name]
            if not old.operation.regions[0].blocks:
                raise ImportingError(f"function @{name} has no body")
            symbol = self.symbols[name] = self.importer.unique_name(name)
            block = body_of(old)
            shapes = sizes.of_arguments(block, self.source) if public and self.symbolic else {}
            types = {v: tensor(shape, v.type.element_type) for v, shape in shapes.items()}
            writer = self._begun(symbol, block, block.arguments, old.location, types, public)
            self._queue.append(writer)
            _keep_names(writer.env)
        return symbol

    def at_sizes(
        self, name: str, operands: Values, sizes: Mapping[int, sizes.Sizes]
    ) -> tuple[str, list[ir.Type]]:
        """The symbol and result types of a function specialised to types and sizes of operands.

        Args:
          sizes: the known operands by index; the function does not take them.
        """
        types = [v.type for k, v in enumerate(operands) if k not in sizes]
        key = name, *types, *((k, *array.flat) for k, array in sizes.items())
        version = self._at_sizes.get(key)
        if version is None:
            old = self.source[name]
            block = body_of(old)
            arguments = list(block.arguments)
            rest = [v for k, v in enumerate(arguments) if k not in sizes]
            symbol = self.importer.unique_name(name)
            value_types = dict(zip(rest, types, strict=True))
            arrays = {arguments[k]: array for k, array in sizes.items()}
            writer = self._begun(symbol, block, rest, old.location, value_types, sizes=arrays)
            _keep_names(writer.env)
            version = self._at_sizes[key] = symbol, self._written_now(writer)
        return version

    def _written_now(self, writer: BodyWriter) -> list[ir.Type]:
        """Writes a function before its caller is written any further; returns its result types."""
        self._depth += 1
        try:
            if self._depth > MAX_NESTED:
                raise ImportingError("functions call one another too deep")
            writer.write()
        finally:
            self._depth -= 1
        return list(writer.function.type.results)

    def region(
        self,
        block: ir.Block,
        outer: RegionCaptures,
        hint: str,
        loc: Any,
        taken: Sequence[int] | None = None,
        returned: Sequence[int] | None = None,
        types: Mapping[ir.Value, ir.Type] | None = None,
    ) -> str:
        """Creates the function of a region; returns its symbol.

        Args:
          outer: the values it captures, its first arguments.
          taken: the block arguments that come next, in order; all if ``None``.
          returned: the results that the function has, in order; all if ``None``.
          types: the types of block arguments whose sizes are not numbers.
        """
        symbol = self.importer.unique_name(hint)
        writer = self._begun(
            symbol,
            block,
            [*outer.values, *_chosen(block.arguments, taken)],
            loc,
            {**outer.types, **(types or {})},
            constants=outer.constants,
            returned=returned,
            sizes=outer.sizes,
        )
        if self.symbolic:
            # Only the written functions may show what is carried, or how often a loop runs.
            self._written_now(writer)
        else:
            self._queue.append(writer)
        return symbol

    def results_of(self, symbol: str) -> list[ir.Type]:
        """The result types of a function that has been written."""
        return list(functions(self.importer.module)[symbol].type.results)

    @memoized
    def combination(self, name: str, element: ir.Type) -> str:
        """The symbol of the function that applies an op to two scalars of a type."""
        symbol = self.importer.unique_name(name)
        scalar = tensor((), element)
        place = ir.Location.unknown(), ir.InsertionPoint(self.importer.module.body)
        _, block = new_function(symbol, [scalar, scalar], [scalar], *place)
        with ir.InsertionPoint(block):
            result = ir.Operation.create(
                f"jaxpr.{name}", [scalar], list(block.arguments), loc=ir.Location.unknown()
            ).result
            write_return([result])
        return symbol

    def _begun(
        self,
        symbol: str,
        block: ir.Block,
        arguments: Sequence[ir.Value],
        loc: Any,
        types: Mapping[ir.Value, ir.Type],
        public: bool = False,
        returned: Sequence[int] | None = None,
        **others: Any,
    ) -> BodyWriter:
        """The writer of a block's function, of the types that values of the source are raised to.

        Args:
          arguments: what the function takes, of values that the block uses.
          types: the types of arguments whose sizes are not numbers.
          returned, others: of the :class:`BodyWriter`.
        """
        inputs = [types.get(v) or raised_type(v.type) for v in arguments]
        outputs = [raised_type(v.type) for v in _chosen(end_of(block).operands, returned)]
        place = loc, ir.InsertionPoint(self.importer.module.body)
        visibility = "public" if public else "private"
        function, _ = new_function(symbol, inputs, outputs, *place, visibility=visibility)
        env = dict(zip(arguments, function.arguments, strict=True))
        return BodyWriter(self, function, block, env, returned=returned, **others)


def _chosen(values: Sequence[Any], which: Sequence[int] | None) -> list[Any]:
    return list(values) if which is None else [values[k] for k in which]


def _keep_names(arguments: Mapping[ir.Value, ir.Value]) -> None:
    """Gives the arguments of a function the names of those of the source."""
    for old, new in arguments.items():
        if isinstance(old.location, ir.NameLoc):
            new.set_location(ir.Location.name(old.location.name_str))


class BodyWriter:
    """Writes the body of one function.

    Attributes:
      env: the dialect's value for each source value.
      constants: source ops that are written first.
      returned: the results that the function has, in order; all if ``None``.
      passed_on: source ops that are not written, as an earlier rule has decided, with the source
        value that replaces their result.
      location: the location of the op that is being written.
      sizes: the numbers and symbolic dimensions that values of the dialect are known to be.
    """

    def __init__(
        self,
        raising: ModuleRaiser,
        function: func.FuncOp,
        source: ir.Block,
        env: dict[ir.Value, ir.Value],
        constants: Sequence[Any] = (),
        returned: Sequence[int] | None = None,
        sizes: Mapping[ir.Value, sizes.Sizes] | None = None,
    ):
        self.raising = raising
        self.constants = constants
        self.returned = returned
        self.function: Any = function
        self.source: Any = source
        self.block: Any = body_of(function)
        self.env: dict[Any, Any] = env
        self.passed_on: dict[Any, ir.Value] = {}
        self._broadcasts = Broadcasts(self.broadcast)
        self.sizes: dict[Any, sizes.Sizes] = {}
        self._given_sizes = sizes or {}
        self._depth = 0
        self.location: Any = function.location

    def write(self) -> None:
        """Writes all ops and the return."""
        with ir.InsertionPoint(self.block):
            for value, array in self._given_sizes.items():
                self.env[value] = self.of_sizes(array, raised_type(value.type))
            for op in self.constants:
                self.location = op.location
                operands = [self.env[v] for v in op.operands]
                self.env[op.results[0]] = RULES[op.name](self, op, operands)[0]
            results = _chosen(self.ops(self.source), self.returned)
            types = self.function.type.results
            results = [self.keys(v, t) for v, t in zip(results, types, strict=True)]
            write_return(results)
        if any(map(is_open, types)):
            set_results(self.function, results)
        drop_dead_ops(self.function)

    def words(self, value: ir.Value) -> ir.Value:
        """The words of random keys; another value is unchanged."""
        aval = aval_of(value.type)
        if not is_key(aval):
            return value
        return self.one("random_unwrap", [value], type_of(core.physical_aval(aval)))

    def keys(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        """Random keys made of words, if the type is one of keys; else the value unchanged."""
        if value.type == type_ or is_open(type_) or not is_key(aval := aval_of(type_)):
            return value
        return self.one("random_wrap", [value], type_, impl=aval.dtype._impl)

    def ops(self, block: ir.Block) -> list[ir.Value]:
        """Writes a block's ops; the values that it returns."""
        env = self.env
        for view in block.operations:
            op = view.operation
            name = op.name
            self.location = op.location
            operands = [env[v] for v in op.operands]
            if name in BROADCASTING:
                operands = self._broadcasts.undone(operands)
            elif name in _ENDS:
                return operands
            try:
                results = self._results(op, name, operands)
            except JaxmlirError as e:
                raise located(e, op) from e.__cause__
            except (*_BY_JAX, KeyError, IndexError, ir.MLIRError) as e:
                # JAX's own checks of an op.
                raise located(ImportingError(f"{type(e).__name__}: {e}"), op) from e
            if name in BROADCASTS:
                self._broadcasts.note(op, operands[0], results[0])
            env.update(zip(op.results, results, strict=True))
        error = ImportingError("expected a terminator at the end of the block")
        raise located(error, self.function.operation)

    def _results(self, op: Any, name: str, operands: list[ir.Value]) -> Values:
        """Writes an op as what it is found to be, and else by its rule; its results."""
        symbolic = self.raising.symbolic
        if self.passed_on and op in self.passed_on:
            return [self.env[self.passed_on[op]]]
        if symbolic and (sized := self._of_sizes_alone(op, name, operands)) is not None:
            return sized
        if name in IDIOMS and (meant := IDIOMS[name](self, op)) is not None:
            return meant
        if name in PLAIN and not symbolic and not len(op.attributes):
            types = [raised_type(t) for t in op.results.types]
            return ir.Operation.create(PLAIN[name], types, operands, loc=self.location).results
        if name in BY_SIGNATURE:
            return self.by_signature(op, name, operands)
        apply_rule = RULES.get(name)
        if apply_rule is None:
            reason = REFUSED.get(name)
            why = "the dialect has no op for it; expected ops of StableHLO, CHLO and func"
            raise ImportingError(f"it cannot be raised: {reason}" if reason else why)
        return apply_rule(self, op, operands)

    def by_signature(self, op: Any, name: str, operands: list[ir.Value]) -> Values:
        """The results of an op that its rule writes as one on the same operands: as the last op
        like it was, unless an operand is there twice."""
        key = (name, *op.results.types, *[v.type for v in operands], *op.attributes.items())
        template = None if operands[:1] == operands[1:] else _written.get(key)
        if template is None:
            results = RULES[name](self, op, operands)
            if key not in _written and len(set(operands)) == len(operands):
                _written[key] = as_written(results, operands)
            return results
        return self.again(template, operands)

    def again(self, known: WrittenOp, operands: list[ir.Value]) -> Values:
        """Writes an op as one like it was written before."""
        name, types, attributes, order = known
        if order is not None:
            operands = [operands[k] for k in order]
        return ir.Operation.create(name, types, operands, attributes, loc=self.location).results

    # -- what rules use --

    def inlined(self, block: ir.Block, operands: Values | None = None) -> list[ir.Value]:
        """Inlines a block at the current op; returns the values that the block returns.

        Rules look up values in the writer's environment, so the block's takes its place for now.

        Args:
          operands: the values of its arguments, if it uses no others; by default it has none.

        Raises:
          ImportingError: blocks are inlined into one another too deep, or without end.
        """
        around, location = self.env, self.location
        self._depth += 1
        try:
            if self._depth > MAX_INLINED:
                raise ImportingError("functions call one another too deep")
            if operands is not None:
                self.env = dict(zip(block.arguments, operands, strict=True))
            return self.ops(block)
        finally:
            self.env, self.location = around, location
            self._depth -= 1

    def emit(
        self, primitive: str, operands: Values, types: Sequence[ir.Type], /, **params: Any
    ) -> list[ir.Value]:
        """Writes ``jaxpr.<primitive>``; returns its results.

        Args:
          params: attributes, or Python values to be encoded as such; default values are omitted.
        """
        attributes = {
            key: value if isinstance(value, ir.Attribute) else codec.encode(value)
            for key, value in params.items()
        }
        op = ir.Operation.create(
            f"jaxpr.{primitive}", list(types), list(operands), attributes, loc=self.location
        )
        if self.raising.symbolic and any(map(is_open, types)):
            self._infer(op)
        return list(op.results)

    def _infer(self, op: Any) -> None:
        """Sets the result types of a dialect op by JAX's abstract evaluation, as some of their
        sizes are not numbers."""
        try:
            _, avals, _ = evaluate(codec.NO_MODULE, op, op.name, True)
        except (*_BY_JAX, JaxmlirError) as e:
            reason = str(e).partition("\n")[0]
            type_ = next(v.type for v in op.results if is_open(v.type))
            raise ImportingError(f"the sizes of {type_} are not known: {reason}; {STATIC}") from e
        for result, aval in zip(op.results, avals, strict=True):
            result.set_type(type_of(aval.update(weak_type=False)))

    def one(self, primitive: str, operands: Values, type_: ir.Type, /, **params: Any) -> ir.Value:
        """Like :meth:`emit`, for an op with one result."""
        return self.emit(primitive, operands, [type_], **params)[0]

    def types(self, op: Any) -> list[ir.Type]:
        """The dialect's types of an op's results; some stay open unless operands give shapes."""
        types = [raised_type(v.type) for v in op.results]
        if self.raising.symbolic and SHAPE_OPERANDS in op.attributes:
            shapes = [self.env[op.operands[k]] for k in python_value(op.attributes[SHAPE_OPERANDS])]
            types = [
                tensor(self.known_numbers(shape, "sizes"), t.element_type)
                for shape, t in zip(shapes, types, strict=True)
            ]
        return types

    def like(self, primitive: str, /, *operands: ir.Value, **params: Any) -> ir.Value:
        """Writes an op whose result has the type of its last operand."""
        return self.one(primitive, operands, operands[-1].type, **params)

    # -- sizes that are not numbers --

    def known(self, value: ir.Value, depth: int = sizes.MAX_DEPTH) -> sizes.Sizes | None:
        """The numbers and symbolic dimensions that a value of the dialect is known to be.

        Args:
          depth: how many broadcasts, reshapes and conversions of a constant are looked through.
        """
        numbers = self.sizes.get(value)
        if numbers is not None or isinstance(op := value.owner, ir.Block):
            return numbers
        name = op.operation.name
        if name in _REPEATING and depth and sizes.is_small(value.type):
            inner = self.known(op.operands[0], depth - 1)
            numbers = None if inner is None else sizes.repeated(name, inner, value.type)
        elif name == "jaxpr.constant" and "value" in op.attributes:
            numbers = sizes.of_constant(value, op.attributes["value"])
        if numbers is not None:
            self.sizes[value] = numbers
        return numbers

    def known_numbers(self, value: ir.Value, what: str) -> tuple[Any, ...]:
        """The flat numbers and symbolic dimensions that a value of the dialect is.

        Raises:
          ImportingError: they are only known when the program runs.
        """
        numbers = self.known(value)
        flat = None if numbers is None else sizes.settled(numbers, wrapping=False)
        if flat is None:
            raise ImportingError(
                f"its {what} are computed when the program runs; expected a constant"
                + (f", or sizes of arguments; {STATIC}" if self.raising.symbolic else "")
            )
        return tuple(n if core.is_symbolic_dim(n) else int(n) for n in flat)

    def of_sizes(self, array: sizes.Sizes, type_: ir.Type) -> ir.Value:
        """Writes numbers and symbolic dimensions as a value of an integer type."""
        flat = sizes.settled(array)
        assert flat is not None
        if not sizes.is_symbolic(array):
            return self.constant(np.array(flat, dtype_of(type_.element_type)).reshape(array.shape))
        if not array.shape:
            dim = self.one("dim_as_value", [], type_of(core.dim_value_aval()), dim=flat[0])
            value = self.convert(dim, type_.element_type)
        else:
            element = tensor((), type_.element_type)
            scalars = [self.of_sizes(sizes.objects([size], ()), element) for size in flat]
            vector = tensor((len(scalars),), type_.element_type)
            rows = [self.reshape(v, (1,)) for v in scalars]
            value = self.reshape(self.one("concatenate", rows, vector, dimension=0), array.shape)
        self.sizes[value] = array
        return value

    def _of_sizes_alone(self, op: Any, name: str, operands: list[ir.Value]) -> Values | None:
        """The result of an op on known sizes; ``None`` for another op."""
        if name not in sizes.OPS:
            return None
        arrays = [self.known(v) for v in operands]
        if any(array is None for array in arrays):
            return None
        numbers = sizes.evaluated(op, arrays)
        if numbers is None:
            return None
        (type_,) = self.types(op)
        # Other results are still computed, as they may wrap around.
        simple = not is_open(type_) and sizes.are_held(numbers, dtype_of(type_.element_type))
        if simple and (not sizes.is_symbolic(numbers) or not numbers.shape):
            try:
                return [self.of_sizes(numbers, type_)]
            except OverflowError:
                return None
        results = RULES[name](self, op, operands)
        self.sizes[results[0]] = numbers
        return results

    def outer(self, blocks: Sequence[ir.Block]) -> RegionCaptures:
        """What blocks capture from around them; symbolic sizes are made again, not captured."""
        around = outer_of(blocks)
        if not self.raising.symbolic:
            return around
        arrays = {v: self.sizes.get(self.env[v]) for v in around.values}
        remade = {v: a for v, a in arrays.items() if a is not None and sizes.settled(a) is not None}
        values = [v for v in around.values if v not in remade]
        return RegionCaptures(
            values, around.constants, {v: self.env[v].type for v in values}, remade
        )

    # -- values --

    def constant(self, array: np.ndarray) -> ir.Value:
        """Writes a constant array; a large one of equal elements is a broadcast scalar."""
        type_ = tensor(array.shape, element_of(array.dtype))
        is_large = array.nbytes > INLINE_CONSTANT_BYTES
        with self.location:
            if is_large and all_equal(array, array.reshape(-1)[:1].tobytes()):
                return self.broadcast(self.constant(array.reshape(-1)[0].reshape(())), type_)
            # JAX would narrow an array of 64 bits that is not in the text of the module.
            if is_large and not is_narrowed(aval_of(type_)):
                name = self.raising.importer._constant_name(array)
                attributes: dict[str, ir.Attribute] = {"name": ir.StringAttr.get(name)}
            else:
                attributes = {"value": dense(array)}
            return ir.Operation.create("jaxpr.constant", [type_], [], attributes).result

    def filled(self, type_: ir.Type, value: float) -> ir.Value:
        """A tensor of a type whose elements are all ``value``."""
        with self.location:
            return filled(type_, value)

    def broadcast(self, value: ir.Value, type_: ir.Type, dims: Sequence[int] = ()) -> ir.Value:
        """Broadcasts a value to a type; transposes dimensions that are not in order, as JAX's rules
        take them in order."""
        order = sorted(range(len(dims)), key=dims.__getitem__)
        if order != list(range(len(dims))):
            value, dims = self.transpose(value, order), sorted(dims)
        params = {"shape": sizes_of(type_), "broadcast_dimensions": tuple(dims)}
        return self.one("broadcast_in_dim", [value], type_, **params)

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Reshapes a value."""
        type_ = tensor(shape, value.type.element_type)
        return self.one("reshape", [value], type_, new_sizes=tuple(shape), dimensions=None)

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        """Permutes a value's dimensions."""
        shape = [shape_of(value)[i] for i in permutation]
        type_ = tensor(shape, value.type.element_type)
        return self.one("transpose", [value], type_, permutation=tuple(permutation))

    def convert(self, value: ir.Value, element: ir.Type) -> ir.Value:
        """Converts a value to another element type."""
        return self._as(value, tensor(shape_of(value), element))

    def traced(self, fun: Callable[..., Any], operands: Values, types: Sequence[ir.Type]) -> Values:
        """Traces a JAX function and writes its ops; returns its results, converted to the types."""
        avals = tuple(aval_of(v.type) for v in operands)
        out_avals = [aval_of(tensor((), t.element_type) if is_open(t) else t) for t in types]
        with widths_of([*avals, *out_avals]):
            closed = _jaxpr_of(fun, avals, jax.config.jax_enable_x64)
            # This traces custom derivative rules.
            results = self.raising.importer.write_inline(
                *open_jaxpr(closed), operands, self.block, self.location
            )
        pairs = zip(results, types, strict=True)
        return [
            v if v.type == t else self.convert(v, t.element_type) if is_open(t) else self._as(v, t)
            for v, t in pairs
        ]

    def _as(self, value: ir.Value, type_: ir.Type) -> ir.Value:
        return ir.Operation.create(
            "jaxpr.convert_element_type", [type_], [value], conversion(type_), loc=self.location
        ).result

    def closed_region(self, region: Any, op: Any, hint: str) -> str:
        """The symbol of the function of a region that captures only constants.

        Raises:
          ImportingError: the region captures other values.
        """
        block = region.blocks[0]
        return self.raising.region(block, constants_around(block), hint, op.location)

    def alone(
        self, region: Any, hint: str, manual: Any = None, outer: RegionCaptures | None = None
    ) -> tuple[ModuleRaiser, str]:
        """A new module with the function of a region, which captures ``outer`` or else constants
        only (an ImportingError tells of others), and its symbol."""
        inner = ModuleRaiser(self.raising.module, self.raising.of_import)
        inner.manual = manual
        block = region.blocks[0]
        symbol = inner.region(block, outer or constants_around(block), hint, self.location)
        # Only public functions of a program can be called.
        function = functions(inner.importer.module)[symbol]
        function.attributes["sym_visibility"] = ir.StringAttr.get("public")
        inner.write()
        return inner, symbol


@functools.lru_cache(256)
def _jaxpr_of(fun: Callable[..., Any], avals: Sequence[Any], wide: bool) -> Any:
    """The jaxpr of a function, cached for each setting of 64-bit types (``wide``)."""
    return jax.make_jaxpr(fun)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))


def as_written(results: Values, operands: list[ir.Value]) -> WrittenOp | None:
    """How to write again the op that has these results; ``None`` if it is not a single op on the
    same operands alone."""
    op = results[0].owner
    if isinstance(op, ir.Block) or results[0] in operands or "name" in op.attributes:
        # The name of a large constant is only valid in one module.
        return None
    order = [operands.index(v) for v in op.operands if v in operands]
    if len(order) != len(op.operands):
        return None
    types = [v.type for v in op.results]
    same = order == list(range(len(operands)))
    return WrittenOp(op.name, types, dict(op.attributes.items()), None if same else order)


REFUSED = {
    "stablehlo.uniform_quantize": "JAX has no quantised types",
    "stablehlo.uniform_dequantize": "JAX has no quantised types",
    "stablehlo.send": "JAX has no op that sends to a channel",
    "stablehlo.recv": "JAX has no op that receives from a channel",
    "stablehlo.infeed": "JAX has no infeed",
    "stablehlo.outfeed": "JAX has no outfeed",
    "stablehlo.set_dimension_size": "JAX has no arrays whose size is known only at run time",
    "stablehlo.async_start": "JAX has no futures",
    "stablehlo.async_done": "JAX has no futures",
}
"""Why there is no rule for some ops."""
