"""What a fresh process is spared, and that nothing is lost by it."""

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
