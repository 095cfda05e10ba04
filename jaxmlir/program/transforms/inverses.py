"""A program that solves another one for its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax

from jaxmlir.dialect.ir import scope
from jaxmlir.errors import ArgumentError, TransformError
from jaxmlir.program.transforms.ends import (
    args_tree_of,
    arguments_of,
    finish,
    leaves_of,
    positions_of,
    start,
    tuple_of,
)
from jaxmlir.support.options import integer

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def inverse(
    program: Program,
    argnums: int | Sequence[int] | None,
    known: int | Sequence[int] | None,
    *,
    log_det: bool,
) -> Program:
    """The program ``(result, *known arguments) -> unknown arguments``, with log|det| on request.

    Raises:
      ArgumentError: ``argnums`` and ``known`` overlap or name no argument.
      TransformError: an argument does not follow from the result and the known arguments.
    """
    # The rules of inversion are many, and most programs are never inverted.
    from jaxmlir.transforms.inverse import inverse as inverse_function

    args_tree = args_tree_of(program, "inverse")
    children = args_tree.children()
    given = [] if known is None else positions_of(known, args_tree, "known")
    if argnums is None:
        found = [i for i in range(len(children)) if i not in given]
    else:
        found = positions_of(argnums, args_tree)
        if known is None:
            given = [i for i in range(len(children)) if i not in found]
    if set(found) & set(given):
        raise ArgumentError(
            f"inverse of @{program.name}: argnums={argnums} and known={known} overlap"
        )
    result, rules, symbol = start(program, custom_rules="all")
    with scope(), program.widths:
        flat = (leaves_of(args_tree, positions) for positions in (found, sorted(given)))
        try:
            new = inverse_function(rules, symbol, *map(tuple, flat), log_det)
        except TransformError as e:
            if len(found) > 1 and not given:
                e.add_note(
                    f"all {len(found)} arguments of @{program.name} are to be found; argnums= or "
                    "known= says which are given"
                )
            raise
    known_trees = [children[i] for i in sorted(given)]
    single = len(found) == 1 and (argnums is None or integer(argnums) is not None)
    tree = children[found[0]] if single else tuple_of([children[i] for i in found])
    if log_det:
        tree = tuple_of([tree, jax.tree.structure(0)])
    copied = rules.functions.copy_in(new)
    in_tree = arguments_of(program.out_tree, *known_trees)
    return finish(result, new, in_tree, tree, f"{symbol}.inverse", copied=copied)
