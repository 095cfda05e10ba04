"""Programs called inside ``jax.shard_map`` vary over the axes that their arguments vary over."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivative_checks import close
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxmlir
from jaxmlir.errors import LoweringError

pytestmark = pytest.mark.compat

W = np.float32(0.7)
ROWS = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]], np.float32)


def layer(w, x):
    """A result that does not depend on ``x``, one that does, and one that depends on nothing."""
    return 2 * w, jnp.sum(jnp.sin(w * x)), jnp.float32(3)


SHARED, SPLIT = P(), P("i")


def over_rows(local, out_specs=SHARED, in_specs=(SHARED, SPLIT)):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(local, mesh=mesh, in_specs=in_specs, out_specs=out_specs)


def mean(layer):
    def local(w, x):
        double, total, three = layer(w, x[0])
        return double * lax.pmean(total, "i") + three

    return over_rows(local)


def gradients_within(layer):
    """The gradient of an argument that all devices share is the sum of their gradients."""

    def product(w, x):
        double, total, three = layer(w, x)
        return double * total * three

    def loop(w, x):
        def body(carry, y):
            return jnp.sin(carry) + layer(w, x * y)[1], carry

        start = lax.pcast(0.0, "i", to="varying")
        return lax.scan(jax.checkpoint(body), start, jnp.arange(3.0))[0]

    def local(w, x):
        batch = jax.vmap(jax.grad(product), (0, None))(jnp.stack([w, -w]), x[0])
        derivatives = [jax.grad(f)(w, x[0]) for f in (product, jax.checkpoint(product), loop)]
        return *derivatives, lax.pmean(batch, "i")

    return over_rows(local, (P(), P(), P(), P()))


@pytest.mark.parametrize("transformed", [
    lambda layer: jax.value_and_grad(mean(layer), (0, 1)),
    lambda layer: jax.hessian(mean(layer)),
    lambda layer: lambda w, x: jax.jvp(mean(layer), (w, x), (w, x)),
    lambda layer: jax.grad(jax.checkpoint(mean(layer))),
    gradients_within,
], ids=["reverse", "second", "forward", "checkpoint", "within"])  # fmt: skip
def test_derivatives_are_those_of_the_function(transformed):
    program = jaxmlir.trace(layer)(W, ROWS[0])
    close(jax.jit(transformed(program))(W, ROWS), jax.jit(transformed(layer))(W, ROWS))


def test_a_result_that_varies_is_not_the_same_on_all_devices():
    program = jaxmlir.trace(layer)(W, ROWS[0])
    doubles, _ = over_rows(lambda w, x: program(w, x[0])[::2], (P(), P()))(W, ROWS)
    close(doubles, 2 * W)
    with pytest.raises(ValueError, match="out_specs"):
        over_rows(lambda w, x: program(w, x[0])[1])(W, ROWS)


@jax.custom_vjp
def product(w, x):
    return w * x


product.defvjp(
    lambda w, x: (product(w, x), (w, x)), lambda args, ct: (3 * jnp.sum(ct * args[1]), ct * args[0])
)


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


sine.defjvp(lambda primals, tangents: (sine(*primals), 2 * tangents[0] * jnp.cos(primals[0])))


def of_functions(w, x):
    """Ops that refer to functions of operands, functions of elements, and derivative rules."""

    def body(carry, y):
        return sine(carry) + product(w, y), carry

    carry, ys = lax.scan(body, 2 * w, x)
    chosen = lax.cond(x[0] > 0.5, jax.jit(jnp.tanh), lambda y: product(y, y), carry)
    _, halved = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] / 2), (0, x))
    last = lax.reduce(ys, np.float32(0), lambda a, b: a * b + a + b, (0,))
    placed = jnp.zeros(4).at[lax.iota(np.int32, 3)].add(w).at[1:].add(x)
    rows = jnp.arange(3 * 700, dtype=jnp.float32).reshape(700, 3) @ (w * x) / 700
    rest = lax.stop_gradient(jnp.sum(halved)) + jnp.sum(rows) / 700
    return chosen * last + jnp.dot(placed[1:], ys) + rest


def mean_of(f):
    return over_rows(lambda w, x: lax.pmean(f(w, x[0]), "i"))


def test_a_traced_call_has_types_that_vary(tmp_path):
    def expected(w, x):
        return (of_functions(w, x[0]) + of_functions(w, x[1])) / 2

    called = mean_of(jaxmlir.trace(of_functions)(W, ROWS[0]))
    program = jaxmlir.trace(called)(W, ROWS)
    program.verify()
    value, gradients = jax.jit(jax.value_and_grad(expected, (0, 1)))(W, ROWS)
    program.save(tmp_path / "called")
    for variant in (program, program.optimize(2), jaxmlir.load(tmp_path / "called")):
        variant.verify()
        close(jax.jit(variant)(W, ROWS), value)
        close(jax.jit(jax.grad(variant, (0, 1)))(W, ROWS), gradients)
    close(jaxmlir.jit(called)(W, ROWS), value)
    ws = jnp.stack([W, -W])
    close(jax.jit(jax.vmap(program, (0, None)))(ws, ROWS), jax.vmap(expected, (0, None))(ws, ROWS))
    gradient = jaxmlir.trace(jax.grad(called, (0, 1)))(W, ROWS)
    gradient.verify()
    close(jax.jit(gradient)(W, ROWS), gradients)


@pytest.mark.parametrize("optimize", [0, 2])
def test_rules_are_traced_for_values_that_vary(optimize):
    def gradients(jit):
        f = jit(lambda w, x: jnp.sum(sine(product(w, x))))
        return jax.grad(mean_of(lambda w, x: f(lax.pcast(w, "i", to="varying"), x)), (0, 1))

    jitted = functools.partial(jaxmlir.jit, optimize=optimize)
    close(jax.jit(gradients(jitted))(W, ROWS), jax.jit(gradients(jax.jit))(W, ROWS))


def test_a_call_adds_axes_to_those_of_its_trace():
    """A collective gives what is the same on all devices, and is cast; a cast has less to do."""

    def total(w, x):
        return lax.psum(w * jnp.sum(x), "i") + w

    programs = []

    def local(w, x):
        programs.append(jaxmlir.trace(total)(w, x[0]))
        return lax.pmean(programs[-1](w, x[0]), "i")

    jaxmlir.trace(over_rows(local))(W, ROWS).verify()

    def varying(f):
        return over_rows(lambda w, x: lax.pmean(f(w[0], x[0]), "i"), in_specs=(SPLIT, SPLIT))

    ws = np.stack([W, 2 * W])
    program = jaxmlir.trace(varying(programs[0]))(ws, ROWS)
    program.verify()
    close(jax.jit(program)(ws, ROWS), jax.jit(varying(total))(ws, ROWS))
    close(jax.jit(jax.grad(program))(ws, ROWS), jax.jit(jax.grad(varying(total)))(ws, ROWS))


def test_an_op_that_jax_refuses_there_is_named():
    mesh = jax.make_mesh((2, 1), ("i", "j"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def over(axis, f):
        return jax.shard_map(f, mesh=mesh, in_specs=P(axis), out_specs=P(axis), axis_names={axis})

    program = jaxmlir.trace(lambda x: 2 * over("j", jnp.sin)(x))(ROWS[:1])
    with pytest.raises(jaxmlir.errors.ImportingError, match="shard_map' op cannot .* axes 'i'"):
        jaxmlir.trace(over("i", program))(ROWS)


def test_cotangents_of_reduced_values_are_unreduced():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        xs = jax.device_put(jnp.arange(4.0), P(reduced={"i"}))

        def f(x):
            return jax.shard_map(jnp.sin, out_specs=P(reduced={"i"}))(x).sum()

        expected, found = (jax.grad(g)(xs) for g in (f, jaxmlir.trace(f)(xs)))
        assert found.sharding == expected.sharding
        for shard, like in zip(found.addressable_shards, expected.addressable_shards, strict=True):
            close(shard.data, like.data)


def test_a_batch_is_sharded_over_an_explicit_axis():
    mesh = jax.make_mesh((2, 2), ("b", "i"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        xs = jax.device_put(jnp.arange(8.0).reshape(2, 4), P("b", "i"))
        f = jax.shard_map(lambda x: jnp.sin(x), in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
        program = jaxmlir.trace(f)(jax.device_put(jnp.arange(4.0), P("i")))
        with jax.enable_checks():
            found = jax.jit(jax.vmap(program))(xs)
        expected = jax.vmap(f)(xs)
        assert found.sharding == expected.sharding
        close(found, expected)


def test_a_branch_is_chosen_by_the_elements_of_a_sharded_batch():
    def f(x, y):
        return lax.cond(x.sum() > 6, jnp.multiply, lambda x, y: y, x, y)

    with jax.set_mesh(jax.make_mesh((2,), ("b",), axis_types=(jax.sharding.AxisType.Explicit,))):
        xs, y = (
            jax.device_put(jnp.arange(8.0).reshape(2, 4), P("b")),
            jax.device_put(2 * jnp.ones(4), P()),
        )
        found, expected = (jax.jit(jax.vmap(g, (0, None)))(xs, y) for g in (jaxmlir.jit(f), f))
        assert found.sharding == expected.sharding
        close(found, expected)


@pytest.mark.compat
@pytest.mark.parametrize("axis", [0, 1])
def test_a_batch_of_a_size_to_come_is_sharded_over_an_explicit_axis(axis):
    mesh = jax.make_mesh((2,), ("b",), axis_types=(jax.sharding.AxisType.Explicit,))

    def f(x):
        return jnp.sin(x) * 2

    with jax.set_mesh(mesh):
        x = jnp.arange(16.0).reshape(4, 4)
        x = jax.device_put(x, jax.P("b", None) if axis == 0 else jax.P(None, "b"))
        program = jaxmlir.trace(f)(jnp.zeros(4))
        found, want = program.vmap(axis, axis)(x), jax.vmap(f, axis, axis)(x)
        assert jax.typeof(found) == jax.typeof(want)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_derivatives_of_arrays_on_an_explicit_axis():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(4.0), P("i"))

        def f(x):
            return jnp.sum(jnp.sin(x) * x)

        program = jaxmlir.trace(f)(x)
        for kind in ("jacfwd", "jacrev", "hessian"):
            expected, found = getattr(jax, kind)(f)(x), getattr(program, kind)()(x)
            close(found, expected)
            assert found.sharding.is_equivalent_to(expected.sharding, expected.ndim)
        (argument,) = program.lower().compile().input_shardings[0]
        assert argument.is_equivalent_to(x.sharding, x.ndim)


@pytest.mark.compat
def test_a_program_that_knows_of_no_mesh_on_a_batch_that_is_sharded():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    program = jaxmlir.trace(jnp.sin)(jnp.ones(3))
    with jax.set_mesh(mesh):
        xs = jax.device_put(jnp.arange(6.0).reshape(2, 3), P("i"))
        close(jax.vmap(program)(xs), jnp.sin(xs))


def test_a_batch_over_an_axis_that_is_named_by_itself():
    mesh = jax.make_mesh((2, 1), ("rows", "columns"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    split = jax.shard_map(
        lambda x: x * lax.psum(x, "columns"),
        mesh=mesh,
        in_specs=P("columns"),
        out_specs=P("columns"),
    )
    program = jaxmlir.trace(split)(ROWS[0])
    for name in ("rows", ("rows",)):
        batched = program.vmap(axis_size=2, spmd_axis_name=name)
        close(batched(ROWS), jax.vmap(split, spmd_axis_name=name)(ROWS))
        assert str(batched.to_jaxpr()) == str(
            program.vmap(axis_size=2, spmd_axis_name=("rows",)).to_jaxpr()
        )


def test_a_mesh_of_devices_that_are_not_here():
    """A program from a larger machine is transformed, and lowered for a machine of that size."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

    def f(w, x):
        y = lax.with_sharding_constraint(jnp.sin(w * x), jax.sharding.NamedSharding(mesh, SPLIT))
        return mean(layer)(w, y)

    program = jaxmlir.trace(f)(W, ROWS)
    text = program.as_text()
    assert 'Device = "cpu:1"' in text
    elsewhere = jaxmlir.parse(text.replace('Device = "cpu:', 'Device = "cpu:9'))
    again = elsewhere.as_text().replace('Device = "cpu:9', 'Device = "cpu:')
    assert again == text
    close(jaxmlir.parse(again).grad()(W, ROWS), jax.jit(jax.grad(f))(W, ROWS))
    for derived in (elsewhere.grad(), elsewhere.vmap(axis_size=3), elsewhere.jvp()):
        derived.verify()
        assert "manual_computation" in derived.lower(platforms=("tpu",)).as_text()


def test_lowering_what_is_sharded_over_no_mesh_is_an_error():
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.device_put(ROWS, jax.sharding.NamedSharding(mesh, SPLIT))
    program = jaxmlir.trace(lambda x: x * 2)(x)
    with pytest.raises(LoweringError, match=r"no mesh of devices is set: .* inside jax.set_mesh"):
        program.lower()
    with jax.set_mesh(mesh):
        assert program.lower().as_text()
    close(program(x), ROWS * 2)


def test_types_do_not_name_a_mesh_of_automatic_axes():
    """They would say nothing of it, and passes would take arrays on it for special ones."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(ROWS, jax.sharding.NamedSharding(mesh, SPLIT))
    program = jaxmlir.trace(lambda x: x * 2)(x)
    assert "Mesh" not in program.as_text()
    assert program.lower().compile()(ROWS).tolist() == (ROWS * 2).tolist()
    assert program(x).sharding == x.sharding
    with jax.set_mesh(mesh):
        assert program.lower().as_text()
        assert program(x).sharding == x.sharding
