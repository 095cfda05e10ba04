"""The collectives that XLA compiles a sharded program to, beside those of JAX.

    python tools/collectives.py                    # programs of benchmarks, the batch sharded
    python tools/collectives.py softmax_memory --level 2 --without jaxpr-tile

On eight devices of the CPU, it prints for each program how many collectives of each kind a call
runs, their bytes, those of ``jax.jit``, and the CPU time of all devices.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

KINDS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_ARRAY = re.compile(r"\b([a-z]+)(\d+)\w*\[([\d,]*)\]")
_RUNS = re.compile(rf" = (.*?) ({'|'.join(KINDS)})(?:-start)?\(")
_CALLED = re.compile(r"(?:body|condition|to_apply|calls)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Collectives(NamedTuple):
    """How often a collective of a kind runs in a call, and the bytes of all its results."""

    count: int
    bytes: int


def collectives(hlo: str) -> dict[str, Collectives]:
    """What a call of a compiled module runs of each kind, a loop's as often as it is known to turn.

    Args:
      hlo: the text of the module, as ``Compiled.as_text`` gives it.
    """
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in hlo.splitlines():
        header = _HEADER.match(line)
        if header:
            lines = computations[header[2]] = []
            entry = header[2] if header[1] else entry
        else:
            lines.append(line)
    found: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])

    def look(name: str, times: int) -> None:
        for line in computations.get(name, ()):
            runs = _RUNS.search(line)
            if runs:
                found[runs[2]][0] += times
                found[runs[2]][1] += times * sum(_sizes(runs[1]))
            trips = _TRIPS.search(line)
            branches = _BRANCHES.search(line)
            called = _CALLED.findall(line) + (
                re.findall(r"[\w.\-]+", branches[1]) if branches else []
            )
            for other in called:
                look(other, times * (int(trips[1]) if trips else 1))

    look(entry, 1)
    return {kind: Collectives(*found[kind]) for kind in sorted(found)}


def _sizes(types: str) -> Iterator[int]:
    """The bytes of each array of a result."""
    for kind, bits, shape in _ARRAY.findall(types):
        elements = int(np.prod([int(n) for n in shape.split(",") if n], dtype=np.int64))
        yield elements * max(1, int(bits) // (1 if kind == "pred" else 8))
