"""Rewrites of the functions of a module that need no rules of JAX."""
