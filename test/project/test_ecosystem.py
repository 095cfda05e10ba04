"""Programs of the installed libraries in every step, and the tool that runs all programs."""

import json
import sys

import ecosystem_report as report
import ecosystem_steps as steps
import jax.numpy as jnp
import pytest
from jax import lax

import ecosystem
from jaxmlir.bridge import params
from jaxmlir.lowering import lowering
from jaxmlir.transforms import templates

NUMBERS = [step for step in steps.STEPS if step != "times"]


def outcomes(subject, tmp_path, only=NUMBERS):
    events = []
    scratch = steps.Scratch(tmp_path, sys.executable)
    steps.check(subject, only, scratch, lambda **fields: events.append(fields))
    assert [e["start"] for e in events if "start" in e] == [
        e["step"] for e in events if "step" in e
    ]
    return {e["step"]: e["outcome"] for e in events if "step" in e}


@pytest.mark.sampled
@pytest.mark.compat
@pytest.mark.filterwarnings("ignore")  # What libraries use of JAX that is deprecated is theirs.
@pytest.mark.parametrize("name", ["optax", "equinox", "flax"])
def test_programs(name, tmp_path):
    subject = steps.subject_of(ecosystem.PROGRAMS / f"{name}.py")
    found = outcomes(subject, tmp_path, ["load", "hvp", "-O2"])
    assert {o.partition(" ")[0] for o in found.values()} == {"passed"}, found


def cosine_for_sine(read):
    def of_op(op, name, reader):
        primitive, parameters = read(op, name, reader)
        return lax.cos_p if primitive is lax.sin_p else primitive, parameters

    return of_op


def test_wrong_numbers_are_found(tmp_path, monkeypatch):
    subject = steps.Subject(lambda x: jnp.sum(x * jnp.sin(x)), [jnp.arange(3.0)])
    monkeypatch.setattr(params, "of_op", cosine_for_sine(params.of_op))
    for module, cache in (
        (lowering, "equations"),
        (templates, "by_signature"),
        (templates, "by_kind"),
    ):
        monkeypatch.setattr(module, cache, {})
    found = outcomes(subject, tmp_path, ["trace", "grad"])
    assert found["trace"].startswith("failed: result: 1 of 1 elements differ by more than")
    assert found["grad"].startswith("failed: result: 3 of 3 elements differ")


def test_what_jax_cannot_do_is_not_asked(tmp_path):
    def loss(x):
        return lax.while_loop(lambda x: x < 9.0, lambda x: x * x, x)

    found = outcomes(steps.Subject(loss, [jnp.float32(2.0)]), tmp_path)
    assert found["grad"].startswith("n/a (JAX: ValueError: Reverse-mode differentiation")
    assert {step for step, outcome in found.items() if outcome == "passed"} == {
        "trace",
        "text",
        "save",
        "load",
        "jvp",
    }
    infinite = steps.Subject(lambda x: jnp.log(x), [jnp.float32(-1.0)])
    assert outcomes(infinite, tmp_path, ["trace"]) == {}


def test_results_may_differ_by_what_rounding_makes_of_them():
    def cancelling(x):
        return (x * 1e4 - 3e3) ** 2

    subject = steps.Subject(cancelling, [jnp.float32(0.3 + 1e-4)])
    (slack,) = subject.expected("trace").slack
    # A rounding of 3,001 is 2.4e-4; the square of 1 changes by twice that. More than a thousandth
    # of the result is not allowed.
    assert slack == pytest.approx(1e-3, rel=0.1)


def test_a_file_that_makes_nothing_is_excluded(tmp_path, monkeypatch):
    program, record = tmp_path / "broken.py", tmp_path / "record.jsonl"
    program.write_text("def make():\n    raise ValueError('no data')\n")
    monkeypatch.setattr(sys, "argv", ["", str(program), str(record)])
    steps.main()
    assert json.loads(record.read_text()) == {
        "excluded": "the program cannot be made: ValueError: no data"
    }


def test_requirements_are_read_from_the_header():
    programs = {p.stem: ecosystem.Program(p) for p in ecosystem.PROGRAMS.glob("*.py")}
    assert programs["optax"].requirements == ["optax"]
    for name, program in programs.items():
        assert program.requirements, name


