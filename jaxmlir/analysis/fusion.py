"""The ops that XLA's CPU compiler fuses into their users, and the cost of each op of a fusion."""

from __future__ import annotations

import functools

import numpy as np

from jaxmlir._compat import dtypes
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import elements
from jaxmlir.dialect import codec
from jaxmlir.dialect.ir import context, ir
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.ops import CALLEES, Trait, with_trait
from jaxmlir.dialect.types import aval_of

# Recomputing fewer elements takes less time than storing them.
FEW_ELEMENTS = 1024

# Computed as part of reading an element: free, and no obstacle to fusion.  stop_gradient does not
# reach XLA.
MOVED = (
    with_trait(Trait.VIEW)
    | with_trait(Trait.SLICING)
    | with_trait(Trait.JOINING)
    | {f"jaxpr.{name}" for name in ("convert_element_type", "iota", "pad", "rev", "stop_gradient")}
    | {"jaxpr.tile"}
)
# Computed element by element.
FUSED = with_trait(Trait.ELEMENTWISE) - MOVED
# Ops that the kernel that reads their result computes.
FUSIBLE = FUSED | MOVED
# Fusible ops whose results are stored: they read by index, or put arrays beside one another.
INDEXED = frozenset(f"jaxpr.{name}" for name in ("dynamic_slice", "gather", "stack"))
# Reductions that XLA since 0.11 leaves to a library, together with the ops fused into them.
LIBRARY_REDUCTIONS = frozenset(f"jaxpr.reduce_{name}" for name in ("max", "min", "sum"))
# Functions that take as long as many ops, with that number of ops.  Measured per element on a CPU
# core, in cache, XLA of jax 0.10 and 0.12, ns: sums, products, quotients, square roots 0.1 to 0.3;
# exp, log, tanh, erf 0.3 to 1.0; the functions below 2 to 100, as calls or long series; sines of
# more than a quarter of a period 9; functions that become polynomials 1.5, as much as their ops.
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
# Slow functions that XLA takes for quick ones.  It recomputes them in each kernel that reads them,
# and for each element that their result is broadcast to.  Each row of a 1000 x 1000 matrix times
# functions of 1000 numbers, jax 0.10 and 0.12, ms: cos 1.0, 2.0; sin 3.1, 1.3; tan 12, 20; and the
# other functions, whose results are stored, 0.1 to 0.2.
_TAKEN_FOR_QUICK = frozenset(f"jaxpr.{name}" for name in ("cos", "sin", "tan"))
# Functions that jaxpr-expand-elementary writes as polynomials, which XLA takes for quick ones, too.
_POLYNOMIALS = frozenset(
    f"jaxpr.{name}" for name in ("acos", "asin", "atan", "atan2", "cbrt", "pow", "rem")
)
_COMPLEX_POLYNOMIALS = frozenset(
    f"jaxpr.{name}" for name in ("cos", "exp", "log", "sin", "sqrt", "tanh")
)
# That pass leaves functions of fewer elements alone.  Microseconds of a program that is nothing but
# a sine, by its elements, jax 0.10 and 0.12, by XLA and with the pass; and of an iteration of a
# loop with one:
#    64    6, 14     7, 15      0.15, 0.11   0.15, 0.11
#   256    6, 14     7, 16      0.61, 0.42   0.58, 0.38
# 1,000   15, 14    18, 17
# XLA starts no thread for a program that it thinks is short.
MIN_ELEMENTS_OF_POLYNOMIALS = 256
# The ops that a function of complex numbers counts as.
_OF_COMPLEX = 80
_STORED = FUNCTIONS | SLOW.keys()


@functools.cache
def is_recomputed(signature: Signature) -> bool:
    """Whether an op is a slow function that XLA computes again in each kernel that reads it, and
    for each element that it is broadcast to."""
    if signature.name in _TAKEN_FOR_QUICK:
        return True
    if elements(signature.results[0]) < MIN_ELEMENTS_OF_POLYNOMIALS:
        return False
    return signature.name in _POLYNOMIALS or _is_complex_polynomial(signature)


@functools.cache
def is_stored_if_shared(signature: Signature) -> bool:
    """Whether XLA computes an op once and stores the result if several kernels read it.  Found from
    the ops of compiled programs in which three kernels read a value, jax 0.10 and 0.12."""
    match signature.name:
        case "jaxpr.div":
            # Division by a single number becomes a product.
            return elements(signature.operands[1]) > 1
        case "jaxpr.integer_pow":
            # Powers become products, and quotients.
            return signature.named["y"].value < 0
        case name:
            return name in _STORED and not is_recomputed(signature)


@functools.cache
def ops_per_element(signature: Signature) -> int:
    """As how many ops an op counts for each element that a fusion computes."""
    if _is_complex_polynomial(signature):
        return _OF_COMPLEX
    return SLOW.get(signature.name, signature.name in FUSED)


def _is_complex_polynomial(signature: Signature) -> bool:
    """Whether an op is a function of complex numbers that jaxpr-expand-elementary expands."""
    if signature.name not in _COMPLEX_POLYNOMIALS:
        return False
    return dtypes.issubdtype(aval_of(signature.operands[0]).dtype, np.complexfloating)


def kept_call() -> ir.Attribute:
    """The ``jaxpr.ctx`` of a call that XLA must not inline: operands and results are stored."""
    return ir.DictAttr.get({"xla_metadata": codec.encode({"inlineable": "false"})})


def is_kept_call(signature: Signature) -> bool:
    """Whether a signature is that of a call with this ``jaxpr.ctx``."""
    ctx = signature.named.get("jaxpr.ctx")
    if ctx is None:
        return False
    with context():
        return bool(ctx == kept_call())


_INLINED = frozenset(
    f"jaxpr.{name}"
    for name in ("closed_call", "custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr", "jit")
)


def inlined_calls(body: FunctionView) -> dict[int, str]:
    """The calls that XLA inlines before it fuses: the callees by the index of the op."""
    calls = {}
    for index, name in enumerate(body.names):
        if name in _INLINED:
            signature = body.signatures[index]
            if not is_kept_call(signature):
                calls[index] = signature.named[CALLEES[name]].value
    return calls
