"""Checks that the functions an op refers to take what it passes, and return what it expects.

Also checks the kinds and ranges of attributes that JAX checks only before it makes an equation.

JAX's abstract evaluation of a call looks at the results of the called jaxpr, but not always at its
arguments, and never at a custom derivative rule, which is a Python thunk there.  Here rules are
functions too:

=====================  =============================================================================
``jvp_jaxpr``          ``(*primals, *tangents) -> (*results, *tangents)``
``fwd_jaxpr``          ``(*primals) -> (*residuals, *results)``
``bwd_jaxpr``          ``(*residuals, *cotangents) -> (*cotangents)``
``bwd`` (custom_lin)   the same, of the residuals that are the op's first operands
``transposes``         ``(*operands, *cotangents) -> (*cotangents)``, of the nonlinear operands
``batches``            ``(*operands) -> (*results)``, with a dimension in front of those batched
=====================  =============================================================================

Zero tangents and cotangents are left out of a function's results where its ``jaxpr.out_zeros`` says
so, and of its arguments where its ``jaxpr.in_zeros`` says so.  Residuals that are operands are left
out of the results of ``fwd_jaxpr`` where its ``jaxpr.input_fwds`` says so.  A list in
``vjp_with_zeros`` has a forward rule and the backward rules that belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxmlir._compat import core
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import func, ir, symbol_uses
from jaxmlir.dialect.ops import CALLEES
from jaxmlir.dialect.types import aval_of, linear_aval, size_variable, type_of
from jaxmlir.errors import count
from jaxmlir.support.masks import chosen, left_out


def unmet(
    op: Any, attr: ir.Attribute, kind: str, each: str = ""
) -> Iterator[tuple[str, ir.Attribute]]:
    """The requirements of a kind that an attribute does not meet, each with the attribute or item;
    ``each`` is what a tuple has one item each for (see :class:`jaxmlir.dialect.ops.Attr`)."""
    if each:
        yield from _unmet_by_items(op, attr, kind, each)
    elif requirement := _unmet(op, attr, kind):
        yield requirement, attr


def _unmet_by_items(
    op: Any, attr: ir.Attribute, kind: str, each: str
) -> Iterator[tuple[str, ir.Attribute]]:
    if not isinstance(attr, (ir.ArrayAttr, ir.DenseBoolArrayAttr, ir.DenseI64ArrayAttr)):
        yield f"a tuple, each item {kind}", attr
        return
    rank = getattr(op.operands[0].type, "rank", 0) if len(op.operands) else 0
    expected = {
        "operands": len(op.operands),
        "results": len(op.results),
        "dimensions": rank,
        "spatial dimensions": max(rank - 2, 0),
    }[each]
    if len(attr) != expected:
        yield f"{count(expected, 'item')}, one for each {each.removesuffix('s')}", attr
    elif isinstance(attr, ir.ArrayAttr):
        for i, item in enumerate(attr):
            if requirement := _unmet(op, item, kind):
                yield f"{requirement} at {i}", item


def _unmet(op: Any, attr: ir.Attribute, kind: str) -> str:
    """The requirement of a kind that an attribute does not meet; empty where it meets all."""
    if not _fits(attr, kind):
        return kind
    if kind == "axes":
        # XLA aborts the process if a mesh axis is named twice.
        names = codec.decode(attr)
        return "different axes" if isinstance(names, tuple) and len({*names}) < len(names) else ""
    if kind in ("dimension", "dimensions") and len(op.operands):
        type_, value = op.operands[0].type, codec.decode(attr)
        dims = value if isinstance(value, tuple) else (value,)
        if isinstance(type_, ir.RankedTensorType) and not (
            len({*dims}) == len(dims)
            and all(isinstance(dim, (int, np.integer)) and 0 <= dim < type_.rank for dim in dims)
        ):
            what = "a dimension" if kind == "dimension" else "different dimensions"
            return f"{what} of {type_}, counted from 0"
    return ""


def _fits(attr: ir.Attribute, kind: str) -> bool:
    """Whether an attribute can be of a kind; kinds that are hard to check accept everything."""
    if kind.endswith("?") and str(attr) == "none":
        return True
    for option in kind.removesuffix("?").split(" or "):
        word, _, name = option.partition(" ")
        if word not in _KINDS or _KINDS[word](attr, name):
            return True
    return False


_Fits = Callable[[ir.Attribute, str], bool]
"""Whether an attribute is of a kind; for enums and records, the text is the class's name."""


