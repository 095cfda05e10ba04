"""Helpers with which tests compare programs and results."""

from __future__ import annotations

import jax
import jax.extend
import numpy as np
import pytest
import round_trip

import jaxmlir

compat = pytest.mark.compat


def reread(program: jaxmlir.Program) -> jaxmlir.Program:
    """The program read back from an artifact, or from its text."""
    again = round_trip.reread(program)
    assert again.as_text() == program.as_text()
    return again


def bits(tree):
    """Dtypes, shapes and bytes of the leaves: NaNs of equal payload are equal, 0.0 and -0.0 not."""
    return [(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, jax.tree.leaves(tree))]


def same(ours, jaxs):
    assert jax.tree.structure(ours) == jax.tree.structure(jaxs)
    assert bits(ours) == bits(jaxs)
