"""Estimates the run time of XLA's optimized HLO on machines that are not present.

The TPU compiler writes the expected cycles of each instruction into the HLO.  On a GPU, each
instruction outside of a fusion is a kernel: its time is that of its launch, its bytes or its
products, whichever is longest.  Both are summed over the computations called, loop bodies times the
trip count.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxmlir.targets.costs import Costs

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%([\w.\-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w\-]+)\((.*)$"
)
_ARRAY = re.compile(r"([a-z]+)(\d*)\w*\[([\d,]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_CONTRACTED = re.compile(r'lhs_contracting_dim(?:ension)?s"?[=:][{\[]([\d,"]*)[}\]]')
# Instructions that start no kernel.
_FREE = frozenset(
    "after-all bitcast call conditional constant get-tuple-element parameter partition-id tuple "
    "while async-done async-update copy-done".split()
)


class WorkEstimate(NamedTuple):
    """The work of a compiled program, as far as its HLO says."""

    cycles: int = 0
    """Cycles as estimated by the TPU compiler; 0 for other compilers."""
    kernels: int = 0
    """The number of kernels that are started."""
    bytes: int = 0
    """Bytes that kernels read and write."""
    dot_flops: int = 0
    """Floating-point operations of matrix products."""
    nanoseconds: float = 0.0
    """The time of the cycles; without cycles, the sum over kernels of the longest of the times that
    the launch, the bytes and the products take by the table."""
    unknown_loops: int = 0
    """The number of loops with an unknown trip count, which is taken to be 1."""

    def __add__(self, other: object) -> WorkEstimate:
        if not isinstance(other, WorkEstimate):
            return NotImplemented
        return WorkEstimate(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: int) -> WorkEstimate:
        """The work of ``count`` iterations; each unknown loop is still counted once."""
        repeated = WorkEstimate(*(count * value for value in self))
        return repeated._replace(unknown_loops=self.unknown_loops)


class Instruction(NamedTuple):
    """An instruction of a computation: its result's name and type, the op, the rest of the line."""

    name: str
    type: str
    op: str
    rest: str

    @property
    def operands(self) -> list[str]:
        return _NAME.findall(self.rest.split("), ")[0])

    def called(self, key: str) -> str:
        """The computation that an attribute names; empty if there is none."""
        match = re.search(rf"\b{key}=%([\w.\-]+)", self.rest)
        return match[1] if match else ""

    @property
    def branches(self) -> list[str]:
        """The computations of a conditional, of which one runs."""
        listed = re.search(r"branch_computations=\{([^}]*)\}", self.rest)
        if listed:
            return _NAME.findall(listed[1])
        return re.findall(r"(?:true|false)_computation=%([\w.\-]+)", self.rest)

    @property
    def trip_count(self) -> int | None:
        """The known trip count of a loop; ``None`` if it is not given."""
        said = _TRIPS.search(self.rest)
        return int(said[1]) if said else None


def estimate(text: str, costs: Costs, clock: float | None = None) -> WorkEstimate:
    """The estimated work of a module of optimized HLO on a device with these costs, whose compiler
    may write cycles of a clock, in cycles per nanosecond."""
    total = _HloCostAnalysis(text, costs).total()
    return total._replace(nanoseconds=total.cycles / clock) if clock else total