def _is_a(*classes: type[ir.Attribute]) -> _Fits:
    return lambda attr, _: isinstance(attr, classes)


def _is_tuple_of(fits: Callable[[Any], bool]) -> _Fits:
    def is_tuple(attr: ir.Attribute, _: str) -> bool:
        # A dictionary may stand for an object of this module or process.
        if isinstance(attr, ir.DictAttr) and codec.depends_on_module(attr):
            return True
        value = codec.decode(attr)
        return isinstance(value, (tuple, list)) and all(map(fits, value))

    return is_tuple


def _is_size(attr: ir.Attribute, _: str) -> bool:
    # Symbolic sizes, huge integers and numpy scalars are encoded as dictionaries.
    return isinstance(attr, ir.IntegerAttr) or (
        isinstance(attr, ir.DictAttr) and core.is_dim(codec.decode(attr))
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(core.is_dim, value))


def _are_names(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)


def _is_function(attr: ir.Attribute) -> bool:
    return isinstance(attr, ir.FlatSymbolRefAttr)


def _are_functions(attr: ir.Attribute) -> bool:
    return isinstance(attr, ir.ArrayAttr) and all(map(_is_function, attr))


def _are_lists(attr: ir.Attribute) -> bool:
    return isinstance(attr, ir.ArrayAttr) and all(_are_functions(a) and len(a) for a in attr)


def _is_of_class(attr: ir.Attribute, name: str) -> bool:
    # Records of functions are checked further with the ops that have them.
    class_name = _tag(attr).rpartition(".")[2]
    return codec.depends_on_module(attr) or class_name in (name, codec.HANDLE)


# Tags of plain Python values; "" is the absence of a tag.
_PLAIN = ("", "bytes", "complex", "container_type", "dict", "int", "list", "scalar", "set")

_KINDS: dict[str, _Fits] = {
    "bool": _is_a(ir.BoolAttr),
    "str": _is_a(ir.StringAttr),
    **dict.fromkeys(("int", "dimension"), _is_size),
    # An extended dtype, or a Python object, is encoded as a dictionary.
    **dict.fromkeys(("dtype", "type"), _is_a(ir.TypeAttr, ir.DictAttr)),
    "pair": lambda attr, _: _is_pair(codec.decode(attr)),
    "ints": _is_tuple_of(core.is_dim),
    "bools": _is_tuple_of(lambda item: isinstance(item, (bool, np.bool_))),
    "strs": _is_tuple_of(lambda item: isinstance(item, str)),
    "pairs": _is_tuple_of(_is_pair),
    "platforms": _is_tuple_of(lambda item: item is None or _are_names(item)),
    # A record, or a Python object.
    "policy": _is_a(ir.DictAttr),
    "dimensions": _is_a(ir.DenseI64ArrayAttr, ir.ArrayAttr, ir.DictAttr),
    "function": lambda attr, _: _is_function(attr),
    "functions": lambda attr, _: _are_functions(attr),
    "lists": lambda attr, _: _are_lists(attr),
    **dict.fromkeys(("enum", "record"), _is_of_class),
    "sharding": lambda attr, _: _tag(attr) not in _PLAIN,
}


def _tag(attr: ir.Attribute) -> str:
    """The class of an attribute's value, if it is encoded as the key of a dictionary."""
    return attr[0].name if isinstance(attr, ir.DictAttr) and len(attr) == 1 else ""


