"""Observing a pipeline while it runs: IR dumps, timing and statistics, as mlir-opt prints them."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from jaxlib.mlir import ir

from jaxmlir.dialect.ir import inner_ops, module_text
from jaxmlir.passes import cxx
from jaxmlir.passes.remarks import Sink, check_sink, listening

if TYPE_CHECKING:
    from jaxmlir.dialect.module import Module

_RULE = "===" + "-" * 73 + "==="


def _titled(title: str) -> list[str]:
    return [_RULE, f"... {title} report ...".center(len(_RULE)).rstrip(), _RULE]


class Timing:
    """Wall time by name; repeated measurements of a name add up."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._rows: dict[str, float] = {}

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        self._rows.setdefault(name, 0.0)
        try:
            yield
        finally:
            self._rows[name] += time.perf_counter() - start

    def report(self, *, by_time: bool = False, as_json: bool = False) -> str:
        """The times as text.

        Args:
          by_time: sort by decreasing time; by default rows are in the order of execution.
          as_json: as a list of records, as mlir-opt writes them.
        """
        total = time.perf_counter() - self._start
        rows = [*self._rows.items(), ("Rest", total - sum(self._rows.values()))]
        if by_time:
            rows.sort(key=lambda row: -row[1])
        rows.append(("Total", total))
        shares = [(name, seconds, 100 * seconds / total) for name, seconds in rows]
        if as_json:
            records = [
                {"wall": {"duration": round(s, 4), "percentage": round(percent, 1)}, "name": name}
                for name, s, percent in shares
            ]
            return json.dumps(records, indent=1)
        lines = [
            *_titled("Execution time"),
            f"  Total Execution Time: {total:.4f} seconds",
            "",
            "  ----Wall Time----  ----Name----",
        ]
        for name, seconds, percent in shares:
            lines.append(f"  {seconds:8.4f} {f'({percent:.1f}%)':>8}  {name}")
        return "\n".join(lines) + "\n"


class Statistics:
    """How each pass changed the numbers of ops and functions, summed over its runs."""

    def __init__(self) -> None:
        self._passes: dict[str, dict[str, int]] = {}
        self._before: tuple[int, int] = (0, 0)

    def before(self, module: ir.Module) -> None:
        self._before = _counts(module)

    def after(self, name: str, module: ir.Module) -> None:
        (ops, functions), (old_ops, old_functions) = _counts(module), self._before
        counts = self._passes.setdefault(name, dict.fromkeys(_COUNTED, 0))
        counts["num-runs"] += 1
        counts["ops-added"] += max(ops - old_ops, 0)
        counts["ops-removed"] += max(old_ops - ops, 0)
        counts["functions-added"] += max(functions - old_functions, 0)
        counts["functions-removed"] += max(old_functions - functions, 0)

    def report(self, *, by_name: bool = False) -> str:
        """The statistics as text; by default in the order of execution."""
        lines = _titled("Pass statistics")
        for name in sorted(self._passes) if by_name else self._passes:
            lines.append(cxx.display_name(name))
            counts = self._passes[name]
            lines += [f"  (S) {counts[key]:6} {key} - {text}" for key, text in _COUNTED.items()]
        return "\n".join(lines) + "\n"


_COUNTED = {
    "num-runs": "How often the pass ran",
    "ops-added": "Ops added on balance, in the runs that added some",
    "ops-removed": "Ops removed on balance, in the runs that removed some",
    "functions-added": "Functions added on balance",
    "functions-removed": "Functions removed on balance",
}


def _counts(module: ir.Module) -> tuple[int, int]:
    """The numbers of ops and of functions in a module."""
    names = [op.operation.name for op in inner_ops(module)]
    return len(names), names.count("func.func")


