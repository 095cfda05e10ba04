"""Fences: results stay the same, and values are stored that XLA would recompute for each user."""

import re

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from jax import lax

import jaxmlir
from jaxmlir._compat import jax_version
from jaxmlir.optimize.cpu.materialize_shared import in_place_updates
from jaxmlir.passes import STORAGE

pytestmark = pytest.mark.compat

FENCE = "jaxpr.optimization_barrier" if jax_version() >= (0, 11) else 'name = "fence"'


def diffusion(steps):
    def f(u):
        for _ in range(steps):
            around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
            u = u + 0.1 * (around - 4 * u) * u
        return jnp.sum(u**2)

    return f


def flops(compiled):
    return compiled.cost_analysis()["flops"]


def test_work_grows_with_the_steps_and_not_with_their_powers():
    u = np.random.RandomState(0).rand(32, 32).astype(np.float32)
    work = {}
    for steps in (2, 4):
        plain = jaxmlir.trace(diffusion(steps))(u).grad()
        fenced = plain.optimize(2)
        assert FENCE in str(fenced) and FENCE not in str(plain)
        plain, fenced = plain.lower().compile(), fenced.lower().compile()
        np.testing.assert_allclose(fenced(u), plain(u), rtol=1e-5, atol=1e-6)
        work[steps] = flops(plain), flops(fenced)
    assert work[4][1] < 3 * work[2][1]
    assert work[4][0] > 4 * work[4][1], "XLA itself computes values again for each user"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sin(x) + jnp.cos(x),
        lambda x: x @ x + x @ x.T,
        lambda x: jax.nn.gelu(x @ x).sum(),
    ],
)
def test_cheap_values_are_not_fenced(function):
    program = jaxmlir.trace(function)(jnp.ones((3, 3)))
    assert str(program.run_passes("jaxpr-materialize-shared")) == str(program)


def test_what_is_expensive_is_stored_for_a_kernel_that_asks_where_each_element_is():
    """Without the fence XLA would not vectorize the kernel."""

    def fenced(function, size):
        x = np.random.RandomState(0).rand(size, size).astype(np.float32)
        with_calls = jaxmlir.trace(function)(x)
        found = []
        for program in (with_calls, with_calls.run_passes("jaxpr-inline")):
            stored = program.run_passes("jaxpr-materialize-shared")
            np.testing.assert_allclose(stored(x), jax.jit(function)(x), rtol=1e-5, atol=1e-5)
            found.append(str(stored).count(FENCE))
        assert found[0] == found[1]
        return found[0]

    def moved(x):
        return jnp.roll(x, 1, 0) + jnp.pad(x[:, 1:], ((0, 0), (0, 1)))

    def expensive(x):
        return jnp.cos(x) + moved(x)

    assert fenced(expensive, 64) == 1
    assert fenced(lambda x: jnp.cos(x) + jnp.roll(x, 1, 0) + jnp.roll(x, 1, 1), 64) == 1
    assert fenced(lambda x: x * x + moved(x), 64) == 0
    assert fenced(lambda x: jnp.cos(x) + jnp.roll(x, 1, 0), 64) == 0, "one question is cheap"
    assert fenced(expensive, 8) == 0, "so few elements are"
    assert fenced(lambda x: jnp.cos(moved(x)) + moved(x), 64) == 2, "before it and after it"
    assert fenced(lambda x: jnp.tanh(moved(x)) + moved(x), 64) == 0, "nor would it be alone"


def test_what_a_larger_op_reads_again_and_again_is_fenced():
    """Forces between points: three coordinates read the power of each pair's distance."""

    def forces(x):
        d = x[None] - x[:, None]
        return (d * (jnp.sum(d**2, -1, keepdims=True) + 0.1) ** -1.5).sum(1)

    def fenced(points):
        x = np.random.RandomState(0).rand(points, 3).astype(np.float32)
        plain = jaxmlir.trace(forces)(x).run_passes(
            "jaxpr-canonicalize,jaxpr-unroll-reductions{calls=inf}"
        )
        program = plain.run_passes("jaxpr-materialize-shared")
        np.testing.assert_allclose(program(x), jax.jit(forces)(x), rtol=1e-5, atol=1e-5)
        return str(program).count(FENCE)

    assert (fenced(64), fenced(8)) == (1, 0)