Functions = Mapping[str, func.FuncOp]


def errors(op: Any, name: str, functions: Functions) -> Iterator[str]:
    """The errors of the signatures of the functions that an op refers to, as texts that follow the
    op's name.  All symbols must be known."""
    check = _CHECKS.get(name)
    if check is not None:
        yield from check(_CheckedOp(op, functions))


class _CheckedOp:
    """An op with access to the functions it refers to."""

    def __init__(self, op: Any, functions: Functions):
        self.attributes = dict(op.attributes.items())
        self._functions = functions
        self.operands = [aval_of(v.type) for v in op.operands]
        self.results = [aval_of(v.type) for v in op.results]

    def get(self, name: str, default: Any) -> Any:
        return codec.decode(self.attributes[name]) if name in self.attributes else default

    def function(self, name: str) -> _NamedFunction | None:
        """The function that an attribute names; ``None`` where it is absent."""
        return self._function(name, self.attributes.get(name))

    def record(self, name: str) -> dict[str, ir.Attribute]:
        """The fields of an attribute that is a record; none if it is absent or something else."""
        for item in self.attributes.get(name, ()):
            if isinstance(item.attr, ir.DictAttr):
                return {field.name: field.attr for field in item.attr}
        return {}

    def function_of(self, name: str, field: str) -> _NamedFunction | None:
        """The function that a field of an attribute's record names; ``None`` where it is absent."""
        return self._function(f"{name}.{field}", self.record(name).get(field))

    def _function(self, name: str, symbol: ir.Attribute | None) -> _NamedFunction | None:
        if not isinstance(symbol, ir.FlatSymbolRefAttr):
            return None
        return _NamedFunction(name, symbol.value, self._functions[symbol.value])

    def unfit_fields(
        self, name: str, what: str, fits: Callable[[ir.Attribute], bool], fields: Sequence[str]
    ) -> Iterator[str]:
        """The errors of an attribute that must be a record with some fields."""
        where, attribute = f" attribute '{name}", self.attributes[name]
        records = [item.attr for item in attribute] if isinstance(attribute, ir.DictAttr) else []
        if len(records) != 1 or not isinstance(records[0], ir.DictAttr):
            yield f"{where}': expected a record of {', '.join(fields)}, got {attribute}"
            return
        for field in fields:
            value = records[0][field] if field in records[0] else None
            if value is None or not fits(value):
                yield f"{where}.{field}': expected {what}, got {value or 'nothing'}"

    def functions(self, name: str) -> list[_NamedFunction]:
        """The functions that an attribute names, be it one or several."""
        return self.functions_in(name, self.attributes[name]) if name in self.attributes else []

    def families(self, name: str) -> Iterator[list[_NamedFunction]]:
        """The functions of each of the lists of an attribute, if they are there."""
        lists = (self.functions_in(name, family) for family in self.attributes.get(name, ()))
        return filter(None, lists)

    def functions_in(self, name: str, part: ir.Attribute) -> list[_NamedFunction]:
        """The functions that a part of an attribute names."""
        symbols = symbol_uses(part)
        return [_NamedFunction(name, symbol, self._functions[symbol]) for symbol in symbols]


