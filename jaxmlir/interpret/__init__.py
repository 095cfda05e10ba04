"""Evaluation of a program op by op, and custom interpreters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxmlir.support.lazy import lazy_names

__all__ = ["Frame", "Hook", "Interpreter", "Node", "Step"]

_EXPORTS = dict.fromkeys(__all__, "interpreter")
if TYPE_CHECKING:
    from jaxmlir.interpret.interpreter import Frame as Frame
    from jaxmlir.interpret.interpreter import Hook as Hook
    from jaxmlir.interpret.interpreter import Interpreter as Interpreter
    from jaxmlir.interpret.interpreter import Node as Node
    from jaxmlir.interpret.interpreter import Step as Step
else:
    __getattr__ = lazy_names(__name__, _EXPORTS, ())
