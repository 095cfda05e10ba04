"""The dialect to StableHLO, by JAX's lowering rules."""
