"""A program as a JAX primitive: calls, devices, and what JAX's transformations make of it."""
