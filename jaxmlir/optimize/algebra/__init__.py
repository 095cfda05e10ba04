"""Passes that use laws of linear algebra and of logarithms."""
