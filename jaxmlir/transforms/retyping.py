"""Gives the values of functions other types: manual axes that they vary over, or weak types.

:func:`vary` retypes a function for values that vary over manual axes of a mesh, as inside
``jax.shard_map``.  A program that is called there was traced with values that vary over fewer axes.
Its call is one op, all operands and results of which vary over the same added axes
(:mod:`jaxmlir.bridge.manual_axes`).  In the copy made here, all values of the function and of the
functions it refers to, custom derivative rules among them, vary over these axes too.
``jaxpr.pvary`` casts the values that JAX infers to vary over fewer (a constant, the result of a
collective).

The functions of a reduction's elements and of kernels keep their types.

:func:`infer_weak_types` gives the values that rules have written the weak types that JAX infers.  A
rule is run on the types of an op's operands and results, and the outcome is copied in wherever
there is such an op.  JAX runs the rule on the actual tangents and cotangents, and these need not be
weakly typed where the values are: the tangent of ``x ** 2`` has the factor ``2 * x``, which is not.
An array that is weakly typed by mistake gets another dtype once it meets one of fewer bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxmlir._compat import core
from jaxmlir.analysis.call_graph import KERNELS
from jaxmlir.bridge import manual_axes
from jaxmlir.bridge.manual_axes import Axes
from jaxmlir.dialect import codec, effect_attributes
from jaxmlir.dialect.builder import named_ops, ops_with_symbols, put_instead, returned, symbols_of
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.locations import error_at
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.ops import CALLEES, may_have_functions
from jaxmlir.dialect.types import aval_of, type_of
from jaxmlir.errors import TransformError, message_of
from jaxmlir.rewriting.dedupe import rename
from jaxmlir.transforms.templates import Rules
from jaxmlir.verify import signatures
from jaxmlir.verify.verifier import evaluate


def vary(rules: Rules, symbol: str, axes: Axes, mesh: Any) -> str:
    """Writes ``@symbol.varying``, all values of which vary over some axes of an abstract mesh,
    besides those that they vary over already; gives its symbol.  Fails if JAX refuses an op on such
    operands."""
    program = rules.program
    names = {
        old: rules.importer.unique_symbol(f"{old}.varying") for old in _typed_alike(rules, symbol)
    }
    retyping = _Retyping(rules, names, axes, mesh)
    copies = [retyping.copy(program.function(old), new) for old, new in names.items()]
    program.changed()
    for function in copies:
        retyping.cast(function)
    return names[symbol]


def _typed_alike(rules: Rules, symbol: str) -> list[str]:
    """The function and those that it refers to, except functions of elements and of kernels."""
    symbols = {symbol: None}
    pending = [symbol]
    while pending:
        for op, name in ops_with_symbols(rules.program.function(pending.pop())):
            if not _keeps_functions(name):
                unseen = [use for use in symbols_of(op) if use not in symbols]
                symbols.update(dict.fromkeys(unseen))
                pending += unseen
    return list(symbols)


def _keeps_functions(name: str) -> bool:
    return name in signatures.ON_ELEMENTS or name in KERNELS


class _Retyping:
    """Copies functions, and has the types of their values vary over more axes."""

    def __init__(self, rules: Rules, names: dict[str, str], axes: Axes, mesh: Any):
        self.rules = rules
        self.names = names
        self.axes = axes
        self.mesh = mesh
        self._contexts: dict[ir.Attribute | None, ir.Attribute] = {}

    def type(self, type_: ir.Type) -> ir.Type:
        """The type, made to vary over the axes too."""
        return type_of(manual_axes.varying(aval_of(type_), self.axes, self.mesh))

    def copy(self, function: func.FuncOp, name: str) -> func.FuncOp:
        """A copy of a function that refers to copies, with all values varying over the axes."""
        with ir.InsertionPoint(self.rules.program.module.body):
            copied = function.operation.clone().opview
        copied.attributes["sym_name"] = ir.StringAttr.get(name)
        copied.attributes["sym_visibility"] = ir.StringAttr.get("private")
        sides = copied.type.inputs, copied.type.results
        types = [[self.type(type_) for type_ in side] for side in sides]
        copied.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        for argument in copied.entry_block.arguments:
            argument.set_type(self.type(argument.type))
        for op, op_name in named_ops(copied):
            for result in op.results:
                result.set_type(self.type(result.type))
            attributes = op.attributes
            if not _keeps_functions(op_name):
                for key, attr in list(attributes.items()):
                    attributes[key] = self.attribute(rename(attr, self.names))
            if op_name != "jaxpr.constant":
                ctx = attributes["jaxpr.ctx"] if "jaxpr.ctx" in attributes else None
                attributes["jaxpr.ctx"] = self.context(ctx)
        return copied

    def attribute(self, attr: ir.Attribute) -> ir.Attribute:
        """An attribute of an op, with types changed like those of operands and results."""
        if isinstance(attr, ir.TypeAttr) and isinstance(attr.value, ir.RankedTensorType):
            return ir.TypeAttr.get(self.type(attr.value))
        if isinstance(attr, ir.ArrayAttr):
            return ir.ArrayAttr.get(list(map(self.attribute, attr)))
        if isinstance(attr, ir.DictAttr):
            return ir.DictAttr.get({item.name: self.attribute(item.attr) for item in attr})
        return attr

    def context(self, attr: ir.Attribute | None) -> ir.Attribute:
        """The context of an op, inside the mesh."""
        if attr not in self._contexts:
            context_mesh = effect_attributes.decode_ctx(attr).cur_abstract_mesh
            fields = {item.name: item.attr for item in attr or ()}
            fields["cur_abstract_mesh"] = codec.encode(manual_axes.inside(context_mesh, self.mesh))
            self._contexts[attr] = ir.DictAttr.get(fields)
        return self._contexts[attr]

    def cast(self, function: func.FuncOp) -> None:
        """Casts the results that JAX infers to vary over fewer axes."""
        for op, name in named_ops(function):
            if name == "jaxpr.pvary":
                self.cast_less(op)
                continue
            for result, missing in self.missing(op, name):
                self.cast_result(op, result, missing)

    def cast_less(self, op: Any) -> None:
        """Removes from a ``pvary`` the axes that its operand varies over already."""
        left = tuple(a for a in codec.decode(op.attributes["axes"]) if a not in self.axes)
        if left:
            op.attributes["axes"] = codec.encode(left)
        else:
            put_instead(op, list(op.operands))

    def missing(self, op: Any, name: str) -> Iterator[tuple[ir.Value, Axes]]:
        """The results of an op that do not vary over all axes, each with the missing axes."""
        avals = [aval_of(result.type) for result in op.results]
        if name == "jaxpr.constant":
            have = [frozenset()]
        else:
            have = list(map(manual_axes.axes_of, self.inferred(op, name)))
        for result, aval, axes in zip(op.results, avals, have, strict=True):
            if isinstance(aval, core.ShapedArray) and self.axes - axes:
                yield result, self.axes - axes

    def inferred(self, op: Any, name: str) -> list[Any]:
        """The abstract values that JAX infers for an op's results."""
        try:
            _, avals, _ = evaluate(self.rules.program.stubs, op, name, check_vma=True)
        except Exception as e:
            # The rules are JAX's or the user's, and may raise anything.
            axes = ", ".join(map(repr, sorted(self.axes, key=str)))
            message = (
                f"'{name}' op cannot be called where values vary over the mesh axes {axes}: "
                f"{message_of(e)}"
            )
            raise error_at(TransformError, op.location, message) from e
        return avals

    def cast_result(self, op: Any, result: ir.Value, missing: Axes) -> None:
        """Gives a result the type that JAX infers, and its users a cast of it."""
        type_ = result.type
        aval = aval_of(type_)
        less = aval.mat.update(varying=aval.mat.varying - missing)
        result.set_type(type_of(aval.update(manual_axis_type=less)))
        order = tuple(axis for axis in self.mesh.axis_names if axis in missing)
        attributes = {"axes": codec.encode(order), "jaxpr.ctx": self.context(None)}
        with ir.InsertionPoint.after(op.operation):
            cast = ir.Operation.create(
                "jaxpr.pvary", [type_], [result], attributes, loc=op.location
            )
        result.replace_all_uses_except(cast.result, cast)


