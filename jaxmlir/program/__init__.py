"""``Program``, the object that users hold: made by tracing, transformed, run and saved."""
