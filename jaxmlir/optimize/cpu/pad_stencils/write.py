"""Writing an array with its margin, and its views as slices of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax import lax

from jaxmlir.dialect.builder import converted
from jaxmlir.dialect.ir import ir
from jaxmlir.optimize.cpu.pad_stencils.views import Group
from jaxmlir.passes.remarks import remark
from jaxmlir.transforms.templates import Rules


def write(rules: Rules, group: Group, put: Callable[[ir.Value], ir.Value]) -> None:
    """Writes the array with its margin before the first view, and slices in place of all."""
    first = group.views[0].y.owner
    margins = group.margins()
    remark(
        first,
        f"{len(group.views)} shifts of one array are slices of it, stored with "
        f"{' x '.join(f'{a} + {b}' for a, b in margins)} elements around it",
    )
    with ir.InsertionPoint(first), first.location:
        if group.fill is None:
            wrap = _Wrap(margins)
            (wide,) = rules.emit(wrap, [group.x], wrap)
        else:
            pad = _Pad(margins)
            (wide,) = rules.emit(pad, [group.x, first.operands[1]], pad)
        wide = put(wide)
    for view in group.views:
        op = view.y.owner
        start = tuple([a + low for a, (low, _) in zip(view.start, margins, strict=True)])
        cut = _Cut(start, tuple(view.y.type.shape))
        with ir.InsertionPoint(op), op.location:
            (y,) = rules.emit(cut, [wide], cut)
            view.y.replace_all_uses_with(converted(y, view.y.type))


@dataclass(frozen=True)
class _Wrap:
    """A periodic array with some of what comes before and after; hashable, as are the following."""

    margins: tuple[tuple[int, int], ...]

    def __call__(self, x: Any) -> list[Any]:
        for dim, (low, high) in reversed(list(enumerate(self.margins))):
            size = x.shape[dim]
            before = [lax.slice_in_dim(x, size - low, size, axis=dim)] if low else []
            after = [lax.slice_in_dim(x, 0, high, axis=dim)] if high else []
            if before or after:
                x = lax.concatenate([*before, x, *after], dim)
        return [x]


@dataclass(frozen=True)
class _Pad:
    """An array with numbers around it."""

    margins: tuple[tuple[int, int], ...]

    def __call__(self, x: Any, fill: Any) -> list[Any]:
        return [lax.pad(x, fill, [(low, high, 0) for low, high in self.margins])]


@dataclass(frozen=True)
class _Cut:
    """A box of an array."""

    start: tuple[int, ...]
    shape: tuple[int, ...]

    def __call__(self, x: Any) -> list[Any]:
        limits = [a + n for a, n in zip(self.start, self.shape, strict=True)]
        return [lax.slice(x, self.start, limits)]
