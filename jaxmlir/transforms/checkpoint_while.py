"""``jaxpr-checkpoint-while``: let ``while`` loops be differentiated in reverse.

Reverse mode visits the states of a loop backwards, but their number is known only when the loop
runs: JAX refuses.  A ``checkpointed_while`` computes the same as the ``while``, and says how many
of its states may be kept when it is differentiated; the others are recomputed.  Its derivatives are
loops of that kind too, so the choice is made once, for derivatives of any order.
:mod:`jaxmlir.transforms.checkpointing` has the algorithm.
"""

from __future__ import annotations

from typing import ClassVar

from jaxmlir.analysis.call_graph import KERNELS
from jaxmlir.analysis.function_view import ops_of
from jaxmlir.dialect import codec
from jaxmlir.dialect.builder import create, ops_with_symbols, put_instead, reachable, symbols_of
from jaxmlir.dialect.ir import ir, scope
from jaxmlir.dialect.module import Module
from jaxmlir.errors import ArgumentError
from jaxmlir.passes.base import Pass
from jaxmlir.support.options import integer

POLICIES = ("error", "checkpointed")


class CheckpointWhile(Pass):
    """Replace each while by a checkpointed_while, which has a reverse derivative.

    A loop with side effects stays as it is: reverse mode would repeat them.  So does one in a
    kernel, which has no derivative.

    Options:
      checkpoints: how many states of a loop are kept, at least 1.
      func: the function whose loops are meant, those of functions it refers to included; by default
        the public one.
    """

    name: ClassVar[str] = "jaxpr-checkpoint-while"
    checkpoints: int
    func: str = ""

    def run(self, program: Module) -> None:
        symbol = program.function(program.chosen(self.func)).name.value
        checkpoint_while(program, symbol, "checkpointed", self.checkpoints)


def checkpoint_while(
    program: Module, symbol: str, while_loops: str, checkpoints: int | None
) -> None:
    """Prepares the loops of ``@symbol`` for reverse mode, as a transformation's options say.

    Args:
      while_loops: ``"error"`` leaves them as they are; ``"checkpointed"`` replaces them.
      checkpoints: how many states of each loop are kept.

    Raises:
      ArgumentError: there is no such option, or the number is missing or not positive.
    """
    if while_loops not in POLICIES:
        raise ArgumentError(
            f"while_loops: expected one of {', '.join(map(repr, POLICIES))}, got {while_loops!r}"
        )
    if while_loops == "error":
        if checkpoints is not None:
            raise ArgumentError(f"checkpoints={checkpoints} needs while_loops='checkpointed'")
        return
    num_states = integer(checkpoints)
    if num_states is None or num_states < 1:
        raise ArgumentError(
            "while_loops='checkpointed' needs checkpoints=N, how many states of a loop to keep, at "
            f"least 1; got {checkpoints!r}"
        )
    with scope():
        functions = program.functions
        reached = reachable(functions, symbol)
        # A kernel has no derivative, and its compiler knows no loops but while.
        ops = (named_op for name in reached for named_op in ops_with_symbols(functions[name]))
        kernels = {kernel for op, name in ops if name in KERNELS for kernel in symbols_of(op)}
        for name in reached - reachable(functions, *kernels):
            for op, op_name, operands in list(ops_of(functions[name])):
                if op_name == "jaxpr.while" and "jaxpr.effects" not in op.attributes:
                    attributes = dict(op.attributes.items())
                    attributes["checkpoints"] = codec.encode(num_states)
                    with ir.InsertionPoint(op), op.location:
                        types = op.results.types
                        new = create("jaxpr.checkpointed_while", types, operands, attributes)
                    put_instead(op, new)
    program.changed()
