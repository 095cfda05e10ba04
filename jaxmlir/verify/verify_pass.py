"""``jaxpr-verify``: check the program, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.passes.base import Pass

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class Verify(Pass):
    """Verify the program: structure, symbols, and types by JAX's abstract evaluation.

    The same check runs after every pass unless ``--verify-each=0``; as a pass of its own it checks
    a file that was written by hand or by another tool.
    """

    name: ClassVar[str] = "jaxpr-verify"

    def run(self, program: Module) -> bool:
        program.verify()
        return False
