"""``diff``: the first op at which two evaluations differ."""

from __future__ import annotations

import contextlib
import numbers
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxmlir.debug.steps import Place, Range, check, comparable, host, is_inexact
from jaxmlir.errors import ArgumentError
from jaxmlir.interpret.interpreter import Hook, Interpreter, Step
from jaxmlir.program.arguments import check_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.typing import DTypeLike

    from jaxmlir.program.program import Program


_ULPS = 16


@dataclass(frozen=True)
class Difference:
    """The place at which two evaluations diverge, and by how much."""

    place: Place | None
    """The op, in the second program; ``None`` if only the programs' results differ."""
    result: int
    """Which of the op's results."""
    index: tuple[int, ...]
    """The element that differs most."""
    values: tuple[Any, Any]
    """The element that differs most, in the first and in the second evaluation."""
    absolute: float
    relative: float
    """The largest absolute and relative differences of the result."""
    operands: tuple[float, ...]
    """The largest relative difference of each operand: how far the op's inputs differed already."""
    ranges: tuple[Range, Range]

    def __str__(self) -> str:
        if self.place is None:
            lines = ["the results differ, but no op that both programs have differs"]
        else:
            lines = [f"the first op that differs: {self.place}", *self.place.lines()]
        at = ", ".join(map(str, self.index))
        lines.append(
            f"  result #{self.result} differs by {self.absolute:.3g} ({self.relative:.3g} "
            f"relative), most at [{at}]: {self.values[0]} and {self.values[1]}"
        )
        lines += [f"  first:  {self.ranges[0]}", f"  second: {self.ranges[1]}"]
        for i, relative in enumerate(self.operands):
            lines.append(f"  operand #{i} differed by {relative:.3g} relative")
        return "\n".join(lines)


def diff(
    first: Program,
    second: Program,
    *args: Any,
    rtol: float | None = None,
    atol: float = 0.0,
    devices: tuple[jax.Device | None, jax.Device | None] = (None, None),
    dtypes: tuple[DTypeLike | None, DTypeLike | None] = (None, None),
    **kwargs: Any,
) -> Difference | None:
    """The first op at which two evaluations give different numbers; ``None`` if none does.

    The programs may be the same one (on two devices, in two precisions), or different ones, such as
    before and after a pass. Their ops are matched by name, the user's line, and the iterations of
    the loops around them; ops that only one of them has are skipped, and so are ops that a pass has
    given the same operands in another order. An op whose operands differ too counts only if the
    programs' results differ: a pass may have put another op in its place. All values of the first
    evaluation are kept meanwhile.

    Args:
      args, kwargs: for both; floating-point arguments are converted to what each program takes.
      rtol: the accepted difference relative to the largest element, by default 16 units in the last
        place of the coarser of the two types. Integers and random keys must be equal.
      atol: the accepted absolute difference.
      devices: where each evaluation runs, such as ``jax.devices("cpu")[0]``.
      dtypes: the floating-point type that each evaluation rounds every value to.
        ``(None, "bfloat16")`` finds the op at which a coarser type begins to matter.

    Raises:
      ArgumentError: a program is missing, the arguments do not fit it, or an option is of the wrong
        kind; or no op differs, and the results have different shapes.
      EvaluationError: an op cannot be evaluated; names it and the user's line.
    """
    for program in (first, second):
        check(program, args, kwargs)
    _check_options(rtol, atol, devices, dtypes)
    coarse = [float(_finfo(dtype).eps) for dtype in dtypes if dtype is not None]
    if rtol is None and coarse:
        rtol = _ULPS * max(coarse)
    recorded = _ValueRecorder()
    results = _evaluate(first, args, kwargs, recorded, devices[0], dtypes[0])
    compared = _Comparison(recorded.steps, rtol, atol)
    try:
        others = _evaluate(second, args, kwargs, compared, devices[1], dtypes[1])
    except _DivergenceFound as parted:
        return parted.difference
    shapes = [[np.shape(x) for x in side] for side in (results, others)]
    if shapes[0] != shapes[1]:
        raise ArgumentError(
            "expected programs with results of the same shapes, got "
            + " and ".join(", ".join(map(str, side)) or "none" for side in shapes)
        )
    for i, (a, b) in enumerate(zip(results, others, strict=True)):
        if not _agree(a, b, rtol, atol):
            return compared.uncertain or _difference(None, i, a, b, ())
    return compared.certain


