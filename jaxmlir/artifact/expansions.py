"""Expands primitives that another process may lack, so that it can load an artifact with them.

A library's primitive exists where the library is imported, and a primitive that is an object of a
Python class exists where the class does. One whose parameters are Python objects exists in this
process only. What it computes and its rules can be traced, though. So an op of such a primitive
*expands* to a call of a function that carries these rules, a ``custom_jvp_call_jaxpr``:

* the function is the primitive's implementation: the JAX function that it is lowered by
  (``mlir.lower_fun``), or else ``def_impl`` or the method ``expand``;
* the JVP and transpose rules are traced for the sets of operands that they work for; a primitive
  without such rules is differentiated through its implementation;
* the batching rule is traced for a batch of symbolic size; a primitive without one, or whose rule
  needs a number, is batched through its implementation and its other rules;
* a rule that raises an error raises it where it is applied.

Rules apply primitives, too, their own among them, which are expanded in turn.

An op that can be written stays, with an attribute that names its expansion. Loading a file drops
the expansion if the process has the primitive (:mod:`jaxmlir.artifact.decompose`).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmlir._compat import ad, ad_util, batching, core, dtypes, hijax, in_context, open_jaxpr
from jaxmlir.artifact.decompose import EXPANSION, erase_unused, may_expand
from jaxmlir.bridge.custom_rules.hijax import args_of, cotangents_of
from jaxmlir.bridge.custom_rules.identity import Identities
from jaxmlir.dialect import codec, op_signature, ops, primitives
from jaxmlir.dialect.builder import create, reachable, rename_call, symbol_ref, write_return
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import context, dialect_ops, functions, ir, new_function, scope
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import is_differentiable, size_variable, widths_of
from jaxmlir.rewriting.dedupe import merge_functions
from jaxmlir.support.masks import Mask, inverted
from jaxmlir.transforms import jax_rules
from jaxmlir.transforms.templates import Rules
from jaxmlir.transforms.vmap import batch_axis

# How many orders of rules are written: a derivative may apply a primitive of its own, as those of
# Bessel functions do. Primitives of the last order have no rules.
_ORDERS = 4
# Up to this many operands, a rule is traced for each set of them. With more, a rule of a rule is
# traced for all operands that it works for together: it is rarely needed for one alone.
_FEW = 3


def may_expand_in(program: Module) -> bool:
    """Whether a program has ops whose primitives another process may lack."""
    with context():
        return any(True for _ in _expandable(program))


def expand(program: Module) -> dict[str, ir.Location]:
    """Adds the expansions of a program's primitives to it, in place, and replaces the ops that
    cannot be written.  Returns for each added function the location of an op that it was added for.
    """
    places: dict[str, ir.Location] = {}
    with scope():
        _write(program, places)
    return places


def forget(program: Module, is_written: Callable[[Any], bool]) -> None:
    """Removes the expansions that contain an op that cannot be written, in place."""
    with context():
        ops = [op for op in dialect_ops(program.module) if EXPANSION in op.attributes]
        present = functions(program.module)
        bad = {
            name
            for name, function in present.items()
            if not all(map(is_written, function.entry_block.operations))
        }
        symbols = {op.attributes[EXPANSION].value for op in ops}
        symbols = {s for s in symbols if not bad.isdisjoint(reachable(present, s))}
        for op in ops:
            if op.attributes[EXPANSION].value in symbols:
                del op.attributes[EXPANSION]
        erase_unused(program, reachable(present, *symbols))


def _has_handles(op: Any) -> bool:
    return any(True for _, attr in op.attributes.items() for _ in codec.handles_in(attr))


def _expandable(program: Module) -> Iterator[Any]:
    """The ops whose primitive other processes may lack, and those of JAX's with Python objects."""
    for op in dialect_ops(program.module):
        if may_expand(op.name) or (_may_have_objects(op.name) and _has_handles(op)):
            yield op


@functools.cache
def _may_have_objects(name: str) -> bool:
    """Whether ops of a name have Python objects as parameters, and are lowered by a JAX
    function."""
    record = ops.record_of(name)
    if record is None:
        return False
    has_objects = any(attr.kind.removesuffix("?") == "handle" for attr in record.attributes)
    primitive = primitives.find(record.name) if has_objects else None
    return primitive is not None and jax_rules.lowered_function(primitive) is not None


