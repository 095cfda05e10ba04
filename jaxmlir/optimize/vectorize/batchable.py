"""Which ops cost no more per member in a batch than alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxmlir._compat import batching
from jaxmlir.analysis.call_graph import CALLS
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.op_counts import is_plain_signature
from jaxmlir.analysis.purity import CountedOps, is_pure, is_same_in_a_batch
from jaxmlir.dialect import codec, custom_rule_ops, ops, primitives
from jaxmlir.dialect.builder import reached_ops
from jaxmlir.dialect.ir import ir, symbol_uses
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.errors import ExportError
from jaxmlir.support.lazy import memoized
from jaxmlir.transforms.higher_order import has_rule
from jaxmlir.transforms.templates import Rules

# Time apart / batched of convolutions of one image each: k images of n x n, two kernels of 3 x 3,
# from c features to f, and from f to f.
#   k  8, n   8, c  4, f   8  2.0     k  8, n  32, c  16, f  32  1.05
#   k  8, n  16, c  8, f  16  2.4     k  4, n  64, c  32, f  64  0.95
#   k  8, n  32, c  3, f  16  2.7     k  8, n  16, c  64, f  64  1.1
#   k  4, n  64, c  8, f   8  2.0     k 16, n   8, c  64, f 128  1.3 to 1.8
# For one image and at most ``NARROW`` result features, the gradient in the kernel takes 4 to 5
# times as long as the convolution, else as long: of the work of the convolution and both gradients,
# a batch saves ``OF_NARROW``.
NARROW = 16
OF_NARROW = 0.5
# The number of the operand that has to be the same for all members: a batch of kernels is a grouped
# convolution, which is slow.
COMMON = {"jaxpr.conv_general_dilated": 1}
# Ops with functions that cost no more per member in a batch.
BATCHED_CALLS = CALLS | {
    f"jaxpr.{name}" for name in ("custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr", "remat2")
}


def can_batch(program: Module, signature: Signature) -> bool:
    """Whether ops of a signature are pure, give the same results in a batch, and have batching
    rules; for calls with custom derivatives, all ops of their functions need rules as well.

    Some of JAX's primitives have no rules, such as those for sparse matrices or exported functions,
    and a user's primitives need not have any.
    """
    if not is_pure(signature.name) or not is_same_in_a_batch(signature.name, signature.types):
        return False
    if signature.operands and not _has_rule(signature.name):
        return False
    if signature.name not in custom_rule_ops.OPS:
        return True
    functions = program.functions
    uses = [use for _, attr in signature.attributes for use in symbol_uses(attr)]
    return all(_has_rule(name) for op, name in reached_ops(functions, *uses) if op.operands)


def _has_rule(name: str) -> bool:
    if has_rule(name):
        return True
    try:
        return primitives.of_op(name) in batching.fancy_primitive_batchers
    except ExportError:
        return False


# Ops that run another function.  Not calls with a VJP rule, whose rule covers all of their body.
_RUN_ANOTHER = {*BATCHED_CALLS, "jaxpr.scan"} - {"jaxpr.custom_vjp_call_jaxpr"}


class SharedRules:
    """Tells whether a batch runs ops with a VJP rule once for all its members.

    It does if no operand differs between the members.  Outside of a batch, the rule of each member
    gets a separate cotangent.
    """

    def __init__(self, program: Module):
        self._program = program
        self._counted = CountedOps(program)

    def of_op(self, signature: Signature, varying: Callable[[], Sequence[bool]]) -> bool:
        """Whether an op of a signature is or runs such an op.

        Args:
          varying: gives which operands differ between members.
        """
        if not self._counted.has_vjp_rule(signature):
            return False
        pattern = varying()
        if True not in pattern:
            return True
        if signature.name not in _RUN_ANOTHER:
            return False
        return self.of_body(FunctionView(self._program.function(called(signature))), pattern)

    def of_body(self, body: FunctionView, varying: Sequence[bool]) -> bool:
        """Whether a function runs such an op.

        Args:
          varying: which arguments differ between members.
        """
        differ = {v for v, is_varying in enumerate(varying) if is_varying}
        for signature, operands, results in zip(
            body.signatures, body.operands, body.results, strict=True
        ):
            pattern = [v in differ for v in operands]
            if self.of_op(signature, lambda pattern=pattern: pattern):
                return True
            if True in pattern:
                differ.update(range(*results))
        return False


def called(signature: Signature) -> Any:
    """The symbol of the callee of a call, or of the body of a scan; ``None`` for other ops."""
    attributes = signature.named
    names = (name for name in ("jaxpr", "call_jaxpr") if name in attributes)
    return next((attributes[name].value for name in names), None)


class Batchable:
    """Tells which ops give the same results in a batch and cost no more per member than alone."""

    def __init__(self, rules: Rules):
        self._rules = rules
        self._shared = SharedRules(rules.program)

    def is_so(self, signature: Signature, is_common: Callable[[int], bool]) -> bool:
        """Whether ops of a signature are such ops.

        Args:
          is_common: whether an operand is the same for all members.
        """
        common = COMMON.get(signature.name)
        if (common is not None and not is_common(common)) or not self._may_be(signature):
            return False
        return not self._shared.of_op(
            signature, lambda: [not is_common(j) for j in range(len(signature.operands))]
        )

    @memoized
    def _may_be(self, signature: Signature) -> bool:
        name = signature.name
        record = ops.record_of(name)
        if record is None or signature.effects is not None or not is_plain_signature(signature):
            return False
        if not can_batch(self._rules.program, signature):
            return False
        if name in BATCHED_CALLS:
            body = FunctionView(self._rules.program.function(called(signature)))
            # It is not known which of its values are common.
            return all(self.is_so(inner, lambda _: False) for inner in body.signatures)
        return not record.functions


def is_slow_alone(dimension_numbers: ir.Attribute, result: ir.Type) -> bool:
    """Whether the gradient in the kernel of a convolution is slow outside of a batch: if it has one
    image and few result features."""
    batch, feature, *_ = codec.decode(dimension_numbers).out_spec
    return result.shape[batch] == 1 and result.shape[feature] <= NARROW
