"""Primitives that JAX knows to be linear or bilinear: their rules are known without a trace."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxmlir
from jaxmlir._compat import linearity
from jaxmlir.transforms import jax_rules, templates

X, Y = jnp.arange(1.0, 13.0).reshape(3, 4), jnp.linspace(-1.0, 2.0, 12).reshape(3, 4)
IMAGE, KERNEL = (
    jnp.arange(32.0).reshape(1, 2, 4, 4),
    jnp.linspace(-1.0, 1.0, 24).reshape(3, 2, 2, 2),
)

CASES = {
    "neg": (lambda x: -x, (X,)),
    "reduce_sum": (lambda x: x.sum(1), (X,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), (X, Y)),
    "concatenate_of_one_active": (lambda x: jnp.concatenate([x, Y], 1), (X,)),
    "complex": (lambda x, y: jnp.abs(jax.lax.complex(x, y)), (X, Y)),
    "fft": (lambda x: jnp.abs(jnp.fft.rfft(x)), (X,)),
    "mul": (lambda x, y: x * y, (X, Y)),
    "mul_by_constant": (lambda x: x * Y, (X,)),
    "square_by_mul": (lambda x: x * x, (X,)),
    "weak": (lambda x, c: x * (-c), (X, 2.0)),
    "dot_general": (lambda x, y: x @ y.T, (X, Y)),
    "conv": (lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), (IMAGE, KERNEL)),
}


def derivatives(f, args):
    program = jaxmlir.trace(f)(*args)
    vjp, (fwd, bwd) = program.vjp(), program.linearize()
    return [p.as_text() for p in (program.jvp(), *vjp, fwd, bwd)]


@pytest.mark.parametrize("name", CASES)
def test_is_what_jax_traces(name, monkeypatch):
    f, args = CASES[name]
    monkeypatch.setattr(templates, "by_signature", {})
    known = derivatives(f, args)
    monkeypatch.setattr(templates, "by_signature", {})
    monkeypatch.setattr(jax_rules, "linearity", lambda primitive: None)
    assert known == derivatives(f, args)


@pytest.mark.parametrize("name", ["neg", "reduce_sum", "mul", "dot_general", "conv"])
def test_is_not_traced(name, monkeypatch):
    f, args = CASES[name]
    program = jaxmlir.trace(f)(*args)
    monkeypatch.setattr(templates, "by_signature", {})
    monkeypatch.setattr(jax_rules, "split_jvp", None)
    monkeypatch.setattr(jax_rules.ad, "jvp_jaxpr", None)
    program.jvp()
    program.linearize()


def test_linearity():
    known = {"linear": (lax.neg_p, lax.reduce_sum_p), "bilinear": (lax.mul_p, lax.dot_general_p)}
    for name, primitives in known.items():
        assert [linearity(p) for p in primitives] == [name] * 2
    assert linearity(lax.exp_p) is linearity(lax.add_p) is linearity(lax.floor_p) is None
