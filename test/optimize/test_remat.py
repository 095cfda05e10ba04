"""Rematerialisation: the same derivative from less memory."""

import collections
import functools
import itertools
import math
import random
import time

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_programs
from hypothesis import strategies as st
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

import jaxmlir
from benchmarks.programs import PROGRAMS
from jaxmlir.dialect.ir import scope
from jaxmlir.optimize.memory.price import Prices
from jaxmlir.optimize.memory.remat import Remat
from jaxmlir.optimize.memory.remat.choice import FlowNetwork, choose
from jaxmlir.optimize.memory.remat.joint import JointBody, LoopPair, counted_loops, segments
from jaxmlir.passes.pipeline import run_pass
from jaxmlir.transforms.templates import Rules

WEIGHTS = np.asarray(np.random.RandomState(0).randn(32, 32) / 6, np.float32)
STATE = np.asarray(np.random.RandomState(1).randn(16, 32), np.float32)


def recurrent(length, reverse=False, body=lambda x, w: jnp.sin(jnp.tanh(x @ w) ** 2) + x):
    """A loop over a state, whose derivative reads several values of each iteration."""

    def f(w, x):
        return lax.scan(lambda x, _: (body(x, w), None), x, None, length, reverse=reverse)[0].sum()

    return f


def outputs(w, x):
    """Values of each iteration are results as well."""
    _, ys = lax.scan(lambda x, y: (jnp.tanh(x @ w) * y, jnp.sin(x)), x, jnp.ones((7, 32)))
    return jnp.sum(ys**2)


def nested(w, x):
    """A loop in a loop."""

    def outer(x, y):
        inner = lax.scan(lambda x, _: (jnp.sin(x @ w) * y, jnp.cos(x)), x, None, length=5)
        return jnp.tanh(inner[0]), inner[1].sum()

    x, ys = lax.scan(outer, x, jnp.linspace(0, 1, 6))
    return jnp.sum(x * x) + ys.sum()


def stacked_layers(w, x):
    """A loop over the stacked results of another loop."""
    _, ys = lax.scan(lambda h, y: (jnp.tanh(h @ w + y),) * 2, x, jnp.ones((6, 32)))
    h, _ = lax.scan(lambda h, y: (jnp.tanh(h @ w.T + jnp.sin(y)), None), x, ys)
    return jnp.sum(h**2)


def branching(w, x):
    def body(x, i):
        return lax.cond(i > 2, lambda x: jnp.sin(x @ w), lambda x: jnp.cos(x) * x, x), None

    return lax.scan(body, x, jnp.arange(6))[0].sum()


def sums(w, x):
    """A loop whose residuals are all recomputed by the backward loop, so that it disappears."""
    return lax.scan(lambda s, row: (s + jnp.sum(jnp.sin(row @ w) ** 2), None), 0.0, x)[0]


def calls(w, x):
    """A body that calls a function twice, which is too large to be inlined."""

    @jax.jit
    def cell(x):
        y = jnp.tanh(x @ w)
        return jnp.sin(y) * jnp.cos(y) + jnp.exp(-x * x) / (1.0 + y * y)

    return lax.scan(lambda x, _: (cell(x + cell(x)), None), x, None, 5)[0].sum()


FUNCTIONS = {
    "calls": calls,
    "sums": sums,
    "recurrent": recurrent(12),
    "reverse": recurrent(13, reverse=True),
    "outputs": outputs,
    "nested": nested,
    "stacked": stacked_layers,
    "branching": branching,
}


def gradients(f, args):
    """The gradient as two programs: differentiated in the dialect, and by JAX."""
    return (
        jaxmlir.trace(f)(*args).grad().optimize(1),
        jaxmlir.trace(jax.grad(f))(*args).optimize(1),
    )


def temp_bytes(program):
    return program.lower().compile().memory_analysis().temp_size_in_bytes


def assert_close(got, want):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), got, want)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("budget", [None, 1e-9])
def test_derivatives_stay_what_they_are(name, budget):
    f, args = FUNCTIONS[name], (WEIGHTS, STATE)
    want = jax.jit(jax.grad(f))(*args)
    for program in gradients(f, args):
        assert_close(program.remat(budget)(*args), want)


