"""The transformations as functions of programs: pytrees around the passes.

Each returns a new program whose public function is the transformed one.  Arguments, ``argnums``,
``has_aux``, ``in_axes`` ... mean what they mean in JAX.
"""

from __future__ import annotations

from jaxmlir.support.lazy import lazy_names

# A process needs one or two of them, as a rule.
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