def _check_options(rtol: Any, atol: Any, devices: Any, dtypes: Any) -> None:
    for name, pair in (("devices", devices), ("dtypes", dtypes)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ArgumentError(f"{name}: expected a pair, one for each evaluation, got {pair!r}")
    for device in devices:
        if not isinstance(device, jax.Device | None):
            raise ArgumentError(f"devices: expected a device or None each, got {device!r}")
    for name, bound in (("rtol", 0 if rtol is None else rtol), ("atol", atol)):
        if not isinstance(bound, numbers.Real) or not bound >= 0:
            raise ArgumentError(f"{name}: expected a number of at least 0, got {bound!r}")


def _finfo(dtype: Any) -> Any:
    try:
        return jax.numpy.finfo(jax.numpy.dtype(dtype))
    except (TypeError, ValueError):
        raise ArgumentError(f"dtypes: expected a floating-point type, got {dtype!r}") from None


def _evaluate(
    program: Program, args: Any, kwargs: Any, hook: Hook, device: Any, dtype: Any
) -> list[Any]:
    """The flat results of one of the programs."""
    leaves = check_tree(program, args, kwargs)
    if program.is_symbolic:
        program = program.specialize(*args, **kwargs)
    on_device = contextlib.nullcontext() if device is None else jax.default_device(device)
    with on_device:
        with program.widths:
            args, kwargs = jax.tree.unflatten(
                program.in_tree, map(_converted, leaves, program.in_avals)
            )
            flat = [_placed(x, device) for x in program.flat_arguments(args, kwargs)]
        if dtype is None:
            interpreter = Interpreter(program, [hook])
        else:
            interpreter = _Rounding(program, hook, dtype)
        return interpreter.run(program.name, flat)


def _placed(value: Any, device: Any) -> Any:
    array = host(value)
    if array is None and comparable(value) is None:
        return value
    return jax.device_put(value if array is None else array, device)


def _converted(value: Any, aval: Any) -> Any:
    dtype = getattr(aval, "dtype", None)
    inexact = jax.numpy.inexact
    if dtype is not None and jax.dtypes.issubdtype(dtype, inexact) and host(value) is not None:
        return jax.numpy.asarray(value, dtype)
    return value


class _Rounding(Interpreter):
    """Computes with the program's types, but rounds every value to a coarser one."""

    def __init__(self, program: Program, hook: Hook, dtype: Any):
        super().__init__(program, [hook])
        self.dtype = jax.numpy.dtype(dtype)

    def leaf(self, node: Any, operands: list[Any]) -> list[Any]:
        return [self.rounded(x) for x in super().leaf(node, map(self.rounded, operands))]

    def rounded(self, value: Any) -> Any:
        dtype = getattr(value, "dtype", None)
        if dtype is None or not jax.dtypes.issubdtype(dtype, jax.numpy.inexact):
            return value
        if jax.dtypes.issubdtype(dtype, jax.numpy.complexfloating):
            parts = jax.lax.real(value), jax.lax.imag(value)
            return jax.lax.complex(*map(self.rounded, parts))
        to = jax.numpy.finfo(self.dtype)
        return jax.lax.reduce_precision(value, to.nexp, to.nmant)


_Key = tuple[str, tuple[str, int, int], tuple[int, ...]]
_Recorded = tuple[list[Any], list[Any]]
"""The operands and the results of an op."""


def _key(step: Step) -> _Key:
    return step.name, step.position, step.iterations


class _ValueRecorder(Hook):
    """Records the operands and results of every op of the first evaluation."""

    def __init__(self) -> None:
        self.steps: dict[_Key, list[_Recorded]] = defaultdict(list)

    def after(self, step: Step) -> None:
        self.steps[_key(step)].append((step.operands, step.results or []))


class _DivergenceFound(Exception):
    """Ends the second evaluation."""

    def __init__(self, difference: Difference):
        self.difference = difference


@dataclass(eq=False)
class _Comparison(Hook):
    """Compares every op of the second evaluation with its counterpart in the first.

    Several ops with the same name and line are matched in order. A pass may have merged or added
    some, so agreement with any of them is enough.
    """

    steps: dict[_Key, list[_Recorded]]
    rtol: float | None
    atol: float
    seen: dict[_Key, int] = field(default_factory=lambda: defaultdict(int))
    uncertain: Difference | None = None
    """The first op that differs from all ops that might be its counterpart, as do its operands."""
    certain: Difference | None = None
    """The first op that differs from an op of the same operands; found after ``uncertain``."""

    def same(self, a: Any, b: Any) -> bool:
        return np.shape(a) == np.shape(b) and _agree(a, b, self.rtol, self.atol)

    def all_same(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        return len(first) == len(second) and all(map(self.same, first, second))

    def is_permuted(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        """Whether the operands are the same in another order: the transpose of a product."""
        return len(first) == len(second) and all(
            any(self.same(a, b) for a in first) for b in second
        )

    def after(self, step: Step) -> None:
        key, operands, results = _key(step), step.operands, step.results or []
        shapes = list(map(np.shape, results))
        partners = [s for s in self.steps.get(key, ()) if list(map(np.shape, s[1])) == shapes]
        number = self.seen[key]
        self.seen[key] += 1
        if not partners or self.certain is not None:
            return
        expected = partners[min(number, len(partners) - 1)]
        if any(self.all_same(had, results) for _, had in partners):
            return
        of_operands = [partner for partner in partners if self.all_same(partner[0], operands)]
        if of_operands:
            difference = self.difference(of_operands[0], step)
            if self.uncertain is None:
                raise _DivergenceFound(difference)
            self.certain = difference
        elif self.uncertain is None and not any(self.is_permuted(o, operands) for o, _ in partners):
            self.uncertain = self.difference(expected, step)

    def difference(self, recorded: _Recorded, step: Step) -> Difference:
        """How an op differs from a recorded one."""
        pairs = enumerate(zip(recorded[1], step.results or [], strict=True))
        i, a, b = next((i, a, b) for i, (a, b) in pairs if not self.same(a, b))
        apart = (_distance(x, y)[1] for x, y in zip(recorded[0], step.operands, strict=False))
        return _difference(Place.of(step), i, a, b, tuple(apart))


def _difference(
    place: Place | None, result: int, a: Any, b: Any, operands: tuple[float, ...]
) -> Difference:
    absolute, relative, index = _distance(a, b)
    x, y = comparable(a), comparable(b)
    assert x is not None and y is not None
    values = (x[index].item(), y[index].item())
    ranges = (Range.of(a), Range.of(b))
    return Difference(place, result, index, values, absolute, relative, operands, ranges)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _distance(a: Any, b: Any) -> tuple[float, float, tuple[int, ...]]:
    """The largest absolute and relative difference, and the index of the former."""
    x, y = comparable(a), comparable(b)
    if x is None or y is None or x.shape != y.shape or x.size == 0:
        return 0.0, 0.0, ()
    are_exact = not is_inexact(x) and not is_inexact(y)
    same = x == y if are_exact else _wide(x) == _wide(y)
    x, y = _wide(x), _wide(y)
    # Different integers may be equal in float64.
    least = np.where(same | np.isnan(x) | np.isnan(y), 0.0, np.finfo(np.float64).tiny)
    with np.errstate(all="ignore"):
        distance = np.maximum(np.abs(x - y), least)
        distance = np.where(same | (np.isnan(x) & np.isnan(y)), 0.0, distance)
        # One is NaN and the other is not: infinitely far.
        distance = np.where(np.isnan(distance), np.inf, distance)
        relative = np.where(distance == 0, 0.0, distance / np.maximum(np.abs(x), np.abs(y)))
    index = tuple(map(int, np.unravel_index(np.argmax(distance), distance.shape)))
    return float(distance.max()), float(np.nan_to_num(relative, nan=np.inf).max()), index


def _agree(a: Any, b: Any, rtol: float | None, atol: float) -> bool:
    x, y = comparable(a), comparable(b)
    if x is None or y is None or x.shape != y.shape:
        return True
    if not (is_inexact(x) and is_inexact(y)):
        return bool((x == y).all())
    if rtol is None:
        eps = (float(jax.numpy.finfo(dtype).eps) for dtype in (x.dtype, y.dtype))
        rtol = _ULPS * max(eps)
    # Relative to the whole array: an element near zero may be a small difference of larger ones.
    scale = [float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in map(_wide, (x, y))]
    absolute, _, _ = _distance(a, b)
    return absolute <= atol + rtol * max(scale)
