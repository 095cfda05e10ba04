"""Passes that trade arithmetic for memory."""
