"""Helpers that know nothing of MLIR or JAX programs."""