# --- writing -------------------------------------------------------------------------------------


class _PrimitiveExpansion(NamedTuple):
    """The expansion of the ops of one primitive with equal parameters."""

    primitive: str
    op_name: str
    attributes: dict[str, ir.Attribute]


def _write(program: Module, places: dict[str, ir.Location]) -> None:
    """Writes the expansions of a program's ops, and replaces the ops that cannot be written."""
    before = functions(program.module).keys()
    identities, expansions = _Parameters(), {}
    keys: dict[Signature, Any] = {}
    # The rules in written functions may apply primitives, too, their own among them.
    for order in itertools.count():
        rules = Rules(program)
        by_key = collections.defaultdict(list)
        for op in _expandable(program):
            signature = op_signature.of_op(op, op.name, op.operands)
            if signature not in keys:
                keys[signature] = _key(rules, op, signature, identities)
            by_key[keys[signature]].append(op)
        new = by_key.keys() - expansions.keys()
        if not new:
            break
        for key, alike in by_key.items():
            if key in new:
                existing = functions(program.module).keys()
                expansions[key] = _expansion(rules, alike[0], order)
                # An op in an added function passes on the place of the op that this was added for.
                place = places.get(_function_of(alike[0]), alike[0].location)
                places |= dict.fromkeys(functions(program.module).keys() - existing, place)
        program.changed()
    for key, alike in by_key.items():
        if expansions[key] is not None:
            symbol = None
            for op in alike:
                if _has_handles(op):
                    rename_call(op, *expansions[key][1:])
                else:
                    symbol = symbol or _function(rules, op, expansions[key])
                    op.attributes[EXPANSION] = symbol_ref(symbol)
    present = functions(program.module)
    new = present.keys() - before
    merge_functions(present, new)
    erase_unused(program, new & present.keys())


def _function_of(op: Any) -> str:
    return op.operation.parent.attributes["sym_name"].value


def _key(rules: Rules, op: Any, signature: Signature, identities: Identities) -> Any:
    """A key that ops have in common if they have the same expansion."""
    if _has_handles(op):
        with contextlib.suppress(Exception):  # of the user's functions
            (eqn,) = open_jaxpr(rules.jaxpr_of(op, op.name))[0].eqns
            avals = [v.aval for v in eqn.invars]
            call = jax_rules.trace_flat(jax_rules.implementation(eqn), avals, op.name)
            return op.name, signature.types, identities(eqn.params), identities(call)
    return signature


# Since JAX 0.11 a jaxpr may hold its constants.
_JAXPRS = (core.Jaxpr, getattr(core, "ClosedJaxpr", core.Jaxpr))
# Arrays of up to this many bytes are compared by their contents.
_SMALL = 1 << 12


class _Parameters(Identities):
    """Numbers for the parameters of primitives, equal for parameters that say the same.  A jaxpr is
    compared by its printed text, and an object by its class and attributes. An object without
    attributes only equals itself, unless it is a plain ``object()``."""

    def _structure(self, value: Any, kind: str) -> Any:
        if kind == "tree":
            nodes = [(cls, self(data)) for cls, data in pytrees.nodes(value)]
            return (kind, value.num_leaves, *nodes)
        if kind != "object":
            return super()._structure(value, kind)
        if isinstance(value, _JAXPRS):
            jaxpr, consts = open_jaxpr(value)
            return (type(value), str(jaxpr), *map(self, consts))
        if isinstance(value, (np.ndarray, jax.Array)):
            small = value.nbytes <= _SMALL and not dtypes.issubdtype(value.dtype, dtypes.extended)
            content = np.asarray(value).tobytes() if small else id(value)
            return (kind, value.dtype, value.shape, content)
        slots = (getattr(cls, "__slots__", ()) for cls in type(value).__mro__)
        names = itertools.chain(*([s] if isinstance(s, str) else s for s in slots))
        names = [*getattr(value, "__dict__", ()), *(n for n in names if not n.startswith("__"))]
        fields = [(name, self(getattr(value, name, None))) for name in names]
        return (type(value), *fields) if type(value) is object or fields else (kind, id(value))


