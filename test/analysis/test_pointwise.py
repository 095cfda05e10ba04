"""Results of JAX's rules for a pointwise op of one shape, reused for another shape."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.analysis import pointwise
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.ops import OPS
from jaxmlir.dialect.ops.record import holds
from jaxmlir.errors import TransformError
from jaxmlir.transforms import jax_rules, templates

FLOATS = """
    abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf
    erf_inv erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign sin
    sinh sqrt square tan tanh
"""
PAIRS = """
    add atan2 complex div eq ge gt igamma igamma_grad_a igammac le lt max min mul ne nextafter pow
    rem sub zeta
"""
INTEGERS = "and or xor shift_left shift_right_arithmetic shift_right_logical"

SPELT = {
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "igamma_grad_a": lax.igamma_grad_a,
}


def cases():
    """Functions of arrays of one arbitrary shape, by their op."""

    def named(name):
        return SPELT.get(name) or getattr(lax, name)

    found = {name: (named(name), "f") for name in FLOATS.split()}
    found |= {name: (named(name), "ff") for name in PAIRS.split()}
    found |= {name: (named(name), "ii") for name in INTEGERS.split()}
    found |= {
        "not": (lax.bitwise_not, "i"),
        "clz": (lax.clz, "i"),
        "population_count": (lax.population_count, "i"),
        "add_any": (lambda x: jax.grad(lambda x: (x * x).sum())(x), "f"),
        "clamp": (lambda x: lax.clamp(0.2, x, 0.6), "f"),
        "clamp_by_arrays": (lax.clamp, "fff"),
        "conj": (lambda x, y: jnp.conj(lax.complex(x, y)), "ff"),
        "real": (lambda x, y: jnp.real(jnp.exp(lax.complex(x, y))), "ff"),
        "imag": (lambda x, y: jnp.imag(jnp.sin(lax.complex(x, y))), "ff"),
        "convert_element_type": (lambda x: x.astype(jnp.bfloat16), "f"),
        "convert_to_weak": (lambda x: lax.convert_element_type(x, float), "i"),
        "div_by_weak": (lambda x: 2.0 / x, "f"),
        "integer_pow": (lambda x: x**3, "f"),
        "integer_pow_negative": (lambda x: x**-2, "f"),
        "polygamma": (lambda x: lax.polygamma(jnp.full_like(x, 1.0), x), "f"),
        "pow_to_integers": (lambda x, n: lax.pow(x, n), "fi"),
        "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), "f"),
        "regularized_incomplete_beta": (lax.betainc, "fff"),
        "select_n": (lambda x, y: jnp.where(x > 0.5, x, y), "ff"),
        "select_n_by_scalar": (lambda x, y: lax.select(x.size > y.sum(), x, y), "ff"),
        "stop_gradient": (lambda x: lax.stop_gradient(x) * x, "f"),
    }
    newer = {"log2": "f", "one_minus_square": "f", "mulhi": "ii"}
    found |= {name: (named(name), kinds) for name, kinds in newer.items() if hasattr(lax, name)}
    if hasattr(lax, "polynomial"):
        found["polynomial"] = (lambda x, a, b: lax.polynomial(x, [a, b]), "fff")
    return found


CASES = cases()

ELSEWHERE = {
    "eq_to": "JAX makes it inside sorts, which derivatives and lowering take whole",
    "le_to": "the same",
    "lt_to": "the same",
}
"""Ops that are not written here, and why; besides those that this version of JAX has not."""

SHAPES = (3, 5), (7,)


@pytest.fixture
def nothing_known(monkeypatch):
    """Clears the known results of rules."""

    def forget():
        monkeypatch.setattr(templates, "by_signature", {})
        monkeypatch.setattr(templates, "by_kind", {})

    forget()
    return forget


def arguments(kinds, shape):
    random = np.random.default_rng(len(shape))
    return [
        jnp.asarray(random.uniform(0.1, 0.9, shape), jnp.float32)
        if kind == "f"
        else jnp.asarray(random.integers(1, 7, shape), jnp.int32)
        for kind in kinds
    ]


def derivatives(name, shape):
    """The texts of the derivatives, which use rules, or the class of the error."""
    f, kinds = CASES[name]
    program = jaxmlir.trace(f)(*arguments(kinds, shape))
    texts = []
    for transformed in (lambda: [program.jvp()], program.linearize, program.vjp):
        try:
            texts += [p.as_text() for p in transformed()]
        except TransformError as error:
            texts.append(type(error).__name__)
    return texts


def test_every_pointwise_op_is_here_or_named():
    version = tuple(map(int, jax.__version__.split(".")[:3]))
    used = set(ELSEWHERE) | {name for name, op in OPS.items() if not holds(op.jax, version)}
    for f, kinds in CASES.values():
        module = jaxmlir.trace(f)(*arguments(kinds, SHAPES[0])).module
        names = set()
        module.operation.walk(lambda op, names=names: names.add(op.name) or ir.WalkResult.ADVANCE)
        used |= {name.removeprefix("jaxpr.") for name in names}
    assert {name.removeprefix("jaxpr.") for name in pointwise.ELEMENTWISE} <= used


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_what_rules_give(name, nothing_known):
    first, second = SHAPES
    fresh = derivatives(name, second)
    nothing_known()
    derivatives(name, first)
    assert derivatives(name, second) == fresh


@pytest.mark.parametrize("name", CASES)
def test_stablehlo_is_what_rules_give(name, monkeypatch):
    f, kinds = CASES[name]
    first, second = (arguments(kinds, shape) for shape in SHAPES)
    program = jaxmlir.trace(lambda a, b: (f(*a), f(*b)))(first, second)
    again = program.lower().as_text()
    monkeypatch.setattr(pointwise, "kind_of", lambda signature: None)
    assert program.lower().as_text() == again


@pytest.mark.parametrize("name", ["sin", "logistic", "integer_pow", "max", "select_n", "clamp"])
def test_rules_are_run_for_one_shape(name, nothing_known, monkeypatch):
    first, second = SHAPES
    derivatives(name, first)
    monkeypatch.setattr(jax_rules, "split_jvp", None)
    monkeypatch.setattr(jax_rules.ad, "jvp_jaxpr", None)
    derivatives(name, second)


def test_a_sharding_for_each_dimension_is_not_reused(nothing_known):
    """The transpose of a conversion names the sharding of each dimension."""
    derivatives("convert_element_type", SHAPES[0])
    transposes = (known for key, known in templates.by_kind.items() if key[0] == "transpose")
    ((found, shape),) = transposes
    assert shape == SHAPES[0]
    assert pointwise.reshaped(found.function.operation, shape, SHAPES[1]) is None
