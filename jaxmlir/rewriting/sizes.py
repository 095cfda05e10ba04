"""Substitutes sizes for the dimension variables of functions in types, attributes and ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxmlir._compat import core, shape_poly, state_types
from jaxmlir.dialect import codec
from jaxmlir.dialect.codec.types import dense
from jaxmlir.dialect.ir import func, ir
from jaxmlir.dialect.types import aval_of, type_of

Sizes = Mapping[str, Any]
"""The size of each variable: a number, or a symbolic dimension."""


def evaluate(dim: Any, sizes: Sizes) -> Any:
    """A dimension at given sizes of the variables; variables without a size stay."""
    if core.is_constant_dim(dim):
        return plain(dim)
    others = dim._get_vars() - sizes.keys()
    variables = {name: shape_poly._DimExpr._from_var(name, dim.scope) for name in others}
    return plain(dim._evaluate({**sizes, **variables}))


def plain(size: Any) -> Any:
    """A constant size as an ``int``; other sizes unchanged."""
    return int(size) if core.is_constant_dim(size) else size


# Pytree nodes may contain sizes: the node of a sparse matrix contains its shape.
_TREES = ("jaxpr.in_tree", "jaxpr.out_tree")


class SizeSubstitution:
    """Substitutes sizes for dimension variables in types, attributes and ops."""

    def __init__(self, sizes: Sizes):
        self.sizes = sizes
        self.types: dict[ir.Type, ir.Type] = {}
        self.attributes: dict[ir.Attribute, ir.Attribute] = {}

    def function(self, function: func.FuncOp) -> None:
        type_ = function.type
        types = [[self.type(t) for t in side] for side in (type_.inputs, type_.results)]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
        for tree in (key for key in _TREES if key in function.attributes):
            function.attributes[tree] = self.attribute(function.attributes[tree])
        for block in function.body:
            for argument in block.arguments:
                argument.set_type(self.type(argument.type))
            for op in list(block.operations):
                if type(op) is ir.OpView and op.name == "jaxpr.dim_as_value":
                    self.replace_with_size(op)
                    continue
                for value in op.results:
                    value.set_type(self.type(value.type))
                attributes = op.attributes
                for key, attr in list(attributes.items()):
                    changed = self.attribute(attr)
                    if changed is not attr:
                        attributes[key] = changed

    def replace_with_size(self, op: Any) -> None:
        """Evaluates a ``jaxpr.dim_as_value``: replaces it by a constant if the size is known."""
        (result,) = op.results
        size = evaluate(codec.decode(op.attributes["dim"]), self.sizes)
        if not core.is_constant_dim(size):
            op.attributes["dim"] = codec.encode(size)
            return
        value = dense(np.asarray(size, aval_of(result.type).dtype))
        with ir.InsertionPoint(op):
            constant = ir.Operation.create(
                "jaxpr.constant", [result.type], [], {"value": value}, loc=op.location
            )
        result.replace_all_uses_with(constant.result)
        op.operation.erase()

    def type(self, type_: ir.Type) -> ir.Type:
        new_type = self.types.get(type_)
        if new_type is None:
            new_type = self.types[type_] = self._new_type(type_)
        return new_type

    def _new_type(self, type_: ir.Type) -> ir.Type:
        if "shape = " not in str(type_):
            return type_
        aval = aval_of(type_)
        if isinstance(aval, state_types.AbstractRef):
            return type_of(aval.update(inner_aval=self._aval(aval.inner_aval)))
        return type_of(self._aval(aval))

    def _aval(self, aval: Any) -> Any:
        return aval.update(shape=tuple(evaluate(dim, self.sizes) for dim in aval.shape))

    def attribute(self, attr: ir.Attribute) -> ir.Attribute:
        new_attribute = self.attributes.get(attr)
        if new_attribute is None:
            new_attribute = self.attributes[attr] = self._new_attribute(attr)
        return new_attribute

    def _new_attribute(self, attr: ir.Attribute) -> ir.Attribute:
        """The attribute with sizes substituted; unchanged if it mentions no dimension."""
        if isinstance(attr, ir.TypeAttr):
            type_ = self.type(attr.value)
            return attr if type_ == attr.value else ir.TypeAttr.get(type_)
        if isinstance(attr, ir.ArrayAttr):
            items = list(attr)
            changed = [self.attribute(item) for item in items]
            if changed == items:
                return attr
            # A tuple of integers is encoded as a dense array.
            if all(isinstance(item, ir.IntegerAttr) for item in changed):
                return ir.DenseI64ArrayAttr.get([item.value for item in changed])
            return ir.ArrayAttr.get(changed)
        if isinstance(attr, ir.DictAttr):
            fields = {item.name: item.attr for item in attr}
            if fields.keys() == {"dim"}:
                return codec.encode(evaluate(codec.decode(attr), self.sizes))
            changed = {name: self.attribute(field) for name, field in fields.items()}
            return attr if changed == fields else ir.DictAttr.get(changed)
        return attr