@dataclass(frozen=True)
class Instrumentation:
    """The dumps, checks and timings around each pass.

    Attributes:
      verify_each: verify the program after each pass.
      print_before, print_after: names of passes around which to dump the IR.
      print_before_all, print_after_all: dump the IR around every pass.
      print_after_change: omit the dump after a pass that did not change the IR.
      print_after_failure: dump the IR after every pass that failed, and after no other.
      debug_info: dump locations too.
      elide_over: dump constants with more elements than this as an ellipsis.
      tree_dir: the folder to write dumps to, as numbered files, instead of a stream.
      timing: where to add up how long each pass took.
      statistics: where to count what each pass did.
      keep_last: keep the running pass and the IR before it, for a reproducer.
      remarks: takes the remarks of passes, each a ``Diagnostic``.
      stream: where dumps go; ``sys.stderr`` by default.
    """

    verify_each: bool = True
    print_before: frozenset[str] = frozenset()
    print_after: frozenset[str] = frozenset()
    print_before_all: bool = False
    print_after_all: bool = False
    print_after_change: bool = False
    print_after_failure: bool = False
    debug_info: bool = False
    elide_over: int | None = None
    tree_dir: Path | None = None
    timing: Timing | None = None
    statistics: Statistics | None = None
    keep_last: bool = False
    remarks: Sink | None = field(default=None, compare=False)
    stream: TextIO | None = field(default=None, compare=False)
    last: dict[str, str] = field(default_factory=dict, compare=False)
    """The running pass, as a pipeline spells it, and the IR before it."""
    _dumped: list[Path] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        check_sink(self.remarks)

    @property
    def observes(self) -> bool:
        """Whether passes must run one by one to be observed."""
        prints = (self.print_before, self.print_before_all, self.print_after, self.print_after_all)
        others = (self.print_after_failure, self.timing, self.statistics, self.keep_last)
        return any((*prints, *others))

    def measure(self, name: str) -> contextlib.AbstractContextManager[None]:
        if self.timing is None:
            return contextlib.nullcontext()
        return self.timing.measure(cxx.display_name(name))

    def listen(self, name: str, program: Module) -> contextlib.AbstractContextManager[None]:
        """Passes the remarks of a pass on to ``remarks`` within the block."""
        return listening(self.remarks, name, program)

    def before(self, name: str, element: object, module: ir.Module) -> None:
        """Observes the IR before a pass; ``element`` is its text in the pipeline."""
        if self.print_before_all or name in self.print_before:
            self._dump("Before", name, module)
        if self.print_after_change or self.keep_last:
            self.last.update(element=str(element), text=module_text(module, debug_info=True))
        if self.statistics is not None:
            self.statistics.before(module)

    def after(self, name: str, module: ir.Module) -> None:
        if self.statistics is not None:
            self.statistics.after(name, module)
        if self.print_after_failure or not self._wants_after(name):
            return
        if self.print_after_change and self.last["text"] == module_text(module, debug_info=True):
            return
        self._dump("After", name, module)

    def failed(self, name: str, module: ir.Module) -> None:
        if self.print_after_failure or self._wants_after(name):
            self._dump("After", name, module, failed=True)

    def _wants_after(self, name: str) -> bool:
        return self.print_after_all or name in self.print_after

    def _dump(self, when: str, name: str, module: ir.Module, failed: bool = False) -> None:
        text = module_text(module, debug_info=self.debug_info, elide_over=self.elide_over)
        suffix = " Failed" if failed else ""
        head = f"// -----// IR Dump {when} {cxx.display_name(name)}{suffix} ({name}) //----- //"
        if self.tree_dir is None:
            print(f"{head}\n{text}\n", file=self.stream or sys.stderr)
            return
        folder = self.tree_dir / "builtin_module_no-symbol-name"
        folder.mkdir(parents=True, exist_ok=True)
        mark = "before_" if when == "Before" else ""
        path = folder / f"{len(self._dumped)}_{mark}{name}.mlir"
        path.write_text(f"{head}\n{text}", encoding="utf-8")
        self._dumped.append(path)
