"""How a transformation begins, with a copy of the program, and ends, with one public function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import Uses, make_public, put_in_order
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import is_private, scope
from jaxmlir.rewriting.dedupe import dedupe_functions, rename_functions, short_name
from jaxmlir.transforms.checkpoint_while import checkpoint_while
from jaxmlir.transforms.discharge_refs import discharge_refs, makes_references
from jaxmlir.transforms.imports import Loans, SharedFunctions, Unavailable, volumes_for
from jaxmlir.transforms.memo import Copied
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def start(
    program: Program,
    while_loops: str = "error",
    checkpoints: int | None = None,
    custom_rules: Literal["all", "met", "none"] = "met",
    *,
    reverse: bool = False,
    lends: bool = False,
) -> tuple[Program, Rules, str]:
    """A copy to transform, its rules, and the function to transform.

    Args:
      custom_rules: which are traced: all of them now, those that a derivative meets when it meets
        them, or none; others are only if somebody asks for them after :func:`finish`.
      reverse: what is linearized is to be transposed.
      lends: the library may have functions for it, which are copied in before :func:`finish`.
    """
    # Another thread may be tracing rules, which are written into the module.
    with program.rule_tracing.lock:
        result, volumes = _copy(program, while_loops, custom_rules, reverse, lends)
    if makes_references(result):
        if volumes:
            raise Unavailable
        discharge_refs(result)

    def prepare(symbol: str) -> None:
        checkpoint_while(result, symbol, while_loops, checkpoints)

    prepare(result.name)
    with scope():
        rules = Rules(result, reverse=reverse, prepare=prepare)
        if volumes:
            rules.functions.loans = Loans(rules, volumes)
        return result, rules, result.name


def _copy(
    program: Program, while_loops: str, custom_rules: str, reverse: bool, lends: bool
) -> tuple[Program, dict[str, SharedFunctions]]:
    """The copy, and what the library has for it."""
    volumes: dict[str, SharedFunctions] = {}
    own: set[str] = set()
    if lends and while_loops == "error":
        rules_wait = custom_rules == "none"
        volumes, own = volumes_for(program, reverse=reverse, rules_wait=rules_wait)
    among = own if volumes else None
    return program.clone(hold_rules=custom_rules != "all", among=among), volumes


def finish(
    program: Program,
    symbol: str,
    in_tree: Any,
    out_tree: Any,
    name: str | None = None,
    arg_names: Sequence[str] = (),
    *,
    copied: Copied,
) -> Program:
    """Makes ``@symbol`` the program's function, under ``name`` where that is free.

    Args:
      arg_names: of the flat arguments, if these have names.
      copied: what :meth:`Functions.copy_in` gave.
    """
    copies, uses = copied
    with scope():
        program.changed()
        make_public(program, symbol, uses, copies)
        copies = {name: copy for name, copy in copies.items() if name in program.functions}
        # Rules are run on exported functions, and their copies come back.
        if dedupe_functions(program, copies):
            uses = Uses(program)
        program.changed(put_in_order(program.functions, symbol, uses))
        function = program.function(symbol)
        names = _short_names(program)
        if name is not None and name not in {names.get(n, n) for n in program.functions}:
            names[symbol] = name
        rename_functions(program, names, copies, uses)
        attributes = function.attributes
        attributes["jaxpr.in_tree"] = pytrees.encode(in_tree)
        attributes["jaxpr.out_tree"] = pytrees.encode(out_tree)
        locations.name_arguments(function, arg_names)
    program.changed(program._functions)
    program.rule_tracing.held = False
    program.copies = copies
    return program


def _short_names(program: Program) -> dict[str, str]:
    """The names of private functions without numbers, where these are free."""
    taken = set(program.functions)
    names: dict[str, str] = {}
    for name, function in program.functions.items():
        base = short_name(name)
        if base not in taken and is_private(function):
            taken.add(base)
            names[name] = base
    return names
