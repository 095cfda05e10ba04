"""Do the functions that an op names take and give what the op passes and expects?

JAX's abstract evaluation of a call looks at the called jaxpr's results, not always at its operands,
and never at a custom derivative rule, which is a Python thunk there.  Here both are functions:

=====================  =============================================================================
``jvp_jaxpr``          ``(*primals, *tangents) -> (*results, *tangents)``
``fwd_jaxpr``          ``(*primals) -> (*residuals, *results)``
``bwd_jaxpr``          ``(*residuals, *cotangents) -> (*cotangents)``
``bwd`` (custom_lin)   the same, of the residuals that are the op's first operands
=====================  =============================================================================

Tangents and cotangents out that are zero are left out, as the function's ``jaxpr.out_zeros`` tells;
residuals that are operands are left out of ``fwd_jaxpr``'s, as its ``jaxpr.input_fwds`` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxmlir import codec
from jaxmlir._compat import core
from jaxmlir.ir import func, ir, symbol_uses
from jaxmlir.types import aval_of, type_of

Functions = Mapping[str, func.FuncOp]


def errors(op: Any, name: str, functions: Functions) -> Iterator[str]:
    """What is wrong with the signatures of the functions that an op names, as texts that follow
    the op's name.  The functions exist."""
    check = _CHECKS.get(name)
    if check is not None:
        yield from check(_Op(op, functions))


class _Op:
    """An op with its functions at hand."""

    def __init__(self, op: Any, functions: Functions):
        self._attributes = op.attributes
        self._functions = functions
        self.operands = [aval_of(v.type) for v in op.operands]
        self.results = [aval_of(v.type) for v in op.results]

    def get(self, name: str, default: Any) -> Any:
        return codec.decode(self._attributes[name]) if name in self._attributes else default

    def function(self, name: str) -> _Function | None:
        """The function that an attribute names; ``None`` where it is absent."""
        if name not in self._attributes:
            return None
        symbol = self._attributes[name]
        if not isinstance(symbol, ir.FlatSymbolRefAttr):
            return None
        return _Function(name, symbol.value, self._functions[symbol.value])

    def functions(self, name: str) -> Iterator[_Function]:
        """The functions that an attribute names, be it one or several."""
        for symbol in symbol_uses(self._attributes[name]) if name in self._attributes else ():
            yield _Function(name, symbol, self._functions[symbol])


class _Function:
    """One function that an op names."""

    def __init__(self, attribute: str, symbol: str, op: func.FuncOp):
        self.attribute = attribute
        self.symbol = symbol
        self._attributes = op.attributes
        self.operands = [aval_of(type_) for type_ in op.type.inputs]
        self.results = [aval_of(type_) for type_ in op.type.results]

    def get(self, name: str, default: Any) -> Any:
        return codec.decode(self._attributes[name]) if name in self._attributes else default

    def takes(self, *groups: tuple[str, Sequence[Any]]) -> Iterator[str]:
        yield from self._compare("takes", self.operands, groups)

    def gives(self, *groups: tuple[str, Sequence[Any]]) -> Iterator[str]:
        yield from self._compare("gives", self.results, groups)

    def _compare(
        self, verb: str, have: Sequence[Any], groups: Sequence[tuple[str, Sequence[Any]]]
    ) -> Iterator[str]:
        """Compares values with named groups of them; ``None`` in a group fits any value."""
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

    def drop_zeros(self, avals: Sequence[Any]) -> list[Any]:
        """Those of the values that the function gives, as its ``jaxpr.out_zeros`` tells."""
        zeros = self.get("jaxpr.out_zeros", (False,) * len(avals))
        if len(zeros) != len(avals):
            return list(avals)
        return [aval for aval, zero in zip(avals, zeros, strict=True) if not zero]


