"""Formats results as tables and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks._measure import Comparison, Timing

HEADER = (
    f"{'measure':15}{'program':23}{'eqns':>7}  {'JAX (min .. max)':>27}  "
    f"{'jaxmlir (min .. max)':>27}  {'ratio':>6}  target"
)


def row(result: Comparison) -> str:
    """One line of the table."""
    start = f"{result.measure:15}{result.program:23}{result.equations:>7}  "
    if result.error:
        return f"{start}ERROR {result.error}"
    verdict = ""
    if result.target is not None:
        verdict = f"{result.target:g}" + ("" if result.ratio <= result.target else "  missed")
    verdict += f"  {result.note}" * bool(result.note)
    if result.bound:
        verdict += f"  {result.jaxmlir.median / result.bound:.1f} times the bound"
    return (
        f"{start}{_span(result.jax, result.unit):>27}  {_span(result.jaxmlir, result.unit):>27}  "
        f"{result.ratio:6.3f}  {verdict}"
    )


def summary(results: Iterable[Comparison]) -> Iterator[str]:
    """The geometric mean, least and greatest ratio for each measure and set of programs.

    The inverse of the mean ratio is given too, as a speed-up.
    """
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for result in results:
        groups.setdefault((result.measure, result.group), []).append(result)
    for (name, group), members in groups.items():
        good = sorted((r for r in members if not r.error), key=lambda r: r.ratio)
        line = f"{name:15}{group:6}"
        if good:
            mean = statistics.geometric_mean(r.ratio for r in good)
            line += (
                f" geometric mean {mean:.3f} ({1 / mean:.2f}x), "
                f"least {good[0].ratio:.3f} ({good[0].program}), "
                f"greatest {good[-1].ratio:.3f} ({good[-1].program})"
            )
            if (target := good[-1].target) is not None:
                within = sum(r.ratio <= target for r in good)
                line += f", {within} of {len(good)} within {target:g}"
        bounded = [(r.jax.median / r.bound, r.jaxmlir.median / r.bound) for r in good if r.bound]
        if bounded:
            theirs, ours = map(statistics.geometric_mean, zip(*bounded, strict=True))
            line += f"; {ours:.2f} times the bound, JAX {theirs:.2f}"
        if len(good) < len(members):
            line += f", {len(members) - len(good)} FAILED"
        yield line
    yield from _growth(r for r in results if r.measure == "lower")


def _growth(lowered: Iterable[Comparison]) -> Iterator[str]:
    """Microseconds per equation: constant if the cost is linear in the length of a program."""
    rows = [result for result in lowered if result.program.startswith("equations_")]
    if rows:
        yield "\nlowering, us per equation" + "".join(f"{r.equations:>10}" for r in rows)
        for side in ("jax", "jaxmlir"):
            costs = [getattr(r, side).median / r.equations * 1e6 for r in rows]
            yield f"{side:>25}" + "".join(f"{cost:10.1f}" for cost in costs)


_UNITS = {
    "s": ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "us")),
    "cycles": ((1e6, 1e-6, "M"), (1e3, 1e-3, "k"), (0.0, 1.0, "cycles")),
    "ns": ((1e6, 1e-6, "ms"), (0.0, 1e-3, "us")),
    "B": ((2**20, 2**-20, "MiB"), (0, 2**-10, "KiB")),
}


def _span(timing: Timing, unit: str) -> str:
    scale, name = next(
        (scale, name) for least, scale, name in _UNITS[unit] if timing.median >= least
    )
    low, mid, high = (f"{t * scale:.4g}" for t in (timing.min, timing.median, timing.max))
    return f"{mid} {name}" if low == high else f"{mid} {name} ({low} .. {high})"


def to_json(results: Iterable[Comparison], repetitions: int, level: int) -> dict[str, Any]:
    """The results, with the versions and the machine that they were measured on."""
    import jax
    import jaxlib

    device = jax.devices()[0]
    return {
        "machine": {
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "device": f"{device.platform}: {device.device_kind}",
            "system": f"{platform.system()} {platform.machine()}",
        },
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "repetitions": repetitions,
        "level": level,
        "results": [record(r) for r in results],
    }


def record(result: Comparison) -> dict[str, Any]:
    """A row as JSON; NaNs, which JSON does not have, are replaced."""
    record = dataclasses.asdict(result)
    if result.error:
        return {key: value for key, value in record.items() if key not in ("jax", "jaxmlir")}
    for field in ("note", "error", "bound"):
        if not record[field]:
            del record[field]
    return {**record, "ratio": round(result.ratio, 4)}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":")[1].strip() for line in info if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def dump(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a document with each result on a separate line."""
    rest = {key: value for key, value in document.items() if key != "results"}
    lines = ",\n".join(f"  {json.dumps(_rounded(result))}" for result in document["results"])
    head = json.dumps(rest, indent=1)[:-2]
    with open(path, "w") as out:
        out.write(f'{head},\n "results": [\n{lines}\n ]\n}}\n')


def _rounded(result: Mapping[str, Any]) -> dict[str, Any]:
    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(item) for key, item in value.items()}
        return float(f"{value:.5g}") if isinstance(value, float) else value

    return shorten(dict(result))


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Reports how the ratios of two documents differ, for the programs that both measured."""
    for label, document in (("before", before), ("after", after)):
        yield f"{label}: jax {document['jax']}, {document['machine']['processor']}"
    yield f"{'measure':15}{'program':23}{'before':>8}{'after':>8}{'change':>9}"
    old = {(r["measure"], r["program"]): r for r in before["results"]}
    for result in after["results"]:
        earlier = old.get((result["measure"], result["program"]))
        if earlier is None:
            continue
        then, now = (r.get("ratio", math.nan) for r in (earlier, result))
        change = f"{(now / then - 1) * 100:+8.0f}%"
        if math.isnan(now) or math.isnan(then):
            change = "  " + (result.get("error") or "was an error")
        yield f"{result['measure']:15}{result['program']:23}{then:8.3f}{now:8.3f}{change}"
