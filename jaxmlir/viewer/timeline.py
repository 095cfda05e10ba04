"""The memory of a function over its steps, as data: which values are there from when to when."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from jaxmlir.analysis.pointwise import ELEMENTWISE
from jaxmlir.optimize.memory.profile import MemoryProfile, Timeline
from jaxmlir.viewer.tables import Tables


def timeline(profile: MemoryProfile, tables: Tables) -> dict[str, Any]:
    """The bytes at each step of a function, and the values that they are of.

    Steps are the function's ops, and those of the calls in it that XLA inlines.
    """
    view = profile.view
    tops = profile.flat.tops if isinstance(profile, Timeline) else list(range(len(view.ops)))
    return {
        "bytes": [int(n) for n in profile.bytes],
        "names": view.names,
        "places": [tables.place(op.location) for op in view.ops],
        "tops": tops,
        "values": [
            (first, last, profile.sizes[v], tables.type(view.types[v]))
            for v, (first, last) in lifetimes(profile).items()
        ],
        "arguments": sum(profile.sizes[: view.arity]),
        "results": sum(profile.sizes[v] for v in view.outputs if v >= view.arity),
    }


def lifetimes(profile: MemoryProfile) -> dict[int, tuple[int, int]]:
    """The first and the last step at which each value takes memory, by its number.

    They add up to the profile's bytes, but for what functions of ops need.  Arguments and results
    are not among them.
    """
    found: dict[int, tuple[int, int]] = {}
    ending: defaultdict[int, list[int]] = defaultdict(list)
    for step, (first, end) in enumerate(profile.view.results):
        for v in filter(profile.is_counted, range(first, end)):
            if profile.view.names[step] in ELEMENTWISE:
                same = (u for u in ending[step] if profile.sizes[u] == profile.sizes[v])
                operand = next(same, None)
                # The result is written where an operand was.
                if operand is not None:
                    ending[step].remove(operand)
                    found[operand] = found[operand][0], step - 1
            last = max(step, profile.ends[v])
            found[v] = step, last
            ending[last].append(v)
    return found
