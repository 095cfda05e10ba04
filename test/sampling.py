"""How much of a costly test is run: a fixed sample or, with ``--whole``, all of it.

``conftest`` imports this before JAX may be imported, and so nothing here does.
"""

import os

import hypothesis

VARIABLE = "JAXMLIR_TEST_WHOLE"

# Of the cases of a test that is marked `sampled`, one in so many is run, unless the mark says more.
CASES = 6


def number(count):
    """How many of ``count`` examples are tried: about half where it is a sample that is run."""
    return count if os.environ.get(VARIABLE) == "1" else (count + 1) // 2


def some(items):
    """The items, or every second one where it is a sample that is run."""
    return list(items)[:: 1 if os.environ.get(VARIABLE) == "1" else 2]


def examples(count, settings=None):
    """Settings of a property that is tried on ``count`` examples, of which a sample is half.

    Args:
      settings: what else is set; by default, what the profile says.
    """
    return hypothesis.settings(settings, max_examples=number(count))