class _NamedFunction:
    """One function that an op refers to."""

    def __init__(self, attribute: str, symbol: str, op: func.FuncOp):
        self.attribute = attribute
        self.symbol = symbol
        self._attributes = op.attributes
        self.operands = [aval_of(type_) for type_ in op.type.inputs]
        self.results = [aval_of(type_) for type_ in op.type.results]

    def get(self, name: str, default: Any) -> Any:
        return codec.decode(self._attributes[name]) if name in self._attributes else default

    def mask(self, name: str, values: Sequence[Any]) -> tuple[bool, ...]:
        """An attribute that is a mask of values; all false if it is not a mask of that length."""
        mask = self.get(name, ())
        is_mask = isinstance(mask, tuple) and len(mask) == len(values)
        return mask if is_mask else (False,) * len(values)

    def takes(self, *groups: tuple[str, Sequence[Any]]) -> Iterator[str]:
        yield from self._compare("takes", self.operands, groups)

    def gives(self, *groups: tuple[str, Sequence[Any]]) -> Iterator[str]:
        yield from self._compare("gives", self.results, groups)

    def gives_integers(self) -> Iterator[str]:
        for aval in self.results:
            if aval.shape or aval.dtype not in (np.int32, np.int64):
                yield (
                    f" attribute '{self.attribute}': expected a function that gives i32 or i64 "
                    f"scalars, got @{self.symbol}, which gives {type_of(aval)}"
                )

    def _compare(
        self, verb: str, have: Sequence[Any], groups: Sequence[tuple[str, Sequence[Any]]]
    ) -> Iterator[str]:
        """The differences of types from named groups of expected types; ``None`` accepts any."""
        want = [aval for _, group in groups for aval in group]
        where = f" attribute '{self.attribute}': expected a function that {verb} "
        if len(want) != len(have):
            parts = " and ".join(count(len(group), what) for what, group in groups)
            yield f"{where}{parts}, got @{self.symbol}, which {verb} {len(have)}"
            return
        names = [f"{what} #{i}" for what, group in groups for i in range(len(group))]
        for name, w, h in zip(names, want, have, strict=True):
            if w is not None and not core.typematch(w, h):
                got = f"@{self.symbol}, which {verb} {type_of(h)}"
                yield f"{where}{type_of(w)} for {name}, got {got}"

    def without_zeros(self, avals: Sequence[Any]) -> list[Any]:
        """The (co)tangents that the rule takes, as its ``jaxpr.in_zeros`` tells."""
        return left_out(avals, self.mask("jaxpr.in_zeros", avals))

    def drop_zeros(self, avals: Sequence[Any]) -> list[Any]:
        """The values that the function gives, as its ``jaxpr.out_zeros`` tells."""
        return left_out(avals, self.mask("jaxpr.out_zeros", avals))


def _tangents(avals: Sequence[Any]) -> list[Any]:
    return [aval.to_tangent_aval() for aval in avals]


def _cotangents(avals: Sequence[Any]) -> list[Any]:
    return [aval.to_ct_aval() for aval in avals]


def _call(attribute: str) -> Callable[[_CheckedOp], Iterator[str]]:
    """The check of an op whose operands and results are those of one function."""

    def check(op: _CheckedOp) -> Iterator[str]:
        function = op.function(attribute)
        if function is not None:
            yield from function.takes(("operand", op.operands))
            yield from function.gives(("result", op.results))

    return check


def _out_of_range(why: str, *bounds: tuple[str, int, int, int]) -> str:
    """The error of the first attribute that is out of its bounds (name, value, least, largest),
    which follow from ``why``; empty if none is."""
    for name, value, least, most in bounds:
        if not least <= value <= most:
            expected = f"{least} to {max(least, most)} {why}"
            return f" attribute '{name}': expected {expected}, got {value}"
    return ""


def _while(op: _CheckedOp) -> Iterator[str]:
    cond, body = op.function("cond_jaxpr"), op.function("body_jaxpr")
    n_cond, n_body = op.get("cond_nconsts", 0), op.get("body_nconsts", 0)
    operands = len(op.operands)
    wrong = _out_of_range(
        f"for {count(operands, 'operand')}",
        ("cond_nconsts", n_cond, 0, operands),
        ("body_nconsts", n_body, 0, operands - n_cond),
    )
    if wrong:
        yield wrong
        return
    carry = op.operands[n_cond + n_body :]
    consts = op.operands[:n_cond], op.operands[n_cond : n_cond + n_body]
    if cond is not None:
        yield from cond.takes(("constant", consts[0]), ("carried value", carry))
        yield from cond.gives(("truth value", [None]))
        if len(cond.results) == 1:
            yield from _truth_errors(cond, carry)
    if body is not None:
        yield from body.takes(("constant", consts[1]), ("carried value", carry))
        yield from body.gives(("carried value", carry))


