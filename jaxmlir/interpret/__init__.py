"""Evaluation of a program op by op, and interpreters of one's own."""
