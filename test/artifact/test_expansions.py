"""High-level primitives in artifacts, loaded with and without their Python class."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same

import jaxmlir
from jaxmlir import _compat
from jaxmlir._compat import hijax, jax_version
from jaxmlir.errors import ArtifactError

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(jax_version() < (0, 11), reason="JAX has no such primitives"),
]


def _primitives():
    """Primitives with each kind of rules, which differ from those of the computed functions."""

    class Base(hijax.HiPrim):
        def __init__(self, aval, factor=1.0):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {"factor": factor}
            super().__init__()

    class WithJvp(Base):
        def expand(self, x):
            return jnp.sin(x) * self.factor

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), 3 * jnp.cos(x) * t * self.factor

        lin, linearized = hijax.linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    class WithVjp(Base):
        def expand(self, x):
            return x * x * self.factor

        def vjp_fwd(self, nonzero, x):
            return self(x), jnp.cos(x)

        def vjp_bwd_retval(self, residual, ct):
            return (5 * residual * ct,)

    class WithSums(Base):
        def expand(self, x):
            return x * x * x * self.factor

        def vjp_fwd(self, nonzero, x):
            return self(x), {"x": x}

        def vjp_bwd(self, residual, ct, total):
            total.accum(7 * residual["x"] * ct)

    class Linear(Base):
        """A linear primitive whose expansion has no transpose."""

        def expand(self, x):
            bits = jax.lax.bitcast_convert_type(x, jnp.int32)
            return jax.lax.bitcast_convert_type(bits, jnp.float32) * self.factor

        def jvp(self, primals, tangents):
            return self(*primals), self(*tangents)

        def transpose(self, ct, total):
            total.accum(self(ct))

        lin, linearized = hijax.linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    class Plain(Base):
        def expand(self, x):
            return jnp.exp(x) * self.factor

    return {cls.__name__: cls for cls in (WithJvp, WithVjp, WithSums, Linear, Plain)}


NAMES = ("WithJvp", "WithVjp", "WithSums", "Linear", "Plain")
X = np.array([0.5, -1.0, 2.0], np.float32)


def _applied(name, factor=1.0):
    cls = _primitives()[name]
    return lambda x: cls(jax.typeof(x), factor)(x)


def _hide_classes(monkeypatch):
    monkeypatch.setattr(_compat, "hi_primitive_named", lambda name: None)


@pytest.mark.parametrize("name", NAMES)
def test_the_op_stays_where_the_class_is(name, tmp_path):
    g = _applied(name)
    program = jaxmlir.trace(lambda x: jnp.tanh(g(x)))(X)
    program.save(tmp_path / "a")
    assert jaxmlir.load(tmp_path / "a").as_text() == program.as_text()


@pytest.mark.parametrize("name", NAMES)
def test_elsewhere_it_is_what_it_expands_to(name, tmp_path, monkeypatch):
    g, h = _applied(name), _applied(name, 2.0)

    def f(x):
        return jnp.sum(jnp.tanh(g(x)) + h(g(x) * x))

    program = jaxmlir.trace(f)(X)
    program.save(tmp_path / "a")
    batch = jnp.stack([X, 2 * X])
    if name == "Plain":
        # JAX cannot differentiate the primitive, but its expansion.
        def f(x):
            return jnp.sum(jnp.tanh(jnp.exp(x)) + 2 * jnp.exp(jnp.exp(x) * x))

    expected = f(X), jax.grad(f)(X)
    _hide_classes(monkeypatch)
    loaded = jaxmlir.load(tmp_path / "a")
    assert "hi_primitive" not in loaded.as_text()
    same(loaded(X), expected[0])
    np.testing.assert_allclose(loaded.grad()(X), expected[1], rtol=1e-5)
    np.testing.assert_allclose(jax.grad(loaded)(X), expected[1], rtol=1e-5)
    np.testing.assert_allclose(loaded.vmap()(batch)[0], expected[0], rtol=1e-5)
    # Saving the loaded program does not need the class either.
    loaded.save(tmp_path / "b")
    same(jaxmlir.load(tmp_path / "b").grad()(X), loaded.grad()(X))


def test_second_derivatives_elsewhere(tmp_path, monkeypatch):
    g = _applied("WithJvp")

    def f(x):
        return jnp.sum(g(x) * x)

    def along(f):
        return jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), X))

    expected = along(f)(X)
    jaxmlir.trace(f)(X).save(tmp_path / "a")
    _hide_classes(monkeypatch)
    np.testing.assert_allclose(along(jaxmlir.load(tmp_path / "a"))(X), expected, rtol=1e-5)


def test_derivatives_may_be_of_ever_higher_order(tmp_path, monkeypatch):
    """The derivative of each primitive is another primitive, without end."""

    class Power(hijax.HiPrim):
        def __init__(self, aval, n):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {"n": n}
            super().__init__()

        def expand(self, x):
            return jnp.exp(x) / self.n

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            up = Power(jax.typeof(x), self.n + 1)(x)
            return self(x), (self.n + 1) / self.n * up * t

        lin, linearized = hijax.linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    program = jaxmlir.trace(lambda x: Power(jax.typeof(x), 1)(x))(1.0)
    program.save(tmp_path / "a")
    _hide_classes(monkeypatch)
    derivative = jaxmlir.load(tmp_path / "a")
    for _ in range(6):
        np.testing.assert_allclose(derivative(1.0), np.e, rtol=1e-5)
        derivative = derivative.grad()


def test_what_expands_to_a_callback_is_saved_without(tmp_path, monkeypatch):
    class Called(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return jax.pure_callback(np.sin, x, x)

    program = jaxmlir.trace(lambda x: Called(jax.typeof(x))(x))(X)
    program.save(tmp_path / "a")
    same(jaxmlir.load(tmp_path / "a")(X), np.sin(X))
    _hide_classes(monkeypatch)
    with pytest.raises(ArtifactError, match="cannot be read"):
        jaxmlir.load(tmp_path / "a")


def test_a_class_that_is_missing_is_named_where_nothing_is_known(tmp_path, monkeypatch):
    class Opaque(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

    program = jaxmlir.trace(lambda x: Opaque(jax.typeof(x))(Opaque(jax.typeof(x))(x)))(X)
    program.save(tmp_path / "a")
    _hide_classes(monkeypatch)
    with pytest.raises(ArtifactError) as error:
        jaxmlir.load(tmp_path / "a")
    (diagnostic,) = error.value.diagnostics
    assert "'jaxpr.call_hi_primitive' op (2 in the program) cannot be read" in diagnostic.message
    assert "Opaque" in diagnostic.message and f"jax {jax.__version__}" in diagnostic.message
    assert diagnostic.file == __file__
