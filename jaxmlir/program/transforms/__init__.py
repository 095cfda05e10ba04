"""The transformations as functions of programs: the passes, with pytrees around them.

Each returns a new program whose public function is the transformed one.  ``argnums``, ``has_aux``,
``in_axes`` and the other arguments mean the same as in JAX.
"""

from __future__ import annotations

from jaxmlir.support.lazy import lazy_names

# Imported lazily: a process usually needs one or two of them.
_EXPORTS = {
    "forward_and_log_det": "inverses",
    "grad": "derivatives",
    "hessian_sparsity": "sparse",
    "inverse": "inverses",
    "jacobian": "derivatives",
    "jacobian_sparsity": "sparse",
    "jvp": "derivatives",
    "laplacian": "laplacians",
    "linearize": "derivatives",
    "sparse_matrix": "sparse",
    "vjp": "derivatives",
    "vmap": "batches",
}
__all__ = [*_EXPORTS]
__getattr__ = lazy_names(__name__, _EXPORTS, ())
