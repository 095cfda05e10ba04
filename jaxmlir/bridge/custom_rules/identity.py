"""Decides whether two custom derivative rules are the same.

A rule may call the function it belongs to, and every trace of that call makes new thunks.  So rules
are compared by structure, not as objects: the user's function inside the wrappers, the values it
closes over, and the abstract arguments.
"""

from __future__ import annotations

import collections
import functools
import types as py_types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from jaxmlir._compat import (
    batching,
    core,
    is_registered_node,
    lu,
    rule_transforms,
    tree_util,
    util,
    wrapped_rule,
)
from jaxmlir.bridge.custom_rules import closures, hijax
from jaxmlir.dialect.codec.pytrees import nodes


def rules_key(eqn: Any, identity: Identities) -> Any:
    """A key that is equal for equations whose rules would trace alike."""
    params = eqn.params
    functions = tuple(identity(params[name]) for name in closures.THUNKS if name in params)
    numbers = tuple(params.get(name) for name in ("num_consts", "num_res", "symbolic_zeros"))
    avals = tuple(v.aval for v in (*eqn.invars, *eqn.outvars))
    cotangents = tuple(params.get("out_avals", ()))
    values = closures.constants_of(eqn).values
    return eqn.primitive.name, functions, numbers, values, cotangents, avals


# Only exactly these classes: an object of a subclass may hold more.
_EXACT = {
    **dict.fromkeys((str, bytes, int, float, complex, bool, type(None)), "atom"),
    **dict.fromkeys((tuple, list), "sequence"),
    **dict.fromkeys((set, frozenset), "set"),
    **dict.fromkeys((dict, collections.OrderedDict), "dictionary"),
}
_ATOMS = (np.generic, type, np.dtype, batching.AxisData, jax.ShapeDtypeStruct)


