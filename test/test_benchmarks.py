"""The benchmarks run; how fast is for them to say, not for a test."""

import json

import pytest

from benchmarks.__main__ import main


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


def test_a_selection_of_nothing_is_an_error(capsys):
    assert main(["--only", "no such program"]) == 1
    assert "no such program" in capsys.readouterr().err
