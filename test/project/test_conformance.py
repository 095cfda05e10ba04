"""A fixed sample of JAX's own harnesses in all steps, and the tool that runs all harnesses."""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import lax

import jaxmlir
from jaxmlir.bridge import params
from jaxmlir.interpret import interpreter
from jaxmlir.lowering import lowering

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import conformance
import conformance_report as report
import conformance_steps as steps

pytestmark = pytest.mark.compat

HARNESSES = conformance.harnesses()
SAMPLE = conformance.sample([h.group_name for h in HARNESSES], 160)
BATCHES = [SAMPLE[i::8] for i in range(8)]
OF_ONE_PROGRAM = [step for step in steps.STEPS if step not in steps.TRANSFORMATIONS]


def outcome(indices, only):
    records = [conformance.run_harness(HARNESSES[i], i, 40, only) for i in indices]
    assert any("steps" in record for record in records)
    return report.summarise(records, jax.__version__, list(only))


@pytest.mark.sampled
@pytest.mark.parametrize("batch", range(len(BATCHES)))
@pytest.mark.filterwarnings("ignore")  # JAX's harnesses use what JAX itself has deprecated.
def test_sample(batch):
    summary = outcome(BATCHES[batch], OF_ONE_PROGRAM)
    assert not summary["failures"]
    assert sum(summary["excluded"].values()) < len(BATCHES[batch]) / 4


@pytest.mark.sampled
@pytest.mark.parametrize("batch", range(len(BATCHES)))
@pytest.mark.filterwarnings("ignore")
def test_sample_transformed(batch):
    assert not outcome(BATCHES[batch][::5], steps.TRANSFORMATIONS)["failures"]


def test_sample_has_every_group():
    assert {HARNESSES[i].group_name for i in SAMPLE} == {h.group_name for h in HARNESSES}


def cosine_for_sine(read):
    def of_op(op, name, reader):
        primitive, parameters = read(op, name, reader)
        return lax.cos_p if primitive is lax.sin_p else primitive, parameters

    return of_op


def test_wrong_numbers_are_found(monkeypatch):
    monkeypatch.setattr(params, "of_op", cosine_for_sine(params.of_op))
    # Caches of the process must not return another equation's entry.
    for module, cache in ((lowering, "equations"), (interpreter, "ops_by_signature")):
        monkeypatch.setattr(module, cache, {})
    x = np.float32(1.0)
    sine, cosine = (np.asarray(jax.jit(f)(x)) for f in (lax.sin, lax.cos))
    wrong = f"failed: result: 1 of 1 elements differ, the first at 0: {cosine}, JAX's {sine}"
    assert steps.check(steps.Case(lax.sin, (x,)), OF_ONE_PROGRAM)["steps"] == {
        "import": "passed",
        "verify": "passed",
        "text": "passed",
        "export": wrong,
        "lower": "passed",
        "run": wrong,
        "eval": wrong,
        "clean": wrong,
        "raise": wrong,
    }


def test_unstable_text_is_found(monkeypatch):
    texts = iter(range(100))
    monkeypatch.setattr(
        jaxmlir.Program, "as_text", lambda *_, **__: f"// {next(texts)}\nmodule {{}}"
    )
    with pytest.raises(steps.Mismatch, match="printed again, the text differs: // 0 became // 1"):
        steps.text(steps.Case(lax.sin, (np.float32(1.0),)))


def test_what_jax_cannot_run_is_excluded():
    outcome = steps.check(steps.Case(lambda x: jax.numpy.linalg.svd(x), (np.ones(3, np.float32),)))
    assert outcome.keys() == {"excluded"}
    assert outcome["excluded"].startswith("jax.jit fails: ")


def test_what_is_left_out_is_counted_by_its_reason():
    case = steps.Case(lax.stop_gradient, (np.ones(3, np.float32),))
    found = steps.check(case, ["raise jvp", "raise vmap"])
    record = {"name": "stop", "group": "stop", **found}
    summary = report.summarise([record], jax.__version__, list(found["steps"]))
    (reason,) = summary["left_out"].pop("raise jvp")
    assert reason == "stop_gradient is lowered to nothing"
    assert not summary["left_out"]
    assert summary["groups"]["stop"]["raise jvp"] == {"passed": 0, "failed": 0}
    assert summary["groups"]["stop"]["raise vmap"] == {"passed": 1, "failed": 0}