def _scan(op: _CheckedOp) -> Iterator[str]:
    """Checks the number of operands and their lengths, which JAX's type check does not."""
    n_consts, n_carry, length = (op.get(k, 0) for k in ("num_consts", "num_carry", "length"))
    operands, results = len(op.operands), len(op.results)
    wrong = _out_of_range(
        f"for {count(operands, 'operand')} and {count(results, 'result')}",
        ("num_consts", n_consts, 0, operands),
        ("num_carry", n_carry, 0, min(operands - n_consts, results)),
    )
    if wrong:
        yield wrong
        return
    for what, first, avals in (
        ("operand", n_consts + n_carry, op.operands),
        ("result", n_carry, op.results),
    ):
        for i, aval in enumerate(avals[first:], first):
            size = (getattr(aval, "shape", ()) or (None,))[0]
            if size is None or (type(size) is type(length) is int and size != length):
                yield f" {what} #{i}: expected {length} slices, got {type_of(aval)}"


def _cond(op: _CheckedOp) -> Iterator[str]:
    """Checks the index: JAX's type check only compares the branches."""
    index = op.operands[0]
    if index.shape or index.dtype not in (np.dtype(np.int32), np.dtype(bool)):
        yield f" operand #0: expected an i32, the index of a branch, got {type_of(index)}"


def _truth_errors(cond: _NamedFunction, carry: Sequence[Any]) -> Iterator[str]:
    """The errors of a loop condition.  A loop runs while any element of its condition is true; a
    batched loop has one element for each member of the batch, whose dimensions come first in the
    carried values."""
    (truth,) = cond.results
    shape = truth.shape
    if truth.dtype != np.dtype(bool):
        expected = "i1"
    elif shape and any(aval.shape[: len(shape)] != shape for aval in carry):
        expected = "a scalar, or the leading dimensions of all carried values,"
    else:
        return
    got = f"@{cond.symbol}, which gives {type_of(truth)}"
    yield (
        f" attribute '{cond.attribute}': expected a function that gives {expected} "
        f"for truth value #0, got {got}"
    )


def _on_elements(
    attribute: str, *, gives_truth: bool = False
) -> Callable[[_CheckedOp], Iterator[str]]:
    """The check of a function on two scalars of each operand's dtype, which returns one scalar of
    each, or a truth value.  The operands that it is applied to come first, as many as the op has
    results."""

    def check(op: _CheckedOp) -> Iterator[str]:
        function = op.function(attribute)
        if function is None:
            return
        elements = [core.ShapedArray((), aval.dtype) for aval in op.operands[: len(op.results)]]
        truth = [core.ShapedArray((), np.dtype(bool))]
        yield from function.takes(("element", elements), ("other element", elements))
        yield from function.gives(("truth value", truth) if gives_truth else ("element", elements))

    return check


def _select_and_scatter(op: _CheckedOp) -> Iterator[str]:
    yield from _on_elements("select_jaxpr", gives_truth=True)(op)
    yield from _on_elements("scatter_jaxpr")(op)


def _is_count(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.IntegerAttr) and attribute.value >= 0


