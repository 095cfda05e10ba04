"""What tests compare programs and results by."""

from __future__ import annotations

import jax
import jax.extend
import numpy as np
import pytest
import round_trip

import jaxmlir

compat = pytest.mark.compat


def reread(program: jaxmlir.Program) -> jaxmlir.Program:
    """The program as an artifact, or its text, has it."""
    again = round_trip.reread(program)
    assert again.as_text() == program.as_text()
    return again


def bits(tree):
    """Dtypes, shapes and bytes of the leaves: equal for NaNs of equal payload, and not for -0.0."""
    return [(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, jax.tree.leaves(tree))]


def same(ours, jaxs):
    assert jax.tree.structure(ours) == jax.tree.structure(jaxs)
    assert bits(ours) == bits(jaxs)
