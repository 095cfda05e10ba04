"""Lint of types: pyright must know the types of most public names, and see mistakes in a script.

    python tools/lint_types.py            fails if the share of known types is too small
    python tools/lint_types.py --list     also prints each name whose type is not known, and why

A name is public if its modules and classes have no leading underscore.  Without pyright or Node.js
nothing is checked, and the last line of output says so.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 0.95
"""The least share of names whose type has to be known."""


MISTAKES = """\
import jaxmlir

program = jaxmlir.load("model.jaxmlir")
program.optimise(2)
program.grad(argnum=1)
program.vjp().save("backward.jaxmlir")
"""
"""A user's script, in which each line after the first three is an error."""


def pyright(root: Path, *arguments: str) -> dict:
    """The report of pyright, with the package taken from a folder."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=env, cwd=root)
    return json.loads(done.stdout)


def completeness(root: Path) -> dict:
    """The report of ``pyright --verifytypes jaxmlir`` about the package in a folder."""
    return pyright(root, "--ignoreexternal", "--verifytypes", "jaxmlir")["typeCompleteness"]


def unnoticed(root: Path) -> list[str]:
    """The lines of :data:`MISTAKES` for which pyright reports no error."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(MISTAKES)
        found = pyright(root, str(script))["generalDiagnostics"]
    seen = {d["range"]["start"]["line"] for d in found}
    return [line for i, line in enumerate(MISTAKES.splitlines()) if i > 2 and i not in seen]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the names that are not known")
    arguments = parser.parse_args(argv)
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        print("types: skipped, because pyright or Node.js is not installed")
        return 0
    found = completeness(ROOT)
    for symbol in found["symbols"] if arguments.list else ():
        if symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]):
            print(symbol["name"], *(d["message"] for d in symbol["diagnostics"]), sep="\n  ")
    score = found["completenessScore"]
    if score < LEAST:
        print(f"types: {score:.1%} of the public names are known to pyright, expected {LEAST:.0%}")
        print("python tools/lint_types.py --list says which are not")
    missed = unnoticed(ROOT)
    for line in missed:
        print(f"types: pyright does not report the error in {line}")
    return int(score < LEAST or bool(missed))


if __name__ == "__main__":
    sys.exit(main())
