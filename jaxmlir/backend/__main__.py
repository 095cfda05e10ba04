"""``python -m jaxmlir.backend script.py args`` and ``python -m jaxmlir.backend -m module args``."""

from __future__ import annotations

import os
import runpy
import sys

from jaxmlir import backend


def main() -> None:
    """Runs a script or module as ``python`` would, with the backend enabled."""
    args = sys.argv[1:]
    if not args or args == ["-m"]:
        raise SystemExit("usage: python -m jaxmlir.backend (script.py | -m module) [arguments]")
    backend.enable()
    if args[0] == "-m":
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = args
        sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
        runpy.run_path(args[0], run_name="__main__")


main()
