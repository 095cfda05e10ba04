"""The tool that runs StableHLO's own tests, on a checkout of a few tests like them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import stablehlo_tests

pytestmark = pytest.mark.compat

BY_HAND = """
func.func @doubled() {
  %0 = stablehlo.constant dense<[1.0, -2.5]> : tensor<2xf64>
  %1 = stablehlo.add %0, %0 : tensor<2xf64>
  check.expect_almost_eq_const %1, dense<[2.0, EXPECTED]> : tensor<2xf64>
  func.return
}

// -----

func.func @total() {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %1 = stablehlo.constant dense<0> : tensor<i64>
  %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0]
    : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
  check.expect_eq_const %2, dense<6> : tensor<i64>
  func.return
}
"""
MADE = """
module {
  func.func public @main() -> tensor<2xf32> {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.OP %0 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true}
      : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @expected() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 0.54030231]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def checkout(path, **texts):
    for name, text in texts.items():
        folder = stablehlo_tests.FOLDERS[name == "made"]
        (path / folder).mkdir(parents=True, exist_ok=True)
        (path / folder / f"{name}.mlir").write_text(text)
    return str(path)


def test_what_passes(tmp_path, capsys):
    texts = {"by_hand": BY_HAND.replace("EXPECTED", "-5.0"), "made": MADE.replace("OP", "cosine")}
    assert stablehlo_tests.main([checkout(tmp_path, **texts)]) == 0
    assert capsys.readouterr().out == "2 files: 3 passed\n"


def test_what_fails_is_said(tmp_path, capsys):
    texts = {"by_hand": BY_HAND.replace("EXPECTED", "-4.0"), "made": MADE.replace("OP", "sine")}
    assert stablehlo_tests.main([checkout(tmp_path, **texts)]) == 1
    out = capsys.readouterr().out
    assert "failed by_hand.mlir:0:doubled: check 0: 1 of 2 differ: -5.0, expected -4.0" in out
    assert "failed made.mlir:0:main: check 0: 2 of 2 differ: 0.0, expected 1.0" in out
    assert "2 files: 2 failed, 1 passed" in out


def test_what_is_refused_or_of_another_version_is_said(tmp_path, capsys):
    refused = MADE.replace(
        "stablehlo.OP %0 : tensor<2xf32>", '"other.op"(%0) : (tensor<2xf32>) -> tensor<2xf32>'
    )
    texts = {"made": refused, "newer": BY_HAND.replace("stablehlo.add", "stablehlo.add_twice")}
    assert stablehlo_tests.main([checkout(tmp_path, **texts)]) == 0
    out = capsys.readouterr().out
    assert (
        "refused made.mlir:0:main: " in out and "'other.op' op: the dialect has no op for it" in out
    )
    assert "not parsed newer.mlir: " in out


def test_a_checkout_without_tests_is_an_error_of_usage(tmp_path):
    with pytest.raises(SystemExit):
        stablehlo_tests.main([str(tmp_path)])
