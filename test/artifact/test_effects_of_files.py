"""Programs with debug callbacks, prints and run-time checks, which are dropped when saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import same
from jax.experimental import checkify, io_callback

import jaxmlir
from jaxmlir.errors import ArgumentError, ArtifactError

pytestmark = pytest.mark.compat

X = np.array([0.5, -1.0, 2.0], np.float32)


def fail(message):
    def raises(*_):
        raise RuntimeError(message)

    return raises


def checked(x, is_bad, message):
    """A run-time check like ``equinox.error_if``: an error in a branch, not differentiated."""

    @jax.custom_jvp
    def error_if(x, is_bad):
        def stop():
            out = jax.pure_callback(fail(message), jax.ShapeDtypeStruct(x.shape, x.dtype))
            return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), out)

        return jax.lax.cond(is_bad, stop, lambda: x)

    error_if.defjvp(lambda p, t: (error_if(*p), t[0]))
    return error_if(x, is_bad)


def noisy(x):
    jax.debug.print("sum {s:.1f}", s=jnp.sum(x))

    def body(carry, y):
        jax.debug.callback(lambda _: None, y)
        io_callback(lambda _: None, None, y, ordered=True)
        return carry + y, jnp.sin(y)

    total, ys = jax.lax.scan(body, jnp.float32(0), x)
    ys = checked(ys, total > 100, "too large")
    return jnp.sum(ys) * total


def plain(x):
    return jnp.sum(jnp.sin(x)) * jnp.sum(x)


@pytest.mark.parametrize("effects", ["drop", "keep-print"])
def test_what_has_effects_only_is_left_out(effects, tmp_path, capfd):
    program = jaxmlir.trace(noisy)(X)
    before = program.as_text()
    program.save(tmp_path / "a", effects=effects)
    assert program.as_text() == before
    loaded = jaxmlir.load(tmp_path / "a")
    text = loaded.as_text()
    assert "callback" not in text and "jaxpr.cond" not in text
    assert ("jaxpr.effects" in text) == ("debug_print" in text) == (effects == "keep-print")
    np.testing.assert_allclose(loaded(X), plain(X), rtol=1e-6)
    jax.effects_barrier()
    assert ("sum 1.5" in capfd.readouterr().out) == (effects == "keep-print")
    np.testing.assert_allclose(loaded.grad()(X), jax.grad(plain)(X), rtol=1e-5)
    batch = jnp.stack([X, 2 * X])
    np.testing.assert_allclose(loaded.vmap()(batch), jax.vmap(plain)(batch), rtol=1e-5)


def test_by_default_they_are_errors_that_say_what_to_do(tmp_path):
    with pytest.raises(ArtifactError) as error:
        jaxmlir.trace(noisy)(X).save(tmp_path / "a")
    diagnostics = error.value.diagnostics
    assert {d.file for d in diagnostics} == {__file__}
    assert all("effects='drop'" in d.message for d in diagnostics)
    names = {d.message.split("'")[1] for d in diagnostics}
    assert names == {"jaxpr.debug_callback", "jaxpr.io_callback", "jaxpr.pure_callback"}


def test_the_users_line_comes_first_and_the_librarys_last(tmp_path):
    source = "import jax\ndef noisy(x):\n    jax.debug.callback(print, x)\n    return x\n"
    library = str(tmp_path / "site-packages" / "noise.py")
    scope = {}
    exec(compile(source, library, "exec"), scope)

    def f(x):
        return scope["noisy"](x) + 1

    with pytest.raises(ArtifactError) as error:
        jaxmlir.trace(f)(X).save(tmp_path / "a")
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.file, diagnostic.line) == (__file__, f.__code__.co_firstlineno + 1)
    assert diagnostic.message.endswith(f"(made at {library}:3)")


def test_callbacks_with_results_stay_errors(tmp_path):
    def f(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(ArtifactError, match="compute its result with JAX"):
        jaxmlir.trace(f)(X).save(tmp_path / "a", effects="drop")


def test_checks_that_nobody_has_collected_are_left_out(tmp_path):
    def f(x):
        checkify.check(jnp.all(x < 3), "too large")
        return 2 * x

    program = jaxmlir.trace(f)(X).run_passes("jaxpr-drop-callbacks")
    assert "jaxpr.check" not in program.as_text()
    same(program(X), 2 * X)


def test_a_print_is_kept_by_the_pass_that_is_asked_to():
    program = jaxmlir.trace(noisy)(X)
    assert "debug_print" not in program.run_passes("jaxpr-drop-callbacks").as_text()
    kept = program.run_passes("jaxpr-drop-callbacks{keep-print=true}")
    assert "debug_print" in kept.as_text() and "callback" not in kept.as_text()


def test_other_effects_are_not_known(tmp_path):
    with pytest.raises(ArgumentError, match="expected one of 'error', 'drop', 'keep-print'"):
        jaxmlir.trace(plain)(X).save(tmp_path / "a", effects="print")
