"""Rewrites for XLA's TPU compiler."""