def test_numbers_are_computed_again():
    """Neither a scalar factor of an array nor a scalar that depends on many others is fenced."""

    def likelihood(x, a):
        scaled = jnp.cos(a) * jnp.sin(2 * a) * x
        return scaled + jnp.roll(scaled, 1), jnp.sum(scaled**2)

    def recurrence(x, a):
        b = x[0]
        for _ in range(6):
            a, b = a + 0.1 * (b - a * a), b + 0.1 * (a * b - b)
        return jnp.sin(a) * b + a, jnp.cos(b)

    args = np.linspace(0, 1, 2000, dtype=np.float32), jnp.float32(0.5)
    for function in (likelihood, recurrence):
        program = jaxmlir.trace(function)(*args)
        assert FENCE not in str(program.run_passes("jaxpr-materialize-shared"))


@pytest.mark.parametrize(
    ("function", "dtype"), [(jnp.arccos, "float32"), (jnp.log, "complex64"), (jnp.exp, "float32")]
)
def test_functions_that_become_polynomials_are_stored(function, dtype):
    """XLA would compute the polynomial in each kernel; a fast function is left to XLA."""

    def shared(x):
        y = function(x)
        return 2 * y, jnp.sum(y.reshape(-1, 50), 0), y.reshape(-1, 50).T + 1

    program = jaxmlir.trace(shared)(jnp.linspace(0, 1, 2000).astype(dtype))
    fenced = FENCE in str(program.run_passes("jaxpr-materialize-shared"))
    assert fenced == (function is not jnp.exp)


def test_a_slow_function_of_few_numbers_is_stored_as_it_is():
    """XLA does not recompute the function for each element that it is multiplied by."""

    def encoding(x, octaves):
        phases = x[:, None] * (1 + octaves) ** 1.3
        return jnp.sin(phases) + jnp.roll(phases, 1), jnp.cos(phases)

    args = np.linspace(0, 1, 2000, dtype=np.float32), np.arange(6, dtype=np.float32)
    program = jaxmlir.trace(encoding)(*args)
    assert FENCE not in str(program.run_passes("jaxpr-materialize-shared"))
    text = jax.jit(encoding).lower(*args).compile().as_text()
    powers = [line for line in text.splitlines() if " power(" in line]
    assert powers and all("f32[6]{0} power(" in line for line in powers)


def test_slices_that_share_no_element_are_one_user():
    """Each element is computed for one slice only; overlapping slices would compute it twice."""

    def fences(end, start):
        def function(x):
            y = jnp.sin(x)
            return jnp.tanh(y[:end]), jnp.exp(y[start:])

        program = jaxmlir.trace(function)(jnp.ones(4096))
        return str(program.run_passes("jaxpr-materialize-shared")).count(FENCE)

    assert fences(2048, 2048) == 0
    assert fences(4095, 1) == 1


@pytest.mark.parametrize("pieces", [jnp.split, lambda x, n, axis: jnp.unstack(x[None], axis=1)])
def test_pieces_are_computed_by_the_kernels_that_read_them(pieces):
    """Each part of a cosine is computed once for each of the products that are joined."""

    def function(x):
        a, b = pieces(jnp.cos(x), 2, axis=0)
        return jnp.concatenate([a * b, a - b])

    x = np.random.RandomState(0).rand(2, 3000).astype(np.float32)
    program = jaxmlir.trace(function)(x).run_passes("jaxpr-inline,jaxpr-canonicalize")
    stored = program.run_passes("jaxpr-materialize-shared")
    assert FENCE in str(stored)
    np.testing.assert_allclose(stored(x), jax.jit(function)(x), rtol=1e-6)


def _repeated(x):
    return jnp.stack([x] * 5)


@jax.custom_jvp
def _own_rule(x):
    return _repeated(x)


_own_rule.defjvp(lambda primals, tangents: (_own_rule(*primals), _repeated(*tangents)))


