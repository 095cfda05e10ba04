"""``jaxpr-jacobian-sparsity`` and ``jaxpr-hessian-sparsity``: patterns of derivatives, printed.

The pattern is printed on stderr as a picture in braille, eight places a character, with the
products with vectors that tell the matrix; of symbolic shapes, as the pieces that it is made of.
Ops that make it dense are named in remarks, with the user's line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from jaxmlir.passes.base import Pass
from jaxmlir.sparse.detect import hessian_sparsity, jacobian_sparsity
from jaxmlir.sparse.pattern import SparsityPattern

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class _PrintSparsity(Pass):
    """Base of the passes that print a pattern.

    Options:
      func: the function; by default the public one.
      argnums: the flat arguments that it is differentiated in.
    """

    pattern: ClassVar[Callable[..., Any]]
    """Finds the pattern, given the program, the function and the arguments."""
    func: str = ""
    argnums: tuple[int, ...] = (0,)

    def run(self, program: Module) -> bool:
        pattern = type(self).pattern(program, program.chosen(self.func), self.argnums)
        print(pattern, file=sys.stderr)
        if isinstance(pattern, SparsityPattern):
            print(pattern.coloring(), file=sys.stderr)
        return False


class PrintJacobianSparsity(_PrintSparsity):
    """Print which elements of a function's Jacobian can be other than zero, on stderr."""

    name: ClassVar[str] = "jaxpr-jacobian-sparsity"
    pattern: ClassVar = jacobian_sparsity


class PrintHessianSparsity(_PrintSparsity):
    """Print which elements of a function's Hessian can be other than zero, on stderr.

    Options:
      func: the function, of one scalar result; by default the public one.
    """

    name: ClassVar[str] = "jaxpr-hessian-sparsity"
    pattern: ClassVar = hessian_sparsity
