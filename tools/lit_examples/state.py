"""Examples of references: mutable arrays that are read and written."""

from __future__ import annotations

from typing import Any

import jax

from lit_examples._example import Example, example, f32

X = f32(1, 2, 3)


def _with_ref(x: Any) -> Any:
    ref = jax.new_ref(x)
    old = jax.ref.swap(ref, 0, x[1] * 10)
    jax.ref.addupdate(ref, 2, ref[0])
    return old, jax.ref.freeze(ref)


def _freed(x: Any) -> Any:
    ref = jax.new_ref(x)
    ref[0] = 2 * x[0]
    y = ref[...]
    jax.ref.free_ref(ref)
    return y


def _overwritten(x: Any) -> Any:
    ref = jax.empty_ref(jax.typeof(x))
    ref[...] = x
    return ref[...]


def _references(*hlo: str) -> Example:
    return example(_with_ref, X, hlo=hlo)


EXAMPLES = {
    "new_ref": _references("return"),
    "freeze": _references("return"),
    "get": _references("stablehlo.dynamic_slice"),
    "swap": _references("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"),
    "addupdate": _references("stablehlo.add", "stablehlo.dynamic_update_slice"),
    "free_ref": example(_freed, X),
    "empty_ref": example(_overwritten, X),
}

LINEAR = "A buffer to be used once: only `run_state` and kernels make it, and lower it away."
WITHOUT = {
    "accum_grad_in_ref": "JAX makes it in backward passes only, and removes it again.",
    "run_state": "No public function of JAX makes it.",
    "run_scoped": "It stands in kernels only.",
    "create_linear": LINEAR,
    "pin": LINEAR,
    "unpin": LINEAR,
    "stage": "Tracing takes it out again.",
}
