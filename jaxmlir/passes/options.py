"""Options that several passes share: flat arguments by number."""

from __future__ import annotations

from collections.abc import Iterable

from jaxmlir.dialect import locations
from jaxmlir.dialect.ir import func
from jaxmlir.dialect.module import Module
from jaxmlir.errors import TransformError, count


def named_arguments(program: Module, symbol: str, numbers: Iterable[int]) -> tuple[bool, ...]:
    """Which flat arguments of ``@symbol`` an option lists by number.

    Raises:
      TransformError: the function has no argument with one of the numbers.
    """
    function = program.function(symbol)
    program.check_types(function)
    total, numbers = len(function.arguments), set(numbers)
    for i in sorted(numbers):
        if not 0 <= i < total:
            has = f"@{symbol} has {count(total, 'argument')}, but none of number {i}"
            raise at_function(function, has)
    return tuple(i in numbers for i in range(total))


def at_function(function: func.FuncOp, message: str) -> TransformError:
    """An error about a function as a whole."""
    return locations.error_at(TransformError, function.location, message)


def at_public(program: Module, message: str) -> TransformError:
    """An error about the function that a call of the program runs."""
    return at_function(program.function(program.name), message)
