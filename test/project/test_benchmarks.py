"""The benchmarks run; these tests do not check times."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from benchmarks import memory, passes
from benchmarks.__main__ import main
from benchmarks._bound import bound
from benchmarks._code import note
from benchmarks._gradients import Mismatch, check_equal, gradient
from benchmarks._measure import Comparison, Timing
from benchmarks._report import compared, row, summary, to_json
from benchmarks.programs import NAIVE, PROGRAMS

BOTH_SETS = {**PROGRAMS, **NAIVE}


def test_one_program_is_measured_and_reported(tmp_path, capsys):
    path = tmp_path / "results.json"
    arguments = ["--only", "^(import|lower|run)/matrix_chain$", "--repetitions", "1"]
    assert main([*arguments, "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [r["measure"] for r in document["results"]] == ["import", "lower", "run"]
    for result in document["results"]:
        assert result["jax"]["median"] > 0 and result["jaxmlir"]["median"] > 0
        expected = result["jaxmlir"]["median"] / result["jax"]["median"]
        assert result["ratio"] == pytest.approx(expected, rel=1e-3)
    assert capsys.readouterr().out.count("matrix_chain") >= 3

    assert main(["--compare", str(path), str(path)]) == 0
    assert capsys.readouterr().out.count("+0%") == 3


def test_passes_are_measured_on_their_worst_cases(capsys):
    names = ["jaxpr-fuse-scans", "jaxpr-raise-loops"]
    options = ["--program", "worst", "--sizes", "200", "--repetitions", "1"]
    assert passes.main([*names, *options]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    worst = [(case.name, title) for title, case in passes.WORST.items() if case.name in names]
    assert len(found) == len(worst) == 4
    for line, (name, title) in zip(found, worst, strict=True):
        first, cost, *_ = line.strip("| ").split(" | ")
        assert first == f"`{name}`, {title}" and float(cost.split()[0]) > 0


def test_effects_of_passes_are_counted(tmp_path, capsys):
    path = tmp_path / "effects.json"
    options = ["--effect", "--only", "^chain_times_vector$", "--repetitions", "0"]
    assert passes.main(["jaxpr-reassociate", "jaxpr-tile", *options, "--json", str(path)]) == 0
    (effect,) = json.loads(path.read_text())["results"]
    assert effect["name"] == "jaxpr-reassociate" and effect["flops"] < 0.1
    assert "| `jaxpr-reassociate` | 1 |" in capsys.readouterr().out


def test_a_bound_is_less_than_what_a_program_takes():
    function, args = PROGRAMS["matrix_chain"].make("small")
    of_gradient = gradient(jaxmlir.trace(function)(*args), 2)
    least = bound(of_gradient)
    assert 0 < least
    loop = jaxmlir.trace(lambda x: jax.lax.while_loop(lambda x: x < 5, lambda x: 2 * x, x))(1.0)
    assert bound(loop) is None


@pytest.mark.sampled
@pytest.mark.parametrize("title", passes.WORST)
def test_worst_cases_have_about_as_many_ops_as_asked_for(title):
    worst = passes.WORST[title]
    for ops in (600, 1200):
        assert ops / 2 < worst.count(worst.make(ops)) < 2 * ops


@pytest.mark.parametrize(
    "title",
    (
        "one factor of many",
        "one term of many",
        "rows of one array",
        "places in a loop",
        "loops over one array",
    ),
)
def test_an_op_takes_no_longer_where_there_are_many_of_them(title):
    """All ops read the same value; the pass must not walk its uses for each of them."""
    worst = passes.WORST[title]
    costs = []
    for ops in (500, 3000):
        program = worst.make(ops)
        seconds = min(passes.seconds_of(worst.pipeline, program, 1).min for _ in range(3))
        costs.append(seconds / worst.count(program))
    assert costs[1] < 2.5 * costs[0]


def test_memory_against_time_is_drawn():
    found = [
        memory.Point("loop", "jax", 2**20, 0.1, 0.0),
        memory.Point("loop", None, 2**19, 0.09, 1e-7),
        memory.Point("loop", 0.1, 2**16, 0.13, 1e-7),
    ]
    assert "0.500" in memory.row(found[1], found[0]) and "0.90" in memory.row(found[1], found[0])
    picture = ElementTree.fromstring("\n".join(memory.svg(found)))
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    across = sorted(float(circle.get("cx")) for circle in circles)
    assert len(across) == 3
    # Half of JAX's memory is halfway along the axis.
    origin = 60.0
    assert across[1] - origin == pytest.approx((across[2] - origin) / 2, abs=0.2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batched_programs_do_what_jaxs_do(name):
    """Both have the same ops, ours with each constant once, so they take the same time."""
    function, args = PROGRAMS[name].make("small")
    batches = jax.tree.map(lambda a: jax.ShapeDtypeStruct((4, *a.shape), a.dtype), args)
    theirs = jax.jit(jax.vmap(function)).lower(*batches).as_text()
    ours = jaxmlir.trace(function)(*args).vmap(axis_size=4).lower().as_text()
    found, expected = (
        Counter(re.findall(r"stablehlo\.\w+|\bcall @", text)) for text in (ours, theirs)
    )
    assert found["stablehlo.constant"] <= expected["stablehlo.constant"]
    assert found <= expected


def test_a_selection_of_nothing_is_an_error(capsys):
    assert main(["--only", "no such program"]) == 1
    assert "no such program" in capsys.readouterr().err


def test_stages_of_a_gradient_are_measured_and_drawn(tmp_path, capsys):
    data, chart = tmp_path / "results.json", tmp_path / "results.svg"
    options = ["--repetitions", "1", "--json", str(data), "--plot", str(chart)]
    assert main(["--only", "^grad_.*/chain_times_vector$", *options]) == 0
    results = {r["measure"]: r for r in json.loads(data.read_text())["results"]}
    stages = ["trace", "transform", "lower", "compile", "run", "cpu", "temp"]
    assert list(results) == [f"grad_{stage}" for stage in stages]
    assert {r["group"] for r in results.values()} == {"naive"}
    assert results["grad_temp"]["unit"] == "B"
    bars = ElementTree.parse(chart).findall(".//{*}text[@text-anchor='end']")
    assert [bar.text for bar in bars] == ["chain_times_vector"] * len(stages)
    assert "geometric mean" in capsys.readouterr().out


def test_what_fails_is_a_row_of_the_table_and_of_comparisons():
    one = Timing(1.0, 2.0, 3.0)
    good = Comparison("grad_run", "f", one, one, 1.0, 7)
    bad = Comparison("grad_run", "f", one, one, 1.0, 7, error="Mismatch: it is wrong")
    assert "ERROR Mismatch: it is wrong" in row(bad)
    assert "1 FAILED" in " ".join(summary([good, bad]))
    before, after = (json.loads(json.dumps(to_json([r], 1, 2))) for r in (good, bad))
    assert "it is wrong" in " ".join(compared(before, after))


def test_executables_of_the_same_instructions_are_told_from_others():
    x = np.ones(5, np.float32)

    def compiled(f):
        return jax.jit(f).lower(x, x).compile()

    def one(a, b):
        return jnp.sin(a) + b, a * b

    def other_order(b, a):
        product = b * a
        return jnp.sin(b) + a, product

    assert note(compiled(one), compiled(other_order)) == "same instructions"
    for other in (lambda a, b: (jnp.cos(a) + b, a * b), lambda a, b: (jnp.sin(a) + b, a + b)):
        assert note(compiled(one), compiled(other)) == ""


def test_gradients_that_differ_are_told_apart():
    ones = np.ones(3, np.float32)
    assert check_equal([ones], [ones * (1 + 1e-4)]) < 2e-4
    for wrong in (ones * 1.01, np.full(3, np.nan), np.array([1, 1, np.inf])):
        with pytest.raises(Mismatch, match="array 0"):
            check_equal([wrong], [ones])
    # Rounding errors of zero, which are negligible beside the other numbers.
    check_equal([ones, ones * 1e-9], [ones, -ones * 1e-9])
    with pytest.raises(Mismatch, match="array 1"):
        check_equal([ones, ones * 1e-4], [ones, -ones * 1e-4])


@pytest.mark.sampled
@pytest.mark.parametrize("name", BOTH_SETS)
def test_optimized_gradients_of_every_program_are_those_of_jax(name):
    function, args = BOTH_SETS[name].make("small")
    program = gradient(jaxmlir.trace(function)(*args), level=2)
    check_equal(program(*args), jax.jit(jax.grad(function))(*args), tolerance=2e-4)


ORDERS = {
    "forward over reverse": (
        lambda f, w, t: jax.jvp(jax.grad(f), (w,), (t,))[1],
        lambda program, w, t: program.grad().jvp()((w,), (t,))[1],
    ),
    "reverse over forward": (
        lambda f, w, t: jax.grad(lambda w: jax.jvp(f, (w,), (t,))[1])(w),
        lambda program, w, t: _pulled_back(program.jvp(), ((w,), (t,)), (0.0, 1.0))[0][0],
    ),
    "reverse over reverse": (
        lambda f, w, t: jax.vjp(jax.grad(f), w)[1](t)[0],
        lambda program, w, t: _pulled_back(program.grad(), (w,), t)[0],
    ),
}
# odeint has a VJP rule: forward mode is an error, both in JAX and here.
_NOT_FORWARD = frozenset({"neural_ode"})


def _pulled_back(program, args, cotangents):
    fwd, bwd = program.vjp()
    out, residuals = fwd(*args)
    return bwd(residuals, jax.tree.map(lambda ct, x: jnp.asarray(ct, x.dtype), cotangents, out))


@pytest.mark.sampled
@pytest.mark.parametrize("name", BOTH_SETS)
def test_second_derivatives_of_every_program_are_those_of_jax(name):
    """Each program is tested in one of the three orders, which take turns."""
    orders = ["reverse over reverse"] if name in _NOT_FORWARD else list(ORDERS)
    of_jax, of_program = ORDERS[orders[list(BOTH_SETS).index(name) % len(orders)]]
    function, args = BOTH_SETS[name].make("small")
    w, *others = jax.tree.map(jnp.asarray, args)
    rng = np.random.RandomState(3)
    t = jax.tree.map(lambda a: rng.standard_normal(a.shape).astype(a.dtype), w)

    def of_weights(w):
        return function(w, *others)

    got = of_program(jaxmlir.trace(of_weights)(w), w, t)
    want = jax.jit(lambda w, t: of_jax(of_weights, w, t))(w, t)
    check_equal(jax.tree.leaves(got), jax.tree.leaves(want), tolerance=1e-5)