def count(n: int, what: str) -> str:
    """``1 operand``, ``2 operands``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _tangents(avals: Sequence[Any]) -> list[Any]:
    return [aval.to_tangent_aval() for aval in avals]


def _cotangents(avals: Sequence[Any]) -> list[Any]:
    return [aval.to_ct_aval() for aval in avals]


def _call(attribute: str) -> Callable[[_Op], Iterator[str]]:
    """The check of an op that calls one function of its operands for its results."""

    def check(op: _Op) -> Iterator[str]:
        function = op.function(attribute)
        if function is not None:
            yield from function.takes(("operand", op.operands))
            yield from function.gives(("result", op.results))

    return check


def _while(op: _Op) -> Iterator[str]:
    cond, body = op.function("cond_jaxpr"), op.function("body_jaxpr")
    n_cond, n_body = op.get("cond_nconsts", 0), op.get("body_nconsts", 0)
    carry = op.operands[n_cond + n_body :]
    consts = op.operands[:n_cond], op.operands[n_cond : n_cond + n_body]
    if cond is not None:
        yield from cond.takes(("constant", consts[0]), ("carried value", carry))
        yield from cond.gives(("truth value", [None]))
    if body is not None:
        yield from body.takes(("constant", consts[1]), ("carried value", carry))
        yield from body.gives(("carried value", carry))


def _custom_jvp(op: _Op) -> Iterator[str]:
    yield from _call("call_jaxpr")(op)
    primals = op.operands[op.get("num_consts", 0) :]
    for jvp in (*op.functions("jvp_jaxpr"), *op.functions("jvp_with_zeros")):
        zeros = jvp.get("jaxpr.in_zeros", (False,) * len(primals))
        if len(zeros) != len(primals):
            zeros = (False,) * len(primals)
        nonzero = [t for t, zero in zip(_tangents(primals), zeros, strict=True) if not zero]
        yield from jvp.takes(("primal", primals), ("tangent", nonzero))
        tangents = jvp.drop_zeros(_tangents(op.results))
        yield from jvp.gives(("result", op.results), ("nonzero tangent", tangents))


def _custom_vjp(op: _Op) -> Iterator[str]:
    yield from _call("call_jaxpr")(op)
    primals = op.operands[op.get("num_consts", 0) :]
    fwd, bwd = op.function("fwd_jaxpr"), op.function("bwd_jaxpr")
    if fwd is None:
        return
    yield from fwd.takes(("primal", primals))
    forwarded = fwd.get("jaxpr.input_fwds", (None,) * fwd.get("jaxpr.num_res", 0))
    n_own = sum(i is None for i in forwarded)
    yield from fwd.gives(("residual", [None] * n_own), ("result", op.results))
    if bwd is None or len(fwd.results) < n_own:
        return
    own = iter(fwd.results)
    residuals = [next(own) if i is None else primals[i] for i in forwarded]
    yield from bwd.takes(("residual", residuals), ("cotangent", _cotangents(op.results)))
    yield from bwd.gives(("nonzero cotangent", bwd.drop_zeros(_cotangents(primals))))


def _custom_lin(op: _Op) -> Iterator[str]:
    bwd = op.function("bwd")
    if bwd is None:
        return
    n_res = op.get("num_res", 0)
    residuals, tangents = op.operands[:n_res], iter(op.operands[n_res:])
    yield from bwd.takes(("residual", residuals), ("cotangent", _cotangents(op.results)))
    in_zeros = op.get("in_zeros", ())
    # The type of a tangent that is zero stands nowhere.
    cotangents = [None if zero else next(tangents, None) for zero in in_zeros]
    yield from bwd.gives(("nonzero cotangent", bwd.drop_zeros(cotangents)))


_CHECKS: dict[str, Callable[[_Op], Iterator[str]]] = {
    "jaxpr.jit": _call("jaxpr"),
    "jaxpr.remat2": _call("jaxpr"),
    "jaxpr.call": _call("call_jaxpr"),
    "jaxpr.closed_call": _call("call_jaxpr"),
    "jaxpr.eval_jaxpr": _call("call_jaxpr"),
    "jaxpr.composite": _call("call_jaxpr"),
    "jaxpr.custom_inverse_call": _call("call_jaxpr"),
    "jaxpr.custom_vmap_call": _call("call"),
    "jaxpr.while": _while,
    "jaxpr.custom_jvp_call_jaxpr": _custom_jvp,
    "jaxpr.custom_vjp_call_jaxpr": _custom_vjp,
    "jaxpr.custom_lin": _custom_lin,
}
