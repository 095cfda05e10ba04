"""Index maps against JAX: ops of its harnesses are computed in tiles along each of their loops."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmlir
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.index_maps import maps_of
from jaxmlir.dialect.ir import scope
from jaxmlir.dialect.types import aval_of
from jaxmlir.optimize.memory.tile.regions import RowOp, Schedule, Tiles, TileWriter
from jaxmlir.transforms.templates import Rules

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import conformance

pytestmark = pytest.mark.compat

# Groups of harnesses whose ops are not simply elementwise.
GROUPS = (
    "argmax",
    "broadcast_in_dim",
    "cholesky",
    "concatenate",
    "conv_general_dilated",
    "cumsum",
    "dot_general",
    "fft",
    "gather",
    "pad",
    "reduce_max",
    "reduce_prod",
    "reduce_sum",
    "reshape",
    "rev",
    "select_n",
    "sort",
    "squeeze",
    "transpose",
    "triangular_solve",
)
# The number of ops that are tried from each group.
TRIED = 2


def batches(body):
    """The ops of a function that can be tiled along a loop, with the loop's size."""
    for i, signature in enumerate(body.signatures):
        maps = maps_of(signature)
        if maps is None:
            continue
        for loop in {k for dims in (*maps.operands, *maps.results) for k in dims if k is not None}:
            op = RowOp.of(signature, loop)
            types = (*signature.operands, *signature.results)
            dims = zip(types, (*op.operands, *op.results), strict=True)
            size = next(aval_of(type_).shape[d] for type_, d in dims if d is not None)
            whole = op.operands if op.is_reduction else op.results
            if size > 1 and None not in whole:
                yield i, op, size


def in_tiles(program, index, op, rows):
    """The program with one op computed in tiles, with at least one row left over."""
    program = program.clone()
    with scope():
        function = program.function(program.name)
        schedule = Schedule(FunctionView(function), {index: op})
        tiles = Tiles(rows, max(1, (rows - 1) // 2))
        TileWriter(Rules(program), function, schedule, tiles).write()
    program.changed()
    program.verify()
    return program


@pytest.mark.sampled
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.filterwarnings("ignore")  # JAX's harnesses use what JAX itself has deprecated.
def test_ops_in_parts(group):
    tried = 0
    for harness in conformance.harnesses():
        if harness.group_name != group or tried == TRIED:
            continue
        args = harness.dyn_args_maker(np.random.RandomState(0))
        program = jaxmlir.trace(harness.dyn_fun)(*args)
        with scope():
            cases = list(batches(FunctionView(program.function(program.name))))
        if cases:
            got = in_tiles(program, *cases[tried % len(cases)])(*args)
            same_numbers(got, jax.jit(harness.dyn_fun)(*args))
            tried += 1
    assert tried


def same_numbers(got, want):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == b.dtype
        exact = b.dtype.kind in "biu"
        tolerance = 0 if exact else 1e-5 if b.dtype.itemsize > 2 else 0.05
        if not exact and b.dtype.kind not in "fc":
            a, b = a.astype(np.float32), b.astype(np.float32)
        np.testing.assert_allclose(a, b, tolerance, tolerance)
