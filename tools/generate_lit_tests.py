"""Writes lit_tests/ops/<op>.mlir, a test of every op, from the examples in tools/lit_examples.

    python tools/generate_lit_tests.py [OP ...]
    python tools/generate_lit_tests.py --check      fail if a file is stale, write nothing

A test has a program with the op as jaxmlir imports it, the StableHLO that it is lowered to, and the
numbers that it computes.  The last two come from ``jax.jit`` of the example, lowered and run
without jaxmlir.

A file is written with the oldest supported JAX that has the op, and must pass with all that have
it.  With another JAX this tool leaves the file alone.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import jax  # noqa: E402
import numpy as np  # noqa: E402
from lit_examples import examples  # noqa: E402
from lit_examples._example import Example  # noqa: E402

from jaxmlir._compat import jax_version  # noqa: E402
from jaxmlir.dialect import ops  # noqa: E402
from jaxmlir.program.staging import from_jaxpr  # noqa: E402

FOLDER = ROOT / "lit_tests" / "ops"
VERSIONS = ((0, 10), (0, 11), (0, 12))
HLO_LINES = 3
HANDLE = "It holds a Python object, which text cannot: such an op runs only in its own process."
WIDTH = 100
LONGEST = 300


# --- one test -------------------------------------------------------------------------------------


def lit_test(name: str, example: Example) -> str:
    """The text of the test file for one op."""
    record = ops.OPS[name]
    flat = _flat(name, example)
    program = _text(flat, name, example)
    # A handle refers to a Python object of the process that made the text.
    why_not_lowered = example.lowers or (HANDLE if _A_HANDLE.search(program) else "")
    verify = "--verify=none " if why_not_lowered == HANDLE else "--jaxpr-verify "
    runs = [f"jaxmlir-opt {verify}%s | FileCheck %s"]
    checks = [_directive("CHECK", _op_pattern(line)) for line in _op_lines(program, name)]
    if not why_not_lowered:
        runs.append(
            "jaxmlir-opt --jaxpr-legalize-to-stablehlo=platforms=cpu %s"
            " | FileCheck %s --check-prefix=HLO"
        )
        checks += [_directive("HLO", line) for line in _hlo_patterns(flat, example)]
    if not why_not_lowered and not example.numbers:
        args = f" --args '{_literals(example.args)}'" if example.args else ""
        runs.append(f"jaxmlir-run %s{args} | FileCheck %s --check-prefix=EXEC")
        checks += _exec_checks(flat, example)
    if why_not_lowered == HANDLE:
        runs.append("not jaxmlir-opt --jaxpr-verify %s 2>&1 | FileCheck %s --check-prefix=OTHER")
        checks.append(_directive("OTHER", "stands for a Python object of another process"))
    lines = [*_comment(f"{name}: {record.summary}"), "", *(f"// RUN: {run}" for run in runs)]
    if required := _requires(record, example):
        lines.append(f"// REQUIRES: {required}")
    for reason in (why_not_lowered, example.numbers):
        if reason:
            lines += ["", *_comment(reason)]
    return "\n".join([*lines, "", *checks, program])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="// ", subsequent_indent="// ", break_on_hyphens=False
    )


def _directive(prefix: str, text: str) -> str:
    return f"// {prefix}: {text}"


def _requires(record: ops.Op, example: Example) -> str:
    """The lit features of the JAX versions that have the op; empty if all versions have it."""
    if example.requires:
        return example.requires
    have = [v for v in VERSIONS if ops.holds(record.jax, v)]
    return "" if len(have) == len(VERSIONS) else " || ".join(f"jax-{a}.{b}" for a, b in have)


def _flat(name: str, example: Example) -> Any:
    """The example as a function of that name, which returns its only result or a flat list."""

    def function(*args: Any) -> Any:
        leaves = jax.tree.leaves(example.function(*args))
        return leaves[0] if len(leaves) == 1 else leaves

    function.__name__ = function.__qualname__ = name
    return function


def _text(flat: Any, name: str, example: Example) -> str:
    """The example in the dialect, without the ``module`` around it."""
    program = from_jaxpr(jax.make_jaxpr(flat)(*example.args), name)
    *lines, last = program.as_text().rstrip("\n").split("\n")
    meshes = list(itertools.takewhile(lambda line: line.startswith("#mesh"), lines))
    first, *inner = lines[len(meshes) :]
    assert first.startswith("module") and last == "}", first
    text = "\n".join([*meshes, textwrap.dedent("\n".join(inner))]) + "\n"
    # Handles are numbered within the process; number them anew, so that files don't depend on each
    # other.
    handles = list(dict.fromkeys(_A_HANDLE.findall(text)))
    return _A_HANDLE.sub(lambda m: f'"h{handles.index(m.group())}"', text)


_A_HANDLE = re.compile(r'"h\d+"')


def _op_lines(program: str, name: str) -> list[str]:
    found = [line.strip() for line in program.split("\n") if f'"jaxpr.{name}"(' in line]
    if not found:
        raise LookupError(f"the example of {name} does not use it:\n{program}")
    return found[:1]


def _op_pattern(line: str) -> str:
    """A pattern for the op; of a long op without JAX's tracing context, and all after it."""
    text = _pattern(_operation(line))
    return re.split(r",? ?jaxpr\.(?:ctx|effects) = ", text)[0] if len(text) > LONGEST else text


# --- StableHLO ------------------------------------------------------------------------------------

_STABLEHLO = re.compile(r'"?(?:stablehlo|chlo)\.[\w.]+')
# Ops that say little about the example, unless there are no others.
_AUXILIARY = re.compile(r'"?stablehlo\.(?:constant|broadcast_in_dim|return|reshape|convert)\b')


