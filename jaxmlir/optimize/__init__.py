"""Optimizing passes; the modules of this folder itself are what several of them use."""
