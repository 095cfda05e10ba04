"""Identity of custom rules: functions never share rules that differ."""

from __future__ import annotations

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

import jaxmlir
from jaxmlir.bridge.importer import Importer


def with_jvp(slope):
    """The identity function with a rule whose derivative is ``slope()``."""

    def rule(primals, tangents):
        return primals[0], tangents[0] * slope()

    function = jax.custom_jvp(lambda x: x)
    function.defjvp(rule)
    return function


def with_vjp(slope):
    def forward(x):
        return x, None

    def backward(_, ct):
        return (ct * slope(),)

    function = jax.custom_vjp(lambda x: x)
    function.defvjp(forward, backward)
    return function


def read(value, of):
    def slope():
        return of(value)

    return slope


def globals_of(number):
    names = {"number": number}
    exec("def slope():\n    return number", names)
    return names["slope"]


def with_attribute(value, number):
    value.number = number
    return value


def number_of(value):
    return value.number


class List(list):
    pass


class Float(float):
    pass


Pair = collections.namedtuple("Pair", "a b")


class PairWithMore(Pair):
    pass


def named_function(number):
    def function():
        return 1.0

    return with_attribute(function, number)


def sign(value):
    return 3.0 if np.signbit(value) else 2.0


LEFT, RIGHT = object(), object()


def of_side(side):
    return 2.0 if side is LEFT else 3.0


SLOPES = {
    "globals": [globals_of(2.0), globals_of(3.0)],
    "zeros": [read(0.0, sign), read(-0.0, sign)],
    "complex zeros": [read(complex(1, s), lambda z: sign(z.imag)) for s in (0.0, -0.0)],
    "zeros of numpy": [read(jnp.bfloat16(s), lambda x: sign(float(x))) for s in (0.0, -0.0)],
    "bare objects": [read(LEFT, of_side), read(RIGHT, of_side)],
    "dictionaries by flags": [
        read(d, lambda d: d.get((True,), 1.0)) for d in ({}, {(True,): 2.0}, {(True,): 3.0})
    ],
    "dictionaries with defaults": [
        read(collections.defaultdict(factory), lambda d: d[0]) for factory in (int, lambda: 2)
    ],
    "lists": [read(with_attribute(List([1]), n), number_of) for n in (2.0, 3.0)],
    "tuples": [read(with_attribute(PairWithMore(1, 2), n), number_of) for n in (2.0, 3.0)],
    "floats": [read(with_attribute(Float(1), n), number_of) for n in (2.0, 3.0)],
    "functions": [read(named_function(n), number_of) for n in (2.0, 3.0)],
    "partial functions": [
        read(with_attribute(functools.partial(int), n), number_of) for n in (2.0, 3.0)
    ],
}


@pytest.mark.parametrize("make", [with_jvp, with_vjp])
@pytest.mark.parametrize("slopes", SLOPES.values(), ids=SLOPES)
def test_what_a_rule_reads_tells_it_from_others(slopes, make):
    def f(x):
        return sum(make(slope)(x) * 10**i for i, slope in enumerate(slopes))

    wanted = sum(slope() * 10**i for i, slope in enumerate(slopes))
    assert len({slope() for slope in slopes}) == len(slopes)
    assert jax.grad(f)(0.5) == jaxmlir.trace(f)(0.5).grad()(0.5) == wanted


@pytest.mark.parametrize("make", [with_jvp, with_vjp])
def test_many_rules_of_the_same_types_are_told_apart_by_hash(make, monkeypatch):
    write, keys = Importer.rule, []

    def rule(importer, key, hint, trace):
        keys.append(key)
        return write(importer, key, hint, trace)

    monkeypatch.setattr(Importer, "rule", rule)

    def f(x):
        # Each function is called twice; both calls share its rule.
        return sum(make(read(k % 20 + 1, float))(x) for k in range(40))

    program = jaxmlir.trace(f)(0.5)
    program.trace_rules()
    assert len(set(map(hash, keys))) == len(set(keys)) == len(keys) / 2
    assert program.grad()(0.5) == 420.0


@pytest.mark.parametrize("make", [with_jvp, with_vjp])
def test_functions_that_call_each_other(make):
    def pair(number):
        def even(n):
            return number if n == 0 else odd(n - 1)

        def odd(n):
            return 1.0 if n == 0 else even(n - 1)

        return even, odd

    def slope(function, n):
        return read(function, lambda f: f(n))

    (even, odd), (other_even, other_odd) = pair(2.0), pair(3.0)

    def f(x):
        functions = [(even, 0), (odd, 1), (other_even, 0), (other_odd, 1)]
        return sum(make(slope(g, n))(x) * 10**i for i, (g, n) in enumerate(functions))

    assert jax.grad(f)(0.5) == jaxmlir.trace(f)(0.5).grad()(0.5) == 3322.0


@jax.tree_util.register_pytree_node_class
class Scaled:
    def __init__(self, value, scale):
        self.value, self.scale = value, scale

    def tree_flatten(self):
        return (self.value,), (self.scale,)

    @classmethod
    def tree_unflatten(cls, scale, value):
        return cls(*value, *scale)


def test_numbers_in_pytrees_have_types_and_signs():
    @jax.custom_jvp
    def function(scaled):
        return scaled.value

    @function.defjvp
    def function_jvp(primals, tangents):
        scale = primals[0].scale
        slope = len(str(scale)) if scale else sign(scale)
        return primals[0].value, tangents[0].value * slope

    def f(x):
        scales = [1, True, 1.0, 0.0, -0.0]
        return sum(function(Scaled(x, scale)) * 10**i for i, scale in enumerate(scales))

    assert jax.grad(f)(0.5) == jaxmlir.trace(f)(0.5).grad()(0.5) == 32341.0


def test_a_rule_is_traced_in_the_context_of_each_call():
    slope = read(jnp.asarray(0.5), jnp.cos)

    def metadata(make):
        function = make(slope)

        def f(x):
            with set_xla_metadata(a="first"):
                y = function(x)
            with set_xla_metadata(a="second"):
                return function(y)

        text = jaxmlir.trace(f)(0.5).grad().as_text()
        return [line for line in text.splitlines() if "jaxpr.cos" in line]

    for make in (with_jvp, with_vjp):
        lines = metadata(make)
        assert len(lines) == 2
        assert all(any(word in line for line in lines) for word in ("first", "second"))