def _hlo_patterns(flat: Any, example: Example) -> list[str]:
    """Patterns for the first significant lines of JAX's own lowering."""
    if example.hlo is not None:
        return list(example.hlo)
    text = jax.jit(flat, keep_unused=True).lower(*example.args).as_text()
    functions = [list(_hlo_lines(f)) for f in re.split(r"\n  }\n", text)]
    telling = [[line for line in f if not _AUXILIARY.match(line)] for f in functions]
    libraries = [[line for line in f if "custom_call" in line] for f in functions]
    chosen = next(filter(None, [*libraries, *telling, *functions]), ["return"])
    return [_hlo_pattern(line) for line in chosen[:HLO_LINES]]


def _hlo_lines(function: str) -> Iterator[str]:
    """The operations of a function, without the names of their results."""
    for line in function.split("\n"):
        operation = _operation(line)
        if _STABLEHLO.match(operation) and not operation.startswith("stablehlo.return"):
            yield operation


def _hlo_pattern(operation: str) -> str:
    """A pattern for an operation; only for its head if it is long or differs between versions."""
    if "{" not in operation and len(operation) < WIDTH:
        return _pattern(operation)
    return _pattern(re.split(r" ?<?\{", operation)[0].rstrip(" ("))


def _operation(line: str) -> str:
    """A line of MLIR without the names of the results."""
    return re.sub(r"^%\S+ = ", "", line.strip())


def _pattern(text: str) -> str:
    """A pattern that matches a line of MLIR with any names of values."""
    text = text.replace("[[", r"{{\[\[}}")
    return re.sub(r"%[\w.]+(:\d+|#\d+)?", "%{{.*}}", text)


# --- numbers --------------------------------------------------------------------------------------


def _literals(args: Sequence[Any]) -> str:
    """The arguments as ``jaxmlir-run --args`` reads them."""
    text = ", ".join(repr(_plain(arg).tolist()) for arg in args)
    return text.replace("inf", "1e999")  # Python has no literal for infinity.


def _plain(value: Any) -> np.ndarray:
    """The value as an array; random keys become their data."""
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype.kind == "V" else value


def _exec_checks(flat: Any, example: Example) -> list[str]:
    """The expected output of ``jaxmlir-run``: the results of ``jax.jit``, to a few digits."""
    results = jax.tree.leaves(jax.jit(flat)(*example.args))
    checks = []
    for index, value in enumerate(results):
        name = "result" if len(results) == 1 else f"result[{index}]"
        shown = np.array2string(
            np.asarray(jax.random.key_data(value) if _is_key(value) else value),
            separator=", ",
            formatter={"all": _number},
            max_line_width=10_000,
        )
        type_ = jax.typeof(value).str_short(short_dtypes=True)
        lines = f"{name}: {type_} = {shown}".replace("[[", r"{{\[\[}}").split("\n")
        prefixes = ["EXEC", *["EXEC-NEXT"] * (len(lines) - 1)]
        checks += map(_directive, prefixes, (line.strip() for line in lines))
    return checks


def _is_key(value: Any) -> bool:
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _number(value: Any) -> str:
    """A pattern for a number: exact if it is short, else its leading digits."""
    return re.sub(r"(\d+)\.(\d+)(e[-+]\d+)?", _leading_digits, str(value))


def _leading_digits(match: re.Match[str]) -> str:
    """The leading digits that a relative error of a few millionths does not change."""
    whole, fraction, exponent = match.groups("")
    if len((whole + fraction).strip("0")) <= 4:
        return match.group()
    number = float(f"{whole}.{fraction}")
    for digits in range(max(5 - len(whole.lstrip("0")), 1), -1, -1):
        below, above = (f"{number * (1 + e):.{digits + 8}f}"[:-8] for e in (-4e-6, 4e-6))
        if below == above:
            break
    return f"{below}{{{{[0-9]*}}}}{exponent}" if digits else f"{whole}.{{{{[0-9]*}}}}{exponent}"


# --- all of them ----------------------------------------------------------------------------------


def responsible(name: str, example: Example) -> bool:
    """Whether the installed JAX is the oldest supported one that has what the example needs."""
    if match := re.match(r"jax-(\d+)\.(\d+)", example.requires):
        return jax_version()[:2] == tuple(map(int, match.groups()))
    have = [v for v in VERSIONS if ops.holds(ops.OPS[name].jax, v)]
    # The tests run with 0.10 and 0.12, so what came with 0.11 is written by 0.12.
    oldest = have[0] if have and have[0] != (0, 11) else (0, 12)
    return jax_version()[:2] == (oldest if have else (0, 10))


def generated(names: Sequence[str] = ()) -> Iterator[tuple[Path, str]]:
    """Path and contents of each file that the installed JAX writes."""
    table = examples()
    for name in names or table:
        if responsible(name, table[name]):
            yield FOLDER / f"{name}.mlir", lit_test(name, table[name])


def stale(names: Sequence[str] = ()) -> list[str]:
    """The files that do not have the contents they should have."""
    files = generated(names)
    return [p.name for p, text in files if not p.exists() or p.read_text() != text]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="names of ops (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing, name stale files")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.ops if name not in examples()]:
        near = difflib.get_close_matches(unknown[0], examples(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        parser.error(f"no example of '{unknown[0]}' is in tools/lit_examples{hint}")
    if arguments.check:
        found = stale(arguments.ops)
        if found:
            print(f"stale: {', '.join(found)}; run {Path(__file__).name}", file=sys.stderr)
        return bool(found)
    for path, text in generated(arguments.ops):
        path.write_text(text)
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