def test_what_is_compared_with_its_maximum_is_not_computed_again():
    """Another kernel might round it in another way: then no element would be the maximum."""

    def body(x, w):
        y = x / (jnp.sum(x * x) + 1) * w[0] + x * w[1]
        return jnp.sin(x * jnp.max(y) + y)

    f, args = recurrent(12, body=body), (WEIGHTS, STATE)
    want = jax.jit(jax.grad(f))(*args)
    for program in gradients(f, args):
        assert_close(program.remat()(*args), want)


@pytest.mark.compat
def test_pairs_of_loops_that_are_alike_share_their_bodies():
    def f(w, x):
        for _ in range(4):
            x, ys = lax.scan(lambda x, _: (jnp.sin(jnp.tanh(x @ w) ** 2),) * 2, x, None, 12)
        # Other ops also read the stacked results of the last loop.
        return jnp.sum(ys * x)

    def loops_of_each_body(program):
        scans = counted_loops(program.function(program.name))
        return sorted(collections.Counter(loop.scan.body for loop in scans).values())

    args = (WEIGHTS, STATE)
    program = jaxmlir.trace(f)(*args).grad().optimize(1)
    less = program.remat()
    assert str(less) != str(program)
    with scope():
        assert loops_of_each_body(less) == loops_of_each_body(program) == [1, 1, 3, 3]
    assert_close(less(*args), jax.jit(jax.grad(f))(*args))


@pytest.mark.compat
@pytest.mark.parametrize("reverse", [False, True])
def test_pairs_of_loops_whose_bodies_differ_in_constants(reverse):
    def f(w, x):
        for rate in (0.5, 0.25, 2.0, 1.5):

            def step(x, scale, rate=rate):
                return jnp.sin(jnp.tanh(x @ w * rate) ** 2) * scale - (1 - rate) * x, None

            x, _ = lax.scan(step, x, jnp.linspace(0.5, 1.0, 12), reverse=reverse)
        return jnp.sum(x)

    args = (WEIGHTS, STATE)
    program = jaxmlir.trace(f)(*args).grad().optimize(1)
    less = program.remat()
    less.verify()
    assert str(less) != str(program)
    assert_close(less(*args), jax.jit(jax.grad(f))(*args))


@pytest.mark.parametrize("name", ["lstm_scan", "n_body", "kalman_filter"])
def test_benchmark_programs(name):
    f, args = PROGRAMS[name].make("small")
    program = jaxmlir.trace(f)(*args).grad()
    less = program.remat()
    assert str(less) != str(program)
    assert_close(less(*args), jax.jit(jax.grad(f))(*args))


@pytest.mark.compat
def test_jit_stores_less():
    f, args = FUNCTIONS["recurrent"], (WEIGHTS, STATE)
    gradient = jax.grad(f)
    compiled = [
        jit(gradient).lower(*args).compile()
        for jit in (jax.jit, functools.partial(jaxmlir.jit, optimize=2))
    ]
    temps = [c.memory_analysis().temp_size_in_bytes for c in compiled]
    assert temps[1] < 0.6 * temps[0]
    assert_close(compiled[1](*args), compiled[0](*args))


def test_the_price_of_a_stack_is_that_of_a_concatenation():
    def price(join):
        program = jaxmlir.trace(lambda x, y: join([x, y]))(STATE, STATE)
        return Prices(program).function(program.name)

    assert price(jnp.stack) == price(jnp.concatenate) > STATE.size / 2


@pytest.mark.compat
def test_neighbours_are_shifted_again():
    """A shift is only two copies: the states of a wave are stored, but not shifts and slopes."""

    def wave(x):
        def step(_, x):
            slopes = (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1)
            return x + 0.1 * jnp.tanh(slopes * x)

        return jnp.sum(lax.fori_loop(0, 40, step, x) ** 2)

    x = np.cos(np.linspace(0, 9, 20_000, dtype=np.float32))
    before = jaxmlir.trace(wave)(x).optimize(1).grad().optimize(1)
    after = before.run_passes("jaxpr-remat{calls=inf}")
    states = 40 * x.nbytes
    assert temp_bytes(before) > 2.5 * states
    assert temp_bytes(after) < 1.2 * states
    assert_close(after(x), jax.grad(wave)(x))