def _custom_linear_solve(op: _CheckedOp) -> Iterator[str]:
    of_solve, mandatory = ("matvec", "vecmat", "solve", "transpose_solve"), ("matvec", "solve")
    malformed = [
        *op.unfit_fields("const_lengths", "a number of constants", _is_count, of_solve),
        *op.unfit_fields("jaxprs", "the symbol of a function", _is_function, mandatory),
    ]
    if malformed:
        yield from malformed
        return
    lengths = op.get("const_lengths", None)
    first = sum(lengths)
    right = op.operands[first:]
    solution, besides = op.results[: len(right)], op.results[len(right) :]
    anything = [None] * len(besides)
    kinds = {
        "matvec": (("unknown", solution), [("right-hand side", right)]),
        "vecmat": (("cotangent", right), [("cotangent", solution)]),
        "solve": (("right-hand side", right), [("unknown", solution), ("other result", besides)]),
        "transpose_solve": (
            ("cotangent", solution),
            [("cotangent", right), ("other result", anything)],
        ),
    }
    start = 0
    for name, n_consts in zip(lengths._fields, lengths, strict=True):
        consts = op.operands[start : start + n_consts]
        start += n_consts
        function = op.function_of("jaxprs", name)
        if function is not None:
            taken, given = kinds[name]
            yield from function.takes(("constant", consts), taken)
            yield from function.gives(*given)


def _linear(callee: str, transpose: str) -> Callable[[_CheckedOp], Iterator[str]]:
    """The check of a call that is linear in its last operands and names its transpose."""

    def check(op: _CheckedOp) -> Iterator[str]:
        yield from _call(callee)(op)
        function = op.function(transpose)
        if function is not None:
            first = op.get("num_callee_consts", 0)
            last = first + op.get("num_res", 0)
            residuals, linear = op.operands[first:last], op.operands[last:]
            out_cts = [linear_aval(aval) for aval in op.results]
            cotangents = [linear_aval(aval) for aval in linear]
            yield from function.takes(("residual", residuals), ("cotangent", out_cts))
            yield from function.gives(("cotangent", cotangents))

    return check


def _linear_call(op: _CheckedOp) -> Iterator[str]:
    if op.attributes.keys().isdisjoint(("transpose", "transpose_thunk")):
        yield " requires attribute 'transpose': expected function, got none"
    yield from _linear("callee", "transpose")(op)


def _custom_jvp(op: _CheckedOp) -> Iterator[str]:
    yield from _call("call_jaxpr")(op)
    primals = op.operands[op.get("num_consts", 0) :]
    for jvp in (*op.functions("jvp_jaxpr"), *op.functions("jvp_with_zeros")):
        nonzero = jvp.without_zeros(_tangents(primals))
        yield from jvp.takes(("primal", primals), ("tangent", nonzero))
        tangents = jvp.drop_zeros(_tangents(op.results))
        yield from jvp.gives(("result", op.results), ("nonzero tangent", tangents))
    for rule in op.functions("transposes"):
        linear = rule.mask("jaxpr.linear", op.operands)
        nonzero = rule.without_zeros(_cotangents(op.results))
        yield from rule.takes(("operand", left_out(op.operands, linear)), ("cotangent", nonzero))
        moving = _cotangents(chosen(op.operands, linear))
        yield from rule.gives(("nonzero cotangent", rule.drop_zeros(moving)))
    for rule in op.functions("batches"):
        name = rule.get("jaxpr.batch_size", "")
        if not (isinstance(name, str) and re.fullmatch(r"batch_\d+", name)):
            yield (
                f" attribute '{rule.attribute}': expected a function with a name such as "
                f"\"batch_0\" as 'jaxpr.batch_size', got @{rule.symbol} with {name!r}"
            )
            continue
        size = size_variable(name, op.operands)
        operands = rule.mask("jaxpr.batched", op.operands)
        results = rule.mask("jaxpr.out_batched", op.results)
        yield from rule.takes(("operand", _batches(op.operands, operands, size)))
        yield from rule.gives(("result", _batches(op.results, results, size)))


def _batches(avals: Sequence[Any], batched: Sequence[bool], size: Any) -> list[Any]:
    """The types, with an added leading dimension where they are batched."""
    return [core.unmapped_aval(size, 0, a) if b else a for a, b in zip(avals, batched, strict=True)]