def _spreads_what_it_joins(program):
    """Whether one kernel both concatenates and broadcasts."""
    functions = program.lower().compile().as_text().split("\n}")
    kernels = [function for function in functions if "ENTRY" not in function]
    return any("f32[5,4096]" in k and re.search(r"f32\[4096\]\S* concatenate", k) for k in kernels)


@pytest.mark.parametrize(
    ("function", "fences"),
    [
        (lambda a, b: jnp.broadcast_to(jnp.concatenate([a, b]), (5, 4096)), 1),
        (lambda a, b: _repeated(jnp.concatenate([a, b])), 1),
        (lambda a, b: jax.jit(_repeated)(jnp.concatenate([a, b])), 1),
        (lambda a, b: _own_rule(jnp.concatenate([a, b])), 1),
        (lambda a, b: _repeated(2 * jax.jit(lambda *x: jnp.concatenate(x))(a, b)), 1),
        (
            lambda a, b: (jnp.exp(jnp.concatenate([a, b])), jnp.sin(jnp.concatenate([b, a])[::-1])),
            0,
        ),
        (lambda a, b: jnp.broadcast_to(jnp.concatenate([a[:9], b[:9]]), (5, 18)), 0),
        (lambda a, b: _repeated(a + b), 0),
    ],
)
def test_arrays_beside_one_another_are_joined_before_they_are_spread(function, fences):
    """XLA would otherwise find the concatenate's operand for each element of the larger array."""
    a, b = np.random.RandomState(0).rand(2, 2048).astype(np.float32)
    program = jaxmlir.trace(function)(a, b).run_passes("jaxpr-cse,jaxpr-materialize-shared")
    assert str(program).count(FENCE) == fences
    jax.tree.map(np.testing.assert_array_equal, program(a, b), jax.jit(function)(a, b))
    if fences:
        assert not _spreads_what_it_joins(program)
        assert _spreads_what_it_joins(jaxmlir.trace(function)(a, b).run_passes("jaxpr-cse"))


def test_calls_with_rules_of_their_own_are_no_fences():
    """XLA recomputes the results of such functions for each user, like other values."""

    def positive(x):
        return jnp.maximum(x, 0)

    by_jvp = jax.custom_jvp(positive)
    by_jvp.defjvps(lambda t, y, x: t * (x > 0))
    by_vjp = jax.custom_vjp(positive)
    by_vjp.defvjp(lambda x: (positive(x), x), lambda x, ct: (ct * (x > 0),))

    def fences(call):
        def function(x):
            y = call(jnp.sin(x))
            return jnp.cumsum(y), y[::-1] @ y

        program = jaxmlir.trace(function)(np.linspace(0, 1, 2000, dtype=np.float32))
        return str(program.run_passes("jaxpr-materialize-shared")).count(FENCE)

    assert [fences(call) for call in (by_jvp, by_vjp, jax.jit(positive))] == [1, 1, 1]


def test_sines_of_few_numbers_are_stored():
    """XLA would recompute the sines for each row that they are multiplied by."""

    def modulated(x, frequencies):
        return x * jnp.sin(frequencies)

    x, frequencies = np.ones((100, 50), np.float32), np.arange(50, dtype=np.float32)
    program = jaxmlir.trace(modulated)(x, frequencies).run_passes("jaxpr-materialize-shared")
    assert str(program).count(FENCE) == 1
    np.testing.assert_array_equal(program(x, frequencies), jax.jit(modulated)(x, frequencies))
    small = jaxmlir.trace(modulated)(x[:20], frequencies).run_passes("jaxpr-materialize-shared")
    assert FENCE not in str(small)


def test_other_platforms_get_no_fences():
    program = jaxmlir.trace(diffusion(3))(jnp.ones((64, 64)))
    assert str(program.run_passes("jaxpr-materialize-shared", target="cuda")) == str(program)
    assert FENCE in str(program.run_passes("jaxpr-materialize-shared"))


