"""Looking at a pipeline while it runs: IR dumps and a timing report, as mlir-opt prints them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import field
from typing import TextIO

from jaxlib.mlir import ir

from jaxmlir.dialect.ir import module_text
from jaxmlir.passes import cxx
from jaxmlir.passes.remarks import Sink, listening
from jaxmlir.support.dataclasses import dataclass

_RULE = "===" + "-" * 73 + "==="
_TITLE = "... Execution time report ..."


class Timing:
    """Wall time by name; a name that is measured twice is summed."""

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

    def report(self) -> str:
        total = time.perf_counter() - self._start
        rest = total - sum(self._rows.values())
        rows = [*self._rows.items(), ("Rest", rest), ("Total", total)]
        lines = [
            _RULE,
            _TITLE.center(len(_RULE)).rstrip(),
            _RULE,
            f"  Total Execution Time: {total:.4f} seconds",
            "",
            "  ----Wall Time----  ----Name----",
        ]
        for name, seconds in rows:
            percent = f"({100 * seconds / total:.1f}%)"
            lines.append(f"  {seconds:8.4f} {percent:>8}  {name}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Instrumentation:
    """The dumps, checks and timings around each pass.

    Attributes:
      verify_each: verify the program after each pass.
      print_before, print_after: names of passes around which to dump the IR.
      print_before_all, print_after_all: dump the IR around every pass.
      print_after_change: of the dumps after a pass, only those of passes that changed the IR.
      print_after_failure: dump the IR after a pass only, and always, where it failed.
      debug_info: dump locations too.
      elide_over: dump constants of more elements as an ellipsis.
      timing: where to add up how long each pass took.
      remarks: takes what passes say they did, each a ``Diagnostic``.
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
    timing: Timing | None = None
    remarks: Sink | None = field(default=None, compare=False)
    stream: TextIO | None = field(default=None, compare=False)
    # The IR before the pass that is running.
    _texts: list[str] = field(default_factory=list, compare=False)

    @property
    def observes(self) -> bool:
        """Whether passes must run one by one to be seen."""
        return bool(
            self.print_before
            or self.print_after
            or self.print_before_all
            or self.print_after_all
            or self.print_after_failure
            or self.timing
        )

    def measure(self, name: str) -> contextlib.AbstractContextManager[None]:
        if self.timing is None:
            return contextlib.nullcontext()
        return self.timing.measure(cxx.display_name(name))

    def listen(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Hears the remarks of a pass."""
        return listening(self.remarks, name)

    def before(self, name: str, module: ir.Module) -> None:
        if self.print_before_all or name in self.print_before:
            self._dump("Before", name, module)
        if self.print_after_change:
            self._texts[:] = [module_text(module, debug_info=True)]

    def after(self, name: str, module: ir.Module) -> None:
        if self.print_after_failure or not self._wants_after(name):
            return
        if self.print_after_change and self._texts == [module_text(module, debug_info=True)]:
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
        print(
            f"// -----// IR Dump {when} {cxx.display_name(name)}{suffix} ({name}) //----- //\n"
            f"{text}\n",
            file=self.stream or sys.stderr,
        )