def infer_weak_types(program: Module, symbols: Iterable[str]) -> None:
    """Makes values weakly typed where JAX does, in functions and in those that they call.  A
    function that is called with several types gets those of the first call.  The results of loops
    keep their types."""
    inference = _Inference(program)
    for symbol in symbols:
        if any(map(_is_weak, program.function(symbol).type.inputs)):
            inference.function(symbol)


def _is_weak(type_: ir.Type) -> bool:
    return getattr(aval_of(type_), "weak_type", False)


class _Inference:
    def __init__(self, program: Module):
        self.program = program
        self.results: dict[str, Sequence[ir.Type]] = {}

    def function(self, symbol: str, arguments: Sequence[ir.Value] = ()) -> Sequence[ir.Type]:
        """The types of a function's results; its arguments become as weak as the values passed."""
        if symbol not in self.results:
            function = self.program.function(symbol)
            own = list(function.entry_block.arguments)
            for argument, value in zip(own, arguments, strict=False):
                _set_weak(argument, _is_weak(value.type))
            for op, name in named_ops(function):
                if any(_is_weak(v.type) for v in (*op.operands, *op.results)):
                    for result, is_weak in zip(op.results, self.inferred(op, name), strict=True):
                        _set_weak(result, is_weak)
            types = self.results[symbol] = [v.type for v in returned(function)]
            type_ = ir.FunctionType.get([v.type for v in own], types)
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
        return self.results[symbol]

    def inferred(self, op: Any, name: str) -> list[bool]:
        """For each result of an op, whether it is weakly typed."""
        if name == "jaxpr.cond":
            branches = [self.function(branch.value) for branch in op.attributes["branches"]]
            return [all(map(_is_weak, types)) for types in zip(*branches, strict=True)]
        if name in CALLEES:
            # JAX transposes all other callees for the types that their results have.
            arguments = list(op.operands) if name == "jaxpr.jit" else []
            symbol = op.attributes[CALLEES[name]].value
            return list(map(_is_weak, self.function(symbol, arguments)))
        if name == "jaxpr.constant" or may_have_functions(name):
            return [_is_weak(result.type) for result in op.results]
        _, avals, _ = evaluate(self.program.stubs, op, name, check_vma=True)
        return [getattr(aval, "weak_type", False) for aval in avals]


def _set_weak(value: ir.Value, is_weak: bool) -> None:
    if _is_weak(value.type) != is_weak:
        value.set_type(type_of(aval_of(value.type).update(weak_type=is_weak)))
