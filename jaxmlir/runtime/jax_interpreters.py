"""Rules for calls of programs in JAX's interpreters, which look at each equation.

``jax.experimental.jet`` computes Taylor series, ``sparsify`` computes with sparse arrays,
``checkify`` finds run-time errors, and ``jax_debug_key_reuse`` finds random keys that are used
twice.  Each has a rule per primitive.  They treat a call of a program as a ``jit`` of its
equations.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir._compat import core, resolve

if TYPE_CHECKING:
    from jaxmlir.runtime.callee import Callee


def register(primitive: Any) -> None:
    """Adds the rules of the call primitive to the interpreters when these are imported.

    Importing them here would take longer than loading a small program.  Adding the rules when a
    program is traced would miss interpreters that are imported later.
    """
    for module in _INTERPRETERS.keys() & sys.modules.keys():
        _add_rule(primitive, module)
    sys.meta_path.insert(0, _AfterImport(primitive))


def _add_rule(primitive: Any, module: str) -> None:
    registry, make = _INTERPRETERS[module]
    rules = resolve(module, registry)
    if rules is not None:
        rules[primitive] = make(rules)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds the interpreters' modules as Python does, and adds the rules after their import."""

    def __init__(self, primitive: Any):
        self.primitive = primitive

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in _INTERPRETERS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _add_rule(self.primitive, name)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _series(rules: Any) -> Callable[..., Any]:
    def rule(primals: Any, series: Any, *, callee: Callee, placement: Any) -> Any:
        eqn = _as_jit(callee, map(core.typeof, primals))
        return rules[eqn.primitive](primals, series, **eqn.params)

    return rule


def _checks(rules: Any) -> Callable[..., Any]:
    def rule(*args: Any, callee: Callee, placement: Any) -> Any:
        # The errors so far come before the operands, with further arguments in some JAX versions.
        operands = args[len(args) - len(callee.signature.operands) :]
        eqn = _as_jit(callee, map(core.typeof, operands))
        return rules[eqn.primitive](*args, **eqn.params)

    return rule


def _on_sparse_arrays(rules: Any) -> Callable[..., Any]:
    avals_of = resolve(_SPARSE, "spvalues_to_avals")

    def rule(arrays: Any, *operands: Any, callee: Callee, placement: Any) -> Any:
        eqn = _as_jit(callee, avals_of(arrays, operands))
        return rules[eqn.primitive](arrays, *operands, **eqn.params)

    return rule


def _uses_of_keys(rules: Any) -> Any:
    def signature(call: Any) -> Any:
        eqn = _as_jit(call.params["callee"], [v.aval for v in call.invars])
        return rules[eqn.primitive].signature(eqn)

    return resolve(_KEY_REUSE, "DynamicKeyReuseSignature")(signature)


_KEY_REUSE = "jax.experimental.key_reuse._core"
_SPARSE = "jax.experimental.sparse.transform"

# By module: the name of its table of rules, and the function that makes a rule.
_INTERPRETERS = {
    "jax.experimental.jet": ("jet_rules", _series),
    _SPARSE: ("sparse_rules_bcoo", _on_sparse_arrays),
    "jax._src.checkify": ("error_checks", _checks),
    _KEY_REUSE: ("key_reuse_signatures", _uses_of_keys),
}


def _as_jit(callee: Callee, avals: Iterable[Any]) -> Any:
    """The equation of a jit of the function."""

    def function(*xs: Any) -> list[Any]:
        return core.jaxpr_as_fun(callee.closed_jaxpr)(*xs)

    function.__name__ = callee.symbol
    with jax.disable_jit(False):
        (eqn,) = jax.make_jaxpr(jax.jit(function))(*avals).eqns
    return eqn
