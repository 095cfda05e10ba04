"""Helpers that do not depend on MLIR or JAX programs."""