def _function(rules: Rules, op: Any, expansion: _PrimitiveExpansion) -> str:
    """The symbol of a new function that performs the expansion of an op."""
    symbol = rules.importer.unique_name(expansion.primitive)
    operands, results = ([v.type for v in side] for side in (op.operands, op.results))
    place = ir.InsertionPoint(rules.program.module.body)
    _, block = new_function(symbol, operands, results, op.location, place, visibility="private")
    attributes = expansion.attributes
    if "jaxpr.effects" in op.attributes:
        attributes = attributes | {"jaxpr.effects": op.attributes["jaxpr.effects"]}
    with ir.InsertionPoint(block), op.location:
        write_return(create(expansion.op_name, results, list(block.arguments), attributes))
    return symbol


def _expansion(rules: Rules, op: Any, order: int) -> _PrimitiveExpansion | None:
    """The expansion of an op, itself ``order`` expansions deep; ``None`` if it cannot be traced."""
    try:
        closed = rules.jaxpr_of(op, op.name)
        (eqn,) = open_jaxpr(closed)[0].eqns
        with in_context(eqn.ctx), widths_of(v.aval for v in (*eqn.invars, *eqn.outvars)):
            return _Expander(rules, closed, eqn, order).expansion()
    except Exception:  # of the user's functions
        return None


