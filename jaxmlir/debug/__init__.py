"""Finding out what a program does, on its ops and in the user's terms.

The first three evaluate a program, or a derivative of it, op by op
(:mod:`jaxmlir.interpret.interpreter`)::

    debug.find_nan(program, *args)            the op that makes the first NaN or Inf
    debug.diff(first, second, *args)          the op at which two programs, platforms or dtypes part
    program.eval(*args, hooks=[debug.breakpoint_at(line="model.py:12")])     stops in pdb
    program.optimize(2, remarks=debug.RemarkReport())     ranks what passes did
"""

from __future__ import annotations

from jaxmlir.debug.diff import Difference, diff
from jaxmlir.debug.remark_report import RemarkReport
from jaxmlir.debug.steps import NonFinite, Place, Range, breakpoint_at, find_nan

__all__ = [
    "Difference",
    "NonFinite",
    "Place",
    "Range",
    "RemarkReport",
    "breakpoint_at",
    "diff",
    "find_nan",
]
