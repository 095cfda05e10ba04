"""Analyses of a program: they find facts without changing it."""
