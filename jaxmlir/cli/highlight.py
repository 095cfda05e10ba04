"""MLIR text in colour, for a terminal."""

from __future__ import annotations

import re

# ANSI's codes: each is a terminal's own shade, on light and on dark.
_CODES = {"quiet": "2", "value": "33", "symbol": "36", "string": "32", "type": "2", "name": "1"}
_TOKEN = re.compile(
    r"""
      (?P<quiet> //.* | ^\#loc.* | \ loc\([^()]*\) )
    | (?P<name> (?: ^\s* | (?<=\ =\ ) ) (?: "[\w.$]+"(?=\() | [a-z_][\w.$]* ) )
    | (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<value> %[\w.$-]+ (?:[#:]\d+)? )
    | (?P<symbol> @[\w.$-]+ )
    | (?P<type> \b(?:tensor|vector|memref|tuple)<[^<>\n]*> | ![\w.]+(?:<[^<>\n]*>)? )
    """,
    re.VERBOSE | re.MULTILINE,
)


def highlighted(text: str) -> str:
    """The text with the codes that colour it on a terminal; it is not changed otherwise."""

    def painted(match: re.Match[str]) -> str:
        kind = match.lastgroup
        assert kind is not None
        return f"\x1b[{_CODES[kind]}m{match[0]}\x1b[0m"

    return _TOKEN.sub(painted, text)