class _Expander:
    """Traces the computation and the rules of one equation, a jaxpr of its own, and writes them as
    functions."""

    def __init__(self, rules: Rules, closed: Any, eqn: Any, order: int):
        self.importer = rules.importer
        self.closed, self.eqn = closed, eqn
        self.with_rules, self.in_rule = order < _ORDERS, order > 0
        self.primitive = eqn.primitive
        self.high_level = eqn.params["_prim"] if eqn.primitive.name == "call_hi_primitive" else None
        self.avals = [v.aval for v in eqn.invars]
        self.out_avals = [v.aval for v in eqn.outvars]
        prim = eqn.primitive if self.high_level is None else type(self.high_level)
        self.name = getattr(prim, "__name__", None) or prim.name
        self.attributes: dict[str, ir.Attribute] = {}

    def expansion(self) -> _PrimitiveExpansion:
        with_vjp = self.with_rules and self._has("vjp_fwd") and not self._has("jvp")
        function = _with_vjp(self.high_level) if with_vjp else jax_rules.implementation(self.eqn)
        self.call = jax_rules.trace_flat(function, self.avals, self.name)
        symbol = self.written(self.call, "")
        if self.with_rules and not with_vjp and not self.eqn.effects:
            self.add_transposes()
            self.add_batches()
            if self._has("jvp", ad.primitive_jvps, ad.primitive_linearizations):
                self.add_jvp(self.closed)
            elif self.attributes:
                self.add_jvp(_as_call(self.call, self.avals, self.name))
        if not self.attributes:
            name = ir.StringAttr.get(self.name)
            return _PrimitiveExpansion(self.name, "jaxpr.jit", {"jaxpr": symbol, "name": name})
        self.attributes.setdefault("transposes", ir.ArrayAttr.get([]))
        attributes = {"call_jaxpr": symbol, **self.attributes}
        return _PrimitiveExpansion(self.name, "jaxpr.custom_jvp_call_jaxpr", attributes)

    def _has(self, method: str, *registries: Mapping[Any, Any]) -> bool:
        """Whether the primitive has a rule; an object of a class has it as a method."""
        if self.high_level is None:
            return any(self.primitive in registry for registry in registries)
        own, base = (getattr(c, method, None) for c in (type(self.high_level), hijax.HiPrim))
        return own is not base

    def written(self, closed: Any, suffix: str, **attributes: Any) -> ir.Attribute:
        """Writes a function; returns the attribute that refers to it."""
        jaxpr, consts = open_jaxpr(closed)
        symbol = self.importer.unique_name(self.name + suffix)
        # The names of its arguments and results mean nothing to the user.
        self.importer.add_function(jaxpr, consts, symbol, attributes=attributes)
        return symbol_ref(symbol)

    def add_jvp(self, closed: Any) -> None:
        """Adds the JVP rules of a jaxpr that computes what the equation does."""

        def rule(mask: Mask) -> ir.Attribute:
            jaxpr, nonzero = jax_rules.jvp(closed, mask)
            zeros = {"jaxpr.in_zeros": inverted(mask), "jaxpr.out_zeros": inverted(nonzero)}
            return self.written(jaxpr, "_jvp", **zeros)

        masks = _masks(map(is_differentiable, self.avals))
        rules: list[ir.Attribute] = []
        if self.in_rule and masks and sum(masks[0]) > _FEW:
            # JAX caches what it traces of the jaxpr: the rule does not do it again.
            together = _largest(masks[0], functools.partial(jax_rules.jvp, closed))
            rules, error = _rules_for([together] if any(together) else [], rule)
        if not rules:
            rules, error = _rules_for(masks, rule)
        if rules:
            self.attributes["jvp_jaxpr"] = rules[0]
            self.attributes["symbolic_zeros"] = ir.BoolAttr.get(True)
        if rules[1:]:
            self.attributes["jvp_with_zeros"] = ir.ArrayAttr.get(rules[1:])
        self._add_error("jvp_error", error)

    def add_transposes(self) -> None:
        if not self._has("transpose", ad.primitive_transposes, ad.fancy_transposes):
            return
        nonzero = tuple(map(is_differentiable, self.out_avals))

        def rule(mask: Mask) -> ir.Attribute:
            jaxpr, nonzero_in = jax_rules.transpose(self.closed, mask, nonzero)
            zeros = {"jaxpr.in_zeros": inverted(nonzero), "jaxpr.out_zeros": inverted(nonzero_in)}
            return self.written(jaxpr, "_transpose", **{"jaxpr.linear": mask}, **zeros)

        rules, error = _rules_for(_masks(map(is_differentiable, self.avals)), rule)
        self.attributes["transposes"] = ir.ArrayAttr.get(rules)
        self._add_error("transpose_error", error)

    def add_batches(self) -> None:
        if not self._has("batch", batching.fancy_primitive_batchers):
            return
        taken = re.findall(r"\bbatch_(\d+)", " ".join(str(aval) for aval in self.avals))
        name = f"batch_{1 + max(map(int, taken), default=-1)}"
        size = size_variable(name, self.avals)

        def rule(mask: Mask) -> ir.Attribute:
            batched, dims = self._batched(mask, size)
            attributes = {
                "jaxpr.batched": mask,
                "jaxpr.out_batched": tuple([dim is not None for dim in dims]),
                "jaxpr.batch_size": name,
            }
            in_avals, function = batched.in_avals, core.jaxpr_as_fun(batched)

            def in_front(*operands: Any) -> list[Any]:
                results = zip(function(*operands), dims, strict=True)
                return [x if d is None else batching.moveaxis(x, d, 0) for x, d in results]

            jaxpr = jax_rules.trace_flat(in_front, in_avals, self.name)
            return self.written(jaxpr, "_batched", **attributes)

        everything = (True,) * len(self.avals)
        if self._batches_the_implementation(everything, size):
            return
        masks = _masks(everything) if len(everything) < _FEW else [everything]
        rules, error = _rules_for(masks, rule)
        if rules:
            self.attributes["batches"] = ir.ArrayAttr.get(rules)
        elif error is not None:
            with contextlib.suppress(Exception):
                self._batched(everything, 2)
                # The rule needs a batch size that is a number.
                return
            self._add_error("batch_error", error)

    def _batched(self, mask: Mask, size: Any) -> tuple[Any, Any]:
        dims = tuple([0 if batched else None for batched in mask])
        return jax_rules.batch(self.closed, dims, batch_axis(size))

    def _batches_the_implementation(self, mask: Mask, size: Any) -> bool:
        """Whether the batching rule gives the same as batching the implementation, possibly by
        another primitive."""
        try:
            by_rule, _ = self._batched(mask, size)
            eqns = open_jaxpr(by_rule)[0].eqns
            name = primitives.op_name(eqns[0].primitive.name) if len(eqns) == 1 else ""
            if name and (may_expand(name) or _may_have_objects(name)):
                function = jax_rules.implementation(eqns[0])
                by_rule = jax_rules.trace_flat(function, by_rule.in_avals, self.name)
            in_axes = tuple([0 if batched else None for batched in mask])
            function = jax.vmap(core.jaxpr_as_fun(self.call), in_axes, axis_size=size)
            batched = jax_rules.trace_flat(function, by_rule.in_avals, self.name)
        except Exception:  # of the user's functions
            return False
        return str(by_rule) == str(batched)

    def _add_error(self, name: str, error: Exception | None) -> None:
        if error is not None:
            self.attributes[name] = ir.StringAttr.get(f"{type(error).__name__}: {error}")


