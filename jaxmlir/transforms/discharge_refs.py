"""``jaxpr-discharge-refs``: references that a function makes itself become values.

A function may keep state in references: ``new_ref`` makes one, ``get``, ``swap`` and ``addupdate``
read and write it, called functions take it as an argument, and ``freeze`` ends it::

    r = new_ref(x);  r[0] += y;  freeze(r)    =    x.at[0].add(y)

Seen from outside such a function is pure, and there is an equal one without references: a read
gives what was written last, and loops, branches and calls take and return the values they change.

Derivatives and batches are those of the pure form, so passes that take them do this first.
References that the program is given stay, and so do those of kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.dialect.ir import functions, ir, scope
from jaxmlir.dialect.ops.effects import MAKERS
from jaxmlir.passes.base import Pass

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module


class DischargeRefs(Pass):
    """Turn references that functions make themselves into values."""

    name: ClassVar[str] = "jaxpr-discharge-refs"

    def run(self, program: Module) -> None:
        discharge_refs(program)


def makes_references(program: Module) -> bool:
    """Whether functions of the module make references."""
    with scope():
        for function in functions(program.module_as_is).values():
            for block in function.body:
                for op in block.operations:
                    if type(op) is ir.OpView and op.name in MAKERS:
                        return True
    return False


def discharge_refs(program: Module) -> None:
    """Rewrites the functions that make references, under the names they have.

    Raises:
      TransformError: an op that takes or makes a reference has no pure form; names it.
    """
    if not makes_references(program):
        return
    # Few programs need these.
    from jaxmlir.transforms.pure_functions import make_pure
    from jaxmlir.transforms.templates import Rules

    program.trace_rules()
    with scope():
        make_pure(Rules(program))
    program.changed()
