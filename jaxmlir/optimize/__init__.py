"""Optimizing passes; the modules directly in this folder are shared by several of them."""
