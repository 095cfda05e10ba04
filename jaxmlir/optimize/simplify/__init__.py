"""Passes that make programs smaller and change nothing else."""
