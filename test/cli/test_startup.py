"""Imports that a fresh process avoids, without losing anything."""

import os
import subprocess
import sys

import pytest

LOWERED_WITHOUT_MHLO = """
import sys
import jax
import jaxmlir

lowered = jaxmlir.trace(jax.numpy.sin)(1.0).grad().lower()
assert "stablehlo.cosine" in lowered.as_text()
assert "jaxlib.mlir.dialects._mhlo_ops_gen" not in sys.modules

from jax._src.lib.mlir.dialects import mhlo
from jaxlib.mlir.dialects import mhlo as whole

assert mhlo.AddOp is whole.AddOp
assert mhlo.register_mhlo_dialect is whole.register_mhlo_dialect
assert not hasattr(mhlo, "NoSuchOp")
"""


@pytest.mark.compat
def test_lowering_leaves_mhlo_classes_alone():
    command = [sys.executable, "-c", LOWERED_WITHOUT_MHLO]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.compat
def test_a_tool_says_nothing_of_devices_that_it_starts():
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    module = "func.func public @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    command = [sys.executable, "-m", "jaxmlir.cli.run", "--args=1.5"]
    done = subprocess.run(
        command, input=module, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("result: f32[] = 1.5\n", "")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("module {}")
    flags = ["--cse", "--mlir-print-ir-after-all", f"--mlir-print-ir-tree-dir={file}", str(file)]
    command = [sys.executable, "-m", "jaxmlir.cli.opt", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"--mlir-print-ir-tree-dir: cannot write to '{file}'" in done.stderr
