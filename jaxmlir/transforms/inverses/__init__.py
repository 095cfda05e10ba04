"""Inverse rules: how the operands of ops follow from their results.

The rules are grouped in files by family.  :mod:`.rule` says what a rule is, :mod:`.solver` applies
them until a function is solved for its arguments, and :mod:`.invert` writes the function that does
so.
"""

from __future__ import annotations

from jaxmlir.transforms.inverses import calls, elementwise, linear, movement, scans

FAMILIES = (elementwise, movement, linear, calls, scans)