def test_a_called_function_costs_what_its_results_cost():
    step = jax.jit(lambda u: u + 0.1 * (jnp.roll(u, 1) - u) * (jnp.roll(u, -1) - u))

    def f(u):
        for _ in range(4):
            u = step(u)
        return u

    assert FENCE in str(jaxmlir.trace(f)(jnp.ones(8)).run_passes("jaxpr-materialize-shared"))


def test_special_values_pass():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], np.float32)

    def f(x):
        y = x * x + x - x * 3 + x
        return y + jnp.roll(y, 1), y * 2

    program = jaxmlir.trace(f)(x)
    fenced = program.run_passes("jaxpr-materialize-shared{threshold=0}")
    assert FENCE in str(fenced)
    # The sign of a NaN depends on the machine code, so compile as for users.
    options = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
    plain, fenced = (p.lower().compile(compiler_options=options) for p in (program, fenced))
    for a, b in zip(plain(x), fenced(x), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@random_programs.budget
@hypothesis.given(steps=random_programs.programs)
def test_random_programs(steps):
    x, y = np.float32([0.3, -0.8, 1.1]), np.float32([0.7, 0.2, -0.5])
    program = jaxmlir.trace(lambda x, y: random_programs.run(steps, x, y))(x, y)
    fenced = program.run_passes("jaxpr-materialize-shared{threshold=1}")
    np.testing.assert_allclose(fenced(x, y), program(x, y), rtol=1e-5, atol=1e-5)
    # A fenced program is transformed like any other.
    got, want = (jax.grad(lambda x, p=p: jnp.sum(p(x, y)))(x) for p in (fenced, program))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_one_array_in_two_shapes_is_fenced_once():
    """XLA gives both shapes one buffer, and would write to it while it reads."""

    @jax.jit
    def blend(rolled, u):
        u = 0.5 * rolled.reshape(u.shape) + u
        return u, u.reshape(-1)

    def f(u, t):
        flat, flat_t = u.reshape(-1), t.reshape(-1)
        for i in range(1, 17):
            u, flat = blend(jnp.roll(flat, i), u)
            t, flat_t = blend(jnp.roll(flat_t, i), t)
        return u, t

    u = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
    t = np.cos(u)
    program = jaxmlir.trace(f)(u, t)
    fenced = program.run_passes("jaxpr-materialize-shared{threshold=1}")
    fenced.verify()
    for got, known in zip(jax.jit(lambda u: fenced(u, t))(u), f(u, t), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-5)


@pytest.mark.parametrize("blocks", [False, True])
def test_what_the_steps_store_is_kept_until_it_is_added_up(blocks):
    """The gradient of an argument that all steps share is a sum over the steps, which XLA computes
    last, here from a sine, a cosine, a residual and a slope of each step.  The steps' derivatives
    are functions that add to the sum or, if blocks were found before, whose results are added."""
    steps = 12

    def f(eccentricity, anomaly):
        x = anomaly
        for _ in range(steps):
            residual = x - eccentricity * jnp.sin(x) - anomaly
            x = x - residual / (1 - eccentricity * jnp.cos(x))
        return jnp.mean(jnp.cos(x) ** 2)

    rng = np.random.RandomState(0)
    args = rng.rand(4096).astype(np.float32) / 2, rng.rand(4096).astype(np.float32) * 6
    program = jaxmlir.trace(f)(*args)
    if blocks:
        program = program.optimize(2, without=STORAGE)
    compiled = program.grad().optimize(2).lower().compile()
    np.testing.assert_allclose(compiled(*args), jax.jit(jax.grad(f))(*args), rtol=1e-3, atol=1e-8)
    arrays = compiled.memory_analysis().temp_size_in_bytes / args[0].nbytes
    assert arrays <= 4 * steps + 4


def test_an_array_that_is_added_many_times_is_read_once():
    x = jnp.ones(4096)

    def f(x, y):
        return sum(i * x + jnp.roll(y, i) for i in range(20))

    program = jaxmlir.trace(f)(x, x)
    assert FENCE not in str(program.run_passes("jaxpr-materialize-shared"))


def centred(x, m, w):
    """The summed values read a difference that is computed for other ops as well."""
    difference = x[:, None] - m
    weighted = jnp.tanh(w[..., None] * difference)
    return weighted, jnp.sum(weighted * difference, 0), jnp.sum(weighted**2, 0)


def shared_by_sums(x, m, w):
    difference = x[:, None] - m
    return jnp.sum(difference**2, 0), jnp.max(difference * w[..., None], 0), difference * 2


def rows(points):
    rng = np.random.RandomState(1)
    shapes = (points, 8), (64, 8), (points, 64)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in shapes)


