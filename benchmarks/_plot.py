"""A bar chart of ratios as SVG: one bar for each program, grouped by measure and set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

_LABELS, _WIDTH, _ROW, _MARGIN = 210, 560, 16, 36
_FASTER, _SLOWER = "#2b7a78", "#c8553d"


def plot(document: Mapping[str, Any], path: str) -> None:
    """Plots a document of results: JAX's time (or bytes) divided by jaxmlir's, on a log scale."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for result in document["results"]:
        if "ratio" in result and result["ratio"] > 0:
            title = f"{result['measure']}, {result['group']} programs"
            groups.setdefault(title, []).append((result["program"], 1 / result["ratio"]))
    Path(path).write_text("\n".join(_svg(groups, f"jax {document['jax']}")) + "\n")


def _svg(groups: Mapping[str, list[tuple[str, float]]], caption: str) -> Iterator[str]:
    speedups = [speedup for bars in groups.values() for _, speedup in bars]
    low, high = min(speedups, default=1.0), max(speedups, default=1.0)
    ticks = list(_ticks(low, high))
    height = _MARGIN * (1 + len(groups)) + _ROW * (1 + len(speedups))

    def x(speedup: float) -> float:
        span = math.log(ticks[-1] / ticks[0])
        return _LABELS + _WIDTH * math.log(speedup / ticks[0]) / span

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + _WIDTH + 70}" '
        f'height="{height}" font-family="sans-serif" font-size="11">'
    )
    yield '<rect width="100%" height="100%" fill="white"/>'
    for tick in ticks:
        stroke = "#444" if tick == 1 else "#ddd"
        yield f'<path d="M{x(tick):.1f} 20V{height - 22}" stroke="{stroke}"/>'
        yield f'<text x="{x(tick):.1f}" y="14" text-anchor="middle">{tick:g}x</text>'
    y = 20
    for title, bars in groups.items():
        y += _MARGIN
        yield f'<text x="4" y="{y - 8}" font-weight="bold">{escape(title)}</text>'
        for name, speedup in sorted(bars, key=lambda bar: -bar[1]):
            left, right = sorted((x(1.0), x(speedup)))
            color = _FASTER if speedup >= 1 else _SLOWER
            yield f'<text x="{_LABELS - 6}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
            yield (
                f'<rect x="{left:.1f}" y="{y + 2}" width="{max(right - left, 0.5):.1f}" '
                f'height="{_ROW - 4}" fill="{color}"/>'
            )
            yield f'<text x="{right + 4:.1f}" y="{y + 11}">{speedup:.3g}</text>'
            y += _ROW
    yield f'<text x="4" y="{height - 8}">JAX by jaxmlir: longer is better; {escape(caption)}</text>'
    yield "</svg>"


def _ticks(low: float, high: float) -> Iterable[float]:
    """The numbers of 1, 2, 5, 10 ... that cover the values and 1."""
    every = [m * 10.0**e for e in range(-4, 7) for m in (1, 2, 5)]
    first = max((t for t in every if t <= min(low, 0.5)), default=every[0])
    last = min((t for t in every if t >= max(high, 2.0)), default=every[-1])
    ticks = [t for t in every if first <= t <= last]
    # Few enough ticks to read.
    return [
        t
        for t in ticks
        if len(ticks) <= 12 or t in (first, last) or round(math.log10(t), 9) % 1 == 0
    ]
