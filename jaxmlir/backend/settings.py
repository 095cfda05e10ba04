"""What the backend does with a program between import and lowering."""

from __future__ import annotations

import os
from dataclasses import dataclass

from jaxmlir.passes import parse_pipeline


@dataclass(frozen=True)
class Settings:
    """How programs are compiled.

    Attributes:
      pipeline: the passes that run on every program.
      round_trip: print every program and go on with what is parsed from the text.
      dump_to: a folder that gets one folder for each compiled function, with the IR of each stage.
    """

    pipeline: str = ""
    round_trip: bool = False
    dump_to: str = ""

    def __post_init__(self) -> None:
        if self.pipeline:
            parse_pipeline(self.pipeline)

    @classmethod
    def given(
        cls,
        pipeline: str | None,
        round_trip: bool | None,
        dump_to: str | os.PathLike[str] | None,
    ) -> Settings:
        """Settings, those that are ``None`` from the environment."""
        read = os.environ.get
        if pipeline is None:
            pipeline = read("JAXMLIR_PIPELINE", "")
        if round_trip is None:
            round_trip = read("JAXMLIR_ROUND_TRIP", "0") not in ("", "0")
        if dump_to is None:
            dump_to = read("JAXMLIR_DUMP_TO", "")
        return cls(pipeline, round_trip, os.fspath(dump_to))
