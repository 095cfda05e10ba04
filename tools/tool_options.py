"""Types of the tools' options, for argparse: what is wrong is an error of usage."""

from __future__ import annotations

import argparse
import re


def positive(text: str) -> int:
    """A number of something, at least one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {number}")
    return number


def regex(text: str) -> re.Pattern[str]:
    """A regular expression, to be searched for in names."""
    try:
        return re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {e}") from e
