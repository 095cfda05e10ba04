"""Analyses of a program: facts that are found without changing it."""
