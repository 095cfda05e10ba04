"""Inverses: programs that compute the arguments of a program from its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


Argnums = int | Sequence[int] | None


def inverse(
    program: Program, argnums: Argnums, known: Argnums, newton: bool, *, log_det: bool = False
) -> Program:
    """The program of :meth:`Program.inverse`; with ``log_det``, of ``inverse_and_log_det``."""
    # Imported here: there are many rules of inversion, and most programs are never inverted.
    from jaxmlir.transforms.inverses.invert import inverse as inverse_function

    args_tree, unknown, given = _question(program, "inverse", argnums, known)
    children = args_tree.children()
    result, rules, symbol = start(program, custom_rules="all")
    with scope(), program.widths, _explained(program, unknown, given):
        flat = (leaves_of(args_tree, positions) for positions in (unknown, given))
        inverted = inverse_function(rules, symbol, *map(tuple, flat), log_det, newton)
    single = len(unknown) == 1 and (argnums is None or integer(argnums) is not None)
    tree = children[unknown[0]] if single else tuple_of([children[i] for i in unknown])
    if log_det:
        tree = tuple_of([tree, jax.tree.structure(0)])
    in_tree = arguments_of(program.out_tree, *[children[i] for i in given])
    return finish(result, inverted, in_tree, tree, f"{symbol}.inverse")


def forward_and_log_det(
    program: Program, argnums: Argnums, known: Argnums, newton: bool
) -> Program:
    """The program that :meth:`Program.forward_and_log_det` returns."""
    from jaxmlir.transforms.inverses.invert import forward_and_log_det as forward_function

    args_tree, unknown, given = _question(program, "forward_and_log_det", argnums, known)
    result, rules, symbol = start(program, custom_rules="all")
    with scope(), program.widths, _explained(program, unknown, given):
        # Arguments that are neither known nor unknown have no part in the determinant.
        others = [i for i in range(len(args_tree.children())) if i not in unknown]
        flat = tuple(leaves_of(args_tree, others))
        forward = forward_function(rules, symbol, flat, newton)
    tree = tuple_of([program.out_tree, jax.tree.structure(0)])
    name = f"{symbol}.forward_and_log_det"
    return finish(result, forward, program.in_tree, tree, name)


def _question(
    program: Program, what: str, argnums: Argnums, known: Argnums
) -> tuple[Any, list[int], list[int]]:
    """The pytree of the arguments, the positions of the unknown ones, and of the known ones."""
    args_tree = args_tree_of(program, what)
    count = len(args_tree.children())
    given = [] if known is None else positions_of(known, args_tree, "known")
    if argnums is None:
        unknown = [i for i in range(count) if i not in given]
    else:
        unknown = positions_of(argnums, args_tree)
        if known is None:
            given = [i for i in range(count) if i not in unknown]
    if set(unknown) & set(given):
        raise ArgumentError(
            f"{what} of @{program.name}: argnums={argnums} and known={known} overlap"
        )
    return args_tree, unknown, sorted(given)


@contextmanager
def _explained(program: Program, unknown: list[int], given: list[int]) -> Iterator[None]:
    """Adds a note to errors about several unknowns without known arguments: how to name those."""
    try:
        yield
    except TransformError as e:
        if len(unknown) > 1 and not given:
            e.add_note(
                f"all {len(unknown)} arguments of @{program.name} are unknown; name the unknown "
                "ones by argnums=, or the known ones by known="
            )
        raise
