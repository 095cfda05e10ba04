"""Rules for the ops that refer to functions, one file each.

JAX's rules work on jaxprs, so for an op like ``scan`` they would have to be given the body as a
jaxpr and their result be imported back.  The rules here transform the body by the pass itself, once
per pattern, and write the op around it.  An op that has no rule here, or one that its rule declines
(an attribute or effect it does not know), is left to JAX's.
"""

from __future__ import annotations

import functools

from jaxmlir.passes.higher_order._rule import Halves, HigherOrderRule, Linearization, Written

__all__ = ["Halves", "HigherOrderRule", "Linearization", "Written", "all_rules"]


@functools.cache
def all_rules() -> dict[str, HigherOrderRule]:
    """The rules by op name.  They use the passes, which use them, so they load late."""
    from jaxmlir.passes.higher_order.call import Call
    from jaxmlir.passes.higher_order.cond import Cond
    from jaxmlir.passes.higher_order.custom_jvp import CustomJvp
    from jaxmlir.passes.higher_order.custom_linear_solve import CustomLinearSolve
    from jaxmlir.passes.higher_order.custom_vjp import CustomLin, CustomVjp
    from jaxmlir.passes.higher_order.linear_call import LinearCall
    from jaxmlir.passes.higher_order.remat import Remat
    from jaxmlir.passes.higher_order.scan import Scan
    from jaxmlir.passes.higher_order.while_loop import While

    return {
        "jaxpr.call": Call("call_jaxpr"),
        "jaxpr.closed_call": Call("call_jaxpr"),
        "jaxpr.cond": Cond(),
        "jaxpr.custom_jvp_call_jaxpr": CustomJvp(),
        "jaxpr.custom_lin": CustomLin(),
        "jaxpr.custom_linear_solve": CustomLinearSolve(),
        "jaxpr.custom_vjp_call_jaxpr": CustomVjp(),
        "jaxpr.eval_jaxpr": Call("call_jaxpr"),
        "jaxpr.jit": Call("jaxpr", "name", "inline", "keep_unused", "compiler_options_kvs"),
        "jaxpr.linear_call": LinearCall(),
        "jaxpr.remat2": Remat(),
        "jaxpr.scan": Scan(),
        "jaxpr.while": While(),
    }
