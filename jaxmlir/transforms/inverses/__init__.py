"""Inverse rules: how the operands of ops follow from their results.

The rules stand in files by family, :mod:`.rule` says what one is, :mod:`.solver` applies them until
a function is solved for its arguments, and :mod:`.invert` writes the function that does so.
"""

from __future__ import annotations

from jaxmlir.transforms.inverses import calls, elementwise, linear, movement, scans, structured

FAMILIES = (elementwise, movement, linear, structured, calls, scans)
