"""Which way to get along with less memory a budget takes.

Ways are tried, those that run fastest before those that take least memory, until one is within the
budget.  What a program takes is estimated (:mod:`_peak`); or it is compiled for JAX's default
backend, whose compiler says it.  An estimate does not know what a compiler fuses, and in which
order it runs what could be run in several; but what it was off by the last time it is off by again,
more or less, and a way that is within the budget by that is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jaxmlir import targets
from jaxmlir.analysis.call_graph import SCANS
from jaxmlir.analysis.manager import analyses_of
from jaxmlir.dialect.ir import module_bytecode
from jaxmlir.errors import JaxmlirError, message_of
from jaxmlir.optimize.memory.remat.peak import in_units, peak_beside_results
from jaxmlir.optimize.memory.remat.price import MEMORY
from jaxmlir.optimize.memory.remat.straight import SEGMENTS
from jaxmlir.passes.remarks import listening, remark, remarks_wanted

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

# Of straight-line code an estimate is to be so much below the budget, a part of it, if it can be.
# At 0.05, programs took 0.41 to 0.60 of their memory for a budget of 0.5, at 0.2 up to 0.51, where
# they took less at all.
MARGIN = 0.25
# What less memory would not be worth computing more: a part of the least that was found.
MIN_GAIN = 0.005
# How many ways are compiled at most, and how many of those that are not within the budget by what
# estimates were off by, where none is: these can be off by less.
MOST = 8
LAST = 3
# What a tile of a batch may take, of the budget.
TILES = (0.5, 0.125)


@dataclass(frozen=True)
class Way:
    """A way to get along with less memory.

    Attributes:
      price: what a byte is worth, beyond the time that it takes to store and read it.
      depth: how deep loops are segmented.
      tile_bytes: what a tile of a batch takes; ``None``: no batch is tiled.
      segments: how many there are of straight-line code.
      fences: whether what XLA would fuse into several ops, and compute for each, is stored, where
        an element is not cheap.  What it fuses such an op into reads all that it is computed of.
        Of gradients, by their memory: stencils 0.14 to 0.35, a residual network 0.6; but also 1.35.
    """

    price: float = 0.0
    depth: int = 0
    tile_bytes: int | None = None
    segments: int = 1
    fences: bool = True


# Ways for loops.
_LOOPS = (
    *(Way(price) for price in (0.0, MEMORY, 4.0, 16.0, 64.0, 1e3, 1e9)),
    *(Way(price, depth) for depth in (1, 2, 3) for price in (MEMORY, 64.0, 1e9)),
)


def within(
    program: Module, budget: float, measure: bool, apply: Callable[[Module, Way], bool]
) -> Way | None:
    """The first way that is within a budget, or else takes least; ``None``: as it is.

    Args:
      budget: a part of what the program takes, or, from 2 on, bytes.
      measure: compile, rather than estimate.
      apply: goes a way, in place.
    """
    search = _Search.of(program, budget, measure, apply)
    way = search.way()
    if remarks_wanted():
        size, says = search.sizes.get(way), "the compiler"
        if size is None:
            size, says = search.estimates[way], "an estimate"
        remark(
            program.function(program.name).operation,
            f"needs {in_units(size)} of temporary memory, by {says}; the budget is "
            f"{in_units(search.allowed)}",
        )
    return way


@dataclass
class _Search:
    """The ways of a program that were tried.

    Attributes:
      allowed: bytes.
      off: what estimates are off by, as a factor; ``None``: nothing is compiled.
      estimates: the bytes that programs take, in the order in which they were tried.
      sizes: what the compiler says.
      known: the same of compiled programs.
    """

    program: Module
    apply: Callable[[Module, Way], bool]
    allowed: float
    off: float | None
    estimates: dict[Way | None, float]
    sizes: dict[Way | None, float] = field(default_factory=dict)
    known: dict[bytes, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, program: Module, budget: float, measure: bool, apply: Callable[[Module, Way], bool]
    ) -> _Search:
        estimate, size = peak_beside_results(program), None
        if measure:
            try:
                size = _compiled(program)
            except _NOT_COMPILED as e:
                why = message_of(e).partition("\n")[0]
                remark(program.function(program.name).operation, f"memory is estimated: {why}")
        now = estimate if size is None else size
        allowed = budget if budget >= 2 else budget * now
        new = cls(program, apply, allowed, None, {None: estimate})
        if size is not None:
            new.off = size / max(estimate, 1.0)
            new.sizes[None] = new.known[module_bytecode(program.module)] = size
        return new

    def way(self) -> Way | None:
        """The first way that is within the budget, or else takes least."""
        for way in self._ways():
            found = self._estimated(way)
            if found is not None:
                return found
        if self.off is None:
            return _first_of_least(self.estimates)
        for way in sorted(self.estimates, key=self.estimates.__getitem__)[:LAST]:
            found = None if way in self.sizes else self._measured(way)
            if found is not None:
                return found
        return _first_of_least(self.sizes)

    def _ways(self) -> Iterator[Way]:
        """Ways, those that run fastest before those that take least memory."""
        have_loops = analyses_of(self.program).graph.outside_kernels(SCANS)
        yield from _LOOPS if have_loops else _LOOPS[:1]
        least = self._least()
        for share in TILES:
            yield replace(least, tile_bytes=int(share * self.allowed))
        least = self._least()
        for segments in SEGMENTS:
            yield replace(least, segments=segments)

    def _least(self) -> Way:
        """The way that takes least, by estimates."""
        return min(self.estimates, key=self.estimates.__getitem__) or Way()

    def _gone(self, way: Way) -> Module:
        trial = self.program.clone()
        with listening(None, ""):
            self.apply(trial, way)
        return trial

    def _estimated(self, way: Way) -> Way | None:
        """The way, if it is within the budget; nothing is compiled that is not to be expected to
        be, but for the first way: what fences do is not estimated."""
        trial = self._gone(replace(way, fences=False))
        estimate = self.estimates[way] = peak_beside_results(trial)
        if self.off is None:
            margin = MARGIN if way.segments > 1 else 0
            return way if estimate <= (1 - margin) * self.allowed else None
        is_first = len(self.sizes) == 1
        if not is_first and (estimate * self.off > self.allowed or len(self.known) > MOST):
            return None
        return self._measured(way)

    def _measured(self, way: Way) -> Way | None:
        """The way, with fences or without, if it is within the budget by the compiler."""
        estimate, sizes = self.estimates[way], []
        for fences in (True, False):
            way = replace(way, fences=fences)
            trial = self._gone(way)
            code = module_bytecode(trial.module)
            if code not in self.known:
                self.known[code] = _compiled(trial)
            self.sizes[way] = self.known[code]
            if self.sizes[way] <= self.allowed:
                return way
            sizes.append(self.sizes[way])
        self.off = min(sizes) / max(estimate, 1.0)
        return None


def _first_of_least(sizes: dict[Way | None, float]) -> Way | None:
    least = min(sizes.values())
    return next(way for way, size in sizes.items() if size <= (1 + MIN_GAIN) * least)


# What lowering and compiling raise for programs that JAX's default backend cannot run: our own
# errors of ops, JAX's and XLA's.
_NOT_COMPILED = (JaxmlirError, RuntimeError, ValueError, NotImplementedError)


def _compiled(program: Module) -> float:
    """The bytes that a program takes besides arguments and results, by the compiler."""
    if not targets.is_here(program.target):
        raise NotImplementedError(f"there is no compiler for {program.target} here")
    analysis = program.lower().compile().memory_analysis()
    if analysis is None:
        raise NotImplementedError("the compiler does not say what memory a program takes")
    return float(analysis.temp_size_in_bytes)
