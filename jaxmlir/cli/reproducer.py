"""Reproducers: files that hold a module and the pipeline that failed on it, as mlir-opt's do.

The pipeline is in the file's metadata, where MLIR's own tools look for it, too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from jaxmlir.cli.command_line import UsageError

_METADATA = re.compile(
    r"\{-#\s*external_resources:\s*\{\s*mlir_reproducer:\s*\{(?P<entries>.*?)\}\s*\}\s*#-\}\s*",
    re.DOTALL,
)
_PIPELINE = re.compile(r'pipeline:\s*(?P<text>"(?:[^"\\]|\\.)*")')
_VERIFY = re.compile(r"verify_each:\s*(true|false)")


class Reproducer(NamedTuple):
    """What a reproducer says to run.

    Attributes:
      pipeline: the passes.
      verify_each: whether to verify the program after each pass.
    """

    pipeline: str
    verify_each: bool

    def written(self, module: str) -> str:
        """The text of the file.

        Args:
          module: the text of the module.
        """
        pipeline, verify = json.dumps(self.pipeline), str(self.verify_each).lower()
        return (
            f"{module.rstrip()}\n\n"
            "{-#\n"
            "  external_resources: {\n"
            "    mlir_reproducer: {\n"
            f"      pipeline: {pipeline},\n"
            "      disable_threading: true,\n"
            f"      verify_each: {verify}\n"
            "    }\n"
            "  }\n"
            "#-}\n"
        )

    def write(self, path: str, module: str) -> None:
        """Writes the file.

        Raises:
          UsageError: it cannot be written.
        """
        try:
            Path(path).write_text(self.written(module), encoding="utf-8")
        except OSError as e:
            raise UsageError(f"cannot write the reproducer '{path}': {e.strerror}") from None


def read(text: str) -> tuple[str, Reproducer | None]:
    """The module's text, and what to run on it; ``None`` if the text is no reproducer."""
    metadata = _METADATA.search(text)
    pipeline = metadata and _PIPELINE.search(metadata["entries"])
    if metadata is None or pipeline is None:
        return text, None
    verify = _VERIFY.search(metadata["entries"])
    run = Reproducer(json.loads(pipeline["text"]), verify is None or verify[1] == "true")
    # Lines keep their numbers.
    blank = "\n" * metadata[0].count("\n")
    return text[: metadata.start()] + blank + text[metadata.end() :], run
