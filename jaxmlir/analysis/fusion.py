"""The ops that XLA's CPU compiler fuses into their users, and what each op of a fusion costs."""

from __future__ import annotations

import functools

from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import CALLEES, Trait, with_trait

# Computing fewer again takes less time than storing them.
FEW_ELEMENTS = 1024

# Computed as part of reading an element: free themselves, but no bar to fusion.  XLA sees nothing
# of stop_gradient.
MOVED = (
    with_trait(Trait.VIEW)
    | with_trait(Trait.SLICING)
    | with_trait(Trait.JOINING)
    | {f"jaxpr.{name}" for name in ("convert_element_type", "iota", "pad", "rev", "stop_gradient")}
    | {"jaxpr.tile"}
)
# Computed element by element.
FUSED = with_trait(Trait.ELEMENTWISE) - MOVED
# What is computed by the kernel that reads it.
FUSIBLE = FUSED | MOVED
# Of these, what finds what it reads by index, or puts arrays beside one another: it is stored.
INDEXED = frozenset(f"jaxpr.{name}" for name in ("dynamic_slice", "gather", "stack"))
# What XLA since 0.11 leaves to a library, with what is fused into it.
LIBRARY_REDUCTIONS = frozenset(f"jaxpr.reduce_{name}" for name in ("max", "min", "sum"))
# Functions that take the time of many ops, and of how many.  Measured per element on a CPU core, in
# cache, XLA of jax 0.10 and 0.12: sums, products, quotients, square roots 0.1 to 0.3 ns, exp, log,
# tanh, erf 0.3 to 1.0, and these 2 to 100, as calls or long series; sines of more than a quarter of
# a period 9; those that become polynomials 1.5, of as many ops.
SLOW = {
    f"jaxpr.{name}": weight
    for weight, names in (
        (25, ("pow", "rem")),
        (40, ("atan", "atan2", "cbrt", "cos", "digamma", "sin", "tan")),
        (80, ("acos", "asin", "lgamma")),
        (200, ("igamma", "igamma_grad_a", "igammac", "polygamma", "zeta")),
        (200, ("regularized_incomplete_beta",)),
    )
    for name in names
}
# Elementwise functions that take 0.1 to 1 ns.
FUNCTIONS = (with_trait(Trait.TRANSCENDENTAL) | {"jaxpr.div"}) - SLOW.keys()
# Slow functions that XLA takes for quick ones: it computes them in each kernel that reads them, and
# for each element of what spreads them.  Each row of a matrix of 1000 x 1000 times functions of
# 1000 numbers, jax 0.10 and 0.12, ms: cos 1.0, 2.0; sin 3.1, 1.3; tan 12, 20; and the others,
# stored, 0.1 to 0.2.
TAKEN_FOR_QUICK = frozenset(f"jaxpr.{name}" for name in ("cos", "sin", "tan"))
_STORED = (FUNCTIONS | SLOW.keys()) - TAKEN_FOR_QUICK


@functools.cache
def is_stored_if_shared(signature: Signature) -> bool:
    """Whether XLA computes an op once, and stores the result, where several kernels read it.

    By the ops of compiled programs in which three kernels read a value, jax 0.10 and 0.12.
    """
    match signature.name:
        case "jaxpr.div":
            # A quotient by a number becomes a product.
            return elements(signature.operands[1]) > 1
        case "jaxpr.integer_pow":
            # Powers become products, and quotients.
            return signature.named["y"].value < 0
        case name:
            return name in _STORED


def kept_call() -> ir.Attribute:
    """The attribute ``jaxpr.ctx`` of a call that XLA is not to inline: what goes in and comes out
    is stored."""
    return ir.DictAttr.get({"xla_metadata": codec.encode({"inlineable": "false"})})


_INLINED = frozenset(
    f"jaxpr.{name}"
    for name in ("closed_call", "custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr", "jit")
)


def inlined_calls(body: FunctionView) -> dict[int, str]:
    """The calls of a function that XLA inlines before it fuses, by index, and what they call."""
    calls = {}
    for index, name in enumerate(body.names):
        if name in _INLINED:
            attributes = body.signatures[index].named
            if "jaxpr.ctx" not in attributes or attributes["jaxpr.ctx"] != kept_call():
                calls[index] = attributes[CALLEES[name]].value
    return calls
