"""Passes on loops: raising, hoisting, fusing and rolling."""
