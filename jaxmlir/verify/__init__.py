"""Checks that a module is a valid program."""
