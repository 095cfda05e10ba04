"""What high-level primitives stand for, in an artifact.

A high-level primitive is an object of a Python class that has its rules as methods.  The process
that loads an artifact may not have the class: those of JAX itself differ from version to version.
So an artifact says of each such op what it expands to, in an attribute that names a function.  Its
derivative is the primitive's, as a custom rule of the function.

Where the class is there, the op stays what it is, and the function goes when the file is loaded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir._compat import ad_util, core, debug_info, dtypes, hijax, open_jaxpr, tree_util
from jaxmlir.bridge.custom_rules.hijax import Sum, args_of, cotangents_of
from jaxmlir.dialect import codec, op_signature
from jaxmlir.dialect.builder import reachable, rename_call
from jaxmlir.dialect.custom_rule_ops import HIGH_LEVEL, HIGH_LEVEL_OPS
from jaxmlir.dialect.ir import context, functions, ir, is_private, scope
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.rewriting.dedupe import merge_functions
from jaxmlir.support.masks import chosen
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

EXPANSION = "jaxpr.expansion"
# Rules of rules that are written: a derivative may apply a primitive of its own, as those of Bessel
# functions do. Those of the last have no rules.
_ORDERS = 4


def expanded(program: Module) -> Module:
    """The program with what its high-level primitives expand to; the same one if it has none."""
    with context():
        if not any(True for _ in _high_level(program)):
            return program
    program = program.clone()
    with scope():
        before = functions(program.module).keys()
        found: dict[Signature, str | None] = {}
        # The rules of a function that was written may apply primitives too, its own among them.
        for order in itertools.count():
            ops = [op for op in _high_level(program) if _key(op) not in found]
            if not ops:
                break
            rules = Rules(program)
            for op in ops:
                if _key(op) not in found:
                    found[_key(op)] = _write(rules, op, with_rules=order < _ORDERS)
            # Functions that a primitive names are written again with it, and so on without end.
            present = functions(program.module)
            merge_functions(present, present.keys() - before - {*found.values()})
            program.changed()
        for op in _high_level(program):
            symbol = found[_key(op)]
            if symbol is not None:
                op.attributes[EXPANSION] = ir.FlatSymbolRefAttr.get(symbol)
    program.changed()
    return program


def settle(program: Module) -> list[Any]:
    """Replaces the ops whose class this process does not have by what they expand to.

    The context must be entered.

    Returns:
      The ops of which nothing is known.
    """
    symbols = []
    for op, is_known in [(op, _is_known(program, op)) for op in _high_level(program)]:
        expansion = op.attributes[EXPANSION] if EXPANSION in op.attributes else None
        if isinstance(expansion, ir.FlatSymbolRefAttr):
            symbols.append(expansion.value)
            if is_known:
                del op.attributes[EXPANSION]
            else:
                name = ir.StringAttr.get(expansion.value)
                rename_call(op, "jaxpr.jit", {"jaxpr": expansion, "name": name})
    _erase_unused(program, symbols)
    return [op for op in _high_level(program) if not _is_known(program, op)]


def _high_level(program: Module) -> Iterator[Any]:
    for function in functions(program.module).values():
        for op in function.entry_block.operations:
            if type(op) is ir.OpView and op.name in HIGH_LEVEL_OPS:
                yield op


def _key(op: Any) -> Signature:
    return op_signature.of_op(op, op.name, op.operands)


def _is_known(program: Module, op: Any) -> bool:
    """Whether this process has the class of an op's primitive, and it takes the parameters."""
    try:
        codec.decode(op.attributes["_prim"], program.exporter)
    except Exception:  # of a class of JAX's, whatever it says of parameters of another version's
        return False
    return True


def _erase_unused(program: Module, symbols: list[str]) -> None:
    """Erases the functions that only expansions use, if none of these is left."""
    present = functions(program.module)
    used_by = reachable(present, *(s for s in symbols if s in present))
    others = [name for name, op in present.items() if name not in used_by or not is_private(op)]
    for name in used_by - reachable(present, *others):
        present[name].operation.erase()
    program.changed()


# --- writing -------------------------------------------------------------------------------------


def _write(rules: Rules, op: Any, *, with_rules: bool) -> str | None:
    """The function that an op's primitive expands to; ``None`` if it has no expansion."""
    mark = rules.mark()
    try:
        (eqn,) = rules.jaxpr_of(op, op.name).jaxpr.eqns
        avals = [v.aval for v in eqn.invars]
        closed = jax.make_jaxpr(_function(eqn, with_rules))(*avals)
        name = type(eqn.params["_prim"]).__name__
        symbol = rules.importer.unique_name(name)
        rules.importer.add_function(closed.jaxpr, closed.consts, symbol)
    except Exception:  # of the user's methods
        rules.undo(mark)
        return None
    return symbol


