"""Passes that batch ops that are alike."""
