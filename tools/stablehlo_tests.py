"""Runs StableHLO's own tests through the dialect: programs with expected results in them.

    python tools/stablehlo_tests.py CHECKOUT                    all of them
    python tools/stablehlo_tests.py CHECKOUT --select reduce    files whose path matches
    python tools/stablehlo_tests.py CHECKOUT --sample 100       100 of them, evenly spread

``CHECKOUT`` is a checkout of github.com/openxla/stablehlo.  The tests in
``stablehlo/tests/interpret`` are written by hand, one or more modules to a file, and use
``check.expect_*`` ops.  JAX generated those in ``stablehlo/testdata``, which use custom calls of
these names.  This tool turns the values that a check compares into results and removes the check.
It raises, verifies and runs the module, and compares the results.

A test passes, fails, or is refused: an op has no counterpart in JAX, and the error names the op.
The exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import jax  # noqa: E402
import numpy as np  # noqa: E402
from tool_options import positive, regex  # noqa: E402

import jaxmlir  # noqa: E402
from jaxmlir.dialect.ir import func, functions, ir, parse_module, scope  # noqa: E402
from jaxmlir.errors import DiagnosticError, ImportingError  # noqa: E402

FOLDERS = ("stablehlo/tests/interpret", "stablehlo/testdata")

# Tests that are not expected to pass: pattern of the name, ``file:number:function`` -> why.
EXCLUDED = {
    r"^(check|probe|printing|api_input_arguments)\.mlir:": "a test of the interpreter itself",
    r"^dot_general\.mlir:\d+:dot_general_op_test_algorithm$": "JAX has no TF32 on a CPU",
    r"^(ceil|floor)\.mlir:\d+:\w+_f(32|64)$": "XLA on a CPU flushes denormal numbers to zero",
}

_CHECK = re.compile(
    r"(?P<name>check\.expect\w+)\s+(?P<operands>%[\w#.]+(?:,\s*%[\w#.]+)*)"
    r"(?:,\s*(?P<value>dense<.*?>))?\s*(?P<more>(?:,\s*\w+ = [^:]*?)*)\s*:\s*"
    r"(?P<types>tensor<[^\n]*)",
    re.DOTALL,
)


def generic(text: str) -> str:
    """The text with ``check`` ops in MLIR's generic form: no parser here knows their custom one."""

    def rewrite(match: re.Match[str]) -> str:
        operands = match["operands"].split(",")
        types = match["types"].strip()
        first = re.match(r"tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>", types)
        given = ", ".join([first[0] if first else types] * len(operands))
        value = f"value = {match['value']} : {first[0]}" if match["value"] and first else ""
        return f'"{match["name"]}"({match["operands"]}) {{{value}}} : ({given}) -> ()'

    return _CHECK.sub(rewrite, text)


class Skipped(Exception):
    """The test compares nothing."""


def checks_as_results(function: func.FuncOp) -> list[tuple[str, np.ndarray | None]]:
    """Makes a function return the values that its checks compare, in the order of the checks.

    Returns:
      For each check its name and the expected value.  ``None`` if the expected value is computed:
      then it is the result after the one that it is compared with.
    """
    from jaxmlir.dialect import codec

    block = function.entry_block
    found, values = [], []
    for op in list(block.operations):
        name = op.operation.name
        if name == "stablehlo.custom_call":
            name = ir.StringAttr(op.attributes["call_target_name"]).value
        if not name.startswith("check."):
            continue
        has_value = "value" in op.attributes and "call_target_name" not in op.attributes
        expected = codec.decode(op.attributes["value"]) if has_value else None
        found.append((name, expected))
        values += list(op.operands)
        for result in op.results:
            if next(result.uses, None) is not None:
                raise Skipped("the result of a check is used")
        op.operation.erase()
    if not found:
        raise Skipped("it checks nothing")
    ir.InsertionPoint.at_block_terminator(block).ref_operation.erase()
    with ir.InsertionPoint(block):
        ir.Operation.create("func.return", [], values, loc=ir.Location.unknown())
    types = [v.type for v in block.arguments], [v.type for v in values]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    for key in ("res_attrs", "arg_attrs"):
        if key in function.attributes:
            del function.attributes[key]
    return found


