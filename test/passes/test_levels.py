"""Optimization levels on random programs with control flow and custom rules, against JAX."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import vector_like
from hypothesis import given
from random_programs import budget, programs, run

import jaxmlir
from benchmarks.programs import NAIVE, PROGRAMS
from jaxmlir.passes import find_pass, level_pipeline
from jaxmlir.passes.levels import NEEDED_OPS

pytestmark = pytest.mark.compat

EAGER = {
    # Options that make passes rewrite as much as possible, whether or not it pays.
    "jaxpr-reassociate": "jaxpr-reassociate{min-gain=0}",
    "jaxpr-gather-dot": "jaxpr-gather-dot{min-gain=0 calls=inf}",
    "jaxpr-factor-linear-sums": "jaxpr-factor-linear-sums{min-gain=0}",
    "jaxpr-hoist-slices": "jaxpr-hoist-slices{factor=0}",
    "jaxpr-shift-invariance": "jaxpr-shift-invariance",
    "jaxpr-vectorize-blocks": "jaxpr-vectorize-blocks{min-gain=0 stacked=1e9}",
    "jaxpr-slp-vectorize": "jaxpr-slp-vectorize{min-gain=0 stacked=1e9}",
    "jaxpr-fold-unit-dims": "jaxpr-fold-unit-dims",
    "how values are stored": (
        "jaxpr-tile{tile-size=2 min-peak=0},jaxpr-remat{calls=inf},"
        "jaxpr-reassociate-solves{min-gain=0 min-iterations=0},"
        "jaxpr-sink-reductions{min-bytes=0 moved=1000 "
        "memory=1000},"
        "jaxpr-unroll-reductions{calls=inf min-results=0},"
        "jaxpr-pad-stencils{min-elements=0 margin=100},"
        "jaxpr-sink-recompute{calls=inf min-peak=0 min-bytes=0 slowdown=1e9 min-gain=0},"
        "jaxpr-checkpoint-segments{calls=inf min-peak=0}"
    ),
    "-O2": level_pipeline(2),
}


@pytest.mark.sampled
@pytest.mark.parametrize("passes", EAGER.values(), ids=EAGER)
@budget
@given(steps=programs)
def test_random_programs(passes, steps):
    x, y = vector_like((np.zeros(3, np.float32),) * 2, 0)

    def loss(x, y):
        return jnp.sum(run(steps, x, y) ** 2)

    want = jax.jit(jax.value_and_grad(loss, (0, 1)))(x, y)
    pipeline = f"{level_pipeline(1)},{passes}"
    # The program is optimized, differentiated, and optimized again.
    program = jaxmlir.trace(loss)(x, y).run_passes(pipeline)
    gradient = program.value_and_grad((0, 1)).run_passes(pipeline)
    gradient.verify()
    got = gradient(x, y)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_passes_that_need_ops_do_nothing_without_them():
    programs = [
        jaxmlir.trace(function)(*args).optimize(1)
        for function, args in (
            (PROGRAMS | NAIVE)[name].make("small")
            for name in ("mlp", "gnn", "lstm_scan", "gaussian_process", "resnet", "matrix_chain")
        )
    ]
    programs.append(jaxmlir.trace(lambda x, y: jnp.tanh(x) * y.T)(*(jnp.ones((3, 3)),) * 2))
    tried = set()
    for name, ops in NEEDED_OPS.items():
        pass_ = find_pass(name)()
        for program in programs:
            if program.lacks(ops):
                tried.add(name)
                copy = program.clone()
                assert pass_.run(copy) is False
                assert str(copy) == str(program)
    assert tried == set(NEEDED_OPS)


def test_passes_are_not_loaded_for_programs_that_they_are_not_for():
    code = """
import sys, jax, jaxmlir
from jaxmlir.passes import level_pipeline
f = jaxmlir.trace(lambda x: (x @ x)[:1] @ x)(jax.numpy.ones((3, 3)))
for target in ("cpu", "tpu"):
    f.run_passes(level_pipeline(2), target=target)
    assert ("jaxmlir.optimize.tpu.sum_in_products" in sys.modules) is (target == "tpu")
assert jaxmlir.trace(jax.numpy.exp)(1.0).optimize(2)(0.0) == 1.0
assert "jaxmlir.optimize.loops.fuse_scans" not in sys.modules
f = lambda x: jax.lax.fori_loop(0, 3, lambda i, x: 2 * x, x)
assert jaxmlir.trace(f)(1.0).optimize(2)(1.0) == 8.0
assert "jaxmlir.optimize.loops.fuse_scans" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
