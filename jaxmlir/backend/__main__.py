"""``python -m jaxmlir.backend script.py args`` and ``python -m jaxmlir.backend -m module args``."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

from jaxmlir import backend

TOOL = "python -m jaxmlir.backend"
USAGE = f"usage: {TOOL} (script.py | -m module) [arguments]"


def main() -> None:
    """Runs a script or module as ``python`` would, with the backend enabled."""
    args = sys.argv[1:]
    if args[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    if not args or args == ["-m"] or (args[0] != "-m" and args[0].startswith("-")):
        raise SystemExit(USAGE)
    if args[0] == "-m" and not _is_module(args[1]):
        raise SystemExit(f"{TOOL}: there is no module '{args[1]}'")
    if args[0] != "-m" and not os.path.exists(args[0]):
        raise SystemExit(f"{TOOL}: there is no file '{args[0]}'")
    backend.enable()
    if args[0] == "-m":
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = args
        sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
        runpy.run_path(args[0], run_name="__main__")


def _is_module(name: str) -> bool:
    """Whether there is a module of that name; only the packages around it are imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False


main()
