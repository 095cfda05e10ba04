"""The lit tests of the ops: every op has one, all are as generated, stock MLIR accepts them."""

import subprocess
import sys
from pathlib import Path

import pytest

from jaxmlir._compat import jax_version
from jaxmlir.dialect import ops
from jaxmlir.dialect.ir import parse_module, scope

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generate_lit_tests  # noqa: E402
import lit_examples  # noqa: E402

from jaxmlir.cli import stock_verify  # noqa: E402

TESTS = sorted(generate_lit_tests.FOLDER.glob("*.mlir"))


def test_every_op_has_a_test_or_a_reason():
    tested = {path.stem for path in TESTS}
    reasons = lit_examples.without()
    assert len(tested) > 250
    assert tested | reasons.keys() == ops.OPS.keys()
    assert not tested & reasons.keys()
    assert all(reason.endswith(".") for reason in reasons.values())


def test_every_test_has_an_example():
    assert {path.stem for path in TESTS} == lit_examples.examples().keys()


def test_examples_of_one_family():
    """A quick check for drift; the slow test checks more."""
    from lit_examples import elementwise

    names = [n for n, e in elementwise.EXAMPLES.items() if generate_lit_tests.responsible(n, e)]
    assert len(names) == (22 if jax_version() < (0, 11) else 2)
    assert generate_lit_tests.stale(names) == []


def test_an_op_without_an_example_is_an_error(capsys):
    with pytest.raises(SystemExit):
        generate_lit_tests.main(["--check", "sin", "hesenberg"])
    message = "no example of 'hesenberg' is in tools/lit_examples; did you mean 'hessenberg'?"
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_third_is_as_generated():
    """lit runs all of the files, but does not compare them with the generated ones."""
    names = [path.stem for path in TESTS[::3]]
    assert generate_lit_tests.stale(names) == [], "run python tools/generate_lit_tests.py"


@pytest.mark.slow
@pytest.mark.skipif(stock_verify.mlir_opt() is None, reason="mlir-opt-22 is not installed")
def test_stock_mlir_accepts_them(tmp_path):
    """One run of mlir-opt reads all tests, as chunks of one file."""
    foreign, pieces = set(), []
    with scope():
        for path in TESTS:
            module = parse_module(path.read_text(), path.name)
            foreign |= stock_verify.prepare(module)
            pieces.append(module.operation.get_asm(print_generic_op_form=True))
    irdl = tmp_path / "jaxpr.irdl.mlir"
    irdl.write_text(stock_verify.declare(foreign))
    command = [stock_verify.mlir_opt(), f"--irdl-file={irdl}", "--split-input-file"]
    done = subprocess.run(
        [*command, "-o", "/dev/null"],
        input="\n// -----\n".join(pieces),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