class Identities:
    """Numbers for objects: equal for rules that would trace alike.

    A function is numbered by its code and what it closes over, a wrapped function by what it wraps,
    a pytree node (a layer, a solver) by its class and attributes.  So a new closure over equal
    values gets the same number.  An object that cannot be compared is numbered by its address, so
    everything numbered is kept alive.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of_object: dict[int, int] = {}
        self._alive: list[Any] = []

    def __call__(self, value: Any) -> int:
        value = innermost(value)
        kind = _kind(type(value))
        if kind == "atom":
            return self._number(_atom(value))
        if kind == "incidental":
            return self._number(type(value))
        number = self._of_object.get(id(value))
        if number is None:
            self._alive.append(value)
            # Objects that refer back to it, numbered meanwhile, know it by its address.
            self._of_object[id(value)] = self._number(("object", id(value)))
            number = self._of_object[id(value)] = self._number(self._structure(value, kind))
        return number

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _structure(self, value: Any, kind: str) -> Any:
        parts_of = _PARTS.get(kind)
        return ("object", id(value)) if parts_of is None else (type(value), *parts_of(self, value))

    def attributes(self, value: Any) -> list[tuple[str, int]]:
        """The names and numbers of what an object holds."""
        return [(name, self(item)) for name, item in getattr(value, "__dict__", {}).items()]

    def number_in(self, value: Any) -> Any:
        """The numbers of the numbers and strings in a value."""
        kind = _kind(type(value))
        if kind in ("sequence", "set"):
            return tuple(map(self.number_in, value))
        if kind == "dictionary":
            return tuple(map(self.number_in, value.values()))
        return self(value) if kind == "atom" else None


def _of_function(number: Identities, value: Any) -> Iterator[Any]:
    yield from (value.__code__, id(value.__globals__))
    for part in (value.__defaults__, value.__kwdefaults__):
        yield None if part is None else number(part)
    yield from (number(_cell(cell)) for cell in hijax.telling_cells(value))
    yield from number.attributes(value)


def _of_wrapped(number: Identities, value: Any) -> Iterator[Any]:
    yield number(value.f)
    yield from ((number(gen), number(args)) for gen, args in rule_transforms(value))


def _of_partial(number: Identities, value: functools.partial[Any]) -> Iterator[Any]:
    yield from map(number, (value.func, value.args, value.keywords))
    yield from number.attributes(value)


def _of_tree(number: Identities, value: Any) -> Iterator[Any]:
    # The metadata of nodes is compared by its own `==`, as in JAX.  Numbers in it are distinguished
    # by their types as well: 1 == 1.0.
    yield value if _has_hash(value) else ("object", id(value))
    yield from (number.number_in(data) for _, data in nodes(value))


_PARTS: dict[str, Callable[[Identities, Any], Iterable[Any]]] = {
    "wrapped": _of_wrapped,
    "partial": _of_partial,
    "method": lambda number, value: map(number, (value.__func__, value.__self__)),
    "function": _of_function,
    "box": lambda number, value: [number(value.val)],
    "sequence": lambda number, value: [*map(number, value), *number.attributes(value)],
    "tree": _of_tree,
    "set": lambda number, value: [frozenset(map(number, value))],
    "rule": lambda number, value: [number(value.prim)],
    "primitive": lambda number, value: map(number, hijax.rule_parts(value)),
    "custom function": lambda number, value: map(number, hijax.function_parts(value)),
    "called": lambda number, value: map(number, value.parts),
    "dictionary": lambda number, value: [(number(k), number(v)) for k, v in value.items()],
    "aval": lambda number, value: [value],
    "node": lambda number, value: [number(vars(value))],
}
"""What tells values of a kind apart, with their classes; others are told apart by their address."""


def _atom(value: Any) -> Any:
    """A key that distinguishes all atoms, also 0.0 and -0.0."""
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


def _has_hash(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# How objects in rules are compared, by the first class that matches.
_KINDS: dict[Any, str] = {
    _ATOMS: "atom",
    lu.WrappedFun: "wrapped",
    functools.partial: "partial",
    py_types.MethodType: "method",
    py_types.FunctionType: "function",
    # JAX's wrappers of static and nondifferentiated arguments.
    (util.Unhashable, util.Hashable, *hijax.STATIC): "box",
    # Irrelevant to a rule: the trace that made it, stores that tracing fills in, its names.
    (core.Trace, lu.Store, lu.EqualStore, core.DebugInfo): "incidental",
    tuple: "sequence",
    tree_util.PyTreeDef: "tree",
    core.AbstractValue: "aval",
    hijax.HijaxRule: "rule",
    hijax.OBJECTS: "primitive",
    hijax.FUNCTIONS: "custom function",
    hijax.CalledFunction: "called",
}


@functools.lru_cache(1024)
def _kind(cls: type) -> str:
    exact = _EXACT.get(cls)
    if exact is not None:
        return exact
    kinds = (kind for classes, kind in _KINDS.items() if issubclass(cls, classes))
    return next(kinds, "node" if is_registered_node(cls) and _is_plain(cls) else "object")


class _PlainObject:
    pass


def _is_plain(cls: type) -> bool:
    """Whether objects of a class hold nothing but their attributes."""
    size = (_PlainObject.__basicsize__, _PlainObject.__itemsize__)
    has_slots = any(vars(c).get("__slots__") for c in cls.__mro__)
    return (cls.__basicsize__, cls.__itemsize__) == size and not has_slots


class SerialThunk:
    """A thunk of a rule that one thread at a time can run; the lock is held while the rule is
    traced."""

    def __init__(self, rule: Any, lock: AbstractContextManager[Any]):
        self.rule = rule
        self._lock = lock

    def __call__(self, *in_zeros: bool) -> Any:
        with self._lock:
            return self.rule.call_wrapped(*in_zeros)


def innermost(value: Any) -> Any:
    """A rule without the wrappers around it that do nothing, most of which are JAX's.  Each trace
    of a rule that calls its own function adds one, which must not make a new rule."""
    while True:
        if isinstance(value, lu.WrappedFun) and not rule_transforms(value):
            value = value.f
        elif isinstance(value, SerialThunk):
            value = value.rule
        elif (
            isinstance(value, py_types.FunctionType) and (inner := wrapped_rule(value)) is not None
        ):
            value = inner
        else:
            return value


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty cell"