def _function(eqn: Any, with_rules: bool) -> Callable[..., Any]:
    """What an equation computes, as a function of its flat operands."""
    prim, base = eqn.params["_prim"], hijax.HiPrim

    def expand(*leaves: Any) -> list[Any]:
        return list(eqn.primitive.to_lojax(*leaves, **eqn.params))

    if not with_rules or eqn.primitive.name != "call_hi_primitive" or prim.effects:
        return expand
    cls = type(prim)
    if cls.transpose is not base.transpose:
        function = _linear(prim, expand)
        if function is not None:
            return function
    if cls.jvp is not base.jvp:
        function = jax.custom_jvp(expand)
        function.defjvp(_jvp(prim), symbolic_zeros=True)
        return function
    if cls.vjp_fwd is not base.vjp_fwd:
        function = jax.custom_vjp(expand)
        function.defvjp(*_vjp(prim))
        return function
    return expand


def _linear(prim: Any, expand: Callable[..., Any]) -> Callable[..., Any] | None:
    """The primitive as a call that is linear in all that has a tangent, with its transpose.

    ``None`` if it has none in all of that.
    """
    avals = prim.in_avals_flat
    linear = [dtypes.issubdtype(getattr(aval, "dtype", None), np.inexact) for aval in avals]
    others = [not is_linear for is_linear in linear]

    def merged(fixed: Any, moving: Any) -> list[Any]:
        given = iter(fixed), iter(moving)
        return [next(given[is_linear]) for is_linear in linear]

    def transposed(fixed: Any, cotangents: Any) -> list[Any]:
        sums = [Sum(aval.to_ct_aval()) for aval in chosen(avals, linear)]
        out = tree_util.tree_unflatten(prim.out_tree, cotangents)
        prim.transpose(out, *args_of(prim, merged(fixed, sums)))
        return [_instantiated(found.freeze()) for found in sums]

    def function(*leaves: Any) -> Any:
        call = jax.custom_derivatives.linear_call
        # Nobody differentiates the transpose, which may apply the primitive.
        back = _without_rules(transposed)
        return call(
            lambda *args: expand(*merged(*args)),
            back,
            chosen(leaves, others),
            chosen(leaves, linear),
        )

    try:
        jax.make_jaxpr(transposed)(chosen(avals, others), list(prim.out_avals_flat))
    except Exception:  # of a transpose that takes other operands
        return None
    return function


def _without_rules(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes what its high-level primitives expand to."""

    def plain(*args: Any) -> Any:
        closed, out = jax.make_jaxpr(function, return_shape=True)(*args)
        values = _evaluated(closed, tree_util.tree_leaves(args))
        return tree_util.tree_unflatten(tree_util.tree_structure(out), values)

    return plain


def _evaluated(closed: Any, args: list[Any]) -> list[Any]:
    jaxpr, consts = open_jaxpr(closed)
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for eqn in jaxpr.eqns:
        given = list(map(value, eqn.invars))
        if eqn.primitive.name in HIGH_LEVEL:
            outs = eqn.primitive.to_lojax(*given, **eqn.params)
        elif eqn.primitive.name == "jit":
            outs = _evaluated(eqn.params["jaxpr"], given)
        else:
            invars = [core.Var(atom.aval) for atom in eqn.invars]
            info = debug_info("jit", eqn.primitive.name, len(invars), len(eqn.outvars))
            alone = eqn.replace(invars=invars)
            one = core.Jaxpr([], invars, eqn.outvars, [alone], eqn.effects, info)
            outs = core.eval_jaxpr(one, [], *given)
        values.update(zip(eqn.outvars, outs, strict=True))
    return list(map(value, jaxpr.outvars))


def _jvp(prim: Any) -> Callable[..., Any]:
    def jvp(primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        given = [_internal(t) for t in tangents]
        out, out_tangents = prim.jvp(args_of(prim, primals), args_of(prim, given))
        leaves = prim.out_tree.flatten_up_to(out_tangents)
        return prim.out_tree.flatten_up_to(out), [_instantiated(leaf) for leaf in leaves]

    return jvp


def _vjp(prim: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def fwd(*leaves: Any) -> tuple[list[Any], Any]:
        nonzero = args_of(prim, [True] * len(leaves))
        # Since JAX 0.12 which results have tangents may follow, and residuals with a structure.
        out, residuals, _, *structured = (
            *prim.vjp_fwd(nonzero, *args_of(prim, leaves)),
            True,
        )[:4]
        return prim.out_tree.flatten_up_to(out), (residuals, *structured)

    def bwd(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        found = cotangents_of(prim, residuals, cotangents)
        return tuple([_instantiated(ct) for ct in found])

    return fwd, bwd


def _internal(tangent: Any) -> Any:
    """A tangent as JAX gives it to a primitive: zeros by their type."""
    if isinstance(tangent, ad_util.SymbolicZero):
        return ad_util.Zero(tangent.aval)
    return tangent


def _instantiated(value: Any) -> Any:
    """A (co)tangent as a rule of the user's gives it."""
    if not isinstance(value, (ad_util.Zero, ad_util.SymbolicZero)):
        return value
    aval = value.aval
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return ad_util.instantiate(ad_util.Zero(aval))