def computations(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of each computation of an HLO module, and the name of the entry."""
    instructions: dict[str, list[Instruction]] = {}
    current = entry = ""
    for line in text.splitlines():
        if not line.startswith(" ") and (head := _COMPUTATION.match(line)):
            current = head[2]
            instructions[current] = []
            entry = current if head[1] else entry
        elif current and (match := _INSTRUCTION.match(line)):
            instructions[current].append(Instruction(*match.groups()))
    return instructions, entry


class _HloCostAnalysis:
    """Adds up the work of computations, each analyzed once."""

    def __init__(self, text: str, costs: Costs):
        self._computations, self._entry = computations(text)
        self._costs = costs
        self._estimates: dict[str, WorkEstimate] = {}

    def total(self) -> WorkEstimate:
        """The work of a call."""
        return self.computation(self._entry)

    def computation(self, name: str) -> WorkEstimate:
        """The work of a computation, including what it calls."""
        if name not in self._estimates:
            self._estimates[name] = total = WorkEstimate()
            types = {i.name: i.type for i in self._computations.get(name, ())}
            for instruction in self._computations.get(name, ()):
                total += self._instruction(instruction, types)
            self._estimates[name] = total
        return self._estimates[name]

    def _instruction(self, instruction: Instruction, types: Mapping[str, str]) -> WorkEstimate:
        stated = WorkEstimate(sum(map(int, _CYCLES.findall(instruction.rest))))
        match instruction.op:
            case "while":
                return stated + self._loop(instruction)
            case "conditional":
                branches = map(self.computation, instruction.branches)
                return stated + max(
                    branches, key=lambda e: (e.cycles, e.nanoseconds), default=stated
                )
            case "call":
                return stated + self.computation(instruction.called("to_apply"))
            case "async-start":
                return stated + self.computation(instruction.called("calls"))
            case op if op in _FREE:
                return stated
        return stated + self._kernel(instruction, types)

    def _loop(self, loop: Instruction) -> WorkEstimate:
        body, condition = loop.called("body"), loop.called("condition")
        count = self._trips(condition) if loop.trip_count is None else loop.trip_count
        once = self.computation(body) + self.computation(condition)
        return once.times(1 if count is None else count) + WorkEstimate(unknown_loops=count is None)

    def _trips(self, condition: str) -> int | None:
        """The constant that a loop compares its counter with; the counter starts at 0."""
        constants = {}
        for i in self._computations.get(condition, ()):
            if i.op == "constant" and i.type.startswith("s32[]"):
                constants[i.name] = int(i.rest.split(")")[0])
            elif i.op == "compare" and "direction=LT" in i.rest:
                return constants.get(i.operands[-1])
        return None

    def _kernel(self, kernel: Instruction, types: Mapping[str, str]) -> WorkEstimate:
        inner = self._computations.get(kernel.called("calls"), ())
        if inner:
            moved = _moved(inner)
        else:
            moved = bytes_of(kernel.type) + sum(bytes_of(types.get(v, "")) for v in kernel.operands)
        flops = sum(_dot_flops(i, t) for i, t in self._inside(kernel, types))
        moving = 1e9 * moved / (self._costs.bandwidth or math.inf)
        nanoseconds = max(self._costs.launch, moving, flops * self._costs.dot_flop)
        return WorkEstimate(0, 1, moved, flops, nanoseconds)

    def _inside(
        self, kernel: Instruction, types: Mapping[str, str]
    ) -> Iterator[tuple[Instruction, Mapping[str, str]]]:
        """The instructions of a kernel, each with the types of the values of its computation."""
        yield kernel, types
        inner = self._computations.get(kernel.called("calls"), ())
        inner_types = {i.name: i.type for i in inner}
        for instruction in inner:
            yield from self._inside(instruction, inner_types)


def _moved(fused: Sequence[Instruction]) -> int:
    """The bytes that a fusion reads and writes; arrays that are sliced or updated in place count
    with that part only.

    Args:
      fused: the instructions of its computation, the root last.
    """
    makers = {i.name: i for i in fused}
    users: defaultdict[str, list[Instruction]] = defaultdict(list)
    for i in fused:
        for operand in set(i.operands):
            users[operand].append(i)
    read = sum(_read(i, users) for i in fused if i.op == "parameter")
    return read + _written(fused[-1], makers)


def _read(value: Instruction, users: Mapping[str, Sequence[Instruction]]) -> int:
    """The bytes of a value that its users read."""
    whole, part = bytes_of(value.type), 0
    for user in users[value.name]:
        is_first = user.operands[0] == value.name
        if user.op == "bitcast":
            part += _read(user, users)
        elif user.op in ("dynamic-slice", "gather", "slice") and is_first:
            part += bytes_of(user.type)
        elif user.op != "dynamic-update-slice" or not is_first:
            return whole
    return min(whole, part)


def _written(value: Instruction, makers: Mapping[str, Instruction]) -> int:
    """The bytes of a value that are written, where it is the root of a fusion."""
    match value.op:
        case "tuple":
            return sum(_written(makers[operand], makers) for operand in value.operands)
        case "bitcast":
            return _written(makers[value.operands[0]], makers)
        case "dynamic-update-slice":
            return bytes_of(makers[value.operands[1]].type)
    return bytes_of(value.type)


def bytes_of(type_: str) -> int:
    """The bytes of an array type, or of all elements of a tuple type."""
    return sum(
        max(8, int(bits or 8)) // 8 * math.prod(_dimensions(shape))
        for _, bits, shape in _ARRAY.findall(type_)
    )


def _dimensions(listed: str) -> list[int]:
    return [int(d) for d in re.findall(r"\d+", listed)]


def _dot_flops(instruction: Instruction, types: Mapping[str, str]) -> int:
    """The operations of a matrix product or a convolution, including those of library calls."""
    if instruction.op not in ("dot", "convolution", "custom-call"):
        return 0
    operands = [_ARRAY.search(types.get(name, "")) for name in instruction.operands[:2]]
    result = _ARRAY.search(instruction.type)
    if result is None or len(operands) < 2 or None in operands:
        return 0
    left, right = (_dimensions(array[3]) for array in operands if array)
    if contracted := _CONTRACTED.search(instruction.rest):
        summed = math.prod(left[d] for d in _dimensions(contracted[1]))
    elif labels := re.search(r"dim_labels=\w+_(\w+)->", instruction.rest):
        summed = math.prod(right) // max(1, right[labels[1].index("o")])
    else:
        return 0
    return 2 * summed * math.prod(_dimensions(result[3]))
