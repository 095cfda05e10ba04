"""StableHLO back into the dialect: a program that can be differentiated, batched and optimised.

JAX's lowering is nearly one to one, so the way back is a table: for each op of StableHLO and CHLO a
rule that writes the op of the dialect (:mod:`jaxmlir.raising.writer` walks the module;
``elementwise``, ``arrays``, ``reductions``, ``control`` and ``linalg`` have the rules).  Sizes that
are not numbers are followed to be symbolic dimensions (``sizes``).

Ops of the dialect are written directly, and not bound as JAX primitives under a trace: StableHLO
has the type of every result, so nothing has to be evaluated abstractly (but symbolic sizes), and an
op keeps its MLIR location, which a trace has no place for.  That takes 30 us an op, where the
trace of the source takes 75 to 98.  What JAX has no primitive for is a function of JAX, which is
traced where it is met (``Writer.traced``).  The verifier, which asks JAX's abstract evaluation,
then sees whether each op was understood: a result of another type is an error, not another number.

What is lost was lost when the program was lowered: custom derivative rules, the names of pytrees'
nodes, weak types.
"""
