"""``jaxpr-pad-stencils``: an array that is read at shifted places is stored with a margin around
it.

A step of a stencil reads an array and its neighbours, on a periodic grid

    roll(u, 1)[i] = u[(i - 1) mod n]

and in its derivative, or on a grid with zeros around it, ``pad(u, 1, -1)[i] = u[i - 1]``, or zero.
Fused into the arithmetic that uses it, each of these is a case distinction for every element, and
no compiler vectorizes that.  If the array is stored with its margin, a *halo*, once, all of them
are slices of it::

    roll(u, k), roll(u, l), ...         ->  p = wrap(u);    p[m-k : m-k+n], p[m-l : m-l+n], ...
    pad(u, a, b, z), pad(u, c, d, z)    ->  p = pad(u, max(a, c), max(b, d), z);  p[...], p[...]

and the loops that read them are plain ones.  ``p`` is behind a fence
(:mod:`jaxmlir.optimize.cpu.materialize_shared`), so that it is not fused into its users in turn.

The transpose of a roll, which JAX writes as two padded parts added up one after the other, is a
roll again::

    a + pad(u[k:], 0, k) + pad(u[:k], n-k, 0)   ->   a + roll(u, -k)

One along the last dimension that no margin takes the place of is written as its parts again.

No bit of a roll or a padded array changes; sums may be added up in another order, and a zero so
written as a sum may have another sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxmlir.analysis.manager import outside_kernels
from jaxmlir.dialect.builder import drop_dead_ops
from jaxmlir.dialect.ir import scope
from jaxmlir.optimize.barriers import fences
from jaxmlir.optimize.cpu.pad_stencils.moves import MOVES, Moves
from jaxmlir.optimize.cpu.pad_stencils.rolls import join_parts, part_again
from jaxmlir.optimize.cpu.pad_stencils.views import groups_of
from jaxmlir.optimize.cpu.pad_stencils.write import write
from jaxmlir.passes.base import Amount, Count, Pass
from jaxmlir.transforms.templates import Rules

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Gradients of a few steps of stencils, without / with a halo, on two cores, jax 0.10 and 0.12:
#   2-D periodic, 64 x 64      1.5, 1.5      Lorenz-96, 10,000     1.2, 1.5
#   128 x 128                  1.7, 2.4      100,000               1.5, 1.1
#   512 x 512                  1.3, 1.1      2-D zeros, 64 x 64    2.0, 1.3
#   3-D periodic, 32^3         3.9, 2.5      256 x 256             1.0, 1.2
#   64^3                       5.5, 1.5      in a scan, 128 x 128  1.1, 1.3
# With 32 x 32 numbers a gradient takes as long as the starting of its kernels.
MIN_ELEMENTS = 4096
# The margin may be this part of the array, an estimate: what it costs is to be written and read,
# once for all of the shifts.
MARGIN = 0.25


class PadStencils(Pass):
    """Store arrays that are read at shifted places with a margin, of which these are slices.

    Options:
      min-elements: arrays of fewer elements are left alone.
      margin: how large a part of the array its margin may be.
    """

    name: ClassVar[str] = "jaxpr-pad-stencils"
    compilers: ClassVar = ("cpu",)
    min_elements: Count = MIN_ELEMENTS
    margin: Amount = MARGIN

    def run(self, program: Module) -> bool:
        return halo(program, self.min_elements, self.margin) > 0


def halo(
    program: Module,
    min_elements: int = MIN_ELEMENTS,
    margin: float = MARGIN,
) -> int:
    """Stores arrays with margins, in place; how many."""
    put = fences(program)
    if put is None:
        return 0
    count, changed = 0, False
    with scope():
        rules = Rules(program)
        for function in outside_kernels(program, MOVES):
            moves = Moves(program, function)
            joined = join_parts(rules, moves)
            if joined:
                drop_dead_ops(function)
                moves = Moves(program, function)
            groups = groups_of(moves, min_elements, margin)
            stored = {view.y for group in groups for view in group.views}
            part_again(rules, moves, {y: roll for y, roll in joined.items() if y not in stored})
            for group in groups:
                write(rules, group, put)
            if joined or groups:
                drop_dead_ops(function)
                changed = True
            count += len(groups)
    if changed:
        program.changed()
    return count