@pytest.mark.parametrize("function, fences", [(centred, 1), (shared_by_sums, 0)])
def test_what_is_summed_is_stored_rather_than_what_others_compute_again(function, fences):
    args = rows(512)
    program = jaxmlir.trace(function)(*args).optimize(1)
    remarks = []
    fenced = program.run_passes("jaxpr-materialize-shared", remarks=remarks.append)
    fenced.verify()
    assert ["for the sum that reads it" in r.message for r in remarks] == [True] * fences
    for got, want in zip(fenced(*args), jax.jit(function)(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    # With fewer points, both arrays stay in cache.
    few = jaxmlir.trace(function)(*rows(64)).optimize(1)
    assert str(few.run_passes("jaxpr-materialize-shared")) == str(few)


def test_a_sum_takes_the_memory_of_what_is_summed_and_of_nothing_else():
    """The moments of points about centres: the cotangents are an array of points, centres and
    coordinates, and so are the values that are summed for the centres."""
    x, m, w = rows(2048)

    def f(m):
        return jnp.sum(jax.nn.logsumexp(-0.5 * jnp.sum((x[:, None] - m) ** 2, -1), -1))

    compiled = jaxmlir.trace(f)(m).grad().optimize(2, without=["jaxpr-tile"]).lower().compile()
    np.testing.assert_allclose(compiled(m), jax.jit(jax.grad(f))(m), rtol=1e-3, atol=1e-3)
    assert compiled.memory_analysis().temp_size_in_bytes < 2.5 * x.nbytes * len(m)


def pairs_in_a_scan(rows, weights):
    def step(sums, row):
        return sums + weights * jnp.tanh(row[:, None] - row), None

    return lax.scan(step, weights, rows)[0]


def pairs_in_a_loop(rows, weights):
    def step(i, sums):
        return sums + weights * jnp.tanh(rows[i][:, None] - 2 * rows[i])

    return lax.fori_loop(0, rows.shape[0], step, weights)


def one_arrangement(rows, weights):
    def step(sums, row):
        return sums + weights * jnp.tanh(row[:, None] - sums[0]), None

    return lax.scan(step, weights, rows)[0]


@pytest.mark.parametrize(
    "function, columns, fences",
    [
        (pairs_in_a_scan, 64, 1),
        (pairs_in_a_loop, 64, 1),
        (pairs_in_a_scan, 16, 0),  # so few are quick enough
        (one_arrangement, 64, 0),
        (pairs_in_a_scan, 0, 0),
    ],
)
def test_a_slice_that_is_read_in_two_arrangements_is_stored(function, columns, fences):
    rng = np.random.RandomState(0)
    rows, weights = (rng.rand(n, columns).astype(np.float32) for n in (5, columns))
    weights = weights.reshape(columns, columns)
    remarks = []
    program = jaxmlir.trace(function)(rows, weights).optimize(1)
    fenced = program.run_passes("jaxpr-materialize-shared", remarks=remarks.append)
    fenced.verify()
    assert ["reads it with two index maps" in r.message for r in remarks] == [True] * fences
    want = jax.jit(function)(rows, weights)
    np.testing.assert_allclose(fenced(rows, weights), want, rtol=1e-5)


def filled(step):
    """A function that fills rows of an array in place, from a row known only at run time."""

    def f(x, start):
        return jnp.sum(lax.fori_loop(2, 34, lambda i, y: step(y, start + i), x) ** 2)

    return f


IN_PLACE = {
    "the row before": lambda y, i: y.at[i].set(jnp.tanh(y[i - 1])),
    "two rows before": lambda y, i: y.at[i].set(0.5 * y[i - 1] + 0.3 * y[i - 2]),
    "rows around": lambda y, i: y.at[i].set(
        jnp.tanh(y[i] + 0.1 * (y[i - 1] - 2 * y[i] + y[i + 1]))
    ),
    "a window": lambda y, i: lax.dynamic_update_slice(
        y, jnp.sin(lax.dynamic_slice(y, (i - 1, 0), (2, 50))), (i, 0)
    ),
}
BEFORE = "ordered after the other reads"


def fenced_and_remarks(program):
    remarks = []
    fenced = program.run_passes("jaxpr-materialize-shared", remarks=remarks.append)
    fenced.verify()
    return fenced, sum(BEFORE in r.message for r in remarks)


def copies_in_loops(compiled):
    """Counts copies of the array outside of the entry computation; XLA never fuses a copy."""
    in_loops, _ = re.split(r"^ENTRY", compiled.as_text(), flags=re.MULTILINE)
    return len(re.findall(r"f32\[200,50\]\S* copy\(", in_loops))


@pytest.mark.parametrize("name", IN_PLACE)
def test_the_derivative_of_a_loop_that_writes_in_place_copies_nothing(name):
    f, x = filled(IN_PLACE[name]), np.linspace(0, 1, 10_000, dtype=np.float32).reshape(200, 50)
    gradient, count = fenced_and_remarks(jaxmlir.trace(f)(x, 3).grad().optimize(1))
    assert count > 0
    ours = gradient.lower().compile()
    jaxs = jax.jit(jax.grad(f)).lower(x, 3).compile()
    assert copies_in_loops(jaxs) > 0, "JAX keeps a copy of the array in each step"
    assert copies_in_loops(ours) == 0
    np.testing.assert_allclose(ours(x, 3), jaxs(x, 3), rtol=1e-5, atol=1e-6)
    assert fenced_and_remarks(gradient)[1] == 0


def whole_as_well(y, i):
    return y.at[i].set(y[i - 1] + jnp.sum(y))


def test_loops_of_few_elements_wait_for_nothing():
    x = np.linspace(0, 1, 2500, dtype=np.float32).reshape(50, 50)
    program = jaxmlir.trace(filled(IN_PLACE["the row before"]))(x, 3).grad().optimize(1)
    assert fenced_and_remarks(program)[1] == 0


def test_what_is_read_as_a_whole_is_copied_anyway():
    def f(y, i):
        y = y.at[i].set(y[i - 1])
        return y.at[i + 1].set(y[i]) + y

    x = np.linspace(0, 1, 10_000, dtype=np.float32).reshape(200, 50)
    program = jaxmlir.trace(filled(f))(x, 3).optimize(1)
    assert fenced_and_remarks(program)[1] == 0


def test_what_is_read_for_the_write_alone_is_read_before():
    x = np.linspace(0, 1, 10_000, dtype=np.float32).reshape(200, 50)
    program = jaxmlir.trace(filled(IN_PLACE["rows around"]))(x, 3).optimize(1)
    assert fenced_and_remarks(program)[1] == 0


@pytest.mark.parametrize("late", [False, True])
def test_what_is_read_where_another_row_says(late):
    def f(x, start):
        def body(y, i):
            row = y[start + i]
            place = 1 + row[0].astype(int)
            new = y.at[start + i].set(0.0)
            other = y[place]
            return new if late else y.at[start + i].set(jnp.sin(other)), jnp.cos(other) * row

        y, rows = lax.scan(body, x, jnp.arange(5))
        return jnp.sum(y) + jnp.sum(rows)

    x = np.linspace(0, 9, 10_000, dtype=np.float32).reshape(200, 50)
    program = jaxmlir.trace(f)(x, 3)
    for plain, jaxs in ((program, f), (program.grad(), jax.grad(f))):
        fenced, _ = fenced_and_remarks(plain.optimize(1))
        np.testing.assert_allclose(fenced(x, 3), jax.jit(jaxs)(x, 3), rtol=1e-5)


@pytest.mark.parametrize(
    "function, fences",
    [
        (lambda x, y: (x[:, :, None] * y[:, None]).reshape(len(x), -1) @ jnp.ones((64, 2)), 1),
        (lambda x, y: (x[:, :, None] * y[:, None]).reshape(-1, 8) @ jnp.ones((8, 2)), 1),
        (lambda x, y: jnp.zeros(8).at[jnp.arange(1024).reshape(-1, 8) % 8].add(x * y[:, :1]), 1),
        (lambda x, y: jnp.zeros((8, 8)).at[jnp.arange(128) % 8].add(x * y[:, :1]), 0),
        (lambda x, y: jnp.max((x[:, :1] - y) * x + (x - y) * y + (x + y) * x, 0), 1),
        (lambda x, y: jnp.max((x[:, :1] - y) * x, 0), 0),
        (lambda x, y: (x * y[:, :1]).reshape(16, 8, 8) @ jnp.ones((8, 2)), 0),
        (lambda x, y: (x[:0, :, None] * y[:0, None]).reshape(-1), 0),
    ],
)
def test_what_would_be_computed_element_by_element_is_stored(function, fences):
    x, y = np.random.RandomState(0).rand(2, 128, 8).astype(np.float32)
    program, _ = fenced_and_remarks(jaxmlir.trace(function)(x, y).optimize(1))
    assert str(program).count(FENCE) == fences
    np.testing.assert_allclose(program(x, y), jax.jit(function)(x, y), rtol=1e-5)


def test_a_stored_array_is_merged_before_an_elementwise_kernel_reads_it():
    x, y = np.ones((16, 8, 8), np.float32), np.ones((16, 64), np.float32)
    program, _ = fenced_and_remarks(jaxmlir.trace(lambda x, y: x.reshape(16, 64) * y)(x, y))
    assert str(program).count(FENCE) == (jax_version() >= (0, 11))


OFFSETS = hypothesis.strategies.integers(0, 3)
STEPS = hypothesis.strategies.lists(
    hypothesis.strategies.tuples(
        OFFSETS,  # of the row that is read
        OFFSETS,  # of the row that is written
        hypothesis.strategies.sampled_from(["set", "add", "window", "nothing"]),
        hypothesis.strategies.booleans(),  # whether the row that is read is a result as well
        hypothesis.strategies.booleans(),  # whether what is written is computed from it
        hypothesis.strategies.booleans(),  # whether it is a row of the other array, as it was
    ),
    min_size=1,
    max_size=4,
)
SWAP = (0, 0, "set", False, True, True)


@random_programs.budget
@hypothesis.example(steps=[SWAP, SWAP])
@hypothesis.given(steps=STEPS)
def test_random_loops_that_write_in_place(steps):
    def f(x, start):
        def body(begun, i):
            total, arrays = jnp.zeros(4), [*begun]
            for k, (read, write, how, is_result, is_source, crosses) in enumerate(steps):
                to = k % 2 if crosses else 0
                row = (begun[1 - to] if crosses else arrays[0])[start + i + read]
                new = jnp.sin(row) if is_source else jnp.cos(total)
                place = start + i + write
                if how == "window":
                    arrays[to] = lax.dynamic_update_slice(arrays[to], new[None], (place, 0))
                elif how != "nothing":
                    arrays[to] = getattr(arrays[to].at[place], how)(new)
                if is_result:
                    total = total + jnp.tanh(row)
            return arrays, total

        (y, z), totals = lax.scan(body, [x, x[::-1]], jnp.arange(5))
        return jnp.sum(y**2) + jnp.sum(z**2) + jnp.sum(totals)

    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(12, 4)
    program = jaxmlir.trace(f)(x, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_place_updates, "MIN_ELEMENTS", 1)
        patch.setattr(in_place_updates, "MIN_RATIO", 1)
        value, _ = fenced_and_remarks(program.optimize(1))
        gradient, _ = fenced_and_remarks(program.grad().optimize(1))
    np.testing.assert_allclose(value(x, 1), jax.jit(f)(x, 1), rtol=1e-5)
    np.testing.assert_allclose(gradient(x, 1), jax.jit(jax.grad(f))(x, 1), rtol=1e-4, atol=1e-5)