@pytest.mark.compat
@pytest.mark.parametrize("shape", [(16, 32, 1, 64), (16, 32, 64)])
def test_slices_of_an_argument_are_not_stored(shape):
    """A reshaped argument is still the argument, which is in memory anyway."""
    x = np.asarray(np.random.RandomState(4).randn(512, 64), np.float32)
    w = np.asarray(np.random.RandomState(5).randn(64, 8) / 8, np.float32)

    def f(w, x):
        def step(total, rows):
            return total + jnp.sum(jnp.tanh(rows.reshape(32, 64) @ w) ** 2), None

        return lax.scan(step, jnp.zeros(()), x.reshape(shape))[0]

    before = jaxmlir.trace(f)(w, x).optimize(1).grad().optimize(1)
    after = before.run_passes("jaxpr-remat{calls=inf}")
    assert after.as_text().count('"jaxpr.scan"') == 1, "the first loop has nothing left to do"
    assert temp_bytes(after) < temp_bytes(before)
    assert_close(after(w, x), jax.grad(f)(w, x))


@pytest.mark.parametrize(
    ("rows", "size", "length", "products"), [(1, 64, 5000, 2), (16, 64, 5000, 3), (16, 128, 9, 2)]
)
def test_the_price_of_a_product(rows, size, length, products):
    """A product of a matrix with one vector takes as long as with four, so its result is stored.
    So is a result that takes long to recompute and needs little memory."""

    def loss(w, h):
        return jnp.sum(lax.scan(lambda h, _: (jnp.tanh(h @ w), None), h, None, length=length)[0])

    args = np.zeros((size, size), np.float32), np.zeros((rows, size), np.float32)
    gradient = jaxmlir.trace(loss)(*args).optimize(1).grad().optimize(1)
    program = gradient.run_passes("jaxpr-remat{calls=inf}")
    (backward,) = (f for name, f in program.functions.items() if "bwd" in name)
    # The products are those of the cotangents of w and of h, and maybe one of the forward loop.
    assert str(backward).count('"jaxpr.dot_general"') == products


@pytest.mark.compat
def test_the_result_is_transformed_like_any_program(tmp_path):
    """The result is saved and loaded, batched, and differentiated again."""
    f, args = FUNCTIONS["outputs"], (WEIGHTS, STATE)
    jaxmlir.trace(f)(*args).grad().remat(0.3).save(tmp_path / "less.jaxmlir")
    less = jaxmlir.load(tmp_path / "less.jaxmlir")
    rows = np.stack([STATE, -0.5 * STATE])
    want = jax.jit(jax.vmap(jax.grad(f), (None, 0)))(WEIGHTS, rows)
    assert_close(less.vmap(in_axes=(None, 0))(WEIGHTS, rows), want)
    along = jax.jit(lambda w, x: jax.jvp(lambda x: jax.grad(f)(w, x), (x,), (x,))[1])(*args)
    assert_close(jax.jvp(lambda x: less(WEIGHTS, x), (STATE,), (STATE,))[1], along)


@pytest.mark.compat
@hypothesis.given(random_programs.programs, st.sampled_from(["none", "0.000001"]))
@random_programs.budget
def test_random_programs(steps, budget):
    def f(x, y):
        return random_programs.run(steps, x, y).sum()

    x, y = jnp.array([0.3, -0.8, 0.5]), jnp.array([0.9, 0.1, -0.4])
    want = jax.jit(jax.grad(f))(x, y)
    program = jaxmlir.trace(f)(x, y).grad().run_passes("jaxpr-inline")
    assert_close(program.run_passes(f"jaxpr-remat{{memory-budget={budget}}}")(x, y), want)


@pytest.mark.parametrize("name", ["recurrent", "reverse"])
def test_the_compiler_leaves_the_recomputation_in(name):
    """The executable has more transcendental ops than without the pass, and needs less memory."""
    f, args = FUNCTIONS[name], (WEIGHTS, STATE)
    for program in gradients(f, args):
        less = program.remat(0.3)
        before, after = (p.lower().compile() for p in (program, less))
        functions = [
            sum(c.as_text().count(f" {name}(") for name in ("tanh", "sine", "cosine"))
            for c in (before, after)
        ]
        assert functions[1] > functions[0]
        temps = [c.memory_analysis().temp_size_in_bytes for c in (before, after)]
        assert temps[1] <= 0.5 * temps[0]


