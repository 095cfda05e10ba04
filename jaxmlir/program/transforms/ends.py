"""How transformations start, with a copy of the program, and end, with one public function."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from jaxmlir.dialect import locations
from jaxmlir.dialect.builder import SymbolUses, make_public, put_in_order
from jaxmlir.dialect.codec import pytrees
from jaxmlir.dialect.ir import is_private, scope
from jaxmlir.errors import ArgumentError, count
from jaxmlir.rewriting.dedupe import dedupe_functions, rename_functions, short_name
from jaxmlir.support.options import integer
from jaxmlir.transforms.checkpoint_while import checkpoint_while
from jaxmlir.transforms.discharge_refs import discharge_refs
from jaxmlir.transforms.retyping import infer_weak_types
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
) -> tuple[Program, Rules, str]:
    """A copy of the program to transform, its :class:`Rules`, and the function to transform.

    Args:
      custom_rules: which custom rules are traced: ``"all"`` now, ``"met"`` when a derivative meets
        them, or ``"none"``; others only if somebody asks for them after :func:`finish`.
      reverse: whether linearized functions will be transposed.
    """
    # Another thread may be tracing rules, and writing them into the module.
    with program.rule_tracing.lock:
        result = program.clone(hold_rules=custom_rules != "all")
    discharge_refs(result)

    def prepare(symbol: str) -> None:
        checkpoint_while(result, symbol, while_loops, checkpoints)

    prepare(result.name)
    with scope():
        return result, Rules(result, reverse=reverse, prepare=prepare), result.name


def finish(
    program: Program,
    symbol: str,
    in_tree: Any,
    out_tree: Any,
    name: str | None = None,
    arg_names: Sequence[str] = (),
) -> Program:
    """Makes ``@symbol``, whose flat arguments may have names, the program's public function, under
    ``name`` where that is free."""
    with scope():
        program.changed()
        uses = SymbolUses(program)
        make_public(program, symbol, uses)
        # Functions are exported to run JAX's rules on them, and imported again as copies.
        if dedupe_functions(program):
            uses = SymbolUses(program)
        program.changed(put_in_order(program.functions, symbol, uses))
        function = program.function(symbol)
        names = _short_names(program)
        if name is not None and name not in {names.get(n, n) for n in program.functions}:
            names[symbol] = name
        rename_functions(program, names, uses)
        infer_weak_types(program, [program.name])
        attributes = function.attributes
        attributes["jaxpr.in_tree"] = pytrees.encode(in_tree)
        attributes["jaxpr.out_tree"] = pytrees.encode(out_tree)
        locations.name_arguments(function, arg_names)
    program.changed(program._functions)
    program.rule_tracing.held = False
    return program


def _short_names(program: Program) -> dict[str, str]:
    """Names without a number for private functions, where such a name is free."""
    taken = set(program.functions)
    names: dict[str, str] = {}
    for name, function in program.functions.items():
        base = short_name(name)
        if base not in taken and is_private(function):
            taken.add(base)
            names[name] = base
    return names


# --- pytrees of arguments, and the argument positions that options name ---------------------------


def args_tree_of(program: Program, what: str) -> Any:
    """The pytree of the positional arguments of a program; an :class:`ArgumentError` if it has
    keyword arguments, which ``what`` does not support."""
    args, kwargs = program.in_tree.children()
    if kwargs.num_leaves:
        raise ArgumentError(
            f"{what}: @{program.name} takes keyword arguments; trace a function of positional ones "
            "that calls it"
        )
    return args


def tuple_of(trees: Sequence[Any]) -> Any:
    """The pytree of a tuple whose elements have the pytrees ``trees``."""
    return jax.tree_util.treedef_tuple(trees)


def arguments_of(*trees: Any) -> Any:
    """The pytree of ``(args, kwargs)`` for positional arguments with the pytrees ``trees``."""
    return tuple_of([tuple_of(trees), jax.tree.structure({})])


def positions_of(
    argnums: int | Sequence[int], args_tree: Any, option: str = "argnums"
) -> list[int]:
    """The positional arguments that an option names, counted from 0; an :class:`ArgumentError` if
    it names an argument that does not exist, or one twice."""
    n = len(args_tree.children())
    positions = []
    for i in _integers(argnums):
        if i is None:
            raise ArgumentError(f"{option}={argnums!r}: expected an int, or a sequence of ints")
        if not -n <= i < n:
            taken = count(n, "positional argument")
            raise ArgumentError(f"{option}={argnums}: the program takes {taken}")
        positions.append(i % n)
    if len(set(positions)) < len(positions):
        raise ArgumentError(f"{option}={argnums} names a positional argument twice")
    return positions


def _integers(argnums: Any) -> list[int | None]:
    """The integers of an option, a single one or a sequence; ``None`` for any other value."""
    single = integer(argnums)
    if single is not None:
        return [single]
    try:
        return list(map(integer, argnums))
    except TypeError:
        return [None]


def to_differentiate(argnums: int | Sequence[int], args_tree: Any) -> list[int]:
    """The positions that :func:`positions_of` gives; at least one is required."""
    positions = positions_of(argnums, args_tree)
    if not positions:
        raise ArgumentError(f"argnums={argnums}: expected at least one argument to differentiate")
    return positions


def argnum_leaves(program: Program, argnums: int | Sequence[int], real_for: str = "") -> list[int]:
    """The flat arguments that a program is differentiated in, which ``argnums`` names, at least
    one; of real numbers if the transformation ``real_for`` takes derivatives in these only."""
    args_tree = program.in_tree.children()[0]
    leaves = leaves_of(args_tree, to_differentiate(argnums, args_tree))
    for aval in (program.in_avals[i] for i in leaves if real_for):
        if not jax.dtypes.issubdtype(aval.dtype, np.floating):
            raise ArgumentError(
                f"{real_for} of @{program.name}: expected to differentiate by arguments of real "
                f"numbers, got {aval.str_short()}"
            )
    return leaves


def leaves_of(args_tree: Any, positions: Sequence[int]) -> list[int]:
    """The numbers of the flat arguments at some positions, in the order of the positions."""
    counts = (child.num_leaves for child in args_tree.children())
    starts = [*itertools.accumulate(counts, initial=0)]
    return [leaf for i in positions for leaf in range(starts[i], starts[i + 1])]
