"""Pytrees of arguments, and the positions in them that options name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from jaxmlir.errors import ArgumentError, count
from jaxmlir.support.options import integer

if TYPE_CHECKING:
    from jaxmlir.program.program import Program


def args_tree_of(program: Program, what: str) -> Any:
    """The tree of the positional arguments of a program that takes no others.

    Raises:
      ArgumentError: it takes others; ``what`` is the transformation that has no place for them.
    """
    args, kwargs = program.in_tree.children()
    if kwargs.num_leaves:
        raise ArgumentError(
            f"{what}: @{program.name} takes keyword arguments; pass them by position"
        )
    return args


def tuple_of(trees: Sequence[Any]) -> Any:
    """The tree of a tuple of those trees."""
    return jax.tree_util.treedef_tuple(trees)


def arguments_of(*trees: Any) -> Any:
    """The tree of ``(args, kwargs)`` for positional arguments of those trees."""
    return tuple_of([tuple_of(trees), jax.tree.structure({})])


def positions_of(
    argnums: int | Sequence[int], args_tree: Any, option: str = "argnums"
) -> list[int]:
    """The positional arguments that an option names, counted from 0.

    Raises:
      ArgumentError: it names one that there is not, or one twice.
    """
    n = len(args_tree.children())
    positions = []
    for i in _integers(argnums):
        if i is None:
            raise ArgumentError(f"{option}={argnums!r}: expected an int, or a sequence of ints")
        if not -n <= i < n:
            taken = count(n, "positional argument")
            raise ArgumentError(f"{option}={argnums} for a program of {taken}")
        positions.append(i % n)
    if len(set(positions)) < len(positions):
        raise ArgumentError(f"{option}={argnums} names a positional argument twice")
    return positions


def _integers(argnums: Any) -> list[int | None]:
    """Those that an option is, or has; ``None`` for what is no integer."""
    single = integer(argnums)
    if single is not None:
        return [single]
    try:
        return list(map(integer, argnums))
    except TypeError:
        return [None]


def to_differentiate(argnums: int | Sequence[int], args_tree: Any) -> list[int]:
    """Those of :func:`positions_of`, of which there has to be one."""
    positions = positions_of(argnums, args_tree)
    if not positions:
        raise ArgumentError(f"argnums={argnums}: expected at least one argument to differentiate")
    return positions


def leaves_of(args_tree: Any, positions: Sequence[int]) -> list[int]:
    """The flat arguments of those positions, in their order."""
    starts, total = [], 0
    for child in args_tree.children():
        starts.append(total)
        total += child.num_leaves
    children = args_tree.children()
    return [
        leaf for i in positions for leaf in range(starts[i], starts[i] + children[i].num_leaves)
    ]
