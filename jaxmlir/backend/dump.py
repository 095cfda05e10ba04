"""The IR of each stage in files: one folder for each compiled function."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from jaxmlir.dialect.ir import ir, module_text
from jaxmlir.passes import Instrumentation

# The numbers of the next folders, by the folder that they are in.
_numbers: dict[str, itertools.count[int]] = {}


@dataclass(frozen=True)
class Dump(Instrumentation):
    """Writes what each stage made of one function into a folder of its own."""

    folder: Path = Path()
    written: list[str] = field(default_factory=list, compare=False)

    @classmethod
    def into(cls, parent: str, name: str) -> Dump:
        name = re.sub(r"[^\w.-]+", "_", name).strip("_") or "function"
        if parent not in _numbers:
            taken = len(os.listdir(parent)) if os.path.isdir(parent) else 0
            _numbers[parent] = itertools.count(1 + taken)
        while True:
            folder = Path(parent) / f"{next(_numbers[parent]):05d}-{name}"
            # Other threads and processes make folders too.
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
                return cls(verify_each=False, folder=folder)

    @property
    def observes(self) -> bool:
        return True

    def before(self, name: str, module: ir.Module) -> None:
        pass

    def after(self, name: str, module: ir.Module) -> None:
        self.write(name, module)

    def failed(self, name: str, module: ir.Module) -> None:
        self.write(f"{name}-failed", module)

    def write(self, stage: str, module: ir.Module) -> None:
        path = self.folder / f"{len(self.written)}-{stage}.mlir"
        self.written.append(stage)
        path.write_text(module_text(module))