@pytest.mark.parametrize(("start", "each"), [(8.0, 100.0), (0.0, 1.0), (64.0, 1.0)])
def test_segments_are_the_best_of_all(start, each):
    for length in range(4, 60):
        sizes = {0: length * each}
        for count in range(2, length // 2 + 1):
            sizes[count] = (count + length % count) * start + length // count * each
        count, size = segments(length, 1, start, each)
        assert size == sizes[count] == min(sizes.values())


def test_segments_of_very_long_loops_are_found_soon():
    begin = time.thread_time()
    count, size = segments(10**8, 1, 8.0, 100.0)
    assert time.thread_time() - begin < 2
    assert size == (count + 10**8 % count) * 8 + 10**8 // count * 100


def test_segments_take_the_square_root_of_the_memory():
    """Only the state of the loop can be stored, and the loop's length is prime."""
    temps = {}
    for length in (67, 269):
        f = recurrent(length, body=lambda x, w: jnp.sin(x))
        args = (WEIGHTS, STATE)
        program = jaxmlir.trace(f)(*args).grad(argnums=1)
        less = program.remat(1e-9)
        assert_close(less(*args), jax.grad(f, argnums=1)(*args))
        temps[length] = temp_bytes(program), temp_bytes(less)
    assert temps[269][0] > 3.5 * temps[67][0]
    assert temps[269][1] < 2.5 * temps[67][1]
    assert temps[269][1] < 0.25 * temps[269][0]


def test_a_loop_that_needs_nothing_of_what_it_reads():
    def f(w, x):
        _, ys = lax.scan(lambda x, _: (jnp.tanh(x @ w),) * 2, x, None, 7)
        return lax.scan(lambda carry, _: (carry, 1.0), (), ys)[1]

    program = jaxmlir.trace(f)(WEIGHTS, STATE).run_passes("jaxpr-remat{calls=inf}")
    program.verify()
    np.testing.assert_array_equal(program(WEIGHTS, STATE), np.ones(7))


def test_programs_without_loops_are_left_alone():
    program = jaxmlir.trace(lambda x: jnp.sum(jnp.tanh(x) ** 2))(STATE).grad()
    assert str(program.run_passes("jaxpr-remat{calls=inf}")) == str(program)


def test_once_is_enough():
    args = (WEIGHTS, STATE)
    for name in ("recurrent", "nested"):
        once = jaxmlir.trace(FUNCTIONS[name])(*args).grad().remat()
        assert str(once.remat()) == str(once)


@pytest.mark.compat
@pytest.mark.parametrize("budget", [None, 0.9, 1e-9])
def test_what_a_policy_stores_stays_stored(budget):
    policy = jax.checkpoint_policies.save_only_these_names("kept")

    def body(x, w):
        y = checkpoint_name(jnp.tanh(x @ w), "kept")
        return jnp.sin(y) * x

    args = (WEIGHTS, STATE)
    f = recurrent(8, body=jax.checkpoint(body, policy=policy))
    for program in gradients(f, args):
        less = program.remat(budget)
        assert_close(less(*args), jax.grad(f)(*args))
        ops = less.function(less.name).entry_block
        loops = [op for op in ops if op.operation.name == "jaxpr.scan"]
        shapes = [v.type.shape for loop in loops for v in loop.results]
        # Values of all eight iterations are stored; the state alone would be for only some.
        assert sum(math.prod(shape) for shape in shapes if shape[-2:] == [16, 32]) > 8 * 16 * 32


@pytest.mark.compat
def test_what_a_policy_does_not_store_is_not_stored():
    policy = jax.checkpoint_policies.save_only_these_names("kept")

    def body(x, w):
        y = checkpoint_name(jnp.tanh(x @ w), "kept")
        return jnp.sin(checkpoint_name(jnp.cos(y) * x, "not kept"))

    args = (WEIGHTS, STATE)
    f = recurrent(8, body=jax.checkpoint(body, policy=policy))
    for program in gradients(f, args):
        less = program.remat()
        assert_close(less(*args), jax.grad(f)(*args))
        text = str(less).splitlines()
        names = {line.split(" = ")[0].strip() for line in text if 'name = "not kept"' in line}
        first = next(line for line in text if "jaxpr.scan" in line)
        body = first.split("jaxpr = @")[1].split(",")[0]
        start = next(i for i, line in enumerate(text) if f"func.func private @{body}(" in line)
        returned = next(line for line in text[start:] if line.strip().startswith("return"))
        assert names.isdisjoint(returned.split(" : ")[0].replace("return", "").split(", "))


def test_remarks_name_the_users_line():
    found = []
    jaxmlir.trace(FUNCTIONS["recurrent"])(WEIGHTS, STATE).grad().remat(remarks=found.append)
    (remark,) = found
    assert remark.file == __file__
    assert "for 12 iterations instead of " in remark.message


def test_maximum_flow_is_minimum_cut():
    """The minimum cut equals scipy's maximum flow, on random graphs."""
    rng = random.Random(0)
    for _ in range(50):
        count = rng.randint(2, 12)
        edges = {
            (rng.randrange(count), rng.randrange(count)): rng.randint(1, 9)
            for _ in range(3 * count)
        }
        edges = {(a, b): c for (a, b), c in edges.items() if a != b}
        network = FlowNetwork()
        for _ in range(count):
            network.node()
        capacities = np.zeros((count, count), np.int32)
        for (a, b), capacity in edges.items():
            network.edge(a, b, capacity)
            capacities[a, b] = capacity
        side = network.cut(0, count - 1)
        assert side[0] and not side[-1]
        cut = sum(c for (a, b), c in edges.items() if side[a] and not side[b])
        assert cut == maximum_flow(csr_array(capacities), 0, count - 1).flow_value


def test_an_infinite_path_cannot_be_cut():
    network = FlowNetwork()
    a, b = network.node(), network.node()
    network.edge(a, b, math.inf)
    with pytest.raises(ValueError, match="infinite"):
        network.cut(a, b)


@pytest.mark.parametrize("memory", [0.0, 1.0, 30.0, 1e4])
def test_no_other_choice_is_cheaper(memory):
    """Compares the minimum cut with all sets of values that could be stored."""

    def step(x, w):
        y = jnp.tanh(x @ w)
        return jnp.concatenate([jnp.sin(y[:4]), jnp.sum(y[4:] * x[4:], 1, keepdims=True) + x[4:]])

    program = jaxmlir.trace(recurrent(8, body=step))(WEIGHTS, STATE).grad()
    with scope():
        first, second = counted_loops(program.function(program.name))
        joint = JointBody.of(Rules(program), LoopPair(first, second))
        prices = Prices(program, memory)
        body = joint.body
        carry, _, outs = joint.results()
        free = {*joint.consts, *joint.slices}
        known = {*free, *joint.carry}
        for operands, results in zip(body.operands, body.results, strict=True):
            if known.issuperset(operands):
                known.update(range(*results))
        in_first = set(body.backward_slice(carry)[0])

        def price(stored):
            todo, live = body.backward_slice(outs, set(stored).__contains__)
            if not live.isdisjoint(set(joint.carry) - set(stored)):
                return math.inf
            return sum(prices.at(body, op) for op in todo if op in in_first) + sum(
                prices.storing(body.types[v]) for v in stored if v in live
            )

        candidates = [v for v in known - free if body.types[v].rank and not is_cheap(body.value(v))]
        assert 8 <= len(candidates) <= 16
        best = min(
            price(subset)
            for n in range(len(candidates) + 1)
            for subset in itertools.combinations(candidates, n)
        )
        np.testing.assert_allclose(price(choose(joint, prices).stored), best, rtol=1e-3)


def is_cheap(value):
    """Whether a value is never worth storing: a constant, or another value in another shape."""
    op = value.owner
    return getattr(op, "name", "") in (
        "jaxpr.constant",
        "jaxpr.broadcast_in_dim",
        "jaxpr.transpose",
        "jaxpr.reshape",
    )


# --- what the pass reports ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "changes"),
    [
        (recurrent(10), True),
        (nested, True),
        # The state of each iteration is stored; less is not possible.
        (recurrent(10, body=lambda x, w: x @ w), False),
        (lambda w, x: lax.scan(lambda c, _: (c * 0.5, None), w, None, 4)[0].sum(), False),
    ],
)
def test_the_pass_says_whether_it_changed_anything(f, changes):
    program = jaxmlir.trace(f)(WEIGHTS, STATE).grad()
    before = str(program)
    assert run_pass(Remat(), program) is changes
    assert (str(program) != before) is changes
