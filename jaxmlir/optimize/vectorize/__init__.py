"""Passes that compute alike things together."""
