"""Reproducers: files that hold a module and the pipeline that failed on it, as mlir-opt's do.

The pipeline is in the file's metadata, where MLIR's own tools look for it, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from jaxmlir.cli.command_line import UsageError
from jaxmlir.dialect.ir import context, diagnostics_of, ir
from jaxmlir.errors import ParseError

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
        verify = str(self.verify_each).lower()
        with context():
            pipeline = ir.StringAttr.get(self.pipeline)
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
    """The module's text, and what to run on it; ``None`` if the text is no reproducer.

    Raises:
      ParseError: the pipeline is no string of MLIR.
    """
    metadata = _METADATA.search(text)
    pipeline = metadata and _PIPELINE.search(metadata["entries"])
    if metadata is None or pipeline is None:
        return text, None
    verify = _VERIFY.search(metadata["entries"])
    with context():
        try:
            passes = ir.StringAttr(ir.Attribute.parse(pipeline["text"])).value
        except ir.MLIRError as e:
            message = f"the pipeline of the reproducer: {diagnostics_of(e)[0].message}"
            raise ParseError(message) from None
    run = Reproducer(passes, verify is None or verify[1] == "true")
    # Lines keep their numbers.
    blank = "\n" * metadata[0].count("\n")
    return text[: metadata.start()] + blank + text[metadata.end() :], run