def _masks(operands: Iterable[bool]) -> list[Mask]:
    """The sets of some operands, largest first; of many operands, only all and each alone."""
    operands = tuple(operands)
    indices = [i for i, included in enumerate(operands) if included]
    sizes = range(len(indices), 0, -1) if len(indices) <= _FEW else (len(indices), 1)
    sets = itertools.chain(*(itertools.combinations(indices, n) for n in sizes))
    return [tuple([i in subset for i in range(len(operands))]) for subset in sets]


def _largest(operands: Mask, trace: Callable[[Mask], Any]) -> Mask:
    """The operands that a rule works for together; a set that it fails for is halved."""
    none = (False,) * len(operands)

    def working(indices: Sequence[int]) -> Mask:
        here = tuple([i in indices for i in range(len(operands))])
        try:
            trace(here)
            return here
        except Exception:  # of the user's functions
            if len(indices) == 1:
                return none
        half = len(indices) // 2
        return tuple(map(any, zip(working(indices[:half]), working(indices[half:]), strict=True)))

    return working([i for i, included in enumerate(operands) if included])


def _rules_for(
    masks: Sequence[Mask], rule: Callable[[Mask], ir.Attribute]
) -> tuple[list[ir.Attribute], Exception | None]:
    """The rules for those sets of operands that have one; if there are none, also the first error.
    If many operands have no rule together, a rule for all that have one alone is tried."""
    rules: dict[Mask, ir.Attribute] = {}
    first = None

    def attempt(mask: Mask) -> None:
        nonlocal first
        try:
            rules[mask] = rule(mask)
        except Exception as error:  # of the user's function
            first = first or error

    for mask in masks:
        attempt(mask)
    if rules and masks[0] not in rules and sum(masks[0]) > _FEW:
        together = tuple(map(any, zip(*rules, strict=True)))
        attempt(together)
    ordered = sorted(rules, key=lambda mask: -sum(mask))
    return [rules[mask] for mask in ordered], None if rules else first


def _as_call(closed: Any, avals: Sequence[Any], name: str) -> Any:
    """A jaxpr whose only equation calls another jaxpr."""
    return jax_rules.trace_flat(jax.jit(core.jaxpr_as_fun(closed)), avals, name)


def _with_vjp(prim: Any) -> Callable[..., Any]:
    """A high-level primitive that has only a VJP rule, as a function with that rule."""

    def expand(*leaves: Any) -> list[Any]:
        return prim.out_tree.flatten_up_to(prim.expand(*args_of(prim, leaves)))

    def fwd(*leaves: Any) -> tuple[list[Any], Any]:
        nonzero = args_of(prim, [True] * len(leaves))
        # Since JAX 0.12 it may also return which results have tangents, and structured residuals.
        out, residuals, _, *structured = (*prim.vjp_fwd(nonzero, *args_of(prim, leaves)), True)[:4]
        return prim.out_tree.flatten_up_to(out), (residuals, *structured)

    def bwd(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        in_cotangents = cotangents_of(prim, residuals, cotangents)
        return tuple(map(_instantiated, in_cotangents))

    function = jax.custom_vjp(expand)
    function.defvjp(fwd, bwd)
    return function


def _instantiated(value: Any) -> Any:
    """A cotangent as a user's rule returns it: without symbolic zeros."""
    if not isinstance(value, (ad_util.Zero, ad_util.SymbolicZero)):
        return value
    aval = value.aval
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return ad_util.instantiate(ad_util.Zero(aval))
