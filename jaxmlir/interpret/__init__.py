"""Evaluation of a program op by op, and interpreters of one's own."""

from __future__ import annotations

from jaxmlir.support.lazy import lazy_names

__all__ = ["Frame", "Hook", "Interpreter", "Node", "Step"]

_EXPORTS = {
    "Frame": "interpreter",
    "Hook": "interpreter",
    "Interpreter": "interpreter",
    "Node": "interpreter",
    "Step": "interpreter",
}
__getattr__ = lazy_names(__name__, _EXPORTS, ())
