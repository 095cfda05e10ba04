"""Differentiation, transposition, batching and inversion of functions of the dialect."""