def record(name, **fields):
    common = {"name": name, "commit": "abc", "date": "2026-01-02", "jax": "1.2.3"}
    return common | {"digest": "", "versions": {name: "0.1"}} | fields


TIMES = {measure: [0.1, 0.12] for measure in report.MEASURES} | {
    "grad_cpu_O2": [0.1, 0.2, "same"],
}


def test_page(tmp_path):
    records = [
        record("good", steps={"trace": "passed", "save": "passed (as_flat)"}, times=TIMES),
        record("bad", steps={"trace": "failed: Mismatch: 1", "save": "n/a (JAX: no |number|)"}),
        record("none", excluded="cannot be installed: because"),
    ]
    report.write_docs(tmp_path, "1.2.3", records, ["trace", "save", "times"])
    assert json.loads((tmp_path / "ecosystem-1.2.3.json").read_text())[0]["times"] == TIMES
    page = (tmp_path / "ecosystem.md").read_text()
    for line in (
        "2 programs, run on 2026-01-02: [outcomes and commits](ecosystem-1.2.3.json).",
        "| good 0.1 | yes | yes* |",
        "| bad 0.1 | **no** | n/a |",
        "| passed of what JAX can do | 1 of 2 | 1 of 1 |",
        "- bad, trace: `Mismatch: 1`",
        "- none 0.1: `cannot be installed: because`",
        "| good | 100 ms | 100 ms | 100 ms | 2.00= | **1.20** | **1.20** | 1.20 |",
    ):
        assert line in page


def test_steps_that_are_not_run_again_are_kept():
    before = record("p", steps={"trace": "passed", "save": "failed: x"}, times=TIMES)
    now = record("p", steps={"save": "passed"})
    after = report.updated(before, now)
    assert after["steps"] == {"trace": "passed", "save": "passed"} and after["times"] == TIMES
    assert report.updated(before, record("p", excluded="why")).keys() >= {"excluded"}
    slow = record("p", steps={"times": "failed: took longer than 1 s"})
    assert "times" not in report.updated(before, slow)


def test_a_fresh_checkout_starts_from_the_docs(tmp_path, monkeypatch):
    monkeypatch.setattr(ecosystem, "STATE", tmp_path / "build")
    monkeypatch.setattr(ecosystem, "DOCS", tmp_path)
    program = ecosystem.Program(ecosystem.PROGRAMS / "optax.py")
    assert ecosystem.load(program, "1.2.3") is None
    kept = record("optax", steps={"trace": "passed"})
    report.write_docs(tmp_path, "1.2.3", [kept], ["trace"])
    assert ecosystem.load(program, "1.2.3") == kept


STANDS_FOR_PYTHON = """#!/bin/sh
[ -n "$XLA_FLAGS" ] && found="failed: roundings" || found=passed
printf '{"start": "trace"}\\n{"step": "trace", "outcome": "%s"}\\n' "$found" >> "$4"
"""


def test_a_step_counts_as_failed_with_the_machine_code_that_users_have(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(STANDS_FOR_PYTHON)
    python.chmod(0o700)
    environments = ecosystem.Environments(tmp_path, "", "1.2.3")
    monkeypatch.setattr(ecosystem, "STATE", tmp_path / "build")
    monkeypatch.setattr(ecosystem.Environments, "make", lambda *_: str(python))
    monkeypatch.setattr(ecosystem.Environments, "versions", lambda *_: {})
    program = ecosystem.Program(ecosystem.PROGRAMS / "optax.py")
    assert ecosystem.run(program, environments, ["trace"], 60)["steps"] == {"trace": "passed"}


def test_an_outcome_is_of_one_package_and_program(tmp_path, monkeypatch):
    program = ecosystem.Program(ecosystem.PROGRAMS / "optax.py")
    done = record("optax", steps={"trace": "passed"}, digest=ecosystem.digest(program))
    assert ecosystem.is_done(program, done, ["trace"])
    assert not ecosystem.is_done(program, done, ["trace", "times"])
    assert not ecosystem.is_done(program, done | {"digest": "another"}, ["trace"])
    assert not ecosystem.is_done(program, None, [])

    monkeypatch.setattr(ecosystem, "ROOT", tmp_path)
    for path in ("jaxmlir/targets/cpu.toml", "tools/ecosystem_steps.py"):
        digest = ecosystem.digest(program)
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("another")
        assert ecosystem.digest(program) != digest