@pytest.mark.parametrize(
    ("expected", "got", "message"),
    [
        (np.float32(0.0), np.float32(-0.0), "1 of 1 elements differ"),
        (np.array([1, 2], np.int8), np.array([1, 3], np.int8), "the first at 1: 3, JAX's 2"),
        (np.float32(1.0), np.float16(1.0), "result is float16"),
        (np.complex64(1 + 2j), np.complex64(1 + 3j), "the first at 1: 3.0, JAX's 2.0"),
        ([np.float32(1.0)], np.float32(1.0), "the result is the pytree"),
    ],
)
def test_differences_are_found(expected, got, message):
    with pytest.raises(steps.Mismatch, match=message):
        steps.compare(expected, got)


def test_every_nan_is_the_same():
    payload = np.array([0x7FC00001, 0x7FC00000], np.uint32).view(np.float32)
    steps.compare(payload, np.array([np.nan, np.nan], np.float32))
    with pytest.raises(steps.Mismatch):
        steps.compare(payload, np.array([np.nan, 0.0], np.float32))


def test_lowered_texts_compare_without_names():
    def program(name):
        def inner(x):
            return lax.sin(x)

        inner.__name__ = name
        jitted = jax.jit(inner)
        return jax.jit(lambda x: jitted(x) + jitted(x + 1)).lower(np.float32(1.0))

    assert program("f").as_text() != program("g").as_text()
    assert steps.canonical(program("f")) == steps.canonical(program("g"))


def test_lowered_texts_compare_with_operands_and_constants():
    functions = [
        lambda x, y: (x + 1.0) * (y + 1.0),
        lambda x, y: (y + 1.0) * (x + 1.0),
        lambda x, y: (x + 1.0) * (y + 2.0),
        lambda x, y: (x + 1.0) * y,
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z * y, x),
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z * x, x),
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z * x, y),
        lambda x, y: lax.cond(x > y, lambda: x * 2.0, lambda: y * 3.0),
        lambda x, y: lax.cond(x > y, lambda: x * 3.0, lambda: y * 2.0),
    ]
    texts = [steps.canonical(jax.jit(f).lower(1.0, 1.0)) for f in functions]
    assert len(set(texts)) == len(texts)
    shared = jax.jit(lambda x, y: (x + 1.0) * (y + 1.0)).lower(1.0, 1.0)
    ours = jaxmlir.trace(functions[0])(1.0, 1.0).lower()
    assert shared.as_text().count("constant") != ours.as_text().count("constant")
    assert steps.canonical(shared) == steps.canonical(ours)


def test_command_line(tmp_path, monkeypatch, capsys):
    """The tool writes records and a table; with --resume it skips what has passed."""
    monkeypatch.setattr(conformance, "STATE", tmp_path)
    monkeypatch.setattr(conformance, "ROOT", tmp_path)
    arguments = ["--select", "^(sin|svd)_", "--sample", "2", "--workers", "1"]
    assert conformance.main(arguments) == 0
    state = tmp_path / f"{jax.__version__}.jsonl"
    lines = [json.loads(line) for line in state.read_text().splitlines()]
    assert {line["group"] for line in lines} == {"sin", "svd"}
    table = (tmp_path / f"{jax.__version__}.md").read_text()
    assert "| `sin` |" in table and "| `svd` |" in table
    capsys.readouterr()
    assert conformance.main([*arguments, "--resume"]) == 0
    assert "0 harnesses in" in capsys.readouterr().out
    assert len(state.read_text().splitlines()) == len(lines)

    # An interrupted run has truncated its last line; new records start on another line.
    state.write_text(state.read_text()[:-9])
    assert conformance.main([*arguments, "--resume"]) == 0
    assert "1 harnesses in" in capsys.readouterr().out
    assert conformance.main([*arguments, "--resume"]) == 0
    assert "0 harnesses in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--select", "("], "'(' is not a regular expression: "),
        (["--select", "^sine$"], "no harness has a name that matches '^sine$'"),
        (["--sample", "0"], "--sample: expected 1 or more, got 0"),
        (["--workers", "0"], "--workers: expected 1 or more, got 0"),
        (["--run-every", "0"], "--run-every: expected 1 or more, got 0"),
        (["--steps", "import,sine"], "no step sine; there are import, verify, "),
    ],
)
def test_options_that_make_no_sense(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(conformance, "STATE", tmp_path)
    with pytest.raises(SystemExit):
        conformance.main(arguments)
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_saved_page_is_generated_from_the_saved_summaries():
    docs = Path(conformance.ROOT, "docs")
    summaries = report.saved_summaries(docs)
    assert (docs / "conformance.md").read_text() == report.markdown(summaries)
    assert not any(summary["failures"] for summary in summaries)
    for summary in summaries:
        assert set(list(steps.STEPS)[:7]) <= set(summary["steps"]) <= set(steps.STEPS)
    assert {s["jax"].split(".")[1] for s in summaries} >= {"10", "12"}