def _custom_vjp(op: _CheckedOp) -> Iterator[str]:
    yield from _call("call_jaxpr")(op)
    primals = op.operands[op.get("num_consts", 0) :]
    fwd, bwd = op.function("fwd_jaxpr"), op.function("bwd_jaxpr")
    if fwd is not None:
        yield from _family(op, primals, fwd, [] if bwd is None else [bwd])
    for family in op.families("vjp_with_zeros"):
        yield from _family(op, primals, family[0], family[1:])


def _family(
    op: _CheckedOp, primals: Sequence[Any], fwd: _NamedFunction, backward: Sequence[_NamedFunction]
) -> Iterator[str]:
    """A forward rule and the backward rules that take its residuals."""
    yield from fwd.takes(("primal", primals))
    n_res = fwd.get("jaxpr.num_res", 0)
    forwarded = fwd.get("jaxpr.input_fwds", (None,) * n_res)
    where = f" attribute '{fwd.attribute}': expected a function with "
    if not isinstance(forwarded, tuple) or not all(i is None or core.is_dim(i) for i in forwarded):
        expected = "a tuple of integers or none as 'jaxpr.input_fwds'"
        yield f"{where}{expected}, got @{fwd.symbol} with {forwarded!r}"
        return
    if len(forwarded) != n_res:
        expected = f"{n_res} 'jaxpr.input_fwds', as many as 'jaxpr.num_res'"
        yield f"{where}{expected}, got @{fwd.symbol} with {len(forwarded)}"
        return
    for i in forwarded:
        if i is not None and not 0 <= i < len(primals):
            expected = f"'jaxpr.input_fwds' from 0 to {len(primals) - 1}"
            yield f"{where}{expected}, got @{fwd.symbol} with {i}"
            return
    n_own = sum(i is None for i in forwarded)
    yield from fwd.gives(("residual", [None] * n_own), ("result", op.results))
    if len(fwd.results) < n_own:
        return
    returned = iter(fwd.results)
    residuals = [next(returned) if i is None else primals[i] for i in forwarded]
    for bwd in backward:
        nonzero = bwd.without_zeros(_cotangents(op.results))
        yield from bwd.takes(("residual", residuals), ("cotangent", nonzero))
        yield from bwd.gives(("nonzero cotangent", bwd.drop_zeros(_cotangents(primals))))


def _custom_lin(op: _CheckedOp) -> Iterator[str]:
    n_res = op.get("num_res", 0)
    residuals = op.operands[:n_res]
    for bwd in (*op.functions("bwd"), *op.functions("bwd_with_zeros")):
        nonzero = bwd.without_zeros(_cotangents(op.results))
        yield from bwd.takes(("residual", residuals), ("cotangent", nonzero))
        tangents = iter(op.operands[n_res:])
        # The type of a zero tangent is not recorded.
        cotangents = [None if zero else next(tangents, None) for zero in op.get("in_zeros", ())]
        yield from bwd.gives(("nonzero cotangent", bwd.drop_zeros(cotangents)))


def _remat_opt(op: _CheckedOp) -> Iterator[str]:
    yield from _call("fwd_jaxpr")(op)
    fun = op.function("fun_jaxpr")
    if fun is not None:
        yield from fun.takes(("primal", op.operands[op.get("num_consts", 0) :]))
        yield from fun.gives(("result", op.results[op.get("num_res", 0) :]))


def _sort(op: _CheckedOp) -> Iterator[str]:
    num_keys = ("num_keys", op.get("num_keys", 1), 1, len(op.operands))
    yield from filter(None, [_out_of_range(f"for {count(len(op.operands), 'operand')}", num_keys)])


def _product(op: _CheckedOp) -> Iterator[str]:
    precision = op.get("precision", None)
    # An algorithm is a named tuple, and holds for both operands.
    if type(precision) is tuple and len(precision) != 2:
        yield (
            " attribute 'precision': expected one for both operands, or one for each, "
            f"got {len(precision)}"
        )


