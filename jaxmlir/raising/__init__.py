"""StableHLO back into the dialect: a program that can be differentiated, batched and optimised.

JAX's lowering is nearly one to one, so raising is a table: for each op of StableHLO and CHLO, a
rule writes the op of the dialect. :mod:`jaxmlir.raising.writer` walks the module; ``elementwise``,
``arrays``, ``reductions``, ``control`` and ``linalg`` have the rules; ``sizes`` finds the symbolic
dimensions that sizes stand for.

Ops of the dialect are written directly, not bound as JAX primitives under a trace. StableHLO has
the type of every result, so only symbolic sizes need abstract evaluation, and an op keeps its MLIR
location, which a trace has no place for. This takes 30 us an op; tracing the source takes 75 to 98.
If JAX has a function but no primitive for an op, the function is traced on the spot
(``BodyWriter.traced``). The verifier, which runs JAX's abstract evaluation, then checks whether
each op was understood: a result of another type is an error, not another number.

Raising cannot restore what lowering has lost: custom derivative rules, the names of pytree nodes,
weak types.
"""
