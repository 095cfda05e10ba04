"""A program as a JAX primitive: calls, devices, and the rules for JAX's transformations."""
