"""How a transformation begins, with a copy of the program, and ends, with one public function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from jaxmlir import locations, pytrees
from jaxmlir.ir import func, is_private, scope
from jaxmlir.passes._build import make_public, put_in_order, reachable
from jaxmlir.passes._library import Loans, volumes_for
from jaxmlir.passes._rules import Rules
from jaxmlir.passes._volume import Copy, NotLent, Volume
from jaxmlir.passes.checkpoint_while import checkpoint_while
from jaxmlir.passes.dedupe_functions import dedupe_functions, rename_functions, short_name
from jaxmlir.passes.discharge_refs import discharge_refs, makes_references

if TYPE_CHECKING:
    from jaxmlir.program import Program


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
      custom_rules: which are traced now: all, or those that a derivative needs; others are only if
        somebody asks for them after :func:`finish`.
      reverse: what is linearized is to be transposed.
      lends: the library may have functions for it, which are copied in before :func:`finish`.
    """
    volumes: dict[str, Volume] = {}
    if lends and while_loops == "error":
        volumes = volumes_for(program, reverse=reverse, rules_wait=custom_rules == "none")
    if custom_rules == "met" and program.has_untraced_rules:
        met = reachable(_without(program, volumes), program.name, custom_rules=False)
        program.trace_rules(within=met)
    # Rules may have brought functions.
    among = reachable(_without(program, volumes), program.name) if volumes else None
    result = program.clone(hold_rules=custom_rules != "all", among=among)
    if makes_references(result):
        if volumes:
            raise NotLent
        discharge_refs(result)

    def prepare(symbol: str) -> None:
        checkpoint_while(result, symbol, while_loops, checkpoints)

    prepare(result.name)
    with scope():
        rules = Rules(result, reverse=reverse, prepare=prepare)
        if volumes:
            rules.functions.loans = Loans(rules, volumes)
        return result, rules, result.name


def _without(program: Program, volumes: Mapping[str, Volume]) -> dict[str, func.FuncOp]:
    """The functions of a program but for those that the library has."""
    return {name: op for name, op in program._functions.items() if name not in volumes}


def finish(
    program: Program,
    symbol: str,
    in_tree: Any,
    out_tree: Any,
    name: str | None = None,
    names: Sequence[str] = (),
    copies: Mapping[str, Copy] | None = None,
) -> Program:
    """Makes ``@symbol`` the program's function, under ``name`` where that is free.

    Args:
      names: of the flat arguments, if these have any.
      copies: what is known of some functions of the module.
    """
    with scope():
        program.changed()
        copies = copies or {}
        make_public(program, symbol, {name: copy.uses for name, copy in copies.items()})
        copies = {name: copy for name, copy in copies.items() if name in program.functions}
        # Rules are run on exported functions, and their copies come back.
        dedupe_functions(program, copies)
        uses = {name: copy.uses for name, copy in copies.items()}
        program.changed(put_in_order(program.functions, symbol, uses))
        _shorten_names(program, copies)
        function = program.function(symbol)
        if name is not None and name not in program.functions:
            rename_functions(program, {function.name.value: name}, copies)
        attributes = function.attributes
        attributes["jaxpr.in_tree"] = pytrees.encode(in_tree)
        attributes["jaxpr.out_tree"] = pytrees.encode(out_tree)
        locations.name_arguments(function, names)
    program.changed(program._functions)
    program.rule_tracing.held = False
    program.copies = copies
    return program


def _shorten_names(program: Program, copies: dict[str, Copy]) -> None:
    """Takes the numbers off the names of private functions, where the names are free."""
    taken = set(program.functions)
    names = {}
    for name, function in program.functions.items():
        base = short_name(name)
        if base not in taken and is_private(function):
            taken.add(base)
            names[name] = base
    rename_functions(program, names, copies)
