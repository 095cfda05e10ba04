"""The transformations as functions of programs: pytrees around the passes.

Each returns a new program whose public function is the transformed one.  Arguments, ``argnums``,
``has_aux``, ``in_axes`` ... mean what they mean in JAX.
"""

from __future__ import annotations

from jaxmlir.transforms._batches import vmap
from jaxmlir.transforms._gradients import grad, jacobian
from jaxmlir.transforms._inverses import inverse
from jaxmlir.transforms._linear import jvp, linearize, vjp

__all__ = ["grad", "inverse", "jacobian", "jvp", "linearize", "vjp", "vmap"]