def _remat(op: _CheckedOp) -> Iterator[str]:
    yield from _call("jaxpr")(op)
    prevent_cse = op.get("prevent_cse", True)
    if isinstance(prevent_cse, tuple) and len(prevent_cse) != len(op.operands):
        yield (
            f" attribute 'prevent_cse': expected {count(len(op.operands), 'item')}, one for each "
            f"operand, got {len(prevent_cse)}"
        )


# StableHLO checks a composite's name too, but only when the module is complete.
_NAMESPACED = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+")


def _composite(op: _CheckedOp) -> Iterator[str]:
    yield from _call("call_jaxpr")(op)
    name = op.get("name", "")
    if not _NAMESPACED.fullmatch(name):
        yield f" attribute 'name': expected a name in a namespace, such as 'mine.op', got {name!r}"


def _stack(op: _CheckedOp) -> Iterator[str]:
    axis = ("axis", op.get("axis", 0), 0, len(op.operands[0].shape))
    yield from filter(None, [_out_of_range("for a new dimension", axis)])


def _pallas_call(op: _CheckedOp) -> Iterator[str]:
    kernel, grid = op.function("jaxpr"), op.record("grid_mapping")
    # The grid mapping may be a Python object of this process.
    if kernel is None or not grid:
        return
    groups = {
        "index operand": grid["num_index_operands"].value,
        "block of an operand": grid["num_inputs"].value,
        "block of a result": grid["num_outputs"].value,
        "scratch operand": len(grid["scratch_avals"]),
    }
    yield from kernel.takes(*((what, [None] * n) for what, n in groups.items()))
    ids = list(codec.decode(grid["index_map_avals"]))
    for (mapping,) in grid["block_mappings"]:
        fields = {item.name: item.attr for item in mapping.attr}
        (index_map,) = op.functions_in("grid_mapping", fields["index_map_jaxpr"])
        yield from index_map.takes(("program id or index operand", ids))
        indices = len(fields["block_shape"])
        # A slice of a dimension is a pair of indices.
        if "index_map_out_tree" in fields:
            indices = codec.decode(fields["index_map_out_tree"]).num_leaves
        yield from index_map.gives(("index of a block", [None] * indices))
        yield from index_map.gives_integers()


_ON_ELEMENTS: dict[str, Callable[[_CheckedOp], Iterator[str]]] = {
    "jaxpr.reduce": _on_elements("jaxpr"),
    "jaxpr.reduce_window": _on_elements("jaxpr"),
    "jaxpr.select_and_scatter": _select_and_scatter,
    **{
        f"jaxpr.scatter{kind}": _on_elements("update_jaxpr")
        for kind in ("", "_add", "_sub", "_mul", "_min", "_max")
    },
}
# Ops whose functions act on elements: scalars without device or mesh.
ON_ELEMENTS = frozenset(_ON_ELEMENTS)

_CHECKS: dict[str, Callable[[_CheckedOp], Iterator[str]]] = {
    **{name: _call(attribute) for name, attribute in CALLEES.items()},
    "jaxpr.remat2": _remat,
    "jaxpr.composite": _composite,
    "jaxpr.cond": _cond,
    "jaxpr.scan": _scan,
    "jaxpr.while": _while,
    **_ON_ELEMENTS,
    "jaxpr.custom_linear_solve": _custom_linear_solve,
    "jaxpr.linear_call": _linear_call,
    "jaxpr.linear_map": _linear("call_jaxpr", "transpose_jaxpr"),
    "jaxpr.pallas_call": _pallas_call,
    "jaxpr.dot_general": _product,
    "jaxpr.conv_general_dilated": _product,
    "jaxpr.sort": _sort,
    "jaxpr.stack": _stack,
    "jaxpr.custom_jvp_call_jaxpr": _custom_jvp,
    "jaxpr.custom_vjp_call_jaxpr": _custom_vjp,
    "jaxpr.custom_lin": _custom_lin,
    "jaxpr.remat_opt": _remat_opt,
}
