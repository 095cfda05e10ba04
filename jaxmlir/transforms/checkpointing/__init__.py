"""Reverse mode through loops whose trip count is known only when they run.

The reverse of a loop ``x[k+1] = body(x[k])`` visits its states backwards, and so needs all of them;
but memory has to be allocated before their number is known.  *Checkpointing* keeps N of them, and
recomputes the others from the nearest one before them.  Three primitives:

``checkpointed_while``  a ``while``, which may also record checkpoints (:mod:`.loop`)
``reverse_sweep``       visits the states of such a loop backwards (:mod:`.sweep`)
``linear_map``          a linear function together with its transpose (:mod:`.linear_map`)

The three are closed under differentiation, batching and transposition (:mod:`.derivatives`): the
derivative of a sweep over a loop is a sweep over a loop of pairs, state and tangent, and so on.  So
the gradient of a loop can be differentiated again, in either mode, to any order, with N checkpoints
each time.
"""

from __future__ import annotations

from jaxmlir.transforms.checkpointing import derivatives
from jaxmlir.transforms.checkpointing.linear_map import linear_map_p
from jaxmlir.transforms.checkpointing.loop import checkpointed_while_p
from jaxmlir.transforms.checkpointing.sweep import reverse_sweep_p

__all__ = ["checkpointed_while_p", "derivatives", "linear_map_p", "reverse_sweep_p"]
