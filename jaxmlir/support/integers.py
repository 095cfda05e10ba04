"""Integers among the options of users."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def integer(value: Any) -> int | None:
    """What a value is as an ``int``: one of Python or NumPy, an array of one integer ...

    ``None`` of anything else, booleans included: where a number is asked for, ``True`` is a
    mistake.
    """
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
