"""Whether a pytree may have nodes of classes that this process does not know.

To a Python program that is an error: what it gives to a function, or gets, would be of another
class.  The command line tools pass pytrees on and never make such a node, so they need no class.
"""

from __future__ import annotations

from contextvars import ContextVar

allowed: ContextVar[bool] = ContextVar("allowed", default=False)
