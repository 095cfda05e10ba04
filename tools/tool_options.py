"""Argument types of the tools' options, for argparse: a wrong value is a usage error."""

from __future__ import annotations

import argparse
import re


def positive(text: str) -> int:
    """An integer of at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def regex(text: str) -> re.Pattern[str]:
    """A regular expression to search names with."""
    try:
        return re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {e}") from e
