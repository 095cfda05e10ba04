"""Rewrites for XLA's CPU compiler."""
