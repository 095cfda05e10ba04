"""Results as tables and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks._measure import Comparison, Timing

HEADER = (
    f"{'measure':9}{'program':22}{'eqns':>7}  {'JAX (min .. max)':>27}  "
    f"{'jaxmlir (min .. max)':>27}  {'ratio':>6}  target"
)


def row(result: Comparison) -> str:
    """One line of the table."""
    verdict = "" if result.ratio <= result.target else "  missed"
    return (
        f"{result.measure:9}{result.program:22}{result.equations:>7}  {_span(result.jax):>27}  "
        f"{_span(result.jaxmlir):>27}  {result.ratio:6.3f}  {result.target:g}{verdict}"
    )


def summary(results: Iterable[Comparison]) -> Iterator[str]:
    """For each measure, the median of the ratios over its programs, and the largest."""
    by_measure: dict[str, list[Comparison]] = {}
    for result in results:
        by_measure.setdefault(result.measure, []).append(result)
    for name, group in by_measure.items():
        worst = max(group, key=lambda result: result.ratio)
        median = statistics.median(result.ratio for result in group)
        within = sum(result.ratio <= result.target for result in group)
        yield (
            f"{name:9}median ratio {median:.3f}, largest {worst.ratio:.3f} ({worst.program}), "
            f"{within} of {len(group)} within {worst.target:g}"
        )
    yield from _growth(by_measure.get("lower", ()))


def _growth(lowered: Iterable[Comparison]) -> Iterator[str]:
    """Microseconds per equation: constant where the cost is linear."""
    rows = [result for result in lowered if result.program.startswith("equations_")]
    if rows:
        yield "\nlowering, us per equation" + "".join(f"{r.equations:>10}" for r in rows)
        for side in ("jax", "jaxmlir"):
            costs = [getattr(r, side).median / r.equations * 1e6 for r in rows]
            yield f"{side:>25}" + "".join(f"{cost:10.1f}" for cost in costs)


def _span(timing: Timing) -> str:
    unit, scale = ("us", 1e6) if timing.median < 1e-3 else ("ms", 1e3)
    low, mid, high = (f"{t * scale:.4g}" for t in (timing.min, timing.median, timing.max))
    return f"{mid} {unit} ({low} .. {high})"


def to_json(results: Iterable[Comparison], repetitions: int) -> dict[str, Any]:
    """The results with what they were measured on."""
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
        "results": [{**dataclasses.asdict(r), "ratio": round(r.ratio, 4)} for r in results],
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":")[1].strip() for line in info if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def dump(document: Mapping[str, Any], path: str) -> None:
    """Writes a document, each result on a line of its own."""
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
    """How the ratios of two documents differ, for the programs that both measured."""
    for label, document in (("before", before), ("after", after)):
        yield f"{label}: jax {document['jax']}, {document['machine']['processor']}"
    yield f"{'measure':9}{'program':22}{'before':>8}{'after':>8}{'change':>9}"
    old = {(r["measure"], r["program"]): r["ratio"] for r in before["results"]}
    for result in after["results"]:
        then, now = old.get((result["measure"], result["program"])), result["ratio"]
        if then is not None:
            yield (
                f"{result['measure']:9}{result['program']:22}{then:8.3f}{now:8.3f}"
                f"{(now / then - 1) * 100:+8.0f}%"
            )
