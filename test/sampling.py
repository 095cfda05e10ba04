"""Selects the cases of costly tests to run: a fixed sample or, with ``--whole``, all of them.

``conftest`` imports this module before JAX may be imported, so it does not import JAX.
"""

import os

import hypothesis

VARIABLE = "JAXMLIR_TEST_WHOLE"

# One in so many cases of a test that is marked `sampled` runs, unless the mark has a larger number.
CASES = 6


def number(count):
    """How many of ``count`` examples to try: about half, or all of them with ``--whole``."""
    return count if os.environ.get(VARIABLE) == "1" else (count + 1) // 2


def some(items):
    """Every second one of the items, or all of them with ``--whole``."""
    return list(items)[:: 1 if os.environ.get(VARIABLE) == "1" else 2]


def examples(count, settings=None):
    """Hypothesis settings for ``count`` examples, or about half of them without ``--whole``.

    Args:
      settings: the other settings; by default those of the profile.
    """
    return hypothesis.settings(settings, max_examples=number(count))