def tests_of(path: Path) -> Iterator[tuple[str, Any, list[tuple[str, np.ndarray | None]]]]:
    """The tests of a file: name, module whose only public function is the test, and checks."""
    pieces = re.split(r"(?m)^// -----.*$", path.read_text())
    for k, piece in enumerate(pieces):
        text = generic(piece)
        with scope():
            names = list(functions(parse_module(text)))
            called = set(re.findall(r"(?:call|decomposition = |@)@?([\w.$]+)", text))
        for name in names:
            with scope():
                module = parse_module(text)
                here = functions(module)
                if here[name].arguments or (name in called and name != "main" and len(names) > 1):
                    continue
                try:
                    checks = checks_as_results(here[name])
                except Skipped:
                    continue
                for other, function in here.items():
                    kind = "public" if other == name else "private"
                    function.attributes["sym_visibility"] = ir.StringAttr.get(kind)
            yield f"{path.name}:{k}:{name}", module, checks


# How far results may be apart, in units in the last place of the largest number: the expected
# results come from another, older compiler.
ULPS = 256


def compare(name: str, got: np.ndarray, want: np.ndarray) -> str | None:
    """Says what is wrong with a result; ``None`` if nothing is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    exact = name.endswith(("expect_eq", "expect_eq_const", ".eq"))
    if exact or not jax.numpy.issubdtype(got.dtype, np.inexact):
        same = (got == want) | ((got != got) & (want != want))
    else:
        eps = float(jax.numpy.finfo(got.dtype).eps)
        wide = np.complex128 if jax.numpy.iscomplexobj(got) else np.float64
        got, want = got.astype(wide), want.astype(wide)
        finite = np.isfinite(got) & np.isfinite(want)
        scale = np.max(np.abs(want), initial=1.0, where=finite)
        with np.errstate(all="ignore"):
            # The "almost" check has the interpreter's own tolerance, the other several roundings.
            bound = 1e-3 if "almost" in name else 0.0
            near = np.abs(got - want) <= max(ULPS * eps * scale, bound)
            same = np.where(finite, near, (got == want) | (np.isnan(got) & np.isnan(want)))
    if np.all(same):
        return None
    i = int(np.argmin(np.reshape(same, -1)))
    wrong = int(np.size(same) - np.sum(same))
    return (
        f"{wrong} of {np.size(same)} differ: {got.reshape(-1)[i]}, expected {want.reshape(-1)[i]}"
    )


def outcome(module: Any, checks: Sequence[tuple[str, np.ndarray | None]]) -> tuple[str, str]:
    """Returns ``passed``, ``refused`` or ``failed``, and the reason."""
    try:
        program = jaxmlir.from_stablehlo(module)
    except ImportingError as e:
        return "refused", str(e)
    except DiagnosticError as e:
        return "failed", str(e)
    with jax.enable_x64(True):
        results = program()
    flat = iter([np.asarray(x) for x in jax.tree.leaves(results)])
    for k, (name, expected) in enumerate(checks):
        got = next(flat)
        want = next(flat) if expected is None else expected
        wrong = compare(name, got, want)
        if wrong is not None:
            return "failed", f"check {k}: {wrong}"
    return "passed", ""


def files(checkout: Path, select: re.Pattern[str] | None) -> list[Path]:
    """The files with tests, sorted by name."""
    found = []
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.mlir")):
            text = path.as_posix()
            if (select is None or select.search(text)) and "check." in path.read_text():
                found.append(path)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="checkout of openxla/stablehlo")
    parser.add_argument(
        "--select", metavar="REGEX", type=regex, help="only files whose path matches"
    )
    parser.add_argument(
        "--sample", metavar="N", type=positive, help="only about N files, spread out"
    )
    options = parser.parse_args(argv)
    chosen = files(options.checkout, options.select)
    if not chosen:
        parser.error("no file with checks matches")
    if options.sample:
        chosen = chosen[:: max(1, len(chosen) // options.sample)]
    counts: Counter[str] = Counter()
    for k, path in enumerate(chosen):
        if k % 100 == 99:
            jax.clear_caches()
        try:
            tests = list(tests_of(path))
        except DiagnosticError as e:
            if "!quant.uniform" in path.read_text():
                counts["of quantised types"] += 1
                continue
            # The file needs another version of StableHLO than jaxlib has.
            counts["not parsed"] += 1
            print(f"not parsed {path.name}: {str(e).splitlines()[0][:200]}")
            continue
        for name, module, checks in tests:
            reasons = [why for pattern, why in EXCLUDED.items() if re.search(pattern, name)]
            try:
                kind, why = ("excluded", reasons[0]) if reasons else outcome(module, checks)
            except Exception as e:
                kind, why = "failed", f"{type(e).__name__}: {e}"
            counts[kind] += 1
            if kind != "passed":
                print(f"{kind} {name}: {' '.join(why.split())[:300]}", flush=True)
    print(f"{len(chosen)} files: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
