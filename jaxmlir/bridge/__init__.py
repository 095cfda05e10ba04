"""Jaxprs to the dialect and back, on every supported version of JAX."""
