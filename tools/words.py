"""Composes transformations of the benchmark programs, and compares every composition with JAX's.

    python tools/words.py                               all words of up to three letters
    python tools/words.py --length 2 --select '^(mlp|gnn)$'

A letter is ``jvp`` (in the direction of the argument), ``grad`` (of the sum of the results) or
``vmap``.  A word is applied to a program in its small size, as a function of its first argument.
A word of n letters is built in n ways: JAX applies the first k < n letters, the result is traced,
and the passes apply the rest.  All of these are compiled together with JAX's own composition.
Results may differ from JAX's by ``TOLERANCE`` times its largest number.  A word that JAX refuses
must be refused with an error that names an op.

Prints a line for each program and word that fails, and a table; the exit status is 1 if any does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.progress import Progress  # noqa: E402

import jaxmlir  # noqa: E402
from benchmarks.programs import PROGRAMS  # noqa: E402
from jaxmlir.errors import JaxmlirError  # noqa: E402
from tools.tool_options import positive, regex  # noqa: E402

Function = Callable[[Any], Any]
Word = tuple[str, ...]

LETTERS = ("jvp", "grad", "vmap")
BATCH = 2
# The tolerance for single precision after up to three derivatives.
TOLERANCE = 5e-3


def with_fixed(function: Callable[..., Any], rest: Sequence[Any]) -> Function:
    """A program as a function of its first argument."""
    return lambda x: function(x, *rest)


def total(results: Any) -> Any:
    """The sum of all floating-point numbers in a pytree."""
    leaves = [x for x in jax.tree.leaves(results) if jnp.issubdtype(x.dtype, jnp.floating)]
    return sum(map(jnp.sum, leaves))


def by_jax(letter: str, f: Function) -> Function:
    """The function transformed by JAX."""
    return {
        "jvp": lambda x: jax.jvp(f, (x,), (x,))[1],
        "grad": jax.grad(lambda x: total(f(x))),
        "vmap": jax.vmap(f),
    }[letter]


def by_passes(letter: str, f: Function, x: Any) -> Function:
    """The function traced and then transformed by the passes.

    Args:
      x: an argument of the transformed function.
    """
    if letter == "vmap":
        row = jax.tree.map(lambda a: a[0], x)
        return jaxmlir.trace(f)(row).vmap(axis_size=BATCH)
    if letter == "grad":
        return jaxmlir.trace(lambda x: total(f(x)))(x).grad()
    program = jaxmlir.trace(f)(x).jvp()
    return lambda x: program((x,), (x,))[1]


def made_by(f: Function, word: Word, x: Any, first: int) -> tuple[Function, Any]:
    """A word applied to a function, the first ``first`` letters by JAX, and an argument for it."""
    for i, letter in enumerate(word):
        if letter == "vmap":
            x = jax.tree.map(lambda a: jnp.stack([a / (k + 1) for k in range(BATCH)]), x)
        f = by_jax(letter, f) if i < first else by_passes(letter, f, x)
    return f, x


def outcome(f: Function, word: Word, x: Any) -> str:
    """Returns ``"passed"``, ``"refused"`` if JAX refuses too, or what is wrong."""
    theirs, argument = made_by(f, word, x, len(word))
    try:
        jax.jit(theirs).lower(argument)
    except Exception as refused:
        return refusal(f, word, x, refused)
    ours = [made_by(f, word, x, first)[0] for first in range(len(word))]
    want, *found = jax.jit(lambda x: [g(x) for g in (theirs, *ours)])(argument)
    for first, results in enumerate(found):
        error = distance(results, want)
        if not error <= TOLERANCE:
            return f"off by {error:.1e} where JAX applies the first {first}"
    return "passed"


def refusal(f: Function, word: Word, x: Any, of_jax: Exception) -> str:
    try:
        ours, argument = made_by(f, word, x, 0)
        jax.jit(ours).lower(argument)
    except JaxmlirError as e:
        return "refused" if "jaxpr." in str(e) else f"an error that names no op: {e}"
    return f"JAX refuses, and jaxmlir does not: {of_jax}"


def distance(found: Any, want: Any) -> float:
    """The greatest difference, as a fraction of the largest expected number."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True)
    pairs = [(np.asarray(a, float), np.asarray(b, float)) for a, b in pairs]
    largest = max((np.abs(b).max(initial=0) for _, b in pairs), default=0.0)
    error = max((np.abs(a - b).max(initial=0) for a, b in pairs), default=0.0)
    return float(error / max(largest, 1e-30))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares compositions of transformations.")
    parser.add_argument(
        "--length", metavar="N", type=positive, default=3, help="letters of the longest words (3)"
    )
    parser.add_argument(
        "--select", metavar="REGEX", type=regex, help="only programs whose name matches"
    )
    options = parser.parse_args(argv)

    words = [w for n in range(1, options.length + 1) for w in itertools.product(LETTERS, repeat=n)]
    chosen = [name for name in PROGRAMS if not options.select or options.select.search(name)]
    if not chosen:
        parser.error(
            f"no program has a name that matches '{options.select.pattern}'; there are "
            f"{', '.join(PROGRAMS)}"
        )
    counts: dict[str, Counter[str]] = {}
    with Progress() as progress:
        task = progress.add_task("words", total=len(words) * len(chosen))
        for name in chosen:
            function, (x, *rest) = PROGRAMS[name].make("small")
            counts[name] = Counter()
            for word in words:
                found = outcome(with_fixed(function, rest), word, x)
                counts[name][found if found in ("passed", "refused") else "failed"] += 1
                if found not in ("passed", "refused"):
                    progress.console.print(f"{name}, {' '.join(word)}: {found}")
                progress.advance(task)
            jax.clear_caches()
    print(f"jax {jax.__version__}, words of up to {options.length} letters")
    for name, count in counts.items():
        print(f"{name:22}", "  ".join(f"{count[k]} {k}" for k in ("passed", "refused", "failed")))
    return int(any(count["failed"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
